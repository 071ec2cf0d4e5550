//! Names of things. Every id is a newtype, prefixed when shown, and safe as a file name.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::limits;

/// An id that is text: checked when read, prefixed when made.
macro_rules! text_id {
    ($(#[$doc:meta])* $id:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
        #[cbor(transparent)]
        #[serde(try_from = "String", into = "String")]
        pub struct $id(#[n(0)] String);

        impl $id {
            /// Makes an id from 128 bits that the caller drew: time first, then chance, so that ids sort by age.
            pub fn from_bits(bits: u128) -> $id {
                $id(format!(concat!($prefix, "_{}"), base32(bits)))
            }

            pub fn parse(text: &str) -> Result<$id, BadId> {
                check_name(text).map(|()| $id(text.to_owned()))
            }

            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $id {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $id {
            type Error = BadId;
            fn try_from(text: String) -> Result<$id, BadId> {
                $id::parse(&text)
            }
        }

        impl From<$id> for String {
            fn from(id: $id) -> String {
                id.0
            }
        }
    };
}

text_id! {
    /// Names one run for ever; also the name of its directory.
    RunId, "run"
}

text_id! {
    /// Names one command sent to a run, so that it is applied once however often it is delivered.
    CommandId, "cmd"
}

/// One tool call of a run, numbered in the order the model asked for them.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(transparent)]
pub struct CallId(#[n(0)] pub u32);

/// One try at a turn or a call, counted from 1. Results of older attempts are dropped.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(transparent)]
pub struct Attempt(#[n(0)] pub u32);

impl Attempt {
    pub const FIRST: Attempt = Attempt(1);

    pub fn first() -> Attempt {
        Attempt::FIRST
    }

    #[must_use]
    pub fn next(self) -> Attempt {
        Attempt(self.0.saturating_add(1))
    }

    pub fn retries(self) -> u32 {
        self.0.saturating_sub(1)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not an id: {why}")]
pub struct BadId {
    pub text: String,
    pub why: &'static str,
}

/// Ids become directory names, so anything that could leave a directory is refused here, once.
fn check_name(text: &str) -> Result<(), BadId> {
    let bad = |why| Err(BadId { text: text.chars().take(80).collect(), why });
    if text.is_empty() {
        return bad("it is empty");
    }
    if text.len() > limits::ID_BYTES_MAX {
        return bad("it is longer than 64 bytes");
    }
    if text.starts_with(['.', '-']) {
        return bad("it starts with a dot or a dash");
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')) {
        return bad("only letters, digits, `-`, `_` and `.` are allowed");
    }
    Ok(())
}

/// Crockford's alphabet in lower case: no letter that reads like a digit, sorts like the number.
fn base32(bits: u128) -> String {
    const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
    (0..26).rev().map(|place| char::from(ALPHABET[(bits >> (place * 5)) as usize & 31])).collect()
}

impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "call_{}", self.0)
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_their_bits_and_parse_back() {
        let early = RunId::from_bits(1 << 80);
        let late = RunId::from_bits(2 << 80);
        assert!(early < late);
        assert_eq!(RunId::parse(early.as_str()), Ok(early));
    }

    #[test]
    fn a_name_that_could_leave_its_directory_is_refused() {
        for text in ["", ".", "..", ".hidden", "a/b", "a\\b", "-rf", "a b", "ü", "a\0", &"x".repeat(65)] {
            assert!(RunId::parse(text).is_err(), "{text:?} was accepted");
        }
        assert!(RunId::parse("harness-abc123").is_ok());
    }
}
