//! Git for a model: looking at a repository, staging, committing, branching, pushing.
//!
//! One file for each tool; `repository` is the only way to git for all of them, and `revision` and `path` turn what a model
//! names into what cannot be mistaken for an option. Refuses everything that moves files of the workspace (checkout, merge,
//! reset): that is for `bash`, where the user's rules and the sandbox hold it. `push` alone leaves the machine.

mod add;
mod blame;
mod branch;
mod commit;
mod diff;
mod identity;
mod log;
mod path;
mod push;
mod repository;
mod show;
mod stat;
mod status;

use serde::Serialize;

pub use add::GitAdd;
pub use blame::GitBlame;
pub use branch::GitBranch;
pub use commit::GitCommit;
pub use diff::GitDiff;
pub use log::GitLog;
pub use push::GitPush;
pub use show::GitShow;
pub use status::GitStatus;

/// One line of JSON, its fields in the order in which they are declared.
fn line(value: &impl Serialize) -> String {
    // Only maps with odd keys and failing serializers cannot be written; there are none here.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}
