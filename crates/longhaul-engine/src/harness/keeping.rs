//! Where runs are kept: which store has a run, how its journal is opened to be written, and how it is mended or forgotten.

use std::sync::Arc;

use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_store::engine::Repaired;
use longhaul_store::{Backend, Home, Store, Writer};

use super::Harness;
use crate::catalogue::{self, Clerk, RowKeeper};
use crate::error::{Error, Unreadable};
use crate::fold::Fold;
use crate::ledger::Ledger;
use crate::listing::journal_mtime_ns;
use crate::log::EventLog;
use crate::needs::NeedsKeeper;
use crate::watch::Watcher;

/// Where runs are kept.
#[derive(Clone)]
pub(super) enum Keeping {
    Durable(Arc<Home>),
    /// In a store and nowhere else: no catalogue, no log. In memory for `harness.enabled: false`, where nothing outlives the process.
    Bare(Arc<dyn Store>),
}

impl Harness {
    pub fn home(&self) -> Option<&Arc<Home>> {
        match &self.keeping {
            Keeping::Durable(home) => Some(home),
            Keeping::Bare(_) => None,
        }
    }

    pub fn store_of(&self, id: &RunId) -> Result<Arc<dyn Store>, Error> {
        match &self.keeping {
            Keeping::Durable(home) => Ok(home.store_of(id)?),
            Keeping::Bare(store) => Ok(Arc::clone(store)),
        }
    }

    pub(super) fn all_runs(&self) -> Result<Vec<RunId>, Error> {
        match &self.keeping {
            Keeping::Durable(home) => Ok(home.readable_runs()?),
            Keeping::Bare(store) => Ok(store.runs()?),
        }
    }

    pub fn writer(&self) -> Writer {
        Writer { pid: std::process::id(), host: longhaul_store::host(), at: self.clock.now() }
    }

    pub(super) fn store_for_new(&self, spec: &RunSpec) -> Result<(Arc<dyn Store>, Option<String>), Error> {
        match &self.keeping {
            Keeping::Durable(home) if !spec.may_use_engine() => Ok((home.fallback_store()?, None)),
            Keeping::Durable(home) => {
                let (store, reason) = home.store_for_new()?;
                Ok((store, reason.map(|reason| reason.0)))
            }
            Keeping::Bare(store) => Ok((Arc::clone(store), None)),
        }
    }

    /// A run in the fallback goes back to the engine as soon as that can be used; until then the reason is on record.
    pub(crate) fn store_to_drive(&self, id: &RunId) -> Result<(Arc<dyn Store>, Option<String>), Error> {
        use longhaul_store::home::Brought;
        let Keeping::Durable(home) = &self.keeping else { return Ok((self.store_of(id)?, None)) };
        if !home.engine().contains(id) && !self.look(id)?.spec.may_use_engine() {
            return Ok((home.store_of(id)?, None));
        }
        match home.bring_home(id, &self.writer())? {
            Brought::Moved | Brought::AlreadyHome => Ok((home.store_of(id)?, None)),
            Brought::NotYet(reason) => Ok((home.store_of(id)?, Some(reason.0))),
        }
    }

    /// Opens the journal as its one writer and folds it, catching the event log up on the way. The log is opened only
    /// once the lock is ours: with the first record.
    pub(super) fn open(
        &self,
        store: Arc<dyn Store>,
        id: &RunId,
        mut watchers: Vec<Box<dyn Watcher>>,
    ) -> Result<(Ledger, u64), Error> {
        self.settle_rewind(id)?;
        let mut log = None;
        let mut fold = Fold::default();
        let mut broken: Option<Unreadable> = None;
        let opened = store.open(id, &self.writer(), &mut |record| match fold.take(record) {
            Ok(event) => {
                let log = log.get_or_insert_with(|| self.event_log(id, store.backend()));
                if let (Some(log), Some(run)) = (log, fold.run()) {
                    log.add(run, record.seq, record.at, &event);
                }
                Ok(())
            }
            Err(error) => {
                broken = Some(error.clone());
                Err(longhaul_store::Error::Visit(Box::new(error)))
            }
        });
        if let Some(source) = broken {
            return Err(Error::Journal { run: id.clone(), source });
        }
        let journal = opened?;
        let (generation, torn_bytes) = (journal.generation(), journal.torn_bytes());
        watchers.extend(log.flatten().map(|log| Box::new(log) as Box<dyn Watcher>));
        if let Keeping::Durable(home) = &self.keeping {
            let clerk = self.clerk.get_or_init(|| Arc::new(Clerk::start(Arc::clone(home))));
            watchers.push(Box::new(RowKeeper::new(Arc::clone(clerk), store.backend())));
            watchers.push(Box::new(NeedsKeeper::new(home.dir())));
        }
        let version = fold.oldest();
        let run = fold.into_run(id)?;
        let mut ledger = Ledger::new(run, journal, store, Arc::clone(&self.clock), watchers);
        ledger.commit(Input::OlderSchema { version })?;
        ledger.commit(Input::TornTail { bytes: torn_bytes })?;
        self.settle_spent(&mut ledger)?;
        Ok((ledger, generation))
    }

    /// Only a run in the engine has a directory to keep a log in.
    fn event_log(&self, id: &RunId, backend: Backend) -> Option<EventLog> {
        let path = self.home().filter(|_| backend == Backend::Engine)?.run_dir(id).join("events.jsonl");
        Some(EventLog::open(&path).unwrap_or_else(|error| EventLog::lost(&path, &error)))
    }

    /// The catalogue is derived: a row that cannot be written now is made by the next listing.
    pub(super) fn keep_row(&self, run: &Run, store: &dyn Store) {
        if let Keeping::Durable(home) = &self.keeping
            && let Ok(catalog) = home.catalog()
        {
            let mtime_ns = journal_mtime_ns(home, &run.spec.id);
            drop(catalog.upsert(&catalogue::row(run, store.backend(), mtime_ns)));
        }
    }

    /// Cuts a damaged journal at its first damage and forgets what was derived from the cut part.
    pub fn repair(&self, id: &RunId) -> Result<Option<Repaired>, Error> {
        let Some(home) = self.home() else { return Ok(None) };
        let repaired = home.engine().repair(id, &self.writer())?;
        drop(std::fs::remove_file(home.run_dir(id).join("events.jsonl")));
        if let Ok(catalog) = home.catalog() {
            drop(catalog.remove(id));
        }
        Ok(Some(repaired))
    }

    /// Forgets a run: journal, blobs and row. Where it worked stays.
    pub fn remove(&self, id: &RunId) -> Result<(), Error> {
        let store = self.store_of(id)?;
        store.remove(id)?;
        self.forget_answers(id);
        if let Keeping::Durable(home) = &self.keeping
            && let Ok(catalog) = home.catalog()
        {
            drop(catalog.remove(id));
        }
        // Nobody would look for those it had sent.
        let below = format!("{id}.");
        let is_below = |run: &&RunId| run.as_str().starts_with(&below) && self.store_of(run).is_ok();
        for child in self.all_runs()?.iter().filter(is_below) {
            self.remove(child)?;
        }
        Ok(())
    }
}
