//! What comes back from models and tools, before anybody reads it: without the providers' keys, and with tools by their own names.

use std::sync::Arc;

use longhaul_core::child::ChildEnding;
use longhaul_core::conversation::ModelFailure;
use longhaul_core::event::Kept;
use longhaul_core::input::Input;
use longhaul_model::Deltas;
use longhaul_tools::{Printed, Toolbox};

use crate::secrets::Secrets;

/// What tools print, on its way to whoever watches.
pub(super) struct Shown {
    pub(super) deltas: Arc<dyn Deltas>,
    pub(super) secrets: Secrets,
}

impl Printed for Shown {
    fn line(&self, line: &str) {
        self.deltas.printed(&self.secrets.strike(line));
    }

    fn unfinished(&self, bytes: &[u8]) -> usize {
        self.secrets.begun(bytes)
    }
}

/// A reply whose calls name the tools as they are granted, whatever alias the model used: permission is by one name only.
pub(super) fn by_own_names(mut input: Input, toolbox: &Toolbox) -> Input {
    if let Input::ModelReplied { reply, .. } = &mut input {
        for call in &mut reply.calls {
            call.tool = toolbox.canonical(&call.tool).into();
        }
    }
    input
}

/// What a tool or a model says, without the providers' keys.
pub(super) fn struck_out(input: Input, secrets: &Secrets) -> Input {
    match input {
        Input::ToolEnded { call, attempt, outcome, duration_us, hold, tended } => Input::ToolEnded {
            call,
            attempt,
            outcome: secrets.strike_outcome(outcome),
            duration_us,
            hold: hold.map(|why| secrets.strike(&why).into_owned()),
            tended: secrets.strike_tended(tended),
        },
        Input::WorkKept { steps, mut kept, tended } => {
            if let Kept::Committed { branch: Some(text), .. } | Kept::Uncommitted { why: text } = &mut kept {
                *text = secrets.strike(text).into_owned();
            }
            Input::WorkKept { steps, kept, tended: secrets.strike_tended(tended) }
        }
        Input::Tended(tended) => Input::Tended(secrets.strike_tended(tended)),
        Input::AsideEnded { aside, attempt, answer } => {
            let failed = |failure: ModelFailure| ModelFailure {
                message: secrets.strike(&failure.message).into_owned(),
                ..failure
            };
            let answer = answer.map(|reply| secrets.strike_reply(reply)).map_err(failed);
            Input::AsideEnded { aside, attempt, answer }
        }
        Input::ChildRested { number, mut report } => {
            match &mut report.ending {
                ChildEnding::Completed { output: text }
                | ChildEnding::Failed { error: text }
                | ChildEnding::GaveUp { error: text }
                | ChildEnding::Stopped { reason: text }
                | ChildEnding::Refused { why: text }
                | ChildEnding::Held { why: text }
                | ChildEnding::Paused { reason: text, .. } => *text = secrets.strike(text).into_owned(),
                ChildEnding::Waiting | ChildEnding::Idle { .. } => {}
            }
            Input::ChildRested { number, report }
        }
        Input::ToolHeld { call, attempt, why } => {
            Input::ToolHeld { call, attempt, why: secrets.strike(&why).into_owned() }
        }
        Input::ToolPrepared { call, attempt, traces, hold } => {
            let traces = traces.map_err(|outcome| secrets.strike_outcome(outcome));
            Input::ToolPrepared { call, attempt, traces, hold }
        }
        Input::ModelReplied { turn, attempt, reply, duration_us } => {
            Input::ModelReplied { turn, attempt, reply: secrets.strike_reply(reply), duration_us }
        }
        Input::ModelFailed { turn, attempt, mut failure } => {
            failure.message = secrets.strike(&failure.message).into_owned();
            Input::ModelFailed { turn, attempt, failure }
        }
        other @ (Input::Command(_)
        | Input::CommandUnfit { .. }
        | Input::Restarted { .. }
        | Input::ToolChecked { .. }
        | Input::Examined { .. }
        | Input::ChildAnswered { .. }
        | Input::Woke(_)
        | Input::CheckpointDue
        | Input::DiskLow
        | Input::OlderSchema { .. }
        | Input::Contained { .. }
        | Input::ChecksChanged { .. }
        | Input::OutOfBudget(_)
        | Input::WorkspaceGone { .. }
        | Input::FilesStored { .. }
        | Input::SetUpStarted { .. }
        | Input::SetUpEnded { .. }
        | Input::SpentBefore { .. }
        | Input::TornTail { .. }
        | Input::DerivedFailed { .. }
        | Input::FellBack { .. }) => other,
    }
}
