//! A model that does not answer: whether to wait, to ask another one, or to ask a person. An outage is waited out, however
//! long; what time cannot mend is not.

use super::{Decision, compact, step, turn};
use crate::conversation::{ModelFailure, ModelFailureKind, ModelReply, Stop};
use crate::effect::{Effect, Wake};
use crate::event::{Cause, Event, Rest};
use crate::ids::Attempt;
use crate::limits::{
    BROKEN_REPLIES_MAX, EVENT_TEXT_BYTES_MAX, FAILURES_BEFORE_SWITCH, FIRST_CONTACT_TRIES_MAX,
    GARBLED_REPLIES_MAX, MODEL_WAIT_MS_MAX, SHORT_LIMIT_MS, WISHED_WAIT_MS_MAX,
};
use crate::prompt::head;
use crate::run::{Phase, Run};
use crate::status::Status;
use crate::time::Timestamp;
use crate::tool::RetryPolicy;

/// What a failure leads to.
enum Next {
    /// Ask again later: this model, or another one that is free earlier.
    Wait {
        model: Option<String>,
        until: Timestamp,
    },
    /// Ask another model, now.
    Switch(String),
    /// Make the conversation shorter, and ask again.
    Shorten,
    /// Only a person can help.
    Park(Cause, String),
    Fail,
}

/// A reply that answers nothing, while another model that may answer is left: a failure of this one. With none left the
/// reply stands, for a person to read.
pub(super) fn unanswered(run: &Run, reply: &ModelReply) -> Option<ModelFailure> {
    let kind = match reply.stop {
        Stop::Refused => ModelFailureKind::Refused,
        Stop::Overflow => ModelFailureKind::Overflow,
        Stop::End | Stop::Length => return None,
    };
    let message = head(&reply.text, EVENT_TEXT_BYTES_MAX).to_owned();
    let failure = ModelFailure { usage: Some(reply.usage), ..ModelFailure::new(kind, message) };
    let another = others_are_left(run) && other(run, kind).is_some();
    let shorter = kind == ModelFailureKind::Overflow && compact::can_help(run);
    (run.status == Status::Running && (another || shorter)).then_some(failure)
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
    let next = next(run, at, turn, attempt, &failure);
    let retry = match &next {
        Next::Wait { until, .. } => Some(Rest::from(at, until.millis_since(at))),
        Next::Switch(_) | Next::Shorten | Next::Park(..) | Next::Fail => None,
    };
    let ModelFailure { kind, message, after_ms, usage, garbled } = failure;
    let until = after_ms.map(|after| at.plus_millis(after.min(WISHED_WAIT_MS_MAX)));
    let why = || Some(format!("{} {}", run.spec.model, kind.words()));
    let error = message.clone();
    let mut decision = Decision::remember(Event::TurnFailed {
        turn,
        attempt,
        message,
        retry,
        kind: Some(kind),
        until,
        usage,
        garbled: garbled.then_some(true),
    });
    match next {
        Next::Wait { model, .. } => {
            decision.events.extend(model.map(|model| Event::ModelChanged { model, why: why() }));
            let wake = Wake::Turn { turn, attempt };
            decision.effects.extend(retry.map(|rest| Effect::Sleep { wake, rest }));
        }
        Next::Switch(model) => {
            decision.and(Event::ModelChanged { model, why: why() });
            turn::attempt(turn, attempt.next(), &mut decision);
        }
        Next::Shorten => compact::after_overflow(run, turn, attempt.next(), &mut decision),
        Next::Park(cause, reason) => decision.pause(run, cause, reason),
        Next::Fail => step::failed(run, &error, &mut decision),
    }
    decision
}

fn next(run: &Run, at: Timestamp, turn: u32, attempt: Attempt, failure: &ModelFailure) -> Next {
    let usable = other(run, failure.kind);
    let now = usable.clone().filter(|_| others_are_left(run));
    match failure.kind {
        ModelFailureKind::Fatal => Next::Fail,
        // This model is out; another one that is only silent is waited for rather than a person.
        ModelFailureKind::Credentials | ModelFailureKind::Quota | ModelFailureKind::ModelUnknown => {
            usable.map_or_else(|| park(failure), Next::Switch)
        }
        ModelFailureKind::Overflow if now.is_none() && compact::can_help(run) => Next::Shorten,
        ModelFailureKind::Overflow | ModelFailureKind::Refused | ModelFailureKind::Rejected => {
            now.map_or_else(|| park(failure), Next::Switch)
        }
        ModelFailureKind::Unavailable
        | ModelFailureKind::Unreachable
        | ModelFailureKind::RateLimited
        | ModelFailureKind::Broken => match now.filter(|_| is_worth_a_switch(run, failure)) {
            Some(model) => Next::Switch(model),
            None => out_of_patience(run, failure).unwrap_or_else(|| wait(run, at, turn, attempt, failure)),
        },
    }
}

/// The next model of the list that a person need not mend first.
fn other(run: &Run, kind: ModelFailureKind) -> Option<String> {
    let mut unusable = run.patience.unusable.clone();
    if kind.is_lasting() {
        unusable.push(run.spec.model.clone());
    }
    run.spec.next_model(&unusable).map(str::to_owned)
}

fn park(failure: &ModelFailure) -> Next {
    let cause = match failure.kind {
        // What was asked is at fault, and with it whoever asked.
        ModelFailureKind::Overflow | ModelFailureKind::Refused | ModelFailureKind::Rejected => Cause::Stuck,
        ModelFailureKind::Fatal
        | ModelFailureKind::Credentials
        | ModelFailureKind::Quota
        | ModelFailureKind::ModelUnknown
        | ModelFailureKind::Unavailable
        | ModelFailureKind::Unreachable
        | ModelFailureKind::RateLimited
        | ModelFailureKind::Broken => Cause::Parked,
    };
    Next::Park(cause, format!("{}: {}", failure.kind.as_str(), failure.message))
}

/// Every usable model of the list is asked once before a rest.
fn others_are_left(run: &Run) -> bool {
    let listed = run.spec.models.as_deref().unwrap_or(&[]);
    let usable = listed.iter().filter(|model| !run.patience.unusable.contains(model)).count();
    (run.patience.switches as usize) + 1 < usable
}

fn is_worth_a_switch(run: &Run, failure: &ModelFailure) -> bool {
    let for_long = failure.after_ms.is_some_and(|after| after > SHORT_LIMIT_MS);
    for_long || run.patience.failures + 1 >= FAILURES_BEFORE_SWITCH
}

fn out_of_patience(run: &Run, failure: &ModelFailure) -> Option<Next> {
    let unreached = failure.kind == ModelFailureKind::Unreachable && !run.patience.reached;
    if unreached && run.model_failures + 1 >= FIRST_CONTACT_TRIES_MAX {
        let reason =
            format!("the model was never reached in {FIRST_CONTACT_TRIES_MAX} tries: {}", failure.message);
        return Some(Next::Park(Cause::Provider, reason));
    }
    if failure.garbled && run.patience.garbled + 1 >= GARBLED_REPLIES_MAX {
        let reason = format!("{GARBLED_REPLIES_MAX} replies in a row were none: {}", failure.message);
        return Some(Next::Park(Cause::Provider, reason));
    }
    if failure.kind == ModelFailureKind::Broken && run.patience.broken + 1 >= BROKEN_REPLIES_MAX {
        let reason =
            format!("{BROKEN_REPLIES_MAX} replies broke off since the last whole one: {}", failure.message);
        return Some(Next::Park(Cause::Provider, reason));
    }
    None
}

/// Waits for whichever model is free first: this one, or one that asked to be left alone for less long.
fn wait(run: &Run, at: Timestamp, turn: u32, attempt: Attempt, failure: &ModelFailure) -> Next {
    let own = at.plus_millis(wait_ms(run, turn, attempt, failure.after_ms.unwrap_or(0)));
    let usable = |model: &String| {
        *model != run.spec.model
            && !run.patience.unusable.contains(model)
            && run.spec.models.as_ref().is_some_and(|models| models.contains(model))
    };
    let earlier = run.patience.held.iter().filter(|(model, until)| usable(model) && *until < own);
    match earlier.min_by_key(|(_, until)| *until) {
        Some((model, until)) => {
            Next::Wait { model: Some(model.clone()), until: (*until).max(at.plus_millis(1000)) }
        }
        None => Next::Wait { model: None, until: own },
    }
}

/// Twice as long after every failure up to five minutes, with up to a quarter more so that many runs do not come back at
/// the same moment, and never less than the provider asked for.
fn wait_ms(run: &Run, turn: u32, attempt: Attempt, wished_ms: u64) -> u64 {
    let policy = RetryPolicy { base_backoff_ms: run.spec.retry.base_backoff_ms.max(1), ..run.spec.retry };
    let delay_ms = policy.delay_ms(run.model_failures + 1).min(MODEL_WAIT_MS_MAX);
    let wait_ms = delay_ms.max(wished_ms.min(WISHED_WAIT_MS_MAX));
    let spread = scatter(run.spec.id.as_str(), turn, attempt);
    wait_ms + delay_ms / 4 * spread / 255
}

/// A number from 0 to 255 that differs from run to run and try to try, and is always the same for one try.
fn scatter(run: &str, turn: u32, attempt: Attempt) -> u64 {
    let bytes = run.bytes().chain(turn.to_le_bytes()).chain(attempt.0.to_le_bytes());
    // FNV-1a.
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    hash >> 56
}
