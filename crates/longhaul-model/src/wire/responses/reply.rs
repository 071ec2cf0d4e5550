//! Output items become a reply, the same way whether they were streamed or came at once.

use serde_json::Value;

use super::super::lenient::{count, count_at, str_at};
use super::super::reply::{Draft, Last, Settled, consistent, kept, settle};
use super::super::{Api, Raw, Reply, Stop, Usage, WireError};

/// Reads the response object of the last event, or of a body. `items` are the ones the stream delivered; without any,
/// the object's own are taken.
pub(super) fn build(response: &Value, items: Vec<Value>) -> Result<Reply, WireError> {
    if matches!(str_at(response, "status"), "failed" | "cancelled") {
        return Err(WireError::from_event(response));
    }
    let own = || response.get("output").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut items = if items.is_empty() { own() } else { items };
    let text = parts(&items, "output_text", "text");
    let stop = stop(response, parts(&items, "refusal", "refusal"), &text);
    drop_cut_calls(&mut items, &stop);

    let settled = settle(items.iter().filter(|item| is_call(item)).map(draft).collect());
    carry(&mut items, &settled);
    Ok(Reply {
        text,
        stop: consistent(stop, settled.len()),
        calls: settled.into_iter().map(Settled::into_call).collect(),
        raw: Raw { api: Api::Responses, content: Value::Array(items) },
        usage: usage(&response["usage"]),
        model: str_at(response, "model").to_owned(),
        id: str_at(response, "id").to_owned(),
    })
}

pub(super) fn is_call(item: &Value) -> bool {
    str_at(item, "type") == "function_call"
}

/// All parts of one type in all messages, joined.
fn parts(items: &[Value], kind: &str, field: &str) -> String {
    let messages = items.iter().filter(|item| str_at(item, "type") == "message");
    let parts = messages.flat_map(|item| item.get("content").and_then(Value::as_array).into_iter().flatten());
    parts.filter(|part| str_at(part, "type") == kind).map(|part| str_at(part, field)).collect()
}

fn stop(response: &Value, refusal: String, text: &str) -> Stop {
    if !refusal.is_empty() {
        return Stop::Refusal(refusal);
    }
    if str_at(response, "status") != "incomplete" {
        return Stop::End;
    }
    match response.pointer("/incomplete_details/reason").and_then(Value::as_str).unwrap_or("") {
        "max_output_tokens" | "max_tokens" => Stop::Length,
        "content_filter" => Stop::Refusal(text.to_owned()),
        other => Stop::Other(other.to_owned()),
    }
}

/// A call marked incomplete is cut; one without a mark is, if the reply as a whole was and it is the last item.
fn drop_cut_calls(items: &mut Vec<Value>, stop: &Stop) {
    items.retain(|item| !is_call(item) || str_at(item, "status") != "incomplete");
    let unmarked = |item: &Value| is_call(item) && str_at(item, "status") != "completed";
    let calls = items.iter().filter(|item| is_call(item)).count();
    let last = if items.last().is_some_and(unmarked) { Last::Call } else { Last::Other };
    let keep = kept(stop, calls, last);
    let mut seen = 0;
    items.retain(|item| {
        seen += usize::from(is_call(item));
        !is_call(item) || seen <= keep
    });
}

fn draft(item: &Value) -> Draft {
    let args = match item.get("arguments") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    };
    let (id, name) = (str_at(item, "call_id").to_owned(), str_at(item, "name").to_owned());
    Draft { id, name, args, ..Draft::default() }
}

fn carry(items: &mut [Value], settled: &[Settled]) {
    let calls = items.iter_mut().filter(|item| is_call(item));
    for (item, call) in calls.zip(settled) {
        item["call_id"] = Value::from(call.id.as_str());
        item["arguments"] = Value::from(call.replay_text());
    }
}

/// The service counts cached tokens within the input; we keep them apart.
fn usage(usage: &Value) -> Usage {
    let details = &usage["input_tokens_details"];
    let (cache_read, cache_write) =
        (count_at(details, "cached_tokens"), count_at(details, "cache_write_tokens"));
    let uncached = |input: u64| input.saturating_sub(cache_read).saturating_sub(cache_write);
    Usage {
        input: count(usage.get("input_tokens")).map(uncached),
        output: count(usage.get("output_tokens")),
        cache_read,
        cache_write,
    }
}
