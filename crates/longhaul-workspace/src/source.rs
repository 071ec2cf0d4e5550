//! Repositories that are brought from elsewhere.
//!
//! Owns which addresses and names may be given to git at all, a shared store of what was fetched, so that the second workspace of
//! a repository costs next to nothing, and workspaces made out of it. Each is a repository of its own: what an agent does to
//! it touches no other. Fetched contents are data: no hook, no filter and no submodule of theirs is run or followed. Refuses
//! every address that is not https, ssh or a repository on this machine, and every one that has a password or a token in it.

use std::collections::BTreeSet;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use crate::checkout::quiet_settings;
use crate::git::{self, Git};
use crate::gitdirs::{self, FETCHED};
use crate::homing::{self, carry_over};
use crate::lending::References;
use crate::place::create_directories;
use crate::stale::clear_locks;
use crate::{digest_of, limits, place};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{} is no repository that can be used: {why}", shown.escape_debug())]
    Address { shown: String, why: &'static str },
    #[error("`{}` cannot be the name of a branch, a tag or a commit", name.escape_debug())]
    Reference { name: String },
    #[error("there is no branch, tag or commit `{name}` in {url}")]
    NoReference { name: String, url: String },
    #[error("{url} has no commits")]
    Empty { url: String },
    #[error("another process has been fetching {url} for too long")]
    Busy { url: String },
    #[error(transparent)]
    Home(#[from] homing::Error),
    #[error("cannot reach {url}")]
    Fetch { url: String, source: git::Error },
    #[error(transparent)]
    Place(#[from] place::Error),
}

impl From<git::Error> for Error {
    fn from(error: git::Error) -> Error {
        Error::Place(error.into())
    }
}

/// An address that was found to be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    text: String,
    /// The only way git may take.
    protocol: &'static str,
}

impl Address {
    /// Reads what a user typed; a path is relative to `cwd`.
    pub fn parse(text: &str, cwd: &Path) -> Result<Address, Error> {
        let wrong = |why| Error::Address { shown: without_password(text), why };
        if text.is_empty() || text.len() > limits::ADDRESS_BYTES_MAX || text.chars().any(char::is_control) {
            return Err(wrong("an address is one line of at most 2048 bytes"));
        }
        if text.starts_with('-') || text.contains("::") {
            return Err(wrong("git would take it for an option or run a program"));
        }
        let remote = |protocol| Ok(Address { text: text.to_owned(), protocol });
        if let Some(rest) = text.strip_prefix("https://") {
            if rest.split('/').next().is_some_and(|authority| authority.contains('@')) {
                return Err(wrong(USER));
            }
            check_remote(rest, &wrong)?;
            return remote("https");
        }
        if let Some(rest) = text.strip_prefix("ssh://") {
            check_remote(rest, &wrong)?;
            return remote("ssh");
        }
        if let Some(path) = text.strip_prefix("file://") {
            return local(Path::new(path), &wrong);
        }
        if text.contains("://") {
            return Err(wrong("only https, ssh and repositories on this machine can be used"));
        }
        match text.split_once(':') {
            // `git@host:path`, as git understands it: a colon before any slash.
            Some((host, path)) if !host.contains('/') => {
                // `user:password@host:path`
                let behind = path.split_once('@').map(|(before, after)| (before.contains('/'), after));
                if behind.is_some_and(|(is_below, after)| !is_below || after.contains(':')) {
                    return Err(wrong(PASSWORD));
                }
                check_host(host, &wrong)?;
                if path.is_empty() || path.starts_with('-') {
                    return Err(wrong("there is no path in it"));
                }
                remote("ssh")
            }
            Some(_) | None => local(&cwd.join(text), &wrong),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The ways git may take there, also where the user's own settings lead from one to another.
    pub fn protocols(&self) -> &'static str {
        if self.protocol == "file" { "file" } else { "https:ssh" }
    }
}

fn check_remote(rest: &str, wrong: &dyn Fn(&'static str) -> Error) -> Result<(), Error> {
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    check_host(host, wrong)?;
    if path.is_empty() {
        return Err(wrong("there is no path in it"));
    }
    if path.contains(['?', '#']) {
        return Err(wrong("what follows a ? or # would be kept and shown, and may be a key"));
    }
    Ok(())
}

const PASSWORD: &str = "a password does not belong into an address; use a credential helper or a key";

/// Hosts take a token for a user, and the address is kept and shown.
const USER: &str =
    "a user in an https address may be a token; leave it out and use a credential helper, or ssh";

/// A host that begins with a dash is an option to ssh, and so is a user. A password would be kept and shown.
fn check_host(authority: &str, wrong: &dyn Fn(&'static str) -> Error) -> Result<(), Error> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    if user.is_some_and(|user| user.contains(':')) {
        return Err(wrong(PASSWORD));
    }
    let (name, port) = match host.split_once(']') {
        Some((address, "")) => (address.strip_prefix('[').unwrap_or(""), None),
        Some((address, rest)) => {
            (address.strip_prefix('[').unwrap_or(""), Some(rest.strip_prefix(':').unwrap_or("none")))
        }
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    let is_address = host.starts_with('[');
    let letters = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
    let in_address = |letter: char| letter.is_ascii_hexdigit() || matches!(letter, ':' | '.');
    let is_name = if is_address { name.chars().all(in_address) } else { name.chars().all(letters) };
    let is_port = port.is_none_or(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'));
    let plain = is_name && is_port && !name.is_empty() && !name.starts_with(['-', '.']);
    let is_user =
        |user: &str| user.chars().all(|letter| letters(letter) || letter == '+') && !user.starts_with('-');
    if !plain || user.is_some_and(|user| user.is_empty() || !is_user(user)) {
        return Err(wrong("its host is none"));
    }
    Ok(())
}

fn local(path: &Path, wrong: &dyn Fn(&'static str) -> Error) -> Result<Address, Error> {
    let path = path.canonicalize().map_err(|_| wrong("there is nothing at that path"))?;
    let is_repository = |dir: &Path| dir.join("HEAD").is_file() && dir.join("objects").is_dir();
    let linked = crate::gitdirs::at(&path).is_some();
    if !(is_repository(&path) || linked) {
        return Err(wrong("there is no repository at that path"));
    }
    let text = path.into_os_string().into_string().map_err(|_| wrong("its path is not UTF-8"))?;
    Ok(Address { text, protocol: "file" })
}

/// What can be shown of an address: neither what may be a password nor what may be a key.
fn without_password(text: &str) -> String {
    let start = text.find("://").map_or(0, |scheme| scheme + 3);
    let end = text.find(['?', '#']).unwrap_or(text.len());
    match (text.find(':'), text.rfind('@')) {
        // Which of the two is the key cannot be told.
        (_, Some(at)) if end < at => format!("{}…", &text[..start.min(end)]),
        // `git@host:path` has its colon behind.
        (Some(colon), Some(at)) if start <= at && colon < at => {
            format!("{}…{}", &text[..start], &text[at..end])
        }
        _ => text[..end].to_owned(),
    }
}

/// Is this the name of a branch or a tag, or a commit? As `git check-ref-format` has it, but for what could be read as more.
pub fn check_reference(name: &str) -> Result<(), Error> {
    let is_odd = |letter: char| letter.is_control() || letter.is_whitespace() || "~^:?*[\\".contains(letter);
    let is_part = |part: &str| {
        !part.is_empty() && !part.starts_with(['.', '-']) && !part.ends_with('.') && !part.ends_with(".lock")
    };
    let means_more = name == "HEAD" || name == "@" || name.contains("..") || name.contains("@{");
    let is_plain = name.len() <= limits::REFERENCE_BYTES_MAX && !name.contains(is_odd) && !means_more;
    if is_plain && name.split('/').all(is_part) {
        return Ok(());
    }
    Err(Error::Reference { name: name.to_owned() })
}

/// What a name may mean in a store, the likeliest first: as git has it, a full name, then a branch, a tag, a commit, and a branch by
/// the name that it has in a clone. Of what we keep there ourselves, none.
fn meanings(name: &str) -> Vec<String> {
    let is_full = name.starts_with("refs/heads/") || name.starts_with("refs/tags/");
    let is_commit = name.len() >= 7 && name.chars().all(|letter| letter.is_ascii_hexdigit());
    let in_clone = name.strip_prefix("refs/remotes/").unwrap_or(name).strip_prefix("origin/");
    let mut names: Vec<String> = is_full.then(|| name.to_owned()).into_iter().collect();
    names.extend(["heads", "tags"].map(|kind| format!("refs/{kind}/{name}")));
    names.extend(is_commit.then(|| name.to_owned()));
    names.extend(in_clone.map(|branch| format!("refs/heads/{branch}")));
    names
}

/// The shared store of one repository.
#[derive(Clone, Debug)]
pub struct Store {
    address: Address,
    depth: Option<u32>,
    directory: PathBuf,
}

impl Store {
    /// `stores` is where all of them are. A shallow one is one of its own: it would lack what the others need.
    pub fn at(stores: &Path, address: Address, depth: Option<u32>) -> Store {
        Store { directory: Store::place(stores, &address.text, depth), address, depth }
    }

    /// Where the store of an address is, also of one that leads nowhere any more.
    pub fn place(stores: &Path, address: &str, depth: Option<u32>) -> PathBuf {
        let key = format!("{address}\n{}", depth.map_or_else(String::new, |depth| depth.to_string()));
        let name: String =
            digest_of(key.as_bytes()).chars().filter(char::is_ascii_alphanumeric).take(32).collect();
        stores.join(format!("{name}.git"))
    }

    /// Where it is kept.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Fetches what is new there, and answers the commit that `reference` means: a branch, a tag or a commit; without one, what the
    /// repository itself would check out.
    pub fn fetch(&self, reference: Option<&str>) -> Result<String, Error> {
        reference.map_or(Ok(()), check_reference)?;
        let lock = self.lock()?;
        let is_new = !self.directory.exists();
        clear_locks(&self.directory);
        if !self.directory.join("HEAD").is_file() {
            self.make("--object-format=sha1")?;
        }
        let depth = self.depth.map(|depth| format!("--depth={depth}"));
        let mut asked = vec![
            "fetch",
            "--quiet",
            "--force",
            "--prune",
            "--no-auto-maintenance",
            "--no-recurse-submodules",
        ];
        asked.extend(depth.as_deref());
        let refs = ["--", self.address.as_str(), "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*"];
        let refs = [&refs[..], &["+HEAD:refs/longhaul/head"]].concat();
        // A git that outlives us holds the lock, so that nobody clears those that it has taken.
        let failed = |source| place::Error::Io { action: "lock", path: self.directory.clone(), source };
        let held = || lock.try_clone().map(Stdio::from).map_err(failed);
        let fetch = |held| {
            let git = self.git().holding(held).reaching(self.address.protocol);
            let git = git.filling(&self.directory, limits::FETCHED_BYTES_MAX);
            git.run(&[&asked[..], &refs].concat())
        };
        let mut fetched = fetch(held()?);
        let is_other_kind = |error: &git::Error| error.to_string().contains("mismatched algorithms");
        if fetched.as_ref().is_err_and(is_other_kind) && is_new {
            let remove = |source| place::Error::Io { action: "remove", path: self.directory.clone(), source };
            fs::remove_dir_all(&self.directory).map_err(remove)?;
            self.make("--object-format=sha256")?;
            fetched = fetch(held()?);
        }
        if let Err(error) = fetched {
            if is_new {
                // Nothing was fetched, and perhaps the address was a slip.
                take_away(&self.directory).ok();
            }
            return Err(self.explained(error));
        }
        self.resolve(reference)
    }

    /// An empty store, for objects of a kind: which one a repository has is known only when it is asked.
    fn make(&self, kind: &str) -> Result<(), Error> {
        let made = ["init", "--quiet", "--bare", "--template=", kind, "--"].map(std::ffi::OsStr::new);
        Git::at(Path::new("/")).run(&[&made[..], &[self.directory.as_os_str()]].concat())?;
        Ok(())
    }

    fn explained(&self, source: git::Error) -> Error {
        let url = self.address.text.clone();
        // A repository without commits has no HEAD to fetch.
        if source.to_string().contains("couldn't find remote ref HEAD") {
            return Error::Empty { url };
        }
        Error::Fetch { url, source }
    }

    fn resolve(&self, reference: Option<&str>) -> Result<String, Error> {
        let names = match reference {
            None => vec!["refs/longhaul/head".to_owned()],
            Some(name) => meanings(name),
        };
        let commit = |name: &String| {
            let commit = format!("{name}^{{commit}}");
            self.git().run(&["rev-parse", "--quiet", "--verify", "--end-of-options", &commit]).ok()
        };
        names.iter().find_map(commit).ok_or_else(|| Error::NoReference {
            name: reference.unwrap_or("HEAD").to_owned(),
            url: self.address.text.clone(),
        })
    }

    fn git(&self) -> Git<'_> {
        Git::at(&self.directory).with("GIT_DIR", self.directory.as_os_str())
    }

    fn lock(&self) -> Result<File, Error> {
        let parent = self.directory.parent().unwrap_or(Path::new("."));
        create_directories(parent)?;
        let mut tried = Ok(None);
        // Whoever has it brings what is wanted here, too.
        limits::within(limits::FETCH_TIME_MAX, || {
            tried = try_lock(&self.directory);
            !matches!(tried, Ok(None))
        });
        tried?.ok_or_else(|| Error::Busy { url: self.address.text.clone() })
    }
}

/// The lock of a store, unless somebody has it.
fn try_lock(directory: &Path) -> Result<Option<File>, place::Error> {
    let path = directory.with_extension("lock");
    let failed = |source| place::Error::Io { action: "lock", path: path.clone(), source };
    let lock = File::options().create(true).append(true).open(&path).map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    // Whoever took the store away took the lock's file along, and one without a name holds nobody up.
    let (held, named) = (lock.metadata().map_err(failed)?, fs::metadata(&path));
    Ok(named.is_ok_and(|named| named.ino() == held.ino()).then_some(lock))
}

/// Was nothing fetched into it for that long?
pub fn is_unused(store: &Path, age: Duration) -> bool {
    let fetched = fs::metadata(store.join("FETCH_HEAD")).or_else(|_| fs::metadata(store));
    let at = fetched.and_then(|facts| facts.modified());
    at.is_ok_and(|at| at.elapsed().unwrap_or_default() >= age)
}

/// Takes a store away that was not used for that long, unless somebody is fetching. Workspaces that were made from it have all they
/// need.
pub fn remove(store: &Path, age: Duration) -> Result<bool, place::Error> {
    let Some(_lock) = try_lock(store)?.filter(|_| is_unused(store, age)) else { return Ok(false) };
    take_away(store)?;
    Ok(true)
}

/// With its lock held. Under another name first: of half a store, git would say that it is one.
fn take_away(store: &Path) -> Result<(), place::Error> {
    let failed = |source| place::Error::Io { action: "remove", path: store.to_owned(), source };
    let mut gone = store.with_extension("").into_os_string();
    gone.push(place::REMOVING);
    if Path::new(&gone) != store {
        if Path::new(&gone).exists() {
            fs::remove_dir_all(&gone).map_err(failed)?;
        }
        fs::rename(store, &gone).map_err(failed)?;
    }
    fs::remove_dir_all(&gone).map_err(failed)?;
    fs::remove_file(store.with_extension("lock")).map_err(failed)
}

/// Brings what is new in a store into a workspace that was made from it, under its names for the origin. No file is touched. No git
/// goes from the one to the other: the workspace is an agent's, and what works there is held to it.
pub fn refresh(store: &Path, workspace: &Path, scratch: &Path) -> Result<(), Error> {
    let from = || Git::at(store).with("GIT_DIR", store.as_os_str());
    let (there, here) = (References::of(from(), "")?, References::of(Git::at(workspace), "refs/")?);
    let names = |name: &str| -> Vec<String> {
        match (name.strip_prefix("refs/heads/"), name.strip_prefix("refs/tags/")) {
            (Some(branch), _) => vec![format!("refs/remotes/origin/{branch}")],
            (None, Some(tag)) => vec![name.to_owned(), format!("{ORIGINS_TAGS}{tag}")],
            (None, None) => Vec::new(),
        }
    };
    let due = there.iter().flat_map(|(name, id)| names(name).into_iter().map(move |name| (name, id)));
    let due: Vec<(String, &str)> = due.filter(|(name, id)| here.get(name) != Some(id)).collect();
    if due.is_empty() {
        return Ok(());
    }
    let wanted: BTreeSet<&str> = due.iter().map(|(_, id)| *id).collect();
    let wanted: Vec<&str> = wanted.into_iter().collect();
    let origins = here.iter().filter(|(name, _)| name.starts_with("refs/remotes/origin/"));
    let has = |id: &&str| from().run(&["cat-file", "-e", "--end-of-options", id]).is_ok();
    let known: Vec<&str> = origins.map(|(_, id)| id).filter(has).collect();
    fs::create_dir_all(scratch).map_err(|source| place::Error::Io {
        action: "create",
        path: scratch.to_owned(),
        source,
    })?;
    end_history_alike(store, workspace).map_err(|source| place::Error::Io {
        action: "write to",
        path: workspace.to_owned(),
        source,
    })?;
    carry_over(from, || Git::at(workspace), scratch, &wanted, &known)?;
    let orders: String = due.iter().map(|(name, id)| format!("update {name} {id}\n")).collect();
    Git::at(workspace).reading(orders.into_bytes()).bytes(&["update-ref", "--stdin"])?;
    Ok(())
}

/// Tells a workspace where the history of its store ends, beside where its own does.
fn end_history_alike(store: &Path, workspace: &Path) -> io::Result<()> {
    let Some(there) = gitdirs::history_ends(store) else { return Ok(()) };
    let own = workspace.join(".git");
    let here = gitdirs::history_ends(&own).unwrap_or_default();
    let ends: BTreeSet<&str> = there.lines().chain(here.lines()).collect();
    let lines: String = ends.iter().map(|end| format!("{end}\n")).collect();
    let fresh = own.join("shallow.longhaul");
    fs::remove_file(&fresh).ok();
    File::create_new(&fresh)?.write_all(lines.as_bytes())?;
    // What stands there is replaced, not followed.
    fs::rename(&fresh, own.join("shallow"))
}

/// Where a workspace has the tags of its origin once more: among all tags, nobody could tell them from an agent's own.
pub(crate) const ORIGINS_TAGS: &str = "refs/longhaul/tags/";

fn origins_tags() -> String {
    format!("+refs/tags/*:{ORIGINS_TAGS}*")
}

/// Does two things at a time.
fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        match one.join() {
            Ok(one) => (one, other),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// A workspace made from a store: a repository of its own, with `branch` checked out at `start`. It is made beside its place and
/// moved there whole, so that one which is there is complete; one that is there is left alone.
pub(crate) fn ensure(
    store: &Path,
    url: &str,
    path: &Path,
    [branch, start]: [&str; 2],
) -> Result<(), place::Error> {
    if path.join(".git").is_dir() {
        // One that was made by an earlier version is not set apart, nor is one that was being made so when somebody was killed.
        return set_objects_apart(path).map_err(|source| place::Error::Io {
            action: "set apart the objects of",
            path: path.to_owned(),
            source,
        });
    }
    if fs::read_dir(path).is_ok_and(|mut found| found.next().is_some()) {
        return Err(place::Error::NotEmpty { path: path.to_owned() });
    }
    let io = |action, path: &Path| {
        let path = path.to_owned();
        move |source| place::Error::Io { action, path, source }
    };
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".cloning");
    let fresh = path.with_file_name(name);
    create_directories(path.parent().unwrap_or(path))?;
    let lock_path = fresh.with_extension("lock");
    let lock = File::options().create(true).append(true).open(&lock_path).map_err(io("open", &lock_path))?;
    // A git that outlived a killed harness holds it too, and is waited for.
    if !limits::within(limits::FETCH_TIME_MAX, || lock.try_lock().is_ok()) {
        return Err(place::Error::Held { path: path.to_owned() });
    }
    if fresh.symlink_metadata().is_ok() {
        fs::remove_dir_all(&fresh).map_err(io("remove what was left of", &fresh))?;
    }
    // A few bytes that were fetched may be many on disk.
    if place::checkout_bytes(store, start).is_some_and(|bytes| bytes > limits::FETCHED_BYTES_MAX) {
        fs::remove_file(&lock_path).ok();
        return Err(place::Error::TooLarge { path: path.to_owned() });
    }
    let made = make(store, url, &fresh, [branch, start], &lock);
    if made.is_err() {
        // Whatever was in it was fetched, and can be again.
        fs::remove_dir_all(&fresh).ok();
        fs::remove_file(&lock_path).ok();
    }
    made?;
    if path.is_dir() {
        fs::remove_dir(path).map_err(io("replace", path))?;
    }
    fs::rename(&fresh, path).map_err(io("rename", &fresh))?;
    fs::remove_file(&lock_path).ok();
    Ok(())
}

/// A repository of its own in an empty place, with a branch checked out.
fn make(
    store: &Path,
    url: &str,
    fresh: &Path,
    [branch, start]: [&str; 2],
    lock: &File,
) -> Result<(), place::Error> {
    let io = |source| place::Error::Io { action: "lock", path: fresh.to_owned(), source };
    let held = || -> Result<Stdio, place::Error> { Ok(Stdio::from(lock.try_clone().map_err(io)?)) };
    let cloned = ["clone", "--quiet", "--local", "--no-checkout", "--template=", "--origin=origin", "--"];
    let mut cloned: Vec<&std::ffi::OsStr> = cloned.iter().map(std::ffi::OsStr::new).collect();
    cloned.extend([store.as_os_str(), fresh.as_os_str()]);
    let cloning = Git::at(Path::new("/")).reaching("file").holding(held()?);
    // What has a configuration of its own is the user's: a fresh clone names no filter.
    let (cloned, settings) = both(|| cloning.run(&cloned), || quiet_settings(store));
    let (_, settings) = (cloned?, settings?);
    set_objects_apart(fresh).map_err(|source| place::Error::Io {
        action: "set apart the objects of",
        path: fresh.to_owned(),
        source,
    })?;
    let checked_out =
        ["checkout", "--quiet", "--no-track", "--no-recurse-submodules", "-B", branch, start, "--"];
    let checkout = Git::at(fresh).set(&settings).holding(held()?);
    let kept = ["fetch", "--quiet", "--no-tags", "--no-auto-maintenance", "--no-write-fetch-head", "--"];
    let mut kept: Vec<&std::ffi::OsStr> = kept.iter().map(std::ffi::OsStr::new).collect();
    let tags = origins_tags();
    kept.extend([store.as_os_str(), std::ffi::OsStr::new(&tags)]);
    let keeping = Git::at(fresh).reaching("file").holding(held()?);
    // Neither the address nor a tag is of any interest to a checkout.
    let (named, checked_out) = both(
        || {
            Git::at(fresh).run(&["remote", "set-url", "--", "origin", url])?;
            keeping.run(&kept)
        },
        || checkout.run(&checked_out),
    );
    let (_, _) = (named?, checked_out?);
    Ok(())
}

/// Sets what a workspace is made from beside its own objects. These are links to the store's own files: whoever wrote into one would
/// change what every later workspace is given, and so nothing in there is for an agent to write.
fn set_objects_apart(workspace: &Path) -> io::Result<()> {
    let directory = workspace.join(".git");
    let (objects, fetched) = (directory.join("objects"), directory.join(FETCHED));
    let inner = [objects.join("info"), fetched.join("objects")];
    if [&directory, &objects, &fetched].into_iter().chain(&inner).any(|path| path.is_symlink()) {
        return Err(io::Error::other("there is a link in the place of a directory"));
    }
    if !fetched.join("objects").is_dir() {
        fs::create_dir_all(&fetched)?;
        fs::rename(&objects, fetched.join("objects"))?;
    }
    let named = objects.join("info/alternates");
    if named.symlink_metadata().is_ok() {
        return Ok(());
    }
    fs::create_dir_all(objects.join("info"))?;
    fs::create_dir_all(objects.join("pack"))?;
    let fresh = named.with_extension("new");
    fs::write(&fresh, format!("../{FETCHED}/objects\n"))?;
    fs::rename(&fresh, &named)
}
