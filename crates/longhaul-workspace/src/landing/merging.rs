//! Merges worked out among git's objects, without any checkout.

use std::path::PathBuf;

use super::Error;
use crate::checkout::{Checkout, path_of, split};

/// Is the second commit part of the history of the first?
pub(crate) fn contains(checkout: &Checkout, outer: &str, inner: &str) -> bool {
    checkout.git().bytes(&["merge-base", "--is-ancestor", "--end-of-options", inner, outer]).is_ok()
}

/// What a merge of two commits comes to, made without any checkout.
pub(crate) enum Merge {
    Clean {
        tree: String,
    },
    /// The tree has the places that conflict marked, in these files.
    Conflicts {
        tree: String,
        paths: Vec<PathBuf>,
    },
}

pub(crate) fn merge_trees(
    checkout: &Checkout,
    options: &[&str],
    ours: &str,
    theirs: &str,
) -> Result<Merge, Error> {
    let fixed = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
    let printed = checkout.git().print(&[&fixed[..], options, &[ours, theirs]].concat())?;
    let mut words = split(&printed.bytes);
    let tree = words.next().map(|tree| String::from_utf8_lossy(tree).trim().to_owned());
    match (printed.status.code(), tree) {
        (Some(0), Some(tree)) => Ok(Merge::Clean { tree }),
        (Some(1), Some(tree)) => Ok(Merge::Conflicts { tree, paths: words.map(path_of).collect() }),
        (_, _) => Err(printed.failed("merge-tree".to_owned()).into()),
    }
}
