//! What a tool is.
//!
//! Owns the one trait behind which everything callable stands, and what a call is given. Refuses state between calls:
//! whatever a call needs to know comes with its context and its arguments.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::permission::Permissions;
use longhaul_core::time::Timestamp;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_workspace::{Error, Workspace};
use serde_json::Value;

use crate::cancel::Cancel;

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a call may use.
#[derive(Clone)]
pub struct Context {
    pub workspace: Arc<Workspace>,
    pub run: RunId,
    /// Made by the harness, unique per call, the same again when the call is recovered (`run_x.call_3`).
    pub key: String,
    /// When the model asked for the call: the same again whenever it is prepared anew.
    pub asked_at: Timestamp,
    pub timeout: Duration,
    /// Where in the workspace commands begin, if not at its root.
    pub cwd: Option<String>,
    pub cancel: Cancel,
    pub blobs: Arc<dyn Blobs>,
    /// The tag of the file that the call is about, as its conversation has last seen it.
    pub seen: Option<String>,
    /// What the run is held to, for tools that come to files by themselves.
    pub rules: Arc<[Permissions]>,
    pub printed: Arc<dyn Printed>,
}

/// Hears what a call prints while it still runs: the last of the lines that came together. Implemented by the engine for the
/// live view, called by tools. What is heard is shown and never remembered.
pub trait Printed: Send + Sync {
    fn line(&self, line: &str);

    /// How many of the last bytes may begin something that nobody is to see, and are better shown with what follows.
    fn unfinished(&self, bytes: &[u8]) -> usize {
        let _ = bytes;
        0
    }
}

/// For callers that only want the outcome.
#[derive(Clone, Copy, Debug)]
pub struct Unheard;

impl Printed for Unheard {
    fn line(&self, _line: &str) {}
}

/// Where outputs too long for a conversation are kept. The engine implements it over the store, tests in memory;
/// tools call it. Both functions may block.
pub trait Blobs: Send + Sync {
    /// Keeps the bytes and answers their hash.
    fn keep(&self, bytes: &[u8]) -> Result<String, String>;
    /// By their hash; or, by its name, what an earlier call of the run came to.
    fn fetch(&self, name: &str) -> Result<Vec<u8>, String>;
}

/// What a model is told about a tool, and what recovery may do with it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolSpec {
    pub name: String,
    pub description: String,
    pub class: EffectClass,
    /// JSON schema of the arguments.
    pub schema: Value,
}

/// Something a model may call. Implemented by each built-in tool and by test doubles; called by the engine only.
pub trait Tool: Send + Sync {
    fn spec(&self) -> &ToolSpec;

    /// Looks at what a checkable call would change, without changing it. The error is the call's outcome.
    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        let _ = (context, args);
        let message = format!("the tool `{}` leaves no trace to prepare", self.spec().name);
        Box::pin(async move { Err(Outcome::failed(Failure::Tool, message)) })
    }

    /// Does it. With traces, a destination that is no longer as it was at [`Tool::prepare`] is not overwritten.
    fn run<'a>(&'a self, context: &'a Context, args: &'a Json, traces: &'a [Trace])
    -> BoxFuture<'a, Outcome>;

    /// Asks the destination, after a crash, whether a checkable call had its effect; clears up what it left half done.
    fn check<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        traces: &'a [Trace],
    ) -> BoxFuture<'a, Found> {
        let _ = (context, args, traces);
        Box::pin(async { Found::Unknown })
    }

    /// Lets go of what is held for a run that is put down: servers that were started for it.
    fn rest<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, ()> {
        let _ = run;
        Box::pin(async {})
    }
}

/// Runs work that waits for the disk where it may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Outcome> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Outcome::Unknown { message: format!("the tool broke: {error}") })
}

/// A refusal of the workspace, as the outcome of a call.
pub(crate) fn refused(error: &Error) -> Outcome {
    let failure = match error {
        Error::EmptyPath | Error::NulInPath | Error::TrailingSlash { .. } => Failure::InvalidArguments,
        Error::Outside { .. } | Error::State { .. } | Error::Guarded { .. } => Failure::NotPermitted,
        error if error.is_busy() => Failure::Busy,
        Error::Root { .. }
        | Error::Gone { .. }
        | Error::Missing { .. }
        | Error::Directory { .. }
        | Error::ParentNotDirectory { .. }
        | Error::NotRegular { .. }
        | Error::LinkLoop { .. }
        | Error::TooLarge { .. }
        | Error::BadKey { .. }
        | Error::Io { .. } => Failure::Tool,
    };
    Outcome::failed(failure, error.to_string())
}
