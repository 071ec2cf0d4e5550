//! `result`: what came of a run.

use longhaul_core::run::Run;
use longhaul_core::status::Status;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;
use crate::schema;

/// Show what came of a run; exits as the run did
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let run = app.reading()?.look(&app.run(&args.id)?)?;
    let output = run.output().unwrap_or("");
    let misfit = misfit(&run);
    if app.json() {
        let ended = run.completed_at.unwrap_or(run.updated_at);
        render::json(&json!({
            "id": run.spec.id,
            "output": output,
            "status": run.status,
            "reason": run.reason,
            "stepsCompleted": run.plan.completed_count(),
            "totalSteps": run.plan.steps.len(),
            "toolCallCount": run.calls_started,
            "duration": ended.millis_since(run.created_at),
            "usage": run.usage,
            "error": run.error,
            "fits": run.spec.answer_schema.as_ref().map(|_| misfit.is_none()),
            "misfit": misfit,
        }));
    } else if run.status.is_terminal() {
        render::words(output);
    } else {
        render::talk(&format!("{} is {}; so far:", run.spec.id, run.status));
        render::words(output);
    }
    if let Some(error) = &run.error {
        render::talk(&format!("failed: {error}"));
    }
    Ok(exit(&run, misfit))
}

/// What is wrong with the answer of a run that was asked for one of a schema.
pub fn misfit(run: &Run) -> Option<String> {
    let schema = run.spec.answer_schema.as_ref().filter(|_| run.status == Status::Completed)?;
    schema::misfit(&schema.value(), run.output().unwrap_or(""))
}

/// As the run did, but for an answer that is not what was asked for: a script must not take it for one.
pub fn exit(run: &Run, misfit: Option<String>) -> Exit {
    let Some(misfit) = misfit else { return Exit::of_run(run) };
    render::warn(&format!("the answer does not fit the schema: {misfit}"));
    Exit::Failed
}
