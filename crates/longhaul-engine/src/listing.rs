//! Lists that are true: rows of the catalogue, with those that a dead process left behind caught up first.

use std::collections::HashMap;

use longhaul_core::ids::RunId;
use longhaul_store::catalog::{Filter, RunRow};
use longhaul_store::{Answer, Backend, Catalog, Home};

use crate::catalogue::row;
use crate::error::Error;
use crate::fold::Onlooker;
use crate::harness::Harness;

/// Runs that could not be read, and why. A damaged run never hides the others.
pub type Unreadable = Vec<(RunId, String)>;

impl Harness {
    /// The rows that fit, newest first, and the runs that could not be read.
    pub fn list(&self, filter: &Filter) -> Result<(Vec<RunRow>, Unreadable), Error> {
        let Some(home) = self.home() else { return Ok((Vec::new(), Vec::new())) };
        let from_catalogue = || -> Result<_, Error> {
            let catalog = home.catalog()?;
            if *filter != Filter::default() {
                let unreadable = caught_up(home, &catalog)?;
                return Ok((catalog.list(filter)?, unreadable));
            }
            // All rows are looked at anyway, so how fresh they are needs no second look.
            let (rows, journals) = beside_journals(home, || catalog.list(filter));
            let (rows, journals) = (rows?, journals?);
            let known = rows.iter().map(|row| (&row.id, row.journal_mtime_ns)).collect();
            let caught = catch_up(home, &catalog, known, &journals)?;
            let rows = if caught.changed { catalog.list(filter)? } else { rows };
            Ok((rows, caught.unreadable))
        };
        // A catalogue that cannot be written, on a full disk for one, hides no run: the journals say it all, only slower.
        from_catalogue().or_else(|_| from_journals(home, filter))
    }

    /// What SQL finds in the catalogue, caught up first, and the runs that could not be read.
    pub fn query(&self, sql: &str) -> Result<(Answer, Unreadable), Error> {
        let Some(home) = self.home() else { return Ok((Answer::default(), Vec::new())) };
        let catalog = home.catalog()?;
        let unreadable = caught_up(home, &catalog)?;
        Ok((catalog.query(sql)?, unreadable))
    }

    /// Makes every row anew from the journals.
    pub fn rebuild(&self) -> Result<(usize, Unreadable), Error> {
        let Some(home) = self.home() else { return Ok((0, Vec::new())) };
        let (rows, unreadable) = derive_all(home)?;
        let count = rows.len();
        home.catalog()?.replace_all(rows)?;
        Ok((count, unreadable))
    }
}

/// The same rows in the same order as the catalogue would give.
fn from_journals(home: &Home, filter: &Filter) -> Result<(Vec<RunRow>, Unreadable), Error> {
    let (mut rows, unreadable) = derive_all(home)?;
    rows.retain(|row| {
        filter.status.is_none_or(|status| status == row.status)
            && filter.agent.as_ref().is_none_or(|agent| *agent == row.agent)
            && filter.parent.as_ref().is_none_or(|parent| row.parent.as_ref() == Some(parent))
            && (!filter.waiting || row.gates.is_some())
    });
    rows.sort_by(|left, right| (right.created_at, &right.id).cmp(&(left.created_at, &left.id)));
    Ok((rows, unreadable))
}

fn derive_all(home: &Home) -> Result<(Vec<RunRow>, Unreadable), Error> {
    let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
    for id in home.readable_runs()? {
        match derive(home, &id) {
            Ok(row) => rows.push(row),
            Err(error) => unreadable.push((id, error.to_string())),
        }
    }
    Ok((rows, unreadable))
}

type Journals = Vec<(RunId, i64)>;

/// Reads the catalogue while the journals are looked over: with many runs both take their time.
fn beside_journals<T>(
    home: &Home,
    read: impl FnOnce() -> Result<T, longhaul_store::Error>,
) -> (Result<T, longhaul_store::Error>, Result<Journals, longhaul_store::Error>) {
    std::thread::scope(|scope| {
        let journals = scope.spawn(|| home.readable_journals());
        (read(), journals.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Brings the catalogue up to date; gives the runs that could not be read.
fn caught_up(home: &Home, catalog: &Catalog) -> Result<Unreadable, Error> {
    let (fresh, journals) = beside_journals(home, || catalog.ids_with_freshness());
    let (fresh, journals) = (fresh?, journals?);
    let known = fresh.iter().map(|fresh| (&fresh.id, fresh.journal_mtime_ns)).collect();
    Ok(catch_up(home, catalog, known, &journals)?.unreadable)
}

/// When the journal of each run had last changed as its row was made.
type Known<'a> = HashMap<&'a RunId, i64>;

/// Mends what the journals say otherwise: runs without a row, rows without a run, and rows that are not of their
/// journal's last change.
fn catch_up(
    home: &Home,
    catalog: &Catalog,
    mut known: Known<'_>,
    journals: &Journals,
) -> Result<Caught, Error> {
    let mut caught = Caught::default();
    for (id, changed_ns) in journals {
        let derived_at = known.remove(id).filter(|derived_ns| *derived_ns != 0);
        let current = derived_at == Some(*changed_ns);
        if current {
            continue;
        }
        match derive(home, id) {
            Ok(row) => {
                // A repaired journal is shorter than it was: what is older there is not older.
                catalog.replace(&row)?;
                caught.changed = true;
            }
            Err(error) => caught.unreadable.push((id.clone(), error.to_string())),
        }
    }
    for gone in known.into_keys().filter(|missed| is_gone(home, missed)) {
        catalog.remove(gone)?;
        caught.changed = true;
    }
    Ok(caught)
}

/// A run whose journal was not seen may also have begun after the journals were looked over.
fn is_gone(home: &Home, missed: &RunId) -> bool {
    matches!(home.store_of(missed), Err(longhaul_store::Error::NotFound { .. }))
}

/// What catching up came to.
#[derive(Default)]
struct Caught {
    changed: bool,
    unreadable: Unreadable,
}

fn derive(home: &Home, id: &RunId) -> Result<RunRow, Error> {
    // Read before the journal is: a change in between makes the row look older than it is, never newer.
    let mtime_ns = journal_mtime_ns(home, id);
    let store = home.store_of(id)?;
    let mut onlooker = Onlooker::new(store.as_ref(), id)?;
    onlooker.look(&mut |_, _, _, _| {})?;
    let mtime_ns = match store.backend() {
        Backend::Engine => mtime_ns,
        Backend::Sqlite | Backend::Memory => 0,
    };
    Ok(row(onlooker.run()?, store.backend(), mtime_ns))
}

/// When the run's journal last changed, as its row remembers it; 0 if it is not in the engine.
pub(crate) fn journal_mtime_ns(home: &Home, id: &RunId) -> i64 {
    home.engine().changed_ns(id).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use longhaul_core::time::Timestamp;
    use longhaul_store::{Entry, Store, Writer};

    use super::*;

    #[test]
    fn a_run_that_begins_while_the_journals_are_looked_over_is_not_taken_for_gone() {
        let place = tempfile::TempDir::new().unwrap();
        let home = Home::open(place.path()).unwrap();
        let journals = home.all_journals().unwrap();
        let begun = RunId::from_bits(1);
        let writer = Writer { pid: 1, host: "here".to_owned(), at: Timestamp::default() };
        let first = Entry { at: Timestamp::default(), kind: 0, version: 1, payload: Vec::new() };
        home.engine().create(&begun, &writer, &[first]).unwrap();
        assert!(journals.is_empty() && !is_gone(&home, &begun));
        home.engine().remove(&begun).unwrap();
        assert!(is_gone(&home, &begun));
    }
}
