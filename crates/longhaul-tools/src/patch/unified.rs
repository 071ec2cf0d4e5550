//! The unified form of diff and git.
//!
//! Owns its headers: renames, new and deleted files, hunks with their line numbers, which are a hint and no more, since models
//! count badly, and of modes whether a file may be run. Refuses binary patches, links and submodules.

use super::{Action, FileChange, Hunk, Line, without_trailing_blanks};

const NOWHERE: &str = "/dev/null";

pub(super) fn parse(lines: &[&str]) -> Result<Vec<FileChange>, String> {
    let mut reader = Reader { lines, at: 0 };
    let mut changes = Vec::new();
    while let Some(line) = reader.peek() {
        if line.starts_with("diff --git ") {
            reader.at += 1;
            changes.extend(reader.git()?);
        } else if reader.is_header() {
            let (old, new) = reader.names();
            changes.push(reader.file(old, new)?);
        } else if line.starts_with("@@") {
            return Err(format!(
                "line {} of the patch begins a hunk, but no `--- path` and `+++ path` is above it",
                reader.at + 1
            ));
        } else {
            // What stands between files is talk: a commit's message, a summary.
            reader.at += 1;
        }
    }
    Ok(changes)
}

struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    /// Three lines tell a header from removed and added lines that look like one.
    fn is_header(&self) -> bool {
        let begins = |ahead: usize, mark| {
            self.lines.get(self.at + ahead).is_some_and(|line: &&str| line.starts_with(mark))
        };
        begins(0, "--- ") && begins(1, "+++ ") && begins(2, "@@")
    }

    fn names(&mut self) -> (&'a str, &'a str) {
        let name = |line: &'a str| {
            let name = &line[4..];
            name.split('\t').next().unwrap_or(name).trim()
        };
        let (old, new) = (name(self.lines[self.at]), name(self.lines[self.at + 1]));
        self.at += 2;
        (old, new)
    }

    /// A file as git describes it, which may be renamed or deleted without a hunk.
    fn git(&mut self) -> Result<Option<FileChange>, String> {
        let (mut from, mut to, mut executable) = (None, None, None);
        let named = self.at.checked_sub(1).and_then(|header| name_of_both(self.lines[header]));
        while let Some(line) = self.peek() {
            if self.is_header() {
                let (old, new) = self.names();
                let mut change = self.file(old, new)?;
                change.executable = executable.filter(|_| change.action != Action::Delete);
                if let (Some(from), Some(to), Action::Update { move_to, .. }) = (from, to, &mut change.action)
                {
                    change.path = from;
                    *move_to = Some(to);
                }
                return Ok(Some(change));
            }
            if line.starts_with("diff --git ") {
                break;
            }
            if line.starts_with("GIT binary patch") || line.starts_with("Binary files ") {
                return Err("the patch is binary; make the change with bash".to_owned());
            }
            let mode = ["new file mode ", "new mode "].iter().find_map(|start| line.strip_prefix(start));
            if mode.is_some_and(|mode| matches!(mode.trim(), "120000" | "160000")) {
                return Err("the patch makes a link or a submodule, not a file; make it with bash".to_owned());
            }
            // Files are made so that nobody may run them.
            let is_new = line.starts_with("new file mode ");
            let may_run = mode.map(|mode| mode.trim() == "100755").filter(|may_run| !is_new || *may_run);
            executable = may_run.or(executable);
            if let Some(path) = line.strip_prefix("rename from ") {
                from = Some(path.trim().to_owned());
            }
            if let Some(path) = line.strip_prefix("rename to ") {
                to = Some(path.trim().to_owned());
            }
            self.at += 1;
        }
        let action = |move_to| Action::Update { hunks: Vec::new(), move_to };
        Ok(match (from.zip(to), named.filter(|_| executable.is_some())) {
            (Some((path, to)), _) => Some(FileChange { path, action: action(Some(to)), executable }),
            (None, Some(path)) => Some(FileChange { path, action: action(None), executable }),
            (None, None) => None,
        })
    }

    fn file(&mut self, old: &str, new: &str) -> Result<FileChange, String> {
        let mut hunks = Vec::new();
        while self.peek().is_some_and(|line| line.starts_with("@@")) {
            hunks.push(self.hunk()?);
        }
        let (old, new) = without_prefixes(old, new);
        let change = |path: &str, action| FileChange { path: path.to_owned(), action, executable: None };
        Ok(match (old, new) {
            (NOWHERE, path) => change(path, Action::Add { text: inserted(&hunks) }),
            (path, NOWHERE) => change(path, Action::Delete),
            (old, new) => {
                let move_to = (old != new).then(|| new.to_owned());
                change(old, Action::Update { hunks, move_to })
            }
        })
    }

    fn hunk(&mut self) -> Result<Hunk, String> {
        let mut hunk = Hunk { line: old_start(self.lines[self.at]), ..Hunk::default() };
        self.at += 1;
        let mut blanks = 0;
        while let Some(line) = self.peek() {
            if line.starts_with("@@") || line.starts_with("diff --git ") || self.is_header() {
                break;
            }
            let mark = line.chars().next();
            match mark {
                None => hunk.lines.push(Line::Keep(String::new())),
                Some(' ') => hunk.lines.push(Line::Keep(line[1..].to_owned())),
                Some('-') => hunk.lines.push(Line::Remove(line[1..].to_owned())),
                Some('+') => hunk.lines.push(Line::Insert(line[1..].to_owned())),
                Some('\\') => hunk.note_missing_break(),
                Some(_) => break,
            }
            blanks = if mark.is_none() { blanks + 1 } else { 0 };
            self.at += 1;
        }
        without_trailing_blanks(&mut hunk.lines, blanks);
        if hunk.lines.is_empty() {
            return Err(format!("the hunk above line {} of the patch is empty", self.at + 1));
        }
        Ok(hunk)
    }
}

impl Hunk {
    /// `\ No newline at end of file` is about the line above it.
    fn note_missing_break(&mut self) {
        match self.lines.last() {
            Some(Line::Insert(_)) => self.final_break = Some(false),
            Some(Line::Remove(_)) => self.final_break = Some(true),
            Some(Line::Keep(_)) | None => {}
        }
    }
}

/// The one name in `diff --git a/NAME b/NAME`.
fn name_of_both(header: &str) -> Option<String> {
    let names = header.strip_prefix("diff --git ")?;
    let (old, new) = names.split_at_checked(names.len() / 2)?;
    let (old, new) = (old.strip_prefix("a/")?, new.strip_prefix(" b/")?);
    (old == new).then(|| old.to_owned())
}

/// `a/` and `b/` are git's, unless only one of the names has its own.
fn without_prefixes<'a>(old: &'a str, new: &'a str) -> (&'a str, &'a str) {
    match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
        (Some(old), Some(new)) => (old, new),
        (Some(old), None) if new == NOWHERE => (old, new),
        (None, Some(new)) if old == NOWHERE => (old, new),
        (Some(_) | None, Some(_) | None) => (old, new),
    }
}

/// From `@@ -12,3 +12,4 @@`.
fn old_start(header: &str) -> Option<usize> {
    let numbers = header.split_once('-')?.1;
    let end = numbers.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(numbers.len());
    numbers[..end].parse().ok()
}

fn inserted(hunks: &[Hunk]) -> String {
    let lines = hunks.iter().flat_map(|hunk| &hunk.lines).filter_map(|line| match line {
        Line::Insert(text) => Some(text.as_str()),
        Line::Keep(_) | Line::Remove(_) => None,
    });
    let mut text = lines.collect::<Vec<_>>().join("\n");
    let ends_open = hunks.last().is_some_and(|hunk| hunk.final_break == Some(false));
    if !text.is_empty() && !ends_open {
        text.push('\n');
    }
    text
}
