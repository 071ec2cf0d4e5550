//! What the outside is shown of a run: `show --json`, the catalogue's row, and one JSON line for each event.

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::child::{Child, ChildState, Origin};
use crate::context::Shortening;
use crate::conversation::Usage;
use crate::event::{Aside, AskKind, Event, Kept, Stored};
use crate::ids::{CallId, RunId};
use crate::limits::EVENT_TEXT_BYTES_MAX;
use crate::money::Usd;
use crate::prompt::head;
use crate::report;
use crate::run::{Gate, Run};
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

/// What one iteration cost, over all its steps and models.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IterationCost {
    pub iteration: u32,
    #[serde(flatten)]
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

/// One line of `events --json`, written without a detour: a run that is driven writes two of them for each step.
pub struct EventLine<'a> {
    /// The run after the event.
    pub run: &'a Run,
    pub seq: u64,
    pub at: Timestamp,
    pub event: &'a Event,
}

/// Adds named values to a map that is being written.
macro_rules! entries {
    ($map:expr, $($name:literal: $value:expr),+ $(,)?) => {{
        $($map.serialize_entry($name, &$value)?;)+
    }};
}

impl Serialize for EventLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut line = serializer.serialize_map(None)?;
        entries!(line, "seq": self.seq, "at": self.at, "harnessId": self.run.spec.id);
        describe(self.run, self.event, &mut line)?;
        line.end()
    }
}

/// The id under which a person answers a gate.
pub fn gate_id(run: &RunId, gate: u32) -> String {
    format!("{run}.g{gate}")
}

/// One wait for a person, whole: whoever answers should have read what it is about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GateView {
    pub id: String,
    pub run_id: RunId,
    pub kind: String,
    pub agent_name: String,
    pub step_id: Option<String>,
    pub description: Option<String>,
    pub call_id: Option<String>,
    pub tool_name: Option<String>,
    pub arguments: Option<serde_json::Value>,
    pub digest: Option<String>,
    pub answer: Option<String>,
    pub status: String,
    pub created_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
    pub reason: Option<String>,
}

impl GateView {
    pub fn of(run: &Run, gate: &Gate) -> GateView {
        let step = run.plan.steps.get(gate.step as usize);
        let (ask, answer) = (gate.ask.as_ref(), gate.answer.as_ref());
        let status = match answer.map(|answer| answer.approved) {
            None => "pending",
            Some(true) => "approved",
            Some(false) => "rejected",
        };
        let kind = match ask.map(|ask| ask.kind) {
            None => "step",
            Some(AskKind::Permission) => "permission",
            Some(AskKind::Question) => "question",
            Some(AskKind::Need) => "unblock",
        };
        let call = ask.and_then(|ask| run.call(ask.call));
        GateView {
            id: gate_id(&run.spec.id, gate.number),
            run_id: run.spec.id.clone(),
            kind: kind.to_owned(),
            // Who asks is at work; who waits for its turn is whoever the step is for.
            agent_name: step
                .filter(|_| ask.is_none())
                .map_or_else(|| run.spec.agent.clone(), |step| step.agent.clone()),
            step_id: step.map(|step| step.id.clone()),
            description: ask
                .map(|ask| ask.text.clone())
                .or_else(|| step.map(|step| step.description.clone())),
            call_id: call.map(|call| call.id.to_string()),
            tool_name: call.map(|call| call.tool.to_string()),
            arguments: call.map(|call| call.args.value()),
            digest: gate.digest().map(str::to_owned),
            answer: answer.and_then(|answer| answer.text.clone()),
            status: status.to_owned(),
            created_at: gate.opened_at,
            resolved_at: answer.map(|answer| answer.at),
            reason: answer.and_then(|answer| answer.reason.clone()),
        }
    }
}

fn describe<M: SerializeMap>(run: &Run, event: &Event, line: &mut M) -> Result<(), M::Error> {
    let step = |index: &u32| run.plan.steps.get(*index as usize).map_or("", |step| step.id.as_str());
    match event {
        Event::RunCreated(spec) => {
            let task = head(&spec.task, EVENT_TEXT_BYTES_MAX);
            entries!(line, "type": "run_created", "agentName": spec.agent, "task": task, "model": spec.model);
            entries!(line, "mode": spec.mode(), "engine": engine(spec));
        }
        Event::StatusChanged { from, to, cause, reason } => {
            entries!(line, "type": "state_transition", "from": from, "to": to, "cause": cause, "reason": reason);
        }
        Event::CommandApplied { command, wish } => {
            entries!(line, "type": "command_applied", "command": command, "action": wish.verb());
        }
        Event::GateChecked { step: index, required } => {
            entries!(line, "type": "gate_checked", "stepId": step(index), "required": required);
        }
        Event::WaitingForHuman { gate, step: index, ask, digest } => {
            let gate = gate_id(&run.spec.id, *gate);
            entries!(line, "type": "waiting_for_human", "gateId": gate, "stepId": step(index), "action": "waiting");
            if let Some(ask) = ask {
                entries!(line, "ask": ask);
            }
            if let Some(digest) = digest {
                entries!(line, "digest": digest);
            }
        }
        Event::GateAnswered { gate, approved, reason, waited_ms, answer } => {
            let action = match (approved, answer) {
                (true, Some(_)) => "answered",
                (true, None) => "approved",
                (false, _) => "rejected",
            };
            let gate = gate_id(&run.spec.id, *gate);
            entries!(line, "type": "human_gate", "gateId": gate, "action": action, "waitMs": waited_ms, "reason": reason);
        }
        Event::StepStarted { step: index } => entries!(line, "type": "step_started", "stepId": step(index)),
        Event::TurnStarted { turn, attempt } => {
            entries!(line, "type": "turn_started", "turn": turn, "attempt": attempt);
        }
        Event::ModelReplied { turn, attempt, text, calls, usage, duration_us, stop, .. } => {
            let tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
            entries!(line, "type": "model_reply", "turn": turn, "attempt": attempt, "text": head(text, EVENT_TEXT_BYTES_MAX));
            let stop = stop.unwrap_or_default();
            entries!(line, "toolNames": tools, "usage": usage, "durationMs": millis(*duration_us), "stop": stop);
            entries!(line, "model": run.spec.model);
        }
        Event::TurnFailed { turn, attempt, message, retry, kind, until, usage } => {
            let kind = kind.unwrap_or_default();
            entries!(line, "type": "turn_failed", "turn": turn, "attempt": attempt, "kind": kind, "error": message);
            entries!(line, "retry": retry, "until": until, "usage": usage);
        }
        Event::StepCompleted { step: index, output } => {
            let output = head(output, EVENT_TEXT_BYTES_MAX);
            entries!(line, "type": "step_completed", "stepId": step(index), "output": output);
        }
        Event::StepFailed { step: index, error } => {
            entries!(line, "type": "step_failed", "stepId": step(index), "error": error);
        }
        Event::PlanCompleted => entries!(line, "type": "plan_completed"),
        Event::Checkpointed { number } => entries!(line, "type": "checkpoint", "number": number),
        Event::Recovered { generation } => {
            entries!(line, "type": "checkpoint_restored", "generation": generation);
        }
        Event::LimitReached { limit, spent, max } => {
            entries!(line, "type": "budget_reached", "limit": limit, "spent": spent, "max": max);
        }
        Event::LimitPassed { limit, spent, max } => {
            entries!(line, "type": "limit_passed", "level": "warn", "limit": limit, "spent": spent, "max": max);
        }
        Event::ChecksChanged { checks } => entries!(line, "type": "checks_changed", "checks": checks),
        Event::LimitsChanged { limits } => entries!(line, "type": "limits_changed", "limits": limits),
        Event::CommandDropped { command, why } => {
            entries!(line, "type": "command_dropped", "level": "warn", "command": command, "reason": why);
        }
        Event::ModelChanged { model, why } => {
            entries!(line, "type": "model_changed", "model": model, "reason": why);
        }
        Event::SchemaUpgraded { from, to } => {
            entries!(line, "type": "schema_upgraded", "from": from, "to": to);
        }
        Event::AgentStopped { turn, action, why } => {
            let why = why.as_deref().map(|why| head(why, EVENT_TEXT_BYTES_MAX));
            entries!(line, "type": "agent_stop", "turn": turn, "action": action, "reason": why);
            entries!(line, "iteration": run.iteration);
        }
        Event::ExamineStarted { turn, round, attempt, purpose } => {
            entries!(line, "type": "examination_started", "turn": turn, "round": round, "attempt": attempt);
            entries!(line, "purpose": purpose);
        }
        Event::Examined { round, found, .. } => {
            let passed = found.checks.iter().filter(|check| check.passed).count();
            entries!(line, "type": "examined", "round": round, "tree": found.tree, "checksPassed": passed);
            entries!(line, "checksTotal": found.checks.len(), "protected": found.protected);
            entries!(line, "features": found.features, "warnings": found.warnings);
            if !found.warnings.is_empty() {
                entries!(line, "level": "warn");
            }
        }
        Event::IterationStarted { number, why, .. } => {
            entries!(line, "type": "iteration_started", "iteration": number, "reason": why);
        }
        Event::AsideStarted { aside, attempt, .. } => {
            entries!(line, "type": "aside_started", "aside": aside, "attempt": attempt);
        }
        Event::AsideEnded { aside, model, text, error, usage, .. } => {
            let kind = match aside {
                Aside::Compaction { .. } => "compaction_summary",
                Aside::Iteration { .. } => "iteration_summary",
                Aside::Judgement => "judgement",
                Aside::Planning { .. } => "planning",
            };
            let text = text.as_deref().map(|text| head(text, EVENT_TEXT_BYTES_MAX));
            entries!(line, "type": kind, "model": model, "text": text, "error": error, "usage": usage);
        }
        Event::Compacted { shortening, tokens_before, tokens_after, futile } => {
            let by = match shortening {
                Shortening::Outputs { .. } => "outputs",
                Shortening::Summary { .. } => "summary",
                Shortening::Fit { .. } => "fit",
            };
            entries!(line, "type": "compaction_applied", "by": by, "tokensBefore": tokens_before);
            entries!(line, "tokensAfter": tokens_after, "futile": futile);
        }
        Event::DoomLoop { repetition, remedy, tool, count } => {
            entries!(line, "type": "doom_loop", "level": "warn", "repetition": repetition, "action": remedy);
            entries!(line, "toolName": tool, "count": count);
        }
        Event::LoopChanged { looping } => entries!(line, "type": "loop_changed", "loop": looping),
        Event::Told { text } => {
            entries!(line, "type": "told", "text": head(text, EVENT_TEXT_BYTES_MAX));
        }
        Event::ChildSpawned(errand) => {
            name_child(run, errand.number, "spawned", line)?;
            let task = head(&errand.task, EVENT_TEXT_BYTES_MAX);
            entries!(line, "attempt": errand.attempt, "task": task, "limits": errand.limits);
        }
        Event::ChildRested { number, paused, reason, .. } => {
            let event = if paused.is_some() { "paused" } else { "waiting" };
            name_child(run, *number, event, line)?;
            entries!(line, "cause": paused, "reason": reason);
        }
        Event::ChildResumed { number, limits, model } => {
            name_child(run, *number, "resumed", line)?;
            entries!(line, "limits": limits, "model": model);
        }
        Event::ChildEnded { number, error, ledger } => {
            let event = if error.is_some() { "failed" } else { "completed" };
            name_child(run, *number, event, line)?;
            entries!(line, "outcome": event, "error": error, "usage": ledger.usage, "toolCallCount": ledger.calls);
        }
        Event::ChildHeld { number } => name_child(run, *number, "held", line)?,
        Event::PlanMade { plan } => {
            let steps: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
            entries!(line, "type": "plan_made", "stepIds": steps);
        }
        Event::Reopened => {
            entries!(line, "type": "reopened", "from": Status::Failed, "to": Status::Paused);
        }
        Event::PlanRefused { why } => {
            entries!(line, "type": "plan_refused", "level": "warn", "reason": why);
        }
        Event::Contained { by } => entries!(line, "type": "sandbox", "heldBy": by),
        Event::WorkKept { kept: Kept::Committed { commit, branch }, .. } => {
            entries!(line, "type": "work_committed", "commit": commit, "branch": branch);
        }
        Event::WorkKept { kept: Kept::Unchanged, .. } => entries!(line, "type": "work_unchanged"),
        Event::WorkKept { kept: Kept::Uncommitted { why }, .. } => {
            entries!(line, "type": "work_uncommitted", "level": "warn", "reason": why);
        }
        Event::FilesStored { stored: Stored::Tree { tree, left_out }, moment } => {
            entries!(line, "type": "files_stored", "tree": tree, "leftOut": left_out, "moment": moment);
        }
        Event::FilesStored { stored: Stored::Failed { why }, .. } => {
            entries!(line, "type": "files_not_stored", "level": "warn", "reason": why);
        }
        Event::SpentBefore { usage } => entries!(line, "type": "spent_before", "usage": usage),
        Event::SetUpStarted { commands } => {
            entries!(line, "type": "setup_started", "commands": commands);
        }
        Event::SetUpEnded { error, duration_us } => {
            let success = error.is_none();
            entries!(line, "type": "setup_ended", "success": success, "error": error, "durationMs": millis(*duration_us));
        }
        Event::CheckpointNamed { number, name } => {
            entries!(line, "type": "checkpoint_named", "number": number, "name": name);
        }
        Event::CheckpointGuarded { number, name, call, command } => {
            entries!(line, "type": "checkpoint_guarded", "number": number, "name": name, "callId": call.to_string(), "command": command);
        }
        Event::TornTailCut { bytes } => {
            entries!(line, "type": "torn_tail_cut", "level": "warn", "bytes": bytes);
        }
        Event::DerivedFailed { file, why } => {
            entries!(line, "type": "derived_write_failed", "level": "warn", "file": file, "reason": why);
        }
        Event::PersistenceFellBack { reason } => {
            entries!(line, "type": "persistence_fallback", "level": "warn", "reason": reason);
        }
        Event::Imported { .. } => entries!(line, "type": "imported", "agentName": run.spec.agent),
        Event::CallRefused { call, failure, message } => {
            name_call(run, *call, "tool_call", line)?;
            entries!(line, "durationMs": millis(1), "success": false, "failure": failure, "error": message);
        }
        Event::CallStarted { call, attempt, class, traces } => {
            name_call(run, *call, "tool_started", line)?;
            entries!(line, "attempt": attempt, "class": class, "traces": traces);
        }
        Event::CallFinished { call, attempt, outcome, duration_us } => {
            name_call(run, *call, "tool_call", line)?;
            let (success, error) = (outcome.is_done(), outcome.error());
            entries!(line, "attempt": attempt, "durationMs": millis(*duration_us), "success": success, "error": error);
        }
        Event::CallRetryScheduled { call, attempt, message, rest } => {
            name_call(run, *call, "tool_retry", line)?;
            entries!(line, "attempt": attempt, "error": message, "delayMs": rest.delay_ms);
        }
        Event::ToolFailed { call, message } => {
            name_call(run, *call, "tool_failed", line)?;
            entries!(line, "error": message);
        }
    }
    Ok(())
}

/// Events of calls all name the tool, which the event itself leaves to the call's record.
fn name_call<M: SerializeMap>(
    run: &Run,
    call: CallId,
    kind: &'static str,
    line: &mut M,
) -> Result<(), M::Error> {
    let tool = run.call(call).map_or("", |call| call.tool.as_str());
    entries!(line, "type": kind, "callId": call.to_string(), "toolName": tool);
    Ok(())
}

/// Events of children all say whose child it is, and which.
fn name_child<M: SerializeMap>(
    run: &Run,
    number: u32,
    event: &'static str,
    line: &mut M,
) -> Result<(), M::Error> {
    entries!(line, "type": "sub_agent", "event": event, "parentId": run.spec.id);
    let Some(Child { errand, .. }) = run.child(number) else { return Ok(()) };
    entries!(line, "subAgentId": errand.id, "agentName": errand.agent);
    match errand.origin {
        Origin::Step { step } => {
            let step = run.plan.steps.get(step as usize).map_or("", |step| step.id.as_str());
            entries!(line, "stepId": step);
        }
        Origin::Call { call } => entries!(line, "callId": call.to_string()),
    }
    Ok(())
}

fn millis(micros: u64) -> f64 {
    micros.max(1) as f64 / 1000.0
}
