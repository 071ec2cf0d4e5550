//! A server that refuses some requests and answers the others, and a model's provider that asks it.

use std::sync::{Arc, Mutex};

use longhaul_model::provider::Speaks;
use longhaul_model::{Model as _, Models, Provider, ProviderConfig, Quiet};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::images::seen;

const CHAT: &str = "data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"OK\"}}]}\n\n\
                    data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
const RESPONSES: &str = "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[{\"type\":\
                         \"message\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"OK\"}]}]}}\n\n";

/// A server that refuses every request with these letters in it. What it was sent.
pub async fn refusing(
    api: Speaks,
    letters: &'static str,
    refusal: &'static str,
) -> (Provider, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = Arc::clone(&sent);
    let reply = if api == Speaks::Responses { RESPONSES } else { CHAT };
    tokio::spawn(async move {
        while let Ok((mut line, _)) = listener.accept().await {
            let request = received(&mut line).await;
            let (status, kind, body) = if request.contains(letters) {
                ("400 Bad Request", "application/json", refusal)
            } else {
                ("200 OK", "text/event-stream", reply)
            };
            heard.lock().unwrap().push(request);
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            line.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let config = ProviderConfig {
        api: Some(api),
        base_url: Some(format!("http://{address}")),
        // Else it would be asked for.
        context_window: Some(8000),
        ..ProviderConfig::default()
    };
    let models = Models { providers: [("net".to_owned(), config)].into(), ..Models::default() };
    (models.provider("net/m").unwrap(), sent)
}

async fn received(line: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    loop {
        let mut more = [0; 4096];
        let count = line.read(&mut more).await.unwrap();
        bytes.extend_from_slice(&more[..count]);
        let text = String::from_utf8_lossy(&bytes).to_lowercase();
        let length = text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
        let body = text.split_once("\r\n\r\n").map(|(_, body)| body.len());
        if count == 0 || body.zip(length).is_some_and(|(body, length): (usize, usize)| body >= length) {
            return String::from_utf8_lossy(&bytes).into_owned();
        }
    }
}

/// A model without encrypted thoughts that is asked for them is asked again without the wish, and then never more.
#[tokio::test]
async fn a_model_that_refuses_the_wish_for_thoughts_is_asked_without() {
    const REFUSAL: &str = r#"{"error":{"message":"Encrypted content is not supported with this model.",
        "type":"invalid_request_error","param":"include","code":null}}"#;
    let (provider, sent) = refusing(Speaks::Responses, "reasoning.encrypted_content", REFUSAL).await;
    for requests in [2, 1] {
        assert_eq!(provider.call(seen(&[]), &Quiet).await.unwrap().text, "OK");
        assert_eq!(sent.lock().unwrap().drain(..).count(), requests);
    }
}

/// A refusal for another reason is one.
#[tokio::test]
async fn another_refusal_is_not_asked_again() {
    const REFUSAL: &str = r#"{"error":{"message":"no","type":"invalid_request_error"}}"#;
    let (provider, sent) = refusing(Speaks::Responses, "reasoning.encrypted_content", REFUSAL).await;
    provider.call(seen(&[]), &Quiet).await.unwrap_err();
    assert_eq!(sent.lock().unwrap().len(), 1);
}
