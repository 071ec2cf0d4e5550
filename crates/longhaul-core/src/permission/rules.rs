//! The rules as data, and the verdict on everything that is not a shell command.

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::de::{IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::always;
use super::paths::{Place, place};
use super::pattern::{glob, stages, weight};
use super::wildcard::{can_meet, hints_at};
use super::{Action, RuleName, Verdict};
use crate::limits::{PERMISSION_PATTERN_BYTES_MAX, PERMISSION_RULES_MAX};

/// The section for paths outside the workspace.
pub(super) const EXTERNAL: &str = "external_directory";

/// What is allowed, by tool. `external_directory` holds for paths outside the workspace, `*` for tools without rules.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[cbor(transparent)]
#[serde(transparent)]
pub struct Permissions(#[n(0)] pub BTreeMap<String, Rules>);

/// The rules of one tool, by pattern. In settings a single word stands for `{ "*": word }`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(transparent)]
pub struct Rules(#[n(0)] pub BTreeMap<String, Action>);

impl Default for Permissions {
    fn default() -> Permissions {
        super::defaults::permissions()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRule {
    #[error("permissions.{section} has more than {PERMISSION_RULES_MAX} rules")]
    TooMany { section: String },
    #[error("permissions.{section}: a pattern is empty or longer than {PERMISSION_PATTERN_BYTES_MAX} bytes")]
    BadLength { section: String },
    #[error(
        "permissions.bash \"{pattern}\": a pipe can be asked about or denied; to allow it, allow its commands"
    )]
    PipeAllowed { pattern: String },
}

impl Permissions {
    /// No rule at all: everything is allowed that needs no proof.
    pub fn none() -> Permissions {
        Permissions(BTreeMap::new())
    }

    /// Everything rules must satisfy before they hold.
    pub fn check(&self) -> Result<(), BadRule> {
        for (section, rules) in &self.0 {
            if rules.0.len() > PERMISSION_RULES_MAX {
                return Err(BadRule::TooMany { section: section.clone() });
            }
            for (pattern, action) in &rules.0 {
                if pattern.trim().is_empty() || pattern.len() > PERMISSION_PATTERN_BYTES_MAX {
                    return Err(BadRule::BadLength { section: section.clone() });
                }
                if section == "bash" && *action == Action::Allow && stages(pattern).len() > 1 {
                    return Err(BadRule::PipeAllowed { pattern: pattern.clone() });
                }
            }
        }
        Ok(())
    }

    /// Lays other rules over these: a pattern that both have gets the other's action.
    pub fn extend(&mut self, over: Permissions) {
        for (section, rules) in over.0 {
            self.0.entry(section).or_default().0.extend(rules.0);
        }
    }

    /// What one ought to know about rules that are likely not meant so.
    pub fn warnings(&self) -> Vec<String> {
        let bash = self.0.get("bash").into_iter().flat_map(|rules| &rules.0);
        let broad = bash.filter(|(pattern, action)| {
            let words = stages(pattern).concat();
            **action == Action::Allow
                && pattern.as_str() != "*"
                && words.first().is_some_and(|word| word.starts_with('*'))
        });
        broad
            .map(|(pattern, _)| format!("bash \"{pattern}\" allows nothing: an allowed command is named"))
            .collect()
    }

    pub(super) fn of(&self, tool: &str) -> (&str, Option<&Rules>) {
        match self.0.get_key_value(tool) {
            Some((section, rules)) => (section, Some(rules)),
            None => self.of_many(tool).unwrap_or(("*", self.0.get("*"))),
        }
    }

    /// The rules for all tools of an MCP server, `server__*`.
    fn of_many(&self, tool: &str) -> Option<(&str, Option<&Rules>)> {
        let many = self.0.iter().filter(|(section, _)| section.contains("__") && glob(section, tool));
        many.max_by_key(|(section, _)| weight(section))
            .map(|(section, rules)| (section.as_str(), Some(rules)))
    }

    /// The verdict on a path outside the workspace, by whatever tool.
    pub(super) fn outside(&self, path: &str) -> (Action, Option<RuleName>) {
        self.by_path(EXTERNAL, path)
    }

    /// What one section says of a path.
    pub(super) fn by_path(&self, section: &str, path: &str) -> (Action, Option<RuleName>) {
        match self.0.get(section).and_then(|rules| rules.on_path(path)) {
            Some((action, pattern)) => (action, Some(name(section, pattern))),
            None => (Action::Allow, None),
        }
    }

    /// The same, going by what was written of certain files alone.
    fn by_written(&self, section: &str, path: &str) -> (Action, Option<RuleName>) {
        let defaults = Permissions::default();
        let is_default =
            |rule| defaults.0.get(section).is_some_and(|ours| ours.named().any(|our| our == rule));
        let Some(rules) = self.0.get(section) else { return (Action::Allow, None) };
        let mut written: Vec<(&str, Action)> = rules.named().filter(|rule| !is_default(*rule)).collect();
        // Where some files are allowed, the rest is all others of them.
        if written.iter().any(|(_, action)| *action == Action::Allow) {
            written.extend(rules.default_action().map(|rest| ("*", rest)));
        }
        let written =
            Rules(written.into_iter().map(|(pattern, action)| (pattern.to_owned(), action)).collect());
        match written.on_path(path) {
            Some((action, pattern)) => (action, Some(name(section, pattern))),
            None => (Action::Allow, None),
        }
    }

    /// The strictest rule that a path with wildcards could turn out to meet, if it is more than allowed. The defaults speak of names that
    /// may be anywhere, and nearly every wildcard could turn out to be one: they are met by what hints at them.
    pub(super) fn may_meet(&self, section: &str, path: &str) -> Option<RuleName> {
        let rules = self.0.get(section)?;
        let defaults = Permissions::default();
        let is_default = |pattern: &str, action: Action| {
            let ours = defaults.0.get(section);
            ours.is_some_and(|ours| ours.named().any(|rule| rule == (pattern, action)))
        };
        let meets = |pattern: &str, action: Action| {
            if is_default(pattern, action) { hints_at(path, pattern) } else { can_meet(path, pattern) }
        };
        // The longer of ask and allow is meant, if the allowed one holds whatever the path turns out to be.
        let allowed = rules.decide(|pattern, action| action == Action::Allow && glob(pattern, path));
        let allowed = allowed.map_or(0, |(_, pattern)| weight(pattern));
        let met = rules.named().filter(|(pattern, action)| match action {
            Action::Allow => false,
            Action::Ask => weight(pattern) > allowed && meets(pattern, *action),
            Action::Deny => meets(pattern, *action),
        });
        met.max_by_key(|(_, action)| *action).map(|(pattern, _)| name(section, pattern))
    }

    /// The first rule by which some path could be more than allowed, in one of these sections or outside the workspace.
    pub(super) fn closes(&self, sections: &[&'static str]) -> Option<RuleName> {
        let all = [EXTERNAL].into_iter().chain(sections.iter().copied());
        let rules = all.filter_map(|section| Some((section, self.0.get(section)?)));
        let mut all = rules.flat_map(|(section, rules)| rules.0.iter().map(move |rule| (section, rule)));
        all.find(|(_, (_, action))| **action > Action::Allow)
            .map(|(section, (pattern, _))| name(section, pattern))
    }
}

/// The sections by which a tool's paths are judged besides its own, so that a rule about files holds for every way to them.
fn kin(tool: &str) -> &'static [&'static str] {
    match tool {
        "grep" | "glob" | "list" | "git_show" | "git_blame" | "git_diff" | "git_log" => &["read"],
        "apply_patch" => &["edit", "write"],
        "handoff" | "search" | "finalize_research" => &["write"],
        _ => &[],
    }
}

/// The section of another tool that changes files. What somebody has said of certain files there is meant of this way as well; what is
/// said of all of them is about the tool, and the defaults stand in the own section.
fn twin(tool: &str) -> Option<&'static str> {
    match tool {
        "edit" => Some("write"),
        "write" => Some("edit"),
        _ => None,
    }
}

pub(super) fn name(section: &str, pattern: &str) -> RuleName {
    RuleName { section: section.to_owned(), pattern: pattern.to_owned() }
}

impl Rules {
    pub(super) fn default_action(&self) -> Option<Action> {
        self.0.get("*").copied()
    }

    /// All but `*`.
    pub(super) fn named(&self) -> impl Iterator<Item = (&str, Action)> {
        self.0
            .iter()
            .map(|(pattern, action)| (pattern.as_str(), *action))
            .filter(|(pattern, _)| *pattern != "*")
    }

    /// The rule that decides among those that match.
    pub(super) fn decide(&self, matches: impl Fn(&str, Action) -> bool) -> Option<(Action, &str)> {
        let matching = self.named().filter(|(pattern, action)| matches(pattern, *action));
        let rank = |(pattern, action): &(&str, Action)| (*action == Action::Deny, weight(pattern), *action);
        let best = matching.max_by_key(rank).map(|(pattern, action)| (action, pattern));
        best.or_else(|| self.default_action().map(|action| (action, "*")))
    }

    fn on_path(&self, path: &str) -> Option<(Action, &str)> {
        self.decide(|pattern, action| match action {
            Action::Allow => glob(pattern, path),
            // A directory or file of that name is meant wherever it is, and however it is written.
            Action::Ask | Action::Deny => {
                let (pattern, path) = (pattern.to_lowercase(), path.to_lowercase());
                let directory = pattern.strip_suffix("/*");
                path.char_indices()
                    .map(|(at, letter)| (at, letter == '/'))
                    .fold(fits(&pattern, directory, &path), |found, (at, is_slash)| {
                        found || (is_slash && fits(&pattern, directory, &path[at + 1..]))
                    })
            }
        })
    }
}

/// Whether a path fits a pattern, or is the very directory the pattern covers.
fn fits(pattern: &str, directory: Option<&str>, path: &str) -> bool {
    glob(pattern, path) || directory.is_some_and(|directory| glob(directory, path))
}

/// The verdict on a call of any tool but bash.
pub(super) fn other_tool(permissions: &Permissions, workspace: &str, tool: &str, args: &Value) -> Verdict {
    let text = |names: &[&str]| names.iter().find_map(|name| args.get(*name).and_then(Value::as_str));
    // What an MCP server calls a path need not be one of this machine.
    let path = text(&["path", "file_path", "file", "directory"]).filter(|_| !tool.contains("__"));
    if let Some(path) = path {
        return on_path(permissions, workspace, tool, path);
    }
    let subject = text(&["url", "uri"]).map_or_else(|| args.to_string(), str::to_owned);
    let (section, rules) = permissions.of(tool);
    match rules.and_then(|rules| rules.decide(|pattern, _| glob(pattern, &subject))) {
        Some((action, pattern)) => {
            let rule = name(section, pattern);
            Verdict::new(action, Some(rule), format!("`{tool}` matches"))
        }
        None => Verdict::new(Action::Allow, None, format!("no rule speaks of `{tool}`")),
    }
}

/// The verdict on a tool that reads or changes one file.
pub(super) fn on_path(permissions: &Permissions, workspace: &str, tool: &str, path: &str) -> Verdict {
    if let Some((pattern, why)) = always::secret(path) {
        return Verdict::new(Action::Deny, Some(name("always", pattern)), why);
    }
    let (said, what) = match place(workspace, "", path) {
        Place::Outside(path) => {
            (vec![permissions.outside(&path)], format!("`{path}` is outside the workspace"))
        }
        Place::Inside(path) => {
            let own = permissions.of(tool).0;
            let sections = [own].into_iter().chain(kin(tool).iter().copied());
            let said = sections.map(|section| permissions.by_path(section, &path));
            let of_twin = twin(tool).map(|twin| permissions.by_written(twin, &path));
            (said.chain(of_twin).collect(), format!("it touches `{path}`"))
        }
    };
    let said = said.into_iter().filter(|(_, rule)| rule.is_some());
    match said.rev().max_by_key(|(action, _)| *action) {
        Some((action, rule)) => Verdict::new(action, rule, what),
        None => Verdict::new(Action::Allow, None, format!("no rule speaks of `{tool}`")),
    }
}

impl Serialize for Rules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Rules {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rules, D::Error> {
        deserializer.deserialize_any(Written)
    }
}

/// One word, or a map from patterns to words.
struct Written;

impl<'de> Visitor<'de> for Written {
    type Value = Rules;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "allow, ask or deny, or a map from patterns to these")
    }

    fn visit_str<E: serde::de::Error>(self, word: &str) -> Result<Rules, E> {
        let action = Action::deserialize(word.into_deserializer())?;
        Ok(Rules(BTreeMap::from([("*".to_owned(), action)])))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Rules, A::Error> {
        let mut rules = BTreeMap::new();
        while let Some((pattern, action)) = map.next_entry::<String, Action>()? {
            if rules.insert(pattern.clone(), action).is_some() {
                return Err(serde::de::Error::custom(format!("\"{pattern}\" is there twice")));
            }
        }
        Ok(Rules(rules))
    }
}
