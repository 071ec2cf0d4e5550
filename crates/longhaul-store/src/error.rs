//! Why durable memory could not do what was asked. Each error names the run or the file, and damage its byte offset.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use longhaul_core::ids::RunId;
use rustix::io::Errno;

use crate::journal::Holder;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("run `{run}` is not in the store")]
    NotFound { run: RunId },
    #[error("run `{run}` is already in the store")]
    Exists { run: RunId },
    #[error("run `{run}` cannot start without a first event")]
    NoFirstEvent { run: RunId },
    #[error("run `{run}` is held by process {} on `{}` since {}", holder.pid, holder.host, holder.since)]
    Held { run: RunId, holder: Holder },
    #[error("run `{run}` has a newer writer: generation {generation} may no longer append")]
    Fenced { run: RunId, generation: u64 },
    #[error("the journal of run `{run}` failed earlier and must be opened again")]
    Poisoned { run: RunId },
    #[error("`{}` is damaged at byte {offset}: {what}", file.display())]
    Damaged { file: PathBuf, offset: u64, what: String },
    #[error("nothing in `{}` is sound: {what}", file.display())]
    NothingSound { run: RunId, file: PathBuf, what: String },
    #[error("the journal of run `{run}` is gone: `{}` was removed while the run worked", file.display())]
    Gone { run: RunId, file: PathBuf },
    #[error("`{}` has format version {version}, which is newer than this program knows", file.display())]
    TooNew { file: PathBuf, version: u32 },
    #[error("no space left to write `{}`", file.display())]
    NoSpace { file: PathBuf, source: io::Error },
    #[error("the disk is full, and nothing is left of what was set aside for commands to run `{run}`")]
    NoRoomForCommand { run: RunId, source: io::Error },
    #[error("{what} of {bytes} bytes is too large; the most is {max}")]
    TooLarge { what: &'static str, bytes: u64, max: u64 },
    #[error("the inbox of run `{run}` is full with {max} commands")]
    InboxFull { run: RunId, max: usize },
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("cannot use the database `{}`", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error("the query cannot be answered")]
    Query { source: rusqlite::Error },
    #[error("the query would change something; the catalogue is only read")]
    QueryWrites,
    #[error("the query took longer than {} s", max.as_secs())]
    QueryTooSlow { max: Duration },
    #[error("blob `{hash}` of run `{run}` is missing")]
    BlobMissing { run: RunId, hash: String },
    #[error("blob `{hash}` of run `{run}` is damaged: its content has another hash")]
    BlobDamaged { run: RunId, hash: String },
    #[error("run `{run}` differs between the engine and the fallback from event {seq} on")]
    Diverged { run: RunId, seq: u64 },
    #[error("run `{run}` was taken back to an earlier event while it was read")]
    TakenBack { run: RunId },
    #[error("a record could not be used")]
    Visit(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// Wraps what a visitor of records found wrong, so that it can be passed through the store.
    pub fn visit(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Visit(source.into())
    }

    /// Names the file an operation failed on; a full disk is told apart, because waiting cures it.
    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Error {
        if is_no_space(&source) {
            Error::NoSpace { file: path.into(), source }
        } else {
            Error::Io { action, path: path.into(), source }
        }
    }
}

/// Full disk, full quota, or the largest file the system allows: all mean that nothing more can be added here.
pub(crate) fn is_no_space(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG];
    Errno::from_io_error(error).is_some_and(|errno| full.contains(&errno))
}
