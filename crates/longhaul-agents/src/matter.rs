//! Front matter as it is written: where it ends, what YAML makes of it, and on which line a field stands.
//!
//! Owns the way from a YAML error to one sentence with a line and a field. Refuses to judge values.

use std::collections::BTreeMap;

use longhaul_core::permission::Permissions;
use longhaul_core::suggest::closest;
use serde::Deserialize;
use serde_saphyr::Error;

use crate::agent::ProtectPolicy;

/// Numbers are wide and signed here, so that a negative or absurd one is told what it is.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Matter {
    pub(crate) name: Option<String>,
    pub(crate) role: Option<String>,
    pub(crate) description: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) models: Option<Vec<String>>,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) harness: Option<String>,
    pub(crate) harness_config: Option<HarnessConfig>,
    pub(crate) autonomy: Option<i64>,
    pub(crate) limits: Option<Limits>,
    pub(crate) verify: Option<Vec<String>>,
    pub(crate) protect: Option<Vec<String>>,
    pub(crate) protect_policy: Option<ProtectPolicy>,
    pub(crate) permissions: Option<Permissions>,
    pub(crate) mcp: Option<Vec<String>>,
    pub(crate) summarizer: Option<String>,
    pub(crate) judge: Option<String>,
    pub(crate) accept: Option<Vec<String>>,
    pub(crate) compaction: Option<Compaction>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HarnessConfig {
    pub(crate) max_steps: Option<i64>,
    pub(crate) doom_loop_threshold: Option<i64>,
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    pub(crate) max_tool_calls: Option<i64>,
    pub(crate) max_tokens: Option<i64>,
    pub(crate) max_cost: Option<f64>,
    pub(crate) max_iterations: Option<i64>,
    pub(crate) max_iteration_steps: Option<i64>,
    pub(crate) max_iteration_tokens: Option<i64>,
    pub(crate) max_iteration_cost: Option<f64>,
    pub(crate) policies: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Compaction {
    pub(crate) enabled: Option<bool>,
    pub(crate) threshold: Option<f64>,
    pub(crate) protect_tokens: Option<i64>,
}

/// What is wrong, and on which line of the file.
pub(crate) struct Complaint {
    pub(crate) line: usize,
    pub(crate) why: String,
}

/// Front matter and body; `None` if the front matter has no end.
pub(crate) fn split(text: &str) -> Option<(&str, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
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

impl Matter {
    pub(crate) fn parse(text: &str) -> Result<Matter, Complaint> {
        let says_nothing =
            text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if says_nothing {
            return Ok(Matter::default());
        }
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        serde_saphyr::from_str_with_options(text, options).map_err(|error| complaint(text, &error))
    }
}

/// One sentence for an error of YAML's.
fn complaint(text: &str, error: &Error) -> Complaint {
    let at = error.location().map_or(1, |location| usize::try_from(location.line()).unwrap_or(1)).max(1);
    // The front matter begins on the second line of its file.
    let line = at + 1;
    let field = path_at(text, at);
    let named = |why: &str| if field.is_empty() { why.to_owned() } else { format!("`{field}`: {why}") };
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "another crate's errors, of which some are worth more words"
    )]
    let why = match error.without_snippet() {
        Error::SerdeUnknownField { field: typed, expected, .. } => {
            unknown(&format!("field of {}", holder(&field, typed)), typed, expected)
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => named(&unknown("choice", variant, expected)),
        Error::DuplicateMappingKey { key: Some(key), .. } => format!("`{key}` is there twice"),
        Error::InvalidScalar { ty, .. } => named(wanted(ty)),
        Error::InvalidBooleanStrict { .. } => named("must be true or false"),
        Error::Unexpected { expected, .. } => named(wanted(expected)),
        other => named(&first_line(&other.to_string())),
    };
    Complaint { line, why }
}

/// What a field at that place is one of: the whole agent, or a field of it that has fields itself, on one line or on several.
fn holder<'a>(path: &'a str, field: &str) -> &'a str {
    match path.rsplit_once('.') {
        Some((holder, last)) if last == field => holder,
        Some(_) => path,
        None if path.is_empty() || path == field => "an agent",
        None => path,
    }
}

/// What is not known, what was probably meant, and what there is.
pub(crate) fn unknown(what: &str, typed: &str, known: &[&str]) -> String {
    let typed: String = typed.chars().take(60).collect();
    let meant = closest(&typed, known).map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
    let meant = if meant.is_empty() { format!("; there are: {}", known.join(", ")) } else { meant };
    format!("`{typed}` is not a {what}{meant}")
}

/// What a field takes, in words.
fn wanted(yaml: &'static str) -> &'static str {
    match yaml {
        "i64" => "must be a whole number",
        "f64" => "must be a number",
        "sequence start" => "must be a list",
        "string scalar" => "must be a text",
        "mapping start" => "must be fields with values",
        other => other,
    }
}

/// The first line of YAML's own words, without the place: that is said in lines of the file.
fn first_line(text: &str) -> String {
    let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let (why, _) = line.split_once(" at line ").unwrap_or((line, ""));
    why.trim().chars().take(300).collect()
}

/// The field that a line belongs to, with those it stands in: `limits.max_cost`. Empty if that cannot be told.
fn path_at(text: &str, line: usize) -> String {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let mut path = Vec::new();
    let mut indent = usize::MAX;
    for line in lines.iter().rev() {
        let inner = line.trim_start();
        let depth = line.len() - inner.len();
        if depth < indent
            && let Some(key) = key_of(inner)
        {
            path.push(key);
            indent = depth;
        }
        if indent == 0 {
            break;
        }
    }
    path.reverse();
    path.join(".")
}

fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once(':')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    (!key.is_empty() && !key.starts_with('-') && key.chars().all(plain)).then_some(key)
}

/// On which line of the file each field stands, as far as it has one of its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(BTreeMap<String, usize>);

/// Where fields stand is no part of what an agent is.
impl PartialEq for Lines {
    fn eq(&self, _: &Lines) -> bool {
        true
    }
}

impl Lines {
    pub(crate) fn of(matter: &str) -> Lines {
        let mut lines = BTreeMap::new();
        let (mut section, mut entries) = ("", 0);
        for (at, line) in matter.lines().enumerate() {
            let inner = line.trim_start();
            // An entry of a list that has a line of its own.
            if inner == "-" || inner.starts_with("- ") {
                lines.entry(format!("{section}[{entries}]")).or_insert(at + 2);
                entries += 1;
                continue;
            }
            let Some(key) = key_of(inner) else { continue };
            if inner.len() == line.len() {
                (section, entries) = (key, 0);
                lines.entry(key.to_owned()).or_insert(at + 2);
            } else {
                lines.entry(format!("{section}.{key}")).or_insert(at + 2);
            }
        }
        Lines(lines)
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// The line of an entry of a list, or of the list if it is all on one line.
    pub(crate) fn line_of_entry(&self, field: &str, entry: usize) -> usize {
        self.0.get(&format!("{field}[{entry}]")).copied().unwrap_or_else(|| self.line(field))
    }

    /// The line of a field, or of the one it stands in; the first one if that is not known.
    pub(crate) fn line(&self, field: &str) -> usize {
        let section = field.split('.').next().unwrap_or_default();
        self.0.get(field).or_else(|| self.0.get(section)).copied().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_split_off() {
        assert_eq!(split("---\na: 1\n---\nbody\n"), Some(("a: 1\n", "body\n")));
        assert_eq!(split("\u{feff}---\r\na: 1\r\n---\r\nbody"), Some(("a: 1\r\n", "body")));
        assert_eq!(split("no matter"), Some(("", "no matter")));
        assert_eq!(split("---\na: 1\nbody"), None);
    }

    #[test]
    fn fields_are_found_again() {
        let matter = "model: a/b\nlimits:\n  max_cost: 1\n  max_tokens: 2\nverify:\n  - x: y\n";
        let lines = Lines::of(matter);
        assert_eq!((lines.line("limits.max_tokens"), lines.line("limits.other"), lines.line("x")), (5, 3, 1));
        assert_eq!((lines.line_of_entry("verify", 0), lines.line_of_entry("verify", 1)), (7, 6));
        assert_eq!(path_at(matter, 4), "limits.max_tokens");
        assert_eq!(path_at(matter, 6), "verify");
    }
}
