//! The Eternal Engine: one append-only file for each run, one sync for each batch, the same cost for the millionth
//! event as for the first. Owns `runs/`; refuses to guess: a torn tail is cut, damage is an error naming the byte.
//!
//! ```text
//! <state dir>/runs/<run id>/journal   see `frame`; `journal.damaged-1`, `journal.taken-back-1` are older ones put aside
//!                          /lock      see `lock`
//!                          /inbox/    see `inbox`
//!                          /blobs/    see `blobs`
//!                 /.staging/          runs being made or removed; a run appears and goes by one rename
//! ```

mod blobs;
mod cut;
mod disk;
mod frame;
mod inbox;
mod lock;
mod reader;
mod repair;
mod scan;
mod staging;
mod tail;
mod writer;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longhaul_core::ids::{CommandId, RunId};

use rustix::fs::{AtFlags, statat};

use self::lock::Lock;
use self::reader::EngineReader;
use self::writer::EngineJournal;
use crate::error::Error;
use crate::journal::{Backend, Entry, Footprint, Holder, Journal, Posted, Reader, Store, Visit, Writer};

pub(crate) use self::blobs::{check as check_blob, check_size as check_blob_size, hash_of};
pub use self::cut::{Cutting, VisitBatch};
pub use self::disk::{Access, Disk, LogFile, RealDisk};
pub(crate) use self::disk::{open_file, write_whole};
pub(crate) use self::inbox::{check_size as check_command_size, nanos_now};
pub use self::repair::{Damage, Repaired, Report};
pub(crate) use self::staging::Belongings;

pub struct Engine {
    runs: PathBuf,
    disk: Arc<dyn Disk>,
}

impl Engine {
    /// The engine of a state directory. Touches nothing until a run is made.
    pub fn new(state_dir: &Path) -> Engine {
        Engine::on(Arc::new(RealDisk), state_dir)
    }

    /// The same on another disk.
    pub fn on(disk: Arc<dyn Disk>, state_dir: &Path) -> Engine {
        Engine { runs: state_dir.join("runs"), disk }
    }

    /// The journal file of a run, whether there is one or not.
    pub fn journal_path(&self, run: &RunId) -> PathBuf {
        self.runs.join(run.as_str()).join("journal")
    }

    /// Every run with the time its journal last changed, in nanoseconds since 1970: one look at each file.
    pub fn journals(&self) -> Result<Vec<(RunId, i64)>, Error> {
        let failed = |error| Error::io("list", &self.runs, error);
        let entries = match fs::read_dir(&self.runs) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        // Looked up from here on, not from the root: with many runs that is felt.
        let dir = fs::File::open(&self.runs).map_err(failed)?;
        let mut journals = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            if let Some(run) = name.to_str().and_then(|name| RunId::parse(name).ok())
                && let Ok(found) = statat(&dir, Path::new(&name).join("journal"), AtFlags::SYMLINK_NOFOLLOW)
            {
                journals.push((run, nanoseconds(found.st_mtime, found.st_mtime_nsec as i64)));
            }
        }
        journals.sort();
        Ok(journals)
    }

    /// Runs whose directory is there and whose journal is not. Only what the engine has made has a lock in it.
    pub fn without_journal(&self) -> Result<Vec<RunId>, Error> {
        let failed = |error| Error::io("list", &self.runs, error);
        let entries = match fs::read_dir(&self.runs) {
            Ok(entries) => entries,
            Err(error) if is_absent(&error) => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut lost = Vec::new();
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            if let Some(run) = name.to_str().and_then(|name| RunId::parse(name).ok())
                && !self.contains(&run)
                && fs::symlink_metadata(self.runs.join(&name).join("lock")).is_ok()
            {
                lost.push(run);
            }
        }
        lost.sort();
        Ok(lost)
    }

    /// When a run's journal last changed; nothing if there is none.
    pub fn changed_ns(&self, run: &RunId) -> Option<i64> {
        let found = fs::symlink_metadata(self.journal_path(run)).ok()?;
        Some(nanoseconds(found.mtime(), found.mtime_nsec()))
    }

    pub fn contains(&self, run: &RunId) -> bool {
        fs::symlink_metadata(self.journal_path(run)).is_ok()
    }

    /// The journal is the run; what lies beside it may have been lost, as copies of a directory lose what is empty in it.
    fn furnish(&self, dir: &Path) -> Result<(), Error> {
        for place in ["inbox", "blobs"].map(|name| dir.join(name)) {
            if !fs::symlink_metadata(&place).is_err_and(|error| is_absent(&error)) {
                continue;
            }
            match self.disk.create_dir(&place) {
                // Somebody else has missed it, too.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.map_err(|error| Error::io("create", place, error))?,
            }
        }
        Ok(())
    }

    /// The run's directory. A symbolic link in its place is refused: writing through it would write elsewhere.
    fn dir(&self, run: &RunId) -> Result<PathBuf, Error> {
        let dir = self.runs.join(run.as_str());
        match fs::symlink_metadata(&dir) {
            Ok(found) if found.is_dir() => Ok(dir),
            Ok(_) => Err(Error::io("use", dir, io::ErrorKind::NotADirectory.into())),
            Err(error) if is_absent(&error) => Err(Error::NotFound { run: run.clone() }),
            Err(error) => Err(Error::io("look at", dir, error)),
        }
    }

    fn open_journal(&self, run: &RunId, path: &Path, access: Access) -> Result<Box<dyn LogFile>, Error> {
        match self.disk.open(path, access) {
            Ok(file) => Ok(file),
            Err(error) if is_absent(&error) => Err(Error::NotFound { run: run.clone() }),
            Err(error) => Err(Error::io("open", path, error)),
        }
    }

    fn engine_reader(&self, run: &RunId) -> Result<EngineReader, Error> {
        let dir = self.dir(run)?;
        let (path, lock) = (dir.join("journal"), dir.join("lock"));
        let file = self.open_journal(run, &path, Access::Read)?;
        let inode = reader::inode(&path);
        Ok(EngineReader { run: run.clone(), path, lock, file, inode, cursor: None, poisoned: false })
    }
}

impl Store for Engine {
    fn backend(&self) -> Backend {
        Backend::Engine
    }

    fn create(&self, run: &RunId, writer: &Writer, first: &[Entry]) -> Result<Box<dyn Journal>, Error> {
        let journal = self.stage(run, writer, |_, journal| {
            if first.is_empty() {
                return Err(Error::NoFirstEvent { run: run.clone() });
            }
            journal.append(first).map(|_| ())
        })?;
        Ok(Box::new(journal))
    }

    fn open(&self, run: &RunId, writer: &Writer, visit: Visit<'_>) -> Result<Box<dyn Journal>, Error> {
        let dir = self.dir(run)?;
        let path = dir.join("journal");
        if !self.contains(run) {
            return Err(Error::NotFound { run: run.clone() });
        }
        let lock = Lock::take(run, &dir.join("lock"), writer)?;
        let file = self.open_journal(run, &path, Access::Write)?;
        let journal = EngineJournal::open(run, path, Arc::clone(&self.disk), file, lock, visit)?;
        self.furnish(&dir)?;
        self.sweep(&dir);
        self.sweep(&dir.join("inbox"));
        self.sweep(&dir.join("blobs"));
        // Failing to is no reason to fail what the caller came for.
        let _ = inbox::keep_reserve(&*self.disk, &dir.join("inbox"));
        Ok(Box::new(journal))
    }

    fn reader(&self, run: &RunId) -> Result<Box<dyn Reader>, Error> {
        Ok(Box::new(self.engine_reader(run)?))
    }

    fn runs(&self) -> Result<Vec<RunId>, Error> {
        Ok(self.journals()?.into_iter().map(|(run, _)| run).collect())
    }

    fn remove(&self, run: &RunId) -> Result<(), Error> {
        self.unstage(run)
    }

    fn holder(&self, run: &RunId) -> Result<Option<Holder>, Error> {
        let path = self.dir(run)?.join("lock");
        lock::holder(&path).map_err(|error| Error::io("look at", path, error))
    }

    fn post(&self, run: &RunId, command: &CommandId, body: &[u8]) -> Result<(), Error> {
        self.furnish(&self.dir(run)?)?;
        inbox::post(&*self.disk, &self.dir(run)?.join("inbox"), run, command, body)
    }

    fn pending(&self, run: &RunId) -> Result<Vec<Posted>, Error> {
        inbox::pending(&*self.disk, &self.dir(run)?.join("inbox"))
    }

    fn settle(&self, run: &RunId, command: &CommandId) -> Result<(), Error> {
        inbox::settle(&*self.disk, &self.dir(run)?.join("inbox"), command)
    }

    fn put_blob(&self, run: &RunId, bytes: &[u8]) -> Result<String, Error> {
        blobs::put(&*self.disk, &self.dir(run)?.join("blobs"), bytes)
    }

    fn blob(&self, run: &RunId, hash: &str) -> Result<Vec<u8>, Error> {
        blobs::get(&*self.disk, &self.dir(run)?.join("blobs"), run, hash)
    }

    fn footprint(&self, run: &RunId) -> Result<Footprint, Error> {
        let dir = self.dir(run)?;
        let look = self.engine_reader(run)?.look()?;
        writer::sound_end(&dir.join("journal"), &look.end, look.tail)?;
        let blob_bytes = bytes_in(&dir.join("blobs"))?;
        Ok(Footprint {
            journal_bytes: look.end.offset,
            payload_bytes: look.end.payload_bytes,
            records: look.end.last_seq,
            blob_bytes,
            disk_bytes: bytes_in(&dir)? + bytes_in(&dir.join("inbox"))? + blob_bytes,
        })
    }
}

/// Nothing is there, or something else is where the directory of runs should be: either way there are no runs.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn nanoseconds(seconds: i64, rest: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Bytes of the files directly in a directory.
fn bytes_in(dir: &Path) -> Result<u64, Error> {
    let failed = |error| Error::io("measure", dir, error);
    let mut bytes = 0;
    let entries = match fs::read_dir(dir) {
        Err(error) if is_absent(&error) => return Ok(0),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        match entry.and_then(|entry| entry.metadata()) {
            Ok(metadata) if metadata.is_file() => bytes += metadata.len(),
            Ok(_) => {}
            // Gone since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(bytes)
}
