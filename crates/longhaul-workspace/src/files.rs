//! The files of one workspace.
//!
//! Owns every access of the built-in tools to disk. All paths go through an open descriptor of the root, so nothing
//! outside is ever read or written, whatever a path or a link says. Refuses everything that is not a regular file,
//! absolute symbolic links, and to go on when the root was moved or deleted. Replacing a file keeps its permission
//! bits but not its hard links or extended attributes, because the bytes arrive under a new inode.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, fchmod, fchown, fstat, fsync, mkdirat, openat};
use rustix::fs::{Gid, Uid, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::beneath::{self, Links};
use crate::limits;

/// The digest of a file that is not there.
pub const ABSENT: &str = "absent";

/// Where runs keep their journals, unless told otherwise. It may lie inside a workspace, and is no part of it.
pub const STATE_DIRECTORY: &str = ".longhaul";

/// The file in a state directory that says whose it is.
pub const STATE_MARK: &str = "owner";

/// Is this a state directory, whatever its name? Whoever writes there answers for a person.
pub fn is_state_directory(dir: &Path) -> bool {
    dir.join(STATE_MARK).is_file() && dir.join("runs").is_dir()
}

/// The digest of these bytes, as [`Workspace::digest`] would report them.
pub fn digest_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Why a path was refused or a file could not be handled. The messages are read by a model.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot open the workspace `{}`", root.display())]
    Root { root: PathBuf, source: io::Error },
    #[error("the workspace `{}` is gone: it was deleted, moved or unmounted", root.display())]
    Gone { root: PathBuf },
    #[error("the path is empty; give a path relative to the workspace, like `src/main.rs`")]
    EmptyPath,
    #[error("the path contains a NUL character; give a path relative to the workspace, like `src/main.rs`")]
    NulInPath,
    #[error(
        "`{path}` leads outside the workspace `{}`; use a path inside it (links must be relative and stay inside)",
        root.display()
    )]
    Outside { path: String, root: PathBuf },
    #[error("`{path}` is the harness's own state, which is not part of the workspace")]
    State { path: String },
    #[error("`{path}` does not exist")]
    Missing { path: String },
    #[error("`{path}` ends in a slash, so it names a directory; give the path of a file")]
    TrailingSlash { path: String },
    #[error("`{path}` is a directory, not a file")]
    Directory { path: String },
    #[error("`{path}` cannot be reached: a part of the path is a file, not a directory")]
    ParentNotDirectory { path: String },
    #[error("`{path}` is {kind}, not a regular file")]
    NotRegular { path: String, kind: &'static str },
    #[error("`{path}` is a symbolic link that leads back to itself")]
    LinkLoop { path: String },
    #[error("`{path}` has {bytes} bytes; at most {max} are handled at once")]
    TooLarge { path: String, bytes: u64, max: u64 },
    #[error("`{path}` is not to be written: it belongs to the harness or to git itself")]
    Guarded { path: String },
    #[error("the effect key `{key}` is not usable as a file name")]
    BadKey { key: String },
    #[error("cannot {action} `{path}`: {source}")]
    Io { action: &'static str, path: String, source: io::Error },
}

impl Error {
    /// Whether the machine was short of something (memory, file handles) that may come back.
    pub fn is_busy(&self) -> bool {
        let (Error::Io { source, .. } | Error::Root { source, .. }) = self else {
            return false;
        };
        let short = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
        Errno::from_io_error(source).is_some_and(|errno| short.contains(&errno))
    }
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// A FIFO, a socket or a device: nothing the tools touch.
    Special,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metadata {
    pub kind: Kind,
    pub bytes: u64,
}

/// One open workspace.
#[derive(Debug)]
pub struct Workspace {
    /// The root as it was given, made absolute: a model may repeat it in this spelling.
    given: PathBuf,
    /// The root with all links resolved.
    root: PathBuf,
    pub(crate) handle: File,
    pub(crate) guard: Arc<Guard>,
}

/// What inside a workspace its agent's tools leave alone, with all links resolved. Git's own directories are never
/// written to: what they hold makes git run programs.
#[derive(Clone, Debug, Default)]
pub struct Guard {
    /// Not even to be read: the state directory of the harness, wherever it is.
    pub hidden: Vec<PathBuf>,
    /// To be read only: its settings.
    pub read_only: Vec<PathBuf>,
}

impl Guard {
    pub(crate) fn hides(&self, real: &Path) -> bool {
        self.hidden.iter().any(|hidden| real.starts_with(hidden))
    }
}

impl Workspace {
    pub fn open(root: &Path) -> Result<Workspace, Error> {
        let failed = |source| Error::Root { root: root.to_owned(), source };
        let given = std::path::absolute(root).map_err(failed)?;
        let resolved = given.canonicalize().map_err(failed)?;
        let flags = beneath::DIRECTORY | OFlags::CLOEXEC;
        let handle =
            rustix::fs::open(&resolved, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        Ok(Workspace { given, root: resolved, handle: File::from(handle), guard: Arc::default() })
    }

    /// The same with places that its tools leave alone.
    #[must_use]
    pub fn guarded(self, guard: Guard) -> Workspace {
        Workspace { guard: Arc::new(guard), ..self }
    }

    /// The root with all links resolved.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Refuses to go on when the root's path no longer names the directory we opened.
    pub fn check_present(&self) -> Result<(), Error> {
        let gone = |_| Error::Gone { root: self.root.clone() };
        let (ours, there) =
            (self.handle.metadata().map_err(gone)?, std::fs::metadata(&self.root).map_err(gone)?);
        if (ours.dev(), ours.ino()) == (there.dev(), there.ino()) {
            Ok(())
        } else {
            Err(Error::Gone { root: self.root.clone() })
        }
    }

    /// Opens a regular file for reading; the caller bounds how much of it is read.
    pub fn open_file(&self, path: &str) -> Result<File, Error> {
        self.check_present()?;
        let relative = self.relative(path)?;
        // Without NONBLOCK, opening a FIFO waits for a writer for ever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = beneath::open(self.handle.as_fd(), &relative, flags, Links::Inside)
            .map_err(|errno| self.refusal("open", path, errno))?;
        self.refuse_state(path, &relative, &file)?;
        let stat = fstat(&file).map_err(|errno| self.refusal("look at", path, errno))?;
        regular(path, &stat)?;
        Ok(File::from(file))
    }

    /// The whole file, at most [`limits::FILE_BYTES_MAX`] bytes.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, Error> {
        let file = self.open_file(path)?;
        let failed = |source| Error::Io { action: "read", path: path.to_owned(), source };
        let bytes = file.metadata().map_err(failed)?.len();
        let max = limits::FILE_BYTES_MAX;
        let too_large = |bytes| Error::TooLarge { path: path.to_owned(), bytes, max };
        if bytes > max {
            return Err(too_large(bytes));
        }
        let mut content = Vec::with_capacity(usize::try_from(bytes).unwrap_or(0) + 1);
        // The file may grow while it is read, so the length seen above is not trusted.
        file.take(max + 1).read_to_end(&mut content).map_err(failed)?;
        if content.len() as u64 > max { Err(too_large(content.len() as u64)) } else { Ok(content) }
    }

    /// The digest of the file's bytes, or [`ABSENT`].
    pub fn digest(&self, path: &str) -> Result<String, Error> {
        let file = match self.open_file(path) {
            Ok(file) => file,
            Err(Error::Missing { .. }) => return Ok(ABSENT.to_owned()),
            Err(error) => return Err(error),
        };
        self.digest_of_file(path, &file)
    }

    /// The same of a file that is open, from where it stands.
    pub fn digest_of_file(&self, path: &str, file: &File) -> Result<String, Error> {
        let failed = |source| Error::Io { action: "read", path: path.to_owned(), source };
        let max = limits::DIGEST_BYTES_MAX;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader(file.take(max + 1)).map_err(failed)?;
        if hasher.count() > max {
            return Err(Error::TooLarge { path: path.to_owned(), bytes: hasher.count(), max });
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// What is at `path`, links followed; `None` when nothing is.
    pub fn metadata(&self, path: &str) -> Result<Option<Metadata>, Error> {
        self.check_present()?;
        if self.relative(path)?.file_name().is_none() {
            return Ok(Some(Metadata { kind: Kind::Directory, bytes: 0 }));
        }
        let spot = match self.locate(path, Parents::MustExist) {
            Ok(spot) => spot,
            Err(Error::Missing { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let stat = self.stat(path, &spot)?;
        Ok(stat
            .map(|stat| Metadata { kind: kind_of(&stat), bytes: u64::try_from(stat.st_size).unwrap_or(0) }))
    }

    /// Where a path leads below the root, with all links resolved, also where nothing is yet. What is asked of a path is also asked
    /// of this: a link in the workspace is as easily made as followed.
    pub fn real(&self, path: &str) -> Result<PathBuf, Error> {
        let mut relative = self.relative(path)?;
        for _ in 0..limits::LINKS_MAX {
            let (mut here, mut rest) = (relative.clone(), PathBuf::new());
            relative = loop {
                let Some(name) = here.file_name().map(ToOwned::to_owned) else {
                    let directory = self.directory(&here, Parents::MustExist);
                    return self.below(path, &directory, &rest);
                };
                let parent = here.parent().unwrap_or(Path::new("")).to_owned();
                let tail = if rest.as_os_str().is_empty() {
                    name.clone().into()
                } else {
                    Path::new(&name).join(&rest)
                };
                match self.directory(&parent, Parents::MustExist) {
                    Err(Errno::NOENT) => (here, rest) = (parent, tail),
                    directory => {
                        match directory.as_ref().map(|open| beneath::link_target(open.as_fd(), &name)) {
                            Ok(Ok(Some(target))) if target.is_absolute() => return Err(self.outside(path)),
                            Ok(Ok(Some(target))) => break parent.join(target).join(rest),
                            Ok(Ok(None) | Err(Errno::NOENT)) => return self.below(path, &directory, &tail),
                            Ok(Err(errno)) => return Err(self.refusal("reach", path, errno)),
                            Err(errno) => return Err(self.refusal("reach", path, *errno)),
                        }
                    }
                }
            };
        }
        Err(Error::LinkLoop { path: path.to_owned() })
    }

    /// Something in an open directory, as a path below the root.
    fn below(&self, path: &str, directory: &Result<OwnedFd, Errno>, rest: &Path) -> Result<PathBuf, Error> {
        let open = directory.as_ref().map_err(|errno| self.refusal("reach", path, *errno))?;
        let Some(real) = real_path(open) else { return self.relative(path) };
        let whole = if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        Ok(whole.strip_prefix(&self.root).map(Path::to_owned).unwrap_or(whole))
    }

    /// Puts `bytes` at `path`: after a crash at any point the file has its old bytes or the new ones. Missing
    /// directories are made. A link at `path` stays, and what it points to is replaced. `key` names the temporary file.
    pub fn replace(&self, path: &str, bytes: &[u8], key: &str) -> Result<(), Error> {
        self.replace_like(path, path, bytes, key)
    }

    /// The same for a file that is new at `path` and gets the permission bits of that at `like`, if there is one.
    pub fn replace_like(&self, path: &str, like: &str, bytes: &[u8], key: &str) -> Result<(), Error> {
        self.put(path, like, bytes, key, || true).map(drop)
    }

    /// The same as [`Workspace::replace`], if `agreed` says so when all is written and only the new name is missing: whoever looks
    /// at the old file then looks as late as can be. Answers whether it was replaced.
    pub fn replace_if(
        &self,
        path: &str,
        bytes: &[u8],
        key: &str,
        agreed: impl FnOnce() -> bool,
    ) -> Result<bool, Error> {
        self.put(path, path, bytes, key, agreed)
    }

    fn put(
        &self,
        path: &str,
        like: &str,
        bytes: &[u8],
        key: &str,
        agreed: impl FnOnce() -> bool,
    ) -> Result<bool, Error> {
        self.check_present()?;
        let temporary = temporary_name(key)?;
        let spot = self.locate_to_write(path, Parents::Create)?;
        let old = match self.stat(path, &spot)? {
            None if path != like => self.stat(like, &self.locate(like, Parents::MustExist)?)?,
            old => old,
        };
        if let Some(stat) = &old {
            regular(path, stat)?;
        }
        let replaced = self.write_temporary(path, &spot, &temporary, bytes, old.as_ref()).and_then(|()| {
            if !agreed() {
                return Ok(false);
            }
            renameat(&spot.directory, &temporary, &spot.directory, &spot.name)
                .map(|()| true)
                .map_err(|errno| self.refusal("replace", path, errno))
        });
        if !matches!(replaced, Ok(true)) {
            // Best effort: a leftover is found again by its name, and the first error is the one to report.
            unlinkat(&spot.directory, &temporary, AtFlags::empty()).ok();
        }
        if replaced? {
            sync_directory(&spot.directory)
                .map_err(|errno| self.refusal("sync the directory of", path, errno))?;
            return Ok(true);
        }
        Ok(false)
    }

    /// Removes the file at `path`, for good. One that is not there is removed already; a link is refused.
    pub fn remove(&self, path: &str) -> Result<(), Error> {
        self.refuse_link(path)?;
        let spot = self.locate_to_write(path, Parents::MustExist)?;
        if let Some(stat) = self.stat(path, &spot)? {
            regular(path, &stat)?;
            unlinkat(&spot.directory, &spot.name, AtFlags::empty())
                .map_err(|errno| self.refusal("remove", path, errno))?;
        }
        sync_directory(&spot.directory).map_err(|errno| self.refusal("sync the directory of", path, errno))
    }

    /// Refuses a path whose last part is a link: whether the link or its target is meant would be a guess.
    pub fn refuse_link(&self, path: &str) -> Result<(), Error> {
        self.check_present()?;
        let relative = self.relative(path)?;
        let Some(name) = relative.file_name() else {
            return Err(Error::Directory { path: path.to_owned() });
        };
        let failed = |errno| self.refusal("reach", path, errno);
        let parent = relative.parent().unwrap_or(Path::new(""));
        let directory = self.directory(parent, Parents::MustExist).map_err(failed)?;
        match beneath::link_target(directory.as_fd(), name) {
            Ok(Some(_)) => Err(Error::NotRegular { path: path.to_owned(), kind: "a symbolic link" }),
            Ok(None) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(errno)),
        }
    }

    /// The first part of `path` that is a link, and where that leads; nothing if the path goes through directories only.
    pub fn link_on_the_way(&self, path: &str) -> Result<Option<(PathBuf, PathBuf)>, Error> {
        self.check_present()?;
        let failed = |errno| self.refusal("reach", path, errno);
        let mut here = PathBuf::new();
        for part in self.relative(path)?.components() {
            // Everything up to here was found to be no link.
            let directory = match self.directory(&here, Parents::MustExist) {
                Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
                found => found.map_err(failed)?,
            };
            here.push(part);
            match beneath::link_target(directory.as_fd(), part.as_os_str()) {
                Ok(Some(target)) => return Ok(Some((here, target))),
                Ok(None) => {}
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(failed(errno)),
            }
        }
        Ok(None)
    }

    /// Removes the link at `path`, not what it leads to.
    pub fn remove_link(&self, path: &str) -> Result<(), Error> {
        let (directory, name) = self.place_of_link(path)?;
        match beneath::link_target(directory.as_fd(), &name) {
            Ok(Some(_)) => unlinkat(&directory, &name, AtFlags::empty())
                .and_then(|()| sync_directory(&directory))
                .map_err(|errno| self.refusal("remove", path, errno)),
            Ok(None) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(self.refusal("reach", path, errno)),
        }
    }

    /// Makes a link at `path`, where there must be nothing or another link.
    pub fn put_link(&self, path: &str, target: &Path) -> Result<(), Error> {
        self.remove_link(path)?;
        let (directory, name) = self.place_of_link(path)?;
        rustix::fs::symlinkat(target, &directory, &name)
            .and_then(|()| sync_directory(&directory))
            .map_err(|errno| self.refusal("make a link at", path, errno))
    }

    /// The directory that a link is in, and its name there.
    fn place_of_link(&self, path: &str) -> Result<(OwnedFd, OsString), Error> {
        self.check_present()?;
        let relative = self.relative(path)?;
        self.check_writable(path, &self.root.join(&relative))?;
        let Some(name) = relative.file_name() else {
            return Err(Error::Directory { path: path.to_owned() });
        };
        let parent = relative.parent().unwrap_or(Path::new(""));
        let directory =
            self.directory(parent, Parents::Create).map_err(|errno| self.refusal("reach", path, errno))?;
        self.refuse_state(path, &relative, &directory)?;
        Ok((directory, name.to_owned()))
    }

    /// May the file at `path` be run?
    pub fn is_executable(&self, path: &str) -> Result<bool, Error> {
        let failed = |source| Error::Io { action: "look at", path: path.to_owned(), source };
        Ok(self.open_file(path)?.metadata().map_err(failed)?.mode() & 0o111 != 0)
    }

    /// Lets whoever may read the file at `path` run it, or nobody.
    pub fn set_executable(&self, path: &str, executable: bool) -> Result<(), Error> {
        self.check_writable(path, &self.root.join(self.relative(path)?))?;
        let file = self.open_file(path)?;
        let failed = |source| Error::Io { action: "look at", path: path.to_owned(), source };
        let mode = file.metadata().map_err(failed)?.mode() & 0o777;
        let mode = if executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
        fchmod(&file, Mode::from_raw_mode(mode))
            .map_err(|errno| self.refusal("set the permissions of", path, errno))
    }

    /// Makes what is at `path`, or that nothing is, survive a power cut. Used when the writer died between its rename
    /// and its sync.
    pub fn settle(&self, path: &str) -> Result<(), Error> {
        match self.open_file(path) {
            Ok(file) => fsync(&file).map_err(|errno| self.refusal("sync", path, errno))?,
            Err(Error::Missing { .. }) => {}
            Err(error) => return Err(error),
        }
        let spot = match self.locate(path, Parents::MustExist) {
            Ok(spot) => spot,
            // Without its directory it is certainly not there.
            Err(Error::Missing { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        sync_directory(&spot.directory).map_err(|errno| self.refusal("sync the directory of", path, errno))
    }

    /// Removes the temporary file that a [`Workspace::replace`] with this path and key left when it was killed.
    /// Answers whether there was one.
    pub fn sweep(&self, path: &str, key: &str) -> Result<bool, Error> {
        self.check_present()?;
        let temporary = temporary_name(key)?;
        let spot = match self.locate(path, Parents::MustExist) {
            Ok(spot) => spot,
            Err(Error::Missing { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        match unlinkat(&spot.directory, &temporary, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.refusal("remove the temporary file of", path, errno)),
        }
    }

    /// The same as `locate` for what is to be changed: refuses what is guarded, as it is spelled, before a directory is
    /// made for it, and as it really is, because links may lead there.
    fn locate_to_write(&self, path: &str, parents: Parents) -> Result<Spot, Error> {
        self.check_writable(path, &self.root.join(self.relative(path)?))?;
        // A path that was taken apart knows nothing of it.
        if path.ends_with('/') {
            return Err(Error::TrailingSlash { path: path.to_owned() });
        }
        let spot = self.locate(path, parents)?;
        if let Some(directory) = real_path(&spot.directory) {
            self.check_writable(path, &directory.join(&spot.name))?;
        }
        Ok(spot)
    }

    fn check_writable(&self, path: &str, real: &Path) -> Result<(), Error> {
        let guarded = self.guard.read_only.iter().any(|place| real.starts_with(place));
        let below = real.strip_prefix(&self.root).unwrap_or(real);
        let is_git = below.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"));
        if guarded || is_git {
            return Err(Error::Guarded { path: path.to_owned() });
        }
        Ok(())
    }

    /// The path below the root. `..` is left in place: only the kernel knows what it means behind a link.
    pub(crate) fn relative(&self, path: &str) -> Result<PathBuf, Error> {
        if path.is_empty() {
            return Err(Error::EmptyPath);
        }
        if path.contains('\0') {
            return Err(Error::NulInPath);
        }
        // A model that writes `~/x` means a home directory, not a directory called `~`.
        if path == "~" || path.starts_with("~/") {
            return Err(self.outside(path));
        }
        let path_given = Path::new(path);
        let relative = if path_given.is_absolute() {
            let below = path_given.strip_prefix(&self.root).or_else(|_| path_given.strip_prefix(&self.given));
            below.map_err(|_| self.outside(path))?
        } else {
            path_given
        };
        Ok(if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative.to_owned() })
    }

    /// The directory and the name that `path` finally means, with a link in last place followed.
    fn locate(&self, path: &str, parents: Parents) -> Result<Spot, Error> {
        let mut relative = self.relative(path)?;
        // Before any directory is made on the way.
        if names_state(&relative) {
            return Err(Error::State { path: path.to_owned() });
        }
        for _ in 0..limits::LINKS_MAX {
            let Some(name) = relative.file_name().map(ToOwned::to_owned) else {
                return Err(Error::Directory { path: path.to_owned() });
            };
            let parent = relative.parent().unwrap_or(Path::new("")).to_owned();
            let directory =
                self.directory(&parent, parents).map_err(|errno| self.refusal("reach", path, errno))?;
            self.refuse_state(path, Path::new(&name), &directory)?;
            match beneath::link_target(directory.as_fd(), &name) {
                Ok(Some(target)) if target.is_absolute() => return Err(self.outside(path)),
                Ok(Some(target)) => relative = parent.join(target),
                Ok(None) | Err(Errno::NOENT) => return Ok(Spot { directory, name }),
                Err(errno) => return Err(self.refusal("reach", path, errno)),
            }
        }
        Err(Error::LinkLoop { path: path.to_owned() })
    }

    fn directory(&self, relative: &Path, parents: Parents) -> Result<OwnedFd, Errno> {
        let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        match (beneath::open(self.handle.as_fd(), path, beneath::DIRECTORY, Links::Inside), parents) {
            (Err(Errno::NOENT), Parents::Create) => self.create_directories(path),
            (result, Parents::Create | Parents::MustExist) => result,
        }
    }

    /// Each directory is made inside one that was opened beneath the root, so a race can move it but not lead it out.
    fn create_directories(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        let root = self.handle.as_fd();
        let open = |path: &Path| beneath::open(root, path, beneath::DIRECTORY, Links::Inside);
        let mut here = open(Path::new("."))?;
        let mut prefix = PathBuf::new();
        for part in relative.components() {
            prefix.push(part);
            here = match open(&prefix) {
                // A link may have led into the state, where nothing is to be made either.
                Err(Errno::NOENT) if real_path(&here).is_some_and(|real| self.is_state(&real)) => {
                    return Err(Errno::XDEV);
                }
                Err(Errno::NOENT) => {
                    match mkdirat(&here, part.as_os_str(), Mode::from_raw_mode(0o777)) {
                        Ok(()) | Err(Errno::EXIST) => {}
                        Err(errno) => return Err(errno),
                    }
                    sync_directory(&here)?;
                    open(&prefix)?
                }
                result => result?,
            };
        }
        Ok(here)
    }

    fn stat(&self, path: &str, spot: &Spot) -> Result<Option<Stat>, Error> {
        match statat(&spot.directory, &spot.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.refusal("look at", path, errno)),
        }
    }

    fn write_temporary(
        &self,
        path: &str,
        spot: &Spot,
        temporary: &str,
        bytes: &[u8],
        old: Option<&Stat>,
    ) -> Result<(), Error> {
        let refusal = |action| move |errno| self.refusal(action, path, errno);
        let mut file =
            create_temporary(&spot.directory, temporary).map_err(refusal("create a temporary file for"))?;
        file.write_all(bytes).map_err(|source| Error::Io {
            action: "write",
            path: path.to_owned(),
            source,
        })?;
        if let Some(old) = old {
            // Only root may give files away; for everybody else the new file rightly belongs to its writer.
            fchown(&file, Some(Uid::from_raw(old.st_uid)), Some(Gid::from_raw(old.st_gid))).ok();
            let mode = Mode::from_raw_mode(old.st_mode) & Mode::from_raw_mode(0o777);
            fchmod(&file, mode).map_err(refusal("set the permissions of"))?;
        }
        fsync(&file).map_err(refusal("sync"))
    }

    /// Refuses what is the harness's state, or in it, however the path got there.
    pub(crate) fn refuse_state(&self, path: &str, relative: &Path, opened: &OwnedFd) -> Result<(), Error> {
        if names_state(relative) || real_path(opened).is_some_and(|real| self.is_state(&real)) {
            return Err(Error::State { path: path.to_owned() });
        }
        Ok(())
    }

    /// The workspace itself may lie in a state directory; what counts is what comes below the root.
    fn is_state(&self, real: &Path) -> bool {
        let Ok(below) = real.strip_prefix(&self.root) else { return self.guard.hides(real) };
        let within = real.ancestors().take(below.components().count());
        names_state(below) || self.guard.hides(real) || within.into_iter().any(is_state_directory)
    }

    fn outside(&self, path: &str) -> Error {
        Error::Outside { path: path.to_owned(), root: self.root.clone() }
    }

    pub(crate) fn refusal(&self, action: &'static str, path: &str, errno: Errno) -> Error {
        let path = path.to_owned();
        match errno {
            Errno::XDEV => Error::Outside { path, root: self.root.clone() },
            Errno::NOENT => Error::Missing { path },
            Errno::NOTDIR => Error::ParentNotDirectory { path },
            Errno::ISDIR => Error::Directory { path },
            Errno::LOOP => Error::LinkLoop { path },
            Errno::NXIO => Error::NotRegular { path, kind: "a socket or a device" },
            errno => Error::Io { action, path, source: errno.into() },
        }
    }
}

/// Where a path finally leads: a name in a directory that is open and beneath the root.
struct Spot {
    directory: OwnedFd,
    name: OsString,
}

#[derive(Clone, Copy)]
enum Parents {
    Create,
    MustExist,
}

/// The name tells a person which run and call left the file behind.
fn temporary_name(key: &str) -> Result<String, Error> {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    if key.is_empty() || key.len() > limits::KEY_BYTES_MAX || !key.bytes().all(usable) {
        return Err(Error::BadKey { key: key.chars().take(80).collect() });
    }
    Ok(format!(".longhaul-{key}.tmp"))
}

/// A file of this name can only be the leftover of a killed attempt with the same key, so it is removed.
fn create_temporary(directory: &OwnedFd, name: &str) -> Result<File, Errno> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || openat(directory, name, flags, Mode::from_raw_mode(0o666));
    match create() {
        Err(Errno::EXIST) => {
            unlinkat(directory, name, AtFlags::empty())?;
            create().map(File::from)
        }
        result => result.map(File::from),
    }
}

/// Some file systems cannot sync a directory and say so; there is nothing better to be done on them.
fn sync_directory(directory: &OwnedFd) -> Result<(), Errno> {
    match fsync(directory) {
        Err(Errno::INVAL | Errno::NOTSUP) => Ok(()),
        result => result,
    }
}

fn names_state(relative: &Path) -> bool {
    relative.components().any(|part| part.as_os_str() == STATE_DIRECTORY)
}

/// Where an open file or directory is, all links resolved; `None` where the system cannot tell.
#[cfg(target_os = "linux")]
pub(crate) fn real_path(file: &OwnedFd) -> Option<PathBuf> {
    use std::os::fd::AsRawFd;
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

#[cfg(target_os = "macos")]
pub(crate) fn real_path(file: &OwnedFd) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = rustix::fs::getpath(file).ok()?;
    Some(PathBuf::from(OsString::from_vec(path.into_bytes())))
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
pub(crate) fn real_path(_file: &OwnedFd) -> Option<PathBuf> {
    None
}

fn kind_of(stat: &Stat) -> Kind {
    let file_type = FileType::from_raw_mode(stat.st_mode);
    if file_type.is_file() {
        Kind::File
    } else if file_type.is_dir() {
        Kind::Directory
    } else {
        Kind::Special
    }
}

fn regular(path: &str, stat: &Stat) -> Result<(), Error> {
    match kind_of(stat) {
        Kind::File => Ok(()),
        Kind::Directory => Err(Error::Directory { path: path.to_owned() }),
        Kind::Special => Err(Error::NotRegular { path: path.to_owned(), kind: special(stat) }),
    }
}

fn special(stat: &Stat) -> &'static str {
    let file_type = FileType::from_raw_mode(stat.st_mode);
    if file_type.is_fifo() {
        "a FIFO"
    } else if file_type.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}
