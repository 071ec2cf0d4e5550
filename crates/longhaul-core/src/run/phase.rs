//! Where a run stands in its step.

use serde::{Deserialize, Serialize};

use crate::conversation::ModelFailureKind;
use crate::event::{Aside, Purpose, Rest};
use crate::ids::Attempt;

/// Where in its current step a running run stands. Survives pausing unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Phase {
    /// No step in hand: before the first, after the last, or while others are waited for.
    #[serde(alias = "gated", alias = "cleared")]
    Idle,
    /// The step has begun; no turn has.
    Opened,
    Thinking {
        turn: u32,
        attempt: Attempt,
    },
    /// The model did not answer; waiting to ask again.
    Resting {
        turn: u32,
        attempt: Attempt,
        rest: Rest,
        #[serde(default)]
        kind: ModelFailureKind,
    },
    /// Working through the calls of a turn, in order.
    Calling {
        turn: u32,
    },
    /// The model gave its final answer for the step.
    Answered {
        turn: u32,
    },
    /// The model's words ran into the limit of output tokens; it is asked to go on.
    CutOff {
        turn: u32,
    },
    /// The harness looks at the work.
    Examining {
        turn: u32,
        round: u32,
        attempt: Attempt,
        purpose: Purpose,
    },
    /// Something is asked beside the conversation, before `turn`.
    Aside {
        aside: Aside,
        turn: u32,
        attempt: Attempt,
    },
    /// Nobody answered that; waiting to ask again.
    AsideResting {
        aside: Aside,
        turn: u32,
        attempt: Attempt,
        rest: Rest,
        kind: ModelFailureKind,
    },
}
