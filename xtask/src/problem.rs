//! One thing that is wrong in the tree, and where.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Problem {
    pub(crate) path: String,
    pub(crate) line: usize,
    /// What is wrong; what to do.
    pub(crate) text: String,
}

impl Problem {
    pub(crate) fn new(path: &str, line: usize, text: impl Into<String>) -> Problem {
        Problem { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}
