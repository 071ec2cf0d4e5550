//! Merges worked out among git's objects, without any checkout.

use std::path::PathBuf;

use super::Error;
use crate::checkout::{Checkout, path_of};

/// Is the second commit part of the history of the first?
pub(crate) fn contains(checkout: &Checkout, outer: &str, inner: &str) -> bool {
    checkout.git().bytes(&["merge-base", "--is-ancestor", "--end-of-options", inner, outer]).is_ok()
}

/// What a merge of two commits comes to, made without any checkout.
pub(crate) enum Merge {
    Clean {
        tree: String,
    },
    /// The tree has the places that conflict marked, in those of these files that are text.
    Conflicts {
        tree: String,
        paths: Vec<PathBuf>,
        /// The paths of each conflict, as git counts them.
        single: Vec<Vec<PathBuf>>,
    },
}

pub(crate) fn merge_trees(
    checkout: &Checkout,
    options: &[&str],
    ours: &str,
    theirs: &str,
) -> Result<Merge, Error> {
    let fixed = ["merge-tree", "--write-tree", "-z", "--name-only"];
    let printed = checkout.git().print(&[&fixed[..], options, &[ours, theirs]].concat())?;
    let mut words = printed.bytes.split(|byte| *byte == 0);
    let tree = words.next().map(|tree| String::from_utf8_lossy(tree).trim().to_owned());
    match (printed.status.code(), tree) {
        (Some(0), Some(tree)) => Ok(Merge::Clean { tree }),
        (Some(1), Some(tree)) => {
            // An empty word comes before what git says of them.
            let paths = words.by_ref().take_while(|word| !word.is_empty()).map(path_of).collect();
            Ok(Merge::Conflicts { tree, paths, single: singly(words) })
        }
        (_, _) if is_unrelated(checkout, ours, theirs) => Err(Error::Unrelated),
        (_, _) => Err(printed.failed("merge-tree".to_owned()).into()),
    }
}

/// Git ends with this code where there is no commit in common, and with another where it could not look.
fn is_unrelated(checkout: &Checkout, ours: &str, theirs: &str) -> bool {
    let asked = ["merge-base", "--end-of-options", ours, theirs];
    checkout.git().print(&asked).is_ok_and(|printed| printed.status.code() == Some(1))
}

/// The conflicts among what git says of a merge: how many paths, those, of which kind it is, and a sentence.
fn singly<'w>(mut words: impl Iterator<Item = &'w [u8]>) -> Vec<Vec<PathBuf>> {
    let mut conflicts = Vec::new();
    while let Some(count) = words.next().and_then(|count| std::str::from_utf8(count).ok()?.parse().ok()) {
        let paths: Vec<PathBuf> = words.by_ref().take(count).map(path_of).collect();
        let kind = words.next().unwrap_or_default();
        words.next();
        if kind.starts_with(b"CONFLICT") {
            conflicts.push(paths);
        }
    }
    conflicts
}
