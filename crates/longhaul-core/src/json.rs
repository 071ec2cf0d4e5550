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
