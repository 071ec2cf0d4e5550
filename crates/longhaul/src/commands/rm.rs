//! `rm`: forget a run.

use longhaul_core::ids::RunId;
use longhaul_core::status::Status;
use longhaul_engine::Harness;

use super::leavings;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Remove runs and everything kept of them; their workspaces stay
///
/// What they left in your repository besides a branch goes too: the commit that `--with-changes` carried in, and the entry of a
/// worktree whose directory somebody has deleted.
///
/// All of them are looked at first: if one is not there or may not be removed, none is.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID", required = true)]
    pub ids: Vec<String>,
    /// Also remove runs that have begun and not ended, and those that cannot be read
    #[arg(long)]
    pub force: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    let mut ids = args.ids.iter().map(|text| app.run(text)).collect::<Result<Vec<RunId>, Failure>>()?;
    ids.sort();
    ids.dedup();
    if !args.force {
        ids.iter().try_for_each(|id| check(&harness, id))?;
    }
    for id in ids {
        let run = harness.look(&id);
        match harness.remove(&id) {
            // It was sent by one that was removed just now, and went with it.
            Err(longhaul_engine::Error::Store(longhaul_store::Error::NotFound { .. })) => {}
            removed => removed?,
        }
        if let Ok(run) = run {
            leavings::of_removed(app, &run.spec);
        }
        render::talk(&format!("{id} removed"));
    }
    Ok(Exit::Ok)
}

/// May the run be removed without force?
fn check(harness: &Harness, id: &RunId) -> Result<(), Failure> {
    match harness.look(id).map(|run| (run.status, run.called())) {
        Ok((Status::Created | Status::Completed | Status::Failed, _)) => Ok(()),
        Ok((Status::Running | Status::Paused, called)) => {
            Err(Failure::from(anyhow::anyhow!("{id} is {called}, not ended"))
                .hint(format!("`longhaul stop {id}` first, or remove it all the same with --force")))
        }
        Err(error) => Err(Failure::from(error).hint("remove it all the same with --force")),
    }
}
