//! Whether processes that we have started do anything.
//!
//! Owns reading what the kernel tells of a group of processes: whether one of them runs or waits for a disk, and how much they
//! have worked so far. Refuses to guess where the kernel does not tell.

use std::fs;
use std::path::Path;

/// What a group of processes does.
pub(crate) enum Activity {
    /// One of them runs, or waits for a disk.
    AtWork,
    /// All of them wait. So much have they used of the processor until now, in the kernel's own units.
    Used(u64),
    Unknown,
}

/// What the processes of a group do, by the number of the group.
pub(crate) fn of_group(group: u32) -> Activity {
    let Ok(processes) = fs::read_dir("/proc") else { return Activity::Unknown };
    let is_number = |name: &str| name.bytes().all(|letter| letter.is_ascii_digit());
    let places = processes.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_number));
    let found: Vec<_> = places.map(|entry| entry.path()).filter(|place| is_of(place, group)).collect();
    let threads =
        found.iter().flat_map(|place| fs::read_dir(place.join("task")).into_iter().flatten().flatten());
    let threads: Vec<Facts> = threads.filter_map(|thread| facts(&thread.path())).collect();
    match threads.iter().any(|thread| matches!(thread.state, b'R' | b'D')) {
        _ if threads.is_empty() => Activity::Unknown,
        true => Activity::AtWork,
        false => Activity::Used(threads.iter().map(|thread| thread.ticks).sum()),
    }
}

fn is_of(place: &Path, group: u32) -> bool {
    facts(place).is_some_and(|facts| facts.group == group)
}

struct Facts {
    state: u8,
    group: u32,
    ticks: u64,
}

/// What `proc(5)` calls `stat`. A program may have any name, also one with brackets and spaces.
fn facts(place: &Path) -> Option<Facts> {
    let text = fs::read(place.join("stat")).ok()?;
    let after_name = text.iter().rposition(|byte| *byte == b')')? + 1;
    let text = String::from_utf8_lossy(&text[after_name..]).into_owned();
    let words: Vec<&str> = text.split_whitespace().collect();
    let number = |index: usize| words.get(index)?.parse::<u64>().ok();
    let state = *words.first()?.as_bytes().first()?;
    Some(Facts { state, group: u32::try_from(number(2)?).ok()?, ticks: number(11)? + number(12)? })
}
