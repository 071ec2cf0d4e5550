//! `doctor`: whether this machine has what longhaul needs.

use std::process::{Command as Process, Stdio};

use longhaul_tools::attacks::{self, Suite, Verdict};
use longhaul_tools::sandbox::Mode;
use serde_json::json;

use super::drive;
use super::holding::{HoldingArgs, refused};
use super::store::fallback_reason;
use crate::app::{App, FALLBACK_HINT, fallback_unread};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::LOST_RUNS_NAMED_MAX;
use crate::render::{self, table, theme};

/// Check that this machine has what longhaul needs
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Attack the sandbox: each case must succeed with nothing in its way, and fail when held
    ///
    /// Everything happens in a directory of its own among the temporary files, and to processes made for it.
    #[arg(long)]
    pub attack_suite: bool,
    #[command(flatten)]
    pub holding: HoldingArgs,
}

struct Finding {
    what: &'static str,
    state: State,
    said: String,
}

enum State {
    Good,
    /// Works, but not as it should.
    Warning,
    Bad,
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    if args.attack_suite {
        return attack(app, &args);
    }
    let mut findings = vec![
        state_dir(app),
        settings(app),
        program("git", "--version"),
        program("bash", "--version"),
        sandbox(app, &args.holding),
    ];
    findings.extend(trust(app));
    findings.extend(catalogue(app));
    findings.extend(fallback(app));
    findings.extend(lost(app));
    let worst = findings.iter().any(|finding| matches!(finding.state, State::Bad));
    if app.json() {
        let list: Vec<_> = findings
            .iter()
            .map(|f| json!({ "check": f.what, "state": f.state.word(), "detail": f.said }))
            .collect();
        render::json(&list);
    } else {
        for finding in &findings {
            let mark = match finding.state {
                State::Good => theme::done("good"),
                State::Warning => theme::warning("warning"),
                State::Bad => theme::failure("bad"),
            };
            render::data(&format!("{:<8} {:<9} {}", mark, finding.what, finding.said));
        }
    }
    Ok(if worst { Exit::Failed } else { Exit::Ok })
}

impl State {
    fn word(&self) -> &'static str {
        match self {
            State::Good => "good",
            State::Warning => "warning",
            State::Bad => "bad",
        }
    }
}

/// Every attack with its verdict. Only what held, or could not be tried, is good.
fn attack(app: &App, args: &Args) -> Result<Exit, Failure> {
    let permissions = args.holding.over(&app.settings()?);
    let sandbox = app.sandbox(permissions.clone())?;
    let containment = sandbox.prove().map_err(refused)?;
    render::talk(&format!("sandbox {containment}"));
    let suite = Suite { helper: std::env::current_exe()?, mode: permissions.sandbox };
    let said = |finding: &attacks::Finding| {
        if !app.json() {
            let line = format!("{:<6} {:<5} {}", finding.verdict, finding.row, finding.attack);
            let why = matches!(finding.verdict, Verdict::Held).then(String::new);
            let why = why.unwrap_or_else(|| format!(" ({})", table::clean(&finding.detail)));
            render::data(&format!("{line}{why}"));
        }
    };
    let findings = drive::runtime()?.block_on(suite.run(&said));
    if app.json() {
        render::json(&findings);
    }
    let count = |verdict| findings.iter().filter(|finding| finding.verdict == verdict).count();
    let (held, broken) = (count(Verdict::Held), count(Verdict::Broken));
    let (void, skipped) = (count(Verdict::Void), count(Verdict::Skipped));
    render::talk(&format!("{held} held, {broken} broken, {void} void, {skipped} not tried"));
    Ok(if broken + void == 0 { Exit::Ok } else { Exit::Failed })
}

fn state_dir(app: &App) -> Finding {
    let what = "state";
    let dir = app.state_dir.display();
    match fallback_reason(app) {
        Ok(None) => {
            Finding { what, state: State::Good, said: format!("runs are kept in {dir} by the engine") }
        }
        Ok(Some(reason)) => Finding {
            what,
            state: State::Warning,
            said: format!("runs are kept in {dir} by the fallback: {reason}"),
        },
        Err(failure) => Finding { what, state: State::Bad, said: format!("{:#}", failure.error) },
    }
}

/// Said only of a catalogue that cannot be written: runs go on without it, and every list is made from the journals.
fn catalogue(app: &App) -> Option<Finding> {
    let home = app.home().ok()??;
    if !home.catalog_path().exists() {
        return None;
    }
    let error = home.catalog().and_then(|catalog| catalog.check_writable()).err()?;
    let said = format!("the list of runs cannot be kept: {:#}", anyhow::Error::from(error));
    Some(Finding { what: "catalogue", state: State::Warning, said })
}

/// Said only of a fallback store that cannot be read.
fn fallback(app: &App) -> Option<Finding> {
    let error = app.home().ok()??.fallback_trouble()?;
    let said = format!("{}; {FALLBACK_HINT}", fallback_unread(error));
    Some(Finding { what: "fallback", state: State::Bad, said })
}

/// Said only of runs whose journal is gone: no list has them.
fn lost(app: &App) -> Option<Finding> {
    let home = app.home().ok()??;
    let lost = home.lost_runs().ok().filter(|lost| !lost.is_empty())?;
    let names: Vec<&str> = lost.iter().take(LOST_RUNS_NAMED_MAX).map(|run| run.as_str()).collect();
    let more = lost.len().saturating_sub(LOST_RUNS_NAMED_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let said = format!(
        "the journal is gone of {}{more}; what is left of them is in {}",
        names.join(", "),
        home.runs_dir().display()
    );
    Some(Finding { what: "runs", state: State::Bad, said })
}

fn settings(app: &App) -> Finding {
    let what = "settings";
    match app.settings_quietly() {
        Err(failure) => Finding { what, state: State::Bad, said: format!("{:#}", failure.error) },
        Ok(settings) => {
            let model = settings.model.unwrap_or_else(|| "none; give one with --model".to_owned());
            Finding { what, state: State::Good, said: format!("default model: {model}") }
        }
    }
}

/// What would hold the agent's commands, tried out.
fn sandbox(app: &App, holding: &HoldingArgs) -> Finding {
    let what = "sandbox";
    let made = app.settings().and_then(|settings| app.sandbox(holding.over(&settings)));
    let sandbox = match made {
        Ok(sandbox) => sandbox,
        Err(failure) => return Finding { what, state: State::Bad, said: format!("{:#}", failure.error) },
    };
    match sandbox.prove() {
        Ok(containment) => {
            let whole = containment.missing.is_empty() && containment.mode != Mode::Off;
            let state = if whole { State::Good } else { State::Warning };
            let missing: String = containment.missing.iter().map(|missing| format!("; {missing}")).collect();
            Finding { what, state, said: format!("{containment}{missing}") }
        }
        Err(refused) => Finding { what, state: State::Bad, said: refused.to_string() },
    }
}

/// Said only where there is something to trust.
fn trust(app: &App) -> Option<Finding> {
    let settings = app.settings_quietly().ok().filter(|settings| !settings.items.is_empty())?;
    let names = crate::trust::names(&settings.items);
    Some(match settings.untrusted {
        true => Finding {
            what: "trust",
            state: State::Warning,
            said: format!("ignored until you trust this repository with `longhaul trust`: {names}"),
        },
        false => Finding { what: "trust", state: State::Good, said: format!("this repository sets {names}") },
    })
}

fn program(name: &'static str, argument: &str) -> Finding {
    let answer = Process::new(name).arg(argument).stdin(Stdio::null()).stderr(Stdio::null()).output();
    match answer {
        Ok(answer) if answer.status.success() => {
            let text = String::from_utf8_lossy(&answer.stdout);
            Finding { what: name, state: State::Good, said: text.lines().next().unwrap_or("").to_owned() }
        }
        Ok(_) | Err(_) => {
            let said = format!("{name} cannot be run; what needs it will fail");
            Finding { what: name, state: State::Warning, said }
        }
    }
}
