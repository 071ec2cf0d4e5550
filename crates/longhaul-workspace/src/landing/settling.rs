//! What a killed landing left: finished, or taken back as far as it is still exactly as it was written, or let be if the user has
//! gone on to another commit.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::note::Landing;
use super::refusals::in_the_way;
use super::writing::GITLINK;
use super::{Error, How, Settled, Site, nodes};
use crate::checkout::{Change, Node, path_bytes};
use crate::index_lock::IndexLock;
use crate::stage;

/// What can be taken back of a landing, and what is the user's.
pub(super) struct Leftover {
    back: Vec<Change>,
    theirs: Vec<PathBuf>,
    /// Is every file as it was to be?
    is_whole: bool,
}

/// Where a checkout stands, as a landing that was cut short sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    AtStart,
    /// The branch has moved as it was to.
    AtEnd,
    Elsewhere,
}

impl Site {
    /// Finishes or takes back what a killed landing left.
    pub(super) fn settle(&self) -> Result<Option<Settled>, Error> {
        let Some(landing) = self.kept()? else { return Ok(None) };
        let mut lock = IndexLock::take(self.checkout.directory())?;
        let run = landing.run.clone();
        let at = self.whereabouts(&landing)?;
        if at == Whereabouts::Elsewhere {
            drop(lock);
            self.forget()?;
            return Ok(Some(Settled { run, how: How::MovedOn }));
        }
        let leftover = self.leftover(&landing)?;
        if at == Whereabouts::AtEnd || (landing.written && leftover.is_whole) {
            self.finish(&landing, &mut lock)?;
            drop(lock);
            self.forget()?;
            return Ok(Some(Settled { run, how: How::Finished }));
        }
        let paths = self.take_back(&leftover)?;
        drop(lock);
        self.forget()?;
        if leftover.theirs.is_empty() {
            return Ok(Some(Settled { run, how: How::TakenBack { paths } }));
        }
        Err(Error::Unsettled { run, paths: leftover.theirs, back: paths.len() })
    }

    fn whereabouts(&self, landing: &Landing) -> Result<Whereabouts, Error> {
        let head = self.checkout.head()?;
        let moved = landing.moved.as_ref();
        let start = landing.head.as_ref().or(moved.map(|moved| &moved.from));
        let is_other_branch = landing.branch.is_some() && landing.branch != self.checkout.branch();
        let is_at_end = landing.written && moved.is_some_and(|moved| moved.to == head);
        Ok(match start {
            _ if is_other_branch => Whereabouts::Elsewhere,
            _ if is_at_end => Whereabouts::AtEnd,
            Some(start) if *start != head => Whereabouts::Elsewhere,
            Some(_) | None => Whereabouts::AtStart,
        })
    }

    /// What stands of a landing: as it was, as it was to be, or as somebody else made it since.
    pub(super) fn leftover(&self, landing: &Landing) -> Result<Leftover, Error> {
        let top = self.checkout.top();
        let mut changes = self.checkout.changes(&landing.before, &landing.after)?;
        let is_link = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.mode == GITLINK);
        changes.retain(|change| !is_link(&change.before) && !is_link(&change.after));
        changes.iter().for_each(|change| stage::clear_arriving(top, &change.path));
        let now = self.standing(&landing.before, &changes)?;
        let is_now = |change: &Change, node: &Option<Node>| now.get(&change.path) == Some(node);
        let is_whole = changes.iter().all(|change| is_now(change, &change.after));
        changes.retain(|change| !is_now(change, &change.before));
        let (written, theirs): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| is_now(change, &change.after));
        let reversed = |change: Change| Change { before: change.after, after: change.before, ..change };
        let mut back: Vec<Change> = written.into_iter().map(reversed).collect();
        let mut theirs: Vec<PathBuf> = theirs.into_iter().map(|change| change.path).collect();
        let blocked = in_the_way(top, &back);
        back.retain(|change| !blocked.contains(change));
        theirs.extend(blocked.into_iter().map(|change| change.path));
        Ok(Leftover { back, theirs, is_whole })
    }

    /// What is on disk at the paths of `changes`, ignored files too. `tree` says how a mode that no disk keeps is read.
    fn standing(&self, tree: &str, changes: &[Change]) -> Result<BTreeMap<PathBuf, Option<Node>>, Error> {
        let top = self.checkout.top();
        let is_file = |facts: &fs::Metadata| facts.is_file() || facts.file_type().is_symlink();
        let (mut now, mut said) = (BTreeMap::new(), Vec::new());
        for change in changes {
            match facts_of(top, &change.path) {
                Some(facts) if is_file(&facts) => {
                    said.extend(path_bytes(&change.path));
                    said.push(0);
                    now.insert(change.path.clone(), change.before.clone());
                }
                None => drop(now.insert(change.path.clone(), None)),
                // A pipe or the like is nobody's but the user's.
                Some(_) => {}
            }
        }
        let index = self.checkout.index_of(tree)?;
        let taken = ["update-index", "-z", "--add", "--replace", "--stdin"];
        self.checkout.git().with("GIT_INDEX_FILE", &index.0).reading(said).bytes(&taken)?;
        let found = self.checkout.git().with("GIT_INDEX_FILE", &index.0).run(&["write-tree"])?;
        for (path, node) in nodes(self.checkout.changes(tree, &found)?) {
            // What had to make room in that index is known by now to be absent.
            now.entry(path).and_modify(|known| *known = node);
        }
        Ok(now)
    }

    /// Makes what we wrote as it was before, and nothing else.
    pub(super) fn take_back(&self, leftover: &Leftover) -> Result<Vec<PathBuf>, Error> {
        self.write(leftover.back.iter().map(|change| (&change.path, &change.after)))?;
        Ok(leftover.back.iter().map(|change| change.path.clone()).collect())
    }
}

/// What is at a path that leads through no link, unless it is a directory.
fn facts_of(top: &Path, path: &Path) -> Option<fs::Metadata> {
    let mut parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    let is_directory = |parent: &Path| top.join(parent).symlink_metadata().is_ok_and(|facts| facts.is_dir());
    let facts = parents.all(is_directory).then(|| top.join(path).symlink_metadata().ok()).flatten();
    facts.filter(|facts| !facts.is_dir())
}
