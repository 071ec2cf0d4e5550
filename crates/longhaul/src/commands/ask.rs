//! `pause` and `stop`, from any process: posted to the run's inbox, or applied here when nobody drives it.

use std::time::{Duration, Instant};

use longhaul_core::command::{Command, Wish};
use longhaul_core::decide::decide;
use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_core::view::RunView;
use longhaul_engine::{Error, Harness};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{OBEY_LOOK_MS, OBEY_MS_MAX};
use crate::render;

/// Pause a run: what is under way is cut short, and the agent is told so when the run goes on
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

pub fn pause(app: &App, args: PauseArgs) -> Result<Exit, Failure> {
    let wish = Wish::Pause { reason: args.reason };
    ask(app, &app.run(&args.id)?, wish, Status::Paused)
}

pub fn stop(app: &App, args: StopArgs) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.telling()?;
    let run = harness.look(&id)?;
    // A stop that was killed half way is said again: who is left below ends now.
    if run.status == Status::Failed && run.live_children().next().is_some() {
        tell(app, &harness.settle_below(&id)?);
        return Ok(Exit::Ok);
    }
    ask(app, &id, Wish::Stop { reason: args.reason }, Status::Failed)
}

fn ask(app: &App, id: &RunId, wish: Wish, expected: Status) -> Result<Exit, Failure> {
    let harness = app.telling()?;
    refuse_early(&harness, id, &wish)?;
    let command = harness.command(wish)?;
    let run = obeyed(&harness, id, &command, expected)?;
    let_go(&harness, id)?;
    let has_obeyed = run.status == expected;
    // Whoever drove it may have been killed before those below had heard.
    tell(app, &if has_obeyed { harness.settle_below(id)? } else { run });
    if !has_obeyed {
        let verb = command.wish.verb();
        render::warn(&format!("the {verb} is on record, but whoever drives {id} has not obeyed yet"));
        return Ok(Exit::Waiting);
    }
    Ok(Exit::Ok)
}

fn tell(app: &App, run: &Run) {
    if app.json() {
        render::json(&RunView::of(run));
    } else {
        render::talk(&format!("{} is {}", run.spec.id, run.called()));
    }
}

/// Leaves the command with whoever drives the run, or applies it here when nobody does. It has one name throughout, so
/// that it is obeyed once even if a driver comes or goes in between.
fn obeyed(harness: &Harness, id: &RunId, command: &Command, expected: Status) -> Result<Run, Failure> {
    let asked = Instant::now();
    let mut posted = false;
    loop {
        let run = harness.look(id)?;
        // One that is taken up after a pause is paused until its workspace is prepared.
        let rests = run.status == expected && !run.setting_up;
        if posted && (rests || run.commands.contains(&command.id)) {
            return settled(id, run, command, expected);
        }
        if harness.store_of(id)?.holder(id)?.is_none() {
            match harness.apply(id, command.clone()) {
                // Somebody took the run up in this very moment: then it is theirs to obey.
                Err(Error::Store(longhaul_store::Error::Held { .. })) => {}
                // The dead driver's inbox held it too, and it was obeyed from there.
                Err(Error::Refused(_)) if posted => {}
                applied => return Ok(applied?),
            }
        } else if !posted {
            harness.post(id, command)?;
            posted = true;
        }
        if asked.elapsed() > Duration::from_millis(OBEY_MS_MAX) {
            return Ok(run);
        }
        std::thread::sleep(Duration::from_millis(OBEY_LOOK_MS));
    }
}

/// Waits until whoever drove the run has put it down, within bounds: sub-agents come to rest after it, and who types `resume`
/// next should not be told that it is held.
fn let_go(harness: &Harness, id: &RunId) -> Result<(), Failure> {
    let asked = Instant::now();
    let store = harness.store_of(id)?;
    while store.holder(id)?.is_some() && asked.elapsed() < Duration::from_millis(OBEY_MS_MAX) {
        std::thread::sleep(Duration::from_millis(OBEY_LOOK_MS));
    }
    Ok(())
}

/// The run has heard the command; if it did not follow, its status had changed before.
fn settled(id: &RunId, run: Run, command: &Command, expected: Status) -> Result<Run, Failure> {
    if run.status == expected {
        return Ok(run);
    }
    let verb = command.wish.verb();
    Err(Failure::from(anyhow::anyhow!("{id} was {} before it could {verb}", run.called())))
}

/// What the run's status does not allow is said at once and leaves no trace.
pub fn refuse_early(harness: &Harness, id: &RunId, wish: &Wish) -> Result<(), Failure> {
    let run = harness.look(id)?;
    let probe = Command { id: CommandId::from_bits(0), wish: wish.clone() };
    decide(&run, run.updated_at, Input::Command(probe)).map_err(longhaul_engine::Error::from)?;
    Ok(())
}
