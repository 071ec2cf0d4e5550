//! What is kept of a run's work: files out of the agent's reach, commits, and large outputs.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use longhaul_core::event::{Brought, Kept, Stored};
use longhaul_core::ids::{CallId, RunId};
use longhaul_core::input::{Home, Tended};
use longhaul_core::run::{Call, Run};
use longhaul_store::Store;
use longhaul_tools::{Blobs, call_of};
use longhaul_workspace::checkout::{Checkout, Filters};
use longhaul_workspace::checkpoints::Vault;
use longhaul_workspace::commit;
use longhaul_workspace::homing::{self, Came};

use super::{Keep, Looks, OwnBranch, Resting};
use crate::error::Error;
use crate::fold::Onlooker;
use crate::retention::Quota;
use crate::secrets::Secrets;

/// Puts what stands in a workspace out of the agent's reach. That it cannot be done is no reason for a run to stop.
pub(crate) fn stored(tree: &Path, state: &Path, quota: &Quota) -> Stored {
    if let Some(why) = quota.over(state, Instant::now()) {
        return Stored::Failed { why };
    }
    match Vault::open(tree, state).and_then(|vault| vault.store()) {
        Ok(found) => Stored::Tree { tree: found.tree, left_out: found.left_out.len() as u32 },
        Err(error) => Stored::Failed { why: error.to_string() },
    }
}

/// Commits what stands in a worktree. That it cannot be done is no reason for a run to end otherwise than it did.
pub(super) fn kept(tree: &Path, scratch: &Path, keep: &Keep) -> (Kept, Tended) {
    let (kept, done) = match Checkout::open(tree, scratch, Filters::Failing) {
        Ok(checkout) => commit::commit(&checkout, keep.run.as_str(), &keep.message),
        Err(error) => (Err(error.into()), homing::publish(tree, scratch)),
    };
    let kept = match kept {
        Ok(commit::Kept::Committed(made)) => Kept::Committed { commit: made.commit, branch: made.branch },
        Ok(commit::Kept::Unchanged { head }) => Kept::Unchanged { head: Some(head) },
        Err(error) => Kept::Uncommitted { why: error.to_string() },
    };
    (kept, last(done))
}

/// The same as [`tended`] for whom nobody comes after: what he was too late for is lacking.
fn last(done: homing::Tended) -> Tended {
    let late = done.came.as_ref().err().filter(|error| matches!(error, homing::Error::Busy));
    let lacking = late.map(|error| Home::Lacking { why: error.to_string() });
    let tended = tended(done);
    let home = lacking.unwrap_or(tended.home);
    Tended { home, ..tended }
}

/// What was done about a worktree when a run rests.
pub(super) fn rested(tree: &Path, scratch: &Path, resting: &Resting) -> Tended {
    let mut done = match resting.looks {
        Looks::Quick => homing::publish_if_moved(tree, scratch),
        Looks::Whole => homing::publish(tree, scratch),
    };
    if let Some(OwnBranch { branch, base }) = &resting.own {
        let name = format!("refs/heads/{branch}");
        let moved = homing::brought_so_far(tree).remove(&name).filter(|commit| Some(commit) != base.as_ref());
        done.brought.extend(moved.map(|commit| (name, commit)));
    }
    match resting.looks {
        Looks::Quick => tended(done),
        Looks::Whole => last(done),
    }
}

/// What was done about a worktree, as the run remembers it.
pub(crate) fn tended(done: homing::Tended) -> Tended {
    let home = match done.came {
        Ok(Came::All) => Home::Complete,
        Ok(Came::Without(names)) => {
            let named: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            Home::Lacking { why: format!("what is on {} is in its workspace alone", named.join(", ")) }
        }
        Ok(Came::NotLooked) | Err(homing::Error::Busy) => Home::NotLooked,
        Err(error) => Home::Lacking { why: error.to_string() },
    };
    let mended = done.mended.into_iter().map(str::to_owned).collect();
    let brought = done.brought.into_iter().map(|(branch, commit)| Brought { branch, commit }).collect();
    Tended { brought, home, mended }
}

/// Large outputs kept in the run's own blobs.
pub struct RunBlobs {
    pub store: Arc<dyn Store>,
    pub run: RunId,
    pub secrets: Secrets,
    /// Where blobs are that were kept for an earlier try at the same.
    pub earlier: Option<RunId>,
}

impl RunBlobs {
    fn blob(&self, hash: &str) -> Result<Vec<u8>, String> {
        let own = self.store.blob(&self.run, hash);
        let found = match &self.earlier {
            Some(earlier) => own.or_else(|error| self.store.blob(earlier, hash).map_err(|_| error)),
            None => own,
        };
        found.map_err(|error| error.to_string())
    }

    /// What a call came to is in the journal, and nowhere else if it was short.
    fn result_of(&self, call: CallId) -> Result<Vec<u8>, String> {
        let read = || -> Result<Run, Error> {
            let mut onlooker = Onlooker::new(self.store.as_ref(), &self.run)?;
            onlooker.look(&mut |_, _, _, _| {})?;
            onlooker.into_run()
        };
        let run = read().map_err(|error| error.to_string())?;
        let outcome = run.call(call).and_then(Call::outcome);
        let outcome = outcome.ok_or_else(|| format!("{call} has no result"))?;
        match outcome.output().and_then(|output| output.blob.as_deref()) {
            // What was cut is there as a whole.
            Some(blob) => self.blob(blob),
            None => Ok(outcome.for_model().as_bytes().to_vec()),
        }
    }
}

impl Blobs for RunBlobs {
    fn keep(&self, bytes: &[u8]) -> Result<String, String> {
        self.store.put_blob(&self.run, &self.secrets.strike_bytes(bytes)).map_err(|error| error.to_string())
    }

    fn fetch(&self, hash: &str) -> Result<Vec<u8>, String> {
        if let Some(call) = call_of(hash) {
            return self.result_of(call);
        }
        self.blob(hash)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F37: that somebody else held what was needed is told by the last one that wanted it, and by nobody before.
    #[test]
    fn the_last_to_come_tells_that_it_was_held() {
        let held = || {
            let came = Err(homing::Error::Busy);
            homing::Tended { brought: Default::default(), mended: Vec::new(), came }
        };
        assert_eq!(tended(held()).home, Home::NotLooked);
        let why = "another longhaul is moving a branch of this repository".to_owned();
        assert_eq!(last(held()).home, Home::Lacking { why });
    }
}
