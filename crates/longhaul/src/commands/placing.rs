//! Where a run works: here, in a workspace of its own, or in one that it shares with others.

use std::path::{Path, PathBuf};

use longhaul_core::collaboration::{Collaboration, Home, Isolation, Strategy, Way};
use longhaul_core::run::Run;
use longhaul_core::spec::GitSource;
use longhaul_workspace::{STATE_DIRECTORY, place};

use super::create::Options;
use super::session::{self, Session};
use super::{landing, list, source};
use crate::app::{App, environment, repository};
use crate::branch::Naming;
use crate::failure::Failure;
use crate::render;
use crate::settings::{Git, Settings};

/// What is settled of it when a run is created.
pub struct Chosen {
    pub path: PathBuf,
    pub repository: Option<PathBuf>,
    pub branch: Option<String>,
    /// The commit it begins with.
    pub base: Option<String>,
    pub carried: bool,
    pub source: Option<GitSource>,
    pub collaboration: Option<Collaboration>,
}

impl Chosen {
    /// A directory that belongs to no repository, or to one that is none of our business.
    fn plain(path: PathBuf) -> Chosen {
        let (repository, branch, base) = (None, None, None);
        Chosen { path, repository, branch, base, carried: false, source: None, collaboration: None }
    }

    /// The repository and the commit whose files are still to be written there.
    pub fn begins(&self) -> Option<(&Path, &str)> {
        let store = self.source.as_ref().map(|source| Path::new(&source.store));
        let repository = store.or(self.repository.as_deref()).filter(|_| !self.path.exists())?;
        Some((repository, self.base.as_deref()?))
    }
}

/// How this run works together with others: as typed, else as the settings say.
pub fn way(settings: &Settings, options: &Options) -> Way {
    options.collaboration.unwrap_or(settings.git.collaboration)
}

/// With whom it shares where it works. Who works here, or at a commit that was chosen for it, shares nothing.
pub fn isolation(settings: &Settings, options: &Options) -> Isolation {
    let is_alone = options.in_place || options.commit.is_some();
    if is_alone { Isolation::default() } else { settings.isolation }
}

/// Whose workspace it works in.
pub fn home<'a>(settings: &Settings, options: &'a Options) -> Home<'a> {
    isolation(settings, options).home(options.session.as_deref(), options.workflow_run.as_deref())
}

/// Where the run works: here if asked, else where its session or workflow does, else in a worktree of this repository, else in an
/// empty directory of its own.
pub fn place(
    app: &App,
    settings: &Settings,
    options: &Options,
    naming: &Naming<'_>,
) -> Result<Chosen, Failure> {
    if options.in_place {
        refuse_vital(app)?;
        if let Some(other) = list::at_work_in(app, &app.cwd)? {
            render::warn(&format!(
                "{other} works in this directory as well, or in one around or below it, at this moment; they may change the same files"
            ));
        }
        return Ok(Chosen::plain(app.cwd.clone()));
    }
    let (home, way) = (home(settings, options), way(settings, options));
    let (shared, label) = (session::of_home(app, home)?, label(home));
    let chosen = match (shared, way) {
        (_, Way::Parallel) if options.repo.is_some() => return Err(elsewhere()),
        (shared, Way::Sequential) if options.repo.is_some() => {
            from_elsewhere(app, options, naming, shared.map(|shared| (shared, label)))?
        }
        (Some(shared), Way::Parallel) => return beside_others(app, options, naming, &shared),
        (Some(shared), Way::Sequential) => in_session(app, options, naming, (&shared, &label))?,
        (None, _) => on_its_own(app, options, naming)?,
    };
    warn_of_missing(settings, &chosen);
    Ok(with_agents_apart(chosen, way, naming))
}

/// A misspelt path is not copied, and the agent would only find something missing.
fn warn_of_missing(settings: &Settings, chosen: &Chosen) {
    let Some(repository) = &chosen.repository else { return };
    for path in settings.copy.iter().filter(|path| repository.join(path).symlink_metadata().is_err()) {
        let (path, place) = (path.escape_debug(), repository.display());
        render::warn(&format!("workspace.copy names `{path}`, which is not in {place}: it is not copied"));
    }
}

/// Outside of a repository nobody can tell what has changed.
fn refuse_changes(app: &App, options: &Options) -> Result<(), Failure> {
    if !options.with_changes {
        return Ok(());
    }
    let here = app.cwd.display();
    let why = match place::discover_checkout(&app.cwd) {
        Some(top) => {
            format!("--with-changes: {} has no commit yet, to which there could be changes", top.display())
        }
        None => format!("--with-changes: {here} is in no git repository, so there are no changes"),
    };
    Err(Failure::usage(why).hint("`--in-place` works on the files that are here"))
}

/// Whoever stands in a repository means it; of one that has no files, none would be found.
fn warn_of_bare(app: &App) {
    let here = app.cwd.canonicalize().unwrap_or_else(|_| app.cwd.clone());
    if let Some(bare) = here.ancestors().find(|directory| is_git(directory)) {
        render::warn(&format!(
            "{0} is a repository without a checkout: the run works in an empty directory; `--repo {0}` works on what is in it",
            bare.display()
        ));
    }
}

/// Does git keep a repository here?
fn is_git(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && directory.join("objects").is_dir() && directory.join("refs").is_dir()
}

/// Whoever starts a run in the workspace of another builds on what that one is just changing.
fn warn_of_workspace(app: &App) {
    let here = app.cwd.canonicalize().unwrap_or_else(|_| app.cwd.clone());
    let is_state = |dir: &&Path| dir.file_name().is_some_and(|name| name == STATE_DIRECTORY);
    if let Some(state) = here.ancestors().find(is_state) {
        render::warn(&format!(
            "{} is a workspace of another run, below {}: this one begins at what is committed there, and its work goes back there",
            here.display(),
            state.display()
        ));
    }
}

/// How the branch is called that the runs there share.
fn label(home: Home<'_>) -> String {
    match home {
        Home::Session(name) => format!("session-{name}"),
        Home::Workflow(name) => format!("workflow-{name}"),
        Home::Everybody | Home::Own => "shared-workspace".to_owned(),
    }
}

/// Those it sends may have branches of their own, whatever it shares itself.
fn with_agents_apart(chosen: Chosen, way: Way, naming: &Naming<'_>) -> Chosen {
    let strategy = naming.git.workflow_branch_strategy;
    let apart = way == Way::Parallel || strategy == Strategy::PerAgent;
    let Some(repository) = chosen.repository.as_ref().filter(|_| apart) else { return chosen };
    let family = naming.family(repository, naming.id_end());
    let working_branch = None;
    Chosen { collaboration: Some(Collaboration { way, working_branch, strategy, family }), ..chosen }
}

fn on_its_own(app: &App, options: &Options, naming: &Naming<'_>) -> Result<Chosen, Failure> {
    let path = app.state_dir.join("workspace").join("run").join(naming.id.as_str());
    let Some(repository) = repository(&app.cwd) else {
        refuse_changes(app, options)?;
        warn_of_bare(app);
        return Ok(Chosen::plain(path));
    };
    warn_of_workspace(app);
    let (base, carried) = base(app, options, &repository, naming)?;
    let branch = Some(naming.branch(&repository));
    Ok(Chosen { repository: Some(repository), branch, base: Some(base), carried, ..Chosen::plain(path) })
}

/// A repository of elsewhere, in a workspace of the run's own or of its session.
fn from_elsewhere(
    app: &App,
    options: &Options,
    naming: &Naming<'_>,
    shared: Option<(Session, String)>,
) -> Result<Chosen, Failure> {
    let (source, base) = source::fetched(app, options)?;
    let Some((session, label)) = shared else {
        let path = app.state_dir.join("workspace").join("run").join(naming.id.as_str());
        let branch = Some(naming.branch(Path::new(&source.store)));
        return Ok(Chosen { branch, base: Some(base), source: Some(source), ..Chosen::plain(path) });
    };
    let path = session.workspace();
    let branch = if session.exists() {
        let notes = session.notes().map_err(session::failure)?;
        if notes.source.as_ref() != Some(&source.url) {
            let of = notes.source.or(notes.repository).unwrap_or_else(|| "no repository".to_owned());
            return Err(Failure::usage(format!(
                "session {} is of {of}, not of {}",
                session.name(),
                source.url
            )));
        }
        notes.branch
    } else {
        Some(naming.shared_branch(Path::new(&source.store), &label))
    };
    Ok(Chosen { branch, base: Some(base), source: Some(source), ..Chosen::plain(path) })
}

/// In a session: where it is, if there was a run in it, and else made like a run's own place.
fn in_session(
    app: &App,
    options: &Options,
    naming: &Naming<'_>,
    (session, label): (&Session, &str),
) -> Result<Chosen, Failure> {
    let path = session.workspace();
    let notes = session.exists().then(|| session.notes()).transpose().map_err(session::failure)?;
    let Some(notes) = notes.filter(|notes| !notes.is_only_parallel()) else {
        let Some(repository) = repository(&app.cwd) else {
            refuse_changes(app, options)?;
            return Ok(Chosen::plain(path));
        };
        let (base, carried) = base(app, options, &repository, naming)?;
        let branch = Some(naming.shared_branch(&repository, label));
        let repository = Some(repository);
        return Ok(Chosen { repository, branch, base: Some(base), carried, ..Chosen::plain(path) });
    };
    if options.with_changes {
        return Err(Failure::usage(format!("--with-changes: session {} has begun already", session.name())));
    }
    let repository = notes.repository.map(PathBuf::from).filter(|_| notes.branch.is_some());
    // What earlier runs of the session did is not this one's.
    let base =
        repository.as_ref().and_then(|repository| place::head(&path).or_else(|| place::head(repository)));
    let Some(url) = notes.source else {
        if let Some((repository, base)) = repository.as_deref().zip(base.as_deref()) {
            warn_of_being_behind(naming.git, repository, (session, base));
        }
        return Ok(Chosen { repository, branch: notes.branch, base, ..Chosen::plain(path) });
    };
    // One that was brought from elsewhere is a repository of its own.
    let Some(base) = place::head(&path).filter(|_| path.join(".git").is_dir()) else {
        let name = session.name();
        return Err(Failure::usage(format!("the workspace of session {name} was not made yet"))
            .hint(format!("`--repo {url}` fetches it")));
    };
    let source = Some(source::known(app, &url));
    Ok(Chosen { branch: notes.branch, base: Some(base), source, ..Chosen::plain(path) })
}

/// A session that was begun a while ago knows nothing of what has become of the repository since.
fn warn_of_being_behind(git: &Git, repository: &Path, (session, base): (&Session, &str)) {
    let Ok(start) = start(git, repository) else { return };
    let commits = place::commits_behind(repository, base, &start);
    if commits == 0 {
        return;
    }
    let (name, workspace) = (session.name(), session.workspace());
    let is_there = |name: &String| place::branch(repository, name).is_some();
    let working = git.working_branch.clone().filter(is_there);
    let what = working.or_else(|| place::current_branch(repository)).unwrap_or(start);
    let many = if commits == 1 { "commit" } else { "commits" };
    render::warn(&format!("session {name} goes on from where it was and lacks {commits} {many} of {what}"));
    render::hint(&format!("`git -C \"{}\" merge {what}` brings them in", workspace.display()));
}

/// Beside the other runs of a session: a branch and a worktree of its own, from the branch that all of them go back to.
fn beside_others(
    app: &App,
    options: &Options,
    naming: &Naming<'_>,
    session: &Session,
) -> Result<Chosen, Failure> {
    let notes = session.exists().then(|| session.notes()).transpose().map_err(session::failure)?;
    if notes.as_ref().is_some_and(|notes| notes.source.is_some()) {
        return Err(elsewhere());
    }
    if options.with_changes {
        return Err(Failure::usage("--with-changes is for a run that works by itself")
            .hint("commit what the agents are to begin with; parallel work begins at a branch"));
    }
    let known = notes.as_ref().map(|notes| notes.repository.as_ref().map(PathBuf::from));
    let Some(repository) = known.unwrap_or_else(|| repository(&app.cwd)) else {
        return Err(Failure::usage(
            "--collaboration parallel: there are no branches outside of a repository",
        )
        .hint("`git init` and one commit make one"));
    };
    let working = working_branch(naming.git, session_branch(notes.as_ref()), &repository)?;
    let start = start(naming.git, &repository)?;
    let base = place::branch(&repository, &working).unwrap_or(start);
    let is_here = place::current_branch(&repository).as_ref() == Some(&working);
    if is_here && place::is_dirty(&repository) {
        render::warn("changes that are not committed are in no agent's worktree");
    }
    let family = naming.family(&repository, session.name());
    let taken: Vec<String> = notes.map(|notes| notes.branches()).unwrap_or_default();
    let branch =
        place::free_branch(&repository, &family, naming.agent, &taken).map_err(anyhow::Error::from)?;
    let strategy = naming.git.workflow_branch_strategy;
    let collaboration = Collaboration { way: Way::Parallel, working_branch: Some(working), strategy, family };
    Ok(Chosen {
        repository: Some(repository),
        branch: Some(branch),
        base: Some(base),
        collaboration: Some(collaboration),
        ..Chosen::plain(session.beside(naming.id.as_str()))
    })
}

fn session_branch(notes: Option<&longhaul_workspace::session::Notes>) -> Option<String> {
    notes.and_then(|notes| notes.branch.clone())
}

/// The branch that parallel work goes back to: as the settings say, else the session's own, else what is checked out.
fn working_branch(git: &Git, of_session: Option<String>, repository: &Path) -> Result<String, Failure> {
    let checked_out = || place::current_branch(repository);
    git.working_branch.clone().or(of_session).or_else(checked_out).ok_or_else(|| {
        Failure::usage(format!(
            "no branch is checked out in {}, to which the work could go",
            repository.display()
        ))
        .hint("`git switch BRANCH`, or name one: git.working_branch in longhaul.yaml")
    })
}

/// Each workspace made from a repository of elsewhere is a repository of its own, and nothing merges those.
fn elsewhere() -> Failure {
    Failure::usage("--collaboration parallel: runs on a repository that is brought from elsewhere come one after another")
        .hint("clone it yourself, and work side by side there")
}

/// The commit a worktree begins with when nobody says which: that of the working branch, else what is checked out.
pub fn start(git: &Git, repository: &Path) -> Result<String, Failure> {
    let named = git.working_branch.as_ref().and_then(|name| place::branch(repository, name));
    let shown = repository.display();
    named
        .or_else(|| place::head(repository))
        .ok_or_else(|| Failure::usage(format!("{shown} has no commit any more")))
}

/// `git.working_branch` is made where the run begins, if there is none of that name.
pub fn make_working_branch(git: &Git, run: &Run) -> Result<(), Failure> {
    let (Some(name), Some(repository)) = (&git.working_branch, &run.spec.repository) else { return Ok(()) };
    let repository = Path::new(repository);
    let Some(base) = run.spec.base.as_ref().filter(|_| place::branch(repository, name).is_none()) else {
        return Ok(());
    };
    place::make_branch(repository, name, base).map_err(anyhow::Error::from)?;
    render::warn(&format!("there was no branch `{name}` (git.working_branch); it was made at {base}"));
    Ok(())
}

/// The commit the worktree begins with: what is checked out, with what is not committed there if that was asked for.
fn base(
    app: &App,
    options: &Options,
    repository: &Path,
    naming: &Naming<'_>,
) -> Result<(String, bool), Failure> {
    if let Some(commit) = &options.commit {
        return Ok((commit.clone(), false));
    }
    let start = start(naming.git, repository)?;
    if let Some(name) = &naming.git.working_branch {
        if options.with_changes {
            return Err(Failure::usage("--with-changes is for a run that begins at what is checked out")
                .hint(format!("git.working_branch names `{name}`")));
        }
        return Ok((start, false));
    }
    if !place::is_dirty(repository) {
        return Ok((start, false));
    }
    if !options.with_changes {
        render::warn(
            "changes that are not committed are not in the run's worktree; `--with-changes` would carry them in, \
             `--in-place` would work on them",
        );
        return Ok((start, false));
    }
    let checkout = landing::opened(app, repository)?;
    let carried = checkout.carry(naming.id.as_str()).map_err(landing::failure)?;
    Ok((carried, true))
}

/// Nobody works in place where everything is, where runs are kept, in another run's workspace, or where git keeps a repository.
pub fn refuse_vital(app: &App) -> Result<(), Failure> {
    let here = app.cwd.canonicalize().unwrap_or_else(|_| app.cwd.clone());
    let state = app.state_dir.canonicalize().unwrap_or_else(|_| app.state_dir.clone());
    let is_state = |dir: &Path| dir.file_name().is_some_and(|name| name == STATE_DIRECTORY);
    let what = if here.parent().is_none() {
        "everything there is"
    } else if here.starts_with(&state) || here.ancestors().any(is_state) {
        "where longhaul keeps runs and their workspaces"
    } else if here.ancestors().any(is_git) {
        "where git keeps a repository"
    } else {
        warn_of_home(&here);
        return Ok(());
    };
    Err(Failure::usage(format!("{} is {what}: nobody works in place there", here.display()))
        .hint("change to the directory of the project, or leave out --in-place"))
}

/// Who keeps a home directory in git may want this; who mistook the directory wants to know.
fn warn_of_home(here: &Path) {
    let home = environment().get("HOME").and_then(|home| Path::new(home).canonicalize().ok());
    if home.as_deref() == Some(here) {
        render::warn("this is your home directory: everything in it is the agent's to change");
    }
}
