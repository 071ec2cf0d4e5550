//! The driver: decide, append, apply, perform, in that order, in one function. Everything else here only waits.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use longhaul_core::child::{self, Child, Origin};
use longhaul_core::command::Command;
use longhaul_core::conduct::Looping;
use longhaul_core::effect::{Effect, Wake};
use longhaul_core::event::{Cause, Moment, Purpose, Rest, Stored};
use longhaul_core::ids::{Attempt, CallId};
use longhaul_core::input::Input;
use longhaul_core::run::{Call, Files, Run};
use longhaul_core::status::{Status, Wait};
use longhaul_core::{prompt, report};
use longhaul_tools::{Cancel, CancelSwitch, Earlier, Examine};
use longhaul_workspace::place;
use tokio::sync::mpsc;
use tokio::time::{Instant, Interval, MissedTickBehavior};

use crate::children::Charge;
use crate::clock::Clock;
use crate::error::Error;
use crate::ledger::Ledger;
use crate::limits::{CHECKPOINT_INTERVAL_MS_MIN, INBOX_POLL_MS, SLEEP_SLICE_MS, WIND_DOWN_MS_MAX};
use crate::perform::{Keep, Look, Looks, OwnBranch, Performer, Resting, ToolWork, Work};

/// Drives one run as its one writer, until it ends, pauses, or waits for a person.
pub struct Driver {
    ledger: Ledger,
    performer: Arc<dyn Performer>,
    clock: Arc<dyn Clock>,
    commands: mpsc::Receiver<Command>,
    under_way: FuturesUnordered<BoxFuture<'static, Option<Input>>>,
    switch: CancelSwitch,
    cancel: Cancel,
    inbox_due: Interval,
    checkpoint_due: Interval,
    /// The files are to be stored before anything else is done.
    storing: Option<Moment>,
    /// They cannot be, which is on record once.
    cannot_store: bool,
    /// How many named checkpoints have their files.
    named: usize,
    /// What prepares the workspace, if it is not prepared yet.
    preparation: Option<Preparation>,
    /// What was asked while it was being prepared and is for a run that is under way.
    put_off: Vec<Command>,
}

/// Commands that are run in a workspace before anybody works there.
pub struct Preparation {
    pub commands: Vec<String>,
    pub place: PathBuf,
}

/// What came of preparing a workspace.
enum Readiness {
    Ready,
    Failed(String),
    /// Somebody asked for an end of it meanwhile, and the run has obeyed.
    LeftOff,
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
    CheckpointDue,
    NothingUnderWay,
}

impl Driver {
    pub fn new(
        ledger: Ledger,
        performer: Arc<dyn Performer>,
        clock: Arc<dyn Clock>,
        commands: mpsc::Receiver<Command>,
    ) -> Driver {
        let (switch, cancel) = Cancel::new();
        let interval_ms = ledger.run().spec.checkpoint_interval_ms.max(CHECKPOINT_INTERVAL_MS_MIN);
        let under_way = FuturesUnordered::new();
        let (inbox_due, checkpoint_due) = (every(INBOX_POLL_MS), every(interval_ms));
        let named = ledger.run().checkpoint_names.len();
        Driver {
            ledger,
            performer,
            clock,
            commands,
            under_way,
            switch,
            cancel,
            inbox_due,
            checkpoint_due,
            storing: None,
            cannot_store: false,
            named,
            preparation: None,
            put_off: Vec::new(),
        }
    }

    /// The same with a workspace to be prepared first.
    #[must_use]
    pub fn preparing(self, preparation: Option<Preparation>) -> Driver {
        Driver { preparation, ..self }
    }

    /// Starts with `first`, then goes on until the run rests. Returns the run as it was left.
    pub async fn drive(mut self, first: Input) -> Result<(Run, Ending), Error> {
        match self.set_up().await? {
            Readiness::Ready => {}
            Readiness::Failed(why) => {
                let run = self.ledger.put_down()?.spec.id;
                return Err(Error::SetUp { run, why });
            }
            Readiness::LeftOff => {
                let run = self.ledger.put_down()?;
                let ending = ending(&run);
                return Ok((run, ending));
            }
        }
        self.take(first)?;
        for command in std::mem::take(&mut self.put_off) {
            self.take_command(command)?;
        }
        self.take_inbox()?;
        loop {
            while self.is_at_work() {
                self.keep_work().await?;
                self.store_files().await?;
                self.wait_and_take().await?;
            }
            self.wind_down().await?;
            // An answer that came while nobody was expected any more is worked on like any other.
            if !self.is_at_work() {
                break;
            }
        }
        self.rest().await?;
        self.keep_work().await?;
        self.storing = Some(Moment::Now);
        self.store_files().await?;
        let run = self.ledger.put_down()?;
        let ending = ending(&run);
        Ok((run, ending))
    }

    /// Has a fresh workspace prepared, before the run is told to begin. One that cannot be leaves the run as it was, to be started
    /// again. Who wants an end of it is heard meanwhile. That it is ready is noted beside it: a resumed run finds it so, and a fork,
    /// which has a workspace of its own, does not.
    async fn set_up(&mut self) -> Result<Readiness, Error> {
        let Some(Preparation { commands, place }) = self.preparation.take() else {
            return Ok(Readiness::Ready);
        };
        self.take(Input::SetUpStarted { commands: commands.clone() })?;
        let work = Work::SetUp { run: self.run().spec.id.clone(), commands: commands.clone() };
        let mut preparing = self.performer.perform(work, self.cancel.clone());
        let ended = loop {
            tokio::select! {
                ended = &mut preparing => break ended,
                Some(command) = self.commands.recv() => {
                    if command.wish.is_rest() {
                        self.take_command(command)?;
                    } else {
                        self.put_off.push(command);
                    }
                }
                _ = self.inbox_due.tick() => {
                    let effects = self.ledger.obey_rests()?;
                    self.perform_all(effects);
                }
            }
        };
        let left_off = !self.run().setting_up;
        let Some(Input::SetUpEnded { error, duration_us }) = ended else { return Err(Error::Stuck) };
        self.take(Input::SetUpEnded { error: error.clone(), duration_us })?;
        match error {
            Some(_) if left_off => return Ok(Readiness::LeftOff),
            Some(why) => return Ok(Readiness::Failed(why)),
            None => {}
        }
        let failed = |error| Error::Workspace { path: place.clone(), source: Box::new(error) };
        place::mark_ready(&place, &commands).map_err(failed)?;
        Ok(if left_off { Readiness::LeftOff } else { Readiness::Ready })
    }

    /// Decide, append, apply (all in the ledger), perform. Nothing is performed before its intent is on disk.
    fn take(&mut self, input: Input) -> Result<(), Error> {
        let effects = self.ledger.commit(input)?;
        self.perform_all(effects);
        Ok(())
    }

    fn take_inbox(&mut self) -> Result<(), Error> {
        let effects = self.ledger.empty_inbox()?;
        self.perform_all(effects);
        Ok(())
    }

    fn take_command(&mut self, command: Command) -> Result<(), Error> {
        let effects = self.ledger.obey(command)?;
        self.perform_all(effects);
        Ok(())
    }

    fn perform_all(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.perform(effect);
        }
    }

    fn run(&self) -> &Run {
        self.ledger.run()
    }

    fn perform(&mut self, effect: Effect) {
        self.storing = self.storing.or(due(&effect, &self.run().files));
        let work = match effect {
            Effect::CallModel { turn, attempt } => {
                let (request, has_images) =
                    (prompt::request(self.run(), turn, attempt), self.run().has_images);
                Some(Work::CallModel { turn, attempt, request, has_images })
            }
            Effect::PrepareTool { call, attempt } => self.tool_work(call, attempt).map(Work::PrepareTool),
            Effect::RunTool { call, attempt } => self.tool_work(call, attempt).map(Work::RunTool),
            Effect::CheckTool { call, attempt } => self.tool_work(call, attempt).map(Work::CheckTool),
            Effect::Examine { round, attempt, purpose } => {
                Some(Work::Examine(self.look(round, attempt, purpose)))
            }
            Effect::AskAside { aside, attempt } => {
                Some(Work::AskAside { aside, attempt, request: prompt::aside(self.run(), aside, attempt) })
            }
            Effect::Attend { child } => self.charge(child).map(Work::Attend),
            Effect::AwaitAnswer { child } => self.charge(child).map(Work::AwaitAnswer),
            Effect::EndChild { child, reason } => {
                self.charge(child).map(|charge| Work::EndChild { charge, reason })
            }
            Effect::Sleep { wake, rest } => return self.sleep(wake, rest),
            Effect::CancelWork => return self.cancel_work(),
        };
        if let Some(work) = work {
            self.under_way.push(self.performer.perform(work, self.cancel.clone()));
        }
    }

    /// Has what works in the background ended: it would go on while its work is kept.
    async fn rest(&mut self) -> Result<(), Error> {
        let run = self.run();
        // Whoever commits looks then, and a parent where its children work in its own place.
        let is_in_parents_place = run.spec.parent.is_some() && run.spec.family().is_none();
        let is_looked_at = is_in_parents_place || self.owed().is_some();
        let looks = if is_looked_at { Looks::Quick } else { Looks::Whole };
        let own = run.spec.branch.as_ref().filter(|_| !run.children.is_empty());
        let own = own.map(|branch| OwnBranch { branch: branch.clone(), base: run.spec.base.clone() });
        let resting = Resting { run: run.spec.id.clone(), looks, own };
        let (_switch, never) = Cancel::new();
        match self.performer.perform(Work::Rest(resting), never).await {
            Some(input) => self.take(input),
            None => Ok(()),
        }
    }

    /// Has what a step left in the worktree committed, if that is wanted and not yet on record. Done between two inputs, and not
    /// while sub-agents write there: half of their work would be in it. Those with a branch of their own begin at what is committed.
    async fn keep_work(&mut self) -> Result<(), Error> {
        let Some(keep) = self.owed() else { return Ok(()) };
        let (_switch, never) = Cancel::new();
        match self.performer.perform(Work::Keep(keep), never).await {
            Some(input) => self.take(input),
            None => Ok(()),
        }
    }

    fn owed(&self) -> Option<Keep> {
        let run = self.run();
        let settled = matches!(run.status, Status::Running | Status::Completed);
        let others_write = run.spec.family().is_none() && run.live_children().any(Child::is_working);
        let steps = run.plan.completed_count() as u32;
        (run.owes_commit() && settled && !others_write).then(|| Keep {
            run: run.spec.id.clone(),
            steps,
            message: report::commit_message(run),
        })
    }

    /// Has the files of the workspace stored where a turn ends, before the first change and with a named checkpoint. Done
    /// before what is under way is looked at again, so that nothing of this turn changes them meanwhile.
    async fn store_files(&mut self) -> Result<(), Error> {
        let (run, asked) = (self.ledger.run(), self.storing.take());
        let is_named =
            run.checkpoint_names.len() > std::mem::replace(&mut self.named, run.checkpoint_names.len());
        let first = asked.filter(|moment| *moment == Moment::BeforeFirst);
        let now = is_named.then_some(Moment::Now);
        let moment = match &run.files {
            Files::Stored { .. } => None,
            Files::Changed => asked.or(now),
            Files::Beginning => first.or(now),
            Files::Untouched => now,
        };
        // A child works where its parent does, whose checkpoints hold what it leaves; what has a name is its own.
        let is_ours = run.spec.parent.is_none() || is_named;
        let Some(moment) = moment.filter(|_| is_ours && !self.cannot_store) else {
            return Ok(());
        };
        let (_switch, never) = Cancel::new();
        let Some(input) = self.performer.perform(Work::StoreFiles { moment }, never).await else {
            self.cannot_store = true;
            return Ok(());
        };
        self.cannot_store = matches!(input, Input::FilesStored { stored: Stored::Failed { .. }, .. });
        self.take(input)
    }

    fn look(&self, round: u32, attempt: Attempt, purpose: Purpose) -> Look {
        let run = self.run();
        let conduct = run.spec.conduct();
        let baseline = run.baseline.as_ref();
        let examine = Examine {
            purpose,
            verify: run.verify_for(purpose),
            protect: conduct.protect.clone(),
            features: conduct.looping.as_ref().is_some_and(Looping::is_by_features),
            baseline: baseline.and_then(|baseline| baseline.protected.clone()),
            feature_list: run.feature_list.clone(),
            base: baseline.and_then(|baseline| baseline.commit.clone()),
            judged: conduct.judge.is_some(),
        };
        let baseline_of = run.spec.baseline_of.clone();
        let is_in_place = run.spec.branch.is_none();
        Look { run: run.spec.id.clone(), round, attempt, examine, baseline_of, is_in_place }
    }

    fn charge(&self, number: u32) -> Option<Charge> {
        let Child { errand, ledger, model, .. } = self.run().child(number)?;
        let spec = Box::new(child::spec(self.run(), errand));
        let is_own = errand.agent == self.run().spec.agent;
        let call = match errand.origin {
            // A second try is of the same call.
            Origin::Call { call } if errand.attempt == Attempt::FIRST => {
                self.run().call(call).and_then(|known| self.tool_work(call, known.attempt()))
            }
            Origin::Call { .. } | Origin::Step { .. } => None,
        };
        let idle = Duration::from_millis(self.run().spec.max_child_idle_ms());
        let (errand, ledger, model) = (errand.clone(), *ledger, model.clone());
        Some(Charge { number, errand, spec, is_own, ledger, model, call, idle })
    }

    fn tool_work(&self, call: CallId, attempt: Attempt) -> Option<ToolWork> {
        let known = self.run().call(call)?;
        Some(ToolWork {
            run: self.run().spec.id.clone(),
            call,
            attempt,
            tool: known.tool.to_string(),
            args: known.args.clone(),
            traces: known.traces().to_vec(),
            asked_at: known.asked_at,
            // Leave that a rule asked for says nothing about what a hook has against the call.
            granted: known.granted && known.next != Attempt::FIRST,
            cwd: self.run().cwd.clone(),
            seen: self.seen(known),
            timeout: Duration::from_millis(self.run().spec.retry.timeout_ms),
        })
    }

    /// What the conversation has last seen of the file that an edit is about.
    fn seen(&self, call: &Call) -> Option<String> {
        if call.tool != "edit" {
            return None;
        }
        let run = self.run();
        let before = run.calls.iter().rev().filter(|other| {
            other.id < call.id && (other.step, other.iteration) == (call.step, call.iteration)
        });
        let earlier = before.filter_map(|other| {
            Some(Earlier { tool: &other.tool, args: &other.args, outcome: other.outcome()? })
        });
        longhaul_tools::seen(Path::new(&run.spec.workspace), &call.args, earlier)
    }

    /// Ends what is under way, and only that: what is started after a resume has a switch of its own.
    fn cancel_work(&mut self) {
        self.switch.cancel();
        (self.switch, self.cancel) = Cancel::new();
    }

    fn sleep(&mut self, wake: Wake, rest: Rest) {
        let (cancel, clock) = (self.cancel.clone(), Arc::clone(&self.clock));
        self.under_way.push(Box::pin(async move {
            tokio::select! {
                () = sleep_through(clock.as_ref(), rest) => Some(Input::Woke(wake)),
                () = cancel.cancelled() => None,
            }
        }));
    }

    async fn wait_and_take(&mut self) -> Result<(), Error> {
        let at_once = self.awoken().now_or_never();
        let awoken = match at_once {
            Some(awoken) => awoken,
            None => {
                self.ledger.rested()?;
                self.awoken().await
            }
        };
        match awoken {
            Awoken::By(Some(input)) => self.take(input),
            Awoken::By(None) => Ok(()),
            Awoken::Asked(command) => self.take_command(command),
            Awoken::InboxDue => self.take_inbox(),
            Awoken::CheckpointDue => self.take(Input::CheckpointDue),
            Awoken::NothingUnderWay => Err(Error::Stuck),
        }
    }

    async fn awoken(&mut self) -> Awoken {
        tokio::select! {
            // In this order, so that a run that never stops working still hears what is asked of it.
            biased;
            Some(command) = self.commands.recv() => Awoken::Asked(command),
            _ = self.inbox_due.tick() => Awoken::InboxDue,
            _ = self.checkpoint_due.tick() => Awoken::CheckpointDue,
            input = self.under_way.next() => match input {
                Some(input) => Awoken::By(input),
                None => Awoken::NothingUnderWay,
            },
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
                // What was asked in the meantime belongs to this drive, not to the next.
                None => {
                    (self.switch, self.cancel) = Cancel::new();
                    self.take_inbox()?;
                    if self.is_at_work() || self.under_way.is_empty() {
                        return Ok(());
                    }
                    // Who is stopped only now has those below it to end.
                    self.switch.cancel();
                }
            }
        }
    }

    /// A planner may also be asked for a run that is not under way.
    fn is_at_work(&self) -> bool {
        let run = self.run();
        run.is_planning() || (run.status == Status::Running && run.wait() != Wait::Human)
    }
}

/// Are the files to be stored before this is done?
fn due(effect: &Effect, files: &Files) -> Option<Moment> {
    match effect {
        // A turn begins: no tool is at work.
        Effect::CallModel { .. } => Some(Moment::Now),
        Effect::RunTool { .. } | Effect::Attend { .. } if *files == Files::Beginning => {
            Some(Moment::BeforeFirst)
        }
        Effect::RunTool { .. }
        | Effect::Attend { .. }
        | Effect::PrepareTool { .. }
        | Effect::CheckTool { .. }
        | Effect::Examine { .. }
        | Effect::AskAside { .. }
        | Effect::AwaitAnswer { .. }
        | Effect::EndChild { .. }
        | Effect::Sleep { .. }
        | Effect::CancelWork => None,
    }
}

/// Waits in slices: a machine that is asleep does not count the time, and looks at the clock when it wakes.
async fn sleep_through(clock: &dyn Clock, rest: Rest) {
    loop {
        let left_ms = rest.left_ms(clock.now());
        if left_ms == 0 {
            return;
        }
        clock.sleep(Duration::from_millis(left_ms.min(SLEEP_SLICE_MS))).await;
        // The whole wait in one slice is the whole wait, wherever the clock went.
        if left_ms <= SLEEP_SLICE_MS {
            return;
        }
    }
}

fn ending(run: &Run) -> Ending {
    match run.status {
        Status::Completed => Ending::Completed,
        Status::Failed => Ending::Failed,
        Status::Created | Status::Paused => Ending::Paused(run.cause.unwrap_or(Cause::Asked)),
        Status::Running => Ending::WaitingForHuman,
    }
}

/// Ticks first after one period, and is late rather than hurried.
fn every(period_ms: u64) -> Interval {
    let period = Duration::from_millis(period_ms);
    let mut interval = tokio::time::interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
