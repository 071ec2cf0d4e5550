//! Answering where the question comes up: a run in the foreground that waits for a person asks whoever sits at its terminal.
//!
//! The answer goes the way of any other, claimed first and then left with the run, so that it is as durable and the first one
//! counts, wherever it was given. Nobody has to answer here: an empty line leaves the question where it was.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{ErrorKind, IsTerminal};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;

use longhaul_core::command::Wish;
use longhaul_core::ids::RunId;
use longhaul_core::status::Status;
use longhaul_core::view::GateView;
use longhaul_engine::{Claim, Harness};
use rustix::fs::OFlags;
use rustix::termios::{QueueSelector, tcflush};
use tokio::net::unix::pipe::Receiver;
use tokio::signal::unix::{SignalKind, signal};

use super::approvals::{after_reading, effect, given, too_long, whoever};
use super::drive;
use crate::app::App;
use crate::failure::Failure;
use crate::insider;
use crate::limits::{ANSWER_BYTES_MAX, EFFECT_LINES_MAX, ELSEWHERE_LOOK_MS};
use crate::render::{self, table};

/// The questions of one run, as they are put to whoever sits at the terminal.
#[derive(Default)]
pub struct Desk {
    /// Those that were left unanswered here; they are not put again.
    left: BTreeSet<String>,
}

impl Desk {
    /// Puts what the run waits for to the person at the terminal, if there is one. Says whether there is anything to go on with.
    pub fn offer(&mut self, app: &App, harness: &Harness, id: &RunId) -> Result<bool, Failure> {
        let is_seen = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if app.json() || !is_seen || insider::is_agents() {
            return Ok(false);
        }
        let mut goes_on = false;
        for gate in of_run(harness, id)? {
            if !self.left.contains(&gate.id) && !self.put(harness, &gate, &mut goes_on)? {
                return Ok(false);
            }
        }
        Ok(goes_on)
    }

    /// One question. False if the person wants to be left alone.
    fn put(&mut self, harness: &Harness, gate: &GateView, goes_on: &mut bool) -> Result<bool, Failure> {
        let number =
            gate.id.rsplit_once(".g").and_then(|(_, number)| number.parse().ok()).unwrap_or_default();
        show(gate);
        let wish = match wish(harness, gate, number)? {
            Heard::Wish(wish) => *wish,
            Heard::Elsewhere => {
                render::talk("");
                render::talk(&format!("{} was answered elsewhere", gate.id));
                *goes_on = true;
                return Ok(true);
            }
            Heard::Nothing => {
                self.left.insert(gate.id.clone());
                return Ok(true);
            }
            Heard::Interrupted | Heard::Over => {
                render::talk("");
                return Ok(false);
            }
        };
        let command = harness.command(wish)?;
        match harness.claim(&gate.run_id, number, &whoever(), &command)? {
            Claim::First => harness.post(&gate.run_id, &command)?,
            Claim::Late(earlier) => render::warn(&given(&earlier)),
        }
        *goes_on = true;
        Ok(true)
    }
}

/// What the run and those below it wait for.
fn of_run(harness: &Harness, id: &RunId) -> Result<Vec<GateView>, Failure> {
    let below = format!("{id}.");
    let is_ours = |gate: &GateView| gate.run_id == *id || gate.run_id.as_str().starts_with(&below);
    Ok(harness.waiting()?.into_iter().filter(is_ours).collect())
}

fn show(gate: &GateView) {
    let step = gate.step_id.as_deref().unwrap_or("");
    let what = match gate.kind.as_str() {
        "step" => format!("{} would begin with {step}", gate.agent_name),
        "permission" => format!("{} asks for leave, at {step}", gate.agent_name),
        "question" => format!("{} asks, at {step}", gate.agent_name),
        _ => format!("{} needs something to continue, at {step}", gate.agent_name),
    };
    render::talk(&format!("\n{} {}", gate.id, table::clean(&what)));
    let effect = bounded(&gate.id, effect(&serde_json::json!(gate)));
    for text in [gate.description.as_deref().unwrap_or(""), &effect] {
        if !text.is_empty() {
            render::talk(&table::clean(text));
        }
    }
}

/// A question that is pushed off the screen by a file's content cannot be read. A line is shown whole, whatever its length: a command
/// is one.
fn bounded(id: &str, effect: String) -> String {
    let hidden = effect.lines().count().saturating_sub(EFFECT_LINES_MAX);
    if hidden == 0 {
        return effect;
    }
    let shown: Vec<&str> = effect.lines().take(EFFECT_LINES_MAX).collect();
    format!("{}\n… {hidden} more lines, which `longhaul approvals show {id}` shows", shown.join("\n"))
}

enum Heard {
    Wish(Box<Wish>),
    /// Somebody answered it from another process.
    Elsewhere,
    Nothing,
    Interrupted,
    /// The run was paused or stopped from another process.
    Over,
}

impl Heard {
    fn wish(wish: Wish) -> Heard {
        Heard::Wish(Box::new(wish))
    }
}

/// What the person wants, asked until it is understood.
fn wish(harness: &Harness, gate: &GateView, number: u32) -> Result<Heard, Failure> {
    let leave = "Enter leaves it waiting";
    if gate.kind != "step" && gate.kind != "permission" {
        return Ok(match line(harness, gate, number, &format!("your answer ({leave}): "))? {
            Line::Said(text) if text.is_empty() => Heard::Nothing,
            Line::Said(text) => Heard::wish(Wish::Answer { gate: number, text }),
            Line::Over(heard) => heard,
        });
    }
    loop {
        let said = match line(harness, gate, number, &format!("approve? [y]es, [n]o ({leave}): "))? {
            Line::Said(text) => text.to_lowercase(),
            Line::Over(heard) => return Ok(heard),
        };
        match said.as_str() {
            "" => return Ok(Heard::Nothing),
            "y" | "yes" => match too_long(gate) {
                Some(why) => render::talk(&format!("{why}; {}", after_reading(gate))),
                None => {
                    return Ok(Heard::wish(Wish::Approve { gate: number, digest: gate.digest.clone() }));
                }
            },
            "n" | "no" => return why_not(harness, gate, number),
            _ => render::talk("say y or n"),
        }
    }
}

fn why_not(harness: &Harness, gate: &GateView, number: u32) -> Result<Heard, Failure> {
    Ok(match line(harness, gate, number, "why not? ")? {
        Line::Said(text) => {
            let reason = if text.is_empty() { "rejected at the terminal".to_owned() } else { text };
            Heard::wish(Wish::Reject { gate: number, reason })
        }
        Line::Over(heard) => heard,
    })
}

enum Line {
    Said(String),
    /// Nobody says anything any more.
    Over(Heard),
}

/// A line from the terminal. Others may answer while it is typed, and Ctrl-C ends the asking, not the run.
fn line(harness: &Harness, gate: &GateView, number: u32, prompt: &str) -> Result<Line, Failure> {
    // What was typed before this was asked answers something else.
    tcflush(std::io::stdin(), QueueSelector::IFlush).map_err(std::io::Error::from)?;
    render::prompt(prompt);
    drive::runtime()?.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let typed = terminal()?;
        let mut look = tokio::time::interval(Duration::from_millis(ELSEWHERE_LOOK_MS));
        loop {
            tokio::select! {
                ready = typed.readable() => {
                    ready?;
                    if let Some(line) = read_line(&typed)? {
                        return Ok(line);
                    }
                }
                _ = look.tick() => {
                    if harness.look(&gate.run_id)?.status != Status::Running {
                        return Ok(Line::Over(Heard::Over));
                    }
                    if !harness.still_waits(&gate.run_id, number)? {
                        return Ok(Line::Over(Heard::Elsewhere));
                    }
                }
                _ = interrupt.recv() => return Ok(Line::Over(Heard::Interrupted)),
                _ = terminate.recv() => return Ok(Line::Over(Heard::Interrupted)),
                _ = hang_up.recv() => return Ok(Line::Over(Heard::Interrupted)),
            }
        }
    })
}

/// The terminal, opened once more: whoever else reads from it is not to find it changed.
fn terminal() -> std::io::Result<Receiver> {
    let flags = OFlags::NONBLOCK.bits() as i32;
    Receiver::from_file_unchecked(OpenOptions::new().read(true).custom_flags(flags).open("/dev/tty")?)
}

/// A terminal gives one line at a time; an empty one without its end says that there is no more.
fn read_line(typed: &Receiver) -> std::io::Result<Option<Line>> {
    let mut bytes = vec![0; ANSWER_BYTES_MAX];
    match typed.try_read(&mut bytes) {
        Ok(0) => Ok(Some(Line::Over(Heard::Interrupted))),
        Ok(read) => Ok(Some(Line::Said(String::from_utf8_lossy(&bytes[..read]).trim().to_owned()))),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is asked stays on the screen, and nothing is left out unsaid.
    #[test]
    fn long_content_is_cut_and_said_to_be() {
        let long = "x".repeat(100_000);
        assert_eq!(bounded("run_1.g1", long.clone()), long);
        let shown = bounded("run_1.g1", "x\n".repeat(EFFECT_LINES_MAX + 7));
        assert_eq!(shown.lines().count(), EFFECT_LINES_MAX + 1);
        assert!(
            shown.ends_with("\n… 7 more lines, which `longhaul approvals show run_1.g1` shows"),
            "{shown}"
        );
    }
}
