//! What all runs of one state directory may use together: in one day, and ever. Counting is somebody else's; whether there
//! is enough for another question is decided here.

use crate::conversation::Usage;
use crate::money::Usd;
use crate::time::Timestamp;

/// Without a word there is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    pub day: Allowance,
    pub repo: Allowance,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    pub max_cost: Option<Usd>,
    pub max_tokens: Option<u64>,
}

/// What was used, and what questions under way may still use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub day: Usage,
    pub repo: Usage,
    pub under_way: Usage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    Day,
    Repo,
}

/// A budget that leaves nothing for another question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exhausted {
    pub scope: Scope,
    /// `max_cost` or `max_tokens`.
    pub limit: &'static str,
    pub spent: String,
    pub max: String,
}

impl Budget {
    pub fn is_unlimited(&self) -> bool {
        *self == Budget::default()
    }

    /// Is money limited, so that prices must be known?
    pub fn limits_cost(&self) -> bool {
        self.day.max_cost.is_some() || self.repo.max_cost.is_some()
    }

    /// What could not be counted leaves nothing.
    pub fn uncounted(&self, why: &str) -> Option<Exhausted> {
        let (scope, allowance) =
            if self.looks_back() { (Scope::Repo, self.repo) } else { (Scope::Day, self.day) };
        let spent = format!("an unknown amount ({why})");
        let cost = allowance.max_cost.map(|max| ("max_cost", max.to_string()));
        let (limit, max) = cost.or_else(|| Some(("max_tokens", allowance.max_tokens?.to_string())))?;
        Some(Exhausted { scope, limit, spent, max })
    }

    /// Does anything count that is older than today?
    pub fn looks_back(&self) -> bool {
        self.repo != Allowance::default()
    }

    /// The budget that has no room for what is under way, the question that is about to be asked included.
    pub fn exhausted(&self, account: &Account) -> Option<Exhausted> {
        let day = self.day.exhausted(Scope::Day, &account.day, &account.under_way);
        day.or_else(|| self.repo.exhausted(Scope::Repo, &account.repo, &account.under_way))
    }
}

impl Allowance {
    fn exhausted(&self, scope: Scope, used: &Usage, under_way: &Usage) -> Option<Exhausted> {
        let told = |spent: String, next: String, is_over: bool| {
            if is_over { spent } else { format!("{spent} (what is being asked would take about {next})") }
        };
        if let Some(max) = self.max_cost {
            let both: Usd = [used.cost, under_way.cost].into_iter().sum();
            let spent = match used.unpriced_tokens {
                0 if both > max || used.cost >= max => {
                    Some(told(used.cost.to_string(), under_way.cost.to_string(), used.cost >= max))
                }
                0 => None,
                // What has no known price uses up any amount.
                _ => Some(format!("{} and an unknown amount", used.cost)),
            };
            if let Some(spent) = spent {
                return Some(Exhausted { scope, limit: "max_cost", spent, max: max.to_string() });
            }
        }
        let (tokens, next) = (used.tokens(), under_way.tokens());
        let max = self.max_tokens.filter(|max| tokens >= *max || tokens.saturating_add(next) > *max)?;
        let spent = told(tokens.to_string(), next.to_string(), tokens >= max);
        Some(Exhausted { scope, limit: "max_tokens", spent, max: max.to_string() })
    }
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Day => "day",
            Scope::Repo => "repo",
        }
    }
}

impl Exhausted {
    /// As it stands in the settings, without `harness.budget.`.
    pub fn name(&self) -> String {
        format!("{}.{}", self.scope.as_str(), self.limit)
    }

    /// Which budget, how much of it is used, and how to go on.
    pub fn reason(&self) -> String {
        let Exhausted { spent, max, .. } = self;
        let (name, scope) = (self.name(), self.scope.as_str());
        let (when, later) = match self.scope {
            Scope::Day => ("today (UTC)", ", or resume tomorrow"),
            Scope::Repo => ("so far", ""),
        };
        format!(
            "{scope}_budget: {name} reached: {spent} of {max} used {when} by all runs here; raise \
             harness.budget.{name}{later}"
        )
    }
}

/// Which day it is, in UTC: what is spent belongs to the day on which its answer came.
pub fn day_of(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(24 * 3_600_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(nanos: u64, tokens: u64) -> Usage {
        Usage { input_tokens: tokens, cost: Usd::from_nanos(nanos), ..Usage::default() }
    }

    /// A budget holds what is used and what is under way; the day is looked at first.
    #[test]
    fn a_budget_has_room_or_not() {
        let day = Allowance { max_cost: Some(Usd::from_nanos(100)), max_tokens: None };
        let repo = Allowance { max_cost: None, max_tokens: Some(50) };
        let budget = Budget { day, repo };
        let name = |day, repo, under_way| {
            budget.exhausted(&Account { day, repo, under_way }).map(|exhausted| exhausted.name())
        };
        let none = Usage::default();
        assert_eq!(name(none, none, none), None);
        assert_eq!(name(used(60, 1), used(60, 1), used(40, 1)), None);
        assert_eq!(name(used(60, 1), used(60, 1), used(41, 1)).as_deref(), Some("day.max_cost"));
        assert_eq!(name(used(100, 1), used(100, 1), none).as_deref(), Some("day.max_cost"));
        assert_eq!(name(none, used(900, 45), used(0, 5)), None);
        assert_eq!(name(none, used(900, 45), used(0, 6)).as_deref(), Some("repo.max_tokens"));
        assert_eq!(name(none, used(0, 50), none).as_deref(), Some("repo.max_tokens"));
        let unpriced = Usage { unpriced_tokens: 1, ..none };
        assert_eq!(name(unpriced, unpriced, none).as_deref(), Some("day.max_cost"));
        assert_eq!(Budget::default().exhausted(&Account { day: unpriced, ..Account::default() }), None);
    }

    #[test]
    fn a_day_ends_at_midnight() {
        let at = |text: &str| day_of(Timestamp::parse(text).unwrap());
        assert_eq!(at("2026-02-20T23:59:59.999Z") + 1, at("2026-02-21T00:00:00.000Z"));
        assert_eq!(day_of(Timestamp::from_millis(-1)), -1);
    }
}
