//! The agent stopped: it said something and asked for nothing. Whether that is the end is not for the agent to say.

use super::{Decision, iteration, limit, schedule, step, turn};
use crate::conduct::Looping;
use crate::conversation::Message;
use crate::effect::Effect;
use crate::event::{Aside, Cause, Event, FreshStart, Purpose, StopAction};
use crate::evidence::Examination;
use crate::ids::Attempt;
use crate::limits::{
    EARLY_OVERFLOWS_MAX, EARLY_TURNS, EMPTY_REPLIES_MAX, EVENT_TEXT_BYTES_MAX, NOTE_BYTES_MAX,
    REFUTED_CLAIMS_MAX,
};
use crate::promise;
use crate::prompt::{self, Opinion, head};
use crate::run::{Phase, Run};
use crate::spec::Limits;
use crate::status::Status;

const EMPTY: &str =
    "Your reply had neither text nor a call. Go on with the work, or say in words how it ended.";

/// What a final text leads to. `text` is all of it, also what was cut off before.
pub(super) fn heard(run: &Run, turn: u32, text: String, limits: Limits, decision: &mut Decision) {
    if text.trim().is_empty() {
        return empty(run, turn, limits, decision);
    }
    if !run.examines() {
        return step::completed(run, text, decision);
    }
    let purpose = if claims(run, &text) { Purpose::Claim } else { Purpose::Stop };
    examine(run, turn, purpose, Attempt::FIRST, decision);
}

/// The same for words that are on record. Whoever was told meanwhile that they do not do has its next turn.
pub(super) fn again(run: &Run, turn: u32, limits: Limits, decision: &mut Decision) {
    let was_told = match run.messages.last() {
        Some(Message::User { text }) => run.pace.empty_replies == 0 || text == EMPTY,
        Some(Message::Assistant { .. } | Message::Tool { .. }) | None => false,
    };
    if was_told {
        return turn::begin(run, turn + 1, limits, decision);
    }
    heard(run, turn, last_answer(run), limits, decision);
}

/// A loop's agent claims to be done by keeping its promise, any other by ending. A list of features says for itself whether
/// it is done.
fn claims(run: &Run, text: &str) -> bool {
    let kept = |looping: &Looping| looping.is_by_features() || promise::is_kept(text, &looping.promise);
    run.spec.conduct().looping.as_ref().is_none_or(kept)
}

/// An empty reply ends nothing and counts as no iteration; but ignoring it cannot go on for ever.
fn empty(run: &Run, turn: u32, limits: Limits, decision: &mut Decision) {
    let heard = decision.events.iter().any(|event| matches!(event, Event::ModelReplied { .. }));
    // A run that is taken up again after such a pause gets another try.
    if heard && run.pace.empty_replies + 1 >= EMPTY_REPLIES_MAX {
        let why = format!("empty_output: {EMPTY_REPLIES_MAX} replies in a row had neither text nor a call");
        decision.and(Event::AgentStopped { turn, action: StopAction::Pause, why: Some(why.clone()) });
        return decision.pause(run, Cause::Stuck, why);
    }
    let why = Some("the reply was empty".to_owned());
    decision.and(Event::AgentStopped { turn, action: StopAction::Continue, why });
    decision.and(Event::Told { text: EMPTY.to_owned() });
    turn::begin(run, turn + 1, limits, decision);
}

pub(super) fn examine(run: &Run, turn: u32, purpose: Purpose, attempt: Attempt, decision: &mut Decision) {
    let round = if attempt == Attempt::FIRST { run.examinations + 1 } else { run.examinations };
    decision.and(Event::ExamineStarted { turn, round, attempt, purpose });
    decision.then(Effect::Examine { round, attempt, purpose });
}

/// The harness has looked at the work.
pub(super) fn examined(run: &Run, number: u32, tried: Attempt, found: Examination) -> Decision {
    let Phase::Examining { turn, round, attempt, purpose } = run.phase else { return Decision::nothing() };
    // What was seen while the run was being paused is looked at again: the tree may be another by then.
    if (round, attempt) != (number, tried) || run.status != Status::Running {
        return Decision::nothing();
    }
    let found = found.bounded();
    let mut decision = Decision::remember(Event::Examined { round, attempt, found: Box::new(found.clone()) });
    // The counts of what leads nowhere are kept by the fold.
    let Some(seen) = decision.ahead(run) else { return decision };
    match purpose {
        Purpose::Baseline => schedule::go_on(&seen, seen.spec.limits, &mut decision),
        Purpose::Whole if !found.holds() => not_whole(&seen, &found.complaint(), &mut decision),
        Purpose::Whole if run.spec.conduct().judge.is_some() => {
            ask_judge(&seen, 1, Attempt::FIRST, &mut decision);
        }
        Purpose::Whole => schedule::go_on(&seen, seen.spec.limits, &mut decision),
        Purpose::FreshStart { why } if comes_to_the_same(run, turn, why, &found) => {
            let reason =
                "context_overflow: the conversation does not fit the window, shortened or begun anew"
                    .to_owned();
            decision.pause(&seen, Cause::Stuck, reason);
        }
        Purpose::FreshStart { why } => iteration::sum_up(&seen, turn, why, &mut decision),
        Purpose::Stop => not_kept(&seen, turn, &found, &mut decision),
        Purpose::Claim if !found.holds() => refuted(&seen, turn, found.complaint(), &mut decision),
        Purpose::Claim if missing_features(run, &found) => not_kept(&seen, turn, &found, &mut decision),
        Purpose::Claim if run.spec.conduct().judge.is_some() => {
            ask_judge(&seen, turn + 1, Attempt::FIRST, &mut decision);
        }
        Purpose::Claim => complete(&seen, turn, &mut decision),
    }
    decision
}

/// Would a fresh conversation be the last one over again? It was begun because the provider had no room for the one before it, and
/// came to the same end: with nothing for its successor that it did not find itself, or at its very beginning, as those before it.
fn comes_to_the_same(run: &Run, turn: u32, why: FreshStart, found: &Examination) -> bool {
    let overflowed = why == FreshStart::Context && run.fill.overflows > 0 && run.pace.fresh_starts > 0;
    let before = run.examined.as_ref().filter(|_| overflowed);
    let before =
        before.filter(|before| matches!(before.purpose, Purpose::FreshStart { why: FreshStart::Context }));
    let at_once = turn <= EARLY_TURNS && run.pace.early_overflows >= EARLY_OVERFLOWS_MAX;
    before.is_some_and(|before| {
        at_once || (&before.found.tree, &before.found.handoff) == (&found.tree, &found.handoff)
    })
}

/// What could not be looked at does not pass.
fn missing_features(run: &Run, found: &Examination) -> bool {
    let by_features = run.spec.conduct().looping.as_ref().is_some_and(Looping::is_by_features);
    by_features && !found.features.as_ref().is_some_and(|features| features.all_pass())
}

/// Asks for a second opinion, before `turn` would begin.
pub(super) fn ask_judge(run: &Run, turn: u32, attempt: Attempt, decision: &mut Decision) {
    if !limit::permit_question(run, Aside::Judgement, run.spec.limits, decision) {
        return;
    }
    decision.and(Event::AsideStarted { aside: Aside::Judgement, turn, attempt });
    decision.then(Effect::AskAside { aside: Aside::Judgement, attempt });
}

/// The judge has spoken.
pub(super) fn judged(run: &Run, turn: u32, opinion: &Opinion, decision: &mut Decision) {
    let reasons: Vec<String> = opinion.reasons.iter().map(|reason| format!("- {reason}")).collect();
    let complaint = format!("A judge does not accept the work:\n{}", reasons.join("\n"));
    match (run.plan.is_completed(), opinion.accepted) {
        (true, true) => schedule::go_on(run, run.spec.limits, decision),
        (true, false) => not_whole(run, &complaint, decision),
        (false, true) => complete(run, turn, decision),
        (false, false) => refuted(run, turn, complaint, decision),
    }
}

/// Every step was done, and all of it together is not: there is no conversation left to say that to.
fn not_whole(run: &Run, complaint: &str, decision: &mut Decision) {
    let why = head(complaint.trim(), EVENT_TEXT_BYTES_MAX);
    let reason = format!("not_verified: all steps are done, but the work as a whole does not hold: {why}");
    decision.pause(run, Cause::Stuck, reason);
}

fn complete(run: &Run, turn: u32, decision: &mut Decision) {
    decision.and(Event::AgentStopped { turn, action: StopAction::Complete, why: None });
    step::completed(run, last_answer(run), decision);
}

/// A loop's agent stopped without keeping its promise, or with features that do not pass.
fn not_kept(run: &Run, turn: u32, found: &Examination, decision: &mut Decision) {
    // Only a loop can stop without a claim.
    let Some(looping) = &run.spec.conduct().looping else { return complete(run, turn, decision) };
    if let Some(features) = found.features.as_ref().filter(|features| features.total > 0) {
        let why = format!("{} of {} features pass", features.passing, features.total);
        let why = format!("{}{why}", found.complaint());
        return iteration::restart(run, turn, FreshStart::NoPromise, why, decision);
    }
    let said = if last_answer(run).contains(looping.promise.trim()) {
        "was said, but not alone on the last line of the reply"
    } else {
        "was not said"
    };
    let why = format!("{}`{}` {said}", found.complaint(), looping.promise);
    iteration::restart(run, turn, FreshStart::NoPromise, why, decision);
}

/// It was said to be done, and is not: the next turn, or the next iteration, begins with why.
fn refuted(run: &Run, turn: u32, complaint: String, decision: &mut Decision) {
    let why = head(&complaint, NOTE_BYTES_MAX).to_owned();
    if run.pace.refuted.max(run.pace.judge_refusals) >= REFUTED_CLAIMS_MAX {
        let reason = format!(
            "not_verified: {REFUTED_CLAIMS_MAX} times in a row the agent said it was done and it was not, without a change to the files; {}",
            head(&why, EVENT_TEXT_BYTES_MAX)
        );
        decision.and(Event::AgentStopped { turn, action: StopAction::Pause, why: Some(why) });
        return decision.pause(run, Cause::Stuck, reason);
    }
    if run.spec.conduct().looping.is_some() {
        return iteration::restart(run, turn, FreshStart::Refuted, complaint, decision);
    }
    decision.and(Event::AgentStopped { turn, action: StopAction::Continue, why: Some(why) });
    decision.and(Event::Told { text: complaint });
    turn::begin(run, turn + 1, run.spec.limits, decision);
}

/// What the agent said last, whole.
fn last_answer(run: &Run) -> String {
    match run.messages.last() {
        Some(Message::Assistant { text, .. }) => {
            prompt::joined(&run.messages[..run.messages.len() - 1], text)
        }
        Some(Message::User { .. } | Message::Tool { .. }) | None => String::new(),
    }
}
