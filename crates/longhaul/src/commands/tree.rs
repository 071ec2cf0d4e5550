//! `tree`: a run and the runs it started.

use longhaul_core::ids::RunId;
use longhaul_engine::Harness;
use longhaul_store::catalog::{Filter, RunRow};
use serde_json::{Value, json};

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
    let root = rows.into_iter().find(|row| row.id == id);
    let root = root.ok_or(longhaul_store::Error::NotFound { run: id })?;
    if app.json() {
        render::json(&branch(&harness, &root, 0)?);
    } else {
        print(&branch(&harness, &root, 0)?, 0);
    }
    Ok(Exit::Ok)
}

fn branch(harness: &Harness, row: &RunRow, depth: usize) -> Result<Value, Failure> {
    let children = if depth < TREE_DEPTH_MAX { children(harness, &row.id)? } else { Vec::new() };
    let children: Result<Vec<Value>, Failure> =
        children.iter().rev().map(|child| branch(harness, child, depth + 1)).collect();
    Ok(json!({
        "id": row.id, "agentName": row.agent, "status": row.status, "task": row.task, "children": children?,
    }))
}

fn children(harness: &Harness, id: &RunId) -> Result<Vec<RunRow>, Failure> {
    Ok(harness.list(&Filter { parent: Some(id.clone()), ..Filter::default() })?.0)
}

fn print(node: &Value, depth: usize) {
    let text = |name: &str| node[name].as_str().unwrap_or("");
    let task = table::fit(text("task").lines().next().unwrap_or_default(), 50);
    render::data(&format!(
        "{}{}  {}  {}  {task}",
        "  ".repeat(depth),
        text("id"),
        text("status"),
        text("agentName")
    ));
    for child in node["children"].as_array().into_iter().flatten() {
        print(child, depth + 1);
    }
}
