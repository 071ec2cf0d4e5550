//! `create`: a run in status created, from arguments, agent file and settings.

mod options;
mod plan;
mod spec;

use longhaul_core::run::Run;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::view::RunView;
use longhaul_engine::Harness;
use longhaul_model::Models;

pub use self::options::{DEFAULT_AGENT, LimitArgs, ModeArg, OnAskArg, Options, Switch};
pub use self::plan::{AUTO, check_rest, draft_plan};
pub use self::spec::{settled_model, spec};

use self::plan::in_plan_file;
use super::holding::HoldingArgs;
use super::record::{RecordArgs, remembered};
use super::{placing, replan, session};
use crate::agents;
use crate::app::App;
use crate::choice;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::CONTEXT_WINDOW_MIN;
use crate::render;
use crate::servers;
use crate::settings::Settings;

/// Create a run without starting it; prints its id
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What is to be done
    #[arg(long, value_name = "TEXT")]
    pub task: String,
    #[command(flatten)]
    pub options: Options,
    #[command(flatten)]
    pub holding: HoldingArgs,
    #[command(flatten)]
    pub record: RecordArgs,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    if !settings.enabled {
        return Err(Failure::usage(
            "harness.enabled is false: a run that leaves no trace cannot be created for later",
        )
        .hint("use `longhaul run`, or enable the harness"));
    }
    refuse_without_model(app, &settings, &args.options)?;
    let record = args.record.settled(app)?;
    let sandbox = app.sandbox(args.holding.over(&settings))?;
    servers::meet(app, &settings, &sandbox, &args.options)?;
    let harness = app.making(&settings, sandbox)?;
    let mut run = create(app, &harness, &settings, &args.task, &args.options)?;
    remembered(&harness, &run.spec.id, record);
    if run.spec.planner.is_some() {
        run = replan::make(&harness, &run.spec.id)?;
    }
    if app.json() {
        render::json(&RunView::of(&run));
    } else {
        render::data(run.spec.id.as_str());
    }
    // What holds an agent's commands is for the process that drives it to say.
    let typed = args.holding.typed();
    if !typed.is_empty() {
        render::hint(&format!(
            "held so from its start: `longhaul start {} {}`",
            run.spec.id,
            typed.join(" ")
        ));
    }
    Ok(Exit::Ok)
}

/// Refuses a run that there is no model for before a state directory is made for it.
pub fn refuse_without_model(app: &App, settings: &Settings, options: &Options) -> Result<(), Failure> {
    if app.state_dir.exists() || !options.model.is_empty() {
        return Ok(());
    }
    let agent = agents::find(&settings.agent_dirs, &options.agent)?;
    let settings = &agents::over(settings, &agent)?;
    if agent.models.is_empty() && settings.model.is_none() {
        choice::silently(settings, &app.models(settings))?;
    }
    Ok(())
}

/// Makes the run; everything is checked before anything is written.
pub fn create(
    app: &App,
    harness: &Harness,
    settings: &Settings,
    task: &str,
    options: &Options,
) -> Result<Run, Failure> {
    let id = harness.new_run_id()?;
    // Two that are created at once must not be given the same branch.
    let named = session::naming(app, settings, options)?;
    let spec = spec(app, harness, settings, task, options, id)?;
    let run = made(app, harness, spec, |error| in_plan_file(app, options, error))?;
    drop(named);
    placing::make_working_branch(&settings.git, &run)?;
    if run.spec.task != task {
        render::warn("a key stands in the task; it was struck out, and neither kept nor sent");
    }
    Ok(run)
}

/// Makes the run that was spelled out.
pub fn made(
    app: &App,
    harness: &Harness,
    spec: RunSpec,
    told: impl FnOnce(longhaul_engine::Error) -> Failure,
) -> Result<Run, Failure> {
    let models = spec.models.clone().unwrap_or_else(|| vec![spec.model.clone()]);
    for name in models.iter().map(String::as_str).chain(spec.conduct().other_models()) {
        check_model(&harness.models, name, &spec.limits)?;
    }
    let run = harness.create(spec).map_err(|error| unmade(error, told))?;
    warn_of_fallback(&run);
    session::note(app, &run)?;
    servers::keep_met(app)?;
    Ok(run)
}

/// Nobody watches a run come into being, so whoever made it says where it is kept.
pub fn warn_of_fallback(run: &Run) {
    if let Some(reason) = &run.fallback {
        render::warn(&format!("kept in the fallback store: {reason}"));
    }
}

/// A model that cannot be had is better said now than when somebody starts the run, and so is a budget that could not be
/// kept.
pub(super) fn check_model(models: &Models, name: &str, limits: &Limits) -> Result<(), Failure> {
    let model = models
        .resolve(name)
        .map_err(|source| longhaul_engine::Error::Model { name: name.to_owned(), source })?;
    if limits.limit_cost() && !model.is_priced() {
        return Err(longhaul_engine::Error::Unpriced { name: name.to_owned() }.into());
    }
    let window = model.context_window();
    if window < CONTEXT_WINDOW_MIN {
        return Err(Failure::usage(format!(
            "model {name} has a context window of {window} tokens, and no work fits into less than {CONTEXT_WINDOW_MIN}"
        ))
        .hint("`context_window` is in tokens: 32000, 200000"));
    }
    Ok(())
}

/// What is said of a run that could not be made: there is none yet that could be resumed.
fn unmade(error: longhaul_engine::Error, told: impl FnOnce(longhaul_engine::Error) -> Failure) -> Failure {
    use longhaul_engine::Error::Store;
    let is_full = matches!(error, Store(longhaul_store::Error::NoSpace { .. }));
    let failure = told(error);
    if is_full {
        return failure
            .hint("no run was made; free some space on that disk, and give the same command again");
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F56: on a full disk nobody is told to resume a run that there is not.
    #[test]
    fn a_run_that_was_not_made_is_not_to_be_resumed() {
        let full = longhaul_store::Error::NoSpace {
            file: "x".into(),
            source: std::io::ErrorKind::StorageFull.into(),
        };
        let failure = unmade(full.into(), Failure::from);
        let hint = failure.hint.unwrap();
        assert!(hint.starts_with("no run was made; free some space") && !hint.contains("resume"), "{hint}");
        assert_eq!(failure.exit, Exit::Waiting);
    }
}
