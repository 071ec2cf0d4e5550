//! Which steps begin now: all that are ready, as far as gates, the run's one conversation and the limits let them.
//!
//! Steps of the run's own agent come one after another in its own conversation; steps of other agents are errands for child
//! runs, several at once. A run that was told how many steps may be at work at once sends its own steps on errands too.

use super::{Decision, child, limit, step};
use crate::child::{Child, Origin};
use crate::event::{Cause, Event};
use crate::limits::PARALLEL_DEFAULT;
use crate::plan::{Plan, StepStatus};
use crate::run::{Gate, Phase, Run};
use crate::spec::Limits;
use crate::status::Status;

/// Begins what can begin, asks what must be asked first, and ends the run when nothing is left to do.
pub(super) fn go_on(run: &Run, limits: Limits, decision: &mut Decision) {
    let mut board = Board::of(run, decision);
    let ready: Vec<usize> = board.plan.ready().collect();
    let mut open_lane = None;
    for index in ready {
        if board.free() == 0 {
            break;
        }
        match board.start_of(index) {
            Start::Wait => {}
            Start::Ask => board.ask(index, decision),
            Start::InHand => {
                board.in_hand = true;
                board.plan.start(index);
                open_lane = Some(index);
            }
            Start::Errand => {
                if !limit::permit_question(run, limits, decision) {
                    return;
                }
                board.send(index, limits, decision);
            }
        }
    }
    match open_lane {
        // Last, because its first turn may find that a limit is reached and pause the run.
        Some(index) => {
            decision.and(Event::GateChecked { step: index as u32, required: false });
            step::open(run, index as u32, limits, decision);
        }
        None => settle(&board, decision),
    }
}

/// Nothing more can begin: is there anything left to wait for?
fn settle(board: &Board<'_>, decision: &mut Decision) {
    if board.in_hand || board.gates > 0 || board.errands > 0 {
        return child::rest_with(board.run, decision);
    }
    if board.plan.is_completed() {
        return finish(decision);
    }
    give_up(&board.why_failed(decision), decision);
}

/// What scheduling looks at, as it will be once what was decided so far is remembered.
struct Board<'a> {
    run: &'a Run,
    plan: Plan,
    /// Is a step in the run's own conversation?
    in_hand: bool,
    /// Errands that somebody is on.
    errands: u32,
    /// Gates that steps wait at.
    gates: u32,
    approved: Vec<u32>,
}

enum Start {
    /// Its turn has not come.
    Wait,
    /// A person is to be asked first.
    Ask,
    InHand,
    Errand,
}

impl<'a> Board<'a> {
    fn of(run: &'a Run, decision: &Decision) -> Board<'a> {
        let mut board = Board {
            run,
            plan: run.plan.outline(),
            in_hand: run.phase != Phase::Idle,
            errands: run.live_children().count() as u32,
            gates: run.step_gates().count() as u32,
            approved: Vec::new(),
        };
        for event in &decision.events {
            board.see(event);
        }
        board
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the other events change nothing on the board")]
    fn see(&mut self, event: &Event) {
        match event {
            Event::StepStarted { step } => {
                self.in_hand = true;
                self.plan.start(*step as usize);
            }
            Event::StepCompleted { step, .. } => {
                self.leave(*step);
                self.plan.complete(*step as usize, String::new());
            }
            Event::StepFailed { step, .. } => {
                self.leave(*step);
                self.plan.fail(*step as usize, String::new());
            }
            Event::PlanMade { plan } => {
                self.plan = plan.outline();
                self.in_hand = false;
            }
            Event::ChildSpawned(errand) => {
                if let Origin::Step { step } = errand.origin {
                    self.plan.start(step as usize);
                }
                self.errands += 1;
            }
            Event::ChildEnded { .. } => self.errands = self.errands.saturating_sub(1),
            Event::WaitingForHuman { ask: None, .. } => self.gates += 1,
            Event::GateAnswered { gate, approved, .. } => {
                if let Some(Gate { ask: None, step, .. }) = self.run.gate(*gate) {
                    self.gates = self.gates.saturating_sub(1);
                    self.approved.extend(approved.then_some(*step));
                }
            }
            _ => {}
        }
    }

    fn leave(&mut self, step: u32) {
        let sent = |child: &Child| child.errand.origin == Origin::Step { step };
        if self.run.current_step == step && !self.run.live_children().any(sent) {
            self.in_hand = false;
        }
    }

    /// How many more steps may be under way.
    fn free(&self) -> u32 {
        let most = self.run.spec.parallel.unwrap_or(PARALLEL_DEFAULT);
        most.saturating_sub(u32::from(self.in_hand) + self.errands + self.gates)
    }

    fn start_of(&self, index: usize) -> Start {
        let Some(step) = self.plan.steps.get(index) else { return Start::Wait };
        let is_own = step.agent == self.run.spec.agent;
        let side_by_side = self.run.spec.parallel.is_some_and(|parallel| parallel > 1);
        if self.must_ask(index as u32, step.critical) {
            // Whoever is asked before every step is asked about one after the other.
            let one_by_one = self.run.spec.autonomy.gates(false);
            let busy = self.gates > 0 || (is_own && !side_by_side && self.in_hand);
            let is_asked = self.is_asked(index as u32);
            return if is_asked || (one_by_one && busy) { Start::Wait } else { Start::Ask };
        }
        match (is_own, self.in_hand) {
            (true, false) => Start::InHand,
            (true, true) if !side_by_side => Start::Wait,
            (true, true) | (false, _) => Start::Errand,
        }
    }

    fn must_ask(&self, step: u32, critical: bool) -> bool {
        let last = self.run.last_gate(step);
        let was_approved = last.and_then(|gate| gate.answer.as_ref()).is_some_and(|answer| answer.approved);
        // Who is on an errand was let go by whoever sent it.
        let is_asked_for = self.run.spec.autonomy.gates(critical) && self.run.spec.parent.is_none();
        is_asked_for && !was_approved && !self.approved.contains(&step)
    }

    fn is_asked(&self, step: u32) -> bool {
        self.run.step_gates().any(|gate| gate.step == step)
    }

    fn ask(&mut self, index: usize, decision: &mut Decision) {
        let step = index as u32;
        decision.and(Event::GateChecked { step, required: true });
        // Saved before the wait is announced: whoever answers may find only the journal.
        decision.checkpoint(self.run);
        let gate = self.run.gates.len() as u32 + decision.gates_opened() + 1;
        decision.and(Event::WaitingForHuman { gate, step, ask: None });
        self.gates += 1;
    }

    fn send(&mut self, index: usize, limits: Limits, decision: &mut Decision) {
        let step = index as u32;
        decision.and(Event::GateChecked { step, required: false });
        let waiting = self.plan.ready().count() as u32;
        let share = waiting.min(self.free()).max(1) + u32::from(self.in_hand);
        match child::send_step(self.run, step, share, limits, decision) {
            Ok(()) => {
                self.plan.start(index);
                self.errands += 1;
            }
            Err(error) => {
                decision.and(Event::StepFailed { step, error: error.clone() });
                decision.checkpoint(self.run);
                self.plan.fail(index, error);
            }
        }
    }

    fn why_failed(&self, decision: &Decision) -> String {
        let now = decision.events.iter().rev().find_map(|event| {
            let Event::StepFailed { error, .. } = event else { return None };
            Some(error.as_str())
        });
        let failed = self.run.plan.steps.iter().find(|step| step.status == StepStatus::Failed);
        let before = failed.and_then(|step| step.error.as_deref()).or(self.run.error.as_deref());
        now.or(before).unwrap_or("a step failed").to_owned()
    }
}

fn finish(decision: &mut Decision) {
    decision.and(Event::PlanCompleted);
    decision.and(Event::StatusChanged {
        from: Status::Running,
        to: Status::Completed,
        cause: Cause::Finished,
        reason: None,
    });
}

fn give_up(reason: &str, decision: &mut Decision) {
    decision.and(Event::StatusChanged {
        from: Status::Running,
        to: Status::Failed,
        cause: Cause::Error,
        reason: Some(reason.to_owned()),
    });
}
