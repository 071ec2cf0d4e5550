//! What one source may do to those before it: providers are laid over, servers replaced, hooks added, limits only lowered.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use longhaul_core::permission;
use longhaul_core::secret::is_secret;
use longhaul_engine::notify::NotifyConfig;
use longhaul_model::ProviderConfig;
use longhaul_tools::hooks::HooksConfig;
use longhaul_tools::mcp::ServerConfig;
use longhaul_tools::research::SearchConfig;
use longhaul_tools::sandbox::{Mode, Network};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Source;
use super::layers::{Layer, flatten};
use crate::app::whole;
use crate::branch;
use crate::failure::Failure;
use crate::rules::WrittenRules;

/// All sources, laid one over another.
pub(super) struct Laid {
    /// Every key with its value and the source that has set it.
    pub(super) origins: BTreeMap<String, (Value, Source)>,
    /// Every key with where it is written, for those who have to mend it.
    pub(super) places: BTreeMap<String, String>,
    pub(super) providers: BTreeMap<String, ProviderConfig>,
    pub(super) rules: WrittenRules,
    pub(super) mcp_servers: BTreeMap<String, ServerConfig>,
    pub(super) hooks: HooksConfig,
    pub(super) search: Option<SearchConfig>,
    pub(super) notify: NotifyConfig,
}

impl Laid {
    /// In the order of precedence, the last one wins.
    pub(super) fn of(project: &Path, layers: Vec<Layer>) -> Result<Laid, Failure> {
        let mut laid = Laid {
            origins: BTreeMap::new(),
            places: BTreeMap::new(),
            providers: BTreeMap::new(),
            rules: WrittenRules::new(),
            mcp_servers: BTreeMap::new(),
            hooks: HooksConfig::default(),
            search: None,
            notify: NotifyConfig::default(),
        };
        for (source, place, mut layer) in layers {
            let base_dir = base_dir(source, &place, project);
            laid.lay_sections((source, base_dir.as_deref()), &place, &mut layer)?;
            laid.lay_values(source, &place, &layer)?;
        }
        Ok(laid)
    }

    /// Takes the sections out of a layer that are more than a value for each key.
    fn lay_sections(
        &mut self,
        (source, base_dir): Written<'_>,
        place: &str,
        layer: &mut Value,
    ) -> Result<(), Failure> {
        let origins = &mut self.origins;
        if let Some(configured) = taken(layer, "providers") {
            add_providers(&configured, (source, base_dir), place, &mut self.providers, origins)?;
        }
        if let Some(Value::Object(section)) = layer.get_mut("permissions") {
            self.rules.add(taken_rules(section)?, source, place)?;
        }
        if let Some(mut configured) = taken(layer, "mcp") {
            add_servers(configured["servers"].take(), source, place, &mut self.mcp_servers, origins)?;
        }
        if let Some(configured) = taken(layer, "hooks") {
            add_hooks(configured, (source, base_dir), place, &mut self.hooks, origins)?;
        }
        if let Some(configured) = taken(layer, "search") {
            self.search = Some(search_provider(configured, (source, base_dir), place, origins)?);
        }
        if let Some(configured) = taken(layer, "notify") {
            let before = std::mem::take(&mut self.notify);
            self.notify = add_notify(before, configured, (source, base_dir), place, origins)?;
        }
        if let Some(asks) = layer["git"]["require_approval"].as_bool().filter(|_| source != Source::Default) {
            self.rules.add(branch::push_rule(asks), source, place)?;
        }
        Ok(())
    }

    fn lay_values(&mut self, source: Source, place: &str, layer: &Value) -> Result<(), Failure> {
        let mut leaves = Vec::new();
        flatten("", layer, &mut leaves);
        if source == Source::Project {
            refuse_loosening(place, &leaves, &self.origins)?;
        }
        for (key, value) in leaves {
            if source == Source::Default || !value.is_null() {
                self.places.insert(key.clone(), place.to_owned());
                self.origins.insert(key, (value, source));
            }
        }
        Ok(())
    }
}

/// Who has written it, and where that is if it is a file: whoever names a program in it by a path means what is beside it.
type Written<'a> = (Source, Option<&'a Path>);

fn base_dir(source: Source, place: &str, project: &Path) -> Option<PathBuf> {
    match source {
        Source::User => Path::new(place).parent().map(whole),
        Source::Project => Some(whole(project)),
        Source::Default | Source::Environment => None,
    }
}

fn taken(layer: &mut Value, section: &str) -> Option<Value> {
    layer.as_object_mut()?.remove(section)
}

const SANDBOX: &str = "permissions.sandbox";

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
    for key in [SANDBOX, "permissions.network"] {
        let asked =
            leaves.iter().find(|(name, value)| name == key && !value.is_null()).map(|(_, value)| value);
        let (Some(asked), Some((given, _))) = (asked, origins.get(key)) else { continue };
        // Nearly any word could be the name of a host, so what is no mode is not taken for a network.
        let loosened = match key {
            SANDBOX => mode(asked).zip(mode(given)).is_some_and(|(asked, given)| asked < given),
            _ => network(asked).zip(network(given)).is_some_and(|(asked, given)| !asked.is_within(&given)),
        };
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
pub(super) const UNRAISED: [&str; 7] = [
    "harness.autonomy",
    "harness.limits.max_cost",
    "harness.budget.day.max_cost",
    "harness.budget.day.max_tokens",
    "harness.budget.repo.max_cost",
    "harness.budget.repo.max_tokens",
    "harness.limits.max_tokens",
];

/// A limit that only warns is none.
const UNWARNED: &str = "harness.limits.policies.max_cost";

/// Lays a source's providers over those of the sources before it, field by field.
fn add_providers(
    configured: &Value,
    (source, base_dir): Written<'_>,
    place: &str,
    providers: &mut BTreeMap<String, ProviderConfig>,
    origins: &mut BTreeMap<String, (Value, Source)>,
) -> Result<(), Failure> {
    let configured: BTreeMap<String, ProviderConfig> = serde_json::from_value(configured.clone())
        .map_err(|error| Failure::usage(format!("providers in {place}: {error}")))?;
    for (name, mut config) in configured {
        config.base_dir = base_dir.map(Path::to_owned);
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
    (source, base_dir): Written<'_>,
    place: &str,
    hooks: &mut HooksConfig,
    origins: &mut BTreeMap<String, (Value, Source)>,
) -> Result<(), Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{error}, in {place}"));
    let configured: HooksConfig = serde_json::from_value(configured).map_err(|error| wrong(&error))?;
    configured.check().map_err(|error| wrong(&error))?;
    hooks.add(configured.from_settings_in(base_dir.unwrap_or(Path::new(""))));
    let lists = [("before_tool", &hooks.before_tool), ("after_tool", &hooks.after_tool)];
    for (when, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
        origins.insert(format!("hooks.{when}"), (json!(list), source));
    }
    Ok(())
}

/// A source's search provider takes the place of that of the sources before it, whole.
fn search_provider(
    configured: Value,
    (source, base_dir): Written<'_>,
    place: &str,
    origins: &mut BTreeMap<String, (Value, Source)>,
) -> Result<SearchConfig, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{error}, in {place}"));
    let mut configured: SearchConfig = serde_json::from_value(configured).map_err(|error| wrong(&error))?;
    configured.check().map_err(|error| wrong(&error))?;
    configured.base_dir = base_dir.map(Path::to_owned).unwrap_or_default();
    origins.insert("search".to_owned(), (shown(&configured), source));
    Ok(configured)
}

/// Who is told, and of what: a source's ways take the place of those of the sources before it, each whole.
fn add_notify(
    before: NotifyConfig,
    configured: Value,
    (source, base_dir): Written<'_>,
    place: &str,
    origins: &mut BTreeMap<String, (Value, Source)>,
) -> Result<NotifyConfig, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{error}, in {place}"));
    for (key, value) in configured.as_object().into_iter().flatten() {
        origins.insert(format!("notify.{key}"), (value.clone(), source));
    }
    let mut configured: NotifyConfig = serde_json::from_value(configured).map_err(|error| wrong(&error))?;
    configured.check().map_err(|error| wrong(&error))?;
    configured.base_dir = base_dir.map(Path::to_owned);
    Ok(before.under(configured))
}

/// A provider or a server as it may be shown: the values of headers and variables may be keys, and so may parts of addresses.
fn shown<T: Serialize>(config: &T) -> Value {
    let mut shown = json!(config);
    for field in ["headers", "env"] {
        if let Some(values) = shown.get_mut(field).and_then(Value::as_object_mut) {
            values.values_mut().for_each(|value| *value = json!("…"));
        }
    }
    for field in ["base_url", "url"] {
        if let Some(Value::String(url)) = shown.get_mut(field) {
            *url = without_keys(url);
        }
    }
    shown
}

/// An address without what names its user, without the values of its query, and without what looks like a key in its path.
fn without_keys(url: &str) -> String {
    let (start, query) = url.split_once('?').map_or((url, None), |(start, query)| (start, Some(query)));
    let rest = start.split_once("://").map_or(start, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    let part = |part| if is_secret("", part) { "…" } else { part };
    let path = rest[authority.len()..].split('/').map(part).collect::<Vec<_>>().join("/");
    let before = &start[..start.len() - rest.len()];
    let mut shown = match authority.rsplit_once('@') {
        Some((_, host)) => format!("{before}…@{host}{path}"),
        None => format!("{before}{authority}{path}"),
    };
    if let Some(query) = query {
        let name = |pair: &str| match pair.split_once('=') {
            Some((name, _)) => format!("{name}=…"),
            None => "…".to_owned(),
        };
        shown.push('?');
        shown.push_str(&query.split('&').map(name).collect::<Vec<_>>().join("&"));
    }
    shown
}
