//! The lock of a run's one writer. Owns who may append: the kernel frees the lock when its holder dies, and the line
//! in the file (generation, process, host, since) fences a writer whose lock file was replaced under it. Keeps no
//! lease and waits for nobody's clock.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use longhaul_core::ids::RunId;
use longhaul_core::time::Timestamp;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

use super::disk::{Access, open_file};
use crate::error::Error;
use crate::journal::{Holder, Writer};
use crate::limits;

/// Held until dropped.
pub(crate) struct Lock {
    file: File,
    path: PathBuf,
    inode: (u64, u64),
    line: Line,
    written: Vec<u8>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Line {
    generation: u64,
    pid: u32,
    host: String,
    since: Timestamp,
}

impl Lock {
    /// Takes the lock or says who has it. The generation in the file grows by one.
    pub(crate) fn take(run: &RunId, path: &Path, writer: &Writer) -> Result<Lock, Error> {
        let failed = |error| Error::io("lock", path, error);
        let started = Instant::now();
        let (file, metadata) = loop {
            if let Some(found) = try_take(path).map_err(failed)? {
                break found;
            }
            if started.elapsed() >= limits::LOCK_WAIT {
                let line = read_line(path).map_err(failed)?;
                let dead = line.as_ref().is_some_and(|line| line.host == writer.host && is_dead(line.pid));
                if !dead || started.elapsed() >= limits::LOCK_WAIT_DEAD {
                    let holder = line.map_or_else(unknown_holder, Holder::from);
                    return Err(Error::Held { run: run.clone(), holder });
                }
            }
            thread::sleep(limits::LOCK_PAUSE);
        };
        let earlier = parse(&file).map_err(failed)?.map_or(0, |line| line.generation);
        let host = writer.host.chars().take(limits::HOST_CHARS_MAX).collect();
        let line = Line { generation: 0, pid: writer.pid, host, since: writer.at };
        let inode = (metadata.dev(), metadata.ino());
        let mut lock = Lock { file, path: path.to_owned(), inode, line, written: Vec::new() };
        lock.claim(earlier.saturating_add(1))?;
        Ok(lock)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.line.generation
    }

    /// Writes this writer's generation where all others look for it. It need not survive a crash: no writer does.
    pub(crate) fn claim(&mut self, generation: u64) -> Result<(), Error> {
        self.line.generation = generation;
        let mut written = serde_json::to_vec(&self.line)
            .map_err(|error| Error::io("lock", &self.path, io::Error::other(error)))?;
        written.push(b'\n');
        self.file
            .write_all_at(&written, 0)
            .and_then(|()| self.file.set_len(written.len() as u64))
            .map_err(|error| Error::io("lock", &self.path, error))?;
        self.written = written;
        Ok(())
    }

    /// True while the file at the path is the one we locked and still names us. Two system calls.
    pub(crate) fn still_ours(&self) -> bool {
        let same_file = std::fs::symlink_metadata(&self.path).is_ok_and(|found| inode(&found) == self.inode);
        let mut line = [0; limits::LOCK_LINE_BYTES_MAX];
        let read = || self.file.read_at(&mut line, 0).map(|count| line[..count] == self.written[..]);
        same_file && retry(read).unwrap_or(false)
    }

    /// The directory that holds the lock got its final name.
    pub(crate) fn moved_to(&mut self, path: PathBuf) {
        self.path = path;
    }
}

impl Drop for Lock {
    /// Said, and not left to the closing of the file: a child that is just being started has it open too, until it is another
    /// program.
    fn drop(&mut self) {
        flock(&self.file, FlockOperation::Unlock).ok();
    }
}

/// Who holds the lock at `path`, if anybody does. Asking holds it for an instant itself, shared with others who ask.
pub(crate) fn holder(path: &Path) -> io::Result<Option<Holder>> {
    let file = match open_file(path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    match retry(|| Ok(flock(&file, FlockOperation::NonBlockingLockShared)?)) {
        Ok(()) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            Ok(Some(parse(&file)?.map_or_else(unknown_holder, Holder::from)))
        }
        Err(error) => Err(error),
    }
}

impl From<Line> for Holder {
    fn from(line: Line) -> Holder {
        Holder { pid: line.pid, host: line.host, since: line.since, generation: line.generation }
    }
}

fn is_dead(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH))
}

/// One try: nothing if somebody has the lock, or if the file was replaced while we took it.
fn try_take(path: &Path) -> io::Result<Option<(File, Metadata)>> {
    let file = match open_file(path, Access::CreateNew) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => open_file(path, Access::Write)?,
        other => other?,
    };
    match retry(|| Ok(flock(&file, FlockOperation::NonBlockingLockExclusive)?)) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
        Err(error) => return Err(error),
    }
    let ours = file.metadata()?;
    let same_file = std::fs::symlink_metadata(path).is_ok_and(|found| inode(&found) == inode(&ours));
    Ok(same_file.then_some((file, ours)))
}

fn read_line(path: &Path) -> io::Result<Option<Line>> {
    parse(&open_file(path, Access::Read)?)
}

/// A line that cannot be read is one being written, or one a crash left half written: it names nobody.
fn parse(file: &File) -> io::Result<Option<Line>> {
    let mut bytes = [0; limits::LOCK_LINE_BYTES_MAX];
    let count = retry(|| file.read_at(&mut bytes, 0))?;
    Ok(serde_json::from_slice(&bytes[..count]).ok())
}

fn unknown_holder() -> Holder {
    Holder { pid: 0, host: "unknown".to_owned(), since: Timestamp::default(), generation: 0 }
}

fn inode(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn retry<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
