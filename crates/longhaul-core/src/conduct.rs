//! How an agent is kept on course: how long it goes on, what must hold before it may end, and what it is held from.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::limits;

/// What a run was told about its own conduct. Everything has a default, so that a run without a word behaves well too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Conduct {
    /// Iterations until a promise is kept; without it the first final answer ends a step.
    #[n(0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub looping: Option<Looping>,
    /// Commands that must succeed before an end counts.
    #[n(1)]
    #[cbor(default)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<String>,
    #[n(2)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect: Option<Protect>,
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// So often in a row may nothing but the same call be tried (`doom_loop_threshold`).
    #[n(4)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats_max: Option<u32>,
    #[n(5)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<Judge>,
    /// Only the bare loop of model and tools: no compaction, no watching for repetition (`harness: ""`).
    #[n(6)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plain: Option<bool>,
    #[n(7)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surroundings: Option<Surroundings>,
}

/// Fresh context again and again, until the promise is kept.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Looping {
    #[n(0)]
    pub max_iterations: u32,
    /// What the agent says when the work is done, and only then.
    #[n(1)]
    pub promise: String,
    /// A cheaper model that sums each iteration up for the next.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summarizer: Option<String>,
    /// The work is a list of features, each of which passes or does not.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<bool>,
}

impl Looping {
    pub fn is_by_features(&self) -> bool {
        self.features.unwrap_or(false)
    }
}

impl Default for Looping {
    fn default() -> Looping {
        Looping { max_iterations: 10, promise: "TASK_COMPLETE".to_owned(), summarizer: None, features: None }
    }
}

/// Files the agent is not to change: tests, the configuration of the gate.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protect {
    #[n(0)]
    pub globs: Vec<String>,
    #[n(1)]
    pub policy: ProtectPolicy,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum ProtectPolicy {
    /// The result says which were changed.
    #[default]
    #[n(0)]
    Report,
    /// They are put back, and the agent is told.
    #[n(1)]
    Refuse,
}

/// When and how a conversation is made shorter.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Compaction {
    #[n(0)]
    pub enabled: bool,
    /// Percent of the window from which on it is done.
    #[n(1)]
    pub threshold: u32,
    /// So much of the end stays word for word.
    #[n(2)]
    pub protect_tokens: u64,
    /// The model that writes the summary; the run's own without a word.
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summarizer: Option<String>,
}

impl Default for Compaction {
    fn default() -> Compaction {
        Compaction { enabled: true, threshold: 85, protect_tokens: 40_000, summarizer: None }
    }
}

/// A second opinion before an end counts, by a model that only reads.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Judge {
    #[n(0)]
    pub model: String,
    /// What must be true of the work.
    #[n(1)]
    #[cbor(default)]
    #[serde(default)]
    pub acceptance: Vec<String>,
}

/// What must hold before an end counts, where it is to be changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Checks {
    #[n(0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Vec<String>>,
    #[n(1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<Judge>,
}

/// What the agent is told of where it works, as it was when the run was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Surroundings {
    /// Machine and workspace, in lines.
    #[n(0)]
    pub environment: String,
    /// The repository's own rules for agents, word for word.
    #[n(1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<String>,
    /// The files those rules stand in.
    #[n(2)]
    #[cbor(default)]
    pub rule_files: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadConduct {
    #[error("the completion promise may not be empty")]
    NoPromise,
    #[error("the completion promise must be one line of at most {max} bytes", max = limits::PROMISE_BYTES_MAX)]
    LongPromise,
    #[error("{field} must be from {min} to {max}, not {given}")]
    OutOfRange { field: &'static str, min: u64, max: u64, given: u64 },
    #[error("a verify command may not be empty")]
    EmptyVerify,
    #[error("there may be at most {max} {what}")]
    TooMany { what: &'static str, max: usize },
}

impl Conduct {
    pub fn is_plain(&self) -> bool {
        self.plain.unwrap_or(false)
    }

    pub fn compaction(&self) -> Compaction {
        let compaction = self.compaction.clone().unwrap_or_default();
        Compaction { enabled: compaction.enabled && !self.is_plain(), ..compaction }
    }

    /// How often the same call may be tried in a row; nothing if nobody watches.
    pub fn repeats_max(&self) -> Option<u32> {
        (!self.is_plain()).then(|| self.repeats_max.unwrap_or(limits::REPEATS_MAX_DEFAULT))
    }

    /// The same with other checks.
    #[must_use]
    pub fn checked_by(mut self, checks: Checks) -> Conduct {
        self.verify = checks.verify.unwrap_or(self.verify);
        self.judge = checks.judge.or(self.judge);
        self
    }

    /// Models that are asked beside the run's own.
    pub fn other_models(&self) -> impl Iterator<Item = &str> {
        let judge = self.judge.as_ref().map(|judge| judge.model.as_str());
        let of_loop = self.looping.as_ref().and_then(|looping| looping.summarizer.as_deref());
        let of_compaction = self.compaction.as_ref().and_then(|compaction| compaction.summarizer.as_deref());
        judge.into_iter().chain(of_loop).chain(of_compaction)
    }

    /// Must the workspace be looked at before an end counts?
    pub fn examines(&self) -> bool {
        self.looping.is_some()
            || !self.verify.is_empty()
            || self.protect.as_ref().is_some_and(|protect| !protect.globs.is_empty())
            || self.judge.is_some()
    }

    pub fn check(&self) -> Result<(), BadConduct> {
        let range = |field, given: u64, min: u64, max: u64| {
            if (min..=max).contains(&given) {
                Ok(())
            } else {
                Err(BadConduct::OutOfRange { field, min, max, given })
            }
        };
        if let Some(looping) = &self.looping {
            check_promise(&looping.promise)?;
            range("max_iterations", looping.max_iterations.into(), 1, limits::ITERATIONS_MAX.into())?;
        }
        if self.verify.iter().any(|command| command.trim().is_empty()) {
            return Err(BadConduct::EmptyVerify);
        }
        if self.verify.len() > limits::VERIFY_COMMANDS_MAX {
            return Err(BadConduct::TooMany { what: "verify commands", max: limits::VERIFY_COMMANDS_MAX });
        }
        if self.protect.as_ref().is_some_and(|protect| protect.globs.len() > limits::PROTECT_GLOBS_MAX) {
            return Err(BadConduct::TooMany { what: "protected globs", max: limits::PROTECT_GLOBS_MAX });
        }
        if let Some(compaction) = &self.compaction {
            range("compaction.threshold (percent)", compaction.threshold.into(), 10, 95)?;
        }
        match self.repeats_max {
            Some(max) => range("doom_loop_threshold", max.into(), 2, limits::REPEATS_MAX_MAX.into()),
            None => Ok(()),
        }
    }
}

fn check_promise(promise: &str) -> Result<(), BadConduct> {
    if promise.trim().is_empty() {
        return Err(BadConduct::NoPromise);
    }
    let is_one_line = !promise.contains(['\n', '\r']) && promise.len() <= limits::PROMISE_BYTES_MAX;
    is_one_line.then_some(()).ok_or(BadConduct::LongPromise)
}
