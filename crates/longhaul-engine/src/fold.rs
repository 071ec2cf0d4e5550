//! Journals read as runs: records decoded and folded, strictly for writers, leniently for those who only look.

use longhaul_core::codec;
use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;
use longhaul_store::{Entry, Record, Store};

use crate::error::{Error, Unreadable};

/// Grows a run record by record.
#[derive(Debug, Default)]
pub struct Fold {
    run: Option<Run>,
    oldest: Option<u16>,
}

impl Fold {
    /// Decodes and folds one record; an event that cannot be understood is an error that names it.
    pub fn take(&mut self, record: Record<'_>) -> Result<Event, Unreadable> {
        let event = codec::decode(record.seq, record.kind, record.version, record.payload)?;
        match &mut self.run {
            Some(run) => run.apply(record.seq, record.at, &event)?,
            None => self.run = Some(Run::first(record.seq, record.at, &event)?),
        }
        self.oldest = Some(self.oldest.map_or(record.version, |oldest| oldest.min(record.version)));
        Ok(event)
    }

    /// The oldest schema version among the records.
    pub fn oldest(&self) -> u16 {
        self.oldest.unwrap_or(codec::VERSION)
    }

    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    pub fn into_run(self, id: &RunId) -> Result<Run, Error> {
        self.run.ok_or_else(|| Error::Empty(id.clone()))
    }
}

/// What a reader is shown of each event, with the run as it was right after it.
pub type Look<'a> = &'a mut dyn FnMut(&Run, u64, Timestamp, &Event);

/// Reads a run without touching it. Events of a newer longhaul are stepped over and counted, so that a run can be
/// looked at with an older one; whoever would write uses [`Fold`] and is refused instead.
pub struct Onlooker {
    id: RunId,
    reader: Box<dyn longhaul_store::Reader>,
    fold: Fold,
    pub not_understood: u64,
}

impl Onlooker {
    pub fn new(store: &dyn Store, id: &RunId) -> Result<Onlooker, Error> {
        Ok(Onlooker { id: id.clone(), reader: store.reader(id)?, fold: Fold::default(), not_understood: 0 })
    }

    /// Shows what was added since the last look.
    pub fn look(&mut self, show: Look<'_>) -> Result<(), Error> {
        let (fold, not_understood) = (&mut self.fold, &mut self.not_understood);
        let mut broken = None;
        let read = self.reader.poll(&mut |record| {
            match fold.take(record) {
                Ok(event) => {
                    if let Some(run) = fold.run() {
                        show(run, record.seq, record.at, &event);
                    }
                }
                Err(Unreadable::Codec(error)) if error.is_newer() => *not_understood += 1,
                Err(error) => {
                    broken = Some(error.clone());
                    return Err(longhaul_store::Error::Visit(Box::new(error)));
                }
            }
            Ok(())
        });
        if let Some(source) = broken {
            return Err(Error::Journal { run: self.id.clone(), source });
        }
        Ok(read?)
    }

    pub fn run(&self) -> Result<&Run, Error> {
        self.fold.run().ok_or_else(|| Error::Empty(self.id.clone()))
    }

    pub fn into_run(self) -> Result<Run, Error> {
        self.fold.into_run(&self.id)
    }
}

pub fn entry(at: Timestamp, event: &Event) -> Entry {
    Entry { at, kind: event.kind(), version: codec::VERSION, payload: codec::encode(event) }
}
