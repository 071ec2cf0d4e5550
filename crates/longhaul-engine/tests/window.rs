//! How much of a model's window a question may take: what its reply may take is not room for the question.

use std::collections::BTreeMap;
use std::sync::Arc;

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
use serde_json::json;

/// D4.1: the threshold is of what is left of the window when the reply has its room; but a small window is not given away.
#[tokio::test]
async fn a_reply_has_its_room_in_the_window() {
    let script =
        Scripted::parse_for_any_tools("x.yaml", "conversations: [ { turns: [ { text: Yes. } ] } ]").unwrap();
    let server = FakeProvider::start(script, Options::open()).await.unwrap();
    for (window, reply, room) in
        [(32_000, 8000, 24_000), (32_000, 30_000, 16_000), (200_000, 200_000, 100_000)]
    {
        let dir = tempfile::tempdir().unwrap();
        let config: ProviderConfig = serde_json::from_value(json!({
            "api": "anthropic",
            "base_url": server.url(),
            "context_window": window,
            "max_output_tokens": reply,
        }))
        .unwrap();
        let models = Models { providers: BTreeMap::from([("p".to_owned(), config)]), ..Models::default() };
        let home = Arc::new(Home::open(&dir.path().join("state")).unwrap());
        let clock = Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000)));
        let harness = Harness::durable(home, Toolbox::builtin(longhaul_tools::Sandbox::off()), models, clock);
        let id = harness.new_run_id().unwrap();
        let spec = scripts::spec(id.clone(), dir.path(), &harness.toolbox, &["Say yes."]);
        harness.create(RunSpec { model: "p/any".to_owned(), ..spec }).unwrap();
        let driven = harness.drive(&id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap();
        let (run, _) = driven.rest().await.unwrap();
        assert_eq!((run.status, run.fill.window), (Status::Completed, Some(room)), "{:?}", run.reason);
    }
}
