//! `run`: create and start in one go.

use longhaul_engine::Opening;

use super::create::{self, DEFAULT_AGENT, OnAskArg, Options};
use super::drive::{self, Again};
use super::holding::{HoldingArgs, check_place, hold, tell};
use super::prompt;
use super::record::{RecordArgs, remembered};
use super::session;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::servers;

/// Work on a task until it is done, a limit is reached, or a person is needed
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul run \"Make the tests pass\"
      with the model whose key is set, or a local one
  longhaul run \"Tidy the docs\" --model anthropic/MODEL --model openai/MODEL
      the second model is a fallback
  longhaul run \"Make the tests pass\" --max-cost 5 --limit-policy max_cost=stop
  longhaul run \"Make the tests pass\" --model scripted/rehearsal.yaml
  longhaul run coder --task \"Fix the bug\"
  longhaul run \"Tidy the docs\" --in-place --max-tool-calls 20 --detach")]
pub struct Args {
    /// What is to be done; with `--task`, the agent that does it
    #[arg(value_name = "TASK", required_unless_present = "given")]
    pub task: Option<String>,
    /// What is to be done, where an agent's name stands first: `longhaul run coder --task "Fix the bug"`
    #[arg(id = "given", long = "task", value_name = "TASK")]
    pub given: Option<String>,
    #[command(flatten)]
    pub options: Options,
    #[command(flatten)]
    pub holding: HoldingArgs,
    #[command(flatten)]
    pub record: RecordArgs,
    /// Leave the run to a background process and return at once
    #[arg(long)]
    pub detach: bool,
    /// Only show what the model would be sent first; nothing is created or asked
    #[arg(long)]
    pub show_prompt: bool,
}

impl Args {
    /// What is to be done, once it is clear what the first word is.
    fn settle(&mut self) -> Result<String, Failure> {
        let (first, given) = (self.task.take(), self.given.take());
        let Some(task) = given else { return Ok(first.unwrap_or_default()) };
        if let Some(agent) = first {
            if self.options.agent != DEFAULT_AGENT && self.options.agent != agent {
                return Err(Failure::usage(format!(
                    "`{agent}` and --agent {} are two agents; a run has one",
                    self.options.agent
                ))
                .hint("`longhaul run AGENT --task \"TASK\"`, or `longhaul run \"TASK\" --agent AGENT`"));
            }
            self.options.agent = agent;
        }
        Ok(task)
    }
}

pub fn run(app: &App, mut args: Args) -> Result<Exit, Failure> {
    let task = args.settle()?;
    let settings = app.settings()?;
    if args.show_prompt {
        return prompt::show_first(app, &settings, &task, &args.options);
    }
    if !settings.enabled {
        return run_without_trace(app, &settings, &task, &args);
    }
    session::refuse_held(app, &settings, &args.options)?;
    create::refuse_without_model(app, &settings, &args.options)?;
    let record = args.record.settled(app)?;
    // Before anything is made: a run whose commands cannot be held is none.
    let sandbox = hold(app, &settings, &args.holding)?;
    if args.options.in_place {
        check_place(&sandbox, &app.cwd)?;
    }
    servers::meet(app, &settings, &sandbox, &args.options)?;
    let harness = app.holding(&settings, sandbox.clone())?;
    let run = create::create(app, &harness, &settings, &task, &args.options)?;
    let id = &run.spec.id;
    let record = remembered(&harness, id, record);
    tell(&sandbox)?;
    if args.detach {
        let again = Again { holding: args.holding, record, ..Again::default() };
        return drive::detach(app, &harness, id, &again);
    }
    drive::drive_new(app, &harness, &run, record.as_deref())
}

/// `harness.enabled: false`: the same work, with nothing written but what the agent writes.
fn run_without_trace(
    app: &App,
    settings: &crate::settings::Settings,
    task: &str,
    args: &Args,
) -> Result<Exit, Failure> {
    if args.detach {
        return Err(Failure::usage(
            "harness.enabled is false: a run that leaves no trace cannot be detached",
        ));
    }
    let autonomy = args.options.autonomy.unwrap_or(settings.autonomy.level());
    if autonomy < 4 {
        return Err(Failure::usage(
            "harness.enabled is false: a run that leaves no trace cannot wait for a person",
        )
        .hint("use `--autonomy 4`, or enable the harness"));
    }
    let sandbox = hold(app, settings, &args.holding)?;
    check_place(&sandbox, &app.cwd)?;
    servers::meet(app, settings, &sandbox, &args.options)?;
    let harness = app.forgetful(settings, sandbox.clone())?;
    // Without a state directory there is no place of its own to work in.
    let on_ask = Some(args.options.on_ask.unwrap_or(OnAskArg::Deny));
    let options = Options { in_place: true, on_ask, ..args.options.clone() };
    let run = create::create(app, &harness, settings, task, &options)?;
    if !args.options.in_place {
        render::warn("harness.enabled is false: the agent works right here, and nothing is kept of the run");
    }
    tell(&sandbox)?;
    let record = args.record.settled(app)?;
    drive::drive(app, &harness, &run.spec.id, Opening::default(), record.as_deref())
}
