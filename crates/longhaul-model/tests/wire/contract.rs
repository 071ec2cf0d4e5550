//! One suite, the same cases over all three protocols, at the level of bytes.

use longhaul_core::json::Json;
use longhaul_model::wire::{Api, Assembler, Kind, Reply, Stop, Usage, WireError};
use serde_json::{Value, json};

use crate::speak::{End, Heard, Part, body, bytes, call, events, pieces, read, reply};

const USAGE: Usage = Usage { input: Some(10), output: Some(7), cache_read: 20, cache_write: 3 };

/// What every protocol must agree on.
fn essence(reply: &Reply) -> Value {
    let calls: Vec<Value> = reply
        .calls
        .iter()
        .map(|call| match &call.args {
            Ok(args) => json!([call.provider_id, call.name, args.as_str()]),
            Err(malformed) => json!([call.provider_id, call.name, {"malformed": malformed.reason}]),
        })
        .collect();
    json!({"text": reply.text, "calls": calls, "stop": format!("{:?}", reply.stop)})
}

/// What one event brings.
fn take(assembler: &mut Assembler, name: &str, data: &[u8]) -> Result<Vec<Heard>, WireError> {
    let mut heard = Vec::new();
    assembler.take(name, data, &mut |delta| heard.push(Heard::of(delta)))?;
    Ok(heard)
}

fn rich() -> Vec<Part> {
    vec![
        Part::Thinking("Müßiggang 🙂 first"),
        Part::Text("Grüße, 世界 \"quoted\" \\ and\nlines"),
        call("call_a", "write", r#"{"path":"ä🙂.txt","text":"a\"b\\n","n":[1,2.50,null]}"#),
        call("call_b", "read", r#"{"path":"x"}"#),
    ]
}

fn rich_essence() -> Value {
    json!({"text": "Grüße, 世界 \"quoted\" \\ and\nlines", "stop": "ToolCalls", "calls": [
        ["call_a", "write", r#"{"path":"ä🙂.txt","text":"a\"b\\n","n":[1,2.50,null]}"#],
        ["call_b", "read", r#"{"path":"x"}"#]]})
}

/// C3: thinking, text and parallel calls, with arguments as the model wrote them and every counter in its place.
#[test]
fn a_rich_reply_is_read_whole() {
    for api in Api::ALL {
        let (reply, deltas) =
            read(api, [bytes(&events(api, &rich(), End::Tools, 3), "\n").as_slice()]).unwrap();
        assert_eq!(essence(&reply), rich_essence(), "{api:?}");
        assert_eq!((reply.usage, reply.id.as_str(), reply.model.as_str()), (USAGE, "id_1", "m-1"), "{api:?}");
        let heard: String = deltas
            .iter()
            .filter_map(|d| if let Heard::Text(text) = d { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(heard, reply.text, "{api:?}");
        let thought: String = deltas
            .iter()
            .filter_map(|d| if let Heard::Thinking(text) = d { Some(text.as_str()) } else { None })
            .collect();
        assert_eq!(thought, "Müßiggang 🙂 first", "{api:?}");
    }
}

/// A body that is no stream says the same as the stream. Its arguments may come back in the order of our map.
#[test]
fn plain_and_streamed_replies_agree() {
    for api in Api::ALL {
        let streamed = reply(api, &bytes(&events(api, &rich(), End::Tools, 5), "\n")).unwrap();
        let plain = api.plain(body(api, &rich(), End::Tools).to_string().as_bytes()).unwrap();
        assert_eq!(plain.raw, streamed.raw, "{api:?}");
        assert_eq!((plain.text, plain.stop, plain.usage), (streamed.text, streamed.stop, streamed.usage));
        for (plain, streamed) in plain.calls.iter().zip(&streamed.calls) {
            assert_eq!((&plain.provider_id, &plain.name), (&streamed.provider_id, &streamed.name));
            let value = |args: &Result<Json, _>| args.as_ref().map(Json::value).ok();
            assert_eq!(value(&plain.args), value(&streamed.args), "{api:?}");
        }
    }
}

/// Arguments in two pieces, cut at every place, and one character at a time.
#[test]
fn arguments_split_anywhere_are_the_same() {
    let parts = [call("call_a", "write", r#"{"path":"a","text":"\u00e4\n{}"}"#)];
    let expected = json!({"text": "", "stop": "ToolCalls",
        "calls": [["call_a", "write", r#"{"path":"a","text":"\u00e4\n{}"}"#]]});
    for api in Api::ALL {
        for piece in 1..40 {
            let stream = bytes(&events(api, &parts, End::Tools, piece), "\n");
            assert_eq!(essence(&reply(api, &stream).unwrap()), expected, "{api:?} {piece}");
        }
    }
}

/// The bytes of a stream cut in two at every place, inside characters and line ends too; and byte by byte.
#[test]
fn chunks_split_anywhere_are_the_same() {
    for api in Api::ALL {
        for line_end in ["\n", "\r\n", "\r"] {
            let stream = bytes(&events(api, &rich(), End::Tools, 30), line_end);
            let (whole, deltas) = read(api, [stream.as_slice()]).unwrap();
            for at in 0..=stream.len() {
                let (first, second) = stream.split_at(at);
                assert_eq!(
                    read(api, [first, second]).unwrap(),
                    (whole.clone(), deltas.clone()),
                    "{api:?} {at}"
                );
            }
            assert_eq!(read(api, stream.chunks(1)).unwrap(), (whole, deltas), "{api:?}");
        }
    }
}

/// Comments, pings, ids, retry hints, a byte-order mark and unknown events and fields change nothing.
#[test]
fn noise_between_events_is_passed_over() {
    for api in Api::ALL {
        let mut stream = b"\xEF\xBB\xBF: welcome\n\nretry: 10\n\n".to_vec();
        for event in events(api, &rich(), End::Tools, 9) {
            stream.extend_from_slice(b": OPENROUTER PROCESSING\n\nid: 7\nretry: 1\nfoo: bar\nlonely\n");
            stream.extend(bytes(&[event], "\n"));
            let unknown = match api {
                Api::Chat => (Some("novelty".to_owned()), r#"{"object":"novel","choices":[]}"#.to_owned()),
                Api::Anthropic | Api::Responses => {
                    (Some("novelty".to_owned()), r#"{"type":"novelty","delta":null,"index":null}"#.to_owned())
                }
            };
            stream.extend(bytes(&[unknown], "\n"));
        }
        assert_eq!(essence(&reply(api, &stream).unwrap()), rich_essence(), "{api:?}");
    }
}

/// F30: pings, empty pieces and events that nobody knows are heard as nothing, so that a stall behind them can be noticed; every
/// other event counts.
#[test]
fn a_ping_brings_nothing_and_every_step_something() {
    for api in Api::ALL {
        let mut assembler = Assembler::new(api);
        for (name, data) in events(api, &rich(), End::Tools, 9) {
            let brought = take(&mut assembler, name.as_deref().unwrap_or(""), data.as_bytes()).unwrap();
            // The first chunk of Chat carries a role and nothing else; servers send such chunks to keep a line open.
            // The first arguments of every call on Anthropic are none.
            let nothing = [r#""delta":{"content":null"#, r#""partial_json":"""#];
            let empty = name.as_deref() == Some("ping") || nothing.iter().any(|word| data.contains(word));
            assert_eq!(brought.is_empty(), empty, "{api:?} {data}");
        }
    }
    let ping = |api: Api, data: &str| take(&mut Assembler::new(api), "", data.as_bytes()).unwrap();
    assert_eq!(ping(Api::Anthropic, r#"{"type":"ping"}"#), []);
    assert_eq!(ping(Api::Responses, r#"{"type":"keepalive","sequence_number":3}"#), []);
    assert_eq!(ping(Api::Chat, r#"{"choices":[{"index":0,"delta":{}}]}"#), []);
    assert_eq!(ping(Api::Chat, r#"{"choices":[],"heartbeat":1}"#), []);
    for api in [Api::Anthropic, Api::Responses] {
        assert_eq!(ping(api, r#"{"type":"heartbeat","n":3}"#), [], "{api:?}");
    }
}

/// C3, F32: a stream that ends early is cut wherever it ends, and gives no reply and so no half call.
#[test]
fn a_stream_cut_after_any_event_is_truncated() {
    for api in Api::ALL {
        let all = events(api, &rich(), End::Tools, 9);
        // Chat's reply is whole with its finish reason; the count and the marker after it may be lost.
        let trailers = match api {
            Api::Chat => 2,
            Api::Anthropic | Api::Responses => 0,
        };
        for count in 0..all.len() - 1 - trailers {
            let error = reply(api, &bytes(&all[..count], "\n")).unwrap_err();
            assert_eq!(error.kind, Kind::Truncated, "{api:?} {count}");
        }
        assert!(reply(api, &bytes(&all[..all.len() - trailers], "\n")).is_ok());
        let cut = reply(api, &bytes(&events(api, &rich(), End::Cut, 9), "\n"));
        assert_eq!(cut.unwrap_err().kind, Kind::Truncated, "{api:?}");
    }
}

/// A reply that ran into its limit inside a call loses that call, whatever of its arguments had arrived, and keeps
/// those before it.
#[test]
fn a_call_cut_by_the_limit_is_not_in_the_reply() {
    for api in Api::ALL {
        for args in ["", "{}", r#"{"path":"/"#, r#"{"path":"/tmp"}"#] {
            let parts =
                [Part::Text("on it"), call("call_a", "read", r#"{"path":"x"}"#), call("call_b", "rm", args)];
            let stream = bytes(&events(api, &parts, End::Length, 4), "\n");
            let expected =
                json!({"text": "on it", "stop": "Length", "calls": [["call_a", "read", r#"{"path":"x"}"#]]});
            let reply = reply(api, &stream).unwrap();
            assert_eq!(essence(&reply), expected, "{api:?} {args}");
            assert!(!reply.raw.content.to_string().contains("call_b"), "{api:?} would be left unanswered");
        }
    }
}

/// F34: equal ids become different ones, the same on every reading, also in what goes back to the server.
#[test]
fn duplicate_and_missing_ids_become_unique() {
    for api in Api::ALL {
        let parts = [
            call("same", "read", r#"{"n":1}"#),
            call("same", "read", r#"{"n":2}"#),
            call("same_2", "read", r#"{"n":3}"#),
            call("", "read", r#"{"n":4}"#),
        ];
        let reply = reply(api, &bytes(&events(api, &parts, End::Tools, 4), "\n")).unwrap();
        let ids: Vec<&str> = reply.calls.iter().map(|call| call.provider_id.as_str()).collect();
        assert_eq!(ids, ["same", "same_2", "same_2_2", "call_4"], "{api:?}");
        let raw = reply.raw.content.to_string();
        assert!(ids.iter().all(|id| raw.contains(&format!("\"{id}\""))), "{api:?} {raw}");
    }
}

/// F34: five hundred calls at once are five hundred calls.
#[test]
fn five_hundred_parallel_calls_are_read() {
    let parts: Vec<Part> = (0..500).map(|n| call("same", "read", &format!(r#"{{"n":{n}}}"#))).collect();
    for api in Api::ALL {
        let reply = reply(api, &bytes(&events(api, &parts, End::Tools, 8), "\n")).unwrap();
        let args: Vec<String> =
            reply.calls.iter().map(|call| call.args.as_ref().unwrap().to_string()).collect();
        assert_eq!(args, (0..500).map(|n| format!(r#"{{"n":{n}}}"#)).collect::<Vec<_>>(), "{api:?}");
        let ids: std::collections::HashSet<&str> =
            reply.calls.iter().map(|call| call.provider_id.as_str()).collect();
        assert_eq!(ids.len(), 500, "{api:?}");
    }
}

/// F34: calls without ids of their own are apart however a server numbers them: in one list or a chunk each, whole or in
/// pieces, without an index or all with the same one. A name that is only repeated makes no call.
#[test]
fn calls_that_nothing_numbers_are_apart() {
    let args = ["{\"n\":\"{\\u007d\"}", "{\"n\":2}", "{}"];
    let whole = |at: usize| {
        json!({"id": null, "type": "function",
        "function": {"name": "read", "arguments": args[at]}})
    };
    let zeroth = |mut piece: Value| {
        piece["index"] = json!(0);
        piece
    };
    let chunk = |pieces: Vec<Value>| {
        let delta = json!({"role": "assistant", "content": null, "tool_calls": pieces});
        (None, json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}).to_string())
    };
    let piece = |name: Option<&str>, args: &str| json!({"function": {"name": name, "arguments": args}});
    let in_pieces = |repeated: Option<&'static str>| {
        let of = move |args: &str| {
            let pieces = pieces(args, 3).into_iter().map(move |args| piece(repeated, &args));
            std::iter::once(piece(Some("read"), "")).chain(pieces).collect::<Vec<_>>()
        };
        args.iter().flat_map(|args| of(args)).collect::<Vec<_>>()
    };
    let alone = |all: Vec<Value>| all.into_iter().map(|piece| chunk(vec![piece])).collect::<Vec<_>>();
    let streams = [
        ("one list", vec![chunk((0..3).map(whole).collect())]),
        ("a chunk each", alone((0..3).map(whole).collect())),
        ("all the first", alone((0..3).map(whole).map(zeroth).collect())),
        ("in pieces", alone(in_pieces(None))),
        ("in pieces, all the first", alone(in_pieces(None).into_iter().map(zeroth).collect())),
        ("in pieces, named each time", alone(in_pieces(Some("read")))),
        ("named once more at the end", alone((0..3).map(whole).chain([piece(Some("read"), "")]).collect())),
    ];
    let end = |reason: &str| {
        let choice = json!({"index": 0, "delta": {}, "finish_reason": reason});
        [(None, json!({"choices": [choice]}).to_string()), (None, "[DONE]".to_owned())]
    };
    let calls: Vec<Value> = (0..3).map(|at| json!([format!("call_{}", at + 1), "read", args[at]])).collect();
    let expected = json!({"text": "", "stop": "ToolCalls", "calls": calls});
    for (how, mut stream) in streams {
        stream.extend(end("tool_calls"));
        every_split(Api::Chat, &bytes(&stream, "\n"), |reply| assert_eq!(essence(reply), expected, "{how}"));
    }
    let message =
        json!({"role": "assistant", "content": null, "tool_calls": (0..3).map(whole).collect::<Vec<_>>()});
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    assert_eq!(essence(&Api::Chat.plain(body.to_string().as_bytes()).unwrap()), expected);
}

/// C3: what a server says beside a call or a message goes back beside it: Gemini refuses a conversation whose calls have
/// lost their signature. What every server says is not said twice.
#[test]
fn signatures_beside_calls_go_back_with_them() {
    let signed = |words: &str| json!({"google": {"thought_signature": words}});
    let first = json!({"index": 0, "id": "c1", "type": "function", "extra_content": signed("SIG=="), "none": null,
        "function": {"name": "read", "arguments": "{\"n\""}});
    let second = json!({"index": 0, "function": {"arguments": ":1}"}, "provider": {"a": [1]}});
    let third = json!({"index": 1, "id": "c2", "type": "function",
        "function": {"name": "read", "arguments": "{}"}});
    let chunk = |delta: Value, reason: Option<&str>| {
        let choice = json!({"index": 0, "delta": delta, "finish_reason": reason});
        (None, json!({"choices": [choice]}).to_string())
    };
    let stream = [
        chunk(json!({"role": "assistant", "content": "Hm", "extra_content": signed("all")}), None),
        chunk(json!({"content": "m."}), None),
        chunk(json!({"tool_calls": [first]}), None),
        chunk(json!({"tool_calls": [second]}), None),
        chunk(json!({"tool_calls": [third], "extra_content": {"google": {"more": 1}}}), None),
        chunk(json!({}), Some("tool_calls")),
        (None, "[DONE]".to_owned()),
    ];
    let call = |id: &str, args: &str| {
        json!({"type": "function", "id": id,
        "function": {"name": "read", "arguments": args}})
    };
    let mut carried = call("c1", "{\"n\":1}");
    carried["extra_content"] = signed("SIG==");
    carried["provider"] = json!({"a": [1]});
    let mut extra = signed("all");
    extra["google"]["more"] = json!(1);
    let expected = json!({"role": "assistant", "content": "Hmm.", "extra_content": extra,
        "tool_calls": [carried, call("c2", "{}")]});
    every_split(Api::Chat, &bytes(&stream, "\n"), |reply| assert_eq!(reply.raw.content, expected));
    let mut message = expected.clone();
    message["tool_calls"][0]["index"] = json!(0);
    message["tool_calls"][0]["none"] = json!(null);
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]});
    assert_eq!(Api::Chat.plain(body.to_string().as_bytes()).unwrap().raw.content, expected);
}

/// The stream cut in two at every place, and byte by byte.
fn every_split(api: Api, stream: &[u8], check: impl Fn(&Reply)) {
    for at in 0..=stream.len() {
        let (first, second) = stream.split_at(at);
        check(&read(api, [first, second]).unwrap().0);
    }
    check(&read(api, stream.chunks(1)).unwrap().0);
}

/// F34: arguments that are no JSON object are reported with their call, and what goes back is an object again.
#[test]
fn malformed_arguments_are_reported_and_wrapped() {
    let cases = [
        ("[1]", "not an object but an array"),
        ("\"x\"", "not an object but a string"),
        ("null", "not an object but null"),
        ("{\"a\":", "not JSON: EOF while parsing a value at line 1 column 5"),
        ("{} {}", "not JSON: trailing characters at line 1 column 4"),
        ("rm -rf", "not JSON: expected value at line 1 column 1"),
    ];
    for api in Api::ALL {
        for (args, reason) in cases {
            let reply =
                reply(api, &bytes(&events(api, &[call("c", "rm", args)], End::Tools, 2), "\n")).unwrap();
            let malformed = reply.calls[0].args.clone().unwrap_err();
            assert_eq!((malformed.reason.as_str(), malformed.text.as_str()), (reason, args), "{api:?}");
            let raw = reply.raw.content.to_string();
            assert!(raw.contains("INVALID_JSON"), "{api:?} {raw}");
        }
    }
}

/// Nothing said, and a tool without arguments.
#[test]
fn empty_text_and_empty_arguments() {
    for api in Api::ALL {
        let silent = reply(api, &bytes(&events(api, &[Part::Text("")], End::Stop, 4), "\n")).unwrap();
        assert_eq!(essence(&silent), json!({"text": "", "calls": [], "stop": "End"}), "{api:?}");
        let bare = reply(api, &bytes(&events(api, &[call("c", "list", "")], End::Tools, 4), "\n")).unwrap();
        assert_eq!(essence(&bare), json!({"text": "", "calls": [["c", "list", "{}"]], "stop": "ToolCalls"}));
    }
}

/// A reply with calls asks for answers, whatever stop reason the server names; one without asks for none.
#[test]
fn the_stop_reason_follows_the_calls() {
    for api in Api::ALL {
        let stopped =
            reply(api, &bytes(&events(api, &[call("c", "list", "{}")], End::Stop, 4), "\n")).unwrap();
        assert_eq!(stopped.stop, Stop::ToolCalls, "{api:?}");
        let callless = reply(api, &bytes(&events(api, &[Part::Text("a")], End::Tools, 4), "\n")).unwrap();
        assert_eq!(callless.stop, Stop::End, "{api:?}");
    }
}

/// F33: an event that is no JSON, no UTF-8 or of the wrong shape is an error with a kind, never a panic.
#[test]
fn unreadable_events_are_malformed() {
    let bad: [&[u8]; 5] = [b"{", b"<html>", b"\"\xff\xfe\"", b"{\"type\":\"\xff\",\"id\":\"\xff\"}", b"[1]"];
    for api in Api::ALL {
        for data in bad {
            let error = take(&mut Assembler::new(api), "", data).unwrap_err();
            assert_eq!(error.kind, Kind::Malformed, "{api:?} {data:?}");
        }
        for (body, kind) in [("", Kind::Truncated), (" \n", Kind::Truncated), ("{\"id\":", Kind::Truncated)] {
            assert_eq!(api.plain(body.as_bytes()).unwrap_err().kind, kind, "{api:?} {body:?}");
        }
        for body in ["<html>", "{}", "[]", "null", "{\"choices\":[],\"content\":3,\"output\":3}"] {
            assert_eq!(api.plain(body.as_bytes()).unwrap_err().kind, Kind::Malformed, "{api:?} {body:?}");
        }
        assert_eq!(api.plain(b"{\"id\":\"\xff\"}").unwrap_err().kind, Kind::Malformed, "{api:?}");
    }
}

/// F32: arguments without end reach a limit.
#[test]
fn endless_arguments_reach_a_limit() {
    let parts = [call("c", "write", &"x".repeat(longhaul_model::wire::limits::ARGS_BYTES_MAX + 1))];
    for api in Api::ALL {
        let error = reply(api, &bytes(&events(api, &parts, End::Tools, 1024 * 1024), "\n")).unwrap_err();
        assert_eq!(error.kind, Kind::TooLarge, "{api:?}");
    }
}
