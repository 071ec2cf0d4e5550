//! A reply in no protocol's terms, and the stream it becomes. It owns ids, which follow from the request alone, so that
//! the same request always hears the same bytes; each protocol's file owns the shapes.

use longhaul_core::conversation::Stop;
use serde_json::Value;

use super::asked::{Asked, Usage};
use super::plan::Act;
use super::{anthropic, chat, responses};
use crate::scripted::fault::{Odd, SaidCall, TOOL_DEFAULT};
use crate::scripted::script::{Body, Tokens};
use crate::wire::Api;

#[derive(Debug)]
pub(super) struct Spoken {
    /// What ids are made of.
    pub(super) digest: u64,
    pub(super) model: String,
    pub(super) text: String,
    pub(super) calls: Vec<SaidCall>,
    pub(super) ids: Ids,
    pub(super) stop: Stop,
    pub(super) tokens: Tokens,
    pub(super) delay_ms: u64,
    pub(super) usage: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ids {
    Unique,
    /// All calls have one.
    Same,
}

/// The events of a reply. At `whole_at` stands the first without which it would not be whole.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) frames: Vec<Frame>,
    pub(super) whole_at: usize,
}

#[derive(Debug)]
pub(super) struct Frame {
    pub(super) pause_ms: u64,
    pub(super) bytes: Vec<u8>,
}

impl Spoken {
    pub(super) fn new(asked: &Asked, body: &Body, digest: u64) -> Spoken {
        Spoken {
            digest,
            model: asked.model.clone(),
            text: body.text.clone(),
            calls: body.calls.iter().map(SaidCall::of).map(SaidCall::sent).collect(),
            ids: Ids::Unique,
            stop: body.stop,
            tokens: body.tokens,
            delay_ms: body.delay_ms,
            usage: asked.usage,
        }
    }

    pub(super) fn odd(asked: &Asked, body: &Body, digest: u64, odd: Odd) -> Spoken {
        let tool = asked.tools.first().map_or(TOOL_DEFAULT, String::as_str);
        let ids = if odd == Odd::DuplicateIds { Ids::Same } else { Ids::Unique };
        let text = odd.text(body).to_owned();
        let calls = odd.calls(body, tool).into_iter().map(SaidCall::sent).collect();
        let usage = if odd == Odd::NoUsage { Usage::Untold } else { asked.usage };
        Spoken { text, calls, ids, usage, ..Spoken::new(asked, body, digest) }
    }

    pub(super) fn refused(asked: &Asked, body: &Body, digest: u64) -> Spoken {
        let usual = Spoken::new(asked, body, digest);
        Spoken { text: String::new(), calls: Vec::new(), stop: Stop::Refused, ..usual }
    }

    pub(super) fn id(&self, prefix: &str) -> String {
        format!("{prefix}_{:016x}", self.digest)
    }

    /// The id of the n-th call.
    pub(super) fn call_id(&self, prefix: &str, number: usize) -> String {
        let number = match self.ids {
            Ids::Unique => number,
            Ids::Same => 0,
        };
        format!("{prefix}_{:016x}{number:03}", self.digest)
    }

    pub(super) fn input_tokens(&self) -> u64 {
        let Tokens { input, cache_read, cache_write, .. } = self.tokens;
        input.saturating_add(cache_read).saturating_add(cache_write)
    }

    pub(super) fn plain(&self, api: Api) -> Value {
        match api {
            Api::Anthropic => anthropic::plain(self),
            Api::Responses => responses::plain(self),
            Api::Chat => chat::plain(self),
        }
    }

    pub(super) fn stream(&self, api: Api) -> Stream {
        let mut stream = match api {
            Api::Anthropic => anthropic::stream(self),
            Api::Responses => responses::stream(self),
            Api::Chat => chat::stream(self),
        };
        // A delay is spread over the text; without any it comes before everything.
        if let Some(first) = stream.frames.first_mut().filter(|_| self.text.is_empty()) {
            first.pause_ms = self.delay_ms;
        }
        stream
    }
}

impl Stream {
    pub(super) fn push(&mut self, pause_ms: u64, bytes: Vec<u8>) {
        self.frames.push(Frame { pause_ms, bytes });
    }

    /// An event under the name its data has.
    pub(super) fn named(&mut self, pause_ms: u64, data: &Value) {
        let name = data["type"].as_str().unwrap_or("");
        self.push(pause_ms, format!("event: {name}\ndata: {data}\n\n").into_bytes());
    }

    /// From here on the reply is whole.
    pub(super) fn is_whole_from_here(&mut self) {
        self.whole_at = self.frames.len();
    }

    pub(super) fn acts(self) -> Vec<Act> {
        let acts = |frame: Frame| {
            let pause = (frame.pause_ms > 0).then_some(Act::Pause { ms: frame.pause_ms });
            pause.into_iter().chain([Act::Send(frame.bytes)])
        };
        self.frames.into_iter().flat_map(acts).collect()
    }

    pub(super) fn bytes(self) -> Vec<u8> {
        self.frames.into_iter().flat_map(|frame| frame.bytes).collect()
    }

    /// At most so many bytes, and never the whole reply.
    pub(super) fn cut(mut self, bytes: usize) -> Vec<u8> {
        self.frames.truncate(self.whole_at);
        let mut cut = self.bytes();
        cut.truncate(bytes);
        cut
    }

    pub(super) fn first(mut self) -> Vec<u8> {
        self.frames.truncate(1);
        self.bytes()
    }
}
