//! The directories of a workspace, as they are listed and walked.
//!
//! Owns going from a directory to what is in it. A walk never follows a link: each directory is opened beneath the root
//! with every link on the way refused, and each file by its name in an open directory. So a directory swapped for a link
//! while a walk is under way leads nowhere. Refuses to name the harness's own state, and everything beneath it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;

use crate::beneath::{self, Links};
use crate::files::{Error, Guard, STATE_DIRECTORY, Workspace, is_state_directory, real_path};
use crate::limits;

/// One open directory of a workspace.
#[derive(Debug)]
pub struct Directory {
    handle: OwnedFd,
    /// Below the workspace's root; empty for the root itself.
    path: PathBuf,
    guard: Arc<Guard>,
}

/// What is in a directory under one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: OsString,
    pub kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EntryKind {
    Directory,
    File,
    /// A symbolic link, wherever it leads.
    Link,
    /// A FIFO, a socket or a device.
    Special,
}

/// Size and age of an entry; of a link itself, not of what it leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Facts {
    /// Nanoseconds since 1970.
    pub modified: i128,
    pub bytes: u64,
}

impl Workspace {
    /// Opens the directory a model named: links on the way are followed as long as they stay inside.
    pub fn open_directory(&self, path: &str) -> Result<Directory, Error> {
        self.check_present()?;
        let relative = self.relative(path)?;
        let handle = beneath::open(self.handle.as_fd(), &relative, beneath::DIRECTORY, Links::Inside)
            .map_err(|errno| self.refusal("open", path, errno))?;
        self.refuse_state(path, &relative, &handle)?;
        let path = relative.components().filter(|part| part.as_os_str() != ".").collect();
        Ok(Directory { handle, path, guard: self.guard.clone() })
    }

    /// Opens a directory that a walk came by, `path` being below the root. No link is followed.
    pub fn enter(&self, path: &Path) -> io::Result<Directory> {
        let relative = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let handle = beneath::open(self.handle.as_fd(), relative, beneath::DIRECTORY, Links::Refused)?;
        Directory::walked(handle, path.to_owned(), &self.guard)
    }
}

impl Directory {
    /// One that a walk came by. A state directory of another name than usual is only known by where it is.
    fn walked(handle: OwnedFd, path: PathBuf, guard: &Arc<Guard>) -> io::Result<Directory> {
        if real_path(&handle).is_some_and(|real| guard.hides(&real) || is_state_directory(&real)) {
            return Err(io::Error::other("the harness's own state"));
        }
        Ok(Directory { handle, path, guard: guard.clone() })
    }

    /// Below the workspace's root; empty for the root itself.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a directory below this one. No link is followed.
    pub fn enter(&self, path: &Path) -> io::Result<Directory> {
        let handle = beneath::open(self.handle.as_fd(), path, beneath::DIRECTORY, Links::Refused)?;
        Directory::walked(handle, self.path.join(path), &self.guard)
    }

    /// The same for a path below the workspace's root that begins with this directory's.
    pub fn enter_deep(&self, path: &Path) -> io::Result<Directory> {
        self.enter(path.strip_prefix(&self.path).map_err(io::Error::other)?)
    }

    /// All entries but the harness's state, in no order.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in Dir::read_from(&self.handle)? {
            let entry = entry?;
            let name = OsString::from_vec(entry.file_name().to_bytes().to_vec());
            if name == "." || name == ".." || name == STATE_DIRECTORY {
                continue;
            }
            if entries.len() == limits::DIRECTORY_ENTRIES_MAX {
                return Err(io::Error::other(format!("more than {} entries", entries.len())));
            }
            if let Some(kind) = self.entry_kind(&name, entry.file_type())? {
                entries.push(Entry { name, kind });
            }
        }
        Ok(entries)
    }

    /// Opens the regular file of this name; a link is refused.
    pub fn open_file(&self, name: &OsStr) -> io::Result<File> {
        // Without NONBLOCK, opening a FIFO waits for a writer for ever.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(openat(&self.handle, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("not a regular file")) }
    }

    pub fn facts(&self, name: &OsStr) -> io::Result<Facts> {
        let stat = statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let modified = i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec);
        Ok(Facts { modified, bytes: u64::try_from(stat.st_size).unwrap_or(0) })
    }

    /// What the link of this name says.
    pub fn link_target(&self, name: &OsStr) -> io::Result<Option<PathBuf>> {
        Ok(beneath::link_target(self.handle.as_fd(), name)?)
    }

    /// Some file systems do not say what an entry is when listing it. `None` if it is gone by now.
    fn entry_kind(&self, name: &OsStr, file_type: FileType) -> io::Result<Option<EntryKind>> {
        let known = |file_type: FileType| {
            if file_type.is_file() {
                EntryKind::File
            } else if file_type.is_dir() {
                EntryKind::Directory
            } else if file_type.is_symlink() {
                EntryKind::Link
            } else {
                EntryKind::Special
            }
        };
        if file_type != FileType::Unknown {
            return Ok(Some(known(file_type)));
        }
        match statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(known(FileType::from_raw_mode(stat.st_mode)))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}
