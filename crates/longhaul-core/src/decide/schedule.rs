//! Which steps begin now: all that are ready, as far as gates, the run's one conversation and the limits let them.
//!
//! Steps of the run's own agent come one after another in its own conversation; steps of other agents are errands for child
//! runs, several at once. A run that was told how many steps may be at work at once sends its own steps on errands too.

use super::child::{Crowd, Share};
use super::{Decision, ask, child, limit, step, stop};
use crate::child::Origin;
use crate::event::{Cause, Event, Purpose};
use crate::ids::Attempt;
use crate::limits::{PARALLEL_DEFAULT, PARALLEL_MAX};
use crate::plan::StepStatus;
use crate::run::{Phase, Run};
use crate::spec::Limits;
use crate::status::Status;

/// Begins what can begin, asks what must be asked first, and ends the run when nothing is left to do.
pub(super) fn go_on(run: &Run, limits: Limits, decision: &mut Decision) {
    // What a child leads to is worked out on a board; what else was decided may have changed anything.
    if decision.since(run).iter().all(|event| is_on_board(run, event)) {
        return go_on_from(run, limits, decision);
    }
    if let Some(ahead) = decision.ahead(run) {
        go_on_from(&ahead, limits, decision);
    }
}

fn go_on_from(run: &Run, limits: Limits, decision: &mut Decision) {
    if decision.status_after(run) != Status::Running {
        return;
    }
    let known = decision.events.len();
    let mut board = Board::of(run, decision);
    let ready: Vec<usize> = board.ready().collect();
    let (mut in_hand, mut is_permitted) = (None, None);
    for index in ready {
        match board.start_of(index) {
            Start::Wait => {}
            Start::Ask => board.ask(index, decision),
            Start::InHand if board.has_room(limits, decision) => {
                board.in_hand = true;
                board.start(index);
                in_hand = Some(index as u32);
            }
            Start::Errand if board.has_room(limits, decision) => {
                if *is_permitted.get_or_insert_with(|| permit_errand(run, known, limits, decision)) {
                    board.send(index, limits, decision);
                } else if decision.status_after(run) != Status::Running {
                    return;
                }
            }
            // What is set aside for those at work may come back.
            Start::InHand | Start::Errand => {}
        }
    }
    match in_hand {
        // Last, because its first turn may find that a limit is reached and pause the run.
        Some(step) => {
            let Some(ahead) = decision.ahead_by(run, known) else { return };
            decision.and(Event::GateChecked { step, required: false });
            step::open(&ahead, step, limits, decision);
        }
        None => settle(&board, decision),
    }
}

/// May a model be asked by somebody else? What a limit leads to is for the run as it was before anybody was sent.
fn permit_errand(run: &Run, known: usize, limits: Limits, decision: &mut Decision) -> bool {
    limit::has_room_for_errand(run, limits, decision)
        || decision.ahead_by(run, known).is_some_and(|ahead| limit::permit_errand(&ahead, limits, decision))
}

/// Nothing more can begin: is there anything left to wait for?
fn settle(board: &Board<'_>, decision: &mut Decision) {
    let live = board.working > 0 || board.has_live;
    if board.in_hand || !board.asked.is_empty() || live {
        return child::rest_with(board.run, decision);
    }
    if board.status.iter().all(|status| *status == StepStatus::Completed) {
        return match board.is_seen_whole(decision) {
            true => finish(decision),
            false => stop::examine(board.run, 0, Purpose::Whole, Attempt::FIRST, decision),
        };
    }
    give_up(&board.why_failed(decision), decision);
}

/// Does a board show all that follows from that?
fn is_on_board(run: &Run, event: &Event) -> bool {
    if let Event::GateAnswered { gate, .. } = event {
        return run.gate(*gate).is_some_and(|gate| gate.ask.is_none());
    }
    matches!(
        event,
        Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::Checkpointed { .. }
            | Event::ChildSpawned(_)
            | Event::ChildRested { .. }
            | Event::ChildResumed { .. }
            | Event::ChildEnded { .. }
            | Event::ChildHeld { .. }
    )
}

/// What scheduling looks at: a run as it will be when what was decided so far is remembered, without a copy of it.
struct Board<'a> {
    run: &'a Run,
    status: Vec<StepStatus>,
    /// Is a step in the run's own conversation?
    in_hand: bool,
    /// Errands that somebody is at work on.
    working: u32,
    /// Is anybody on an errand who has not ended?
    has_live: bool,
    /// The steps that wait at a gate.
    asked: Vec<u32>,
    /// The gate that was opened for somebody just now.
    granted: Option<u32>,
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
        let crowd = Crowd::with(run, decision);
        let mut board = Board {
            run,
            status: run.plan.steps.iter().map(|step| step.status).collect(),
            in_hand: run.phase != Phase::Idle,
            working: crowd.working,
            has_live: crowd.live() > 0,
            asked: Vec::new(),
            granted: None,
        };
        let mut answered = Vec::new();
        for event in decision.since(run) {
            if let Event::StepCompleted { step, .. } = event {
                board.leave(*step);
                board.complete(*step as usize);
            } else if let Event::StepFailed { step, .. } = event {
                board.leave(*step);
                board.fail(*step as usize);
            } else if let Event::ChildSpawned(errand) = event
                && let Origin::Step { step } = errand.origin
            {
                board.start(step as usize);
            } else if let Event::GateAnswered { gate, approved, .. } = event {
                answered.push(*gate);
                board.granted = approved.then_some(*gate);
            }
        }
        let waits = run.step_gates().filter(|gate| !answered.contains(&gate.number));
        board.asked = waits.map(|gate| gate.step).collect();
        board
    }

    fn ready(&self) -> impl Iterator<Item = usize> {
        let ready = |(index, status): (usize, &StepStatus)| (*status == StepStatus::Ready).then_some(index);
        self.status.iter().enumerate().filter_map(ready)
    }

    /// A conversation is about one step, and over with it. Who is on an errand has one of its own.
    fn leave(&mut self, step: u32) {
        self.in_hand &= self.run.current_step != step;
    }

    fn start(&mut self, step: usize) {
        self.mark(step, StepStatus::Running);
    }

    fn complete(&mut self, step: usize) {
        self.mark(step, StepStatus::Completed);
        for freed in self.run.plan.freed_by(step, |other| self.status_of(other)) {
            self.mark(freed, StepStatus::Ready);
        }
    }

    fn fail(&mut self, step: usize) {
        self.mark(step, StepStatus::Failed);
        for lost in self.run.plan.lost_with(step, |other| self.status_of(other)) {
            self.mark(lost, StepStatus::Blocked);
        }
    }

    fn status_of(&self, step: usize) -> StepStatus {
        self.status.get(step).copied().unwrap_or_default()
    }

    fn mark(&mut self, step: usize, status: StepStatus) {
        if let Some(place) = self.status.get_mut(step) {
            *place = status;
        }
    }

    /// How many more steps may be under way.
    fn free(&self) -> u32 {
        let most = self.run.spec.parallel.unwrap_or(PARALLEL_DEFAULT);
        most.saturating_sub(u32::from(self.in_hand) + self.working)
    }

    /// Is there money, are there tokens, calls and turns that are set aside for nobody? If nobody is at work there is nothing to wait for.
    fn has_room(&self, limits: Limits, decision: &Decision) -> bool {
        let somebody_works = self.working > 0 || self.in_hand;
        self.free() > 0 && (!somebody_works || child::has_room(self.run, limits, decision))
    }

    fn start_of(&self, index: usize) -> Start {
        let Some(step) = self.run.plan.steps.get(index) else { return Start::Wait };
        let is_own = step.agent == self.run.spec.agent;
        let side_by_side = self.run.spec.parallel.is_some_and(|parallel| parallel > 1);
        if self.must_ask(index as u32, step.critical) {
            // Whoever is asked before every step is asked about one after the other.
            let one_by_one = self.run.spec.autonomy.gates(false);
            let busy = !self.asked.is_empty() || (is_own && !side_by_side && self.in_hand);
            let is_asked = self.asked.contains(&(index as u32));
            let too_many = self.asked.len() >= PARALLEL_MAX as usize;
            return if is_asked || too_many || (one_by_one && busy) { Start::Wait } else { Start::Ask };
        }
        match (is_own, self.in_hand) {
            (true, false) => Start::InHand,
            (true, true) if !side_by_side => Start::Wait,
            (true, true) | (false, _) => Start::Errand,
        }
    }

    fn must_ask(&self, step: u32, critical: bool) -> bool {
        // Who is on an errand was let go by whoever sent it.
        let is_asked_for = self.run.spec.autonomy.gates(critical) && self.run.spec.parent.is_none();
        is_asked_for && !self.was_approved(step)
    }

    fn was_approved(&self, step: u32) -> bool {
        let Some(last) = self.run.last_gate(step) else { return false };
        self.granted == Some(last.number) || last.answer.as_ref().is_some_and(|answer| answer.approved)
    }

    fn ask(&mut self, index: usize, decision: &mut Decision) {
        let step = index as u32;
        decision.and(Event::GateChecked { step, required: true });
        // Saved before the wait is announced: whoever answers may find only the journal.
        decision.checkpoint(self.run);
        let gate = self.run.gates.len() as u32 + decision.gates_opened(self.run) + 1;
        let planned = self.run.plan.steps.get(index);
        let digest =
            planned.map(|planned| ask::digest_of_step(planned, &child::told(self.run, step, decision)));
        decision.and(Event::WaitingForHuman { gate, step, ask: None, digest });
        self.asked.push(step);
    }

    fn send(&mut self, index: usize, limits: Limits, decision: &mut Decision) {
        let step = index as u32;
        decision.and(Event::GateChecked { step, required: false });
        let share = self.share();
        match child::send_step(self.run, step, share, limits, decision) {
            Ok(()) => {
                self.start(index);
                self.working += 1;
            }
            Err(error) => {
                decision.and(Event::StepFailed { step, error });
                decision.checkpoint(self.run);
                self.fail(index);
            }
        }
    }

    /// Among how many what is left is divided.
    fn share(&self) -> Share {
        let sent = (self.ready().count() as u32).min(self.free()).max(1);
        // The run's own conversation needs money as well, now or later.
        let own = self.run.plan.steps.iter().enumerate().any(|(index, step)| {
            let status = self.status_of(index);
            let open = matches!(status, StepStatus::Pending | StepStatus::Ready | StepStatus::Running);
            open && step.agent == self.run.spec.agent
        });
        Share { spending: sent + u32::from(own), counts: sent + u32::from(self.in_hand) }
    }

    /// What others did counts only together with the rest, if the run has anything to hold it against.
    fn is_seen_whole(&self, decision: &Decision) -> bool {
        let conduct = self.run.spec.conduct();
        let is_protected = conduct.protect.as_ref().is_some_and(|protect| !protect.globs.is_empty());
        let looks = !conduct.verify.is_empty() || conduct.judge.is_some() || is_protected;
        let since = decision.since(self.run);
        let unseen = self.run.unseen || since.iter().any(|event| matches!(event, Event::ChildEnded { .. }));
        !looks || !unseen
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::child::{ChildEnding, ChildLedger, ChildReport};
    use crate::command::{Command, Wish};
    use crate::decide::decide;
    use crate::ids::{CommandId, RunId};
    use crate::input::Input;
    use crate::plan::{Plan, Step};
    use crate::spec::{Mate, RunSpec};
    use crate::time::Timestamp;
    use crate::tool::RetryPolicy;

    fn at() -> Timestamp {
        Timestamp::from_millis(1_771_581_600_000)
    }

    fn spec(steps: Vec<Step>, autonomy: u8, parallel: Option<u32>, max_tokens: Option<u64>) -> RunSpec {
        let mates = ["PLUTO", "VENUS"].map(|name| Mate { name: name.to_owned(), role: "helps".to_owned() });
        let limits = Limits { max_tokens, ..Limits::default() };
        serde_json::from_value(json!({
            "id": RunId::from_bits(7), "agent": "MARS", "task": "do it", "taskId": "t", "model": "p/m",
            "prompt": "", "plan": Plan { steps }.readied(), "autonomy": autonomy, "limits": limits,
            "retry": RetryPolicy::default(), "tools": [], "workspace": "/w", "parent": null, "depth": 0,
            "session": null, "checkpointIntervalMs": 1000, "branch": null, "repository": null,
            "parallel": parallel, "crew": mates,
        }))
        .unwrap()
    }

    fn take(run: &mut Run, decision: Decision) {
        for event in decision.events {
            run.apply(run.seq + 1, at(), &event).unwrap();
        }
    }

    fn report(way: u8) -> ChildReport {
        let ending = match way {
            0 => ChildEnding::Failed { error: "broke".to_owned() },
            1 => ChildEnding::Waiting,
            2 => ChildEnding::Paused { cause: Cause::Limit, reason: "at the end".to_owned() },
            3 => ChildEnding::Stopped { reason: "enough".to_owned() },
            _ => ChildEnding::Completed { output: format!("by {way}") },
        };
        let mut ledger = ChildLedger { calls: 1, turns: 1, ..ChildLedger::default() };
        ledger.usage.input_tokens = u64::from(way) * 10;
        ChildReport { ending, ledger }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]
        /// What a board shows is what the run would be: both lead to the same.
        #[test]
        fn a_board_is_as_good_as_a_copy(
            steps in proptest::collection::vec((0usize..3, any::<bool>(), proptest::collection::vec(0usize..12, 0..3)), 1..12),
            autonomy in 2u8..=5,
            parallel in proptest::option::of(1u32..5),
            max_tokens in proptest::option::of(50u64..2000),
            ways in proptest::collection::vec((0u8..9, 0usize..4, any::<bool>()), 1..30),
        ) {
            let step = |(index, (agent, critical, after)): (usize, (usize, bool, Vec<usize>))| Step {
                critical,
                dependencies: after.into_iter().filter(|other| *other < index).map(|other| format!("s{other}")).collect(),
                ..Step::new(&format!("s{index}"), "part", ["MARS", "PLUTO", "VENUS"][agent])
            };
            let steps = steps.into_iter().enumerate().map(step).collect();
            let spec = spec(steps, autonomy, parallel, max_tokens);
            let mut run = Run::first(1, at(), &Event::RunCreated(Box::new(spec))).unwrap();
            let wish = Wish::Start { limits: None, model: None, looping: None };
            let start = Input::Command(Command { id: CommandId::from_bits(1), wish });
            let decision = decide(&run, at(), start).unwrap();
            take(&mut run, decision);
            for (number, (way, which, answers)) in ways.into_iter().enumerate() {
                let open = run.step_gates().next().map(|gate| gate.number);
                if let Some(gate) = open.filter(|_| answers && run.status == Status::Running) {
                    let wish = Wish::Approve { gate, digest: None };
                    let id = CommandId::from_bits(10 + number as u128);
                    let decision = decide(&run, at(), Input::Command(Command { id, wish })).unwrap();
                    take(&mut run, decision);
                    continue;
                }
                let live: Vec<u32> = run.live_children().map(|child| child.errand.number).collect();
                if live.is_empty() || run.status.is_terminal() {
                    break;
                }
                let number = live[which % live.len()];
                let heard = child::heard(&run, run.child(number).unwrap(), report(way));
                prop_assert!(heard.events.iter().all(|event| is_on_board(&run, event)));
                let (mut light, mut whole) = (heard.clone(), heard.clone());
                go_on_from(&run, run.spec.limits, &mut light);
                let ahead = heard.ahead(&run).unwrap();
                go_on_from(&ahead, run.spec.limits, &mut whole);
                prop_assert_eq!(&light, &whole);
                take(&mut run, light);
            }
        }
    }
}
