//! Sub-agents: the runs that a run has started for its steps and calls, as it remembers them.

use std::ops::Deref;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::conduct::Conduct;
use crate::conversation::Usage;
use crate::event::Cause;
use crate::ids::{Attempt, CallId, RunId};
use crate::limits::CHILD_TRIES_MAX;
use crate::money::Usd;
use crate::plan::{Plan, Step};
use crate::report;
use crate::run::Run;
use crate::spec::{Limits, RunSpec};
use crate::status::{Status, Wait};
use crate::time::Timestamp;

/// What a run asks another to do for it. Written down before the other exists, so that it is started once.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Errand {
    /// Counted from 1 over the whole run.
    #[n(0)]
    pub number: u32,
    #[n(1)]
    pub id: RunId,
    #[n(2)]
    pub agent: String,
    /// All that it is told: the task, what other steps had to say, and why an earlier try failed.
    #[n(3)]
    pub task: String,
    #[n(4)]
    pub origin: Origin,
    #[n(5)]
    pub attempt: Attempt,
    /// What of its parent's budget is set aside for it.
    #[n(6)]
    pub limits: Limits,
}

/// What an errand is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Origin {
    #[n(0)]
    Step {
        #[n(0)]
        step: u32,
    },
    #[n(1)]
    Call {
        #[n(0)]
        call: CallId,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Child {
    #[serde(flatten)]
    pub errand: Errand,
    pub spawned_at: Timestamp,
    pub state: ChildState,
    /// What it and those below it have used, as last reported.
    pub ledger: ChildLedger,
    /// The model that a person named while it was under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum ChildState {
    /// It may be at work, or its process may have died.
    Working,
    /// A person is asked, by it or by one below it.
    Waiting,
    Paused {
        cause: Cause,
        reason: String,
    },
    Completed,
    Failed {
        error: String,
    },
    /// A hook wanted a person asked before there was a run; with leave, another is sent.
    Held,
}

/// The runs that a run has started, in order. Knows which have not ended and what the others used, so that nobody looks through
/// a thousand that have ended at every event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "Vec<Child>")]
pub struct Children {
    all: Vec<Child>,
    /// The places of those that have not ended, in order.
    live: Vec<usize>,
    /// What those have used that have.
    ended: ChildLedger,
    /// The most that one reply of those took.
    dearest: Reply,
}

impl Children {
    pub fn push(&mut self, child: Child) {
        if child.has_ended() {
            self.ended.add(&child.ledger);
            self.dearest = self.dearest.max(child.ledger.reply());
        } else {
            self.live.push(self.all.len());
        }
        self.all.push(child);
    }

    /// Those that have not ended.
    pub fn live(&self) -> impl Iterator<Item = &Child> {
        self.live.iter().filter_map(|place| self.all.get(*place))
    }

    /// What those have used that have ended.
    pub fn spent(&self) -> ChildLedger {
        self.ended
    }

    /// The most that one reply of those took that have ended.
    pub(crate) fn dearest(&self) -> Reply {
        self.dearest
    }

    /// Puts down what those have used that have not ended, for somebody who has asked them.
    pub fn count_live(&mut self, used: impl Fn(&Child) -> ChildLedger) {
        for place in &self.live {
            if let Some(child) = self.all.get_mut(*place) {
                child.ledger = used(child);
            }
        }
    }

    /// Changes the one of that number, if it has not ended.
    pub(crate) fn change(&mut self, number: u32, change: impl FnOnce(&mut Child)) {
        let place = (number as usize).wrapping_sub(1);
        let Some(child) = self.all.get_mut(place).filter(|child| !child.has_ended()) else { return };
        change(child);
        if child.has_ended() {
            self.ended.add(&child.ledger);
            self.dearest = self.dearest.max(child.ledger.reply());
            self.live.retain(|live| *live != place);
        }
    }
}

impl From<Vec<Child>> for Children {
    fn from(all: Vec<Child>) -> Children {
        let mut children = Children::default();
        all.into_iter().for_each(|child| children.push(child));
        children
    }
}

impl Serialize for Children {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.all.serialize(serializer)
    }
}

impl Deref for Children {
    type Target = [Child];

    fn deref(&self) -> &[Child] {
        &self.all
    }
}

impl<'a> IntoIterator for &'a Children {
    type Item = &'a Child;
    type IntoIter = std::slice::Iter<'a, Child>;

    fn into_iter(self) -> Self::IntoIter {
        self.all.iter()
    }
}

/// What a child takes from its parent's budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildLedger {
    #[n(0)]
    pub usage: Usage,
    #[n(1)]
    pub calls: u32,
    #[n(2)]
    pub turns: u32,
}

/// What one reply takes. Of money and tokens alike the most is kept that was seen, whichever reply it was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    pub(crate) tokens: u64,
    pub(crate) cost: Usd,
}

impl Reply {
    pub(crate) fn of(usage: &Usage) -> Reply {
        Reply { tokens: usage.tokens(), cost: usage.cost }
    }

    pub(crate) fn max(self, other: Reply) -> Reply {
        Reply { tokens: self.tokens.max(other.tokens), cost: self.cost.max(other.cost) }
    }
}

/// How a child came to rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildReport {
    pub ending: ChildEnding,
    pub ledger: ChildLedger,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildEnding {
    Completed {
        output: String,
    },
    Failed {
        error: String,
    },
    /// A person stopped it: that is not tried again.
    Stopped {
        reason: String,
    },
    /// It was not let go, and never began.
    Refused {
        why: String,
    },
    /// A hook wants a person's leave before it is made.
    Held {
        why: String,
    },
    /// Nothing was heard of it for so long while it was at work.
    Idle {
        ms: u64,
    },
    /// Its agent got nowhere, and nobody looks after it: that is a failure, and it is not gone on with.
    GaveUp {
        error: String,
    },
    Waiting,
    /// It stopped by itself, and a person can help: at a limit, without a model, for a hook.
    Paused {
        cause: Cause,
        reason: String,
    },
}

impl Child {
    pub fn is_working(&self) -> bool {
        self.state == ChildState::Working
    }

    pub fn has_ended(&self) -> bool {
        match self.state {
            ChildState::Completed | ChildState::Failed { .. } | ChildState::Held => true,
            ChildState::Working | ChildState::Waiting | ChildState::Paused { .. } => false,
        }
    }

    /// Has it come to the end of its part of the budget?
    pub fn is_out(&self) -> bool {
        matches!(self.state, ChildState::Paused { cause: Cause::Limit, .. })
    }

    /// Is what it was granted set aside for it? One that has paused goes on only with what there is then.
    pub fn holds_budget(&self) -> bool {
        match self.state {
            ChildState::Working | ChildState::Waiting => true,
            ChildState::Paused { .. }
            | ChildState::Completed
            | ChildState::Failed { .. }
            | ChildState::Held => false,
        }
    }

    /// May the errand be tried once more, with what went wrong?
    pub fn may_try_again(&self) -> bool {
        self.errand.attempt.0 < CHILD_TRIES_MAX
    }

    /// What people call it, in the words of every run.
    pub fn called(&self) -> &'static str {
        let (status, wait) = match self.state {
            ChildState::Working => (Status::Running, Wait::None),
            ChildState::Waiting => (Status::Running, Wait::Human),
            ChildState::Paused { .. } => (Status::Paused, Wait::None),
            ChildState::Completed => (Status::Completed, Wait::None),
            ChildState::Failed { .. } => (Status::Failed, Wait::None),
            ChildState::Held => return self.word(),
        };
        status.called(wait)
    }

    /// The same for programs.
    pub fn word(&self) -> &'static str {
        match self.state {
            ChildState::Working => "working",
            ChildState::Waiting => "waiting",
            ChildState::Paused { .. } => "paused",
            ChildState::Completed => "completed",
            ChildState::Failed { .. } => "failed",
            ChildState::Held => "held",
        }
    }
}

impl ChildLedger {
    /// What a run reports to the one that started it: its own, and that of all below.
    pub fn of(run: &Run) -> ChildLedger {
        ChildLedger::by(run, |child| child.ledger)
    }

    /// The same, if those that have not ended have used so much.
    pub fn by(run: &Run, used: impl Fn(&Child) -> ChildLedger) -> ChildLedger {
        let mut ledger = ChildLedger { usage: run.usage, calls: run.calls_started, turns: run.turns };
        ledger.add(&run.children.spent());
        run.live_children().for_each(|child| ledger.add(&used(child)));
        ledger
    }

    pub fn add(&mut self, other: &ChildLedger) {
        self.usage.add(&other.usage);
        self.calls = self.calls.saturating_add(other.calls);
        self.turns = self.turns.saturating_add(other.turns);
    }

    /// What a reply took, as far as a sum can tell: on average, rounded up.
    pub(crate) fn reply(&self) -> Reply {
        let turns = u64::from(self.turns.max(1));
        let Reply { tokens, cost } = Reply::of(&self.usage);
        Reply { tokens: tokens.div_ceil(turns), cost: Usd::from_nanos(cost.as_nanos().div_ceil(turns)) }
    }

    /// Adds what was granted to somebody who has used only so much of it.
    pub fn set_aside(&mut self, granted: &Limits, used: &ChildLedger) {
        self.usage.cost += granted.max_cost.unwrap_or_default().less(used.usage.cost);
        let tokens = granted.max_tokens.unwrap_or(0).saturating_sub(used.usage.tokens());
        self.usage.input_tokens = self.usage.input_tokens.saturating_add(tokens);
        self.calls = self.calls.saturating_add(granted.max_tool_calls.saturating_sub(used.calls));
        self.turns = self.turns.saturating_add(granted.max_steps.saturating_sub(used.turns));
    }
}

/// What a run is that goes on an errand for `parent`: the same place, the same rules, the same models, one step. Whoever knows
/// the agent it is for puts in that agent's ways.
pub fn spec(parent: &Run, errand: &Errand) -> RunSpec {
    let step = match errand.origin {
        Origin::Step { step } => parent.plan.steps.get(step as usize),
        Origin::Call { .. } => None,
    };
    let step = Step {
        verify: step.and_then(|step| step.verify.clone()),
        ..Step::new(step.map_or("step-1", |step| &step.id), &errand.task, &errand.agent)
    };
    let conduct = parent.spec.conduct.as_ref().map(|conduct| {
        let (looping, judge) = (None, None);
        Box::new(Conduct { looping, judge, ..conduct.as_ref().clone() })
    });
    RunSpec {
        id: errand.id.clone(),
        agent: errand.agent.clone(),
        task: errand.task.clone(),
        task_id: errand.id.to_string(),
        // What a part that is used up leads to is for whoever shares out the whole.
        limits: Limits { policies: None, ..errand.limits },
        parent: Some(parent.spec.id.clone()),
        depth: parent.spec.depth.saturating_add(1),
        answer_schema: None,
        planner: None,
        agent_caps: None,
        begun_with: None,
        // Whoever sent it keeps what was done.
        auto_commit: None,
        baseline_of: first_try(parent, errand),
        conduct,
        ..parent.spec.with_plan(Plan { steps: vec![step] }.readied())
    }
}

/// Who tried the same before: what was protected then is what is protected now, whatever became of it in between.
fn first_try(parent: &Run, errand: &Errand) -> Option<RunId> {
    let of_plan = parent.children.get(parent.older.children..).unwrap_or(&[]);
    let first = of_plan.iter().find(|child| child.errand.origin == errand.origin)?;
    (first.errand.number < errand.number).then(|| first.errand.id.clone())
}

/// How a run that was sent by another came to rest.
pub fn report(run: &Run) -> ChildReport {
    let reason = run.reason.clone().unwrap_or_default();
    let ending = match run.status {
        Status::Completed => ChildEnding::Completed { output: run.output().unwrap_or("").to_owned() },
        // Whoever sent it remembers its end before stopping it, and asks no more.
        Status::Failed if run.cause == Some(Cause::Asked) => ChildEnding::Stopped { reason },
        Status::Failed => {
            ChildEnding::Failed { error: run.error.clone().unwrap_or_else(|| "it failed".to_owned()) }
        }
        Status::Running if run.wait() == Wait::Human => ChildEnding::Waiting,
        Status::Paused if run.gates.iter().any(|gate| gate.answer.is_none()) => ChildEnding::Waiting,
        Status::Paused if report::is_stuck(run) => ChildEnding::GaveUp { error: reason },
        Status::Created | Status::Running | Status::Paused => {
            ChildEnding::Paused { cause: run.cause.unwrap_or(Cause::Asked), reason }
        }
    };
    ChildReport { ending, ledger: ChildLedger::of(run) }
}

/// The name of a run's n-th child: made from the parent's, so that one that was started before a crash is found again.
pub fn child_id(parent: &RunId, number: u32) -> Option<RunId> {
    RunId::parse(&format!("{parent}.{number}")).ok()
}
