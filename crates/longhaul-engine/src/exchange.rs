//! A run's events as one file, to carry from one state directory to another: every byte of every event, sealed by a hash.

use longhaul_core::codec;
use longhaul_core::event::Event;
use longhaul_core::time::Timestamp;

use crate::error::Error;
use crate::fold::entry;

const MAGIC: &[u8; 8] = b"LHEXPRT1";
const HASH_BYTES: usize = 32;
const HEADER_BYTES: usize = 16;

pub fn write<'a>(events: impl IntoIterator<Item = &'a (Timestamp, Event)>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for (at, event) in events {
        let entry = entry(*at, event);
        bytes.extend(entry.at.as_millis().to_le_bytes());
        bytes.extend(entry.kind.to_le_bytes());
        bytes.extend(entry.version.to_le_bytes());
        bytes.extend((entry.payload.len() as u32).to_le_bytes());
        bytes.extend(entry.payload);
    }
    let hash = blake3::hash(&bytes);
    bytes.extend(hash.as_bytes());
    bytes
}

/// Reads an export. `path` is only for telling where it came from.
pub fn read(path: &str, bytes: &[u8]) -> Result<Vec<(Timestamp, Event)>, Error> {
    let wrong = |why: String| Error::Export { path: path.to_owned(), why };
    let sealed = bytes.len().checked_sub(HASH_BYTES).filter(|length| *length >= MAGIC.len());
    let (body, hash) = bytes.split_at(sealed.ok_or_else(|| wrong("it is too short".to_owned()))?);
    let Some(mut rest) = body.strip_prefix(MAGIC) else {
        return Err(wrong("it does not begin like one".to_owned()));
    };
    if blake3::hash(body).as_bytes() != hash {
        return Err(wrong("its contents do not match its hash; it was changed or cut off".to_owned()));
    }
    let mut events = Vec::new();
    while !rest.is_empty() {
        let seq = events.len() as u64 + 1;
        let (event, at, length) = read_one(seq, rest)
            .map_err(|why| wrong(format!("at byte {}: {why}", body.len() - rest.len())))?;
        events.push((at, event));
        rest = &rest[length..];
    }
    Ok(events)
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
        let bytes = write(&events);
        assert_eq!(read("x", &bytes).unwrap(), events);
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
