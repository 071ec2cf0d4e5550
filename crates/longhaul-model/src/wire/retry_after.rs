//! How long a provider asks us to wait. It owns the headers and phrases in which providers say so, and the bounds
//! within which we believe them; it refuses to wait, and has no clock of its own.

use std::time::{Duration, UNIX_EPOCH};

use longhaul_core::time::Timestamp;
use reqwest::header::HeaderMap;
use serde_json::Value;

use super::lenient::count;
use super::limits::{RETRY_AFTER_MAX, RETRY_AFTER_MIN};

/// The wait a provider asks for in so many words. What cannot be read is no wish, and the caller's own backoff applies.
pub(super) fn wished(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let millis = ["retry-after-ms", "x-ms-retry-after-ms"]
        .into_iter()
        .find_map(|name| text(name).and_then(|value| seconds(value.trim())))
        .map(|millis| millis / 1000.0);
    millis.map(bounded).or_else(|| text("retry-after").and_then(|value| wait(value, now)))
}

/// The wish in an error's body: a field with a number or (where the caller knows the time) a moment, Google's `retryDelay`,
/// OpenAI's "try again in 1.5s", Google's "retry in 1.5s", Anthropic's "regain access on 2026-12-01 at 00:00 UTC".
pub(super) fn from_body(error: &Value, message: &str, now: Option<Timestamp>) -> Option<Duration> {
    let in_seconds = count(error.get("resets_in_seconds")).map(|wait| bounded(wait as f64));
    let at = || Some(until(i128::from(count(error.get("resets_at"))?) * 1000, now?));
    let details =
        || error.get("details")?.as_array()?.iter().find_map(|detail| detail.get("retryDelay")?.as_str());
    let lower = message.to_ascii_lowercase();
    let behind = |phrase: &str| lower.split_once(phrase).map(|(_, rest)| rest);
    let phrase = || {
        let rest = behind("try again in ").or_else(|| behind("retry in "))?;
        let end = rest.find(|c: char| c.is_whitespace()).unwrap_or(rest.len());
        duration(rest[..end].trim_end_matches(['.', ',']))
    };
    let access = || {
        let (day, rest) = behind("regain access on ")?.split_once(" at ")?;
        let (time, _) = rest.split_once(" utc")?;
        let moment = Timestamp::parse(&format!("{day}T{time}:00Z"))?;
        Some(until(i128::from(moment.as_millis()), now?))
    };
    in_seconds.or_else(at).or_else(|| duration(details()?)).or_else(phrase).or_else(access)
}

/// The latest reset among the limits that are used up. Limits with something left do not hold us back; their resets
/// are in the same answer and would make us wait for nothing. So do those of a plan that has not refused anything.
pub(super) fn from_resets(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let exhausted = |name: &str| -> bool {
        if name.starts_with("anthropic-ratelimit-unified-") {
            return text("anthropic-ratelimit-unified-status") == Some("rejected");
        }
        text(&remaining_header(name)).is_none_or(|value| value == "0")
    };
    headers
        .iter()
        .filter(|(name, _)| is_reset(name.as_str()) && exhausted(name.as_str()))
        .filter_map(|(_, value)| wait(value.to_str().ok()?, now))
        .max()
}

fn is_reset(name: &str) -> bool {
    (name.starts_with("anthropic-ratelimit-") && name.ends_with("-reset"))
        || name.starts_with("x-ratelimit-reset")
}

/// `anthropic-ratelimit-tokens-reset` has `…-tokens-remaining` beside it, `x-ratelimit-reset-tokens` has
/// `x-ratelimit-remaining-tokens`.
fn remaining_header(reset: &str) -> String {
    reset.replacen("x-ratelimit-reset", "x-ratelimit-remaining", 1).replace("-reset", "-remaining")
}

/// A wait in any of the forms in use: seconds, `1m30s`, an HTTP date, RFC 3339, or seconds or milliseconds since 1970.
fn wait(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Some(number) = seconds(text) {
        // Nobody asks for a wait of thirty years in seconds, and several services send the moment as a number.
        let moment_ms = match number {
            seconds if (1.0e9..1.0e10).contains(&seconds) => seconds * 1000.0,
            // From 2017 on: a million million is nobody's moment but a joke.
            millis if (1.5e12..1.0e13).contains(&millis) => millis,
            wait => return Some(bounded(wait)),
        };
        return Some(until(moment_ms as i128, now));
    }
    duration(text).or_else(|| moment(text).map(|millis| until(millis, now)))
}

fn seconds(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// Milliseconds since 1970 of a date as HTTP or RFC 3339 writes it.
fn moment(text: &str) -> Option<i128> {
    if let Some(moment) = Timestamp::parse(text) {
        return Some(i128::from(moment.as_millis()));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let since = date.duration_since(UNIX_EPOCH).ok()?;
    i128::try_from(since.as_millis()).ok()
}

fn until(millis: i128, now: Timestamp) -> Duration {
    bounded((millis - i128::from(now.as_millis())) as f64 / 1000.0)
}

fn bounded(seconds: f64) -> Duration {
    let (min, max) = (RETRY_AFTER_MIN.as_secs_f64(), RETRY_AFTER_MAX.as_secs_f64());
    Duration::from_secs_f64(seconds.clamp(min, max))
}

/// `1m30s`, `6m0s`, `20ms`, `1.5s`, `2h`, `1d`: numbers each followed by their unit.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0.0f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number = seconds(&rest[..digits])?;
        rest = &rest[digits..];
        let letters = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        total += number * unit_seconds(&rest[..letters])?;
        rest = &rest[letters..];
    }
    (!text.is_empty()).then(|| bounded(total))
}

fn unit_seconds(unit: &str) -> Option<f64> {
    match unit {
        "ms" => Some(0.001),
        "s" => Some(1.0),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        "d" => Some(86_400.0),
        _ => None,
    }
}
