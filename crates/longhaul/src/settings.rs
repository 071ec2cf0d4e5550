//! Layered settings: each source may set some keys, a later source wins, and every value knows where it came from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longhaul_agents::{Origin, Place, Roster};
use longhaul_core::budget::{Allowance, Budget};
use longhaul_core::collaboration::{Isolation, Strategy, Way};
use longhaul_core::conduct::Compaction;
use longhaul_core::limits::{BACKOFF_BASE_MS_MAX, RETRIES_MAX};
use longhaul_core::money::Usd;
use longhaul_core::permission::{self, Rules};
use longhaul_core::policy::{BadPolicy, Policies};
use longhaul_core::spec::{Autonomy, Limits};
use longhaul_core::tool::RetryPolicy;
use longhaul_engine::notify::NotifyConfig;
use longhaul_model::ProviderConfig;
use longhaul_tools::hooks::HooksConfig;
use longhaul_tools::mcp::ServerConfig;
use longhaul_tools::research::SearchConfig;
use longhaul_tools::sandbox::{Mode, Network};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::agents::{AgentDirs, Most};
use crate::branch;
use crate::duration;
use crate::failure::Failure;
use crate::limits::FILE_BYTES_MAX;
use crate::misread;
use crate::rules::WrittenRules;
use crate::size;
use crate::trust::{self, Item, Trust};

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

/// `longhaul.yaml`. Every field is optional; an unknown one is an error with its line.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    #[serde(skip_serializing_if = "Option::is_none")]
    models: Option<Models>,
    #[serde(skip_serializing_if = "Option::is_none")]
    providers: Option<BTreeMap<String, ProviderConfig>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp: Option<Mcp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hooks: Option<HooksConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<SearchConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    notify: Option<NotifyConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agents: Option<Agents>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<PermissionsSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    harness: Option<HarnessSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compaction: Option<CompactionSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git: Option<GitSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<WorkspaceSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoints: Option<CheckpointsSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nats: Option<NatsSection>,
}

/// Where runs will be kept that spread over many machines. Read and shown; nothing uses it yet.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct NatsSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kv_bucket: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_bucket: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_file_size: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<String>,
}

/// How much room the stored files may take.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct CheckpointsSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<String>,
}

/// What a fresh worktree needs, and how long it is kept.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct WorkspaceSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<Vec<String>>,
    /// One command or several.
    #[serde(skip_serializing_if = "Option::is_none")]
    setup: Option<OneOrMore>,
    /// Where workspaces are, below the state directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// `sandbox` or `host`: another word for `permissions.sandbox`.
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation_mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cleanup_on_complete: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cleanup_after: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quota: Option<String>,
}

/// A list, or what would be its only item.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct GitSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_branch: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch_prefix: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auto_commit: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    require_approval: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_branch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    collaboration: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    workflow_branch_strategy: Option<String>,
}

/// When a conversation is made shorter.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct CompactionSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    /// Part of the window, 0.85.
    #[serde(skip_serializing_if = "Option::is_none")]
    threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protect_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summarizer: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
struct PermissionsSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<Network>,
    /// Rules by tool.
    #[serde(flatten)]
    rules: BTreeMap<String, Rules>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Models {
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Mcp {
    #[serde(skip_serializing_if = "Option::is_none")]
    servers: Option<BTreeMap<String, ServerConfig>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct Agents {
    #[serde(skip_serializing_if = "Option::is_none")]
    dirs: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct HarnessSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    autonomy: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    checkpoint_interval_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limits: Option<LimitsSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    budget: Option<BudgetSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries: Option<RetriesSection>,
    /// These may stand here or at the top; see [`File::at_the_top`].
    #[serde(skip_serializing_if = "Option::is_none")]
    workspace: Option<WorkspaceSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compaction: Option<CompactionSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    git: Option<GitSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nats: Option<NatsSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<PermissionsSection>,
}

impl File {
    /// The same with the sections that stand within `harness` where they are looked for. Done before anything is judged, so that a
    /// section is held to the same rules wherever it stands.
    fn at_the_top(mut self, place: &str) -> Result<File, Failure> {
        let Some(harness) = &mut self.harness else { return self.hold_as_workspace_says(place) };
        let twice = [
            ("workspace", self.workspace.is_some() && harness.workspace.is_some()),
            ("compaction", self.compaction.is_some() && harness.compaction.is_some()),
            ("git", self.git.is_some() && harness.git.is_some()),
            ("nats", self.nats.is_some() && harness.nats.is_some()),
            ("permissions", self.permissions.is_some() && harness.permissions.is_some()),
        ];
        if let Some((name, _)) = twice.iter().find(|(_, is_twice)| *is_twice) {
            return Err(Failure::usage(format!("{place}: {name} stands twice, once within harness")));
        }
        self.workspace = self.workspace.or(harness.workspace.take());
        self.compaction = self.compaction.or(harness.compaction.take());
        self.git = self.git.or(harness.git.take());
        self.nats = self.nats.or(harness.nats.take());
        self.permissions = self.permissions.or(harness.permissions.take());
        self.hold_as_workspace_says(place)
    }

    fn hold_as_workspace_says(mut self, place: &str) -> Result<File, Failure> {
        let Some(mode) = self.workspace.as_ref().and_then(|workspace| workspace.mode.as_deref()) else {
            return Ok(self);
        };
        let sandbox = match mode {
            "sandbox" => Mode::Required,
            "host" => Mode::Off,
            other => {
                let why = format!("workspace.mode in {place}: it is sandbox or host, not {other:?}");
                return Err(Failure::usage(why));
            }
        };
        let permissions = self.permissions.get_or_insert_default();
        permissions.sandbox.get_or_insert_with(|| sandbox.as_str().to_owned());
        Ok(self)
    }
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tool_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_sub_agent_depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_iteration_steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_iteration_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_iteration_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_child_idle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policies: Option<BTreeMap<String, String>>,
}

/// What all runs of a state directory may use together.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct BudgetSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    day: Option<AllowanceSection>,
    #[serde(skip_serializing_if = "Option::is_none")]
    repo: Option<AllowanceSection>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct AllowanceSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
struct RetriesSection {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    base_backoff_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
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
    include_str!("template.yaml")
}

fn defaults() -> Value {
    let (limits, retry) = (Limits::default(), RetryPolicy::default());
    let compaction = Compaction::default();
    json!({
        "models": { "default": null, "provider": null },
        "agents": { "dirs": ["agents"] },
        "permissions": { "sandbox": Mode::default().as_str(), "network": "none" },
        "harness": {
            "enabled": true,
            "autonomy": Autonomy::default().level(),
            "checkpoint_interval_ms": 300_000,
            "limits": {
                "max_tool_calls": limits.max_tool_calls,
                "max_steps": limits.max_steps,
                "max_tokens": null,
                "max_cost": null,
                "timeout": null,
                "max_sub_agent_depth": limits.max_sub_agent_depth,
                "max_iteration_steps": null,
                "max_iteration_tokens": null,
                "max_iteration_cost": null,
                "max_child_idle": null,
            },
            "budget": {
                "day": { "max_cost": null, "max_tokens": null },
                "repo": { "max_cost": null, "max_tokens": null },
            },
            "retries": {
                "max_retries": retry.max_retries,
                "base_backoff_ms": retry.base_backoff_ms,
                "timeout_ms": retry.timeout_ms,
            },
        },
        "git": {
            "auto_branch": true,
            "branch_prefix": "agent/",
            "auto_commit": true,
            "require_approval": true,
            "working_branch": null,
            "collaboration": "sequential",
            "workflow_branch_strategy": "shared",
        },
        "workspace": {
            "path": WORKSPACES,
            "mode": "sandbox",
            "copy": [],
            "setup": [],
            "isolation_mode": "per_workflow",
            "cleanup_on_complete": false,
            "cleanup_after": "24h",
            "quota": null,
        },
        "checkpoints": { "quota": null },
        "nats": {
            "enabled": false,
            "kv_bucket": "harness-state",
            "object_bucket": "harness-files",
            "max_file_size": "100MB",
            "ttl": "24h",
        },
        "compaction": {
            "enabled": compaction.enabled,
            "threshold": f64::from(compaction.threshold) / 100.0,
            "protect_tokens": compaction.protect_tokens,
            "summarizer": null,
        },
    })
}

/// Below the state directory.
const WORKSPACES: &str = "./workspace";

fn user_file(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    Some(user_dir(environment)?.join("longhaul.yaml"))
}

/// Where the user's own settings are.
pub fn user_dir(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
    let config =
        environment.get("XDG_CONFIG_HOME").filter(|path| !path.is_empty()).map(PathBuf::from).or_else(|| {
            environment
                .get("HOME")
                .filter(|home| !home.is_empty())
                .map(|home| Path::new(home).join(".config"))
        });
    config.map(|config| config.join("longhaul"))
}

type Layer = (Source, String, Value);

fn read_layer(source: Source, path: &Path) -> Result<Option<Layer>, Failure> {
    let shown = path.display().to_string();
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::usage(format!("cannot read {shown}: {error}"))),
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            return Err(Failure::usage(format!("{shown} is larger than {FILE_BYTES_MAX} bytes")));
        }
        Ok(_) => {}
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::usage(format!("cannot read {shown}: {error}")))?;
    let says_nothing = text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
    if says_nothing {
        return Ok(None);
    }
    let file: File = misread::yaml(&shown, &text).map_err(|failure| {
        failure.hint("`longhaul init` in an empty directory writes such a file with every field")
    })?;
    let file = file.at_the_top(&shown)?;
    Ok(Some((source, shown, json!(file))))
}

/// The keys that can be set as `LONGHAUL_…`, in the words of the file.
fn from_environment(environment: &BTreeMap<String, String>) -> Value {
    let number = |name: &str| {
        environment
            .get(name)
            .filter(|text| !text.is_empty())
            .map(|text| text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number)))
    };
    let mut harness = Map::new();
    harness.extend(number("LONGHAUL_AUTONOMY").map(|level| ("autonomy".to_owned(), level)));
    if let Some(enabled) = environment.get("LONGHAUL_ENABLED").filter(|text| !text.is_empty()) {
        let value = enabled.parse::<bool>().map_or_else(|_| json!(enabled), |enabled| json!(enabled));
        harness.insert("enabled".to_owned(), value);
    }
    let mut limits = Map::new();
    for key in ["max_tool_calls", "max_steps", "max_tokens"] {
        limits
            .extend(number(&format!("LONGHAUL_{}", key.to_uppercase())).map(|value| (key.to_owned(), value)));
    }
    harness.insert("limits".to_owned(), Value::Object(limits));
    let mut root = Map::new();
    root.insert("harness".to_owned(), Value::Object(harness));
    let text = |name: &str| environment.get(name).filter(|text| !text.is_empty());
    let models = [("default", "LONGHAUL_MODEL"), ("provider", "LONGHAUL_AGENT_PROVIDER")]
        .into_iter()
        .filter_map(|(key, variable)| Some((key.to_owned(), json!(text(variable)?))));
    root.insert("models".to_owned(), Value::Object(models.collect()));
    let permissions = [("sandbox", "LONGHAUL_SANDBOX"), ("network", "LONGHAUL_NETWORK")]
        .into_iter()
        .filter_map(|(key, variable)| Some((key.to_owned(), json!(text(variable)?))));
    root.insert("permissions".to_owned(), Value::Object(permissions.collect()));
    Value::Object(root)
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

/// A project's file comes with the project, and an agent may have written it: it may hold commands tighter than the user
/// does, never looser.
fn refuse_loosening(
    place: &str,
    leaves: &[(String, Value)],
    origins: &BTreeMap<String, (Value, Source)>,
) -> Result<(), Failure> {
    // What cannot be read is refused later, with its place.
    let mode = |value: &Value| value.as_str()?.parse::<Mode>().ok();
    let network = |value: &Value| serde_json::from_value::<Network>(value.clone()).ok();
    for key in ["permissions.sandbox", "permissions.network"] {
        let asked =
            leaves.iter().find(|(name, value)| name == key && !value.is_null()).map(|(_, value)| value);
        let (Some(asked), Some((given, _))) = (asked, origins.get(key)) else { continue };
        let loosened = mode(asked).zip(mode(given)).is_some_and(|(asked, given)| asked < given)
            || network(asked).zip(network(given)).is_some_and(|(asked, given)| !asked.is_within(&given));
        if loosened {
            let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let (asked, given) = (plain(asked), plain(given));
            return Err(Failure::usage(format!(
                "{key} in {place}: a project's settings may not loosen `{given}` to `{asked}`"
            ))
            .hint("set it in ~/.config/longhaul/longhaul.yaml, with LONGHAUL_SANDBOX or LONGHAUL_NETWORK, or on the command line"));
        }
    }
    for (key, asked) in leaves.iter().filter(|(key, _)| UNRAISED.contains(&key.as_str())) {
        // What the user did not set is the project's to choose.
        let Some((given, Source::User)) = origins.get(key) else { continue };
        if asked.as_f64().zip(given.as_f64()).is_some_and(|(asked, given)| asked > given) {
            return Err(Failure::usage(format!(
                "{key} in {place}: a project's settings may not raise your own {given} to {asked}"
            ))
            .hint("raise it in ~/.config/longhaul/longhaul.yaml, or on the command line for one run"));
        }
    }
    let warns = leaves.iter().any(|(key, value)| key == UNWARNED && value == "warn");
    if warns && matches!(origins.get(UNRAISED[1]), Some((_, Source::User))) {
        return Err(Failure::usage(format!(
            "{UNWARNED} in {place}: a project's settings may not make your own limit on cost a mere warning"
        ))
        .hint("choose it in ~/.config/longhaul/longhaul.yaml, or with --limit-policy for one run"));
    }
    Ok(())
}

/// What a project may lower and not raise, once the user has set it.
const UNRAISED: [&str; 6] = [
    "harness.autonomy",
    "harness.limits.max_cost",
    "harness.budget.day.max_cost",
    "harness.budget.day.max_tokens",
    "harness.budget.repo.max_cost",
    "harness.budget.repo.max_tokens",
];

/// A limit that only warns is none.
const UNWARNED: &str = "harness.limits.policies.max_cost";

/// Lays a source's providers over those of the sources before it, field by field.
fn add_providers(
    configured: &Value,
    source: Source,
    place: &str,
    providers: &mut BTreeMap<String, ProviderConfig>,
    origins: &mut BTreeMap<String, (Value, Source)>,
) -> Result<(), Failure> {
    let configured: BTreeMap<String, ProviderConfig> = serde_json::from_value(configured.clone())
        .map_err(|error| Failure::usage(format!("providers in {place}: {error}")))?;
    for (name, config) in configured {
        let plain = !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.'));
        if !plain {
            return Err(Failure::usage(format!(
                "providers.{name} in {place}: a name has letters, digits, `-`, `_` and `.` only"
            )));
        }
        let merged = providers.remove(&name).unwrap_or_default().under(config);
        origins.insert(format!("providers.{name}"), (shown(&merged), source));
        providers.insert(name, merged);
    }
    Ok(())
}

/// A source's servers take the place of those of the same name. They are not laid over them: the headers of one would go
/// to the address of the other.
fn add_servers(
    configured: Value,
    source: Source,
    place: &str,
    servers: &mut BTreeMap<String, ServerConfig>,
    origins: &mut BTreeMap<String, (Value, Source)>,
) -> Result<(), Failure> {
    let configured: Option<BTreeMap<String, ServerConfig>> = serde_json::from_value(configured)
        .map_err(|error| Failure::usage(format!("mcp.servers in {place}: {error}")))?;
    for (name, config) in configured.unwrap_or_default() {
        config.check(&name).map_err(|error| Failure::usage(format!("{error}, in {place}")))?;
        origins.insert(format!("mcp.servers.{name}"), (shown(&config), source));
        servers.insert(name, config);
    }
    Ok(())
}

/// Takes the rules out of a file's `permissions`, which leaves what is no rule.
fn taken_rules(section: &mut Map<String, Value>) -> Result<permission::Permissions, Failure> {
    let written = std::mem::take(section);
    let (plain, rules) =
        written.into_iter().partition(|(key, _)| matches!(key.as_str(), "sandbox" | "network"));
    *section = plain;
    let read = serde_json::from_value(Value::Object(rules));
    read.map_err(|error| Failure::usage(format!("permissions: {error}")))
}

/// A source's hooks are added to those of the sources before it: what one of them guards another cannot open.
fn add_hooks(
    configured: Value,
    source: Source,
    place: &str,
    hooks: &mut HooksConfig,
    origins: &mut BTreeMap<String, (Value, Source)>,
) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{error}, in {place}"));
    let configured: HooksConfig = serde_json::from_value(configured).map_err(|error| wrong(&error))?;
    configured.check().map_err(|error| wrong(&error))?;
    hooks.add(configured);
    let lists = [("before_tool", &hooks.before_tool), ("after_tool", &hooks.after_tool)];
    for (when, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        origins.insert(format!("hooks.{when}"), (json!(list), source));
    }
    Ok(())
}

/// A source's search provider takes the place of that of the sources before it, whole.
fn search_provider(
    configured: Value,
    source: Source,
    place: &str,
    origins: &mut BTreeMap<String, (Value, Source)>,
) -> Result<SearchConfig, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{error}, in {place}"));
    let configured: SearchConfig = serde_json::from_value(configured).map_err(|error| wrong(&error))?;
    configured.check().map_err(|error| wrong(&error))?;
    origins.insert("search".to_owned(), (json!(configured), source));
    Ok(configured)
}

/// Who is told, and of what: a source's ways take the place of those of the sources before it, each whole.
fn add_notify(
    before: NotifyConfig,
    configured: Value,
    source: Source,
    place: &str,
    origins: &mut BTreeMap<String, (Value, Source)>,
) -> Result<NotifyConfig, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{error}, in {place}"));
    for (key, value) in configured.as_object().into_iter().flatten() {
        origins.insert(format!("notify.{key}"), (value.clone(), source));
    }
    let configured: NotifyConfig = serde_json::from_value(configured).map_err(|error| wrong(&error))?;
    configured.check().map_err(|error| wrong(&error))?;
    Ok(before.under(configured))
}

/// A provider or a server as it may be shown: the values of headers and variables may be keys.
fn shown<T: Serialize>(config: &T) -> Value {
    let mut shown = json!(config);
    for field in ["headers", "env"] {
        if let Some(values) = shown.get_mut(field).and_then(Value::as_object_mut) {
            values.values_mut().for_each(|value| *value = json!("…"));
        }
    }
    shown
}

struct Reading<'a> {
    origins: &'a BTreeMap<String, (Value, Source)>,
    places: &'a BTreeMap<String, String>,
}

impl Reading<'_> {
    fn value<T: for<'de> Deserialize<'de>>(&self, key: &str) -> Result<T, Failure> {
        let value = self.origins.get(key).map_or(Value::Null, |(value, _)| value.clone());
        serde_json::from_value(value).map_err(|error| self.wrong(key, &error.to_string()))
    }

    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(&self, key: &str) -> Result<T, Failure> {
        self.value::<String>(key)?.parse().map_err(|error: T::Err| self.wrong(key, &error.to_string()))
    }

    fn at_most(&self, key: &str, max: u64) -> Result<u64, Failure> {
        let value: u64 = self.value(key)?;
        if value > max {
            return Err(self.wrong(key, &format!("{value} is more than {max}")));
        }
        Ok(value)
    }

    fn autonomy(&self) -> Result<Autonomy, Failure> {
        let level: u64 = self.value("harness.autonomy")?;
        u8::try_from(level)
            .ok()
            .and_then(Autonomy::new)
            .ok_or_else(|| self.wrong("harness.autonomy", &format!("autonomy is 1 to 5, not {level}")))
    }

    /// A part of one, as percent.
    fn percent(&self, key: &str) -> Result<u32, Failure> {
        let part: f64 = self.value(key)?;
        if !(0.1..=0.95).contains(&part) {
            return Err(self.wrong(key, &format!("{part} is not a part of the window from 0.1 to 0.95")));
        }
        Ok((part * 100.0).round() as u32)
    }

    fn policies(&self) -> Result<Option<Policies>, Failure> {
        let prefix = "harness.limits.policies.";
        let mut policies = Policies::default();
        for key in self.origins.keys().filter(|key| key.starts_with(prefix)) {
            let wrong = |error: BadPolicy| self.wrong(key, &error.to_string());
            let limit = key[prefix.len()..].parse().map_err(wrong)?;
            policies = policies.with(limit, self.parsed(key)?).map_err(wrong)?;
        }
        Ok((policies != Policies::default()).then_some(policies))
    }

    fn allowance(&self, scope: &str) -> Result<Allowance, Failure> {
        let max_cost = self.money(&format!("harness.budget.{scope}.max_cost"))?;
        let max_tokens = self.value(&format!("harness.budget.{scope}.max_tokens"))?;
        Ok(Allowance { max_cost, max_tokens })
    }

    fn duration(&self, key: &str) -> Result<Option<u64>, Failure> {
        let text: Option<String> = self.value(key)?;
        let ms = |text: String| duration::parse(&text).map(|time| time.as_millis() as u64);
        text.map(ms).transpose().map_err(|why| self.wrong(key, &why))
    }

    fn bytes(&self, key: &str) -> Result<Option<u64>, Failure> {
        let text: Option<String> = self.value(key)?;
        text.map(|text| size::parse(&text)).transpose().map_err(|why| self.wrong(key, &why))
    }

    /// The name of a branch, or the beginning of one; what would lead git astray is refused here, with its place.
    fn branch(&self, key: &str) -> Result<Option<String>, Failure> {
        let name: Option<String> = self.value(key)?;
        match name.filter(|name| !name.is_empty()) {
            Some(name) if !branch::is_plain(&name) => {
                Err(self.wrong(key, &format!("{name:?} cannot be part of a branch's name")))
            }
            name => Ok(name),
        }
    }

    /// Paths below a checkout.
    fn paths(&self, key: &str) -> Result<Vec<String>, Failure> {
        let paths: Vec<String> = self.value(key)?;
        match paths.iter().find(|path| !longhaul_workspace::carry::is_within(Path::new(path))) {
            Some(path) => Err(self.wrong(key, &format!("{path:?} is no path below a checkout"))),
            None => Ok(paths),
        }
    }

    /// Where workspaces are is where the state is.
    fn workspaces(&self, key: &str) -> Result<(), Failure> {
        let path: String = self.value(key)?;
        match path.trim_start_matches("./").trim_end_matches('/') {
            "workspace" => Ok(()),
            _ => Err(self
                .wrong(key, &format!("workspaces are in `workspace` of the state directory, not in {path:?}"))
                .hint("--state-dir and LONGHAUL_STATE_DIR move both")),
        }
    }

    /// One command, or a list of them.
    fn commands(&self, key: &str) -> Result<Vec<String>, Failure> {
        let written: OneOrMore = self.value(key)?;
        let commands = match written {
            OneOrMore::One(command) => vec![command],
            OneOrMore::More(commands) => commands,
        };
        match commands.iter().any(|command| command.trim().is_empty()) {
            true => Err(self.wrong(key, "a command is empty")),
            false => Ok(commands),
        }
    }

    fn money(&self, key: &str) -> Result<Option<Usd>, Failure> {
        let dollars: Option<f64> = self.value(key)?;
        dollars
            .map(|dollars| {
                Usd::from_dollars(dollars).ok_or_else(|| self.wrong(key, "not an amount of dollars"))
            })
            .transpose()
    }

    /// The project's directories of agents.
    fn roster(&self, project: &Path) -> Result<Roster, Failure> {
        let dirs = self.value::<Vec<String>>("agents.dirs")?;
        let place = |dir: &String| {
            let dir = project.join(dir);
            // What is said to be elsewhere is meant to be; a link in the repository is not.
            let climbs = dir.components().any(|part| part == std::path::Component::ParentDir);
            let within = if dir.starts_with(project) && !climbs { project.to_owned() } else { dir.clone() };
            Place { origin: Origin::Project, dir, within: Some(within) }
        };
        Ok(Roster::new(dirs.iter().map(place).collect()))
    }

    /// What the user has set, and what a project's agents may not raise.
    fn most(&self) -> Result<Most, Failure> {
        let is_own = |key: &str| self.origins.get(key).is_some_and(|(_, source)| *source != Source::Default);
        let autonomy = is_own(UNRAISED[0]).then(|| self.autonomy()).transpose()?;
        let max_cost = if is_own(UNRAISED[1]) { self.money(UNRAISED[1])? } else { None };
        Ok(Most { autonomy, max_cost })
    }

    fn wrong(&self, key: &str, why: &str) -> Failure {
        let place = self.places.get(key).map_or("", String::as_str);
        Failure::usage(format!("{key} in {place}: {why}"))
    }
}

fn flatten(prefix: &str, value: &Value, leaves: &mut Vec<(String, Value)>) {
    let Value::Object(fields) = value else { return leaves.push((prefix.to_owned(), value.clone())) };
    for (name, value) in fields {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        flatten(&key, value, leaves);
    }
}
