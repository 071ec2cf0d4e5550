//! Answers that are no success, and the waits they ask for.

use std::time::Duration;

use longhaul_core::time::Timestamp;
use longhaul_model::wire::limits::{RETRY_AFTER_MAX, RETRY_AFTER_MIN};
use longhaul_model::wire::{Kind, WireError};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

fn now() -> Timestamp {
    Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
}

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn answer(status: u16, pairs: &[(&str, &str)], body: &str) -> WireError {
    WireError::from_answer(status, &headers(pairs), body.as_bytes(), now())
}

/// F27: whatever a provider asks for is at least a second and at most a day; what cannot be read is no wish. When a limit is
/// over is no wish of a service that is out of order.
#[test]
fn waits_are_read_and_bounded() {
    let seconds = |seconds: f64| Some(Duration::from_secs_f64(seconds));
    let (min, max) = (Some(RETRY_AFTER_MIN), Some(RETRY_AFTER_MAX));
    type Case<'a> = (&'a [(&'a str, &'a str)], Option<Duration>);
    let cases: &[Case<'_>] = &[
        (&[], None),
        (&[("retry-after", "0")], min),
        (&[("retry-after", "-1")], min),
        (&[("retry-after", "0.2")], min),
        (&[("retry-after", "7")], seconds(7.0)),
        (&[("retry-after", " 7.5 ")], seconds(7.5)),
        (&[("retry-after", "1000000000000")], max),
        (&[("retry-after", "1e300")], max),
        (&[("retry-after", "99999999999999999999999999")], max),
        (&[("retry-after", "inf")], None),
        (&[("retry-after", "NaN")], None),
        (&[("retry-after", "")], None),
        (&[("retry-after", "soon")], None),
        (&[("retry-after", "Sun, 15 Nov 2026 12:00:30 GMT")], seconds(30.0)),
        (&[("retry-after", "Sun, 15 Nov 2026 11:00:00 GMT")], min),
        (&[("retry-after", "Thu, 01 Jan 1970 00:00:00 GMT")], min),
        (&[("retry-after", "Fri, 15 Nov 2999 12:00:00 GMT")], max),
        (&[("retry-after", "Fri, 99 Nov 2999")], None),
        (&[("retry-after", "2026-11-15T12:01:00Z")], seconds(60.0)),
        (&[("retry-after", "1794744010")], seconds(10.0)),
        (&[("retry-after-ms", "2500")], seconds(2.5)),
        (&[("retry-after-ms", "0")], min),
        (&[("retry-after-ms", "2500"), ("retry-after", "9")], seconds(2.5)),
        (&[("retry-after-ms", "x"), ("retry-after", "9")], seconds(9.0)),
        (&[("anthropic-ratelimit-tokens-reset", "2026-11-15T12:00:45Z")], seconds(45.0)),
        (&[("retry-after", "3"), ("anthropic-ratelimit-tokens-reset", "2026-11-15T12:00:45Z")], seconds(3.0)),
        (
            &[
                ("anthropic-ratelimit-requests-reset", "2026-11-15T12:09:00Z"),
                ("anthropic-ratelimit-requests-remaining", "49"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-11-15T12:00:20Z"),
                ("anthropic-ratelimit-input-tokens-remaining", "0"),
                ("anthropic-ratelimit-output-tokens-reset", "2026-11-15T12:00:25Z"),
                ("anthropic-ratelimit-output-tokens-remaining", "0"),
            ],
            seconds(25.0),
        ),
        (&[("x-ratelimit-reset-requests", "1m30s")], seconds(90.0)),
        (&[("x-ratelimit-reset-tokens", "6m0s"), ("x-ratelimit-reset-requests", "20ms")], seconds(360.0)),
        (&[("x-ratelimit-reset-tokens", "1h2m3.5s")], seconds(3723.5)),
        (&[("x-ratelimit-reset-tokens", "9d")], max),
        (
            &[
                ("x-ratelimit-reset-requests", "1s"),
                ("x-ratelimit-remaining-requests", "0"),
                ("x-ratelimit-reset-tokens", "1h"),
                ("x-ratelimit-remaining-tokens", "1000"),
            ],
            min,
        ),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1794744060")], seconds(60.0)),
        (&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1794744060000")], seconds(60.0)),
        (&[("x-ratelimit-remaining", "3"), ("x-ratelimit-reset", "1794744060000")], None),
        (
            &[
                ("anthropic-ratelimit-unified-status", "allowed"),
                ("anthropic-ratelimit-unified-5h-reset", "1794754000"),
                ("anthropic-ratelimit-unified-7d-reset", "1795344000"),
            ],
            None,
        ),
        (
            &[
                ("anthropic-ratelimit-unified-status", "rejected"),
                ("anthropic-ratelimit-unified-reset", "1794744900"),
            ],
            seconds(900.0),
        ),
        (&[("x-ratelimit-reset-tokens", "ms")], None),
        (&[("x-ratelimit-reset-tokens", "5parsecs")], None),
    ];
    for (pairs, expected) in cases {
        assert_eq!(answer(429, pairs, "").kind, Kind::RateLimited { after: *expected }, "{pairs:?}");
        let asked_for = pairs.iter().any(|(name, _)| name.starts_with("retry-after"));
        let expected = expected.filter(|_| asked_for);
        assert_eq!(answer(503, pairs, "").kind, Kind::Retryable { after: expected }, "{pairs:?}");
    }
}

#[test]
fn waits_in_bodies() {
    let after = |body: &str| {
        let kind = answer(429, &[], body).kind;
        let Kind::RateLimited { after } = kind else { panic!("{kind:?}") };
        after
    };
    let said = |message: &str| {
        after(&format!(r#"{{"error":{{"code":"rate_limit_exceeded","message":"{message}"}}}}"#))
    };
    assert_eq!(
        said("Rate limit reached. Please try again in 1.5s. Visit"),
        Some(Duration::from_millis(1500))
    );
    assert_eq!(said("Please try again in 6m0s."), Some(Duration::from_secs(360)));
    assert_eq!(said("Please try again in 28ms."), Some(RETRY_AFTER_MIN));
    assert_eq!(said("Please try again in a while."), None);
    assert_eq!(said("Please retry in 2.78s."), Some(Duration::from_millis(2780)));
    let google = |details: &str| {
        let message = "You exceeded your current quota, please check your plan and billing details.";
        after(&format!(
            r#"[{{"error":{{"code":429,"message":"{message}","status":"RESOURCE_EXHAUSTED",{details}}}}}]"#
        ))
    };
    let delay = r#""details":[{"@type":"x/QuotaFailure"},{"@type":"x/RetryInfo","retryDelay":"34.5s"}]"#;
    assert_eq!(google(delay), Some(Duration::from_millis(34_500)));
    let plan = |field: &str| {
        after(&format!(r#"{{"error":{{"type":"usage_limit_reached","message":"m",{field}}}}}"#))
    };
    assert_eq!(plan(r#""resets_in_seconds":3600"#), Some(Duration::from_secs(3600)));
    assert_eq!(plan(r#""resets_at":1794744060"#), Some(Duration::from_secs(60)));
    assert_eq!(plan(r#""resets_in_seconds":1e15"#), Some(RETRY_AFTER_MAX));
}

/// F26, F28, F33, F35, F36: each provider's errors as they are known, and what cannot be known by its status.
#[test]
fn answers_have_their_kind() {
    let retry = Kind::Retryable { after: None };
    let limited = Kind::RateLimited { after: None };
    let for_hours = Kind::RateLimited { after: Some(Duration::from_secs(12 * 60 * 60)) };
    let openai = |kind: &str, code: &str, message: &str| {
        format!(r#"{{"error":{{"message":"{message}","type":"{kind}","param":null,"code":"{code}"}}}}"#)
    };
    let anthropic = |kind: &str, message: &str| {
        format!(
            r#"{{"type":"error","error":{{"type":"{kind}","message":"{message}"}},"request_id":"req_1"}}"#
        )
    };
    let cases = [
        (400, anthropic("invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum"), Kind::Overflow),
        (400, anthropic("invalid_request_error", "input length and `max_tokens` exceed context limit: 1 + 2 > 2"), Kind::Overflow),
        (400, anthropic("invalid_request_error", "Your credit balance is too low to access the API"), Kind::Quota),
        (400, anthropic("invalid_request_error", "messages: roles must alternate"), Kind::Fatal),
        (401, anthropic("authentication_error", "invalid x-api-key"), Kind::Credentials),
        (402, anthropic("billing_error", "m"), Kind::Quota),
        (403, anthropic("permission_error", "m"), Kind::Credentials),
        (404, anthropic("not_found_error", "model: claude-nope"), Kind::ModelUnknown),
        (404, anthropic("not_found_error", "Not Found"), Kind::Fatal),
        (413, anthropic("request_too_large", "m"), Kind::Overflow),
        (429, anthropic("rate_limit_error", "m"), limited),
        (500, anthropic("api_error", "m"), retry),
        (504, anthropic("timeout_error", "m"), retry),
        (529, anthropic("overloaded_error", "Overloaded"), retry),
        (400, openai("invalid_request_error", "context_length_exceeded", "m"), Kind::Overflow),
        (400, openai("invalid_request_error", "invalid_prompt", "flagged"), Kind::Refused),
        (400, openai("invalid_request_error", "content_filter", "m"), Kind::Refused),
        (401, openai("invalid_request_error", "invalid_api_key", "Incorrect API key provided: sk-…"), Kind::Credentials),
        (403, openai("invalid_request_error", "model_not_found", "Project does not have access to model"), Kind::ModelUnknown),
        (404, openai("invalid_request_error", "model_not_found", "The model `x` does not exist"), Kind::ModelUnknown),
        (429, openai("insufficient_quota", "insufficient_quota", "You exceeded your current quota"), Kind::Quota),
        (429, openai("x", "", "You exceeded your current quota"), Kind::Quota),
        (400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-11-16 at 00:00 UTC."), for_hours),
        (400, anthropic("invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."), Kind::RateLimited { after: Some(RETRY_AFTER_MAX) }),
        (400, anthropic("invalid_request_error", "You have reached your specified API usage limits."), Kind::Quota),
        (400, r#"[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]"#.to_owned(), Kind::Fatal),
        (429, openai("tokens", "rate_limit_exceeded", "Request too large for m on tokens per min (TPM): Limit 1, Requested 2"), Kind::Overflow),
        (429, openai("requests", "rate_limit_exceeded", "m"), limited),
        (429, openai("rate_limit_error", "slow_down", "m"), limited),
        (500, openai("server_error", "", "m"), retry),
        (503, openai("service_unavailable_error", "server_is_overloaded", "m"), retry),
        (400, r#"{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error","n_ctx":8}}"#.to_owned(), Kind::Overflow),
        (400, r#"{"object":"error","message":"This model's maximum context length is 8 tokens.","type":"BadRequestError","code":400}"#.to_owned(), Kind::Overflow),
        (404, r#"{"error":"model 'x' not found, try pulling it first"}"#.to_owned(), Kind::ModelUnknown),
        (404, r#"{"detail":"Not Found"}"#.to_owned(), Kind::Fatal),
        (503, r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#.to_owned(), retry),
        (302, String::new(), Kind::Foreign),
        (307, "<a href=\"/login\">".to_owned(), Kind::Foreign),
        (400, "\u{feff}\r\n<!DOCTYPE html><p>Bad Request".to_owned(), Kind::Foreign),
        (400, "Failed to deserialize the JSON body".to_owned(), Kind::Fatal),
        (401, String::new(), Kind::Credentials),
        (403, "<html>no</html>".to_owned(), Kind::Credentials),
        (404, "<html>nothing</html>".to_owned(), Kind::Foreign),
        (404, String::new(), Kind::Fatal),
        (413, "<html>too large</html>".to_owned(), Kind::Overflow),
        (429, "<html>slow down</html>".to_owned(), limited),
        (405, "<html>no</html>".to_owned(), Kind::Foreign),
        (408, String::new(), retry),
        (409, String::new(), retry),
        (422, "{".to_owned(), Kind::Fatal),
        (429, "null".to_owned(), limited),
        (501, String::new(), Kind::Fatal),
        (500, r#"{"error":"model runner not found"}"#.to_owned(), retry),
        (503, anthropic("invalid_request_error", "m"), retry),
        (502, "<html>bad gateway</html>".to_owned(), retry),
        (599, "[]".to_owned(), retry),
    ];
    for (status, body, kind) in cases {
        assert_eq!(answer(status, &[], &body).kind, kind, "{status} {body}");
    }
    let html = [("content-type", "text/html; charset=utf-8")];
    assert_eq!(answer(404, &html, "No such page").kind, Kind::Foreign);
    assert_eq!(answer(400, &html, &anthropic("invalid_request_error", "m")).kind, Kind::Fatal);
}

#[test]
fn an_error_says_what_is_known() {
    let body =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#;
    let error = answer(529, &[("retry-after", "5")], body);
    assert_eq!(error.to_string(), "provider unavailable: Overloaded (status 529) (request req_1)");
    assert_eq!(error.kind, Kind::Retryable { after: Some(Duration::from_secs(5)) });
    assert_eq!(
        answer(502, &[("x-request-id", "r")], "<html>").to_string(),
        "provider unavailable: the answer is a web page (status 502) (request r)"
    );
    assert_eq!(
        answer(400, &[], r#"[{"error":{"message":"API key not valid."}}]"#).to_string(),
        "request not accepted: API key not valid. (status 400)"
    );
    assert_eq!(answer(500, &[], "").to_string(), "provider unavailable: HTTP status 500 (status 500)");
}
