//! What a model may call.
//!
//! Owns the built-in tools, the child processes they start, what holds those, and the box they are found in by name. Refuses to decide
//! whether a call is allowed, to retry one, or to remember it: a tool gets arguments and answers with an outcome.

mod apply_patch;
mod arguments;
mod ask_human;
pub mod attacks;
mod bash;
mod bash_kill;
mod bash_output;
mod cancel;
mod capture;
mod change;
mod child;
mod edit;
mod fetch;
mod git;
mod glob;
mod grep;
mod handoff;
pub mod hooks;
mod html;
mod http;
mod image;
mod jobs;
pub mod limits;
mod lines;
mod list;
pub mod mcp;
mod nearby;
mod notebook;
mod output;
mod patch;
mod patience;
mod pattern;
mod process;
mod read;
mod rules;
pub mod sandbox;
mod search;
mod shell;
mod table;
mod tag;
mod todo;
mod tool;
mod toolbox;
mod walk;
mod write;

pub use apply_patch::ApplyPatch;
pub use ask_human::AskHuman;
pub use bash::Bash;
pub use cancel::{Cancel, CancelSwitch};
pub use edit::Edit;
pub use fetch::{Fetch, Resolve};
pub use git::{GitAdd, GitBlame, GitBranch, GitCommit, GitDiff, GitLog, GitShow, GitStatus};
pub use glob::Glob;
pub use grep::Grep;
pub use handoff::WriteHandoff;
pub use list::List;
pub use process::reap_leftovers;
pub use read::Read;
pub use sandbox::Sandbox;
pub use todo::Todo;
pub use tool::{Blobs, BoxFuture, Context, Printed, Tool, ToolSpec, Unheard};
pub use toolbox::{Toolbox, UnknownTool};
pub use write::Write;
