//! Making a git worktree so that it can be killed and repeated.
//!
//! Owns recognising what a killed making left behind. A note beside the place says that it is being made, from before the
//! first git until it is complete; git itself marks a worktree as half made by a file `locked` with the word `initializing` in
//! its administrative directory. Only such a worktree is removed. Everything else that is in the way is completed, set aside
//! whole, or refused.
//!
//! Git registers the worktree, `apart` gives it a directory of its own, and its files are written by `read-tree`: the `reset` by
//! which `worktree add` would do that takes locks in the user's repository, which stay if it is killed.
//!
//! A killed harness may leave its git child running. That child keeps the lock on the worktree's directory, so the next
//! attempt waits for it instead of working against it.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Instant;

use crate::apart::{Entry, claim, note as note_owner, part, register, stage_anew};
use crate::checkout::quiet_settings;
use crate::git::{self, Git, Setting, past_new_worktrees};
use crate::gitdirs::{self, GitDirs};
use crate::limits;
use crate::place::{Error, create_directories, sync_parent};

pub(crate) fn ensure(repo: &Path, path: &Path, branch: &str, start: &str) -> Result<(), Error> {
    let (path, lock) = locked_directory(path)?;
    let made = make(repo, &path, [branch, start], &lock);
    if made.is_err() {
        undo(repo, &path).ok();
        // It would be taken for a place that is there. Only an empty one goes.
        fs::remove_dir(&path).ok();
    }
    made
}

fn make(repo: &Path, path: &Path, [branch, start]: [&str; 2], lock: &File) -> Result<(), Error> {
    let common = common_directory(repo)?;
    let mut registration = Registration::find(&common, path)?;
    match inspect(path, &common, registration.as_ref())? {
        State::Good(directory) => claim(&Entry { directory: &directory, common: &common }, branch),
        State::Unnoted(directory) => note_owner(path, &Entry { directory: &directory, common: &common }),
        State::Linked(directory) => {
            let entry = Entry { directory: &directory, common: &common };
            part(path, &entry)?;
            claim(&entry, branch)
        }
        State::Unlinked(directory) => {
            let entry = Entry { directory: &directory, common: &common };
            part(path, &entry)?;
            stage_anew(path).map(drop)
        }
        State::Unregistered(directory) => {
            let entry = Entry { directory: &directory, common: &common };
            register(path, &entry, branch)?;
            note_owner(path, &entry)
        }
        State::Vacant | State::HalfMade => {
            let is_ours = |registration: &mut Registration| registration.may_go(path);
            let half_made = registration.take_if(is_ours);
            begin(path)?;
            clear(path)?;
            half_made.map_or(Ok(()), Registration::remove)?;
            drop_stale_lock(&common, branch)?;
            add(repo, path, [branch, start], registration.as_ref(), lock)?;
            complete(path)
        }
        State::Orphaned => {
            let lock = set_aside(path)?;
            begin(path)?;
            drop_stale_lock(&common, branch)?;
            add(repo, path, [branch, start], registration.as_ref(), &lock)?;
            complete(path)
        }
        State::Foreign => Err(Error::NotEmpty { path: path.to_owned() }),
    }
}

/// Takes back what was begun and cannot be completed. What stays of it is noted still, or is marked by git.
fn undo(repo: &Path, path: &Path) -> Result<(), Error> {
    if !is_being_made(path) {
        return Ok(());
    }
    clear(path)?;
    let registration = Registration::find(&common_directory(repo)?, path)?;
    registration.filter(|found| found.may_go(path)).map_or(Ok(()), Registration::remove)?;
    fs::remove_file(gitdirs::note_of(path)).ok();
    complete(path)
}

/// The note beside a place that it is being made. What is below that place meanwhile is nobody's work.
pub(crate) fn note(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".making");
    path.with_file_name(name)
}

fn is_being_made(path: &Path) -> bool {
    note(path).symlink_metadata().is_ok()
}

fn begin(path: &Path) -> Result<(), Error> {
    fs::write(note(path), "").map_err(io_error("write the note beside", path))
}

/// Whoever works there next must not find the note again, whatever is lost with the power.
fn complete(path: &Path) -> Result<(), Error> {
    fs::remove_file(note(path)).map_err(io_error("remove the note beside", path))?;
    sync_parent(path)
}

/// Makes a worktree at a commit, on no branch, where nothing is. No filter is run for it.
pub(crate) fn add_detached(repo: &Path, path: &Path, commit: &str) -> Result<(), Error> {
    let (path, lock) = locked_directory(path)?;
    let settings = quiet_settings(repo)?;
    let added = past_new_worktrees(|| {
        let fixed = ["worktree", "add", "--quiet", "--no-checkout", "--detach", "--"].map(OsStr::new);
        let arguments = [&fixed[..], &[path.as_os_str(), OsStr::new(commit)]].concat();
        let held = lock.try_clone().map_err(git::Error::Spawn)?;
        Git::at(repo).set(&settings).holding(Stdio::from(held)).run(&arguments)
    });
    added?;
    part_new(repo, &path)?;
    fill(&path, &settings, &lock)
}

/// Gives a worktree that git has just made a directory of its own.
fn part_new(repo: &Path, path: &Path) -> Result<(), Error> {
    let common = common_directory(repo)?;
    let lost = || Error::NotEmpty { path: path.to_owned() };
    let Registration { administration, .. } = Registration::find(&common, path)?.ok_or_else(lost)?;
    part(path, &Entry { directory: &administration, common: &common })
}

/// Writes the files of the commit that is checked out into a worktree without any.
fn fill(path: &Path, settings: &[Setting], lock: &File) -> Result<(), Error> {
    let held = lock.try_clone().map_err(git::Error::Spawn)?;
    let filled = ["read-tree", "--reset", "-u", "--no-recurse-submodules", "HEAD"];
    Git::at(path).set(settings).holding(Stdio::from(held)).run(&filled)?;
    Ok(())
}

/// Forgets a worktree whose directory is gone, and no other.
pub(crate) fn forget(repo: &Path, path: &Path) -> Result<(), Error> {
    forget_if_gone(&common_directory(repo)?, path, |_| true).map(drop)
}

/// The same for all of them at or below a directory, but for those that the user has locked: their disk may be elsewhere.
pub(crate) fn forget_gone(repo: &Path, below: &Path) -> Result<usize, Error> {
    let common = common_directory(repo)?;
    let mut count = 0;
    for (_, link) in Registration::all(&common)? {
        if let Some(place) = link.parent().filter(|place| place.starts_with(below)) {
            count += usize::from(forget_if_gone(&common, place, |found| !found.is_locked())?);
        }
    }
    Ok(count)
}

/// Forgets the worktree at a path if nothing stands there and nobody is just making it again. Answers whether it did.
fn forget_if_gone(common: &Path, path: &Path, may: impl Fn(&Registration) -> bool) -> Result<bool, Error> {
    if !is_vacant(path) {
        return Ok(false);
    }
    // Whoever makes it holds a lock on the directory itself, so that has to be there for a moment.
    let missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
    fs::create_dir_all(path).map_err(io_error("create", path))?;
    let Some(_lock) = try_lock(path)? else { return Ok(false) };
    let forgotten = || {
        let path = path.canonicalize().map_err(io_error("resolve", path))?;
        match Registration::find(common, &path)?.filter(&may) {
            Some(found) if entries(&path)?.is_empty() => {
                found.remove()?;
                fs::remove_file(gitdirs::note_of(&path)).ok();
                Ok(true)
            }
            Some(_) | None => Ok(false),
        }
    };
    let forgotten = forgotten();
    for directory in missing {
        fs::remove_dir(directory).ok();
    }
    forgotten
}

/// Is there nothing, or an empty directory? What cannot be looked at may be anything.
fn is_vacant(path: &Path) -> bool {
    match path.symlink_metadata() {
        Ok(facts) => facts.is_dir() && entries(path).is_ok_and(|names| names.is_empty()),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// What is at the worktree's path.
enum State {
    /// An empty directory.
    Vacant,
    /// A complete worktree of this repository, with a directory of its own.
    Good(PathBuf),
    /// The same, but for the note beside it.
    Unnoted(PathBuf),
    /// The same without one: that of the repository is its own, too.
    Linked(PathBuf),
    /// Somebody was killed while this was made; nobody has worked in it.
    HalfMade,
    /// Complete and registered, but its `.git` file is lost or damaged. The files may be work, so they stay.
    Unlinked(PathBuf),
    /// Complete, but the repository does not know it any more.
    Unregistered(PathBuf),
    /// A `.git` file that names a registration of this repository which is gone: git died while cleaning up.
    Orphaned,
    /// Not ours.
    Foreign,
}

fn inspect(path: &Path, common: &Path, registration: Option<&Registration>) -> Result<State, Error> {
    let names = entries(path)?;
    if names.is_empty() {
        return Ok(State::Vacant);
    }
    if is_being_made(path) || registration.is_some_and(|registration| registration.initializing) {
        return Ok(State::HalfMade);
    }
    let link = path.join(".git");
    match gitdirs::at(path) {
        Some(GitDirs::Linked { own, common: shared, .. }) if shared == common => {
            return Ok(State::Linked(own));
        }
        Some(GitDirs::Own { .. }) => return Ok(own_state(path, common, registration)),
        Some(GitDirs::Linked { .. }) | None => {}
    }
    if let Some(registration) = registration {
        return Ok(State::Unlinked(registration.administration.clone()));
    }
    if names == [".git"] {
        return Ok(State::HalfMade);
    }
    Ok(if points_into(&link, &common.join("worktrees")) { State::Orphaned } else { State::Foreign })
}

/// The same where `.git` is a directory.
fn own_state(path: &Path, common: &Path, registration: Option<&Registration>) -> State {
    if let Some(lender) = gitdirs::lender(path).filter(|lender| lender.common == common) {
        return State::Good(lender.entry);
    }
    let named = gitdirs::worktree_of(path).filter(|entry| entry.parent() == Some(&common.join("worktrees")));
    if let Some(entry) = named.as_ref().filter(|entry| gitdirs::points_back(entry, path) == Some(true)) {
        return State::Unnoted(entry.clone());
    }
    // Another way of keeping references has none of the files by which it could be known again.
    match named.filter(|entry| {
        registration.is_none() && !entry.join("gitdir").exists() && !common.join("reftable").exists()
    }) {
        Some(entry) => State::Unregistered(entry),
        None => State::Foreign,
    }
}

/// One worktree as the repository knows it (gitrepository-layout: `worktrees/<id>/`).
struct Registration {
    administration: PathBuf,
    initializing: bool,
}

impl Registration {
    fn find(common: &Path, path: &Path) -> Result<Option<Registration>, Error> {
        let all = Registration::all(common)?;
        Ok(all.into_iter().find(|(_, link)| *link == path.join(".git")).map(|(found, _)| found))
    }

    /// Each with its `.git` file, which may be missing.
    fn all(common: &Path) -> Result<Vec<(Registration, PathBuf)>, Error> {
        let worktrees = common.join("worktrees");
        let found = match fs::read_dir(&worktrees) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(io_error("read", &worktrees)(error)),
        };
        let mut all = Vec::new();
        for entry in found {
            let administration = entry.map_err(io_error("read", &worktrees))?.path();
            let Ok(text) = fs::read_to_string(administration.join("gitdir")) else {
                continue; // Git itself ignores an entry without this file and prunes it.
            };
            let link = resolved(&administration.join(text.trim_end()));
            let lock = fs::read_to_string(administration.join("locked")).unwrap_or_default();
            let initializing = lock.trim_end() == "initializing";
            all.push((Registration { administration, initializing }, link));
        }
        Ok(all)
    }

    /// Is it of a worktree that was being made there?
    fn may_go(&self, path: &Path) -> bool {
        self.initializing || (is_being_made(path) && !self.is_locked())
    }

    /// Has the user said that it is to stay?
    fn is_locked(&self) -> bool {
        !self.initializing && self.administration.join("locked").exists()
    }

    /// Killed at the wrong moment, git leaves an empty `commondir`, and then refuses every worktree command in the whole
    /// repository; hence that file goes first. `gitdir` and `locked` say whose this is and that it may go: they go last.
    fn remove(self) -> Result<(), Error> {
        let rank = |name: &OsString| match name.to_str() {
            Some("commondir") => 0,
            Some("gitdir") => 2,
            Some("locked") => 3,
            Some(_) | None => 1,
        };
        remove_entries(&self.administration, rank)?;
        fs::remove_dir(&self.administration).map_err(io_error("remove", &self.administration))
    }
}

/// With the links of its directory resolved: the `.git` file itself may be missing.
fn resolved(link: &Path) -> PathBuf {
    let directory = link.parent().and_then(|parent| parent.canonicalize().ok());
    directory.map_or_else(|| link.to_owned(), |directory| directory.join(".git"))
}

fn points_into(link: &Path, worktrees: &Path) -> bool {
    let text = fs::read_to_string(link).unwrap_or_default();
    text.strip_prefix("gitdir:").is_some_and(|target| Path::new(target.trim()).starts_with(worktrees))
}

fn common_directory(repo: &Path) -> Result<PathBuf, Error> {
    let printed = Git::at(repo).run(&["rev-parse", "--git-common-dir"])?;
    let common = repo.join(printed);
    common.canonicalize().map_err(io_error("resolve", &common))
}

/// Git killed while it creates our branch leaves the lock of that branch, and refuses to create it ever after. Nobody else
/// makes a branch of this run, and we hold the lock of its directory, so an old lock here has no owner.
fn drop_stale_lock(common: &Path, branch: &str) -> Result<(), Error> {
    let reference = common.join("refs/heads").join(branch);
    let lock = common.join("refs/heads").join(format!("{branch}.lock"));
    // Git will refuse a name with such parts; until then it must not lead us anywhere.
    let strange = branch.split('/').any(|part| part.is_empty() || part.starts_with('.'));
    if strange || reference.exists() || !lock.is_file() {
        return Ok(());
    }
    fs::remove_file(&lock).map_err(io_error("remove", &lock))
}

/// Forcing is only for a stale registration of this very path; without one, git's own refusals are wanted. No filter is run for
/// it: nobody can tell whether an agent made the repository, or wrote the script that a filter names.
fn add(
    repo: &Path,
    path: &Path,
    [branch, start]: [&str; 2],
    stale: Option<&Registration>,
    lock: &File,
) -> Result<(), Error> {
    let reference = format!("refs/heads/{branch}");
    let quiet = quiet_settings(repo)?;
    let added = past_new_worktrees(|| {
        // One that failed may have made the branch already.
        let exists = Git::at(repo).run(&["show-ref", "--verify", "--quiet", &reference]).is_ok();
        let mut arguments: Vec<&OsStr> =
            ["worktree", "add", "--quiet", "--no-checkout"].map(OsStr::new).to_vec();
        if stale.is_some() {
            arguments.extend(["--force", "--force"].map(OsStr::new));
        }
        if !exists {
            arguments.extend(["-b", branch].map(OsStr::new));
        }
        let start = if exists { branch } else { start };
        arguments.extend([OsStr::new("--"), path.as_os_str(), OsStr::new(start)]);
        let held = lock.try_clone().map_err(git::Error::Spawn)?;
        Git::at(repo).set(&quiet).holding(Stdio::from(held)).run(&arguments)
    });
    added?;
    part_new(repo, path)?;
    fill(path, &quiet, lock)
}

/// `.git` goes last: as long as it is there, a killed clearing is recognised and repeated.
fn clear(path: &Path) -> Result<(), Error> {
    remove_entries(path, |name| u8::from(name == ".git"))
}

/// Removes what is in a directory, lowest rank first.
fn remove_entries(directory: &Path, rank: impl Fn(&OsString) -> u8) -> Result<(), Error> {
    let mut names = entries(directory)?;
    names.sort_by_key(rank);
    for name in names {
        let entry = directory.join(name);
        let is_directory = entry.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        let removed = if is_directory { fs::remove_dir_all(&entry) } else { fs::remove_file(&entry) };
        removed.map_err(io_error("remove", &entry))?;
    }
    Ok(())
}

/// Moves the directory away whole and starts with a new one; answers the lock on the new one.
fn set_aside(path: &Path) -> Result<File, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let free = (1..).map(|number| path.with_file_name(format!("{name}.set-aside-{number}")));
    let Some(aside) = free.into_iter().find(|aside| aside.symlink_metadata().is_err()) else {
        return Err(Error::NotEmpty { path: path.to_owned() });
    };
    fs::rename(path, &aside).map_err(io_error("set aside", path))?;
    Ok(locked_directory(path)?.1)
}

/// The directory as it really is, made if it is not there, and its lock. Whoever had that before may have moved it or taken it away.
fn locked_directory(path: &Path) -> Result<(PathBuf, File), Error> {
    let start = Instant::now();
    while start.elapsed() < limits::GIT_TIME_MAX {
        create_directories(path)?;
        match path.canonicalize() {
            Ok(found) => {
                if let Some(lock) = try_lock(&found)? {
                    return Ok((found, lock));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(io_error("resolve", path)(source)),
        }
        thread::sleep(limits::POLL_INTERVAL);
    }
    Err(Error::Held { path: path.to_owned() })
}

/// The lock of a directory; none if somebody has it, or if another directory has that name by now.
fn try_lock(path: &Path) -> Result<Option<File>, Error> {
    let directory = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        directory => directory.map_err(io_error("open", path))?,
    };
    match directory.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(None),
        // A file system without locks is no reason not to work on it.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    let held = directory.metadata().map_err(io_error("look at", path))?;
    let is_same =
        fs::metadata(path).is_ok_and(|named| (named.dev(), named.ino()) == (held.dev(), held.ino()));
    Ok(is_same.then_some(directory))
}

fn entries(path: &Path) -> Result<Vec<OsString>, Error> {
    let found = fs::read_dir(path).map_err(io_error("read", path))?;
    found.map(|entry| Ok(entry.map_err(io_error("read", path))?.file_name())).collect()
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |source| Error::Io { action, path: path.to_owned(), source }
}
