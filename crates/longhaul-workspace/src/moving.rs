//! A branch that nobody has checked out, while a git of ours moves it.
//!
//! Owns a note beside our own files of the lock that this git is about to take. There is no index to hold meanwhile, so the note
//! is what is held, by that git too: whoever gets it next knows that both are dead, and clears what they left. Refuses to note, and
//! so to clear, a lock that was there before.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::checkout::{self, Checkout, io_error, path_bytes};
use crate::index_lock::RefLock;
use crate::{digest_of, gitdirs, limits, place};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("another longhaul is moving a branch of this repository")]
    Busy,
    #[error("`{branch}` was moved or checked out in `{}` by somebody else, and is left as it is there; the run's stays in its workspace", repository.display())]
    Diverged { branch: String, repository: PathBuf },
    #[error("the repository in `{}` is broken, and cannot be made anew", path.display())]
    Broken { path: PathBuf, source: Box<place::Error> },
    #[error("`{}` is no worktree any more: its `.git` is gone, or the repository that it was made from is not where it was", path.display())]
    Lost { path: PathBuf },
    #[error(transparent)]
    Checkout(#[from] checkout::Error),
}

checkout::wraps_git!(Error);

/// As long as this lives, no other longhaul moves such a branch of the repository.
pub(crate) struct Moving {
    /// What all checkouts of the repository share.
    directory: PathBuf,
    note: PathBuf,
    file: File,
}

impl Moving {
    pub(crate) fn take(checkout: &Checkout) -> Result<Moving, Error> {
        let found = gitdirs::at(checkout.top());
        let common = found.as_ref().map_or(checkout.directory(), gitdirs::GitDirs::common);
        Moving::of(common, checkout.scratch())
    }

    /// The same for what all checkouts of a repository share. Clears what a killed one has left.
    pub(crate) fn of(common: &Path, scratch: &Path) -> Result<Moving, Error> {
        let common = common.canonicalize().map_err(io_error("resolve", common))?;
        let name = digest_of(path_bytes(&common));
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
        let note = scratch.join(format!("moving-{name}.json"));
        let mut options = File::options();
        let file =
            options.create(true).read(true).append(true).open(&note).map_err(io_error("open", &note))?;
        if !limits::within(limits::LANDING_WAIT_MAX, || file.try_lock().is_ok()) {
            return Err(Error::Busy);
        }
        let mut moving = Moving { directory: common, note, file };
        moving.clear_left()?;
        Ok(moving)
    }

    fn clear_left(&mut self) -> Result<(), checkout::Error> {
        let mut text = String::new();
        let read = self.file.seek(SeekFrom::Start(0));
        read.and_then(|_| (&self.file).take(limits::NOTE_BYTES_MAX).read_to_string(&mut text))
            .map_err(io_error("read", &self.note))?;
        if text.is_empty() {
            return Ok(());
        }
        for lock in text.lines().filter_map(|line| serde_json::from_str::<RefLock>(line).ok()) {
            lock.clear(&self.directory);
        }
        self.done()
    }

    /// Says which lock a git is about to take. One that is there is somebody else's.
    pub(crate) fn about_to_move(&mut self, reference: &str, to: &str) -> Result<(), checkout::Error> {
        let Some(lock) = RefLock::free(&self.directory, reference, to) else { return Ok(()) };
        let said = format!("{}\n", serde_json::to_string(&lock).unwrap_or_default());
        let written = self.file.write_all(said.as_bytes()).and_then(|()| self.file.sync_data());
        written.map_err(io_error("write", &self.note))
    }

    /// For such a git to hold.
    pub(crate) fn held(&self) -> Stdio {
        self.file.try_clone().map_or_else(|_| Stdio::null(), Stdio::from)
    }

    /// Nothing of ours is left to clear.
    pub(crate) fn done(&self) -> Result<(), checkout::Error> {
        self.file.set_len(0).map_err(io_error("write", &self.note))
    }
}
