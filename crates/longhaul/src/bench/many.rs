//! Many runs at once in one process, to one run alone.

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use longhaul_core::spec::Autonomy;
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use super::ground::Ground;
use super::probe::Probe;
use super::report::{Row, Target};
use super::rig::{Rig, STEPS_PER_TURN, Working};
use super::sizes::Sizes;
use super::stats::median;
use crate::commands::drive;
use crate::failure::Failure;

/// The bare loop appends what a step stores, roughly; only its own ratio is used.
const PROBE_BYTES: usize = 1200;

pub fn measure(ground: &Ground, sizes: &Sizes) -> Result<Vec<Row>, Failure> {
    let one = Crowd::new(ground, "alone", 1)?;
    let all = Crowd::new(ground, "many", sizes.runs)?;
    let probes = ground.place("threads")?;
    let (mut alone, mut together) = (Vec::new(), Vec::new());
    let (mut probe_alone, mut probe_together) = (Vec::new(), Vec::new());
    for round in 0..sizes.rounds {
        // As long alone as together is short: enough steps for a steady rate.
        alone.push(one.steps_a_second(sizes.run_steps * 5));
        together.push(all.steps_a_second(sizes.run_steps));
        probe_alone.push(bare(&probes.join(format!("{round}-one")), 1, sizes.run_steps * 5)?);
        probe_together.push(bare(&probes.join(format!("{round}-many")), sizes.runs, sizes.run_steps)?);
    }
    one.end()?;
    all.end()?;
    let about = format!("{} runs × {} steps in one process, to one run alone", sizes.runs, sizes.run_steps);
    let bare_about = format!("{} plain threads with a preallocated file each, to one", sizes.runs);
    Ok(vec![
        Row::new("concurrent_runs", about, median(&together), "steps/s")
            .ratio(median(&ratios(&together, &alone)))
            .target(Target::RatioAtLeast(5.0)),
        Row::new("one_run", "one run alone, in the same minute", median(&alone), "steps/s"),
        Row::new("concurrent_probe", bare_about, median(&probe_together), "steps/s")
            .ratio(median(&ratios(&probe_together, &probe_alone))),
    ])
}

fn ratios(these: &[f64], those: &[f64]) -> Vec<f64> {
    these.iter().zip(those).map(|(this, that)| this / that).collect()
}

/// Runs that start together, each on a thread of its own, as a run is driven anywhere.
struct Crowd {
    rig: Rig,
    members: Vec<Member>,
    /// Where the measurer waits.
    aside: Runtime,
}

struct Member {
    run: Working,
    thread: JoinHandle<()>,
    over: Arc<Notify>,
}

impl Member {
    fn start(rig: &Rig) -> Result<Member, Failure> {
        let id = rig.create(Autonomy::default())?;
        let runtime = drive::runtime()?;
        let run = {
            let _entered = runtime.enter();
            rig.start(id)?
        };
        let over = Arc::new(Notify::new());
        let ends = Arc::clone(&over);
        let thread = thread::spawn(move || runtime.block_on(ends.notified()));
        Ok(Member { run, thread, over })
    }

    async fn end(self) -> Result<(), Failure> {
        let ended = self.run.end().await;
        self.over.notify_one();
        // A thread that panicked has taken its run with it, which is what `ended` says.
        self.thread.join().ok();
        ended
    }
}

impl Crowd {
    fn new(ground: &Ground, name: &str, count: usize) -> Result<Crowd, Failure> {
        let (rig, aside) = (Rig::new(ground, name)?, drive::runtime()?);
        let members: Result<Vec<Member>, Failure> = (0..count).map(|_| Member::start(&rig)).collect();
        let members = members?;
        aside.block_on(rig.gate.rested(count));
        Ok(Crowd { rig, members, aside })
    }

    fn steps_a_second(&self, steps: usize) -> f64 {
        self.members.iter().for_each(|member| member.run.forget_laps());
        let started = Instant::now();
        self.rig.gate.open(steps / STEPS_PER_TURN);
        self.aside.block_on(self.rig.gate.rested(self.members.len()));
        let seconds = started.elapsed().as_secs_f64();
        self.members.iter().map(|member| member.run.laps().len()).sum::<usize>() as f64 / seconds
    }

    fn end(self) -> Result<(), Failure> {
        self.aside.block_on(async {
            for member in self.members {
                member.end().await?;
            }
            Ok(())
        })
    }
}

/// What the disk gives that many plain threads.
fn bare(path: &Path, threads: usize, appends: usize) -> Result<f64, Failure> {
    let mut probes = Vec::new();
    for index in 0..threads {
        probes.push(Probe::preallocated(&path.with_extension(index.to_string()), PROBE_BYTES, appends)?);
    }
    let started = Instant::now();
    thread::scope(|scope| {
        let all: Vec<_> =
            probes.iter_mut().map(|probe| scope.spawn(|| probe.run(appends).map(drop))).collect();
        all.into_iter().try_for_each(|one| one.join().unwrap_or(Ok(())))
    })?;
    Ok((threads * appends) as f64 / started.elapsed().as_secs_f64())
}
