//! Locks that a killed git of an agent has left in a worktree of ours.
//!
//! Owns telling such a lock from one that somebody holds. Git does not write down who made it, so all processes are looked at: one
//! that has the file open holds it, and so may any git that stands in the worktree, since git closes the file while it waits for
//! an editor. Refuses to clear where processes cannot be seen, and what says that it is ours, which `index_lock` knows more of.
//! Never asked about a checkout of the user's.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::gitdirs::{self, GitDirs};
use crate::index_lock::{MARK, is_at};
use crate::limits;

/// What git takes to change what is a worktree's own.
const NAMES: [&str; 2] = ["index.lock", "HEAD.lock"];

/// Removes what a dead git has left in a run's own worktree. A git that lives may be done in a moment, and is waited for so long.
pub fn clear(worktree: &Path) {
    let Some(dirs) = worktree.canonicalize().ok().and_then(|top| gitdirs::at(&top)) else { return };
    let directory = match &dirs {
        GitDirs::Own { directory, .. } => directory,
        GitDirs::Linked { own, .. } => own,
    };
    let places = [dirs.top(), directory];
    // What stays is said by whoever needs it.
    limits::within(limits::INDEX_WAIT_MAX, || {
        NAMES.iter().filter(|name| !is_clear(&directory.join(name), places)).count() == 0
    });
}

/// Is there nothing left to clear, after this?
fn is_clear(path: &Path, places: [&Path; 2]) -> bool {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) => return error.kind() == io::ErrorKind::NotFound,
    };
    let mut begins = Vec::new();
    let is_read = (&file).take(MARK.len() as u64).read_to_end(&mut begins).is_ok();
    if !is_read || begins == MARK.as_bytes() {
        return true;
    }
    // As long as we have it open, no other file is taken for it: one that was made since stays.
    !may_be_held(&file, places) && is_at(&file, path) && fs::remove_file(path).is_ok()
}

/// May a process other than this one hold the lock?
fn may_be_held(lock: &File, places: [&Path; 2]) -> bool {
    let own = std::process::id();
    let (Ok(lock), true) = (lock.metadata(), Path::new("/proc/self/fd").is_dir()) else { return true };
    let Ok(found) = fs::read_dir("/proc") else { return true };
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let others = found.flatten().map(|entry| entry.path());
    let mut others = others.filter(|path| number(path).is_some_and(|number| number != own));
    others.any(|process| is_git_in(&process, places) || has_open(&process, (lock.dev(), lock.ino())))
}

fn is_git_in(process: &Path, places: [&Path; 2]) -> bool {
    // Not everything that begins so is git: there are gitea, gitaly and gitlab-runner, and they run all the time.
    let name = fs::read_to_string(process.join("comm")).unwrap_or_default();
    let name = name.trim_end();
    if name != "git" && !name.starts_with("git-") {
        return false;
    }
    match fs::read_link(process.join("cwd")) {
        Ok(cwd) => places.iter().any(|place| cwd.starts_with(place)),
        Err(error) => error.kind() == io::ErrorKind::PermissionDenied,
    }
}

fn has_open(process: &Path, lock: (u64, u64)) -> bool {
    let open = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
    let mut open = open.filter_map(|entry| fs::metadata(entry.path()).ok());
    open.any(|facts| (facts.dev(), facts.ino()) == lock)
}
