//! The whole of longhaul behind one door: create runs, drive them, ask things of them, look at them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use longhaul_core::command::{Command, Wish};
use longhaul_core::document;
use longhaul_core::event::Event;
use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::run::Run;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_model::{Deltas, Models};
use longhaul_store::{Entry, Home, Journal, Memory, Store, Writer};
use longhaul_tools::Toolbox;
use longhaul_workspace::Workspace;
use longhaul_workspace::place::{self, Place};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::catalogue::{self, Clerk, RowKeeper};
use crate::clock::{Clock, fresh_bits};
use crate::driver::{Driver, Ending, Parts, put_down};
use crate::error::{Error, Unreadable};
use crate::fold::{Fold, Onlooker, entry};
use crate::limits::HANDLE_COMMANDS_MAX;
use crate::listing::journal_mtime_ns;
use crate::log::EventLog;
use crate::perform::{Hands, RunBlobs};
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
}

/// Where runs are kept.
#[derive(Clone)]
enum Keeping {
    Durable(Arc<Home>),
    /// `harness.enabled: false`: nothing is written, and nothing outlives the process.
    Forgetful(Memory),
}

/// With what a run is taken up.
#[derive(Clone, Debug, Default)]
pub struct Opening {
    pub limits: Option<Limits>,
    pub model: Option<String>,
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
        Harness::new(Keeping::Forgetful(Memory::default()), toolbox, models, clock)
    }

    fn new(keeping: Keeping, toolbox: Toolbox, models: Models, clock: Arc<dyn Clock>) -> Harness {
        let clerk = Arc::default();
        Harness { keeping, clerk, toolbox: Arc::new(toolbox), models: Arc::new(models), clock }
    }

    pub fn new_run_id(&self) -> Result<RunId, Error> {
        Ok(RunId::from_bits(fresh_bits(self.clock.now())?))
    }

    /// Brings a run into being, in status created.
    pub fn create(&self, spec: RunSpec) -> Result<Run, Error> {
        spec.check()?;
        let id = spec.id.clone();
        self.begin(&id, Event::RunCreated(Box::new(spec)))
    }

    /// Takes in a state document as a run under its own name, or under another.
    pub fn import(&self, text: &str, defaults: RunSpec, rename: Option<RunId>) -> Result<Run, Error> {
        let mut spec = document::spec(text, defaults)?;
        let mut value: serde_json::Value = serde_json::from_str(text).map_err(document::Error::from)?;
        if let Some(id) = rename {
            value["harnessId"] = serde_json::json!(id);
            if let Some(own) = value.pointer_mut("/longhaul/spec/id") {
                *own = serde_json::json!(id);
            }
            spec.id = id;
        }
        let id = spec.id.clone();
        self.begin(&id, Event::Imported { document: Json::of(&value), spec: Box::new(spec) })
    }

    /// Takes in the events of a run as they were exported, under another name.
    pub fn adopt(
        &self,
        id: &RunId,
        mut entries: Vec<(longhaul_core::time::Timestamp, Event)>,
    ) -> Result<Run, Error> {
        if let Some((_, Event::RunCreated(spec) | Event::Imported { spec, .. })) = entries.first_mut() {
            spec.id = id.clone();
        }
        let (store, _) = self.store_for_new()?;
        let entries: Vec<Entry> = entries.iter().map(|(at, event)| entry(*at, event)).collect();
        let mut fold = Fold::default();
        for (index, entry) in entries.iter().enumerate() {
            let record = longhaul_store::Record {
                seq: index as u64 + 1,
                at: entry.at,
                kind: entry.kind,
                version: entry.version,
                payload: &entry.payload,
            };
            fold.take(record).map_err(|source| Error::Journal { run: id.clone(), source })?;
        }
        let run = fold.into_run(id)?;
        store.create(id, &self.writer(), &entries)?.close()?;
        self.keep_row(&run, store.as_ref());
        Ok(run)
    }

    fn begin(&self, id: &RunId, first: Event) -> Result<Run, Error> {
        let at = self.clock.now();
        let mut run = Run::first(1, at, &first)
            .map_err(|misfit| Error::Journal { run: id.clone(), source: misfit.into() })?;
        let (store, fallback) = self.store_for_new()?;
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
        mut watchers: Vec<Box<dyn Watcher>>,
        deltas: Arc<dyn Deltas>,
    ) -> Result<Driven, Error> {
        let (store, fallback) = self.store_to_drive(id)?;
        let (run, journal) = self.open(store.as_ref(), id, &mut watchers)?;
        let inputs = self.first_inputs(&run, journal.as_ref(), opening, fallback)?;
        // What our dead predecessor left running would work against us.
        longhaul_tools::reap_leftovers(id);
        let model = inputs.iter().find_map(wished_model).unwrap_or_else(|| run.spec.model.clone());
        let model = self.models.resolve(&model).map_err(|source| Error::Model { name: model, source })?;
        let hands = Hands {
            model,
            deltas,
            toolbox: Arc::clone(&self.toolbox),
            workspace: Arc::new(self.workspace(&run)?),
            blobs: Arc::new(RunBlobs { store: Arc::clone(&store), run: id.clone() }),
        };
        let (sender, commands) = mpsc::channel(HANDLE_COMMANDS_MAX);
        let clock = Arc::clone(&self.clock);
        let performer = Arc::new(hands);
        let driver = Driver::new(Parts { run, journal, store, performer, clock, watchers, commands });
        let task = tokio::spawn(driver.drive(inputs));
        Ok(Driven { handle: Handle { commands: sender, clock: Arc::clone(&self.clock) }, task })
    }

    /// Leaves a wish with a run, whoever drives it, now or later.
    pub fn post(&self, id: &RunId, wish: Wish) -> Result<CommandId, Error> {
        let command = Command { id: CommandId::from_bits(fresh_bits(self.clock.now())?), wish };
        let body = serde_json::to_vec(&command).unwrap_or_default();
        self.store_of(id)?.post(id, &command.id, &body)?;
        Ok(command.id)
    }

    /// Applies a wish to a run that nobody drives and that need not be driven for it: stopping a paused run.
    pub fn apply(&self, id: &RunId, wish: Wish) -> Result<Run, Error> {
        let store = self.store_of(id)?;
        let mut watchers = Vec::new();
        let (mut run, mut journal) = self.open(store.as_ref(), id, &mut watchers)?;
        // A run that is paused or stopped after its process died must not go on working behind our back.
        longhaul_tools::reap_leftovers(id);
        let at = self.clock.now();
        let command = Command { id: CommandId::from_bits(fresh_bits(at)?), wish };
        let decision = longhaul_core::decide::decide(&run, at, Input::Command(command))?;
        let entries: Vec<Entry> = decision.events.iter().map(|event| entry(at, event)).collect();
        journal.append(&entries)?;
        for event in &decision.events {
            let seq = run.seq + 1;
            run.apply(seq, at, event)
                .map_err(|misfit| Error::Journal { run: id.clone(), source: misfit.into() })?;
            for watcher in &mut watchers {
                watcher.event(&run, seq, at, event);
            }
        }
        for watcher in &mut watchers {
            watcher.batch_ended(&run);
        }
        put_down(&run, journal)?;
        Ok(run)
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

    /// Forgets a run: journal, blobs, row, and the directory longhaul made for it.
    pub fn remove(&self, id: &RunId) -> Result<(), Error> {
        let store = self.store_of(id)?;
        store.remove(id)?;
        if let Keeping::Durable(home) = &self.keeping
            && let Ok(catalog) = home.catalog()
        {
            drop(catalog.remove(id));
        }
        Ok(())
    }

    pub fn store_of(&self, id: &RunId) -> Result<Arc<dyn Store>, Error> {
        match &self.keeping {
            Keeping::Durable(home) => Ok(home.store_of(id)?),
            Keeping::Forgetful(memory) => Ok(Arc::new(memory.clone())),
        }
    }

    pub fn home(&self) -> Option<&Arc<Home>> {
        match &self.keeping {
            Keeping::Durable(home) => Some(home),
            Keeping::Forgetful(_) => None,
        }
    }

    pub fn writer(&self) -> Writer {
        Writer { pid: std::process::id(), host: longhaul_store::host(), at: self.clock.now() }
    }

    fn store_for_new(&self) -> Result<(Arc<dyn Store>, Option<String>), Error> {
        match &self.keeping {
            Keeping::Durable(home) => {
                let (store, reason) = home.store_for_new()?;
                Ok((store, reason.map(|reason| reason.0)))
            }
            Keeping::Forgetful(memory) => Ok((Arc::new(memory.clone()), None)),
        }
    }

    /// A run in the fallback goes back to the engine as soon as that can be used; until then the reason is on record.
    fn store_to_drive(&self, id: &RunId) -> Result<(Arc<dyn Store>, Option<String>), Error> {
        use longhaul_store::home::Brought;
        let Keeping::Durable(home) = &self.keeping else { return Ok((self.store_of(id)?, None)) };
        match home.bring_home(id, &self.writer())? {
            Brought::Moved | Brought::AlreadyHome => Ok((home.store_of(id)?, None)),
            Brought::NotYet(reason) => Ok((home.store_of(id)?, Some(reason.0))),
        }
    }

    /// Opens the journal as its one writer and folds it, catching the event log up on the way.
    fn open(
        &self,
        store: &dyn Store,
        id: &RunId,
        watchers: &mut Vec<Box<dyn Watcher>>,
    ) -> Result<(Run, Box<dyn Journal>), Error> {
        let mut log = self.event_log(id);
        let mut fold = Fold::default();
        let mut broken: Option<Unreadable> = None;
        let opened = store.open(id, &self.writer(), &mut |record| match fold.take(record) {
            Ok(event) => {
                if let (Some(log), Some(run)) = (&mut log, fold.run()) {
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
        if let Some(log) = log {
            watchers.push(Box::new(log));
        }
        if let Keeping::Durable(home) = &self.keeping {
            let clerk = self.clerk.get_or_init(|| Arc::new(Clerk::start(Arc::clone(home))));
            watchers.push(Box::new(RowKeeper::new(Arc::clone(clerk), store.backend())));
        }
        Ok((fold.into_run(id)?, journal))
    }

    fn first_inputs(
        &self,
        run: &Run,
        journal: &dyn Journal,
        opening: Opening,
        fallback: Option<String>,
    ) -> Result<Vec<Input>, Error> {
        let command = |wish| -> Result<Input, Error> {
            Ok(Input::Command(Command { id: CommandId::from_bits(fresh_bits(self.clock.now())?), wish }))
        };
        let mut inputs: Vec<Input> = fallback.into_iter().map(|reason| Input::FellBack { reason }).collect();
        let changed = opening.limits.is_some() || opening.model.is_some();
        let start = Wish::Start { limits: opening.limits, model: opening.model };
        match run.status {
            Status::Running if !changed => inputs.push(Input::Restarted { generation: journal.generation() }),
            Status::Running => {
                inputs.push(command(Wish::Pause { reason: "taken up with other settings".to_owned() })?);
                inputs.push(command(start)?);
            }
            Status::Created | Status::Paused | Status::Completed | Status::Failed => {
                inputs.push(command(start)?)
            }
        }
        Ok(inputs)
    }

    fn workspace(&self, run: &Run) -> Result<Workspace, Error> {
        let path = PathBuf::from(&run.spec.workspace);
        let failed = |source| Error::Workspace { path: path.clone(), source };
        place::ensure(&self.place(run, &path)).map_err(|error| failed(Box::new(error)))?;
        Workspace::open(&path).map_err(|error| failed(Box::new(error)))
    }

    fn place(&self, run: &Run, path: &Path) -> Place {
        let ours = self.home().is_some_and(|home| path.starts_with(home.dir()));
        match (&run.spec.repository, &run.spec.branch) {
            (Some(repo), Some(branch)) => {
                Place::Worktree { repo: repo.into(), path: path.to_owned(), branch: branch.clone() }
            }
            _ if ours => Place::Fresh(path.to_owned()),
            _ => Place::InPlace(path.to_owned()),
        }
    }

    fn event_log(&self, id: &RunId) -> Option<EventLog> {
        let home = self.home()?;
        EventLog::open(&home.run_dir(id).join("events.jsonl")).ok()
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

fn wished_model(input: &Input) -> Option<String> {
    match input {
        Input::Command(Command { wish: Wish::Start { model, .. }, .. }) => model.clone(),
        Input::Command(_)
        | Input::Restarted { .. }
        | Input::ModelReplied { .. }
        | Input::ModelFailed { .. }
        | Input::ToolPrepared { .. }
        | Input::ToolEnded { .. }
        | Input::ToolChecked { .. }
        | Input::Woke(_)
        | Input::DiskLow
        | Input::FellBack { .. } => None,
    }
}
