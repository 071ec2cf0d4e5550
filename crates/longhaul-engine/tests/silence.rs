//! A sub-agent whose tool never comes back: it is ended for its silence, and what it was sent for is tried again.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::child::ChildState;
use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::run::Run;
use longhaul_core::spec::{Limits, Mate, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Trace};
use longhaul_engine::clock::Clock;
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

/// A parent whose one step is done by a child, in a harness whose `hang` is of this class.
fn sent(dir: &Path, class: EffectClass, idle_ms: u64) -> (Harness, RunId, Arc<FakeClock>) {
    std::fs::write(dir.join("s.yaml"), SCRIPT).unwrap();
    let toolbox = Toolbox::default().with(Arc::new(Hang(ToolSpec {
        name: "hang".to_owned(),
        description: "Waits.".to_owned(),
        class,
        schema: serde_json::json!({ "type": "object" }),
    })));
    let models = Models { base_dir: dir.to_owned(), ..Models::default() };
    let clock = Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000)));
    let harness = Harness::forgetful(toolbox, models, Arc::clone(&clock) as Arc<dyn Clock>);
    let id = harness.new_run_id().unwrap();
    let spec = RunSpec {
        model: "scripted/s.yaml".to_owned(),
        plan: Plan { steps: vec![Step::new("a", "do it", "PLUTO")] }.checked().unwrap(),
        crew: Some(vec![Mate { name: "PLUTO".to_owned(), role: "helps".to_owned() }]),
        limits: Limits { max_child_idle_ms: Some(idle_ms), ..Limits::default() },
        ..scripts::spec(id.clone(), dir, &harness.toolbox, &["all of it"])
    };
    harness.create(spec).unwrap();
    (harness, id, clock)
}

async fn driven(harness: &Harness, id: &RunId) -> Run {
    let driven = harness.drive(id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap();
    driven.rest().await.unwrap().0
}

/// Why the first of two tries was given up.
fn first_error(run: &Run) -> &str {
    assert_eq!((run.status, run.children.len()), (Status::Completed, 2), "{:?}", run.error);
    let ChildState::Failed { error } = &run.children[0].state else { panic!("{:?}", run.children[0]) };
    error
}

/// A6.4: nothing is heard of a child for longer than is allowed; it is ended with that reason, and the next try is told.
#[tokio::test]
async fn a_child_of_which_nothing_is_heard_is_ended() {
    let dir = tempfile::tempdir().unwrap();
    let (harness, id, _) = sent(dir.path(), EffectClass::Once, 2000);
    let run = driven(&harness, &id).await;
    let error = first_error(&run);
    assert!(error.starts_with("idle: nothing came of it"), "{error}");
    let first = harness.look(&run.children[0].errand.id).unwrap();
    assert_eq!(first.status, Status::Failed, "it is not left at work");
}

/// A6.4: the silence of a child whose process died began with its last event: it is not counted anew by whoever takes it up, and
/// that it was taken up is no word of its own.
#[test]
fn silence_outlives_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let (harness, id, clock) = sent(dir.path(), EffectClass::Repeatable, 4000);
    let dying = tokio::runtime::Runtime::new().unwrap();
    dying.block_on(async {
        let driven = harness.drive(&id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap();
        let hangs = || {
            let run = harness.look(&id).unwrap();
            let child = run.children.first().and_then(|child| harness.look(&child.errand.id).ok());
            child.is_some_and(|child| child.open_call().is_some())
        };
        while !hangs() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Not told to end: its tasks are dropped where they stand.
        std::mem::forget(driven);
    });
    drop(dying);
    clock.jump(3_600_000);

    let run = tokio::runtime::Runtime::new().unwrap().block_on(driven(&harness, &id));
    let error = first_error(&run);
    assert!(error.starts_with("idle: nothing came of it for 360"), "more than an hour: {error}");
}
