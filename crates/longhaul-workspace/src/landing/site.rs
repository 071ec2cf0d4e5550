//! The user's checkout while something is brought there. What is to be done is noted first, then the files are written, then the
//! branch moves; refused is what would cost the user anything.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::note::{Landing, Moved};
use super::refusals::{in_the_way, refuse};
use super::{Error, Landed, Merge, Settled, Work, merge_trees, nodes};
use crate::checkout::{Change, Checkout, Filters, io_error, path_bytes};
use crate::index_lock::{self, IndexLock};
use crate::{digest_of, limits};

/// The user's checkout while this process alone may land something there.
pub(crate) struct Site {
    pub(crate) checkout: Checkout,
    pub(super) note: PathBuf,
    /// The commit with what was not committed here when the run began, whose history has it then.
    pub(super) carried: Option<String>,
    /// Locked for as long as this lives.
    _held: File,
}

impl Site {
    pub(super) fn open(work: &Work) -> Result<(Site, Option<Settled>), Error> {
        Site::at(&work.repository, &work.scratch)
    }

    pub(crate) fn at(repository: &Path, scratch: &Path) -> Result<(Site, Option<Settled>), Error> {
        let checkout = Checkout::open(repository, scratch, Filters::Absent)?;
        let name = digest_of(path_bytes(checkout.top()));
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).take(32).collect();
        let lock = checkout.scratch().join(format!("landing-{name}.lock"));
        let held = File::options().create(true).append(true).open(&lock).map_err(io_error("open", &lock))?;
        // Another one may be done in a moment.
        if !limits::within(limits::LANDING_WAIT_MAX, || held.try_lock().is_ok()) {
            return Err(Error::Busy);
        }
        let note = checkout.scratch().join(format!("landing-{name}.json"));
        let site = Site { checkout, note, carried: None, _held: held };
        // One that was killed when all was done has left its lock and no note.
        index_lock::clear_stale(site.checkout.directory());
        let settled = site.settle()?;
        Ok((site, settled))
    }

    /// The tree of a merge of two commits.
    pub(super) fn merged(&self, options: &[&str], ours: &str, theirs: &str) -> Result<String, Error> {
        match merge_trees(&self.checkout, options, ours, theirs)? {
            Merge::Clean { tree } => Ok(tree),
            Merge::Conflicts { paths, .. } => Err(Error::Conflicts { paths }),
        }
    }

    /// Brings the checkout from `head` to a commit whose files are `after`, if nothing of the user's is lost by it.
    pub(crate) fn arrive(
        &self,
        run: &str,
        head: String,
        commit: String,
        after: String,
    ) -> Result<Landed, Error> {
        let checkout = &self.checkout;
        let changes = checkout.changes(&head, &after)?;
        let in_files = self.refuse_uncommitted(&head, &changes)?;
        // What stands there is what is replaced, also where that was never committed here.
        let standing = |change: &Change| match in_files.get(&change.path) {
            Some(node) => Change { before: node.clone(), ..change.clone() },
            None => change.clone(),
        };
        let to_write: Vec<Change> =
            changes.iter().map(standing).filter(|change| change.before != change.after).collect();
        let moved = Some(Moved { from: head.clone(), to: commit.clone() });
        // What is here already stays, should the rest be taken back.
        let here = changes.iter().filter_map(|change| in_files.get_key_value(&change.path));
        let landing = Landing::new(run, self.tree_with(&head, here)?, after, moved);
        self.land(landing, &changes, &to_write)?;
        Ok(Landed { changes, commit: Some(commit) })
    }

    /// How what is staged differs from a commit.
    pub(super) fn staged(&self, head: &str) -> Result<Vec<Change>, Error> {
        let index = self.checkout.index()?;
        let tree = self.checkout.git().with("GIT_INDEX_FILE", &index.0).run(&["write-tree"])?;
        Ok(self.checkout.changes(head, &tree)?)
    }

    /// `changes` is all that differs, `to_write` those that are not on disk yet.
    pub(super) fn land(
        &self,
        landing: Landing,
        changes: &[Change],
        to_write: &[Change],
    ) -> Result<(), Error> {
        if changes.is_empty() && landing.moved.is_none() {
            return Ok(());
        }
        refuse(to_write.iter().filter(|change| self.is_own_state(&change.path)), |paths| Error::OwnState {
            paths,
        })?;
        let filtered = self.checkout.filtered(to_write.iter().map(|change| change.path.as_path()))?;
        if !filtered.is_empty() {
            return Err(Error::Filtered { paths: filtered });
        }
        refuse(in_the_way(self.checkout.top(), to_write).into_iter(), |paths| Error::InTheWay { paths })?;
        let mut lock = IndexLock::take(self.checkout.directory())?;
        let (head, branch) = (self.checkout.head()?, self.checkout.branch());
        // Somebody has committed here since this was worked out.
        if landing.moved.as_ref().is_some_and(|moved| moved.from != head) {
            return Err(Error::Busy);
        }
        let landing = Landing { head: Some(head), branch, ..landing };
        self.keep(&landing)?;
        if let Err(error) = self.write(to_write.iter().map(|change| (&change.path, &change.after))) {
            self.take_back(&self.leftover(&landing)?)?;
            self.forget()?;
            return Err(error);
        }
        let landing = Landing { written: true, ..landing };
        self.keep(&landing)?;
        self.finish(&landing, &mut lock)?;
        // Before the note: without it, nobody would look after the lock.
        drop(lock);
        self.forget()
    }

    /// Moves the branch and its index, once all files are written.
    pub(super) fn finish(&self, landing: &Landing, lock: &mut IndexLock) -> Result<(), Error> {
        let Some(Moved { from, to }) = &landing.moved else { return Ok(()) };
        if self.checkout.head()? != *to {
            let branch = landing.branch.as_deref().unwrap_or("HEAD");
            lock.about_to_move(&[("ORIG_HEAD", from), ("HEAD", to), (branch, to)])?;
            self.checkout.git().holding(lock.held()).bytes(&["update-ref", "ORIG_HEAD", from])?;
            let note = format!("longhaul merge {}", landing.run);
            let moved = ["update-ref", "--create-reflog", "-m", &note, "--end-of-options", "HEAD", to, from];
            self.checkout.git().holding(lock.held()).bytes(&moved)?;
        }
        let index = self.checkout.index()?;
        // What was staged since, or before, stays as it is.
        let staged = nodes(self.staged(from)?);
        let mut changes = self.checkout.changes(from, &landing.after)?;
        changes.retain(|change| !staged.contains_key(&change.path));
        self.enter(&index, changes.iter().map(|change| (&change.path, &change.after)))?;
        // Entries whose files differ are named by it, which is no failure.
        self.checkout.git().with("GIT_INDEX_FILE", &index.0).print(&["update-index", "-q", "--refresh"])?;
        lock.install(&index)?;
        Ok(())
    }
}
