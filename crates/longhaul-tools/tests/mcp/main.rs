//! MCP servers: real ones, and one that misbehaves in every way we thought of.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
#![expect(clippy::print_stdout, reason = "what is skipped must be seen")]

#[path = "../fixture/mod.rs"]
mod fixture;
mod hostile_servers;
mod real_servers;
mod restarted_servers;
mod rig;
