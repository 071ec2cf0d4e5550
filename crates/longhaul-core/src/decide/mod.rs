//! The agent loop as a pure machine: what arrived in, what to remember and what to do out.
//!
//! One room for each kind of thing that can arrive: `lifecycle` (commands), `step`, `turn` (the model), `patience` (a model
//! that does not answer), `schedule` (which steps begin), `planning`, `child` (sub-agents), `call` (tools), `stop` (an agent that
//! says it is done), `limit` (what is used up), `iteration` (fresh context), `compact` (a
//! window that fills up), `aside` (questions beside the conversation), `recovery` (a new process). Every room ends by naming what comes next, so that a result and the intent that
//! follows from it are remembered together.

mod aside;
mod ask;
mod call;
mod child;
mod compact;
mod iteration;
mod lifecycle;
mod limit;
mod patience;
mod planning;
mod recovery;
mod schedule;
mod step;
mod stop;
mod turn;

use self::recovery::Changed;
use crate::effect::{Effect, Wake};
use crate::event::{Brought, Cause, Event};
use crate::input::{Home, Input, Tended};
use crate::run::Run;
use crate::status::Status;
use crate::time::Timestamp;

/// What follows from an input: first remembered, then done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    pub events: Vec<Event>,
    pub effects: Vec<Effect>,
}

/// A command that the run's status does not allow. Nothing changes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("cannot {verb} a run that is {status}: {why}")]
    Transition { verb: &'static str, status: Status, why: &'static str },
    #[error("there is no approval {gate} in this run")]
    NoGate { gate: u32 },
    #[error("approval {gate} is {what}; {verb} it instead")]
    OtherKind { gate: u32, what: &'static str, verb: &'static str },
    #[error("approval {gate} is not for what was approved: it is for {digest}")]
    OtherAction { gate: u32, digest: String },
    #[error("that plan cannot be used: {why}")]
    Plan { why: String },
    #[error("a checkpoint cannot be named `{name}`: {why}")]
    Name { name: String, why: &'static str },
    #[error("approval {gate} was already {answer}")]
    Answered { gate: u32, answer: &'static str },
}

/// Decides what follows from `input` arriving at `at`. Pure: same run, same input, same answer.
pub fn decide(run: &Run, at: Timestamp, input: Input) -> Result<Decision, Refusal> {
    match input {
        Input::Command(command) => lifecycle::command(run, at, command),
        Input::Restarted { generation, limits, model, looping } => {
            Ok(recovery::restarted(run, at, generation, Changed { limits, model: model.as_deref(), looping }))
        }
        Input::CommandUnfit { id, why } => Ok(lifecycle::unfit(run, id, why)),
        Input::CheckpointDue => Ok(lifecycle::checkpoint_due(run)),
        Input::ModelReplied { turn, attempt, reply, duration_us } => {
            Ok(match patience::unanswered(run, &reply) {
                Some(failure) => patience::failed(run, at, turn, attempt, failure),
                None => turn::replied(run, turn, attempt, reply, duration_us),
            })
        }
        Input::ModelFailed { turn, attempt, failure } => {
            Ok(patience::failed(run, at, turn, attempt, failure))
        }
        Input::ToolPrepared { call, attempt, traces, hold } => {
            Ok(call::prepared(run, call, attempt, traces, hold))
        }
        Input::ToolEnded { call, attempt, outcome, duration_us, hold, tended } => {
            Ok(call::ended(run, at, call, attempt, outcome, duration_us, hold).with_tended(run, tended))
        }
        Input::ToolHeld { call, attempt, why } => Ok(call::held(run, call, attempt, &why)),
        Input::ToolChecked { call, attempt, found } => Ok(recovery::checked(run, call, attempt, found)),
        Input::Woke(Wake::Turn { turn, attempt }) => Ok(turn::woke(run, turn, attempt)),
        Input::Woke(Wake::Call { call, attempt }) => Ok(call::woke(run, call, attempt)),
        Input::Woke(Wake::Aside { aside, attempt }) => Ok(aside::woke(run, aside, attempt)),
        Input::Woke(Wake::Deadline) => Ok(lifecycle::deadline(run, at)),
        Input::Examined { round, attempt, found } => Ok(stop::examined(run, round, attempt, *found)),
        Input::AsideEnded { aside, attempt, answer } => Ok(aside::ended(run, at, aside, attempt, answer)),
        Input::ChildRested { number, report } => Ok(child::rested(run, number, report)),
        Input::ChildAnswered { number } => Ok(child::answered(run, number)),
        Input::DiskLow => Ok(lifecycle::disk_low(run)),
        Input::OlderSchema { version } => Ok(lifecycle::older_schema(run, version)),
        Input::Contained { by } => Ok(lifecycle::contained(run, by)),
        Input::ChecksChanged { checks } => Ok(lifecycle::checks_changed(run, checks)),
        Input::OutOfBudget(exhausted) => Ok(limit::out_of_budget(run, &exhausted)),
        Input::WorkspaceGone { why } => Ok(lifecycle::workspace_gone(run, why)),
        Input::WorkKept { steps, kept, tended } => {
            Ok(lifecycle::work_kept(run, steps, kept).with_tended(run, tended))
        }
        Input::Tended(tended) => Ok(Decision::nothing().with_tended(run, tended)),
        Input::SpentBefore { usage } => Ok(lifecycle::spent_before(usage)),
        Input::SetUpStarted { commands } => Ok(Decision::remember(Event::SetUpStarted { commands })),
        Input::SetUpEnded { error, duration_us } => {
            Ok(Decision::remember(Event::SetUpEnded { error, duration_us }))
        }
        Input::FilesStored { stored, moment } => Ok(lifecycle::files_stored(run, stored, moment)),
        Input::TornTail { bytes: 0 } => Ok(Decision::nothing()),
        Input::TornTail { bytes } => Ok(Decision::remember(Event::TornTailCut { bytes })),
        Input::DerivedFailed { file, why } => Ok(Decision::remember(Event::DerivedFailed { file, why })),
        Input::FellBack { reason } => Ok(lifecycle::fell_back(run, reason)),
    }
}

impl Decision {
    /// Nothing follows: the input is of an older attempt, or comes too late to matter.
    fn nothing() -> Decision {
        Decision::default()
    }

    fn remember(event: Event) -> Decision {
        Decision { events: vec![event], effects: Vec::new() }
    }

    /// What was done in the user's repository is on record also when nothing else follows. What cannot be brought is tried again
    /// after each command, and told when that begins or has another reason.
    fn with_tended(mut self, run: &Run, tended: Tended) -> Decision {
        let Tended { brought, home, mended } = tended;
        if !mended.is_empty() {
            self.events.push(Event::WorkspaceMended { parts: mended });
        }
        // Who was killed before it could be told has it told by the next.
        let is_new = |brought: &Brought| run.brought.get(&brought.branch) != Some(&brought.commit);
        let branches: Vec<Brought> = brought.into_iter().filter(is_new).collect();
        if !branches.is_empty() {
            self.events.push(Event::BranchesBrought { branches });
        }
        match home {
            Home::Complete if run.not_brought.is_some() => self.events.push(Event::BranchesComplete),
            Home::Lacking { why } if run.not_brought.as_ref() != Some(&why) => {
                self.events.push(Event::BranchNotBrought { why });
            }
            Home::NotLooked | Home::Complete | Home::Lacking { .. } => {}
        }
        self
    }

    /// The run as it will be when what was decided so far is remembered. `None` if it does not fit, which `apply` will say.
    ///
    /// Copies the whole run: what is decided again and again, as after each child, goes by [`schedule`]'s board instead.
    fn ahead(&self, run: &Run) -> Option<Run> {
        self.ahead_by(run, self.events.len())
    }

    /// The same with the first so many of its events only.
    fn ahead_by(&self, run: &Run, events: usize) -> Option<Run> {
        let mut ahead = run.clone();
        for event in self.events.get(run.ahead..events)? {
            ahead.apply(run.seq, run.updated_at, event).ok()?;
        }
        ahead.ahead = events;
        Some(ahead)
    }

    /// What was decided that `run` does not have in it yet.
    fn since(&self, run: &Run) -> &[Event] {
        self.events.get(run.ahead..).unwrap_or(&[])
    }

    fn and(&mut self, event: Event) {
        self.events.push(event);
    }

    fn then(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// The status the run will have.
    fn status_after(&self, run: &Run) -> Status {
        let last = self.since(run).iter().rev().find_map(|event| {
            let Event::StatusChanged { to, .. } = event else { return None };
            Some(*to)
        });
        last.unwrap_or(run.status)
    }

    /// Has the conversation in hand been given its next thing to do, or somebody to wait for?
    fn goes_on(&self) -> bool {
        let moves = |effect: &Effect| match effect {
            Effect::CallModel { .. }
            | Effect::PrepareTool { .. }
            | Effect::RunTool { .. }
            | Effect::CheckTool { .. }
            | Effect::Examine { .. }
            | Effect::AskAside { .. } => true,
            Effect::Attend { .. }
            | Effect::AwaitAnswer { .. }
            | Effect::EndChild { .. }
            | Effect::Sleep { .. }
            | Effect::CancelWork => false,
        };
        let asks = |event: &Event| matches!(event, Event::WaitingForHuman { .. });
        self.events.iter().any(asks) || self.effects.iter().any(moves)
    }

    /// What it has a step say at its end.
    fn said_by(&self, run: &Run, step: u32) -> Option<&str> {
        self.since(run).iter().rev().find_map(|event| {
            let Event::StepCompleted { step: of, output } = event else { return None };
            (*of == step).then_some(output.as_str())
        })
    }

    /// How many gates this decision opens.
    fn gates_opened(&self, run: &Run) -> u32 {
        self.since(run).iter().filter(|event| matches!(event, Event::WaitingForHuman { .. })).count() as u32
    }

    /// How many errands it gives.
    fn children_sent(&self, run: &Run) -> u32 {
        self.since(run).iter().filter(|event| matches!(event, Event::ChildSpawned(_))).count() as u32
    }

    /// Numbers go on from the run's, over those this very decision has made.
    fn checkpoint(&mut self, run: &Run) -> u32 {
        let made = self.since(run).iter().filter(|event| matches!(event, Event::Checkpointed { .. })).count();
        let number = run.checkpoints.saturating_add(made as u32 + 1);
        self.and(Event::Checkpointed { number });
        number
    }

    /// Checkpoints, then pauses, in that order: what is paused has been saved.
    fn pause(&mut self, run: &Run, cause: Cause, reason: String) {
        self.checkpoint(run);
        let (from, to) = (Status::Running, Status::Paused);
        self.and(Event::StatusChanged { from, to, cause, reason: Some(reason) });
    }
}
