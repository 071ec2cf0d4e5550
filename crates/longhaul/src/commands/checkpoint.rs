//! `checkpoint`: a point with a name, made from any process.

use std::time::{Duration, Instant};

use longhaul_core::command::{Command, Wish};
use longhaul_core::ids::RunId;
use longhaul_engine::checkpoints::{Checkpoint, Point};
use longhaul_engine::{Error, Harness};
use serde_json::json;

use super::ask::refuse_early;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{OBEY_LOOK_MS, OBEY_MS_MAX};
use crate::render;

/// Make a checkpoint with a name; `rewind`, `fork`, `diff --at` and `resume --checkpoint` lead back to it
///
/// Also while the run is driven, by whichever process. The conversation is kept as it stands, and the files of the workspace with
/// it. In the middle of a tool call they are kept as they are then, and after a way back the call counts as interrupted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul checkpoint run_01h… --name before-x
  longhaul rewind run_01h… --to before-x")]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// What it is called: up to 64 bytes, no number, and not beginning with `@` or `-`
    #[arg(long, value_name = "NAME")]
    pub name: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.telling()?;
    let wish = Wish::Checkpoint { name: args.name.clone() };
    refuse_early(&harness, &id, &wish)?;
    let command = harness.command(wish)?;
    if !obeyed(&harness, &id, &command)? {
        render::warn(&format!("the checkpoint is asked for, but whoever drives {id} has not obeyed yet"));
        return Ok(Exit::Waiting);
    }
    let Some(made) = &made(&harness, &id, &args.name)? else {
        return Err(Failure::from(anyhow::anyhow!("{id} refused the name; `longhaul logs {id}` says why")));
    };
    if app.json() {
        render::json(&view(made, &id));
    } else {
        let files = if made.files.is_some() { "with its files" } else { "without files" };
        render::talk(&format!("{id} has checkpoint {} named {}, {files}", made.label(), args.name));
    }
    Ok(Exit::Ok)
}

/// The checkpoint, with its files if they come soon: whoever drives the run stores them right after it is on record.
fn made(harness: &Harness, id: &RunId, name: &str) -> Result<Option<Checkpoint>, Failure> {
    let (point, asked) = (Point::Name(name.to_owned()), Instant::now());
    loop {
        let found = harness.checkpoints(id)?.at(&point).cloned();
        let is_whole = found.as_ref().is_none_or(|found| found.files.is_some());
        if is_whole || asked.elapsed() > Duration::from_millis(OBEY_MS_MAX) {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(OBEY_LOOK_MS));
    }
}

fn view(made: &Checkpoint, id: &RunId) -> serde_json::Value {
    json!({ "id": id, "number": made.number, "name": made.name, "seq": made.seq, "at": made.at, "files": made.files })
}

/// Leaves the command with whoever drives the run, or applies it here when nobody does.
fn obeyed(harness: &Harness, id: &RunId, command: &Command) -> Result<bool, Failure> {
    let asked = Instant::now();
    let mut posted = false;
    while asked.elapsed() < Duration::from_millis(OBEY_MS_MAX) {
        if posted && harness.look(id)?.commands.contains(&command.id) {
            return Ok(true);
        }
        if harness.store_of(id)?.holder(id)?.is_none() {
            match harness.apply(id, command.clone()) {
                // Somebody took the run up in this very moment: then it is theirs to obey.
                Err(Error::Store(longhaul_store::Error::Held { .. })) => {}
                // The dead driver's inbox held it too, and it was obeyed from there.
                Err(Error::Refused(_)) if posted => {}
                applied => return Ok(applied.map(|_| true)?),
            }
        } else if !posted {
            harness.post(id, command)?;
            posted = true;
        }
        std::thread::sleep(Duration::from_millis(OBEY_LOOK_MS));
    }
    Ok(false)
}
