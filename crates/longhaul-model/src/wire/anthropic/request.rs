//! A request as Anthropic Messages takes it.
//!
//! How a growing conversation is read from cache, turn after turn. The service caches prefixes: tools, then system,
//! then messages, up to a block with a `cache_control` marker. The marker is not part of what is compared, so moving it
//! changes no prefix; everything else about an earlier turn must keep its bytes, and does, because each turn is encoded
//! from itself (and from the ids before it) alone. Four markers are allowed. The first never moves: it ends the system
//! text (or the tools, if there is none), which all runs of one agent share. The others end the latest three messages
//! of the user's side. The newest writes what the next turn will read; the one before it sits where the previous turn
//! wrote, so the read is found there directly. With the newest alone it would be searched for, but only over twenty
//! blocks, and a turn with eleven parallel calls has more. The third does the same for a turn that is asked again after
//! its tail was taken back.

use serde_json::{Map, Value, json};

use super::super::args;
use super::super::encode::{CallIds, merge, object};
use super::super::lenient::str_at;
use super::super::limits::{CACHE_MARKERS_MAX, OUTPUT_TOKENS_DEFAULT};
use super::super::{Api, Call, Request, ToolOffer, ToolResult, Turn};

pub fn encode(request: &Request) -> Value {
    let max_tokens = request.max_output_tokens.unwrap_or(OUTPUT_TOKENS_DEFAULT);
    let mut body = object([
        ("model", Value::from(request.model.as_str())),
        ("max_tokens", Value::from(max_tokens)),
        ("messages", Value::Array(messages(&request.turns))),
        ("stream", Value::from(request.stream)),
    ]);
    if !request.system.is_empty() {
        body.insert("system".to_owned(), json!([{"type": "text", "text": request.system}]));
    }
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if let Some(schema) = &request.answer_schema {
        body.insert("output_config".to_owned(), json!({"format": {"type": "json_schema", "schema": schema}}));
    }
    mark(&mut body);
    merge(&mut body, &request.extra);
    Value::Object(body)
}

fn tool(offer: &ToolOffer) -> Value {
    json!({"name": offer.name, "description": offer.description, "input_schema": offer.schema})
}

fn messages(turns: &[Turn]) -> Vec<Value> {
    let mut ids = CallIds::default();
    turns.iter().filter_map(|turn| message(turn, &mut ids)).collect()
}

/// One message. A turn with nothing in it that the service would accept is left out; its neighbours on the user's side
/// are joined by the service.
fn message(turn: &Turn, ids: &mut CallIds) -> Option<Value> {
    let (role, content) = match turn {
        Turn::User { text } => ("user", vec![json!({"type": "text", "text": text})]),
        Turn::ToolResults(results) => {
            ("user", results.iter().map(|result| tool_result(result, ids)).collect())
        }
        Turn::Assistant { raw: Some(raw), .. } if raw.api == Api::Anthropic => {
            ("assistant", replay(&raw.content, ids))
        }
        Turn::Assistant { text, calls, raw: _ } => ("assistant", rebuild(text, calls, ids)),
    };
    (!content.is_empty()).then(|| json!({"role": role, "content": content}))
}

/// The blocks as they came, without those the service sends but does not take back: empty texts, and thinking that
/// nothing follows (a reply cut off while thinking).
fn replay(content: &Value, ids: &mut CallIds) -> Vec<Value> {
    let is_blank = |block: &Value| str_at(block, "type") == "text" && str_at(block, "text").trim().is_empty();
    let is_thinking = |block: &Value| matches!(str_at(block, "type"), "thinking" | "redacted_thinking");
    let mut blocks: Vec<Value> =
        content.as_array().into_iter().flatten().filter(|block| !is_blank(block)).cloned().collect();
    while blocks.last().is_some_and(is_thinking) {
        blocks.pop();
    }
    for block in blocks.iter().filter(|block| str_at(block, "type") == "tool_use") {
        ids.keep(str_at(block, "id"));
    }
    blocks
}

fn rebuild(text: &str, calls: &[Call], ids: &mut CallIds) -> Vec<Value> {
    let text = (!text.trim().is_empty()).then(|| json!({"type": "text", "text": text}));
    let tool_use = |call: &Call| {
        let id = ids.call(&call.provider_id);
        json!({"type": "tool_use", "id": id, "name": call.name, "input": args::object(&call.args)})
    };
    text.into_iter().chain(calls.iter().map(tool_use)).collect()
}

fn tool_result(result: &ToolResult, ids: &CallIds) -> Value {
    let text = (!result.text.is_empty()).then(|| json!({"type": "text", "text": result.text}));
    let images = result.images.iter().map(|image| {
        json!({"type": "image", "source":
            {"type": "base64", "media_type": image.media_type, "data": image.base64}})
    });
    let content: Vec<Value> = text.into_iter().chain(images).collect();
    let mut block = object([
        ("type", Value::from("tool_result")),
        ("tool_use_id", Value::from(ids.result(&result.provider_id))),
        ("content", Value::Array(content)),
    ]);
    if result.failed {
        block.insert("is_error".to_owned(), Value::Bool(true));
    }
    Value::Object(block)
}

fn mark(body: &mut Map<String, Value>) {
    let head = if body.contains_key("system") { "system" } else { "tools" };
    if let Some(Value::Array(blocks)) = body.get_mut(head) {
        mark_last(blocks);
    }
    let Some(Value::Array(messages)) = body.get_mut("messages") else { return };
    let user_side = messages.iter_mut().rev().filter(|message| str_at(message, "role") == "user");
    for message in user_side.take(CACHE_MARKERS_MAX - 1) {
        if let Some(Value::Array(blocks)) = message.get_mut("content") {
            mark_last(blocks);
        }
    }
}

fn mark_last(blocks: &mut [Value]) {
    if let Some(Value::Object(block)) = blocks.last_mut() {
        block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}
