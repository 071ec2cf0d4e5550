//! The scripts that a command runs, as far as its text names them.
//!
//! Whoever approves `sh release.sh` approves what is in that file. Owns finding such files in the workspace, so that leave ends when
//! one of them changes. Refuses to follow what they run in turn, which only running them shows.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
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

/// How the names of scripts end.
const ENDS: &[&str] =
    &["bash", "cjs", "js", "lua", "mjs", "mk", "php", "pl", "py", "rb", "sh", "sql", "ts", "zsh"];

/// What the scripts are that `command` names, each once.
pub(crate) fn named(context: &Context, command: &str) -> Vec<Trace> {
    let is_end = |letter: char| letter.is_whitespace() || "'\"`;&|()<>=$".contains(letter);
    let words = command.split(is_end).filter(|word| !word.is_empty());
    let names = words.flat_map(|word| {
        let recipes =
            RECIPES.iter().find(|(program, _)| *program == word).map_or(&[][..], |(_, files)| *files);
        std::iter::once(word).chain(recipes.iter().copied())
    });
    let mut found = BTreeMap::new();
    for name in names.take(limits::SCRIPT_WORDS_MAX) {
        let cwd = context.cwd.as_deref().unwrap_or_default();
        let path = Path::new(cwd).join(name);
        if let Some(path) = path.to_str()
            && !found.contains_key(path)
            && let Some(digest) = digest(context, path)
        {
            found.insert(path.to_owned(), digest);
        }
    }
    let trace = |(target, digest): (String, String)| Trace { target, before: digest.clone(), after: digest };
    found.into_iter().map(trace).collect()
}

/// That of a script; nothing of what is none, or not in the workspace.
fn digest(context: &Context, path: &str) -> Option<String> {
    let mut file = context.workspace.open_file(path).ok()?;
    let found = file.metadata().ok().filter(|found| found.len() <= limits::SCRIPT_BYTES_MAX)?;
    let is_program = found.permissions().mode() & 0o111 != 0;
    let ends = Path::new(path).extension().and_then(|end| end.to_str()).unwrap_or_default();
    let is_recipe = RECIPES.iter().any(|(_, files)| files.iter().any(|name| Path::new(path).ends_with(name)));
    let content = content(&mut file)?;
    let is_script = is_program || is_recipe || ENDS.contains(&ends) || content.starts_with(b"#!");
    is_script.then(|| digest_of(&content))
}

fn content(file: &mut File) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    file.take(limits::SCRIPT_BYTES_MAX).read_to_end(&mut content).ok()?;
    Some(content)
}
