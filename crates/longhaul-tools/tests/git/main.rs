//! The git tools over real repositories: what they show, what they do once, and whose code they never run.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::print_stdout, reason = "what is skipped must be seen")]

mod attacks;
#[path = "../fixture/mod.rs"]
mod fixture;
mod outside;
mod pushing;
mod reading;
mod repo;
mod writing;
