//! What is kept for the way back, and giving back what no run needs.
//!
//! Owns which stored files are needed: those of every checkpoint of every run there is, of a rewind that is under way, and what
//! undoing one leads back to. Refuses
//! to begin while a run is driven, which may store at any moment, and to guess what a run needs that cannot be read.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use longhaul_core::ids::RunId;
use longhaul_store::Home;
use longhaul_workspace::prune::{self, Pruned, Pruning, Taken};

use crate::error::Error;
use crate::harness::Harness;
use crate::limits::{QUOTA_FILES_MANY, QUOTA_LOOK_EVERY};
use crate::{rewind, undo};

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
        trees.extend(undo::trees(home, run)?);
        Ok(trees)
    }
}

/// Keeps what all stored files take below a bound. Of many files that takes long to find out, so it is looked only every so often; what
/// others store in between may be too much, and is found at the next look.
#[derive(Default)]
pub(crate) struct Quota {
    bytes_max: Option<u64>,
    /// When there were many of them, and room for more.
    roomy_at: Mutex<Option<Instant>>,
}

impl Quota {
    pub(crate) fn new(bytes_max: Option<u64>) -> Quota {
        Quota { bytes_max, ..Quota::default() }
    }

    /// Are the stored files below this state directory more than that? A sentence, if so.
    pub(crate) fn over(&self, state: &Path, now: Instant) -> Option<String> {
        let quota = self.bytes_max?;
        let mut roomy_at = self.roomy_at.lock().unwrap_or_else(PoisonError::into_inner);
        if roomy_at.is_some_and(|at| now.duration_since(at) < QUOTA_LOOK_EVERY) {
            return None;
        }
        let Taken { bytes, files } = prune::taken(state);
        *roomy_at = (bytes <= quota && files >= QUOTA_FILES_MANY).then_some(now);
        (bytes > quota).then(|| {
            format!(
                "checkpoints.quota is {quota} bytes and {bytes} are stored; `longhaul workspace cleanup` and `longhaul rm` make room"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store of few files is looked at each time, one of many once in a while; what is too much is seen at the latest then.
    #[test]
    fn a_large_store_is_looked_at_every_so_often() {
        let state = tempfile::tempdir().unwrap();
        let checkpoints = state.path().join("checkpoints");
        std::fs::create_dir(&checkpoints).unwrap();
        let (quota, now) = (Quota::new(Some(10)), Instant::now());
        let add = |name: String, text: &str| std::fs::write(checkpoints.join(name), text).unwrap();
        assert_eq!(quota.over(state.path(), now), None);
        add("much".to_owned(), "more than is allowed");
        assert!(quota.over(state.path(), now).unwrap().contains("is 10 bytes and 20 are stored"));
        add("much".to_owned(), "");
        (0..QUOTA_FILES_MANY).for_each(|number| add(number.to_string(), ""));
        assert_eq!(quota.over(state.path(), now), None);
        add("much".to_owned(), "more than is allowed");
        assert_eq!(quota.over(state.path(), now), None);
        let later = now + QUOTA_LOOK_EVERY;
        assert!(quota.over(state.path(), later).is_some() && quota.over(state.path(), later).is_some());
    }
}
