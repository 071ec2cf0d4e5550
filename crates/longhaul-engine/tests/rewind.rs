//! Taken back to any event and gone on from there, a run ends as if nothing had happened, and so do its files. Random scripts,
//! real files, a real journal; only time and the model are made up.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use longhaul_core::event::{Event, Stored};
use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, Outcome, Trace};
use longhaul_engine::checkpoints::Point;
use longhaul_engine::watch::Watcher;
use longhaul_engine::{Harness, Opening};
use longhaul_model::{Models, Quiet};
use longhaul_store::Home;
use longhaul_testkit::fake_clock::FakeClock;
use longhaul_testkit::scripts;
use longhaul_tools::{BoxFuture, Context, Tool, ToolSpec, Toolbox};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tempfile::TempDir;

/// Few names, so that files, directories and links take each other's places.
const NAMES: [&str; 8] = ["a", "d", "d/b", "d/e", "d/e/f", "with space", "new\nline", "z/deep/er"];

/// One change to the files.
#[derive(Clone, Debug, Serialize, Deserialize)]
enum Op {
    /// Texts of one length, so that only what is in a file tells it from another.
    Write(String, u8),
    Run(String),
    DoNotRun(String),
    Link(String, String),
    Remove(String),
    EmptyDirectory(String),
    Move(String, String),
}

fn any_op() -> impl Strategy<Value = Op> {
    let name = || proptest::sample::select(&NAMES[..]).prop_map(str::to_owned);
    prop_oneof![
        6 => (name(), 0..10u8).prop_map(|(name, text)| Op::Write(name, text)),
        4 => name().prop_map(Op::Run),
        2 => name().prop_map(Op::DoNotRun),
        2 => (name(), name()).prop_map(|(name, to)| Op::Link(name, to)),
        2 => name().prop_map(Op::Remove),
        1 => name().prop_map(Op::EmptyDirectory),
        1 => (name(), name()).prop_map(|(from, to)| Op::Move(from, to)),
    ]
}

/// Does what it is told to the files of the workspace, or tells of them. Whether there are empty directories makes no difference.
struct Scribble(ToolSpec);

impl Scribble {
    fn new(name: &str, class: EffectClass) -> Arc<Scribble> {
        let (description, schema) = ("Changes files.".to_owned(), json!({ "type": "object" }));
        Arc::new(Scribble(ToolSpec { name: name.to_owned(), description, class, schema }))
    }
}

impl Tool for Scribble {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        let ops: Vec<Op> = serde_json::from_value(args.value()["ops"].clone()).unwrap();
        ops.iter().for_each(|op| scribble(context.workspace.root(), op));
        Box::pin(std::future::ready(Outcome::done(format!("{:?}", found(context.workspace.root())))))
    }
}

fn scribble(top: &Path, op: &Op) {
    match op {
        Op::Write(name, text) => {
            let path = cleared(top, name);
            fs::write(path, format!("text {text}\n")).unwrap();
        }
        Op::Run(name) => set_mode(top, name, 0o755),
        Op::DoNotRun(name) => set_mode(top, name, 0o644),
        Op::Link(name, to) => {
            let path = cleared(top, name);
            symlink(to, path).unwrap();
        }
        Op::Remove(name) => remove(&top.join(name)),
        Op::EmptyDirectory(name) => fs::create_dir(cleared(top, name)).unwrap(),
        Op::Move(from, to) => {
            let is_file = top.join(from).symlink_metadata().is_ok_and(|facts| facts.is_file());
            let is_apart = !to.starts_with(from.as_str()) && !from.starts_with(to.as_str());
            if is_file && is_apart && !has_link_above(top, from) {
                fs::rename(top.join(from), cleared(top, to)).unwrap();
            }
        }
    }
}

/// Nothing is there, and everything above is a directory.
fn cleared(top: &Path, name: &str) -> PathBuf {
    let mut path = top.to_owned();
    let parts: Vec<&str> = name.split('/').collect();
    for (place, part) in parts.iter().enumerate() {
        path.push(part);
        let is_directory = path.symlink_metadata().is_ok_and(|facts| facts.is_dir());
        if place + 1 == parts.len() {
            remove(&path);
        } else if !is_directory {
            remove(&path);
            fs::create_dir(&path).unwrap();
        }
    }
    path
}

fn has_link_above(top: &Path, name: &str) -> bool {
    let above = Path::new(name).ancestors().skip(1);
    above.map(|above| top.join(above)).any(|above| above.is_symlink())
}

fn remove(path: &Path) {
    match path.symlink_metadata() {
        Ok(facts) if facts.is_dir() => fs::remove_dir_all(path).unwrap(),
        Ok(_) => fs::remove_file(path).unwrap(),
        Err(_) => {}
    }
}

fn set_mode(top: &Path, name: &str, mode: u32) {
    let path = top.join(name);
    if !has_link_above(top, name) && path.symlink_metadata().is_ok_and(|facts| facts.is_file()) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
}

/// What stands in a directory, by path: a link and where it leads, or whether it can be run and what is in it. Directories are
/// there as far as something is in them.
fn found(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut left = vec![top.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(top).unwrap().to_owned();
            let facts = path.symlink_metadata().unwrap();
            if facts.is_dir() {
                left.push(path);
            } else if facts.is_symlink() {
                found.insert(name, format!("-> {}", fs::read_link(&path).unwrap().display()));
            } else {
                let mode = facts.permissions().mode() & 0o111;
                found.insert(name, format!("{mode:o} {}", fs::read_to_string(&path).unwrap()));
            }
        }
    }
    found
}

/// What stood in the workspace whenever it was stored, by the tree it was stored as.
type Stands = Arc<Mutex<BTreeMap<String, BTreeMap<PathBuf, String>>>>;

struct Witness {
    workspace: PathBuf,
    stands: Stands,
}

impl Watcher for Witness {
    fn event(&mut self, _run: &Run, _seq: u64, _at: Timestamp, event: &Event) {
        if let Event::FilesStored { stored: Stored::Tree { tree, .. }, .. } = event {
            let stands = found(&self.workspace);
            let before = self.stands.lock().unwrap().insert(tree.clone(), stands.clone());
            assert!(before.is_none_or(|before| before == stands), "one tree for two states");
        }
    }

    fn batch_ended(&mut self, _run: &Run) {}

    fn rested(&mut self, _run: &Run) {}
}

struct World {
    _dir: TempDir,
    workspace: PathBuf,
    harness: Harness,
    id: RunId,
    stands: Stands,
}

impl World {
    /// A run with a turn for each list of changes, in a directory with some files.
    fn new(turns: &[Vec<Op>]) -> World {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().join("work");
        fs::create_dir(&workspace).unwrap();
        for name in ["a", "d/b", "with space"] {
            scribble(&workspace, &Op::Write(name.to_owned(), 0));
        }
        fs::write(dir.path().join("s.yaml"), script(turns)).unwrap();
        let models = Models { base_dir: dir.path().to_owned(), ..Models::default() };
        let home = Arc::new(Home::open(&dir.path().join("state")).unwrap());
        let clock = Arc::new(FakeClock::at(Timestamp::from_millis(1_771_581_600_000)));
        let toolbox = Toolbox::default()
            .with(Scribble::new("scribble", EffectClass::Once))
            .with(Scribble::new("look", EffectClass::Repeatable));
        let harness = Harness::durable(home, toolbox, models, clock);
        let id = harness.new_run_id().unwrap();
        let spec = scripts::spec(id.clone(), &workspace, &harness.toolbox, &["Scribble.", "Scribble more."]);
        harness.create(RunSpec { model: "scripted/s.yaml".to_owned(), ..spec }).unwrap();
        World { _dir: dir, workspace, harness, id, stands: Stands::default() }
    }

    fn drive(&self) -> Run {
        let witness = Witness { workspace: self.workspace.clone(), stands: Arc::clone(&self.stands) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (run, _) = runtime.block_on(async {
            let watchers: Vec<Box<dyn Watcher>> = vec![Box::new(witness)];
            let driven = self.harness.drive(&self.id, Opening::default(), watchers, Arc::new(Quiet));
            driven.unwrap().rest().await.unwrap()
        });
        assert_eq!(run.status, Status::Completed, "{:?}", run.reason);
        run
    }

    fn look(&self) -> Run {
        self.harness.look(&self.id).unwrap()
    }

    fn last_seq(&self) -> u64 {
        self.harness.export(&self.id).unwrap().events.len() as u64
    }
}

/// Both steps play the same turns.
fn script(turns: &[Vec<Op>]) -> String {
    let mut script = "conversations:\n  - turns:\n".to_owned();
    for (turn, ops) in turns.iter().enumerate() {
        let (args, look) = (json!({ "turn": turn, "ops": ops }), json!({ "turn": turn, "ops": [] }));
        writeln!(
            script,
            "      - calls: [ {{ tool: scribble, args: {args} }}, {{ tool: look, args: {look} }} ]"
        )
        .unwrap();
    }
    script.push_str("      - text: \"Done.\"\n");
    script
}

/// What a run has come to, but for times, for how often it was taken up, and for what it has used: that is never taken back.
fn essence(run: &Run) -> String {
    let counts = (run.status, run.turns, run.calls_started, run.checkpoints, &run.files);
    let calls: Vec<_> = run.calls.iter().map(|call| (&call.tool, &call.args, call.outcome())).collect();
    let messages: Vec<_> = run.messages.iter().collect();
    format!("{counts:?}\n{:?}\n{calls:#?}\n{messages:#?}", run.plan)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// D11.16, AX3: modes, links, deletions, names of every kind, and what a file is that was a directory.
    #[test]
    fn a_run_taken_back_to_any_event_ends_the_same(
        turns in proptest::collection::vec(proptest::collection::vec(any_op(), 1..16), 1..4),
        picks in proptest::collection::vec(any::<prop::sample::Index>(), 2),
    ) {
        let world = World::new(&turns);
        let run = world.drive();
        let (end, last_seq) = (found(&world.workspace), world.last_seq());
        for pick in picks {
            let seq = pick.index(last_seq as usize) as u64 + 1;
            let rewound = world.harness.rewind(&world.id, &Point::Event(seq)).unwrap();
            let checkpoint = rewound.taken.checkpoint.clone();
            prop_assert!(checkpoint.end <= seq || checkpoint.seq == seq, "{checkpoint:?}");
            let then = world.stands.lock().unwrap()[&checkpoint.files.unwrap()].clone();
            prop_assert_eq!(&found(&world.workspace), &then, "event {}", seq);
            // Undone, it is as if it had never been; and again the same.
            if rewound.changed_anything() {
                world.harness.undo_rewind(&world.id).unwrap();
                prop_assert_eq!(&found(&world.workspace), &end, "event {}", seq);
                prop_assert_eq!(essence(&world.look()), essence(&run), "event {}", seq);
                world.harness.rewind(&world.id, &Point::Event(seq)).unwrap();
                prop_assert_eq!(&found(&world.workspace), &then, "event {}", seq);
            }
            let goes_on = !world.look().status.is_terminal();
            if goes_on {
                let again = world.drive();
                prop_assert_eq!(essence(&again), essence(&run), "event {}", seq);
                prop_assert_eq!(&found(&world.workspace), &end, "event {}", seq);
            }
            // Once more, now that the run has gone on from there.
            let rewound = world.harness.rewind(&world.id, &Point::Event(seq)).unwrap();
            prop_assert_eq!(&found(&world.workspace), &then, "event {}", seq);
            prop_assert_eq!(rewound.changed_anything(), goes_on, "event {}", seq);
            if goes_on {
                world.harness.undo_rewind(&world.id).unwrap();
                prop_assert_eq!(&found(&world.workspace), &end, "event {}", seq);
            }
        }
    }
}
