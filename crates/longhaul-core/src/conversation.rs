//! What is said between a run and its model: messages, requests, replies, and what they cost.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::ids::{Attempt, CallId, RunId};
use crate::json::Json;
use crate::money::Usd;
use crate::text::Text;
use crate::tool::Image;

/// One entry of a conversation, in the order the model sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    User {
        text: String,
    },
    Assistant {
        text: String,
        calls: Vec<CallRequest>,
        /// Boxed, so that the many messages without one are no larger for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        raw: Option<Box<Raw>>,
    },
    Tool {
        call: CallId,
        failed: bool,
        text: Text,
        /// What is shown with the text, to models that can see.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<Image>,
    },
}

/// A tool call as the model asked for it, with the number the run gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRequest {
    pub id: CallId,
    pub tool: Text,
    pub args: Json,
    /// The provider's own name for the call, by which it expects the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
}

/// A tool call in a model's reply, before the run has numbered it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ProposedCall {
    #[n(0)]
    pub tool: Text,
    #[n(1)]
    pub args: Json,
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// Why what the model wrote as arguments cannot be read; `args` then only shows it back to the model.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
}

impl ProposedCall {
    pub fn new(tool: impl Into<Text>, args: Json) -> ProposedCall {
        ProposedCall { tool: tool.into(), args, provider_id: None, malformed: None }
    }
}

/// A reply in its protocol's own words, where text and calls do not say all of it: signed thoughts, encrypted
/// reasoning. It goes back as it came, and only to the model that said it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct Raw {
    /// The model that said it, as configured, `anthropic/claude`.
    #[n(0)]
    pub model: String,
    /// The protocol it is written in.
    #[n(1)]
    pub api: String,
    #[n(2)]
    pub content: Json,
}

/// Everything a model needs for one turn. Cheap to clone: the history is shared, not copied.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    /// Provider and model as configured, `scripted/demo.yaml`.
    pub model: Arc<str>,
    pub system: Arc<str>,
    pub messages: Arc<Vec<Message>>,
    /// Names of the tools the agent may call.
    pub tools: Arc<[String]>,
    /// The answer must be JSON of this schema.
    pub answer_schema: Option<Json>,
    pub scene: Scene,
    /// The bytes of the images in it that are to be shown. Whoever asks puts them there: they are no part of the run.
    pub pictures: Pictures,
}

impl ModelRequest {
    /// Every image of the conversation, oldest first.
    pub fn images(&self) -> impl DoubleEndedIterator<Item = &Image> {
        self.messages.iter().flat_map(|message| match message {
            Message::Tool { images, .. } => images.as_slice(),
            Message::User { .. } | Message::Assistant { .. } => &[],
        })
    }
}

/// Bytes of images, by the hash of the blob they were in. Cheap to clone.
#[derive(Clone, Default)]
pub struct Pictures(Arc<BTreeMap<String, Vec<u8>>>);

impl Pictures {
    pub fn get(&self, blob: &str) -> Option<&[u8]> {
        self.0.get(blob).map(Vec::as_slice)
    }
}

impl FromIterator<(String, Vec<u8>)> for Pictures {
    fn from_iter<T: IntoIterator<Item = (String, Vec<u8>)>>(pictures: T) -> Pictures {
        Pictures(Arc::new(pictures.into_iter().collect()))
    }
}

/// Their names only: megabytes are nothing to print.
impl fmt::Debug for Pictures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.keys()).finish()
    }
}

/// Where in which run a request belongs. Providers ignore it; the scripted model chooses its lines by it.
#[derive(Clone, Debug)]
pub struct Scene {
    pub run: RunId,
    pub agent: Arc<str>,
    pub step: Arc<str>,
    pub iteration: u32,
    pub depth: u32,
    /// Counted from 1 within the conversation.
    pub turn: u32,
    pub attempt: Attempt,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelReply {
    pub text: String,
    pub calls: Vec<ProposedCall>,
    pub usage: Usage,
    pub raw: Option<Raw>,
    pub stop: Stop,
    /// Tokens that fit into the model's window, if it says so.
    pub window: Option<u64>,
}

/// Why a reply ended where it did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// It is whole.
    #[default]
    #[n(0)]
    End,
    /// It ran into the limit of output tokens; what there is of it is only a part.
    #[n(1)]
    Length,
    /// The model will not answer this.
    #[n(2)]
    Refused,
    /// The context window was full before the reply was.
    #[n(3)]
    Overflow,
}

/// Tokens and money, of one turn or summed over many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    #[n(0)]
    pub input_tokens: u64,
    #[n(1)]
    pub output_tokens: u64,
    #[n(2)]
    pub cache_read_tokens: u64,
    #[n(3)]
    pub cache_write_tokens: u64,
    #[n(4)]
    #[serde(rename = "costUsd", deserialize_with = "known_part")]
    pub cost: Usd,
    /// Tokens of models whose price is not known. Their cost is on top of `cost`, and nobody here knows how much.
    #[n(5)]
    #[cbor(default)]
    #[serde(default)]
    pub unpriced_tokens: u64,
    /// Of all these tokens, how many nobody counted: the provider did not say, and they are rather too many than too few.
    #[n(6)]
    #[cbor(skip_if = "is_zero")]
    #[serde(default, skip_serializing_if = "is_zero")]
    pub estimated_tokens: u64,
}

/// Most providers count everything; a journal and its readers are not told so with every reply.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "both codecs ask with references")]
fn is_zero(tokens: &u64) -> bool {
    *tokens == 0
}

/// Where a cost is shown, one that is not all known is `null`.
fn known_part<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Usd, D::Error> {
    Option::<Usd>::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Usage {
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.cost += other.cost;
        self.unpriced_tokens = self.unpriced_tokens.saturating_add(other.unpriced_tokens);
        self.estimated_tokens = self.estimated_tokens.saturating_add(other.estimated_tokens);
    }

    /// What is left of it beside another.
    pub fn without(&self, other: &Usage) -> Usage {
        Usage {
            input_tokens: self.input_tokens.saturating_sub(other.input_tokens),
            output_tokens: self.output_tokens.saturating_sub(other.output_tokens),
            cache_read_tokens: self.cache_read_tokens.saturating_sub(other.cache_read_tokens),
            cache_write_tokens: self.cache_write_tokens.saturating_sub(other.cache_write_tokens),
            cost: self.cost.less(other.cost),
            unpriced_tokens: self.unpriced_tokens.saturating_sub(other.unpriced_tokens),
            estimated_tokens: self.estimated_tokens.saturating_sub(other.estimated_tokens),
        }
    }

    pub fn tokens(&self) -> u64 {
        [self.input_tokens, self.output_tokens, self.cache_read_tokens, self.cache_write_tokens]
            .into_iter()
            .fold(0, u64::saturating_add)
    }
}

/// Why a model gave no reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFailure {
    pub kind: ModelFailureKind,
    /// How long the provider wishes to be left alone, if it said so.
    pub after_ms: Option<u64>,
    pub message: String,
    /// What was used all the same.
    pub usage: Option<Usage>,
    /// Did a reply come to its end, and was none? What breaks off may be luck; this is mostly the same the next time.
    pub garbled: bool,
}

impl ModelFailure {
    pub fn new(kind: ModelFailureKind, message: impl Into<String>) -> ModelFailure {
        ModelFailure { kind, after_ms: None, message: message.into(), usage: None, garbled: false }
    }
}

/// What kind of silence it is. The kind decides what follows; the message is for readers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum ModelFailureKind {
    /// Overloaded or out of order: it answered that it cannot answer now.
    #[default]
    #[n(0)]
    Unavailable,
    /// No connection came about.
    #[n(1)]
    Unreachable,
    /// Too many requests or tokens, or a plan used up for some hours.
    #[n(2)]
    RateLimited,
    /// A reply began and broke off, stood still, or was not readable.
    #[n(3)]
    Broken,
    /// The key is missing, wrong, or not allowed to do this.
    #[n(4)]
    Credentials,
    /// The account has nothing left to spend.
    #[n(5)]
    Quota,
    #[n(6)]
    ModelUnknown,
    /// The conversation is longer than the model's window.
    #[n(7)]
    Overflow,
    /// The provider will not process this conversation.
    #[n(8)]
    Refused,
    /// The provider does not accept the request as it is.
    #[n(9)]
    Rejected,
    /// Asking again can never help.
    #[n(10)]
    Fatal,
}

impl ModelFailureKind {
    /// The kind as what a model does: `p/m` + these words.
    pub fn words(self) -> &'static str {
        match self {
            ModelFailureKind::Unavailable => "is out of order",
            ModelFailureKind::Unreachable => "cannot be reached",
            ModelFailureKind::RateLimited => "is rate-limited",
            ModelFailureKind::Broken => "breaks off its replies",
            ModelFailureKind::Credentials => "refuses its key",
            ModelFailureKind::Quota => "has nothing left to spend",
            ModelFailureKind::ModelUnknown => "does not exist for us",
            ModelFailureKind::Overflow => "has too small a window",
            ModelFailureKind::Refused => "refuses this conversation",
            ModelFailureKind::Rejected => "does not accept the request",
            ModelFailureKind::Fatal => "has failed for good",
        }
    }

    /// Can only a person make the model usable again?
    pub fn is_lasting(self) -> bool {
        matches!(
            self,
            ModelFailureKind::Credentials | ModelFailureKind::Quota | ModelFailureKind::ModelUnknown
        )
    }

    pub fn as_str(self) -> &'static str {
        match self {
            ModelFailureKind::Unavailable => "unavailable",
            ModelFailureKind::Unreachable => "unreachable",
            ModelFailureKind::RateLimited => "rate_limited",
            ModelFailureKind::Broken => "broken",
            ModelFailureKind::Credentials => "credentials",
            ModelFailureKind::Quota => "quota",
            ModelFailureKind::ModelUnknown => "model_unknown",
            ModelFailureKind::Overflow => "overflow",
            ModelFailureKind::Refused => "refused",
            ModelFailureKind::Rejected => "rejected",
            ModelFailureKind::Fatal => "fatal",
        }
    }
}
