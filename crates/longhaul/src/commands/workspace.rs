//! `workspace`: where finished runs worked, and taking that away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_engine::clock::{Clock, SystemClock};
use longhaul_workspace::place::{self, Place, REMOVING};
use serde_json::json;

use super::session;
use crate::app::App;
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Workspaces of runs that have ended
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Remove where ended runs and workflows worked
    ///
    /// Their branches and records stay, and so do workspaces with changes that no branch of yours has. What a run left outside of
    /// any repository is gone. Sessions are never touched.
    Cleanup {
        /// Ended so long ago, like `7d` [default: workspace.cleanup_after, 24h]
        #[arg(long, value_name = "TIME", value_parser = duration::parse)]
        older_than: Option<Duration>,
        /// Only say which
        #[arg(long)]
        dry_run: bool,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let What::Cleanup { older_than, dry_run } = args.what;
    let older_than = match older_than {
        Some(typed) => typed,
        None => Duration::from_millis(app.settings_quietly()?.cleanup.after_ms),
    };
    let harness = app.reading()?;
    let (mut gone, mut bytes) = (Vec::new(), 0);
    for path in directories(&app.state_dir.join("workspace").join("run")) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // One that an earlier removal was killed at.
        let (name, begun) = match name.strip_suffix(REMOVING) {
            Some(name) => (name.to_owned(), true),
            None => (name, false),
        };
        // What is not a run's, or is of a run that cannot be read, is not ours to judge.
        let id = name.split('~').next().unwrap_or_default();
        let Ok(run) = RunId::parse(id).map_err(|_| ()).and_then(|id| harness.look(&id).map_err(|_| ()))
        else {
            continue;
        };
        let place = place_of(&run);
        // Where the first try of a sub-agent worked whose run was rewound since: nobody can say what it holds.
        if place.directory().file_name() != Some(name.as_ref()) {
            continue;
        }
        if !begun && (!is_over(&run, older_than) || is_unsaved(&run, &place, &name)) {
            continue;
        }
        bytes += bytes_below(&path);
        if !dry_run {
            place::remove(&place).map_err(anyhow::Error::from)?;
        }
        gone.push(name);
    }
    for (name, freed) in session::clean_up_workflows(app, older_than, dry_run)? {
        bytes += freed;
        gone.push(format!("workflow/{name}"));
    }
    if app.json() {
        render::json(&json!({ "removed": gone, "bytes": bytes, "dryRun": dry_run }));
        return Ok(Exit::Ok);
    }
    gone.iter().for_each(|name| render::data(name));
    let verb = if dry_run { "would be freed" } else { "freed" };
    render::talk(&format!("{} {verb}", table::bytes(bytes)));
    Ok(Exit::Ok)
}

/// Takes a run's own workspace away as soon as it has completed, if that is wanted: `workspace.cleanup_on_complete`. What a session
/// or a workflow shares stays, and so does what no branch has.
pub fn after_completion(app: &App, run: &Run) -> Result<(), Failure> {
    let place = place_of(run);
    let is_own = place
        .directory()
        .parent()
        .is_some_and(|within| within == app.state_dir.join("workspace").join("run"));
    let wanted = run.status == Status::Completed && is_own && app.settings_quietly()?.cleanup.on_complete;
    if !wanted || is_unsaved(run, &place, run.spec.id.as_str()) {
        return Ok(());
    }
    place::remove(&place).map_err(anyhow::Error::from)?;
    render::talk("its workspace is taken away (workspace.cleanup_on_complete)");
    Ok(())
}

fn place_of(run: &Run) -> Place {
    let path = PathBuf::from(&run.spec.workspace);
    match (&run.spec.repository, &run.spec.branch) {
        (Some(repo), Some(branch)) => {
            Place::Worktree { repo: repo.into(), path, branch: branch.clone(), start: None }
        }
        _ => Place::Fresh(path),
    }
}

fn is_over(run: &Run, age: Duration) -> bool {
    let idle = SystemClock.now().millis_since(run.updated_at);
    run.status.is_terminal() && u128::from(idle) >= age.as_millis()
}

/// Would something be lost that no branch has?
fn is_unsaved(run: &Run, place: &Place, name: &str) -> bool {
    let path = place.directory();
    // What was brought from elsewhere has the run's branch nowhere but there.
    let is_alone = run.spec.source.is_some() && place::has_own_commits(path);
    let is_unsaved = is_alone || (run.spec.branch.is_some() && place::is_dirty(path));
    if is_unsaved {
        render::warn(&format!("{name} has changes that are nowhere else and stays"));
    }
    is_unsaved
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    found.sort();
    found
}

/// How much is in a directory, no link followed.
pub fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.file_type() {
        Ok(kind) if kind.is_dir() => bytes_below(&entry.path()),
        Ok(_) => entry.metadata().map_or(0, |facts| facts.len()),
        Err(_) => 0,
    };
    entries.map(size).sum()
}
