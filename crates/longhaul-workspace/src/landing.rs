//! Bringing a run's work into the user's checkout, as files (`apply`) or as a commit (`merge`).
//!
//! Everything is worked out among git's objects first: what the result would be, where both sides changed the same, and which
//! files would be written. Only when nothing of the user's would be lost is the first file touched, and before that it is noted
//! what is about to happen, so that a landing that was killed is finished or taken back by the next command. Taken back is only
//! what still is exactly as it was written, and nothing at all once the user has gone on to another commit. Refuses to touch a
//! file with changes that are not committed, to leave a conflict in a checkout, and to write files that are stored through a
//! filter, because none is run here.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::checkout::{self, Change, Checkout, Filters, Index, Node, io_error, path_bytes, path_of, split};
use crate::commit::{self, signed};
use crate::index_lock::{self, IndexLock};
use crate::stage::{self, Stage};
use crate::{digest_of, limits};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("there is nothing of {run} to look at: neither its worktree nor its branch `{branch}`")]
    Gone { run: String, branch: String },
    #[error("the work conflicts with what is here, in {}", shown(paths))]
    Conflicts { paths: Vec<PathBuf> },
    #[error("it would touch changes of yours that are not committed, in {}", shown(paths))]
    Uncommitted { paths: Vec<PathBuf> },
    #[error("files that git does not track are in the way: {}", shown(paths))]
    InTheWay { paths: Vec<PathBuf> },
    #[error("these files are stored through a filter, and no filter is run here: {}", shown(paths))]
    Filtered { paths: Vec<PathBuf> },
    #[error(
        "bringing in {run} was cut short, and these files are neither as they were nor as it writes them: {}",
        shown(paths)
    )]
    Unsettled { run: String, paths: Vec<PathBuf>, back: usize },
    #[error("no branch is checked out in `{}`", path.display())]
    Detached { path: PathBuf },
    #[error("another longhaul is at work in this checkout")]
    Busy,
    #[error(transparent)]
    Commit(#[from] commit::Error),
    #[error(transparent)]
    Lock(#[from] index_lock::Error),
    #[error(transparent)]
    Checkout(#[from] checkout::Error),
}

checkout::wraps_git!(Error);

/// What a run has made, and from what.
#[derive(Clone, Debug)]
pub struct Work {
    pub run: String,
    /// What it was about, in a line.
    pub title: String,
    /// The checkout it is for.
    pub repository: PathBuf,
    pub worktree: PathBuf,
    pub branch: String,
    /// The commit it began with; without one, where its branch and the checkout parted.
    pub base: Option<String>,
    /// Did it begin with what was not committed in the checkout?
    pub carried: bool,
    /// Where our own files go for a while.
    pub scratch: PathBuf,
}

/// A run's work as two trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub base: String,
    /// The last commit of the run's.
    pub head: String,
    /// What stands there, committed or not.
    pub tree: String,
    pub nested: Vec<PathBuf>,
}

/// What came of bringing work into a checkout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Landed {
    pub changes: Vec<Change>,
    /// The checkout's new commit, if it has one.
    pub commit: Option<String>,
}

/// How a landing that was killed was settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    pub run: String,
    pub how: How,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    Finished,
    /// These files are as they were again.
    TakenBack {
        paths: Vec<PathBuf>,
    },
    /// Another commit or branch is checked out by now. Nothing was touched.
    MovedOn,
}

/// How changes are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Patch,
    Stat,
    Names,
    /// Added and removed lines and the path, each ended by NUL.
    Counts,
}

impl Form {
    /// As git's options.
    pub fn words(self) -> &'static [&'static str] {
        match self {
            Form::Patch => &["--patch", "--binary", "--find-renames", "--src-prefix=a/", "--dst-prefix=b/"],
            Form::Stat => &["--stat=100", "--find-renames"],
            Form::Names => &["--name-only", "-z", "--no-renames"],
            Form::Counts => &["--numstat", "-z", "--no-renames"],
        }
    }
}

impl Work {
    /// What the run has made, as it stands.
    pub fn result(&self) -> Result<Outcome, Error> {
        let home = Checkout::open(&self.repository, &self.scratch, Filters::Absent)?;
        let (head, tree, nested) = if self.worktree.is_dir() {
            let worktree = Checkout::open(&self.worktree, &self.scratch, Filters::Absent)?;
            let snapshot = worktree.snapshot()?;
            (worktree.head()?, snapshot.tree, snapshot.nested)
        } else {
            let gone = || Error::Gone { run: self.run.clone(), branch: self.branch.clone() };
            let head = home.commit(&format!("refs/heads/{}", self.branch)).ok_or_else(gone)?;
            (head.clone(), home.tree_of(&head)?, Vec::new())
        };
        let base = match self.base.as_deref().and_then(|base| home.commit(base)) {
            Some(base) => base,
            None => home.git().run(&["merge-base", "HEAD", &head])?,
        };
        Ok(Outcome { base, head, tree, nested })
    }

    /// The run's changes, printed by git.
    pub fn diff(&self, result: &Outcome, form: Form) -> Result<Vec<u8>, Error> {
        let home = Checkout::open(&self.repository, &self.scratch, Filters::Absent)?;
        let asked = [&["diff-tree", "-r", "--no-ext-diff", "--no-textconv"], form.words()].concat();
        let trees = ["--end-of-options", &result.base, &result.tree];
        Ok(home.git().bytes(&[&asked[..], &trees].concat())?)
    }

    /// Would a merge put what was not committed in the checkout onto its branch, as the commit the run began with?
    pub fn merges_carried(&self) -> Result<bool, Error> {
        let Some(base) = self.base.as_deref().filter(|_| self.carried) else { return Ok(false) };
        let home = Checkout::open(&self.repository, &self.scratch, Filters::Absent)?;
        let asked = ["merge-base", "--is-ancestor", "--end-of-options", base, "HEAD"];
        Ok(!home.git().print(&asked)?.status.success())
    }

    /// Commits what stands in the run's worktree, so that it can be merged.
    pub(crate) fn committed(&self) -> Result<String, Error> {
        if !self.worktree.is_dir() {
            return Ok(self.result()?.head);
        }
        let worktree = Checkout::open(&self.worktree, &self.scratch, Filters::Failing)?;
        commit::commit(&worktree, &self.run, &self.title)?;
        Ok(worktree.head()?)
    }

    /// The files that the run has made of those of the commit `from`. One that is stored through a filter is refused if it differs,
    /// rather than taken as it stands.
    pub fn made_of(&self, from: &str) -> Result<String, Error> {
        let tree = self.result()?.tree;
        let open = |top: &Path| Checkout::open(top, &self.scratch, Filters::Absent);
        let home = open(&self.repository)?;
        let changes = home.changes(from, &tree)?;
        let written = || changes.iter().filter(|change| change.after.is_some()).map(|change| &*change.path);
        // The run may have changed what is stored through a filter, too.
        let mut paths = home.filtered(written())?;
        if self.worktree.is_dir() {
            paths.extend(open(&self.worktree)?.filtered(written())?);
        }
        paths.sort();
        paths.dedup();
        if paths.is_empty() { Ok(tree) } else { Err(Error::Filtered { paths }) }
    }
}

/// Brings the run's changes into the files of the checkout. Nothing is staged and nothing committed.
pub fn apply(work: &Work) -> Result<Landed, Error> {
    let (site, _) = Site::open(work)?;
    let result = work.result()?;
    let head = site.checkout.head()?;
    let ours = site.checkout.snapshot()?.tree;
    let [ours_commit, theirs] = [(&ours, &head), (&result.tree, &result.head)]
        .map(|(tree, parent)| site.checkout.make_commit(tree, &[parent], "for a merge"));
    let uncommitted = nodes(site.checkout.changes(&head, &ours)?);
    let merged = site.merged(&[&format!("--merge-base={}", result.base)], &ours_commit?, &theirs?);
    if let Err(Error::Conflicts { paths }) = &merged {
        // Where the other side is not even committed, that is what has to be seen to.
        let open = paths.iter().filter(|path| uncommitted.contains_key(*path)).cloned().collect::<Vec<_>>();
        if !open.is_empty() {
            return Err(Error::Uncommitted { paths: open });
        }
    }
    let merged = merged?;
    let changes = site.checkout.changes(&ours, &merged)?;
    let since_base = nodes(site.checkout.changes(&result.base, &ours)?);
    let lost = changes.iter().filter(|change| {
        let carried_in = work.carried && !since_base.contains_key(&change.path);
        uncommitted.contains_key(&change.path) && !carried_in
    });
    refuse(lost, |paths| Error::Uncommitted { paths })?;
    let landing = Landing::new(&work.run, ours, merged, None);
    site.land(landing, &changes, &changes)?;
    Ok(Landed { changes, commit: None })
}

/// Merges the run's work into the branch that is checked out.
pub fn merge(work: &Work) -> Result<Landed, Error> {
    let (site, _) = Site::open(work)?;
    site.refuse_unready()?;
    let theirs = work.committed()?;
    let message = signed(&format!("Merge {}: {}", work.run, work.title), &work.run);
    merge_commit(&site, &work.run, theirs, &message)
}

/// The same into the worktree of whoever sent the run, as a commit of that one's: also where the branch could simply be moved.
pub fn merge_for(sender: &str, work: &Work) -> Result<Landed, Error> {
    let (site, _) = Site::open(work)?;
    site.refuse_unready()?;
    let theirs = work.committed()?;
    let checkout = &site.checkout;
    let head = checkout.head()?;
    if contains(checkout, &head, &theirs) {
        return Ok(Landed { changes: Vec::new(), commit: None });
    }
    let message = signed(&format!("Merge {}: {}", work.run, work.title), sender);
    let merged = site.merged(&[], &head, &theirs)?;
    let commit = checkout.make_commit(&merged, &[&head, &theirs], &message)?;
    site.arrive(&work.run, head, commit, merged)
}

/// Brings a commit of elsewhere into the branch that is checked out in `repository`, under the same rules.
pub fn bring(repository: &Path, scratch: &Path, run: &str, commit: &str) -> Result<Landed, Error> {
    let site = Site::at(repository, scratch)?.0;
    site.refuse_unready()?;
    let message = signed(&format!("Merge what is new at the origin for {run}"), run);
    merge_commit(&site, run, commit.to_owned(), &message)
}

fn merge_commit(site: &Site, run: &str, theirs: String, message: &str) -> Result<Landed, Error> {
    let checkout = &site.checkout;
    let head = checkout.head()?;
    if contains(checkout, &head, &theirs) {
        return Ok(Landed { changes: Vec::new(), commit: None });
    }
    let (after, commit) = if contains(checkout, &theirs, &head) {
        (checkout.tree_of(&theirs)?, theirs)
    } else {
        let merged = site.merged(&[], &head, &theirs)?;
        let commit = checkout.make_commit(&merged, &[&head, &theirs], message)?;
        (merged, commit)
    };
    site.arrive(run, head, commit, after)
}

/// Is the second commit part of the history of the first?
pub(crate) fn contains(checkout: &Checkout, outer: &str, inner: &str) -> bool {
    checkout.git().bytes(&["merge-base", "--is-ancestor", "--end-of-options", inner, outer]).is_ok()
}

/// What a merge of two commits comes to, made without any checkout.
pub(crate) enum Merge {
    Clean {
        tree: String,
    },
    /// The tree has the places that conflict marked, in these files.
    Conflicts {
        tree: String,
        paths: Vec<PathBuf>,
    },
}

pub(crate) fn merge_trees(
    checkout: &Checkout,
    options: &[&str],
    ours: &str,
    theirs: &str,
) -> Result<Merge, Error> {
    let fixed = ["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"];
    let printed = checkout.git().print(&[&fixed[..], options, &[ours, theirs]].concat())?;
    let mut words = split(&printed.bytes);
    let tree = words.next().map(|tree| String::from_utf8_lossy(tree).trim().to_owned());
    match (printed.status.code(), tree) {
        (Some(0), Some(tree)) => Ok(Merge::Clean { tree }),
        (Some(1), Some(tree)) => Ok(Merge::Conflicts { tree, paths: words.map(path_of).collect() }),
        (_, _) => Err(printed.failed("merge-tree".to_owned()).into()),
    }
}

/// Finishes or takes back what a killed landing left in the checkout.
pub fn settle(work: &Work) -> Result<Option<Settled>, Error> {
    Ok(Site::open(work)?.1)
}

/// The user's checkout while this process alone may land something there.
pub(crate) struct Site {
    pub(crate) checkout: Checkout,
    note: PathBuf,
    /// Locked for as long as this lives.
    _held: File,
}

/// What is about to be written, on disk before the first file is touched.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Landing {
    run: String,
    /// The files as they are.
    before: String,
    /// The files as they will be.
    after: String,
    moved: Option<Moved>,
    /// Are all files written?
    written: bool,
    /// What was checked out, and on which branch. Older notes do not say.
    #[serde(default)]
    head: Option<String>,
    #[serde(default)]
    branch: Option<String>,
}

impl Landing {
    fn new(run: &str, before: String, after: String, moved: Option<Moved>) -> Landing {
        Landing { run: run.to_owned(), before, after, moved, written: false, head: None, branch: None }
    }
}

/// What can be taken back of a landing, and what is the user's.
struct Leftover {
    back: Vec<Change>,
    theirs: Vec<PathBuf>,
    /// Is every file as it was to be?
    is_whole: bool,
}

/// Where the branch goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Moved {
    from: String,
    to: String,
}

impl Site {
    fn open(work: &Work) -> Result<(Site, Option<Settled>), Error> {
        Site::at(&work.repository, &work.scratch)
    }

    pub(crate) fn refuse_unready(&self) -> Result<(), Error> {
        commit::refuse_under_way(&self.checkout)?;
        match self.checkout.branch() {
            Some(_) => Ok(()),
            None => Err(Error::Detached { path: self.checkout.top().to_owned() }),
        }
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
        let site = Site { checkout, note, _held: held };
        let settled = site.settle()?;
        Ok((site, settled))
    }

    /// The tree of a merge of two commits.
    fn merged(&self, options: &[&str], ours: &str, theirs: &str) -> Result<String, Error> {
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
        let to_write: Vec<Change> =
            changes.iter().filter(|change| !in_files.contains_key(&change.path)).cloned().collect();
        let moved = Some(Moved { from: head.clone(), to: commit.clone() });
        // What is here already stays, should the rest be taken back.
        let here = changes.iter().filter_map(|change| in_files.get_key_value(&change.path));
        let landing = Landing::new(run, self.tree_with(&head, here)?, after, moved);
        self.land(landing, &changes, &to_write)?;
        Ok(Landed { changes, commit: Some(commit) })
    }

    /// Refuses changes to what the user has changed and not committed. Answers what that is.
    pub(crate) fn refuse_uncommitted(
        &self,
        head: &str,
        changes: &[Change],
    ) -> Result<BTreeMap<PathBuf, Option<Node>>, Error> {
        let in_files = nodes(self.checkout.changes(head, &self.checkout.snapshot()?.tree)?);
        let staged = nodes(self.staged(head)?);
        // What is here already as the merge would have it is no work that could be lost.
        let differs = |here: &BTreeMap<PathBuf, Option<Node>>, change: &Change| {
            here.get(&change.path).is_some_and(|node| *node != change.after)
        };
        let lost = changes.iter().filter(|change| differs(&in_files, change) || differs(&staged, change));
        refuse(lost, |paths| Error::Uncommitted { paths })?;
        Ok(in_files)
    }

    /// How what is staged differs from a commit.
    fn staged(&self, head: &str) -> Result<Vec<Change>, Error> {
        let index = self.checkout.index()?;
        let tree = self.checkout.git().with("GIT_INDEX_FILE", &index.0).run(&["write-tree"])?;
        Ok(self.checkout.changes(head, &tree)?)
    }

    /// `changes` is all that differs, `to_write` those that are not on disk yet.
    fn land(&self, landing: Landing, changes: &[Change], to_write: &[Change]) -> Result<(), Error> {
        if changes.is_empty() && landing.moved.is_none() {
            return Ok(());
        }
        let filtered = self.checkout.filtered(to_write.iter().map(|change| change.path.as_path()))?;
        if !filtered.is_empty() {
            return Err(Error::Filtered { paths: filtered });
        }
        refuse(in_the_way(self.checkout.top(), to_write).into_iter(), |paths| Error::InTheWay { paths })?;
        let lock = IndexLock::take(self.checkout.directory())?;
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
        self.finish(&landing, &lock)?;
        self.forget()
    }

    /// Moves the branch and its index, once all files are written.
    fn finish(&self, landing: &Landing, lock: &IndexLock) -> Result<(), Error> {
        let Some(Moved { from, to }) = &landing.moved else { return Ok(()) };
        if self.checkout.head()? != *to {
            self.checkout.git().bytes(&["update-ref", "ORIG_HEAD", from])?;
            let note = format!("longhaul merge {}", landing.run);
            let moved = ["update-ref", "--create-reflog", "-m", &note, "--end-of-options", "HEAD", to, from];
            self.checkout.git().bytes(&moved)?;
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

    /// Writes files as they are to be, and removes those that are to be gone.
    fn write<'c>(
        &self,
        wanted: impl Iterator<Item = (&'c PathBuf, &'c Option<Node>)> + Clone,
    ) -> Result<(), Error> {
        // A repository inside this one is not ours to check out.
        let is_file = |node: &Option<Node>| node.as_ref().is_some_and(|node| node.mode != GITLINK);
        let kept: Vec<_> = wanted.clone().filter(|(_, node)| is_file(node)).collect();
        let index = self.checkout.index_of(NO_TREE)?;
        self.enter(&index, kept.iter().copied())?;
        let stage = Stage::of(&self.checkout, &index)?;
        for (path, _) in wanted.filter(|(_, node)| node.is_none()) {
            remove_file(self.checkout.top(), path)?;
        }
        for (path, _) in kept {
            stage.put(self.checkout.top(), path)?;
        }
        Ok(())
    }

    /// Puts entries into an index of ours.
    fn enter<'c>(
        &self,
        index: &Index,
        entries: impl Iterator<Item = (&'c PathBuf, &'c Option<Node>)>,
    ) -> Result<(), Error> {
        let nothing = "0".repeat(self.checkout.head()?.len());
        let mut said = Vec::new();
        for (path, node) in entries {
            match node {
                Some(node) => said.extend(format!("{} {}\t", node.mode, node.object).as_bytes()),
                None => said.extend(format!("0 {nothing}\t").as_bytes()),
            }
            said.extend(path_bytes(path));
            said.push(0);
        }
        let git = self.checkout.git().with("GIT_INDEX_FILE", &index.0).reading(said);
        git.bytes(&["update-index", "-z", "--index-info"])?;
        Ok(())
    }

    /// Finishes or takes back what a killed landing left.
    fn settle(&self) -> Result<Option<Settled>, Error> {
        let Some(landing) = self.kept()? else { return Ok(None) };
        let lock = IndexLock::take(self.checkout.directory())?;
        let run = landing.run.clone();
        let at = self.whereabouts(&landing)?;
        if at == Whereabouts::Elsewhere {
            self.forget()?;
            return Ok(Some(Settled { run, how: How::MovedOn }));
        }
        let leftover = self.leftover(&landing)?;
        if at == Whereabouts::AtEnd || (landing.written && leftover.is_whole) {
            self.finish(&landing, &lock)?;
            self.forget()?;
            return Ok(Some(Settled { run, how: How::Finished }));
        }
        let paths = self.take_back(&leftover)?;
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
    fn leftover(&self, landing: &Landing) -> Result<Leftover, Error> {
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
    fn take_back(&self, leftover: &Leftover) -> Result<Vec<PathBuf>, Error> {
        self.write(leftover.back.iter().map(|change| (&change.path, &change.after)))?;
        Ok(leftover.back.iter().map(|change| change.path.clone()).collect())
    }

    /// A tree with some entries of its own.
    fn tree_with<'c>(
        &self,
        tree: &str,
        entries: impl Iterator<Item = (&'c PathBuf, &'c Option<Node>)>,
    ) -> Result<String, Error> {
        let index = self.checkout.index_of(tree)?;
        self.enter(&index, entries)?;
        Ok(self.checkout.git().with("GIT_INDEX_FILE", &index.0).run(&["write-tree"])?)
    }

    fn keep(&self, landing: &Landing) -> Result<(), Error> {
        let fresh = self.note.with_extension("new");
        let text = serde_json::to_vec(landing).unwrap_or_default();
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&fresh, &self.note)?;
            File::open(self.checkout.scratch())?.sync_all()
        };
        write().map_err(|source| io_error("write", &self.note)(source).into())
    }

    fn kept(&self) -> Result<Option<Landing>, Error> {
        match fs::read(&self.note) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| io_error("read", &self.note)(io::Error::other(error)).into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error("read", &self.note)(source).into()),
        }
    }

    fn forget(&self) -> Result<(), Error> {
        fs::remove_file(&self.note).map_err(|source| io_error("remove", &self.note)(source).into())
    }
}

/// Where a checkout stands, as a landing that was cut short sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    AtStart,
    /// The branch has moved as it was to.
    AtEnd,
    Elsewhere,
}

/// What is at a path that leads through no link, unless it is a directory.
fn facts_of(top: &Path, path: &Path) -> Option<fs::Metadata> {
    let mut parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    let is_directory = |parent: &Path| top.join(parent).symlink_metadata().is_ok_and(|facts| facts.is_dir());
    let facts = parents.all(is_directory).then(|| top.join(path).symlink_metadata().ok()).flatten();
    facts.filter(|facts| !facts.is_dir())
}

/// A repository inside another, as a tree has it.
const GITLINK: &str = "160000";

/// What `read-tree` takes for an index without entries.
const NO_TREE: &str = "--empty";

/// What lies on disk where a file is to be written, and is not one of the files that are to be replaced or removed.
pub(crate) fn in_the_way(top: &Path, changes: &[Change]) -> Vec<Change> {
    let tracked: BTreeMap<&Path, ()> = changes
        .iter()
        .filter(|change| change.before.is_some())
        .map(|change| (change.path.as_path(), ()))
        .collect();
    let is_ours = |path: &Path| tracked.contains_key(path);
    let blocked = |change: &&Change| {
        let is_written = change.after.as_ref().is_some_and(|node| node.mode != GITLINK);
        if !is_written {
            return false;
        }
        let parents = change.path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
        let bad_parent = parents.into_iter().any(|parent| {
            let is_no_directory = top.join(parent).symlink_metadata().is_ok_and(|facts| !facts.is_dir());
            is_no_directory && !is_ours(parent)
        });
        let stranger = match top.join(&change.path).symlink_metadata() {
            Ok(facts) if facts.is_dir() => holds_others(top, &change.path, &is_ours),
            Ok(_) => change.before.is_none(),
            Err(_) => false,
        };
        bad_parent || stranger
    };
    changes.iter().filter(blocked).cloned().collect()
}

/// Is there anything below this directory that is not ours to remove?
fn holds_others(top: &Path, directory: &Path, is_ours: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(found) = fs::read_dir(top.join(directory)) else { return true };
    found.flatten().any(|entry| {
        let path = directory.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => holds_others(top, &path, is_ours),
            Ok(_) | Err(_) => !is_ours(&path),
        }
    })
}

/// Removes a file, and the directories that it leaves empty.
pub(crate) fn remove_file(top: &Path, path: &Path) -> Result<(), checkout::Error> {
    let file = top.join(path);
    match fs::remove_file(&file) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {}
        Err(source) => return Err(io_error("remove", &file)(source)),
    }
    let parents = path.ancestors().skip(1).filter(|parent| !parent.as_os_str().is_empty());
    // The first one that is not empty ends it.
    parents.into_iter().try_for_each(|parent| fs::remove_dir(top.join(parent))).ok();
    Ok(())
}

fn refuse<C: std::borrow::Borrow<Change>>(
    changes: impl Iterator<Item = C>,
    error: impl Fn(Vec<PathBuf>) -> Error,
) -> Result<(), Error> {
    let paths: Vec<PathBuf> = changes.map(|change| change.borrow().path.clone()).collect();
    if paths.is_empty() { Ok(()) } else { Err(error(paths)) }
}

/// What the second tree has at each path that differs.
fn nodes(changes: Vec<Change>) -> BTreeMap<PathBuf, Option<Node>> {
    changes.into_iter().map(|change| (change.path, change.after)).collect()
}

/// Some of the paths, so that they fit into a sentence. A name may be anything, a line break included.
pub(crate) fn shown(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths
        .iter()
        .take(limits::PATHS_SHOWN_MAX)
        .map(|path| path.display().to_string().escape_debug().to_string())
        .collect();
    match paths.len().saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}
