//! Whether this process was started by an agent's own command.
//!
//! A tool's commands carry a marker in their environment, which their children inherit. One that was taken out of a child is
//! still with its parents. This is a lock on a door, not a wall: a process that leaves its parents is not found.

use std::fs;

/// How many parents are looked at; a shell in a shell in a script is far less.
const PARENTS_MAX: usize = 64;

/// What marks an agent's commands, and the servers that are started for a run.
const MARKERS: [&str; 2] = ["LONGHAUL_CALL=", "LONGHAUL_RUN="];

/// Whether an agent's command is this process or one of its parents.
pub fn is_agents() -> bool {
    let marked = |environment: &[u8]| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.any(|entry| MARKERS.iter().any(|marker| entry.starts_with(marker.as_bytes())))
    };
    if MARKERS.iter().any(|marker| std::env::var_os(marker.trim_end_matches('=')).is_some()) {
        return true;
    }
    let parents = std::iter::successors(parent("self"), |process| parent(process)).take(PARENTS_MAX);
    let mut environments = parents.filter_map(|process| fs::read(format!("/proc/{process}/environ")).ok());
    environments.any(|environment| marked(&environment))
}

/// The parent's number, which comes second after the name in its parentheses.
fn parent(process: &str) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let after_name = stat.rsplit_once(')')?.1;
    after_name.split_whitespace().nth(1).filter(|parent| *parent != "0").map(str::to_owned)
}
