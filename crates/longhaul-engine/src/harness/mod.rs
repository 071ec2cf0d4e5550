//! The whole of longhaul behind one door: create runs, drive them, ask things of them, look at them.

mod commanding;
mod creating;
mod driving;
mod keeping;
mod looking;
mod placing;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use longhaul_core::budget::Budget;
use longhaul_model::Models;
use longhaul_model::wire::ToolOffer;
use longhaul_store::{Home, Memory, Store};
use longhaul_tools::{ToolSpec, Toolbox};

pub use self::driving::{Driven, Handle, Opening};

use self::keeping::Keeping;
use crate::accounts::Accounts;
use crate::catalogue::Clerk;
use crate::children::Crew;
use crate::clock::Clock;
use crate::retention::Quota;
use crate::secrets::Secrets;

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

    /// The same with a bound for what the stored files of all workspaces take.
    #[must_use]
    pub fn storing_at_most(self, bytes: Option<u64>) -> Harness {
        Harness { checkpoints_quota: Arc::new(Quota::new(bytes)), ..self }
    }

    /// What all runs kept here have used, if there is a budget for it.
    pub fn accounts(&self) -> Option<&Arc<Accounts>> {
        self.accounts.as_ref()
    }

    pub fn crew(&self) -> Option<&Arc<dyn Crew>> {
        self.crew.as_ref()
    }

    pub fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    /// The tools of these names that this harness knows, as a model is told of them.
    pub fn offers(&self, names: &[String]) -> Vec<ToolOffer> {
        self.models.offers.iter().filter(|offer| names.contains(&offer.name)).cloned().collect()
    }

    pub(crate) fn checkpoints_quota(&self) -> Arc<Quota> {
        Arc::clone(&self.checkpoints_quota)
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
