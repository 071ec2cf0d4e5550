//! Steps: the first turn of one, and what a completed or failed one leads to. Which comes next is for `schedule` to say.

use super::{Decision, child, schedule, turn};
use crate::event::{Cause, Event};
use crate::run::Run;
use crate::spec::Limits;
use crate::status::Status;

/// Begins a step in the run's own conversation.
pub(super) fn open(run: &Run, step: u32, limits: Limits, decision: &mut Decision) {
    decision.and(Event::StepStarted { step });
    turn::begin(run, 1, limits, decision);
}

/// The step in hand is done: save, then what comes next.
pub(super) fn completed(run: &Run, output: String, decision: &mut Decision) {
    decision.and(Event::StepCompleted { step: run.current_step, output });
    decision.checkpoint(run);
    schedule::go_on(run, run.spec.limits, decision);
}

/// The step in hand cannot be done. Branches that do not need it go on.
pub(super) fn failed(run: &Run, error: &str, decision: &mut Decision) {
    decision.and(Event::StepFailed { step: run.current_step, error: error.to_owned() });
    decision.checkpoint(run);
    schedule::go_on(run, run.spec.limits, decision);
}

/// The step in hand came to its limit, and with it the run.
pub(super) fn failed_at_limit(run: &Run, limit: &str, error: &str, decision: &mut Decision) {
    decision.and(Event::StepFailed { step: run.current_step, error: error.to_owned() });
    decision.checkpoint(run);
    decision.and(Event::StatusChanged {
        from: Status::Running,
        to: Status::Failed,
        cause: Cause::Limit,
        reason: Some(limit.to_owned()),
    });
    child::end_all(run, limit, decision);
}
