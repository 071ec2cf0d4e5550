//! How batches look as bytes. Owns the layout and its checks; reads and writes no file.
//!
//! All numbers are little endian. The file starts with a header of 96 bytes that never changes:
//!
//! ```text
//! 0  magic      8  "LHJRNL\r\n"
//! 8  version    4  1; the header keeps this shape in every version, so that a newer one is recognised
//! 12 id length  4
//! 16 run id    64  padded with zeros
//! 80 unused    12  zeros
//! 92 crc        4  CRC32C of the 92 bytes before
//! ```
//!
//! Then frames, one for each batch, without gaps:
//!
//! ```text
//! 0  mark       4  F5 4C 48 5F
//! 4  body len   4
//! 8  first seq  8
//! 16 generation 8
//! 24 count      4  records in the body, never 0
//! 28 chain      4  header crc of the frame before; of the file header for the first frame
//! 32 body crc   4  CRC32C of the body
//! 36 header crc 4  CRC32C of the 36 bytes before, started from the file header's crc
//! 40 body          for each record: at 8, kind 2, version 2, length 4, payload
//! .. end        1  D7
//! ```
//!
//! Frames are *woven* into sectors of 512 bytes: the last byte of every sector belongs to no frame's content but is a
//! stamp, A7. So every sector that was ever written holds at least one byte with several bits set, whatever the
//! payload, and a sector that is all zeros was never written. That is how a torn write into the zero-filled file is
//! told from damage (see `tail`).
//!
//! A batch of n records costs 41 + 16 n bytes, and one byte more for every 511: a single payload of 1 KiB takes
//! 1083 or 1084 bytes, 5.9 % more than itself.

use longhaul_core::ids::RunId;
use longhaul_core::time::Timestamp;

use crate::journal::{Entry, Record};
use crate::limits;

pub(crate) const SECTOR: usize = 512;
pub(crate) const FILE_HEADER: usize = 96;
pub(crate) const FRAME_HEADER: usize = 40;
pub(crate) const RECORD_HEADER: usize = 16;
pub(crate) const VERSION: u32 = 1;
/// These three have several bits set in every byte, so that no single flipped bit makes a written sector look empty.
pub(crate) const MARK: [u8; 4] = [0xF5, 0x4C, 0x48, 0x5F];
pub(crate) const STAMP: u8 = 0xA7;
pub(crate) const FRAME_END: u8 = 0xD7;

const MAGIC: [u8; 8] = *b"LHJRNL\r\n";

pub(crate) fn file_header(run: &RunId) -> [u8; FILE_HEADER] {
    let mut header = [0; FILE_HEADER];
    let id = run.as_str().as_bytes();
    header[0..8].copy_from_slice(&MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..16].copy_from_slice(&(id.len() as u32).to_le_bytes());
    header[16..16 + id.len()].copy_from_slice(id);
    let crc = crc32c::crc32c(&header[..92]);
    header[92..].copy_from_slice(&crc.to_le_bytes());
    header
}

/// From what all frames of a run's journal start their checksums: that of its header, which is the same for one run at any time.
pub(crate) fn seed(run: &RunId) -> u32 {
    crc32c::crc32c(&file_header(run)[..92])
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileHeader {
    Ours { seed: u32 },
    TooNew { version: u32 },
    Bad(&'static str),
}

/// Reads a file header; `seed` is its checksum, from which all frames of this file start theirs.
pub(crate) fn parse_file_header(bytes: &[u8], run: &RunId) -> FileHeader {
    let (Some(magic), Some(crc), Some(version)) = (bytes.get(..8), u32_at(bytes, 92), u32_at(bytes, 8))
    else {
        return FileHeader::Bad("the file is shorter than its header");
    };
    if magic != MAGIC {
        return FileHeader::Bad("this is not a journal");
    }
    if crc32c::crc32c(&bytes[..92]) != crc {
        return FileHeader::Bad("the checksum of the file header does not match");
    }
    if version > VERSION {
        return FileHeader::TooNew { version };
    }
    if bytes[..FILE_HEADER] != file_header(run) {
        return FileHeader::Bad("this is the journal of another run");
    }
    FileHeader::Ours { seed: crc }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) body_len: usize,
    pub(crate) first_seq: u64,
    pub(crate) generation: u64,
    pub(crate) count: u32,
    pub(crate) chain: u32,
    pub(crate) body_crc: u32,
    pub(crate) crc: u32,
}

impl Header {
    /// Reads the header of a frame; nothing if it is not whole and sound.
    pub(crate) fn parse(content: &[u8], seed: u32) -> Option<Header> {
        let crc = u32_at(content, 36)?;
        let sound = content[..4] == MARK && crc32c::crc32c_append(seed, &content[..36]) == crc;
        let header = Header {
            body_len: u32_at(content, 4)? as usize,
            first_seq: u64_at(content, 8)?,
            generation: u64_at(content, 16)?,
            count: u32_at(content, 24)?,
            chain: u32_at(content, 28)?,
            body_crc: u32_at(content, 32)?,
            crc,
        };
        (sound && header.body_len <= limits::FRAME_BYTES_MAX).then_some(header)
    }

    pub(crate) fn content_len(&self) -> usize {
        FRAME_HEADER + self.body_len + 1
    }

    pub(crate) fn last_seq(&self) -> u64 {
        self.first_seq.saturating_add(u64::from(self.count)).saturating_sub(1)
    }
}

/// What a frame must know of the journal it is added to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) offset: u64,
    pub(crate) seed: u32,
    pub(crate) chain: u32,
    pub(crate) first_seq: u64,
    pub(crate) generation: u64,
}

/// Bytes the content of a batch takes, so that too large a one is refused before anything is copied.
pub(crate) fn content_len(batch: &[Entry]) -> usize {
    batch.iter().fold(FRAME_HEADER + 1, |sum, entry| {
        sum.saturating_add(RECORD_HEADER).saturating_add(entry.payload.len())
    })
}

/// Builds the frame of a batch in `frame`, as it is to be written at `place.offset`; returns its header crc.
/// `content` is room to work in, kept by the caller so that appending allocates nothing.
pub(crate) fn encode(batch: &[Entry], place: Place, content: &mut Vec<u8>, frame: &mut Vec<u8>) -> u32 {
    content.clear();
    content.resize(FRAME_HEADER, 0);
    for entry in batch {
        content.extend_from_slice(&entry.at.as_millis().to_le_bytes());
        content.extend_from_slice(&entry.kind.to_le_bytes());
        content.extend_from_slice(&entry.version.to_le_bytes());
        content.extend_from_slice(&(entry.payload.len() as u32).to_le_bytes());
        content.extend_from_slice(&entry.payload);
    }
    let body_crc = crc32c::crc32c(&content[FRAME_HEADER..]);
    let body_len = (content.len() - FRAME_HEADER) as u32;
    content[0..4].copy_from_slice(&MARK);
    content[4..8].copy_from_slice(&body_len.to_le_bytes());
    content[8..16].copy_from_slice(&place.first_seq.to_le_bytes());
    content[16..24].copy_from_slice(&place.generation.to_le_bytes());
    content[24..28].copy_from_slice(&(batch.len() as u32).to_le_bytes());
    content[28..32].copy_from_slice(&place.chain.to_le_bytes());
    content[32..36].copy_from_slice(&body_crc.to_le_bytes());
    let crc = crc32c::crc32c_append(place.seed, &content[..36]);
    content[36..40].copy_from_slice(&crc.to_le_bytes());
    content.push(FRAME_END);
    weave(place.offset, content, frame);
    crc
}

/// Shows the records of a body whose checksum was right. Such a body is as we wrote it, so a bad one is only ever met
/// when a newer program wrote something else: it is reported, not trusted.
pub(crate) fn records<'a>(header: &Header, body: &'a [u8]) -> Option<Vec<Record<'a>>> {
    let mut records = Vec::with_capacity((header.count as usize).min(body.len() / RECORD_HEADER));
    let mut rest = body;
    for index in 0..u64::from(header.count) {
        let len = u32_at(rest, 12)? as usize;
        let payload = rest.get(RECORD_HEADER..RECORD_HEADER + len)?;
        records.push(Record {
            seq: header.first_seq.checked_add(index)?,
            at: Timestamp::from_millis(u64_at(rest, 0)?.cast_signed()),
            kind: u16_at(rest, 8)?,
            version: u16_at(rest, 10)?,
            payload,
        });
        rest = &rest[RECORD_HEADER + len..];
    }
    rest.is_empty().then_some(records)
}

/// Bytes that `len` bytes of content take in the file from `offset` on, stamps included. What would end just before
/// a stamp takes that too, so that a frame never starts on one.
pub(crate) fn woven_len(offset: u64, len: usize) -> usize {
    len + (in_sector(offset) + len) / (SECTOR - 1)
}

/// Puts content into its place between the stamps.
pub(crate) fn weave(offset: u64, content: &[u8], woven: &mut Vec<u8>) {
    woven.clear();
    woven.reserve(woven_len(offset, content.len()));
    let (first, rest) = content.split_at((SECTOR - 1 - in_sector(offset)).min(content.len()));
    woven.extend_from_slice(first);
    if in_sector(offset) + first.len() == SECTOR - 1 {
        woven.push(STAMP);
    }
    for part in rest.chunks(SECTOR - 1) {
        woven.extend_from_slice(part);
        if part.len() == SECTOR - 1 {
            woven.push(STAMP);
        }
    }
}

/// Takes the stamps out again; false if one is not what it must be.
pub(crate) fn unweave(offset: u64, woven: &[u8], content: &mut Vec<u8>) -> bool {
    content.clear();
    let mut sound = true;
    let mut take = |chunk: &[u8], full: usize| {
        let (data, stamp) = chunk.split_at(chunk.len().min(full));
        content.extend_from_slice(data);
        sound &= stamp.iter().all(|byte| *byte == STAMP);
    };
    let (first, rest) = woven.split_at((SECTOR - in_sector(offset)).min(woven.len()));
    take(first, SECTOR - 1 - in_sector(offset).min(SECTOR - 1));
    for chunk in rest.chunks(SECTOR) {
        take(chunk, SECTOR - 1);
    }
    sound
}

pub(crate) fn in_sector(offset: u64) -> usize {
    (offset % SECTOR as u64) as usize
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_woven_anywhere_comes_out_again() {
        let content: Vec<u8> = (0..1600).map(|index| index as u8).collect();
        let (mut woven, mut back) = (Vec::new(), Vec::new());
        for offset in 0..511 {
            for len in [0, 1, 40, 509, 510, 511, 512, 1021, 1022, 1023, 1600] {
                weave(offset, &content[..len], &mut woven);
                assert_eq!(woven.len(), woven_len(offset, len), "at {offset}, {len} bytes");
                assert_ne!(
                    in_sector(offset + woven.len() as u64),
                    SECTOR - 1,
                    "a frame would start on a stamp"
                );
                assert!(unweave(offset, &woven, &mut back));
                assert_eq!(back, content[..len]);
            }
        }
    }

    #[test]
    fn a_kibibyte_costs_at_most_sixty_bytes_more() {
        let entry = Entry { at: Timestamp::default(), kind: 1, version: 1, payload: vec![0; 1024] };
        let content = content_len(std::slice::from_ref(&entry));
        let most = (0..511).map(|offset| woven_len(offset, content)).max();
        assert_eq!(most, Some(1084));
    }

    #[test]
    fn marks_have_enough_bits_to_lose_one() {
        assert!([MARK[0], STAMP, FRAME_END].iter().all(|byte| byte.count_ones() >= 4));
    }
}
