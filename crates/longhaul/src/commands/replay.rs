//! `replay`: the run rebuilt from its journal alone, turn by turn.

use longhaul_core::event::Event;
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;
use longhaul_core::view::RunView;

use super::cost::cost;
use super::logs::retell;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table::clean};

/// Rebuild a run from its journal alone, up to any event, and show it turn by turn
///
/// Nothing is asked and nothing is done again: what happened is told, with what was used by each turn. With --json, the run as it
/// was after that event.
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
    let mut end = None;
    onlooker.look(&mut |run, seq, at, event| {
        if seq <= until && !app.json() {
            tell(run, seq, at, event);
        }
        if seq == until {
            end = Some(End::of(app, run));
        }
    })?;
    let run = onlooker.run()?;
    let end = match end {
        Some(end) => end,
        None if until > run.seq => End::of(app, run),
        None if until == 0 => return Err(Failure::usage("there is no event 0; the first is 1")),
        None => return Err(Failure::usage(format!("this longhaul cannot read event {until}"))),
    };
    match end {
        End::Json(view) => render::json(&view),
        End::Line(line) => render::data(&line),
    }
    Ok(Exit::Ok)
}

/// The run after the last event that is looked at.
enum End {
    Json(Box<RunView>),
    Line(String),
}

impl End {
    fn of(app: &App, run: &Run) -> End {
        if app.json() {
            return End::Json(Box::new(RunView::of(run)));
        }
        End::Line(format!("\n== @{} · {} · {}", run.seq, run.called(), used(run)))
    }
}

fn tell(run: &Run, seq: u64, at: Timestamp, event: &Event) {
    if let Event::TurnStarted { turn, .. } = event {
        render::data(&format!("\n== turn {turn} · @{seq} · {at} · {}", used(run)));
    }
    retell(run, event).iter().for_each(|line| render::data(&clean(line)));
}

fn used(run: &Run) -> String {
    format!("{} tokens · {}", run.usage.tokens(), cost(&run.usage))
}
