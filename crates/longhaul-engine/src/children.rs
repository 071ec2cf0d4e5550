//! Sub-agents: runs that are started and driven for another run, in the same process.
//!
//! A child is found by the name its parent wrote down before it existed, so that a parent that died takes up again what it had
//! sent and sends nothing twice.

use std::time::Duration;

use longhaul_core::child::{ChildEnding, ChildLedger, ChildReport, Errand, report};
use longhaul_core::command::Wish;
use longhaul_core::event::Cause;
use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_tools::Cancel;

use crate::error::Error;
use crate::harness::{Driven, Harness, Opening};
use crate::limits::{CHILD_POLL_MS, CHILD_STOP_TRIES_MAX, DEEP_LOOKS_EVERY, INBOX_POLL_MS};

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
}

/// Sees a child through to where it rests: makes it if it is not there, drives it, pauses it if its parent is.
pub(crate) async fn attend(harness: Option<Harness>, charge: Charge, cancel: Cancel) -> Input {
    let number = charge.number;
    let seen = match harness {
        Some(harness) => see_through(&harness, &charge, &cancel).await.map_err(|error| in_full(&error)),
        None => Err("nothing here can drive a sub-agent".to_owned()),
    };
    // What it had used before it could not be gone on with is used all the same.
    let report = seen
        .unwrap_or_else(|error| ChildReport { ending: ChildEnding::GaveUp { error }, ledger: charge.ledger });
    Input::ChildRested { number, report }
}

async fn see_through(harness: &Harness, charge: &Charge, cancel: &Cancel) -> Result<ChildReport, Error> {
    let id = &charge.errand.id;
    let mut run = match harness.find(id)? {
        // Only who is not there yet is made: what one has done counts, whatever became of its agent since.
        None => harness.create(fitted(harness, charge)?)?,
        // A run that was copied, imported or taken back knows the names of children that are not its own.
        Some(run) if run.spec.parent != charge.spec.parent || run.spec.task != charge.spec.task => {
            return Err(Error::Crew(format!("{id} is on another errand")));
        }
        Some(run) => run,
    };
    loop {
        if run.status.is_terminal() {
            return Ok(report(&run));
        }
        let opening = Opening { limits: raised(&run, charge.errand.limits), ..Opening::default() };
        match harness.drive_child(id, opening) {
            Ok(driven) => return Ok(report(&rested(driven, cancel).await?)),
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
/// agent's, unless it is at the end of what its parent could give.
fn raised(run: &Run, wanted: Limits) -> Option<Limits> {
    let now = run.spec.limits;
    let at_end = run.cause == Some(Cause::Limit);
    let more = |now: u32, wanted: u32| if at_end { now.max(wanted) } else { now };
    let limits = Limits {
        max_tool_calls: more(now.max_tool_calls, wanted.max_tool_calls),
        max_steps: more(now.max_steps, wanted.max_steps),
        max_cost: wanted.max_cost,
        max_tokens: wanted.max_tokens,
        timeout_ms: wanted.timeout_ms.or(now.timeout_ms),
        ..now
    };
    (limits != now && run.status != Status::Created).then_some(limits)
}

/// Waits for the child to rest; pauses it when its parent has no more time for it.
async fn rested(driven: Driven, cancel: &Cancel) -> Result<Run, Error> {
    let handle = driven.handle.clone();
    let rest = driven.rest();
    tokio::pin!(rest);
    tokio::select! {
        rested = &mut rest => return rested.map(|(run, _)| run),
        () = cancel.cancelled() => {}
    }
    handle.ask(Wish::Pause { reason: "the run it works for is not at work".to_owned() })?;
    rest.await.map(|(run, _)| run)
}

/// Waits until somebody has something to say to a child that waits for a person, or has seen to it elsewhere.
pub(crate) async fn await_answer(harness: Option<Harness>, charge: Charge, cancel: Cancel) -> Option<Input> {
    let (harness, id) = (harness?, &charge.errand.id);
    let mut looks: u32 = 0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(INBOX_POLL_MS)) => {}
            () = cancel.cancelled() => return None,
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

pub(crate) async fn end(harness: Option<Harness>, charge: Charge, reason: String) {
    let Some(harness) = harness else { return };
    let ended = tokio::task::spawn_blocking(move || harness.end_child(&charge.errand.id, &reason));
    // A child that cannot be stopped now is refused when somebody wants to drive it: its parent has ended.
    drop(ended.await);
}

impl Harness {
    /// The run as it stands, if there is one.
    fn find(&self, id: &RunId) -> Result<Option<Run>, Error> {
        match self.look(id) {
            Ok(run) => Ok(Some(run)),
            Err(Error::Store(longhaul_store::Error::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Stops a child for good, and with it those below, whoever drives it.
    pub(crate) fn end_child(&self, id: &RunId, reason: &str) -> Result<(), Error> {
        let command = self.command(Wish::Stop { reason: reason.to_owned() })?;
        for _ in 0..CHILD_STOP_TRIES_MAX {
            match self.find(id)?.map(|run| run.status) {
                None | Some(Status::Completed | Status::Failed) => return Ok(()),
                // It has done nothing: there is nothing to keep.
                Some(Status::Created) => return self.remove(id),
                Some(Status::Running | Status::Paused) => {}
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
