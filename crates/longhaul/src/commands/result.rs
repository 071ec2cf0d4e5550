//! `result`: what came of a run.

use longhaul_core::report::Report;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Show what came of a run: what was asked and done, what shows it, what it took and what remains; exits as the run did
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Only what the agent said last
    #[arg(long)]
    pub output: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let run = app.reading()?.look(&app.run(&args.id)?)?;
    let report = Report::of(&run);
    if args.output {
        render::words(&report.output);
    } else if app.json() {
        render::json(&report);
    } else {
        render::words(report.markdown().trim_end());
    }
    Ok(Exit::of_run(&run))
}
