//! Where a run works: its workspace as it is made, prepared and guarded.

use std::path::{Path, PathBuf};

use longhaul_core::input::Tended;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_workspace::place::{self, Place};
use longhaul_workspace::{Guard, Workspace, abandoned, carry, homing, lending};

use super::Harness;
use crate::driver::Preparation;
use crate::error::Error;
use crate::perform::tended;

impl Harness {
    pub(crate) fn place(&self, spec: &RunSpec, path: &Path) -> Place {
        let ours = self.home().is_some_and(|home| path.starts_with(home.dir()));
        if let (Some(source), Some(branch), Some(start)) = (&spec.source, &spec.branch, &spec.base) {
            let (store, url) = (PathBuf::from(&source.store), source.url.clone());
            let (path, branch, start) = (path.to_owned(), branch.clone(), start.clone());
            return Place::Clone { store, url, path, branch, start };
        }
        match (&spec.repository, &spec.branch) {
            (Some(repo), Some(branch)) => {
                let (branch, start) = (branch.clone(), spec.base.clone());
                Place::Worktree { repo: repo.into(), path: path.to_owned(), branch, start }
            }
            _ if ours => Place::Fresh(path.to_owned()),
            _ => Place::InPlace(path.to_owned()),
        }
    }

    /// Makes or finds the workspace of a run, and tells what was done about it: what was committed when we were killed comes home.
    pub(super) fn workspace(&self, run: &Run) -> Result<(Workspace, Tended), Error> {
        let path = PathBuf::from(&run.spec.workspace);
        // An agent that finds an empty directory where its work was would do it all again, or worse. One that is there is the user's
        // word that it may: we leave none behind.
        if run.has_worked() && !path.exists() {
            return Err(Error::WorkspaceGone { path });
        }
        let failed = |source| Error::Workspace { path: path.clone(), source };
        let place = self.place(&run.spec, &path);
        let was_there = path.exists();
        place::ensure(&place).map_err(|error| failed(Box::new(error)))?;
        if let (Place::Worktree { repo, .. }, false) = (&place, run.has_worked()) {
            carry::ignored(repo, &path, &self.copied).map_err(|error| failed(Box::new(error)))?;
        }
        let mut done = Tended::default();
        if let Some(home) = self.home().filter(|home| path.starts_with(home.dir())) {
            // What an agent's git left that was killed with us: its next one would stop at it.
            abandoned::clear(&path);
            let scratch = home.dir().join("scratch");
            // What did not come before may come now.
            let look = if run.not_brought.is_some() { homing::publish } else { homing::publish_if_moved };
            let mut seen = look(&path, &scratch);
            if run.has_worked() {
                // Who brought it may have been killed before that was on record.
                seen.brought.extend(homing::brought_so_far(&path));
            }
            done = self.secrets.strike_tended(tended(seen));
            if was_there {
                lending::refresh(&path).ok();
            }
        }
        let workspace = Workspace::open(&path).map_err(|error| failed(Box::new(error)))?;
        Ok((workspace.guarded(self.guard(&path)), done))
    }

    /// A run that works in place has our state directory, and the settings of the next run, in its workspace. One whose
    /// workspace is in the state directory reaches nothing else of it anyway.
    fn guard(&self, workspace: &Path) -> Guard {
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let workspace = whole(workspace);
        let hidden = self.hidden.to_vec();
        match self.home().map(|home| whole(home.dir())) {
            Some(state) if workspace.starts_with(&state) => Guard { hidden, ..Guard::default() },
            state => Guard {
                hidden: hidden.into_iter().chain(state).collect(),
                read_only: vec![workspace.join("longhaul.yaml")],
            },
        }
    }

    /// What prepares the workspace of a run, if that is not done. One that it works in with others, or that is the user's, is not
    /// its to prepare.
    pub(super) fn preparation(&self, run: &Run) -> Option<Preparation> {
        let place = PathBuf::from(&run.spec.workspace);
        let commands = self.setup.to_vec();
        let is_due = self.is_prepared(run) && !commands.is_empty() && !place::is_ready(&place, &commands);
        is_due.then_some(Preparation { commands, place })
    }

    /// Does a run work where what prepares a fresh workspace is run?
    pub fn is_prepared(&self, run: &Run) -> bool {
        let shares = run.spec.parent.is_some() && run.spec.family().is_none();
        let is_ours = !matches!(self.place(&run.spec, Path::new(&run.spec.workspace)), Place::InPlace(_));
        is_ours && !shares
    }
}
