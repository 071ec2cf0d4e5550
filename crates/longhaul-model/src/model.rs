//! The trait every provider implements. It owns the shape of one model call and nothing of any provider.

use longhaul_core::conversation::{ModelFailure, ModelReply, ModelRequest};

pub use futures_util::future::BoxFuture;

/// Something that answers a conversation's next turn.
///
/// Implemented by each provider of this crate and by test doubles; called by the engine's performer of
/// `CallModel`, and by nothing else.
pub trait Model: Send + Sync {
    /// Asks once. Dropping the future cancels the call; retrying is the caller's decision, by the failure's kind.
    fn call<'a>(
        &'a self,
        request: ModelRequest,
        deltas: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelReply, ModelFailure>>;

    /// How many tokens a request and its reply may have together.
    fn context_window(&self) -> u64;

    /// How many of these are kept for the reply, if the provider counts them as used.
    fn reply_room(&self) -> u64 {
        0
    }

    /// How many tokens the request has: by the provider's own count where it has one, else by an estimate that is rather
    /// too high.
    fn count<'a>(&'a self, request: &'a ModelRequest) -> BoxFuture<'a, u64>;

    /// Where and with which key it is asked, in a form that gives neither away; nothing if there is no key.
    fn account(&self) -> Option<&str> {
        None
    }

    /// Is it known what it charges? Without that no budget of money can be kept.
    fn is_priced(&self) -> bool {
        true
    }
}

/// Hears the reply's text while it is still arriving.
///
/// Implemented by the live view and by `Quiet`; called by models. What is heard here is shown and never remembered:
/// the reply is the truth, and a failed call may have streamed half a sentence.
pub trait Deltas: Send + Sync {
    fn text(&self, piece: &str);

    /// A line that a tool printed while it runs.
    fn printed(&self, line: &str) {
        let _ = line;
    }
}

/// Deltas for callers that only want the reply.
#[derive(Clone, Copy, Debug)]
pub struct Quiet;

impl Deltas for Quiet {
    fn text(&self, _piece: &str) {}
}
