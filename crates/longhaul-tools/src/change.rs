//! Changing one file so that it can be checked afterwards.
//!
//! Owns the rules that `write` and `edit` share: what the trace of a change is, when it may still be made, and what a
//! look at the file says after a crash. Between the last look and the rename another process may slip in; that window
//! cannot be closed on a file system, only kept short. Refuses to compute what the new bytes are.

use std::sync::{Mutex, PoisonError};

use longhaul_core::tool::{Failure, Found, Outcome, Trace};
use longhaul_workspace::Error;

use crate::limits;
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

    /// Makes a change that was computed when it was prepared: the file is asked last whether it is still the one it was
    /// computed from.
    pub(crate) fn make_prepared(self, context: &Context) -> Outcome {
        // Where it is gone, no directory is made for it.
        if let Err(error) = context.workspace.open_file(&self.path) {
            return refused(&error);
        }
        let mut found = None;
        let agreed = || {
            let now = found.insert(context.workspace.digest(&self.path));
            now.as_ref().is_ok_and(|now| *now == self.before)
        };
        match (context.workspace.replace_if(&self.path, &self.bytes, &context.key, agreed), found) {
            (Ok(true), _) => Outcome::done(self.report),
            (Ok(false), Some(Ok(now))) if now == self.after => settled(context, &self.path, self.report),
            (Ok(false), Some(Err(error))) | (Err(error), _) => refused(&error),
            (Ok(false), _) => changed_meanwhile(&self.path),
        }
    }
}

/// The one change that was prepared last, so that it need not be computed again when its intent is on record. Losing it costs
/// time only.
#[derive(Default)]
pub(crate) struct Prepared(Mutex<Option<(String, Change)>>);

impl Prepared {
    /// Keeps a change for the call with this key.
    pub(crate) fn keep(&self, key: &str, change: Change) {
        let small = change.bytes.len() <= limits::PREPARED_BYTES_MAX;
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = small.then(|| (key.to_owned(), change));
    }

    /// The change that was prepared for the call with this key, if it is the one of this trace.
    pub(crate) fn take(&self, key: &str, trace: &Trace) -> Option<Change> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (_, change) = kept.take_if(|(of, change)| of == key && change.trace() == *trace)?;
        Some(change)
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
