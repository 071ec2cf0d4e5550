//! The live view of a run being driven: lines of what happened, and on a terminal a last line of what is happening.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul_core::conversation::ModelFailureKind;
use longhaul_core::event::{Aside, AskKind, Event, Kept, Purpose, StopAction, Stored};
use longhaul_core::evidence::Examination;
use longhaul_core::ids::CallId;
use longhaul_core::json::Json;
use longhaul_core::repetition::Remedy;
use longhaul_core::run::{Run, Silence};
use longhaul_core::status::{Status, Wait};
use longhaul_core::time::Timestamp;
use longhaul_core::tool::Outcome;
use longhaul_engine::watch::Watcher;
use longhaul_model::Deltas;

use super::table::{duration, fit_talk, short};
use super::{talk, theme};

/// Shared by the watcher, which prints events, and the model's deltas, which only move the last line.
#[derive(Clone)]
pub struct Live {
    bar: Option<Arc<ProgressBar>>,
    /// The last line without what tools print.
    doing: Arc<Mutex<String>>,
    /// Whoever watches has just seen the run come to rest.
    goes_on: bool,
    /// Has the run been seen at work? Before that it has not come to rest, whatever its status.
    at_work: bool,
}

impl Live {
    pub fn new() -> Live {
        let terminal = std::io::stderr().is_terminal();
        let bar = terminal.then(|| Arc::new(bar()));
        Live { bar, doing: Arc::default(), goes_on: false, at_work: false }
    }

    /// The view of a run that goes on before the same eyes: nobody need be told that it was taken up again.
    pub fn going_on() -> Live {
        Live { goes_on: true, ..Live::new() }
    }

    /// Prints a line of talk above the line that moves.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| talk(text)),
            None => talk(text),
        }
    }

    /// Takes the line that moves away, so that a person can be asked something in its place.
    pub fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn now(&self, run: &Run, doing: &str) {
        if let Some(bar) = &self.bar {
            let done = run.plan.completed_count();
            let usage = &run.usage;
            let message = format!(
                "step {}/{} · {doing} · {} tokens · {}",
                (done + 1).min(run.plan.steps.len()),
                run.plan.steps.len(),
                usage.tokens(),
                crate::commands::cost::cost(usage),
            );
            bar.set_message(message.clone());
            *self.doing.lock().unwrap_or_else(PoisonError::into_inner) = message;
        }
    }
}

impl Deltas for Live {
    fn text(&self, _piece: &str) {
        if let Some(bar) = &self.bar {
            bar.tick();
        }
    }

    fn printed(&self, line: &str) {
        if let Some(bar) = &self.bar {
            let doing = self.doing.lock().unwrap_or_else(PoisonError::into_inner);
            bar.set_message(format!("{doing} · {}", short(&plain(line), 60)));
        }
    }
}

/// Without what would move the cursor or colour the rest of the screen.
fn plain(line: &str) -> String {
    let line = line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or_default();
    let mut letters = line.chars();
    let mut plain = String::new();
    while let Some(letter) = letters.next() {
        match letter {
            // An escape sequence ends with its first letter.
            '\u{1b}' => drop(letters.find(|letter| letter.is_ascii_alphabetic())),
            '\t' => plain.push(' '),
            letter if letter.is_control() => {}
            letter => plain.push(letter),
        }
    }
    plain
}

impl Watcher for Live {
    fn event(&mut self, run: &Run, _seq: u64, _at: Timestamp, event: &Event) {
        let is_known = self.goes_on && matches!(event, Event::Recovered { .. });
        if let Some(line) = describe(run, event).filter(|_| !is_known) {
            self.line(&line);
        }
        self.now(run, &doing(run));
    }

    fn batch_ended(&mut self, run: &Run) {
        let is_at_work = run.status == Status::Running;
        if std::mem::replace(&mut self.at_work, is_at_work) && !is_at_work {
            self.clear();
        }
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} · {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn doing(run: &Run) -> String {
    use longhaul_core::run::Phase;
    if run.wait() == Wait::Human {
        return run.called().to_owned();
    }
    match &run.phase {
        Phase::Thinking { turn, .. } => format!("turn {turn}: asking the model"),
        Phase::Resting { turn, rest, .. } => format!("turn {turn}: asking again at {}", rest.until),
        Phase::Calling { .. } => match run.open_call() {
            Some(call) => format!("{} {}", call.tool, short(&argument(&call.args), 40)),
            None => "between calls".to_owned(),
        },
        Phase::Examining { purpose: Purpose::Claim | Purpose::Whole, .. } => "checking the work".to_owned(),
        Phase::Examining { .. } => "looking at the work".to_owned(),
        Phase::Aside { aside: Aside::Judgement, .. } => "asking the judge".to_owned(),
        Phase::Aside { aside: Aside::Planning { .. }, .. } => "asking the planner".to_owned(),
        Phase::Aside { .. } => "summing up".to_owned(),
        Phase::Idle if run.wait() == Wait::Child => {
            let working: Vec<&str> = run.live_children().map(|child| child.errand.agent.as_str()).collect();
            format!("{} at work: {}", working.len(), short(&working.join(", "), 60))
        }
        Phase::Idle | Phase::Opened | Phase::Answered { .. } | Phase::CutOff { .. } => {
            "between turns".to_owned()
        }
    }
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

fn describe(run: &Run, event: &Event) -> Option<String> {
    let step = |index: &u32| run.plan.steps.get(*index as usize).map_or("", |step| step.id.as_str());
    let tool = |id: &CallId| {
        run.call(*id)
            .map_or(String::new(), |call| format!("{} {}", call.tool, short(&argument(&call.args), 60)))
    };
    Some(match event {
        Event::StatusChanged { to, reason, .. } => match reason {
            Some(reason) => format!("{to}: {reason}"),
            None => format!("{to}{}", still_waits(run)),
        },
        Event::StepStarted { step: index } => {
            let description =
                run.plan.steps.get(*index as usize).map_or("", |step| step.description.as_str());
            format!("{} started: {}", step(index), fit_talk(description, 80))
        }
        Event::ModelReplied { turn, text, .. } => return replied(run, *turn, text),
        Event::TurnFailed { .. } | Event::ModelChanged { why: Some(_), .. }
            if !run.silence.as_ref().is_none_or(Silence::is_news) =>
        {
            return None;
        }
        Event::TurnFailed { turn, message, retry: Some(rest), kind, .. } => {
            // Only these two are waited for without end.
            let patience = match kind {
                Some(ModelFailureKind::Unavailable | ModelFailureKind::RateLimited) => {
                    ", and until it answers"
                }
                _ => "",
            };
            format!(
                "{} turn {turn}: {message}; asking again in {}{patience}",
                theme::warning("warning:"),
                duration(rest.delay_ms)
            )
        }
        Event::TurnFailed { turn, message, retry: None, .. } => {
            format!("{} turn {turn}: {message}", theme::failure("failed:"))
        }
        Event::ModelChanged { model, why: Some(why) } => {
            format!("{} now with {model}, because {why}", theme::warning("warning:"))
        }
        Event::SchemaUpgraded { from, to } => {
            format!("the journal began in schema version {from}; it goes on in version {to}")
        }
        Event::CallRefused { call, message, .. } => {
            format!("  {} {}: {message}", theme::failure("refused"), tool(call))
        }
        Event::CallFinished { call, outcome, duration_us, .. } => {
            format!("  {} {} ({})", outcome_word(outcome), tool(call), duration(duration_us / 1000))
        }
        Event::CallRetryScheduled { call, message, rest, .. } => format!(
            "  {} {}: {message}; again in {}",
            theme::warning("failed"),
            tool(call),
            duration(rest.delay_ms)
        ),
        Event::WaitingForHuman { gate, ask: Some(ask), .. } => {
            let id = longhaul_core::view::gate_id(&run.spec.id, *gate);
            match ask.kind {
                AskKind::Permission => {
                    let why = fit_talk(&ask.text, 400);
                    format!("waiting for a person's leave (approval {id}): {}: {why}", tool(&ask.call))
                }
                AskKind::Need => {
                    format!("the agent needs something to continue (approval {id}): {}", fit_talk(&ask.text, 200))
                }
                AskKind::Question => {
                    format!("waiting for a person's answer (approval {id}): {}", fit_talk(&ask.text, 200))
                }
            }
        }
        Event::WaitingForHuman { gate, step: index, ask: None, .. } => {
            format!(
                "waiting for a person before {} (approval {})",
                step(index),
                longhaul_core::view::gate_id(&run.spec.id, *gate)
            )
        }
        Event::StepFailed { step: index, error } => format!("{} failed: {error}", step(index)),
        Event::StepCompleted { step: index, .. } => format!("{} {}", step(index), theme::done("completed")),
        Event::Recovered { .. } => {
            let at = step(&run.current_step);
            format!("taken up again at {at} after its process ended{}", still_waits(run))
        }
        Event::CommandDropped { why, .. } => {
            format!("{} a command was not obeyed: {why}", theme::warning("warning:"))
        }
        Event::LimitReached { limit, spent, max } => format!("{limit} reached: {spent} of {max}"),
        Event::LimitPassed { limit, spent, max } => {
            format!("{} {limit} reached: {spent} of {max}; the work goes on", theme::warning("warning:"))
        }
        Event::TornTailCut { bytes } => format!(
            "{} the journal ended in {bytes} bytes of a write that was never finished; they were cut off",
            theme::warning("warning:")
        ),
        Event::DerivedFailed { file, why } => {
            format!("{} {file} cannot be written: {why}; the work goes on", theme::warning("warning:"))
        }
        Event::PersistenceFellBack { reason } => {
            format!("{} kept in the fallback store: {reason}", theme::warning("warning:"))
        }
        Event::ExamineStarted { purpose: Purpose::Claim | Purpose::Whole, .. } => match run.spec.conduct().verify.as_slice() {
            [] => return None,
            commands => format!("checking: {}", short(&commands.join("; "), 160)),
        },
        Event::Examined { found, .. } => return examined(found),
        Event::AgentStopped { action, why, .. } => match (action, why) {
            (StopAction::Complete, _) => return None,
            (_, Some(why)) => format!("stopped ({}): {}", stop_word(*action), short(why, 160)),
            (_, None) => format!("stopped ({})", stop_word(*action)),
        },
        Event::IterationStarted { number, .. } => format!("iteration {number} begins with fresh context"),
        Event::Compacted { tokens_before, tokens_after, .. } => {
            format!("the conversation was shortened: about {tokens_before} to {tokens_after} tokens")
        }
        Event::DoomLoop { remedy, tool, count, .. } => {
            let remedy = match remedy {
                Remedy::Nudge => "the agent is told",
                Remedy::FreshStart => "fresh context",
                Remedy::Pause => "a person has to look",
            };
            format!("{} going in circles with {tool} ({count} times): {remedy}", theme::warning("warning:"))
        }
        Event::ChildSpawned(errand) => {
            let again = if errand.attempt.0 > 1 { ", once more" } else { "" };
            format!("sub-agent {} begins ({}{again}): {}", errand.agent, errand.id, fit_talk(&errand.task, 80))
        }
        Event::ChildEnded { number, error, .. } => {
            let agent = run.child(*number).map_or("", |child| child.errand.agent.as_str());
            match error {
                Some(error) => format!("sub-agent {agent} {}: {}", theme::failure("failed"), short(error, 160)),
                None => format!("sub-agent {agent} {}", theme::done("completed")),
            }
        }
        Event::ChildRested { number, reason, .. } => {
            let (agent, id) = run
                .child(*number)
                .map_or(("", String::new()), |child| (child.errand.agent.as_str(), child.errand.id.to_string()));
            match reason {
                Some(reason) => format!("sub-agent {agent} paused: {}", short(reason, 160)),
                None => format!("sub-agent {agent} is waiting for a person; see `longhaul approvals` ({id})"),
            }
        }
        // The question that comes with it says more.
        Event::ChildHeld { .. } => return None,
        Event::PlanMade { plan } => {
            let steps: Vec<&str> = plan.steps.iter().map(|step| step.id.as_str()).collect();
            format!("planned {} steps: {}", steps.len(), short(&steps.join(", "), 120))
        }
        Event::Reopened => "paused: it had failed, and has another plan".to_owned(),
        Event::PlanRefused { why } => {
            format!("{} that plan cannot be used: {}", theme::warning("warning:"), short(why, 160))
        }
        Event::WorkKept { kept: Kept::Committed { commit, .. }, .. } => format!("committed {commit}"),
        Event::WorkKept { kept: Kept::Uncommitted { why }, .. } => {
            format!("{} not committed: {}", theme::warning("warning:"), short(why, 160))
        }
        Event::SetUpStarted { commands } => format!("setting up: {}", short(&commands.join("; "), 160)),
        Event::SetUpEnded { error: Some(error), .. } => {
            format!("{} not set up: {}", theme::warning("warning:"), short(error, 160))
        }
        Event::CheckpointNamed { number, name } => format!("checkpoint {number} is named {name}"),
        Event::CheckpointGuarded { name, command, .. } => {
            format!("files kept as {name}, before {}", short(command, 120))
        }
        Event::FilesStored { stored: Stored::Failed { why }, .. } => {
            format!("{} files not stored: {}", theme::warning("warning:"), short(why, 160))
        }
        Event::AsideEnded { error: Some(error), .. } => {
            format!("{} no answer beside the conversation: {error}", theme::warning("warning:"))
        }
        Event::RunCreated(_)
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
        // Said at every start, also when it is what it was.
        | Event::Contained { .. }
        | Event::WorkKept { kept: Kept::Unchanged, .. }
        | Event::SetUpEnded { error: None, .. }
        | Event::SpentBefore { .. }
        | Event::FilesStored { stored: Stored::Tree { .. }, .. }
        | Event::Imported { .. } => return None,
    })
}

/// What the harness saw, check by check.
fn examined(found: &Examination) -> Option<String> {
    let warnings = found.warnings.iter().map(|warning| format!("{} {warning}", theme::warning("warning:")));
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

fn outcome_word(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Done { .. } => theme::done("done"),
        Outcome::Failed { message, .. } => {
            format!("{} ({})", theme::failure("failed"), fit_talk(message, 60))
        }
        Outcome::Unknown { .. } => theme::warning("interrupted, outcome unknown"),
    }
}

/// The argument that says most about a call: a path or a command, else all of them.
fn argument(args: &Json) -> String {
    let value = args.value();
    ["path", "command"]
        .iter()
        .find_map(|name| value.get(name).and_then(|value| value.as_str()).map(str::to_owned))
        .unwrap_or_else(|| args.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a command prints cannot move the cursor, and of a line that is drawn again and again the last state counts.
    #[test]
    fn printed_lines_are_plain() {
        assert_eq!(plain("\u{1b}[32mok\u{1b}[0m\ta\u{7}"), "ok a");
        assert_eq!(plain(" 10 %\r 20 %\r"), " 20 %");
        assert_eq!(plain("\u{1b}[2J"), "");
    }
}
