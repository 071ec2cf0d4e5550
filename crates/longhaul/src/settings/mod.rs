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
use crate::failure::Failure;
use crate::rules::{self, WrittenRules};
use crate::trust::{self, Item, Trust};

pub use self::layers::user_dir;
use self::layers::{Layer, defaults, from_environment, read_layer, user_file};
use self::laying::Laid;
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
        if let Some(rules) = rules::for_link(project) {
            settings.rules.add(rules, Source::Project, "longhaul.yaml")?;
        }
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
    let laid = Laid::of(project, layers)?;
    let read = Reading { origins: &laid.origins, places: &laid.places };
    read.duration("nats.ttl")?;
    read.workspaces("workspace.path")?;
    Ok(Settings {
        enabled: read.value("harness.enabled")?,
        autonomy: read.autonomy()?,
        limits: read.limits()?,
        budget: Budget { day: read.allowance("day")?, repo: read.allowance("repo")? },
        compaction: read.compaction()?,
        git: read.git()?,
        nats: read.value("nats.enabled")?,
        copy: read.paths("workspace.copy")?,
        setup: read.commands("workspace.setup")?,
        isolation: read.parsed("workspace.isolation_mode")?,
        retention: read.retention()?,
        retry: read.retry()?,
        checkpoint_interval_ms: read.value("harness.checkpoint_interval_ms")?,
        model: read.value("models.default")?,
        provider: read.value("models.provider")?,
        providers: laid.providers,
        permissions: Permissions {
            sandbox: read.parsed("permissions.sandbox")?,
            network: read.value("permissions.network")?,
        },
        mcp_servers: laid.mcp_servers,
        hooks: laid.hooks,
        search: laid.search,
        notify: laid.notify,
        items: Vec::new(),
        untrusted: false,
        agent_dirs: AgentDirs { roster: read.roster(project)?, most: read.most()? },
        rules: laid.rules,
        origins: laid.origins,
    })
}
