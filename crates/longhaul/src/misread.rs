//! Files that people write: read as YAML, and what is wrong with them said in their words.
//!
//! Owns the way from a parser's error to a sentence: the file, the line, the field by its whole path, what is wrong with it and
//! what was probably meant. Refuses to accept anything the parser did not.

use longhaul_core::suggest::closest;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;

/// Reads a file's text; `shown` is the file's name.
pub fn yaml<T: DeserializeOwned>(shown: &str, text: &str) -> Result<T, Failure> {
    parsed(text).map_err(|error| {
        let line = error.location().map_or(String::new(), |place| format!(", line {}", place.line()));
        let said = match field::<T>(text) {
            Some((path, why)) if path.is_empty() => why,
            Some((path, why)) => format!("{path}: {why}"),
            None => in_words(&message(&error), ""),
        };
        Failure::usage(format!("{shown}{line}: {said}"))
    })
}

fn parsed<T: DeserializeOwned>(text: &str) -> Result<T, serde_saphyr::Error> {
    let options = serde_saphyr::options! { strict_booleans: true, with_snippet: false };
    serde_saphyr::from_str_with_options(text, options)
}

/// Which field is wrong, and how. The YAML parser knows the line and not the path, so the values are read a second time. Not so those
/// of a list without a name: what reads values takes it for fields that have none.
fn field<T: DeserializeOwned>(text: &str) -> Option<(String, String)> {
    let value: Value = parsed(text).ok().filter(|value: &Value| !value.is_array())?;
    let error = serde_path_to_error::deserialize::<_, T>(value).err()?;
    let path = error.path().to_string();
    let path = if path == "." { String::new() } else { path };
    let why = in_words(&error.inner().to_string(), &path);
    Some((path, why))
}

/// What the YAML parser says, without the place.
fn message(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default();
    let behind = first.split_once(" column ").and_then(|(_, rest)| rest.split_once(": "));
    let message = behind.map_or(first, |(_, message)| message);
    let message = message.split_once(" at line ").map_or(message, |(message, _)| message);
    message.trim_start_matches("error: ").to_owned()
}

fn in_words(message: &str, path: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    if message.starts_with("unknown field")
        && let [wrong, known @ ..] = &quoted[..]
    {
        let named = if path.ends_with(wrong) {
            "there is no such field".to_owned()
        } else {
            format!("there is no field `{wrong}`")
        };
        return format!("{named}{}; there are {}", meant(wrong, known), known.join(", "));
    }
    if message.starts_with("unknown variant")
        && let [wrong, known @ ..] = &quoted[..]
    {
        return format!("`{wrong}` is none of {}{}", known.join(", "), meant(wrong, known));
    }
    if message.starts_with("missing field")
        && let [missing, ..] = &quoted[..]
    {
        return format!("the field `{missing}` is missing");
    }
    if let Some((key, _)) =
        message.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split_once(','))
    {
        return format!("`{key}` is there twice");
    }
    if message == "expected mapping start" {
        return format!("this is not {}", expected_in_words("a map"));
    }
    if message.contains("untagged enum") {
        let what =
            if path.ends_with("network") { "none, full or a list of hosts" } else { "what can stand here" };
        return format!("this is not {what}");
    }
    let wrong = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match wrong.and_then(|wrong| wrong.split_once(", expected ")) {
        Some((found, expected)) => {
            format!("{} is not {}", found_in_words(found), expected_in_words(expected))
        }
        None => message.to_owned(),
    }
}

fn found_in_words(found: &str) -> String {
    let value = found.split_once(' ').map(|(_, value)| value.trim_matches(['`', '"']));
    match (found, value) {
        ("sequence", _) => "a list".to_owned(),
        ("map", _) => "a group of fields".to_owned(),
        ("null" | "unit value", _) => "nothing".to_owned(),
        (_, Some(value)) => format!("`{value}`"),
        (other, None) => other.to_owned(),
    }
}

fn expected_in_words(expected: &str) -> &str {
    match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number from 0 on, of a size that can be used",
        "f64" | "f32" => "a number",
        "a boolean" => "true or false",
        "a string" => "a text",
        "a sequence" => "a list",
        "a map" => "a group of fields, each as `name: value`",
        other if other.starts_with("struct ") => "a group of fields, each as `name: value`",
        other => other,
    }
}

/// What was probably meant.
fn meant(wrong: &str, known: &[&str]) -> String {
    closest(wrong, known).map_or(String::new(), |name| format!("; did you mean `{name}`?"))
}
