//! Bringing home what was made in a worktree with a git directory of its own.
//!
//! Owns that commits and files come to another repository as what they are called, whoever has written them: git there works out
//! every name anew, and all that they need must have come. Refuses to move or to hide anything of the user's: beside its own
//! branch, a worktree brings only what has a name that meant nothing. May be killed at any point and simply be called once more.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::apart::KEPT_BACK;
use crate::checkout::{Checkout, io_error};
use crate::git::{Git, Printed};
use crate::gitdirs::{self, GitDirs, Lender};
use crate::limits;
pub use crate::moving::Error;
use crate::moving::Moving;

/// Where a pack ends that is on its way, after the number of the process that takes it there.
pub(crate) const SUFFIX: &str = ".pack";

/// What branches and tags were when they were lent to a worktree, and what has become of its own since: kept where its repository
/// keeps what it knows of it.
pub(crate) const LENT: &str = "longhaul-lent";
const BROUGHT: &str = "longhaul-brought";

/// The same as [`publish`], unless it can be seen without git that the branch is there: most commands move none.
pub fn publish_if_moved(tree: &Path, scratch: &Path) -> Result<(), Error> {
    match lender_of(tree) {
        Some(lender) if !is_there(tree, &lender) => publish(tree, scratch),
        Some(_) | None => Ok(()),
    }
}

fn lender_of(tree: &Path) -> Option<Lender> {
    gitdirs::lender(&tree.canonicalize().ok()?)
}

fn is_there(tree: &Path, lender: &Lender) -> bool {
    let Some(branch) = lender.branch() else { return false };
    let at = |directory: &Path, name: &str| fs::read_to_string(directory.join(name)).ok();
    let own = tree.join(".git");
    let is_on = at(&own, "HEAD").is_some_and(|head| head.trim_end() == format!("ref: {branch}"));
    is_on && at(&own, &branch).zip(at(&lender.common, &branch)).is_some_and(|(here, there)| here == there)
}

/// Brings the branch of a worktree to the repository that it is of, and with it the branches that were made there under names
/// that mean nothing to that repository. What has no directory of its own has them there already.
pub fn publish(tree: &Path, scratch: &Path) -> Result<(), Error> {
    let Some(lender) = lender_of(tree) else { return Ok(()) };
    fs::create_dir_all(scratch).map_err(io_error("create", scratch))?;
    let bringing = Bringing { tree, lender: &lender, scratch };
    let asked = Git::at(&lender.common).with("GIT_DIR", &lender.entry);
    let own = asked.run(&["symbolic-ref", "--quiet", "HEAD"]).ok();
    if let Some(branch) = &own {
        // An agent may have removed it, which is no reason to remove the user's.
        if let Some(commit) = commit_of(Git::at(tree), branch) {
            bringing.bring(branch, &commit, commit_of(bringing.there(), branch))?;
        }
    }
    bringing.others(own.as_deref())
}

/// Shows a worktree what has become of the branches and tags of its repository since they were lent. What was moved in the worktree
/// itself, and what is checked out there, stays.
pub fn refresh(tree: &Path) -> Result<(), Error> {
    let Some(lender) = lender_of(tree) else { return Ok(()) };
    let bringing = Bringing { tree, lender: &lender, scratch: tree };
    // What stands for another name goes with that one.
    let asked = ["for-each-ref", "--format=%(if)%(symref)%(then)%(else)%(objectname) %(refname)%(end)"];
    let list = |git: Git<'_>| git.printing_much().run(&asked);
    let (there, here) = (list(bringing.there())?, list(Git::at(tree))?);
    let record = lender.entry.join(LENT);
    let lent = fs::read_to_string(&record).unwrap_or_default();
    let (there, here, mut lent) = (named(&there), named(&here), named(&lent));
    let own = [&lender.entry, &tree.join(".git")].map(|directory| {
        Git::at(&lender.common).with("GIT_DIR", directory).run(&["symbolic-ref", "--quiet", "HEAD"])
    });
    let brought = fs::read_to_string(lender.entry.join(BROUGHT)).unwrap_or_default();
    let is_lent = |name: &str| {
        let is_own = own.iter().flatten().any(|own| own == name)
            || brought.lines().any(|line| line.starts_with(&format!("{name} ")));
        !is_own && !KEPT_BACK.iter().any(|kept| name.starts_with(kept))
    };
    let mut orders = String::new();
    for (name, commit) in there.into_iter().filter(|(name, _)| is_lent(name)) {
        let (known, now) = (lent.get(name).copied(), here.get(name).copied());
        if known != Some(commit) && now == known {
            orders += &match now {
                Some(now) => format!("update {name} {commit} {now}\n"),
                None => format!("create {name} {commit}\n"),
            };
            lent.insert(name, commit);
        }
    }
    if orders.is_empty() {
        return Ok(());
    }
    Git::at(tree).reading(orders.into_bytes()).bytes(&["update-ref", "--stdin"])?;
    let said: String = lent.iter().map(|(name, commit)| format!("{commit} {name}\n")).collect();
    Ok(fs::write(&record, said).map_err(io_error("write", &record))?)
}

/// Names with what they stand for, of lines that have it before.
fn named(lines: &str) -> BTreeMap<&str, &str> {
    lines.lines().filter_map(|line| line.split_once(' ')).map(|(commit, name)| (name, commit)).collect()
}

/// The commit that is checked out in a checkout, which the repository that it is of has too, after this.
pub fn brought(tree: &Path, scratch: &Path) -> Result<Option<String>, Error> {
    let Some(head) = commit_of(Git::at(tree), "HEAD") else { return Ok(None) };
    if let Some(lender) = lender_of(tree) {
        fs::create_dir_all(scratch).map_err(io_error("create", scratch))?;
        Bringing { tree, lender: &lender, scratch }.carry(&head, None)?;
    }
    Ok(Some(head))
}

fn commit_of(git: Git<'_>, branch: &str) -> Option<String> {
    let name = format!("{branch}^{{commit}}");
    git.run(&["rev-parse", "--quiet", "--verify", "--end-of-options", &name]).ok()
}

struct Bringing<'a> {
    tree: &'a Path,
    lender: &'a Lender,
    scratch: &'a Path,
}

impl<'a> Bringing<'a> {
    fn there(&self) -> Git<'a> {
        Git::at(&self.lender.common).with("GIT_DIR", &self.lender.common)
    }

    fn carry(&self, commit: &str, before: Option<&str>) -> Result<(), Error> {
        let head = commit_of(self.there(), "HEAD");
        let known: Vec<&str> = before.into_iter().chain(head.as_deref()).collect();
        carry_over(|| Git::at(self.tree), || self.there(), self.scratch, &[commit], &known)
    }

    /// Makes a branch what it is in the worktree, if it still is what it was there.
    fn bring(&self, branch: &str, commit: &str, before: Option<String>) -> Result<(), Error> {
        if before.as_deref() == Some(commit) {
            return Ok(());
        }
        self.carry(commit, before.as_deref())?;
        let nothing = "0".repeat(commit.len());
        let note = "longhaul: brought from its worktree";
        let order = ["update-ref", "--create-reflog", "-m", note, "--end-of-options", branch, commit];
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

    /// Brings the branches that were not lent. One whose name means something there already, a tag or a branch of somebody else's,
    /// stays in the worktree.
    fn others(&self, own: Option<&str>) -> Result<(), Error> {
        let asked = ["for-each-ref", "--format=%(objectname) %(refname)", "refs/heads/"];
        let listed = Git::at(self.tree).printing_much().run(&asked)?;
        let lent = fs::read_to_string(self.lender.entry.join(LENT)).unwrap_or_default();
        let lent = named(&lent);
        let is_new = |name: &str| Some(name) != own && !lent.contains_key(name);
        let made = listed.lines().filter_map(|line| line.split_once(' ')).filter(|(_, name)| is_new(name));
        let record = self.lender.entry.join(BROUGHT);
        let said = fs::read_to_string(&record).unwrap_or_default();
        let mut brought: BTreeMap<&str, &str> =
            said.lines().filter_map(|line| line.split_once(' ')).collect();
        let before = brought.clone();
        for (commit, name) in made.take(limits::BRANCHES_BROUGHT_MAX) {
            let there = commit_of(self.there(), name);
            let was = brought.get(name).copied();
            let may = match &there {
                Some(there) => there == commit || was == Some(there.as_str()),
                None => was.is_none() && self.means_nothing(name),
            };
            if may && self.bring(name, commit, there).is_ok() {
                brought.insert(name, commit);
            }
        }
        if brought != before {
            let said: String = brought.iter().map(|(name, commit)| format!("{name} {commit}\n")).collect();
            fs::write(&record, said).map_err(io_error("write", &record))?;
        }
        Ok(())
    }

    /// Is there nothing that whoever says the short name of this branch would get today?
    fn means_nothing(&self, name: &str) -> bool {
        let short = name.trim_start_matches("refs/heads/");
        let is_odd = short.starts_with('-')
            || short.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
        !is_odd && self.there().run(&["rev-parse", "--quiet", "--verify", "--end-of-options", short]).is_err()
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
fn carry_over<'g>(
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
    let pack = File::create(path).map_err(io_error("create", path))?;
    let packed = ["pack-objects", "--quiet", "--revs", "--thin", "--delta-base-offset", "--stdout"];
    from().reading(words.clone().into_bytes()).holding_silently(Stdio::from(pack)).bytes(&packed)?;
    let pack = || File::open(path).map_err(io_error("open", path));
    let mut header = [0; 12];
    pack()?.read_exact(&mut header).map_err(io_error("read", path))?;
    let count = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    if count > 0 {
        let taken: &[&str] = if count <= limits::LOOSE_OBJECTS_MAX {
            &["unpack-objects", "-q"]
        } else {
            &["index-pack", "--stdin", "--fix-thin"]
        };
        to().holding(Stdio::from(pack()?)).bytes(taken)?;
    }
    let needed = ["rev-list", "--objects", "--quiet", "--stdin"];
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
