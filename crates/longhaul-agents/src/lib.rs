//! Who works: agent files, the rosters they are found in, and what a repository asks of every agent.
//!
//! Owns what an agent file may say and every way in which it may be wrong. Refuses to decide what a run makes of it: each
//! field is an option, and what it means beside settings and arguments is for whoever creates the run.

mod agent;
mod check;
pub mod limits;
mod matter;
mod roster;
mod rules;

pub use agent::{Agent, AgentLimits, Compaction, Engine, HarnessConfig, Origin, ProtectPolicy};
pub use check::BadAgent;
pub use roster::{GENERIC, Group, Listed, NAMED, Place, Roster};
pub use rules::{Rules, project_rules};
