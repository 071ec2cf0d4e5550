//! Help for a name that was mistyped: the names there are, and the one that was probably meant.

use longhaul_core::suggest::closest;

/// A hint such as `did you mean `turns`? known keys: `match`, `turns``.
pub(super) fn names(what: &str, typed: &str, known: &[&str]) -> String {
    if known.is_empty() {
        return format!("no {what} are known here");
    }
    let quoted: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    let list = format!("known {what}: {}", quoted.join(", "));
    match closest(typed, known) {
        Some(name) => format!("did you mean `{name}`? {list}"),
        None => list,
    }
}
