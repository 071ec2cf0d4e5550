//! The fold itself: how each event changes a run.

use std::sync::Arc;

use super::{
    Answer, Baseline, Call, CallState, Files, Gate, Older, Pace, Patience, Phase, Resumed, Run, Seen,
    Silence, Spending,
};
use crate::child::{Child, ChildLedger, ChildState, Errand, Origin};
use crate::context;
use crate::conversation::{CallRequest, Message, ModelFailureKind, ProposedCall, Raw, Stop, Usage};
use crate::event::{Aside, Cause, Event, FreshStart, Kept, Purpose, StopAction};
use crate::evidence::Examination;
use crate::ids::{Attempt, CallId, CommandId};
use crate::limits::{self, CHANGED_FILES_MAX};
use crate::policy::Limit;
use crate::prompt;
use crate::status::{Status, Wait};
use crate::time::Timestamp;
use crate::tool::{EffectClass, Outcome};

impl Run {
    pub(super) fn remember(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::RunCreated(_) | Event::Imported { .. } | Event::PlanCompleted => {}
            Event::SetUpStarted { .. } => self.setting_up = true,
            Event::SetUpEnded { error, .. } => self.end_set_up(error.as_ref()),
            Event::StatusChanged { to, cause, reason, .. } => {
                self.change_status(at, *to, *cause, reason.clone())
            }
            Event::CommandApplied { command, .. } | Event::CommandDropped { command, .. } => {
                self.remember_command(command);
            }
            Event::GateChecked { step, .. } => {
                if self.phase == Phase::Idle {
                    self.current_step = *step;
                }
            }
            Event::WaitingForHuman { gate, step, ask, digest } => {
                let (number, step, ask, digest) = (*gate, *step, ask.clone(), digest.clone());
                self.open_gate(Gate { number, step, ask, digest, opened_at: at, answer: None });
            }
            Event::GateAnswered { gate, approved, reason, answer, .. } => {
                let (reason, text) = (reason.clone(), answer.clone());
                self.answer_gate(*gate, Answer { approved: *approved, reason, text, at });
            }
            Event::StepStarted { step } => self.open_step(*step),
            Event::TurnStarted { turn, attempt } => {
                self.silence.take_if(|silence| silence.ended.is_some());
                self.turns = self.turns.saturating_add(u32::from(*attempt == Attempt::FIRST));
                self.phase = Phase::Thinking { turn: *turn, attempt: *attempt };
            }
            Event::ModelReplied { turn, text, calls, usage, raw, stop, window, .. } => {
                self.spend(usage);
                self.reserve = *usage;
                self.silence.iter_mut().for_each(|silence| silence.ended = Some(at));
                let sent = self.fill.bytes;
                self.hear(at, *turn, Heard { text, calls, raw, stop: stop.unwrap_or_default() });
                self.fill.window = window.or(self.fill.window);
                self.fill.count(sent, usage);
            }
            Event::TurnFailed { turn, attempt, retry, kind, until, usage, .. } => {
                let kind = kind.unwrap_or_default();
                usage.iter().for_each(|usage| self.spend(usage));
                self.lose_patience(kind, *until);
                self.fill.overflows =
                    self.fill.overflows.saturating_add(u32::from(kind == ModelFailureKind::Overflow));
                self.fall_silent(at, kind);
                if let Some(rest) = retry {
                    self.patience.switches = 0;
                    self.phase = Phase::Resting { turn: *turn, attempt: *attempt, rest: *rest, kind };
                }
            }
            Event::CallRefused { call, failure, message } => {
                self.end_call(*call, Attempt::FIRST, Outcome::failed(*failure, message.clone()), 1);
            }
            Event::CallStarted { call, attempt, class, traces } => {
                if *class != EffectClass::Repeatable {
                    self.files.touch();
                }
                self.calls_started = self.calls_started.saturating_add(u32::from(*attempt == Attempt::FIRST));
                self.set_call(
                    *call,
                    CallState::Started { attempt: *attempt, class: *class, traces: traces.clone() },
                );
            }
            Event::CallFinished { call, attempt, outcome, duration_us } => {
                // What was stored in the middle of a call is not what it left.
                if !self.call(*call).is_some_and(Call::is_repeatable) {
                    self.files.go_on_changing();
                }
                self.end_call(*call, *attempt, outcome.clone(), *duration_us);
            }
            Event::CallRetryScheduled { call, attempt, message, rest } => {
                let state = CallState::Resting { attempt: *attempt, rest: *rest, message: message.clone() };
                self.set_call(*call, state);
                self.count_failure(*call);
            }
            Event::ToolFailed { .. }
            | Event::LimitReached { .. }
            | Event::TornTailCut { .. }
            | Event::DerivedFailed { .. } => {}
            Event::StepCompleted { step, output } => {
                self.leave_step(*step);
                self.plan.complete(*step as usize, output.clone());
            }
            Event::StepFailed { step, error } => {
                self.leave_step(*step);
                self.plan.fail(*step as usize, error.clone());
                self.error = Some(error.clone());
            }
            Event::Checkpointed { number } => {
                self.checkpoints = *number;
                self.last_checkpoint_at = Some(at);
            }
            Event::Recovered { generation } => {
                self.generation = *generation;
                self.files.lose_sight();
            }
            Event::LimitPassed { limit, .. } => self.warned.push(limit.clone()),
            Event::LimitsChanged { limits } => {
                self.spec.limits = *limits;
                self.warned.clear();
            }
            Event::ChecksChanged { checks } => {
                let conduct = self.spec.conduct.take().unwrap_or_default();
                self.spec.conduct = Some(Box::new(conduct.checked_by(checks.clone())));
            }
            Event::ModelChanged { model, why } => self.change_model(model, why.is_some()),
            Event::SchemaUpgraded { to, .. } => self.schema = Some(*to),
            Event::Contained { by } => self.contained = Some(by.clone()),
            Event::WorkKept { steps, kept } => {
                self.kept_steps = *steps;
                if let Kept::Committed { commit, .. } = kept {
                    self.commits.push(commit.clone());
                }
            }
            Event::FilesStored { stored, moment } => self.files.store(stored, *moment),
            Event::CheckpointNamed { name, .. } | Event::CheckpointGuarded { name, .. } => {
                self.checkpoint_names.push(name.clone());
            }
            Event::AgentStopped { action, why, .. } => {
                if *action == StopAction::Restart {
                    self.resumed.next_note.clone_from(why);
                }
            }
            Event::ExamineStarted { turn, round, attempt, purpose } => {
                self.examinations = *round;
                // Verify commands run what the agent wrote.
                if purpose.is_claim() && self.files != Files::Untouched {
                    self.files.touch();
                }
                let (turn, round, attempt, purpose) = (*turn, *round, *attempt, *purpose);
                self.phase = Phase::Examining { turn, round, attempt, purpose };
            }
            Event::Examined { found, .. } => self.see(at, found),
            Event::IterationStarted { number, why, note } => {
                self.begin_anew(*number, *why, note.as_deref());
            }
            Event::AsideStarted { aside, turn, attempt } => {
                self.phase = Phase::Aside { aside: *aside, turn: *turn, attempt: *attempt };
            }
            Event::AsideEnded { aside, model, text, usage, .. } => {
                usage.iter().for_each(|usage| self.spend_on(model, usage));
                match aside {
                    Aside::Iteration { .. } => self.resumed.next_summary.clone_from(text),
                    Aside::Judgement => self.hear_judge(text.as_deref()),
                    Aside::Compaction { .. } | Aside::Planning { .. } => {}
                }
            }
            Event::Compacted { shortening, futile, tokens_after, .. } => {
                self.messages = Arc::new(context::shortened(&self.messages, shortening, &self.calls));
                self.fill.shrink(&self.messages, *tokens_after);
                self.fill.compactions = self.fill.compactions.saturating_add(1);
                self.fill.futile = if *futile { self.fill.futile.saturating_add(1) } else { 0 };
            }
            Event::DoomLoop { .. } => self.repetitions.push(self.calls.len() as u32),
            Event::LoopChanged { looping } => {
                self.spec.conduct.get_or_insert_default().looping = Some(looping.clone());
            }
            Event::ChildSpawned(errand) => {
                self.files.touch();
                self.send(at, errand);
            }
            Event::ChildRested { number, paused, reason, ledger } => {
                let reason = reason.clone().unwrap_or_default();
                let state = paused.map_or(ChildState::Waiting, |cause| ChildState::Paused { cause, reason });
                self.set_child(*number, state, *ledger);
                // It was told: which model it goes on with from here is its own to find.
                self.children.change(*number, |child| child.model = None);
            }
            Event::ChildResumed { number, limits, model } => {
                self.children.change(*number, |child| {
                    child.state = ChildState::Working;
                    child.errand.limits = limits.unwrap_or(child.errand.limits);
                    child.model = model.clone().or(child.model.take());
                });
            }
            Event::ChildEnded { number, error, ledger } => {
                self.files.go_on_changing();
                self.unseen = true;
                let state = error.clone().map_or(ChildState::Completed, |error| ChildState::Failed { error });
                self.set_child(*number, state, *ledger);
            }
            Event::ChildHeld { number } => self.hold_back(*number),
            Event::PlanMade { plan } => {
                self.plan = plan.clone();
                self.planned = true;
                self.bad_plan = None;
                self.error = None;
                self.phase = Phase::Idle;
                self.current_step = self.current_step.min(plan.steps.len().saturating_sub(1) as u32);
                self.older = Older { gates: self.gates.len(), children: self.children.len() };
            }
            Event::Reopened => {
                self.status = Status::Paused;
                self.cause = Some(Cause::Asked);
                self.reason = Some("it failed, and was given another plan".to_owned());
                self.completed_at = None;
                self.error = None;
            }
            Event::PlanRefused { why } => {
                self.bad_plan = Some(why.clone());
                if self.is_planning() {
                    self.phase = Phase::Idle;
                }
            }
            Event::Told { text } => self.say(Message::User { text: text.clone() }),
            Event::SpentBefore { usage } => {
                self.usage.add(usage);
                // No conversation that is on record: it counts for the run, and for none of its iterations.
                let (step, iteration, model) = (self.current_step, 0, self.spec.model.clone());
                self.spending.insert(0, Spending { step, iteration, model, replies: 0, usage: *usage });
            }
            Event::PersistenceFellBack { reason } => self.fallback = Some(reason.clone()),
        }
    }

    /// Why a run has not begun that was told to; nobody need be there to be told. Once it is mended, that is no longer so.
    fn end_set_up(&mut self, error: Option<&String>) {
        // Who paused or stopped it meanwhile has said why.
        let is_left_off = !std::mem::take(&mut self.setting_up);
        if !is_left_off && (self.status == Status::Created || error.is_some()) {
            self.reason = error.map(|error| format!("its workspace could not be set up: {error}"));
        }
    }

    fn change_status(&mut self, at: Timestamp, to: Status, cause: Cause, reason: Option<String>) {
        self.status = to;
        self.setting_up = false;
        self.stop_the_clock(at);
        if to == Status::Running {
            self.working_since = Some(at);
            // A person has looked: what went wrong before counts no longer.
            self.pace = Pace { tree: self.pace.tree.take(), ..Pace::default() };
            self.repetitions.clear();
            self.fill.futile = 0;
            self.fill.overflows = 0;
        }
        self.model_failures = 0;
        self.patience = Patience { reached: self.patience.reached, ..Patience::default() };
        self.cause = Some(cause);
        self.reason = reason;
        match to {
            Status::Created | Status::Running | Status::Paused => {}
            Status::Completed => self.completed_at = Some(at),
            Status::Failed => {
                self.completed_at = Some(at);
                if self.error.is_none() {
                    self.error.clone_from(&self.reason);
                }
            }
        }
    }

    fn remember_command(&mut self, command: &CommandId) {
        if self.commands.len() == limits::COMMANDS_REMEMBERED_MAX {
            self.commands.pop_front();
        }
        self.commands.push_back(command.clone());
    }

    /// Time counts while somebody works, not while everybody waits for a person.
    pub(super) fn mind_the_clock(&mut self, at: Timestamp) {
        if self.status != Status::Running {
            return;
        }
        if self.wait() == Wait::Human {
            self.stop_the_clock(at);
        } else {
            self.working_since.get_or_insert(at);
        }
    }

    /// What was worked until `at` is counted; what comes after only once the clock is started again.
    pub(super) fn stop_the_clock(&mut self, at: Timestamp) {
        if let Some(since) = self.working_since.take() {
            self.worked_ms = self.worked_ms.saturating_add(at.millis_since(since));
        }
    }

    fn see(&mut self, at: Timestamp, found: &Examination) {
        let Phase::Examining { turn, purpose, .. } = self.phase else { return };
        if purpose == Purpose::Baseline {
            self.phase = Phase::Idle;
            self.pace.tree.clone_from(&found.tree);
            let (protected, commit, tree) =
                (found.baseline.clone(), found.commit.clone(), found.tree.clone());
            self.baseline = Some(Baseline { protected, commit, tree });
            self.feature_list = found.features.as_ref().and_then(|features| features.list.clone());
            return;
        }
        if purpose == Purpose::Whole {
            self.phase = Phase::Idle;
            self.unseen = !found.holds() || self.spec.conduct().judge.is_some();
            self.examined = Some(Seen { at, purpose, found: found.clone() });
            return;
        }
        if purpose == Purpose::Claim && found.holds() && self.spec.conduct().judge.is_none() {
            self.unseen = false;
        }
        self.phase = Phase::Answered { turn };
        // A list that may be half written is not yet the list.
        if let Some(features) = &found.features
            && !matches!(purpose, Purpose::FreshStart { .. })
        {
            self.feature_list = self.feature_list.take().or_else(|| features.list.clone());
        }
        let same = found.tree.is_some() && found.tree == self.pace.tree;
        match purpose {
            Purpose::Claim if !found.holds() => {
                // A tree that cannot be hashed is no sign that anything changed.
                self.pace.refuted =
                    if same || found.tree.is_none() { self.pace.refuted.saturating_add(1) } else { 1 };
            }
            Purpose::Claim
            | Purpose::Stop
            | Purpose::FreshStart { .. }
            | Purpose::Baseline
            | Purpose::Whole => {
                self.pace.refuted = 0;
            }
        }
        self.pace.idle_iterations = if same { self.pace.idle_iterations.saturating_add(1) } else { 0 };
        self.pace.tree.clone_from(&found.tree);
        self.examined = Some(Seen { at, purpose, found: found.clone() });
    }

    fn hear_judge(&mut self, answer: Option<&str>) {
        let Some(opinion) = answer.and_then(prompt::opinion) else { return };
        if opinion.accepted {
            self.unseen = false;
        }
        if self.plan.is_completed() {
            self.phase = Phase::Idle;
            return;
        }
        let tree = self.examined.as_ref().and_then(|seen| seen.found.tree.clone());
        let same = tree.is_none() || tree == self.pace.judged_tree;
        self.pace.judge_refusals = match (opinion.accepted, same) {
            (true, _) => 0,
            (false, true) => self.pace.judge_refusals.saturating_add(1),
            (false, false) => 1,
        };
        self.pace.judged_tree = tree;
    }

    fn begin_anew(&mut self, number: u32, why: FreshStart, note: Option<&str>) {
        self.iteration = number;
        self.phase = Phase::Opened;
        self.cwd = None;
        self.resumed = Resumed {
            handoff: self.examined.as_ref().and_then(|seen| seen.found.handoff.clone()),
            summary: self.resumed.next_summary.take(),
            next_summary: None,
            next_note: None,
        };
        self.messages = Arc::new(vec![Message::User { text: prompt::iteration_text(self, why, note) }]);
        self.fill.recount(&self.messages);
        self.pace.fresh_starts = match why {
            FreshStart::Context | FreshStart::DoomLoop => self.pace.fresh_starts.saturating_add(1),
            // A loop counts its iterations, and has a limit for them.
            FreshStart::Limit if self.spec.conduct().looping.is_none() => {
                self.pace.fresh_starts.saturating_add(1)
            }
            FreshStart::NoPromise | FreshStart::Refuted | FreshStart::Limit => 0,
        };
        self.forget_warnings();
    }

    /// What is counted anew with a conversation is told anew.
    fn forget_warnings(&mut self) {
        let lasts = |name: &String| !name.parse::<Limit>().is_ok_and(Limit::is_of_one_iteration);
        self.warned.retain(lasts);
    }

    fn open_gate(&mut self, gate: Gate) {
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

    fn answer_gate(&mut self, number: u32, answer: Answer) {
        let approved = answer.approved;
        let Some(gate) = self.gates.iter_mut().find(|gate| gate.number == number) else { return };
        gate.answer = Some(answer);
        let Some(call) = gate.ask.as_ref().map(|ask| ask.call) else { return };
        self.set_call(call, CallState::Proposed);
        if let Some(call) = self.call_mut(call) {
            call.granted = approved;
        }
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

    fn send(&mut self, at: Timestamp, errand: &Errand) {
        if let Origin::Step { step } = errand.origin {
            self.plan.start(step as usize);
        }
        self.sub_agents.push(errand.id.to_string());
        let (state, ledger) = (ChildState::Working, ChildLedger::default());
        let child = Child { errand: errand.clone(), spawned_at: at, state, ledger, model: None };
        self.children.push(child);
    }

    /// Nobody was sent after all: there is no run of that name.
    fn hold_back(&mut self, number: u32) {
        let name = self.child(number).map(|child| child.errand.id.to_string());
        self.sub_agents.retain(|id| Some(id) != name.as_ref());
        self.set_child(number, ChildState::Held, ChildLedger::default());
    }

    fn set_child(&mut self, number: u32, state: ChildState, ledger: ChildLedger) {
        self.children.change(number, |child| {
            child.state = state;
            child.ledger = ledger;
        });
    }

    fn open_step(&mut self, step: u32) {
        self.current_step = step;
        self.plan.start(step as usize);
        self.phase = Phase::Opened;
        self.cwd = None;
        self.resumed = Resumed::default();
        self.pace.fresh_starts = 0;
        self.forget_warnings();
        self.messages = Arc::new(vec![Message::User { text: prompt::opening_text(self, step as usize) }]);
        self.fill.recount(&self.messages);
    }

    fn spend(&mut self, usage: &Usage) {
        let model = self.spec.model.clone();
        self.spend_on(&model, usage);
    }

    fn spend_on(&mut self, model: &str, usage: &Usage) {
        self.usage.add(usage);
        let (step, iteration) = (self.current_step, self.iteration);
        let same = |spent: &&mut Spending| {
            (spent.step, spent.iteration, spent.model.as_str()) == (step, iteration, model)
        };
        match self.spending.iter_mut().rev().find(same) {
            Some(spent) => {
                spent.replies = spent.replies.saturating_add(1);
                spent.usage.add(usage);
            }
            None => {
                let model = model.to_owned();
                self.spending.push(Spending { step, iteration, model, replies: 1, usage: *usage });
            }
        }
    }

    fn change_model(&mut self, model: &str, by_itself: bool) {
        model.clone_into(&mut self.spec.model);
        self.fill.window = None;
        self.fill.counted = None;
        self.reserve = Usage::default();
        self.patience.failures = 0;
        self.patience.reached &= by_itself;
        self.patience.switches = self.patience.switches.saturating_add(u32::from(by_itself));
        if let Some(silence) = self.silence.as_mut().filter(|_| by_itself) {
            silence.tell(format!("to {model}"));
        }
    }

    fn lose_patience(&mut self, kind: ModelFailureKind, until: Option<Timestamp>) {
        let model = &self.spec.model;
        self.patience.held.retain(|(held, _)| held != model);
        self.patience.held.extend(until.map(|until| (model.clone(), until)));
        if kind.is_lasting() && !self.patience.unusable.contains(model) {
            self.patience.unusable.push(model.clone());
        }
        self.model_failures = self.model_failures.saturating_add(1);
        self.patience.failures = self.patience.failures.saturating_add(1);
        self.patience.broken =
            self.patience.broken.saturating_add(u32::from(kind == ModelFailureKind::Broken));
        self.patience.reached |= kind != ModelFailureKind::Unreachable;
    }

    fn fall_silent(&mut self, at: Timestamp, kind: ModelFailureKind) {
        let silence = self.silence.get_or_insert_with(|| Silence {
            since: at,
            told: Vec::new(),
            news: false,
            ended: None,
        });
        silence.tell(format!("{} {}", self.spec.model, kind.words()));
    }

    fn hear(&mut self, at: Timestamp, turn: u32, heard: Heard<'_>) {
        // What was refused or had no room says nothing that the conversation could go on from: the turn is asked again.
        if matches!(heard.stop, Stop::Refused | Stop::Overflow) {
            return;
        }
        let cut_off = heard.stop == Stop::Length && heard.calls.is_empty();
        let is_empty = heard.calls.is_empty() && heard.text.trim().is_empty();
        self.pace.empty_replies = if is_empty { self.pace.empty_replies.saturating_add(1) } else { 0 };
        self.model_failures = 0;
        let cut_off_before = self.patience.cut_off;
        let unusable = std::mem::take(&mut self.patience.unusable);
        self.patience = Patience { reached: true, unusable, ..Patience::default() };
        let mut requests = Vec::with_capacity(heard.calls.len());
        for call in heard.calls {
            requests.push(self.propose(at, turn, call));
        }
        self.phase = match (heard.calls.is_empty(), cut_off) {
            (false, _) => Phase::Calling { turn },
            (true, false) => Phase::Answered { turn },
            (true, true) => Phase::CutOff { turn },
        };
        // A message without content is refused by providers, and says nothing.
        if !is_empty {
            let (text, raw) = (heard.text.to_owned(), heard.raw.clone().map(Box::new));
            self.say(Message::Assistant { text, calls: requests, raw });
        }
        if cut_off {
            self.patience.cut_off = cut_off_before.saturating_add(1);
            self.say(Message::User { text: prompt::GO_ON.to_owned() });
        }
    }

    fn propose(&mut self, at: Timestamp, turn: u32, call: &ProposedCall) -> CallRequest {
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

    fn end_call(&mut self, id: CallId, attempt: Attempt, outcome: Outcome, duration_us: u64) {
        if let Some(cwd) = outcome.output().and_then(|output| output.cwd.clone()) {
            self.cwd = Some(cwd).filter(|cwd| !cwd.is_empty());
        }
        if outcome.is_done() {
            self.remember_changes(id);
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

    fn set_call(&mut self, id: CallId, state: CallState) {
        if let Some(call) = self.call_mut(id) {
            call.state = state;
        }
    }

    fn count_failure(&mut self, id: CallId) {
        if let Some(call) = self.call_mut(id) {
            call.failures = call.failures.saturating_add(1);
        }
    }

    fn call_mut(&mut self, id: CallId) -> Option<&mut Call> {
        self.calls.get_mut((id.0 as usize).checked_sub(1)?)
    }

    /// Adds to the conversation in place: requests that shared it have been answered by now.
    fn say(&mut self, message: Message) {
        self.has_images |= matches!(&message, Message::Tool { images, .. } if !images.is_empty());
        self.fill.bytes = self.fill.bytes.saturating_add(context::bytes(&message));
        Arc::make_mut(&mut self.messages).push(message);
    }
}

/// A reply as the conversation takes it in.
struct Heard<'a> {
    text: &'a str,
    calls: &'a [ProposedCall],
    raw: &'a Option<Raw>,
    stop: Stop,
}
