//! Anthropic Messages, seen from the server. It owns that protocol's shapes: what is heard, what is said.

use longhaul_core::conversation::Stop;
use serde_json::{Value, json};

use super::asked::{Asked, Entry, Usage, items, text, word};
use super::spoken::{Spoken, Stream};
use crate::scripted::fault::SaidCall;
use crate::scripted::play::Pieces;

pub(super) fn asked(body: &Value) -> Asked {
    let mut asked = Asked::default();
    asked.instruct(&text(&body["system"]));
    for message in items(&body["messages"]) {
        match word(message, "role") {
            "assistant" => asked.say(Entry::Assistant),
            // Agents of today send instructions inside the conversation.
            "system" => asked.instruct(&text(&message["content"])),
            _ => user(&mut asked, &message["content"]),
        }
    }
    asked.tools = items(&body["tools"]).iter().map(|tool| word(tool, "name").to_owned()).collect();
    asked
}

fn user(asked: &mut Asked, content: &Value) {
    for block in items(content).iter().filter(|block| word(block, "type") == "tool_result") {
        asked.say(Entry::Result(text(&block["content"])));
    }
    let said = text(content);
    if !said.is_empty() {
        asked.say(Entry::User(said));
    }
}

pub(super) fn plain(spoken: &Spoken) -> Value {
    let text = (!spoken.text.is_empty()).then(|| json!({"type": "text", "text": spoken.text}));
    let calls = spoken.calls.iter().enumerate().map(|(number, call)| {
        // A body can only carry JSON; what is none is carried as a string.
        let input: Option<Value> = serde_json::from_str(&call.args).ok();
        // Null would be no arguments at all.
        let input = input.filter(|input| !input.is_null());
        let input = input.unwrap_or_else(|| Value::from(call.args.as_str()));
        tool_use(spoken, number, call, &input)
    });
    let content: Vec<Value> = text.into_iter().chain(calls).collect();
    let mut message = message(spoken, &json!(content), spoken.tokens.output);
    message["stop_reason"] = json!(stop_reason(spoken));
    if spoken.stop == Stop::Refused {
        message["stop_details"] = stop_details();
    }
    message
}

pub(super) fn stream(spoken: &Spoken) -> Stream {
    let mut stream = Stream::default();
    stream.named(0, &json!({"type": "message_start", "message": message(spoken, &json!([]), 1)}));
    stream.named(0, &ping());
    let mut index = 0;
    if !spoken.text.is_empty() {
        start(&mut stream, index, &json!({"type": "text", "text": ""}));
        for (pause_ms, piece) in Pieces::several(&spoken.text, spoken.delay_ms) {
            delta(&mut stream, pause_ms, index, &json!({"type": "text_delta", "text": piece}));
        }
        stop(&mut stream, index);
        index += 1;
    }
    for (number, call) in spoken.calls.iter().enumerate() {
        start(&mut stream, index, &tool_use(spoken, number, call, &json!({})));
        // The first piece is always an empty one.
        delta(&mut stream, 0, index, &json!({"type": "input_json_delta", "partial_json": ""}));
        for (_, piece) in Pieces::several(&call.args, 0) {
            delta(&mut stream, 0, index, &json!({"type": "input_json_delta", "partial_json": piece}));
        }
        stop(&mut stream, index);
        index += 1;
    }
    let mut end = json!({"stop_reason": stop_reason(spoken), "stop_sequence": null});
    if spoken.stop == Stop::Refused {
        end["stop_details"] = stop_details();
    }
    stream.named(
        0,
        &json!({"type": "message_delta", "delta": end, "usage": usage(spoken, spoken.tokens.output)}),
    );
    stream.is_whole_from_here();
    stream.named(0, &json!({"type": "message_stop"}));
    stream
}

/// What keeps a line open and says nothing.
pub(super) fn ping() -> Value {
    json!({"type": "ping"})
}

/// The beginning of a stream without end, and what it repeats.
pub(super) fn endless(spoken: &Spoken) -> (Vec<u8>, &'static str) {
    let mut stream = Stream::default();
    stream.named(0, &json!({"type": "message_start", "message": message(spoken, &json!([]), 1)}));
    start(&mut stream, 0, &json!({"type": "text", "text": ""}));
    let piece = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}"#;
    (stream.bytes(), piece)
}

fn message(spoken: &Spoken, content: &Value, output_tokens: u64) -> Value {
    json!({"id": spoken.id("msg"), "type": "message", "role": "assistant", "model": spoken.model,
        "content": content, "stop_reason": null, "stop_sequence": null, "usage": usage(spoken, output_tokens)})
}

/// Cumulative: each count replaces the one before.
fn usage(spoken: &Spoken, output_tokens: u64) -> Value {
    if spoken.usage == Usage::Untold {
        return Value::Null;
    }
    let tokens = &spoken.tokens;
    json!({"input_tokens": tokens.input, "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cache_read, "output_tokens": output_tokens, "service_tier": "standard"})
}

fn stop_reason(spoken: &Spoken) -> &'static str {
    match spoken.stop {
        Stop::Refused => "refusal",
        Stop::Length => "max_tokens",
        Stop::Overflow => "model_context_window_exceeded",
        Stop::End if spoken.calls.is_empty() => "end_turn",
        Stop::End => "tool_use",
    }
}

fn stop_details() -> Value {
    json!({"type": "refusal", "category": "policy", "explanation": "This request goes against the usage policy."})
}

fn tool_use(spoken: &Spoken, number: usize, call: &SaidCall, input: &Value) -> Value {
    json!({"type": "tool_use", "id": spoken.call_id("toolu", number), "name": call.tool, "input": input})
}

fn start(stream: &mut Stream, index: usize, block: &Value) {
    stream.named(0, &json!({"type": "content_block_start", "index": index, "content_block": block}));
}

fn delta(stream: &mut Stream, pause_ms: u64, index: usize, delta: &Value) {
    stream.named(pause_ms, &json!({"type": "content_block_delta", "index": index, "delta": delta}));
}

fn stop(stream: &mut Stream, index: usize) {
    stream.named(0, &json!({"type": "content_block_stop", "index": index}));
}
