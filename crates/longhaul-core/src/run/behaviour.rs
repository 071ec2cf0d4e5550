//! How the model and the agent have been behaving: whether they answer, and whether they get anywhere.

use serde::{Deserialize, Serialize};

use crate::time::Timestamp;

/// How the model in use has been behaving; what decides between waiting, another model, and a person.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Patience {
    /// Failures of the model in use since it answered or was switched to.
    pub failures: u32,
    /// Replies since the last whole one that began and broke off: each may have cost money.
    pub broken: u32,
    /// Replies in a row that came whole and were none.
    pub garbled: u32,
    /// Models switched to since the last answer or rest.
    pub switches: u32,
    /// Replies in a row that ran into the limit of output tokens and asked for nothing.
    pub cut_off: u32,
    /// Has the model in use ever answered, even if only to refuse?
    pub reached: bool,
    /// Models that only a person can make usable again.
    pub unusable: Vec<String>,
    /// Models that asked to be left alone, and until when.
    pub held: Vec<(String, Timestamp)>,
}

/// A time without an answer. Its beginning, every change of its kind, and its end are news; the failures in between are not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Silence {
    pub since: Timestamp,
    /// What was told of it: which model failed how, and which was tried instead.
    pub told: Vec<String>,
    /// Did the last event of it tell anything new?
    pub news: bool,
    pub ended: Option<Timestamp>,
}

impl Silence {
    pub fn is_news(&self) -> bool {
        self.news
    }

    pub(super) fn tell(&mut self, what: String) {
        self.news = !self.told.contains(&what);
        if self.news {
            self.told.push(what);
        }
    }
}

/// What an agent does without getting anywhere.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pace {
    /// Replies in a row with neither a word nor a call.
    pub empty_replies: u32,
    /// Claims in a row that this tree is done, all refuted.
    pub refuted: u32,
    /// Iterations in a row that left the tree as it was.
    pub idle_iterations: u32,
    /// Times in a row that a judge refused one and the same tree.
    pub judge_refusals: u32,
    pub judged_tree: Option<String>,
    /// Conversations begun anew in this step since a person last started the run.
    pub fresh_starts: u32,
    /// Of those, the last in a row that were begun because the one before did not fit the window at its beginning.
    pub early_overflows: u32,
    /// The tree when the last iteration ended, or the last claim was refuted.
    pub tree: Option<String>,
}
