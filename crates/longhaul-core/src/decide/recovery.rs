//! A crash is an ordinary start: the fold says where the run stood, and its effect classes say what may be done again.

use super::{Decision, aside, call, child, lifecycle, planning, schedule, stop, turn};
use crate::conduct::Looping;
use crate::effect::{Effect, Wake};
use crate::event::{Event, Purpose};
use crate::ids::{Attempt, CallId};
use crate::plan::Step;
use crate::run::{Call, CallState, Phase, Run};
use crate::spec::{Limits, RunSpec};
use crate::status::Status;
use crate::time::Timestamp;
use crate::tool::{CUT_SHORT, EffectClass, Found, Outcome, Trace};

/// A new process drives the run; nothing that was under way in the old one will ever report.
pub(super) fn restarted(run: &Run, at: Timestamp, generation: u64, changed: Changed<'_>) -> Decision {
    if run.status != Status::Running {
        return Decision::nothing();
    }
    let mut decision = Decision::remember(Event::Recovered { generation });
    lifecycle::change_settings(run, &changed, &mut decision);
    lifecycle::set_deadline(run, at, &changed, &mut decision);
    pick_up(run, changed, &mut decision);
    decision
}

/// What a person changes when a run is taken up.
#[derive(Clone)]
pub(super) struct Changed<'a> {
    pub(super) limits: Option<Limits>,
    pub(super) model: Option<&'a str>,
    pub(super) looping: Option<Looping>,
}

/// Goes on from wherever the run stands, on the understanding that nothing is under way.
pub(super) fn pick_up(run: &Run, changed: Changed<'_>, decision: &mut Decision) {
    let (before, limits) = (run.spec.limits, changed.limits.unwrap_or(run.spec.limits));
    // A wait was for the old model; a new one is asked at once.
    let other_model = changed.model.is_some_and(|model| model != run.spec.model);
    let with_limits;
    let run = match changed.limits {
        Some(limits) if !run.children.is_empty() => {
            with_limits = Run { spec: RunSpec { limits, ..run.spec.clone() }, ..run.clone() };
            &with_limits
        }
        Some(_) | None => run,
    };
    let division = child::Division::after(before, limits);
    child::pick_up(run, changed.model, division, decision);
    match &run.phase {
        Phase::Idle if !run.planned => return planning::begin(run, decision),
        Phase::Idle => return start_work(run, limits, decision),
        Phase::Opened | Phase::Answered { .. } | Phase::CutOff { .. } => {
            go_on_talking(run, limits, decision);
        }
        Phase::Thinking { turn, attempt } => turn::again(run, *turn, attempt.next(), limits, decision),
        Phase::Resting { turn, attempt, .. } if other_model => {
            turn::attempt(*turn, attempt.next(), decision);
        }
        Phase::Resting { turn, attempt, rest, .. } => {
            let wake = Wake::Turn { turn: *turn, attempt: *attempt };
            decision.then(Effect::Sleep { wake, rest: *rest });
        }
        Phase::Calling { .. } if child::any_out(run) => child::pick_up_calls(run, decision),
        Phase::Calling { .. } => match run.open_call() {
            Some(open) => pick_up_call(run, open, limits, decision),
            None => go_on_talking(run, limits, decision),
        },
        Phase::Examining { turn, attempt, purpose, .. } => {
            stop::examine(run, *turn, *purpose, attempt.next(), decision);
        }
        Phase::Aside { aside, turn, attempt } => aside::again(*aside, *turn, attempt.next(), decision),
        Phase::AsideResting { aside, attempt, rest, .. } => {
            let wake = Wake::Aside { aside: *aside, attempt: *attempt };
            decision.then(Effect::Sleep { wake, rest: *rest });
        }
    }
    // Until it is known what the work begins with, nobody changes it.
    let first_look = matches!(run.phase, Phase::Examining { purpose: Purpose::Baseline, .. });
    if !run.is_planning() && !first_look && decision.status_after(run) == Status::Running {
        schedule::go_on(run, limits, decision);
    }
}

/// The conversation goes on from where it stands, if it is not under way.
pub(super) fn go_on_talking(run: &Run, limits: Limits, decision: &mut Decision) {
    match &run.phase {
        Phase::Opened => turn::begin(run, 1, limits, decision),
        Phase::Answered { turn } => stop::again(run, *turn, limits, decision),
        Phase::CutOff { turn } => turn::begin(run, turn + 1, limits, decision),
        Phase::Calling { turn } => match run.open_call() {
            Some(open) => call::begin_from(run, open, limits, decision),
            None => turn::begin(run, turn + 1, limits, decision),
        },
        Phase::Idle
        | Phase::Thinking { .. }
        | Phase::Resting { .. }
        | Phase::Examining { .. }
        | Phase::Aside { .. }
        | Phase::AsideResting { .. } => {}
    }
}

/// On to the steps. What the work begins with is looked at before anything changes.
pub(super) fn start_work(run: &Run, limits: Limits, decision: &mut Decision) {
    let of_step = |step: &Step| step.verify.as_ref().is_some_and(|commands| !commands.is_empty());
    let examines = run.spec.conduct().examines() || run.plan.steps.iter().any(of_step);
    if run.baseline.is_none() && !run.has_worked() && examines {
        return stop::examine(run, 0, Purpose::Baseline, Attempt::FIRST, decision);
    }
    schedule::go_on(run, limits, decision);
}

/// What the destination of a checkable call showed after a crash.
pub(super) fn checked(run: &Run, id: CallId, attempt: Attempt, found: Found) -> Decision {
    let Some(open) = run.call(id) else { return Decision::nothing() };
    let CallState::Started { attempt: current, class, traces } = &open.state else {
        return Decision::nothing();
    };
    if *current != attempt || run.status != Status::Running {
        return Decision::nothing();
    }
    let target = targets(traces);
    match found {
        Found::Done => {
            let text = format!("done: {target} (interrupted after it took effect; found in place)");
            call::finish(run, open, attempt, Outcome::done(text), 1)
        }
        Found::NotDone => {
            let mut decision = Decision::nothing();
            call::start(id, attempt.next(), *class, traces.clone(), &mut decision);
            decision
        }
        Found::Unknown => {
            let message = format!(
                "{target} is neither as it was before the call nor as the call would leave it; read it before going on"
            );
            call::finish(run, open, attempt, Outcome::Unknown { message }, 1)
        }
    }
}

fn pick_up_call(run: &Run, open: &Call, limits: Limits, decision: &mut Decision) {
    match &open.state {
        CallState::Proposed => call::begin_from(run, open, limits, decision),
        CallState::Started { attempt, class: EffectClass::Repeatable, .. } => {
            call::start(open.id, attempt.next(), EffectClass::Repeatable, Vec::new(), decision);
        }
        CallState::Started { attempt, class: EffectClass::Checkable, .. } => {
            decision.then(Effect::CheckTool { call: open.id, attempt: *attempt });
        }
        CallState::Started { attempt, class: EffectClass::Once, .. } => {
            let message = format!(
                "{CUT_SHORT}; it may have had its effect in part or in whole, and is not repeated by itself. \
                 Look before you try again"
            );
            call::finish_cut_short(run, open, *attempt, message, limits, decision);
        }
        CallState::Resting { attempt, rest, .. } => {
            let wake = Wake::Call { call: open.id, attempt: *attempt };
            decision.then(Effect::Sleep { wake, rest: *rest });
        }
        CallState::Asking { .. } | CallState::Ended { .. } => {}
    }
}

/// What a call changes, for people and models to find.
fn targets(traces: &[Trace]) -> String {
    let names: Vec<&str> = traces.iter().map(|trace| trace.target.as_str()).collect();
    if names.is_empty() { "its target".to_owned() } else { names.join(", ") }
}
