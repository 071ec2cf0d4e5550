//! `read`: shows numbered lines of a text file.
//!
//! Owns streaming: a file of any size is read with one small buffer, and stops when the result is full. Refuses binary
//! files and directories, with a hint what to do instead.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::time::Instant;

use longhaul_core::json::Json;
use longhaul_core::limits::OUTPUT_INLINE_BYTES_MAX;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Trace};
use longhaul_workspace::Error;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::limits;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, blocking, refused};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The first line to show, counted from 1. Default: 1.
    offset: Option<u64>,
    /// How many lines to show. Default: 2000.
    limit: Option<u64>,
}

pub struct Read(ToolSpec);

impl Read {
    pub fn new() -> Read {
        Read(ToolSpec {
            name: "read".to_owned(),
            description: "Shows a text file with line numbers. Long files are shown in parts: \
                          the result says with which offset to go on."
                .to_owned(),
            class: EffectClass::Repeatable,
            schema: schema::<Args>(),
        })
    }

    async fn show(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args: Args = parse(args, &self.0.schema)?;
        if args.offset == Some(0) {
            return Err(invalid("`offset` counts lines from 1"));
        }
        if args.limit == Some(0) {
            return Err(invalid("`limit` must be at least 1"));
        }
        let context = context.clone();
        blocking(move || show(&context, &args)).await?
    }
}

impl Default for Read {
    fn default() -> Read {
        Read::new()
    }
}

impl Tool for Read {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.show(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}

fn show(context: &Context, args: &Args) -> Result<Outcome, Outcome> {
    let file = context.workspace.open_file(&args.path).map_err(|error| {
        if matches!(error, Error::Directory { .. }) {
            return Outcome::failed(Failure::Tool, format!("{error}; list it with bash: ls"));
        }
        refused(&error)
    })?;
    let mut lines = Lines::new(context, &args.path, file)?;
    lines.refuse_binary()?;
    let first = args.offset.unwrap_or(1);
    while lines.number < first {
        if !lines.skip()? {
            return past_the_end(&args.path, first, lines.number - 1);
        }
    }
    shown(&mut lines, first, args.limit.unwrap_or(limits::READ_LINES_DEFAULT))
}

fn past_the_end(path: &str, first: u64, count: u64) -> Result<Outcome, Outcome> {
    match (first, count) {
        (1, 0) => Ok(Outcome::done("(the file is empty)")),
        (_, _) => Err(invalid(format!("`offset` is {first}, but `{path}` has {count} lines"))),
    }
}

fn shown(lines: &mut Lines<'_>, first: u64, limit: u64) -> Result<Outcome, Outcome> {
    let mut text = String::new();
    let room = OUTPUT_INLINE_BYTES_MAX - limits::NOTE_BYTES_MAX;
    while lines.number - first < limit {
        let number = lines.number;
        let Some(line) = lines.next()? else {
            return if number == first {
                past_the_end(lines.path, first, number - 1)
            } else {
                Ok(Outcome::done(text))
            };
        };
        let line = format!("{number:>6}\t{line}\n");
        // One line always fits, so that going on with the offset named below makes progress.
        if !text.is_empty() && text.len() + line.len() > room {
            return Ok(Outcome::done(text + &lines.goes_on(first, number)));
        }
        text.push_str(&line);
    }
    let next = lines.number;
    if lines.is_at_end()? {
        Ok(Outcome::done(text))
    } else {
        Ok(Outcome::done(text + &lines.goes_on(first, next)))
    }
}

/// A file taken line by line in bounded memory.
struct Lines<'a> {
    context: &'a Context,
    path: &'a str,
    reader: BufReader<File>,
    /// The piece of a line taken last; kept to use its memory again.
    chunk: Vec<u8>,
    bytes: u64,
    /// Number of the line that comes next.
    number: u64,
    started: Instant,
}

impl<'a> Lines<'a> {
    fn new(context: &'a Context, path: &'a str, file: File) -> Result<Lines<'a>, Outcome> {
        let bytes = file.metadata().map_err(|error| unreadable(path, &error))?.len();
        let reader = BufReader::with_capacity(limits::BUFFER_BYTES, file);
        Ok(Lines { context, path, reader, chunk: Vec::new(), bytes, number: 1, started: Instant::now() })
    }

    fn refuse_binary(&mut self) -> Result<(), Outcome> {
        let (path, bytes) = (self.path, self.bytes);
        let start = self.buffer()?;
        if start.iter().take(limits::BINARY_PROBE_BYTES).any(|byte| *byte == 0) {
            let message =
                format!("`{path}` is binary ({bytes} bytes); look at it with bash: file, xxd, strings");
            return Err(Outcome::failed(Failure::Tool, message));
        }
        Ok(())
    }

    fn is_at_end(&mut self) -> Result<bool, Outcome> {
        Ok(self.buffer()?.is_empty())
    }

    fn goes_on(&self, first: u64, next: u64) -> String {
        format!(
            "[lines {first} to {} shown; the file has {} bytes and goes on: read with offset {next}]\n",
            next - 1,
            self.bytes
        )
    }

    /// Passes over one line; false at the end of the file.
    fn skip(&mut self) -> Result<bool, Outcome> {
        Ok(self.take_line(&mut Clipped::default(), 0)? > 0)
    }

    fn next(&mut self) -> Result<Option<String>, Outcome> {
        let mut line = Clipped::default();
        if self.take_line(&mut line, limits::LINE_BYTES_MAX)? == 0 {
            return Ok(None);
        }
        Ok(Some(line.into_text()))
    }

    /// Consumes one line with its line break, keeps at most `keep` bytes; answers how many bytes were consumed.
    fn take_line(&mut self, line: &mut Clipped, keep: usize) -> Result<u64, Outcome> {
        let mut taken = 0u64;
        loop {
            self.check_time()?;
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
        }
        self.number += u64::from(taken > 0);
        Ok(taken)
    }

    /// What comes next, without consuming it; empty at the end of the file.
    fn buffer(&mut self) -> Result<&[u8], Outcome> {
        let path = self.path;
        self.reader.fill_buf().map_err(|error| unreadable(path, &error))
    }

    /// Asked for each chunk, so that a huge file cannot outlast the call's time or its cancellation.
    fn check_time(&self) -> Result<(), Outcome> {
        if self.context.cancel.is_cancelled() {
            return Err(Outcome::failed(Failure::Cancelled, "stopped because the run was paused"));
        }
        if self.started.elapsed() > self.context.timeout {
            let message = format!("timed out after {} ms", self.context.timeout.as_millis());
            return Err(Outcome::failed(Failure::Timeout, message));
        }
        Ok(())
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

    fn into_text(self) -> String {
        let clipped = self.bytes > self.kept.len();
        let text = String::from_utf8_lossy(&self.kept).replace('\0', "\u{FFFD}");
        let text = text.strip_suffix('\r').unwrap_or(&text);
        if clipped { format!("{text} [line clipped: {} bytes]", self.bytes) } else { text.to_owned() }
    }
}

fn unreadable(path: &str, error: &io::Error) -> Outcome {
    Outcome::failed(Failure::Tool, format!("cannot read `{path}`: {error}"))
}
