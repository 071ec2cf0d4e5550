//! Models: the trait every provider implements, and scripted playback.
