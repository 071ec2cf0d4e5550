//! May this call run? Rules as data, and the verdict with the rule that decided and why.
//!
//! A rule is a pattern with allow, ask or deny. Deny is never loosened by another rule; between ask and allow the longer
//! pattern is meant; `*` holds where no other rule does; of several commands the strictest verdict counts. Deny and ask
//! match generously: options in any order, through wrappers, in text that could not be read. Allow needs a proof: the
//! command line was read as bash reads it, every command in it matches, and nothing in it can turn into something else.
//! What is not understood is asked about at best.
//!
//! Owns intent, not containment: what a program's own files make it do is a matter for the sandbox. Paths are compared as
//! text; links are followed by nobody here.

mod always;
mod bash;
mod call;
mod defaults;
mod editors;
mod git;
mod paths;
mod pattern;
mod programs;
mod risk;
mod rules;
mod scan;
mod shell;
mod unwrap;
mod walk;
mod wildcard;

mod attacks;
mod differential;
mod tests;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use always::ALWAYS;
use bash::Doubts;
pub use risk::risk;
pub use rules::{BadRule, Permissions, Rules};

/// What may be done. The order is strictness.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize,
)]
#[cbor(index_only)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    #[n(0)]
    Allow,
    #[n(1)]
    Ask,
    #[n(2)]
    Deny,
}

impl Action {
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Ask => "ask",
            Action::Deny => "deny",
        }
    }
}

/// Which rule decided: the section of the settings it is in and its pattern. `always` holds the rules that no setting changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleName {
    pub section: String,
    pub pattern: String,
}

impl std::fmt::Display for RuleName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} \"{}\"", self.section, self.pattern)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub action: Action,
    /// `None` if no rule speaks of it, or if it is not understood well enough for the rule that would allow it.
    pub rule: Option<RuleName>,
    pub why: String,
    /// Which of several sets of rules it is from.
    #[serde(skip)]
    pub layer: usize,
}

impl Verdict {
    fn new(action: Action, rule: Option<RuleName>, why: String) -> Verdict {
        Verdict { action, rule, why, layer: 0 }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.rule {
            Some(rule) => write!(f, "{}, by the rule {rule}", self.why),
            None => write!(f, "{}", self.why),
        }
    }
}

/// A verdict and what it was made from, for people.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    pub verdict: Verdict,
    /// Every command that was seen, also those that other commands run.
    pub commands: Vec<SeenCommand>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SeenCommand {
    /// Its words as they will be; `…` where only running tells.
    pub words: Vec<String>,
    pub action: Action,
    pub why: String,
}

/// Where a call is made.
#[derive(Clone, Copy, Debug)]
pub struct Here<'a> {
    /// The absolute path of the run's workspace.
    pub workspace: &'a str,
    /// Where in it commands begin; empty for its root.
    pub cwd: &'a str,
}

/// May this tool be called with these arguments? The first rules are the user's; each of the others may only tighten them.
pub fn judge(rules: &[Permissions], here: Here<'_>, tool: &str, args: &Value) -> Verdict {
    explain(rules, here, tool, args).verdict
}

/// The same, with the commands that were seen.
pub fn explain(rules: &[Permissions], here: Here<'_>, tool: &str, args: &Value) -> Explanation {
    let all = rules.iter().enumerate();
    let mut all: Vec<Explanation> =
        all.map(|(layer, permissions)| by_one(permissions, here, tool, args, layer)).collect();
    let commands = all.iter_mut().map(|one| std::mem::take(&mut one.commands)).reduce(stricter);
    let verdict = strictest(all.into_iter().map(|one| one.verdict));
    Explanation { verdict, commands: commands.unwrap_or_default() }
}

/// May a tool change this file? Asked again when it is known which files a call changes.
pub fn judge_path(rules: &[Permissions], workspace: &str, tool: &str, path: &str) -> Verdict {
    strictest(rules.iter().map(|permissions| rules::on_path(permissions, workspace, tool, path)))
}

/// The first of the strictest.
fn strictest(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let none = Verdict::new(Action::Allow, None, "there are no rules".to_owned());
    let numbered = verdicts.enumerate().map(|(layer, verdict)| Verdict { layer, ..verdict });
    numbered.reduce(|first, next| if next.action > first.action { next } else { first }).unwrap_or(none)
}

fn by_one(permissions: &Permissions, here: Here<'_>, tool: &str, args: &Value, layer: usize) -> Explanation {
    match (tool, args.get("command").and_then(Value::as_str)) {
        ("bash", Some(command)) => {
            let doubts = if layer == 0 { Doubts::Asked } else { Doubts::LeftOut };
            bash::explain(permissions, here, command, doubts)
        }
        _ => {
            let own = rules::other_tool(permissions, here.workspace, tool, args);
            // Whoever speaks of the tool by its name has it judged by that; what is denied stays so.
            let is_named = own.rule.as_ref().is_some_and(|rule| rule.section == tool);
            let as_command = command_of(tool)
                .map(|command| bash::explain(permissions, here, command, Doubts::LeftOut).verdict)
                .filter(|verdict| {
                    verdict.action > own.action && (verdict.action == Action::Deny || !is_named)
                });
            Explanation { verdict: as_command.unwrap_or(own), commands: Vec::new() }
        }
    }
}

/// What a tool does, as a command: whoever has a rule about `git commit` does not mean bash alone.
fn command_of(tool: &str) -> Option<&'static str> {
    match tool {
        "git_add" => Some("git add ."),
        "git_commit" => Some("git commit -m message"),
        "git_branch" => Some("git branch name"),
        "git_push" => Some("git push remote branch"),
        _ => None,
    }
}

/// The same commands, each with the stricter of two verdicts.
fn stricter(first: Vec<SeenCommand>, second: Vec<SeenCommand>) -> Vec<SeenCommand> {
    if first.len() != second.len() {
        return if first.is_empty() { second } else { first };
    }
    let both = first.into_iter().zip(second);
    both.map(|(first, second)| if second.action > first.action { second } else { first }).collect()
}
