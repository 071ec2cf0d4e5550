//! A sub-agent whose tool never comes back: it is ended for its silence, and what it was sent for is tried again.

use std::sync::Arc;

use longhaul_core::child::ChildState;
use longhaul_core::json::Json;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::spec::{Limits, Mate, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Trace};
use longhaul_engine::{Harness, Opening};
use longhaul_model::{Models, Quiet};
use longhaul_testkit::fake_clock::FakeClock;
use longhaul_testkit::scripts;
use longhaul_tools::{BoxFuture, Context, Tool, ToolSpec, Toolbox};

const SCRIPT: &str = r#"
conversations:
  - match: { prompt_contains: "An earlier try at this failed" }
    turns: [ { text: "It is done." } ]
  - turns: [ { calls: [ { tool: hang, args: {} } ] }, { text: "never said" } ]
"#;

/// A tool that only ends when it is told to.
struct Hang(ToolSpec);

impl Tool for Hang {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, context: &'a Context, _: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            context.cancel.cancelled().await;
            Outcome::failed(Failure::Cancelled, "told to end")
        })
    }
}

/// A6.4: nothing is heard of a child for longer than is allowed; it is ended with that reason, and the next try is told.
#[tokio::test]
async fn a_child_of_which_nothing_is_heard_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("s.yaml"), SCRIPT).unwrap();
    let toolbox = Toolbox::default().with(Arc::new(Hang(ToolSpec {
        name: "hang".to_owned(),
        description: "Waits.".to_owned(),
        class: EffectClass::Once,
        schema: serde_json::json!({ "type": "object" }),
    })));
    let models = Models { base_dir: dir.path().to_owned(), ..Models::default() };
    let clock = Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000)));
    let harness = Harness::forgetful(toolbox, models, clock);
    let id = harness.new_run_id().unwrap();
    let spec = RunSpec {
        model: "scripted/s.yaml".to_owned(),
        plan: Plan { steps: vec![Step::new("a", "do it", "PLUTO")] }.checked().unwrap(),
        crew: Some(vec![Mate { name: "PLUTO".to_owned(), role: "helps".to_owned() }]),
        limits: Limits { max_child_idle_ms: Some(2000), ..Limits::default() },
        ..scripts::spec(id.clone(), dir.path(), &harness.toolbox, &["all of it"])
    };
    harness.create(spec).unwrap();
    let driven = harness.drive(&id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap();
    let (run, _) = driven.rest().await.unwrap();
    assert_eq!((run.status, run.children.len()), (Status::Completed, 2), "{:?}", run.error);
    let ChildState::Failed { error } = &run.children[0].state else { panic!("{:?}", run.children[0]) };
    assert!(error.starts_with("idle: nothing came of it"), "{error}");
    let first = harness.look(&run.children[0].errand.id).unwrap();
    assert_eq!(first.status, Status::Failed, "it is not left at work");
}
