//! A list of features of which only `passes` may change. It is kept as it was when it was last seen whole; whatever else was
//! changed in it afterwards is put back, with the marks as they are now, or as they were if they can no longer be read.

use longhaul_core::evidence::{FEATURES_PATH as PATH, Features};
use serde_json::Value;

use crate::limits::FEATURES_MAX;
use crate::tool::Context;

/// How many features pass, having put back what may not change. `known` is the blob of the list as it was last seen whole.
/// One that was not seen before begins with nothing passing, whatever it says.
pub(super) fn look(known: Option<&str>, context: &Context, warnings: &mut Vec<String>) -> Features {
    let kept = known.and_then(|hash| context.blobs.fetch(hash).ok()).and_then(|bytes| parse(&bytes).ok());
    let now = context.workspace.read(PATH).map_err(|error| error.to_string()).and_then(|bytes| parse(&bytes));
    let (list, restored) = match (kept, now) {
        (None, Err(why)) => {
            warnings.push(format!("{PATH}: {why}"));
            return Features::default();
        }
        (None, Ok(mut now)) if items(&now).iter().any(passes) => {
            items_mut(&mut now).iter_mut().for_each(|item| set_mark(item, false));
            (now, vec!["every mark, since a new list begins with nothing passing".to_owned()])
        }
        (None, Ok(now)) => (now, Vec::new()),
        (Some(kept), now) => only_marks(kept, now),
    };
    let mut restored = restored;
    if !restored.is_empty()
        && let Err(why) = put_back(&list, context)
    {
        warnings.push(format!("{PATH} could not be put back: {why}"));
        restored.clear();
    }
    // Also the marks: a list that is broken later must not cost what was earned by then.
    let blob = context.blobs.keep(&text(&list)).ok().or_else(|| known.map(str::to_owned));
    let passing = items(&list).iter().filter(|item| passes(item)).count() as u32;
    Features { passing, total: items(&list).len() as u32, restored, list: blob }
}

/// The list as it was kept, with the marks it has now. What else was changed is named.
fn only_marks(mut kept: Value, now: Result<Value, String>) -> (Value, Vec<String>) {
    let now = match now {
        Ok(now) if without_marks(&now) == without_marks(&kept) => return (now, Vec::new()),
        Ok(now) => now,
        Err(why) => return (kept, vec![format!("the whole list with the marks it had ({why})")]),
    };
    let mut restored = Vec::new();
    let mut left: Vec<&Value> = items(&now).iter().collect();
    for (index, item) in items_mut(&mut kept).iter_mut().enumerate() {
        let same = left.iter().position(|other| without_mark(other) == without_mark(item));
        match same {
            Some(place) => set_mark(item, passes(left.remove(place))),
            // One that was reworded keeps the mark it had: what passes now is not what was asked for.
            None => restored.push(name(item, index)),
        }
    }
    match left.len().saturating_sub(restored.len()) {
        0 => {}
        1 => restored.push("without the feature that was added".to_owned()),
        many => restored.push(format!("without the {many} features that were added")),
    }
    if restored.is_empty() {
        let same_around = around(&now) == around(&kept);
        let what = if same_around { "the order of the features" } else { "what stands beside the features" };
        restored.push(what.to_owned());
    }
    (kept, restored)
}

/// The list with no mark in it.
fn without_marks(list: &Value) -> Value {
    let mut list = list.clone();
    items_mut(&mut list).iter_mut().for_each(|item| *item = without_mark(item));
    list
}

/// What is there beside the features.
fn around(list: &Value) -> Value {
    let mut list = list.clone();
    if let Some(fields) = list.as_object_mut() {
        fields.remove("features");
        return list;
    }
    Value::Null
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
        let kept = list(&[("login", true), ("logout", false), ("search", false)]);
        let flipped = list(&[("login", true), ("logout", true), ("search", false)]);
        let cases = [
            ("a mark", flipped.clone(), flipped.clone(), vec![]),
            (
                "a reworded one",
                list(&[("login", true), ("logout", true), ("find", true)]),
                flipped.clone(),
                vec!["feature 3 (search)"],
            ),
            (
                "one taken away",
                list(&[("logout", true), ("search", false)]),
                flipped.clone(),
                vec!["feature 1 (login)"],
            ),
            (
                "one added",
                list(&[("login", true), ("logout", true), ("search", false), ("easy", true)]),
                flipped.clone(),
                vec!["without the feature that was added"],
            ),
            (
                "another order",
                list(&[("search", false), ("logout", true), ("login", true)]),
                flipped.clone(),
                vec!["the order of the features"],
            ),
        ];
        for (what, now, expected, named) in cases {
            let (restored, told) = only_marks(kept.clone(), Ok(now));
            assert_eq!(
                (restored, told),
                (expected, named.into_iter().map(str::to_owned).collect()),
                "{what}"
            );
        }
        let wrapped = |note: &str| json!({ "note": note, "features": kept });
        let (restored, told) = only_marks(wrapped("a"), Ok(wrapped("b")));
        assert_eq!((restored, told), (wrapped("a"), vec!["what stands beside the features".to_owned()]));

        let (restored, told) = only_marks(kept.clone(), Err("it is not JSON".to_owned()));
        assert_eq!(restored, kept, "what was earned is kept");
        assert!(told[0].contains("not JSON"), "{told:?}");
    }

    #[test]
    fn a_list_needs_features_with_marks() {
        assert!(parse(b"[]").is_err());
        assert!(parse(b"[{\"description\": \"x\"}]").unwrap_err().contains("feature 1"));
        assert!(parse(b"{\"features\": [{\"passes\": false}]}").is_ok());
        assert!(parse(b"nonsense").is_err());
    }
}
