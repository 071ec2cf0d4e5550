//! A whole night, in which everything goes wrong that can: rate limits, an outage, broken streams, one that stalls, an agent that lies about
//! being done, one that goes round in circles, a budget, and five deaths of the process. Time is the test's own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::wildcard_enum_match_arm, reason = "a test picks out what it looks for")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use longhaul_core::conduct::{Conduct, Looping};
use longhaul_core::event::{Cause, Event, FreshStart, StopAction};
use longhaul_core::ids::RunId;
use longhaul_core::money::Usd;
use longhaul_core::report::Report;
use longhaul_core::run::Run;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_engine::clock::Clock;
use longhaul_engine::{Ending, Harness, Opening};
use longhaul_model::fake::{FakeProvider, Options};
use longhaul_model::provider::ProviderConfig;
use longhaul_model::{Models, Quiet, Scripted};
use longhaul_store::Home;
use longhaul_testkit::fake_clock::FakeClock;
use longhaul_testkit::scripts;
use longhaul_tools::Toolbox;
use serde_json::json;

const HOUR_MS: u64 = 3_600_000;

const NIGHT: &str = r#"
name: night
conversations:
  - match: { prompt_contains: "iteration 2 of" }
    turns:
      - { calls: [ { tool: bash, args: { command: "cat nothing" } } ], usage: { input: 1000, output: 10 } }
      - { calls: [ { tool: bash, args: { command: "cat nothing" } } ], usage: { input: 1000, output: 10 } }
      - { calls: [ { tool: bash, args: { command: "cat nothing" } } ], usage: { input: 1000, output: 10 } }
      - { calls: [ { tool: bash, args: { command: "cat nothing" } } ], usage: { input: 1000, output: 10 } }
  - match: { prompt_contains: "iteration 3 of" }
    turns:
      - fail: [ { stall_ms: 20000 }, { disconnect_after_bytes: 40 }, { status: 529, times: 110 } ]
        calls: [ { tool: bash, args: { command: "echo part >> part.txt" } } ]
        usage: { input: 1000, output: 10 }
      - { text: "Half of it is there.", usage: { input: 1000, output: 10 } }
  - match: { prompt_contains: "iteration 4 of" }
    turns:
      - calls: [ { tool: write, args: { path: ok.txt, content: "ok\n" } } ]
        usage: { input: 300000, output: 1000 }
      - { text: "It is there.\nTASK_COMPLETE", usage: { input: 1000, output: 10 } }
  - turns:
      - fail: [ { status: 429, times: 3 }, { status: 503, times: 20 } ]
        text: "I look."
        calls: [ { tool: bash, args: { command: "echo seen >> seen.txt" } } ]
        usage: { input: 1000, output: 10 }
      - { text: "All is done.\nTASK_COMPLETE", usage: { input: 1000, output: 10 } }
"#;

fn harness(dir: &Path, server: &FakeProvider, clock: Arc<dyn Clock>) -> Harness {
    let config: ProviderConfig = serde_json::from_value(json!({
        "api": "anthropic",
        "base_url": server.url(),
        "prices": { "input": 3.0, "output": 15.0 },
        "context_window": 1_000_000,
        "idle_timeout_s": 1,
    }))
    .unwrap();
    let models = Models {
        base_dir: dir.to_owned(),
        providers: BTreeMap::from([("night".to_owned(), config)]),
        ..Models::default()
    };
    let home = Home::open(&dir.join("state")).unwrap();
    Harness::durable(Arc::new(home), Toolbox::builtin(longhaul_tools::Sandbox::off()), models, clock)
}

fn create(harness: &Harness, workspace: &Path) -> RunId {
    let id = harness.new_run_id().unwrap();
    let spec = scripts::spec(id.clone(), workspace, &harness.toolbox, &["Make ok.txt."]);
    let conduct = Conduct {
        looping: Some(Looping { max_iterations: 20, ..Looping::default() }),
        verify: vec!["test -f ok.txt".to_owned()],
        ..Conduct::default()
    };
    let limits = Limits { max_cost: Usd::from_dollars(0.50), ..Limits::default() };
    let model = "night/any".to_owned();
    harness.create(RunSpec { model, limits, conduct: Some(Box::new(conduct)), ..spec }).unwrap();
    id
}

/// Drives until the journal has so many events, and dies there.
async fn drive_until(harness: &Harness, id: &RunId, events: u64) {
    let driven = harness.drive(id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap();
    while !driven.task.is_finished() && harness.look(id).unwrap().seq < events {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    driven.task.abort();
    drop(driven.rest().await);
}

fn events(harness: &Harness, id: &RunId) -> Vec<Event> {
    let mut events = Vec::new();
    harness.onlooker(id).unwrap().look(&mut |_, _, _, event| events.push(event.clone())).unwrap();
    events
}

/// Pains 1, 5, 7, 8, 15, 19: the night ends by itself at its budget, with the work kept and everything told; a higher budget
/// in the morning brings it to its shown end. Nothing was done twice.
#[tokio::test]
async fn a_night_in_which_everything_goes_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let workspace = dir.path().join("work");
    std::fs::create_dir(&workspace).unwrap();
    let script = Scripted::parse_for_any_tools("night.yaml", NIGHT).unwrap();
    let server = FakeProvider::start(script, Options::open()).await.unwrap();
    let clock = Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000)));
    let harness = harness(dir.path(), &server, Arc::clone(&clock) as Arc<dyn Clock>);
    let id = create(&harness, &workspace);
    for events in [8, 20, 45, 70, 130] {
        drive_until(&harness, &id, events).await;
    }
    let driven = harness.drive(&id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap();
    let (run, ending): (Run, Ending) = driven.rest().await.unwrap();

    assert_eq!((ending, run.status), (Ending::Paused(Cause::Limit), Status::Paused), "{:?}", run.reason);
    assert!(run.reason.as_ref().unwrap().starts_with("cost_budget"), "{:?}", run.reason);
    assert!(clock.slept_ms() > 8 * HOUR_MS, "{} ms", clock.slept_ms());
    assert_eq!(run.iteration, 4);
    let told = events(&harness, &id);
    let deaths = told.iter().filter(|event| matches!(event, Event::Recovered { .. })).count();
    assert_eq!(deaths, 5);
    let stalled = |event: &&Event| matches!(event, Event::TurnFailed { message, .. } if message.contains("did not move forward"));
    assert!(told.iter().any(|event| stalled(&event)), "a stream that stalls is given up");
    let fresh: Vec<FreshStart> = told
        .iter()
        .filter_map(|event| match event {
            Event::IterationStarted { why, .. } => Some(*why),
            _ => None,
        })
        .collect();
    assert_eq!(fresh, [FreshStart::Refuted, FreshStart::DoomLoop, FreshStart::NoPromise]);
    let text = Report::of(&run).markdown();
    assert!(
        text.contains("paused") && text.contains("cost_budget") && text.contains("What remains"),
        "{text}"
    );

    // The morning.
    let limits = Some(Limits { max_cost: Usd::from_dollars(5.0), ..run.spec.limits });
    let opening = Opening { limits, ..Opening::default() };
    let (run, ending) =
        harness.drive(&id, opening, Vec::new(), Arc::new(Quiet)).unwrap().rest().await.unwrap();
    assert_eq!((ending, run.status), (Ending::Completed, Status::Completed));
    let last = events(&harness, &id).into_iter().rev().find_map(|event| match event {
        Event::AgentStopped { action, .. } => Some(action),
        _ => None,
    });
    assert_eq!(last, Some(StopAction::Complete));
    let text = Report::of(&run).markdown();
    assert!(
        text.contains("completed, and shown to be done") && text.contains("passed: `test -f ok.txt`"),
        "{text}"
    );
    let read = |name: &str| std::fs::read_to_string(workspace.join(name)).unwrap_or_default();
    assert_eq!(read("ok.txt"), "ok\n");
    // A command that a death cut short is not repeated; it may not have had its effect.
    assert!(
        read("part.txt").lines().count() <= 1 && read("seen.txt").lines().count() <= 1,
        "nothing was done twice: {:?}",
        run.calls
            .iter()
            .map(|call| (
                call.id,
                call.iteration,
                call.turn,
                call.args.as_str(),
                call.outcome().is_some_and(|o| o.is_done())
            ))
            .collect::<Vec<_>>()
    );
}
