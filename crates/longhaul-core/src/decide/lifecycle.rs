//! Commands: start, pause, stop, approve, reject. Each is legal in some statuses and refused, by name, in all others.

use super::recovery::Changed;
use super::{Decision, Refusal, ask, call, child, iteration, limit, planning, recovery, schedule};
use crate::codec;
use crate::command::{Command, Wish};
use crate::conduct::Checks;
use crate::conversation::Usage;
use crate::effect::{Effect, Wake};
use crate::event::{Ask, AskKind, Cause, Event, FreshStart, Kept, Moment, Rest, Stored};
use crate::ids::CommandId;
use crate::limits::CHECKPOINT_NAME_BYTES_MAX;
use crate::plan::{Step, StepStatus};
use crate::run::{CallState, Files, Gate, Phase, Run};
use crate::status::Status;
use crate::time::Timestamp;
use crate::tool::Outcome;

pub(super) fn command(run: &Run, at: Timestamp, command: Command) -> Result<Decision, Refusal> {
    if run.commands.contains(&command.id) {
        return Ok(Decision::nothing());
    }
    let follow = match &command.wish {
        Wish::Start { limits, model, looping } => {
            let (limits, model, looping) = (*limits, model.as_deref(), looping.clone());
            start(run, at, Changed { limits, model, looping })?
        }
        Wish::Pause { reason } => pause(run, reason)?,
        Wish::Stop { reason } => stop(run, reason)?,
        Wish::Approve { gate, digest } => approve(run, at, *gate, digest.as_deref())?,
        Wish::Reject { gate, reason } => reject(run, at, *gate, reason)?,
        Wish::Answer { gate, text } => answer(run, at, *gate, text)?,
        Wish::Plan => planning::asked(run)?,
        Wish::Replan { plan } => planning::given(run, at, plan)?,
        Wish::Checkpoint { name } => named_checkpoint(run, name)?,
    };
    let mut decision = Decision::remember(Event::CommandApplied { command: command.id, wish: command.wish });
    decision.events.extend(follow.events);
    decision.effects.extend(follow.effects);
    Ok(decision)
}

/// The reserve is being used up: stop while that can still be written down.
pub(super) fn disk_low(run: &Run) -> Decision {
    if run.status != Status::Running {
        return Decision::nothing();
    }
    let mut decision = Decision::nothing();
    decision.pause(run, Cause::DiskFull, "the disk is full; free some space, then resume".to_owned());
    decision.then(Effect::CancelWork);
    decision
}

pub(super) fn fell_back(run: &Run, reason: String) -> Decision {
    if run.fallback.as_ref() == Some(&reason) {
        return Decision::nothing();
    }
    Decision::remember(Event::PersistenceFellBack { reason })
}

/// What an older longhaul wrote is read as today's; that this began is on record once for each schema.
pub(super) fn older_schema(run: &Run, from: u16) -> Decision {
    let to = codec::VERSION;
    if from >= to || run.schema >= Some(to) || run.status.is_terminal() {
        return Decision::nothing();
    }
    Decision::remember(Event::SchemaUpgraded { from: run.schema.unwrap_or(from), to })
}

/// What was asked for before anything is driven holds from there on.
pub(super) fn checks_changed(run: &Run, checks: Checks) -> Decision {
    let conduct = run.spec.conduct();
    let same = conduct.clone().checked_by(checks.clone()) == *conduct;
    // One that failed is only told if it is about to go on.
    if same || run.status == Status::Completed {
        return Decision::nothing();
    }
    Decision::remember(Event::ChecksChanged { checks })
}

/// On record whenever it is not what it was, so that it can be told afterwards what held which call.
pub(super) fn contained(run: &Run, by: String) -> Decision {
    if run.contained.as_ref() == Some(&by) || run.status == Status::Completed {
        return Decision::nothing();
    }
    Decision::remember(Event::Contained { by })
}

/// On record once for each step, also after the run has ended: its last step's work is kept then.
pub(super) fn work_kept(run: &Run, steps: u32, kept: Kept) -> Decision {
    if run.kept_steps >= steps {
        return Decision::nothing();
    }
    let kept = match kept {
        // The commit of an earlier step, on which nothing has followed.
        Kept::Committed { commit, .. } if run.commits.last() == Some(&commit) => {
            Kept::Unchanged { head: Some(commit) }
        }
        kept @ (Kept::Committed { .. } | Kept::Unchanged { .. } | Kept::Uncommitted { .. }) => kept,
    };
    Decision::remember(Event::WorkKept { steps, kept })
}

/// Nothing was asked: the same is asked again when the run is resumed, where it works then.
pub(super) fn workspace_gone(run: &Run, why: String) -> Decision {
    let mut decision = Decision::nothing();
    if run.status == Status::Running && matches!(run.phase, Phase::Thinking { .. }) {
        decision.pause(run, Cause::Parked, why);
    }
    decision
}

/// A command that came too late, makes no sense or cannot be read is on record, and is not tried again.
pub(super) fn unfit(run: &Run, id: CommandId, why: String) -> Decision {
    if run.commands.contains(&id) {
        return Decision::nothing();
    }
    Decision::remember(Event::CommandDropped { command: id, why })
}

pub(super) fn checkpoint_due(run: &Run) -> Decision {
    let mut decision = Decision::nothing();
    if run.status == Status::Running {
        decision.checkpoint(run);
    }
    decision
}

/// A name is what a person types: it must not be taken for a number or for an event.
fn named_checkpoint(run: &Run, name: &str) -> Result<Decision, Refusal> {
    let refused = |why| Err(Refusal::Name { name: name.escape_debug().to_string(), why });
    if name.is_empty() || name.len() > CHECKPOINT_NAME_BYTES_MAX {
        return refused("a name has 1 to 64 bytes");
    }
    if name.chars().any(char::is_control) || name.trim() != name {
        return refused("a name has no control characters, and no space at either end");
    }
    if name.starts_with(['@', '-']) || name.chars().all(|letter| letter.is_ascii_digit()) {
        return refused("a name is no number, and begins with neither `@` nor `-`");
    }
    if run.checkpoint_names.iter().any(|known| known == name) {
        return refused("there is one of that name");
    }
    let mut decision = Decision::nothing();
    let number = decision.checkpoint(run);
    decision.and(Event::CheckpointNamed { number, name: name.to_owned() });
    Ok(decision)
}

/// On record unless it says nothing new: the same files as before, and nothing done since that may have changed them.
pub(super) fn files_stored(run: &Run, stored: Stored, moment: Moment) -> Decision {
    let same = matches!((&run.files, &stored), (Files::Stored { tree: old }, Stored::Tree { tree, .. }) if old == tree);
    if same {
        return Decision::nothing();
    }
    Decision::remember(Event::FilesStored { stored, moment })
}

pub(super) fn spent_before(usage: Usage) -> Decision {
    if usage == Usage::default() {
        return Decision::nothing();
    }
    Decision::remember(Event::SpentBefore { usage })
}

/// What a person wants changed for the rest of the run; what is the same already is not remembered again.
pub(super) fn change_settings(run: &Run, changed: &Changed<'_>, decision: &mut Decision) {
    if let Some(limits) = changed.limits.filter(|limits| *limits != run.spec.limits) {
        decision.and(Event::LimitsChanged { limits });
    }
    if let Some(model) = changed.model.filter(|model| *model != run.spec.model) {
        decision.and(Event::ModelChanged { model: model.to_owned(), why: None });
    }
    if let Some(looping) = &changed.looping
        && run.spec.conduct().looping.as_ref() != Some(looping)
    {
        decision.and(Event::LoopChanged { looping: looping.clone() });
    }
}

/// Sets the timer that ends the run's time, if that is limited.
pub(super) fn set_deadline(run: &Run, at: Timestamp, changed: &Changed<'_>, decision: &mut Decision) {
    if let Some(timeout_ms) = changed.limits.unwrap_or(run.spec.limits).timeout_ms {
        // A process that died worked until its last event.
        let worked_ms = run.worked_ms(run.updated_at);
        let rest = Rest::from(at, timeout_ms.saturating_sub(worked_ms).max(1));
        decision.then(Effect::Sleep { wake: Wake::Deadline, rest });
    }
}

/// The run's time is up, whatever it is doing.
pub(super) fn deadline(run: &Run, at: Timestamp) -> Decision {
    let mut decision = Decision::nothing();
    let Some(timeout_ms) = run.spec.limits.timeout_ms else { return decision };
    let worked_ms = run.worked_ms(at);
    if run.status != Status::Running {
        return decision;
    }
    // The clock stood still for a while: a person was waited for.
    if worked_ms < timeout_ms {
        decision.then(Effect::Sleep { wake: Wake::Deadline, rest: Rest::from(at, timeout_ms - worked_ms) });
        return decision;
    }
    let (spent, max) = (seconds(worked_ms), seconds(timeout_ms));
    limit::time_is_up(run, spent, max, &mut decision);
    decision
}

fn seconds(ms: u64) -> String {
    format!("{}.{:01} s", ms / 1000, ms % 1000 / 100)
}

fn start(run: &Run, at: Timestamp, changed: Changed<'_>) -> Result<Decision, Refusal> {
    let refused = |why| Err(Refusal::Transition { verb: "start", status: run.status, why });
    match run.status {
        Status::Created | Status::Paused => {}
        Status::Running => return refused("it is under way already"),
        Status::Completed => return refused("it has ended"),
        Status::Failed if run.was_stopped_at_limit() => return go_past_limit(run, at, changed),
        Status::Failed => {
            return refused("it has ended; another plan, an earlier checkpoint or a new run go on");
        }
    }
    let mut decision = Decision::nothing();
    change_settings(run, &changed, &mut decision);
    decision.and(Event::StatusChanged {
        from: run.status,
        to: Status::Running,
        cause: Cause::Asked,
        reason: None,
    });
    set_deadline(run, at, &changed, &mut decision);
    recovery::pick_up(run, changed, &mut decision);
    Ok(decision)
}

/// A run that was to stop at a limit goes on with a higher one, in a fresh conversation: nothing else about it was wrong.
fn go_past_limit(run: &Run, at: Timestamp, changed: Changed<'_>) -> Result<Decision, Refusal> {
    let refused = |why| Err(Refusal::Transition { verb: "start", status: run.status, why });
    let looping = changed.looping.as_ref().or(run.spec.conduct().looping.as_ref());
    let why = if run.is_out_of_iterations() {
        if looping.is_none_or(|looping| looping.max_iterations <= run.iteration) {
            return refused("its iterations are used up; it goes on with a higher --max-iterations");
        }
        FreshStart::NoPromise
    } else {
        let now = changed.limits.unwrap_or(run.spec.limits);
        if run.stopped_at().is_some_and(|limit| !now.goes_beyond(&run.spec.limits, limit)) {
            return refused("it was to stop at its limit; it goes on with a higher one");
        }
        FreshStart::Limit
    };
    let mut decision = Decision::nothing();
    planning::clear(run, at, "the run goes on with a higher limit", &mut decision);
    decision.and(Event::Reopened);
    change_settings(run, &changed, &mut decision);
    let (from, to) = (Status::Paused, Status::Running);
    decision.and(Event::StatusChanged { from, to, cause: Cause::Asked, reason: None });
    set_deadline(run, at, &changed, &mut decision);
    if let Some(ahead) = decision.ahead(run) {
        if run.fell_at_limit() {
            iteration::sum_up(&ahead, 0, why, &mut decision);
        }
        schedule::go_on(&ahead, ahead.spec.limits, &mut decision);
    }
    Ok(decision)
}

fn pause(run: &Run, reason: &str) -> Result<Decision, Refusal> {
    let refused = |why| Err(Refusal::Transition { verb: "pause", status: run.status, why });
    if run.is_planning() && run.status != Status::Running {
        let mut decision = Decision::remember(Event::PlanRefused { why: reason.to_owned() });
        decision.then(Effect::CancelWork);
        return Ok(decision);
    }
    match run.status {
        Status::Running => {}
        Status::Created | Status::Paused if run.setting_up => {}
        Status::Created => return refused("start first"),
        Status::Paused => return refused("it is paused already"),
        Status::Completed | Status::Failed => return refused("it has ended"),
    }
    let mut decision = begun(run);
    if run.is_planning() {
        decision.and(Event::PlanRefused { why: reason.to_owned() });
    }
    decision.pause(run, Cause::Asked, reason.to_owned());
    decision.then(Effect::CancelWork);
    Ok(decision)
}

/// A run whose workspace is being prepared has been asked for, and is under way for whoever wants an end of it; none of its steps is.
fn begun(run: &Run) -> Decision {
    if !run.setting_up || run.status == Status::Running {
        return Decision::nothing();
    }
    let (from, to) = (run.status, Status::Running);
    Decision::remember(Event::StatusChanged { from, to, cause: Cause::Asked, reason: None })
}

fn stop(run: &Run, reason: &str) -> Result<Decision, Refusal> {
    let refused = |why| Err(Refusal::Transition { verb: "stop", status: run.status, why });
    match run.status {
        Status::Running | Status::Paused => {}
        Status::Created if run.setting_up => {}
        Status::Created => return refused("it has not started; remove it with `longhaul rm`"),
        Status::Completed | Status::Failed => return refused("it has ended"),
    }
    let mut decision = begun(run);
    if let Some(open) = run.open_call()
        && let CallState::Started { attempt, .. } = open.state
    {
        let message = "the run was stopped while this call ran; it may have partly run".to_owned();
        call::close(open, attempt, Outcome::Unknown { message }, 1, &mut decision);
    }
    for (index, _) in running(run) {
        decision.and(Event::StepFailed { step: index as u32, error: reason.to_owned() });
    }
    let to = Status::Failed;
    decision.and(Event::StatusChanged {
        from: decision.status_after(run),
        to,
        cause: Cause::Asked,
        reason: Some(reason.to_owned()),
    });
    decision.checkpoint(run);
    decision.then(Effect::CancelWork);
    child::end_all(run, reason, &mut decision);
    Ok(decision)
}

/// The steps that somebody works on.
fn running(run: &Run) -> impl Iterator<Item = (usize, &Step)> {
    run.plan.steps.iter().enumerate().filter(|(_, step)| step.status == StepStatus::Running)
}

fn approve(run: &Run, at: Timestamp, number: u32, digest: Option<&str>) -> Result<Decision, Refusal> {
    let gate = pending_gate(run, "approve", number)?;
    gate.ask.iter().try_for_each(|asked| expect_leave(asked, number))?;
    // Gates of steps that older runs stand at have none.
    if let (Some(shown), Some(asked)) = (digest, gate.digest())
        && shown != asked
    {
        return Err(Refusal::OtherAction { gate: number, digest: asked.to_owned() });
    }
    let mut decision = Decision::remember(answered(gate, at, true, None));
    match &gate.ask {
        None if run.status == Status::Running => {
            schedule::go_on(run, run.spec.limits, &mut decision);
        }
        None => {}
        Some(asked) => ask::granted(run, asked, &mut decision),
    }
    Ok(decision)
}

fn reject(run: &Run, at: Timestamp, number: u32, reason: &str) -> Result<Decision, Refusal> {
    let gate = pending_gate(run, "reject", number)?;
    let mut decision = Decision::remember(answered(gate, at, false, Some(reason)));
    match &gate.ask {
        None if run.status == Status::Running => {
            decision.pause(run, Cause::Rejected, reason.to_owned());
            decision.then(Effect::CancelWork);
        }
        None => {}
        Some(asked) => ask::refused(run, asked, reason, &mut decision),
    }
    Ok(decision)
}

fn answer(run: &Run, at: Timestamp, number: u32, text: &str) -> Result<Decision, Refusal> {
    let gate = pending_gate(run, "answer", number)?;
    let Some(asked) = &gate.ask else {
        return Err(Refusal::OtherKind { gate: number, what: "a step's", verb: "approve or reject" });
    };
    expect_words(asked, number)?;
    let mut decision = Decision::remember(Event::GateAnswered {
        gate: number,
        approved: true,
        reason: None,
        waited_ms: at.millis_since(gate.opened_at),
        answer: Some(text.to_owned()),
    });
    ask::answered(run, asked, text, &mut decision);
    Ok(decision)
}

pub(super) fn answered(gate: &Gate, at: Timestamp, approved: bool, reason: Option<&str>) -> Event {
    Event::GateAnswered {
        gate: gate.number,
        approved,
        reason: reason.map(str::to_owned),
        waited_ms: at.millis_since(gate.opened_at),
        answer: None,
    }
}

fn expect_leave(asked: &Ask, gate: u32) -> Result<(), Refusal> {
    let what = match asked.kind {
        AskKind::Permission => return Ok(()),
        AskKind::Question => "a question",
        AskKind::Need => "something the agent needs",
    };
    Err(Refusal::OtherKind { gate, what, verb: "answer or reject" })
}

fn expect_words(asked: &Ask, gate: u32) -> Result<(), Refusal> {
    match asked.kind {
        AskKind::Question | AskKind::Need => Ok(()),
        AskKind::Permission => {
            Err(Refusal::OtherKind { gate, what: "a request for leave", verb: "approve or reject" })
        }
    }
}

/// An answer counts once, and only while the run stands at that gate. A paused run takes it in, and goes on from it when it is
/// resumed.
fn pending_gate<'a>(run: &'a Run, verb: &'static str, number: u32) -> Result<&'a Gate, Refusal> {
    let gate = run.gate(number).ok_or(Refusal::NoGate { gate: number })?;
    if let Some(answer) = &gate.answer {
        let answer = if answer.approved { "approved" } else { "rejected" };
        return Err(Refusal::Answered { gate: number, answer });
    }
    match run.status {
        Status::Running | Status::Paused => Ok(gate),
        Status::Created | Status::Completed | Status::Failed => Err(Refusal::Transition {
            verb,
            status: run.status,
            why: "it has ended, and waits for no answer",
        }),
    }
}
