//! Where a path really leads, asked before a file tool goes there.
//!
//! Owns that no link gets around a rule: the rules have spoken of the path as it was typed, and here they speak of the file that
//! it means. Refuses instead of asking: a person is asked about the file itself, when it is called by its name.

use std::path::{Component, Path, PathBuf};

use longhaul_core::permission::{Action, judge_path};
use longhaul_core::tool::{Failure, Outcome};

use crate::tool::{Context, refused};

/// May `tool` be used on the file that this path means? Answers which that is, below the workspace.
pub(crate) fn permitted(context: &Context, tool: &str, path: &str) -> Result<PathBuf, Outcome> {
    let real = context.workspace.real(path).map_err(|error| refused(&error))?;
    if plain(context.workspace.root(), path) == real {
        return Ok(real);
    }
    let shown = real.display();
    let verdict = judge_path(&context.rules, "", tool, &real.to_string_lossy());
    match verdict.action {
        Action::Allow => Ok(real),
        Action::Ask => {
            let message = format!(
                "`{path}` is a link to `{shown}`, which needs a person's leave: {verdict}; name `{shown}` itself"
            );
            Err(Outcome::failed(Failure::NotPermitted, message))
        }
        Action::Deny => {
            let message = format!("not permitted: `{path}` is a link to `{shown}`, and {verdict}");
            Err(Outcome::failed(Failure::NotPermitted, message))
        }
    }
}

/// A path as it was typed, below the workspace, without what means nothing.
pub(crate) fn plain(root: &Path, path: &str) -> PathBuf {
    let path = Path::new(path);
    let below = path.strip_prefix(root).unwrap_or(path);
    below.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}
