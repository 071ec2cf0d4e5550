//! `show`: one run as it stands.

use longhaul_core::view::RunView;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};

/// Show one run
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let harness = app.reading()?;
    let mut onlooker = harness.onlooker(&id)?;
    onlooker.look(&mut |_, _, _, _| {})?;
    if onlooker.not_understood > 0 {
        let count = onlooker.not_understood;
        render::warn(&format!("{count} events were written by a newer longhaul and are not shown"));
    }
    let view = RunView::of(onlooker.run()?);
    if app.json() {
        render::json(&view);
        return Ok(Exit::Ok);
    }
    let holder = harness.store_of(&id)?.holder(&id)?;
    let driven = match holder {
        Some(holder) => format!("by process {} on {}", holder.pid, holder.host),
        None => "by nobody".to_owned(),
    };
    let mut lines = vec![
        ("id", view.id.to_string()),
        ("task", table::short(&view.task, 100)),
        ("agent", view.agent_name),
        ("model", view.model),
        ("status", view.status.to_string()),
        ("wait", view.wait.to_string()),
        ("reason", view.reason.unwrap_or_default()),
        ("driven", driven),
        ("autonomy", view.autonomy.to_string()),
        ("steps", format!("{} of {}", view.steps_completed, view.steps_total)),
        ("turns", format!("{} of {}", view.turn_count, view.limits.max_steps)),
        ("calls", format!("{} of {}", view.tool_call_count, view.limits.max_tool_calls)),
        ("tokens", format!("{} in, {} out", view.usage.input_tokens, view.usage.output_tokens)),
        ("cost", view.usage.cost.to_string()),
        ("checkpoints", view.checkpoint_count.to_string()),
        ("created", view.created_at.to_string()),
        ("updated", view.updated_at.to_string()),
        ("workspace", view.workspace),
        ("branch", view.branch.unwrap_or_default()),
        ("error", view.error.unwrap_or_default()),
    ];
    lines.retain(|(_, value)| !value.is_empty());
    for (name, value) in lines {
        render::data(&format!("{name:<12} {}", table::clean(&value)));
    }
    Ok(Exit::Ok)
}
