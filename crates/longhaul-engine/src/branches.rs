//! Sub-agents with a branch each: where one works that works apart from its parent, and how its work comes back.
//!
//! Both are done at the engine's edge. A name is chosen once, when the child is created, and is in its journal from then on; what it
//! made is merged before its parent hears that it is done, which a crash in between only repeats.

use std::fs::File;
use std::path::{Path, PathBuf};

use longhaul_core::child::{ChildEnding, ChildReport, report};
use longhaul_core::prompt::own_step;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_workspace::landing::{self, Work};
use longhaul_workspace::session::{self, Session};
use longhaul_workspace::{homing, place};

use crate::children::Charge;
use crate::error::Error;
use crate::harness::Harness;
use crate::limits::{CHILD_MERGE_TRIES_MAX, MERGE_TITLE_LETTERS_MAX};

/// Keeps others from choosing a branch in the session that a run works in, until it is dropped: once the branch is there.
pub(crate) fn naming(harness: &Harness, spec: &RunSpec) -> Result<Option<File>, Error> {
    shared(harness, spec)?.map(|session| session.naming()).transpose().map_err(|source| unnamed(spec, source))
}

/// The session whose runs have branches of the same family.
fn shared(harness: &Harness, spec: &RunSpec) -> Result<Option<Session>, Error> {
    let Some(home) = harness.home().filter(|_| spec.is_parallel()) else { return Ok(None) };
    Session::of_home(home.dir(), spec.home()).map_err(|source| unnamed(spec, source))
}

fn unnamed(spec: &RunSpec, source: session::Error) -> Error {
    Error::Workspace { path: spec.workspace.as_str().into(), source: Box::new(source) }
}

/// The same run in a worktree of its own, at what its parent has committed, if its parent's agents work apart. `spec` is where its
/// parent is.
pub(crate) fn parted(harness: &Harness, spec: RunSpec) -> Result<RunSpec, Error> {
    let (Some(family), Some(repository), Some(home)) = (spec.family(), &spec.repository, harness.home())
    else {
        return Ok(spec);
    };
    let failed =
        |source: place::Error| Error::Workspace { path: repository.into(), source: Box::new(source) };
    // A run that was created and has not begun has its branch only on paper.
    let notes = shared(harness, &spec)?.and_then(|session| session.notes().ok());
    let taken = notes.map(|notes| notes.branches()).unwrap_or_default();
    let branch = place::free_branch(Path::new(repository), family, &spec.agent, &taken).map_err(failed)?;
    // What its parent has committed may be on a branch of that one's worktree alone.
    let base = homing::brought(Path::new(&spec.workspace), &home.dir().join("scratch"))
        .map_err(|source| Error::Workspace { path: repository.into(), source: Box::new(source) })?;
    let workspace = free_place(&home.dir().join("workspace").join("run"), spec.id.as_str());
    let workspace = workspace.display().to_string();
    Ok(RunSpec { branch: Some(branch), base, workspace, carried: None, ..spec })
}

/// Takes away where a child was to work apart from its parent that never began; its branch too, unless somebody has put something on it.
pub(crate) fn cleared(harness: &Harness, run: &Run) -> Result<(), Error> {
    let (Some(branch), Some(repository), Some(home)) =
        (&run.spec.branch, &run.spec.repository, harness.home())
    else {
        return Ok(());
    };
    let (path, runs) = (Path::new(&run.spec.workspace), home.dir().join("workspace").join("run"));
    let is_its_own = path.parent() == Some(&runs)
        && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(run.spec.id.as_str()));
    if !is_its_own {
        return Ok(());
    }
    let failed = |source: place::Error| Error::Workspace { path: path.into(), source: Box::new(source) };
    place::remove(&harness.place(&run.spec, path)).map_err(failed)?;
    match &run.spec.base {
        Some(base) => place::drop_branch(Path::new(repository), branch, base).map_err(failed),
        None => Ok(()),
    }
}

/// A run that was rewound sends its children once more, under the same names; where the first of them worked stays as it is.
fn free_place(runs: &Path, id: &str) -> PathBuf {
    let plain = runs.join(id);
    let mut others = (2..).map(|number| runs.join(format!("{id}~{number}")));
    if !plain.exists() {
        return plain;
    }
    others.find(|place| !place.exists()).unwrap_or(plain)
}

/// What a child reports, after its work was merged into its parent's branch, if it had one of its own. What cannot be merged is not
/// done: its parent sends it once more, from where the branch is then.
pub(crate) async fn handed_in(harness: &Harness, charge: &Charge, run: &Run) -> ChildReport {
    let whole = report(run);
    let works_apart = run.spec.workspace != charge.spec.workspace;
    let (true, Some(branch), Some(home)) = (works_apart, run.spec.branch.clone(), harness.home()) else {
        return whole;
    };
    if run.status != Status::Completed {
        return found_on(&branch, whole);
    }
    let title: String = own_step(&run.spec.task)
        .lines()
        .next()
        .unwrap_or_default()
        .chars()
        .take(MERGE_TITLE_LETTERS_MAX)
        .collect();
    let work = Work {
        run: run.spec.id.to_string(),
        title,
        repository: charge.spec.workspace.as_str().into(),
        worktree: run.spec.workspace.as_str().into(),
        branch: branch.clone(),
        base: run.spec.base.clone(),
        carried: false,
        scratch: home.dir().join("scratch"),
    };
    let sender = run.spec.parent.as_ref().map_or_else(|| run.spec.id.to_string(), ToString::to_string);
    let merged = tokio::task::spawn_blocking(move || merged(&sender, &work)).await;
    let error = match merged {
        Ok(Ok(())) => return whole,
        Ok(Err(error)) => error.to_string(),
        Err(lost) => lost.to_string(),
    };
    let error = format!("what it made is on branch {branch} and could not be merged: {error}");
    ChildReport { ending: ChildEnding::Failed { error }, ..whole }
}

/// Whoever tries again what came to nothing is told where it is.
fn found_on(branch: &str, report: ChildReport) -> ChildReport {
    let told = |error: String| format!("{error}; what it made is on branch {branch}");
    let ending = match report.ending {
        ChildEnding::Failed { error } => ChildEnding::Failed { error: told(error) },
        ChildEnding::GaveUp { error } => ChildEnding::GaveUp { error: told(error) },
        // The others are gone on with where they are, or nobody tries them again.
        rests @ (ChildEnding::Completed { .. }
        | ChildEnding::Stopped { .. }
        | ChildEnding::Refused { .. }
        | ChildEnding::Held { .. }
        | ChildEnding::Idle { .. }
        | ChildEnding::Waiting
        | ChildEnding::Paused { .. }) => rests,
    };
    ChildReport { ending, ..report }
}

/// Another child may have been merged meanwhile, or a step committed: then it is worked out anew.
fn merged(sender: &str, work: &Work) -> Result<(), landing::Error> {
    let mut tries = 1;
    loop {
        match landing::merge_for(sender, work) {
            Err(landing::Error::Busy) if tries < CHILD_MERGE_TRIES_MAX => tries += 1,
            merged => {
                merged?;
                homing::publish(&work.repository, &work.scratch).came?;
                return Ok(());
            }
        }
    }
}
