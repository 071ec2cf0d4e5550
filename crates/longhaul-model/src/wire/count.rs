//! How many tokens a prompt has, asked of the provider. It owns which fields of a request that question takes and where
//! the answer stands; it refuses to estimate, which is `tokens`'s.

use serde_json::{Map, Value};

use super::lenient::str_at;
use super::reply::json_body;
use super::{Api, Kind, Request, WireError};

/// The question, as a protocol has it.
pub(super) struct Question {
    /// Where it is asked, below the protocol's own resource.
    pub resource: &'static str,
    pub body: Value,
}

/// Of the next turn's body, what belongs to the prompt. The services refuse fields they do not know here, such as the
/// limit of the reply or the wish for a stream.
const ANTHROPIC_FIELDS: &[&str] =
    &["model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"];
const RESPONSES_FIELDS: &[&str] = &[
    "model",
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "reasoning",
    "text",
    "truncation",
];

impl Question {
    pub fn new(api: Api, request: &Request) -> Option<Question> {
        let (resource, fields) = match api {
            Api::Anthropic => ("count_tokens", ANTHROPIC_FIELDS),
            Api::Responses => ("input_tokens", RESPONSES_FIELDS),
            Api::Chat => return None,
        };
        Some(Question { resource, body: only(api.encode(request), fields) })
    }
}

fn only(body: Value, fields: &[&str]) -> Value {
    let Value::Object(body) = body else { return body };
    let kept: Map<String, Value> =
        body.into_iter().filter(|(field, _)| fields.contains(&field.as_str())).collect();
    Value::Object(kept)
}

/// Both protocols call it the same.
pub(super) fn read(body: &[u8]) -> Result<u64, WireError> {
    let answer = json_body(body)?;
    if let Some(tokens) = answer.get("input_tokens").and_then(Value::as_u64) {
        return Ok(tokens);
    }
    let failed =
        answer.get("error").is_some_and(|error| !error.is_null()) || str_at(&answer, "type") == "error";
    if failed {
        return Err(WireError::from_event(&answer));
    }
    Err(WireError::malformed("the answer has no number of tokens"))
}

/// Whether a server of the protocol simply does not have the question, as many that resemble it do not.
pub(super) fn is_unknown_question(error: &WireError) -> bool {
    matches!(error.kind, Kind::Fatal | Kind::Foreign) && matches!(error.status, Some(404 | 405 | 501))
}
