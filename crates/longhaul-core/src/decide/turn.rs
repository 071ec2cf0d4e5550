//! Turns: asking the model and hearing it.

use super::{Decision, call, compact, stop};
use crate::conversation::{ModelReply, ProposedCall, Stop};
use crate::effect::Effect;
use crate::event::{Cause, Event};
use crate::ids::Attempt;
use crate::limits::{
    ARGUMENT_BYTES_MAX, CUT_OFF_REPLIES_MAX, EVENT_TEXT_BYTES_MAX, PROVIDER_ID_BYTES_MAX,
    REPLY_ARGUMENT_BYTES_MAX, REPLY_CALLS_MAX, REPLY_RAW_BYTES_MAX, TEXT_BYTES_MAX, TOOL_NAME_BYTES_MAX,
};
use crate::money::Usd;
use crate::prompt::{self, head};
use crate::run::{Phase, Run};
use crate::spec::Limits;
use crate::status::Status;
use crate::tool::{Failure, Outcome};

/// Starts turn number `turn` of the step in hand, or pauses if a limit is reached.
pub(super) fn begin(run: &Run, turn: u32, limits: Limits, decision: &mut Decision) {
    match reached(run, limits).or_else(|| refused_again(run, limits, decision)) {
        Some(reached) => stop_at(run, reached, decision),
        None => compact::then_turn(run, turn, Attempt::FIRST, decision),
    }
}

pub(super) fn stop_at(run: &Run, reached: Event, decision: &mut Decision) {
    let Event::LimitReached { limit, spent, max } = &reached else { return };
    let reason = match limit.as_str() {
        "max_cost" => format!("cost_budget: max_cost reached: {spent} of {max} used"),
        _ => format!("{limit} reached: {spent} of {max} used"),
    };
    decision.and(reached);
    decision.pause(run, Cause::Limit, reason);
}

/// Asks for a turn again that was asked for before, unless a limit was reached meanwhile.
pub(super) fn again(run: &Run, turn: u32, next: Attempt, limits: Limits, decision: &mut Decision) {
    match spent(run, limits) {
        Some(reached) => stop_at(run, reached, decision),
        None => attempt(turn, next, decision),
    }
}

pub(super) fn attempt(turn: u32, attempt: Attempt, decision: &mut Decision) {
    decision.and(Event::TurnStarted { turn, attempt });
    decision.then(Effect::CallModel { turn, attempt });
}

pub(super) fn replied(
    run: &Run,
    turn: u32,
    attempt: Attempt,
    reply: ModelReply,
    duration_us: u64,
) -> Decision {
    if run.phase != (Phase::Thinking { turn, attempt }) {
        return Decision::nothing();
    }
    let text = bounded_text(reply.text);
    let asked_for = reply.calls.len();
    let proposed = bounded_calls(reply.calls);
    // A reply that goes back as it came must have the very calls that are answered.
    let whole = proposed.len() == asked_for && proposed.iter().all(|call| call.provider_id.is_some());
    let mut decision = Decision::remember(Event::ModelReplied {
        turn,
        attempt,
        text: text.clone(),
        calls: proposed.clone(),
        usage: reply.usage,
        duration_us: duration_us.max(1),
        raw: reply.raw.filter(|raw| whole && raw.content.as_str().len() <= REPLY_RAW_BYTES_MAX),
        stop: (reply.stop != Stop::End).then_some(reply.stop),
        window: reply.window,
    });
    // A reply that came while the run was being paused is kept, and taken up on resume.
    if run.status == Status::Running {
        follow(run, turn, reply.stop, text, &proposed, &mut decision);
    }
    decision
}

/// What a reply leads to: its calls, the end of the step, another turn, or a person.
fn follow(
    run: &Run,
    turn: u32,
    stop: Stop,
    text: String,
    proposed: &[ProposedCall],
    decision: &mut Decision,
) {
    match stop {
        Stop::Refused => {
            let said = if text.is_empty() { "without a word" } else { &text };
            let reason = format!("the model refused to answer: {}", head(said, EVENT_TEXT_BYTES_MAX));
            decision.pause(run, Cause::Parked, reason);
        }
        Stop::Overflow => {
            let reason = "context_overflow: the model's window was full before its reply was";
            decision.pause(run, Cause::Parked, reason.to_owned());
        }
        Stop::End | Stop::Length if !proposed.is_empty() => call::begin_first(run, turn, proposed, decision),
        Stop::End => {
            stop::heard(run, turn, prompt::joined(&run.messages, &text), run.spec.limits, decision);
        }
        Stop::Length if run.patience.cut_off + 1 >= CUT_OFF_REPLIES_MAX => {
            let reason = format!(
                "{CUT_OFF_REPLIES_MAX} replies in a row ran into the limit of output tokens; raise `max_output_tokens`"
            );
            decision.pause(run, Cause::Parked, reason);
        }
        Stop::Length => begin(run, turn + 1, run.spec.limits, decision),
    }
}

pub(super) fn woke(run: &Run, turn: u32, tried: Attempt) -> Decision {
    let mut decision = Decision::nothing();
    if let Phase::Resting { turn: resting, attempt: last, .. } = run.phase
        && (resting, last) == (turn, tried)
        && run.status == Status::Running
    {
        attempt(turn, tried.next(), &mut decision);
    }
    decision
}

/// The first limit that forbids another turn.
fn reached(run: &Run, limits: Limits) -> Option<Event> {
    let event = |limit: &str, spent: String, max: String| {
        Some(Event::LimitReached { limit: limit.to_owned(), spent, max })
    };
    let turns = run.ledger().turns;
    if turns >= limits.max_steps {
        return event("max_steps", turns.to_string(), limits.max_steps.to_string());
    }
    spent(run, limits)
}

/// The first limit on tokens or money that is used up, or would be by another turn like the last one. What has no known
/// price uses up any amount.
pub(super) fn spent(run: &Run, limits: Limits) -> Option<Event> {
    let event = |limit: &str, spent: String, max: String| {
        Some(Event::LimitReached { limit: limit.to_owned(), spent, max })
    };
    let with_next = |spent: String, next: String, is_over: bool| {
        if is_over { spent } else { format!("{spent} (the next turn would take about {next})") }
    };
    let (cost, used) = committed(run);
    let next = run.reserve.tokens();
    if let Some(max) = limits.max_tokens.filter(|max| used.saturating_add(next) > *max || used >= *max) {
        return event(
            "max_tokens",
            with_next(used.to_string(), next.to_string(), used >= max),
            max.to_string(),
        );
    }
    if let Some(max) = limits.max_cost.filter(|_| run.ledger().usage.unpriced_tokens > 0) {
        return event("max_cost", "an unknown amount".to_owned(), max.to_string());
    }
    let next = run.reserve.cost;
    let with_the_next = {
        let mut sum = cost;
        sum += next;
        sum
    };
    if let Some(max) = limits.max_cost.filter(|max| with_the_next > *max || cost >= *max) {
        return event(
            "max_cost",
            with_next(cost.to_string(), next.to_string(), cost >= max),
            max.to_string(),
        );
    }
    None
}

/// The money and tokens that are gone: used by the run and by those below it, or set aside for one that is at work.
pub(super) fn committed(run: &Run) -> (Usd, u64) {
    let (mut cost, mut tokens) = (run.usage.cost, run.usage.tokens());
    for child in &run.children {
        let used = &child.ledger.usage;
        let granted = (!child.has_ended()).then_some(child.errand.limits);
        cost += granted.and_then(|limits| limits.max_cost).unwrap_or_default().max(used.cost);
        let set_aside = granted.and_then(|limits| limits.max_tokens).unwrap_or(0);
        tokens = tokens.saturating_add(set_aside.max(used.tokens()));
    }
    (cost, tokens)
}

/// A model that was told that its calls are used up may answer without any. One that asks again, turn after turn, is stopped
/// before it spends the other limits on refusals.
fn refused_again(run: &Run, limits: Limits, decision: &Decision) -> Option<Event> {
    let now = decision
        .events
        .iter()
        .any(|event| matches!(event, Event::CallRefused { failure: Failure::BudgetExceeded, .. }));
    let this_turn = run.turn();
    let before = run.calls.iter().rev().find(|call| call.turn != this_turn || call.step != run.current_step);
    let before = before.and_then(|call| call.outcome());
    let before = matches!(before, Some(Outcome::Failed { failure: Failure::BudgetExceeded, .. }));
    let calls = run.ledger().calls;
    (now && before && calls >= limits.max_tool_calls).then(|| Event::LimitReached {
        limit: "max_tool_calls".to_owned(),
        spent: calls.to_string(),
        max: limits.max_tool_calls.to_string(),
    })
}

/// A text past the limit is cut, and says so.
fn bounded_text(text: String) -> String {
    if text.len() <= TEXT_BYTES_MAX {
        return text;
    }
    format!("{}\n[cut here: the model said {} bytes]", head(&text, TEXT_BYTES_MAX), text.len())
}

/// Arguments past the limits are not kept: the call is refused later, and the model told why.
fn bounded_calls(calls: Vec<ProposedCall>) -> Vec<ProposedCall> {
    let mut room = REPLY_ARGUMENT_BYTES_MAX;
    let bounded = |call: ProposedCall| {
        let bytes = call.args.as_str().len();
        let tool = head(&call.tool, TOOL_NAME_BYTES_MAX).to_owned();
        let provider_id = call.provider_id.filter(|id| id.len() <= PROVIDER_ID_BYTES_MAX);
        if bytes > ARGUMENT_BYTES_MAX.min(room) {
            return ProposedCall {
                tool,
                provider_id,
                ..ProposedCall::new("", call::oversized_marker(bytes))
            };
        }
        room -= bytes;
        ProposedCall { tool, provider_id, args: call.args, malformed: call.malformed }
    };
    calls.into_iter().take(REPLY_CALLS_MAX).map(bounded).collect()
}
