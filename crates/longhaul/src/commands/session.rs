//! `session`: named workspaces that outlive runs, and who has them.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_core::collaboration::{Home, Way};
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::status::{Status, Wait};
use longhaul_core::time::Timestamp;
use longhaul_engine::Harness;
use longhaul_engine::clock::{Clock, SystemClock};
use longhaul_workspace::limits::SESSION_EXPIRY;
use longhaul_workspace::place::{self, Place};
pub use longhaul_workspace::session::Session;
use longhaul_workspace::session::{self, Error, Held, Hold, Name, Notes, Visit};
use longhaul_workspace::{homing, lending};
use serde_json::{Value, json};

use super::create::Options;
use super::landing::scratch;
use super::workspace::bytes_below;
use super::{placing, source};
use crate::app::App;
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{SESSION_RUNS_LOOKED_AT_MAX, SESSION_UNUSED_MAX, SESSIONS_NAMED_MAX};
use crate::render::{self, table};
use crate::settings::Settings;

/// Sessions: named workspaces that several runs share, one after another or side by side
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul run \"Begin the port\" --session port       begins it
  longhaul run \"Go on\" --session port                sees the files and commits of the first
  longhaul run \"Do the pages\" --session port --agent frontend --collaboration parallel
  longhaul merge --session port                      brings the branches of parallel runs together
  longhaul session cleanup --older-than 7d --dry-run")]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// All sessions, and which are in use
    List,
    /// One session: its workspace, repository, branch, holder and runs
    Info {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Remove a session with its files; its branch and the records of its runs stay
    Delete {
        #[arg(value_name = "NAME")]
        name: String,
        /// Also if there are changes that are nowhere else
        #[arg(long)]
        force: bool,
    },
    /// Remove sessions that nobody has used for long; those in use and those with changes that are nowhere else stay
    Cleanup {
        /// Not used for so long, like `7d`
        #[arg(long, value_name = "TIME", value_parser = duration::parse)]
        older_than: Duration,
        /// Only say which
        #[arg(long)]
        dry_run: bool,
    },
    /// Free a session whose run is dead; one that may live is never robbed
    Unlock {
        #[arg(value_name = "NAME")]
        name: String,
        /// Also one of another machine, of which nothing can be known from here
        #[arg(long)]
        force: bool,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    // Whose the state directory is, is asked before anything in it is believed.
    app.home()?;
    match args.what {
        What::List => list(app),
        What::Info { name } => info(app, &named(app, &name)?),
        What::Delete { name, force } => {
            let session = named(app, &name)?;
            delete(app, &session, force)?;
            render::talk(&format!("session {name} removed"));
            Ok(Exit::Ok)
        }
        What::Cleanup { older_than, dry_run } => cleanup(app, older_than, dry_run),
        What::Unlock { name, force } => {
            let session = named(app, &name)?;
            session.notes().map_err(failure)?;
            match session.unlock(force).map_err(failure)? {
                Some(lease) => render::talk(&format!("session {name} is free; {} had it", lease.run)),
                None => render::talk(&format!("session {name} was free")),
            }
            Ok(Exit::Ok)
        }
    }
}

fn list(app: &App) -> Result<Exit, Failure> {
    let sessions = session::all(&sessions(app)).map_err(failure)?;
    let shown: Vec<Value> = sessions
        .iter()
        .map(|session| shown(session).unwrap_or_else(|failure| damaged(session, &failure)))
        .collect();
    if app.json() {
        render::json(&shown);
        return Ok(Exit::Ok);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let rows = shown.iter().map(|session| {
        vec![
            text(&session["name"]),
            text(&session["status"]),
            text(&session["lastUsedAt"]),
            session["runs"].as_array().map_or(0, Vec::len).to_string(),
            table::bytes(session["bytes"].as_u64().unwrap_or(0)),
            table::clean(&(text(&session["repository"]) + &text(&session["source"]))),
        ]
    });
    let header = ["session", "status", "last used", "runs", "size", "repository"];
    render::data(&table::rows(&header, rows));
    Ok(Exit::Ok)
}

fn info(app: &App, session: &Session) -> Result<Exit, Failure> {
    let shown = shown(session)?;
    if app.json() {
        render::json(&shown);
        return Ok(Exit::Ok);
    }
    for key in ["name", "status", "workspace", "repository", "source", "branch", "createdAt", "lastUsedAt"] {
        if let Some(value) = shown[key].as_str() {
            render::data(&format!("{key:<12} {}", table::clean(value)));
        }
    }
    for run in shown["runs"].as_array().into_iter().flatten() {
        let word = |key: &str| run[key].as_str().unwrap_or_default().to_owned();
        let line = format!("{:<12} {} {} {}", "run", table::clean(&word("run")), word("at"), word("branch"));
        render::data(line.trim_end());
    }
    Ok(Exit::Ok)
}

/// A session as it stands: its notes, its holder, its size.
fn shown(session: &Session) -> Result<Value, Failure> {
    let notes = session.notes().map_err(failure)?;
    let (status, lease) = match session.hold(now()).map_err(failure)? {
        Hold::Free if is_old(&notes, SESSION_UNUSED_MAX) => ("free, unused for long".to_owned(), None),
        Hold::Free => ("free".to_owned(), None),
        Hold::Live(lease) => (format!("locked by {}", lease.run), Some(lease)),
        Hold::Stale(lease) => (format!("left by {}, which is dead", lease.run), Some(lease)),
    };
    let mut shown = json!(notes);
    shown["status"] = json!(status);
    shown["lease"] = json!(lease);
    shown["workspace"] = json!(session.workspace());
    shown["bytes"] = json!(bytes_below(&session.workspace()));
    Ok(shown)
}

/// One of which nothing can be told, because its notes are damaged. It keeps nobody from the others.
fn damaged(session: &Session, failure: &Failure) -> Value {
    render::warn(&format!("session {}: {:#}", session.name(), failure.error));
    json!({
        "name": session.name(),
        "status": "cannot be read",
        "workspace": session.workspace(),
        "bytes": bytes_below(&session.workspace()),
    })
}

/// What is written down of it. One that cannot be read stays, and that is said.
fn readable(kind: &str, session: &Session) -> Option<Notes> {
    let stays = |error| {
        let (name, error) = (session.name(), anyhow::Error::from(error));
        render::warn(&format!("{kind} {name} stays: {error:#}"));
    };
    session.notes().map_err(stays).ok()
}

fn cleanup(app: &App, older_than: Duration, dry_run: bool) -> Result<Exit, Failure> {
    let (mut gone, mut kept) = (Vec::new(), Vec::new());
    for session in session::all(&sessions(app)).map_err(failure)? {
        let name = session.name().to_owned();
        let Some(notes) = readable("session", &session) else { continue };
        let is_held = matches!(session.hold(now()), Ok(Hold::Live(_)) | Err(_));
        if !is_old(&notes, older_than) || is_held || at_work(app, &session, &notes)?.is_some() {
            continue;
        }
        if resting(app, &notes)?.is_some() {
            continue;
        }
        // Nobody has named it, so nobody has said that the only copy may go.
        if only_copy(app, &session, dry_run)?.is_some() {
            kept.push(name);
        } else if dry_run {
            gone.push(name);
        } else {
            delete(app, &session, false)?;
            gone.push(name);
        }
    }
    for name in &kept {
        render::warn(&format!("session {name} has changes that are nowhere else and stays"));
    }
    if !kept.is_empty() {
        render::hint(
            "`longhaul session delete NAME` removes one by its name, with `--force` whatever it has",
        );
    }
    if app.json() {
        render::json(&json!({ "removed": gone, "kept": kept, "dryRun": dry_run }));
    } else {
        gone.iter().for_each(|name| render::data(name));
    }
    Ok(Exit::Ok)
}

/// Takes away what the runs of workflows shared that have ended so long ago, and answers the names. What is nowhere else stays.
pub fn clean_up_workflows(
    app: &App,
    older_than: Duration,
    dry_run: bool,
) -> Result<Vec<(String, u64)>, Failure> {
    let mut gone = Vec::new();
    for workflow in session::all(&app.state_dir.join("workspace").join("workflow")).map_err(failure)? {
        let Some(notes) = readable("workflow", &workflow) else { continue };
        let is_held = matches!(workflow.hold(now()), Ok(Hold::Live(_)) | Err(_));
        if is_held || !is_old(&notes, older_than) || !is_over(app, &notes)? {
            continue;
        }
        let name = workflow.name().to_owned();
        if unsaved(app, &workflow, &notes, dry_run)?.is_some() {
            render::warn(&format!("workflow {name} has changes that are nowhere else and stays"));
            continue;
        }
        let bytes = bytes_below(&workflow.workspace());
        match if dry_run { Ok(()) } else { delete(app, &workflow, false) } {
            Ok(()) => gone.push((name, bytes)),
            Err(Failure { error, .. }) => render::warn(&format!("workflow {name} stays: {error:#}")),
        }
    }
    Ok(gone)
}

/// Has every run there ended, as far as there is a record of it?
fn is_over(app: &App, notes: &Notes) -> Result<bool, Failure> {
    let harness = app.reading()?;
    let looked = |visit: &Visit| harness.look(&RunId::parse(&visit.run).ok()?).ok();
    Ok(notes.runs.iter().filter_map(looked).all(|run| run.status.is_terminal()))
}

fn delete(app: &App, session: &Session, force: bool) -> Result<(), Failure> {
    notes_of(session, force)?;
    // A run that is being created there is waited for, and is in the notes then.
    let _naming = session.naming().map_err(failure)?;
    let (held, _) = session.take("session delete", SESSION_EXPIRY).map_err(failure)?;
    let notes = notes_of(session, force)?;
    if let Some(run) = at_work(app, session, &notes)? {
        let locked = anyhow::anyhow!("Session locked by run {run}, which works beside others there");
        let hint = Some(format!("`longhaul pause {run}` asks it to stop"));
        return Err(Failure { exit: Exit::Held, error: locked, hint });
    }
    if let Some(run) = resting(app, &notes)?.filter(|_| !force) {
        let locked =
            anyhow::anyhow!("Session locked by run {}, which {} in it", run.spec.id, how_it_rests(&run));
        let hint =
            Some(format!("`longhaul stop {}` ends it; --force removes the session under it", run.spec.id));
        return Err(Failure { exit: Exit::Held, error: locked, hint });
    }
    if let Some(place) = unsaved(app, session, &notes, false)?.filter(|_| !force) {
        return Err(Failure::from(anyhow::anyhow!(
            "session {} has changes that are nowhere else, in {}",
            session.name(),
            place.display()
        ))
        .hint("commit or push them there, or remove them as well with --force"));
    }
    for place in [vec![place_of(session, &notes)], places_beside(session, &notes)?].concat() {
        place::remove(&place).map_err(anyhow::Error::from)?;
    }
    session.delete(held).map_err(failure)
}

/// What is written down of a session that is to go; if that is damaged, it goes only by force, and by what stands there.
fn notes_of(session: &Session, force: bool) -> Result<Notes, Failure> {
    match session.notes() {
        Err(Error::Io { .. }) if force => Ok(Notes {
            name: session.name().to_owned(),
            created_at: now(),
            last_used_at: now(),
            repository: None,
            branch: None,
            source: None,
            runs: Vec::new(),
            resolved: Vec::new(),
        }),
        Err(error @ Error::Io { .. }) => {
            Err(failure(error).hint("what it is cannot be told; --force removes it with its files"))
        }
        notes => notes.map_err(failure),
    }
}

/// A run at work there on a branch of its own, if there is one.
fn at_work(app: &App, session: &Session, notes: &Notes) -> Result<Option<RunId>, Failure> {
    let names = beside(session, notes)?;
    if names.is_empty() {
        return Ok(None);
    }
    let harness = app.reading()?;
    let is_held = |id: &RunId| {
        harness.store_of(id).is_ok_and(|store| store.holder(id).is_ok_and(|holder| holder.is_some()))
    };
    Ok(names.iter().filter_map(|name| RunId::parse(name).ok()).find(is_held))
}

/// The names of what is there beside the shared workspace: by the notes, and by what stands there, which may be more.
fn beside(session: &Session, notes: &Notes) -> Result<BTreeSet<String>, Failure> {
    let stands = session.all_beside().map_err(failure)?;
    let name = |path: &PathBuf| Some(path.file_name()?.to_string_lossy().into_owned());
    let noted = notes.parallel().map(|(visit, _)| visit.run.clone());
    Ok(stands.iter().filter_map(name).chain(noted).collect())
}

/// Where the runs work that have a branch each.
fn places_beside(session: &Session, notes: &Notes) -> Result<Vec<Place>, Failure> {
    let names = beside(session, notes)?;
    Ok(names.iter().map(|name| place_at(session.beside(name), notes)).collect())
}

fn place_of(session: &Session, notes: &Notes) -> Place {
    place_at(session.workspace(), notes)
}

/// The same, to be removed; a repository that is gone has nothing to forget. Where none is noted, there may be one all the same.
fn place_at(path: PathBuf, notes: &Notes) -> Place {
    match &notes.repository {
        Some(repo) if Path::new(repo).is_dir() => place::passing(Path::new(repo), &path),
        _ => place::found_at(&path),
    }
}

/// A place where something would be lost that no branch has. In a session outside of any repository there are none that could.
fn unsaved(app: &App, session: &Session, notes: &Notes, dry_run: bool) -> Result<Option<PathBuf>, Failure> {
    let has_beside = !session.all_beside().map_err(failure)?.is_empty();
    if notes.repository.is_none() && notes.source.is_none() && !has_beside {
        return Ok(None);
    }
    only_copy(app, session, dry_run)
}

/// A place where something stands that is nowhere else.
fn only_copy(app: &App, session: &Session, dry_run: bool) -> Result<Option<PathBuf>, Failure> {
    // What is half removed was found to be saved, or was not to be.
    let is_going = |path: &PathBuf| path.to_string_lossy().ends_with(place::REMOVING);
    let places = session.places().map_err(failure)?;
    let is_only = |path: &PathBuf| {
        if !dry_run {
            // What was committed by hand comes home first; what cannot is nowhere else.
            drop(homing::publish(path, &scratch(app)));
            lending::refresh(path).ok();
        }
        place::is_unsaved(path)
    };
    Ok(places.into_iter().find(|path| !is_going(path) && is_only(path)))
}

fn is_old(notes: &Notes, age: Duration) -> bool {
    u128::from(now().millis_since(notes.last_used_at)) >= age.as_millis()
}

fn now() -> Timestamp {
    SystemClock.now()
}

fn sessions(app: &App) -> PathBuf {
    app.state_dir.join("sessions")
}

/// A session by its name, whether it is there or not.
pub fn named(app: &App, name: &str) -> Result<Session, Failure> {
    Ok(Session::at(&sessions(app), Name::parse(name).map_err(failure)?))
}

/// The workspace that a run shares with others, whether it is there or not; nothing, if it shares none.
pub fn of_home(app: &App, home: Home<'_>) -> Result<Option<Session>, Failure> {
    Session::of_home(&app.state_dir, home).map_err(failure)
}

/// Keeps other processes from choosing a branch in the same session, while a parallel run is created there.
pub fn naming(app: &App, settings: &Settings, options: &Options) -> Result<Option<File>, Failure> {
    if placing::way(settings, options) != Way::Parallel {
        return Ok(None);
    }
    let Some(session) = of_home(app, placing::home(settings, options))? else { return Ok(None) };
    app.make_home()?;
    session.naming().map(Some).map_err(failure)
}

/// Refuses a run in a session that another one has, before anything is made for it.
pub fn refuse_held(app: &App, settings: &Settings, options: &Options) -> Result<(), Failure> {
    let Some(session) = of_home(app, placing::home(settings, options))? else { return Ok(()) };
    if placing::way(settings, options) == Way::Parallel {
        return Ok(());
    }
    app.home()?;
    if let (true, Ok(Hold::Live(lease))) = (session.exists(), session.hold(now())) {
        let (pid, host) = (lease.process.pid, lease.process.host);
        return Err(failure(Error::Locked { run: lease.run, pid, host, since: lease.acquired_at }));
    }
    let notes = session.exists().then(|| session.notes()).transpose().map_err(failure)?;
    let resting = notes.map_or(Ok(None), |notes| resting(app, &notes))?;
    match resting.filter(|_| !options.force) {
        None => Ok(()),
        Some(run) => Err(Failure {
            exit: Exit::Held,
            error: anyhow::anyhow!(
                "Session locked by run {}, which {} in it",
                run.spec.id,
                how_it_rests(&run)
            ),
            hint: Some(format!(
                "`longhaul resume {0}` goes on with it, `longhaul stop {0}` ends it; `--force` works there all the same, and \
                 `--collaboration parallel` beside it",
                run.spec.id
            )),
        }),
    }
}

/// The last run of a session that has not ended and will be gone on with there: it is paused, or waits for a person. One whose
/// process died is not waited for.
fn resting(app: &App, notes: &Notes) -> Result<Option<Run>, Failure> {
    let harness = app.reading()?;
    let looked = |visit: &Visit| harness.look(&RunId::parse(&visit.run).ok()?).ok();
    let rests = |run: &Run| {
        run.status == Status::Paused || (run.status == Status::Running && run.wait() == Wait::Human)
    };
    let visits =
        notes.runs.iter().rev().filter(|visit| visit.branch.is_none()).take(SESSION_RUNS_LOOKED_AT_MAX);
    Ok(visits.filter_map(looked).find(rests))
}

fn how_it_rests(run: &Run) -> &'static str {
    if run.status == Status::Paused { "is paused" } else { "waits for a person" }
}

/// Writes a run down in its session, unless it is there.
pub fn note(app: &App, run: &Run) -> Result<(), Failure> {
    let Some(session) = of_home(app, run.spec.home())? else { return Ok(()) };
    let branch = run.spec.branch.clone().filter(|_| run.spec.is_parallel());
    let visit = Visit { run: run.spec.id.to_string(), at: now(), branch };
    session
        .note(now(), |notes| {
            if notes.runs.iter().any(|known| known.run == visit.run) {
                return;
            }
            if notes.runs.is_empty() {
                notes.repository.clone_from(&run.spec.repository);
                notes.source = run.spec.source.as_ref().map(|source| source.url.clone());
            }
            if !run.spec.is_parallel() && (notes.runs.is_empty() || notes.is_only_parallel()) {
                notes.branch.clone_from(&run.spec.branch);
            }
            notes.runs.push(visit);
        })
        .map_err(failure)?;
    Ok(())
}

/// Strikes a run out of its session that never worked there.
pub fn forget(app: &App, run: &Run) -> Result<(), Failure> {
    let Some(session) = of_home(app, run.spec.home())? else { return Ok(()) };
    session
        .note(now(), |notes| notes.runs.retain(|visit| visit.run != run.spec.id.as_str()))
        .map_err(failure)?;
    Ok(())
}

/// Takes the session of a run that is about to be driven; nothing, if it is in none. Killed while it was created, it may not be in
/// the notes yet, by which it is merged and kept.
pub fn taken(app: &App, harness: &Harness, id: &RunId) -> Result<Option<Held>, Failure> {
    // Without sessions, the journal need not be read for this.
    let workspaces = app.state_dir.join("workspace");
    let shared = [sessions(app), workspaces.join("workflow"), workspaces.join(session::EVERYBODYS)];
    if !shared.iter().any(|shared| shared.is_dir()) {
        return Ok(None);
    }
    let run = harness.look(id)?;
    let Some(session) = of_home(app, run.spec.home())? else { return Ok(None) };
    if !is_within(&run) {
        if session.beside(id.as_str()) == Path::new(&run.spec.workspace) {
            note(app, &run)?;
        }
        return Ok(None);
    }
    let name = session.name().to_owned();
    tell_unused(app);
    let (held, stale) = session.take(id.as_str(), SESSION_EXPIRY).map_err(failure)?;
    if let Some(lease) = stale {
        // What the dead run left running would work against this one.
        if let Ok(dead) = RunId::parse(&lease.run) {
            longhaul_tools::reap_leftovers(&dead);
        }
        render::warn(&format!(
            "session {name} was left by {} (process {} on {}), which is dead; it is taken over",
            lease.run, lease.process.pid, lease.process.host
        ));
    }
    if run.spec.parent.is_none() {
        note(app, &run)?;
    }
    if run.status == Status::Created {
        source::brought_up_to_date(app, &run);
    }
    Ok(Some(held))
}

/// Sessions stay until they are told to go, so somebody has to be told of those that nobody has used for long.
fn tell_unused(app: &App) {
    let Ok(all) = session::all(&sessions(app)) else { return };
    let unused =
        all.iter().filter(|session| session.notes().is_ok_and(|notes| is_old(&notes, SESSION_UNUSED_MAX)));
    let names: Vec<&str> = unused.map(Session::name).take(SESSIONS_NAMED_MAX).collect();
    if !names.is_empty() {
        render::hint(&format!(
            "unused for long: {}; `longhaul session cleanup --dry-run` shows what could go",
            names.join(", ")
        ));
    }
}

/// Does it work in the workspace that the session's runs share? Those beside others, sub-agents apart and forks do not.
fn is_within(run: &Run) -> bool {
    !run.spec.is_parallel()
        && Path::new(&run.spec.workspace).file_name().is_some_and(|name| name == "workspace")
}

pub fn failure(error: Error) -> Failure {
    let (exit, hint) = match &error {
        Error::Name { .. } => (Exit::Usage, None),
        // As with a run that there is none of: it was mistyped, and nothing failed.
        Error::Missing { .. } => {
            (Exit::Usage, Some("`longhaul session list` shows those there are".to_owned()))
        }
        Error::Locked { run, .. } => (
            Exit::Held,
            Some(format!("`longhaul pause {run}` asks it to stop; a session of another name is free")),
        ),
        Error::Busy { .. } => (Exit::Held, Some("try again in a moment".to_owned())),
        Error::Io { .. } => (Exit::Failed, None),
    };
    Failure { exit, error: anyhow::Error::from(error), hint }
}
