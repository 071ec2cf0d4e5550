//! A bad night: the provider is out of order for hours, and the run outlives it. Time is the test's own.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::run::{Phase, Run};
use longhaul_core::spec::RunSpec;
use longhaul_core::status::{Status, Wait};
use longhaul_core::time::Timestamp;
use longhaul_engine::clock::Clock;
use longhaul_engine::{Ending, Harness, Opening};
use longhaul_model::fake::{FakeProvider, Options};
use longhaul_model::provider::{ProviderConfig, Speaks};
use longhaul_model::{BoxFuture, Models, Quiet, Scripted};
use longhaul_store::Home;
use longhaul_testkit::fake_clock::FakeClock;
use longhaul_testkit::scripts;
use longhaul_tools::Toolbox;

const HOUR_MS: u64 = 3_600_000;

/// One good turn, then 110 refusals: at five minutes each that is more than eight hours.
const NIGHT: &str = r#"
name: night
conversations:
  - turns:
      - text: "I look."
        calls: [ { tool: bash, args: { command: "echo seen >> seen.txt" } } ]
        usage: { input: 1000, output: 10 }
      - fail: [ { status: 529, times: 60 }, { status: 503, times: 50 } ]
        text: "Done."
        usage: { input: 1100, output: 5 }
"#;

/// A clock that stops in the middle of a wait, as if the machine were switched off there.
struct StopsAt {
    clock: FakeClock,
    slept_ms_max: u64,
    stopped: AtomicBool,
}

impl Clock for StopsAt {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if self.clock.slept_ms() < self.slept_ms_max {
            return self.clock.sleep(duration);
        }
        self.stopped.store(true, Ordering::Relaxed);
        Box::pin(std::future::pending())
    }
}

fn harness(dir: &Path, server: &FakeProvider, api: Speaks, clock: Arc<dyn Clock>) -> Harness {
    let config = ProviderConfig { api: Some(api), base_url: Some(server.url()), ..ProviderConfig::default() };
    let models = Models {
        base_dir: dir.to_owned(),
        providers: BTreeMap::from([("night".to_owned(), config)]),
        ..Models::default()
    };
    let home = Home::open(&dir.join("state")).unwrap();
    Harness::durable(Arc::new(home), Toolbox::builtin(longhaul_tools::Sandbox::off()), models, clock)
}

fn create(harness: &Harness, dir: &Path) -> RunId {
    let id = harness.new_run_id().unwrap();
    let spec = scripts::spec(id.clone(), dir, &harness.toolbox, &["Look."]);
    harness.create(RunSpec { model: "night/any".to_owned(), ..spec }).unwrap();
    id
}

async fn server() -> FakeProvider {
    let script = Scripted::parse_for_any_tools("night.yaml", NIGHT).unwrap();
    FakeProvider::start(script, Options::open()).await.unwrap()
}

async fn drive(harness: &Harness, id: &RunId) -> (Run, Ending) {
    harness.drive(id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap().rest().await.unwrap()
}

/// The events of the run, each with what was known of the silence right after it.
fn news(harness: &Harness, id: &RunId) -> (usize, usize) {
    let (mut failures, mut told) = (0, 0);
    let mut onlooker = harness.onlooker(id).unwrap();
    onlooker
        .look(&mut |run, _, _, event| {
            if matches!(event, Event::TurnFailed { .. }) {
                failures += 1;
                told += usize::from(run.silence.as_ref().unwrap().is_news());
            }
        })
        .unwrap();
    (failures, told)
}

/// How often the model was asked; that its window was looked for in the provider's list is no question.
fn questions(server: &FakeProvider) -> usize {
    server.requests().iter().filter(|request| request.method == "POST").count()
}

/// F28: eight hours of refusals over each protocol: the run is alive at the end, has spent nothing meanwhile, goes on by
/// itself, and had one piece of news about it.
#[tokio::test]
async fn eight_hours_are_waited_out() {
    for api in [Speaks::Anthropic, Speaks::Responses, Speaks::Chat] {
        let dir = tempfile::tempdir().unwrap();
        let server = server().await;
        let clock = Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000)));
        let harness = harness(dir.path(), &server, api, Arc::clone(&clock) as Arc<dyn Clock>);
        let id = create(&harness, dir.path());
        let (run, ending) = drive(&harness, &id).await;
        assert_eq!((ending, run.status), (Ending::Completed, Status::Completed), "{api:?}");
        assert!(clock.slept_ms() > 8 * HOUR_MS, "{api:?}: {} ms", clock.slept_ms());
        assert_eq!(questions(&server), 112, "{api:?}: two answers and every refusal once");
        assert_eq!((run.usage.input_tokens, run.usage.output_tokens), (2100, 15), "{api:?}");
        assert_eq!(std::fs::read_to_string(dir.path().join("seen.txt")).unwrap(), "seen\n");
        assert_eq!(news(&harness, &id), (110, 1), "{api:?}");
    }
}

/// F28: the same with a kill in the middle of a wait. The next process waits for what is left of it, not for all of it and
/// not for nothing, and nothing is asked or done twice.
#[tokio::test]
async fn a_wait_outlives_its_process() {
    let dir = tempfile::tempdir().unwrap();
    let server = server().await;
    let start = Timestamp::from_millis(1_771_581_600_000);
    let stopping = Arc::new(StopsAt {
        clock: FakeClock::at(start),
        slept_ms_max: 2 * HOUR_MS,
        stopped: AtomicBool::new(false),
    });
    let first = harness(dir.path(), &server, Speaks::Anthropic, Arc::clone(&stopping) as Arc<dyn Clock>);
    let id = create(&first, dir.path());
    let driven = first.drive(&id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap();
    while !stopping.stopped.load(Ordering::Relaxed) {
        tokio::task::yield_now().await;
    }
    let run = first.look(&id).unwrap();
    assert_eq!((run.status, run.wait()), (Status::Running, Wait::Timer));
    let Phase::Resting { rest, .. } = run.phase else { panic!("{:?}", run.phase) };
    let failures = run.model_failures;
    driven.task.abort();
    drop(driven.rest().await);
    let asked = server.requests().len();

    let later = FakeClock::at(rest.until.plus_millis(0));
    later.jump(-60_000);
    let later = Arc::new(later);
    let second = harness(dir.path(), &server, Speaks::Anthropic, Arc::clone(&later) as Arc<dyn Clock>);
    let (run, ending) = drive(&second, &id).await;
    assert_eq!((ending, run.status), (Ending::Completed, Status::Completed));
    let mut slept = 0;
    second
        .onlooker(&id)
        .unwrap()
        .look(&mut |run, _, _, event| {
            if let Event::TurnFailed { retry: Some(rest), .. } = event
                && run.model_failures > failures
            {
                slept += rest.delay_ms;
            }
        })
        .unwrap();
    let left_ms = later.slept_ms() - slept;
    assert!((50_000..=60_000).contains(&left_ms), "{left_ms} ms were left of the wait");
    assert!(asked < 40, "{asked} requests before the kill");
    assert_eq!(questions(&server), 112, "no refusal was heard twice");
    assert_eq!(run.usage.input_tokens, 2100);
    assert_eq!(std::fs::read_to_string(dir.path().join("seen.txt")).unwrap(), "seen\n");
    assert_eq!(news(&second, &id), (110, 1));
}
