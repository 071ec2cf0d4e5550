//! A long reply as each protocol's service streams it: a beginning, very many small pieces of text, an end that repeats
//! as much of it as the service would. The scripted provider says its texts in a few large pieces, so they are made here.

use longhaul_model::wire::Api;
use serde_json::{Value, json};

/// Pieces as models say them: about a token each, some of them with something to escape.
const WORDS: [&str; 12] =
    ["The", " journal", " is", " append", "ed", " to", ",", "\n", " \"never", "\"", " re-written", "."];

/// Sizes in which bytes come from a socket: one segment, some, a record of TLS.
const CHUNK_BYTES: [usize; 5] = [1_448, 16_384, 2_896, 8_192, 4_096];

pub struct Stream {
    pub api: Api,
    begin: Vec<u8>,
    deltas: Vec<u8>,
    /// What the pieces say together.
    text: String,
}

impl Stream {
    /// A reply whose pieces take that many bytes.
    pub fn new(api: Api, bytes: usize) -> Stream {
        let mut stream = Stream { api, begin: begin(api), deltas: Vec::new(), text: String::new() };
        for (number, word) in WORDS.iter().cycle().enumerate() {
            if stream.deltas.len() >= bytes {
                break;
            }
            stream.deltas.extend(delta(api, number, word));
            stream.text.push_str(word);
        }
        stream
    }

    /// The reply with its pieces said that often.
    pub fn bytes(&self, times: usize) -> Vec<u8> {
        [self.begin.clone(), self.deltas.repeat(times), end(self.api, &self.text(times))].concat()
    }

    pub fn text(&self, times: usize) -> String {
        self.text.repeat(times)
    }

    /// Gives the same bytes to `take` without ever holding more than the pieces once.
    pub fn pour<E>(&self, times: usize, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        self.pour_open(times, &mut take)?;
        chunks(&end(self.api, &self.text(times))).into_iter().try_for_each(take)
    }

    /// The same without the end.
    pub fn pour_open<E>(&self, times: usize, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), E> {
        take(&self.begin)?;
        let chunks = chunks(&self.deltas);
        (0..times).try_for_each(|_| chunks.iter().try_for_each(|chunk| take(chunk)))
    }
}

/// Bytes as they come from a socket.
pub fn chunks(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut chunks = Vec::new();
    for size in CHUNK_BYTES.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (chunk, rest) = bytes.split_at((*size).min(bytes.len()));
        chunks.push(chunk);
        bytes = rest;
    }
    chunks
}

fn begin(api: Api) -> Vec<u8> {
    match api {
        Api::Anthropic => events([
            json!({"type": "message_start", "message": {"id": "msg_1", "model": "m", "usage": {"input_tokens": 9}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ]),
        Api::Responses => events([
            json!({"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}),
            json!({"type": "response.output_item.added", "output_index": 0, "item": item("")}),
        ]),
        Api::Chat => line(&chunk(&json!({"role": "assistant", "content": null}), &Value::Null)),
    }
}

/// One piece, its fields in the order in which the service sends them.
fn delta(api: Api, number: usize, word: &str) -> Vec<u8> {
    let word = Value::from(word);
    let said = match api {
        Api::Anthropic => format!(
            r#"event: content_block_delta
data: {{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":{word}}}}}"#
        ),
        Api::Responses => format!(
            r#"event: response.output_text.delta
data: {{"type":"response.output_text.delta","sequence_number":{number},"item_id":"msg_1_0123456789abcdef0123456789abcdef","output_index":0,"content_index":0,"delta":{word},"logprobs":[],"obfuscation":"aB3dE6"}}"#
        ),
        Api::Chat => format!(
            r#"data: {{"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"m-2025-01-01","service_tier":"default","system_fingerprint":"fp_0123456789","choices":[{{"index":0,"delta":{{"content":{word}}},"logprobs":null,"finish_reason":null}}],"usage":null,"obfuscation":"aB3dE6"}}"#
        ),
    };
    format!("{said}\n\n").into_bytes()
}

fn end(api: Api, text: &str) -> Vec<u8> {
    match api {
        Api::Anthropic => events([
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 9}}),
            json!({"type": "message_stop"}),
        ]),
        Api::Responses => events([
            json!({"type": "response.output_text.done", "output_index": 0, "content_index": 0, "text": text}),
            json!({"type": "response.output_item.done", "output_index": 0, "item": item(text)}),
            json!({"type": "response.completed",
                "response": {"id": "resp_1", "model": "m", "status": "completed", "output": [item(text)]}}),
        ]),
        Api::Chat => [line(&chunk(&json!({}), &json!("stop"))), b"data: [DONE]\n\n".to_vec()].concat(),
    }
}

/// The message of a response.
fn item(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1_0123456789abcdef0123456789abcdef", "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn chunk(delta: &Value, finish: &Value) -> Value {
    json!({"id": "chatcmpl-0123456789abcdef", "model": "m-2025-01-01",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})
}

fn events<const N: usize>(events: [Value; N]) -> Vec<u8> {
    let event = |event: &Value| {
        let name = event["type"].as_str().unwrap_or("");
        format!("event: {name}\ndata: {event}\n\n").into_bytes()
    };
    events.iter().flat_map(event).collect()
}

fn line(data: &Value) -> Vec<u8> {
    format!("data: {data}\n\n").into_bytes()
}
