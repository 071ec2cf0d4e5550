//! `repl`: a prompt at which tasks and commands are typed one after the other.
//!
//! Every line is one of longhaul's own commands in fewer letters, so that whatever is done here can be done in a script.

use std::io::IsTerminal;

use clap::Parser;
use longhaul_core::conduct::Looping;
use longhaul_store::catalog::Filter;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use crate::app::App;
use crate::cli::Cli;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::HISTORY_LINES_MAX;
use crate::render;

const HELP: &str = "\
TEXT                 work on a task, as `longhaul run TEXT` does
/harness OBJECTIVE   work with fresh context until it is done, as `longhaul loop OBJECTIVE` does
/status [ID]         where a run stands; without an id the newest one, /list shows all
/resume [ID]         go on with a run; Ctrl-C pauses one that works here
/pause [ID]          pause a run that works elsewhere
/tools [ID]          what a run called
/cost [ID]           what it cost
/result [ID]         what came of it
/logs [ID]           what was said and done
/approvals           what waits for you; `/approve AID`, `/reject AID REASON`, `/answer AID TEXT`
/help                this
/quit                leave; so does Ctrl-D";

/// Type tasks and commands at a prompt, with history
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What follows goes to every run and loop that is started here:
  longhaul repl --model anthropic/MODEL --in-place --max-cost 5")]
pub struct Args {
    /// Options for every run, as `longhaul run` takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    pub options: Vec<String>,
}

/// What a line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Nothing,
    Help,
    Quit,
    /// `/harness` without an objective.
    NoObjective,
    /// A command of longhaul's own, with its words.
    Command(Vec<String>),
    Unknown(String),
}

pub fn run(app: &App, args: Args, dispatch: fn(Cli) -> Result<Exit, Failure>) -> Result<Exit, Failure> {
    // What is wrong with the options is better said now than at the first task.
    parsed(app, &run_words("x", &args.options))?;
    let mut prompt = Prompt::open(app)?;
    if std::io::stdin().is_terminal() {
        render::talk("type a task, `/harness OBJECTIVE`, or `/help`");
    }
    while let Some(line) = prompt.ask("longhaul> ")? {
        let mut asked = read(&line, &args.options, || newest(app));
        if asked == Line::NoObjective {
            let answer = prompt.ask("objective: ")?.unwrap_or_default();
            asked = read_objective(&answer, &args.options, || newest(app));
        }
        match asked {
            Line::Nothing => {}
            Line::Help => render::data(HELP),
            Line::Quit => break,
            Line::NoObjective => render::talk("cancelled"),
            Line::Command(words) => obey(app, &words, dispatch),
            Line::Unknown(command) => {
                render::failure(
                    &Failure::usage(format!("there is no {command}")).hint("`/help` lists what there is"),
                );
            }
        }
    }
    Ok(Exit::Ok)
}

/// What a line means. `newest` is the run that is meant when none is named.
fn read(line: &str, options: &[String], newest: impl FnOnce() -> Option<String>) -> Line {
    let line = line.trim();
    let Some(command) = line.strip_prefix('/') else {
        return if line.is_empty() { Line::Nothing } else { Line::Command(run_words(line, options)) };
    };
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    let rest = rest.trim();
    let words = |words: &[&str]| Line::Command(words.iter().map(|word| (*word).to_owned()).collect());
    let of_run = |verb: &str| {
        let id = if rest.is_empty() { newest() } else { Some(rest.to_owned()) };
        id.map_or_else(|| words(&["list"]), |id| words(&[verb, &id]))
    };
    match name {
        "help" | "?" => Line::Help,
        "quit" | "exit" | "q" => Line::Quit,
        "harness" | "loop" if rest.is_empty() => Line::NoObjective,
        "harness" | "loop" => Line::Command(loop_words(rest, options)),
        "status" | "show" => of_run("show"),
        "list" => words(&["list"]),
        "resume" | "pause" | "tools" | "cost" | "result" | "logs" | "steps" => of_run(name),
        "approvals" => words(&["approvals", "list"]),
        "approve" => words(&["approve", rest]),
        "answer" | "reject" => {
            let (id, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
            match name {
                "answer" => words(&["answer", id, text.trim()]),
                _ => words(&["reject", id, "--reason", text.trim()]),
            }
        }
        _ => Line::Unknown(format!("/{name}")),
    }
}

/// What was answered to the question for an objective. A command that there is, is one here too; a path may begin as commands do.
fn read_objective(answer: &str, options: &[String], newest: impl FnOnce() -> Option<String>) -> Line {
    let objective = answer.trim();
    match read(objective, options, newest) {
        Line::Nothing => Line::NoObjective,
        Line::Unknown(_) => Line::Command(loop_words(objective, options)),
        Line::Command(_) if !objective.starts_with('/') => Line::Command(loop_words(objective, options)),
        command @ (Line::Help | Line::Quit | Line::NoObjective | Line::Command(_)) => command,
    }
}

fn run_words(task: &str, options: &[String]) -> Vec<String> {
    [&["run".to_owned()], options, &["--".to_owned(), task.to_owned()]].concat()
}

/// `/harness`: the defaults, said, so that they are seen in the run whatever `loop` comes to mean.
fn loop_words(objective: &str, options: &[String]) -> Vec<String> {
    let defaults = Looping::default();
    let limits = [
        format!("--max-iterations={}", defaults.max_iterations),
        format!("--completion-promise={}", defaults.promise),
    ];
    [&["loop".to_owned()], options, &limits, &["--".to_owned(), objective.to_owned()]].concat()
}

fn parsed(app: &App, words: &[String]) -> Result<Cli, Failure> {
    let state_dir = app.state_dir.display().to_string();
    let mut line = vec!["longhaul".to_owned(), "--state-dir".to_owned(), state_dir];
    line.extend(app.shared.trust.then(|| "--trust".to_owned()));
    line.extend_from_slice(words);
    Cli::try_parse_from(line).map_err(|error| Failure::usage(error.to_string().trim().to_owned()))
}

/// Does what a line asks for. What goes wrong is said, and the prompt comes back.
fn obey(app: &App, words: &[String], dispatch: fn(Cli) -> Result<Exit, Failure>) {
    if let Err(failure) = parsed(app, words).and_then(dispatch) {
        render::failure(&failure);
    }
}

fn newest(app: &App) -> Option<String> {
    app.home().ok()??;
    let (rows, _) = app.reading().ok()?.list(&Filter::default()).ok()?;
    rows.first().map(|row| row.id.to_string())
}

/// The line editor, with a history that outlives the process.
struct Prompt {
    editor: Editor<(), FileHistory>,
    history: std::path::PathBuf,
}

impl Prompt {
    fn open(app: &App) -> Result<Prompt, Failure> {
        let config = Config::builder().auto_add_history(true).max_history_size(HISTORY_LINES_MAX);
        let config = config.map_err(anyhow::Error::from)?.build();
        let history = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).map_err(anyhow::Error::from)?;
        app.make_home()?;
        let history = app.state_dir.join("history");
        // There is none the first time.
        editor.load_history(&history).ok();
        Ok(Prompt { editor, history })
    }

    /// The next line; `None` at the end. Ctrl-C throws the line away, as if nothing had been typed.
    fn ask(&mut self, prompt: &str) -> Result<Option<String>, Failure> {
        match self.editor.readline(prompt) {
            Ok(line) => {
                // A history that cannot be written is no reason to stop.
                self.editor.save_history(&self.history).ok();
                Ok(Some(line))
            }
            Err(ReadlineError::Interrupted) => Ok(Some(String::new())),
            Err(ReadlineError::Eof) => Ok(None),
            Err(error) => Err(anyhow::Error::from(error).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Line, loop_words, read, read_objective};

    fn words(line: &str) -> Vec<String> {
        let line = read(line, &["--in-place".to_owned()], || Some("run_new".to_owned()));
        if let Line::Command(words) = line { words } else { vec![format!("{line:?}")] }
    }

    /// B2.2, B5.1, B5.2: what a line at the prompt means.
    #[test]
    fn lines_are_commands() {
        assert_eq!(words("fix it"), ["run", "--in-place", "--", "fix it"]);
        assert_eq!(
            words("/harness Research X"),
            [
                "loop",
                "--in-place",
                "--max-iterations=10",
                "--completion-promise=TASK_COMPLETE",
                "--",
                "Research X"
            ]
        );
        assert_eq!(words("/harness"), ["NoObjective"]);
        assert_eq!(words("/status"), ["show", "run_new"]);
        assert_eq!(words("/tools run_old"), ["tools", "run_old"]);
        assert_eq!(
            words("/reject run_1.g1 not this way"),
            ["reject", "run_1.g1", "--reason", "not this way"]
        );
        assert_eq!(words("  "), ["Nothing"]);
        assert_eq!(words("/frobnicate now"), ["Unknown(\"/frobnicate\")"]);
    }

    /// B5.2: nothing cancels, a command stays a command, and everything else is an objective.
    #[test]
    fn an_objective_is_what_is_no_command() {
        let line = |answer: &str| read_objective(answer, &[], || Some("run_new".to_owned()));
        assert_eq!(line("  "), Line::NoObjective);
        assert_eq!(line("/harness"), Line::NoObjective);
        assert_eq!(line("/quit"), Line::Quit);
        assert_eq!(line("/cost"), Line::Command(vec!["cost".to_owned(), "run_new".to_owned()]));
        for objective in ["Research X", "/src must build"] {
            assert_eq!(line(objective), Line::Command(loop_words(objective, &[])));
        }
    }
}
