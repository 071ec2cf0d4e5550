//! What the disk itself takes: a bare loop that appends the same bytes and syncs, to a file that grows and to one that
//! was filled with zeros before; and SQLite, with a full sync for each commit, for comparison.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Instant, SystemTime};

use longhaul_core::ids::RunId;
use longhaul_core::time::Timestamp;
use longhaul_store::{Entry, Journal, Sqlite, Store, Writer};

use super::stats::micros;
use crate::failure::Failure;

const ZEROS: &[u8] = &[0; 64 * 1024];

/// A bare file, written in order and synced after each write.
pub struct Probe {
    file: File,
    offset: u64,
    bytes: Vec<u8>,
}

impl Probe {
    /// A file that grows with each append of `bytes`.
    pub fn growing(path: &Path, bytes: usize) -> io::Result<Probe> {
        let file = OpenOptions::new().create_new(true).write(true).open(path)?;
        Ok(Probe { file, offset: 0, bytes: vec![0xA7; bytes] })
    }

    /// A file with room for that many appends, already written and synced.
    pub fn preallocated(path: &Path, bytes: usize, appends: usize) -> io::Result<Probe> {
        let probe = Probe::growing(path, bytes)?;
        let end = (bytes * appends) as u64;
        let mut offset = 0;
        while offset < end {
            probe.file.write_all_at(ZEROS, offset)?;
            offset += ZEROS.len() as u64;
        }
        probe.file.sync_all()?;
        Ok(probe)
    }

    /// Appends that often; how long each took, in microseconds.
    pub fn run(&mut self, appends: usize) -> io::Result<Vec<f64>> {
        let mut times = Vec::with_capacity(appends);
        for _ in 0..appends {
            let started = Instant::now();
            self.file.write_all_at(&self.bytes, self.offset)?;
            self.file.sync_data()?;
            self.offset += self.bytes.len() as u64;
            times.push(micros(started.elapsed()));
        }
        Ok(times)
    }
}

/// The same payload as one commit of SQLite in WAL mode with `synchronous = FULL`.
pub struct SqliteProbe {
    journal: Box<dyn Journal>,
    entry: Entry,
}

impl SqliteProbe {
    pub fn new(path: &Path, bytes: usize) -> Result<SqliteProbe, Failure> {
        let entry = Entry { at: Timestamp::default(), kind: 0, version: 1, payload: vec![0xA7; bytes] };
        let writer =
            Writer { pid: std::process::id(), host: longhaul_store::host(), at: Timestamp::default() };
        let run = RunId::from_bits(SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_nanos()));
        let journal = Sqlite::open(path)?.create(&run, &writer, std::slice::from_ref(&entry))?;
        Ok(SqliteProbe { journal, entry })
    }

    pub fn run(&mut self, commits: usize) -> Result<Vec<f64>, Failure> {
        let mut times = Vec::with_capacity(commits);
        for _ in 0..commits {
            let started = Instant::now();
            self.journal.append(std::slice::from_ref(&self.entry))?;
            times.push(micros(started.elapsed()));
        }
        Ok(times)
    }
}
