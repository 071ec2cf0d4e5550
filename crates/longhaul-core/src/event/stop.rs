//! What follows when an agent stops, or when its conversation cannot go on: its work is looked at, something is asked beside
//! the conversation, or it is begun anew.

use minicbor::{Decode, Encode};

/// What follows when an agent stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum StopAction {
    /// The work is shown to be done.
    #[n(0)]
    Complete,
    /// Fresh context, same mission.
    #[n(1)]
    Restart,
    /// The same conversation goes on.
    #[n(2)]
    Continue,
    /// No iterations are left.
    #[n(3)]
    Limit,
    /// A person has to look.
    #[n(4)]
    Pause,
}

/// What the work is looked at for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Purpose {
    /// The agent says it is done: the verify commands run.
    #[n(0)]
    Claim,
    /// It stopped without saying so.
    #[n(1)]
    Stop,
    /// The conversation is to be begun anew, wherever it stands.
    #[n(2)]
    FreshStart {
        #[n(0)]
        why: FreshStart,
    },
    /// Nothing has begun: what there is now is what changes are told from.
    #[n(3)]
    Baseline,
    /// All steps are done, some of them by others: the verify commands of the run go over the whole.
    #[n(4)]
    Whole,
}

impl Purpose {
    /// Is it said that something is done, so that the verify commands run?
    pub fn is_claim(self) -> bool {
        match self {
            Purpose::Claim | Purpose::Whole => true,
            Purpose::Stop | Purpose::FreshStart { .. } | Purpose::Baseline => false,
        }
    }
}

/// Why a conversation is begun anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum FreshStart {
    /// The agent stopped without keeping its promise.
    #[n(0)]
    NoPromise,
    /// It said it was done, and was not.
    #[n(1)]
    Refuted,
    /// The window is full, and compaction no longer helps.
    #[n(2)]
    Context,
    /// It went round in circles.
    #[n(3)]
    DoomLoop,
    /// It reached a limit of one conversation.
    #[n(4)]
    Limit,
}

/// What is asked beside the conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Aside {
    /// A summary of the messages before this place, to make room.
    #[n(0)]
    Compaction {
        #[n(0)]
        before: u32,
    },
    /// A summary of the iteration that ends, for the next.
    #[n(1)]
    Iteration {
        #[n(0)]
        why: FreshStart,
    },
    /// Whether the work is what was asked for.
    #[n(2)]
    Judgement,
    /// What steps the task has.
    #[n(3)]
    Planning {
        #[n(0)]
        round: u32,
    },
}
