//! A completion that came at once.

use serde::Deserialize;
use serde_json::Value;

use super::super::lenient::{Piece, str_at};
use super::super::reply::{Draft, json_body};
use super::super::{Reply, WireError};
use super::reply::{CARRIED, Message, beside, build, usage};

pub fn plain(body: &[u8]) -> Result<Reply, WireError> {
    let value = json_body(body)?;
    if value.get("error").is_some_and(|error| !error.is_null()) {
        return Err(WireError::from_event(&value));
    }
    let Some(choice) = value.pointer("/choices/0").filter(|choice| choice["message"].is_object()) else {
        return Err(WireError::malformed("the answer has no `choices`"));
    };
    let message = &choice["message"];
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let carried = CARRIED.into_iter().filter_map(|key| {
        let value = message.get(key).filter(|value| !value.is_null())?;
        Some((key.to_owned(), value.clone()))
    });
    Ok(build(Message {
        id: str_at(&value, "id").to_owned(),
        model: str_at(&value, "model").to_owned(),
        text: text(&message["content"])?,
        refusal: str_at(message, "refusal").to_owned(),
        carried: carried.collect(),
        calls: calls.map(draft).collect::<Result<_, _>>()?,
        finish_reason: str_at(choice, "finish_reason").to_owned(),
        usage: usage(&value["usage"]),
    }))
}

fn draft(call: &Value) -> Result<Draft, WireError> {
    let function = &call["function"];
    Ok(Draft {
        id: str_at(call, "id").to_owned(),
        name: str_at(function, "name").to_owned(),
        args: text(&function["arguments"])?,
        beside: beside(call.as_object().into_iter().flatten()),
    })
}

/// Text in any of the forms servers send it.
fn text(value: &Value) -> Result<String, WireError> {
    let piece = Piece::deserialize(value);
    let piece = piece.map_err(|error| WireError::malformed(format!("a text is not readable: {error}")))?;
    Ok(piece.0.into_owned())
}
