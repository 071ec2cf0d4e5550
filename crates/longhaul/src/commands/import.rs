//! `import`: a state document becomes a run here.

use std::io::Read;
use std::path::PathBuf;

use longhaul_core::document;
use longhaul_core::limits::DOCUMENT_BYTES_MAX;
use longhaul_core::plan::Plan;
use longhaul_core::spec::RunSpec;
use longhaul_core::view::RunView;

use crate::agents::{self, AgentDirs};
use crate::app::{App, run_id};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

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
    document::read(&text).map_err(bad)?;
    let rename = args.rename.as_deref().map(run_id).transpose()?;
    let harness = app.harness()?;
    let defaults = defaults(app, &harness, args.model)?;
    let run = harness.import(&text, defaults, rename)?;
    super::create::warn_of_fallback(&run);
    super::export::warn_of_outputs(&run);
    if std::path::Path::new(&run.spec.workspace).exists() {
        render::warn(&format!(
            "{} goes on in {}, where the run it came from may still work",
            run.spec.id, run.spec.workspace
        ));
    }
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

/// What a document of somebody else does not say.
fn defaults(
    app: &App,
    harness: &longhaul_engine::Harness,
    model: Option<String>,
) -> Result<RunSpec, Failure> {
    let settings = app.settings()?;
    let agent = agents::find(&AgentDirs::default(), "coder")?;
    let names: Vec<String> = harness.toolbox.names().into_iter().map(str::to_owned).collect();
    let id = harness.new_run_id()?;
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
        workspace: app.state_dir.join("workspace").join("run").join(id.as_str()).display().to_string(),
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
