//! Answers to questions beside the conversation. Each has a way to go on without one, except a judge's opinion.

use super::{Decision, compact, iteration, stop};
use crate::conversation::{ModelFailure, ModelReply};
use crate::effect::Effect;
use crate::event::{Aside, Cause, Event};
use crate::ids::Attempt;
use crate::limits::{ASIDE_TRIES_MAX, EVENT_TEXT_BYTES_MAX, SUMMARY_BYTES_MAX};
use crate::prompt::{self, head};
use crate::run::{Phase, Run};
use crate::status::Status;

pub(super) fn ended(
    run: &Run,
    asked: Aside,
    tried: Attempt,
    answer: Result<ModelReply, ModelFailure>,
) -> Decision {
    let Phase::Aside { aside, turn, attempt } = run.phase else { return Decision::nothing() };
    if (aside, attempt) != (asked, tried) {
        return Decision::nothing();
    }
    let model = prompt::aside_model(run, aside).to_owned();
    let (text, error, usage) = match answer {
        Ok(reply) => (Some(head(&reply.text, SUMMARY_BYTES_MAX).to_owned()), None, Some(reply.usage)),
        Err(failure) => (None, Some(head(&failure.message, EVENT_TEXT_BYTES_MAX).to_owned()), failure.usage),
    };
    let text = text.filter(|text| !text.trim().is_empty());
    let mut decision = Decision::remember(Event::AsideEnded {
        aside,
        attempt,
        model,
        text: text.clone(),
        error: error.clone(),
        usage,
    });
    // What came while the run was being paused was paid for; it is asked again when the run goes on.
    if run.status == Status::Running {
        follow(run, aside, turn, attempt, text.as_deref(), error, &mut decision);
    }
    decision
}

fn follow(
    run: &Run,
    aside: Aside,
    turn: u32,
    attempt: Attempt,
    text: Option<&str>,
    error: Option<String>,
    decision: &mut Decision,
) {
    match aside {
        Aside::Compaction { before } => compact::summed_up(run, before, turn, text, decision),
        Aside::Iteration { why } => {
            let Some(ahead) = decision.ahead(run) else { return };
            iteration::begin(&ahead, why, decision);
        }
        Aside::Judgement => match text.and_then(prompt::opinion) {
            Some(opinion) => stop::judged(run, turn.saturating_sub(1), &opinion, decision),
            None if attempt.0 < ASIDE_TRIES_MAX => stop::ask_judge(turn, attempt.next(), decision),
            None => {
                let error = error.unwrap_or_else(|| "its answer is not the JSON it was asked for".to_owned());
                decision.pause(run, Cause::Parked, format!("the judge gave no opinion: {error}"));
            }
        },
    }
}

/// Asks again what a process that died had asked.
pub(super) fn again(aside: Aside, turn: u32, attempt: Attempt, decision: &mut Decision) {
    decision.and(Event::AsideStarted { aside, turn, attempt });
    decision.then(Effect::AskAside { aside, attempt });
}
