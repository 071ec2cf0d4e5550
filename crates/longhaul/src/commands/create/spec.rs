//! What a run would be, from what was typed, its agent's file and the settings. Nothing is written here.

use std::path::Path;

use longhaul_agents::{Agent, Origin};
use longhaul_core::collaboration::Isolation;
use longhaul_core::conduct::{Looping, Surroundings};
use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::plan::Plan;
use longhaul_core::spec::{Autonomy, Limits, Mode, OnAsk, RunSpec};
use longhaul_core::tool::{RetryPolicy, ToolGrant};
use longhaul_engine::Harness;

use super::options::{OnAskArg, Options, Switch};
use super::plan::{AUTO, planner, read_plan};
use crate::agents;
use crate::app::App;
use crate::branch;
use crate::choice;
use crate::commands::{conduct, placing, workspace};
use crate::crew;
use crate::failure::Failure;
use crate::render;
use crate::schema;
use crate::servers;
use crate::settings::{Settings, Source};

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
        warn_of_no_file(settings, &options.agent);
    }
    if let Some(caution) = agents::caution(&agent) {
        render::warn(&caution);
    }
    agents::check_names(&agent, settings)?;
    if options.model.is_empty() {
        agents::check_models(&agent, &harness.models)?;
    }
    let settings = &agents::over(settings, &agent)?;
    let models = models(app, harness, settings, options, agent.models.clone())?;
    let model = models.first().cloned().unwrap_or_default();
    let mode = options.mode.mode();
    let autonomy = autonomy(settings, options)?;
    let plan = match options.plan.as_str() {
        "none" | AUTO => Plan::single(task, &agent.name),
        file => read_plan(&app.cwd.join(file), &agent.name)?,
    };
    let planner = (options.plan == AUTO).then(|| planner(app, settings)).transpose()?;
    let tools = asking(tools(harness, mode, options.tools.clone(), &agent)?, &options.ask)?;
    // A branch goes where the repository goes.
    let told = app.secrets.strike(task);
    let naming = branch::Naming { git: &settings.git, task: &told, agent: &agent.name, id: &id };
    if !options.in_place {
        workspace::refuse_over_quota(app, settings.retention, None)?;
    }
    let place = placing::place(app, settings, options, &naming)?;
    if let Some(begins) = place.begins() {
        workspace::refuse_over_quota(app, settings.retention, Some(begins))?;
    }
    let keeps = place.branch.is_some();
    if place.collaboration.is_some() && !settings.git.auto_commit && options.plan != "none" {
        render::warn(
            "git.auto_commit is off: agents with a branch of their own begin at what is committed, without what this run's own steps \
             have left",
        );
    }
    let (looping, surroundings) = (looping(options, &agent), surroundings(app, &place));
    let conduct = conduct::settled(app, settings, &options.conduct, &agent, looping, surroundings)?;
    let timeout_ms = options.tool_timeout_ms.unwrap_or(settings.retry.timeout_ms);
    Ok(RunSpec {
        task_id: options.task_id.clone().unwrap_or_else(|| id.to_string()),
        agent: agent.name,
        task: task.to_owned(),
        model,
        prompt: agent.prompt,
        plan,
        autonomy,
        limits: limits(settings, options, mode)?,
        retry: RetryPolicy { timeout_ms, ..settings.retry },
        tools,
        workspace: written(&place.path)?,
        branch: place.branch,
        repository: place.repository.as_deref().map(written).transpose()?,
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
        begun_with: None,
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

/// A path as it is kept with the run. Another than it is would be another directory.
fn written(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| {
        Failure::usage(format!(
            "the name of {} is no text (UTF-8), so no run can be kept for it",
            path.display()
        ))
        .hint("work in a directory with another name")
    })
}

/// Nobody has written down who this agent is, which may be a name mistyped.
fn warn_of_no_file(settings: &Settings, name: &str) {
    let meant = agents::meant(&settings.agent_dirs, name);
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    render::warn(&format!(
        "there is no agent file {name}.md: {name} gets the default prompt and the default tools{meant}"
    ));
}

fn autonomy(settings: &Settings, options: &Options) -> Result<Autonomy, Failure> {
    let Some(level) = options.autonomy else { return Ok(settings.autonomy) };
    Autonomy::new(level).ok_or_else(|| Failure::usage(format!("--autonomy is 1 to 5, not {level}")))
}

/// The same tools, with leave to be asked for before each use of those named.
fn asking(mut tools: Vec<ToolGrant>, names: &[String]) -> Result<Vec<ToolGrant>, Failure> {
    for name in names {
        let grant = tools.iter_mut().find(|grant| grant.name == *name);
        let none = || Failure::usage(format!("--ask {name}: the agent has no such tool"));
        grant.ok_or_else(none)?.ask = Some(true);
    }
    Ok(tools)
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

/// How often at most is the agent's file to say, unless it was typed.
fn looping(options: &Options, agent: &Agent) -> Option<Looping> {
    let looping = options.looping.clone()?;
    Some(match agent.limits.max_iterations {
        Some(max_iterations) if !options.iterations_typed => Looping { max_iterations, ..looping },
        Some(_) | None => looping,
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

/// The same name with a script's path made whole.
pub fn settled_model(name: &str, base: &Path) -> String {
    match name.strip_prefix("scripted/") {
        Some(file) => format!("scripted/{}", base.join(file).display()),
        None => name.to_owned(),
    }
}

/// What the agent may call: what was typed, else what its file names, else everything, of which the mode leaves a part.
fn tools(
    harness: &Harness,
    mode: Mode,
    typed: Option<Vec<String>>,
    agent: &Agent,
) -> Result<Vec<ToolGrant>, Failure> {
    let was_typed = typed.is_some();
    let all = || harness.toolbox.names().into_iter().map(str::to_owned).collect();
    let names = match (typed, mode) {
        (Some(typed), _) => typed,
        (None, Mode::Complete) => Vec::new(),
        (None, Mode::Exec | Mode::Review) => agent.tools.clone().unwrap_or_else(all),
    };
    let names = servers::spelled_out(names, &harness.toolbox.names());
    let grants = harness.toolbox.grants(&names).map_err(|error| match was_typed {
        true => Failure::usage(error.to_string()),
        false => agents::wrong(agent.bad("tools", error.to_string())),
    })?;
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
