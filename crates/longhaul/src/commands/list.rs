//! `list`: all runs, newest first, from the catalogue.

use std::collections::HashSet;
use std::path::Path;

use longhaul_core::ids::RunId;
use longhaul_core::status::{Status, Wait};
use longhaul_core::time::Timestamp;
use longhaul_engine::Asked;
use longhaul_store::catalog::{Filter, RunRow};
use serde::Serialize;

use crate::app::{App, run_id};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// List runs, newest first
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only runs in this status
    #[arg(long, value_name = "STATUS")]
    pub status: Option<String>,
    /// Only runs of this agent
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// Only children of this run
    #[arg(long, value_name = "ID")]
    pub parent: Option<String>,
    /// Only runs of which something waits for a person
    #[arg(long)]
    pub waiting: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let filter = Filter {
        status: args.status.as_deref().map(status).transpose()?,
        agent: args.agent,
        parent: args.parent.as_deref().map(run_id).transpose()?,
        waiting: args.waiting,
    };
    // No state directory is simply no runs.
    let (rows, unreadable) = match app.home()? {
        Some(_) => app.reading()?.list(&filter)?,
        None => (Vec::new(), Vec::new()),
    };
    let standing = Standing::of(app, &rows)?;
    if app.json() {
        render::json(&rows.iter().map(|row| Listed::new(row, &standing.undriven)).collect::<Vec<_>>());
    } else if rows.is_empty() {
        render::talk("no runs");
    } else {
        let lines = rows.iter().map(|row| as_line(row, &standing));
        render::data(&table::rows(&["ID", "STATUS", "AGENT", "STEPS", "CALLS", "UPDATED", "TASK"], lines));
    }
    for (id, error) in unreadable {
        render::warn(&format!("{id} cannot be read: {error}"));
    }
    Ok(Exit::Ok)
}

fn status(text: &str) -> Result<Status, Failure> {
    Status::parse(text).ok_or_else(|| {
        let known: Vec<&str> = Status::ALL.iter().map(|status| status.as_str()).collect();
        Failure::usage(format!("`{text}` is not a status; there are {}", known.join(", ")))
    })
}

/// The runs that are running by their journal, and that nobody drives: their process died, or they wait for a person.
fn undriven(app: &App, rows: &[RunRow]) -> Result<HashSet<RunId>, Failure> {
    let running: Vec<&RunRow> = rows.iter().filter(|row| row.status == Status::Running).collect();
    if running.is_empty() {
        return Ok(HashSet::new());
    }
    let harness = app.reading()?;
    let undriven = |row: &&&RunRow| {
        harness
            .store_of(&row.id)
            .is_ok_and(|store| store.holder(&row.id).is_ok_and(|holder| holder.is_none()))
    };
    Ok(running.iter().filter(undriven).map(|row| row.id.clone()).collect())
}

/// What is to be known of runs beside their rows, to call them by what they are.
pub struct Standing {
    undriven: HashSet<RunId>,
    asked: Asked,
}

impl Standing {
    pub fn of(app: &App, rows: &[RunRow]) -> Result<Standing, Failure> {
        let undriven = undriven(app, rows)?;
        let waits = rows.iter().any(|row| row.wait == Wait::Human && undriven.contains(&row.id));
        let asked = if waits { app.reading()?.asked()? } else { Asked::default() };
        Ok(Standing { undriven, asked })
    }

    /// What a run is called in tables. One that should be at work and is driven by nobody is not.
    pub fn called(&self, row: &RunRow) -> String {
        let called = row.status.called(row.wait);
        let is_undriven = self.undriven.contains(&row.id);
        if row.wait == Wait::Human && is_undriven && self.asked.is_answered(&row.id) {
            return ANSWERED.to_owned();
        }
        if row.wait != Wait::Human && is_undriven {
            return format!("{called} (nobody drives it)");
        }
        if row.status == Status::Created && row.reason.is_some() {
            return format!("{called} (could not begin)");
        }
        called.to_owned()
    }
}

/// What a run is called that waits for nobody's word any more, but for somebody to take it up.
pub const ANSWERED: &str = "answered, waits for `resume`";

/// A run that works in this directory, below it or around it at this moment.
pub fn at_work_in(app: &App, directory: &Path) -> Result<Option<RunId>, Failure> {
    if app.home()?.is_none() {
        return Ok(None);
    }
    let filter = Filter { status: Some(Status::Running), ..Filter::default() };
    let (mut rows, _) = app.reading()?.list(&filter)?;
    let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let directory = whole(directory);
    let touches = |place: &str| {
        let place = whole(Path::new(place));
        // The runs of a project work below it by themselves, where nobody else does.
        let is_ours = place.starts_with(whole(&app.state_dir));
        directory.starts_with(&place) || (place.starts_with(&directory) && !is_ours)
    };
    rows.retain(|row| row.workspace.as_deref().is_some_and(touches));
    let undriven = undriven(app, &rows)?;
    Ok(rows.into_iter().map(|row| row.id).find(|id| !undriven.contains(id)))
}

fn as_line(row: &RunRow, standing: &Standing) -> Vec<String> {
    vec![
        row.id.to_string(),
        standing.called(row),
        row.agent.clone(),
        format!("{}/{}", row.steps_completed, row.steps_total),
        row.tool_calls.to_string(),
        row.updated_at.to_string(),
        table::fit(&row.task, 50),
    ]
}

/// A row for programs. Written out as it is, because there may be very many.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Listed<'a> {
    id: &'a RunId,
    kind: &'a str,
    agent_name: &'a str,
    task: &'a str,
    task_id: Option<&'a str>,
    status: Status,
    driven: bool,
    wait: Wait,
    reason: Option<&'a str>,
    steps_total: u32,
    steps_completed: u32,
    current_step_index: Option<u32>,
    tool_call_count: u64,
    sub_agent_count: u32,
    parent_id: Option<&'a RunId>,
    depth: u32,
    created_at: Timestamp,
    updated_at: Timestamp,
    completed_at: Option<Timestamp>,
    last_checkpoint_at: Option<Timestamp>,
    session_id: Option<&'a str>,
    workspace: Option<&'a str>,
    backend: &'a str,
    last_seq: u64,
    error: Option<&'a str>,
}

impl<'a> Listed<'a> {
    fn new(row: &'a RunRow, undriven: &HashSet<RunId>) -> Listed<'a> {
        Listed {
            id: &row.id,
            kind: &row.kind,
            agent_name: &row.agent,
            task: &row.task,
            task_id: row.task_id.as_deref(),
            status: row.status,
            driven: row.status == Status::Running && !undriven.contains(&row.id),
            wait: row.wait,
            reason: row.reason.as_deref(),
            steps_total: row.steps_total,
            steps_completed: row.steps_completed,
            current_step_index: row.current_step,
            tool_call_count: row.tool_calls,
            sub_agent_count: row.sub_agents,
            parent_id: row.parent.as_ref(),
            depth: row.depth,
            created_at: row.created_at,
            updated_at: row.updated_at,
            completed_at: row.completed_at,
            last_checkpoint_at: row.last_checkpoint_at,
            session_id: row.session.as_deref(),
            workspace: row.workspace.as_deref(),
            backend: row.backend.as_str(),
            last_seq: row.last_seq,
            error: row.error.as_deref(),
        }
    }
}
