//! What is begun in the user's own checkout while a run works in a worktree of its repository.
//!
//! Git keeps that in the directory which both share, so that a script of the agent's could begin a rebase there, whose list of
//! things to do may run commands. Owns telling the user of what appeared meanwhile. Refuses to take it away: it may be the user's.

use std::path::{Path, PathBuf};

use longhaul_core::run::Run;
use longhaul_workspace::{commit, gitdirs};

use crate::render;

/// A checkout before a run is driven.
pub struct Before {
    directory: PathBuf,
    begun: Vec<&'static str>,
}

impl Before {
    /// That of the repository whose worktree the run works in, if it does.
    pub fn of(run: &Run) -> Option<Before> {
        run.spec.branch.as_ref()?;
        let git = gitdirs::at(&Path::new(run.spec.repository.as_ref()?).canonicalize().ok()?)?;
        let directory = git.common().to_owned();
        Some(Before { begun: commit::under_way(&directory), directory })
    }

    /// Warns of what was not under way then.
    pub fn tell(&self) {
        for what in commit::under_way(&self.directory).iter().filter(|what| !self.begun.contains(what)) {
            render::warn(&format!(
                "{what} is under way in {} that was not when the run began; if you did not begin it, do not go on with it, because \
                 that may run what the agent has put there: see `git status`",
                self.directory.display()
            ));
        }
    }
}
