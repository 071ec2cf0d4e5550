//! The writer and the reader of one run in the fallback. Each has its own connection, so that neither waits for the
//! other; what a reader sees was committed, and a commit is synced before it is seen.

use std::path::{Path, PathBuf};

use longhaul_core::ids::RunId;
use longhaul_core::time::Timestamp;
use rusqlite::{Connection, ErrorCode, Row, params};

use super::{change, row, sqlite_error};
use crate::error::Error;
use crate::journal::{Ack, Entry, Journal, Reader, Record, Space, Visit};
use crate::memory::check_batch_size;

pub(super) struct SqliteJournal {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) run: RunId,
    pub(super) generation: u64,
    pub(super) last_seq: u64,
    pub(super) poisoned: bool,
}

impl Journal for SqliteJournal {
    fn append(&mut self, batch: &[Entry]) -> Result<Ack, Error> {
        if self.poisoned {
            return Err(Error::Poisoned { run: self.run.clone() });
        }
        check_batch_size(batch)?;
        let (run, generation, last_seq) = (&self.run, self.generation, self.last_seq);
        let ours = change(&mut self.connection, |transaction| {
            let ours = row(transaction, run)?.is_some_and(|row| row.generation == generation);
            if ours {
                insert(transaction, run, last_seq, batch)?;
            }
            Ok(ours)
        });
        match ours {
            Ok(true) => {
                self.last_seq += batch.len() as u64;
                Ok(Ack { last_seq: self.last_seq, space: Space::Ample })
            }
            Ok(false) => {
                self.poisoned = true;
                Err(Error::Fenced { run: self.run.clone(), generation })
            }
            Err(error) => {
                // A full disk rolled the transaction back whole; after anything else only a reopening can tell.
                self.poisoned = error.sqlite_error_code() != Some(ErrorCode::DiskFull);
                Err(sqlite_error(&self.path, error))
            }
        }
    }

    fn last_seq(&self) -> u64 {
        self.last_seq
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        self.free().map_err(|error| sqlite_error(&self.path, error))
    }
}

impl SqliteJournal {
    fn free(&self) -> rusqlite::Result<()> {
        let sql = "UPDATE runs SET held = 0 WHERE run = ?1 AND generation = ?2 AND held = 1";
        self.connection.execute(sql, params![self.run.as_str(), self.generation]).map(|_| ())
    }
}

impl Drop for SqliteJournal {
    fn drop(&mut self) {
        // If this fails the row names this process, and whoever finds it dead takes over.
        let _ = self.free();
    }
}

pub(super) struct SqliteReader {
    pub(super) connection: Connection,
    pub(super) path: PathBuf,
    pub(super) run: RunId,
    pub(super) shown: u64,
}

impl Reader for SqliteReader {
    fn poll(&mut self, visit: Visit<'_>) -> Result<(), Error> {
        self.shown = show(&self.connection, &self.path, &self.run, self.shown, visit)?;
        Ok(())
    }
}

pub(super) fn insert(
    connection: &Connection,
    run: &RunId,
    last_seq: u64,
    batch: &[Entry],
) -> rusqlite::Result<()> {
    let sql = "INSERT INTO records (run, seq, at, kind, version, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    let mut statement = connection.prepare_cached(sql)?;
    for (seq, entry) in (last_seq + 1..).zip(batch) {
        let at = entry.at.as_millis();
        statement.execute(params![run.as_str(), seq, at, entry.kind, entry.version, entry.payload])?;
    }
    Ok(())
}

/// Shows the records after `shown` and returns the number of the last one. A gap is damage.
pub(super) fn show(
    connection: &Connection,
    path: &Path,
    run: &RunId,
    shown: u64,
    visit: Visit<'_>,
) -> Result<u64, Error> {
    let failed = |error| sqlite_error(path, error);
    let sql = "SELECT seq, at, kind, version, payload FROM records WHERE run = ?1 AND seq > ?2 ORDER BY seq";
    let mut statement = connection.prepare_cached(sql).map_err(failed)?;
    let mut rows = statement.query(params![run.as_str(), shown]).map_err(failed)?;
    let mut last_seq = shown;
    while let Some(row) = rows.next().map_err(failed)? {
        let record = record(row).map_err(failed)?;
        if record.seq != last_seq + 1 {
            let what = format!("event {} of run `{run}` is missing", last_seq + 1);
            return Err(Error::Damaged { file: path.to_owned(), offset: 0, what });
        }
        last_seq = record.seq;
        visit(record)?;
    }
    Ok(last_seq)
}

fn record<'a>(row: &'a Row<'_>) -> rusqlite::Result<Record<'a>> {
    Ok(Record {
        seq: row.get(0)?,
        at: Timestamp::from_millis(row.get(1)?),
        kind: row.get(2)?,
        version: row.get(3)?,
        payload: row.get_ref(4)?.as_blob()?,
    })
}
