//! Files made ready beside a checkout and then put into it, one by one and each of them whole.
//!
//! Git writes them into a directory of ours, so that a git which outlives a killed harness writes nowhere else; into the
//! checkout they are moved by this process alone. A file there is as it was or as it is to be, never half of both. Refuses to
//! put a file through a link, or in the place of a directory that holds anything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::checkout::{Checkout, Error, Index, io_error};

/// What the name of such a directory ends with.
pub(crate) const SUFFIX: &str = ".stage";

/// What a file is called in the checkout while it is copied there from another disk.
const ARRIVING: &str = ".longhaul-landing.new";

/// A directory with files of an index, gone with this value.
pub(crate) struct Stage {
    place: PathBuf,
}

impl Stage {
    /// Writes all files of an index, as they would be in the checkout.
    pub(crate) fn of(checkout: &Checkout, index: &Index) -> Result<Stage, Error> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{number}{SUFFIX}", std::process::id());
        let stage = Stage { place: checkout.scratch().join(name) };
        fs::create_dir(&stage.place).map_err(io_error("create", &stage.place))?;
        let place = stage.place.canonicalize().map_err(io_error("read", &stage.place))?;
        let mut prefix = std::ffi::OsString::from("--prefix=");
        prefix.push(place.join(""));
        let git = checkout.git().with("GIT_INDEX_FILE", &index.0);
        let asked: [std::ffi::OsString; 4] =
            ["checkout-index".into(), "--all".into(), "--quiet".into(), prefix];
        git.bytes(&asked)?;
        Ok(stage)
    }

    /// Puts one of the files in its place, whole or not at all.
    pub(crate) fn put(&self, top: &Path, path: &Path) -> Result<(), Error> {
        let (from, to) = (self.place.join(path), top.join(path));
        make_parents(top, path)?;
        if to.symlink_metadata().is_ok_and(|facts| facts.is_dir()) {
            remove_empty(&to)?;
        }
        match fs::rename(&from, &to) {
            Err(error) if error.kind() == io::ErrorKind::CrossesDevices => from_another_disk(&from, &to),
            moved => moved.map_err(io_error("write", &to)),
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.place).ok();
    }
}

/// Removes what a killed process has left beside the place of a file.
pub(crate) fn clear_arriving(top: &Path, path: &Path) {
    fs::remove_file(top.join(path).with_file_name(ARRIVING)).ok();
}

fn from_another_disk(from: &Path, to: &Path) -> Result<(), Error> {
    let near = to.with_file_name(ARRIVING);
    fs::remove_file(&near).ok();
    let is_link = from.symlink_metadata().map_err(io_error("read", from))?.is_symlink();
    let copied = if is_link {
        fs::read_link(from).and_then(|target| std::os::unix::fs::symlink(target, &near))
    } else {
        fs::copy(from, &near).map(drop)
    };
    copied.and_then(|()| fs::rename(&near, to)).map_err(|source| {
        fs::remove_file(&near).ok();
        io_error("write", to)(source)
    })
}

/// The directories above a file, none of them a link.
fn make_parents(top: &Path, path: &Path) -> Result<(), Error> {
    let mut parents: Vec<&Path> = path.ancestors().skip(1).collect();
    parents.retain(|parent| !parent.as_os_str().is_empty());
    for parent in parents.into_iter().rev() {
        let directory = top.join(parent);
        match directory.symlink_metadata() {
            Ok(facts) if facts.is_dir() => {}
            Ok(_) => return Err(io_error("write below", &directory)(io::ErrorKind::NotADirectory.into())),
            Err(_) => fs::create_dir(&directory).map_err(io_error("create", &directory))?,
        }
    }
    Ok(())
}

/// Removes a directory with nothing but directories in it.
fn remove_empty(directory: &Path) -> Result<(), Error> {
    for entry in fs::read_dir(directory).map_err(io_error("read", directory))?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_empty(&entry.path())?;
        }
    }
    fs::remove_dir(directory).map_err(io_error("remove", directory))
}
