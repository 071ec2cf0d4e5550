//! MCP servers as the commands use them: made from the settings, met before a run is created, named in its tools.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use longhaul_core::spec::Mode;
use longhaul_model::provider::BUILTINS;
use longhaul_tools::mcp::{DIVIDER, Error, Options, Servers, Strike, Why, variables_in};
use longhaul_tools::{Sandbox, Tool};

use crate::agents;
use crate::app::{App, environment};
use crate::commands::create;
use crate::commands::drive::runtime;
use crate::failure::Failure;
use crate::render;
use crate::settings::Settings;

/// The servers of these settings. Starts nothing.
pub fn servers(app: &App, settings: &Settings, sandbox: &Sandbox) -> Result<Servers, Failure> {
    let secrets = app.secrets.clone();
    secrets.learn(app.models(settings).secrets());
    let strike: Strike = Arc::new(move |text| secrets.strike(text).into_owned());
    let options = Options {
        // Without a state directory nothing is written, or it would be there without being ignored by git.
        dir: app.home()?.map(|_| app.state_dir.join("mcp")),
        base_dir: app.project.clone(),
        environment: environment(),
        withheld: withheld(settings),
        strike,
        sandbox: sandbox.clone(),
    };
    let servers = Servers::new(settings.mcp_servers.clone(), options)
        .map_err(|error| Failure::usage(error.to_string()))?;
    // Whoever drives a run shows this where the run is shown.
    servers.listen(Arc::new(render::talk));
    app.secrets.learn(servers.secrets().into_iter().map(Into::into));
    Ok(servers)
}

/// The tools of accepted servers; what stands in the way of one that was accepted is said.
pub fn tools(servers: &Servers) -> Vec<Arc<dyn Tool>> {
    let (tools, not_offered) = servers.tools();
    for server in not_offered {
        match server.why {
            Why::New => {}
            Why::Error(error) => render::warn(&format!("{error}; its tools are not offered")),
        }
    }
    tools
}

/// Accepts the servers that are new and that the run to be created may call, for good once it is: see [`keep_met`]. One that
/// cannot be met is left out.
pub fn meet(
    app: &App,
    settings: &Settings,
    sandbox: &Sandbox,
    options: &create::Options,
) -> Result<(), Failure> {
    if settings.mcp_servers.is_empty() {
        return Ok(());
    }
    if settings.enabled {
        drop(app.make_home()?);
    }
    let wanted = wanted(settings, options)?;
    let servers = app.servers(settings, sandbox)?;
    let (_, not_offered) = servers.tools();
    let new =
        not_offered.iter().filter(|server| matches!(server.why, Why::New) && wanted.includes(&server.server));
    let runtime = runtime()?;
    for server in new {
        let name = &server.server;
        match runtime.block_on(servers.meet(name)) {
            Ok(unpinned) => {
                render::talk(&format!(
                    "MCP server {name} is new and accepted as it is; `longhaul mcp tools {name}` shows what it offers"
                ));
                if let Some(unpinned) = unpinned {
                    render::talk(&format!("MCP server {name}: {unpinned}"));
                }
            }
            Err(error) => {
                render::warn(&format!("{error}; its tools are not offered"));
                log_of(servers, &error).iter().for_each(|log| render::hint(log));
            }
        }
    }
    Ok(())
}

/// Where all of what a server said can be read that did not start or ended, if it is kept anywhere.
pub fn log_of(servers: &Servers, error: &Error) -> Option<String> {
    let server = match error {
        Error::Start { server, .. }
        | Error::Unreachable { server, .. }
        | Error::NotTaken { server, .. }
        | Error::Slow { server, .. }
        | Error::Resting { server, .. } => server,
        Error::Config(_)
        | Error::NoProgram { .. }
        | Error::Changed { .. }
        | Error::NotNamed { .. }
        | Error::Pin { .. }
        | Error::Unknown { .. }
        | Error::Disabled { .. } => return None,
    };
    servers.log_path(server).map(|path| format!("what it said is in `{}`", path.display()))
}

/// Keeps what was met, now that the run it was met for exists.
pub fn keep_met(app: &App) -> Result<(), Failure> {
    let Some(servers) = app.servers_in_use() else { return Ok(()) };
    servers.keep_met().map_err(|error| Failure::usage(error.to_string()))
}

/// Tool names with `SERVER__*` in place of all of a server's tools written out.
pub fn spelled_out(names: Vec<String>, all: &[&str]) -> Vec<String> {
    let mut seen = HashSet::new();
    let one = |name: String| match name.strip_suffix('*').filter(|start| start.ends_with(DIVIDER)) {
        Some(start) => {
            let found: Vec<String> =
                all.iter().filter(|tool| tool.starts_with(start)).map(|tool| (*tool).to_owned()).collect();
            // Left as it is, it is refused as a tool that is not there.
            if found.is_empty() { vec![name] } else { found }
        }
        None => vec![name],
    };
    names.into_iter().flat_map(one).filter(|name| seen.insert(name.clone())).collect()
}

/// Which servers a run may call.
enum Wanted {
    All,
    Named(BTreeSet<String>),
}

impl Wanted {
    fn includes(&self, server: &str) -> bool {
        match self {
            Wanted::All => true,
            Wanted::Named(names) => names.contains(server),
        }
    }
}

fn wanted(settings: &Settings, options: &create::Options) -> Result<Wanted, Failure> {
    let servers = |tools: &[String]| {
        tools
            .iter()
            .filter_map(|tool| tool.split_once(DIVIDER))
            .map(|(server, _)| server.to_owned())
            .collect()
    };
    if let Some(typed) = &options.tools {
        return Ok(Wanted::Named(servers(typed)));
    }
    if options.mode.mode() == Mode::Complete {
        return Ok(Wanted::Named(BTreeSet::new()));
    }
    let agent = agents::find(&settings.agent_dirs, &options.agent)?;
    Ok(agent.tools.map_or(Wanted::All, |tools| Wanted::Named(servers(&tools))))
}

/// The variables that hold providers' keys.
pub fn withheld(settings: &Settings) -> BTreeSet<String> {
    let builtin = BUILTINS.iter().filter_map(|known| known.key_env).map(str::to_owned);
    let configured = settings.providers.values().flat_map(|config| {
        let headers = config.headers.values().flat_map(|value| variables_in(value)).map(str::to_owned);
        config.api_key_env.clone().into_iter().chain(headers)
    });
    builtin.chain(configured).collect()
}
