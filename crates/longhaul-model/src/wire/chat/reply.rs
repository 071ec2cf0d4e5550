//! A message becomes a reply, the same way whether it was streamed or came at once.

use serde_json::{Map, Value, json};

use super::super::encode::object;
use super::super::lenient::{count, count_at};
use super::super::reply::{Draft, Last, Settled, consistent, kept, settle};
use super::super::{Api, Raw, Reply, Stop, Usage};

/// What stands in a message beside text and calls and goes back unchanged, because some servers refuse a conversation
/// without it: reasoning, under whichever name this server has for it, and Gemini's signatures.
pub(super) const CARRIED: [&str; 4] =
    ["reasoning_content", "reasoning", "reasoning_details", "extra_content"];

/// A whole message.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub id: String,
    pub model: String,
    pub text: String,
    pub refusal: String,
    /// The fields of `CARRIED`, to be sent back under the same names.
    pub carried: Map<String, Value>,
    pub calls: Vec<Draft>,
    pub finish_reason: String,
    pub usage: Usage,
}

pub(super) fn build(mut message: Message) -> Reply {
    let stop = stop(&message);
    message.calls.truncate(kept(&stop, message.calls.len(), Last::Call));
    let settled = settle(std::mem::take(&mut message.calls));
    let content = carry(&message, &settled);
    Reply {
        stop: consistent(stop, settled.len()),
        calls: settled.into_iter().map(Settled::into_call).collect(),
        raw: Raw { api: Api::Chat, content },
        text: message.text,
        usage: message.usage,
        model: message.model,
        id: message.id,
    }
}

/// The protocol counts cached tokens within the prompt; we keep them apart. DeepSeek has a name of its own for them.
pub(super) fn usage(usage: &Value) -> Usage {
    let details = &usage["prompt_tokens_details"];
    let cached = count(details.get("cached_tokens")).or_else(|| count(usage.get("prompt_cache_hit_tokens")));
    let (cache_read, cache_write) = (cached.unwrap_or(0), count_at(details, "cache_write_tokens"));
    let uncached = |prompt: u64| prompt.saturating_sub(cache_read).saturating_sub(cache_write);
    Usage {
        input: count(usage.get("prompt_tokens")).map(uncached),
        output: count(usage.get("completion_tokens")),
        cache_read,
        cache_write,
    }
}

/// What a server said of a call beside what every server says. Gemini signs its calls so and takes none back without.
pub(super) fn beside<'a>(fields: impl IntoIterator<Item = (&'a String, &'a Value)>) -> Map<String, Value> {
    let usual = |key: &str| ["index", "id", "type", "function"].contains(&key);
    let fields = fields.into_iter().filter(|(key, value)| !usual(key) && !value.is_null());
    fields.map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn stop(message: &Message) -> Stop {
    if !message.refusal.is_empty() {
        return Stop::Refusal(message.refusal.clone());
    }
    match message.finish_reason.as_str() {
        "" | "stop" | "eos" => Stop::End,
        "tool_calls" | "function_call" => Stop::ToolCalls,
        "length" => Stop::Length,
        "content_filter" => Stop::Refusal(message.text.clone()),
        other => Stop::Other(other.to_owned()),
    }
}

fn carry(message: &Message, settled: &[Settled]) -> Value {
    let content = match (message.text.is_empty(), settled.is_empty()) {
        (true, false) => Value::Null,
        (true, true) | (false, _) => Value::from(message.text.as_str()),
    };
    let mut carried = object([("role", Value::from("assistant")), ("content", content)]);
    carried.extend(message.carried.clone());
    if !message.refusal.is_empty() {
        carried.insert("refusal".to_owned(), Value::from(message.refusal.as_str()));
    }
    if !settled.is_empty() {
        let call = |call: &Settled| {
            let mut said = call.beside.clone();
            said.extend(object([
                ("type", Value::from("function")),
                ("id", Value::from(call.id.as_str())),
                ("function", json!({"name": call.name, "arguments": call.replay_text()})),
            ]));
            Value::Object(said)
        };
        carried.insert("tool_calls".to_owned(), settled.iter().map(call).collect());
    }
    Value::Object(carried)
}
