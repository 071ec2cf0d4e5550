//! `events`: what happened, event by event, also while it happens.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

use longhaul_core::fields;
use longhaul_core::ids::RunId;
use longhaul_core::view::EventLine;
use longhaul_engine::fold::Look;
use serde_json::{Value, json};

use super::trace;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{FOLLOW_LOOK_MS, LAST_WORDS_MS_MAX, UNDRIVEN_MS_MAX};
use crate::render;

/// Show what happened in a run, event by event
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Args {
    #[arg(value_name = "ID", required = true)]
    pub id: Option<String>,
    /// Go on showing events as they happen, until the run ends or nobody drives it
    #[arg(long, short)]
    pub follow: bool,
    /// Only events after this sequence number
    #[arg(long, default_value_t = 0, value_name = "SEQ")]
    pub after: u64,
    #[command(subcommand)]
    pub what: Option<What>,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Check that every event has all the fields of its type, in the journal and in events.jsonl; exits with 1 if one has not
    Validate {
        #[arg(value_name = "ID")]
        id: String,
    },
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
    if let Some(What::Validate { id }) = args.what {
        return validate(app, &app.run(&id)?);
    }
    let id = app.run(args.id.as_deref().unwrap_or_default())?;
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
    let (mut asked_at, mut ended_at): (Option<Instant>, Option<Instant>) = (None, None);
    loop {
        onlooker.look(show)?;
        if at_the_end == AtTheEnd::Stop {
            break;
        }
        // Whoever drove it may have more to say: that the work is committed, for one.
        if onlooker.run()?.status.is_terminal() {
            let ended = *ended_at.get_or_insert_with(Instant::now);
            let is_driven = harness.store_of(id)?.holder(id)?.is_some();
            if !is_driven || ended.elapsed() > Duration::from_millis(LAST_WORDS_MS_MAX) {
                onlooker.look(show)?;
                break;
            }
            std::thread::sleep(Duration::from_millis(FOLLOW_LOOK_MS));
            continue;
        }
        // Asked once a second: asking holds the lock for an instant.
        if asked_at.is_none_or(|asked| asked.elapsed() > Duration::from_secs(1)) {
            asked_at = Some(Instant::now());
            if harness.store_of(id)?.holder(id)?.is_some() {
                driven_at = Instant::now();
            }
        }
        if driven_at.elapsed() > Duration::from_millis(UNDRIVEN_MS_MAX) {
            let called = onlooker.run()?.called();
            render::hint(&format!(
                "{id} is {called} and nobody drives it; go on with `longhaul resume {id}`"
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

/// Holds every line against what its type promises: those made from the journal now, and those in the log.
fn validate(app: &App, id: &RunId) -> Result<Exit, Failure> {
    let lines = trace::lines(app, id)?;
    let mut problems: Vec<Value> = Vec::new();
    for line in &lines {
        let of_line = fields::problems(line).into_iter();
        problems.extend(of_line.map(|why| json!({ "in": "journal", "seq": line["seq"], "why": why })));
    }
    let logged = logged(app, id, &mut problems)?;
    if app.json() {
        let (events, valid) = (lines.len(), problems.is_empty());
        render::json(
            &json!({ "id": id, "events": events, "logged": logged, "valid": valid, "problems": problems }),
        );
    } else {
        for problem in &problems {
            let text = |name: &str| problem[name].as_str().unwrap_or_default();
            render::data(&format!("{} event {}: {}", text("in"), problem["seq"], text("why")));
        }
        render::talk(&format!("{id}: {} events, {} problems", lines.len(), problems.len()));
    }
    Ok(if problems.is_empty() { Exit::Ok } else { Exit::Failed })
}

/// The same for `events.jsonl`, which others read: each line is whole, and none is missing between the first and the last. How
/// many lines there are; nothing if there is no log.
fn logged(app: &App, id: &RunId, problems: &mut Vec<Value>) -> Result<Option<u64>, Failure> {
    let Some(path) = app.home()?.map(|home| home.run_dir(id).join("events.jsonl")) else { return Ok(None) };
    let Ok(file) = File::open(path) else { return Ok(None) };
    let mut count = 0;
    for line in BufReader::new(file).split(b'\n') {
        let (line, seq) = (line?, count + 1);
        let mut wrong = |why: String| problems.push(json!({ "in": "events.jsonl", "seq": seq, "why": why }));
        match serde_json::from_slice::<Value>(&line) {
            Err(error) => wrong(format!("not JSON: {error}")),
            Ok(line) => {
                fields::problems(&line).into_iter().for_each(&mut wrong);
                if line["seq"] != seq {
                    wrong(format!("it has the number {}", line["seq"]));
                }
                if line["harnessId"] != id.as_str() {
                    wrong("it is of another run".to_owned());
                }
            }
        }
        count = seq;
    }
    Ok(Some(count))
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
