//! Events as bytes and back: CBOR with numbered fields, filed under a kind and a schema version.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use crate::event::Event;
use crate::upgrade;

/// Brings the payload of one kind from one schema version to the next; nothing if it is the same in both.
type Upgrade = fn(kind: u16, payload: &[u8]) -> Result<Option<Vec<u8>>, String>;

/// The upgrades there have been: the first from version 1 to 2, and so on. A new optional field needs none.
const UPGRADES: [Upgrade; 1] = [upgrade::to_2];

/// The schema version written today. Older ones are brought up to it when read; newer ones are refused by number.
pub const VERSION: u16 = UPGRADES.len() as u16 + 1;
/// The kinds this build knows. What lies between them was never written.
pub const KINDS: [RangeInclusive<u16>; 6] = [0..=43, 50..=51, 55..=58, 61..=64, 68..=68, 71..=76];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "event {seq} has schema version {version}, and this longhaul knows up to {VERSION}; use a newer longhaul"
    )]
    TooNew { seq: u64, version: u16 },
    #[error("event {seq} is of kind {kind}, which this longhaul does not know; use a newer longhaul")]
    UnknownKind { seq: u64, kind: u16 },
    #[error("event {seq} cannot be read: {why}")]
    Malformed { seq: u64, why: String },
}

impl Error {
    /// Was this written by a newer longhaul, rather than damaged?
    pub fn is_newer(&self) -> bool {
        match self {
            Error::TooNew { .. } | Error::UnknownKind { .. } => true,
            Error::Malformed { .. } => false,
        }
    }
}

pub fn encode(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    // Writing to a vector cannot fail, and every field type is ours.
    if minicbor::encode(event, &mut bytes).is_err() {
        bytes.clear();
    }
    bytes
}

pub fn decode(seq: u64, kind: u16, version: u16, payload: &[u8]) -> Result<Event, Error> {
    if !KINDS.iter().any(|known| known.contains(&kind)) && version <= VERSION {
        return Err(Error::UnknownKind { seq, kind });
    }
    let payload = &*upgraded(&UPGRADES, seq, kind, version, payload)?;
    let event: Event =
        minicbor::decode(payload).map_err(|error| Error::Malformed { seq, why: error.to_string() })?;
    if event.kind() == kind {
        Ok(event)
    } else {
        Err(Error::Malformed { seq, why: format!("filed as kind {kind}, holds kind {}", event.kind()) })
    }
}

/// Takes a payload through every upgrade from its version on. Nothing is rewritten on disk: old journals stay as they are.
fn upgraded<'a>(
    upgrades: &[Upgrade],
    seq: u64,
    kind: u16,
    version: u16,
    payload: &'a [u8],
) -> Result<Cow<'a, [u8]>, Error> {
    let malformed = |why: String| Error::Malformed { seq, why };
    let Some(done) = usize::from(version).checked_sub(1) else {
        return Err(malformed("no longhaul ever wrote schema version 0".to_owned()));
    };
    let missing = upgrades.get(done..).ok_or(Error::TooNew { seq, version })?;
    missing.iter().try_fold(Cow::Borrowed(payload), |payload, upgrade| {
        Ok(upgrade(kind, &payload).map_err(malformed)?.map_or(payload, Cow::Owned))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A2.5: a payload of an older version goes through every upgrade after it, in order; the newest through none.
    #[test]
    fn older_versions_are_upgraded_in_order() {
        let upgrades: [Upgrade; 2] = [
            |_, payload| Ok(Some([payload, b"2"].concat())),
            |_, payload| Ok(Some([payload, b"3"].concat())),
        ];
        for (version, expected) in [(1, "x23"), (2, "x3"), (3, "x")] {
            assert_eq!(&*upgraded(&upgrades, 1, 0, version, b"x").unwrap(), expected.as_bytes());
        }
        assert_eq!(upgraded(&upgrades, 9, 0, 4, b"x"), Err(Error::TooNew { seq: 9, version: 4 }));
        assert!(matches!(upgraded(&upgrades, 9, 0, 0, b"x"), Err(Error::Malformed { .. })));
    }
}
