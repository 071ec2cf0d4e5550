//! OpenAI Responses, seen from the server. It owns that protocol's shapes: what is heard, what is said.

use longhaul_core::conversation::Stop;
use serde_json::{Value, json};

use super::asked::{Asked, Entry, Usage, items, text, word};
use super::spoken::{Spoken, Stream};
use crate::scripted::fault::SaidCall;
use crate::scripted::play::Pieces;

/// When every answer was made: always the same, so that the same request hears the same bytes.
pub(super) const CREATED: u64 = 1_700_000_000;

pub(super) fn asked(body: &Value) -> Asked {
    let mut asked = Asked::default();
    asked.instruct(&text(&body["instructions"]));
    if let Some(said) = body["input"].as_str() {
        asked.say(Entry::User(said.to_owned()));
    }
    for item in items(&body["input"]) {
        let content = text(&item["content"]);
        match (word(item, "type"), word(item, "role")) {
            ("message" | "", "user") => asked.say(Entry::User(content)),
            ("message" | "", "system" | "developer") => asked.instruct(&content),
            (kind, _) if kind.ends_with("_output") => asked.say(Entry::Result(text(&item["output"]))),
            // Messages, calls and reasoning of the model's own.
            _ => asked.say(Entry::Assistant),
        }
    }
    asked.tools = items(&body["tools"]).iter().map(|tool| word(tool, "name").to_owned()).collect();
    asked
}

pub(super) fn plain(spoken: &Spoken) -> Value {
    ended(spoken, &output(spoken))
}

pub(super) fn stream(spoken: &Spoken) -> Stream {
    let mut events = Events::begin(spoken);
    let whole = output(spoken);
    let mut index = 0;
    if !spoken.text.is_empty() {
        events.message(spoken, &whole[index]);
        index += 1;
    }
    for call in &spoken.calls {
        events.call(index, call, &whole[index]);
        index += 1;
    }
    events.stream.is_whole_from_here();
    let ended = ended(spoken, &whole);
    let kind = format!("response.{}", word(&ended, "status"));
    events.push(0, json!({"type": kind, "response": ended}));
    events.stream
}

/// The whole response; one that is only a part says why.
fn ended(spoken: &Spoken, output: &[Value]) -> Value {
    let reason = match spoken.stop {
        Stop::End => return response(spoken, "completed", output),
        // The protocol has one word for a reply and for a window that is full.
        Stop::Length | Stop::Overflow => "max_output_tokens",
        Stop::Refused => "content_filter",
    };
    let mut ended = response(spoken, "incomplete", output);
    ended["incomplete_details"] = json!({"reason": reason});
    ended
}

/// A stream that begins well and then fails: first the error, then the whole response with it.
pub(super) fn failed(spoken: &Spoken, error: &Value) -> Stream {
    let mut events = Events::begin(spoken);
    events.push(0, json!({"type": "error", "error": error}));
    let mut response = response(spoken, "failed", &[]);
    response["error"] = json!({"code": error["code"], "message": error["message"]});
    events.push(0, json!({"type": "response.failed", "response": response}));
    events.stream
}

/// What keeps a line open and says nothing.
pub(super) fn ping() -> Value {
    json!({"type": "keepalive"})
}

/// The beginning of a stream without end, and what it repeats.
pub(super) fn endless(spoken: &Spoken) -> (Vec<u8>, &'static str) {
    let events = Events::begin(spoken);
    let piece = r#"{"type":"response.output_text.delta","output_index":0,"content_index":0,"delta":"x"}"#;
    (events.stream.bytes(), piece)
}

/// Events with their numbers.
struct Events {
    stream: Stream,
    number: u64,
}

impl Events {
    fn begin(spoken: &Spoken) -> Events {
        let mut events = Events { stream: Stream::default(), number: 0 };
        let begun = response(spoken, "in_progress", &[]);
        events.push(0, json!({"type": "response.created", "response": begun}));
        events.push(0, json!({"type": "response.in_progress", "response": begun}));
        events
    }

    fn push(&mut self, pause_ms: u64, mut event: Value) {
        event["sequence_number"] = json!(self.number);
        self.number += 1;
        self.stream.named(pause_ms, &event);
    }

    fn message(&mut self, spoken: &Spoken, whole: &Value) {
        let id = &whole["id"];
        let begun =
            json!({"id": id, "type": "message", "status": "in_progress", "role": "assistant", "content": []});
        self.item("response.output_item.added", 0, &begun);
        let part = json!({"type": "output_text", "text": "", "annotations": [], "logprobs": []});
        self.push(0, in_part("response.content_part.added", id, "part", &part));
        for (pause_ms, piece) in Pieces::several(&spoken.text, spoken.delay_ms) {
            let mut delta = in_part("response.output_text.delta", id, "delta", &json!(piece));
            delta["logprobs"] = json!([]);
            delta["obfuscation"] = json!("xxxx");
            self.push(pause_ms, delta);
        }
        let mut done = in_part("response.output_text.done", id, "text", &json!(spoken.text));
        done["logprobs"] = json!([]);
        self.push(0, done);
        self.push(0, in_part("response.content_part.done", id, "part", &whole["content"][0]));
        self.item("response.output_item.done", 0, whole);
    }

    fn call(&mut self, index: usize, call: &SaidCall, whole: &Value) {
        let mut begun = whole.clone();
        begun["status"] = json!("in_progress");
        begun["arguments"] = json!("");
        self.item("response.output_item.added", index, &begun);
        let id = &whole["id"];
        for (_, piece) in Pieces::several(&call.args, 0) {
            self.push(
                0,
                json!({"type": "response.function_call_arguments.delta", "item_id": id, "output_index": index,
                    "delta": piece, "obfuscation": "xxxx"}),
            );
        }
        self.push(
            0,
            json!({"type": "response.function_call_arguments.done", "item_id": id, "output_index": index,
                "arguments": call.args}),
        );
        self.item("response.output_item.done", index, whole);
    }

    fn item(&mut self, kind: &str, index: usize, item: &Value) {
        self.push(0, json!({"type": kind, "output_index": index, "item": item}));
    }
}

/// An event about the only part of the only message, which comes first.
fn in_part(kind: &str, item_id: &Value, key: &str, value: &Value) -> Value {
    let mut event = json!({"type": kind, "item_id": item_id, "output_index": 0, "content_index": 0});
    event[key] = value.clone();
    event
}

fn output(spoken: &Spoken) -> Vec<Value> {
    let message = (!spoken.text.is_empty()).then(|| {
        let part = json!({"type": "output_text", "text": spoken.text, "annotations": [], "logprobs": []});
        json!({"id": spoken.id("msg"), "type": "message", "status": "completed", "role": "assistant",
            "content": [part]})
    });
    let calls = spoken.calls.iter().enumerate().map(|(number, call)| {
        json!({"id": format!("{}{number:03}", spoken.id("fc")), "type": "function_call", "status": "completed",
            "call_id": spoken.call_id("call", number), "name": call.tool, "arguments": call.args})
    });
    message.into_iter().chain(calls).collect()
}

fn response(spoken: &Spoken, status: &str, output: &[Value]) -> Value {
    let usage = if matches!(status, "completed" | "incomplete") { usage(spoken) } else { Value::Null };
    json!({"id": spoken.id("resp"), "object": "response", "created_at": CREATED, "status": status,
        "background": false, "error": null, "incomplete_details": null, "instructions": null,
        "max_output_tokens": null, "model": spoken.model, "output": output, "parallel_tool_calls": true,
        "previous_response_id": null, "reasoning": {"effort": null, "summary": null}, "store": false,
        "temperature": 1.0, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "truncation": "disabled", "usage": usage, "metadata": {}})
}

/// Cached tokens are counted within the input.
fn usage(spoken: &Spoken) -> Value {
    if spoken.usage == Usage::Untold {
        return Value::Null;
    }
    let tokens = &spoken.tokens;
    let (input, output) = (spoken.input_tokens(), tokens.output);
    json!({"input_tokens": input,
        "input_tokens_details": {"cached_tokens": tokens.cache_read, "cache_write_tokens": tokens.cache_write},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input.saturating_add(output)})
}
