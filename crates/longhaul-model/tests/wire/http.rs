//! The edge: real sockets on loopback, and a server that misbehaves. Clocks are short; what is asserted is the kind of
//! the error, never the time.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longhaul_model::wire::{Api, Client, Endpoint, Kind, Options, Reply, Stop, WireError};
use longhaul_model::{Deltas, Quiet};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::requests::{request, user};
use crate::server::{Server, Step, head};
use crate::speak::{End, Part, body, bytes, call, events};

const CANARY: &str = "sk-canary-4f9a1c77e2";
const HEADER_CANARY: &str = "hdr-canary-b81d0e55";
const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(250);
const EVENTS: (&str, &str) = ("content-type", "text/event-stream; charset=utf-8");
const JSON: (&str, &str) = ("content-type", "application/json");

fn options() -> Options {
    Options { connect_timeout: LONG, idle_timeout: LONG, total_timeout: LONG, ..Options::usual() }
}

fn endpoint(api: Api, base_url: String) -> Endpoint {
    let headers = vec![("x-team".to_owned(), HEADER_CANARY.into())];
    Endpoint { api, base_url, key: Some(CANARY.into()), headers, hidden: Vec::new() }
}

/// Sends one request; no error may show a secret, in either of its forms.
async fn send(api: Api, url: String, options: Options, stream: bool) -> Result<Reply, WireError> {
    let mut request = request(vec![user("hi")]);
    request.stream = stream;
    let endpoint = endpoint(api, url);
    let sent = Client::new(options).unwrap().send(&endpoint, &request, &Quiet).await;
    let shown = format!(
        "{endpoint:?} {:?} {}",
        sent,
        sent.as_ref().err().map(ToString::to_string).unwrap_or_default()
    );
    for canary in [CANARY, HEADER_CANARY] {
        assert!(!shown.contains(canary), "a secret is shown: {shown}");
    }
    sent
}

async fn answer(api: Api, steps: Vec<Step>, options: Options) -> Result<Reply, WireError> {
    let server = Server::start(steps).await;
    send(api, server.url(), options, true).await
}

fn good(api: Api) -> Vec<u8> {
    bytes(&events(api, &[Part::Text("hello"), call("c", "read", "{\"path\":\"x\"}")], End::Tools, 3), "\n")
}

#[derive(Default)]
struct Heard(Mutex<String>);

impl Deltas for Heard {
    fn text(&self, piece: &str) {
        self.0.lock().unwrap().push_str(piece);
    }
}

/// The whole way, over each protocol: address, headers, body, pieces heard, reply.
#[tokio::test]
async fn a_good_exchange() {
    for api in Api::ALL {
        // The line stays open after the end: the client must not wait for its close.
        let mut server =
            Server::start(vec![Step::Send(head("200 OK", &[EVENTS])), Step::Send(good(api)), Step::Hang])
                .await;
        let (endpoint, heard, request) =
            (endpoint(api, server.url()), Heard::default(), request(vec![user("hi")]));
        let reply = Client::new(options()).unwrap().send(&endpoint, &request, &heard).await.unwrap();
        assert_eq!((reply.text.as_str(), reply.calls.len(), reply.stop), ("hello", 1, Stop::ToolCalls));
        assert_eq!(heard.0.lock().unwrap().as_str(), "hello");
        let asked = server.requests.recv().await.unwrap();
        let (head, sent) = asked.split_once("\r\n\r\n").unwrap();
        assert_eq!(sent, api.encode(&request).to_string());
        let (path, key) = match api {
            Api::Anthropic => ("/v1/messages", format!("x-api-key: {CANARY}")),
            Api::Responses => ("/v1/responses", format!("authorization: Bearer {CANARY}")),
            Api::Chat => ("/v1/chat/completions", format!("authorization: Bearer {CANARY}")),
        };
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1")), "{head}");
        assert!(head.contains(&key) && head.contains(&format!("x-team: {HEADER_CANARY}")), "{head}");
    }
}

/// Without a stream, and from a server that ignores the wish for one.
#[tokio::test]
async fn a_good_exchange_at_once() {
    for api in Api::ALL {
        for stream in [false, true] {
            let body = body(api, &[Part::Text("hello")], End::Stop).to_string().into_bytes();
            let server = Server::start(vec![Step::Send(head("200 OK", &[JSON])), Step::Send(body)]).await;
            let reply = send(api, server.url(), options(), stream).await.unwrap();
            assert_eq!((reply.text.as_str(), reply.stop), ("hello", Stop::End));
        }
    }
}

/// F30, F31: pings flow or nothing does; without progress the idle clock ends the turn as retryable.
#[tokio::test]
async fn a_stall_behind_pings_is_noticed() {
    let pings: [&[u8]; 3] =
        [b"event: ping\ndata: {\"type\":\"ping\"}\n\n", b": keep-alive\n\n", b"data: {\"choices\":[]}\n\n"];
    for (api, ping) in Api::ALL.into_iter().zip(pings) {
        let short = Options { idle_timeout: SHORT, ..options() };
        let ping = Step::Repeat { bytes: ping.to_vec(), times: 100_000, every: Duration::from_millis(10) };
        let error =
            answer(api, vec![Step::Send(head("200 OK", &[EVENTS])), ping], short.clone()).await.unwrap_err();
        assert_eq!(error.kind, Kind::Retryable { after: None }, "{error}");
        assert!(error.message.contains("did not move forward"), "{error}");
        for steps in [vec![Step::Hang], vec![Step::Send(head("200 OK", &[EVENTS])), Step::Hang]] {
            let error = answer(api, steps, short.clone()).await.unwrap_err();
            assert_eq!(error.kind, Kind::Retryable { after: None }, "{error}");
        }
    }
}

/// F30: events that have a reply's form and bring nothing are no progress either: empty pieces, and what was said before.
#[tokio::test]
async fn a_stall_behind_empty_events_is_noticed() {
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    let delta =
        |delta: &str| format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":{delta}}}}}"#);
    let choice = |delta: &str| format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
    let event = |kind: &str| format!(r#"{{"type":"response.{kind}","output_index":0,"delta":""}}"#);
    let call = r#"{"tool_calls":[{"index":0,"id":"c","function":{"name":"read","arguments":""}}]}"#;
    let cases = [
        (Api::Anthropic, start.to_owned(), delta(r#""text_delta","text":"""#)),
        (Api::Anthropic, start.to_owned(), delta(r#""thinking_delta","thinking":"""#)),
        (Api::Anthropic, start.to_owned(), delta(r#""input_json_delta","partial_json":"""#)),
        (Api::Anthropic, start.to_owned(), delta(r#""signature_delta","signature":"s""#)),
        (Api::Anthropic, start.to_owned(), delta(r#""novel_delta","novel":"""#)),
        (Api::Anthropic, start.to_owned(), r#"{"type":"content_block_stop","index":0}"#.to_owned()),
        (Api::Anthropic, start.to_owned(), r#"{"type":"message_start","message":{"id":"m"}}"#.to_owned()),
        (
            Api::Anthropic,
            start.to_owned(),
            r#"{"type":"message_delta","usage":{"output_tokens":1}}"#.to_owned(),
        ),
        (Api::Responses, event("created"), event("in_progress")),
        (Api::Responses, event("created"), event("web_search_call.searching")),
        (Api::Responses, event("created"), event("output_text.delta")),
        (Api::Responses, event("created"), event("function_call_arguments.delta")),
        (Api::Responses, event("created"), event("reasoning_summary_text.delta")),
        (Api::Responses, event("created"), event("refusal.delta")),
        (Api::Chat, choice(r#"{"content":"x"}"#), choice(r#"{"content":""}"#)),
        (Api::Chat, choice(r#"{"content":"x"}"#), choice(r#"{"reasoning_content":""}"#)),
        (Api::Chat, choice(r#"{"content":"x"}"#), choice(call)),
        (Api::Chat, choice(call), "[DONE]".to_owned()),
    ];
    let short = Options { idle_timeout: SHORT, ..options() };
    for (api, first, again) in cases {
        let data = |data: &str| format!("data: {data}\n\n").into_bytes();
        let every = Duration::from_millis(10);
        let again_and_again = Step::Repeat { bytes: data(&again), times: 100_000, every };
        let steps = vec![Step::Send(head("200 OK", &[EVENTS])), Step::Send(data(&first)), again_and_again];
        let error = answer(api, steps, short.clone()).await.unwrap_err();
        assert!(error.message.contains("did not move forward"), "{again}: {error}");
    }
}

/// F32: bytes that drip, or events that come for ever, end at the total deadline.
#[tokio::test]
async fn a_slow_drip_meets_the_deadline() {
    let nothing = Kind::Retryable { after: None };
    let drip: [(&[u8], Kind); 2] =
        [(b"x", nothing), (b"data: {\"type\":\"content_block_start\"}\n\n", Kind::Truncated)];
    for (bytes, kind) in drip {
        let drip = Step::Repeat { bytes: bytes.to_vec(), times: 100_000, every: Duration::from_millis(10) };
        let short = Options { total_timeout: SHORT, ..options() };
        let error = answer(Api::Anthropic, vec![Step::Send(head("200 OK", &[EVENTS])), drip], short)
            .await
            .unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains("not complete"), "{error}");
    }
    let short = Options { total_timeout: SHORT, ..options() };
    let server = Server::start(vec![Step::Send(head("200 OK", &[JSON])), Step::Hang]).await;
    let error = send(Api::Chat, server.url(), short, false).await.unwrap_err();
    assert_eq!(error.kind, Kind::Retryable { after: None }, "{error}");
}

/// A line that breaks in the middle, politely or not, with and without a stated length.
#[tokio::test]
async fn a_cut_answer_is_truncated() {
    for api in Api::ALL {
        let half = |bytes: &[u8]| Step::Send(bytes[..bytes.len() / 2].to_vec());
        let chunked = [EVENTS, ("transfer-encoding", "chunked")];
        let framed =
            [format!("{:x}\r\n", good(api).len()).as_bytes(), &good(api)[..good(api).len() / 2]].concat();
        let plain = body(api, &[Part::Text("hello")], End::Stop).to_string().into_bytes();
        // Nobody knows what an empty reply cost: one that broke off at once.
        for nothing in [vec![EVENTS], vec![]] {
            let error = answer(api, vec![Step::Send(head("200 OK", &nothing))], options()).await.unwrap_err();
            assert_eq!(error.kind, Kind::Truncated, "{api:?} {error}");
        }
        let cases = [
            vec![Step::Send(head("200 OK", &[EVENTS])), half(&good(api))],
            vec![Step::Send(head("200 OK", &chunked)), Step::Send(framed)],
            vec![Step::Send(head("200 OK", &[EVENTS, ("content-length", "100000")])), half(&good(api))],
            vec![Step::Send(head("200 OK", &[JSON])), half(&plain)],
            vec![Step::Send(head("200 OK", &[JSON, ("content-length", "100000")])), half(&plain)],
            vec![Step::Send(head("200 OK", &[JSON]))],
        ];
        for (number, steps) in cases.into_iter().enumerate() {
            let error = answer(api, steps, options()).await.unwrap_err();
            assert_eq!(error.kind, Kind::Truncated, "{api:?} {number} {error}");
        }
    }
}

/// Chat's reply is whole before its stream is: a lost trailer does not lose it.
#[tokio::test]
async fn a_whole_reply_survives_a_lost_trailer() {
    let all = events(Api::Chat, &[Part::Text("hello")], End::Stop, 3);
    let whole = bytes(&all[..all.len() - 2], "\n");
    let headed = |step: Step| vec![Step::Send(head("200 OK", &[EVENTS])), Step::Send(whole.clone()), step];
    let short = Options { idle_timeout: SHORT, ..options() };
    for steps in [headed(Step::Hang), headed(Step::Send(Vec::new()))] {
        assert_eq!(answer(Api::Chat, steps, short.clone()).await.unwrap().text, "hello");
    }
}

/// F32: a single event of 100 MB is an error at its cap; the client stops reading, so its memory stays small.
#[tokio::test]
async fn an_endless_event_reaches_the_cap() {
    for start in ["data: ", "", ": "] {
        let filler = Step::Repeat { bytes: vec![b'x'; 100 * 1024], times: 1000, every: Duration::ZERO };
        let steps = vec![Step::Send(head("200 OK", &[EVENTS])), Step::Send(start.into()), filler];
        let server = Server::start(steps).await;
        let error = send(Api::Anthropic, server.url(), options(), true).await.unwrap_err();
        assert_eq!(error.kind, Kind::TooLarge, "{error}");
        let sent = server.sent.load(Ordering::Relaxed);
        assert!(sent < 40 * 1024 * 1024, "the server got rid of {sent} bytes");
    }
}

/// F32: tiny events without end, and bodies without end.
#[tokio::test]
async fn endless_streams_and_bodies_reach_their_caps() {
    let tiny = b"data: {\"type\":\"novelty\"}\n\n".repeat(1000);
    let tiny = Step::Repeat { bytes: tiny, times: 1000, every: Duration::ZERO };
    let endless = vec![Step::Send(head("200 OK", &[EVENTS])), tiny];
    let few = Options { stream_events_max: 5000, ..options() };
    assert_eq!(answer(Api::Responses, endless.clone(), few).await.unwrap_err().kind, Kind::TooLarge);
    let little = Options { stream_bytes_max: 100_000, ..options() };
    assert_eq!(answer(Api::Responses, endless, little).await.unwrap_err().kind, Kind::TooLarge);
    let filler = Step::Repeat { bytes: vec![b' '; 100 * 1024], times: 1000, every: Duration::ZERO };
    let body = vec![Step::Send(head("200 OK", &[JSON])), filler.clone()];
    assert_eq!(answer(Api::Chat, body, options()).await.unwrap_err().kind, Kind::TooLarge);
    let error = vec![Step::Send(head("500 Oops", &[JSON])), filler];
    assert_eq!(answer(Api::Chat, error, options()).await.unwrap_err().kind, Kind::Retryable { after: None });
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// F33: compressed answers are read, and a bomb goes off against the caps, which count what comes out.
#[tokio::test]
async fn gzip_is_read_and_bounded() {
    let gzipped = ("content-encoding", "gzip");
    let fine = vec![Step::Send(head("200 OK", &[EVENTS, gzipped])), Step::Send(gzip(&good(Api::Anthropic)))];
    assert_eq!(answer(Api::Anthropic, fine, options()).await.unwrap().text, "hello");
    let bomb = gzip(&vec![b' '; 200 * 1024 * 1024]);
    assert!(bomb.len() < 2 * 1024 * 1024);
    for kind in [EVENTS, JSON] {
        let steps = vec![Step::Send(head("200 OK", &[kind, gzipped])), Step::Send(bomb.clone())];
        assert_eq!(answer(Api::Anthropic, steps, options()).await.unwrap_err().kind, Kind::TooLarge);
    }
    let garbage = vec![Step::Send(head("200 OK", &[JSON, gzipped])), Step::Send(b"not gzip at all".to_vec())];
    assert_eq!(answer(Api::Anthropic, garbage, options()).await.unwrap_err().kind, Kind::Truncated);
}

/// F33: answers with status 200 that are no replies.
#[tokio::test]
async fn answers_that_are_no_replies_are_malformed() {
    let html = ("content-type", "text/html; charset=utf-8");
    let page = format!("<html><title>login {CANARY}</title></html>").into_bytes();
    type Case<'a> = (&'a [(&'a str, &'a str)], Vec<u8>, Kind);
    let cases: [Case<'_>; 7] = [
        (&[html], page.clone(), Kind::Foreign),
        (&[("content-type", "text/plain")], b"ok".to_vec(), Kind::Foreign),
        (&[("content-type", "image/png")], vec![0x89], Kind::Foreign),
        (&[JSON], page, Kind::Malformed),
        (&[JSON], b"{\"id\":\"\xff\xfe\"}".to_vec(), Kind::Malformed),
        (&[JSON], b"{\"hello\":1}".to_vec(), Kind::Malformed),
        (&[EVENTS], b"data: {\"type\":\"\xff\",\"id\":\"\xff\"}\n\n".to_vec(), Kind::Malformed),
    ];
    for api in Api::ALL {
        for (headers, body, kind) in &cases {
            let steps = vec![Step::Send(head("200 OK", headers)), Step::Send(body.clone())];
            let error = answer(api, steps, options()).await.unwrap_err();
            assert_eq!(error.kind, *kind, "{api:?} {headers:?} {error}");
            assert!(error.hint().is_some());
        }
    }
}

/// F27, F35: a status, its headers and its body make one error; secrets a server repeats are taken out, also where the
/// text is cut, and nothing in it can steer a terminal.
#[tokio::test]
async fn refusals_are_classified_and_clean() {
    let body =
        |message: &str| json!({"error": {"type": "authentication_error", "message": message}}).to_string();
    let long = format!("{}{CANARY} and {HEADER_CANARY}", "x".repeat(1015));
    let said =
        [format!("Incorrect API key provided: {CANARY}"), long, format!("\u{1b}[31m{CANARY}\r\n\u{7}")];
    for said in said {
        let headers = [JSON, ("request-id", CANARY)];
        let steps =
            vec![Step::Send(head("401 Unauthorized", &headers)), Step::Send(body(&said).into_bytes())];
        let error = answer(Api::Anthropic, steps, options()).await.unwrap_err();
        assert_eq!((error.kind, error.status), (Kind::Credentials, Some(401)), "{error}");
        assert!(
            error.to_string().chars().all(|c| !c.is_control()) && error.message.len() < 1100,
            "{error:?}"
        );
        assert!(!error.message.contains("sk-can"), "half a secret: {error}");
    }
    let echo = json!({"type": "error", "error": {"type": "api_error", "message": format!("bad {CANARY}")}});
    let echo = format!("event: error\ndata: {echo}\n\n").into_bytes();
    let steps = vec![Step::Send(head("200 OK", &[EVENTS])), Step::Send(echo)];
    let error = answer(Api::Anthropic, steps, options()).await.unwrap_err();
    assert_eq!(error.message, "bad [secret]");
    let steps = vec![Step::Send(head("429 Too Many Requests", &[("retry-after", "0")]))];
    let error = answer(Api::Chat, steps, options()).await.unwrap_err();
    assert_eq!(error.kind, Kind::RateLimited { after: Some(Duration::from_secs(1)) });
}

/// A redirect is not followed: it would carry the key to another house.
#[tokio::test]
async fn redirects_are_not_followed() {
    let mut other = Server::start(vec![Step::Send(head("200 OK", &[EVENTS]))]).await;
    let target = format!("{}/v1/messages?k={CANARY}", other.url());
    for status in ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"] {
        let steps = vec![Step::Send(head(status, &[("location", &target)]))];
        assert_eq!(answer(Api::Anthropic, steps, options()).await.unwrap_err().kind, Kind::Foreign);
    }
    assert!(other.requests.try_recv().is_err());
}

/// F26: refused, unknown host, no TLS at the other end, or no HTTP: all retryable, and each names who was looked for and no
/// secret. An address that is none is not.
#[tokio::test]
async fn unreachable_providers_are_told_apart() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let plain = Server::start(vec![Step::Send(b"HTTP/1.1 400 Bad\r\n\r\n".to_vec())]).await;
    let ssh = Server::start(vec![Step::Send(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec())]).await;
    let alert = Server::start(vec![Step::Send(vec![21, 3, 1, 0, 2, 2, 70])]).await;
    let closing = Server::start(Vec::new()).await;
    let no_http = [&ssh, &alert, &closing]
        .map(|server| (format!("{}/{CANARY}", server.url()), format!("{}: ", server.url())));
    let urls = [
        (format!("http://{closed}/{CANARY}"), format!("http://{closed}: ")),
        (
            format!("http://user:{CANARY}@no-such-host.invalid/v1?key={CANARY}"),
            "http://no-such-host.invalid:80: ".to_owned(),
        ),
        (format!("https://{}/v1", plain.address), format!("https://{}: ", plain.address)),
    ];
    let urls = urls.into_iter().chain(no_http);
    let quick = Options { connect_timeout: Duration::from_secs(1), ..options() };
    for (url, address) in urls {
        let mut endpoint = endpoint(Api::Chat, url);
        endpoint.headers.clear();
        let client = Client::new(quick.clone()).unwrap();
        let error = client.send(&endpoint, &request(vec![user("q")]), &Quiet).await.unwrap_err();
        let listing = client.list(&endpoint, Duration::from_secs(30)).await.unwrap_err();
        assert_eq!(error.kind, Kind::Unreachable, "{error}");
        for error in [&error, &listing] {
            assert!(error.message.starts_with(&address), "{error}");
            assert!(!format!("{error:?}{error}").contains(CANARY), "{error}");
        }
    }
    for url in ["", "api.example.com", "ftp://x/y", "http://", CANARY] {
        let error = send(Api::Chat, url.to_owned(), options(), true).await.unwrap_err();
        assert_eq!(error.kind, Kind::Fatal, "{url} {error}");
    }
    let mut broken = endpoint(Api::Chat, plain.url());
    broken.key = Some(format!("{CANARY}\n\u{e4}").into());
    let error =
        Client::new(options()).unwrap().send(&broken, &request(vec![user("q")]), &Quiet).await.unwrap_err();
    assert_eq!(error.kind, Kind::Credentials);
    assert!(!format!("{error:?}").contains(CANARY));
}

/// Dropping the future closes the line at once.
#[tokio::test]
async fn dropping_the_call_closes_the_line() {
    let mut server = Server::start(vec![Step::Send(head("200 OK", &[EVENTS])), Step::Hang]).await;
    let (endpoint, request) = (endpoint(Api::Anthropic, server.url()), request(vec![user("q")]));
    let task =
        tokio::spawn(async move { Client::new(options()).unwrap().send(&endpoint, &request, &Quiet).await });
    server.requests.recv().await.unwrap();
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    tokio::time::timeout(LONG, server.closed.recv()).await.unwrap().unwrap();
}

#[test]
fn addresses() {
    let cases = [
        (Api::Anthropic, "https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        (Api::Anthropic, "https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        (Api::Anthropic, "https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        (Api::Anthropic, "https://h/anthropic", "https://h/anthropic/v1/messages"),
        (Api::Anthropic, "https://h/v1/messages", "https://h/v1/messages"),
        (Api::Responses, "https://api.openai.com/v1", "https://api.openai.com/v1/responses"),
        (Api::Chat, "http://localhost:11434", "http://localhost:11434/v1/chat/completions"),
        (Api::Chat, "https://h/api/paas/v4/", "https://h/api/paas/v4/chat/completions"),
        (Api::Chat, "https://h/v1/chat/completions", "https://h/v1/chat/completions"),
        (Api::Chat, "https://h/v1?api-version=3", "https://h/v1/chat/completions?api-version=3"),
    ];
    for (api, base, expected) in cases {
        assert_eq!(endpoint(api, base.to_owned()).url().unwrap().as_str(), expected);
    }
}

/// llama.cpp on Responses: a reply cut at the limit says it is complete, and only the count tells. Its last call, which
/// may be half of one, is not to be made.
#[tokio::test]
async fn a_full_reply_ran_into_its_limit() {
    for (output, stop) in [(4095, Stop::End), (4096, Stop::Length)] {
        let mut body = body(Api::Responses, &[Part::Text("and so")], End::Stop);
        body["usage"]["output_tokens"] = json!(output);
        let steps = vec![Step::Send(head("200 OK", &[JSON])), Step::Send(body.to_string().into_bytes())];
        assert_eq!(answer(Api::Responses, steps, options()).await.unwrap().stop, stop);
    }
    let calls = [call("a", "read", "{\"path\":\"x\"}"), call("b", "rm", "")];
    let mut body = body(Api::Responses, &calls, End::Tools);
    body["usage"]["output_tokens"] = json!(4096);
    let steps = vec![Step::Send(head("200 OK", &[JSON])), Step::Send(body.to_string().into_bytes())];
    let reply = answer(Api::Responses, steps, options()).await.unwrap();
    assert!(reply.calls[0].args.is_ok());
    assert_eq!(reply.calls[1].args.as_ref().unwrap_err().reason, "cut off by the limit of output tokens");
}

/// The reply's value is not a place where our own secrets could be; what the provider says is kept as said.
#[tokio::test]
async fn ids_and_models_come_from_the_provider() {
    let parts = [Part::Text("hello")];
    let reply: Value = body(Api::Chat, &parts, End::Stop);
    let server =
        Server::start(vec![Step::Send(head("200 OK", &[JSON])), Step::Send(reply.to_string().into())]).await;
    let reply = send(Api::Chat, server.url(), options(), false).await.unwrap();
    assert_eq!((reply.id.as_str(), reply.model.as_str()), ("id_1", "m-1"));
}
