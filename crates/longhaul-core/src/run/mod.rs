//! One run: the fold of its events. Nothing here decides; `apply` only remembers.

mod apply;
mod call;
mod files;
mod fit;

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::call::{Call, CallState};
pub use self::files::Files;

use crate::child::{Child, ChildLedger, ChildState, Children, Origin};
use crate::context::Fill;
use crate::conversation::{Message, ModelFailureKind, Usage};
use crate::document;
use crate::event::{Aside, Ask, Cause, Event, Purpose, Rest};
use crate::evidence::Examination;
use crate::ids::{Attempt, CallId, CommandId};
use crate::json::Json;
use crate::plan::{BadPlan, Plan, Step};
use crate::spec::RunSpec;
use crate::status::{Status, Wait};
use crate::time::Timestamp;

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
    /// Has somebody else left work that nobody has looked at together with the rest?
    #[serde(default)]
    pub unseen: bool,
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
    /// Limits that were reached and only warn, so that each is told once.
    #[serde(default)]
    pub warned: Vec<String>,
    pub gates: Vec<Gate>,
    pub checkpoints: u32,
    pub last_checkpoint_at: Option<Timestamp>,
    pub generation: u64,
    pub fallback: Option<String>,
    pub commands: VecDeque<CommandId>,
    pub sub_agents: Vec<String>,
    /// The runs it started, in order.
    #[serde(default)]
    pub children: Children,
    /// What was wrong with the last thing given for a plan.
    #[serde(default)]
    pub bad_plan: Option<String>,
    /// Is the plan the one to work by? Not if it is still to be made.
    #[serde(default = "from_the_start")]
    pub planned: bool,
    /// How many gates and children there were when the plan was made: what is older was about another plan.
    #[serde(default)]
    pub older: Older,
    /// The schema the journal was last taken over in, if it began in an older one.
    #[serde(skip)]
    pub schema: Option<u16>,
    /// Where in the workspace the next command begins, if not at its root.
    #[serde(skip)]
    pub cwd: Option<String>,
    /// What holds the agent's commands, as the last process that drove the run has found it.
    #[serde(skip)]
    pub contained: Option<String>,
    /// Is its workspace being prepared, as far as is known? Whoever does that can be asked to leave off.
    #[serde(skip)]
    pub setting_up: bool,
    /// After how many completed steps the work was last kept.
    #[serde(skip)]
    pub kept_steps: u32,
    /// Has a tool ever shown an image? Only then is a long conversation looked through for those it still has.
    #[serde(skip)]
    pub has_images: bool,
    /// What is on record of the files in its workspace.
    #[serde(default)]
    pub files: Files,
    /// The names that checkpoints were given, in order.
    #[serde(default)]
    pub checkpoint_names: Vec<String>,
    /// The commits that were made of its work, oldest first.
    #[serde(skip)]
    pub commits: Vec<String>,
    /// The document this run was imported from, for the fields only others understand.
    #[serde(skip)]
    pub imported: Option<Json>,
    /// How many events of the decision in the making it has in it already; only where it is thought ahead.
    #[serde(skip)]
    pub ahead: usize,
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

/// What belongs to a plan that gave way to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Older {
    pub gates: usize,
    pub children: usize,
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
    /// No step in hand: before the first, after the last, or while others are waited for.
    #[serde(alias = "gated", alias = "cleared")]
    Idle,
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

/// Before there were planners, every run had its plan.
fn from_the_start() -> bool {
    true
}

fn first_iteration() -> u32 {
    1
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
    /// Of what the step will be, if it waits itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
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

impl Gate {
    /// Of exactly what is asked about.
    pub fn digest(&self) -> Option<&str> {
        self.ask.as_ref().map(|ask| ask.digest.as_str()).or(self.digest.as_deref())
    }
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
            unseen: false,
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
            warned: Vec::new(),
            gates: Vec::new(),
            checkpoints: 0,
            last_checkpoint_at: None,
            generation: 0,
            fallback: None,
            commands: VecDeque::new(),
            sub_agents: Vec::new(),
            children: Children::default(),
            bad_plan: None,
            planned: spec.planner.is_none(),
            older: Older::default(),
            schema: None,
            cwd: None,
            contained: None,
            setting_up: false,
            kept_steps: 0,
            has_images: false,
            files: Files::Untouched,
            checkpoint_names: Vec::new(),
            commits: Vec::new(),
            imported: None,
            imported_seq: 0,
            ahead: 0,
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
        self.mind_the_clock(at);
        Ok(())
    }

    /// May these events follow, one after another, as far as the run's status goes? Asked before they are written: a journal that
    /// cannot be read is worse than a run that stops.
    pub fn check_batch(&self, events: &[Event]) -> Result<(), Misfit> {
        let mut status = self.status;
        for event in events {
            if let Event::StatusChanged { from, to, .. } = event {
                if *from != status || !from.may_become(*to) {
                    let why = format!("a change {from} → {to} of a run that is {status}");
                    return Err(Misfit { seq: self.seq + 1, why });
                }
                status = *to;
            }
            if *event == Event::Reopened {
                status = Status::Paused;
            }
        }
        Ok(())
    }

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

    /// What the conversation in hand waits for, or the run if it has none in hand.
    fn own_wait(&self) -> Wait {
        match &self.phase {
            Phase::Idle if self.live_children().next().is_some() => Wait::Child,
            Phase::Idle if self.step_gates().next().is_some() => Wait::Human,
            Phase::Resting { kind: ModelFailureKind::RateLimited, .. } => Wait::RateLimit,
            Phase::Resting { .. } => Wait::Timer,
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
        matches!(self.phase, Phase::Aside { aside: Aside::Planning { .. }, .. })
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
            | Phase::Opened
            | Phase::Thinking { .. }
            | Phase::Resting { .. }
            | Phase::Answered { .. }
            | Phase::CutOff { .. }
            | Phase::Examining { .. }
            | Phase::Aside { .. } => None,
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
            Phase::Aside { turn, .. } => turn.saturating_sub(1),
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
