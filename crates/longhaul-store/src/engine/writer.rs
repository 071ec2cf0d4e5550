//! The one writer of a journal file. Owns the order of an append: fence, room, one write, one sync. Never writes over
//! a sound frame with anything else, never syncs twice for one batch, and after a failed write or sync never again.

use std::path::PathBuf;
use std::sync::Arc;

use longhaul_core::ids::RunId;

use super::disk::{self, Disk, LogFile, WriteFailed};
use super::frame::{self, Place, SECTOR};
use super::inbox;
use super::lock::Lock;
use super::scan::{Cursor, Scanner};
use super::tail::Tail;
use crate::error::{Error, is_no_space};
use crate::journal::{Ack, Entry, Journal, Space, Visit};
use crate::limits;

const ZEROS: &[u8] = &[0; 64 * 1024];
const PAGE: u64 = 4096;

pub(crate) struct EngineJournal {
    run: RunId,
    path: PathBuf,
    disk: Arc<dyn Disk>,
    file: Box<dyn LogFile>,
    lock: Lock,
    cursor: Cursor,
    /// The file's length. From the cursor to here it is zeros, already written: a batch that fits needs no new space.
    zeroed: u64,
    content: Vec<u8>,
    frame: Vec<u8>,
    poisoned: bool,
    torn_bytes: u64,
}

impl EngineJournal {
    /// Starts an empty file with its header; nothing is synced before the first batch is.
    pub(crate) fn start(
        run: &RunId,
        path: PathBuf,
        disk: Arc<dyn Disk>,
        file: Box<dyn LogFile>,
        lock: Lock,
    ) -> Result<EngineJournal, Error> {
        let header = frame::file_header(run);
        disk::write_all(&*file, &header, 0).map_err(|failed| Error::io("write", &path, failed.source))?;
        let seed = crc32c::crc32c(&header[..header.len() - 4]);
        Ok(EngineJournal::new(run, path, disk, file, lock, Cursor::start(seed), header.len() as u64))
    }

    /// Reads what is there, cuts a torn tail and makes sure that everything shown is on disk.
    pub(crate) fn open(
        run: &RunId,
        path: PathBuf,
        disk: Arc<dyn Disk>,
        file: Box<dyn LogFile>,
        mut lock: Lock,
        visit: Visit<'_>,
    ) -> Result<EngineJournal, Error> {
        let mut scanner = Scanner::from_start(&*file, &path, run)?;
        let tail = scanner.show(u64::MAX, visit)?;
        let (cursor, len) = (scanner.cursor, scanner.file_len());
        let torn_end = sound_end(&path, &cursor, tail)?;
        lock.claim(lock.generation().max(cursor.generation.saturating_add(1)))?;
        let mut journal = EngineJournal::new(run, path, disk, file, lock, cursor, len);
        journal.torn_bytes = torn_end.map_or(0, |end| end - journal.cursor.offset);
        journal.make_durable(torn_end)?;
        Ok(journal)
    }

    fn new(
        run: &RunId,
        path: PathBuf,
        disk: Arc<dyn Disk>,
        file: Box<dyn LogFile>,
        lock: Lock,
        cursor: Cursor,
        zeroed: u64,
    ) -> EngineJournal {
        let (content, frame) = (Vec::new(), Vec::new());
        let (run, poisoned, torn_bytes) = (run.clone(), false, 0);
        EngineJournal { run, path, disk, file, lock, cursor, zeroed, content, frame, poisoned, torn_bytes }
    }

    /// Starts no lower than this: the run had writers in another store before.
    pub(crate) fn at_least(&mut self, generation: u64) -> Result<(), Error> {
        self.lock.claim(self.lock.generation().max(generation))
    }

    /// The run's directory got its final name.
    pub(crate) fn moved_to(&mut self, journal: PathBuf, lock: PathBuf) {
        self.path = journal;
        self.lock.moved_to(lock);
    }

    /// Zeroes a torn tail and syncs. The last frame is written once more, as it is: its first writer may have died
    /// of a failed sync, after which the system calls the pages clean although they never reached the disk.
    fn make_durable(&mut self, torn_end: Option<u64>) -> Result<(), Error> {
        let failed = |error| Error::io("recover", &self.path, error);
        let mut bytes = vec![0; (self.cursor.offset - self.cursor.last_frame) as usize];
        let count = disk::read_full(&*self.file, &mut bytes, self.cursor.last_frame).map_err(failed)?;
        disk::write_all(&*self.file, &bytes[..count], self.cursor.last_frame)
            .map_err(|error| failed(error.source))?;
        if let Some(end) = torn_end {
            let mut offset = self.cursor.offset;
            while offset < end {
                let piece = &ZEROS[..ZEROS.len().min((end - offset) as usize)];
                disk::write_all(&*self.file, piece, offset).map_err(|error| failed(error.source))?;
                offset += piece.len() as u64;
            }
            // A file cut in the middle of a sector gets the rest of it back: only whole sectors can be judged.
            self.zeroed = self.zeroed.next_multiple_of(SECTOR as u64);
            self.file.set_len(self.zeroed).map_err(failed)?;
        }
        self.file.sync_data().map_err(failed)
    }

    /// Sees to it that the frame in the buffer fits into space already written, and the reserve after it.
    fn make_room(&mut self) -> Result<Space, Error> {
        let frame_end = self.cursor.offset + self.frame.len() as u64;
        if frame_end + limits::RESERVE_BYTES <= self.zeroed {
            return Ok(Space::Ample);
        }
        let chunk = self.zeroed.clamp(limits::FILL_BYTES_MIN, limits::FILL_BYTES_MAX);
        let needed = (frame_end + limits::RESERVE_BYTES).next_multiple_of(PAGE);
        match self.fill_to(needed.max((self.zeroed + chunk) / PAGE * PAGE)) {
            Ok(()) => Ok(Space::Ample),
            Err(failed) if !is_no_space(&failed.source) => Err(self.poison("extend", failed.source)),
            // Never up to the very end: a file that ends with a frame is one that was closed.
            Err(_) if frame_end < self.zeroed => Ok(Space::Reserve),
            Err(failed) => Err(Error::NoSpace { file: self.path.clone(), source: failed.source }),
        }
    }

    fn fill_to(&mut self, end: u64) -> Result<(), WriteFailed> {
        while self.zeroed < end {
            let piece = &ZEROS[..ZEROS.len().min((end - self.zeroed) as usize)];
            let result = disk::write_all(&*self.file, piece, self.zeroed);
            let written = result.as_ref().map_or_else(|failed| failed.written, |()| piece.len());
            self.zeroed += written as u64;
            result?;
        }
        Ok(())
    }

    fn write_frame(&mut self) -> Result<(), Error> {
        match disk::write_all(&*self.file, &self.frame, self.cursor.offset) {
            Ok(()) => Ok(()),
            Err(WriteFailed { written: 0, source }) if is_no_space(&source) => {
                Err(Error::NoSpace { file: self.path.clone(), source })
            }
            Err(failed) => Err(self.poison("append to", failed.source)),
        }
    }

    fn poison(&mut self, action: &'static str, source: std::io::Error) -> Error {
        self.poisoned = true;
        Error::Io { action, path: self.path.clone(), source }
    }

    /// Gives back the zeros past `end`.
    fn trim_to(&mut self, end: u64) -> Result<(), Error> {
        self.check_usable()?;
        let trimmed = self.file.set_len(end).and_then(|()| self.file.sync_data());
        trimmed.map_err(|error| Error::io("close", &self.path, error))
    }

    fn check_usable(&mut self) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Poisoned { run: self.run.clone() });
        }
        if !self.lock.still_ours() {
            self.poisoned = true;
            // Who took the run over has left its journal where it was, and where one can look.
            let run = self.run.clone();
            return Err(match std::fs::symlink_metadata(&self.path) {
                Ok(_) => Error::Fenced { run, generation: self.lock.generation() },
                Err(error) if super::is_absent(&error) => Error::Gone { run, file: self.path.clone() },
                Err(error) => Error::io("reach", &self.path, error),
            });
        }
        Ok(())
    }
}

impl Journal for EngineJournal {
    fn append(&mut self, batch: &[Entry]) -> Result<Ack, Error> {
        let bytes = frame::content_len(batch);
        if bytes > limits::FRAME_BYTES_MAX {
            let max = limits::FRAME_BYTES_MAX as u64;
            return Err(Error::TooLarge { what: "a batch", bytes: bytes as u64, max });
        }
        self.check_usable()?;
        if batch.is_empty() {
            return Ok(Ack { last_seq: self.cursor.last_seq, space: Space::Ample });
        }
        let Cursor { offset, seed, chain, last_seq, .. } = self.cursor;
        let generation = self.lock.generation();
        let place = Place { offset, seed, chain, first_seq: last_seq + 1, generation };
        let crc = frame::encode(batch, place, &mut self.content, &mut self.frame);
        let space = self.make_room()?;
        self.write_frame()?;
        // Never tried again: after a failure the system may count the lost pages as written.
        self.file.sync_data().map_err(|error| self.poison("sync", error))?;
        self.cursor.last_frame = offset;
        self.cursor.offset = offset + self.frame.len() as u64;
        self.cursor.chain = crc;
        self.cursor.last_seq = last_seq + batch.len() as u64;
        self.cursor.generation = generation;
        Ok(Ack { last_seq: self.cursor.last_seq, space })
    }

    fn last_seq(&self) -> u64 {
        self.cursor.last_seq
    }

    fn generation(&self) -> u64 {
        self.lock.generation()
    }

    fn torn_bytes(&self) -> u64 {
        self.torn_bytes
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        self.trim_to(self.cursor.offset)?;
        inbox::give_back_reserve(&*self.disk, &self.path.with_file_name("inbox"));
        Ok(())
    }

    fn rest(mut self: Box<Self>) -> Result<(), Error> {
        let kept = (self.cursor.offset + limits::RESERVE_BYTES).next_multiple_of(SECTOR as u64);
        self.trim_to(kept.min(self.zeroed))
    }
}

/// Turns a damaged tail into its error; otherwise says up to where a torn write reaches, if there is one.
pub(crate) fn sound_end(path: &std::path::Path, cursor: &Cursor, tail: Tail) -> Result<Option<u64>, Error> {
    let damaged = |offset, what| Err(Error::Damaged { file: path.to_owned(), offset, what });
    match tail {
        Tail::Damaged { offset, what } => damaged(offset, what),
        Tail::Clean | Tail::Torn { .. } if cursor.last_seq == 0 => {
            // A run gets its name only after its first batch is on disk, so no crash explains this.
            damaged(cursor.offset, "the first batch is missing".to_owned())
        }
        Tail::Clean => Ok(None),
        Tail::Torn { end } => Ok(Some(end)),
    }
}
