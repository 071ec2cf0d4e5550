//! What is said between a run and its model: messages, requests, replies, and what they cost.

use std::sync::Arc;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::ids::{Attempt, CallId, RunId};
use crate::json::Json;
use crate::money::Usd;
use crate::text::Text;

/// One entry of a conversation, in the order the model sees them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Message {
    User { text: String },
    Assistant { text: String, calls: Vec<CallRequest> },
    Tool { call: CallId, failed: bool, text: Text },
}

/// A tool call as the model asked for it, with the number the run gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallRequest {
    pub id: CallId,
    pub tool: String,
    pub args: Json,
}

/// A tool call in a model's reply, before the run has numbered it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
pub struct ProposedCall {
    #[n(0)]
    pub tool: String,
    #[n(1)]
    pub args: Json,
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
    pub scene: Scene,
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelReply {
    pub text: String,
    pub calls: Vec<ProposedCall>,
    pub usage: Usage,
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
    #[serde(rename = "costUsd")]
    pub cost: Usd,
}

impl Usage {
    pub fn add(&mut self, other: &Usage) {
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(other.cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(other.cache_write_tokens);
        self.cost += other.cost;
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
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFailureKind {
    /// Worth asking again: overloaded, disconnected, stalled. `after_ms` is the provider's own wish, if it named one.
    Retryable { after_ms: Option<u64> },
    /// Asking again would fail the same way.
    Fatal,
}
