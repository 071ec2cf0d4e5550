//! The house rules as functions over files. It owns what is checked; each rule stands in a module of its own, takes
//! paths and texts, and gives back problems.

mod bans;
mod direction;
mod docs;
mod golden;
mod lengths;
mod links;
mod names;
mod wiring;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::problem::Problem;
use crate::source::{self, Source};
use direction::Manifest;

/// The tree, read once.
pub(crate) struct House {
    sources: Vec<Source>,
    /// Path and text of each crate's Cargo.toml.
    manifests: Vec<(String, String)>,
    files: Vec<String>,
    /// Path and text of each page that people read.
    pages: Vec<(String, String)>,
    root: PathBuf,
}

impl House {
    pub(crate) fn open(root: &Path) -> Result<House> {
        let files = source::files(root)?;
        let manifests = texts(root, files.iter().filter(|path| path.ends_with("/Cargo.toml")))?;
        let pages = texts(root, source::pages(root)?.iter())?;
        Ok(House { sources: source::rust_files(root)?, manifests, files, pages, root: root.to_owned() })
    }

    pub(crate) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (path, text) in &self.manifests {
            problems.extend(direction::check(&Manifest::parse(path, text)));
            problems.extend(wiring::switched_off(path, text));
        }
        for source in &self.sources {
            problems.extend(bans::check(source));
            problems.extend(names::check(source));
            problems.extend(docs::check(source));
        }
        for (path, text) in &self.pages {
            problems.extend(links::check(path, text, |target| self.root.join(target).exists()));
        }
        problems.extend(wiring::check(&self.sources));
        problems.extend(golden::check(&self.files, &self.sources));
        problems.sort();
        problems.dedup();
        problems
    }

    /// The longest functions and files: for a reader's eye, never a failure.
    pub(crate) fn longest(&self) -> String {
        lengths::report(&self.sources)
    }
}

fn texts<'a>(root: &Path, paths: impl Iterator<Item = &'a String>) -> Result<Vec<(String, String)>> {
    let read = |path: &'a String| {
        let text = std::fs::read_to_string(root.join(path)).with_context(|| format!("cannot read {path}"))?;
        Ok((path.clone(), text))
    };
    paths.map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_house_is_tidy() {
        let house = House::open(&crate::root().unwrap()).unwrap();
        let problems: Vec<String> = house.problems().iter().map(Problem::to_string).collect();
        assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
    }
}
