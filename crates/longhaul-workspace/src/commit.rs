//! Committing what stands in a run's worktree, once.
//!
//! Owns that the work of a run ends up on its branch under the user's name, with a message that says which run it was. The
//! tree is compared first: what is committed already is not committed again, so this may be killed at any point and simply be
//! called once more. Refuses to commit in the middle of a merge, which would lose one side of it.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::checkout::{self, Checkout, Index};
use crate::files::STATE_DIRECTORY;
use crate::homing::{self, Tended};
use crate::index_lock::{self, IndexLock};
use crate::{abandoned, mending};

/// The trailer that says which run a commit is by.
pub const TRAILER: &str = "Longhaul-Run";

/// What is in the repository's directory while something is under way that a plain commit would break off.
const UNDER_WAY: [(&str, &str); 5] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
];

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{what} is under way in `{}`", path.display())]
    UnderWay { what: &'static str, path: PathBuf },
    #[error(transparent)]
    Lock(#[from] index_lock::Error),
    #[error(transparent)]
    Home(#[from] homing::Error),
    #[error(transparent)]
    Checkout(#[from] checkout::Error),
}

checkout::wraps_git!(Error);

/// What became of what stands in a worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kept {
    Committed(Committed),
    /// There is nothing that the last commit has not, and that is not the run's; the agent may have made it itself.
    Unchanged {
        head: String,
    },
}

/// The commit that holds a run's work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    pub commit: String,
    /// `None` on no branch.
    pub branch: Option<String>,
    /// Repositories inside the worktree, whose files are not in the commit.
    pub nested: Vec<PathBuf>,
}

/// Commits everything that stands in the run's own worktree and is not ignored, unless it is committed already, and brings its
/// branch to the repository that the worktree is of. Whether it can be committed and whether what is committed can be brought are two
/// things.
pub fn commit(checkout: &Checkout, run: &str, message: &str) -> (Result<Kept, Error>, Tended) {
    let mut mended = Vec::new();
    let is_whole = mending::mend_for_git(checkout.top(), &mut mended);
    let kept = is_whole.map_err(Error::from).and_then(|()| commit_here(checkout, run, message));
    let tended = homing::publish(checkout.top(), checkout.scratch());
    mended.extend(&tended.mended);
    (kept, Tended { mended, ..tended })
}

fn commit_here(checkout: &Checkout, run: &str, message: &str) -> Result<Kept, Error> {
    refuse_under_way(checkout)?;
    let head = checkout.head()?;
    let branch = checkout.branch();
    abandoned::clear(checkout.top());
    let mut lock = IndexLock::take(checkout.directory())?;
    let index = checkout.index()?;
    let staged = checkout.git().with("GIT_INDEX_FILE", &index.0).run(&["write-tree"]).ok();
    checkout.uncover(&index)?;
    let mut snapshot = checkout.take_files(&index)?;
    leave_out_state(checkout, &index, &head, &mut snapshot.tree)?;
    let name = branch.clone().unwrap_or_else(|| "HEAD".to_owned());
    let short = branch.map(|branch| branch.trim_start_matches("refs/heads/").to_owned());
    let committed = |commit: String| Committed { commit, branch: short, nested: snapshot.nested };
    if snapshot.tree == checkout.tree_of(&head)? {
        // Killed between the commit and its index, we would leave everything staged the other way round.
        if staged.as_ref() != Some(&snapshot.tree) {
            lock.install(&index)?;
        }
        let is_ours = is_by(checkout, &head, run)?;
        return Ok(if is_ours { Kept::Committed(committed(head)) } else { Kept::Unchanged { head } });
    }
    let commit = checkout.make_commit(&snapshot.tree, &[&head], &signed(message, run))?;
    let note = format!("longhaul: work of {run}");
    let moved = ["update-ref", "--create-reflog", "-m", &note, "--end-of-options", "HEAD", &commit, &head];
    lock.about_to_move(&[("HEAD", &commit), (&name, &commit)])?;
    checkout.git().holding(lock.held()).bytes(&moved)?;
    lock.install(&index)?;
    Ok(Kept::Committed(committed(commit)))
}

/// Takes out of a commit in the making what an agent has put where states are kept: it is nobody's work, and no checkout of a
/// user's takes it. What is committed there already stays.
fn leave_out_state(checkout: &Checkout, index: &Index, head: &str, tree: &mut String) -> Result<(), Error> {
    let is_state = |path: &Path| path.iter().any(|part| part.eq_ignore_ascii_case(STATE_DIRECTORY));
    let changes = checkout.changes(head, tree)?;
    let new = changes.iter().filter(|change| change.before.is_none() && is_state(&change.path));
    let listed: Vec<u8> =
        new.flat_map(|change| [change.path.as_os_str().as_bytes(), b"\0"].concat()).collect();
    if !listed.is_empty() {
        let git = || checkout.git().with("GIT_INDEX_FILE", &index.0);
        git().reading(listed).bytes(&["update-index", "-z", "--force-remove", "--stdin"])?;
        *tree = git().run(&["write-tree"])?;
    }
    Ok(())
}

/// The message with the trailer, and nothing in it that could be taken for another.
pub(crate) fn signed(message: &str, run: &str) -> String {
    signed_by_all(message, &[run])
}

/// The same for the work of several.
pub(crate) fn signed_by_all(message: &str, runs: &[&str]) -> String {
    let clean = |letter: char| if letter.is_control() && letter != '\n' { ' ' } else { letter };
    let message: String = message.chars().map(clean).collect();
    // Without a subject the trailer would be taken for one.
    let message = if message.trim().is_empty() { "Work" } else { message.trim() };
    let trailers: String = runs.iter().map(|run| format!("{TRAILER}: {run}\n")).collect();
    format!("{message}\n\n{trailers}")
}

/// Does the commit say that it is by this run? Only its last paragraph counts.
fn is_by(checkout: &Checkout, commit: &str, run: &str) -> Result<bool, Error> {
    let text = checkout.git().run(&["cat-file", "commit", commit])?;
    let last = text.trim_end().rsplit("\n\n").next().unwrap_or_default();
    Ok(last.lines().any(|line| line == format!("{TRAILER}: {run}")))
}

/// What is under way in the checkout whose directory this is: `a merge`, `a rebase`.
pub fn under_way(directory: &Path) -> Vec<&'static str> {
    let found = UNDER_WAY.iter().filter(|(name, _)| directory.join(name).exists());
    found.map(|(_, what)| *what).collect()
}

pub(crate) fn refuse_under_way(checkout: &Checkout) -> Result<(), Error> {
    under_way(checkout.directory())
        .first()
        .map_or(Ok(()), |what| Err(Error::UnderWay { what, path: checkout.top().to_owned() }))
}
