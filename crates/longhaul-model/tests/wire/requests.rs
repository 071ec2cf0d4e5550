//! What the model sees, made visible; and what it said, sent back as it said it.

use expect_test::{Expect, expect};
use longhaul_core::json::Json;
use longhaul_model::wire::{Api, Call, Image, Manners, Raw, Reply, Request, ToolOffer, ToolResult, Turn};
use serde_json::{Map, Value, json};

use crate::speak::{End, Part, bytes, call, events, reply};

pub fn request(turns: Vec<Turn>) -> Request {
    let schema = json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
    Request {
        model: "m-1".to_owned(),
        system: "You are careful.".to_owned(),
        turns,
        tools: ["read", "write"]
            .map(|name| ToolOffer {
                name: name.to_owned(),
                description: format!("Can {name}."),
                schema: schema.clone(),
            })
            .to_vec(),
        max_output_tokens: Some(4096),
        answer_schema: None,
        stream: true,
        manners: Default::default(),
        extra: Map::new(),
    }
}

pub fn user(text: &str) -> Turn {
    Turn::User { text: text.to_owned() }
}

pub fn result(id: &str, text: &str) -> ToolResult {
    ToolResult { provider_id: id.to_owned(), text: text.to_owned(), failed: false, images: Vec::new() }
}

/// The turn a reply becomes in the next request.
pub fn turn_of(reply: Reply) -> Turn {
    let call = |call: &longhaul_model::wire::ReplyCall| Call {
        provider_id: call.provider_id.clone(),
        name: call.name.clone(),
        args: call.args.clone().unwrap_or(Json::empty_object()),
    };
    Turn::Assistant { text: reply.text, calls: reply.calls.iter().map(call).collect(), raw: Some(reply.raw) }
}

fn spoken(api: Api, parts: &[Part]) -> Reply {
    reply(api, &bytes(&events(api, parts, End::Tools, 4), "\n")).unwrap()
}

/// Three turns: a question, two calls and their results (one with an image, one failed), an answer, a question.
fn conversation(api: Api) -> Request {
    let calls = [
        Part::Thinking("hm"),
        Part::Text("Looking."),
        call("call_a", "read", r#"{"path":"b.png"}"#),
        call("call_b", "read", r#"{"path":"gone"}"#),
    ];
    let image = Image { media_type: "image/png".to_owned(), base64: "iVBORw==".to_owned() };
    let seen = ToolResult { images: vec![image], ..result("call_a", "a picture") };
    let failed = ToolResult { failed: true, ..result("call_b", "no such file") };
    request(vec![
        user("What is in b.png?"),
        turn_of(spoken(api, &calls)),
        Turn::ToolResults(vec![seen, failed]),
        turn_of(spoken(api, &[Part::Text("A cat.")])),
        user("Sure?"),
    ])
}

/// One line for each field of the body, and for each entry of its lists.
fn check(api: Api, request: &Request, expected: Expect) {
    let body = api.encode(request);
    let fields = body.as_object().unwrap().iter().map(|(key, value)| match value.as_array() {
        Some(entries) => {
            let entries: String = entries.iter().map(|entry| format!("  {entry}\n")).collect();
            format!("{key}:\n{entries}")
        }
        None => format!("{key}: {value}\n"),
    });
    expected.assert_eq(&fields.collect::<String>());
}

#[test]
fn anthropic_request() {
    check(
        Api::Anthropic,
        &conversation(Api::Anthropic),
        expect![[r#"
            max_tokens: 4096
            messages:
              {"content":[{"cache_control":{"type":"ephemeral"},"text":"What is in b.png?","type":"text"}],"role":"user"}
              {"content":[{"signature":"sig==","thinking":"hm","type":"thinking"},{"text":"Looking.","type":"text"},{"id":"call_a","input":{"path":"b.png"},"name":"read","type":"tool_use"},{"id":"call_b","input":{"path":"gone"},"name":"read","type":"tool_use"}],"role":"assistant"}
              {"content":[{"content":[{"text":"a picture","type":"text"},{"source":{"data":"iVBORw==","media_type":"image/png","type":"base64"},"type":"image"}],"tool_use_id":"call_a","type":"tool_result"},{"cache_control":{"type":"ephemeral"},"content":[{"text":"no such file","type":"text"}],"is_error":true,"tool_use_id":"call_b","type":"tool_result"}],"role":"user"}
              {"content":[{"text":"A cat.","type":"text"}],"role":"assistant"}
              {"content":[{"cache_control":{"type":"ephemeral"},"text":"Sure?","type":"text"}],"role":"user"}
            model: "m-1"
            stream: true
            system:
              {"cache_control":{"type":"ephemeral"},"text":"You are careful.","type":"text"}
            tools:
              {"description":"Can read.","input_schema":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},"name":"read"}
              {"description":"Can write.","input_schema":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},"name":"write"}
        "#]],
    );
}

#[test]
fn responses_request() {
    check(
        Api::Responses,
        &conversation(Api::Responses),
        expect![[r#"
            include:
              "reasoning.encrypted_content"
            input:
              {"content":[{"text":"What is in b.png?","type":"input_text"}],"role":"user","type":"message"}
              {"encrypted_content":"sig==","id":"rs_0","summary":[{"text":"hm","type":"summary_text"}],"type":"reasoning"}
              {"content":[{"annotations":[],"logprobs":[],"text":"Looking.","type":"output_text"}],"id":"msg_1","role":"assistant","status":"completed","type":"message"}
              {"arguments":"{\"path\":\"b.png\"}","call_id":"call_a","id":"fc_2","name":"read","status":"completed","type":"function_call"}
              {"arguments":"{\"path\":\"gone\"}","call_id":"call_b","id":"fc_3","name":"read","status":"completed","type":"function_call"}
              {"call_id":"call_a","output":[{"text":"a picture","type":"input_text"},{"image_url":"data:image/png;base64,iVBORw==","type":"input_image"}],"type":"function_call_output"}
              {"call_id":"call_b","output":"no such file","type":"function_call_output"}
              {"content":[{"annotations":[],"logprobs":[],"text":"A cat.","type":"output_text"}],"id":"msg_0","role":"assistant","status":"completed","type":"message"}
              {"content":[{"text":"Sure?","type":"input_text"}],"role":"user","type":"message"}
            instructions: "You are careful."
            max_output_tokens: 4096
            model: "m-1"
            prompt_cache_key: "longhaul-d53cfb2db6106735"
            store: false
            stream: true
            tools:
              {"description":"Can read.","name":"read","parameters":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},"strict":false,"type":"function"}
              {"description":"Can write.","name":"write","parameters":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"},"strict":false,"type":"function"}
        "#]],
    );
}

#[test]
fn chat_request() {
    check(
        Api::Chat,
        &conversation(Api::Chat),
        expect![[r#"
            max_tokens: 4096
            messages:
              {"content":"You are careful.","role":"system"}
              {"content":"What is in b.png?","role":"user"}
              {"content":"Looking.","reasoning_content":"hm","role":"assistant","tool_calls":[{"function":{"arguments":"{\"path\":\"b.png\"}","name":"read"},"id":"call_a","type":"function"},{"function":{"arguments":"{\"path\":\"gone\"}","name":"read"},"id":"call_b","type":"function"}]}
              {"content":"a picture","role":"tool","tool_call_id":"call_a"}
              {"content":"no such file","role":"tool","tool_call_id":"call_b"}
              {"content":[{"text":"Images in the result of call_a:","type":"text"},{"image_url":{"url":"data:image/png;base64,iVBORw=="},"type":"image_url"}],"role":"user"}
              {"content":"A cat.","role":"assistant"}
              {"content":"Sure?","role":"user"}
            model: "m-1"
            stream: true
            stream_options: {"include_usage":true}
            tools:
              {"function":{"description":"Can read.","name":"read","parameters":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}},"type":"function"}
              {"function":{"description":"Can write.","name":"write","parameters":{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}},"type":"function"}
        "#]],
    );
}

/// A conversation that began on one protocol goes on over another: rebuilt from text and calls, without the blocks
/// only the first could read.
#[test]
fn a_conversation_changes_protocol() {
    check(
        Api::Anthropic,
        &Request { tools: Vec::new(), system: String::new(), ..conversation(Api::Chat) },
        expect![[r#"
            max_tokens: 4096
            messages:
              {"content":[{"cache_control":{"type":"ephemeral"},"text":"What is in b.png?","type":"text"}],"role":"user"}
              {"content":[{"text":"Looking.","type":"text"},{"id":"call_a","input":{"path":"b.png"},"name":"read","type":"tool_use"},{"id":"call_b","input":{"path":"gone"},"name":"read","type":"tool_use"}],"role":"assistant"}
              {"content":[{"content":[{"text":"a picture","type":"text"},{"source":{"data":"iVBORw==","media_type":"image/png","type":"base64"},"type":"image"}],"tool_use_id":"call_a","type":"tool_result"},{"cache_control":{"type":"ephemeral"},"content":[{"text":"no such file","type":"text"}],"is_error":true,"tool_use_id":"call_b","type":"tool_result"}],"role":"user"}
              {"content":[{"text":"A cat.","type":"text"}],"role":"assistant"}
              {"content":[{"cache_control":{"type":"ephemeral"},"text":"Sure?","type":"text"}],"role":"user"}
            model: "m-1"
            stream: true
        "#]],
    );
    for (from, to) in
        [(Api::Anthropic, Api::Responses), (Api::Anthropic, Api::Chat), (Api::Responses, Api::Chat)]
    {
        let body = to.encode(&conversation(from)).to_string();
        assert!(body.contains("call_a") && !body.contains("sig=="), "{from:?} {to:?} {body}");
    }
}

/// C3: thinking signatures, encrypted reasoning and unknown parts go back as they came.
#[test]
fn a_reply_goes_back_verbatim() {
    let parts = [
        Part::Thinking("hm"),
        Part::Text("a"),
        call("c1", "read", r#"{"path": "x",  "a":1.50}"#),
        call("c2", "read", "{}"),
    ];
    for api in Api::ALL {
        let reply = spoken(api, &parts);
        let raw = reply.raw.content.clone();
        let results = Turn::ToolResults(vec![result("c1", "1"), result("c2", "2")]);
        let body = api.encode(&request(vec![user("q"), turn_of(reply), results]));
        let sent = match api {
            Api::Anthropic => body["messages"][1]["content"].clone(),
            Api::Responses => Value::Array(body["input"].as_array().unwrap()[1..5].to_vec()),
            Api::Chat => body["messages"][2].clone(),
        };
        assert_eq!(sent.to_string(), raw.to_string(), "{api:?}");
        if api != Api::Anthropic {
            assert!(
                sent.to_string().contains(r#"{\"path\": \"x\",  \"a\":1.50}"#),
                "the model's own spelling"
            );
        }
    }
    let unknown = json!([{"type": "novel_block", "z": {"b": [1], "a": null}}, {"type": "text", "text": "t"}]);
    let turn = Turn::Assistant {
        text: "t".to_owned(),
        calls: Vec::new(),
        raw: Some(Raw { api: Api::Anthropic, content: unknown.clone() }),
    };
    let body = Api::Anthropic.encode(&request(vec![user("q"), turn]));
    assert_eq!(body["messages"][1]["content"], unknown);
}

/// What the services send but refuse to take back is left out: empty texts, thinking with nothing after it, a reply
/// with nothing in it.
#[test]
fn empty_replies_leave_no_trace() {
    let raw = |api: Api, content: Value| Turn::Assistant {
        text: String::new(),
        calls: Vec::new(),
        raw: Some(Raw { api, content }),
    };
    let thinking = json!({"type": "thinking", "thinking": "h", "signature": "s"});
    let cut = raw(Api::Anthropic, json!([thinking, {"type": "text", "text": ""}]));
    let body = Api::Anthropic.encode(&request(vec![user("q"), cut, user("go on")]));
    let roles: Vec<&str> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "user"]);
    let cut = raw(Api::Responses, json!([{"type": "reasoning", "id": "rs_1", "encrypted_content": "e"}]));
    let body = Api::Responses.encode(&request(vec![user("q"), cut, user("go on")]));
    assert_eq!(body["input"].as_array().unwrap().len(), 2);
    let silent = raw(Api::Chat, json!({"role": "assistant", "content": ""}));
    let body = Api::Chat.encode(&request(vec![user("q"), silent, user("go on")]));
    assert_eq!(body["messages"].as_array().unwrap().len(), 3);
}

/// Ids from elsewhere that repeat or have odd characters are rewritten, and the results follow.
#[test]
fn foreign_ids_fit_and_stay_unique() {
    let asked = |args: &str| Turn::Assistant {
        text: String::new(),
        calls: vec![Call {
            provider_id: "f:0".to_owned(),
            name: "read".to_owned(),
            args: Json::parse(args).unwrap(),
        }],
        raw: None,
    };
    let answered = || Turn::ToolResults(vec![result("f:0", "ok")]);
    let turns = vec![user("q"), asked("{\"n\":1}"), answered(), asked("[2]"), answered()];
    let body = Api::Anthropic.encode(&request(turns.clone()));
    let at = |place: &str| body.pointer(place).unwrap().clone();
    assert_eq!(at("/messages/1/content/0/id"), at("/messages/2/content/0/tool_use_id"));
    assert_eq!(at("/messages/3/content/0/id"), at("/messages/4/content/0/tool_use_id"));
    assert_eq!(
        (at("/messages/1/content/0/id"), at("/messages/3/content/0/id")),
        (json!("f_0"), json!("f_0_2"))
    );
    assert_eq!(at("/messages/3/content/0/input"), json!({"INVALID_JSON": "[2]"}));
    for api in [Api::Responses, Api::Chat] {
        let body = api.encode(&request(turns.clone())).to_string();
        assert_eq!(body.matches("f_0_2").count(), 2, "{api:?} {body}");
    }
}

/// What one model of a protocol wants otherwise than the rest.
#[test]
fn manners_differ() {
    let usual = request(vec![user("q")]);
    let manners = Manners { thoughtless: true, newer_limit: true };
    let other = Request { manners, ..usual.clone() };
    let (body, changed) = (Api::Responses.encode(&usual), Api::Responses.encode(&other));
    assert_eq!((&body["include"], changed.get("include")), (&json!(["reasoning.encrypted_content"]), None));
    let changed = Api::Chat.encode(&other);
    assert_eq!((&changed["max_completion_tokens"], changed.get("max_tokens")), (&json!(4096), None));
    assert_eq!(Api::Anthropic.encode(&usual), Api::Anthropic.encode(&other));
}

/// The configuration's extra fields: objects merge, null removes, the rest replaces.
#[test]
fn extra_fields_are_laid_over_the_body() {
    let extra = json!({"temperature": 0, "stream_options": null, "include": null, "text": {"verbosity": "low"},
        "output_config": {"effort": "high"}, "max_completion_tokens": 9});
    let Value::Object(extra) = extra else { unreachable!() };
    let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
        "additionalProperties": false});
    let request = Request { extra, answer_schema: Some(schema.clone()), ..request(vec![user("q")]) };

    let body = Api::Anthropic.encode(&request);
    assert_eq!(
        body["output_config"],
        json!({"effort": "high", "format": {"type": "json_schema", "schema": schema}})
    );
    let body = Api::Responses.encode(&request);
    let format = json!({"type": "json_schema", "name": "answer", "strict": true, "schema": schema});
    assert_eq!(body["text"], json!({"verbosity": "low", "format": format}));
    assert_eq!(body.get("include"), None);
    let body = Api::Chat.encode(&request);
    let format = json!({"name": "answer", "strict": true, "schema": schema});
    assert_eq!(body["response_format"], json!({"type": "json_schema", "json_schema": format}));
    assert_eq!((body.get("stream_options"), body.get("max_tokens")), (None, None));
    assert_eq!((&body["temperature"], &body["max_completion_tokens"]), (&json!(0), &json!(9)));
    // A schema with an optional property cannot be strict.
    let loose = json!({"type": "object", "properties": {"ok": {}}, "additionalProperties": false});
    let body = Api::Chat.encode(&Request { answer_schema: Some(loose), ..request });
    assert_eq!(body["response_format"]["json_schema"]["strict"], json!(false));
}
