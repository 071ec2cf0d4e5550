//! The joining: what core decides is remembered by the store and done by models and tools.
//!
//! [`driver`] holds the one function of the whole program: decide, append, apply, perform. [`harness`] is the door
//! through which terminals and servers come in. Decisions are core's; this crate makes none.

pub mod accounts;
mod answers;
pub mod asking;
mod branches;
pub mod catalogue;
pub mod checkpoints;
pub mod children;
pub mod clock;
pub mod driver;
mod error;
pub mod exchange;
pub mod fold;
pub mod forking;
pub mod harness;
pub mod ledger;
pub mod limits;
mod listing;
pub mod log;
mod needs;
pub mod notify;
pub mod perform;
mod pictures;
mod retention;
pub mod rewind;
mod secrets;
mod spent;
pub mod undo;
pub mod watch;

pub use answers::{Asked, Claim, Given};
pub use children::Crew;
pub use driver::Ending;
pub use error::{Error, Unreadable};
pub use fold::Onlooker;
pub use harness::{Driven, Handle, Harness, Opening};
pub use secrets::Secrets;
