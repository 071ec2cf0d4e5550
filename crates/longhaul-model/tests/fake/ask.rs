//! A server with a script, and the client that asks it.

use std::time::Duration;

use longhaul_model::fake::{FakeProvider, Options as ServerOptions};
use longhaul_model::wire::{Api, Client, Endpoint, Options, Reply, Request, ToolOffer, Turn, WireError};
use longhaul_model::{Quiet, Scripted};
use serde_json::{Map, json};

pub const KEY: &str = "sk-canary-77aa01b2";
pub const LONG: Duration = Duration::from_secs(60);
pub const SHORT: Duration = Duration::from_millis(250);

/// Every way to ask: three protocols, each with and without a stream.
pub const WAYS: [(Api, bool); 6] = [
    (Api::Anthropic, true),
    (Api::Anthropic, false),
    (Api::Responses, true),
    (Api::Responses, false),
    (Api::Chat, true),
    (Api::Chat, false),
];

pub async fn serve(script: &str) -> FakeProvider {
    let script = Scripted::parse_for_any_tools("fake.yaml", script).unwrap();
    FakeProvider::start(script, ServerOptions::open()).await.unwrap()
}

/// A server whose first turn says `OK` after these failures.
pub async fn failing(fail: &str) -> FakeProvider {
    serve(&format!("conversations: [ {{ turns: [ {{ text: 'OK then', fail: [ {fail} ] }} ] }} ]")).await
}

pub fn patient() -> Options {
    Options { connect_timeout: LONG, idle_timeout: LONG, total_timeout: LONG, ..Options::usual() }
}

pub fn endpoint(server: &FakeProvider, api: Api) -> Endpoint {
    Endpoint { api, base_url: server.url(), key: Some(KEY.into()), headers: Vec::new(), hidden: Vec::new() }
}

pub fn request(turns: Vec<Turn>, stream: bool) -> Request {
    let read = ToolOffer {
        name: "read".to_owned(),
        description: "Reads.".to_owned(),
        schema: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    Request {
        model: "fake-1".to_owned(),
        system: "Be careful.".to_owned(),
        turns,
        tools: vec![read],
        max_output_tokens: Some(4096),
        answer_schema: None,
        stream,
        manners: Default::default(),
        extra: Map::new(),
    }
}

pub fn user(text: &str) -> Turn {
    Turn::User { text: text.to_owned() }
}

/// Asks the first question.
pub async fn ask(server: &FakeProvider, way: (Api, bool), options: Options) -> Result<Reply, WireError> {
    send(server, way, options, vec![user("Go.")]).await
}

/// Asks for the turn after these, and expects a reply.
pub async fn go_on(server: &FakeProvider, way: (Api, bool), turns: &[Turn]) -> Reply {
    send(server, way, patient(), turns.to_vec()).await.unwrap()
}

async fn send(
    server: &FakeProvider,
    (api, stream): (Api, bool),
    options: Options,
    turns: Vec<Turn>,
) -> Result<Reply, WireError> {
    let request = request(turns, stream);
    Client::new(options).unwrap().send(&endpoint(server, api), &request, &Quiet).await
}
