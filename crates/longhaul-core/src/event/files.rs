//! What became of the files of a workspace when they were to be stored or committed, and of its branches.

use minicbor::{Decode, Encode};

/// What became of the files of a workspace when they were to be stored.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stored {
    /// They are kept as this tree.
    #[n(0)]
    Tree {
        #[n(0)]
        tree: String,
        /// How many files and nested repositories are no part of it.
        #[n(1)]
        left_out: u32,
    },
    #[n(1)]
    Failed {
        #[n(0)]
        why: String,
    },
}

/// When the files of a workspace were stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize, serde::Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
pub enum Moment {
    /// The intent of the first call that may change them was on record, and nothing done.
    #[n(0)]
    BeforeFirst,
    /// As things stand on record.
    #[n(1)]
    Now,
}

/// What became of the files in a run's worktree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode)]
pub enum Kept {
    /// They are on the branch, as this commit.
    #[n(0)]
    Committed {
        #[n(0)]
        commit: String,
        /// `None` on no branch.
        #[n(1)]
        branch: Option<String>,
    },
    /// None of them had changed since the last commit, which may be one that the agent made.
    #[n(1)]
    Unchanged {
        /// That commit; nothing where it was not yet on record.
        #[n(0)]
        head: Option<String>,
    },
    /// They are where they were, and not committed.
    #[n(2)]
    Uncommitted {
        #[n(0)]
        why: String,
    },
}

/// A branch that the user's repository got from a worktree with a git directory of its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Encode, Decode, serde::Serialize)]
pub struct Brought {
    #[n(0)]
    pub branch: String,
    /// What it is there now.
    #[n(1)]
    pub commit: String,
}

impl Brought {
    /// The branch as people call it.
    pub fn name(&self) -> &str {
        self.branch.strip_prefix("refs/heads/").unwrap_or(&self.branch)
    }
}

impl Kept {
    /// The commit that holds the files, if one does and is on record.
    pub fn head(&self) -> Option<&str> {
        match self {
            Kept::Committed { commit, .. } => Some(commit),
            Kept::Unchanged { head } => head.as_deref(),
            Kept::Uncommitted { .. } => None,
        }
    }
}
