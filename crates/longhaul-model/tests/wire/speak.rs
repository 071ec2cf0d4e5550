//! A reply in no protocol's terms, spoken as each protocol's server would. It owns the shapes a well-behaved service
//! sends; the odd ones are written out where they are tested.

use longhaul_model::wire::sse::{Caps, Parser};
use longhaul_model::wire::{Allowance, Api, Assembler, Delta, Reading, Reply, WireError};
use serde_json::{Value, json};

#[derive(Clone, Debug)]
pub enum Part {
    Thinking(&'static str),
    Text(&'static str),
    Call { id: &'static str, name: &'static str, args: String },
}

pub fn call(id: &'static str, name: &'static str, args: &str) -> Part {
    Part::Call { id, name, args: args.to_owned() }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum End {
    Stop,
    Tools,
    Length,
    /// The connection closes without a word.
    Cut,
}

/// One event: its name, if the protocol has names, and its data.
pub type Event = (Option<String>, String);

/// The events of a reply, its texts and arguments in pieces of `piece` characters.
pub fn events(api: Api, parts: &[Part], end: End, piece: usize) -> Vec<Event> {
    match api {
        Api::Anthropic => named(anthropic(parts, end, piece)),
        Api::Responses => named(responses(parts, end, piece)),
        Api::Chat => chat(parts, end, piece),
    }
}

pub fn bytes(events: &[Event], line_end: &str) -> Vec<u8> {
    let mut text = String::new();
    for (name, data) in events {
        if let Some(name) = name {
            text.push_str(&format!("event: {name}{line_end}"));
        }
        text.push_str(&format!("data: {data}{line_end}{line_end}"));
    }
    text.into_bytes()
}

/// What was heard while a stream was read.
#[derive(Clone, Debug, PartialEq)]
pub enum Heard {
    Text(String),
    Thinking(String),
    Other,
}

impl Heard {
    pub fn of(delta: Delta<'_>) -> Heard {
        match delta {
            Delta::Text(text) => Heard::Text(text.to_owned()),
            Delta::Thinking(text) => Heard::Thinking(text.to_owned()),
            Delta::Arguments | Delta::Step => Heard::Other,
        }
    }
}

/// Pieces that follow one another count as one: those of one chunk may be told together.
fn hear(heard: &mut Vec<Heard>, delta: Delta<'_>) {
    match (heard.last_mut(), Heard::of(delta)) {
        (Some(Heard::Text(before)), Heard::Text(more)) => before.push_str(&more),
        (_, other) => heard.push(other),
    }
}

/// Reads a stream that arrives in these chunks.
pub fn read<'a>(
    api: Api,
    chunks: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(Reply, Vec<Heard>), WireError> {
    let mut reading = Reading::new(api, Allowance::default());
    let mut heard = Vec::new();
    for chunk in chunks {
        reading.take(chunk, &mut |delta| hear(&mut heard, delta))?;
    }
    Ok((reading.finish(&mut |_| {})?, heard))
}

/// The same with every event read by itself.
pub fn read_singly(api: Api, stream: &[u8]) -> Result<(Reply, Vec<Heard>), WireError> {
    let mut parser = Parser::new(Caps::default());
    let mut assembler = Assembler::new(api);
    let mut heard = Vec::new();
    parser.feed(stream, |event| {
        assembler.take(event.name(), event.data, &mut |delta| hear(&mut heard, delta))
    })?;
    parser.finish(|event| assembler.take(event.name(), event.data, &mut |_| {}))?;
    Ok((assembler.finish()?, heard))
}

pub fn reply(api: Api, stream: &[u8]) -> Result<Reply, WireError> {
    read(api, [stream]).map(|(reply, _)| reply)
}

/// The same reply as a body that is not a stream.
pub fn body(api: Api, parts: &[Part], end: End) -> Value {
    match api {
        Api::Anthropic => {
            let content: Vec<Value> = parts.iter().map(anthropic_block).collect();
            json!({"id": "id_1", "type": "message", "role": "assistant", "model": "m-1", "content": content,
                "stop_reason": anthropic_stop(end), "stop_sequence": null,
                "usage": {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 20,
                    "output_tokens": 7, "service_tier": "standard"}})
        }
        Api::Responses => responses_object(parts, end),
        Api::Chat => {
            json!({"id": "id_1", "object": "chat.completion", "model": "m-1", "choices": [{"index": 0,
                "message": chat_message(parts), "logprobs": null, "finish_reason": chat_stop(end)}],
                "usage": chat_usage()})
        }
    }
}

fn named(values: Vec<Value>) -> Vec<Event> {
    values
        .into_iter()
        .map(|value| (Some(value["type"].as_str().unwrap().to_owned()), value.to_string()))
        .collect()
}

pub fn pieces(text: &str, piece: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(piece.max(1)).map(|chunk| chunk.iter().collect()).collect()
}

fn anthropic_block(part: &Part) -> Value {
    match part {
        Part::Thinking(text) => json!({"type": "thinking", "thinking": text, "signature": "sig=="}),
        Part::Text(text) => json!({"type": "text", "text": text}),
        Part::Call { id, name, args } => {
            let input: Value = serde_json::from_str(args).unwrap_or(json!({}));
            json!({"type": "tool_use", "id": id, "name": name, "input": input})
        }
    }
}

fn anthropic_stop(end: End) -> &'static str {
    match end {
        End::Stop | End::Cut => "end_turn",
        End::Tools => "tool_use",
        End::Length => "max_tokens",
    }
}

fn anthropic(parts: &[Part], end: End, piece: usize) -> Vec<Value> {
    let usage = json!({"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 20,
        "output_tokens": 1});
    let mut events = vec![
        json!({"type": "message_start", "message": {"id": "id_1", "type": "message", "role": "assistant",
            "model": "m-1", "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}}),
        json!({"type": "ping"}),
    ];
    for (index, part) in parts.iter().enumerate() {
        let delta = |delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
        let (start, deltas): (Value, Vec<Value>) = match part {
            Part::Thinking(text) => {
                let grow =
                    pieces(text, piece).into_iter().map(|p| json!({"type": "thinking_delta", "thinking": p}));
                let sign = json!({"type": "signature_delta", "signature": "sig=="});
                (json!({"type": "thinking", "thinking": "", "signature": ""}), grow.chain([sign]).collect())
            }
            Part::Text(text) => {
                let grow = pieces(text, piece).into_iter().map(|p| json!({"type": "text_delta", "text": p}));
                (json!({"type": "text", "text": ""}), grow.collect())
            }
            Part::Call { id, name, args } => {
                let first = json!({"type": "input_json_delta", "partial_json": ""});
                let grow = pieces(args, piece)
                    .into_iter()
                    .map(|p| json!({"type": "input_json_delta", "partial_json": p}));
                let start = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                (start, [first].into_iter().chain(grow).collect())
            }
        };
        events.push(json!({"type": "content_block_start", "index": index, "content_block": start}));
        events.extend(deltas.into_iter().map(delta));
        if end == End::Cut && index + 1 == parts.len() {
            return events;
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": anthropic_stop(end),
        "stop_sequence": null}, "usage": {"output_tokens": 7}}));
    events.push(json!({"type": "message_stop"}));
    events
}

fn responses_item(index: usize, part: &Part, status: &str) -> Value {
    match part {
        Part::Thinking(text) => json!({"type": "reasoning", "id": format!("rs_{index}"),
            "summary": [{"type": "summary_text", "text": text}], "encrypted_content": "sig=="}),
        Part::Text(text) => json!({"type": "message", "id": format!("msg_{index}"), "role": "assistant",
            "status": status, "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]}),
        Part::Call { id, name, args } => json!({"type": "function_call", "id": format!("fc_{index}"),
            "call_id": id, "name": name, "arguments": args, "status": status}),
    }
}

fn responses_object(parts: &[Part], end: End) -> Value {
    let last = parts.len().saturating_sub(1);
    let status = |index: usize| if end == End::Length && index == last { "incomplete" } else { "completed" };
    let output: Vec<Value> =
        parts.iter().enumerate().map(|(index, part)| responses_item(index, part, status(index))).collect();
    let (status, details) = match end {
        End::Length => ("incomplete", json!({"reason": "max_output_tokens"})),
        End::Stop | End::Tools | End::Cut => ("completed", Value::Null),
    };
    json!({"id": "id_1", "object": "response", "model": "m-1", "status": status, "error": null,
        "incomplete_details": details, "output": output, "usage": {"input_tokens": 33,
            "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 3}, "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 40}})
}

fn responses(parts: &[Part], end: End, piece: usize) -> Vec<Value> {
    let object = responses_object(parts, end);
    let begun = json!({"id": "id_1", "model": "m-1", "status": "in_progress", "output": []});
    let mut events = vec![
        json!({"type": "response.created", "response": begun}),
        json!({"type": "response.in_progress", "response": begun}),
    ];
    for (index, part) in parts.iter().enumerate() {
        let whole = object["output"][index].clone();
        let id = whole["id"].clone();
        let mut start = whole.clone();
        start["status"] = json!("in_progress");
        let grow = |kind: &str, text: &str| -> Vec<Value> {
            let one = |p: String| json!({"type": kind, "item_id": id, "output_index": index, "delta": p});
            pieces(text, piece).into_iter().map(one).collect()
        };
        let (begin, deltas, after) = match part {
            Part::Thinking(text) => {
                start["summary"] = json!([]);
                (None, grow("response.reasoning_summary_text.delta", text), None)
            }
            Part::Text(text) => {
                start["content"] = json!([]);
                let part = json!({"type": "output_text", "text": "", "annotations": []});
                let begin = json!({"type": "response.content_part.added", "item_id": id, "output_index": index,
                    "content_index": 0, "part": part});
                let done = json!({"type": "response.output_text.done", "item_id": id, "output_index": index,
                    "content_index": 0, "text": text});
                (Some(begin), grow("response.output_text.delta", text), Some(done))
            }
            Part::Call { args, .. } => {
                start["arguments"] = json!("");
                let done = json!({"type": "response.function_call_arguments.done", "item_id": id,
                    "output_index": index, "arguments": args});
                (None, grow("response.function_call_arguments.delta", args), Some(done))
            }
        };
        events.push(json!({"type": "response.output_item.added", "output_index": index, "item": start}));
        events.extend(begin);
        events.extend(deltas);
        if end == End::Cut && index + 1 == parts.len() {
            return numbered(events);
        }
        events.extend(after);
        events.push(json!({"type": "response.output_item.done", "output_index": index, "item": whole}));
    }
    let kind = if end == End::Length { "response.incomplete" } else { "response.completed" };
    events.push(json!({"type": kind, "response": object}));
    numbered(events)
}

fn numbered(mut events: Vec<Value>) -> Vec<Value> {
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = json!(number);
    }
    events
}

fn chat_message(parts: &[Part]) -> Value {
    let mut message = json!({"role": "assistant", "content": null, "refusal": null});
    let mut calls = Vec::new();
    for part in parts {
        match part {
            Part::Thinking(text) => message["reasoning_content"] = json!(text),
            Part::Text(text) => {
                message["content"] = json!(format!("{}{text}", message["content"].as_str().unwrap_or("")));
            }
            Part::Call { id, name, args } => {
                calls.push(
                    json!({"id": id, "type": "function", "function": {"name": name, "arguments": args}}),
                );
            }
        }
    }
    if !calls.is_empty() {
        message["tool_calls"] = json!(calls);
    }
    message
}

fn chat_stop(end: End) -> &'static str {
    match end {
        End::Stop | End::Cut => "stop",
        End::Tools => "tool_calls",
        End::Length => "length",
    }
}

fn chat_usage() -> Value {
    json!({"prompt_tokens": 33, "completion_tokens": 7, "total_tokens": 40,
        "prompt_tokens_details": {"cached_tokens": 20, "cache_write_tokens": 3, "audio_tokens": 0}})
}

fn chat(parts: &[Part], end: End, piece: usize) -> Vec<Event> {
    let chunk = |delta: Value, finish: Value| {
        let choice = json!({"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish});
        let chunk = json!({"id": "id_1", "object": "chat.completion.chunk", "created": 1, "model": "m-1",
            "choices": [choice], "usage": null, "obfuscation": "xxx"});
        (None, chunk.to_string())
    };
    let mut events = vec![chunk(json!({"role": "assistant", "content": null, "refusal": null}), Value::Null)];
    let mut calls = 0;
    for part in parts {
        match part {
            Part::Thinking(text) => {
                events.extend(
                    pieces(text, piece).iter().map(|p| chunk(json!({"reasoning_content": p}), Value::Null)),
                );
            }
            Part::Text(text) => {
                events.extend(pieces(text, piece).iter().map(|p| chunk(json!({"content": p}), Value::Null)));
            }
            Part::Call { id, name, args } => {
                let start = json!([{"index": calls, "id": id, "type": "function",
                    "function": {"name": name, "arguments": ""}}]);
                events.push(chunk(json!({"tool_calls": start}), Value::Null));
                let grow =
                    |p: &String| json!({"tool_calls": [{"index": calls, "function": {"arguments": p}}]});
                events.extend(pieces(args, piece).iter().map(|p| chunk(grow(p), Value::Null)));
                calls += 1;
            }
        }
    }
    if end == End::Cut {
        return events;
    }
    events.push(chunk(json!({}), json!(chat_stop(end))));
    let counted = json!({"id": "id_1", "model": "m-1", "choices": [], "usage": chat_usage()});
    events.push((None, counted.to_string()));
    events.push((None, "[DONE]".to_owned()));
    events
}
