//! `config`: the settings in force, and where each came from.

use serde_json::{Map, Value, json};

use crate::app::App;
use crate::autonomy;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};
use crate::settings::Settings;

/// Show the settings in force
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Every setting with its value; rules are listed by `longhaul permissions show`
    Show {
        /// Also say where each value comes from
        #[arg(long)]
        origin: bool,
    },
    /// What a level of autonomy means here: what is asked, and how often a checkpoint is made
    Explain {
        /// Only this level [default: all]
        #[arg(long, value_name = "1..5")]
        autonomy: Option<u8>,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    let origin = match args.what {
        What::Show { origin } => origin,
        What::Explain { autonomy } => return explain(app, &settings, autonomy),
    };
    if app.json() {
        let fields: Map<String, Value> = settings
            .origins
            .into_iter()
            .map(|(key, (value, source))| {
                (key, if origin { json!({ "value": value, "origin": source }) } else { value })
            })
            .collect();
        render::json(&fields);
        return Ok(Exit::Ok);
    }
    let header: &[&str] = if origin { &["SETTING", "VALUE", "ORIGIN"] } else { &["SETTING", "VALUE"] };
    let lines = settings.origins.iter().map(|(key, (value, source))| {
        let mut line = vec![key.clone(), value.to_string()];
        if origin {
            line.push(source.as_str().to_owned());
        }
        line
    });
    render::data(&table::rows(header, lines));
    Ok(Exit::Ok)
}

fn explain(app: &App, settings: &Settings, level: Option<u8>) -> Result<Exit, Failure> {
    let levels = autonomy::levels(level)?;
    if app.json() {
        let all: Vec<Value> = levels.iter().map(|level| autonomy::as_json(settings, *level)).collect();
        render::json(&all);
        return Ok(Exit::Ok);
    }
    let lines = levels.into_iter().map(|level| {
        let in_force = if level == settings.autonomy { " (in force)" } else { "" };
        let interval_ms = autonomy::interval_ms(settings, level);
        vec![
            format!("autonomy {}{in_force}", level.level()),
            format!("  gates               a person is asked {}", autonomy::gates(level)),
            format!("  checkpoint interval {interval_ms} ms, besides one after each step"),
            format!("  a rule says ask     {}", autonomy::asks(level)),
            format!("  an unclear command  {}", autonomy::doubts(level)),
        ]
    });
    render::data(&lines.map(|lines| lines.join("\n")).collect::<Vec<_>>().join("\n\n"));
    Ok(Exit::Ok)
}
