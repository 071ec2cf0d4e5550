//! Golden files that no test reads: a format nobody guards any more.

use crate::problem::Problem;
use crate::source::Source;

/// Takes every path of the tree and every Rust file.
pub(crate) fn check(files: &[String], sources: &[Source]) -> Vec<Problem> {
    let readers: Vec<&Source> = sources.iter().filter(|source| source.holds_tests()).collect();
    let golden = files.iter().filter(|path| path.split('/').rev().skip(1).any(|folder| folder == "golden"));
    let unread = golden.filter(|path| !readers.iter().any(|reader| reads(reader, path)));
    unread
        .map(|path| Problem::new(path, 1, "no test names this golden file; compare with it or delete it"))
        .collect()
}

/// A test reads a golden file by its name, or all of a folder by listing it.
fn reads(reader: &Source, path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_same_crate = path.starts_with(&format!("{}/", reader.crate_dir()));
    let lists_folder = is_same_crate && reader.text.contains("read_dir") && reader.text.contains("golden");
    reader.text.contains(name) || lists_folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unread_golden_file_is_found() {
        let files = [
            "crates/x/tests/golden/a.json",
            "crates/x/tests/golden/b.json",
            "crates/y/golden/c",
            "crates/y/d",
        ];
        let files = files.map(str::to_owned);
        let by_name = Source::new("crates/x/tests/a.rs", "#[test]\nfn a() { read(\"golden/a.json\") }");
        let no_test = Source::new("crates/x/src/lib.rs", "fn b() { read(\"golden/b.json\") }");
        let by_listing = Source::new("crates/y/tests/a.rs", "#[test]\nfn a() { read_dir(\"golden\") }");
        let found = check(&files, &[by_name, no_test, by_listing]);
        let paths: Vec<&str> = found.iter().map(|problem| problem.path.as_str()).collect();
        assert_eq!(paths, ["crates/x/tests/golden/b.json"]);
    }
}
