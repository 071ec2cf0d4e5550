//! The fold over a stream of OpenAI Responses. It owns the items while they grow and hands them out only whole.
//!
//! Finished items are the truth. The pieces before them are shown, and kept for the servers that leave a finished
//! item's fields empty.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::args;
use super::super::lenient::{Piece, str_at};
use super::super::reading::Place;
use super::super::reply::{bounded_parts, event as read};
use super::super::{Delta, Hear, Progress, Reply, WireError};
use super::reply::{build, is_call};

const TEXT_AGAIN: &str = "response.output_text.done";
const COMPLETED: &str = "response.completed";

#[derive(Debug, Default)]
pub struct Assembler {
    parts: Vec<Part>,
    /// The response object of the last event.
    response: Option<Value>,
    /// The item the last event added text to, if it was of that kind.
    grown: Option<Place>,
    /// Of the last event that was no piece: its kind, and the index and the id of its item.
    announced: Option<(String, Option<u64>, String)>,
}

/// An output item while it grows.
#[derive(Debug, Default)]
struct Part {
    index: Option<u64>,
    id: String,
    item: Value,
    text: String,
    args: String,
    done: bool,
}

impl Assembler {
    pub fn take(&mut self, name: &str, data: &[u8], hear: &mut Hear<'_>) -> Result<(), WireError> {
        self.grown = None;
        if data == b"[DONE]" {
            return Ok(());
        }
        // What its pieces have said, and its item says once more: as long as all of them together, and not read.
        if name == TEXT_AGAIN {
            if self.is_news(name, None, "") {
                hear(Delta::Step);
            }
            return Ok(());
        }
        let is_last = name == COMPLETED && !self.parts.is_empty() && self.parts.iter().all(|part| part.done);
        if is_last
            && let Ok(event) = read::<Event<'_, Outline>>(data)
            && (event.kind.is_empty() || event.kind.as_str() == COMPLETED)
        {
            return self.complete(event, hear);
        }
        let event: Event<'_, Value> = read(data)?;
        let kind = if event.kind.is_empty() { name } else { event.kind.as_str() };
        match kind {
            "response.output_text.delta" => {
                let place = self.place(&event)?;
                self.add_text(place, event.delta.as_str());
                self.grown = Some(place);
                hear_piece(Delta::Text(event.delta.as_str()), &event, hear);
                return Ok(());
            }
            "response.function_call_arguments.delta" => {
                args::append(&mut self.part(&event)?.args, event.delta.as_str())?;
                hear_piece(Delta::Arguments, &event, hear);
                return Ok(());
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                hear_piece(Delta::Thinking(event.delta.as_str()), &event, hear);
                return Ok(());
            }
            other if other.starts_with("response.") && other.ends_with(".delta") => {
                hear_piece(Delta::Step, &event, hear);
                return Ok(());
            }
            _ => {}
        }
        let moved = self.is_news(kind, event.output_index, event.item_id.as_str());
        match kind {
            "response.function_call_arguments.done" => self.arguments_done(&event)?,
            "response.output_item.added" => self.item(event, Whole::No)?,
            "response.output_item.done" => self.item(event, Whole::Yes)?,
            COMPLETED | "response.incomplete" | "response.failed" | "response.cancelled" => {
                self.end(kind, *event.response.unwrap_or_default())?;
            }
            "error" => return Err(WireError::from_event(&read(data)?)),
            // What announces, repeats or annotates what the finished items contain.
            announced if announced.starts_with("response.") => {}
            // Keepalives, and what nobody knows. Neither moves the reply forward, so a stall behind them is one.
            _ => return Ok(()),
        }
        if moved {
            hear(Delta::Step);
        }
        Ok(())
    }

    /// Says this event something else than the last of its kind? Some servers repeat that a response is in progress for as long
    /// as they have nothing else to say.
    fn is_news(&mut self, kind: &str, output_index: Option<u64>, item_id: &str) -> bool {
        let said = (kind.to_owned(), output_index, item_id.to_owned());
        let news = self.announced.as_ref() != Some(&said);
        self.announced = Some(said);
        news
    }

    pub(in super::super) fn grown(&self) -> Option<Place> {
        self.grown
    }

    pub(in super::super) fn add_text(&mut self, place: Place, text: &str) {
        if let Some(part) = self.parts.get_mut(place) {
            part.text.push_str(text);
        }
    }

    pub fn progress(&self) -> Progress {
        if self.response.is_some() { Progress::Done } else { Progress::Open }
    }

    pub fn finish(mut self) -> Result<Reply, WireError> {
        let Some(response) = self.response.take() else {
            return Err(WireError::truncated("the stream ended before the response did"));
        };
        let items = self.items(&response)?;
        build(&response, items)
    }

    fn arguments_done(&mut self, event: &Event<'_, Value>) -> Result<(), WireError> {
        if event.arguments.is_empty() {
            return Ok(());
        }
        let args = &mut self.part(event)?.args;
        args.clear();
        args::append(args, event.arguments.as_str())
    }

    fn item(&mut self, event: Event<'_, Value>, whole: Whole) -> Result<(), WireError> {
        let item = event.item.map(|item| *item).unwrap_or_default();
        let id = [event.item_id.as_str(), str_at(&item, "id"), str_at(&item, "call_id")];
        let id = id.into_iter().find(|id| !id.is_empty()).unwrap_or("").to_owned();
        let place = match whole {
            Whole::No => self.begin(event.output_index, id)?,
            Whole::Yes => self.find_or_begin(event.output_index, &id)?,
        };
        let part = &mut self.parts[place];
        part.item = item;
        part.done = whole == Whole::Yes;
        Ok(())
    }

    fn part(&mut self, event: &Event<'_, Value>) -> Result<&mut Part, WireError> {
        let place = self.place(event)?;
        Ok(&mut self.parts[place])
    }

    fn place(&mut self, event: &Event<'_, Value>) -> Result<Place, WireError> {
        self.find_or_begin(event.output_index, event.item_id.as_str())
    }

    /// A newly announced item: a piece may already have come for it, if events were reordered.
    fn begin(&mut self, index: Option<u64>, id: String) -> Result<Place, WireError> {
        let early = self.find(index, &id).filter(|place| self.parts[*place].item.is_null());
        early.map_or_else(|| self.push(index, id), Ok)
    }

    fn find_or_begin(&mut self, index: Option<u64>, id: &str) -> Result<Place, WireError> {
        self.find(index, id).map_or_else(|| self.push(index, id.to_owned()), Ok)
    }

    /// By the index, else by the id, else the newest: llama.cpp sends no index, and a call's id in place of an item's.
    fn find(&self, index: Option<u64>, id: &str) -> Option<Place> {
        match (index, id) {
            (Some(index), _) => self.parts.iter().rposition(|part| part.index == Some(index)),
            (None, "") => self.parts.iter().rposition(|part| !part.done),
            (None, id) => self.parts.iter().rposition(|part| part.id == id && !part.done),
        }
    }

    fn push(&mut self, index: Option<u64>, id: String) -> Result<Place, WireError> {
        bounded_parts(self.parts.len())?;
        self.parts.push(Part { index, id, ..Part::default() });
        Ok(self.parts.len() - 1)
    }

    /// The end of a response whose items have all been read.
    fn complete(&mut self, event: Event<'_, Outline>, hear: &mut Hear<'_>) -> Result<(), WireError> {
        if self.is_news(COMPLETED, event.output_index, event.item_id.as_str()) {
            hear(Delta::Step);
        }
        self.end(COMPLETED, event.response.map(|outline| outline.into_value()).unwrap_or_default())
    }

    fn end(&mut self, kind: &str, mut response: Value) -> Result<(), WireError> {
        if kind == "response.failed" || kind == "response.cancelled" {
            return Err(WireError::from_event(&response));
        }
        if kind == "response.incomplete" && response.is_object() {
            response["status"] = Value::from("incomplete");
        }
        self.response = Some(response);
        Ok(())
    }

    /// The items in their order. One that was never finished is looked for in the last event; a message may be rebuilt
    /// from its pieces, a call may not. Pieces that turn up again in a finished item were only badly addressed.
    fn items(mut self, response: &Value) -> Result<Vec<Value>, WireError> {
        if self.parts.iter().all(|part| !part.done)
            && response["output"].as_array().is_some_and(|all| !all.is_empty())
        {
            return Ok(Vec::new());
        }
        self.parts.sort_by_key(|part| part.index.unwrap_or(u64::MAX));
        let (texts, args): (Vec<String>, Vec<String>) =
            self.parts.iter().filter(|part| part.done).map(|part| finished_text(&part.item)).unzip();
        self.parts.retain(|part| {
            let repeated = texts.contains(&part.text) && args.contains(&part.args);
            part.done || !part.item.is_null() || !repeated
        });
        self.parts.into_iter().filter_map(|part| part.into_item(response).transpose()).collect()
    }
}

impl Part {
    fn into_item(mut self, response: &Value) -> Result<Option<Value>, WireError> {
        if !self.done {
            return self.unfinished(response);
        }
        if is_call(&self.item) && str_at(&self.item, "arguments").is_empty() && !self.args.is_empty() {
            self.item["arguments"] = Value::from(self.args);
        }
        Ok(Some(self.item))
    }

    fn unfinished(self, response: &Value) -> Result<Option<Value>, WireError> {
        let same = |item: &&Value| !self.id.is_empty() && str_at(item, "id") == self.id;
        if let Some(item) = response["output"].as_array().and_then(|output| output.iter().find(same)) {
            return Ok(Some(item.clone()));
        }
        if !self.text.is_empty() {
            let content = json!([{"type": "output_text", "text": self.text, "annotations": []}]);
            return Ok(Some(json!({"type": "message", "role": "assistant", "content": content})));
        }
        let cut = str_at(response, "status") == "incomplete";
        let is_call = is_call(&self.item) || !self.args.is_empty();
        if is_call && !cut {
            return Err(WireError::truncated("a call was announced and never finished"));
        }
        Ok(None)
    }
}

/// An empty piece brings nothing, so a stall behind such pieces is one.
fn hear_piece(piece: Delta<'_>, event: &Event<'_, Value>, hear: &mut Hear<'_>) {
    if !event.delta.is_empty() {
        hear(piece);
    }
}

/// What a finished item says, as its pieces would have: text of a message, arguments of a call, the other empty.
fn finished_text(item: &Value) -> (String, String) {
    let parts = item["content"].as_array().into_iter().flatten();
    (parts.map(|part| str_at(part, "text")).collect(), str_at(item, "arguments").to_owned())
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Whole {
    Yes,
    No,
}

/// An event with the fields of all kinds. The frequent ones borrow from the data and build no tree; the others are kept
/// small, because they are moved with every event.
#[derive(Debug, Deserialize)]
struct Event<'a, R> {
    #[serde(rename = "type", borrow, default)]
    kind: Piece<'a>,
    #[serde(default)]
    output_index: Option<u64>,
    #[serde(borrow, default)]
    item_id: Piece<'a>,
    #[serde(borrow, default)]
    delta: Piece<'a>,
    #[serde(borrow, default)]
    arguments: Piece<'a>,
    #[serde(default)]
    item: Option<Box<Value>>,
    #[serde(default = "absent")]
    response: Option<Box<R>>,
}

fn absent<T>() -> Option<T> {
    None
}

/// What is asked of a response besides its items, which make up most of it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Outline {
    id: Value,
    model: Value,
    status: Value,
    usage: Value,
    incomplete_details: Value,
    error: Value,
}

impl Outline {
    fn into_value(self) -> Value {
        let Outline { id, model, status, usage, incomplete_details, error } = self;
        json!({ "id": id, "model": model, "status": status, "usage": usage,
            "incomplete_details": incomplete_details, "error": error })
    }
}
