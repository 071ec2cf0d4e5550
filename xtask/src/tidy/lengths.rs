//! The longest functions and files. Length is a smell to look at, so this lists and never fails.

use crate::source::{Source, item_len};

const LISTED: usize = 10;

pub(crate) fn report(sources: &[Source]) -> String {
    let functions = sources.iter().flat_map(|source| {
        functions(&source.code)
            .into_iter()
            .map(|function| (function.lines, format!("{}:{} {}", source.path, function.line, function.name)))
    });
    let files = sources.iter().map(|source| (source.text.lines().count(), source.path.clone()));
    format!("longest functions\n{}longest files\n{}", longest(functions.collect()), longest(files.collect()))
}

fn longest(mut entries: Vec<(usize, String)>) -> String {
    entries.sort_by(|left, right| right.0.cmp(&left.0).then_with(|| left.1.cmp(&right.1)));
    entries.iter().take(LISTED).map(|(lines, what)| format!("{lines:6} {what}\n")).collect()
}

#[derive(Debug, PartialEq, Eq)]
struct Function {
    name: String,
    line: usize,
    lines: usize,
}

/// Every function with a body. Takes masked code.
fn functions(code: &str) -> Vec<Function> {
    let starts = code.match_indices("fn ").filter(|(at, _)| {
        let before = code[..*at].chars().next_back().unwrap_or(' ');
        !(before.is_alphanumeric() || before == '_')
    });
    starts.filter_map(|(at, _)| function(code, at)).collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let item = &code[at..at + item_len(&code[at..])];
    let name = item["fn ".len()..].split(['(', '<']).next().unwrap_or("").trim();
    let is_function = item.ends_with('}') && !name.is_empty();
    let line = code[..at].matches('\n').count() + 1;
    is_function.then(|| Function { name: name.to_owned(), line, lines: item.lines().count() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_measured_to_their_closing_brace() {
        let code = "trait T { fn open(&self); }\nfn long<T>(\n    a: [u8; 4],\n) {\n    if a { b }\n}\nfn short() {}\n";
        let found: Vec<(String, usize, usize)> =
            functions(code).into_iter().map(|found| (found.name, found.line, found.lines)).collect();
        assert_eq!(found, [("long".to_owned(), 2, 5), ("short".to_owned(), 7, 1)]);
    }

    #[test]
    fn the_longest_come_first_and_at_most_ten() {
        let entries = (1..=12).map(|lines| (lines, format!("f{lines}"))).collect();
        let listed = longest(entries);
        assert_eq!(listed.lines().count(), 10);
        assert_eq!(listed.lines().next(), Some("    12 f12"));
    }
}
