//! Files that nobody compiles and test files that test nothing: both look like coverage and are none.

use std::collections::BTreeMap;

use crate::problem::Problem;
use crate::source::Source;
use crate::tidy::names::module_name;

pub(crate) fn check(sources: &[Source]) -> Vec<Problem> {
    let by_path: BTreeMap<&str, &Source> =
        sources.iter().map(|source| (source.path.as_str(), source)).collect();
    let unwired = sources.iter().filter_map(|source| unwired(source, &by_path));
    let untesting = sources.iter().filter_map(|source| untesting(source, &by_path));
    unwired.chain(untesting).collect()
}

/// Manifest lines that keep cargo from finding or running tests.
pub(crate) fn switched_off(path: &str, manifest: &str) -> Vec<Problem> {
    let lines = manifest.lines().enumerate().filter(|(_, line)| {
        let setting: String = line.split('#').next().unwrap_or("").split_whitespace().collect();
        matches!(setting.as_str(), "autotests=false" | "test=false" | "doctest=false")
    });
    let text = "this switches tests off; remove the line";
    lines.map(|(index, _)| Problem::new(path, index + 1, text)).collect()
}

fn unwired(source: &Source, by_path: &BTreeMap<&str, &Source>) -> Option<Problem> {
    if is_root(source) {
        return None;
    }
    let (folder, module) = place(&source.path)?;
    let parents: Vec<&Source> = parents(folder, by_path);
    let is_declared = parents.iter().any(|parent| declared(parent).any(|name| name == module));
    (!is_declared).then(|| {
        let text = format!(
            "no parent declares `mod {module};`, so this file is never compiled; declare or delete it"
        );
        Problem::new(&source.path, 1, text)
    })
}

/// Files that cargo finds by itself.
fn is_root(source: &Source) -> bool {
    let parts: Vec<&str> = source.inner_path().split('/').collect();
    matches!(
        parts.as_slice(),
        ["build.rs"]
            | ["src", "lib.rs" | "main.rs"]
            | ["src", "bin", _]
            | ["src", "bin", _, "main.rs"]
            | ["tests" | "benches" | "examples", _]
            | ["tests" | "benches" | "examples", _, "main.rs"]
    )
}

/// The folder whose module declares this file, and the name it must declare.
fn place(path: &str) -> Option<(&str, &str)> {
    let stem = path.strip_suffix("/mod.rs").or(path.strip_suffix(".rs"))?;
    stem.rsplit_once('/')
}

/// The files that can declare modules in a folder.
fn parents<'a>(folder: &str, by_path: &BTreeMap<&str, &'a Source>) -> Vec<&'a Source> {
    let named = [
        format!("{folder}/lib.rs"),
        format!("{folder}/main.rs"),
        format!("{folder}/mod.rs"),
        format!("{folder}.rs"),
    ];
    let mut parents: Vec<&Source> =
        named.iter().filter_map(|path| by_path.get(path.as_str()).copied()).collect();
    if folder.ends_with("/tests") {
        // Every file directly in `tests` is a root that may declare modules beside it.
        parents.extend(
            by_path.values().filter(|source| place(&source.path).is_some_and(|(of, _)| of == folder)),
        );
    }
    parents
}

fn declared(source: &Source) -> impl Iterator<Item = &str> {
    source.code.lines().filter(|line| line.trim_end().ends_with(';')).filter_map(module_name)
}

/// A file in `tests` must hold a test, in itself, in a module it declares, or from a macro that writes tests.
fn untesting(source: &Source, by_path: &BTreeMap<&str, &Source>) -> Option<Problem> {
    let parts: Vec<&str> = source.inner_path().split('/').collect();
    let (["tests", _] | ["tests", _, "main.rs"]) = parts.as_slice() else { return None };
    let (folder, _) = source.path.rsplit_once('/')?;
    let in_a_module = declared(source).any(|module| {
        let paths = [format!("{folder}/{module}.rs"), format!("{folder}/{module}/mod.rs")];
        paths.iter().filter_map(|path| by_path.get(path.as_str())).any(|module| module.holds_tests())
    });
    let has_tests = source.holds_tests() || in_a_module || source.code.lines().any(is_item_macro);
    (!has_tests)
        .then(|| Problem::new(&source.path, 1, "the test file holds no test; add one or move the file"))
}

/// A macro called where items stand, such as a contract suite that writes its tests.
fn is_item_macro(line: &str) -> bool {
    let name = line.split('!').next().unwrap_or("");
    let is_path =
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_:".contains(letter));
    is_path && name != "macro_rules" && line[name.len()..].starts_with('!')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<Source> =
            files.iter().map(|(path, text)| Source::new(&format!("crates/x/{path}"), text)).collect();
        check(&sources).iter().map(|problem| problem.path["crates/x/".len()..].to_owned()).collect()
    }

    #[test]
    fn a_file_that_nobody_declares_is_found() {
        let files = [
            ("src/lib.rs", "mod a;\nmod d {}"),
            ("src/a.rs", "pub(crate) mod c;\n// mod b;"),
            ("src/b.rs", ""),
            ("src/a/c.rs", ""),
            ("src/a/e/mod.rs", ""),
            ("src/d.rs", ""),
            ("src/bin/tool.rs", ""),
            ("build.rs", ""),
        ];
        assert_eq!(problems(&files), ["src/b.rs", "src/a/e/mod.rs", "src/d.rs"]);
    }

    #[test]
    fn a_manifest_that_switches_tests_off_is_found() {
        let text =
            "[package]\nautotests = false\n[lib]\ntest=false # slow\n# test = false\nname = \"test\"\n";
        let lines: Vec<usize> = switched_off("Cargo.toml", text).iter().map(|problem| problem.line).collect();
        assert_eq!(lines, [2, 4]);
    }

    #[test]
    fn a_test_file_without_a_test_is_found() {
        let files = [
            ("tests/real.rs", "mod kit;\n#[test]\nfn a() {}"),
            ("tests/kit/mod.rs", "mod inner;"),
            ("tests/kit/inner.rs", ""),
            ("tests/lost/mod.rs", ""),
            ("tests/empty.rs", "fn a() {}"),
            ("tests/written.rs", "longhaul_testkit::journal_contract! { open }"),
            ("tests/parent.rs", "mod child;"),
            ("tests/child/mod.rs", "#[tokio::test]\nasync fn a() {}"),
            ("tests/group/main.rs", "mod part;"),
            ("tests/group/part.rs", "#[test]\nfn a() {}"),
        ];
        assert_eq!(problems(&files), ["tests/lost/mod.rs", "tests/empty.rs"]);
    }
}
