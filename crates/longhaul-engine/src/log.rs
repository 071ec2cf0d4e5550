//! `events.jsonl`: one line for each event, for people with `tail` and `jq`. Derived from the journal; if a crash left it
//! behind, the missing lines are added when the run is next driven.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use longhaul_core::event::Event;
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;
use longhaul_core::view::EventLine;

use crate::limits::LOG_TAIL_BYTES;
use crate::watch::{Trouble, Watcher};

pub struct EventLog {
    path: PathBuf,
    /// Let go after a failed write: a log with a hole would be worse than one that stops.
    file: Option<BufWriter<File>>,
    last_seq: u64,
    trouble: Option<Trouble>,
}

impl EventLog {
    /// Opens the log for adding. A half-written last line is cut off first.
    pub fn open(path: &Path) -> std::io::Result<EventLog> {
        let (last_seq, sound_bytes) = match File::open(path) {
            Ok(file) => match last_line(&file)? {
                Some(found) => found,
                None => sound_part(file)?,
            },
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (0, 0),
            Err(error) => return Err(error),
        };
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
        file.set_len(sound_bytes)?;
        Ok(EventLog { path: path.to_owned(), file: Some(BufWriter::new(file)), last_seq, trouble: None })
    }

    /// A log that could not be opened: it holds nothing but the reason.
    pub fn lost(path: &Path, why: &std::io::Error) -> EventLog {
        let mut log = EventLog { path: path.to_owned(), file: None, last_seq: 0, trouble: None };
        log.give_up(why);
        log
    }

    /// Adds an event unless the log has it already.
    pub fn add(&mut self, run: &Run, seq: u64, at: Timestamp, event: &Event) {
        let Some(file) = self.file.as_mut().filter(|_| seq > self.last_seq) else { return };
        let line = EventLine { run, seq, at, event };
        let written = serde_json::to_writer(&mut *file, &line).map_err(std::io::Error::from);
        let written = written.and_then(|()| file.write_all(b"\n"));
        self.last_seq = seq;
        if let Err(error) = written {
            self.give_up(&error);
        }
    }

    fn give_up(&mut self, why: &std::io::Error) {
        // Not flushed: what is in the buffer follows on what could not be written.
        if let Some(file) = self.file.take() {
            drop(file.into_parts());
        }
        self.trouble = Some(Trouble { file: self.path.display().to_string(), why: why.to_string() });
    }
}

impl Watcher for EventLog {
    fn event(&mut self, run: &Run, seq: u64, at: Timestamp, event: &Event) {
        self.add(run, seq, at, event);
    }

    fn batch_ended(&mut self, _run: &Run) {}

    fn rested(&mut self, _run: &Run) {
        if let Some(Err(error)) = self.file.as_mut().map(Write::flush) {
            self.give_up(&error);
        }
    }

    fn trouble(&mut self) -> Option<Trouble> {
        self.trouble.take()
    }
}

/// The number of the last whole line and the bytes up to its end, from the file's tail alone, so that opening costs the
/// same however long the log is; nothing if the tail does not say.
fn last_line(file: &File) -> std::io::Result<Option<(u64, u64)>> {
    let length = file.metadata()?.len();
    let start = length.saturating_sub(LOG_TAIL_BYTES);
    let mut tail = vec![0; (length - start) as usize];
    file.read_exact_at(&mut tail, start)?;
    let newlines = || tail.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
    let (Some(end), Some(before)) = (newlines().next(), newlines().nth(1)) else { return Ok(None) };
    Ok(seq_of(&tail[before + 1..=end]).map(|seq| (seq, start + end as u64 + 1)))
}

/// The same, from the beginning.
fn sound_part(file: File) -> std::io::Result<(u64, u64)> {
    let mut reader = BufReader::new(file);
    let (mut last_seq, mut sound_bytes) = (0, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line)?;
        let seq = line.ends_with(b"\n").then(|| seq_of(&line)).flatten();
        match seq {
            Some(seq) => {
                last_seq = seq;
                sound_bytes += read as u64;
            }
            None => return Ok((last_seq, sound_bytes)),
        }
    }
}

fn seq_of(line: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: u64,
    }
    serde_json::from_slice::<Numbered>(line).ok().map(|line| line.seq)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_half_written_line_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("events.jsonl");
        let long = format!("{{\"seq\":1,\"text\":\"{}\"}}\n", "x".repeat(LOG_TAIL_BYTES as usize));
        let short = "{\"seq\":1}\n".to_owned();
        for (sound, torn, last_seq) in [
            (short.clone() + "{\"seq\":2}\n", "{\"se", 2),
            (short.clone(), "", 1),
            (String::new(), "{\"seq\":1}", 0),
            (short.clone(), "not JSON\n", 1),
            (short + &long, "", 1),
            (long.clone() + "{\"seq\":2}\n{\"seq\":3}\n", "{", 3),
            (long, "{\"seq\":2", 1),
        ] {
            std::fs::write(&path, format!("{sound}{torn}")).unwrap();
            let log = EventLog::open(&path).unwrap();
            assert_eq!(log.last_seq, last_seq);
            drop(log);
            assert!(std::fs::read_to_string(&path).unwrap() == sound, "{torn}");
        }
    }
}
