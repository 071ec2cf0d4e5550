//! Where a run works.
//!
//! Owns bringing that directory into being, again and again with the same result: every function here may be killed at
//! any point and simply called once more. Refuses to touch the user's checkout, to delete anything it cannot prove to be
//! its own half-made work, and to move an existing worktree to another commit.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::checkout::{quiet_settings, split};
use crate::git::{self, Git};
use crate::gitdirs::{self, GitDirs, Lender};
use crate::{apart, commit, large_files, limits, mending, source, worktree};

/// Where a run works, as fixed when the run was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A directory of the user's that is there already.
    InPlace(PathBuf),
    /// A git worktree of `repo` at `path`, on a branch of its own that starts at the commit `start`, or else at the
    /// repository's `HEAD`.
    Worktree { repo: PathBuf, path: PathBuf, branch: String, start: Option<String> },
    /// A repository of its own at `path`, made from what was fetched of `url` into `store`, on a branch that starts at `start`.
    Clone { store: PathBuf, url: String, path: PathBuf, branch: String, start: String },
    /// An empty directory.
    Fresh(PathBuf),
}

impl Place {
    pub fn directory(&self) -> &Path {
        match self {
            Place::InPlace(path) | Place::Fresh(path) => path,
            Place::Worktree { path, .. } | Place::Clone { path, .. } => path,
        }
    }
}

/// The root of a checkout whose repository has at least one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepoRoot(PathBuf);

impl RepoRoot {
    pub fn path(&self) -> &Path {
        &self.0
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}` is not a directory", path.display())]
    NotDirectory { path: PathBuf },
    #[error("the worktree path `{}` is not empty and holds no worktree of this repository", path.display())]
    NotEmpty { path: PathBuf },
    #[error("the worktree path `{}` is still being made by another process", path.display())]
    Held { path: PathBuf },
    #[error(
        "the files for `{}` would take more than {} GiB",
        path.display(),
        limits::FETCHED_BYTES_MAX / (1024 * 1024 * 1024)
    )]
    TooLarge { path: PathBuf },
    #[error("every name for a branch `{family}…` is taken")]
    NoName { family: String },
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] git::Error),
}

/// Makes sure that the place is there and usable. An existing good one is not touched.
pub fn ensure(place: &Place) -> Result<(), Error> {
    match place {
        Place::InPlace(path) if path.is_dir() => Ok(()),
        Place::InPlace(path) => Err(Error::NotDirectory { path: path.clone() }),
        Place::Fresh(path) => create_directories(path),
        Place::Clone { store, url, path, branch, start } => source::ensure(store, url, path, [branch, start]),
        Place::Worktree { repo, path, branch, start } => {
            worktree::ensure(repo, path, branch, start.as_deref().unwrap_or("HEAD"))
        }
    }
}

/// Does nothing stand there any more? A checkout is never empty; any other place may be.
pub fn is_gone(place: &Place) -> bool {
    let path = place.directory();
    match place {
        Place::InPlace(_) | Place::Fresh(_) => !path.exists(),
        Place::Worktree { .. } | Place::Clone { .. } => {
            !path.exists() || fs::read_dir(path).is_ok_and(|mut found| found.next().is_none())
        }
    }
}

/// A place of ours as it is found, when nobody is left to say what it is. A repository of its own is taken for a clone.
pub fn found_at(path: &Path) -> Place {
    let path = path.to_owned();
    let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
    let none = String::new;
    let of_repository = match gitdirs::at(&whole) {
        Some(GitDirs::Linked { common, .. }) => Some(common),
        _ => gitdirs::lender(&whole).map(|lender| lender.common),
    };
    match (of_repository, gitdirs::at(&whole)) {
        (Some(common), _) => {
            // The checkout that it is the `.git` of, if it is of one: git does not like to be started inside.
            let is_inside = common.file_name().is_some_and(|name| name == ".git");
            let repo = common.parent().filter(|_| is_inside).map_or(common.clone(), Path::to_owned);
            Place::Worktree { repo, path, branch: none(), start: None }
        }
        (None, Some(_)) => {
            Place::Clone { store: PathBuf::new(), url: none(), path, branch: none(), start: none() }
        }
        (None, None) => Place::Fresh(path),
    }
}

/// Takes a place of ours away again, with everything in it, whatever is left of it. It is moved aside first, under a name that
/// tells whose it was: killed in between, the same once more does the rest. What is the user's is left alone.
pub fn remove(place: &Place) -> Result<(), Error> {
    let path = match place {
        Place::InPlace(_) => return Ok(()),
        Place::Fresh(path) | Place::Worktree { path, .. } | Place::Clone { path, .. } => path,
    };
    let aside = removing(path);
    let io = |action| move |source| Error::Io { action, path: path.clone(), source };
    let whole = whole(path);
    let forget = |note: PathBuf| match fs::remove_file(note) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io("remove the note beside")(error)),
        Ok(()) | Err(_) => Ok(()),
    };
    forget(ready(path))?;
    apart::remove(&apart::in_the_making(path))?;
    if path.symlink_metadata().is_ok() {
        if aside.is_dir() {
            fs::remove_dir_all(&aside).map_err(io("remove what was left of"))?;
        }
        fs::rename(path, &aside).map_err(io("move aside"))?;
    }
    // Not before: half a worktree that nobody says so of would be refused as somebody's work.
    forget(worktree::note(path))?;
    forget(gitdirs::note_of(path))?;
    if let Place::Worktree { repo, .. } = place
        && repo.is_dir()
    {
        worktree::forget(repo, &whole)?;
    }
    remove_aside(path)
}

/// Makes a repository forget its worktrees at or below a directory that somebody has deleted, and no others: what is there stays, and
/// so does what the user has locked. Answers how many.
pub fn unlist_gone(repo: &Path, below: &Path) -> Result<usize, Error> {
    worktree::forget_gone(repo, &below.canonicalize().unwrap_or_else(|_| whole(below)))
}

/// With the links of its parent resolved, as a repository knows it: the directory itself may be gone.
fn whole(path: &Path) -> PathBuf {
    let parent = path.parent().and_then(|parent| parent.canonicalize().ok());
    parent.zip(path.file_name()).map_or_else(|| path.to_owned(), |(parent, name)| parent.join(name))
}

/// Does the rest of a removal that was killed. What has come to stand in that place since is not touched.
pub fn finish_removing(place: &Place) -> Result<(), Error> {
    match place {
        Place::InPlace(_) => Ok(()),
        Place::Fresh(path) | Place::Worktree { path, .. } | Place::Clone { path, .. } => {
            if path.symlink_metadata().is_ok() { remove_aside(path) } else { remove(place) }
        }
    }
}

fn remove_aside(path: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(removing(path)) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(Error::Io { action: "remove", path: path.to_owned(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Was it prepared by these commands?
pub fn is_ready(path: &Path, commands: &[String]) -> bool {
    fs::read_to_string(ready(path)).is_ok_and(|said| said == prepared_by(commands))
}

/// Notes beside a place that it was.
pub fn mark_ready(path: &Path, commands: &[String]) -> Result<(), Error> {
    let note = ready(path);
    fs::write(&note, prepared_by(commands)).map_err(|source| Error::Io {
        action: "write",
        path: note,
        source,
    })
}

fn prepared_by(commands: &[String]) -> String {
    format!("{}\n", crate::digest_of(commands.join("\0").as_bytes()))
}

fn ready(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".ready");
    path.with_file_name(name)
}

/// Where a place is moved while it is removed.
fn removing(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(REMOVING);
    path.with_file_name(name)
}

/// The end of the name of a place that is being removed.
pub const REMOVING: &str = ".removing";

/// Are there changes in a checkout that a worktree of its last commit does not have?
pub fn is_dirty(repo: &Path) -> bool {
    status(repo).is_some_and(|changes| !changes.is_empty())
}

/// Would something be lost with this directory that is nowhere else: files that are not committed, or commits that no branch of the
/// repository has? What git cannot tell may be anything. An empty directory holds nothing.
pub fn is_unsaved(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_some() && !is_saved(path),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

fn is_saved(path: &Path) -> bool {
    let Ok(path) = path.canonicalize() else { return false };
    let top = Git::at(&path).run(&["rev-parse", "--show-toplevel"]);
    // Git looks upwards, and would answer for the checkout that the directory lies in.
    let is_top = top.is_ok_and(|top| Path::new(&top).canonicalize().is_ok_and(|top| top == path));
    let has_clean_files = || status(&path).is_some_and(|changes| changes.is_empty());
    let is_kept = || match (gitdirs::at(&path), gitdirs::lender(&path)) {
        (Some(GitDirs::Linked { .. }), _) => is_on_branch(&path),
        // Its branches go with it.
        (Some(GitDirs::Own { .. }), Some(lender)) => lender_has_all(&path, &lender),
        (Some(GitDirs::Own { .. }), None) => !has_own_commits(&path),
        (None, _) => false,
    };
    is_top && has_clean_files() && is_kept() && !has_inner_work(&path)
}

/// Has the repository that a worktree is of every commit that has a name there? If that cannot be told, it has not.
fn lender_has_all(tree: &Path, lender: &Lender) -> bool {
    let Ok(there) = lender.git().printing_much().run(&["for-each-ref", "--format=^%(objectname)"]) else {
        return false;
    };
    let own = ["rev-list", "--max-count=1", "HEAD", "--exclude=refs/remotes/*", "--all", "--stdin"];
    let has_all = Git::at(tree).reading(there.into_bytes()).run(&own).is_ok_and(|own| own.is_empty());
    has_all && large_files::are_there(tree, lender) && !mending::has_broken(tree)
}

/// Stands anything where another repository belongs that is inside this one? It may have commits of its own, and goes with it; we
/// put nothing there, and git is not asked in there. If that cannot be told, something may.
fn has_inner_work(tree: &Path) -> bool {
    let asked = ["ls-files", "-z", "--stage", "--full-name"];
    let Ok(listed) = Git::at(tree).printing_much().bytes(&asked) else { return true };
    let place = |entry: &[u8]| {
        let entry = entry.strip_prefix(b"160000 ")?;
        let name = entry.iter().position(|byte| *byte == b'\t')? + 1;
        Some(tree.join(OsStr::from_bytes(&entry[name..])))
    };
    let holds_something = |place: PathBuf| match fs::read_dir(place) {
        Ok(mut found) => found.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    split(&listed).filter_map(place).any(holds_something)
}

/// Has some branch the commit that is checked out? Nobody keeps one that none has.
fn is_on_branch(tree: &Path) -> bool {
    let Some(head) = head(tree) else { return false };
    let containing = ["for-each-ref", "--count=1", "--format=%(refname)", "--contains", &head, "refs/heads/"];
    Git::at(tree).run(&containing).is_ok_and(|branch| !branch.is_empty())
}

/// What git says has changed; `None` if it cannot tell.
fn status(repo: &Path) -> Option<String> {
    // What stands there may be an agent's, and git would run the filters that it names, or a repository inside it.
    let status = [
        "--no-optional-locks",
        "status",
        "--porcelain",
        "--untracked-files=normal",
        "--ignore-submodules=all",
    ];
    let settings = quiet_settings(repo).ok()?;
    Git::at(repo).set(&settings).run(&status).ok()
}

/// The commit that is checked out, if there is one.
pub fn head(repo: &Path) -> Option<String> {
    Git::at(repo).run(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]).ok()
}

/// What the files of a commit take once they are checked out, whatever a repository packs them into. `None` if that cannot be told,
/// as where some of them were never fetched.
pub fn checkout_bytes(repository: &Path, commit: &str) -> Option<u64> {
    let asked = ["ls-tree", "-r", "--full-tree", "--format=%(objectsize)", "--end-of-options", commit];
    let git = Git::at(repository).printing_much().with("GIT_NO_LAZY_FETCH", "1");
    let is_bare = repository.join("HEAD").is_file();
    let git = if is_bare { git.with("GIT_DIR", repository) } else { git };
    match git.run(&asked) {
        // Another repository inside has no size.
        Ok(sizes) => Some(sizes.lines().filter_map(|size| size.trim().parse::<u64>().ok()).sum()),
        Err(git::Error::TooMuch { .. }) => Some(u64::MAX),
        Err(_) => None,
    }
}

/// The files of what is checked out, a bounded number of them; of a large repository only what is at its top.
pub fn files(repo: &Path) -> Option<String> {
    let all = Git::at(repo).run(&["ls-tree", "-r", "--name-only", "HEAD"]);
    let listed = all.or_else(|_| Git::at(repo).run(&["ls-tree", "--name-only", "HEAD"])).ok()?;
    let mut lines: Vec<&str> = listed.lines().take(limits::FILES_LISTED_MAX).collect();
    if listed.lines().count() > limits::FILES_LISTED_MAX {
        lines.push("…");
    }
    Some(lines.join("\n"))
}

/// Has a repository that was brought from elsewhere commits that its origin had not when it was last asked: checked out, on any
/// branch, under a tag or stashed? If that cannot be told, it may have.
pub fn has_own_commits(repo: &Path) -> bool {
    let own = ["rev-list", "--max-count=1", "HEAD", "--branches", "--tags", "--glob=refs/stash*"];
    let elsewhere = ["--not", "--remotes=origin", &format!("--glob={}", source::ORIGINS_TAGS)];
    Git::at(repo).run(&[&own[..], &elsewhere].concat()).map_or(true, |own| !own.is_empty())
}

/// The commit that a branch is at, if there is such a branch.
pub fn branch(repo: &Path, name: &str) -> Option<String> {
    let name = format!("refs/heads/{name}^{{commit}}");
    Git::at(repo).run(&["rev-parse", "--quiet", "--verify", "--end-of-options", &name]).ok()
}

/// Has this branch the commit?
pub fn branch_has(repo: &Path, name: &str, commit: &str) -> bool {
    let Some(tip) = branch(repo, name) else { return false };
    Git::at(repo).run(&["merge-base", "--is-ancestor", "--end-of-options", commit, &tip]).is_ok()
}

/// How many commits `other` has that `commit` has not; none, if that cannot be told.
pub fn commits_behind(repo: &Path, commit: &str, other: &str) -> u64 {
    let range = format!("{commit}..{other}");
    let counted = Git::at(repo).run(&["rev-list", "--count", "--end-of-options", &range]);
    counted.ok().and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The branch that is checked out, by its short name.
pub fn current_branch(repo: &Path) -> Option<String> {
    Git::at(repo).run(&["symbolic-ref", "--quiet", "--short", "HEAD"]).ok()
}

/// Makes a branch at a commit, unless there is one of that name.
pub fn make_branch(repo: &Path, name: &str, commit: &str) -> Result<(), Error> {
    let reference = format!("refs/heads/{name}");
    let nothing = "0".repeat(commit.len());
    let made = ["update-ref", "--create-reflog", "--end-of-options", &reference, commit, &nothing];
    match Git::at(repo).run(&made) {
        Err(_) if branch(repo, name).is_some() => Ok(()),
        made => Ok(made.map(drop)?),
    }
}

/// A name for an agent's branch that begins with `family` and that no branch has, nor is in `taken`.
pub fn free_branch(repo: &Path, family: &str, agent: &str, taken: &[String]) -> Result<String, Error> {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    let agent: String = agent.chars().map(plain).take(limits::BRANCH_AGENT_LETTERS_MAX).collect();
    let agent = agent.trim_matches('-');
    let agent = if agent.is_empty() { "agent" } else { agent };
    let family_of = format!("refs/heads/{family}");
    let there =
        Git::at(repo).printing_much().run(&["for-each-ref", "--format=%(refname:lstrip=2)", &family_of])?;
    // A branch below that name takes it too.
    let takes = |line: &str, name: &str| {
        line.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_free = |name: &String| !taken.contains(name) && !there.lines().any(|line| takes(line, name));
    let numbered = (2..=limits::BRANCH_TRIES_MAX).map(|number| format!("{family}{agent}-{number}"));
    let mut names = std::iter::once(format!("{family}{agent}")).chain(numbered);
    names.find(is_free).ok_or_else(|| Error::NoName { family: family.to_owned() })
}

/// Forgets a branch that is where it began, and no other.
pub fn drop_branch(repo: &Path, branch: &str, at: &str) -> Result<(), Error> {
    let name = format!("refs/heads/{branch}");
    let there = Git::at(repo).run(&["for-each-ref", "--format=%(objectname)", &name])?;
    if there.trim() == at {
        Git::at(repo).run(&["update-ref", "-d", &name, at])?;
    }
    Ok(())
}

/// A worktree at a commit, on no branch. What is left there of an earlier one is removed first; so must this one be.
pub fn detached(repo: &Path, path: &Path, commit: &str) -> Result<(), Error> {
    remove(&passing(repo, path))?;
    worktree::add_detached(repo, path, commit)
}

/// Such a worktree, to be removed.
pub fn passing(repo: &Path, path: &Path) -> Place {
    Place::Worktree { repo: repo.to_owned(), path: path.to_owned(), branch: String::new(), start: None }
}

/// Where a run's worktree stands, compared with the checkout it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// `None` if it is on none.
    pub branch: Option<String>,
    /// Those since the run began that the checkout does not have, without those that other runs have signed.
    pub commits: u64,
    pub is_dirty: bool,
}

/// Where the worktree of `run` stands, which began with the commit `base`. `None` if git cannot tell.
pub fn standing(tree: &Path, repo: &Path, run: &str, base: Option<&str>) -> Option<Standing> {
    let head = Git::at(repo).run(&["rev-parse", "--verify", "HEAD^{commit}"]).ok()?;
    let count = |signed: &[&str]| -> Option<u64> {
        let counted = ["rev-list", "--count", "--extended-regexp"];
        let since = ["HEAD", "--not", &head, base.unwrap_or(&head), "--"];
        Git::at(tree).run(&[&counted[..], signed, &since].concat()).ok()?.parse().ok()
    };
    let signature = format!("--grep=^{}: ", commit::TRAILER);
    // What its sub-agents committed is its own. An agent that commits by itself signs nothing.
    let own = format!("{signature}{}(\\.|$)", run.replace('.', "\\."));
    let commits = (count(&[])? + count(&[&own])?).checked_sub(count(&[&signature])?)?;
    Some(Standing { branch: current_branch(tree), commits, is_dirty: is_dirty(tree) })
}

/// What differs in a directory from where its work began, for people: `base` if that is known, else the last commit it has in
/// common with the checkout it was made from, else its own last. `None` if nothing does, or git cannot tell.
pub fn changes(tree: &Path, repo: Option<&Path>, base: Option<&str>) -> Option<String> {
    let in_common = || {
        let head = Git::at(repo?).run(&["rev-parse", "--verify", "HEAD^{commit}"]).ok()?;
        Git::at(tree).run(&["merge-base", "HEAD", &head]).ok()
    };
    let base = base.map(str::to_owned).or_else(in_common).unwrap_or_else(|| "HEAD".to_owned());
    let stat =
        ["--no-pager", "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all"];
    let settings = quiet_settings(tree).ok()?;
    let stat = Git::at(tree)
        .set(&settings)
        .run(&[&stat[..], &["--stat=100", "--stat-count=60", &base, "--", "."]].concat())
        .ok()?;
    let new =
        Git::at(tree).run(&["ls-files", "--others", "--exclude-standard", "--", "."]).unwrap_or_default();
    let (shown, more) =
        (new.lines().take(limits::NEW_FILES_SHOWN_MAX), new.lines().skip(limits::NEW_FILES_SHOWN_MAX));
    let mut lines: Vec<String> = stat.lines().map(str::to_owned).collect();
    lines.extend(shown.map(|file| format!(" new: {file}")));
    let more = more.count();
    lines.extend((more > 0).then(|| format!(" and {more} more new files")));
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// What two commits of a repository differ in, for people. `None` if nothing does, or git cannot tell.
pub fn changes_between(repo: &Path, base: &str, end: &str) -> Option<String> {
    let asked =
        ["--no-pager", "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=all"];
    let stat = ["--stat=100", "--stat-count=60", "--end-of-options", base, end];
    Git::at(repo).run(&[&asked[..], &stat].concat()).ok().filter(|stat| !stat.is_empty())
}

/// The nearest git root at or above `cwd`, if it has a commit: without one there can be no worktrees. What is above it is
/// another repository, of which the user has not spoken.
pub fn discover_repo(cwd: &Path) -> Option<RepoRoot> {
    let root = discover_checkout(cwd)?;
    Git::at(&root).run(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]).ok()?;
    Some(RepoRoot(root))
}

/// The same, also of a repository that has no commit yet.
pub fn discover_checkout(cwd: &Path) -> Option<PathBuf> {
    Git::at(cwd).run(&["rev-parse", "--show-toplevel"]).ok().map(PathBuf::from)
}

/// Like `mkdir -p`, and each new name survives a power cut.
pub(crate) fn create_directories(path: &Path) -> Result<(), Error> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create_directories(parent)?;
    }
    match fs::create_dir(path) {
        Ok(()) => sync_parent(path),
        // Somebody else made it since we looked.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(Error::NotDirectory { path: path.to_owned() })
        }
        Err(source) => Err(Error::Io { action: "create", path: path.to_owned(), source }),
    }
}

pub(crate) fn sync_parent(path: &Path) -> Result<(), Error> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(|source| Error::Io {
        action: "sync",
        path: parent.to_owned(),
        source,
    })
}
