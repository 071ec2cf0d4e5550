//! `import`: a state document becomes a run here.

use std::io::Read;
use std::path::PathBuf;

use longhaul_core::document;
use longhaul_core::ids::RunId;
use longhaul_core::limits::DOCUMENT_BYTES_MAX;
use longhaul_core::plan::Plan;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::view::RunView;

use super::placing::refuse_vital;
use crate::agents::{self, AgentDirs};
use crate::app::{App, run_id};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Take in a JSON state document as a run, under its own id
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The document; `-` for standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Take it in under another id
    #[arg(long = "as", value_name = "ID")]
    pub rename: Option<String>,
    /// The model to go on with, if the document names none
    #[arg(long, value_name = "P/M")]
    pub model: Option<String>,
    #[command(flatten)]
    pub taking: TakingIn,
}

/// What is taken in of a run that somebody else may have made. Where it works and what it may do is never theirs to say.
#[derive(Debug, clap::Args)]
pub struct TakingIn {
    /// Let it work right here, instead of in an empty directory of its own
    #[arg(long)]
    pub in_place: bool,
    /// Run the verify commands that it brings with it here as well
    #[arg(long)]
    pub with_commands: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let shown = args.file.display().to_string();
    let bytes = read(&args.file).map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    let text = text(bytes).map_err(|why| Failure::usage(format!("{shown}: {why}")))?;
    // Checked before the state directory is touched: a bad document leaves nothing behind.
    let bad = |error: document::Error| {
        let failure = Failure::usage(format!("{shown}: {error}"));
        match error {
            document::Error::Changed => failure.hint(
                "fetch it again; if you edited it on purpose, take the field `longhaul.digest` out and it is taken as it is",
            ),
            document::Error::Syntax(_)
            | document::Error::Version { .. }
            | document::Error::TooLarge { .. }
            | document::Error::Id(_)
            | document::Error::Plan(_)
            | document::Error::StepIndex { .. }
            | document::Error::Disagreement { .. } => failure,
        }
    };
    let state = document::read(&text).map_err(bad)?;
    args.taking.refuse_commands(app, &shown, &document::commands(&text).map_err(bad)?)?;
    let rename = args.rename.as_deref().map(run_id).transpose()?;
    let id = rename.clone().unwrap_or(state.harness_id);
    let own = args.taking.own(app, &id, args.model)?;
    let run = app.harness()?.import(&text, own, rename)?;
    super::create::warn_of_fallback(&run);
    super::export::warn_of_outputs(&run);
    args.taking.make_place(&run)?;
    if app.json() {
        render::json(&RunView::of(&run));
    } else {
        render::data(run.spec.id.as_str());
    }
    Ok(Exit::Ok)
}

fn read(path: &PathBuf) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let limit = DOCUMENT_BYTES_MAX as u64 + 1;
    if path.as_os_str() == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)?;
    } else {
        std::fs::File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// What is no text is named by its place, counted as the parser counts.
fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        let before = &error.as_bytes()[..offset];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count() + 1;
        format!("byte {offset} is not part of any text (UTF-8) at line {line} column {column}")
    })
}

impl TakingIn {
    /// Makes the place where it is to work, in which none of what it had done before is. Whoever goes on with it should know.
    pub fn make_place(&self, run: &Run) -> Result<(), Failure> {
        let (id, place) = (&run.spec.id, &run.spec.workspace);
        if self.in_place {
            render::talk(&format!("{id} works in {place} from now on; its files did not come with it"));
            return Ok(());
        }
        std::fs::create_dir_all(place)?;
        render::talk(&format!("{id} works in {place}, which is empty: its files did not come with it"));
        Ok(())
    }

    /// Refuses commands that nobody here has looked at: rules and people are not asked about them.
    pub fn refuse_commands(&self, app: &App, shown: &str, commands: &[String]) -> Result<(), Failure> {
        if commands.is_empty() || self.with_commands || app.shared.trust {
            return Ok(());
        }
        let named: Vec<String> =
            commands.iter().map(|command| format!("`{}`", table::clean(command))).collect();
        let why = format!("{shown} brings commands that would be run here: {}", named.join(", "));
        Err(Failure::usage(why).hint("if they are what you want, say so with --with-commands"))
    }

    /// What a run that is taken in is given here, and what the document of somebody else does not say.
    pub fn own(&self, app: &App, id: &RunId, model: Option<String>) -> Result<RunSpec, Failure> {
        let workspace = if self.in_place {
            refuse_vital(app)?;
            app.cwd.clone()
        } else {
            app.state_dir.join("workspace").join("run").join(id.as_str())
        };
        let harness = app.harness()?;
        let settings = app.settings()?;
        let agent = agents::find(&AgentDirs::default(), "coder")?;
        let names: Vec<String> = harness.toolbox.names().into_iter().map(str::to_owned).collect();
        let id = id.clone();
        Ok(RunSpec {
            agent: agent.name,
            task: String::new(),
            task_id: String::new(),
            model: model.or(settings.model.clone()).unwrap_or_default(),
            prompt: agent.prompt,
            plan: Plan::default(),
            autonomy: settings.autonomy,
            limits: settings.limits,
            retry: settings.retry,
            tools: harness.toolbox.grants(&names).map_err(|error| Failure::usage(error.to_string()))?,
            workspace: workspace.display().to_string(),
            parent: None,
            depth: 0,
            session: None,
            checkpoint_interval_ms: settings.checkpoint_interval_ms,
            branch: None,
            repository: None,
            engine_enabled: None,
            models: None,
            mode: None,
            answer_schema: None,
            on_ask: None,
            permissions: Some(settings.rules.layers()),
            conduct: None,
            parallel: None,
            crew: None,
            planner: None,
            base: None,
            carried: None,
            auto_commit: None,
            source: None,
            baseline_of: None,
            agent_caps: None,
            collaboration: None,
            workflow_run: None,
            isolation: None,
            id,
        })
    }
}
