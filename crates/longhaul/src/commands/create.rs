//! `create`: a run in status created, from arguments, agent file and settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_agents::Origin;
use longhaul_core::collaboration::{Isolation, Way};
use longhaul_core::conduct::{Looping, Surroundings};
use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::money::Usd;
use longhaul_core::plan::{Draft, Plan};
use longhaul_core::policy::{Limit, Policies, Policy};
use longhaul_core::run::Run;
use longhaul_core::spec::{Autonomy, BadSpec, Limits, Mode, OnAsk, Planner, RunSpec};
use longhaul_core::tool::ToolGrant;
use longhaul_core::view::RunView;
use longhaul_engine::{Error as EngineError, Harness};
use longhaul_workspace::place;

use super::conduct::{self, ConductArgs};
use super::{placing, replan, session, workspace};
use crate::agents;
use crate::app::{App, repository};
use crate::autonomy::RhythmArgs;
use crate::branch;
use crate::choice;
use crate::crew;
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::CONTEXT_WINDOW_MIN;
use crate::misread;
use crate::render;
use crate::schema;
use crate::servers;
use crate::settings::{Settings, Source};

/// The plan is to be made.
pub const AUTO: &str = "auto";

/// The agent that makes plans.
const PLANNER: &str = "planner";

/// The agent that is meant when none is named.
const DEFAULT_AGENT: &str = "coder";

/// Create a run without starting it; prints its id
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What is to be done
    #[arg(long, value_name = "TEXT")]
    pub task: String,
    #[command(flatten)]
    pub options: Options,
}

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

/// Whoever chose never to be asked is not asked.
fn on_ask(typed: Option<OnAskArg>, autonomy: Autonomy) -> Option<OnAsk> {
    match typed {
        Some(OnAskArg::Wait) => Some(OnAsk::Wait),
        Some(OnAskArg::Deny) => Some(OnAsk::Deny),
        Some(OnAskArg::Pause) => Some(OnAsk::Pause),
        None => (autonomy.level() == 5).then_some(OnAsk::Deny),
    }
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

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    if !settings.enabled {
        return Err(Failure::usage(
            "harness.enabled is false: a run that leaves no trace cannot be created for later",
        )
        .hint("use `longhaul run`, or enable the harness"));
    }
    refuse_without_model(app, &settings, &args.options)?;
    servers::meet(app, &settings, &app.sandbox(settings.permissions.clone())?, &args.options)?;
    let harness = app.harness()?;
    let mut run = create(app, &harness, &settings, &args.task, &args.options)?;
    if run.spec.planner.is_some() {
        run = replan::make(&harness, &run.spec.id)?;
    }
    if app.json() {
        render::json(&RunView::of(&run));
    } else {
        render::data(run.spec.id.as_str());
    }
    Ok(Exit::Ok)
}

/// Refuses a run that there is no model for before a state directory is made for it.
pub fn refuse_without_model(app: &App, settings: &Settings, options: &Options) -> Result<(), Failure> {
    if app.state_dir.exists() || !options.model.is_empty() {
        return Ok(());
    }
    let agent = agents::find(&settings.agent_dirs, &options.agent)?;
    let settings = &agents::over(settings, &agent)?;
    if agent.models.is_empty() && settings.model.is_none() {
        choice::silently(settings, &app.models(settings))?;
    }
    Ok(())
}

/// Makes the run; everything is checked before anything is written.
pub fn create(
    app: &App,
    harness: &Harness,
    settings: &Settings,
    task: &str,
    options: &Options,
) -> Result<Run, Failure> {
    let id = harness.new_run_id()?;
    // Two that are created at once must not be given the same branch.
    let named = session::naming(app, settings, options)?;
    let spec = spec(app, harness, settings, task, options, id)?;
    let run = made(app, harness, spec, |error| in_plan_file(app, options, error))?;
    drop(named);
    placing::make_working_branch(&settings.git, &run)?;
    if run.spec.task != task {
        render::warn("a key stands in the task; it was struck out, and neither kept nor sent");
    }
    Ok(run)
}

/// Makes the run that was spelled out.
pub fn made(
    app: &App,
    harness: &Harness,
    spec: RunSpec,
    told: impl FnOnce(longhaul_engine::Error) -> Failure,
) -> Result<Run, Failure> {
    let models = spec.models.clone().unwrap_or_else(|| vec![spec.model.clone()]);
    for name in models.iter().map(String::as_str).chain(spec.conduct().other_models()) {
        check_model(harness, name, &spec.limits)?;
    }
    let run = harness.create(spec).map_err(told)?;
    warn_of_fallback(&run);
    session::note(app, &run)?;
    servers::keep_met(app)?;
    Ok(run)
}

/// Nobody watches a run come into being, so whoever made it says where it is kept.
pub fn warn_of_fallback(run: &Run) {
    if let Some(reason) = &run.fallback {
        render::warn(&format!("kept in the fallback store: {reason}"));
    }
}

/// A model that cannot be had is better said now than when somebody starts the run, and so is a budget that could not be
/// kept.
pub(super) fn check_model(harness: &Harness, name: &str, limits: &Limits) -> Result<(), Failure> {
    let model = harness
        .models
        .resolve(name)
        .map_err(|source| longhaul_engine::Error::Model { name: name.to_owned(), source })?;
    if limits.limit_cost() && !model.is_priced() {
        return Err(longhaul_engine::Error::Unpriced { name: name.to_owned() }.into());
    }
    let window = model.context_window();
    if window < CONTEXT_WINDOW_MIN {
        return Err(Failure::usage(format!(
            "model {name} has a context window of {window} tokens, and no work fits into less than {CONTEXT_WINDOW_MIN}"
        ))
        .hint("`context_window` is in tokens: 32000, 200000"));
    }
    Ok(())
}

/// What the run would be; nothing is written.
pub fn spec(
    app: &App,
    harness: &Harness,
    settings: &Settings,
    task: &str,
    options: &Options,
    id: RunId,
) -> Result<RunSpec, Failure> {
    let agent = agents::find(&settings.agent_dirs, &options.agent)?;
    if agent.origin == Origin::Default {
        let name = &options.agent;
        render::warn(&format!(
            "there is no agent file {name}.md: {name} gets the default prompt and the default tools{}",
            agents::meant(&settings.agent_dirs, name)
                .map(|meant| format!("; did you mean `{meant}`?"))
                .unwrap_or_default()
        ));
    }
    if options.model.is_empty() {
        agents::check_models(&agent, &harness.models)?;
    }
    let settings = &agents::over(settings, &agent)?;
    let models = models(app, harness, settings, options, agent.models.clone())?;
    let model = models.first().cloned().unwrap_or_default();
    let mode = options.mode.mode();
    let autonomy = match options.autonomy {
        Some(level) => Autonomy::new(level)
            .ok_or_else(|| Failure::usage(format!("--autonomy is 1 to 5, not {level}")))?,
        None => settings.autonomy,
    };
    let plan = match options.plan.as_str() {
        "none" | AUTO => Plan::single(task, &agent.name),
        file => read_plan(&app.cwd.join(file), &agent.name)?,
    };
    let planner = (options.plan == AUTO).then(|| planner(app, settings)).transpose()?;
    let mut tools = tools(harness, mode, options.tools.clone(), agent.tools.clone())?;
    for name in &options.ask {
        let grant = tools.iter_mut().find(|grant| grant.name == *name);
        let none = || Failure::usage(format!("--ask {name}: the agent has no such tool"));
        grant.ok_or_else(none)?.ask = Some(true);
    }
    let naming = branch::Naming { git: &settings.git, task, agent: &agent.name, id: &id };
    if !options.in_place {
        workspace::refuse_over_quota(app, settings.retention)?;
    }
    let place = placing::place(app, settings, options, &naming)?;
    let keeps = place.branch.is_some();
    if place.collaboration.is_some() && !settings.git.auto_commit && options.plan != "none" {
        render::warn(
            "git.auto_commit is off: agents with a branch of their own begin at what is committed, without what this run's own steps \
             have left",
        );
    }
    let surroundings = surroundings(app, &place);
    let looping = options.looping.clone().map(|looping| match agent.limits.max_iterations {
        Some(max_iterations) if !options.iterations_typed => Looping { max_iterations, ..looping },
        Some(_) | None => looping,
    });
    let conduct = conduct::settled(app, settings, &options.conduct, &agent, looping, surroundings)?;
    let mut retry = settings.retry;
    retry.timeout_ms = options.tool_timeout_ms.unwrap_or(retry.timeout_ms);
    Ok(RunSpec {
        task_id: options.task_id.clone().unwrap_or_else(|| id.to_string()),
        agent: agent.name,
        task: task.to_owned(),
        model,
        prompt: agent.prompt,
        plan,
        autonomy,
        limits: limits(settings, options, mode)?,
        retry,
        tools,
        workspace: place.path.display().to_string(),
        branch: place.branch,
        repository: place.repository.map(|path| path.display().to_string()),
        engine_enabled: (options.engine == Switch::Off).then_some(false),
        models: (models.len() > 1).then_some(models),
        mode: (mode != Mode::Exec).then_some(mode),
        answer_schema: answer_schema(app, options)?,
        on_ask: on_ask(options.on_ask, autonomy),
        permissions: Some(settings.rules.layers()),
        conduct: Some(Box::new(conduct)),
        base: place.base,
        carried: place.carried.then_some(true),
        source: place.source.map(Box::new),
        baseline_of: None,
        auto_commit: (keeps && mode == Mode::Exec && settings.git.auto_commit).then_some(true),
        parent: None,
        depth: 0,
        session: options.session.clone(),
        agent_caps: None,
        collaboration: place.collaboration.map(Box::new),
        workflow_run: options.workflow_run.clone(),
        isolation: Some(placing::isolation(settings, options))
            .filter(|isolation| *isolation != Isolation::default()),
        parallel: options.parallel,
        crew: Some(crew::mates(&settings.agent_dirs)?),
        planner: planner.map(Box::new),
        checkpoint_interval_ms: options.rhythm.interval_ms(settings, autonomy),
        id,
    })
}

/// What the agent is told of where it works.
fn surroundings(app: &App, place: &placing::Chosen) -> Surroundings {
    let mut environment = format!(
        "Workspace: {}\nPlatform: {} {}\n",
        place.path.display(),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    if let Some(branch) = &place.branch {
        environment.push_str(&format!("Git branch: {branch}, in a worktree of its own\n"));
    }
    let rules = longhaul_agents::project_rules(&app.project);
    rules.notes.iter().for_each(|note| render::warn(note));
    let text = Some(rules.text).filter(|text| !text.trim().is_empty());
    Surroundings { environment, rules: text, rule_files: rules.files }
}

/// The models to work with, the preferred one first. A script is named by where the name was written: on the command line
/// from here, in a file from the project; kept as a whole path, so that the run can be resumed from anywhere.
fn models(
    app: &App,
    harness: &Harness,
    settings: &Settings,
    options: &Options,
    of_agent: Vec<String>,
) -> Result<Vec<String>, Failure> {
    let settled =
        |names: &[String], base: &Path| names.iter().map(|name| settled_model(name, base)).collect();
    if !options.model.is_empty() {
        return Ok(settled(&options.model, &app.cwd));
    }
    if !of_agent.is_empty() {
        return Ok(settled(&of_agent, &app.project));
    }
    if let Some(model) = &settings.model {
        return Ok(vec![settled_model(model, &app.project)]);
    }
    choice::of_model(settings, &harness.models).map(|model| vec![model])
}

/// What the agent may call: what was typed, else what its file names, else everything, of which the mode leaves a part.
fn tools(
    harness: &Harness,
    mode: Mode,
    typed: Option<Vec<String>>,
    of_agent: Option<Vec<String>>,
) -> Result<Vec<ToolGrant>, Failure> {
    let was_typed = typed.is_some();
    let all = || harness.toolbox.names().into_iter().map(str::to_owned).collect();
    let names = match (typed, mode) {
        (Some(typed), _) => typed,
        (None, Mode::Complete) => Vec::new(),
        (None, Mode::Exec | Mode::Review) => of_agent.unwrap_or_else(all),
    };
    let names = servers::spelled_out(names, &harness.toolbox.names());
    let grants = harness.toolbox.grants(&names).map_err(|error| Failure::usage(error.to_string()))?;
    let (allowed, dropped): (Vec<ToolGrant>, Vec<ToolGrant>) =
        grants.into_iter().partition(|grant| mode.allows(grant.class));
    if let (true, Some(grant)) = (was_typed, dropped.first()) {
        let name = &grant.name;
        return Err(Failure::usage(format!(
            "--tools {name}: in mode {} an agent may only look, and {name} changes things",
            mode.as_str()
        )));
    }
    Ok(allowed)
}

/// An answer is one turn.
fn limits(settings: &Settings, options: &Options, mode: Mode) -> Result<Limits, Failure> {
    let base = for_loops(settings, options);
    let limits = options.limits.over(base)?.unwrap_or(base);
    let one_turn = mode == Mode::Complete && options.tools.is_none() && options.limits.max_steps.is_none();
    Ok(Limits { max_steps: if one_turn { 1 } else { limits.max_steps }, ..limits })
}

/// What nobody has said anything about is meant for one conversation; a loop has so much for each.
fn for_loops(settings: &Settings, options: &Options) -> Limits {
    let mut limits = settings.limits;
    let Some(looping) = &options.looping else { return limits };
    let is_default = |key: &str| {
        let origin = settings.origins.get(&format!("harness.limits.{key}"));
        origin.is_none_or(|(_, source)| *source == Source::Default)
    };
    let default = Limits::default();
    if is_default("max_tool_calls") && limits.max_tool_calls == default.max_tool_calls {
        limits.max_tool_calls = limits.max_tool_calls.saturating_mul(looping.max_iterations);
    }
    if is_default("max_steps") && limits.max_steps == default.max_steps {
        limits.max_steps = limits.max_steps.saturating_mul(looping.max_iterations);
    }
    limits
}

fn answer_schema(app: &App, options: &Options) -> Result<Option<Json>, Failure> {
    let Some(file) = &options.answer_schema else { return Ok(None) };
    if options.mode.mode() != Mode::Complete {
        return Err(Failure::usage("--answer-schema is for an answer, and this run works")
            .hint("`--mode complete` answers once, without tools unless `--tools` names some"));
    }
    let path = app.cwd.join(file);
    let shown = path.display();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::usage(format!("cannot read the schema {shown}: {error}")))?;
    let schema: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| Failure::usage(format!("{shown}: {error}")))?;
    if let Some(trouble) = schema::trouble(&schema) {
        return Err(Failure::usage(format!("{shown} is not a JSON Schema that can be used: {trouble}")));
    }
    Ok(Some(Json::of(&schema)))
}

/// The same name with a script's path made whole.
pub fn settled_model(name: &str, base: &Path) -> String {
    match name.strip_prefix("scripted/") {
        Some(file) => format!("scripted/{}", base.join(file).display()),
        None => name.to_owned(),
    }
}

/// A plan file, checked.
fn read_plan(path: &Path, agent: &str) -> Result<Plan, Failure> {
    let shown = path.display();
    draft_plan(path, agent)?.checked().map_err(|error| Failure::usage(format!("{shown}: {error}")))
}

/// An agent that nobody has is named where it was written: in the file, by the word that stands there.
fn in_plan_file(app: &App, options: &Options, error: EngineError) -> Failure {
    let EngineError::Spec(BadSpec::UnknownAgent { index, agent, guess }) = &error else {
        return error.into();
    };
    if matches!(options.plan.as_str(), "none" | AUTO) {
        return error.into();
    }
    let path = app.cwd.join(&options.plan);
    let is_long = std::fs::read_to_string(&path).is_ok_and(|text| text.contains("assignedAgent"));
    let field = if is_long { "assignedAgent" } else { "agent" };
    let shown = path.display();
    Failure::usage(format!("{shown}: steps[{index}].{field}: there is no agent `{agent}`{guess}"))
        .hint("`longhaul agents list` shows those there are")
}

/// A plan file as it stands: the steps of a new plan may depend on those of the old one.
pub fn draft_plan(path: &Path, agent: &str) -> Result<Plan, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read the plan {shown}: {error}")))?;
    let draft: Draft = misread::yaml(&shown.to_string(), &text)?;
    Ok(draft.plan(agent))
}

/// Whoever makes the plan: the agent `planner`, with the run's own model if its file names none.
fn planner(app: &App, settings: &Settings) -> Result<Planner, Failure> {
    let agent = agents::find(&settings.agent_dirs, PLANNER)?;
    let model = agent.models.first().map(|name| settled_model(name, &app.project));
    // It has no tools: what it should know of the repository it is told.
    let files = repository(&app.cwd).and_then(|repository| place::files(&repository));
    let files = files.map_or_else(String::new, |files| format!("\n\n# Files of the repository\n\n{files}"));
    Ok(Planner { model, prompt: format!("{}{files}", agent.prompt) })
}
