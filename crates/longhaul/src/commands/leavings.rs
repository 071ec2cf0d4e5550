//! What runs leave in the user's repository, taken away when nobody needs it any more.
//!
//! Owns two things: the name under which changes are kept that were carried in, and worktrees that the repository still lists although
//! somebody has deleted their directories. Refuses to touch what is not a run's, and what stands where it should.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_engine::Harness;
use longhaul_workspace::{checkout, place};

use crate::app::{self, App};
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

/// After workspaces were cleaned up, in the repository here and in those that workspaces were of: answers how many worktrees are no
/// longer listed.
pub fn clean_up(app: &App, harness: &Harness, mut repositories: BTreeSet<PathBuf>) -> usize {
    repositories.extend(app::repository(&app.cwd));
    repositories.retain(|repository| repository.is_dir());
    // Where runs work, and nothing else that may stand in a state directory.
    let ours = ["workspace", "sessions"].map(|name| app.state_dir.join(name));
    let mut unlisted = 0;
    for repository in &repositories {
        let_go_of_kept(harness, repository);
        unlisted += ours.iter().map(|place| unlist(repository, place)).sum::<usize>();
    }
    unlisted
}

/// Leaves what was carried in to the branches of runs that have ended and whose workspaces are gone. Only runs are looked at that
/// something is kept for; those of another state directory are not known here.
fn let_go_of_kept(harness: &Harness, repository: &Path) {
    let kept = checkout::carried_for(repository).unwrap_or_else(|error| {
        let (place, error) = (repository.display(), anyhow::Error::from(error));
        render::warn(&format!("changes that were carried in stay known in {place}: {error:#}"));
        Vec::new()
    });
    for name in kept {
        let Some(Run { spec, status, .. }) = RunId::parse(&name).ok().and_then(|id| harness.look(&id).ok())
        else {
            continue;
        };
        // Its branch keeps it as long as the branch is there; without one it could never be made again.
        let (base, branch) = (spec.base.as_ref(), spec.branch.as_ref());
        let is_kept =
            || base.zip(branch).is_some_and(|(base, name)| place::branch_has(repository, name, base));
        if status.is_terminal() && !Path::new(&spec.workspace).exists() && is_kept() {
            let_go(repository, &name);
        }
    }
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
