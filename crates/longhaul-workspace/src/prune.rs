//! The stored files of all workspaces together: how much room they take, and giving back what nobody needs.
//!
//! Owns what may go: files of trees that nobody names any more, once they are old enough that nobody is about to. Everything that
//! is only a cache goes as well, because it may speak of files that are gone. Refuses to begin while anybody stores; whoever
//! wants to store meanwhile waits. Killed anywhere, it has removed nothing that was named, and the next one does the rest.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::checkout::{self, io_error};
use crate::checkpoints::Error;
use crate::git::Git;
use crate::limits;
use crate::stale::clear_locks;

/// Where the stored files of all workspaces are.
pub(crate) const STORE: &str = "files.git";

/// The lock that whoever stores shares, and whoever removes has alone.
const LOCK: &str = "files.lock";

/// The names of what is kept, one for each tree.
const KEPT: &str = "refs/kept";

/// What pruning did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruned {
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// What a directory takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Taken {
    pub bytes: u64,
    pub files: u64,
}

/// How much the stored files below a state directory take.
pub fn taken(state: &Path) -> Taken {
    taken_below(&state.join("checkpoints"))
}

/// The directories in a directory, by name; none if it is not there.
pub fn directories(within: &Path) -> io::Result<Vec<PathBuf>> {
    let found = match fs::read_dir(within) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    let mut paths = found.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>()?;
    paths.retain(|path| path.is_dir());
    paths.sort();
    Ok(paths)
}

/// How much is in a directory, no link followed.
pub fn bytes_below(directory: &Path) -> u64 {
    taken_below(directory).bytes
}

fn taken_below(directory: &Path) -> Taken {
    let mut taken = Taken::default();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let more = match entry.file_type() {
            Ok(kind) if kind.is_dir() => taken_below(&entry.path()),
            Ok(_) => Taken { bytes: entry.metadata().map_or(0, |facts| facts.len()), files: 1 },
            Err(_) => Taken::default(),
        };
        taken = Taken { bytes: taken.bytes + more.bytes, files: taken.files + more.files };
    }
    taken
}

/// As long as this lives, nobody stores. Which trees are needed is asked after it was made: what is stored later is not needed less.
pub struct Pruning {
    all: PathBuf,
    lock: File,
}

impl Pruning {
    /// `None` if nothing was ever stored below this state directory.
    pub fn begin(state: &Path) -> Result<Option<Pruning>, Error> {
        let all = state.join("checkpoints");
        if !all.join(STORE).is_dir() {
            return Ok(None);
        }
        let lock = opened(&all)?;
        if !limits::within(limits::LANDING_WAIT_MAX, || lock.try_lock().is_ok()) {
            return Err(Error::Busy);
        }
        Ok(Some(Pruning { all, lock }))
    }

    /// Removes what is in none of the trees and was stored longer ago than that.
    pub fn finish(self, trees: &BTreeSet<String>, older_than: Duration) -> Result<Pruned, Error> {
        let Pruning { all, lock } = self;
        let (store, bytes_before) = (all.join(STORE), bytes_below(&all));
        clear_locks(&store);
        forget_caches(&all)?;
        name(&store, trees, &lock)?;
        let expiry = format!("--prune={}.seconds.ago", older_than.as_secs());
        // A git that outlives us holds the lock, so that nobody stores into what it removes.
        let held = lock.try_clone().map_err(io_error("lock", &all))?;
        asked(&store).holding(Stdio::from(held)).bytes(&["gc", "--quiet", "--force", &expiry])?;
        Ok(Pruned { bytes_before, bytes_after: bytes_below(&all) })
    }
}

/// Held by whoever stores, for as long as it is open.
pub(crate) fn shared(all: &Path) -> Result<File, Error> {
    let lock = opened(all)?;
    if limits::within(limits::GIT_TIME_MAX, || lock.try_lock_shared().is_ok()) {
        return Ok(lock);
    }
    Err(Error::Busy)
}

fn opened(all: &Path) -> Result<File, Error> {
    let path = all.join(LOCK);
    Ok(File::options().create(true).append(true).open(&path).map_err(io_error("open", &path))?)
}

fn asked(store: &Path) -> Git<'_> {
    Git::at(store).printing_much().with("GIT_DIR", store)
}

/// What is known of single workspaces, and what a killed process left half made. Locks stay: somebody may wait for one.
fn forget_caches(all: &Path) -> Result<(), Error> {
    let entries = fs::read_dir(all).map_err(io_error("read", all))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let is_kept = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name == STORE)
            || path.extension().is_some_and(|end| end == "lock")
    };
    for path in paths.filter(|path| !is_kept(path)) {
        let is_directory = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
        let removed = if is_directory { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(io_error("remove", &path))?;
    }
    Ok(())
}

/// Gives each of the trees that are there a name, and takes the others away.
fn name(store: &Path, trees: &BTreeSet<String>, lock: &File) -> Result<(), Error> {
    let wanted: String = trees.iter().map(|tree| format!("{tree}\n")).collect();
    let found = asked(store).reading(wanted.into_bytes()).run(&["cat-file", "--batch-check"])?;
    let there: BTreeSet<&str> =
        found.lines().filter_map(|line| line.split_once(" tree ")).map(|(tree, _)| tree).collect();
    let named = asked(store).run(&["for-each-ref", "--format=%(refname:lstrip=2)", KEPT])?;
    let named: BTreeSet<&str> = named.lines().collect();
    let made = there.difference(&named).map(|tree| format!("create {KEPT}/{tree} {tree}\n"));
    let gone = named.difference(&there).map(|tree| format!("delete {KEPT}/{tree}\n"));
    let said: String = made.chain(gone).collect();
    let held = lock.try_clone().map_err(io_error("lock", store))?;
    let git = asked(store).reading(said.into_bytes()).holding_silently(Stdio::from(held));
    git.run(&["update-ref", "--stdin"]).map_err(checkout::Error::from)?;
    Ok(())
}
