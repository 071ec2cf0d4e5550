//! What may be typed when a run is created, by whichever command.

use std::path::PathBuf;
use std::time::Duration;

use longhaul_core::collaboration::Way;
use longhaul_core::conduct::Looping;
use longhaul_core::money::Usd;
use longhaul_core::policy::{Limit, Policies, Policy};
use longhaul_core::spec::{Limits, Mode};

use crate::autonomy::RhythmArgs;
use crate::commands::conduct::ConductArgs;
use crate::duration;
use crate::failure::Failure;

/// The agent that is meant when none is named.
pub const DEFAULT_AGENT: &str = "coder";

/// What a run is created with; the same for `create` and `run`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Agent to work with, as `longhaul agents list` shows them; any other name gets the default prompt and all tools
    #[arg(long, default_value = DEFAULT_AGENT, value_name = "NAME")]
    pub agent: String,
    /// Model, as provider/model; more than one are fallbacks, in this order [default: see `longhaul models list`]
    #[arg(long, value_name = "P/M")]
    pub model: Vec<String>,
    /// What the run is for: exec works, review may only look, complete answers once without tools
    #[arg(long, default_value = "exec", value_name = "MODE")]
    pub mode: ModeArg,
    /// With `--mode complete`: an answer in JSON that fits the schema in this file; one that does not exits with 1
    #[arg(long, value_name = "FILE")]
    pub answer_schema: Option<PathBuf>,
    /// 1 and 2 ask before every step, 3 before critical ones, 4 and 5 never
    #[arg(long, value_name = "1..5")]
    pub autonomy: Option<u8>,
    /// Steps from a YAML or JSON file, `auto` to have the agent `planner` make them, or `none` for one step
    #[arg(long, default_value = "none", value_name = "auto|none|FILE")]
    pub plan: String,
    /// How many steps and sub-agents may be at work at once [default: 4, with steps of the run's own agent one by one]
    ///
    /// Steps that do not depend on each other are done side by side, in the same directory. Steps of the run's own agent
    /// share its conversation and come one after another, unless this is given and more than 1.
    #[arg(long, value_name = "N")]
    pub parallel: Option<u32>,
    /// What a call that needs a person leads to: the run waits, the call is denied, or the run pauses [default: wait;
    /// deny with autonomy 5]
    #[arg(long, value_name = "wait|deny|pause")]
    pub on_ask: Option<OnAskArg>,
    /// Tools for each call of which a person must give leave, by name
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub ask: Vec<String>,
    /// Tools the agent may call, instead of those its file names; `SERVER__*` is all of an MCP server
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    pub tools: Option<Vec<String>>,
    /// Work in the current directory instead of a workspace of the run's own
    #[arg(long)]
    pub in_place: bool,
    /// Begin with what is not committed here, tracked and untracked but not ignored; your checkout stays as it is
    #[arg(long, conflicts_with = "in_place")]
    pub with_changes: bool,
    /// Work where the earlier runs of this session worked; a new name begins one. One run at a time
    #[arg(long, value_name = "NAME", conflicts_with = "in_place")]
    pub session: Option<String>,
    /// With `--session`: also if another run of it is paused or waits there
    #[arg(long, requires = "session")]
    pub force: bool,
    /// How it works together with other runs of its session [default: git.collaboration, sequential]
    ///
    /// sequential: on the session's branch, one run at a time, each seeing what those before it committed. parallel: each on a
    /// branch (agent/SESSION/AGENT) and in a worktree of its own, any number at once, also its sub-agents;
    /// `longhaul merge --session NAME` brings the branches together.
    #[arg(long, value_name = "sequential|parallel", conflicts_with = "in_place")]
    pub collaboration: Option<Way>,
    /// The run of a workflow this is part of, by any name: its runs work in one place, one after another
    #[arg(long, value_name = "NAME", conflicts_with = "in_place")]
    pub workflow_run: Option<String>,
    /// Work on this repository instead of the one here: https, ssh (also git@host:path), or a path
    #[arg(long, value_name = "URL", conflicts_with_all = ["in_place", "with_changes"])]
    pub repo: Option<String>,
    /// With `--repo`: the branch, tag or commit to begin at [default: what the repository would check out]
    #[arg(long = "ref", value_name = "REF", requires = "repo")]
    pub reference: Option<String>,
    /// With `--repo`: only so many commits of its history
    #[arg(long, value_name = "N", requires = "repo", value_parser = clap::value_parser!(u32).range(1..))]
    pub depth: Option<u32>,
    /// Keep the run in the engine, or `off` in the SQLite fallback
    #[arg(long, default_value = "on", value_name = "on|off")]
    pub engine: Switch,
    /// The caller's own name for the task
    #[arg(long, value_name = "ID")]
    pub task_id: Option<String>,
    /// How long one tool call may take, unless it asks for more (at most ten minutes)
    #[arg(long, value_name = "MS")]
    pub tool_timeout_ms: Option<u64>,
    #[command(flatten)]
    pub rhythm: RhythmArgs,
    #[command(flatten)]
    pub conduct: ConductArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    /// Iterations until a promise is kept; only `loop` has them.
    #[arg(skip)]
    pub looping: Option<Looping>,
    /// Was it said how many iterations there may be?
    #[arg(skip)]
    pub iterations_typed: bool,
    /// The commit a worktree begins with, instead of what is checked out.
    #[arg(skip)]
    pub commit: Option<String>,
}

impl Options {
    /// What is meant when nothing else is typed, for runs that are made by other commands.
    pub fn of(agent: String) -> Options {
        Options {
            agent,
            model: Vec::new(),
            mode: ModeArg::Exec,
            answer_schema: None,
            autonomy: None,
            plan: "none".to_owned(),
            parallel: None,
            on_ask: None,
            ask: Vec::new(),
            tools: None,
            in_place: false,
            with_changes: false,
            session: None,
            force: false,
            collaboration: None,
            workflow_run: None,
            repo: None,
            reference: None,
            depth: None,
            engine: Switch::On,
            task_id: None,
            tool_timeout_ms: None,
            rhythm: RhythmArgs::default(),
            conduct: ConductArgs::default(),
            limits: LimitArgs::default(),
            looping: None,
            iterations_typed: false,
            commit: None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    On,
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OnAskArg {
    Wait,
    Deny,
    Pause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ModeArg {
    Exec,
    Review,
    Complete,
}

impl ModeArg {
    pub fn mode(self) -> Mode {
        match self {
            ModeArg::Exec => Mode::Exec,
            ModeArg::Review => Mode::Review,
            ModeArg::Complete => Mode::Complete,
        }
    }
}

/// Limits that can be given when a run is created and when it is resumed.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
pub struct LimitArgs {
    /// Tool calls the run may make
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_tool_calls: Option<u32>,
    /// Turns of the model the run may take
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_steps: Option<u32>,
    /// Tokens the run may use
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_tokens: Option<u64>,
    /// US dollars the run may spend
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    pub max_cost: Option<f64>,
    /// How long the run may work, like `90s`, `30m` or `2h`; the time it is paused or waits for a person does not count
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// How deep sub-agents may nest
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_sub_agent_depth: Option<u32>,
    /// Turns of one conversation, after which it is begun anew
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_iteration_steps: Option<u32>,
    /// Tokens of one conversation, after which it is begun anew
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub max_iteration_tokens: Option<u64>,
    /// US dollars one conversation may cost, after which it is begun anew
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    pub max_iteration_cost: Option<f64>,
    /// How long nothing may be heard of a sub-agent that is at work, like `30m`; it is then ended, and tried once more
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub max_child_idle: Option<Duration>,
    /// What reaching a limit leads to: warn, pause, stop or restart, like `max_cost=stop`. May be given several times
    #[arg(long, value_name = "LIMIT=POLICY", value_parser = limit_policy)]
    pub limit_policy: Vec<(Limit, Policy)>,
}

impl LimitArgs {
    /// The same as it would be typed, for another process.
    pub fn typed(&self) -> Vec<String> {
        let given = [
            ("--max-tool-calls", self.max_tool_calls.map(|max| max.to_string())),
            ("--max-steps", self.max_steps.map(|max| max.to_string())),
            ("--max-tokens", self.max_tokens.map(|max| max.to_string())),
            ("--max-cost", self.max_cost.map(|max| max.to_string())),
            ("--timeout", self.timeout.map(|time| format!("{}ms", time.as_millis()))),
            ("--max-sub-agent-depth", self.max_sub_agent_depth.map(|max| max.to_string())),
            ("--max-iteration-steps", self.max_iteration_steps.map(|max| max.to_string())),
            ("--max-iteration-tokens", self.max_iteration_tokens.map(|max| max.to_string())),
            ("--max-iteration-cost", self.max_iteration_cost.map(|max| max.to_string())),
            ("--max-child-idle", self.max_child_idle.map(|time| format!("{}ms", time.as_millis()))),
        ];
        let policies =
            self.limit_policy.iter().map(|(limit, policy)| format!("--limit-policy={limit}={policy}"));
        let given = given.into_iter().filter_map(|(flag, value)| Some(format!("{flag}={}", value?)));
        given.chain(policies).collect()
    }

    /// `base` with what was given; `None` if nothing was.
    pub fn over(&self, base: Limits) -> Result<Option<Limits>, Failure> {
        let policies = self.limit_policy.iter().try_fold(
            base.policies.unwrap_or_default(),
            |policies, (limit, policy)| {
                policies
                    .with(*limit, *policy)
                    .map_err(|error| Failure::usage(format!("--limit-policy: {error}")))
            },
        )?;
        let limits = Limits {
            max_tool_calls: self.max_tool_calls.unwrap_or(base.max_tool_calls),
            max_steps: self.max_steps.unwrap_or(base.max_steps),
            max_tokens: self.max_tokens.or(base.max_tokens),
            max_cost: dollars("--max-cost", self.max_cost)?.or(base.max_cost),
            max_sub_agent_depth: self.max_sub_agent_depth.unwrap_or(base.max_sub_agent_depth),
            timeout_ms: self.timeout.map(|time| time.as_millis() as u64).or(base.timeout_ms),
            policies: (policies != Policies::default()).then_some(policies),
            max_iteration_steps: self.max_iteration_steps.or(base.max_iteration_steps),
            max_iteration_tokens: self.max_iteration_tokens.or(base.max_iteration_tokens),
            max_iteration_cost: dollars("--max-iteration-cost", self.max_iteration_cost)?
                .or(base.max_iteration_cost),
            max_child_idle_ms: self
                .max_child_idle
                .map(|time| time.as_millis() as u64)
                .or(base.max_child_idle_ms),
        };
        let typed = Limits {
            max_steps: self.max_steps.unwrap_or(1),
            max_tokens: self.max_tokens,
            max_sub_agent_depth: self.max_sub_agent_depth.unwrap_or(0),
            ..Limits::default()
        };
        // What a sub-agent was given as its part stays as it is, whatever is typed beside it.
        typed.check_whole().and(limits.check()).map_err(|error| Failure::usage(error.to_string()))?;
        Ok((limits != base).then_some(limits))
    }
}

fn limit_policy(text: &str) -> Result<(Limit, Policy), String> {
    let (limit, policy) = text.split_once('=').ok_or("give a limit and a policy, like `max_cost=stop`")?;
    let pair = (limit.parse::<Limit>(), policy.parse::<Policy>());
    match pair {
        (Ok(limit), Ok(policy)) => {
            Policies::default().with(limit, policy).map_err(|error| error.to_string())?;
            Ok((limit, policy))
        }
        (Err(error), _) | (_, Err(error)) => Err(error.to_string()),
    }
}

fn dollars(flag: &str, given: Option<f64>) -> Result<Option<Usd>, Failure> {
    let wrong = |amount: f64| Failure::usage(format!("{flag} {amount} is not an amount of dollars"));
    given.map(|amount| Usd::from_dollars(amount).ok_or_else(|| wrong(amount))).transpose()
}
