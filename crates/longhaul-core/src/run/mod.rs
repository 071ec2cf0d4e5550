//! One run: the fold of its events. Nothing here decides; `apply` only remembers.

mod apply;
mod behaviour;
mod call;
mod files;
mod fit;
mod gate;
mod phase;
mod standing;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::behaviour::{Pace, Patience, Silence};
pub use self::call::{Call, CallState};
pub use self::files::Files;
pub use self::gate::{Answer, Gate};
pub use self::phase::Phase;

use crate::child::Children;
use crate::context::Fill;
use crate::conversation::{Message, Usage};
use crate::document;
use crate::event::{Aside, Cause, Event, Purpose};
use crate::evidence::{Examination, ProtectedChange};
use crate::ids::CommandId;
use crate::json::Json;
use crate::novelty::Novelty;
use crate::plan::{Plan, Step};
use crate::spec::RunSpec;
use crate::status::Status;
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
    /// What the judge said of that, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
    /// What the agent said last in the conversation before the one in hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said_before: Option<String>,
    #[serde(default)]
    pub examinations: u32,
    /// Has somebody else left work that nobody has looked at together with the rest?
    #[serde(default)]
    pub unseen: bool,
    /// What the work began with.
    #[serde(default)]
    pub baseline: Option<Baseline>,
    /// The blob of the list of features as it was last seen whole.
    #[serde(default)]
    pub feature_list: Option<String>,
    /// Files that calls have changed, oldest first.
    #[serde(default)]
    pub changed_files: Vec<String>,
    /// How many calls there were each time the agent was found going in circles, since a person last started it.
    #[serde(default)]
    pub repetitions: Vec<u32>,
    /// Whether the calls of the step in hand bring anything new.
    #[serde(default)]
    pub novelty: Novelty,
    /// How many calls there were when a person last started it.
    #[serde(default)]
    pub calls_before_start: u32,
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
    /// The same for what is asked beside the conversation.
    #[serde(default)]
    pub aside_reserve: AsideReserve,
    /// What was used, by step, iteration and model.
    #[serde(default)]
    pub spending: Vec<Spending>,
    /// Limits that were reached and only warn, so that each is told once.
    #[serde(default)]
    pub warned: Vec<String>,
    /// The same for whoever reads what came of the run: each limit once, as it was told last.
    #[serde(default)]
    pub passed: Vec<PassedLimit>,
    /// What was put back in the list of features, each once.
    #[serde(default)]
    pub restored: Vec<String>,
    /// Changes of protected files that were taken back, the last of each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub undone: Vec<ProtectedChange>,
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
    /// Steps that gave way to another plan and to which something belongs that is on record. Their numbers go on from
    /// [`STEPS_MAX`](crate::limits::STEPS_MAX), which no plan reaches, so that a number never comes to mean another step.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<Step>,
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
    /// Why the work was not committed when it was last to be kept, if it was not.
    #[serde(skip)]
    pub uncommitted: Option<String>,
    /// What the user's repository is known to have got of the worktree's branches.
    #[serde(skip)]
    pub brought: BTreeMap<String, String>,
    /// Why it does not have what was to be brought there, if it does not.
    #[serde(skip)]
    pub not_brought: Option<String>,
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
    /// Where its branch was when its work was last kept, by whoever; nothing if somebody may have been there since.
    #[serde(skip)]
    pub head: Option<String>,
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

/// What the last answers to questions beside the conversation took, by who is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AsideReserve {
    summary: Usage,
    judgement: Usage,
    planning: Usage,
}

impl AsideReserve {
    /// Nothing is known before the first answer.
    pub fn of(&self, aside: Aside) -> Option<Usage> {
        Some(match aside {
            Aside::Compaction { .. } | Aside::Iteration { .. } => self.summary,
            Aside::Judgement => self.judgement,
            Aside::Planning { .. } => self.planning,
        })
        .filter(|usage| *usage != Usage::default())
    }

    pub fn heard(&mut self, aside: Aside, usage: Usage) {
        match aside {
            Aside::Compaction { .. } | Aside::Iteration { .. } => self.summary = usage,
            Aside::Judgement => self.judgement = usage,
            Aside::Planning { .. } => self.planning = usage,
        }
    }
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
    /// The commit that holds what was looked at, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
}

/// A limit that was reached and only warned of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PassedLimit {
    pub limit: String,
    pub spent: String,
    pub max: String,
}

/// A judge's opinion of the work, and what it went by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Judgement {
    pub accepted: bool,
    pub reasons: Vec<String>,
    /// What had to be true of the work.
    pub acceptance: Vec<String>,
    pub model: String,
}

/// What one model was given and gave in one iteration of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spending {
    /// Its number, or [`NO_STEP`].
    pub step: u32,
    pub iteration: u32,
    pub model: String,
    /// Replies that were paid for.
    pub replies: u32,
    pub usage: Usage,
}

/// In place of a step's number: what a planner says belongs to none.
pub const NO_STEP: u32 = u32::MAX;

/// Before there were planners, every run had its plan.
fn from_the_start() -> bool {
    true
}

fn first_iteration() -> u32 {
    1
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
            judgement: None,
            said_before: None,
            examinations: 0,
            unseen: false,
            baseline: None,
            feature_list: None,
            changed_files: Vec::new(),
            repetitions: Vec::new(),
            novelty: Novelty::default(),
            calls_before_start: 0,
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
            aside_reserve: AsideReserve::default(),
            spending: Vec::new(),
            warned: Vec::new(),
            passed: Vec::new(),
            restored: Vec::new(),
            undone: Vec::new(),
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
            given_up: Vec::new(),
            older: Older::default(),
            schema: None,
            cwd: None,
            contained: None,
            setting_up: false,
            kept_steps: 0,
            uncommitted: None,
            brought: BTreeMap::new(),
            not_brought: None,
            has_images: false,
            files: Files::Untouched,
            checkpoint_names: Vec::new(),
            commits: Vec::new(),
            head: None,
            imported: None,
            imported_seq: 0,
            ahead: 0,
        }
    }

    /// The commands that the harness itself runs for it.
    pub fn commands(&self) -> Vec<String> {
        self.spec.conduct().verify.iter().chain(self.plan.commands()).cloned().collect()
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
}
