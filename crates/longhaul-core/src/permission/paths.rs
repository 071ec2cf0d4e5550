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
    if !path.starts_with('/') {
        return false;
    }
    // What `..` leads to behind a link is not known, so it is left as it is, and fits none of these.
    let parts: Vec<&str> = path.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    match parts.as_slice() {
        ["dev", "null" | "stdin" | "stdout" | "stderr" | "zero" | "urandom" | "random"] => true,
        ["dev", "fd", number] => number.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

/// Whether a path goes by where the system keeps devices and what processes have open, however it is written.
pub(super) fn is_device(path: &str) -> bool {
    let is_absolute = path.starts_with('/');
    let is_process =
        |name: &str| matches!(name, "self" | "thread-self") || name.bytes().all(|byte| byte.is_ascii_digit());
    let (mut parts, mut is_above) = (Vec::new(), false);
    // Looked at after every part: behind a link such as `/dev/fd`, `..` leads elsewhere than the text says.
    path.split('/').any(|part| {
        match part {
            "" | "." => {}
            ".." => is_above |= parts.pop().is_none(),
            part => parts.push(part),
        }
        match parts.as_slice() {
            ["dev" | "proc", _, ..] if is_absolute => true,
            // How far up the root is from where it runs is not known, but no project has these.
            ["dev", "stdin"] | ["dev", "fd", ..] => is_above,
            ["proc", process, _, ..] => is_above && is_process(process),
            _ => false,
        }
    })
}

/// The path without detours by `//`, `.` and `..`, as far as its text tells.
pub(super) fn straight(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
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
    // A pattern such as `.*` also matches `..` in older shells; one such as `.e*` does not.
    let may_be_dots =
        |rest: &str| !rest.starts_with(|letter: char| letter.is_alphanumeric() || letter == '_');
    let climbing_pattern =
        |part: &str| part.contains(['*', '?', '[']) && part.strip_prefix('.').is_some_and(may_be_dots);
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
