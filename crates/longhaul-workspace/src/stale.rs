//! Locks that a killed git has left in a repository of our own.
//!
//! Owns finding them: git makes `NAME.lock` beside whatever it changes, and removes it only if it lives. Refuses to look whether
//! somebody holds one: it is for repositories that nobody but we may touch, and for those who hold our own lock of such a one,
//! which every git that we start there holds too.

use std::fs;
use std::path::Path;

/// Removes all of them. What cannot be removed is said by the git that needs it.
pub(crate) fn clear_locks(repository: &Path) {
    for entry in fs::read_dir(repository).into_iter().flatten().flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        // No object has a lock, and there may be many.
        let holds_objects = repository.ends_with("objects") && name != "info" && name != "pack";
        if is_directory && !holds_objects {
            clear_locks(&path);
        } else if !is_directory && path.extension().is_some_and(|end| end == "lock") {
            fs::remove_file(&path).ok();
        }
    }
}
