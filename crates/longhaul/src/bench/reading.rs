//! What reading a streamed reply costs, beside a bare search for line ends in the same bytes: the framing alone, and all
//! of it, down to the reply. Bytes are taken from memory, in the sizes in which a socket gives them.

use std::hint::black_box;
use std::time::Instant;

use longhaul_model::wire::sse::{Caps, Parser};
use longhaul_model::wire::{Allowance, Api, Delta, Reading, Reply, WireError};
use serde::de::IgnoredAny;

use super::process::Status;
use super::report::{Row, Target};
use super::sizes::ModelSizes;
use super::stats::micros;
use super::stream::{Stream, chunks};
use crate::failure::Failure;

/// How often the pieces of a stream are repeated to see whether memory grows with it.
const LONG: usize = 16;

/// The rows of each protocol, in their order.
fn names(api: Api) -> [&'static str; 4] {
    match api {
        Api::Anthropic => ["anthropic_scan", "anthropic_framing", "anthropic_json", "anthropic_reading"],
        Api::Responses => ["responses_scan", "responses_framing", "responses_json", "responses_reading"],
        Api::Chat => ["chat_scan", "chat_framing", "chat_json", "chat_reading"],
    }
}

/// What is left behind in memory, before anything was freed that could hide it.
pub fn memory(sizes: &ModelSizes) -> Result<[Row; 2], Failure> {
    let stream = Stream::new(Api::Anthropic, sizes.stream_bytes);
    let (short, long) = (held(&stream, 1).map_err(failed)?, held(&stream, LONG).map_err(failed)?);
    let about = format!("held by the framing after {LONG} times as many pieces, to before");
    let framing = Row::new("framing_memory", about, long as f64, "B")
        .ratio(long as f64 / short.max(1) as f64)
        .target(Target::RatioAtMost(1.0));

    // Once before, so that only what grows with the stream is counted, and not the code that is touched first.
    drop(read(stream.api, |take| stream.pour(1, take)).map_err(failed)?);
    let before = Status::of_self()?;
    let reply = read(stream.api, |take| stream.pour(LONG, take)).map_err(failed)?;
    let grown_kib = Status::of_self()?.peak_kib.saturating_sub(before.peak_kib) as f64;
    let streamed = sizes.stream_bytes * LONG;
    let about = format!("peak while {} MiB are read, to the text that is in them", streamed >> 20);
    let reading = Row::new("reading_memory", about, grown_kib, "KiB")
        .ratio(grown_kib * 1024.0 / reply.text.len().max(1) as f64)
        .target(Target::RatioAtMost(4.0));
    Ok([framing, reading])
}

pub fn measure(api: Api, sizes: &ModelSizes) -> Result<Vec<Row>, Failure> {
    let stream = Stream::new(api, sizes.stream_bytes);
    let bytes = stream.bytes(1);
    let chunks = chunks(&bytes);
    let reply = read(api, |take| chunks.iter().try_for_each(|chunk| take(chunk))).map_err(failed)?;
    if reply.text != stream.text(1) {
        return Err(anyhow::anyhow!("the reply read from {} is not what was said", api.as_str()).into());
    }
    let mut laps = Laps::default();
    for _ in 0..sizes.rounds {
        laps.take(api, &chunks).map_err(failed)?;
    }
    Ok(laps.rows(api, bytes.len()))
}

/// The quickest round of each lane, in microseconds. What else the machine does only ever adds.
struct Laps {
    scan: f64,
    framing: f64,
    json: f64,
    reading: f64,
}

impl Default for Laps {
    fn default() -> Laps {
        let never = f64::INFINITY;
        Laps { scan: never, framing: never, json: never, reading: never }
    }
}

impl Laps {
    /// One round, all lanes after another.
    fn take(&mut self, api: Api, chunks: &[&[u8]]) -> Result<(), WireError> {
        lap(&mut self.scan, || Ok(scan(chunks)))?;
        lap(&mut self.framing, || framing(chunks))?;
        lap(&mut self.json, || json(chunks))?;
        lap(&mut self.reading, || read(api, |take| chunks.iter().try_for_each(|chunk| take(chunk))))
    }

    fn rows(&self, api: Api, bytes: usize) -> Vec<Row> {
        let [scan, framing, json, reading] = names(api);
        let about = format!("bare search for line ends in {:.1} MB of small pieces", bytes as f64 / 1e6);
        let row =
            |name, about: &str, micros: f64| Row::new(name, about, micros, "µs").ratio(micros / self.scan);
        vec![
            row(scan, &about, self.scan),
            row(framing, "server-sent events out of the same bytes", self.framing)
                .target(Target::RatioAtMost(2.0)),
            row(json, "and a bare pass over the JSON of each event, nothing kept", self.json),
            row(reading, "everything: framing, JSON, the reply put together", self.reading)
                .target(Target::RatioAtMost(2.0)),
        ]
    }
}

fn lap<T>(best: &mut f64, work: impl FnOnce() -> Result<T, WireError>) -> Result<(), WireError> {
    let started = Instant::now();
    black_box(work()?);
    *best = best.min(micros(started.elapsed()));
    Ok(())
}

fn scan(chunks: &[&[u8]]) -> usize {
    let ends = |chunk: &&[u8]| memchr::memchr_iter(b'\n', chunk).fold(0, usize::wrapping_add);
    chunks.iter().map(ends).fold(0, usize::wrapping_add)
}

fn framing(chunks: &[&[u8]]) -> Result<usize, WireError> {
    let mut parser = Parser::new(Caps::default());
    let mut bytes = 0;
    for chunk in chunks {
        parser.feed(chunk, |event| {
            bytes += event.data.len();
            Ok(())
        })?;
    }
    Ok(bytes)
}

/// The events passed over by the JSON reader we use, as a lower bound for whoever reads them with it.
fn json(chunks: &[&[u8]]) -> Result<usize, WireError> {
    let mut parser = Parser::new(Caps::default());
    let mut read = 0;
    for chunk in chunks {
        parser.feed(chunk, |event| {
            read += usize::from(serde_json::from_slice::<IgnoredAny>(event.data).is_ok());
            Ok(())
        })?;
    }
    Ok(read)
}

/// The reply in what `pour` gives.
fn read(
    api: Api,
    pour: impl FnOnce(&mut dyn FnMut(&[u8]) -> Result<(), WireError>) -> Result<(), WireError>,
) -> Result<Reply, WireError> {
    let mut reading = Reading::new(api, Allowance::default());
    let mut hear = |delta: Delta<'_>| {
        black_box(delta);
    };
    pour(&mut |chunk| reading.take(chunk, &mut hear))?;
    reading.finish(&mut |_| {})
}

/// What the framing holds between two chunks in the middle of a stream.
fn held(stream: &Stream, times: usize) -> Result<usize, WireError> {
    let mut parser = Parser::new(Caps::default());
    stream.pour_open(times, |chunk| parser.feed(chunk, |_| Ok(())))?;
    Ok(parser.held_bytes())
}

fn failed(error: WireError) -> Failure {
    anyhow::Error::from(error).into()
}
