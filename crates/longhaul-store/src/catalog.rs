//! The index over all runs. Owns `catalog.db`, which is derived: deleting it loses nothing, so it is never synced and
//! a file that cannot be used is moved away and made anew. Answers lists; knows no event and no journal.

use std::borrow::Borrow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::RunId;
use longhaul_core::status::{Status, Wait};
use longhaul_core::time::Timestamp;
use rusqlite::types::Type;
use rusqlite::{
    Connection, OptionalExtension, Row, Statement, TransactionBehavior, params, params_from_iter,
};
use rustix::fs::{FlockOperation, flock};

use crate::engine::{Access, open_file};
use crate::error::Error;
use crate::journal::Backend;
use crate::limits;
use crate::query::{self, Answer};

/// Changing the columns, or what is counted in one, is a new version; the old file is then moved away and the rows derived again.
const VERSION: u32 = 4;

const TABLES: &str = "
    CREATE TABLE runs (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, agent TEXT NOT NULL, task TEXT NOT NULL, task_id TEXT,
        status TEXT NOT NULL, wait TEXT NOT NULL, reason TEXT, steps_total INTEGER NOT NULL,
        steps_completed INTEGER NOT NULL, current_step INTEGER, tool_calls INTEGER NOT NULL,
        sub_agents INTEGER NOT NULL, parent TEXT, depth INTEGER NOT NULL, created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL, completed_at INTEGER, last_checkpoint_at INTEGER, error TEXT, session TEXT,
        workspace TEXT, backend TEXT NOT NULL, last_seq INTEGER NOT NULL, journal_mtime_ns INTEGER NOT NULL,
        gates TEXT, iteration_count INTEGER NOT NULL DEFAULT 0, max_iterations INTEGER DEFAULT 10,
        completion_promise TEXT
    );
    CREATE INDEX runs_by_status ON runs (status, created_at);
    CREATE INDEX runs_by_agent ON runs (agent, created_at);
    CREATE INDEX runs_by_parent ON runs (parent, created_at);
    CREATE INDEX runs_by_age ON runs (created_at);
    CREATE INDEX runs_that_wait ON runs (created_at) WHERE gates IS NOT NULL;
    PRAGMA user_version = 4;
";

const COLUMNS: &str = "id, kind, agent, task, task_id, status, wait, reason, steps_total, steps_completed, \
    current_step, tool_calls, sub_agents, parent, depth, created_at, updated_at, completed_at, last_checkpoint_at, \
    error, session, workspace, backend, last_seq, journal_mtime_ns, gates, iteration_count, max_iterations, \
    completion_promise";

pub struct Catalog {
    path: PathBuf,
    connection: Mutex<Connection>,
}

/// One run as lists show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    pub id: RunId,
    pub kind: String,
    pub agent: String,
    pub task: String,
    pub task_id: Option<String>,
    pub status: Status,
    pub wait: Wait,
    pub reason: Option<String>,
    pub steps_total: u32,
    pub steps_completed: u32,
    pub current_step: Option<u32>,
    pub tool_calls: u64,
    pub sub_agents: u32,
    pub parent: Option<RunId>,
    pub depth: u32,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
    pub completed_at: Option<Timestamp>,
    pub last_checkpoint_at: Option<Timestamp>,
    pub error: Option<String>,
    pub session: Option<String>,
    pub workspace: Option<String>,
    pub backend: Backend,
    /// The last event this row was derived from, and the journal's change time then: how fresh the row is.
    pub last_seq: u64,
    pub journal_mtime_ns: i64,
    /// What of it waits for a person, as a JSON list; `None` if nothing does.
    pub gates: Option<String>,
    /// Iterations that a loop has begun; 0 if it is none.
    pub iteration_count: u32,
    /// The most a loop may begin, and what its agent says when the work is done; `None` if it is none.
    pub max_iterations: Option<u32>,
    pub completion_promise: Option<String>,
}

/// Which runs to list; all given conditions must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub status: Option<Status>,
    pub agent: Option<String>,
    pub parent: Option<RunId>,
    /// Only those of which something waits for a person.
    pub waiting: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Freshness {
    pub id: RunId,
    pub last_seq: u64,
    pub journal_mtime_ns: i64,
}

impl Catalog {
    /// Opens the catalogue; one that is damaged or of another version is moved away and made anew, empty.
    pub fn open(path: &Path) -> Result<Catalog, Error> {
        let connection = match connect(path) {
            Ok(connection) => connection,
            Err(error) if is_unusable(&error) => renew(path)?,
            Err(error) => return Err(error),
        };
        Ok(Catalog { path: path.to_owned(), connection: Mutex::new(connection) })
    }

    /// Puts a run's row in place of the one it had, if any. An older row never replaces a newer one.
    pub fn upsert(&self, row: &RunRow) -> Result<(), Error> {
        self.call(|connection| insert(connection, [row]))
    }

    /// The same for many runs, at the price of one: all are written or none.
    pub fn upsert_all<'a>(&self, rows: impl IntoIterator<Item = &'a RunRow>) -> Result<(), Error> {
        self.change(|transaction| insert(transaction, rows))
    }

    /// Puts a run's row in place of the one it had, whichever is newer, at once: nobody sees the run without a row.
    pub fn replace(&self, row: &RunRow) -> Result<(), Error> {
        self.change(|transaction| {
            transaction.execute("DELETE FROM runs WHERE id = ?1", [row.id.as_str()])?;
            insert(transaction, [row])
        })
    }

    /// Changes nothing, and fails where a change would.
    pub fn check_writable(&self) -> Result<(), Error> {
        self.call(|connection| connection.execute_batch("BEGIN IMMEDIATE; ROLLBACK"))
    }

    pub fn remove(&self, id: &RunId) -> Result<(), Error> {
        self.call(|connection| {
            connection.execute("DELETE FROM runs WHERE id = ?1", [id.as_str()]).map(|_| ())
        })
    }

    pub fn get(&self, id: &RunId) -> Result<Option<RunRow>, Error> {
        self.call(|connection| {
            let mut statement =
                connection.prepare_cached(&format!("SELECT {COLUMNS} FROM runs WHERE id = ?1"))?;
            statement.query_row([id.as_str()], read).optional()
        })
    }

    /// Newest first.
    pub fn list(&self, filter: &Filter) -> Result<Vec<RunRow>, Error> {
        let (sql, values) = select(filter);
        let mut rows: Vec<RunRow> = self.call(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            statement.query_map(params_from_iter(values), read)?.collect()
        })?;
        // SQLite would look up each row by the index of their age, one after the other, and then sort all the same.
        rows.sort_by(|left, right| (right.created_at, &right.id).cmp(&(left.created_at, &left.id)));
        Ok(rows)
    }

    /// Answers a query that a person typed. It can only read, and only here.
    pub fn query(&self, sql: &str) -> Result<Answer, Error> {
        query::query(&self.path, sql)
    }

    pub fn ids_with_freshness(&self) -> Result<Vec<Freshness>, Error> {
        self.call(|connection| {
            let sql = "SELECT id, last_seq, journal_mtime_ns FROM runs ORDER BY id";
            let mut statement = connection.prepare_cached(sql)?;
            let freshness = |row: &Row<'_>| {
                Ok(Freshness { id: run_id(row, 0)?, last_seq: row.get(1)?, journal_mtime_ns: row.get(2)? })
            };
            statement.query_map([], freshness)?.collect()
        })
    }

    /// Puts these rows in place of all there were, at once: others see the old ones or the new ones.
    pub fn replace_all(&self, rows: impl IntoIterator<Item = RunRow>) -> Result<(), Error> {
        self.change(|transaction| {
            transaction.execute("DELETE FROM runs", [])?;
            insert(transaction, rows)
        })
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<()>) -> Result<(), Error> {
        let mut connection = self.lock();
        let change = || -> rusqlite::Result<()> {
            let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            act(&transaction)?;
            transaction.commit()
        };
        change().map_err(|source| Error::Sqlite { path: self.path.clone(), source })
    }

    fn call<T>(&self, act: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Error> {
        act(&self.lock()).map_err(|source| Error::Sqlite { path: self.path.clone(), source })
    }
}

fn select(filter: &Filter) -> (String, Vec<String>) {
    let conditions = [
        ("status", filter.status.map(|status| status.as_str().to_owned())),
        ("agent", filter.agent.clone()),
        ("parent", filter.parent.as_ref().map(ToString::to_string)),
    ];
    let mut sql = format!("SELECT {COLUMNS} FROM runs");
    let mut values = Vec::new();
    for (column, value) in conditions {
        if let Some(value) = value {
            let joint = if values.is_empty() { "WHERE" } else { "AND" };
            sql.push_str(&format!(" {joint} {column} = ?"));
            values.push(value);
        }
    }
    if filter.waiting {
        let joint = if values.is_empty() { "WHERE" } else { "AND" };
        sql.push_str(&format!(" {joint} gates IS NOT NULL"));
    }
    (sql, values)
}

fn insert<R: Borrow<RunRow>>(
    connection: &Connection,
    rows: impl IntoIterator<Item = R>,
) -> rusqlite::Result<()> {
    let marks = vec!["?"; COLUMNS.split(',').count()].join(", ");
    let sql = format!(
        "INSERT OR REPLACE INTO runs ({COLUMNS}) SELECT {marks}
         WHERE NOT EXISTS (SELECT 1 FROM runs WHERE id = ?1 AND last_seq > ?24)"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    rows.into_iter().try_for_each(|row| insert_one(&mut statement, row.borrow()))
}

fn insert_one(statement: &mut Statement<'_>, row: &RunRow) -> rusqlite::Result<()> {
    let millis = |moment: Option<Timestamp>| moment.map(Timestamp::as_millis);
    statement.execute(params![
        row.id.as_str(),
        row.kind,
        row.agent,
        row.task,
        row.task_id,
        row.status.as_str(),
        row.wait.as_str(),
        row.reason,
        row.steps_total,
        row.steps_completed,
        row.current_step,
        row.tool_calls,
        row.sub_agents,
        row.parent.as_ref().map(RunId::as_str),
        row.depth,
        row.created_at.as_millis(),
        row.updated_at.as_millis(),
        millis(row.completed_at),
        millis(row.last_checkpoint_at),
        row.error,
        row.session,
        row.workspace,
        row.backend.as_str(),
        row.last_seq,
        row.journal_mtime_ns,
        row.gates,
        row.iteration_count,
        row.max_iterations,
        row.completion_promise,
    ])?;
    Ok(())
}

fn read(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    let moment =
        |index| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(index)?.map(Timestamp::from_millis));
    Ok(RunRow {
        id: run_id(row, 0)?,
        kind: row.get(1)?,
        agent: row.get(2)?,
        task: row.get(3)?,
        task_id: row.get(4)?,
        status: word(row, 5, Status::parse)?,
        wait: word(row, 6, wait)?,
        reason: row.get(7)?,
        steps_total: row.get(8)?,
        steps_completed: row.get(9)?,
        current_step: row.get(10)?,
        tool_calls: row.get(11)?,
        sub_agents: row.get(12)?,
        parent: row.get::<_, Option<String>>(13)?.and_then(|id| RunId::parse(&id).ok()),
        depth: row.get(14)?,
        created_at: Timestamp::from_millis(row.get(15)?),
        updated_at: Timestamp::from_millis(row.get(16)?),
        completed_at: moment(17)?,
        last_checkpoint_at: moment(18)?,
        error: row.get(19)?,
        session: row.get(20)?,
        workspace: row.get(21)?,
        backend: word(row, 22, backend)?,
        last_seq: row.get(23)?,
        journal_mtime_ns: row.get(24)?,
        gates: row.get(25)?,
        iteration_count: row.get(26)?,
        max_iterations: row.get(27)?,
        completion_promise: row.get(28)?,
    })
}

fn run_id(row: &Row<'_>, index: usize) -> rusqlite::Result<RunId> {
    word(row, index, |text| RunId::parse(text).ok())
}

fn word<T>(row: &Row<'_>, index: usize, parse: impl Fn(&str) -> Option<T>) -> rusqlite::Result<T> {
    let text = row.get_ref(index)?.as_str()?;
    let unknown = || format!("`{text}` is not a word this program knows").into();
    parse(text).ok_or_else(|| rusqlite::Error::FromSqlConversionFailure(index, Type::Text, unknown()))
}

fn wait(text: &str) -> Option<Wait> {
    let all = [Wait::None, Wait::Human, Wait::Timer, Wait::RateLimit, Wait::Frozen, Wait::Child];
    all.into_iter().find(|wait| wait.as_str() == text)
}

fn backend(text: &str) -> Option<Backend> {
    let all = [Backend::Engine, Backend::Sqlite, Backend::Memory];
    all.into_iter().find(|backend| backend.as_str() == text)
}

fn connect(path: &Path) -> Result<Connection, Error> {
    // Made by us first, so that SQLite does not make it readable for everybody; its other files follow it.
    match open_file(path, Access::CreateNew) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::io("create", path, error));
        }
        Ok(_) | Err(_) => {}
    }
    let failed = |source| Error::Sqlite { path: path.to_owned(), source };
    let connection = Connection::open(path).map_err(failed)?;
    let version =
        |connection: &Connection| connection.query_row("PRAGMA user_version", [], |row| row.get::<_, u32>(0));
    let prepare = || -> rusqlite::Result<u32> {
        connection.busy_timeout(limits::SQLITE_WAIT)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        // A power cut may lose or spoil what is here; it is derived again from the journals then.
        connection.pragma_update(None, "synchronous", "OFF")?;
        if version(&connection)? == 0 {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            // Another process may have made the tables since we asked.
            let made = version(&connection)? != 0;
            connection.execute_batch(if made { "ROLLBACK" } else { TABLES })?;
            if !made {
                connection.execute_batch("COMMIT")?;
            }
        }
        version(&connection)
    };
    match prepare().map_err(failed)? {
        VERSION => {}
        version => return Err(Error::TooNew { file: path.to_owned(), version }),
    }
    // Finds a file whose first page is sound and whose tables are not what the version says.
    connection.prepare_cached(&format!("SELECT {COLUMNS} FROM runs")).map_err(failed)?;
    Ok(connection)
}

/// Is it the file that is wrong, so that a new one helps? A full or failing disk is not mended by moving files.
fn is_unusable(error: &Error) -> bool {
    use rusqlite::ErrorCode as Code;
    let Error::Sqlite { source, .. } = error else { return matches!(error, Error::TooNew { .. }) };
    !matches!(
        source.sqlite_error_code(),
        Some(
            Code::DiskFull
                | Code::SystemIoFailure
                | Code::CannotOpen
                | Code::ReadOnly
                | Code::PermissionDenied
                | Code::OutOfMemory
                | Code::DatabaseBusy
                | Code::DatabaseLocked
        )
    )
}

/// Moves an unusable catalogue away and makes a new one. One process at a time: another may just have done it, and
/// its new one must not be moved away too.
fn renew(path: &Path) -> Result<Connection, Error> {
    let lock_path = path.with_extension("lock");
    let failed = |error| Error::io("renew", path, error);
    let lock = match open_file(&lock_path, Access::CreateNew) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            open_file(&lock_path, Access::Write)
        }
        other => other,
    };
    let lock = lock.map_err(failed)?;
    flock(&lock, FlockOperation::LockExclusive).map_err(|error| failed(error.into()))?;
    if let Ok(connection) = connect(path) {
        return Ok(connection);
    }
    let aside = (1..=limits::ASIDE_MAX).map(|number| path.with_extension(format!("unusable-{number}")));
    let aside = aside.into_iter().find(|aside| !aside.exists());
    let full = || failed(std::io::Error::other("too many unusable catalogues were put aside already"));
    fs::rename(path, aside.ok_or_else(full)?).map_err(failed)?;
    for suffix in ["-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        // They belong to the file that was moved and would spoil the new one.
        match fs::remove_file(&name) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
            Ok(()) | Err(_) => {}
        }
    }
    connect(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(number: u64) -> RunRow {
        let at = Timestamp::from_millis(1_771_581_600_000).plus_millis(number);
        RunRow {
            id: RunId::from_bits(u128::from(number)),
            kind: "task".to_owned(),
            agent: format!("agent-{}", number % 100),
            task: format!("größer {number}"),
            task_id: None,
            status: Status::ALL[number as usize % 5],
            wait: if number.is_multiple_of(2) { Wait::None } else { Wait::RateLimit },
            reason: None,
            steps_total: 3,
            steps_completed: 1,
            current_step: Some(1),
            tool_calls: u64::from(u32::MAX) + number,
            sub_agents: 0,
            parent: (number % 10 == 1).then(|| RunId::from_bits(0)),
            depth: 0,
            created_at: at,
            updated_at: at,
            completed_at: None,
            last_checkpoint_at: Some(at),
            error: Some("it broke".to_owned()),
            session: None,
            workspace: Some("/tmp/w".to_owned()),
            backend: Backend::Engine,
            last_seq: number,
            journal_mtime_ns: -1,
            gates: (number % 3 == 1).then(|| "[]".to_owned()),
            iteration_count: number as u32,
            max_iterations: (number % 2 == 1).then_some(10),
            completion_promise: (number % 2 == 1).then(|| "DONE".to_owned()),
        }
    }

    fn catalog() -> (tempfile::TempDir, Catalog) {
        let dir = tempfile::TempDir::new().unwrap();
        let catalog = Catalog::open(&dir.path().join("catalog.db")).unwrap();
        (dir, catalog)
    }

    #[test]
    fn rows_come_back_as_they_were_put_newest_first() {
        let (_dir, catalog) = catalog();
        (0..20).for_each(|number| catalog.upsert(&row(number)).unwrap());
        let newest_first: Vec<_> = (0..20).rev().map(row).collect();
        assert_eq!(catalog.list(&Filter::default()).unwrap(), newest_first);
        assert_eq!(catalog.get(&row(7).id).unwrap(), Some(row(7)));
        catalog.remove(&row(7).id).unwrap();
        assert_eq!(catalog.get(&row(7).id).unwrap(), None);
        let failed =
            Filter { status: Some(Status::Failed), agent: Some("agent-9".to_owned()), ..Filter::default() };
        assert_eq!(catalog.list(&failed).unwrap(), vec![row(9)]);
        let children = Filter { parent: Some(row(0).id), ..Filter::default() };
        assert_eq!(catalog.list(&children).unwrap(), vec![row(11), row(1)]);
        let fresh = catalog.ids_with_freshness().unwrap();
        let id = row(3).id;
        assert!(fresh.contains(&Freshness { id, last_seq: 3, journal_mtime_ns: -1 }));
    }

    #[test]
    fn an_older_row_does_not_replace_a_newer_one() {
        let (_dir, catalog) = catalog();
        catalog.upsert(&row(5)).unwrap();
        catalog.upsert(&RunRow { last_seq: 4, ..row(5) }).unwrap();
        assert_eq!(catalog.get(&row(5).id).unwrap().unwrap().last_seq, 5);
        catalog.upsert_all(&[RunRow { last_seq: 4, ..row(5) }, row(6)]).unwrap();
        assert_eq!(catalog.list(&Filter::default()).unwrap(), vec![row(6), row(5)]);
    }

    /// A run that is brought up to date is in every list that is made meanwhile.
    #[test]
    fn a_row_is_replaced_at_once() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("catalog");
        let (writing, reading) = (Catalog::open(&path).unwrap(), Catalog::open(&path).unwrap());
        writing.upsert(&row(5)).unwrap();
        let older = RunRow { last_seq: 4, ..row(5) };
        std::thread::scope(|scope| {
            let replaced = scope.spawn(|| (0..1000).try_for_each(|_| writing.replace(&older)));
            while !replaced.is_finished() {
                assert_eq!(reading.list(&Filter::default()).unwrap().len(), 1);
            }
            replaced.join().unwrap().unwrap();
        });
        assert_eq!(reading.get(&row(5).id).unwrap().unwrap().last_seq, 4);
    }

    #[test]
    fn every_filter_has_its_index() {
        let (_dir, catalog) = catalog();
        let all = Filter::default();
        for (filter, index) in [
            (Filter { status: Some(Status::Failed), ..all.clone() }, "runs_by_status"),
            (Filter { agent: Some("a".to_owned()), ..all.clone() }, "runs_by_agent"),
            (Filter { parent: Some(RunId::from_bits(1)), ..all.clone() }, "runs_by_parent"),
            (Filter { waiting: true, ..all }, "runs_that_wait"),
        ] {
            let (sql, values) = select(&filter);
            assert!(plan(&catalog, &sql, &values).contains(index), "{sql}");
        }
        let by_id = plan(&catalog, "SELECT * FROM runs WHERE id = ?", &["x".to_owned()]);
        assert!(by_id.contains("autoindex_runs_1"), "{by_id}");
        let by_age = plan(&catalog, "SELECT * FROM runs ORDER BY created_at DESC LIMIT 10", &[]);
        assert!(by_age.contains("runs_by_age"), "{by_age}");
    }

    fn plan(catalog: &Catalog, sql: &str, values: &[String]) -> String {
        let connection = catalog.lock();
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let lines = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3)).unwrap();
        lines.map(Result::unwrap).collect::<Vec<_>>().join("\n")
    }

    /// F17: a replacement that dies half way leaves the old rows, to this handle and to the next.
    #[test]
    fn replacing_is_all_or_nothing() {
        let (dir, catalog) = catalog();
        catalog.replace_all((0..5).map(row)).unwrap();
        let old = catalog.list(&Filter::default()).unwrap();
        for dies_at in 0..4 {
            let dying = (10..14).map(move |number| {
                assert!(number != 10 + dies_at, "the fault");
                row(number)
            });
            let replacing = std::panic::AssertUnwindSafe(|| catalog.replace_all(dying));
            assert!(std::panic::catch_unwind(replacing).is_err(), "the fault did not fire");
            assert_eq!(catalog.list(&Filter::default()).unwrap(), old);
            let next = Catalog::open(&dir.path().join("catalog.db")).unwrap();
            assert_eq!(next.list(&Filter::default()).unwrap(), old);
        }
        catalog.replace_all((10..14).map(row)).unwrap();
        assert_eq!(catalog.list(&Filter::default()).unwrap().len(), 4);
    }

    #[test]
    fn an_unusable_file_is_moved_away() {
        let dir = tempfile::TempDir::new().unwrap();
        let path = dir.path().join("catalog.db");
        fs::write(&path, "this is no database, however long it is made to be".repeat(100)).unwrap();
        Catalog::open(&path).unwrap().upsert(&row(1)).unwrap();
        assert_eq!(Catalog::open(&path).unwrap().list(&Filter::default()).unwrap(), vec![row(1)]);
        let other_version = |connection: &Connection| connection.pragma_update(None, "user_version", 99);
        Catalog::open(&path).unwrap().call(other_version).unwrap();
        assert_eq!(Catalog::open(&path).unwrap().list(&Filter::default()).unwrap(), vec![]);
        assert!(
            dir.path().join("catalog.unusable-1").exists() && dir.path().join("catalog.unusable-2").exists()
        );
    }

    #[test]
    fn the_catalogue_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let (dir, catalog) = catalog();
        catalog.upsert(&row(1)).unwrap();
        for entry in fs::read_dir(dir.path()).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
}
