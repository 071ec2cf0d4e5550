//! Taking a run up in this process: with what, by whom it is asked, and when it rests.

use std::path::Path;
use std::sync::Arc;

use longhaul_core::command::{Command, Wish};
use longhaul_core::conduct::{Checks, Looping};
use longhaul_core::decide::decide;
use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::spec::Limits;
use longhaul_core::status::Status;
use longhaul_model::{Deltas, Quiet};
use longhaul_store::Store;
use longhaul_workspace::place::Place;
use longhaul_workspace::{Workspace, keys};
use secrecy::SecretString;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::Harness;
use crate::accounts::Frugal;
use crate::asking::Shelf;
use crate::clock::{Clock, fresh_bits};
use crate::driver::{Driver, Ending};
use crate::error::Error;
use crate::limits::HANDLE_COMMANDS_MAX;
use crate::perform::{Hands, Performer, RunBlobs};
use crate::watch::Watcher;

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
        // Who is given up for another plan has said before what it used.
        self.settle_below(id)?;
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
        // Whoever ended it may have died before it knew what those below it had used.
        if ledger.run().status.is_terminal() {
            self.hear_below(&mut ledger)?;
        }
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
        let (workspace, tended) = self.workspace(ledger.run())?;
        ledger.commit(Input::Tended(tended))?;
        let hands = self.hands(ledger.run(), workspace, &store, models, deltas);
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

    /// Who was sent works only as long as whoever sent it may use what it does.
    fn check_parent(&self, run: &Run) -> Result<(), Error> {
        let Some(parent) = &run.spec.parent else { return Ok(()) };
        match self.look(parent) {
            Ok(parent) if parent.status.is_terminal() => {
                Err(Error::ParentEnded { run: run.spec.id.clone(), parent: parent.spec.id })
            }
            Ok(_) | Err(_) => Ok(()),
        }
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

    pub(super) fn hands(
        &self,
        run: &Run,
        workspace: Workspace,
        store: &Arc<dyn Store>,
        models: Shelf,
        deltas: Arc<dyn Deltas>,
    ) -> Hands {
        let secrets = self.secrets.clone();
        if let Place::InPlace(users) = self.place(&run.spec, Path::new(&run.spec.workspace)) {
            // A command may print the settings of the repository. Elsewhere there are none of the user's keys.
            secrets.learn(keys::of(&users).into_iter().map(SecretString::from));
        }
        let blobs = RunBlobs {
            store: Arc::clone(store),
            run: run.spec.id.clone(),
            secrets: secrets.clone(),
            earlier: run.spec.baseline_of.clone(),
        };
        Hands {
            models: Arc::new(models),
            secrets,
            deltas,
            toolbox: Arc::clone(&self.toolbox),
            workspace: Arc::new(workspace),
            rules: run.spec.rules().into(),
            scratch: self.home().map_or_else(std::env::temp_dir, |home| home.dir().join("scratch")),
            blobs: Arc::new(blobs),
            harness: Some(self.clone()),
        }
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
}
