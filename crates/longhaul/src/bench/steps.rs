//! One long run, step by step, in short batches that alternate with the probes, so that whatever else the machine does
//! meets all of them alike.

use std::time::Instant;

use super::ground::Ground;
use super::probe::{Probe, SqliteProbe};
use super::process::written_bytes;
use super::report::{Row, Target};
use super::rig::{Rig, STEPS_PER_TURN, Working};
use super::sizes::Sizes;
use super::stats::{median, micros, percentile};
use crate::commands::drive;
use crate::failure::Failure;

/// Turns of one batch: a few milliseconds, shorter than most disturbances.
const BATCH_TURNS: usize = 25;
const BATCH: usize = BATCH_TURNS * STEPS_PER_TURN;
/// Parts of the measurement that each give a ratio; their median is reported.
const BLOCKS: usize = 10;
/// Batches in which an old run is compared with a young one.
const AGE_BATCHES: usize = 10;

pub fn measure(ground: &Ground, sizes: &Sizes) -> Result<Vec<Row>, Failure> {
    drive::runtime()?.block_on(async {
        let rig = Rig::new(ground, "steps")?;
        let run = rig.ready().await?;
        let (stored, payload) = bytes_per_step(&rig, &run).await?;
        let mut probes = Probes::new(ground, sizes, stored, payload)?;
        let lanes = Lanes::measure(&rig, &run, &mut probes, sizes.steps / BATCH).await?;
        let mut rows = lanes.rows(sizes);
        rows.push(age(ground, &rig, &run, sizes).await?);
        rows.extend(stored_bytes(&rig, run).await?);
        Ok(rows)
    })
}

/// What a step adds to the journal, and how much of that is payload.
async fn bytes_per_step(rig: &Rig, run: &Working) -> Result<(usize, usize), Failure> {
    let before = rig.footprint(&run.id)?;
    let steps = rig.turns(run, BATCH_TURNS).await.len() as u64;
    let after = rig.footprint(&run.id)?;
    let each = |before: u64, after: u64| ((after - before) / steps.max(1)) as usize;
    Ok((each(before.journal_bytes, after.journal_bytes), each(before.payload_bytes, after.payload_bytes)))
}

struct Probes {
    preallocated: Probe,
    growing: Probe,
    sqlite: SqliteProbe,
}

impl Probes {
    fn new(ground: &Ground, sizes: &Sizes, stored: usize, payload: usize) -> Result<Probes, Failure> {
        let dir = ground.place("probes")?;
        Ok(Probes {
            preallocated: Probe::preallocated(&dir.join("preallocated"), stored, sizes.steps + BATCH)?,
            growing: Probe::growing(&dir.join("growing"), stored)?,
            sqlite: SqliteProbe::new(&dir.join("sqlite.db"), payload)?,
        })
    }
}

/// Times in microseconds, batch by batch, and what was counted beside them.
#[derive(Default)]
struct Lanes {
    run: Vec<Vec<f64>>,
    preallocated: Vec<Vec<f64>>,
    growing: Vec<Vec<f64>>,
    sqlite: Vec<Vec<f64>>,
    steps: usize,
    syncs: u64,
    /// Bytes the process caused to be written during each batch of the run.
    written: Vec<u64>,
}

impl Lanes {
    async fn measure(
        rig: &Rig,
        run: &Working,
        probes: &mut Probes,
        batches: usize,
    ) -> Result<Lanes, Failure> {
        let mut lanes = Lanes::default();
        for _ in 0..batches {
            let (syncs, written) = (rig.disk.syncs(), written_bytes()?);
            let laps = rig.turns(run, BATCH_TURNS).await;
            lanes.syncs += rig.disk.syncs() - syncs;
            lanes.written.push(written_bytes()? - written);
            lanes.steps += laps.len();
            lanes.run.push(step_times(&laps));
            lanes.preallocated.push(probes.preallocated.run(BATCH)?);
            lanes.growing.push(probes.growing.run(BATCH)?);
            lanes.sqlite.push(probes.sqlite.run(BATCH)?);
        }
        Ok(lanes)
    }

    fn rows(&self, sizes: &Sizes) -> Vec<Row> {
        let lanes = [
            ("probe_p50", "probe_p99", "bare loop, preallocated file", &self.preallocated),
            ("growing_probe_p50", "growing_probe_p99", "bare loop, growing file", &self.growing),
            ("sqlite_p50", "sqlite_p99", "SQLite WAL FULL, one commit", &self.sqlite),
        ];
        let about = format!("one of {} durable steps of one run", sizes.steps);
        let mut rows = vec![
            self.row("step_p50", &about, &self.run, 0.5).target(Target::RatioAtMost(1.3)),
            self.row("step_p99", &about, &self.run, 0.99).target(Target::RatioAtMost(2.0)),
        ];
        for (p50, p99, about, lane) in lanes {
            rows.push(self.row(p50, about, lane, 0.5));
            rows.push(self.row(p99, about, lane, 0.99));
        }
        rows.push(self.syncs_per_step());
        rows.push(self.written_bytes());
        rows
    }

    /// A percentile of a lane, and the median over all blocks of how it stands to the preallocated probe's.
    fn row(&self, name: &'static str, about: &str, lane: &[Vec<f64>], share: f64) -> Row {
        let size = lane.len().div_ceil(BLOCKS).max(1);
        let of = |lane: &[Vec<f64>]| percentile(&lane.concat(), share);
        let ratios: Vec<f64> = lane
            .chunks(size)
            .zip(self.preallocated.chunks(size))
            .map(|(lane, probe)| of(lane) / of(probe))
            .collect();
        Row::new(name, about, of(lane), "µs").ratio(median(&ratios))
    }

    fn syncs_per_step(&self) -> Row {
        let about = "calls of fdatasync by the engine, counted where it makes them";
        Row::new("syncs_per_step", about, self.syncs as f64 / self.steps.max(1) as f64, "")
            .target(Target::Exactly(1.0))
    }

    fn written_bytes(&self) -> Row {
        let half = self.written.len() / 2;
        let sum = |batches: &[u64]| batches.iter().sum::<u64>() as f64;
        let (early, late) = (sum(&self.written[..half]), sum(&self.written[half..half * 2]));
        let about =
            "written in a step of the second half, to the first (write_bytes, whole pages, all files)";
        Row::new("written_bytes_growth", about, late / (half.max(1) * BATCH) as f64, "B")
            .ratio(late / early.max(1.0))
            .target(Target::RatioAtMost(1.1))
    }
}

/// The old run beside one that has just begun.
async fn age(ground: &Ground, rig: &Rig, old: &Working, sizes: &Sizes) -> Result<Row, Failure> {
    let young_rig = Rig::new(ground, "young")?;
    let young = young_rig.ready().await?;
    young_rig.turns(&young, BATCH).await;
    let (mut old_times, mut young_times) = (Vec::new(), Vec::new());
    for _ in 0..AGE_BATCHES {
        young_times.extend(step_times(&young_rig.turns(&young, BATCH_TURNS).await));
        old_times.extend(step_times(&rig.turns(old, BATCH_TURNS).await));
    }
    young.end().await?;
    let about = format!("median after {} steps, to that after {}", sizes.steps, BATCH * STEPS_PER_TURN);
    Ok(Row::new("step_growth", about, median(&old_times), "µs")
        .ratio(median(&old_times) / median(&young_times))
        .target(Target::RatioAtMost(1.1)))
}

async fn stored_bytes(rig: &Rig, run: Working) -> Result<[Row; 2], Failure> {
    let id = run.id.clone();
    run.end().await?;
    let found = rig.footprint(&id)?;
    let to_payload = |bytes: u64| bytes as f64 / found.payload_bytes.max(1) as f64;
    let each = |bytes: u64| bytes as f64 / found.records.max(1) as f64;
    Ok([
        Row::new("stored_bytes", "journal, for each event", each(found.journal_bytes), "B")
            .ratio(to_payload(found.journal_bytes))
            .target(Target::RatioAtMost(1.15)),
        Row::new(
            "stored_bytes_all",
            "with the derived events.jsonl, for each event",
            each(found.disk_bytes),
            "B",
        )
        .ratio(to_payload(found.disk_bytes)),
    ])
}

/// From one append to the next: everything a step does, its watchers included.
fn step_times(laps: &[Instant]) -> Vec<f64> {
    laps.windows(2).map(|pair| micros(pair[1] - pair[0])).collect()
}
