//! The fold over a stream of Chat Completions. It owns the half-built message and hands it out only whole.
//!
//! Compatible servers differ most in how they number calls: by `index` as documented, all with the same index but
//! different ids, without an index, or with neither index nor id. They may repeat id and name with every piece, so those
//! are set once and never appended.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::super::args;
use super::super::encode::merge;
use super::super::lenient::Piece;
use super::super::reading::Place;
use super::super::reply::{Draft, bounded_parts, event as read};
use super::super::{Delta, Hear, Progress, Reply, WireError};
use super::reply::{CARRIED, Message, beside, build, usage};

#[derive(Debug, Default)]
pub struct Assembler {
    message: Message,
    calls: Vec<Growing>,
    done: bool,
    /// Did the last event add to the text, and nothing else?
    grown: bool,
}

#[derive(Debug, Default)]
struct Growing {
    index: Option<u64>,
    draft: Draft,
    /// Told from the one before it by nothing but a name that came again: that may have been a repetition.
    doubtful: bool,
}

impl Assembler {
    pub fn take(&mut self, name: &str, data: &[u8], hear: &mut Hear<'_>) -> Result<(), WireError> {
        if data.trim_ascii() == b"[DONE]" {
            if !self.done {
                hear(Delta::Step);
            }
            (self.done, self.grown) = (true, false);
            return Ok(());
        }
        self.grown = false;
        let chunk: Chunk<'_> = read(data)?;
        if name == "error" || chunk.error.is_some() {
            return Err(WireError::from_event(&read(data)?));
        }
        self.about(&chunk, hear);
        self.grown = chunk.is_text();
        // Only one reply was asked for; a server that sends more of them is heard for the first.
        let choices = chunk.choices.unwrap_or_default();
        for choice in choices.into_iter().filter(|choice| choice.index.unwrap_or(0) == 0) {
            self.choice(choice, hear)?;
        }
        Ok(())
    }

    pub(in super::super) fn grown(&self) -> Option<Place> {
        self.grown.then_some(0)
    }

    pub(in super::super) fn add_text(&mut self, text: &str) {
        self.message.text.push_str(text);
    }

    pub fn progress(&self) -> Progress {
        // With calls only the server's word counts: a closing marker alone may also follow a failure.
        let text_only = self.done && self.calls.is_empty() && !self.message.text.is_empty();
        let whole = !self.message.finish_reason.is_empty() || text_only;
        match (whole, self.done) {
            (true, true) => Progress::Done,
            (true, false) => Progress::Whole,
            (false, _) => Progress::Open,
        }
    }

    pub fn finish(mut self) -> Result<Reply, WireError> {
        if self.progress() == Progress::Open {
            return Err(WireError::truncated("the stream ended before the message did"));
        }
        self.calls.retain(|call| !call.doubtful || !call.draft.args.is_empty());
        self.calls.sort_by_key(|call| call.index.unwrap_or(u64::MAX));
        self.message.calls = self.calls.into_iter().map(|call| call.draft).collect();
        Ok(build(self.message))
    }

    /// Takes what stands around the choices.
    fn about(&mut self, chunk: &Chunk<'_>, hear: &mut Hear<'_>) {
        let message = &mut self.message;
        for (kept, given) in [(&mut message.id, &chunk.id), (&mut message.model, &chunk.model)] {
            if kept.is_empty() {
                given.as_str().clone_into(kept);
            }
        }
        let Some(counters) = chunk.usage.as_ref().filter(|counters| counters.is_object()) else {
            return;
        };
        // The last count is the whole one; servers that count along would otherwise look alive for ever.
        let counted = usage(counters);
        let grown = counted != message.usage;
        message.usage = counted;
        if grown {
            hear(Delta::Step);
        }
    }

    fn choice(&mut self, choice: Choice<'_>, hear: &mut Hear<'_>) -> Result<(), WireError> {
        if let Some(delta) = choice.delta.or(choice.message.map(|message| *message)) {
            self.said(&delta, hear);
            let mut unnumbered = 0;
            for piece in delta.tool_calls.unwrap_or_default() {
                unnumbered += usize::from(piece.index.is_none());
                // Of several in one list each is a call of its own, whatever they leave out.
                let own = if unnumbered > 1 && piece.index.is_none() { Own::Yes } else { Own::Perhaps };
                if self.call(piece, own)? {
                    hear(Delta::Arguments);
                }
            }
        }
        if !choice.finish_reason.is_empty() && self.message.finish_reason != choice.finish_reason.as_str() {
            choice.finish_reason.as_str().clone_into(&mut self.message.finish_reason);
            hear(Delta::Step);
        }
        Ok(())
    }

    fn said(&mut self, delta: &Pieces<'_>, hear: &mut Hear<'_>) {
        if !delta.content.is_empty() {
            self.message.text.push_str(delta.content.as_str());
            hear(Delta::Text(delta.content.as_str()));
        }
        if !delta.refusal.is_empty() {
            self.message.refusal.push_str(delta.refusal.as_str());
            hear(Delta::Step);
        }
        for (key, piece) in CARRIED.into_iter().zip([&delta.reasoning_content, &delta.reasoning]) {
            if !piece.is_empty() {
                append(&mut self.message.carried, key, piece.as_str());
                hear(Delta::Thinking(piece.as_str()));
            }
        }
        if let Some(details) = &delta.reasoning_details {
            let all =
                self.message.carried.entry("reasoning_details").or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(all) = all {
                all.extend(details.iter().cloned());
            }
        }
        if let Some(extra) = &delta.extra_content {
            merge(
                &mut self.message.carried,
                &Map::from_iter([("extra_content".to_owned(), Value::clone(extra))]),
            );
        }
    }

    /// Takes a piece of a call, and tells whether that brought anything.
    fn call(&mut self, piece: CallPiece<'_>, own: Own) -> Result<bool, WireError> {
        let found = self.find(&piece, own);
        let before = found.filter(|place| self.is_next(*place, &piece)).map(|place| &self.calls[place].draft);
        let doubtful = before.is_some_and(|before| piece.id.is_empty() && before.name == piece.name());
        let calls_before = self.calls.len();
        let place = match found {
            Some(place) if before.is_none() => place,
            Some(_) | None => {
                bounded_parts(self.calls.len())?;
                self.calls.push(Growing { index: piece.index, draft: Draft::default(), doubtful });
                self.calls.len() - 1
            }
        };
        let begun = self.calls.len() > calls_before;
        let draft = &mut self.calls[place].draft;
        merge(&mut draft.beside, &beside(&piece.beside));
        let Some(function) = &piece.function else { return Ok(begun) };
        for (kept, given) in [(&mut draft.id, &piece.id), (&mut draft.name, &function.name)] {
            if kept.is_empty() {
                given.as_str().clone_into(kept);
            }
        }
        args::append(&mut draft.args, function.arguments.as_str())?;
        Ok(begun || !function.arguments.is_empty())
    }

    /// The call a piece belongs to: the newest of its index (without one, the newest at all), unless the piece has an
    /// id and that call has another, or the piece is one of several that nothing but their place tells apart.
    fn find(&self, piece: &CallPiece<'_>, own: Own) -> Option<usize> {
        let same_index = |call: &Growing| piece.index.is_none() || call.index == piece.index;
        let place = self.calls.iter().rposition(same_index)?;
        let known = &self.calls[place].draft.id;
        let other = match own {
            Own::Perhaps => !piece.id.is_empty() && !known.is_empty() && *known != piece.id.as_str(),
            Own::Yes => true,
        };
        if !other {
            return Some(place);
        }
        let same_id = |call: &Growing| !piece.id.is_empty() && call.draft.id == piece.id.as_str();
        self.calls.iter().rposition(|call| same_index(call) && same_id(call))
    }

    /// Does a piece begin the next call, although nothing numbers it? It names a function, and the call it would belong
    /// to has another one, or all of its arguments.
    fn is_next(&self, place: usize, piece: &CallPiece<'_>) -> bool {
        let known = &self.calls[place].draft;
        let name = piece.name();
        let same_id = !piece.id.is_empty() && known.id == piece.id.as_str();
        if name.is_empty() || known.name.is_empty() || same_id {
            return false;
        }
        known.name != name || args::is_whole(&known.args)
    }
}

/// Is a piece of a call one of its own?
#[derive(Clone, Copy, Debug, PartialEq)]
enum Own {
    Yes,
    Perhaps,
}

fn append(fields: &mut Map<String, Value>, key: &str, piece: &str) {
    match fields.get_mut(key) {
        Some(Value::String(text)) => text.push_str(piece),
        Some(_) | None => {
            fields.insert(key.to_owned(), Value::from(piece));
        }
    }
}

#[derive(Debug, Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    id: Piece<'a>,
    #[serde(borrow, default)]
    model: Piece<'a>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Box<Value>>,
    #[serde(default)]
    error: Option<Box<Value>>,
}

impl Chunk<'_> {
    /// Is it a piece of text of the one reply, and nothing that would be taken in otherwise?
    fn is_text(&self) -> bool {
        match self.choices.as_deref() {
            Some([Choice { index: None | Some(0), delta: Some(delta), finish_reason, .. }]) => {
                self.usage.is_none() && finish_reason.is_empty() && delta.is_text()
            }
            Some(_) | None => false,
        }
    }
}

#[derive(Debug, Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<Pieces<'a>>,
    /// Where some servers put a whole message in their only chunk.
    #[serde(borrow, default)]
    message: Option<Box<Pieces<'a>>>,
    #[serde(borrow, default)]
    finish_reason: Piece<'a>,
}

#[derive(Debug, Deserialize)]
struct Pieces<'a> {
    #[serde(borrow, default)]
    content: Piece<'a>,
    #[serde(borrow, default)]
    refusal: Piece<'a>,
    #[serde(borrow, default)]
    reasoning_content: Piece<'a>,
    #[serde(borrow, default)]
    reasoning: Piece<'a>,
    #[serde(default)]
    reasoning_details: Option<Vec<Value>>,
    #[serde(default)]
    extra_content: Option<Box<Value>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallPiece<'a>>>,
}

impl Pieces<'_> {
    fn is_text(&self) -> bool {
        let others = [&self.refusal, &self.reasoning_content, &self.reasoning];
        !self.content.is_empty()
            && others.into_iter().all(Piece::is_empty)
            && self.reasoning_details.is_none()
            && self.extra_content.is_none()
            && self.tool_calls.is_none()
    }
}

#[derive(Debug, Deserialize)]
struct CallPiece<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    id: Piece<'a>,
    #[serde(borrow, default)]
    function: Option<FunctionPiece<'a>>,
    #[serde(flatten)]
    beside: Map<String, Value>,
}

impl CallPiece<'_> {
    fn name(&self) -> &str {
        self.function.as_ref().map_or("", |function| function.name.as_str())
    }
}

#[derive(Debug, Deserialize)]
struct FunctionPiece<'a> {
    #[serde(borrow, default)]
    name: Piece<'a>,
    #[serde(borrow, default)]
    arguments: Piece<'a>,
}
