//! `agents`: who can work here, what their files say, and what is wrong with them.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use longhaul_agents::{Agent, BadAgent, Group, Listed, Origin, Roster};
use longhaul_model::Models;
use serde_json::{Value, json};

use crate::agents::{self, caution, check, check_models, check_names, wrong};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};
use crate::settings::Settings;

/// List, show and check agents, or begin a new one
#[derive(Debug, clap::Args)]
#[command(after_help = "\
An agent is a file NAME.md: YAML between two lines `---`, then its system prompt. Files of the project (`agents.dirs`) go \
before those of the user (~/.config/longhaul/agents), and those before the ones that are built in: twenty-one with names of \
their own, each for one kind of work (SUN, EARTH, MARS, … ANDROMEDA), and six generic roles. A file of the same name takes the \
place of a built-in one. `longhaul agents show MARS` shows one, and `longhaul agents new NAME` writes one with every field in \
it.")]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Every agent there is a file of, and where it comes from
    List,
    /// What one agent is: every field its file sets, and its prompt
    Show {
        /// Its name
        name: String,
    },
    /// Check agents; exits with 2 if one is wrong
    Validate {
        /// Names, or files ending in .md [default: all there are]
        names: Vec<String>,
    },
    /// Write a new agent file for this project; never overwrites
    New {
        /// Its name
        name: String,
    },
}

const TEMPLATE: &str = include_str!("../agent_template.md");

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    match args.what {
        What::List => list(app, &settings),
        What::Show { name } => show(app, &settings, &name),
        What::Validate { names } => validate(app, &settings, &names),
        What::New { name } => new(app, &settings, &name),
    }
}

fn list(app: &App, settings: &Settings) -> Result<Exit, Failure> {
    let all = settings.agent_dirs.roster.all().map_err(wrong)?;
    if app.json() {
        let shown: Vec<Value> = all.iter().map(entry).collect();
        render::json(&shown);
        return Ok(Exit::Ok);
    }
    render::data(&table::rows(
        &["NAME", "GROUP", "FROM", "ROLE", "CALLS", "TOOLS", "MODELS", "WHAT"],
        all.iter().map(row),
    ));
    Ok(Exit::Ok)
}

fn row(listed: &Listed) -> Vec<String> {
    let mut row = vec![
        listed.name.clone(),
        Group::of(&listed.name).as_str().to_owned(),
        listed.origin.as_str().to_owned(),
    ];
    match &listed.agent {
        Ok(agent) => {
            let calls = agent.limits.max_tool_calls.map_or("-".to_owned(), |max| max.to_string());
            let tools = agent.tools.as_ref().map_or("all".to_owned(), |tools| tools.join(","));
            row.extend([
                agent.role.as_deref().map_or("-".to_owned(), |role| table::short(role, 24)),
                calls,
                table::fit(if tools.is_empty() { "none" } else { &tools }, 24),
                table::short(&agent.models.join(","), 40),
                table::fit(agent.description.as_deref().unwrap_or_default(), 80),
            ]);
        }
        Err(bad) => {
            row.extend(["-", "-", "-", "-"].map(str::to_owned));
            row.push(table::short(&format!("broken: {bad}"), 160));
        }
    }
    row
}

fn entry(listed: &Listed) -> Value {
    let Listed { name, origin, agent } = listed;
    let group = Group::of(name);
    match agent {
        Ok(agent) => {
            json!({ "name": name, "group": group, "origin": origin, "role": agent.role, "tools": agent.tools,
            "maxToolCalls": agent.limits.max_tool_calls, "file": agent.file, "models": agent.models,
            "description": agent.description, "error": null })
        }
        Err(bad) => {
            json!({ "name": name, "group": group, "origin": origin, "error": bad.to_string() })
        }
    }
}

fn show(app: &App, settings: &Settings, name: &str) -> Result<Exit, Failure> {
    let agent = settings.agent_dirs.roster.find(name).map_err(wrong)?;
    if agent.origin == Origin::Default {
        let meant = agents::meant(&settings.agent_dirs, name);
        let hint = meant.map_or_else(
            || "`longhaul agents list` shows those there are".to_owned(),
            |meant| format!("did you mean `{meant}`?"),
        );
        return Err(Failure::usage(format!("there is no agent {name}")).hint(hint));
    }
    if app.json() {
        render::json(&agent);
        return Ok(Exit::Ok);
    }
    let mut shown = json!(agent);
    let prompt = shown.as_object_mut().and_then(|fields| fields.remove("prompt"));
    let mut lines = Vec::new();
    flatten("", &shown, &mut lines);
    render::data(&table::rows(&["FIELD", "VALUE"], lines));
    let prompt = prompt.as_ref().and_then(Value::as_str).unwrap_or_default();
    render::data(&format!("\n{}", table::clean(prompt)));
    Ok(Exit::Ok)
}

/// Each value with the names that lead to it.
fn flatten(prefix: &str, value: &Value, lines: &mut Vec<Vec<String>>) {
    if let Value::Object(fields) = value {
        for (name, value) in fields {
            let name = as_written(name);
            let key = if prefix.is_empty() { name } else { format!("{prefix}.{name}") };
            flatten(&key, value, lines);
        }
        return;
    }
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(entries) => {
            let texts =
                entries.iter().map(|entry| entry.as_str().map_or_else(|| entry.to_string(), str::to_owned));
            texts.collect::<Vec<_>>().join(", ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => value.to_string(),
    };
    lines.push(vec![prefix.to_owned(), table::clean(&text)]);
}

/// `maxSteps` as files have it: `max_steps`.
fn as_written(name: &str) -> String {
    let letters = name.chars().flat_map(|letter| {
        let before = letter.is_ascii_uppercase().then_some('_');
        before.into_iter().chain([letter.to_ascii_lowercase()])
    });
    letters.collect()
}

fn validate(app: &App, settings: &Settings, names: &[String]) -> Result<Exit, Failure> {
    let checked: Vec<(String, Result<Agent, Failure>)> = if names.is_empty() {
        let all = settings.agent_dirs.roster.all().map_err(wrong)?;
        all.into_iter().map(|listed| (listed.name, listed.agent.map_err(wrong))).collect()
    } else {
        names.iter().map(|name| (name.clone(), named(app, settings, name))).collect()
    };
    let models = app.models(settings);
    let mut broken = 0;
    let mut shown = Vec::new();
    for (name, agent) in checked {
        let warning = agent.as_ref().ok().and_then(caution);
        let error = agent
            .and_then(|agent| whole(settings, &models, &agent))
            .err()
            .map(|failure| failure.error.to_string());
        broken += usize::from(error.is_some());
        if let Some(warning) = &warning {
            render::warn(warning);
        }
        shown.push(json!({ "name": name, "valid": error.is_none(), "error": error, "warning": warning }));
    }
    if app.json() {
        render::json(&shown);
    } else {
        for line in &shown {
            let name = line["name"].as_str().unwrap_or_default();
            render::data(&format!("{name}: {}", line["error"].as_str().unwrap_or("valid")));
        }
    }
    Ok(if broken == 0 { Exit::Ok } else { Exit::Usage })
}

/// An agent by name, or by the file that somebody is writing.
fn named(app: &App, settings: &Settings, name: &str) -> Result<Agent, Failure> {
    if name.ends_with(".md") {
        let path = app.cwd.join(name);
        let mut agent = Roster::read_file(&path).map_err(wrong)?;
        let places = settings.agent_dirs.roster.places();
        let place = places.iter().find(|place| path.parent().is_some_and(|dir| is_same(dir, &place.dir)));
        agent.origin = place.map_or(agent.origin, |place| place.origin);
        return Ok(agent);
    }
    let agent = settings.agent_dirs.roster.find(name).map_err(wrong)?;
    if agent.origin == Origin::Default {
        return Err(Failure::usage(format!("there is no agent {name}")));
    }
    Ok(agent)
}

fn is_same(one: &Path, other: &Path) -> bool {
    one.canonicalize().ok().zip(other.canonicalize().ok()).is_some_and(|(one, other)| one == other)
}

/// All that a run would refuse.
fn whole(settings: &Settings, models: &Models, agent: &Agent) -> Result<(), Failure> {
    check(agent, settings.agent_dirs.most)?;
    check_names(agent, settings)?;
    check_models(agent, models)
}

fn new(app: &App, settings: &Settings, name: &str) -> Result<Exit, Failure> {
    // A name that cannot be found again is not written; one whose file is broken is there already.
    if let Err(bad @ BadAgent::Name { .. }) = settings.agent_dirs.roster.find(name) {
        return Err(wrong(bad));
    }
    let places = settings.agent_dirs.roster.places();
    let place = places.iter().find(|place| place.origin == Origin::Project);
    let none = || Failure::usage("`agents.dirs` names no directory to write to");
    let dir = &place.ok_or_else(none)?.dir;
    let path = dir.join(format!("{name}.md"));
    write_new(&path)?;
    if app.json() {
        render::json(&json!({ "name": name, "file": path }));
    } else {
        render::data(&path.display().to_string());
    }
    render::hint(&format!(
        "change it, then `longhaul agents validate {name}` and `longhaul run \"TASK\" --agent {name}`"
    ));
    Ok(Exit::Ok)
}

fn write_new(path: &PathBuf) -> Result<(), Failure> {
    let cannot = |error: std::io::Error| {
        let shown = path.display();
        if error.kind() == ErrorKind::AlreadyExists {
            return Failure::usage(format!("{shown} is there already"));
        }
        Failure::usage(format!("cannot write {shown}: {error}"))
    };
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(cannot)?;
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(cannot)?;
    file.write_all(TEMPLATE.as_bytes()).map_err(cannot)
}
