//! `start` and `resume`: the same thing, from wherever the run stands.

use longhaul_core::command::Wish;
use longhaul_core::status::Status;
use longhaul_engine::Opening;

use super::ask::refuse_early;
use super::create::{LimitArgs, settled_model};
use super::drive;
use super::record::RecordArgs;
use crate::app::App;
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
    pub record: RecordArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.driving()?;
    let model = args.model.as_deref().map(|name| settled_model(name, &app.cwd));
    let record = args.record.settled(app)?;
    if args.detach {
        if harness.look(&id)?.status != Status::Running {
            refuse_early(&harness, &id, &Wish::Start { limits: None, model: None })?;
        }
        return drive::detach(app, &harness, &id, &args.limits, model.as_deref(), record.as_deref());
    }
    // The run is only read twice when its limits are to be compared with those asked for.
    let limits = match &args.limits {
        none if *none == LimitArgs::default() => None,
        asked => asked.over(harness.look(&id)?.spec.limits)?,
    };
    drive::drive(app, &harness, &id, Opening { limits, model }, record.as_deref())
}
