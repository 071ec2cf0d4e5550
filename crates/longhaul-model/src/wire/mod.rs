//! The three wire protocols: what one turn of a conversation looks like on each of them, and how a reply is read back.
//!
//! It owns a neutral request and a neutral reply, one folder per protocol that turns the first into a body and bytes
//! into the second, and one edge (`http`) that moves the bytes. It refuses to decide: it never retries, never waits for
//! a rate limit, prices nothing and keeps no history. Everything but `http` is a pure function or a fold, so every case
//! of the protocols is tested without a socket.

pub mod anthropic;
mod args;
pub mod chat;
mod count;
mod encode;
mod error;
pub mod http;
mod lanes;
mod lenient;
pub mod limits;
mod listing;
mod mould;
mod reading;
mod reply;
pub mod responses;
mod retry_after;
mod said;
pub mod sse;

use longhaul_core::json::Json;
use serde_json::{Map, Value};

use self::reading::Place;

pub use args::MalformedArgs;
pub(crate) use error::by_status;
pub use error::{Kind, WireError};
pub use http::{Client, Endpoint, Options};
pub use listing::Listed;
pub use reading::{Allowance, Reading};

/// A protocol. Providers are configuration; this is what they speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Api {
    /// Anthropic Messages.
    Anthropic,
    /// OpenAI Responses, without server-side state.
    Responses,
    /// OpenAI Chat Completions and the many servers that resemble it.
    Chat,
}

impl Api {
    pub const ALL: [Api; 3] = [Api::Anthropic, Api::Responses, Api::Chat];

    pub fn as_str(self) -> &'static str {
        match self {
            Api::Anthropic => "anthropic",
            Api::Responses => "responses",
            Api::Chat => "chat",
        }
    }

    /// The body that asks for the next turn. The same request always gives the same bytes.
    pub fn encode(self, request: &Request) -> Value {
        match self {
            Api::Anthropic => anthropic::encode(request),
            Api::Responses => responses::encode(request),
            Api::Chat => chat::encode(request),
        }
    }

    /// Reads a whole body that is not a stream.
    pub fn plain(self, body: &[u8]) -> Result<Reply, WireError> {
        match self {
            Api::Anthropic => anthropic::plain(body),
            Api::Responses => responses::plain(body),
            Api::Chat => chat::plain(body),
        }
    }
}

/// One turn to be asked for, in no protocol's terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The provider's name of the model, without our provider's name in front.
    pub model: String,
    /// Instructions; empty for none.
    pub system: String,
    pub turns: Vec<Turn>,
    pub tools: Vec<ToolOffer>,
    pub max_output_tokens: Option<u32>,
    /// The reply's text must be JSON of this schema.
    pub answer_schema: Option<Value>,
    pub stream: bool,
    pub manners: Manners,
    /// Fields of the body from the provider's configuration. Objects are merged, anything else replaces what we would
    /// have sent, and `null` removes it.
    pub extra: Map<String, Value>,
}

/// In what models of one protocol differ. What most of them take is the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Manners {
    /// Responses: it has no encrypted thoughts, and refuses to be asked for them.
    pub thoughtless: bool,
    /// Chat: it wants the limit of the reply under its newer name, `max_completion_tokens`.
    pub newer_limit: bool,
}

/// A tool the model may call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOffer {
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments, an object.
    pub schema: Value,
}

/// One entry of the conversation. Every call of an assistant's turn must be answered in the results that follow it.
#[derive(Clone, Debug, PartialEq)]
pub enum Turn {
    User { text: String },
    Assistant { text: String, calls: Vec<Call>, raw: Option<Raw> },
    ToolResults(Vec<ToolResult>),
}

/// A call of an earlier turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    pub provider_id: String,
    pub name: String,
    pub args: Json,
}

/// A reply exactly as the protocol said it: signatures, encrypted reasoning and blocks we do not know included. Sent
/// back as it came on the same protocol; on another one the turn is rebuilt from its text and calls.
#[derive(Clone, Debug, PartialEq)]
pub struct Raw {
    pub api: Api,
    /// Anthropic: the array of content blocks. Responses: the array of output items. Chat: the message.
    pub content: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ToolResult {
    pub provider_id: String,
    pub text: String,
    pub failed: bool,
    pub images: Vec<Image>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    pub media_type: String,
    pub base64: String,
}

/// A complete reply. Calls that were cut off are not in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    pub text: String,
    pub calls: Vec<ReplyCall>,
    pub raw: Raw,
    pub stop: Stop,
    pub usage: Usage,
    /// The model that answered, by the provider's word; empty if it did not say.
    pub model: String,
    /// The provider's id of the reply; empty if it gave none.
    pub id: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ReplyCall {
    /// Unique within the reply, also when the provider's were not.
    pub provider_id: String,
    pub name: String,
    pub args: Result<Json, MalformedArgs>,
}

/// Why the model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    End,
    /// The calls are to be answered.
    ToolCalls,
    /// The limit of output tokens was reached.
    Length,
    /// It will not answer; what it or its provider said about that.
    Refusal(String),
    /// The context window was full before the reply was.
    Overflow,
    /// A reason of the provider's own, in its words (`pause_turn`).
    Other(String),
}

/// Tokens of one reply, by the provider's word; nothing where it said nothing. The three kinds of input are apart on every
/// protocol: `input` never contains the other two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input: Option<u64>,
    pub output: Option<u64>,
    pub cache_read: u64,
    pub cache_write: u64,
}

/// What one event of a stream brought, lent for as long as it is heard. An event that moves the reply forward gives at
/// least one; a ping gives none, which is how a stall behind pings is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta<'a> {
    Text(&'a str),
    Thinking(&'a str),
    /// Some bytes of a call's arguments.
    Arguments,
    /// The reply's structure moved on: something began, ended or was counted.
    Step,
}

/// Who hears what the events bring.
pub type Hear<'h> = dyn FnMut(Delta<'_>) + 'h;

/// How far a stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The reply is not whole. A stream that ends here was cut.
    Open,
    /// The reply is whole; counts may still follow.
    Whole,
    /// Nothing more will come.
    Done,
}

/// The fold over a stream's events, of whichever protocol.
#[derive(Debug)]
pub enum Assembler {
    Anthropic(anthropic::Assembler),
    Responses(responses::Assembler),
    Chat(chat::Assembler),
}

impl Assembler {
    pub fn new(api: Api) -> Assembler {
        match api {
            Api::Anthropic => Assembler::Anthropic(anthropic::Assembler::default()),
            Api::Responses => Assembler::Responses(responses::Assembler::default()),
            Api::Chat => Assembler::Chat(chat::Assembler::default()),
        }
    }

    /// Takes one event. `name` is the event's field of that name, empty if it had none.
    pub fn take(&mut self, name: &str, data: &[u8], hear: &mut Hear<'_>) -> Result<(), WireError> {
        match self {
            Assembler::Anthropic(assembler) => assembler.take(name, data, hear),
            Assembler::Responses(assembler) => assembler.take(name, data, hear),
            Assembler::Chat(assembler) => assembler.take(name, data, hear),
        }
    }

    /// The text the last event added a piece to, if it did nothing else: more of the same go there too.
    fn grown(&self) -> Option<Place> {
        match self {
            Assembler::Anthropic(assembler) => assembler.grown(),
            Assembler::Responses(assembler) => assembler.grown(),
            Assembler::Chat(assembler) => assembler.grown(),
        }
    }

    /// Takes text that further events like the last one brought.
    fn add_text(&mut self, place: Place, text: &str) {
        match self {
            Assembler::Anthropic(assembler) => assembler.add_text(place, text),
            Assembler::Responses(assembler) => assembler.add_text(place, text),
            Assembler::Chat(assembler) => assembler.add_text(text),
        }
    }

    pub fn progress(&self) -> Progress {
        match self {
            Assembler::Anthropic(assembler) => assembler.progress(),
            Assembler::Responses(assembler) => assembler.progress(),
            Assembler::Chat(assembler) => assembler.progress(),
        }
    }

    /// The reply, or `Truncated` if its end has not been seen.
    pub fn finish(self) -> Result<Reply, WireError> {
        match self {
            Assembler::Anthropic(assembler) => assembler.finish(),
            Assembler::Responses(assembler) => assembler.finish(),
            Assembler::Chat(assembler) => assembler.finish(),
        }
    }
}
