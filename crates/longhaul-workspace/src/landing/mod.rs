//! Bringing a run's work into the user's checkout, as files (`apply`) or as a commit (`merge`).
//!
//! Everything is worked out among git's objects first: what the result would be, where both sides changed the same, and which
//! files would be written. Only when nothing of the user's would be lost is the first file touched, and before that it is noted
//! what is about to happen, so that a landing that was killed is finished or taken back by the next command. Taken back is only
//! what still is exactly as it was written, and nothing at all once the user has gone on to another commit. Refuses to touch a
//! file with changes that are not committed, to leave a conflict in a checkout, to write files that are stored through a
//! filter, because none is run here, and to write where longhaul keeps its state: an agent would answer for a person there.

mod merging;
mod note;
mod refusals;
mod settling;
mod site;
mod work;
mod writing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) use self::merging::{Merge, contains, merge_trees};
pub(crate) use self::refusals::{in_the_way, shown};
pub(crate) use self::site::Site;
pub use self::work::{Form, Outcome, Work};

use self::note::Landing;
use self::refusals::refuse;
use crate::checkout::{self, Change, Node};
use crate::commit::{self, signed};
use crate::{homing, index_lock};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is nothing of {run} to look at: neither its worktree nor its branch `{branch}`")]
    Gone { run: String, branch: String },
    #[error("the work conflicts with what is here, in {}", shown(paths))]
    Conflicts { paths: Vec<PathBuf> },
    #[error("the work and what is checked out have no commit in common")]
    Unrelated,
    #[error("it would touch changes of yours that are not committed, in {}", shown(paths))]
    Uncommitted { paths: Vec<PathBuf> },
    #[error("conflicts that nobody has resolved are in the index, in {}", shown(paths))]
    Unmerged { paths: Vec<PathBuf> },
    #[error("files that git does not track are in the way: {}", shown(paths))]
    InTheWay { paths: Vec<PathBuf> },
    #[error("it has files of longhaul's own state, which come from no run: {}", shown(paths))]
    OwnState { paths: Vec<PathBuf> },
    #[error("these files are stored through a filter, and no filter is run here: {}", shown(paths))]
    Filtered { paths: Vec<PathBuf> },
    #[error(
        "bringing in {run} was cut short, and these files are neither as they were nor as it writes them: {}",
        shown(paths)
    )]
    Unsettled { run: String, paths: Vec<PathBuf>, back: usize },
    #[error("no branch is checked out in `{}`", path.display())]
    Detached { path: PathBuf },
    #[error("another longhaul is at work in this checkout")]
    Busy,
    #[error(transparent)]
    Commit(commit::Error),
    #[error(transparent)]
    Lock(index_lock::Error),
    #[error(transparent)]
    Apart(homing::Error),
    #[error(transparent)]
    Checkout(#[from] checkout::Error),
}

checkout::wraps_git!(Error);

/// Whoever meets a lock that goes from hand to hand only has to try again.
impl From<index_lock::Error> for Error {
    fn from(error: index_lock::Error) -> Error {
        let is_contended = matches!(error, index_lock::Error::Contended { .. });
        if is_contended { Error::Busy } else { Error::Lock(error) }
    }
}

impl From<homing::Error> for Error {
    fn from(error: homing::Error) -> Error {
        match error {
            homing::Error::Busy => Error::Busy,
            homing::Error::Checkout(error) => error.into(),
            apart @ (homing::Error::Diverged { .. }
            | homing::Error::Broken { .. }
            | homing::Error::Lost { .. }) => Error::Apart(apart),
        }
    }
}

impl From<commit::Error> for Error {
    fn from(error: commit::Error) -> Error {
        match error {
            commit::Error::Lock(index_lock::Error::Contended { .. }) => Error::Busy,
            commit::Error::Home(error) => error.into(),
            other
            @ (commit::Error::UnderWay { .. } | commit::Error::Lock(_) | commit::Error::Checkout(_)) => {
                Error::Commit(other)
            }
        }
    }
}

/// What came of bringing work into a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    pub changes: Vec<Change>,
    /// The checkout's new commit, if it has one.
    pub commit: Option<String>,
}

/// How a landing that was killed was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub run: String,
    pub how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    Finished,
    /// These files are as they were again.
    TakenBack {
        paths: Vec<PathBuf>,
    },
    /// Another commit or branch is checked out by now. Nothing was touched.
    MovedOn,
}

/// Brings the run's changes into the files of the checkout. Nothing is staged and nothing committed.
pub fn apply(work: &Work) -> Result<Landed, Error> {
    let (site, _) = Site::open(work)?;
    let result = work.result()?;
    let head = site.checkout.head()?;
    let ours = site.checkout.snapshot()?.tree;
    let [ours_commit, theirs] = [(&ours, &head), (&result.tree, &result.head)]
        .map(|(tree, parent)| site.checkout.make_commit(tree, &[parent], "for a merge"));
    let uncommitted = nodes(site.checkout.changes(&head, &ours)?);
    let merged = site.merged(&[&format!("--merge-base={}", result.base)], &ours_commit?, &theirs?);
    if let Err(Error::Conflicts { paths }) = &merged {
        // Where the other side is not even committed, that is what has to be seen to.
        let open = paths.iter().filter(|path| uncommitted.contains_key(*path)).cloned().collect::<Vec<_>>();
        if !open.is_empty() {
            return Err(Error::Uncommitted { paths: open });
        }
    }
    let merged = merged?;
    let changes = site.checkout.changes(&ours, &merged)?;
    let since_base = nodes(site.checkout.changes(&result.base, &ours)?);
    let lost = changes.iter().filter(|change| {
        let carried_in = work.carried && !since_base.contains_key(&change.path);
        uncommitted.contains_key(&change.path) && !carried_in
    });
    refuse(lost, |paths| Error::Uncommitted { paths })?;
    let landing = Landing::new(&work.run, ours, merged, None);
    site.land(landing, &changes, &changes)?;
    Ok(Landed { changes, commit: None })
}

/// Merges the run's work into the branch that is checked out.
pub fn merge(work: &Work) -> Result<Landed, Error> {
    let (mut site, _) = Site::open(work)?;
    site.carried = work.base.clone().filter(|_| work.carried);
    site.refuse_unready()?;
    let theirs = work.committed()?;
    let message = signed(&format!("Merge {}: {}", work.run, work.title), &work.run);
    merge_commit(&site, &work.run, theirs, &message)
}

/// The same into the worktree of whoever sent the run, as a commit of that one's: also where the branch could simply be moved.
pub fn merge_for(sender: &str, work: &Work) -> Result<Landed, Error> {
    let (site, _) = Site::open(work)?;
    site.refuse_unready()?;
    let theirs = work.committed()?;
    let checkout = &site.checkout;
    let head = checkout.head()?;
    if contains(checkout, &head, &theirs) {
        return Ok(Landed { changes: Vec::new(), commit: None });
    }
    let message = signed(&format!("Merge {}: {}", work.run, work.title), sender);
    let merged = site.merged(&[], &head, &theirs)?;
    let commit = checkout.make_commit(&merged, &[&head, &theirs], &message)?;
    site.arrive(&work.run, head, commit, merged)
}

/// Brings a commit of elsewhere into the branch that is checked out in `repository`, under the same rules.
pub fn bring(repository: &Path, scratch: &Path, run: &str, commit: &str) -> Result<Landed, Error> {
    let site = Site::at(repository, scratch)?.0;
    site.refuse_unready()?;
    let message = signed(&format!("Merge what is new at the origin for {run}"), run);
    merge_commit(&site, run, commit.to_owned(), &message)
}

/// Finishes or takes back what a killed landing left in the checkout.
pub fn settle(work: &Work) -> Result<Option<Settled>, Error> {
    Ok(Site::open(work)?.1)
}

fn merge_commit(site: &Site, run: &str, theirs: String, message: &str) -> Result<Landed, Error> {
    let checkout = &site.checkout;
    let head = checkout.head()?;
    if contains(checkout, &head, &theirs) {
        return Ok(Landed { changes: Vec::new(), commit: None });
    }
    let (after, commit) = if contains(checkout, &theirs, &head) {
        (checkout.tree_of(&theirs)?, theirs)
    } else {
        let merged = site.merged(&[], &head, &theirs)?;
        let commit = checkout.make_commit(&merged, &[&head, &theirs], message)?;
        (merged, commit)
    };
    site.arrive(run, head, commit, after)
}

/// What the second tree has at each path that differs.
fn nodes(changes: Vec<Change>) -> BTreeMap<PathBuf, Option<Node>> {
    changes.into_iter().map(|change| (change.path, change.after)).collect()
}
