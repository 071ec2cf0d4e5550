//! What is kept of a run's work: files out of the agent's reach, commits, and large outputs.

use std::collections::BTreeMap;
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

use super::Keep;
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
    (kept, tended(done))
}

/// What was done about a worktree, as the run remembers it.
pub(crate) fn tended(done: homing::Tended) -> Tended {
    let home = match done.came {
        Ok(Came::All) => Home::Complete,
        Ok(Came::Beside) => Home::Lacking { why: BESIDE.to_owned() },
        Err(homing::Error::Busy) => Home::NotLooked,
        Err(error) => Home::Lacking { why: error.to_string() },
    };
    let mended = done.mended.into_iter().map(str::to_owned).collect();
    Tended { brought: brought(done.brought), home, mended }
}

/// Branches with what they are in the user's repository, as the run remembers them.
pub(crate) fn brought(branches: BTreeMap<String, String>) -> Vec<Brought> {
    branches.into_iter().map(|(branch, commit)| Brought { branch, commit }).collect()
}

const BESIDE: &str = "what is checked out in the workspace is on none of the branches that are brought";

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
