//! `export`: a run as a state document.

use longhaul_core::document;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Print a run as a JSON state document (schema version 1)
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let run = app.reading()?.look(&app.run(&args.id)?)?;
    render::json(&document::write(&run));
    Ok(Exit::Ok)
}
