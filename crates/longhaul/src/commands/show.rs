//! `show`: one run as it stands.

use std::path::Path;

use longhaul_core::conversation::Usage;
use longhaul_core::ids::RunId;
use longhaul_core::prompt::own_step;
use longhaul_core::run::Run;
use longhaul_core::status::{Status, Wait};
use longhaul_core::view::RunView;
use longhaul_engine::Harness;

use super::drive;
use super::list::ANSWERED;
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

/// What the state is called, and until when it lasts if that is known.
fn status(view: &RunView) -> String {
    let called = view.status.called(view.wait);
    match view.wake_at {
        Some(at) => format!("{called} until {at}"),
        None => called.to_owned(),
    }
}

/// Everything that went in, however much of it a cache made cheaper.
fn tokens(usage: &Usage) -> String {
    let read = usage.cache_read_tokens;
    let input = usage.input_tokens.saturating_add(read).saturating_add(usage.cache_write_tokens);
    let cached = if read > 0 { format!(" ({read} from the cache)") } else { String::new() };
    let estimated = match usage.estimated_tokens {
        0 => String::new(),
        tokens => format!(" ({tokens} of them estimated)"),
    };
    format!("{input} in{cached}, {} out{estimated}", usage.output_tokens)
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
    let run = harness.counted(onlooker.into_run()?);
    let view = RunView::of(&run);
    if app.json() {
        render::json(&view);
        return Ok(Exit::Ok);
    }
    let holder = harness.store_of(&id)?.holder(&id)?;
    let driven = match holder {
        Some(holder) => format!("by process {} on {}", holder.pid, holder.host),
        None => "by nobody".to_owned(),
    };
    let status = if is_answered(&harness, &run)? { ANSWERED.to_owned() } else { status(&view) };
    let iterations =
        view.max_iterations.map(|max| format!("{} of {max}", view.iteration_count.saturating_add(1)));
    let branch = view.branch.map(|began| drive::branch_now(app, Path::new(&view.workspace), &began));
    let mut lines = vec![
        ("id", view.id.to_string()),
        ("task", table::fit(own_step(&view.task), 100)),
        ("agent", view.agent_name),
        ("model", view.model),
        ("status", status),
        ("reason", view.reason.unwrap_or_default()),
        ("driven", driven),
        ("autonomy", view.autonomy.to_string()),
        ("sandbox", view.sandbox.unwrap_or_default()),
        ("steps", format!("{} of {}", view.steps_completed, view.steps_total)),
        ("iteration", iterations.unwrap_or_default()),
        ("promise", view.completion_promise.unwrap_or_default()),
        ("turns", format!("{} of {}", view.turn_count, view.limits.max_steps)),
        ("calls", format!("{} of {}", view.tool_call_count, view.limits.max_tool_calls)),
        ("tokens", tokens(&view.usage)),
        ("cost", super::cost::cost(&view.usage)),
        ("checkpoints", view.checkpoint_count.to_string()),
        ("created", view.created_at.to_string()),
        ("updated", view.updated_at.to_string()),
        ("workspace", view.workspace),
        ("branch", branch.unwrap_or_default()),
        ("commit", view.commit.unwrap_or_default()),
        ("error", view.error.unwrap_or_default()),
    ];
    lines.retain(|(_, value)| !value.is_empty());
    for (name, value) in lines {
        render::data(&format!("{name:<12} {}", table::clean(&value)));
    }
    Ok(Exit::Ok)
}

/// What a run is called that has not ended. None of that name is nothing to say.
pub fn called(app: &App, id: &RunId) -> Option<&'static str> {
    app.home().ok()??;
    let run = app.reading().ok()?.look(id).ok()?;
    (!run.status.is_terminal()).then(|| run.called())
}

/// Does it wait for nobody's word any more, but for somebody to take it up?
fn is_answered(harness: &Harness, run: &Run) -> Result<bool, Failure> {
    let id = &run.spec.id;
    let is_left = run.wait() == Wait::Human && harness.store_of(id)?.holder(id)?.is_none();
    Ok(is_left && harness.asked()?.is_answered(id))
}

/// What a person should know of a run that is called running and may not be: it waits for them, or its process is gone.
pub fn how_it_stands(app: &App, run: &Run) -> Result<Option<String>, Failure> {
    let id = &run.spec.id;
    if run.status != Status::Running {
        return Ok(None);
    }
    if run.wait() == Wait::Human {
        if is_answered(&app.reading()?, run)? {
            return Ok(Some(format!("{id} has its answer: `longhaul resume {id}` goes on")));
        }
        return Ok(Some(format!("{id} waits for you: `longhaul approvals list`")));
    }
    let driven = app.reading()?.store_of(id)?.holder(id)?.is_some();
    Ok((!driven).then(|| format!("nobody drives {id}: its process is gone; `longhaul resume {id}` goes on")))
}
