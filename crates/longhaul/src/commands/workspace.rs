//! `workspace`: where runs work, what that takes, and taking it away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_engine::clock::{Clock, SystemClock};
use longhaul_engine::{Error as EngineError, Harness};
use longhaul_store::Error as StoreError;
use longhaul_workspace::place::{self, Place, REMOVING};
pub use longhaul_workspace::prune::bytes_below;
use longhaul_workspace::prune::{self, Pruned, directories};
use longhaul_workspace::{homing, lending};
use serde_json::{Value, json};

use super::landing::scratch;
use super::{leavings, session, source};
use crate::app::App;
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{CHECKPOINTS_PRUNED_FROM, UNNAMED_KEPT, UNNAMED_KEPT_OVER_QUOTA};
use crate::render::{self, table};
use crate::settings::Retention;

/// Where runs work and what that takes
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul workspace list                         what is there, and how large it is
  longhaul workspace cleanup --dry-run            what would go
  longhaul workspace cleanup --older-than 7d")]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// The workspaces of runs, and how much room those, sessions, stored files and fetched repositories take
    List,
    /// Remove where ended runs and workflows worked, and stored files and fetched repositories that no run needs
    ///
    /// Their branches and records stay, and so do workspaces with changes that no branch of yours has. What a run left outside of
    /// any repository is gone. Worktrees of runs whose directories somebody has deleted are no longer listed in your repository, and
    /// what `--with-changes` carried in is left to the run's branch. Runs that were removed with `longhaul rm` count as ended. Sessions are never touched. Stored files, to which `longhaul rewind` goes back, stay as long as
    /// their run is there; a week after `longhaul rm` they go, or after an hour if there are more than `checkpoints.quota`. They
    /// are left as they are while a run is driven, and as long as they take little room. A repository that `--repo` fetched stays as
    /// long as a run that came from it is there, and goes so long after it was last asked for.
    Cleanup {
        /// Ended so long ago, like `7d` [default: `workspace.cleanup_after`, 24h]
        #[arg(long, value_name = "TIME", value_parser = duration::parse)]
        older_than: Option<Duration>,
        /// Only say which
        #[arg(long)]
        dry_run: bool,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match args.what {
        What::List => list(app),
        What::Cleanup { older_than, dry_run } => cleanup(app, older_than, dry_run),
    }
}

/// A directory that is a run's, or what is left of one.
struct Found {
    path: PathBuf,
    name: String,
    /// None if it was removed: what it left here is nobody's any more.
    run: Option<Run>,
    /// An earlier removal was killed at it.
    begun: bool,
}

impl Found {
    /// Whose worktree it is, if it is one.
    fn repository(&self) -> Option<PathBuf> {
        if let Some(run) = &self.run {
            return run.spec.repository.as_ref().filter(|_| run.spec.branch.is_some()).map(PathBuf::from);
        }
        match place::found_at(&self.path) {
            Place::Worktree { repo, .. } => Some(repo),
            Place::InPlace(_) | Place::Clone { .. } | Place::Fresh(_) => None,
        }
    }
}

/// What is not a run's, or is of a run that cannot be read, is not ours to judge.
fn all(app: &App, harness: &Harness) -> Vec<Found> {
    let found = |path: PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (name, begun) = match name.strip_suffix(REMOVING) {
            Some(name) => (name.to_owned(), true),
            None => (name, false),
        };
        let run = match harness.look(&RunId::parse(name.split('~').next()?).ok()?) {
            Ok(run) => Some(run),
            Err(EngineError::Store(StoreError::NotFound { .. })) => None,
            Err(_) => return None,
        };
        Some(Found { path, name, run, begun })
    };
    let places = directories(&app.state_dir.join("workspace").join("run")).unwrap_or_default();
    places.into_iter().filter_map(found).collect()
}

fn list(app: &App) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    let shown: Vec<Value> = all(app, &harness)
        .iter()
        .map(|found| {
            let run = found.run.as_ref();
            json!({
                "id": found.name, "status": run.map_or("removed", |run| run.status.as_str()),
                "updatedAt": run.map(|run| run.updated_at), "bytes": bytes_below(&found.path),
                "branch": run.and_then(|run| run.spec.branch.as_ref()), "path": found.path,
            })
        })
        .collect();
    let size = |name: &str| bytes_below(&app.state_dir.join(name));
    let total = json!({
        "workspaces": size("workspace"), "sessions": size("sessions"), "checkpoints": size("checkpoints"), "repositories": size("cache"),
    });
    if app.json() {
        render::json(&json!({ "workspaces": shown, "bytes": total }));
        return Ok(Exit::Ok);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = shown.iter().map(|shown| {
        let bytes = table::bytes(shown["bytes"].as_u64().unwrap_or(0));
        let (branch, path) = (table::clean(&text(&shown["branch"])), table::clean(&text(&shown["path"])));
        vec![text(&shown["id"]), text(&shown["status"]), text(&shown["updatedAt"]), bytes, branch, path]
    });
    render::data(&table::rows(&["RUN", "STATUS", "UPDATED", "SIZE", "BRANCH", "PATH"], rows));
    let part = |name: &str| table::bytes(total[name].as_u64().unwrap_or(0));
    render::talk(&format!(
        "workspaces {}, sessions {}, stored files {}, fetched repositories {}",
        part("workspaces"),
        part("sessions"),
        part("checkpoints"),
        part("repositories")
    ));
    Ok(Exit::Ok)
}

fn cleanup(app: &App, older_than: Option<Duration>, dry_run: bool) -> Result<Exit, Failure> {
    let retention = app.settings()?.retention;
    let older_than = older_than.unwrap_or(retention.cleanup_after);
    let harness = app.reading()?;
    let (mut gone, mut bytes) = (Vec::new(), 0);
    for fork in harness.dead_forks() {
        let freed = bytes_below(&app.state_dir.join("workspace").join("run").join(fork.id.as_str()));
        let warned = |error| render::warn(&format!("{} stays: {:#}", fork.id, anyhow::Error::from(error)));
        if dry_run || fork.remove().map_err(warned).is_ok() {
            bytes += freed;
            gone.push(fork.id.to_string());
        }
    }
    let mut found = all(app, &harness);
    found.retain(|found| !gone.contains(&found.name));
    let repositories = found.iter().filter_map(Found::repository).collect();
    for Found { path, name, run, begun } in found {
        let Some(run) = run else {
            if let Some(freed) = remove_orphan(app, &path, &name, begun, older_than, dry_run) {
                bytes += freed;
                gone.push(name);
            }
            continue;
        };
        let place = place_of(&run);
        // Where the first try of a sub-agent worked whose run was rewound since: nobody can say what it holds.
        if place.directory().file_name() != Some(name.as_ref()) {
            continue;
        }
        if !begun
            && (!is_over(&run, older_than) || (is_of_git(&run) && is_unsaved(app, &place, &name, dry_run)))
        {
            continue;
        }
        let freed = bytes_below(&path);
        if dry_run || remove(&place, &name, begun) {
            bytes += freed;
            gone.push(name);
        }
    }
    for (name, freed) in session::clean_up_workflows(app, older_than, dry_run)? {
        bytes += freed;
        gone.push(format!("workflow/{name}"));
    }
    for (name, freed) in source::clean_up(app, &harness, older_than, dry_run)? {
        bytes += freed;
        gone.push(name);
    }
    let unlisted = if dry_run { 0 } else { leavings::clean_up(app, &harness, repositories) };
    let pruned = if dry_run { None } else { pruned(app, &harness, retention.checkpoints_max) };
    let freed = bytes + pruned.map_or(0, |pruned| pruned.bytes_before.saturating_sub(pruned.bytes_after));
    if app.json() {
        let checkpoints = pruned
            .map(|pruned| json!({ "bytesBefore": pruned.bytes_before, "bytesAfter": pruned.bytes_after }));
        render::json(
            &json!({ "removed": gone, "bytes": freed, "checkpoints": checkpoints, "unlisted": unlisted, "dryRun": dry_run }),
        );
        return Ok(Exit::Ok);
    }
    gone.iter().for_each(|name| render::data(name));
    if unlisted > 0 {
        let whose = if unlisted == 1 {
            "worktree whose directory was gone is"
        } else {
            "worktrees whose directories were gone are"
        };
        render::talk(&format!("{unlisted} {whose} no longer listed"));
    }
    let verb = if dry_run { "would be freed" } else { "freed" };
    render::talk(&format!("{} {verb}", table::bytes(freed)));
    Ok(Exit::Ok)
}

/// Takes away what a run left that was removed since, by the same rules; how long nobody has used it is told by the directory. Says
/// what that frees.
fn remove_orphan(
    app: &App,
    path: &Path,
    name: &str,
    begun: bool,
    older_than: Duration,
    dry_run: bool,
) -> Option<u64> {
    let whole = path.with_file_name(name);
    let place = place::found_at(&whole);
    let modified = path.metadata().and_then(|facts| facts.modified()).ok();
    let is_old = modified.is_some_and(|at| at.elapsed().unwrap_or_default() >= older_than);
    let is_of_git = !matches!(place, Place::Fresh(_));
    if !begun && (!is_old || (is_of_git && is_unsaved(app, &place, name, dry_run))) {
        return None;
    }
    let bytes = bytes_below(path);
    if !dry_run {
        if !remove(&place, name, begun) {
            return None;
        }
        // Whoever removed it may have been killed before that.
        if let Place::Worktree { repo, .. } = &place {
            leavings::let_go(repo, name);
        }
    }
    Some(bytes)
}

/// Takes a place away, or does the rest of that. One that stays keeps nobody from the others.
fn remove(place: &Place, name: &str, begun: bool) -> bool {
    let removed = if begun { place::finish_removing(place) } else { place::remove(place) };
    let warned = |error| render::warn(&format!("{name} stays: {:#}", anyhow::Error::from(error)));
    removed.map_err(warned).is_ok()
}

/// Gives back what stored files take that nobody needs, if that is worth it. That it cannot be done now is no failure.
fn pruned(app: &App, harness: &Harness, quota: Option<u64>) -> Option<Pruned> {
    let stored = prune::taken(&app.state_dir).bytes;
    let over = |bytes: u64| quota.is_some_and(|quota| bytes > quota);
    if stored < CHECKPOINTS_PRUNED_FROM && !over(stored) {
        return None;
    }
    let kept = if over(stored) { UNNAMED_KEPT_OVER_QUOTA } else { UNNAMED_KEPT };
    match harness.prune_checkpoints(kept) {
        Ok(pruned) => {
            let left = pruned.map_or(0, |pruned| pruned.bytes_after);
            if over(left) {
                render::warn(&format!(
                    "stored files still take {}, more than checkpoints.quota: no more are stored; `longhaul rm` removes runs with theirs",
                    table::bytes(left)
                ));
            }
            pruned
        }
        Err(error) => {
            render::warn(&format!("stored files stay as they are: {:#}", anyhow::Error::from(error)));
            None
        }
    }
}

/// Takes a run's own workspace away as soon as it has completed, if that is wanted: `workspace.cleanup_on_complete`. What a session
/// or a workflow shares stays, and so does what no branch has: outside of a repository, that is everything.
pub fn after_completion(app: &App, run: &Run) {
    let place = place_of(run);
    let runs = app.state_dir.join("workspace").join("run");
    let is_own = place.directory().parent().is_some_and(|within| within == runs);
    if run.status != Status::Completed || !is_own {
        return;
    }
    let wanted = match app.settings_quietly() {
        Ok(settings) => settings.retention.cleanup_on_complete,
        // Whoever changed them meanwhile, the run ended as it did.
        Err(failure) => {
            return render::warn(&format!(
                "the settings cannot be read any more, so its workspace stays: {:#}",
                failure.error
            ));
        }
    };
    if !wanted || is_unsaved(app, &place, run.spec.id.as_str(), false) {
        return;
    }
    match place::remove(&place) {
        Ok(()) => render::talk("its workspace is taken away (workspace.cleanup_on_complete)"),
        Err(error) => render::warn(&format!("the workspace stays: {:#}", anyhow::Error::from(error))),
    }
}

/// Refuses another workspace while all of them take more than they may, or would with the files of that one: `begins` says of which
/// repository, and at which commit.
pub fn refuse_over_quota(
    app: &App,
    retention: Retention,
    begins: Option<(&Path, &str)>,
) -> Result<(), Failure> {
    let Some(quota) = retention.workspaces_max else { return Ok(()) };
    let taken = bytes_below(&app.state_dir.join("workspace")) + bytes_below(&app.state_dir.join("sessions"));
    let more = begins.and_then(|(repository, commit)| place::checkout_bytes(repository, commit)).unwrap_or(0);
    if taken.saturating_add(more) <= quota {
        return Ok(());
    }
    let (taken, quota) = (table::bytes(taken), table::bytes(quota));
    let error = match more {
        0 => anyhow::anyhow!("workspaces take {taken}, more than workspace.quota, {quota}"),
        u64::MAX => {
            anyhow::anyhow!("there are too many files for a workspace within workspace.quota, {quota}")
        }
        more => anyhow::anyhow!(
            "workspaces take {taken}, and with the {} of this one more than workspace.quota, {quota}",
            table::bytes(more)
        ),
    };
    let hint =
        "`longhaul workspace list` shows them, `longhaul workspace cleanup` removes those of ended runs";
    Err(Failure { exit: Exit::Limit, error, hint: Some(hint.to_owned()) })
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

/// Outside of a repository there are no branches that could have what a run made; whoever says `cleanup` knows that.
fn is_of_git(run: &Run) -> bool {
    run.spec.branch.is_some() || run.spec.source.is_some()
}

/// Would something be lost that no branch has? What somebody has committed there by hand is brought home first, unless it is only
/// asked what would be.
fn is_unsaved(app: &App, place: &Place, name: &str, dry_run: bool) -> bool {
    if !dry_run {
        // What cannot be brought is nowhere else.
        drop(homing::publish(place.directory(), &scratch(app)));
        lending::refresh(place.directory()).ok();
    }
    let is_unsaved = place::is_unsaved(place.directory());
    if is_unsaved {
        render::warn(&format!("{name} has changes that are nowhere else and stays"));
    }
    is_unsaved
}
