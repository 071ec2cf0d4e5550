//! Glob patterns as tools take them.
//!
//! Owns their meaning: relative to the workspace, `*` within a directory, `**` across; a pattern without a slash is about
//! names, at any depth. Refuses patterns that lead out.

use std::path::Path;

use globset::{GlobBuilder, GlobMatcher};
use longhaul_core::tool::{Failure, Outcome};

use crate::arguments::invalid;
use crate::limits;

pub(crate) struct Pattern {
    matcher: GlobMatcher,
    /// The directories that the pattern spells out, before its first wildcard; empty if there are none.
    pub(crate) start: String,
    /// Whether it asks for something that begins with a dot.
    pub(crate) names_hidden: bool,
}

impl Pattern {
    /// `field` is what the model calls it.
    pub(crate) fn parse(field: &str, text: &str, root: &Path) -> Result<Pattern, Outcome> {
        let relative = relative(text, root)?;
        if relative.is_empty() {
            return Err(invalid(format!("`{field}` is empty; give a pattern like `**/*.rs`")));
        }
        if relative.len() > limits::PATTERN_BYTES_MAX {
            let max = limits::PATTERN_BYTES_MAX;
            return Err(invalid(format!("`{field}` has {} bytes; at most {max}", relative.len())));
        }
        let anywhere = if relative.contains('/') { relative.to_owned() } else { format!("**/{relative}") };
        let glob = GlobBuilder::new(&anywhere)
            .literal_separator(true)
            .build()
            .map_err(|error| invalid(format!("`{field}` is not a glob pattern: {}", error.kind())))?;
        let spelled = spelled_out(relative);
        Ok(Pattern {
            matcher: glob.compile_matcher(),
            start: spelled.to_owned(),
            names_hidden: relative.split('/').any(|part| part.len() > 1 && part.starts_with('.')),
        })
    }

    pub(crate) fn matches(&self, path: &Path) -> bool {
        self.matcher.is_match(path)
    }
}

fn relative<'a>(text: &'a str, root: &Path) -> Result<&'a str, Outcome> {
    let outside = || {
        let message = format!("`{text}` leads outside the workspace; give a pattern relative to it");
        Outcome::failed(Failure::NotPermitted, message)
    };
    let below = match Path::new(text).strip_prefix(root) {
        Ok(below) => below.to_str().unwrap_or_default(),
        Err(_) => text.strip_prefix("./").unwrap_or(text),
    };
    let leads_out =
        below.starts_with('/') || below.starts_with('~') || below.split('/').any(|part| part == "..");
    if leads_out { Err(outside()) } else { Ok(below) }
}

/// The leading parts without any wildcard, never the last part: that is what is looked for.
fn spelled_out(pattern: &str) -> &str {
    let wild = pattern.find(['*', '?', '[', '{', '\\']).unwrap_or(pattern.len());
    pattern[..wild].rfind('/').map_or("", |slash| &pattern[..slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D6.5: what a pattern matches, and where a search for it begins.
    #[test]
    fn patterns_mean_what_they_say() {
        let root = Path::new("/work");
        let cases = [
            ("*.rs", "", "src/a.rs", true),
            ("*.rs", "", "a.rs", true),
            ("**/*.rs", "", "a.rs", true),
            ("src/*.rs", "src", "src/a.rs", true),
            ("src/*.rs", "src", "src/deep/a.rs", false),
            ("./src/**", "src", "src/deep/a.rs", true),
            ("/work/src/**/a.rs", "src", "src/a.rs", true),
            ("a/{b,c}/[d-f]?", "a", "a/c/ex", true),
            ("src/a.rs", "src", "src/a.rs", true),
            ("**/**/**/**/*", "", "x", true),
        ];
        for (pattern, start, path, expected) in cases {
            let parsed = Pattern::parse("pattern", pattern, root).unwrap();
            assert_eq!(
                (parsed.start.as_str(), parsed.matches(Path::new(path))),
                (start, expected),
                "{pattern}"
            );
        }
        assert!(
            Pattern::parse("pattern", &"{a,b}".repeat(20), root)
                .unwrap()
                .matches(Path::new(&"ab".repeat(10)))
        );
        for pattern in ["", "/**", "../**", "a/../../**", "~/x", "{a", &"x".repeat(20_000)] {
            assert!(Pattern::parse("pattern", pattern, root).is_err(), "{pattern:.20}");
        }
    }
}
