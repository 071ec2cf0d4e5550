//! What a repository has lent to a worktree with a git directory of its own.
//!
//! Owns the records of it, which lie where that repository keeps what it knows of the worktree, out of every agent's reach, and
//! showing the worktree what has become of branches and tags since. Refuses to touch what was moved in the worktree itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use crate::checkout::{self, io_error};
use crate::git::{self, Git};
use crate::gitdirs::{self, Lender};
use crate::limits;

/// What each branch and tag was when it was lent.
pub(crate) const LENT: &str = "longhaul-lent";
/// What each branch was that was brought from the worktree.
pub(crate) const BROUGHT: &str = "longhaul-brought";
/// What is just being brought, by a name.
pub(crate) const COMING: &str = "longhaul-coming";
/// What the branch is called in the worktree that the worktree is for; the user may call it something else since.
pub(crate) const OWN: &str = "longhaul-branch";
/// Held while any of these is read and written.
const LOCK: &str = "longhaul-lock";

/// References that are the user's alone, or ours.
pub(crate) const KEPT_BACK: &[&str] =
    &["refs/longhaul/", "refs/stash", "refs/bisect/", "refs/worktree/", "refs/rewritten/"];

/// The branch that a worktree is for, by its name there and at home.
pub(crate) struct Own {
    pub(crate) here: String,
    pub(crate) there: String,
}

impl Lender {
    /// Git as in the repository itself, whatever is checked out.
    pub(crate) fn git(&self) -> Git<'_> {
        Git::at(&self.common).with("GIT_DIR", &self.common)
    }

    /// Git as the repository sees that worktree.
    pub(crate) fn entry_git(&self) -> Git<'_> {
        Git::at(&self.common).with("GIT_DIR", &self.entry)
    }

    /// The branch that is brought; none for a worktree that is on none.
    pub(crate) fn own(&self) -> Option<Own> {
        self.own_at(self.entry_git().run(&["symbolic-ref", "--quiet", "HEAD"]).ok()?)
    }

    /// The same without git, where that can be told.
    pub(crate) fn own_as_read(&self) -> Option<Own> {
        self.own_at(self.branch()?)
    }

    /// What branches and tags of a worktree were when something last went between it and its repository, as far as the repository still
    /// has that; `None` without a record. Not what they are at home by now: what others did there since is not what the
    /// worktree's files were made from.
    pub(crate) fn known(&self) -> Result<Option<References>, git::Error> {
        let Some(mut known) = References::on_record(self, LENT) else { return Ok(None) };
        known.0.extend(References::on_record(self, BROUGHT).unwrap_or_default().0);
        if let Some(Own { here, there }) = self.own() {
            let was = known.get(&here).or_else(|| known.get(&there)).map(str::to_owned);
            known.0.extend(was.map(|was| (here, was)));
        }
        let names: String = known.0.values().map(|commit| format!("{commit}\n")).collect();
        let asked = ["cat-file", "--batch-check=%(objectname)"];
        let told = self.git().printing_much().reading(names.into_bytes()).run(&asked)?;
        let there: BTreeSet<&str> = told.lines().collect();
        known.0.retain(|_, commit| there.contains(commit.as_str()));
        Ok(Some(known))
    }

    fn own_at(&self, there: String) -> Option<Own> {
        let here = gitdirs::small(&self.entry.join(OWN)).map(|name| name.trim_end().to_owned());
        Some(Own { here: here.unwrap_or_else(|| there.clone()), there })
    }
}

/// Names of references with the commits that they stand for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct References(BTreeMap<String, String>);

impl References {
    /// Those of a repository under a prefix. What stands for another name goes with that one, and is left out.
    pub(crate) fn of(git: Git<'_>, prefix: &str) -> Result<References, git::Error> {
        let form = "--format=%(if)%(symref)%(then)%(else)%(objectname) %(refname)%(end)";
        let asked = ["for-each-ref", form, prefix];
        Ok(References::parsed(
            git.printing_much().run(&asked[..if prefix.is_empty() { 2 } else { 3 }])?.as_str(),
        ))
    }

    /// Those on record; `None` if there is no record, of which nothing follows.
    pub(crate) fn on_record(lender: &Lender, name: &str) -> Option<References> {
        let bytes = fs::read(lender.entry.join(name)).ok()?;
        Some(References::parsed(&String::from_utf8_lossy(&bytes)))
    }

    fn parsed(text: &str) -> References {
        let lines = text.lines().filter_map(|line| line.split_once(' '));
        References(lines.map(|(commit, name)| (name.to_owned(), commit.to_owned())).collect())
    }

    /// Whole or not at all, whatever is lost with the power.
    pub(crate) fn record(&self, entry: &Path, name: &str) -> Result<(), checkout::Error> {
        let lines: String = self.0.iter().map(|(name, commit)| format!("{commit} {name}\n")).collect();
        let path = entry.join(name);
        whole(&path, lines.as_bytes()).map_err(io_error("write", &path))
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn set(&mut self, name: &str, commit: &str) {
        self.0.insert(name.to_owned(), commit.to_owned());
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, commit)| (name.as_str(), commit.as_str()))
    }
}

/// Writes a record whole or not at all.
pub(crate) fn whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(".new");
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

/// Takes the records of a worktree for this process; none if somebody else has them for long.
pub(crate) fn taken(lender: &Lender) -> Result<Option<File>, checkout::Error> {
    let path = lender.entry.join(LOCK);
    let lock = File::options().create(true).append(true).open(&path).map_err(io_error("open", &path))?;
    Ok(limits::within(limits::LANDING_WAIT_MAX, || lock.try_lock().is_ok()).then_some(lock))
}

/// One change of a reference in the worktree.
struct Order<'a> {
    name: &'a str,
    now: Option<&'a str>,
    to: Option<&'a str>,
}

impl Order<'_> {
    /// As `update-ref` reads it.
    fn line(&self) -> String {
        let Order { name, now, to } = self;
        match (now, to) {
            (Some(now), Some(to)) => format!("update {name} {to} {now}\n"),
            (None, Some(to)) => format!("create {name} {to}\n"),
            (Some(now), None) => format!("delete {name} {now}\n"),
            (None, None) => String::new(),
        }
    }
}

/// Shows a worktree what has become of the branches and tags of its repository since they were lent. What was moved in the worktree,
/// what was made there, and what is checked out there stays.
pub fn refresh(tree: &Path) -> Result<(), checkout::Error> {
    let Some(lender) = tree.canonicalize().ok().and_then(|top| gitdirs::lender(&top)) else { return Ok(()) };
    // Whoever has them is about to see to the same.
    let Some(_lock) = taken(&lender)? else { return Ok(()) };
    let Some(mut lent) = References::on_record(&lender, LENT) else { return Ok(()) };
    let there = References::of(lender.git(), "")?;
    let here = References::of(Git::at(tree), "")?;
    let brought = References::on_record(&lender, BROUGHT).unwrap_or_default();
    let head = Git::at(tree).run(&["symbolic-ref", "--quiet", "HEAD"]).ok();
    let own = lender.own().into_iter().flat_map(|own| [own.here, own.there]).chain(head);
    let own: BTreeSet<String> = own.collect();
    let is_lent = |name: &str| {
        !own.contains(name)
            && brought.get(name).is_none()
            && !KEPT_BACK.iter().any(|kept| name.starts_with(kept))
    };
    let known = lent.clone();
    // What is gone goes first: a name may be needed for one below it.
    let gone = known.iter().filter(|(name, _)| there.get(name).is_none()).map(|(name, _)| (name, None));
    let new = there.iter().map(|(name, to)| (name, Some(to)));
    for orders in [gone.collect::<Vec<_>>(), new.collect()] {
        let orders = orders.into_iter().filter(|(name, _)| is_lent(name));
        let orders = orders.map(|(name, to)| Order { name, now: here.get(name), to });
        let is_due =
            |order: &Order<'_>| order.to != known.get(order.name) && order.now == known.get(order.name);
        let orders: Vec<Order<'_>> = orders.filter(is_due).collect();
        for Order { name, to, .. } in given(tree, orders) {
            match to {
                Some(to) => lent.set(name, to),
                None => drop(lent.0.remove(name)),
            }
        }
    }
    if lent == known { Ok(()) } else { lent.record(&lender.entry, LENT) }
}

/// Changes references in a worktree, all at once, or else those that can be. Answers which were.
fn given<'a>(tree: &Path, orders: Vec<Order<'a>>) -> Vec<Order<'a>> {
    let give = |lines: String| Git::at(tree).reading(lines.into_bytes()).bytes(&["update-ref", "--stdin"]);
    if orders.is_empty() || give(orders.iter().map(Order::line).collect()).is_ok() {
        return orders;
    }
    orders.into_iter().filter(|order| give(order.line()).is_ok()).collect()
}
