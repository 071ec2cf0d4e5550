//! `permissions`: the rules in force, and what they say about one call.

use longhaul_core::permission::{ALWAYS, Action, Explanation, RuleName, explain};
use serde_json::{Value, json};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};
use crate::settings::{Settings, rule_key};

/// Show what an agent may do, or what would become of one call
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Every rule in force, and where it comes from
    Show,
    /// Which rule decides about a call, and why; exits with 0 for allow, 3 for ask and 1 for deny
    Check {
        /// The command; for other tools the path or address, or the arguments as JSON
        #[arg(value_name = "CMD")]
        subject: String,
        /// The tool that would be called
        #[arg(long, default_value = "bash", value_name = "TOOL")]
        tool: String,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    match args.what {
        What::Show => Ok(show(app, &settings)),
        What::Check { subject, tool } => Ok(check(app, &settings, &tool, &subject)),
    }
}

fn show(app: &App, settings: &Settings) -> Exit {
    let written = settings.permissions.0.iter().flat_map(|(section, rules)| {
        rules.0.iter().map(move |(pattern, action)| {
            (section.as_str(), pattern.as_str(), *action, origin(settings, section, pattern))
        })
    });
    let always = ALWAYS.iter().map(|pattern| ("always", *pattern, Action::Deny, "built in"));
    let rules: Vec<(&str, &str, Action, &str)> = written.chain(always).collect();
    if app.json() {
        let shown = rules.iter().map(|(section, pattern, action, origin)| {
            json!({ "section": section, "pattern": pattern, "action": action, "origin": origin })
        });
        render::json(&shown.collect::<Vec<Value>>());
    } else {
        let lines = rules.iter().map(|(section, pattern, action, origin)| {
            let cells = [section, pattern, action.as_str(), origin];
            cells.map(table::clean).to_vec()
        });
        render::data(&table::rows(&["FOR", "PATTERN", "ACTION", "ORIGIN"], lines));
    }
    settings.permissions.warnings().iter().for_each(|warning| render::warn(warning));
    Exit::Ok
}

fn origin<'a>(settings: &'a Settings, section: &str, pattern: &str) -> &'a str {
    settings.origins.get(&rule_key(section, pattern)).map_or("", |(_, source)| source.as_str())
}

fn check(app: &App, settings: &Settings, tool: &str, subject: &str) -> Exit {
    let workspace = app.project.to_string_lossy();
    let explained = explain(&settings.permissions, &workspace, tool, &arguments(tool, subject));
    let verdict = &explained.verdict;
    let from = verdict.rule.as_ref().map(|rule| origin(settings, &rule.section, &rule.pattern));
    if app.json() {
        render::json(&json!({
            "tool": tool, "action": verdict.action, "rule": verdict.rule, "origin": from,
            "why": verdict.why, "commands": explained.commands,
        }));
    } else {
        render::data(&said(&explained, from));
    }
    match verdict.action {
        Action::Allow => Exit::Ok,
        Action::Ask => Exit::Waiting,
        Action::Deny => Exit::Failed,
    }
}

/// The arguments a call would have.
fn arguments(tool: &str, subject: &str) -> Value {
    if let Ok(arguments @ Value::Object(_)) = serde_json::from_str(subject) {
        return arguments;
    }
    match tool {
        "bash" => json!({ "command": subject }),
        "fetch" => json!({ "url": subject }),
        _ => json!({ "path": subject }),
    }
}

fn said(explained: &Explanation, from: Option<&str>) -> String {
    let verdict = &explained.verdict;
    let rule = match (&verdict.rule, from) {
        (None, _) => "no rule".to_owned(),
        (Some(rule), None | Some("")) => format!("rule {}", clean(rule)),
        (Some(rule), Some(from)) => format!("rule {} ({from})", clean(rule)),
    };
    let mut text = format!("{}: {}\n{rule}", verdict.action.as_str(), table::clean(&verdict.why));
    if !explained.commands.is_empty() {
        let lines = explained.commands.iter().map(|command| {
            let words = table::short(&command.words.join(" "), 60);
            vec![words, command.action.as_str().to_owned(), table::short(&command.why, 60)]
        });
        text = format!("{text}\n\n{}", table::rows(&["COMMAND", "ALONE", "WHY"], lines));
    }
    text
}

fn clean(rule: &RuleName) -> String {
    table::clean(&rule.to_string())
}
