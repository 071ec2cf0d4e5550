//! Replies: the same script over every protocol, streamed and at once.

use std::collections::HashSet;
use std::sync::Mutex;

use longhaul_core::json::Json;
use longhaul_model::Deltas;
use longhaul_model::wire::{Api, Client, Reply, ReplyCall, Stop, ToolResult, Turn, Usage};

use crate::ask::{WAYS, ask, endpoint, go_on, patient, request, serve, user};

const SCRIPT: &str = r#"
name: contract
context_window: 5000
conversations:
  - match: { agent: critic }
    turns: [ { text: "Only if nothing else fits." } ]
  - match: { prompt_contains: "Go." }
    turns:
      - text: "Grüße, 世界: I look \"first\"\nand then act."
        calls:
          - { tool: read, args: { path: "ä🙂.txt", deep: [1, 2.5, null, { a: "b\\n" }] } }
          - { tool: Bash, args: { command: "cargo test" } }
          - { tool: read }
        usage: { input: 10, output: 7, cache_read: 20, cache_write: 3 }
      - when_result_contains: { "error[E": { text: "Fixing." } }
        text: "All green."
      - text: ""
        calls: [ { tool: read, args: { path: x } } ]
        delay_ms: 20
"#;

/// A call that was recorded as one that cannot be read comes as it came then; what could be read is cut off, so that nobody
/// makes it.
#[tokio::test]
async fn a_call_that_could_not_be_read_comes_as_it_was() {
    let script = r#"
conversations:
  - turns:
      - calls:
          - { tool: bash, args: { unreadable: '{"command": "ec' }, malformed: "not JSON: EOF" }
          - { tool: bash, args: { unreadable: '[1, 2]' }, malformed: "not an object but an array" }
          - { tool: bash, args: { unreadable: 'null' }, malformed: "not an object but null" }
          - { tool: bash, args: { unreadable: '{"command": "echo"}' }, malformed: "cut off by the limit" }
          - { tool: bash, args: { command: "echo" }, malformed: "somebody says so" }
          - { tool: bash, args: { unreadable: "" }, malformed: "nothing" }
          - { tool: bash, args: { command: "echo" } }
"#;
    let as_they_came =
        [r#"{"command": "ec"#, "[1, 2]", "null", r#"{"command": "echo""#, r#"{"command":"echo""#, "{"];
    for way in WAYS {
        let reply = ask(&serve(script).await, way, patient()).await.unwrap();
        let (last, refused) = reply.calls.split_last().unwrap();
        assert!(last.args.is_ok(), "{way:?}");
        let refused: Vec<String> = refused.iter().map(|call| call.args.clone().unwrap_err().text).collect();
        // A body of Anthropic's carries what is no JSON as a string.
        if way != (Api::Anthropic, false) {
            assert_eq!(refused, as_they_came, "{way:?}");
        }
    }
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Deltas for Heard {
    fn text(&self, piece: &str) {
        self.0.lock().unwrap().push(piece.to_owned());
    }
}

fn calls(reply: &Reply) -> Vec<(String, serde_json::Value)> {
    reply.calls.iter().map(|call| (call.name.clone(), call.args.as_ref().unwrap().value())).collect()
}

/// C3: text, several calls, arguments in pieces, every counter in its place, ids that are unique.
#[tokio::test]
async fn a_reply_is_what_the_script_says() {
    let server = serve(SCRIPT).await;
    for way in WAYS {
        let reply = ask(&server, way, patient()).await.unwrap();
        assert_eq!(reply.text, "Grüße, 世界: I look \"first\"\nand then act.", "{way:?}");
        let path = serde_json::json!({"path": "ä🙂.txt", "deep": [1, 2.5, null, {"a": "b\\n"}]});
        let expected = [
            ("read".to_owned(), path),
            ("Bash".to_owned(), serde_json::json!({"command": "cargo test"})),
            ("read".to_owned(), serde_json::json!({})),
        ];
        assert_eq!(calls(&reply), expected, "{way:?}");
        assert_eq!(reply.stop, Stop::ToolCalls, "{way:?}");
        let usage = Usage { input: Some(10), output: Some(7), cache_read: 20, cache_write: 3 };
        assert_eq!(reply.usage, usage, "{way:?}");
        assert_eq!(reply.model, "fake-1", "{way:?}");
        assert!(!reply.id.is_empty(), "{way:?}");
        let ids: HashSet<&str> = reply.calls.iter().map(|call| call.provider_id.as_str()).collect();
        assert_eq!(ids.len(), 3, "{way:?}");
        // Asking the same again is another attempt at the same turn, and hears the same.
        assert_eq!(ask(&server, way, patient()).await.unwrap(), reply, "{way:?}");
    }
}

/// A stream arrives in pieces, also without a delay.
#[tokio::test]
async fn a_text_is_streamed_in_pieces() {
    let server = serve(SCRIPT).await;
    for api in Api::ALL {
        let heard = Heard::default();
        let client = Client::new(patient()).unwrap();
        let asked = request(vec![user("Go.")], true);
        let reply = client.send(&endpoint(&server, api), &asked, &heard).await.unwrap();
        let pieces = heard.0.into_inner().unwrap();
        assert!(pieces.len() > 3, "{pieces:?}");
        assert_eq!(pieces.concat(), reply.text);
    }
}

/// The conversation goes on: the turn follows from what was said, the branch from the last results.
#[tokio::test]
async fn later_turns_and_branches_are_found() {
    let server = serve(SCRIPT).await;
    for way in WAYS {
        let mut turns = vec![user("Go.")];
        for (result, text) in [("error[E0308]", "Fixing."), ("fine", "All green.")] {
            turns.truncate(1);
            let first = go_on(&server, way, &turns).await;
            turns.extend(answered(first, result));
            assert_eq!(go_on(&server, way, &turns).await.text, text, "{way:?}");
        }
        turns.push(Turn::Assistant { text: "All green.".to_owned(), calls: Vec::new(), raw: None });
        turns.push(user("Sure?"));
        let third = go_on(&server, way, &turns).await;
        assert_eq!((third.text.as_str(), third.stop), ("", Stop::ToolCalls), "{way:?}");
        assert_eq!(third.calls[0].args, Ok(Json::parse(r#"{"path":"x"}"#).unwrap()));
    }
}

/// A reply that is only a part says why, in each protocol's own word. Only one of them tells a full window from a full reply.
#[tokio::test]
async fn a_reply_stops_as_the_script_says() {
    for word in ["length", "refused", "overflow"] {
        let script = format!("conversations: [ {{ turns: [ {{ text: half, stop: {word} }} ] }} ]");
        let server = serve(&script).await;
        for way in WAYS {
            let reply = ask(&server, way, patient()).await.unwrap();
            let as_said = match (word, way.0) {
                ("refused", _) => matches!(reply.stop, Stop::Refusal(_)),
                ("overflow", Api::Anthropic) => reply.stop == Stop::Overflow,
                _ => reply.stop == Stop::Length,
            };
            assert!(as_said, "{word} {way:?}: {:?}", reply.stop);
        }
    }
}

fn answered(reply: Reply, text: &str) -> Vec<Turn> {
    let result = |call: &ReplyCall| ToolResult {
        provider_id: call.provider_id.clone(),
        text: text.to_owned(),
        failed: false,
        images: Vec::new(),
    };
    let results = reply.calls.iter().map(result).collect();
    let assistant = Turn::Assistant { text: reply.text, calls: Vec::new(), raw: Some(reply.raw) };
    vec![assistant, Turn::ToolResults(results)]
}

/// What a conversation asks about the run cannot be seen on the wire: it is played if nothing else fits.
#[tokio::test]
async fn a_conversation_about_the_run_is_the_last_resort() {
    let server = serve(SCRIPT).await;
    for way in WAYS {
        let reply = go_on(&server, way, &[user("Something else.")]).await;
        assert_eq!(reply.text, "Only if nothing else fits.", "{way:?}");
    }
}
