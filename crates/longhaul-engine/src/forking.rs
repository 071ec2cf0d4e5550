//! Forks while they are made, and what is left of those that were killed meanwhile.
//!
//! A fork is a run only once its files are there. Until then a note beside its place says what was made for it, and whoever makes it
//! holds that note. Owns taking away what a dead one left: nobody has worked there. Refuses to touch a fork that somebody still
//! makes, one that is a run by now, and a branch that has moved since.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use longhaul_core::ids::RunId;
use longhaul_core::spec::RunSpec;
use longhaul_store::Error as StoreError;
use longhaul_workspace::place::{self, Place};

use crate::error::Error;
use crate::harness::Harness;

/// What the name of a note ends with, after that of the fork.
const NOTE: &str = "forking";

/// A fork that is being made, for as long as this lives.
pub(crate) struct Forking {
    note: PathBuf,
    _held: File,
}

impl Forking {
    pub(crate) fn begin(place: &Path, spec: &RunSpec) -> Result<Forking, Error> {
        let note = place.with_extension(NOTE);
        let held = || -> io::Result<File> {
            fs::create_dir_all(place.parent().unwrap_or(place))?;
            let opened = || {
                let file = File::options().create(true).append(true).open(&note)?;
                file.lock().map(|()| file)
            };
            let mut file = opened()?;
            // Before it was held, a cleanup may have taken it for one that was left empty.
            if file.metadata()?.nlink() == 0 {
                file = opened()?;
            }
            file.write_all(&serde_json::to_vec(spec)?)?;
            file.sync_data()?;
            Ok(file)
        };
        let failed = |source| Error::Workspace { path: note.clone(), source: Box::new(source) };
        let held = held().map_err(failed)?;
        Ok(Forking { note, _held: held })
    }

    /// It is a run now. Of one that failed the note stays, as of one that was killed.
    pub(crate) fn made(self) {
        fs::remove_file(&self.note).ok();
    }
}

/// What a fork has left that was killed while it was made, or failed.
pub struct DeadFork {
    pub id: RunId,
    spec: RunSpec,
    place: Place,
    note: PathBuf,
    _held: File,
}

impl DeadFork {
    /// Takes it away, with its branch. A git that outlived it is waited for first, and what that left half made is made whole: then
    /// it is known what there is. Killed in between, the same once more does the rest.
    pub fn remove(&self) -> Result<(), place::Error> {
        place::finish_removing(&self.place)?;
        place::ensure(&self.place)?;
        place::remove(&self.place)?;
        if let (Place::Worktree { repo, branch, .. }, Some(base)) = (&self.place, &self.spec.base) {
            place::drop_branch(repo, branch, base)?;
        }
        fs::remove_file(&self.note).ok();
        Ok(())
    }
}

impl Harness {
    /// The forks that came to nothing while they were made.
    pub fn dead_forks(&self) -> Vec<DeadFork> {
        let Some(home) = self.home() else { return Vec::new() };
        let notes = fs::read_dir(home.dir().join("workspace").join("run")).into_iter().flatten().flatten();
        let notes =
            notes.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == NOTE));
        notes.filter_map(|note| self.dead_fork(note)).collect()
    }

    fn dead_fork(&self, note: PathBuf) -> Option<DeadFork> {
        let id = RunId::parse(note.file_stem()?.to_str()?).ok()?;
        let mut held = File::open(&note).ok()?;
        held.try_lock().ok()?;
        let mut text = String::new();
        held.read_to_string(&mut text).ok()?;
        match self.look(&id) {
            Err(Error::Store(StoreError::NotFound { .. })) => {}
            // It was killed when all was done.
            Ok(_) => {
                fs::remove_file(&note).ok();
                return None;
            }
            Err(_) => return None,
        }
        let Ok(spec) = serde_json::from_str::<RunSpec>(&text) else {
            // It was killed while it wrote this, before it made anything.
            fs::remove_file(&note).ok();
            return None;
        };
        let place = self.place(&spec, &note.with_extension(""));
        let is_ours = !matches!(place, Place::InPlace(_)) && spec.id == id;
        is_ours.then_some(DeadFork { id, spec, place, note, _held: held })
    }
}
