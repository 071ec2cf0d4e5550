//! A request as OpenAI Responses takes it.
//!
//! The cache needs no markers here: the service reads the longest prefix it has seen, in steps of some hundred tokens,
//! if the request reaches the machine that saw it. So the earlier turns keep their bytes, and `prompt_cache_key` sends
//! all turns of one conversation the same way. The key is computed from what never changes in a conversation.

use serde_json::{Value, json};

use super::super::args;
use super::super::encode::{CallIds, merge, object, strict};
use super::super::lenient::str_at;
use super::super::{Api, Call, Request, ToolOffer, ToolResult, Turn};

pub fn encode(request: &Request) -> Value {
    let mut body = object([
        ("model", Value::from(request.model.as_str())),
        ("input", Value::Array(input(&request.turns))),
        ("stream", Value::from(request.stream)),
        ("store", Value::Bool(false)),
        ("prompt_cache_key", Value::from(cache_key(request))),
    ]);
    if !request.manners.thoughtless {
        body.insert("include".to_owned(), json!(["reasoning.encrypted_content"]));
    }
    if !request.system.is_empty() {
        body.insert("instructions".to_owned(), Value::from(request.system.as_str()));
    }
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if let Some(tokens) = request.max_output_tokens {
        body.insert("max_output_tokens".to_owned(), Value::from(tokens));
    }
    if let Some(schema) = &request.answer_schema {
        let format =
            json!({"type": "json_schema", "name": "answer", "schema": schema, "strict": strict(schema)});
        body.insert("text".to_owned(), json!({"format": format}));
    }
    merge(&mut body, &request.extra);
    Value::Object(body)
}

/// Not strict, because the service would otherwise make every optional parameter required.
fn tool(offer: &ToolOffer) -> Value {
    json!({"type": "function", "name": offer.name, "description": offer.description,
        "parameters": offer.schema, "strict": false})
}

fn input(turns: &[Turn]) -> Vec<Value> {
    let mut ids = CallIds::default();
    turns.iter().flat_map(|turn| items(turn, &mut ids)).collect()
}

fn items(turn: &Turn, ids: &mut CallIds) -> Vec<Value> {
    match turn {
        Turn::User { text } => {
            vec![
                json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}),
            ]
        }
        Turn::ToolResults(results) => results.iter().map(|result| output(result, ids)).collect(),
        Turn::Assistant { raw: Some(raw), .. } if raw.api == Api::Responses => replay(&raw.content, ids),
        Turn::Assistant { text, calls, raw: _ } => rebuild(text, calls, ids),
    }
}

/// The items as they came, without reasoning that nothing follows (a reply cut off while reasoning), which the service
/// sends but does not take back.
fn replay(content: &Value, ids: &mut CallIds) -> Vec<Value> {
    let mut items = content.as_array().cloned().unwrap_or_default();
    while items.last().is_some_and(|item| str_at(item, "type") == "reasoning") {
        items.pop();
    }
    for item in items.iter().filter(|item| str_at(item, "type") == "function_call") {
        ids.keep(str_at(item, "call_id"));
    }
    items
}

fn rebuild(text: &str, calls: &[Call], ids: &mut CallIds) -> Vec<Value> {
    let message = (!text.is_empty()).then(|| {
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
    });
    let function_call = |call: &Call| {
        let id = ids.call(&call.provider_id);
        json!({"type": "function_call", "call_id": id, "name": call.name, "arguments": args::text(&call.args)})
    };
    message.into_iter().chain(calls.iter().map(function_call)).collect()
}

/// Plain text where it suffices; a list of parts only for images, which not every server of this protocol knows.
fn output(result: &ToolResult, ids: &CallIds) -> Value {
    let call_id = ids.result(&result.provider_id);
    if result.images.is_empty() {
        return json!({"type": "function_call_output", "call_id": call_id, "output": result.text});
    }
    let text = (!result.text.is_empty()).then(|| json!({"type": "input_text", "text": result.text}));
    let images = result.images.iter().map(|image| {
        let url = format!("data:{};base64,{}", image.media_type, image.base64);
        json!({"type": "input_image", "image_url": url})
    });
    let parts: Vec<Value> = text.into_iter().chain(images).collect();
    json!({"type": "function_call_output", "call_id": call_id, "output": parts})
}

/// FNV-1a over the parts of a request that stay: enough to tell conversations apart, and the same on every machine.
fn cache_key(request: &Request) -> String {
    let first = match request.turns.first() {
        Some(Turn::User { text }) => text.as_str(),
        Some(Turn::Assistant { text, .. }) => text.as_str(),
        Some(Turn::ToolResults(_)) | None => "",
    };
    let tools = request.tools.iter().map(|offer| offer.name.as_str());
    let parts = [request.model.as_str(), request.system.as_str(), first].into_iter().chain(tools);
    let hash = parts.fold(0xcbf2_9ce4_8422_2325u64, |hash, part| {
        part.bytes()
            .chain([0])
            .fold(hash, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    });
    format!("longhaul-{hash:016x}")
}
