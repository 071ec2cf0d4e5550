//! Looking for damage and, only when asked, cutting it out. Owns `verify`, which changes nothing, and `repair`, which
//! keeps a copy of everything it cuts and shows what of it can still be read. Neither guesses at what the other records were.

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_core::ids::RunId;

use super::Engine;
use super::disk::{self, Access, LogFile};
use super::frame::{self, FileHeader};
use super::inbox::{TEMPORARY, nanos_now};
use super::lock::Lock;
use super::scan::{Cursor, Scanner};
use super::tail::Tail;
use super::writer::sound_end;
use crate::error::Error;
use crate::journal::{Record, Visit, Writer};
use crate::limits;

/// What a journal is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Sound records, from the first on.
    pub records: u64,
    /// Bytes that hold them, headers included.
    pub bytes: u64,
    /// Bytes of a write that a crash tore; the next writer cuts them, nothing acknowledged is in them.
    pub torn_bytes: u64,
    pub damage: Option<Damage>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub file: PathBuf,
    pub offset: u64,
    pub what: String,
}

/// What a repair did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repaired {
    pub records_kept: u64,
    /// Everything from this byte on was cut.
    pub cut_at: u64,
    /// Zero if there was nothing to cut.
    pub bytes_cut: u64,
    /// Records that are known to have been in what was cut; there may have been more.
    pub records_lost: u64,
    /// The journal as it was found, if it was changed.
    pub kept_as: Option<PathBuf>,
}

impl Engine {
    /// Reads a whole journal and says what it is made of. Damage is part of the answer; a newer format is an error.
    pub fn verify(&self, run: &RunId) -> Result<Report, Error> {
        let look = match self.engine_reader(run)?.look() {
            Ok(look) => look,
            Err(Error::Damaged { file, offset, what }) => {
                let damage = Some(Damage { file, offset, what });
                return Ok(Report { records: 0, bytes: 0, torn_bytes: 0, damage });
            }
            Err(error) => return Err(error),
        };
        let (records, bytes) = (look.end.last_seq, look.end.offset);
        match sound_end(&self.journal_path(run), &look.end, look.tail) {
            Ok(torn_end) => {
                let torn_bytes = torn_end.unwrap_or(bytes) - bytes;
                Ok(Report { records, bytes, torn_bytes, damage: None })
            }
            Err(Error::Damaged { file, offset, what }) => {
                Ok(Report { records, bytes, torn_bytes: 0, damage: Some(Damage { file, offset, what }) })
            }
            Err(error) => Err(error),
        }
    }

    /// Cuts a journal at its first damage, after copying it aside. Shows the records that are cut off, as far as they can be read.
    /// Refused while a writer holds the run, and if nothing sound would be left.
    pub fn repair(&self, run: &RunId, writer: &Writer, lost: Visit<'_>) -> Result<Repaired, Error> {
        let dir = self.dir(run)?;
        let path = dir.join("journal");
        let _lock = Lock::take(run, &dir.join("lock"), writer)?;
        let file = self.open_journal(run, &path, Access::Write)?;
        let failed = |error| Error::io("repair", &path, error);
        let len = file.len().map_err(failed)?;
        let header_fits = header_is_ours(&*file, run, &path)?;
        // Looked at before anything is written: a repair that keeps nothing leaves nothing behind either.
        let found = survey(&*file, &path, run, lost)?;
        let is_changed = found.damaged || !header_fits;
        let kept_as = is_changed.then(|| self.copy_aside(&dir, "damaged")).transpose()?;
        if !header_fits {
            // The header holds nothing but the run's name, so it can be written again.
            disk::write_all(&*file, &frame::file_header(run), 0).map_err(|error| failed(error.source))?;
        }
        let bytes_cut = if found.damaged { len.saturating_sub(found.end) } else { 0 };
        // What is kept goes to disk before the file ends with it, which is how readers know that it is there.
        file.sync_data().map_err(failed)?;
        if found.damaged {
            file.set_len(found.end).and_then(|()| file.sync_data()).map_err(failed)?;
        }
        let Found { records: records_kept, records_lost, end: cut_at, .. } = found;
        Ok(Repaired { records_kept, cut_at, bytes_cut, records_lost, kept_as })
    }

    /// Keeps the whole journal under another name in its directory: `journal.<why>-<number>`. It gets that name only
    /// once all of it is on disk.
    pub(super) fn copy_aside(&self, dir: &Path, why: &str) -> Result<PathBuf, Error> {
        let aside = self.free_name(dir, why)?;
        self.copy_journal(dir, &aside)?;
        Ok(aside)
    }

    pub(super) fn free_name(&self, dir: &Path, why: &str) -> Result<PathBuf, Error> {
        let names = (1..=limits::ASIDE_MAX).map(|number| dir.join(format!("journal.{why}-{number}")));
        names.into_iter().find(|path| fs::symlink_metadata(path).is_err()).ok_or_else(|| {
            let full = std::io::Error::other("too many journals were put aside already");
            Error::io("copy", dir.join("journal"), full)
        })
    }

    pub(super) fn copy_journal(&self, dir: &Path, aside: &Path) -> Result<(), Error> {
        let failed = |error| Error::io("copy", aside, error);
        let source = self.disk.open(&dir.join("journal"), Access::Read).map_err(failed)?;
        let end = source.len().map_err(failed)?;
        self.replace(dir, aside, |copy| disk::copy(&*source, copy, end).map_err(failed))
    }

    /// Gives a file what `fill` writes, all of it or, if anything fails or the process dies, nothing.
    pub(super) fn replace(
        &self,
        dir: &Path,
        path: &Path,
        fill: impl FnOnce(&dyn LogFile) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let failed = |error| Error::io("write", path, error);
        let temporary = dir.join(format!("{TEMPORARY}{}-{}", nanos_now(), std::process::id()));
        let file = self.disk.open(&temporary, Access::CreateNew).map_err(failed)?;
        let filled = fill(&*file).and_then(|()| {
            file.sync_data().and_then(|()| self.disk.rename(&temporary, path)).map_err(failed)
        });
        if let Err(error) = filled {
            // Only space is left behind if this fails too; the next writer's sweep gets it.
            let _ = self.disk.remove_file(&temporary);
            return Err(error);
        }
        self.sync_dir(dir)
    }
}

struct Found {
    records: u64,
    records_lost: u64,
    end: u64,
    damaged: bool,
}

/// Where the sound part ends, whatever the header says, and what lies behind the damage. Fails if there is no sound part: then a
/// repair would only destroy.
fn survey(file: &dyn LogFile, path: &Path, run: &RunId, lost: Visit<'_>) -> Result<Found, Error> {
    let cursor = Cursor::start(frame::seed(run));
    let mut scanner = Scanner::resume(file, path, cursor)?;
    let tail = scanner.show(u64::MAX, &mut |_: Record<'_>| Ok(()))?;
    let (records, end) = (scanner.cursor.last_seq, scanner.cursor.offset);
    if records == 0 {
        let what = match sound_end(path, &scanner.cursor, tail) {
            Err(Error::Damaged { what, .. }) => what,
            Err(error) => return Err(error),
            Ok(_) => "the first batch is missing".to_owned(),
        };
        return Err(Error::NothingSound { run: run.clone(), file: path.to_owned(), what });
    }
    let damaged = matches!(tail, Tail::Damaged { .. });
    let records_lost = if damaged { scanner.show_later(lost)? - records } else { 0 };
    Ok(Found { records, records_lost, end, damaged })
}

fn header_is_ours(file: &dyn LogFile, run: &RunId, path: &Path) -> Result<bool, Error> {
    let mut bytes = [0; frame::FILE_HEADER];
    let count = disk::read_full(file, &mut bytes, 0).map_err(|error| Error::io("read", path, error))?;
    match frame::parse_file_header(&bytes[..count], run) {
        FileHeader::Ours { .. } => Ok(true),
        FileHeader::TooNew { version } => Err(Error::TooNew { file: path.to_owned(), version }),
        FileHeader::Bad(_) => Ok(false),
    }
}
