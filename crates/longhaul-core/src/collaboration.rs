//! How several runs work on one repository: one after another or side by side, and who shares a workspace with whom.
//!
//! Owns the order in which a workspace is found: a session, then the run of a workflow, then the run itself. Refuses to know
//! where on disk any of them is.

use std::str::FromStr;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// What is fixed of it when a run is created.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Collaboration {
    #[n(0)]
    pub way: Way,
    /// The branch it began at, and that its work is merged into.
    #[n(1)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_branch: Option<String>,
    /// Whether agents that it sends have a branch each.
    #[n(2)]
    pub strategy: Strategy,
    /// What the names of such branches begin with, `agent/port/`.
    #[n(3)]
    pub family: String,
}

/// How runs of one session work together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// On one branch, one at a time, each seeing what those before it committed.
    #[default]
    #[n(0)]
    Sequential,
    /// Each on a branch and in a worktree of its own, until they are merged.
    #[n(1)]
    Parallel,
}

/// How the agents that a run sends work together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Strategy {
    /// Where the run itself works, on its branch.
    #[default]
    #[n(0)]
    Shared,
    /// Each on a branch of its own, merged into the run's when it is done.
    #[n(1)]
    PerAgent,
}

/// With whom a run shares where it works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// With every run that is in no session.
    #[n(0)]
    Shared,
    /// With nobody.
    #[n(1)]
    PerRun,
    /// With the other runs of its workflow, if it is part of one.
    #[default]
    #[n(2)]
    PerWorkflow,
}

/// Whose workspace a run works in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home<'a> {
    Session(&'a str),
    Workflow(&'a str),
    Everybody,
    Own,
}

impl Isolation {
    /// A session comes first, whatever else is said; then the workflow; then the run itself.
    pub fn home<'a>(self, session: Option<&'a str>, workflow_run: Option<&'a str>) -> Home<'a> {
        match (self, session, workflow_run) {
            (_, Some(session), _) => Home::Session(session),
            (Isolation::Shared, None, _) => Home::Everybody,
            (Isolation::PerWorkflow, None, Some(workflow_run)) => Home::Workflow(workflow_run),
            (Isolation::PerWorkflow, None, None) | (Isolation::PerRun, None, _) => Home::Own,
        }
    }
}

impl FromStr for Way {
    type Err = String;

    fn from_str(text: &str) -> Result<Way, String> {
        match text {
            "sequential" => Ok(Way::Sequential),
            "parallel" => Ok(Way::Parallel),
            other => Err(format!("it is sequential or parallel, not {other:?}")),
        }
    }
}

impl FromStr for Strategy {
    type Err = String;

    fn from_str(text: &str) -> Result<Strategy, String> {
        match text {
            "shared" => Ok(Strategy::Shared),
            "per_agent" => Ok(Strategy::PerAgent),
            other => Err(format!("it is shared or per_agent, not {other:?}")),
        }
    }
}

impl FromStr for Isolation {
    type Err = String;

    fn from_str(text: &str) -> Result<Isolation, String> {
        match text {
            "shared" => Ok(Isolation::Shared),
            "per_run" => Ok(Isolation::PerRun),
            "per_workflow" => Ok(Isolation::PerWorkflow),
            other => Err(format!("it is shared, per_run or per_workflow, not {other:?}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D14.6, D14.7: a session goes before a workflow, a workflow before the run itself, and the mode decides among the rest.
    #[test]
    fn whose_workspace_it_is() {
        let (session, workflow) = (Some("s"), Some("w"));
        let table = [
            (Isolation::PerWorkflow, session, workflow, Home::Session("s")),
            (Isolation::PerWorkflow, session, None, Home::Session("s")),
            (Isolation::PerWorkflow, None, workflow, Home::Workflow("w")),
            (Isolation::PerWorkflow, None, None, Home::Own),
            (Isolation::PerRun, session, workflow, Home::Session("s")),
            (Isolation::PerRun, None, workflow, Home::Own),
            (Isolation::PerRun, None, None, Home::Own),
            (Isolation::Shared, session, workflow, Home::Session("s")),
            (Isolation::Shared, None, workflow, Home::Everybody),
            (Isolation::Shared, None, None, Home::Everybody),
        ];
        for (isolation, session, workflow, home) in table {
            assert_eq!(isolation.home(session, workflow), home, "{isolation:?} {session:?} {workflow:?}");
        }
        assert_eq!(Isolation::default(), Isolation::PerWorkflow);
    }
}
