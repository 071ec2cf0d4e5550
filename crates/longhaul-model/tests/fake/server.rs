//! The server itself: keys, routes, bounds, what it remembers, and the shapes no client of ours looks at.

use longhaul_model::fake::{FakeProvider, Options};
use longhaul_model::wire::{Api, Client, Kind};
use longhaul_model::{Quiet, Scripted};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ask::{KEY, WAYS, ask, endpoint, patient, request, serve, user};

const HELLO: &str =
    "{ name: greeter, context_window: 5000, conversations: [ { turns: [ { text: 'Hello there' } ] } ] }";

async fn start(options: Options) -> FakeProvider {
    FakeProvider::start(Scripted::parse_for_any_tools("fake.yaml", HELLO).unwrap(), options).await.unwrap()
}

/// Writes bytes and reads to the end; every request here asks for the connection's end or is refused.
async fn exchange(server: &FakeProvider, request: &str) -> String {
    let mut line = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    line.write_all(request.as_bytes()).await.unwrap();
    line.shutdown().await.unwrap();
    let mut answer = Vec::new();
    line.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

async fn post(server: &FakeProvider, path: &str, body: &Value) -> String {
    let body = body.to_string();
    let head = format!("POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", body.len());
    exchange(server, &(head + &body)).await
}

/// The data of a stream's events, in their order.
fn events(answer: &str) -> Vec<Value> {
    let data = answer.lines().filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
}

fn body(answer: &str) -> Value {
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// F35: another key than the right one is refused as each protocol refuses it.
#[tokio::test]
async fn only_the_right_key_is_let_in() {
    for (key, kind) in [(KEY, None), ("sk-another-one", Some(Kind::Credentials))] {
        let server = start(Options { key: Some(key.to_owned()), ..Options::open() }).await;
        assert!(!format!("{server:?}").contains(key));
        for way in WAYS {
            assert_eq!(ask(&server, way, patient()).await.err().map(|error| error.kind), kind, "{way:?}");
        }
    }
}

/// Requests are kept for tests to look at, without their keys when shown; connections are counted and kept open.
#[tokio::test]
async fn what_came_is_remembered() {
    let server = start(Options::open()).await;
    let mut watch = server.watch();
    ask(&server, (Api::Anthropic, true), patient()).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/messages"));
    assert_eq!((request.header("x-api-key"), &request.body["model"]), (Some(KEY), &json!("fake-1")));
    assert_eq!(request.answer, "turn 1, attempt 1: reply");
    assert_eq!(watch.recv().await.unwrap().answer, request.answer);
    let shown = format!("{request:?} {server:?}");
    assert!(!shown.contains(KEY), "{shown}");
    assert!(shown.contains("2023-06-01"), "{shown}");
    assert_eq!(server.connections(), 1);
    server.stop();
}

#[tokio::test]
async fn one_protocol_alone_may_be_served() {
    for only in Api::ALL {
        let server = start(Options { api: Some(only), ..Options::open() }).await;
        for (api, stream) in WAYS {
            let kind = ask(&server, (api, stream), patient()).await.err().map(|error| error.kind);
            assert_eq!(kind, (api != only).then_some(Kind::Fatal), "{only:?} {api:?}");
        }
    }
}

/// F26: a server that is gone is a provider that cannot be reached.
#[tokio::test]
async fn a_stopped_server_is_gone() {
    let server = start(Options::open()).await;
    let gone = endpoint(&server, Api::Chat);
    server.stop();
    let client = Client::new(patient()).unwrap();
    let error = client.send(&gone, &request(vec![user("Go.")], true), &Quiet).await.unwrap_err();
    assert_eq!(error.kind, Kind::Unreachable, "{error}");
}

#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let server = start(Options::open()).await;
    let script = Scripted::parse_for_any_tools("fake.yaml", HELLO).unwrap();
    let again = FakeProvider::start(script, Options { port: server.port(), ..Options::open() }).await;
    assert_eq!(again.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn models_and_counts_are_told() {
    let server = start(Options::open()).await;
    let models = body(&exchange(&server, "GET /v1/models?limit=10 HTTP/1.1\r\nhost: x\r\n\r\n").await);
    assert_eq!((&models["object"], &models["has_more"]), (&json!("list"), &json!(false)));
    let model = &models["data"][0];
    assert_eq!((&model["id"], &model["context_window"]), (&json!("greeter"), &json!(5000)));
    let asked = json!({"model": "m", "messages": [{"role": "user", "content": "x".repeat(4000)}]});
    let count = body(&post(&server, "/v1/messages/count_tokens", &asked).await);
    assert!(count["input_tokens"].as_u64().unwrap() >= 1000, "{count}");
}

/// The events of an Anthropic stream, by name, as the documentation has them.
#[tokio::test]
async fn an_anthropic_stream_has_its_events() {
    let server = start(Options::open()).await;
    let asked = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let answer = post(&server, "/v1/messages", &asked).await;
    let mut kinds: Vec<String> =
        events(&answer).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect();
    kinds.dedup();
    assert_eq!(
        kinds,
        [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop"
        ]
    );
    assert!(answer.contains("event: message_start\ndata: "), "{answer}");
}

/// Responses count their events from zero, and have no closing mark.
#[tokio::test]
async fn a_responses_stream_is_numbered() {
    let server = start(Options::open()).await;
    let answer = post(&server, "/v1/responses", &json!({"model": "m", "stream": true, "input": "hi"})).await;
    let events = events(&answer);
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{event}");
    }
    assert_eq!(events.last().unwrap()["type"], "response.completed");
    assert!(!answer.contains("[DONE]"));
}

/// F36: on a stream of Responses an overflow comes after a good beginning.
#[tokio::test]
async fn an_overflow_of_responses_is_a_failed_stream() {
    let server = serve("conversations: [ { turns: [ { fail: [ { fault: overflow } ], text: x } ] } ]").await;
    let answer = post(&server, "/v1/responses", &json!({"model": "m", "stream": true, "input": "hi"})).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let kinds: Vec<Value> = events(&answer).iter().map(|event| event["type"].clone()).collect();
    assert_eq!(kinds, ["response.created", "response.in_progress", "error", "response.failed"]);
}

/// Chat counts only if it is asked to, and then in a chunk of its own after empty counts.
#[tokio::test]
async fn a_chat_stream_counts_if_asked() {
    let server = start(Options::open()).await;
    let mut asked = json!({"model": "m", "stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let answer = post(&server, "/v1/chat/completions", &asked).await;
    assert!(answer.contains("data: [DONE]") && !answer.contains("\"usage\""), "{answer}");
    asked["stream_options"] = json!({"include_usage": true});
    let answer = post(&server, "/v1/chat/completions", &asked).await;
    let mut events = events(&answer);
    let last = events.pop().unwrap();
    assert!(last["choices"] == json!([]) && last["usage"].is_object(), "{last}");
    assert!(events.iter().all(|event| event["usage"].is_null()), "{answer}");
}

/// What is no request, or too large a one, is refused; the server goes on.
#[tokio::test]
async fn bad_requests_are_refused() {
    let server = start(Options::open()).await;
    let endless = format!("GET / HTTP/1.1\r\nx: {}", "x".repeat(200_000));
    for bad in [
        "hello\r\n\r\n",
        "GET / HTTP/1.0\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\nno colon\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\ncontent-length: many\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
        "POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        "POST /v1/messages HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffff0\r\n",
        "POST /v1/messages HTTP/1.1\r\ncontent-length: 3\r\n\r\n[1]",
    ] {
        let answer = exchange(&server, bad).await;
        assert!(answer.starts_with("HTTP/1.1 400 "), "{bad}: {answer}");
    }
    // So much is not read to its end, so the answer may be lost with the line; the server is not.
    let mut line = TcpStream::connect(("127.0.0.1", server.port())).await.unwrap();
    let _ = line.write_all(endless.as_bytes()).await;
    let _ = line.read_to_end(&mut Vec::new()).await;
    assert!(exchange(&server, "GET /elsewhere HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 404 "));
    ask(&server, (Api::Chat, true), patient()).await.unwrap();
}

/// Bodies in chunks, with a wait for a word before them, as curl sends large ones.
#[tokio::test]
async fn a_body_may_come_in_chunks() {
    let server = start(Options::open()).await;
    let request = "POST /v1/responses HTTP/1.1\r\nexpect: 100-continue\r\ntransfer-encoding: chunked\r\n\r\n\
        5\r\n{\"inp\r\n9;x=y\r\nut\":\"hi\"}\r\n0\r\ntrailer: x\r\n\r\n";
    let answer = exchange(&server, request).await;
    let answer = answer.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap();
    assert_eq!(body(answer)["output"][0]["content"][0]["text"], "Hello there");
}
