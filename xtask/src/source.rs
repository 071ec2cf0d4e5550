//! Rust files as the checks see them: the text as written, the code without comments and strings, and the code
//! without tests. It owns reading and masking, knows no rule, and understands only as much Rust as masking needs.

use std::path::Path;

use anyhow::{Context, Result};

/// One Rust file.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// From the workspace's root, with forward slashes.
    pub(crate) path: String,
    pub(crate) text: String,
    /// The text with comments and the insides of literals blanked; lines and columns stay where they were.
    pub(crate) code: String,
    /// The code with everything under `#[cfg(test)]` blanked too; empty for a file that is all test.
    pub(crate) product: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let code = mask(text);
        let product = if is_test(path, &code) { String::new() } else { without_tests(&code) };
        Source { path: path.to_owned(), text: text.to_owned(), code, product }
    }

    /// The crate's folder, `crates/longhaul-core` or `xtask`.
    pub(crate) fn crate_dir(&self) -> &str {
        let depth = if self.path.starts_with("crates/") { 2 } else { 1 };
        let end = self.path.match_indices('/').nth(depth - 1).map_or(self.path.len(), |(at, _)| at);
        &self.path[..end]
    }

    /// The path inside the crate's folder.
    pub(crate) fn inner_path(&self) -> &str {
        self.path[self.crate_dir().len()..].trim_start_matches('/')
    }

    pub(crate) fn holds_tests(&self) -> bool {
        holds_tests(&self.code)
    }
}

/// Whether some `#[test]`, `#[tokio::test]` or the like is in the code.
pub(crate) fn holds_tests(code: &str) -> bool {
    code.lines().map(str::trim_start).any(is_test_attribute)
}

pub(crate) fn is_test_attribute(line: &str) -> bool {
    let Some(attribute) = line.trim_start().strip_prefix("#[") else { return false };
    let name = attribute.split(['(', ']', ' ']).next().unwrap_or("");
    name == "test" || name.ends_with("::test")
}

/// Every Rust file of the workspace's crates, in order of path.
pub(crate) fn rust_files(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in files(root)?.into_iter().filter(|path| path.ends_with(".rs")) {
        let text =
            std::fs::read_to_string(root.join(&path)).with_context(|| format!("cannot read {path}"))?;
        sources.push(Source::new(&path, &text));
    }
    Ok(sources)
}

/// The pages that people read, at the root and in `docs`.
pub(crate) fn pages(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for folder in ["", "docs/"] {
        let entries =
            std::fs::read_dir(root.join(folder)).with_context(|| format!("cannot list {folder}"))?;
        for entry in entries {
            let name = entry.with_context(|| format!("cannot list {folder}"))?.file_name();
            found.push(format!("{folder}{}", name.to_string_lossy()));
        }
    }
    found.retain(|path| path.ends_with(".md"));
    Ok(found)
}

/// Every file under `crates` and `xtask`, from the root, in order.
pub(crate) fn files(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec!["crates".to_owned(), "xtask".to_owned()];
    while let Some(folder) = open.pop() {
        let entries =
            std::fs::read_dir(root.join(&folder)).with_context(|| format!("cannot list {folder}"))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("cannot list {folder}"))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{folder}/{name}");
            match entry.file_type()?.is_dir() {
                true if name == "target" || name.starts_with('.') => {}
                true => open.push(path),
                false => found.push(path),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Test folders, modules named for tests, and modules that say of themselves that they are only for tests.
fn is_test(path: &str, code: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
        || code.contains("#![cfg(test)]")
}

/// Blanks comments and the insides of string and character literals.
pub(crate) fn mask(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let before = masked.chars().next_back().unwrap_or(' ');
        let hidden = hidden_len(rest, before);
        let len = hidden.unwrap_or(letter.len_utf8());
        let (piece, after) = rest.split_at(len);
        match hidden {
            Some(_) => masked.extend(piece.chars().map(|hidden| if hidden == '\n' { '\n' } else { ' ' })),
            None => masked.push_str(piece),
        }
        rest = after;
    }
    masked
}

/// Bytes of the comment or literal that begins here, if one does.
fn hidden_len(rest: &str, before: char) -> Option<usize> {
    let in_word = before.is_alphanumeric() || before == '_';
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return Some(block_comment_len(rest));
    }
    if rest.starts_with('"') {
        return Some(quoted_len(rest, '"'));
    }
    if rest.starts_with('\'') {
        return char_len(rest);
    }
    if in_word {
        return None;
    }
    raw_string_len(rest)
}

fn block_comment_len(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while at < rest.len() {
        let here = &rest.as_bytes()[at..];
        let step = if here.starts_with(b"/*") {
            depth += 1;
            2
        } else if here.starts_with(b"*/") {
            depth -= 1;
            2
        } else {
            1
        };
        at += step;
        if depth == 0 {
            return at;
        }
    }
    rest.len()
}

/// A literal from its opening quote to its closing one, escapes skipped.
fn quoted_len(rest: &str, quote: char) -> usize {
    let mut letters = rest.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return at + 1;
        }
    }
    rest.len()
}

/// A character literal; a lifetime such as `'a` is none.
fn char_len(rest: &str) -> Option<usize> {
    let mut letters = rest.chars().skip(1);
    let first = letters.next()?;
    let is_literal = first == '\\' || letters.next() == Some('\'');
    is_literal.then(|| quoted_len(rest, '\''))
}

/// `r"…"`, `r#"…"#` and so on, with or without a leading `b` or `c`.
fn raw_string_len(rest: &str) -> Option<usize> {
    let unprefixed = rest.strip_prefix(['b', 'c']).unwrap_or(rest);
    let fenced = unprefixed.strip_prefix('r')?;
    let inside = fenced.trim_start_matches('#');
    let fence = &fenced[..fenced.len() - inside.len()];
    let content = inside.strip_prefix('"')?;
    let open_len = rest.len() - content.len();
    let close = format!("\"{fence}");
    Some(content.find(&close).map_or(rest.len(), |at| open_len + at + close.len()))
}

/// Blanks each item under `#[cfg(test)]` or a test attribute. Takes code that is already masked.
fn without_tests(code: &str) -> String {
    let mut product = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[") {
        let (before, from) = rest.split_at(at);
        product.push_str(before);
        let line = from.lines().next().unwrap_or("");
        let is_test =
            line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test") || is_test_attribute(line);
        let (item, after) = from.split_at(if is_test { item_len(from) } else { 2 });
        match is_test {
            true => product.extend(item.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' })),
            false => product.push_str(item),
        }
        rest = after;
    }
    product.push_str(rest);
    product
}

/// An item from its first attribute to its closing brace or semicolon.
pub(crate) fn item_len(code: &str) -> usize {
    let mut depth = 0usize;
    for (at, letter) in code.char_indices() {
        match letter {
            '{' | '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            ';' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blanked_in_place() {
        for (text, masked) in [
            ("a // b\nc", "a     \nc"),
            ("a /* /* */ */ b", "a             b"),
            (r#"f("x\"y", 'z')"#, r"f(      ,    )"),
            (r##"f(r#"a"b"#, br"c")"##, "f(        ,      )"),
            ("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)"),
            (r"'\'' 'x'", "        "),
            ("parser\"x\"", "parser   "),
        ] {
            assert_eq!(mask(text), masked, "{text}");
        }
    }

    #[test]
    fn tests_are_no_product() {
        let text = "fn a() {}\n#[cfg(test)]\nmod tests { fn b() { c(); } }\n#[test]\nfn d() {}\n#[inline]\nfn e() {}\n";
        let product = Source::new("crates/x/src/lib.rs", text).product;
        let words: Vec<&str> = product.split_whitespace().collect();
        assert_eq!(words, ["fn", "a()", "{}", "#[inline]", "fn", "e()", "{}"]);
        assert_eq!(product.lines().count(), text.lines().count());
        assert_eq!(Source::new("crates/x/tests/a.rs", text).product, "");
        assert_eq!(Source::new("crates/x/src/a.rs", "//! Doc.\n#![cfg(test)]\nfn a() {}").product, "");
    }

    #[test]
    fn a_path_knows_its_crate() {
        let source = Source::new("crates/longhaul-core/src/ids.rs", "");
        assert_eq!((source.crate_dir(), source.inner_path()), ("crates/longhaul-core", "src/ids.rs"));
        let source = Source::new("xtask/src/main.rs", "");
        assert_eq!((source.crate_dir(), source.inner_path()), ("xtask", "src/main.rs"));
    }

    #[test]
    fn test_attributes_are_recognised() {
        for line in ["#[test]", "  #[tokio::test]", "#[tokio::test(start_paused = true)]"] {
            assert!(is_test_attribute(line), "{line}");
        }
        for line in ["#[testing]", "#[cfg(test)]", "test", "#[latest]"] {
            assert!(!is_test_attribute(line), "{line}");
        }
    }
}
