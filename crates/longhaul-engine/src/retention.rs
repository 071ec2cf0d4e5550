//! What is kept for the way back, and giving back what no run needs.
//!
//! Owns which stored files are needed: those of every checkpoint of every run there is, and of a rewind that is under way. Refuses
//! to begin while a run is driven, which may store at any moment, and to guess what a run needs that cannot be read.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_store::Home;
use longhaul_workspace::prune::{Pruned, Pruning};

use crate::error::Error;
use crate::harness::Harness;
use crate::rewind;

impl Harness {
    /// Gives back what stored files take that no run can be taken back to and that are older than that; nothing if none were ever
    /// stored.
    pub fn prune_checkpoints(&self, older_than: Duration) -> Result<Option<Pruned>, Error> {
        let Some(home) = self.home() else { return Ok(None) };
        let failed = |source| Error::Prune { path: home.dir().join("checkpoints"), source };
        let Some(pruning) = Pruning::begin(home.dir()).map_err(failed)? else { return Ok(None) };
        let mut trees = BTreeSet::new();
        // Asked now that nobody can store: what was stored before is on record, or its run is still held.
        for run in home.all_runs()? {
            if home.store_of(&run)?.holder(&run)?.is_some() {
                return Err(Error::AtWork { run });
            }
            trees.extend(self.needed(home, &run)?);
        }
        pruning.finish(&trees, older_than).map(Some).map_err(failed)
    }

    fn needed(&self, home: &Home, run: &RunId) -> Result<BTreeSet<String>, Error> {
        let checkpoints = self.checkpoints(run)?;
        if checkpoints.damage.is_some() || checkpoints.unreadable.is_some() {
            return Err(Error::NeedsUnknown { run: run.clone() });
        }
        let mut trees: BTreeSet<String> = checkpoints.trees().cloned().collect();
        trees.extend(rewind::trees_under_way(home, run)?);
        Ok(trees)
    }
}

/// Are the stored files below this state directory more than that? A sentence, if so.
pub(crate) fn over(state: &Path, quota: Option<u64>) -> Option<String> {
    let quota = quota?;
    let bytes = longhaul_workspace::prune::bytes(state);
    (bytes > quota).then(|| {
        format!(
            "checkpoints.quota is {quota} bytes and {bytes} are stored; `longhaul workspace cleanup` and `longhaul rm` make room"
        )
    })
}
