//! Tells a write that a crash tore from damage. Owns that one verdict, and when in doubt says damage: a torn write was
//! never acknowledged and may go, anything else was and may not.
//!
//! A crash lets any subset of the sectors of the one unfinished write reach the disk; the others keep the zeros the
//! file was filled with. A write that stopped half way leaves its first bytes. So what follows the last sound frame is
//! torn only if it looks exactly like that: some sector of the frame, or at least its last byte, is zero or past the
//! end of the file; every written sector ends with its stamp, except the last; and nothing sound comes later. No
//! single flipped bit can make a whole frame look so, because stamps and ends have several bits each.

use super::frame::{self, FRAME_END, FRAME_HEADER, Header, MARK, SECTOR, STAMP};
use super::scan::{Cursor, Window};
use crate::error::Error;
use crate::limits;

/// What follows the last sound frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Tail {
    /// Nothing, or zeros.
    Clean,
    /// A write that never finished, up to byte `end`.
    Torn {
        end: u64,
    },
    Damaged {
        offset: u64,
        what: String,
    },
}

/// Judges the bytes from the cursor on, where no sound frame is. `header` is given if at least the header is sound.
pub(crate) fn judge(
    window: &mut Window<'_>,
    cursor: &Cursor,
    header: Option<&Header>,
) -> Result<Tail, Error> {
    let from = cursor.offset;
    let sectors = Sectors::look(window, from)?;
    let damaged = |offset, what: &str| Ok(Tail::Damaged { offset, what: what.to_owned() });
    if sectors.written_to == from {
        return Ok(Tail::Clean);
    }
    if let Some(offset) = sectors.strange {
        return damaged(offset, "there are bytes that no write of ours leaves behind");
    }
    if let Some(header) = header {
        let end = from + frame::woven_len(from, header.content_len()) as u64;
        if sectors.written_to > end {
            return damaged(from, "a batch does not match its checksum, and more follows it");
        }
        if end <= window.len && sectors.written_to == end && !sectors.empty_before(end) {
            return damaged(from, "a batch does not match its checksum");
        }
    } else {
        if later_frame(window, cursor)? {
            return damaged(from, "a batch is unreadable, and later ones follow it");
        }
        if let Some(offset) = sectors.unfinished {
            return damaged(offset, "there are bytes that belong to no batch");
        }
        if !header_torn(window, from, &sectors)? {
            return damaged(from, "a batch has an unreadable header");
        }
        let longest = frame::woven_len(from, limits::FRAME_BYTES_MAX);
        if sectors.written_to - from > longest as u64 {
            return damaged(from, "there is more than one batch could hold");
        }
    }
    Ok(Tail::Torn { end: sectors.written_to })
}

/// True if part of the header was never written. The part that was is ours, so it must start with the mark.
fn header_torn(window: &mut Window<'_>, from: u64, sectors: &Sectors) -> Result<bool, Error> {
    if sectors.first_empty == Some(from) {
        return Ok(true);
    }
    let end = from + frame::woven_len(from, FRAME_HEADER) as u64;
    let in_first_sector = MARK.len().min(SECTOR - 1 - frame::in_sector(from));
    let written = usize::try_from(sectors.written_to - from).unwrap_or(usize::MAX);
    let start = window.at(from, in_first_sector.min(written))?;
    let marked = start == &MARK[..start.len()];
    // A frame has at least its end after the header, so if nothing is there the write stopped before.
    let unfinished = end > window.len || sectors.empty_before(end) || sectors.written_to <= end;
    Ok(marked && unfinished)
}

/// Looks for a sound frame anywhere after an unreadable one. Its sequence number must be later too, so that an older
/// frame quoted in a payload is not taken for one.
fn later_frame(window: &mut Window<'_>, cursor: &Cursor) -> Result<bool, Error> {
    let mut content = Vec::new();
    let mut offset = cursor.offset + 1;
    while offset < window.len {
        let piece = window.at(offset, limits::READ_BYTES)?;
        let (next, candidates) =
            (offset + piece.len().max(1) as u64, marks_in(piece, offset).collect::<Vec<_>>());
        for candidate in candidates {
            let header = window.header_at(candidate, cursor.seed, &mut content)?;
            if header.is_some_and(|header| header.first_seq > cursor.last_seq + 1) {
                return Ok(true);
            }
        }
        offset = next;
    }
    Ok(false)
}

/// Where the next frame from `offset` on may start, if one may.
pub(crate) fn next_mark(window: &mut Window<'_>, offset: u64) -> Result<Option<u64>, Error> {
    let mut offset = offset;
    while offset < window.len {
        let piece = window.at(offset, limits::READ_BYTES)?;
        if let Some(mark) = marks_in(piece, offset).next() {
            return Ok(Some(mark));
        }
        offset += piece.len().max(1) as u64;
    }
    Ok(None)
}

fn marks_in(piece: &[u8], offset: u64) -> impl Iterator<Item = u64> {
    let starts = piece.iter().enumerate().filter(|(_, byte)| **byte == MARK[0]);
    starts.map(move |(index, _)| offset + index as u64).filter(|at| frame::in_sector(*at) < SECTOR - 1)
}

/// Which sectors after the sound part were written.
struct Sectors {
    first_empty: Option<u64>,
    /// Just after the last byte that is not zero.
    written_to: u64,
    /// The first sector that is neither empty nor as a write of ours leaves it.
    strange: Option<u64>,
    /// The last written sector, if it stops in the middle although sectors before it are empty. A write that stopped
    /// half way and then lost sectors explains it, but without a header to say so it is more likely not ours.
    unfinished: Option<u64>,
}

impl Sectors {
    fn look(window: &mut Window<'_>, from: u64) -> Result<Sectors, Error> {
        let mut sectors = Sectors { first_empty: None, written_to: from, strange: None, unfinished: None };
        // The last written sector so far, if it does not end with its stamp: fine only if it stays the last.
        let mut unstamped: Option<u64> = None;
        let mut ended = true;
        let mut start = from;
        while start < window.len {
            let bytes = window.at(start, SECTOR - frame::in_sector(start))?;
            if bytes == &[0; SECTOR][..bytes.len()] {
                sectors.first_empty = sectors.first_empty.or(Some(start));
            } else {
                sectors.strange = sectors.strange.or(unstamped);
                let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |index| index + 1);
                sectors.written_to = start + written as u64;
                let full = frame::in_sector(start) + bytes.len() == SECTOR;
                unstamped = (!full || bytes.last() != Some(&STAMP)).then_some(start);
                ended = bytes[..written].last() == Some(&FRAME_END) || !full;
            }
            start += (SECTOR - frame::in_sector(start)) as u64;
        }
        if !ended && sectors.empty_before(sectors.written_to) {
            sectors.unfinished = unstamped;
        }
        Ok(sectors)
    }

    fn empty_before(&self, end: u64) -> bool {
        self.first_empty.is_some_and(|offset| offset < end)
    }
}
