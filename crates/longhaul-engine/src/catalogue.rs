//! Keeping the catalogue current: a row for each run, derived from its journal while it is driven, and caught up when
//! somebody asks and a process died in between.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::prompt::{head, own_step};
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_core::time::Timestamp;
use longhaul_core::view::GateView;
use longhaul_store::catalog::{Catalog, RunRow};
use longhaul_store::home::FallbackReason;
use longhaul_store::{Backend, Home};

use crate::limits::{CATALOGUE_WAIT_MS_MAX, CATALOGUE_WRITE_MS};
use crate::watch::{Trouble, Watcher};

pub fn row(run: &Run, backend: Backend, journal_mtime_ns: i64) -> RunRow {
    let mut row = RunRow {
        id: run.spec.id.clone(),
        kind: "task".to_owned(),
        agent: run.spec.agent.clone(),
        task: head(own_step(&run.spec.task), 500).to_owned(),
        task_id: Some(run.spec.task_id.clone()),
        status: run.status,
        wait: run.wait(),
        reason: None,
        steps_total: run.plan.steps.len() as u32,
        steps_completed: 0,
        current_step: None,
        tool_calls: 0,
        sub_agents: 0,
        parent: run.spec.parent.clone(),
        depth: run.spec.depth,
        created_at: run.created_at,
        updated_at: run.updated_at,
        completed_at: None,
        last_checkpoint_at: None,
        error: None,
        session: run.spec.session.clone(),
        workspace: Some(run.spec.workspace.clone()),
        backend,
        last_seq: 0,
        journal_mtime_ns,
        gates: None,
        iteration_count: 0,
        max_iterations: None,
        completion_promise: None,
    };
    refresh(&mut row, run);
    row
}

/// Brings a row of the same run up to date: only what can change while it is driven.
fn refresh(row: &mut RunRow, run: &Run) {
    row.status = run.status;
    row.wait = run.wait();
    row.reason.clone_from(&run.reason);
    row.steps_completed = run.plan.completed_count() as u32;
    row.current_step = Some(run.current_step);
    row.tool_calls = u64::from(run.calls_started);
    row.sub_agents = run.sub_agents.len() as u32;
    row.updated_at = run.updated_at;
    row.completed_at = run.completed_at;
    row.last_checkpoint_at = run.last_checkpoint_at;
    row.error.clone_from(&run.error);
    row.last_seq = run.seq;
    row.gates = gates(run);
    let looping = run.spec.conduct().looping.as_ref();
    // As `show` counts: how often the loop has begun anew.
    row.iteration_count = looping.map_or(0, |_| run.iteration.saturating_sub(1));
    row.max_iterations = looping.map(|looping| looping.max_iterations);
    row.completion_promise = looping.map(|looping| looping.promise.clone());
}

/// Whoever asks what waits for a person asks it of all runs, and should not have to read their journals.
fn gates(run: &Run) -> Option<String> {
    if !matches!(run.status, Status::Running | Status::Paused) {
        return None;
    }
    let open: Vec<GateView> =
        run.gates.iter().filter(|gate| gate.answer.is_none()).map(|gate| GateView::of(run, gate)).collect();
    (!open.is_empty()).then(|| serde_json::to_string(&open).unwrap_or_default())
}

/// Passes the rows of one run that is being driven to the clerk; when the run is let go, its last row is in the
/// catalogue.
pub struct RowKeeper {
    backend: Backend,
    clerk: Arc<Clerk>,
    /// Once for each time a run is driven is enough to hear that there is no catalogue.
    has_said: bool,
}

impl RowKeeper {
    pub fn new(clerk: Arc<Clerk>, backend: Backend) -> RowKeeper {
        RowKeeper { backend, clerk, has_said: false }
    }
}

impl Watcher for RowKeeper {
    fn event(&mut self, _run: &Run, _seq: u64, _at: Timestamp, _event: &Event) {}

    fn batch_ended(&mut self, _run: &Run) {}

    fn rested(&mut self, run: &Run) {
        self.clerk.desk.post(run, self.backend);
    }

    fn trouble(&mut self) -> Option<Trouble> {
        if self.has_said {
            return None;
        }
        let trouble = self.clerk.desk.tray().trouble.clone();
        self.has_said = trouble.is_some();
        trouble
    }

    fn last_trouble(&mut self) -> Option<Trouble> {
        if self.clerk.thread.is_some() {
            self.clerk.desk.wait_until_written();
        }
        self.trouble()
    }
}

impl Drop for RowKeeper {
    fn drop(&mut self) {
        if self.clerk.thread.is_some() {
            self.clerk.desk.wait_until_written();
        }
    }
}

/// Writes the rows of all runs that one harness drives, from one thread with one connection, so that no run waits for it
/// and many runs cost no more than one. Only the newest row of each run counts; older ones not written in time are
/// skipped.
pub struct Clerk {
    desk: Arc<Desk>,
    /// Without a thread the rows are merely stale, and are caught up by whoever lists next.
    thread: Option<JoinHandle<()>>,
}

impl Clerk {
    pub fn start(home: Arc<Home>) -> Clerk {
        let desk = Arc::new(Desk::default());
        let shared = Arc::clone(&desk);
        let thread = thread::Builder::new()
            .name("longhaul-catalogue".to_owned())
            .spawn(move || shared.keep_writing(&home))
            .ok();
        Clerk { desk, thread }
    }
}

impl Drop for Clerk {
    fn drop(&mut self) {
        self.desk.tray().closing = true;
        self.desk.news.notify_one();
        self.desk.hurry.notify_one();
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

#[derive(Default)]
struct Desk {
    tray: Mutex<Tray>,
    /// There is something in the tray.
    news: Condvar,
    /// Somebody waits for what is in the tray.
    hurry: Condvar,
    /// The tray was emptied and all of it is written.
    done: Condvar,
}

#[derive(Default)]
struct Tray {
    rows: HashMap<RunId, RunRow>,
    /// Rows ever put here, and how many of them are written or were overtaken.
    posted: u64,
    written: u64,
    waiting: usize,
    closing: bool,
    /// Why the last rows could not be written, if they could not.
    trouble: Option<Trouble>,
}

impl Desk {
    fn tray(&self) -> MutexGuard<'_, Tray> {
        self.tray.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn post(&self, run: &Run, backend: Backend) {
        let mut tray = self.tray();
        tray.posted += 1;
        if let Some(row) = tray.rows.get_mut(&run.spec.id) {
            return refresh(row, run);
        }
        // Zero says "look at the journal": the true time is filled in when the row is next caught up.
        tray.rows.insert(run.spec.id.clone(), row(run, backend, 0));
        self.news.notify_one();
    }

    /// Waits for everything posted so far; not for ever, since a stale row is no harm.
    fn wait_until_written(&self) {
        let mut tray = self.tray();
        let posted = tray.posted;
        tray.waiting += 1;
        self.hurry.notify_one();
        let wait = Duration::from_millis(CATALOGUE_WAIT_MS_MAX);
        let waited = self.done.wait_timeout_while(tray, wait, |tray| tray.written < posted);
        waited.unwrap_or_else(PoisonError::into_inner).0.waiting -= 1;
    }

    fn keep_writing(&self, home: &Home) {
        let mut catalog = None;
        loop {
            let (rows, posted, closing) = self.next();
            // Derived: a failed write leaves stale rows, which the next listing catches up.
            let written = write_rows(home, &mut catalog, &rows);
            let mut tray = self.tray();
            tray.written = posted;
            tray.trouble = written.err().map(|error| Trouble {
                file: home.catalog_path().display().to_string(),
                why: FallbackReason::from(&error).0,
            });
            drop(tray);
            self.done.notify_all();
            if closing {
                return;
            }
            self.rest();
        }
    }

    /// A pause between two writes, cut short when somebody waits.
    fn rest(&self) {
        let pause = Duration::from_millis(CATALOGUE_WRITE_MS);
        let calm = |tray: &mut Tray| !tray.closing && tray.waiting == 0;
        drop(self.hurry.wait_timeout_while(self.tray(), pause, calm));
    }

    fn next(&self) -> (HashMap<RunId, RunRow>, u64, bool) {
        let empty = |tray: &mut Tray| tray.rows.is_empty() && !tray.closing;
        let mut tray = self.news.wait_while(self.tray(), empty).unwrap_or_else(PoisonError::into_inner);
        (std::mem::take(&mut tray.rows), tray.posted, tray.closing)
    }
}

/// Opens the catalogue with the first rows there are for it.
fn write_rows(
    home: &Home,
    catalog: &mut Option<Catalog>,
    rows: &HashMap<RunId, RunRow>,
) -> Result<(), longhaul_store::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let open = match catalog.take() {
        Some(open) => open,
        None => home.catalog()?,
    };
    catalog.insert(open).upsert_all(rows.values())
}
