//! Values taken out of the settings, each with its own rules; a wrong one is said with its key and where it stands.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use longhaul_agents::{Origin, Place, Roster};
use longhaul_core::budget::Allowance;
use longhaul_core::conduct::Compaction;
use longhaul_core::limits::{BACKOFF_BASE_MS_MAX, RETRIES_MAX};
use longhaul_core::money::Usd;
use longhaul_core::policy::{BadPolicy, Policies};
use longhaul_core::spec::{Autonomy, Limits};
use longhaul_core::tool::RetryPolicy;
use serde::Deserialize;
use serde_json::Value;

use super::file::OneOrMore;
use super::laying::UNRAISED;
use super::{Git, Retention, Source};
use crate::agents::Most;
use crate::branch;
use crate::duration;
use crate::failure::Failure;
use crate::size;

pub(super) struct Reading<'a> {
    pub(super) origins: &'a BTreeMap<String, (Value, Source)>,
    pub(super) places: &'a BTreeMap<String, String>,
}

impl Reading<'_> {
    pub(super) fn limits(&self) -> Result<Limits, Failure> {
        Ok(Limits {
            max_tool_calls: self.value("harness.limits.max_tool_calls")?,
            max_steps: self.value("harness.limits.max_steps")?,
            max_tokens: self.value("harness.limits.max_tokens")?,
            max_cost: self.money("harness.limits.max_cost")?,
            max_sub_agent_depth: self.value("harness.limits.max_sub_agent_depth")?,
            timeout_ms: self.duration("harness.limits.timeout")?,
            policies: self.policies()?,
            max_iteration_steps: self.value("harness.limits.max_iteration_steps")?,
            max_iteration_tokens: self.value("harness.limits.max_iteration_tokens")?,
            max_iteration_cost: self.money("harness.limits.max_iteration_cost")?,
            max_child_idle_ms: self.duration("harness.limits.max_child_idle")?,
        })
    }

    pub(super) fn compaction(&self) -> Result<Compaction, Failure> {
        Ok(Compaction {
            enabled: self.value("compaction.enabled")?,
            threshold: self.percent("compaction.threshold")?,
            protect_tokens: self.value("compaction.protect_tokens")?,
            summarizer: self.value("compaction.summarizer")?,
        })
    }

    pub(super) fn git(&self) -> Result<Git, Failure> {
        Ok(Git {
            auto_branch: self.value("git.auto_branch")?,
            branch_prefix: self.branch("git.branch_prefix")?.unwrap_or_default(),
            auto_commit: self.value("git.auto_commit")?,
            working_branch: self.branch("git.working_branch")?,
            collaboration: self.parsed("git.collaboration")?,
            workflow_branch_strategy: self.parsed("git.workflow_branch_strategy")?,
        })
    }

    pub(super) fn retention(&self) -> Result<Retention, Failure> {
        Ok(Retention {
            cleanup_on_complete: self.value("workspace.cleanup_on_complete")?,
            cleanup_after: Duration::from_millis(
                self.duration("workspace.cleanup_after")?.unwrap_or_default(),
            ),
            workspaces_max: self.bytes("workspace.quota")?,
            checkpoints_max: self.bytes("checkpoints.quota")?,
        })
    }

    pub(super) fn retry(&self) -> Result<RetryPolicy, Failure> {
        Ok(RetryPolicy {
            max_retries: self.at_most("harness.retries.max_retries", u64::from(RETRIES_MAX))? as u32,
            base_backoff_ms: self.at_most("harness.retries.base_backoff_ms", BACKOFF_BASE_MS_MAX)?,
            timeout_ms: self.value("harness.retries.timeout_ms")?,
        })
    }

    pub(super) fn value<T: for<'de> Deserialize<'de>>(&self, key: &str) -> Result<T, Failure> {
        let value = self.origins.get(key).map_or(Value::Null, |(value, _)| value.clone());
        serde_json::from_value(value).map_err(|error| self.wrong(key, &error.to_string()))
    }

    pub(super) fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(
        &self,
        key: &str,
    ) -> Result<T, Failure> {
        self.value::<String>(key)?.parse().map_err(|error: T::Err| self.wrong(key, &error.to_string()))
    }

    pub(super) fn at_most(&self, key: &str, max: u64) -> Result<u64, Failure> {
        let value: u64 = self.value(key)?;
        if value > max {
            return Err(self.wrong(key, &format!("{value} is more than {max}")));
        }
        Ok(value)
    }

    pub(super) fn autonomy(&self) -> Result<Autonomy, Failure> {
        let level: u64 = self.value("harness.autonomy")?;
        u8::try_from(level)
            .ok()
            .and_then(Autonomy::new)
            .ok_or_else(|| self.wrong("harness.autonomy", &format!("autonomy is 1 to 5, not {level}")))
    }

    /// A part of one, as percent.
    pub(super) fn percent(&self, key: &str) -> Result<u32, Failure> {
        let part: f64 = self.value(key)?;
        if !(0.1..=0.95).contains(&part) {
            return Err(self.wrong(key, &format!("{part} is not a part of the window from 0.1 to 0.95")));
        }
        Ok((part * 100.0).round() as u32)
    }

    pub(super) fn policies(&self) -> Result<Option<Policies>, Failure> {
        let prefix = "harness.limits.policies.";
        let mut policies = Policies::default();
        for key in self.origins.keys().filter(|key| key.starts_with(prefix)) {
            let wrong = |error: BadPolicy| self.wrong(key, &error.to_string());
            let limit = key[prefix.len()..].parse().map_err(wrong)?;
            policies = policies.with(limit, self.parsed(key)?).map_err(wrong)?;
        }
        Ok((policies != Policies::default()).then_some(policies))
    }

    pub(super) fn allowance(&self, scope: &str) -> Result<Allowance, Failure> {
        let max_cost = self.money(&format!("harness.budget.{scope}.max_cost"))?;
        let max_tokens = self.value(&format!("harness.budget.{scope}.max_tokens"))?;
        Ok(Allowance { max_cost, max_tokens })
    }

    pub(super) fn duration(&self, key: &str) -> Result<Option<u64>, Failure> {
        let text: Option<String> = self.value(key)?;
        let ms = |text: String| duration::parse(&text).map(|time| time.as_millis() as u64);
        text.map(ms).transpose().map_err(|why| self.wrong(key, &why))
    }

    pub(super) fn bytes(&self, key: &str) -> Result<Option<u64>, Failure> {
        let text: Option<String> = self.value(key)?;
        text.map(|text| size::parse(&text)).transpose().map_err(|why| self.wrong(key, &why))
    }

    /// The name of a branch, or the beginning of one; what would lead git astray is refused here, with its place.
    pub(super) fn branch(&self, key: &str) -> Result<Option<String>, Failure> {
        let name: Option<String> = self.value(key)?;
        match name.filter(|name| !name.is_empty()) {
            Some(name) if !branch::is_plain(&name) => {
                Err(self.wrong(key, &format!("{name:?} cannot be part of a branch's name")))
            }
            name => Ok(name),
        }
    }

    /// Paths below a checkout.
    pub(super) fn paths(&self, key: &str) -> Result<Vec<String>, Failure> {
        let paths: Vec<String> = self.value(key)?;
        match paths.iter().find(|path| !longhaul_workspace::carry::is_within(Path::new(path))) {
            Some(path) => Err(self.wrong(key, &format!("{path:?} is no path below a checkout"))),
            None => Ok(paths),
        }
    }

    /// Where workspaces are is where the state is.
    pub(super) fn workspaces(&self, key: &str) -> Result<(), Failure> {
        let path: String = self.value(key)?;
        match path.trim_start_matches("./").trim_end_matches('/') {
            "workspace" => Ok(()),
            _ => Err(self
                .wrong(key, &format!("workspaces are in `workspace` of the state directory, not in {path:?}"))
                .hint("--state-dir and LONGHAUL_STATE_DIR move both")),
        }
    }

    /// One command, or a list of them.
    pub(super) fn commands(&self, key: &str) -> Result<Vec<String>, Failure> {
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

    pub(super) fn money(&self, key: &str) -> Result<Option<Usd>, Failure> {
        let dollars: Option<f64> = self.value(key)?;
        dollars
            .map(|dollars| {
                Usd::from_dollars(dollars).ok_or_else(|| self.wrong(key, "not an amount of dollars"))
            })
            .transpose()
    }

    /// The project's directories of agents.
    pub(super) fn roster(&self, project: &Path) -> Result<Roster, Failure> {
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
    pub(super) fn most(&self) -> Result<Most, Failure> {
        let is_own = |key: &str| self.origins.get(key).is_some_and(|(_, source)| *source != Source::Default);
        let autonomy = is_own(UNRAISED[0]).then(|| self.autonomy()).transpose()?;
        let max_cost = if is_own(UNRAISED[1]) { self.money(UNRAISED[1])? } else { None };
        Ok(Most { autonomy, max_cost })
    }

    pub(super) fn wrong(&self, key: &str, why: &str) -> Failure {
        let place = self.places.get(key).map_or("", String::as_str);
        Failure::usage(format!("{key} in {place}: {why}"))
    }
}
