//! Why a file is no script, in words that name the file, the line and what would be right.

use std::str::Utf8Error;

use serde_saphyr::{Location, MessageFormatter, UserMessageFormatter};

use super::suggest;
use crate::limits;

#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("cannot read script `{file}`")]
    Unreadable { file: String, source: std::io::Error },
    #[error("script `{file}` is not a regular file")]
    NotAFile { file: String },
    #[error("script `{file}` is larger than {} bytes", limits::SCRIPT_BYTES_MAX)]
    TooLarge { file: String },
    #[error("{file}:{line}:{column}: {problem}")]
    Wrong { file: String, line: u64, column: u64, problem: String, hint: Option<String> },
}

impl ScriptError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            ScriptError::Wrong { hint, .. } => hint.as_deref(),
            ScriptError::Unreadable { .. } | ScriptError::NotAFile { .. } | ScriptError::TooLarge { .. } => {
                None
            }
        }
    }

    pub(super) fn empty(file: &str) -> ScriptError {
        let hint = "a script needs `conversations: [ { turns: [ { text: … } ] } ]`";
        Place { file: file.to_owned(), line: 1, column: 1 }.error_with_hint("the script is empty", hint)
    }

    pub(super) fn not_utf8(file: &str, error: &Utf8Error, bytes: &[u8]) -> ScriptError {
        let before = &bytes[..error.valid_up_to()];
        let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let line = 1 + before.iter().filter(|&&byte| byte == b'\n').count() as u64;
        let column = 1 + (before.len() - line_start) as u64;
        Place { file: file.to_owned(), line, column }.error("the script is not UTF-8 text")
    }

    pub(super) fn from_yaml(file: &str, error: &serde_saphyr::Error) -> ScriptError {
        let place = Place::new(file, error.location().unwrap_or(Location::UNKNOWN));
        let (problem, hint) = explain(error);
        match hint {
            Some(hint) => place.error_with_hint(problem, hint),
            None => place.error(problem),
        }
    }
}

/// A spot in a script's text.
pub(super) struct Place {
    file: String,
    line: u64,
    column: u64,
}

impl Place {
    pub(super) fn new(file: &str, location: Location) -> Place {
        // An error the parser cannot place concerns the whole file, which begins at 1:1.
        Place { file: file.to_owned(), line: location.line().max(1), column: location.column().max(1) }
    }

    pub(super) fn error(self, problem: impl Into<String>) -> ScriptError {
        let Place { file, line, column } = self;
        ScriptError::Wrong { file, line, column, problem: problem.into(), hint: None }
    }

    pub(super) fn error_with_hint(self, problem: impl Into<String>, hint: impl Into<String>) -> ScriptError {
        let Place { file, line, column } = self;
        ScriptError::Wrong { file, line, column, problem: problem.into(), hint: Some(hint.into()) }
    }
}

/// The parser's errors in a script writer's words, with the help that can be given for some of them.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's enum is open; what is not named explains itself"
)]
fn explain(error: &serde_saphyr::Error) -> (String, Option<String>) {
    use serde_saphyr::Error as Yaml;
    match error {
        Yaml::AliasError { error, .. } | Yaml::WithSnippet { error, .. } => explain(error),
        Yaml::SerdeUnknownField { field, expected, .. } => {
            (format!("unknown key `{field}`"), Some(suggest::names("keys", field, expected)))
        }
        Yaml::SerdeMissingField { field, .. } => (format!("the key `{field}` is missing"), None),
        Yaml::DuplicateMappingKey { key: Some(key), .. } => (format!("the key `{key}` is there twice"), None),
        Yaml::MultipleDocuments { .. } => {
            ("a script is one document, and here begins another".to_owned(), None)
        }
        Yaml::Budget { breach, .. } => (format!("the script is too deep or too large: {breach:?}"), None),
        Yaml::Unexpected { expected, .. } => (format!("expected {}", shape(expected)), None),
        Yaml::InvalidScalar { ty, .. } => (format!("expected {}", shape(ty)), None),
        other => (UserMessageFormatter.format_message(other).into_owned(), None),
    }
}

/// The parser's names of shapes, as people say them; a name not listed is good enough as it is.
fn shape(name: &str) -> &str {
    match name {
        "sequence start" => "a list",
        "mapping start" => "a mapping",
        "string scalar" => "a text",
        "u16" | "u32" | "u64" | "usize" => "a whole number, zero or more",
        "f64" => "a number",
        other => other,
    }
}
