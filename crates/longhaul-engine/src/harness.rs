//! The whole of longhaul behind one door: create runs, drive them, ask things of them, look at them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use longhaul_core::budget::Budget;
use longhaul_core::command::{Command, Wish};
use longhaul_core::conduct::{Checks, Looping};
use longhaul_core::decide::decide;
use longhaul_core::document;
use longhaul_core::effect::Effect;
use longhaul_core::event::{Event, Moment};
use longhaul_core::evidence::Examination;
use longhaul_core::ids::{Attempt, CommandId, RunId};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::run::Run;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_model::wire::ToolOffer;
use longhaul_model::{Deltas, Models, Quiet};
use longhaul_store::engine::Repaired;
use longhaul_store::{Backend, Entry, Home, Memory, Store, Writer};
use longhaul_tools::{Cancel, Examine, ToolSpec, Toolbox};
use longhaul_workspace::place::{self, Place};
use longhaul_workspace::{Guard, Workspace, carry};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::accounts::{Accounts, Frugal};
use crate::asking::Shelf;
use crate::catalogue::{self, Clerk, RowKeeper};
use crate::children::Crew;
use crate::clock::{Clock, fresh_bits};
use crate::driver::{Driver, Ending, Preparation};
use crate::error::{Error, Unreadable};
use crate::exchange::Export;
use crate::fold::{Fold, Onlooker, entry};
use crate::ledger::Ledger;
use crate::limits::HANDLE_COMMANDS_MAX;
use crate::listing::journal_mtime_ns;
use crate::log::EventLog;
use crate::needs::NeedsKeeper;
use crate::perform::{Hands, Look, Performer, RunBlobs, Work, stored};
use crate::retention::Quota;
use crate::secrets::Secrets;
use crate::watch::Watcher;

/// Cheap to clone; holds no run open.
#[derive(Clone)]
pub struct Harness {
    keeping: Keeping,
    /// Keeps the rows of the runs driven here; called in with the first of them.
    clerk: Arc<OnceLock<Arc<Clerk>>>,
    pub toolbox: Arc<Toolbox>,
    pub models: Arc<Models>,
    pub clock: Arc<dyn Clock>,
    /// What holds the commands of the runs driven here; on record with each of them.
    contained: Option<String>,
    /// What of the user's own no tool touches, wherever it is.
    hidden: Arc<[PathBuf]>,
    /// Ignored paths that a fresh worktree gets from the checkout.
    copied: Arc<[String]>,
    /// Commands that prepare a fresh workspace.
    setup: Arc<[String]>,
    /// Bytes that the stored files of all workspaces may take.
    checkpoints_quota: Arc<Quota>,
    /// What is written nowhere.
    secrets: Secrets,
    /// Who knows the agents that errands are given to.
    crew: Option<Arc<dyn Crew>>,
    /// What all runs kept here may use together.
    budget: Budget,
    accounts: Option<Arc<Accounts>>,
}

/// Where runs are kept.
#[derive(Clone)]
enum Keeping {
    Durable(Arc<Home>),
    /// In a store and nowhere else: no catalogue, no log. In memory for `harness.enabled: false`, where nothing outlives the process.
    Bare(Arc<dyn Store>),
}

/// With what a run is taken up.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    pub limits: Option<Limits>,
    pub model: Option<String>,
    /// Other iterations or another promise, for a loop.
    pub looping: Option<Looping>,
    /// Other things that must hold before an end counts.
    pub checks: Option<Checks>,
}

/// A run being driven in this process.
pub struct Driven {
    pub handle: Handle,
    pub task: JoinHandle<Result<(Run, Ending), Error>>,
}

/// Asks things of a run that is being driven in this process. Cheap to clone.
#[derive(Clone)]
pub struct Handle {
    commands: mpsc::Sender<Command>,
    clock: Arc<dyn Clock>,
}

impl Handle {
    /// Hands a wish to the driver; lost if the run has just ended, which is what most wishes wanted anyway.
    pub fn ask(&self, wish: Wish) -> Result<(), Error> {
        let id = CommandId::from_bits(fresh_bits(self.clock.now())?);
        drop(self.commands.try_send(Command { id, wish }));
        Ok(())
    }
}

impl Driven {
    /// Waits for the run to rest. A panic of its driver is an error of this run only.
    pub async fn rest(self) -> Result<(Run, Ending), Error> {
        self.task.await.unwrap_or_else(|failed| Err(Error::Driver(failed.to_string())))
    }
}

impl Harness {
    pub fn durable(home: Arc<Home>, toolbox: Toolbox, models: Models, clock: Arc<dyn Clock>) -> Harness {
        Harness::new(Keeping::Durable(home), toolbox, models, clock)
    }

    pub fn forgetful(toolbox: Toolbox, models: Models, clock: Arc<dyn Clock>) -> Harness {
        Harness::kept_in(Arc::new(Memory::default()), toolbox, models, clock)
    }

    /// A harness that keeps journals in that store, and nothing else anywhere.
    pub fn kept_in(
        store: Arc<dyn Store>,
        toolbox: Toolbox,
        models: Models,
        clock: Arc<dyn Clock>,
    ) -> Harness {
        Harness::new(Keeping::Bare(store), toolbox, models, clock)
    }

    fn new(keeping: Keeping, toolbox: Toolbox, models: Models, clock: Arc<dyn Clock>) -> Harness {
        let clerk = Arc::default();
        let models = Models { offers: offers(&toolbox), ..models };
        let secrets = Secrets::new(models.secrets());
        let (toolbox, models) = (Arc::new(toolbox), Arc::new(models));
        Harness {
            keeping,
            clerk,
            toolbox,
            models,
            clock,
            contained: None,
            hidden: Arc::default(),
            copied: Arc::default(),
            setup: Arc::default(),
            checkpoints_quota: Arc::default(),
            secrets,
            crew: None,
            budget: Budget::default(),
            accounts: None,
        }
    }

    /// The same with what was found to hold the commands of its tools.
    #[must_use]
    pub fn contained(self, by: String) -> Harness {
        Harness { contained: Some(by), ..self }
    }

    /// The same with what all runs kept here may use together. What leaves no trace cannot be counted.
    #[must_use]
    pub fn with_budget(self, budget: Budget) -> Harness {
        let home = self.home().filter(|_| !budget.is_unlimited()).cloned();
        let accounts = home.map(|home| Arc::new(Accounts::new(home, budget, Arc::clone(&self.clock))));
        Harness { budget, accounts, ..self }
    }

    /// What all runs kept here have used, if there is a budget for it.
    pub fn accounts(&self) -> Option<&Arc<Accounts>> {
        self.accounts.as_ref()
    }

    /// The same with secrets that others may know of, and learn.
    #[must_use]
    pub fn with_secrets(self, secrets: Secrets) -> Harness {
        secrets.learn(self.models.secrets());
        Harness { secrets, ..self }
    }

    /// The same with someone who knows the agents that errands are given to.
    #[must_use]
    pub fn with_crew(self, crew: Arc<dyn Crew>) -> Harness {
        Harness { crew: Some(crew), ..self }
    }

    pub fn crew(&self) -> Option<&Arc<dyn Crew>> {
        self.crew.as_ref()
    }

    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The same with places that no tool reads or writes, given with their links resolved: the user's own settings, which a
    /// run that works in place may have in its workspace.
    #[must_use]
    pub fn hiding(self, paths: Vec<PathBuf>) -> Harness {
        Harness { hidden: paths.into(), ..self }
    }

    /// The same with ignored paths that a fresh worktree gets from the checkout.
    #[must_use]
    pub fn copying(self, paths: Vec<String>) -> Harness {
        Harness { copied: paths.into(), ..self }
    }

    /// The same with commands that prepare a fresh workspace.
    #[must_use]
    pub fn setting_up(self, commands: Vec<String>) -> Harness {
        Harness { setup: commands.into(), ..self }
    }

    /// What prepares the workspace of a run, if that is not done. One that it works in with others, or that is the user's, is not
    /// its to prepare.
    fn preparation(&self, run: &Run) -> Option<Preparation> {
        let place = PathBuf::from(&run.spec.workspace);
        let commands = self.setup.to_vec();
        let is_due = self.is_prepared(run) && !commands.is_empty() && !place::is_ready(&place, &commands);
        is_due.then_some(Preparation { commands, place })
    }

    /// Does a run work where what prepares a fresh workspace is run?
    pub fn is_prepared(&self, run: &Run) -> bool {
        let shares = run.spec.parent.is_some() && run.spec.family().is_none();
        let is_ours = !matches!(self.place(run, Path::new(&run.spec.workspace)), Place::InPlace(_));
        is_ours && !shares
    }

    /// The same with a bound for what the stored files of all workspaces take.
    #[must_use]
    pub fn storing_at_most(self, bytes: Option<u64>) -> Harness {
        Harness { checkpoints_quota: Arc::new(Quota::new(bytes)), ..self }
    }

    pub(crate) fn checkpoints_quota(&self) -> Arc<Quota> {
        Arc::clone(&self.checkpoints_quota)
    }

    pub fn new_run_id(&self) -> Result<RunId, Error> {
        Ok(RunId::from_bits(fresh_bits(self.clock.now())?))
    }

    /// Brings a run into being, in status created. A key that stands in what it is told is struck out: it would be in the
    /// journal for ever.
    pub fn create(&self, mut spec: RunSpec) -> Result<Run, Error> {
        spec.check()?;
        self.secrets.learn(self.models.secrets());
        let steps = spec.plan.steps.iter_mut().map(|step| &mut step.description);
        for text in steps.chain([&mut spec.task, &mut spec.prompt]) {
            *text = self.secrets.strike(text).into_owned();
        }
        let id = spec.id.clone();
        self.begin(&id, Event::RunCreated(Box::new(spec)))
    }

    /// Takes in a state document as a run under its own name, or under another.
    pub fn import(&self, text: &str, defaults: RunSpec, rename: Option<RunId>) -> Result<Run, Error> {
        let mut spec = document::spec(text, defaults)?;
        let value: serde_json::Value = serde_json::from_str(text).map_err(document::Error::from)?;
        let document = match rename {
            Some(id) => {
                spec.id = id;
                renamed(value, &spec.id)
            }
            None => Json::of(&value),
        };
        let id = spec.id.clone();
        self.begin(&id, Event::Imported { document, spec: Box::new(spec) })
    }

    /// A run with everything that is not derived.
    pub fn export(&self, id: &RunId) -> Result<Export, Error> {
        let mut export = Export::default();
        let mut onlooker = self.onlooker(id)?;
        onlooker.look(&mut |_, _, at, event| export.events.push((at, event.clone())))?;
        if onlooker.not_understood > 0 {
            let why = "it holds events of a newer longhaul, which an export would lose".to_owned();
            return Err(Error::Export { path: id.to_string(), why });
        }
        let store = self.store_of(id)?;
        for hash in onlooker.run()?.blobs() {
            export.blobs.push(store.blob(id, hash)?);
        }
        Ok(export)
    }

    /// Takes in a run as it was exported, under another name.
    pub fn adopt(&self, id: &RunId, mut export: Export) -> Result<Run, Error> {
        let run = self.renamed(id, &mut export)?;
        let Export { events, blobs } = export;
        let entries: Vec<Entry> = events.iter().map(|(at, event)| entry(*at, event)).collect();
        let (store, _) = self.store_for_new(&run.spec)?;
        store.create(id, &self.writer(), &entries)?.close()?;
        for blob in blobs {
            store.put_blob(id, &blob)?;
        }
        self.keep_row(&run, store.as_ref());
        Ok(run)
    }

    /// Gives an export another name, and says what run it is then.
    pub(crate) fn renamed(&self, id: &RunId, export: &mut Export) -> Result<Run, Error> {
        match export.events.first_mut() {
            Some((_, Event::RunCreated(spec))) => spec.id = id.clone(),
            Some((_, Event::Imported { spec, document })) => {
                spec.id = id.clone();
                *document = renamed(document.value(), id);
            }
            Some(_) | None => {}
        }
        let entries = export.events.iter().map(|(at, event)| entry(*at, event));
        let mut fold = Fold::default();
        for (index, entry) in entries.enumerate() {
            let record = longhaul_store::Record {
                seq: index as u64 + 1,
                at: entry.at,
                kind: entry.kind,
                version: entry.version,
                payload: &entry.payload,
            };
            fold.take(record).map_err(|source| Error::Journal { run: id.clone(), source })?;
        }
        fold.into_run(id)
    }

    fn begin(&self, id: &RunId, first: Event) -> Result<Run, Error> {
        let at = self.clock.now();
        let mut run = Run::first(1, at, &first)
            .map_err(|misfit| Error::Journal { run: id.clone(), source: misfit.into() })?;
        let (store, fallback) = self.store_for_new(&run.spec)?;
        let mut events = vec![first];
        if let Some(reason) = fallback {
            events.push(Event::PersistenceFellBack { reason });
        }
        for (index, event) in events.iter().enumerate().skip(1) {
            run.apply(index as u64 + 1, at, event)
                .map_err(|misfit| Error::Journal { run: id.clone(), source: misfit.into() })?;
        }
        let entries: Vec<Entry> = events.iter().map(|event| entry(at, event)).collect();
        store.create(id, &self.writer(), &entries)?.close()?;
        self.keep_row(&run, store.as_ref());
        Ok(run)
    }

    /// Takes a run up in this process: starts it if it was created or paused, recovers it if its process died.
    /// Must be called on a tokio runtime.
    pub fn drive(
        &self,
        id: &RunId,
        opening: Opening,
        watchers: Vec<Box<dyn Watcher>>,
        deltas: Arc<dyn Deltas>,
    ) -> Result<Driven, Error> {
        let wanted = opening.clone();
        let first = |run: &Run, generation: u64| {
            self.check_parent(run)?;
            self.first_input(run, generation, opening)
        };
        self.take_up(id, &wanted, first, watchers, deltas)
    }

    /// The same for whoever was sent, by the one that sent it: who drives a run need not look whether it has ended.
    pub(crate) fn drive_child(
        &self,
        id: &RunId,
        opening: Opening,
        watcher: Box<dyn Watcher>,
    ) -> Result<Driven, Error> {
        let wanted = opening.clone();
        let first = |run: &Run, generation: u64| self.first_input(run, generation, opening);
        self.take_up(id, &wanted, first, vec![watcher], Arc::new(Quiet))
    }

    /// Asks the planner of a run for its steps, or for other ones, and does nothing else.
    pub fn plan(&self, id: &RunId, watchers: Vec<Box<dyn Watcher>>) -> Result<Driven, Error> {
        let first = |run: &Run, _: u64| {
            self.check_parent(run)?;
            Ok(Input::Command(self.command(Wish::Plan)?))
        };
        self.take_up(id, &Opening::default(), first, watchers, Arc::new(Quiet))
    }

    fn take_up(
        &self,
        id: &RunId,
        wanted: &Opening,
        first: impl FnOnce(&Run, u64) -> Result<Input, Error>,
        watchers: Vec<Box<dyn Watcher>>,
        deltas: Arc<dyn Deltas>,
    ) -> Result<Driven, Error> {
        let (store, fallback) = self.store_to_drive(id)?;
        let (mut ledger, generation) = self.open(Arc::clone(&store), id, watchers)?;
        // What was asked before this is settled first; nothing it leads to is under way, as after any crash.
        let asked = ledger.settle_all_but_answers()?;
        self.end_children(ledger.run(), asked)?;
        if let Some(reason) = fallback {
            ledger.commit(Input::FellBack { reason })?;
        }
        let first = first(ledger.run(), generation)?;
        // A run that may not start is refused before anything is done for it.
        decide(ledger.run(), self.clock.now(), first.clone())?;
        // What our dead predecessor left running would work against us.
        longhaul_tools::reap_leftovers(id);
        let models = self.models_for(ledger.run(), wanted)?;
        if let Some(by) = self.contained.clone() {
            ledger.commit(Input::Contained { by })?;
        }
        if let Some(checks) = &wanted.checks {
            ledger.commit(Input::ChecksChanged { checks: checks.clone() })?;
        }
        let hands = self.hands(ledger.run(), &store, models, deltas)?;
        let (sender, commands) = mpsc::channel(HANDLE_COMMANDS_MAX);
        let hands: Arc<dyn Performer> = Arc::new(hands);
        let performer = match self.accounts.clone() {
            Some(accounts) => Arc::new(Frugal { performer: hands, accounts, run: id.clone() }),
            None => hands,
        };
        let preparation = self.preparation(ledger.run());
        let driver = Driver::new(ledger, performer, Arc::clone(&self.clock), commands).preparing(preparation);
        let (harness, resting) = (self.clone(), id.clone());
        let task = tokio::spawn(async move {
            let rested = driver.drive(first).await;
            harness.toolbox.rest(&resting).await;
            if let Ok((run, _)) = &rested {
                harness.keep_row(run, store.as_ref());
            }
            rested
        });
        Ok(Driven { handle: Handle { commands: sender, clock: Arc::clone(&self.clock) }, task })
    }

    fn hands(
        &self,
        run: &Run,
        store: &Arc<dyn Store>,
        models: Shelf,
        deltas: Arc<dyn Deltas>,
    ) -> Result<Hands, Error> {
        let secrets = self.secrets.clone();
        let blobs = RunBlobs {
            store: Arc::clone(store),
            run: run.spec.id.clone(),
            secrets: secrets.clone(),
            earlier: run.spec.baseline_of.clone(),
        };
        Ok(Hands {
            models: Arc::new(models),
            secrets,
            deltas,
            toolbox: Arc::clone(&self.toolbox),
            workspace: Arc::new(self.workspace(run)?),
            rules: run.spec.rules().into(),
            scratch: self.home().map_or_else(std::env::temp_dir, |home| home.dir().join("scratch")),
            blobs: Arc::new(blobs),
            harness: Some(self.clone()),
        })
    }

    /// Looks at the work of a run that nobody drives: what the commands say of its files as they are. Nothing goes into its
    /// journal. `None` if it was cancelled. What a killed look left running is ended first.
    pub async fn examine(
        &self,
        run: &Run,
        examine: Examine,
        cancel: Cancel,
    ) -> Result<Option<Examination>, Error> {
        let id = run.spec.id.clone();
        longhaul_tools::reap_leftovers(&id);
        let shelf = Shelf::new(Arc::clone(&self.models), self.secrets.clone());
        let hands = self.hands(run, &self.store_of(&id)?, shelf, Arc::new(Quiet))?;
        let (round, attempt) = (run.examinations + 1, Attempt::FIRST);
        let look = Look { run: id, round, attempt, examine, baseline_of: None };
        Ok(match hands.perform(Work::Examine(look), cancel).await {
            Some(Input::Examined { found, .. }) => Some(*found),
            Some(_) | None => None,
        })
    }

    /// The models a run goes on with, if it can: there is one to ask, and what a limit on cost needs is known of all of them.
    pub fn models_for(&self, run: &Run, opening: &Opening) -> Result<Shelf, Error> {
        let shelf = Shelf::new(Arc::clone(&self.models), self.secrets.clone());
        let name = opening.model.as_ref().unwrap_or(&run.spec.model);
        let mut usable = Vec::new();
        match shelf.get(name) {
            Ok(model) => usable.push((name, model)),
            // With another to turn to, one that cannot be had is the run's to get over.
            Err(_) if opening.model.is_none() && self.any_other(run, &shelf) => {}
            Err(source) => return Err(Error::Model { name: name.clone(), source }),
        }
        // A fallback's key is asked for while somebody may be there to unlock it, and so that it is known as a secret. One that
        // cannot be had is met when it is needed.
        let fallbacks = run.spec.models.iter().flatten();
        usable.extend(fallbacks.filter_map(|name| Some((name, shelf.get(name).ok()?))));
        let costs = opening.limits.unwrap_or(run.spec.limits).limit_cost() || self.budget.limits_cost();
        match usable.into_iter().find(|(_, model)| costs && !model.is_priced()) {
            Some((name, _)) => Err(Error::Unpriced { name: name.clone() }),
            None => Ok(shelf),
        }
    }

    fn any_other(&self, run: &Run, shelf: &Shelf) -> bool {
        run.spec.models.iter().flatten().any(|name| *name != run.spec.model && shelf.get(name).is_ok())
    }

    /// Leaves a command with a run, whoever drives it, now or later.
    pub fn post(&self, id: &RunId, command: &Command) -> Result<(), Error> {
        let body = serde_json::to_vec(command).unwrap_or_default();
        Ok(self.store_of(id)?.post(id, &command.id, &body)?)
    }

    /// Applies a wish to a run that nobody drives and that need not be driven for it: stopping a paused run. What was
    /// asked earlier and is still in the inbox comes first.
    pub fn apply(&self, id: &RunId, command: Command) -> Result<Run, Error> {
        let store = self.store_of(id)?;
        let (mut ledger, _) = self.open(Arc::clone(&store), id, Vec::new())?;
        let mut effects = ledger.settle_all_but_answers()?;
        // A run that is paused or stopped after its process died must not go on working behind our back.
        self.reap(id);
        let is_checkpoint = matches!(command.wish, Wish::Checkpoint { .. });
        effects.extend(ledger.commit(Input::Command(command))?);
        if let Some(home) = self.home().filter(|_| is_checkpoint) {
            let stored = stored(Path::new(&ledger.run().spec.workspace), home.dir(), &self.checkpoints_quota);
            ledger.commit(Input::FilesStored { stored, moment: Moment::Now })?;
        }
        let run = ledger.put_down()?;
        self.keep_row(&run, store.as_ref());
        self.end_children(&run, effects)?;
        Ok(run)
    }

    /// Ends what a run and those below it have left running.
    pub fn reap(&self, id: &RunId) {
        longhaul_tools::reap_leftovers(id);
        let below = format!("{id}.");
        let runs = self.all_runs().unwrap_or_default();
        for run in runs.iter().filter(|run| run.as_str().starts_with(&below)) {
            longhaul_tools::reap_leftovers(run);
        }
    }

    /// Of what was to be done for a run that nobody drives: children are ended, nothing else was begun.
    fn end_children(&self, run: &Run, effects: Vec<Effect>) -> Result<(), Error> {
        for effect in effects {
            if let Effect::EndChild { child, reason } = effect
                && let Some(child) = run.child(child)
            {
                self.end_child(&child.errand.id, Some(&run.spec.id), &reason)?;
            }
        }
        Ok(())
    }

    /// Who was sent works only as long as whoever sent it may use what it does.
    fn check_parent(&self, run: &Run) -> Result<(), Error> {
        let Some(parent) = &run.spec.parent else { return Ok(()) };
        match self.look(parent) {
            Ok(parent) if parent.status.is_terminal() => {
                Err(Error::Crew(format!("{} works for {}, which has ended", run.spec.id, parent.spec.id)))
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A wish under a name of its own, so that it is obeyed once however often and by whichever way it arrives.
    pub fn command(&self, mut wish: Wish) -> Result<Command, Error> {
        match &mut wish {
            Wish::Pause { reason: text }
            | Wish::Stop { reason: text }
            | Wish::Reject { reason: text, .. }
            | Wish::Answer { text, .. } => *text = self.secrets.strike(text).into_owned(),
            Wish::Replan { plan } => {
                for step in &mut plan.steps {
                    step.description = self.secrets.strike(&step.description).into_owned();
                }
            }
            Wish::Start { .. } | Wish::Approve { .. } | Wish::Plan | Wish::Checkpoint { .. } => {}
        }
        Ok(Command { id: CommandId::from_bits(fresh_bits(self.clock.now())?), wish })
    }

    /// The run as it stands, read without touching it.
    pub fn look(&self, id: &RunId) -> Result<Run, Error> {
        let mut onlooker = self.onlooker(id)?;
        onlooker.look(&mut |_, _, _, _| {})?;
        onlooker.into_run()
    }

    pub fn onlooker(&self, id: &RunId) -> Result<Onlooker, Error> {
        Onlooker::new(self.store_of(id)?.as_ref(), id)
    }

    /// Cuts a damaged journal at its first damage and forgets what was derived from the cut part.
    pub fn repair(&self, id: &RunId) -> Result<Option<Repaired>, Error> {
        let Some(home) = self.home() else { return Ok(None) };
        let repaired = home.engine().repair(id, &self.writer())?;
        drop(std::fs::remove_file(home.run_dir(id).join("events.jsonl")));
        if let Ok(catalog) = home.catalog() {
            drop(catalog.remove(id));
        }
        Ok(Some(repaired))
    }

    /// Forgets a run: journal, blobs and row. Where it worked stays.
    pub fn remove(&self, id: &RunId) -> Result<(), Error> {
        let store = self.store_of(id)?;
        store.remove(id)?;
        self.forget_answers(id);
        if let Keeping::Durable(home) = &self.keeping
            && let Ok(catalog) = home.catalog()
        {
            drop(catalog.remove(id));
        }
        // Nobody would look for those it had sent.
        let below = format!("{id}.");
        let is_below = |run: &&RunId| run.as_str().starts_with(&below) && self.store_of(run).is_ok();
        for child in self.all_runs()?.iter().filter(is_below) {
            self.remove(child)?;
        }
        Ok(())
    }

    fn all_runs(&self) -> Result<Vec<RunId>, Error> {
        match &self.keeping {
            Keeping::Durable(home) => Ok(home.all_runs()?),
            Keeping::Bare(store) => Ok(store.runs()?),
        }
    }

    pub fn store_of(&self, id: &RunId) -> Result<Arc<dyn Store>, Error> {
        match &self.keeping {
            Keeping::Durable(home) => Ok(home.store_of(id)?),
            Keeping::Bare(store) => Ok(Arc::clone(store)),
        }
    }

    pub fn home(&self) -> Option<&Arc<Home>> {
        match &self.keeping {
            Keeping::Durable(home) => Some(home),
            Keeping::Bare(_) => None,
        }
    }

    pub fn writer(&self) -> Writer {
        Writer { pid: std::process::id(), host: longhaul_store::host(), at: self.clock.now() }
    }

    fn store_for_new(&self, spec: &RunSpec) -> Result<(Arc<dyn Store>, Option<String>), Error> {
        match &self.keeping {
            Keeping::Durable(home) if !spec.may_use_engine() => Ok((home.fallback_store()?, None)),
            Keeping::Durable(home) => {
                let (store, reason) = home.store_for_new()?;
                Ok((store, reason.map(|reason| reason.0)))
            }
            Keeping::Bare(store) => Ok((Arc::clone(store), None)),
        }
    }

    /// A run in the fallback goes back to the engine as soon as that can be used; until then the reason is on record.
    pub(crate) fn store_to_drive(&self, id: &RunId) -> Result<(Arc<dyn Store>, Option<String>), Error> {
        use longhaul_store::home::Brought;
        let Keeping::Durable(home) = &self.keeping else { return Ok((self.store_of(id)?, None)) };
        if !home.engine().contains(id) && !self.look(id)?.spec.may_use_engine() {
            return Ok((home.store_of(id)?, None));
        }
        match home.bring_home(id, &self.writer())? {
            Brought::Moved | Brought::AlreadyHome => Ok((home.store_of(id)?, None)),
            Brought::NotYet(reason) => Ok((home.store_of(id)?, Some(reason.0))),
        }
    }

    /// Opens the journal as its one writer and folds it, catching the event log up on the way. The log is opened only
    /// once the lock is ours: with the first record.
    fn open(
        &self,
        store: Arc<dyn Store>,
        id: &RunId,
        mut watchers: Vec<Box<dyn Watcher>>,
    ) -> Result<(Ledger, u64), Error> {
        self.settle_rewind(id)?;
        let mut log = None;
        let mut fold = Fold::default();
        let mut broken: Option<Unreadable> = None;
        let opened = store.open(id, &self.writer(), &mut |record| match fold.take(record) {
            Ok(event) => {
                let log = log.get_or_insert_with(|| self.event_log(id, store.backend()));
                if let (Some(log), Some(run)) = (log, fold.run()) {
                    log.add(run, record.seq, record.at, &event);
                }
                Ok(())
            }
            Err(error) => {
                broken = Some(error.clone());
                Err(longhaul_store::Error::Visit(Box::new(error)))
            }
        });
        if let Some(source) = broken {
            return Err(Error::Journal { run: id.clone(), source });
        }
        let journal = opened?;
        let (generation, torn_bytes) = (journal.generation(), journal.torn_bytes());
        watchers.extend(log.flatten().map(|log| Box::new(log) as Box<dyn Watcher>));
        if let Keeping::Durable(home) = &self.keeping {
            let clerk = self.clerk.get_or_init(|| Arc::new(Clerk::start(Arc::clone(home))));
            watchers.push(Box::new(RowKeeper::new(Arc::clone(clerk), store.backend())));
            watchers.push(Box::new(NeedsKeeper::new(home.dir())));
        }
        let version = fold.oldest();
        let run = fold.into_run(id)?;
        let mut ledger = Ledger::new(run, journal, store, Arc::clone(&self.clock), watchers);
        ledger.commit(Input::OlderSchema { version })?;
        ledger.commit(Input::TornTail { bytes: torn_bytes })?;
        self.settle_spent(&mut ledger)?;
        Ok((ledger, generation))
    }

    /// What a process that takes the run up says first: that it starts, or that its predecessor died.
    fn first_input(&self, run: &Run, generation: u64, opening: Opening) -> Result<Input, Error> {
        let Opening { limits, model, looping, .. } = opening;
        Ok(match run.status {
            Status::Running => Input::Restarted { generation, limits, model, looping },
            // Its process died between the end of the work and its commit, which is then all that is left to do.
            Status::Completed if run.owes_commit() => Input::Restarted { generation, limits, model, looping },
            Status::Created | Status::Paused | Status::Completed | Status::Failed => {
                Input::Command(self.command(Wish::Start { limits, model, looping })?)
            }
        })
    }

    fn workspace(&self, run: &Run) -> Result<Workspace, Error> {
        let path = PathBuf::from(&run.spec.workspace);
        // An agent that finds an empty directory where its work was would do it all again, or worse.
        if run.has_worked() && !path.exists() {
            return Err(Error::WorkspaceGone { path });
        }
        let failed = |source| Error::Workspace { path: path.clone(), source };
        let place = self.place(run, &path);
        place::ensure(&place).map_err(|error| failed(Box::new(error)))?;
        if let (Place::Worktree { repo, .. }, false) = (&place, run.has_worked()) {
            carry::ignored(repo, &path, &self.copied).map_err(|error| failed(Box::new(error)))?;
        }
        let workspace = Workspace::open(&path).map_err(|error| failed(Box::new(error)))?;
        Ok(workspace.guarded(self.guard(&path)))
    }

    /// A run that works in place has our state directory, and the settings of the next run, in its workspace. One whose
    /// workspace is in the state directory reaches nothing else of it anyway.
    fn guard(&self, workspace: &Path) -> Guard {
        let whole = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let workspace = whole(workspace);
        let hidden = self.hidden.to_vec();
        match self.home().map(|home| whole(home.dir())) {
            Some(state) if workspace.starts_with(&state) => Guard { hidden, ..Guard::default() },
            state => Guard {
                hidden: hidden.into_iter().chain(state).collect(),
                read_only: vec![workspace.join("longhaul.yaml")],
            },
        }
    }

    pub(crate) fn place(&self, run: &Run, path: &Path) -> Place {
        let ours = self.home().is_some_and(|home| path.starts_with(home.dir()));
        if let (Some(source), Some(branch), Some(start)) =
            (&run.spec.source, &run.spec.branch, &run.spec.base)
        {
            let (store, url) = (PathBuf::from(&source.store), source.url.clone());
            let (path, branch, start) = (path.to_owned(), branch.clone(), start.clone());
            return Place::Clone { store, url, path, branch, start };
        }
        match (&run.spec.repository, &run.spec.branch) {
            (Some(repo), Some(branch)) => {
                let (branch, start) = (branch.clone(), run.spec.base.clone());
                Place::Worktree { repo: repo.into(), path: path.to_owned(), branch, start }
            }
            _ if ours => Place::Fresh(path.to_owned()),
            _ => Place::InPlace(path.to_owned()),
        }
    }

    /// Only a run in the engine has a directory to keep a log in.
    fn event_log(&self, id: &RunId, backend: Backend) -> Option<EventLog> {
        let path = self.home().filter(|_| backend == Backend::Engine)?.run_dir(id).join("events.jsonl");
        Some(EventLog::open(&path).unwrap_or_else(|error| EventLog::lost(&path, &error)))
    }

    /// The catalogue is derived: a row that cannot be written now is made by the next listing.
    fn keep_row(&self, run: &Run, store: &dyn Store) {
        if let Keeping::Durable(home) = &self.keeping
            && let Ok(catalog) = home.catalog()
        {
            let mtime_ns = journal_mtime_ns(home, &run.spec.id);
            drop(catalog.upsert(&catalogue::row(run, store.backend(), mtime_ns)));
        }
    }
}

/// The tools as a model is told of them.
fn offers(toolbox: &Toolbox) -> Arc<[ToolOffer]> {
    let offer = |spec: &ToolSpec| ToolOffer {
        name: spec.name.clone(),
        description: spec.description.clone(),
        schema: spec.schema.clone(),
    };
    toolbox.specs().map(offer).collect()
}

/// A state document under another id, in both places where it says its own.
fn renamed(mut document: serde_json::Value, id: &RunId) -> Json {
    document["harnessId"] = serde_json::json!(id);
    if let Some(own) = document.pointer_mut("/longhaul/spec/id") {
        *own = serde_json::json!(id);
    }
    Json::of(&document)
}
