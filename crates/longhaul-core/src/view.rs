//! What the outside is shown of a run: `show --json`, the catalogue's row, and one JSON line for each event.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::conversation::Usage;
use crate::event::Event;
use crate::ids::{CallId, RunId};
use crate::prompt::head;
use crate::run::Run;
use crate::spec::Limits;
use crate::status::{Status, Wait};
use crate::time::Timestamp;
use crate::tool::RetryPolicy;

/// Bytes of free text that an event line carries.
const TEXT_BYTES_MAX: usize = 2048;

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
    pub status: Status,
    pub wait: Wait,
    pub reason: Option<String>,
    pub autonomy: u8,
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
    pub parent_id: Option<RunId>,
    pub depth: u32,
    pub iteration_count: u32,
    pub max_iterations: Option<u32>,
    pub completion_promise: Option<String>,
    pub last_checkpoint_at: Option<Timestamp>,
    pub checkpoint_count: u32,
    pub checkpoint_interval_ms: u64,
    pub session_id: Option<String>,
    pub workspace: String,
    pub branch: Option<String>,
    pub usage: Usage,
    pub limits: Limits,
    pub retry: RetryPolicy,
    pub last_seq: u64,
    pub error: Option<String>,
}

impl RunView {
    pub fn of(run: &Run) -> RunView {
        RunView {
            id: run.spec.id.clone(),
            kind: "task".to_owned(),
            agent_name: run.spec.agent.clone(),
            task: run.spec.task.clone(),
            task_id: run.spec.task_id.clone(),
            model: run.spec.model.clone(),
            status: run.status,
            wait: run.wait(),
            reason: run.reason.clone(),
            autonomy: run.spec.autonomy.level(),
            created_at: run.created_at,
            updated_at: run.updated_at,
            completed_at: run.completed_at,
            steps_total: run.plan.steps.len() as u32,
            steps_completed: run.plan.completed_count() as u32,
            current_step_index: run.current_step,
            turn_count: run.turns,
            tool_call_count: run.calls_started,
            sub_agent_count: run.sub_agents.len() as u32,
            sub_agent_ids: run.sub_agents.clone(),
            parent_id: run.spec.parent.clone(),
            depth: run.spec.depth,
            iteration_count: u32::from(run.turns > 0),
            max_iterations: None,
            completion_promise: None,
            last_checkpoint_at: run.last_checkpoint_at,
            checkpoint_count: run.checkpoints,
            checkpoint_interval_ms: run.spec.checkpoint_interval_ms,
            session_id: run.spec.session.clone(),
            workspace: run.spec.workspace.clone(),
            branch: run.spec.branch.clone(),
            usage: run.usage,
            limits: run.spec.limits,
            retry: run.spec.retry,
            last_seq: run.seq,
            error: run.error.clone(),
        }
    }
}

/// One line of `events --json`. `run` is the run after the event.
pub fn event_line(run: &Run, seq: u64, at: Timestamp, event: &Event) -> Value {
    let (kind, fields) = describe(run, event);
    let mut line = Map::new();
    line.insert("seq".to_owned(), json!(seq));
    line.insert("at".to_owned(), json!(at));
    line.insert("harnessId".to_owned(), json!(run.spec.id));
    line.insert("type".to_owned(), json!(kind));
    if let Value::Object(fields) = fields {
        line.extend(fields);
    }
    Value::Object(line)
}

/// The id under which a person answers a gate.
pub fn gate_id(run: &RunId, gate: u32) -> String {
    format!("{run}.g{gate}")
}

fn describe(run: &Run, event: &Event) -> (&'static str, Value) {
    let step = |index: &u32| run.plan.steps.get(*index as usize).map_or("", |step| step.id.as_str());
    match event {
        Event::RunCreated(spec) => {
            ("run_created", json!({ "agentName": spec.agent, "task": head(&spec.task, TEXT_BYTES_MAX) }))
        }
        Event::StatusChanged { from, to, cause, reason } => {
            ("state_transition", json!({ "from": from, "to": to, "cause": cause, "reason": reason }))
        }
        Event::CommandApplied { command, wish } => {
            ("command_applied", json!({ "command": command, "action": wish.verb() }))
        }
        Event::GateChecked { step: index, required } => {
            ("gate_checked", json!({ "stepId": step(index), "required": required }))
        }
        Event::WaitingForHuman { gate, step: index } => (
            "waiting_for_human",
            json!({ "gateId": gate_id(&run.spec.id, *gate), "stepId": step(index), "action": "waiting" }),
        ),
        Event::GateAnswered { gate, approved, reason, waited_ms } => {
            let action = if *approved { "approved" } else { "rejected" };
            let gate = gate_id(&run.spec.id, *gate);
            ("human_gate", json!({ "gateId": gate, "action": action, "waitMs": waited_ms, "reason": reason }))
        }
        Event::StepStarted { step: index } => ("step_started", json!({ "stepId": step(index) })),
        Event::TurnStarted { turn, attempt } => ("turn_started", json!({ "turn": turn, "attempt": attempt })),
        Event::ModelReplied { turn, attempt, text, calls, usage, duration_us } => {
            let tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
            let text = head(text, TEXT_BYTES_MAX);
            let duration_ms = millis(*duration_us);
            (
                "model_reply",
                json!({ "turn": turn, "attempt": attempt, "text": text, "toolNames": tools, "usage": usage, "durationMs": duration_ms }),
            )
        }
        Event::TurnFailed { turn, attempt, message, retry } => {
            ("turn_failed", json!({ "turn": turn, "attempt": attempt, "error": message, "retry": retry }))
        }
        Event::StepCompleted { step: index, output } => {
            ("step_completed", json!({ "stepId": step(index), "output": head(output, TEXT_BYTES_MAX) }))
        }
        Event::StepFailed { step: index, error } => {
            ("step_failed", json!({ "stepId": step(index), "error": error }))
        }
        Event::PlanCompleted => ("plan_completed", json!({})),
        Event::Checkpointed { number } => ("checkpoint", json!({ "number": number })),
        Event::Recovered { generation } => ("checkpoint_restored", json!({ "generation": generation })),
        Event::LimitReached { limit, spent, max } => {
            ("budget_reached", json!({ "limit": limit, "spent": spent, "max": max }))
        }
        Event::LimitsChanged { limits } => ("limits_changed", json!({ "limits": limits })),
        Event::ModelChanged { model } => ("model_changed", json!({ "model": model })),
        Event::PersistenceFellBack { reason } => {
            ("persistence_fallback", json!({ "level": "warn", "reason": reason }))
        }
        Event::Imported { .. } => ("imported", json!({ "agentName": run.spec.agent })),
        Event::CallRefused { call, failure, message } => {
            let fields =
                json!({ "durationMs": millis(1), "success": false, "failure": failure, "error": message });
            ("tool_call", of_call(run, *call, fields))
        }
        Event::CallStarted { call, attempt, class, trace } => {
            let fields = json!({ "attempt": attempt, "class": class, "trace": trace });
            ("tool_started", of_call(run, *call, fields))
        }
        Event::CallFinished { call, attempt, outcome, duration_us } => {
            let (success, error) = (outcome.is_done(), outcome.error());
            let fields = json!({ "attempt": attempt, "durationMs": millis(*duration_us), "success": success, "error": error });
            ("tool_call", of_call(run, *call, fields))
        }
        Event::CallRetryScheduled { call, attempt, message, rest } => {
            let fields = json!({ "attempt": attempt, "error": message, "delayMs": rest.delay_ms });
            ("tool_retry", of_call(run, *call, fields))
        }
        Event::ToolFailed { call, message } => {
            ("tool_failed", of_call(run, *call, json!({ "error": message })))
        }
    }
}

/// Events of calls all name the tool, which the event itself leaves to the call's record.
fn of_call(run: &Run, call: CallId, mut fields: Value) -> Value {
    fields["callId"] = json!(call.to_string());
    fields["toolName"] = json!(run.call(call).map_or("", |call| call.tool.as_str()));
    fields
}

fn millis(micros: u64) -> f64 {
    micros.max(1) as f64 / 1000.0
}
