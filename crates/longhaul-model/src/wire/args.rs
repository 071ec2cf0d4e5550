//! Arguments of a call: read strictly for us, made harmless for the way back.
//!
//! It owns the answer to "may this be executed": only a whole JSON object is. It refuses to repair anything.

use longhaul_core::json::Json;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use super::limits::{ARGS_BYTES_MAX, MALFORMED_ARGS_BYTES_MAX};
use super::{Kind, WireError};

/// Arguments that are no JSON object. The call is answered with this as its error, so that the model can try again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("arguments are {reason}")]
pub struct MalformedArgs {
    pub reason: String,
    /// What the model wrote, cut to a bound.
    pub text: String,
}

/// Reads arguments. Nothing at all is an empty object: several servers send that for a tool without parameters.
pub(super) fn read(text: &str) -> Result<Json, MalformedArgs> {
    let trimmed = text.trim();
    if trimmed.is_empty() {
        return Ok(Json::empty_object());
    }
    let malformed = |reason: String| MalformedArgs { reason, text: cut(text, MALFORMED_ARGS_BYTES_MAX) };
    match serde_json::from_str::<Value>(trimmed) {
        Ok(Value::Object(_)) => Json::parse(trimmed).map_err(|error| malformed(format!("not JSON: {error}"))),
        Ok(other) => Err(malformed(format!("not an object but {}", kind_of(&other)))),
        Err(error) => Err(malformed(format!("not JSON: {error}"))),
    }
}

/// The arguments as an object that every server accepts in history. What was malformed is wrapped, in the form
/// Anthropic's documentation suggests, so that the model still sees what it wrote.
pub(super) fn replayable(args: &Result<Json, MalformedArgs>) -> Value {
    match args {
        Ok(json) => object(json),
        Err(malformed) => wrapped(&malformed.text),
    }
}

/// The same for a call of an earlier turn.
pub(super) fn object(args: &Json) -> Value {
    match args.value() {
        object @ Value::Object(_) => object,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            wrapped(args.as_str())
        }
    }
}

/// The same for the protocols that carry arguments as text: the model's own, unless they are no object.
pub(super) fn text(args: &Json) -> String {
    match args.value() {
        Value::Object(_) => args.as_str().to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            wrapped(args.as_str()).to_string()
        }
    }
}

/// Adds a piece of arguments, within bounds.
pub(super) fn append(text: &mut String, piece: &str) -> Result<(), WireError> {
    if text.len() + piece.len() > ARGS_BYTES_MAX {
        return Err(WireError::new(
            Kind::TooLarge,
            format!("arguments of a call exceed {ARGS_BYTES_MAX} bytes"),
        ));
    }
    text.push_str(piece);
    Ok(())
}

/// Is the text a whole object already, so that nothing can follow that belongs to it?
pub(super) fn is_whole(text: &str) -> bool {
    let text = text.trim();
    // Only what ends like one is looked at: a server that repeats a name with every piece asks often.
    text.starts_with('{') && text.ends_with('}') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// At most `bytes` of `text`, cut between characters.
pub(super) fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

fn wrapped(text: &str) -> Value {
    let mut object = Map::new();
    object.insert("INVALID_JSON".to_owned(), Value::from(text));
    Value::Object(object)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}
