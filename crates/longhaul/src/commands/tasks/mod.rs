//! `tasks`: a list of tasks in a file, worked off one after another.
//!
//! Owns what may be typed and what is shown of a list. How it is worked off is in [`runner`], how the file is held and changed in
//! [`list_file`].

mod list_file;
mod runner;

use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_agents::Origin;
use longhaul_core::ids::RunId;
use longhaul_core::tasks::{Measure, Task, TaskList, TaskStatus};
use serde_json::{Value, json};

use self::list_file::ListFile;
use self::runner::Runner;
use super::create::{Options, Switch};
use super::holding::HoldingArgs;
use super::show;
use crate::agents;
use crate::app::App;
use crate::duration;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::TASK_ATTEMPTS_MAX;
use crate::render::{self, table};
use crate::settings::Settings;

/// Work off a list of tasks in a JSON file, and look at one
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    Run(Box<RunArgs>),
    /// Show a list's tasks in the order of the file
    List {
        #[arg(value_name = "FILE.json")]
        file: PathBuf,
    },
}

/// Work off a list of tasks, and write what became of each into the file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file is {\"meta\": {...}, \"tasks\": [{\"id\", \"title\", \"description\", \"agent\", \"status\", \"dependencies\", \"phase\", \"attempts\",
\"longRunning\", \"estimatedMinutes\", ...}]}; only `id` is needed, and fields that longhaul does not know stay as they are.

A task is ready when all it depends on is done. The earliest phase goes first, then the fewest attempts, then the order of the
file; one task at a time, in the current directory. One that is marked longRunning, or whose estimatedMinutes are above the
threshold, becomes a durable run, with a journal, checkpoints and approvals; all others are worked on directly and leave nothing
behind but their output. With `harness.budget` set all become durable runs, so that they are counted. What fails blocks all that
depends on it.

Kill it at any moment and start it again: a durable run goes on where it stood, a direct task is begun anew. Set a task's status
back to `pending` to have it done again.

Examples:
  longhaul tasks run prd.json --explain            what would be done, in which way, and why; nothing is done
  longhaul tasks run prd.json --max-attempts 2 --threshold 30m --max-cost 5")]
pub struct RunArgs {
    #[arg(value_name = "FILE.json")]
    pub file: PathBuf,
    /// Only say which tasks would become durable runs, which would not, and why
    #[arg(long)]
    pub explain: bool,
    /// Estimates above this are long
    #[arg(long, default_value = "10m", value_name = "TIME", value_parser = duration::parse)]
    pub threshold: Duration,
    /// How often a task that fails is begun in all, with what went wrong in its prompt
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub max_attempts: u32,
    #[command(flatten)]
    pub options: Options,
    #[command(flatten)]
    pub holding: HoldingArgs,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match args.what {
        What::List { file } => list(app, &app.cwd.join(file)),
        What::Run(args) => work(app, *args),
    }
}

fn list(app: &App, file: &Path) -> Result<Exit, Failure> {
    let list = list_file::read(file)?;
    if app.json() {
        let shown: Vec<Value> =
            list.tasks.iter().zip(list.settled()).map(|(task, status)| as_json(task, status)).collect();
        render::json(&shown);
        return Ok(Exit::Ok);
    }
    let rows = list.tasks.iter().zip(list.settled()).map(|(task, status)| {
        vec![
            task.id.clone(),
            called(app, task, status).to_owned(),
            task.phase.to_string(),
            task.attempts.to_string(),
            task.agent.clone().unwrap_or_default(),
            task.dependencies.join(", "),
            table::fit(
                task.error.as_deref().filter(|_| status == TaskStatus::Failed).unwrap_or(name(task)),
                60,
            ),
        ]
    });
    render::data(&table::rows(&["TASK", "STATUS", "PHASE", "ATTEMPTS", "AGENT", "AFTER", "WHAT"], rows));
    Ok(Exit::Ok)
}

/// What a task is called. One that a run works on is called what the run is.
fn called(app: &App, task: &Task, status: TaskStatus) -> &'static str {
    let run = || show::called(app, &RunId::parse(task.run_id.as_deref()?).ok()?);
    let is_with_a_run = status == TaskStatus::Running;
    run().filter(|_| is_with_a_run).unwrap_or(status.as_str())
}

fn name(task: &Task) -> &str {
    if task.title.is_empty() { &task.description } else { &task.title }
}

fn as_json(task: &Task, status: TaskStatus) -> Value {
    json!({
        "id": task.id, "title": task.title, "status": status, "phase": task.phase, "attempts": task.attempts,
        "agent": task.agent, "dependencies": task.dependencies, "output": task.output, "error": task.error,
        "runId": task.run_id,
    })
}

fn work(app: &App, args: RunArgs) -> Result<Exit, Failure> {
    if !(1..=TASK_ATTEMPTS_MAX).contains(&args.max_attempts) {
        return Err(Failure::usage(format!(
            "--max-attempts is 1 to {TASK_ATTEMPTS_MAX}, not {}",
            args.max_attempts
        )));
    }
    if args.options.task_id.is_some() || args.options.plan != "none" {
        return Err(Failure::usage("--task-id and --plan are for one task, and this is a list"));
    }
    check_place_typed(&args.options)?;
    let settings = app.settings()?;
    let threshold_minutes = args.threshold.as_secs_f64() / 60.0;
    let measure =
        Measure { threshold_minutes, durable: settings.enabled, counted: !settings.budget.is_unlimited() };
    let path = app.cwd.join(&args.file);
    if args.explain {
        return explain(app, &list_file::read(&path)?, measure);
    }
    let file = ListFile::open(&path)?;
    let list = file.read()?;
    check_agents(&settings, &path, &list)?;
    check_autonomy(&settings, &args, &list, measure)?;
    let runner = Runner::new(app, settings, args, measure, file)?;
    let (exit, finished) = runner.work()?;
    report(app, &path, &finished, measure);
    Ok(exit)
}

/// A list is worked off right here: what would have it done elsewhere is refused and not passed over.
fn check_place_typed(options: &Options) -> Result<(), Failure> {
    let typed = [
        ("--repo", options.repo.is_some()),
        ("--session", options.session.is_some()),
        ("--with-changes", options.with_changes),
        ("--engine off", options.engine == Switch::Off),
    ];
    let Some((flag, _)) = typed.into_iter().find(|(_, is_typed)| *is_typed) else { return Ok(()) };
    Err(Failure::usage(format!(
        "{flag} is for one run, and this is a list: its tasks are worked on in the current directory"
    ))
    .hint("`longhaul run` takes it, for one task at a time"))
}

/// Every task that is not done, in the way it would be worked on.
fn explain(app: &App, list: &TaskList, measure: Measure) -> Result<Exit, Failure> {
    let rows = list.tasks.iter().zip(list.settled()).map(|(task, status)| (task, status, task.way(measure)));
    if app.json() {
        let shown: Vec<Value> = rows
            .map(|(task, status, way)| {
                json!({ "id": task.id, "status": status, "wrapped": way.is_wrapped(), "why": way.why() })
            })
            .collect();
        render::json(&shown);
        return Ok(Exit::Ok);
    }
    let lines = rows.map(|(task, status, way)| {
        let kind = if way.is_wrapped() { "durable run" } else { "direct" };
        vec![task.id.clone(), status.as_str().to_owned(), kind.to_owned(), way.why()]
    });
    render::data(&table::rows(&["TASK", "STATUS", "WAY", "WHY"], lines));
    Ok(Exit::Ok)
}

/// A name that nobody has would get the default prompt: for a list that runs unattended, that is a slip of the key.
fn check_agents(settings: &Settings, file: &Path, list: &TaskList) -> Result<(), Failure> {
    for (index, task) in list.tasks.iter().enumerate() {
        let Some(name) = &task.agent else { continue };
        if agents::find(&settings.agent_dirs, name)?.origin != Origin::Default {
            continue;
        }
        let meant = agents::meant(&settings.agent_dirs, name);
        let meant = meant.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        let file = file.display();
        return Err(Failure::usage(format!(
            "{file}: tasks[{index}].agent: there is no agent `{name}`{meant}"
        ))
        .hint("`longhaul agents list` shows those there are"));
    }
    Ok(())
}

/// What leaves nothing behind cannot wait for a person.
fn check_autonomy(
    settings: &Settings,
    args: &RunArgs,
    list: &TaskList,
    measure: Measure,
) -> Result<(), Failure> {
    let level = args.options.autonomy.unwrap_or(settings.autonomy.level());
    let is_direct = |(task, status): (&Task, TaskStatus)| {
        !matches!(status, TaskStatus::Done | TaskStatus::Failed) && !task.way(measure).is_wrapped()
    };
    if level > 2 || !list.tasks.iter().zip(list.settled()).any(is_direct) {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "autonomy {level} asks before every step, and a task that is worked on directly cannot wait for a person"
    ))
    .hint("use `--autonomy 3` or higher, or mark every task `\"longRunning\": true`"))
}

fn report(app: &App, path: &Path, list: &TaskList, measure: Measure) {
    let settled = list.settled();
    if app.json() {
        let tasks: Vec<Value> = list
            .tasks
            .iter()
            .zip(&settled)
            .map(|(task, status)| {
                let mut shown = as_json(task, *status);
                shown["wrapped"] = json!(task.way(measure).is_wrapped());
                shown
            })
            .collect();
        return render::json(&json!({ "file": path, "tasks": tasks }));
    }
    let rows = list.tasks.iter().zip(&settled).map(|(task, status)| {
        let error = task.error.as_deref().filter(|_| *status == TaskStatus::Failed);
        let detail = error.or(task.output.as_deref()).unwrap_or_default();
        vec![
            task.id.clone(),
            called(app, task, *status).to_owned(),
            task.attempts.to_string(),
            task.run_id.clone().unwrap_or_default(),
            table::fit(detail, 60),
        ]
    });
    render::data(&table::rows(&["TASK", "STATUS", "ATTEMPTS", "RUN", "OUTPUT"], rows));
}
