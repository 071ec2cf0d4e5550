//! The last step of every protocol's reading: calls made unique and strict, the stop reason made consistent.
//! It owns the rule that a call which may be cut off is not in a reply.

use std::collections::HashSet;

use longhaul_core::json::Json;
use serde_json::Value;

use super::encode::unused;
use super::limits::PARTS_MAX;
use super::{Kind, MalformedArgs, ReplyCall, Stop, WireError, args};

/// A call as it was read, before anything is checked.
#[derive(Clone, Debug, Default)]
pub(super) struct Draft {
    pub id: String,
    pub name: String,
    pub args: String,
}

/// A call as it goes into the reply, and the form in which it goes back to the server later.
#[derive(Clone, Debug)]
pub(super) struct Settled {
    pub id: String,
    pub name: String,
    pub args: Result<Json, MalformedArgs>,
    pub replay: Value,
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
        Settled { id, name: draft.name, replay: args::replayable(&args), args }
    };
    drafts.into_iter().enumerate().map(settle_one).collect()
}

/// How many of the calls are kept. A reply that ran into a limit was cut inside its last part, so a call in that place
/// may be half of one even if its arguments happen to read; a refused reply's calls are nobody's wish.
pub(super) fn kept(stop: &Stop, calls: usize, last_part_is_call: bool) -> usize {
    match stop {
        Stop::Length | Stop::Overflow if last_part_is_call => calls.saturating_sub(1),
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

/// One event's data as JSON.
pub(super) fn event<'a, T: serde::Deserialize<'a>>(data: &'a [u8]) -> Result<T, WireError> {
    serde_json::from_slice(data).map_err(|error| WireError::malformed(format!("an event is not readable: {error}")))
}

/// Refuses one part too many.
pub(super) fn bounded_parts(parts: usize) -> Result<(), WireError> {
    if parts < PARTS_MAX {
        return Ok(());
    }
    Err(WireError::new(Kind::TooLarge, format!("the reply has more than {PARTS_MAX} parts")))
}
