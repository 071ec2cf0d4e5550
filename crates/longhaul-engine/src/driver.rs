//! The driver: decide, append, apply, perform, in that order, in one function. Everything else here only waits.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use longhaul_core::command::Command;
use longhaul_core::decide::{Decision, Refusal, decide};
use longhaul_core::effect::{Effect, Wake};
use longhaul_core::event::{Cause, Event, Rest};
use longhaul_core::ids::{Attempt, CallId};
use longhaul_core::input::Input;
use longhaul_core::prompt;
use longhaul_core::run::Run;
use longhaul_core::status::{Status, Wait};
use longhaul_core::time::Timestamp;
use longhaul_store::{Entry, Journal, Space, Store};
use longhaul_tools::{Cancel, CancelSwitch};
use tokio::runtime::{Handle as Runtime, RuntimeFlavor};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use crate::clock::Clock;
use crate::error::Error;
use crate::fold;
use crate::limits::{INBOX_POLL_MS, WIND_DOWN_MS_MAX};
use crate::perform::{Performer, ToolWork, Work};
use crate::watch::Watcher;

/// Drives one run as its one writer, until it ends, pauses, or waits for a person.
pub struct Driver {
    run: Run,
    journal: Box<dyn Journal>,
    store: Arc<dyn Store>,
    performer: Arc<dyn Performer>,
    clock: Arc<dyn Clock>,
    watchers: Vec<Box<dyn Watcher>>,
    commands: mpsc::Receiver<Command>,
    under_way: FuturesUnordered<BoxFuture<'static, Option<Input>>>,
    switch: CancelSwitch,
    cancel: Cancel,
    inbox_due: Interval,
    entries: Vec<Entry>,
}

/// What a driver needs from outside.
pub struct Parts {
    pub run: Run,
    pub journal: Box<dyn Journal>,
    pub store: Arc<dyn Store>,
    pub performer: Arc<dyn Performer>,
    pub clock: Arc<dyn Clock>,
    pub watchers: Vec<Box<dyn Watcher>>,
    pub commands: mpsc::Receiver<Command>,
}

/// Where driving a run led.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Completed,
    Failed,
    Paused(Cause),
    WaitingForHuman,
}

/// Everything that can wake the driver.
enum Awoken {
    By(Option<Input>),
    Asked(Command),
    InboxDue,
    NothingUnderWay,
}

impl Driver {
    pub fn new(parts: Parts) -> Driver {
        let (switch, cancel) = Cancel::new();
        let mut inbox_due = tokio::time::interval(Duration::from_millis(INBOX_POLL_MS));
        inbox_due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Driver {
            run: parts.run,
            journal: parts.journal,
            store: parts.store,
            performer: parts.performer,
            clock: parts.clock,
            watchers: parts.watchers,
            commands: parts.commands,
            under_way: FuturesUnordered::new(),
            switch,
            cancel,
            inbox_due,
            entries: Vec::new(),
        }
    }

    /// Starts with `first`, then goes on until the run rests. Returns the run as it was left.
    pub async fn drive(mut self, first: Vec<Input>) -> Result<(Run, Ending), Error> {
        for input in first {
            self.take(input)?;
        }
        self.empty_inbox()?;
        while self.run.status == Status::Running && !self.waits_for_human() {
            self.wait_and_take().await?;
        }
        self.wind_down().await?;
        let ending = ending(&self.run);
        put_down(&self.run, self.journal)?;
        Ok((self.run, ending))
    }

    /// Decide, append, apply, perform. Nothing is performed before its intent is on disk.
    fn take(&mut self, input: Input) -> Result<(), Error> {
        let at = self.clock.now();
        let decision = decide(&self.run, at, input)?;
        let space = self.append(at, &decision)?;
        self.apply(at, &decision.events)?;
        for effect in decision.effects {
            self.perform(effect);
        }
        match space {
            Space::Ample => Ok(()),
            Space::Reserve if self.run.status == Status::Running => self.take(Input::DiskLow),
            Space::Reserve => Ok(()),
        }
    }

    fn append(&mut self, at: Timestamp, decision: &Decision) -> Result<Space, Error> {
        if decision.events.is_empty() {
            return Ok(Space::Ample);
        }
        self.entries.clear();
        self.entries.extend(decision.events.iter().map(|event| fold::entry(at, event)));
        let (journal, entries) = (&mut self.journal, &self.entries);
        Ok(off_the_runtime(|| journal.append(entries))?.space)
    }

    fn apply(&mut self, at: Timestamp, events: &[Event]) -> Result<(), Error> {
        for event in events {
            let seq = self.run.seq + 1;
            self.run
                .apply(seq, at, event)
                .map_err(|misfit| Error::Journal { run: self.run.spec.id.clone(), source: misfit.into() })?;
            for watcher in &mut self.watchers {
                watcher.event(&self.run, seq, at, event);
            }
        }
        for watcher in &mut self.watchers {
            watcher.batch_ended(&self.run);
        }
        Ok(())
    }

    fn perform(&mut self, effect: Effect) {
        let work = match effect {
            Effect::CallModel { turn, attempt } => {
                Some(Work::CallModel { turn, attempt, request: prompt::request(&self.run, turn, attempt) })
            }
            Effect::PrepareTool { call, attempt } => self.tool_work(call, attempt).map(Work::PrepareTool),
            Effect::RunTool { call, attempt } => self.tool_work(call, attempt).map(Work::RunTool),
            Effect::CheckTool { call, attempt } => self.tool_work(call, attempt).map(Work::CheckTool),
            Effect::Sleep { wake, rest } => return self.sleep(wake, rest),
            Effect::CancelWork => return self.cancel_work(),
        };
        if let Some(work) = work {
            self.under_way.push(self.performer.perform(work, self.cancel.clone()));
        }
    }

    fn tool_work(&self, call: CallId, attempt: Attempt) -> Option<ToolWork> {
        let known = self.run.call(call)?;
        Some(ToolWork {
            run: self.run.spec.id.clone(),
            call,
            attempt,
            tool: known.tool.clone(),
            args: known.args.clone(),
            trace: known.trace().cloned(),
            timeout: Duration::from_millis(self.run.spec.retry.timeout_ms),
        })
    }

    /// Ends what is under way, and only that: what is started after a resume has a switch of its own.
    fn cancel_work(&mut self) {
        self.switch.cancel();
        (self.switch, self.cancel) = Cancel::new();
    }

    fn sleep(&mut self, wake: Wake, rest: Rest) {
        let cancel = self.cancel.clone();
        let sleep = self.clock.sleep(Duration::from_millis(rest.left_ms(self.clock.now())));
        self.under_way.push(Box::pin(async move {
            tokio::select! {
                () = sleep => Some(Input::Woke(wake)),
                () = cancel.cancelled() => None,
            }
        }));
    }

    async fn wait_and_take(&mut self) -> Result<(), Error> {
        match self.awoken().await {
            Awoken::By(Some(input)) => self.take(input),
            Awoken::By(None) => Ok(()),
            Awoken::Asked(command) => self.obey(command),
            Awoken::InboxDue => self.empty_inbox(),
            Awoken::NothingUnderWay => Err(Error::Stuck),
        }
    }

    async fn awoken(&mut self) -> Awoken {
        tokio::select! {
            // In this order, so that a run that never stops working still hears what is asked of it.
            biased;
            Some(command) = self.commands.recv() => Awoken::Asked(command),
            _ = self.inbox_due.tick() => Awoken::InboxDue,
            input = self.under_way.next() => match input {
                Some(input) => Awoken::By(input),
                None => Awoken::NothingUnderWay,
            },
        }
    }

    /// Applies what other processes asked for, each once. A command the run's status does not allow is dropped.
    fn empty_inbox(&mut self) -> Result<(), Error> {
        for posted in self.store.pending(&self.run.spec.id)? {
            if let Ok(command) = serde_json::from_slice::<Command>(&posted.body) {
                self.obey(command)?;
            }
            self.store.settle(&self.run.spec.id, &posted.id)?;
        }
        Ok(())
    }

    fn obey(&mut self, command: Command) -> Result<(), Error> {
        match self.take(Input::Command(command)) {
            Err(Error::Refused(
                Refusal::Transition { .. } | Refusal::NoGate { .. } | Refusal::Answered { .. },
            )) => Ok(()),
            other => other,
        }
    }

    /// A cancelled effect still says how it ended; that is remembered, so that the agent hears of it on resume.
    async fn wind_down(&mut self) -> Result<(), Error> {
        self.switch.cancel();
        let deadline = tokio::time::sleep(Duration::from_millis(WIND_DOWN_MS_MAX));
        tokio::pin!(deadline);
        loop {
            let input = tokio::select! {
                input = self.under_way.next() => input,
                () = &mut deadline => return Ok(()),
            };
            match input {
                Some(Some(input)) => self.take(input)?,
                Some(None) => {}
                None => return Ok(()),
            }
        }
    }

    fn waits_for_human(&self) -> bool {
        self.run.wait() == Wait::Human
    }
}

/// A run that has ended needs no room any more; one that has not keeps enough to be paused or stopped.
pub(crate) fn put_down(run: &Run, journal: Box<dyn Journal>) -> Result<(), Error> {
    let put_down = if run.status.is_terminal() { journal.close() } else { journal.rest() };
    Ok(put_down?)
}

fn ending(run: &Run) -> Ending {
    match run.status {
        Status::Completed => Ending::Completed,
        Status::Failed => Ending::Failed,
        Status::Created | Status::Paused => Ending::Paused(run.cause.unwrap_or(Cause::Asked)),
        Status::Running => Ending::WaitingForHuman,
    }
}

/// An append waits for the disk. On a runtime with several threads, others go on meanwhile.
fn off_the_runtime<T>(wait: impl FnOnce() -> T) -> T {
    match Runtime::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        Ok(_) | Err(_) => wait(),
    }
}
