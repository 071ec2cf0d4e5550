//! Files written and removed, and entries of an index, as a tree has them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{Error, Site};
use crate::checkout::{self, Index, Node, io_error};
use crate::stage::Stage;
use crate::staged;

/// A repository inside another, as a tree has it.
pub(super) const GITLINK: &str = "160000";

/// What `read-tree` takes for an index without entries.
const NO_TREE: &str = "--empty";

impl Site {
    /// Writes files as they are to be, and removes those that are to be gone.
    pub(super) fn write<'c>(
        &self,
        wanted: impl Iterator<Item = (&'c PathBuf, &'c Option<Node>)> + Clone,
    ) -> Result<(), Error> {
        // A repository inside this one is not ours to check out.
        let is_file = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.mode != GITLINK);
        let kept: Vec<_> = wanted.clone().filter(|(_, node)| is_file(node)).collect();
        let index = self.checkout.index_of(NO_TREE)?;
        self.enter(&index, kept.iter().copied())?;
        let stage = Stage::of(&self.checkout, &index)?;
        for (path, _) in wanted.filter(|(_, node)| node.is_none()) {
            remove_file(self.checkout.top(), path)?;
        }
        for (path, _) in kept {
            stage.put(self.checkout.top(), path)?;
        }
        Ok(())
    }

    /// Puts entries into an index of ours.
    pub(super) fn enter<'c>(
        &self,
        index: &Index,
        entries: impl Iterator<Item = (&'c PathBuf, &'c Option<Node>)>,
    ) -> Result<(), Error> {
        let digits = self.checkout.head()?.len();
        Ok(staged::enter(&self.checkout, index, digits, entries)?)
    }

    /// A tree with some entries of its own.
    pub(super) fn tree_with<'c>(
        &self,
        tree: &str,
        entries: impl Iterator<Item = (&'c PathBuf, &'c Option<Node>)>,
    ) -> Result<String, Error> {
        let index = self.checkout.index_of(tree)?;
        self.enter(&index, entries)?;
        Ok(self.checkout.git().with("GIT_INDEX_FILE", &index.0).run(&["write-tree"])?)
    }
}

/// Removes a file, and the directories that it leaves empty.
fn remove_file(top: &Path, path: &Path) -> Result<(), checkout::Error> {
    let file = top.join(path);
    match fs::remove_file(&file) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
        Err(source) => return Err(io_error("remove", &file)(source)),
    }
    let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    // The first one that is not empty ends it.
    parents.into_iter().try_for_each(|parent| fs::remove_dir(top.join(parent))).ok();
    Ok(())
}
