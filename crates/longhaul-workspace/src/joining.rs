//! Joining the branches of runs that worked side by side into the branch they began at.
//!
//! Everything is worked out among git's objects, one branch after another in the order given; the branch moves once, at the
//! end, to one commit that has all of them as parents. So a conflict, a check that fails and a kill leave it as it was. Where the
//! branch is checked out, its files go with it under the rules of `landing`. Refuses to move a branch that somebody moved
//! meanwhile, and to resolve a conflict by itself.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::checkout::{self, Change, Checkout, Filters, path_of, split};
use crate::commit::signed_by_all;
use crate::git;
use crate::landing::{self, Landed, Merge, Settled, Site, Work, contains, merge_trees, shown};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is no branch `{branch}` to merge into")]
    NoBranch { branch: String },
    #[error("{}", .0.said())]
    Conflict(Box<Conflict>),
    #[error("`{branch}` was moved by somebody else meanwhile")]
    Moved { branch: String },
    #[error(transparent)]
    Landing(#[from] landing::Error),
}

impl From<git::Error> for Error {
    fn from(error: git::Error) -> Error {
        landing::Error::from(error).into()
    }
}

impl From<checkout::Error> for Error {
    fn from(error: checkout::Error) -> Error {
        landing::Error::from(error).into()
    }
}

/// Where two branches want different things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub run: String,
    pub branch: String,
    pub paths: Vec<PathBuf>,
    /// The branches that had been merged before it.
    pub before: Vec<String>,
    /// The commits that were to come together, by which it is known again.
    pub sides: Vec<String>,
    /// A commit of all of them whose files have the places marked. No branch names it.
    pub commit: String,
}

/// What somebody has made of a conflict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// Who has.
    pub agent: String,
    pub sides: Vec<String>,
    /// The files as they are to be.
    pub tree: String,
}

impl Conflict {
    fn said(&self) -> String {
        let with = match &self.before[..] {
            [] => "the branch it is to be merged into".to_owned(),
            before => format!("what was merged before it ({})", before.join(", ")),
        };
        format!("{} (branch `{}`) conflicts with {with}, in {}", self.run, self.branch, shown(&self.paths))
    }
}

/// The branch that others are joined into, in a repository.
#[derive(Clone, Debug)]
pub struct Target {
    pub repository: PathBuf,
    /// By its short name.
    pub branch: String,
    /// Where our own files go for a while.
    pub scratch: PathBuf,
}

/// What joining comes to, before anything is moved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// Where the branch is.
    pub from: String,
    /// Where it goes; the same, if it has everything already.
    pub to: String,
    pub tree: String,
    /// The runs whose work is new there, in order.
    pub runs: Vec<String>,
    /// Those whose work it had.
    pub known: Vec<String>,
}

impl Target {
    /// Works out what the branch becomes with all of this, in this order. Of each run, what stands in its worktree is committed.
    /// Where they conflict, `resolved` may say what to make of exactly that.
    pub fn join(&self, works: &[Work], title: &str, resolved: &[Resolved]) -> Result<Joined, Error> {
        let checkout = self.checkout()?;
        let from = self.tip(&checkout)?;
        let (mut ours, mut tree) = (from.clone(), checkout.tree_of(&from)?);
        let (mut runs, mut known, mut before) = (Vec::new(), Vec::new(), Vec::new());
        let mut parents = vec![from.clone()];
        for work in works {
            let theirs = work.committed()?;
            if contains(&checkout, &ours, &theirs) {
                known.push(work.run.clone());
                continue;
            }
            let merge = merge_trees(&checkout, &[], &ours, &theirs)?;
            parents.push(theirs.clone());
            let all: Vec<&str> = parents.iter().map(String::as_str).collect();
            runs.push(work.run.clone());
            let message = self.message(title, &runs);
            tree = match merge {
                Merge::Clean { tree } => tree,
                Merge::Conflicts { tree, paths } => match resolved.iter().find(|one| one.sides == parents) {
                    Some(resolved) => resolved.tree.clone(),
                    None => {
                        let commit = checkout.make_commit(&tree, &all, &message)?;
                        let (run, branch) = (work.run.clone(), work.branch.clone());
                        let conflict =
                            Conflict { run, branch, paths, before, sides: parents.clone(), commit };
                        return Err(Error::Conflict(Box::new(conflict)));
                    }
                },
            };
            ours = checkout.make_commit(&tree, &all, &message)?;
            before.push(work.branch.clone());
        }
        // One branch on top of this one needs no commit of its own.
        if let [_, only] = &parents[..]
            && contains(&checkout, only, &from)
        {
            ours.clone_from(only);
        }
        Ok(Joined { from, to: ours, tree, runs, known })
    }

    /// Would all of this be refused where the branch is checked out, whatever is made of the conflict? To be asked before
    /// anybody is paid for resolving it.
    pub fn refuse_unready(&self, works: &[Work], conflict: &Conflict) -> Result<(), Error> {
        let checkout = self.checkout()?;
        let Some(place) = self.checked_out(&checkout)? else { return Ok(()) };
        let from = self.tip(&checkout)?;
        let (site, _) = Site::at(&place, &self.scratch)?;
        site.refuse_unready()?;
        let mut changes = checkout.changes(&from, &conflict.commit)?;
        for work in works {
            let theirs = work.committed()?;
            let base = checkout.git().run(&["merge-base", "--end-of-options", &from, &theirs])?;
            changes.extend(checkout.changes(&base, &theirs)?);
        }
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes.dedup_by(|one, other| one.path == other.path);
        Ok(site.refuse_uncommitted(&from, &changes).map(drop)?)
    }

    /// Are these files still among git's objects?
    pub fn has(&self, tree: &str) -> Result<bool, Error> {
        Ok(self.checkout()?.git().bytes(&["cat-file", "-e", tree]).is_ok())
    }

    /// Moves the branch, and the files of the checkout it is checked out in, if there is one.
    pub fn land(&self, joined: &Joined, title: &str) -> Result<Landed, Error> {
        let checkout = self.checkout()?;
        let changes = checkout.changes(&joined.from, &joined.tree)?;
        if joined.to == joined.from {
            return Ok(Landed { changes: Vec::new(), commit: None });
        }
        let Some(place) = self.checked_out(&checkout)? else {
            return self.move_only(&checkout, joined, changes);
        };
        let (site, _) = Site::at(&place, &self.scratch)?;
        site.refuse_unready()?;
        let at = (site.checkout.branch(), site.checkout.head()?);
        if at != (Some(self.reference()), joined.from.clone()) {
            return Err(Error::Moved { branch: self.branch.clone() });
        }
        Ok(site.arrive(title, joined.from.clone(), joined.to.clone(), joined.tree.clone())?)
    }

    /// Finishes or takes back what a killed landing left where the branch is checked out.
    pub fn settle(&self) -> Result<Option<Settled>, Error> {
        match self.checked_out(&self.checkout()?)? {
            Some(place) => Ok(Site::at(&place, &self.scratch)?.1),
            None => Ok(None),
        }
    }

    /// Nobody has it checked out: no file is touched.
    fn move_only(&self, checkout: &Checkout, joined: &Joined, changes: Vec<Change>) -> Result<Landed, Error> {
        let (reference, note) = (self.reference(), format!("longhaul merge {}", joined.runs.join(" ")));
        let moved = ["update-ref", "--create-reflog", "-m", &note, "--end-of-options", &reference];
        let moved = checkout.git().bytes(&[&moved[..], &[&joined.to, &joined.from]].concat());
        match moved {
            Err(_) if self.tip(checkout)? != joined.from => Err(Error::Moved { branch: self.branch.clone() }),
            moved => {
                moved?;
                Ok(Landed { changes, commit: Some(joined.to.clone()) })
            }
        }
    }

    fn checkout(&self) -> Result<Checkout, Error> {
        Ok(Checkout::open(&self.repository, &self.scratch, Filters::Absent)?)
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.branch)
    }

    fn tip(&self, checkout: &Checkout) -> Result<String, Error> {
        let gone = || Error::NoBranch { branch: self.branch.clone() };
        checkout.commit(&self.reference()).ok_or_else(gone)
    }

    fn message(&self, title: &str, runs: &[String]) -> String {
        let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
        signed_by_all(&format!("Merge {title} into {}", self.branch), &runs)
    }

    /// Where the branch is checked out, if anywhere.
    pub fn place(&self) -> Result<Option<PathBuf>, Error> {
        self.checked_out(&self.checkout()?)
    }

    fn checked_out(&self, checkout: &Checkout) -> Result<Option<PathBuf>, Error> {
        let list = || checkout.git().bytes(&["worktree", "list", "--porcelain", "-z"]);
        let listed = git::past_new_worktrees(list)?;
        let line = format!("branch {}", self.reference());
        let mut place = None;
        for word in split(&listed) {
            if let Some(path) = word.strip_prefix(b"worktree ") {
                place = Some(path_of(path));
            } else if word == line.as_bytes() {
                return Ok(place.filter(|place| place.is_dir()));
            }
        }
        Ok(None)
    }
}
