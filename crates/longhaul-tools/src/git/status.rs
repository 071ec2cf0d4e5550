//! `git_status`: what changed in the workspace, as data.

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::repository::Repository;
use super::{line, path};
use crate::arguments::{parse, schema};
use crate::limits;
use crate::output;
use crate::sandbox::Sandbox;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Only what is at or below this path, relative to the workspace.
    path: Option<String>,
}

pub struct GitStatus {
    spec: ToolSpec,
    sandbox: Sandbox,
}

impl GitStatus {
    pub fn new(sandbox: Sandbox) -> GitStatus {
        let spec = ToolSpec {
            name: "git_status".to_owned(),
            description: "Shows the branch and what changed, as JSON: staged, unstaged, untracked and conflicted files."
                .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        };
        GitStatus { spec, sandbox }
    }

    async fn show(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        let path = path::or_all(args.path.as_deref())?;
        let repository = Repository::open(context, &self.sandbox).await?;
        let asked = [
            "status",
            "--porcelain=v2",
            "--branch",
            "-z",
            "--untracked-files=normal",
            "--ignore-submodules=dirty",
        ];
        let printed = repository.ask(&[&asked[..], &["--", path]].concat()).await?;
        let status = Status::parsed(&printed, |path| repository.beneath(path).to_owned());
        Ok(Outcome::Done { output: output::bounded_text(context, &line(&status), "").await })
    }
}

impl Tool for GitStatus {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, context: &'a Context, args: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.show(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}

/// What git says in its format for programs, version 2.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Status {
    /// Not there when a commit is checked out instead of a branch.
    branch: Option<String>,
    /// Not there before the first commit.
    head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<u64>,
    clean: bool,
    staged: Vec<Changed>,
    unstaged: Vec<Changed>,
    untracked: Vec<String>,
    conflicted: Vec<String>,
    /// Entries beside those named.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<usize>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Changed {
    path: String,
    change: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
}

impl Status {
    fn parsed(printed: &str, beneath: impl Fn(&str) -> String) -> Status {
        let mut status = Status { clean: true, ..Status::default() };
        let mut words = printed.split_terminator('\0');
        let mut entries = 0;
        while let Some(word) = words.next() {
            if let Some(header) = word.strip_prefix("# ") {
                status.header(header);
                continue;
            }
            // Only a rename is followed by a second word, which must be taken in any case.
            let from = word.starts_with("2 ").then(|| words.next()).flatten().map(&beneath);
            status.clean = false;
            entries += 1;
            if entries <= limits::GIT_ENTRIES_MAX {
                status.entry(word, from, &beneath);
            }
        }
        status.more = entries.checked_sub(limits::GIT_ENTRIES_MAX).filter(|more| *more > 0);
        status
    }

    fn header(&mut self, header: &str) {
        match header.split_once(' ') {
            Some(("branch.oid", id)) => self.head = (id != "(initial)").then(|| id.to_owned()),
            Some(("branch.head", name)) => self.branch = (name != "(detached)").then(|| name.to_owned()),
            Some(("branch.upstream", name)) => self.upstream = Some(name.to_owned()),
            Some(("branch.ab", counts)) => {
                let mut counts =
                    counts.split(' ').map(|count| count.trim_start_matches(['+', '-']).parse().ok());
                self.ahead = counts.next().flatten();
                self.behind = counts.next().flatten();
            }
            Some(_) | None => {}
        }
    }

    fn entry(&mut self, word: &str, from: Option<String>, beneath: impl Fn(&str) -> String) {
        // How many fields stand before the path, by kind.
        let (kind, fields) = match word.as_bytes().first() {
            Some(b'1') => ('1', 9),
            Some(b'2') => ('2', 10),
            Some(b'u') => ('u', 11),
            Some(b'?') => ('?', 2),
            Some(_) | None => return,
        };
        let parts: Vec<&str> = word.splitn(fields, ' ').collect();
        let Some(path) = parts.get(fields - 1).map(|path| beneath(path)) else { return };
        if kind == '?' {
            return self.untracked.push(path);
        }
        if kind == 'u' {
            return self.conflicted.push(path);
        }
        let mut letters = parts[1].chars();
        let (index, tree) = (letters.next().and_then(change), letters.next().and_then(change));
        if let Some(change) = index {
            self.staged.push(Changed {
                path: path.clone(),
                change,
                from: from.clone().filter(|_| is_moved(change)),
            });
        }
        if let Some(change) = tree {
            self.unstaged.push(Changed { path, change, from: from.filter(|_| is_moved(change)) });
        }
    }
}

fn change(letter: char) -> Option<&'static str> {
    Some(match letter {
        'M' => "modified",
        'T' => "type changed",
        'A' => "added",
        'D' => "deleted",
        'R' => "renamed",
        'C' => "copied",
        _ => return None,
    })
}

fn is_moved(change: &str) -> bool {
    matches!(change, "renamed" | "copied")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D6.7: every kind of line becomes data; names keep their spaces and tabs.
    #[test]
    fn every_kind_of_entry_is_read() {
        let zeros = "100644 100644 100644 aa bb";
        let printed = format!(
            "# branch.oid abc\0# branch.head main\0# branch.upstream origin/main\0# branch.ab +2 -1\x001 .M N... {zeros} sub/a b\x001 AD N... {zeros} sub/new\x002 R. N... {zeros} R100 sub/to\0sub/fr om\0u UU N... 1 2 3 4 aa bb cc sub/both\0? sub/x\ty\0"
        );
        let status = Status::parsed(&printed, |path| path.trim_start_matches("sub/").to_owned());
        let entry = |path: &str, change| Changed { path: path.to_owned(), change, from: None };
        let expected = Status {
            branch: Some("main".to_owned()),
            head: Some("abc".to_owned()),
            upstream: Some("origin/main".to_owned()),
            ahead: Some(2),
            behind: Some(1),
            clean: false,
            staged: vec![
                entry("new", "added"),
                Changed { from: Some("fr om".to_owned()), ..entry("to", "renamed") },
            ],
            unstaged: vec![entry("a b", "modified"), entry("new", "deleted")],
            untracked: vec!["x\ty".to_owned()],
            conflicted: vec!["both".to_owned()],
            more: None,
        };
        assert_eq!(status, expected);
    }

    /// D6.7: more entries than are shown are counted.
    #[test]
    fn what_is_not_shown_is_counted() {
        let many: String = (0..limits::GIT_ENTRIES_MAX + 3).map(|index| format!("? f{index}\0")).collect();
        let status = Status::parsed(&many, str::to_owned);
        assert_eq!((status.untracked.len(), status.more), (limits::GIT_ENTRIES_MAX, Some(3)));
    }
}
