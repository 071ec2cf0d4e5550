//! Sub-agents: errands given to other runs, and what comes back. An errand that fails is tried once more with what went
//! wrong; what a child may spend is set aside from its parent's budget before it begins.

use super::limit::Drawn;
use super::{Decision, ask, call, limit, recovery, schedule};
use crate::child::{
    Child, ChildEnding, ChildLedger, ChildReport, ChildState, Errand, Origin, Reply, child_id,
};
use crate::effect::Effect;
use crate::event::{Cause, Event};
use crate::ids::{Attempt, CallId};
use crate::json::Json;
use crate::limits::{EVENT_TEXT_BYTES_MAX, NOTE_BYTES_MAX, PARALLEL_DEFAULT, SPAWNS_MAX, TEXT_BYTES_MAX};
use crate::money::Usd;
use crate::plan::StepStatus;
use crate::policy::Limit;
use crate::prompt::{self, head};
use crate::run::{Call, CallState, Phase, Run};
use crate::spec::Limits;
use crate::status::Status;
use crate::suggest;
use crate::tool::{Failure, Outcome, SPAWN};

/// Gives a step to another run; an error says why that cannot be.
pub(super) fn send_step(
    run: &Run,
    step: u32,
    share: Share,
    limits: Limits,
    decision: &mut Decision,
) -> Result<(), String> {
    let planned = run.plan.steps.get(step as usize).ok_or("there is no such step")?;
    let task = told(run, step, decision);
    let (agent, limits) = (planned.agent.clone(), allowance(run, share, limits, decision));
    send(run, Sent { agent, task, origin: Origin::Step { step }, attempt: Attempt::FIRST, limits }, decision)
}

/// What whoever does a step is told, also of what was said only now.
pub(super) fn told(run: &Run, step: u32, decision: &Decision) -> String {
    let just_said = |step: usize| decision.said_by(run, step as u32);
    prompt::step_text(run, step as usize, just_said)
}

/// What an agent asks another for, if it may.
pub(super) fn asked(run: &Run, args: &Json) -> Result<(String, String), (Failure, String)> {
    let args = args.value();
    let (agent, task) = (ask::words(&args, "agent")?.to_owned(), ask::words(&args, "task")?.to_owned());
    if !run.spec.knows(&agent) {
        let names: Vec<&str> = run.spec.crew().iter().map(|mate| mate.name.as_str()).collect();
        let guess = suggest::closest(&agent, &names).map(|name| format!("; did you mean `{name}`?"));
        let message = format!("there is no agent `{agent}`{}", guess.unwrap_or_default());
        return Err((Failure::InvalidArguments, message));
    }
    depth_allows(run).map_err(|message| (Failure::BudgetExceeded, message))?;
    let spawns = run.children.iter().filter(|child| matches!(child.errand.origin, Origin::Call { .. }));
    if spawns.count() >= SPAWNS_MAX {
        let message =
            format!("a run may start {SPAWNS_MAX} sub-agents, and this one has; do the rest yourself");
        return Err((Failure::BudgetExceeded, message));
    }
    Ok((agent, task))
}

/// Gives what a call asks for to another run.
pub(super) fn send_call(
    run: &Run,
    call: CallId,
    (agent, task): (String, String),
    decision: &mut Decision,
) -> Result<(), String> {
    let own = 1 + u32::from(run.phase != Phase::Idle);
    // Others may be sent in the same turn.
    let share = Share { spending: own, counts: PARALLEL_DEFAULT };
    let limits = allowance(run, share, run.spec.limits, decision);
    send(run, Sent { agent, task, origin: Origin::Call { call }, attempt: Attempt::FIRST, limits }, decision)
}

struct Sent {
    agent: String,
    task: String,
    origin: Origin,
    attempt: Attempt,
    limits: Limits,
}

fn send(run: &Run, sent: Sent, decision: &mut Decision) -> Result<(), String> {
    depth_allows(run)?;
    let number = run.children.len() as u32 + decision.children_sent(run) + 1;
    let id = child_id(&run.spec.id, number).ok_or("this run's name is too long for those of sub-agents")?;
    let Sent { agent, task, origin, attempt, limits } = sent;
    let task = head(&task, TEXT_BYTES_MAX).to_owned();
    let errand = Errand { number, id, agent, task, origin, attempt, limits };
    decision.and(Event::ChildSpawned(Box::new(errand)));
    decision.then(Effect::Attend { child: number });
    Ok(())
}

/// The root is at depth 0; nobody works deeper than the limit.
fn depth_allows(run: &Run) -> Result<(), String> {
    let max = run.spec.limits.max_sub_agent_depth;
    if run.spec.depth < max {
        return Ok(());
    }
    Err(format!(
        "sub-agents may nest {max} deep (max_sub_agent_depth), and this run is at depth {}",
        run.spec.depth
    ))
}

/// Among how many what is left is divided.
#[derive(Clone, Copy)]
pub(super) struct Share {
    /// Money and tokens: also for whoever comes later.
    pub(super) spending: u32,
    /// Calls and turns: only for those at work at once, since what is not used comes back.
    pub(super) counts: u32,
}

impl Share {
    const WHOLE: Share = Share { spending: 1, counts: 1 };
}

/// What is left of the budget for one of those that divide it. All of it is set aside, so that those at work at once do not use
/// the same twice. Who cannot be given enough for a reply gets nothing, rests at once and is given more when others give back.
fn allowance(run: &Run, share: Share, limits: Limits, decision: &Decision) -> Limits {
    let Drawn { mut gone, reply, .. } = Drawn::from(run, decision);
    gone.add(&Drawn::next(run, decision));
    let (cost, tokens) = (gone.usage.cost, gone.usage.tokens());
    let spending = u64::from(share.spending.max(1));
    Limits {
        max_tool_calls: some_of(limits.max_tool_calls.saturating_sub(gone.calls), share.counts),
        max_steps: some_of(limits.max_steps.saturating_sub(gone.turns), share.counts),
        max_tokens: limits
            .max_tokens
            .map(|max| enough_of(max.saturating_sub(tokens), spending, reply.tokens)),
        max_cost: limits.max_cost.map(|max| enough_cost_of(max.less(cost), spending, reply)),
        timeout_ms: limits.timeout_ms.map(|max| max.saturating_sub(run.worked_ms(run.updated_at)).max(1)),
        ..limits
    }
}

/// One of so many parts; nobody is sent with nothing while there is anything.
fn some_of(left: u32, parts: u32) -> u32 {
    (left / parts.max(1)).max(left.min(1))
}

/// One of so many parts, but no less than one reply takes; nothing, if there is not even that.
fn enough_of(left: u64, parts: u64, reply: u64) -> u64 {
    if left < reply { 0 } else { (left / parts.max(1)).max(reply) }
}

fn enough_cost_of(left: Usd, parts: u64, reply: Reply) -> Usd {
    Usd::from_nanos(enough_of(left.as_nanos(), parts, reply.cost.as_nanos()))
}

/// Is enough left for a reply that is set aside for nobody?
pub(super) fn has_room(run: &Run, limits: Limits, decision: &Decision) -> bool {
    let left = allowance(run, Share::WHOLE, limits, decision);
    let is_there = [
        (Limit::Cost, left.max_cost.is_none_or(|left| left > Usd::ZERO)),
        (Limit::Tokens, left.max_tokens.is_none_or(|left| left > 0)),
        (Limit::ToolCalls, left.max_tool_calls > 0),
        (Limit::Steps, left.max_steps > 0),
    ];
    is_there.into_iter().all(|(limit, is_there)| is_there || !limits.holds(limit))
}

/// A child came to rest.
pub(super) fn rested(run: &Run, number: u32, report: ChildReport) -> Decision {
    let Some(child) = run.child(number).filter(|child| !child.has_ended()) else {
        return Decision::nothing();
    };
    if run.status.is_terminal() {
        return counted(child, report);
    }
    let mut decision = heard(run, child, report);
    // Who stood there for want of calls, turns or money comes before whoever could begin with what was given back.
    if run.status == Status::Running && run.stands() {
        recovery::go_on_talking(run, run.spec.limits, &mut decision);
    }
    follow(run, child.errand.origin, &mut decision);
    decision
}

/// The run has ended, and nothing follows from how the child did; what that used is used all the same.
fn counted(child: &Child, ChildReport { ending, ledger }: ChildReport) -> Decision {
    let number = child.errand.number;
    let ended = |error: Option<String>| Decision::remember(Event::ChildEnded { number, error, ledger });
    match ending {
        ChildEnding::Completed { .. } => ended(None),
        ChildEnding::Failed { error: why }
        | ChildEnding::Stopped { reason: why }
        | ChildEnding::Refused { why } => ended(Some(head(&why, NOTE_BYTES_MAX).to_owned())),
        // It is told to end, and has its last word then.
        ChildEnding::Held { .. }
        | ChildEnding::Idle { .. }
        | ChildEnding::GaveUp { .. }
        | ChildEnding::Waiting
        | ChildEnding::Paused { .. } => {
            if ledger == child.ledger {
                return Decision::nothing();
            }
            let (paused, reason) = (Some(Cause::Asked), Some("the run it worked for has ended".to_owned()));
            Decision::remember(Event::ChildRested { number, paused, reason, ledger })
        }
    }
}

/// Is anybody at work, or waiting for a person, who may give back what is set aside?
pub(super) fn may_give_back(run: &Run, decision: &Decision) -> bool {
    let crowd = Crowd::with(run, decision);
    crowd.working + crowd.waiting > 0
}

/// What is remembered of a child's rest, before it is asked what that leads to.
pub(super) fn heard(run: &Run, child: &Child, report: ChildReport) -> Decision {
    let mut decision = Decision::nothing();
    let (number, origin, ledger) = (child.errand.number, child.errand.origin, report.ledger);
    match report.ending {
        ChildEnding::Completed { output } => {
            // Handed in before it is remembered as ended: a child that seems to be at work is asked again, a result that is
            // missing would never come.
            hand_in(run, origin, Ok(head(&output, TEXT_BYTES_MAX).to_owned()), &mut decision);
            decision.and(Event::ChildEnded { number, error: None, ledger });
        }
        ChildEnding::Failed { error } => {
            let error = head(&error, NOTE_BYTES_MAX).to_owned();
            decision.and(Event::ChildEnded { number, error: Some(error.clone()), ledger });
            failed(run, child, &error, &mut decision);
        }
        // Handed in first, as above: what is ended and not handed in would be tried again.
        ChildEnding::Stopped { reason } => {
            let Errand { agent, id, .. } = &child.errand;
            let reason = head(&reason, EVENT_TEXT_BYTES_MAX);
            let error = format!("stopped by a person: sub-agent {agent}, {id} ({reason})");
            hand_in(run, origin, Err(error.clone()), &mut decision);
            decision.and(Event::ChildEnded { number, error: Some(error), ledger });
        }
        ChildEnding::Refused { why } => {
            let why = head(&why, NOTE_BYTES_MAX).to_owned();
            hand_in(run, origin, Err(why.clone()), &mut decision);
            decision.and(Event::ChildEnded { number, error: Some(why), ledger });
        }
        ChildEnding::Held { why } => held(run, child, &why, ledger, &mut decision),
        ChildEnding::GaveUp { error } => {
            give_up(run, child, head(&error, NOTE_BYTES_MAX), ledger, &mut decision);
        }
        // More was allowed meanwhile.
        ChildEnding::Idle { ms } if ms < run.spec.max_child_idle_ms() => match run.status {
            Status::Running => decision.then(Effect::Attend { child: number }),
            Status::Created | Status::Paused | Status::Completed | Status::Failed => {
                let (paused, reason) = (Some(Cause::Asked), Some("nothing was heard of it".to_owned()));
                decision.and(Event::ChildRested { number, paused, reason, ledger });
            }
        },
        ChildEnding::Idle { ms } => {
            let most = run.spec.max_child_idle_ms() / 1000;
            let error = format!("idle: nothing came of it for {} s (max_child_idle is {most} s)", ms / 1000);
            give_up(run, child, &error, ledger, &mut decision);
        }
        ChildEnding::Waiting => {
            decision.and(Event::ChildRested { number, paused: None, reason: None, ledger });
            decision.then(Effect::AwaitAnswer { child: number });
        }
        ChildEnding::Paused { cause, reason } => {
            let reason = head(&reason, EVENT_TEXT_BYTES_MAX).to_owned();
            decision.and(Event::ChildRested { number, paused: Some(cause), reason: Some(reason), ledger });
        }
    }
    decision
}

/// Nobody was sent, because a person is to be asked first. Others that the turn asked for are out or not, as they were.
fn held(run: &Run, child: &Child, why: &str, ledger: ChildLedger, decision: &mut Decision) {
    let number = child.errand.number;
    if run.status != Status::Running {
        let (paused, reason) = (Some(Cause::Asked), Some("the run was paused before it was sent".to_owned()));
        return decision.and(Event::ChildRested { number, paused, reason, ledger });
    }
    decision.and(Event::ChildHeld { number });
    if let Origin::Call { call } = child.errand.origin {
        call::ask_first(run, call, why, decision);
    }
}

/// Nobody waits for that child any longer.
fn give_up(run: &Run, child: &Child, error: &str, ledger: ChildLedger, decision: &mut Decision) {
    let number = child.errand.number;
    decision.then(Effect::EndChild { child: number, reason: error.to_owned() });
    decision.and(Event::ChildEnded { number, error: Some(error.to_owned()), ledger });
    failed(run, child, error, decision);
}

/// What a child's rest leads to: the steps or calls after it, or that nothing moves any more.
fn follow(run: &Run, origin: Origin, decision: &mut Decision) {
    match origin {
        Origin::Step { .. } => schedule::go_on(run, run.spec.limits, decision),
        Origin::Call { call } => {
            if let Some(ahead) = decision.ahead(run).filter(|ahead| ahead.status == Status::Running)
                && let Some(done) = ahead.call(call).filter(|call| ahead.is_in_hand(call))
            {
                call::go_on_beside(&ahead, done, decision);
            }
            // Whoever is back leaves room for a step that is ready.
            match run.plan.ready().next() {
                Some(_) => schedule::go_on(run, run.spec.limits, decision),
                None => rest_with(run, decision),
            }
        }
    }
}

/// Somebody said something to a child that waits.
pub(super) fn answered(run: &Run, number: u32) -> Decision {
    let waits = |child: &&Child| child.state == ChildState::Waiting && run.status == Status::Running;
    let Some(_) = run.child(number).filter(waits) else { return Decision::nothing() };
    let mut decision = Decision::remember(Event::ChildResumed { number, limits: None, model: None });
    decision.then(Effect::Attend { child: number });
    decision
}

/// The errand failed: once more with what went wrong, then for good. A run that is not under way settles that when it is.
fn failed(run: &Run, child: &Child, error: &str, decision: &mut Decision) {
    if decision.status_after(run) != Status::Running {
        return;
    }
    let Errand { agent, task, origin, attempt, .. } = &child.errand;
    if !child.may_try_again() {
        let error = format!("sub-agent {agent} failed twice, last with: {error}");
        return hand_in(run, *origin, Err(error), decision);
    }
    // What the first try did not use is there for the second.
    let sent = Sent {
        agent: agent.clone(),
        task: prompt::second_try(run, task, error),
        origin: *origin,
        attempt: attempt.next(),
        limits: allowance(run, Share::WHOLE, run.spec.limits, decision),
    };
    if let Err(error) = send(run, sent, decision) {
        hand_in(run, *origin, Err(error), decision);
    }
}

/// What came of the errand goes where it was wanted, if it still is.
fn hand_in(run: &Run, origin: Origin, result: Result<String, String>, decision: &mut Decision) {
    match origin {
        Origin::Step { step } => {
            let planned = run.plan.steps.get(step as usize);
            if planned.is_some_and(|planned| planned.status == StepStatus::Running) {
                decision.and(match result {
                    Ok(output) => Event::StepCompleted { step, output },
                    Err(error) => Event::StepFailed { step, error },
                });
                decision.checkpoint(run);
            }
        }
        Origin::Call { call } => {
            if let Some(open) = run.call(call).filter(|open| !open.has_ended()) {
                let outcome = match result {
                    Ok(output) => Outcome::done(output),
                    Err(error) => Outcome::failed(Failure::Tool, error),
                };
                call::close(open, open.attempt(), outcome, 1, decision);
            }
        }
    }
}

/// Nothing moves any more, and a child has paused: so does its parent, for the same reason.
pub(super) fn rest_with(run: &Run, decision: &mut Decision) {
    let crowd = Crowd::with(run, decision);
    if crowd.paused == 0 {
        return;
    }
    if crowd.working + crowd.waiting > 0 {
        return pass_on(run, decision);
    }
    let Some(ahead) = decision.ahead(run).filter(|ahead| ahead.status == Status::Running) else { return };
    let is_blocked = match ahead.phase {
        Phase::Idle => true,
        Phase::Calling { .. } => ahead
            .open_call()
            .is_some_and(|call| ahead.is_errand(call.id) || matches!(call.state, CallState::Asking { .. })),
        Phase::Opened
        | Phase::Thinking { .. }
        | Phase::Resting { .. }
        | Phase::Answered { .. }
        | Phase::CutOff { .. }
        | Phase::Examining { .. }
        | Phase::Aside { .. }
        | Phase::AsideResting { .. } => false,
    };
    if !is_blocked || ahead.gates.iter().any(|gate| gate.answer.is_none()) {
        return pass_on(run, decision);
    }
    let mut out = ahead.live_children().filter(|child| child.is_out());
    let helped = out.find_map(|child| Some((child, more_for(&ahead, child, 1, decision)?)));
    if let Some((child, limits)) = helped {
        return take_up(child, limits, decision);
    }
    let paused = ahead.live_children().find_map(|child| match &child.state {
        ChildState::Paused { cause, reason } => Some((child, *cause, reason)),
        ChildState::Working
        | ChildState::Waiting
        | ChildState::Completed
        | ChildState::Failed { .. }
        | ChildState::Held => None,
    });
    let Some((child, cause, reason)) = paused else { return };
    let Errand { id, agent, .. } = &child.errand;
    let own = (cause == Cause::Limit).then(|| limit::counted_out(&ahead, decision)).flatten();
    let reason = own.as_ref().unwrap_or(reason);
    decision.pause(run, cause, format!("{reason} (sub-agent {agent}, {id})"));
}

/// Children came to the end of their part while somebody else moves: each gets half of what nobody has set aside, if that is any
/// use to it.
fn pass_on(run: &Run, decision: &mut Decision) {
    let Some(ahead) = decision.ahead(run).filter(|ahead| ahead.status == Status::Running) else { return };
    for child in ahead.live_children().filter(|child| child.is_out()) {
        if let Some(limits) = more_for(&ahead, child, 2, decision) {
            take_up(child, limits, decision);
        }
    }
}

/// A child goes on with more than it had.
fn take_up(child: &Child, limits: Limits, decision: &mut Decision) {
    let number = child.errand.number;
    decision.and(Event::ChildResumed { number, limits: Some(limits), model: None });
    decision.then(Effect::Attend { child: number });
}

/// How many children there will be of each kind that has not ended, when what was decided so far is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crowd {
    pub(super) working: u32,
    pub(super) waiting: u32,
    pub(super) paused: u32,
}

impl Crowd {
    pub(super) fn with(run: &Run, decision: &Decision) -> Crowd {
        let mut crowd = Crowd::default();
        let since = decision.since(run);
        for child in run.live_children() {
            let told = since.iter().rev().find_map(|event| becomes(event, child.errand.number));
            crowd.count(told.unwrap_or_else(|| Kind::of(&child.state)));
        }
        // Who is only sent now is at work, unless it has something to say already.
        for event in since {
            if let Event::ChildSpawned(errand) = event {
                let told = since.iter().rev().find_map(|event| becomes(event, errand.number));
                crowd.count(told.unwrap_or(Kind::Working));
            }
        }
        crowd
    }

    fn count(&mut self, kind: Kind) {
        match kind {
            Kind::Working => self.working += 1,
            Kind::Waiting => self.waiting += 1,
            Kind::Paused => self.paused += 1,
            Kind::Ended => {}
        }
    }

    pub(super) fn live(self) -> u32 {
        self.working + self.waiting + self.paused
    }
}

#[derive(Clone, Copy)]
enum Kind {
    Working,
    Waiting,
    Paused,
    Ended,
}

impl Kind {
    fn of(state: &ChildState) -> Kind {
        match state {
            ChildState::Working => Kind::Working,
            ChildState::Waiting => Kind::Waiting,
            ChildState::Paused { .. } => Kind::Paused,
            ChildState::Completed | ChildState::Failed { .. } | ChildState::Held => Kind::Ended,
        }
    }
}

/// What an event makes of that child.
fn becomes(event: &Event, child: u32) -> Option<Kind> {
    let (of, kind) = if let Event::ChildEnded { number, .. } | Event::ChildHeld { number } = event {
        (number, Kind::Ended)
    } else if let Event::ChildRested { number, paused, .. } = event {
        (number, if paused.is_some() { Kind::Paused } else { Kind::Waiting })
    } else if let Event::ChildResumed { number, .. } = event {
        (number, Kind::Working)
    } else {
        return None;
    };
    (*of == child).then_some(kind)
}

/// One of so many parts of what others have given back, for a child that came to the end of its own.
fn more_for(run: &Run, child: &Child, parts: u32, decision: &Decision) -> Option<Limits> {
    let left = Left::of(run, parts, decision);
    let (limits, had) = (left.granted(child), child.errand.limits);
    if !left.allows_reply(child, limits) {
        return None;
    }
    let is_more = limits.max_cost > had.max_cost
        || limits.max_tokens > had.max_tokens
        || limits.max_tool_calls > had.max_tool_calls
        || limits.max_steps > had.max_steps
        || limits.timeout_ms > had.timeout_ms;
    is_more.then_some(limits)
}

/// What nobody has used and nobody has set aside, of which one part goes to a child that is taken up again.
struct Left<'a> {
    run: &'a Run,
    drawn: Drawn,
    /// What the run itself is about to take.
    next: ChildLedger,
    parts: u32,
    /// What is drawn when all is divided anew.
    anew: Option<Drawn>,
}

/// What becomes of what was set aside when a run is taken up again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Division {
    /// Who may be at work keeps what it has, also if others have used more than was set aside for them.
    Kept,
    /// A person has set a limit lower: what is more than there is now is divided anew.
    Anew,
}

impl Division {
    pub(super) fn after(before: Limits, now: Limits) -> Division {
        let is_lower = now.max_tool_calls < before.max_tool_calls
            || now.max_steps < before.max_steps
            || now.max_tokens.is_some_and(|now| before.max_tokens.is_none_or(|before| now < before))
            || now.max_cost.is_some_and(|now| before.max_cost.is_none_or(|before| now < before));
        if is_lower { Division::Anew } else { Division::Kept }
    }
}

impl Left<'_> {
    fn of<'a>(run: &'a Run, parts: u32, decision: &Decision) -> Left<'a> {
        let (drawn, next) = (Drawn::from(run, decision), Drawn::next(run, decision));
        Left { run, drawn, next, parts: parts.max(1), anew: None }
    }

    fn divided<'a>(
        run: &'a Run,
        child: &Child,
        parts: u32,
        division: Division,
        decision: &Decision,
    ) -> Left<'a> {
        let anew = || Drawn::up_to(run, child.errand.number, decision);
        Left { anew: (division == Division::Anew).then(anew), ..Left::of(run, parts, decision) }
    }

    /// What a reply of that child takes: its own are known, or else the dearest of all.
    fn reply(&self, child: &Child) -> Reply {
        if child.ledger.turns > 0 { child.ledger.reply() } else { self.drawn.reply }
    }

    /// Has the child enough beyond what it has used for one more reply?
    fn allows_reply(&self, child: &Child, limits: Limits) -> bool {
        let (used, reply) = (&child.ledger.usage, self.reply(child));
        let of_cost = |max: Usd| max > used.cost && max.less(used.cost) >= reply.cost;
        let of_tokens = |max: u64| max > used.tokens() && max - used.tokens() >= reply.tokens;
        (limits.max_cost.is_none_or(of_cost) || !limits.holds(Limit::Cost))
            && (limits.max_tokens.is_none_or(of_tokens) || !limits.holds(Limit::Tokens))
    }

    /// What a child may use from here on, in all. What one who may be at work was granted stays its own, because what it has used
    /// of that since it last said so is not known; one that has paused gets of what there is now. Where more was used than was
    /// set aside, nothing is left for anybody until others give back.
    fn granted(&self, child: &Child) -> Limits {
        let (limits, own, had) = (self.run.spec.limits, &child.ledger, child.errand.limits);
        let (Drawn { gone, .. }, next) = (&self.drawn, &self.next);
        let again = self.anew.as_ref().map(|anew| anew.gone);
        let (parts, held, reply) = (u64::from(self.parts), child.holds_budget(), self.reply(child));
        let counts = |max: u32, again: Option<u32>, gone: u32, next: u32, own: u32, had: u32| {
            let again = again.filter(|_| gone > max);
            if held && again.is_none() {
                return had;
            }
            let left = max.saturating_sub(again.unwrap_or(gone).saturating_add(next));
            let most = own.saturating_add(left.div_ceil(self.parts));
            // More calls help nobody who has not asked for more than it had.
            if own >= had && child.is_out() { most } else { most.min(had) }
        };
        let tokens = |max: u64| {
            let gone = gone.usage.tokens();
            let again = again.map(|again| again.usage.tokens()).filter(|_| gone > max);
            let left = max.saturating_sub(again.unwrap_or(gone).saturating_add(next.usage.tokens()));
            let most = own.usage.tokens().saturating_add(enough_of(left, parts, reply.tokens));
            had.max_tokens.filter(|_| held && again.is_none()).unwrap_or(most)
        };
        let cost = |max: Usd| {
            let gone = gone.usage.cost;
            let again = again.map(|again| again.usage.cost).filter(|_| gone > max);
            let left = max.less(again.unwrap_or(gone)).less(next.usage.cost);
            let most = [own.usage.cost, enough_cost_of(left, parts, reply)].into_iter().sum();
            had.max_cost.filter(|_| held && again.is_none()).unwrap_or(most)
        };
        let worked_ms = self.run.worked_ms(self.run.updated_at);
        Limits {
            max_tool_calls: counts(
                limits.max_tool_calls,
                again.map(|again| again.calls),
                gone.calls,
                next.calls,
                own.calls,
                had.max_tool_calls,
            ),
            max_steps: counts(
                limits.max_steps,
                again.map(|again| again.turns),
                gone.turns,
                next.turns,
                own.turns,
                had.max_steps,
            ),
            max_tokens: limits.max_tokens.map(tokens),
            max_cost: limits.max_cost.map(cost),
            timeout_ms: limits.timeout_ms.map(|max| max.saturating_sub(worked_ms).max(1)),
            ..limits
        }
    }
}

/// The run is taken up again: so are those it had sent, with the model that a person now wants. What a crash kept from being
/// handed in is handed in now.
pub(super) fn pick_up(run: &Run, model: Option<&str>, division: Division, decision: &mut Decision) {
    let live: Vec<&Child> = run.live_children().collect();
    // Each gets its part of what those before it left, and the run itself keeps the last.
    let parts = (2..=live.len() as u32 + 1).rev();
    for (child, parts) in live.iter().zip(parts) {
        let number = child.errand.number;
        if child_id(&run.spec.id, number).as_ref() != Some(&child.errand.id) {
            send_anew(run, child, parts, decision);
            continue;
        }
        let limits = Left::divided(run, child, parts, division, decision).granted(child);
        let is_new = limits != child.errand.limits;
        let model = model.filter(|model| child.model.as_deref() != Some(*model)).map(str::to_owned);
        if !child.is_working() || is_new || model.is_some() {
            decision.and(Event::ChildResumed { number, limits: is_new.then_some(limits), model });
        }
        decision.then(Effect::Attend { child: number });
    }
    for (index, _) in run.plan.steps.iter().enumerate().filter(|(_, step)| step.status == StepStatus::Running)
    {
        let origin = Origin::Step { step: index as u32 };
        let in_hand = run.phase != Phase::Idle && run.current_step == index as u32;
        if let Some(child) = left_behind(run, origin).filter(|_| !in_hand) {
            after_crash(run, child, decision);
        }
    }
}

/// A run that was copied knows the errands of the one it was copied from. They are not its own to see to, and not to end
/// either: what they were for is given out anew, under its own name.
fn send_anew(run: &Run, child: &Child, parts: u32, decision: &mut Decision) {
    let (number, ledger) = (child.errand.number, child.ledger);
    let error = Some("it works for the run that this one was copied from".to_owned());
    decision.and(Event::ChildEnded { number, error, ledger });
    let Errand { agent, task, origin, attempt, .. } = child.errand.clone();
    let share = Share { spending: parts, counts: parts };
    let limits = allowance(run, share, run.spec.limits, decision);
    if let Err(error) = send(run, Sent { agent, task, origin, attempt, limits }, decision) {
        hand_in(run, origin, Err(error), decision);
    }
}

/// Is a call of the turn in hand an errand that has not come back?
pub(super) fn any_out(run: &Run) -> bool {
    out(run).next().is_some()
}

fn out(run: &Run) -> impl Iterator<Item = &Call> {
    let of_turn = run.calls.last().map_or(&[][..], |last| run.calls_of_turn(last));
    of_turn.iter().filter(|call| call.tool == SPAWN && matches!(call.state, CallState::Started { .. }))
}

/// The same for the calls of the turn in hand that are errands.
pub(super) fn pick_up_calls(run: &Run, decision: &mut Decision) {
    for call in out(run).filter(|call| !run.is_errand(call.id)) {
        match left_behind(run, Origin::Call { call: call.id }) {
            Some(child) => after_crash(run, child, decision),
            None => {
                let sent = asked(run, &call.args).map_err(|(_, message)| message);
                if let Err(error) = sent.and_then(|sent| send_call(run, call.id, sent, decision)) {
                    call::close(call, call.attempt(), Outcome::failed(Failure::Tool, error), 1, decision);
                }
            }
        }
    }
    if let Some(ahead) = decision.ahead(run)
        && let Some(last) = ahead.calls.last()
    {
        call::go_on_beside(&ahead, last, decision);
    }
}

fn after_crash(run: &Run, child: &Child, decision: &mut Decision) {
    if let ChildState::Failed { error } = &child.state {
        failed(run, child, error, decision);
    }
}

/// The last child sent for that, if it has ended. One that was held back was not sent.
fn left_behind(run: &Run, origin: Origin) -> Option<&Child> {
    run.last_child(origin).filter(|child| child.has_ended() && child.state != ChildState::Held)
}

/// The run ends, and nobody below it goes on. What they used is remembered when they have ended.
pub(super) fn end_all(run: &Run, reason: &str, decision: &mut Decision) {
    let Some(ahead) = decision.ahead(run) else { return };
    if ahead.live_children().next().is_none() {
        return;
    }
    decision.then(Effect::CancelWork);
    for child in ahead.live_children() {
        decision.then(Effect::EndChild { child: child.errand.number, reason: reason.to_owned() });
    }
}
