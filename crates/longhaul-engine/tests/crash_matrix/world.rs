//! One run and everything outside of it that outlives its processes: the disk, the workspace, the clock, the network.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use longhaul_core::command::{Command, Wish};
use longhaul_core::event::Event;
use longhaul_core::ids::{CallId, CommandId, RunId};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::run::{CallState, Run};
use longhaul_core::spec::{Autonomy, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_engine::asking::Shelf;
use longhaul_engine::clock::Clock;
use longhaul_engine::driver::Driver;
use longhaul_engine::fold::{Fold, entry};
use longhaul_engine::ledger::Ledger;
use longhaul_engine::log::EventLog;
use longhaul_engine::perform::{Hands, RunBlobs};
use longhaul_engine::{Ending, Secrets};
use longhaul_model::Quiet;
use longhaul_store::{Engine, Error, Record, Store, Writer};
use longhaul_testkit::crash::{Mortal, MortalPerformer, MortalStore, half_way, lives};
use longhaul_testkit::fake_clock::FakeClock;
use longhaul_testkit::scripts;
use longhaul_tools::{Bash, BoxFuture, Context, Edit, Read, Tool, ToolSpec, Toolbox, Write};
use longhaul_workspace::Workspace;
use tempfile::TempDir;
use tokio::sync::mpsc;

/// What a clock may do between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    None,
    HourBack,
    TenYearsOn,
    To1970,
}

/// Two steps, the second behind a gate; all three effect classes; a model and a tool that fail before they work.
const SCRIPT: &str = r#"
prices: { input: 3.0, output: 15.0 }
conversations:
  - match: { step: step-1 }
    turns:
      - text: I look first.
        calls: [ { tool: read, args: { path: notes.txt } }, { tool: write, args: { path: src/a.txt, content: "alpha\nbeta\n" } } ]
        usage: { input: 100, output: 10 }
      - fail: [ { status: 529 } ]
        text: Now the shell.
        calls: [ { tool: bash, args: { command: 'HALF_WAY' } }, { tool: flaky, args: {} } ]
        usage: { input: 200, output: 20 }
      - when_result_contains:
          "outcome unknown": { text: It was cut short., calls: [ { tool: edit, args: { path: src/a.txt, old: beta, new: gamma } } ], usage: { input: 300, output: 30 } }
        text: It went well.
        calls: [ { tool: edit, args: { path: src/a.txt, old: beta, new: gamma } } ]
        usage: { input: 300, output: 30 }
      - text: The first step is done.
        usage: { input: 400, output: 40 }
  - match: { step: step-2 }
    turns:
      - text: On to the second.
        calls: [ { tool: write, args: { path: notes.txt, content: "notes, rewritten" } }, { tool: bash, args: { command: 'HALF_WAY; seq 1 6000' } } ]
        usage: { input: 500, output: 50 }
      - when_result_contains:
          "outcome unknown": { text: It was cut short., calls: [ { tool: edit, args: { path: notes.txt, old: rewritten, new: edited } }, { tool: read, args: { path: notes.txt } } ], usage: { input: 600, output: 60 } }
        text: It went well.
        calls: [ { tool: edit, args: { path: notes.txt, old: rewritten, new: edited } }, { tool: read, args: { path: notes.txt } } ]
        usage: { input: 600, output: 60 }
      - text: The second step is done.
        usage: { input: 700, output: 70 }
"#;

pub struct World {
    pub id: RunId,
    directory: TempDir,
    clock: Arc<FakeClock>,
    toolbox: Toolbox,
    /// Whether the gate's answer was taken by the store.
    approved: AtomicBool,
    /// How often each call replaced a file.
    pub replaced: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl World {
    pub fn new() -> World {
        static RUNS: AtomicU64 = AtomicU64::new(0);
        let number = u128::from(std::process::id()) << 64 | u128::from(RUNS.fetch_add(1, Ordering::SeqCst));
        let directory = tempfile::tempdir_in(fast_directory()).unwrap();
        let workspace = directory.path().join("workspace");
        fs::create_dir(&workspace).unwrap();
        fs::create_dir(directory.path().join("state")).unwrap();
        fs::write(workspace.join("notes.txt"), "notes").unwrap();
        let replaced: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
        let counted = |inner: Arc<dyn Tool>| Arc::new(Counted { inner, replaced: Arc::clone(&replaced) });
        let toolbox = Toolbox::default()
            .with(Arc::new(Read::new(longhaul_tools::Sandbox::off())))
            .with(counted(Arc::new(Write::new())))
            .with(counted(Arc::new(Edit::new())))
            .with(Arc::new(Bash::new(std::env::vars_os(), longhaul_tools::Sandbox::off())))
            .with(Arc::new(Flaky::new()));
        World {
            id: RunId::from_bits(number),
            directory,
            clock: Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000))),
            toolbox,
            approved: AtomicBool::new(false),
            replaced,
        }
    }

    pub fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    pub fn state_dir(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    pub fn engine(&self) -> Engine {
        Engine::new(&self.state_dir())
    }

    pub fn event_log(&self) -> PathBuf {
        self.directory.path().join("events.jsonl")
    }

    /// One process that works on the run until it has ended: `None` if it died before.
    pub fn live(&self, mortal: &Mortal) -> Option<Run> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store: Arc<dyn Store> =
            Arc::new(MortalStore { inner: Arc::new(self.engine()), mortal: mortal.clone() });
        runtime.block_on(lives(self.life(&store, mortal)))
    }

    async fn life(&self, store: &Arc<dyn Store>, mortal: &Mortal) -> Run {
        if !self.engine().contains(&self.id) {
            let first = entry(self.clock.now(), &Event::RunCreated(Box::new(self.spec())));
            store.create(&self.id, &self.writer(), &[first]).unwrap().close().unwrap();
        }
        loop {
            let (run, ending) = self.drive(store, mortal).await;
            match ending {
                Ending::WaitingForHuman => self.approve(store.as_ref(), &run),
                Ending::Completed | Ending::Failed | Ending::Paused(_) => return run,
            }
        }
    }

    /// What the harness does to drive a run, on a store and with a performer that may die.
    async fn drive(&self, store: &Arc<dyn Store>, mortal: &Mortal) -> (Run, Ending) {
        let mut fold = Fold::default();
        let mut log = EventLog::open(&self.event_log()).unwrap();
        let journal = store
            .open(&self.id, &self.writer(), &mut |record| {
                let event = fold.take(record).map_err(Error::visit)?;
                log.add(fold.run().unwrap(), record.seq, record.at, &event);
                Ok(())
            })
            .unwrap();
        let run = fold.into_run(&self.id).unwrap();
        let generation = journal.generation();
        let clock = Arc::clone(&self.clock) as Arc<dyn Clock>;
        let mut ledger =
            Ledger::new(run, journal, Arc::clone(store), Arc::clone(&clock), vec![Box::new(log)]);
        ledger.settle_all_but_answers().unwrap();
        let first = match ledger.run().status {
            Status::Created | Status::Paused => {
                self.command(Wish::Start { limits: None, model: None, looping: None })
            }
            Status::Running => Input::Restarted { generation, limits: None, model: None, looping: None },
            Status::Completed | Status::Failed => return (ledger.put_down().unwrap(), Ending::Completed),
        };
        longhaul_tools::reap_leftovers(&self.id);
        let script = SCRIPT.replace("HALF_WAY", &half_way());
        let hands = Hands {
            rules: Arc::default(),
            scratch: std::env::temp_dir(),
            models: Arc::new(
                Shelf::new(Arc::default(), Secrets::default())
                    .with(&ledger.run().spec.model, scripts::model(&script, &self.toolbox)),
            ),
            secrets: Secrets::default(),
            deltas: Arc::new(Quiet),
            toolbox: Arc::new(self.toolbox.clone()),
            workspace: Arc::new(Workspace::open(&self.workspace()).unwrap()),
            blobs: Arc::new(RunBlobs {
                store: Arc::clone(store),
                run: self.id.clone(),
                secrets: Secrets::default(),
                earlier: None,
            }),
            harness: None,
        };
        let performer =
            MortalPerformer { inner: Arc::new(hands), mortal: mortal.clone(), workspace: self.workspace() };
        let (_sender, commands) = mpsc::channel(1);
        Driver::new(ledger, Arc::new(performer), clock, commands).drive(first).await.unwrap()
    }

    /// The person at the gate answers until the store has taken the answer, under the same name each time, and then
    /// never again: an answer that was taken may not be lost.
    fn approve(&self, store: &dyn Store, run: &Run) {
        assert!(!self.approved.load(Ordering::SeqCst), "the answer was lost");
        let gate = run.gates.len() as u32;
        let id = CommandId::from_bits(u128::from(gate));
        let command = Command { id: id.clone(), wish: Wish::Approve { gate, digest: None } };
        store.post(&self.id, &id, &serde_json::to_vec(&command).unwrap()).unwrap();
        self.approved.store(true, Ordering::SeqCst);
    }

    /// The call that a death left with its intent on disk and no way to know what it did.
    pub fn cut_short(&self) -> Option<CallId> {
        if !self.engine().contains(&self.id) {
            return None;
        }
        let (run, _) = self.read();
        match run.open_call()? {
            call if matches!(call.state, CallState::Started { class: EffectClass::Once, .. }) => {
                Some(call.id)
            }
            _ => None,
        }
    }

    /// The run as its journal tells it, and the events.
    pub fn read(&self) -> (Run, Vec<(u64, Event)>) {
        let mut fold = Fold::default();
        let mut events = Vec::new();
        let mut visit = |record: Record<'_>| {
            events.push((record.seq, fold.take(record).map_err(Error::visit)?));
            Ok(())
        };
        self.engine().reader(&self.id).unwrap().poll(&mut visit).unwrap();
        (fold.into_run(&self.id).unwrap(), events)
    }

    pub fn writer(&self) -> Writer {
        Writer { pid: std::process::id(), host: longhaul_store::host(), at: self.clock.now() }
    }

    fn spec(&self) -> RunSpec {
        let steps = ["the first part", "the second part"];
        let mut spec = scripts::spec(self.id.clone(), &self.workspace(), &self.toolbox, &steps);
        spec.autonomy = Autonomy::new(3).unwrap();
        spec.plan.steps[1].critical = true;
        spec
    }

    fn command(&self, wish: Wish) -> Input {
        static COMMANDS: AtomicU64 = AtomicU64::new(1000);
        let id = CommandId::from_bits(u128::from(COMMANDS.fetch_add(1, Ordering::SeqCst)));
        Input::Command(Command { id, wish })
    }

    /// Sets the clock that processes from now on will see.
    pub fn move_clock(&self, jump: Jump) {
        const HOUR_MS: i64 = 3_600_000;
        self.clock.jump(match jump {
            Jump::None => 0,
            Jump::HourBack => -HOUR_MS,
            Jump::TenYearsOn => 87_600 * HOUR_MS,
            Jump::To1970 => -self.clock.now().as_millis(),
        });
    }

    /// Every file of the workspace, hidden ones included.
    pub fn files(&self) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        gather(&self.workspace(), "", &mut found);
        found
    }
}

/// These deaths cut no power, so files in memory are as durable as any, and a thousand runs sync them at no cost.
fn fast_directory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

fn gather(directory: &Path, prefix: &str, found: &mut BTreeSet<String>) {
    for file in fs::read_dir(directory).unwrap() {
        let file = file.unwrap();
        let name = format!("{prefix}{}", file.file_name().to_str().unwrap());
        if file.file_type().unwrap().is_dir() {
            gather(&file.path(), &format!("{name}/"), found);
        } else {
            found.insert(name);
        }
    }
}

/// A tool that changes files, and the count of those it replaced: a replaced file has another inode.
struct Counted {
    inner: Arc<dyn Tool>,
    replaced: Arc<Mutex<BTreeMap<String, u32>>>,
}

impl Tool for Counted {
    fn spec(&self) -> &ToolSpec {
        self.inner.spec()
    }

    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        self.inner.prepare(context, args)
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let path = context.workspace.root().join(args.value()["path"].as_str().unwrap());
            let inode = || fs::metadata(&path).map_or(0, |found| found.ino());
            let before = inode();
            let outcome = self.inner.run(context, args, traces).await;
            if inode() != before {
                *self.replaced.lock().unwrap().entry(context.key.clone()).or_default() += 1;
            }
            outcome
        })
    }

    fn check<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Found> {
        self.inner.check(context, args, traces)
    }
}

/// Asks a network that does not answer the first time.
struct Flaky {
    spec: ToolSpec,
    asked: Mutex<bool>,
}

impl Flaky {
    fn new() -> Flaky {
        let spec = ToolSpec {
            name: "flaky".to_owned(),
            description: "Answers the second time.".to_owned(),
            class: EffectClass::Repeatable,
            schema: serde_json::json!({ "type": "object" }),
        };
        Flaky { spec, asked: Mutex::new(false) }
    }
}

impl Tool for Flaky {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(&'a self, _: &'a Context, _: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        let asked_before = std::mem::replace(&mut *self.asked.lock().unwrap(), true);
        Box::pin(async move {
            if asked_before {
                Outcome::done("answered")
            } else {
                Outcome::failed(Failure::Network, "no answer")
            }
        })
    }
}
