//! `--repo`: a repository that is brought from elsewhere, for `run`, `create` and `loop`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_core::run::Run;
use longhaul_core::spec::GitSource;
use longhaul_engine::Harness;
use longhaul_workspace::prune::{bytes_below, directories};
use longhaul_workspace::source::{self, Address, Error, Store};
use longhaul_workspace::{landing, place};

use super::create::Options;
use super::landing::scratch;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Fetches what `--repo` names, and answers the commit to begin with.
pub fn fetched(app: &App, options: &Options) -> Result<(GitSource, String), Failure> {
    let typed = options.repo.as_deref().unwrap_or_default();
    let address = Address::parse(typed, &app.cwd).map_err(failure)?;
    if let Some(name) = &options.reference {
        source::check_reference(name).map_err(failure)?;
    }
    app.make_home()?;
    let url = address.as_str().to_owned();
    let store = Store::at(&stores(app), address, options.depth);
    let base = store.fetch(options.reference.as_deref()).map_err(failure)?;
    let (reference, depth) = (options.reference.clone(), options.depth);
    let store = store.directory().display().to_string();
    Ok((GitSource { url, reference, depth, store }, base))
}

/// What was brought before, without asking anybody for it again, or whether it is still there.
pub fn known(app: &App, url: &str) -> GitSource {
    let store = Store::place(&stores(app), url, None).display().to_string();
    GitSource { url: url.to_owned(), reference: None, depth: None, store }
}

/// Takes fetched repositories away that no run here came from and that were not asked for so long; a session fetches its own again.
/// Answers their names and sizes.
pub fn clean_up(
    app: &App,
    harness: &Harness,
    older_than: Duration,
    dry_run: bool,
) -> Result<Vec<(String, u64)>, Failure> {
    let mut old = directories(&stores(app)).unwrap_or_default();
    old.retain(|store| source::is_unused(store, older_than));
    if old.is_empty() {
        return Ok(Vec::new());
    }
    let home = harness.home().map(|home| home.all_runs()).transpose().map_err(anyhow::Error::from)?;
    for run in home.into_iter().flatten() {
        // Of one that cannot be read, nobody knows what it needs.
        let Ok(run) = harness.look(&run) else { return Ok(Vec::new()) };
        let needed = run.spec.source.map(|source| PathBuf::from(source.store));
        old.retain(|store| Some(store) != needed.as_ref());
    }
    let mut gone = Vec::new();
    for store in old {
        let bytes = bytes_below(&store);
        let name = store.strip_prefix(&app.state_dir).unwrap_or(&store).display().to_string();
        match if dry_run { Ok(true) } else { source::remove(&store, older_than) } {
            Ok(true) => gone.push((name, bytes)),
            Ok(false) => {}
            Err(error) => render::warn(&format!("{name} stays: {:#}", anyhow::Error::from(error))),
        }
    }
    Ok(gone)
}

fn stores(app: &App) -> PathBuf {
    app.state_dir.join("cache").join("repos")
}

/// Merges what is new at the origin into a session's workspace that is there already. Where that cannot be done without
/// touching local work, the workspace stays as it is, and that is said.
pub fn brought_up_to_date(app: &App, run: &Run) {
    let (Some(source), Some(base)) = (&run.spec.source, &run.spec.base) else { return };
    let workspace = Path::new(&run.spec.workspace);
    if !workspace.join(".git").is_dir() || place::head(workspace).as_ref() == Some(base) {
        return;
    }
    let brought = source::refresh(Path::new(&source.store), workspace, &scratch(app))
        .map_err(anyhow::Error::from)
        .and_then(|()| Ok(landing::bring(workspace, &scratch(app), run.spec.id.as_str(), base)?));
    if let Err(error) = brought {
        render::warn(&format!(
            "the session stays as it was, what is new at {} is not in it: {error}",
            source.url
        ));
    }
}

fn failure(error: Error) -> Failure {
    let (exit, hint) = match &error {
        Error::Address { .. } => (
            Exit::Usage,
            Some("give https://HOST/PATH, ssh://HOST/PATH, git@HOST:PATH, or the path of a repository"),
        ),
        Error::Reference { .. } | Error::NoReference { .. } | Error::Empty { .. } => (Exit::Usage, None),
        Error::Busy { .. } => (Exit::Held, None),
        Error::Fetch { .. } => {
            (Exit::Failed, Some("nothing was made; try `git ls-remote` with the same address"))
        }
        Error::Home(_) | Error::Place(_) => (Exit::Failed, None),
    };
    Failure { exit, error: anyhow::Error::from(error), hint: hint.map(str::to_owned) }
}
