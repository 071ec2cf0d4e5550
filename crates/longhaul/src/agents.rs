//! Agent files: Markdown with YAML front matter, the body being the system prompt.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::failure::Failure;
use crate::limits::FILE_BYTES_MAX;

/// An agent as a run is created with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    pub name: String,
    /// The models to work with, in order of preference; empty if the file names none.
    pub models: Vec<String>,
    /// `None`: all built-in tools.
    pub tools: Option<Vec<String>>,
    pub prompt: String,
    /// The file it was read from; `None` for the built-in default.
    pub file: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FrontMatter {
    name: Option<String>,
    description: Option<String>,
    model: Option<String>,
    models: Option<Vec<String>>,
    tools: Option<Vec<String>>,
}

const DEFAULT_PROMPT: &str = include_str!("default_prompt.md");

/// Finds `NAME.md` in the directories, in order. A name without a file gets the default prompt and all tools.
pub fn find(dirs: &[PathBuf], name: &str) -> Result<Agent, Failure> {
    let plain = !name.is_empty()
        && name.chars().all(|letter| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.'))
        && !name.starts_with('.');
    if !plain {
        return Err(Failure::usage(format!(
            "`{name}` is not an agent's name: letters, digits, `-`, `_` and `.` only"
        )));
    }
    for dir in dirs {
        let path = dir.join(format!("{name}.md"));
        if path.is_file() {
            return read(name, &path);
        }
    }
    Ok(Agent {
        name: name.to_owned(),
        models: Vec::new(),
        tools: None,
        prompt: DEFAULT_PROMPT.to_owned(),
        file: None,
    })
}

fn read(name: &str, path: &Path) -> Result<Agent, Failure> {
    let shown = path.display();
    let wrong = |why: String| Failure::usage(format!("{shown}: {why}"));
    let bytes = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(wrong(format!("{bytes} bytes are more than {FILE_BYTES_MAX}")));
    }
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let (matter, body) =
        split(&text).ok_or_else(|| wrong("the front matter that `---` opens is not closed".to_owned()))?;
    let matter: FrontMatter = if matter.trim().is_empty() {
        FrontMatter::default()
    } else {
        let options = serde_saphyr::options! { strict_booleans: true };
        serde_saphyr::from_str_with_options(matter, options).map_err(|error| wrong(error.to_string()))?
    };
    let models = match (matter.model, matter.models) {
        (Some(_), Some(_)) => return Err(wrong("give `model` or `models`, not both".to_owned())),
        (Some(model), None) => vec![model],
        (None, models) => models.unwrap_or_default(),
    };
    let prompt = if body.trim().is_empty() { DEFAULT_PROMPT } else { body.trim() };
    Ok(Agent {
        name: name.to_owned(),
        models,
        tools: matter.tools,
        prompt: prompt.to_owned(),
        file: Some(path.to_owned()),
    })
}

/// Front matter and body; `None` if the front matter has no end.
fn split(text: &str) -> Option<(&str, &str)> {
    let Some(rest) = text.strip_prefix("---\n").or_else(|| text.strip_prefix("---\r\n")) else {
        return Some(("", text));
    };
    let mut start = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return Some((&rest[..start], &rest[start + line.len()..]));
        }
        start += line.len();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_split_off() {
        assert_eq!(split("---\na: 1\n---\nbody\n"), Some(("a: 1\n", "body\n")));
        assert_eq!(split("no matter"), Some(("", "no matter")));
        assert_eq!(split("---\na: 1\nbody"), None);
    }

    #[test]
    fn an_unknown_field_is_an_error_that_names_the_file() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("x.md"), "---\ntoolz: [read]\n---\nhello").unwrap();
        let failure = find(&[directory.path().to_owned()], "x").unwrap_err();
        let text = failure.error.to_string();
        assert!(text.contains("x.md") && text.contains("toolz"), "{text}");
    }
}
