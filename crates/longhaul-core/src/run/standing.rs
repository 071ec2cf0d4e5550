//! Where a run stands, worked out from what it remembers: what it waits for, what is in hand, and what it still owes.

use super::{Call, CallState, Gate, Phase, Run, Silence};
use crate::child::{Child, ChildLedger, ChildState, Origin};
use crate::conversation::{Message, ModelFailureKind};
use crate::event::{Aside, Cause, Purpose};
use crate::ids::CallId;
use crate::limits::STEPS_MAX;
use crate::plan::{BadPlan, Plan, Step, StepStatus};
use crate::policy::{COST_BUDGET, Limit};
use crate::status::{Status, Wait};
use crate::time::Timestamp;

impl Run {
    pub fn wait(&self) -> Wait {
        if self.status != Status::Running {
            return Wait::None;
        }
        match self.own_wait() {
            // Nobody is waited for as long as somebody works.
            Wait::Human | Wait::Child if self.live_children().any(Child::is_working) => Wait::Child,
            Wait::Child => Wait::Human,
            wait @ (Wait::None | Wait::Human | Wait::Timer | Wait::RateLimit | Wait::Frozen) => wait,
        }
    }

    /// What people call the state it is in.
    pub fn called(&self) -> &'static str {
        self.status.called(self.wait())
    }

    /// Is a person asked at this step, by the run or by whoever does the step for it?
    pub fn asks_at(&self, step: usize) -> bool {
        let is_of_step = |child: &Child| match child.errand.origin {
            Origin::Step { step: of } => of as usize == step,
            Origin::Call { .. } => self.current_step as usize == step,
        };
        let asks = || self.gates.iter().any(|gate| gate.step as usize == step && gate.answer.is_none());
        let mut waiting = self.live_children().filter(|child| child.state == ChildState::Waiting);
        !self.status.is_terminal() && (asks() || waiting.any(is_of_step))
    }

    /// What people call the state a step is in: one at which a person is asked is not at work.
    pub fn step_called(&self, step: usize) -> &'static str {
        if self.asks_at(step) {
            return Status::Running.called(Wait::Human);
        }
        self.plan.steps.get(step).map_or("", |step| step.status.as_str())
    }

    /// Does the conversation in hand stand where it is, because what it needs next is set aside for others? Everything else that it
    /// does is under way, or has ended it.
    pub(crate) fn stands(&self) -> bool {
        match &self.phase {
            Phase::Opened | Phase::Answered { .. } | Phase::CutOff { .. } => true,
            Phase::Calling { .. } => {
                self.open_call().is_none_or(|call| call.is_uncounted() && self.lacks_calls())
            }
            Phase::Idle
            | Phase::Thinking { .. }
            | Phase::Resting { .. }
            | Phase::Examining { .. }
            | Phase::Aside { .. }
            | Phase::AsideResting { .. } => false,
        }
    }

    /// Is every call used, or set aside for others?
    fn lacks_calls(&self) -> bool {
        let mut gone = self.ledger();
        let held = self.live_children().filter(|child| child.holds_budget());
        held.for_each(|child| gone.set_aside(&child.errand.limits, &child.ledger));
        let limits = &self.spec.limits;
        gone.calls >= limits.max_tool_calls && limits.holds(Limit::ToolCalls)
    }

    /// What the conversation in hand waits for, or the run if it has none in hand.
    fn own_wait(&self) -> Wait {
        if self.stands() && self.live_children().any(Child::holds_budget) {
            return Wait::Child;
        }
        match &self.phase {
            Phase::Idle if self.live_children().next().is_some() => Wait::Child,
            Phase::Idle if self.step_gates().next().is_some() => Wait::Human,
            Phase::Resting { kind: ModelFailureKind::RateLimited, .. }
            | Phase::AsideResting { kind: ModelFailureKind::RateLimited, .. } => Wait::RateLimit,
            Phase::Resting { .. } | Phase::AsideResting { .. } => Wait::Timer,
            Phase::Calling { .. } => {
                match self.open_call().map(|call| (&call.state, self.is_errand(call.id))) {
                    Some((CallState::Resting { .. }, _)) => Wait::Timer,
                    Some((CallState::Asking { .. }, _)) => Wait::Human,
                    Some((_, true)) => Wait::Child,
                    Some((
                        CallState::Proposed | CallState::Started { .. } | CallState::Ended { .. },
                        false,
                    ))
                    | None => Wait::None,
                }
            }
            Phase::Idle
            | Phase::Opened
            | Phase::Thinking { .. }
            | Phase::Answered { .. }
            | Phase::CutOff { .. }
            | Phase::Examining { .. }
            | Phase::Aside { .. } => Wait::None,
        }
    }

    /// Is that call an errand somebody else is on?
    pub fn is_errand(&self, call: CallId) -> bool {
        self.live_children().any(|child| child.errand.origin == Origin::Call { call })
    }

    /// The children that have not ended.
    pub fn live_children(&self) -> impl Iterator<Item = &Child> {
        self.children.live()
    }

    pub fn child(&self, number: u32) -> Option<&Child> {
        self.children.get((number as usize).checked_sub(1)?)
    }

    /// The gates that steps wait at.
    pub fn step_gates(&self) -> impl Iterator<Item = &Gate> {
        self.gates.iter().filter(|gate| gate.ask.is_none() && gate.answer.is_none())
    }

    /// The last gate that step of this plan has come to.
    pub fn last_gate(&self, step: u32) -> Option<&Gate> {
        let of_plan = self.gates.get(self.older.gates..).unwrap_or(&[]);
        of_plan.iter().rev().find(|gate| gate.ask.is_none() && gate.step == step)
    }

    /// The last child sent for that step or call of this plan.
    pub fn last_child(&self, origin: Origin) -> Option<&Child> {
        let of_plan = self.children.get(self.older.children..).unwrap_or(&[]);
        of_plan.iter().rev().find(|child| child.errand.origin == origin)
    }

    /// A plan that a planner made, with what is completed already kept before it.
    pub fn plan_for_the_rest(&self, plan: Plan) -> Result<Plan, BadPlan> {
        if self.planned { self.plan.replanned(plan) } else { plan.checked() }
    }

    /// Is a planner being asked?
    pub fn is_planning(&self) -> bool {
        matches!(
            self.phase,
            Phase::Aside { aside: Aside::Planning { .. }, .. }
                | Phase::AsideResting { aside: Aside::Planning { .. }, .. }
        )
    }

    /// What is used of the run's budget, its own and that of all below it.
    pub fn ledger(&self) -> ChildLedger {
        ChildLedger::of(self)
    }

    /// The commands that must succeed before the step in hand counts as done.
    pub fn verify(&self) -> Vec<String> {
        let of_step = self.step().and_then(|step| step.verify.as_ref());
        self.spec.conduct().verify.iter().chain(of_step.into_iter().flatten()).cloned().collect()
    }

    /// The commands that must succeed in a look for that purpose.
    pub fn verify_for(&self, purpose: Purpose) -> Vec<String> {
        match purpose {
            Purpose::Whole => self.spec.conduct().verify.clone(),
            Purpose::Claim | Purpose::Stop | Purpose::FreshStart { .. } | Purpose::Baseline => self.verify(),
        }
    }

    /// Does the harness look at the work before the step in hand counts as done?
    pub fn examines(&self) -> bool {
        let of_step = self.step().and_then(|step| step.verify.as_ref());
        self.spec.conduct().examines() || of_step.is_some_and(|commands| !commands.is_empty())
    }

    /// When a wait for time is over, if the run is in one.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if self.status != Status::Running {
            return None;
        }
        match (&self.phase, self.open_call().map(|call| &call.state)) {
            (Phase::Resting { rest, .. } | Phase::AsideResting { rest, .. }, _)
            | (_, Some(CallState::Resting { rest, .. })) => Some(rest.until),
            (_, _) => None,
        }
    }

    /// Did it fail only because its loop had no iterations left? With more of them it can go on. A sub-agent's parent has gone on
    /// without it.
    pub fn is_out_of_iterations(&self) -> bool {
        self.stopped_at() == Some(Limit::Iterations)
    }

    /// Did it fail only because it came to a limit that was to stop it? With a higher one it can go on.
    pub fn was_stopped_at_limit(&self) -> bool {
        self.status == Status::Failed && self.cause == Some(Cause::Limit) && self.spec.parent.is_none()
    }

    /// Which limit that was.
    pub fn stopped_at(&self) -> Option<Limit> {
        let reason = self.reason.as_deref().filter(|_| self.was_stopped_at_limit())?;
        reason.strip_prefix(COST_BUDGET).unwrap_or(reason).split(' ').next()?.parse().ok()
    }

    /// Was it the step in hand that came to it? None may have been, or one that had failed for reasons of its own.
    pub(crate) fn fell_at_limit(&self) -> bool {
        let failed = self.step().filter(|step| step.status == StepStatus::Failed);
        let at_limit = |step: &Step| step.error == self.reason || self.is_out_of_iterations();
        self.was_stopped_at_limit() && failed.is_some_and(at_limit)
    }

    /// What the agent said last, in the conversation in hand or before it.
    pub fn last_words(&self) -> Option<&str> {
        let said = |message: &'_ Message| match message {
            Message::Assistant { text, .. } => !text.trim().is_empty(),
            Message::User { .. } | Message::Tool { .. } => false,
        };
        match self.messages.iter().rfind(|message| said(message)) {
            Some(Message::Assistant { text, .. }) => Some(text),
            Some(Message::User { .. } | Message::Tool { .. }) | None => self.said_before.as_deref(),
        }
    }

    pub fn call(&self, id: CallId) -> Option<&Call> {
        self.calls.get((id.0 as usize).checked_sub(1)?)
    }

    /// The call in hand: the first of the current turn that has not ended.
    pub fn open_call(&self) -> Option<&Call> {
        match self.phase {
            Phase::Calling { .. } => {
                self.calls_of_turn(self.calls.last()?).iter().find(|call| !call.has_ended())
            }
            Phase::Idle
            | Phase::Opened
            | Phase::Thinking { .. }
            | Phase::Resting { .. }
            | Phase::Answered { .. }
            | Phase::CutOff { .. }
            | Phase::Examining { .. }
            | Phase::Aside { .. }
            | Phase::AsideResting { .. } => None,
        }
    }

    /// Is that call one of the turn that is being worked through?
    pub(crate) fn is_in_hand(&self, call: &Call) -> bool {
        let place = |call: &Call| (call.step, call.iteration, call.turn);
        matches!(self.phase, Phase::Calling { .. })
            && self.calls.last().is_some_and(|last| place(last) == place(call))
    }

    /// All calls of the turn that asked for `call`, in order. Looks only at the end of the list.
    pub(crate) fn calls_of_turn(&self, call: &Call) -> &[Call] {
        let place = |call: &Call| (call.step, call.iteration, call.turn);
        let same_turn = |other: &&Call| place(other) == place(call);
        let count = self.calls.iter().rev().take_while(same_turn).count();
        &self.calls[self.calls.len() - count..]
    }

    /// The step of that number, also one that gave way to another plan.
    pub fn step_at(&self, number: u32) -> Option<&Step> {
        let number = number as usize;
        match number.checked_sub(STEPS_MAX) {
            Some(place) => self.given_up.get(place),
            None => self.plan.steps.get(number),
        }
    }

    /// Was it asked for in that turn of the conversation in hand?
    pub(crate) fn is_of_turn(&self, call: &Call, turn: u32) -> bool {
        (call.step, call.iteration, call.turn) == (self.current_step, self.iteration, turn)
    }

    pub fn step(&self) -> Option<&Step> {
        self.plan.steps.get(self.current_step as usize)
    }

    /// The number of the turn in hand within its step's conversation, 0 before the first.
    pub fn turn(&self) -> u32 {
        match self.phase {
            Phase::Idle | Phase::Opened => 0,
            Phase::Thinking { turn, .. }
            | Phase::Resting { turn, .. }
            | Phase::Calling { turn }
            | Phase::Answered { turn }
            | Phase::CutOff { turn }
            | Phase::Examining { turn, .. } => turn,
            // The turn after the question has not begun.
            Phase::Aside { turn, .. } | Phase::AsideResting { turn, .. } => turn.saturating_sub(1),
        }
    }

    /// The final answer: what the last completed step said.
    pub fn output(&self) -> Option<&str> {
        self.plan.steps.iter().rev().find_map(|step| step.output.as_deref())
    }

    /// Has a step ended whose work is to be committed and, as far as is known, is not yet?
    pub fn owes_commit(&self) -> bool {
        self.spec.auto_commit == Some(true) && self.plan.completed_count() as u32 > self.kept_steps
    }

    /// What a step is called; nothing if there is none with that number.
    pub fn step_id(&self, step: u32) -> &str {
        self.step_at(step).map_or("", |step| step.id.as_str())
    }

    /// Is it new that the model does not answer? One that is known to be silent is told of once.
    pub fn has_news_of_silence(&self) -> bool {
        self.silence.as_ref().is_none_or(Silence::is_news)
    }

    /// Has the agent asked for anything since the harness last looked at its work?
    pub fn has_called_since_look(&self) -> bool {
        let look = self.examined.as_ref().map(|seen| seen.at);
        self.calls.last().is_some_and(|call| look.is_some_and(|look| call.asked_at > look))
    }

    /// May the run have left something in its workspace? Then an empty one in its place would be a lie.
    pub fn has_worked(&self) -> bool {
        self.turns > 0
    }

    /// The large outputs that are kept beside the journal, by hash.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter_map(Call::outcome).flat_map(|outcome| {
            let whole = outcome.output().and_then(|output| output.blob.as_deref());
            whole.into_iter().chain(outcome.images().iter().map(|image| image.blob.as_str()))
        })
    }

    pub fn gate(&self, number: u32) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.number == number)
    }

    pub fn remaining_calls(&self) -> u32 {
        self.spec.limits.max_tool_calls.saturating_sub(self.ledger().calls)
    }

    /// How long the run has worked, not counting what it was paused or waited for a person.
    pub fn worked_ms(&self, at: Timestamp) -> u64 {
        let now = self.working_since.map_or(0, |since| at.millis_since(since));
        self.worked_ms.saturating_add(now)
    }
}
