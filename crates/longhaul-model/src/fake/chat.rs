//! Chat Completions, seen from the server. It owns that protocol's shapes: what is heard, what is said.

use longhaul_core::conversation::Stop;
use serde_json::{Value, json};

use super::asked::{Asked, Entry, Usage, items, text, word};
use super::responses::CREATED;
use super::spoken::{Spoken, Stream};
use crate::scripted::play::Pieces;

pub(super) fn asked(body: &Value) -> Asked {
    let mut asked = Asked::default();
    for message in items(&body["messages"]) {
        let content = text(&message["content"]);
        match word(message, "role") {
            "system" | "developer" => asked.instruct(&content),
            "assistant" => asked.say(Entry::Assistant),
            "tool" | "function" => asked.say(Entry::Result(content)),
            _ => asked.say(Entry::User(content)),
        }
    }
    asked.tools =
        items(&body["tools"]).iter().map(|tool| word(&tool["function"], "name").to_owned()).collect();
    let counted = body.pointer("/stream_options/include_usage") == Some(&Value::Bool(true));
    asked.usage = if counted { Usage::Counted } else { Usage::Unasked };
    asked
}

pub(super) fn plain(spoken: &Spoken) -> Value {
    let content = if spoken.text.is_empty() { Value::Null } else { json!(spoken.text) };
    let mut message = json!({"role": "assistant", "content": content, "refusal": null, "annotations": []});
    if !spoken.calls.is_empty() {
        let call = |number: usize| {
            let call = &spoken.calls[number];
            json!({"id": spoken.call_id("call", number), "type": "function",
                "function": {"name": call.tool, "arguments": call.args}})
        };
        message["tool_calls"] = (0..spoken.calls.len()).map(call).collect();
    }
    let choice =
        json!({"index": 0, "message": message, "logprobs": null, "finish_reason": finish_reason(spoken)});
    json!({"id": spoken.id("chatcmpl"), "object": "chat.completion", "created": CREATED, "model": spoken.model,
        "choices": [choice], "usage": usage(spoken), "service_tier": "default", "system_fingerprint": "fp_script"})
}

pub(super) fn stream(spoken: &Spoken) -> Stream {
    let mut stream = Stream::default();
    piece(&mut stream, spoken, 0, &json!({"role": "assistant", "content": null, "refusal": null}));
    if !spoken.text.is_empty() {
        for (pause_ms, text) in Pieces::several(&spoken.text, spoken.delay_ms) {
            piece(&mut stream, spoken, pause_ms, &json!({"content": text}));
        }
    }
    for (number, call) in spoken.calls.iter().enumerate() {
        let start = json!({"index": number, "id": spoken.call_id("call", number), "type": "function",
            "function": {"name": call.tool, "arguments": ""}});
        piece(&mut stream, spoken, 0, &json!({"tool_calls": [start]}));
        for (_, args) in Pieces::several(&call.args, 0) {
            let grow = json!({"index": number, "function": {"arguments": args}});
            piece(&mut stream, spoken, 0, &json!({"tool_calls": [grow]}));
        }
    }
    stream.is_whole_from_here();
    let choice = json!({"index": 0, "delta": {}, "logprobs": null, "finish_reason": finish_reason(spoken)});
    event(&mut stream, 0, &chunk(spoken, &json!([choice])));
    if spoken.usage == Usage::Counted {
        let mut last = chunk(spoken, &json!([]));
        last["usage"] = usage(spoken);
        event(&mut stream, 0, &last);
    }
    stream.push(0, b"data: [DONE]\n\n".to_vec());
    stream
}

/// What keeps a line open and says nothing.
pub(super) const PING: &str = ": keep-alive\n\n";

/// The beginning of a stream without end, and what it repeats.
pub(super) fn endless(spoken: &Spoken) -> (Vec<u8>, &'static str) {
    let mut stream = Stream::default();
    piece(&mut stream, spoken, 0, &json!({"role": "assistant", "content": "", "refusal": null}));
    (stream.bytes(), r#"{"choices":[{"index":0,"delta":{"content":"x"}}]}"#)
}

fn piece(stream: &mut Stream, spoken: &Spoken, pause_ms: u64, delta: &Value) {
    let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": null});
    event(stream, pause_ms, &chunk(spoken, &json!([choice])));
}

fn event(stream: &mut Stream, pause_ms: u64, data: &Value) {
    stream.push(pause_ms, format!("data: {data}\n\n").into_bytes());
}

/// Where a count was asked for, every chunk but the last has it empty.
fn chunk(spoken: &Spoken, choices: &Value) -> Value {
    let mut chunk = json!({"id": spoken.id("chatcmpl"), "object": "chat.completion.chunk", "created": CREATED,
        "model": spoken.model, "service_tier": "default", "system_fingerprint": "fp_script", "choices": choices,
        "obfuscation": "xxxx"});
    if spoken.usage == Usage::Counted {
        chunk["usage"] = Value::Null;
    }
    chunk
}

/// Cached tokens are counted within the prompt.
fn usage(spoken: &Spoken) -> Value {
    if spoken.usage == Usage::Untold {
        return Value::Null;
    }
    let tokens = &spoken.tokens;
    let (input, output) = (spoken.input_tokens(), tokens.output);
    json!({"prompt_tokens": input, "completion_tokens": output, "total_tokens": input.saturating_add(output),
        "prompt_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write,
            "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0, "audio_tokens": 0,
            "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0}})
}

fn finish_reason(spoken: &Spoken) -> &'static str {
    match spoken.stop {
        // The protocol has one word for a reply and for a window that is full.
        Stop::Length | Stop::Overflow => "length",
        Stop::Refused => "content_filter",
        Stop::End if spoken.calls.is_empty() => "stop",
        Stop::End => "tool_calls",
    }
}
