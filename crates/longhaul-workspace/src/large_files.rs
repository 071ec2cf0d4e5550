//! Files of git-lfs that were added in a worktree.
//!
//! A commit has only their digests, and the content lies beside the objects (`lfs/objects`). Owns that it comes home with the
//! commits, as what it is called by: whoever has the content of a file that others only name would choose what they get. Refuses
//! to put any into a repository that has no use for git-lfs.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Dir, Mode, OFlags, openat};
use sha2::{Digest, Sha256};

use crate::gitdirs::Lender;
use crate::limits;
use crate::mending::inside;

/// What is read and written at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Brings what the repository that a worktree is of has not. What cannot be brought stays where it is, and keeps the workspace from
/// being cleaned up.
pub(crate) fn bring(tree: &Path, lender: &Lender) {
    let lacking = lacking(tree, lender);
    if lacking.is_empty() || lender.git().run(&["config", "--get", "filter.lfs.clean"]).is_err() {
        return;
    }
    let mut left = limits::LARGE_FILES_BYTES_MAX;
    for digest in lacking {
        bring_one(tree, lender, &digest, &mut left).ok();
    }
}

fn bring_one(tree: &Path, lender: &Lender, digest: &str, left: &mut u64) -> io::Result<()> {
    // Twice: what is not what it is called takes no room at home.
    if digested(found(tree, digest)?, &mut io::sink(), left)? != digest {
        return Ok(());
    }
    let passing = lender.common.join("lfs/tmp");
    fs::create_dir_all(&passing)?;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let fresh = passing.join(format!("{digest}-{}-{number}", std::process::id()));
    let copied = File::create_new(&fresh).and_then(|mut file| {
        let is_it = digested(found(tree, digest)?, &mut file, left)? == digest;
        file.sync_all()?;
        let to = place(&lender.common, digest);
        fs::create_dir_all(to.parent().unwrap_or(&to))?;
        if is_it { fs::rename(&fresh, &to) } else { Ok(()) }
    });
    fs::remove_file(&fresh).ok();
    copied
}

/// Has that repository all of them?
pub(crate) fn are_there(tree: &Path, lender: &Lender) -> bool {
    lacking(tree, lender).is_empty()
}

/// Those of the worktree's own, through no link of an agent's: it would be somebody else's content that came.
fn lacking(tree: &Path, lender: &Lender) -> Vec<String> {
    let below = |directory: Option<OwnedFd>| {
        let found = directory.and_then(|directory| {
            let names = Dir::read_from(&directory).ok()?.flatten();
            let names: Vec<CString> = names.map(|entry| entry.file_name().to_owned()).collect();
            Some((directory, names))
        });
        found.into_iter().flat_map(|(directory, names)| {
            let is_plain = |name: &CString| !name.to_bytes().starts_with(b".");
            names.into_iter().filter(is_plain).map(move |name| (directory.try_clone().ok(), name))
        })
    };
    let opened = |(directory, name): (Option<OwnedFd>, CString)| inside(directory?.as_fd(), &name).ok();
    let all = below(store(tree)).flat_map(|one| below(opened(one))).flat_map(|two| below(opened(two)));
    let digests = all.filter_map(|(_, name)| name.into_string().ok()).filter(|name| is_digest(name));
    let lacking = digests.filter(|digest| !place(&lender.common, digest).is_file());
    lacking.take(limits::LARGE_FILES_MAX).collect()
}

fn store(tree: &Path) -> Option<OwnedFd> {
    let top = File::open(tree).ok()?;
    let parts = [c".git", c"lfs", c"objects"];
    parts.into_iter().try_fold(OwnedFd::from(top), |above, part| inside(above.as_fd(), part)).ok()
}

/// The file by that digest, as an agent has left it.
fn found(tree: &Path, digest: &str) -> io::Result<File> {
    let name = |text: &str| CString::new(text).unwrap_or_default();
    let store = store(tree).ok_or(io::ErrorKind::NotFound)?;
    let above = inside(inside(store.as_fd(), &name(&digest[..2]))?.as_fd(), &name(&digest[2..4]))?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(above, digest, flags, Mode::empty())?);
    let facts = file.metadata()?;
    // What takes little room and is long is nobody's content, and would be read at each time.
    let is_sparse = facts.len() / 2 > facts.blocks() * 512;
    let is_whole = facts.is_file() && !is_sparse && facts.len() <= limits::LARGE_FILES_BYTES_MAX;
    if is_whole { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.chars().all(|letter| matches!(letter, '0'..='9' | 'a'..='f'))
}

fn place(directory: &Path, digest: &str) -> PathBuf {
    directory.join("lfs/objects").join(&digest[..2]).join(&digest[2..4]).join(digest)
}

/// The digest of what is copied, if there is room for it.
fn digested(mut from: File, to: &mut dyn Write, left: &mut u64) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = from.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        *left = left.checked_sub(count as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        hasher.update(&chunk[..count]);
        to.write_all(&chunk[..count])?;
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
