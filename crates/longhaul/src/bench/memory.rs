//! What runs cost in memory: those that wait, and one whose journal is long.

use std::process::Stdio;
use std::time::Instant;

use longhaul_core::ids::RunId;
use longhaul_core::spec::Autonomy;
use longhaul_core::time::Timestamp;
use longhaul_engine::fold::Fold;
use longhaul_store::{Engine, Store, Writer};
use serde::{Deserialize, Serialize};

use super::ground::Ground;
use super::machine::{EVENTS_PER_TURN, Machine};
use super::process::Status;
use super::report::{Row, Target};
use super::rig::{Rig, STEPS_PER_TURN};
use super::sizes::Sizes;
use super::stats::millis;
use crate::commands::drive;
use crate::failure::Failure;

/// Suspended before the counting begins, so that what is only ever needed once is not counted.
const WARM_UP: usize = 50;

/// Runs that were taken up and came to wait for a person.
pub fn suspended(ground: &Ground, sizes: &Sizes) -> Result<[Row; 2], Failure> {
    let rig = Rig::new(ground, "suspended")?;
    let runtime = drive::runtime()?;
    let suspend = |count: usize| {
        runtime.block_on(async {
            let mut runs = Vec::with_capacity(count);
            for _ in 0..count {
                // The most careful agent asks before its first step.
                let id = rig.create(Autonomy::new(1).unwrap_or_default())?;
                rig.start(id.clone())?.wait().await?;
                runs.push(id);
            }
            Ok::<_, Failure>(runs)
        })
    };
    let warm = suspend(WARM_UP.min(sizes.suspended))?;
    let before = Status::of_self()?;
    let runs = suspend(sizes.suspended)?;
    let after = Status::of_self()?;
    let grown_kib = after.rss_kib.saturating_sub(before.rss_kib) as f64;
    let about = format!("of {} runs that wait for a person, each", runs.len());
    drop(warm);
    Ok([
        Row::new("suspended_memory", about, grown_kib / runs.len() as f64, "KiB").target(Target::AtMost(2.0)),
        Row::new("suspended_threads", "threads they cost", after.threads as f64 - before.threads as f64, "")
            .target(Target::Exactly(0.0)),
    ])
}

/// What a fresh process says about opening a journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Opened {
    pub events: u64,
    pub millis: f64,
    pub grown_kib: u64,
}

/// Opens a journal as its writer would, and measures this process.
pub fn open(engine: &Engine, id: &RunId) -> Result<Opened, Failure> {
    let before = Status::of_self()?;
    let started = Instant::now();
    let mut fold = Fold::default();
    let journal = engine.open(id, &writer(), &mut |record| match fold.take(record) {
        Ok(_) => Ok(()),
        Err(error) => Err(longhaul_store::Error::Visit(Box::new(error))),
    })?;
    let run = fold.into_run(id)?;
    let millis = millis(started.elapsed());
    let grown_kib = Status::of_self()?.peak_kib.saturating_sub(before.peak_kib);
    drop(journal);
    Ok(Opened { events: run.seq, millis, grown_kib })
}

/// A journal of many events, opened in a fresh process.
pub fn opening(ground: &Ground, sizes: &Sizes) -> Result<[Row; 2], Failure> {
    let state_dir = ground.place("opening")?;
    let id = RunId::from_bits(2);
    write_journal(&Engine::new(&state_dir), &id, sizes.events)?;
    let output =
        ground.longhaul(&state_dir)?.args(["bench", "open", id.as_str()]).stdout(Stdio::piped()).output()?;
    let opened: Opened = serde_json::from_slice(&output.stdout).map_err(anyhow::Error::from)?;
    let about = format!("opening a journal of {} events, 1 KiB in every second", opened.events);
    Ok([
        Row::new("open_time", &about, opened.millis, "ms").target(Target::AtMost(1000.0)),
        Row::new("open_memory", about, opened.grown_kib as f64 / 1024.0, "MiB").target(Target::AtMost(64.0)),
    ])
}

fn write_journal(engine: &Engine, id: &RunId, events: usize) -> Result<(), Failure> {
    let mut machine = Machine::new(id.clone())?;
    let mut journal = engine.create(id, &writer(), &machine.entries())?;
    for _ in 0..events.div_ceil(EVENTS_PER_TURN) {
        for _ in 0..STEPS_PER_TURN {
            machine.step()?;
        }
        if journal.last_seq() < events as u64 {
            journal.append(&machine.entries())?;
        }
    }
    Ok(journal.close()?)
}

fn writer() -> Writer {
    Writer { pid: std::process::id(), host: longhaul_store::host(), at: Timestamp::default() }
}
