//! Arguments of a call: their schema, and what is wrong with them.
//!
//! Owns turning a typed struct into the schema a model reads, and a refusal into a sentence that names the field.
//! Refuses to mend arguments: a model that is told what is wrong sends better ones.

use longhaul_core::json::Json;
use longhaul_core::tool::{Failure, Outcome};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// The schema of `T`, without the parts that tell a model nothing.
pub(crate) fn schema<T: JsonSchema>() -> Value {
    // Written out in place: a model reads one schema, not references into it.
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("$schema");
    schema.remove("title");
    schema.to_value()
}

/// The arguments as `T`, or the outcome that says what is wrong with them.
pub(crate) fn parse<T: DeserializeOwned>(args: &Json, schema: &Value) -> Result<T, Outcome> {
    args.read().map_err(|error: serde_json::Error| {
        let complaint = complaint(&args.value(), schema).unwrap_or_else(|| error.to_string());
        invalid(format!("{complaint}; expected {}", expected(schema)))
    })
}

pub(crate) fn invalid(message: impl Into<String>) -> Outcome {
    Outcome::failed(Failure::InvalidArguments, message)
}

/// The first field that is not as the schema says. Serde's own messages do not name the field of a wrong type.
fn complaint(value: &Value, schema: &Value) -> Option<String> {
    let Some(fields) = value.as_object() else {
        return Some("the arguments are not a JSON object".to_owned());
    };
    let properties = properties(schema)?;
    let missing = required(schema).find(|name| !fields.contains_key(*name));
    if let Some(name) = missing {
        return Some(format!("`{name}` is missing"));
    }
    let unknown = fields.keys().find(|name| !properties.contains_key(*name));
    if let Some(name) = unknown {
        return Some(format!("`{name}` is not an argument of this tool"));
    }
    let wrong = fields.iter().find(|(name, value)| !fits(value, &properties[*name]));
    wrong.map(|(name, value)| format!("`{name}` must be {}, not {}", wanted(&properties[name]), shown(value)))
}

fn properties(schema: &Value) -> Option<&Map<String, Value>> {
    schema.get("properties")?.as_object()
}

fn required(schema: &Value) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

/// What a field takes, in words: `"path" or "newest"`, `integer or null`.
fn wanted(property: &Value) -> String {
    match choices(property) {
        Some(choices) => choices.iter().map(Value::to_string).collect::<Vec<_>>().join(" or "),
        None => type_names(property).join(" or "),
    }
}

fn choices(property: &Value) -> Option<&Vec<Value>> {
    property.get("enum")?.as_array()
}

fn fits(value: &Value, property: &Value) -> bool {
    if let Some(choices) = choices(property) {
        return choices.contains(value);
    }
    let below_minimum = || {
        let minimum = property.get("minimum").and_then(Value::as_i64);
        minimum.is_some_and(|minimum| value.as_i64().is_some_and(|value| value < minimum))
    };
    type_names(property).iter().any(|name| match *name {
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => (value.is_i64() || value.is_u64()) && !below_minimum(),
        "null" => value.is_null(),
        "array" => value.is_array(),
        _ => true,
    })
}

fn type_names(property: &Value) -> Vec<&str> {
    match property.get("type") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(Value::String(name)) => vec![name],
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    let short: String = text.chars().take(40).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

/// All fields in one line: `path (string), limit (integer, optional)`.
fn expected(schema: &Value) -> String {
    let required: Vec<_> = required(schema).collect();
    let described = properties(schema).into_iter().flatten().map(|(name, property)| {
        let types = type_names(property).into_iter().filter(|name| *name != "null").collect::<Vec<_>>();
        let optional = if required.contains(&name.as_str()) { "" } else { ", optional" };
        format!("{name} ({}{optional})", types.join(" or "))
    });
    described.collect::<Vec<_>>().join(", ")
}
