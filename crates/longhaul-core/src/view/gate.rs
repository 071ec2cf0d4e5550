//! A wait for a person as the outside is shown it.

use serde::{Deserialize, Serialize};

use crate::event::AskKind;
use crate::ids::RunId;
use crate::run::{Gate, Run};
use crate::time::Timestamp;

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
        let step = run.step_at(gate.step);
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
