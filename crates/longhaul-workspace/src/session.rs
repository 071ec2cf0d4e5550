//! Sessions: named directories that outlive runs, each for one run at a time.
//!
//! Owns `<sessions>/<name>/`: the workspace that runs share, the notes about it (`session.json`), and who has it now. That is
//! told twice. The lock of the operating system dies with its process and cannot be forged; the lease says to people, to
//! other hosts and to file systems without locks which run it is, and until when that may be believed. Both must be free. A
//! lease whose process is over, or which ran out, is taken over and said so. Refuses to take anything from a holder that may live,
//! and every name that is more than a name.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use longhaul_core::collaboration::Home;
use longhaul_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::joining::Resolved;
use crate::process::Process;
use crate::{limits, prune};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{}` cannot be the name of a session: {why}", name.escape_debug())]
    Name { name: String, why: &'static str },
    #[error("there is no session `{name}`")]
    Missing { name: String },
    #[error("Session locked by run {run} (process {pid} on {host}, since {since})")]
    Locked { run: String, pid: i32, host: String, since: Timestamp },
    #[error("session `{name}` is being taken or merged by another process at this moment")]
    Busy { name: String },
    #[error("cannot {action} `{}`", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// A name that leads nowhere but to its own directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    pub fn parse(text: &str) -> Result<Name, Error> {
        let wrong = |why| Err(Error::Name { name: text.to_owned(), why });
        let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if text.is_empty() || text.len() > limits::SESSION_NAME_BYTES_MAX {
            return wrong("it has from 1 to 64 letters");
        }
        if !text.chars().all(plain) {
            return wrong("it has letters, digits, `-`, `_` and `.` only");
        }
        if !text.starts_with(|letter: char| letter.is_ascii_alphanumeric()) {
            return wrong("it begins with a letter or a digit");
        }
        if text.ends_with('.') || text.ends_with(".lock") || text.contains("..") {
            return wrong("it would be no part of a branch's name");
        }
        Ok(Name(text.to_owned()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What is written down of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notes {
    pub name: String,
    pub created_at: Timestamp,
    pub last_used_at: Timestamp,
    /// The user's repository that its workspace is of.
    #[serde(default)]
    pub repository: Option<String>,
    #[serde(default)]
    pub branch: Option<String>,
    /// The address its workspace was brought from, if it was.
    #[serde(default)]
    pub source: Option<String>,
    /// The last ones, oldest first.
    #[serde(default)]
    pub runs: Vec<Visit>,
    /// Conflicts that were resolved and are not merged yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resolved: Vec<Resolved>,
}

/// One run in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    pub run: String,
    pub at: Timestamp,
    /// The branch it has to itself, if it works beside others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
}

impl Notes {
    /// Was there no run yet in the workspace that they share?
    pub fn is_only_parallel(&self) -> bool {
        self.branch.is_none() && self.repository.is_some()
    }

    /// The runs that worked beside others, in their order, each with its branch.
    pub fn parallel(&self) -> impl Iterator<Item = (&Visit, &String)> {
        self.runs.iter().filter_map(|visit| Some((visit, visit.branch.as_ref()?)))
    }

    pub fn branches(&self) -> Vec<String> {
        self.parallel().map(|(_, branch)| branch.clone()).collect()
    }
}

/// Who has a session, as everybody may read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Lease {
    pub run: String,
    #[serde(flatten)]
    pub process: Process,
    pub acquired_at: Timestamp,
    pub expires_at: Timestamp,
}

/// What holds a session, if anything does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    Free,
    /// Somebody may be at work there.
    Live(Lease),
    /// A process that is over, or has not been heard of for too long.
    Stale(Lease),
}

#[derive(Clone, Debug)]
pub struct Session {
    name: Name,
    directory: PathBuf,
}

/// All sessions below a directory, by name.
pub fn all(sessions: &Path) -> Result<Vec<Session>, Error> {
    let found = match fs::read_dir(sessions) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(source) => return Err(io_error("read", sessions)(source)),
    };
    let named =
        |entry: io::Result<fs::DirEntry>| Name::parse(&entry.ok()?.file_name().into_string().ok()?).ok();
    let mut names: Vec<Name> = found.filter_map(named).collect();
    names.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(names.into_iter().map(|name| Session::at(sessions, name)).filter(Session::exists).collect())
}

/// The name of the workspace that all runs share that share one with everybody.
pub const EVERYBODYS: &str = "shared";

impl Session {
    /// The workspace that a run shares with others below a state directory, whether it is there or not; nothing, if it shares none. A
    /// workflow's and everybody's are kept like a session's, but not among them: nobody has asked for them by name.
    pub fn of_home(state: &Path, home: Home<'_>) -> Result<Option<Session>, Error> {
        let workspaces = state.join("workspace");
        let (within, name) = match home {
            Home::Session(name) => (state.join("sessions"), name),
            Home::Workflow(name) => (workspaces.join("workflow"), name),
            Home::Everybody => (workspaces, EVERYBODYS),
            Home::Own => return Ok(None),
        };
        Ok(Some(Session::at(&within, Name::parse(name)?)))
    }

    pub fn at(sessions: &Path, name: Name) -> Session {
        let directory = sessions.join(name.as_str());
        Session { name, directory }
    }

    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its name after the kind of directory it is kept in, which tells it from a workflow of the same name. No name has a `~`.
    pub fn kept_as(&self) -> String {
        let kind = self.directory.parent().and_then(Path::file_name).unwrap_or_default();
        format!("{}~{}", kind.to_string_lossy(), self.name())
    }

    pub fn exists(&self) -> bool {
        self.directory.join(NOTES).is_file()
    }

    /// Where its runs work.
    pub fn workspace(&self) -> PathBuf {
        self.directory.join("workspace")
    }

    /// Where a run works that has a branch to itself.
    pub fn beside(&self, run: &str) -> PathBuf {
        self.directory.join("run").join(run)
    }

    /// What stands where such runs work, whatever the notes say.
    pub fn all_beside(&self) -> Result<Vec<PathBuf>, Error> {
        directories(&self.directory.join("run"))
    }

    /// Every directory that may hold somebody's work: the shared one, what was set aside from it, and those beside it.
    pub fn places(&self) -> Result<Vec<PathBuf>, Error> {
        let mut places = directories(&self.directory)?;
        places.retain(|path| !path.ends_with("run"));
        places.extend(self.all_beside()?);
        Ok(places)
    }

    /// Keeps others from being given a branch here, until it is dropped.
    pub fn naming(&self) -> Result<File, Error> {
        fs::create_dir_all(&self.directory).map_err(io_error("create", &self.directory))?;
        let lock = self.open("naming.lock")?;
        lock.lock().map_err(io_error("lock", &self.directory))?;
        Ok(lock)
    }

    /// Keeps others from merging its branches meanwhile, until it is dropped.
    pub fn merging(&self) -> Result<File, Error> {
        let lock = self.open("merge.lock")?;
        match lock.try_lock() {
            Err(TryLockError::WouldBlock) => Err(Error::Busy { name: self.name().to_owned() }),
            // A file system without locks is no reason not to work on it.
            Ok(()) | Err(TryLockError::Error(_)) => Ok(lock),
        }
    }

    pub fn notes(&self) -> Result<Notes, Error> {
        match self.read(NOTES)? {
            Some(notes) => Ok(notes),
            None => Err(Error::Missing { name: self.name().to_owned() }),
        }
    }

    /// Changes what is written down; a session that is not there is made.
    pub fn note(&self, now: Timestamp, change: impl FnOnce(&mut Notes)) -> Result<Notes, Error> {
        fs::create_dir_all(&self.directory).map_err(io_error("create", &self.directory))?;
        let lock = self.open("notes.lock")?;
        lock.lock().map_err(io_error("lock", &self.directory))?;
        let fresh = || Notes {
            name: self.name().to_owned(),
            created_at: now,
            last_used_at: now,
            repository: None,
            branch: None,
            source: None,
            runs: Vec::new(),
            resolved: Vec::new(),
        };
        let mut notes = self.read(NOTES)?.unwrap_or_else(fresh);
        change(&mut notes);
        notes.last_used_at = now;
        let over = notes.runs.len().saturating_sub(limits::SESSION_RUNS_MAX);
        notes.runs.drain(..over);
        self.write(NOTES, &notes)?;
        Ok(notes)
    }

    /// Is somebody at work there? Changes nothing.
    pub fn hold(&self, now: Timestamp) -> Result<Hold, Error> {
        let Some(lease) = self.lease()? else { return Ok(Hold::Free) };
        let lock = self.open(LOCK)?;
        let is_locked = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
        Ok(if is_locked || !is_stale(&lease, now) { Hold::Live(lease) } else { Hold::Stale(lease) })
    }

    /// Takes the session for a run, and the lease of a dead one with it, which is answered. Given back when dropped.
    pub fn take(&self, run: &str, expiry: Duration) -> Result<(Held, Option<Lease>), Error> {
        fs::create_dir_all(&self.directory).map_err(io_error("create", &self.directory))?;
        let lock = self.open(LOCK)?;
        // Whoever only looks has it for a moment.
        let taken = limits::within(limits::SESSION_WAIT_MAX, || {
            !matches!(lock.try_lock(), Err(TryLockError::WouldBlock))
        });
        match self.lease()? {
            Some(lease) if !taken || !is_stale(&lease, now()) => Err(locked(lease)),
            None if !taken => Err(Error::Busy { name: self.name().to_owned() }),
            stale => {
                let held = Held::new(self.clone(), lock, run, expiry)?;
                Ok((held, stale))
            }
        }
    }

    /// Forgets a lease that nobody keeps. `force` also one of another host, of which nothing can be known.
    pub fn unlock(&self, force: bool) -> Result<Option<Lease>, Error> {
        let Some(lease) = self.lease()? else { return Ok(None) };
        let lock = self.open(LOCK)?;
        let is_locked = matches!(lock.try_lock(), Err(TryLockError::WouldBlock));
        let elsewhere = lease.process.host != Process::own().host;
        if is_locked || !(is_stale(&lease, now()) || (force && elsewhere)) {
            return Err(locked(lease));
        }
        self.remove(LEASE)?;
        Ok(Some(lease))
    }

    /// Removes the session and everything in it, by whoever has it.
    pub fn delete(&self, held: Held) -> Result<(), Error> {
        // Without its notes it is no session, however much of it is left when this is killed.
        self.remove(NOTES)?;
        drop(held);
        fs::remove_dir_all(&self.directory).map_err(io_error("remove", &self.directory))
    }

    fn open(&self, name: &str) -> Result<File, Error> {
        let path = self.directory.join(name);
        File::options().create(true).append(true).open(&path).map_err(io_error("open", &path))
    }

    /// One that is damaged says nothing about anybody; whether somebody is there is then told by the lock alone.
    fn lease(&self) -> Result<Option<Lease>, Error> {
        match self.read(LEASE) {
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::InvalidData => Ok(None),
            Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            other => other,
        }
    }

    fn read<T: for<'de> Deserialize<'de>>(&self, name: &str) -> Result<Option<T>, Error> {
        let path = self.directory.join(name);
        let mut text = Vec::new();
        match File::open(&path) {
            Ok(file) => {
                file.take(limits::NOTE_BYTES_MAX).read_to_end(&mut text).map_err(io_error("read", &path))?
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(io_error("open", &path)(source)),
        };
        serde_json::from_slice(&text).map(Some).map_err(|error| io_error("read", &path)(error.into()))
    }

    /// The new text or the old one, whenever it is cut short.
    fn write(&self, name: &str, value: &impl Serialize) -> Result<(), Error> {
        let (path, fresh) = (self.directory.join(name), self.directory.join(format!("{name}.new")));
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(&serde_json::to_vec_pretty(value)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)
        };
        write().map_err(io_error("write", &path))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.directory.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &path)(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

/// A session that is this process's, as long as this lives. The lease is kept alive beside the work.
pub struct Held {
    session: Session,
    lock: File,
    stop: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Held {
    fn new(session: Session, lock: File, run: &str, expiry: Duration) -> Result<Held, Error> {
        let acquired_at = now();
        let millis = expiry.as_millis() as u64;
        let lease = Lease {
            run: run.to_owned(),
            process: Process::own(),
            acquired_at,
            expires_at: acquired_at.plus_millis(millis),
        };
        session.write(LEASE, &lease)?;
        let (stop, stopped) = mpsc::channel();
        let keeping = session.clone();
        let keeper = thread::Builder::new().name("lease".to_owned()).spawn(move || {
            while stopped.recv_timeout(expiry / 3) == Err(RecvTimeoutError::Timeout) {
                let lease = Lease { expires_at: now().plus_millis(millis), ..lease.clone() };
                // One that cannot be written now may be in a moment; the lock holds as well.
                keeping.write(LEASE, &lease).ok();
            }
        });
        let keeper = keeper.map_err(io_error("keep", &session.directory))?;
        Ok(Held { session, lock, stop: Some(stop), keeper: Some(keeper) })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.keeper.take().map(JoinHandle::join);
        self.session.remove(LEASE).ok();
        self.lock.unlock().ok();
    }
}

const NOTES: &str = "session.json";
const LEASE: &str = "lease.json";
const LOCK: &str = "lock";

/// Of this host one can tell whether the process is over; of another, only whether the lease was kept alive.
fn is_stale(lease: &Lease, now: Timestamp) -> bool {
    lease.process.is_over() || (lease.process.host != Process::own().host && lease.expires_at < now)
}

fn directories(within: &Path) -> Result<Vec<PathBuf>, Error> {
    prune::directories(within).map_err(io_error("read", within))
}

fn locked(lease: Lease) -> Error {
    let Lease { run, process: Process { pid, host, .. }, acquired_at, .. } = lease;
    Error::Locked { run, pid, host, since: acquired_at }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn io_error<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Error + 'a {
    move |source| Error::Io { action, path: path.to_owned(), source }
}
