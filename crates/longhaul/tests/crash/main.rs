//! The built program, killed, starved and crossed. Each module is one way to treat it badly.
