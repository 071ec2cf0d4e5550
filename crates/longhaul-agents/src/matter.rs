//! Front matter as it is written: where it ends, what YAML makes of it, and on which line a field stands.
//!
//! Owns the way from a YAML error to one sentence with a line and a field. Refuses to judge values.

use std::collections::BTreeMap;

use longhaul_core::permission::Permissions;
use longhaul_core::suggest::closest;
use serde::{Deserialize, Deserializer};
use serde_saphyr::Error;

use crate::agent::ProtectPolicy;
use crate::limits::{FENCE_LETTERS_SHOWN_MAX, MATTER_SOUGHT_LINES_MAX};

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
    #[serde(deserialize_with = "nothing_is_empty")]
    pub(crate) harness: Option<String>,
    pub(crate) harness_config: Option<HarnessConfig>,
    pub(crate) autonomy: Option<i128>,
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
    pub(crate) max_steps: Option<i128>,
    pub(crate) doom_loop_threshold: Option<i128>,
    pub(crate) timeout: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Limits {
    pub(crate) max_tool_calls: Option<i128>,
    pub(crate) max_tokens: Option<i128>,
    pub(crate) max_cost: Option<f64>,
    pub(crate) max_iterations: Option<i128>,
    pub(crate) max_iteration_steps: Option<i128>,
    pub(crate) max_iteration_tokens: Option<i128>,
    pub(crate) max_iteration_cost: Option<f64>,
    pub(crate) policies: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Compaction {
    pub(crate) enabled: Option<bool>,
    pub(crate) threshold: Option<f64>,
    pub(crate) protect_tokens: Option<i128>,
}

/// A field that is written with nothing behind it says something else than one that is not there.
fn nothing_is_empty<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    Option::deserialize(from).map(|text: Option<String>| Some(text.unwrap_or_default()))
}

/// What is wrong, and on which line of the file.
pub(crate) struct Complaint {
    pub(crate) line: usize,
    pub(crate) why: String,
}

/// An agent file taken apart.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    pub(crate) matter: &'a str,
    /// The line of the file that the front matter begins on; `None` if the file has none.
    pub(crate) first_line: Option<usize>,
    pub(crate) body: &'a str,
}

/// Front matter and body. What was meant as front matter and is none is an error: without it, the agent would have every tool.
pub(crate) fn split(text: &str) -> Result<Parts<'_>, Complaint> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let blank: usize =
        text.split_inclusive('\n').take_while(|line| line.trim().is_empty()).map(str::len).sum();
    let opened = text[..blank].matches('\n').count() + 1;
    let rest = &text[blank..];
    let fence = rest.split_inclusive('\n').next().unwrap_or_default();
    if fence.trim_end() != FENCE {
        return match misplaced(rest) {
            Some((at, why)) => Err(Complaint { line: opened + at, why }),
            None => Ok(Parts { matter: "", first_line: None, body: text }),
        };
    }
    let rest = &rest[fence.len()..];
    let mut start = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == FENCE {
            let (matter, body) = (&rest[..start], &rest[start + line.len()..]);
            return Ok(Parts { matter, first_line: Some(opened + 1), body });
        }
        start += line.len();
    }
    let why = "the front matter that `---` opens is not closed by another `---`".to_owned();
    Err(Complaint { line: opened, why })
}

const FENCE: &str = "---";

/// Where something stands that was meant as front matter, counted from nothing, and what to write instead.
fn misplaced(text: &str) -> Option<(usize, String)> {
    let lines: Vec<&str> = text.lines().take(MATTER_SOUGHT_LINES_MAX).collect();
    let first = said_first(&lines)?;
    if has_dashes(lines[first]) {
        return Some((first, wrong_fence(lines[first])));
    }
    let fence = (first..lines.len()).find(|&at| has_dashes(lines[at]))?;
    if is_field(lines[first]) {
        return Some((first, "this looks like front matter; write a line `---` above it".to_owned()));
    }
    let is_followed = lines.get(fence + 1).is_some_and(|line| is_field(line));
    is_followed.then(|| (fence, wrong_fence(lines[fence])))
}

fn wrong_fence(line: &str) -> String {
    let line = line.trim_end();
    format!(
        "`{}` looks like the start of front matter; write `---` as the first line of the file, not indented, with nothing above it",
        line.chars().take(FENCE_LETTERS_SHOWN_MAX).collect::<String>()
    )
}

/// The first line that is neither empty nor of a comment.
fn said_first(lines: &[&str]) -> Option<usize> {
    let mut in_comment = false;
    lines.iter().position(|line| {
        let begins = line.trim_start().starts_with("<!--");
        let is_comment = in_comment || begins;
        in_comment = is_comment && !line.contains("-->");
        !is_comment && !line.trim().is_empty()
    })
}

fn has_dashes(line: &str) -> bool {
    let line = line.trim();
    line.len() >= FENCE.len() && line.bytes().all(|byte| byte == b'-')
}

/// Does the line begin with the name of one of an agent's fields?
fn is_field(line: &str) -> bool {
    key_of(line.trim_start()).is_some_and(|key| FIELDS.contains(&key))
}

/// What front matter may say. A test holds it against what is read.
const FIELDS: &[&str] = &[
    "name",
    "role",
    "description",
    "model",
    "models",
    "tools",
    "harness",
    "harness_config",
    "autonomy",
    "limits",
    "verify",
    "protect",
    "protect_policy",
    "permissions",
    "mcp",
    "summarizer",
    "judge",
    "accept",
    "compaction",
];

impl Matter {
    /// `first_line` is where the text stands in its file.
    pub(crate) fn parse(text: &str, first_line: usize) -> Result<Matter, Complaint> {
        let says_nothing =
            text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'));
        if says_nothing {
            return Ok(Matter::default());
        }
        let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
        serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| complaint(text, first_line, &error))
    }
}

/// One sentence for an error of YAML's.
fn complaint(text: &str, first_line: usize, error: &Error) -> Complaint {
    let place = error.location();
    let number = |number: u64| usize::try_from(number).unwrap_or(1).max(1);
    let at = place.map_or(1, |place| number(place.line()));
    let line = first_line + at - 1;
    let field = place.map_or_else(String::new, |place| field_at(text, at, number(place.column())));
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
        other => named(&in_short(&other.to_string())),
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
        "i128" => "must be a whole number of at most 38 digits",
        "f64" => "must be a number",
        "sequence start" => "must be a list",
        "string scalar" => "must be a text",
        "mapping start" => "must be fields with values",
        other => other,
    }
}

/// The first line of YAML's own words, without the place: that is said in lines of the file.
fn in_short(text: &str) -> String {
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

/// The same, and within a mapping that is written on one line the field that the column belongs to.
fn field_at(text: &str, line: usize, column: usize) -> String {
    let holder = path_at(text, line);
    let written = text.lines().nth(line - 1).unwrap_or_default();
    let before: String = written.chars().take(column - 1).collect();
    let inner = before.contains('{').then(|| before.rsplit(['{', ',']).next()).flatten();
    match inner.and_then(|inner| key_of(inner.trim_start())) {
        Some(key) if !holder.is_empty() => format!("{holder}.{key}"),
        Some(_) | None => holder,
    }
}

fn key_of(line: &str) -> Option<&str> {
    let (key, _) = line.split_once(':')?;
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-');
    (!key.is_empty() && !key.starts_with('-') && key.chars().all(plain)).then_some(key)
}

/// On which line of the file each field stands, as far as it has one of its own. `None` for a file without front matter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines(Option<BTreeMap<String, usize>>);

/// Where fields stand is no part of what an agent is.
impl PartialEq for Lines {
    fn eq(&self, _: &Lines) -> bool {
        true
    }
}

impl Lines {
    pub(crate) fn of(matter: &str, first_line: usize) -> Lines {
        let mut lines = BTreeMap::new();
        let (mut section, mut entries) = ("", 0);
        for (at, line) in matter.lines().enumerate() {
            let inner = line.trim_start();
            // An entry of a list that has a line of its own.
            if inner == "-" || inner.starts_with("- ") {
                lines.entry(format!("{section}[{entries}]")).or_insert(first_line + at);
                entries += 1;
                continue;
            }
            let Some(key) = key_of(inner) else { continue };
            if inner.len() == line.len() {
                (section, entries) = (key, 0);
                lines.entry(key.to_owned()).or_insert(first_line + at);
            } else {
                lines.entry(format!("{section}.{key}")).or_insert(first_line + at);
            }
        }
        Lines(Some(lines))
    }

    /// Is there front matter at all?
    pub(crate) fn are_there(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.own(field).is_some()
    }

    fn own(&self, field: &str) -> Option<usize> {
        self.0.as_ref()?.get(field).copied()
    }

    /// The line of an entry of a list, or of the list if it is all on one line.
    pub(crate) fn line_of_entry(&self, field: &str, entry: usize) -> usize {
        self.own(&format!("{field}[{entry}]")).unwrap_or_else(|| self.line(field))
    }

    /// The line of a field, or of the one it stands in; the first one if that is not known.
    pub(crate) fn line(&self, field: &str) -> usize {
        let section = field.split('.').next().unwrap_or_default();
        self.own(field).or_else(|| self.own(section)).unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str) -> Result<(&str, Option<usize>, &str), usize> {
        let parts = split(text).map_err(|complaint| complaint.line)?;
        Ok((parts.matter, parts.first_line, parts.body))
    }

    /// D1.2: white space after a fence and above the first one is nobody's intent.
    #[test]
    fn front_matter_is_split_off() {
        assert_eq!(parts("---\na: 1\n---\nbody\n"), Ok(("a: 1\n", Some(2), "body\n")));
        assert_eq!(parts("\u{feff}---\r\na: 1\r\n---\r\nbody"), Ok(("a: 1\r\n", Some(2), "body")));
        assert_eq!(parts("--- \t\na: 1\n---  \nbody"), Ok(("a: 1\n", Some(2), "body")));
        assert_eq!(parts("\u{feff}\n \t\n---\na: 1\n---\nbody"), Ok(("a: 1\n", Some(4), "body")));
        assert_eq!(parts("---\n---\n"), Ok(("", Some(2), "")));
        assert_eq!(parts("---\na: 1\nbody"), Err(1));
        assert_eq!(parts("\n---\na: 1\n----\nbody"), Err(2));
    }

    /// D1.2: what was meant as front matter is never taken for a prompt.
    #[test]
    fn what_looks_like_front_matter_is_no_prompt() {
        for (text, line) in [
            ("----\ntools: [read]\n----\nx", 1),
            (" ---\ntools: [read]\n ---\nx", 1),
            ("\n\t---\ntools: [read]\n---\nx", 2),
            ("<!-- c -->\n---\ntools: [read]\n---\nx", 2),
            ("<!-- c\nmore\n-->\n\n---\ntools: [read]\n---\nx", 5),
            ("# Reader\n---\ntools: [read]\n---\nx", 2),
            ("tools: [read]\n---\nx", 1),
        ] {
            assert_eq!(parts(text), Err(line), "{text}");
        }
        for text in [
            "no matter",
            "Reader\n---\nReads.\n",
            "# Reader\n\n---\n\nname: what it is called",
            "role: reader\n",
        ] {
            assert_eq!(parts(text), Ok(("", None, text)), "{text}");
        }
    }

    /// What is looked for in a prompt is what can be read.
    #[test]
    fn every_field_is_looked_for() {
        let error = Matter::parse("nonsense: 1", 2).map(drop).unwrap_err();
        assert!(error.why.ends_with(&format!("there are: {}", FIELDS.join(", "))), "{}", error.why);
    }

    #[test]
    fn fields_are_found_again() {
        let matter = "model: a/b\nlimits:\n  max_cost: 1\n  max_tokens: 2\nverify:\n  - x: y\n";
        let lines = Lines::of(matter, 2);
        assert_eq!((lines.line("limits.max_tokens"), lines.line("limits.other"), lines.line("x")), (5, 3, 1));
        assert_eq!((lines.line_of_entry("verify", 0), lines.line_of_entry("verify", 1)), (7, 6));
        assert_eq!(path_at(matter, 4), "limits.max_tokens");
        assert_eq!(path_at(matter, 6), "verify");
    }
}
