//! Undoing a rewind.
//!
//! Owns what is kept of the last rewind of a run: the files from before it, the journal from before it, and the sub-agents that
//! only that journal knows. Undoing swaps all of it with what stands there now, so it can be undone as well, and nothing that the
//! run did since is lost. Only the last one is kept; the journals of those before stay where they were put.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use longhaul_core::ids::RunId;
use longhaul_store::Home;
use longhaul_workspace::checkout::Change;
use serde::{Deserialize, Serialize};

use crate::checkpoints::Seen;
use crate::error::Error;
use crate::harness::Harness;
use crate::rewind::{Done, Note, Way, read_beside, write_beside};

/// What undoing a rewind did.
#[derive(Clone, Debug)]
pub struct Undone {
    /// The files that were written or removed.
    pub changes: Vec<Change>,
    /// The files as they were until now, which are kept.
    pub before: String,
    pub left_out: Vec<PathBuf>,
    /// The calls since the rewind of which nobody knows what they did outside the workspace.
    pub outside: Vec<String>,
    /// Why what is staged in the workspace was left as it is, if it was.
    pub staged_left: Option<String>,
}

/// The state that a rewind left behind.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    tree: String,
    /// The journal, by its name beside the run's; none if it was not cut.
    journal: Option<String>,
    /// Up to here both journals are the same.
    end: u64,
    /// What that journal leads back to.
    trees: BTreeSet<String>,
    /// The files that it wrote. Older versions did not say.
    #[serde(default)]
    written: Option<String>,
}

impl Harness {
    /// Brings a run that nobody drives to what it was before it was last rewound, with its files.
    pub fn undo_rewind(&self, id: &RunId) -> Result<Undone, Error> {
        self.settle_rewind(id)?;
        let home = self.home_to_cut(id)?;
        let cutting = home.engine().cutting(id, &self.writer())?;
        let kept: Option<Kept> = read_beside(&path(home, id))?;
        let kept = kept.ok_or_else(|| Error::NotRewound { run: id.clone() })?;
        let may = |spec: &_| self.refuse_shared(home, spec);
        let seen = Seen::of(&cutting, may, |all| all.after(id, kept.end))?;
        let called = "before its rewind".to_owned();
        let way = Way { after: kept.tree, journal: kept.journal, written: kept.written, called };
        let Done { changes, before, left_out, kept_as: _, staged_left } =
            self.go(home, &cutting, id, &seen, way)?;
        Ok(Undone { changes, before, left_out, outside: seen.outside, staged_left })
    }
}

/// Keeps what a rewind, or the undoing of one, has left behind.
pub(crate) fn keep(
    home: &Home,
    id: &RunId,
    before: &str,
    note: &Note,
    journal: Option<&Path>,
) -> Result<(), Error> {
    let name = journal.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let (tree, trees) = (before.to_owned(), note.trees.clone());
    let kept = Kept { tree, journal: name, end: note.end, trees, written: Some(note.after.clone()) };
    write_beside(home, id, &path(home, id), &kept)
}

/// There is no rewind to undo any more.
pub(crate) fn forget(home: &Home, id: &RunId) -> Result<(), Error> {
    let path = path(home, id);
    match fs::remove_file(&path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(Error::Note { path, source }),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// The trees that undoing needs, and what it brings back.
pub(crate) fn trees(home: &Home, id: &RunId) -> Result<Vec<String>, Error> {
    let kept: Option<Kept> = read_beside(&path(home, id))?;
    Ok(kept.map_or_else(Vec::new, |kept| {
        kept.trees.into_iter().chain([kept.tree]).chain(kept.written).collect()
    }))
}

/// Puts sub-agents where they were, of whom only the journal knows that is back.
pub(crate) fn bring_children_back(home: &Home, from: &Path) -> Result<(), Error> {
    let failed = |source| Error::PutAway { path: from.to_owned(), source };
    let entries = match fs::read_dir(from) {
        Err(source) if source.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // Its own name, and a number behind it.
        let child = name.rsplit_once('-').and_then(|(child, _)| RunId::parse(child).ok());
        if let Some(child) = child {
            fs::rename(entry.path(), home.run_dir(&child)).map_err(failed)?;
        }
    }
    Ok(())
}

fn path(home: &Home, id: &RunId) -> PathBuf {
    home.run_dir(id).join("rewound.json")
}
