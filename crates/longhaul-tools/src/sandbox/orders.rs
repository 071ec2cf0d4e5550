//! What the outer stage tells the inner one, which is the same program started again.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::limits;

/// The word by which our program is told to be the inner stage.
pub const ENTER: &str = "__sandbox";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Orders {
    /// Bubblewrap has made a world of its own around us; otherwise we are on the machine itself.
    pub(super) namespaces: bool,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// May talk IP: to a loopback of its own, or to everybody.
    pub(super) internet: bool,
    /// There is a way out to be led to.
    pub(super) relay: bool,
    /// Small files to be made first, in places that are private to the command.
    pub(super) files: BTreeMap<PathBuf, String>,
    pub(super) limits: Limits,
    /// What must be where it was when it was looked at.
    #[serde(default)]
    pub(super) seen: Vec<Seen>,
    /// Where there may be mounts, and whether something of the machine, with mounts of its own below, is mounted there.
    #[serde(default)]
    pub(super) mounts: BTreeMap<PathBuf, bool>,
}

/// A file or directory, by what the kernel knows it as.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) path: PathBuf,
    pub(super) device: u64,
    pub(super) inode: u64,
}

/// Bounds of the kernel: for each process, but the number of processes, which is that of the whole sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Limits {
    pub(super) memory_bytes: u64,
    pub(super) processes: u64,
    pub(super) file_bytes: u64,
    pub(super) cpu_seconds: u64,
    pub(super) open_files: u64,
}

impl Limits {
    /// Those for this machine.
    pub(super) fn here() -> Limits {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64);
        Limits {
            memory_bytes: (machine_memory() / 2).max(limits::COMMAND_MEMORY_BYTES_MIN),
            processes: limits::COMMAND_PROCESSES_MAX,
            file_bytes: limits::COMMAND_FILE_BYTES_MAX,
            cpu_seconds: limits::COMMAND_TIME_MAX.as_secs() * cores,
            open_files: limits::COMMAND_OPEN_FILES_MAX,
        }
    }
}

#[cfg(target_os = "linux")]
fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    u64::from(info.mem_unit).saturating_mul(info.totalram)
}

#[cfg(not(target_os = "linux"))]
fn machine_memory() -> u64 {
    0
}
