//! Paths that a model names to git.

use std::path::{Component, Path};

use longhaul_core::tool::{Failure, Outcome};

/// The path as git may have it after `--`: below the workspace, taken word for word.
pub(super) fn checked(path: &str) -> Result<&str, Outcome> {
    if path.is_empty() || path.contains('\0') {
        return Err(Outcome::failed(Failure::InvalidArguments, "a path must not be empty or contain NUL"));
    }
    let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(path).components().all(inside) {
        let message = format!(
            "`{path}` is not a path below the workspace; give one without `..` and without a slash at its start"
        );
        return Err(Outcome::failed(Failure::NotPermitted, message));
    }
    Ok(path)
}

/// The same for a path that may be left out, which means the whole workspace.
pub(super) fn or_all(path: Option<&str>) -> Result<&str, Outcome> {
    path.map_or(Ok("."), checked)
}
