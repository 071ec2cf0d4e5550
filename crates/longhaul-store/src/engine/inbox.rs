//! Commands left for a run, one file each. Owns their names and their order; does not read what they say.
//!
//! A file is `<nanoseconds since 1970>-<command id>`, so that names sort by posting time. Two processes that post the
//! same id at the same moment may leave two files: they are shown as one and settled together.
//!
//! Beside them are a few files of zeros, `.reserve-<number>`: on a full disk a command is written over one of them, so that a
//! run can still be paused, stopped or answered. They are made with the run, again when one was used, and go when it ends.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use longhaul_core::ids::{CommandId, RunId};

use super::disk::{self, Access, Disk};
use super::is_absent;
use crate::error::{Error, is_no_space};
use crate::journal::Posted;
use crate::limits;

pub(crate) const TEMPORARY: &str = ".tmp-";

const ZEROS: &[u8] = &[0; limits::COMMAND_RESERVE_BYTES];

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
    match disk::write_whole(disk, &temporary, &path, body) {
        Err(source) if is_no_space(&source) => match write_over_reserve(disk, dir, &temporary, &path, body) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Error::NoRoomForCommand { run: run.clone(), source }),
            Err(source) if is_no_space(&source) => Err(Error::NoRoomForCommand { run: run.clone(), source }),
            Err(error) => Err(Error::io("write", path, error)),
        },
        written => written.map_err(|error| Error::io("write", path, error)),
    }
}

/// Sees to it that commands can be left also when the disk is full. What there is no space for now is set aside when this is next
/// asked for. Not synced: the space is taken, and only a crash could give it back.
pub(crate) fn keep_reserve(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    for place in reserve(dir).filter(|place| fs::symlink_metadata(place).is_err()) {
        // Whoever takes one writes over it, so it gets its name only when nobody writes to it any more.
        let temporary = dir.join(format!("{TEMPORARY}{}-{}-reserve", nanos_now(), std::process::id()));
        let made = disk.open(&temporary, Access::CreateNew).and_then(|file| {
            disk::write_all(&*file, ZEROS, 0).map_err(|failed| failed.source)?;
            disk.rename(&temporary, &place)
        });
        if let Err(error) = made {
            let _ = disk.remove_file(&temporary);
            return if is_no_space(&error) { Ok(()) } else { Err(error) };
        }
    }
    Ok(())
}

/// Nobody leaves commands with a run that has ended.
pub(crate) fn give_back_reserve(disk: &dyn Disk, dir: &Path) {
    for place in reserve(dir).filter(|place| fs::symlink_metadata(place).is_ok()) {
        // Only space is left behind if this fails.
        let _ = disk.remove_file(&place);
    }
}

fn reserve(dir: &Path) -> impl Iterator<Item = PathBuf> {
    (1..=limits::COMMANDS_RESERVED).map(|number| dir.join(format!(".reserve-{number}")))
}

/// Writes a file without needing new space, in place of one that was set aside; false if there is none or it is too small.
fn write_over_reserve(
    disk: &dyn Disk,
    dir: &Path,
    temporary: &Path,
    path: &Path,
    body: &[u8],
) -> io::Result<bool> {
    if body.len() > ZEROS.len() {
        return Ok(false);
    }
    for place in reserve(dir) {
        // Of two who want the same one, one gets it.
        match disk.rename(&place, temporary) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            taken => taken?,
        }
        let written = disk.open(temporary, Access::Write).and_then(|file| {
            disk::write_all(&*file, body, 0).map_err(|failed| failed.source)?;
            file.set_len(body.len() as u64)?;
            file.sync_data()
        });
        if let Err(error) = written.and_then(|()| disk.rename(temporary, path)) {
            // The name was never given, so what is left is only space; a sweep gets it if this does not.
            let _ = disk.remove_file(temporary);
            return Err(error);
        }
        return disk.sync_dir(dir).map(|()| true);
    }
    Ok(false)
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
    // Settled all the same; the next opener sees to it.
    let _ = keep_reserve(disk, dir);
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
    let entries = match fs::read_dir(dir) {
        // Nobody has left anything.
        Err(error) if is_absent(&error) => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
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
