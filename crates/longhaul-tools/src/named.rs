//! The files that a command names.
//!
//! Whoever approves `sh release.sh` or `kubectl apply -f site.yaml` approves what is in that file. Owns finding such files in the
//! workspace, so that leave ends when one of them changes. Refuses to understand the command: a word that happens to be the name
//! of a file counts, and what a script runs in turn only running it shows.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use longhaul_core::tool::Trace;
use longhaul_workspace::digest_of;

use crate::limits;
use crate::tool::Context;

/// Files that hold what a program of this name runs.
const RECIPES: &[(&str, &[&str])] = &[
    ("make", &["GNUmakefile", "makefile", "Makefile"]),
    ("just", &["justfile", "Justfile", ".justfile"]),
    ("npm", &["package.json"]),
    ("pnpm", &["package.json"]),
    ("yarn", &["package.json"]),
];

/// The files that `command` names, each once, with what is in them.
pub(crate) fn files(context: &Context, command: &str) -> Vec<Trace> {
    let words = words(command);
    let recipes = RECIPES.iter().filter(|(program, _)| words.contains(*program));
    let recipes = recipes.flat_map(|(_, files)| files.iter().map(|file| (*file).to_owned()));
    let names: BTreeSet<String> = words.iter().cloned().chain(recipes).collect();
    let here = context.cwd.clone().unwrap_or_default();
    // `cd` may lead to what is named later.
    let entered = words.iter().filter(|word| context.workspace.open_directory(&below(&here, word)).is_ok());
    let places: Vec<String> =
        std::iter::once(here.clone()).chain(entered.map(|word| below(&here, word))).collect();
    let mut found = BTreeMap::new();
    let paths = places.iter().flat_map(|place| names.iter().map(move |name| below(place, name)));
    for path in paths.take(limits::NAMED_PATHS_MAX) {
        if !found.contains_key(&path)
            && let Some(digest) = digest(context, &path)
        {
            found.insert(path, digest);
        }
    }
    let trace = |(target, digest): (String, String)| Trace { target, before: digest.clone(), after: digest };
    found.into_iter().map(trace).collect()
}

fn below(place: &str, name: &str) -> String {
    Path::new(place).join(name).to_string_lossy().into_owned()
}

/// The words of a command: as they stand, as they are without their quotes, and what is between quotes as a whole.
fn words(command: &str) -> BTreeSet<String> {
    let is_quote = |letter: char| "'\"\\".contains(letter);
    let is_end = |letter: char| letter.is_whitespace() || "`;&|()<>=$".contains(letter);
    let bare: String = command.chars().filter(|letter| !is_quote(*letter)).collect();
    let between = ['\'', '"'].into_iter().flat_map(|quote| command.split(quote));
    let words =
        command.split(|letter| is_end(letter) || is_quote(letter)).chain(bare.split(is_end)).chain(between);
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// That of a file in the workspace.
fn digest(context: &Context, path: &str) -> Option<String> {
    let file = context.workspace.open_file(path).ok()?;
    file.metadata().ok().filter(|found| found.len() <= limits::NAMED_BYTES_MAX)?;
    let mut content = Vec::new();
    file.take(limits::NAMED_BYTES_MAX).read_to_end(&mut content).ok()?;
    Some(digest_of(&content))
}
