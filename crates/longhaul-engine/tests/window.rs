//! How much of a model's window a question may take: what its reply may take is not room for the question.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_engine::{Harness, Opening};
use longhaul_model::fake::{FakeProvider, Options};
use longhaul_model::provider::ProviderConfig;
use longhaul_model::{Models, Quiet, Scripted};
use longhaul_store::Home;
use longhaul_testkit::fake_clock::FakeClock;
use longhaul_testkit::scripts;
use longhaul_tools::Toolbox;
use serde_json::{Value, json};

/// Drives a run with a model of this server to its end.
async fn driven(server: &FakeProvider, config: Value) -> Run {
    let dir = tempfile::tempdir().unwrap();
    let mut config = config;
    config["base_url"] = server.url().into();
    let config: ProviderConfig = serde_json::from_value(config).unwrap();
    let models = Models { providers: BTreeMap::from([("p".to_owned(), config)]), ..Models::default() };
    let home = Arc::new(Home::open(&dir.path().join("state")).unwrap());
    let clock = Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000)));
    let harness = Harness::durable(home, Toolbox::builtin(longhaul_tools::Sandbox::off()), models, clock);
    let id = harness.new_run_id().unwrap();
    let spec = scripts::spec(id.clone(), dir.path(), &harness.toolbox, &["Say yes."]);
    harness.create(RunSpec { model: "p/served".to_owned(), ..spec }).unwrap();
    let driven = harness.drive(&id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap();
    let (run, _) = driven.rest().await.unwrap();
    assert_eq!(run.status, Status::Completed, "{:?}", run.reason);
    run
}

async fn serving(script: &str) -> FakeProvider {
    let script = Scripted::parse_for_any_tools("x.yaml", script).unwrap();
    FakeProvider::start(script, Options::open()).await.unwrap()
}

/// D4.1: the threshold is of what is left of the window when the reply has its room; but a small window is not given away.
#[tokio::test]
async fn a_reply_has_its_room_in_the_window() {
    let server = serving("conversations: [ { turns: [ { text: Yes., usage: { input: 9 } } ] } ]").await;
    for (window, reply, room) in
        [(32_000, 8000, 24_000), (32_000, 30_000, 16_000), (200_000, 200_000, 100_000)]
    {
        let config = json!({"api": "anthropic", "context_window": window, "max_output_tokens": reply});
        assert_eq!(driven(&server, config).await.fill.window, Some(room));
    }
}

/// A window that nobody configured and no table knows is the one the server lists.
#[tokio::test]
async fn a_server_says_how_large_its_window_is() {
    let script = "context_window: 131072\nname: served\nconversations: [ { turns: [ { text: Yes., usage: { input: 9 } } ] } ]";
    let server = serving(script).await;
    for (api, window, room) in
        [("chat", None, 131_072), ("responses", None, 131_072), ("chat", Some(50_000), 50_000)]
    {
        let config = json!({"api": api, "context_window": window});
        assert_eq!(driven(&server, config).await.fill.window, Some(room), "{api} {window:?}");
    }
}

/// C3: where a provider does not say what it read, it is asked once how much instructions and tools are, or that is estimated
/// where it has no such question. They are no room for the conversation.
#[tokio::test]
async fn what_nobody_counted_is_counted_once() {
    let turn = "{ text: a, calls: [ { tool: read, args: { path: x } } ] }";
    let server =
        serving(&format!("conversations: [ {{ turns: [ {turn}, {turn}, {{ text: Yes. }} ] }} ]")).await;
    for (api, counts) in [("anthropic", 1), ("responses", 1), ("chat", 0)] {
        let counted = |server: &FakeProvider| {
            let is_count = |path: &str| path.ends_with("/count_tokens") || path.ends_with("/input_tokens");
            server.requests().iter().filter(|request| is_count(&request.path)).count()
        };
        let before = counted(&server);
        let run = driven(&server, json!({"api": api, "context_window": 50_000})).await;
        let window = run.fill.window.unwrap();
        assert!((25_000..49_900).contains(&window), "{api}: {window}");
        assert_eq!((run.turns, counted(&server) - before), (3, counts), "{api}");
    }
}
