//! Chooses what the scripted model says, as a pure function of the script and the request.

use longhaul_core::conversation::{
    Message, ModelFailure, ModelFailureKind, ModelReply, ModelRequest, Scene, Usage,
};

use super::script::{Body, Conversation, Fail, Match, Prices, Script, Tokens, Turn};
use crate::limits;

/// What happens on one call.
#[derive(Debug)]
pub(super) enum Line<'a> {
    /// The reply, streamed over that time.
    Say {
        reply: ModelReply,
        delay_ms: u64,
    },
    Refuse(ModelFailure),
    /// Part of the text is heard before the connection breaks.
    Disconnect {
        heard: &'a str,
        failure: ModelFailure,
    },
    Stall {
        stall_ms: u64,
        failure: ModelFailure,
    },
}

pub(super) fn choose<'a>(script: &'a Script, request: &ModelRequest) -> Result<Line<'a>, ModelFailure> {
    let conversation = script.conversations.iter().find(|conversation| fits(&conversation.fits, request));
    let turn = turn(conversation.ok_or_else(|| nothing_fits(script, &request.scene))?, &request.scene);
    let body = body(turn, request);
    let retries = request.scene.attempt.retries() as usize;
    Ok(match turn.fail.get(retries) {
        Some(fail) => failing(fail, body),
        None => Line::Say { reply: reply(script, body), delay_ms: body.delay_ms },
    })
}

fn fits(wanted: &Match, request: &ModelRequest) -> bool {
    let scene = &request.scene;
    wanted.agent.as_deref().is_none_or(|agent| agent == &*scene.agent)
        && wanted.step.as_deref().is_none_or(|step| step == &*scene.step)
        && wanted.iteration.is_none_or(|iteration| iteration == scene.iteration)
        && wanted.depth.is_none_or(|depth| depth == scene.depth)
        && wanted.prompt_contains.as_deref().is_none_or(|needle| prompt_contains(request, needle))
}

/// The prompt is the system text and the first thing the user said: later messages change from turn to turn, and a
/// conversation must not change its script halfway.
fn prompt_contains(request: &ModelRequest, needle: &str) -> bool {
    let first_user_text = request.messages.iter().find_map(|message| match message {
        Message::User { text } => Some(text.as_str()),
        Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    request.system.contains(needle) || first_user_text.is_some_and(|text| text.contains(needle))
}

/// The n-th turn plays the n-th entry; past the end the last one plays again.
fn turn<'a>(conversation: &'a Conversation, scene: &Scene) -> &'a Turn {
    let Conversation { first, later, .. } = conversation;
    match scene.turn {
        0 | 1 => first,
        turn => later.get(turn as usize - 2).or(later.last()).unwrap_or(first),
    }
}

/// The first branch, in file order, whose needle is in one of the last tool results; else the turn's own body.
fn body<'a>(turn: &'a Turn, request: &ModelRequest) -> &'a Body {
    let results = last_results(&request.messages);
    let branch =
        turn.branches.iter().find(|branch| results.iter().any(|text| text.contains(branch.needle.as_str())));
    branch.map_or(&turn.body, |branch| &branch.body)
}

fn last_results(messages: &[Message]) -> Vec<&str> {
    let since_assistant =
        messages.iter().rev().take_while(|message| !matches!(message, Message::Assistant { .. }));
    since_assistant
        .filter_map(|message| match message {
            Message::Tool { text, .. } => Some(text.as_str()),
            Message::User { .. } | Message::Assistant { .. } => None,
        })
        .collect()
}

fn reply(script: &Script, body: &Body) -> ModelReply {
    ModelReply {
        text: body.text.clone(),
        calls: body.calls.clone(),
        usage: usage(&script.prices, body.tokens),
        ..ModelReply::default()
    }
}

fn usage(prices: &Prices, tokens: Tokens) -> Usage {
    let costs = [
        prices.input.per_million(tokens.input),
        prices.output.per_million(tokens.output),
        prices.cache_read.per_million(tokens.cache_read),
        prices.cache_write.per_million(tokens.cache_write),
    ];
    Usage {
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cache_read_tokens: tokens.cache_read,
        cache_write_tokens: tokens.cache_write,
        cost: costs.into_iter().sum(),
        unpriced_tokens: 0,
    }
}

fn failing<'a>(fail: &Fail, body: &'a Body) -> Line<'a> {
    match *fail {
        Fail::Status { status, retry_after_ms } => Line::Refuse(ModelFailure {
            kind: status_kind(status),
            after_ms: retry_after_ms,
            message: format!("the model answered with status {status}"),
        }),
        Fail::Disconnect { after_bytes } => Line::Disconnect {
            heard: split_near(&body.text, after_bytes).0,
            failure: broken(format!("connection lost after {after_bytes} bytes")),
        },
        Fail::Stall { stall_ms } => {
            Line::Stall { stall_ms, failure: broken(format!("stalled for {stall_ms} ms")) }
        }
        Fail::Fatal { ref message } => Line::Refuse(failure(ModelFailureKind::Fatal, message.clone())),
    }
}

/// What a provider's status means when nothing else is known.
fn status_kind(status: u16) -> ModelFailureKind {
    match status {
        401 | 403 => ModelFailureKind::Credentials,
        402 => ModelFailureKind::Quota,
        404 => ModelFailureKind::ModelUnknown,
        429 => ModelFailureKind::RateLimited,
        // Timed out, in conflict, or the provider's own trouble: all pass with time.
        408 | 409 | 500..=599 => ModelFailureKind::Unavailable,
        _ => ModelFailureKind::Fatal,
    }
}

fn broken(message: String) -> ModelFailure {
    failure(ModelFailureKind::Broken, message)
}

fn failure(kind: ModelFailureKind, message: String) -> ModelFailure {
    ModelFailure { kind, after_ms: None, message }
}

fn nothing_fits(script: &Script, scene: &Scene) -> ModelFailure {
    let Scene { agent, step, iteration, depth, .. } = scene;
    let message = format!(
        "no conversation of script `{}` fits agent `{agent}`, step `{step}`, iteration {iteration}, depth {depth}",
        script.name
    );
    failure(ModelFailureKind::Fatal, message)
}

/// A text cut into a few pieces with the pause before each; the pauses sum up to the whole delay.
#[derive(Debug)]
pub(super) struct Pieces<'a> {
    rest: &'a str,
    delay_ms: u64,
    done: u64,
    count: u64,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(text: &'a str, delay_ms: u64) -> Pieces<'a> {
        let pieces_max = if delay_ms == 0 { 1 } else { limits::STREAM_PIECES_MAX };
        let count = text.chars().count().clamp(1, pieces_max) as u64;
        Pieces { rest: text, delay_ms, done: 0, count }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = (u64, &'a str);

    fn next(&mut self) -> Option<(u64, &'a str)> {
        if self.done == self.count {
            return None;
        }
        let left = (self.count - self.done) as usize;
        let (piece, rest) = split_near(self.rest, self.rest.len() / left);
        let pause_ms =
            share(self.delay_ms, self.done + 1, self.count) - share(self.delay_ms, self.done, self.count);
        self.rest = rest;
        self.done += 1;
        Some((pause_ms, piece))
    }
}

/// Cuts after at most that many bytes, never through a letter.
fn split_near(text: &str, bytes: usize) -> (&str, &str) {
    let cut = (0..=bytes.min(text.len())).rev().find(|&at| text.is_char_boundary(at));
    text.split_at(cut.unwrap_or(0))
}

/// The first `part` of `whole` parts of a time; the time is bounded by `WAIT_MS_MAX`, so this cannot overflow.
fn share(time_ms: u64, part: u64, whole: u64) -> u64 {
    time_ms * part / whole
}
