//! Wishes for a run, whoever drives it, and what they lead to if nobody does.

use std::path::Path;
use std::sync::Arc;

use longhaul_core::command::{Command, Wish};
use longhaul_core::decide::decide;
use longhaul_core::effect::Effect;
use longhaul_core::event::Moment;
use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_core::status::Status;

use super::Harness;
use crate::clock::fresh_bits;
use crate::error::Error;
use crate::perform::stored;

impl Harness {
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
        // Stored first: a person may have changed them since the run last looked, which it does not know.
        let is_checkpoint = matches!(command.wish, Wish::Checkpoint { .. });
        let is_refused = || decide(ledger.run(), self.clock.now(), Input::Command(command.clone())).is_err();
        if let Some(home) = self.home().filter(|_| is_checkpoint && !is_refused()) {
            let stored = stored(Path::new(&ledger.run().spec.workspace), home.dir(), &self.checkpoints_quota);
            ledger.commit(Input::FilesStored { stored, moment: Moment::Now })?;
        }
        // Who is given up for another plan has said before what it used.
        if matches!(command.wish, Wish::Replan { .. }) {
            self.hear_below(&mut ledger)?;
        }
        let is_rest = command.wish.is_rest();
        // What was asked earlier is seen through also if nothing is left to do for this one.
        let refused = match ledger.commit(Input::Command(command)) {
            Ok(more) => {
                effects.extend(more);
                None
            }
            Err(error) => Some(error),
        };
        let rests = is_rest || effects.contains(&Effect::CancelWork);
        let ended = self.end_children(ledger.run(), effects);
        let settled = if rests { ended.and_then(|()| self.hear_below(&mut ledger)) } else { ended };
        let run = ledger.put_down()?;
        self.keep_row(&run, store.as_ref());
        settled?;
        refused.map_or(Ok(run), Err)
    }

    /// Brings everybody below a run that is not at work to where it stands itself, and what they have used into its journal: whoever
    /// paused or ended it may have died before. While somebody holds the run, that is theirs to do. Returns the run as it is then.
    pub fn settle_below(&self, id: &RunId) -> Result<Run, Error> {
        let run = self.look(id)?;
        let rests = match run.status {
            Status::Paused | Status::Completed | Status::Failed => true,
            Status::Created | Status::Running => false,
        };
        if !rests || run.live_children().next().is_none() {
            return Ok(run);
        }
        let store = self.store_of(id)?;
        let mut ledger = match self.open(Arc::clone(&store), id, Vec::new()) {
            Ok((ledger, _)) => ledger,
            Err(Error::Store(longhaul_store::Error::Held { .. })) => return Ok(run),
            Err(error) => return Err(error),
        };
        let settled = self.hear_below(&mut ledger);
        let run = ledger.put_down()?;
        self.keep_row(&run, store.as_ref());
        settled.map(|()| run)
    }

    /// Ends what a run and those below it have left running.
    pub fn reap(&self, id: &RunId) {
        longhaul_tools::reap_leftovers_of_tree(id);
    }

    /// Of what was to be done for a run that nobody drives: children are ended, nothing else was begun.
    pub(crate) fn end_children(&self, run: &Run, effects: Vec<Effect>) -> Result<(), Error> {
        for effect in effects {
            if let Effect::EndChild { child, reason } = effect
                && let Some(child) = run.child(child)
            {
                self.end_child(&child.errand.id, Some(&run.spec.id), &reason)?;
            }
        }
        Ok(())
    }
}
