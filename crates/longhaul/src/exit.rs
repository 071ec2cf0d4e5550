//! Exit codes: what a script learns without reading a word.

use std::process::ExitCode;

use longhaul_core::event::Cause;
use longhaul_core::run::Run;
use longhaul_core::status::{Status, Wait};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok,
    Failed,
    Usage,
    Waiting,
    Limit,
    RateLimited,
    Frozen,
    Held,
    Interrupted,
}

impl Exit {
    pub fn number(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Waiting => 3,
            Exit::Limit => 4,
            Exit::RateLimited => 5,
            Exit::Frozen => 6,
            Exit::Held => 7,
            Exit::Interrupted => 130,
        }
    }

    /// What driving a run to where it stands exits with.
    pub fn of_run(run: &Run) -> Exit {
        match run.status {
            Status::Completed => Exit::Ok,
            Status::Failed if run.cause == Some(Cause::Limit) => Exit::Limit,
            Status::Failed => Exit::Failed,
            Status::Created => Exit::Waiting,
            Status::Paused => Exit::of_pause(run.cause.unwrap_or(Cause::Asked)),
            Status::Running => match run.wait() {
                Wait::RateLimit => Exit::RateLimited,
                Wait::Frozen => Exit::Frozen,
                Wait::None | Wait::Human | Wait::Timer | Wait::Child => Exit::Waiting,
            },
        }
    }

    fn of_pause(cause: Cause) -> Exit {
        match cause {
            Cause::Limit => Exit::Limit,
            Cause::Provider => Exit::RateLimited,
            Cause::Asked
            | Cause::Finished
            | Cause::DiskFull
            | Cause::Rejected
            | Cause::Error
            | Cause::Parked
            | Cause::Stuck => Exit::Waiting,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}
