//! Git as a child process.
//!
//! Owns how git is started: no prompts, no hooks, no environment of a surrounding git command, no keys, and nothing run that a
//! repository names in its configuration. What the harness does by itself runs here, in a bounded time and with a bounded
//! output; what a model asks for is started with the same [`command`] by `longhaul-tools`. Refuses to know what the commands
//! are for.

use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::alone::{self, Bounds};
use crate::prune::bytes_below;
use crate::{activity, gitdirs, limits};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot run git")]
    Spawn(#[source] std::io::Error),
    #[error("git {action} failed: {message}")]
    Failed { action: String, message: String },
    #[error("git {action} was stopped after {} s", after.as_secs())]
    TimedOut { action: String, after: Duration },
    #[error("git {action} was stopped: it had written nothing for {} s", idle.as_secs())]
    Idle { action: String, idle: Duration },
    #[error("git {action} was stopped: it had waited for {} s for something that does not come, a pipe in the place of a file, say", idle.as_secs())]
    Waiting { action: String, idle: Duration },
    #[error("git {action} was not started: `.git/{}` is nothing that git has there", name.display())]
    Odd { action: String, name: OsString },
    #[error("git {action} printed more than {} bytes", limits::GIT_LIST_BYTES_MAX)]
    TooMuch { action: String },
    #[error("git {action} was stopped: it has written more than {} MiB", bytes_max / (1024 * 1024))]
    TooLarge { action: String, bytes_max: u64 },
}

/// A directory that git fills, how far, and for how long it may stay as it is.
#[derive(Clone, Copy)]
struct Room<'a> {
    directory: &'a Path,
    bytes_max: u64,
    idle_max: Duration,
}

/// A key of git's configuration and what it is to be. A key may have any bytes in it.
pub type Setting = (OsString, String);

/// One git command in `directory`. It reaches nobody and starts nothing but git, unless it is told whom to reach.
pub(crate) struct Git<'a> {
    directory: &'a Path,
    stdin: Reads,
    settings: &'a [Setting],
    /// The way it may take to another repository. Then it needs a shell, or ssh.
    reaches: Option<&'static str>,
    environment: Vec<(&'static str, OsString)>,
    output_bytes_max: u64,
    /// What takes the place of its output, for one that prints nothing.
    output: Option<Stdio>,
    room: Option<Room<'a>>,
    time_max: Duration,
    /// How long it may stand still; one that reaches somebody waits for them.
    wait_max: Option<Duration>,
}

/// What the child finds at its standard input.
enum Reads {
    Nothing,
    /// Something to hold open for as long as it lives; git reads nothing from it.
    Held(Stdio),
    Bytes(Vec<u8>),
}

/// What a git command that ran to its end left.
pub(crate) struct Printed {
    pub(crate) status: ExitStatus,
    pub(crate) bytes: Vec<u8>,
    complaint: String,
}

impl<'a> Git<'a> {
    pub(crate) fn at(directory: &'a Path) -> Git<'a> {
        Git {
            directory,
            stdin: Reads::Nothing,
            settings: &[],
            reaches: None,
            environment: Vec::new(),
            output_bytes_max: limits::GIT_OUTPUT_BYTES_MAX,
            output: None,
            room: None,
            time_max: limits::GIT_TIME_MAX,
            wait_max: Some(limits::GIT_WAIT_MAX),
        }
    }

    /// Stopped when it has filled a directory further than that: what comes from elsewhere may have no end.
    pub(crate) fn filling(self, directory: &'a Path, bytes_max: u64) -> Git<'a> {
        let room = Room { directory, bytes_max, idle_max: limits::FETCH_IDLE_MAX };
        Git { room: Some(room), ..self }
    }

    /// Gives the child something to hold open for as long as it lives; git reads nothing from it.
    pub(crate) fn holding(self, stdin: Stdio) -> Git<'a> {
        Git { stdin: Reads::Held(stdin), ..self }
    }

    /// The same for one that reads its standard input and prints nothing.
    pub(crate) fn holding_silently(self, stdout: Stdio) -> Git<'a> {
        Git { output: Some(stdout), ..self }
    }

    /// What git reads at its standard input.
    pub(crate) fn reading(self, bytes: Vec<u8>) -> Git<'a> {
        Git { stdin: Reads::Bytes(bytes), ..self }
    }

    /// Configuration that goes over all other.
    pub(crate) fn set(self, settings: &'a [Setting]) -> Git<'a> {
        Git { settings, ..self }
    }

    /// For fetching and cloning, by this protocol and no other.
    pub(crate) fn reaching(self, protocol: &'static str) -> Git<'a> {
        Git { reaches: Some(protocol), time_max: limits::FETCH_TIME_MAX, wait_max: None, ..self }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<OsString>) -> Git<'a> {
        self.environment.push((name, value.into()));
        self
    }

    /// For a command whose output is long and must be whole.
    pub(crate) fn printing_much(self) -> Git<'a> {
        Git { output_bytes_max: limits::GIT_LIST_BYTES_MAX, ..self }
    }

    /// Runs git and answers what it printed, without the last line break.
    pub(crate) fn run<S: AsRef<OsStr>>(self, arguments: &[S]) -> Result<String, Error> {
        let printed = self.bytes(arguments)?;
        Ok(String::from_utf8_lossy(&printed).trim_end_matches('\n').to_owned())
    }

    /// The same as it was printed.
    pub(crate) fn bytes<S: AsRef<OsStr>>(self, arguments: &[S]) -> Result<Vec<u8>, Error> {
        let action = action(arguments);
        self.print(arguments)?.succeeded(action)
    }

    /// Runs git to its end, whatever that is.
    pub(crate) fn print<S: AsRef<OsStr>>(mut self, arguments: &[S]) -> Result<Printed, Error> {
        let action = action(arguments);
        let (stdin, fed) = match std::mem::replace(&mut self.stdin, Reads::Nothing) {
            Reads::Nothing => (Stdio::null(), None),
            Reads::Held(stdin) => (stdin, None),
            Reads::Bytes(bytes) => (Stdio::piped(), Some(bytes)),
        };
        let (max, room, reaches) = (self.output_bytes_max, self.room, self.reaches);
        let times = Times { time_max: self.time_max, wait_max: self.wait_max() };
        let bounds = self.bounds(&action)?;
        let place =
            bounds.as_ref().and_then(|_| self.directory.canonicalize().ok()?.parent().map(Path::to_owned));
        let mut command = self.command(arguments);
        // What an agent has broken is not taken for a part of the repository around it.
        command.envs(place.map(|above| ("GIT_CEILING_DIRECTORIES", above)));
        command.stdin(stdin);
        let spawned =
            if reaches.is_some() { command.spawn() } else { alone::spawn(&mut command, bounds.as_ref()) };
        // What it was given to hold is the child's alone.
        drop(command);
        let mut child = spawned.map_err(Error::Spawn)?;
        let feeder = child.stdin.take().zip(fed).map(|(mut pipe, bytes)| {
            // A git that stops reading says why by itself.
            thread::spawn(move || pipe.write_all(&bytes).ok())
        });
        let stdout = child.stdout.take().map(|pipe| keep_start(pipe, max));
        let stderr = child.stderr.take().map(|pipe| keep_end(pipe, limits::GIT_COMPLAINT_BYTES_MAX));
        let status = wait(&mut child, &action, &times, room)?;
        let kept = |reader: Option<thread::JoinHandle<Kept>>| {
            reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
        };
        let (printed, complaint) = (kept(stdout), kept(stderr));
        drop(feeder.map(thread::JoinHandle::join));
        if printed.lost && max == limits::GIT_LIST_BYTES_MAX {
            return Err(Error::TooMuch { action });
        }
        let more = if complaint.lost { "…" } else { "" };
        let complaint = more.to_owned() + &String::from_utf8_lossy(complaint.bytes.trim_ascii());
        Ok(Printed { status, bytes: printed.bytes, complaint })
    }

    /// How long git may stand still. Where it looks at nothing but a directory that no agent can write, nobody has put a pipe there,
    /// but the disk may be far away.
    fn wait_max(&self) -> Option<Duration> {
        let is_elsewhere = self.given("GIT_DIR").is_some() && self.given("GIT_WORK_TREE").is_none();
        self.wait_max.filter(|_| !is_elsewhere)
    }

    fn given(&self, name: &str) -> Option<&OsString> {
        self.environment.iter().find(|(given, _)| *given == name).map(|(_, value)| value)
    }

    /// What git may reach where an agent may have put links in the place of its files; `None` if it may not have, or git uses
    /// another directory. Refuses what git would wait for, or take from elsewhere, without being asked.
    fn bounds(&self, action: &str) -> Result<Option<Bounds>, Error> {
        if self.given("GIT_DIR").is_some() || !gitdirs::is_ours(self.directory) {
            return Ok(None);
        }
        let own = self.directory.join(".git");
        if let Some(name) = gitdirs::odd_entry(&own) {
            return Err(Error::Odd { action: action.to_owned(), name });
        }
        let index =
            self.given("GIT_INDEX_FILE").and_then(|index| Path::new(index).parent()).map(Path::to_owned);
        let write = index.into_iter().chain([self.directory.to_owned()]).collect();
        Ok(Some(Bounds { read: gitdirs::lent(&own), write }))
    }

    fn command<S: AsRef<OsStr>>(self, arguments: &[S]) -> Command {
        let mut command = command(self.directory, Listens::ToUser, self.settings);
        if self.reaches.is_some() {
            // A large history takes one large piece of memory, and no agent has written it.
            command.env_remove("GIT_ALLOC_LIMIT");
        }
        command
            .envs(self.reaches.map(|protocol| ("GIT_ALLOW_PROTOCOL", protocol)))
            .envs(self.environment)
            .args(arguments)
            .stdout(self.output.unwrap_or_else(Stdio::piped))
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }
}

impl Printed {
    /// One that was killed may have left locks; one that ended by itself has cleared up.
    pub(crate) fn ended_by_itself(&self) -> bool {
        self.status.code().is_some()
    }

    /// What it printed, if it did what it was asked for.
    pub(crate) fn succeeded(self, action: String) -> Result<Vec<u8>, Error> {
        if self.status.success() { Ok(self.bytes) } else { Err(self.failed(action)) }
    }

    pub(crate) fn failed(&self, action: String) -> Error {
        let complaint = &self.complaint;
        let message = if complaint.is_empty() { self.status.to_string() } else { complaint.clone() };
        Error::Failed { action, message }
    }
}

/// Where a user keeps what git is to do in all repositories, beside `~/.gitconfig`.
pub(crate) fn user_settings() -> PathBuf {
    let given = std::env::var_os("XDG_CONFIG_HOME").filter(|given| !given.is_empty());
    let usual = || PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".config");
    given.map_or_else(usual, PathBuf::from).join("git")
}

/// Does the kernel hold git to the workspace that it works in, where an agent may have put links in the place of its files?
pub fn is_held() -> bool {
    alone::holds_files()
}

/// Asks again while another git is just making a worktree: until that one's `commondir` is written, every command that looks at
/// all worktrees of the repository fails on it.
pub(crate) fn past_new_worktrees<T>(mut ask: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let start = Instant::now();
    loop {
        match ask() {
            Err(Error::Failed { message, .. })
                if message.contains("/commondir") && start.elapsed() < limits::NEW_WORKTREE_WAIT_MAX =>
            {
                thread::sleep(limits::POLL_INTERVAL);
            }
            answer => return answer,
        }
    }
}

fn action<S: AsRef<OsStr>>(arguments: &[S]) -> String {
    arguments.first().map(|word| word.as_ref().to_string_lossy().into_owned()).unwrap_or_default()
}

/// Whose configuration git listens to, beside what the repository says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listens {
    /// The user's, with what it needs of the user's environment: for making a run's place out of the user's repository.
    ToUser,
    /// Nobody's, with no environment but where programs are, and no network: for repositories that an agent can write.
    ToNobody,
}

/// What holds whatever the repository's configuration says. None of it runs a program of the repository's choice.
const PINNED: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.editor", "true"),
    ("core.sshCommand", "ssh -o BatchMode=yes"),
    ("core.alternateRefsCommand", "true"),
    ("safe.bareRepository", "explicit"),
    ("protocol.ext.allow", "never"),
    ("submodule.recurse", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// The same for repositories that an agent can write: also what only looks different, or is no longer durable.
const PINNED_CLOSED: &[(&str, &str)] = &[
    ("core.pager", "cat"),
    ("core.askPass", ""),
    ("core.attributesFile", "/dev/null"),
    ("core.fsync", "all"),
    ("core.fsyncMethod", "batch"),
    ("credential.helper", ""),
    ("commit.gpgSign", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.x509.program", "false"),
    ("log.showSignature", "false"),
    ("status.submoduleSummary", "false"),
    ("diff.noprefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("blame.ignoreRevsFile", ""),
    ("i18n.commitEncoding", "utf-8"),
    ("i18n.logOutputEncoding", "utf-8"),
];

/// Git in `directory`, without arguments yet. `more` is configuration that goes over all other. It fetches nothing that a
/// repository lacks, and reaches nobody: whoever wants that says by which protocol.
pub fn command(directory: &Path, listens: Listens, more: &[Setting]) -> Command {
    let mut command = Command::new("git");
    let mut pinned = PINNED.to_vec();
    match listens {
        Listens::ToUser => {
            let kept_back = std::env::vars_os().map(|(name, _)| name);
            for name in kept_back.filter(|name| is_kept_back(&name.to_string_lossy())) {
                command.env_remove(&name);
            }
        }
        Listens::ToNobody => {
            pinned.extend(PINNED_CLOSED);
            command.env_clear();
            command.envs([
                ("GIT_CONFIG_NOSYSTEM", "1"),
                ("GIT_CONFIG_GLOBAL", "/dev/null"),
                ("GIT_ATTR_NOSYSTEM", "1"),
                ("GIT_OPTIONAL_LOCKS", "0"),
                ("GIT_LITERAL_PATHSPECS", "1"),
            ]);
        }
    }
    let pinned = pinned.iter().map(|(key, value)| (OsStr::new(key), *value));
    configure(&mut command, pinned.chain(more.iter().map(|(key, value)| (key.as_os_str(), value.as_str()))));
    command
        .env("GIT_NO_LAZY_FETCH", "1")
        // Whoever can make a reference could have one object shown for another.
        .env("GIT_NO_REPLACE_OBJECTS", "1")
        .env("GIT_ALLOC_LIMIT", limits::GIT_ALLOCATION_BYTES_MAX.to_string())
        .env("GIT_ALLOW_PROTOCOL", "none")
        .arg("-C")
        .arg(directory)
        .env("PATH", programs(directory))
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
        .env("LC_ALL", "C");
    command
}

/// By the environment, where a key may have any characters: on the command line it ends at the first `=`.
fn configure<'a>(command: &mut Command, pinned: impl Iterator<Item = (&'a OsStr, &'a str)>) {
    let mut count = 0;
    for (key, value) in pinned {
        command.env(format!("GIT_CONFIG_KEY_{count}"), key);
        command.env(format!("GIT_CONFIG_VALUE_{count}"), value);
        count += 1;
    }
    command.env("GIT_CONFIG_COUNT", count.to_string());
}

/// Where programs are, but for those that an agent that works in `directory` could have put there.
fn programs(directory: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let safe = |place: &PathBuf| place.is_absolute() && !place.starts_with(directory);
    let safe: Vec<PathBuf> = std::env::split_paths(&path).filter(safe).collect();
    let joined = std::env::join_paths(safe).ok().filter(|path| !path.is_empty());
    joined.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into())
}

/// What git, ssh and their helpers cannot do without: who the user is, where things are, how to reach agents and networks.
const NEEDED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TERM",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "GNUPGHOME",
    "GPG_TTY",
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "KRB5CCNAME",
    "KRB5_CONFIG",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "NIX_SSL_CERT_FILE",
    "GH_CONFIG_DIR",
    "GLAB_CONFIG_DIR",
    "CLOUDSDK_CONFIG",
    "AWS_PROFILE",
    "AWS_REGION",
];

/// Started from a git hook, we would inherit GIT_DIR and work on the wrong repository; the markers of a surrounding tool call
/// would get this child killed as that call's leftover; and filters and helpers of a repository need no key of ours, which may
/// have any name. So only what is known to be needed is handed on.
fn is_kept_back(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_proxy = matches!(lower.as_str(), "http_proxy" | "https_proxy" | "all_proxy" | "no_proxy");
    !(is_proxy || NEEDED.contains(&name) || name.starts_with("LC_") || name.starts_with("XDG_"))
}

/// How long a child may take, and how long it may stand still.
struct Times {
    time_max: Duration,
    wait_max: Option<Duration>,
}

fn wait(child: &mut Child, action: &str, times: &Times, room: Option<Room<'_>>) -> Result<ExitStatus, Error> {
    let start = Instant::now();
    let mut filling = room.map(|room| Filling { room, looked: start, filled: 0, grown: start });
    let mut working =
        times.wait_max.map(|wait_max| Working { wait_max, looked: start, used: 0, seen: start });
    let mut pause = limits::FIRST_POLL_INTERVAL;
    while start.elapsed() < times.time_max {
        if let Some(status) = child.try_wait().map_err(Error::Spawn)? {
            return Ok(status);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(limits::POLL_INTERVAL);
        let too_far = filling.as_mut().and_then(|filling| filling.look(action));
        if let Some(error) = too_far.or_else(|| working.as_mut()?.look(child, action)) {
            end(child)?;
            return Err(error);
        }
    }
    end(child)?;
    Err(Error::TimedOut { action: action.to_owned(), after: times.time_max })
}

/// What is known of a directory that a child fills.
struct Filling<'a> {
    room: Room<'a>,
    looked: Instant,
    filled: u64,
    grown: Instant,
}

impl Filling<'_> {
    fn look(&mut self, action: &str) -> Option<Error> {
        if self.looked.elapsed() < limits::ROOM_LOOK_INTERVAL {
            return None;
        }
        self.looked = Instant::now();
        let Room { directory, bytes_max, idle_max } = self.room;
        let bytes = bytes_below(directory);
        if bytes != self.filled {
            (self.filled, self.grown) = (bytes, self.looked);
        }
        let action = || action.to_owned();
        if bytes > bytes_max {
            return Some(Error::TooLarge { action: action(), bytes_max });
        }
        (self.grown.elapsed() >= idle_max).then(|| Error::Idle { action: action(), idle: idle_max })
    }
}

/// What is known of the work of a child.
struct Working {
    wait_max: Duration,
    looked: Instant,
    used: u64,
    seen: Instant,
}

impl Working {
    fn look(&mut self, child: &Child, action: &str) -> Option<Error> {
        if self.looked.elapsed() < limits::WORK_LOOK_INTERVAL {
            return None;
        }
        self.looked = Instant::now();
        match activity::of_group(child.id()) {
            activity::Activity::Used(ticks) if ticks == self.used => {}
            activity::Activity::Used(ticks) => (self.used, self.seen) = (ticks, self.looked),
            activity::Activity::AtWork | activity::Activity::Unknown => self.seen = self.looked,
        }
        let action = || action.to_owned();
        (self.seen.elapsed() >= self.wait_max)
            .then(|| Error::Waiting { action: action(), idle: self.wait_max })
    }
}

/// Ends a child that was not waited for, so that its number cannot belong to anybody else yet, and all that it started.
fn end(child: &mut Child) -> Result<(), Error> {
    kill_process_group(Pid::from_child(child), Signal::KILL).ok();
    child.wait().map_err(Error::Spawn).map(drop)
}

#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    /// Was there more?
    lost: bool,
}

/// Reads to the end so that git never blocks on a full pipe, but keeps only the start.
fn keep_start(mut pipe: impl Read + Send + 'static, bytes_max: u64) -> thread::JoinHandle<Kept> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.by_ref().take(bytes_max).read_to_end(&mut bytes).ok();
        let rest = std::io::copy(&mut pipe, &mut std::io::sink()).unwrap_or(0);
        Kept { bytes, lost: rest > 0 }
    })
}

/// Reads a pipe to its end: a command that dies says of what last.
fn keep_end(mut pipe: impl Read + Send + 'static, bytes_max: usize) -> thread::JoinHandle<Kept> {
    thread::spawn(move || {
        let (mut kept, mut piece) = (Kept::default(), [0; 8 * 1024]);
        while let Ok(count @ 1..) = pipe.read(&mut piece) {
            kept.bytes.extend(&piece[..count]);
            let over = kept.bytes.len().saturating_sub(bytes_max);
            kept.lost |= over > 0;
            kept.bytes.drain(..over);
        }
        kept
    })
}

#[cfg(test)]
mod tests {
    use super::{Error, Git, Room, alone, is_kept_back, limits, past_new_worktrees};

    /// A52: what has no end is stopped when it has filled its room.
    #[test]
    fn a_git_that_fills_the_disk_is_stopped() {
        let place = tempfile::tempdir().unwrap();
        let endless = "!while :; do head -c 100000 /dev/zero >> big; sleep 0.01; done";
        let settings = [("alias.endless".into(), endless.to_owned())];
        let git = || Git::at(place.path()).set(&settings).reaching("none");
        let error = git().filling(place.path(), 1024 * 1024).run(&["endless"]).unwrap_err();
        assert_eq!(error.to_string(), "git endless was stopped: it has written more than 1 MiB");
        let filled = crate::prune::bytes_below(place.path());
        std::thread::sleep(std::time::Duration::from_millis(100));
        assert_eq!(crate::prune::bytes_below(place.path()), filled, "something still writes");
    }

    /// A fetch takes as long as it must while something comes, and ends when nothing does. Everything else ends in its time.
    #[test]
    fn a_fetch_is_bounded_by_what_it_brings() {
        let place = tempfile::tempdir().unwrap();
        let idle_max = limits::ROOM_LOOK_INTERVAL * 4;
        let room = Room { directory: place.path(), bytes_max: 1024 * 1024, idle_max };
        let brings = |words: &str| {
            let settings = [("alias.brings".into(), format!("!{words}"))];
            let git = Git::at(place.path()).set(&settings).reaching("none");
            Git { room: Some(room), ..git }.run(&["brings"])
        };
        brings("for i in 1 2 3 4 5 6 7 8 9; do head -c 9000 /dev/zero >> slow; sleep 0.3; done").unwrap();
        let stopped = brings("head -c 9000 /dev/zero >> slow; sleep 1000").unwrap_err();
        assert_eq!(stopped.to_string(), "git brings was stopped: it had written nothing for 2 s");
        let git = Git::at(place.path());
        assert_eq!(git.time_max, limits::GIT_TIME_MAX);
        let git = git.reaching("https").filling(place.path(), 1);
        assert_eq!(git.time_max, limits::FETCH_TIME_MAX);
        assert_eq!(git.room.map(|room| room.idle_max), Some(limits::FETCH_IDLE_MAX));
    }

    /// A48: also what nobody has thought of is not started, where the kernel can see to it. Git itself is.
    #[test]
    fn a_git_starts_nothing_but_git() {
        let place = tempfile::tempdir().unwrap();
        let mark = place.path().join("mark");
        let alias = |to: String| [("alias.evil".into(), to)];
        let (evil, git) = (alias(format!("!touch '{}'", mark.display())), alias("!git version".to_owned()));
        Git::at(place.path()).set(&evil).reaching("none").run(&["evil"]).unwrap();
        assert!(mark.exists(), "void: git does not run it");
        std::fs::remove_file(&mark).unwrap();
        if !alone::has_wall() {
            println!("SKIP a_git_starts_nothing_but_git: no Landlock here");
            return;
        }
        let refused = Git::at(place.path()).set(&evil).run(&["evil"]).unwrap_err();
        assert!(refused.to_string().contains("Permission denied"), "{refused}");
        assert!(!mark.exists());
        // A shell is what is not started; git starts itself.
        assert!(Git::at(place.path()).set(&git).run(&["evil"]).is_err());
        let own = alias("version".to_owned());
        assert!(Git::at(place.path()).set(&own).run(&["evil"]).is_ok());
        let init = Git::at(place.path())
            .run(&["init", "--quiet"])
            .and_then(|_| Git::at(place.path()).run(&["gc", "--quiet"]));
        init.unwrap();
    }

    /// A48: where an agent works, git writes there and to devices that keep nothing.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_git_writes_only_where_it_works() {
        let (place, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir_in("/dev/shm").unwrap());
        let target = outside.path().join("written").display().to_string();
        let writes = || {
            std::fs::remove_file(&target).ok();
            Git::at(place.path()).run(&["config", "--file", &target, "a.b", "c"]).is_ok()
        };
        Git::at(place.path()).run(&["init", "--quiet"]).unwrap();
        assert!(writes(), "void: it cannot be written to at all");
        if !alone::holds_files() {
            println!("SKIP a_git_writes_only_where_it_works: no Landlock that holds files here");
            return;
        }
        std::fs::write(place.path().join(".git").join(crate::gitdirs::FETCHED), "").unwrap();
        assert!(!writes());
        let null = ["diff", "--no-index", "/dev/null", ".git/config"];
        assert_eq!(Git::at(place.path()).print(&null).unwrap().status.code(), Some(1));
    }

    /// F48: a git that waits for what does not come is stopped, and one that works is not, however long it takes.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_git_that_waits_is_stopped() {
        let place = tempfile::tempdir().unwrap();
        let wait_max = limits::WORK_LOOK_INTERVAL * 2;
        let git = || Git { wait_max: Some(wait_max), ..Git::at(place.path()) };
        git().run(&["init", "--quiet"]).unwrap();
        let pipe = place.path().join(".gitignore");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let stopped = git().run(&["status"]).unwrap_err().to_string();
        assert!(
            stopped.starts_with("git status was stopped: it had waited for 2 s for something"),
            "{stopped}"
        );
        // Where its own directory is makes no difference to that.
        let directory = place.path().join(".git");
        let apart = || git().with("GIT_DIR", &directory);
        apart().with("GIT_WORK_TREE", place.path()).run(&["status"]).unwrap_err();
        assert!(git().wait_max().is_some() && apart().wait_max().is_none());
        let busy = "!i=0; while test $i -lt 40; do i=$((i+1)); : $(seq 20000); sleep 0.1; done";
        let settings = [("alias.busy".into(), busy.to_owned())];
        Git { wait_max: Some(wait_max), ..git().set(&settings).reaching("none") }.run(&["busy"]).unwrap();
    }

    /// F21: who fetches a long history may take the memory that its list of objects needs.
    #[test]
    fn what_is_fetched_may_be_large() {
        let place = tempfile::tempdir().unwrap();
        let settings = [("alias.asked".into(), "!echo ${GIT_ALLOC_LIMIT-none}".to_owned())];
        let fetching = Git::at(place.path()).set(&settings).reaching("none").run(&["asked"]);
        assert_eq!(fetching.unwrap(), "none");
        let command = Git::at(place.path()).command(&["asked"]);
        assert!(command.get_envs().any(|(name, value)| name == "GIT_ALLOC_LIMIT" && value.is_some()));
    }

    /// F42: of what git complains of, the last is kept, where it says what it died of.
    #[test]
    fn the_end_of_a_long_complaint_is_kept() {
        let place = tempfile::tempdir().unwrap();
        let complains = "!seq 100000 >&2; echo fatal: that is why >&2; exit 128";
        let settings = [("alias.complains".into(), complains.to_owned())];
        let git = Git::at(place.path()).set(&settings).reaching("none");
        let Err(Error::Failed { message, .. }) = git.run(&["complains"]) else { panic!("it fails") };
        assert!(message.starts_with('…') && message.ends_with("100000\nfatal: that is why"), "{message}");
        assert!(message.len() <= limits::GIT_COMPLAINT_BYTES_MAX + '…'.len_utf8(), "{}", message.len());
    }

    #[test]
    fn a_worktree_that_is_just_made_is_waited_for_and_nothing_else_is() {
        let failed =
            |message: &str| Err(Error::Failed { action: "worktree".to_owned(), message: message.to_owned() });
        let mut asked = 0;
        let answer = past_new_worktrees(|| {
            asked += 1;
            if asked < 3 {
                failed("fatal: failed to read .git/worktrees/x/commondir: Success")
            } else {
                Ok(asked)
            }
        });
        assert_eq!(answer.unwrap(), 3);
        let mut asked = 0;
        let answer: Result<i32, Error> = past_new_worktrees(|| {
            asked += 1;
            failed("fatal: 'x' already exists")
        });
        assert!(answer.is_err());
        assert_eq!(asked, 1);
    }

    #[test]
    fn git_gets_what_it_needs_and_no_key() {
        for name in [
            "GIT_DIR",
            "LONGHAUL_RUN",
            "ANTHROPIC_API_KEY",
            "my_token",
            "SECRET_HEADER",
            "AWS_SECRET_ACCESS_KEY",
            "MYKEY",
            "DATABASE_URL",
        ] {
            assert!(is_kept_back(name), "{name}");
        }
        for name in ["PATH", "HOME", "SSH_AUTH_SOCK", "LC_CTYPE", "XDG_CONFIG_HOME", "https_proxy"] {
            assert!(!is_kept_back(name), "{name}");
        }
    }
}
