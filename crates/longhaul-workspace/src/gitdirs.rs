//! Where git keeps what belongs to a checkout, found without running git.
//!
//! Owns telling a true link from a forged one: the `.git` file of a worktree can be written by whoever works in it, so
//! it counts only if the directory it names points back. Refuses to guess: what is neither is no repository.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

use crate::limits;

/// The directories of one checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitDirs {
    /// A `.git` directory at the checkout's root `top`.
    Own { top: PathBuf, directory: PathBuf },
    /// A `.git` file at `top`, with a directory of its own below the repository's `common` one.
    Linked { top: PathBuf, own: PathBuf, common: PathBuf },
}

impl GitDirs {
    /// The root of the checkout.
    pub fn top(&self) -> &Path {
        match self {
            GitDirs::Own { top, .. } | GitDirs::Linked { top, .. } => top,
        }
    }

    /// What all checkouts of the repository share.
    pub fn common(&self) -> &Path {
        match self {
            GitDirs::Own { directory, .. } => directory,
            GitDirs::Linked { common, .. } => common,
        }
    }
}

/// What git keeps for the checkout at exactly `top`.
pub fn at(top: &Path) -> Option<GitDirs> {
    let link = top.join(".git");
    let found = fs::symlink_metadata(&link).ok()?;
    if found.is_dir() {
        return Some(GitDirs::Own { top: top.to_owned(), directory: link });
    }
    if !found.is_file() || found.len() > limits::GIT_LINK_BYTES_MAX {
        return None;
    }
    let own = target(&link, "gitdir:", top)?;
    let common = target(&own.join("commondir"), "", &own)?;
    let below = own.parent().is_some_and(|parent| parent == common.join("worktrees"));
    (below && points_back(&own, top)?).then(|| GitDirs::Linked { top: top.to_owned(), own, common })
}

/// Where a worktree with a directory of its own says what the repository keeps of it.
pub(crate) const WORKTREE_OF: &str = "longhaul-worktree";

/// Where a workspace has what it was made from, beside its own objects.
pub(crate) const FETCHED: &str = "longhaul-fetched";

/// Has longhaul made the repository of the checkout at exactly `top`, for an agent to work in?
pub(crate) fn is_ours(top: &Path) -> bool {
    let own = top.join(".git");
    let is_there = |name: &str| own.join(name).symlink_metadata().is_ok();
    own.symlink_metadata().is_ok_and(|facts| facts.is_dir())
        && [WORKTREE_OF, FETCHED].into_iter().any(is_there)
}

/// The branches that somebody stands on, or will be put back onto by what is under way, by their full names; but for whom `entry` is of.
pub(crate) fn stood_on(common: &Path, entry: &Path) -> BTreeSet<String> {
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let places = linked.map(|linked| linked.path()).chain([common.to_owned()]);
    let says = |place: PathBuf| {
        let files = ["HEAD", "rebase-merge/head-name", "rebase-apply/head-name", "BISECT_START"];
        files.map(|name| small(&place.join(name)))
    };
    let said = places.filter(|place| place != entry).flat_map(says).flatten();
    let name = |said: String| {
        let said = said.trim_end().trim_start_matches("ref: ");
        if said.starts_with("refs/") { said.to_owned() } else { format!("refs/heads/{said}") }
    };
    said.map(name).collect()
}

/// By what a worktree's directory says that it is part of another one, which one of our own never is.
pub(crate) const LEADS_AWAY: [&str; 2] = ["commondir", "gitdir"];

/// Something at the top of git's directory that git never puts there: a link, what is waited for when it is opened, or what leads to
/// another one.
pub(crate) fn odd_entry(directory: &Path) -> Option<OsString> {
    let is_usual = |kind: fs::FileType| kind.is_file() || kind.is_dir() || kind.is_socket();
    let is_odd = |entry: &fs::DirEntry| {
        LEADS_AWAY.iter().any(|name| entry.file_name() == *name)
            || entry.file_type().map_or(true, |kind| !is_usual(kind))
    };
    fs::read_dir(directory).ok()?.flatten().find(is_odd).map(|entry| entry.file_name())
}

/// The repository whose worktree a checkout is, though it has a directory of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lender {
    pub common: PathBuf,
    /// What the repository keeps of that worktree.
    pub entry: PathBuf,
}

impl Lender {
    /// The branch that is brought there, as a path below the repository's directory; none if only git can tell.
    pub(crate) fn branch(&self) -> Option<String> {
        branch(&self.entry).filter(|branch| !branch.ends_with("/.invalid"))
    }
}

/// The note beside a worktree with a directory of its own, of what the repository keeps of it. Whoever works in there cannot write
/// it: what he says himself may lead to a repository of his own making, in whose place anything may be linked.
pub(crate) fn note_of(top: &Path) -> PathBuf {
    let mut name = top.file_name().unwrap_or_default().to_owned();
    name.push(".worktree-of");
    top.with_file_name(name)
}

/// Who lends its objects to the checkout at exactly `top`, by the note beside it, if that repository knows the place.
pub fn lender(top: &Path) -> Option<Lender> {
    fs::symlink_metadata(top.join(".git")).ok().filter(fs::Metadata::is_dir)?;
    let entry = PathBuf::from(small(&note_of(top))?.trim_end_matches('\n'));
    let entry = entry.is_absolute().then(|| entry.canonicalize().ok())??;
    let worktrees =
        entry.parent().filter(|parent| parent.file_name().is_some_and(|name| name == "worktrees"))?;
    let common = worktrees.parent()?.to_owned();
    points_back(&entry, top)?.then_some(Lender { common, entry })
}

/// What a checkout with a directory of its own says itself that a repository keeps of it. Whoever works there may have written it.
pub(crate) fn worktree_of(top: &Path) -> Option<PathBuf> {
    let own = top.join(".git");
    let says = fs::symlink_metadata(&own).ok()?.is_dir().then(|| small(&own.join(WORKTREE_OF)))??;
    Some(PathBuf::from(says.trim_end_matches('\n'))).filter(|entry| entry.is_absolute())
}

/// Does what a repository keeps of a worktree name this place?
pub(crate) fn points_back(entry: &Path, top: &Path) -> Option<bool> {
    let back = entry.join(small(&entry.join("gitdir"))?.trim_end());
    Some(back.parent().and_then(|parent| parent.canonicalize().ok()).is_some_and(|back| back == top))
}

/// Where a checkout's own objects are and those that are lent to it, the nearest first. What is no store of objects lends none.
pub fn lent(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    let mut asked = vec![directory.join("objects")];
    while let Some(objects) = asked.pop().filter(|_| found.len() < limits::LENDERS_MAX) {
        let named = small(&objects.join("info/alternates")).unwrap_or_default();
        let named = named.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        for lent in named.filter_map(|line| objects.join(unquoted(line)).canonicalize().ok()) {
            let is_store = lent.file_name().is_some_and(|name| name == "objects")
                && lent
                    .parent()
                    .is_some_and(|parent| parent.join("HEAD").is_file() && parent.join("refs").is_dir());
            if is_store && !found.contains(&lent) {
                found.push(lent.clone());
                asked.push(lent);
            }
        }
    }
    found
}

/// A path as git writes it if it has a line break in it.
fn unquoted(line: &str) -> String {
    let Some(inside) = line.strip_prefix('"').and_then(|line| line.strip_suffix('"')) else {
        return line.to_owned();
    };
    let mut letters = inside.chars();
    let read = || match letters.next()? {
        '\\' => letters.next().map(|escaped| if escaped == 'n' { '\n' } else { escaped }),
        plain => Some(plain),
    };
    std::iter::from_fn(read).collect()
}

/// What git keeps for the nearest checkout at or above `path`; not looked for at `boundary` or above it.
pub fn above(path: &Path, boundary: &Path) -> Option<GitDirs> {
    let inside = path.ancestors().take(limits::REPOSITORY_LEVELS_MAX);
    let mut inside = inside.take_while(|path| !boundary.starts_with(path));
    inside.find(|path| path.join(".git").symlink_metadata().is_ok()).and_then(at)
}

/// A branch that is checked out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckedOut {
    /// Where git keeps what belongs to that checkout.
    pub directory: PathBuf,
    /// The `.git` of the checkout, with its links resolved if it is there.
    pub place: PathBuf,
    /// As a path below the repository's directory.
    pub branch: String,
}

/// The branches that are checked out, in the repository's own checkout and in those linked to it. One without an index is none.
pub fn checked_out(common: &Path) -> Vec<CheckedOut> {
    let linked = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    let linked = linked.take(limits::WORKTREES_LOOKED_AT_MAX).filter_map(|entry| {
        let directory = entry.path();
        let place = directory.join(small(&directory.join("gitdir"))?.trim_end());
        let place =
            place.parent().and_then(|top| top.canonicalize().ok()).map_or(place, |top| top.join(".git"));
        Some(CheckedOut { place, branch: branch(&directory)?, directory })
    });
    let own = branch(common).filter(|_| common.join("index").exists());
    let own = own.map(|branch| CheckedOut { directory: common.to_owned(), place: common.to_owned(), branch });
    own.into_iter().chain(linked).collect()
}

/// The branch that is checked out where git keeps this, as a path below the repository's directory.
fn branch(directory: &Path) -> Option<String> {
    let head = small(&directory.join("HEAD"))?;
    let branch = head.strip_prefix("ref: ")?.trim_end();
    let is_plain = Path::new(branch).components().all(|part| matches!(part, Component::Normal(_)));
    (branch.starts_with("refs/heads/") && is_plain).then(|| branch.to_owned())
}

/// The directory that a small file names, with its links resolved.
fn target(file: &Path, prefix: &str, base: &Path) -> Option<PathBuf> {
    base.join(small(file)?.strip_prefix(prefix)?.trim()).canonicalize().ok()
}

/// Where the history of a repository ends that has not all of it, as git keeps it. What is no list of commits is none.
pub fn history_ends(common: &Path) -> Option<String> {
    let text = said_by(&common.join("shallow"), limits::NOTE_BYTES_MAX)?;
    let is_commit = |line: &str| !line.is_empty() && line.chars().all(|letter| letter.is_ascii_hexdigit());
    text.lines().all(is_commit).then_some(text)
}

/// What a small file says.
pub(crate) fn small(file: &Path) -> Option<String> {
    said_by(file, limits::GIT_LINK_BYTES_MAX)
}

/// What the beginning of a file says. An agent may have put something else there: no link is followed, and nothing is waited for.
fn said_by(file: &Path, bytes_max: u64) -> Option<String> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(file).ok()?;
    let mut text = String::new();
    let is_file = file.metadata().ok()?.is_file();
    is_file.then(|| file.take(bytes_max).read_to_string(&mut text).ok())??;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(directory: &Path, words: &[&str]) {
        let mut git = std::process::Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words).current_dir(directory);
        assert!(git.output().unwrap().status.success(), "{words:?}");
    }

    #[test]
    fn checkouts_are_found_and_forged_links_are_not() {
        let outer = tempfile::tempdir().unwrap();
        let base = outer.path().canonicalize().unwrap();
        let (repo, tree) = (base.join("repo"), base.join("tree"));
        fs::create_dir_all(repo.join("sub/deep")).unwrap();
        git(&repo, &["init", "-q"]);
        git(&repo, &["commit", "-q", "--allow-empty", "-m", "x"]);
        git(&repo, &["worktree", "add", "-q", "../tree"]);

        let own = GitDirs::Own { top: repo.clone(), directory: repo.join(".git") };
        assert_eq!(at(&repo), Some(own.clone()));
        assert_eq!(above(&repo.join("sub/deep"), &base), Some(own));
        assert_eq!(above(&repo.join("sub/deep"), &repo), None);
        assert_eq!(at(&base), None);
        let own = repo.join(".git/worktrees/tree");
        let linked = GitDirs::Linked { top: tree.clone(), own: own.clone(), common: repo.join(".git") };
        assert_eq!(at(&tree), Some(linked));

        // Somebody else's worktree, a directory that is no repository, and a repository of the forger's own.
        fs::create_dir_all(base.join("forged/fake/worktrees/x")).unwrap();
        let forged = base.join("forged");
        for target in [own.display().to_string(), base.display().to_string(), "fake/worktrees/x".to_owned()] {
            fs::write(forged.join(".git"), format!("gitdir: {target}\n")).unwrap();
            assert_eq!(at(&forged), None, "{target}");
        }
    }
}
