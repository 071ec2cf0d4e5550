//! What a run remembers. Events are past tense, never change once shipped, and the run is nothing but their fold.
//!
//! Indexes (`#[n(…)]`) are the journal's format: an index is never reused, a new field is an `Option`.

mod ask;
mod cause;
mod files;
mod rest;
mod stop;

use minicbor::{Decode, Encode};

pub use self::ask::{Ask, AskKind};
pub use self::cause::Cause;
pub use self::files::{Brought, Kept, Moment, Stored};
pub use self::rest::Rest;
pub use self::stop::{Aside, FreshStart, Purpose, StopAction};

use crate::child::{ChildLedger, Errand};
use crate::command::Wish;
use crate::conduct::{Checks, Looping};
use crate::context::Shortening;
use crate::conversation::{ModelFailureKind, ProposedCall, Raw, Stop, Usage};
use crate::evidence::Examination;
use crate::ids::{Attempt, CallId, CommandId};
use crate::json::Json;
use crate::plan::Plan;
use crate::repetition::{Remedy, Repetition};
use crate::spec::{Limits, RunSpec};
use crate::status::Status;
use crate::time::Timestamp;
use crate::tool::{EffectClass, Failure, Outcome, Trace};

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub enum Event {
    #[n(0)]
    RunCreated(#[n(0)] Box<RunSpec>),
    #[n(1)]
    StatusChanged {
        #[n(0)]
        from: Status,
        #[n(1)]
        to: Status,
        #[n(2)]
        cause: Cause,
        #[n(3)]
        reason: Option<String>,
    },
    #[n(2)]
    CommandApplied {
        #[n(0)]
        command: CommandId,
        #[n(1)]
        wish: Wish,
    },
    #[n(3)]
    GateChecked {
        #[n(0)]
        step: u32,
        #[n(1)]
        required: bool,
    },
    #[n(4)]
    WaitingForHuman {
        #[n(0)]
        gate: u32,
        #[n(1)]
        step: u32,
        /// What a call waits for; nothing if the step itself waits.
        #[n(2)]
        ask: Option<Ask>,
        /// Of what the step will be, if it waits itself: whose it is, what they are told, and what must hold afterwards.
        #[n(3)]
        digest: Option<String>,
    },
    #[n(5)]
    GateAnswered {
        #[n(0)]
        gate: u32,
        #[n(1)]
        approved: bool,
        #[n(2)]
        reason: Option<String>,
        #[n(3)]
        waited_ms: u64,
        /// What was said to a question.
        #[n(4)]
        answer: Option<String>,
    },
    #[n(6)]
    StepStarted {
        #[n(0)]
        step: u32,
    },
    #[n(7)]
    TurnStarted {
        #[n(0)]
        turn: u32,
        #[n(1)]
        attempt: Attempt,
    },
    #[n(8)]
    ModelReplied {
        #[n(0)]
        turn: u32,
        #[n(1)]
        attempt: Attempt,
        #[n(2)]
        text: String,
        #[n(3)]
        calls: Vec<ProposedCall>,
        #[n(4)]
        usage: Usage,
        #[n(5)]
        duration_us: u64,
        #[n(6)]
        raw: Option<Raw>,
        #[n(7)]
        stop: Option<Stop>,
        /// Tokens that fit into the model's window.
        #[n(8)]
        window: Option<u64>,
    },
    #[n(9)]
    TurnFailed {
        #[n(0)]
        turn: u32,
        #[n(1)]
        attempt: Attempt,
        #[n(2)]
        message: String,
        #[n(3)]
        retry: Option<Rest>,
        #[n(4)]
        kind: Option<ModelFailureKind>,
        /// When the provider may be asked again, by its own word.
        #[n(5)]
        until: Option<Timestamp>,
        #[n(6)]
        usage: Option<Usage>,
        /// Was what came no reply, although it was whole?
        #[n(7)]
        garbled: Option<bool>,
    },
    #[n(10)]
    CallRefused {
        #[n(0)]
        call: CallId,
        #[n(1)]
        failure: Failure,
        #[n(2)]
        message: String,
    },
    #[n(11)]
    CallStarted {
        #[n(0)]
        call: CallId,
        #[n(1)]
        attempt: Attempt,
        #[n(2)]
        class: EffectClass,
        /// The destinations of a checkable call, before and after; of any other none.
        #[n(3)]
        traces: Vec<Trace>,
    },
    #[n(12)]
    CallFinished {
        #[n(0)]
        call: CallId,
        #[n(1)]
        attempt: Attempt,
        #[n(2)]
        outcome: Outcome,
        #[n(3)]
        duration_us: u64,
    },
    #[n(13)]
    CallRetryScheduled {
        #[n(0)]
        call: CallId,
        #[n(1)]
        attempt: Attempt,
        #[n(2)]
        message: String,
        #[n(3)]
        rest: Rest,
    },
    /// A call gave up for good; written beside its outcome so that watchers need not read outcomes.
    #[n(14)]
    ToolFailed {
        #[n(0)]
        call: CallId,
        #[n(1)]
        message: String,
    },
    #[n(15)]
    StepCompleted {
        #[n(0)]
        step: u32,
        #[n(1)]
        output: String,
    },
    #[n(16)]
    StepFailed {
        #[n(0)]
        step: u32,
        #[n(1)]
        error: String,
    },
    #[n(17)]
    PlanCompleted,
    #[n(18)]
    Checkpointed {
        #[n(0)]
        number: u32,
    },
    /// A process took the run up again after another had died with it.
    #[n(19)]
    Recovered {
        #[n(0)]
        generation: u64,
    },
    #[n(20)]
    LimitReached {
        #[n(0)]
        limit: String,
        #[n(1)]
        spent: String,
        #[n(2)]
        max: String,
    },
    #[n(21)]
    LimitsChanged {
        #[n(0)]
        limits: Limits,
    },
    #[n(22)]
    PersistenceFellBack {
        #[n(0)]
        reason: String,
    },
    /// The run began as somebody else's state document.
    #[n(23)]
    Imported {
        #[n(0)]
        document: Json,
        /// What the document does not say: model, prompt, tools, workspace.
        #[n(1)]
        spec: Box<RunSpec>,
    },
    #[n(24)]
    ModelChanged {
        #[n(0)]
        model: String,
        /// Why longhaul changed it by itself; nothing if a person did.
        #[n(1)]
        why: Option<String>,
    },
    /// A command that could not be read or that the run's status did not allow when its turn came.
    #[n(25)]
    CommandDropped {
        #[n(0)]
        command: CommandId,
        #[n(1)]
        why: String,
    },
    /// A longhaul with a newer schema took the run over. What is in the journal stays as it is.
    #[n(26)]
    SchemaUpgraded {
        #[n(0)]
        from: u16,
        #[n(1)]
        to: u16,
    },
    /// What holds the commands of the agent from here on, as the process that drives the run has found it.
    #[n(27)]
    Contained {
        #[n(0)]
        by: String,
    },
    /// The agent said something final: what that leads to.
    #[n(28)]
    AgentStopped {
        #[n(0)]
        turn: u32,
        #[n(1)]
        action: StopAction,
        #[n(2)]
        why: Option<String>,
    },
    /// The harness looks at the work itself.
    #[n(29)]
    ExamineStarted {
        #[n(0)]
        turn: u32,
        #[n(1)]
        round: u32,
        #[n(2)]
        attempt: Attempt,
        #[n(3)]
        purpose: Purpose,
    },
    #[n(30)]
    Examined {
        #[n(0)]
        round: u32,
        #[n(1)]
        attempt: Attempt,
        #[n(2)]
        found: Box<Examination>,
    },
    /// The conversation began anew: same mission, no memory but what this says and what is on disk.
    #[n(31)]
    IterationStarted {
        #[n(0)]
        number: u32,
        #[n(1)]
        why: FreshStart,
        /// What the agent is told beside its mission.
        #[n(2)]
        note: Option<String>,
    },
    /// A question beside the conversation.
    #[n(32)]
    AsideStarted {
        #[n(0)]
        aside: Aside,
        #[n(1)]
        turn: u32,
        #[n(2)]
        attempt: Attempt,
    },
    #[n(33)]
    AsideEnded {
        #[n(0)]
        aside: Aside,
        #[n(1)]
        attempt: Attempt,
        #[n(2)]
        model: String,
        #[n(3)]
        text: Option<String>,
        #[n(4)]
        error: Option<String>,
        #[n(5)]
        usage: Option<Usage>,
        /// How long is waited before the same is asked again, and why.
        #[n(6)]
        retry: Option<Rest>,
        #[n(7)]
        kind: Option<ModelFailureKind>,
    },
    /// The conversation was made shorter.
    #[n(34)]
    Compacted {
        #[n(0)]
        shortening: Shortening,
        #[n(1)]
        tokens_before: u64,
        #[n(2)]
        tokens_after: u64,
        /// It freed too little.
        #[n(3)]
        futile: bool,
    },
    /// The agent goes round in circles.
    #[n(35)]
    DoomLoop {
        #[n(0)]
        repetition: Repetition,
        #[n(1)]
        remedy: Remedy,
        #[n(2)]
        tool: String,
        #[n(3)]
        count: u32,
    },
    #[n(36)]
    LoopChanged {
        #[n(0)]
        looping: Looping,
    },
    /// The harness says something to the agent, in the conversation.
    #[n(37)]
    Told {
        #[n(0)]
        text: String,
    },
    /// Another run is to be started for a step or a call of this one.
    #[n(38)]
    ChildSpawned(#[n(0)] Box<Errand>),
    /// A child waits for a person, or paused by itself.
    #[n(39)]
    ChildRested {
        #[n(0)]
        number: u32,
        /// Why it paused; nothing if it waits for a person.
        #[n(1)]
        paused: Option<Cause>,
        #[n(2)]
        reason: Option<String>,
        #[n(3)]
        ledger: ChildLedger,
    },
    /// It goes on, perhaps with more of the budget.
    #[n(40)]
    ChildResumed {
        #[n(0)]
        number: u32,
        #[n(1)]
        limits: Option<Limits>,
        /// The model it goes on with, if a person named one for the run.
        #[n(2)]
        model: Option<String>,
    },
    #[n(41)]
    ChildEnded {
        #[n(0)]
        number: u32,
        /// What went wrong; nothing if it completed.
        #[n(1)]
        error: Option<String>,
        #[n(2)]
        ledger: ChildLedger,
    },
    /// There is a plan, or another one.
    #[n(42)]
    PlanMade {
        #[n(0)]
        plan: Plan,
    },
    /// What was given for a plan cannot be used.
    #[n(43)]
    PlanRefused {
        #[n(0)]
        why: String,
    },
    /// A limit was reached that only warns.
    #[n(50)]
    LimitPassed {
        #[n(0)]
        limit: String,
        #[n(1)]
        spent: String,
        #[n(2)]
        max: String,
    },
    /// From here on other things must hold before an end counts. What is not given stays.
    #[n(51)]
    ChecksChanged {
        #[n(0)]
        checks: Checks,
    },
    /// What stood in the run's worktree after so many steps was kept, or not.
    #[n(55)]
    WorkKept {
        #[n(0)]
        steps: u32,
        #[n(1)]
        kept: Kept,
    },
    /// What stood in the workspace was put out of the agent's reach, or not.
    #[n(56)]
    FilesStored {
        #[n(0)]
        stored: Stored,
        #[n(1)]
        moment: Moment,
    },
    /// A person gave a checkpoint a name.
    #[n(57)]
    CheckpointNamed {
        #[n(0)]
        number: u32,
        #[n(1)]
        name: String,
    },
    /// A run that had failed goes on after all, with another plan or with more iterations; it is paused until then.
    #[n(58)]
    Reopened,
    /// The commands that prepare a fresh workspace are about to be run.
    #[n(61)]
    SetUpStarted {
        #[n(0)]
        commands: Vec<String>,
    },
    /// They have been, or one of them failed.
    #[n(62)]
    SetUpEnded {
        #[n(0)]
        error: Option<String>,
        #[n(1)]
        duration_us: u64,
    },
    /// The run was taken back, and this is what it had used after the point it goes on from. It is used all the same.
    #[n(63)]
    SpentBefore {
        #[n(0)]
        usage: Usage,
    },
    /// A checkpoint was made because a call that is about to run may throw work away, and was given a name.
    #[n(64)]
    CheckpointGuarded {
        #[n(0)]
        number: u32,
        #[n(1)]
        name: String,
        #[n(2)]
        call: CallId,
        /// The command that may do so, as it is shown.
        #[n(3)]
        command: String,
    },
    /// A hook wants a person's leave before anybody is sent: that errand is over, and with leave it is given anew.
    #[n(68)]
    ChildHeld {
        #[n(0)]
        number: u32,
    },
    /// The journal ended in a write that was never finished; whoever opened it to write cut that off.
    #[n(71)]
    TornTailCut {
        #[n(0)]
        bytes: u64,
    },
    /// A file made from the journal, for people or for listings, cannot be written. The work goes on without it.
    #[n(72)]
    DerivedFailed {
        #[n(0)]
        file: String,
        #[n(1)]
        why: String,
    },
    /// The user's repository got branches of the run's worktree.
    #[n(73)]
    BranchesBrought {
        #[n(0)]
        branches: Vec<Brought>,
    },
    /// It did not get what it was to get, which stays in the worktree.
    #[n(74)]
    BranchNotBrought {
        #[n(0)]
        why: String,
    },
    /// It has all that is on the worktree's branches again, whoever brought it, or took it away there.
    #[n(76)]
    BranchesComplete,
    /// An agent had broken the worktree's git directory, and these parts of it were made anew.
    #[n(75)]
    WorkspaceMended {
        #[n(0)]
        parts: Vec<String>,
    },
}

impl Event {
    /// The number under which the journal files this event; equal to its index above.
    pub fn kind(&self) -> u16 {
        match self {
            Event::RunCreated(_) => 0,
            Event::StatusChanged { .. } => 1,
            Event::CommandApplied { .. } => 2,
            Event::GateChecked { .. } => 3,
            Event::WaitingForHuman { .. } => 4,
            Event::GateAnswered { .. } => 5,
            Event::StepStarted { .. } => 6,
            Event::TurnStarted { .. } => 7,
            Event::ModelReplied { .. } => 8,
            Event::TurnFailed { .. } => 9,
            Event::CallRefused { .. } => 10,
            Event::CallStarted { .. } => 11,
            Event::CallFinished { .. } => 12,
            Event::CallRetryScheduled { .. } => 13,
            Event::ToolFailed { .. } => 14,
            Event::StepCompleted { .. } => 15,
            Event::StepFailed { .. } => 16,
            Event::PlanCompleted => 17,
            Event::Checkpointed { .. } => 18,
            Event::Recovered { .. } => 19,
            Event::LimitReached { .. } => 20,
            Event::LimitsChanged { .. } => 21,
            Event::PersistenceFellBack { .. } => 22,
            Event::Imported { .. } => 23,
            Event::ModelChanged { .. } => 24,
            Event::CommandDropped { .. } => 25,
            Event::SchemaUpgraded { .. } => 26,
            Event::Contained { .. } => 27,
            Event::AgentStopped { .. } => 28,
            Event::ExamineStarted { .. } => 29,
            Event::Examined { .. } => 30,
            Event::IterationStarted { .. } => 31,
            Event::AsideStarted { .. } => 32,
            Event::AsideEnded { .. } => 33,
            Event::Compacted { .. } => 34,
            Event::DoomLoop { .. } => 35,
            Event::LoopChanged { .. } => 36,
            Event::Told { .. } => 37,
            Event::ChildSpawned(_) => 38,
            Event::ChildRested { .. } => 39,
            Event::ChildResumed { .. } => 40,
            Event::ChildEnded { .. } => 41,
            Event::PlanMade { .. } => 42,
            Event::PlanRefused { .. } => 43,
            Event::LimitPassed { .. } => 50,
            Event::ChecksChanged { .. } => 51,
            Event::WorkKept { .. } => 55,
            Event::FilesStored { .. } => 56,
            Event::CheckpointNamed { .. } => 57,
            Event::Reopened => 58,
            Event::SetUpStarted { .. } => 61,
            Event::SetUpEnded { .. } => 62,
            Event::SpentBefore { .. } => 63,
            Event::CheckpointGuarded { .. } => 64,
            Event::ChildHeld { .. } => 68,
            Event::TornTailCut { .. } => 71,
            Event::DerivedFailed { .. } => 72,
            Event::BranchesBrought { .. } => 73,
            Event::BranchNotBrought { .. } => 74,
            Event::WorkspaceMended { .. } => 75,
            Event::BranchesComplete => 76,
        }
    }
}
