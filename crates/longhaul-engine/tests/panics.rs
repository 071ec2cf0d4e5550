//! A panic is the misfortune of whoever panicked: it is written down, and everybody else goes on.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::sync::Arc;

use longhaul_core::command::{Command, Wish};
use longhaul_core::conversation::{ModelFailure, ModelReply, ModelRequest};
use longhaul_core::event::Event;
use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use longhaul_engine::asking::Shelf;
use longhaul_engine::clock::SystemClock;
use longhaul_engine::driver::Driver;
use longhaul_engine::ledger::Ledger;
use longhaul_engine::perform::{Hands, RunBlobs};
use longhaul_engine::watch::Watcher;
use longhaul_engine::{Driven, Ending, Error, Harness, Opening, Secrets};
use longhaul_model::{Deltas, Model, Models, Quiet};
use longhaul_store::Home;
use longhaul_testkit::scripts;
use longhaul_tools::{BoxFuture, Context, Tool, ToolSpec, Toolbox};
use longhaul_workspace::Workspace;
use tempfile::TempDir;
use tokio::sync::mpsc;

const SCRIPT: &str = r#"
conversations:
  - match: { step: step-1 }
    turns:
      - calls: [ { tool: TOOL, args: { path: out.txt, content: done } }, { tool: write, args: { path: out.txt, content: done } } ]
      - text: All is done.
"#;

/// F55: a tool that panics, while it looks or while it works, ends that call with an unknown outcome that says so; the
/// run goes on to its end, and so does another in the same process.
#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_panics() {
    for (tool, message) in
        [("panics", "the tool panicked: in run"), ("panics_early", "the tool panicked: in prepare")]
    {
        let place = Place::new();
        let (bad, good) = (place.create(tool), place.create("write"));
        let (bad, good) = (place.drive(&bad, Vec::new()), place.drive(&good, Vec::new()));
        let (run, ending) = bad.rest().await.unwrap();
        assert_eq!(ending, Ending::Completed);
        assert_eq!(run.calls[0].outcome(), Some(&Outcome::Unknown { message: message.to_owned() }));
        assert!(run.calls[1].outcome().is_some_and(Outcome::is_done));
        assert_eq!(place.harness.look(&run.spec.id).unwrap(), run, "it is in the journal");
        assert_eq!(good.rest().await.unwrap().1, Ending::Completed);
    }
}

/// F55: a watcher that panics ends the driver of its run and nothing else: what was decided is in the journal, the run
/// is free to be taken up again at once, and others in the same process go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_panics() {
    for patience in [0, 1, 5] {
        let place = Place::new();
        let (bad, good) = (place.create("read"), place.create("read"));
        let broken = place.drive(&bad, vec![Box::new(Nervous { patience })]);
        let sound = place.drive(&good, Vec::new());
        match broken.rest().await {
            Err(Error::Driver(message)) => assert!(message.contains("panicked"), "{message}"),
            other => panic!("the driver survived: {other:?}"),
        }
        assert_eq!(sound.rest().await.unwrap().1, Ending::Completed);
        let left = place.harness.look(&bad).unwrap();
        assert_eq!(left.status, Status::Running, "what came before the panic is in the journal");
        let (run, ending) = place.drive(&bad, Vec::new()).rest().await.unwrap();
        assert_eq!(ending, Ending::Completed);
        assert_eq!(place.harness.look(&bad).unwrap(), run);
        assert!(place.harness.list(&Default::default()).unwrap().1.is_empty(), "every run can be read");
    }
}

/// F55: a model whose client panics has failed: the run ends with the reason in its journal.
#[tokio::test]
async fn a_model_that_panics() {
    let place = Place::new();
    let id = place.create("write");
    let store = place.harness.store_of(&id).unwrap();
    let model = place.harness.look(&id).unwrap().spec.model;
    let hands = Hands {
        rules: Arc::default(),
        scratch: std::env::temp_dir(),
        models: Arc::new(
            Shelf::new(Arc::clone(&place.harness.models), Secrets::default()).with(&model, Arc::new(Broken)),
        ),
        secrets: Secrets::default(),
        deltas: Arc::new(Quiet),
        toolbox: Arc::clone(&place.harness.toolbox),
        workspace: Arc::new(Workspace::open(place.directory.path()).unwrap()),
        blobs: Arc::new(RunBlobs {
            store: Arc::clone(&store),
            run: id.clone(),
            secrets: Secrets::default(),
            earlier: None,
        }),
        harness: None,
    };
    let journal = store.open(&id, &place.harness.writer(), &mut |_| Ok(())).unwrap();
    let (_sender, commands) = mpsc::channel(1);
    let run = place.harness.look(&id).unwrap();
    let ledger = Ledger::new(run, journal, store, Arc::new(SystemClock), Vec::new());
    let wish = Wish::Start { limits: None, model: None, looping: None };
    let start = Input::Command(Command { id: CommandId::from_bits(1), wish });
    let (run, ending) =
        Driver::new(ledger, Arc::new(hands), Arc::new(SystemClock), commands).drive(start).await.unwrap();
    assert_eq!(ending, Ending::Paused(longhaul_core::event::Cause::Parked));
    assert_eq!(run.reason.as_deref(), Some("rejected: the model's client panicked: no answer"));
    assert_eq!(place.harness.look(&id).unwrap(), run, "it is in the journal");
}

struct Place {
    directory: TempDir,
    harness: Harness,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let toolbox = Toolbox::builtin(longhaul_tools::Sandbox::off())
            .with(Arc::new(Panics::new("panics", EffectClass::Once)))
            .with(Arc::new(Panics::new("panics_early", EffectClass::Checkable)));
        let home = Home::open(&directory.path().join("state")).unwrap();
        let models = Models { base_dir: directory.path().to_owned(), ..Models::default() };
        let harness = Harness::durable(Arc::new(home), toolbox, models, Arc::new(SystemClock));
        Place { directory, harness }
    }

    /// A run whose first call is to `tool`.
    fn create(&self, tool: &str) -> RunId {
        let id = self.harness.new_run_id().unwrap();
        let file = format!("{id}.yaml");
        let args = if tool == "read" { SCRIPT.replacen(", content: done", "", 1) } else { SCRIPT.to_owned() };
        std::fs::write(self.directory.path().join(&file), args.replace("TOOL", tool)).unwrap();
        let workspace = self.directory.path().join(id.as_str());
        std::fs::create_dir(&workspace).unwrap();
        let mut spec = scripts::spec(id.clone(), &workspace, &self.harness.toolbox, &["the only part"]);
        spec.model = format!("scripted/{file}");
        self.harness.create(spec).unwrap();
        id
    }

    fn drive(&self, id: &RunId, watchers: Vec<Box<dyn Watcher>>) -> Driven {
        self.harness.drive(id, Opening::default(), watchers, Arc::new(Quiet)).unwrap()
    }
}

struct Panics(ToolSpec);

impl Panics {
    fn new(name: &str, class: EffectClass) -> Panics {
        let schema = serde_json::json!({ "type": "object" });
        Panics(ToolSpec { name: name.to_owned(), description: "Panics.".to_owned(), class, schema })
    }
}

impl Tool for Panics {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn prepare<'a>(&'a self, _: &'a Context, _: &'a Json) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(async { panic!("in prepare") })
    }

    fn run<'a>(&'a self, _: &'a Context, _: &'a Json, _: &'a [Trace]) -> BoxFuture<'a, Outcome> {
        Box::pin(async { panic!("in run") })
    }
}

struct Broken;

impl Model for Broken {
    fn call<'a>(
        &'a self,
        _: ModelRequest,
        _: &'a dyn Deltas,
    ) -> BoxFuture<'a, Result<ModelReply, ModelFailure>> {
        Box::pin(async { panic!("no answer") })
    }

    fn count<'a>(&'a self, _: &'a ModelRequest) -> BoxFuture<'a, u64> {
        Box::pin(std::future::ready(0))
    }

    fn context_window(&self) -> u64 {
        1
    }
}

/// Bears a few events, then no more.
struct Nervous {
    patience: u32,
}

impl Watcher for Nervous {
    fn event(&mut self, _: &Run, _: u64, _: Timestamp, _: &Event) {
        assert!(self.patience > 0, "too much");
        self.patience -= 1;
    }

    fn batch_ended(&mut self, _: &Run) {}
}
