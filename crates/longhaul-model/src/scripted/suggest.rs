//! Help for a name that was mistyped: the names there are, and the one that was probably meant.

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

/// The name that was begun but not finished, or the nearest if at most a third of what was typed would have to change.
pub fn closest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    if let Some(begun) = known.iter().find(|name| typed.len() > 1 && name.starts_with(typed)) {
        return Some(begun);
    }
    let distance_max = typed.chars().count().div_ceil(3);
    let nearest = known.iter().map(|name| (distance(typed, name), *name)).min()?;
    (nearest.0 <= distance_max).then_some(nearest.1)
}

/// Letters to insert, remove or replace to make one text the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (removed, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = removed + 1;
        for (column, &other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_letters() {
        for (from, to, expected) in
            [("", "abc", 3), ("turn", "turns", 1), ("raed", "read", 2), ("bash", "bash", 0), ("ü", "u", 1)]
        {
            assert_eq!(distance(from, to), expected, "{from} {to}");
        }
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        assert_eq!(closest("raed", &["bash", "read", "write"]), Some("read"));
        assert_eq!(closest("teleport", &["bash", "read", "write"]), None);
        assert_eq!(closest("delay", &["text", "delay_ms"]), Some("delay_ms"));
        assert_eq!(closest("x", &[]), None);
    }
}
