//! The directory an agent works in, and how it is reached safely.
