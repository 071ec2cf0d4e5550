//! A run's events as one file, to carry from one state directory to another: every byte of every event, sealed by a hash.

use longhaul_core::codec;
use longhaul_core::event::Event;
use longhaul_core::time::Timestamp;

use crate::error::Error;
use crate::fold::entry;

const MAGIC: &[u8; 8] = b"LHEXPRT1";
const HASH_BYTES: usize = 32;
const HEADER_BYTES: usize = 16;

/// Everything of a run that is not derived.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Export {
    pub events: Vec<(Timestamp, Event)>,
    /// Large outputs, named by their contents.
    pub blobs: Vec<Vec<u8>>,
}

/// Magic, the number of events, the events, then blobs to the end, each with its length; then the hash of all that.
pub fn write(export: &Export) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend((export.events.len() as u64).to_le_bytes());
    for (at, event) in &export.events {
        let entry = entry(*at, event);
        bytes.extend(entry.at.as_millis().to_le_bytes());
        bytes.extend(entry.kind.to_le_bytes());
        bytes.extend(entry.version.to_le_bytes());
        bytes.extend((entry.payload.len() as u32).to_le_bytes());
        bytes.extend(entry.payload);
    }
    for blob in &export.blobs {
        bytes.extend((blob.len() as u64).to_le_bytes());
        bytes.extend(blob);
    }
    let hash = blake3::hash(&bytes);
    bytes.extend(hash.as_bytes());
    bytes
}

/// Reads an export. `path` is only for telling where it came from.
pub fn read(path: &str, bytes: &[u8]) -> Result<Export, Error> {
    let wrong = |why: String| Error::Export { path: path.to_owned(), why };
    let sealed = bytes.len().checked_sub(HASH_BYTES).filter(|length| *length >= MAGIC.len());
    let (body, hash) = bytes.split_at(sealed.ok_or_else(|| wrong("it is too short".to_owned()))?);
    let Some(rest) = body.strip_prefix(MAGIC) else {
        return Err(wrong("it does not begin like one".to_owned()));
    };
    if blake3::hash(body).as_bytes() != hash {
        return Err(wrong("its contents do not match its hash; it was changed or cut off".to_owned()));
    }
    read_body(rest).map_err(wrong)
}

fn read_body(bytes: &[u8]) -> Result<Export, String> {
    let mut export = Export::default();
    let (count, mut rest) = split_u64(bytes)?;
    for seq in 1..=count {
        let (event, at, length) = read_one(seq, rest)?;
        export.events.push((at, event));
        rest = &rest[length..];
    }
    while !rest.is_empty() {
        let (length, after) = split_u64(rest)?;
        let length = usize::try_from(length).map_err(|_| "a blob is cut off")?;
        let (blob, after) = after.split_at_checked(length).ok_or("a blob is cut off")?;
        export.blobs.push(blob.to_vec());
        rest = after;
    }
    Ok(export)
}

fn split_u64(bytes: &[u8]) -> Result<(u64, &[u8]), String> {
    let (number, rest) = bytes.split_first_chunk().ok_or("a number is cut off")?;
    Ok((u64::from_le_bytes(*number), rest))
}

fn read_one(seq: u64, bytes: &[u8]) -> Result<(Event, Timestamp, usize), String> {
    let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or("a record is cut off")?;
    let [a, b, c, d, e, f, g, h, k0, k1, v0, v1, l0, l1, l2, l3] = *header;
    let at = Timestamp::from_millis(i64::from_le_bytes([a, b, c, d, e, f, g, h]));
    let (kind, version) = (u16::from_le_bytes([k0, k1]), u16::from_le_bytes([v0, v1]));
    let end = HEADER_BYTES + u32::from_le_bytes([l0, l1, l2, l3]) as usize;
    let payload = bytes.get(HEADER_BYTES..end).ok_or("a record is cut off")?;
    let event = codec::decode(seq, kind, version, payload).map_err(|error| error.to_string())?;
    Ok((event, at, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A2.3: a binary export reads back equal, and any changed bit is noticed.
    #[test]
    fn every_flipped_bit_is_noticed() {
        let events = vec![
            (Timestamp::from_millis(5), Event::PlanCompleted),
            (Timestamp::from_millis(6), Event::Checkpointed { number: 3 }),
        ];
        let export = Export { events, blobs: vec![b"large".to_vec(), Vec::new()] };
        let bytes = write(&export);
        assert_eq!(read("x", &bytes).unwrap(), export);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(read("x", &flipped).is_err(), "bit {bit}");
        }
        for length in 0..bytes.len() {
            assert!(read("x", &bytes[..length]).is_err(), "length {length}");
        }
    }
}
