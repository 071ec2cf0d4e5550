//! What a whole tree has spent stays counted, and a pause or a stop reaches the last of it, whoever dies meanwhile. Real runs in
//! real files; only time, the model and one tool are made up. Every reply costs the same, so replies are what is counted.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use longhaul_core::command::Wish;
use longhaul_core::event::{Cause, Event};
use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::run::Run;
use longhaul_core::spec::{Autonomy, Mate, RunSpec};
use longhaul_core::status::{Status, Wait};
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, Outcome, ToolGrant, Trace};
use longhaul_engine::checkpoints::Point;
use longhaul_engine::{Driven, Ending, Harness, Opening};
use longhaul_model::{Models, Quiet};
use longhaul_store::Home;
use longhaul_testkit::fake_clock::FakeClock;
use longhaul_testkit::scripts::{self, AGENT};
use longhaul_tools::{AskHuman, BoxFuture, Context, Spawn, Tool, ToolSpec, Toolbox};
use serde_json::json;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// PLUTO stays, VENUS sends PLUTO, ERIS asks a person; the others do something that may change files, so that these are stored.
const SCRIPT: &str = r#"
prices: { input: 3, output: 15 }
conversations:
  - match: { agent: VENUS }
    turns:
      - { calls: [ { tool: spawn, args: { agent: PLUTO, task: look } } ], usage: { input: 1000, output: 100 } }
      - { text: sent, usage: { input: 1000, output: 100 } }
  - match: { agent: PLUTO }
    turns:
      - { calls: [ { tool: stay, args: {} } ], usage: { input: 1000, output: 100 } }
      - { text: stayed, usage: { input: 1000, output: 100 } }
  - match: { agent: ERIS }
    turns:
      - { calls: [ { tool: ask_human, args: { question: "which?" } } ], usage: { input: 1000, output: 100 } }
      - { text: heard, usage: { input: 1000, output: 100 } }
  - turns:
      - { calls: [ { tool: mark, args: {} } ], usage: { input: 1000, output: 100 } }
      - { text: done, usage: { input: 1000, output: 100 } }
"#;

const REPLY_NANOS: u64 = 4_500_000;

/// Replies until everybody at the bottom of [`tree`] stays where it is: four of the run's own, three of those below.
const BEGUN: u64 = 7;

/// Those that are left then, with the last step's.
const LEFT: u64 = 5;

/// Those below and of the last step, if all of them are sent once more.
const SENT_AGAIN: u64 = 8;

/// Those of one step of the run's own.
const OWN_STEP: u64 = 2;

/// Stays until its run rests, as long as that is wanted.
struct Stay {
    spec: ToolSpec,
    stays: Arc<AtomicBool>,
    staying: Arc<AtomicUsize>,
}

impl Tool for Stay {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, context: &'a Context, _: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            self.staying.fetch_add(1, Ordering::SeqCst);
            if self.stays.load(Ordering::SeqCst) {
                context.cancel.cancelled().await;
            }
            Outcome::done("it was left")
        })
    }
}

struct World {
    dir: TempDir,
    home: Arc<Home>,
    harness: Harness,
    id: RunId,
    stays: Arc<AtomicBool>,
    staying: Arc<AtomicUsize>,
}

impl World {
    fn new(steps: Vec<Step>) -> World {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("work");
        fs::create_dir(&workspace).unwrap();
        fs::write(dir.path().join("s.yaml"), SCRIPT).unwrap();
        let (stays, staying) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicUsize::new(0)));
        let home = Arc::new(Home::open(&dir.path().join("state")).unwrap());
        let models = Models { base_dir: dir.path().to_owned(), ..Models::default() };
        let clock = Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000)));
        let stay = Stay { spec: tool("stay"), stays: Arc::clone(&stays), staying: Arc::clone(&staying) };
        let mark = Stay { spec: tool("mark"), stays: Arc::default(), staying: Arc::default() };
        let toolbox = Toolbox::default()
            .with(Arc::new(mark))
            .with(Arc::new(Spawn::default()))
            .with(Arc::new(AskHuman::default()));
        let harness = Harness::durable(Arc::clone(&home), toolbox.with(Arc::new(stay)), models, clock);
        let id = harness.new_run_id().unwrap();
        harness.create(spec(&id, &workspace, &harness.toolbox, steps)).unwrap();
        World { dir, home, harness, id, stays, staying }
    }

    /// Drives the run until so many stay where they are.
    fn begin(&self, staying: usize) -> (Runtime, Driven) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let driven = runtime.block_on(async {
            let driven =
                self.harness.drive(&self.id, Opening::default(), Vec::new(), Arc::new(Quiet)).unwrap();
            while self.staying.load(Ordering::SeqCst) < staying {
                tokio::task::yield_now().await;
            }
            driven
        });
        (runtime, driven)
    }

    /// The same, and then nothing of its process is left. What is sent from here on does not stay.
    fn begin_and_die(&self, staying: usize) {
        drop(self.begin(staying));
        self.stays.store(false, Ordering::SeqCst);
    }

    fn drive(&self) -> (Run, Ending) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let driven = self.harness.drive(&self.id, Opening::default(), Vec::new(), Arc::new(Quiet));
            driven.unwrap().rest().await.unwrap()
        })
    }

    fn complete(&self) {
        let (run, _) = self.drive();
        assert_eq!(run.status, Status::Completed, "{:?}", run.reason);
    }

    fn apply(&self, wish: Wish) {
        self.harness.apply(&self.id, self.harness.command(wish).unwrap()).unwrap();
    }

    fn post(&self, wish: Wish) {
        self.harness.post(&self.id, &self.harness.command(wish).unwrap()).unwrap();
    }

    /// Replies that the run knows to be paid for.
    fn known(&self) -> u64 {
        self.harness.look(&self.id).unwrap().ledger().usage.cost.as_nanos() / REPLY_NANOS
    }

    /// Replies in all journals that are not put away.
    fn made(&self) -> u64 {
        let mut made = 0;
        for run in self.home.all_runs().unwrap() {
            let mut count = |event: &Event| made += u64::from(matches!(event, Event::ModelReplied { .. }));
            self.harness.onlooker(&run).unwrap().look(&mut |_, _, _, event| count(event)).unwrap();
        }
        made
    }

    fn statuses(&self) -> Vec<Status> {
        let runs = self.home.all_runs().unwrap();
        runs.iter().map(|run| self.harness.look(run).unwrap().status).collect()
    }
}

fn tool(name: &str) -> ToolSpec {
    let (description, schema) = ("Stays.".to_owned(), json!({ "type": "object" }));
    ToolSpec { name: name.to_owned(), description, class: EffectClass::Once, schema }
}

fn step(id: &str, agent: &str, dependencies: &[&str]) -> Step {
    let dependencies = dependencies.iter().map(|id| (*id).to_owned()).collect();
    Step { dependencies, ..Step::new(id, &format!("do {id}"), agent) }
}

fn tree() -> Vec<Step> {
    vec![
        step("first", AGENT, &[]),
        step("own", AGENT, &["first"]),
        step("a", "PLUTO", &["own"]),
        step("b", "VENUS", &["own"]),
        step("z", AGENT, &["a", "b"]),
    ]
}

fn spec(id: &RunId, workspace: &Path, toolbox: &Toolbox, steps: Vec<Step>) -> RunSpec {
    let mate = |name: &str| Mate { name: name.to_owned(), role: "helps".to_owned() };
    let mut spec = RunSpec {
        model: "scripted/s.yaml".to_owned(),
        plan: Plan { steps }.checked().unwrap(),
        crew: Some(["PLUTO", "VENUS", "ERIS"].map(mate).to_vec()),
        autonomy: Autonomy::new(3).unwrap(),
        ..scripts::spec(id.clone(), workspace, toolbox, &["all of it"])
    };
    if !spec.tools.iter().any(|tool| tool.name == "spawn") {
        spec.tools.push(ToolGrant { name: "spawn".to_owned(), class: EffectClass::Checkable, ask: None });
    }
    spec
}

fn stop() -> Wish {
    Wish::Stop { reason: "enough".to_owned() }
}

fn pause() -> Wish {
    Wish::Pause { reason: "for now".to_owned() }
}

fn replan() -> Wish {
    Wish::Replan { plan: Plan { steps: vec![step("n", "PLUTO", &[])] }.checked().unwrap() }
}

/// Whoever drives the tree hears from each of those it stops what that has used.
#[test]
fn a_stop_counts_what_everybody_used() {
    let world = World::new(tree());
    let (runtime, driven) = world.begin(2);
    world.post(stop());
    let (run, _) = runtime.block_on(driven.rest()).unwrap();
    assert_eq!(run.live_children().count(), 0);
    assert_eq!(world.statuses(), [Status::Failed; 4]);
    assert_eq!((world.known(), world.made()), (BEGUN, BEGUN));
}

/// So does whoever stops it after its driver died, once however often it is done; and another plan starts from there.
#[test]
fn a_stop_after_a_death_counts_what_everybody_used() {
    let world = World::new(tree());
    world.begin_and_die(2);
    world.apply(stop());
    assert_eq!(world.statuses(), [Status::Failed; 4]);
    assert_eq!((world.known(), world.made()), (BEGUN, BEGUN));
    world.harness.settle_below(&world.id).unwrap();
    assert_eq!(world.known(), BEGUN);
    world.apply(replan());
    world.complete();
    assert_eq!((world.known(), world.made()), (BEGUN + 2, BEGUN + 2));
}

/// A stop that the dead driver never heard is obeyed by whoever would take the run up, as a whole.
#[test]
fn a_stop_that_nobody_heard_counts_as_well() {
    let world = World::new(tree());
    world.begin_and_die(2);
    world.post(stop());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _entered = runtime.enter();
    assert!(world.harness.drive(&world.id, Opening::default(), Vec::new(), Arc::new(Quiet)).is_err());
    assert_eq!(world.statuses(), [Status::Failed; 4]);
    assert_eq!((world.known(), world.made()), (BEGUN, BEGUN));
}

/// A pause after a death reaches everybody below, and they go on with the run.
#[test]
fn a_pause_after_a_death_reaches_everybody() {
    let world = World::new(tree());
    world.begin_and_die(2);
    world.apply(pause());
    assert_eq!(world.statuses(), [Status::Paused; 4]);
    assert_eq!((world.known(), world.made()), (BEGUN, BEGUN));
    world.complete();
    assert_eq!(world.statuses(), [Status::Completed; 4]);
    assert_eq!((world.known(), world.made()), (BEGUN + LEFT, BEGUN + LEFT));
}

/// Another plan after a pause gives nothing of what was spent up.
#[test]
fn another_plan_after_a_death_counts_what_everybody_used() {
    let world = World::new(tree());
    world.begin_and_die(2);
    world.apply(pause());
    world.apply(replan());
    assert_eq!((world.known(), world.made()), (BEGUN, BEGUN));
    world.complete();
    assert_eq!((world.known(), world.made()), (BEGUN + 2, BEGUN + 2));
}

/// Who waits for a person is paused with the run, whether or not somebody drives that.
#[test]
fn a_pause_reaches_whoever_waits() {
    let world = World::new(vec![step("q", "ERIS", &[])]);
    let (_, ending) = world.drive();
    assert_eq!(ending, Ending::WaitingForHuman);
    world.apply(pause());
    assert_eq!(world.statuses(), [Status::Paused; 2]);
    assert_eq!(world.drive().1, Ending::WaitingForHuman);

    let world = World::new(vec![step("q", "ERIS", &[]), step("a", "PLUTO", &[])]);
    let (runtime, driven) = world.begin(1);
    let waits = || {
        let run = world.harness.look(&world.id).unwrap();
        run.live_children().any(|child| child.called() == Status::Running.called(Wait::Human))
    };
    runtime.block_on(async {
        while !waits() {
            tokio::task::yield_now().await;
        }
    });
    world.post(pause());
    let (_, ending) = runtime.block_on(driven.rest()).unwrap();
    assert_eq!(ending, Ending::Paused(Cause::Asked));
    assert_eq!(world.statuses(), [Status::Paused; 3]);
}

/// Who is put away by going back has used what it has used; who goes on from where it is says so itself, and is not counted twice.
#[test]
fn going_back_after_a_death_keeps_what_everybody_used() {
    let world = World::new(tree());
    world.begin_and_die(2);
    world.harness.rewind(&world.id, &Point::Number(2)).unwrap();
    world.complete();
    assert_eq!(world.known(), BEGUN + SENT_AGAIN, "all were sent once more");

    let world = World::new(tree());
    world.begin_and_die(2);
    world.harness.take_back(&world.id, &Point::Number(2)).unwrap();
    world.complete();
    assert_eq!((world.known(), world.made()), (BEGUN + LEFT, BEGUN + LEFT), "they went on");

    let world = World::new(tree());
    world.begin_and_die(2);
    world.harness.take_back(&world.id, &Point::Number(1)).unwrap();
    world.complete();
    assert_eq!(world.known(), BEGUN + OWN_STEP + SENT_AGAIN, "the step before them was done again, too");
}

/// The same if it was paused in good order; and undone, what was done in between stays counted as well.
#[test]
fn going_back_and_forth_keeps_what_everybody_used() {
    let world = World::new(tree());
    let (runtime, driven) = world.begin(2);
    world.post(pause());
    runtime.block_on(driven.rest()).unwrap();
    drop(runtime);
    world.stays.store(false, Ordering::SeqCst);
    world.harness.rewind(&world.id, &Point::Number(2)).unwrap();
    world.complete();
    assert_eq!(world.known(), BEGUN + SENT_AGAIN);
    world.harness.undo_rewind(&world.id).unwrap();
    world.complete();
    assert_eq!(world.known(), BEGUN + SENT_AGAIN + LEFT);
}

/// Answers are forgotten before what they were answers to: killed in between, going back leaves none that would be taken for one to
/// what is asked then.
#[test]
fn no_answer_outlives_what_was_asked() {
    let world = World::new(tree());
    world.begin_and_die(2);
    let answers = world.dir.path().join("state").join("answers");
    fs::create_dir_all(&answers).unwrap();
    let answer = |run: &str| answers.join(format!("{}{run}.g1", world.id));
    for run in ["", ".1"] {
        fs::write(answer(run), "{}").unwrap();
    }
    // Nobody can be put away, which is where it ends for now.
    let in_the_way = world.home.run_dir(&world.id).join("children-before");
    fs::write(&in_the_way, "").unwrap();
    assert!(world.harness.take_back(&world.id, &Point::Number(1)).is_err());
    assert!(!answer("").exists() && !answer(".1").exists());
    fs::remove_file(&in_the_way).unwrap();
    world.harness.take_back(&world.id, &Point::Number(1)).unwrap();
    world.complete();
    assert_eq!(world.known(), BEGUN + OWN_STEP + SENT_AGAIN);
}
