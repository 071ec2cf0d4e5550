//! A checkout as the harness itself asks it, whoever has worked in it.
//!
//! Owns three things: that the checkout is the one it seems to be, because `.git` may be a file that names any repository of
//! the user's; that nothing is run which its configuration or attributes name; and what stands in it as one tree, read with
//! an index of our own so that the checkout's is not touched. Refuses to write into it: that is for `landing` and `commit`.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;

use crate::git::{self, Git, Setting};
use crate::gitdirs::{self, GitDirs};
use crate::{commit, homing, limits, process, stage};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}` is not the root of a checkout that its repository knows", path.display())]
    NotCheckout { path: PathBuf },
    #[error("`{}` has no commit yet", path.display())]
    NoCommit { path: PathBuf },
    #[error("what git says of `{}` cannot be read", path.display())]
    Unreadable { path: PathBuf },
    #[error("a tree names the path `{}`, which no checkout may have", path.display())]
    UnsafePath { path: PathBuf },
    #[error(
        "these files are stored through a filter, and no filter is run here: {}",
        crate::landing::shown(paths)
    )]
    Filtered { paths: Vec<PathBuf> },
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Git(#[from] git::Error),
}

/// Whoever wraps the errors of a checkout has git's with them.
macro_rules! wraps_git {
    ($error:ty) => {
        impl From<crate::git::Error> for $error {
            fn from(error: crate::git::Error) -> $error {
                crate::checkout::Error::from(error).into()
            }
        }
    };
}

pub(crate) use wraps_git;

/// What takes the place of the filters that a configuration names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filters {
    /// Nothing: files are taken as they are. For looking.
    Absent,
    /// One that fails: a file is not stored as it should not be. One that is as it was is not stored anew.
    Failing,
}

/// The root of a checkout, found to be what it seems.
#[derive(Clone, Debug)]
pub struct Checkout {
    top: PathBuf,
    /// Where git keeps what is this checkout's own.
    directory: PathBuf,
    /// Where our own files go for a while, out of every agent's reach.
    scratch: PathBuf,
    settings: Vec<Setting>,
    /// The same for looking at files, which is not kept from anybody by a filter that fails.
    looking: Vec<Setting>,
    filters: Filters,
    has_name: bool,
}

/// The files of a checkout as they stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    pub tree: String,
    /// Repositories inside it, whose files are not part of the tree.
    pub nested: Vec<PathBuf>,
}

/// How one path differs between two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: PathBuf,
    pub before: Option<Node>,
    pub after: Option<Node>,
}

/// What a tree has at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// As git writes it: `100644`.
    pub mode: String,
    pub object: String,
}

impl Checkout {
    pub fn open(top: &Path, scratch: &Path, filters: Filters) -> Result<Checkout, Error> {
        let not = || Error::NotCheckout { path: top.to_owned() };
        let top = top.canonicalize().map_err(|_| not())?;
        let dirs = gitdirs::at(&top).ok_or_else(not)?;
        let directory = match &dirs {
            GitDirs::Own { directory, .. } => directory.clone(),
            GitDirs::Linked { own, .. } => own.clone(),
        };
        let asked = ["rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir"];
        let found = Git::at(&top).run(&asked)?;
        let same = |line: Option<&str>, path: &Path| {
            line.is_some_and(|line| top.join(line).canonicalize().is_ok_and(|line| line == path))
        };
        let mut lines = found.lines();
        let whole = |path: &Path| path.canonicalize().map_err(|_| not());
        let (real, common) = (whole(&directory)?, whole(dirs.common())?);
        // An agent may have said that its repository is another one.
        if !same(lines.next(), &top) || !same(lines.next(), &real) || !same(lines.next(), &common) {
            return Err(not());
        }
        fs::create_dir_all(scratch).map_err(io_error("create", scratch))?;
        sweep(scratch);
        let names = setting_names(&top)?;
        let has = |key: &str| names.iter().any(|name| name == key.as_bytes());
        let has_name = has("user.name") && has("user.email");
        Ok(Checkout {
            settings: replaced(&names, filters),
            looking: replaced(&names, Filters::Absent),
            filters,
            top,
            directory,
            scratch: scratch.to_owned(),
            has_name,
        })
    }

    pub fn top(&self) -> &Path {
        &self.top
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Git here, with nothing to run and nobody to reach.
    pub(crate) fn git(&self) -> Git<'_> {
        let git = Git::at(&self.top)
            .set(&self.settings)
            .printing_much()
            .with("GIT_OPTIONAL_LOCKS", "0")
            .with("GIT_LITERAL_PATHSPECS", "1");
        if self.has_name {
            return git;
        }
        let [name, email] = ["longhaul", "longhaul@localhost"];
        git.with("GIT_AUTHOR_NAME", name)
            .with("GIT_AUTHOR_EMAIL", email)
            .with("GIT_COMMITTER_NAME", name)
            .with("GIT_COMMITTER_EMAIL", email)
    }

    /// The commit that is checked out.
    pub fn head(&self) -> Result<String, Error> {
        let head = self.git().run(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]);
        head.map_err(|_| Error::NoCommit { path: self.top.clone() })
    }

    /// The branch that is checked out, by its full name.
    pub fn branch(&self) -> Option<String> {
        self.git().run(&["symbolic-ref", "--quiet", "HEAD"]).ok()
    }

    /// The commit that a full name or an id means, if it is there.
    pub fn commit(&self, name: &str) -> Option<String> {
        let commit = format!("{name}^{{commit}}");
        self.git().run(&["rev-parse", "--quiet", "--verify", "--end-of-options", &commit]).ok()
    }

    pub(crate) fn tree_of(&self, commit: &str) -> Result<String, Error> {
        let tree = format!("{commit}^{{tree}}");
        Ok(self.git().run(&["rev-parse", "--verify", "--end-of-options", &tree])?)
    }

    /// Tracked and untracked files as they stand, ignored ones left out, also those that git was told to pass over. Nothing of the
    /// checkout is changed.
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        let index = self.index()?;
        self.uncover(&index)?;
        self.take_files(&index)
    }

    /// Has git look again at what it was told to pass over (`assume-unchanged`, `skip-worktree`), in an index of our own: what the
    /// user wrote there is work like any other. A file of a sparse checkout that is not on disk stays passed over.
    pub(crate) fn uncover(&self, index: &Index) -> Result<(), Error> {
        let git = || self.git().set(&self.looking).with("GIT_INDEX_FILE", &index.0);
        let listed = git().bytes(&["ls-files", "-z", "-v"])?;
        let is_on_disk = |path: &[u8]| self.top.join(path_of(path)).symlink_metadata().is_ok();
        let (mut assumed, mut skipped) = (Vec::new(), Vec::new());
        for line in split(&listed) {
            let (Some(tag), Some(path)) = (line.first(), line.get(2..)) else { continue };
            let (is_assumed, is_skipped) = (tag.is_ascii_lowercase(), tag.eq_ignore_ascii_case(&b'S'));
            if (is_assumed || is_skipped) && is_on_disk(path) {
                let line = [path, b"\0"].concat();
                assumed.extend(is_assumed.then_some(&line).into_iter().flatten());
                skipped.extend(is_skipped.then_some(&line).into_iter().flatten());
            }
        }
        for (paths, option) in [(assumed, "--no-assume-unchanged"), (skipped, "--no-skip-worktree")] {
            if !paths.is_empty() {
                git().reading(paths).bytes(&["update-index", option, "-z", "--stdin"])?;
            }
        }
        Ok(())
    }

    /// Brings the files as they stand into an index of our own, but for what git was told to pass over.
    pub(crate) fn take_files(&self, index: &Index) -> Result<Snapshot, Error> {
        let git = || self.git().set(&self.looking).with("GIT_INDEX_FILE", &index.0);
        let listed = ["ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard"];
        let listed = git().bytes(&listed)?;
        let (nested, changed): (BTreeSet<&[u8]>, BTreeSet<&[u8]>) =
            split(&listed).partition(|path| path.ends_with(b"/"));
        let changed: Vec<u8> = changed.into_iter().flat_map(|path| [path, b"\0"].concat()).collect();
        let taken = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
        git().reading(changed).bytes(&taken)?;
        let tree = git().run(&["write-tree"])?;
        if self.filters == Filters::Failing {
            self.refuse_filtered(&tree)?;
        }
        Ok(Snapshot { tree, nested: nested.into_iter().map(path_of).collect() })
    }

    /// Refuses files that were taken as they stand, and are to be stored through a filter.
    fn refuse_filtered(&self, tree: &str) -> Result<(), Error> {
        let changes = self.changes(&self.head()?, tree)?;
        let written = changes.iter().filter(|change| change.after.is_some());
        let paths = self.filtered(written.map(|change| change.path.as_path()))?;
        if paths.is_empty() { Ok(()) } else { Err(Error::Filtered { paths }) }
    }

    /// An index of our own that begins as the checkout's.
    pub(crate) fn index(&self) -> Result<Index, Error> {
        let index = self.empty_index()?;
        if !copied(&self.directory.join("index"), &index.0)? {
            self.git().with("GIT_INDEX_FILE", &index.0).bytes(&["read-tree", "HEAD"])?;
        }
        Ok(index)
    }

    /// What its index has several versions of, because nobody has said which.
    pub(crate) fn unmerged(&self) -> Result<Vec<PathBuf>, Error> {
        let index = self.index()?;
        let git = self.git().with("GIT_INDEX_FILE", &index.0);
        let listed = git.bytes(&["ls-files", "-z", "--unmerged"])?;
        let path =
            |line: &[u8]| line.iter().position(|byte| *byte == b'\t').map(|tab| path_of(&line[tab + 1..]));
        let mut paths: Vec<PathBuf> = split(&listed).filter_map(path).collect();
        paths.dedup();
        Ok(paths)
    }

    /// An index of our own that holds a tree.
    pub(crate) fn index_of(&self, tree: &str) -> Result<Index, Error> {
        let index = self.empty_index()?;
        self.git().with("GIT_INDEX_FILE", &index.0).bytes(&["read-tree", tree])?;
        Ok(index)
    }

    fn empty_index(&self) -> Result<Index, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(Index(self.scratch.join(format!("{}-{number}.index", std::process::id()))))
    }

    /// How the second tree differs from the first.
    pub fn changes(&self, before: &str, after: &str) -> Result<Vec<Change>, Error> {
        changes_of(self.git(), &self.top, before, after)
    }

    /// What a tree has at one path.
    pub(crate) fn node_at(&self, tree: &str, path: &Path) -> Result<Option<Node>, Error> {
        let fixed = ["ls-tree", "-z", "--full-tree", tree, "--"].map(OsStr::new);
        let printed = self.git().bytes(&[&fixed[..], &[path.as_os_str()]].concat())?;
        let facts =
            printed.split(|byte| *byte == b'\t').next().map(String::from_utf8_lossy).unwrap_or_default();
        let mut words = facts.split(' ');
        Ok(words.next().zip(words.nth(1)).and_then(|(mode, object)| node(mode, object)))
    }

    /// Makes a commit that nothing names yet.
    pub(crate) fn make_commit(&self, tree: &str, parents: &[&str], message: &str) -> Result<String, Error> {
        let parents: Vec<&str> = parents.iter().flat_map(|parent| ["-p", parent]).collect();
        let git = self.git().reading(message.as_bytes().to_vec());
        Ok(git.run(&[&["commit-tree"], &parents[..], &["-F", "-", tree]].concat())?)
    }

    /// A commit of everything that stands here, on top of what is checked out. It is kept for `run` under a name of ours, because
    /// no branch names it; the checkout, its branch and its index stay as they are. What git was told to pass over is not meant for
    /// any commit, and is not in this one.
    pub fn carry(&self, run: &str) -> Result<String, Error> {
        let (head, snapshot) = (self.head()?, self.take_files(&self.index()?)?);
        let message = commit::signed("Changes that were not committed, carried in", run);
        let commit = self.make_commit(&snapshot.tree, &[&head], &message)?;
        let kept = carried(run);
        self.git().bytes(&["update-ref", "--end-of-options", &kept, &commit])?;
        Ok(commit)
    }

    /// Those of the paths that are stored through a filter, which is not run here.
    pub(crate) fn filtered<'p>(&self, paths: impl Iterator<Item = &'p Path>) -> Result<Vec<PathBuf>, Error> {
        let asked: Vec<u8> = paths.flat_map(|path| [path.as_os_str().as_bytes(), b"\0"].concat()).collect();
        let printed = self.git().reading(asked).bytes(&["check-attr", "-z", "--stdin", "filter"])?;
        let words: Vec<&[u8]> = split(&printed).collect();
        let known = |name: &[u8]| {
            let clean = [b"filter.", name, b".clean"].concat();
            self.settings.iter().any(|(key, _)| key.as_bytes() == clean)
        };
        let filtered = words.chunks_exact(3).filter(|word| known(word[2]));
        Ok(filtered.map(|word| path_of(word[0])).collect())
    }
}

/// How the second tree differs from the first, as this git says.
pub(crate) fn changes_of(git: Git<'_>, top: &Path, before: &str, after: &str) -> Result<Vec<Change>, Error> {
    let asked = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff"];
    let printed = git.bytes(&[&asked[..], &["--end-of-options", before, after]].concat())?;
    let unreadable = || Error::Unreadable { path: top.to_owned() };
    let mut words = split(&printed);
    let mut changes = Vec::new();
    while let Some(facts) = words.next() {
        let facts = String::from_utf8_lossy(facts.strip_prefix(b":").ok_or_else(unreadable)?).into_owned();
        let [old_mode, new_mode, old, new, _] = facts.split(' ').collect::<Vec<_>>()[..] else {
            return Err(unreadable());
        };
        let path = path_of(words.next().ok_or_else(unreadable)?);
        check_path(&path)?;
        changes.push(Change { path, before: node(old_mode, old), after: node(new_mode, new) });
    }
    Ok(changes)
}

/// What goes over the configuration of a repository so that nothing it names is run.
pub(crate) fn quiet_settings(top: &Path) -> Result<Vec<Setting>, git::Error> {
    Ok(replaced(&setting_names(top)?, Filters::Absent))
}

/// As git has them: a name that is no text is a name all the same, and one that was made readable is another.
fn setting_names(top: &Path) -> Result<Vec<Vec<u8>>, git::Error> {
    let listed = Git::at(top).printing_much().bytes(&["config", "--list", "--null", "--name-only"])?;
    Ok(split(&listed).map(<[u8]>::to_vec).collect())
}

/// An index of our own, gone with this value.
pub(crate) struct Index(pub(crate) PathBuf);

impl Drop for Index {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
        fs::remove_file(self.0.with_extension("index.lock")).ok();
    }
}

/// Removes what processes that are gone have left behind here.
fn sweep(scratch: &Path) {
    let Ok(found) = fs::read_dir(scratch) else { return };
    for entry in found.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let ends = [".index", ".index.lock", homing::SUFFIX];
        let is_file = ends.iter().any(|end| name.ends_with(end));
        let is_stage = name.ends_with(stage::SUFFIX);
        let pid = name.split('-').next().and_then(|pid| pid.parse().ok());
        let is_left = pid.is_some_and(process::is_gone);
        if is_file && is_left {
            fs::remove_file(entry.path()).ok();
        }
        if is_stage && is_left {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

/// Copies an index that an agent may have put there: no link is followed, and nothing is waited for. Its time is kept,
/// because git tells by it which entries it must look at again. `false` if there is none.
pub(crate) fn copied(from: &Path, to: &Path) -> Result<bool, Error> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let mut source = match OpenOptions::new().read(true).custom_flags(flags).open(from) {
        Ok(source) => source,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(io_error("open", from)(source)),
    };
    let facts = source.metadata().map_err(io_error("read", from))?;
    if !facts.is_file() || facts.len() > limits::GIT_INDEX_BYTES_MAX {
        return Err(io_error("copy", from)(io::Error::other("not a file of that kind")));
    }
    let mut copy: File =
        OpenOptions::new().write(true).create_new(true).open(to).map_err(io_error("create", to))?;
    io::copy(&mut source, &mut copy).map_err(io_error("copy", from))?;
    let modified = facts.modified().map_err(io_error("read", from))?;
    copy.set_modified(modified).map_err(io_error("copy", from))?;
    Ok(true)
}

/// Forgets the name under which [`Checkout::carry`] kept something for a run. The commit stays as long as a branch has it.
pub fn forget_carried(repo: &Path, run: &str) -> Result<(), git::Error> {
    Git::at(repo).run(&["update-ref", "-d", "--end-of-options", &carried(run)]).map(drop)
}

/// The runs that something is kept for.
pub fn carried_for(repo: &Path) -> Result<Vec<String>, git::Error> {
    let asked = ["for-each-ref", "--format=%(refname:lstrip=3)", &carried("")];
    Ok(Git::at(repo).printing_much().run(&asked)?.lines().map(str::to_owned).collect())
}

fn carried(run: &str) -> String {
    format!("refs/longhaul/carried/{run}")
}

/// What goes over the configuration: no filter, merge driver or hook that it names is run.
fn replaced(names: &[Vec<u8>], filters: Filters) -> Vec<Setting> {
    let [command, required] = match filters {
        Filters::Absent => ["", "false"],
        Filters::Failing => ["false", "true"],
    };
    // A process goes before a command, so that there must be none.
    let filter = [("process", ""), ("smudge", command), ("clean", command), ("required", required)];
    let named = [
        ("filter.", &filter[..]),
        ("merge.", &[("driver", "false")]),
        ("hook.", &[("enabled", "false"), ("command", "true")]),
    ];
    let fixed = [("i18n.commitEncoding", "utf-8"), ("core.quotePath", "true"), ("color.ui", "false")];
    let mut settings: Vec<Setting> = fixed.map(|(key, value)| (key.into(), value.to_owned())).to_vec();
    for (section, variables) in named {
        let within = names.iter().filter_map(|name| name.strip_prefix(section.as_bytes()));
        let ends = within.filter_map(|name| Some(&name[..name.iter().rposition(|byte| *byte == b'.')?]));
        for name in ends.collect::<BTreeSet<_>>() {
            let key = |end: &str| [section.as_bytes(), name, b".", end.as_bytes()].concat();
            let replaced =
                variables.iter().map(|(end, value)| (OsString::from_vec(key(end)), (*value).to_owned()));
            settings.extend(replaced);
        }
    }
    settings
}

/// Git refuses such names when it checks out; here they are refused before anything is looked at by them.
pub(crate) fn check_path(path: &Path) -> Result<(), Error> {
    let plain = |part: Component<'_>| match part {
        Component::Normal(name) => !name.eq_ignore_ascii_case(".git"),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => false,
    };
    // `components` passes over `.` and doubled slashes, which no tree has either.
    let rebuilt: PathBuf = path.components().collect();
    if !path.as_os_str().is_empty() && path.components().all(plain) && rebuilt.as_os_str() == path.as_os_str()
    {
        return Ok(());
    }
    Err(Error::UnsafePath { path: path.to_owned() })
}

fn node(mode: &str, object: &str) -> Option<Node> {
    (mode != "000000").then(|| Node { mode: mode.to_owned(), object: object.to_owned() })
}

pub(crate) fn split(printed: &[u8]) -> impl Iterator<Item = &[u8]> {
    printed.split(|byte| *byte == 0).filter(|word| !word.is_empty())
}

pub(crate) fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

pub(crate) fn path_bytes(path: &Path) -> &[u8] {
    OsStr::as_bytes(path.as_os_str())
}

pub(crate) fn io_error<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |source| Error::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::{Filters, replaced};

    /// A48: what is known to start programs is replaced by the very name it has, whatever bytes that is made of.
    #[test]
    fn names_that_are_no_text_are_replaced_too() {
        let names =
            [&b"filter.\xff.clean"[..], b"filter.a.b.smudge", b"merge.d.name", b"hook.h.event", b"merge.ff"];
        let names = names.map(<[u8]>::to_vec);
        let keys: Vec<Vec<u8>> = replaced(&names, Filters::Absent)
            .into_iter()
            .map(|(key, value)| [key.as_encoded_bytes(), b"=", value.as_bytes()].concat())
            .collect();
        for expected in [
            &b"filter.\xff.clean="[..],
            b"filter.\xff.process=",
            b"filter.a.b.smudge=",
            b"filter.a.b.required=false",
            b"merge.d.driver=false",
            b"hook.h.enabled=false",
        ] {
            assert!(keys.iter().any(|key| key == expected), "{expected:?}");
        }
    }
}
