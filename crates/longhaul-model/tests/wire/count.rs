//! The provider's own count of a prompt's tokens: what is asked, what is understood, and what is not waited for.

use std::time::Duration;

use expect_test::expect;
use longhaul_model::wire::{Api, Client, Endpoint, Kind, Options, WireError};
use serde_json::{Value, json};

use crate::requests::{request, user};
use crate::server::{Server, Step, head};

const CANARY: &str = "sk-canary-4f9a1c77e2";
const JSON: (&str, &str) = ("content-type", "application/json");

fn endpoint(api: Api, base_url: String) -> Endpoint {
    Endpoint { api, base_url, key: Some(CANARY.into()), headers: Vec::new(), hidden: Vec::new() }
}

async fn count(api: Api, url: String) -> Result<Option<u64>, WireError> {
    let mut request = request(vec![user("hi")]);
    request.extra = json!({"temperature": 0, "thinking": {"type": "adaptive"}}).as_object().unwrap().clone();
    let options = Options { total_timeout: Duration::from_secs(30), ..Options::usual() };
    Client::new(options).unwrap().count_tokens(&endpoint(api, url), &request).await
}

async fn answer(api: Api, status: &str, body: &str) -> Result<Option<u64>, WireError> {
    let steps = vec![Step::Send(head(status, &[JSON])), Step::Send(body.as_bytes().to_vec())];
    count(api, Server::start(steps).await.url()).await
}

/// The prompt goes out as it would with the question itself; what is only about the reply stays behind, because the
/// services refuse it here.
#[tokio::test]
async fn only_the_prompt_is_asked_about() {
    let mut sent = String::new();
    for (api, path) in
        [(Api::Anthropic, "/v1/messages/count_tokens"), (Api::Responses, "/v1/responses/input_tokens")]
    {
        let steps =
            vec![Step::Send(head("200 OK", &[JSON])), Step::Send(b"{\"input_tokens\":2095}".to_vec())];
        let mut server = Server::start(steps).await;
        assert_eq!(count(api, format!("{}/v1", server.url())).await, Ok(Some(2095)));
        let asked = server.requests.recv().await.unwrap();
        let (head, body) = asked.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("POST {path} HTTP/1.1")), "{head}");
        assert!(head.contains(CANARY) && head.contains("accept: application/json"), "{head}");
        let mut body: Value = serde_json::from_str(body).unwrap();
        body["tools"] = json!(body["tools"].as_array().unwrap().len());
        sent.push_str(&format!("{body}\n"));
    }
    expect![[r#"
        {"messages":[{"content":[{"cache_control":{"type":"ephemeral"},"text":"hi","type":"text"}],"role":"user"}],"model":"m-1","system":[{"cache_control":{"type":"ephemeral"},"text":"You are careful.","type":"text"}],"thinking":{"type":"adaptive"},"tools":2}
        {"input":[{"content":[{"text":"hi","type":"input_text"}],"role":"user","type":"message"}],"instructions":"You are careful.","model":"m-1","tools":2}
    "#]].assert_eq(&sent);
}

/// Chat Completions has no such question, so nothing is sent.
#[tokio::test]
async fn without_the_question_there_is_no_count() {
    let mut server = Server::start(Vec::new()).await;
    assert_eq!(count(Api::Chat, server.url()).await, Ok(None));
    assert!(server.requests.try_recv().is_err());
    for status in ["404 Not Found", "405 Method Not Allowed", "501 Not Implemented"] {
        assert_eq!(answer(Api::Anthropic, status, "no such path").await, Ok(None), "{status}");
    }
}

#[tokio::test]
async fn failures_are_classified() {
    let model = r#"{"type":"error","error":{"type":"not_found_error","message":"model: m-1"}}"#;
    let key = format!(r#"{{"error":{{"type":"authentication_error","message":"bad key {CANARY}"}}}}"#);
    let large = format!(r#"{{"input_tokens":1,"padding":"{}"}}"#, "x".repeat(80 * 1024));
    let cases = [
        ("404 Not Found", model, Kind::ModelUnknown),
        ("401 Unauthorized", key.as_str(), Kind::Credentials),
        ("529 Overloaded", "", Kind::Retryable { after: None }),
        ("200 OK", "", Kind::Truncated),
        ("200 OK", r#"{"input_tok"#, Kind::Truncated),
        ("200 OK", "<html>", Kind::Malformed),
        ("200 OK", "{}", Kind::Malformed),
        ("200 OK", r#"{"input_tokens":-1}"#, Kind::Malformed),
        ("200 OK", r#"{"error":{"type":"overloaded_error"}}"#, Kind::Retryable { after: None }),
        ("200 OK", large.as_str(), Kind::TooLarge),
    ];
    for (status, body, kind) in cases {
        let error = answer(Api::Anthropic, status, body).await.unwrap_err();
        assert_eq!(error.kind, kind, "{status} {error}");
        assert!(!format!("{error:?} {error}").contains(CANARY), "{error}");
    }
}

/// A server that does not answer is not waited for longer than for a reply.
#[tokio::test]
async fn a_silent_server_is_given_up() {
    let server = Server::start(vec![Step::Hang]).await;
    let short = Options { total_timeout: Duration::from_millis(200), ..Options::usual() };
    let counted = Client::new(short).unwrap();
    let counted =
        counted.count_tokens(&endpoint(Api::Responses, server.url()), &request(vec![user("hi")])).await;
    assert_eq!(counted.unwrap_err().kind, Kind::Retryable { after: None });
}
