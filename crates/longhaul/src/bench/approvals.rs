//! Many approvals of many runs: what listing them and answering one takes, and what the runs take when all of them are paused.

use std::sync::Arc;
use std::time::Instant;

use longhaul_core::command::Wish;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::spec::{Autonomy, RunSpec};
use longhaul_core::status::Status;
use longhaul_engine::{Claim, Opening};
use longhaul_model::Quiet;
use longhaul_store::catalog::Filter;

use super::ground::Ground;
use super::report::{Row, Target};
use super::rig::{self, Rig};
use super::stats::percentile;
use crate::commands::drive;
use crate::failure::Failure;

/// What a person waits for without noticing.
const MOST_MS: f64 = 100.0;

pub fn measure(ground: &Ground, runs: usize, gates: usize, samples: usize) -> Result<Vec<Row>, Failure> {
    let rig = Rig::new(ground, "approvals")?;
    for _ in 0..runs {
        wait_at(&rig, ground, gates)?;
    }
    let (mut lists, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..samples {
        let started = Instant::now();
        let waiting = rig.harness.waiting()?;
        lists.push(started.elapsed().as_secs_f64() * 1000.0);
        let Some(gate) = waiting.first() else { break };
        let number = gate.id.rsplit_once(".g").and_then(|(_, number)| number.parse().ok()).unwrap_or(1);
        let started = Instant::now();
        let command = rig.harness.command(Wish::Approve { gate: number, digest: None })?;
        if rig.harness.claim(&gate.run_id, number, "bench", &command)? == Claim::First {
            rig.harness.post(&gate.run_id, &command)?;
        }
        answers.push(started.elapsed().as_secs_f64() * 1000.0);
    }
    let about = |what: &str| format!("{what}, with {} waiting in {runs} runs", runs * gates);
    let mut rows = vec![
        Row::new("approvals_list_p99", about("listing all"), percentile(&lists, 0.99), "ms")
            .target(Target::AtMost(MOST_MS)),
        Row::new("approvals_answer_p99", about("answering one"), percentile(&answers, 0.99), "ms")
            .target(Target::AtMost(MOST_MS)),
    ];
    rows.extend(paused(&rig, samples)?);
    Ok(rows)
}

/// The same runs, all paused: nobody holds one, lists come from the catalogue, and a journal is read by whoever wants that run.
fn paused(rig: &Rig, samples: usize) -> Result<Vec<Row>, Failure> {
    let (all, _) = rig.harness.list(&Filter::default())?;
    for row in &all {
        let pause = rig.harness.command(Wish::Pause { reason: "bench".to_owned() })?;
        rig.harness.apply(&row.id, pause)?;
    }
    let filter = Filter { status: Some(Status::Paused), ..Filter::default() };
    let (mut lists, mut opened, mut held, mut count) = (Vec::new(), Vec::new(), 0, 0);
    for sample in 0..samples {
        let started = Instant::now();
        let (rows, _) = rig.harness.list(&filter)?;
        lists.push(started.elapsed().as_secs_f64() * 1000.0);
        count = rows.len();
        let Some(row) = rows.get(sample % count.max(1)) else { break };
        let started = Instant::now();
        rig.harness.look(&row.id)?;
        opened.push(started.elapsed().as_secs_f64() * 1000.0);
        held += usize::from(rig.harness.store_of(&row.id)?.holder(&row.id)?.is_some());
    }
    let about = |what: &str| format!("{what}, with {count} runs paused");
    Ok(vec![
        Row::new("paused_list_p99", about("listing them"), percentile(&lists, 0.99), "ms"),
        Row::new("paused_open_p99", about("opening one"), percentile(&opened, 0.99), "ms")
            .target(Target::AtMost(MOST_MS)),
        Row::new("paused_held", about("those that a process holds"), held as f64, "runs")
            .target(Target::AtMost(0.0)),
    ])
}

/// A run that stands before that many steps at once.
fn wait_at(rig: &Rig, ground: &Ground, gates: usize) -> Result<(), Failure> {
    let step =
        |number: usize| Step { critical: true, ..Step::new(&format!("step-{number}"), "do it", "bench") };
    let plan = Plan { steps: (1..=gates).map(step).collect() }.readied();
    let spec = RunSpec {
        workspace: ground.dir().display().to_string(),
        plan,
        parallel: Some(gates as u32),
        autonomy: Autonomy::new(3).unwrap_or_default(),
        ..rig::spec(rig.harness.new_run_id()?)
    };
    let id = rig.harness.create(spec)?.spec.id;
    drive::runtime()?.block_on(async {
        rig.harness.drive(&id, Opening::default(), Vec::new(), Arc::new(Quiet))?.rest().await
    })?;
    Ok(())
}
