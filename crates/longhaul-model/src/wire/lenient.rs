//! Fields as servers really send them. It owns tolerance for what compatible servers vary (null, missing, text in
//! parts, an object where a string belongs) and refuses what cannot be read without guessing.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// A string, borrowed from the event where it has no escapes. Null and missing are empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Piece<'a>(pub Cow<'a, str>);

impl Piece<'_> {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Piece<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Piece<'a>, D::Error> {
        deserializer.deserialize_any(PieceVisitor).map(Piece)
    }
}

struct PieceVisitor;

impl<'de> Visitor<'de> for PieceVisitor {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, parts of text or null")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(text))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(text.to_owned()))
    }

    fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(""))
    }

    /// A number where an error has its code.
    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    /// Some servers send a message's text as parts.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut text = String::new();
        while let Some(part) = seq.next_element::<Value>()? {
            text.push_str(part.as_str().unwrap_or_else(|| str_at(&part, "text")));
        }
        Ok(Cow::Owned(text))
    }

    /// Some servers send arguments as an object instead of its text.
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut object = Map::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            object.insert(key, value);
        }
        Ok(Cow::Owned(Value::Object(object).to_string()))
    }
}

/// The string at `key`; empty if there is none.
pub(super) fn str_at<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

/// The count at `key`; zero if there is none.
pub(super) fn count_at(value: &Value, key: &str) -> u64 {
    count(value.get(key)).unwrap_or(0)
}

/// A count, also if written with a point.
pub(super) fn count(value: Option<&Value>) -> Option<u64> {
    let number = value?;
    number.as_u64().or_else(|| number.as_f64().filter(|float| *float >= 0.0).map(|float| float as u64))
}
