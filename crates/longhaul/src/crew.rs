//! The agents that errands are given to: how a run looks whose agent is one of them.
//!
//! A sub-agent never may do more than the run that sent it: it has its own prompt and models, but only those tools that its
//! sender has, the rules of both, and the lower of their limits.

use std::path::PathBuf;
use std::sync::Arc;

use longhaul_agents::{Agent, Engine, Origin};
use longhaul_core::conduct::{Compaction, Conduct, Protect};
use longhaul_core::spec::{Caps, Limits, Mate, RunSpec};
use longhaul_core::tool::ToolGrant;
use longhaul_engine::Crew;
use longhaul_tools::Toolbox;

use crate::agents::{self, AgentDirs};
use crate::commands::create::settled_model;
use crate::failure::Failure;
use crate::limits::ROLE_CHARS_MAX;
use crate::render::table;
use crate::servers;
use crate::settings::Settings;

pub struct Staff {
    pub settings: Settings,
    pub project: PathBuf,
    pub toolbox: Arc<Toolbox>,
}

impl Crew for Staff {
    fn fitted(&self, plain: RunSpec) -> Result<RunSpec, String> {
        self.fit(plain).map_err(|failure| failure.error.to_string())
    }
}

impl Staff {
    fn fit(&self, plain: RunSpec) -> Result<RunSpec, Failure> {
        let agent = agents::find(&self.settings.agent_dirs, &plain.agent)?;
        if agent.origin == Origin::Default {
            return Err(Failure::usage(format!("there is no agent {} any more", plain.agent)));
        }
        let settings = agents::over(&self.settings, &agent)?;
        let models: Vec<String> =
            agent.models.iter().map(|name| settled_model(name, &self.project)).collect();
        let layers = settings.rules.layers();
        let permissions = [plain.permissions.clone().unwrap_or_default(), layers].concat();
        Ok(RunSpec {
            tools: self.tools(&plain.tools, &agent)?,
            model: models.first().cloned().unwrap_or_else(|| plain.model.clone()),
            models: if models.is_empty() {
                plain.models.clone()
            } else {
                (models.len() > 1).then_some(models)
            },
            limits: lower(plain.limits, &agent),
            agent_caps: caps(&agent),
            autonomy: agent.autonomy.map_or(plain.autonomy, |own| own.min(plain.autonomy)),
            permissions: Some(permissions),
            conduct: Some(Box::new(conduct(plain.conduct(), &settings, &agent))),
            prompt: agent.prompt,
            ..plain
        })
    }

    /// Those of its tools that its sender has too, asked about where its sender is.
    fn tools(&self, of_sender: &[ToolGrant], agent: &Agent) -> Result<Vec<ToolGrant>, Failure> {
        let Some(names) = agent.tools.clone() else { return Ok(of_sender.to_vec()) };
        let names = servers::spelled_out(names, &self.toolbox.names());
        let own = self.toolbox.grants(&names);
        let own = own.map_err(|error| agents::wrong(agent.bad("tools", error.to_string())))?;
        let both = own.iter().filter_map(|own| of_sender.iter().find(|grant| grant.name == own.name));
        Ok(both.cloned().collect())
    }
}

fn lower(limits: Limits, agent: &Agent) -> Limits {
    let least = |given: Option<u64>, own: Option<u64>| given.into_iter().chain(own).min();
    let cost = limits.max_cost.into_iter().chain(agent.limits.max_cost).min();
    let calls = agent.limits.max_tool_calls.unwrap_or(u32::MAX);
    let steps = agent.harness_config.max_steps.unwrap_or(u32::MAX);
    Limits {
        max_tool_calls: limits.max_tool_calls.min(calls),
        max_steps: limits.max_steps.min(steps),
        max_tokens: least(limits.max_tokens, agent.limits.max_tokens),
        max_cost: cost,
        timeout_ms: least(limits.timeout_ms, agent.harness_config.timeout_ms),
        ..limits
    }
}

/// Kept with the run: its part of the sender's budget changes, these do not.
fn caps(agent: &Agent) -> Option<Caps> {
    let caps = Caps { max_tokens: agent.limits.max_tokens, max_cost: agent.limits.max_cost };
    (caps != Caps::default()).then_some(caps)
}

fn conduct(of_sender: &Conduct, settings: &Settings, agent: &Agent) -> Conduct {
    let verify = [&of_sender.verify[..], agent.verify.as_deref().unwrap_or(&[])].concat();
    let globs = agent.protect.clone().unwrap_or_default();
    let protect = match &of_sender.protect {
        Some(protect) => Some(Protect { globs: [protect.globs.clone(), globs].concat(), ..protect.clone() }),
        None => (!globs.is_empty()).then_some(Protect { globs, policy: Default::default() }),
    };
    Conduct {
        verify,
        protect,
        compaction: Some(settings.compaction.clone()).filter(|own| *own != Compaction::default()),
        repeats_max: agent.harness_config.doom_loop_threshold.or(of_sender.repeats_max),
        plain: (agent.engine == Some(Engine::Plain)).then_some(true),
        ..of_sender.clone()
    }
}

/// Every agent that can be given something to do, with what it is good for in a line. One whose file is broken is left out.
pub fn mates(dirs: &AgentDirs) -> Result<Vec<Mate>, Failure> {
    let listed = dirs.roster.all().map_err(agents::wrong)?;
    let mate = |agent: Agent| {
        let role = agent.description.as_deref().unwrap_or("works on code");
        Mate { role: table::fit(role, ROLE_CHARS_MAX), name: agent.name }
    };
    Ok(listed.into_iter().filter_map(|listed| listed.agent.ok().map(mate)).collect())
}
