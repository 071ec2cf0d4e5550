//! The plan, its steps, and the gates before them.

use std::sync::Arc;

use crate::child::Origin;
use crate::conversation::Message;
use crate::limits::STEPS_MAX;
use crate::novelty::Novelty;
use crate::plan::{Plan, Step, StepStatus};
use crate::prompt;
use crate::run::{Answer, CallState, Gate, Older, Phase, Resumed, Run};

impl Run {
    pub(super) fn take_plan(&mut self, plan: &Plan) {
        let old = std::mem::replace(&mut self.plan, plan.clone());
        self.renumber(&old);
        self.planned = true;
        self.bad_plan = None;
        self.error = None;
        self.phase = Phase::Idle;
        self.older = Older { gates: self.gates.len(), children: self.children.len() };
    }

    /// What is on record of the old plan's steps goes by their numbers in the new one. Those that gave way keep numbers of their own.
    fn renumber(&mut self, old: &Plan) {
        let is_kept = |new: &Step, old: &Step| new.id == old.id && new.status == StepStatus::Completed;
        let kept = |old: &Step| {
            let place = self.plan.steps.iter().position(|new| is_kept(new, old));
            place.filter(|_| old.status == StepStatus::Completed).map(|place| place as u32)
        };
        let mut numbers: Vec<Option<u32>> = old.steps.iter().map(kept).collect();
        let current = numbers.get(self.current_step as usize).copied().flatten();
        let first_open = self.plan.completed_count().min(self.plan.steps.len().saturating_sub(1));
        self.current_step = current.unwrap_or(first_open as u32);
        let given_up = &mut self.given_up;
        let mut renumber = |step: &mut u32| {
            // A step of a plan before that has its number already.
            let place = *step as usize;
            let (Some(planned), Some(number)) = (old.steps.get(place), numbers.get_mut(place)) else {
                return;
            };
            *step = *number.get_or_insert_with(|| {
                given_up.push(planned.clone());
                (STEPS_MAX + given_up.len() - 1) as u32
            });
        };
        self.gates.iter_mut().for_each(|gate| renumber(&mut gate.step));
        self.calls.iter_mut().for_each(|call| renumber(&mut call.step));
        self.spending.iter_mut().for_each(|spent| renumber(&mut spent.step));
    }

    pub(super) fn refuse_plan(&mut self, why: &str) {
        self.bad_plan = Some(why.to_owned());
        if self.is_planning() {
            self.phase = Phase::Idle;
        }
    }

    pub(super) fn come_to_step(&mut self, step: u32) {
        if self.phase == Phase::Idle {
            self.current_step = step;
        }
    }

    pub(super) fn open_step(&mut self, step: u32) {
        self.current_step = step;
        self.plan.start(step as usize);
        self.phase = Phase::Opened;
        self.cwd = None;
        self.resumed = Resumed::default();
        self.pace.fresh_starts = 0;
        self.pace.early_overflows = 0;
        self.novelty = Novelty::default();
        self.forget_warnings();
        self.said_before = self.last_words().map(str::to_owned);
        self.messages = Arc::new(vec![Message::User { text: prompt::opening_text(self, step as usize) }]);
        self.fill.recount(&self.messages);
    }

    pub(super) fn complete_step(&mut self, step: u32, output: &str) {
        self.leave_step(step);
        self.plan.complete(step as usize, output.to_owned());
    }

    pub(super) fn fail_step(&mut self, step: u32, error: &str) {
        self.leave_step(step);
        self.plan.fail(step as usize, error.to_owned());
        self.error = Some(error.to_owned());
    }

    /// The conversation is over if it was about that step; a step somebody else is on leaves it alone.
    fn leave_step(&mut self, step: u32) {
        let is_ours = self.current_step == step && !self.is_sent(step);
        if is_ours {
            self.phase = Phase::Idle;
        }
    }

    fn is_sent(&self, step: u32) -> bool {
        self.live_children().any(|child| child.errand.origin == Origin::Step { step })
    }

    pub(super) fn open_gate(&mut self, gate: Gate) {
        let (number, ask) = (gate.number, gate.ask.clone());
        self.gates.push(gate);
        let Some(ask) = ask else { return };
        if let Some(call) = self.call_mut(ask.call)
            && let CallState::Started { attempt, .. } = call.state
        {
            call.next = attempt.next();
        }
        self.set_call(ask.call, CallState::Asking { gate: number });
    }

    pub(super) fn answer_gate(&mut self, number: u32, answer: Answer) {
        let approved = answer.approved;
        let Some(gate) = self.gates.iter_mut().find(|gate| gate.number == number) else { return };
        gate.answer = Some(answer);
        let Some(call) = gate.ask.as_ref().map(|ask| ask.call) else { return };
        self.set_call(call, CallState::Proposed);
        if let Some(call) = self.call_mut(call) {
            call.granted = approved;
        }
    }
}
