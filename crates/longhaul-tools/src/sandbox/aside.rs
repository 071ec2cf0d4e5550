//! Taking away what a command made where nothing may be.
//!
//! Owns doing that without being led astray: the command may have put a link on the way, or taken our leave to write there. What is
//! found is kept for people under a name that means nothing. Refuses to follow links.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, chmodat, renameat, statat};
use rustix::io::{Errno, Result};

use crate::limits;

/// Answers whether there is nothing at `path` any more.
pub(super) fn put_aside(path: &Path) -> bool {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return false };
    let Ok(directory) = open(parent) else { return false };
    let mut moved = renamed(directory.as_fd(), name);
    if matches!(moved, Err(Errno::ACCESS | Errno::PERM)) {
        moved = reopen(directory.as_fd()).and_then(|()| renamed(directory.as_fd(), name));
    }
    moved.is_ok()
}

fn renamed(directory: BorrowedFd<'_>, name: &OsStr) -> Result<()> {
    let mut tried = Err(Errno::EXIST);
    for number in 0..limits::ASIDES_MAX {
        let mut aside = OsString::from(name);
        aside.push(if number == 0 { ".refused".to_owned() } else { format!(".refused-{number}") });
        tried = renameat(directory, name, directory, &aside);
        // What was kept earlier may be of another kind.
        if !matches!(tried, Err(Errno::ISDIR | Errno::NOTDIR | Errno::NOTEMPTY | Errno::EXIST)) {
            break;
        }
    }
    tried
}

/// Gives its owner, who we are, the directory back.
fn reopen(directory: BorrowedFd<'_>) -> Result<()> {
    let mode =
        Mode::from_raw_mode(statat(directory, ".", rustix::fs::AtFlags::empty())?.st_mode) | Mode::RWXU;
    chmodat(directory, ".", mode, rustix::fs::AtFlags::empty())
}

#[cfg(target_os = "linux")]
fn open(directory: &Path) -> Result<OwnedFd> {
    use rustix::fs::{ResolveFlags, openat2};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat2(CWD, directory, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

#[cfg(not(target_os = "linux"))]
fn open(directory: &Path) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, directory, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A11, A48: what a command forged goes, also from a directory it has closed; what a link of its leads to stays.
    #[test]
    fn what_was_forged_is_put_aside_and_nothing_else() {
        let outer = tempfile::tempdir().unwrap();
        let base = outer.path().canonicalize().unwrap();
        let (inside, outside) = (base.join("inside"), base.join("outside"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(&outside).unwrap();
        for number in 0..2 {
            fs::write(inside.join("forged"), number.to_string()).unwrap();
            fs::set_permissions(&inside, fs::Permissions::from_mode(0o555)).unwrap();
            assert!(put_aside(&inside.join("forged")));
            assert!(!inside.join("forged").exists());
        }
        assert_eq!(fs::read_to_string(inside.join("forged.refused")).unwrap(), "1");
        fs::create_dir(inside.join("forged")).unwrap();
        assert!(put_aside(&inside.join("forged")));
        assert!(inside.join("forged.refused-1").is_dir());

        fs::write(outside.join("theirs"), "").unwrap();
        symlink(&outside, base.join("way")).unwrap();
        assert!(!put_aside(&base.join("way/theirs")));
        assert!(outside.join("theirs").exists());
    }
}
