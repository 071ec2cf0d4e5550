//! Which files a walk passes over, as `.gitignore` and its like say.
//!
//! Owns reading those files, through the workspace like any other. The order is ripgrep's: `.rgignore` and `.ignore`
//! before `.gitignore`, the deepest directory first, `.git/info/exclude` last. A repository inside another does not hear
//! the outer one's `.gitignore`. Refuses what lies outside the workspace: the user's own ignore file, and those of
//! directories above. `.gitignore` counts without a repository as well: a workspace need not be one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use longhaul_workspace::{Directory, Entry, EntryKind, Workspace};

use crate::limits;

/// The rules of a directory and all above it. Directories without any share those of their parent.
pub(crate) struct Rules {
    parent: Option<Arc<Rules>>,
    /// From `.rgignore`, `.ignore` and `.gitignore`, in the order of their weight.
    kinds: [Option<Gitignore>; 3],
    exclude: Option<Gitignore>,
    is_repository: bool,
}

const NAMES: [&str; 3] = [".rgignore", ".ignore", ".gitignore"];

/// Which of [`NAMES`] is git's own.
const GIT: usize = 2;

impl Rules {
    /// Before any directory: nothing is passed over.
    pub(crate) fn none() -> Arc<Rules> {
        Arc::new(Rules { parent: None, kinds: [None, None, None], exclude: None, is_repository: false })
    }

    /// Those that hold in the directory `path` before its own are read: of the root and what is between.
    pub(crate) fn above(workspace: &Workspace, path: &Path) -> io::Result<Arc<Rules>> {
        let mut rules = Rules::none();
        let above: Vec<&Path> = path.ancestors().skip(1).collect();
        for directory in above.into_iter().rev() {
            let directory = workspace.enter(directory)?;
            rules = rules.within(&directory, &directory.entries()?)?;
        }
        Ok(rules)
    }

    /// Those that hold in `directory`, of which `entries` are known. An ignore file that cannot be read is an error: to
    /// act as if it were not there would show what it hides.
    pub(crate) fn within(
        self: &Arc<Rules>,
        directory: &Directory,
        entries: &[Entry],
    ) -> io::Result<Arc<Rules>> {
        let has = |name: &str, kind| entries.iter().any(|entry| entry.kind == kind && entry.name == name);
        let mut kinds = [None, None, None];
        for (kind, name) in kinds.iter_mut().zip(NAMES) {
            if has(name, EntryKind::File) {
                *kind = Some(matcher(directory.path(), directory.open_file(OsStr::new(name))?)?);
            }
        }
        let is_repository = has(".git", EntryKind::Directory) || has(".git", EntryKind::File);
        if !is_repository && kinds.iter().all(Option::is_none) {
            return Ok(Arc::clone(self));
        }
        let exclude = if is_repository { exclude(directory) } else { None };
        Ok(Arc::new(Rules { parent: Some(Arc::clone(self)), kinds, exclude, is_repository }))
    }

    /// Whether the entry of this path, below the workspace's root, is passed over.
    pub(crate) fn pass_over(&self, path: &Path, is_directory: bool) -> bool {
        let verdict = |matcher: &Option<Gitignore>| match matcher.as_ref()?.matched(path, is_directory) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        };
        for kind in 0..NAMES.len() {
            if let Some(decided) = self.heard(kind == GIT).find_map(|rules| verdict(&rules.kinds[kind])) {
                return decided;
            }
        }
        self.heard(true).find_map(|rules| verdict(&rules.exclude)).unwrap_or(false)
    }

    /// These rules and those above, the nearest first; of git's only those of the same repository.
    fn heard(&self, git_only: bool) -> impl Iterator<Item = &Rules> {
        let mut next = Some(self);
        std::iter::from_fn(move || {
            let rules = next?;
            let stop = git_only && rules.is_repository;
            next = if stop { None } else { rules.parent.as_deref() };
            Some(rules)
        })
    }
}

fn matcher(directory: &Path, file: File) -> io::Result<Gitignore> {
    let mut bytes = Vec::new();
    file.take(limits::IGNORE_FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limits::IGNORE_FILE_BYTES_MAX {
        return Err(io::Error::other("an ignore file of more than a megabyte"));
    }
    let text = String::from_utf8_lossy(&bytes);
    let mut builder = GitignoreBuilder::new(directory);
    for line in text.trim_start_matches('\u{FEFF}').lines() {
        // Git passes over lines it does not understand, and so do we.
        builder.add_line(None, line).ok();
    }
    builder.build().map_err(io::Error::other)
}

/// Absent in a worktree, whose `.git` is a file that leads elsewhere.
fn exclude(directory: &Directory) -> Option<Gitignore> {
    let info = directory.enter(Path::new(".git/info")).ok()?;
    matcher(directory.path(), info.open_file(OsStr::new("exclude")).ok()?).ok()
}
