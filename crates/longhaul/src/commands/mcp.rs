//! `mcp`: the configured servers, what they offer, and trying their tools.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_core::tool::{EffectClass, Outcome, Output};
use longhaul_tools::mcp::{Error, Look, Offered, ServerConfig, Servers};
use longhaul_tools::{Blobs, Cancel};
use serde_json::{Map, Value, json};
use tokio::task::JoinSet;

use super::accepting;
use super::drive::runtime;
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};
use crate::servers;
use crate::settings::Settings;

/// Look at MCP servers, try their tools, accept what changed
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Debug, clap::Subcommand)]
pub enum What {
    /// Start every server and list what it offers
    List,
    /// Show one server's tools with their descriptions, its resources and its prompts
    Tools {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Call a tool by hand
    Call {
        #[arg(value_name = "NAME")]
        name: String,
        /// The server's own name for the tool
        #[arg(value_name = "TOOL")]
        tool: String,
        /// Its arguments, an object
        #[arg(value_name = "JSON", default_value = "{}")]
        arguments: String,
    },
    Accept(accepting::Args),
}

pub fn run(app: &App, args: Args) -> Result<Exit, Failure> {
    let settings = app.settings()?;
    let sandbox = app.sandbox(settings.permissions.clone())?;
    match args.what {
        What::List => list(app, app.servers(&settings, &sandbox)?),
        What::Tools { name } => tools(app, app.servers(&settings, &sandbox)?, &name),
        What::Call { name, tool, arguments } => {
            let servers = app.servers(&settings, &sandbox)?;
            call(app, &settings, servers, &name, &tool, &arguments)
        }
        What::Accept(args) => accepting::run(app, &settings, &sandbox, &args),
    }
}

/// One server and what a look at it showed.
struct Row {
    name: String,
    config: ServerConfig,
    /// `None` for one that is switched off.
    seen: Option<Result<Look, Error>>,
}

fn list(app: &App, servers: &Servers) -> Result<Exit, Failure> {
    let rows = runtime()?.block_on(look_at_all(servers));
    if app.json() {
        render::json(&rows.iter().map(as_json).collect::<Vec<_>>());
        return Ok(Exit::Ok);
    }
    if rows.is_empty() {
        render::talk("no MCP servers are configured; they stand under `mcp.servers` in longhaul.yaml");
        return Ok(Exit::Ok);
    }
    let header = ["SERVER", "STATE", "TOOLS", "READ-ONLY", "RESOURCES", "PROMPTS", "WHERE"];
    render::data(&table::rows(&header, rows.iter().map(as_line)));
    for row in &rows {
        for line in remarks(row) {
            render::talk(&format!("{}: {line}", row.name));
        }
        if let Some(Err(error)) = &row.seen {
            servers::log_of(servers, error).iter().for_each(|log| render::hint(log));
        }
    }
    Ok(Exit::Ok)
}

/// All at the same time: one that does not start holds nobody up.
async fn look_at_all(servers: &Servers) -> Vec<Row> {
    let mut looks = JoinSet::new();
    for (name, config) in servers.configs() {
        let (servers, name, config) = (servers.clone(), name.to_owned(), config.clone());
        looks.spawn(async move {
            let seen = if config.is_enabled() { Some(servers.look(&name).await) } else { None };
            Row { name, config, seen }
        });
    }
    let mut rows = looks.join_all().await;
    rows.sort_by(|one, other| one.name.cmp(&other.name));
    rows
}

fn state(row: &Row) -> &'static str {
    match &row.seen {
        None => "off",
        Some(Ok(look)) => match &look.difference {
            None => "new",
            Some(difference) if difference.changed.is_empty() => "accepted",
            Some(_) => "changed",
        },
        Some(Err(Error::Changed { .. })) => "changed",
        Some(Err(_)) => "failed",
    }
}

/// What a person should know beside the table.
fn remarks(row: &Row) -> Vec<String> {
    let look = match &row.seen {
        None => return Vec::new(),
        Some(Err(error)) => return vec![error.to_string()],
        Some(Ok(look)) => look,
    };
    let mut remarks: Vec<String> = look.unpinned.iter().chain(&look.listing.left_out).cloned().collect();
    if let Some(difference) = &look.difference {
        if !difference.changed.is_empty() {
            let changed = difference.changed.join(", ");
            remarks.push(format!("{changed} changed; `longhaul mcp accept {}` shows it and asks", row.name));
        }
        if !difference.added.is_empty() {
            let added = table::clean(&difference.added.join(", "));
            remarks.push(format!("came later and not offered until it is accepted: {added}"));
        }
        if !difference.gone.is_empty() {
            remarks
                .push(format!("gone since it was accepted: {}", table::clean(&difference.gone.join(", "))));
        }
    }
    let missing = row
        .config
        .tools
        .iter()
        .flatten()
        .filter(|name| look.listing.tools.iter().all(|offered| offered.tool != **name));
    remarks.extend(missing.map(|name| format!("`tools` names {name}, which it does not offer")));
    remarks
}

fn place(config: &ServerConfig) -> String {
    config.url.clone().unwrap_or_else(|| config.command.join(" "))
}

fn as_line(row: &Row) -> Vec<String> {
    let place = table::fit(&place(&row.config), 60);
    let Some(Ok(look)) = &row.seen else {
        let nothing = || "".to_owned();
        return vec![
            row.name.clone(),
            state(row).to_owned(),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            place,
        ];
    };
    let tools: Vec<&Offered> = used(row, look).collect();
    let read_only = tools.iter().filter(|offered| offered.class == EffectClass::Repeatable).count();
    vec![
        row.name.clone(),
        state(row).to_owned(),
        tools.len().to_string(),
        read_only.to_string(),
        look.listing.resources.len().to_string(),
        look.listing.prompts.len().to_string(),
        place,
    ]
}

fn used<'a>(row: &'a Row, look: &'a Look) -> impl Iterator<Item = &'a Offered> {
    look.listing.tools.iter().filter(|offered| row.config.allows(&offered.tool))
}

fn as_json(row: &Row) -> Value {
    let mut value = json!({ "name": row.name, "state": state(row), "where": place(&row.config) });
    match &row.seen {
        None => {}
        Some(Err(error)) => value["error"] = json!(error.to_string()),
        Some(Ok(look)) => {
            value["server"] = json!(look.listing.about);
            value["tools"] = used(row, look).map(tool_json).collect();
            value["resources"] = listed_json(&look.listing.resources);
            value["prompts"] = listed_json(&look.listing.prompts);
            value["remarks"] = json!(remarks(row));
        }
    }
    value
}

pub fn tool_json(offered: &Offered) -> Value {
    json!({
        "name": offered.name, "tool": offered.tool, "class": offered.class, "hints": offered.hints,
        "description": offered.description, "schema": offered.input,
    })
}

fn listed_json(listed: &[longhaul_tools::mcp::Listed]) -> Value {
    listed.iter().map(|one| json!({ "name": one.name, "about": one.about })).collect()
}

fn tools(app: &App, servers: &Servers, name: &str) -> Result<Exit, Failure> {
    let config = servers.configs().find(|(known, _)| *known == name).map(|(_, config)| config.clone());
    let seen = match runtime()?.block_on(servers.look(name)) {
        Err(error @ Error::Changed { .. }) => return accepted_tools(app, servers, name, &error),
        seen => seen.map_err(|error| refused(servers, &error))?,
    };
    let row = Row { name: name.to_owned(), config: config.unwrap_or_default(), seen: Some(Ok(seen)) };
    if app.json() {
        render::json(&as_json(&row));
        return Ok(Exit::Ok);
    }
    if let Some(Ok(look)) = &row.seen {
        used(&row, look).for_each(show_tool);
        for (kind, listed) in [("resource", &look.listing.resources), ("prompt", &look.listing.prompts)] {
            for one in listed {
                render::data(&format!("{kind} {}  {}", one.name, one.about));
            }
        }
    }
    for line in remarks(&row) {
        render::talk(&line);
    }
    Ok(Exit::Ok)
}

/// The tools as they were accepted, of a server that is not started because it is not what was accepted.
fn accepted_tools(app: &App, servers: &Servers, name: &str, changed: &Error) -> Result<Exit, Failure> {
    let tools =
        servers.accepted(name).map_err(|error| refused(servers, &error))?.map_or(Vec::new(), |pin| pin.tools);
    if app.json() {
        let tools: Vec<Value> = tools.iter().map(tool_json).collect();
        render::json(
            &json!({ "name": name, "state": "changed", "error": changed.to_string(), "tools": tools }),
        );
    } else {
        tools.iter().for_each(show_tool);
        render::warn(&format!("these are the tools as they were accepted: {changed}"));
    }
    Ok(Exit::Ok)
}

pub fn show_tool(offered: &Offered) {
    let hints =
        if offered.hints.is_empty() { String::new() } else { format!(" ({})", offered.hints.join(", ")) };
    render::data(&format!("{}  {}{hints}", offered.name, class(offered.class)));
    render::data(&indented(&offered.description));
}

/// The class, and in brief what it means.
pub fn class(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Repeatable => "repeatable",
        EffectClass::Checkable => "checkable",
        EffectClass::Once => "once",
    }
}

pub fn indented(text: &str) -> String {
    table::clean(text).lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}

fn call(
    app: &App,
    settings: &Settings,
    servers: &Servers,
    name: &str,
    tool: &str,
    arguments: &str,
) -> Result<Exit, Failure> {
    let arguments: Map<String, Value> = serde_json::from_str(arguments)
        .map_err(|error| Failure::usage(format!("the arguments are not a JSON object: {error}")))?;
    let time = Duration::from_millis(settings.retry.timeout_ms);
    let kept = Arc::new(Kept::default());
    let outcome = runtime()?.block_on(async {
        let (switch, cancel) = Cancel::new();
        let blobs = Arc::clone(&kept) as Arc<dyn Blobs>;
        let calling = servers.call(name, tool, arguments, time, &cancel, blobs);
        tokio::pin!(calling);
        tokio::select! {
            outcome = &mut calling => return outcome,
            _ = tokio::signal::ctrl_c() => switch.cancel(),
        }
        // The server is told, and ended.
        calling.await
    });
    let outcome = whole(outcome.map_err(|error| refused(servers, &error))?, &kept);
    report(app, outcome)
}

/// The outcome with all of its text, and no word of a blob: there is no run that would keep one.
fn whole(outcome: Outcome, kept: &Kept) -> Outcome {
    let whole = |output: Output| {
        let bytes = output.blob.as_deref().and_then(|name| kept.fetch(name).ok());
        let text = bytes.map_or(output.text, |bytes| String::from_utf8_lossy(&bytes).into_owned().into());
        Output { text, blob: None, ..output }
    };
    match outcome {
        Outcome::Done { output } => Outcome::Done { output: whole(output) },
        Outcome::Failed { failure, message, output } => {
            Outcome::Failed { failure, message, output: whole(output) }
        }
        Outcome::Unknown { message } => Outcome::Unknown { message },
    }
}

fn report(app: &App, outcome: Outcome) -> Result<Exit, Failure> {
    let outcome = app.secrets.strike_outcome(outcome);
    if app.json() {
        render::json(&outcome_json(&outcome));
    } else {
        render::data(&table::clean(&outcome.for_model()));
    }
    Ok(if outcome.is_done() { Exit::Ok } else { Exit::Failed })
}

fn outcome_json(outcome: &Outcome) -> Value {
    let mut value = json!(outcome);
    let images = value.pointer_mut("/output/images").and_then(Value::as_array_mut);
    for image in images.into_iter().flatten().filter_map(Value::as_object_mut) {
        image.remove("blob");
    }
    value
}

/// A server that cannot be used is a matter of settings.
pub fn refused(servers: &Servers, error: &Error) -> Failure {
    let hint = match error {
        Error::Changed { .. } | Error::NotNamed { .. } => None,
        Error::Config(_) | Error::NoProgram { .. } | Error::Unknown { .. } | Error::Disabled { .. } => Some(
            "servers stand under `mcp.servers` in longhaul.yaml; `longhaul mcp list` shows them".to_owned(),
        ),
        Error::Start { .. }
        | Error::Unreachable { .. }
        | Error::NotTaken { .. }
        | Error::Slow { .. }
        | Error::Resting { .. } => servers::log_of(servers, error),
        Error::Pin { server, .. } => {
            Some(format!("`longhaul mcp accept {server}` shows what it is now, and asks"))
        }
    };
    let failure = Failure::usage(error.to_string());
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Keeps what is too long for a conversation, and images, while the command lasts.
#[derive(Default)]
struct Kept(Mutex<Vec<Vec<u8>>>);

impl Blobs for Kept {
    fn keep(&self, bytes: &[u8]) -> Result<String, String> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.push(bytes.to_vec());
        Ok((kept.len() - 1).to_string())
    }

    fn fetch(&self, name: &str) -> Result<Vec<u8>, String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = name.parse::<usize>().ok().and_then(|place| kept.get(place).cloned());
        bytes.ok_or_else(|| "nothing is kept by that name".to_owned())
    }
}
