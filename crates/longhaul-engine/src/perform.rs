//! Effects performed: the model is asked, tools run, destinations are looked at. Each answers with an input.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use longhaul_core::child::{ChildEnding, ChildReport};
use longhaul_core::conversation::{ModelFailure, ModelRequest};
use longhaul_core::event::{Aside, Cause, Kept, Moment, Purpose, Stored};
use longhaul_core::evidence::{Check, Examination};
use longhaul_core::ids::{Attempt, CallId, RunId};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::permission::Permissions;
use longhaul_core::tool::{Failure, Found, Outcome, Trace};
use longhaul_model::Deltas;
use longhaul_store::Store;
use longhaul_tools::hooks::{Hooks, Looked, Verdict, judged};
use longhaul_tools::{Blobs, Cancel, Context, Examine, Printed, Tool, Toolbox, examine, set_up};
use longhaul_workspace::Workspace;
use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::checkpoints::Vault;
use longhaul_workspace::commit::{self, Committed};

use crate::asking::{Shelf, ask_aside, call_model};
use crate::children::{self, Charge};
use crate::harness::Harness;
use crate::limits::LOOK_TIME_MAX;
use crate::pictures::with_pictures;
use crate::retention::Quota;
use crate::secrets::Secrets;

/// One effect with everything needed to perform it, cut loose from the run.
#[derive(Clone, Debug)]
pub enum Work {
    CallModel {
        turn: u32,
        attempt: Attempt,
        request: ModelRequest,
        has_images: bool,
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
    /// A fresh workspace is prepared. No effect of the machine's either: it comes before the machine is asked.
    SetUp {
        run: RunId,
        commands: Vec<String>,
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
    /// The run whose protected files count.
    pub baseline_of: Option<RunId>,
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
                let Some((harness, home)) =
                    self.harness.as_ref().and_then(|own| own.home().map(|home| (own, home)))
                else {
                    return Box::pin(std::future::ready(None));
                };
                let (tree, state) = (self.workspace.root().to_owned(), home.dir().to_owned());
                let quota = harness.checkpoints_quota();
                Box::pin(async move {
                    let stored = tokio::task::spawn_blocking(move || stored(&tree, &state, &quota)).await;
                    let lost = |error: tokio::task::JoinError| Stored::Failed { why: error.to_string() };
                    Some(Input::FilesStored { stored: stored.unwrap_or_else(lost), moment })
                })
            }
            Work::SetUp { run, commands } => {
                let (bash, secrets) = (self.toolbox.get("bash").cloned(), self.secrets.clone());
                let context = self.preparing(run, cancel);
                Box::pin(async move { Some(prepared_place(bash, &context, &commands, &secrets).await) })
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
            Work::CallModel { turn, attempt, request, has_images } => {
                if let Some(why) = gone(&self.workspace) {
                    return Box::pin(std::future::ready(Some(Input::WorkspaceGone { why })));
                }
                let (models, deltas) = (Arc::clone(&self.models), Arc::clone(&self.deltas));
                let (toolbox, secrets) = (Arc::clone(&self.toolbox), self.secrets.clone());
                let blobs = Arc::clone(&self.blobs);
                let asking = async move {
                    let request = if has_images { with_pictures(request, blobs).await } else { request };
                    call_model(models, deltas, turn, attempt, request, cancel).await
                };
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
                let earlier = self.earlier_baseline(&look);
                Box::pin(look_at_work(bash, context, look, secrets, earlier))
            }
            Work::AskAside { aside, attempt, request } => {
                let models = Arc::clone(&self.models);
                let secrets = self.secrets.clone();
                let asking = ask_aside(models, aside, attempt, request, cancel);
                Box::pin(asking.map(move |input| input.map(|input| struck_out(input, &secrets))))
            }
            Work::Attend(charge) => {
                let (harness, secrets) = (self.harness.clone(), self.secrets.clone());
                let asked = charge.call.clone().map(|work| (self.context(&work, cancel.clone()), work));
                let toolbox = Arc::clone(&self.toolbox);
                Box::pin(async move {
                    let input = match stopped_by_hooks(&toolbox.hooks, &harness, &charge, asked).await {
                        Some(ending) => {
                            let report = ChildReport { ending, ledger: charge.ledger };
                            Input::ChildRested { number: charge.number, report }
                        }
                        None => children::attend(harness, charge, cancel).await,
                    };
                    Some(struck_out(input, &secrets))
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
    fn preparing(&self, run: RunId, cancel: Cancel) -> Context {
        Context {
            workspace: Arc::clone(&self.workspace),
            key: format!("{run}.set_up"),
            run,
            timeout: LOOK_TIME_MAX,
            cwd: None,
            cancel,
            blobs: Arc::clone(&self.blobs),
            rules: Arc::clone(&self.rules),
            printed: Arc::new(Shown { deltas: Arc::clone(&self.deltas), secrets: self.secrets.clone() }),
        }
    }

    /// The blob that says how protected files were before an earlier try at the same. Without one they are as they are.
    fn earlier_baseline(&self, look: &Look) -> Option<String> {
        let earlier = look.baseline_of.as_ref().filter(|_| look.examine.purpose == Purpose::Baseline)?;
        self.harness.as_ref()?.look(earlier).ok()?.baseline?.protected
    }

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

/// Runs the commands that prepare a workspace.
async fn prepared_place(
    bash: Option<Arc<dyn Tool>>,
    context: &Context,
    commands: &[String],
    secrets: &Secrets,
) -> Input {
    let started = Instant::now();
    let ended = match bash {
        Some(bash) => set_up(commands, bash, context).await,
        None => Err("there is no bash to run commands with".to_owned()),
    };
    let error = ended.err().map(|error| secrets.strike(&error).into_owned());
    let duration_us = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX).max(1);
    Input::SetUpEnded { error, duration_us }
}

/// Looks at the work. A panic in looking is a warning, not the run's end.
async fn look_at_work(
    bash: Option<Arc<dyn Tool>>,
    context: Context,
    look: Look,
    secrets: Secrets,
    earlier: Option<String>,
) -> Option<Input> {
    let (round, attempt) = (look.round, look.attempt);
    let found = match bash {
        Some(bash) => AssertUnwindSafe(examine(&look.examine, bash, &context)).catch_unwind().await,
        None => Ok(Some(unseen("there is no bash to run commands with", &look.examine))),
    };
    let mut found = match found {
        Ok(found) => found?,
        Err(panic) => unseen(panic_text(panic.as_ref()), &look.examine),
    };
    found.baseline = earlier.or(found.baseline);
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
    let checks = if asked.purpose.is_claim() { asked.verify.iter().map(check).collect() } else { Vec::new() };
    Examination {
        checks,
        warnings: vec![format!("the work could not be looked at: {why}")],
        ..Examination::default()
    }
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

/// A reply whose calls name the tools as they are granted, whatever alias the model used: permission is by one name only.
fn by_own_names(mut input: Input, toolbox: &Toolbox) -> Input {
    if let Input::ModelReplied { reply, .. } = &mut input {
        for call in &mut reply.calls {
            call.tool = toolbox.canonical(&call.tool).into();
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
                | ChildEnding::Stopped { reason: text }
                | ChildEnding::Refused { why: text }
                | ChildEnding::Held { why: text }
                | ChildEnding::Paused { reason: text, .. } => *text = secrets.strike(text).into_owned(),
                ChildEnding::Waiting | ChildEnding::Idle { .. } => {}
            }
            Input::ChildRested { number, report }
        }
        Input::ToolHeld { call, attempt, why } => {
            Input::ToolHeld { call, attempt, why: secrets.strike(&why).into_owned() }
        }
        Input::ToolPrepared { call, attempt, traces, hold } => {
            let traces = traces.map_err(|outcome| secrets.strike_outcome(outcome));
            Input::ToolPrepared { call, attempt, traces, hold }
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
        | Input::WorkspaceGone { .. }
        | Input::WorkKept { .. }
        | Input::FilesStored { .. }
        | Input::SetUpStarted { .. }
        | Input::SetUpEnded { .. }
        | Input::SpentBefore { .. }
        | Input::TornTail { .. }
        | Input::DerivedFailed { .. }
        | Input::FellBack { .. }) => other,
    }
}

/// Puts what stands in a workspace out of the agent's reach. That it cannot be done is no reason for a run to stop.
pub(crate) fn stored(tree: &Path, state: &Path, quota: &Quota) -> Stored {
    if let Some(why) = quota.over(state, Instant::now()) {
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
    /// Where blobs are that were kept for an earlier try at the same.
    pub earlier: Option<RunId>,
}

impl Blobs for RunBlobs {
    fn keep(&self, bytes: &[u8]) -> Result<String, String> {
        self.store.put_blob(&self.run, &self.secrets.strike_bytes(bytes)).map_err(|error| error.to_string())
    }

    fn fetch(&self, hash: &str) -> Result<Vec<u8>, String> {
        let own = self.store.blob(&self.run, hash);
        let found = match &self.earlier {
            Some(earlier) => own.or_else(|error| self.store.blob(earlier, hash).map_err(|_| error)),
            None => own,
        };
        found.map_err(|error| error.to_string())
    }
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
    let hold = if traces.is_err() { gone(&context.workspace) } else { None };
    Input::ToolPrepared { call, attempt, traces, hold }
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

/// What hooks have against an errand that a call asks for, before anybody is sent.
async fn stopped_by_hooks(
    hooks: &Hooks,
    harness: &Option<Harness>,
    charge: &Charge,
    asked: Option<(Context, ToolWork)>,
) -> Option<ChildEnding> {
    let (context, work) = asked?;
    // Who is there already was let go when it was made.
    if harness.as_ref().is_some_and(|harness| harness.look(&charge.errand.id).is_ok()) {
        return None;
    }
    let looked = Looked { call: work.call, attempt: work.attempt, tool: &work.tool, args: &work.args };
    let why = match hooks.before(&context, looked).await {
        Verdict::Continue => return None,
        Verdict::Broken(_) if context.cancel.is_cancelled() => {
            let reason = "the run was paused before it was sent".to_owned();
            return Some(ChildEnding::Paused { cause: Cause::Asked, reason });
        }
        // Leave was given for exactly this call: that is what the hook wanted.
        Verdict::Interrupt(_) if work.granted => return None,
        Verdict::Interrupt(why) => return Some(ChildEnding::Held { why }),
        Verdict::Block(reason) | Verdict::Broken(reason) => reason,
    };
    Some(ChildEnding::Refused { why })
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
    let hold = gone(&context.workspace).or(hold);
    Input::ToolEnded { call, attempt, outcome, duration_us, hold }
}

/// Why nothing can go on where the run works, if it is not there any more: whatever an agent does next would fail or be lost.
fn gone(workspace: &Workspace) -> Option<String> {
    let error = workspace.check_present().err()?;
    Some(format!("workspace_gone: {error}; put it back, then resume"))
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

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

pub(crate) fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
}
