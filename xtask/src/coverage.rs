//! Which requirements tests show. A test names them at the start of its doc comment, `/// A1.3, F04: a pause keeps
//! the whole state`. This counts and judges nothing: whether the test shows what it says is for readers.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::{Source, is_test_attribute};

/// An id in an order that people expect: `A1.3` before `A1.10`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    prefix: String,
    numbers: Vec<u32>,
    text: String,
}

pub(crate) fn report(sources: &[Source]) -> String {
    let mut by_prefix: BTreeMap<String, BTreeSet<Id>> = BTreeMap::new();
    for id in sources.iter().flat_map(|source| shown(&source.text)) {
        by_prefix.entry(id.prefix.clone()).or_default().insert(id);
    }
    if by_prefix.is_empty() {
        return "no test names a requirement\n".to_owned();
    }
    let line = |(prefix, ids): (&String, &BTreeSet<Id>)| {
        let texts: Vec<&str> = ids.iter().map(|id| id.text.as_str()).collect();
        format!("{prefix}: {} shown\n  {}\n", ids.len(), texts.join(" "))
    };
    by_prefix.iter().map(line).collect()
}

/// The ids in the doc comments of tests; doc comments of anything else are only collected until that is known.
fn shown(text: &str) -> Vec<Id> {
    let mut found = Vec::new();
    let mut waiting = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(doc) = line.strip_prefix("///") {
            waiting.extend(ids(doc));
        } else if is_test_attribute(line) {
            found.append(&mut waiting);
        } else if !line.starts_with("#[") {
            waiting.clear();
        }
    }
    found
}

/// `A1.3, F04: …` gives both; a line that is anything else gives none.
fn ids(doc: &str) -> Vec<Id> {
    let Some((list, _)) = doc.split_once(':') else { return Vec::new() };
    list.split(',').map(|text| id(text.trim())).collect::<Option<_>>().unwrap_or_default()
}

fn id(text: &str) -> Option<Id> {
    let digits = text.find(|letter: char| !letter.is_ascii_uppercase())?;
    let (prefix, numbers) = text.split_at(digits);
    let numbers = numbers.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    (!prefix.is_empty()).then(|| Id { prefix: prefix.to_owned(), numbers, text: text.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_listed_by_prefix_in_their_order() {
        let text = "/// A1.10, F04: two at once\n/// and A9.9 in the middle\n#[test]\nfn a() {}\n\
                    /// A1.3: one\n#[expect(x)]\n#[tokio::test]\nasync fn b() {}\n/// AP7: one\n#[test]\nfn c() {}";
        let sources = [Source::new("crates/x/tests/a.rs", text)];
        assert_eq!(report(&sources), "A: 2 shown\n  A1.3 A1.10\nAP: 1 shown\n  AP7\nF: 1 shown\n  F04\n");
    }

    #[test]
    fn only_tests_show_requirements() {
        for text in [
            "/// A1.3: no test\nfn a() {}",
            "/// A1.3 has no colon\n#[test]",
            "/// Note: text\n#[test]",
            "/// A: x\n#[test]",
        ] {
            assert_eq!(shown(text), [], "{text}");
        }
        assert_eq!(report(&[]), "no test names a requirement\n");
    }
}
