//! Whether an answer fits the schema it was asked for by.
//!
//! A provider promises that, some only try, and a scripted model does not know of it: so it is looked at here. Refuses schemas
//! that lead elsewhere: nothing is fetched or read for a `$ref`.

use serde_json::Value;

use crate::limits::SCHEMA_PROBLEMS_MAX;

/// What is wrong with the schema itself.
pub fn trouble(schema: &Value) -> Option<String> {
    if !schema.is_object() {
        return Some("a JSON Schema is an object".to_owned());
    }
    jsonschema::validator_for(schema)
        .err()
        .map(|error| located(&error.to_string(), error.instance_path().as_str()))
}

/// What is wrong with an answer; nothing if it fits.
pub fn misfit(schema: &Value, answer: &str) -> Option<String> {
    let value: Value = match serde_json::from_str(answer) {
        Ok(value) => value,
        Err(error) => return Some(format!("it is not JSON: {error}")),
    };
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(error) => return Some(format!("the schema cannot be used: {error}")),
    };
    let problems = validator.iter_errors(&value).take(SCHEMA_PROBLEMS_MAX);
    let problems: Vec<String> =
        problems.map(|error| located(&error.to_string(), error.instance_path().as_str())).collect();
    (!problems.is_empty()).then(|| problems.join("; "))
}

fn located(problem: &str, at: &str) -> String {
    if at.is_empty() { problem.to_owned() } else { format!("at {at}: {problem}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What does not fit is said with its place, and a schema that is none is not used.
    #[test]
    fn what_does_not_fit_is_named() {
        let schema =
            json!({ "type": "object", "required": ["ok"], "properties": { "ok": { "type": "boolean" } } });
        assert_eq!(trouble(&schema), None);
        assert_eq!(misfit(&schema, r#"{"ok": true}"#), None);
        let said = |answer: &str| misfit(&schema, answer).unwrap_or_default();
        assert_eq!(said("{}"), "\"ok\" is a required property");
        assert_eq!(said(r#"{"ok": 1}"#), "at /ok: 1 is not of type \"boolean\"");
        assert!(said("All done.").starts_with("it is not JSON"), "{}", said("All done."));
        assert!(trouble(&json!([])).is_some());
        assert!(trouble(&json!({ "type": "banana" })).is_some_and(|trouble| trouble.contains("/type")));
        assert!(trouble(&json!({ "$ref": "https://example.com/schema.json" })).is_some());
        assert!(trouble(&json!({ "$ref": "file:///etc/passwd" })).is_some());
    }
}
