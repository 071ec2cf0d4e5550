//! What is on record of the files in a run's workspace: whether anything may have changed them since they were last stored.

use serde::{Deserialize, Serialize};

use crate::event::{Moment, Stored};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Files {
    /// Nothing that may change them has begun.
    #[default]
    Untouched,
    /// The first thing that may change them has its intent on record, in the process that has just written it.
    Beginning,
    /// They may be anything.
    Changed,
    /// They are as this stored tree.
    Stored { tree: String },
}

impl Files {
    /// Something begins that may change them.
    pub(super) fn touch(&mut self) {
        *self = match self {
            Files::Untouched => Files::Beginning,
            Files::Beginning | Files::Changed | Files::Stored { .. } => Files::Changed,
        };
    }

    /// Something that had begun before has had its last chance to change them.
    pub(super) fn go_on_changing(&mut self) {
        *self = match self {
            Files::Untouched => Files::Untouched,
            Files::Beginning | Files::Changed | Files::Stored { .. } => Files::Changed,
        };
    }

    /// Another process has taken the run up, and cannot know how far the first got.
    pub(super) fn lose_sight(&mut self) {
        if *self == Files::Beginning {
            *self = Files::Changed;
        }
    }

    pub(super) fn store(&mut self, stored: &Stored, moment: Moment) {
        *self = match (stored, moment) {
            (Stored::Tree { tree, .. }, Moment::Now) => Files::Stored { tree: tree.clone() },
            (Stored::Tree { .. }, Moment::BeforeFirst) | (Stored::Failed { .. }, _) => Files::Changed,
        };
    }
}
