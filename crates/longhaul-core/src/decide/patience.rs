//! A model that does not answer: whether to wait, to ask another one, or to ask a person. An outage is waited out, however
//! long; what time cannot mend is not.

use super::{Decision, step, turn};
use crate::conversation::{ModelFailure, ModelFailureKind};
use crate::effect::{Effect, Wake};
use crate::event::{Cause, Event, Rest};
use crate::ids::Attempt;
use crate::limits::{
    BROKEN_REPLIES_MAX, FAILURES_BEFORE_SWITCH, FIRST_CONTACT_TRIES_MAX, MODEL_WAIT_MS_MAX, SHORT_LIMIT_MS,
    WISHED_WAIT_MS_MAX,
};
use crate::run::{Phase, Run};
use crate::status::Status;
use crate::time::Timestamp;
use crate::tool::RetryPolicy;

/// What a failure leads to.
enum Next {
    /// Ask again, later.
    Wait,
    /// Ask another model, now.
    Switch(String),
    /// Only a person can help.
    Park(Cause, String),
    Fail,
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
    let next = next(run, &failure);
    let retry = matches!(next, Next::Wait)
        .then(|| Rest::from(at, wait_ms(run, turn, attempt, failure.after_ms.unwrap_or(0))));
    let ModelFailure { kind, message, .. } = failure;
    let error = message.clone();
    let mut decision =
        Decision::remember(Event::TurnFailed { turn, attempt, message, retry, kind: Some(kind) });
    if let Some(rest) = retry {
        decision.then(Effect::Sleep { wake: Wake::Turn { turn, attempt }, rest });
    }
    match next {
        Next::Wait => {}
        Next::Switch(model) => {
            let why = Some(format!("{} is {}", run.spec.model, kind.as_str()));
            decision.and(Event::ModelChanged { model, why });
            turn::attempt(turn, attempt.next(), &mut decision);
        }
        Next::Park(cause, reason) => decision.pause(run, cause, reason),
        Next::Fail => step::failed(run, &error, &mut decision),
    }
    decision
}

fn next(run: &Run, failure: &ModelFailure) -> Next {
    let other = run.spec.next_model().filter(|_| others_are_left(run)).map(str::to_owned);
    match failure.kind {
        ModelFailureKind::Fatal => Next::Fail,
        ModelFailureKind::Credentials | ModelFailureKind::Quota | ModelFailureKind::ModelUnknown => {
            match other {
                Some(model) => Next::Switch(model),
                None => park(failure),
            }
        }
        ModelFailureKind::Overflow | ModelFailureKind::Refused | ModelFailureKind::Rejected => park(failure),
        ModelFailureKind::Unavailable
        | ModelFailureKind::Unreachable
        | ModelFailureKind::RateLimited
        | ModelFailureKind::Broken => match other.filter(|_| is_worth_a_switch(run, failure)) {
            Some(model) => Next::Switch(model),
            None => out_of_patience(run, failure).unwrap_or(Next::Wait),
        },
    }
}

fn park(failure: &ModelFailure) -> Next {
    Next::Park(Cause::Parked, format!("{}: {}", failure.kind.as_str(), failure.message))
}

/// Every model of the list is asked once before a rest.
fn others_are_left(run: &Run) -> bool {
    run.patience.switches as usize + 1 < run.spec.models.as_deref().map_or(0, <[String]>::len)
}

fn is_worth_a_switch(run: &Run, failure: &ModelFailure) -> bool {
    let long_limit = failure.kind == ModelFailureKind::RateLimited
        && failure.after_ms.is_some_and(|after| after > SHORT_LIMIT_MS);
    long_limit || run.patience.failures + 1 >= FAILURES_BEFORE_SWITCH
}

fn out_of_patience(run: &Run, failure: &ModelFailure) -> Option<Next> {
    let never_reached = failure.kind == ModelFailureKind::Unreachable && !run.patience.reached;
    if never_reached && run.model_failures + 1 >= FIRST_CONTACT_TRIES_MAX {
        let reason = format!(
            "the model was never reached in {FIRST_CONTACT_TRIES_MAX} tries: {}; check the provider's `base_url`",
            failure.message
        );
        return Some(Next::Park(Cause::Provider, reason));
    }
    if failure.kind == ModelFailureKind::Broken && run.patience.broken + 1 >= BROKEN_REPLIES_MAX {
        let reason = format!("{BROKEN_REPLIES_MAX} replies in a row broke off: {}", failure.message);
        return Some(Next::Park(Cause::Provider, reason));
    }
    None
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
