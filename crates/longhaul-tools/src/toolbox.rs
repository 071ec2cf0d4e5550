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
use crate::edit::Edit;
use crate::egress::Hosts;
use crate::fetch::Fetch;
use crate::git::{GitAdd, GitBlame, GitBranch, GitCommit, GitDiff, GitLog, GitShow, GitStatus};
use crate::glob::Glob;
use crate::grep::Grep;
use crate::list::List;
use crate::read::Read;
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

/// All tools of one harness. Cheap to clone.
#[derive(Clone, Default)]
pub struct Toolbox(BTreeMap<String, Arc<dyn Tool>>);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`; there are: {known}")]
pub struct UnknownTool {
    pub name: String,
    pub known: String,
}

impl Toolbox {
    /// The tools that come with longhaul, for the environment of this process.
    pub fn builtin() -> Toolbox {
        Toolbox::default()
            .with(Arc::new(Read::new()))
            .with(Arc::new(Write::new()))
            .with(Arc::new(Edit::new()))
            .with(Arc::new(ApplyPatch::new()))
            .with(Arc::new(Glob::new()))
            .with(Arc::new(Grep::new()))
            .with(Arc::new(List::new()))
            .with(Arc::new(GitStatus::new()))
            .with(Arc::new(GitDiff::new()))
            .with(Arc::new(GitLog::new()))
            .with(Arc::new(GitShow::new()))
            .with(Arc::new(GitBlame::new()))
            .with(Arc::new(GitAdd::new()))
            .with(Arc::new(GitCommit::new()))
            .with(Arc::new(GitBranch::new()))
            .with(Arc::new(Fetch::new(Hosts::default())))
            .with(Arc::new(Todo::new()))
            .with(Arc::new(AskHuman::new()))
            .with(Arc::new(Bash::new(std::env::vars_os())))
    }

    /// Adds a tool; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, tool: Arc<dyn Tool>) -> Toolbox {
        self.0.insert(tool.spec().name.clone(), tool);
        self
    }

    /// The tool of this name or alias.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.get(self.canonical(name))
    }

    /// The tool's own name, for its name or an alias of it. What is neither stays as it is.
    pub fn canonical<'a>(&'a self, name: &'a str) -> &'a str {
        if self.0.contains_key(name) {
            return name;
        }
        if let Some(own) = self.0.keys().find(|own| own.eq_ignore_ascii_case(name)) {
            return own;
        }
        let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
        let meant = alias.map(|(_, meant)| *meant).filter(|meant| self.0.contains_key(*meant));
        meant.unwrap_or(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// What a model is told about each, in the order of their names.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.0.values().map(|tool| tool.spec())
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
        for tool in self.0.values() {
            tool.rest(run).await;
        }
    }

    fn grant(&self, name: &str) -> Result<ToolGrant, UnknownTool> {
        let unknown = || UnknownTool { name: name.to_owned(), known: self.names().join(", ") };
        let spec = self.get(name).ok_or_else(unknown)?.spec();
        Ok(ToolGrant { name: spec.name.clone(), class: spec.class, ask: None })
    }
}
