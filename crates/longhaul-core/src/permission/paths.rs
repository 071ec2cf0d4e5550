//! Paths as text: whether one leads out of the workspace.

use std::collections::BTreeSet;

use super::call::Cwd;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Relative to the workspace.
    Inside(String),
    Outside(String),
}

/// Files outside that are nobody's.
pub(super) fn is_harmless_device(path: &str) -> bool {
    let fixed =
        ["/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/urandom", "/dev/random"];
    let descriptor = path.strip_prefix("/dev/fd/");
    fixed.contains(&path)
        || descriptor
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Where the path leads from each directory the command may run in; `None` if that is not known.
pub(super) fn places(workspace: &str, cwd: &Cwd, path: &str) -> Option<Vec<Place>> {
    if path.starts_with(['/', '~']) {
        return Some(vec![place(workspace, "", path)]);
    }
    let Cwd::Known(cwds) = cwd else { return None };
    Some(cwds.iter().map(|cwd| place(workspace, cwd, path)).collect())
}

/// Where the path leads, taken from a directory inside the workspace.
pub(super) fn place(workspace: &str, cwd: &str, path: &str) -> Place {
    if path.starts_with('~') {
        return Place::Outside(path.to_owned());
    }
    // A pattern such as `.*` also matches `..` in older shells.
    let climbing_pattern = |part: &str| part.starts_with('.') && part.contains(['*', '?', '[']);
    if path.split('/').any(climbing_pattern) {
        return Place::Outside(path.to_owned());
    }
    if path.starts_with('/') {
        let (Some(root), Some(path_parts)) = (normal(workspace), normal(path)) else {
            return Place::Outside(path.to_owned());
        };
        return match path_parts.strip_prefix(root.as_slice()) {
            Some(rest) if !root.is_empty() => Place::Inside(rest.join("/")),
            Some(_) | None => Place::Outside(format!("/{}", path_parts.join("/"))),
        };
    }
    match normal(&format!("{cwd}/{path}")) {
        Some(parts) => Place::Inside(parts.join("/")),
        None => Place::Outside(path.to_owned()),
    }
}

/// The parts of a path without `.` and `..`; `None` if it climbs above its start.
fn normal(path: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts)
}

/// The directories after `cd path`; unknown if one of them is outside.
pub(super) fn changed(workspace: &str, cwd: &Cwd, path: &str) -> Cwd {
    let Some(places) = places(workspace, cwd, path) else { return Cwd::Unknown };
    let inside = places.into_iter().map(|place| match place {
        Place::Inside(path) => Some(path),
        Place::Outside(_) => None,
    });
    inside.collect::<Option<BTreeSet<String>>>().map_or(Cwd::Unknown, Cwd::Known)
}
