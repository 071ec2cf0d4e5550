//! Sub-agents: runs that are started and driven for another run, in the same process.
//!
//! A child is found by the name its parent wrote down before it existed, so that a parent that died takes up again what it had
//! sent and sends nothing twice.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_core::child::{Child, ChildEnding, ChildLedger, ChildReport, ChildState, Errand, report};
use longhaul_core::command::Wish;
use longhaul_core::event::{Cause, Event};
use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::{Status, Wait};
use longhaul_core::time::Timestamp;
use longhaul_tools::Cancel;
use tokio::time::Instant;

use crate::branches::{cleared, handed_in, naming, parted};
use crate::error::Error;
use crate::harness::{Driven, Harness, Opening};
use crate::ledger::Ledger;
use crate::limits::{
    CHILD_HEARING_PART, CHILD_POLL_MS, CHILD_STOP_TRIES_MAX, DEEP_LOOKS_EVERY, INBOX_POLL_MS,
};
use crate::perform::ToolWork;
use crate::watch::Watcher;

/// Knows the agents that errands are given to.
pub trait Crew: Send + Sync {
    /// The run as its agent would have it: prompt, tools, models and limits, never more than `plain` allows.
    fn fitted(&self, plain: RunSpec) -> Result<RunSpec, String>;
}

/// An errand with everything needed to see it through, cut loose from the run that gave it.
#[derive(Clone, Debug)]
pub struct Charge {
    pub number: u32,
    pub errand: Errand,
    /// What the run would be, whoever the agent is.
    pub spec: Box<RunSpec>,
    /// Is it for the very agent that gave it?
    pub is_own: bool,
    /// What it was last known to have used.
    pub ledger: ChildLedger,
    /// The model that a person wants it to go on with.
    pub model: Option<String>,
    /// The call that asks for it, while nobody has been sent yet.
    pub call: Option<ToolWork>,
    /// How long nothing may be heard of it while it is at work.
    pub idle: Duration,
}

/// Sees a child through to where it rests: makes it if it is not there, drives it, pauses it if its parent is.
pub(crate) async fn attend(harness: Option<Harness>, charge: Charge, cancel: Cancel) -> Input {
    let number = charge.number;
    // What it had used before it could not be gone on with is used all the same.
    let gave_up = |error: String, ledger| ChildReport { ending: ChildEnding::GaveUp { error }, ledger };
    let report = match harness {
        Some(harness) => match see_through(&harness, &charge, &cancel).await {
            Ok(report) => report,
            Err(error) => gave_up(in_full(&error), harness.used_by(&charge)),
        },
        None => gave_up("nothing here can drive a sub-agent".to_owned(), charge.ledger),
    };
    Input::ChildRested { number, report }
}

async fn see_through(harness: &Harness, charge: &Charge, cancel: &Cancel) -> Result<ChildReport, Error> {
    let id = &charge.errand.id;
    let mut named = None;
    let mut run = match harness.find(id)? {
        // Nobody is made for a run that is being paused or stopped.
        None if cancel.is_cancelled() => {
            let reason = "the run was paused before it was sent".to_owned();
            let ending = ChildEnding::Paused { cause: Cause::Asked, reason };
            return Ok(ChildReport { ending, ledger: charge.ledger });
        }
        // Only who is not there yet is made: what one has done counts, whatever became of its agent since.
        None => {
            named = naming(harness, &charge.spec)?;
            harness.create(parted(harness, fitted(harness, charge)?)?)?
        }
        // A run that was copied, imported or taken back knows the names of children that are not its own.
        Some(run) if run.spec.parent != charge.spec.parent || run.spec.task != charge.spec.task => {
            return Err(Error::Crew(format!("{id} is on another errand")));
        }
        Some(run) => run,
    };
    loop {
        if run.status.is_terminal() {
            // Whoever ended it may have died before it knew what those below it had used.
            run = harness.settle_below(id)?;
            return Ok(handed_in(harness, charge, &run).await);
        }
        let model = charge.model.clone().filter(|model| *model != run.spec.model);
        let opening = Opening { limits: regranted(&run, charge.errand.limits), model, ..Opening::default() };
        let pulse = Pulse::of(silence(&run, harness.clock.now()));
        let driven = harness.drive_child(id, opening, Box::new(pulse.clone()));
        drop(named.take());
        match driven {
            Ok(driven) => {
                let (run, silent) = rested(driven, cancel, &pulse, charge.idle).await?;
                let found = handed_in(harness, charge, &run).await;
                return Ok(match silent.filter(|_| !run.status.is_terminal()) {
                    Some(ms) => ChildReport { ending: ChildEnding::Idle { ms }, ..found },
                    None => found,
                });
            }
            // A person drives it from elsewhere: what comes of it is looked at when they are done.
            Err(Error::Store(longhaul_store::Error::Held { .. })) => {
                let slept = tokio::time::sleep(Duration::from_millis(CHILD_POLL_MS));
                tokio::select! {
                    () = slept => {}
                    () = cancel.cancelled() => return Ok(report(&run)),
                }
                run = harness.look(id)?;
            }
            Err(error) => return Err(error),
        }
    }
}

fn fitted(harness: &Harness, charge: &Charge) -> Result<RunSpec, Error> {
    let plain = charge.spec.as_ref().clone();
    let Some(crew) = harness.crew().filter(|_| !charge.is_own) else { return Ok(plain) };
    crew.fitted(plain).map_err(Error::Crew)
}

/// The child's limits as its parent now wants them, if that is anything new. How many calls and turns its agent may take is the
/// agent's, unless it is at the end of them; never more than its parent has set aside for it. What it may use is never more than
/// the agent's file allows, or than a person has allowed this run since.
fn regranted(run: &Run, wanted: Limits) -> Option<Limits> {
    let (now, used) = (run.spec.limits, run.ledger());
    let at_end = run.cause == Some(Cause::Limit);
    let counts = |now: u32, wanted: u32, used: u32| match at_end && used >= now {
        true => now.max(wanted),
        false => now.min(wanted),
    };
    let caps = run.spec.agent_caps.unwrap_or_default();
    let cost = caps.max_cost.map(|cap| cap.max(now.max_cost.unwrap_or_default()));
    let tokens = caps.max_tokens.map(|cap| cap.max(now.max_tokens.unwrap_or_default()));
    let limits = Limits {
        max_tool_calls: counts(now.max_tool_calls, wanted.max_tool_calls, used.calls),
        max_steps: counts(now.max_steps, wanted.max_steps, used.turns),
        max_cost: wanted.max_cost.into_iter().chain(cost).min(),
        max_tokens: wanted.max_tokens.into_iter().chain(tokens).min(),
        timeout_ms: wanted.timeout_ms.or(now.timeout_ms),
        ..now
    };
    (limits != now && run.status != Status::Created).then_some(limits)
}

/// Waits for the child to rest; pauses it when its parent has no more time for it, or when nothing is heard of it for so many
/// milliseconds, which are then told.
async fn rested(
    driven: Driven,
    cancel: &Cancel,
    pulse: &Pulse,
    idle: Duration,
) -> Result<(Run, Option<u64>), Error> {
    let handle = driven.handle.clone();
    let rest = driven.rest();
    tokio::pin!(rest);
    let (reason, silent) = tokio::select! {
        rested = &mut rest => return rested.map(|(run, _)| (run, None)),
        () = cancel.cancelled() => (NOT_AT_WORK, None),
        silent = pulse.stops(idle) => ("nothing was heard of it", Some(silent)),
    };
    handle.ask(Wish::Pause { reason: reason.to_owned() })?;
    let (run, _) = rest.await?;
    Ok((run, silent.map(|silent| u64::try_from(silent.as_millis()).unwrap_or(u64::MAX))))
}

/// For how long nothing had been heard of a child when it is taken up: since its last event, if it was at work then and its process
/// died.
fn silence(run: &Run, now: Timestamp) -> Duration {
    if run.status != Status::Running || run.wait() != Wait::None {
        return Duration::ZERO;
    }
    Duration::from_millis(now.millis_since(run.updated_at))
}

/// When something was last heard of a child. What it waits for in good order is no silence, however long it takes; and time in
/// which the machine slept does not count.
#[derive(Clone)]
struct Pulse {
    last: Arc<Mutex<Beat>>,
    /// What of the batch that is being shown counts as a word of its own.
    said: Said,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Nothing,
    Something,
    /// How it was taken up, and what follows from that by itself.
    TakenUp,
}

#[derive(Clone, Copy)]
struct Beat {
    at: Instant,
    /// How long it had been silent by then.
    silent: Duration,
    waits: bool,
}

impl Pulse {
    fn of(silent: Duration) -> Pulse {
        let beat = Beat { at: Instant::now(), silent, waits: false };
        Pulse { last: Arc::new(Mutex::new(beat)), said: Said::Nothing }
    }

    fn beat(&self, run: &Run) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.waits = run.wait() != Wait::None;
        if self.said == Said::Something {
            (last.at, last.silent) = (Instant::now(), Duration::ZERO);
        }
    }

    /// Waits until nothing was heard for that long, and says for how long.
    async fn stops(&self, idle: Duration) -> Duration {
        loop {
            let Beat { at, silent, waits } = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
            let heard_for = at.elapsed();
            let silent = silent.saturating_add(heard_for);
            // How long nobody drove it is part of its silence, so whoever is taken up has some time to say something.
            let left = idle.saturating_sub(silent).max((idle / CHILD_HEARING_PART).saturating_sub(heard_for));
            if left.is_zero() && !waits {
                return silent;
            }
            tokio::time::sleep(left.max(Duration::from_millis(CHILD_POLL_MS))).await;
        }
    }
}

impl Watcher for Pulse {
    fn event(&mut self, _run: &Run, _seq: u64, _at: Timestamp, event: &Event) {
        let is_start = matches!(event, Event::Recovered { .. } | Event::Contained { .. });
        self.said = match self.said {
            Said::Nothing | Said::Something if is_start => Said::TakenUp,
            Said::Nothing | Said::Something => Said::Something,
            Said::TakenUp => Said::TakenUp,
        };
    }

    fn batch_ended(&mut self, run: &Run) {
        self.beat(run);
        self.said = Said::Nothing;
    }
}

/// Waits until somebody has something to say to a child that waits for a person, or has seen to it elsewhere.
pub(crate) async fn await_answer(harness: Option<Harness>, charge: Charge, cancel: Cancel) -> Option<Input> {
    let (harness, id) = (harness?, &charge.errand.id);
    let mut looks: u32 = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(INBOX_POLL_MS)) => {}
            () = cancel.cancelled() => {
                let paused = tokio::task::spawn_blocking(move || harness.pause_with_parent(&charge));
                // Nothing is new to its parent: it waits, paused or not.
                drop(paused.await);
                return None;
            }
        }
        looks += 1;
        // Those below it are looked at less often: that takes reading.
        let deep = looks.is_multiple_of(DEEP_LOOKS_EVERY);
        if is_answered(&harness, id) || (deep && (!still_waits(&harness, id) || answered_below(&harness, id)))
        {
            return Some(Input::ChildAnswered { number: charge.number });
        }
    }
}

fn still_waits(harness: &Harness, id: &RunId) -> bool {
    harness.look(id).is_ok_and(|run| matches!(report(&run).ending, ChildEnding::Waiting))
}

fn answered_below(harness: &Harness, id: &RunId) -> bool {
    let Ok(run) = harness.look(id) else { return false };
    run.live_children()
        .any(|child| is_answered(harness, &child.errand.id) || answered_below(harness, &child.errand.id))
}

fn is_answered(harness: &Harness, id: &RunId) -> bool {
    let Ok(store) = harness.store_of(id) else { return false };
    store.pending(id).is_ok_and(|posted| !posted.is_empty())
        || store.holder(id).is_ok_and(|holder| holder.is_some())
}

/// Ends a child, and says what it had used by then.
pub(crate) async fn end(harness: Option<Harness>, charge: Charge, reason: String) -> Option<Input> {
    let (harness, number) = (harness?, charge.number);
    let ended = tokio::task::spawn_blocking(move || {
        let (id, parent) = (&charge.errand.id, charge.spec.parent.as_ref());
        // A child that cannot be stopped now is refused when somebody wants to drive it: its parent has ended.
        drop(harness.end_child(id, parent, &reason));
        harness.last_word(id, parent, charge.ledger, &reason)
    });
    let report = ended.await.ok()?;
    Some(Input::ChildRested { number, report })
}

/// What a child is told when its parent rests.
const NOT_AT_WORK: &str = "the run it works for is not at work";

impl Harness {
    /// The run as it stands, if there is one.
    fn find(&self, id: &RunId) -> Result<Option<Run>, Error> {
        match self.look(id) {
            Ok(run) => Ok(Some(run)),
            Err(Error::Store(longhaul_store::Error::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same if it works for that parent. A run that was copied, imported or taken back knows names that are not its own.
    pub(crate) fn find_child(&self, id: &RunId, parent: Option<&RunId>) -> Result<Option<Run>, Error> {
        Ok(self.find(id)?.filter(|run| run.spec.parent.as_ref() == parent))
    }

    /// What a child has used, by its own journal; what its parent knows, if that cannot be read.
    fn used_by(&self, charge: &Charge) -> ChildLedger {
        let found = self.find_child(&charge.errand.id, charge.spec.parent.as_ref());
        found.ok().flatten().map_or(charge.ledger, |run| self.spent_by(&run))
    }

    /// How a child stands that was to end. One that is not there any more had done nothing since it was last heard of.
    fn last_word(&self, id: &RunId, parent: Option<&RunId>, known: ChildLedger, reason: &str) -> ChildReport {
        match self.find_child(id, parent) {
            Ok(Some(run)) => ChildReport { ledger: self.spent_by(&run), ..report(&run) },
            Ok(None) => {
                ChildReport { ending: ChildEnding::Stopped { reason: reason.to_owned() }, ledger: known }
            }
            Err(error) => {
                let (cause, reason) = (Cause::Asked, in_full(&error));
                ChildReport { ending: ChildEnding::Paused { cause, reason }, ledger: known }
            }
        }
    }

    /// The same as [`Harness::settle_below`] for whoever holds the run.
    pub(crate) fn hear_below(&self, ledger: &mut Ledger) -> Result<(), Error> {
        let (id, status) = (ledger.run().spec.id.clone(), ledger.run().status);
        let reason =
            ledger.run().reason.clone().unwrap_or_else(|| "the run it worked for has ended".to_owned());
        let live: Vec<Child> = ledger.run().live_children().cloned().collect();
        let mut effects = Vec::new();
        for Child { errand, state, ledger: known, .. } in live {
            let report = match status {
                Status::Completed | Status::Failed => {
                    self.end_child(&errand.id, Some(&id), &reason)?;
                    Some(self.last_word(&errand.id, Some(&id), known, &reason))
                }
                Status::Paused => {
                    let report = self.pause_child(&errand.id, &id)?;
                    report.filter(|report| state == ChildState::Working || report.ledger != known)
                }
                Status::Created | Status::Running => None,
            };
            if let Some(report) = report {
                effects.extend(ledger.commit(Input::ChildRested { number: errand.number, report })?);
            }
        }
        self.end_children(ledger.run(), effects)
    }

    /// Pauses a child that nobody drives, and those below it. Says how it rests; nothing if it is not there, or somebody drives it.
    fn pause_child(&self, id: &RunId, parent: &RunId) -> Result<Option<ChildReport>, Error> {
        let Some(mut run) = self.find_child(id, Some(parent))? else { return Ok(None) };
        let is_at_rest = match run.status {
            Status::Created | Status::Completed | Status::Failed => true,
            Status::Paused => run.live_children().next().is_none(),
            Status::Running => false,
        };
        if !is_at_rest {
            let command = self.command(Wish::Pause { reason: NOT_AT_WORK.to_owned() })?;
            match self.apply(id, command) {
                // It was paused before, and only those below it were not.
                Ok(_) | Err(Error::Refused(_)) => {}
                Err(Error::Store(longhaul_store::Error::Held { .. })) => return Ok(None),
                Err(error) => return Err(error),
            }
            run = self.look(id)?;
        }
        let ending = match report(&run).ending {
            rests @ (ChildEnding::Waiting | ChildEnding::Paused { .. }) => rests,
            // What it came to is for whoever drives its parent, who has to bring in its work.
            ChildEnding::Completed { .. }
            | ChildEnding::Failed { .. }
            | ChildEnding::Stopped { .. }
            | ChildEnding::Refused { .. }
            | ChildEnding::Held { .. }
            | ChildEnding::Idle { .. }
            | ChildEnding::GaveUp { .. } => {
                ChildEnding::Paused { cause: Cause::Asked, reason: NOT_AT_WORK.to_owned() }
            }
        };
        Ok(Some(ChildReport { ending, ledger: self.spent_by(&run) }))
    }

    /// Who waits for a person is driven by nobody, and would not hear that its parent was paused.
    fn pause_with_parent(&self, charge: &Charge) -> Result<(), Error> {
        let Some(parent) = &charge.spec.parent else { return Ok(()) };
        if self.look(parent)?.status == Status::Paused {
            self.pause_child(&charge.errand.id, parent)?;
        }
        Ok(())
    }

    /// Stops a child for good, and with it those below, whoever drives it. One that works for somebody else is left alone.
    pub(crate) fn end_child(&self, id: &RunId, parent: Option<&RunId>, reason: &str) -> Result<(), Error> {
        let command = self.command(Wish::Stop { reason: reason.to_owned() })?;
        for _ in 0..CHILD_STOP_TRIES_MAX {
            let Some(run) = self.find_child(id, parent)? else { return Ok(()) };
            match run.status {
                // Whoever stopped it may have died before those below were told.
                Status::Completed | Status::Failed if self.store_of(id)?.holder(id)?.is_none() => {
                    return self.settle_below(id).map(drop);
                }
                // Its driver is about to hear from them.
                Status::Completed | Status::Failed => {
                    std::thread::sleep(Duration::from_millis(INBOX_POLL_MS));
                    continue;
                }
                // It has done nothing: there is nothing to keep. Its place goes first: without its record nobody would find it.
                Status::Created => {
                    cleared(self, &run)?;
                    return self.remove(id);
                }
                Status::Running | Status::Paused => {}
            }
            match self.apply(id, command.clone()) {
                Ok(_) => return Ok(()),
                Err(Error::Store(longhaul_store::Error::Held { .. })) => self.post(id, &command)?,
                Err(error) => return Err(error),
            }
            std::thread::sleep(Duration::from_millis(INBOX_POLL_MS));
        }
        Ok(())
    }
}

/// An error with what caused it: whoever reads it has only this line.
fn in_full(error: &Error) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
