//! What the outside is shown of a run: `show --json`, the catalogue's row, and one JSON line for each event.

mod gate;
mod line;

use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

pub use self::gate::{GateView, gate_id};
pub use self::line::EventLine;

use crate::child::{Child, ChildState};
use crate::conversation::Usage;
use crate::ids::RunId;
use crate::money::Usd;
use crate::report;
use crate::run::Run;
use crate::spec::{GitSource, Limits, Mode, RunSpec};
use crate::status::{Status, Wait};
use crate::time::Timestamp;
use crate::tool::RetryPolicy;

/// `show --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunView {
    pub id: RunId,
    pub kind: String,
    pub agent_name: String,
    pub task: String,
    pub task_id: String,
    pub model: String,
    pub models: Vec<String>,
    pub mode: Mode,
    pub status: Status,
    pub wait: Wait,
    /// When a wait for time is over.
    pub wake_at: Option<Timestamp>,
    pub reason: Option<String>,
    pub autonomy: u8,
    /// What holds the agent's commands; nothing if nobody has driven the run yet.
    #[serde(default)]
    pub sandbox: Option<String>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    pub steps_total: u32,
    pub steps_completed: u32,
    pub current_step_index: u32,
    pub turn_count: u32,
    pub tool_call_count: u32,
    pub sub_agent_count: u32,
    pub sub_agent_ids: Vec<String>,
    #[serde(default)]
    pub sub_agents: Vec<ChildView>,
    pub parent_id: Option<RunId>,
    pub depth: u32,
    pub iteration_count: u32,
    pub max_iterations: Option<u32>,
    pub completion_promise: Option<String>,
    pub last_checkpoint_at: Option<Timestamp>,
    pub checkpoint_count: u32,
    pub checkpoint_interval_ms: u64,
    pub engine_enabled: bool,
    pub session_id: Option<String>,
    /// What it was started with, beside its agent's file and the settings.
    #[serde(default)]
    pub execution_context: ExecutionContext,
    pub workspace: String,
    pub branch: Option<String>,
    /// The repository the workspace was made from, if that was not the user's own.
    #[serde(default)]
    pub source: Option<GitSource>,
    /// The last commit that was made of its work.
    #[serde(default)]
    pub commit: Option<String>,
    /// All of them, oldest first.
    #[serde(default)]
    pub commits: Vec<String>,
    #[serde(serialize_with = "serialize_usage")]
    pub usage: Usage,
    /// Nothing if part of it is not known. Like `usage`, with that of all sub-agents.
    pub total_cost: Option<Usd>,
    pub cost_by_iteration: Vec<IterationCost>,
    pub limits: Limits,
    pub retry: RetryPolicy,
    pub last_seq: u64,
    pub error: Option<String>,
    pub success: bool,
    /// What the agent said last.
    pub response: Option<String>,
    /// Why the run is not at work any more, in one word.
    pub finish_reason: Option<String>,
    /// Milliseconds from its creation to its end, or to its last event.
    pub duration_ms: u64,
    /// What the agent is run by: `agentic`, or `plain` for the bare loop of model and tools.
    pub engine: String,
}

impl RunView {
    pub fn of(run: &Run) -> RunView {
        let looping = run.spec.conduct().looping.as_ref();
        let used = run.ledger();
        RunView {
            id: run.spec.id.clone(),
            kind: if looping.is_some() { "loop" } else { "task" }.to_owned(),
            agent_name: run.spec.agent.clone(),
            task: run.spec.task.clone(),
            task_id: run.spec.task_id.clone(),
            model: run.spec.model.clone(),
            models: run.spec.models.clone().unwrap_or_else(|| vec![run.spec.model.clone()]),
            mode: run.spec.mode(),
            status: run.status,
            wait: run.wait(),
            wake_at: run.wake_at(),
            reason: run.reason.clone(),
            autonomy: run.spec.autonomy.level(),
            sandbox: run.contained.clone(),
            created_at: run.created_at,
            updated_at: run.updated_at,
            completed_at: run.completed_at,
            steps_total: run.plan.steps.len() as u32,
            steps_completed: run.plan.completed_count() as u32,
            current_step_index: run.current_step,
            turn_count: used.turns,
            tool_call_count: used.calls,
            sub_agent_count: run.sub_agents.len() as u32,
            sub_agent_ids: run.sub_agents.clone(),
            sub_agents: ChildView::of_all(run),
            parent_id: run.spec.parent.clone(),
            depth: run.spec.depth,
            iteration_count: run.iteration.saturating_sub(1),
            max_iterations: looping.map(|looping| looping.max_iterations),
            completion_promise: looping.map(|looping| looping.promise.clone()),
            last_checkpoint_at: run.last_checkpoint_at,
            checkpoint_count: run.checkpoints,
            checkpoint_interval_ms: run.spec.checkpoint_interval_ms,
            engine_enabled: run.spec.may_use_engine(),
            session_id: run.spec.session.clone(),
            execution_context: ExecutionContext::of(&run.spec),
            workspace: run.spec.workspace.clone(),
            branch: run.spec.branch.clone(),
            source: run.spec.source.as_deref().cloned(),
            commit: run.commits.last().cloned(),
            commits: run.commits.clone(),
            usage: used.usage,
            total_cost: (used.usage.unpriced_tokens == 0).then_some(used.usage.cost),
            cost_by_iteration: cost_by_iteration(run),
            limits: run.spec.limits,
            retry: run.spec.retry,
            last_seq: run.seq,
            error: run.error.clone(),
            success: run.status == Status::Completed,
            response: run.output().map(str::to_owned),
            finish_reason: report::finish_reason(run),
            duration_ms: run.completed_at.unwrap_or(run.updated_at).millis_since(run.created_at),
            engine: engine(&run.spec).to_owned(),
        }
    }
}

/// What is passed with each start of a run, and never by settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionContext {
    pub session_id: Option<String>,
    pub workflow_run_id: Option<String>,
    pub agent_run_id: String,
    pub agent_name: String,
    pub task: String,
    pub git_source: Option<GitSourceView>,
}

/// The repository a run works on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitSourceView {
    /// Where it is, or the path of the user's own.
    pub url: String,
    /// The branch that the run works on.
    pub branch: Option<String>,
    /// What it began at: what was asked for, else the commit.
    #[serde(rename = "ref")]
    pub reference: Option<String>,
    pub depth: Option<u32>,
}

impl ExecutionContext {
    pub fn of(spec: &RunSpec) -> ExecutionContext {
        let source = spec.source.as_deref();
        let url = source.map(|source| source.url.clone()).or_else(|| spec.repository.clone());
        let asked = source.and_then(|source| source.reference.clone());
        let git_source = url.map(|url| GitSourceView {
            url,
            branch: spec.branch.clone(),
            reference: asked.or_else(|| spec.base.clone()),
            depth: source.and_then(|source| source.depth),
        });
        ExecutionContext {
            session_id: spec.session.clone(),
            workflow_run_id: spec.workflow_run.clone(),
            agent_run_id: spec.id.to_string(),
            agent_name: spec.agent.clone(),
            task: spec.task.clone(),
            git_source,
        }
    }
}

/// One sub-agent, as its parent knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildView {
    pub id: RunId,
    pub agent_name: String,
    pub status: String,
    pub attempt: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What people call the state it is in.
    #[serde(skip)]
    pub called: &'static str,
}

impl ChildView {
    /// All that were sent. Whoever was held back before there was a run is not one of them.
    pub fn of_all(run: &Run) -> Vec<ChildView> {
        let sent = run.children.iter().filter(|child| child.state != ChildState::Held);
        sent.map(ChildView::of).collect()
    }

    pub fn of(child: &Child) -> ChildView {
        let error = match &child.state {
            ChildState::Failed { error } => Some(error.clone()),
            ChildState::Paused { reason, .. } => Some(reason.clone()),
            ChildState::Working | ChildState::Waiting | ChildState::Completed | ChildState::Held => None,
        };
        ChildView {
            id: child.errand.id.clone(),
            agent_name: child.errand.agent.clone(),
            status: child.word().to_owned(),
            attempt: child.errand.attempt.0,
            error,
            called: child.called(),
        }
    }
}

fn engine(spec: &RunSpec) -> &'static str {
    if spec.conduct().is_plain() { "plain" } else { "agentic" }
}

/// What was used, as it is shown: a cost of which part is not known is none that could be added up.
pub fn usage(usage: &Usage) -> Value {
    let mut shown = serde_json::to_value(usage).unwrap_or_default();
    if usage.unpriced_tokens > 0 {
        shown["costUsd"] = Value::Null;
    }
    shown
}

fn serialize_usage<S: Serializer>(used: &Usage, serializer: S) -> Result<S::Ok, S::Error> {
    usage(used).serialize(serializer)
}

/// What one iteration cost, over all its steps and models.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IterationCost {
    pub iteration: u32,
    #[serde(flatten)]
    #[serde(serialize_with = "serialize_usage")]
    pub usage: Usage,
}

fn cost_by_iteration(run: &Run) -> Vec<IterationCost> {
    let mut costs: Vec<IterationCost> = Vec::new();
    for spent in &run.spending {
        match costs.iter_mut().find(|cost| cost.iteration == spent.iteration) {
            Some(cost) => cost.usage.add(&spent.usage),
            None => costs.push(IterationCost { iteration: spent.iteration, usage: spent.usage }),
        }
    }
    costs
}
