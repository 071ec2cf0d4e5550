//! The last stage before a command: our own program, started again inside, takes its own rights away and becomes the
//! command.
//!
//! Owns the order: descriptors, privileges, limits, Landlock, seccomp, then exec; each of them is inherited by everything
//! the command starts and cannot be taken back. Refuses to go on when a capability is left, or when a layer that the
//! kernel has could not be put on: what is then not run cannot do harm.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::orders::{Limits, Orders};
use super::{landlock, relay, seccomp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit, setsid,
};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set};
use rustix::thread::{clear_ambient_capability_set, set_capabilities, set_no_new_privs};

/// Why a command was not started.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    #[error("the sandbox's last stage was not told what to do")]
    Orders,
    #[error("{} was exchanged for something else while the sandbox was made", .0.display())]
    Exchanged(PathBuf),
    #[error("whoever started the command is gone")]
    Orphaned,
    #[error("capabilities are left inside the sandbox")]
    Capabilities,
    #[error("cannot {0} inside the sandbox")]
    Kernel(&'static str, #[source] io::Error),
    #[error("cannot apply {0} inside the sandbox: {1}")]
    Layer(&'static str, String),
    #[error("{}: {source}", program.to_string_lossy())]
    Exec { program: OsString, source: io::Error },
}

/// Becomes the command: `arguments` are the orders, `--`, the program and its own. Comes back only with an error.
pub fn enter(arguments: impl IntoIterator<Item = OsString>) -> Result<Infallible, EnterError> {
    let mut arguments = arguments.into_iter();
    let orders = arguments.next().and_then(|text| text.into_string().ok());
    let orders =
        orders.and_then(|text| serde_json::from_str::<Orders>(&text).ok()).ok_or(EnterError::Orders)?;
    let (Some(dashes), Some(program)) = (arguments.next(), arguments.next()) else {
        return Err(EnterError::Orders);
    };
    if dashes != OsStr::new("--") {
        return Err(EnterError::Orders);
    }
    // Whoever started us may have left anything open; it stays open for no one else.
    close_fds::set_fds_cloexec(3, &[]);
    check_mounts(&orders)?;
    write_files(&orders.files).map_err(|error| EnterError::Kernel("write its files", error))?;
    restrict(&orders)?;
    if orders.relay {
        relay::start().map_err(|error| EnterError::Kernel("lead to the proxy", error))?;
    }
    // From here on its death is ours. If it died while the sandbox was being made, nobody would end the command.
    if is_unheard(&[io::stdout().as_fd(), io::stderr().as_fd()]) {
        return Err(EnterError::Orphaned);
    }
    let source = Command::new(&program).args(arguments).exec();
    Err(EnterError::Exec { program, source })
}

/// Has whoever reads what is written to one of these gone away?
fn is_unheard(ends: &[BorrowedFd<'_>]) -> bool {
    let mut ends: Vec<PollFd<'_>> =
        ends.iter().map(|end| PollFd::from_borrowed_fd(*end, PollFlags::empty())).collect();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let looked = poll(&mut ends, Some(&at_once)).is_ok();
    looked && ends.iter().any(|end| end.revents().intersects(PollFlags::ERR | PollFlags::HUP))
}

fn write_files(files: &BTreeMap<PathBuf, String>) -> io::Result<()> {
    for (path, text) in files {
        match fs::write(path, text) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(path, text)?;
            }
            written => written?,
        }
    }
    Ok(())
}

/// Bubblewrap follows links, both to what it mounts and to where. A link that was put there meanwhile shows as another inode
/// where something was to be mounted, as nothing mounted there, or as a mount where none was to be.
fn check_mounts(orders: &Orders) -> Result<(), EnterError> {
    if orders.seen.is_empty() {
        return Ok(());
    }
    let table = fs::read_to_string("/proc/self/mountinfo")
        .map_err(|error| EnterError::Kernel("look at its mounts", error))?;
    let mounted: BTreeSet<PathBuf> =
        table.lines().filter_map(|line| line.split(' ').nth(4)).map(unescaped).collect();
    let is_expected = |place: &PathBuf| {
        let nearest = place.ancestors().find_map(|path| orders.mounts.get(path).map(|binds| (path, *binds)));
        let own = ["/", "/proc", "/dev", "/run"].iter().any(|own| place == Path::new(own))
            || ["/proc", "/dev", "/run"].iter().any(|own| place.starts_with(own));
        own || nearest.is_some_and(|(path, binds)| binds || path == place)
    };
    if let Some(place) = mounted.iter().find(|place| !is_expected(place)) {
        return Err(EnterError::Exchanged(place.clone()));
    }
    for seen in &orders.seen {
        let found = fs::symlink_metadata(&seen.path);
        let same = found.is_ok_and(|found| (found.dev(), found.ino()) == (seen.device, seen.inode));
        if !same || !mounted.contains(&seen.path) {
            return Err(EnterError::Exchanged(seen.path.clone()));
        }
    }
    Ok(())
}

/// A path of the kernel's table, which writes blanks and the like as `\040`.
fn unescaped(text: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()).filter(|_| *first == b'\\') {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn restrict(orders: &Orders) -> Result<(), EnterError> {
    let kernel = |what| move |errno: rustix::io::Errno| EnterError::Kernel(what, errno.into());
    set_no_new_privs(true).map_err(kernel("give up new privileges"))?;
    if !orders.namespaces {
        // With a session of its own there is no terminal to type into; one that has it already has none either.
        setsid().ok();
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(kernel("die with its parent"))?;
        drop_capabilities()?;
    }
    let left = capabilities(None).map_err(kernel("look at its capabilities"))?;
    if !left.effective.is_empty() || !left.permitted.is_empty() {
        return Err(EnterError::Capabilities);
    }
    limit(&orders.limits).map_err(kernel("limit itself"))?;
    landlock::apply(orders).map_err(|error| EnterError::Layer("Landlock", error))?;
    seccomp::apply(orders.internet).map_err(|error| EnterError::Layer("seccomp", error))
}

/// Without the bounding set, root gets nothing back when it starts a program.
fn drop_capabilities() -> Result<(), EnterError> {
    for bit in 0..u64::BITS {
        // The kernel knows fewer than the set has room for, and an ordinary user may not drop any and has none.
        remove_capability_from_bounding_set(CapabilitySet::from_bits_retain(1 << bit)).ok();
    }
    clear_ambient_capability_set().ok();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(|errno| EnterError::Kernel("drop its capabilities", errno.into()))
}

fn limit(limits: &Limits) -> rustix::io::Result<()> {
    let bounds = [
        (Resource::Core, 0),
        (Resource::Data, limits.memory_bytes),
        (Resource::Nproc, limits.processes),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Nofile, limits.open_files),
    ];
    for (resource, bound) in bounds {
        // What was bounded lower already stays so.
        let now = getrlimit(resource);
        let lower = |now: Option<u64>| Some(now.map_or(bound, |now| now.min(bound)));
        setrlimit(resource, Rlimit { current: lower(now.current), maximum: lower(now.maximum) })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F40: a command whose harness died while its sandbox was being made is not begun.
    #[test]
    fn nobody_hears_who_writes_to_a_pipe_without_a_reader() {
        let (reader, writer) = io::pipe().unwrap();
        let nowhere = fs::OpenOptions::new().write(true).open("/dev/null").unwrap();
        assert!(!is_unheard(&[writer.as_fd(), nowhere.as_fd()]));
        drop(reader);
        assert!(is_unheard(&[nowhere.as_fd(), writer.as_fd()]));
    }
}
