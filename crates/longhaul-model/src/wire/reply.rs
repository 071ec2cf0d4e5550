//! The last step of every protocol's reading: calls made unique and strict, the stop reason made consistent.
//! It owns the rule that a call which may be cut off is not in a reply.

use std::collections::HashSet;

use longhaul_core::json::Json;
use serde_json::{Map, Value};

use super::encode::unused;
use super::limits::PARTS_MAX;
use super::{Kind, MalformedArgs, Reply, ReplyCall, Request, Stop, WireError, args};

/// A call as it was read, before anything is checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub id: String,
    pub name: String,
    pub args: String,
    /// What else the server said of the call, where it wants that back beside it.
    pub beside: Map<String, Value>,
}

/// A call as it goes into the reply, and the form in which it goes back to the server later.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub id: String,
    pub name: String,
    pub args: Result<Json, MalformedArgs>,
    pub replay: Value,
    pub beside: Map<String, Value>,
}

impl Settled {
    pub fn into_call(self) -> ReplyCall {
        ReplyCall { provider_id: self.id, name: self.name, args: self.args }
    }

    /// The arguments as text for the protocols that carry text: the model's own where they can be read back.
    pub fn replay_text(&self) -> String {
        match &self.args {
            Ok(json) => json.as_str().to_owned(),
            Err(_) => self.replay.to_string(),
        }
    }
}

/// Gives every call an id of its own. The first of several equal ids keeps it; the others get a number, by their place
/// in the reply, so that reading the same bytes again gives the same ids.
pub(super) fn settle(drafts: Vec<Draft>) -> Vec<Settled> {
    let mut used: HashSet<String> = HashSet::with_capacity(drafts.len());
    let settle_one = |(index, draft): (usize, Draft)| {
        let wanted = if draft.id.is_empty() { format!("call_{}", index + 1) } else { draft.id };
        let id = unused(&used, &wanted);
        used.insert(id.clone());
        let args = args::read(&draft.args);
        Settled { id, name: draft.name, replay: args::replayable(&args), args, beside: draft.beside }
    };
    drafts.into_iter().enumerate().map(settle_one).collect()
}

/// What stands last in a reply.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Last {
    /// A call that nothing says is complete.
    Call,
    Other,
}

/// How many of the calls are kept. A reply that ran into a limit was cut inside its last part, so a call in that place
/// may be half of one even if its arguments happen to read; a refused reply's calls are nobody's wish.
pub(super) fn kept(stop: &Stop, calls: usize, last: Last) -> usize {
    match stop {
        Stop::Length | Stop::Overflow if last == Last::Call => calls.saturating_sub(1),
        Stop::Refusal(_) => 0,
        Stop::Length | Stop::Overflow | Stop::End | Stop::ToolCalls | Stop::Other(_) => calls,
    }
}

/// Servers disagree on whether a reply with calls says "stop"; ours never does.
pub(super) fn consistent(stop: Stop, calls: usize) -> Stop {
    match stop {
        Stop::End | Stop::ToolCalls if calls > 0 => Stop::ToolCalls,
        Stop::End | Stop::ToolCalls => Stop::End,
        Stop::Length | Stop::Refusal(_) | Stop::Overflow | Stop::Other(_) => stop,
    }
}

/// Some servers (llama.cpp on Responses) call a reply finished that ran into the limit of tokens. One with as many tokens
/// as were allowed did run into it: a text is only part of one, and the last call is not to be made, whatever of its
/// arguments can be read. It stays in the reply, because the server will want an answer to it.
pub(super) fn limited(mut reply: Reply, request: &Request) -> Reply {
    let full = request.max_output_tokens.is_some_and(|max| reply.usage.output >= Some(u64::from(max)));
    if !full {
        return reply;
    }
    match reply.stop {
        Stop::End => reply.stop = Stop::Length,
        Stop::ToolCalls => reply.calls.last_mut().into_iter().for_each(cut_off),
        Stop::Length | Stop::Refusal(_) | Stop::Overflow | Stop::Other(_) => {}
    }
    reply
}

fn cut_off(call: &mut ReplyCall) {
    let text = match &call.args {
        Ok(json) => json.as_str().to_owned(),
        Err(malformed) => malformed.text.clone(),
    };
    call.args = Err(MalformedArgs { reason: "cut off by the limit of output tokens".to_owned(), text });
}

/// A whole body as JSON. One that ends too early was cut; any other fault is not this protocol.
pub(super) fn json_body(body: &[u8]) -> Result<Value, WireError> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Err(WireError::truncated("the answer is empty"));
    }
    serde_json::from_slice(body).map_err(|error| match error.is_eof() {
        true => WireError::truncated("the answer is cut off"),
        false => WireError::malformed(format!("the answer is not JSON: {error}")),
    })
}

/// One event's data, which must be a JSON object: a derived reader would also take a list for one. Whether it is text is
/// asked once, because a reader of bytes would ask for each string.
pub(super) fn event<'a, T: serde::Deserialize<'a>>(data: &'a [u8]) -> Result<T, WireError> {
    let text = std::str::from_utf8(data);
    let text = text.map_err(|error| WireError::malformed(format!("an event is not text: {error}")))?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(WireError::malformed("an event is not a JSON object"));
    }
    serde_json::from_str(text)
        .map_err(|error| WireError::malformed(format!("an event is not readable: {error}")))
}

/// Refuses one part too many.
pub(super) fn bounded_parts(parts: usize) -> Result<(), WireError> {
    if parts < PARTS_MAX {
        return Ok(());
    }
    Err(WireError::new(Kind::TooLarge, format!("the reply has more than {PARTS_MAX} parts")))
}
