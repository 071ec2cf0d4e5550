//! The name that was probably meant, for one that was mistyped.

/// The name in other letters, large or small, the one that was begun but not finished, or the nearest if at most a third of what was typed would have to change.
pub fn closest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    if let Some(same) = known.iter().find(|name| name.eq_ignore_ascii_case(typed)) {
        return Some(same);
    }
    if let Some(begun) = known.iter().find(|name| typed.len() > 1 && name.starts_with(typed)) {
        return Some(begun);
    }
    let letters = typed.chars().count();
    // Nothing we know is so long, and the work grows with the square.
    if letters > LETTERS_MAX {
        return None;
    }
    let nearest = known.iter().map(|name| (distance(typed, name), *name)).min()?;
    (nearest.0 <= letters.div_ceil(3)).then_some(nearest.1)
}

/// The same as the end of a complaint: ` (did you mean …?)`, or nothing.
pub fn meant(typed: &str, known: &[&str]) -> String {
    closest(typed, known).map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

/// Letters of a name that is compared.
const LETTERS_MAX: usize = 100;

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
        assert_eq!(closest("mars", &["MARS", "mar"]), Some("MARS"));
        assert_eq!(closest("x", &[]), None);
        assert_eq!(closest(&"x".repeat(1_000_000), &["x"]), None);
    }
}
