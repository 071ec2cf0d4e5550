//! What arrives at a run: commands, results, timers, and the news that its process died.

use crate::budget::Exhausted;
use crate::child::ChildReport;
use crate::command::Command;
use crate::conduct::{Checks, Looping};
use crate::conversation::{ModelFailure, ModelReply, Usage};
use crate::effect::Wake;
use crate::event::{Aside, Brought, Kept, Moment, Stored};
use crate::evidence::Examination;
use crate::ids::{Attempt, CallId, CommandId};
use crate::spec::Limits;
use crate::tool::{Found, Outcome, Trace};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    Command(Command),
    /// A command that lies in the inbox cannot be obeyed.
    CommandUnfit {
        id: CommandId,
        why: String,
    },
    /// A new process holds the run, perhaps with other limits or another model; whatever was under way in the old one is
    /// lost.
    Restarted {
        generation: u64,
        limits: Option<Limits>,
        model: Option<String>,
        looping: Option<Looping>,
    },
    ModelReplied {
        turn: u32,
        attempt: Attempt,
        reply: ModelReply,
        duration_us: u64,
    },
    ModelFailed {
        turn: u32,
        attempt: Attempt,
        failure: ModelFailure,
    },
    ToolPrepared {
        call: CallId,
        attempt: Attempt,
        traces: Result<Vec<Trace>, Outcome>,
        /// Why a person should look before the run goes on, if it could not be prepared for that reason.
        hold: Option<String>,
    },
    ToolEnded {
        call: CallId,
        attempt: Attempt,
        outcome: Outcome,
        duration_us: u64,
        /// Why a person should look before the run goes on, if a hook wants that.
        hold: Option<String>,
        tended: Tended,
    },
    /// Before a call had any effect, a hook wants a person's leave for it.
    ToolHeld {
        call: CallId,
        attempt: Attempt,
        why: String,
    },
    ToolChecked {
        call: CallId,
        attempt: Attempt,
        found: Found,
    },
    /// What the harness saw of the work.
    Examined {
        round: u32,
        attempt: Attempt,
        found: Box<Examination>,
    },
    /// What came of a question beside the conversation.
    AsideEnded {
        aside: Aside,
        attempt: Attempt,
        answer: Result<ModelReply, ModelFailure>,
    },
    /// A child came to rest.
    ChildRested {
        number: u32,
        report: ChildReport,
    },
    /// Something lies in the inbox of a child that waits for a person.
    ChildAnswered {
        number: u32,
    },
    Woke(Wake),
    /// It is time for a checkpoint, whatever is going on.
    CheckpointDue,
    /// The last append used the space kept in reserve.
    DiskLow,
    /// The journal begins in an older schema.
    OlderSchema {
        version: u16,
    },
    /// What the driving process has found to hold the agent's commands.
    Contained {
        by: String,
    },
    /// Other things must hold before an end counts.
    ChecksChanged {
        checks: Checks,
    },
    /// All runs together have used up what they may: what was about to be asked is not.
    OutOfBudget(Exhausted),
    /// Where the run works is not there any more: what was about to be asked is not.
    WorkspaceGone {
        why: String,
    },
    /// What stood in the worktree after so many steps was kept, or not.
    WorkKept {
        steps: u32,
        kept: Kept,
        tended: Tended,
    },
    /// The worktree was seen to before anything works there: a process that died may have left it half done.
    Tended(Tended),
    /// What stood in the workspace was stored, or not.
    FilesStored {
        stored: Stored,
        moment: Moment,
    },
    /// A fresh workspace is about to be prepared by these commands.
    SetUpStarted {
        commands: Vec<String>,
    },
    /// It was, or what went wrong.
    SetUpEnded {
        error: Option<String>,
        duration_us: u64,
    },
    /// What the run and those below it had used before it was taken back, and no journal of theirs tells any more.
    SpentBefore {
        usage: Usage,
    },
    /// The journal was opened, and bytes of an unfinished write at its end were cut.
    TornTail {
        bytes: u64,
    },
    /// A derived file could not be written.
    DerivedFailed {
        file: String,
        why: String,
    },
    /// The journal is kept in the fallback store, and why.
    FellBack {
        reason: String,
    },
}

/// What was done about the git directory of a run's worktree, after a command or a commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tended {
    /// What the user's repository has got, now or before.
    pub brought: Vec<Brought>,
    pub home: Home,
    /// What was broken and has been made anew.
    pub mended: Vec<String>,
}

/// What of a worktree is in the user's repository.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// Nobody has looked, or somebody else is about to see to it.
    #[default]
    NotLooked,
    /// All that there is on its branches.
    Complete,
    Lacking {
        why: String,
    },
}
