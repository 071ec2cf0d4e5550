//! Opening a path so that the result is certainly beneath a directory.
//!
//! Owns resolution only: the answer is a file descriptor or an `Errno`, with `XDEV` meaning "leads out". Refuses
//! absolute paths and absolute links, also those that would lead back in. On Linux the kernel resolves the whole path
//! at once (`openat2`); elsewhere, and on kernels without it, `walk` opens one component at a time, each without
//! following links, so that a directory swapped for a link in between is refused as well.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat, readlinkat};
use rustix::io::Errno;

use crate::limits;

/// How directories are opened: readable, since a directory must be synced through its descriptor.
pub(crate) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY);

/// What is done with symbolic links on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// Followed as long as they are relative and stay beneath the root.
    Inside,
    /// Not followed at all: `Errno::LOOP`.
    Refused,
}

/// Opens `path`, which must exist; nothing is ever created here.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};

    let resolve = ResolveFlags::BENEATH
        | match links {
            Links::Inside => ResolveFlags::NO_MAGICLINKS,
            Links::Refused => ResolveFlags::NO_SYMLINKS,
        };
    for _ in 0..limits::RESOLVE_TRIES_MAX {
        match openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            // A rename somewhere on the way made the kernel unsure whether `..` stayed inside.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(Errno::NOSYS) => return walk(root, path, flags, links),
            result => return result,
        }
    }
    Err(Errno::AGAIN)
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags, links: Links) -> Result<OwnedFd, Errno> {
    walk(root, path, flags, links)
}

/// The portable way: `trail` holds the directories from the root to here, so `..` means "the one we came from" and
/// can never step above the root, whatever is renamed meanwhile.
fn walk(root: BorrowedFd<'_>, path: &Path, flags: OFlags, allowed: Links) -> Result<OwnedFd, Errno> {
    let mut trail: Vec<OwnedFd> = Vec::new();
    let mut pending = Vec::new();
    push_parts(&mut pending, path)?;
    let mut links = 0;
    while let Some(part) = pending.pop() {
        if part == ".." {
            trail.pop().ok_or(Errno::XDEV)?;
            continue;
        }
        let here = trail.last().map_or(root, |directory| directory.as_fd());
        if let Some(target) = link_target(here, &part)? {
            links += 1;
            if links > limits::LINKS_MAX || allowed == Links::Refused {
                return Err(Errno::LOOP);
            }
            push_parts(&mut pending, &target)?;
        } else if pending.is_empty() {
            return open_part(here, &part, flags);
        } else {
            let next = open_part(here, &part, DIRECTORY)?;
            trail.push(next);
        }
    }
    open_part(trail.last().map_or(root, |directory| directory.as_fd()), OsStr::new("."), flags)
}

/// What the link `name` in `directory` says; `None` when it is no link.
pub(crate) fn link_target(directory: BorrowedFd<'_>, name: &OsStr) -> Result<Option<PathBuf>, Errno> {
    match readlinkat(directory, name, Vec::new()) {
        Ok(target) => Ok(Some(PathBuf::from(OsString::from_vec(target.into_bytes())))),
        Err(Errno::INVAL) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn push_parts(pending: &mut Vec<OsString>, path: &Path) -> Result<(), Errno> {
    for component in path.components().rev() {
        match component {
            Component::Normal(name) => pending.push(name.to_owned()),
            Component::ParentDir => pending.push("..".into()),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
    }
    Ok(())
}

fn open_part(directory: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    openat(directory, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    type Opener = fn(BorrowedFd<'_>, &Path, OFlags, Links) -> Result<OwnedFd, Errno>;

    /// Both ways of resolving must answer alike, or the portable one would be a hole found only on other systems.
    #[test]
    fn the_kernel_and_the_walk_agree() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        fs::create_dir_all(root.join("sub/deep")).unwrap();
        fs::write(root.join("file"), "in").unwrap();
        fs::write(outer.path().join("secret"), "out").unwrap();
        symlink("../file", root.join("sub/back")).unwrap();
        symlink("../../secret", root.join("sub/out")).unwrap();
        symlink(outer.path(), root.join("absolute")).unwrap();
        symlink("sub", root.join("alias")).unwrap();
        symlink("loop", root.join("loop")).unwrap();
        let handle = fs::File::open(&root).unwrap();

        let cases: [(&str, Result<(), Errno>); 16] = [
            (".", Ok(())),
            ("file", Ok(())),
            ("./sub/../file", Ok(())),
            ("sub/back", Ok(())),
            ("alias/back", Ok(())),
            ("alias/../file", Ok(())),
            ("sub/deep/..", Ok(())),
            ("..", Err(Errno::XDEV)),
            ("../secret", Err(Errno::XDEV)),
            ("sub/../../secret", Err(Errno::XDEV)),
            ("sub/out", Err(Errno::XDEV)),
            ("absolute/secret", Err(Errno::XDEV)),
            ("/etc/passwd", Err(Errno::XDEV)),
            ("loop", Err(Errno::LOOP)),
            ("missing", Err(Errno::NOENT)),
            ("file/below", Err(Errno::NOTDIR)),
        ];
        let openers: [Opener; 2] = [open, walk];
        for opener in openers {
            for (path, expected) in cases {
                let open = |links| opener(handle.as_fd(), Path::new(path), OFlags::RDONLY, links).map(drop);
                assert_eq!(open(Links::Inside), expected, "{path}");
                let through_a_link = ["sub/back", "sub/out", "loop"].contains(&path)
                    || path.starts_with("alias")
                    || path.starts_with("absolute");
                let expected = if through_a_link { Err(Errno::LOOP) } else { expected };
                assert_eq!(open(Links::Refused), expected, "{path} without links");
            }
        }
    }
}
