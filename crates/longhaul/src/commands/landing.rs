//! `apply` and `merge`: a run's work, brought into the checkout it was made from.

use std::path::Path;

use longhaul_core::collaboration::Isolation;
use longhaul_core::prompt::own_step;
use longhaul_core::report::{Evidence, Sameness};
use longhaul_core::run::Run;
use longhaul_workspace::checkout::{self, Change, Checkout, Filters};
use longhaul_workspace::landing::{self, Error, How, Landed, Settled, Work};
use longhaul_workspace::{commit, homing, index_lock, place};
use serde_json::json;

use super::joining::{self, JoiningArgs};
use super::{result, session};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Bring a run's changes into the files of your checkout; nothing is staged or committed
///
/// Both what the run committed and what it left uncommitted is brought in, merged with what has changed here since. If a file
/// with changes of your own would be touched, or both sides changed the same lines, nothing is done and the files are named.
#[derive(Debug, clap::Args)]
pub struct ApplyArgs {
    #[arg(value_name = "ID")]
    pub id: String,
}

/// Merge a run's branch into the branch you are on
///
/// What the run left uncommitted is committed on its branch first. If both sides changed the same lines, the files are named and
/// your checkout stays as it was. Changes of your own that are not committed are never touched. `git reset --keep ORIG_HEAD`
/// takes a merge back.
///
/// With `--session`, the branches of its parallel runs that have completed are merged into the branch they began at, in the order
/// the runs were created, as one commit; that branch is moved once all of them fit together and every `--verify` command has passed on
/// the result, and not at all otherwise.
///
/// A run that began `--with-changes` has your uncommitted work as its first commit, and merging puts that onto your branch too,
/// with a warning; `longhaul apply` brings in only what the run made, and `git reset ORIG_HEAD` takes such a merge back and leaves
/// the files.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul merge run_1c4                                    into the branch you are on
  longhaul merge --session port --verify 'make test'        all parallel runs of a session
  longhaul merge --session port --agent coder               an agent resolves what conflicts")]
pub struct MergeArgs {
    #[arg(
        value_name = "ID",
        required_unless_present_any = ["session", "workflow_run"],
        conflicts_with_all = ["session", "workflow_run"]
    )]
    pub id: Option<String>,
    /// Merge the parallel runs of this session instead
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// The same for the parallel runs of a workflow
    #[arg(long, value_name = "NAME", conflicts_with = "session")]
    pub workflow_run: Option<String>,
    #[command(flatten)]
    pub joining: JoiningArgs,
}

pub fn apply(app: &App, args: ApplyArgs) -> Result<Exit, Failure> {
    let (work, untouched, evidence) = settled(app, &args.id)?;
    let landed = landing::apply(&work).map_err(|error| hinted(error, &work, untouched))?;
    let said = match landed.changes.len() {
        0 => format!("nothing of {} is missing here", work.run),
        count => format!("{} of {} changed, not committed", files(count), work.run),
    };
    report(app, &work, &landed, evidence.as_ref(), &said);
    Ok(Exit::Ok)
}

pub fn merge(app: &App, args: MergeArgs) -> Result<Exit, Failure> {
    let home = Isolation::PerWorkflow.home(args.session.as_deref(), args.workflow_run.as_deref());
    match (&args.id, session::of_home(app, home)?) {
        (_, Some(session)) => joining::merge(app, &session, &args.joining),
        (Some(_), None) if args.joining.is_used() => {
            Err(Failure::usage("--into, --verify and --agent are for the runs of a session: --session NAME"))
        }
        (Some(id), None) => merge_run(app, id),
        (None, None) => Err(Failure::usage("name a run, or a session with --session")),
    }
}

fn merge_run(app: &App, id: &str) -> Result<Exit, Failure> {
    let (work, untouched, evidence) = settled(app, id)?;
    if work.merges_carried().map_err(|error| hinted(error, &work, untouched))? {
        render::warn(&format!(
            "{} began with changes of yours that were not committed: merging puts them onto your branch as a commit of their own; \
             `git reset ORIG_HEAD` takes it back and leaves the files, `longhaul apply` brings in only what the run made",
            work.run
        ));
    }
    let landed = landing::merge(&work).map_err(|error| hinted(error, &work, untouched))?;
    let said = match &landed.commit {
        None => format!("everything of {} is on this branch already", work.run),
        Some(commit) => format!("merged {} as {commit}, {}", work.run, files(landed.changes.len())),
    };
    report(app, &work, &landed, evidence.as_ref(), &said);
    Ok(Exit::Ok)
}

/// The run's work, after whatever a killed landing left here has been settled, what is true from then on if nothing else
/// is done, and what shows that the work is done, as it is before anything is committed.
fn settled(app: &App, id: &str) -> Result<(Work, &'static str, Option<Evidence>), Failure> {
    let run = app.reading()?.look(&app.run(id)?)?;
    if let (Some(source), Some(branch)) = (&run.spec.source, &run.spec.branch) {
        let (id, place) = (&run.spec.id, &run.spec.workspace);
        return Err(Failure::usage(format!(
            "{id} works on {}, of which there is no checkout here",
            source.url
        ))
        .hint(format!(
            "its work is on branch {branch} in {place}; `git pull {place} {branch}` brings it anywhere"
        )));
    }
    if app.reading()?.store_of(&run.spec.id)?.holder(&run.spec.id)?.is_some() {
        let (id, called) = (&run.spec.id, run.called());
        render::warn(&format!("{id} is {called}; this is what it has made so far"));
    }
    let work = work(app, &run)?;
    let settled = landing::settle(&work).map_err(|error| explained(error, &work))?;
    Ok((work, tell_settled(settled), result::evidence(&run)))
}

/// Says what became of a landing that was killed, and answers what is true from then on.
pub fn tell_settled(settled: Option<Settled>) -> &'static str {
    let Some(settled) = settled else { return UNTOUCHED };
    let cut_short = format!("bringing in {} was cut short", settled.run);
    match settled.how {
        How::Finished => {
            render::warn(&format!("{cut_short}, and is now finished"));
            "nothing else was changed"
        }
        How::TakenBack { paths } if paths.is_empty() => {
            render::warn(&format!("{cut_short}; nothing of it is left here"));
            UNTOUCHED
        }
        How::TakenBack { paths } => {
            render::warn(&format!("{cut_short}; {}", again(paths.len())));
            "nothing else was changed"
        }
        How::MovedOn => {
            render::warn(&format!(
                "{cut_short}, and another commit or branch is checked out since: nothing was taken back; `git status` shows \
                 what is left of it"
            ));
            UNTOUCHED
        }
    }
}

const UNTOUCHED: &str = "nothing was changed";

fn report(app: &App, work: &Work, landed: &Landed, evidence: Option<&Evidence>, said: &str) {
    let verified =
        evidence.filter(|_| !landed.changes.is_empty()).and_then(|evidence| match evidence.files {
            Sameness::Same => None,
            Sameness::Other => {
                Some("was verified on other files than these, which somebody has changed since")
            }
            Sameness::Unknown => Some("was verified, but whether on these very files cannot be told"),
        });
    if let Some(verified) = verified {
        let run = &work.run;
        render::warn(&format!("{run} {verified}; `longhaul result {run}` says what was measured"));
    }
    if app.json() {
        let files = files_json(landed);
        let evidence =
            evidence.map(|found| json!({ "at": found.at, "holds": found.holds, "files": found.files }));
        render::json(&json!({
            "id": work.run, "repository": work.repository, "commit": landed.commit, "files": files, "evidence": evidence,
        }));
        return;
    }
    list(landed);
    render::talk(said);
}

/// The files that came in, a line each.
pub fn list(landed: &Landed) {
    for change in &landed.changes {
        render::data(&format!("{} {}", status(change), name(change).escape_debug()));
    }
}

/// The same for programs.
pub fn files_json(landed: &Landed) -> Vec<serde_json::Value> {
    let file = |change: &Change| json!({ "path": name(change), "status": status(change) });
    landed.changes.iter().map(file).collect()
}

pub fn files(count: usize) -> String {
    if count == 1 { "1 file".to_owned() } else { format!("{count} files") }
}

/// That what was written is taken back.
fn again(count: usize) -> String {
    match count {
        1 => "1 file it had written is as it was again".to_owned(),
        count => format!("{count} files it had written are as they were again"),
    }
}

fn name(change: &Change) -> String {
    change.path.display().to_string()
}

fn status(change: &Change) -> &'static str {
    match (&change.before, &change.after) {
        (None, _) => "A",
        (Some(_), None) => "D",
        (Some(_), Some(_)) => "M",
    }
}

/// What the run made, for those who look at it or bring it in.
pub fn work(app: &App, run: &Run) -> Result<Work, Failure> {
    let spec = &run.spec;
    let id = &spec.id;
    // What was brought from elsewhere is a repository of its own, in which its work can be looked at.
    let repository = spec.repository.as_ref().or_else(|| spec.source.as_ref().map(|_| &spec.workspace));
    let (Some(repository), Some(branch)) = (repository, &spec.branch) else {
        return Err(Failure::usage(format!(
            "{id} works in {}, which is no worktree of a repository",
            spec.workspace
        ))
        .hint(format!(
            "what it changed is there; `longhaul diff {id}` shows it, and `git apply` takes that elsewhere"
        )));
    };
    if !Path::new(&spec.workspace).is_dir() && !run.has_worked() {
        return Err(Failure::usage(format!("{id} has not begun")).hint(format!("`longhaul start {id}`")));
    }
    Ok(Work {
        run: id.to_string(),
        title: table::short(own_step(&spec.task), TITLE_LETTERS_MAX),
        repository: repository.into(),
        worktree: spec.workspace.as_str().into(),
        branch: branch.clone(),
        base: spec.base.clone(),
        carried: spec.carried == Some(true),
        scratch: scratch(app),
    })
}

/// As much of a task as fits into the first line of a commit.
const TITLE_LETTERS_MAX: usize = 64;

/// Where our own files go for a while, out of every agent's reach.
pub fn scratch(app: &App) -> std::path::PathBuf {
    app.state_dir.join("scratch")
}

/// A checkout to look at.
pub fn opened(app: &App, top: &Path) -> Result<Checkout, Failure> {
    app.make_home()?;
    Checkout::open(top, &scratch(app), Filters::Absent).map_err(failure)
}

pub fn failure(error: checkout::Error) -> Failure {
    Failure::from(anyhow::Error::from(error))
}

/// The error with what can be done about it.
pub fn explained(error: Error, work: &Work) -> Failure {
    hinted(error, work, UNTOUCHED)
}

/// The same, where `untouched` says what is true of the checkout.
pub fn hinted(error: Error, work: &Work, untouched: &str) -> Failure {
    let (branch, worktree) = (&work.branch, work.worktree.display());
    let hint = match &error {
        Error::Conflicts { .. } => format!("{untouched}; `git merge {branch}` leaves the conflicts to you"),
        Error::Unrelated => format!(
            "{untouched}; `longhaul apply` brings in the files alone, `git merge --allow-unrelated-histories {branch}` both histories"
        ),
        Error::Uncommitted { .. } => format!(
            "{untouched}; commit or stash them first; `git ls-files -v` marks with `h` or `S` those that git was told to pass over"
        ),
        Error::InTheWay { .. } => format!("{untouched}; move them away first"),
        Error::OwnState { .. } => format!(
            "{untouched}; look at how they came there, and take them out of {worktree} and of what is committed on {branch}; do not \
             merge it yourself before"
        ),
        Error::Unmerged { .. } => format!("{untouched}; resolve them first, and `git add` them"),
        Error::Filtered { .. }
        | Error::Checkout(checkout::Error::Filtered { .. })
        | Error::Commit(commit::Error::Checkout(checkout::Error::Filtered { .. }))
            if place::is_dirty(&work.worktree) =>
        {
            format!(
                "{untouched}; commit them yourself in {worktree}, then `git pull --no-rebase \"{worktree}\" HEAD`: both run your filters"
            )
        }
        Error::Filtered { .. } => format!("{untouched}; `git merge {branch}` runs your filters"),
        Error::Unsettled { back, .. } => {
            let back = match back {
                0 => UNTOUCHED.to_owned(),
                &back => again(back),
            };
            format!(
                "they are yours and were left alone; {back}; commit, stash or remove them, then say it again"
            )
        }
        Error::Detached { .. } => {
            format!("{untouched}; `git switch BRANCH` first, or bring in the files with `longhaul apply`")
        }
        Error::Apart(homing::Error::Diverged { .. }) => format!(
            "{untouched}; `git -C \"{worktree}\" pull --no-rebase \"{}\" {branch}` puts both together, then say it again",
            work.repository.display()
        ),
        Error::Apart(homing::Error::Broken { .. } | homing::Error::Lost { .. }) => format!(
            "{untouched}; its files are still in {worktree}, and what was brought before is on `{branch}`"
        ),
        Error::Busy => "try again in a moment".to_owned(),
        Error::Gone { .. } => "its journal is kept: `longhaul logs` shows what it did".to_owned(),
        Error::Lock(index_lock::Error::Foreign { path })
        | Error::Commit(commit::Error::Lock(index_lock::Error::Foreign { path })) => {
            format!("{untouched}; if no git is running there, remove {} yourself", path.display())
        }
        Error::Lock(index_lock::Error::Elsewhere { path, host, .. })
        | Error::Commit(commit::Error::Lock(index_lock::Error::Elsewhere { path, host, .. })) => {
            format!("{untouched}; if no longhaul runs on {host}, remove {} yourself", path.display())
        }
        Error::Commit(commit::Error::UnderWay { .. }) => {
            format!("{untouched}; finish or abort it first")
        }
        Error::Apart(_) | Error::Commit(_) | Error::Lock(_) | Error::Checkout(_) => {
            return Failure::from(anyhow::Error::from(error));
        }
    };
    let exit = if matches!(error, Error::Busy) { Exit::Held } else { Exit::Failed };
    Failure { exit, ..Failure::from(anyhow::Error::from(error)).hint(hint) }
}
