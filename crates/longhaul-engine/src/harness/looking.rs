//! Looking at a run without driving it: what its journal says, and what commands say of its files. Nothing is written down.

use std::sync::Arc;

use longhaul_core::evidence::Examination;
use longhaul_core::ids::{Attempt, RunId};
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_model::Quiet;
use longhaul_tools::{Cancel, Examine};

use super::Harness;
use crate::asking::Shelf;
use crate::error::Error;
use crate::fold::Onlooker;
use crate::perform::{Look, Performer, Work};

impl Harness {
    /// The run as it stands, read without touching it.
    pub fn look(&self, id: &RunId) -> Result<Run, Error> {
        let mut onlooker = self.onlooker(id)?;
        onlooker.look(&mut |_, _, _, _| {})?;
        onlooker.into_run()
    }

    pub fn onlooker(&self, id: &RunId) -> Result<Onlooker, Error> {
        Onlooker::new(self.store_of(id)?.as_ref(), id)
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
        let (workspace, _) = self.workspace(run)?;
        let hands = self.hands(run, workspace, &self.store_of(&id)?, shelf, Arc::new(Quiet));
        let (round, attempt) = (run.examinations + 1, Attempt::FIRST);
        let look = Look { run: id, round, attempt, examine, baseline_of: None, is_in_place: false };
        Ok(match hands.perform(Work::Examine(look), cancel).await {
            Some(Input::Examined { found, .. }) => Some(*found),
            Some(_) | None => None,
        })
    }
}
