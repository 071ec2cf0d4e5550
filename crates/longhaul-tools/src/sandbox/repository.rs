//! What of a repository's `.git` a command sees and may change.
//!
//! Owns telling what git needs to be written from what makes it run programs, look elsewhere, or is the user's own checkout's.
//! Refuses to run git, whose settings the agent may have a hand in.

use std::fs;
use std::path::{Path, PathBuf};

use longhaul_workspace::gitdirs::{self, GitDirs};

use super::policy::{Host, Mount, World};

/// Parts of a repository's `.git` that make git run programs or look elsewhere; git needs them to be readable only.
const GIT_GUARDED: &[&str] = &[
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "hooks",
    "info",
    "longhaul-broken",
    "longhaul-fetched",
    "longhaul-worktree",
    "modules",
    "objects/info",
    "refs/replace",
    "worktrees",
];

/// Those that, where they are missing, are covered by an empty directory: they could be made otherwise. Git takes what lies in
/// `modules` and `worktrees` for repositories of its own, with their hooks, and what `objects/info` and `refs/replace` name for
/// what it was asked for.
const GIT_COVERED: &[&str] = &["hooks", "info", "modules", "objects/info", "refs/replace", "worktrees"];

/// Those that, where they are missing, cannot be covered without leaving a file that means something to git. Nobody makes them
/// in the middle of a user's own work, so that one that appears is the command's.
const GIT_SWEPT: &[&str] = &["config.worktree", "gitdir", "longhaul-fetched", "longhaul-worktree"];

/// Parts of a repository's `.git` that belong to the user's own checkout of it, which a linked worktree leaves alone. What is
/// only there while a user merges (`MERGE_HEAD`, locks) is not among them: it can neither be covered, because then git takes it
/// for begun, nor be swept, because the user may have begun it while the command ran. Nor can all of the directory be
/// private: git on the machine replaces `packed-refs`, and whoever still sees the old one has lost its branches.
const GIT_CHECKOUT: &[&str] = &["HEAD", "index"];

/// Where git keeps what it will do for the user when he goes on with a rebase, commands to be run among it. Where there is none, one
/// can be begun for him: git locks files in that directory, and Landlock, which could keep directories from being made there, gives
/// its rights also to all that is mounted below the private home.
const GIT_BEGUN: &[&str] = &["rebase-apply", "rebase-merge", "sequencer"];

/// Where git keeps commits and branches.
const GIT_KEPT: &[&str] = &["logs", "objects", "refs", "reftable"];

/// Which of git's directories.
#[derive(Clone, Copy, PartialEq, Eq)]
enum GitDirectory {
    Main,
    /// That of a linked worktree, below the main one.
    Linked,
}

impl World {
    pub(super) fn git(&mut self, host: &Host, git: &GitDirs) {
        match git {
            GitDirs::Own { directory, .. } => {
                self.git_directory(directory, GitDirectory::Main);
                self.git_lent(directory);
            }
            GitDirs::Linked { top, own, common } => {
                self.git_directory(common, GitDirectory::Main);
                self.git_lent(common);
                self.git_checkout(common);
                // Those of other runs are checked out in worktrees of ours, and there may be many.
                let checked_out = gitdirs::checked_out(common);
                for one in checked_out.iter().filter(|one| one.directory != *own && !host.hides(&one.place)) {
                    self.git_branch(common, &one.branch);
                }
                self.git_directory(own, GitDirectory::Linked);
                // Whoever could change this file would choose what is writable the next time.
                self.add(Mount::ReadOnly(top.join(".git")));
            }
        }
    }

    /// Objects of another repository's are there to be read, with the large files that git-lfs keeps beside them.
    fn git_lent(&mut self, directory: &Path) {
        for objects in gitdirs::lent(directory) {
            let large = objects.with_file_name("lfs");
            for path in [objects, large].into_iter().filter(|path| path.is_dir() && !path.is_symlink()) {
                if !self.shows(&path) {
                    self.add(Mount::ReadOnly(path));
                }
            }
        }
    }

    /// What the user's own checkout keeps in `.git` stays his, a rebase that he has begun among it. For a program that is started
    /// in that checkout, which is there to be read, so is its `.git`.
    fn git_checkout(&mut self, common: &Path) {
        for name in GIT_CHECKOUT.iter().chain(GIT_BEGUN) {
            self.show_content(&common.join(name));
        }
        if common.parent().is_some_and(|parent| self.shows(parent)) {
            let kept = GIT_KEPT
                .iter()
                .map(|name| common.join(name))
                .filter(|path| path.is_dir() && !path.is_symlink());
            for path in kept {
                self.mounts.entry(path.clone()).or_insert(Mount::Writable(path));
            }
            // What is missing cannot be made there, and need not be covered.
            self.mounts
                .retain(|at, mount| !matches!(mount, Mount::Nothing(_)) || at.parent() != Some(common));
            self.add(Mount::ReadOnly(common.to_owned()));
        }
    }

    /// A branch that is checked out elsewhere stays what it is: to its owner, his files would seem changed.
    fn git_branch(&mut self, common: &Path, branch: &str) {
        let path = common.join(branch);
        let nearest = path.ancestors().find_map(|above| self.mounts.get(above));
        if !matches!(nearest, Some(Mount::Writable(_))) {
            return;
        }
        // With another store of references, what stands here is no branch.
        if path.ancestors().skip(1).find(|above| above.exists()).is_some_and(|above| !above.is_dir()) {
            return;
        }
        let is_free = fs::read_dir(&path).map_or(true, |mut inside| inside.next().is_none());
        let cover = match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => Mount::ReadOnly(path.clone()),
            // It is among the packed ones, and a file here would count before that. Others may lie below a name that is no branch.
            Ok(_) | Err(_) if is_free => Mount::Nothing(path.clone()),
            Ok(_) | Err(_) => return,
        };
        self.hold_above(&path);
        self.add(cover);
    }

    /// Writable, but for what makes git run programs. Being mounts, neither the directory nor the guarded parts can be
    /// renamed and put back changed.
    fn git_directory(&mut self, directory: &Path, kind: GitDirectory) {
        // Only a linked worktree's directory has one; elsewhere it was forged, and would lead git astray.
        let forged = directory.join("commondir");
        if kind == GitDirectory::Main {
            self.swept.push(forged.clone());
        }
        // A run's own submodules are its own affair.
        let is_apart = directory.parent().and_then(gitdirs::lender).is_some();
        let names = GIT_GUARDED.iter().filter(|name| !is_apart || **name != "modules");
        let guarded = names.map(|name| directory.join(name));
        let guarded = guarded.filter(|path| kind == GitDirectory::Linked || *path != forged);
        let guarded: Vec<PathBuf> = guarded.collect();
        if guarded.iter().any(|path| path.is_symlink()) {
            // A link could be replaced whatever is mounted on its target: then git is only to be read.
            return self.add(Mount::ReadOnly(directory.to_owned()));
        }
        self.add(Mount::Writable(directory.to_owned()));
        for path in guarded {
            let named = |names: &[&str]| names.iter().any(|name| path.ends_with(name));
            if path.exists() {
                self.hold_above(&path);
                self.add(Mount::ReadOnly(path));
            } else if kind == GitDirectory::Main
                && named(GIT_COVERED)
                && path.parent().is_some_and(Path::is_dir)
            {
                self.hold_above(&path);
                self.add(Mount::Nothing(path));
            } else if named(GIT_SWEPT) {
                self.swept.push(path);
            }
        }
    }
}
