//! The three wire protocols: what is sent, what is read, and what a bad server can do.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod alike;
mod cache;
mod contract;
mod count;
mod errors;
mod events;
mod http;
mod requests;
mod server;
mod speak;
mod sse;
