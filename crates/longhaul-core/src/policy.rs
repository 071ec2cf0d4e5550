//! What reaching a limit leads to. Every limit has a policy that holds without a word, and only those that make sense for it.

use std::fmt;
use std::str::FromStr;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::suggest;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// It is on record once, and the work goes on.
    #[n(0)]
    Warn,
    /// The run can be resumed with a higher limit.
    #[n(1)]
    Pause,
    /// The run fails; what it did stays.
    #[n(2)]
    Stop,
    /// The conversation is begun anew.
    #[n(3)]
    Restart,
}

/// A limit, by the name it has wherever it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Limit {
    ToolCalls,
    Steps,
    Tokens,
    Cost,
    Timeout,
    Iterations,
    IterationSteps,
    IterationTokens,
    IterationCost,
}

/// The policies that were chosen; where there is none, the limit's own holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Policies {
    #[n(0)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<Policy>,
    #[n(1)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<Policy>,
    #[n(2)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<Policy>,
    #[n(3)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Policy>,
    #[n(4)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Policy>,
    #[n(5)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<Policy>,
    #[n(6)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iteration_steps: Option<Policy>,
    #[n(7)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iteration_tokens: Option<Policy>,
    #[n(8)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iteration_cost: Option<Policy>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPolicy {
    #[error("there is no limit `{given}`{}; limits are {}", suggest::meant(given, &names()), names().join(", "))]
    Limit { given: String },
    #[error("there is no policy `{given}`{}; it is warn, pause, stop or restart", suggest::meant(given, &WORDS))]
    Policy { given: String },
    #[error("`{policy}` makes no sense for {limit}: {why}")]
    Nonsense { limit: Limit, policy: Policy, why: &'static str },
}

/// How a reason begins that is about money, before the limit's name.
pub(crate) const COST_BUDGET: &str = "cost_budget: ";

const WORDS: [&str; 4] = ["warn", "pause", "stop", "restart"];

impl Policy {
    pub fn as_str(self) -> &'static str {
        match self {
            Policy::Warn => "warn",
            Policy::Pause => "pause",
            Policy::Stop => "stop",
            Policy::Restart => "restart",
        }
    }
}

impl FromStr for Policy {
    type Err = BadPolicy;

    fn from_str(word: &str) -> Result<Policy, BadPolicy> {
        [Policy::Warn, Policy::Pause, Policy::Stop, Policy::Restart]
            .into_iter()
            .find(|policy| policy.as_str() == word)
            .ok_or_else(|| BadPolicy::Policy { given: word.to_owned() })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Limit {
    pub const ALL: [Limit; 9] = [
        Limit::ToolCalls,
        Limit::Steps,
        Limit::Tokens,
        Limit::Cost,
        Limit::Timeout,
        Limit::Iterations,
        Limit::IterationSteps,
        Limit::IterationTokens,
        Limit::IterationCost,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Limit::ToolCalls => "max_tool_calls",
            Limit::Steps => "max_steps",
            Limit::Tokens => "max_tokens",
            Limit::Cost => "max_cost",
            Limit::Timeout => "timeout",
            Limit::Iterations => "max_iterations",
            Limit::IterationSteps => "max_iteration_steps",
            Limit::IterationTokens => "max_iteration_tokens",
            Limit::IterationCost => "max_iteration_cost",
        }
    }

    /// Is it counted anew with every fresh conversation?
    pub fn is_of_one_iteration(self) -> bool {
        matches!(self, Limit::IterationSteps | Limit::IterationTokens | Limit::IterationCost)
    }

    /// What it leads to if nobody has chosen.
    pub fn own_policy(self) -> Policy {
        match self {
            Limit::ToolCalls | Limit::Steps | Limit::Tokens | Limit::Cost | Limit::Timeout => Policy::Pause,
            Limit::Iterations => Policy::Stop,
            Limit::IterationSteps | Limit::IterationTokens | Limit::IterationCost => Policy::Restart,
        }
    }

    /// Why a policy is not one for this limit; nothing if it is.
    fn objection(self, policy: Policy) -> Option<&'static str> {
        match (self, policy) {
            (Limit::Iterations, Policy::Warn) => Some("a loop that is only warned never ends"),
            (Limit::Iterations, Policy::Restart) => Some("a restart is another iteration, and none is left"),
            (
                Limit::ToolCalls | Limit::Steps | Limit::Tokens | Limit::Cost | Limit::Timeout,
                Policy::Restart,
            ) => Some(
                "it is counted over the whole run, which a fresh conversation does not change; limit one \
                 conversation with max_iteration_steps, max_iteration_tokens or max_iteration_cost",
            ),
            (_, Policy::Warn | Policy::Pause | Policy::Stop | Policy::Restart) => None,
        }
    }
}

impl FromStr for Limit {
    type Err = BadPolicy;

    fn from_str(name: &str) -> Result<Limit, BadPolicy> {
        let is_it = |limit: &Limit| limit.as_str() == name;
        Limit::ALL.into_iter().find(is_it).ok_or_else(|| BadPolicy::Limit { given: name.to_owned() })
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Policies {
    pub fn of(&self, limit: Limit) -> Policy {
        self.chosen(limit).unwrap_or_else(|| limit.own_policy())
    }

    /// The same with another policy for one limit, if that makes sense.
    pub fn with(mut self, limit: Limit, policy: Policy) -> Result<Policies, BadPolicy> {
        if let Some(why) = limit.objection(policy) {
            return Err(BadPolicy::Nonsense { limit, policy, why });
        }
        *self.place(limit) = Some(policy);
        Ok(self)
    }

    /// These where there is a choice, and `base` where there is none.
    #[must_use]
    pub fn over(&self, base: Policies) -> Policies {
        let mut both = base;
        for limit in Limit::ALL {
            if let Some(policy) = self.chosen(limit) {
                *both.place(limit) = Some(policy);
            }
        }
        both
    }

    pub fn check(&self) -> Result<(), BadPolicy> {
        for limit in Limit::ALL {
            if let Some(policy) = self.chosen(limit) {
                Policies::default().with(limit, policy)?;
            }
        }
        Ok(())
    }

    fn chosen(&self, limit: Limit) -> Option<Policy> {
        let mut copy = *self;
        *copy.place(limit)
    }

    fn place(&mut self, limit: Limit) -> &mut Option<Policy> {
        match limit {
            Limit::ToolCalls => &mut self.max_tool_calls,
            Limit::Steps => &mut self.max_steps,
            Limit::Tokens => &mut self.max_tokens,
            Limit::Cost => &mut self.max_cost,
            Limit::Timeout => &mut self.timeout,
            Limit::Iterations => &mut self.max_iterations,
            Limit::IterationSteps => &mut self.max_iteration_steps,
            Limit::IterationTokens => &mut self.max_iteration_tokens,
            Limit::IterationCost => &mut self.max_iteration_cost,
        }
    }
}

fn names() -> [&'static str; 9] {
    Limit::ALL.map(Limit::as_str)
}

#[cfg(test)]
mod tests {
    use super::{Limit, Policies, Policy};

    /// Each limit with the policies that are refused for it.
    #[test]
    fn nonsense_is_refused_by_name() {
        let refused = |limit: Limit| -> Vec<&str> {
            let all = [Policy::Warn, Policy::Pause, Policy::Stop, Policy::Restart];
            let wrong = |policy: &Policy| Policies::default().with(limit, *policy).is_err();
            all.into_iter().filter(wrong).map(Policy::as_str).collect()
        };
        for limit in Limit::ALL {
            let expected = match (limit == Limit::Iterations, limit.is_of_one_iteration()) {
                (true, _) => vec!["warn", "restart"],
                (false, true) => vec![],
                (false, false) => vec!["restart"],
            };
            assert_eq!(refused(limit), expected, "{limit}");
            assert!(Policies::default().with(limit, limit.own_policy()).is_ok(), "{limit}");
        }
        let error = Policies::default().with(Limit::Cost, Policy::Restart).unwrap_err().to_string();
        assert!(error.starts_with("`restart` makes no sense for max_cost: it is counted over"), "{error}");
    }

    #[test]
    fn what_is_mistyped_is_told() {
        let limit = "max_cots".parse::<Limit>().unwrap_err().to_string();
        assert!(limit.starts_with("there is no limit `max_cots` (did you mean `max_cost`?)"), "{limit}");
        let policy = "puase".parse::<Policy>().unwrap_err().to_string();
        assert!(policy.starts_with("there is no policy `puase` (did you mean `pause`?)"), "{policy}");
    }

    #[test]
    fn a_choice_goes_over_another() {
        let user =
            Policies { max_cost: Some(Policy::Stop), timeout: Some(Policy::Warn), ..Policies::default() };
        let agent = Policies { max_cost: Some(Policy::Pause), ..Policies::default() };
        let both = agent.over(user);
        assert_eq!((both.of(Limit::Cost), both.of(Limit::Timeout)), (Policy::Pause, Policy::Warn));
        assert_eq!(
            (both.of(Limit::Iterations), both.of(Limit::IterationCost)),
            (Policy::Stop, Policy::Restart)
        );
    }
}
