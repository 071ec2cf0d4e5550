//! What the three encoders share: the configuration's extra fields, ids that fit, schemas that may be strict.
//! It owns no protocol's shape.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Lays the provider's extra fields over a body: objects are merged, `null` removes, anything else replaces.
pub(super) fn merge(body: &mut Map<String, Value>, extra: &Map<String, Value>) {
    for (key, value) in extra {
        match (body.get_mut(key), value) {
            (_, Value::Null) => {
                body.remove(key);
            }
            (Some(Value::Object(ours)), Value::Object(theirs)) => merge(ours, theirs),
            (_, value) => {
                body.insert(key.clone(), value.clone());
            }
        }
    }
}

/// Call ids as one protocol takes them. A conversation that began on another provider brings ids that repeat from turn
/// to turn or have characters that are refused; both are rewritten, always in the same way, so that a growing
/// conversation keeps its bytes.
#[derive(Debug, Default)]
pub(super) struct CallIds {
    used: HashSet<String>,
    /// What each id was last rewritten to; results follow their calls.
    current: HashMap<String, String>,
}

impl CallIds {
    /// An id that goes out as it is.
    pub fn keep(&mut self, id: &str) {
        self.used.insert(id.to_owned());
        self.current.insert(id.to_owned(), id.to_owned());
    }

    /// The id under which a rebuilt call goes out.
    pub fn call(&mut self, id: &str) -> String {
        let plain: String =
            id.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect();
        let unique = unused(&self.used, if plain.is_empty() { "call" } else { &plain });
        self.used.insert(unique.clone());
        self.current.insert(id.to_owned(), unique.clone());
        unique
    }

    /// The id under which the answered call went out.
    pub fn result(&self, id: &str) -> String {
        self.current.get(id).cloned().unwrap_or_else(|| id.to_owned())
    }
}

/// `id`, or `id` with the first number that makes it new.
pub(super) fn unused(used: &HashSet<String>, id: &str) -> String {
    if !used.contains(id) {
        return id.to_owned();
    }
    let mut number = 2usize;
    loop {
        let candidate = format!("{id}_{number}");
        if !used.contains(&candidate) {
            return candidate;
        }
        number += 1;
    }
}

/// Whether OpenAI would take the schema in strict mode: every object closed, every property required. Asking for
/// strictness with another schema is refused, so the encoders ask only for what will be granted.
pub(super) fn strict(schema: &Value) -> bool {
    match schema {
        Value::Object(object) => closed(object) && object.values().all(strict),
        Value::Array(items) => items.iter().all(strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn closed(object: &Map<String, Value>) -> bool {
    let Some(Value::Object(properties)) = object.get("properties") else {
        return object.get("type") != Some(&Value::from("object"));
    };
    let required: HashSet<&str> = object
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    object.get("additionalProperties") == Some(&Value::Bool(false))
        && properties.keys().all(|name| required.contains(name.as_str()))
}

/// An object from pairs; serde_json keeps its keys sorted, so the bytes do not depend on the order here.
pub(super) fn object<const N: usize>(pairs: [(&str, Value); N]) -> Map<String, Value> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
