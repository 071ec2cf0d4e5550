//! What a run was asked to be: fixed when it is created, except for limits, which may be raised.

use std::sync::LazyLock;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::collaboration::{Collaboration, Home, Isolation, Strategy, Way};
use crate::conduct::{BadConduct, Conduct};
use crate::ids::RunId;
use crate::json::Json;
use crate::limits;
use crate::money::Usd;
use crate::permission::{BadRule, Permissions};
use crate::plan::{BadPlan, Plan, Step};
use crate::policy::{BadPolicy, Limit, Policies, Policy};
use crate::suggest;
use crate::tool::{EffectClass, RetryPolicy, ToolGrant};

#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunSpec {
    #[n(0)]
    pub id: RunId,
    #[n(1)]
    pub agent: String,
    #[n(2)]
    pub task: String,
    /// The caller's own name for the task, e.g. of a task list; the run's id when there is none.
    #[n(3)]
    pub task_id: String,
    /// Provider and model, `scripted/demo.yaml`.
    #[n(4)]
    pub model: String,
    /// The agent's system prompt.
    #[n(5)]
    pub prompt: String,
    #[n(6)]
    pub plan: Plan,
    #[n(7)]
    pub autonomy: Autonomy,
    #[n(8)]
    pub limits: Limits,
    #[n(9)]
    pub retry: RetryPolicy,
    #[n(10)]
    pub tools: Vec<ToolGrant>,
    /// The directory the agent works in.
    #[n(11)]
    pub workspace: String,
    #[n(12)]
    pub parent: Option<RunId>,
    #[n(13)]
    pub depth: u32,
    #[n(14)]
    pub session: Option<String>,
    #[n(15)]
    pub checkpoint_interval_ms: u64,
    /// The branch of the worktree the run works on, if it has one of its own.
    #[n(16)]
    pub branch: Option<String>,
    /// The repository that worktree belongs to.
    #[n(17)]
    pub repository: Option<String>,
    /// Whether the run may be kept in the engine; without a word it may.
    #[n(18)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_enabled: Option<bool>,
    /// The models the agent may use, in order of preference; `model` is the one in use.
    #[n(19)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<Vec<String>>,
    /// What kind of work the run is; without a word it may do everything.
    #[n(20)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// The answer must be JSON of this schema.
    #[n(21)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_schema: Option<Json>,
    /// What happens when a call needs a person; without a word it waits.
    #[n(22)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_ask: Option<OnAsk>,
    /// What the agent may do: the user's rules, then those that tighten them. Without a word there are none.
    #[n(23)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Vec<Permissions>>,
    /// How the agent is kept on course; without a word, by the defaults.
    #[n(24)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conduct: Option<Box<Conduct>>,
    /// How many steps and sub-agents may be at work at once. Without a word, steps of this very agent come one after another.
    #[n(25)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parallel: Option<u32>,
    /// The agents that errands may be given to, as they were known when the run was created.
    #[n(26)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crew: Option<Vec<Mate>>,
    /// Whoever makes the plan, if it is not given.
    #[n(27)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planner: Option<Box<Planner>>,
    /// The commit its worktree begins with; without a word, what was checked out when it was made.
    #[n(33)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Does that commit hold what the user had not committed?
    #[n(34)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub carried: Option<bool>,
    /// Is its work committed for it? Without a word it is not.
    #[n(35)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_commit: Option<bool>,
    /// The run whose protected files this one is held to: an earlier try at the same.
    #[n(37)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_of: Option<RunId>,
    /// The repository its workspace was made from, if that was not the user's own.
    #[n(36)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Box<GitSource>>,
    /// What its agent may use at most, whatever part of its sender's budget is given to it.
    #[n(38)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent_caps: Option<Caps>,
    /// How its branch goes together with those of others; without a word nobody else is at work where it works.
    #[n(39)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collaboration: Option<Box<Collaboration>>,
    /// The run of a workflow that it is part of, as whoever started it calls it.
    #[n(40)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow_run: Option<String>,
    /// With whom it shares where it works; without a word, with its workflow.
    #[n(41)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Isolation>,
    /// The stored files that a fork was made with; without a word it began with what stood where it works.
    #[n(42)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun_with: Option<String>,
}

/// A repository that is brought from elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GitSource {
    #[n(0)]
    pub url: String,
    /// The branch, tag or commit that was asked for.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// So many commits of its history, if not all.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Where what was fetched of it is kept.
    #[n(3)]
    pub store: String,
}

/// An agent that errands may be given to.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mate {
    #[n(0)]
    pub name: String,
    /// What it is good for, in a line.
    #[n(1)]
    pub role: String,
}

/// Whoever is asked for a plan.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Planner {
    /// The run's own without a word.
    #[n(0)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[n(1)]
    pub prompt: String,
}

/// What a call that needs a person's answer leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum OnAsk {
    /// The run waits, however long.
    #[default]
    #[n(0)]
    Wait,
    /// The call is refused, and the agent told that nobody is there.
    #[n(1)]
    Deny,
    /// The run waits, paused.
    #[n(2)]
    Pause,
}

/// What a run is for. The mode is fixed at creation and shows in what the agent may call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Works: all tools.
    #[default]
    #[n(0)]
    Exec,
    /// Looks and judges: only tools that change nothing.
    #[n(1)]
    Review,
    /// Answers once: no tools unless they are named.
    #[n(2)]
    Complete,
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Exec => "exec",
            Mode::Review => "review",
            Mode::Complete => "complete",
        }
    }

    /// May an agent in this mode have a tool of that class?
    pub fn allows(self, class: EffectClass) -> bool {
        match self {
            Mode::Exec => true,
            Mode::Review | Mode::Complete => class == EffectClass::Repeatable,
        }
    }
}

/// How much a person is asked: 1 and 2 before every step, 3 before critical ones, 4 and 5 not at all.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(transparent)]
#[serde(try_from = "u8", into = "u8")]
pub struct Autonomy(#[n(0)] u8);

/// Where a run stops by itself. Reaching one keeps the work: the run pauses, or the call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Limits {
    #[n(0)]
    pub max_tool_calls: u32,
    /// Turns over the whole run; `max_steps` keeps its name from agent files.
    #[n(1)]
    pub max_steps: u32,
    #[n(2)]
    pub max_tokens: Option<u64>,
    #[n(3)]
    pub max_cost: Option<Usd>,
    #[n(4)]
    pub max_sub_agent_depth: u32,
    /// How long it may work, not counting the time it was paused.
    #[n(5)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// What reaching one leads to, where that is not what it leads to by itself.
    #[n(10)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policies: Option<Policies>,
    /// Turns of one conversation; without a word reaching it begins a fresh one.
    #[n(11)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iteration_steps: Option<u32>,
    /// Tokens of one conversation.
    #[n(12)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iteration_tokens: Option<u64>,
    /// What one conversation may cost.
    #[n(13)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iteration_cost: Option<Usd>,
    /// How long nothing may be heard of a sub-agent that is at work, before it is ended and tried again.
    #[n(14)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_child_idle_ms: Option<u64>,
}

/// What an agent's own file allows it to use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Caps {
    #[n(0)]
    pub max_tokens: Option<u64>,
    #[n(1)]
    pub max_cost: Option<Usd>,
}

impl RunSpec {
    /// The same, taken in by somebody who did not make it: what is to be done stays as it was given, where that happens and what
    /// it may do is `own`, and of what both bound, the lower.
    #[must_use]
    pub fn taken_in(self, own: RunSpec) -> RunSpec {
        let granted = |grant: ToolGrant| {
            let here = own.tools.iter().find(|here| here.name == grant.name)?;
            let ask = here.ask.filter(|ask| *ask).or(grant.ask);
            Some(ToolGrant { ask, ..here.clone() })
        };
        RunSpec {
            tools: self.tools.into_iter().filter_map(granted).collect(),
            autonomy: self.autonomy.min(own.autonomy),
            limits: self.limits.lowered(&own.limits),
            id: self.id,
            agent: self.agent,
            task: self.task,
            task_id: self.task_id,
            model: self.model,
            models: self.models,
            prompt: self.prompt,
            plan: self.plan,
            planner: self.planner,
            retry: self.retry,
            depth: self.depth,
            checkpoint_interval_ms: self.checkpoint_interval_ms,
            mode: self.mode,
            answer_schema: self.answer_schema,
            on_ask: self.on_ask,
            conduct: self.conduct,
            parallel: self.parallel,
            crew: self.crew,
            agent_caps: self.agent_caps,
            ..own
        }
    }
}

impl Limits {
    /// Of each limit the lower; what reaching one leads to is for `other` to say.
    #[must_use]
    pub fn lowered(self, other: &Limits) -> Limits {
        let least = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
        let cheapest = |one: Option<Usd>, other: Option<Usd>| one.into_iter().chain(other).min();
        let max_iteration_steps = self.max_iteration_steps.into_iter().chain(other.max_iteration_steps).min();
        Limits {
            max_tool_calls: self.max_tool_calls.min(other.max_tool_calls),
            max_steps: self.max_steps.min(other.max_steps),
            max_tokens: least(self.max_tokens, other.max_tokens),
            max_cost: cheapest(self.max_cost, other.max_cost),
            max_sub_agent_depth: self.max_sub_agent_depth.min(other.max_sub_agent_depth),
            timeout_ms: least(self.timeout_ms, other.timeout_ms),
            policies: other.policies,
            max_iteration_steps,
            max_iteration_tokens: least(self.max_iteration_tokens, other.max_iteration_tokens),
            max_iteration_cost: cheapest(self.max_iteration_cost, other.max_iteration_cost),
            max_child_idle_ms: least(self.max_child_idle_ms, other.max_child_idle_ms),
        }
    }

    pub fn policy(&self, limit: Limit) -> Policy {
        self.policies.unwrap_or_default().of(limit)
    }

    /// Does reaching it keep anybody from going on?
    pub fn holds(&self, limit: Limit) -> bool {
        self.policy(limit) != Policy::Warn
    }

    /// Is there more of that than before, or does it stop no run any more?
    pub fn goes_beyond(&self, before: &Limits, limit: Limit) -> bool {
        let most = |limits: &Limits| limits.amount(limit).unwrap_or(u64::MAX);
        self.policy(limit) != Policy::Stop || most(self) > most(before)
    }

    /// How much of that there may be, if it is limited here: a loop has its iterations elsewhere.
    fn amount(&self, limit: Limit) -> Option<u64> {
        match limit {
            Limit::ToolCalls => Some(self.max_tool_calls.into()),
            Limit::Steps => Some(self.max_steps.into()),
            Limit::Tokens => self.max_tokens,
            Limit::Cost => self.max_cost.map(Usd::as_nanos),
            Limit::Timeout => self.timeout_ms,
            Limit::Iterations => None,
            Limit::IterationSteps => self.max_iteration_steps.map(u64::from),
            Limit::IterationTokens => self.max_iteration_tokens,
            Limit::IterationCost => self.max_iteration_cost.map(Usd::as_nanos),
        }
    }

    /// Refuses what makes no sense.
    pub fn check(&self) -> Result<(), BadSpec> {
        self.policies.unwrap_or_default().check()?;
        let (min, max) = (limits::CHILD_IDLE_MS_MIN, limits::CHILD_IDLE_MS_MAX);
        if self.max_child_idle_ms.is_some_and(|idle_ms| !(min..=max).contains(&idle_ms)) {
            return Err(BadSpec::OutOfRange { field: "max_child_idle in milliseconds", min, max });
        }
        // A conversation of no turns would be begun anew for ever.
        let nothing = [
            (Limit::IterationSteps, self.max_iteration_steps == Some(0)),
            (Limit::IterationTokens, self.max_iteration_tokens == Some(0)),
        ];
        match nothing.iter().find(|(_, is_nothing)| *is_nothing) {
            Some((limit, _)) => Err(BadSpec::NoRoom { limit: *limit }),
            None => Ok(()),
        }
    }

    /// Refuses also what nobody would set for a whole run. A part of a run's budget may well be nothing.
    pub fn check_whole(&self) -> Result<(), BadSpec> {
        let nothing = [(Limit::Steps, self.max_steps == 0), (Limit::Tokens, self.max_tokens == Some(0))];
        if let Some((limit, _)) = nothing.into_iter().find(|(_, is_nothing)| *is_nothing) {
            return Err(BadSpec::NoRoom { limit });
        }
        let max = u64::from(limits::SUB_AGENT_DEPTH_MAX);
        if u64::from(self.max_sub_agent_depth) > max {
            return Err(BadSpec::OutOfRange { field: "max_sub_agent_depth", min: 0, max });
        }
        self.check()
    }

    /// Is money limited, so that prices must be known?
    pub fn limit_cost(&self) -> bool {
        self.max_cost.is_some() || self.max_iteration_cost.is_some()
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_tool_calls: 100,
            max_steps: 200,
            max_tokens: None,
            max_cost: None,
            max_sub_agent_depth: 3,
            timeout_ms: None,
            policies: None,
            max_iteration_steps: None,
            max_iteration_tokens: None,
            max_iteration_cost: None,
            max_child_idle_ms: None,
        }
    }
}

impl Default for Autonomy {
    /// Unattended work is what longhaul is for, so by default no step waits for a person.
    fn default() -> Autonomy {
        Autonomy(4)
    }
}

impl Autonomy {
    pub fn new(level: u8) -> Option<Autonomy> {
        (1..=5).contains(&level).then_some(Autonomy(level))
    }

    pub fn level(self) -> u8 {
        self.0
    }

    /// Must a person approve before a step of this kind starts?
    pub fn gates(self, critical: bool) -> bool {
        match self.0 {
            1 | 2 => true,
            3 => critical,
            _ => false,
        }
    }

    /// Is a person asked about a command that could not be judged? Where nobody is expected the agent is told to put it
    /// more plainly, which it can do by itself, and the night goes on.
    pub fn asks_in_doubt(self) -> bool {
        self.0 <= 3
    }
}

impl TryFrom<u8> for Autonomy {
    type Error = String;
    fn try_from(level: u8) -> Result<Autonomy, String> {
        Autonomy::new(level).ok_or_else(|| format!("autonomy is 1 to 5, not {level}"))
    }
}

impl From<Autonomy> for u8 {
    fn from(autonomy: Autonomy) -> u8 {
        autonomy.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSpec {
    #[error("{field} may not be empty")]
    Empty { field: &'static str },
    #[error("{field} is longer than {max} bytes")]
    TooLong { field: &'static str, max: usize },
    #[error("{field} must be at most {max}")]
    TooMuch { field: &'static str, max: u64 },
    #[error("{field} must be {min} to {max}")]
    OutOfRange { field: &'static str, min: u64, max: u64 },
    #[error(transparent)]
    Plan(#[from] BadPlan),
    #[error(transparent)]
    Rule(#[from] BadRule),
    #[error(transparent)]
    Conduct(#[from] BadConduct),
    #[error("steps[{index}].assignedAgent: there is no agent `{agent}`{guess}")]
    UnknownAgent { index: usize, agent: String, guess: String },
    #[error("limit policies: {0}")]
    Policy(#[from] BadPolicy),
    #[error("{limit} must be at least 1")]
    NoRoom { limit: Limit },
}

impl RunSpec {
    /// Does it work beside other runs of its session, on a branch of its own?
    pub fn is_parallel(&self) -> bool {
        self.collaboration.as_ref().is_some_and(|collaboration| collaboration.way == Way::Parallel)
    }

    /// What the branches of those begin with that it sends to work apart from it, if they do.
    pub fn family(&self) -> Option<&str> {
        let collaboration = self.collaboration.as_ref()?;
        let apart = collaboration.way == Way::Parallel || collaboration.strategy == Strategy::PerAgent;
        apart.then_some(collaboration.family.as_str())
    }

    /// Where it works, as far as that is shared with others.
    pub fn home(&self) -> Home<'_> {
        let isolation = self.isolation.unwrap_or_default();
        isolation.home(self.session.as_deref(), self.workflow_run.as_deref())
    }

    pub fn may_use_engine(&self) -> bool {
        self.engine_enabled.unwrap_or(true)
    }

    pub fn on_ask(&self) -> OnAsk {
        self.on_ask.unwrap_or_default()
    }

    /// The rules its calls are held to.
    pub fn rules(&self) -> &[Permissions] {
        self.permissions.as_deref().unwrap_or(&[])
    }

    pub fn conduct(&self) -> &Conduct {
        static WITHOUT_A_WORD: LazyLock<Conduct> = LazyLock::new(Conduct::default);
        self.conduct.as_deref().unwrap_or(&WITHOUT_A_WORD)
    }

    /// How long nothing may be heard of a sub-agent that is at work. Without a word, longer than any one call may take.
    pub fn max_child_idle_ms(&self) -> u64 {
        let longest_call = self.retry.timeout_ms.saturating_mul(2);
        self.limits.max_child_idle_ms.unwrap_or(limits::CHILD_IDLE_MS_DEFAULT.max(longest_call))
    }

    pub fn mode(&self) -> Mode {
        self.mode.unwrap_or_default()
    }

    /// The model to try after the one in use, going round, of those that are not `unusable`.
    pub fn next_model(&self, unusable: &[String]) -> Option<&str> {
        let models = self.models.as_deref().unwrap_or(&[]);
        let current = models.iter().position(|model| *model == self.model);
        let after = current.map_or(0, |index| index + 1);
        let round = models.iter().skip(after).chain(models);
        let usable = |model: &&String| !unusable.contains(*model) && **model != self.model;
        round.filter(usable).map(String::as_str).next()
    }

    /// The same with another plan. This one is not copied: it may be long, and many may be made after it.
    #[must_use]
    pub fn with_plan(&self, plan: Plan) -> RunSpec {
        RunSpec {
            plan,
            id: self.id.clone(),
            agent: self.agent.clone(),
            task: self.task.clone(),
            task_id: self.task_id.clone(),
            model: self.model.clone(),
            prompt: self.prompt.clone(),
            autonomy: self.autonomy,
            limits: self.limits,
            retry: self.retry,
            tools: self.tools.clone(),
            workspace: self.workspace.clone(),
            parent: self.parent.clone(),
            depth: self.depth,
            session: self.session.clone(),
            checkpoint_interval_ms: self.checkpoint_interval_ms,
            branch: self.branch.clone(),
            repository: self.repository.clone(),
            engine_enabled: self.engine_enabled,
            models: self.models.clone(),
            mode: self.mode,
            answer_schema: self.answer_schema.clone(),
            on_ask: self.on_ask,
            permissions: self.permissions.clone(),
            conduct: self.conduct.clone(),
            parallel: self.parallel,
            crew: self.crew.clone(),
            planner: self.planner.clone(),
            base: self.base.clone(),
            carried: self.carried,
            auto_commit: self.auto_commit,
            source: self.source.clone(),
            baseline_of: self.baseline_of.clone(),
            agent_caps: self.agent_caps,
            collaboration: self.collaboration.clone(),
            workflow_run: self.workflow_run.clone(),
            isolation: self.isolation,
            begun_with: self.begun_with.clone(),
        }
    }

    /// Everything a run must satisfy before it may exist.
    pub fn check(&self) -> Result<(), BadSpec> {
        for (field, text) in [("agent", &self.agent), ("task", &self.task), ("model", &self.model)] {
            if text.trim().is_empty() {
                return Err(BadSpec::Empty { field });
            }
        }
        for (field, text) in [("task", &self.task), ("prompt", &self.prompt), ("agent", &self.agent)] {
            if text.len() > limits::TEXT_BYTES_MAX {
                return Err(BadSpec::TooLong { field, max: limits::TEXT_BYTES_MAX });
            }
        }
        if self.retry.max_retries > limits::RETRIES_MAX {
            return Err(BadSpec::TooMuch { field: "retries", max: u64::from(limits::RETRIES_MAX) });
        }
        if self.retry.base_backoff_ms > limits::BACKOFF_BASE_MS_MAX {
            return Err(BadSpec::TooMuch { field: "backoff", max: limits::BACKOFF_BASE_MS_MAX });
        }
        if !(1..=limits::TOOL_TIMEOUT_MS_MAX).contains(&self.retry.timeout_ms) {
            return Err(BadSpec::TooMuch {
                field: "a tool's timeout (from 1 ms)",
                max: limits::TOOL_TIMEOUT_MS_MAX,
            });
        }
        self.rules().iter().try_for_each(Permissions::check)?;
        self.conduct().check()?;
        match self.parent {
            None => self.limits.check_whole()?,
            Some(_) => self.limits.check()?,
        }
        self.plan.check()?;
        if self.parallel.is_some_and(|parallel| !(1..=limits::PARALLEL_MAX).contains(&parallel)) {
            let max = u64::from(limits::PARALLEL_MAX);
            return Err(BadSpec::OutOfRange { field: "parallel", min: 1, max });
        }
        self.check_agents(&self.plan)
    }

    /// Is every step of the plan for an agent that can be had?
    pub fn check_agents(&self, plan: &Plan) -> Result<(), BadSpec> {
        let unknown = |step: &Step| !self.knows(&step.agent);
        let Some((index, step)) = plan.steps.iter().enumerate().find(|(_, step)| unknown(step)) else {
            return Ok(());
        };
        let names = self.crew().iter().map(|mate| mate.name.as_str());
        let guess = suggest::closest(&step.agent, &names.collect::<Vec<_>>())
            .map_or_else(String::new, |name| format!("; did you mean `{name}`?"));
        Err(BadSpec::UnknownAgent { index, agent: step.agent.clone(), guess })
    }

    /// The agents that errands may be given to.
    pub fn crew(&self) -> &[Mate] {
        self.crew.as_deref().unwrap_or(&[])
    }

    /// Can that agent be given something to do?
    pub fn knows(&self, agent: &str) -> bool {
        agent == self.agent || self.crew().iter().any(|mate| mate.name == agent)
    }
}
