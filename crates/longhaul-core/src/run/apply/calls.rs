//! Calls from their proposal to their end, and what they may have changed.

use crate::conversation::{CallRequest, Message, ProposedCall};
use crate::event::Rest;
use crate::ids::{Attempt, CallId};
use crate::limits::CHANGED_FILES_MAX;
use crate::run::{Call, CallState, Run};
use crate::time::Timestamp;
use crate::tool::{EffectClass, Outcome, Trace};

impl Run {
    pub(super) fn propose(&mut self, at: Timestamp, turn: u32, call: &ProposedCall) -> CallRequest {
        let id = CallId(self.calls.len() as u32 + 1);
        // Kept once where an agent calls one tool again and again, which is most of the time.
        let alike = self.calls.last().filter(|last| last.tool == call.tool);
        let tool = alike.map_or(&call.tool, |last| &last.tool).clone();
        self.calls.push(Call {
            id,
            step: self.current_step,
            iteration: self.iteration,
            turn,
            tool: tool.clone(),
            args: call.args.clone(),
            asked_at: at,
            malformed: call.malformed.clone(),
            granted: false,
            next: Attempt::FIRST,
            failures: 0,
            state: CallState::Proposed,
        });
        CallRequest { id, tool, args: call.args.clone(), provider_id: call.provider_id.clone() }
    }

    pub(super) fn start_call(&mut self, id: CallId, attempt: Attempt, class: EffectClass, traces: &[Trace]) {
        if class != EffectClass::Repeatable {
            self.files.touch();
        }
        self.calls_started = self.calls_started.saturating_add(u32::from(attempt == Attempt::FIRST));
        self.set_call(id, CallState::Started { attempt, class, traces: traces.to_vec() });
    }

    pub(super) fn finish_call(&mut self, id: CallId, attempt: Attempt, outcome: &Outcome, duration_us: u64) {
        // What was stored in the middle of a call is not what it left.
        if !self.call(id).is_some_and(Call::is_repeatable) {
            self.files.go_on_changing();
        }
        self.end_call(id, attempt, outcome.clone(), duration_us);
    }

    pub(super) fn rest_call(&mut self, id: CallId, attempt: Attempt, message: &str, rest: Rest) {
        self.set_call(id, CallState::Resting { attempt, rest, message: message.to_owned() });
        self.count_failure(id);
    }

    pub(super) fn end_call(&mut self, id: CallId, attempt: Attempt, outcome: Outcome, duration_us: u64) {
        if let Some(cwd) = outcome.output().and_then(|output| output.cwd.clone()) {
            self.cwd = Some(cwd).filter(|cwd| !cwd.is_empty());
        }
        if outcome.is_done() {
            self.remember_changes(id);
        }
        if let Some(call) = (id.0 as usize).checked_sub(1).and_then(|place| self.calls.get(place)) {
            self.novelty.learn(id, &call.tool, &call.args, &outcome);
        }
        let (failed, text, images) = (!outcome.is_done(), outcome.for_model(), outcome.images().to_vec());
        self.say(Message::Tool { call: id, failed, text, images });
        self.set_call(id, CallState::Ended { attempt, outcome, duration_us });
    }

    fn remember_changes(&mut self, id: CallId) {
        let targets: Vec<String> =
            self.call(id).map_or(&[][..], Call::traces).iter().map(|trace| trace.target.clone()).collect();
        for target in targets {
            if self.changed_files.len() < CHANGED_FILES_MAX && !self.changed_files.contains(&target) {
                self.changed_files.push(target);
            }
        }
    }

    pub(super) fn set_call(&mut self, id: CallId, state: CallState) {
        if let Some(call) = self.call_mut(id) {
            call.state = state;
        }
    }

    fn count_failure(&mut self, id: CallId) {
        if let Some(call) = self.call_mut(id) {
            call.failures = call.failures.saturating_add(1);
        }
    }

    pub(super) fn call_mut(&mut self, id: CallId) -> Option<&mut Call> {
        self.calls.get_mut((id.0 as usize).checked_sub(1)?)
    }
}
