//! The joining: driver, performers, recovery and timers.
