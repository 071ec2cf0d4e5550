//! Limits: which are used up, and what that leads to. The work is kept whichever way it goes.

use super::{Decision, call, child, iteration, step};
use crate::budget::Exhausted;
use crate::child::{Child, ChildLedger, Errand, Reply};
use crate::conversation::Usage;
use crate::effect::Effect;
use crate::event::{Aside, Cause, Event, FreshStart};
use crate::ids::{Attempt, CallId};
use crate::money::Usd;
use crate::plan::StepStatus;
use crate::policy::{COST_BUDGET, Limit, Policy};
use crate::run::{CallState, Phase, Run};
use crate::spec::Limits;
use crate::status::Status;
use crate::tool::{Failure, Outcome};

/// A limit that is used up, in words.
pub(super) struct Reached {
    limit: Limit,
    spent: String,
    max: String,
    why: Why,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Used,
    /// What is left is set aside for others, who may give some of it back.
    SetAside,
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

/// May a model be asked beside the conversation, as far as tokens and money go?
pub(super) fn permit_question(run: &Run, aside: Aside, limits: Limits, decision: &mut Decision) -> bool {
    let spent = Spent::for_question(run, aside, decision);
    let reached = [spent.tokens(limits.max_tokens), spent.cost(limits.max_cost)];
    permit(run, run.turn(), limits, reached.into_iter().flatten(), decision)
}

/// Is there enough of both for that? Decides nothing.
pub(super) fn has_room_for_question(run: &Run, aside: Aside, decision: &Decision) -> bool {
    let (limits, spent) = (run.spec.limits, Spent::for_question(run, aside, decision));
    let reached = [spent.tokens(limits.max_tokens), spent.cost(limits.max_cost)];
    !reached.into_iter().flatten().any(|reached| limits.holds(reached.limit))
}

/// May somebody else be sent, for whom a model is asked as well? What a reply took for others is known.
pub(super) fn permit_errand(run: &Run, limits: Limits, decision: &mut Decision) -> bool {
    let spent = Spent::for_errand(run, decision);
    let reached = [spent.tokens(limits.max_tokens), spent.cost(limits.max_cost)];
    permit(run, run.turn(), limits, reached.into_iter().flatten(), decision)
}

/// The same for a question that was asked before. Nobody could tell whether such a turn waits for others or for its answer, so
/// what is only set aside counts as used.
pub(super) fn permit_again(run: &Run, limits: Limits, decision: &mut Decision) -> bool {
    let spent = Spent::with(run, decision);
    let reached = [spent.tokens(limits.max_tokens), spent.cost(limits.max_cost)];
    let reached = reached.into_iter().flatten().map(|reached| Reached { why: Why::Used, ..reached });
    permit(run, run.turn(), limits, reached, decision)
}

/// Is there enough of both for somebody else? Decides nothing.
pub(super) fn has_room_for_errand(run: &Run, limits: Limits, decision: &Decision) -> bool {
    let spent = Spent::for_errand(run, decision);
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
    let reached = Reached::of(Limit::Timeout, spent, max);
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
        let policy = limits.policy(reached.limit);
        match policy {
            // What is set aside is not used yet.
            Policy::Warn if reached.why == Why::SetAside => continue,
            // It stays where it is, and is looked at again when one of them rests.
            Policy::Pause | Policy::Stop | Policy::Restart if may_wait(run, &reached, decision) => {
                return false;
            }
            Policy::Warn | Policy::Pause | Policy::Stop | Policy::Restart => {}
        }
        match policy {
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

/// Is there anybody who may give back what is missing?
pub(super) fn may_wait(run: &Run, reached: &Reached, decision: &Decision) -> bool {
    reached.why == Why::SetAside && child::may_give_back(run, decision)
}

/// Told once; once more only if the limit is changed, or counted anew.
fn warn(run: &Run, reached: Reached, decision: &mut Decision) {
    let name = reached.limit.as_str();
    let told = |event: &Event| matches!(event, Event::LimitPassed { limit, .. } if limit == name);
    if run.warned.iter().any(|told| told == name) || decision.events.iter().any(told) {
        return;
    }
    let Reached { limit, spent, max, .. } = reached;
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
    // It may be this very decision that has begun it.
    let ahead = decision.ahead(run);
    let now = ahead.as_ref().unwrap_or(run);
    if now.step().is_some_and(|step| step.status == StepStatus::Running) {
        return step::failed_at_limit(now, &reason, &reason, decision);
    }
    decision.checkpoint(run);
    let (from, to) = (Status::Running, Status::Failed);
    decision.and(Event::StatusChanged { from, to, cause: Cause::Limit, reason: Some(reason.clone()) });
    child::end_all(run, &reason, decision);
}

impl Reached {
    fn of(limit: Limit, spent: impl ToString, max: impl ToString) -> Reached {
        Reached { limit, spent: spent.to_string(), max: max.to_string(), why: Why::Used }
    }

    /// What is reached only because others may still use some.
    fn set_aside_if(self, is_set_aside: bool) -> Reached {
        Reached { why: if is_set_aside { Why::SetAside } else { Why::Used }, ..self }
    }

    fn event(self) -> Event {
        Event::LimitReached { limit: self.limit.to_string(), spent: self.spent, max: self.max }
    }

    fn reason(&self) -> String {
        let Reached { limit, spent, max, .. } = self;
        let budget = if *limit == Limit::Cost { COST_BUDGET } else { "" };
        format!("{budget}{limit} reached: {spent} of {max} used")
    }
}

/// What was used, also by a reply that this very decision remembers, and what the next one may take.
struct Spent {
    used: Usage,
    /// That, and what is set aside for others.
    gone: Usage,
    next: Reply,
}

impl Spent {
    fn with(run: &Run, decision: &Decision) -> Spent {
        let (drawn, next) = (Drawn::from(run, decision), Reply::of(&last_reply(run, decision)));
        Spent { used: drawn.used.usage, gone: drawn.gone.usage, next }
    }

    /// Whoever is asked beside the conversation may be another model, with another price: what it took last time is expected of it.
    fn for_question(run: &Run, aside: Aside, decision: &Decision) -> Spent {
        let mut known = run.aside_reserve;
        for event in decision.since(run) {
            if let Event::AsideEnded { aside, usage: Some(usage), .. } = event {
                known.heard(*aside, *usage);
            }
        }
        let spent = Spent::with(run, decision);
        Spent { next: known.of(aside).map_or(spent.next, |usage| Reply::of(&usage)), ..spent }
    }

    fn for_errand(run: &Run, decision: &Decision) -> Spent {
        let Drawn { used, gone, reply, .. } = Drawn::from(run, decision);
        Spent { used: used.usage, gone: gone.usage, next: reply }
    }

    fn tokens(&self, max: Option<u64>) -> Option<Reached> {
        let (max, next) = (max?, self.next.tokens);
        let is_out = |used: u64| used.saturating_add(next) > max || used >= max;
        let is_set_aside = !is_out(self.used.tokens());
        let used = if is_set_aside { self.gone.tokens() } else { self.used.tokens() };
        let reached = || Reached::of(Limit::Tokens, with_next(used, next, used >= max), max);
        is_out(self.gone.tokens()).then(|| reached().set_aside_if(is_set_aside))
    }

    /// What has no known price uses up any amount.
    fn cost(&self, max: Option<Usd>) -> Option<Reached> {
        let max = max?;
        if self.used.unpriced_tokens > 0 {
            return Some(Reached::of(Limit::Cost, "an unknown amount", max));
        }
        let next = self.next.cost;
        let is_out = |used: Usd| used >= max || [used, next].into_iter().sum::<Usd>() > max;
        let is_set_aside = !is_out(self.used.cost);
        let used = if is_set_aside { self.gone.cost } else { self.used.cost };
        let reached = || Reached::of(Limit::Cost, with_next(used, next, used >= max), max);
        is_out(self.gone.cost).then(|| reached().set_aside_if(is_set_aside))
    }
}

/// What is drawn from a run's budget, with what this very decision has to say of its children.
pub(super) struct Drawn {
    /// Used by the run and by those below it.
    pub(super) used: ChildLedger,
    /// That, and what is set aside for those who may be at work.
    pub(super) gone: ChildLedger,
    /// The most that one reply took, as far as it is known here.
    pub(super) reply: Reply,
}

impl Drawn {
    pub(super) fn from(run: &Run, decision: &Decision) -> Drawn {
        Drawn::up_to(run, u32::MAX, decision)
    }

    /// The same where all is divided anew: what children from that number on were granted is not set aside any more.
    pub(super) fn up_to(run: &Run, number: u32, decision: &Decision) -> Drawn {
        let mut used = ChildLedger { usage: run.usage, calls: run.calls_started, turns: run.turns };
        used.add(&run.children.spent());
        used.calls = used.calls.saturating_add(calls_begun(run, decision));
        let since = decision.since(run);
        since.iter().filter_map(usage_of).for_each(|usage| used.usage.add(usage));
        let reply = run.children.dearest().max(Reply::of(&last_reply(run, decision)));
        let mut drawn = Drawn { used, gone: used, reply };
        for child in run.live_children() {
            let part = Part::of(child);
            let since = if child.errand.number < number { since } else { &[] };
            drawn.count(Part { is_held: part.is_held && child.errand.number < number, ..part }, since);
        }
        for event in since {
            if let Event::ChildSpawned(errand) = event {
                drawn.count(Part::sent(errand), since);
            }
        }
        drawn
    }

    /// What is there for nobody else, because the run's own conversation is about to take it.
    pub(super) fn next(run: &Run, decision: &Decision) -> ChildLedger {
        let begun = |call: CallId| {
            let begins = |event: &Event| matches!(event, Event::CallStarted { call: of, .. } if *of == call);
            decision.since(run).iter().any(begins)
        };
        let call = run.open_call().filter(|call| call.is_uncounted() && !begun(call.id));
        let is_heard = decision.since(run).iter().any(|event| matches!(event, Event::ModelReplied { .. }));
        let asks = matches!(run.phase, Phase::Thinking { .. } | Phase::Resting { .. }) && !is_heard;
        let usage = if asks { run.reserve } else { Usage::default() };
        ChildLedger { usage, calls: u32::from(call.is_some()), turns: 0 }
    }

    fn count(&mut self, part: Part, since: &[Event]) {
        let part = since.iter().fold(part, Part::after);
        self.used.add(&part.used);
        self.gone.add(&part.used);
        self.reply = self.reply.max(part.used.reply());
        if part.is_held {
            self.gone.set_aside(&part.granted, &part.used);
        }
    }
}

/// What one child has of the budget.
struct Part {
    number: u32,
    granted: Limits,
    used: ChildLedger,
    /// Is the rest of it the child's? One that has paused goes on only with what there is then.
    is_held: bool,
}

impl Part {
    fn of(child: &Child) -> Part {
        let Child { errand, ledger, .. } = child;
        Part { number: errand.number, granted: errand.limits, used: *ledger, is_held: child.holds_budget() }
    }

    fn sent(errand: &Errand) -> Part {
        let (number, granted) = (errand.number, errand.limits);
        Part { number, granted, used: ChildLedger::default(), is_held: true }
    }

    fn after(self, event: &Event) -> Part {
        let of = |number: &u32| *number == self.number;
        if let Event::ChildEnded { number, ledger, .. } = event
            && of(number)
        {
            return Part { used: *ledger, is_held: false, ..self };
        }
        if let Event::ChildRested { number, ledger, paused, .. } = event
            && of(number)
        {
            return Part { used: *ledger, is_held: paused.is_none(), ..self };
        }
        if let Event::ChildResumed { number, limits, .. } = event
            && of(number)
        {
            return Part { granted: limits.unwrap_or(self.granted), is_held: true, ..self };
        }
        if let Event::ChildHeld { number } = event
            && of(number)
        {
            // There was no run that could have used anything.
            return Part { used: ChildLedger::default(), is_held: false, ..self };
        }
        self
    }
}

/// What this very decision remembers as used by the run's own model.
fn usage_of(event: &Event) -> Option<&Usage> {
    if let Event::ModelReplied { usage, .. } = event {
        return Some(usage);
    }
    if let Event::TurnFailed { usage, .. } | Event::AsideEnded { usage, .. } = event {
        return usage.as_ref();
    }
    None
}

/// What the run's own last reply took.
fn last_reply(run: &Run, decision: &Decision) -> Usage {
    let now = decision.since(run).iter().rev().find_map(|event| {
        let Event::ModelReplied { usage, .. } = event else { return None };
        Some(*usage)
    });
    now.unwrap_or(run.reserve)
}

/// Calls that this very decision begins: several errands may be given in one.
fn calls_begun(run: &Run, decision: &Decision) -> u32 {
    let begins = |event: &&Event| matches!(event, Event::CallStarted { attempt: Attempt::FIRST, .. });
    decision.since(run).iter().filter(begins).count() as u32
}

fn with_next(spent: impl ToString, next: impl ToString, is_over: bool) -> String {
    let spent = spent.to_string();
    if is_over { spent } else { format!("{spent} (the next turn would take about {})", next.to_string()) }
}

fn steps(run: &Run, limits: Limits, decision: &Decision) -> Option<Reached> {
    let (Drawn { used, gone, .. }, max) = (Drawn::from(run, decision), limits.max_steps);
    let reached = || Reached::of(Limit::Steps, with_set_aside(used.turns, gone.turns, max), max);
    (gone.turns >= max).then(|| reached().set_aside_if(used.turns < max))
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
    let (Drawn { used, gone, .. }, max) = (Drawn::from(run, decision), limits.max_tool_calls);
    if gone.calls < max || !limits.holds(Limit::ToolCalls) {
        return None;
    }
    let reached = Reached::of(Limit::ToolCalls, with_set_aside(used.calls, gone.calls, max), max);
    let reached = reached.set_aside_if(used.calls < max);
    let may_get_more = run.spec.parent.is_some() || used.calls < max;
    Some(CallsOut { reached, used: used.calls, may_get_more })
}

/// Why nobody below may go on, in the run's own numbers: those of a part would say little to whoever set the whole.
pub(super) fn counted_out(run: &Run, decision: &Decision) -> Option<String> {
    let (limits, used) = (run.spec.limits, run.ledger());
    let spent = Spent::for_errand(run, decision);
    let reached = [
        (used.turns >= limits.max_steps).then(|| Reached::of(Limit::Steps, used.turns, limits.max_steps)),
        (used.calls >= limits.max_tool_calls).then(|| calls(run, limits)),
        spent.tokens(limits.max_tokens),
        spent.cost(limits.max_cost),
    ];
    // One that only warns keeps nobody from going on.
    let mut holding = reached.into_iter().flatten().filter(|reached| limits.holds(reached.limit));
    holding.next().map(|reached| reached.reason())
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
    let before = run.calls.iter().rev().find(|call| !run.is_of_turn(call, this_turn));
    let before = before.and_then(|call| call.outcome());
    let before = matches!(before, Some(Outcome::Failed { failure: Failure::BudgetExceeded, .. }));
    (now && before && run.ledger().calls >= limits.max_tool_calls).then(|| calls(run, limits))
}
