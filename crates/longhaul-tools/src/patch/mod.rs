//! What a patch says, in either of its two spellings.
//!
//! Owns the one form both are read into: for each file what becomes of it, and for each hunk its lines. `marked` reads the
//! `*** Begin Patch` form, `unified` that of diff and git, `place` finds where a hunk belongs. Refuses a patch that
//! touches a file twice in ways that depend on each other: after a crash, each file must be judged by itself.

mod marked;
mod place;
mod unified;

pub(crate) use place::applied;

use crate::limits;

/// What becomes of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileChange {
    pub(crate) path: String,
    pub(crate) action: Action,
    /// Whether the file may be run afterwards; `None` leaves that as it is.
    pub(crate) executable: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Add { text: String },
    Delete,
    Update { hunks: Vec<Hunk>, move_to: Option<String> },
}

/// Lines that stand together in a file, and what is to stand there instead.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk {
    /// Lines to be passed first, each after the one before: a function's head, a class's.
    pub(crate) anchors: Vec<String>,
    /// Where its first line was, counted from 1, if the patch says so.
    pub(crate) line: Option<usize>,
    pub(crate) lines: Vec<Line>,
    /// Its last line is the file's last.
    pub(crate) at_end: bool,
    /// Looked for from the start of the file, not after the hunk before.
    pub(crate) from_top: bool,
    /// Whether the file's new last line has a line break; `None` leaves that as it is.
    pub(crate) final_break: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Keep(String),
    Remove(String),
    Insert(String),
}

/// The error is for the model to read.
pub(crate) fn parse(text: &str) -> Result<Vec<FileChange>, String> {
    let text = text.trim_start_matches(['\n', '\r', ' ', '\t']);
    let lines: Vec<&str> = text.lines().collect();
    let changes =
        if text.starts_with(marked::BEGIN) { marked::parse(&lines) } else { unified::parse(&lines) }?;
    if changes.is_empty() {
        return Err("the patch changes nothing; give `*** Begin Patch` … `*** End Patch` or a unified diff"
            .to_owned());
    }
    if changes.len() > limits::PATCH_FILES_MAX {
        return Err(format!("the patch has {} files; at most {}", changes.len(), limits::PATCH_FILES_MAX));
    }
    let changes = joined(changes);
    refuse_entangled(&changes)?;
    Ok(changes)
}

impl FileChange {
    /// The paths it touches: that of the file, and that which it is moved to.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        let moved = match &self.action {
            Action::Update { move_to, .. } => move_to.as_deref(),
            Action::Add { .. } | Action::Delete => None,
        };
        std::iter::once(self.path.as_str()).chain(moved)
    }
}

/// Two sections about one file, neither of which moves it, are one.
fn joined(changes: Vec<FileChange>) -> Vec<FileChange> {
    let mut joined: Vec<FileChange> = Vec::new();
    for change in changes {
        let earlier = joined.iter_mut().find(|earlier| earlier.path == change.path);
        match (earlier.map(|earlier| &mut earlier.action), change) {
            (
                Some(Action::Update { hunks: earlier, move_to: None }),
                FileChange { action: Action::Update { mut hunks, move_to: None }, executable: None, .. },
            ) => {
                if let Some(first) = hunks.first_mut() {
                    first.from_top = true;
                }
                earlier.append(&mut hunks);
            }
            (_, change) => joined.push(change),
        }
    }
    joined
}

fn refuse_entangled(changes: &[FileChange]) -> Result<(), String> {
    let mut seen = std::collections::BTreeSet::new();
    for path in changes.iter().flat_map(FileChange::paths) {
        if !seen.insert(path.trim_start_matches("./")) {
            return Err(format!("`{path}` is touched twice; make it one section, or two patches"));
        }
    }
    Ok(())
}

/// Empty lines at the end of a hunk separate it from what follows; those that are meant begin with a space.
fn without_trailing_blanks(lines: &mut Vec<Line>, bare_blanks: usize) {
    lines.truncate(lines.len() - bare_blanks.min(lines.len()));
}
