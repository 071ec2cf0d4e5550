//! Joining the branches of runs that worked side by side into the branch they began at.
//!
//! Everything is worked out among git's objects, one branch after another in the order given; the branch moves once, at the
//! end, to one commit that has all of them as parents. So a conflict, a check that fails and a kill leave it as it was. Where the
//! branch is checked out, its files go with it under the rules of `landing`. Refuses to move a branch that somebody moved
//! meanwhile, and to resolve a conflict by itself.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkout::{self, Change, Checkout, Filters, Node, path_of, split};
use crate::commit::signed_by_all;
use crate::git::{self, Printed};
use crate::homing;
use crate::landing::{self, Landed, Merge, Settled, Site, Work, contains, merge_trees, shown};
use crate::moving::Moving;

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

impl From<homing::Error> for Error {
    fn from(error: homing::Error) -> Error {
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
    /// What had been merged before it, as a commit that no branch names.
    pub ours: String,
    /// Each conflict that marks cannot show: bytes that are no text, links, files that one side removed or moved.
    pub unmarked: Vec<Vec<Contested>>,
    /// Names that git made up for what has no room where it was.
    pub made_up: Vec<PathBuf>,
}

/// A path of a conflict without marks: what had been merged before has there, what the branch has, and what stands there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contested {
    pub path: PathBuf,
    pub ours: Option<Node>,
    pub theirs: Option<Node>,
    pub here: Option<Node>,
}

/// What is left of a conflict in what somebody made of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unresolved {
    /// Still have marks in them.
    pub marked: Vec<PathBuf>,
    /// Cannot have marks, stand as they were given, and nobody has said that this is right.
    pub untouched: Vec<PathBuf>,
    /// Still have the name that git made up.
    pub made_up: Vec<PathBuf>,
}

impl Unresolved {
    /// What is said of whoever left it so; nothing if nothing is left.
    pub fn said(&self) -> Option<String> {
        let listed = [
            ("has left conflict marks in", &self.marked),
            ("has resolved nothing in", &self.untouched),
            ("has left the names that git made up for", &self.made_up),
        ];
        let named = listed.into_iter().filter(|(_, paths)| !paths.is_empty());
        let said: Vec<String> = named.map(|(said, paths)| format!("{said} {}", shown(paths))).collect();
        (!said.is_empty()).then(|| said.join(", and "))
    }
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
        if let Some(place) = self.checked_out(&checkout)? {
            homing::publish(&place, &self.scratch).came?;
        }
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
                Merge::Conflicts { tree, paths, single } => {
                    match resolved.iter().find(|one| one.sides == parents) {
                        Some(resolved) => resolved.tree.clone(),
                        None => {
                            let commit = checkout.make_commit(&tree, &all, &message)?;
                            let is_marked = |paths: &Vec<PathBuf>| {
                                paths.iter().any(|path| has_marks(&checkout, &tree, path))
                            };
                            let unmarked: BTreeSet<Vec<PathBuf>> =
                                single.into_iter().filter(|paths| !is_marked(paths)).collect();
                            let contested = |paths: Vec<PathBuf>| {
                                let each = paths.into_iter();
                                each.map(|path| Contested::of(&checkout, [&ours, &theirs, &tree], path))
                                    .collect()
                            };
                            let conflict = Conflict {
                                run: work.run.clone(),
                                branch: work.branch.clone(),
                                unmarked: unmarked.into_iter().map(contested).collect::<Result<_, _>>()?,
                                made_up: made_up(&checkout, &tree, [&ours, &theirs])?,
                                paths,
                                before,
                                sides: parents.clone(),
                                ours,
                                commit,
                            };
                            return Err(Error::Conflict(Box::new(conflict)));
                        }
                    }
                }
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

    /// What is left of a conflict in these files. Where nothing can be marked, only a change shows that somebody has looked, or that
    /// somebody has named one of its paths as right.
    pub fn unresolved(
        &self,
        conflict: &Conflict,
        tree: &str,
        right: &BTreeSet<PathBuf>,
    ) -> Result<Unresolved, Error> {
        let checkout = self.checkout()?;
        let changes = checkout.changes(&conflict.commit, tree)?;
        let is_seen_to = |Contested { path, .. }: &Contested| {
            right.contains(path) || changes.iter().any(|change| change.path == *path)
        };
        let untouched = conflict.unmarked.iter().filter(|paths| !paths.iter().any(is_seen_to)).flatten();
        let mut untouched: Vec<PathBuf> = untouched.map(|contested| contested.path.clone()).collect();
        untouched.sort();
        untouched.dedup();
        let is_gone =
            |path: &&PathBuf| changes.iter().any(|change| change.path == **path && change.after.is_none());
        let is_marked = |path: &&PathBuf| has_marks(&checkout, tree, path);
        Ok(Unresolved {
            marked: conflict.paths.iter().filter(is_marked).cloned().collect(),
            untouched,
            made_up: conflict.made_up.iter().filter(|path| !is_gone(path)).cloned().collect(),
        })
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
        let landed = site.arrive(title, joined.from.clone(), joined.to.clone(), joined.tree.clone())?;
        homing::publish(&place, &self.scratch).came?;
        Ok(landed)
    }

    /// Finishes or takes back what a killed landing left where the branch is checked out. The lock that a killed git of ours
    /// left of a branch goes too: it may be checked out by now.
    pub fn settle(&self) -> Result<Option<Settled>, Error> {
        let checkout = self.checkout()?;
        drop(Moving::take(&checkout)?);
        match self.checked_out(&checkout)? {
            Some(place) => Ok(Site::at(&place, &self.scratch)?.1),
            None => Ok(None),
        }
    }

    /// Nobody has it checked out: no file is touched.
    fn move_only(&self, checkout: &Checkout, joined: &Joined, changes: Vec<Change>) -> Result<Landed, Error> {
        let (reference, note) = (self.reference(), format!("longhaul merge {}", joined.runs.join(" ")));
        let order = ["update-ref", "--create-reflog", "-m", &note, "--end-of-options", &reference];
        let mut moving = Moving::take(checkout)?;
        moving.about_to_move(&reference, &joined.to)?;
        let git = checkout.git().holding(moving.held());
        let printed = git.print(&[&order[..], &[&joined.to, &joined.from]].concat());
        // What one that was killed may have left stays noted, for the next to clear.
        if printed.as_ref().is_ok_and(Printed::ended_by_itself) {
            moving.done()?;
        }
        match printed.and_then(|printed| printed.succeeded("update-ref".to_owned())) {
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

impl Contested {
    fn of(checkout: &Checkout, trees: [&str; 3], path: PathBuf) -> Result<Contested, Error> {
        let [ours, theirs, here] = trees.map(|tree| checkout.node_at(tree, &path));
        Ok(Contested { ours: ours?, theirs: theirs?, here: here?, path })
    }
}

/// Is a place of this file marked as in conflict?
fn has_marks(checkout: &Checkout, tree: &str, path: &Path) -> bool {
    let mut name = OsString::from(format!("{tree}:"));
    name.push(path);
    let text = checkout.git().bytes(&[OsStr::new("cat-file"), OsStr::new("blob"), &name]).unwrap_or_default();
    let is_mark = |line: &[u8]| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> ");
    text.split(|byte| *byte == b'\n').any(is_mark)
}

/// What the files of a merge are called that have no room where they were: their name, and which of the two sides they are of.
fn made_up(checkout: &Checkout, tree: &str, sides: [&String; 2]) -> Result<Vec<PathBuf>, Error> {
    let ends = sides.map(|side| format!("~{side}"));
    let is_made_up = |path: &Path| ends.iter().any(|end| path.to_string_lossy().contains(end.as_str()));
    let changes = checkout.changes(sides[0], tree)?.into_iter().filter(|change| change.after.is_some());
    Ok(changes.map(|change| change.path).filter(|path| is_made_up(path)).collect())
}
