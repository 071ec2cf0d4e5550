//! The tools there are, by name.
//!
//! Owns the list and its order. Refuses to decide who may use which.

use std::collections::BTreeMap;
use std::sync::Arc;

use longhaul_core::ids::RunId;
use longhaul_core::tool::ToolGrant;

use crate::ask_human::AskHuman;
use crate::bash::Bash;
use crate::edit::Edit;
use crate::read::Read;
use crate::tool::{Tool, ToolSpec};
use crate::write::Write;

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
            .with(Arc::new(AskHuman::new()))
            .with(Arc::new(Bash::new(std::env::vars_os())))
    }

    /// Adds a tool; one of the same name is replaced.
    #[must_use]
    pub fn with(mut self, tool: Arc<dyn Tool>) -> Toolbox {
        self.0.insert(tool.spec().name.clone(), tool);
        self
    }

    pub fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.0.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// What a model is told about each, in the order of their names.
    pub fn specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.0.values().map(|tool| tool.spec())
    }

    /// What a run is granted when it is created with these tools, in the order given.
    pub fn grants<S: AsRef<str>>(&self, names: &[S]) -> Result<Vec<ToolGrant>, UnknownTool> {
        names.iter().map(|name| self.grant(name.as_ref())).collect()
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
        Ok(ToolGrant { name: spec.name.clone(), class: spec.class })
    }
}
