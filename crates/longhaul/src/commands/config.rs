//! `config`: the settings in force, and where each came from.

use serde_json::{Map, Value, json};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

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
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let What::Show { origin } = args.what;
    let settings = app.settings()?;
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
