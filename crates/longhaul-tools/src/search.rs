//! Searching one file after another for a regular expression.
//!
//! Owns what is kept of a file that has a match: how often, and the first lines as they will be shown. Refuses binary
//! files, and a file or line too long for memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::types::Types;
use longhaul_core::permission::{Action, Permissions, Verdict, judge_path};
use longhaul_core::tool::Outcome;
use longhaul_workspace::EntryKind;

use crate::limits;
use crate::patience::Patience;
use crate::pattern::Pattern;
use crate::walk::{Missed, Seen, Visitor};

/// What is to be found out about a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Lines,
    /// Only whether there is any.
    Whether,
    HowMany,
}

/// What is looked for, and where.
pub(crate) struct Query {
    pub(crate) matcher: RegexMatcher,
    pub(crate) wanted: Wanted,
    pub(crate) context: usize,
    pub(crate) across_lines: bool,
    pub(crate) include: Option<Pattern>,
    pub(crate) exclude: Option<Pattern>,
    pub(crate) types: Option<Types>,
    /// Files that may not be read are not searched either.
    pub(crate) rules: Arc<[Permissions]>,
    /// Lines, or files if no lines are wanted, that are kept.
    pub(crate) room: usize,
}

/// What was found in one file.
#[derive(Default)]
pub(crate) struct Hits {
    /// Matching lines, also those not kept.
    pub(crate) count: u64,
    /// Of `count`, those in `text`.
    pub(crate) kept: usize,
    /// Lines as they are shown.
    text: String,
    /// Where in `text` each of those kept begins.
    starts: Vec<usize>,
}

/// What one thread found. Keeps the first files by path, and counts the rest.
pub(crate) struct Search<'a> {
    query: &'a Query,
    patience: Patience<'a>,
    searcher: Searcher,
    pub(crate) files: BTreeMap<PathBuf, Hits>,
    kept: usize,
    pub(crate) total: Total,
    pub(crate) missed: Missed,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) files: u64,
    pub(crate) lines: u64,
    pub(crate) searched: u64,
    pub(crate) binary: u64,
}

impl Hits {
    /// The first lines found, at most `room`, with what stands around them; and how many these are.
    pub(crate) fn first(&self, room: usize) -> (&str, usize) {
        if self.kept <= room {
            return (&self.text, self.kept);
        }
        let beyond = self.starts.get(room).copied().unwrap_or(self.text.len());
        (&self.text[..beyond], room)
    }
}

impl<'a> Search<'a> {
    pub(crate) fn new(query: &'a Query, patience: Patience<'a>) -> Search<'a> {
        let searcher = SearcherBuilder::new()
            .line_number(query.wanted == Wanted::Lines)
            .multi_line(query.across_lines)
            .before_context(query.context)
            .after_context(query.context)
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(limits::SEARCH_BYTES_MAX))
            .build();
        let (files, total, missed) = (BTreeMap::new(), Total::default(), Missed::default());
        Search { query, patience, searcher, files, kept: 0, total, missed }
    }

    /// Searches one file; `path` is how it is named in the result.
    pub(crate) fn file(&mut self, path: &Path, file: File) -> Result<(), Outcome> {
        self.total.searched += 1;
        let mut sink = Lines { query: self.query, hits: Hits::default(), binary: false };
        let reader = self.patience.reading(file);
        if let Err(error) = self.searcher.search_reader(&self.query.matcher, reader, &mut sink) {
            self.patience.check()?;
            self.missed.add(path, &error);
            return Ok(());
        }
        if sink.binary {
            self.total.binary += 1;
        } else if sink.hits.count > 0 {
            self.keep(path, sink.hits);
        }
        Ok(())
    }

    pub(crate) fn merge(&mut self, other: Search<'_>) {
        self.total.files += other.total.files;
        self.total.lines += other.total.lines;
        self.total.searched += other.total.searched;
        self.total.binary += other.total.binary;
        self.missed.merge(other.missed);
        for (path, hits) in other.files {
            self.put(path, hits);
        }
    }

    fn keep(&mut self, path: &Path, hits: Hits) {
        self.total.files += 1;
        self.total.lines += hits.count;
        self.put(path.to_owned(), hits);
    }

    /// Files beyond the room are dropped from the end.
    fn put(&mut self, path: PathBuf, hits: Hits) {
        self.kept += self.weight(&hits);
        self.files.insert(path, hits);
        while let Some(last) = self.files.last_entry() {
            let weight = if self.query.wanted == Wanted::Lines { last.get().kept } else { 1 };
            if self.kept - weight < self.query.room {
                return;
            }
            self.kept -= weight;
            last.remove();
        }
    }

    fn weight(&self, hits: &Hits) -> usize {
        if self.query.wanted == Wanted::Lines { hits.kept } else { 1 }
    }
}

impl Visitor for Search<'_> {
    fn visit(&mut self, seen: &Seen<'_>) -> Result<(), Outcome> {
        if seen.kind != EntryKind::File || !self.query.admits(seen.path) {
            return Ok(());
        }
        let verdict = self.query.verdict(seen.path);
        if verdict.action != Action::Allow {
            self.missed.add(seen.path, &verdict);
            return Ok(());
        }
        match seen.directory.open_file(seen.name) {
            Ok(file) => self.file(seen.path, file),
            Err(error) => {
                self.missed.add(seen.path, &error);
                Ok(())
            }
        }
    }
}

impl Query {
    /// The path is inside the workspace, so where that is does not matter.
    fn verdict(&self, path: &Path) -> Verdict {
        judge_path(&self.rules, "", "read", &path.to_string_lossy())
    }

    fn admits(&self, path: &Path) -> bool {
        self.include.as_ref().is_none_or(|include| include.matches(path))
            && self.exclude.as_ref().is_none_or(|exclude| !exclude.matches(path))
            && self.types.as_ref().is_none_or(|types| !types.matched(path, false).is_ignore())
    }
}

struct Lines<'a> {
    query: &'a Query,
    hits: Hits,
    binary: bool,
}

impl Lines<'_> {
    fn is_full(&self) -> bool {
        self.hits.kept >= self.query.room
    }

    fn push(&mut self, number: Option<u64>, mark: char, line: &[u8]) {
        let number = number.unwrap_or_default();
        self.hits.text.push_str(&format!("{number}{mark}{}\n", shown(&self.query.matcher, line)));
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        let keep = self.query.wanted == Wanted::Lines && !self.is_full();
        let first = found.line_number();
        for (index, line) in found.lines().enumerate() {
            self.hits.count += 1;
            if keep {
                self.hits.kept += 1;
                self.hits.starts.push(self.hits.text.len());
                self.push(first.map(|first| first + index as u64), ':', line);
            }
        }
        Ok(self.query.wanted != Wanted::Whether)
    }

    fn context(&mut self, _searcher: &Searcher, found: &SinkContext<'_>) -> Result<bool, io::Error> {
        if !self.is_full() {
            self.push(found.line_number(), '-', found.bytes());
        }
        Ok(true)
    }

    fn context_break(&mut self, _searcher: &Searcher) -> Result<bool, io::Error> {
        if !self.is_full() {
            self.hits.text.push_str("--\n");
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> Result<bool, io::Error> {
        self.binary = true;
        Ok(false)
    }
}

/// A line without its break; a long one is cut around what was found in it.
fn shown(matcher: &RegexMatcher, line: &[u8]) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let room = limits::FOUND_LINE_BYTES_MAX;
    if line.len() <= room {
        return String::from_utf8_lossy(line).into_owned();
    }
    let at = matcher.find(line).ok().flatten().map_or(0, |found| found.start());
    let start = at.saturating_sub(room / 4).min(line.len() - room);
    let middle = String::from_utf8_lossy(&line[start..start + room]);
    let before = if start > 0 { "… " } else { "" };
    let after = if start + room < line.len() { " …" } else { "" };
    format!("{before}{middle}{after} [line cut: {} bytes]", line.len())
}
