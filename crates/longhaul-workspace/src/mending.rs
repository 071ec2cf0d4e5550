//! What an agent has left in the `.git` of its worktree that git would stop at.
//!
//! Owns that a worktree stays one, whatever is run in it. What git never puts there goes: links, and what is waited for when it is
//! opened. A directory that is no repository any more (`rm -rf .git`) is made anew from the one that has lent it what it had, with
//! all that has come home; the files are not touched. Refuses to throw away what may be work: what there was before stays inside.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat, unlinkat};

use crate::apart::{Entry, part_again};
use crate::gitdirs::{self, LEADS_AWAY};
use crate::homing::Error;
use crate::{lending, limits};

/// Where the directory has what there was before it was made anew.
pub(crate) const BROKEN: &str = "longhaul-broken";

/// What git follows or opens, with all that is below it.
const FOLLOWED: [&str; 3] = ["logs", "objects", "refs"];

/// Sees to the worktree at `tree`, if its directory is one of ours.
pub(crate) fn mend(tree: &Path) -> Result<(), Error> {
    let Ok(top) = tree.canonicalize() else { return Ok(()) };
    if !gitdirs::is_ours(&top) {
        return Ok(());
    }
    if let Ok(directory) = File::open(&top).and_then(|top| Ok(inside(top.as_fd(), c".git")?)) {
        Sweep { left: limits::GIT_ENTRIES_MAX }.top(&directory);
    }
    let Some(lender) = gitdirs::lender(&top).filter(|_| !is_repository(&top.join(".git"))) else {
        return Ok(());
    };
    let _lock = lending::taken(&lender)?.ok_or(Error::Busy)?;
    // Another of ours may have seen to it meanwhile.
    if is_repository(&top.join(".git")) {
        return Ok(());
    }
    let again = part_again(&top, &Entry { directory: &lender.entry, common: &lender.common });
    again.map_err(|error| Error::Broken { path: top, source: Box::new(error) })
}

/// Was it ever made anew?
pub(crate) fn has_broken(tree: &Path) -> bool {
    tree.join(".git").join(BROKEN).symlink_metadata().is_ok()
}

/// Has this what git takes a directory for a repository by?
fn is_repository(directory: &Path) -> bool {
    let is_directory = |name: &str| directory.join(name).symlink_metadata().is_ok_and(|facts| facts.is_dir());
    let is_id =
        |said: &str| matches!(said.len(), 40 | 64) && said.chars().all(|letter| letter.is_ascii_hexdigit());
    let says = gitdirs::small(&directory.join("HEAD")).unwrap_or_default();
    let says = says.trim_end();
    let is_head = says.strip_prefix("ref: ").is_some_and(|name| name.starts_with("refs/")) || is_id(says);
    is_head && is_directory("objects") && is_directory("refs")
}

/// Going through a directory that somebody may be changing: by open directories alone, so that no link leads elsewhere.
struct Sweep {
    left: usize,
}

impl Sweep {
    fn top(&mut self, directory: &OwnedFd) {
        for (name, kind) in self.entries(directory) {
            let is = |known: &&str| name.to_bytes() == known.as_bytes();
            let is_usual = matches!(kind, FileType::RegularFile | FileType::Directory | FileType::Socket);
            if !is_usual || LEADS_AWAY.iter().any(is) {
                unlinkat(directory, &name, AtFlags::empty()).ok();
            } else if let Some(root) = FOLLOWED.into_iter().find(is) {
                self.below(root, directory, &name, limits::GIT_LEVELS_MAX);
            }
        }
    }

    fn below(&mut self, root: &str, above: &OwnedFd, name: &CStr, levels: usize) {
        let Some(directory) = inside(above.as_fd(), name).ok().filter(|_| levels > 0) else { return };
        for (name, kind) in self.entries(&directory) {
            if kind == FileType::Directory {
                self.below(root, &directory, &name, levels - 1);
                continue;
            }
            let is_odd = kind != FileType::RegularFile || (root == "refs" && is_huge(&directory, &name));
            if is_odd {
                unlinkat(&directory, &name, AtFlags::empty()).ok();
            }
        }
    }

    fn entries(&mut self, directory: &OwnedFd) -> Vec<(CString, FileType)> {
        let found = Dir::read_from(directory).into_iter().flatten().flatten();
        let found = found.filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."));
        let found: Vec<_> = found.take(self.left).collect();
        self.left -= found.len();
        // Not every file system tells with the name.
        let kind = |name: &CStr, told| {
            let is_told = told != FileType::Unknown;
            let looked = || facts(directory, name).map(|facts| FileType::from_raw_mode(facts.st_mode));
            if is_told { Some(told) } else { looked() }
        };
        let named = found.iter().map(|entry| (entry.file_name().to_owned(), entry.file_type()));
        named.filter_map(|(name, told)| Some((name.clone(), kind(&name, told)?))).collect()
    }
}

fn is_huge(directory: &OwnedFd, name: &CStr) -> bool {
    facts(directory, name).is_some_and(|facts| facts.st_size as u64 > limits::REFERENCE_FILE_BYTES_MAX)
}

fn facts(directory: &OwnedFd, name: &CStr) -> Option<Stat> {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()
}

fn inside(directory: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}
