//! `tree`: a run and the runs it started.

use longhaul_core::ids::RunId;
use longhaul_engine::Harness;
use longhaul_store::catalog::{Filter, RunRow};
use serde_json::{Value, json};

use super::list::Standing;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::TREE_DEPTH_MAX;
use crate::render::{self, table};

/// Show a run and the runs it started, down to the last
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.reading()?;
    let (rows, _) = harness.list(&Filter::default())?;
    let standing = Standing::of(app, &rows)?;
    let root = rows.into_iter().find(|row| row.id == id);
    let root = root.ok_or(longhaul_store::Error::NotFound { run: id })?;
    let root = branch(&harness, root, 0)?;
    if app.json() {
        render::json(&as_json(&root));
    } else {
        print(&root, &standing, 0);
    }
    Ok(Exit::Ok)
}

/// A run and those it started, the first one first.
struct Branch {
    row: RunRow,
    children: Vec<Branch>,
}

fn branch(harness: &Harness, row: RunRow, depth: usize) -> Result<Branch, Failure> {
    let children = if depth < TREE_DEPTH_MAX { children(harness, &row.id)? } else { Vec::new() };
    let children: Result<Vec<Branch>, Failure> =
        children.into_iter().rev().map(|child| branch(harness, child, depth + 1)).collect();
    Ok(Branch { row, children: children? })
}

fn as_json(Branch { row, children }: &Branch) -> Value {
    json!({
        "id": row.id, "agentName": row.agent, "status": row.status, "wait": row.wait, "task": row.task,
        "children": children.iter().map(as_json).collect::<Vec<_>>(),
    })
}

fn children(harness: &Harness, id: &RunId) -> Result<Vec<RunRow>, Failure> {
    Ok(harness.list(&Filter { parent: Some(id.clone()), ..Filter::default() })?.0)
}

fn print(Branch { row, children }: &Branch, standing: &Standing, depth: usize) {
    let task = table::fit(row.task.lines().next().unwrap_or_default(), 50);
    let (indent, called) = ("  ".repeat(depth), standing.called(row));
    render::data(&format!("{indent}{}  {called}  {}  {task}", row.id, row.agent));
    for child in children {
        print(child, standing, depth + 1);
    }
}
