//! What must never be written down: the providers' keys. A tool that prints one has it struck out before the journal, the
//! blobs or the model see it. So has one that prints most of it: long outputs are cut, and the cut may go through a key.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use longhaul_core::evidence::Examination;
use longhaul_core::tool::{Outcome, Output};
use memchr::memmem;
use secrecy::{ExposeSecret, SecretString};

use crate::limits::{SECRET_BYTES_MIN, SECRET_PIECE_BYTES_MIN};

const STRUCK_OUT: &str = "[secret]";

/// Cheap to clone. Its `Debug` shows nothing, because the values are wrapped.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<[SecretString]>);

impl Secrets {
    pub fn new(values: Vec<SecretString>) -> Secrets {
        Secrets(values.into_iter().filter(|value| value.expose_secret().len() >= SECRET_BYTES_MIN).collect())
    }

    pub fn strike<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.strike_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(clean) => Cow::Owned(String::from_utf8_lossy(&clean).into_owned()),
        }
    }

    /// The same for bytes that need not be text.
    pub fn strike_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.0.iter().map(|secret| secret.expose_secret().as_bytes()).fold(
            Cow::Borrowed(bytes),
            |bytes, secret| {
                let places = places(&bytes, secret);
                if places.is_empty() { bytes } else { Cow::Owned(without(&bytes, &places)) }
            },
        )
    }

    pub fn strike_outcome(&self, outcome: Outcome) -> Outcome {
        if self.0.is_empty() {
            return outcome;
        }
        match outcome {
            Outcome::Done { output } => Outcome::Done { output: self.strike_output(output) },
            Outcome::Failed { failure, message, output } => Outcome::Failed {
                failure,
                message: self.strike(&message).into_owned(),
                output: self.strike_output(output),
            },
            Outcome::Unknown { message } => Outcome::Unknown { message: self.strike(&message).into_owned() },
        }
    }

    /// What the harness saw of the work, without keys that verify commands printed.
    pub fn strike_examination(&self, mut found: Examination) -> Examination {
        if self.0.is_empty() {
            return found;
        }
        let strike = |text: &mut String| *text = self.strike(text).into_owned();
        for check in &mut found.checks {
            check.output = self.strike(&check.output).into_owned().into();
            strike(&mut check.ended);
        }
        found.warnings.iter_mut().for_each(strike);
        found.handoff.iter_mut().for_each(strike);
        found.changes.iter_mut().for_each(strike);
        found
    }

    fn strike_output(&self, output: Output) -> Output {
        match self.strike(output.text.as_str()) {
            Cow::Borrowed(_) => output,
            Cow::Owned(clean) => Output { text: clean.into(), ..output },
        }
    }
}

/// Where a secret stands, or a beginning or an end of it, in order and apart from each other.
fn places(bytes: &[u8], secret: &[u8]) -> Vec<Range<usize>> {
    let piece = SECRET_PIECE_BYTES_MIN.min(secret.len());
    let beginnings = memmem::find_iter(bytes, &secret[..piece]).map(|at| {
        let more = bytes[at..].iter().zip(secret).take_while(|(found, sought)| found == sought).count();
        at..at + more
    });
    let mut places: Vec<Range<usize>> = beginnings.collect();
    let ends = memmem::find_iter(bytes, &secret[secret.len() - piece..]).map(|at| {
        let end = at + piece;
        let back = bytes[..end].iter().rev().zip(secret.iter().rev());
        end - back.take_while(|(found, sought)| found == sought).count()..end
    });
    places.extend(ends);
    places.sort_by_key(|place| place.start);
    places.dedup_by(|next, before| {
        let overlaps = next.start < before.end;
        if overlaps {
            before.end = before.end.max(next.end);
        }
        overlaps
    });
    places
}

fn without(bytes: &[u8], places: &[Range<usize>]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(bytes.len());
    let mut start = 0;
    for place in places {
        clean.extend_from_slice(&bytes[start..place.start]);
        clean.extend_from_slice(STRUCK_OUT.as_bytes());
        start = place.end;
    }
    clean.extend_from_slice(&bytes[start..]);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every place of every secret is struck out, in text and in bytes; what is too short to be one is left alone.
    #[test]
    fn secrets_are_struck_out() {
        let secrets = Secrets::new(vec!["sk-canary-1".into(), "short".into()]);
        let text = "a sk-canary-1 b short sk-canary-1";
        assert_eq!(secrets.strike(text), "a [secret] b short [secret]");
        assert_eq!(&*secrets.strike_bytes(text.as_bytes()), b"a [secret] b short [secret]");
        assert!(matches!(secrets.strike_bytes(b"\xff nothing"), Cow::Borrowed(_)));
        assert!(!format!("{secrets:?}").contains("canary"));
    }

    /// A cut through a long key leaves a piece, which is struck out too; what all keys of its kind begin with is not.
    #[test]
    fn pieces_are_struck_out() {
        let secrets = Secrets::new(vec!["sk-canary-0123456789abcdef".into()]);
        let check = |text: &str, clean: &str| assert_eq!(secrets.strike(text), clean);
        check("a sk-canary-0123456[cut]56789abcdef", "a [secret][cut]56789abcdef");
        check("[cut]nary-0123456789abcdef b", "[cut][secret] b");
        check("sk-canary-0123456789abcdefsk-canary-0123456789abcdef", "[secret][secret]");
        check("sk-canary-01234", "sk-canary-01234");
        check("sk-canary-0123456 89abcdef", "[secret] 89abcdef");
        check("sk-canary-0123456789abcd☃", "[secret]☃");
    }
}
