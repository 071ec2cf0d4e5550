//! What an agent is, as its file says it.

use std::path::PathBuf;

use longhaul_core::money::Usd;
use longhaul_core::permission::Permissions;
use longhaul_core::policy::Policies;
use longhaul_core::spec::Autonomy;
use serde::{Deserialize, Serialize};

use crate::matter::Lines;

/// An agent as a run is created with it. What its file does not say is for the settings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    pub name: String,
    pub origin: Origin,
    /// The file it was read from; `None` for what is built in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// What it is for, in a word or two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The models to work with, in order of preference; empty if the file names none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// `None`: all tools there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Which engine it asks for.
    #[serde(rename = "harness", skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    #[serde(skip_serializing_if = "HarnessConfig::is_empty")]
    pub harness_config: HarnessConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autonomy: Option<Autonomy>,
    #[serde(skip_serializing_if = "AgentLimits::is_empty")]
    pub limits: AgentLimits,
    /// Commands that must succeed before its word that it is done counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Vec<String>>,
    /// Patterns of paths it is not meant to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect_policy: Option<ProtectPolicy>,
    /// Rules that its calls must pass besides all others: they can only tighten.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<Permissions>,
    /// The only MCP servers whose tools it gets, of those that are configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mcp: Option<Vec<String>>,
    /// The model that summarizes for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summarizer: Option<String>,
    /// The model that judges its work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<String>,
    /// What must be true of its work, for that model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Compaction::is_empty")]
    pub compaction: Compaction,
    /// The system prompt.
    pub prompt: String,
    /// Where its fields stand, for complaints.
    #[serde(skip)]
    pub(crate) lines: Lines,
}

/// Whose word an agent is. The order is the precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Nobody's: the name has no file, and gets what the built-in coder has.
    Default,
    BuiltIn,
    User,
    /// It came with the repository.
    Project,
}

impl Origin {
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::BuiltIn => "built-in",
            Origin::User => "user",
            Origin::Project => "project",
        }
    }
}

/// The engine that runs an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Engine {
    /// The loop of turns and calls, with all that watches over it.
    #[serde(rename = "agentic")]
    Agentic,
    /// Plain execution.
    #[serde(rename = "")]
    Plain,
}

impl Engine {
    pub fn as_str(self) -> &'static str {
        match self {
            Engine::Agentic => "agentic",
            Engine::Plain => "",
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HarnessConfig {
    /// Turns of the model over the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u32>,
    /// The same call how often in a row is a loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doom_loop_threshold: Option<u32>,
    /// How long the run may work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

impl HarnessConfig {
    fn is_empty(&self) -> bool {
        *self == HarnessConfig::default()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentLimits {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cost: Option<Usd>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iteration_steps: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iteration_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_iteration_cost: Option<Usd>,
    /// What reaching a limit leads to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policies: Option<Policies>,
}

impl AgentLimits {
    fn is_empty(&self) -> bool {
        *self == AgentLimits::default()
    }
}

/// What becomes of a change to a protected path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProtectPolicy {
    Report,
    Refuse,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Compaction {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// The share of the context window that is used before it is made shorter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    /// Tokens at the end that stay as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protect_tokens: Option<u64>,
}

impl Compaction {
    fn is_empty(&self) -> bool {
        *self == Compaction::default()
    }
}
