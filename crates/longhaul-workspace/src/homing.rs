//! Bringing home what was made in a worktree with a git directory of its own.
//!
//! Owns that commits and files come to another repository as what they are called, whoever has written them: git there works out
//! every name anew, and all that they need must have come. Refuses to move or to hide anything of the user's: beside its own
//! branch, a worktree brings only what has a name that meant nothing, and neither once somebody else has moved it. May be killed
//! at any point and simply be called once more.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use longhaul_core::prompt::head as head_of;

use crate::checkout::{Checkout, io_error};
use crate::git::{Git, Printed};
use crate::gitdirs::{self, GitDirs, Lender};
use crate::lending::{self, BROUGHT, COMING, LENT, Own, References};
pub use crate::moving::Error;
use crate::moving::Moving;
use crate::naming::Names;
use crate::{large_files, limits, mending};

const BRANCHES: &str = "refs/heads/";

/// Where a pack ends that is on its way, after the number of the process that takes it there.
pub(crate) const SUFFIX: &str = ".pack";

/// What was done about a worktree with a git directory of its own.
#[derive(Debug)]
#[must_use]
pub struct Tended {
    /// Branches that its repository has got, by their full names, with what they are there now.
    pub brought: BTreeMap<String, String>,
    /// What was broken and has been made anew.
    pub mended: Vec<&'static str>,
    /// [`Error::Busy`] if somebody else is about to see to it.
    pub came: Result<Came, Error>,
}

/// Whether the repository has what it was to get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// Nobody has looked: it could be seen without git that nothing came since somebody had.
    NotLooked,
    All,
    /// All but what only the worktree has, on these branches or under `HEAD`.
    Without(Vec<String>),
}

/// The same as [`publish`], unless it can be seen without git that the branch is there: most commands move none.
pub fn publish_if_moved(tree: &Path, scratch: &Path) -> Tended {
    tended(tree, scratch, |lender| !is_there(tree, lender))
}

/// Does the repository have all that was made in its worktree? If that cannot be told, it does not. One that we have removed had
/// nothing else.
pub fn is_home(tree: &Path) -> bool {
    match lender_of(tree) {
        Some(lender) => left(tree, &lender).is_ok_and(|left| left.is_empty()),
        None => {
            let is_gone = |path: &Path| path.try_exists().is_ok_and(|is_there| !is_there);
            tree.parent().is_some_and(Path::is_dir) && is_gone(tree) && is_gone(&gitdirs::note_of(tree))
        }
    }
}

fn lender_of(tree: &Path) -> Option<Lender> {
    gitdirs::lender(&tree.canonicalize().ok()?)
}

/// Has this a note of what it is a worktree of, although it is none?
fn is_lost(tree: &Path) -> bool {
    tree.canonicalize().is_ok_and(|top| gitdirs::note_of(&top).symlink_metadata().is_ok())
}

/// Can it be seen without git that the repository has the branch of its worktree as it is?
fn is_there(tree: &Path, lender: &Lender) -> bool {
    let Some(Own { here, there }) = lender.own_as_read() else { return false };
    let at = |directory: &Path, name: &str| {
        gitdirs::small(&directory.join(name)).map(|said| said.trim_end().to_owned())
    };
    let own = tree.join(".git");
    let Some(now) = at(&own, &here) else { return false };
    // There it may be packed by now.
    let was_brought = || {
        let on_record = |name| References::on_record(lender, name)?.get(&there).map(str::to_owned);
        on_record(BROUGHT).or_else(|| on_record(LENT)).is_some_and(|was| was == now)
    };
    let is_known = |head: &str| {
        let brought = || References::on_record(lender, BROUGHT)?.get(head).map(str::to_owned);
        head == here || brought().is_some_and(|was| at(&own, head).is_some_and(|now| now == was))
    };
    at(&own, "HEAD").is_some_and(|head| head.strip_prefix("ref: ").is_some_and(is_known))
        && (at(&lender.common, &there).is_some_and(|there| there == now) || was_brought())
}

/// Brings the branch of a worktree to the repository that it is of, and with it the branches that were made there under names
/// that mean nothing to that repository. What has no directory of its own has them there already.
pub fn publish(tree: &Path, scratch: &Path) -> Tended {
    tended(tree, scratch, |_| true)
}

fn tended(tree: &Path, scratch: &Path, is_due: impl FnOnce(&Lender) -> bool) -> Tended {
    let mut mended = Vec::new();
    let is_whole = mending::mend(tree, &mut mended);
    let mut brought = BTreeMap::new();
    let came = is_whole.and_then(|()| match lender_of(tree) {
        Some(lender) if is_due(&lender) => bring_home(tree, &lender, scratch, &mut brought),
        Some(_) => Ok(Came::NotLooked),
        None if is_lost(tree) => Err(Error::Lost { path: tree.to_owned() }),
        None => Ok(Came::All),
    });
    Tended { brought, mended, came }
}

fn bring_home(
    tree: &Path,
    lender: &Lender,
    scratch: &Path,
    moved: &mut BTreeMap<String, String>,
) -> Result<Came, Error> {
    fs::create_dir_all(scratch).map_err(io_error("create", scratch))?;
    let _lock = lending::taken(lender)?.ok_or(Error::Busy)?;
    let (lent, brought) = (References::on_record(lender, LENT), References::on_record(lender, BROUGHT));
    let stood_on = gitdirs::stood_on(&lender.common, &lender.entry);
    let mut way = Way { tree, lender, scratch, stood_on, brought: brought.unwrap_or_default(), moved };
    way.settle()?;
    let own = lender.own();
    let own_came = own.as_ref().map_or(Ok(()), |own| way.bring_own(own, lent.as_ref()));
    // Without a record, nobody knows what is new.
    let new_came = lent.map_or(Ok(()), |lent| way.bring_new(own.as_ref(), &lent));
    large_files::bring(tree, lender);
    own_came.and(new_came)?;
    let left = left(tree, lender)?;
    Ok(if left.is_empty() { Came::All } else { Came::Without(left) })
}

/// The branches of a worktree, and `HEAD` if it is on none, with commits that no reference of the repository leads to; the first of
/// them, if there are many. What was lent or brought is known there: who has let go of it since does not want it back.
fn left(tree: &Path, lender: &Lender) -> Result<Vec<String>, Error> {
    let known = [LENT, BROUGHT].map(|name| References::on_record(lender, name).unwrap_or_default());
    let is_known = |name: &str, commit| known.iter().any(|known| known.get(name) == Some(commit));
    let made = References::of(Git::at(tree), BRANCHES)?;
    let made = made.iter().filter(|(name, commit)| !is_known(name, *commit));
    let made = made.map(|(name, commit)| (name.strip_prefix(BRANCHES).unwrap_or(name), commit));
    let on = Git::at(tree).run(&["symbolic-ref", "--quiet", "HEAD"]).unwrap_or_default();
    let head = if on.starts_with(BRANCHES) { None } else { commit_if_there(Git::at(tree), "HEAD")? };
    let heads: Vec<(&str, &str)> = made.chain(head.as_deref().map(|head| ("HEAD", head))).collect();
    if heads.is_empty() {
        return Ok(Vec::new());
    }
    let there = lender.git().printing_much().run(&["for-each-ref", "--format=^%(objectname)"])?;
    let are_lacking = |heads: &[(&str, &str)]| -> Result<bool, Error> {
        let heads: String = heads.iter().map(|(_, commit)| format!("{commit}\n")).collect();
        let git = Git::at(tree).reading((heads + &there).into_bytes());
        Ok(!git.run(&["rev-list", "--max-count=1", "--ignore-missing", "--stdin"])?.is_empty())
    };
    let mut left = Vec::new();
    // By halves: there may be very many branches, and few of them with anything new.
    let mut asked = vec![&heads[..]];
    while let Some(heads) = asked.pop().filter(|_| left.len() < limits::LEFT_NAMED_MAX) {
        match heads {
            heads if !are_lacking(heads)? => {}
            [(name, _)] => left.push(head_of(name, limits::LEFT_NAME_BYTES_MAX).to_owned()),
            heads => {
                let (first, rest) = heads.split_at(heads.len() / 2);
                asked.extend([rest, first]);
            }
        }
    }
    Ok(left)
}

/// What came from a worktree before and is at home as it came.
pub fn brought_so_far(tree: &Path) -> BTreeMap<String, String> {
    let Some(lender) = lender_of(tree) else { return BTreeMap::new() };
    let brought = References::on_record(&lender, BROUGHT).unwrap_or_default();
    let there = References::of(lender.git(), BRANCHES).unwrap_or_default();
    let is_there = |(name, commit): &(&str, &str)| there.get(name) == Some(commit);
    brought.iter().filter(is_there).map(|(name, commit)| (name.to_owned(), commit.to_owned())).collect()
}

/// The commit that is checked out in a checkout, which the repository that it is of has too, after this.
pub fn brought(tree: &Path, scratch: &Path) -> Result<Option<String>, Error> {
    let Some(head) = commit_of(Git::at(tree), "HEAD") else { return Ok(None) };
    if let Some(lender) = lender_of(tree) {
        fs::create_dir_all(scratch).map_err(io_error("create", scratch))?;
        carry(tree, &lender, scratch, &head)?;
        large_files::bring(tree, &lender);
    }
    Ok(Some(head))
}

/// Makes sure that the repository that a worktree is of has a commit, with all that it needs.
fn carry(tree: &Path, lender: &Lender, scratch: &Path, commit: &str) -> Result<(), Error> {
    let known = References::of(lender.git(), "")?;
    let known: Vec<&str> = known.iter().map(|(_, commit)| commit).collect();
    let (from, to) = (|| Git::at(tree), || lender.git());
    // One that leads nowhere any more would be in the way of all.
    carry_over(from, to, scratch, &[commit], &known).or_else(|_| {
        let head = commit_of(lender.git(), "HEAD");
        let known: Vec<&str> = head.as_deref().into_iter().collect();
        carry_over(from, to, scratch, &[commit], &known)
    })
}

fn commit_of(git: Git<'_>, branch: &str) -> Option<String> {
    let name = format!("{branch}^{{commit}}");
    git.run(&["rev-parse", "--quiet", "--verify", "--end-of-options", &name]).ok()
}

/// The same, which tells that there is none from a git that could not look.
fn commit_if_there(git: Git<'_>, branch: &str) -> Result<Option<String>, Error> {
    let name = format!("{branch}^{{commit}}");
    let printed = git.print(&["rev-parse", "--quiet", "--verify", "--end-of-options", &name])?;
    if printed.status.code() == Some(1) {
        return Ok(None);
    }
    let commit = printed.succeeded("rev-parse".to_owned())?;
    Ok(Some(String::from_utf8_lossy(&commit).trim_end().to_owned()))
}

/// From a worktree to the repository that it is of.
struct Way<'a> {
    tree: &'a Path,
    lender: &'a Lender,
    scratch: &'a Path,
    /// What others have checked out there.
    stood_on: BTreeSet<String>,
    /// What came this way before.
    brought: References,
    /// What comes now.
    moved: &'a mut BTreeMap<String, String>,
}

impl Way<'_> {
    fn there(&self) -> Git<'_> {
        self.lender.git()
    }

    /// What was just being brought when somebody was killed is there, or it is as if that had never begun.
    fn settle(&mut self) -> Result<(), Error> {
        let coming = References::on_record(self.lender, COMING).unwrap_or_default();
        for (name, commit) in coming.iter() {
            if commit_of(self.there(), name).as_deref() == Some(commit) {
                self.brought.set(name, commit);
                self.brought.record(&self.lender.entry, BROUGHT)?;
                self.moved.insert(name.to_owned(), commit.to_owned());
            }
        }
        fs::remove_file(self.lender.entry.join(COMING)).ok();
        Ok(())
    }

    /// Brings the branch that the worktree was made for, unless somebody else has put something on it.
    fn bring_own(
        &mut self,
        Own { here, there: branch }: &Own,
        lent: Option<&References>,
    ) -> Result<(), Error> {
        let Some(commit) = commit_if_there(Git::at(self.tree), here)? else {
            // An agent may have removed it, which is no reason to remove the user's.
            return Ok(());
        };
        let there = commit_of(self.there(), branch);
        if there.as_ref() == Some(&commit) {
            return Ok(());
        }
        self.carry(&commit)?;
        // Renamed at home, it is on record by a name that it had.
        let records = [Some(&self.brought), lent];
        let is_ours = |there: &str| {
            let said =
                records.into_iter().flatten().flat_map(|record| [record.get(branch), record.get(here)]);
            { said }.any(|said| said == Some(there))
        };
        let is_behind = |there: &str| {
            self.there().run(&["merge-base", "--is-ancestor", "--end-of-options", there, &commit]).is_ok()
        };
        // Who has put something on top of it has it.
        let is_in = |there: &str| {
            self.there().run(&["merge-base", "--is-ancestor", "--end-of-options", &commit, there]).is_ok()
        };
        match there.as_deref() {
            Some(there) if !is_ours(there) && is_in(there) => Ok(()),
            Some(there) if self.stood_on.contains(branch) || (!is_ours(there) && !is_behind(there)) => {
                let branch = branch.strip_prefix(BRANCHES).unwrap_or(branch).to_owned();
                let repository = self.lender.common.clone();
                Err(Error::Diverged { branch, repository })
            }
            there => {
                self.move_there(branch, &commit, there.map(str::to_owned))?;
                self.brought.set(here, &commit);
                Ok(self.brought.record(&self.lender.entry, BROUGHT)?)
            }
        }
    }

    /// Brings the branches that were not lent. One whose name means something there already, a tag or a branch of somebody else's,
    /// stays in the worktree, and so does one that somebody stands on.
    fn bring_new(&mut self, own: Option<&Own>, lent: &References) -> Result<(), Error> {
        let made = References::of(Git::at(self.tree), BRANCHES)?;
        let is_own = |name: &str| own.is_some_and(|own| own.here == name || own.there == name);
        let made = || made.iter().filter(|(name, _)| !is_own(name) && lent.get(name).is_none());
        if made().next().is_none() {
            return Ok(());
        }
        let names = Names::of(self.lender)?;
        let is_due = |name: &str, commit: &str| match (names.get(name), self.brought.get(name)) {
            (Some(there), was) => there != commit && was == Some(there),
            (None, None) => names.is_free(name),
            // Who removes a branch does not want it back.
            (None, Some(_)) => false,
        };
        let due = made().filter(|(name, commit)| is_due(name, commit) && !self.stood_on.contains(*name));
        let (known, new): (Vec<_>, Vec<_>) = due.partition(|(name, _)| names.get(name).is_some());
        let room = limits::BRANCHES_BROUGHT_MAX.saturating_sub(self.brought.count());
        let new = names.but_for_others(new)?.into_iter().take(room);
        for (name, commit) in known.into_iter().chain(new) {
            if !self.is_checked_out(name) && self.carry(commit).is_ok() {
                self.move_there(name, commit, names.get(name).map(str::to_owned)).ok();
            }
        }
        Ok(())
    }

    fn is_checked_out(&self, name: &str) -> bool {
        let asked = ["for-each-ref", "--format=%(worktreepath)", name];
        self.there().run(&asked).map_or(true, |place| !place.is_empty())
    }

    fn carry(&self, commit: &str) -> Result<(), Error> {
        carry(self.tree, self.lender, self.scratch, commit)
    }

    /// Makes a branch a commit that is there, if it still is what it was. That it is about to be so is on record before: else what
    /// was killed in between would be taken for somebody else's.
    fn move_there(&mut self, branch: &str, commit: &str, before: Option<String>) -> Result<(), Error> {
        let mut coming = References::default();
        coming.set(branch, commit);
        coming.record(&self.lender.entry, COMING)?;
        let moved = self.try_move(branch, commit, before);
        self.settle()?;
        moved
    }

    fn try_move(&self, branch: &str, commit: &str, before: Option<String>) -> Result<(), Error> {
        let nothing = "0".repeat(commit.len());
        let note = "longhaul: brought from its worktree";
        let order =
            ["update-ref", "--no-deref", "--create-reflog", "-m", note, "--end-of-options", branch, commit];
        let mut moving = Moving::of(&self.lender.common, self.scratch)?;
        moving.about_to_move(branch, commit)?;
        let git = self.there().holding(moving.held());
        let printed = git.print(&[&order[..], &[before.as_deref().unwrap_or(&nothing)]].concat());
        // What one that was killed may have left stays noted, for the next to clear.
        if printed.as_ref().is_ok_and(Printed::ended_by_itself) {
            moving.done()?;
        }
        let moved = printed.and_then(|printed| printed.succeeded("update-ref".to_owned()));
        // Another of ours may have brought the same meanwhile.
        if moved.is_err() && commit_of(self.there(), branch).as_deref() == Some(commit) {
            return Ok(());
        }
        Ok(moved.map(drop)?)
    }
}

/// Makes sure that another repository has these commits and trees of a checkout, with all that they need. `known` are commits that
/// it has, the nearer the better.
pub(crate) fn bring(from: &Checkout, to: &Checkout, wanted: &[&str], known: &[&str]) -> Result<(), Error> {
    let shares = |one: &Checkout| match gitdirs::at(one.top()) {
        Some(GitDirs::Linked { common, .. }) => Some(common),
        Some(GitDirs::Own { directory, .. }) => directory.canonicalize().ok(),
        None => None,
    };
    if shares(from) == shares(to) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().copied().filter(|commit| from.commit(commit).is_some()).collect();
    carry_over(|| from.git(), || to.git(), to.scratch(), wanted, &known)
}

/// Packs what `wanted` needs beyond `known` in one repository, and unpacks it in another. No program but git takes part.
pub(crate) fn carry_over<'g>(
    from: impl Fn() -> Git<'g>,
    to: impl Fn() -> Git<'g>,
    scratch: &Path,
    wanted: &[&str],
    known: &[&str],
) -> Result<(), Error> {
    let wanted = wanted.iter().map(|wanted| format!("{wanted}\n"));
    let words: String = wanted.chain(known.iter().map(|known| format!("^{known}\n"))).collect();
    let on_the_way = OnTheWay::new(scratch);
    let path = &on_the_way.0;
    let pack_up = |more: &[&str]| -> Result<(), Error> {
        let pack = File::create(path).map_err(io_error("create", path))?;
        let packed = ["pack-objects", "--quiet", "--revs", "--thin", "--delta-base-offset", "--stdout"];
        let git = from().reading(words.clone().into_bytes()).holding_silently(Stdio::from(pack));
        git.bytes(&[&packed[..], more].concat())?;
        Ok(())
    };
    // Of a partial clone, what was never fetched is left where it is. It takes long to find out what that is.
    pack_up(&[]).or_else(|_| pack_up(&["--exclude-promisor-objects"]))?;
    let pack = || File::open(path).map_err(io_error("open", path));
    let mut header = [0; 12];
    pack()?.read_exact(&mut header).map_err(io_error("read", path))?;
    let count = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    if count > 0 {
        let bytes = pack()?.metadata().map_err(io_error("read", path))?.len();
        let is_small = count <= limits::LOOSE_OBJECTS_MAX && bytes <= limits::LOOSE_BYTES_MAX;
        let taken: &[&str] =
            if is_small { &["unpack-objects", "-q"] } else { &["index-pack", "--stdin", "--fix-thin"] };
        // Who wants every object looked at that is fetched wants it of these.
        let asked = ["config", "--type=bool", "--get", "transfer.fsckObjects"];
        let is_strict = to().run(&asked).is_ok_and(|said| said == "true");
        let strictly: &[&str] = if is_strict { &["--strict"] } else { &[] };
        to().holding(Stdio::from(pack()?)).bytes(&[taken, strictly].concat())?;
    }
    let needed = ["rev-list", "--objects", "--quiet", "--missing=allow-promisor", "--stdin"];
    to().reading(words.into_bytes()).bytes(&needed)?;
    Ok(())
}

/// A pack between two repositories, gone with this value.
struct OnTheWay(PathBuf);

impl OnTheWay {
    fn new(scratch: &Path) -> OnTheWay {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        OnTheWay(scratch.join(format!("{}-{number}{SUFFIX}", std::process::id())))
    }
}

impl Drop for OnTheWay {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok();
    }
}
