//! Checkpoints: which there are, also in a journal that is damaged after them, and the way back to one.
//!
//! A checkpoint is an event in the middle of a decision. Going back keeps that decision whole, with the events that came
//! after the checkpoint in it: what was decided together was never true in part. The agent's work since is not undone,
//! only forgotten, so whoever goes back is told which calls that was.

use std::path::{Path, PathBuf};

use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_store::engine::Damage;
use longhaul_store::{Backend, Home, Record};

use crate::error::{Error, Unreadable};
use crate::fold::Fold;
use crate::harness::Harness;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub number: u32,
    pub seq: u64,
    pub at: Timestamp,
    /// The step in hand.
    pub step: Option<String>,
    /// The run's status right after the checkpoint.
    pub status: Status,
    /// The last event of the decision that made it, and the run's status then: where going back leads.
    pub end: u64,
    pub status_at_end: Status,
}

/// The checkpoints that can be gone back to, oldest first, and why there may be no later ones.
#[derive(Debug, Default)]
pub struct Checkpoints {
    pub found: Vec<Checkpoint>,
    pub damage: Option<Damage>,
    pub unreadable: Option<Unreadable>,
}

/// What going back to a checkpoint did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenBack {
    pub checkpoint: Checkpoint,
    pub events_lost: u64,
    /// The calls on record that were started or ended since, by tool and name, in order.
    pub calls: Vec<String>,
    /// There was more after the checkpoint than could be read.
    pub more: bool,
    /// The journal as it was; `None` if there was nothing to cut.
    pub kept_as: Option<PathBuf>,
}

impl Checkpoints {
    /// The newest one from which there is something to go on with.
    pub fn newest(&self) -> Option<&Checkpoint> {
        self.found.iter().rev().find(|checkpoint| !checkpoint.status_at_end.is_terminal())
    }

    fn find(&self, run: &RunId, number: u32) -> Result<&Checkpoint, Error> {
        let found = self.found.iter().find(|checkpoint| checkpoint.number == number);
        let checkpoint = found.ok_or_else(|| {
            let numbers: Vec<String> = self.found.iter().map(|found| found.number.to_string()).collect();
            let there = if numbers.is_empty() { "none".to_owned() } else { numbers.join(", ") };
            Error::NoCheckpoint { run: run.clone(), number, there }
        })?;
        match checkpoint.status_at_end {
            Status::Created | Status::Running | Status::Paused => Ok(checkpoint),
            status @ (Status::Completed | Status::Failed) => {
                Err(Error::EndedThen { run: run.clone(), number, status })
            }
        }
    }
}

impl Harness {
    /// The checkpoints of a run. Takes no lock, and reads a damaged journal as far as it is sound.
    pub fn checkpoints(&self, id: &RunId) -> Result<Checkpoints, Error> {
        let mut gathering = Gathering::default();
        let damage = match self.home().filter(|home| home.engine().contains(id)) {
            Some(home) => home.engine().sound_part(id, &mut |batch| gathering.batch(batch))?,
            None => {
                self.store_of(id)?.reader(id)?.poll(&mut |record| {
                    gathering.record(record);
                    Ok(())
                })?;
                None
            }
        };
        Ok(gathering.checkpoints(damage))
    }

    /// Takes a run that nobody drives back to one of its checkpoints: all later events are cut from its journal, which is
    /// kept beside it as it was. Nothing is changed if the checkpoint is not there or the run had ended with it.
    pub fn take_back(&self, id: &RunId, number: u32) -> Result<TakenBack, Error> {
        let (store, _) = self.store_to_drive(id)?;
        let home = self.home().filter(|_| store.backend() == Backend::Engine);
        let home = home.ok_or_else(|| Error::NotInEngine { run: id.clone() })?;
        let cutting = home.engine().cutting(id, &self.writer())?;
        let mut gathering = Gathering::default();
        let damage = cutting.show(&mut |batch| gathering.batch(batch))?;
        let (last_seq, calls) = (gathering.last_seq, gathering.calls.clone());
        let sent = gathering.sent.clone();
        let checkpoints = gathering.checkpoints(damage);
        let checkpoint = checkpoints.find(id, number)?.clone();
        let end = checkpoint.end;
        let more = checkpoints.damage.is_some() || checkpoints.unreadable.is_some();
        let mut calls_lost: Vec<String> = Vec::new();
        for (seq, call) in calls {
            if seq > end && !calls_lost.contains(&call) {
                calls_lost.push(call);
            }
        }
        // First of all: once the journal is cut, nobody knows whose they were.
        for child in sent.iter().filter(|(seq, _)| *seq > end).map(|(_, child)| child) {
            self.put_away(home, child, &home.run_dir(id).join("children-before"))?;
        }
        // What was answered since is asked again.
        self.forget_answers(id);
        let kept_as = if last_seq > end || more {
            // Before the cut: a log that was longer than its journal would never be noticed.
            drop(std::fs::remove_file(home.run_dir(id).join("events.jsonl")));
            Some(cutting.cut_after(end)?)
        } else {
            None
        };
        if let Ok(catalog) = home.catalog() {
            drop(catalog.remove(id));
        }
        Ok(TakenBack { checkpoint, events_lost: last_seq - end, calls: calls_lost, more, kept_as })
    }

    /// Moves a child that its run will no longer know of out of the way, with all below it: whoever is sent next must not be taken
    /// for it, nor asked what it asked.
    fn put_away(&self, home: &Home, child: &RunId, to: &Path) -> Result<(), Error> {
        let failed = |source| Error::PutAway { path: to.to_owned(), source };
        let below = format!("{child}.");
        let is_lost = |run: &&RunId| *run == child || run.as_str().starts_with(&below);
        for run in home.all_runs()?.iter().filter(is_lost).filter(|run| home.engine().contains(run)) {
            std::fs::create_dir_all(to).map_err(failed)?;
            let place = (1..).map(|number| to.join(format!("{run}-{number}"))).find(|place| !place.exists());
            std::fs::rename(home.run_dir(run), place.unwrap_or_else(|| to.join(run.as_str())))
                .map_err(failed)?;
            self.forget_answers(run);
            if let Ok(catalog) = home.catalog() {
                drop(catalog.remove(run));
            }
        }
        Ok(())
    }
}

/// Folds a journal as far as it can be read and notes the checkpoints on the way.
#[derive(Default)]
struct Gathering {
    fold: Fold,
    found: Vec<Checkpoint>,
    /// How many of those found are of the decision being read.
    open: usize,
    at: Option<Timestamp>,
    last_seq: u64,
    /// Events that began or ended a call: sequence number, and the call as it is shown.
    calls: Vec<(u64, String)>,
    /// Children that were sent, with the event's number.
    sent: Vec<(u64, RunId)>,
    unreadable: Option<Unreadable>,
}

impl Gathering {
    fn batch(&mut self, batch: &[Record<'_>]) -> Result<(), longhaul_store::Error> {
        batch.iter().for_each(|record| self.record(*record));
        self.open = 0;
        Ok(())
    }

    /// All events of a decision have one moment, so a new moment is a new decision, also inside a batch: an import
    /// writes many decisions as one.
    fn record(&mut self, record: Record<'_>) {
        self.last_seq = record.seq;
        if self.unreadable.is_some() {
            return;
        }
        if self.at.replace(record.at) != Some(record.at) {
            self.open = 0;
        }
        match self.fold.take(record) {
            Ok(event) => self.event(record.seq, record.at, &event),
            Err(error) => {
                // A decision of which a part cannot be read is none to go back to.
                self.found.truncate(self.found.len() - self.open);
                self.unreadable = Some(error);
            }
        }
    }

    fn event(&mut self, seq: u64, at: Timestamp, event: &Event) {
        let Some(run) = self.fold.run() else { return };
        if let Event::Checkpointed { number } = event {
            let (step, status) = (run.step().map(|step| step.id.clone()), run.status);
            let (end, status_at_end) = (seq, status);
            self.found.push(Checkpoint { number: *number, seq, at, step, status, end, status_at_end });
            self.open += 1;
        }
        if let Event::CallStarted { call, .. } | Event::CallFinished { call, .. } = event {
            let tool = run.call(*call).map_or("", |call| call.tool.as_str());
            self.calls.push((seq, format!("{tool} {call}")));
        }
        if let Event::ChildSpawned(errand) = event {
            self.sent.push((seq, errand.id.clone()));
        }
        let first_open = self.found.len() - self.open;
        for checkpoint in &mut self.found[first_open..] {
            (checkpoint.end, checkpoint.status_at_end) = (seq, run.status);
        }
    }

    fn checkpoints(self, damage: Option<Damage>) -> Checkpoints {
        Checkpoints { found: self.found, damage, unreadable: self.unreadable }
    }
}
