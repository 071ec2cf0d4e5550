//! Content blocks become a reply, the same way whether they were streamed or came at once.

use serde_json::{Map, Value};

use super::super::lenient::{count, str_at};
use super::super::reply::{Draft, Last, Settled, consistent, kept, settle};
use super::super::{Api, Raw, Reply, Stop, Usage};

/// A whole message.
#[derive(Debug, Default)]
pub(super) struct Message {
    pub id: String,
    pub model: String,
    pub blocks: Vec<Block>,
    pub stop_reason: String,
    pub stop_details: Value,
    pub usage: Usage,
}

/// One content block and, for a call, its arguments as text.
#[derive(Debug)]
pub(super) struct Block {
    pub content: Map<String, Value>,
    pub args: Option<String>,
}

impl Block {
    fn kind(&self) -> &str {
        self.content.get("type").and_then(Value::as_str).unwrap_or("")
    }

    fn is_call(&self) -> bool {
        self.kind() == "tool_use"
    }

    fn draft(&self) -> Draft {
        let field = |key: &str| self.content.get(key).and_then(Value::as_str).unwrap_or("").to_owned();
        let args = self.args.clone().unwrap_or_default();
        Draft { id: field("id"), name: field("name"), args, ..Draft::default() }
    }
}

pub(super) fn build(mut message: Message) -> Reply {
    let text: String = message.blocks.iter().filter(|block| block.kind() == "text").map(block_text).collect();
    let stop = stop(&message, &text);
    let last = if message.blocks.last().is_some_and(Block::is_call) { Last::Call } else { Last::Other };
    let calls = message.blocks.iter().filter(|block| block.is_call()).count();
    drop_calls(&mut message.blocks, kept(&stop, calls, last));

    let settled = settle(message.blocks.iter().filter(|block| block.is_call()).map(Block::draft).collect());
    let content = carry(message.blocks, &settled);
    Reply {
        text,
        stop: consistent(stop, settled.len()),
        calls: settled.into_iter().map(Settled::into_call).collect(),
        raw: Raw { api: Api::Anthropic, content: Value::Array(content) },
        usage: message.usage,
        model: message.model,
        id: message.id,
    }
}

/// Counters that are present replace what was known: those of a stream are cumulative.
pub(super) fn count_into(usage: &mut Usage, counters: &Value) {
    let said = |key: &str| count(counters.get(key));
    usage.input = said("input_tokens").or(usage.input);
    usage.output = said("output_tokens").or(usage.output);
    usage.cache_read = said("cache_read_input_tokens").unwrap_or(usage.cache_read);
    usage.cache_write = said("cache_creation_input_tokens").unwrap_or(usage.cache_write);
}

fn block_text(block: &Block) -> &str {
    block.content.get("text").and_then(Value::as_str).unwrap_or("")
}

fn stop(message: &Message, text: &str) -> Stop {
    match message.stop_reason.as_str() {
        "" | "end_turn" | "stop_sequence" => Stop::End,
        "tool_use" => Stop::ToolCalls,
        "max_tokens" => Stop::Length,
        "model_context_window_exceeded" => Stop::Overflow,
        "refusal" => Stop::Refusal(refusal_text(&message.stop_details, text)),
        other => Stop::Other(other.to_owned()),
    }
}

/// The service's explanation, else its category, else what the model said so far.
fn refusal_text(details: &Value, text: &str) -> String {
    let said = [str_at(details, "explanation"), str_at(details, "category"), text];
    said.into_iter().find(|said| !said.is_empty()).unwrap_or("").to_owned()
}

fn drop_calls(blocks: &mut Vec<Block>, keep: usize) {
    let mut seen = 0;
    blocks.retain(|block| {
        seen += usize::from(block.is_call());
        !block.is_call() || seen <= keep
    });
}

/// The blocks for the way back: calls under their settled ids, with arguments that can be read.
fn carry(blocks: Vec<Block>, settled: &[Settled]) -> Vec<Value> {
    let mut calls = settled.iter();
    let carry_one = |mut block: Block| {
        if block.is_call()
            && let Some(call) = calls.next()
        {
            block.content.insert("id".to_owned(), Value::from(call.id.as_str()));
            block.content.insert("input".to_owned(), call.replay.clone());
        }
        Value::Object(block.content)
    };
    blocks.into_iter().map(carry_one).collect()
}
