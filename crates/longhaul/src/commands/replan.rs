//! `replan`: other steps for what is not done yet. What is completed stays.

use longhaul_core::command::Wish;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::view::RunView;
use longhaul_engine::Harness;

use super::ask::refuse_early;
use super::create::{AUTO, check_rest, draft_plan};
use super::drive;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Give a run that is created, paused or has failed other steps; those that are completed stay as they are
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul replan ID --plan rest.yaml      steps may depend on completed ones by their ids
  longhaul replan ID                       the agent `planner` makes them, told why the old plan was stopped")]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Steps from a YAML or JSON file, or `auto` to have the planner make them
    #[arg(long, default_value = AUTO, value_name = "auto|FILE")]
    pub plan: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    if args.plan == AUTO {
        let settings = app.settings()?;
        let harness = app.driving(&settings, app.sandbox(settings.permissions.clone())?)?;
        let has_planner = harness.look(&id)?.spec.planner.is_some();
        refuse_early(&harness, &id, &Wish::Plan).map_err(|failure| match has_planner {
            true => failure,
            false => {
                failure.hint("only a run created with `--plan auto` has a planner; `--plan FILE` needs none")
            }
        })?;
        return told(app, &make(&harness, &id)?);
    }
    let harness = app.telling()?;
    let (path, run) = (app.cwd.join(&args.plan), harness.look(&id)?);
    let plan = draft_plan(&path, &run.spec.agent)?;
    // Whether it may have another plan comes before what is wrong with this one.
    let checked = check_rest(&path, &run, &plan);
    let wish = Wish::Replan { plan };
    refuse_early(&harness, &id, &wish).map_err(|failure| match (failure.exit, checked) {
        (Exit::Usage, Err(wrong)) => wrong,
        (_, _) => failure,
    })?;
    told(app, &harness.apply(&id, harness.command(wish)?)?)
}

/// Has the planner make the steps, and nothing else done. The run is left as it was if it cannot.
pub fn make(harness: &Harness, id: &RunId) -> Result<Run, Failure> {
    let run = drive::plan(harness, id)?;
    match &run.bad_plan {
        None => Ok(run),
        Some(why) => Err(Failure::from(anyhow::anyhow!("no plan for {id}: {why}")).hint(format!(
            "`longhaul logs {id}` shows what the planner said; try again with `longhaul replan {id}`, or `--plan FILE`"
        ))),
    }
}

fn told(app: &App, run: &Run) -> Result<Exit, Failure> {
    if app.json() {
        render::json(&RunView::of(run));
        return Ok(Exit::Ok);
    }
    let (id, steps) = (&run.spec.id, run.plan.steps.len());
    render::talk(&format!("{id} has {steps} steps"));
    render::hint(&format!("`longhaul steps {id}` shows them; go on with `longhaul resume {id}`"));
    Ok(Exit::Ok)
}
