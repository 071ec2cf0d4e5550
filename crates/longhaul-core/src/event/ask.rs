//! What a call asks a person, and for what.

use minicbor::{Decode, Encode};

use crate::ids::CallId;

/// What a call asks a person.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ask {
    #[n(0)]
    pub call: CallId,
    #[n(1)]
    pub kind: AskKind,
    /// The question, or why leave is needed.
    #[n(2)]
    pub text: String,
    /// Of the exact action: tool and arguments.
    #[n(3)]
    pub digest: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum AskKind {
    /// May this call be made?
    #[n(0)]
    Permission,
    /// The agent wants to know something.
    #[n(1)]
    Question,
    /// It cannot go on without something only a person can provide.
    #[n(2)]
    Need,
}
