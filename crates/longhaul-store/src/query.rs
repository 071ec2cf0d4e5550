//! SQL that a person types, over the catalogue. Owns what such a query may do: read, within bounds. It has a connection
//! of its own that cannot write, reaches no other file, and ends in time.

use std::path::Path;
use std::time::Instant;

use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Row};
use serde_json::Value;

use crate::error::Error;
use crate::limits;

/// What a query found. Blobs are shown as hexadecimal digits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    pub columns: Vec<String>,
    pub rows: Vec<Vec<Value>>,
    /// There was more than is shown of one answer.
    pub cut: bool,
}

pub(crate) fn query(catalog: &Path, sql: &str) -> Result<Answer, Error> {
    let failed = |source| Error::Sqlite { path: catalog.to_owned(), source };
    let connection = connect(catalog).map_err(failed)?;
    ask(&connection, sql)
}

/// Read-only three times over: the file is opened so, the connection refuses to write, and what would is not run.
fn connect(catalog: &Path) -> rusqlite::Result<Connection> {
    let mut connection = Connection::open_with_flags(catalog, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(limits::SQLITE_WAIT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, limits::QUERY_VALUE_BYTES_MAX)?;
    let started = Instant::now();
    let late = move || started.elapsed() > limits::QUERY_TIME_MAX;
    connection.progress_handler(limits::QUERY_STEPS_UNWATCHED, Some(late))?;
    Ok(connection)
}

fn ask(connection: &Connection, sql: &str) -> Result<Answer, Error> {
    let failed = |source: rusqlite::Error| match source.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => Error::QueryTooSlow { max: limits::QUERY_TIME_MAX },
        _ => Error::Query { source },
    };
    let mut statement = connection.prepare(sql).map_err(failed)?;
    if !statement.readonly() {
        return Err(Error::QueryWrites);
    }
    let columns: Vec<String> = statement.column_names().map(str::to_owned).collect();
    let (mut found, mut bytes, mut cut) = (Vec::new(), 0, false);
    let mut rows = statement.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        if found.len() >= limits::QUERY_ROWS_MAX || bytes >= limits::QUERY_BYTES_MAX {
            cut = true;
            break;
        }
        let values = (0..columns.len()).map(|index| value(row, index)).collect::<Result<Vec<_>, _>>();
        let values = values.map_err(failed)?;
        bytes += values.iter().map(size).sum::<usize>();
        found.push(values);
    }
    Ok(Answer { columns, rows: found, cut })
}

fn value(row: &Row<'_>, index: usize) -> rusqlite::Result<Value> {
    Ok(match row.get_ref(index)? {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
    })
}

/// About what a value takes, so that many large ones are too many.
fn size(value: &Value) -> usize {
    size_of::<Value>() + value.as_str().map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(dir: &tempfile::TempDir) -> std::path::PathBuf {
        let path = dir.path().join("catalog.db");
        let connection = Connection::open(&path).unwrap();
        let tables = "PRAGMA journal_mode = WAL; CREATE TABLE runs (id TEXT, n INTEGER); \
             INSERT INTO runs VALUES ('a', 1), ('b', NULL);";
        connection.execute_batch(tables).unwrap();
        path
    }

    #[test]
    fn values_of_every_type_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let answer = query(&catalog(&dir), "SELECT id, n, 1.5 AS half, x'0aff' AS raw FROM runs").unwrap();
        assert_eq!(answer.columns, ["id", "n", "half", "raw"]);
        let row = |id: &str, n: Value| vec![Value::from(id), n, 1.5.into(), "0aff".into()];
        assert_eq!(answer.rows, [row("a", 1.into()), row("b", Value::Null)]);
        assert!(!answer.cut);
    }

    /// AT1: nothing a person types changes the catalogue, another file, or makes a new one.
    #[test]
    fn nothing_is_written_or_reached() {
        let dir = tempfile::tempdir().unwrap();
        let path = catalog(&dir);
        let other = dir.path().join("other.db").display().to_string();
        for sql in [
            "DELETE FROM runs",
            "INSERT INTO runs VALUES ('c', 3)",
            "CREATE TEMP TABLE t (x)",
            "DROP TABLE runs",
            "PRAGMA user_version = 7",
            "PRAGMA journal_mode = DELETE",
            "SELECT 1; DELETE FROM runs",
            "SELECT load_extension('x')",
            "VACUUM",
            &format!("VACUUM INTO '{other}'"),
            &format!("ATTACH '{other}' AS other"),
        ] {
            let refused = query(&path, sql);
            assert!(matches!(refused, Err(Error::Query { .. } | Error::QueryWrites)), "{sql}: {refused:?}");
        }
        assert!(!Path::new(&other).exists());
        assert_eq!(query(&path, "SELECT count(*) FROM runs").unwrap().rows, [[Value::from(2)]]);
    }

    #[test]
    fn an_answer_has_an_end() {
        let dir = tempfile::tempdir().unwrap();
        let path = catalog(&dir);
        let endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x FROM n";
        let answer = query(&path, endless).unwrap();
        assert_eq!((answer.rows.len(), answer.cut), (limits::QUERY_ROWS_MAX, true));
        let wide = format!("{endless} WHERE length(hex(zeroblob(4000000))) > 0");
        assert!(query(&path, &format!("SELECT hex(zeroblob(4000000)) FROM ({wide})")).unwrap().cut);
        assert!(matches!(query(&path, "SELECT zeroblob(400000000)"), Err(Error::Query { .. })));
    }
}
