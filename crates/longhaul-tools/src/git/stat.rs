//! How much each file changed.

use serde::Serialize;

use longhaul_core::tool::{Failure, Outcome};

use super::path;
use super::repository::Repository;
use crate::capture::Capture;
use crate::limits;

/// What `git diff` and `git diff-tree` must never do, and how they write.
pub(super) const SAFE_DIFF: [&str; 6] = [
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--submodule=short",
    "--ignore-submodules=dirty",
    "--relative",
];

#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Stat {
    added: u64,
    removed: u64,
    files: Vec<FileStat>,
    /// Files that changed beside those named.
    #[serde(skip_serializing_if = "is_zero")]
    more: usize,
    /// Files that changed and are not for this agent to read.
    #[serde(skip_serializing_if = "is_zero")]
    hidden: usize,
    #[serde(skip)]
    readable: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct FileStat {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// Not there for what is not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    added: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    removed: Option<u64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Counts and changes of a diff: `command` and what is compared, at or below `path`.
pub(super) async fn with_patch(
    repository: &Repository<'_>,
    command: &[&str],
    compared: &[&str],
    path: &str,
) -> Result<(Stat, Capture), Outcome> {
    let stat = of(repository, command, compared, path).await?;
    let shown: Vec<&str> = match stat.hidden {
        0 => vec![path],
        _ if stat.readable.len() > limits::GIT_PATHS_MAX => {
            let message = "some of the many files that changed are not permitted to be read; name a path";
            return Err(Outcome::failed(Failure::NotPermitted, message));
        }
        _ => stat.readable.iter().map(String::as_str).collect(),
    };
    if shown.is_empty() {
        return Ok((stat, Capture::default()));
    }
    let patch = repository.show(&[command, &SAFE_DIFF, &["-p"], compared, &["--"], &shown].concat()).await?;
    Ok((stat, patch))
}

/// The counts alone.
pub(super) async fn of(
    repository: &Repository<'_>,
    command: &[&str],
    compared: &[&str],
    path: &str,
) -> Result<Stat, Outcome> {
    let arguments = [command, &SAFE_DIFF, &["--numstat", "-z"], compared, &["--", path]].concat();
    Ok(parsed(&repository.ask(&arguments).await?, |path| path::is_readable(repository.context(), path)))
}

/// What `--numstat -z` prints: `added TAB removed TAB path NUL`, or for a rename no path and then both.
fn parsed(printed: &str, is_readable: impl Fn(&str) -> bool) -> Stat {
    let mut stat = Stat::default();
    let mut words = printed.split_terminator('\0');
    while let Some(word) = words.next() {
        let mut fields = word.splitn(3, '\t');
        let (added, removed) =
            (fields.next().and_then(|n| n.parse().ok()), fields.next().and_then(|n| n.parse().ok()));
        let (path, from) = match fields.next() {
            Some("") => {
                let from = words.next().map(str::to_owned);
                (words.next().unwrap_or_default(), from)
            }
            Some(path) => (path, None),
            None => continue,
        };
        if !is_readable(path) || from.as_deref().is_some_and(|from| !is_readable(from)) {
            stat.hidden += 1;
            continue;
        }
        stat.readable.push(path.to_owned());
        stat.added += added.unwrap_or(0);
        stat.removed += removed.unwrap_or(0);
        if stat.files.len() < limits::GIT_ENTRIES_MAX {
            stat.files.push(FileStat { path: path.to_owned(), from, added, removed });
        } else {
            stat.more += 1;
        }
    }
    stat
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D6.7: counts are read for text, for what is no text, and for renames.
    #[test]
    fn counts_of_every_kind_of_change() {
        let printed = "3\t1\tsrc/a b.rs\0-\t-\tpicture.png\x000\t2\t\0old\tname\0new\x001\t1\tx.env\0";
        let stat = parsed(printed, |path| path != "x.env");
        assert_eq!(stat.hidden, 1);
        assert_eq!((stat.added, stat.removed, stat.more), (3, 3, 0));
        let file = |path: &str, from: Option<&str>, counts: Option<(u64, u64)>| FileStat {
            path: path.to_owned(),
            from: from.map(str::to_owned),
            added: counts.map(|(added, _)| added),
            removed: counts.map(|(_, removed)| removed),
        };
        let expected = vec![
            file("src/a b.rs", None, Some((3, 1))),
            file("picture.png", None, None),
            file("new", Some("old\tname"), Some((0, 2))),
        ];
        assert_eq!(stat.files, expected);
    }
}
