//! Which steps begin now: all that are ready, as far as gates, the run's one conversation and the limits let them.
//!
//! Steps of the run's own agent come one after another in its own conversation; steps of other agents are errands for child
//! runs, several at once. A run that was told how many steps may be at work at once sends its own steps on errands too.

use super::{Decision, child, limit, step};
use crate::event::{Cause, Event};
use crate::limits::{PARALLEL_DEFAULT, PARALLEL_MAX};
use crate::plan::{Plan, Step, StepStatus};
use crate::run::{Phase, Run};
use crate::spec::Limits;
use crate::status::Status;

/// Begins what can begin, asks what must be asked first, and ends the run when nothing is left to do.
pub(super) fn go_on(run: &Run, limits: Limits, decision: &mut Decision) {
    let Some(run) = decision.ahead(run).filter(|run| run.status == Status::Running) else { return };
    let mut board = Board::of(&run);
    let ready: Vec<usize> = board.plan.ready().collect();
    let mut in_hand = None;
    for index in ready {
        match board.start_of(index) {
            Start::Wait => {}
            Start::Ask => board.ask(index, decision),
            Start::InHand if board.has_room(limits, decision) => {
                board.in_hand = true;
                board.plan.start(index);
                in_hand = Some(index as u32);
            }
            Start::Errand if board.has_room(limits, decision) => {
                if !limit::permit_question(&run, limits, decision) {
                    return;
                }
                board.send(index, limits, decision);
            }
            // What is set aside for those at work may come back.
            Start::InHand | Start::Errand => {}
        }
    }
    match in_hand {
        // Last, because its first turn may find that a limit is reached and pause the run.
        Some(step) => {
            decision.and(Event::GateChecked { step, required: false });
            step::open(&run, step, limits, decision);
        }
        None => settle(&board, decision),
    }
}

/// Nothing more can begin: is there anything left to wait for?
fn settle(board: &Board<'_>, decision: &mut Decision) {
    let live = board.working > 0 || board.run.live_children().next().is_some();
    if board.in_hand || board.gates > 0 || live {
        return child::rest_with(board.run, decision);
    }
    if board.plan.is_completed() {
        return finish(decision);
    }
    give_up(&board.why_failed(decision), decision);
}

/// What scheduling looks at.
struct Board<'a> {
    run: &'a Run,
    plan: Plan,
    /// Is a step in the run's own conversation?
    in_hand: bool,
    /// Errands that somebody is at work on.
    working: u32,
    /// Gates that steps wait at.
    gates: u32,
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
    fn of(run: &'a Run) -> Board<'a> {
        Board {
            run,
            plan: run.plan.outline(),
            in_hand: run.phase != Phase::Idle,
            working: run.children.iter().filter(|child| child.is_working()).count() as u32,
            gates: run.step_gates().count() as u32,
        }
    }

    /// How many more steps may be under way.
    fn free(&self) -> u32 {
        let most = self.run.spec.parallel.unwrap_or(PARALLEL_DEFAULT);
        most.saturating_sub(u32::from(self.in_hand) + self.working)
    }

    /// Is there money and are there tokens that are set aside for nobody? If nobody is at work there is nothing to wait for.
    fn has_room(&self, limits: Limits, decision: &Decision) -> bool {
        self.free() > 0 && (self.working == 0 || child::has_room(self.run, limits, decision))
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
            let too_many = self.gates >= PARALLEL_MAX;
            return if is_asked || too_many || (one_by_one && busy) { Start::Wait } else { Start::Ask };
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
        is_asked_for && !was_approved
    }

    fn is_asked(&self, step: u32) -> bool {
        self.run.step_gates().any(|gate| gate.step == step)
    }

    fn ask(&mut self, index: usize, decision: &mut Decision) {
        let step = index as u32;
        decision.and(Event::GateChecked { step, required: true });
        // Saved before the wait is announced: whoever answers may find only the journal.
        decision.checkpoint(self.run);
        let gate = self.run.gates.len() as u32 + decision.gates_opened(self.run) + 1;
        decision.and(Event::WaitingForHuman { gate, step, ask: None });
        self.gates += 1;
    }

    fn send(&mut self, index: usize, limits: Limits, decision: &mut Decision) {
        let step = index as u32;
        decision.and(Event::GateChecked { step, required: false });
        let waiting = self.plan.ready().count() as u32;
        // The run's own conversation needs a part as well, now or later.
        let own = self.run.plan.steps.iter().any(|step| self.is_own_and_open(step));
        let share = waiting.min(self.free()).max(1) + u32::from(own);
        match child::send_step(self.run, step, share, limits, decision) {
            Ok(()) => {
                self.plan.start(index);
                self.working += 1;
            }
            Err(error) => {
                decision.and(Event::StepFailed { step, error: error.clone() });
                decision.checkpoint(self.run);
                self.plan.fail(index, error);
            }
        }
    }

    fn is_own_and_open(&self, step: &Step) -> bool {
        let open = matches!(step.status, StepStatus::Pending | StepStatus::Ready | StepStatus::Running);
        open && step.agent == self.run.spec.agent
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
