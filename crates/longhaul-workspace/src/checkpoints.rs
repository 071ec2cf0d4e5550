//! The files of workspaces, kept out of every agent's reach, and the way back to them.
//!
//! Owns one bare repository for all workspaces of a state directory, so that what stands twice is kept once, and beside it one
//! index for each workspace, so that a file that has not changed is not read again. Works the same for a workspace that is a
//! checkout, a worktree or no repository at all; neither its `.git` nor its index is looked at. Files are stored byte for
//! byte: no filter, no line ends, no encoding. Modes are git's: executable or not, and links as links. Empty directories are not
//! kept. What is ignored, nested repositories, special files, and files that are too large or cannot be read are no part of it:
//! they are neither stored nor touched on the way back. Refuses to follow a link and to replace anything it has not stored.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, OFlags};

use crate::checkout::{self, Change, Node, changes_of, io_error, path_bytes, path_of, split};
use crate::git::{self, Git};
use crate::landing::{in_the_way, remove_file};
use crate::{digest_of, gitdirs, limits};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}` has more than {} files", path.display(), limits::CHECKPOINT_FILES_MAX)]
    TooMany { path: PathBuf },
    #[error("these are in the way, and were never stored: {}", crate::landing::shown(paths))]
    InTheWay { paths: Vec<PathBuf> },
    #[error("another longhaul is storing the files of this workspace")]
    Busy,
    #[error(transparent)]
    Checkout(#[from] checkout::Error),
}

impl From<git::Error> for Error {
    fn from(error: git::Error) -> Error {
        checkout::Error::from(error).into()
    }
}

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
    index: PathBuf,
    /// What lies in the workspace and is ours.
    state: PathBuf,
    settings: Vec<(String, String)>,
    _held: File,
}

impl Vault {
    /// `state` is the state directory, which the repository is made in.
    pub fn open(top: &Path, state: &Path) -> Result<Vault, Error> {
        let top = top.canonicalize().map_err(io_error("open", top))?;
        let all = state.join("checkpoints");
        fs::create_dir_all(&all).map_err(io_error("create", &all))?;
        let state = state.canonicalize().map_err(io_error("open", state))?;
        let all = state.join("checkpoints");
        let name = digest_of(path_bytes(&top));
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
        let lock = all.join(format!("{name}.lock"));
        let held = File::options().create(true).append(true).open(&lock).map_err(io_error("open", &lock))?;
        if !limits::within(limits::LANDING_WAIT_MAX, || held.try_lock().is_ok()) {
            return Err(Error::Busy);
        }
        let store = all.join("files.git");
        make_store(&all, &store)?;
        let index = all.join(format!("{name}.index"));
        // Ours alone, by the lock: whoever left it was killed.
        fs::remove_file(all.join(format!("{name}.index.lock"))).ok();
        let settings = SETTINGS.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        Ok(Vault { top, store, index, state, settings, _held: held })
    }

    fn git(&self) -> Git<'_> {
        Git::at(&self.top)
            .set(&self.settings)
            .printing_much()
            .with("GIT_DIR", &self.store)
            .with("GIT_WORK_TREE", &self.top)
            .with("GIT_INDEX_FILE", &self.index)
            .with("GIT_NO_LAZY_FETCH", "1")
            .with("GIT_ALLOW_PROTOCOL", "none")
            .with("GIT_LITERAL_PATHSPECS", "1")
    }

    /// Stores what stands in the workspace, tracked or not, ignored files left out.
    pub fn store(&self) -> Result<Tree, Error> {
        match self.try_store() {
            // An index that cannot be used is only a cache.
            Err(Error::Checkout(checkout::Error::Git(git::Error::Failed { .. }))) => {
                fs::remove_file(&self.index).ok();
                self.try_store()
            }
            other => other,
        }
    }

    fn try_store(&self) -> Result<Tree, Error> {
        let excluded = self.excluded()?;
        let mut asked = ["ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard"]
            .map(Into::into)
            .to_vec();
        if let Some(file) = &excluded {
            let mut option = std::ffi::OsString::from("--exclude-from=");
            option.push(file);
            asked.push(option);
        }
        let listed = self.git().bytes(&asked)?;
        let listed: BTreeSet<PathBuf> = split(&listed).map(path_of).collect();
        if listed.len() > limits::CHECKPOINT_FILES_MAX {
            return Err(Error::TooMany { path: self.top.clone() });
        }
        let sorted = self.sorted(&listed);
        if !sorted.taken.is_empty() {
            let taken = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
            let mut settings = self.settings.clone();
            if listed.len() > limits::CHECKPOINT_LOOSE_MAX {
                // Git streams what it takes for large into one pack.
                settings.push(("core.bigFileThreshold".to_owned(), "1".to_owned()));
            }
            self.git().set(&settings).reading(sorted.taken).bytes(&taken)?;
        }
        if !sorted.dropped.is_empty() {
            let dropped = ["update-index", "-z", "--force-remove", "--stdin"];
            self.git().reading(sorted.dropped).bytes(&dropped)?;
        }
        let tree = self.git().run(&["write-tree"])?;
        Ok(Tree { tree, left_out: sorted.left_out })
    }

    /// What is taken into the index, and what is left out of it.
    fn sorted(&self, listed: &BTreeSet<PathBuf>) -> Sorted {
        let mut sorted = Sorted::default();
        let put = |list: &mut Vec<u8>, path: &Path| {
            list.extend(path_bytes(path));
            list.push(0);
        };
        for path in listed {
            let whole = self.top.join(path);
            if whole.starts_with(&self.state) && !self.top.starts_with(&self.state) {
                continue;
            }
            if path_bytes(path).ends_with(b"/") {
                sorted.left_out.push(path.clone());
            } else if self.is_beyond(listed, path) {
                put(&mut sorted.dropped, path);
            } else if is_storable(&whole) {
                put(&mut sorted.taken, path);
            } else {
                put(&mut sorted.dropped, path);
                sorted.left_out.push(path.clone());
            }
        }
        sorted
    }

    /// Does a link or a file stand where a directory on the way to it was? Then it is gone, whatever the link leads to.
    fn is_beyond(&self, listed: &BTreeSet<PathBuf>, path: &Path) -> bool {
        let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        parents
            .filter(|parent| listed.contains(*parent))
            .any(|parent| self.top.join(parent).symlink_metadata().is_ok_and(|facts| !facts.is_dir()))
    }

    /// What the workspace's own repository says is ignored beside its files, copied: an agent may have put anything there.
    fn excluded(&self) -> Result<Option<PathBuf>, Error> {
        let Some(common) = gitdirs::at(&self.top).map(|found| found.common().to_owned()) else {
            return Ok(None);
        };
        let copy = self.index.with_extension("exclude");
        fs::remove_file(&copy).ok();
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let from = common.join("info/exclude");
        let Ok(mut source) = OpenOptions::new().read(true).custom_flags(flags).open(&from) else {
            return Ok(None);
        };
        let plain =
            source.metadata().is_ok_and(|facts| facts.is_file() && facts.len() <= limits::NOTE_BYTES_MAX);
        if !plain {
            return Ok(None);
        }
        let mut target = File::create(&copy).map_err(io_error("create", &copy))?;
        io::copy(&mut source, &mut target).map_err(io_error("copy", &from))?;
        Ok(Some(copy))
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

    /// Is the tree here, with all that is in it?
    pub fn holds(&self, tree: &str) -> bool {
        let asked = ["rev-list", "--objects", "--no-object-names", "--quiet", "--end-of-options", tree];
        self.git().bytes(&asked).is_ok()
    }

    /// What would be written to bring the workspace from one stored tree to another. Refused if that would touch what is in
    /// neither.
    pub fn way(&self, before: &str, after: &str) -> Result<Vec<Change>, Error> {
        let changes = self.changes(before, after)?;
        let blocked = in_the_way(&self.top, &changes);
        if blocked.is_empty() {
            return Ok(changes);
        }
        Err(Error::InTheWay { paths: blocked.into_iter().map(|change| change.path).collect() })
    }

    /// Writes what differs. May be killed and called again with what then differs.
    pub fn write(&self, changes: &[Change]) -> Result<(), Error> {
        for change in changes.iter().filter(|change| change.after.is_none()) {
            remove_file(&self.top, &change.path)?;
        }
        let mut said = Vec::new();
        for change in changes {
            let Some(Node { mode, object }) = &change.after else { continue };
            said.extend(format!("{mode} {object}\t").as_bytes());
            said.extend(path_bytes(&change.path));
            said.push(0);
        }
        let scratch = self.index.with_extension("writing");
        fs::remove_file(&scratch).ok();
        let entered = self.git().with("GIT_INDEX_FILE", &scratch).reading(said);
        entered.bytes(&["update-index", "-z", "--index-info"])?;
        let written = self.git().with("GIT_INDEX_FILE", &scratch);
        let written = written.bytes(&["checkout-index", "--all", "--force", "--quiet"]);
        fs::remove_file(&scratch).ok();
        written?;
        Ok(())
    }
}

#[derive(Default)]
struct Sorted {
    taken: Vec<u8>,
    dropped: Vec<u8>,
    left_out: Vec<PathBuf>,
}

/// What goes over the user's configuration: bytes as they are, little time for compression, and objects that last.
const SETTINGS: [(&str, &str); 9] = [
    ("core.attributesFile", "/dev/null"),
    ("core.autocrlf", "false"),
    ("core.safecrlf", "false"),
    ("core.looseCompression", "1"),
    ("core.fsync", "loose-object"),
    ("core.fsyncMethod", "batch"),
    ("core.quotePath", "true"),
    ("color.ui", "false"),
    ("core.untrackedCache", "false"),
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

/// Can it be stored? What is gone can: as gone.
fn is_storable(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(facts) if facts.is_file() => {
            facts.len() <= limits::CHECKPOINT_FILE_BYTES_MAX
                && rustix::fs::access(path, Access::READ_OK).is_ok()
        }
        Ok(facts) => facts.is_symlink() || facts.is_dir(),
        Err(_) => true,
    }
}
