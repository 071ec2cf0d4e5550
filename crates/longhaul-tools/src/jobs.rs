//! Commands in the background: servers, watchers, long builds.
//!
//! Owns them from their call to the end of the run's work in this process, and what they print meanwhile, bounded. Refuses to
//! let one outlive its run: whoever puts the run down ends them, and so does the death of the harness.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_core::prompt::head;
use longhaul_core::tool::{Failure, Outcome, STILL_RUNNING};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::arguments::invalid;
use crate::bash::{ended, not_started, swept_note};
use crate::cancel::{Cancel, CancelSwitch};
use crate::capture::Capture;
use crate::child::{Child, End};
use crate::limits;
use crate::output;
use crate::sandbox::Wrapped;
use crate::tool::Context;

/// A job ends when it wants, when it is killed, or with its run; this is only what a clock can hold.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The jobs of all runs driven in this process.
#[derive(Default)]
pub(crate) struct Jobs(Mutex<HashMap<RunId, BTreeMap<String, Job>>>);

struct Job {
    command: String,
    heard: Arc<Mutex<Capture>>,
    /// Of what was heard, the end that is shown with what follows.
    held: Arc<Mutex<Vec<u8>>>,
    switch: CancelSwitch,
    /// Counts what was printed; a job that ends says how.
    state: watch::Receiver<State>,
    task: JoinHandle<()>,
}

#[derive(Clone, Debug, Default)]
struct State {
    pieces: u64,
    ended: Option<String>,
}

/// Of a job what can be looked at without holding up the others.
struct Look {
    heard: Arc<Mutex<Capture>>,
    held: Arc<Mutex<Vec<u8>>>,
    switch: CancelSwitch,
    state: watch::Receiver<State>,
}

impl Jobs {
    /// Starts a command and leaves it running. Its id is that of the call, which no other job has ever had.
    pub(crate) fn start(
        &self,
        context: &Context,
        command: &str,
        wrapped: Wrapped,
    ) -> Result<Outcome, Outcome> {
        let mut all = self.lock();
        let jobs = all.entry(context.run.clone()).or_default();
        if jobs.values().filter(|job| job.state.borrow().ended.is_none()).count() >= limits::JOBS_MAX {
            let message = format!(
                "{} commands run in the background already; end one with bash_kill",
                limits::JOBS_MAX
            );
            return Err(Outcome::failed(Failure::BudgetExceeded, message));
        }
        let reach = wrapped.reach();
        let child = Child::start(wrapped.command, &context.key, reach, None).map_err(not_started)?;
        let heard: Arc<Mutex<Capture>> = Arc::default();
        let (news, state) = watch::channel(State::default());
        let (switch, cancel) = Cancel::new();
        let (hearing, telling) = (Arc::clone(&heard), news.clone());
        let child = child.kept_by(Box::new(move |bytes| {
            locked(&hearing).push(bytes);
            telling.send_modify(|state| state.pieces += 1);
        }));
        let kept = wrapped.kept;
        let task = tokio::spawn(async move {
            let finished = child.finish(FOR_EVER, &cancel).await;
            let words = match finished.end {
                End::Exited(status) if status.success() => "ended with exit code 0".to_owned(),
                End::Exited(status) => format!("ended: {}", ended(status, reach)),
                End::TimedOut | End::Cancelled => "stopped".to_owned(),
                End::Lost(error) => format!("ended, nobody knows how: {error}"),
            };
            let words = words + &swept_note(&kept);
            news.send_modify(|state| state.ended = Some(words));
        });
        forget_oldest(jobs);
        let id = id_of(context);
        let said = format!(
            "running in the background as {id}; bash_output shows what it prints, bash_kill ends it, and it ends with the run"
        );
        let command = head(command.lines().next().unwrap_or_default(), 80).to_owned();
        jobs.insert(id, Job { command, heard, held: Arc::default(), switch, state, task });
        Ok(Outcome::done(said))
    }

    /// What a job has printed since it was last asked, after waiting for something new if `wait` is given.
    pub(crate) async fn look(
        &self,
        context: &Context,
        id: &str,
        wait: Option<Duration>,
    ) -> Result<Outcome, Outcome> {
        let look = self.find(&context.run, id)?;
        // Read first: what comes after this is news.
        let seen = look.state.borrow().pieces;
        if let Some(wait) = wait
            && locked(&look.heard).total() == 0
        {
            let mut state = look.state.clone();
            let news = state.wait_for(|state| state.ended.is_some() || state.pieces != seen);
            tokio::select! {
                _ = tokio::time::timeout(wait, news) => {}
                () = context.cancel.cancelled() => {}
            }
        }
        Ok(look.report(context).await)
    }

    /// Ends a job and shows the rest of what it printed.
    pub(crate) async fn kill(&self, context: &Context, id: &str) -> Result<Outcome, Outcome> {
        let look = self.find(&context.run, id)?;
        look.switch.cancel();
        let mut state = look.state.clone();
        // An error is a task that died; what it printed is shown all the same.
        state.wait_for(|state| state.ended.is_some()).await.ok();
        Ok(look.report(context).await)
    }

    /// All jobs of a run, one line each, after waiting for something new of any if `wait` is given. Those that run come last, so that
    /// whoever reads the end knows whether one does.
    pub(crate) async fn list(&self, context: &Context, wait: Option<Duration>) -> Outcome {
        if let Some(wait) = wait {
            self.news_of_any(context, wait).await;
        }
        let all = self.lock();
        let (mut ended, mut running) = (String::new(), String::new());
        for (id, job) in all.get(&context.run).into_iter().flatten() {
            match &job.state.borrow().ended {
                Some(how) => ended.push_str(&format!("{id}: {} [{how}]\n", job.command)),
                None => running.push_str(&format!("{id}: {} {STILL_RUNNING}\n", job.command)),
            }
        }
        let lines = ended + &running;
        Outcome::done(if lines.is_empty() { "nothing runs in the background\n".to_owned() } else { lines })
    }

    /// Waits until one of those that run prints something or ends; what was printed and not yet shown is news already.
    async fn news_of_any(&self, context: &Context, wait: Duration) {
        let mut running = Vec::new();
        for job in self.lock().get(&context.run).into_iter().flat_map(BTreeMap::values) {
            let State { pieces: seen, ended } = job.state.borrow().clone();
            if ended.is_some() {
                continue;
            }
            if locked(&job.heard).total() > 0 {
                return;
            }
            let mut state = job.state.clone();
            running.push(Box::pin(async move {
                // An error is a task that died, which is news too.
                state.wait_for(|state| state.ended.is_some() || state.pieces != seen).await.ok();
            }));
        }
        if running.is_empty() {
            return;
        }
        tokio::select! {
            _ = tokio::time::timeout(wait, futures_util::future::select_all(running)) => {}
            () = context.cancel.cancelled() => {}
        }
    }

    /// Ends all jobs of a run and waits until they are gone.
    pub(crate) async fn end_all(&self, run: &RunId) {
        let jobs = self.lock().remove(run).unwrap_or_default();
        for job in jobs.values() {
            job.switch.cancel();
        }
        for job in jobs.into_values() {
            // A task that panicked has dropped its child, which kills it.
            job.task.await.ok();
        }
    }

    fn find(&self, run: &RunId, id: &str) -> Result<Look, Outcome> {
        let all = self.lock();
        let job = all.get(run).and_then(|jobs| jobs.get(id));
        let look = |job: &Job| Look {
            heard: Arc::clone(&job.heard),
            held: Arc::clone(&job.held),
            switch: job.switch.clone(),
            state: job.state.clone(),
        };
        job.map(look).ok_or_else(|| {
            invalid(format!(
                "nothing runs in the background as `{id}`; what ran before the run was paused or interrupted has ended. \
                 bash_output without an id lists what there is"
            ))
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<RunId, BTreeMap<String, Job>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    async fn report(&self, context: &Context) -> Outcome {
        let state = self.state.borrow().ended.clone();
        let mut printed = std::mem::take(&mut *locked(&self.heard));
        {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            if printed.total() > 0 || state.is_some() {
                printed = printed.after(&std::mem::take(&mut *held));
            }
            if state.is_none() {
                held.extend(printed.take_end(context.printed.unfinished(&printed.end())));
            }
        }
        let note = state.map_or_else(|| format!("\n{STILL_RUNNING}"), |how| format!("\n[{how}]"));
        let nothing = if printed.total() == 0 { "(nothing new)" } else { "" };
        Outcome::Done { output: output::bounded(context, printed, &format!("{nothing}{note}")).await }
    }
}

/// Of commands that have ended, the last few can still be looked at.
fn forget_oldest(jobs: &mut BTreeMap<String, Job>) {
    while jobs.len() >= 2 * limits::JOBS_MAX {
        let number = |id: &String| id.rsplit('_').next().and_then(|number| number.parse::<u64>().ok());
        let ended = jobs.iter().filter(|(_, job)| job.state.borrow().ended.is_some());
        let Some(oldest) = ended.map(|(id, _)| id.clone()).min_by_key(number) else { return };
        jobs.remove(&oldest);
    }
}

fn locked(capture: &Mutex<Capture>) -> MutexGuard<'_, Capture> {
    capture.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The call's own name.
fn id_of(context: &Context) -> String {
    context.key.rsplit('.').next().unwrap_or(&context.key).to_owned()
}
