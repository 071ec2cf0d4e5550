//! The state directory. Owns which store a run is in: new runs go to the engine, or to the fallback with a reason
//! when the engine cannot be used; a run in the fallback is brought home without losing anything. Makes nothing for
//! those who only read.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::ids::RunId;

use crate::catalog::Catalog;
use crate::engine::{Access, Belongings, Disk, Engine, LogFile, RealDisk, nanos_now, write_whole};
use crate::error::Error;
use crate::journal::{Entry, Posted, Record, Store, Writer};
use crate::limits;
use crate::sqlite::Sqlite;

pub struct Home {
    dir: PathBuf,
    disk: Arc<dyn Disk>,
    engine: Arc<Engine>,
    fallback: Mutex<Option<Arc<Sqlite>>>,
}

/// Why a new run is not kept in the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FallbackReason(pub String);

/// What became of a run that was to be brought home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Brought {
    Moved,
    /// It was in the engine already; what was left of it in the fallback is gone.
    AlreadyHome,
    /// The engine cannot be used yet, so it stays where it is.
    NotYet(FallbackReason),
}

impl Home {
    /// Opens the state directory, making it if it is not there.
    pub fn open(dir: &Path) -> Result<Home, Error> {
        Home::open_on(Arc::new(RealDisk), dir)
    }

    /// The same on another disk.
    pub fn open_on(disk: Arc<dyn Disk>, dir: &Path) -> Result<Home, Error> {
        make_dirs(&*disk, dir).map_err(|error| Error::io("create the state directory", dir, error))?;
        close_to_others(dir);
        write_gitignore(&*disk, dir)?;
        Ok(Home::at(disk, dir))
    }

    /// Opens the state directory of somebody who only reads: nothing if there is none, and nothing is made.
    pub fn existing(dir: &Path) -> Result<Option<Home>, Error> {
        match fs::metadata(dir) {
            Ok(found) if found.is_dir() => Ok(Some(Home::at(Arc::new(RealDisk), dir))),
            Ok(_) => Err(Error::io("use the state directory", dir, io::ErrorKind::NotADirectory.into())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("use the state directory", dir, error)),
        }
    }

    fn at(disk: Arc<dyn Disk>, dir: &Path) -> Home {
        let engine = Arc::new(Engine::on(disk.clone(), dir));
        Home { dir: dir.to_owned(), disk, engine, fallback: Mutex::new(None) }
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn runs_dir(&self) -> PathBuf {
        self.dir.join("runs")
    }

    /// Where a run's own files are, whichever store its journal is in.
    pub fn run_dir(&self, run: &RunId) -> PathBuf {
        self.runs_dir().join(run.as_str())
    }

    pub fn catalog_path(&self) -> PathBuf {
        self.dir.join("catalog.db")
    }

    pub fn fallback_path(&self) -> PathBuf {
        self.dir.join("fallback.db")
    }

    /// The engine itself, for `verify` and `repair`.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub fn catalog(&self) -> Result<Catalog, Error> {
        Catalog::open(&self.catalog_path())
    }

    /// Where a new run is to be kept, and why not in the engine if it is not.
    pub fn store_for_new(&self) -> Result<(Arc<dyn Store>, Option<FallbackReason>), Error> {
        match self.probe_engine() {
            Ok(()) => Ok((self.engine.clone(), None)),
            Err(error) => Ok((self.fallback()?, Some(FallbackReason::from(&error)))),
        }
    }

    /// Why the engine cannot be used, if it cannot. Makes no fallback; and where no run was ever kept, it makes nothing to
    /// try it out with either, but asks whether it could.
    pub fn engine_trouble(&self) -> Option<FallbackReason> {
        let tried = match fs::symlink_metadata(self.runs_dir()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let needed = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
                rustix::fs::access(&self.dir, needed)
                    .map_err(|errno| Error::io("write in", &self.dir, errno.into()))
            }
            Ok(_) | Err(_) => self.probe_engine(),
        };
        tried.err().as_ref().map(FallbackReason::from)
    }

    /// Why the runs in the fallback cannot be read, if there is one and they cannot.
    pub fn fallback_trouble(&self) -> Option<Error> {
        self.fallback_runs().err()
    }

    /// Where a run is kept. A run in both was being brought home, so its engine copy is whole and newer.
    pub fn store_of(&self, run: &RunId) -> Result<Arc<dyn Store>, Error> {
        if self.engine.contains(run) {
            return Ok(self.engine.clone());
        }
        match self.fallback_if_there()? {
            Some(fallback) if fallback.contains(run)? => Ok(fallback),
            Some(_) | None => Err(Error::NotFound { run: run.clone() }),
        }
    }

    /// Every run, for those who count what runs use or give back what none needs: a run that cannot be seen is an error to them.
    pub fn all_runs(&self) -> Result<Vec<RunId>, Error> {
        Ok(self.all_journals()?.into_iter().map(|(run, _)| run).collect())
    }

    /// Every run with the time its journal last changed, in the order of their names; one in the fallback is there with 0.
    pub fn all_journals(&self) -> Result<Vec<(RunId, i64)>, Error> {
        self.joined(self.fallback_runs()?)
    }

    /// The same for those who look: a fallback that cannot be read hides no run of the engine's. Whoever shows them says so by
    /// [`Home::fallback_trouble`].
    pub fn readable_journals(&self) -> Result<Vec<(RunId, i64)>, Error> {
        self.joined(self.fallback_runs().unwrap_or_default())
    }

    pub fn readable_runs(&self) -> Result<Vec<RunId>, Error> {
        Ok(self.readable_journals()?.into_iter().map(|(run, _)| run).collect())
    }

    /// Runs of which only a directory is left: their journal is gone, and nothing but these names would say so.
    pub fn lost_runs(&self) -> Result<Vec<RunId>, Error> {
        let in_fallback = self.fallback_runs().unwrap_or_default();
        let mut lost = self.engine.without_journal()?;
        lost.retain(|run| !in_fallback.contains(run));
        Ok(lost)
    }

    fn fallback_runs(&self) -> Result<Vec<RunId>, Error> {
        self.fallback_if_there()?.map_or(Ok(Vec::new()), |fallback| fallback.runs())
    }

    fn joined(&self, in_fallback: Vec<RunId>) -> Result<Vec<(RunId, i64)>, Error> {
        let mut journals = self.engine.journals()?;
        journals.extend(in_fallback.into_iter().map(|run| (run, 0)));
        // A run in both was being brought home: its engine copy counts, and has the later time.
        journals.sort_by(|left, right| (&left.0, right.1).cmp(&(&right.0, left.1)));
        journals.dedup_by(|later, first| later.0 == first.0);
        Ok(journals)
    }

    /// Moves a run from the fallback to the engine, once that can be used. The engine's copy appears whole, by one
    /// rename, before anything is deleted here: a crash in between leaves both, and the next call finishes.
    pub fn bring_home(&self, run: &RunId, writer: &Writer) -> Result<Brought, Error> {
        let holding = |fallback: Arc<Sqlite>| Ok(fallback.contains(run)?.then_some(fallback));
        let holding = self.fallback_if_there().and_then(|found| found.map_or(Ok(None), holding));
        let fallback = match holding {
            Ok(Some(fallback)) => fallback,
            // What cannot be read there is not in the way of what is here.
            Ok(None) | Err(_) if self.engine.contains(run) => return Ok(Brought::AlreadyHome),
            Ok(None) => return Err(Error::NotFound { run: run.clone() }),
            Err(error) => return Err(error),
        };
        let mut batches = Batches::default();
        // Held until the end, so that nobody adds to what is being moved.
        let journal = fallback.open(run, writer, &mut |record| batches.add(record))?;
        let brought = if self.engine.contains(run) {
            self.check_prefix(run, &batches)?;
            Brought::AlreadyHome
        } else {
            if let Err(error) = self.probe_engine() {
                return Ok(Brought::NotYet(FallbackReason::from(&error)));
            }
            let belongings = belongings(&fallback, run, journal.generation())?;
            self.engine.import(
                run,
                writer,
                &mut batches.done.into_iter().chain([batches.open]),
                belongings,
            )?;
            Brought::Moved
        };
        self.finish_move(run, &fallback)?;
        Ok(brought)
    }

    /// Deletes the fallback's copy, after carrying over commands that were posted there in the meantime.
    fn finish_move(&self, run: &RunId, fallback: &Sqlite) -> Result<(), Error> {
        let mut moved: Vec<Posted> = Vec::new();
        loop {
            let pending = fallback.pending(run)?;
            for posted in pending.iter().filter(|posted| !moved.contains(posted)) {
                self.engine.post(run, &posted.id, &posted.body)?;
            }
            moved = pending;
            if fallback.retire(run, &moved)? {
                return Ok(());
            }
        }
    }

    /// The engine's copy must start with everything the fallback knows; otherwise deleting would lose something.
    fn check_prefix(&self, run: &RunId, batches: &Batches) -> Result<(), Error> {
        let mut kept = batches.done.iter().flatten().chain(&batches.open);
        let mut shown = 0;
        let diverged = |seq| Error::Diverged { run: run.clone(), seq };
        self.engine.reader(run)?.poll(&mut |record| {
            shown = record.seq;
            match kept.next() {
                Some(entry) if *entry != Entry::from(&record) => Err(diverged(record.seq)),
                Some(_) | None => Ok(()),
            }
        })?;
        if kept.next().is_some() { Err(diverged(shown + 1)) } else { Ok(()) }
    }

    /// The fallback itself, made if it is not there: for runs that are not to be kept in the engine.
    pub fn fallback_store(&self) -> Result<Arc<dyn Store>, Error> {
        Ok(self.fallback()?)
    }

    fn fallback(&self) -> Result<Arc<Sqlite>, Error> {
        let mut fallback = self.fallback.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = &*fallback {
            return Ok(open.clone());
        }
        let path = self.fallback_path();
        let was_there = fs::symlink_metadata(&path).is_ok();
        let opened = Sqlite::open(&path).inspect_err(|_| {
            // A fallback that could not even be made holds nothing, and left behind it would be in everybody's way.
            if !was_there {
                drop(fs::remove_file(&path));
            }
        });
        let opened = Arc::new(opened?);
        *fallback = Some(opened.clone());
        Ok(opened)
    }

    fn fallback_if_there(&self) -> Result<Option<Arc<Sqlite>>, Error> {
        if fs::symlink_metadata(self.fallback_path()).is_ok() { self.fallback().map(Some) } else { Ok(None) }
    }

    /// Writes, syncs and removes a small file where runs go. Asked each time a run is made, so that a disk that was
    /// mended is used again; making a run costs more.
    fn probe_engine(&self) -> Result<(), Error> {
        let runs = self.runs_dir();
        match self.disk.create_dir(&runs) {
            Ok(()) => self.disk.sync_dir(&self.dir).map_err(|error| Error::io("sync", &self.dir, error))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("create", runs, error)),
        }
        // One name for all, so that what a killed process left is used and removed by the next.
        let probe = runs.join(".probe");
        let result = self.open_probe(&probe).and_then(|file| {
            let written = file.write_at(b"probe", 0).and_then(|_| file.sync_data());
            let removed = match self.disk.remove_file(&probe) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => other,
            };
            written.and(removed)
        });
        result.map_err(|error| Error::io("write in", runs, error))
    }

    /// Another process that probes may remove what was there a moment ago, which says nothing about the disk.
    fn open_probe(&self, probe: &Path) -> io::Result<Box<dyn LogFile>> {
        let mut tries = 1;
        loop {
            let opened = match self.disk.open(probe, Access::CreateNew) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.disk.open(probe, Access::Write)
                }
                made => return made,
            };
            match opened {
                Err(error) if error.kind() == io::ErrorKind::NotFound && tries < limits::PROBE_TRIES_MAX => {
                    tries += 1;
                }
                found => return found,
            }
        }
    }
}

impl From<&Error> for FallbackReason {
    fn from(error: &Error) -> FallbackReason {
        let mut text = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        FallbackReason(text)
    }
}

impl fmt::Display for FallbackReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Records gathered into batches of bounded size.
#[derive(Default)]
struct Batches {
    done: Vec<Vec<Entry>>,
    open: Vec<Entry>,
    open_bytes: usize,
}

impl Batches {
    fn add(&mut self, record: Record<'_>) -> Result<(), Error> {
        if self.open_bytes > 0 && self.open_bytes + record.payload.len() > limits::MOVE_BYTES {
            self.done.push(std::mem::take(&mut self.open));
            self.open_bytes = 0;
        }
        self.open_bytes += record.payload.len();
        self.open.push(Entry::from(&record));
        Ok(())
    }
}

fn belongings(fallback: &Sqlite, run: &RunId, generation: u64) -> Result<Belongings, Error> {
    let hashes = fallback.blob_hashes(run)?;
    let blobs = hashes.iter().map(|hash| fallback.blob(run, hash)).collect::<Result<_, _>>()?;
    let inbox = fallback.pending(run)?.into_iter().map(|posted| (posted.id, posted.body)).collect();
    Ok(Belongings { generation, blobs, inbox })
}

/// Makes a directory and those above it, private to their owner, each with its name on disk before the next.
pub fn make_dirs(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !is_there(dir)).collect();
    for made in missing.into_iter().rev() {
        match disk.create_dir(made) {
            // Somebody else makes it as well, and may not have come to syncing it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && made.is_dir() => {}
            other => other?,
        }
        disk.sync_dir(above(made))?;
    }
    if dir.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// A directory that was there before may be open to others: whoever can put files into it answers for its owner. One that holds
/// nothing yet is closed; one with things of its owner's, only to writers. One that is open by its nature (`/tmp`) stays so, and
/// one of somebody else's is not ours to close.
fn close_to_others(dir: &Path) {
    const STICKY: u32 = 0o1000;
    let Ok(found) = fs::metadata(dir) else { return };
    let is_empty = fs::read_dir(dir).is_ok_and(|mut inside| inside.next().is_none());
    let open = if is_empty { 0o077 } else { 0o022 };
    let mode = found.permissions().mode();
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if is_ours && mode & open != 0 && mode & STICKY == 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(mode & !open)).ok();
    }
}

/// A relative path has nothing before its first part, which is where we are.
fn is_there(dir: &Path) -> bool {
    dir.as_os_str().is_empty() || fs::symlink_metadata(dir).is_ok()
}

fn above(dir: &Path) -> &Path {
    dir.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Written before anything else, so that no moment exists in which git would offer to commit what is here. An empty one is
/// what a power cut left of it.
fn write_gitignore(disk: &dyn Disk, dir: &Path) -> Result<(), Error> {
    let path = dir.join(".gitignore");
    if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file() || found.len() > 0) {
        return Ok(());
    }
    let temporary = dir.join(format!(".gitignore-{}-{}", nanos_now(), std::process::id()));
    write_whole(disk, &temporary, &path, b"*\n").map_err(|error| Error::io("write", &path, error))
}
