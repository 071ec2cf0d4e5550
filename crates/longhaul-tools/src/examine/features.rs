//! A list of features of which only `passes` may change. It is kept as it was when it was first seen whole; whatever else
//! was changed in it afterwards is put back, with the marks as they are now.

use longhaul_core::evidence::Features;
use serde_json::Value;

use crate::limits::FEATURES_MAX;
use crate::tool::Context;

pub(super) const PATH: &str = "feature_list.json";

/// How many features pass, having put back what may not change. `known` is the blob of the list as it was first seen.
/// A list that the agent has just made begins with nothing passing, whatever it says.
pub(super) fn look(
    known: Option<&str>,
    is_new: bool,
    context: &Context,
    warnings: &mut Vec<String>,
) -> Features {
    let kept = known.and_then(|hash| context.blobs.fetch(hash).ok()).and_then(|bytes| parse(&bytes).ok());
    let now = context.workspace.read(PATH).map_err(|error| error.to_string()).and_then(|bytes| parse(&bytes));
    let (list, restored) = match (kept, now) {
        (None, Err(why)) => {
            if is_new {
                warnings.push(format!("{PATH}: {why}"));
            }
            return Features::default();
        }
        (None, Ok(mut now)) if is_new && items(&now).iter().any(passes) => {
            items_mut(&mut now).iter_mut().for_each(|item| set_mark(item, false));
            (now, vec!["every mark, since a new list begins with nothing passing".to_owned()])
        }
        (None, Ok(now)) => (now, Vec::new()),
        (Some(kept), now) => {
            let (list, restored) = only_marks(kept, now.ok());
            (list, restored)
        }
    };
    let mut restored = restored;
    if !restored.is_empty()
        && let Err(why) = put_back(&list, context)
    {
        warnings.push(format!("{PATH} could not be put back: {why}"));
        restored.clear();
    }
    let blob = known.map(str::to_owned).or_else(|| first_seen(&list, context));
    let passing = items(&list).iter().filter(|item| passes(item)).count() as u32;
    Features { passing, total: items(&list).len() as u32, restored, list: blob }
}

/// The list as it was kept, with the marks it has now. What else was changed is named.
fn only_marks(mut kept: Value, now: Option<Value>) -> (Value, Vec<String>) {
    let Some(now) = now else {
        return (kept, vec!["the whole list, which could no longer be read".to_owned()]);
    };
    let mut restored = Vec::new();
    let current = items(&now).to_vec();
    for (index, item) in items_mut(&mut kept).iter_mut().enumerate() {
        let same = current.iter().find(|other| without_mark(other) == without_mark(item));
        match same {
            Some(other) => set_mark(item, passes(other)),
            None => {
                // One that was reworded keeps the mark it had: what passes now is not what was asked for.
                set_mark(item, false);
                restored.push(name(item, index));
            }
        }
    }
    if current.len() > items(&kept).len() {
        restored.push(format!("{} added", current.len() - items(&kept).len()));
    }
    (kept, restored)
}

fn parse(bytes: &[u8]) -> Result<Value, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|error| format!("it is not JSON: {error}"))?;
    let list = items(&value);
    if list.is_empty() {
        return Err("it holds no list of features".to_owned());
    }
    if list.len() > FEATURES_MAX {
        return Err(format!("it has more than {FEATURES_MAX} features"));
    }
    match list.iter().position(|item| !item.get("passes").is_some_and(Value::is_boolean)) {
        Some(index) => Err(format!("feature {} has no `passes`: true or false", index + 1)),
        None => Ok(value),
    }
}

/// The features: the list itself, or what stands under `features`.
fn items(value: &Value) -> &[Value] {
    let list = value.as_array().or_else(|| value.get("features").and_then(Value::as_array));
    list.map_or(&[], Vec::as_slice)
}

fn items_mut(value: &mut Value) -> &mut [Value] {
    let list = if value.is_array() {
        value.as_array_mut()
    } else {
        value.get_mut("features").and_then(Value::as_array_mut)
    };
    list.map_or(&mut [], Vec::as_mut_slice)
}

fn passes(item: &Value) -> bool {
    item.get("passes").and_then(Value::as_bool).unwrap_or(false)
}

fn set_mark(item: &mut Value, passes: bool) {
    if let Some(fields) = item.as_object_mut() {
        fields.insert("passes".to_owned(), passes.into());
    }
}

fn without_mark(item: &Value) -> Value {
    let mut item = item.clone();
    if let Some(fields) = item.as_object_mut() {
        fields.remove("passes");
    }
    item
}

fn name(item: &Value, index: usize) -> String {
    let described = item.get("description").or_else(|| item.get("name")).and_then(Value::as_str);
    let described: String = described.unwrap_or("without a description").chars().take(80).collect();
    format!("feature {} ({described})", index + 1)
}

fn text(list: &Value) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(list).unwrap_or_default();
    text.push(b'\n');
    text
}

fn put_back(list: &Value, context: &Context) -> Result<(), String> {
    let key = format!("{}.features", context.key);
    context.workspace.replace(PATH, &text(list), &key).map_err(|error| error.to_string())
}

fn first_seen(list: &Value, context: &Context) -> Option<String> {
    context.blobs.keep(&text(list)).ok()
}

#[cfg(test)]
mod tests {
    use super::{Value, only_marks, parse};
    use serde_json::json;

    fn list(items: &[(&str, bool)]) -> Value {
        items.iter().map(|(name, passes)| json!({ "description": name, "passes": passes })).collect()
    }

    /// B6.7: flipping `passes` is kept, any other edit is undone and named.
    #[test]
    fn only_the_marks_may_change() {
        let kept = list(&[("login", false), ("logout", false)]);
        let flipped = list(&[("login", true), ("logout", false)]);
        assert_eq!(only_marks(kept.clone(), Some(flipped.clone())), (flipped.clone(), Vec::new()));

        let reworded = list(&[("login", true), ("say goodbye", true)]);
        let (restored, named) = only_marks(kept.clone(), Some(reworded));
        assert_eq!(restored, flipped);
        assert_eq!(named, ["feature 2 (logout)"]);

        let (restored, named) = only_marks(kept.clone(), Some(list(&[("login", true)])));
        assert_eq!((restored, named), (flipped, vec!["feature 2 (logout)".to_owned()]));

        let (restored, named) = only_marks(kept.clone(), None);
        assert_eq!(restored, kept);
        assert_eq!(named.len(), 1);
    }

    #[test]
    fn a_list_needs_features_with_marks() {
        assert!(parse(b"[]").is_err());
        assert!(parse(b"[{\"description\": \"x\"}]").unwrap_err().contains("feature 1"));
        assert!(parse(b"{\"features\": [{\"passes\": false}]}").is_ok());
        assert!(parse(b"nonsense").is_err());
    }
}
