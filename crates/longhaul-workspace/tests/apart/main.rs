//! A run's worktree has a git directory of its own, and what is committed there comes home.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod homing;
mod mending;
mod parting;
mod rig;
