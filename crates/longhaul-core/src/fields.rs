//! What the line of each event must say: the promise to everybody who reads `events.jsonl`.
//!
//! Owns the table of types and their fields. Refuses to write lines; that is [`crate::view::EventLine`]'s, and what it writes is
//! held against this table for every event there is.

use serde_json::Value;

/// What every line has.
const ALL: &[&str] = &["seq", "at", "harnessId", "type"];

/// Each type with the fields that are always there and say something. Others may be there, or be null.
const TYPES: &[(&str, &[&str])] = &[
    ("agent_stop", &["turn", "action", "iteration"]),
    ("aside_started", &["aside", "attempt"]),
    ("branch_not_brought", &["level", "reason"]),
    ("branches_brought", &["branches"]),
    ("branches_complete", &[]),
    ("budget_reached", &["limit", "spent", "max"]),
    ("checkpoint", &["number"]),
    ("checkpoint_guarded", &["number", "name", "callId", "command"]),
    ("checkpoint_named", &["number", "name"]),
    ("checkpoint_restored", &["generation"]),
    ("checks_changed", &["checks"]),
    ("command_applied", &["command", "action"]),
    ("command_dropped", &["level", "command", "reason"]),
    ("compaction_applied", &["by", "tokensBefore", "tokensAfter", "futile"]),
    ("compaction_summary", &["model"]),
    ("derived_write_failed", &["level", "file", "reason"]),
    ("doom_loop", &["level", "repetition", "action", "toolName", "count"]),
    ("examination_started", &["turn", "round", "attempt", "purpose"]),
    ("examined", &["round", "checksPassed", "checksTotal", "protected", "warnings"]),
    ("files_not_stored", &["level", "reason"]),
    ("files_stored", &["tree", "leftOut", "moment"]),
    ("gate_checked", &["stepId", "required"]),
    ("human_gate", &["gateId", "action", "waitMs"]),
    ("imported", &["agentName"]),
    ("iteration_started", &["iteration", "reason"]),
    ("iteration_summary", &["model"]),
    ("judgement", &["model"]),
    ("limit_passed", &["level", "limit", "spent", "max"]),
    ("limits_changed", &["limits"]),
    ("loop_changed", &["loop"]),
    ("model_changed", &["model", "reason"]),
    ("model_reply", &["turn", "attempt", "text", "toolNames", "usage", "durationMs", "stop", "model"]),
    ("persistence_fallback", &["level", "reason"]),
    ("plan_completed", &[]),
    ("plan_made", &["stepIds"]),
    ("plan_refused", &["level", "reason"]),
    ("planning", &["model"]),
    ("reopened", &["from", "to"]),
    ("run_created", &["agentName", "task", "model", "mode", "engine"]),
    ("sandbox", &["heldBy"]),
    ("schema_upgraded", &["from", "to"]),
    ("setup_ended", &["success", "durationMs"]),
    ("setup_started", &["commands"]),
    ("spent_before", &["usage"]),
    ("state_transition", &["from", "to", "cause"]),
    ("step_completed", &["stepId", "output"]),
    ("step_failed", &["stepId", "error"]),
    ("step_started", &["stepId"]),
    ("sub_agent", &["subAgentId", "parentId", "agentName", "event"]),
    ("told", &["text"]),
    ("tool_call", &["callId", "toolName", "durationMs", "success"]),
    ("tool_failed", &["callId", "toolName", "error"]),
    ("tool_retry", &["callId", "toolName", "attempt", "error", "delayMs"]),
    ("tool_started", &["callId", "toolName", "attempt", "class", "traces"]),
    ("torn_tail_cut", &["level", "bytes"]),
    ("turn_failed", &["turn", "attempt", "kind", "error"]),
    ("turn_started", &["turn", "attempt"]),
    ("waiting_for_human", &["gateId", "stepId", "action"]),
    ("work_committed", &["commit", "branch"]),
    ("work_uncommitted", &["level", "reason"]),
    ("work_unchanged", &[]),
    ("workspace_mended", &["level", "parts"]),
];

/// What is wrong with a line, in words; empty if nothing is.
pub fn problems(line: &Value) -> Vec<String> {
    let Some(kind) = line.get("type").and_then(Value::as_str) else {
        return vec!["it has no type".to_owned()];
    };
    let Some((_, own)) = TYPES.iter().find(|(known, _)| *known == kind) else {
        return vec![format!("`{kind}` is not a type of event that is known here")];
    };
    let missing = ALL.iter().chain(*own).filter(|name| line.get(**name).is_none_or(Value::is_null));
    missing.map(|name| format!("a {kind} without {name}")).collect()
}

/// The types of events there are.
pub fn types() -> impl Iterator<Item = &'static str> {
    TYPES.iter().map(|(name, _)| *name)
}
