//! A request as Chat Completions takes it.
//!
//! Servers of this protocol cache prefixes by themselves. All that is needed is that earlier messages keep their bytes,
//! which they do: each is encoded from its own turn and the ids before it. Only fields that every known server takes
//! are sent; what one provider wants beyond them is configuration.

use serde_json::{Map, Value, json};

use super::super::args;
use super::super::encode::{CallIds, merge, object, strict};
use super::super::lenient::str_at;
use super::super::{Api, Call, Image, Request, ToolOffer, ToolResult, Turn};

pub fn encode(request: &Request) -> Value {
    let mut body = object([
        ("model", Value::from(request.model.as_str())),
        ("messages", Value::Array(messages(request))),
        ("stream", Value::from(request.stream)),
    ]);
    if request.stream {
        body.insert("stream_options".to_owned(), json!({"include_usage": true}));
    }
    if !request.tools.is_empty() {
        body.insert("tools".to_owned(), request.tools.iter().map(tool).collect());
    }
    if let Some(schema) = &request.answer_schema {
        let schema = json!({"name": "answer", "schema": schema, "strict": strict(schema)});
        body.insert("response_format".to_owned(), json!({"type": "json_schema", "json_schema": schema}));
    }
    limit_output(&mut body, request);
    merge(&mut body, &request.extra);
    Value::Object(body)
}

/// `max_tokens` is what every compatible server knows. OpenAI's own models want the other name and refuse both at once,
/// so naming it in the configuration drops ours.
fn limit_output(body: &mut Map<String, Value>, request: &Request) {
    let name = if request.manners.newer_limit { "max_completion_tokens" } else { "max_tokens" };
    if let Some(tokens) = request.max_output_tokens
        && !request.extra.contains_key("max_completion_tokens")
    {
        body.insert(name.to_owned(), Value::from(tokens));
    }
}

fn tool(offer: &ToolOffer) -> Value {
    json!({"type": "function", "function":
        {"name": offer.name, "description": offer.description, "parameters": offer.schema}})
}

fn messages(request: &Request) -> Vec<Value> {
    let system = (!request.system.is_empty()).then(|| json!({"role": "system", "content": request.system}));
    let mut ids = CallIds::default();
    let turns = request.turns.iter().flat_map(|turn| turn_messages(turn, &mut ids));
    system.into_iter().chain(turns).collect()
}

fn turn_messages(turn: &Turn, ids: &mut CallIds) -> Vec<Value> {
    match turn {
        Turn::User { text } => vec![json!({"role": "user", "content": text})],
        Turn::ToolResults(results) => tool_messages(results, ids),
        Turn::Assistant { raw: Some(raw), .. } if raw.api == Api::Chat => replay(&raw.content, ids),
        Turn::Assistant { text, calls, raw: _ } => rebuild(text, calls, ids),
    }
}

fn replay(message: &Value, ids: &mut CallIds) -> Vec<Value> {
    let calls = message.get("tool_calls").and_then(Value::as_array);
    for call in calls.into_iter().flatten() {
        ids.keep(str_at(call, "id"));
    }
    // A message that says nothing is refused by several servers.
    let says = calls.is_some() || !str_at(message, "content").is_empty();
    says.then(|| message.clone()).into_iter().collect()
}

fn rebuild(text: &str, calls: &[Call], ids: &mut CallIds) -> Vec<Value> {
    if text.is_empty() && calls.is_empty() {
        return Vec::new();
    }
    let content = if text.is_empty() { Value::Null } else { Value::from(text) };
    let mut message = object([("role", Value::from("assistant")), ("content", content)]);
    if !calls.is_empty() {
        let tool_call = |call: &Call| {
            json!({"type": "function", "id": ids.call(&call.provider_id),
                "function": {"name": call.name, "arguments": args::text(&call.args)}})
        };
        message.insert("tool_calls".to_owned(), calls.iter().map(tool_call).collect());
    }
    vec![Value::Object(message)]
}

/// One message for each result, then the images: this protocol allows them only in a message of the user's, and such a
/// message may not stand between results.
fn tool_messages(results: &[ToolResult], ids: &CallIds) -> Vec<Value> {
    let texts = results.iter().map(|result| {
        json!({"role": "tool", "tool_call_id": ids.result(&result.provider_id), "content": result.text})
    });
    let images: Vec<Value> = results
        .iter()
        .filter(|result| !result.images.is_empty())
        .flat_map(|result| image_parts(&ids.result(&result.provider_id), &result.images))
        .collect();
    let images = (!images.is_empty()).then(|| json!({"role": "user", "content": images}));
    texts.chain(images).collect()
}

fn image_parts(call: &str, images: &[Image]) -> Vec<Value> {
    let caption = json!({"type": "text", "text": format!("Images in the result of {call}:")});
    let part = |image: &Image| {
        let url = format!("data:{};base64,{}", image.media_type, image.base64);
        json!({"type": "image_url", "image_url": {"url": url}})
    };
    std::iter::once(caption).chain(images.iter().map(part)).collect()
}
