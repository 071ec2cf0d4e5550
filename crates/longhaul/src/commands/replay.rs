//! `replay`: the run rebuilt from its journal alone.

use longhaul_core::view::RunView;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Rebuild a run from its journal alone, up to any event
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Stop after this event [default: the last]
    #[arg(long, value_name = "SEQ")]
    pub to: Option<u64>,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let mut onlooker = app.reading()?.onlooker(&id)?;
    let until = args.to.unwrap_or(u64::MAX);
    let mut view = None;
    onlooker.look(&mut |run, seq, _, _| {
        if seq <= until {
            view = Some(RunView::of(run));
        }
    })?;
    let view = view.ok_or_else(|| Failure::usage("there is no event 0; the first is 1"))?;
    render::json(&view);
    Ok(Exit::Ok)
}
