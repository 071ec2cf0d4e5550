//! What is said: from a run and what happened to it, to a title and a few lines.

use longhaul_core::child::{Child, ChildState};
use longhaul_core::event::{AskKind, Cause};
use longhaul_core::prompt::{head, own_step};
use longhaul_core::run::{Gate, Run};
use longhaul_core::status::Status;
use longhaul_core::text::undisguised;
use longhaul_core::view::gate_id;
use serde::Serialize;

use super::{Below, Occasion};
use crate::checkpoints::command;
use crate::limits::{
    NOTICE_BYTES_MAX, NOTICE_COMMAND_LETTERS_MAX, NOTICE_SAID_BYTES_MAX, NOTICE_TASK_BYTES_MAX,
};
use crate::secrets::Secrets;

/// One thing to say. The same key is the same thing, in whichever process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    pub key: String,
    pub occasion: Occasion,
    pub run_id: String,
    pub agent_name: String,
    pub task: String,
    /// Under which a person answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate_id: Option<String>,
    pub title: String,
    pub text: String,
    /// How often the same was said before.
    #[serde(skip_serializing_if = "is_zero")]
    pub reminder: u32,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Notice {
    /// The same to somebody who was told so often and has not answered.
    pub(super) fn again(&self, reminder: u32) -> Notice {
        let title = if reminder == 0 { self.title.clone() } else { format!("Still: {}", self.title) };
        Notice { title, reminder, ..self.clone() }
    }

    /// The same without any secret in it.
    pub(super) fn struck(mut self, secrets: &Secrets) -> Notice {
        for text in [&mut self.task, &mut self.title, &mut self.text] {
            *text = secrets.strike(text).into_owned();
        }
        self
    }

    fn new(run: &Run, occasion: Occasion, key: String, title: String, text: &str) -> Notice {
        Notice {
            key,
            occasion,
            run_id: run.spec.id.to_string(),
            agent_name: run.spec.agent.clone(),
            task: head(own_step(&run.spec.task), NOTICE_TASK_BYTES_MAX).to_owned(),
            gate_id: None,
            title: plain(&title),
            text: head(&undisguised(text), NOTICE_BYTES_MAX).to_owned(),
            reminder: 0,
        }
    }
}

/// Every question of the run itself that nobody has answered.
pub(super) fn of_gates(run: &Run) -> Vec<Notice> {
    if run.status.is_terminal() {
        return Vec::new();
    }
    run.gates.iter().filter(|gate| gate.answer.is_none()).map(|gate| of_gate(run, gate)).collect()
}

/// The children that ask, or below which somebody does.
pub(super) fn asking(run: &Run) -> impl Iterator<Item = &Child> {
    let live = run.children.iter().filter(|_| !run.status.is_terminal());
    live.filter(|child| child.state == ChildState::Waiting)
}

/// What a sub-agent asks, or those below it. One whose own run cannot be read is told of by its name.
pub(super) fn of_child(run: &Run, child: &Child, below: &Below) -> Vec<Notice> {
    let found = below(&child.errand.id).map_or(Vec::new(), |asks| {
        let deeper: Vec<Notice> = asking(&asks).flat_map(|child| of_child(&asks, child, below)).collect();
        of_gates(&asks).into_iter().chain(deeper).collect()
    });
    if found.is_empty() { vec![of_somebody_below(run, child)] } else { found }
}

fn of_somebody_below(run: &Run, child: &Child) -> Notice {
    let (agent, id) = (&child.errand.agent, &child.errand.id);
    let key = format!("{id}.waits.{}.{}", child.ledger.turns, child.ledger.calls);
    let task = head(own_step(&child.errand.task), NOTICE_TASK_BYTES_MAX);
    let text =
        format!("Task: {task}\nSee what it asks: longhaul approvals\nThen: longhaul resume {}", run.spec.id);
    Notice::new(run, Occasion::Waiting, key, format!("{agent} waits for you ({id})"), &text)
}

fn of_gate(run: &Run, gate: &Gate) -> Notice {
    let id = gate_id(&run.spec.id, gate.number);
    let step = run.step_at(gate.step);
    let step_id = step.map_or("", |step| step.id.as_str());
    let (asks, type_this) = match &gate.ask {
        None => {
            let what = step.map_or("", |step| head(&step.description, NOTICE_SAID_BYTES_MAX));
            (format!("May {step_id} begin? {what}"), format!("longhaul approve {id}"))
        }
        Some(ask) => match ask.kind {
            AskKind::Question | AskKind::Need => {
                (head(&ask.text, NOTICE_SAID_BYTES_MAX).to_owned(), format!("longhaul answer {id} TEXT"))
            }
            AskKind::Permission => {
                let command =
                    run.call(ask.call).and_then(|call| command(&call.args, NOTICE_COMMAND_LETTERS_MAX));
                let command = command.map_or_else(String::new, |command| format!("\n{command}"));
                let asks = format!("{}{command}", head(&ask.text, NOTICE_SAID_BYTES_MAX));
                (asks, format!("longhaul approve {id}"))
            }
        },
    };
    let task = head(own_step(&run.spec.task), NOTICE_TASK_BYTES_MAX);
    let text = format!(
        "{asks}\nTask: {task}\nSee all of it: longhaul approvals show {id}\nThen: {type_this}, or longhaul reject {id} --reason TEXT"
    );
    let title = format!("{} waits for you at {step_id}", run.spec.agent);
    Notice { gate_id: Some(id.clone()), ..Notice::new(run, Occasion::Waiting, id, title, &text) }
}

/// What a change of status is worth saying. A child's end is its parent's to tell, and who paused a run knows it.
pub(super) fn of_status(run: &Run, seq: u64, to: Status, cause: Cause) -> Option<Notice> {
    if run.spec.depth > 0 {
        return None;
    }
    let (agent, id) = (&run.spec.agent, &run.spec.id);
    let task = head(own_step(&run.spec.task), NOTICE_TASK_BYTES_MAX);
    let (occasion, title, said) = match to {
        Status::Completed => {
            let output = run.output().unwrap_or_default();
            (Occasion::Completed, format!("{agent} is done"), head(output, NOTICE_SAID_BYTES_MAX).to_owned())
        }
        Status::Failed if cause == Cause::Asked => return None,
        Status::Failed => {
            let error = run.error.as_deref().or(run.reason.as_deref()).unwrap_or_default();
            (Occasion::Failed, format!("{agent} has failed"), head(error, NOTICE_SAID_BYTES_MAX).to_owned())
        }
        Status::Paused if matches!(cause, Cause::Asked | Cause::Rejected) => return None,
        Status::Paused => {
            let reason = head(run.reason.as_deref().unwrap_or_default(), NOTICE_SAID_BYTES_MAX);
            (
                Occasion::Paused,
                format!("{agent} has paused"),
                format!("{reason}\nGo on: longhaul resume {id}"),
            )
        }
        Status::Created | Status::Running => return None,
    };
    let text = format!("{said}\nTask: {task}\nLook: longhaul show {id}");
    Some(Notice::new(run, occasion, format!("{}@{seq}", occasion.as_str()), title, text.trim_start()))
}

/// A run that was told to begin and cannot, because its workspace could not be set up.
pub(super) fn of_set_up(run: &Run, seq: u64, error: &str) -> Option<Notice> {
    // Who paused or stopped it meanwhile knows it.
    let is_why = run.reason.as_ref().is_some_and(|reason| reason.ends_with(error));
    if run.spec.depth > 0 || !is_why {
        return None;
    }
    let (agent, id, occasion) = (&run.spec.agent, &run.spec.id, Occasion::Paused);
    let reason = head(run.reason.as_deref().unwrap_or_default(), NOTICE_SAID_BYTES_MAX);
    let task = head(own_step(&run.spec.task), NOTICE_TASK_BYTES_MAX);
    let text = format!("{reason}\nGo on: longhaul resume {id}\nTask: {task}\nLook: longhaul show {id}");
    let title = format!("{agent} could not begin");
    Some(Notice::new(run, occasion, format!("{}@{seq}", occasion.as_str()), title, &text))
}

/// One line without what moves cursors or reads as something else.
fn plain(text: &str) -> String {
    let shown = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    undisguised(&shown.take(120).collect::<String>())
}
