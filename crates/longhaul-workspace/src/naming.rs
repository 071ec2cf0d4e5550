//! What a name would be taken for in the user's repository.
//!
//! Owns telling the names that mean nothing there from those by which somebody could get, or be shown, something else: other
//! branches and tags, what git reads as a commit, and files, also on disks that do not tell `main` from `Main`. Refuses to guess:
//! what cannot be looked at means something.

use std::collections::BTreeSet;

use crate::git;
use crate::gitdirs::Lender;
use crate::lending::References;

const BRANCHES: &str = "refs/heads/";

/// What comes first in names of git's own, and of ours.
const FIRST: &[&str] = &["heads", "longhaul", "refs", "remotes", "stash", "tags"];

/// What git keeps beside its references, by names as a branch could have them.
const BESIDE: &[&str] = &[
    "auto_merge",
    "bisect_head",
    "cherry_pick_head",
    "fetch_head",
    "head",
    "merge_head",
    "orig_head",
    "rebase_head",
    "revert_head",
];

/// Letters of a commit's id that git prints for it. It also takes fewer, which may be words too (`cafe`, `2024`).
const ID_LETTERS_MIN: usize = 7;

/// The names of a repository.
pub(crate) struct Names<'a> {
    lender: &'a Lender,
    references: References,
    /// All of them, and their beginnings, in small letters.
    folded: BTreeSet<String>,
    /// What remotes' branches are called there, in small letters.
    of_remotes: BTreeSet<String>,
    remotes: Vec<String>,
}

impl<'a> Names<'a> {
    pub(crate) fn of(lender: &'a Lender) -> Result<Names<'a>, git::Error> {
        let references = References::of(lender.git(), "")?;
        let remotes = lender.git().run(&["remote"])?.lines().map(str::to_lowercase).collect();
        let mut names =
            Names { lender, references, folded: BTreeSet::new(), of_remotes: BTreeSet::new(), remotes };
        let all: Vec<String> = names.references.iter().map(|(name, _)| name.to_lowercase()).collect();
        for name in all {
            names.of_remotes.extend(names.short_of_remote(&name).map(str::to_owned));
            names.folded.extend(name.match_indices('/').map(|(at, _)| name[..at].to_owned()));
            names.folded.insert(name);
        }
        Ok(names)
    }

    /// `topic` of `refs/remotes/origin/topic`. A remote that is gone has a name without `/`, as nearly all have.
    fn short_of_remote<'n>(&self, name: &'n str) -> Option<&'n str> {
        let rest = name.strip_prefix("refs/remotes/")?;
        let known =
            self.remotes.iter().find_map(|remote| rest.strip_prefix(remote.as_str())?.strip_prefix('/'));
        known.or_else(|| rest.split_once('/').map(|(_, short)| short))
    }

    /// What a branch is there.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.references.get(name)
    }

    /// Is there nothing that whoever says the short name of this branch would get today?
    pub(crate) fn is_free(&self, name: &str) -> bool {
        // What is no text has a letter for that in it, and is another name.
        let Some(short) = name.strip_prefix(BRANCHES).filter(|short| !short.contains('\u{fffd}')) else {
            return false;
        };
        let short = short.to_lowercase();
        !self.is_git_s(&short) && !self.is_taken(&short)
    }

    fn is_git_s(&self, short: &str) -> bool {
        let first = short.split('/').next().unwrap_or_default();
        let is_id = |word: &str| {
            word.len() >= ID_LETTERS_MIN && word.chars().all(|letter| letter.is_ascii_hexdigit())
        };
        // As `git describe` prints it.
        let described = short.rsplit_once("-g").map_or("", |(_, id)| id);
        short.starts_with('-')
            || is_id(short)
            || is_id(described)
            || BESIDE.contains(&short)
            || FIRST.contains(&first)
            || self.folded.contains(&format!("refs/{first}"))
    }

    fn is_taken(&self, short: &str) -> bool {
        let is_remote =
            self.remotes.iter().any(|remote| short == remote || short.starts_with(&format!("{remote}/")));
        is_remote
            // `git checkout` takes the name of a remote's branch for a wish to have it here.
            || self.of_remotes.contains(short)
            || ["heads", "remotes", "tags"].iter().any(|kind| self.folded.contains(&format!("refs/{kind}/{short}")))
    }

    /// Those that no file or directory is called by, in what is checked out there, and no object's id begins with: git asks whoever
    /// says such a name what he means, or shows him the branch.
    pub(crate) fn but_for_others<'n>(
        &self,
        new: Vec<(&'n str, &'n str)>,
    ) -> Result<Vec<(&'n str, &'n str)>, git::Error> {
        let asked = new.iter().map(|(name, _)| short(name)).map(|name| format!("HEAD:{name}\n{name}\n"));
        let git = self.lender.git().printing_much();
        let found =
            git.reading(asked.collect::<String>().into_bytes()).run(&["cat-file", "--batch-check"])?;
        let is_checkout = self.lender.common.file_name().is_some_and(|name| name == ".git");
        let top = self.lender.common.parent().filter(|_| is_checkout);
        let is_file = |name: &str| top.is_some_and(|top| top.join(short(name)).symlink_metadata().is_ok());
        let lines: Vec<&str> = found.lines().collect();
        let is_nothing = |lines: &[&str]| lines.iter().all(|line| line.ends_with(" missing"));
        let both = new.into_iter().zip(lines.chunks(2));
        Ok(both
            .filter(|((name, _), lines)| is_nothing(lines) && !is_file(name))
            .map(|(branch, _)| branch)
            .collect())
    }
}

/// As people say it.
fn short(name: &str) -> &str {
    name.strip_prefix(BRANCHES).unwrap_or(name)
}
