//! `overnight`: experiments on a repository while nobody looks, and a report in the morning.
//!
//! Owns what may be typed and what is shown of nights. How one is worked through is in [`runner`], how its file is held in
//! [`night_file`].

mod night_file;
mod runner;

use std::path::Path;
use std::time::Duration;

use longhaul_agents::Origin;
use longhaul_core::limits::EXPERIMENTS_MAX;
use longhaul_core::money::Usd;
use longhaul_core::overnight::means::Means;
use longhaul_core::overnight::ranking::Verdict;
use longhaul_core::overnight::{Experiment, Night, Order};
use longhaul_core::spec::Autonomy;
use longhaul_engine::Harness;
use longhaul_workspace::place;
use serde_json::{Value, json};

use self::night_file::NightFile;
use self::runner::Runner;
use super::holding::{HoldingArgs, hold, tell};
use super::{create, notify, placing, show};
use crate::agents;
use crate::app::{App, repository};
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};
use crate::settings::Settings;

/// What is meant when no objective is given.
const OBJECTIVE: &str = "Make this project better";

/// Have experiments made overnight, each in a copy of its own, and read in the morning which are worth having
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    Start(Box<StartArgs>),
    Resume(ResumeArgs),
    /// Show where a night stands; the last one if none is named
    Status {
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
    /// Show all nights
    List,
    /// Print the report of a night in Markdown; the last one if none is named
    Report {
        #[arg(value_name = "ID")]
        id: Option<String>,
    },
}

/// Begin a night: think of experiments, make each in a worktree of its own, measure them all, and report
#[derive(Debug, clap::Args)]
#[command(after_help = "\
An agent looks at the repository and writes down what could be tried. Each experiment is an ordinary durable run on a branch of its own,
one after the other. Then longhaul itself runs the verify commands and the metric on the commit the night began with and on each
experiment's files, and ranks them; what does not pass is out. Your checkout is not touched: the report says what to type to have
something of it.

Kill it at any moment: `longhaul overnight resume ID` goes on with what was under way, and repeats nothing that has ended.

It exits with 0 when the report is written, and with 4 if there was too little money or time for all experiments.

Examples:
  longhaul overnight start \"Make the parser faster\" --verify \"cargo test\" --metric ./bench.sh --minimize --max-cost 10
  longhaul overnight start --experiments 8 --verify \"npm test\" --protect \"test/**\" --timeout 6h")]
pub struct StartArgs {
    /// What the experiments are for [default: Make this project better]
    #[arg(value_name = "OBJECTIVE")]
    pub objective: Option<String>,
    /// How many experiments are made
    #[arg(long, default_value_t = 5, value_name = "N", allow_negative_numbers = true)]
    pub experiments: u32,
    /// A command that must succeed on an experiment's files; longhaul runs it itself. May be given several times
    #[arg(long, value_name = "CMD")]
    pub verify: Vec<String>,
    /// A command whose last line is a number, by which experiments are compared; more is better
    #[arg(long, value_name = "CMD")]
    pub metric: Option<String>,
    /// Less of the number is better
    #[arg(long, requires = "metric")]
    pub minimize: bool,
    /// Files that no experiment may change, as globs: tests, and what the metric is made with
    #[arg(long, value_delimiter = ',', value_name = "GLOBS")]
    pub protect: Vec<String>,
    /// US dollars for the whole night; each run gets an even share of what is left
    #[arg(long, value_name = "USD", allow_negative_numbers = true)]
    pub max_cost: Option<f64>,
    /// How long agents may work in all, shared in the same way
    #[arg(long, default_value = "8h", value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Duration,
    /// Agent that makes the experiments
    #[arg(long, default_value = "coder", value_name = "NAME")]
    pub agent: String,
    /// Model, as provider/model; more than one are fallbacks, in this order
    #[arg(long, value_name = "P/M")]
    pub model: Vec<String>,
    /// 1 and 2 ask before every run, 4 and 5 never; a night that is asked about waits, and goes on with `overnight resume`
    #[arg(long, value_name = "1..5")]
    pub autonomy: Option<u8>,
    /// Begin another night though one is not over
    #[arg(long)]
    pub another: bool,
    #[command(flatten)]
    pub holding: HoldingArgs,
}

/// Go on with a night that was killed, interrupted or waited
#[derive(Debug, clap::Args)]
pub struct ResumeArgs {
    #[arg(value_name = "ID")]
    pub id: String,
    #[command(flatten)]
    pub holding: HoldingArgs,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match args.what {
        What::Start(args) => start(app, *args),
        What::Resume(args) => resume(app, &args),
        What::Status { id } => status(app, id.as_deref()),
        What::List => list(app),
        What::Report { id } => {
            let night = night_file::find(app, id.as_deref())?;
            told(app, &night);
            Ok(Exit::Ok)
        }
    }
}

fn start(app: &App, args: StartArgs) -> Result<Exit, Failure> {
    let settings = enabled(app)?;
    let mut order = order(app, &settings, &args)?;
    if let (false, Some(night)) = (args.another, unfinished(app)?) {
        return Err(still_open(app, &night));
    }
    if settings.git.working_branch.is_none() && place::is_dirty(Path::new(&order.repository)) {
        render::warn(
            "changes that are not committed are in no experiment; commit them first to have them there",
        );
    }
    let sandbox = hold(app, &settings, &args.holding)?;
    let harness = app.holding(&settings, sandbox.clone())?;
    check_models(&harness, &order)?;
    // It goes into a file and into every prompt.
    app.secrets.learn(harness.models.secrets());
    order.objective = app.secrets.strike(&order.objective).into_owned();
    let night = Night {
        id: new_id(&harness)?,
        created_at: harness.clock.now(),
        order,
        misfits: Vec::new(),
        preparing: None,
        base: None,
        experiments: Vec::new(),
        end: None,
    };
    let file = NightFile::create(app, &night)?;
    tell(&sandbox)?;
    render::talk(&format!("{} begins at commit {}", night.id, night.order.commit));
    go(app, Runner { app, settings, sandbox, harness, file, night })
}

fn resume(app: &App, args: &ResumeArgs) -> Result<Exit, Failure> {
    let settings = enabled(app)?;
    let id = night_file::find(app, Some(&args.id))?.id;
    let (file, night) = NightFile::open(app, &id)?;
    let ours = repository(&app.cwd).map(|path| path.display().to_string());
    if ours.as_ref() != Some(&night.order.repository) {
        return Err(Failure::usage(format!("night {id} is about {}", night.order.repository))
            .hint("go there, and resume it"));
    }
    let sandbox = hold(app, &settings, &args.holding)?;
    let harness = app.holding(&settings, sandbox.clone())?;
    tell(&sandbox)?;
    render::talk(&format!("{id} goes on in phase {}", night.phase().as_str()));
    go(app, Runner { app, settings, sandbox, harness, file, night })
}

/// Works, and shows the report if there is one, else how to go on.
fn go(app: &App, mut runner: Runner<'_>) -> Result<Exit, Failure> {
    let worked = runner.work();
    let night = &runner.night;
    if night.end.is_none() {
        render::hint(&format!("go on with `longhaul overnight resume {}`", night.id));
    }
    let exit = worked?;
    if night.end.is_some() || app.json() {
        told(app, night);
    }
    if night.end.is_some() {
        let dir = night_file::nights_dir(app).join(&night.id);
        render::talk(&format!("the report is in {}", dir.join("report.md").display()));
        notify::night_is_over(app, night, &dir);
    }
    Ok(exit)
}

fn enabled(app: &App) -> Result<Settings, Failure> {
    let settings = app.settings()?;
    if settings.enabled {
        return Ok(settings);
    }
    Err(Failure::usage("harness.enabled is false: a night cannot be kept"))
}

/// What was typed, checked.
fn order(app: &App, settings: &Settings, args: &StartArgs) -> Result<Order, Failure> {
    if !(1..=EXPERIMENTS_MAX).contains(&args.experiments) {
        let given = args.experiments;
        return Err(Failure::usage(format!("--experiments is 1 to {EXPERIMENTS_MAX}, not {given}")));
    }
    let objective = args.objective.as_deref().unwrap_or(OBJECTIVE).trim();
    if objective.is_empty() {
        return Err(Failure::usage("the objective is empty"));
    }
    if args.verify.iter().chain(&args.metric).any(|command| command.trim().is_empty()) {
        return Err(Failure::usage("--verify and --metric need a command"));
    }
    if let Some(level) = args.autonomy.filter(|level| Autonomy::new(*level).is_none()) {
        return Err(Failure::usage(format!("--autonomy is 1 to 5, not {level}")));
    }
    let wrong = |amount: f64| Failure::usage(format!("--max-cost {amount} is not an amount of dollars"));
    let amount = |amount: f64| Usd::from_dollars(amount).filter(|usd| *usd > Usd::ZERO).ok_or(wrong(amount));
    let max_cost = args.max_cost.map(amount).transpose()?;
    check_agent(settings, &args.agent)?;
    longhaul_tools::check_globs(&args.protect, &app.project)
        .map_err(|why| Failure::usage(format!("--protect: {why}")))?;
    let repository = repository(&app.cwd).ok_or_else(|| {
        Failure::usage("experiments are made in worktrees, and there is no git repository with a commit here")
            .hint("`git init`, and commit what there is")
    })?;
    Ok(Order {
        objective: objective.to_owned(),
        experiments: args.experiments,
        verify: args.verify.clone(),
        metric: args.metric.clone(),
        minimize: args.minimize,
        protect: args.protect.clone(),
        means: Means { max_cost, timeout_ms: args.timeout.as_millis() as u64 },
        agent: args.agent.clone(),
        models: args.model.iter().map(|name| create::settled_model(name, &app.cwd)).collect(),
        autonomy: args.autonomy,
        commit: placing::start(&settings.git, &repository)?,
        repository: repository.display().to_string(),
    })
}

/// A name that nobody has would get the default prompt: for work that nobody watches, that is a slip of the key.
fn check_agent(settings: &Settings, name: &str) -> Result<(), Failure> {
    if agents::find(&settings.agent_dirs, name)?.origin != Origin::Default {
        return Ok(());
    }
    let meant = agents::meant(&settings.agent_dirs, name);
    let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    Err(Failure::usage(format!("--agent: there is no agent `{name}`{meant}"))
        .hint("`longhaul agents list` shows those there are"))
}

/// A model that cannot be had is better said before there is a night.
fn check_models(harness: &Harness, order: &Order) -> Result<(), Failure> {
    let limits = longhaul_core::spec::Limits { max_cost: order.means.max_cost, ..Default::default() };
    order.models.iter().try_for_each(|name| create::check_model(&harness.models, name, &limits))
}

fn new_id(harness: &Harness) -> Result<String, Failure> {
    let run = harness.new_run_id()?;
    Ok(format!("night_{}", run.as_str().trim_start_matches("run_")))
}

fn unfinished(app: &App) -> Result<Option<Night>, Failure> {
    Ok(night_file::all(app)?.into_iter().rfind(|night| night.end.is_none()))
}

fn still_open(app: &App, night: &Night) -> Failure {
    let id = &night.id;
    if night_file::is_held(app, id) {
        let failure = Failure::usage(format!("night {id} is under way in another process")).hint(format!(
            "`longhaul overnight status {id}` shows how far it is; `--another` begins one beside it"
        ));
        return Failure { exit: Exit::Held, ..failure };
    }
    Failure::usage(format!("night {id} is not over; it stands in phase {}", night.phase().as_str()))
        .hint(format!("`longhaul overnight resume {id}` goes on with it; `--another` begins one beside it"))
}

fn told(app: &App, night: &Night) {
    if app.json() {
        render::json(&as_json(night));
    } else {
        render::words(night.markdown().trim_end());
    }
}

fn list(app: &App) -> Result<Exit, Failure> {
    let nights = night_file::all(app)?;
    if app.json() {
        render::json(&nights.iter().map(as_json).collect::<Vec<Value>>());
        return Ok(Exit::Ok);
    }
    let rows = nights.iter().map(|night| {
        let improved = night.ranked().iter().filter(|(_, verdict)| verdict.is_improvement()).count();
        vec![
            night.id.clone(),
            phase(night).to_owned(),
            format!("{improved}/{}", night.experiments.len()),
            night.spent().shown(),
            table::fit(&night.order.objective, 60),
        ]
    });
    render::data(&table::rows(&["NIGHT", "PHASE", "IMPROVED", "COST", "OBJECTIVE"], rows));
    Ok(Exit::Ok)
}

fn phase(night: &Night) -> &'static str {
    match &night.end {
        Some(end) if end.gave_up.is_some() => "given up",
        Some(_) | None => night.phase().as_str(),
    }
}

fn status(app: &App, id: Option<&str>) -> Result<Exit, Failure> {
    let night = night_file::find(app, id)?;
    if app.json() {
        let mut shown = as_json(&night);
        shown["underWay"] = json!(night_file::is_held(app, &night.id));
        render::json(&shown);
        return Ok(Exit::Ok);
    }
    let under_way = if night_file::is_held(app, &night.id) { ", under way" } else { "" };
    render::data(&format!("{} is in phase {}{under_way}", night.id, phase(&night)));
    if let Some(why) = night.end.as_ref().and_then(|end| end.gave_up.as_ref()) {
        render::data(&format!("it was given up: {}", table::fit(why, 200)));
    }
    let rows = night.experiments.iter().enumerate().map(|(index, experiment)| {
        let spent = experiment.outcome.as_ref().map(|outcome| outcome.spent().shown());
        vec![
            (index + 1).to_string(),
            standing(app, &night, index, experiment).to_owned(),
            spent.unwrap_or_default(),
            experiment.measured.as_ref().and_then(|measured| measured.metric.clone()).unwrap_or_default(),
            night.run_of(index).map(|id| id.to_string()).unwrap_or_default(),
            table::fit(&experiment.idea.title, 60),
        ]
    });
    if !night.experiments.is_empty() {
        render::data(&table::rows(&["N", "VERDICT", "COST", "METRIC", "RUN", "WHAT"], rows));
    }
    Ok(Exit::Ok)
}

/// What is known of an experiment, in a word. One that is under way is called what its run is.
fn standing(app: &App, night: &Night, index: usize, experiment: &Experiment) -> &'static str {
    let called = || show::called(app, &night.run_of(index).ok()?);
    match (night.verdict(experiment), &experiment.outcome) {
        (Verdict::Open, Some(_)) => "to be measured",
        (verdict @ Verdict::Open, None) => called().unwrap_or(verdict.as_str()),
        (verdict, _) => verdict.as_str(),
    }
}

fn as_json(night: &Night) -> Value {
    let mut shown = json!(night);
    let experiments = night.experiments.iter().enumerate().map(|(index, experiment)| {
        let mut shown = json!(experiment);
        shown["verdict"] = json!(night.verdict(experiment));
        shown["runId"] = json!(night.run_of(index).ok());
        shown
    });
    shown["experiments"] = experiments.collect();
    shown["phase"] = json!(night.phase());
    shown["spent"] = json!(night.spent());
    let ranked = night.ranked();
    shown["ranking"] = ranked.iter().map(|(index, _)| json!(index + 1)).collect();
    shown
}
