//! Changing one file so that it can be checked afterwards.
//!
//! Owns the rules that `write` and `edit` share: what the trace of a change is, when it may still be made, and what a
//! look at the file says after a crash. Between the last look and the rename another process may slip in; that window
//! cannot be closed on a file system, only kept short. Refuses to compute what the new bytes are.

use longhaul_core::tool::{Failure, Found, Outcome, Trace};
use longhaul_workspace::Error;

use crate::tool::{Context, blocking, refused};

/// What is to be at a path.
pub(crate) struct Change {
    pub(crate) path: String,
    pub(crate) before: String,
    /// Kept, because digesting is most of the work on a large file.
    pub(crate) after: String,
    pub(crate) bytes: Vec<u8>,
    /// What the model is told when it is done.
    pub(crate) report: String,
}

impl Change {
    pub(crate) fn trace(&self) -> Trace {
        Trace { target: self.path.clone(), before: self.before.clone(), after: self.after.clone() }
    }

    /// Makes the change, which was computed from the file as it is now.
    pub(crate) fn make(self, context: &Context, trace: Option<&Trace>) -> Outcome {
        if let Some(trace) = trace {
            if self.before == trace.after {
                return settled(context, &self.path, self.report);
            }
            if self.before != trace.before {
                return changed_meanwhile(&self.path);
            }
            if self.after != trace.after {
                return Outcome::failed(
                    Failure::Tool,
                    format!("the change of `{}` is no longer the same", self.path),
                );
            }
        }
        match context.workspace.replace(&self.path, &self.bytes, &context.key) {
            Ok(()) => Outcome::done(self.report),
            Err(error) => refused(&error),
        }
    }
}

/// The outcome of a change that the file shows already: nothing is written, but it is made durable.
pub(crate) fn settled(context: &Context, path: &str, report: String) -> Outcome {
    match sweep_and_settle(context, path) {
        Ok(()) => Outcome::done(report),
        Err(error) => refused(&error),
    }
}

pub(crate) fn changed_meanwhile(path: &str) -> Outcome {
    let message =
        format!("`{path}` was changed by somebody else in the meantime; read it again, then decide");
    Outcome::failed(Failure::Tool, message)
}

/// Looks at the file after a crash. A leftover temporary file can only be this call's own, so it is removed.
pub(crate) async fn check(context: &Context, path: String, traces: &[Trace]) -> Found {
    let [trace] = traces else { return Found::Unknown };
    let (context, trace) = (context.clone(), trace.clone());
    let looked = blocking(move || match context.workspace.digest(&path) {
        Ok(digest) if digest == trace.after => found(sweep_and_settle(&context, &path), Found::Done),
        Ok(digest) if digest == trace.before => {
            found(context.workspace.sweep(&path, &context.key).map(drop), Found::NotDone)
        }
        Ok(_) | Err(_) => {
            // The answer is "unknown" either way; the leftover goes if it can.
            context.workspace.sweep(&path, &context.key).ok();
            Found::Unknown
        }
    });
    looked.await.unwrap_or(Found::Unknown)
}

/// What could not be cleared up or made durable is not certain either.
fn found(cleared: Result<(), Error>, answer: Found) -> Found {
    if cleared.is_ok() { answer } else { Found::Unknown }
}

fn sweep_and_settle(context: &Context, path: &str) -> Result<(), Error> {
    context.workspace.sweep(path, &context.key)?;
    context.workspace.settle(path)
}
