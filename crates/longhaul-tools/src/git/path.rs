//! Paths that a model names to git, and those whose content the rules keep from it.

use std::path::{Component, Path};

use longhaul_core::permission::{Action, judge_path};
use longhaul_core::tool::{Failure, Outcome};

use crate::tool::Context;

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

/// May the content of this file be shown? What `read` would refuse is not shown by way of git either.
pub(super) fn is_readable(context: &Context, path: &str) -> bool {
    judge_path(&context.rules, "", "read", path).action == Action::Allow
}

/// The same for a file that was asked for by name.
pub(super) fn readable<'p>(context: &Context, path: &'p str) -> Result<&'p str, Outcome> {
    let path = checked(path)?;
    if is_readable(context, path) {
        return Ok(path);
    }
    Err(Outcome::failed(Failure::NotPermitted, format!("the rules for `read` do not permit `{path}`")))
}
