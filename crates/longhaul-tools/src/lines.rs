//! A text taken line by line, a page at a time.
//!
//! Owns paging in bounded memory and time: a page near the start costs the same however long the text is, and one further
//! on costs reading up to there. A line too long to be measured ends its page. Refuses to index: nothing is kept between calls.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use longhaul_core::limits::OUTPUT_INLINE_BYTES_MAX;
use longhaul_core::tool::{Failure, Outcome};

use crate::arguments::invalid;
use crate::limits;
use crate::patience::Patience;

/// Which lines are wanted, counted from 1.
#[derive(Clone, Copy)]
pub(crate) struct Page {
    pub(crate) first: u64,
    pub(crate) limit: u64,
}

/// Where the text comes from.
pub(crate) struct Source {
    reader: Box<dyn Read>,
    bytes: u64,
}

impl Source {
    pub(crate) fn file(file: File, bytes: u64) -> Source {
        Source { reader: Box::new(file), bytes }
    }

    pub(crate) fn held(content: Vec<u8>) -> Source {
        let bytes = content.len() as u64;
        Source { reader: Box::new(Cursor::new(content)), bytes }
    }
}

pub(crate) struct Lines<'a> {
    patience: Patience<'a>,
    path: &'a str,
    reader: BufReader<Box<dyn Read>>,
    /// The piece of a line taken last; kept to use its memory again.
    chunk: Vec<u8>,
    bytes: u64,
    /// Number of the line that comes next.
    number: u64,
}

/// What one line was like.
enum Taken {
    Nothing,
    Line(Clipped),
    /// Longer than is measured; where the next one begins is not known.
    Endless(Clipped),
}

impl<'a> Lines<'a> {
    pub(crate) fn new(patience: Patience<'a>, path: &'a str, source: Source) -> Lines<'a> {
        let reader = BufReader::with_capacity(limits::BUFFER_BYTES, source.reader);
        Lines { patience, path, reader, chunk: Vec::new(), bytes: source.bytes, number: 1 }
    }

    /// What comes first, without consuming it; empty if there is nothing.
    pub(crate) fn start(&mut self) -> Result<&[u8], Outcome> {
        let path = self.path;
        self.reader.fill_buf().map_err(|error| unreadable(path, &error))
    }

    /// The page with line numbers, and `note` at its end.
    pub(crate) fn show(mut self, page: Page, note: &str) -> Result<Outcome, Outcome> {
        while self.number < page.first {
            if !self.skip()? {
                return self.past_the_end(page.first);
            }
        }
        let text = self.page(page)?;
        if text.is_empty() { self.past_the_end(page.first) } else { Ok(Outcome::done(text + note)) }
    }

    fn past_the_end(&self, first: u64) -> Result<Outcome, Outcome> {
        match (first, self.number - 1) {
            (1, 0) => Ok(Outcome::done("(the file is empty)")),
            (_, count) => Err(invalid(format!("`offset` is {first}, but `{}` has {count} lines", self.path))),
        }
    }

    fn page(&mut self, page: Page) -> Result<String, Outcome> {
        let Page { first, limit } = page;
        let mut text = String::new();
        let room = OUTPUT_INLINE_BYTES_MAX - limits::NOTE_BYTES_MAX;
        while self.number - first < limit {
            let number = self.number;
            let (line, endless) =
                match self.take_line(limits::LINE_BYTES_MAX, limits::LINE_MEASURED_BYTES_MAX)? {
                    Taken::Nothing => return Ok(text),
                    Taken::Line(line) => (line, false),
                    Taken::Endless(line) => (line, true),
                };
            let line = format!("{number:>6}\t{}\n", line.into_text(endless));
            // One line always fits, so that going on with the offset named below makes progress.
            if !text.is_empty() && text.len() + line.len() > room {
                return Ok(text + &self.goes_on(first, number));
            }
            text.push_str(&line);
            if endless {
                return Ok(text + &self.goes_on(first, number + 1));
            }
        }
        let next = self.number;
        if self.start()?.is_empty() { Ok(text) } else { Ok(text + &self.goes_on(first, next)) }
    }

    fn goes_on(&self, first: u64, next: u64) -> String {
        format!(
            "[lines {first} to {} shown; the file has {} bytes and goes on: read with offset {next}]\n",
            next - 1,
            self.bytes
        )
    }

    /// Passes over one line; false at the end.
    fn skip(&mut self) -> Result<bool, Outcome> {
        match self.take_line(0, u64::MAX)? {
            Taken::Nothing => Ok(false),
            Taken::Line(_) | Taken::Endless(_) => Ok(true),
        }
    }

    /// Consumes one line with its line break, or its first `measured` bytes; keeps at most `keep` of it.
    fn take_line(&mut self, keep: usize, measured: u64) -> Result<Taken, Outcome> {
        let mut line = Clipped::default();
        let mut taken = 0u64;
        loop {
            // Asked for each chunk, so that a huge file cannot outlast the call's time or its cancellation.
            self.patience.check()?;
            self.chunk.clear();
            let part =
                self.reader.by_ref().take(limits::BUFFER_BYTES as u64).read_until(b'\n', &mut self.chunk);
            let count = part.map_err(|error| unreadable(self.path, &error))?;
            let ended = self.chunk.pop_if(|last| *last == b'\n').is_some();
            line.push(&self.chunk, keep);
            taken += count as u64;
            if ended || count == 0 {
                break;
            }
            if taken >= measured {
                return Ok(Taken::Endless(line));
            }
        }
        if taken == 0 {
            return Ok(Taken::Nothing);
        }
        self.number += 1;
        Ok(Taken::Line(line))
    }
}

/// The start of a line, and how long the whole of it is.
#[derive(Default)]
struct Clipped {
    kept: Vec<u8>,
    bytes: usize,
}

impl Clipped {
    fn push(&mut self, part: &[u8], keep: usize) {
        let room = keep.saturating_sub(self.kept.len()).min(part.len());
        self.kept.extend_from_slice(&part[..room]);
        self.bytes += part.len();
    }

    fn into_text(self, endless: bool) -> String {
        let text = String::from_utf8_lossy(&self.kept).replace('\0', "\u{FFFD}");
        let text = text.strip_suffix('\r').unwrap_or(&text);
        if endless {
            format!("{text} [line clipped: more than {} bytes]", self.bytes)
        } else if self.bytes > self.kept.len() {
            format!("{text} [line clipped: {} bytes]", self.bytes)
        } else {
            text.to_owned()
        }
    }
}

pub(crate) fn unreadable(path: &str, error: &io::Error) -> Outcome {
    Outcome::failed(Failure::Tool, format!("cannot read `{path}`: {error}"))
}
