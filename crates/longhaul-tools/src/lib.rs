//! What a model may call.
//!
//! Owns the built-in tools, the child processes they start, and the box they are found in by name. Refuses to decide
//! whether a call is allowed, to retry one, or to remember it: a tool gets arguments and answers with an outcome.

mod arguments;
mod ask_human;
mod bash;
mod cancel;
mod capture;
mod change;
mod child;
mod edit;
pub mod limits;
pub mod mcp;
mod process;
mod read;
mod table;
mod tool;
mod toolbox;
mod write;

pub use ask_human::AskHuman;
pub use bash::Bash;
pub use cancel::{Cancel, CancelSwitch};
pub use edit::Edit;
pub use process::reap_leftovers;
pub use read::Read;
pub use tool::{Blobs, BoxFuture, Context, Tool, ToolSpec};
pub use toolbox::{Toolbox, UnknownTool};
pub use write::Write;
