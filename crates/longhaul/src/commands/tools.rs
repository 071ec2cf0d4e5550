//! `tools`: a run's calls, what became of each, and how many are left.

use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Show a run's tool calls
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let run = app.reading()?.look(&app.run(&args.id)?)?;
    if app.json() {
        let calls: Vec<_> = run
            .calls
            .iter()
            .map(|call| {
                // A step that gave way to another plan has no place in this one.
                let place = Some(call.step).filter(|place| (*place as usize) < run.plan.steps.len());
                json!({
                    "callId": call.id.to_string(), "stepIndex": place,
                    "stepId": run.step_at(call.step).map(|step| &step.id), "turn": call.turn,
                    "callName": call.tool, "arguments": call.args, "result": call.outcome(),
                    "durationMs": call.duration_ms(), "retryCount": call.attempt().retries(),
                    "attempts": call.attempt(), "timestamp": call.asked_at, "state": call.state,
                })
            })
            .collect();
        render::json(&json!({ "calls": calls, "remaining": run.remaining_calls() }));
        return Ok(Exit::Ok);
    }
    let lines = run.calls.iter().map(|call| {
        let outcome = match call.outcome() {
            None => "under way".to_owned(),
            Some(outcome) => outcome.error().map_or("done".to_owned(), |error| table::fit(error, 50)),
        };
        vec![
            call.id.to_string(),
            table::fit(&call.tool, 50),
            table::fit(call.args.as_str(), 50),
            call.attempt().retries().to_string(),
            call.duration_ms().map(|millis| format!("{millis:.1} ms")).unwrap_or_default(),
            outcome,
        ]
    });
    render::data(&table::rows(&["CALL", "TOOL", "ARGUMENTS", "RETRIES", "TOOK", "OUTCOME"], lines));
    render::talk(&format!("remaining {}", run.remaining_calls()));
    Ok(Exit::Ok)
}
