//! `rm`: forget a run.

use longhaul_core::status::Status;

use crate::app::{App, run_id};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Remove a run and everything kept of it; its workspace stays
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Also remove runs that have not ended
    #[arg(long)]
    pub force: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    for text in &args.ids {
        let id = run_id(text)?;
        // A run that cannot be read can still be removed.
        let status = harness.look(&id).map(|run| (run.status, run.called()));
        match status {
            Ok((Status::Created | Status::Completed | Status::Failed, _)) => {}
            Ok((_, called)) if !args.force => {
                return Err(Failure::from(anyhow::anyhow!("{id} is {called}, not ended"))
                    .hint(format!("`longhaul stop {id}` first, or remove it all the same with --force")));
            }
            Err(longhaul_engine::Error::Store(longhaul_store::Error::NotFound { .. })) => {
                status.map_err(Failure::from)?;
            }
            Err(error) if !args.force => {
                return Err(Failure::from(error).hint("remove it all the same with --force"));
            }
            Ok(_) | Err(_) => {}
        }
        harness.remove(&id)?;
        render::talk(&format!("{id} removed"));
    }
    Ok(Exit::Ok)
}
