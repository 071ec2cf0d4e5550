//! What a repository asks of every agent that works in it: its `AGENTS.md`, then its `CLAUDE.md`.
//!
//! Owns finding and bounding them. A line that asks for another file (`@docs/style.md`) stays a line: agents can read it, and
//! nobody is sent in circles. Refuses a link that leads out of the repository: what it leads to would go to a model.

use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

use longhaul_core::prompt::head;

use crate::limits::RULES_BYTES_MAX;

/// The files that are looked for, in the order in which they are given. One that only says what another said is left out.
const NAMES: [&str; 2] = ["AGENTS.md", "CLAUDE.md"];

/// A repository's rules; empty if it has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// As written, cut with a note if it is too long.
    pub text: String,
    /// The files it is from, from the repository's root.
    pub files: Vec<String>,
    /// What was not read, or not whole, and why.
    pub notes: Vec<String>,
}

/// The rules of the repository at `root`.
pub fn project_rules(root: &Path) -> Rules {
    let mut notes = Vec::new();
    let mut found: Vec<(&str, String)> = Vec::new();
    for name in NAMES {
        match read(root, name) {
            Ok(None) => {}
            Ok(Some(Text { text, .. })) if says_nothing_new(&text, &found) => {}
            Ok(Some(Text { text, cut })) => {
                if cut {
                    notes.push(format!("{name} has more than {RULES_BYTES_MAX} bytes; the rest is left out"));
                }
                found.push((name, text));
            }
            Err(why) => notes.push(format!("{name} is not read: {why}")),
        }
    }
    let files = found.iter().map(|(name, _)| (*name).to_owned()).collect();
    let text = match found.as_slice() {
        [(_, only)] => only.clone(),
        several => {
            let parts = several.iter().map(|(name, text)| format!("From {name}:\n\n{text}"));
            parts.collect::<Vec<_>>().join("\n\n")
        }
    };
    Rules { text, files, notes }
}

/// The same text (or a link to it), or nothing but a line that names a file which is there already.
fn says_nothing_new(text: &str, found: &[(&str, String)]) -> bool {
    let is_known = |line: &str| found.iter().any(|(name, _)| line.trim().strip_prefix('@') == Some(*name));
    found.iter().any(|(_, other)| other == text)
        || text.lines().all(|line| line.trim().is_empty() || is_known(line))
}

struct Text {
    text: String,
    cut: bool,
}

/// `None` if it is not there or says nothing.
fn read(root: &Path, name: &str) -> Result<Option<Text>, String> {
    let path = root.join(name);
    if fs::symlink_metadata(&path).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
        return Ok(None);
    }
    let failed = |error: std::io::Error| error.to_string();
    let (real, root) = (path.canonicalize().map_err(failed)?, root.canonicalize().map_err(failed)?);
    if !real.starts_with(&root) {
        return Err("it is a link that leads out of the repository".to_owned());
    }
    // Opening a pipe would wait for a writer.
    if !fs::metadata(&real).map_err(failed)?.is_file() {
        return Err("it is not a file".to_owned());
    }
    let mut bytes = Vec::new();
    let file = File::open(&real).map_err(failed)?;
    file.take(RULES_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
    let cut = bytes.len() > RULES_BYTES_MAX;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.is_empty() {
        return Ok(None);
    }
    let text = if cut {
        format!(
            "{}\n\n[cut here: {name} is longer than {RULES_BYTES_MAX} bytes]",
            head(text, RULES_BYTES_MAX)
        )
    } else {
        text.to_owned()
    };
    Ok(Some(Text { text, cut }))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Both files count, whole and as written, each thing once; lines that name other files, also in circles, are not followed.
    #[test]
    fn agents_go_before_claude() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
        assert_eq!(project_rules(root.path()), Rules::default());
        write("CLAUDE.md", "@AGENTS.md\n@CLAUDE.md\nUse tabs.\n");
        let claude = project_rules(root.path());
        assert_eq!(
            (claude.text.as_str(), claude.files),
            ("@AGENTS.md\n@CLAUDE.md\nUse tabs.", vec!["CLAUDE.md".to_owned()])
        );
        write("AGENTS.md", "@CLAUDE.md\n");
        let both = project_rules(root.path());
        assert_eq!(
            both.text,
            "From AGENTS.md:\n\n@CLAUDE.md\n\nFrom CLAUDE.md:\n\n@AGENTS.md\n@CLAUDE.md\nUse tabs."
        );
        assert_eq!((both.files.len(), both.notes.len()), (2, 0));
        for same in ["@CLAUDE.md\n", "\n@AGENTS.md\n"] {
            write("CLAUDE.md", same);
            let once = project_rules(root.path());
            assert_eq!(
                (once.text.as_str(), once.files),
                ("@CLAUDE.md", vec!["AGENTS.md".to_owned()]),
                "{same}"
            );
        }
        write("CLAUDE.md", "Use tabs.");
        write("AGENTS.md", " \n");
        assert_eq!(project_rules(root.path()).files, ["CLAUDE.md"], "one that says nothing does not count");
    }

    /// Too much is cut and said to be, and what is no file of the repository is not read.
    #[test]
    fn rules_are_bounded_and_stay_inside() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| root.path().join(name);
        fs::write(path("CLAUDE.md"), "é".repeat(RULES_BYTES_MAX)).unwrap();
        let long = project_rules(root.path());
        assert!(
            long.text.len() < RULES_BYTES_MAX + 100 && long.text.ends_with("is longer than 65536 bytes]")
        );
        assert_eq!(long.notes, ["CLAUDE.md has more than 65536 bytes; the rest is left out"]);

        fs::write(outside.path().join("secret"), "key").unwrap();
        fs::remove_file(path("CLAUDE.md")).unwrap();
        symlink(outside.path().join("secret"), path("AGENTS.md")).unwrap();
        symlink("CLAUDE.md", path("CLAUDE.md")).unwrap();
        let refused = project_rules(root.path());
        assert_eq!((refused.text.as_str(), refused.files.len(), refused.notes.len()), ("", 0, 2));
        assert_eq!(refused.notes[0], "AGENTS.md is not read: it is a link that leads out of the repository");

        fs::remove_file(path("AGENTS.md")).unwrap();
        fs::remove_file(path("CLAUDE.md")).unwrap();
        fs::create_dir(path("AGENTS.md")).unwrap();
        fs::create_dir(path("docs")).unwrap();
        fs::write(path("docs/rules.md"), "inside").unwrap();
        symlink("docs/rules.md", path("CLAUDE.md")).unwrap();
        let inside = project_rules(root.path());
        assert_eq!(
            (inside.text.as_str(), inside.notes),
            ("inside", vec!["AGENTS.md is not read: it is not a file".to_owned()])
        );
    }
}
