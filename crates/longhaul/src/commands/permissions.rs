//! `permissions`: the rules in force, and what they say about one call.

use longhaul_core::permission::{ALWAYS, Action, Explanation, Here, Verdict, explain};
use longhaul_core::spec::Autonomy;
use longhaul_tools::mcp::DIVIDER;
use longhaul_tools::{Fetch, Sandbox, Toolbox};
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};
use crate::rules::WrittenRules;
use crate::settings::Settings;

/// Show what an agent may do, or what would become of one call
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A rule is a pattern with allow, ask or deny, under `permissions:` in longhaul.yaml. `*` stands for anything.

For bash every command of a line is judged, also those in $(…), `sh -c`, `xargs` and the like; the strictest counts.
Deny is never loosened by another rule; between ask and allow the longer pattern is meant.
What cannot be read for sure is asked about, never allowed.
A project's longhaul.yaml can only tighten what your own settings and the defaults say.

Examples:
  longhaul permissions show
  longhaul permissions check \"true && git push origin main\"
  longhaul permissions check --tool write .git/config")]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Every rule in force, and where it comes from
    Show,
    /// What becomes of a call, by which rule and why; exits with 0 for allow, 3 for ask and 1 for deny
    Check {
        /// The command; for other tools the path or address, or the arguments as JSON
        #[arg(value_name = "CMD")]
        subject: String,
        /// The tool that would be called
        #[arg(long, default_value = "bash", value_name = "TOOL")]
        tool: String,
        /// How much the run decides by itself, instead of what the settings say
        #[arg(long, value_name = "1..5")]
        autonomy: Option<u8>,
    },
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    match args.what {
        What::Show => Ok(show(app, &settings.rules)),
        What::Check { subject, tool, autonomy } => {
            let toolbox = Toolbox::builtin(Sandbox::off());
            let tool = toolbox.canonical(&tool);
            // A tool of a server that is not there now may be there in the run.
            if !toolbox.names().contains(&tool) && !tool.contains(DIVIDER) {
                let names = toolbox.names().join(", ");
                return Err(Failure::usage(format!("there is no tool `{tool}`"))
                    .hint(format!("there are {names}, and `server__tool` of MCP servers")));
            }
            let autonomy = match autonomy {
                Some(level) => Autonomy::try_from(level).map_err(Failure::usage)?,
                None => settings.autonomy,
            };
            Ok(check(app, &settings, tool, &subject, autonomy))
        }
    }
}

/// A rule as it is listed.
#[derive(Serialize)]
struct Row<'a> {
    section: &'a str,
    pattern: &'a str,
    action: Action,
    origin: &'a str,
    /// What keeps it from doing all that it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
}

impl Row<'_> {
    fn cells(&self) -> Vec<String> {
        let origin = match self.note {
            Some(note) => format!("{} ({note})", self.origin),
            None => self.origin.to_owned(),
        };
        [self.section, self.pattern, self.action.as_str(), &origin].map(table::clean).to_vec()
    }
}

fn show(app: &App, rules: &WrittenRules) -> Exit {
    let written = rules.all();
    let written = written.iter().map(|rule| {
        let (section, pattern) = (rule.name.section.as_str(), rule.name.pattern.as_str());
        Row { section, pattern, action: rule.action, origin: rule.source.as_str(), note: rule.reach.note() }
    });
    let always = ALWAYS.iter().map(|pattern| Row {
        section: "always",
        pattern,
        action: Action::Deny,
        origin: BUILT_IN,
        note: None,
    });
    let all = written.chain(always);
    if app.json() {
        render::json(&all.collect::<Vec<Row<'_>>>());
    } else {
        render::data(&table::rows(&["FOR", "PATTERN", "ACTION", "ORIGIN"], all.map(|row| row.cells())));
    }
    let warnings = rules.layers().iter().flat_map(|rules| rules.warnings()).collect::<Vec<String>>();
    warnings.iter().for_each(|warning| render::warn(warning));
    Exit::Ok
}

/// The origin of rules that no setting changes.
const BUILT_IN: &str = "built in";

fn check(app: &App, settings: &Settings, tool: &str, subject: &str, autonomy: Autonomy) -> Exit {
    let workspace = app.project.to_string_lossy();
    let here = Here { workspace: &workspace, cwd: "" };
    let arguments = arguments(tool, subject);
    let explained = explain(&settings.rules.layers(), here, tool, &arguments);
    let verdict = &explained.verdict;
    let written = settings.rules.origin(verdict).map_or(BUILT_IN, |source| source.as_str());
    let from = verdict.rule.as_ref().map(|_| written);
    let (action, beside) = in_a_run(verdict, autonomy, settings, tool, &arguments);
    if app.json() {
        render::json(&json!({
            "tool": tool, "action": action, "rule": verdict.rule, "origin": from, "byRules": verdict.action,
            "autonomy": autonomy.level(), "why": verdict.why, "beside": beside, "commands": explained.commands,
        }));
    } else {
        render::data(&said(&explained, action, from, beside.as_deref()));
    }
    match action {
        Action::Allow => Exit::Ok,
        Action::Ask => Exit::Waiting,
        Action::Deny => Exit::Failed,
    }
}

/// What a run makes of the verdict, and why that is something else than the rules say.
fn in_a_run(
    verdict: &Verdict,
    autonomy: Autonomy,
    settings: &Settings,
    tool: &str,
    arguments: &Value,
) -> (Action, Option<String>) {
    let level = autonomy.level();
    if tool == "fetch"
        && verdict.action != Action::Deny
        && let Some(why) = Fetch::new(settings.permissions.network.clone())
            .objection(arguments["url"].as_str().unwrap_or_default())
    {
        return (Action::Deny, Some(why));
    }
    match verdict.action {
        Action::Ask if verdict.rule.is_none() && !autonomy.asks_in_doubt() => {
            let why = format!(
                "with autonomy {level} nobody is asked in doubt: the agent is told to put it more plainly"
            );
            (Action::Deny, Some(why))
        }
        Action::Ask if level == 5 => {
            (Action::Deny, Some("with autonomy 5 nobody is asked, unless `--on-ask` says so".to_owned()))
        }
        action @ (Action::Allow | Action::Ask | Action::Deny) => (action, None),
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

fn said(explained: &Explanation, action: Action, from: Option<&str>, beside: Option<&str>) -> String {
    let verdict = &explained.verdict;
    let rule = match (&verdict.rule, from) {
        (Some(rule), Some(from)) => format!("rule {} ({from})", table::clean(&rule.to_string())),
        (None, _) | (_, None) => "no rule".to_owned(),
    };
    let why = match beside {
        Some(beside) => format!("{beside}\nby the rules {}: {}", verdict.action.as_str(), verdict.why),
        None => verdict.why.clone(),
    };
    let mut text = format!("{}: {}\n{rule}", action.as_str(), table::clean(&why));
    if !explained.commands.is_empty() {
        let lines = explained.commands.iter().map(|command| {
            let words = table::fit(&command.words.join(" "), 60);
            vec![words, command.action.as_str().to_owned(), table::fit(&command.why, 60)]
        });
        text = format!("{text}\n\n{}", table::rows(&["COMMAND", "ALONE", "WHY"], lines));
    }
    text
}
