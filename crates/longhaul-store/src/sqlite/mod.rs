//! The fallback: all journals in one SQLite file, for when the engine's directory cannot be used. Owns
//! `fallback.db`; keeps the same promises as the engine, one commit with a full sync for each batch.
//!
//! A file lock needs a file for each run, which is what could not be made, so the writer is a row here: generation,
//! process, the process's start, host. A writer whose process is gone is replaced at once, and each append checks its
//! generation inside its own transaction. A process of another host cannot be looked at, so its claim stands.

mod journal;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::time::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params};

use self::journal::{SqliteJournal, SqliteReader, insert, show};
use crate::engine::{Access, check_blob, check_blob_size, check_command_size, hash_of, open_file};
use crate::error::Error;
use crate::journal::{Backend, Entry, Footprint, Holder, Journal, Posted, Reader, Store, Visit, Writer};
use crate::memory::check_batch_size;
use crate::{limits, process};

const VERSION: u32 = 1;

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS runs (
        run TEXT PRIMARY KEY, generation INTEGER NOT NULL, held INTEGER NOT NULL, pid INTEGER NOT NULL,
        pid_start INTEGER, host TEXT NOT NULL, since INTEGER NOT NULL
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS records (
        run TEXT NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, kind INTEGER NOT NULL,
        version INTEGER NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (run, seq)
    );
    CREATE TABLE IF NOT EXISTS inbox (
        place INTEGER PRIMARY KEY AUTOINCREMENT, run TEXT NOT NULL, id TEXT NOT NULL, body BLOB NOT NULL,
        UNIQUE (run, id)
    );
    CREATE TABLE IF NOT EXISTS blobs (
        run TEXT NOT NULL, hash TEXT NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (run, hash)
    );
    PRAGMA user_version = 1;
";

pub struct Sqlite {
    path: PathBuf,
    connection: Mutex<Connection>,
}

impl Sqlite {
    /// Opens the database, making it if it is not there.
    pub fn open(path: &Path) -> Result<Sqlite, Error> {
        // Made by us first, so that SQLite does not make it readable for everybody; its other files follow it.
        match open_file(path, Access::CreateNew) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(Error::io("create", path, error));
            }
            Ok(_) | Err(_) => {}
        }
        let connection = connect(path)?;
        Ok(Sqlite { path: path.to_owned(), connection: Mutex::new(connection) })
    }

    pub fn contains(&self, run: &RunId) -> Result<bool, Error> {
        self.call(|connection| Ok(row(connection, run)?.is_some()))
    }

    /// The hashes of a run's blobs.
    pub(crate) fn blob_hashes(&self, run: &RunId) -> Result<Vec<String>, Error> {
        self.call(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT hash FROM blobs WHERE run = ?1 ORDER BY hash")?;
            statement.query_map([run.as_str()], |row| row.get(0))?.collect()
        })
    }

    /// Forgets a run that now lives elsewhere, unless its inbox holds a command that is not in `moved`.
    pub(crate) fn retire(&self, run: &RunId, moved: &[Posted]) -> Result<bool, Error> {
        self.change(|transaction| {
            let pending = pending(transaction, run)?;
            let all_moved = pending.iter().all(|posted| moved.contains(posted));
            if all_moved {
                forget(transaction, run)?;
            }
            Ok(all_moved)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        act(&self.lock()).map_err(|error| sqlite_error(&self.path, error))
    }

    /// One transaction that took the write lock at its start, so that what it reads is what it changes.
    fn change<T>(&self, act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, Error> {
        let mut connection = self.lock();
        change(&mut connection, act).map_err(|error| sqlite_error(&self.path, error))
    }

    /// Checks that the run is there, then acts, in one transaction.
    fn change_run<T>(
        &self,
        run: &RunId,
        act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let found = self.change(|transaction| match row(transaction, run)? {
            Some(_) => act(transaction).map(Some),
            None => Ok(None),
        })?;
        found.ok_or_else(|| Error::NotFound { run: run.clone() })
    }

    fn journal(&self, run: &RunId, generation: u64, last_seq: u64) -> Result<SqliteJournal, Error> {
        let connection = connect(&self.path)?;
        let (run, path) = (run.clone(), self.path.clone());
        Ok(SqliteJournal { connection, path, run, generation, last_seq, poisoned: false })
    }
}

impl Store for Sqlite {
    fn backend(&self) -> Backend {
        Backend::Sqlite
    }

    fn create(&self, run: &RunId, writer: &Writer, first: &[Entry]) -> Result<Box<dyn Journal>, Error> {
        if first.is_empty() {
            return Err(Error::NoFirstEvent { run: run.clone() });
        }
        check_batch_size(first)?;
        let created = self.change(|transaction| {
            if row(transaction, run)?.is_some() {
                return Ok(false);
            }
            claim(transaction, run, writer, 1)?;
            insert(transaction, run, 0, first)?;
            Ok(true)
        })?;
        if !created {
            return Err(Error::Exists { run: run.clone() });
        }
        Ok(Box::new(self.journal(run, 1, first.len() as u64)?))
    }

    fn open(&self, run: &RunId, writer: &Writer, visit: Visit<'_>) -> Result<Box<dyn Journal>, Error> {
        let taken = self.change_run(run, |transaction| {
            let Some(found) = row(transaction, run)? else { return Ok(Err(None)) };
            let generation = found.generation.saturating_add(1);
            if let Some(holder) = found.living_holder() {
                return Ok(Err(Some(holder)));
            }
            claim(transaction, run, writer, generation)?;
            Ok(Ok(generation))
        })?;
        let generation = taken.map_err(|holder| match holder {
            Some(holder) => Error::Held { run: run.clone(), holder },
            None => Error::NotFound { run: run.clone() },
        })?;
        let mut journal = self.journal(run, generation, 0)?;
        journal.last_seq = show(&journal.connection, &self.path, run, 0, visit)?;
        if journal.last_seq == 0 {
            let what = format!("the first batch of run `{run}` is missing");
            return Err(Error::Damaged { file: self.path.clone(), offset: 0, what });
        }
        Ok(Box::new(journal))
    }

    fn reader(&self, run: &RunId) -> Result<Box<dyn Reader>, Error> {
        if !self.contains(run)? {
            return Err(Error::NotFound { run: run.clone() });
        }
        let (connection, path) = (connect(&self.path)?, self.path.clone());
        Ok(Box::new(SqliteReader { connection, path, run: run.clone(), shown: 0 }))
    }

    fn runs(&self) -> Result<Vec<RunId>, Error> {
        let names: Vec<String> = self.call(|connection| {
            let mut statement = connection.prepare_cached("SELECT run FROM runs ORDER BY run")?;
            statement.query_map([], |row| row.get(0))?.collect()
        })?;
        Ok(names.iter().filter_map(|name| RunId::parse(name).ok()).collect())
    }

    fn remove(&self, run: &RunId) -> Result<(), Error> {
        let holder = self.change_run(run, |transaction| {
            let holder = row(transaction, run)?.and_then(|row| row.living_holder());
            if holder.is_none() {
                forget(transaction, run)?;
            }
            Ok(holder)
        })?;
        holder.map_or(Ok(()), |holder| Err(Error::Held { run: run.clone(), holder }))
    }

    fn holder(&self, run: &RunId) -> Result<Option<Holder>, Error> {
        let found = self.call(|connection| row(connection, run))?;
        Ok(found.ok_or_else(|| Error::NotFound { run: run.clone() })?.living_holder())
    }

    fn post(&self, run: &RunId, command: &CommandId, body: &[u8]) -> Result<(), Error> {
        check_command_size(body)?;
        let fits = self.change_run(run, |transaction| {
            let waiting: usize = transaction.query_row(
                "SELECT count(*) FROM inbox WHERE run = ?1",
                [run.as_str()],
                |row| row.get(0),
            )?;
            if waiting >= limits::COMMANDS_PENDING_MAX {
                return Ok(false);
            }
            transaction
                .prepare_cached("INSERT OR IGNORE INTO inbox (run, id, body) VALUES (?1, ?2, ?3)")?
                .execute(params![run.as_str(), command.as_str(), body])?;
            Ok(true)
        })?;
        let max = limits::COMMANDS_PENDING_MAX;
        if fits { Ok(()) } else { Err(Error::InboxFull { run: run.clone(), max }) }
    }

    fn pending(&self, run: &RunId) -> Result<Vec<Posted>, Error> {
        let found = self.call(|connection| match row(connection, run)? {
            Some(_) => pending(connection, run).map(Some),
            None => Ok(None),
        })?;
        found.ok_or_else(|| Error::NotFound { run: run.clone() })
    }

    fn settle(&self, run: &RunId, command: &CommandId) -> Result<(), Error> {
        self.change_run(run, |transaction| {
            let mut statement = transaction.prepare_cached("DELETE FROM inbox WHERE run = ?1 AND id = ?2")?;
            statement.execute([run.as_str(), command.as_str()]).map(|_| ())
        })
    }

    fn put_blob(&self, run: &RunId, bytes: &[u8]) -> Result<String, Error> {
        check_blob_size(bytes)?;
        let hash = hash_of(bytes);
        self.change_run(run, |transaction| {
            transaction
                .prepare_cached("INSERT OR REPLACE INTO blobs (run, hash, bytes) VALUES (?1, ?2, ?3)")?
                .execute(params![run.as_str(), hash, bytes])
        })?;
        Ok(hash)
    }

    fn blob(&self, run: &RunId, hash: &str) -> Result<Vec<u8>, Error> {
        if !self.contains(run)? {
            return Err(Error::NotFound { run: run.clone() });
        }
        let found: Option<Vec<u8>> = self.call(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT bytes FROM blobs WHERE run = ?1 AND hash = ?2")?;
            statement.query_row([run.as_str(), hash], |row| row.get(0)).optional()
        })?;
        let missing = || Error::BlobMissing { run: run.clone(), hash: hash.chars().take(64).collect() };
        check_blob(run, hash, found.ok_or_else(missing)?)
    }

    fn footprint(&self, run: &RunId) -> Result<Footprint, Error> {
        let sum = |connection: &Connection, sql: &str| -> rusqlite::Result<u64> {
            connection.prepare_cached(sql)?.query_row([run.as_str()], |row| row.get(0))
        };
        let found = self.call(|connection| {
            if row(connection, run)?.is_none() {
                return Ok(None);
            }
            let records = sum(connection, "SELECT count(*) FROM records WHERE run = ?1")?;
            let payload = "SELECT coalesce(sum(length(payload)), 0) FROM records WHERE run = ?1";
            let payload_bytes = sum(connection, payload)?;
            let blob_bytes =
                sum(connection, "SELECT coalesce(sum(length(bytes)), 0) FROM blobs WHERE run = ?1")?;
            let inbox_bytes =
                sum(connection, "SELECT coalesce(sum(length(body)), 0) FROM inbox WHERE run = ?1")?;
            let journal_bytes = payload_bytes + records * RECORD_BYTES;
            let disk_bytes = journal_bytes + blob_bytes + inbox_bytes;
            Ok(Some(Footprint { journal_bytes, payload_bytes, records, blob_bytes, disk_bytes }))
        })?;
        found.ok_or_else(|| Error::NotFound { run: run.clone() })
    }
}

/// What a row costs besides its payload: the run's name twice (table and key) and five numbers, about.
const RECORD_BYTES: u64 = 90;

/// A run's row: its last writer, who may be gone.
struct Row {
    generation: u64,
    held: bool,
    pid: u32,
    pid_start: Option<u64>,
    host: String,
    since: Timestamp,
}

impl Row {
    fn living_holder(self) -> Option<Holder> {
        let elsewhere = self.host != process::host();
        let alive = elsewhere || (self.pid_start.is_some() && process::started(self.pid) == self.pid_start);
        let Row { generation, held, pid, host, since, .. } = self;
        (held && alive).then_some(Holder { pid, host, since, generation })
    }
}

fn row(connection: &Connection, run: &RunId) -> rusqlite::Result<Option<Row>> {
    let sql = "SELECT generation, held, pid, pid_start, host, since FROM runs WHERE run = ?1";
    let mut statement = connection.prepare_cached(sql)?;
    let found = statement.query_row([run.as_str()], |row| {
        Ok(Row {
            generation: row.get(0)?,
            held: row.get(1)?,
            pid: row.get(2)?,
            pid_start: row.get(3)?,
            host: row.get(4)?,
            since: Timestamp::from_millis(row.get(5)?),
        })
    });
    found.optional()
}

fn claim(
    transaction: &Transaction<'_>,
    run: &RunId,
    writer: &Writer,
    generation: u64,
) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO runs (run, generation, held, pid, pid_start, host, since)
               VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6)";
    let start = process::started(writer.pid);
    let since = writer.at.as_millis();
    let values = params![run.as_str(), generation, writer.pid, start, writer.host, since];
    transaction.prepare_cached(sql)?.execute(values).map(|_| ())
}

fn pending(connection: &Connection, run: &RunId) -> rusqlite::Result<Vec<Posted>> {
    let mut statement =
        connection.prepare_cached("SELECT id, body FROM inbox WHERE run = ?1 ORDER BY place")?;
    let rows = statement.query_map([run.as_str()], |row| {
        let id: String = row.get(0)?;
        Ok((CommandId::parse(&id).ok(), row.get(1)?))
    })?;
    let posted = |(id, body): (Option<CommandId>, Vec<u8>)| id.map(|id| Posted { id, body });
    rows.map(|row| row.map(posted)).filter_map(Result::transpose).collect()
}

fn forget(transaction: &Transaction<'_>, run: &RunId) -> rusqlite::Result<()> {
    for sql in [
        "DELETE FROM records WHERE run = ?1",
        "DELETE FROM inbox WHERE run = ?1",
        "DELETE FROM blobs WHERE run = ?1",
        "DELETE FROM runs WHERE run = ?1",
    ] {
        transaction.execute(sql, [run.as_str()])?;
    }
    Ok(())
}

fn change<T>(
    connection: &mut Connection,
    act: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<T> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let result = act(&transaction)?;
    transaction.commit()?;
    Ok(result)
}

fn connect(path: &Path) -> Result<Connection, Error> {
    let failed = |error| sqlite_error(path, error);
    let connection = Connection::open(path).map_err(failed)?;
    let prepare = || -> rusqlite::Result<u32> {
        connection.busy_timeout(limits::SQLITE_WAIT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // With less, the commits of the last moments before a power cut are lost.
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.query_row("PRAGMA user_version", [], |row| row.get(0))
    };
    match prepare().map_err(failed)? {
        0 => connection.execute_batch(&format!("BEGIN IMMEDIATE; {TABLES} COMMIT;")).map_err(failed)?,
        VERSION => {}
        version => return Err(Error::TooNew { file: path.to_owned(), version }),
    }
    Ok(connection)
}

/// A full disk is told apart, and so is a file that is no database: those have cures of their own.
fn sqlite_error(path: &Path, error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => {
            Error::NoSpace { file: path.to_owned(), source: std::io::Error::other(error) }
        }
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            Error::Damaged { file: path.to_owned(), offset: 0, what: error.to_string() }
        }
        _ => Error::Sqlite { path: path.to_owned(), source: error },
    }
}
