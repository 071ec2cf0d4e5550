//! Whether somebody has put the user's checkout into a merge.
//!
//! A command in a linked worktree needs the repository's `.git`, and could leave `MERGE_HEAD` there: the user's next commit would
//! then be a merge with what the agent chose. Owns telling it from a merge of the user's own, which has written the index by then;
//! no command can. Refuses to judge where the index was written meanwhile.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How a checkout was before a command.
#[derive(Debug)]
pub(super) struct Before {
    sign: PathBuf,
    index: Written,
}

/// Git replaces its index as a whole.
type Written = Option<(u64, u64, i64, i64)>;

impl Before {
    /// That of the checkout whose `.git` this is; nothing if it is in a merge.
    pub(super) fn of(directory: &Path) -> Option<Before> {
        let sign = directory.join("MERGE_HEAD");
        let is_merging = fs::symlink_metadata(&sign).is_ok();
        (!is_merging).then(|| Before { index: written(directory), sign })
    }

    /// The sign of a merge that the user did not begin.
    pub(super) fn forged(&self) -> Option<&Path> {
        let directory = self.sign.parent()?;
        let is_there = fs::symlink_metadata(&self.sign).is_ok();
        (is_there && written(directory) == self.index).then_some(&self.sign)
    }
}

fn written(directory: &Path) -> Written {
    let found = fs::symlink_metadata(directory.join("index")).ok()?;
    Some((found.dev(), found.ino(), found.mtime(), found.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A48: a merge that appears without the index having been written is none of the user's.
    #[test]
    fn a_merge_of_the_users_own_is_told_from_a_forged_one() {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path();
        fs::write(directory.join("index"), "one").unwrap();
        let before = Before::of(directory).unwrap();
        assert_eq!(before.forged(), None);
        fs::write(directory.join("MERGE_HEAD"), "").unwrap();
        assert_eq!(before.forged(), Some(directory.join("MERGE_HEAD").as_path()));
        fs::write(directory.join("index.lock"), "two").unwrap();
        fs::rename(directory.join("index.lock"), directory.join("index")).unwrap();
        assert_eq!(before.forged(), None);
        assert!(Before::of(directory).is_none(), "it was begun before the command");
    }
}
