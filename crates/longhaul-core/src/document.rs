//! A run as a JSON document: the `HarnessState` of schema version 1, for storage and transfer between programs.
//!
//! The fields of version 1 are a view of the run that any reader of that version understands. The field `longhaul` holds
//! the whole run, which they may ignore. A document written by somebody else has no such field: the run is then
//! rebuilt from version 1 alone. What nobody here understands is kept and written back, every number as it was written.
//!
//! In `longhaul` there is also a digest of the whole, so that a document that was damaged on its way is not taken for another.
//! Whoever edits one on purpose takes the digest out.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use crate::child::{Child, ChildState, Origin};

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
    #[error("the document is not as longhaul wrote it: it does not fit its `longhaul.digest`")]
    Changed,
}

/// Whose name the whole run has in a document, and its digest in that.
const OWN: &str = "longhaul";
const DIGEST: &str = "digest";

/// The fields of an object, each as it was written.
type Fields = BTreeMap<String, Box<RawValue>>;

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
    if let Some(digest) = value.get(OWN).and_then(|own| own.get(DIGEST))
        && *digest != digest_of(value.clone())
    {
        return Err(Error::Changed);
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

/// The spec of the run a document becomes: its own if it carries one, else `defaults` under its names. What it may do, and
/// where, is for whoever takes it in to say.
pub fn spec(text: &str, defaults: RunSpec) -> Result<RunSpec, Error> {
    let state = read(text)?;
    if let Some(run) = embedded(text)? {
        return Ok(run.spec.taken_in(defaults));
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

/// The commands that the harness itself would run for the run a document becomes.
pub fn commands(text: &str) -> Result<Vec<String>, Error> {
    Ok(match embedded(text)? {
        Some(run) => run.commands(),
        None => planned(&read(text)?).commands().cloned().collect(),
    })
}

/// The run a document describes.
pub fn restore(document: &Json, spec: &RunSpec, at: Timestamp) -> Result<Run, Error> {
    let state = read(document.as_str())?;
    if let Some(run) = embedded(document.as_str())? {
        let calls = run.calls.into_iter().map(|call| call.taken_in(spec)).collect();
        return Ok(Run { spec: spec.clone(), calls, ..run });
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
        let mut text = prompt::step_text(&run, run.current_step as usize, |_| None);
        if let Some(snapshot) = &state.agent_loop_snapshot {
            text.push_str(&recalled(snapshot));
        }
        run.messages = Arc::new(vec![Message::User { text }]);
    }
    Ok(run)
}

/// The document of a run. A run that nothing happened to since its import is written exactly as it came.
pub fn write(run: &Run) -> Json {
    if let Some(given) = run.imported.as_ref().filter(|_| run.seq == run.imported_seq) {
        return given.clone();
    }
    let given: Fields = run.imported.as_ref().and_then(|given| given.read().ok()).unwrap_or_default();
    let mut document = given.clone();
    document.extend(fields(&raw(&view(run))));
    keep_foreign(&given, &mut document);
    document.insert(OWN.to_owned(), raw(run));
    sealed(document)
}

/// A document under another id, in both places where it says its own.
pub fn renamed(document: &Json, id: &RunId) -> Json {
    let mut document: Fields = document.read().unwrap_or_default();
    document.insert("harnessId".to_owned(), raw(id));
    let Some(own) = document.get(OWN).filter(|own| own.get().starts_with('{')) else {
        return whole(&document);
    };
    let mut own = fields(own);
    let was_sealed = own.remove(DIGEST).is_some();
    if let Some(spec) = own.get_mut("spec") {
        let mut renamed = fields(spec);
        renamed.insert("id".to_owned(), raw(id));
        *spec = raw(&renamed);
    }
    document.insert(OWN.to_owned(), raw(&own));
    if was_sealed { sealed(document) } else { whole(&document) }
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
        sub_agent_results: run.children.iter().filter_map(|child| result(run, child)).collect(),
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

/// Puts back what others wrote inside fields we rewrite: unknown fields of the plan and its steps, their call records and results,
/// and what an agent's loop had to remember.
fn keep_foreign(given: &Fields, document: &mut Fields) {
    if let (Some(old), Some(new)) = (given.get("subAgentResults"), document.get_mut("subAgentResults")) {
        *new = raw(&joined(fields(old), fields(new)));
    }
    if let (Some(old), Some(new)) = (given.get("agentLoopSnapshot"), document.get_mut("agentLoopSnapshot")) {
        let (mut kept, now) = (fields(old), fields(new));
        if now.contains_key("turns") {
            kept.extend(now.into_iter().filter(|(field, _)| field == "turns"));
            *new = raw(&kept);
        } else if !given.contains_key(OWN) {
            *new = old.clone();
        }
    }
    if let (Some(old), Some(new)) = (given.get("toolCallHistory"), document.get_mut("toolCallHistory")) {
        let (old, mut records) = (items::<Box<RawValue>>(old), items::<Box<RawValue>>(new));
        for (slot, record) in records.iter_mut().zip(old) {
            *slot = record;
        }
        *new = raw(&records);
    }
    if let (Some(old), Some(new)) = (given.get("plan"), document.get_mut("plan")) {
        let (old, plan) = (fields(old), fields(new));
        let foreign: Vec<Fields> = old.get("steps").map(|steps| items(steps)).unwrap_or_default();
        let steps: Vec<Fields> = plan.get("steps").map(|steps| items(steps)).unwrap_or_default();
        let id = |step: &Fields| step.get("id").map(|id| id.get().to_owned());
        let whole = |step: Fields| match foreign.iter().find(|old| id(old) == id(&step)) {
            Some(old) => joined(old.clone(), step),
            None => step,
        };
        let steps: Vec<Fields> = steps.into_iter().map(whole).collect();
        let mut plan = joined(old, plan);
        plan.insert("steps".to_owned(), raw(&steps));
        *new = raw(&plan);
    }
}

/// What both have, as the second says it.
fn joined(mut first: Fields, second: Fields) -> Fields {
    first.extend(second);
    first
}

/// What became of a run that another was sent to do.
fn result(run: &Run, child: &Child) -> Option<(String, Value)> {
    let output = match child.errand.origin {
        Origin::Step { step } => run.plan.steps.get(step as usize).and_then(|step| step.output.clone()),
        Origin::Call { call } => {
            let outcome = run.call(call).and_then(Call::outcome);
            outcome.and_then(Outcome::output).map(|output| output.text.to_string())
        }
    };
    let (status, output, error) = match &child.state {
        ChildState::Completed => (Status::Completed, output, None),
        ChildState::Failed { error } => (Status::Failed, None, Some(error)),
        ChildState::Working | ChildState::Waiting | ChildState::Paused { .. } | ChildState::Held => {
            return None;
        }
    };
    let result = json!({
        "status": status, "output": output, "error": error, "toolCallCount": child.ledger.calls,
    });
    Some((child.errand.id.to_string(), result))
}

/// What the loop of another program had in mind, for the agent that goes on: as it stands there, whatever form it has.
fn recalled(snapshot: &Value) -> String {
    let mut text = String::new();
    let scratchpad = snapshot.get("scratchpad").and_then(Value::as_str).filter(|text| !text.is_empty());
    if let Some(scratchpad) = scratchpad {
        text.push_str(&format!("\n\n## Notes from before\n\n{scratchpad}"));
    }
    let turns = snapshot.get("turns").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    if !turns.is_empty() {
        text.push_str("\n\n## What was said before");
    }
    for turn in turns {
        let role = turn.get("role").and_then(Value::as_str).unwrap_or("turn");
        let said = ["content", "text"].iter().find_map(|field| turn.get(field)?.as_str());
        let said = said.map_or_else(|| turn.to_string(), str::to_owned);
        text.push_str(&format!("\n\n{role}: {said}"));
    }
    text
}

/// A document with the digest of the rest of it.
fn sealed(mut document: Fields) -> Json {
    let digest = digest_of(whole(&document).value());
    if let Some(own) = document.get_mut(OWN) {
        let mut fields = fields(own);
        fields.insert(DIGEST.to_owned(), raw(&digest));
        *own = raw(&fields);
    }
    whole(&document)
}

/// Of what a document says, however it is laid out and in whatever order.
fn digest_of(mut document: Value) -> String {
    if let Some(own) = document.get_mut(OWN).and_then(Value::as_object_mut) {
        own.remove(DIGEST);
    }
    let mut text = String::new();
    spell(&document, &mut text);
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

fn spell(value: &Value, text: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort();
            text.push('{');
            for name in names {
                text.push_str(&json!(name).to_string());
                spell(&fields[name], text);
            }
            text.push('}');
        }
        Value::Array(items) => {
            text.push('[');
            for item in items {
                spell(item, text);
                text.push(',');
            }
            text.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            text.push_str(&value.to_string())
        }
    }
}

fn whole(document: &Fields) -> Json {
    Json::written(raw(document))
}

/// What of ours is written can be written: no map of it has anything but text for names.
fn raw<T: Serialize>(value: &T) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// The fields of what is an object; of anything else, none.
fn fields(object: &RawValue) -> Fields {
    serde_json::from_str(object.get()).unwrap_or_default()
}

fn items<T: for<'a> Deserialize<'a>>(list: &RawValue) -> Vec<T> {
    serde_json::from_str(list.get()).unwrap_or_default()
}
