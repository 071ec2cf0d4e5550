//! Effects performed: the model is asked, tools run, destinations are looked at. Each answers with an input.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use longhaul_core::child::ChildEnding;
use longhaul_core::conversation::{ModelFailure, ModelFailureKind, ModelReply, ModelRequest};
use longhaul_core::event::{Aside, Kept, Moment, Purpose, Stored};
use longhaul_core::evidence::{Check, Examination};
use longhaul_core::ids::{Attempt, CallId, RunId};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::permission::Permissions;
use longhaul_core::tool::{Failure, Found, Outcome, Trace};
use longhaul_model::{Deltas, Model, Models, Quiet, ResolveError};
use longhaul_store::Store;
use longhaul_tools::hooks::{Hooks, Looked, Verdict, judged};
use longhaul_tools::{Blobs, Cancel, Context, Examine, Printed, Tool, Toolbox, examine};
use longhaul_workspace::Workspace;
use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::checkpoints::Vault;
use longhaul_workspace::commit::{self, Committed};

use crate::children::{self, Charge};
use crate::harness::Harness;
use crate::limits::LOOK_TIME_MAX;
use crate::retention;
use crate::secrets::Secrets;

/// One effect with everything needed to perform it, cut loose from the run.
#[derive(Clone, Debug)]
pub enum Work {
    CallModel {
        turn: u32,
        attempt: Attempt,
        request: ModelRequest,
    },
    PrepareTool(ToolWork),
    RunTool(ToolWork),
    CheckTool(ToolWork),
    Examine(Look),
    AskAside {
        aside: Aside,
        attempt: Attempt,
        request: ModelRequest,
    },
    Attend(Charge),
    AwaitAnswer(Charge),
    EndChild {
        charge: Charge,
        reason: String,
    },
    /// No effect of the machine's either: what stands in the workspace is kept for the way back.
    StoreFiles {
        moment: Moment,
    },
    /// No effect of the machine's: it is done again until it is on record, and does nothing the second time.
    Keep(Keep),
}

/// The files of a worktree, to be kept as a commit.
#[derive(Clone, Debug)]
pub struct Keep {
    pub run: RunId,
    /// After how many completed steps.
    pub steps: u32,
    pub message: String,
}

/// One look at the work.
#[derive(Clone, Debug)]
pub struct Look {
    pub run: RunId,
    pub round: u32,
    pub attempt: Attempt,
    pub examine: Examine,
}

#[derive(Clone, Debug)]
pub struct ToolWork {
    pub run: RunId,
    pub call: CallId,
    pub attempt: Attempt,
    pub tool: String,
    pub args: Json,
    pub traces: Vec<Trace>,
    /// A person has given leave for exactly this call, knowing what a hook has against it.
    pub granted: bool,
    /// Where in the workspace commands begin, if not at its root.
    pub cwd: Option<String>,
    pub timeout: Duration,
}

/// Performs effects. Implemented by [`Hands`] and by the testkit's crash injector around it; called by the driver only.
pub trait Performer: Send + Sync {
    /// Does the work; `None` if it was cancelled without a result worth keeping.
    fn perform(&self, work: Work, cancel: Cancel) -> BoxFuture<'static, Option<Input>>;
}

/// The models one run uses, by name, each made once.
pub struct Shelf {
    models: Arc<Models>,
    made: Mutex<HashMap<String, Arc<dyn Model>>>,
    /// Learns the keys that models are made with.
    secrets: Secrets,
}

impl Shelf {
    pub fn new(models: Arc<Models>, secrets: Secrets) -> Shelf {
        Shelf { models, made: Mutex::default(), secrets }
    }

    /// One that is there already, for doubles.
    #[must_use]
    pub fn with(self, name: &str, model: Arc<dyn Model>) -> Shelf {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), model);
        self
    }

    /// The model made anew, if it now has another key: the old one may have expired.
    fn renewed(&self, name: &str, old: &dyn Model) -> Option<Arc<dyn Model>> {
        self.models.forget_keys();
        let model = self.resolve(name).ok()?;
        if model.account() == old.account() {
            return None;
        }
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        made.insert(name.to_owned(), Arc::clone(&model));
        Some(model)
    }

    pub fn get(&self, name: &str) -> Result<Arc<dyn Model>, ResolveError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = made.get(name) {
            return Ok(Arc::clone(model));
        }
        let model = self.resolve(name)?;
        made.insert(name.to_owned(), Arc::clone(&model));
        Ok(model)
    }

    /// Before the model is used, its key is known as something that must not be written.
    fn resolve(&self, name: &str) -> Result<Arc<dyn Model>, ResolveError> {
        let model = self.models.resolve(name);
        self.secrets.learn(self.models.secrets());
        model
    }
}

/// The real performer: models, a toolbox and a workspace.
pub struct Hands {
    pub models: Arc<Shelf>,
    pub secrets: Secrets,
    pub deltas: Arc<dyn Deltas>,
    pub toolbox: Arc<Toolbox>,
    pub workspace: Arc<Workspace>,
    pub blobs: Arc<dyn Blobs>,
    pub rules: Arc<[Permissions]>,
    /// Through which children are started and driven.
    pub harness: Option<Harness>,
    /// Where files of ours go that no agent may reach.
    pub scratch: PathBuf,
}

impl Performer for Hands {
    fn perform(&self, work: Work, cancel: Cancel) -> BoxFuture<'static, Option<Input>> {
        match work {
            Work::StoreFiles { moment } => {
                let Some(home) = self.harness.as_ref().and_then(Harness::home) else {
                    return Box::pin(std::future::ready(None));
                };
                let (tree, state) = (self.workspace.root().to_owned(), home.dir().to_owned());
                let quota = self.harness.as_ref().and_then(Harness::checkpoints_quota);
                Box::pin(async move {
                    let stored = tokio::task::spawn_blocking(move || stored(&tree, &state, quota)).await;
                    let lost = |error: tokio::task::JoinError| Stored::Failed { why: error.to_string() };
                    Some(Input::FilesStored { stored: stored.unwrap_or_else(lost), moment })
                })
            }
            Work::Keep(keep) => {
                let (tree, scratch) = (self.workspace.root().to_owned(), self.scratch.clone());
                Box::pin(async move {
                    let steps = keep.steps;
                    let kept = tokio::task::spawn_blocking(move || kept(&tree, &scratch, &keep)).await;
                    let lost = |error: tokio::task::JoinError| Kept::Uncommitted { why: error.to_string() };
                    Some(Input::WorkKept { steps, kept: kept.unwrap_or_else(lost) })
                })
            }
            Work::CallModel { turn, attempt, request } => {
                let (models, deltas) = (Arc::clone(&self.models), Arc::clone(&self.deltas));
                let (toolbox, secrets) = (Arc::clone(&self.toolbox), self.secrets.clone());
                let asking = call_model(models, deltas, turn, attempt, request, cancel);
                let taken = move |input| by_own_names(struck_out(input, &secrets), &toolbox);
                Box::pin(asking.map(|input| input.map(taken)))
            }
            Work::PrepareTool(work) => {
                let tool = self.tool(&work);
                let context = self.context(&work, cancel);
                let (toolbox, secrets) = (Arc::clone(&self.toolbox), self.secrets.clone());
                Box::pin(async move {
                    Some(struck_out(prepared(&toolbox.hooks, tool, context, work).await, &secrets))
                })
            }
            Work::RunTool(work) => {
                let tool = self.tool(&work);
                let context = self.context(&work, cancel);
                let (toolbox, secrets) = (Arc::clone(&self.toolbox), self.secrets.clone());
                Box::pin(async move {
                    Some(struck_out(hooked(&toolbox.hooks, tool, context, work).await, &secrets))
                })
            }
            Work::CheckTool(work) => {
                let tool = self.tool(&work);
                let context = self.context(&work, cancel);
                Box::pin(check(tool, context, work).map(Some))
            }
            Work::Examine(look) => {
                let (bash, secrets) = (self.toolbox.get("bash").cloned(), self.secrets.clone());
                let context = self.looking(&look, cancel);
                Box::pin(look_at_work(bash, context, look, secrets))
            }
            Work::AskAside { aside, attempt, request } => {
                let models = Arc::clone(&self.models);
                let secrets = self.secrets.clone();
                let asking = ask_aside(models, aside, attempt, request, cancel);
                Box::pin(asking.map(move |input| input.map(|input| struck_out(input, &secrets))))
            }
            Work::Attend(charge) => {
                let (harness, secrets) = (self.harness.clone(), self.secrets.clone());
                Box::pin(async move {
                    Some(struck_out(children::attend(harness, charge, cancel).await, &secrets))
                })
            }
            Work::AwaitAnswer(charge) => {
                Box::pin(children::await_answer(self.harness.clone(), charge, cancel))
            }
            Work::EndChild { charge, reason } => {
                Box::pin(children::end(self.harness.clone(), charge, reason).map(|()| None))
            }
        }
    }
}

impl Hands {
    fn tool(&self, work: &ToolWork) -> Option<Arc<dyn Tool>> {
        self.toolbox.get(&work.tool).cloned()
    }

    fn context(&self, work: &ToolWork, cancel: Cancel) -> Context {
        Context {
            workspace: Arc::clone(&self.workspace),
            run: work.run.clone(),
            key: effect_key(&work.run, work.call),
            timeout: work.timeout,
            cwd: work.cwd.clone(),
            cancel,
            blobs: Arc::clone(&self.blobs),
            rules: Arc::clone(&self.rules),
            printed: Arc::new(Shown { deltas: Arc::clone(&self.deltas), secrets: self.secrets.clone() }),
        }
    }
}

impl Hands {
    fn looking(&self, look: &Look, cancel: Cancel) -> Context {
        Context {
            workspace: Arc::clone(&self.workspace),
            run: look.run.clone(),
            key: format!("{}.look_{}", look.run, look.round),
            timeout: LOOK_TIME_MAX,
            cwd: None,
            cancel,
            blobs: Arc::clone(&self.blobs),
            rules: Arc::clone(&self.rules),
            printed: Arc::new(Shown { deltas: Arc::clone(&self.deltas), secrets: self.secrets.clone() }),
        }
    }
}

/// Looks at the work. A panic in looking is a warning, not the run's end.
async fn look_at_work(
    bash: Option<Arc<dyn Tool>>,
    context: Context,
    look: Look,
    secrets: Secrets,
) -> Option<Input> {
    let (round, attempt) = (look.round, look.attempt);
    let found = match bash {
        Some(bash) => AssertUnwindSafe(examine(&look.examine, bash, &context)).catch_unwind().await,
        None => Ok(Some(unseen("there is no bash to run commands with", &look.examine))),
    };
    let found = match found {
        Ok(found) => found?,
        Err(panic) => unseen(panic_text(panic.as_ref()), &look.examine),
    };
    Some(Input::Examined { round, attempt, found: Box::new(secrets.strike_examination(found)) })
}

/// What could not be looked at does not hold.
fn unseen(why: &str, asked: &Examine) -> Examination {
    let check = |command: &String| Check {
        command: command.clone(),
        passed: false,
        ended: format!("not run: {why}"),
        output: "".into(),
        blob: None,
        duration_us: 1,
    };
    let checks =
        if asked.purpose == Purpose::Claim { asked.verify.iter().map(check).collect() } else { Vec::new() };
    Examination {
        checks,
        warnings: vec![format!("the work could not be looked at: {why}")],
        ..Examination::default()
    }
}

/// Asks once, silently: nobody waits for these words.
async fn ask_aside(
    models: Arc<Shelf>,
    aside: Aside,
    attempt: Attempt,
    request: ModelRequest,
    cancel: Cancel,
) -> Option<Input> {
    let asking = AssertUnwindSafe(ask_model(models, request, &Quiet)).catch_unwind();
    let answer = tokio::select! {
        answer = asking => answer,
        () = cancel.cancelled() => return None,
    };
    let answer = answer.unwrap_or_else(|panic| {
        let message = format!("the model's client panicked: {}", panic_text(panic.as_ref()));
        Err(ModelFailure::new(ModelFailureKind::Rejected, message))
    });
    Some(Input::AsideEnded { aside, attempt, answer })
}

/// What tools print, on its way to whoever watches.
struct Shown {
    deltas: Arc<dyn Deltas>,
    secrets: Secrets,
}

impl Printed for Shown {
    fn line(&self, line: &str) {
        self.deltas.printed(&self.secrets.strike(line));
    }
}

/// A model that was there when the run began and cannot be had any more: its key, its script or its settings are gone.
fn no_model(error: &ResolveError) -> ModelFailure {
    let kind = match error {
        ResolveError::Key(_) => ModelFailureKind::Credentials,
        ResolveError::BadName { .. }
        | ResolveError::UnknownProvider { .. }
        | ResolveError::Untrusted { .. }
        | ResolveError::NoApi { .. }
        | ResolveError::NoBaseUrl { .. }
        | ResolveError::Price { .. }
        | ResolveError::NoNetwork { .. }
        | ResolveError::Wire { .. }
        | ResolveError::Script(_) => ModelFailureKind::ModelUnknown,
    };
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    ModelFailure::new(kind, format!("{error}{hint}"))
}

/// A reply whose calls name the tools as they are granted, whatever alias the model used: permission is by one name only.
fn by_own_names(mut input: Input, toolbox: &Toolbox) -> Input {
    if let Input::ModelReplied { reply, .. } = &mut input {
        for call in &mut reply.calls {
            call.tool = toolbox.canonical(&call.tool).to_owned();
        }
    }
    input
}

/// What a tool or a model says, without the providers' keys.
fn struck_out(input: Input, secrets: &Secrets) -> Input {
    match input {
        Input::ToolEnded { call, attempt, outcome, duration_us, hold } => Input::ToolEnded {
            call,
            attempt,
            outcome: secrets.strike_outcome(outcome),
            duration_us,
            hold: hold.map(|why| secrets.strike(&why).into_owned()),
        },
        Input::AsideEnded { aside, attempt, answer } => {
            let failed = |failure: ModelFailure| ModelFailure {
                message: secrets.strike(&failure.message).into_owned(),
                ..failure
            };
            let answer = answer.map(|reply| secrets.strike_reply(reply)).map_err(failed);
            Input::AsideEnded { aside, attempt, answer }
        }
        Input::ChildRested { number, mut report } => {
            match &mut report.ending {
                ChildEnding::Completed { output: text }
                | ChildEnding::Failed { error: text }
                | ChildEnding::GaveUp { error: text }
                | ChildEnding::Paused { reason: text, .. } => *text = secrets.strike(text).into_owned(),
                ChildEnding::Waiting => {}
            }
            Input::ChildRested { number, report }
        }
        Input::ToolHeld { call, attempt, why } => {
            Input::ToolHeld { call, attempt, why: secrets.strike(&why).into_owned() }
        }
        Input::ToolPrepared { call, attempt, traces } => {
            let traces = traces.map_err(|outcome| secrets.strike_outcome(outcome));
            Input::ToolPrepared { call, attempt, traces }
        }
        Input::ModelReplied { turn, attempt, reply, duration_us } => {
            Input::ModelReplied { turn, attempt, reply: secrets.strike_reply(reply), duration_us }
        }
        Input::ModelFailed { turn, attempt, mut failure } => {
            failure.message = secrets.strike(&failure.message).into_owned();
            Input::ModelFailed { turn, attempt, failure }
        }
        other @ (Input::Command(_)
        | Input::CommandUnfit { .. }
        | Input::Restarted { .. }
        | Input::ToolChecked { .. }
        | Input::Examined { .. }
        | Input::ChildAnswered { .. }
        | Input::Woke(_)
        | Input::CheckpointDue
        | Input::DiskLow
        | Input::OlderSchema { .. }
        | Input::Contained { .. }
        | Input::ChecksChanged { .. }
        | Input::OutOfBudget(_)
        | Input::WorkKept { .. }
        | Input::FilesStored { .. }
        | Input::FellBack { .. }) => other,
    }
}

/// Puts what stands in a workspace out of the agent's reach. That it cannot be done is no reason for a run to stop.
pub(crate) fn stored(tree: &Path, state: &Path, quota: Option<u64>) -> Stored {
    if let Some(why) = retention::over(state, quota) {
        return Stored::Failed { why };
    }
    match Vault::open(tree, state).and_then(|vault| vault.store()) {
        Ok(found) => Stored::Tree { tree: found.tree, left_out: found.left_out.len() as u32 },
        Err(error) => Stored::Failed { why: error.to_string() },
    }
}

/// Commits what stands in a worktree. That it cannot be done is no reason for a run to end otherwise than it did.
fn kept(tree: &Path, scratch: &Path, keep: &Keep) -> Kept {
    let commit = || -> Result<Option<Committed>, commit::Error> {
        let checkout = Checkout::open(tree, scratch, Filters::Failing)?;
        commit::commit(&checkout, keep.run.as_str(), &keep.message)
    };
    match commit() {
        Ok(Some(Committed { commit, branch, .. })) => Kept::Committed { commit, branch },
        Ok(None) => Kept::Unchanged,
        Err(error) => Kept::Uncommitted { why: error.to_string() },
    }
}

/// The key that marks everything a call does outside: the same for every attempt, so that recovery finds the traces.
pub fn effect_key(run: &RunId, call: CallId) -> String {
    format!("{run}.{call}")
}

/// Large outputs kept in the run's own blobs.
pub struct RunBlobs {
    pub store: Arc<dyn Store>,
    pub run: RunId,
    pub secrets: Secrets,
}

impl Blobs for RunBlobs {
    fn keep(&self, bytes: &[u8]) -> Result<String, String> {
        self.store.put_blob(&self.run, &self.secrets.strike_bytes(bytes)).map_err(|error| error.to_string())
    }

    fn fetch(&self, hash: &str) -> Result<Vec<u8>, String> {
        self.store.blob(&self.run, hash).map_err(|error| error.to_string())
    }
}

async fn call_model(
    models: Arc<Shelf>,
    deltas: Arc<dyn Deltas>,
    turn: u32,
    attempt: Attempt,
    request: ModelRequest,
    cancel: Cancel,
) -> Option<Input> {
    let started = Instant::now();
    let asking = AssertUnwindSafe(ask_model(models, request, deltas.as_ref())).catch_unwind();
    let answer = tokio::select! {
        answer = asking => answer,
        // Nothing of a half-heard answer is kept; the turn is asked again when the run goes on.
        () = cancel.cancelled() => return None,
    };
    let failed = |failure| Some(Input::ModelFailed { turn, attempt, failure });
    match answer {
        Ok(Ok(reply)) => Some(Input::ModelReplied { turn, attempt, reply, duration_us: micros(started) }),
        Ok(Err(failure)) => failed(failure),
        Err(panic) => {
            let message = format!("the model's client panicked: {}", panic_text(panic.as_ref()));
            // What it panicked at may be the one odd reply of a night: a person looks, and nothing is lost.
            failed(ModelFailure::new(ModelFailureKind::Rejected, message))
        }
    }
}

/// Asks once, and once more if the key was refused and there is a new one.
async fn ask_model(
    models: Arc<Shelf>,
    request: ModelRequest,
    deltas: &dyn Deltas,
) -> Result<ModelReply, ModelFailure> {
    let name = request.model.to_string();
    let model = off_the_loop(&models, &name, |models, name| models.get(name))
        .await?
        .map_err(|error| no_model(&error))?;
    let refused = match heard(&*model, request.clone(), deltas).await {
        Err(failure) if failure.kind == ModelFailureKind::Credentials => failure,
        answer => return answer,
    };
    let old = Arc::clone(&model);
    let renewed =
        off_the_loop(&models, &name, move |models, name| models.renewed(name, old.as_ref())).await?;
    match renewed {
        Some(model) => heard(&*model, request, deltas).await,
        None => Err(refused),
    }
}

/// Asks, and says with the answer how much fits into the model's window.
async fn heard(
    model: &dyn Model,
    request: ModelRequest,
    deltas: &dyn Deltas,
) -> Result<ModelReply, ModelFailure> {
    let reply = model.call(request, deltas).await?;
    // What the reply may take is no room for the question; but a small window is not given away.
    let window = model.context_window();
    let room = window - model.reply_room().min(window / 2);
    Ok(ModelReply { window: Some(room), ..reply })
}

/// Finding a key may mean waiting for a command; the run goes on hearing what is asked of it meanwhile.
async fn off_the_loop<T: Send + 'static>(
    models: &Arc<Shelf>,
    name: &str,
    work: impl FnOnce(&Shelf, &str) -> T + Send + 'static,
) -> Result<T, ModelFailure> {
    let (models, name) = (Arc::clone(models), name.to_owned());
    let done = tokio::task::spawn_blocking(move || work(&models, &name)).await;
    done.map_err(|error| {
        ModelFailure::new(ModelFailureKind::Rejected, format!("the model cannot be found: {error}"))
    })
}

/// A preparation that fails is the answer to its call, and may say what is in a file: so the hooks see that call here. Of one
/// that succeeds they see the call when it is made.
async fn prepared(hooks: &Hooks, tool: Option<Arc<dyn Tool>>, context: Context, work: ToolWork) -> Input {
    let (call, attempt) = (work.call, work.attempt);
    let mut traces = prepare(tool, &context, &work).await;
    if traces.is_err() {
        let looked = Looked { call, attempt, tool: &work.tool, args: &work.args };
        match hooks.before(&context, looked).await {
            Verdict::Continue => {}
            Verdict::Block(reason) | Verdict::Interrupt(reason) => {
                traces = Err(Outcome::failed(Failure::NotPermitted, reason));
            }
            Verdict::Broken(reason) => traces = Err(Outcome::failed(Failure::Hook, reason)),
        }
    }
    Input::ToolPrepared { call, attempt, traces }
}

async fn prepare(
    tool: Option<Arc<dyn Tool>>,
    context: &Context,
    work: &ToolWork,
) -> Result<Vec<Trace>, Outcome> {
    match tool {
        None => Err(missing(&work.tool)),
        Some(tool) => AssertUnwindSafe(tool.prepare(context, &work.args))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(panicked(panic.as_ref()))),
    }
}

/// Runs a tool between its hooks. What they take is not the tool's time.
async fn hooked(hooks: &Hooks, tool: Option<Arc<dyn Tool>>, context: Context, work: ToolWork) -> Input {
    let (call, attempt) = (work.call, work.attempt);
    let looked = Looked { call, attempt, tool: &work.tool, args: &work.args };
    let refused = match hooks.before(&context, looked).await {
        Verdict::Continue => None,
        // Leave was given for exactly this call: that is what the hook wanted.
        Verdict::Interrupt(_) if work.granted => None,
        Verdict::Interrupt(why) => return Input::ToolHeld { call, attempt, why },
        Verdict::Block(reason) => Some(Outcome::failed(Failure::NotPermitted, reason)),
        Verdict::Broken(_) if context.cancel.is_cancelled() => {
            Some(Outcome::failed(Failure::Cancelled, "not begun because the run was paused"))
        }
        Verdict::Broken(reason) => Some(Outcome::failed(Failure::Hook, reason)),
    };
    if let Some(outcome) = refused {
        return Input::ToolEnded { call, attempt, outcome, duration_us: 1, hold: None };
    }
    let started = Instant::now();
    let outcome = run(tool, &context, &work).await;
    let duration_us = micros(started);
    let verdict = hooks.after(&context, looked, &outcome).await;
    let (outcome, hold) = judged(outcome, verdict);
    Input::ToolEnded { call, attempt, outcome, duration_us, hold }
}

async fn run(tool: Option<Arc<dyn Tool>>, context: &Context, work: &ToolWork) -> Outcome {
    match tool {
        None => missing(&work.tool),
        Some(tool) => AssertUnwindSafe(tool.run(context, &work.args, &work.traces))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| panicked(panic.as_ref())),
    }
}

async fn check(tool: Option<Arc<dyn Tool>>, context: Context, work: ToolWork) -> Input {
    let (call, attempt) = (work.call, work.attempt);
    let found = match tool {
        Some(tool) => AssertUnwindSafe(tool.check(&context, &work.args, &work.traces))
            .catch_unwind()
            .await
            .unwrap_or(Found::Unknown),
        None => Found::Unknown,
    };
    Input::ToolChecked { call, attempt, found }
}

fn missing(tool: &str) -> Outcome {
    Outcome::failed(Failure::Tool, format!("tool `{tool}` is not part of this longhaul"))
}

/// A panic in a tool is that call's misfortune, not the run's: what it had done by then nobody knows.
fn panicked(panic: &(dyn std::any::Any + Send)) -> Outcome {
    Outcome::Unknown { message: format!("the tool panicked: {}", panic_text(panic)) }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
}
