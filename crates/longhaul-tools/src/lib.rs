//! What a model may call.
//!
//! Owns the built-in tools, the child processes they start, what holds those, and the box they are found in by name. Refuses to decide
//! whether a call is allowed, to retry one, or to remember it: a tool gets arguments and answers with an outcome.

mod arguments;
pub mod attacks;
mod bash;
mod cancel;
mod capture;
mod change;
mod child;
mod edit;
pub mod limits;
mod process;
mod read;
pub mod sandbox;
mod table;
mod tool;
mod toolbox;
mod write;

pub use bash::Bash;
pub use cancel::{Cancel, CancelSwitch};
pub use edit::Edit;
pub use process::reap_leftovers;
pub use read::Read;
pub use sandbox::Sandbox;
pub use tool::{Blobs, BoxFuture, Context, Tool, ToolSpec};
pub use toolbox::{Toolbox, UnknownTool};
pub use write::Write;
