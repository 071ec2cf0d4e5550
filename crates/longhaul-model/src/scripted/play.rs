//! Chooses what the scripted model says, as a pure function of the script and the request.

use longhaul_core::conversation::{
    Message, ModelFailure, ModelFailureKind, ModelReply, ModelRequest, Scene, Usage,
};
use longhaul_core::ids::Attempt;
use longhaul_core::money::Usd;

use super::fault::{Breakage, Fault, Odd, Refusal, SaidCall, TOOL_DEFAULT};
use super::script::{Body, Conversation, Cost, Fail, Match, NoCost, Prices, Script, Tokens, Turn, Wait};
use crate::limits;
use crate::provider::convert;
use crate::wire::by_status;
use crate::wire::limits::{RETRY_AFTER_MAX, RETRY_AFTER_MIN};

/// Everything a choice depends on, whichever way the request came.
#[derive(Debug)]
pub(crate) struct Cue<'a> {
    pub(crate) stage: Stage<'a>,
    pub(crate) system: &'a str,
    /// The first thing the user said: later messages change from turn to turn, and a conversation must not change its
    /// script halfway.
    pub(crate) first_user_text: &'a str,
    /// Results of the tools since the model last spoke.
    pub(crate) last_results: Vec<&'a str>,
    /// Counted from 1 within the conversation.
    pub(crate) turn: u32,
    pub(crate) attempt: Attempt,
}

/// Who asks, and where in a run.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stage<'a> {
    Known(&'a Scene),
    /// Nothing on the wire says it. Conversations that ask for an agent, a step, an iteration or a depth are played
    /// only if no other fits, and then as if they did not ask.
    Unknown,
}

/// What is played: the turn's body, unless this attempt is to fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice<'a> {
    pub(crate) body: &'a Body,
    pub(crate) fail: Option<&'a Fail>,
}

/// Finds what is played; nothing, if no conversation fits.
pub(crate) fn choose<'a>(script: &'a Script, cue: &Cue<'_>) -> Option<Choice<'a>> {
    let turn = turn(conversation(script, cue)?, cue.turn);
    Some(Choice { body: body(turn, cue), fail: fail(turn, cue.attempt) })
}

/// What happens on one call of a model that is asked directly.
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

pub(super) fn line<'a>(script: &'a Script, request: &ModelRequest) -> Result<Line<'a>, ModelFailure> {
    let choice = choose(script, &cue(request)).ok_or_else(|| nothing_fits(script, &request.scene))?;
    let body = choice.body;
    let said = |text: &str, calls: Vec<SaidCall>| Line::Say {
        reply: reply(script, body, text, calls),
        delay_ms: body.delay_ms,
    };
    Ok(match choice.fail {
        None => said(&body.text, body.calls.iter().map(SaidCall::of).collect()),
        Some(Fail::Fault(Fault::Odd(odd))) => said(odd.text(body), odd_calls(*odd, body, request)),
        Some(fail) => failing(fail, body),
    })
}

fn odd_calls(odd: Odd, body: &Body, request: &ModelRequest) -> Vec<SaidCall> {
    odd.calls(body, request.tools.first().map_or(TOOL_DEFAULT, String::as_str))
}

fn cue(request: &ModelRequest) -> Cue<'_> {
    let first_user_text = request.messages.iter().find_map(|message| match message {
        Message::User { text } => Some(text.as_str()),
        Message::Assistant { .. } | Message::Tool { .. } => None,
    });
    Cue {
        stage: Stage::Known(&request.scene),
        system: &request.system,
        first_user_text: first_user_text.unwrap_or(""),
        last_results: last_results(&request.messages),
        turn: request.scene.turn,
        attempt: request.scene.attempt,
    }
}

fn conversation<'a>(script: &'a Script, cue: &Cue<'_>) -> Option<&'a Conversation> {
    let mut heard = script.conversations.iter().filter(|conversation| prompt_fits(&conversation.fits, cue));
    match cue.stage {
        Stage::Known(scene) => heard.find(|conversation| scene_fits(&conversation.fits, scene)),
        Stage::Unknown => {
            let mut rest = heard.clone();
            heard.find(|conversation| !asks_for_scene(&conversation.fits)).or_else(|| rest.next())
        }
    }
}

fn scene_fits(wanted: &Match, scene: &Scene) -> bool {
    wanted.agent.as_deref().is_none_or(|agent| agent == &*scene.agent)
        && wanted.step.as_deref().is_none_or(|step| step == &*scene.step)
        && wanted.iteration.is_none_or(|iteration| iteration == scene.iteration)
        && wanted.depth.is_none_or(|depth| depth == scene.depth)
}

fn asks_for_scene(wanted: &Match) -> bool {
    wanted.agent.is_some() || wanted.step.is_some() || wanted.iteration.is_some() || wanted.depth.is_some()
}

fn prompt_fits(wanted: &Match, cue: &Cue<'_>) -> bool {
    let contains = |needle: &str| cue.system.contains(needle) || cue.first_user_text.contains(needle);
    wanted.prompt_contains.as_deref().is_none_or(contains)
}

/// The n-th turn plays the n-th entry; past the end the last one plays again.
fn turn(conversation: &Conversation, turn: u32) -> &Turn {
    let Conversation { first, later, .. } = conversation;
    match turn {
        0 | 1 => first,
        turn => later.get(turn as usize - 2).or(later.last()).unwrap_or(first),
    }
}

/// The first branch, in file order, whose needle is in one of the last tool results; else the turn's own body.
fn body<'a>(turn: &'a Turn, cue: &Cue<'_>) -> &'a Body {
    let in_results = |needle: &str| cue.last_results.iter().any(|text| text.contains(needle));
    let branch = turn.branches.iter().find(|branch| in_results(&branch.needle));
    branch.map_or(&turn.body, |branch| &branch.body)
}

/// The entry this attempt fails like; the attempts after all entries have none.
fn fail(turn: &Turn, attempt: Attempt) -> Option<&Fail> {
    let mut left = attempt.retries();
    for failing in &turn.fail {
        match left.checked_sub(failing.times) {
            None => return Some(&failing.fail),
            Some(rest) => left = rest,
        }
    }
    None
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

fn reply(script: &Script, body: &Body, text: &str, calls: Vec<SaidCall>) -> ModelReply {
    ModelReply {
        text: text.to_owned(),
        calls: calls.into_iter().map(SaidCall::proposed).collect(),
        usage: usage(&script.prices, body.tokens),
        stop: body.stop,
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
    let mut usage = Usage {
        input_tokens: tokens.input,
        output_tokens: tokens.output,
        cache_read_tokens: tokens.cache_read,
        cache_write_tokens: tokens.cache_write,
        cost: costs.into_iter().sum(),
        unpriced_tokens: 0,
        estimated_tokens: tokens.estimated,
    };
    match tokens.cost {
        Some(Cost::Dollars(dollars)) => usage.cost = Usd::from_dollars(dollars).unwrap_or(usage.cost),
        Some(Cost::Word(NoCost::Unknown)) => {
            (usage.cost, usage.unpriced_tokens) = (Usd::ZERO, usage.tokens());
        }
        None => {}
    }
    usage
}

fn failing<'a>(fail: &Fail, body: &'a Body) -> Line<'a> {
    match fail {
        Fail::Status { status, wait } => Line::Refuse(ModelFailure {
            after_ms: wait_ms(wait),
            ..failure(status_kind(*status), format!("the model answered with status {status}"))
        }),
        Fail::Disconnect { after_bytes } => Line::Disconnect {
            heard: split_near(&body.text, *after_bytes).0,
            failure: broken(format!("connection lost after {after_bytes} bytes")),
        },
        Fail::Stall { stall_ms } => {
            Line::Stall { stall_ms: *stall_ms, failure: broken(format!("stalled for {stall_ms} ms")) }
        }
        Fail::Fatal { message } => Line::Refuse(failure(ModelFailureKind::Fatal, message.clone())),
        Fail::Fault(fault) => Line::Refuse(ModelFailure {
            garbled: is_garbled(*fault),
            after_ms: (*fault == Fault::Refusal(Refusal::RateLimited))
                .then_some(limits::RATE_LIMITED_S * 1000),
            ..failure(fault_kind(*fault), format!("the model's provider failed with {}", fault.as_str()))
        }),
    }
}

/// What a named fault means for the run. The one place that says so.
fn fault_kind(fault: Fault) -> ModelFailureKind {
    match fault {
        Fault::Refusal(Refusal::Credentials | Refusal::Forbidden) => ModelFailureKind::Credentials,
        Fault::Refusal(Refusal::Quota) => ModelFailureKind::Quota,
        Fault::Refusal(Refusal::ModelRemoved) => ModelFailureKind::ModelUnknown,
        Fault::Refusal(Refusal::Overflow) => ModelFailureKind::Overflow,
        Fault::Refusal(Refusal::Content) => ModelFailureKind::Refused,
        Fault::Refusal(Refusal::RateLimited) => ModelFailureKind::RateLimited,
        Fault::Refusal(Refusal::Overloaded) => ModelFailureKind::Unavailable,
        // Too much of something, something else, or only a part.
        Fault::Breakage(Breakage::HugeEvent | Breakage::EndlessEvents | Breakage::GzipBomb)
        | Fault::Breakage(Breakage::InvalidUtf8)
        | Fault::Breakage(Breakage::Drip | Breakage::TruncatedJson | Breakage::Empty) => {
            ModelFailureKind::Broken
        }
        // Nothing came that would have to be paid for.
        Fault::Breakage(Breakage::PingsOnly | Breakage::Silence) => ModelFailureKind::Unavailable,
        Fault::Breakage(Breakage::GarbageTls | Breakage::Html | Breakage::WrongType) => {
            ModelFailureKind::Unreachable
        }
        // Played as a reply; as a failure it would be one of the script.
        Fault::Odd(_) => ModelFailureKind::Fatal,
    }
}

/// Is what came whole, and no reply?
fn is_garbled(fault: Fault) -> bool {
    let garbling = [Breakage::HugeEvent, Breakage::EndlessEvents, Breakage::GzipBomb, Breakage::InvalidUtf8];
    garbling.into_iter().any(|breakage| fault == Fault::Breakage(breakage))
}

/// What a provider's status means when nothing else is known.
fn status_kind(status: u16) -> ModelFailureKind {
    convert::kind(by_status(status)).0
}

/// The wait a failure asks for. Of a raw header only seconds are read, within the wire's bounds: a date would need a
/// clock, and there is none here.
fn wait_ms(wait: &Wait) -> Option<u64> {
    match wait {
        Wait::Unsaid => None,
        Wait::Ms(ms) => Some(*ms),
        Wait::Text(text) => {
            let seconds = text.trim().parse::<f64>().ok().filter(|seconds| seconds.is_finite())?;
            let (min, max) = (RETRY_AFTER_MIN.as_secs_f64(), RETRY_AFTER_MAX.as_secs_f64());
            Some((seconds.clamp(min, max) * 1000.0) as u64)
        }
    }
}

fn broken(message: String) -> ModelFailure {
    failure(ModelFailureKind::Broken, message)
}

fn failure(kind: ModelFailureKind, message: String) -> ModelFailure {
    ModelFailure::new(kind, message)
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
pub(crate) struct Pieces<'a> {
    rest: &'a str,
    delay_ms: u64,
    done: u64,
    count: u64,
}

impl<'a> Pieces<'a> {
    /// A text without a delay is one piece: nobody could tell.
    pub(super) fn of(text: &'a str, delay_ms: u64) -> Pieces<'a> {
        let pieces_max = if delay_ms == 0 { 1 } else { limits::STREAM_PIECES_MAX };
        Pieces::at_most(pieces_max, text, delay_ms)
    }

    /// Several pieces in any case, as a stream has them.
    pub(crate) fn several(text: &'a str, delay_ms: u64) -> Pieces<'a> {
        Pieces::at_most(limits::STREAM_PIECES_MAX, text, delay_ms)
    }

    fn at_most(pieces_max: usize, text: &'a str, delay_ms: u64) -> Pieces<'a> {
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
