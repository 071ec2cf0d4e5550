//! A message that came at once.

use serde_json::Value;

use super::super::lenient::str_at;
use super::super::reply::json_body;
use super::super::{Reply, WireError};
use super::reply::{Block, Message, build, count_into};

pub fn plain(body: &[u8]) -> Result<Reply, WireError> {
    let value = json_body(body)?;
    if str_at(&value, "type") == "error" || value.get("error").is_some_and(|error| !error.is_null()) {
        return Err(WireError::from_event(&value));
    }
    let Some(content) = value.get("content").and_then(Value::as_array) else {
        return Err(WireError::malformed("the answer has no `content`"));
    };
    let mut message = Message {
        id: str_at(&value, "id").to_owned(),
        model: str_at(&value, "model").to_owned(),
        blocks: content.iter().filter_map(block).collect(),
        stop_reason: str_at(&value, "stop_reason").to_owned(),
        stop_details: value.get("stop_details").cloned().unwrap_or_default(),
        ..Message::default()
    };
    count_into(&mut message.usage, &value["usage"]);
    Ok(build(message))
}

fn block(content: &Value) -> Option<Block> {
    let args = content.get("input").filter(|input| !input.is_null()).map(Value::to_string);
    Some(Block { content: content.as_object()?.clone(), args })
}
