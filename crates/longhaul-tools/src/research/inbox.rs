//! The inbox, put in order.
//!
//! Owns the order of the deeds: contents, then the overview, and only then is a file moved, by being whole in its new place
//! before it leaves the old one. Killed at any point, nothing is lost, and doing it again does the rest. Files that cannot be
//! read as results stay where they are, and are named.

use longhaul_workspace::{ABSENT, EntryKind, Workspace, digest_of};
use serde::Serialize;

use super::overview::{self, Landed, Writing};
use super::results::Results;
use super::{INBOX, PROCESSED, counted};
use crate::limits;

/// What became of the inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finalized {
    pub task: String,
    /// Where the overview is, from the workspace.
    pub overview: String,
    /// Files that were moved.
    pub moved: Vec<String>,
    /// Sources listed for the first time.
    pub sources: usize,
    /// Sources that were not listed again.
    pub dropped: usize,
    pub left: Vec<Left>,
}

/// A file that stays in the inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Left {
    pub file: String,
    pub why: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{task}` is not a task's id: letters, digits, `-`, `_` and `.` only, and no dot at the start")]
    Task { task: String },
    #[error(
        "{path} has grown to more than {max} bytes, which nobody reads at the start of an iteration; use another task id"
    )]
    TooLong { path: String, max: usize },
    #[error("{path} is not UTF-8")]
    NotText { path: String },
    #[error(transparent)]
    Workspace(#[from] longhaul_workspace::Error),
}

/// Puts the inbox in order for a task. `key` names temporary files.
pub fn finalize(workspace: &Workspace, task: &str, key: &str) -> Result<Finalized, Error> {
    Plan::of(workspace, task, Files::All)?.perform(workspace, key)
}

/// Which files of the inbox are meant.
#[derive(Clone, Copy)]
pub(super) enum Files<'a> {
    All,
    /// Those that were there when the call was prepared.
    Of(&'a dyn Fn(&str) -> bool),
}

/// What is to be done, found out without doing it.
pub(super) struct Plan {
    task: String,
    /// Digest of the overview as it is.
    pub(super) before: String,
    was: String,
    pub(super) writing: Writing,
    /// Names and digests of the files to be moved.
    pub(super) moves: Vec<(String, String)>,
    left: Vec<Left>,
}

impl Plan {
    pub(super) fn of(workspace: &Workspace, task: &str, files: Files<'_>) -> Result<Plan, Error> {
        check_task(task)?;
        let path = overview_path(task);
        let was = overview(workspace, &path)?;
        let before = workspace.digest(&path)?;
        let Inbox { meant, others, mut left } = Inbox::of(workspace, files)?;
        let writing = overview::writing(task, &was, &meant);
        let untaken_others = overview::writing(task, &writing.overview, &others).untaken;
        left.extend(writing.untaken.iter().chain(&untaken_others).map(|file| Left {
            file: file.clone(),
            why: format!("{path} has no room for it; finalize it for another task"),
        }));
        left.sort_by(|one, other| one.file.cmp(&other.file));
        let is_taken = |file: &Landed| !writing.untaken.contains(&file.name);
        let moves = meant.into_iter().filter(is_taken).map(|file| (file.name, file.digest)).collect();
        Ok(Plan { task: task.to_owned(), before, was, writing, moves, left })
    }

    pub(super) fn overview(&self) -> String {
        overview_path(&self.task)
    }

    pub(super) fn perform(self, workspace: &Workspace, key: &str) -> Result<Finalized, Error> {
        for (name, text) in &self.writing.contents {
            let path = format!("tasks/{}/{name}", self.task);
            // An earlier try that was killed may have come this far; the overview's own sync makes it last.
            if workspace.digest(&path)? != digest_of(text.as_bytes()) {
                workspace.replace(&path, text.as_bytes(), key)?;
            }
        }
        if self.writing.overview != self.was {
            workspace.replace(&self.overview(), self.writing.overview.as_bytes(), key)?;
        }
        let overview = self.overview();
        let (mut moved, mut left) = (Vec::new(), self.left);
        for (name, digest) in self.moves {
            match move_file(workspace, &name, &digest, key)? {
                Moved::Yes => moved.push(name),
                Moved::Changed => {
                    left.push(Left { file: name, why: "it was changed in the meantime".to_owned() });
                }
            }
        }
        let Writing { sources, dropped, .. } = self.writing;
        Ok(Finalized { task: self.task, overview, moved, sources, dropped, left })
    }
}

impl Finalized {
    /// What a model or a person is told.
    pub fn report(&self) -> String {
        let Finalized { overview, moved, sources, dropped, left, .. } = self;
        let mut report = format!("{}, {}", counted(moved.len(), "new file"), counted(*sources, "new source"));
        if *dropped > 0 {
            report.push_str(&format!(", {dropped} left out"));
        }
        if !moved.is_empty() {
            report.push_str(&format!("; see {overview}"));
        }
        report.push('\n');
        for Left { file, why } in left {
            report.push_str(&format!("{file} stays in {INBOX}: {why}\n"));
        }
        report
    }
}

pub(super) fn inbox_path(name: &str) -> String {
    format!("{INBOX}/{name}")
}

fn overview_path(task: &str) -> String {
    format!("tasks/{task}/research_overview.md")
}

fn check_task(task: &str) -> Result<(), Error> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let fits = (1..=limits::TASK_NAME_BYTES_MAX).contains(&task.len());
    if fits && task.chars().all(plain) && !task.starts_with('.') {
        return Ok(());
    }
    Err(Error::Task { task: task.chars().take(limits::TASK_NAME_BYTES_MAX).collect() })
}

fn overview(workspace: &Workspace, path: &str) -> Result<String, Error> {
    match workspace.metadata(path)? {
        None => return Ok(String::new()),
        Some(found) if found.bytes > limits::OVERVIEW_BYTES_MAX as u64 => {
            return Err(Error::TooLong { path: path.to_owned(), max: limits::OVERVIEW_BYTES_MAX });
        }
        Some(_) => {}
    }
    String::from_utf8(workspace.read(path)?).map_err(|_| Error::NotText { path: path.to_owned() })
}

/// The inbox as it was found: results that are meant, results that are not, and what is none.
#[derive(Default)]
struct Inbox {
    meant: Vec<Landed>,
    others: Vec<Landed>,
    left: Vec<Left>,
}

impl Inbox {
    /// What is meant is read first, so that what came later takes none of its room. The rest is read as well: what stays is named.
    fn of(workspace: &Workspace, files: Files<'_>) -> Result<Inbox, Error> {
        let is_meant = |name: &str| match files {
            Files::All => true,
            Files::Of(are) => are(name),
        };
        let (meant, others): (Vec<_>, Vec<_>) =
            names(workspace)?.into_iter().partition(|(name, _)| is_meant(name));
        let (mut inbox, mut bytes) = (Inbox::default(), 0);
        inbox.meant = inbox.read(workspace, meant, &mut bytes);
        inbox.others = inbox.read(workspace, others, &mut bytes);
        Ok(inbox)
    }

    fn read(
        &mut self,
        workspace: &Workspace,
        names: Vec<(String, EntryKind)>,
        bytes: &mut u64,
    ) -> Vec<Landed> {
        let mut landed = Vec::new();
        for (name, kind) in names {
            let read = if kind == EntryKind::File {
                read(workspace, &name, bytes)
            } else {
                Err("it is a link".to_owned())
            };
            match read {
                Ok(file) => landed.push(file),
                Err(why) => self.left.push(Left { file: name, why }),
            }
        }
        landed
    }
}

/// JSON files and links of such a name, sorted.
fn names(workspace: &Workspace) -> Result<Vec<(String, EntryKind)>, Error> {
    let directory = match workspace.open_directory(INBOX) {
        Ok(directory) => directory,
        Err(longhaul_workspace::Error::Missing { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let failed = |source| longhaul_workspace::Error::Io { action: "list", path: INBOX.to_owned(), source };
    let entries = directory.entries().map_err(failed)?.into_iter();
    let files = entries.filter(|entry| matches!(entry.kind, EntryKind::File | EntryKind::Link));
    let named = files.filter_map(|entry| Some((entry.name.into_string().ok()?, entry.kind)));
    let mut names: Vec<(String, EntryKind)> =
        named.filter(|(name, _)| name.to_ascii_lowercase().ends_with(".json")).collect();
    names.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(names)
}

fn read(workspace: &Workspace, name: &str, bytes: &mut u64) -> Result<Landed, String> {
    let path = inbox_path(name);
    let size = workspace.metadata(&path).map_err(|error| error.to_string())?.map_or(0, |found| found.bytes);
    if size > limits::INBOX_FILE_BYTES_MAX {
        return Err(format!("it has {size} bytes; at most {} are read", limits::INBOX_FILE_BYTES_MAX));
    }
    if *bytes + size > limits::INBOX_BYTES_MAX {
        return Err("the files before it are enough for once; finalize again".to_owned());
    }
    *bytes += size;
    let content = workspace.read(&path).map_err(|error| error.to_string())?;
    let digest = digest_of(&content);
    let text = String::from_utf8(content).map_err(|_| "it is not UTF-8".to_owned())?;
    Ok(Landed { name: name.to_owned(), digest, results: Results::parse(&text)? })
}

enum Moved {
    Yes,
    /// It is no longer what was read.
    Changed,
}

fn move_file(workspace: &Workspace, name: &str, digest: &str, key: &str) -> Result<Moved, Error> {
    let from = inbox_path(name);
    let content = workspace.read(&from)?;
    if digest_of(&content) != digest {
        return Ok(Moved::Changed);
    }
    let to = free_place(workspace, name, digest)?;
    if workspace.digest(&to)? != digest {
        workspace.replace(&to, &content, key)?;
    }
    workspace.remove(&from)?;
    Ok(Moved::Yes)
}

/// A file of the same name and other content is not overwritten.
fn free_place(workspace: &Workspace, name: &str, digest: &str) -> Result<String, Error> {
    let usual = format!("{PROCESSED}/{name}");
    let there = workspace.digest(&usual)?;
    if there == ABSENT || there == digest {
        return Ok(usual);
    }
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    Ok(format!("{PROCESSED}/{stem}-{}.json", &digest[..16]))
}
