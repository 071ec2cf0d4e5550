//! `mcp accept`: what is different about a server, and the user's word on it.
//!
//! What is accepted is what was shown: a server that becomes something else while its user reads is refused as before.

use longhaul_tools::Sandbox;
use longhaul_tools::mcp::{Difference, Look, Offered, Pin};
use serde_json::{Value, json};

use super::drive::runtime;
use super::mcp::{class, indented, refused, show_tool, tool_json};
use super::trust::{agreed, refuse_agents};
use crate::app::App;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::render::{self, table};
use crate::servers;
use crate::settings::Settings;

/// See how a server differs from what was accepted of it, and accept it as it is now
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The server is started to see what it offers, also if its program has changed, and held as it always is. What is accepted is \
exactly what is shown.")]
pub struct Args {
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Do not ask
    #[arg(long)]
    pub yes: bool,
}

pub fn run(app: &App, settings: &Settings, sandbox: &Sandbox, args: &Args) -> Result<Exit, Failure> {
    refuse_agents("accept an MCP server")?;
    let (name, servers) = (&args.name, app.servers(settings, sandbox)?);
    let looked = runtime()?.block_on(servers.look_anew(name));
    let (look, before) = looked.map_err(|error| refused(servers, &error))?;
    let difference = look.difference.clone().unwrap_or_default();
    if app.json() {
        render::json(&as_json(name, &look, before.as_ref(), &difference));
    } else {
        show(&look, before.as_ref(), &difference);
    }
    if before.is_some() && difference == Difference::default() {
        render::talk(&format!("{name} is accepted already, as it is"));
        return Ok(Exit::Ok);
    }
    if !args.yes && !agreed("Accept it as it is now? Its tools are offered to agents from then on. [y/N]")? {
        return Err(Failure::usage(format!("nothing is accepted: {name} is treated as before"))
            .hint(format!("`longhaul mcp accept {name} --yes` accepts it without asking")));
    }
    // Pins are kept with the runs, under what keeps them out of git. Before that there may have been no place for them.
    drop(app.make_home()?);
    let servers = servers::servers(app, settings, sandbox)?;
    servers.accept(name, &look).map_err(|error| refused(&servers, &error))?;
    render::talk(&format!("{name} is accepted with {} tools", look.listing.tools.len()));
    Ok(Exit::Ok)
}

fn as_json(name: &str, look: &Look, before: Option<&Pin>, difference: &Difference) -> Value {
    let tools = |tools: &[Offered]| tools.iter().map(tool_json).collect::<Value>();
    json!({
        "name": name, "changed": difference.changed, "added": difference.added, "gone": difference.gone,
        "unpinned": look.unpinned, "before": before.map(|pin| tools(&pin.tools)), "tools": tools(&look.listing.tools),
    })
}

/// What is different. Of a program that was not seen before all it offers, for all of that is new.
fn show(look: &Look, before: Option<&Pin>, difference: &Difference) {
    let is_another = before.is_none_or(|pin| look.is_another(pin));
    for now in &look.listing.tools {
        let then = before.and_then(|pin| pin.tools.iter().find(|then| then.tool == now.tool));
        match then {
            Some(then) if !then.is_same(now) => show_change(then, now),
            Some(_) if !is_another => {}
            Some(_) | None => show_tool(now),
        }
    }
    for gone in &difference.gone {
        render::talk(&format!("gone: {}", table::clean(gone)));
    }
    for line in &difference.changed {
        render::talk(&format!("changed: {line}"));
    }
    if let Some(unpinned) = &look.unpinned {
        render::talk(unpinned);
    }
}

fn show_change(then: &Offered, now: &Offered) {
    let parts = [
        ("", then.description.clone(), now.description.clone()),
        ("schema ", then.input.to_string(), now.input.to_string()),
        ("hints ", hints(then), hints(now)),
    ];
    let seen: Vec<String> = parts
        .iter()
        .filter(|(_, was, is)| was != is)
        .map(|(part, was, is)| format!("  {part}was:\n{}\n  {part}is:\n{}", indented(was), indented(is)))
        .collect();
    render::data(&now.name);
    if seen.is_empty() {
        render::data(
            "  its description differs only after the part that is shown, which is all a model sees",
        );
    }
    seen.iter().for_each(|part| render::data(part));
}

fn hints(offered: &Offered) -> String {
    let said = if offered.hints.is_empty() { "none".to_owned() } else { offered.hints.join(", ") };
    format!("{said} ({})", class(offered.class))
}
