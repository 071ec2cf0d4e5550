//! Server-sent events out of chunks of bytes, split anywhere.
//!
//! It owns the framing of the WHATWG definition: three kinds of line end, comments, a byte-order mark, data over several
//! lines. It reads no content: data goes out as bytes, and whether they are UTF-8 is asked by whoever reads them. An
//! event that lies within one chunk is handed out in place; only what crosses a chunk's edge is copied, into buffers
//! that are kept.

use std::ops::Range;

use super::limits::{EVENT_BYTES_MAX, LINE_BYTES_MAX};
use super::{Kind, WireError};

/// One event, valid until the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    name: &'a [u8],
    /// The data, lines joined by a newline.
    pub data: &'a [u8],
}

impl<'a> Event<'a> {
    /// The event's name; empty if it has none or one that is no text.
    pub fn name(&self) -> &'a str {
        std::str::from_utf8(self.name).unwrap_or("")
    }
}

#[derive(Debug)]
pub struct Parser {
    caps: Caps,
    /// The beginning of a line whose end has not come yet.
    partial: Vec<u8>,
    name: Field,
    data: Field,
    /// A name from an earlier chunk.
    name_kept: Vec<u8>,
    /// Data from an earlier chunk, or of several lines.
    data_kept: Vec<u8>,
    /// The last chunk ended in CR; an LF at the start of the next belongs to it.
    after_cr: bool,
    mark: Mark,
}

#[derive(Clone, Copy, Debug)]
pub struct Caps {
    pub line_bytes: usize,
    pub event_bytes: usize,
}

impl Default for Caps {
    fn default() -> Caps {
        Caps { line_bytes: LINE_BYTES_MAX, event_bytes: EVENT_BYTES_MAX }
    }
}

/// Where a field of the current event is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Field {
    Absent,
    /// In the chunk at hand.
    Here(Range<usize>),
    /// In the parser's buffer, from there to its end.
    Kept(usize),
}

/// What a line's end brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Came {
    Line,
    Event,
}

/// Whether the byte-order mark, which may stand before everything else, is behind us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// So many of its bytes have come, and nothing else.
    Seen(usize),
    Done,
}

const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

impl Parser {
    pub fn new(caps: Caps) -> Parser {
        Parser {
            caps,
            partial: Vec::new(),
            name: Field::Absent,
            data: Field::Absent,
            name_kept: Vec::new(),
            data_kept: Vec::new(),
            after_cr: false,
            mark: Mark::Seen(0),
        }
    }

    /// Takes the next bytes and gives every event that ends in them to `sink`, whose first error stops the parsing.
    pub fn feed(
        &mut self,
        chunk: &[u8],
        mut sink: impl FnMut(Event<'_>) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        let mut rest = chunk;
        while !rest.is_empty() {
            let used = self.next(rest, &mut sink)?;
            rest = &rest[used..];
        }
        Ok(())
    }

    /// The same up to the end of the first event, or of the bytes; gives how many were taken.
    pub fn next(
        &mut self,
        bytes: &[u8],
        mut sink: impl FnMut(Event<'_>) -> Result<(), WireError>,
    ) -> Result<usize, WireError> {
        let chunk = self.skip_mark(bytes)?;
        let skipped = bytes.len() - chunk.len();
        let mut at = self.skip_line_feed(chunk);
        if !self.partial.is_empty() {
            let came;
            (at, came) = self.end_partial(chunk, at, &mut sink)?;
            if came == Came::Event {
                return Ok(skipped + at);
            }
        }
        while at < chunk.len() {
            // The empty line that ends an event needs no search.
            let end = if chunk[at] == b'\n' { Some(0) } else { memchr::memchr2(b'\n', b'\r', &chunk[at..]) };
            let Some(end) = end else { break };
            let came = self.line(chunk, at..at + end, &mut sink)?;
            at = self.after_line(chunk, at + end);
            if came == Came::Event {
                return Ok(skipped + at);
            }
        }
        self.keep_rest(chunk, at)?;
        Ok(bytes.len())
    }

    /// Does the next byte begin an event, or what stands between two?
    pub fn is_between_events(&self) -> bool {
        self.partial.is_empty()
            && self.name == Field::Absent
            && self.data == Field::Absent
            && !self.after_cr
            && self.mark == Mark::Done
    }

    /// The stream has ended. An event whose lines are all complete is handed out even if the empty line after it is
    /// missing; a line without its end is dropped, because it may be half of one.
    pub fn finish(
        mut self,
        mut sink: impl FnMut(Event<'_>) -> Result<(), WireError>,
    ) -> Result<(), WireError> {
        self.dispatch(&[], &mut sink).map(|_| ())
    }

    /// Bytes held between chunks; bounded by the caps.
    pub fn held_bytes(&self) -> usize {
        self.partial.capacity() + self.name_kept.capacity() + self.data_kept.capacity()
    }

    fn skip_mark<'a>(&mut self, chunk: &'a [u8]) -> Result<&'a [u8], WireError> {
        let Mark::Seen(seen) = self.mark else { return Ok(chunk) };
        let rest = &BYTE_ORDER_MARK[seen..];
        let same = rest.iter().zip(chunk).take_while(|(mark, byte)| mark == byte).count();
        if same == rest.len() {
            self.mark = Mark::Done;
            return Ok(&chunk[same..]);
        }
        if same == chunk.len() {
            self.mark = Mark::Seen(seen + same);
            return Ok(&[]);
        }
        // Not a mark after all: what was held back begins the first line.
        self.mark = Mark::Done;
        extend(&mut self.partial, &BYTE_ORDER_MARK[..seen], self.caps.line_bytes)?;
        Ok(chunk)
    }

    fn skip_line_feed(&mut self, chunk: &[u8]) -> usize {
        let Some(first) = chunk.first() else { return 0 };
        let skip = self.after_cr && *first == b'\n';
        self.after_cr = false;
        usize::from(skip)
    }

    /// Completes the line that began in an earlier chunk.
    fn end_partial(
        &mut self,
        chunk: &[u8],
        at: usize,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), WireError>,
    ) -> Result<(usize, Came), WireError> {
        let Some(end) = memchr::memchr2(b'\n', b'\r', &chunk[at..]) else { return Ok((at, Came::Line)) };
        extend(&mut self.partial, &chunk[at..at + end], self.caps.line_bytes)?;
        let mut line = std::mem::take(&mut self.partial);
        let came = self.line(&line, 0..line.len(), sink)?;
        if let Field::Here(value) = &self.data {
            // The line is kept as it is: the longest events come in many chunks, and would be copied twice.
            self.data = Field::Kept(value.start);
            std::mem::swap(&mut self.data_kept, &mut line);
        }
        self.keep_fields(&line)?;
        self.partial = line;
        self.partial.clear();
        Ok((self.after_line(chunk, at + end), came))
    }

    /// The place after a line's end, which is at `end`.
    fn after_line(&mut self, chunk: &[u8], end: usize) -> usize {
        if chunk[end] == b'\n' {
            return end + 1;
        }
        match chunk.get(end + 1) {
            Some(b'\n') => end + 2,
            Some(_) => end + 1,
            None => {
                self.after_cr = true;
                end + 1
            }
        }
    }

    fn line(
        &mut self,
        chunk: &[u8],
        line: Range<usize>,
        sink: &mut impl FnMut(Event<'_>) -> Result<(), WireError>,
    ) -> Result<Came, WireError> {
        if line.is_empty() {
            return self.dispatch(chunk, sink);
        }
        if line.len() > self.caps.line_bytes {
            return Err(too_large("a line", self.caps.line_bytes));
        }
        // Patterns instead of comparisons of slices, which would be calls; this is done for every line.
        match &chunk[line.clone()] {
            [b'd', b'a', b't', b'a', rest @ ..] => {
                if let Some(value) = value_bytes(rest) {
                    self.add_data(chunk, line.end - value..line.end)?;
                }
            }
            [b'e', b'v', b'e', b'n', b't', rest @ ..] => {
                if let Some(value) = value_bytes(rest) {
                    self.name = Field::Here(line.end - value..line.end);
                }
            }
            // Comments, `id`, `retry` and unknown fields mean nothing to us.
            _ => {}
        }
        Ok(Came::Line)
    }

    fn add_data(&mut self, chunk: &[u8], value: Range<usize>) -> Result<(), WireError> {
        if self.data == Field::Absent {
            self.data = Field::Here(value);
            return Ok(());
        }
        self.keep_data(chunk)?;
        extend(&mut self.data_kept, b"\n", self.caps.event_bytes)?;
        extend(&mut self.data_kept, &chunk[value], self.caps.event_bytes)
    }

    fn dispatch(
        &mut self,
        chunk: &[u8],
        sink: &mut impl FnMut(Event<'_>) -> Result<(), WireError>,
    ) -> Result<Came, WireError> {
        let name = std::mem::replace(&mut self.name, Field::Absent);
        let data = match std::mem::replace(&mut self.data, Field::Absent) {
            Field::Absent => return Ok(Came::Line),
            Field::Here(range) => &chunk[range],
            Field::Kept(start) => &self.data_kept[start..],
        };
        if data.len() > self.caps.event_bytes {
            return Err(too_large("an event", self.caps.event_bytes));
        }
        let name = match name {
            Field::Absent => &[],
            Field::Here(range) => &chunk[range],
            Field::Kept(start) => &self.name_kept[start..],
        };
        sink(Event { name, data })?;
        Ok(Came::Event)
    }

    fn keep_rest(&mut self, chunk: &[u8], at: usize) -> Result<(), WireError> {
        self.keep_fields(chunk)?;
        extend(&mut self.partial, &chunk[at.min(chunk.len())..], self.caps.line_bytes)
    }

    /// Copies what the current event has in this chunk, before the chunk goes away.
    fn keep_fields(&mut self, chunk: &[u8]) -> Result<(), WireError> {
        self.keep_data(chunk)?;
        if let Field::Here(range) = &self.name {
            self.name_kept.clear();
            self.name_kept.extend_from_slice(&chunk[range.clone()]);
            self.name = Field::Kept(0);
        }
        Ok(())
    }

    fn keep_data(&mut self, chunk: &[u8]) -> Result<(), WireError> {
        if let Field::Here(range) = &self.data {
            self.data_kept.clear();
            extend(&mut self.data_kept, &chunk[range.clone()], self.caps.event_bytes)?;
            self.data = Field::Kept(0);
        }
        Ok(())
    }
}

/// How long a field's value is, by what follows the field's name: a colon and at most one space, or nothing at all. None
/// if the name goes on.
fn value_bytes(rest: &[u8]) -> Option<usize> {
    match rest {
        [] => Some(0),
        [b':', b' ', value @ ..] | [b':', value @ ..] => Some(value.len()),
        _ => None,
    }
}

fn extend(buffer: &mut Vec<u8>, bytes: &[u8], max: usize) -> Result<(), WireError> {
    if buffer.len() + bytes.len() > max {
        return Err(too_large("an event", max));
    }
    buffer.extend_from_slice(bytes);
    Ok(())
}

fn too_large(what: &str, max: usize) -> WireError {
    WireError::new(Kind::TooLarge, format!("{what} exceeds {max} bytes"))
}
