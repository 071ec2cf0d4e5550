//! `result`: what came of a run.

use std::path::Path;

use longhaul_core::collaboration::Home;
use longhaul_core::report::{Evidence, Now, Report};
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_engine::Harness;
use longhaul_tools::hash_of;
use longhaul_workspace::{homing, place};
use serde::Serialize;

use super::drive;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::TREE_LOOK_MAX;
use crate::render;
use crate::schema;

/// Show what came of a run: what was asked and done, what shows it, what it took and what remains; exits as the run did
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Only what the agent said last
    #[arg(long)]
    pub output: bool,
}

/// The report, and whether the answer is what was asked for.
#[derive(Serialize)]
struct Judged<'a> {
    #[serde(flatten)]
    report: &'a Report,
    fits: Option<bool>,
    misfit: Option<&'a str>,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    let mut run = harness.counted(harness.look(&app.run(&args.id)?)?);
    if let Some(hint) = super::show::how_it_stands(app, &run)? {
        render::hint(&hint);
    }
    // A merge, or the user, may have committed it since.
    let workspace = Path::new(&run.spec.workspace);
    run.uncommitted.take_if(|_| !place::is_dirty(workspace));
    run.not_brought.take_if(|_| homing::is_home(workspace));
    let misfit = misfit(&run);
    let mut report = Report::of(&run);
    // What stands there now: the last look of the harness may have been before the last change.
    report.changes = match since_start(&harness, &run) {
        Some(own) => Some(own).filter(|own| !own.is_empty()),
        None => changes(&run).or(report.changes),
    };
    report.changes = report.changes.map(|changes| app.struck(&changes));
    report.evidence = evidence(&run);
    report.how_to_go_on = drive::how_to_go_on(&run);
    if args.output {
        render::words(&report.output);
    } else if app.json() {
        let fits = run.spec.answer_schema.as_ref().map(|_| misfit.is_none());
        render::json(&Judged { report: &report, fits, misfit: misfit.as_deref() });
    } else {
        report.branch = report.branch.map(|began| drive::branch_now(app, workspace, &began));
        render::words(report.markdown().trim_end());
    }
    Ok(exit(&run, misfit))
}

/// What shows that the work is done, held against the files as they are now.
pub fn evidence(run: &Run) -> Option<Evidence> {
    let mut evidence = Report::of(run).evidence?;
    evidence.held_against(&files_now(run));
    Some(evidence)
}

/// What a run's files are now: where they were made, if they are still there and nobody is at work on them, else on its branch.
fn files_now(run: &Run) -> Now {
    let workspace = Path::new(&run.spec.workspace);
    if run.status == Status::Running {
        return Now::Unseen;
    }
    if workspace.exists() {
        return hash_of(workspace, TREE_LOOK_MAX).map_or(Now::Unseen, Now::Tree);
    }
    let RunSpec { repository: Some(repository), branch: Some(branch), .. } = &run.spec else {
        return Now::Unseen;
    };
    place::branch(Path::new(repository), branch).map_or(Now::Unseen, Now::Tip)
}

/// What a run without a branch has changed: compared with what was stored before its first change, so that what the user had not
/// committed is not taken for its work. Nothing if nobody knows what that was.
fn since_start(harness: &Harness, run: &Run) -> Option<String> {
    let is_there = run.spec.branch.is_none() && run.has_worked() && Path::new(&run.spec.workspace).is_dir();
    let form = ["--stat=100", "--stat-count=60", "--find-renames"];
    let printed = is_there.then(|| harness.diff_since_start(&run.spec.id, &form).ok().flatten())??;
    Some(String::from_utf8_lossy(&printed).trim_end().to_owned())
}

/// What differs in the workspace, as it is now, from what the work began with. What was merged since, and what later runs of a
/// session have done, changes nothing about that.
fn changes(run: &Run) -> Option<String> {
    if !run.has_worked() {
        return None;
    }
    let baseline = run.baseline.as_ref().and_then(|baseline| baseline.commit.as_deref());
    let base = run.spec.base.as_deref().or(baseline);
    let workspace = Path::new(&run.spec.workspace);
    let repository = run.spec.repository.as_deref().map(Path::new);
    let is_shared = run.status.is_terminal() && run.spec.home() != Home::Own;
    if let (Some(repository), Some(base)) = (repository, base)
        && (is_shared || !workspace.is_dir())
    {
        let branch =
            run.spec.branch.as_ref().filter(|_| !is_shared).map(|branch| format!("refs/heads/{branch}"));
        let end = branch.or_else(|| run.commits.last().cloned())?;
        return place::changes_between(repository, base, &end);
    }
    place::changes(Path::new(&run.spec.workspace), run.spec.repository.as_deref().map(Path::new), base)
}

/// What is wrong with the answer of a run that was asked for one of a schema.
pub fn misfit(run: &Run) -> Option<String> {
    let schema = run.spec.answer_schema.as_ref().filter(|_| run.status == Status::Completed)?;
    schema::misfit(&schema.value(), run.output().unwrap_or(""))
}

/// As the run did, but for an answer that is not what was asked for: a script must not take it for one.
pub fn exit(run: &Run, misfit: Option<String>) -> Exit {
    let Some(misfit) = misfit else { return Exit::of_run(run) };
    render::warn(&format!("the answer does not fit the schema: {misfit}"));
    Exit::Failed
}
