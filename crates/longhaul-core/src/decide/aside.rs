//! Answers to questions beside the conversation. Each has a way to go on without one, except a judge's opinion.

use super::{Decision, compact, iteration, planning, stop};
use crate::conversation::{ModelFailure, ModelFailureKind, ModelReply, Stop, Usage};
use crate::effect::{Effect, Wake};
use crate::event::{Aside, Cause, Event, Rest};
use crate::ids::Attempt;
use crate::limits::{
    ASIDE_TRIES_MAX, EVENT_TEXT_BYTES_MAX, MODEL_WAIT_MS_MAX, SUMMARY_BYTES_MAX, TEXT_BYTES_MAX,
    WISHED_WAIT_MS_MAX,
};
use crate::prompt::{self, head};
use crate::run::{Phase, Run};
use crate::status::Status;
use crate::time::Timestamp;

pub(super) fn ended(
    run: &Run,
    at: Timestamp,
    asked: Aside,
    tried: Attempt,
    answer: Result<ModelReply, ModelFailure>,
) -> Decision {
    let Phase::Aside { aside, turn, attempt } = run.phase else { return Decision::nothing() };
    if (aside, attempt) != (asked, tried) {
        return Decision::nothing();
    }
    let most = match asked {
        Aside::Planning { .. } => TEXT_BYTES_MAX,
        Aside::Compaction { .. } | Aside::Iteration { .. } | Aside::Judgement => SUMMARY_BYTES_MAX,
    };
    let heard = Heard::of(answer, most);
    let retry = heard.retry(run, at, asked, attempt);
    let mut decision = Decision::remember(Event::AsideEnded {
        aside,
        attempt,
        model: prompt::aside_model(run, aside).to_owned(),
        text: heard.text.clone(),
        error: heard.error.clone(),
        usage: heard.usage,
        retry,
        kind: heard.failed.filter(|_| retry.is_some()),
    });
    // What came while the run was being paused was paid for; it is asked again when the run goes on.
    let goes_on = run.status == Status::Running || run.is_planning();
    let Some(ahead) = decision.ahead(run).filter(|_| goes_on) else { return decision };
    if let Some(rest) = retry {
        decision.then(Effect::Sleep { wake: Wake::Aside { aside, attempt }, rest });
        return decision;
    }
    match aside {
        Aside::Compaction { before } => {
            compact::summed_up(&ahead, before, turn, heard.text.as_deref(), &mut decision);
        }
        Aside::Iteration { why } => iteration::begin(&ahead, why, &mut decision),
        Aside::Judgement => judged(&ahead, turn, attempt, heard, &mut decision),
        Aside::Planning { round } => planned(&ahead, round, attempt, heard, &mut decision),
    }
    decision
}

/// An answer as far as it can be used. One that was refused or broken off is none.
struct Heard {
    text: Option<String>,
    error: Option<String>,
    usage: Option<Usage>,
    /// How the model failed, and how long it wishes to be left alone, if asking again may help.
    failed: Option<ModelFailureKind>,
    wait_ms: Option<u64>,
}

impl Heard {
    fn of(answer: Result<ModelReply, ModelFailure>, bytes_max: usize) -> Heard {
        match answer {
            Ok(reply) => {
                let whole = matches!(reply.stop, Stop::End | Stop::Length) && !reply.text.trim().is_empty();
                let text = whole.then(|| head(&reply.text, bytes_max).to_owned());
                let error = (!whole).then(|| "the model gave no answer".to_owned());
                Heard { text, error, usage: Some(reply.usage), failed: None, wait_ms: None }
            }
            Err(failure) => {
                let passes = matches!(
                    failure.kind,
                    ModelFailureKind::Unavailable
                        | ModelFailureKind::Unreachable
                        | ModelFailureKind::RateLimited
                        | ModelFailureKind::Broken
                );
                let error = Some(head(&failure.message, EVENT_TEXT_BYTES_MAX).to_owned());
                let wait_ms = passes.then(|| failure.after_ms.unwrap_or(0).min(WISHED_WAIT_MS_MAX));
                Heard { text: None, error, usage: failure.usage, failed: Some(failure.kind), wait_ms }
            }
        }
    }

    /// How long is waited before the same is asked again. A summary is not waited for: there is a way to go on without one.
    fn retry(&self, run: &Run, at: Timestamp, asked: Aside, attempt: Attempt) -> Option<Rest> {
        let is_needed = match asked {
            Aside::Judgement | Aside::Planning { .. } => true,
            Aside::Compaction { .. } | Aside::Iteration { .. } => false,
        };
        let wished_ms = self.wait_ms.filter(|_| is_needed)?;
        let delay_ms = run.spec.retry.delay_ms(attempt.0).min(MODEL_WAIT_MS_MAX).max(wished_ms);
        Some(Rest::from(at, delay_ms.max(1)))
    }
}

/// A judge's opinion is waited for, like any answer that time may bring; one that cannot be understood is asked for again.
fn judged(run: &Run, turn: u32, attempt: Attempt, heard: Heard, decision: &mut Decision) {
    if let Some(opinion) = heard.text.as_deref().and_then(prompt::opinion) {
        return stop::judged(run, turn.saturating_sub(1), &opinion, decision);
    }
    if attempt.0 < ASIDE_TRIES_MAX {
        return stop::ask_judge(run, turn, attempt.next(), decision);
    }
    let error = heard.error.unwrap_or_else(|| "its answer is not the JSON it was asked for".to_owned());
    decision.pause(run, Cause::Stuck, format!("the judge gave no opinion: {error}"));
}

/// A plan is waited for like a judge's opinion; one that cannot be used is asked for once more, with what is wrong with it.
fn planned(run: &Run, round: u32, attempt: Attempt, heard: Heard, decision: &mut Decision) {
    if let Some(answer) = &heard.text {
        return planning::heard(run, round, answer, decision);
    }
    if attempt.0 < ASIDE_TRIES_MAX {
        return again(Aside::Planning { round }, 1, attempt.next(), decision);
    }
    planning::give_up(run, &heard.error.unwrap_or_else(|| "it gave no answer".to_owned()), decision);
}

pub(super) fn woke(run: &Run, asked: Aside, tried: Attempt) -> Decision {
    let mut decision = Decision::nothing();
    if let Phase::AsideResting { aside, turn, attempt, .. } = run.phase
        && (aside, attempt) == (asked, tried)
        && (run.status == Status::Running || run.is_planning())
    {
        again(aside, turn, attempt.next(), &mut decision);
    }
    decision
}

/// Asks again what a process that died had asked.
pub(super) fn again(aside: Aside, turn: u32, attempt: Attempt, decision: &mut Decision) {
    decision.and(Event::AsideStarted { aside, turn, attempt });
    decision.then(Effect::AskAside { aside, attempt });
}
