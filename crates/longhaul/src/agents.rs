//! The agents there are here, and what a repository's own may not ask for.
//!
//! An agent file of a repository came with it, and nobody has agreed to it. It may choose a model, tools and a prompt and make
//! rules tighter; it may not raise what the user has set. Rules in it are a layer of their own, which can only tighten,
//! and servers are only those that the settings have, trusted as those are.

use std::collections::BTreeMap;
use std::path::Path;

use longhaul_agents::{Agent, BadAgent, Origin, Roster};
use longhaul_core::conduct::Compaction;
use longhaul_core::money::Usd;
use longhaul_core::policy::Policy;
use longhaul_core::spec::Autonomy;
use longhaul_core::suggest::closest;
use longhaul_model::{Models, ResolveError};
use longhaul_tools::mcp::DIVIDER;
use longhaul_tools::{Sandbox, Toolbox};
use serde_json::Value;

use crate::failure::Failure;
use crate::settings::{Settings, Source};

/// Where agents are found.
#[derive(Clone, Debug, Default)]
pub struct AgentDirs {
    pub roster: Roster,
    pub most: Most,
}

/// What the user has set, and an agent of a repository may lower and not raise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Most {
    pub autonomy: Option<Autonomy>,
    pub max_cost: Option<Usd>,
}

/// The agent of this name. One without a file gets the default prompt and all tools.
pub fn find(dirs: &AgentDirs, name: &str) -> Result<Agent, Failure> {
    let mut agent = dirs.roster.find(name).map_err(wrong)?;
    check(&agent, dirs.most)?;
    agent.tools = tools(&agent);
    Ok(agent)
}

/// The agent that was probably meant by a name nobody has.
pub fn meant(dirs: &AgentDirs, name: &str) -> Option<String> {
    let all = dirs.roster.all().ok()?;
    let names: Vec<&str> = all.iter().map(|listed| listed.name.as_str()).collect();
    closest(name, &names).map(str::to_owned)
}

/// The settings as they hold for an agent: what its file says goes over them. Rules are not replaced: a call must pass its own
/// as well.
pub fn over(settings: &Settings, agent: &Agent) -> Result<Settings, Failure> {
    let mut settings = settings.clone();
    let (limits, own) = (&mut settings.limits, &agent.limits);
    limits.max_steps = agent.harness_config.max_steps.unwrap_or(limits.max_steps);
    if !is_settled(&settings.origins, "harness.limits.max_tool_calls", agent.origin) {
        limits.max_tool_calls = own.max_tool_calls.unwrap_or(limits.max_tool_calls);
    }
    limits.max_tokens = own.max_tokens.or(limits.max_tokens);
    limits.max_cost = own.max_cost.or(limits.max_cost);
    limits.timeout_ms = agent.harness_config.timeout_ms.or(limits.timeout_ms);
    limits.max_iteration_steps = own.max_iteration_steps.or(limits.max_iteration_steps);
    limits.max_iteration_tokens = own.max_iteration_tokens.or(limits.max_iteration_tokens);
    limits.max_iteration_cost = own.max_iteration_cost.or(limits.max_iteration_cost);
    limits.policies = match (own.policies, limits.policies) {
        (Some(own), Some(base)) => Some(own.over(base)),
        (own, base) => own.or(base),
    };
    settings.compaction = compaction(&settings.compaction, agent);
    settings.autonomy = agent.autonomy.unwrap_or(settings.autonomy);
    if let Some(rules) = &agent.permissions {
        let place = agent.file.as_ref().map_or_else(|| agent.name.clone(), |file| file.display().to_string());
        settings.rules.add(rules.clone(), Source::Project, &place)?;
    }
    Ok(settings)
}

/// Does the setting go before what the agent says? What comes along with longhaul is a default like any other: whoever set
/// something meant it for these agents too.
fn is_settled(origins: &BTreeMap<String, (Value, Source)>, key: &str, agent: Origin) -> bool {
    let is_set = origins.get(key).is_some_and(|(_, source)| *source != Source::Default);
    agent == Origin::BuiltIn && is_set
}

fn compaction(base: &Compaction, agent: &Agent) -> Compaction {
    let own = &agent.compaction;
    Compaction {
        enabled: own.enabled.unwrap_or(base.enabled),
        threshold: own.threshold.map_or(base.threshold, |part| (part * 100.0).round() as u32),
        protect_tokens: own.protect_tokens.unwrap_or(base.protect_tokens),
        summarizer: agent.summarizer.clone().or_else(|| base.summarizer.clone()),
    }
}

/// Its tools with those of the servers it names. One that names servers and no tools gets what is built in, and theirs.
fn tools(agent: &Agent) -> Option<Vec<String>> {
    let Some(servers) = &agent.mcp else { return agent.tools.clone() };
    let built_in = || {
        let toolbox = Toolbox::builtin(Sandbox::off());
        // Without a search provider this is a name for another tool, which is granted once.
        toolbox.names().into_iter().chain(["search"]).map(str::to_owned).collect()
    };
    let own: Vec<String> = agent.tools.clone().unwrap_or_else(built_in);
    let of_servers = servers.iter().map(|server| format!("{server}{DIVIDER}*"));
    Some(own.into_iter().chain(of_servers).collect())
}

/// Refuses what a repository's agent may not ask for.
pub fn check(agent: &Agent, most: Most) -> Result<(), Failure> {
    if agent.origin != Origin::Project {
        return Ok(());
    }
    let raised = |field: &str, own: String, asked: String| {
        let why = format!("a repository's agent may not raise {own}, as the settings have it, to {asked}");
        wrong(agent.bad(field, why))
            .hint("raise it in ~/.config/longhaul/longhaul.yaml, or on the command line for one run")
    };
    if let (Some(own), Some(asked)) = (most.autonomy, agent.autonomy)
        && asked > own
    {
        return Err(raised("autonomy", own.level().to_string(), asked.level().to_string()));
    }
    if let (Some(own), Some(asked)) = (most.max_cost, agent.limits.max_cost)
        && asked > own
    {
        let dollars = |cost: Usd| cost.as_dollars().to_string();
        return Err(raised("limits.max_cost", dollars(own), dollars(asked)));
    }
    let warns = agent.limits.policies.is_some_and(|chosen| chosen.max_cost == Some(Policy::Warn));
    if let (Some(own), true) = (most.max_cost, warns) {
        return Err(raised("limits.policies", format!("a limit of {own}"), "a mere warning".to_owned()));
    }
    Ok(())
}

/// Refuses what can only be told with the settings: tools, servers and globs, each with the line it stands in.
pub fn check_names(agent: &Agent, settings: &Settings) -> Result<(), Failure> {
    let toolbox = Toolbox::builtin(Sandbox::off());
    let mut names = toolbox.names();
    names.push("search");
    let is_known = |name: &str| names.contains(&toolbox.canonical(name));
    agent.check_tools(&names, is_known).map_err(wrong)?;
    let servers: Vec<&str> = settings.mcp_servers.keys().map(String::as_str).collect();
    agent.check_servers(&servers).map_err(|bad| {
        wrong(bad)
            .hint("`longhaul mcp list` shows them; they are configured under `mcp.servers` in longhaul.yaml")
    })?;
    for (place, glob) in agent.protect.iter().flatten().enumerate() {
        let is_glob = longhaul_tools::check_globs(std::slice::from_ref(glob), Path::new("/"));
        is_glob.map_err(|why| wrong(agent.bad_entry("protect", place, why)))?;
    }
    Ok(())
}

/// What is to be said of an agent whose file is nothing but a prompt: whoever forgot the front matter did not mean that.
pub fn caution(agent: &Agent) -> Option<String> {
    let file = agent.file.as_ref().filter(|_| agent.has_only_a_prompt())?;
    Some(format!(
        "{} has no front matter, so {} has every tool, and no limits or rules of its own",
        file.display(),
        agent.name
    ))
}

/// Refuses models of providers that there are none of, with the line they stand in.
pub fn check_models(agent: &Agent, models: &Models) -> Result<(), Failure> {
    let names = models.names();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let is_known =
        |provider: &str| !matches!(models.config(provider), Err(ResolveError::UnknownProvider { .. }));
    agent.check_models(&names, is_known).map_err(|bad| {
        wrong(bad)
            .hint("`longhaul models` lists them; others are configured under `providers` in longhaul.yaml")
    })
}

pub fn wrong(bad: BadAgent) -> Failure {
    Failure::usage(bad.to_string())
}
