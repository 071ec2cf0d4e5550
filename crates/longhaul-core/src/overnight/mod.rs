//! Overnight evolution: a night of experiments on one repository, each a run of its own, measured and ranked by the morning.
//!
//! Owns what is known of a night and what comes next in it: prepare, experiments, evaluate, report. Refuses to do any of it: a night
//! is a value, and whoever does something for it says how it ended. [`means`] splits what may be spent, [`ideas`] asks for
//! experiments and reads the answer, [`ranking`] says what came of each, [`report`] tells it in the morning.

pub mod ideas;
pub mod means;
pub mod ranking;
pub mod report;

use serde::{Deserialize, Serialize};

use crate::event::Cause;
use crate::evidence::Check;
use crate::ids::{BadId, RunId};
use crate::limits::PREPARE_ATTEMPTS_MAX;
use crate::run::Run;
use crate::status::Status;
use crate::time::Timestamp;

use self::ideas::Idea;
use self::means::Spent;

/// Everything that is known of a night and is in no run's journal. Written whole at the end of every piece of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Night {
    pub id: String,
    pub created_at: Timestamp,
    pub order: Order,
    /// What was wrong with each list of ideas so far.
    pub misfits: Vec<String>,
    /// What preparing has used; known once there are ideas.
    pub preparing: Option<Spent>,
    /// How the repository measures as it is.
    pub base: Option<Measured>,
    pub experiments: Vec<Experiment>,
    pub end: Option<End>,
}

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Order {
    pub objective: String,
    pub experiments: u32,
    /// Commands that must succeed on an experiment's files.
    pub verify: Vec<String>,
    /// A command that prints a number.
    pub metric: Option<String>,
    /// Is less of it better?
    pub minimize: bool,
    pub protect: Vec<String>,
    pub means: means::Means,
    pub agent: String,
    pub models: Vec<String>,
    pub autonomy: Option<u8>,
    pub repository: String,
    /// The commit that every experiment begins with.
    pub commit: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Experiment {
    pub idea: Idea,
    pub outcome: Option<Outcome>,
    pub measured: Option<Measured>,
}

/// How the work on an experiment ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "status")]
pub enum Outcome {
    /// Its run completed; `said` is what the agent said last.
    Finished { said: String, spent: Spent, changes: Option<String> },
    /// Its run failed, reached its limit, was rejected or does not go on by itself.
    Unfinished { why: String, spent: Spent },
    /// It never began.
    Skipped { why: String },
}

impl Outcome {
    pub fn spent(&self) -> Spent {
        match self {
            Outcome::Finished { spent, .. } | Outcome::Unfinished { spent, .. } => *spent,
            Outcome::Skipped { .. } => Spent::default(),
        }
    }
}

/// What the harness saw when it ran the commands itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Measured {
    pub checks: Vec<Check>,
    /// The number as it was printed. As text, so that it is the same number after it was written and read.
    pub metric: Option<String>,
    /// Why there is no number, if one was asked for.
    pub metric_trouble: Option<String>,
}

impl Measured {
    /// From all checks that were made, of which the last that ran `metric` is about the number.
    pub fn of(mut checks: Vec<Check>, metric: Option<&str>) -> Measured {
        let at = metric.and_then(|metric| checks.iter().rposition(|check| check.command == metric));
        let Some(at) = at else {
            let metric_trouble = metric.map(|_| "the metric command was not run".to_owned());
            return Measured { checks, metric: None, metric_trouble };
        };
        let check = checks.remove(at);
        let number = check.output.as_str().lines().rev().map(str::trim).find(|line| !line.is_empty());
        let number = number.filter(|text| text.parse::<f64>().is_ok_and(f64::is_finite));
        let metric_trouble = match number {
            _ if !check.passed => Some(format!("the metric command ended with {}", check.ended)),
            None => Some("the last line that the metric command printed is no number".to_owned()),
            Some(_) => None,
        };
        let metric = number.filter(|_| metric_trouble.is_none()).map(str::to_owned);
        Measured { checks, metric, metric_trouble }
    }

    pub fn number(&self) -> Option<f64> {
        self.metric.as_ref()?.parse().ok()
    }

    pub fn failed_check(&self) -> Option<&Check> {
        self.checks.iter().find(|check| !check.passed)
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    pub at: Timestamp,
    /// Why it was given up, if it was.
    pub gave_up: Option<String>,
}

/// Where a night stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Prepare,
    Experiments,
    Evaluate,
    Report,
    Over,
}

impl Phase {
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Prepare => "prepare",
            Phase::Experiments => "experiments",
            Phase::Evaluate => "evaluate",
            Phase::Report => "report",
            Phase::Over => "over",
        }
    }
}

/// What is to be done next. Experiments are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask for ideas, for the n-th time, from 1.
    Prepare {
        attempt: u32,
    },
    /// Two answers were no list of ideas.
    GiveUp,
    MeasureBase,
    Experiment(usize),
    Measure(usize),
    Report,
    /// Experiments that were set aside must end first.
    Wait,
    Nothing,
}

impl Night {
    pub fn phase(&self) -> Phase {
        match self.next(&[]) {
            Next::Prepare { .. } | Next::GiveUp | Next::MeasureBase => Phase::Prepare,
            Next::Experiment(_) | Next::Wait => Phase::Experiments,
            Next::Measure(_) => Phase::Evaluate,
            Next::Report => Phase::Report,
            Next::Nothing => Phase::Over,
        }
    }

    /// What is next, with these experiments left where they stand.
    pub fn next(&self, set_aside: &[usize]) -> Next {
        if self.end.is_some() {
            return Next::Nothing;
        }
        if self.preparing.is_none() {
            let attempt = self.misfits.len() as u32 + 1;
            return if attempt > PREPARE_ATTEMPTS_MAX { Next::GiveUp } else { Next::Prepare { attempt } };
        }
        if self.base.is_none() {
            return Next::MeasureBase;
        }
        let open = |index: &usize| self.experiments[*index].outcome.is_none();
        let mut all_open = (0..self.experiments.len()).filter(open).peekable();
        if all_open.peek().is_some() {
            return all_open.find(|index| !set_aside.contains(index)).map_or(Next::Wait, Next::Experiment);
        }
        let unmeasured = |experiment: &Experiment| {
            matches!(experiment.outcome, Some(Outcome::Finished { .. })) && experiment.measured.is_none()
        };
        self.experiments.iter().position(unmeasured).map_or(Next::Report, Next::Measure)
    }

    /// The run that is asked for ideas, the n-th time. Made from the night's name, so that one that was begun is found again.
    pub fn preparing_run(&self, attempt: u32) -> Result<RunId, BadId> {
        RunId::parse(&format!("{}-p{attempt}", self.id))
    }

    /// The run of an experiment; people count from 1.
    pub fn run_of(&self, index: usize) -> Result<RunId, BadId> {
        RunId::parse(&format!("{}-{}", self.id, index + 1))
    }

    /// What everything that has ended has used.
    pub fn spent(&self) -> Spent {
        let ended = self.experiments.iter().filter_map(|experiment| experiment.outcome.as_ref());
        ended.map(Outcome::spent).chain(self.preparing).sum()
    }
}

/// How a run that nobody drives stands, for the night it is part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It can be driven.
    Open,
    Completed,
    /// It is over for this night, though a person may still go on with it.
    Over {
        why: String,
    },
}

/// A night does not wait for what only a person can put right, but for answers and for what was paused from outside.
pub fn standing(run: &Run) -> Standing {
    let why = run.error.as_ref().or(run.reason.as_ref());
    let over =
        |word: &str| Standing::Over { why: why.map_or(word.to_owned(), |why| format!("{word}: {why}")) };
    match run.status {
        Status::Completed => Standing::Completed,
        Status::Failed if run.cause == Some(Cause::Limit) => over("it reached a limit"),
        Status::Failed => over("it failed"),
        Status::Created | Status::Running => Standing::Open,
        Status::Paused if run.gates.iter().any(|gate| gate.answer.is_none()) => Standing::Open,
        Status::Paused => match run.cause.unwrap_or(Cause::Asked) {
            Cause::Limit => over("it reached a limit"),
            Cause::Rejected => over("a person rejected it"),
            Cause::Stuck => over("it was stuck"),
            Cause::Error => over("it broke off"),
            Cause::Asked | Cause::Finished | Cause::DiskFull | Cause::Provider | Cause::Parked => {
                Standing::Open
            }
        },
    }
}

#[cfg(test)]
mod tests;
