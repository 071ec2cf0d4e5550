//! `result`: what came of a run.

use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Show what came of a run; exits as the run did
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let run = app.reading()?.look(&app.run(&args.id)?)?;
    let output = run.output().unwrap_or("");
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
    Ok(Exit::of_run(&run))
}
