//! `trace`: a run's events for the programs that read traces.

use longhaul_core::ids::RunId;
use longhaul_core::trace::Trace;
use longhaul_core::view::EventLine;
use serde_json::Value;

use super::events::{self, AtTheEnd};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Export a run as a trace: what lasted as spans, and every event in one of them
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Print a run's events as records or as spans; nothing of the run is changed
    #[command(after_help = "\
Examples:
  longhaul trace export ID                                      the lines of `longhaul events ID --json`
  longhaul trace export ID --format otlp-json > t.json          spans, for a collector:
  curl -H 'content-type: application/json' --data @t.json http://localhost:4318/v1/traces")]
    Export {
        #[arg(value_name = "ID")]
        id: String,
        /// jsonl: one event a line; otlp-json: one document of OpenTelemetry spans
        #[arg(long, default_value = "jsonl", value_name = "FORMAT")]
        format: Format,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    Jsonl,
    OtlpJson,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let What::Export { id, format } = args.what;
    let id = app.run(&id)?;
    let lines = lines(app, &id)?;
    match format {
        Format::Jsonl => lines.iter().for_each(render::json_line),
        Format::OtlpJson => render::json_line(&Trace::of(id.as_str(), &lines).otlp()),
    }
    Ok(Exit::Ok)
}

/// Every event of a run, as `events --json` shows it.
pub fn lines(app: &App, id: &RunId) -> Result<Vec<Value>, Failure> {
    let mut lines = Vec::new();
    events::follow(app, id, AtTheEnd::Stop, &mut |run, seq, at, event| {
        lines.push(serde_json::to_value(EventLine { run, seq, at, event }).unwrap_or_default());
    })?;
    Ok(lines)
}
