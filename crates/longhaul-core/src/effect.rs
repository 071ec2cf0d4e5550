//! What must be done, in the imperative. Effects are small: whoever performs one looks up the details in the run.

use crate::event::{Aside, Purpose, Rest};
use crate::ids::{Attempt, CallId};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    CallModel {
        turn: u32,
        attempt: Attempt,
    },
    /// Look at what a checkable call would change, changing nothing.
    PrepareTool {
        call: CallId,
        attempt: Attempt,
    },
    RunTool {
        call: CallId,
        attempt: Attempt,
    },
    /// Look whether a checkable call that was cut short took effect.
    CheckTool {
        call: CallId,
        attempt: Attempt,
    },
    /// Look at the work, running the verify commands if the agent says it is done.
    Examine {
        round: u32,
        attempt: Attempt,
        purpose: Purpose,
    },
    /// Ask a model something beside the conversation.
    AskAside {
        aside: Aside,
        attempt: Attempt,
    },
    /// Start a child if it is not there yet, and see it through to where it rests.
    Attend {
        child: u32,
    },
    /// Wait until somebody has answered a child that waits for a person.
    AwaitAnswer {
        child: u32,
    },
    /// Stop a child for good.
    EndChild {
        child: u32,
        reason: String,
    },
    Sleep {
        wake: Wake,
        rest: Rest,
    },
    /// End everything under way; each still reports how it ended.
    CancelWork,
}

/// What a timer was set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    Turn {
        turn: u32,
        attempt: Attempt,
    },
    Call {
        call: CallId,
        attempt: Attempt,
    },
    /// What is asked beside the conversation may be asked again.
    Aside {
        aside: Aside,
        attempt: Attempt,
    },
    /// The run's time is up.
    Deadline,
}
