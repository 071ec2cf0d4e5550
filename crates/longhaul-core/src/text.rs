//! Text that is kept once. What a tool answered is part of its call and of the conversation, and what it was called with
//! of the reply, the call and the work in hand; all of them share the same bytes.
//!
//! Owns also which letters a reader would not see, for everyone who shows text to a person.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use minicbor::decode::{self, Decoder};
use minicbor::encode::{self, Encoder, Write};
use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// Cheap to clone. In the journal it is a string like any other.
#[derive(Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Text(Arc<str>);

impl Text {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        Text(text.into())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text(text.into())
    }
}

impl PartialEq<str> for Text {
    fn eq(&self, other: &str) -> bool {
        *self.0 == *other
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        *self.0 == **other
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<C> Encode<C> for Text {
    fn encode<W: Write>(&self, encoder: &mut Encoder<W>, _: &mut C) -> Result<(), encode::Error<W::Error>> {
        encoder.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Text {
    fn decode(decoder: &mut Decoder<'b>, _: &mut C) -> Result<Text, decode::Error> {
        decoder.str().map(Text::from)
    }
}

/// The text with everything written out that a reader would not see: control characters, directions, tags.
pub fn visible(text: &str) -> String {
    written_out(text, |letter| is_unseen(letter) || (letter.is_control() && !matches!(letter, '\n' | '\t')))
}

/// The text with directions, tags and letters without width written out, so that it is read as it would be obeyed. Control
/// characters stay: whoever prints has an eye on those, and colours are made of them.
pub fn undisguised(text: &str) -> String {
    written_out(text, is_unseen)
}

fn written_out(text: &str, hides: impl Fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut before = None;
    for letter in text.chars() {
        // Models end many a symbol with this one, which asks for its coloured form; a second one or one after a letter is odd.
        let is_form =
            letter == '\u{FE0F}' && before.is_some_and(|one: char| !one.is_ascii() && !is_unseen(one));
        match letter {
            // The one of them that people know by a name of its own.
            '\r' if hides(letter) => shown.push_str("\\r"),
            _ if hides(letter) && !is_form => shown.extend(letter.escape_unicode()),
            _ => shown.push(letter),
        }
        before = Some(letter);
    }
    shown
}

fn is_unseen(letter: char) -> bool {
    matches!(letter,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{180E}' | '\u{FEFF}'
        | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}'
        | '\u{FE00}'..='\u{FE0F}' | '\u{FFF0}'..='\u{FFFB}' | '\u{E0000}'..='\u{E0FFF}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A54, A68: what a person would not see is written out; a symbol keeps its coloured form.
    #[test]
    fn nothing_is_hidden_from_a_reader() {
        assert_eq!(
            visible("a\u{E0041}b\u{200B}\u{202E}c\u{1b}\u{85}\t\r\n"),
            "a\\u{e0041}b\\u{200b}\\u{202e}c\\u{1b}\\u{85}\t\\r\n"
        );
        assert_eq!(undisguised("\u{1b}[1mrm\u{202E} x"), "\u{1b}[1mrm\\u{202e} x");
        assert_eq!(undisguised("\u{26A0}\u{FE0F} a\u{FE0F}"), "\u{26A0}\u{FE0F} a\\u{fe0f}");
        assert_eq!(undisguised("\u{26A0}\u{FE0F}\u{FE0F}"), "\u{26A0}\u{FE0F}\\u{fe0f}");
    }
}
