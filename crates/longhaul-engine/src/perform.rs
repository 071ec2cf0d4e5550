//! Effects performed: the model is asked, tools run, destinations are looked at. Each answers with an input.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use longhaul_core::conversation::{ModelFailure, ModelFailureKind, ModelRequest};
use longhaul_core::ids::{Attempt, CallId, RunId};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::tool::{Failure, Found, Outcome, Trace};
use longhaul_model::{Deltas, Model};
use longhaul_store::Store;
use longhaul_tools::{Blobs, Cancel, Context, Tool, Toolbox};
use longhaul_workspace::Workspace;

/// One effect with everything needed to perform it, cut loose from the run.
#[derive(Clone, Debug)]
pub enum Work {
    CallModel { turn: u32, attempt: Attempt, request: ModelRequest },
    PrepareTool(ToolWork),
    RunTool(ToolWork),
    CheckTool(ToolWork),
}

#[derive(Clone, Debug)]
pub struct ToolWork {
    pub run: RunId,
    pub call: CallId,
    pub attempt: Attempt,
    pub tool: String,
    pub args: Json,
    pub traces: Vec<Trace>,
    pub timeout: Duration,
}

/// Performs effects. Implemented by [`Hands`] and by the testkit's crash injector around it; called by the driver only.
pub trait Performer: Send + Sync {
    /// Does the work; `None` if it was cancelled without a result worth keeping.
    fn perform(&self, work: Work, cancel: Cancel) -> BoxFuture<'static, Option<Input>>;
}

/// The real performer: a model, a toolbox and a workspace.
pub struct Hands {
    pub model: Arc<dyn Model>,
    pub deltas: Arc<dyn Deltas>,
    pub toolbox: Arc<Toolbox>,
    pub workspace: Arc<Workspace>,
    pub blobs: Arc<dyn Blobs>,
}

impl Performer for Hands {
    fn perform(&self, work: Work, cancel: Cancel) -> BoxFuture<'static, Option<Input>> {
        match work {
            Work::CallModel { turn, attempt, request } => {
                let (model, deltas) = (Arc::clone(&self.model), Arc::clone(&self.deltas));
                Box::pin(call_model(model, deltas, turn, attempt, request, cancel))
            }
            Work::PrepareTool(work) => {
                let tool = self.tool(&work);
                let context = self.context(&work, cancel);
                Box::pin(prepare(tool, context, work).map(Some))
            }
            Work::RunTool(work) => {
                let tool = self.tool(&work);
                let context = self.context(&work, cancel);
                Box::pin(run(tool, context, work).map(Some))
            }
            Work::CheckTool(work) => {
                let tool = self.tool(&work);
                let context = self.context(&work, cancel);
                Box::pin(check(tool, context, work).map(Some))
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
            cancel,
            blobs: Arc::clone(&self.blobs),
        }
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
}

impl Blobs for RunBlobs {
    fn keep(&self, bytes: &[u8]) -> Result<String, String> {
        self.store.put_blob(&self.run, bytes).map_err(|error| error.to_string())
    }

    fn fetch(&self, hash: &str) -> Result<Vec<u8>, String> {
        self.store.blob(&self.run, hash).map_err(|error| error.to_string())
    }
}

async fn call_model(
    model: Arc<dyn Model>,
    deltas: Arc<dyn Deltas>,
    turn: u32,
    attempt: Attempt,
    request: ModelRequest,
    cancel: Cancel,
) -> Option<Input> {
    let started = Instant::now();
    let asking = AssertUnwindSafe(model.call(request, deltas.as_ref())).catch_unwind();
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
            failed(ModelFailure { kind: ModelFailureKind::Fatal, after_ms: None, message })
        }
    }
}

async fn prepare(tool: Option<Arc<dyn Tool>>, context: Context, work: ToolWork) -> Input {
    let (call, attempt) = (work.call, work.attempt);
    let traces = match tool {
        None => Err(missing(&work.tool)),
        Some(tool) => AssertUnwindSafe(tool.prepare(&context, &work.args))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| Err(panicked(panic.as_ref()))),
    };
    Input::ToolPrepared { call, attempt, traces }
}

async fn run(tool: Option<Arc<dyn Tool>>, context: Context, work: ToolWork) -> Input {
    let started = Instant::now();
    let (call, attempt) = (work.call, work.attempt);
    let outcome = match tool {
        None => missing(&work.tool),
        Some(tool) => AssertUnwindSafe(tool.run(&context, &work.args, &work.traces))
            .catch_unwind()
            .await
            .unwrap_or_else(|panic| panicked(panic.as_ref())),
    };
    Input::ToolEnded { call, attempt, outcome, duration_us: micros(started) }
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
