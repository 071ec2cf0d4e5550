//! Runs that another run starts, to as many runs by themselves.

use std::sync::Arc;
use std::time::Instant;

use longhaul_core::plan::{Plan, Step};
use longhaul_core::spec::{Mate, RunSpec};
use longhaul_core::status::Status;
use longhaul_engine::Opening;
use longhaul_model::Quiet;

use super::ground::Ground;
use super::report::{Row, Target};
use super::rig::{self, Rig};
use super::stats::median;
use crate::commands::drive;
use crate::failure::Failure;

/// An answer and nothing else.
const SCRIPT: &str = "conversations: [ { turns: [ { text: done } ] } ]\n";
const SCRIPT_FILE: &str = "answer.yaml";

const MATE: &str = "mate";

pub fn measure(ground: &Ground, count: usize, rounds: usize) -> Result<Vec<Row>, Failure> {
    std::fs::write(ground.dir().join(SCRIPT_FILE), SCRIPT)?;
    let (mut alone, mut sent) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        alone.push(bare(&Rig::new(ground, &format!("bare-{round}"))?, ground, count)?);
        sent.push(children(&Rig::new(ground, &format!("crew-{round}"))?, ground, count)?);
    }
    let ratios: Vec<f64> = sent.iter().zip(&alone).map(|(sent, alone)| sent / alone).collect();
    Ok(vec![
        Row::new(
            "bare_runs",
            format!("{count} runs that only answer, one after another"),
            median(&alone),
            "s",
        ),
        Row::new("child_runs", format!("{count} of them as steps of one run"), median(&sent), "s")
            .ratio(median(&ratios))
            .target(Target::RatioAtMost(3.0)),
    ])
}

fn spec(rig: &Rig, ground: &Ground) -> Result<RunSpec, Failure> {
    Ok(RunSpec {
        workspace: ground.dir().display().to_string(),
        model: format!("scripted/{SCRIPT_FILE}"),
        ..rig::spec(rig.harness.new_run_id()?)
    })
}

fn bare(rig: &Rig, ground: &Ground, count: usize) -> Result<f64, Failure> {
    let started = Instant::now();
    for _ in 0..count {
        driven(rig, spec(rig, ground)?)?;
    }
    Ok(started.elapsed().as_secs_f64())
}

fn children(rig: &Rig, ground: &Ground, count: usize) -> Result<f64, Failure> {
    let step = |number: usize| Step::new(&format!("step-{number}"), "answer", MATE);
    let plan = Plan { steps: (1..=count).map(step).collect() }.readied();
    let crew = Some(vec![Mate { name: MATE.to_owned(), role: "answers".to_owned() }]);
    let started = Instant::now();
    driven(rig, RunSpec { plan, crew, ..spec(rig, ground)? })?;
    Ok(started.elapsed().as_secs_f64())
}

fn driven(rig: &Rig, spec: RunSpec) -> Result<(), Failure> {
    let id = rig.harness.create(spec)?.spec.id;
    let (run, _) = drive::runtime()?.block_on(async {
        rig.harness.drive(&id, Opening::default(), Vec::new(), Arc::new(Quiet))?.rest().await
    })?;
    if run.status != Status::Completed {
        return Err(anyhow::anyhow!("a measured run is {}: {:?}", run.status, run.reason).into());
    }
    Ok(())
}
