//! `steps`: a run's plan and how far each step is.

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Show a run's steps
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let run = app.reading()?.look(&app.run(&args.id)?)?;
    if app.json() {
        render::json(&run.plan.steps);
        return Ok(Exit::Ok);
    }
    let lines = run.plan.steps.iter().map(|step| {
        vec![
            step.id.clone(),
            step.status.as_str().to_owned(),
            step.agent.clone(),
            if step.critical { "yes" } else { "" }.to_owned(),
            step.dependencies.join(", "),
            table::fit(step.error.as_deref().unwrap_or(&step.description), 60),
        ]
    });
    render::data(&table::rows(&["STEP", "STATUS", "AGENT", "CRITICAL", "AFTER", "DESCRIPTION"], lines));
    Ok(Exit::Ok)
}
