//! Driving a run in this process: the live view, and Ctrl-C, which pauses first and ends at once the second time.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;

use longhaul_core::command::Wish;
use longhaul_core::event::{AskKind, Cause};
use longhaul_core::evidence::Examination;
use longhaul_core::ids::RunId;
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_core::view::{RunView, gate_id};
use longhaul_engine::notify::Notifier;
use longhaul_engine::watch::Watcher;
use longhaul_engine::{Driven, Ending, Harness, Opening};
use longhaul_tools::{Cancel, Examine};
use longhaul_workspace::place::{self, Standing};
use longhaul_workspace::session::Held;
use tokio::signal::unix::{SignalKind, signal};

use super::answering::Desk;
use super::conduct::CheckArgs;
use super::cost;
use super::create::LimitArgs;
use super::holding::HoldingArgs;
use super::looping::IterationArgs;
use super::notify::{self, Whole};
use super::{leavings, session, workspace};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, live::Live, table};

/// Drives the run until it ends, pauses or waits, and reports.
pub fn drive(
    app: &App,
    harness: &Harness,
    id: &RunId,
    opening: Opening,
    record: Option<&Path>,
) -> Result<Exit, Failure> {
    let held = session::taken(app, harness, id)?;
    drive_held(app, harness, id, opening, (held, record))
}

/// The same for a run that was made just now. If another one has its session by now, nothing is left of it: nobody has seen it.
pub fn drive_new(app: &App, harness: &Harness, run: &Run, record: Option<&Path>) -> Result<Exit, Failure> {
    let id = &run.spec.id;
    let held = session::taken(app, harness, id).or_else(|refused| {
        if refused.exit == Exit::Held {
            session::forget(app, run)?;
            harness.remove(id)?;
            leavings::of_removed(app, &run.spec);
        }
        Err(refused)
    })?;
    render::talk(&format!("{id} works in {}", run.spec.workspace));
    drive_held(app, harness, id, Opening::default(), (held, record))
}

fn drive_held(
    app: &App,
    harness: &Harness,
    id: &RunId,
    opening: Opening,
    (held, record): (Option<Held>, Option<&Path>),
) -> Result<Exit, Failure> {
    let mut rested = until_rested(app, harness, id, opening)?;
    let mut desk = Desk::default();
    while let Rested::InOrder { ending: Ending::WaitingForHuman, interrupted: false, .. } = &rested
        && desk.offer(app, harness, id)?
    {
        let notifier = notify::notifier(app, harness, id, Whole::Run);
        rested = watched(app, harness, id, Opening::default(), Live::going_on(), notifier)?;
    }
    drop(held);
    if let Rested::InOrder { run, .. } = &rested
        && let now = harness.look(id)?
        && now.status != run.status
    {
        render::talk(&format!("{id} is {} now", now.called()));
        return Ok(Exit::of_run(&now));
    }
    match rested {
        Rested::AtOnce => Ok(Exit::Interrupted),
        Rested::InOrder { run, ending, interrupted } => {
            report(app, &run, &ending, interrupted, harness.home().is_some());
            workspace::after_completion(app, &run);
            if let Some(path) = record {
                super::record::write(harness, id, path);
            }
            if let Some(misfit) = super::result::misfit(&run) {
                return Ok(super::result::exit(&run, Some(misfit)));
            }
            let paused_by_us = interrupted && ending == Ending::Paused(Cause::Asked);
            Ok(if paused_by_us { Exit::Interrupted } else { Exit::of_run(&run) })
        }
    }
}

/// Asks the planner of a run that is not under way for its steps.
pub fn plan(harness: &Harness, id: &RunId) -> Result<Run, Failure> {
    let runtime = runtime()?;
    let rested = runtime.block_on(async {
        let live = Live::new();
        let watchers: Vec<Box<dyn Watcher>> = vec![Box::new(live.clone())];
        let driven = harness.plan(id, watchers)?;
        until_rest(driven, &live).await
    });
    runtime.shutdown_background();
    match rested? {
        Rested::AtOnce => Ok(harness.look(id)?),
        Rested::InOrder { run, .. } => Ok(*run),
    }
}

/// The same without a word about how it ended: that is for the caller.
pub fn until_rested(app: &App, harness: &Harness, id: &RunId, opening: Opening) -> Result<Rested, Failure> {
    let notifier = notify::notifier(app, harness, id, Whole::Run);
    watched(app, harness, id, opening, Live::new(), notifier)
}

/// The same of a run that is one of a night's: nobody is told of its end.
pub fn until_rested_at_night(app: &App, harness: &Harness, id: &RunId) -> Result<Rested, Failure> {
    let notifier = notify::notifier(app, harness, id, Whole::Night);
    watched(app, harness, id, Opening::default(), Live::new(), notifier)
}

fn watched(
    app: &App,
    harness: &Harness,
    id: &RunId,
    opening: Opening,
    live: Live,
    notifier: Option<Notifier>,
) -> Result<Rested, Failure> {
    let runtime = runtime()?;
    let line = live.clone();
    let rested = runtime.block_on(async {
        if let Some(servers) = app.servers_in_use() {
            let live = live.clone();
            servers.listen(Arc::new(move |line| live.line(line)));
        }
        let mut watchers: Vec<Box<dyn Watcher>> = vec![Box::new(live.clone())];
        watchers.extend(notifier.as_ref().map(Notifier::watcher));
        let driven = harness.drive(id, opening, watchers, Arc::new(live.clone()))?;
        if let Some(notifier) = &notifier
            && let Ok(run) = harness.look(id)
        {
            notifier.look(&run);
        }
        until_rest(driven, &live).await
    });
    // Whatever is still under way after a second Ctrl-C is not waited for.
    runtime.shutdown_background();
    line.clear();
    if matches!(rested, Ok(Rested::AtOnce)) {
        harness.reap(id);
    } else if let Some(notifier) = notifier {
        // Also of one that could not begin.
        notifier.close();
    }
    rested
}

/// Runs commands on the files of a run that nobody drives, held like those of an agent. `None` if that was interrupted.
pub fn examined(harness: &Harness, run: &Run, examine: Examine) -> Result<Option<Examination>, Failure> {
    runtime()?.block_on(async {
        let (switch, cancel) = Cancel::new();
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let looking = harness.examine(run, examine, cancel);
        tokio::pin!(looking);
        loop {
            tokio::select! {
                found = &mut looking => return found.map_err(Failure::from),
                _ = interrupt.recv() => switch.cancel(),
                _ = terminate.recv() => switch.cancel(),
            }
        }
    })
}

/// What one run is driven on: this thread. A run takes one step after another, so handing them from thread to thread
/// would only make each of them slower.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

/// How driving came to an end.
pub enum Rested {
    InOrder {
        run: Box<Run>,
        ending: Ending,
        interrupted: bool,
    },
    /// Asked twice: as safe as kill -9, because what is written is whole and recovery knows the rest.
    AtOnce,
}

/// What another process is to be told so that it drives the run as this one would.
#[derive(Default)]
pub struct Again {
    pub limits: LimitArgs,
    pub iterations: IterationArgs,
    pub checks: CheckArgs,
    pub holding: HoldingArgs,
    pub model: Option<String>,
    pub record: Option<PathBuf>,
}

/// Leaves the run to a background process that outlives this one and its terminal.
pub fn detach(app: &App, harness: &Harness, id: &RunId, again: &Again) -> Result<Exit, Failure> {
    if let Some(holder) = harness.store_of(id)?.holder(id)? {
        return Err(longhaul_store::Error::Held { run: id.clone(), holder }.into());
    }
    refuse_unprepared(app, harness, id)?;
    let logs = app.state_dir.join("daemon");
    std::fs::create_dir_all(&logs)?;
    let log_path = logs.join(format!("{id}.log"));
    let log = std::fs::File::create(&log_path)?;
    let mut process = Process::new(std::env::current_exe()?);
    process.arg("--state-dir").arg(&app.state_dir).args(["resume", id.as_str()]);
    process.args(again.limits.typed()).args(again.iterations.typed());
    process.args(again.checks.typed(app)).args(again.holding.typed());
    process.args(app.shared.trust.then_some("--trust"));
    process.args(again.model.iter().flat_map(|model| ["--model", model]));
    if let Some(path) = &again.record {
        process.arg("--record").arg(path);
    }
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).process_group(0).spawn()?;
    if app.json() {
        render::json(
            &serde_json::json!({ "id": id, "detached": true, "log": log_path.display().to_string() }),
        );
    } else {
        render::data(id.as_str());
    }
    render::hint(&format!(
        "follow it with `longhaul events {id} --follow`, stop it with `longhaul pause {id}`; it talks to {}",
        log_path.display()
    ));
    Ok(Exit::Ok)
}

/// Whoever looks on sees that the repository's own setup is not trusted, and can end it. Nobody looks on here, and an agent that
/// works in a place that was never prepared may work for hours in vain.
fn refuse_unprepared(app: &App, harness: &Harness, id: &RunId) -> Result<(), Failure> {
    let settings = app.settings_quietly()?;
    let is_left_out = settings.untrusted && settings.items.iter().any(|item| item.key == "workspace.setup");
    if !is_left_out || !harness.is_prepared(&harness.look(id)?) {
        return Ok(());
    }
    let why = format!(
        "{id} was not started: this repository's longhaul.yaml sets workspace.setup, which you have not trusted, or which has \
         changed since; in the background it would be left out and nobody would see that"
    );
    let hint = format!("`longhaul trust` shows what it does, and asks; then `longhaul resume {id} --detach`");
    Err(Failure::usage(why).hint(hint))
}

/// Waits for the run to rest. Every polite way to end a process pauses the run; the second one ends the process.
async fn until_rest(driven: Driven, live: &Live) -> Result<Rested, Failure> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let handle = driven.handle.clone();
    let rest = driven.rest();
    tokio::pin!(rest);
    let mut interrupted = false;
    loop {
        let asked_by = tokio::select! {
            rested = &mut rest => {
                live.clear();
                let (run, ending) = rested?;
                return Ok(Rested::InOrder { run: Box::new(run), ending, interrupted });
            }
            _ = interrupt.recv() => "interrupted from the terminal",
            _ = terminate.recv() => "asked to terminate",
            _ = hang_up.recv() => "the terminal was closed",
        };
        if interrupted {
            return Ok(Rested::AtOnce);
        }
        interrupted = true;
        live.line("pausing; once more ends at once");
        handle.ask(Wish::Pause { reason: asked_by.to_owned() })?;
    }
}

fn report(app: &App, run: &Run, ending: &Ending, interrupted: bool, is_kept: bool) {
    let id = &run.spec.id;
    if app.json() {
        render::json(&RunView::of(run));
    } else if let (Ending::Completed, Some(output)) = (ending, run.output()) {
        render::words(output);
    }
    let spent = table::duration(run.updated_at.millis_since(run.created_at));
    let used = run.ledger();
    let summary = format!(
        "{} after {spent}, {} turns, {} calls, {}",
        run.called(),
        used.turns,
        used.calls,
        cost::cost(&used.usage)
    );
    render::talk(&format!("{id} {summary}"));
    cost::tell_estimated(&used.usage);
    match ending {
        Ending::Completed | Ending::Failed => {
            if let (Some(branch), Some(repository)) = (&run.spec.branch, &run.spec.repository) {
                let place = &run.spec.workspace;
                let base = run.spec.base.as_deref();
                let standing =
                    place::standing(Path::new(place), Path::new(repository), run.spec.id.as_str(), base);
                render::hint(&format!("the work is in {place}, {}", app.struck(&stands(standing, branch))));
                if let Some(name) = run.spec.session.as_ref().filter(|_| run.spec.is_parallel()) {
                    render::hint(&format!(
                        "`longhaul merge --session {name}` brings it together with the others'"
                    ));
                }
            }
            if *ending == Ending::Failed && run.cause == Some(Cause::Limit) {
                render::hint(&after_the_limit(run));
            }
            if *ending == Ending::Failed && run.plan.steps.len() > 1 {
                render::hint(&format!(
                    "`longhaul replan {id} --plan FILE` gives it other steps for what is not done, then `longhaul resume {id}`; \
                     `longhaul checkpoints {id}` lists the points to go back to with `longhaul rewind {id} --to N`"
                ));
            }
        }
        Ending::Paused(_) | Ending::WaitingForHuman if !is_kept => render::hint(
            "harness.enabled is false: what the agent wrote is there, nothing else was kept; give the same command again, with a \
             higher limit if one was reached",
        ),
        Ending::WaitingForHuman => hint_at_gate(run),
        Ending::Paused(Cause::Asked) if run.gates.iter().any(|gate| gate.answer.is_none()) => {
            hint_at_gate(run);
        }
        Ending::Paused(cause) => render::hint(&after_pause(run, *cause, interrupted)),
    }
}

/// How a run goes on that rests, in the words that were said when it came to rest. Nothing for one that has ended well, or that
/// waits for an answer.
pub fn how_to_go_on(run: &Run) -> Option<String> {
    let is_asked = run.gates.iter().any(|gate| gate.answer.is_none());
    match run.status {
        Status::Paused if !is_asked => run.cause.map(|cause| after_pause(run, cause, false)),
        Status::Failed if run.cause == Some(Cause::Limit) => Some(after_the_limit(run)),
        Status::Paused | Status::Failed | Status::Created | Status::Running | Status::Completed => None,
    }
}

/// How a run goes on that was paused, and not by a question.
fn after_pause(run: &Run, cause: Cause, interrupted: bool) -> String {
    let id = &run.spec.id;
    let because = |is: &dyn Fn(&str) -> bool| run.reason.as_deref().is_some_and(is);
    match cause {
        Cause::Limit if of_all_runs(run) => format!(
            "the work is kept; `longhaul cost` shows what was spent, and `longhaul resume {id}` goes on when there is more"
        ),
        Cause::Limit => {
            let flag = raised_limit(run);
            format!("the work is kept; go on with a higher limit: `longhaul resume {id} {flag}`")
        }
        Cause::Rejected => after_rejection(id),
        _ if interrupted => format!("nothing is lost; go on with `longhaul resume {id}`"),
        Cause::Parked if because(&|why| why.contains("hook") || why.starts_with("workspace_gone")) => {
            format!("the work is kept; see to that, then `longhaul resume {id}`")
        }
        Cause::Parked if because(&|why| why.starts_with("no_plan")) => format!(
            "`longhaul logs {id}` shows what the planner said; `longhaul resume {id}` asks it again, \
             `longhaul replan {id} --plan FILE` gives the run your own steps"
        ),
        Cause::Stuck if run.plan.is_completed() => format!(
            "the work is kept; put it right and `longhaul resume {id}` looks again, or `longhaul replan {id} --plan FILE` gives it more steps"
        ),
        Cause::Stuck => format!(
            "the work is kept; `longhaul result {id}` and `longhaul logs {id}` show where it stands, then `longhaul resume {id}`"
        ),
        Cause::Parked | Cause::Provider => format!(
            "the work is kept; try the model with `longhaul models check {model}`, then `longhaul resume {id}`, \
             or go on with another: `longhaul resume {id} --model P/M`",
            model = run.spec.model
        ),
        Cause::Asked | Cause::Finished | Cause::DiskFull | Cause::Error => {
            format!("go on with `longhaul resume {id}`")
        }
    }
}

/// How a run goes on whose step a person did not want.
pub fn after_rejection(id: &RunId) -> String {
    format!(
        "`longhaul replan {id} --plan FILE` gives it other steps; `longhaul resume {id}` would ask about this one again"
    )
}

/// The branch that a worktree is on, for people; `began` is the one it was made on, and all that is known of one that is gone.
pub fn branch_now(app: &App, worktree: &Path, began: &str) -> String {
    match (place::head(worktree), place::current_branch(worktree)) {
        (Some(_), Some(branch)) if branch != began => {
            format!("{}, having begun on {began}", app.struck(&branch))
        }
        (Some(_), None) => format!("none, having begun on {began}"),
        (Some(_) | None, _) => began.to_owned(),
    }
}

/// What a worktree holds, in words; `began` is the branch it was made on.
fn stands(standing: Option<Standing>, began: &str) -> String {
    let Some(Standing { branch, commits, is_dirty }) = standing else { return format!("on branch {began}") };
    let on = match branch {
        Some(branch) if branch == began => format!("on branch {branch}"),
        Some(branch) => format!("on branch {branch}, having begun on {began}"),
        None => format!("on no branch, having begun on {began}"),
    };
    let made = match commits {
        1 => "1 commit was made".to_owned(),
        many => format!("{many} commits were made"),
    };
    match (commits, is_dirty) {
        (0, false) => format!("{on}; nothing is changed there"),
        (0, true) => format!("{on}; nothing is committed for you"),
        (_, false) => format!("{on}; {made}"),
        (_, true) => format!("{on}; {made}, and there are changes that are not committed"),
    }
}

/// What to type at the question the run stands at, and how to see all of it.
fn hint_at_gate(run: &Run) {
    let id = &run.spec.id;
    let Some(open) = run.gates.iter().find(|gate| gate.answer.is_none()) else {
        return render::hint(&format!(
            "a sub-agent asks: `longhaul approvals` lists what; answer it, then `longhaul resume {id}`"
        ));
    };
    let gate = gate_id(id, open.number);
    let typed = match open.ask.as_ref().map(|ask| ask.kind) {
        Some(AskKind::Question | AskKind::Need) => format!("longhaul answer {gate} TEXT"),
        Some(AskKind::Permission) | None => format!("longhaul approve {gate}"),
    };
    render::hint(&format!(
        "`longhaul approvals show {gate}` shows all of it; `{typed}` or `longhaul reject {gate} --reason TEXT`, then \
         `longhaul resume {id}`"
    ));
}

/// Was it the budget of all runs that was used up?
fn of_all_runs(run: &Run) -> bool {
    run.reason.as_ref().is_some_and(|reason| reason.contains("harness.budget."))
}

/// What can be done with a run that ended at a limit: its files are there, and its checkpoints.
fn after_the_limit(run: &Run) -> String {
    let (id, place) = (&run.spec.id, &run.spec.workspace);
    if run.is_out_of_iterations() {
        return format!(
            "the work is kept in {place}; go on with more iterations: `longhaul loop --resume --run-id {id} {}`. With \
             `--limit-policy max_iterations=pause` a loop waits for them instead of failing",
            raised_limit(run)
        );
    }
    if run.was_stopped_at_limit() {
        let more = raised_limit(run);
        return format!(
            "the run was to stop at this limit; its work is kept in {place}; go on with a higher one: `longhaul resume {id} {more}`"
        );
    }
    format!("the run was to stop at this limit; its work is kept in {place}")
}

/// The limit that was reached, as it would be typed with twice what it was.
fn raised_limit(run: &Run) -> String {
    let (limits, used) = (&run.spec.limits, run.ledger());
    let reached = run.reason.as_deref().and_then(|reason| reason.split(' ').next()).unwrap_or("");
    match reached {
        "max_tool_calls" => format!("--max-tool-calls {}", limits.max_tool_calls.saturating_mul(2).max(1)),
        "max_iterations" => {
            let max = run.spec.conduct().looping.as_ref().map_or(1, |looping| looping.max_iterations);
            format!("--max-iterations {}", max.saturating_mul(2))
        }
        "max_iteration_steps" => {
            format!("--max-iteration-steps {}", limits.max_iteration_steps.unwrap_or(1).saturating_mul(2))
        }
        "max_iteration_tokens" => {
            format!("--max-iteration-tokens {}", limits.max_iteration_tokens.unwrap_or(1).saturating_mul(2))
        }
        "max_iteration_cost" => {
            let max = limits.max_iteration_cost.unwrap_or_default();
            format!("--max-iteration-cost {:.2}", max.as_dollars() * 2.0 + 0.01)
        }
        "max_tokens" => format!(
            "--max-tokens {}",
            limits.max_tokens.unwrap_or(0).max(used.usage.tokens()).saturating_mul(2).max(1000)
        ),
        "cost_budget:" => format!(
            "--max-cost {:.2}",
            limits.max_cost.unwrap_or_default().max(used.usage.cost).as_dollars() * 2.0 + 0.01
        ),
        "timeout" => {
            let timeout_ms = limits.timeout_ms.unwrap_or(0).saturating_mul(2);
            format!("--timeout {}s", timeout_ms.div_ceil(1000).max(1))
        }
        _ => format!("--max-steps {}", limits.max_steps.saturating_mul(2).max(1)),
    }
}
