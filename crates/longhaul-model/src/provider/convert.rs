//! Between a run's conversation and the wire: messages become turns, a reply becomes text, calls and cost. Pure.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use longhaul_core::conversation::{
    CallRequest, Message, ModelFailure, ModelFailureKind, ModelReply, ModelRequest, ProposedCall, Raw, Stop,
    Usage,
};
use longhaul_core::ids::CallId;
use longhaul_core::json::Json;
use longhaul_core::tool::Image;
use serde_json::json;

use crate::provider::Sight;
use crate::wire::{self, Api, Kind, Turn, WireError};

/// What a request needs beyond the run's own words.
pub(crate) struct Terms<'a> {
    pub(crate) api: Api,
    /// The provider's name of the model.
    pub(crate) model: &'a str,
    pub(crate) offers: &'a [wire::ToolOffer],
    pub(crate) max_output_tokens: Option<u32>,
    pub(crate) manners: wire::Manners,
    pub(crate) extra: &'a serde_json::Map<String, serde_json::Value>,
    pub(crate) sight: &'a Sight,
}

pub(crate) fn request(request: &ModelRequest, terms: &Terms<'_>) -> wire::Request {
    let offered = |name: &String| terms.offers.iter().find(|offer| offer.name == *name).cloned();
    let schema = request.answer_schema.as_ref();
    wire::Request {
        model: terms.model.to_owned(),
        system: request.system.to_string(),
        turns: turns(request, terms),
        tools: request.tools.iter().filter_map(offered).collect(),
        max_output_tokens: terms.max_output_tokens,
        answer_schema: schema.map(Json::value),
        stream: true,
        manners: terms.manners,
        extra: terms.extra.clone(),
    }
}

fn turns(request: &ModelRequest, terms: &Terms<'_>) -> Vec<Turn> {
    let api = terms.api;
    let mut turns: Vec<Turn> = Vec::with_capacity(request.messages.len());
    let mut asked: &[CallRequest] = &[];
    for message in request.messages.iter() {
        match message {
            Message::User { text } => turns.push(Turn::User { text: text.clone() }),
            Message::Assistant { text, calls, raw } => {
                asked = calls;
                // A signature is its maker's: another model, even of the same family, would refuse it.
                let raw = raw.as_ref().filter(|raw| *raw.model == *request.model && raw.api == api.as_str());
                turns.push(Turn::Assistant {
                    text: text.clone(),
                    calls: calls.iter().map(call).collect(),
                    raw: raw.map(|raw| wire::Raw { api, content: raw.content.value() }),
                });
            }
            Message::Tool { call, failed, text, images } => {
                let mut result = wire::ToolResult {
                    provider_id: provider_id(asked, *call),
                    text: text.to_string(),
                    failed: *failed,
                    images: Vec::new(),
                };
                for image in images {
                    show(image, request, terms.sight, &mut result);
                }
                match turns.last_mut() {
                    Some(Turn::ToolResults(results)) => results.push(result),
                    Some(Turn::User { .. } | Turn::Assistant { .. }) | None => {
                        turns.push(Turn::ToolResults(vec![result]));
                    }
                }
            }
        }
    }
    turns
}

/// Shows an image with the result it belongs to; where that cannot be, the text says so.
fn show(image: &Image, request: &ModelRequest, sight: &Sight, result: &mut wire::ToolResult) {
    match (sight.against(&image.blob), request.pictures.get(&image.blob)) {
        (None, Some(bytes)) => result
            .images
            .push(wire::Image { media_type: image.media_type.clone(), base64: STANDARD.encode(bytes) }),
        (Some(why), _) => result.text.push_str(&format!("\n[{image}, not shown: {why}]")),
        (None, None) => result.text.push_str(&format!("\n{}", image.reference())),
    }
}

fn call(call: &CallRequest) -> wire::Call {
    let provider_id = call.provider_id.clone().unwrap_or_else(|| call.id.to_string());
    wire::Call { provider_id, name: call.tool.to_string(), args: call.args.clone() }
}

fn provider_id(asked: &[CallRequest], id: CallId) -> String {
    let known = asked.iter().find(|call| call.id == id).and_then(|call| call.provider_id.clone());
    known.unwrap_or_else(|| id.to_string())
}

/// A reply in the run's terms. `model` is the model's name as configured.
pub(super) fn reply(reply: wire::Reply, model: &str, usage: Usage) -> Result<ModelReply, ModelFailure> {
    let (stop, text) = match reply.stop {
        wire::Stop::Other(word) if is_interruption(&word) => {
            let message = format!("reply cut off: the model stopped for `{word}`");
            return Err(ModelFailure {
                usage: Some(usage),
                ..ModelFailure::new(ModelFailureKind::Broken, message)
            });
        }
        wire::Stop::End | wire::Stop::ToolCalls | wire::Stop::Other(_) => (Stop::End, reply.text),
        wire::Stop::Length => (Stop::Length, reply.text),
        wire::Stop::Overflow => (Stop::Overflow, reply.text),
        wire::Stop::Refusal(said) if said.is_empty() => (Stop::Refused, reply.text),
        wire::Stop::Refusal(said) => (Stop::Refused, said),
    };
    let calls: Vec<ProposedCall> = reply.calls.into_iter().map(proposed).collect();
    let raw = kept(&reply.raw, &text, &calls).then(|| Raw {
        model: model.to_owned(),
        api: reply.raw.api.as_str().to_owned(),
        content: Json::of(&reply.raw.content),
    });
    Ok(ModelReply { text, calls, usage, raw, stop, window: None })
}

/// Does a provider's own word for a stop mean that something came between? Then there is only a part of the reply. Servers
/// have many other words for an end (`eos`, `done`), and those are one.
fn is_interruption(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    [
        "insufficient",
        "interrupt",
        "error",
        "fail",
        "abort",
        "cancel",
        "timeout",
        "time_out",
        "pause",
        "incomplete",
    ]
    .iter()
    .any(|sign| word.contains(sign))
}

/// Under which name the arguments of a call that is refused for them are kept as they came.
const UNREADABLE: &str = "unreadable";

/// What was kept so, if it was.
pub(crate) fn unreadable(args: &Json) -> Option<String> {
    args.value().get(UNREADABLE)?.as_str().map(str::to_owned)
}

fn proposed(call: wire::ReplyCall) -> ProposedCall {
    let (args, malformed) = match call.args {
        Ok(args) => (args, None),
        Err(malformed) => (Json::of(&json!({ UNREADABLE: malformed.text })), Some(malformed.reason)),
    };
    ProposedCall { tool: call.name.into(), args, provider_id: Some(call.provider_id), malformed }
}

/// Is there more in the protocol's own words than in text and calls? Only then they are worth keeping: a journal that
/// held every reply twice would be twice as long.
fn kept(raw: &wire::Raw, text: &str, calls: &[ProposedCall]) -> bool {
    let turn = |raw: Option<&wire::Raw>| wire::Request {
        model: String::new(),
        system: String::new(),
        turns: vec![Turn::Assistant {
            text: text.to_owned(),
            calls: calls
                .iter()
                .map(|call| wire::Call {
                    provider_id: call.provider_id.clone().unwrap_or_default(),
                    name: call.tool.to_string(),
                    args: call.args.clone(),
                })
                .collect(),
            raw: raw.cloned(),
        }],
        tools: Vec::new(),
        max_output_tokens: None,
        answer_schema: None,
        stream: false,
        manners: wire::Manners::default(),
        extra: serde_json::Map::new(),
    };
    raw.api.encode(&turn(Some(raw))) != raw.api.encode(&turn(None))
}

pub(super) fn failure(error: &WireError) -> ModelFailure {
    let (kind, after) = kind(error.kind);
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    let after_ms = after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX));
    // What came was read and is no reply; the next one of the same service will hardly be better.
    let garbled = matches!(error.kind, Kind::Malformed | Kind::TooLarge);
    ModelFailure { after_ms, garbled, ..ModelFailure::new(kind, format!("{error}{hint}")) }
}

/// What the wire's kinds mean for a run, and the wait that was asked for.
pub(crate) fn kind(kind: Kind) -> (ModelFailureKind, Option<Duration>) {
    match kind {
        Kind::Retryable { after } => (ModelFailureKind::Unavailable, after),
        Kind::RateLimited { after } => (ModelFailureKind::RateLimited, after),
        // Before the model ever answered, another address is wanted; after it, a gateway stands in the way for a while.
        Kind::Unreachable | Kind::Foreign => (ModelFailureKind::Unreachable, None),
        Kind::Credentials => (ModelFailureKind::Credentials, None),
        Kind::Quota => (ModelFailureKind::Quota, None),
        Kind::ModelUnknown => (ModelFailureKind::ModelUnknown, None),
        Kind::Overflow => (ModelFailureKind::Overflow, None),
        Kind::Refused => (ModelFailureKind::Refused, None),
        Kind::Fatal => (ModelFailureKind::Rejected, None),
        Kind::Truncated | Kind::TooLarge | Kind::Malformed => (ModelFailureKind::Broken, None),
    }
}
