//! The tools there are, by name.
//!
//! Owns the list, its order, and the other names under which agent files and models know the tools. An alias is read and
//! never written: what is granted, offered and journalled is the tool's own name. Refuses to decide who may use which.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::ids::RunId;
use longhaul_core::tool::ToolGrant;

use crate::apply_patch::ApplyPatch;
use crate::ask_human::AskHuman;
use crate::bash::Bash;
use crate::bash_kill::BashKill;
use crate::bash_output::BashOutput;
use crate::edit::Edit;
use crate::fetch::Fetch;
use crate::git::{GitAdd, GitBlame, GitBranch, GitCommit, GitDiff, GitLog, GitPush, GitShow, GitStatus};
use crate::glob::Glob;
use crate::grep::Grep;
use crate::handoff::WriteHandoff;
use crate::hooks::Hooks;
use crate::jobs::Jobs;
use crate::list::List;
use crate::read::Read;
use crate::research::FinalizeResearch;
use crate::sandbox::Sandbox;
use crate::shell::agents_environment;
use crate::spawn::Spawn;
use crate::todo::Todo;
use crate::tool::{Tool, ToolSpec};
use crate::write::Write;

/// Names that other harnesses use, and what they are called here. A tool that really has such a name goes first.
const ALIASES: &[(&str, &str)] = &[
    ("read_file", "read"),
    ("view", "read"),
    ("write_file", "write"),
    ("create_file", "write"),
    ("edit_file", "edit"),
    ("str_replace", "edit"),
    ("list_files", "list"),
    ("list_dir", "list"),
    ("list_directory", "list"),
    ("ls", "list"),
    ("search", "grep"),
    ("search_files", "grep"),
    ("find_files", "glob"),
    ("patch", "apply_patch"),
    ("shell", "bash"),
    ("run_command", "bash"),
    ("todo_write", "todo"),
    ("web_fetch", "fetch"),
    ("webfetch", "fetch"),
];

/// All tools of one harness, and the hooks around them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Toolbox {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    pub hooks: Arc<Hooks>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`; there are: {known}")]
pub struct UnknownTool {
    pub name: String,
    pub known: String,
}

impl Toolbox {
    /// The tools that come with longhaul, for the environment of this process; commands are held by `sandbox`.
    pub fn builtin(sandbox: Sandbox) -> Toolbox {
        let jobs = Arc::new(Jobs::default());
        Toolbox::default()
            .with(Arc::new(Read::new(sandbox.clone())))
            .with(Arc::new(Write::new()))
            .with(Arc::new(Edit::new()))
            .with(Arc::new(ApplyPatch::new()))
            .with(Arc::new(Glob::new()))
            .with(Arc::new(Grep::new()))
            .with(Arc::new(List::new()))
            .with(Arc::new(GitStatus::new(sandbox.clone())))
            .with(Arc::new(GitDiff::new(sandbox.clone())))
            .with(Arc::new(GitLog::new(sandbox.clone())))
            .with(Arc::new(GitShow::new(sandbox.clone())))
            .with(Arc::new(GitBlame::new(sandbox.clone())))
            .with(Arc::new(GitAdd::new(sandbox.clone())))
            .with(Arc::new(GitCommit::new(sandbox.clone())))
            .with(Arc::new(GitBranch::new(sandbox.clone())))
            .with(Arc::new(GitPush::new(sandbox.clone())))
            .with(Arc::new(Fetch::new(sandbox.network().clone())))
            .with(Arc::new(Todo::new()))
            .with(Arc::new(WriteHandoff::new()))
            .with(Arc::new(FinalizeResearch::new()))
            .with(Arc::new(AskHuman::new()))
            .with(Arc::new(Spawn::new()))
            .with(Arc::new(Bash::with_jobs(agents_environment(), sandbox, Arc::clone(&jobs))))
            .with(Arc::new(BashOutput::new(Arc::clone(&jobs))))
            .with(Arc::new(BashKill::new(jobs)))
    }

    /// Adds a tool; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, tool: Arc<dyn Tool>) -> Toolbox {
        self.tools.insert(tool.spec().name.clone(), tool);
        self
    }

    #[must_use]
    pub fn hooked(self, hooks: Hooks) -> Toolbox {
        Toolbox { hooks: Arc::new(hooks), ..self }
    }

    /// The tool of this name or alias.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.tools.get(self.canonical(name))
    }

    /// The tool's own name, for its name or an alias of it. What is neither stays as it is.
    pub fn canonical<'a>(&'a self, name: &'a str) -> &'a str {
        if self.tools.contains_key(name) {
            return name;
        }
        if let Some(own) = self.tools.keys().find(|own| own.eq_ignore_ascii_case(name)) {
            return own;
        }
        let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
        let meant = alias.map(|(_, meant)| *meant).filter(|meant| self.tools.contains_key(*meant));
        meant.unwrap_or(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.tools.keys().map(String::as_str).collect()
    }

    /// What a model is told about each, in the order of their names.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.tools.values().map(|tool| tool.spec())
    }

    /// What a run is granted when it is created with these tools or aliases, in the order given and each once.
    pub fn grants<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<ToolGrant>, UnknownTool> {
        let mut grants = Vec::new();
        for name in names {
            let grant = self.grant(name.as_ref())?;
            if !grants.contains(&grant) {
                grants.push(grant);
            }
        }
        Ok(grants)
    }

    /// Lets every tool go of what it holds for a run.
    pub async fn rest(&self, run: &RunId) {
        for tool in self.tools.values() {
            tool.rest(run).await;
        }
    }

    fn grant(&self, name: &str) -> Result<ToolGrant, UnknownTool> {
        let unknown = || UnknownTool { name: name.to_owned(), known: self.names().join(", ") };
        let spec = self.get(name).ok_or_else(unknown)?.spec();
        Ok(ToolGrant { name: spec.name.clone(), class: spec.class, ask: None })
    }
}
