//! `events`: what happened, event by event, also while it happens.

use std::time::Duration;

use longhaul_core::view::EventLine;
use serde_json::Value;

use crate::app::{App, run_id};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Show what happened in a run, event by event
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Go on showing events as they happen, until the run ends
    #[arg(long, short)]
    pub follow: bool,
    /// Only events after this sequence number
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    pub after: u64,
}

/// How often a follower looks for more; a journal has no bell to ring.
const LOOK_MS: u64 = 100;

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = run_id(&args.id)?;
    let json = app.json();
    follow(app, &id, args.follow, &mut |line| {
        if line.get("seq").and_then(Value::as_u64).is_some_and(|seq| seq > args.after) {
            if json { render::json_line(line) } else { render::data(&plain(line)) }
        }
    })
}

/// Shows every event of a run as a JSON line to `show`; goes on until the run ends if asked.
pub fn follow(
    app: &App,
    id: &longhaul_core::ids::RunId,
    follow: bool,
    show: &mut dyn FnMut(&Value),
) -> Result<Exit, Failure> {
    let mut onlooker = app.reading()?.onlooker(id)?;
    loop {
        onlooker.look(&mut |run, seq, at, event| {
            show(&serde_json::to_value(EventLine { run, seq, at, event }).unwrap_or_default());
        })?;
        if !follow || onlooker.run()?.status.is_terminal() {
            break;
        }
        std::thread::sleep(Duration::from_millis(LOOK_MS));
    }
    if onlooker.not_understood > 0 {
        let count = onlooker.not_understood;
        render::warn(&format!("{count} events were written by a newer longhaul and are not shown"));
    }
    Ok(Exit::Ok)
}

fn plain(line: &Value) -> String {
    let text = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or("");
    let Value::Object(fields) = line else { return String::new() };
    let details: Vec<String> = fields
        .iter()
        .filter(|(name, value)| {
            !matches!(name.as_str(), "seq" | "at" | "harnessId" | "type") && !value.is_null()
        })
        .map(|(name, value)| format!("{name}={}", crate::render::table::short(&value.to_string(), 80)))
        .collect();
    let seq = line.get("seq").and_then(Value::as_u64).unwrap_or(0);
    format!("{seq:>5}  {}  {:<20} {}", text("at"), text("type"), details.join(" "))
}
