//! What runs leave in the user's repository, taken away when nobody needs it any more.
//!
//! Owns two things: the name under which changes are kept that were carried in, and worktrees that the repository still lists although
//! somebody has deleted their directories. Refuses to touch what is not a run's, and what stands where it should.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_engine::Harness;
use longhaul_store::catalog::Filter;
use longhaul_workspace::{checkout, place};

use crate::app::{self, App};
use crate::failure::Failure;
use crate::render;

/// After a run was removed: its workspace stays, so only what is left of one that is gone goes, and what nothing begins with any more.
pub fn of_removed(app: &App, spec: &RunSpec) {
    let Some(repository) = spec.repository.as_deref().map(Path::new).filter(|place| place.is_dir()) else {
        return;
    };
    if spec.carried == Some(true) {
        let_go(repository, spec.id.as_str());
    }
    let workspace = Path::new(&spec.workspace);
    if spec.branch.is_some() && workspace.starts_with(&app.state_dir) {
        unlist(repository, workspace);
    }
}

/// After workspaces were cleaned up, in every repository that a run here is of: answers how many worktrees are no longer listed.
pub fn clean_up(app: &App, harness: &Harness) -> Result<usize, Failure> {
    let (rows, _) = harness.list(&Filter::default())?;
    let is_gone = |place: &String| !Path::new(place).exists();
    let gone = rows.into_iter().filter(|row| row.workspace.as_ref().is_some_and(is_gone));
    let mut repositories: BTreeSet<PathBuf> = app::repository(&app.cwd).into_iter().collect();
    for row in gone {
        let Ok(Run { spec, status, .. }) = harness.look(&row.id) else { continue };
        let (Some(repository), Some(branch)) = (&spec.repository, &spec.branch) else { continue };
        let repository = PathBuf::from(repository);
        // Its branch keeps it as long as the branch is there; without one it could never be made again.
        let is_kept = || spec.base.as_ref().is_some_and(|base| place::branch_has(&repository, branch, base));
        if spec.carried == Some(true) && status.is_terminal() && is_kept() {
            let_go(&repository, spec.id.as_str());
        }
        repositories.insert(repository);
    }
    // Where runs work, and nothing else that may stand in a state directory.
    let ours = ["workspace", "sessions"].map(|name| app.state_dir.join(name));
    let listed = repositories.iter().filter(|repository| repository.is_dir());
    Ok(listed.map(|repository| ours.iter().map(|place| unlist(repository, place)).sum::<usize>()).sum())
}

/// Forgets what was carried in for a run.
pub fn let_go(repository: &Path, run: &str) {
    if let Err(error) = checkout::forget_carried(repository, run) {
        let place = repository.display();
        render::warn(&format!(
            "changes that were carried in for {run} stay known in {place}: {:#}",
            anyhow::Error::from(error)
        ));
    }
}

fn unlist(repository: &Path, below: &Path) -> usize {
    place::unlist_gone(repository, below).unwrap_or_else(|error| {
        let place = repository.display();
        let error = anyhow::Error::from(error);
        render::warn(&format!("worktrees whose directories are gone stay listed in {place}: {error:#}"));
        0
    })
}
