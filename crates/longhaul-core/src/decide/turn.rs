//! Turns: asking the model and hearing it.

use super::{Decision, call, compact, limit, stop};
use crate::conversation::{ModelReply, ProposedCall, Stop};
use crate::effect::Effect;
use crate::event::{Cause, Event};
use crate::ids::Attempt;
use crate::limits::{
    ARGUMENT_BYTES_MAX, CUT_OFF_REPLIES_MAX, EVENT_TEXT_BYTES_MAX, PROVIDER_ID_BYTES_MAX,
    REPLY_ARGUMENT_BYTES_MAX, REPLY_CALLS_MAX, REPLY_RAW_BYTES_MAX, TEXT_BYTES_MAX, TOOL_NAME_BYTES_MAX,
};
use crate::prompt::{self, head};
use crate::run::{Phase, Run};
use crate::spec::Limits;
use crate::status::Status;

/// Starts turn number `turn` of the step in hand, unless a limit is reached.
pub(super) fn begin(run: &Run, turn: u32, limits: Limits, decision: &mut Decision) {
    if limit::permit_turn(run, turn, limits, decision) {
        compact::then_turn(run, turn, Attempt::FIRST, decision);
    }
}

/// Asks for a turn again that was asked for before, unless a limit was reached meanwhile.
pub(super) fn again(run: &Run, turn: u32, next: Attempt, limits: Limits, decision: &mut Decision) {
    if limit::permit_again(run, limits, decision) {
        attempt(turn, next, decision);
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
            decision.pause(run, Cause::Stuck, reason);
        }
        Stop::Overflow => {
            let reason = "context_overflow: the model's window was full before its reply was";
            decision.pause(run, Cause::Stuck, reason.to_owned());
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
        let tool = head(&call.tool, TOOL_NAME_BYTES_MAX).into();
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
