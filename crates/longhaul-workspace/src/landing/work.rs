//! What a run has made, and from what: as two trees, as a commit, or as git prints it.

use std::path::{Path, PathBuf};

use super::Error;
use crate::checkout::{Checkout, Filters};
use crate::{commit, homing, mending};

/// What a run has made, and from what.
#[derive(Clone, Debug)]
pub struct Work {
    pub run: String,
    /// What it was about, in a line.
    pub title: String,
    /// The checkout it is for.
    pub repository: PathBuf,
    pub worktree: PathBuf,
    pub branch: String,
    /// The commit it began with; without one, where its branch and the checkout parted.
    pub base: Option<String>,
    /// Did it begin with what was not committed in the checkout?
    pub carried: bool,
    /// Where our own files go for a while.
    pub scratch: PathBuf,
}

/// A run's work as two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub base: String,
    /// The last commit of the run's.
    pub head: String,
    /// What stands there, committed or not.
    pub tree: String,
    pub nested: Vec<PathBuf>,
}

/// How changes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Patch,
    Stat,
    Names,
    /// Added and removed lines and the path, each ended by NUL.
    Counts,
}

impl Form {
    /// As git's options.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Form::Patch => &["--patch", "--binary", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/"],
            Form::Stat => &["--stat=100", "--find-renames"],
            Form::Names => &["--name-only", "-z", "--no-renames"],
            Form::Counts => &["--numstat", "-z", "--no-renames"],
        }
    }
}

impl Work {
    /// What the run has made, as it stands.
    pub fn result(&self) -> Result<Outcome, Error> {
        let home = Checkout::open(&self.repository, &self.scratch, Filters::Absent)?;
        let (head, tree, nested) = if self.worktree.is_dir() {
            let worktree = self.open_worktree(Filters::Absent)?;
            let (head, snapshot) = (worktree.head()?, worktree.snapshot()?);
            self.bring(&worktree, &home, &[&head, &snapshot.tree])?;
            (head, snapshot.tree, snapshot.nested)
        } else {
            let gone = || Error::Gone { run: self.run.clone(), branch: self.branch.clone() };
            let head = home.commit(&format!("refs/heads/{}", self.branch)).ok_or_else(gone)?;
            (head.clone(), home.tree_of(&head)?, Vec::new())
        };
        let base = match self.base.as_deref().and_then(|base| home.commit(base)) {
            Some(base) => base,
            None => home.git().run(&["merge-base", "HEAD", &head])?,
        };
        Ok(Outcome { base, head, tree, nested })
    }

    /// The run's changes, printed by git.
    pub fn diff(&self, result: &Outcome, form: Form) -> Result<Vec<u8>, Error> {
        let home = Checkout::open(&self.repository, &self.scratch, Filters::Absent)?;
        let asked = [&["diff-tree", "-r", "--no-ext-diff", "--no-textconv"], form.words()].concat();
        let trees = ["--end-of-options", &result.base, &result.tree];
        Ok(home.git().bytes(&[&asked[..], &trees].concat())?)
    }

    /// Would a merge put what was not committed in the checkout onto its branch, as the commit the run began with?
    pub fn merges_carried(&self) -> Result<bool, Error> {
        let Some(base) = self.base.as_deref().filter(|_| self.carried) else { return Ok(false) };
        let home = Checkout::open(&self.repository, &self.scratch, Filters::Absent)?;
        let asked = ["merge-base", "--is-ancestor", "--end-of-options", base, "HEAD"];
        Ok(!home.git().print(&asked)?.status.success())
    }

    /// Commits what stands in the run's worktree, so that it can be merged.
    pub(crate) fn committed(&self) -> Result<String, Error> {
        if !self.worktree.is_dir() {
            return Ok(self.result()?.head);
        }
        let worktree = self.open_worktree(Filters::Failing)?;
        let (kept, tended) = commit::commit(&worktree, &self.run, &self.title);
        kept?;
        tended.came?;
        let home = Checkout::open(&self.repository, &self.scratch, Filters::Absent)?;
        let head = worktree.head()?;
        self.bring(&worktree, &home, &[&head])?;
        Ok(head)
    }

    fn open_worktree(&self, filters: Filters) -> Result<Checkout, Error> {
        mending::mend_for_git(&self.worktree, &mut Vec::new())?;
        Ok(Checkout::open(&self.worktree, &self.scratch, filters)?)
    }

    /// Makes sure that the checkout it is for has what was made in the worktree.
    fn bring(&self, worktree: &Checkout, home: &Checkout, made: &[&str]) -> Result<(), Error> {
        let head = home.head()?;
        let known: Vec<&str> = self.base.as_deref().into_iter().chain([head.as_str()]).collect();
        let known: Vec<&str> = known.into_iter().filter(|commit| home.commit(commit).is_some()).collect();
        Ok(homing::bring(worktree, home, made, &known)?)
    }

    /// The files that the run has made of those of the commit `from`. One that is stored through a filter is refused if it differs,
    /// rather than taken as it stands.
    pub fn made_of(&self, from: &str) -> Result<String, Error> {
        let tree = self.result()?.tree;
        let open = |top: &Path| Checkout::open(top, &self.scratch, Filters::Absent);
        let home = open(&self.repository)?;
        let changes = home.changes(from, &tree)?;
        let written = || changes.iter().filter(|change| change.after.is_some()).map(|change| &*change.path);
        // The run may have changed what is stored through a filter, too.
        let mut paths = home.filtered(written())?;
        if self.worktree.is_dir() {
            paths.extend(open(&self.worktree)?.filtered(written())?);
        }
        paths.sort();
        paths.dedup();
        if paths.is_empty() { Ok(tree) } else { Err(Error::Filtered { paths }) }
    }
}
