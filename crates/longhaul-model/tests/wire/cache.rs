//! A growing conversation is read from cache: what was sent before is sent again, byte for byte.

use longhaul_model::wire::{Api, Request, Turn};
use serde_json::Value;

use crate::requests::{request, result, turn_of, user};
use crate::speak::{End, Part, bytes, call, events, reply};

const TURNS: usize = 30;

/// The requests of a conversation of thirty turns, with one call, many calls and none, in turn. In every fifth the
/// reply is taken as if it came from elsewhere, without its raw form.
fn requests(api: Api) -> Vec<Request> {
    let mut turns = vec![user("Build it.")];
    let mut requests = Vec::new();
    for turn in 0..TURNS {
        requests.push(request(turns.clone()));
        let count = [1, 12, 0][turn % 3];
        let mut parts = vec![Part::Thinking("hm"), Part::Text("Next.")];
        parts.extend((0..count).map(|n| call("same", "read", &format!(r#"{{"path":"{turn}/{n}","a":1}}"#))));
        let reply = reply(api, &bytes(&events(api, &parts, End::Tools, 9), "\n")).unwrap();
        let results =
            reply.calls.iter().map(|call| result(&call.provider_id, &format!("result {turn}"))).collect();
        let mut answer = turn_of(reply);
        if let Turn::Assistant { raw, .. } = &mut answer
            && turn % 5 == 4
        {
            *raw = None;
        }
        turns.push(answer);
        turns.push(if count == 0 { user("Go on.") } else { Turn::ToolResults(results) });
    }
    requests
}

fn messages_key(api: Api) -> &'static str {
    match api {
        Api::Responses => "input",
        Api::Anthropic | Api::Chat => "messages",
    }
}

/// Removes the markers and says at which blocks of the messages they were.
fn unmark(body: &mut Value) -> usize {
    match body {
        Value::Object(object) => {
            let own = usize::from(object.remove("cache_control").is_some());
            own + object.values_mut().map(unmark).sum::<usize>()
        }
        Value::Array(items) => items.iter_mut().map(unmark).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// Over thirty turns, everything but the messages is the same bytes, and the messages are the earlier ones' bytes with a
/// new tail. On Anthropic this holds modulo the cache markers, which the service does not compare; on the other two
/// there is nothing to leave aside.
#[test]
fn the_prefix_keeps_its_bytes_from_turn_to_turn() {
    for api in Api::ALL {
        let mut earlier: Option<(String, String)> = None;
        for request in requests(api) {
            let mut body = api.encode(&request);
            let markers = unmark(&mut body);
            assert!(markers <= 4 && (markers > 0) == (api == Api::Anthropic), "{api:?} {markers}");
            let messages = body[messages_key(api)].take().to_string();
            let (messages, rest) = (messages.trim_end_matches(']').to_owned(), body.to_string());
            if let Some((earlier_messages, earlier_rest)) = earlier {
                assert!(messages.starts_with(&earlier_messages), "{api:?}\n{earlier_messages}\n{messages}");
                assert_eq!(rest, earlier_rest, "{api:?}");
            }
            earlier = Some((messages, rest));
        }
    }
}

/// Each request has a marker where the one before wrote its newest, however many blocks a turn has: the read needs no
/// search, which would reach only twenty blocks back. The head's marker never moves.
#[test]
fn each_request_reads_where_the_one_before_wrote() {
    let marked = |body: &Value| -> Vec<(usize, usize)> {
        let messages = body["messages"].as_array().unwrap().iter().enumerate();
        messages
            .flat_map(|(place, message)| {
                let blocks = message["content"].as_array().unwrap().iter().enumerate();
                blocks
                    .filter(|(_, block)| block.get("cache_control").is_some())
                    .map(move |(block, _)| (place, block))
            })
            .collect()
    };
    let mut newest: Option<(usize, usize)> = None;
    for request in requests(Api::Anthropic) {
        let body = Api::Anthropic.encode(&request);
        assert!(body["system"][0].get("cache_control").is_some());
        let markers = marked(&body);
        assert!(markers.len() <= 3);
        if let Some(newest) = newest {
            assert!(markers.contains(&newest), "{markers:?} lacks {newest:?}");
        }
        let last = body["messages"].as_array().unwrap().len() - 1;
        newest = markers.last().copied();
        assert_eq!(newest.unwrap().0, last, "the newest message is written");
    }
}

/// One conversation keeps its key; another has another.
#[test]
fn the_cache_key_belongs_to_the_conversation() {
    let key = |request: &Request| Api::Responses.encode(request)["prompt_cache_key"].clone();
    let all = requests(Api::Responses);
    assert!(all.iter().all(|request| key(request) == key(&all[0])));
    assert_ne!(key(&all[0]), key(&request(vec![user("Another.")])));
}
