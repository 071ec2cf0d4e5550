//! Where other projects below a workspace keep their state.
//!
//! Whoever can write to a state directory answers for a person there. Owns finding those that a run in place would reach, within
//! a bound, because it is looked for before the first command. Refuses to follow links.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use longhaul_workspace::is_state_directory;

use crate::limits;

/// Directories that hold what was built or downloaded, and a great many others.
const NOT_LOOKED_INTO: &[&str] = &[".git", "node_modules", "target"];

/// The state directories at and below `workspace`, those nearest to it first.
pub(super) fn below(workspace: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([workspace.to_owned()]);
    let mut seen = 1;
    while let Some(directory) = waiting.pop_front() {
        let inside = fs::read_dir(&directory).into_iter().flatten().flatten();
        for entry in inside.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let (name, path) = (entry.file_name(), entry.path());
            if is_state_directory(&path) {
                found.push(path);
            } else if seen < limits::STATES_DIRECTORIES_MAX && !NOT_LOOKED_INTO.iter().any(|not| name == *not)
            {
                seen += 1;
                waiting.push_back(path);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A12, A60: projects in a directory of projects are found; what only has the name is not.
    #[test]
    fn states_below_a_workspace_are_found() {
        let outer = tempfile::tempdir().unwrap();
        let base = outer.path();
        for path in ["a/b/state", ".longhaul", "c/many/0/x/.longhaul", "target/x/.longhaul"] {
            fs::create_dir_all(base.join(path).join("runs")).unwrap();
            fs::write(base.join(path).join("owner"), "").unwrap();
        }
        fs::create_dir_all(base.join("c/.longhaul/runs")).unwrap();
        std::os::unix::fs::symlink("a", base.join("link")).unwrap();
        let found = [".longhaul", "a/b/state", "c/many/0/x/.longhaul"].map(|path| base.join(path));
        assert_eq!(below(base), found);
        for n in 1..=limits::STATES_DIRECTORIES_MAX {
            fs::create_dir(base.join(format!("c/many/{n}"))).unwrap();
        }
        assert_eq!(below(base), found[..2], "too far away to be looked for");
    }
}
