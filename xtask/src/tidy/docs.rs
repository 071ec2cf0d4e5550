//! Every module says what it owns before it says anything else.

use crate::problem::Problem;
use crate::source::Source;

pub(crate) fn check(source: &Source) -> Option<Problem> {
    let is_module = source.inner_path().starts_with("src/");
    let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    (is_module && !first.starts_with("//!")).then(|| {
        let text = "the module has no `//!` doc; begin with what it owns and what it refuses";
        Problem::new(&source.path, 1, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_without_a_doc_is_refused() {
        assert!(check(&Source::new("crates/x/src/lib.rs", "fn a() {}")).is_some());
        assert!(check(&Source::new("crates/x/src/lib.rs", "")).is_some());
        assert!(check(&Source::new("crates/x/src/lib.rs", "use a;\n//! Late.")).is_some());
        assert_eq!(check(&Source::new("crates/x/src/lib.rs", "\n//! Owns a.\nfn a() {}")), None);
        assert_eq!(check(&Source::new("crates/x/tests/a.rs", "fn a() {}")), None);
        assert_eq!(check(&Source::new("crates/x/build.rs", "fn main() {}")), None);
    }
}
