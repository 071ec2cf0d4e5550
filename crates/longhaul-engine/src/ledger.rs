//! A run in the hands of its one writer: what is decided is appended, then applied, then shown. Performs nothing; what is
//! left to be done goes back to the caller.

use std::sync::Arc;

use longhaul_core::command::Command;
use longhaul_core::decide::{Decision, decide};
use longhaul_core::effect::Effect;
use longhaul_core::event::Event;
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_store::{Entry, Journal, Posted, Space, Store};
use tokio::runtime::{Handle as Runtime, RuntimeFlavor};

use crate::clock::Clock;
use crate::error::Error;
use crate::fold;
use crate::watch::{Trouble, Watcher};

pub struct Ledger {
    run: Run,
    journal: Box<dyn Journal>,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    watchers: Vec<Box<dyn Watcher>>,
    entries: Vec<Entry>,
}

impl Ledger {
    pub fn new(
        run: Run,
        journal: Box<dyn Journal>,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        watchers: Vec<Box<dyn Watcher>>,
    ) -> Ledger {
        Ledger { run, journal, store, clock, watchers, entries: Vec::new() }
    }

    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Decides what follows from the input, appends it and applies it. When this returns, everything the effects intend
    /// is on disk.
    pub fn commit(&mut self, input: Input) -> Result<Vec<Effect>, Error> {
        let at = self.clock.now();
        let mut decision = decide(&self.run, at, input)?;
        self.run
            .check_batch(&decision.events)
            .map_err(|misfit| Error::Journal { run: self.run.spec.id.clone(), source: misfit.into() })?;
        let space = self.append(at, &decision)?;
        self.apply(at, &decision.events)?;
        if space == Space::Reserve && self.run.status == Status::Running {
            decision.effects.extend(self.commit(Input::DiskLow)?);
        }
        Ok(decision.effects)
    }

    /// Obeys what other processes asked for, oldest first, each once.
    pub fn empty_inbox(&mut self) -> Result<Vec<Effect>, Error> {
        let mut effects = Vec::new();
        for posted in self.store.pending(&self.run.spec.id)? {
            effects.extend(self.obey_posted(&posted)?);
            // A file that cannot be removed does no harm: its command is known by its id and not obeyed again.
            drop(self.store.settle(&self.run.spec.id, &posted.id));
        }
        Ok(effects)
    }

    /// Settles what was asked of a run that nobody drives. Answers stay where they are: work follows from them, its intent is
    /// written with them, and only a driver does the work.
    pub fn settle_all_but_answers(&mut self) -> Result<Vec<Effect>, Error> {
        let mut effects = Vec::new();
        for posted in self.store.pending(&self.run.spec.id)?.iter().filter(|posted| !is_answer(posted)) {
            effects.extend(self.obey_posted(posted)?);
            drop(self.store.settle(&self.run.spec.id, &posted.id));
        }
        Ok(effects)
    }

    /// Obeys only those that want the run to rest; the others are for a run that is under way.
    pub fn obey_rests(&mut self) -> Result<Vec<Effect>, Error> {
        let mut effects = Vec::new();
        for posted in self.store.pending(&self.run.spec.id)?.iter().filter(|posted| is_rest(posted)) {
            effects.extend(self.obey_posted(posted)?);
            drop(self.store.settle(&self.run.spec.id, &posted.id));
        }
        Ok(effects)
    }

    /// Obeys a command, or puts on record why not.
    pub fn obey(&mut self, command: Command) -> Result<Vec<Effect>, Error> {
        let id = command.id.clone();
        match self.commit(Input::Command(command)) {
            Err(Error::Refused(refusal)) => self.commit(Input::CommandUnfit { id, why: refusal.to_string() }),
            other => other,
        }
    }

    /// Gives the run up in good order. One that has ended needs no room any more; one that has not keeps enough to be
    /// paused or stopped on a full disk.
    pub fn put_down(mut self) -> Result<Run, Error> {
        self.show_all();
        let troubles: Vec<Trouble> =
            self.watchers.iter_mut().filter_map(|watcher| watcher.last_trouble()).collect();
        self.note(troubles)?;
        let put_down = if self.run.status.is_terminal() { self.journal.close() } else { self.journal.rest() };
        put_down?;
        Ok(self.run)
    }

    /// Tells the watchers that nothing more comes for now, and puts on record what they could not write.
    pub fn rested(&mut self) -> Result<(), Error> {
        self.show_all();
        let troubles: Vec<Trouble> =
            self.watchers.iter_mut().filter_map(|watcher| watcher.trouble()).collect();
        self.note(troubles)
    }

    fn show_all(&mut self) {
        for watcher in &mut self.watchers {
            watcher.rested(&self.run);
        }
    }

    fn note(&mut self, troubles: Vec<Trouble>) -> Result<(), Error> {
        for Trouble { file, why } in troubles {
            match self.commit(Input::DerivedFailed { file, why }) {
                // A disk that is full for the one is full for the other: the work is not to suffer from that.
                Err(Error::Store(longhaul_store::Error::NoSpace { .. })) => return Ok(()),
                noted => drop(noted?),
            }
            self.show_all();
        }
        Ok(())
    }

    fn obey_posted(&mut self, posted: &Posted) -> Result<Vec<Effect>, Error> {
        match serde_json::from_slice::<Command>(&posted.body) {
            Ok(command) => self.obey(command),
            Err(error) => {
                let why = format!("it cannot be read: {error}");
                self.commit(Input::CommandUnfit { id: posted.id.clone(), why })
            }
        }
    }

    fn append(&mut self, at: Timestamp, decision: &Decision) -> Result<Space, Error> {
        if decision.events.is_empty() {
            return Ok(Space::Ample);
        }
        self.entries.clear();
        self.entries.extend(decision.events.iter().map(|event| fold::entry(at, event)));
        let (journal, entries) = (&mut self.journal, &self.entries);
        Ok(off_the_runtime(|| journal.append(entries))?.space)
    }

    fn apply(&mut self, at: Timestamp, events: &[Event]) -> Result<(), Error> {
        for event in events {
            let seq = self.run.seq + 1;
            self.run
                .apply(seq, at, event)
                .map_err(|misfit| Error::Journal { run: self.run.spec.id.clone(), source: misfit.into() })?;
            for watcher in &mut self.watchers {
                watcher.event(&self.run, seq, at, event);
            }
        }
        for watcher in &mut self.watchers {
            watcher.batch_ended(&self.run);
        }
        Ok(())
    }
}

fn is_answer(posted: &Posted) -> bool {
    serde_json::from_slice::<Command>(&posted.body).is_ok_and(|command| command.wish.is_answer())
}

fn is_rest(posted: &Posted) -> bool {
    serde_json::from_slice::<Command>(&posted.body).is_ok_and(|command| command.wish.is_rest())
}

/// An append waits for the disk. On a runtime with several threads, others go on meanwhile.
fn off_the_runtime<T>(wait: impl FnOnce() -> T) -> T {
    match Runtime::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        Ok(_) | Err(_) => wait(),
    }
}
