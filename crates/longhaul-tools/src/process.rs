//! The processes of a call, and their end.
//!
//! Owns killing all of them, also those that left the process group: a group kill misses whatever called `setsid`, so
//! what carries the call's marker in its environment is looked for as well, with all its descendants, until nothing is
//! left. A process that left its session, lost its parents *and* wiped its environment is not found that way; in a process
//! namespace the kernel ends it with the others, and the looking only makes sure that it is over. Refuses to kill ourselves, our ancestors, or a number without a process.

use std::collections::BTreeSet;
use std::thread;

use longhaul_core::ids::RunId;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::limits;
use crate::table::{self, Belongs, search};

/// Environment variables that mark the processes of a run and of one call.
/// In the environment of every process that is started for a run, by which what is left of them is found.
pub const RUN_MARKER: &str = "LONGHAUL_RUN";
pub(crate) const CALL_MARKER: &str = "LONGHAUL_CALL";

/// Kills what is left of a run's tool calls after the harness that started them was killed. Call it before recovery and
/// while no call of the run is under way; it may take two seconds. Answers how many processes were killed.
pub fn reap_leftovers(run: &RunId) -> usize {
    reap(run, false)
}

/// The same of a run and of all below it.
pub fn reap_leftovers_of_tree(run: &RunId) -> usize {
    reap(run, true)
}

fn reap(run: &RunId, with_below: bool) -> usize {
    let marker = format!("{RUN_MARKER}={run}");
    kill_all(&Belongs { marker: &marker, with_below, leader: None, since: 0 }).killed
}

/// What killing came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Killed {
    pub(crate) killed: usize,
    /// Processes that hang in the kernel and will end when it lets go of them.
    pub(crate) survivors: usize,
}

/// How far a call's processes can be from the one we started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// In its group, or wherever they have gone.
    Group,
    /// In a namespace that ends with it.
    Namespace,
}

/// All processes of one call. Dropped before its end, it kills them: a call that is abandoned leaves nothing running.
pub(crate) struct Tree {
    leader: Pid,
    marker: String,
    reach: Reach,
    /// When the leader was started. All others are younger, so a machine with many processes is not asked about each.
    since: u64,
    ended: bool,
}

impl Tree {
    /// The tree of a process that we started and have not collected yet.
    pub(crate) fn new(leader: Pid, key: &str, reach: Reach) -> Tree {
        let since = table::started(leader.as_raw_pid());
        Tree { leader, marker: format!("{CALL_MARKER}={key}"), reach, since, ended: false }
    }

    pub(crate) fn reach(&self) -> Reach {
        self.reach
    }

    /// Asks them to end.
    pub(crate) fn terminate(&self) {
        match self.reach {
            // An empty group is what we want.
            Reach::Group => drop(kill_process_group(self.leader, Signal::TERM)),
            // The leader would take all others with it at once.
            Reach::Namespace => {
                let inside = search(&self.belongs()).found.into_iter();
                inside
                    .filter(|process| process.pid != self.leader.as_raw_pid())
                    .for_each(|process| process.terminate());
            }
        }
    }

    /// Kills everything and waits until it is gone. Blocks for two seconds at most.
    pub(crate) fn kill(mut self) -> Killed {
        self.ended = true;
        self.kill_all()
    }

    fn kill_all(&self) -> Killed {
        if cfg!(not(target_os = "linux")) {
            // All we have there. That the number was given away since the group ended cannot be excluded.
            kill_process_group(self.leader, Signal::KILL).ok();
        }
        kill_all(&self.belongs())
    }

    fn belongs(&self) -> Belongs<'_> {
        let leader = Some(self.leader.as_raw_pid());
        Belongs { marker: &self.marker, with_below: false, leader, since: self.since }
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if !self.ended {
            self.kill_all();
        }
    }
}

/// A process may start another between our look and its death, hence the rounds.
fn kill_all(belongs: &Belongs<'_>) -> Killed {
    let mut killed = BTreeSet::new();
    let mut clean_rounds = 0;
    for round in 0..limits::KILL_ROUNDS_MAX {
        let search = search(belongs);
        for process in &search.found {
            process.kill();
            killed.insert(process.pid);
        }
        clean_rounds = if search.found.is_empty() { clean_rounds + 1 } else { 0 };
        if clean_rounds == 2 || (clean_rounds == 1 && !search.undecided) {
            return Killed { killed: killed.len(), survivors: 0 };
        }
        // Most are gone at once; what is not is looked for less and less often.
        thread::sleep(limits::KILL_ROUND_PAUSE.min(limits::KILL_FIRST_PAUSE * (1 << round.min(8))));
    }
    let survivors = search(belongs).found.len();
    Killed { killed: killed.len().saturating_sub(survivors), survivors }
}
