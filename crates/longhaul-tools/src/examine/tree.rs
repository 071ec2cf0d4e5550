//! The hash of a workspace: names, kinds and contents of everything that no ignore file names. Two trees with the same hash
//! are the same work.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_core::handoff;
use longhaul_core::tool::{Failure, Outcome};
use longhaul_workspace::{Directory, EntryKind, Workspace};

use crate::cancel::Cancel;
use crate::patience::Patience;
use crate::tool::Context;
use crate::walk::{Scope, Seen, Visitor, walk};

#[derive(Default)]
struct Hashes(Vec<(PathBuf, blake3::Hash)>);

impl Visitor for Hashes {
    fn visit(&mut self, seen: &Seen<'_>) -> Result<(), Outcome> {
        // What the agent notes for itself is no progress of the work.
        if seen.path.as_os_str() != handoff::PATH {
            let hash = hash_one(seen.directory, seen.name, seen.kind);
            // What is gone or unreadable by now is part of the tree as that.
            self.0.push((seen.path.to_owned(), hash.unwrap_or_else(|_| blake3::hash(b"unreadable"))));
        }
        Ok(())
    }
}

fn hash_one(directory: &Directory, name: &OsStr, kind: EntryKind) -> io::Result<blake3::Hash> {
    let mut hasher = blake3::Hasher::new();
    if kind == EntryKind::Link {
        let target = directory.link_target(name)?.unwrap_or_default();
        hasher.update(b"link").update(target.as_os_str().as_bytes());
    } else {
        let file = directory.open_file(name)?;
        let executable = file.metadata()?.permissions().mode() & 0o111 != 0;
        hasher.update(if executable { b"program" } else { b"file" }).update_reader(file)?;
    }
    Ok(hasher.finalize())
}

pub(super) fn hash(context: &Context) -> Result<String, Outcome> {
    hash_within(&context.workspace, Patience::new(context))
}

/// The same for whoever comes later and wants to know whether it is still that work. Nothing if it cannot be told in time.
pub fn hash_of(root: &Path, timeout: Duration) -> Option<String> {
    let (workspace, (_switch, cancel)) = (Workspace::open(root).ok()?, Cancel::new());
    hash_within(&workspace, Patience::of(&cancel, timeout)).ok()
}

fn hash_within(workspace: &Workspace, patience: Patience<'_>) -> Result<String, Outcome> {
    let failed = |error: &dyn std::fmt::Display| Outcome::failed(Failure::Tool, error.to_string());
    let start = workspace.open_directory(".").map_err(|error| failed(&error))?;
    let scope = Scope { hidden: true, ignored: false };
    let (visitors, missed) = walk(workspace, start, scope, patience, Hashes::default)?;
    let mut all: Vec<_> = visitors.into_iter().flat_map(|hashes| hashes.0).collect();
    all.sort_by(|one, other| one.0.cmp(&other.0));
    let mut hasher = blake3::Hasher::new();
    for (path, hash) in &all {
        let path = path.as_os_str().as_bytes();
        hasher.update(&(path.len() as u64).to_le_bytes()).update(path).update(hash.as_bytes());
    }
    if !missed.note().is_empty() {
        return Err(Outcome::failed(Failure::Tool, missed.note()));
    }
    Ok(hasher.finalize().to_hex().to_string())
}
