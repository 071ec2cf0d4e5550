//! Tool calls: whether one may run, its intent, its outcome, and its retries. Calls of a turn run one after another.

mod circles;
mod permit;

use serde_json::json;

use self::circles::{broken_off, repeats};
use self::permit::{Leave, class_of, permit, permit_targets, permit_unprepared};
use super::{Decision, ask, child, iteration, limit, turn};
use crate::conversation::ProposedCall;
use crate::effect::{Effect, Wake};
use crate::event::{Ask, AskKind, Cause, Event, FreshStart, Rest};
use crate::ids::{Attempt, CallId};
use crate::json::Json;
use crate::limits::{BROKEN_HOOKS_MAX, GUARDS_MAX, OUTPUT_INLINE_BYTES_MAX, PARALLEL_DEFAULT};
use crate::permission::{Here, risk};
use crate::prompt::head;
use crate::repetition::Remedy;
use crate::run::{Call, CallState, Run};
use crate::spec::Limits;
use crate::status::Status;
use crate::time::Timestamp;
use crate::tool::{EffectClass, Failure, Outcome, SPAWN, Trace};

/// What is kept in place of arguments that were too large to keep.
const OVERSIZED: &str = "longhaul_arguments_too_large_bytes";

const BEGUN_ANEW: &str = "not made: the conversation was begun anew";

pub(super) fn oversized_marker(bytes: usize) -> Json {
    Json::of(&json!({ OVERSIZED: bytes }))
}

/// Starts on the calls a reply asked for. They have no record in `run` yet: numbers are given as `apply` will.
pub(super) fn begin_first(run: &Run, turn: u32, proposed: &[ProposedCall], decision: &mut Decision) {
    let first = run.calls.len() as u32 + 1;
    let asked = proposed.iter().enumerate().map(|(index, call)| Asked {
        id: CallId(first + index as u32),
        place: index,
        tool: &call.tool,
        args: &call.args,
        malformed: call.malformed.as_deref(),
        granted: false,
        attempt: Attempt::FIRST,
    });
    work_through(run, turn, asked, run.spec.limits, decision);
}

/// Takes up a call that was asked for but never begun.
pub(super) fn begin_from(run: &Run, call: &Call, limits: Limits, decision: &mut Decision) {
    let asked = left_of_turn(run, call).filter(|(_, other)| other.id >= call.id);
    work_through(run, call.turn, asked.map(Asked::recorded), limits, decision);
}

/// The calls of a turn that nobody has begun with, and their places in it. Errands may be out, or back, before others begin.
fn left_of_turn<'a>(run: &'a Run, call: &Call) -> impl Iterator<Item = (usize, &'a Call)> {
    let is_left = |(_, other): &(usize, &Call)| matches!(other.state, CallState::Proposed);
    run.calls_of_turn(call).iter().enumerate().filter(is_left)
}

/// Takes up a call for which a person just gave leave, and those after it that nobody has begun with.
pub(super) fn begin_granted(run: &Run, call: &Call, decision: &mut Decision) {
    let granted = run.calls_of_turn(call).iter().enumerate().filter(|(_, other)| other.id == call.id);
    let asked = granted.chain(left_of_turn(run, call).filter(|(_, other)| other.id > call.id));
    let asked = asked.map(|(place, other)| Asked {
        granted: other.id == call.id || other.granted,
        ..Asked::recorded((place, other))
    });
    work_through(run, call.turn, asked, run.spec.limits, decision);
}

/// Goes on with the calls of the same turn that come after `done`.
pub(super) fn begin_next(run: &Run, done: &Call, limits: Limits, decision: &mut Decision) {
    let asked = left_of_turn(run, done).filter(|(_, call)| call.id > done.id);
    work_through(run, done.turn, asked.map(Asked::recorded), limits, decision);
}

pub(super) fn prepared(
    run: &Run,
    id: CallId,
    attempt: Attempt,
    traces: Result<Vec<Trace>, Outcome>,
    hold: Option<String>,
) -> Decision {
    let Some(call) = expected(run, id, attempt) else { return Decision::nothing() };
    if run.status != Status::Running || matches!(call.state, CallState::Started { .. }) {
        return Decision::nothing();
    }
    match traces {
        Ok(traces) => {
            let mut decision = Decision::nothing();
            match permit_targets(run, call, &traces) {
                Ok(None) => start_prepared(run, call, attempt, traces, &mut decision),
                Ok(Some(ask)) => {
                    if !ask::open(run, ask, &mut decision) {
                        begin_next(run, call, run.spec.limits, &mut decision);
                    }
                }
                Err(message) => {
                    refuse(id, Failure::NotPermitted, message, &mut decision);
                    begin_next(run, call, run.spec.limits, &mut decision);
                }
            }
            decision
        }
        Err(outcome) => match permit_unprepared(run, call).filter(|_| hold.is_none()) {
            Some(ask) => {
                let mut decision = Decision::nothing();
                if !ask::open(run, ask, &mut decision) {
                    begin_next(run, call, run.spec.limits, &mut decision);
                }
                decision
            }
            None => finish_or_hold(run, call, attempt, outcome, 1, hold),
        },
    }
}

pub(super) fn ended(
    run: &Run,
    at: Timestamp,
    id: CallId,
    attempt: Attempt,
    outcome: Outcome,
    duration_us: u64,
    hold: Option<String>,
) -> Decision {
    let Some(call) = under_way(run, id, attempt) else { return Decision::nothing() };
    if let Outcome::Failed { failure, message, .. } = &outcome
        && failure.is_transient()
        && hold.is_none()
        && run.status == Status::Running
        && call.failures < run.spec.retry.max_retries
    {
        return rest(run, at, call, attempt, message.clone());
    }
    let hold = hold.or_else(|| broken_hooks(run, &outcome));
    finish_or_hold(run, call, attempt, outcome, duration_us, hold)
}

/// Records how a call ended; nothing comes after it if a person should look first.
fn finish_or_hold(
    run: &Run,
    call: &Call,
    attempt: Attempt,
    outcome: Outcome,
    duration_us: u64,
    hold: Option<String>,
) -> Decision {
    let Some(why) = hold.filter(|_| run.status == Status::Running) else {
        return finish(run, call, attempt, outcome, duration_us);
    };
    let mut decision = Decision::nothing();
    close(call, attempt, outcome, duration_us, &mut decision);
    decision.pause(run, Cause::Parked, why);
    decision
}

/// A hook stopped the call before it had any effect: it goes on with a person's leave, or not at all.
pub(super) fn held(run: &Run, id: CallId, attempt: Attempt, why: &str) -> Decision {
    let Some(call) = under_way(run, id, attempt) else { return Decision::nothing() };
    if run.status != Status::Running {
        let outcome = Outcome::failed(Failure::Cancelled, "not begun because the run was paused");
        return finish(run, call, attempt, outcome, 1);
    }
    let mut decision = Decision::nothing();
    if ask_first(run, id, why, &mut decision) == Asks::Refused {
        begin_next(run, call, run.spec.limits, &mut decision);
    }
    decision
}

/// What became of a question that a hook has to a person.
#[derive(PartialEq, Eq)]
pub(super) enum Asks {
    Open,
    /// Nobody is to be asked, or the call is not under way any more.
    Refused,
}

/// Puts a call that is under way before a person, without any effect yet.
pub(super) fn ask_first(run: &Run, id: CallId, why: &str, decision: &mut Decision) -> Asks {
    let begun = |call: &&Call| matches!(call.state, CallState::Started { .. });
    let Some(call) = run.call(id).filter(begun) else { return Asks::Refused };
    let text = head(why, OUTPUT_INLINE_BYTES_MAX).to_owned();
    let digest = ask::digest(&call.tool, &call.args);
    let is_open = ask::open(run, Ask { call: id, kind: AskKind::Permission, text, digest }, decision);
    if is_open { Asks::Open } else { Asks::Refused }
}

/// The call whose attempt this is, if that is under way.
fn under_way(run: &Run, id: CallId, attempt: Attempt) -> Option<&Call> {
    let call = run.call(id)?;
    matches!(&call.state, CallState::Started { attempt: current, .. } if *current == attempt).then_some(call)
}

/// Why the run should stop, if hooks broke at several calls in a row: every further call would only spend a turn.
fn broken_hooks(run: &Run, outcome: &Outcome) -> Option<String> {
    let broke = |outcome: &Outcome| matches!(outcome, Outcome::Failed { failure: Failure::Hook, .. });
    let before =
        run.calls.iter().rev().filter_map(Call::outcome).take_while(|outcome| broke(outcome)).count();
    (broke(outcome) && before + 1 >= BROKEN_HOOKS_MAX).then(|| {
        format!(
            "hooks broke at {} calls in a row: {}",
            before + 1,
            outcome.error().unwrap_or("without a word")
        )
    })
}

pub(super) fn woke(run: &Run, id: CallId, tried: Attempt) -> Decision {
    let mut decision = Decision::nothing();
    let Some(call) = run.call(id) else { return decision };
    if let CallState::Resting { attempt, .. } = &call.state
        && *attempt == tried
        && run.status == Status::Running
    {
        retry(run, call, tried.next(), &mut decision);
    }
    decision
}

/// Tries a call again: its permission was settled the first time, and it counts once.
pub(super) fn retry(run: &Run, call: &Call, attempt: Attempt, decision: &mut Decision) {
    match class_of(run, &call.tool).unwrap_or(EffectClass::Once) {
        EffectClass::Checkable => decision.then(Effect::PrepareTool { call: call.id, attempt }),
        class @ (EffectClass::Repeatable | EffectClass::Once) => {
            start(call.id, attempt, class, Vec::new(), decision)
        }
    }
}

/// Writes the intent, then lets the tool run.
pub(super) fn start(
    call: CallId,
    attempt: Attempt,
    class: EffectClass,
    traces: Vec<Trace>,
    decision: &mut Decision,
) {
    decision.and(Event::CallStarted { call, attempt, class, traces });
    decision.then(Effect::RunTool { call, attempt });
}

/// Records how a call ended and, in a running run, goes on with what comes after it.
pub(super) fn finish(
    run: &Run,
    call: &Call,
    attempt: Attempt,
    outcome: Outcome,
    duration_us: u64,
) -> Decision {
    let mut decision = Decision::nothing();
    close(call, attempt, outcome, duration_us, &mut decision);
    if run.status == Status::Running {
        begin_next(run, call, run.spec.limits, &mut decision);
    }
    decision
}

/// Records that a call was cut short, and goes on: the run is being taken up again, whatever its status was.
pub(super) fn finish_cut_short(
    run: &Run,
    call: &Call,
    attempt: Attempt,
    message: String,
    limits: Limits,
    decision: &mut Decision,
) {
    close(call, attempt, Outcome::Unknown { message }, 1, decision);
    begin_next(run, call, limits, decision);
}

pub(super) fn close(
    call: &Call,
    attempt: Attempt,
    outcome: Outcome,
    duration_us: u64,
    decision: &mut Decision,
) {
    let outcome = outcome.bounded();
    let error = outcome.error().map(str::to_owned);
    decision.and(Event::CallFinished { call: call.id, attempt, outcome, duration_us: duration_us.max(1) });
    if let Some(message) = error {
        decision.and(Event::ToolFailed { call: call.id, message });
    }
}

fn rest(run: &Run, at: Timestamp, call: &Call, attempt: Attempt, message: String) -> Decision {
    let rest = Rest::from(at, run.spec.retry.delay_ms(call.failures + 1));
    let call = call.id;
    let mut decision = Decision::remember(Event::CallRetryScheduled { call, attempt, message, rest });
    decision.then(Effect::Sleep { wake: Wake::Call { call, attempt }, rest });
    decision
}

/// A call as policy sees it, whether it is on record already or just arrived.
struct Asked<'a> {
    id: CallId,
    /// Its place among the calls of its turn.
    place: usize,
    tool: &'a str,
    args: &'a Json,
    malformed: Option<&'a str>,
    /// A person has given leave.
    granted: bool,
    /// The attempt it would be; not the first if a hook stopped that one.
    attempt: Attempt,
}

impl<'a> Asked<'a> {
    fn recorded((place, call): (usize, &'a Call)) -> Asked<'a> {
        Asked {
            id: call.id,
            place,
            tool: &call.tool,
            args: &call.args,
            malformed: call.malformed.as_deref(),
            granted: call.granted,
            attempt: call.next,
        }
    }
}

/// Refuses calls until one may run and starts that one; after the last, the model's turn comes.
fn work_through<'a>(
    run: &Run,
    turn: u32,
    asked: impl Iterator<Item = Asked<'a>>,
    limits: Limits,
    decision: &mut Decision,
) {
    let mut asked = asked.peekable();
    while let Some(call) = asked.next() {
        if let Some(found) = repeats(run, &call) {
            match broken_off(run, turn, &call, found, decision) {
                Remedy::Nudge => continue,
                Remedy::FreshStart => {
                    asked.for_each(|other| {
                        refuse(other.id, Failure::DoomLoop, BEGUN_ANEW.to_owned(), decision);
                    });
                    return iteration::interrupt(run, turn, FreshStart::DoomLoop, decision);
                }
                Remedy::Pause => {
                    let reason = format!("doom_loop: `{}` was tried again and again to no effect", call.tool);
                    return decision.pause(run, Cause::Stuck, reason);
                }
            }
        }
        match permit(run, &call, limits, decision) {
            Ok(Leave::Ask(ask)) => {
                if ask::open(run, ask, decision) {
                    return;
                }
            }
            Ok(Leave::Noted) => note(&call, decision),
            // It stays asked for, and is looked at again when an errand comes back, a sub-agent rests or the run is resumed.
            Ok(Leave::Later(_)) if is_errand_out(run, turn, decision) => return,
            Ok(Leave::Later(reached)) if limit::may_wait(run, &reached, decision) => return,
            Ok(Leave::Later(reached)) => return limit::pause(run, reached, decision),
            Ok(Leave::Errand(sent)) => match begin_errand(run, &call, sent, decision) {
                Ok(())
                    if may_send_more(run, decision)
                        && asked.peek().is_some_and(|next| next.tool == SPAWN) => {}
                Ok(()) => return,
                Err(message) => refuse(call.id, Failure::Tool, message, decision),
            },
            Ok(Leave::Given(class)) => return begin_given(run, &call, class, limits, decision),
            Ok(Leave::Looked) => return begin_given(run, &call, EffectClass::Checkable, limits, decision),
            Err((failure, message)) => refuse(call.id, failure, message, decision),
        }
    }
    // The model hears of all its errands at once, also of those that a person is asked about.
    if !is_errand_out(run, turn, decision) && !is_other_asked(run, turn, decision) {
        turn::begin(run, turn + 1, limits, decision);
    }
}

/// Begins a call that may be made: what can be checked is prepared first, anything else starts at once.
fn begin_given(run: &Run, call: &Asked<'_>, class: EffectClass, limits: Limits, decision: &mut Decision) {
    limit::warn_of_calls(run, limits, decision);
    match class {
        EffectClass::Checkable => {
            decision.then(Effect::PrepareTool { call: call.id, attempt: call.attempt });
        }
        EffectClass::Repeatable | EffectClass::Once => {
            start_guarded(run, (call.id, call.tool, call.args), call.attempt, class, decision);
        }
    }
}

/// Lets a call run for which what it is about was looked at. Only what can be checked is found again by that.
fn start_prepared(run: &Run, call: &Call, attempt: Attempt, traces: Vec<Trace>, decision: &mut Decision) {
    match class_of(run, &call.tool) {
        Some(class @ (EffectClass::Once | EffectClass::Repeatable)) => {
            start_guarded(run, (call.id, &call.tool, &call.args), attempt, class, decision);
        }
        Some(EffectClass::Checkable) | None => {
            start(call.id, attempt, EffectClass::Checkable, traces, decision)
        }
    }
}

/// Lets a call run; the files are stored first if it may throw work away.
fn start_guarded(
    run: &Run,
    (id, tool, args): (CallId, &str, &Json),
    attempt: Attempt,
    class: EffectClass,
    decision: &mut Decision,
) {
    let here = Here { workspace: &run.spec.workspace, cwd: cwd(run, decision) };
    let risk = risk(here, tool, &args.value());
    start(id, attempt, class, Vec::new(), decision);
    if let Some(command) = risk {
        guard(run, id, command, decision);
    }
}

/// Is a person asked about a call of this turn that this decision does not settle?
fn is_other_asked(run: &Run, turn: u32, decision: &Decision) -> bool {
    let settled = |gate: u32| {
        let answers = |event: &Event| matches!(event, Event::GateAnswered { gate: of, .. } if *of == gate);
        decision.since(run).iter().any(answers)
    };
    let of_turn = |call: &&Call| run.is_of_turn(call, turn);
    let asks = |call: &Call| matches!(call.state, CallState::Asking { gate } if !settled(gate));
    run.calls.iter().rev().take_while(of_turn).any(asks)
}

/// A checkpoint with a name, because the call may throw work away. It comes after the intent: whoever goes back to it is told that
/// the call was cut short, and does not see it made again.
fn guard(run: &Run, call: CallId, command: String, decision: &mut Decision) {
    let name = format!("before-{call}");
    let names = &run.checkpoint_names;
    if names.len() >= GUARDS_MAX || names.contains(&name) {
        return;
    }
    let number = decision.checkpoint(run);
    decision.and(Event::CheckpointGuarded { number, name, call, command });
}

fn note(call: &Asked<'_>, decision: &mut Decision) {
    let (call, attempt, class) = (call.id, call.attempt, EffectClass::Repeatable);
    decision.and(Event::CallStarted { call, attempt, class, traces: Vec::new() });
    let outcome = Outcome::done("it is written down; go on with it".to_owned());
    decision.and(Event::CallFinished { call, attempt, outcome, duration_us: 1 });
}

fn begin_errand(
    run: &Run,
    call: &Asked<'_>,
    sent: (String, String),
    decision: &mut Decision,
) -> Result<(), String> {
    let place = decision.events.len();
    let (call, attempt, class) = (call.id, call.attempt, EffectClass::Checkable);
    decision.and(Event::CallStarted { call, attempt, class, traces: Vec::new() });
    child::send_call(run, call, sent, decision).inspect_err(|_| decision.events.truncate(place))
}

fn may_send_more(run: &Run, decision: &Decision) -> bool {
    let most = run.spec.parallel.unwrap_or(PARALLEL_DEFAULT);
    (run.live_children().count() as u32) + decision.children_sent(run) < most
}

/// Is an errand of this turn still out, as far as this decision knows?
fn is_errand_out(run: &Run, turn: u32, decision: &Decision) -> bool {
    let ended = |call: CallId| {
        decision
            .since(run)
            .iter()
            .any(|event| matches!(event, Event::CallFinished { call: done, .. } if *done == call))
    };
    let out = |call: &Call| call.tool == SPAWN && matches!(call.state, CallState::Started { .. });
    let of_turn = |call: &&Call| run.is_of_turn(call, turn);
    decision.children_sent(run) > 0
        || run.calls.iter().rev().take_while(of_turn).any(|call| out(call) && !ended(call.id))
}

/// An errand came back: on with the calls after it, as far as they need not wait for other errands.
pub(super) fn go_on_beside(run: &Run, done: &Call, decision: &mut Decision) {
    let calls = run.calls_of_turn(done);
    let in_hand = |call: &Call| match call.state {
        CallState::Asking { .. } | CallState::Resting { .. } => true,
        CallState::Started { .. } => call.tool != SPAWN,
        CallState::Proposed | CallState::Ended { .. } => false,
    };
    if decision.goes_on() || calls.iter().any(in_hand) || decision.status_after(run) != Status::Running {
        return;
    }
    let next = calls.iter().find(|call| matches!(call.state, CallState::Proposed));
    let out = is_errand_out(run, done.turn, decision);
    match next {
        Some(next) if !out || next.tool == SPAWN => begin_from(run, next, run.spec.limits, decision),
        Some(_) => {}
        None if out => {}
        None => turn::begin(run, done.turn + 1, run.spec.limits, decision),
    }
}

/// Where commands begin, as the call that ended with this very decision left it.
fn cwd<'a>(run: &'a Run, decision: &'a Decision) -> &'a str {
    let left = |event: &'a Event| {
        let Event::CallFinished { outcome, .. } = event else { return None };
        outcome.output()?.cwd.as_deref()
    };
    let left = decision.events.iter().rev().find_map(left);
    left.or(run.cwd.as_deref()).unwrap_or_default()
}

/// Ends every call of the turn in hand, for a run that does not come back to it.
pub(super) fn abandon_all(run: &Run, why: &str, decision: &mut Decision) {
    let calls = run.calls.last().map_or(&[][..], |last| run.calls_of_turn(last));
    for call in calls.iter().filter(|call| !call.has_ended()) {
        let outcome = match call.state {
            CallState::Started { .. } => {
                Outcome::Unknown { message: format!("{why}; this call may have partly run") }
            }
            CallState::Proposed
            | CallState::Asking { .. }
            | CallState::Resting { .. }
            | CallState::Ended { .. } => Outcome::failed(Failure::Cancelled, why),
        };
        close(call, call.attempt(), outcome, 1, decision);
    }
}

/// A refusal is an answer for the model.
pub(super) fn refuse(call: CallId, failure: Failure, message: String, decision: &mut Decision) {
    decision.and(Event::CallRefused { call, failure, message: message.clone() });
    decision.and(Event::ToolFailed { call, message });
}

/// The call that a preparation was made for, if it still waits for it.
fn expected(run: &Run, id: CallId, attempt: Attempt) -> Option<&Call> {
    let call = run.call(id)?;
    let fits = match &call.state {
        CallState::Proposed => attempt == call.next,
        CallState::Resting { attempt: last, .. } => attempt == last.next(),
        CallState::Asking { .. } | CallState::Started { .. } | CallState::Ended { .. } => false,
    };
    fits.then_some(call)
}
