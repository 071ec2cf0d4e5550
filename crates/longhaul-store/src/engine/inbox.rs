//! Commands left for a run, one file each. Owns their names and their order; does not read what they say.
//!
//! A file is `<nanoseconds since 1970>-<command id>`, so that names sort by posting time. Two processes that post the
//! same id at the same moment may leave two files: they are shown as one and settled together.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use longhaul_core::ids::{CommandId, RunId};

use super::disk::{self, Disk};
use crate::error::Error;
use crate::journal::Posted;
use crate::limits;

pub(crate) const TEMPORARY: &str = ".tmp-";

pub(crate) fn post(
    disk: &dyn Disk,
    dir: &Path,
    run: &RunId,
    command: &CommandId,
    body: &[u8],
) -> Result<(), Error> {
    check_size(body)?;
    let there = list(dir)?;
    if there.iter().any(|(id, _)| id == command) {
        return Ok(());
    }
    if there.len() >= limits::COMMANDS_PENDING_MAX {
        return Err(Error::InboxFull { run: run.clone(), max: limits::COMMANDS_PENDING_MAX });
    }
    let now = nanos_now();
    let path = dir.join(format!("{now:020}-{command}"));
    let temporary = dir.join(format!("{TEMPORARY}{now}-{}-{command}", std::process::id()));
    disk::write_whole(disk, &temporary, &path, body).map_err(|error| Error::io("write", path, error))
}

pub(crate) fn pending(disk: &dyn Disk, dir: &Path) -> Result<Vec<Posted>, Error> {
    let mut seen = HashSet::new();
    let mut posted = Vec::new();
    for (id, path) in list(dir)? {
        match disk::read_whole(disk, &path, limits::COMMAND_BYTES_MAX) {
            Ok(body) if seen.insert(id.clone()) => posted.push(Posted { id, body }),
            Ok(_) => {}
            // Settled between the listing and the reading.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Somebody else's, too large, or damaged: no reason to hold up the run. No command is empty, so whoever gets
            // this sees that it could not be read.
            Err(_) if seen.insert(id.clone()) => posted.push(Posted { id, body: Vec::new() }),
            Err(_) => {}
        }
    }
    Ok(posted)
}

pub(crate) fn settle(disk: &dyn Disk, dir: &Path, command: &CommandId) -> Result<(), Error> {
    // Not synced: a command that comes back after a crash is known by its id and applied no second time.
    for (_, path) in list(dir)?.into_iter().filter(|(id, _)| id == command) {
        match disk.remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io("remove", path, error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

pub(crate) fn check_size(body: &[u8]) -> Result<(), Error> {
    let (bytes, max) = (body.len() as u64, limits::COMMAND_BYTES_MAX as u64);
    if bytes > max { Err(Error::TooLarge { what: "a command", bytes, max }) } else { Ok(()) }
}

pub(crate) fn nanos_now() -> u128 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// Oldest first. What is not a command's name, or no file, is not ours to judge and is left alone.
fn list(dir: &Path) -> Result<Vec<(CommandId, PathBuf)>, Error> {
    let failed = |error| Error::io("list", dir, error);
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let parsed = name.to_str().and_then(|name| {
            let (nanos, id) = name.split_once('-')?;
            Some((nanos.parse::<u128>().ok()?, CommandId::parse(id).ok()?))
        });
        let can_be_file = entry.file_type().is_ok_and(|kind| kind.is_file() || kind.is_symlink());
        if let Some((nanos, id)) = parsed.filter(|_| can_be_file) {
            found.push((nanos, id, entry.path()));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, id, path)| (id, path)).collect())
}
