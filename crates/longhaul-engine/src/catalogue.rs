//! Keeping the catalogue current: a row for each run, derived from its journal while it is driven, and caught up when
//! somebody asks and a process died in between.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use longhaul_core::event::Event;
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;
use longhaul_store::catalog::RunRow;
use longhaul_store::{Backend, Catalog};

use crate::limits::CATALOGUE_WRITE_MS;
use crate::watch::Watcher;

pub fn row(run: &Run, backend: Backend, journal_mtime_ns: i64) -> RunRow {
    RunRow {
        id: run.spec.id.clone(),
        kind: "task".to_owned(),
        agent: run.spec.agent.clone(),
        task: longhaul_core::prompt::head(&run.spec.task, 500).to_owned(),
        task_id: Some(run.spec.task_id.clone()),
        status: run.status,
        wait: run.wait(),
        reason: run.reason.clone(),
        steps_total: run.plan.steps.len() as u32,
        steps_completed: run.plan.completed_count() as u32,
        current_step: Some(run.current_step),
        tool_calls: u64::from(run.calls_started),
        sub_agents: run.sub_agents.len() as u32,
        parent: run.spec.parent.clone(),
        depth: run.spec.depth,
        created_at: run.created_at,
        updated_at: run.updated_at,
        completed_at: run.completed_at,
        last_checkpoint_at: run.last_checkpoint_at,
        error: run.error.clone(),
        session: run.spec.session.clone(),
        workspace: Some(run.spec.workspace.clone()),
        backend,
        last_seq: run.seq,
        journal_mtime_ns,
    }
}

/// Writes the row of a run that is being driven, from a thread of its own so that the run never waits for it. Only the
/// newest row counts; older ones that were not written in time are skipped.
pub struct RowKeeper {
    backend: Backend,
    desk: Arc<Desk>,
    clerk: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Desk {
    tray: Mutex<Tray>,
    news: Condvar,
    closed: Condvar,
}

#[derive(Default)]
struct Tray {
    row: Option<RunRow>,
    closing: bool,
}

impl RowKeeper {
    pub fn start(catalog: Arc<Catalog>, backend: Backend) -> RowKeeper {
        let desk = Arc::new(Desk::default());
        let shared = Arc::clone(&desk);
        // Without a thread the row is merely stale, and is caught up by whoever lists next.
        let clerk = thread::Builder::new()
            .name("longhaul-catalogue".to_owned())
            .spawn(move || shared.keep_writing(&catalog))
            .ok();
        RowKeeper { backend, desk, clerk }
    }
}

impl Watcher for RowKeeper {
    fn event(&mut self, _run: &Run, _seq: u64, _at: Timestamp, _event: &Event) {}

    fn batch_ended(&mut self, run: &Run) {
        // Zero says "look at the journal": the true time is filled in when the row is next caught up.
        let row = row(run, self.backend, 0);
        self.desk.tray.lock().unwrap_or_else(PoisonError::into_inner).row = Some(row);
        self.desk.news.notify_one();
    }
}

impl Drop for RowKeeper {
    fn drop(&mut self) {
        self.desk.tray.lock().unwrap_or_else(PoisonError::into_inner).closing = true;
        self.desk.news.notify_one();
        self.desk.closed.notify_one();
        if let Some(clerk) = self.clerk.take() {
            drop(clerk.join());
        }
    }
}

impl Desk {
    fn keep_writing(&self, catalog: &Catalog) {
        loop {
            let (row, closing) = self.next();
            if let Some(row) = row {
                // Derived: a failed write leaves a stale row, which the next listing catches up.
                drop(catalog.upsert(&row));
            }
            if closing {
                return;
            }
            self.rest();
        }
    }

    /// A pause between two writes, cut short when the run is let go.
    fn rest(&self) {
        let tray = self.tray.lock().unwrap_or_else(PoisonError::into_inner);
        let pause = Duration::from_millis(CATALOGUE_WRITE_MS);
        drop(self.closed.wait_timeout_while(tray, pause, |tray| !tray.closing));
    }

    fn next(&self) -> (Option<RunRow>, bool) {
        let tray = self.tray.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tray = self
            .news
            .wait_while(tray, |tray| tray.row.is_none() && !tray.closing)
            .unwrap_or_else(PoisonError::into_inner);
        (tray.row.take(), tray.closing)
    }
}
