//! Steps: the gate before one, the first turn of one, and what a completed or failed one leads to.

use super::{Decision, turn};
use crate::event::{Cause, Event};
use crate::run::Run;
use crate::spec::Limits;
use crate::status::Status;

/// Goes to the step at `index`: through its gate if autonomy asks for one, else straight in.
pub(super) fn approach(run: &Run, index: usize, limits: Limits, decision: &mut Decision) {
    let step = index as u32;
    let Some(planned) = run.plan.steps.get(index) else { return };
    if planned.agent != run.spec.agent {
        let error = format!(
            "step `{}` is for agent {}, and sub-agents cannot be started yet",
            planned.id, planned.agent
        );
        decision.and(Event::StepFailed { step, error: error.clone() });
        decision.checkpoint(run);
        return give_up(decision, &error);
    }
    let required = run.spec.autonomy.gates(planned.critical);
    decision.and(Event::GateChecked { step, required });
    if !required {
        return open(run, step, limits, decision);
    }
    // Saved before the wait is announced: whoever answers may find only the journal.
    decision.checkpoint(run);
    decision.and(Event::WaitingForHuman { gate: run.gates.len() as u32 + 1, step, ask: None });
}

pub(super) fn open(run: &Run, step: u32, limits: Limits, decision: &mut Decision) {
    decision.and(Event::StepStarted { step });
    turn::begin(run, 1, limits, decision);
}

/// The step in hand is done: save, then the next one, or the end of the run.
pub(super) fn completed(run: &Run, output: String, decision: &mut Decision) {
    let done = run.current_step as usize;
    decision.and(Event::StepCompleted { step: run.current_step, output });
    decision.checkpoint(run);
    match run.plan.next_ready_after(done) {
        Some(next) => approach(run, next, run.spec.limits, decision),
        None if run.plan.is_complete_after(done) => finish(decision),
        None => give_up(decision, "the remaining steps wait for a step that failed"),
    }
}

/// The step in hand cannot be done, and with it the run.
pub(super) fn failed(run: &Run, error: &str, decision: &mut Decision) {
    decision.and(Event::StepFailed { step: run.current_step, error: error.to_owned() });
    decision.checkpoint(run);
    give_up(decision, error);
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
}

/// A run found between steps: on to the next one that is ready, or to the end.
pub(super) fn go_on(run: &Run, limits: Limits, decision: &mut Decision) {
    match run.plan.next_ready() {
        Some(next) => approach(run, next, limits, decision),
        None if run.plan.completed_count() == run.plan.steps.len() => finish(decision),
        None => give_up(decision, run.error.as_deref().unwrap_or("a step failed")),
    }
}

fn finish(decision: &mut Decision) {
    decision.and(Event::PlanCompleted);
    decision.and(Event::StatusChanged {
        from: Status::Running,
        to: Status::Completed,
        cause: Cause::Finished,
        reason: None,
    });
}

fn give_up(decision: &mut Decision, reason: &str) {
    decision.and(Event::StatusChanged {
        from: Status::Running,
        to: Status::Failed,
        cause: Cause::Error,
        reason: Some(reason.to_owned()),
    });
}
