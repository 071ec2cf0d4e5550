//! `loop`: fresh context again and again, until a promise is kept and the evidence holds.

use longhaul_core::conduct::Looping;
use longhaul_core::ids::RunId;
use longhaul_core::permission::{Action, Here, judge};
use longhaul_core::spec::{OnAsk, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::suggest::closest;
use longhaul_engine::Harness;

use super::create::{self, LimitArgs, ModeArg, Options, settled_model};
use super::drive::{self, Again};
use super::holding::{HoldingArgs, check_place, hold, tell};
use super::record::RecordArgs;
use super::session;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::FILE_BYTES_MAX;
use crate::render;
use crate::servers;

/// Work on an objective with fresh context again and again, until the agent keeps its promise and the evidence holds
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
The agent says the promise (TASK_COMPLETE, unless you choose another) alone on the last line of its reply when everything is done. Until it \
does, it is started again with the same objective and no memory but the files of its workspace and state/handoff.json. With \
--verify the promise only counts if the commands succeed.

Examples:
  longhaul loop \"Port the parser\" --verify \"cargo test\" --max-iterations 20
  longhaul loop --init-from spec.md --max-cost 20
      a list of features is written first, then made to pass one by one;
      allow `git commit *` in your settings, or you are asked
  longhaul loop --resume --run-id run_… --max-iterations 40
      one that was paused, whose process died, or whose iterations are used up
  longhaul loop status run_…"
)]
pub struct Args {
    #[command(subcommand)]
    pub command: Option<Sub>,
    /// What is to be done
    #[arg(value_name = "OBJECTIVE")]
    pub objective: Option<String>,
    #[command(flatten)]
    pub iterations: IterationArgs,
    /// A specification: the first pass writes a list of features from it, later ones make one pass each
    #[arg(long, value_name = "FILE", conflicts_with = "objective")]
    pub init_from: Option<std::path::PathBuf>,
    /// A cheaper model that sums each iteration up for the next
    #[arg(long, value_name = "P/M")]
    pub summarize_with: Option<String>,
    /// Go on with a loop that was paused, whose process died, or that used up its iterations (give it more)
    #[arg(long, requires = "run_id", conflicts_with_all = ["objective", "init_from"])]
    pub resume: bool,
    /// The run to resume
    #[arg(long, value_name = "ID", requires = "resume")]
    pub run_id: Option<String>,
    #[command(flatten)]
    pub options: Options,
    #[command(flatten)]
    pub holding: HoldingArgs,
    #[command(flatten)]
    pub record: RecordArgs,
    /// Leave the run to a background process and return at once
    #[arg(long)]
    pub detach: bool,
}

#[derive(Debug, clap::Subcommand)]
pub enum Sub {
    /// Where a loop stands: iterations, features that pass, what the harness last saw
    Status {
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// What may be changed of a loop when it is resumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct IterationArgs {
    /// Iterations the loop may take [default: 10]
    #[arg(long, value_name = "N")]
    pub max_iterations: Option<u32>,
    /// What the agent says when it is done, alone on the last line of its reply [default: TASK_COMPLETE]
    #[arg(long, value_name = "TEXT")]
    pub completion_promise: Option<String>,
}

impl IterationArgs {
    fn over(&self, base: Looping) -> Looping {
        Looping {
            max_iterations: self.max_iterations.unwrap_or(base.max_iterations),
            promise: self.completion_promise.clone().unwrap_or(base.promise),
            ..base
        }
    }

    /// What a run that is taken up is to be told; nothing if nothing was given.
    pub fn change(&self, harness: &Harness, id: &RunId) -> Result<Option<Looping>, Failure> {
        if *self == IterationArgs::default() {
            return Ok(None);
        }
        let run = harness.look(id)?;
        let Some(base) = run.spec.conduct().looping.clone() else {
            return Err(Failure::usage(format!("{id} is not a loop: it has no iterations and no promise")));
        };
        let looping = self.over(base);
        let (max, iteration) = (looping.max_iterations, run.iteration);
        if run.is_out_of_iterations() && max <= iteration {
            let hint = format!("`longhaul resume {id} --max-iterations {}`", iteration.saturating_mul(2));
            let why =
                format!("{id} has used its {iteration} iterations; it goes on with more of them than that");
            return Err(Failure::usage(why).hint(hint));
        }
        if max < iteration && !run.status.is_terminal() {
            return Err(Failure::usage(format!(
                "--max-iterations {max}: {id} is in its iteration {iteration} already"
            )));
        }
        let conduct =
            longhaul_core::conduct::Conduct { looping: Some(looping.clone()), ..Default::default() };
        conduct.check().map_err(|error| Failure::usage(error.to_string()))?;
        Ok(Some(looping))
    }

    /// The same as it would be typed, for another process.
    pub fn typed(&self) -> Vec<String> {
        let max = self.max_iterations.map(|max| format!("--max-iterations={max}"));
        let promise =
            self.completion_promise.as_ref().map(|promise| format!("--completion-promise={promise}"));
        max.into_iter().chain(promise).collect()
    }
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    match (&args.command, &args.run_id) {
        (Some(Sub::Status { id }), _) => status(app, id),
        (None, Some(id)) => resume(app, id, &args),
        (None, None) => start(app, args),
    }
}

fn start(app: &App, args: Args) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    if !settings.enabled {
        return Err(Failure::usage(
            "harness.enabled is false: a loop that leaves no trace cannot be resumed",
        )
        .hint("enable the harness, or use `longhaul run`"));
    }
    refuse_odd(&args)?;
    let objective = objective(app, &args)?;
    let record = args.record.settled(app)?;
    let looping = args.iterations.over(Looping {
        summarizer: args.summarize_with.as_ref().map(|name| settled_model(name, &app.cwd)),
        features: args.init_from.is_some().then_some(true),
        ..Looping::default()
    });
    session::refuse_held(app, &settings, &args.options)?;
    create::refuse_without_model(app, &settings, &args.options)?;
    let iterations_typed = args.iterations.max_iterations.is_some();
    let options = Options { looping: Some(looping), iterations_typed, ..args.options };
    let sandbox = hold(app, &settings, &args.holding)?;
    if options.in_place {
        check_place(&sandbox, &app.cwd)?;
    }
    servers::meet(app, &settings, &sandbox, &options)?;
    let harness = app.holding(&settings, sandbox.clone())?;
    let run = create::create(app, &harness, &settings, &objective, &options)?;
    warn_of_commits(&run.spec);
    tell(&sandbox)?;
    if args.detach {
        let again = Again { holding: args.holding, record, ..Again::default() };
        return drive::detach(app, &harness, &run.spec.id, &again);
    }
    drive::drive_new(app, &harness, &run, record.as_deref())
}

/// Every pass over a list of features ends with a commit: whoever goes to bed should know that the first one waits for them.
fn warn_of_commits(spec: &RunSpec) {
    let by_features = spec.conduct().looping.as_ref().is_some_and(Looping::is_by_features);
    let here = Here { workspace: &spec.workspace, cwd: "" };
    let commit = serde_json::json!({ "command": "git commit -m message" });
    let verdict = judge(spec.rules(), here, "bash", &commit);
    if by_features && verdict.action == Action::Ask && spec.on_ask() == OnAsk::Wait {
        render::warn(
            "the agent commits after each pass, and your settings ask about that: the first commit waits for you \
             unless `permissions: { bash: { \"git commit *\": allow } }` is in your own settings",
        );
    }
}

fn objective(app: &App, args: &Args) -> Result<String, Failure> {
    match (&args.objective, &args.init_from) {
        (Some(objective), _) => Ok(objective.clone()),
        (None, Some(file)) => {
            let path = app.cwd.join(file);
            let wrong = |why: String| Failure::usage(format!("--init-from {}: {why}", file.display()));
            let bytes = std::fs::metadata(&path).map_err(|error| wrong(error.to_string()))?.len();
            if bytes > FILE_BYTES_MAX {
                return Err(wrong(format!("{bytes} bytes are more than {FILE_BYTES_MAX}")));
            }
            std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))
        }
        (None, None) => Err(Failure::usage("what is to be done? Give an objective")
            .hint("`longhaul loop \"OBJECTIVE\"`, or `--init-from SPEC`, or `--resume --run-id ID`")),
    }
}

/// What was hardly meant.
fn refuse_odd(args: &Args) -> Result<(), Failure> {
    if args.options.mode == ModeArg::Complete {
        return Err(Failure::usage(
            "--mode complete answers once, and a loop goes on until a promise is kept",
        )
        .hint("leave --mode out, or use `longhaul run --mode complete`"));
    }
    let is_like_status = |word: &str| word != "status" && closest(word, &["status"]).is_some();
    match args.objective.as_deref().map(str::trim).filter(|word| word.len() > 3 && is_like_status(word)) {
        Some(word) => Err(Failure::usage(format!("`{word}` is an odd objective"))
            .hint("did you mean `longhaul loop status ID`? An objective is a sentence or more")),
        None => Ok(()),
    }
}

/// What a loop is fixed to when it is created.
fn refuse_fixed(args: &Args) -> Result<(), Failure> {
    let options = &args.options;
    let given = [
        ("--protect", !options.conduct.protect.is_empty()),
        ("--protect-policy", options.conduct.protect_policy.is_some()),
        ("--summarize-with", args.summarize_with.is_some()),
        ("--autonomy", options.autonomy.is_some()),
        ("--tools", options.tools.is_some()),
        ("--ask", !options.ask.is_empty()),
        ("--in-place", options.in_place),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((flag, _)) => Err(Failure::usage(format!("{flag} is settled when a loop is created"))
            .hint(
                "with --resume go --max-iterations, --completion-promise, --verify, --judge, --model and the limits",
            )),
        None => Ok(()),
    }
}

fn resume(app: &App, id: &str, args: &Args) -> Result<Exit, Failure> {
    refuse_fixed(args)?;
    let start = super::start::Args {
        id: id.to_owned(),
        detach: args.detach,
        checkpoint: None,
        model: args.options.model.first().cloned(),
        iterations: args.iterations.clone(),
        checks: args.options.conduct.checks.clone(),
        holding: args.holding.clone(),
        record: args.record.clone(),
        limits: LimitArgs { ..args.options.limits.clone() },
    };
    super::start::resume(app, start)
}

/// `loop status`.
fn status(app: &App, id: &str) -> Result<Exit, Failure> {
    let run = app.harness()?.look(&app.run(id)?)?;
    if let Some(hint) = super::show::how_it_stands(app, &run)? {
        render::hint(&hint);
    }
    let Some(looping) = &run.spec.conduct().looping else {
        return Err(Failure::usage(format!("{} is not a loop", run.spec.id)));
    };
    let features = run.examined.as_ref().and_then(|seen| seen.found.features.as_ref());
    if app.json() {
        render::json(&serde_json::json!({
            "id": run.spec.id,
            "status": run.status,
            "iteration": run.iteration,
            "maxIterations": looping.max_iterations,
            "completionPromise": looping.promise,
            "idleIterations": run.pace.idle_iterations,
            "features": features,
            "examined": run.examined,
        }));
        return Ok(Exit::Ok);
    }
    let mut lines = format!(
        "{}: {}, iteration {} of {}\n",
        run.spec.id,
        run.called(),
        run.iteration,
        looping.max_iterations
    );
    if run.status == Status::Running && run.turns == 0 {
        lines.push_str("nothing has been done yet\n");
    }
    if let Some(features) = features {
        lines.push_str(&format!("{}/{} features passing\n", features.passing, features.total));
    }
    if let Some(seen) = &run.examined {
        for check in &seen.found.checks {
            let mark = if check.passed { "passed" } else { "FAILED" };
            lines.push_str(&format!("{mark}: {} ({})\n", check.command, check.ended));
        }
    }
    render::data(lines.trim_end());
    Ok(Exit::Ok)
}
