//! Which process holds something, told so that another one can see whether it still lives.
//!
//! A number alone says little: it is given away again. So a process is known by its number, its start time and its host
//! together. Refuses to doubt what is on another host: nobody can tell from here.

use std::fs;

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

/// A process of some host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pub pid: i32,
    /// In ticks since the host started, as `/proc` has it; 0 where there is none.
    pub started: u64,
    pub host: String,
}

impl Process {
    /// This one.
    pub fn own() -> Process {
        let pid = i32::try_from(std::process::id()).unwrap_or(0);
        Process { pid, started: started(pid).unwrap_or(0), host: host() }
    }

    /// Is it, or was it, on this host?
    pub fn is_here(&self) -> bool {
        self.host == host()
    }

    /// Is it known to be over? What is on another host is not known to be.
    pub fn is_over(&self) -> bool {
        if !self.is_here() {
            return false;
        }
        // Another process with its number has another start time.
        is_gone(self.pid) || (self.started != 0 && started(self.pid).is_some_and(|now| now != self.started))
    }
}

/// Is there no process of this number?
pub(crate) fn is_gone(pid: i32) -> bool {
    Pid::from_raw(pid).is_none_or(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// The 22nd word of `/proc/PID/stat`, counted after the name, which may have spaces and brackets of its own.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_told_from_the_next_of_its_number() {
        let own = Process::own();
        assert!(!own.is_over());
        assert!(Process { started: own.started + 1, ..own.clone() }.is_over());
        assert!(!Process { pid: i32::MAX, host: "elsewhere".to_owned(), ..own.clone() }.is_over());
        assert!(Process { pid: i32::MAX, ..own }.is_over());
    }
}
