//! Whole processes: how much they weigh, how fast they start, what they leave behind. Read from `/proc`.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Instant;

use longhaul_core::spec::Autonomy;
use longhaul_store::{Engine, Store};
use serde::de::IgnoredAny;

use super::ground::{Ground, SHORT_SCRIPT, SLOW_SCRIPT};
use super::recovery::{Process, within};
use super::report::{Row, Target};
use super::rig::Rig;
use super::sizes::Sizes;
use super::stats::{median, millis};
use crate::failure::Failure;

/// A process as the kernel sees it.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    pub rss_kib: u64,
    /// The part of it that no other process of the same program shares.
    pub private_kib: u64,
    pub peak_kib: u64,
    pub threads: u64,
}

impl Status {
    pub fn of_self() -> io::Result<Status> {
        Status::read("/proc/self/status")
    }

    fn of(pid: u32) -> io::Result<Status> {
        Status::read(&format!("/proc/{pid}/status"))
    }

    fn read(path: &str) -> io::Result<Status> {
        let text = fs::read_to_string(path)?;
        let field =
            |name| number_after(&text, name).ok_or_else(|| io::Error::other(format!("{path} has no {name}")));
        Ok(Status {
            rss_kib: field("VmRSS:")?,
            private_kib: field("RssAnon:")?,
            peak_kib: field("VmHWM:")?,
            threads: field("Threads:")?,
        })
    }
}

/// Bytes this process caused to be sent to the disk so far.
pub fn written_bytes() -> io::Result<u64> {
    let text = fs::read_to_string("/proc/self/io")?;
    number_after(&text, "\nwrite_bytes:").ok_or_else(|| io::Error::other("/proc/self/io has no write_bytes"))
}

/// A process whose run waits for its model: all that is mapped of it, program included, and what is its own.
pub fn idle(ground: &Ground) -> Result<[Row; 2], Failure> {
    let state_dir = ground.place("idle")?;
    let model = format!("scripted/{SLOW_SCRIPT}");
    let process =
        Process::start(ground.longhaul(&state_dir)?.args(["run", "wait", "--in-place", "--model", &model]))?;
    let engine = Engine::new(&state_dir);
    let id = within(|| Ok(engine.runs()?.pop()))?;
    within(|| {
        let mut seq = 0;
        longhaul_engine::Onlooker::new(&engine, &id)?.look(&mut |_, at, _, _| seq = at)?;
        Ok((seq > 2).then_some(()))
    })?;
    let status = Status::of(process.id())?;
    let mib = |kib: u64| kib as f64 / 1024.0;
    let about = "memory of a process whose run waits for its model";
    Ok([
        Row::new("idle_memory", about, mib(status.rss_kib), "MiB").target(Target::AtMost(8.0)),
        Row::new("idle_private", "of that, not the program's own file", mib(status.private_kib), "MiB"),
    ])
}

/// From nothing to an answer.
pub fn start(ground: &Ground, sizes: &Sizes) -> Result<Row, Failure> {
    let mut times = Vec::new();
    for _ in 0..sizes.starts {
        let mut command = ground.longhaul(ground.dir())?;
        let started = Instant::now();
        command.arg("--version").status()?;
        times.push(millis(started.elapsed()));
    }
    Ok(Row::new("start", "`longhaul --version`, from start to end", median(&times), "ms")
        .target(Target::AtMost(10.0)))
}

/// All runs told, from the start of a process to its end.
pub fn list(ground: &Ground, sizes: &Sizes) -> Result<Row, Failure> {
    let rig = Rig::new(ground, "listed")?;
    for _ in 0..sizes.listed {
        rig.create(Autonomy::default())?;
    }
    let mut times = Vec::new();
    for _ in 0..sizes.starts {
        let mut command = ground.longhaul(&ground.dir().join("listed"))?;
        let started = Instant::now();
        let listed = command.args(["list", "--json"]).stdout(Stdio::piped()).output()?;
        times.push(millis(started.elapsed()));
        let listed: Vec<IgnoredAny> = serde_json::from_slice(&listed.stdout).map_err(anyhow::Error::from)?;
        if listed.len() != sizes.listed {
            return Err(anyhow::anyhow!("{} of {} runs were listed", listed.len(), sizes.listed).into());
        }
    }
    let about = format!("`longhaul list` over {} runs, from start to end", sizes.listed);
    Ok(Row::new("list", about, median(&times), "ms").target(Target::AtMost(100.0)))
}

/// A run with `harness.enabled: false`, and what it left behind.
pub fn forgetful(ground: &Ground) -> Result<Row, Failure> {
    let place = ground.place("forgetful")?;
    fs::create_dir(place.join(".git"))?;
    fs::write(place.join("longhaul.yaml"), "harness: { enabled: false }\n")?;
    fs::copy(ground.dir().join(SHORT_SCRIPT), place.join(SHORT_SCRIPT))?;
    let before = files(&place)?;
    let model = format!("scripted/{SHORT_SCRIPT}");
    let ended = ground
        .longhaul(&place.join(".longhaul"))?
        .current_dir(&place)
        .args(["run", "leave no trace", "--model", &model])
        .status()?;
    if !ended.success() {
        return Err(anyhow::anyhow!("a run with `harness.enabled: false` did not complete").into());
    }
    let made = files(&place)?.difference(&before).count();
    Ok(Row::new("forgetful_files", "files written with `harness.enabled: false`", made as f64, "")
        .target(Target::Exactly(0.0)))
}

/// Everything below a directory.
fn files(dir: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                open.push(entry.path());
            }
            found.insert(entry.path());
        }
    }
    Ok(found)
}

fn number_after(text: &str, name: &str) -> Option<u64> {
    text.split_once(name)?.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_name() {
        assert_eq!(number_after("VmHWM:\t 12 kB\nVmRSS:\t 7 kB\n", "VmRSS:"), Some(7));
        assert_eq!(number_after("VmHWM:\t 12 kB\n", "Threads:"), None);
    }
}
