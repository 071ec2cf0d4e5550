//! Our client against a server that nobody here wrote: llama.cpp's, with a real if very small model behind it. It speaks
//! all three protocols, each with quirks of its own. A machine that does not have it says SKIP and how to get it.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "what is skipped must be seen")]

mod server;

use std::sync::Mutex;
use std::time::Duration;

use longhaul_model::wire::{Api, Client, Kind, Options, Reply, Request, Stop, Turn, Usage, WireError};
use longhaul_model::{Deltas, Quiet, tokens};
use serde_json::{Map, Value};
use tokio::sync::Notify;

use server::{CONTEXT, Server};

/// Far longer than any answer here takes.
const PATIENCE: Duration = Duration::from_secs(120);

/// Far longer than a short answer takes, shorter than the clock that would end an endless one.
const NOT_STUCK: Duration = Duration::from_secs(60);

fn request(turns: Vec<Turn>, max_output_tokens: Option<u32>, stream: bool) -> Request {
    Request {
        model: "smollm2".to_owned(),
        system: "You are a friendly assistant who answers in one short sentence.".to_owned(),
        turns,
        tools: Vec::new(),
        max_output_tokens,
        answer_schema: None,
        stream,
        manners: Default::default(),
        // Always the likeliest word, so that the same question has the same answer.
        extra: Map::from_iter([("temperature".to_owned(), Value::from(0))]),
    }
}

fn user(text: &str) -> Turn {
    Turn::User { text: text.to_owned() }
}

fn client() -> Client {
    Client::new(Options { total_timeout: PATIENCE, ..Options::usual() }).unwrap()
}

async fn ask(server: &Server, api: Api, request: &Request) -> Result<Reply, WireError> {
    client().send(&server.endpoint(api), request, &Quiet).await
}

#[derive(Default)]
struct Heard(Mutex<String>);

impl Deltas for Heard {
    fn text(&self, piece: &str) {
        self.0.lock().unwrap().push_str(piece);
    }
}

fn prompt_tokens(usage: Usage) -> u64 {
    usage.input.unwrap() + usage.cache_read + usage.cache_write
}

/// A whole answer over each protocol, streamed and at once: text, counts, names, and the same words either way.
#[tokio::test]
async fn every_protocol_is_answered() {
    let Some(server) = Server::start() else { return };
    let mut answers = Vec::new();
    for (api, stream) in Api::ALL.into_iter().flat_map(|api| [(api, true), (api, false)]) {
        let heard = Heard::default();
        let request = request(vec![user("Say hello.")], Some(100), stream);
        let reply = client().send(&server.endpoint(api), &request, &heard).await.unwrap();
        assert_eq!(reply.stop, Stop::End, "{api:?} {reply:?}");
        assert_eq!(reply.model, "smollm2", "{api:?}");
        assert!(!reply.text.is_empty() && !reply.id.is_empty() && reply.calls.is_empty(), "{reply:?}");
        assert_eq!(heard.0.into_inner().unwrap(), if stream { reply.text.as_str() } else { "" }, "{api:?}");
        assert!(reply.usage.output > Some(0), "{api:?} {:?}", reply.usage);
        answers.push((reply.text, reply.usage.output, prompt_tokens(reply.usage)));
    }
    let first = answers[0].clone();
    assert!(first.2 > 20, "{answers:?}");
    assert!(answers.iter().all(|answer| *answer == first), "{answers:?}");
}

/// A reply that runs into its limit says so, also over Responses, where this server calls it complete.
#[tokio::test]
async fn a_reply_that_was_cut_off_says_so() {
    let Some(server) = Server::start() else { return };
    for (api, stream) in Api::ALL.into_iter().flat_map(|api| [(api, true), (api, false)]) {
        let request = request(vec![user("Tell me a long story about the sea.")], Some(8), stream);
        let reply = ask(&server, api, &request).await.unwrap();
        assert_eq!((reply.stop, reply.usage.output), (Stop::Length, Some(8)), "{api:?} {stream}");
    }
}

/// The second turn sends the first reply back as it came, and what the server has read before is read from its cache.
#[tokio::test]
async fn a_conversation_goes_on_from_the_cache() {
    let Some(server) = Server::start() else { return };
    for api in Api::ALL {
        let question = user("Name one colour of the sky.");
        let first = ask(&server, api, &request(vec![question.clone()], Some(60), true)).await.unwrap();
        let answer =
            Turn::Assistant { text: first.text.clone(), calls: Vec::new(), raw: Some(first.raw.clone()) };
        let turns = vec![question, answer, user("Name another one.")];
        let second = ask(&server, api, &request(turns, Some(60), true)).await.unwrap();
        let (before, after) = (first.usage, second.usage);
        assert!(prompt_tokens(after) > prompt_tokens(before), "{api:?} {before:?} {after:?}");
        assert!(after.cache_read >= prompt_tokens(before), "{api:?} {before:?} {after:?}");
        assert!(after.input > Some(0) && after.input < Some(prompt_tokens(before)), "{api:?} {after:?}");
    }
}

/// The server's count of a prompt is what it then charges for, and our own estimate lies above it, but not by far.
#[tokio::test]
async fn prompts_are_counted() {
    let Some(server) = Server::start() else { return };
    let code = include_str!("server.rs").split_at(1500).0;
    let texts =
        ["Say hello.", "A journal is only ever appended to, and the one cut is that of a torn tail.", code];
    for (api, text) in Api::ALL.into_iter().flat_map(|api| texts.map(|text| (api, text))) {
        let request = request(vec![user(text)], Some(1), false);
        let charged = prompt_tokens(ask(&server, api, &request).await.unwrap().usage);
        let counted = client().count_tokens(&server.endpoint(api), &request).await.unwrap();
        assert_eq!(counted, (api != Api::Chat).then_some(charged), "{api:?}");
        let estimated = tokens::estimate(&request);
        assert!((charged..2 * charged).contains(&estimated), "{charged} {estimated} {text}");
    }
}

/// What this server refuses has a kind: a prompt longer than the window, a path that is not there.
#[tokio::test]
async fn refusals_are_classified() {
    let Some(server) = Server::start() else { return };
    let long = "word ".repeat(2 * CONTEXT);
    for (api, stream) in Api::ALL.into_iter().flat_map(|api| [(api, true), (api, false)]) {
        let error = ask(&server, api, &request(vec![user(&long)], Some(8), stream)).await.unwrap_err();
        assert_eq!((error.kind, error.status), (Kind::Overflow, Some(400)), "{api:?} {error}");
        let mut elsewhere = server.endpoint(api);
        elsewhere.base_url.push_str("/nowhere");
        let request = request(vec![user("hi")], Some(8), stream);
        let error = client().send(&elsewhere, &request, &Quiet).await.unwrap_err();
        assert_eq!((error.kind, error.status), (Kind::Fatal, Some(404)), "{api:?} {error}");
    }
}

/// Hears that a reply has begun.
#[derive(Default)]
struct Begun(Notify);

impl Deltas for Begun {
    fn text(&self, _piece: &str) {
        self.0.notify_one();
    }
}

/// A reply that would not end is dropped, once while it streams and once before anything came. The server has one slot,
/// so the next question is only answered if the drop reached it.
#[tokio::test]
async fn a_dropped_call_frees_its_slot() {
    let Some(server) = Server::start() else { return };
    for (api, stream) in Api::ALL.into_iter().flat_map(|api| [(api, true), (api, false)]) {
        let mut endless = request(vec![user("Tell me a long story about the sea.")], Some(100_000), stream);
        endless.extra.insert("ignore_eos".to_owned(), Value::Bool(true));
        let (client, endpoint, begun) = (client(), server.endpoint(api), Begun::default());
        // Without a stream nothing tells that the server is at work; it surely is after so long.
        let at_work = async {
            if stream {
                begun.0.notified().await
            } else {
                tokio::time::sleep(Duration::from_millis(500)).await
            }
        };
        tokio::select! {
            reply = client.send(&endpoint, &endless, &begun) => panic!("{api:?} {stream} ended: {reply:?}"),
            () = at_work => {}
        }
        let next = request(vec![user("Say hello.")], Some(8), false);
        let next = tokio::time::timeout(NOT_STUCK, ask(&server, api, &next)).await.unwrap().unwrap();
        assert!(!next.text.is_empty(), "{api:?} {stream}");
    }
}
