//! The fake provider, asked by the real client: what it says on each protocol, and that every fault is noticed as what
//! it is.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod ask;
mod contract;
mod faults;
mod images;
mod refusing;
mod server;
