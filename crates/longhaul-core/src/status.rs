//! The five statuses of a run and the only ways between them.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    #[n(0)]
    Created,
    #[n(1)]
    Running,
    #[n(2)]
    Paused,
    #[n(3)]
    Completed,
    #[n(4)]
    Failed,
}

/// What a running run is waiting for, if not for its own model or tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    #[default]
    #[n(0)]
    None,
    #[n(1)]
    Human,
    #[n(2)]
    Timer,
    #[n(3)]
    RateLimit,
    #[n(4)]
    Frozen,
    #[n(5)]
    Child,
}

impl Status {
    pub const ALL: [Status; 5] =
        [Status::Created, Status::Running, Status::Paused, Status::Completed, Status::Failed];

    /// A terminal status is never left again.
    pub fn is_terminal(self) -> bool {
        match self {
            Status::Created | Status::Running | Status::Paused => false,
            Status::Completed | Status::Failed => true,
        }
    }

    pub fn may_become(self, next: Status) -> bool {
        matches!(
            (self, next),
            (Status::Created | Status::Paused, Status::Running)
                | (Status::Running, Status::Paused | Status::Completed | Status::Failed)
                | (Status::Paused, Status::Failed)
        )
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Status::Created => "created",
            Status::Running => "running",
            Status::Paused => "paused",
            Status::Completed => "completed",
            Status::Failed => "failed",
        }
    }

    /// What people call a run in this status that waits for that: the one place for these words, whoever says them. One that
    /// goes on only after a person's word is not at work, whatever its status says.
    pub fn called(self, wait: Wait) -> &'static str {
        match (self, wait) {
            (Status::Running, Wait::Human) => "waiting for a person",
            (Status::Running, Wait::Timer) => "waiting to try again",
            (Status::Running, Wait::RateLimit) => "waiting for the rate limit",
            (Status::Running, Wait::Frozen) => "frozen",
            (Status::Running, Wait::Child) => "running (sub-agents at work)",
            (Status::Running, Wait::None) => "running",
            (Status::Created | Status::Paused | Status::Completed | Status::Failed, _) => self.as_str(),
        }
    }

    pub fn parse(text: &str) -> Option<Status> {
        Status::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

impl Wait {
    pub fn as_str(self) -> &'static str {
        match self {
            Wait::None => "none",
            Wait::Human => "human",
            Wait::Timer => "timer",
            Wait::RateLimit => "rate_limit",
            Wait::Frozen => "frozen",
            Wait::Child => "child",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
