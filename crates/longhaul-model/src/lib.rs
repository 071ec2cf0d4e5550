//! Models: the trait every provider implements, how a model's name finds its provider, and scripted playback.
//!
//! This crate owns the way to a model and back: one request goes out, one reply or one classified failure comes in.
//! It refuses to decide anything about a run. It does not retry, count money against a budget, keep history or run
//! tools; it says what happened and whether asking again could help. Each provider is a folder of its own.

pub mod fake;
pub mod known;
pub mod limits;
mod model;
pub mod provider;
mod registry;
pub mod scripted;
pub mod tokens;
pub mod wire;

pub use model::{BoxFuture, Deltas, Model, Quiet};
pub use provider::{Limiter, Provider, ProviderConfig};
pub use registry::{Models, ResolveError};
pub use scripted::{Part, Recording, Replied, ScriptError, Scripted};
