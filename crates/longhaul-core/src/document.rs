//! A run as a JSON document: the `HarnessState` of schema version 1, for storage and transfer between programs.
//!
//! The fields of version 1 are a view of the run that any reader of that version understands. The field `longhaul` holds
//! the whole run, which they may ignore. A document written by somebody else has no such field: the run is then
//! rebuilt from version 1 alone. What nobody here understands is kept and written back.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::conversation::Message;
use crate::ids::{Attempt, BadId, CallId, RunId};
use crate::json::Json;
use crate::limits;
use crate::plan::{BadPlan, Plan, Step, StepStatus};
use crate::prompt;
use crate::run::{Call, CallState, Phase, Run};
use crate::spec::RunSpec;
use crate::status::Status;
use crate::time::Timestamp;
use crate::tool::{Outcome, Output};

/// The only document version there has been.
pub const SCHEMA_VERSION: u64 = 1;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("not a state document: {0}")]
    Syntax(#[from] serde_json::Error),
    #[error("schemaVersion {found} is not supported; this longhaul reads version {SCHEMA_VERSION}")]
    Version { found: Value },
    #[error("the document is {bytes} bytes long; at most {max} are read", max = limits::DOCUMENT_BYTES_MAX)]
    TooLarge { bytes: usize },
    #[error("harnessId: {0}")]
    Id(#[from] BadId),
    #[error("plan.{0}")]
    Plan(#[from] BadPlan),
    #[error("currentStepIndex: {index} is not a step of a plan of {steps}")]
    StepIndex { index: u32, steps: usize },
    #[error("`{field}` and `longhaul` in this document disagree; it was edited by hand")]
    Disagreement { field: &'static str },
}

/// The fields of schema version 1, in the words of that document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessState {
    pub schema_version: u64,
    pub harness_id: RunId,
    pub agent_name: String,
    pub task_id: String,
    pub status: Status,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub plan: Option<ExecutionPlan>,
    pub current_step_index: u32,
    pub tool_call_history: Vec<ToolCallRecord>,
    pub total_tool_calls: u32,
    pub sub_agent_ids: Vec<String>,
    pub sub_agent_results: Map<String, Value>,
    pub agent_loop_snapshot: Option<Value>,
    pub last_checkpoint_at: Option<Timestamp>,
    pub checkpoint_count: u32,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionPlan {
    pub task_id: String,
    pub steps: Vec<Step>,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolCallRecord {
    pub call_name: String,
    pub arguments: Value,
    pub result: Value,
    /// Milliseconds.
    pub duration: f64,
    pub retry_count: u32,
    pub timestamp: Timestamp,
}

/// Reads and checks a document somebody gave us. Nothing is changed or stored.
pub fn read(text: &str) -> Result<HarnessState, Error> {
    if text.len() > limits::DOCUMENT_BYTES_MAX {
        return Err(Error::TooLarge { bytes: text.len() });
    }
    // As a plain value first: fields nobody knows are carried along, so they too must be sound and of bounded depth.
    let value: Value = serde_json::from_str(text)?;
    if let Some(found) = value.get("schemaVersion").filter(|found| **found != json!(SCHEMA_VERSION)) {
        return Err(Error::Version { found: found.clone() });
    }
    let state: HarnessState = serde_json::from_str(text)?;
    if let Some(plan) = &state.plan {
        Plan { steps: plan.steps.clone() }.check()?;
    }
    let steps = state.plan.as_ref().map_or(0, |plan| plan.steps.len());
    if state.current_step_index as usize > steps {
        return Err(Error::StepIndex { index: state.current_step_index, steps });
    }
    if let Some(run) = embedded(text)? {
        agree(&state, &view(&run))?;
    }
    Ok(state)
}

/// The spec of the run a document becomes: its own if it carries one, else `defaults` under its names. What it may do is
/// for whoever takes it in to say.
pub fn spec(text: &str, defaults: RunSpec) -> Result<RunSpec, Error> {
    let state = read(text)?;
    if let Some(run) = embedded(text)? {
        return Ok(RunSpec { permissions: defaults.permissions, ..run.spec });
    }
    let plan = planned(&state);
    Ok(RunSpec {
        id: state.harness_id,
        agent: state.agent_name,
        task: state.task_id.clone(),
        task_id: state.task_id,
        plan,
        ..defaults
    })
}

/// The run a document describes.
pub fn restore(document: &Json, spec: &RunSpec, at: Timestamp) -> Result<Run, Error> {
    let state = read(document.as_str())?;
    if let Some(run) = embedded(document.as_str())? {
        let (id, permissions) = (spec.id.clone(), spec.permissions.clone());
        return Ok(Run { spec: RunSpec { id, permissions, ..run.spec.clone() }, ..run });
    }
    let mut run = Run::created(0, at, spec);
    run.plan = planned(&state);
    run.status = state.status;
    run.created_at = state.created_at;
    run.updated_at = state.updated_at;
    run.completed_at = state.status.is_terminal().then_some(state.updated_at);
    run.current_step = state.current_step_index;
    run.calls =
        state.tool_call_history.iter().enumerate().map(|(index, record)| record.call(index)).collect();
    run.calls_started = state.total_tool_calls;
    run.sub_agents = state.sub_agent_ids;
    run.checkpoints = state.checkpoint_count;
    run.last_checkpoint_at = state.last_checkpoint_at;
    if run.step().is_some_and(|step| step.status == StepStatus::Running) {
        run.phase = Phase::Opened;
        let text = prompt::step_text(&run.plan, run.current_step as usize);
        run.messages = Arc::new(vec![Message::User { text }]);
    }
    Ok(run)
}

/// The document of a run. A run that nothing happened to since its import is written exactly as it came.
pub fn write(run: &Run) -> Value {
    let given = run.imported.as_ref().map(Json::value);
    if let Some(given) = &given
        && run.seq == run.imported_seq
    {
        return given.clone();
    }
    let given = match given {
        Some(Value::Object(fields)) => fields,
        Some(_) | None => Map::new(),
    };
    let mut document = given.clone();
    if let Value::Object(fields) = json!(view(run)) {
        document.extend(fields);
    }
    keep_foreign(&given, &mut document);
    document.insert("longhaul".to_owned(), json!(run));
    Value::Object(document)
}

/// What version 1 shows of a run.
pub fn view(run: &Run) -> HarnessState {
    HarnessState {
        schema_version: SCHEMA_VERSION,
        harness_id: run.spec.id.clone(),
        agent_name: run.spec.agent.clone(),
        task_id: run.spec.task_id.clone(),
        status: run.status,
        created_at: run.created_at,
        updated_at: run.updated_at,
        plan: Some(ExecutionPlan {
            task_id: run.spec.task_id.clone(),
            steps: run.plan.steps.clone(),
            created_at: run.created_at,
        }),
        current_step_index: run.current_step,
        tool_call_history: run.calls.iter().filter_map(ToolCallRecord::of).collect(),
        total_tool_calls: run.calls_started,
        sub_agent_ids: run.sub_agents.clone(),
        sub_agent_results: Map::new(),
        agent_loop_snapshot: (!run.messages.is_empty())
            .then(|| json!({ "scratchpad": "", "turns": run.messages })),
        last_checkpoint_at: run.last_checkpoint_at,
        checkpoint_count: run.checkpoints,
    }
}

impl ToolCallRecord {
    /// The record of a call that has ended; an open one has no result to show yet.
    fn of(call: &Call) -> Option<ToolCallRecord> {
        Some(ToolCallRecord {
            call_name: call.tool.to_string(),
            arguments: call.args.value(),
            result: json!(call.outcome()?),
            duration: call.duration_ms()?,
            retry_count: call.failures,
            timestamp: call.asked_at,
        })
    }

    fn call(&self, index: usize) -> Call {
        let outcome = serde_json::from_value(self.result.clone()).unwrap_or_else(|_| Outcome::Done {
            output: Output::text(match &self.result {
                Value::String(text) => text.clone(),
                other @ (Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_)) => other.to_string(),
            }),
        });
        Call {
            id: CallId(index as u32 + 1),
            step: 0,
            iteration: 1,
            turn: 0,
            tool: self.call_name.as_str().into(),
            args: Json::of(&self.arguments),
            asked_at: self.timestamp,
            malformed: None,
            granted: false,
            next: Attempt::FIRST,
            failures: self.retry_count,
            state: CallState::Ended {
                attempt: Attempt(self.retry_count.saturating_add(1)),
                outcome,
                duration_us: (self.duration * 1000.0) as u64,
            },
        }
    }
}

fn planned(state: &HarnessState) -> Plan {
    match &state.plan {
        // Others may leave it to the reader to see that a step waits for nobody any more.
        Some(plan) => Plan { steps: plan.steps.clone() }.readied(),
        None => Plan::single(&state.task_id, &state.agent_name),
    }
}

/// The whole run, if the document was written by longhaul.
fn embedded(text: &str) -> Result<Option<Run>, Error> {
    #[derive(Deserialize)]
    struct Embedding {
        #[serde(default)]
        longhaul: Option<Box<Run>>,
    }
    Ok(serde_json::from_str::<Embedding>(text)?.longhaul.map(|run| *run))
}

/// A document whose halves contradict each other was edited; which half was meant, nobody can know.
fn agree(given: &HarnessState, own: &HarnessState) -> Result<(), Error> {
    let comparisons = [
        ("harnessId", given.harness_id == own.harness_id),
        ("agentName", given.agent_name == own.agent_name),
        ("taskId", given.task_id == own.task_id),
        ("status", given.status == own.status),
        ("plan", given.plan.as_ref().map(|plan| &plan.steps) == own.plan.as_ref().map(|plan| &plan.steps)),
        ("currentStepIndex", given.current_step_index == own.current_step_index),
        ("totalToolCalls", given.total_tool_calls == own.total_tool_calls),
        ("checkpointCount", given.checkpoint_count == own.checkpoint_count),
    ];
    match comparisons.into_iter().find(|(_, same)| !same) {
        Some((field, _)) => Err(Error::Disagreement { field }),
        None => Ok(()),
    }
}

/// Puts back what others wrote inside fields we rewrite: unknown fields of the plan and its steps, their call records and results.
fn keep_foreign(given: &Map<String, Value>, document: &mut Map<String, Value>) {
    if let Some(results) = given.get("subAgentResults") {
        document.insert("subAgentResults".to_owned(), results.clone());
    }
    if let (Some(old), Some(new)) = (list(given, "toolCallHistory"), document.get_mut("toolCallHistory"))
        && let Value::Array(new) = new
    {
        for (slot, record) in new.iter_mut().zip(old) {
            *slot = record.clone();
        }
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) =
        (given.get("plan"), document.get_mut("plan"))
    {
        for (field, value) in old {
            new.entry(field.clone()).or_insert_with(|| value.clone());
        }
    }
    let old_steps = given.get("plan").and_then(Value::as_object).and_then(|plan| list(plan, "steps"));
    let new_steps = document.get_mut("plan").and_then(|plan| plan.get_mut("steps"));
    if let (Some(old), Some(Value::Array(new))) = (old_steps, new_steps) {
        for step in new {
            let same = old.iter().find(|candidate| candidate.get("id") == step.get("id"));
            if let (Some(Value::Object(foreign)), Value::Object(step)) = (same, step) {
                for (field, value) in foreign {
                    step.entry(field.clone()).or_insert_with(|| value.clone());
                }
            }
        }
    }
}

fn list<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Vec<Value>> {
    fields.get(name).and_then(Value::as_array)
}
