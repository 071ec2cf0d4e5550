//! `logs`: what was said and done, as a person would retell it.

use longhaul_core::conversation::Message;
use longhaul_core::event::{Event, Kept, Stored};
use longhaul_core::ids::CallId;
use longhaul_core::run::{Run, Silence};

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

/// A call by its number and its tool, so that what came back is seen with what was asked.
fn named(run: &Run, id: CallId) -> String {
    run.call(id).map_or_else(|| id.to_string(), |call| format!("{id} {}", call.tool))
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

/// What an event tells a person, in the run as it was right after it.
pub fn retell(run: &Run, event: &Event) -> Vec<String> {
    match event {
        Event::StepStarted { step } => {
            let first = run.messages.first();
            let task = match first {
                Some(Message::User { text }) => text.as_str(),
                Some(Message::Assistant { .. } | Message::Tool { .. }) | None => "",
            };
            vec![format!("\n# {}\n\n{task}", run.plan.steps.get(*step as usize).map_or("", |step| &step.id))]
        }
        Event::ModelReplied { text, calls, .. } => {
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
        Event::CallFinished { call, outcome, .. } => {
            vec![format!("\n< {}\n{}", named(run, *call), outcome.for_model())]
        }
        Event::CallRefused { call, message, .. } => {
            vec![format!("\n< {} refused: {message}", named(run, *call))]
        }
        Event::TurnFailed { message, .. } if run.silence.as_ref().is_none_or(Silence::is_news) => {
            vec![format!("(the model did not answer: {message})")]
        }
        Event::ModelChanged { why: Some(_), .. } if !run.silence.as_ref().is_none_or(Silence::is_news) => {
            Vec::new()
        }
        Event::ModelChanged { model, why } => {
            let why = why.as_ref().map(|why| format!(", because {why}")).unwrap_or_default();
            vec![format!("(now with {model}{why})")]
        }
        Event::SchemaUpgraded { from, to } => {
            vec![format!("(the journal began in schema version {from}; it goes on in version {to})")]
        }
        // The conversation that came with the document; what follows it has events of its own.
        Event::Imported { .. } => run.messages.iter().flat_map(|message| heard(run, message)).collect(),
        Event::TornTailCut { bytes } => {
            vec![format!("({bytes} bytes of a write that was never finished were cut off)")]
        }
        Event::DerivedFailed { file, why } => vec![format!("({file} cannot be written: {why})")],
        Event::PersistenceFellBack { reason } => vec![format!("(kept in the fallback store: {reason})")],
        Event::Contained { by } => vec![format!("(sandbox {by})")],
        Event::WorkKept { kept: Kept::Committed { commit, .. }, .. } => vec![format!("(committed {commit})")],
        Event::WorkKept { kept: Kept::Uncommitted { why }, .. } => vec![format!("(not committed: {why})")],
        Event::WorkKept { kept: Kept::Unchanged, .. } => Vec::new(),
        Event::SetUpStarted { commands } => vec![format!("(setting up: {})", commands.join("; "))],
        Event::SetUpEnded { error: Some(error), .. } => vec![format!("(not set up: {error})")],
        Event::SetUpEnded { error: None, .. } => Vec::new(),
        Event::SpentBefore { usage } => {
            vec![format!("(used before it was taken back: {} tokens)", usage.tokens())]
        }
        Event::CheckpointNamed { number, name } => vec![format!("(checkpoint {number} is named {name})")],
        Event::CheckpointGuarded { number, name, command, .. } => {
            vec![format!(
                "(checkpoint {number} is named {name}: the next command may throw work away: {command})"
            )]
        }
        Event::FilesStored { stored: Stored::Failed { why }, .. } => {
            vec![format!("(files not stored: {why})")]
        }
        Event::FilesStored { stored: Stored::Tree { .. }, .. } => Vec::new(),
        Event::CallRetryScheduled { call, message, .. } => {
            vec![format!("({} failed, will be tried again: {message})", named(run, *call))]
        }
        Event::WaitingForHuman { ask: Some(ask), .. } => {
            vec![format!("(waiting for a person: {})", ask.text)]
        }
        Event::CommandDropped { why, .. } => vec![format!("(a command was not obeyed: {why})")],
        Event::Recovered { .. } => vec!["(taken up again after its process ended)".to_owned()],
        Event::StatusChanged { to, reason, .. } => {
            vec![format!("({to}{})", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
        }
        Event::Told { text } => vec![format!("longhaul: {text}")],
        Event::IterationStarted { number, note, .. } => {
            let note = note.as_deref().map_or(String::new(), |note| format!("\n{note}"));
            vec![format!("(iteration {number} begins with fresh context){note}")]
        }
        Event::AgentStopped { action, why, .. } => {
            let action = json!(action);
            let why = why.as_deref().map_or(String::new(), |why| format!(": {why}"));
            vec![format!("(the agent stopped: {}{why})", action.as_str().unwrap_or_default())]
        }
        Event::Examined { found, .. } => found
            .checks
            .iter()
            .map(|check| format!("(verify `{}`: {})\n{}", check.command, check.ended, check.output))
            .chain(found.warnings.iter().map(|warning| format!("(warning: {warning})")))
            .collect(),
        Event::AsideEnded { text: Some(text), model, .. } => {
            vec![format!("({model} beside the conversation)\n{text}")]
        }
        Event::AsideEnded { error: Some(error), model, .. } => {
            vec![format!("({model} gave no answer beside the conversation: {error})")]
        }
        Event::Compacted { tokens_before, tokens_after, .. } => {
            vec![format!("(the conversation was shortened: about {tokens_before} to {tokens_after} tokens)")]
        }
        Event::ChildSpawned(errand) => {
            vec![format!("\n> sub-agent {} ({}):\n{}", errand.agent, errand.id, errand.task)]
        }
        Event::ChildEnded { number, error, .. } => {
            let id = run.child(*number).map_or(String::new(), |child| child.errand.id.to_string());
            match error {
                Some(error) => vec![format!("\n< sub-agent {id} failed: {error}")],
                None => vec![format!("\n< sub-agent {id} completed")],
            }
        }
        Event::ChildRested { number, reason, .. } => {
            let id = run.child(*number).map_or(String::new(), |child| child.errand.id.to_string());
            vec![match reason {
                Some(reason) => format!("(sub-agent {id} paused: {reason})"),
                None => format!("(sub-agent {id} is waiting for a person)"),
            }]
        }
        Event::PlanMade { plan } => {
            let steps: Vec<String> =
                plan.steps.iter().map(|step| format!("- {}: {}", step.id, step.description)).collect();
            vec![format!("(the plan)\n{}", steps.join("\n"))]
        }
        Event::Reopened => vec!["(paused: it had failed, and has another plan)".to_owned()],
        Event::PlanRefused { why } => vec![format!("(no plan yet: {why})")],
        Event::DoomLoop { tool, count, .. } => vec![format!("(going in circles with {tool}, {count} times)")],
        Event::RunCreated(_)
        | Event::ChildResumed { .. }
        | Event::ChildHeld { .. }
        | Event::ExamineStarted { .. }
        | Event::AsideStarted { .. }
        | Event::AsideEnded { .. }
        | Event::LoopChanged { .. }
        | Event::TurnFailed { .. }
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
        | Event::LimitReached { .. }
        | Event::LimitPassed { .. }
        | Event::ChecksChanged { .. }
        | Event::LimitsChanged { .. } => Vec::new(),
    }
}
