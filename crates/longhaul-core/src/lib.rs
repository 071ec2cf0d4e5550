//! Every decision longhaul makes, as pure functions over runs.

pub mod conversation;
pub mod ids;
pub mod json;
pub mod limits;
pub mod money;
pub mod status;
pub mod time;
pub mod tool;
