//! One JSON line for each event: what it is called, and what it says.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::engine;
use super::gate::gate_id;
use crate::child::{Child, Origin};
use crate::context::Shortening;
use crate::conversation::{ProposedCall, Stop, Usage};
use crate::event::{Aside, Ask, Event, Kept, Stored};
use crate::evidence::Examination;
use crate::ids::CallId;
use crate::limits::EVENT_TEXT_BYTES_MAX;
use crate::prompt::head;
use crate::run::Run;
use crate::status::Status;
use crate::time::Timestamp;

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
        entries!(line, "seq": self.seq, "at": self.at, "harnessId": self.run.spec.id, "type": called(self.event));
        describe(self.run, self.event, &mut line)?;
        line.end()
    }
}

/// What readers of lines call an event.
fn called(event: &Event) -> &'static str {
    match event {
        Event::RunCreated(_) => "run_created",
        Event::StatusChanged { .. } => "state_transition",
        Event::CommandApplied { .. } => "command_applied",
        Event::CommandDropped { .. } => "command_dropped",
        Event::GateChecked { .. } => "gate_checked",
        Event::WaitingForHuman { .. } => "waiting_for_human",
        Event::GateAnswered { .. } => "human_gate",
        Event::StepStarted { .. } => "step_started",
        Event::StepCompleted { .. } => "step_completed",
        Event::StepFailed { .. } => "step_failed",
        Event::TurnStarted { .. } => "turn_started",
        Event::ModelReplied { .. } => "model_reply",
        Event::TurnFailed { .. } => "turn_failed",
        Event::CallStarted { .. } => "tool_started",
        Event::CallFinished { .. } | Event::CallRefused { .. } => "tool_call",
        Event::CallRetryScheduled { .. } => "tool_retry",
        Event::ToolFailed { .. } => "tool_failed",
        Event::PlanMade { .. } => "plan_made",
        Event::PlanRefused { .. } => "plan_refused",
        Event::PlanCompleted => "plan_completed",
        Event::Reopened => "reopened",
        Event::Checkpointed { .. } => "checkpoint",
        Event::CheckpointNamed { .. } => "checkpoint_named",
        Event::CheckpointGuarded { .. } => "checkpoint_guarded",
        Event::Recovered { .. } => "checkpoint_restored",
        Event::LimitReached { .. } => "budget_reached",
        Event::LimitPassed { .. } => "limit_passed",
        Event::LimitsChanged { .. } => "limits_changed",
        Event::SpentBefore { .. } => "spent_before",
        Event::ChecksChanged { .. } => "checks_changed",
        Event::LoopChanged { .. } => "loop_changed",
        Event::ModelChanged { .. } => "model_changed",
        Event::AgentStopped { .. } => "agent_stop",
        Event::ExamineStarted { .. } => "examination_started",
        Event::Examined { .. } => "examined",
        Event::IterationStarted { .. } => "iteration_started",
        Event::AsideStarted { .. } => "aside_started",
        Event::AsideEnded { aside: Aside::Compaction { .. }, .. } => "compaction_summary",
        Event::AsideEnded { aside: Aside::Iteration { .. }, .. } => "iteration_summary",
        Event::AsideEnded { aside: Aside::Judgement, .. } => "judgement",
        Event::AsideEnded { aside: Aside::Planning { .. }, .. } => "planning",
        Event::Compacted { .. } => "compaction_applied",
        Event::DoomLoop { .. } => "doom_loop",
        Event::Told { .. } => "told",
        Event::ChildSpawned(_)
        | Event::ChildRested { .. }
        | Event::ChildResumed { .. }
        | Event::ChildEnded { .. }
        | Event::ChildHeld { .. } => "sub_agent",
        Event::WorkKept { kept: Kept::Committed { .. }, .. } => "work_committed",
        Event::WorkKept { kept: Kept::Unchanged { .. }, .. } => "work_unchanged",
        Event::WorkKept { kept: Kept::Uncommitted { .. }, .. } => "work_uncommitted",
        Event::BranchesBrought { .. } => "branches_brought",
        Event::BranchNotBrought { .. } => "branch_not_brought",
        Event::BranchesComplete => "branches_complete",
        Event::WorkspaceMended { .. } => "workspace_mended",
        Event::FilesStored { stored: Stored::Tree { .. }, .. } => "files_stored",
        Event::FilesStored { stored: Stored::Failed { .. }, .. } => "files_not_stored",
        Event::SetUpStarted { .. } => "setup_started",
        Event::SetUpEnded { .. } => "setup_ended",
        Event::Contained { .. } => "sandbox",
        Event::Imported { .. } => "imported",
        Event::SchemaUpgraded { .. } => "schema_upgraded",
        Event::PersistenceFellBack { .. } => "persistence_fallback",
        Event::TornTailCut { .. } => "torn_tail_cut",
        Event::DerivedFailed { .. } => "derived_write_failed",
    }
}

/// What its line says beside that.
fn describe<M: SerializeMap>(run: &Run, event: &Event, line: &mut M) -> Result<(), M::Error> {
    let step = |index: &u32| run.step_id(*index);
    match event {
        Event::RunCreated(spec) => {
            entries!(line, "agentName": spec.agent, "task": opening(&spec.task), "model": spec.model);
            entries!(line, "mode": spec.mode(), "engine": engine(spec));
        }
        Event::StatusChanged { from, to, cause, reason } => {
            entries!(line, "from": from, "to": to, "cause": cause, "reason": reason);
        }
        Event::CommandApplied { command, wish } => entries!(line, "command": command, "action": wish.verb()),
        Event::CommandDropped { command, why } => {
            entries!(line, "level": "warn", "command": command, "reason": why);
        }
        Event::GateChecked { step: index, required } => {
            entries!(line, "stepId": step(index), "required": required);
        }
        Event::WaitingForHuman { gate, step: index, ask, digest } => {
            entries!(line, "gateId": gate_id(&run.spec.id, *gate), "stepId": step(index), "action": "waiting");
            asked(ask.as_ref(), digest.as_deref(), line)?;
        }
        Event::GateAnswered { gate, approved, reason, waited_ms, answer } => {
            let action = answer_word(*approved, answer.is_some());
            entries!(line, "gateId": gate_id(&run.spec.id, *gate), "action": action, "waitMs": waited_ms, "reason": reason);
        }
        Event::StepStarted { step: index } => entries!(line, "stepId": step(index)),
        Event::StepCompleted { step: index, output } => {
            entries!(line, "stepId": step(index), "output": opening(output));
        }
        Event::StepFailed { step: index, error } => entries!(line, "stepId": step(index), "error": error),
        Event::TurnStarted { turn, attempt } => entries!(line, "turn": turn, "attempt": attempt),
        Event::ModelReplied { turn, attempt, text, calls, usage, duration_us, stop, .. } => {
            entries!(line, "turn": turn, "attempt": attempt, "text": opening(text));
            replied(calls, usage, *duration_us, *stop, line)?;
            entries!(line, "model": run.spec.model);
        }
        Event::TurnFailed { turn, attempt, message, retry, kind, until, usage, .. } => {
            entries!(line, "turn": turn, "attempt": attempt, "kind": kind.unwrap_or_default(), "error": message);
            entries!(line, "retry": retry, "until": until, "usage": usage);
        }
        Event::CallStarted { call, attempt, class, traces } => {
            name_call(run, *call, line)?;
            entries!(line, "attempt": attempt, "class": class, "traces": traces);
        }
        Event::CallFinished { call, attempt, outcome, duration_us } => {
            name_call(run, *call, line)?;
            entries!(line, "attempt": attempt, "durationMs": millis(*duration_us));
            entries!(line, "success": outcome.is_done(), "error": outcome.error());
        }
        Event::CallRefused { call, failure, message } => {
            name_call(run, *call, line)?;
            entries!(line, "durationMs": millis(1), "success": false, "failure": failure, "error": message);
        }
        Event::CallRetryScheduled { call, attempt, message, rest } => {
            name_call(run, *call, line)?;
            entries!(line, "attempt": attempt, "error": message, "delayMs": rest.delay_ms);
        }
        Event::ToolFailed { call, message } => {
            name_call(run, *call, line)?;
            entries!(line, "error": message);
        }
        Event::PlanMade { plan } => {
            let steps: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
            entries!(line, "stepIds": steps);
        }
        Event::PlanRefused { why } => entries!(line, "level": "warn", "reason": why),
        Event::Reopened => entries!(line, "from": Status::Failed, "to": Status::Paused),
        Event::Checkpointed { number } => entries!(line, "number": number),
        Event::CheckpointNamed { number, name } => entries!(line, "number": number, "name": name),
        Event::CheckpointGuarded { number, name, call, command } => {
            entries!(line, "number": number, "name": name, "callId": call.to_string(), "command": command);
        }
        Event::Recovered { generation } => entries!(line, "generation": generation),
        Event::LimitReached { limit, spent, max } => {
            entries!(line, "limit": limit, "spent": spent, "max": max);
        }
        Event::LimitPassed { limit, spent, max } => {
            entries!(line, "level": "warn", "limit": limit, "spent": spent, "max": max);
        }
        Event::LimitsChanged { limits } => entries!(line, "limits": limits),
        Event::SpentBefore { usage } => entries!(line, "usage": usage),
        Event::ChecksChanged { checks } => entries!(line, "checks": checks),
        Event::LoopChanged { looping } => entries!(line, "loop": looping),
        Event::ModelChanged { model, why } => entries!(line, "model": model, "reason": why),
        Event::AgentStopped { turn, action, why } => {
            let why = why.as_deref().map(opening);
            entries!(line, "turn": turn, "action": action, "reason": why, "iteration": run.iteration);
        }
        Event::ExamineStarted { turn, round, attempt, purpose } => {
            entries!(line, "turn": turn, "round": round, "attempt": attempt, "purpose": purpose);
        }
        Event::Examined { round, found, .. } => {
            entries!(line, "round": round);
            examined(found, line)?;
        }
        Event::IterationStarted { number, why, .. } => entries!(line, "iteration": number, "reason": why),
        Event::AsideStarted { aside, attempt, .. } => entries!(line, "aside": aside, "attempt": attempt),
        Event::AsideEnded { model, text, error, usage, retry, kind, .. } => {
            let text = text.as_deref().map(opening);
            entries!(line, "model": model, "text": text, "error": error, "usage": usage);
            if retry.is_some() {
                entries!(line, "kind": kind.unwrap_or_default(), "retry": retry);
            }
        }
        Event::Compacted { shortening, tokens_before, tokens_after, futile } => {
            entries!(line, "by": shortening_word(shortening), "tokensBefore": tokens_before);
            entries!(line, "tokensAfter": tokens_after, "futile": futile);
        }
        Event::DoomLoop { repetition, remedy, tool, count } => {
            entries!(line, "level": "warn", "repetition": repetition, "action": remedy);
            entries!(line, "toolName": tool, "count": count);
        }
        Event::Told { text } => entries!(line, "text": opening(text)),
        Event::ChildSpawned(errand) => {
            name_child(run, errand.number, "spawned", line)?;
            entries!(line, "attempt": errand.attempt, "task": opening(&errand.task), "limits": errand.limits);
        }
        Event::ChildRested { number, paused, reason, .. } => {
            name_child(run, *number, if paused.is_some() { "paused" } else { "waiting" }, line)?;
            entries!(line, "cause": paused, "reason": reason);
        }
        Event::ChildResumed { number, limits, model } => {
            name_child(run, *number, "resumed", line)?;
            entries!(line, "limits": limits, "model": model);
        }
        Event::ChildEnded { number, error, ledger } => {
            let outcome = if error.is_some() { "failed" } else { "completed" };
            name_child(run, *number, outcome, line)?;
            entries!(line, "outcome": outcome, "error": error, "usage": ledger.usage, "toolCallCount": ledger.calls);
        }
        Event::ChildHeld { number } => name_child(run, *number, "held", line)?,
        Event::WorkKept { kept: Kept::Committed { commit, branch }, .. } => {
            entries!(line, "commit": commit, "branch": branch);
        }
        Event::WorkKept { kept: Kept::Unchanged { head }, .. } => entries!(line, "head": head),
        Event::BranchesBrought { branches } => entries!(line, "branches": branches),
        Event::WorkspaceMended { parts } => entries!(line, "level": "warn", "parts": parts),
        Event::WorkKept { kept: Kept::Uncommitted { why }, .. }
        | Event::BranchNotBrought { why }
        | Event::FilesStored { stored: Stored::Failed { why }, .. } => {
            entries!(line, "level": "warn", "reason": why);
        }
        Event::FilesStored { stored: Stored::Tree { tree, left_out }, moment } => {
            entries!(line, "tree": tree, "leftOut": left_out, "moment": moment);
        }
        Event::SetUpStarted { commands } => entries!(line, "commands": commands),
        Event::SetUpEnded { error, duration_us } => {
            entries!(line, "success": error.is_none(), "error": error, "durationMs": millis(*duration_us));
        }
        Event::Contained { by } => entries!(line, "heldBy": by),
        Event::Imported { .. } => entries!(line, "agentName": run.spec.agent),
        Event::SchemaUpgraded { from, to } => entries!(line, "from": from, "to": to),
        Event::PersistenceFellBack { reason } => entries!(line, "level": "warn", "reason": reason),
        Event::TornTailCut { bytes } => entries!(line, "level": "warn", "bytes": bytes),
        Event::DerivedFailed { file, why } => entries!(line, "level": "warn", "file": file, "reason": why),
        Event::PlanCompleted | Event::BranchesComplete => {}
    }
    Ok(())
}

/// The beginning of a text that may be long: lines are for looking through, the journal has all of it.
fn opening(text: &str) -> &str {
    head(text, EVENT_TEXT_BYTES_MAX)
}

/// Of a wait for a person, only what there is: a step that waits asks nothing, a call that asks has its digest with the question.
fn asked<M: SerializeMap>(ask: Option<&Ask>, digest: Option<&str>, line: &mut M) -> Result<(), M::Error> {
    if let Some(ask) = ask {
        entries!(line, "ask": ask);
    }
    if let Some(digest) = digest {
        entries!(line, "digest": digest);
    }
    Ok(())
}

fn answer_word(approved: bool, has_text: bool) -> &'static str {
    match (approved, has_text) {
        (true, true) => "answered",
        (true, false) => "approved",
        (false, _) => "rejected",
    }
}

fn replied<M: SerializeMap>(
    calls: &[ProposedCall],
    usage: &Usage,
    duration_us: u64,
    stop: Option<Stop>,
    line: &mut M,
) -> Result<(), M::Error> {
    let tools: Vec<&str> = calls.iter().map(|call| call.tool.as_str()).collect();
    entries!(line, "toolNames": tools, "usage": usage, "durationMs": millis(duration_us));
    entries!(line, "stop": stop.unwrap_or_default());
    Ok(())
}

fn examined<M: SerializeMap>(found: &Examination, line: &mut M) -> Result<(), M::Error> {
    let passed = found.checks.iter().filter(|check| check.passed).count();
    entries!(line, "tree": found.tree, "checksPassed": passed, "checksTotal": found.checks.len());
    entries!(line, "protected": found.protected, "features": found.features, "warnings": found.warnings);
    if !found.warnings.is_empty() {
        entries!(line, "level": "warn");
    }
    Ok(())
}

fn shortening_word(shortening: &Shortening) -> &'static str {
    match shortening {
        Shortening::Outputs { .. } => "outputs",
        Shortening::Summary { .. } => "summary",
        Shortening::Fit { .. } => "fit",
    }
}

/// Events of calls all name the tool, which the event itself leaves to the call's record.
fn name_call<M: SerializeMap>(run: &Run, call: CallId, line: &mut M) -> Result<(), M::Error> {
    let tool = run.call(call).map_or("", |call| call.tool.as_str());
    entries!(line, "callId": call.to_string(), "toolName": tool);
    Ok(())
}

/// Events of children all say whose child it is, and which.
fn name_child<M: SerializeMap>(
    run: &Run,
    number: u32,
    event: &'static str,
    line: &mut M,
) -> Result<(), M::Error> {
    entries!(line, "event": event, "parentId": run.spec.id);
    let Some(Child { errand, .. }) = run.child(number) else { return Ok(()) };
    entries!(line, "subAgentId": errand.id, "agentName": errand.agent);
    match errand.origin {
        Origin::Step { step } => entries!(line, "stepId": run.step_id(step)),
        Origin::Call { call } => entries!(line, "callId": call.to_string()),
    }
    Ok(())
}

fn millis(micros: u64) -> f64 {
    micros.max(1) as f64 / 1000.0
}
