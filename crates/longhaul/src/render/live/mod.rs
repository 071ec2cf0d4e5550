//! The live view of a run being driven: lines of what happened, and on a terminal a last line of what is happening.

mod lines;
mod screen;

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use longhaul_core::event::{Aside, Event, Purpose};
use longhaul_core::json::Json;
use longhaul_core::run::{Phase, Run};
use longhaul_core::status::{Status, Wait};
use longhaul_core::time::Timestamp;
use longhaul_engine::watch::Watcher;
use longhaul_model::Deltas;

use self::lines::describe;
use self::screen::Screen;
use super::table::short;
use super::talk;

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
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::term_like(Box::new(Screen::default())));
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} · {elapsed}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// What the run is at, for the line that moves.
fn doing(run: &Run) -> String {
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
