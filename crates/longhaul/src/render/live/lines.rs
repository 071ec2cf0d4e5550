//! What a person who watches is told of each event: at most a few lines, and nothing of what leads to nothing.

use longhaul_core::child::Errand;
use longhaul_core::conversation::ModelFailureKind;
use longhaul_core::event::{Ask, AskKind, Brought, Event, Kept, Purpose, Rest, StopAction, Stored};
use longhaul_core::evidence::Examination;
use longhaul_core::ids::CallId;
use longhaul_core::plan::Plan;
use longhaul_core::prompt::own_step;
use longhaul_core::repetition::Remedy;
use longhaul_core::run::Run;
use longhaul_core::status::{Status, Wait};
use longhaul_core::tool::{Outcome, TODO};
use longhaul_core::view::gate_id;

use super::argument;
use crate::limits::LIST_LINES_MAX;
use crate::render::table::{clean, duration, fit_talk, short};
use crate::render::theme;

/// The run is as it was right after the event.
pub(super) fn describe(run: &Run, event: &Event) -> Option<String> {
    Some(match event {
        Event::StatusChanged { to, reason, .. } => status(run, *to, reason.as_deref()),
        Event::Recovered { .. } => taken_up(run),
        Event::Reopened => "paused: it had failed, and is opened again".to_owned(),
        Event::CommandDropped { why, .. } => warning(&format!("a command was not obeyed: {why}")),
        Event::LimitReached { limit, spent, max } => format!("{limit} reached: {spent} of {max}"),
        Event::LimitPassed { limit, spent, max } => {
            warning(&format!("{limit} reached: {spent} of {max}; the work goes on"))
        }

        Event::PlanMade { plan } => planned(plan),
        Event::PlanRefused { why } => warning(&format!("that plan cannot be used: {}", short(why, 160))),
        Event::StepStarted { step } => step_started(run, *step),
        Event::StepCompleted { step, .. } => format!("{} {}", run.step_id(*step), theme::done("completed")),
        Event::StepFailed { step, error } => format!("{} failed: {}", run.step_id(*step), clean(error)),
        Event::WaitingForHuman { gate, ask: Some(ask), .. } => asks(run, *gate, ask),
        Event::WaitingForHuman { gate, step, ask: None, .. } => {
            let (step, id) = (run.step_id(*step), gate_id(&run.spec.id, *gate));
            format!("waiting for a person before {step} (approval {id})")
        }

        Event::ModelReplied { turn, text, .. } => return replied(run, *turn, text),
        Event::TurnFailed { .. } | Event::ModelChanged { why: Some(_), .. } if !run.has_news_of_silence() => return None,
        Event::TurnFailed { turn, message, retry: Some(rest), kind, .. } => {
            warning(&format!("turn {turn}: {}; {}", clean(message), asking_again(rest, *kind)))
        }
        Event::TurnFailed { turn, message, retry: None, .. } => {
            format!("{} turn {turn}: {}", theme::failure("failed:"), clean(message))
        }
        Event::ModelChanged { model, why: Some(why) } => warning(&format!("now with {model}, because {why}")),
        Event::AsideEnded { error: Some(error), retry: Some(rest), kind, .. } => {
            warning(&format!("no answer beside the conversation: {}; {}", clean(error), asking_again(rest, *kind)))
        }
        Event::AsideEnded { error: Some(error), .. } => {
            warning(&format!("no answer beside the conversation: {}", clean(error)))
        }

        Event::CallRefused { call, message, .. } => {
            format!("  {} {}: {}", theme::failure("refused"), tool(run, *call), clean(message))
        }
        Event::CallFinished { call, outcome, duration_us, .. } => {
            let took = duration(duration_us / 1000);
            format!("  {} {} ({took}){}", outcome_word(outcome), tool(run, *call), list(run, *call, outcome))
        }
        Event::CallRetryScheduled { call, message, rest, .. } => {
            let (failed, delay) = (theme::warning("failed"), duration(rest.delay_ms));
            format!("  {failed} {}: {}; again in {delay}", tool(run, *call), clean(message))
        }

        Event::ExamineStarted { purpose: Purpose::Claim | Purpose::Whole, .. } => return checking(run),
        Event::Examined { found, .. } => return examined(found),
        Event::AgentStopped { action: StopAction::Complete, .. } => return None,
        Event::AgentStopped { action, why: Some(why), .. } => {
            format!("stopped ({}): {}", stop_word(*action), short(why, 160))
        }
        Event::AgentStopped { action, why: None, .. } => format!("stopped ({})", stop_word(*action)),
        Event::IterationStarted { number, .. } => format!("iteration {number} begins with fresh context"),
        Event::Compacted { tokens_before, tokens_after, .. } => {
            format!("the conversation was shortened: about {tokens_before} to {tokens_after} tokens")
        }
        Event::DoomLoop { remedy, tool, count, .. } => {
            let (tool, remedy) = (short(tool, 60), remedy_words(*remedy));
            warning(&format!("going in circles with {tool} ({count} times): {remedy}"))
        }

        Event::ChildSpawned(errand) => child_begins(errand),
        Event::ChildEnded { number, error, .. } => child_ended(run, *number, error.as_deref()),
        Event::ChildRested { number, reason, .. } => child_rested(run, *number, reason.as_deref()),

        Event::SetUpStarted { commands } => format!("setting up: {}", short(&commands.join("; "), 160)),
        Event::SetUpEnded { error: Some(error), .. } => warning(&format!("not set up: {}", short(error, 160))),
        Event::WorkKept { kept: Kept::Committed { commit, .. }, .. } => format!("committed {commit}"),
        Event::WorkKept { kept: Kept::Uncommitted { why }, .. } => {
            warning(&format!("not committed: {}", short(why, 160)))
        }
        Event::BranchesBrought { branches } => return brought(run, branches),
        Event::BranchesComplete => "your repository has all that is on its branches now".to_owned(),
        Event::BranchNotBrought { why } => warning(&format!("not in your repository: {}", short(why, 200))),
        Event::WorkspaceMended { parts } => warning(&format!(
            "the agent had broken the `.git` of its worktree; made anew: {}",
            parts.join(", ")
        )),
        Event::CheckpointNamed { number, name } => format!("checkpoint {number} is named {name}"),
        Event::CheckpointGuarded { name, command, .. } => {
            format!("files kept as {name}, before {}", short(command, 120))
        }
        Event::FilesStored { stored: Stored::Failed { why }, .. } => {
            warning(&format!("files not stored: {}", short(why, 160)))
        }

        Event::SchemaUpgraded { from, to } => {
            format!("the journal began in schema version {from}; it goes on in version {to}")
        }
        Event::TornTailCut { bytes } => warning(&format!(
            "the journal ended in {bytes} bytes of a write that was never finished; they were cut off"
        )),
        Event::DerivedFailed { file, why } => {
            warning(&format!("{file} cannot be written: {why}; the work goes on"))
        }
        Event::PersistenceFellBack { reason } => warning(&format!("kept in the fallback store: {reason}")),

        // The question that comes with it says more.
        Event::ChildHeld { .. }
        // Said at every start, also when it is what it was.
        | Event::Contained { .. }
        | Event::RunCreated(_)
        | Event::ChildResumed { .. }
        | Event::ExamineStarted { purpose: Purpose::Stop | Purpose::Baseline | Purpose::FreshStart { .. }, .. }
        | Event::AsideStarted { .. }
        | Event::AsideEnded { error: None, .. }
        | Event::LoopChanged { .. }
        | Event::ChecksChanged { .. }
        | Event::Told { .. }
        | Event::CommandApplied { .. }
        | Event::GateChecked { .. }
        | Event::GateAnswered { .. }
        | Event::TurnStarted { .. }
        | Event::CallStarted { .. }
        | Event::ToolFailed { .. }
        | Event::PlanCompleted
        | Event::Checkpointed { .. }
        | Event::LimitsChanged { .. }
        | Event::ModelChanged { why: None, .. }
        | Event::WorkKept { kept: Kept::Unchanged { .. }, .. }
        | Event::SetUpEnded { error: None, .. }
        | Event::SpentBefore { .. }
        | Event::FilesStored { stored: Stored::Tree { .. }, .. }
        | Event::Imported { .. } => return None,
    })
}

/// The run's own branch moves with each commit, which is told by itself.
fn brought(run: &Run, branches: &[Brought]) -> Option<String> {
    let names = branches.iter().map(Brought::name);
    let names: Vec<&str> = names.filter(|name| run.spec.branch.as_deref() != Some(name)).collect();
    (!names.is_empty()).then(|| format!("in your repository now: {}", short(&names.join(", "), 160)))
}

fn warning(text: &str) -> String {
    format!("{} {text}", theme::warning("warning:"))
}

/// A call by its tool and what it is about.
fn tool(run: &Run, id: CallId) -> String {
    let shown = |tool: &str, args| format!("{} {}", short(tool, 60), short(&argument(args), 60));
    run.call(id).map_or(String::new(), |call| shown(&call.tool, &call.args))
}

/// The agent's own list, below the call that has drawn it; nothing of any other.
fn list(run: &Run, id: CallId, outcome: &Outcome) -> String {
    let is_list = run.call(id).is_some_and(|call| call.tool == TODO) && outcome.is_done();
    let drawn = outcome.output().filter(|_| is_list).map_or("", |output| output.text.as_str());
    let lines: Vec<&str> = drawn.lines().collect();
    let shown = lines.iter().take(LIST_LINES_MAX).map(|line| format!("\n    {}", clean(line)));
    let more = lines.len().saturating_sub(LIST_LINES_MAX);
    let rest = if more > 0 { format!("\n    … {more} more lines") } else { String::new() };
    shown.collect::<String>() + &rest
}

fn status(run: &Run, to: Status, reason: Option<&str>) -> String {
    match reason {
        Some(reason) => format!("{to}: {}", clean(reason)),
        None => format!("{to}{}", still_waits(run)),
    }
}

fn taken_up(run: &Run) -> String {
    let at = run.step_id(run.current_step);
    format!("taken up again at {at} after its process ended{}", still_waits(run))
}

/// What a run that is taken up again in the middle of a wait waits for, and until when; nothing of any other.
fn still_waits(run: &Run) -> String {
    let Some(until) = run.wake_at().filter(|_| run.status == Status::Running) else { return String::new() };
    let over = match run.wait() {
        Wait::RateLimit => "the model's rate limit is over",
        Wait::None | Wait::Human | Wait::Timer | Wait::Frozen | Wait::Child => "it is time for the next try",
    };
    format!("; it waits until {over}, at {until}")
}

fn planned(plan: &Plan) -> String {
    let steps: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
    format!("planned {} steps: {}", steps.len(), short(&steps.join(", "), 120))
}

fn step_started(run: &Run, step: u32) -> String {
    let description = run.plan.steps.get(step as usize).map_or("", |step| step.description.as_str());
    format!("{} started: {}", run.step_id(step), fit_talk(description, 80))
}

/// What a call asks a person, and under which id that is answered.
fn asks(run: &Run, gate: u32, ask: &Ask) -> String {
    let id = gate_id(&run.spec.id, gate);
    match ask.kind {
        AskKind::Permission => {
            let why = fit_talk(&ask.text, 400);
            format!("waiting for a person's leave (approval {id}): {}: {why}", tool(run, ask.call))
        }
        AskKind::Need => {
            format!("the agent needs something to continue (approval {id}): {}", fit_talk(&ask.text, 200))
        }
        AskKind::Question => {
            format!("waiting for a person's answer (approval {id}): {}", fit_talk(&ask.text, 200))
        }
    }
}

/// What the model said, and that it speaks again if it had been silent.
fn replied(run: &Run, turn: u32, text: &str) -> Option<String> {
    let again = run.silence.as_ref().and_then(|silence| {
        let silent_ms = silence.ended?.millis_since(silence.since);
        Some(format!("the model answers again after {}", duration(silent_ms)))
    });
    let said = (!text.trim().is_empty()).then(|| format!("turn {turn}: {}", fit_talk(text, 100)));
    let lines: Vec<String> = again.into_iter().chain(said).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn asking_again(rest: &Rest, kind: Option<ModelFailureKind>) -> String {
    // Only these two are waited for without end.
    let patience = match kind {
        Some(ModelFailureKind::Unavailable | ModelFailureKind::RateLimited) => ", and until it answers",
        _ => "",
    };
    format!("asking again in {}{patience}", duration(rest.delay_ms))
}

fn outcome_word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { .. } => theme::done("done"),
        Outcome::Failed { message, .. } => {
            format!("{} ({})", theme::failure("failed"), fit_talk(message, 60))
        }
        Outcome::Unknown { .. } => theme::warning("interrupted, outcome unknown"),
    }
}

fn checking(run: &Run) -> Option<String> {
    let commands = &run.spec.conduct().verify;
    (!commands.is_empty()).then(|| format!("checking: {}", short(&commands.join("; "), 160)))
}

/// What the harness saw, check by check.
fn examined(found: &Examination) -> Option<String> {
    let warnings = found.warnings.iter().map(|warning| self::warning(warning));
    let checks = found.checks.iter().map(|check| {
        let word = if check.passed { theme::done("passed") } else { theme::failure("failed") };
        format!("  {word} {} ({})", short(&check.command, 80), check.ended)
    });
    let protected = found.protected.iter().map(|change| {
        let undone = match &change.kept {
            Some(blob) if change.undone => format!(", undone; what was there is kept as blob {blob}"),
            _ if change.undone => ", put back".to_owned(),
            _ => String::new(),
        };
        format!("{} protected {} was {}{undone}", theme::warning("warning:"), change.path, change.what)
    });
    let features = found
        .features
        .iter()
        .map(|features| format!("{} of {} features pass", features.passing, features.total));
    let lines: Vec<String> = warnings.chain(checks).chain(protected).chain(features).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

fn stop_word(action: StopAction) -> &'static str {
    match action {
        StopAction::Complete => "done",
        StopAction::Restart => "again with fresh context",
        StopAction::Continue => "goes on",
        StopAction::Limit => "no iterations left",
        StopAction::Pause => "a person has to look",
    }
}

fn remedy_words(remedy: Remedy) -> &'static str {
    match remedy {
        Remedy::Nudge => "the agent is told",
        Remedy::FreshStart => "fresh context",
        Remedy::Pause => "a person has to look",
    }
}

fn child_begins(errand: &Errand) -> String {
    let again = if errand.attempt.0 > 1 { ", once more" } else { "" };
    format!(
        "sub-agent {} begins ({}{again}): {}",
        errand.agent,
        errand.id,
        fit_talk(own_step(&errand.task), 80)
    )
}

fn child_ended(run: &Run, number: u32, error: Option<&str>) -> String {
    let agent = run.child(number).map_or("", |child| child.errand.agent.as_str());
    match error {
        Some(error) => format!("sub-agent {agent} {}: {}", theme::failure("failed"), short(error, 160)),
        None => format!("sub-agent {agent} {}", theme::done("completed")),
    }
}

fn child_rested(run: &Run, number: u32, reason: Option<&str>) -> String {
    let errand = run.child(number).map(|child| &child.errand);
    let agent = errand.map_or("", |errand| errand.agent.as_str());
    match reason {
        Some(reason) => format!("sub-agent {agent} paused: {}", short(reason, 160)),
        None => {
            let id = errand.map_or(String::new(), |errand| errand.id.to_string());
            format!("sub-agent {agent} is waiting for a person; see `longhaul approvals` ({id})")
        }
    }
}
