//! `rewind` and `fork`: back to a checkpoint with the files, in this run or in another.

use std::path::{Path, PathBuf};

use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_engine::Harness;
use longhaul_engine::checkpoints::{Checkpoint, Point};
use longhaul_engine::rewind::{Apart, Rewound};
use longhaul_engine::undo::Undone;
use longhaul_workspace::checkout::Change;
use longhaul_workspace::place;
use serde_json::json;

use super::create::{check_model, settled_model};
use crate::app::{self, App};
use crate::branch::Naming;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::FILES_SHOWN_MAX;
use crate::render;

/// Take a run back to a checkpoint: conversation, files, turns, calls, approvals and steps
///
/// The files of its workspace become what they were then; how they are now is stored first, and the journal as it was is kept
/// beside the new one: `longhaul rewind ID --undo` brings both back, also after the run has gone on, and can itself be undone.
/// A checkpoint that the run ended with has its files, too; there is nothing to go on with then. Ignored files, nested repositories and files over 64 MiB are left as they are, and so are git's
/// branches and commits. What is staged stays only where it is what stands in the files then. What calls did outside the workspace is not undone; they are listed. Money and tokens
/// that were spent stay counted. Refused while the run is driven, and where its files are also other runs'.
/// Killed in the middle, the next command for this run finishes it. `longhaul resume ID` then goes on from there.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul checkpoints run_01h… --all     where a run can be taken back to
  longhaul rewind run_01h… --to 2         its second checkpoint
  longhaul rewind run_01h… --to before-x  the one with that name
  longhaul rewind run_01h… --to @57       the last moment up to event 57 whose files are known
  longhaul rewind run_01h… --undo         as it was before the last rewind")]
pub struct RewindArgs {
    #[arg(value_name = "ID")]
    pub id: String,
    /// A checkpoint's number or name, or `@SEQ`
    #[arg(long, value_name = "N|NAME", required_unless_present = "undo")]
    pub to: Option<Point>,
    /// Bring back what the last rewind took away: the conversation and the files
    #[arg(long, conflicts_with = "to")]
    pub undo: bool,
}

/// Make a new run from a checkpoint of another, with its conversation and its files, in a place of its own
///
/// The first run is only read. The new one works in a worktree on a branch of its own if the first has one or worked in place in a
/// checkout, otherwise in a directory of its own. `longhaul resume NEW` goes on with it. A fork of what has completed is paused;
/// `longhaul replan NEW --plan FILE` gives it more to do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul fork run_01h… --at before-x
  longhaul fork run_01h… --at 2 --model anthropic/claude-opus-4-1")]
pub struct ForkArgs {
    #[arg(value_name = "ID")]
    pub id: String,
    /// A checkpoint's number or name, or `@SEQ`
    #[arg(long, value_name = "N|NAME")]
    pub at: Point,
    /// Go on with another model
    #[arg(long, value_name = "P/M")]
    pub model: Option<String>,
}

pub fn rewind(app: &App, args: RewindArgs) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.reading()?;
    let Some(to) = &args.to else { return undo(app, &harness, &id) };
    let rewound = harness.rewind(&id, to)?;
    if app.json() {
        let taken = &rewound.taken;
        render::json(&json!({
            "id": id, "checkpoint": taken.checkpoint.number, "name": taken.checkpoint.name, "seq": taken.checkpoint.seq,
            "status": taken.checkpoint.status_at_end, "eventsLost": taken.events_lost, "callsNotUndone": rewound.outside,
            "filesChanged": rewound.changes.len(), "filesBefore": rewound.before, "journalKeptAs": taken.kept_as,
            "leftOut": shown(&rewound.left_out), "stagedLeft": rewound.staged_left,
            "undo": rewound.changed_anything().then(|| format!("longhaul rewind {id} --undo")),
        }));
        return Ok(Exit::Ok);
    }
    tell(id.as_str(), &rewound);
    goes_on(&id, rewound.taken.checkpoint.status_at_end);
    Ok(Exit::Ok)
}

fn undo(app: &App, harness: &Harness, id: &RunId) -> Result<Exit, Failure> {
    let Undone { changes, before, left_out, outside, staged_left } = harness.undo_rewind(id)?;
    let run = harness.look(id)?;
    if app.json() {
        render::json(&json!({
            "id": id, "status": run.status, "callsNotUndone": outside, "filesChanged": changes.len(), "filesBefore": before,
            "leftOut": shown(&left_out), "stagedLeft": staged_left, "undo": format!("longhaul rewind {id} --undo"),
        }));
        return Ok(Exit::Ok);
    }
    render::talk(&format!("{id} is as it was before its last rewind: {}", run.status));
    tell_files(&changes, &left_out, &outside);
    tell_staged(staged_left.as_deref());
    render::talk(&format!("what was here until now is kept; `longhaul rewind {id} --undo` brings that back"));
    goes_on(id, run.status);
    Ok(Exit::Ok)
}

fn goes_on(id: &RunId, status: Status) {
    let verb = match status {
        Status::Created => "start",
        Status::Running | Status::Paused => "resume",
        Status::Completed | Status::Failed => return,
    };
    render::talk(&format!("`longhaul {verb} {id}` goes on from here"));
}

fn shown(paths: &[PathBuf]) -> Vec<String> {
    paths.iter().map(|path| path.display().to_string()).collect()
}

fn tell(id: &str, rewound: &Rewound) {
    let Rewound { taken, changes, before, left_out, outside, staged_left } = rewound;
    let Checkpoint { seq, status_at_end, .. } = &taken.checkpoint;
    let (label, lost) = (taken.checkpoint.label(), taken.events_lost);
    render::talk(&format!(
        "{id} is at checkpoint {label} (event {seq}), {status_at_end}; {lost} events fall away"
    ));
    tell_files(changes, left_out, outside);
    tell_staged(staged_left.as_deref());
    if let Some(kept_as) = &taken.kept_as {
        render::talk(&format!("the journal as it was: {}", kept_as.display()));
    }
    render::talk(&format!("the files as they were: tree {before} in checkpoints/files.git"));
    if rewound.changed_anything() {
        render::talk(&format!("`longhaul rewind {id} --undo` brings back what was here until now"));
    }
}

fn tell_files(changes: &[Change], left_out: &[PathBuf], outside: &[String]) {
    for change in changes.iter().take(FILES_SHOWN_MAX) {
        let status = match (&change.before, &change.after) {
            (None, _) => 'A',
            (_, None) => 'D',
            (Some(_), Some(_)) => 'M',
        };
        render::data(&format!("{status} {}", change.path.display().to_string().escape_debug()));
    }
    if changes.len() > FILES_SHOWN_MAX {
        render::talk(&format!("and {} more files", changes.len() - FILES_SHOWN_MAX));
    }
    for path in left_out.iter().take(FILES_SHOWN_MAX) {
        let path = path.display().to_string();
        render::warn(&format!("{} is no part of checkpoints, and was left as it is", path.escape_debug()));
    }
    if !outside.is_empty() {
        let calls = outside.join(", ");
        render::warn(&format!(
            "what these calls did outside the workspace, if anything, is NOT undone: {calls}"
        ));
    }
}

fn tell_staged(left: Option<&str>) {
    if let Some(why) = left {
        render::warn(&format!("what is staged in the workspace was left as it is: {why}"));
    }
}

pub fn fork(app: &App, args: ForkArgs) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.reading()?;
    let model = args.model.as_deref().map(|name| settled_model(name, &app.cwd));
    let (new, old) = (harness.new_run_id()?, harness.look(&id)?);
    if let Some(name) = &model {
        check_model(&app.models(&app.settings()?), name, &old.spec.limits)?;
    }
    let run = harness.fork(&id, &args.at, &new, apart(app, &old, &new, model)?)?;
    if app.json() {
        render::json(&json!({
            "id": new, "from": id, "at": args.at.to_string(), "status": run.status, "workspace": run.spec.workspace,
            "branch": run.spec.branch, "model": run.spec.model,
        }));
        return Ok(Exit::Ok);
    }
    render::data(new.as_str());
    render::talk(&format!("{new} is {id} at checkpoint {}; it works in {}", args.at, run.spec.workspace));
    if run.plan.completed_count() == run.plan.steps.len() {
        render::talk(&format!(
            "all of it was done there; `longhaul replan {new} --plan FILE` gives it more to do"
        ));
    } else {
        render::talk(&format!("`longhaul resume {new}` goes on with it"));
    }
    Ok(Exit::Ok)
}

/// A branch as the settings name it, also for what worked in place in a checkout: there it would otherwise have no way back.
fn apart(app: &App, run: &Run, new: &RunId, model: Option<String>) -> Result<Apart, Failure> {
    let RunSpec { repository, branch, source, workspace, task, agent, .. } = &run.spec;
    let settings = app.settings()?;
    let naming = Naming { git: &settings.git, task, agent, id: new };
    let known = repository.as_ref().or(source.as_ref().map(|source| &source.store));
    if let (Some(known), Some(_)) = (known, branch) {
        return Ok(Apart { model, branch: Some(naming.branch(Path::new(known))), checkout: None });
    }
    let whole = Path::new(workspace).canonicalize().ok();
    let top = whole.as_ref().and_then(|place| app::repository(place)?.canonicalize().ok());
    let checkout = top.clone().filter(|top| whole.as_ref() == Some(top));
    let checkout = checkout.and_then(|top| place::head(&top).map(|base| (top, base)));
    if checkout.is_none() {
        warn_of_no_branch(new, whole.as_deref().zip(top.as_deref()));
    }
    let branch = checkout.as_ref().map(|(top, _)| naming.branch(top));
    Ok(Apart { model, branch, checkout })
}

/// The fork works in a directory of its own, and its work comes back as a patch. `within` is where the first run worked and the top of
/// the checkout around it, if there is one.
fn warn_of_no_branch(new: &RunId, within: Option<(&Path, &Path)>) {
    let Some((top, below)) = within.and_then(|(place, top)| Some((top, place.strip_prefix(top).ok()?)))
    else {
        return render::warn(
            "there is no repository that a branch of the fork could go back to: what it makes stays in its directory",
        );
    };
    let (top, below) = (top.display(), below.display());
    render::warn(&format!(
        "{below} is only a part of {top}, so the fork has no branch there, only the files of that part in a directory of its own; \
         `longhaul diff {new}` prints what was made as a patch that `git apply --directory={below}` takes"
    ));
}
