//! `events`: what happened, event by event, also while it happens.

use std::time::{Duration, Instant};

use longhaul_core::ids::RunId;
use longhaul_core::view::EventLine;
use longhaul_engine::fold::Look;
use serde_json::Value;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{FOLLOW_LOOK_MS, UNDRIVEN_MS_MAX};
use crate::render;

/// Show what happened in a run, event by event
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Go on showing events as they happen, until the run ends or nobody drives it
    #[arg(long, short)]
    pub follow: bool,
    /// Only events after this sequence number
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    pub after: u64,
}

/// What a follower does once it has shown everything there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtTheEnd {
    Stop,
    /// Wait for more until the run has ended or nobody drives it.
    Follow,
}

impl From<bool> for AtTheEnd {
    fn from(follow: bool) -> AtTheEnd {
        if follow { AtTheEnd::Follow } else { AtTheEnd::Stop }
    }
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let json = app.json();
    follow(app, &id, args.follow.into(), &mut |run, seq, at, event| {
        if seq > args.after {
            let line = serde_json::to_value(EventLine { run, seq, at, event }).unwrap_or_default();
            if json { render::json_line(&line) } else { render::data(&plain(&line)) }
        }
    })
}

/// Shows every event of a run to `show`, those that are still to come too if asked.
pub fn follow(app: &App, id: &RunId, at_the_end: AtTheEnd, show: Look<'_>) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    let mut onlooker = harness.onlooker(id)?;
    let mut driven_at = Instant::now();
    let mut asked_at: Option<Instant> = None;
    loop {
        onlooker.look(show)?;
        if at_the_end == AtTheEnd::Stop || onlooker.run()?.status.is_terminal() {
            break;
        }
        // Asked once a second: asking holds the lock for an instant.
        if asked_at.is_none_or(|asked| asked.elapsed() > Duration::from_secs(1)) {
            asked_at = Some(Instant::now());
            if harness.store_of(id)?.holder(id)?.is_some() {
                driven_at = Instant::now();
            }
        }
        if driven_at.elapsed() > Duration::from_millis(UNDRIVEN_MS_MAX) {
            let status = onlooker.run()?.status;
            render::hint(&format!(
                "{id} is {status} and nobody drives it; go on with `longhaul resume {id}`"
            ));
            break;
        }
        std::thread::sleep(Duration::from_millis(FOLLOW_LOOK_MS));
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
        .map(|(name, value)| format!("{name}={}", crate::render::table::fit(&value.to_string(), 80)))
        .collect();
    let seq = line.get("seq").and_then(Value::as_u64).unwrap_or(0);
    format!("{seq:>5}  {}  {:<20} {}", text("at"), text("type"), details.join(" "))
}
