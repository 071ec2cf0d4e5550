//! The processes of this machine, as `/proc` shows them.
//!
//! Owns one snapshot and the questions asked of it. Refuses to trust a number: processes end and their numbers are given
//! away again, so each is known by its number and its start time together. Other systems than Linux have no `/proc`;
//! there the table is empty, and only process groups are killed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;

use rustix::io::Errno;
use rustix::process::{Pid, Signal};

use crate::limits;

/// The kernel's own mark for its threads, among the flags it shows.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// More than the kernel says of a process: some fifty numbers and a name.
const STAT_BYTES_MAX: usize = 4096;

/// One process that was alive at the snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    group: i32,
    session: i32,
    started: u64,
    /// A thread of the kernel itself, which has no environment and belongs to nobody.
    kernel: bool,
}

/// What makes a process belong to a call or a run.
pub(crate) struct Belongs<'a> {
    /// An entry of its environment: `LONGHAUL_CALL=<key>`.
    pub(crate) marker: &'a str,
    /// Also with what a run below that one has there: `LONGHAUL_RUN=<run>.1`.
    pub(crate) with_below: bool,
    /// The leader of its process group or session.
    pub(crate) leader: Option<i32>,
    /// When the first of them was started, as [`started`] answers it: what is older is not asked.
    pub(crate) since: u64,
}

impl Belongs<'_> {
    fn is_marked(&self, entry: &[u8]) -> bool {
        match entry.strip_prefix(self.marker.as_bytes()) {
            Some([]) => true,
            Some([b'.', ..]) => self.with_below,
            Some(_) | None => false,
        }
    }
}

/// The processes found, and whether some could not be judged yet because they were just starting a program.
pub(crate) struct Search {
    pub(crate) found: Vec<Process>,
    pub(crate) undecided: bool,
}

/// All processes that belong, with their descendants; never ourselves or our ancestors.
pub(crate) fn search(belongs: &Belongs<'_>) -> Search {
    let table = snapshot();
    let spared = ancestors(&table, std::process::id().cast_signed());
    let mut undecided = false;
    let mut found = BTreeSet::new();
    let may_belong = |process: &&Process| {
        process.started >= belongs.since && !process.kernel && !spared.contains(&process.pid)
    };
    for process in table.values().filter(may_belong) {
        let environment = environment(process.pid);
        undecided |= environment.is_empty();
        let led = belongs.leader.is_some_and(|leader| process.group == leader || process.session == leader);
        if led || environment.split(|byte| *byte == 0).any(|entry| belongs.is_marked(entry)) {
            found.insert(process.pid);
        }
    }
    add_descendants(&table, &spared, &mut found);
    let found = found.iter().filter_map(|pid| table.get(pid).cloned()).collect();
    Search { found, undecided }
}

impl Process {
    /// Kills exactly this process.
    pub(crate) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Asks exactly this process to end.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// The handle is taken first, then it is made sure that it is still the same process.
    #[cfg(target_os = "linux")]
    fn signal(&self, signal: Signal) {
        use rustix::process::{PidfdFlags, kill_process, pidfd_open, pidfd_send_signal};

        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let handle = pidfd_open(pid, PidfdFlags::empty());
        if read_process(self.pid).is_none_or(|now| now.started != self.started) {
            return;
        }
        // What cannot be signalled is still there in the next round, and reported in the end.
        match handle {
            Ok(handle) => pidfd_send_signal(handle, signal).ok(),
            Err(Errno::NOSYS) => kill_process(pid, signal).ok(),
            Err(_) => None,
        };
    }

    #[cfg(not(target_os = "linux"))]
    fn signal(&self, _signal: Signal) {}
}

/// When a process was started, in the kernel's ticks; 0, which is before all others, where that is not known. Also for one that
/// is dead and was not collected.
pub(crate) fn started(pid: i32) -> u64 {
    read_stat(pid).map_or(0, |(_, process)| process.started)
}

fn snapshot() -> BTreeMap<i32, Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(read_process).map(|process| (process.pid, process)).collect()
}

/// `None` for a process that is gone, also for one that is dead and only waits to be collected by its parent.
fn read_process(pid: i32) -> Option<Process> {
    read_stat(pid).filter(|(state, _)| !matches!(state, 'Z' | 'X')).map(|(_, process)| process)
}

/// A process and its state's letter.
fn read_stat(pid: i32) -> Option<(char, Process)> {
    // One read tells all of it: this is done for every process of the machine.
    let mut buffer = [0; STAT_BYTES_MAX];
    let count = fs::File::open(format!("/proc/{pid}/stat")).ok()?.read(&mut buffer).ok()?;
    let stat = &buffer[..count];
    // The name in parentheses may contain anything, also spaces and parentheses.
    let after_name = stat.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = str::from_utf8(&stat[after_name..]).ok()?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |index: usize| fields.get(index)?.parse::<i32>().ok();
    let state = fields.first()?.chars().next()?;
    let started = fields.get(19)?.parse().ok()?;
    let kernel = fields.get(6)?.parse::<u64>().ok()? & KERNEL_THREAD != 0;
    Some((
        state,
        Process { pid, parent: number(1)?, group: number(2)?, session: number(3)?, started, kernel },
    ))
}

/// Empty when it may not be read, for kernel threads, and for a moment while a program is started.
fn environment(pid: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = fs::File::open(format!("/proc/{pid}/environ")) {
        file.take(limits::ENVIRON_BYTES_MAX).read_to_end(&mut bytes).ok();
    }
    bytes
}

fn ancestors(table: &BTreeMap<i32, Process>, pid: i32) -> BTreeSet<i32> {
    let mut line = BTreeSet::from([pid, 1]);
    let mut here = pid;
    for _ in 0..limits::ANCESTORS_MAX {
        let Some(process) = table.get(&here) else { break };
        line.insert(process.parent);
        here = process.parent;
    }
    line
}

fn add_descendants(table: &BTreeMap<i32, Process>, spared: &BTreeSet<i32>, found: &mut BTreeSet<i32>) {
    loop {
        let is_new = |process: &&Process| {
            found.contains(&process.parent) && !found.contains(&process.pid) && !spared.contains(&process.pid)
        };
        let more: Vec<i32> = table.values().filter(is_new).map(|process| process.pid).collect();
        if more.is_empty() {
            return;
        }
        found.extend(more);
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::process::Command;

    /// A process is found by its marker if it is young enough, also before it is collected, and what is older is not asked.
    #[test]
    fn what_is_older_than_the_first_does_not_belong() {
        let marker = format!("LONGHAUL_CALL=table-{}", std::process::id());
        let (name, value) = marker.split_once('=').unwrap();
        let mut child = Command::new("sleep").arg("600").env(name, value).spawn().unwrap();
        let pid = child.id().cast_signed();
        let since = started(pid);
        let found = |since| {
            let belongs = Belongs { marker: &marker, with_below: false, leader: None, since };
            // Until it has become the program, it has our environment. Somebody else's may have none at all, for ever.
            let rounds = || std::iter::repeat_with(|| search(&belongs)).take(100);
            let search = rounds().find(|search| !search.undecided).or_else(|| rounds().last()).unwrap();
            search.found.iter().map(|process| process.pid).collect::<Vec<_>>()
        };
        assert_eq!((found(since), found(0)), (vec![pid], vec![pid]));
        assert_eq!(found(since + 1), Vec::<i32>::new());
        child.kill().unwrap();
        // Dead and not collected, it still says when it was started, and belongs no more.
        while read_process(pid).is_some() {
            std::thread::yield_now();
        }
        assert_eq!((started(pid), found(since)), (since, vec![]));
        child.wait().unwrap();
        assert_eq!(started(pid), 0);
    }
}
