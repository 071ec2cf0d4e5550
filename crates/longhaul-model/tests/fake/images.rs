//! A model that refuses images, or one of them: it is asked again without, once, and what it refused is not shown to it again.

use std::sync::{Arc, Mutex};

use longhaul_core::conversation::{CallRequest, Message, ModelRequest, Scene};
use longhaul_core::ids::{Attempt, CallId, RunId};
use longhaul_core::json::Json;
use longhaul_core::tool::Image;
use longhaul_model::provider::Speaks;
use longhaul_model::{Model as _, Provider, Quiet};

use crate::refusing::refusing;

const REFUSAL: &str =
    r#"{"error":{"message":"image input is not supported by this model","type":"invalid_request_error"}}"#;

/// A conversation in which each of these was read, one after the other.
pub fn seen(pictures: &[&str]) -> ModelRequest {
    let mut messages = vec![Message::User { text: "Look.".to_owned() }];
    for (number, picture) in (1..).zip(pictures) {
        let id = CallId(number);
        let args = Json::empty_object();
        let call = CallRequest { id, tool: "read".into(), args, provider_id: None };
        messages.push(Message::Assistant { text: String::new(), calls: vec![call], raw: None });
        let image = Image {
            blob: (*picture).to_owned(),
            media_type: "image/png".to_owned(),
            width: 1,
            height: 1,
            bytes: 3,
        };
        messages.push(Message::Tool { call: id, failed: false, text: "seen".into(), images: vec![image] });
    }
    ModelRequest {
        model: "net/m".into(),
        system: "You are careful.".into(),
        messages: Arc::new(messages),
        tools: Arc::from(["read".to_owned()]),
        answer_schema: None,
        scene: Scene {
            run: RunId::from_bits(1),
            agent: "coder".into(),
            step: "step-1".into(),
            iteration: 1,
            depth: 0,
            turn: 1,
            attempt: Attempt::FIRST,
        },
        pictures: pictures
            .iter()
            .map(|picture| ((*picture).to_owned(), picture.as_bytes().to_vec()))
            .collect(),
    }
}

/// Asks and expects a reply. Which of the requests had the images `one` and `two` in them.
async fn shown(provider: &Provider, sent: &Mutex<Vec<String>>, pictures: &[&str]) -> Vec<(bool, bool)> {
    let reply = provider.call(seen(pictures), &Quiet).await.unwrap();
    assert_eq!(reply.text, "OK");
    let has = |request: &String| (request.contains(";base64,b25l"), request.contains(";base64,dHdv"));
    sent.lock().unwrap().drain(..).map(|request| has(&request)).collect()
}

/// A model that takes no images gets the words, after one try with each image.
#[tokio::test]
async fn a_model_that_refuses_images_is_asked_without() {
    let (provider, sent) = refusing(Speaks::Chat, ";base64,", REFUSAL).await;
    assert_eq!(shown(&provider, &sent, &["one"]).await, [(true, false), (false, false)]);
    assert_eq!(shown(&provider, &sent, &["one"]).await, [(false, false)]);
    assert_eq!(shown(&provider, &sent, &["one", "two"]).await, [(false, true), (false, false)]);
    let reply = provider.call(seen(&["one"]), &Quiet).await.unwrap();
    assert_eq!(reply.text, "OK");
    assert!(
        sent.lock().unwrap()[0].contains("[image/png, 1×1, 3 bytes, not shown: this model does not take it]")
    );
}

/// One image that the model cannot read does not take the others away.
#[tokio::test]
async fn one_bad_image_is_left_out_alone() {
    let (provider, sent) = refusing(Speaks::Chat, ";base64,dHdv", REFUSAL).await;
    assert_eq!(shown(&provider, &sent, &["one"]).await, [(true, false)]);
    assert_eq!(shown(&provider, &sent, &["one", "two"]).await, [(true, true), (true, false)]);
    assert_eq!(shown(&provider, &sent, &["one", "two"]).await, [(true, false)]);
}
