//! Lists that are true: rows of the catalogue, with those that a dead process left behind caught up first.

use std::collections::HashMap;
use std::sync::Arc;

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
                let caught = catch_up(home, &catalog, known(&catalog)?)?;
                return Ok((catalog.list(filter)?, caught.unreadable));
            }
            // All rows are looked at anyway, so how fresh they are needs no second look.
            let rows = catalog.list(filter)?;
            let known = rows.iter().map(|row| (row.id.clone(), row.journal_mtime_ns)).collect();
            let caught = catch_up(home, &catalog, known)?;
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
        let caught = catch_up(home, &catalog, known(&catalog)?)?;
        Ok((catalog.query(sql)?, caught.unreadable))
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
    });
    rows.sort_by(|left, right| (right.created_at, &right.id).cmp(&(left.created_at, &left.id)));
    Ok((rows, unreadable))
}

fn derive_all(home: &Home) -> Result<(Vec<RunRow>, Unreadable), Error> {
    let (mut rows, mut unreadable) = (Vec::new(), Vec::new());
    for id in home.all_runs()? {
        match derive(home, &id) {
            Ok(row) => rows.push(row),
            Err(error) => unreadable.push((id, error.to_string())),
        }
    }
    Ok((rows, unreadable))
}

/// Brings the catalogue up to date: runs without a row, rows without a run, and rows that are not of their journal's
/// last change.
fn catch_up(home: &Arc<Home>, catalog: &Catalog, mut known: Known) -> Result<Caught, Error> {
    let mut caught = Caught::default();
    for (id, changed_ns) in home.all_journals()? {
        let derived_at = known.remove(&id).filter(|derived_ns| *derived_ns != 0);
        let current = derived_at == Some(changed_ns);
        if current {
            continue;
        }
        match derive(home, &id) {
            Ok(row) => {
                // A repaired journal is shorter than it was, and an older row never replaces a newer one.
                catalog.remove(&id)?;
                catalog.upsert(&row)?;
                caught.changed = true;
            }
            Err(error) => caught.unreadable.push((id, error.to_string())),
        }
    }
    for gone in known.keys() {
        catalog.remove(gone)?;
        caught.changed = true;
    }
    Ok(caught)
}

/// When the journal of each run had last changed as its row was made.
type Known = HashMap<RunId, i64>;

fn known(catalog: &Catalog) -> Result<Known, Error> {
    let fresh = catalog.ids_with_freshness()?.into_iter();
    Ok(fresh.map(|fresh| (fresh.id, fresh.journal_mtime_ns)).collect())
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
