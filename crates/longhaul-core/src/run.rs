//! One run: the fold of its events. Nothing here decides; `apply` only remembers.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::context::{self, Fill};
use crate::conversation::{CallRequest, Message, ModelFailureKind, ProposedCall, Raw, Stop, Usage};
use crate::document;
use crate::event::{Aside, Ask, Cause, Event, FreshStart, Purpose, Rest, StopAction};
use crate::evidence::Examination;
use crate::ids::{Attempt, CallId, CommandId};
use crate::json::Json;
use crate::limits::{self, CHANGED_FILES_MAX};
use crate::plan::{Plan, Step};
use crate::prompt;
use crate::spec::RunSpec;
use crate::status::{Status, Wait};
use crate::time::Timestamp;
use crate::tool::{EffectClass, Outcome, Trace};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    pub spec: RunSpec,
    /// Number of the last event folded in.
    #[serde(skip)]
    pub seq: u64,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    pub status: Status,
    pub cause: Option<Cause>,
    pub reason: Option<String>,
    pub error: Option<String>,
    pub plan: Plan,
    /// The step in hand, or the last one that was.
    pub current_step: u32,
    pub phase: Phase,
    /// What was said in the current step. Shared with requests under way, never copied while they last.
    pub messages: Arc<Vec<Message>>,
    /// Which conversation of the step this is, counted from 1 over the whole run.
    #[serde(default = "first_iteration")]
    pub iteration: u32,
    #[serde(default)]
    pub fill: Fill,
    #[serde(default)]
    pub pace: Pace,
    /// What the conversation in hand was given of the one before it.
    #[serde(default)]
    pub resumed: Resumed,
    /// What the harness last saw of the work, and when.
    #[serde(default)]
    pub examined: Option<Seen>,
    #[serde(default)]
    pub examinations: u32,
    /// What the work began with.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// The blob of the list of features as it was first seen.
    #[serde(default)]
    pub feature_list: Option<String>,
    /// Files that calls have changed, oldest first.
    #[serde(default)]
    pub changed_files: Vec<String>,
    /// How many calls there were each time the agent was found going in circles, since a person last started it.
    #[serde(default)]
    pub repetitions: Vec<u32>,
    /// How long the run worked before `working_since`.
    #[serde(default)]
    pub worked_ms: u64,
    #[serde(default)]
    pub working_since: Option<Timestamp>,
    pub calls: Vec<Call>,
    /// Calls that reached execution; what the budget counts.
    pub calls_started: u32,
    /// Turns begun over the whole run.
    pub turns: u32,
    /// How often the model failed since it last answered or the run was last started; what waits and limits go by.
    #[serde(default)]
    pub model_failures: u32,
    #[serde(default)]
    pub patience: Patience,
    /// The last time the model did not answer, until the turn after it did.
    #[serde(default)]
    pub silence: Option<Silence>,
    pub usage: Usage,
    /// What the last reply of the model in use took: so much is set aside before the next question.
    #[serde(default)]
    pub reserve: Usage,
    /// What was used, by step, iteration and model.
    #[serde(default)]
    pub spending: Vec<Spending>,
    pub gates: Vec<Gate>,
    pub checkpoints: u32,
    pub last_checkpoint_at: Option<Timestamp>,
    pub generation: u64,
    pub fallback: Option<String>,
    pub commands: VecDeque<CommandId>,
    pub sub_agents: Vec<String>,
    /// The schema the journal was last taken over in, if it began in an older one.
    #[serde(skip)]
    pub schema: Option<u16>,
    /// Where in the workspace the next command begins, if not at its root.
    #[serde(skip)]
    pub cwd: Option<String>,
    /// What holds the agent's commands, as the last process that drove the run has found it.
    #[serde(skip)]
    pub contained: Option<String>,
    /// The document this run was imported from, for the fields only others understand.
    #[serde(skip)]
    pub imported: Option<Json>,
    /// Number of the event that imported it; later events make the run differ from the document.
    #[serde(skip)]
    pub imported_seq: u64,
}

/// How the model in use has been behaving; what decides between waiting, another model, and a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Patience {
    /// Failures of the model in use since it answered or was switched to.
    pub failures: u32,
    /// Replies since the last whole one that began and broke off: each may have cost money.
    pub broken: u32,
    /// Models switched to since the last answer or rest.
    pub switches: u32,
    /// Replies in a row that ran into the limit of output tokens and asked for nothing.
    pub cut_off: u32,
    /// Has the model in use ever answered, even if only to refuse?
    pub reached: bool,
    /// Models that only a person can make usable again.
    pub unusable: Vec<String>,
    /// Models that asked to be left alone, and until when.
    pub held: Vec<(String, Timestamp)>,
}

/// What an agent does without getting anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pace {
    /// Replies in a row with neither a word nor a call.
    pub empty_replies: u32,
    /// Claims in a row that this tree is done, all refuted.
    pub refuted: u32,
    /// Iterations in a row that left the tree as it was.
    pub idle_iterations: u32,
    /// Times in a row that a judge refused one and the same tree.
    pub judge_refusals: u32,
    pub judged_tree: Option<String>,
    /// Conversations begun anew in this step since a person last started the run.
    pub fresh_starts: u32,
    /// The tree when the last iteration ended, or the last claim was refuted.
    pub tree: Option<String>,
}

/// What goes from one conversation to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resumed {
    pub handoff: Option<String>,
    pub summary: Option<String>,
    /// A summary that waits for the next conversation, and what that one is told.
    pub next_summary: Option<String>,
    pub next_note: Option<String>,
}

/// What a run's work began with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Baseline {
    /// The blob that says how protected files were.
    pub protected: Option<String>,
    pub commit: Option<String>,
    pub tree: Option<String>,
}

/// One look at the work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seen {
    pub at: Timestamp,
    pub purpose: Purpose,
    #[serde(flatten)]
    pub found: Examination,
}

/// A time without an answer. Its beginning, every change of its kind, and its end are news; the failures in between are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Silence {
    pub since: Timestamp,
    /// What was told of it: which model failed how, and which was tried instead.
    pub told: Vec<String>,
    /// Did the last event of it tell anything new?
    pub news: bool,
    pub ended: Option<Timestamp>,
}

impl Silence {
    pub fn is_news(&self) -> bool {
        self.news
    }

    fn tell(&mut self, what: String) {
        self.news = !self.told.contains(&what);
        if self.news {
            self.told.push(what);
        }
    }
}

/// What one model was given and gave in one iteration of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spending {
    pub step: u32,
    pub iteration: u32,
    pub model: String,
    /// Replies that were paid for.
    pub replies: u32,
    pub usage: Usage,
}

/// Where in its current step a running run stands. Survives pausing unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "at", rename_all = "snake_case")]
pub enum Phase {
    /// Between steps: before the first, after the last, or after one and before the next.
    Idle,
    /// Before a step, at a person's gate.
    Gated {
        gate: u32,
    },
    /// The step may begin: its gate is checked or was approved.
    Cleared,
    /// The step has begun; no turn has.
    Opened,
    Thinking {
        turn: u32,
        attempt: Attempt,
    },
    /// The model did not answer; waiting to ask again.
    Resting {
        turn: u32,
        attempt: Attempt,
        rest: Rest,
        #[serde(default)]
        kind: ModelFailureKind,
    },
    /// Working through the calls of a turn, in order.
    Calling {
        turn: u32,
    },
    /// The model gave its final answer for the step.
    Answered {
        turn: u32,
    },
    /// The model's words ran into the limit of output tokens; it is asked to go on.
    CutOff {
        turn: u32,
    },
    /// The harness looks at the work.
    Examining {
        turn: u32,
        round: u32,
        attempt: Attempt,
        purpose: Purpose,
    },
    /// Something is asked beside the conversation, before `turn`.
    Aside {
        aside: Aside,
        turn: u32,
        attempt: Attempt,
    },
}

fn first_iteration() -> u32 {
    1
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Call {
    pub id: CallId,
    pub step: u32,
    #[serde(default = "first_iteration")]
    pub iteration: u32,
    pub turn: u32,
    pub tool: String,
    pub args: Json,
    pub asked_at: Timestamp,
    /// Why its arguments cannot be read, if they cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malformed: Option<String>,
    /// A person has given leave for exactly this call.
    #[serde(default)]
    pub granted: bool,
    /// The attempt that comes next while none is under way.
    #[serde(default = "Attempt::first")]
    pub next: Attempt,
    /// How often it failed and was to be tried again. Attempts also count what crashes cut short.
    #[serde(default)]
    pub failures: u32,
    pub state: CallState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum CallState {
    /// Asked for by the model; nothing has begun.
    Proposed,
    /// A person is asked, at that gate.
    Asking {
        gate: u32,
    },
    /// Its intent is on disk. It may be under way, or its process may have died.
    Started {
        attempt: Attempt,
        class: EffectClass,
        #[serde(default)]
        traces: Vec<Trace>,
    },
    Resting {
        attempt: Attempt,
        rest: Rest,
        message: String,
    },
    Ended {
        attempt: Attempt,
        outcome: Outcome,
        duration_us: u64,
    },
}

/// A wait for a person before a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Gate {
    pub number: u32,
    pub step: u32,
    /// What a call asks; nothing if the step itself waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    pub opened_at: Timestamp,
    pub answer: Option<Answer>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    pub approved: bool,
    pub reason: Option<String>,
    /// What was said to a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    pub at: Timestamp,
}

/// An event that cannot follow what came before: the journal was not written by this machine's rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} does not fit the run: {why}")]
pub struct Misfit {
    pub seq: u64,
    pub why: String,
}

impl Run {
    /// The run its first event makes.
    pub fn first(seq: u64, at: Timestamp, event: &Event) -> Result<Run, Misfit> {
        if let Event::RunCreated(spec) = event {
            return Ok(Run::created(seq, at, spec));
        }
        let Event::Imported { document, spec } = event else {
            return Err(Misfit { seq, why: format!("a journal cannot begin with kind {}", event.kind()) });
        };
        document::restore(document, spec, at)
            .map(|run| Run { seq, imported: Some(document.clone()), imported_seq: seq, ..run })
            .map_err(|error| Misfit { seq, why: error.to_string() })
    }

    pub(crate) fn created(seq: u64, at: Timestamp, spec: &RunSpec) -> Run {
        Run {
            plan: spec.plan.clone(),
            spec: spec.clone(),
            seq,
            created_at: at,
            updated_at: at,
            completed_at: None,
            status: Status::Created,
            cause: None,
            reason: None,
            error: None,
            current_step: 0,
            phase: Phase::Idle,
            messages: Arc::new(Vec::new()),
            iteration: 1,
            fill: Fill::default(),
            pace: Pace::default(),
            resumed: Resumed::default(),
            examined: None,
            examinations: 0,
            baseline: None,
            feature_list: None,
            changed_files: Vec::new(),
            repetitions: Vec::new(),
            worked_ms: 0,
            working_since: None,
            calls: Vec::new(),
            calls_started: 0,
            turns: 0,
            model_failures: 0,
            patience: Patience::default(),
            silence: None,
            usage: Usage::default(),
            reserve: Usage::default(),
            spending: Vec::new(),
            gates: Vec::new(),
            checkpoints: 0,
            last_checkpoint_at: None,
            generation: 0,
            fallback: None,
            commands: VecDeque::new(),
            sub_agents: Vec::new(),
            schema: None,
            cwd: None,
            contained: None,
            imported: None,
            imported_seq: 0,
        }
    }

    /// Folds one event in. An event that does not fit changes nothing.
    pub fn apply(&mut self, seq: u64, at: Timestamp, event: &Event) -> Result<(), Misfit> {
        self.check_fit(event).map_err(|why| Misfit { seq, why })?;
        self.seq = seq;
        if matches!(event, Event::Recovered { .. }) {
            // Nobody worked between the last sign of the old process and this one.
            self.stop_the_clock(self.updated_at);
            self.working_since = Some(at);
        }
        self.updated_at = at;
        self.remember(at, event);
        Ok(())
    }

    pub fn wait(&self) -> Wait {
        match (self.status, &self.phase) {
            (Status::Running, Phase::Gated { .. }) => Wait::Human,
            (Status::Running, Phase::Resting { kind: ModelFailureKind::RateLimited, .. }) => Wait::RateLimit,
            (Status::Running, Phase::Resting { .. }) => Wait::Timer,
            (Status::Running, Phase::Calling { .. }) => match self.open_call().map(|call| &call.state) {
                Some(CallState::Resting { .. }) => Wait::Timer,
                Some(CallState::Asking { .. }) => Wait::Human,
                Some(CallState::Proposed | CallState::Started { .. } | CallState::Ended { .. }) | None => {
                    Wait::None
                }
            },
            (Status::Created | Status::Paused | Status::Completed | Status::Failed | Status::Running, _) => {
                Wait::None
            }
        }
    }

    /// When a wait for time is over, if the run is in one.
    pub fn wake_at(&self) -> Option<Timestamp> {
        if self.status != Status::Running {
            return None;
        }
        match (&self.phase, self.open_call().map(|call| &call.state)) {
            (Phase::Resting { rest, .. }, _) | (_, Some(CallState::Resting { rest, .. })) => Some(rest.until),
            (_, _) => None,
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
            | Phase::Gated { .. }
            | Phase::Cleared
            | Phase::Opened
            | Phase::Thinking { .. }
            | Phase::Resting { .. }
            | Phase::Answered { .. }
            | Phase::CutOff { .. }
            | Phase::Examining { .. }
            | Phase::Aside { .. } => None,
        }
    }

    /// All calls of the turn that asked for `call`, in order. Looks only at the end of the list.
    pub(crate) fn calls_of_turn(&self, call: &Call) -> &[Call] {
        let place = |call: &Call| (call.step, call.iteration, call.turn);
        let same_turn = |other: &&Call| place(other) == place(call);
        let count = self.calls.iter().rev().take_while(same_turn).count();
        &self.calls[self.calls.len() - count..]
    }

    pub fn step(&self) -> Option<&Step> {
        self.plan.steps.get(self.current_step as usize)
    }

    /// The number of the turn in hand within its step's conversation, 0 before the first.
    pub fn turn(&self) -> u32 {
        match self.phase {
            Phase::Idle | Phase::Gated { .. } | Phase::Cleared | Phase::Opened => 0,
            Phase::Thinking { turn, .. }
            | Phase::Resting { turn, .. }
            | Phase::Calling { turn }
            | Phase::Answered { turn }
            | Phase::CutOff { turn }
            | Phase::Examining { turn, .. } => turn,
            // The turn after the question has not begun.
            Phase::Aside { turn, .. } => turn.saturating_sub(1),
        }
    }

    /// The final answer: what the last completed step said.
    pub fn output(&self) -> Option<&str> {
        self.plan.steps.iter().rev().find_map(|step| step.output.as_deref())
    }

    /// May the run have left something in its workspace? Then an empty one in its place would be a lie.
    pub fn has_worked(&self) -> bool {
        self.turns > 0
    }

    /// The large outputs that are kept beside the journal, by hash.
    pub fn blobs(&self) -> impl Iterator<Item = &str> {
        self.calls.iter().filter_map(|call| match call.outcome()? {
            Outcome::Done { output } | Outcome::Failed { output, .. } => output.blob.as_deref(),
            Outcome::Unknown { .. } => None,
        })
    }

    pub fn gate(&self, number: u32) -> Option<&Gate> {
        self.gates.iter().find(|gate| gate.number == number)
    }

    pub fn remaining_calls(&self) -> u32 {
        self.spec.limits.max_tool_calls.saturating_sub(self.calls_started)
    }

    fn check_fit(&self, event: &Event) -> Result<(), String> {
        let step_exists = |step: u32| match self.plan.steps.get(step as usize) {
            Some(_) => Ok(()),
            None => Err(format!("there is no step {step}")),
        };
        match event {
            Event::RunCreated(_) | Event::Imported { .. } => Err("a run begins only once".to_owned()),
            Event::StatusChanged { from, to, .. } => {
                if *from == self.status && from.may_become(*to) {
                    Ok(())
                } else {
                    Err(format!("a change {from} → {to} of a run that is {}", self.status))
                }
            }
            Event::GateChecked { step, .. }
            | Event::WaitingForHuman { step, .. }
            | Event::StepStarted { step }
            | Event::StepCompleted { step, .. }
            | Event::StepFailed { step, .. } => step_exists(*step),
            Event::CallRefused { call, .. }
            | Event::CallStarted { call, .. }
            | Event::CallFinished { call, .. }
            | Event::CallRetryScheduled { call, .. } => match self.call(*call) {
                Some(known) if !known.has_ended() => Ok(()),
                Some(_) => Err(format!("{call} has already ended")),
                None => Err(format!("there is no {call}")),
            },
            Event::ToolFailed { call, .. } => match self.call(*call) {
                Some(_) => Ok(()),
                None => Err(format!("there is no {call}")),
            },
            Event::GateAnswered { gate, .. } => match self.gate(*gate) {
                Some(known) if known.answer.is_none() => Ok(()),
                Some(_) => Err(format!("gate {gate} was answered before")),
                None => Err(format!("there is no gate {gate}")),
            },
            Event::CommandApplied { .. }
            | Event::CommandDropped { .. }
            | Event::TurnStarted { .. }
            | Event::ModelReplied { .. }
            | Event::TurnFailed { .. }
            | Event::PlanCompleted
            | Event::Checkpointed { .. }
            | Event::Recovered { .. }
            | Event::LimitReached { .. }
            | Event::LimitsChanged { .. }
            | Event::ModelChanged { .. }
            | Event::SchemaUpgraded { .. }
            | Event::Contained { .. }
            | Event::AgentStopped { .. }
            | Event::ExamineStarted { .. }
            | Event::Examined { .. }
            | Event::IterationStarted { .. }
            | Event::AsideStarted { .. }
            | Event::AsideEnded { .. }
            | Event::Compacted { .. }
            | Event::DoomLoop { .. }
            | Event::LoopChanged { .. }
            | Event::Told { .. }
            | Event::PersistenceFellBack { .. } => Ok(()),
        }
    }

    fn remember(&mut self, at: Timestamp, event: &Event) {
        match event {
            Event::RunCreated(_) | Event::Imported { .. } | Event::PlanCompleted => {}
            Event::StatusChanged { to, cause, reason, .. } => {
                self.change_status(at, *to, *cause, reason.clone())
            }
            Event::CommandApplied { command, .. } | Event::CommandDropped { command, .. } => {
                self.remember_command(command);
            }
            Event::GateChecked { step, required } => {
                self.current_step = *step;
                self.phase = if *required { Phase::Idle } else { Phase::Cleared };
            }
            Event::WaitingForHuman { gate, step, ask } => self.open_gate(at, *gate, *step, ask),
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
                self.calls_started = self.calls_started.saturating_add(u32::from(*attempt == Attempt::FIRST));
                self.set_call(
                    *call,
                    CallState::Started { attempt: *attempt, class: *class, traces: traces.clone() },
                );
            }
            Event::CallFinished { call, attempt, outcome, duration_us } => {
                self.end_call(*call, *attempt, outcome.clone(), *duration_us);
            }
            Event::CallRetryScheduled { call, attempt, message, rest } => {
                let state = CallState::Resting { attempt: *attempt, rest: *rest, message: message.clone() };
                self.set_call(*call, state);
                self.count_failure(*call);
            }
            Event::ToolFailed { .. } | Event::LimitReached { .. } => {}
            Event::StepCompleted { step, output } => {
                self.plan.complete(*step as usize, output.clone());
                self.phase = Phase::Idle;
            }
            Event::StepFailed { step, error } => {
                self.plan.fail(*step as usize, error.clone());
                self.error = Some(error.clone());
                self.phase = Phase::Idle;
            }
            Event::Checkpointed { number } => {
                self.checkpoints = *number;
                self.last_checkpoint_at = Some(at);
            }
            Event::Recovered { generation } => self.generation = *generation,
            Event::LimitsChanged { limits } => self.spec.limits = *limits,
            Event::ModelChanged { model, why } => self.change_model(model, why.is_some()),
            Event::SchemaUpgraded { to, .. } => self.schema = Some(*to),
            Event::Contained { by } => self.contained = Some(by.clone()),
            Event::AgentStopped { action, why, .. } => {
                if *action == StopAction::Restart {
                    self.resumed.next_note.clone_from(why);
                }
            }
            Event::ExamineStarted { turn, round, attempt, purpose } => {
                self.examinations = *round;
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
                    Aside::Compaction { .. } => {}
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
            Event::Told { text } => self.say(Message::User { text: text.clone() }),
            Event::PersistenceFellBack { reason } => self.fallback = Some(reason.clone()),
        }
    }

    fn change_status(&mut self, at: Timestamp, to: Status, cause: Cause, reason: Option<String>) {
        self.status = to;
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

    /// What was worked until `at` is counted; what comes after only once the clock is started again.
    fn stop_the_clock(&mut self, at: Timestamp) {
        if let Some(since) = self.working_since.take() {
            self.worked_ms = self.worked_ms.saturating_add(at.millis_since(since));
        }
    }

    /// How long the run has worked, not counting what it was paused or waited for a person.
    pub fn worked_ms(&self, at: Timestamp) -> u64 {
        let now = self.working_since.map_or(0, |since| at.millis_since(since));
        self.worked_ms.saturating_add(now)
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
            Purpose::Claim | Purpose::Stop | Purpose::FreshStart { .. } | Purpose::Baseline => {
                self.pace.refuted = 0;
            }
        }
        self.pace.idle_iterations = if same { self.pace.idle_iterations.saturating_add(1) } else { 0 };
        self.pace.tree.clone_from(&found.tree);
        self.examined = Some(Seen { at, purpose, found: found.clone() });
    }

    fn hear_judge(&mut self, answer: Option<&str>) {
        let Some(opinion) = answer.and_then(prompt::opinion) else { return };
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
            FreshStart::NoPromise | FreshStart::Refuted => 0,
        };
    }

    fn open_gate(&mut self, at: Timestamp, number: u32, step: u32, ask: &Option<Ask>) {
        self.stop_the_clock(at);
        self.gates.push(Gate { number, step, ask: ask.clone(), opened_at: at, answer: None });
        match ask {
            Some(ask) => {
                if let Some(call) = self.call_mut(ask.call)
                    && let CallState::Started { attempt, .. } = call.state
                {
                    call.next = attempt.next();
                }
                self.set_call(ask.call, CallState::Asking { gate: number });
            }
            None => self.phase = Phase::Gated { gate: number },
        }
    }

    fn answer_gate(&mut self, number: u32, answer: Answer) {
        let approved = answer.approved;
        if self.status == Status::Running {
            self.working_since = Some(answer.at);
        }
        let Some(gate) = self.gates.iter_mut().find(|gate| gate.number == number) else { return };
        gate.answer = Some(answer);
        match gate.ask.as_ref().map(|ask| ask.call) {
            None => self.phase = if approved { Phase::Cleared } else { Phase::Idle },
            Some(call) => {
                self.set_call(call, CallState::Proposed);
                if let Some(call) = self.call_mut(call) {
                    call.granted = approved;
                }
            }
        }
    }

    fn open_step(&mut self, step: u32) {
        self.current_step = step;
        self.plan.start(step as usize);
        self.phase = Phase::Opened;
        self.cwd = None;
        self.resumed = Resumed::default();
        self.pace.fresh_starts = 0;
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
            let (text, raw) = (heard.text.to_owned(), heard.raw.clone());
            self.say(Message::Assistant { text, calls: requests, raw });
        }
        if cut_off {
            self.patience.cut_off = cut_off_before.saturating_add(1);
            self.say(Message::User { text: prompt::GO_ON.to_owned() });
        }
    }

    fn propose(&mut self, at: Timestamp, turn: u32, call: &ProposedCall) -> CallRequest {
        let id = CallId(self.calls.len() as u32 + 1);
        self.calls.push(Call {
            id,
            step: self.current_step,
            iteration: self.iteration,
            turn,
            tool: call.tool.clone(),
            args: call.args.clone(),
            asked_at: at,
            malformed: call.malformed.clone(),
            granted: false,
            next: Attempt::FIRST,
            failures: 0,
            state: CallState::Proposed,
        });
        CallRequest {
            id,
            tool: call.tool.clone(),
            args: call.args.clone(),
            provider_id: call.provider_id.clone(),
        }
    }

    fn end_call(&mut self, id: CallId, attempt: Attempt, outcome: Outcome, duration_us: u64) {
        if let Some(cwd) = outcome.output().and_then(|output| output.cwd.clone()) {
            self.cwd = Some(cwd).filter(|cwd| !cwd.is_empty());
        }
        if outcome.is_done() {
            self.remember_changes(id);
        }
        self.say(Message::Tool { call: id, failed: !outcome.is_done(), text: outcome.for_model() });
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

impl Call {
    pub fn has_ended(&self) -> bool {
        matches!(self.state, CallState::Ended { .. })
    }

    /// The attempt last begun; the first if none was.
    pub fn attempt(&self) -> Attempt {
        match &self.state {
            CallState::Proposed | CallState::Asking { .. } => Attempt::FIRST,
            CallState::Started { attempt, .. }
            | CallState::Resting { attempt, .. }
            | CallState::Ended { attempt, .. } => *attempt,
        }
    }

    pub fn outcome(&self) -> Option<&Outcome> {
        match &self.state {
            CallState::Ended { outcome, .. } => Some(outcome),
            CallState::Proposed
            | CallState::Asking { .. }
            | CallState::Started { .. }
            | CallState::Resting { .. } => None,
        }
    }

    /// How long the call took, in milliseconds; always more than nothing.
    pub fn duration_ms(&self) -> Option<f64> {
        match &self.state {
            CallState::Ended { duration_us, .. } => Some((*duration_us).max(1) as f64 / 1000.0),
            CallState::Proposed
            | CallState::Asking { .. }
            | CallState::Started { .. }
            | CallState::Resting { .. } => None,
        }
    }

    pub fn traces(&self) -> &[Trace] {
        match &self.state {
            CallState::Started { traces, .. } => traces,
            CallState::Proposed
            | CallState::Asking { .. }
            | CallState::Resting { .. }
            | CallState::Ended { .. } => &[],
        }
    }
}
