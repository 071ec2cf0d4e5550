//! Calls made between their hooks. A panic in a tool is that call's misfortune, not the run's.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use longhaul_core::child::ChildEnding;
use longhaul_core::event::Cause;
use longhaul_core::input::{Input, Tended};
use longhaul_core::tool::{Failure, Found, Outcome, Trace};
use longhaul_tools::hooks::{Hooks, Looked, Verdict, judged};
use longhaul_tools::{Context, Tool};
use longhaul_workspace::Workspace;

use super::{ToolWork, micros, panic_text};
use crate::children::Charge;
use crate::harness::Harness;

/// A preparation that fails is the answer to its call, and may say what is in a file: so the hooks see that call here. Of one
/// that succeeds they see the call when it is made.
pub(super) async fn prepared(
    hooks: &Hooks,
    tool: Option<Arc<dyn Tool>>,
    context: Context,
    work: ToolWork,
) -> Input {
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

/// Runs a tool between its hooks. What they take is not the tool's time.
pub(super) async fn hooked(
    hooks: &Hooks,
    tool: Option<Arc<dyn Tool>>,
    context: Context,
    work: ToolWork,
) -> Input {
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
        let tended = Tended::default();
        return Input::ToolEnded { call, attempt, outcome, duration_us: 1, hold: None, tended };
    }
    let started = Instant::now();
    let outcome = run(tool, &context, &work).await;
    let duration_us = micros(started);
    let verdict = hooks.after(&context, looked, &outcome).await;
    let (outcome, hold) = judged(outcome, verdict);
    let hold = gone(&context.workspace).or(hold);
    Input::ToolEnded { call, attempt, outcome, duration_us, hold, tended: Tended::default() }
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

pub(super) async fn check(tool: Option<Arc<dyn Tool>>, context: Context, work: ToolWork) -> Input {
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

/// What hooks have against an errand that a call asks for, before anybody is sent.
pub(super) async fn stopped_by_hooks(
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

/// Why nothing can go on where the run works, if it is not there any more: whatever an agent does next would fail or be lost.
pub(super) fn gone(workspace: &Workspace) -> Option<String> {
    let error = workspace.check_present().err()?;
    Some(format!("workspace_gone: {error}; put it back, then resume"))
}

fn missing(tool: &str) -> Outcome {
    Outcome::failed(Failure::Tool, format!("tool `{tool}` is not part of this longhaul"))
}

/// A panic in a tool is that call's misfortune, not the run's: what it had done by then nobody knows.
fn panicked(panic: &(dyn std::any::Any + Send)) -> Outcome {
    Outcome::Unknown { message: format!("the tool panicked: {}", panic_text(panic)) }
}
