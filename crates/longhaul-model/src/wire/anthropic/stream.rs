//! The fold over a stream of Anthropic Messages. It owns the half-built message and hands it out only whole.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::args;
use super::super::lenient::{Piece, str_at};
use super::super::reading::Place;
use super::super::reply::{bounded_parts, event as read};
use super::super::{Delta, Hear, Progress, Reply, WireError};
use super::reply::{Block, Message, build, count_into};

#[derive(Debug, Default)]
pub struct Assembler {
    message: Message,
    blocks: Vec<Part>,
    begun: bool,
    ended: bool,
    /// The block the last event added text to, if it was of that kind.
    grown: Option<Place>,
}

/// A content block while it grows.
#[derive(Debug)]
struct Part {
    index: u64,
    content: Map<String, Value>,
    args: String,
    stopped: bool,
}

impl Part {
    fn kind(&self) -> &str {
        self.content.get("type").and_then(Value::as_str).unwrap_or("")
    }

    /// Adds to a text of the block, whatever the start had there.
    fn append(&mut self, key: &str, piece: &str) {
        match self.content.get_mut(key) {
            Some(Value::String(text)) => text.push_str(piece),
            Some(_) | None => {
                self.content.insert(key.to_owned(), Value::from(piece));
            }
        }
    }

    fn into_block(mut self) -> Block {
        if self.args.is_empty() {
            let given = self.content.get("input").filter(|input| !input.is_null()).map(Value::to_string);
            return Block { content: self.content, args: given };
        }
        if self.kind() != "tool_use" {
            // A tool the service runs itself. Its input is only carried.
            let input = args::replayable(&args::read(&self.args));
            self.content.insert("input".to_owned(), input);
        }
        Block { content: self.content, args: Some(self.args) }
    }
}

impl Assembler {
    pub fn take(&mut self, name: &str, data: &[u8], hear: &mut Hear<'_>) -> Result<(), WireError> {
        self.grown = None;
        let event: Event<'_> = read(data)?;
        let kind = if event.kind.is_empty() { name } else { event.kind.as_str() };
        let moved = match kind {
            "content_block_delta" => return self.delta(&event, data, hear),
            "content_block_start" => self.start(event)?,
            "content_block_stop" => self.stop(event.index()),
            "message_start" => self.begin(&event.message.unwrap_or_default()),
            "message_delta" => self.close(&event),
            "message_stop" => {
                self.ended = true;
                true
            }
            "error" => return Err(WireError::from_event(&read(data)?)),
            // Pings, and what the documentation asks clients to pass over because they do not know it. Neither moves the
            // reply forward, so a stall behind them is one. Nor does what only says again what was said.
            _ => false,
        };
        if moved {
            hear(Delta::Step);
        }
        Ok(())
    }

    pub(in super::super) fn grown(&self) -> Option<Place> {
        self.grown
    }

    pub(in super::super) fn add_text(&mut self, place: Place, text: &str) {
        if let Some(part) = self.blocks.get_mut(place) {
            part.append("text", text);
        }
    }

    pub fn progress(&self) -> Progress {
        if self.ended { Progress::Done } else { Progress::Open }
    }

    pub fn finish(mut self) -> Result<Reply, WireError> {
        let half_call = self.blocks.iter().any(|part| part.kind() == "tool_use" && !part.stopped);
        if !self.ended || half_call {
            return Err(WireError::truncated("the stream ended before the message did"));
        }
        self.blocks.sort_by_key(|part| part.index);
        self.message.blocks = self.blocks.into_iter().map(Part::into_block).collect();
        Ok(build(self.message))
    }

    fn begin(&mut self, message: &Value) -> bool {
        let first = !std::mem::replace(&mut self.begun, true);
        self.message.id = str_at(message, "id").to_owned();
        self.message.model = str_at(message, "model").to_owned();
        count_into(&mut self.message.usage, &message["usage"]);
        // What was written before anything was is no count of the reply: that comes at its end, or not at all.
        self.message.usage.output = None;
        first
    }

    fn start(&mut self, event: Event<'_>) -> Result<bool, WireError> {
        bounded_parts(self.blocks.len())?;
        let index = event.index();
        let content = event.content_block.map(|block| *block).unwrap_or_default();
        self.blocks.push(Part { index, content, args: String::new(), stopped: false });
        Ok(true)
    }

    fn stop(&mut self, index: u64) -> bool {
        self.open(index).is_some_and(|part| !std::mem::replace(&mut part.stopped, true))
    }

    fn open(&mut self, index: u64) -> Option<&mut Part> {
        let place = self.place(index)?;
        self.blocks.get_mut(place)
    }

    /// The newest block of that index. Some servers number every block alike.
    fn place(&self, index: u64) -> Option<Place> {
        self.blocks.iter().rposition(|part| part.index == index)
    }

    fn delta(&mut self, event: &Event<'_>, data: &[u8], hear: &mut Hear<'_>) -> Result<(), WireError> {
        let Some(place) = self.place(event.index()) else {
            return Err(WireError::malformed(format!(
                "a piece of block {}, which never began",
                event.index()
            )));
        };
        let Some(delta) = &event.delta else { return Ok(()) };
        let part = &mut self.blocks[place];
        let (grown, moved) = match delta.kind.as_str() {
            "text_delta" => {
                self.grown = Some(place);
                part.append("text", delta.text.as_str());
                (Delta::Text(delta.text.as_str()), !delta.text.is_empty())
            }
            "thinking_delta" => {
                part.append("thinking", delta.thinking.as_str());
                (Delta::Thinking(delta.thinking.as_str()), !delta.thinking.is_empty())
            }
            "input_json_delta" => {
                args::append(&mut part.args, delta.partial_json.as_str())?;
                (Delta::Arguments, !delta.partial_json.is_empty())
            }
            _ => {
                let whole: Value = read(data)?;
                (Delta::Step, carry_delta(part, &whole["delta"]))
            }
        };
        if moved {
            hear(grown);
        }
        Ok(())
    }

    fn close(&mut self, event: &Event<'_>) -> bool {
        let before = (self.message.stop_reason.clone(), self.message.usage);
        if let Some(delta) = &event.delta {
            if !delta.stop_reason.is_empty() {
                self.message.stop_reason = delta.stop_reason.as_str().to_owned();
            }
            if let Some(details) = &delta.stop_details {
                self.message.stop_details = Value::clone(details);
            }
        }
        if let Some(usage) = &event.usage {
            count_into(&mut self.message.usage, usage);
        }
        before != (self.message.stop_reason.clone(), self.message.usage)
    }
}

/// Applies the deltas that are only carried back: a signature is set, a citation is added to the list, and of an
/// unknown kind each text is added to the block's field of the same name. Gives whether that brought anything.
fn carry_delta(part: &mut Part, delta: &Value) -> bool {
    match str_at(delta, "type") {
        "signature_delta" => {
            let signature = delta["signature"].clone();
            part.content.insert("signature".to_owned(), signature.clone()) != Some(signature)
        }
        "citations_delta" => {
            match part.content.get_mut("citations") {
                Some(Value::Array(citations)) => citations.push(delta["citation"].clone()),
                Some(_) | None => {
                    let first = Value::Array(vec![delta["citation"].clone()]);
                    part.content.insert("citations".to_owned(), first);
                }
            }
            true
        }
        _ => {
            let texts = delta.as_object().into_iter().flatten().filter(|(key, _)| *key != "type");
            let mut brought = false;
            for (key, value) in texts {
                if let Some(text) = value.as_str() {
                    part.append(key, text);
                    brought |= !text.is_empty();
                }
            }
            brought
        }
    }
}

/// An event with the fields of all kinds. The frequent ones borrow from the data and build no tree; the others are kept
/// small, because they are moved with every event.
#[derive(Debug, Deserialize)]
struct Event<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Piece<'a>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Pieces<'a>>,
    #[serde(default)]
    content_block: Option<Box<Map<String, Value>>>,
    #[serde(default)]
    message: Option<Box<Value>>,
    #[serde(default)]
    usage: Option<Box<Value>>,
}

impl Event<'_> {
    fn index(&self) -> u64 {
        self.index.unwrap_or(0)
    }
}

#[derive(Debug, Default, Deserialize)]
struct Pieces<'a> {
    #[serde(rename = "type", borrow, default)]
    kind: Piece<'a>,
    #[serde(borrow, default)]
    text: Piece<'a>,
    #[serde(borrow, default)]
    thinking: Piece<'a>,
    #[serde(borrow, default)]
    partial_json: Piece<'a>,
    #[serde(borrow, default)]
    stop_reason: Piece<'a>,
    #[serde(default)]
    stop_details: Option<Box<Value>>,
}
