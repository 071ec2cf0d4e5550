//! The files of workspaces, kept out of every agent's reach, and the way back to them.
//!
//! Owns one store of objects for all workspaces of a state directory, so that what stands twice is kept once, and beside it a
//! small repository for each workspace, with an index in which a file that has not changed is not read again. Works the same for a
//! workspace that is a checkout, a worktree or no repository at all; of a repository there, only what it ignores and what it tracks
//! all the same is asked, and nothing of it is touched. Files are stored byte for byte: no filter, no line ends, no encoding. Modes are git's: executable or not, and links as links. Empty
//! directories are not kept: none is made on the way back, one that the way back leaves empty goes, and one that was empty already
//! stays unless a file takes its place. What is ignored, nested repositories, special files, and files that are too large or cannot
//! be read are no part of it: they are neither stored nor touched on the way back. Refuses to follow a link and to replace anything
//! it has not stored.
//!
//! A checkpoint is one `git status` over the files, and what follows is as much as has changed: that is what it may cost.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::fs::{Access, OFlags};

use crate::checkout::{self, Change, Index, changes_of, check_path, io_error, path_bytes, path_of, split};
use crate::git::{self, Git};
use crate::gitdirs::GitDirs;
use crate::landing::in_the_way;
use crate::prune::{self, STORE};
use crate::{digest_of, gitdirs, limits};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}` has more than {} files", path.display(), limits::CHECKPOINT_FILES_MAX)]
    TooMany { path: PathBuf },
    #[error("these are in the way, and were never stored: {}", crate::landing::shown(paths))]
    InTheWay { paths: Vec<PathBuf> },
    #[error("another longhaul is storing the files of this workspace")]
    Busy,
    #[error("some of the stored files are no longer there")]
    Lost,
    #[error("these could not be written or removed: {}", crate::landing::shown(paths))]
    NotWritten { paths: Vec<PathBuf> },
    #[error(transparent)]
    Checkout(#[from] checkout::Error),
}

checkout::wraps_git!(Error);

/// What stood in a workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    pub tree: String,
    /// What is no part of it though nothing ignores it: nested repositories, large and unreadable files.
    pub left_out: Vec<PathBuf>,
}

/// The stored files of one workspace, while this process alone stores there.
pub struct Vault {
    top: PathBuf,
    store: PathBuf,
    /// What git keeps of this workspace alone: its index, and what was last stored as the commit that is checked out.
    own: PathBuf,
    /// What lies in the workspace and is ours.
    state: PathBuf,
    settings: Vec<git::Setting>,
    /// By which a git that outlives us is known.
    marker: Option<(&'static str, String)>,
    /// The tree that whoever is taken back now has written, if it is known.
    written: Option<String>,
    held: File,
    _shared: File,
}

impl Vault {
    /// `state` is the state directory, which the repository is made in.
    pub fn open(top: &Path, state: &Path) -> Result<Vault, Error> {
        let top = top.canonicalize().map_err(io_error("open", top))?;
        let all = state.join("checkpoints");
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&all).map_err(io_error("create", &all))?;
        let state = state.canonicalize().map_err(io_error("open", state))?;
        let all = state.join("checkpoints");
        let shared = prune::shared(&all)?;
        let name = digest_of(path_bytes(&top));
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
        let lock = all.join(format!("{name}.lock"));
        let held = File::options().create(true).append(true).open(&lock).map_err(io_error("open", &lock))?;
        if !limits::within(limits::LANDING_WAIT_MAX, || held.try_lock().is_ok()) {
            return Err(Error::Busy);
        }
        let (store, own) = (all.join(STORE), all.join(name));
        make_store(&all, &store)?;
        // Ours alone, by the lock: whoever left it was killed.
        fs::remove_file(own.join("index.lock")).ok();
        let settings = SETTINGS.map(|(key, value)| (key.into(), value.to_owned())).to_vec();
        let vault =
            Vault { top, store, own, state, settings, marker: None, written: None, held, _shared: shared };
        vault.make_own()?;
        Ok(vault)
    }

    /// The same with something in the environment of every git it starts, by which somebody finds those that outlive us.
    #[must_use]
    pub fn marked(self, name: &'static str, value: &str) -> Vault {
        Vault { marker: Some((name, value.to_owned())), ..self }
    }

    /// The same for undoing what wrote this tree: all of that goes again, also where it is ignored.
    #[must_use]
    pub fn having_written(self, tree: Option<String>) -> Vault {
        Vault { written: tree, ..self }
    }

    /// The least that git takes for a repository; the last file says that the others are there.
    fn make_own(&self) -> Result<(), Error> {
        if self.own.join("HEAD").exists() {
            return Ok(());
        }
        let make = || {
            for part in ["objects", "refs", "info"] {
                fs::create_dir_all(self.own.join(part))?;
            }
            fs::write(self.own.join("info/attributes"), ATTRIBUTES)?;
            replace(&self.own.join("HEAD"), b"ref: refs/heads/none\n")
        };
        Ok(make().map_err(io_error("create", &self.own))?)
    }

    /// A git that outlives us holds our lock, so that nobody else touches what it writes.
    fn git(&self) -> Git<'_> {
        let held = self.held.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
        let git = Git::at(&self.top);
        let git = match &self.marker {
            Some((name, value)) => git.with(name, value),
            None => git,
        };
        git.holding(held)
            .set(&self.settings)
            .printing_much()
            .with("GIT_DIR", &self.own)
            .with("GIT_OBJECT_DIRECTORY", self.store.join("objects"))
            .with("GIT_WORK_TREE", &self.top)
            .with("GIT_LITERAL_PATHSPECS", "1")
    }

    /// The same for a command that reads and says nothing.
    fn updating(&self, read: Vec<u8>) -> Git<'_> {
        let held = self.held.try_clone().map_or_else(|_| Stdio::null(), Stdio::from);
        self.git().reading(read).holding_silently(held)
    }

    /// Stores what stands in the workspace, tracked or not, ignored files left out.
    pub fn store(&self) -> Result<Tree, Error> {
        self.known_anew(|| self.try_store())
    }

    /// What is known of the workspace is only a cache; if git cannot use it, it is made anew.
    fn known_anew<T>(&self, work: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
        match work() {
            Err(Error::Checkout(checkout::Error::Git(git::Error::Failed { .. }))) => {
                fs::remove_dir_all(&self.own).map_err(io_error("remove", &self.own))?;
                self.make_own()?;
                work()
            }
            other => other,
        }
    }

    fn try_store(&self) -> Result<Tree, Error> {
        self.copy_excluded()?;
        let seen = self.seen()?;
        if seen.changed.len() > limits::CHECKPOINT_FILES_MAX {
            return Err(Error::TooMany { path: self.top.clone() });
        }
        let mut sorted = self.sorted(&seen.changed);
        let left_out = std::mem::take(&mut sorted.left_out);
        let is_same = sorted.taken.is_empty() && sorted.dropped.is_empty() && !seen.is_staged;
        if let Some(tree) = self.last().filter(|_| is_same) {
            return Ok(Tree { tree, left_out });
        }
        Ok(Tree { tree: self.take(sorted, seen.changed.len())?, left_out })
    }

    /// Takes so many files into the index, or out of it, and makes a tree of it.
    fn take(&self, sorted: Sorted, files: usize) -> Result<String, Error> {
        if !sorted.taken.is_empty() {
            let taken = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
            let mut settings = self.settings.clone();
            if files > limits::CHECKPOINT_LOOSE_MAX {
                // Git streams what it takes for large into one pack.
                settings.push(("core.bigFileThreshold".into(), "1".to_owned()));
            }
            self.updating(sorted.taken).set(&settings).bytes(&taken)?;
        }
        if !sorted.dropped.is_empty() {
            let dropped = ["update-index", "-z", "--force-remove", "--stdin"];
            self.updating(sorted.dropped).bytes(&dropped)?;
        }
        let tree = self.git().run(&["write-tree"])?;
        self.check_out(&tree)?;
        Ok(tree)
    }

    /// What differs from what was last stored. One look at all files, as `git status` has it, and one at what it passes over.
    fn seen(&self) -> Result<Seen, Error> {
        let asked = [
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=all",
        ];
        let printed = self.git().bytes(&asked)?;
        let mut seen = Seen { changed: BTreeMap::new(), is_staged: false };
        for line in split(&printed) {
            let (Some([staged, changed]), Some(path)) = (line.first_chunk(), line.get(3..)) else { continue };
            let is_tracked = *staged != b'?';
            seen.is_staged |= is_tracked && *staged != b' ';
            if *changed != b' ' {
                seen.changed.insert(path_of(path), is_tracked);
            }
        }
        for path in self.tracked_though_ignored()? {
            seen.changed.entry(path).or_insert(false);
        }
        Ok(seen)
    }

    /// What the workspace's own repository tracks although it is ignored, and was never stored: work like any other, which `status`
    /// does not show.
    fn tracked_though_ignored(&self) -> Result<BTreeSet<PathBuf>, Error> {
        let tracked = self.said_by_repository(&TRACKED_THOUGH_IGNORED).unwrap_or_default();
        let mut tracked: BTreeSet<PathBuf> = split(&tracked).map(path_of).collect();
        tracked.retain(|path| self.top.join(path).symlink_metadata().is_ok_and(|facts| !facts.is_dir()));
        if !tracked.is_empty() {
            let stored = self.git().bytes(&TRACKED_THOUGH_IGNORED)?;
            let stored: BTreeSet<PathBuf> = split(&stored).map(path_of).collect();
            tracked.retain(|path| !stored.contains(path));
        }
        Ok(tracked)
    }

    /// What the workspace's own repository answers, asked with a copy of its index. One that an agent has broken says nothing.
    fn said_by_repository(&self, asked: &[&str]) -> Option<Vec<u8>> {
        let directory = match gitdirs::at(&self.top)? {
            GitDirs::Own { directory, .. } => directory,
            GitDirs::Linked { own, .. } => own,
        };
        let copy = Index(self.own.join("repository.index"));
        fs::remove_file(&copy.0).ok();
        checkout::copied(&directory.join("index"), &copy.0).ok().filter(|is_there| *is_there)?;
        let settings = checkout::quiet_settings(&self.top).ok()?;
        let git = Git::at(&self.top).set(&settings).printing_much().with("GIT_INDEX_FILE", &copy.0);
        let git = git.with("GIT_NO_LAZY_FETCH", "1").with("GIT_ALLOW_PROTOCOL", "none");
        git.with("GIT_OPTIONAL_LOCKS", "0").bytes(asked).ok()
    }

    /// Makes this tree what is checked out, as far as git knows, so that it need only say what differs from it. It is made again
    /// if it is lost, and so need not last.
    fn check_out(&self, tree: &str) -> Result<(), Error> {
        let mut settings = self.settings.clone();
        settings.push(("core.fsync".into(), "none".to_owned()));
        let [name, email] = ["longhaul", "longhaul@localhost"];
        let git = self.git().set(&settings).with("GIT_AUTHOR_NAME", name).with("GIT_AUTHOR_EMAIL", email);
        let git = git.with("GIT_COMMITTER_NAME", name).with("GIT_COMMITTER_EMAIL", email);
        let commit = git.run(&["commit-tree", "-m", "stored", tree])?;
        let last = self.own.join(LAST);
        replace(&last, format!("{commit} {tree}\n").as_bytes()).map_err(io_error("write", &last))?;
        let head = self.own.join("HEAD");
        Ok(replace(&head, format!("{commit}\n").as_bytes()).map_err(io_error("write", &head))?)
    }

    /// The tree that is checked out, as far as git knows.
    fn last(&self) -> Option<String> {
        let last = fs::read_to_string(self.own.join(LAST)).ok()?;
        let head = fs::read_to_string(self.own.join("HEAD")).ok()?;
        let (commit, tree) = last.trim_end().split_once(' ')?;
        (head.trim_end() == commit).then(|| tree.to_owned())
    }

    /// What is taken into the index, and what is left out of it.
    fn sorted(&self, changed: &BTreeMap<PathBuf, bool>) -> Sorted {
        let mut sorted = Sorted::default();
        let put = |list: &mut Vec<u8>, path: &Path| {
            list.extend(path_bytes(path));
            list.push(0);
        };
        for (path, is_tracked) in changed {
            let whole = self.top.join(path);
            if whole.starts_with(&self.state) && !self.top.starts_with(&self.state) {
                continue;
            }
            // A repository inside, or a name that git takes for one and refuses.
            if check_path(path).is_err() {
                sorted.left_out.push(path.clone());
            } else if whole.symlink_metadata().is_ok_and(|facts| facts.is_dir())
                || self.is_beyond(changed, path)
            {
                // What stands below the directory is named by itself.
                put(&mut sorted.dropped, path);
            } else if is_storable(&whole) {
                put(&mut sorted.taken, path);
            } else {
                if *is_tracked {
                    put(&mut sorted.dropped, path);
                }
                sorted.left_out.push(path.clone());
            }
        }
        sorted
    }

    /// Does a link or a file stand where a directory on the way to it was? Then it is gone, whatever the link leads to.
    fn is_beyond(&self, changed: &BTreeMap<PathBuf, bool>, path: &Path) -> bool {
        let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        parents
            .filter(|parent| changed.contains_key(*parent))
            .any(|parent| self.top.join(parent).symlink_metadata().is_ok_and(|facts| !facts.is_dir()))
    }

    /// What the workspace's own repository says is ignored beside its files, copied: an agent may have put anything there. A copy
    /// that is right is left alone, because git would look at everything again.
    fn copy_excluded(&self) -> Result<(), Error> {
        let copy = self.own.join("info/exclude");
        let said = gitdirs::at(&self.top).and_then(|found| said(&found.common().join("info/exclude")));
        if said == fs::read(&copy).ok() {
            return Ok(());
        }
        let written = match &said {
            Some(said) => replace(&copy, said),
            None => fs::remove_file(&copy),
        };
        Ok(written.map_err(io_error("write", &copy))?)
    }

    /// How the second tree differs from the first.
    pub fn changes(&self, before: &str, after: &str) -> Result<Vec<Change>, Error> {
        Ok(changes_of(self.git(), &self.top, before, after)?)
    }

    /// The same, printed by git.
    pub fn diff(&self, form: &[&str], before: &str, after: &str) -> Result<Vec<u8>, Error> {
        let asked = [&["diff-tree", "-r", "--no-ext-diff", "--no-textconv"], form].concat();
        Ok(self.git().bytes(&[&asked[..], &["--end-of-options", before, after]].concat())?)
    }

    /// What would be written to bring the workspace from one stored tree to another. Refused if that would touch what is in
    /// neither, or if something is lost that is to be written.
    pub fn way(&self, before: &str, after: &str) -> Result<Vec<Change>, Error> {
        let changes = match self.without_ignored(before, after) {
            Err(Error::Checkout(checkout::Error::Git(git::Error::Failed { .. }))) => return Err(Error::Lost),
            changes => changes?.0,
        };
        let objects = changes.iter().filter_map(|change| change.after.as_ref());
        let objects: String = objects.map(|node| format!("{}\n", node.object)).collect();
        let found = self.git().reading(objects.into_bytes()).run(&["cat-file", "--batch-check"])?;
        if found.lines().any(|line| line.ends_with(" missing")) {
            return Err(Error::Lost);
        }
        let blocked = in_the_way(&self.top, &changes);
        if blocked.is_empty() {
            return Ok(changes);
        }
        Err(Error::InTheWay { paths: blocked.into_iter().map(|change| change.path).collect() })
    }

    /// Brings the workspace from the tree that was just stored to another. Refused if somebody has changed what would be written.
    /// May be killed, or fail; `write_rest` then goes on, or back.
    pub fn write(&self, before: &str, after: &str) -> Result<(), Error> {
        let (changes, left) = self.without_ignored(before, after)?;
        changes.iter().for_each(|change| self.open_directories(&change.path));
        let mut before = before.to_owned();
        if !left.is_empty() {
            let left: Vec<u8> = left.iter().flat_map(|path| [path_bytes(path), b"\0"].concat()).collect();
            self.updating(left).bytes(&["update-index", "-z", "--force-remove", "--stdin"])?;
            before = self.git().run(&["write-tree"])?;
        }
        self.git().bytes(&["read-tree", "-m", "-u", &before, after])?;
        self.check_out(after)?;
        // Git only warns of what it could not remove. What is new beside is not ours to judge: with another `.gitignore`, other
        // files are new.
        let seen = self.seen()?;
        let is_not_written = |path: &PathBuf| seen.changed.contains_key(path);
        let paths: Vec<PathBuf> =
            changes.into_iter().map(|change| change.path).filter(is_not_written).collect();
        if paths.is_empty() { Ok(()) } else { Err(Error::NotWritten { paths }) }
    }

    /// Brings a workspace to a tree that is somewhere on the way there from another. Only what differs between the two is looked
    /// at and written: what is ignored in one of them may be new in the other, and nobody has stored it.
    pub fn write_rest(&self, before: &str, after: &str) -> Result<(), Error> {
        let now = self.known_anew(|| self.store_between(before, after))?;
        self.write(&now, after)
    }

    /// The first tree, but with what stands in the workspace where the second differs from it.
    fn store_between(&self, before: &str, after: &str) -> Result<String, Error> {
        let changes = self.changes(before, after)?;
        self.git().bytes(&["read-tree", "-m", before])?;
        let changed = changes.into_iter().map(|change| (change.path, true)).collect();
        self.take(self.sorted(&changed), changed.len())
    }

    /// How the second tree differs from the first, but for what is only gone from it because it ignores it: that was never to be
    /// stored, unless the repository tracks it, and is left alone wherever it stands. Those are named too.
    fn without_ignored(&self, before: &str, after: &str) -> Result<(Vec<Change>, BTreeSet<PathBuf>), Error> {
        let mut changes = self.changes(before, after)?;
        let made: BTreeSet<PathBuf> = changes
            .iter()
            .filter(|change| change.after.is_some())
            .map(|change| change.path.clone())
            .collect();
        // A file that takes the place of its directory takes its place.
        let is_in_place = |path: &Path| !path.ancestors().any(|parent| made.contains(parent));
        let gone: Vec<&Path> = changes
            .iter()
            .filter(|change| change.after.is_none() && is_in_place(&change.path))
            .map(|change| change.path.as_path())
            .collect();
        if gone.is_empty() {
            return Ok((changes, BTreeSet::new()));
        }
        let mut left = self.ignored_by(after, &gone)?;
        if !left.is_empty() {
            let tracked = self.said_by_repository(&["ls-files", "-z", "--cached"]).unwrap_or_default();
            for path in split(&tracked) {
                left.remove(Path::new(OsStr::from_bytes(path)));
            }
        }
        if let Some(written) = self.written.as_ref().filter(|_| !left.is_empty()) {
            for change in self.changes(written, after)?.iter().filter(|change| change.before.is_some()) {
                left.remove(&change.path);
            }
        }
        changes.retain(|change| !left.contains(&change.path));
        Ok((changes, left))
    }

    /// Which of these paths the files of a tree ignore. They are asked by themselves, because those that stand in the workspace may say
    /// something else.
    fn ignored_by(&self, tree: &str, paths: &[&Path]) -> Result<BTreeSet<PathBuf>, Error> {
        let place = self.own.join("ignoring");
        fs::remove_dir_all(&place).ok();
        fs::create_dir_all(&place).map_err(io_error("create", &place))?;
        let listed = self.git().bytes(&["ls-tree", "-r", "-z", "--name-only", "--full-tree", tree])?;
        let is_rules = |path: &&[u8]| *path == b".gitignore" || path.ends_with(b"/.gitignore");
        let rules: Vec<u8> =
            split(&listed).filter(is_rules).flat_map(|path| [path, b"\0"].concat()).collect();
        if !rules.is_empty() {
            let index = Index(self.own.join("ignoring.index"));
            let git = || self.git().with("GIT_INDEX_FILE", &index.0).with("GIT_WORK_TREE", &place);
            git().bytes(&["read-tree", tree])?;
            git().reading(rules).bytes(&["checkout-index", "--quiet", "--force", "-z", "--stdin"])?;
        }
        // It knows no literal paths; one that begins so has no magic.
        let asked = paths.iter().flat_map(|path| [b"./", path_bytes(path), b"\0"].concat()).collect();
        let git = self.git().with("GIT_LITERAL_PATHSPECS", "0").with("GIT_WORK_TREE", &place).reading(asked);
        let printed = git.print(&["check-ignore", "--no-index", "-z", "--stdin"])?;
        fs::remove_dir_all(&place).ok();
        // 1 says that none is.
        if !matches!(printed.status.code(), Some(0 | 1)) {
            return Err(printed.failed("check-ignore".to_owned()).into());
        }
        Ok(split(&printed.bytes).map(|path| path_of(path.strip_prefix(b"./").unwrap_or(path))).collect())
    }

    /// Makes the directories above a file writable, as far as they are ours: their modes are no part of a tree, and keep nobody from
    /// its files. No link is followed.
    fn open_directories(&self, path: &Path) {
        let parents: Vec<&Path> = path.ancestors().skip(1).collect();
        for parent in parents.into_iter().rev() {
            let directory = self.top.join(parent);
            let Ok(facts) = directory.symlink_metadata() else { return };
            if !facts.is_dir() {
                return;
            }
            let mode = facts.permissions().mode();
            if mode & OWNERS != OWNERS {
                fs::set_permissions(&directory, fs::Permissions::from_mode(mode | OWNERS)).ok();
            }
        }
    }
}

/// What git says of a workspace.
struct Seen {
    /// What is not as it was last stored, and whether it was stored then.
    changed: BTreeMap<PathBuf, bool>,
    /// The index is not what was last stored: somebody was killed in between.
    is_staged: bool,
}

/// What the owner of a directory must be able to do there.
const OWNERS: u32 = 0o700;

/// How git is asked what an index has that is ignored.
const TRACKED_THOUGH_IGNORED: [&str; 5] = ["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"];

/// Which tree is checked out, beside the commit that git goes by.
const LAST: &str = "last";

#[derive(Default)]
struct Sorted {
    taken: Vec<u8>,
    dropped: Vec<u8>,
    left_out: Vec<PathBuf>,
}

/// What goes over the user's configuration: bytes as they are, little time for compression, and objects that last.
const SETTINGS: [(&str, &str); 18] = [
    ("core.attributesFile", "/dev/null"),
    ("core.autocrlf", "false"),
    ("core.fileMode", "true"),
    ("core.symlinks", "true"),
    ("core.ignoreCase", "false"),
    ("core.protectNTFS", "false"),
    ("core.splitIndex", "false"),
    ("core.safecrlf", "false"),
    ("core.looseCompression", "1"),
    ("core.fsync", "loose-object"),
    ("core.fsyncMethod", "batch"),
    ("core.quotePath", "true"),
    ("color.ui", "false"),
    // What makes looking at many files fast; the cache of what is new is only kept if it is for all of it.
    ("core.untrackedCache", "true"),
    ("status.showUntrackedFiles", "all"),
    ("index.version", "4"),
    ("index.skipHash", "true"),
    ("index.sparse", "false"),
];

/// Attributes of the repository in the workspace come after these.
const ATTRIBUTES: &str = "* -text -ident -filter -working-tree-encoding\n";

/// Makes the repository whole or not at all.
fn make_store(all: &Path, store: &Path) -> Result<(), Error> {
    if store.is_dir() {
        return Ok(());
    }
    let fresh = all.join(format!("files-{}.new", std::process::id()));
    fs::remove_dir_all(&fresh).ok();
    let made =
        ["init", "--quiet", "--bare", "--template=", "--object-format=sha1"].map(std::ffi::OsString::from);
    Git::at(all).bytes(&[&made[..], &[fresh.clone().into_os_string()]].concat())?;
    let info = fresh.join("info");
    let attributes = info.join("attributes");
    let write = || {
        fs::create_dir_all(&info)?;
        let mut file = File::create(&attributes)?;
        file.write_all(ATTRIBUTES.as_bytes())?;
        file.sync_all()
    };
    write().map_err(io_error("write", &attributes))?;
    match fs::rename(&fresh, store) {
        // Another was first.
        Err(_) if store.is_dir() => {
            fs::remove_dir_all(&fresh).ok();
            Ok(())
        }
        other => Ok(other.map_err(io_error("create", store))?),
    }
}

/// Puts a small file in its place, whole or not at all.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let fresh = path.with_extension("new");
    fs::write(&fresh, bytes)?;
    fs::rename(&fresh, path)
}

/// What a small file says that an agent may have put there: no link is followed, and nothing is waited for.
fn said(path: &Path) -> Option<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let plain = file.metadata().is_ok_and(|facts| facts.is_file() && facts.len() <= limits::NOTE_BYTES_MAX);
    let mut bytes = Vec::new();
    file.take(limits::NOTE_BYTES_MAX).read_to_end(&mut bytes).ok().filter(|_| plain)?;
    Some(bytes)
}

/// Can it be stored? What is gone can: as gone.
fn is_storable(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(facts) if facts.is_file() => {
            facts.len() <= limits::CHECKPOINT_FILE_BYTES_MAX
                && rustix::fs::access(path, Access::READ_OK).is_ok()
        }
        Ok(facts) => facts.is_symlink(),
        Err(_) => true,
    }
}
