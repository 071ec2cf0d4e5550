//! Directories of our own among the temporary files.
//!
//! Owns their names, who may enter them, and their going: with whoever made them or, if that one was killed, when the next is
//! made. Refuses to take away what may be in use: its maker must be gone, and nobody may hold its lock.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::ops::Deref;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};

use crate::limits::{LEFTOVER_AGE_MIN, TEMPORARY_ENTRIES_MAX};

const PREFIX: &str = "longhaul-";

/// A directory that nobody else can enter; gone when dropped.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    /// Held while it is used, so that no other longhaul takes it for a leftover, whatever numbers processes have there.
    _lock: Option<File>,
}

impl Scratch {
    pub(crate) fn new() -> Result<Scratch, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        static SWEPT: Once = Once::new();
        let place = std::env::temp_dir();
        SWEPT.call_once(|| sweep(&place));
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = place.join(name(std::process::id(), number, since_1970()));
        // Made here and by nobody before: a name that exists is somebody else's.
        let made = DirBuilder::new().mode(0o700).create(&path).and_then(|()| path.canonicalize());
        let path =
            made.map_err(|error| format!("cannot make a directory among the temporary files: {error}"))?;
        Ok(Scratch { _lock: locked(&path), path })
    }
}

impl Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).ok();
    }
}

fn name(pid: u32, number: u64, made: Duration) -> String {
    format!("{PREFIX}{pid}-{number}-{:x}", made.as_nanos())
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Takes away what longhauls that were killed have left. What is not surely such a thing stays.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten().take(TEMPORARY_ENTRIES_MAX) {
        let path = entry.path();
        if is_left(&path)
            && let Some(lock) = locked(&path)
        {
            // A link in it is removed and not followed.
            fs::remove_dir_all(&path).ok();
            drop(lock);
        }
    }
}

/// Is this a directory of ours whose maker is gone? One whose number another process has by now stays until that one ends.
fn is_left(path: &Path) -> bool {
    let Some((pid, made)) = path.file_name().and_then(|name| maker(name.to_str()?)) else { return false };
    let is_ours = |found: fs::Metadata| {
        found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0
    };
    let is_old = since_1970().checked_sub(made).is_some_and(|age| age > LEFTOVER_AGE_MIN);
    let is_gone = || test_kill_process(pid) == Err(Errno::SRCH);
    is_old && fs::symlink_metadata(path).is_ok_and(is_ours) && is_gone()
}

/// Who made the directory of this name, and when.
fn maker(name: &str) -> Option<(Pid, Duration)> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let pid = Pid::from_raw(parts.next()?.parse().ok().filter(|pid| *pid > 0)?)?;
    let _number: u64 = parts.next()?.parse().ok()?;
    let nanos = u64::from_str_radix(parts.next()?, 16).ok()?;
    parts.next().is_none().then_some((pid, Duration::from_nanos(nanos)))
}

/// The directory, locked for us; nothing if somebody else has it, or if it is none. The kernel lets go with our end.
fn locked(path: &Path) -> Option<File> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let opened = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
    flock(&opened, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(opened)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::process::Command;

    use super::*;

    fn dead() -> u32 {
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id()
    }

    /// What a killed longhaul has left goes; what may be in use, is somebody else's or only looks so, stays.
    #[test]
    fn only_what_is_surely_left_is_taken_away() {
        let place = tempfile::tempdir().unwrap();
        let old = since_1970().checked_sub(LEFTOVER_AGE_MIN * 2).unwrap();
        let make = |name: &str| {
            let path = place.path().join(name);
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            fs::write(path.join("secret"), "x").unwrap();
            path
        };
        let gone = dead();
        let left = make(&name(gone, 0, old));
        let young = make(&name(gone, 1, since_1970() + LEFTOVER_AGE_MIN * 3600));
        let alive = make(&name(std::process::id(), 0, old));
        let held = make(&name(gone, 2, old));
        let lock = locked(&held).unwrap();
        let open = make(&name(gone, 3, old));
        fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
        let other = make(&format!("{PREFIX}{gone}-notes"));
        let target = make("precious");
        let link = place.path().join(name(gone, 4, old));
        symlink(&target, &link).unwrap();
        symlink(&target, left.join("out")).unwrap();
        sweep(place.path());
        assert!(!left.exists());
        for stays in [&young, &alive, &held, &open, &other, &target, &link] {
            assert!(stays.join("secret").exists(), "{}", stays.display());
        }
        drop(lock);
        sweep(place.path());
        assert!(!held.exists() && link.exists());
    }

    /// One that is in use is held, and is gone with its owner.
    #[test]
    fn a_scratch_is_held_while_it_is_used() {
        let scratch = Scratch::new().unwrap();
        let path = scratch.to_path_buf();
        assert!(path.is_dir() && locked(&path).is_none());
        drop(scratch);
        assert!(!path.exists());
    }
}
