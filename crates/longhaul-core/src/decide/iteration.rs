//! Fresh context: the same mission in a conversation that knows nothing but what is on disk and what it is told.

use super::{Decision, limit, step, stop, turn};
use crate::context;
use crate::effect::Effect;
use crate::event::{Aside, Cause, Event, FreshStart, Purpose, StopAction};
use crate::ids::Attempt;
use crate::limits::{EVENT_TEXT_BYTES_MAX, FRESH_STARTS_MAX, IDLE_ITERATIONS_MAX, NOTE_BYTES_MAX};
use crate::policy::{Limit, Policy};
use crate::prompt::head;
use crate::run::Run;

/// A loop's agent stopped too early: again, unless that leads nowhere or no iterations are left.
pub(super) fn restart(run: &Run, turn: u32, why: FreshStart, told: String, decision: &mut Decision) {
    let Some(looping) = &run.spec.conduct().looping else { return };
    let why_stopped = Some(head(&told, NOTE_BYTES_MAX).to_owned());
    if run.iteration >= looping.max_iterations {
        decision.and(Event::AgentStopped { turn, action: StopAction::Limit, why: why_stopped });
        return out_of_iterations(run, looping.max_iterations, &looping.promise, &told, decision);
    }
    if run.pace.idle_iterations >= IDLE_ITERATIONS_MAX {
        decision.and(Event::AgentStopped { turn, action: StopAction::Pause, why: why_stopped });
        let reason = format!(
            "no_progress: {IDLE_ITERATIONS_MAX} iterations in a row changed nothing in the workspace"
        );
        return decision.pause(run, Cause::Stuck, reason);
    }
    decision.and(Event::AgentStopped { turn, action: StopAction::Restart, why: why_stopped });
    sum_up(run, turn, why, decision);
}

fn out_of_iterations(run: &Run, max: u32, promise: &str, told: &str, decision: &mut Decision) {
    let (spent, most) = (run.iteration.to_string(), max.to_string());
    decision.and(Event::LimitReached {
        limit: Limit::Iterations.as_str().to_owned(),
        spent: spent.clone(),
        max: most.clone(),
    });
    if run.spec.limits.policy(Limit::Iterations) == Policy::Pause {
        let reason =
            format!("max_iterations reached: {spent} of {most} used without the promise `{promise}`");
        return decision.pause(run, Cause::Limit, reason);
    }
    let error = format!(
        "the promise `{promise}` was not kept and shown in {} of {max} iterations; of the last one: {}",
        run.iteration,
        head(told.trim(), EVENT_TEXT_BYTES_MAX)
    );
    step::failed_at_limit(run, Limit::Iterations.as_str(), &error, decision);
}

/// The conversation is to be begun anew wherever it stands: first the harness looks what there is to go on from.
pub(super) fn interrupt(run: &Run, turn: u32, why: FreshStart, decision: &mut Decision) {
    let iterations = run.spec.conduct().looping.as_ref().map(|looping| looping.max_iterations);
    if let (FreshStart::Limit, Some(looping)) = (why, &run.spec.conduct().looping)
        && run.iteration >= looping.max_iterations
    {
        let told = "it reached the limit for one conversation";
        return out_of_iterations(run, looping.max_iterations, &looping.promise, told, decision);
    }
    if run.pace.fresh_starts >= FRESH_STARTS_MAX || iterations.is_some_and(|max| run.iteration >= max) {
        let reason = match why {
            FreshStart::Context => "context_overflow: the window is full, and compaction no longer helps",
            FreshStart::DoomLoop => "doom_loop: the agent goes round in circles, in fresh conversations too",
            FreshStart::Limit => "no_progress: fresh conversations reach their limit again and again",
            FreshStart::NoPromise | FreshStart::Refuted => "no_progress: no fresh start is left",
        };
        return decision.pause(run, Cause::Stuck, reason.to_owned());
    }
    stop::examine(run, turn, Purpose::FreshStart { why }, Attempt::FIRST, decision);
}

/// With a summariser the iteration that ends is summed up first, if there is enough left to ask it.
pub(super) fn sum_up(run: &Run, turn: u32, why: FreshStart, decision: &mut Decision) {
    let summarized = run.spec.conduct().looping.as_ref().is_some_and(|looping| looping.summarizer.is_some());
    let aside = Aside::Iteration { why };
    if !summarized || !limit::has_room_for_question(run, aside, decision) {
        return begin(run, why, decision);
    }
    decision.and(Event::AsideStarted { aside, turn: turn + 1, attempt: Attempt::FIRST });
    decision.then(Effect::AskAside { aside, attempt: Attempt::FIRST });
}

pub(super) fn begin(run: &Run, why: FreshStart, decision: &mut Decision) {
    let note = decision.ahead(run).and_then(|ahead| note(&ahead, why));
    decision.checkpoint(run);
    decision.and(Event::IterationStarted { number: run.iteration.saturating_add(1), why, note });
    turn::begin(run, 1, run.spec.limits, decision);
}

/// What the next conversation is told beside its mission.
fn note(run: &Run, why: FreshStart) -> Option<String> {
    let note = match why {
        FreshStart::NoPromise | FreshStart::Refuted => run.resumed.next_note.clone(),
        FreshStart::Context | FreshStart::DoomLoop | FreshStart::Limit => Some(format!(
            "What happened so far:\n\n{}",
            context::mechanical_summary(&run.messages, &run.calls)
        )),
    };
    note.filter(|note| !note.trim().is_empty()).map(|note| head(&note, NOTE_BYTES_MAX).to_owned())
}
