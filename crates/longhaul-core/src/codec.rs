//! Events as bytes and back: CBOR with numbered fields, filed under a kind and a schema version.

use crate::event::Event;

/// The schema version written today. Older ones are brought up to it when read; newer ones are refused by number.
pub const VERSION: u16 = 1;
/// The largest kind this build knows.
pub const KIND_MAX: u16 = 24;

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
    if version > VERSION {
        return Err(Error::TooNew { seq, version });
    }
    if kind > KIND_MAX {
        return Err(Error::UnknownKind { seq, kind });
    }
    let event: Event =
        minicbor::decode(payload).map_err(|error| Error::Malformed { seq, why: error.to_string() })?;
    if event.kind() == kind {
        Ok(event)
    } else {
        Err(Error::Malformed { seq, why: format!("filed as kind {kind}, holds kind {}", event.kind()) })
    }
}
