//! Planning: a planner is asked for the steps of a task, and once more if its answer cannot be used. What is completed stays.

use super::{Decision, Refusal, aside, call, lifecycle, limit, recovery};
use crate::effect::Effect;
use crate::event::{Aside, Cause, Event};
use crate::ids::Attempt;
use crate::limits::{NOTE_BYTES_MAX, PLAN_ROUNDS_MAX};
use crate::permission::{Action, Here, judge};
use crate::plan::{self, Plan};
use crate::prompt::head;
use crate::run::{Phase, Run};
use crate::status::Status;
use crate::time::Timestamp;

/// Asks for a plan, as the first thing a run does that has none.
pub(super) fn begin(run: &Run, decision: &mut Decision) {
    let aside = Aside::Planning { round: 1 };
    if limit::permit_question(run, aside, run.spec.limits, decision) {
        aside::again(aside, 1, Attempt::FIRST, decision);
    }
}

/// Somebody wants a plan before the run starts, or another one for what is left.
pub(super) fn asked(run: &Run) -> Result<Decision, Refusal> {
    may_replan(run)?;
    let refused = |why| Err(Refusal::Transition { verb: "plan", status: run.status, why });
    if run.spec.planner.is_none() {
        return refused("it was created without a planner; give it a plan instead");
    }
    if run.phase != Phase::Idle && !run.is_planning() {
        return refused("a step is under way; give it a plan, or let it go on");
    }
    let mut decision = Decision::nothing();
    // Whoever asked before may have died over it.
    let attempt = match run.phase {
        Phase::Aside { attempt, .. } | Phase::AsideResting { attempt, .. } => attempt.next(),
        Phase::Idle
        | Phase::Opened
        | Phase::Thinking { .. }
        | Phase::Resting { .. }
        | Phase::Calling { .. }
        | Phase::Answered { .. }
        | Phase::CutOff { .. }
        | Phase::Examining { .. } => Attempt::FIRST,
    };
    aside::again(Aside::Planning { round: 1 }, 1, attempt, &mut decision);
    Ok(decision)
}

/// Somebody gives a plan for what is not done yet.
pub(super) fn given(run: &Run, at: Timestamp, new: &Plan) -> Result<Decision, Refusal> {
    may_replan(run)?;
    let unusable = |why: String| Refusal::Plan { why };
    let plan = run.plan.replanned(new.clone()).map_err(|bad| unusable(bad.to_string()))?;
    run.spec.check_agents(&plan).map_err(|bad| unusable(bad.to_string()))?;
    let mut decision = Decision::nothing();
    take_over(run, at, plan, &mut decision);
    Ok(decision)
}

fn may_replan(run: &Run) -> Result<(), Refusal> {
    let refused = |why| Err(Refusal::Transition { verb: "replan", status: run.status, why });
    match run.status {
        Status::Created | Status::Paused => Ok(()),
        Status::Running => refused("pause it first"),
        Status::Failed if run.spec.parent.is_some() => {
            refused("it worked for another run, which has gone on without it; replan that one")
        }
        // What is completed is worth as much as before.
        Status::Failed => Ok(()),
        Status::Completed => refused("it has ended"),
    }
}

/// From here on the run goes by another plan; one that had failed has something to go on with.
fn take_over(run: &Run, at: Timestamp, plan: Plan, decision: &mut Decision) {
    clear(run, at, "there is another plan", decision);
    if run.status == Status::Failed {
        decision.and(Event::Reopened);
    }
    decision.and(Event::PlanMade { plan });
    decision.checkpoint(run);
}

/// What was begun before is given up: what waits is answered, who works is called back.
pub(super) fn clear(run: &Run, at: Timestamp, why: &str, decision: &mut Decision) {
    for gate in run.gates.iter().filter(|gate| gate.answer.is_none()) {
        decision.and(lifecycle::answered(gate, at, false, Some(why)));
    }
    for child in run.live_children() {
        let (number, ledger) = (child.errand.number, child.ledger);
        decision.and(Event::ChildEnded { number, error: Some(why.to_owned()), ledger });
        decision.then(Effect::EndChild { child: number, reason: why.to_owned() });
    }
    call::abandon_all(run, why, decision);
}

/// The planner has answered.
pub(super) fn heard(run: &Run, round: u32, answer: &str, decision: &mut Decision) {
    let plan = plan::from_answer(answer, &run.spec.agent)
        .and_then(|plan| run.plan_for_the_rest(plan).map_err(|bad| bad.to_string()))
        .and_then(|plan| run.spec.check_agents(&plan).map(|()| plan).map_err(|bad| bad.to_string()))
        .and_then(|plan| permitted(run, &plan).map(|()| plan));
    match plan {
        Ok(plan) => {
            if run.planned {
                take_over(run, run.updated_at, plan, decision);
            } else {
                decision.and(Event::PlanMade { plan });
                decision.checkpoint(run);
            }
            if run.status == Status::Running
                && let Some(ahead) = decision.ahead(run)
            {
                recovery::start_work(&ahead, ahead.spec.limits, decision);
            }
        }
        Err(why) if round < PLAN_ROUNDS_MAX => {
            let why = head(&why, NOTE_BYTES_MAX).to_owned();
            decision.and(Event::PlanRefused { why });
            let aside = Aside::Planning { round: round + 1 };
            if run.status == Status::Running && !limit::permit_question(run, aside, run.spec.limits, decision)
            {
                return;
            }
            aside::again(aside, 1, Attempt::FIRST, decision);
        }
        Err(why) => give_up(run, &why, decision),
    }
}

/// Commands that a model thought of are held to the same rules as those it calls.
fn permitted(run: &Run, plan: &Plan) -> Result<(), String> {
    let here = Here { workspace: &run.spec.workspace, cwd: "" };
    for (index, step) in plan.steps.iter().enumerate() {
        for (place, command) in step.verify.iter().flatten().enumerate() {
            let verdict = judge(run.spec.rules(), here, "bash", &serde_json::json!({ "command": command }));
            if verdict.action != Action::Allow {
                return Err(format!("steps[{index}].verify[{place}]: not permitted: {verdict}"));
            }
        }
    }
    Ok(())
}

/// There is no plan to be had.
pub(super) fn give_up(run: &Run, why: &str, decision: &mut Decision) {
    let why = head(why, NOTE_BYTES_MAX).to_owned();
    decision.and(Event::PlanRefused { why: why.clone() });
    if run.status == Status::Running {
        decision.pause(
            run,
            Cause::Parked,
            format!("no_plan: the planner gave no plan that can be used: {why}"),
        );
    }
}
