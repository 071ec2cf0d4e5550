//! What a night may use, and how it is split: what is left is shared out evenly over what has not begun, so that what one experiment
//! did not need is there for the others.

use std::iter::Sum;

use serde::{Deserialize, Serialize};

use super::Night;
use crate::money::Usd;

/// What a night, or one run of it, may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Means {
    pub max_cost: Option<Usd>,
    /// Time in which agents work; waiting for a person does not count.
    pub timeout_ms: u64,
}

/// What was used, or is set aside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spent {
    pub cost: Usd,
    pub worked_ms: u64,
    /// Tokens whose price nobody knows.
    #[serde(default)]
    pub unpriced_tokens: u64,
}

impl Spent {
    /// The cost for people: one that is not known is not nothing.
    pub fn shown(self) -> String {
        match (self.unpriced_tokens, self.cost) {
            (0, cost) => cost.to_string(),
            (_, Usd::ZERO) => "an unknown amount".to_owned(),
            (_, cost) => format!("{cost} and an unknown amount"),
        }
    }
}

impl Sum for Spent {
    fn sum<I: Iterator<Item = Spent>>(all: I) -> Spent {
        all.fold(Spent::default(), |mut sum, spent| {
            sum.cost += spent.cost;
            sum.worked_ms = sum.worked_ms.saturating_add(spent.worked_ms);
            sum.unpriced_tokens = sum.unpriced_tokens.saturating_add(spent.unpriced_tokens);
            sum
        })
    }
}

impl Means {
    /// One of `parts` even shares of what is left after `gone`; the error says what has run out.
    pub fn share(self, gone: Spent, parts: u64) -> Result<Means, &'static str> {
        let max_cost = self.max_cost.map(|max| max.less(gone.cost).share(parts));
        let timeout_ms = self.timeout_ms.saturating_sub(gone.worked_ms) / parts.max(1);
        if max_cost == Some(Usd::ZERO) {
            return Err("the night's money is used up");
        }
        if timeout_ms == 0 {
            return Err("the night's time is used up");
        }
        Ok(Means { max_cost, timeout_ms })
    }
}

impl Night {
    /// What one more run may use, while runs that have begun and not ended hold `held`. Before there are ideas, as many experiments
    /// are thought of as were asked for, so that thinking of them takes one share.
    pub fn share(&self, held: Spent, begun: usize) -> Result<Means, &'static str> {
        let gone = [self.spent(), held].into_iter().sum();
        let parts = match self.preparing {
            None => u64::from(self.order.experiments) + 1,
            Some(_) => self.experiments.len().saturating_sub(begun) as u64,
        };
        self.order.means.share(gone, parts)
    }
}
