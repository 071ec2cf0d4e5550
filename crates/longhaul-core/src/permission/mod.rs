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
mod rules;
mod scan;
mod shell;
mod unwrap;
mod walk;

mod attacks;
mod differential;
mod tests;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use always::ALWAYS;
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

/// May this tool be called with these arguments? `workspace` is the absolute path of the run's workspace.
pub fn judge(permissions: &Permissions, workspace: &str, tool: &str, args: &Value) -> Verdict {
    explain(permissions, workspace, tool, args).verdict
}

/// The same, with the commands that were seen.
pub fn explain(permissions: &Permissions, workspace: &str, tool: &str, args: &Value) -> Explanation {
    let tool = match tool {
        "read_file" => "read",
        "write_file" => "write",
        "edit_file" => "edit",
        other => other,
    };
    match (tool, args.get("command").and_then(Value::as_str)) {
        ("bash", Some(command)) => bash::explain(permissions, workspace, command),
        _ => Explanation {
            verdict: rules::other_tool(permissions, workspace, tool, args),
            commands: Vec::new(),
        },
    }
}
