//! `research`: what agents' searches found, put in order by a person.

use std::path::PathBuf;

use longhaul_tools::research::{Error, finalize};
use longhaul_workspace::Workspace;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render;

/// Put search results in order: an overview and a file for each source
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// List new results in tasks/ID/research_overview.md and move them to search_results/processed_json/
    Finalize {
        /// The task the research is for
        #[arg(long, value_name = "ID")]
        task: String,
        /// The workspace [default: here]
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
}

/// Names temporary files. It is the same each time, so that one left by a kill is replaced by the next try.
const KEY: &str = "research-finalize";

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let What::Finalize { task, dir } = args.what;
    let dir = dir.map_or_else(|| app.cwd.clone(), |dir| app.cwd.join(dir));
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(error.to_string());
    let workspace = Workspace::open(&dir).map_err(|error| wrong(&error))?;
    let done = finalize(&workspace, &task, KEY).map_err(|error| match error {
        Error::Task { .. } | Error::TooLong { .. } | Error::NotText { .. } => wrong(&error),
        Error::Workspace(error) => Failure::from(anyhow::Error::from(error)),
    })?;
    if app.json() {
        render::json(&done);
    } else {
        render::data(done.report().trim_end());
    }
    Ok(Exit::Ok)
}
