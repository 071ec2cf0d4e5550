//! A tool that does nothing, and lets a run do nothing until it is told how many turns to take. So a run can be measured
//! in batches, with the probe in between, without ever being closed and opened again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Trace};
use longhaul_tools::{BoxFuture, Context, Tool, ToolSpec};
use serde_json::json;
use tokio::sync::Semaphore;

pub const TOOL: &str = "noop";

/// Shared by the tool, which waits at it, and the measurer, who opens it.
#[derive(Default)]
pub struct Gate {
    /// Calls that each run may still make.
    calls: Mutex<HashMap<RunId, Arc<Semaphore>>>,
    /// One for each run that has come to a rest since the last time somebody waited for it.
    resting: Resting,
}

struct Resting(Semaphore);

impl Default for Resting {
    fn default() -> Resting {
        Resting(Semaphore::new(0))
    }
}

impl Gate {
    /// Lets every run that came here take that many turns.
    pub fn open(&self, turns: usize) {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        calls.values().for_each(|calls| calls.add_permits(turns));
    }

    /// Waits until that many runs rest here.
    pub async fn rested(&self, runs: usize) {
        let runs = u32::try_from(runs).unwrap_or(u32::MAX);
        if let Ok(rested) = self.resting.0.acquire_many(runs).await {
            rested.forget();
        }
    }

    fn of(&self, run: &RunId) -> Arc<Semaphore> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        match calls.get(run) {
            Some(known) => Arc::clone(known),
            None => Arc::clone(calls.entry(run.clone()).or_insert_with(|| Arc::new(Semaphore::new(0)))),
        }
    }

    /// False if the run was paused while it waited.
    async fn pass(&self, context: &Context) -> bool {
        let calls = self.of(&context.run);
        if let Ok(call) = calls.try_acquire() {
            call.forget();
            return true;
        }
        self.resting.0.add_permits(1);
        tokio::select! {
            Ok(call) = calls.acquire() => { call.forget(); true }
            () = context.cancel.cancelled() => false,
        }
    }
}

/// Answers every call with the same text.
pub struct Noop {
    spec: ToolSpec,
    text: String,
    gate: Arc<Gate>,
}

impl Noop {
    pub fn new(text: String, gate: Arc<Gate>) -> Noop {
        let spec = ToolSpec {
            name: TOOL.to_owned(),
            description: "Does nothing.".to_owned(),
            class: EffectClass::Repeatable,
            schema: json!({ "type": "object" }),
        };
        Noop { spec, text, gate }
    }
}

impl Tool for Noop {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        _args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            if self.gate.pass(context).await {
                Outcome::done(self.text.clone())
            } else {
                Outcome::failed(Failure::Cancelled, "the benchmark is over")
            }
        })
    }
}
