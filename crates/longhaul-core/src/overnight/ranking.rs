//! What came of each experiment, and which is worth looking at first.

use std::cmp::Ordering;

use serde::Serialize;

use super::{Experiment, Night, Outcome};

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "verdict")]
pub enum Verdict {
    /// The number is better than the base's, by so much, and all checks pass.
    Better {
        by: f64,
    },
    /// The checks pass, and did not on the base.
    Mended,
    /// The checks pass as before, and no number says whether it is better.
    Holds,
    /// The checks pass, and the number is not better than the base's.
    NoBetter {
        by: f64,
    },
    /// Its files are as they were.
    Unchanged,
    /// A check fails, or there is no number.
    Broken {
        why: String,
    },
    Unfinished {
        why: String,
    },
    Skipped {
        why: String,
    },
    /// It is not known yet.
    Open,
}

impl Verdict {
    pub fn as_str(&self) -> &'static str {
        match self {
            Verdict::Better { .. } => "better",
            Verdict::Mended => "mended",
            Verdict::Holds => "holds",
            Verdict::NoBetter { .. } => "no better",
            Verdict::Unchanged => "unchanged",
            Verdict::Broken { .. } => "broken",
            Verdict::Unfinished { .. } => "unfinished",
            Verdict::Skipped { .. } => "skipped",
            Verdict::Open => "open",
        }
    }

    /// Is it something that improved?
    pub fn is_improvement(&self) -> bool {
        matches!(self, Verdict::Better { .. } | Verdict::Mended)
    }

    /// What comes first in the morning.
    fn rank(&self) -> u8 {
        match self {
            Verdict::Better { .. } => 0,
            Verdict::Mended => 1,
            Verdict::Holds => 2,
            Verdict::NoBetter { .. } => 3,
            Verdict::Unchanged => 4,
            Verdict::Broken { .. } => 5,
            Verdict::Unfinished { .. } => 6,
            Verdict::Skipped { .. } => 7,
            Verdict::Open => 8,
        }
    }

    fn by(&self) -> f64 {
        match self {
            Verdict::Better { by } | Verdict::NoBetter { by } => *by,
            Verdict::Mended
            | Verdict::Holds
            | Verdict::Unchanged
            | Verdict::Broken { .. }
            | Verdict::Unfinished { .. }
            | Verdict::Skipped { .. }
            | Verdict::Open => 0.0,
        }
    }
}

impl Night {
    pub fn verdict(&self, experiment: &Experiment) -> Verdict {
        let changes = match &experiment.outcome {
            None => return Verdict::Open,
            Some(Outcome::Skipped { why }) => return Verdict::Skipped { why: why.clone() },
            Some(Outcome::Unfinished { why, .. }) => return Verdict::Unfinished { why: why.clone() },
            Some(Outcome::Finished { changes, .. }) => changes,
        };
        let (Some(base), Some(measured)) = (&self.base, &experiment.measured) else { return Verdict::Open };
        if changes.is_none() {
            return Verdict::Unchanged;
        }
        if let Some(check) = measured.failed_check() {
            return Verdict::Broken { why: format!("`{}` ended with {}", check.command, check.ended) };
        }
        let mended = base.failed_check().is_some();
        if self.order.metric.is_none() {
            return if mended { Verdict::Mended } else { Verdict::Holds };
        }
        let (Some(before), Some(after)) = (base.number(), measured.number()) else {
            let why = measured.metric_trouble.clone();
            return Verdict::Broken { why: why.unwrap_or_else(|| "the base has no number".to_owned()) };
        };
        let by = if self.order.minimize { before - after } else { after - before };
        match by.partial_cmp(&0.0) {
            Some(Ordering::Greater) => Verdict::Better { by },
            Some(Ordering::Less | Ordering::Equal) | None if mended => Verdict::Mended,
            Some(Ordering::Less | Ordering::Equal) | None => Verdict::NoBetter { by },
        }
    }

    /// All experiments by what came of them: the best first, then the cheaper, then the earlier.
    pub fn ranked(&self) -> Vec<(usize, Verdict)> {
        let mut all: Vec<(usize, Verdict)> =
            self.experiments.iter().map(|experiment| self.verdict(experiment)).enumerate().collect();
        let cost =
            |index: usize| self.experiments[index].outcome.as_ref().map(|outcome| outcome.spent().cost);
        all.sort_by(|(one, of_one), (other, of_other)| {
            let better_first = of_other.by().total_cmp(&of_one.by());
            let cheaper_first = cost(*one).cmp(&cost(*other));
            of_one.rank().cmp(&of_other.rank()).then(better_first).then(cheaper_first).then(one.cmp(other))
        });
        all
    }
}
