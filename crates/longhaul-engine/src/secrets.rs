//! What must never be written down: the providers' keys. A tool that prints one has it struck out before the journal, the
//! blobs or the model see it.

use std::borrow::Cow;
use std::sync::Arc;

use longhaul_core::tool::{Outcome, Output};
use secrecy::{ExposeSecret, SecretString};

use crate::limits::SECRET_BYTES_MIN;

const STRUCK_OUT: &str = "[secret]";

/// Cheap to clone. Its `Debug` shows nothing, because the values are wrapped.
#[derive(Clone, Debug, Default)]
pub struct Secrets(Arc<[SecretString]>);

impl Secrets {
    pub fn new(values: Vec<SecretString>) -> Secrets {
        Secrets(values.into_iter().filter(|value| value.expose_secret().len() >= SECRET_BYTES_MIN).collect())
    }

    pub fn strike<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.0.iter().map(ExposeSecret::expose_secret).fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret) { Cow::Owned(text.replace(secret, STRUCK_OUT)) } else { text }
        })
    }

    /// The same for bytes that need not be text.
    pub fn strike_bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        self.0.iter().map(|secret| secret.expose_secret().as_bytes()).fold(
            Cow::Borrowed(bytes),
            |bytes, secret| match replaced(&bytes, secret) {
                Some(clean) => Cow::Owned(clean),
                None => bytes,
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

    fn strike_output(&self, output: Output) -> Output {
        match self.strike(output.text.as_str()) {
            Cow::Borrowed(_) => output,
            Cow::Owned(clean) => Output { text: clean.into(), ..output },
        }
    }
}

fn replaced(bytes: &[u8], secret: &[u8]) -> Option<Vec<u8>> {
    let mut places = memchr::memmem::find_iter(bytes, secret).peekable();
    places.peek()?;
    let mut clean = Vec::with_capacity(bytes.len());
    let mut start = 0;
    for place in places {
        clean.extend_from_slice(&bytes[start..place]);
        clean.extend_from_slice(STRUCK_OUT.as_bytes());
        start = place + secret.len();
    }
    clean.extend_from_slice(&bytes[start..]);
    Some(clean)
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
}
