//! Which process, on which host. Owns the question whether a process that once wrote down its name still lives.

use std::fs;

/// This host's name, as locks show it.
pub fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// When a process of this host started, in the kernel's ticks since boot; nothing if there is no such process. Two
/// processes that had the same number one after the other differ in this.
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything, so fields are counted from the last parenthesis: state is the third.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
