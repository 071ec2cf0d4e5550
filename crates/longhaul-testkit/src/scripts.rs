//! Scripted models written in a test, and the specification of a run that plays one.

#![expect(clippy::panic, reason = "a test whose script is wrong has failed")]

use std::path::Path;
use std::sync::Arc;

use longhaul_core::ids::RunId;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::spec::{Autonomy, Limits, RunSpec};
use longhaul_core::tool::RetryPolicy;
use longhaul_model::{Model, Scripted};
use longhaul_tools::Toolbox;

/// The agent of every run made here.
pub const AGENT: &str = "coder";

/// The model that plays `yaml`, which may call whatever is in `toolbox`.
pub fn model(yaml: &str, toolbox: &Toolbox) -> Arc<dyn Model> {
    match Scripted::parse("the test's script", yaml, &toolbox.names()) {
        Ok(scripted) => Arc::new(scripted),
        Err(error) => panic!("{error}"),
    }
}

/// A run of all tools of `toolbox` in `workspace`, with one step for each description, each waiting for the one before.
pub fn spec(id: RunId, workspace: &Path, toolbox: &Toolbox, steps: &[&str]) -> RunSpec {
    let Ok(tools) = toolbox.grants(&toolbox.names()) else { panic!("a toolbox has its own tools") };
    RunSpec {
        task_id: id.to_string(),
        id,
        agent: AGENT.to_owned(),
        task: "the test's task".to_owned(),
        model: "scripted/test.yaml".to_owned(),
        prompt: "You are a test.".to_owned(),
        plan: chain(steps),
        autonomy: Autonomy::default(),
        limits: Limits::default(),
        retry: RetryPolicy::default(),
        tools,
        workspace: workspace.display().to_string(),
        parent: None,
        depth: 0,
        session: None,
        checkpoint_interval_ms: 300_000,
        branch: None,
        repository: None,
        engine_enabled: None,
        models: None,
        mode: None,
        answer_schema: None,
        on_ask: None,
        permissions: None,
        conduct: None,
        parallel: None,
        crew: None,
        planner: None,
        base: None,
        carried: None,
        auto_commit: None,
        source: None,
        baseline_of: None,
        agent_caps: None,
        collaboration: None,
        workflow_run: None,
        isolation: None,
        begun_with: None,
    }
}

fn chain(descriptions: &[&str]) -> Plan {
    let steps = descriptions.iter().enumerate().map(|(index, description)| {
        let step = Step::new(&format!("step-{}", index + 1), description, AGENT);
        let dependencies = if index > 0 { vec![format!("step-{index}")] } else { Vec::new() };
        Step { dependencies, ..step }
    });
    match (Plan { steps: steps.collect() }).checked() {
        Ok(plan) => plan,
        Err(error) => panic!("{error}"),
    }
}
