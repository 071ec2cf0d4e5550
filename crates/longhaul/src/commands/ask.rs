//! `pause` and `stop`, from any process: posted to the run's inbox, or applied here when nobody drives it.

use std::time::{Duration, Instant};

use longhaul_core::command::Wish;
use longhaul_core::decide::decide;
use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_core::view::RunView;
use longhaul_engine::Harness;

use crate::app::{App, run_id};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Pause a run, keeping everything
#[derive(Debug, clap::Args)]
pub struct PauseArgs {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Why, for the record
    #[arg(long, default_value = "paused by a person", value_name = "TEXT")]
    pub reason: String,
}

/// Stop a run for good: it ends as failed
#[derive(Debug, clap::Args)]
pub struct StopArgs {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Why, for the record
    #[arg(long, default_value = "stopped", value_name = "TEXT")]
    pub reason: String,
}

/// How long a live driver may take to obey before we say that it has not. It looks five times a second.
const OBEY_MS_MAX: u64 = 5000;

pub fn pause(app: &App, args: PauseArgs) -> Result<Exit, Failure> {
    let wish = Wish::Pause { reason: args.reason };
    ask(app, &run_id(&args.id)?, wish, Status::Paused)
}

pub fn stop(app: &App, args: StopArgs) -> Result<Exit, Failure> {
    let wish = Wish::Stop { reason: args.reason };
    ask(app, &run_id(&args.id)?, wish, Status::Failed)
}

fn ask(app: &App, id: &RunId, wish: Wish, expected: Status) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    refuse_early(&harness, id, &wish)?;
    let run = match harness.store_of(id)?.holder(id)? {
        None => match harness.apply(id, wish.clone()) {
            // Somebody took the run up in this very moment: then it is theirs to obey.
            Err(longhaul_engine::Error::Store(longhaul_store::Error::Held { .. })) => {
                post_and_wait(&harness, id, wish, expected)?
            }
            applied => applied?,
        },
        Some(_) => post_and_wait(&harness, id, wish, expected)?,
    };
    if app.json() {
        render::json(&RunView::of(&run));
    } else {
        render::talk(&format!("{id} is {}", run.status));
    }
    Ok(Exit::Ok)
}

/// What the run's status does not allow is said at once and leaves no trace.
pub fn refuse_early(harness: &Harness, id: &RunId, wish: &Wish) -> Result<(), Failure> {
    let run = harness.look(id)?;
    let probe = longhaul_core::command::Command {
        id: longhaul_core::ids::CommandId::from_bits(0),
        wish: wish.clone(),
    };
    decide(&run, run.updated_at, Input::Command(probe)).map_err(longhaul_engine::Error::from)?;
    Ok(())
}

fn post_and_wait(harness: &Harness, id: &RunId, wish: Wish, expected: Status) -> Result<Run, Failure> {
    let verb = wish.verb();
    harness.post(id, wish)?;
    let asked = Instant::now();
    loop {
        let run = harness.look(id)?;
        if run.status == expected {
            return Ok(run);
        }
        if run.status.is_terminal() {
            return Err(Failure::from(anyhow::anyhow!("{id} was {} before it could {verb}", run.status)));
        }
        if asked.elapsed() > Duration::from_millis(OBEY_MS_MAX) {
            render::warn(&format!("the {verb} is on record, but whoever drives {id} has not obeyed yet"));
            return Ok(run);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}
