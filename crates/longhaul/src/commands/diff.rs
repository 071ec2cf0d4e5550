//! `diff`: what a run has changed, committed or not.

use std::io::IsTerminal;

use longhaul_workspace::landing::{Form, Outcome, Work};
use serde_json::{Value, json};

use super::landing::{explained, work};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Show what a run has changed since it began, committed or not
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul diff run_01h… --stat       which files, and how much
  longhaul diff run_01h… | less       the patch
  longhaul apply run_01h…             into your files
  longhaul merge run_01h…             into your branch")]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Only the files and how much of them
    #[arg(long, conflicts_with = "name_only")]
    pub stat: bool,
    /// Only the names of the files, one in a line
    #[arg(long)]
    pub name_only: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let run = app.reading()?.look(&app.run(&args.id)?)?;
    let work = work(app, &run)?;
    let failed = |error| explained(error, &work);
    let result = work.result().map_err(failed)?;
    for path in &result.nested {
        let path = path.display().to_string();
        render::warn(&format!("{} is a repository of its own, and not shown", path.escape_debug()));
    }
    if app.json() {
        render::json(&document(&work, &result, !(args.stat || args.name_only))?);
        return Ok(Exit::Ok);
    }
    if args.name_only {
        let names = work.diff(&result, Form::Names).map_err(failed)?;
        let names = String::from_utf8_lossy(&names);
        names.split_terminator('\0').for_each(|name| render::data(&name.escape_debug().to_string()));
        return Ok(Exit::Ok);
    }
    let form = if args.stat { Form::Stat } else { Form::Patch };
    let printed = work.diff(&result, form).map_err(failed)?;
    if printed.is_empty() {
        render::talk(&format!("{} has changed nothing", work.run));
    } else if std::io::stdout().is_terminal() {
        render::data(table::clean(&String::from_utf8_lossy(&printed)).trim_end());
    } else {
        render::bytes(&printed);
    }
    Ok(Exit::Ok)
}

fn document(work: &Work, result: &Outcome, with_patch: bool) -> Result<Value, Failure> {
    let print = |form| work.diff(result, form).map_err(|error| explained(error, work));
    let counts = print(Form::Counts)?;
    let counts = String::from_utf8_lossy(&counts);
    let files = counts.split_terminator('\0').filter_map(|line| {
        let mut words = line.splitn(3, '\t');
        // A binary file has dashes, so no counts.
        let mut count = || words.next().map(|word| word.parse::<u64>().ok());
        let (added, removed) = (count()?, count()?);
        Some(json!({ "path": words.next()?, "added": added, "removed": removed }))
    });
    let files: Vec<Value> = files.collect();
    let patch = if with_patch { Some(print(Form::Patch)?) } else { None };
    let patch = patch.map(|patch| String::from_utf8_lossy(&patch).into_owned());
    Ok(
        json!({ "id": work.run, "base": result.base, "head": result.head, "branch": work.branch, "files": files, "patch": patch }),
    )
}
