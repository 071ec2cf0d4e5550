//! What is staged in a checkout whose files were taken back.
//!
//! Owns making its index fit its files again, and nothing but the index: what is staged stays only where it is what stands there,
//! everything else is as the commit has it that is checked out. Refuses to throw away what a person staged and no file has, and to
//! touch an index that a merge or the like will be finished with.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::abandoned;
use crate::checkout::{self, Change, Checkout, Index, Node, path_bytes, path_of, split};
use crate::commit::{Error, refuse_under_way};
use crate::index_lock::IndexLock;

/// Who may have staged something there.
#[derive(Clone, Copy, Debug)]
pub enum By<'c> {
    /// Nobody but the agent.
    Agent,
    /// Perhaps the user. Only what was staged exactly as the file stood goes, because that is stored; these are the files that were
    /// taken back, from what stood there.
    Anybody(&'c [Change]),
}

/// Makes the index of a checkout fit its files.
pub fn settle(checkout: &Checkout, by: By<'_>) -> Result<(), Error> {
    let head = head_or_nothing(checkout)?;
    let compared = checkout.git().print(&["diff-index", "--cached", "--quiet", &head])?;
    if compared.status.success() {
        return Ok(());
    }
    refuse_under_way(checkout)?;
    if let By::Agent = by {
        abandoned::clear(checkout.top());
    }
    let lock = IndexLock::take(checkout.directory())?;
    let index = checkout.index()?;
    let git = || checkout.git().with("GIT_INDEX_FILE", &index.0);
    // Entries whose files differ are named by it, which is no failure.
    let refresh = || git().print(&["update-index", "-q", "--refresh"]);
    match (git().run(&["write-tree"]), by) {
        (Ok(tree), by) => {
            let mut odd = checkout.changes(&head, &tree)?;
            refresh()?;
            let differing = git().bytes(&["diff-files", "-z", "--name-only"])?;
            let differing: BTreeSet<PathBuf> = split(&differing).map(path_of).collect();
            odd.retain(|change| !stands(checkout, &differing, change) && may_go(by, change));
            enter(checkout, &index, head.len(), odd.iter().map(|change| (&change.path, &change.before)))?;
        }
        // Several versions of a file stand in it.
        (Err(_), By::Agent) => drop(git().bytes(&["read-tree", "--reset", &head])?),
        (Err(error), By::Anybody(_)) => return Err(error.into()),
    }
    refresh()?;
    Ok(lock.install(&index)?)
}

/// Is what is staged what stands there?
fn stands(checkout: &Checkout, differing: &BTreeSet<PathBuf>, change: &Change) -> bool {
    match change.after {
        Some(_) => !differing.contains(&change.path),
        None => checkout.top().join(&change.path).symlink_metadata().is_err(),
    }
}

fn may_go(by: By<'_>, staged: &Change) -> bool {
    match by {
        By::Agent => true,
        By::Anybody(rewound) => {
            rewound.iter().any(|change| change.path == staged.path && change.before == staged.after)
        }
    }
}

/// The commit that is checked out; where there is none yet, the tree without files.
fn head_or_nothing(checkout: &Checkout) -> Result<String, checkout::Error> {
    let nothing = || checkout.git().reading(Vec::new()).run(&["hash-object", "-t", "tree", "--stdin"]);
    Ok(checkout.head().or_else(|_| nothing())?)
}

/// Puts entries into an index of ours. An id has so many digits.
pub(crate) fn enter<'c>(
    checkout: &Checkout,
    index: &Index,
    digits: usize,
    entries: impl Iterator<Item = (&'c PathBuf, &'c Option<Node>)>,
) -> Result<(), checkout::Error> {
    let nothing = "0".repeat(digits);
    let mut said = Vec::new();
    for (path, node) in entries {
        match node {
            Some(node) => said.extend(format!("{} {}\t", node.mode, node.object).as_bytes()),
            None => said.extend(format!("0 {nothing}\t").as_bytes()),
        }
        said.extend(path_bytes(path));
        said.push(0);
    }
    let git = checkout.git().with("GIT_INDEX_FILE", &index.0).reading(said);
    git.bytes(&["update-index", "-z", "--index-info"])?;
    Ok(())
}
