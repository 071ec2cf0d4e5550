//! Making room: before a turn would fill the window, old outputs are left out, then the middle is summed up, and if neither
//! helps the conversation is begun anew. Never more than that: a conversation that cannot be shortened is not shortened
//! again and again.

use super::{Decision, iteration, limit, turn};
use crate::context::{self, Shortening};
use crate::conversation::Message;
use crate::effect::Effect;
use crate::event::{Aside, Event, FreshStart};
use crate::ids::Attempt;
use crate::limits::{COMPACTED_PERCENT_MAX, FUTILE_COMPACTIONS_MAX, LEFT_OUT_BYTES_MIN, SUMMARY_BYTES_MAX};
use crate::prompt::head;
use crate::run::Run;

/// Begins `turn`, having made room for it if need be.
pub(super) fn then_turn(run: &Run, turn: u32, attempt: Attempt, decision: &mut Decision) {
    match threshold(run).filter(|threshold| run.fill.tokens_with(pending_bytes(run, decision)) > *threshold) {
        Some(threshold) => make_room(run, turn, attempt, threshold, decision),
        None => turn::attempt(turn, attempt, decision),
    }
}

/// Can the conversation be shortened once the provider says that it does not fit?
pub(super) fn can_help(run: &Run) -> bool {
    run.spec.conduct().compaction().enabled && run.fill.overflows < 2 && run.messages.len() > 2
}

/// The provider says that the conversation does not fit, whatever was thought of it: half of it goes, and the next time all
/// of it.
pub(super) fn after_overflow(run: &Run, turn: u32, attempt: Attempt, decision: &mut Decision) {
    match run.fill.overflows {
        0 => shorten_by_half(run, turn, attempt, decision),
        _ => iteration::interrupt(run, turn, FreshStart::Context, decision),
    }
}

fn shorten_by_half(run: &Run, turn: u32, attempt: Attempt, decision: &mut Decision) {
    let before = context::protected_from(&run.messages, context::tokens(run.fill.bytes) / 2);
    let summary = context::mechanical_summary(&run.messages[..before], &run.calls);
    shorten(run, before, &summary, u64::MAX, decision);
    turn::attempt(turn, attempt, decision);
}

/// From how many tokens on room is made; nothing if it never is.
fn threshold(run: &Run) -> Option<u64> {
    let compaction = run.spec.conduct().compaction();
    let window = run.fill.window.filter(|_| compaction.enabled)?;
    Some((window.saturating_mul(u64::from(compaction.threshold)) / 100).max(1))
}

/// Bytes that this very decision adds to the conversation.
fn pending_bytes(run: &Run, decision: &Decision) -> u64 {
    let said = |event: &Event| {
        if let Event::CallFinished { outcome, .. } = event {
            return outcome.for_model().len();
        }
        if let Event::CallRefused { message, .. } | Event::Told { text: message } = event {
            return message.len();
        }
        if let Event::ModelReplied { text, calls, .. } = event {
            return text.len() + calls.iter().map(|call| call.args.as_str().len()).sum::<usize>();
        }
        0
    };
    decision.since(run).iter().map(said).sum::<usize>() as u64
}

fn make_room(run: &Run, turn: u32, attempt: Attempt, threshold: u64, decision: &mut Decision) {
    let Some(ahead) = decision.ahead(run) else { return turn::attempt(turn, attempt, decision) };
    // What the provider counts may have told that there is room after all: a conversation begun anew in this decision.
    if ahead.fill.tokens_with(0) <= threshold || ahead.messages.len() <= 1 {
        return turn::attempt(turn, attempt, decision);
    }
    let before = protected_from(&ahead, threshold);
    let Some(ahead) = leave_out(ahead, Shortening::Outputs { before: before as u32 }, decision) else {
        return;
    };
    // The end alone may be too long: then something of each of its results stays.
    let ahead = if end_alone(&ahead, before) > freed_enough(threshold) {
        let fit = Shortening::Fit { from: before as u32, bytes: share(&ahead, before, threshold) };
        let Some(ahead) = leave_out(ahead, fit, decision) else { return };
        ahead
    } else {
        ahead
    };
    if ahead.fill.tokens_with(0) <= freed_enough(threshold) {
        return turn::attempt(turn, attempt, decision);
    }
    if ahead.fill.futile >= FUTILE_COMPACTIONS_MAX || before <= 1 {
        return iteration::interrupt(&ahead, turn, FreshStart::Context, decision);
    }
    let aside = Aside::Compaction { before: before as u32 };
    if !limit::has_room_for_question(&ahead, aside, decision) {
        return summed_up(&ahead, before as u32, turn, None, decision);
    }
    decision.and(Event::AsideStarted { aside, turn, attempt: Attempt::FIRST });
    decision.then(Effect::AskAside { aside, attempt: Attempt::FIRST });
}

/// The summary has come, or none will: the conversation is shortened with what there is, and goes on.
pub(super) fn summed_up(run: &Run, before: u32, turn: u32, summary: Option<&str>, decision: &mut Decision) {
    let before = (before as usize).clamp(1, run.messages.len());
    let summary = match summary.filter(|summary| !summary.trim().is_empty()) {
        Some(summary) => head(summary, SUMMARY_BYTES_MAX).to_owned(),
        None => context::mechanical_summary(&run.messages[..before], &run.calls),
    };
    let threshold = threshold(run).unwrap_or(u64::MAX);
    shorten(run, before, &summary, threshold, decision);
    let Some(ahead) = decision.ahead(run) else { return };
    if ahead.fill.tokens_with(0) > threshold {
        return iteration::interrupt(&ahead, turn, FreshStart::Context, decision);
    }
    // The summary may have taken what was left for the turn.
    turn::begin(&ahead, turn, ahead.spec.limits, decision);
}

fn shorten(run: &Run, before: usize, summary: &str, threshold: u64, decision: &mut Decision) {
    let text = context::summary_text(run, summary, before.saturating_sub(1));
    let shortening = Shortening::Summary { before: before as u32, text };
    let tokens_after = tokens_after(run, &shortening);
    decision.and(Event::Compacted {
        tokens_before: run.fill.tokens_with(0),
        tokens_after,
        futile: tokens_after > freed_enough(threshold),
        shortening,
    });
}

/// Where the end begins that stays: what is to be protected, but never more than half of what there is room for.
fn protected_from(run: &Run, threshold: u64) -> usize {
    let room = freed_enough(threshold).saturating_sub(run.fill.overhead) / 2;
    context::protected_from(&run.messages, run.spec.conduct().compaction().protect_tokens.min(room))
}

/// What the request would have if only its first message and the end were left.
fn end_alone(run: &Run, from: usize) -> u64 {
    let first = run.messages.first().map_or(0, context::bytes);
    let end: u64 = run.messages.iter().skip(from).map(context::bytes).sum();
    run.fill.overhead + context::tokens(first + end)
}

/// Shortens if that frees anything. The run as it is then; `None` if that cannot be told.
fn leave_out(run: Run, shortening: Shortening, decision: &mut Decision) -> Option<Run> {
    let (tokens_before, tokens_after) = (run.fill.tokens_with(0), tokens_after(&run, &shortening));
    if tokens_after >= tokens_before {
        return Some(run);
    }
    let shortened = Event::Compacted { shortening, tokens_before, tokens_after, futile: false };
    let mut ahead = run;
    ahead.apply(ahead.seq, ahead.updated_at, &shortened).ok()?;
    decision.and(shortened);
    Some(ahead)
}

/// Bytes for each result from this place on, if they share what room there is.
fn share(run: &Run, from: usize, threshold: u64) -> u32 {
    let results = run.messages.iter().skip(from).filter(|message| matches!(message, Message::Tool { .. }));
    let first = run.messages.first().map_or(0, context::bytes);
    let room = (freed_enough(threshold).saturating_sub(run.fill.overhead) * 2).saturating_sub(first);
    let share = room / (results.count() as u64).max(1);
    u32::try_from(share.max(LEFT_OUT_BYTES_MIN as u64)).unwrap_or(u32::MAX)
}

fn tokens_after(run: &Run, shortening: &Shortening) -> u64 {
    let shorter = context::shortened(&run.messages, shortening, &run.calls);
    let newest = matches!(shortening, Shortening::Fit { .. });
    run.fill.tokens_after(shorter.iter().map(context::bytes).sum(), newest)
}

fn freed_enough(threshold: u64) -> u64 {
    threshold / 100 * COMPACTED_PERCENT_MAX + threshold % 100 * COMPACTED_PERCENT_MAX / 100
}
