//! Turns: asking the model, hearing it, and waiting when it does not answer.

use super::{Decision, call, step};
use crate::conversation::{ModelFailure, ModelFailureKind, ModelReply, ProposedCall};
use crate::effect::{Effect, Wake};
use crate::event::{Cause, Event, Rest};
use crate::ids::Attempt;
use crate::limits::{
    ARGUMENT_BYTES_MAX, BACKOFF_BASE_MS_MAX, MODEL_RETRIES_MAX, REPLY_ARGUMENT_BYTES_MAX, REPLY_CALLS_MAX,
    TEXT_BYTES_MAX, TOOL_NAME_BYTES_MAX,
};
use crate::prompt::head;
use crate::run::{Phase, Run};
use crate::spec::Limits;
use crate::status::Status;
use crate::time::Timestamp;
use crate::tool::{Failure, Outcome, RetryPolicy};

/// Starts turn number `turn` of the step in hand, or pauses if a limit is reached.
pub(super) fn begin(run: &Run, turn: u32, limits: Limits, decision: &mut Decision) {
    if let Some(reached) = reached(run, limits).or_else(|| refused_again(run, limits, decision)) {
        let Event::LimitReached { limit, spent, max } = &reached else { return };
        let reason = format!("{limit} reached: {spent} of {max} used");
        decision.and(reached);
        return decision.pause(run, Cause::Limit, reason);
    }
    attempt(turn, Attempt::FIRST, decision);
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
    let proposed = bounded_calls(reply.calls);
    let mut decision = Decision::remember(Event::ModelReplied {
        turn,
        attempt,
        text: text.clone(),
        calls: proposed.clone(),
        usage: reply.usage,
        duration_us: duration_us.max(1),
    });
    match run.status {
        Status::Running if proposed.is_empty() => step::completed(run, text, &mut decision),
        Status::Running => call::begin_first(run, turn, &proposed, &mut decision),
        // The reply came while the run was being paused: kept, and taken up on resume.
        Status::Created | Status::Paused | Status::Completed | Status::Failed => {}
    }
    decision
}

pub(super) fn failed(
    run: &Run,
    at: Timestamp,
    turn: u32,
    attempt: Attempt,
    failure: ModelFailure,
) -> Decision {
    if run.phase != (Phase::Thinking { turn, attempt }) || run.status != Status::Running {
        return Decision::nothing();
    }
    let message = failure.message;
    match failure.kind {
        ModelFailureKind::Retryable { after_ms } if run.model_failures < MODEL_RETRIES_MAX => {
            let policy = RetryPolicy { max_retries: MODEL_RETRIES_MAX, ..run.spec.retry };
            let wished_ms = after_ms.unwrap_or(0).min(BACKOFF_BASE_MS_MAX);
            let rest = Rest::from(at, policy.delay_ms(run.model_failures + 1).max(wished_ms));
            let mut decision =
                Decision::remember(Event::TurnFailed { turn, attempt, message, retry: Some(rest) });
            decision.then(Effect::Sleep { wake: Wake::Turn { turn, attempt }, rest });
            decision
        }
        ModelFailureKind::Retryable { .. } => {
            let asked = run.model_failures + 1;
            let reason = format!("the model did not answer, asked {asked} times: {message}");
            let mut decision = Decision::remember(Event::TurnFailed { turn, attempt, message, retry: None });
            decision.pause(run, Cause::Provider, reason);
            decision
        }
        ModelFailureKind::Fatal => {
            let error = message.clone();
            let mut decision = Decision::remember(Event::TurnFailed { turn, attempt, message, retry: None });
            step::failed(run, &error, &mut decision);
            decision
        }
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
    if run.turns >= limits.max_steps {
        return event("max_steps", run.turns.to_string(), limits.max_steps.to_string());
    }
    if let Some(max) = limits.max_tokens.filter(|max| run.usage.tokens() >= *max) {
        return event("max_tokens", run.usage.tokens().to_string(), max.to_string());
    }
    if let Some(max) = limits.max_cost.filter(|max| run.usage.cost >= *max) {
        return event("max_cost", run.usage.cost.to_string(), max.to_string());
    }
    None
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
    (now && before && run.calls_started >= limits.max_tool_calls).then(|| Event::LimitReached {
        limit: "max_tool_calls".to_owned(),
        spent: run.calls_started.to_string(),
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
        if bytes > ARGUMENT_BYTES_MAX.min(room) {
            return ProposedCall { tool, args: call::oversized_marker(bytes) };
        }
        room -= bytes;
        ProposedCall { tool, ..call }
    };
    calls.into_iter().take(REPLY_CALLS_MAX).map(bounded).collect()
}
