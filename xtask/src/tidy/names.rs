//! Names that say nothing about what a module owns.

use crate::problem::Problem;
use crate::source::Source;

const BANNED: &[&str] = &["util", "utils", "helper", "helpers", "common", "misc", "manager", "managers"];

/// Looks at file and folder names and at inline modules.
pub(crate) fn check(source: &Source) -> Vec<Problem> {
    let wrong = |line, name: &str| {
        Problem::new(&source.path, line, format!("`{name}` says nothing; name the module after what it owns"))
    };
    let parts = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    let mut problems: Vec<Problem> =
        parts.filter(|part| BANNED.contains(part)).map(|part| wrong(1, part)).collect();
    for (index, line) in source.code.lines().enumerate() {
        problems.extend(
            module_name(line).filter(|name| BANNED.contains(name)).map(|name| wrong(index + 1, name)),
        );
    }
    problems
}

/// The name a line declares a module by.
pub(crate) fn module_name(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = match line.strip_prefix("pub") {
        Some(rest) if rest.starts_with('(') => rest.split_once(')')?.1,
        Some(rest) => rest,
        None => line,
    };
    let name = rest.trim_start().strip_prefix("mod ")?;
    Some(name.trim_start_matches("r#").split([';', ' ', '{']).next().unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_names_are_refused() {
        for (path, text) in [
            ("crates/x/src/utils.rs", ""),
            ("crates/x/src/helpers/mod.rs", ""),
            ("crates/x/tests/common/mod.rs", ""),
            ("crates/x/src/lib.rs", "pub(crate) mod misc {}"),
            ("crates/x/src/lib.rs", "mod manager;"),
        ] {
            assert_eq!(check(&Source::new(path, text)).len(), 1, "{path} {text}");
        }
        assert_eq!(check(&Source::new("crates/x/src/journal.rs", "pub mod record;")), []);
    }

    #[test]
    fn module_names_are_read_from_declarations() {
        for line in ["mod a;", "pub mod a;", "  pub(crate) mod a {", "pub(in crate::b) mod a;", "mod r#a;"] {
            assert_eq!(module_name(line), Some("a"), "{line}");
        }
        assert_eq!(module_name("model a"), None);
        assert_eq!(module_name("public mod"), None);
    }
}
