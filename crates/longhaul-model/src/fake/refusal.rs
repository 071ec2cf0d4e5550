//! How each provider says no: status, headers, and the body its documentation shows. It owns the words; which of them
//! are said is decided in `answer`.

use serde_json::{Value, json};

use super::plan::{Headers, Plan};
use crate::limits;
use crate::scripted::fault::Refusal;
use crate::scripted::script::Wait;
use crate::wire::Api;

/// An error answer, in the terms all three protocols share.
#[derive(Debug)]
pub(super) struct No {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) code: Option<&'static str>,
    pub(super) message: String,
    pub(super) wait: Wait,
}

/// What the texts speak of.
#[derive(Debug)]
pub(super) struct About<'a> {
    pub(super) model: &'a str,
    pub(super) tokens: u64,
    pub(super) context_window: u64,
}

const INVALID: &str = "invalid_request_error";

impl No {
    pub(super) fn invalid(status: u16, message: impl Into<String>) -> No {
        No { status, kind: INVALID, code: None, message: message.into(), wait: Wait::Unsaid }
    }

    /// A bare status, under the type each provider gives it.
    pub(super) fn of_status(api: Api, status: u16, wait: Wait) -> No {
        let kind = match (api, status) {
            (Api::Anthropic, 429) => "rate_limit_error",
            (Api::Responses | Api::Chat, 429) => "requests",
            (Api::Anthropic, 401) => "authentication_error",
            (Api::Anthropic, 403) => "permission_error",
            (Api::Anthropic, 404) => "not_found_error",
            (Api::Anthropic, 413) => "request_too_large",
            (Api::Anthropic, 529) => "overloaded_error",
            (Api::Anthropic, 500..=599) => "api_error",
            (Api::Responses | Api::Chat, 503) => "service_unavailable_error",
            (Api::Responses | Api::Chat, 500..=599) => "server_error",
            (Api::Anthropic | Api::Responses | Api::Chat, _) => INVALID,
        };
        let code = (kind == "requests").then_some("rate_limit_exceeded");
        No { status, kind, code, message: format!("The script answers with status {status}."), wait }
    }

    pub(super) fn of_fault(api: Api, refusal: Refusal, about: &About<'_>) -> No {
        match api {
            Api::Anthropic => anthropic(refusal, about),
            Api::Responses | Api::Chat => openai(api, refusal, about),
        }
    }

    pub(super) fn error(&self, api: Api) -> Value {
        match api {
            Api::Anthropic => json!({"type": self.kind, "message": self.message}),
            Api::Responses | Api::Chat => {
                json!({"type": self.kind, "code": self.code, "message": self.message, "param": null})
            }
        }
    }

    pub(super) fn plan(&self, api: Api, mut headers: Headers, request_id: &str) -> Plan {
        let error = self.error(api);
        let body = match api {
            Api::Anthropic => json!({"type": "error", "error": error, "request_id": request_id}),
            Api::Responses | Api::Chat => json!({"error": error}),
        };
        match &self.wait {
            Wait::Unsaid => {}
            Wait::Ms(ms) => {
                headers.push(("retry-after-ms", ms.to_string()));
                headers.push(("retry-after", ms.div_ceil(1000).to_string()));
            }
            Wait::Text(text) => headers.push(("retry-after", text.clone())),
        }
        Plan::json(self.status, headers, &body)
    }
}

fn no(status: u16, kind: &'static str, message: impl Into<String>) -> No {
    No { status, kind, code: None, message: message.into(), wait: Wait::Unsaid }
}

fn anthropic(refusal: Refusal, about: &About<'_>) -> No {
    let About { model, tokens, context_window } = about;
    match refusal {
        Refusal::Credentials => no(401, "authentication_error", "invalid x-api-key"),
        Refusal::Forbidden => no(
            403,
            "permission_error",
            "Your API key does not have permission to use the specified resource.",
        ),
        Refusal::Quota => no(
            400,
            INVALID,
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade \
             or purchase credits.",
        ),
        Refusal::ModelRemoved => no(404, "not_found_error", format!("model: {model}")),
        Refusal::Overflow => {
            no(400, INVALID, format!("prompt is too long: {tokens} tokens > {context_window} maximum"))
        }
        Refusal::Overloaded => no(529, "overloaded_error", "Overloaded"),
        Refusal::RateLimited => waiting(no(
            429,
            "rate_limit_error",
            "This request would exceed your organization's rate limit of requests per minute.",
        )),
        // In a body or a stream Anthropic refuses with a reply; this is said where none can be given.
        Refusal::Content => no(400, INVALID, "Output blocked by content filtering policy"),
    }
}

fn openai(api: Api, refusal: Refusal, about: &About<'_>) -> No {
    let About { model, tokens, context_window } = about;
    let coded = |no: No, code: &'static str| No { code: Some(code), ..no };
    match refusal {
        Refusal::Credentials => coded(no(401, INVALID, "Incorrect API key provided."), "invalid_api_key"),
        Refusal::Forbidden => no(403, INVALID, "You have insufficient permissions for this operation."),
        Refusal::Quota => {
            let text = "You exceeded your current quota, please check your plan and billing details.";
            coded(no(429, "insufficient_quota", text), "insufficient_quota")
        }
        Refusal::ModelRemoved => {
            let text = format!("The model `{model}` does not exist or you do not have access to it.");
            coded(no(404, INVALID, text), "model_not_found")
        }
        Refusal::Overflow if api == Api::Chat => {
            let text = format!(
                "This model's maximum context length is {context_window} tokens. However, your messages resulted \
                 in {tokens} tokens. Please reduce the length of the messages."
            );
            coded(no(400, INVALID, text), "context_length_exceeded")
        }
        Refusal::Overflow => {
            let text = "Your input exceeds the context window of this model. Please adjust your input and try again.";
            coded(no(400, INVALID, text), "context_length_exceeded")
        }
        Refusal::Overloaded => {
            let text = "The server is currently overloaded. Please try again later.";
            coded(no(503, "service_unavailable_error", text), "server_is_overloaded")
        }
        Refusal::RateLimited => {
            waiting(coded(no(429, "requests", "Rate limit reached for requests."), "rate_limit_exceeded"))
        }
        Refusal::Content => {
            let text = "Invalid prompt: your prompt was flagged as potentially violating our usage policy.";
            coded(no(400, INVALID, text), "invalid_prompt")
        }
    }
}

fn waiting(no: No) -> No {
    No { wait: Wait::Text(limits::RATE_LIMITED_S.to_string()), ..no }
}
