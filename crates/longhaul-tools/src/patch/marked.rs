//! The `*** Begin Patch` form, which models are trained on.
//!
//! Owns its grammar: sections for files, hunks that begin with `@@` and perhaps a line to look for. Refuses what it does not
//! know, by line.

use super::{Action, FileChange, Hunk, Line, without_trailing_blanks};

pub(super) const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const ADD: &str = "*** Add File: ";
const DELETE: &str = "*** Delete File: ";
const UPDATE: &str = "*** Update File: ";
const MOVE: &str = "*** Move to: ";
const END_OF_FILE: &str = "*** End of File";

pub(super) fn parse(lines: &[&str]) -> Result<Vec<FileChange>, String> {
    let mut reader = Reader { lines, at: 1 };
    let mut changes = Vec::new();
    loop {
        let Some(line) = reader.next() else {
            return Err(format!("the patch does not end with `{END}`"));
        };
        if line.trim_end() == END {
            break;
        }
        if let Some(path) = line.strip_prefix(ADD) {
            changes.push(change(path, Action::Add { text: reader.added()? }));
        } else if let Some(path) = line.strip_prefix(DELETE) {
            changes.push(change(path, Action::Delete));
        } else if let Some(path) = line.strip_prefix(UPDATE) {
            changes.push(change(path, reader.update()?));
        } else if !line.trim().is_empty() {
            return Err(reader.surprise("a section like `*** Update File: path`"));
        }
    }
    match reader.lines[reader.at..].iter().find(|line| !line.trim().is_empty()) {
        Some(_) => Err(format!("something follows `{END}`")),
        None => Ok(changes),
    }
}

fn change(path: &str, action: Action) -> FileChange {
    FileChange { path: path.trim().to_owned(), action, executable: None }
}

struct Reader<'a> {
    lines: &'a [&'a str],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.lines.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        self.at += 1;
        Some(line)
    }

    /// The next line if it belongs to this section.
    fn within(&mut self) -> Option<&'a str> {
        let line = self.peek()?;
        let ends = [ADD, DELETE, UPDATE].iter().any(|mark| line.starts_with(mark)) || line.trim_end() == END;
        if ends { None } else { self.next() }
    }

    fn surprise(&self, expected: &str) -> String {
        let line = self.lines.get(self.at - 1).copied().unwrap_or_default();
        let shown: String = line.chars().take(80).collect();
        format!("line {} of the patch is `{shown}`; expected {expected}", self.at)
    }

    fn added(&mut self) -> Result<String, String> {
        let mut text = String::new();
        while let Some(line) = self.within() {
            match line.strip_prefix('+') {
                Some(line) => text.extend([line, "\n"]),
                None if line.trim().is_empty() => {}
                None => return Err(self.surprise("a line of the new file, beginning with `+`")),
            }
        }
        Ok(text)
    }

    fn update(&mut self) -> Result<Action, String> {
        let move_to = self.peek().and_then(|line| line.strip_prefix(MOVE)).map(|path| path.trim().to_owned());
        self.at += usize::from(move_to.is_some());
        let mut hunks: Vec<Hunk> = Vec::new();
        let (mut hunk, mut blanks) = (Hunk::default(), 0);
        while let Some(line) = self.within() {
            if let Some(anchor) = line.strip_prefix("@@") {
                if !hunk.lines.is_empty() {
                    without_trailing_blanks(&mut hunk.lines, blanks);
                    hunks.push(std::mem::take(&mut hunk));
                }
                let anchor = anchor.trim();
                hunk.anchors.extend((!anchor.is_empty()).then(|| anchor.to_owned()));
                continue;
            }
            if line.trim_end() == END_OF_FILE {
                hunk.at_end = true;
                continue;
            }
            blanks = if line.is_empty() { blanks + 1 } else { 0 };
            hunk.lines.push(self.hunk_line(line)?);
        }
        without_trailing_blanks(&mut hunk.lines, blanks);
        if !hunk.lines.is_empty() {
            hunks.push(hunk);
        }
        if hunks.is_empty() && move_to.is_none() {
            return Err(self.surprise("a hunk, its lines beginning with a space, `-` or `+`"));
        }
        Ok(Action::Update { hunks, move_to })
    }

    fn hunk_line(&self, line: &str) -> Result<Line, String> {
        let Some(mark) = line.chars().next() else { return Ok(Line::Keep(String::new())) };
        let rest = &line[mark.len_utf8()..];
        match mark {
            ' ' => Ok(Line::Keep(rest.to_owned())),
            '-' => Ok(Line::Remove(rest.to_owned())),
            '+' => Ok(Line::Insert(rest.to_owned())),
            _ => Err(self.surprise("a line beginning with a space, `-` or `+`")),
        }
    }
}
