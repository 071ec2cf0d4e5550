//! `db`: questions in SQL about all runs, answered from the catalogue.

use serde_json::{Map, Value};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Ask the catalogue of all runs in SQL
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Answer one SQL query over the table `runs`; it can only read
    ///
    /// The columns are id, kind, agent, task, task_id, status, wait, reason, steps_total, steps_completed, current_step,
    /// tool_calls, sub_agents, parent, depth, created_at, updated_at, completed_at, last_checkpoint_at (milliseconds since
    /// 1970), error, session, workspace, backend, last_seq, journal_mtime_ns and gates (what waits for a
    /// person, as a JSON list).
    Query {
        #[arg(value_name = "SQL")]
        sql: String,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let What::Query { sql } = args.what;
    if sql.trim().is_empty() {
        return Err(Failure::usage("the query is empty")
            .hint("for example `longhaul db query \"SELECT status, count(*) FROM runs GROUP BY status\"`"));
    }
    let (answer, unreadable) = app.reading()?.query(&sql)?;
    if app.json() {
        let object = |row: &Vec<Value>| -> Map<String, Value> {
            answer.columns.iter().cloned().zip(row.iter().cloned()).collect()
        };
        render::json(&answer.rows.iter().map(object).collect::<Vec<_>>());
    } else {
        let header: Vec<&str> = answer.columns.iter().map(String::as_str).collect();
        let lines = answer.rows.iter().map(|row| row.iter().map(cell).collect());
        render::data(&table::rows(&header, lines));
    }
    if answer.cut {
        let count = answer.rows.len();
        render::warn(&format!("only the first {count} rows are shown; ask for less, or in parts with LIMIT"));
    }
    for (id, error) in unreadable {
        render::warn(&format!("{id} cannot be read and is not part of the answer: {error}"));
    }
    Ok(Exit::Ok)
}

fn cell(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => table::fit(text, 60),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}
