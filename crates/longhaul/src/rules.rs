//! The permission rules as they were written, and how those of several files are joined.
//!
//! The user's file may change any default. A project comes from elsewhere: its rules are kept apart, and a call must pass
//! both, so that they can tighten what the user said but never loosen it.

use std::path::Path;

use longhaul_core::permission::{Action, Permissions, RuleName, Rules, Verdict};
use longhaul_tools::{Sandbox, Toolbox};

use crate::failure::Failure;
use crate::settings::Source;

/// Rules with where they were written, in the order of precedence.
#[derive(Clone, Debug)]
pub struct WrittenRules(Vec<(Source, Permissions)>);

/// A rule that holds, as it is shown.
pub struct Holding {
    pub name: RuleName,
    pub action: Action,
    pub source: Source,
    pub reach: Reach,
}

/// What a rule can do to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// What it says.
    Whole,
    /// It allows, and only what the same project's other rules would be stricter about: the user's have to be passed as well.
    OwnRules,
    /// It allows what nothing but the user's rules speaks of, and those it cannot change.
    Nothing,
}

impl Reach {
    /// What its reader should know of it.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Reach::Whole => None,
            Reach::OwnRules => Some("loosens only this project's own rules"),
            Reach::Nothing => Some("no effect: a project can only tighten"),
        }
    }
}

impl WrittenRules {
    /// Only the defaults.
    pub fn new() -> WrittenRules {
        WrittenRules(vec![(Source::Default, Permissions::default())])
    }

    pub fn add(&mut self, rules: Permissions, source: Source, place: &str) -> Result<(), Failure> {
        let wrong = |error: String| Failure::usage(format!("permissions in {place}: {error}"));
        rules.check().map_err(|error| wrong(error.to_string()))?;
        let toolbox = Toolbox::builtin(Sandbox::off());
        let is_known = |section: &str| {
            matches!(section, "*" | "external_directory" | "search")
                || section.contains("__")
                || toolbox.names().contains(&section)
        };
        if let Some(section) = rules.0.keys().find(|section| !is_known(section)) {
            let names = toolbox.names().join(", ");
            return Err(wrong(format!(
                "there is no tool `{section}`; rules are for {names}, `server__tool` of MCP, external_directory and `*`"
            )));
        }
        self.0.push((source, rules));
        Ok(())
    }

    /// What a run is held to: the user's rules over the defaults, then the project's.
    pub fn layers(&self) -> Vec<Permissions> {
        let (own, projects): (Vec<_>, Vec<_>) = self.0.iter().partition(|(source, _)| is_own(*source));
        let mut first = Permissions::none();
        own.into_iter().for_each(|(_, rules)| first.extend(rules.clone()));
        std::iter::once(first).chain(projects.into_iter().map(|(_, rules)| rules.clone())).collect()
    }

    /// Every rule that holds. A default that the user changed is not among them.
    pub fn all(&self) -> Vec<Holding> {
        let mut all = Vec::new();
        for (layer, permissions) in self.layers().iter().enumerate() {
            for (section, rules) in &permissions.0 {
                for (pattern, action) in &rules.0 {
                    let name = RuleName { section: section.clone(), pattern: pattern.clone() };
                    let Some(source) = self.source(layer, &name) else { continue };
                    let is_loose = *action == Action::Allow && !is_own(source);
                    let reach = if is_loose { reach_of_leave(permissions, &name) } else { Reach::Whole };
                    all.push(Holding { name, action: *action, source, reach });
                }
            }
        }
        all
    }

    /// Where the rule that decided was written; `None` if there is none, or it is built in.
    pub fn origin(&self, verdict: &Verdict) -> Option<Source> {
        self.source(verdict.layer, verdict.rule.as_ref()?)
    }

    fn source(&self, layer: usize, rule: &RuleName) -> Option<Source> {
        let has = |rules: &Permissions| {
            rules.0.get(&rule.section).is_some_and(|rules| rules.0.contains_key(&rule.pattern))
        };
        let mut written = self.0.iter().rev().filter(|(source, _)| is_own(*source) == (layer == 0));
        written.find(|(_, rules)| has(rules)).map(|(source, _)| *source)
    }
}

/// What a rule of a project can do that allows. Between ask and allow the longer pattern is meant, a named one goes before `*`, and a
/// section of a tool's own before those for many tools and before what is said of the same in bash.
fn reach_of_leave(permissions: &Permissions, rule: &RuleName) -> Reach {
    let may_give_way = |section: &str, pattern: &str, action: Action| match action {
        Action::Allow => false,
        Action::Ask | Action::Deny if section != rule.section => {
            section.contains('*') || (section == "bash" && rule.section.starts_with("git_"))
        }
        Action::Ask => true,
        Action::Deny => pattern == "*",
    };
    let all =
        permissions.0.iter().flat_map(|(section, rules)| rules.0.iter().map(move |rule| (section, rule)));
    let mut others = all.map(|(section, (pattern, action))| may_give_way(section, pattern, *action));
    if others.any(|may| may) { Reach::OwnRules } else { Reach::Nothing }
}

/// A project's settings that are a link are the file it leads to: who changes that is asked about as well.
pub fn for_link(project: &Path) -> Option<Permissions> {
    let link = project.join("longhaul.yaml");
    let to = link.read_link().ok()?;
    let project = project.canonicalize().ok()?;
    // One that leads nowhere leads somewhere once that is made.
    let end = link.canonicalize().unwrap_or_else(|_| project.join(to).components().collect());
    let path = end.strip_prefix(&project).ok()?.to_str()?.to_owned();
    let rules = Rules([(path, Action::Ask)].into());
    Some(Permissions(["write", "edit"].map(|section| (section.to_owned(), rules.clone())).into()))
}

fn is_own(source: Source) -> bool {
    source != Source::Project
}
