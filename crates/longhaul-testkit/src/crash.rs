//! Dying at a chosen moment. Owns the count of moments at which a process could die, and the wrappers around store,
//! journal and performer that die at one of them: the rest of that process never happens, and what it held is let go.
//!
//! A death is an unwinding that only [`lives`] catches. Product code sees nothing of it: no error is returned, no
//! outcome reported, nothing further appended.

#![expect(clippy::unwrap_used, reason = "a test double that breaks must stop the test")]

use std::fs;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::input::Input;
use longhaul_engine::perform::{Performer, ToolWork, Work, effect_key};
use longhaul_store::{
    Ack, Backend, Entry, Error, Footprint, Holder, Journal, Posted, Reader, Store, Visit, Writer,
};
use longhaul_tools::Cancel;

/// One process that may be made to die. Cheap to clone.
#[derive(Clone)]
pub struct Mortal {
    shared: Arc<Shared>,
}

struct Shared {
    /// The moment to die at, counted from 0; `None` lives on.
    dies_at: Option<usize>,
    moments: Mutex<Vec<String>>,
    died: AtomicBool,
}

/// What a death unwinds with.
struct Died;

impl Mortal {
    pub fn dying_at(moment: usize) -> Mortal {
        Mortal::new(Some(moment))
    }

    pub fn undying() -> Mortal {
        Mortal::new(None)
    }

    fn new(dies_at: Option<usize>) -> Mortal {
        let shared = Shared { dies_at, moments: Mutex::new(Vec::new()), died: AtomicBool::new(false) };
        Mortal { shared: Arc::new(shared) }
    }

    /// The names of the moments that were passed; the last is where it died, if it did.
    pub fn moments(&self) -> Vec<String> {
        self.shared.moments.lock().unwrap().clone()
    }

    pub fn died(&self) -> bool {
        self.shared.died.load(Ordering::SeqCst)
    }

    /// A moment is reached: dies here if it is the one. What other tasks of a dead process would still do never happens either.
    pub fn reach(&self, moment: impl Into<String>) {
        if !std::thread::panicking() {
            self.die_if_dead();
        }
        if self.is_doomed_at(moment) {
            self.die();
        }
    }

    /// The same for a moment that must be prepared before dying at it, or that is reached on a thread of its own.
    fn is_doomed_at(&self, moment: impl Into<String>) -> bool {
        let mut moments = self.shared.moments.lock().unwrap();
        moments.push(moment.into());
        let doomed = self.shared.dies_at == Some(moments.len() - 1);
        self.shared.died.fetch_or(doomed, Ordering::SeqCst);
        doomed
    }

    fn die(&self) -> ! {
        // Unlike a panic this prints nothing: it is what the test wanted.
        std::panic::resume_unwind(Box::new(Died))
    }

    fn die_if_dead(&self) {
        if self.died() {
            self.die();
        }
    }
}

/// Lives a life to its end: its result, or `None` if it died. Any other panic goes on.
pub async fn lives<T>(life: impl Future<Output = T>) -> Option<T> {
    match AssertUnwindSafe(life).catch_unwind().await {
        Ok(result) => Some(result),
        Err(payload) if payload.is::<Died>() => None,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// A store whose process can die right before and right after everything that changes what is kept.
pub struct MortalStore {
    pub inner: Arc<dyn Store>,
    pub mortal: Mortal,
}

impl MortalStore {
    fn change<T>(&self, what: &str, change: impl FnOnce() -> T) -> T {
        self.mortal.reach(format!("before {what}"));
        let result = change();
        self.mortal.reach(format!("after {what}"));
        result
    }

    fn journal(&self, inner: Box<dyn Journal>) -> Box<dyn Journal> {
        Box::new(MortalJournal { inner, mortal: self.mortal.clone() })
    }
}

impl Store for MortalStore {
    fn backend(&self) -> Backend {
        self.inner.backend()
    }

    fn create(&self, run: &RunId, writer: &Writer, first: &[Entry]) -> Result<Box<dyn Journal>, Error> {
        Ok(self.journal(self.change("create", || self.inner.create(run, writer, first))?))
    }

    fn open(&self, run: &RunId, writer: &Writer, visit: Visit<'_>) -> Result<Box<dyn Journal>, Error> {
        Ok(self.journal(self.change("open", || self.inner.open(run, writer, visit))?))
    }

    fn reader(&self, run: &RunId) -> Result<Box<dyn Reader>, Error> {
        self.inner.reader(run)
    }

    fn runs(&self) -> Result<Vec<RunId>, Error> {
        self.inner.runs()
    }

    fn remove(&self, run: &RunId) -> Result<(), Error> {
        self.change("remove", || self.inner.remove(run))
    }

    fn holder(&self, run: &RunId) -> Result<Option<Holder>, Error> {
        self.inner.holder(run)
    }

    fn post(&self, run: &RunId, command: &CommandId, body: &[u8]) -> Result<(), Error> {
        self.change("post", || self.inner.post(run, command, body))
    }

    fn pending(&self, run: &RunId) -> Result<Vec<Posted>, Error> {
        self.inner.pending(run)
    }

    fn settle(&self, run: &RunId, command: &CommandId) -> Result<(), Error> {
        self.change("settle", || self.inner.settle(run, command))
    }

    /// Called from threads that tools wait in, whose unwinding they would survive: there the death shows when the
    /// effect would report.
    fn put_blob(&self, run: &RunId, bytes: &[u8]) -> Result<String, Error> {
        if self.mortal.is_doomed_at("before put_blob") {
            return Err(Error::Poisoned { run: run.clone() });
        }
        let hash = self.inner.put_blob(run, bytes);
        self.mortal.is_doomed_at("after put_blob");
        hash
    }

    fn blob(&self, run: &RunId, hash: &str) -> Result<Vec<u8>, Error> {
        self.inner.blob(run, hash)
    }

    fn footprint(&self, run: &RunId) -> Result<Footprint, Error> {
        self.inner.footprint(run)
    }
}

struct MortalJournal {
    inner: Box<dyn Journal>,
    mortal: Mortal,
}

impl Journal for MortalJournal {
    fn append(&mut self, batch: &[Entry]) -> Result<Ack, Error> {
        let kinds: Vec<String> = batch.iter().map(|entry| entry.kind.to_string()).collect();
        let kinds = kinds.join(",");
        self.mortal.reach(format!("before append {kinds}"));
        let ack = self.inner.append(batch);
        self.mortal.reach(format!("after append {kinds}"));
        ack
    }

    fn last_seq(&self) -> u64 {
        self.inner.last_seq()
    }

    fn generation(&self) -> u64 {
        self.inner.generation()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        let MortalJournal { inner, mortal } = *self;
        mortal.reach("before close");
        let closed = inner.close();
        mortal.reach("after close");
        closed
    }

    fn rest(self: Box<Self>) -> Result<(), Error> {
        let MortalJournal { inner, mortal } = *self;
        mortal.reach("before rest");
        let rested = inner.rest();
        mortal.reach("after rest");
        rested
    }
}

/// A performer whose process can die before an effect, in the middle of it, and after it but before anybody hears.
pub struct MortalPerformer {
    pub inner: Arc<dyn Performer>,
    pub mortal: Mortal,
    pub workspace: PathBuf,
}

/// While this file is in the workspace, a command that looks for it waits half-way, see [`half_way`].
const HOLD: &str = "hold";

/// Where the commands of [`half_way`] leave their lines.
pub const WITNESS: &str = "witness";

/// A shell command of two halves, each of which adds a line with the call's key to [`WITNESS`].
pub fn half_way() -> String {
    format!(
        "echo \"$LONGHAUL_CALL first\" >> {WITNESS}; while [ -e {HOLD} ]; do sleep 0.002; done; \
         echo \"$LONGHAUL_CALL second\" >> {WITNESS}"
    )
}

impl Performer for MortalPerformer {
    fn perform(&self, work: Work, cancel: Cancel) -> BoxFuture<'static, Option<Input>> {
        let (inner, mortal) = (Arc::clone(&self.inner), self.mortal.clone());
        let workspace = self.workspace.clone();
        Box::pin(async move {
            let what = name(&work);
            mortal.reach(format!("before {what}"));
            if let Work::RunTool(work) = &work {
                match work.tool.as_str() {
                    "write" | "edit" => reach_half_written(&mortal, &what, &workspace, work),
                    "bash" => {
                        let start = || inner.perform(Work::RunTool(work.clone()), cancel.clone());
                        reach_within_command(&mortal, &what, &workspace, work, start).await;
                    }
                    _ => {}
                }
            }
            let input = inner.perform(work, cancel).await;
            mortal.die_if_dead();
            mortal.reach(format!("after {what}"));
            input
        })
    }
}

fn name(work: &Work) -> String {
    match work {
        Work::CallModel { turn, .. } => format!("model turn {turn}"),
        Work::PrepareTool(work) => format!("prepare {} {}", work.tool, work.call),
        Work::RunTool(work) => format!("run {} {}", work.tool, work.call),
        Work::CheckTool(work) => format!("check {} {}", work.tool, work.call),
        Work::StoreFiles { moment } => format!("store files {moment:?}"),
        Work::SetUp { .. } => "set up".to_owned(),
        Work::Rest(_) => "rest".to_owned(),
        Work::Keep(keep) => format!("keep after {}", keep.steps),
        Work::Examine(look) => format!("look {}", look.round),
        Work::AskAside { aside, .. } => format!("aside {aside:?}"),
        Work::Attend(charge) => format!("attend {}", charge.number),
        Work::AwaitAnswer(charge) => format!("await {}", charge.number),
        Work::EndChild { charge, .. } => format!("end {}", charge.number),
    }
}

/// Killed between its temporary file and the rename, a replacement leaves the former behind, here half written.
fn reach_half_written(mortal: &Mortal, what: &str, workspace: &Path, work: &ToolWork) {
    if mortal.is_doomed_at(format!("within {what}: temporary file written")) {
        let args = work.args.value();
        let target = workspace.join(args["path"].as_str().unwrap());
        let content = args["content"].as_str().or(args["new"].as_str()).unwrap();
        let directory = target.parent().unwrap();
        fs::create_dir_all(directory).unwrap();
        let temporary = format!(".longhaul-{}.tmp", effect_key(&work.run, work.call));
        fs::write(directory.join(temporary), &content[..content.len() / 2]).unwrap();
        mortal.die();
    }
}

/// A command is abandoned right after its start, or between its halves.
async fn reach_within_command(
    mortal: &Mortal,
    what: &str,
    workspace: &Path,
    work: &ToolWork,
    start: impl Fn() -> BoxFuture<'static, Option<Input>>,
) {
    if mortal.is_doomed_at(format!("within {what}: started")) {
        let mut running = start();
        drop(futures_util::poll!(&mut running));
        drop(running);
        mortal.die();
    }
    let has_halves = work.args.value()["command"].as_str().is_some_and(|command| command.contains(HOLD));
    if has_halves && mortal.is_doomed_at(format!("within {what}: half-way")) {
        fs::write(workspace.join(HOLD), "").unwrap();
        let first = format!("{} first", effect_key(&work.run, work.call));
        let mut running = start();
        while !contains(workspace, &first) {
            drop(futures_util::poll!(&mut running));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        drop(running);
        fs::remove_file(workspace.join(HOLD)).unwrap();
        mortal.die();
    }
}

fn contains(workspace: &Path, line: &str) -> bool {
    let text = fs::read_to_string(workspace.join(WITNESS)).unwrap_or_default();
    text.lines().any(|known| known == line)
}
