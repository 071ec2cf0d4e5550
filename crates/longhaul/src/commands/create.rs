//! `create`: a run in status created, from arguments, agent file and settings.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_agents::Origin;
use longhaul_core::conduct::{Looping, Surroundings};
use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::money::Usd;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::run::Run;
use longhaul_core::spec::{Autonomy, Limits, Mode, OnAsk, RunSpec};
use longhaul_core::tool::ToolGrant;
use longhaul_core::view::RunView;
use longhaul_engine::Harness;
use longhaul_workspace::place;
use serde::Deserialize;

use super::conduct::{self, ConductArgs};
use super::list;
use crate::agents;
use crate::app::{App, repository};
use crate::autonomy::RhythmArgs;
use crate::choice;
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::misread;
use crate::render;
use crate::schema;
use crate::servers;
use crate::settings::{Settings, Source};

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
    /// Steps from a YAML or JSON file, or `none` for one step
    #[arg(long, default_value = "none", value_name = "none|FILE")]
    pub plan: String,
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
    #[arg(long, value_name = "N")]
    pub max_tool_calls: Option<u32>,
    /// Turns of the model the run may take
    #[arg(long, value_name = "N")]
    pub max_steps: Option<u32>,
    /// Tokens the run may use
    #[arg(long, value_name = "N")]
    pub max_tokens: Option<u64>,
    /// US dollars the run may spend
    #[arg(long, value_name = "USD")]
    pub max_cost: Option<f64>,
    /// How long the run may work, like `90s`, `30m` or `2h`; the time it is paused or waits for a person does not count
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// How deep sub-agents may nest
    #[arg(long, value_name = "N")]
    pub max_sub_agent_depth: Option<u32>,
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
        ];
        given.into_iter().filter_map(|(flag, value)| Some(format!("{flag}={}", value?))).collect()
    }

    /// `base` with what was given; `None` if nothing was.
    pub fn over(&self, base: Limits) -> Result<Option<Limits>, Failure> {
        let max_cost = match self.max_cost {
            Some(dollars) => Some(Usd::from_dollars(dollars).ok_or_else(|| {
                Failure::usage(format!("--max-cost {dollars} is not an amount of dollars"))
            })?),
            None => base.max_cost,
        };
        let limits = Limits {
            max_tool_calls: self.max_tool_calls.unwrap_or(base.max_tool_calls),
            max_steps: self.max_steps.unwrap_or(base.max_steps),
            max_tokens: self.max_tokens.or(base.max_tokens),
            max_cost,
            max_sub_agent_depth: self.max_sub_agent_depth.unwrap_or(base.max_sub_agent_depth),
            timeout_ms: self.timeout.map(|time| time.as_millis() as u64).or(base.timeout_ms),
        };
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
    servers::meet(app, &settings, &app.sandbox(settings.permissions.clone())?, &args.options)?;
    let run = create(app, &app.harness()?, &settings, &args.task, &args.options)?;
    if app.json() {
        render::json(&RunView::of(&run));
    } else {
        render::data(run.spec.id.as_str());
    }
    Ok(Exit::Ok)
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
    let spec = spec(app, harness, settings, task, options, id)?;
    let models = spec.models.clone().unwrap_or_else(|| vec![spec.model.clone()]);
    for name in models.iter().map(String::as_str).chain(spec.conduct().other_models()) {
        check_model(harness, name, &spec.limits)?;
    }
    let run = harness.create(spec)?;
    if run.spec.task != task {
        render::warn("a key stands in the task; it was struck out, and neither kept nor sent");
    }
    servers::keep_met(app)?;
    Ok(run)
}

/// A model that cannot be had is better said now than when somebody starts the run, and so is a budget that could not be
/// kept.
fn check_model(harness: &Harness, name: &str, limits: &Limits) -> Result<(), Failure> {
    let model = harness
        .models
        .resolve(name)
        .map_err(|source| longhaul_engine::Error::Model { name: name.to_owned(), source })?;
    if limits.max_cost.is_some() && !model.is_priced() {
        return Err(longhaul_engine::Error::Unpriced { name: name.to_owned() }.into());
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
        "none" => Plan::single(task, &agent.name),
        file => read_plan(&app.cwd.join(file), &agent.name)?,
    };
    let mut tools = tools(harness, mode, options.tools.clone(), agent.tools.clone())?;
    for name in &options.ask {
        let grant = tools.iter_mut().find(|grant| grant.name == *name);
        let none = || Failure::usage(format!("--ask {name}: the agent has no such tool"));
        grant.ok_or_else(none)?.ask = Some(true);
    }
    let place = place(app, options, &id)?;
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
        parent: None,
        depth: 0,
        session: None,
        checkpoint_interval_ms: options.rhythm.interval_ms(settings, autonomy),
        id,
    })
}

/// What the agent is told of where it works.
fn surroundings(app: &App, place: &Chosen) -> Surroundings {
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

struct Chosen {
    path: PathBuf,
    repository: Option<PathBuf>,
    branch: Option<String>,
}

/// Where the run works: here if asked, else in a worktree of this repository, else in an empty directory of its own.
fn place(app: &App, options: &Options, id: &RunId) -> Result<Chosen, Failure> {
    if options.in_place {
        if let Some(other) = list::at_work_in(app, &app.cwd)? {
            render::warn(&format!(
                "{other} works in this directory as well, at this moment; they may change the same files"
            ));
        }
        return Ok(Chosen { path: app.cwd.clone(), repository: None, branch: None });
    }
    let path = app.state_dir.join("workspace").join("run").join(id.as_str());
    Ok(match repository(&app.cwd) {
        Some(repository) => {
            if place::is_dirty(&repository) {
                render::warn(
                    "changes that are not committed are not in the run's worktree; `--in-place` would work on them",
                );
            }
            Chosen { path, repository: Some(repository), branch: Some(format!("longhaul/{id}")) }
        }
        None => Chosen { path, repository: None, branch: None },
    })
}

/// A plan as people write it: what is always the same may be left out.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    steps: Vec<PlannedStep>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedStep {
    id: String,
    description: String,
    #[serde(default)]
    agent: Option<String>,
    #[serde(default)]
    dependencies: Vec<String>,
    #[serde(default)]
    critical: bool,
}

fn read_plan(path: &Path, agent: &str) -> Result<Plan, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read the plan {shown}: {error}")))?;
    let file: PlanFile = misread::yaml(&shown.to_string(), &text)?;
    let steps = file.steps.into_iter().map(|planned| {
        let agent = planned.agent.as_deref().unwrap_or(agent);
        let step = Step::new(&planned.id, &planned.description, agent);
        Step { dependencies: planned.dependencies, critical: planned.critical, ..step }
    });
    Plan { steps: steps.collect() }.checked().map_err(|error| Failure::usage(format!("{shown}: {error}")))
}
