//! JSON carried through unread: tool arguments, imported documents. Kept as text, so that nothing is lost or reordered.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::text::Text;

/// One valid JSON text.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Json(#[n(0)] Text);

impl Json {
    /// Takes text that must already be JSON.
    pub fn parse(text: impl Into<String>) -> Result<Json, serde_json::Error> {
        let text = text.into();
        serde_json::from_str::<&RawValue>(&text)?;
        Ok(Json(text.into()))
    }

    pub fn of(value: &Value) -> Json {
        Json(value.to_string().into())
    }

    pub(crate) fn written(text: Box<RawValue>) -> Json {
        Json(String::from(Box::<str>::from(text)).into())
    }

    /// The same laid out in lines, as serde_json does it, but with every number as it was written.
    pub fn pretty(&self) -> String {
        let mut pretty = String::with_capacity(self.0.len() * 2);
        let (mut depth, mut in_text, mut is_escaped) = (0_usize, false, false);
        let mut letters = self.0.chars().peekable();
        while let Some(letter) = letters.next() {
            if in_text {
                pretty.push(letter);
                in_text = is_escaped || letter != '"';
                is_escaped = !is_escaped && letter == '\\';
                continue;
            }
            match letter {
                ' ' | '\n' | '\r' | '\t' => {}
                '{' | '[' => {
                    pretty.push(letter);
                    while letters.next_if(char::is_ascii_whitespace).is_some() {}
                    if let Some(end) = letters.next_if(|next| matches!(next, '}' | ']')) {
                        pretty.push(end);
                    } else {
                        depth += 1;
                        new_line(&mut pretty, depth);
                    }
                }
                '}' | ']' => {
                    depth = depth.saturating_sub(1);
                    new_line(&mut pretty, depth);
                    pretty.push(letter);
                }
                ',' => {
                    pretty.push(letter);
                    new_line(&mut pretty, depth);
                }
                ':' => pretty.push_str(": "),
                _ => {
                    in_text = letter == '"';
                    pretty.push(letter);
                }
            }
        }
        pretty
    }

    pub fn empty_object() -> Json {
        Json("{}".into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value; a text damaged behind our back reads as null.
    pub fn value(&self) -> Value {
        serde_json::from_str(&self.0).unwrap_or(Value::Null)
    }

    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }
}

fn new_line(text: &mut String, depth: usize) {
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.value().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        Ok(Json::of(&Value::deserialize(deserializer)?))
    }
}
