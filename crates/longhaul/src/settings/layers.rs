//! The sources of settings, each as a tree of values: defaults, files, the environment.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use longhaul_core::conduct::Compaction;
use longhaul_core::spec::{Autonomy, Limits};
use longhaul_core::tool::RetryPolicy;
use longhaul_tools::sandbox::Mode;
use serde_json::{Map, Value, json};

use super::Source;
use super::file::File;
use crate::failure::Failure;
use crate::limits::FILE_BYTES_MAX;
use crate::misread;

pub(super) fn defaults() -> Value {
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
pub(super) const WORKSPACES: &str = "./workspace";

pub(super) fn user_file(environment: &BTreeMap<String, String>) -> Option<PathBuf> {
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

pub(super) type Layer = (Source, String, Value);

pub(super) fn read_layer(source: Source, path: &Path) -> Result<Option<Layer>, Failure> {
    let shown = path.display().to_string();
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::usage(format!("cannot read {shown}: {error}"))),
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            return Err(Failure::usage(format!("{shown} is larger than {FILE_BYTES_MAX} bytes")));
        }
        // One would wait for somebody to write into it.
        Ok(found) if found.file_type().is_fifo() => {
            return Err(Failure::usage(format!("{shown} is a FIFO, not a file")));
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
pub(super) fn from_environment(environment: &BTreeMap<String, String>) -> Value {
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

pub(super) fn flatten(prefix: &str, value: &Value, leaves: &mut Vec<(String, Value)>) {
    let Value::Object(fields) = value else { return leaves.push((prefix.to_owned(), value.clone())) };
    for (name, value) in fields {
        let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
        flatten(&key, value, leaves);
    }
}
