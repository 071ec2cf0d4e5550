//! What the harness itself saw of the work: the tree, the verify commands that ran on it, and the files that tell the next
//! iteration where things stand. An agent's word is never part of it.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::handoff;
use crate::limits::{CHECK_OUTPUT_BYTES_MAX, CHECK_TEXT_BYTES_MAX};
use crate::text::Text;

/// One look at the workspace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Examination {
    /// Hash of the files on which the verify commands ran; nothing if they could not be hashed.
    #[n(0)]
    pub tree: Option<String>,
    #[n(1)]
    #[cbor(default)]
    pub checks: Vec<Check>,
    /// The agent's own note for its successor, if there is one that can be read.
    #[n(2)]
    pub handoff: Option<String>,
    /// What was odd: a broken handoff, a tree that could not be hashed.
    #[n(3)]
    #[cbor(default)]
    pub warnings: Vec<String>,
    #[n(4)]
    #[cbor(default)]
    pub protected: Vec<ProtectedChange>,
    #[n(5)]
    pub features: Option<Features>,
    /// What was changed since the run began, as `git diff --stat` says it.
    #[n(6)]
    pub changes: Option<String>,
    /// The blob that says how protected files are as the run begins.
    #[n(7)]
    pub baseline: Option<String>,
    /// The commit the work starts from.
    #[n(8)]
    pub commit: Option<String>,
    /// Hash of the files after the verify commands, if those changed any.
    #[n(9)]
    pub tree_after: Option<String>,
    /// What was changed, line by line, as far as a judge is shown it.
    #[n(20)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

/// One verify command, run by the harness.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Check {
    #[n(0)]
    pub command: String,
    #[n(1)]
    pub passed: bool,
    /// How it ended: `exit code 1`, `timed out after …`.
    #[n(2)]
    pub ended: String,
    /// The end of what it printed.
    #[n(3)]
    pub output: Text,
    /// All of it.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
    #[n(5)]
    pub duration_us: u64,
}

/// A protected file that is not what it was when the run began.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProtectedChange {
    #[n(0)]
    pub path: String,
    /// `changed`, `removed`, `added` or `mode changed`.
    #[n(1)]
    pub what: String,
    /// Was it put back?
    #[n(2)]
    pub undone: bool,
    /// The blob that holds what was there before it was put back.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

/// The list that a loop over features goes by.
pub const FEATURES_PATH: &str = "feature_list.json";

/// How many features of the list pass.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Features {
    #[n(0)]
    pub passing: u32,
    #[n(1)]
    pub total: u32,
    /// What was put back because only `passes` may change.
    #[n(2)]
    #[cbor(default)]
    pub restored: Vec<String>,
    /// The blob of the list as it was last seen whole.
    #[n(3)]
    pub list: Option<String>,
}

impl Features {
    pub fn all_pass(&self) -> bool {
        self.total > 0 && self.passing == self.total
    }
}

impl Examination {
    pub fn failed(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| !check.passed)
    }

    /// Did everything that was asked for hold?
    pub fn holds(&self) -> bool {
        self.failed().next().is_none() && !self.protected.iter().any(|change| change.undone)
    }

    /// What did not hold, for the agent: the start of its next turn or iteration.
    pub fn complaint(&self) -> String {
        let mut text = String::new();
        let is_of_agent =
            |warning: &&String| [handoff::PATH, FEATURES_PATH].iter().any(|path| warning.starts_with(path));
        for warning in self.warnings.iter().filter(is_of_agent) {
            text.push_str(&format!("{warning}\n\n"));
        }
        let undone: Vec<&str> =
            self.protected.iter().filter(|change| change.undone).map(|change| change.path.as_str()).collect();
        if !undone.is_empty() {
            text.push_str(&format!(
                "These files are protected; your changes to them were undone: {}. Do the work without changing them.\n\n",
                undone.join(", ")
            ));
        }
        let failed: Vec<&Check> = self.failed().collect();
        if !failed.is_empty() {
            text.push_str("The work does not count as done: longhaul ran the verify commands itself, and these failed.\n\n");
        }
        let room = CHECK_TEXT_BYTES_MAX / failed.len().max(1);
        for check in failed {
            let output = tail(&check.output, room);
            text.push_str(&format!("$ {}\n[{}]\n{output}\n\n", check.command, check.ended));
        }
        if let Some(features) = self.features.as_ref().filter(|features| !features.restored.is_empty()) {
            text.push_str(&format!(
                "In {FEATURES_PATH} only `passes` may be changed. Put back as it was: {}.\n\n",
                features.restored.join(", ")
            ));
        }
        text
    }

    /// The same with texts of bounded length.
    #[must_use]
    pub fn bounded(mut self) -> Examination {
        for check in &mut self.checks {
            if check.output.len() > CHECK_OUTPUT_BYTES_MAX {
                check.output = tail(&check.output, CHECK_OUTPUT_BYTES_MAX).to_owned().into();
            }
        }
        self
    }
}

/// The longest end of at most `bytes_max` bytes that begins between characters.
pub fn tail(text: &str, bytes_max: usize) -> &str {
    let mut start = text.len().saturating_sub(bytes_max);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    &text[start..]
}
