//! Taking a journal back to one of its earlier events, because a person asked for it. Owns that cut: under the writer's
//! lock, after a copy of the whole was put aside, by one rename, so that a crash leaves the old journal or the new one.
//! Works on a journal that is damaged further on; does not know what makes an event a good place to go back to.

use std::path::{Path, PathBuf};

use longhaul_core::ids::RunId;

use super::Engine;
use super::disk::{self, Access, LogFile};
use super::frame::{self, Place};
use super::lock::Lock;
use super::repair::Damage;
use super::scan::{Cursor, Scanner, Step};
use super::tail::Tail;
use super::writer::sound_end;
use crate::error::Error;
use crate::journal::{Entry, Record, Writer};

/// Called with the records of each batch in order; an error stops the reading and is passed on.
pub type VisitBatch<'a> = &'a mut dyn FnMut(&[Record<'_>]) -> Result<(), Error>;

/// A journal in the hands of somebody who may cut it. Nothing is changed before `cut_after`; the lock is held until
/// this is dropped.
pub struct Cutting<'e> {
    engine: &'e Engine,
    run: RunId,
    dir: PathBuf,
    path: PathBuf,
    file: Box<dyn LogFile>,
    _lock: Lock,
}

impl Engine {
    /// Shows every sound batch, also of a journal that is damaged after them, and says what the damage is. Takes no lock.
    pub fn sound_part(&self, run: &RunId, visit: VisitBatch<'_>) -> Result<Option<Damage>, Error> {
        let reader = self.engine_reader(run)?;
        let look = match reader.look() {
            Err(Error::Damaged { file, offset, what }) => return Ok(Some(Damage { file, offset, what })),
            other => other?,
        };
        // What is shown is on disk first, as everywhere.
        reader.file.sync_data().map_err(|error| Error::io("sync", &reader.path, error))?;
        let mut scanner = Scanner::from_start(&*reader.file, &reader.path, run)?;
        show_batches(&mut scanner, look.end.offset, visit)?;
        damage(&reader.path, &look.end, look.tail)
    }

    /// Takes the run's lock to cut its journal. Refused while a writer holds the run.
    pub fn cutting(&self, run: &RunId, writer: &Writer) -> Result<Cutting<'_>, Error> {
        let dir = self.dir(run)?;
        let path = dir.join("journal");
        let lock = Lock::take(run, &dir.join("lock"), writer)?;
        let file = self.open_journal(run, &path, Access::Read)?;
        Ok(Cutting { engine: self, run: run.clone(), dir, path, file, _lock: lock })
    }
}

impl Cutting<'_> {
    /// Shows every sound batch and says what damage comes after them.
    pub fn show(&self, visit: VisitBatch<'_>) -> Result<Option<Damage>, Error> {
        let mut scanner = Scanner::from_start(&*self.file, &self.path, &self.run)?;
        let tail = show_batches(&mut scanner, u64::MAX, visit)?;
        damage(&self.path, &scanner.cursor, tail)
    }

    /// A name beside the journal that nothing has yet, for keeping it as it is.
    pub fn free_name(&self) -> Result<PathBuf, Error> {
        self.engine.free_name(&self.dir, "taken-back")
    }

    /// Makes this the journal's last record but for what then follows. The journal as it was is kept under that name, unless there
    /// is one already: whoever was killed in the middle cuts again, and the first copy is the whole one.
    pub fn cut_after(&self, seq: u64, then: &[Entry], kept_as: &Path) -> Result<(), Error> {
        self.keep(kept_as)?;
        self.engine.replace(&self.dir, &self.path, |file| self.write_until(seq, then, file))
    }

    /// Puts a journal of this run in this one's place that was kept; this one is kept in the same way as when it is cut.
    pub fn bring_back(&self, journal: &Path, kept_as: &Path) -> Result<(), Error> {
        self.keep(kept_as)?;
        let source = self.engine.open_journal(&self.run, journal, Access::Read)?;
        Scanner::from_start(&*source, journal, &self.run)?;
        let failed = |error| Error::io("copy", journal, error);
        let end = source.len().map_err(failed)?;
        let copy = |file: &dyn LogFile| disk::copy(&*source, file, end).map_err(failed);
        self.engine.replace(&self.dir, &self.path, copy)
    }

    fn keep(&self, kept_as: &Path) -> Result<(), Error> {
        match std::fs::symlink_metadata(kept_as) {
            Ok(_) => Ok(()),
            Err(_) => self.engine.copy_journal(&self.dir, kept_as),
        }
    }

    /// Writes the journal up to a record. A batch that goes on after it is written anew without the rest: a run that was
    /// imported, or moved here from the fallback, has many decisions in one batch.
    fn write_until(&self, seq: u64, then: &[Entry], file: &dyn LogFile) -> Result<(), Error> {
        let failed = |error| Error::io("cut", &self.path, error);
        let mut scanner = Scanner::from_start(&*self.file, &self.path, &self.run)?;
        let (before, mut batch) = loop {
            let before = scanner.cursor;
            match scanner.next()? {
                Step::Frame(records) if records.last().is_none_or(|last| last.seq < seq) => {}
                Step::Frame(records) => {
                    let kept = records.iter().take_while(|record| record.seq <= seq);
                    break (before, kept.map(Entry::from).collect::<Vec<_>>());
                }
                Step::End(_) => {
                    let (file, what) = (self.path.clone(), format!("event {seq} is not there"));
                    return Err(Error::Damaged { file, offset: before.offset, what });
                }
            }
        };
        batch.extend_from_slice(then);
        disk::copy(&*self.file, file, before.offset).map_err(failed)?;
        let Cursor { offset, seed, chain, last_seq, .. } = before;
        let generation = scanner.cursor.generation;
        let place = Place { offset, seed, chain, first_seq: last_seq + 1, generation };
        let (mut content, mut frame) = (Vec::new(), Vec::new());
        frame::encode(&batch, place, &mut content, &mut frame);
        disk::write_all(file, &frame, offset).map_err(|error| failed(error.source))
    }
}

fn show_batches(scanner: &mut Scanner<'_>, end: u64, visit: VisitBatch<'_>) -> Result<Tail, Error> {
    while scanner.cursor.offset < end {
        match scanner.next()? {
            Step::Frame(records) => visit(&records)?,
            Step::End(tail) => return Ok(tail),
        }
    }
    Ok(Tail::Clean)
}

fn damage(path: &Path, cursor: &Cursor, tail: Tail) -> Result<Option<Damage>, Error> {
    match sound_end(path, cursor, tail) {
        Ok(_) => Ok(None),
        Err(Error::Damaged { file, offset, what }) => Ok(Some(Damage { file, offset, what })),
        Err(error) => Err(error),
    }
}
