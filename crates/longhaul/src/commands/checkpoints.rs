//! `checkpoints`: the points of a run that can be gone back to.

use longhaul_engine::checkpoints::Checkpoint;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Show a run's checkpoints; `longhaul resume ID --checkpoint N` goes back to one
///
/// Of a run whose journal is damaged, those before the damage are shown.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.reading()?;
    let backend = harness.store_of(&id)?.backend().as_str();
    let checkpoints = harness.checkpoints(&id)?;
    if app.json() {
        let value = |point: &Checkpoint| {
            json!({
                "number": point.number, "seq": point.seq, "at": point.at, "stepId": point.step, "status": point.status,
                "backend": backend,
            })
        };
        render::json(&checkpoints.found.iter().map(value).collect::<Vec<_>>());
    } else {
        let lines = checkpoints.found.iter().map(|point| {
            let step = point.step.clone().unwrap_or_default();
            let (number, seq) = (point.number.to_string(), point.seq.to_string());
            vec![number, seq, point.at.to_string(), step, backend.to_owned()]
        });
        render::data(&table::rows(&["CHECKPOINT", "SEQ", "AT", "STEP", "BACKEND"], lines));
    }
    if let Some(damage) = &checkpoints.damage {
        let (file, offset, what) = (damage.file.display(), damage.offset, &damage.what);
        render::warn(&format!("`{file}` is damaged at byte {offset}: {what}"));
    }
    if let Some(unreadable) = &checkpoints.unreadable {
        render::warn(&format!("what comes after these cannot be read: {unreadable}"));
    }
    Ok(Exit::Ok)
}
