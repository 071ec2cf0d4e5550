//! A streamed reply from its bytes to the whole: framing, events, pieces, within an allowance of bytes and events.

use super::limits::{BEGUN_BYTES_MAX, STREAM_BYTES_MAX, STREAM_EVENTS_MAX};
use super::mould::{Misfit, Mould};
use super::said::Said;
use super::sse::{Caps, Parser};
use super::{Api, Assembler, Delta, Hear, Kind, Progress, Reply, WireError};

/// A stream while it is read, with what it has left of its allowance.
#[derive(Debug)]
pub struct Reading {
    parser: Parser,
    assembler: Assembler,
    bytes_left: u64,
    events_left: u64,
    line_max: usize,
    /// The shape of the pieces that come, and the place they are added to.
    mould: Option<(Mould, Place)>,
    /// The pieces of one chunk, one after another. Kept for its room.
    said: Said,
    /// How many pieces are taken together.
    at_once: u64,
    /// The beginning of an event at the end of a chunk that has the shape of the last one so far.
    begun: Vec<u8>,
}

/// Which of the texts of a reply a piece was added to; its meaning is the assembler's.
pub(super) type Place = usize;

/// What follows the pieces that were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    /// The beginning of one more, as far as it has come.
    Begun,
    Other,
}

/// How much a stream may bring.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    pub caps: Caps,
    pub bytes: u64,
    pub events: u64,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { caps: Caps::default(), bytes: STREAM_BYTES_MAX, events: STREAM_EVENTS_MAX }
    }
}

impl Reading {
    pub fn new(api: Api, allowance: Allowance) -> Reading {
        Reading {
            parser: Parser::new(allowance.caps),
            assembler: Assembler::new(api),
            bytes_left: allowance.bytes,
            events_left: allowance.events,
            line_max: allowance.caps.line_bytes,
            mould: None,
            said: Said::default(),
            at_once: u64::MAX,
            begun: Vec::new(),
        }
    }

    /// Takes the next bytes and tells what they bring.
    pub fn take(&mut self, chunk: &[u8], hear: &mut Hear<'_>) -> Result<(), WireError> {
        self.bytes_left = spend(self.bytes_left, chunk.len() as u64, "bytes")?;
        let mut rest = self.end_begun(chunk, hear)?;
        while !rest.is_empty() {
            let (used, ahead) = self.pieces(rest, hear)?;
            rest = &rest[used..];
            if ahead == Ahead::Begun {
                self.begun.extend_from_slice(rest);
                break;
            }
            let used = self.event(rest, hear)?;
            rest = &rest[used..];
        }
        Ok(())
    }

    /// The stream has ended: the reply, or `Truncated` if its end has not been seen.
    pub fn finish(mut self, hear: &mut Hear<'_>) -> Result<Reply, WireError> {
        self.read_begun(hear)?;
        let Reading { parser, mut assembler, .. } = self;
        if assembler.progress() != Progress::Done {
            parser.finish(|event| assembler.take(event.name(), event.data, hear))?;
        }
        assembler.finish()
    }

    pub fn progress(&self) -> Progress {
        self.assembler.progress()
    }

    /// Ends the event that began in an earlier chunk; gives what follows it in this one.
    fn end_begun<'c>(&mut self, chunk: &'c [u8], hear: &mut Hear<'_>) -> Result<&'c [u8], WireError> {
        if self.begun.is_empty() {
            return Ok(chunk);
        }
        let before = self.begun.len();
        let mut joined = std::mem::take(&mut self.begun);
        // A longer event is read the long way: to copy more would cost each of the others.
        let mostly = self.mould.as_ref().map_or(0, |(mould, _)| mould.bytes_mostly());
        joined.extend_from_slice(&chunk[..chunk.len().min(mostly)]);
        let (used, _) = self.one_piece(&joined, hear)?;
        joined.truncate(before);
        self.begun = joined;
        if used > before {
            self.begun.clear();
            return Ok(&chunk[used - before..]);
        }
        self.read_begun(hear)?;
        Ok(chunk)
    }

    /// Gives up on the shape of what began in an earlier chunk.
    fn read_begun(&mut self, hear: &mut Hear<'_>) -> Result<(), WireError> {
        let begun = std::mem::take(&mut self.begun);
        let mut rest = begun.as_slice();
        while !rest.is_empty() {
            let used = self.event(rest, hear)?;
            rest = &rest[used..];
        }
        Ok(())
    }

    /// Takes as many events as have the shape of the last one; gives how long they were. What came together is told together.
    fn pieces(&mut self, chunk: &[u8], hear: &mut Hear<'_>) -> Result<(usize, Ahead), WireError> {
        let taken = self.up_to(self.at_once, chunk, hear)?;
        if let Some(taken) = taken {
            return Ok(taken);
        }
        // One of them is no text by itself. Which one is found out by those who read them singly, and in this stream from now on.
        self.at_once = 1;
        self.one_piece(chunk, hear)
    }

    fn one_piece(&mut self, chunk: &[u8], hear: &mut Hear<'_>) -> Result<(usize, Ahead), WireError> {
        Ok(self.up_to(1, chunk, hear)?.unwrap_or((0, Ahead::Other)))
    }

    /// Nothing if what they say is no text.
    fn up_to(
        &mut self,
        events_max: u64,
        chunk: &[u8],
        hear: &mut Hear<'_>,
    ) -> Result<Option<(usize, Ahead)>, WireError> {
        let Some((mould, place)) = &self.mould else { return Ok(Some((0, Ahead::Other))) };
        if !self.parser.is_between_events() || chunk.len() > self.line_max {
            return Ok(Some((0, Ahead::Other)));
        }
        self.said.cut(0);
        let (mut at, mut events) = (0, 0);
        let mut ahead = Ahead::Other;
        while events < events_max {
            match mould.fill(&chunk[at..], &mut self.said) {
                Ok(bytes) => (at, events) = (at + bytes, events + 1),
                Err(Misfit::SoFar) if chunk.len() - at <= BEGUN_BYTES_MAX => {
                    ahead = Ahead::Begun;
                    break;
                }
                Err(_) => break,
            }
        }
        let Some(text) = self.said.text() else { return Ok(None) };
        self.events_left = spend(self.events_left, events, "events")?;
        if !text.is_empty() {
            hear(Delta::Text(text));
            self.assembler.add_text(*place, text);
        }
        Ok(Some((at, ahead)))
    }

    /// Takes bytes up to the end of one event, whatever it is; gives how many.
    fn event(&mut self, chunk: &[u8], hear: &mut Hear<'_>) -> Result<usize, WireError> {
        let Reading { parser, assembler, events_left, .. } = self;
        let begins_here = parser.is_between_events();
        let (mut text, mut came) = (None, false);
        let used = parser.next(chunk, |event| {
            *events_left = spend(*events_left, 1, "events")?;
            // What follows the end is not the reply's, whatever it is.
            if assembler.progress() == Progress::Done {
                return Ok(());
            }
            came = true;
            assembler.take(event.name(), event.data, &mut |delta| {
                if let Delta::Text(piece) = delta {
                    text = Some((piece.as_ptr().addr(), piece.len()));
                }
                hear(delta);
            })
        })?;
        if came {
            let event = &chunk[..used];
            let text = text.filter(|_| begins_here).and_then(|(address, length)| {
                let start = address.checked_sub(event.as_ptr().addr())?;
                (start + length <= event.len()).then_some(start..start + length)
            });
            self.remember(text.and_then(|text| Mould::of(event, text)));
        }
        Ok(used)
    }

    /// Keeps the mould of the last event if it was one of a piece. An event that only crossed the edge of a chunk has
    /// none; the one there was then still holds, if this piece went to the same place.
    fn remember(&mut self, mould: Option<Mould>) {
        let place = self.assembler.grown();
        self.mould = match (place, mould, self.mould.take()) {
            (Some(place), Some(mould), _) => Some((mould, place)),
            (Some(place), None, kept) => kept.filter(|(_, before)| *before == place),
            (None, _, _) => None,
        };
    }
}

fn spend(left: u64, used: u64, what: &str) -> Result<u64, WireError> {
    left.checked_sub(used)
        .ok_or_else(|| WireError::new(Kind::TooLarge, format!("the stream exceeds its limit of {what}")))
}
