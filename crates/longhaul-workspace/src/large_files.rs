//! Files of git-lfs that were added in a worktree.
//!
//! A commit has only their digests, and the content lies beside the objects (`lfs/objects`). Owns that it comes home with the
//! commits, as what it is called by: whoever has the content of a file that others only name would choose what they get. Refuses
//! to put any into a repository that has no use for git-lfs.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use crate::checkout::{self, io_error};
use crate::gitdirs::Lender;
use crate::limits;

/// Where git-lfs keeps them, in two levels of directories by the beginnings of their digests.
const STORE: &str = "lfs/objects";

/// What is read and written at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Brings what the repository that a worktree is of has not.
pub(crate) fn bring(tree: &Path, lender: &Lender) -> Result<(), checkout::Error> {
    let lacking = lacking(tree, lender);
    if lacking.is_empty() || lender.git().run(&["config", "--get", "filter.lfs.clean"]).is_err() {
        return Ok(());
    }
    let passing = lender.common.join("lfs/tmp");
    fs::create_dir_all(&passing).map_err(io_error("create", &passing))?;
    for digest in lacking.into_iter().take(limits::LARGE_FILES_MAX) {
        let fresh = passing.join(format!("{digest}-{}", std::process::id()));
        let arrived = copy_as(&digest, &place(&tree.join(".git"), &digest), &fresh).and_then(|is_it| {
            let to = place(&lender.common, &digest);
            let above = to.parent().unwrap_or(&to);
            if is_it { fs::create_dir_all(above).and_then(|()| fs::rename(&fresh, &to)) } else { Ok(()) }
        });
        fs::remove_file(&fresh).ok();
        arrived.map_err(io_error("copy", &fresh))?;
    }
    Ok(())
}

/// Has that repository all of them?
pub(crate) fn are_there(tree: &Path, lender: &Lender) -> bool {
    lacking(tree, lender).is_empty()
}

fn lacking(tree: &Path, lender: &Lender) -> Vec<String> {
    let below = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|found| found.path());
    let found = below(tree.join(".git").join(STORE)).flat_map(below).flat_map(below);
    let digest = |path: PathBuf| Some(path.file_name()?.to_str()?.to_owned()).filter(|name| is_digest(name));
    found.filter_map(digest).filter(|digest| !place(&lender.common, digest).is_file()).collect()
}

fn is_digest(name: &str) -> bool {
    name.len() == 64 && name.chars().all(|letter| matches!(letter, '0'..='9' | 'a'..='f'))
}

fn place(directory: &Path, digest: &str) -> PathBuf {
    directory.join(STORE).join(&digest[..2]).join(&digest[2..4]).join(digest)
}

/// Copies a file, and answers whether it is what it is called.
fn copy_as(digest: &str, from: &Path, to: &Path) -> io::Result<bool> {
    // An agent may have put anything there.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut file = OpenOptions::new().read(true).custom_flags(flags).open(from)?;
    if !file.metadata()?.is_file() {
        return Ok(false);
    }
    let (mut fresh, mut hasher) = (File::create(to)?, Sha256::new());
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk)?;
        if count == 0 {
            break;
        }
        hasher.update(&chunk[..count]);
        fresh.write_all(&chunk[..count])?;
    }
    fresh.sync_all()?;
    let found: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(found == digest)
}
