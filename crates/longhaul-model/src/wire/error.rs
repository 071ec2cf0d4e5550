//! Why there is no reply, as data. It owns the reading of every provider's status codes, error bodies and error events
//! into one small set of kinds; it refuses to act on them.

use std::fmt;
use std::time::Duration;

use longhaul_core::time::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::lenient::{Piece, str_at};
use super::retry_after;

/// One failed exchange.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireError {
    pub kind: Kind,
    /// What happened, in the provider's words where it had any.
    pub message: String,
    /// The HTTP status, if one was received.
    pub status: Option<u16>,
    /// The provider's id of the exchange, for its support.
    pub request_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Unreachable, overloaded, stalled or broken for the moment. `after` is the provider's wish, within bounds.
    Retryable { after: Option<Duration> },
    /// No connection came about, or whoever took it does not speak HTTP.
    Unreachable,
    /// Too many requests or tokens, or a plan used up for some hours. `after` is as above.
    RateLimited { after: Option<Duration> },
    /// The key is missing, wrong or not allowed to do this.
    Credentials,
    /// The account has nothing left to spend. Waiting does not help.
    Quota,
    /// There is no such model, or not for this key.
    ModelUnknown,
    /// The conversation is longer than the model's window.
    Overflow,
    /// The provider will not process this conversation.
    Refused,
    /// The request is wrong, and would be again.
    Fatal,
    /// The reply ended before its end.
    Truncated,
    /// The reply exceeds one of our limits.
    TooLarge,
    /// What came is not this protocol.
    Malformed,
    /// Something else than a model answered: a web page, a picture, a redirection.
    Foreign,
}

impl WireError {
    pub fn new(kind: Kind, message: impl Into<String>) -> WireError {
        WireError { kind, message: message.into(), status: None, request_id: None }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Credentials => Some("check the provider's key and what it is allowed to do"),
            Kind::Quota => Some("check the account's balance, plan and spend limits with the provider"),
            Kind::ModelUnknown => Some("check the model's name with `longhaul models list`"),
            Kind::Malformed | Kind::Foreign => {
                Some("check the provider's `base_url` and `api`: something else answered there")
            }
            Kind::Fatal => Some("check the provider's `base_url`, `api` and extra fields"),
            Kind::Unreachable => Some("check the network and the provider's `base_url`"),
            Kind::Retryable { .. }
            | Kind::RateLimited { .. }
            | Kind::Overflow
            | Kind::Refused
            | Kind::Truncated => None,
            Kind::TooLarge => Some("check the provider's `base_url`: no model replies at such length"),
        }
    }

    pub(super) fn truncated(message: impl Into<String>) -> WireError {
        WireError::new(Kind::Truncated, message)
    }

    pub(super) fn malformed(message: impl Into<String>) -> WireError {
        WireError::new(Kind::Malformed, message)
    }

    /// From an answer whose status is not a success. `body` may be anything, also nothing.
    pub fn from_answer(status: u16, headers: &HeaderMap, body: &[u8], now: Timestamp) -> WireError {
        let said = Said::from_body(body);
        let stated = retry_after::wished(headers, now).or_else(|| said.wait(Some(now)));
        let kind = said.kind(Some(status), stated).unwrap_or_else(|| by_status(status));
        let kind =
            if kind == Kind::Fatal && is_gateways(status, headers, body) { Kind::Foreign } else { kind };
        // When a limit is over says nothing about a service that is out of order.
        let resets = || retry_after::from_resets(headers, now).filter(|_| status < 500);
        let after = stated.or_else(resets);
        let header_id =
            ["request-id", "x-request-id"].into_iter().find_map(|name| headers.get(name)?.to_str().ok());
        WireError {
            kind: with_wait(kind, after),
            message: if said.message.is_empty() { format!("HTTP status {status}") } else { said.message },
            status: Some(status),
            request_id: header_id.map(str::to_owned).or(said.request_id),
        }
    }

    /// From an error inside a stream or a body that came with status 200. Unknown kinds are worth another try: the
    /// provider had accepted the request and then failed at it.
    pub fn from_event(event: &Value) -> WireError {
        let said = Said::of(event);
        let after = said.wait(None);
        let kind = said.kind(None, after).or_else(|| said.status().map(by_status));
        let kind = kind.unwrap_or(Kind::Retryable { after: None });
        let message =
            if said.message.is_empty() { "the provider reported an error".to_owned() } else { said.message };
        WireError { kind: with_wait(kind, after), message, status: None, request_id: said.request_id }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            Kind::Retryable { .. } => "provider unavailable",
            Kind::Unreachable => "provider not reached",
            Kind::RateLimited { .. } => "rate limited",
            Kind::Credentials => "credentials refused",
            Kind::Quota => "quota used up",
            Kind::ModelUnknown => "unknown model",
            Kind::Overflow => "context window exceeded",
            Kind::Refused => "refused by the provider",
            Kind::Fatal => "request not accepted",
            Kind::Truncated => "reply cut off",
            Kind::TooLarge => "reply too large",
            Kind::Malformed => "reply not understood",
            Kind::Foreign => "no model there",
        };
        write!(f, "{what}: {}", self.message)?;
        if let Some(status) = self.status {
            write!(f, " (status {status})")?;
        }
        match &self.request_id {
            Some(id) => write!(f, " (request {id})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for WireError {}

fn with_wait(kind: Kind, after: Option<Duration>) -> Kind {
    match kind {
        Kind::Retryable { .. } => Kind::Retryable { after },
        Kind::RateLimited { .. } => Kind::RateLimited { after },
        Kind::Unreachable
        | Kind::Credentials
        | Kind::Quota
        | Kind::ModelUnknown
        | Kind::Overflow
        | Kind::Refused
        | Kind::Fatal
        | Kind::Truncated
        | Kind::TooLarge
        | Kind::Malformed
        | Kind::Foreign => kind,
    }
}

pub(crate) fn by_status(status: u16) -> Kind {
    match status {
        401 | 403 => Kind::Credentials,
        402 => Kind::Quota,
        408 | 409 | 425 => Kind::Retryable { after: None },
        // The body was too many bytes: only a shorter conversation helps, as with too many tokens.
        413 => Kind::Overflow,
        429 => Kind::RateLimited { after: None },
        501 | 505 => Kind::Fatal,
        500..=599 => Kind::Retryable { after: None },
        _ => Kind::Fatal,
    }
}

/// What a provider said about an error, whichever shape it chose.
#[derive(Debug, Default)]
struct Said {
    /// Its `type` and its `code`, lower case.
    words: [String; 2],
    message: String,
    request_id: Option<String>,
    error: Value,
}

impl Said {
    fn from_body(body: &[u8]) -> Said {
        match serde_json::from_slice::<Value>(body) {
            Ok(value) => Said::of(&value),
            Err(_) => Said { message: page_text(body), ..Said::default() },
        }
    }

    /// `{"error": {…}}`, `{"response": {"error": {…}}}`, `{"error": "…"}`, `{"detail": "…"}` or the fields at the top; Google
    /// puts any of these into a list.
    fn of(value: &Value) -> Said {
        if let Some([only]) = value.as_array().map(Vec::as_slice) {
            return Said::of(only);
        }
        let nested = [value.get("error"), value.pointer("/response/error")].into_iter().flatten();
        let error = nested.into_iter().find(|error| !error.is_null()).unwrap_or(value);
        let word = |key: &str| {
            let piece: Piece<'_> = error.get(key).map(|word| read_word(word)).unwrap_or_default();
            piece.as_str().to_ascii_lowercase()
        };
        let text =
            [error.as_str(), error["message"].as_str(), error["detail"].as_str(), value["message"].as_str()];
        Said {
            words: [word("type"), word("code")],
            message: text.into_iter().flatten().find(|text| !text.is_empty()).unwrap_or("").to_owned(),
            request_id: Some(str_at(value, "request_id")).filter(|id| !id.is_empty()).map(str::to_owned),
            error: error.clone(),
        }
    }

    fn wait(&self, now: Option<Timestamp>) -> Option<Duration> {
        retry_after::from_body(&self.error, &self.message, now)
    }

    fn has_word(&self, words: &[&str]) -> bool {
        self.words.iter().any(|word| words.contains(&word.as_str()))
    }

    /// The status a gateway would have answered with, which some put into the error's code.
    fn status(&self) -> Option<u16> {
        self.words[1].parse().ok().filter(|code| (400..600).contains(code))
    }

    /// The kind by what was said; the status decides where the words leave it open. A service that is itself broken
    /// says many things about models and requests, so those are believed only of one that is not. An account that is to
    /// be asked again at a `stated` time is not empty, whatever the words.
    fn kind(&self, status: Option<u16>, stated: Option<Duration>) -> Option<Kind> {
        let message = self.message.to_ascii_lowercase();
        let says = |phrases: &[&str]| phrases.iter().any(|phrase| message.contains(phrase));
        if self.has_word(OVERFLOW_WORDS) || says(OVERFLOW_PHRASES) {
            return Some(Kind::Overflow);
        }
        if self.has_word(QUOTA_WORDS) {
            return Some(Kind::Quota);
        }
        if says(QUOTA_PHRASES) {
            let for_a_while = stated.is_some() && (status == Some(429) || says(&["regain access"]));
            return Some(if for_a_while { Kind::RateLimited { after: None } } else { Kind::Quota });
        }
        let sound = status.is_none_or(|status| status < 500);
        let about_model = sound && says(&["model"]) && says(MODEL_PHRASES);
        let anthropic_model = self.has_word(&["not_found_error"]) && message.starts_with("model:");
        if self.has_word(MODEL_WORDS) || anthropic_model || about_model {
            return Some(Kind::ModelUnknown);
        }
        let by_word = [
            (REFUSED_WORDS, Kind::Refused),
            (CREDENTIAL_WORDS, Kind::Credentials),
            (LIMIT_WORDS, Kind::RateLimited { after: None }),
            (RETRY_WORDS, Kind::Retryable { after: None }),
        ];
        let by_word = by_word.into_iter().find(|(words, _)| self.has_word(words)).map(|(_, kind)| kind);
        by_word.or_else(|| (status.is_none() && self.has_word(FATAL_WORDS)).then_some(Kind::Fatal))
    }
}

/// OpenAI's code, llama.cpp's type, Anthropic's type for too many bytes.
const OVERFLOW_WORDS: &[&str] =
    &["context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "request_too_large"];
/// Anthropic has no code for it; compatible servers only a text. The last is OpenAI's for a request above the whole
/// allowance of a minute, which no wait makes smaller.
const OVERFLOW_PHRASES: &[&str] = &[
    "prompt is too long",
    "exceed context limit",
    "maximum context length",
    "exceeds the context window",
    "exceeds the available context size",
    "exceeds the model's context",
    "exceeds the maximum number of tokens",
    "input is too long",
    "request too large for",
];
const QUOTA_WORDS: &[&str] = &[
    "insufficient_quota",
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "access_terminated",
];
const QUOTA_PHRASES: &[&str] = &[
    "credit balance is too low",
    "exceeded your current quota",
    "reached your specified api usage limits",
    "insufficient credits",
    "insufficient balance",
];
const MODEL_WORDS: &[&str] =
    &["model_not_found", "model_not_available", "model_decommissioned", "unknown_model"];
const MODEL_PHRASES: &[&str] = &[
    "not found",
    "does not exist",
    "not exist",
    "decommissioned",
    "has been deprecated",
    "no longer available",
];
const REFUSED_WORDS: &[&str] = &[
    "content_filter",
    "content_policy_violation",
    "invalid_prompt",
    "cyber_policy_violation",
    "safety_error",
];
const CREDENTIAL_WORDS: &[&str] = &[
    "authentication_error",
    "permission_error",
    "invalid_api_key",
    "invalid_authentication",
    "permission_denied",
];
const LIMIT_WORDS: &[&str] =
    &["rate_limit_error", "rate_limit_exceeded", "slow_down", "usage_limit_reached", "too_many_requests"];
const RETRY_WORDS: &[&str] = &[
    "overloaded_error",
    "api_error",
    "timeout_error",
    "server_error",
    "internal_server_error",
    "service_unavailable_error",
    "server_is_overloaded",
    "unavailable_error",
];
/// Inside a stream, where no status says the same.
const FATAL_WORDS: &[&str] = &["invalid_request_error", "not_found_error", "invalid_value"];

fn read_word(word: &Value) -> Piece<'_> {
    serde::Deserialize::deserialize(word).unwrap_or_default()
}

/// Does somebody in between refuse the request? No provider sends its clients elsewhere or answers with a page. What a status
/// says of keys, limits and outages holds whoever says it; that the request is wrong only its provider can say.
fn is_gateways(status: u16, headers: &HeaderMap, body: &[u8]) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("");
    let is_html = ["text/html", "application/xhtml+xml"]
        .iter()
        .any(|html| kind.trim_start().to_ascii_lowercase().starts_with(html));
    let is_json = serde_json::from_slice::<IgnoredAny>(body).is_ok();
    (300..400).contains(&status) || (!is_json && (is_html || is_page(&String::from_utf8_lossy(body))))
}

/// What a body that is no JSON says: nothing if it is a web page, whose text would bury the status.
fn page_text(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    if is_page(&text) { "the answer is a web page".to_owned() } else { text.trim().to_owned() }
}

fn is_page(text: &str) -> bool {
    text.trim_start_matches('\u{feff}').trim_start().starts_with('<')
}
