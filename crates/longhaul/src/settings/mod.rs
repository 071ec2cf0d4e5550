//! Layered settings: each source may set some keys, a later source wins, and every value knows where it came from.

mod file;
mod layers;
mod laying;
mod reading;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use longhaul_agents::{Origin, Place, Roster};
use longhaul_core::budget::Budget;
use longhaul_core::collaboration::{Isolation, Strategy, Way};
use longhaul_core::conduct::Compaction;
use longhaul_core::limits::{BACKOFF_BASE_MS_MAX, RETRIES_MAX};
use longhaul_core::spec::{Autonomy, Limits};
use longhaul_core::tool::RetryPolicy;
use longhaul_engine::notify::NotifyConfig;
use longhaul_model::ProviderConfig;
use longhaul_tools::hooks::HooksConfig;
use longhaul_tools::mcp::ServerConfig;
use longhaul_tools::research::SearchConfig;
use longhaul_tools::sandbox::{Mode, Network};
use serde::Serialize;
use serde_json::Value;

use crate::agents::AgentDirs;
use crate::branch;
use crate::failure::Failure;
use crate::rules::WrittenRules;
use crate::trust::{self, Item, Trust};

pub use self::layers::user_dir;
use self::layers::{Layer, defaults, flatten, from_environment, read_layer, user_file};
use self::laying::{
    add_hooks, add_notify, add_providers, add_servers, refuse_loosening, search_provider, taken_rules,
};
use self::reading::Reading;

/// Where a value came from. The order is the precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    Default,
    User,
    Project,
    Environment,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::User => "user",
            Source::Project => "project",
            Source::Environment => "environment",
        }
    }
}

/// The resolved settings, as the commands use them.
#[derive(Clone, Debug)]
pub struct Settings {
    pub enabled: bool,
    pub autonomy: Autonomy,
    pub limits: Limits,
    pub budget: Budget,
    pub retry: RetryPolicy,
    pub compaction: Compaction,
    pub git: Git,
    /// Ignored paths that a fresh worktree gets from the checkout.
    pub copy: Vec<String>,
    /// Are runs to be kept in NATS? Nothing does that yet.
    pub nats: bool,
    /// Commands that prepare a fresh workspace.
    pub setup: Vec<String>,
    /// With whom a run shares where it works.
    pub isolation: Isolation,
    pub retention: Retention,
    pub checkpoint_interval_ms: u64,
    pub model: Option<String>,
    /// Whose default model is used when no model is named.
    pub provider: Option<String>,
    pub providers: BTreeMap<String, ProviderConfig>,
    pub mcp_servers: BTreeMap<String, ServerConfig>,
    pub hooks: HooksConfig,
    /// The search provider; without one the tool `search` is not offered.
    pub search: Option<SearchConfig>,
    pub notify: NotifyConfig,
    pub agent_dirs: AgentDirs,
    pub rules: WrittenRules,
    pub permissions: Permissions,
    /// What the project's file says that may do harm, trusted or not.
    pub items: Vec<Item>,
    /// Were these items left out for want of trust?
    pub untrusted: bool,
    /// Every key with its value and where it came from, for `config show`.
    pub origins: BTreeMap<String, (Value, Source)>,
}

/// What the agent's commands may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permissions {
    pub sandbox: Mode,
    pub network: Network,
}

/// What is kept of runs that have ended, and how much room all of them may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Does a run that completed leave no workspace behind?
    pub cleanup_on_complete: bool,
    /// How long the workspace of a run that has ended is kept from `workspace cleanup`.
    pub cleanup_after: Duration,
    /// Bytes of all workspaces.
    pub workspaces_max: Option<u64>,
    /// Bytes of all stored files.
    pub checkpoints_max: Option<u64>,
}

/// What is done with git for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Git {
    /// Are branches named after the task and the agent?
    pub auto_branch: bool,
    pub branch_prefix: String,
    pub auto_commit: bool,
    /// The branch that runs begin at, and that parallel work is merged into; what is checked out, if none is named.
    pub working_branch: Option<String>,
    /// How runs of one session work together, unless it is said for one of them.
    pub collaboration: Way,
    /// Whether the agents that a run sends have a branch each.
    pub workflow_branch_strategy: Strategy,
}

impl Settings {
    /// Reads every source that is there. `project` is the directory whose `longhaul.yaml` counts; what it says that may
    /// do harm counts only with `trust`.
    pub fn load(
        project: &Path,
        environment: &BTreeMap<String, String>,
        trust: &Trust,
    ) -> Result<Settings, Failure> {
        let mut layers = vec![(Source::Default, "the defaults".to_owned(), defaults())];
        if let Some(path) = user_file(environment) {
            layers.extend(read_layer(Source::User, &path)?);
        }
        let users = layers.last().map_or(Value::Null, |(_, _, layer)| layer.clone());
        let mut of_project = read_layer(Source::Project, &project.join("longhaul.yaml"))?;
        let items = of_project.as_ref().map_or(Vec::new(), |(_, _, layer)| trust::items(layer, &users));
        let untrusted = !trust.covers(&items);
        if let (true, Some((_, _, layer))) = (untrusted, &mut of_project) {
            trust::take_out(layer, &items);
        }
        layers.extend(of_project);
        layers.push((Source::Environment, "the environment".to_owned(), from_environment(environment)));
        let mut settings = Settings { items, untrusted, ..resolve(project, layers)? };
        if let Some(dir) = user_dir(environment) {
            let mut places = settings.agent_dirs.roster.places().to_vec();
            places.push(Place { origin: Origin::User, dir: dir.join("agents"), within: None });
            settings.agent_dirs.roster = Roster::new(places);
        }
        Ok(settings)
    }
}

/// `longhaul.yaml` with every default written out, for `init`.
pub fn template() -> &'static str {
    include_str!("../template.yaml")
}

fn resolve(project: &Path, layers: Vec<Layer>) -> Result<Settings, Failure> {
    let mut origins: BTreeMap<String, (Value, Source)> = BTreeMap::new();
    let mut places: BTreeMap<String, String> = BTreeMap::new();
    let mut providers: BTreeMap<String, ProviderConfig> = BTreeMap::new();
    let mut rules = WrittenRules::new();
    let mut mcp_servers: BTreeMap<String, ServerConfig> = BTreeMap::new();
    let mut hooks = HooksConfig::default();
    let mut search = None;
    let mut notify = NotifyConfig::default();
    for (source, place, mut layer) in layers {
        if let Some(configured) = layer.as_object_mut().and_then(|layer| layer.remove("providers")) {
            add_providers(&configured, source, &place, &mut providers, &mut origins)?;
        }
        if let Some(Value::Object(section)) = layer.get_mut("permissions") {
            rules.add(taken_rules(section)?, source, &place)?;
        }
        if let Some(mut configured) = layer.as_object_mut().and_then(|layer| layer.remove("mcp")) {
            add_servers(configured["servers"].take(), source, &place, &mut mcp_servers, &mut origins)?;
        }
        if let Some(configured) = layer.as_object_mut().and_then(|layer| layer.remove("hooks")) {
            add_hooks(configured, source, &place, &mut hooks, &mut origins)?;
        }
        if let Some(configured) = layer.as_object_mut().and_then(|layer| layer.remove("search")) {
            search = Some(search_provider(configured, source, &place, &mut origins)?);
        }
        if let Some(configured) = layer.as_object_mut().and_then(|layer| layer.remove("notify")) {
            notify = add_notify(notify, configured, source, &place, &mut origins)?;
        }
        if let Some(asks) = layer["git"]["require_approval"].as_bool().filter(|_| source != Source::Default) {
            rules.add(branch::push_rule(asks), source, &place)?;
        }
        let mut leaves = Vec::new();
        flatten("", &layer, &mut leaves);
        if source == Source::Project {
            refuse_loosening(&place, &leaves, &origins)?;
        }
        for (key, value) in leaves {
            if source == Source::Default || !value.is_null() {
                places.insert(key.clone(), place.clone());
                origins.insert(key, (value, source));
            }
        }
    }
    let read = Reading { origins: &origins, places: &places };
    read.duration("nats.ttl")?;
    read.workspaces("workspace.path")?;
    Ok(Settings {
        enabled: read.value("harness.enabled")?,
        autonomy: read.autonomy()?,
        limits: Limits {
            max_tool_calls: read.value("harness.limits.max_tool_calls")?,
            max_steps: read.value("harness.limits.max_steps")?,
            max_tokens: read.value("harness.limits.max_tokens")?,
            max_cost: read.money("harness.limits.max_cost")?,
            max_sub_agent_depth: read.value("harness.limits.max_sub_agent_depth")?,
            timeout_ms: read.duration("harness.limits.timeout")?,
            policies: read.policies()?,
            max_iteration_steps: read.value("harness.limits.max_iteration_steps")?,
            max_iteration_tokens: read.value("harness.limits.max_iteration_tokens")?,
            max_iteration_cost: read.money("harness.limits.max_iteration_cost")?,
            max_child_idle_ms: read.duration("harness.limits.max_child_idle")?,
        },
        budget: Budget { day: read.allowance("day")?, repo: read.allowance("repo")? },
        compaction: Compaction {
            enabled: read.value("compaction.enabled")?,
            threshold: read.percent("compaction.threshold")?,
            protect_tokens: read.value("compaction.protect_tokens")?,
            summarizer: read.value("compaction.summarizer")?,
        },
        git: Git {
            auto_branch: read.value("git.auto_branch")?,
            branch_prefix: read.branch("git.branch_prefix")?.unwrap_or_default(),
            auto_commit: read.value("git.auto_commit")?,
            working_branch: read.branch("git.working_branch")?,
            collaboration: read.parsed("git.collaboration")?,
            workflow_branch_strategy: read.parsed("git.workflow_branch_strategy")?,
        },
        nats: read.value("nats.enabled")?,
        copy: read.paths("workspace.copy")?,
        setup: read.commands("workspace.setup")?,
        isolation: read.parsed("workspace.isolation_mode")?,
        retention: Retention {
            cleanup_on_complete: read.value("workspace.cleanup_on_complete")?,
            cleanup_after: Duration::from_millis(
                read.duration("workspace.cleanup_after")?.unwrap_or_default(),
            ),
            workspaces_max: read.bytes("workspace.quota")?,
            checkpoints_max: read.bytes("checkpoints.quota")?,
        },
        retry: RetryPolicy {
            max_retries: read.at_most("harness.retries.max_retries", u64::from(RETRIES_MAX))? as u32,
            base_backoff_ms: read.at_most("harness.retries.base_backoff_ms", BACKOFF_BASE_MS_MAX)?,
            timeout_ms: read.value("harness.retries.timeout_ms")?,
        },
        checkpoint_interval_ms: read.value("harness.checkpoint_interval_ms")?,
        model: read.value("models.default")?,
        provider: read.value("models.provider")?,
        providers,
        permissions: Permissions {
            sandbox: read.parsed("permissions.sandbox")?,
            network: read.value("permissions.network")?,
        },
        mcp_servers,
        hooks,
        search,
        notify,
        items: Vec::new(),
        untrusted: false,
        agent_dirs: AgentDirs { roster: read.roster(project)?, most: read.most()? },
        rules,
        origins,
    })
}
