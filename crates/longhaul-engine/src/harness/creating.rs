//! How runs come into being: created, or taken in from a state document or an export; and how they are given away as one.

use longhaul_core::document;
use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_store::Entry;

use super::Harness;
use crate::clock::fresh_bits;
use crate::error::Error;
use crate::exchange::Export;
use crate::fold::{Fold, entry};

impl Harness {
    pub fn new_run_id(&self) -> Result<RunId, Error> {
        Ok(RunId::from_bits(fresh_bits(self.clock.now())?))
    }

    /// Brings a run into being, in status created. A key that stands in what it is told is struck out: it would be in the
    /// journal for ever.
    pub fn create(&self, mut spec: RunSpec) -> Result<Run, Error> {
        spec.check()?;
        self.secrets.learn(self.models.secrets());
        let steps = spec.plan.steps.iter_mut().map(|step| &mut step.description);
        for text in steps.chain([&mut spec.task, &mut spec.prompt]) {
            *text = self.secrets.strike(text).into_owned();
        }
        let id = spec.id.clone();
        self.begin(&id, Event::RunCreated(Box::new(spec)))
    }

    /// Takes in a state document as a run under its own name, or under another.
    pub fn import(&self, text: &str, defaults: RunSpec, rename: Option<RunId>) -> Result<Run, Error> {
        let mut spec = document::spec(text, defaults)?;
        let given = Json::parse(text).map_err(document::Error::from)?;
        let document = match rename {
            Some(id) => {
                spec.id = id;
                document::renamed(&given, &spec.id)
            }
            None => given,
        };
        let id = spec.id.clone();
        self.begin(&id, Event::Imported { document, spec: Box::new(spec) })
    }

    /// A run with everything that is not derived.
    pub fn export(&self, id: &RunId) -> Result<Export, Error> {
        let mut export = Export::default();
        let mut onlooker = self.onlooker(id)?;
        onlooker.look(&mut |_, _, at, event| export.events.push((at, event.clone())))?;
        if onlooker.not_understood > 0 {
            let why = "it holds events of a newer longhaul, which an export would lose".to_owned();
            return Err(Error::Export { path: id.to_string(), why });
        }
        let store = self.store_of(id)?;
        for hash in onlooker.run()?.blobs() {
            export.blobs.push(store.blob(id, hash)?);
        }
        Ok(export)
    }

    /// Takes in a run as somebody exported it, under another name. What it may do, and where, is `own`.
    pub fn take_in(&self, id: &RunId, mut export: Export, own: RunSpec) -> Result<Run, Error> {
        if let Some((_, Event::RunCreated(spec) | Event::Imported { spec, .. })) = export.events.first_mut() {
            **spec = RunSpec::clone(spec).taken_in(own);
        }
        self.adopt(id, export)
    }

    /// A run of ours as it was exported, under another name.
    pub(crate) fn adopt(&self, id: &RunId, mut export: Export) -> Result<Run, Error> {
        let run = self.renamed(id, &mut export)?;
        let Export { events, blobs } = export;
        let entries: Vec<Entry> = events.iter().map(|(at, event)| entry(*at, event)).collect();
        let (store, _) = self.store_for_new(&run.spec)?;
        store.create(id, &self.writer(), &entries)?.close()?;
        for blob in blobs {
            store.put_blob(id, &blob)?;
        }
        self.keep_row(&run, store.as_ref());
        Ok(run)
    }

    /// Gives an export another name, and says what run it is then.
    pub fn renamed(&self, id: &RunId, export: &mut Export) -> Result<Run, Error> {
        match export.events.first_mut() {
            Some((_, Event::RunCreated(spec))) => spec.id = id.clone(),
            Some((_, Event::Imported { spec, document })) => {
                spec.id = id.clone();
                *document = document::renamed(document, id);
            }
            Some(_) | None => {}
        }
        let entries = export.events.iter().map(|(at, event)| entry(*at, event));
        let mut fold = Fold::default();
        for (index, entry) in entries.enumerate() {
            let record = longhaul_store::Record {
                seq: index as u64 + 1,
                at: entry.at,
                kind: entry.kind,
                version: entry.version,
                payload: &entry.payload,
            };
            fold.take(record).map_err(|source| Error::Journal { run: id.clone(), source })?;
        }
        fold.into_run(id)
    }

    fn begin(&self, id: &RunId, first: Event) -> Result<Run, Error> {
        let at = self.clock.now();
        let mut run = Run::first(1, at, &first)
            .map_err(|misfit| Error::Journal { run: id.clone(), source: misfit.into() })?;
        let (store, fallback) = self.store_for_new(&run.spec)?;
        let mut events = vec![first];
        if let Some(reason) = fallback {
            events.push(Event::PersistenceFellBack { reason });
        }
        for (index, event) in events.iter().enumerate().skip(1) {
            run.apply(index as u64 + 1, at, event)
                .map_err(|misfit| Error::Journal { run: id.clone(), source: misfit.into() })?;
        }
        let entries: Vec<Entry> = events.iter().map(|event| entry(at, event)).collect();
        store.create(id, &self.writer(), &entries)?.close()?;
        self.keep_row(&run, store.as_ref());
        Ok(run)
    }
}
