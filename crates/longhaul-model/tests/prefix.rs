//! What a provider is sent while a run's conversation grows: from a run's own messages to the bytes on the wire. Services
//! read a prompt from their cache as far as its bytes are those of an earlier one, so every request must begin with all
//! of the one before.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use expect_test::{Expect, expect};
use longhaul_core::conversation::{CallRequest, Message, ModelRequest, Pictures, Raw, Scene};
use longhaul_core::ids::{Attempt, CallId, RunId};
use longhaul_core::json::Json;
use longhaul_model::provider::Speaks;
use longhaul_model::wire::{Api, ToolOffer};
use longhaul_model::{Models, Provider, ProviderConfig};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const MODEL: &str = "net/m-1";
const TURNS: u32 = 30;
/// Where a marker stands in its block's bytes: first, because keys are sorted.
const MARKER: &str = r#""cache_control":{"type":"ephemeral"},"#;

fn provider(speaks: Speaks) -> Provider {
    let config = ProviderConfig {
        api: Some(speaks),
        base_url: Some("http://127.0.0.1:9".to_owned()),
        max_output_tokens: Some(4096),
        ..ProviderConfig::default()
    };
    let offer = |name: &str| ToolOffer {
        name: name.to_owned(),
        description: format!("Can {name}."),
        schema: json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}),
    };
    let models = Models {
        providers: [("net".to_owned(), config)].into(),
        offers: Arc::from(["read", "write", "bash"].map(offer)),
        ..Models::default()
    };
    models.provider(MODEL).unwrap()
}

/// What goes over the wire to ask for the turn after these messages.
fn sent(provider: &Provider, messages: &[Message], turn: u32) -> String {
    let request = ModelRequest {
        model: MODEL.into(),
        system: "You are careful.".into(),
        messages: Arc::new(messages.to_vec()),
        tools: Arc::from(["read".to_owned(), "bash".to_owned()]),
        answer_schema: None,
        scene: Scene {
            run: RunId::from_bits(1),
            agent: "coder".into(),
            step: "step-1".into(),
            iteration: 1,
            depth: 0,
            turn,
            attempt: Attempt::FIRST,
        },
        pictures: Pictures::default(),
    };
    provider.endpoint.api.encode(&provider.encode(&request)).to_string()
}

/// The conversation as it stands when each of thirty turns is asked for. Turns make one call, three or none. Some replies
/// are kept in the protocol's own words, with thoughts; one of those is another model's. Some providers give ids that
/// are the same in every turn, some give none.
fn conversations(api: Api) -> Vec<Vec<Message>> {
    let mut messages = vec![Message::User { text: "Fix the \"parser\".".to_owned() }];
    let mut all = Vec::new();
    for turn in 1..=TURNS {
        all.push(messages.clone());
        let calls: Vec<CallRequest> = (0..[1, 3, 0][turn as usize % 3]).map(|n| call(turn, n)).collect();
        let text = if turn % 5 == 0 { String::new() } else { format!("Turn {turn}: on.") };
        let raw = (turn % 4 == 1 || turn % 4 == 2).then(|| Raw {
            model: if turn % 12 == 9 { "net/m-0".to_owned() } else { MODEL.to_owned() },
            api: api.as_str().to_owned(),
            content: Json::of(&own_words(api, turn, &text, &calls)),
        });
        let results = calls.iter().map(|call| Message::Tool {
            call: call.id,
            failed: call.id.0 % 7 == 0,
            text: format!("line 1 of {}\nline 2", call.id.0).into(),
            images: Vec::new(),
        });
        let results: Vec<Message> = results.collect();
        let silent = results.is_empty();
        messages.push(Message::Assistant { text, calls, raw: raw.map(Box::new) });
        messages.extend(results);
        if silent {
            messages.push(Message::User { text: format!("Go on after {turn}.") });
        }
    }
    all.push(messages);
    all
}

fn call(turn: u32, number: u32) -> CallRequest {
    let provider_id = match turn % 4 {
        0 => None,
        3 => Some(format!("functions.read:{number}")),
        _ => Some(format!("call_{turn}_{number}")),
    };
    CallRequest {
        id: CallId(turn * 10 + number),
        tool: "read".into(),
        // Not in the order in which we would write the keys.
        args: Json::parse(format!(r#"{{"path": "src/{turn}.rs", "from": {number}}}"#)).unwrap(),
        provider_id,
    }
}

/// A reply as the protocol said it, with more in it than text and calls.
fn own_words(api: Api, turn: u32, text: &str, calls: &[CallRequest]) -> Value {
    let id = |call: &CallRequest| call.provider_id.clone().unwrap();
    let said = !text.is_empty();
    match api {
        Api::Anthropic => {
            let thinking =
                json!({"type": "thinking", "thinking": format!("hm {turn}"), "signature": "sig=="});
            let text = said.then(|| json!({"type": "text", "text": text}));
            let calls = calls.iter().map(|call| {
                json!({"type": "tool_use", "id": id(call), "name": call.tool, "input": call.args.value()})
            });
            [thinking].into_iter().chain(text).chain(calls).collect()
        }
        Api::Responses => {
            let reasoning = json!({"type": "reasoning", "id": format!("rs_{turn}"), "encrypted_content": "enc==",
                "summary": []});
            let message = said.then(|| {
                json!({"type": "message", "id": format!("msg_{turn}"), "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": text, "annotations": []}]})
            });
            let calls = calls.iter().map(|call| {
                json!({"type": "function_call", "id": format!("fc_{}", call.id.0), "call_id": id(call),
                    "name": call.tool, "arguments": call.args.as_str()})
            });
            [reasoning].into_iter().chain(message).chain(calls).collect()
        }
        Api::Chat => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    json!({"id": id(call), "type": "function",
                        "function": {"name": call.tool, "arguments": call.args.as_str()}})
                })
                .collect();
            let mut message =
                json!({"role": "assistant", "content": text, "reasoning_content": format!("hm {turn}")});
            if !calls.is_empty() {
                message["tool_calls"] = Value::Array(calls);
            }
            message
        }
    }
}

const SPEAKS: [Speaks; 3] = [Speaks::Anthropic, Speaks::Responses, Speaks::Chat];

fn messages_key(api: Api) -> &'static str {
    match api {
        Api::Responses => "input",
        Api::Anthropic | Api::Chat => "messages",
    }
}

/// The fields of a body, each in the bytes it has there.
fn fields(body: &str) -> BTreeMap<&str, &RawValue> {
    serde_json::from_str(body).unwrap()
}

/// Over thirty turns each request has the messages of the one before, byte for byte, and then its new ones;
/// instructions, tools and everything else stay the same bytes. Only Anthropic's cache markers move, which its service
/// does not compare.
#[test]
fn each_request_begins_with_the_one_before() {
    for speaks in SPEAKS {
        let provider = provider(speaks);
        let api = provider.endpoint.api;
        let mut before: Option<(String, String, usize)> = None;
        for (turn, messages) in (1..).zip(conversations(api)) {
            let body = sent(&provider, &messages, turn);
            assert_eq!(body, sent(&provider, &messages, turn), "{api:?}: asked again, sent again");
            let mut rest = fields(&body);
            let list = rest.remove(messages_key(api)).unwrap().get();
            let markers = list.matches(MARKER).count();
            assert!(
                if api == Api::Anthropic { (1..=3).contains(&markers) } else { markers == 0 },
                "{markers}"
            );
            let list = list.replace(MARKER, "");
            let open = list.strip_suffix(']').unwrap().to_owned();
            let rest = serde_json::to_string(&rest).unwrap();
            let count = serde_json::from_str::<Vec<&RawValue>>(&list).unwrap().len();
            if let Some((open_before, rest_before, count_before)) = &before {
                let tail = open.strip_prefix(open_before.as_str());
                let tail = tail.unwrap_or_else(|| panic!("{api:?} {turn}\n{open_before}\n{open}"));
                // What follows are whole new messages, not more of an old one.
                assert!(tail.starts_with(",{") && count > *count_before, "{api:?} {turn} {tail}");
                assert_eq!(&rest, rest_before, "{api:?} {turn}");
            }
            before = Some((open, rest, count));
        }
        assert!(before.unwrap().2 > TURNS as usize, "{api:?}");
    }
}

/// What the model sees in its sixth turn, one line for each field and each entry of a list.
fn check(speaks: Speaks, expected: Expect) {
    let provider = provider(speaks);
    let messages = &conversations(provider.endpoint.api)[5];
    let body = sent(&provider, messages, 6);
    let line = |(key, value): (&str, &RawValue)| match serde_json::from_str::<Vec<&RawValue>>(value.get()) {
        Ok(entries) => {
            let entries: String = entries.iter().map(|entry| format!("  {entry}\n")).collect();
            format!("{key}:\n{entries}")
        }
        Err(_) => format!("{key}: {value}\n"),
    };
    expected.assert_eq(&fields(&body).into_iter().map(line).collect::<String>());
}

#[test]
fn anthropic_sees() {
    check(
        Speaks::Anthropic,
        expect![[r#"
        max_tokens: 4096
        messages:
          {"content":[{"text":"Fix the \"parser\".","type":"text"}],"role":"user"}
          {"content":[{"signature":"sig==","thinking":"hm 1","type":"thinking"},{"text":"Turn 1: on.","type":"text"},{"id":"call_1_0","input":{"from":0,"path":"src/1.rs"},"name":"read","type":"tool_use"},{"id":"call_1_1","input":{"from":1,"path":"src/1.rs"},"name":"read","type":"tool_use"},{"id":"call_1_2","input":{"from":2,"path":"src/1.rs"},"name":"read","type":"tool_use"}],"role":"assistant"}
          {"content":[{"content":[{"text":"line 1 of 10\nline 2","type":"text"}],"tool_use_id":"call_1_0","type":"tool_result"},{"content":[{"text":"line 1 of 11\nline 2","type":"text"}],"tool_use_id":"call_1_1","type":"tool_result"},{"content":[{"text":"line 1 of 12\nline 2","type":"text"}],"tool_use_id":"call_1_2","type":"tool_result"}],"role":"user"}
          {"content":[{"signature":"sig==","thinking":"hm 2","type":"thinking"},{"text":"Turn 2: on.","type":"text"}],"role":"assistant"}
          {"content":[{"text":"Go on after 2.","type":"text"}],"role":"user"}
          {"content":[{"text":"Turn 3: on.","type":"text"},{"id":"functions_read_0","input":{"from":0,"path":"src/3.rs"},"name":"read","type":"tool_use"}],"role":"assistant"}
          {"content":[{"cache_control":{"type":"ephemeral"},"content":[{"text":"line 1 of 30\nline 2","type":"text"}],"tool_use_id":"functions_read_0","type":"tool_result"}],"role":"user"}
          {"content":[{"text":"Turn 4: on.","type":"text"},{"id":"call_40","input":{"from":0,"path":"src/4.rs"},"name":"read","type":"tool_use"},{"id":"call_41","input":{"from":1,"path":"src/4.rs"},"name":"read","type":"tool_use"},{"id":"call_42","input":{"from":2,"path":"src/4.rs"},"name":"read","type":"tool_use"}],"role":"assistant"}
          {"content":[{"content":[{"text":"line 1 of 40\nline 2","type":"text"}],"tool_use_id":"call_40","type":"tool_result"},{"content":[{"text":"line 1 of 41\nline 2","type":"text"}],"tool_use_id":"call_41","type":"tool_result"},{"cache_control":{"type":"ephemeral"},"content":[{"text":"line 1 of 42\nline 2","type":"text"}],"is_error":true,"tool_use_id":"call_42","type":"tool_result"}],"role":"user"}
          {"content":[{"cache_control":{"type":"ephemeral"},"text":"Go on after 5.","type":"text"}],"role":"user"}
        model: "m-1"
        stream: true
        system:
          {"cache_control":{"type":"ephemeral"},"text":"You are careful.","type":"text"}
        tools:
          {"description":"Can read.","input_schema":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},"name":"read"}
          {"description":"Can bash.","input_schema":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},"name":"bash"}
    "#]],
    );
}

#[test]
fn responses_sees() {
    check(
        Speaks::Responses,
        expect![[r#"
        include:
          "reasoning.encrypted_content"
        input:
          {"content":[{"text":"Fix the \"parser\".","type":"input_text"}],"role":"user","type":"message"}
          {"encrypted_content":"enc==","id":"rs_1","summary":[],"type":"reasoning"}
          {"content":[{"annotations":[],"text":"Turn 1: on.","type":"output_text"}],"id":"msg_1","role":"assistant","status":"completed","type":"message"}
          {"arguments":"{\"path\": \"src/1.rs\", \"from\": 0}","call_id":"call_1_0","id":"fc_10","name":"read","type":"function_call"}
          {"arguments":"{\"path\": \"src/1.rs\", \"from\": 1}","call_id":"call_1_1","id":"fc_11","name":"read","type":"function_call"}
          {"arguments":"{\"path\": \"src/1.rs\", \"from\": 2}","call_id":"call_1_2","id":"fc_12","name":"read","type":"function_call"}
          {"call_id":"call_1_0","output":"line 1 of 10\nline 2","type":"function_call_output"}
          {"call_id":"call_1_1","output":"line 1 of 11\nline 2","type":"function_call_output"}
          {"call_id":"call_1_2","output":"line 1 of 12\nline 2","type":"function_call_output"}
          {"encrypted_content":"enc==","id":"rs_2","summary":[],"type":"reasoning"}
          {"content":[{"annotations":[],"text":"Turn 2: on.","type":"output_text"}],"id":"msg_2","role":"assistant","status":"completed","type":"message"}
          {"content":[{"text":"Go on after 2.","type":"input_text"}],"role":"user","type":"message"}
          {"content":[{"text":"Turn 3: on.","type":"output_text"}],"role":"assistant","type":"message"}
          {"arguments":"{\"path\": \"src/3.rs\", \"from\": 0}","call_id":"functions_read_0","name":"read","type":"function_call"}
          {"call_id":"functions_read_0","output":"line 1 of 30\nline 2","type":"function_call_output"}
          {"content":[{"text":"Turn 4: on.","type":"output_text"}],"role":"assistant","type":"message"}
          {"arguments":"{\"path\": \"src/4.rs\", \"from\": 0}","call_id":"call_40","name":"read","type":"function_call"}
          {"arguments":"{\"path\": \"src/4.rs\", \"from\": 1}","call_id":"call_41","name":"read","type":"function_call"}
          {"arguments":"{\"path\": \"src/4.rs\", \"from\": 2}","call_id":"call_42","name":"read","type":"function_call"}
          {"call_id":"call_40","output":"line 1 of 40\nline 2","type":"function_call_output"}
          {"call_id":"call_41","output":"line 1 of 41\nline 2","type":"function_call_output"}
          {"call_id":"call_42","output":"line 1 of 42\nline 2","type":"function_call_output"}
          {"content":[{"text":"Go on after 5.","type":"input_text"}],"role":"user","type":"message"}
        instructions: "You are careful."
        max_output_tokens: 4096
        model: "m-1"
        prompt_cache_key: "longhaul-8338860f9dfc77bc"
        store: false
        stream: true
        tools:
          {"description":"Can read.","name":"read","parameters":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},"strict":false,"type":"function"}
          {"description":"Can bash.","name":"bash","parameters":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},"strict":false,"type":"function"}
    "#]],
    );
}

#[test]
fn chat_sees() {
    check(
        Speaks::Chat,
        expect![[r#"
        max_tokens: 4096
        messages:
          {"content":"You are careful.","role":"system"}
          {"content":"Fix the \"parser\".","role":"user"}
          {"content":"Turn 1: on.","reasoning_content":"hm 1","role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\": \"src/1.rs\", \"from\": 0}","name":"read"},"id":"call_1_0","type":"function"},{"function":{"arguments":"{\"path\": \"src/1.rs\", \"from\": 1}","name":"read"},"id":"call_1_1","type":"function"},{"function":{"arguments":"{\"path\": \"src/1.rs\", \"from\": 2}","name":"read"},"id":"call_1_2","type":"function"}]}
          {"content":"line 1 of 10\nline 2","role":"tool","tool_call_id":"call_1_0"}
          {"content":"line 1 of 11\nline 2","role":"tool","tool_call_id":"call_1_1"}
          {"content":"line 1 of 12\nline 2","role":"tool","tool_call_id":"call_1_2"}
          {"content":"Turn 2: on.","reasoning_content":"hm 2","role":"assistant"}
          {"content":"Go on after 2.","role":"user"}
          {"content":"Turn 3: on.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\": \"src/3.rs\", \"from\": 0}","name":"read"},"id":"functions_read_0","type":"function"}]}
          {"content":"line 1 of 30\nline 2","role":"tool","tool_call_id":"functions_read_0"}
          {"content":"Turn 4: on.","role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\": \"src/4.rs\", \"from\": 0}","name":"read"},"id":"call_40","type":"function"},{"function":{"arguments":"{\"path\": \"src/4.rs\", \"from\": 1}","name":"read"},"id":"call_41","type":"function"},{"function":{"arguments":"{\"path\": \"src/4.rs\", \"from\": 2}","name":"read"},"id":"call_42","type":"function"}]}
          {"content":"line 1 of 40\nline 2","role":"tool","tool_call_id":"call_40"}
          {"content":"line 1 of 41\nline 2","role":"tool","tool_call_id":"call_41"}
          {"content":"line 1 of 42\nline 2","role":"tool","tool_call_id":"call_42"}
          {"content":"Go on after 5.","role":"user"}
        model: "m-1"
        stream: true
        stream_options: {"include_usage":true}
        tools:
          {"function":{"description":"Can read.","name":"read","parameters":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}},"type":"function"}
          {"function":{"description":"Can bash.","name":"bash","parameters":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}},"type":"function"}
    "#]],
    );
}
