//! `start` and `resume`: the same thing, from wherever the run stands.

use longhaul_engine::Opening;

use super::create::LimitArgs;
use super::drive;
use crate::app::{App, run_id};
use crate::exit::Exit;
use crate::failure::Failure;

/// Drive a run until it ends, pauses or waits: start a created one, go on with a paused one, recover one whose process died
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Leave the run to a background process and return at once
    #[arg(long)]
    pub detach: bool,
    /// Go on with another model
    #[arg(long, value_name = "P/M")]
    pub model: Option<String>,
    #[command(flatten)]
    pub limits: LimitArgs,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = run_id(&args.id)?;
    let harness = app.reading()?;
    if args.detach {
        harness.store_of(&id)?;
        return drive::detach(app, &id);
    }
    // The run is only read twice when its limits are to be compared with those asked for.
    let limits = match &args.limits {
        none if *none == LimitArgs::default() => None,
        asked => asked.over(harness.look(&id)?.spec.limits)?,
    };
    drive::drive(app, &harness, &id, Opening { limits, model: args.model })
}
