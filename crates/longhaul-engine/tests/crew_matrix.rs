//! Killed at every moment at which a journal changes, its own or a child's, a run with sub-agents ends as if nothing had happened:
//! eight steps of three agents, side by side where they can be, two gates, one child that fails and is tried again; and a step of
//! its own beside those of others, with fewer calls than everybody was given at first. Real runs, in memory and in the files of the
//! engine; only time, the model and one tool are made up.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test that cannot go on has failed"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use longhaul_core::child::{ChildState, Origin};
use longhaul_core::command::{Command, Wish};
use longhaul_core::event::Event;
use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::json::Json;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::run::Run;
use longhaul_core::spec::{Autonomy, Limits, Mate, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, Outcome, ToolGrant};
use longhaul_engine::{Ending, Harness, Opening};
use longhaul_model::{Models, Quiet};
use longhaul_store::{Engine, Memory, Store};
use longhaul_testkit::crash::{Mortal, MortalStore, lives};
use longhaul_testkit::fake_clock::FakeClock;
use longhaul_testkit::scripts::{self, AGENT};
use longhaul_tools::{BoxFuture, Context, Spawn, Tool, ToolSpec, Toolbox};
use tempfile::TempDir;

/// Everybody marks what they do once. Of the three at work on what follows `a`, one fails the first time.
const SCRIPT: &str = r#"
conversations:
  - match: { step: c, prompt_contains: "An earlier try at this failed" }
    turns:
      - { text: Once more., calls: [ { tool: mark, args: { what: again } } ] }
      - { text: It is mended. }
  - match: { step: c }
    turns:
      - { text: I try., calls: [ { tool: mark, args: { what: first } } ] }
      - fail: [ { fatal: "it cannot be done", times: 9 } ]
        text: never said
  - turns:
      - { text: I begin., calls: [ { tool: mark, args: { what: work } } ] }
      - { text: It is done. }
"#;

/// One step takes more calls than its share, one of them to send somebody; the others take few.
const SHARES: &str = r#"
conversations:
  - match: { step: own }
    turns:
      - { calls: [ { tool: mark, args: { what: 1 } } ] }
      - { calls: [ { tool: mark, args: { what: 2 } } ] }
      - { calls: [ { tool: spawn, args: { agent: PLUTO, task: look } } ] }
      - { calls: [ { tool: mark, args: { what: 3 } } ] }
      - { calls: [ { tool: mark, args: { what: 4 } }, { tool: mark, args: { what: 5 } } ] }
      - { calls: [ { tool: mark, args: { what: 6 } } ] }
      - { text: It is all done. }
  - turns:
      - { text: I begin., calls: [ { tool: mark, args: { what: work } } ] }
      - { text: It is done. }
"#;

/// What happens, and what must have happened in the end.
struct Story {
    script: &'static str,
    spec: fn(&RunId, &Path, &Toolbox) -> RunSpec,
    /// The gates that are answered.
    gates: &'static [u32],
    /// How many errands are given for steps.
    sent: usize,
    moments_min: usize,
}

const EIGHT: Story = Story { script: SCRIPT, spec: eight_steps, gates: &[1, 2], sent: 6, moments_min: 150 };

const BESIDE: Story = Story { script: SHARES, spec: own_beside_others, gates: &[], sent: 2, moments_min: 60 };

/// Calls and turns of everybody in `BESIDE`, together.
const CALLS_MAX: u32 = 12;
const TURNS_MAX: u32 = 16;

const MATES: [&str; 2] = ["PLUTO", "VENUS"];

/// A death in each of these is tried again while the run recovers from the first.
const SECOND_DEATHS_EVERY: usize = 4;

/// A6.1, A6.3, A6.4, AX2, F25: killed at any moment and taken up again, the run ends the same, with each child sent once and each answer
/// applied once.
#[test]
fn every_death_leads_to_the_same_end() {
    die_everywhere(&EIGHT, Place::Memory);
}

/// The same with the journals in files, which a death leaves locked, half written or in the making.
#[test]
fn every_death_leads_to_the_same_end_in_files() {
    die_everywhere(&EIGHT, Place::Files);
}

/// AI8: the same for a run that works beside its sub-agents and must wait for what they give back; nobody ever has more than
/// there is.
#[test]
fn every_death_leaves_the_budget_as_it_is() {
    die_everywhere(&BESIDE, Place::Memory);
}

#[test]
fn every_death_leaves_the_budget_as_it_is_in_files() {
    die_everywhere(&BESIDE, Place::Files);
}

fn die_everywhere(story: &'static Story, place: Place) {
    let undisturbed = Undisturbed::new(story, place);
    let moments = undisturbed.moments;
    let fired = AtomicUsize::new(0);
    in_parallel(moments, |moment| {
        fired.fetch_add(undisturbed.play(&[moment]), Ordering::SeqCst);
    });
    println!("{} of {moments} moments were died at", fired.load(Ordering::SeqCst));
    assert_eq!(fired.load(Ordering::SeqCst), moments, "each moment was died at");
}

/// The same with a second death while recovering, at moments spread over the run.
#[test]
fn a_second_death_changes_nothing() {
    die_twice(&EIGHT, Place::Memory);
}

#[test]
fn a_second_death_changes_nothing_in_files() {
    die_twice(&EIGHT, Place::Files);
}

#[test]
fn a_second_death_leaves_the_budget_as_it_is() {
    die_twice(&BESIDE, Place::Memory);
}

fn die_twice(story: &'static Story, place: Place) {
    let undisturbed = Undisturbed::new(story, place);
    let tried = undisturbed.moments / SECOND_DEATHS_EVERY;
    let fired = AtomicUsize::new(0);
    in_parallel(tried, |number| {
        let first = number * SECOND_DEATHS_EVERY;
        fired.fetch_add(undisturbed.play(&[first, 2 + number % 11]), Ordering::SeqCst);
    });
    let fired = fired.load(Ordering::SeqCst);
    println!("{fired} deaths of {tried} runs that were to die twice");
    assert!(fired > tried * 3 / 2, "only {fired} deaths happened in {tried} runs");
}

/// How the run goes if nobody disturbs it.
struct Undisturbed {
    story: &'static Story,
    place: Place,
    moments: usize,
    essence: String,
}

impl Undisturbed {
    fn new(story: &'static Story, place: Place) -> Undisturbed {
        let mortal = Mortal::undying();
        let world = World::new(story, place);
        let run = world.live(&mortal).expect("nobody killed it");
        world.check(&run);
        let undisturbed =
            Undisturbed { story, place, moments: mortal.moments().len(), essence: essence(&run) };
        assert!(undisturbed.moments > story.moments_min, "only {} moments", undisturbed.moments);
        undisturbed
    }

    /// Plays the run with these deaths, one for each process, and then to its end. Says how many happened.
    fn play(&self, deaths: &[usize]) -> usize {
        let world = World::new(self.story, self.place);
        let mut story = Vec::new();
        let mut ended = None;
        for moment in deaths {
            let mortal = Mortal::dying_at(*moment);
            ended = world.live(&mortal);
            if ended.is_some() {
                break;
            }
            story.extend(mortal.moments().get(*moment).cloned());
        }
        // Shown by the test runner if a check fails below.
        println!("deaths at {deaths:?}: {story:?}");
        let run = ended.or_else(|| world.live(&Mortal::undying())).expect("nobody killed it");
        world.check(&run);
        assert_eq!(essence(&run), self.essence, "after deaths at {story:?}");
        story.len()
    }
}

/// Where journals are kept.
#[derive(Clone, Copy)]
enum Place {
    Memory,
    Files,
}

/// What outlives the processes.
struct World {
    story: &'static Story,
    id: RunId,
    directory: TempDir,
    place: Place,
    memory: Memory,
    clock: Arc<FakeClock>,
    marks: Arc<Mutex<Vec<String>>>,
    /// The gates that a person has answered.
    answered: Mutex<BTreeSet<u32>>,
}

impl World {
    fn new(story: &'static Story, place: Place) -> World {
        static RUNS: AtomicUsize = AtomicUsize::new(0);
        let number = u128::from(std::process::id()) << 64 | RUNS.fetch_add(1, Ordering::SeqCst) as u128;
        let directory = directory();
        std::fs::write(directory.path().join("crew.yaml"), story.script).unwrap();
        std::fs::create_dir(directory.path().join("state")).unwrap();
        World {
            story,
            id: RunId::from_bits(number),
            directory,
            place,
            memory: Memory::default(),
            clock: Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000))),
            marks: Arc::default(),
            answered: Mutex::default(),
        }
    }

    fn toolbox(&self) -> Toolbox {
        let toolbox = Toolbox::default().with(Arc::new(Spawn::default()));
        toolbox.with(Arc::new(Mark::new(Arc::clone(&self.marks))))
    }

    /// The store as a new process opens it.
    fn store(&self) -> Arc<dyn Store> {
        match self.place {
            Place::Memory => Arc::new(self.memory.clone()),
            Place::Files => Arc::new(Engine::new(&self.directory.path().join("state"))),
        }
    }

    fn harness(&self, mortal: &Mortal) -> Harness {
        let store = Arc::new(MortalStore { inner: self.store(), mortal: mortal.clone() });
        let models = Models { base_dir: self.directory.path().to_owned(), ..Models::default() };
        Harness::kept_in(store, self.toolbox(), models, Arc::clone(&self.clock) as _)
    }

    /// One process that works on the run until it has ended: `None` if it died before.
    fn live(&self, mortal: &Mortal) -> Option<Run> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let run = runtime.block_on(lives(self.life(mortal))).flatten();
        assert_eq!(run.is_none(), mortal.died());
        run
    }

    async fn life(&self, mortal: &Mortal) -> Option<Run> {
        let harness = self.harness(mortal);
        if !self.store().runs().unwrap().contains(&self.id) {
            harness.create((self.story.spec)(&self.id, self.directory.path(), &harness.toolbox)).unwrap();
        }
        loop {
            let run = harness.look(&self.id).unwrap();
            if run.status.is_terminal() {
                return Some(run);
            }
            let driven = harness.drive(&self.id, Opening::default(), Vec::new(), Arc::new(Quiet));
            // What dies in a task of its own is heard of as an error.
            let rested = match driven {
                Ok(driven) => driven.rest().await,
                Err(error) => Err(error),
            };
            match rested {
                _ if mortal.died() => return None,
                Ok((run, Ending::WaitingForHuman)) => self.answer(&run),
                Ok((run, Ending::Completed | Ending::Failed | Ending::Paused(_))) => return Some(run),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// A person lets what waits go on, once and for all.
    fn answer(&self, run: &Run) {
        for gate in run.step_gates().map(|gate| gate.number) {
            assert!(self.answered.lock().unwrap().insert(gate), "the answer to {gate} was lost");
            let id = CommandId::from_bits(u128::from(gate));
            let command = Command { id: id.clone(), wish: Wish::Approve { gate, digest: None } };
            self.store().post(&self.id, &id, &serde_json::to_vec(&command).unwrap()).unwrap();
        }
    }

    fn events(&self) -> Vec<Event> {
        let harness = self.harness(&Mortal::undying());
        let mut events = Vec::new();
        harness.onlooker(&self.id).unwrap().look(&mut |_, _, _, event| events.push(event.clone())).unwrap();
        events
    }

    /// What must hold of every run, whatever happened to it.
    fn check(&self, run: &Run) {
        assert_eq!(run.status, Status::Completed, "{:?} {:?}", run.reason, run.plan);
        let mut answers: BTreeMap<u32, u32> = BTreeMap::new();
        let mut sent: BTreeMap<(u32, u32), u32> = BTreeMap::new();
        for event in self.events() {
            if let Event::GateAnswered { gate, .. } = &event {
                *answers.entry(*gate).or_default() += 1;
            }
            if let Event::ChildSpawned(errand) = &event
                && let Origin::Step { step } = errand.origin
            {
                *sent.entry((step, errand.attempt.0)).or_default() += 1;
            }
        }
        let once: BTreeMap<u32, u32> = self.story.gates.iter().map(|gate| (*gate, 1)).collect();
        assert_eq!(answers, once, "each approval is applied once");
        assert!(sent.values().all(|times| *times == 1), "each child is sent once: {sent:?}");
        assert_eq!(
            sent.len(),
            self.story.sent,
            "one for each step of others, and for each second try: {sent:?}"
        );
        let runs: BTreeSet<RunId> = self.store().runs().unwrap().into_iter().collect();
        let known = run.children.iter().map(|child| child.errand.id.clone()).chain([self.id.clone()]);
        assert_eq!(runs, known.collect(), "nobody was started that nobody knows");
        self.check_budget(run, &runs);
        let marks = self.marks.lock().unwrap();
        let once: BTreeSet<&String> = marks.iter().collect();
        assert_eq!(once.len(), marks.len(), "something was done twice: {marks:?}");
    }
}

impl World {
    /// What everybody has really used is what the run knows of, and no more than there is.
    fn check_budget(&self, run: &Run, runs: &BTreeSet<RunId>) {
        let harness = self.harness(&Mortal::undying());
        let all: Vec<Run> = runs.iter().map(|id| harness.look(id).unwrap()).collect();
        let used = (
            all.iter().map(|run| run.calls_started).sum::<u32>(),
            all.iter().map(|run| run.turns).sum::<u32>(),
        );
        let (known, limits) = (run.ledger(), run.spec.limits);
        assert_eq!(used, (known.calls, known.turns));
        assert!(used.0 <= limits.max_tool_calls && used.1 <= limits.max_steps, "{used:?}");
    }
}

/// Memory where there is some: a thousand lives sync more often than disks like.
fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

/// What a death must not change. Numbers go by who is done first, so steps are what children are told apart by.
fn essence(run: &Run) -> String {
    let steps: Vec<_> = run.plan.steps.iter().map(|step| (&step.id, step.status, &step.output)).collect();
    let mut children: Vec<String> = run
        .children
        .iter()
        .map(|child| {
            let state = match &child.state {
                ChildState::Failed { error } => format!("failed: {error}"),
                other @ (ChildState::Working
                | ChildState::Waiting
                | ChildState::Held
                | ChildState::Paused { .. }
                | ChildState::Completed) => format!("{other:?}"),
            };
            format!("{:?} {} {} {state}", child.errand.origin, child.errand.attempt, child.errand.agent)
        })
        .collect();
    children.sort();
    let gates: Vec<_> = run
        .gates
        .iter()
        .map(|gate| (gate.step, gate.answer.as_ref().map(|answer| answer.approved)))
        .collect();
    format!("{:?} {steps:?} {children:?} {gates:?}", run.status)
}

/// A step of the run's own beside two of another agent, and a call for a third.
fn own_beside_others(id: &RunId, workspace: &Path, toolbox: &Toolbox) -> RunSpec {
    let steps = vec![
        Step::new("own", "do much", AGENT),
        Step::new("a", "do a", "PLUTO"),
        Step::new("b", "do b", "VENUS"),
    ];
    let limits = Limits { max_tool_calls: CALLS_MAX, max_steps: TURNS_MAX, ..Limits::default() };
    let mut spec = RunSpec {
        plan: Plan { steps }.checked().unwrap(),
        limits,
        autonomy: Autonomy::new(4).unwrap(),
        ..eight_steps(id, workspace, toolbox)
    };
    spec.tools.push(ToolGrant { name: "spawn".to_owned(), class: EffectClass::Checkable, ask: None });
    spec
}

/// Eight steps of three agents, two of them critical.
fn eight_steps(id: &RunId, workspace: &Path, toolbox: &Toolbox) -> RunSpec {
    let step = |id: &str, agent: &str, dependencies: &[&str]| Step {
        dependencies: dependencies.iter().map(|id| (*id).to_owned()).collect(),
        critical: ["d", "g"].contains(&id),
        ..Step::new(id, &format!("do {id}"), agent)
    };
    let steps = vec![
        step("a", AGENT, &[]),
        step("b", "PLUTO", &["a"]),
        step("c", "VENUS", &["a"]),
        step("d", "PLUTO", &["b"]),
        step("e", AGENT, &["c"]),
        step("f", "VENUS", &["a"]),
        step("g", AGENT, &["d", "e"]),
        step("h", "PLUTO", &["f", "g"]),
    ];
    let mate = |name: &&str| Mate { name: (*name).to_owned(), role: "helps".to_owned() };
    RunSpec {
        model: "scripted/crew.yaml".to_owned(),
        plan: Plan { steps }.checked().unwrap(),
        crew: Some(MATES.iter().map(mate).collect()),
        autonomy: Autonomy::new(3).unwrap(),
        ..scripts::spec(id.clone(), workspace, toolbox, &["all of it"])
    }
}

/// A tool that leaves a mark with the call's key and may not be repeated.
struct Mark {
    spec: ToolSpec,
    marks: Arc<Mutex<Vec<String>>>,
}

impl Mark {
    fn new(marks: Arc<Mutex<Vec<String>>>) -> Mark {
        let spec = ToolSpec {
            name: "mark".to_owned(),
            description: "Leaves a mark.".to_owned(),
            class: EffectClass::Once,
            schema: serde_json::json!({ "type": "object" }),
        };
        Mark { spec, marks }
    }
}

impl Tool for Mark {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        _: &'a Json,
        _: &'a [longhaul_core::tool::Trace],
    ) -> BoxFuture<'a, Outcome> {
        self.marks.lock().unwrap().push(context.key.clone());
        Box::pin(std::future::ready(Outcome::done("marked")))
    }
}

/// Does `work` for every number below `count`, on all processors.
fn in_parallel(count: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(2, |count| count.get());
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= count {
                        return;
                    }
                    work(number);
                }
            });
        }
    });
}
