//! `longhaul.yaml` as it is written: which keys there are.

use std::collections::BTreeMap;

use longhaul_core::permission::Rules;
use longhaul_engine::notify::NotifyConfig;
use longhaul_model::ProviderConfig;
use longhaul_tools::hooks::HooksConfig;
use longhaul_tools::mcp::ServerConfig;
use longhaul_tools::research::SearchConfig;
use longhaul_tools::sandbox::{Mode, Network};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// `longhaul.yaml`. Every field is optional; an unknown one is an error with its line.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct File {
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
pub(super) enum OneOrMore {
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
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "finite")]
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
    pub(super) fn at_the_top(mut self, place: &str) -> Result<File, Failure> {
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
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "finite")]
    max_cost: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_sub_agent_depth: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_iteration_steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_iteration_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "finite")]
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
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "finite")]
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

/// A number with an end: `.nan` and `.inf` are laid down as nothing, and a limit of nothing is none.
fn finite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(number) if !number.is_finite() => {
            Err(D::Error::custom(format!("a number is expected, not `{number}`")))
        }
        number => Ok(number),
    }
}
