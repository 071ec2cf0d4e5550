//! How runs appear and go. Owns `runs/.staging/`: a run is built there whole, first batch included, and gets its name
//! by one rename; a removed run goes there by one rename first. A crash leaves the run there or not, never half, and
//! something in staging that the next creation sweeps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::time::Timestamp;

use super::disk::Access;
use super::inbox::{TEMPORARY, nanos_now};
use super::lock::Lock;
use super::writer::EngineJournal;
use super::{Engine, blobs, inbox};
use crate::error::Error;
use crate::journal::{Entry, Journal, Writer};
use crate::limits;
use crate::process;

/// Everything a run has besides its journal, when it is brought from another store.
pub(crate) struct Belongings {
    pub(crate) generation: u64,
    pub(crate) blobs: Vec<Vec<u8>>,
    pub(crate) inbox: Vec<(CommandId, Vec<u8>)>,
}

impl Engine {
    /// Builds a whole run from batches and belongings; it appears only when all of it is on disk.
    pub(crate) fn import(
        &self,
        run: &RunId,
        writer: &Writer,
        batches: &mut dyn Iterator<Item = Vec<Entry>>,
        belongings: Belongings,
    ) -> Result<EngineJournal, Error> {
        self.stage(run, writer, |stage, journal| {
            journal.at_least(belongings.generation)?;
            for batch in batches {
                journal.append(&batch)?;
            }
            for bytes in &belongings.blobs {
                blobs::put(&*self.disk, &stage.join("blobs"), bytes)?;
            }
            for (id, body) in &belongings.inbox {
                inbox::post(&*self.disk, &stage.join("inbox"), run, id, body)?;
            }
            Ok(())
        })
    }

    /// Makes a run in staging, lets `fill` write what belongs to it, and gives it its name.
    pub(super) fn stage(
        &self,
        run: &RunId,
        writer: &Writer,
        fill: impl FnOnce(&Path, &mut EngineJournal) -> Result<(), Error>,
    ) -> Result<EngineJournal, Error> {
        if fs::symlink_metadata(self.runs.join(run.as_str())).is_ok() {
            return Err(Error::Exists { run: run.clone() });
        }
        let stage = self.staging_place(run)?;
        let built = self.build(run, writer, &stage, fill).and_then(|journal| {
            self.publish(run, &stage)?;
            Ok(journal)
        });
        let mut journal = match built {
            Ok(journal) => journal,
            Err(error) => {
                // Only space is left behind if this fails; a later sweep gets it.
                let _ = self.disk.remove_dir_all(&stage);
                return Err(error);
            }
        };
        journal.moved_to(self.journal_path(run), self.runs.join(run.as_str()).join("lock"));
        self.sync_dir(&self.runs)?;
        Ok(journal)
    }

    fn build(
        &self,
        run: &RunId,
        writer: &Writer,
        stage: &Path,
        fill: impl FnOnce(&Path, &mut EngineJournal) -> Result<(), Error>,
    ) -> Result<EngineJournal, Error> {
        for dir in [stage.to_owned(), stage.join("inbox"), stage.join("blobs")] {
            self.disk.create_dir(&dir).map_err(|error| Error::io("create", dir, error))?;
        }
        let lock = Lock::take(run, &stage.join("lock"), writer)?;
        let path = stage.join("journal");
        let file =
            self.disk.open(&path, Access::CreateNew).map_err(|error| Error::io("create", &path, error))?;
        let mut journal = EngineJournal::start(run, path, Arc::clone(&self.disk), file, lock)?;
        fill(stage, &mut journal)?;
        let inbox = stage.join("inbox");
        inbox::keep_reserve(&*self.disk, &inbox).map_err(|error| Error::io("write in", inbox, error))?;
        self.sync_dir(stage)?;
        Ok(journal)
    }

    fn publish(&self, run: &RunId, stage: &Path) -> Result<(), Error> {
        let dir = self.runs.join(run.as_str());
        // A directory cannot be renamed over one with content, so of two creators one gets an error.
        let taken = [io::ErrorKind::AlreadyExists, io::ErrorKind::DirectoryNotEmpty];
        match self.disk.rename(stage, &dir) {
            Err(error) if taken.contains(&error.kind()) => Err(Error::Exists { run: run.clone() }),
            Err(error) => Err(Error::io("create", dir, error)),
            Ok(()) => Ok(()),
        }
    }

    /// Takes a run away: held by nobody, renamed out of sight, then deleted.
    pub(super) fn unstage(&self, run: &RunId) -> Result<(), Error> {
        let dir = self.dir(run)?;
        let since = Timestamp::from_millis(i64::try_from(nanos_now() / 1_000_000).unwrap_or(i64::MAX));
        let remover = Writer { pid: std::process::id(), host: process::host(), at: since };
        let _lock = Lock::take(run, &dir.join("lock"), &remover)?;
        let stage = self.staging_place(run)?;
        self.disk.rename(&dir, &stage).map_err(|error| Error::io("remove", dir, error))?;
        self.sync_dir(&self.runs)?;
        self.disk.remove_dir_all(&stage).map_err(|error| Error::io("remove", stage, error))
    }

    /// A path in staging that nobody else uses.
    fn staging_place(&self, run: &RunId) -> Result<PathBuf, Error> {
        let staging = self.runs.join(".staging");
        for dir in [&self.runs, &staging] {
            match self.disk.create_dir(dir) {
                Ok(()) => dir.parent().map_or(Ok(()), |parent| self.sync_dir(parent))?,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io("create", dir, error)),
            }
        }
        self.sweep(&staging);
        Ok(staging.join(format!("{TEMPORARY}{}-{}-{run}", nanos_now(), std::process::id())))
    }

    pub(super) fn sync_dir(&self, dir: &Path) -> Result<(), Error> {
        self.disk.sync_dir(dir).map_err(|error| Error::io("sync", dir, error))
    }

    /// Deletes what a crash left half made. Failing to is no reason to fail what the caller came for.
    pub(super) fn sweep(&self, dir: &Path) {
        let old = |path: &Path| {
            let modified = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
            let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
            age.is_some_and(|age| age > limits::LEFTOVER_AGE_MIN)
        };
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            let temporary = entry.file_name().to_string_lossy().starts_with(TEMPORARY);
            if temporary && old(&entry.path()) {
                let _ = match entry.file_type() {
                    Ok(kind) if kind.is_dir() => self.disk.remove_dir_all(&entry.path()),
                    _ => self.disk.remove_file(&entry.path()),
                };
            }
        }
    }
}
