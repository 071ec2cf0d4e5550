//! Faults that have a name: everything a provider can do wrong, as a script asks for it with `fail: [ { fault: NAME } ]`.
//!
//! It owns the names and what each of them stands for. How a fault looks on a socket is `fake`'s matter, and what it
//! means for a run is said in `play`.

use std::iter;

use longhaul_core::conversation::ProposedCall;
use longhaul_core::json::Json;
use serde_json::Value;

use super::script::Body;
use crate::limits;
use crate::provider::convert;

/// A fault by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Refusal(Refusal),
    Breakage(Breakage),
    Odd(Odd),
}

/// The provider says no, in the form each protocol has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The key is wrong: 401.
    Credentials,
    /// The key may not do this: 403.
    Forbidden,
    /// Nothing left to spend: OpenAI's 429 `insufficient_quota`, Anthropic's 400 about the credit balance.
    Quota,
    /// The model is gone: 404.
    ModelRemoved,
    /// Longer than the window: a 400, and on a stream of Responses a 200 that then fails.
    Overflow,
    /// Too busy: Anthropic's 529, OpenAI's 503.
    Overloaded,
    /// Too many requests: 429, with a wait of some seconds.
    RateLimited,
    /// It will not talk about this: OpenAI's 400 `invalid_prompt`, Anthropic's reply that ends in `refusal`.
    Content,
}

/// The exchange breaks, or what comes is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breakage {
    /// Bytes flow, events do not.
    PingsOnly,
    /// The request is taken and never answered, as on a half-open connection.
    Silence,
    /// The reply, one byte a second.
    Drip,
    /// One event of 100 MB.
    HugeEvent,
    /// A million tiny events, and no end after them.
    EndlessEvents,
    /// 200 with a web page.
    Html,
    /// 200 with nothing.
    Empty,
    /// A little that unpacks to a lot.
    GzipBomb,
    /// The reply under a type that is none.
    WrongType,
    /// JSON that ends in the middle, in a body or an event that does not.
    TruncatedJson,
    /// A text that is no text.
    InvalidUtf8,
    /// Bytes that are not HTTP: the alert of a TLS server.
    GarbageTls,
}

/// A reply that is well-formed, and nasty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// Several calls with one id.
    DuplicateIds,
    /// A call of a tool that nobody offered.
    UnknownTool,
    /// Arguments that are a list.
    ArgsNotObject,
    /// 500 calls at once.
    ManyCalls,
    /// Neither text nor calls: `content: null` on Chat, no blocks or items on the others.
    NullContent,
    /// Arguments that are no JSON. Anthropic can say that only in a stream; in a body they are a string.
    MalformedArgs,
    /// The reply as it is, without a word about its tokens.
    NoUsage,
}

/// Every fault under the name a script has for it.
const NAMES: &[(&str, Fault)] = &[
    ("credentials", Fault::Refusal(Refusal::Credentials)),
    ("forbidden", Fault::Refusal(Refusal::Forbidden)),
    ("quota", Fault::Refusal(Refusal::Quota)),
    ("model_removed", Fault::Refusal(Refusal::ModelRemoved)),
    ("overflow", Fault::Refusal(Refusal::Overflow)),
    ("overloaded", Fault::Refusal(Refusal::Overloaded)),
    ("rate_limited", Fault::Refusal(Refusal::RateLimited)),
    ("refused_content", Fault::Refusal(Refusal::Content)),
    ("pings_only", Fault::Breakage(Breakage::PingsOnly)),
    ("silence", Fault::Breakage(Breakage::Silence)),
    ("drip", Fault::Breakage(Breakage::Drip)),
    ("huge_event", Fault::Breakage(Breakage::HugeEvent)),
    ("endless_events", Fault::Breakage(Breakage::EndlessEvents)),
    ("html", Fault::Breakage(Breakage::Html)),
    ("empty", Fault::Breakage(Breakage::Empty)),
    ("gzip_bomb", Fault::Breakage(Breakage::GzipBomb)),
    ("wrong_type", Fault::Breakage(Breakage::WrongType)),
    ("truncated_json", Fault::Breakage(Breakage::TruncatedJson)),
    ("invalid_utf8", Fault::Breakage(Breakage::InvalidUtf8)),
    ("garbage_tls", Fault::Breakage(Breakage::GarbageTls)),
    ("duplicate_ids", Fault::Odd(Odd::DuplicateIds)),
    ("unknown_tool", Fault::Odd(Odd::UnknownTool)),
    ("args_not_object", Fault::Odd(Odd::ArgsNotObject)),
    ("many_calls", Fault::Odd(Odd::ManyCalls)),
    ("null_content", Fault::Odd(Odd::NullContent)),
    ("malformed_args", Fault::Odd(Odd::MalformedArgs)),
    ("no_usage", Fault::Odd(Odd::NoUsage)),
];

impl Fault {
    pub(super) fn named(name: &str) -> Option<Fault> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, fault)| *fault)
    }

    pub(crate) fn names() -> Vec<&'static str> {
        NAMES.iter().map(|(name, _)| *name).collect()
    }

    pub(crate) fn as_str(self) -> &'static str {
        NAMES.iter().find(|(_, fault)| *fault == self).map_or("", |(name, _)| name)
    }
}

/// A call as it is said: arguments as text, which may be no JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SaidCall {
    pub(crate) tool: String,
    pub(crate) args: String,
    /// Why it is refused for its arguments, if the script says that it is.
    pub(crate) malformed: Option<String>,
}

impl SaidCall {
    pub(crate) fn of(call: &ProposedCall) -> SaidCall {
        let args = call.args.as_str().to_owned();
        SaidCall { tool: call.tool.to_string(), args, malformed: call.malformed.clone() }
    }

    /// For a client at the other end of a wire, which finds out by itself what cannot be read: the arguments as they came, when
    /// somebody could not read them. If they could be read, they are cut off, so that nobody makes a call that was refused.
    pub(crate) fn sent(self) -> SaidCall {
        if self.malformed.is_none() {
            return self;
        }
        let kept = Json::parse(self.args.as_str()).ok();
        let args = kept.and_then(|args| convert::unreadable(&args)).unwrap_or(self.args);
        let args = match serde_json::from_str(&args) {
            _ if args.trim().is_empty() => "{".to_owned(),
            Ok(Value::Object(_)) => args.trim_end().trim_end_matches('}').to_owned(),
            Ok(_) | Err(_) => args,
        };
        SaidCall { args, ..self }
    }

    /// For a run that is asked directly, as if the wire had read it.
    pub(super) fn proposed(self) -> ProposedCall {
        let SaidCall { tool, args, malformed } = self;
        match Json::parse(args.as_str()) {
            Ok(json) => ProposedCall { malformed, ..ProposedCall::new(tool, json) },
            Err(error) => ProposedCall {
                malformed: Some(error.to_string()),
                ..ProposedCall::new(tool, Json::of(&Value::from(args)))
            },
        }
    }
}

const UNKNOWN_TOOL: &str = "no_such_tool";

/// What an odd reply calls if its turn calls nothing and nothing is offered.
pub(crate) const TOOL_DEFAULT: &str = "read";

impl Odd {
    /// The calls of the odd reply, made of the turn's own; a turn without any calls `tool`.
    pub(crate) fn calls(self, body: &Body, tool: &str) -> Vec<SaidCall> {
        let mut own: Vec<SaidCall> = body.calls.iter().map(SaidCall::of).collect();
        if own.is_empty() && self != Odd::NoUsage {
            own.push(SaidCall { tool: tool.to_owned(), args: "{}".to_owned(), malformed: None });
        }
        let count = own.len();
        let own = own.into_iter().cycle();
        match self {
            Odd::DuplicateIds => own.take(count.max(2)).collect(),
            Odd::ManyCalls => own.take(limits::MANY_CALLS).collect(),
            Odd::UnknownTool => {
                own.take(1).map(|call| SaidCall { tool: UNKNOWN_TOOL.to_owned(), ..call }).collect()
            }
            Odd::ArgsNotObject => own.take(1).map(|call| with_args(call, "[1, 2]")).collect(),
            Odd::MalformedArgs => own.take(1).map(|call| with_args(call, "{\"path\": \"a")).collect(),
            Odd::NullContent => iter::empty().collect(),
            Odd::NoUsage => own.take(count).collect(),
        }
    }

    pub(crate) fn text(self, body: &Body) -> &str {
        match self {
            Odd::NullContent => "",
            Odd::DuplicateIds
            | Odd::UnknownTool
            | Odd::ArgsNotObject
            | Odd::ManyCalls
            | Odd::MalformedArgs
            | Odd::NoUsage => &body.text,
        }
    }
}

fn with_args(call: SaidCall, args: &str) -> SaidCall {
    SaidCall { args: args.to_owned(), malformed: None, ..call }
}
