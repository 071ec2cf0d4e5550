//! Reads a journal while somebody writes it. Owns the reader's place; takes no lock, blocks nobody, changes nothing.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use longhaul_core::ids::RunId;

use super::disk::LogFile;
use super::lock;
use super::scan::{Cursor, Scanner};
use super::tail::Tail;
use super::writer::sound_end;
use crate::error::Error;
use crate::journal::{Reader, Record, Visit};
use crate::limits;

pub(crate) struct EngineReader {
    pub(crate) run: RunId,
    pub(crate) path: PathBuf,
    pub(crate) lock: PathBuf,
    pub(crate) file: Box<dyn LogFile>,
    /// Which file had the journal's name when this was opened.
    pub(crate) inode: Option<(u64, u64)>,
    /// Nothing before the first poll.
    pub(crate) cursor: Option<Cursor>,
    pub(crate) poisoned: bool,
}

/// What one look at the file found.
pub(crate) struct Look {
    pub(crate) start: Cursor,
    pub(crate) end: Cursor,
    pub(crate) tail: Tail,
    /// The file ends with its last frame, so its writer has closed it: no frame is ever written up to the very end of a file, and
    /// what lies behind one is cut off only once it is on disk.
    pub(crate) closed: bool,
}

impl EngineReader {
    /// Looks again at what makes no sense while a writer is alive: it may be in the middle of writing it.
    pub(crate) fn look(&self) -> Result<Look, Error> {
        let mut look = self.look_once()?;
        for _ in 0..limits::READ_LOOKS_MAX {
            if !matches!(look.tail, Tail::Damaged { .. }) {
                break;
            }
            let held = lock::holder(&self.lock).map_err(|error| Error::io("look at", &self.lock, error))?;
            if held.is_some() {
                thread::sleep(limits::READ_PAUSE);
            }
            look = self.look_once()?;
            if held.is_none() {
                break;
            }
        }
        Ok(look)
    }

    fn look_once(&self) -> Result<Look, Error> {
        // A journal that was taken back is another file. Whoever went on with the old one would wait for ever.
        if let (Some(now), Some(then)) = (inode(&self.path), self.inode)
            && now != then
        {
            return Err(Error::TakenBack { run: self.run.clone() });
        }
        let mut scanner = self.scanner()?;
        let start = scanner.cursor;
        let file_len = scanner.file_len();
        if file_len < start.offset {
            let what = "the journal became shorter than what was read of it".to_owned();
            return Err(Error::Damaged { file: self.path.clone(), offset: file_len, what });
        }
        // Once the zeros behind the end were all looked at, a quiet end is enough to know that there is no news.
        let quiet = self.cursor.is_some() && scanner.at_quiet_end()?;
        let tail = if quiet { Tail::Clean } else { scanner.show(u64::MAX, &mut |_: Record<'_>| Ok(()))? };
        // Asked again: a file is made longer before a frame is written into it, so one that had this end before the scan and has it
        // after was not written to in between, or was closed since.
        let len = || self.file.len().map_err(|error| Error::io("measure", &self.path, error));
        let closed = file_len == scanner.cursor.offset && len()? == file_len;
        Ok(Look { start, end: scanner.cursor, tail, closed })
    }

    fn scanner(&self) -> Result<Scanner<'_>, Error> {
        match self.cursor {
            Some(cursor) => Scanner::resume(&*self.file, &self.path, cursor),
            None => Scanner::from_start(&*self.file, &self.path, &self.run),
        }
    }
}

impl Reader for EngineReader {
    fn poll(&mut self, visit: Visit<'_>) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Poisoned { run: self.run.clone() });
        }
        let Look { start, end, tail, closed } = self.look()?;
        sound_end(&self.path, &end, tail)?;
        if end.offset > start.offset {
            // The last batch may be written and its writer's sync not yet back, or never to come back. Whoever is
            // shown a record may act on it, so it goes to disk first; this works on a file opened for reading too.
            // A second try after a failure would succeed and prove nothing, so there is none.
            if !closed && let Err(error) = self.file.sync_data() {
                self.poisoned = true;
                return Err(Error::io("sync", &self.path, error));
            }
            Scanner::resume(&*self.file, &self.path, start)?.show(end.offset, visit)?;
        }
        self.cursor = Some(end);
        Ok(())
    }
}

/// Which file has this name now.
pub(crate) fn inode(path: &Path) -> Option<(u64, u64)> {
    let found = fs::symlink_metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
