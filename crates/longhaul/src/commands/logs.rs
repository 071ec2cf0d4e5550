//! `logs`: what was said and done, as a person would retell it.

use longhaul_core::conversation::{Message, ProposedCall};
use longhaul_core::event::{Event, Kept, StopAction, Stored};
use longhaul_core::evidence::Examination;
use longhaul_core::ids::CallId;
use longhaul_core::plan::Plan;
use longhaul_core::run::Run;

use super::events::follow;
use serde_json::json;

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table::clean};

/// Show a run's conversation: what the model said, what it called, what came back
#[derive(Debug, clap::Args)]
pub struct Args {
    #[arg(value_name = "ID")]
    pub id: String,
    /// Go on showing as it happens, until the run ends or nobody drives it
    #[arg(long, short)]
    pub follow: bool,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let id = app.run(&args.id)?;
    let json = app.json();
    follow(app, &id, args.follow.into(), &mut |run, _, at, event| {
        for text in retell(run, event) {
            if json {
                render::json_line(&serde_json::json!({ "at": at, "text": text }));
            } else {
                render::data(&clean(&text));
            }
        }
    })
}

/// What an event tells a person, in the run as it was right after it.
pub fn retell(run: &Run, event: &Event) -> Vec<String> {
    let text = match event {
        // The conversation that came with the document; what follows it has events of its own.
        Event::Imported { .. } => {
            return run.messages.iter().flat_map(|message| heard(run, message)).collect();
        }
        Event::ModelReplied { text, calls, .. } => return replied(run, text, calls),
        Event::Examined { found, .. } => return examined(found),

        Event::StepStarted { step } => step_started(run, *step),
        Event::CallFinished { call, outcome, .. } => {
            format!("\n< {}\n{}", named(run, *call), outcome.for_model())
        }
        Event::CallRefused { call, message, .. } => format!("\n< {} refused: {message}", named(run, *call)),
        Event::CallRetryScheduled { call, message, .. } => {
            format!("({} failed, will be tried again: {message})", named(run, *call))
        }
        Event::TurnFailed { .. } | Event::ModelChanged { why: Some(_), .. } if !run.has_news_of_silence() => {
            return Vec::new();
        }
        Event::TurnFailed { message, .. } => format!("(the model did not answer: {message})"),
        Event::ModelChanged { model, why } => format!("(now with {model}{})", after(", because ", why)),
        Event::Told { text } => format!("longhaul: {text}"),
        Event::IterationStarted { number, note, .. } => {
            format!("(iteration {number} begins with fresh context){}", after("\n", note))
        }
        Event::AgentStopped { action, why, .. } => {
            format!("(the agent stopped: {}{})", word(*action), after(": ", why))
        }
        Event::AsideEnded { text: Some(text), model, .. } => {
            format!("({model} beside the conversation)\n{text}")
        }
        Event::AsideEnded { error: Some(error), model, .. } => {
            format!("({model} gave no answer beside the conversation: {error})")
        }
        Event::Compacted { tokens_before, tokens_after, .. } => {
            format!("(the conversation was shortened: about {tokens_before} to {tokens_after} tokens)")
        }
        Event::DoomLoop { tool, count, .. } => format!("(going in circles with {tool}, {count} times)"),

        Event::ChildSpawned(errand) => {
            format!("\n> sub-agent {} ({}):\n{}", errand.agent, errand.id, errand.task)
        }
        Event::ChildEnded { number, error: Some(error), .. } => {
            format!("\n< sub-agent {} failed: {error}", child_id(run, *number))
        }
        Event::ChildEnded { number, error: None, .. } => {
            format!("\n< sub-agent {} completed", child_id(run, *number))
        }
        Event::ChildRested { number, reason: Some(reason), .. } => {
            format!("(sub-agent {} paused: {reason})", child_id(run, *number))
        }
        Event::ChildRested { number, reason: None, .. } => {
            format!("(sub-agent {} is waiting for a person)", child_id(run, *number))
        }

        Event::StatusChanged { to, reason, .. } => format!("({to}{})", after(": ", reason)),
        Event::Recovered { .. } => "(taken up again after its process ended)".to_owned(),
        Event::Reopened => "(paused: it had failed, and is opened again)".to_owned(),
        Event::WaitingForHuman { ask: Some(ask), .. } => format!("(waiting for a person: {})", ask.text),
        Event::CommandDropped { why, .. } => format!("(a command was not obeyed: {why})"),
        Event::PlanMade { plan } => planned(plan),
        Event::PlanRefused { why } => format!("(no plan yet: {why})"),
        Event::SpentBefore { usage } => format!("(used before it was taken back: {} tokens)", usage.tokens()),

        Event::Contained { by } => format!("(sandbox {by})"),
        Event::SetUpStarted { commands } => format!("(setting up: {})", commands.join("; ")),
        Event::SetUpEnded { error: Some(error), .. } => format!("(not set up: {error})"),
        Event::WorkKept { kept: Kept::Committed { commit, .. }, .. } => format!("(committed {commit})"),
        Event::WorkKept { kept: Kept::Uncommitted { why }, .. } => format!("(not committed: {why})"),
        Event::BranchesBrought { branches } => {
            let said = branches.iter().map(|brought| format!("{} {}", brought.name(), brought.commit));
            format!("(in your repository now: {})", said.collect::<Vec<_>>().join(", "))
        }
        Event::BranchesComplete => "(your repository has all that is on its branches now)".to_owned(),
        Event::BranchNotBrought { why } => format!("(not in your repository: {why})"),
        Event::WorkspaceMended { parts } => format!("(.git was broken; made anew: {})", parts.join(", ")),
        Event::CheckpointNamed { number, name } => format!("(checkpoint {number} is named {name})"),
        Event::CheckpointGuarded { number, name, command, .. } => {
            format!("(checkpoint {number} is named {name}: the next command may throw work away: {command})")
        }
        Event::FilesStored { stored: Stored::Failed { why }, .. } => format!("(files not stored: {why})"),
        Event::SchemaUpgraded { from, to } => {
            format!("(the journal began in schema version {from}; it goes on in version {to})")
        }
        Event::TornTailCut { bytes } => {
            format!("({bytes} bytes of a write that was never finished were cut off)")
        }
        Event::DerivedFailed { file, why } => format!("({file} cannot be written: {why})"),
        Event::PersistenceFellBack { reason } => format!("(kept in the fallback store: {reason})"),

        Event::RunCreated(_)
        | Event::ChildResumed { .. }
        | Event::ChildHeld { .. }
        | Event::ExamineStarted { .. }
        | Event::AsideStarted { .. }
        | Event::AsideEnded { text: None, error: None, .. }
        | Event::LoopChanged { .. }
        | Event::CommandApplied { .. }
        | Event::GateChecked { .. }
        | Event::WaitingForHuman { ask: None, .. }
        | Event::GateAnswered { .. }
        | Event::TurnStarted { .. }
        | Event::CallStarted { .. }
        | Event::ToolFailed { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::PlanCompleted
        | Event::Checkpointed { .. }
        | Event::WorkKept { kept: Kept::Unchanged { .. }, .. }
        | Event::SetUpEnded { error: None, .. }
        | Event::FilesStored { stored: Stored::Tree { .. }, .. }
        | Event::LimitReached { .. }
        | Event::LimitPassed { .. }
        | Event::ChecksChanged { .. }
        | Event::LimitsChanged { .. } => return Vec::new(),
    };
    vec![text]
}

/// A call by its number and its tool, so that what came back is seen with what was asked.
fn named(run: &Run, id: CallId) -> String {
    run.call(id).map_or_else(|| id.to_string(), |call| format!("{id} {}", call.tool))
}

fn child_id(run: &Run, number: u32) -> String {
    run.child(number).map_or(String::new(), |child| child.errand.id.to_string())
}

/// What there may be to add, with what joins it.
fn after(joint: &str, text: &Option<String>) -> String {
    text.as_ref().map(|text| format!("{joint}{text}")).unwrap_or_default()
}

fn word(action: StopAction) -> String {
    json!(action).as_str().unwrap_or_default().to_owned()
}

/// A message that no event of this journal tells of.
fn heard(run: &Run, message: &Message) -> Vec<String> {
    match message {
        Message::User { text } => vec![format!("\n# {}", text.trim_end())],
        Message::Assistant { text, calls, .. } => {
            let said = Some(format!("\n{}", text.trim_end())).filter(|said| !said.trim().is_empty());
            let asked = calls.iter().map(|call| format!("\n> {} {} {}", call.id, call.tool, call.args));
            said.into_iter().chain(asked).collect()
        }
        Message::Tool { call, text, .. } => vec![format!("\n< {}\n{text}", named(run, *call))],
    }
}

fn replied(run: &Run, text: &str, calls: &[ProposedCall]) -> Vec<String> {
    let mut lines = Vec::new();
    if run.silence.as_ref().is_some_and(|silence| silence.ended.is_some()) {
        lines.push("(the model answers again)".to_owned());
    }
    if !text.trim().is_empty() {
        lines.push(format!("\n{}", text.trim_end()));
    }
    // The last calls there are, which got their numbers with the reply.
    let numbered = run.calls.iter().skip(run.calls.len().saturating_sub(calls.len()));
    lines.extend(numbered.map(|call| format!("\n> {} {} {}", call.id, call.tool, call.args)));
    lines
}

fn examined(found: &Examination) -> Vec<String> {
    let checks = found.checks.iter();
    checks
        .map(|check| format!("(verify `{}`: {})\n{}", check.command, check.ended, check.output))
        .chain(found.warnings.iter().map(|warning| format!("(warning: {warning})")))
        .collect()
}

/// A step with all that the agent is told of it.
fn step_started(run: &Run, step: u32) -> String {
    let task = match run.messages.first() {
        Some(Message::User { text }) => text.as_str(),
        Some(Message::Assistant { .. } | Message::Tool { .. }) | None => "",
    };
    format!("\n# {}\n\n{task}", run.plan.steps.get(step as usize).map_or("", |step| &step.id))
}

fn planned(plan: &Plan) -> String {
    let steps: Vec<String> =
        plan.steps.iter().map(|step| format!("- {}: {}", step.id, step.description)).collect();
    format!("(the plan)\n{}", steps.join("\n"))
}
