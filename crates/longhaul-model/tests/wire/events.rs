//! Each protocol's own events: every type its documentation names, and the deviations seen of real servers.

use expect_test::{Expect, expect};
use longhaul_model::wire::{Api, Kind, Stop, Usage};
use serde_json::{Value, json};

use crate::speak::{Event, bytes, reply};

fn stream(api: Api, events: &[Value]) -> Vec<u8> {
    let event = |value: &Value| -> Event {
        let name = value["type"].as_str().filter(|_| api != Api::Chat).map(str::to_owned);
        (name, value.to_string())
    };
    bytes(&events.iter().map(event).collect::<Vec<_>>(), "\n")
}

/// The whole reply as text: text, calls, stop, usage, and what is carried back.
fn check(api: Api, events: &[Value], expected: Expect) {
    let shown = match reply(api, &stream(api, events)) {
        Ok(reply) => {
            let calls: String = reply
                .calls
                .iter()
                .map(|call| format!("call {} {} {:?}\n", call.provider_id, call.name, call.args))
                .collect();
            let raw: String = match reply.raw.content.as_array() {
                Some(parts) => parts.iter().map(|part| format!("{part}\n")).collect(),
                None => format!("{}\n", reply.raw.content),
            };
            format!("{:?}\n{calls}{:?} {:?}\n{raw}", reply.text, reply.stop, reply.usage)
        }
        Err(error) => format!("{:?}: {error}\n", error.kind),
    };
    expected.assert_eq(&shown);
}

fn start(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn end(reason: &str) -> [Value; 2] {
    let delta = json!({"stop_reason": reason, "stop_sequence": null});
    [
        json!({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5, "input_tokens": 9}}),
        json!({"type": "message_stop"}),
    ]
}

/// Thinking with signature, redacted thinking, a tool the service runs with its result, citations, a block and a delta
/// from the future, indexes out of order and interleaved; null counters; an unknown stop reason.
#[test]
fn anthropic_blocks_of_every_kind_are_carried() {
    let [closing, stopped] = end("pause_turn");
    let events = [
        json!({"type": "message_start", "message": {"id": "msg_1", "model": "claude", "content": [], "usage":
            {"input_tokens": 4, "cache_creation_input_tokens": null, "cache_read_input_tokens": 8, "output_tokens": 1,
             "cache_creation": {"ephemeral_5m_input_tokens": 0}}}}),
        start(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        json!({"type": "ping"}),
        delta(0, json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "EqQB"})),
        stop(0),
        start(1, json!({"type": "redacted_thinking", "data": "opaque"})),
        stop(1),
        start(2, json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"query\""})),
        delta(2, json!({"type": "input_json_delta", "partial_json": ":\"x\"}"})),
        stop(2),
        start(
            3,
            json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"url": "u"}]}),
        ),
        stop(3),
        start(6, json!({"type": "tool_use", "id": "toolu_2", "name": "read"})),
        start(4, json!({"type": "text", "text": ""})),
        delta(6, json!({"type": "input_json_delta", "partial_json": "{\"b\":2"})),
        delta(4, json!({"type": "text_delta", "text": "found "})),
        start(5, json!({"type": "novel_block", "content": "a"})),
        delta(4, json!({"type": "citations_delta", "citation": {"cited_text": "c"}})),
        delta(5, json!({"type": "novel_delta", "content": "b", "odd": 3})),
        delta(4, json!({"type": "text_delta", "text": "it"})),
        delta(6, json!({"type": "input_json_delta", "partial_json": ",\"a\":1}"})),
        stop(6),
        stop(5),
        stop(4),
        json!({"type": "novel_event", "x": 1}),
        closing,
        stopped,
    ];
    check(
        Api::Anthropic,
        &events,
        expect![[r#"
            "found it"
            call toolu_2 read Ok(Json("{\"b\":2,\"a\":1}"))
            Other("pause_turn") Usage { input: Some(9), output: Some(5), cache_read: 8, cache_write: 0 }
            {"signature":"EqQB","thinking":"hm","type":"thinking"}
            {"data":"opaque","type":"redacted_thinking"}
            {"id":"srvtoolu_1","input":{"query":"x"},"name":"web_search","type":"server_tool_use"}
            {"content":[{"url":"u"}],"tool_use_id":"srvtoolu_1","type":"web_search_tool_result"}
            {"citations":[{"cited_text":"c"}],"text":"found it","type":"text"}
            {"content":"ab","type":"novel_block"}
            {"id":"toolu_2","input":{"a":1,"b":2},"name":"read","type":"tool_use"}
        "#]],
    );
}

#[test]
fn anthropic_stop_reasons() {
    let cases = [
        ("end_turn", Stop::End),
        ("stop_sequence", Stop::End),
        ("tool_use", Stop::End),
        ("max_tokens", Stop::Length),
        ("model_context_window_exceeded", Stop::Overflow),
        ("refusal", Stop::Refusal("hi".to_owned())),
        ("pause_turn", Stop::Other("pause_turn".to_owned())),
        ("novel", Stop::Other("novel".to_owned())),
    ];
    for (reason, expected) in cases {
        let text = [start(0, json!({"type": "text", "text": "hi"})), stop(0)];
        let events: Vec<Value> = text.into_iter().chain(end(reason)).collect();
        assert_eq!(
            reply(Api::Anthropic, &stream(Api::Anthropic, &events)).unwrap().stop,
            expected,
            "{reason}"
        );
    }
}

/// A refusal explains itself in `stop_details`, and its calls are not to be made.
#[test]
fn an_anthropic_refusal_has_no_calls() {
    let details = json!({"type": "refusal", "category": "cyber", "explanation": "not this"});
    let events = [
        start(0, json!({"type": "tool_use", "id": "t", "name": "read", "input": {}})),
        delta(0, json!({"type": "input_json_delta", "partial_json": "{}"})),
        stop(0),
        json!({"type": "message_delta", "delta": {"stop_reason": "refusal", "stop_details": details}, "usage": null}),
        json!({"type": "message_stop"}),
    ];
    check(
        Api::Anthropic,
        &events,
        expect![[r#"
            ""
            Refusal("not this") Usage { input: None, output: None, cache_read: 0, cache_write: 0 }
        "#]],
    );
}

/// llama.cpp: no `input` in a tool's start, only output tokens at the end; others number every block alike.
#[test]
fn anthropic_servers_that_differ() {
    let [_, stopped] = end("");
    let events = [
        json!({"type": "message_start", "message": {"id": "chatcmpl-1", "usage": {"input_tokens": 12, "output_tokens": 0}}}),
        start(0, json!({"type": "text", "text": ""})),
        delta(0, json!({"type": "text_delta", "text": "a"})),
        stop(0),
        start(0, json!({"type": "tool_use", "id": "t", "name": "read"})),
        delta(0, json!({"type": "input_json_delta", "partial_json": "{\"p\":1}"})),
        stop(0),
        json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 3}}),
        stopped,
    ];
    check(
        Api::Anthropic,
        &events,
        expect![[r#"
            "a"
            call t read Ok(Json("{\"p\":1}"))
            ToolCalls Usage { input: Some(12), output: Some(3), cache_read: 0, cache_write: 0 }
            {"text":"a","type":"text"}
            {"id":"t","input":{"p":1},"name":"read","type":"tool_use"}
        "#]],
    );
}

/// In-stream errors have their kind, by each protocol's shapes of them.
#[test]
fn errors_inside_a_stream() {
    let retry = Kind::Retryable { after: None };
    let limited = Kind::RateLimited { after: None };
    let failed = |code: &str| {
        json!({"type": "response.failed", "response": {"status": "failed",
        "error": {"code": code, "message": "m"}}})
    };
    let cases = [
        (
            Api::Anthropic,
            json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
            retry,
        ),
        (Api::Anthropic, json!({"type": "error", "error": {"type": "api_error", "message": "m"}}), retry),
        (
            Api::Anthropic,
            json!({"type": "error", "error": {"type": "rate_limit_error", "message": "m"}}),
            limited,
        ),
        (
            Api::Anthropic,
            json!({"type": "error", "error": {"type": "authentication_error", "message": "m"}}),
            Kind::Credentials,
        ),
        (
            Api::Anthropic,
            json!({"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 3 tokens > 2 maximum"}}),
            Kind::Overflow,
        ),
        (Api::Anthropic, json!({"type": "error", "error": {"type": "novel_error", "message": "m"}}), retry),
        (
            Api::Responses,
            json!({"type": "error", "code": "server_is_overloaded", "message": "m", "param": null}),
            retry,
        ),
        (
            Api::Responses,
            json!({"type": "error", "error": {"type": "invalid_request_error", "code": "context_length_exceeded", "message": "m"}}),
            Kind::Overflow,
        ),
        (Api::Responses, failed("context_length_exceeded"), Kind::Overflow),
        (Api::Responses, failed("server_error"), retry),
        (Api::Responses, failed("rate_limit_exceeded"), limited),
        (Api::Responses, failed("insufficient_quota"), Kind::Quota),
        (Api::Responses, failed("invalid_prompt"), Kind::Refused),
        (
            Api::Chat,
            json!({"error": {"code": 502, "message": "Provider disconnected"}, "choices": []}),
            retry,
        ),
        (
            Api::Chat,
            json!({"error": {"type": "exceed_context_size_error", "code": 400, "message": "m"}}),
            Kind::Overflow,
        ),
        (Api::Chat, json!({"error": "model 'x' not found"}), Kind::ModelUnknown),
        (Api::Chat, json!({"error": {"code": 429, "message": "m"}, "choices": []}), limited),
        (Api::Chat, json!({"error": {"code": 401, "message": "m"}, "choices": []}), Kind::Credentials),
    ];
    for (api, event, kind) in cases {
        assert_eq!(reply(api, &stream(api, std::slice::from_ref(&event))).unwrap_err().kind, kind, "{event}");
    }
}

/// Reasoning with encrypted content, annotated text, a call, a built-in tool and an item from the future; events out of
/// order, and every event type that only repeats what the items say.
#[test]
fn responses_items_of_every_kind_are_carried() {
    let reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"});
    let message = json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [
        {"type": "output_text", "text": "hi", "annotations": [{"type": "url_citation", "url": "u"}], "logprobs": []}]});
    let function = json!({"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "read",
        "arguments": "{\"b\": 2, \"a\": 1}", "status": "completed"});
    let added = |index: u64, item: &Value| json!({"type": "response.output_item.added", "output_index": index, "item": item});
    let done = |index: u64, item: &Value| json!({"type": "response.output_item.done", "output_index": index, "item": item});
    let search =
        json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}});
    let novel = json!({"type": "novel_item", "id": "n_1", "payload": {"x": [1.5, null]}});
    let response = json!({"id": "resp_1", "model": "gpt", "status": "completed", "output": [], "usage":
        {"input_tokens": 50, "input_tokens_details": {"cached_tokens": 30}, "output_tokens": 9,
         "output_tokens_details": {"reasoning_tokens": 4}}});
    let events = [
        json!({"type": "response.queued", "response": {}}),
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
        json!({"type": "response.in_progress", "response": {"id": "resp_1"}}),
        added(0, &reasoning),
        json!({"type": "response.reasoning_summary_part.added", "output_index": 0, "part": {}}),
        json!({"type": "response.reasoning_summary_text.delta", "output_index": 0, "item_id": "rs_1", "delta": "t"}),
        json!({"type": "response.reasoning_summary_text.done", "output_index": 0, "text": "t"}),
        json!({"type": "response.reasoning_summary_part.done", "output_index": 0, "part": {}}),
        json!({"type": "response.reasoning_text.delta", "output_index": 0, "delta": "u"}),
        json!({"type": "response.reasoning_text.done", "output_index": 0, "text": "u"}),
        // A piece of a call before the call, and items finished in another order than begun.
        json!({"type": "response.function_call_arguments.delta", "output_index": 3, "item_id": "fc_1", "delta": "{\"b\""}),
        added(3, &function),
        added(1, &search),
        json!({"type": "response.web_search_call.searching", "output_index": 1, "item_id": "ws_1"}),
        json!({"type": "response.web_search_call.completed", "output_index": 1, "item_id": "ws_1"}),
        added(2, &message),
        json!({"type": "response.content_part.added", "output_index": 2, "content_index": 0, "part": {}}),
        json!({"type": "response.output_text.delta", "output_index": 2, "content_index": 0, "delta": "hi"}),
        json!({"type": "response.output_text.annotation.added", "output_index": 2, "annotation": {}}),
        json!({"type": "response.output_text.done", "output_index": 2, "text": "hi"}),
        json!({"type": "response.content_part.done", "output_index": 2, "part": {}}),
        done(3, &function),
        json!({"type": "response.function_call_arguments.done", "output_index": 3, "item_id": "fc_1",
            "arguments": "{\"b\": 2, \"a\": 1}"}),
        added(4, &novel),
        json!({"type": "response.novel_item.delta", "output_index": 4, "delta": {"nested": true}}),
        done(4, &novel),
        done(2, &message),
        done(1, &search),
        done(0, &reasoning),
        json!({"type": "response.completed", "response": response}),
    ];
    check(
        Api::Responses,
        &events,
        expect![[r#"
            "hi"
            call call_1 read Ok(Json("{\"b\": 2, \"a\": 1}"))
            ToolCalls Usage { input: Some(20), output: Some(9), cache_read: 30, cache_write: 0 }
            {"encrypted_content":"gAAA","id":"rs_1","summary":[],"type":"reasoning"}
            {"action":{"query":"q"},"id":"ws_1","status":"completed","type":"web_search_call"}
            {"content":[{"annotations":[{"type":"url_citation","url":"u"}],"logprobs":[],"text":"hi","type":"output_text"}],"id":"msg_1","role":"assistant","status":"completed","type":"message"}
            {"arguments":"{\"b\": 2, \"a\": 1}","call_id":"call_1","id":"fc_1","name":"read","status":"completed","type":"function_call"}
            {"id":"n_1","payload":{"x":[1.5,null]},"type":"novel_item"}
        "#]],
    );
}

#[test]
fn responses_refusals_and_limits() {
    let ended = |kind: &str, response: Value| {
        reply(Api::Responses, &stream(Api::Responses, &[json!({"type": kind, "response": response})]))
    };
    let refusal = json!([{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}]);
    let refused = ended("response.completed", json!({"status": "completed", "output": refusal})).unwrap();
    assert_eq!(refused.stop, Stop::Refusal("no".to_owned()));
    let cut = |reason: &str| {
        ended(
            "response.incomplete",
            json!({"status": "incomplete", "incomplete_details": {"reason": reason}}),
        )
    };
    assert_eq!(cut("max_output_tokens").unwrap().stop, Stop::Length);
    assert_eq!(cut("content_filter").unwrap().stop, Stop::Refusal(String::new()));
    assert_eq!(cut("novel").unwrap().stop, Stop::Other("novel".to_owned()));
    assert_eq!(
        ended("response.cancelled", json!({"status": "cancelled"})).unwrap_err().kind,
        Kind::Retryable { after: None }
    );
}

/// What the end repeats of finished items is passed over, by the name of its event; what the last event says it is counts for more.
#[test]
fn responses_repeat_what_is_not_read() {
    let item = json!({"type": "message", "content": [{"type": "output_text", "text": "hi"}]});
    let done = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let after =
        |rest: &str| [&stream(Api::Responses, std::slice::from_ref(&done))[..], rest.as_bytes()].concat();
    let completed = |response: Value| format!("event: response.completed\ndata: {response}\n\n");
    let other = json!({"id": "r", "model": "m", "status": "completed", "output": [{"type": "novel"}],
        "usage": {"input_tokens": 5, "output_tokens": 2}});
    let again = "event: response.output_text.done\ndata: {\"text\": nobody reads this}\n\n";
    let ended = completed(json!({"type": "response.completed", "response": other}));
    let read = reply(Api::Responses, &after(&format!("{again}{ended}"))).unwrap();
    assert_eq!((read.text.as_str(), read.id.as_str(), read.model.as_str()), ("hi", "r", "m"));
    assert_eq!((read.usage.input, read.usage.output), (Some(5), Some(2)));
    assert_eq!(read.raw.content, json!([item]));

    let failed = json!({"error": {"code": "rate_limit_exceeded", "message": "slowly"}});
    let failed = completed(json!({"type": "response.failed", "response": failed}));
    let error = reply(Api::Responses, &after(&failed)).unwrap_err();
    assert!(matches!(error.kind, Kind::RateLimited { .. }) && error.message.contains("slowly"), "{error:?}");
}

/// llama.cpp: no sequence numbers or indexes, pieces addressed by the call's id, items without one; and `[DONE]`.
#[test]
fn responses_servers_that_differ() {
    let item = |arguments: &str, status: &str| {
        json!({"type": "function_call", "call_id": "fc_x", "name": "read",
        "arguments": arguments, "status": status})
    };
    let message = json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "ok"}]});
    let mut bytes = stream(
        Api::Responses,
        &[
            json!({"type": "response.created", "response": {"id": "resp_x", "status": "in_progress"}}),
            json!({"type": "response.output_item.added", "item": {"type": "message", "id": "msg_1", "content": []}}),
            json!({"type": "response.output_text.delta", "item_id": "msg_1", "delta": "ok"}),
            json!({"type": "response.output_item.done", "item": message}),
            json!({"type": "response.output_item.added", "item": item("", "in_progress")}),
            json!({"type": "response.function_call_arguments.delta", "item_id": "fc_x", "delta": "{\"p\":"}),
            json!({"type": "response.function_call_arguments.delta", "item_id": "stray", "delta": "{\"p\":1}"}),
            json!({"type": "response.output_item.done", "item": item("{\"p\":1}", "completed")}),
            json!({"type": "response.completed", "response": {"id": "resp_x", "status": "completed", "usage": null}}),
        ],
    );
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    let reply = reply(Api::Responses, &bytes).unwrap();
    assert_eq!((reply.text.as_str(), reply.calls.len(), reply.stop), ("ok", 1, Stop::ToolCalls));
    assert_eq!(reply.calls[0].args.as_ref().unwrap().as_str(), "{\"p\":1}");
    assert_eq!(reply.usage, Usage::default());
}

/// A call that was announced and never finished is no call, even if the server says all is well.
#[test]
fn an_unfinished_responses_call_is_truncated() {
    let item = json!({"type": "function_call", "id": "fc", "call_id": "c", "name": "rm", "arguments": ""});
    let events = [
        json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
        json!({"type": "response.function_call_arguments.delta", "output_index": 0, "delta": "{}"}),
        json!({"type": "response.completed", "response": {"status": "completed"}}),
    ];
    assert_eq!(reply(Api::Responses, &stream(Api::Responses, &events)).unwrap_err().kind, Kind::Truncated);
}

fn chunk(delta: Value, finish: Value) -> Value {
    json!({"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], "usage": null})
}

/// llama-cpp-python: nulls first, id, type and name with every piece. Others: no index, one index for all, arguments as
/// an object, text in parts, a second choice nobody asked for.
#[test]
fn chat_servers_that_differ() {
    let piece = |index: Value, id: &str, name: &str, arguments: Value| {
        json!({"tool_calls": [{"index": index, "id": id, "type": "function",
            "function": {"name": name, "arguments": arguments}}]})
    };
    let null = Value::Null;
    let events = [
        chunk(
            json!({"role": "assistant", "content": null, "tool_calls": null, "function_call": null}),
            null.clone(),
        ),
        json!({"choices": null, "usage": null}),
        json!({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "stop"}]}),
        json!({"choices": [{"index": 0, "delta": null, "finish_reason": null}]}),
        chunk(
            json!({"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]}),
            null.clone(),
        ),
        chunk(
            json!({"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
            json!(""),
        ),
        // Repeated with every piece.
        chunk(piece(json!(1), "b", "write", json!("{\"x\"")), null.clone()),
        chunk(piece(json!(1), "b", "write", json!(":1}")), null.clone()),
        // Out of order, then one index for two ids.
        chunk(piece(json!(0), "a", "read", json!("{}")), null.clone()),
        chunk(piece(json!(0), "a2", "read", json!("{\"y\":")), null.clone()),
        chunk(piece(json!(0), "a2", "read", json!("2}")), null.clone()),
        // No index; an object.
        chunk(piece(null.clone(), "z", "list", json!({"deep": true})), null.clone()),
        chunk(json!({}), json!("stop")),
        json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}}),
    ];
    check(
        Api::Chat,
        &events,
        expect![[r#"
            "in parts"
            call a read Ok(Json("{}"))
            call a2 read Ok(Json("{\"y\":2}"))
            call b write Ok(Json("{\"x\":1}"))
            call z list Ok(Json("{\"deep\":true}"))
            ToolCalls Usage { input: Some(5), output: Some(2), cache_read: 4, cache_write: 0 }
            {"content":"in parts","reasoning":"hm","reasoning_details":[{"text":"hm","type":"reasoning.text"}],"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"read"},"id":"a","type":"function"},{"function":{"arguments":"{\"y\":2}","name":"read"},"id":"a2","type":"function"},{"function":{"arguments":"{\"x\":1}","name":"write"},"id":"b","type":"function"},{"function":{"arguments":"{\"deep\":true}","name":"list"},"id":"z","type":"function"}]}
        "#]],
    );
}

#[test]
fn chat_finish_reasons() {
    let cases = [
        (json!({"content": "a"}), "stop", Stop::End),
        (json!({"content": "a"}), "length", Stop::Length),
        (json!({"content": "a"}), "content_filter", Stop::Refusal("a".to_owned())),
        (json!({"refusal": "no"}), "stop", Stop::Refusal("no".to_owned())),
        (json!({"content": "a"}), "novel", Stop::Other("novel".to_owned())),
    ];
    for (delta, reason, expected) in cases {
        let events = [chunk(delta, Value::Null), chunk(json!({}), json!(reason))];
        assert_eq!(reply(Api::Chat, &stream(Api::Chat, &events)).unwrap().stop, expected, "{reason}");
    }
    // The closing marker alone is believed for text, and not for calls.
    let mut text = stream(Api::Chat, &[chunk(json!({"content": "a"}), Value::Null)]);
    text.extend_from_slice(b"data: [DONE]\n\n");
    assert_eq!(reply(Api::Chat, &text).unwrap().stop, Stop::End);
    let call =
        json!({"tool_calls": [{"index": 0, "id": "c", "function": {"name": "rm", "arguments": "{}"}}]});
    let mut calls = stream(Api::Chat, &[chunk(call, Value::Null)]);
    calls.extend_from_slice(b"data: [DONE]\n\n");
    assert_eq!(reply(Api::Chat, &calls).unwrap_err().kind, Kind::Truncated);
}
