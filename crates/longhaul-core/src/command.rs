//! What a person or another process may ask of a run.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::conduct::Looping;
use crate::ids::CommandId;
use crate::plan::Plan;
use crate::spec::Limits;

/// A command with the id under which it is applied once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    pub id: CommandId,
    #[serde(flatten)]
    pub wish: Wish,
}

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "wish", rename_all = "snake_case")]
pub enum Wish {
    /// Go on from created or paused, with other limits or another model if given.
    #[n(0)]
    Start {
        #[n(0)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        limits: Option<Limits>,
        #[n(1)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// Other iterations or another promise, for a loop.
        #[n(2)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        looping: Option<Looping>,
    },
    #[n(1)]
    Pause {
        #[n(0)]
        reason: String,
    },
    #[n(2)]
    Stop {
        #[n(0)]
        reason: String,
    },
    #[n(3)]
    Approve {
        #[n(0)]
        gate: u32,
        /// Of what was shown to whoever approved; an approval of something else does not count.
        #[n(1)]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
    },
    #[n(4)]
    Reject {
        #[n(0)]
        gate: u32,
        #[n(1)]
        reason: String,
    },
    /// Answer a question.
    #[n(5)]
    Answer {
        #[n(0)]
        gate: u32,
        #[n(1)]
        text: String,
    },
    /// Have the planner make a plan, before the first step or for what is left.
    #[n(6)]
    Plan,
    /// Another plan for what is not done yet.
    #[n(7)]
    Replan {
        #[n(0)]
        plan: Plan,
    },
    /// Make a checkpoint with a name.
    #[n(8)]
    Checkpoint {
        #[n(0)]
        name: String,
    },
}

impl Wish {
    /// Does work follow from it that only a driver can do?
    pub fn is_answer(&self) -> bool {
        self.gate().is_some()
    }

    /// Does it want an end of the work, for now or for good?
    pub fn is_rest(&self) -> bool {
        matches!(self, Wish::Pause { .. } | Wish::Stop { .. })
    }

    /// The approval that it answers, if it does.
    pub fn gate(&self) -> Option<u32> {
        match self {
            Wish::Approve { gate, .. } | Wish::Reject { gate, .. } | Wish::Answer { gate, .. } => Some(*gate),
            Wish::Start { .. }
            | Wish::Pause { .. }
            | Wish::Stop { .. }
            | Wish::Plan
            | Wish::Replan { .. }
            | Wish::Checkpoint { .. } => None,
        }
    }

    pub fn verb(&self) -> &'static str {
        match self {
            Wish::Start { .. } => "start",
            Wish::Pause { .. } => "pause",
            Wish::Stop { .. } => "stop",
            Wish::Approve { .. } => "approve",
            Wish::Reject { .. } => "reject",
            Wish::Answer { .. } => "answer",
            Wish::Plan => "plan",
            Wish::Replan { .. } => "replan",
            Wish::Checkpoint { .. } => "checkpoint",
        }
    }
}
