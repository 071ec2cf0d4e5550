//! `diff`: what a run has changed, committed or not.

use std::io::IsTerminal;
use std::path::Path;

use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_engine::Harness;
use longhaul_engine::checkpoints::Point;
use longhaul_workspace::landing::{Form, Outcome, Work};
use serde_json::{Value, json};

use super::landing::{explained, work};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Show what a run has changed since it began, committed or not
///
/// Of a run without a branch of its own, in place or outside of a repository, it is what has changed in its directory since, by
/// whomever: what was there before its first change is stored. A fork began when it was made.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  longhaul diff run_01h… --stat       which files, and how much
  longhaul diff run_01h… | less       the patch
  longhaul diff run_01h… --at 2       what has changed since checkpoint 2
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
    /// Since a checkpoint, by number, name or `@SEQ`, instead of since it began
    #[arg(long, value_name = "N|NAME")]
    pub at: Option<Point>,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let harness = app.reading()?;
    let id = app.run(&args.id)?;
    if let Some(point) = &args.at {
        return printed(app, &args, &id, &point.to_string(), &|form| {
            Ok(harness.diff_since(&id, point, form.words())?)
        });
    }
    let run = harness.look(&id)?;
    if run.spec.branch.is_none() {
        return since_start(app, &harness, &args, &run);
    }
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
        show_names(&work.diff(&result, Form::Names).map_err(failed)?);
        return Ok(Exit::Ok);
    }
    let form = if args.stat { Form::Stat } else { Form::Patch };
    show(&work.run, &work.diff(&result, form).map_err(failed)?);
    Ok(Exit::Ok)
}

/// Where no branch has what a run made: how its workspace differs from what was stored of it before the first change.
fn since_start(app: &App, harness: &Harness, args: &Args, run: &Run) -> Result<Exit, Failure> {
    let (id, place) = (&run.spec.id, &run.spec.workspace);
    if !run.has_worked() {
        return Err(Failure::usage(format!("{id} has not begun")).hint(format!("`longhaul start {id}`")));
    }
    if !Path::new(place).is_dir() {
        return Err(Failure::usage(format!("{place}, where {id} worked, is gone")).hint(format!(
            "`longhaul checkpoints {id} --all` lists what is stored, `longhaul fork {id} --at N` brings it back"
        )));
    }
    let unknown = || {
        Failure::usage(format!("it is not known what was in {place} before {id} changed anything")).hint(
            format!("`longhaul checkpoints {id} --all` lists what is known, `longhaul diff {id} --at N` compares with that"),
        )
    };
    if !app.json() {
        render::talk(&format!("what has changed in {place} since {id} began, by whomever"));
    }
    printed(app, args, id, "start", &|form| harness.diff_since_start(id, form.words())?.ok_or_else(unknown))
}

/// What `ask` answers of changes, in the form that was asked for.
fn printed(
    app: &App,
    args: &Args,
    id: &RunId,
    since: &str,
    ask: &dyn Fn(Form) -> Result<Vec<u8>, Failure>,
) -> Result<Exit, Failure> {
    if app.json() {
        let files = files(&ask(Form::Counts)?);
        let patch = if args.stat || args.name_only { None } else { Some(ask(Form::Patch)?) };
        let patch = patch.map(|patch| String::from_utf8_lossy(&patch).into_owned());
        render::json(&json!({ "id": id, "since": since, "files": files, "patch": patch }));
    } else if args.name_only {
        show_names(&ask(Form::Names)?);
    } else {
        show(id.as_str(), &ask(if args.stat { Form::Stat } else { Form::Patch })?);
    }
    Ok(Exit::Ok)
}

fn show_names(names: &[u8]) {
    let names = String::from_utf8_lossy(names);
    names.split_terminator('\0').for_each(|name| render::data(&name.escape_debug().to_string()));
}

fn show(run: &str, printed: &[u8]) {
    if printed.is_empty() {
        render::talk(&format!("{run} has changed nothing"));
    } else if std::io::stdout().is_terminal() {
        render::data(table::clean(&String::from_utf8_lossy(printed)).trim_end());
    } else {
        render::bytes(printed);
    }
}

fn files(counts: &[u8]) -> Vec<Value> {
    let counts = String::from_utf8_lossy(counts);
    let files = counts.split_terminator('\0').filter_map(|line| {
        let mut words = line.splitn(3, '\t');
        // A binary file has dashes, so no counts.
        let mut count = || words.next().map(|word| word.parse::<u64>().ok());
        let (added, removed) = (count()?, count()?);
        Some(json!({ "path": words.next()?, "added": added, "removed": removed }))
    });
    files.collect()
}

fn document(work: &Work, result: &Outcome, with_patch: bool) -> Result<Value, Failure> {
    let print = |form| work.diff(result, form).map_err(|error| explained(error, work));
    let files = files(&print(Form::Counts)?);
    let patch = if with_patch { Some(print(Form::Patch)?) } else { None };
    let patch = patch.map(|patch| String::from_utf8_lossy(&patch).into_owned());
    Ok(
        json!({ "id": work.run, "base": result.base, "head": result.head, "branch": work.branch, "files": files, "patch": patch }),
    )
}
