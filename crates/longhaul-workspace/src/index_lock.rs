//! Git's own lock of an index, taken by us.
//!
//! Owns `index.lock` as git uses it: whoever made the file may replace the index. Ours says who made it, so that one which a
//! killed process of ours left behind is known and cleared. It also says which locks a git of ours is about to take to move a
//! branch, and that git holds it open: so those that were left are known too, if git died with us. Refuses to clear any other:
//! somebody's git may be at work.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::checkout::{Index, io_error};
use crate::limits;
use crate::process::Process;
use crate::{checkout, process};

pub(crate) const MARK: &str = "longhaul ";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}` is there: another git is at work in this checkout, or was killed there", path.display())]
    Foreign { path: PathBuf },
    #[error("another longhaul (process {pid}) is at work in this checkout")]
    Ours { pid: i32 },
    #[error("`{}` is there: a longhaul on {host} (process {pid}) is at work in this checkout, or was killed there", path.display())]
    Elsewhere { path: PathBuf, host: String, pid: i32 },
    #[error("others have had `{}` all the while, one after another", path.display())]
    Contended { path: PathBuf },
    #[error(transparent)]
    Checkout(#[from] checkout::Error),
}

/// As long as this lives, no git changes the index.
pub(crate) struct IndexLock {
    directory: PathBuf,
    file: File,
}

/// A lock that git is about to take for us: its name below the repository's directory, and what git writes into it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RefLock {
    name: String,
    to: String,
}

impl RefLock {
    /// `None` if it is there already, and so somebody else's.
    pub(crate) fn free(directory: &Path, name: &str, to: &str) -> Option<RefLock> {
        let name = format!("{name}.lock");
        let path = place_of(directory, &name)?;
        path.symlink_metadata().is_err().then(|| RefLock { name, to: to.to_owned() })
    }

    /// Removes it, if it is as git leaves it for us: empty, or with what was to be written.
    pub(crate) fn clear(&self, directory: &Path) {
        let Some(path) = place_of(directory, &self.name) else { return };
        let is_small = path
            .symlink_metadata()
            .is_ok_and(|facts| facts.is_file() && facts.len() <= limits::GIT_LINK_BYTES_MAX);
        let said = if is_small { fs::read_to_string(&path).ok() } else { None };
        if said.is_some_and(|said| said.is_empty() || said.trim_end() == self.to) {
            fs::remove_file(&path).ok();
        }
    }
}

impl IndexLock {
    /// `directory` is where the index is. Another part of ours that has it may be done in a moment.
    pub(crate) fn take(directory: &Path) -> Result<IndexLock, Error> {
        IndexLock::take_for(directory, &Process::own())
    }

    fn take_for(directory: &Path, holder: &Process) -> Result<IndexLock, Error> {
        IndexLock::take_within(limits::INDEX_WAIT_MAX, directory, || IndexLock::try_take(directory, holder))
    }

    fn take_within(
        time: Duration,
        directory: &Path,
        mut take: impl FnMut() -> Result<Option<IndexLock>, Error>,
    ) -> Result<IndexLock, Error> {
        let mut taken = take();
        limits::within(time, || {
            let waits = matches!(taken, Ok(None) | Err(Error::Ours { .. } | Error::Elsewhere { .. }));
            if waits {
                taken = take();
            }
            !waits
        });
        taken?.ok_or_else(|| Error::Contended { path: directory.join("index.lock") })
    }

    /// `None` if others had it and let go of it all the while.
    fn try_take(directory: &Path, holder: &Process) -> Result<Option<IndexLock>, Error> {
        let path = directory.join("index.lock");
        for _ in 0..2 {
            match made(directory, &path, holder) {
                Ok(file) => return Ok(Some(IndexLock { directory: directory.to_owned(), file })),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => clear_if_ours(directory)?,
                Err(source) => return Err(io_error("create", &path)(source).into()),
            }
        }
        Ok(None)
    }

    /// Says which locks a git is about to take that moves what is checked out, or a name like `ORIG_HEAD`. Those that are there are
    /// somebody else's.
    pub(crate) fn about_to_move(&mut self, names: &[(&str, &str)]) -> Result<(), checkout::Error> {
        for (name, to) in names {
            if let Some(said) = RefLock::free(&self.directory, name, to) {
                self.say(&serde_json::to_string(&said).unwrap_or_default())?;
            }
        }
        let path = self.path();
        self.file.sync_data().map_err(io_error("sync", &path))
    }

    /// For such a git to hold.
    pub(crate) fn held(&self) -> Stdio {
        self.file.try_clone().map_or_else(|_| Stdio::null(), Stdio::from)
    }

    fn say(&mut self, line: &str) -> Result<(), checkout::Error> {
        let path = self.path();
        self.file.write_all(format!("{line}\n").as_bytes()).map_err(io_error("write", &path))
    }

    fn path(&self) -> PathBuf {
        self.directory.join("index.lock")
    }

    /// Puts an index of ours in the place of git's, whole or not at all.
    pub(crate) fn install(&self, index: &Index) -> Result<(), checkout::Error> {
        let fresh = self.directory.join("longhaul.index");
        match fs::remove_file(&fresh) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(io_error("remove", &fresh)(source)),
        }
        let mut copy: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&fresh)
            .map_err(io_error("create", &fresh))?;
        let mut from = File::open(&index.0).map_err(io_error("open", &index.0))?;
        let modified = from.metadata().and_then(|facts| facts.modified());
        io::copy(&mut from, &mut copy).map_err(io_error("copy", &index.0))?;
        let modified = modified.map_err(io_error("read", &index.0))?;
        copy.set_modified(modified).and_then(|()| copy.sync_all()).map_err(io_error("sync", &fresh))?;
        fs::rename(&fresh, self.directory.join("index")).map_err(io_error("rename", &fresh))
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        fs::remove_file(self.path()).ok();
    }
}

/// Makes the file with who made it. It has its words before it has its name, where that can be done: killed in between, we would
/// leave one that nobody dares to touch.
fn made(directory: &Path, path: &Path, holder: &Process) -> io::Result<File> {
    let unnamed = unnamed(directory);
    let mut file = match &unnamed {
        Some(file) => file.try_clone()?,
        None => OpenOptions::new().write(true).create_new(true).open(path)?,
    };
    // By this, a git of ours that outlives us is seen. Without it, that one is soon done.
    file.try_lock().ok();
    let said = serde_json::to_string(holder).unwrap_or_default();
    file.write_all(format!("{MARK}{said}\n").as_bytes())?;
    if unnamed.is_some() {
        give_name(&file, path)?;
    }
    Ok(file)
}

#[cfg(target_os = "linux")]
fn unnamed(directory: &Path) -> Option<File> {
    // By this a file without a name is given one.
    Path::new("/proc/self/fd").is_dir().then_some(())?;
    let flags = OFlags::TMPFILE.bits() as i32;
    OpenOptions::new().write(true).custom_flags(flags).open(directory).ok()
}

#[cfg(target_os = "linux")]
fn give_name(file: &File, path: &Path) -> io::Result<()> {
    use std::os::fd::AsRawFd;

    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(rustix::fs::CWD, own, rustix::fs::CWD, path, rustix::fs::AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(not(target_os = "linux"))]
fn unnamed(_: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
fn give_name(_: &File, _: &Path) -> io::Result<()> {
    Ok(())
}

/// Removes what a killed process of ours has left, if that is what is there.
pub(crate) fn clear_stale(directory: &Path) {
    // Anything else is said by whoever needs the lock.
    clear_if_ours(directory).ok();
}

/// Removes a lock that says it is ours and whose process is over, with those that its git has left; anything else is an error.
fn clear_if_ours(directory: &Path) -> Result<(), Error> {
    let path = directory.join("index.lock");
    let foreign = || Error::Foreign { path: path.clone() };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(&path) {
        // Whoever had it is done.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file.map_err(|_| foreign())?,
    };
    let mut text = String::new();
    (&file).take(limits::NOTE_BYTES_MAX).read_to_string(&mut text).map_err(|_| foreign())?;
    let mut lines = text.lines();
    let said = lines.next().and_then(|line| line.strip_prefix(MARK));
    let said = said.and_then(|said| serde_json::from_str::<process::Process>(said).ok());
    let holder = said.ok_or_else(foreign)?;
    if !holder.is_here() {
        return Err(Error::Elsewhere { path, host: holder.host, pid: holder.pid });
    }
    let is_held = matches!(file.try_lock(), Err(TryLockError::WouldBlock));
    if !holder.is_over() || is_held {
        return Err(Error::Ours { pid: holder.pid });
    }
    // Another of us may have cleared it, and have its own there by now. Whoever clears this one has to hold it.
    if !is_at(&file, &path) {
        return Ok(());
    }
    for lock in lines.filter_map(|line| serde_json::from_str::<RefLock>(line).ok()) {
        lock.clear(directory);
    }
    fs::remove_file(&path).map_err(|source| io_error("remove", &path)(source).into())
}

pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(held), Ok(named)) = (file.metadata(), path.symlink_metadata()) else { return false };
    (held.dev(), held.ino()) == (named.dev(), named.ino())
}

/// Where the lock of a name is: what is a checkout's own lies in its directory, branches in the one that all of them share.
fn place_of(directory: &Path, name: &str) -> Option<PathBuf> {
    if matches!(name, "HEAD.lock" | "ORIG_HEAD.lock") {
        return Some(directory.join(name));
    }
    let is_plain = |part: &str| !part.is_empty() && !part.starts_with('.');
    let is_branch =
        name.starts_with("refs/heads/") && name.ends_with(".lock") && name.split('/').all(is_plain);
    let common = fs::read_to_string(directory.join("commondir")).ok();
    let common = common.map_or_else(|| directory.to_owned(), |common| directory.join(common.trim_end()));
    is_branch.then(|| common.join(name))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::{Error, IndexLock, MARK, unnamed};
    use crate::process::Process;
    use crate::{commit, landing};

    /// F48: at no moment is there a lock of ours that does not say so. One that is left at that moment would stay for ever.
    #[test]
    fn a_lock_says_whose_it_is_from_its_first_moment() {
        let place = tempfile::tempdir().unwrap();
        if unnamed(place.path()).is_none() {
            println!("SKIP a_lock_says_whose_it_is_from_its_first_moment: no files without names here");
            return;
        }
        let (path, is_over) = (place.path().join("index.lock"), AtomicBool::new(false));
        let looks = || {
            let mut nameless = 0;
            while !is_over.load(Ordering::Relaxed) {
                nameless += usize::from(fs::read_to_string(&path).is_ok_and(|said| !said.starts_with(MARK)));
            }
            nameless
        };
        std::thread::scope(|scope| {
            let looking = scope.spawn(looks);
            (0..1000).for_each(|_| drop(IndexLock::take(place.path()).unwrap()));
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(looking.join().unwrap(), 0);
        });
    }

    /// A lock that others always have when it is asked for is held by them: nobody is told to remove it.
    #[test]
    fn a_lock_that_goes_from_hand_to_hand_is_nobodys_to_remove() {
        let place = tempfile::tempdir().unwrap();
        let refused = IndexLock::take_within(Duration::ZERO, place.path(), || Ok(None)).err().unwrap();
        assert!(matches!(refused, Error::Contended { .. }), "{refused}");
        let landing = [landing::Error::from(refused), contended(place.path()).into()];
        assert!(landing.iter().all(|error| matches!(error, landing::Error::Busy)), "{landing:?}");
    }

    fn contended(directory: &Path) -> commit::Error {
        Error::Contended { path: directory.join("index.lock") }.into()
    }

    /// F48: of many that find the lock of a dead process, one has it.
    #[test]
    fn a_stale_lock_is_taken_over_by_one() {
        let place = tempfile::tempdir().unwrap();
        if unnamed(place.path()).is_none() {
            println!("SKIP a_stale_lock_is_taken_over_by_one: no files without names here");
            return;
        }
        let is_taken = AtomicBool::new(false);
        // What is held still, by a git that outlives it, is not stale.
        let dead = Process { pid: i32::MAX, ..Process::own() };
        let works = || {
            for _ in 0..100 {
                let lock = match IndexLock::take_for(place.path(), &dead) {
                    Err(Error::Ours { .. }) => continue,
                    lock => lock.unwrap(),
                };
                assert!(!is_taken.swap(true, Ordering::SeqCst), "two have it");
                is_taken.store(false, Ordering::SeqCst);
                let lock = std::mem::ManuallyDrop::new(lock);
                lock.file.unlock().unwrap();
            }
        };
        std::thread::scope(|scope| (0..6).for_each(|_| drop(scope.spawn(works))));
    }
}
