//! `checkpoints`: the points of a run that can be gone back to.

use longhaul_engine::checkpoints::Checkpoint;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Show a run's checkpoints; `longhaul rewind ID --to N` goes back to one with its files, `longhaul resume ID --checkpoint N`
/// without
///
/// Some have names: those that a person gave, and `before-call_N` before a command that may throw work away, such as `git reset
/// --hard` or `rm -r`; BEFORE is that command. Of a run whose journal is damaged, those before the damage are shown.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Also the moment before the first change, and where turns ended whose files were stored; such a point is asked for as `@SEQ`
    #[arg(long)]
    pub all: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.reading()?;
    let backend = harness.store_of(&id)?.backend().as_str();
    let mut checkpoints = harness.checkpoints(&id)?;
    checkpoints.found.retain(|point| args.all || point.number.is_some());
    if app.json() {
        let value = |point: &Checkpoint| {
            json!({
                "number": point.number, "name": point.name, "before": point.before, "files": point.files, "seq": point.seq, "at": point.at, "stepId": point.step, "status": point.status,
                "backend": backend,
            })
        };
        render::json(&checkpoints.found.iter().map(value).collect::<Vec<_>>());
    } else {
        let lines = checkpoints.found.iter().map(|point| {
            let step = point.step.clone().unwrap_or_default();
            let (name, seq) = (point.name.clone().unwrap_or_default(), point.seq.to_string());
            let before = point.before.clone().unwrap_or_default();
            let files = if point.files.is_some() { "yes" } else { "-" };
            vec![
                point.label(),
                seq,
                point.at.to_string(),
                step,
                backend.to_owned(),
                files.to_owned(),
                name,
                before,
            ]
        });
        let titles = ["CHECKPOINT", "SEQ", "AT", "STEP", "BACKEND", "FILES", "NAME", "BEFORE"];
        render::data(&table::rows(&titles, lines));
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
