//! Reads a journal frame by frame with bounded memory. Owns the position in the chain of frames; changes nothing, and
//! never passes over a frame it cannot prove sound.

use std::path::Path;

use longhaul_core::ids::RunId;

use super::disk::{self, LogFile};
use super::frame::{self, FRAME_END, FRAME_HEADER, FileHeader, Header};
use super::tail::{self, Tail};
use crate::error::Error;
use crate::journal::{Record, Visit};
use crate::limits;

/// Where the journal's sound part ends, as far as it was read, and what the next frame must say to follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    pub(crate) offset: u64,
    pub(crate) seed: u32,
    pub(crate) chain: u32,
    pub(crate) last_seq: u64,
    pub(crate) generation: u64,
    pub(crate) payload_bytes: u64,
    /// Where the last frame starts.
    pub(crate) last_frame: u64,
}

impl Cursor {
    pub(crate) fn start(seed: u32) -> Cursor {
        let offset = frame::FILE_HEADER as u64;
        Cursor { offset, seed, chain: seed, last_seq: 0, generation: 0, payload_bytes: 0, last_frame: offset }
    }

    /// Why a sound frame cannot be the next one, if it cannot.
    fn refuses(&self, header: &Header) -> Option<&'static str> {
        if header.chain != self.chain {
            Some("a batch does not follow the one before it")
        } else if header.first_seq != self.last_seq + 1 || header.count == 0 {
            Some("a batch is out of sequence")
        } else if header.generation < self.generation {
            Some("a batch is from an older writer than the one before it")
        } else {
            None
        }
    }

    pub(crate) fn advance(&mut self, header: &Header) {
        self.last_frame = self.offset;
        self.offset += frame::woven_len(self.offset, header.content_len()) as u64;
        self.chain = header.crc;
        self.last_seq = header.last_seq();
        self.generation = header.generation;
        let headers = header.count as usize * frame::RECORD_HEADER;
        self.payload_bytes += header.body_len.saturating_sub(headers) as u64;
    }
}

pub(crate) enum Step<'a> {
    Frame(Vec<Record<'a>>),
    End(Tail),
}

pub(crate) struct Scanner<'f> {
    window: Window<'f>,
    pub(crate) cursor: Cursor,
    content: Vec<u8>,
}

impl<'f> Scanner<'f> {
    /// Checks the file header and stands before the first frame.
    pub(crate) fn from_start(
        file: &'f dyn LogFile,
        path: &'f Path,
        run: &RunId,
    ) -> Result<Scanner<'f>, Error> {
        let mut window = Window::new(file, path)?;
        match frame::parse_file_header(window.at(0, frame::FILE_HEADER)?, run) {
            FileHeader::Ours { seed } => {
                Ok(Scanner { window, cursor: Cursor::start(seed), content: Vec::new() })
            }
            FileHeader::TooNew { version } => Err(Error::TooNew { file: path.to_owned(), version }),
            FileHeader::Bad(what) => {
                Err(Error::Damaged { file: path.to_owned(), offset: 0, what: what.to_owned() })
            }
        }
    }

    /// Goes on where an earlier scan of the same file ended.
    pub(crate) fn resume(
        file: &'f dyn LogFile,
        path: &'f Path,
        cursor: Cursor,
    ) -> Result<Scanner<'f>, Error> {
        Ok(Scanner { window: Window::new(file, path)?, cursor, content: Vec::new() })
    }

    /// True if not even the first byte of another frame is there: the cheap answer to "is there news?".
    pub(crate) fn at_quiet_end(&mut self) -> Result<bool, Error> {
        let start = self.window.at(self.cursor.offset, FRAME_HEADER)?;
        Ok(start.iter().all(|byte| *byte == 0))
    }

    pub(crate) fn file_len(&self) -> u64 {
        self.window.len
    }

    pub(crate) fn next(&mut self) -> Result<Step<'_>, Error> {
        let offset = self.cursor.offset;
        let damaged = |what: &str| Step::End(Tail::Damaged { offset, what: what.to_owned() });
        let Some(header) = self.window.header_at(offset, self.cursor.seed, &mut self.content)? else {
            return Ok(Step::End(tail::judge(&mut self.window, &self.cursor, None)?));
        };
        if let Some(what) = self.cursor.refuses(&header) {
            return Ok(damaged(what));
        }
        if !self.load(&header)? {
            return Ok(Step::End(tail::judge(&mut self.window, &self.cursor, Some(&header))?));
        }
        self.cursor.advance(&header);
        let body = &self.content[FRAME_HEADER..FRAME_HEADER + header.body_len];
        Ok(frame::records(&header, body)
            .map_or_else(|| damaged("the records of a batch do not fill it"), Step::Frame))
    }

    /// Shows every record up to `end` or to the end of the sound part, and says what comes after it.
    pub(crate) fn show(&mut self, end: u64, visit: Visit<'_>) -> Result<Tail, Error> {
        while self.cursor.offset < end {
            match self.next()? {
                Step::Frame(records) => records.into_iter().try_for_each(&mut *visit)?,
                Step::End(tail) => return Ok(tail),
            }
        }
        Ok(Tail::Clean)
    }

    /// Shows the records of every sound frame that lies anywhere after the cursor, for those who tell what a cut takes away: none of
    /// them counts. Returns the last record that is known to have been there, whether or not it could be shown.
    pub(crate) fn show_later(&mut self, visit: Visit<'_>) -> Result<u64, Error> {
        let mut known = self.cursor.last_seq;
        let mut offset = self.cursor.offset;
        while let Some(mark) = tail::next_mark(&mut self.window, offset)? {
            offset = mark + 1;
            let header = self.window.header_at(mark, self.cursor.seed, &mut self.content)?;
            let Some(header) = header.filter(|header| header.first_seq > self.cursor.last_seq) else {
                continue;
            };
            known = known.max(header.last_seq());
            self.cursor.offset = mark;
            if !self.load(&header)? {
                continue;
            }
            self.cursor.advance(&header);
            offset = self.cursor.offset;
            let body = &self.content[FRAME_HEADER..FRAME_HEADER + header.body_len];
            frame::records(&header, body).unwrap_or_default().into_iter().try_for_each(&mut *visit)?;
        }
        Ok(known)
    }

    /// Brings the content of the frame at the cursor into memory; false if it is not whole and sound.
    fn load(&mut self, header: &Header) -> Result<bool, Error> {
        let offset = self.cursor.offset;
        let woven_len = frame::woven_len(offset, header.content_len());
        let woven = self.window.at(offset, woven_len)?;
        let stamps_sound = frame::unweave(offset, woven, &mut self.content);
        Ok(woven.len() == woven_len
            && stamps_sound
            && self.content.last() == Some(&FRAME_END)
            && crc32c::crc32c(&self.content[FRAME_HEADER..FRAME_HEADER + header.body_len]) == header.body_crc)
    }
}

/// The part of the file that is in memory. The file's length is asked once, so that one scan sees one end.
pub(crate) struct Window<'f> {
    file: &'f dyn LogFile,
    path: &'f Path,
    pub(crate) len: u64,
    start: u64,
    bytes: Vec<u8>,
}

impl<'f> Window<'f> {
    fn new(file: &'f dyn LogFile, path: &'f Path) -> Result<Window<'f>, Error> {
        let len = file.len().map_err(|error| Error::io("measure", path, error))?;
        Ok(Window { file, path, len, start: 0, bytes: Vec::new() })
    }

    /// The bytes from `offset` on: `len` of them, or fewer where the file ends.
    pub(crate) fn at(&mut self, offset: u64, len: usize) -> Result<&[u8], Error> {
        let wanted = len.min(usize::try_from(self.len.saturating_sub(offset)).unwrap_or(len));
        let inside = offset >= self.start && offset + wanted as u64 <= self.start + self.bytes.len() as u64;
        if !inside {
            self.read(offset, wanted)?;
        }
        let from = usize::try_from(offset - self.start).unwrap_or(usize::MAX).min(self.bytes.len());
        Ok(&self.bytes[from..(from + wanted).min(self.bytes.len())])
    }

    fn read(&mut self, offset: u64, wanted: usize) -> Result<(), Error> {
        let left = usize::try_from(self.len.saturating_sub(offset)).unwrap_or(usize::MAX);
        self.bytes.resize(wanted.max(limits::READ_BYTES).min(left), 0);
        self.start = offset;
        let count = disk::read_full(self.file, &mut self.bytes, offset)
            .map_err(|error| Error::io("read", self.path, error))?;
        self.bytes.truncate(count);
        Ok(())
    }

    pub(crate) fn header_at(
        &mut self,
        offset: u64,
        seed: u32,
        content: &mut Vec<u8>,
    ) -> Result<Option<Header>, Error> {
        let woven = self.at(offset, frame::woven_len(offset, FRAME_HEADER))?;
        let sound = frame::unweave(offset, woven, content);
        Ok(Header::parse(content, seed).filter(|_| sound))
    }
}
