//! Where runs are kept: which store has a run, how its journal is opened to be written, and how it is mended or forgotten.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use longhaul_core::codec;
use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::text::visible;
use longhaul_store::engine::Repaired;
use longhaul_store::{Backend, Home, Reader, Record, Store, Writer};
use serde::Deserialize;

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

/// What mending a journal did, and what is known of that which was cut off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mended {
    pub repaired: Repaired,
    /// As many as are known; there may have been more.
    pub events_lost: u64,
    /// The calls that were begun in it, by tool and name, in order.
    pub calls: Vec<String>,
    /// There was more in it than could be read.
    pub more: bool,
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

    /// Cuts a damaged journal at its first damage and forgets what was derived from the cut part, after a look at what it was.
    pub fn repair(&self, id: &RunId) -> Result<Option<Mended>, Error> {
        let Some(home) = self.home() else { return Ok(None) };
        let mut lost = Lost::default();
        let repaired = home.engine().repair(id, &self.writer(), &mut |record| {
            lost.record(record);
            Ok(())
        })?;
        let log = home.run_dir(id).join("events.jsonl");
        if repaired.bytes_cut > 0 {
            lost.log(&log, repaired.records_kept);
            // It is mended by now, whatever becomes of looking at it.
            let read = |mut reader: Box<dyn Reader>| {
                reader.poll(&mut |record| {
                    lost.kept(record);
                    Ok(())
                })
            };
            drop(home.engine().reader(id).and_then(read));
        }
        drop(std::fs::remove_file(log));
        if let Ok(catalog) = home.catalog() {
            drop(catalog.remove(id));
        }
        Ok(Some(lost.mended(repaired)))
    }

    /// Forgets a run: journal, blobs and row. Where it worked stays.
    pub fn remove(&self, id: &RunId) -> Result<(), Error> {
        let store = self.store_of(id)?;
        store.remove(id)?;
        // Nobody drives it, and nobody will: what a dead process left running would go on for ever.
        longhaul_tools::reap_leftovers(id);
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

/// What can still be read of events that a journal has lost: in the journal behind the damage, and in the log that was made of it.
#[derive(Default)]
struct Lost {
    /// The events that were read, by their numbers, and the last one of the journal's own.
    read: BTreeSet<u64>,
    last_record: u64,
    /// The calls that were begun or ended.
    calls: BTreeSet<String>,
    /// Those that were begun before the damage: the agent is told that they were interrupted.
    known: BTreeSet<String>,
    /// The tool of each call, as far as the log says it.
    tools: BTreeMap<String, String>,
}

/// A line of the log, as far as it is looked at here.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogLine {
    seq: u64,
    #[serde(rename = "type")]
    kind: String,
    call_id: Option<String>,
    tool_name: Option<String>,
}

impl Lost {
    fn record(&mut self, record: Record<'_>) {
        let Ok(event) = codec::decode(record.seq, record.kind, record.version, record.payload) else {
            return;
        };
        self.read.insert(record.seq);
        self.last_record = record.seq;
        if let Event::CallStarted { call, .. } | Event::CallFinished { call, .. } = event {
            self.calls.insert(call.to_string());
        }
    }

    fn kept(&mut self, record: Record<'_>) {
        if let Ok(Event::CallStarted { call, .. }) =
            codec::decode(record.seq, record.kind, record.version, record.payload)
        {
            self.known.insert(call.to_string());
        }
    }

    /// The log may lack the last events, or all: it is only derived.
    fn log(&mut self, path: &Path, kept: u64) {
        let lines = File::open(path).map(|file| BufReader::new(file).lines()).into_iter().flatten();
        let lines = lines.map_while(Result::ok);
        for line in lines.filter_map(|line| serde_json::from_str::<LogLine>(&line).ok()) {
            if let (Some(call), Some(tool)) = (&line.call_id, line.tool_name) {
                self.tools.insert(call.clone(), tool);
            }
            if line.seq <= kept {
                continue;
            }
            self.read.insert(line.seq);
            self.calls.extend(line.call_id.filter(|_| line.kind == "tool_started"));
        }
    }

    fn mended(self, repaired: Repaired) -> Mended {
        let logged = self.read.last().map_or(0, |last| last.saturating_sub(repaired.records_kept));
        let events_lost = repaired.records_lost.max(logged);
        let is_whole = self.read.len() as u64 == events_lost && self.read.last() == Some(&self.last_record);
        let named = |call: &String| match self.tools.get(call) {
            Some(tool) => visible(&format!("{tool} {call}")),
            None => visible(call),
        };
        let mut calls: Vec<&String> = self.calls.difference(&self.known).collect();
        // `call_9` comes before `call_10`.
        calls.sort_by_key(|call| (call.len(), *call));
        let calls = calls.into_iter().map(named).collect();
        Mended { events_lost, calls, more: repaired.bytes_cut > 0 && !is_whole, repaired }
    }
}
