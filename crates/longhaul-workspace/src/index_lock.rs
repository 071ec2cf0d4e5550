//! Git's own lock of an index, taken by us.
//!
//! Owns `index.lock` as git uses it: whoever made the file may replace the index. Ours says who made it, so that one which a
//! killed process of ours left behind is known and cleared. Refuses to clear any other: somebody's git may be at work.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::checkout::{Index, io_error};
use crate::limits;
use crate::process::Process;
use crate::{checkout, process};

const MARK: &str = "longhaul ";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}` is there: another git is at work in this checkout, or was killed there", path.display())]
    Foreign { path: PathBuf },
    #[error("another longhaul (process {pid}) is at work in this checkout")]
    Ours { pid: i32 },
    #[error(transparent)]
    Checkout(#[from] checkout::Error),
}

/// As long as this lives, no git changes the index.
pub(crate) struct IndexLock {
    directory: PathBuf,
}

impl IndexLock {
    /// `directory` is where the index is. Another part of ours that has it may be done in a moment.
    pub(crate) fn take(directory: &Path) -> Result<IndexLock, Error> {
        let mut taken = IndexLock::try_take(directory);
        limits::within(limits::INDEX_WAIT_MAX, || {
            let waits = matches!(taken, Err(Error::Ours { .. }));
            if waits {
                taken = IndexLock::try_take(directory);
            }
            !waits
        });
        taken
    }

    fn try_take(directory: &Path) -> Result<IndexLock, Error> {
        let path = directory.join("index.lock");
        for _ in 0..2 {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => {
                    let lock = IndexLock { directory: directory.to_owned() };
                    let own = serde_json::to_string(&Process::own()).unwrap_or_default();
                    file.write_all(format!("{MARK}{own}\n").as_bytes()).map_err(io_error("write", &path))?;
                    return Ok(lock);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => clear_if_ours(&path)?,
                Err(source) => return Err(io_error("create", &path)(source).into()),
            }
        }
        Err(Error::Foreign { path })
    }

    /// Puts an index of ours in the place of git's, whole or not at all.
    pub(crate) fn install(&self, index: &Index) -> Result<(), checkout::Error> {
        let fresh = self.directory.join("longhaul.index");
        match fs::remove_file(&fresh) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(io_error("remove", &fresh)(source)),
        }
        let mut copy: File = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&fresh)
            .map_err(io_error("create", &fresh))?;
        let mut from = File::open(&index.0).map_err(io_error("open", &index.0))?;
        let modified = from.metadata().and_then(|facts| facts.modified());
        io::copy(&mut from, &mut copy).map_err(io_error("copy", &index.0))?;
        let modified = modified.map_err(io_error("read", &index.0))?;
        copy.set_modified(modified).and_then(|()| copy.sync_all()).map_err(io_error("sync", &fresh))?;
        fs::rename(&fresh, self.directory.join("index")).map_err(io_error("rename", &fresh))
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        fs::remove_file(self.directory.join("index.lock")).ok();
    }
}

/// Removes a lock that says it is ours and whose process is over; anything else is an error.
fn clear_if_ours(path: &Path) -> Result<(), Error> {
    let foreign = || Error::Foreign { path: path.to_owned() };
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|_| foreign())?;
    let mut text = String::new();
    file.take(limits::NOTE_BYTES_MAX).read_to_string(&mut text).map_err(|_| foreign())?;
    let said = text.strip_prefix(MARK).and_then(|said| serde_json::from_str::<process::Process>(said).ok());
    let holder = said.ok_or_else(foreign)?;
    if !holder.is_over() {
        return Err(Error::Ours { pid: holder.pid });
    }
    fs::remove_file(path).map_err(|source| io_error("remove", path)(source).into())
}
