//! What a run's branch is called, and what may be pushed from it.

use std::path::Path;

use longhaul_core::ids::RunId;
use longhaul_core::permission::{Action, Permissions, Rules};
use longhaul_core::prompt::own_step;
use longhaul_workspace::place;

use crate::limits::BRANCH_TASK_LETTERS_MAX;
use crate::settings::Git;

/// What a branch is named after.
pub struct Naming<'a> {
    pub git: &'a Git,
    pub task: &'a str,
    pub agent: &'a str,
    pub id: &'a RunId,
}

impl Naming<'_> {
    /// A name of this run's own. The end of its id tells two runs of one task apart.
    pub fn branch(&self, repository: &Path) -> String {
        let prefix = &self.git.branch_prefix;
        if !self.git.auto_branch || self.prefix(repository) != prefix {
            return format!("longhaul/{}", self.id);
        }
        let end = self.id_end();
        let words =
            [slug(own_step(self.task), BRANCH_TASK_LETTERS_MAX), slug(self.agent, BRANCH_TASK_LETTERS_MAX)];
        let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        format!("{prefix}{}", [words, vec![end]].concat().join("-"))
    }
}

impl Naming<'_> {
    /// The branch of a session or the like, which all its runs share.
    pub fn shared_branch(&self, repository: &Path, label: &str) -> String {
        let plain = format!("{}{label}", self.prefix(repository));
        // Somebody's branch, or that of a session which was deleted: its commits are not ours to go on from.
        if place::branch(repository, &plain).is_some() { format!("{plain}-{}", self.id_end()) } else { plain }
    }

    /// What the branches of agents begin with that work side by side.
    pub fn family(&self, repository: &Path, name: &str) -> String {
        let plain = format!("{}{name}", self.prefix(repository));
        // A branch of that very name leaves no room below it.
        let taken = place::branch(repository, &plain).is_some();
        if taken { format!("{plain}-{}/", self.id_end()) } else { format!("{plain}/") }
    }

    /// As the settings have it, unless that is switched off or cannot be.
    fn prefix(&self, repository: &Path) -> &str {
        let prefix = &self.git.branch_prefix;
        // A branch `agent` leaves no room for an `agent/x`.
        let is_taken = |name: &str| place::branch(repository, name).is_some();
        let taken = prefix.match_indices('/').any(|(end, _)| is_taken(&prefix[..end]));
        if !self.git.auto_branch || taken { "longhaul/" } else { prefix }
    }

    pub fn id_end(&self) -> &str {
        let id = self.id.as_str();
        &id[id.len().saturating_sub(ID_END)..]
    }
}

/// Letters of a run's id that are random.
const ID_END: usize = 8;

/// The words of a text as a name: small letters, digits, and dashes between them.
fn slug(text: &str, letters_max: usize) -> String {
    let mut slug = String::new();
    for letter in text.chars() {
        if slug.len() >= letters_max {
            break;
        }
        match letter.to_ascii_lowercase() {
            letter @ ('a'..='z' | '0'..='9') => slug.push(letter),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.trim_end_matches('-').to_owned()
}

/// May this be a branch's name, or the beginning of one? Stricter than git.
pub fn is_plain(name: &str) -> bool {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/');
    let parts: Vec<&str> = name.strip_suffix('/').unwrap_or(name).split('/').collect();
    let part = |part: &&str| {
        !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with('.') && !part.ends_with(".lock")
    };
    name.chars().all(letters) && !name.contains("..") && name != "HEAD" && parts.iter().all(part)
}

/// `git.require_approval` as a rule.
pub fn push_rule(asks: bool) -> Permissions {
    let action = if asks { Action::Ask } else { Action::Allow };
    let rules = ["git push", "git push *"].map(|pattern| (pattern.to_owned(), action));
    Permissions([("bash".to_owned(), Rules(rules.into_iter().collect()))].into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_branches() {
        assert_eq!(slug("Fix bug #12: ../../ \u{1b}[31mé", 40), "fix-bug-12-31m");
        assert_eq!(slug("-- --upload-pack=x", 40), "upload-pack-x");
        assert_eq!(slug("日本", 40), "");
        for name in ["agent/", "a/b", "main", "v1.2"] {
            assert!(is_plain(name), "{name}");
        }
        for name in [
            "-x", "a/-x", "..", "a..b", "/a", "a//b", "a.lock", ".git", "a b", "a\nb", "HEAD", "a:b",
            "@{-1}", "a/.b",
        ] {
            assert!(!is_plain(name), "{name}");
        }
    }
}
