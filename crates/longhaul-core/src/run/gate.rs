//! A wait for a person, and its answer.

use serde::{Deserialize, Serialize};

use crate::event::Ask;
use crate::time::Timestamp;

/// A wait for a person before a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    pub number: u32,
    pub step: u32,
    /// What a call asks; nothing if the step itself waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    /// Of what the step will be, if it waits itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub opened_at: Timestamp,
    pub answer: Option<Answer>,
}

impl Gate {
    /// Of exactly what is asked about.
    pub fn digest(&self) -> Option<&str> {
        self.ask.as_ref().map(|ask| ask.digest.as_str()).or(self.digest.as_deref())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub approved: bool,
    pub reason: Option<String>,
    /// What was said to a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    pub at: Timestamp,
}
