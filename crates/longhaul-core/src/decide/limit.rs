//! Limits: which are used up, and what that leads to. The work is kept whichever way it goes.

use super::{Decision, call, child, iteration, step};
use crate::budget::Exhausted;
use crate::child::ChildLedger;
use crate::conversation::Usage;
use crate::effect::Effect;
use crate::event::{Cause, Event, FreshStart};
use crate::ids::Attempt;
use crate::money::Usd;
use crate::plan::StepStatus;
use crate::policy::{Limit, Policy};
use crate::run::{CallState, Phase, Run};
use crate::spec::Limits;
use crate::status::Status;
use crate::tool::{Failure, Outcome};

/// A limit that is used up, in words.
pub(super) struct Reached {
    limit: Limit,
    spent: String,
    max: String,
}

/// May turn number `turn` begin? If not, what follows instead is decided.
pub(super) fn permit_turn(run: &Run, turn: u32, limits: Limits, decision: &mut Decision) -> bool {
    let spent = Spent::with(run, decision);
    let reached = [
        steps(run, limits, decision),
        spent.tokens(limits.max_tokens),
        spent.cost(limits.max_cost),
        // A conversation that has not begun has used nothing, whatever the one before it did.
        limits.max_iteration_steps.filter(|_| turn > 1).and_then(|max| steps_here(turn, max)),
        limits.max_iteration_tokens.filter(|_| turn > 1).and_then(|max| tokens_here(run, max)),
        limits.max_iteration_cost.filter(|_| turn > 1).and_then(|max| cost_here(run, max)),
        refused_again(run, limits, decision),
    ];
    permit(run, turn.saturating_sub(1), limits, reached.into_iter().flatten(), decision)
}

/// May a model be asked again, or beside the conversation, as far as tokens and money go?
pub(super) fn permit_question(run: &Run, limits: Limits, decision: &mut Decision) -> bool {
    let spent = Spent::with(run, decision);
    let reached = [spent.tokens(limits.max_tokens), spent.cost(limits.max_cost)];
    permit(run, run.turn(), limits, reached.into_iter().flatten(), decision)
}

/// Is there enough of both? Decides nothing.
pub(super) fn has_room_for_question(run: &Run, limits: Limits, decision: &Decision) -> bool {
    let spent = Spent::with(run, decision);
    spent.tokens(limits.max_tokens).is_none() && spent.cost(limits.max_cost).is_none()
}

/// A call over the number of calls that only warns.
pub(super) fn warn_of_calls(run: &Run, limits: Limits, decision: &mut Decision) {
    if run.ledger().calls >= limits.max_tool_calls && limits.policy(Limit::ToolCalls) == Policy::Warn {
        warn(run, calls(run, limits), decision);
    }
}

/// The run's time is up, whatever it is doing.
pub(super) fn time_is_up(run: &Run, spent: String, max: String, decision: &mut Decision) {
    let reached = Reached { limit: Limit::Timeout, spent, max };
    match run.spec.limits.policy(Limit::Timeout) {
        Policy::Warn => warn(run, reached, decision),
        Policy::Stop => {
            if let Some(open) = run.open_call()
                && let CallState::Started { attempt, .. } = open.state
            {
                let message = "the run's time was up while this call ran; it may have partly run".to_owned();
                call::close(open, attempt, Outcome::Unknown { message }, 1, decision);
            }
            stop(run, reached, decision);
            decision.then(Effect::CancelWork);
        }
        // Time is not given back by a fresh conversation; that is refused where policies are read.
        Policy::Pause | Policy::Restart => {
            pause(run, reached, decision);
            decision.then(Effect::CancelWork);
        }
    }
}

/// All runs together have used up what they may. Nothing was asked: the same is asked again when the run is resumed.
pub(super) fn out_of_budget(run: &Run, exhausted: &Exhausted) -> Decision {
    let mut decision = Decision::nothing();
    let about_to_ask = matches!(run.phase, Phase::Thinking { .. } | Phase::Aside { .. });
    if run.is_planning() {
        decision.and(Event::PlanRefused { why: exhausted.reason() });
    }
    if run.status == Status::Running && about_to_ask {
        let (limit, spent, max) = (exhausted.name(), exhausted.spent.clone(), exhausted.max.clone());
        decision.and(Event::LimitReached { limit, spent, max });
        decision.pause(run, Cause::Limit, exhausted.reason());
    }
    decision
}

fn permit(
    run: &Run,
    turn: u32,
    limits: Limits,
    all: impl Iterator<Item = Reached>,
    decision: &mut Decision,
) -> bool {
    for reached in all {
        match limits.policy(reached.limit) {
            Policy::Warn => warn(run, reached, decision),
            Policy::Pause => {
                pause(run, reached, decision);
                return false;
            }
            Policy::Stop => {
                stop(run, reached, decision);
                return false;
            }
            Policy::Restart => {
                decision.and(reached.event());
                iteration::interrupt(run, turn, FreshStart::Limit, decision);
                return false;
            }
        }
    }
    true
}

/// Told once; once more only if the limit is changed, or counted anew.
fn warn(run: &Run, reached: Reached, decision: &mut Decision) {
    let name = reached.limit.as_str();
    let told = |event: &Event| matches!(event, Event::LimitPassed { limit, .. } if limit == name);
    if run.warned.iter().any(|told| told == name) || decision.events.iter().any(told) {
        return;
    }
    let Reached { limit, spent, max } = reached;
    decision.and(Event::LimitPassed { limit: limit.to_string(), spent, max });
}

pub(super) fn pause(run: &Run, reached: Reached, decision: &mut Decision) {
    let reason = reached.reason();
    decision.and(reached.event());
    decision.pause(run, Cause::Limit, reason);
}

/// The run fails at a limit; the step in hand with it, if one is.
fn stop(run: &Run, reached: Reached, decision: &mut Decision) {
    let reason = reached.reason();
    decision.and(reached.event());
    if run.step().is_some_and(|step| step.status == StepStatus::Running) {
        return step::failed_at_limit(run, &reason, &reason, decision);
    }
    decision.checkpoint(run);
    let (from, to) = (Status::Running, Status::Failed);
    decision.and(Event::StatusChanged { from, to, cause: Cause::Limit, reason: Some(reason.clone()) });
    child::end_all(run, &reason, decision);
}

impl Reached {
    fn of(limit: Limit, spent: impl ToString, max: impl ToString) -> Reached {
        Reached { limit, spent: spent.to_string(), max: max.to_string() }
    }

    fn event(self) -> Event {
        Event::LimitReached { limit: self.limit.to_string(), spent: self.spent, max: self.max }
    }

    fn reason(&self) -> String {
        let Reached { limit, spent, max } = self;
        let budget = if *limit == Limit::Cost { "cost_budget: " } else { "" };
        format!("{budget}{limit} reached: {spent} of {max} used")
    }
}

/// What was used, also by a reply that this very decision remembers, and what the next one may take.
struct Spent {
    used: Usage,
    next: Usage,
}

impl Spent {
    fn with(run: &Run, decision: &Decision) -> Spent {
        let (mut used, mut next) = (Drawn::from(run, decision).gone.usage, run.reserve);
        for event in decision.since(run) {
            if let Event::ModelReplied { usage, .. } = event {
                used.add(usage);
                next = *usage;
            }
        }
        Spent { used, next }
    }

    fn tokens(&self, max: Option<u64>) -> Option<Reached> {
        let (used, next) = (self.used.tokens(), self.next.tokens());
        let max = max.filter(|max| used.saturating_add(next) > *max || used >= *max)?;
        Some(Reached::of(Limit::Tokens, with_next(used, next, used >= max), max))
    }

    /// What has no known price uses up any amount.
    fn cost(&self, max: Option<Usd>) -> Option<Reached> {
        let max = max?;
        if self.used.unpriced_tokens > 0 {
            return Some(Reached::of(Limit::Cost, "an unknown amount", max));
        }
        let (cost, next) = (self.used.cost, self.next.cost);
        let both: Usd = [cost, next].into_iter().sum();
        (both > max || cost >= max).then(|| Reached::of(Limit::Cost, with_next(cost, next, cost >= max), max))
    }
}

/// What is drawn from a run's budget, with what this very decision has to say of its children.
pub(super) struct Drawn {
    /// Used by the run and by those below it.
    pub(super) used: ChildLedger,
    /// That, and what is set aside for those that have not ended.
    pub(super) gone: ChildLedger,
}

impl Drawn {
    pub(super) fn from(run: &Run, decision: &Decision) -> Drawn {
        let mut used = ChildLedger { usage: run.usage, calls: run.calls_started, turns: run.turns };
        used.add(&run.children.spent());
        used.calls = used.calls.saturating_add(calls_begun(run, decision));
        let mut drawn = Drawn { used, gone: used };
        for child in run.live_children() {
            let told = decision.since(run).iter().rev().find_map(|event| told(event, child.errand.number));
            let (ledger, has_ended) = told.unwrap_or((child.ledger, false));
            drawn.used.add(&ledger);
            drawn.gone.add(&ledger);
            if !has_ended {
                drawn.set_aside(child.errand.limits, &ledger);
            }
        }
        drawn
    }

    /// What was granted and is not used yet.
    pub(super) fn set_aside(&mut self, granted: Limits, used: &ChildLedger) {
        let gone = &mut self.gone;
        gone.usage.cost += granted.max_cost.unwrap_or_default().less(used.usage.cost);
        let tokens = granted.max_tokens.unwrap_or(0).saturating_sub(used.usage.tokens());
        gone.usage.input_tokens = gone.usage.input_tokens.saturating_add(tokens);
        gone.calls = gone.calls.saturating_add(granted.max_tool_calls.saturating_sub(used.calls));
        gone.turns = gone.turns.saturating_add(granted.max_steps.saturating_sub(used.turns));
    }
}

/// Calls that this very decision begins: several errands may be given in one.
fn calls_begun(run: &Run, decision: &Decision) -> u32 {
    let begins = |event: &&Event| matches!(event, Event::CallStarted { attempt: Attempt::FIRST, .. });
    decision.since(run).iter().filter(begins).count() as u32
}

/// What an event says that child has used, and whether it has ended.
fn told(event: &Event, child: u32) -> Option<(ChildLedger, bool)> {
    if let Event::ChildHeld { number } = event {
        // There was no run that could have used anything.
        return (*number == child).then(|| (ChildLedger::default(), true));
    }
    let (of, ledger, has_ended) = if let Event::ChildEnded { number, ledger, .. } = event {
        (number, ledger, true)
    } else if let Event::ChildRested { number, ledger, .. } = event {
        (number, ledger, false)
    } else {
        return None;
    };
    (*of == child).then_some((*ledger, has_ended))
}

fn with_next(spent: impl ToString, next: impl ToString, is_over: bool) -> String {
    let spent = spent.to_string();
    if is_over { spent } else { format!("{spent} (the next turn would take about {})", next.to_string()) }
}

fn steps(run: &Run, limits: Limits, decision: &Decision) -> Option<Reached> {
    let (Drawn { used, gone }, max) = (Drawn::from(run, decision), limits.max_steps);
    (gone.turns >= max).then(|| Reached::of(Limit::Steps, with_set_aside(used.turns, gone.turns, max), max))
}

/// Calls and turns that sub-agents may still take are nobody else's.
fn with_set_aside(used: u32, gone: u32, max: u32) -> String {
    if used >= max {
        used.to_string()
    } else {
        format!("{used} (and {} set aside for sub-agents)", gone - used)
    }
}

/// No call is left that is set aside for nobody.
pub(super) struct CallsOut {
    pub(super) reached: Reached,
    pub(super) used: u32,
    /// Are there others, above or below, who may have some to give back?
    pub(super) may_get_more: bool,
}

pub(super) fn calls_out(run: &Run, limits: Limits, decision: &Decision) -> Option<CallsOut> {
    let (Drawn { used, gone }, max) = (Drawn::from(run, decision), limits.max_tool_calls);
    if gone.calls < max || limits.policy(Limit::ToolCalls) == Policy::Warn {
        return None;
    }
    let reached = Reached::of(Limit::ToolCalls, with_set_aside(used.calls, gone.calls, max), max);
    let may_get_more = run.spec.parent.is_some() || used.calls < max;
    Some(CallsOut { reached, used: used.calls, may_get_more })
}

/// Why nobody below may go on, in the run's own numbers: those of a part would say little to whoever set the whole.
pub(super) fn counted_out(run: &Run) -> Option<String> {
    let (limits, used) = (run.spec.limits, run.ledger());
    let turns =
        (used.turns >= limits.max_steps).then(|| Reached::of(Limit::Steps, used.turns, limits.max_steps));
    let calls = || (used.calls >= limits.max_tool_calls).then(|| calls(run, limits));
    turns.or_else(calls).map(|reached| reached.reason())
}

/// `turn` is the one that would begin.
fn steps_here(turn: u32, max: u32) -> Option<Reached> {
    (turn > max).then(|| Reached::of(Limit::IterationSteps, turn - 1, max))
}

fn tokens_here(run: &Run, max: u64) -> Option<Reached> {
    let used = used_here(run).tokens();
    (used >= max).then(|| Reached::of(Limit::IterationTokens, used, max))
}

fn cost_here(run: &Run, max: Usd) -> Option<Reached> {
    let used = used_here(run);
    if used.unpriced_tokens > 0 {
        return Some(Reached::of(Limit::IterationCost, "an unknown amount", max));
    }
    (used.cost >= max).then(|| Reached::of(Limit::IterationCost, used.cost, max))
}

/// What the conversation in hand has used, with what was asked beside it.
fn used_here(run: &Run) -> Usage {
    let mut used = Usage::default();
    let here = |step: u32, iteration: u32| (step, iteration) == (run.current_step, run.iteration);
    let spent = run.spending.iter().rev().take_while(|spent| here(spent.step, spent.iteration));
    spent.for_each(|spent| used.add(&spent.usage));
    used
}

fn calls(run: &Run, limits: Limits) -> Reached {
    Reached::of(Limit::ToolCalls, run.ledger().calls, limits.max_tool_calls)
}

/// A model that was told that its calls are used up may answer without any. One that asks again, turn after turn, is stopped
/// before it spends the other limits on refusals.
fn refused_again(run: &Run, limits: Limits, decision: &Decision) -> Option<Reached> {
    let now = decision
        .events
        .iter()
        .any(|event| matches!(event, Event::CallRefused { failure: Failure::BudgetExceeded, .. }));
    let this_turn = run.turn();
    let before = run.calls.iter().rev().find(|call| call.turn != this_turn || call.step != run.current_step);
    let before = before.and_then(|call| call.outcome());
    let before = matches!(before, Some(Outcome::Failed { failure: Failure::BudgetExceeded, .. }));
    (now && before && run.ledger().calls >= limits.max_tool_calls).then(|| calls(run, limits))
}
