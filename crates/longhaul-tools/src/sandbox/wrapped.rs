//! One command, wrapped.
//!
//! Owns what a command is started as, what of our environment it gets, and what must be done once it has ended. Refuses
//! paths that cannot be handed on as text.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use super::aside::put_aside;
use super::link::Link;
use super::network::Network;
#[cfg(target_os = "linux")]
use super::orders::Seen;
use super::orders::{ENTER, Orders};
use super::pids::Group;
use super::policy::{Mount, Policy};
use super::proxy::Proxy;
use super::scratch::Scratch;
use super::settings::Copies;
use super::{Job, Tools, Wrapping, bwrap, relay, settings};
use crate::process::Reach;
#[cfg(target_os = "linux")]
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat2};

/// Variables that name places which are private inside, and there have their usual names.
const PRIVATE: &[&str] = &["HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "GOCACHE"];

/// Devices that are written to as if they were files; terminals are the command's own.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm"];

/// A command that can be started, and what is to be kept until it has ended.
pub(crate) struct Wrapped {
    pub(crate) command: Command,
    pub(crate) kept: Kept,
    /// It has processes of its own, which end with it.
    pub(crate) namespaces: bool,
    /// It will have a session of its own.
    pub(crate) held: bool,
}

/// What a command needs while it runs; cleared up when dropped.
#[derive(Default)]
pub(crate) struct Kept {
    scratch: Option<Scratch>,
    swept: Vec<PathBuf>,
    links: Arc<[Link]>,
    /// What bounds the number of its processes, if the kernel's own limit does not.
    group: Option<Group>,
    /// Its way out.
    _egress: Option<Arc<Proxy>>,
}

impl Wrapped {
    /// The program as it is.
    pub(crate) fn bare(job: &Job<'_>) -> Wrapped {
        let mut command = Command::new(job.words.first().map_or(OsStr::new("false"), OsString::as_os_str));
        command.args(job.words.iter().skip(1)).env_clear();
        command.current_dir(job.more.cwd.as_deref().unwrap_or(job.workspace));
        command.envs(job.environment.iter().map(|(name, value)| (name, value)));
        Wrapped { command, kept: Kept::default(), namespaces: false, held: false }
    }

    /// Without a terminal, as the leader of its own group, so that what is typed there does not end it: it is for us to hear a
    /// Ctrl-C and to say what becomes of the command. `setsid` is the program of that name, if there is one.
    pub(crate) fn in_session(self, setsid: Option<&Path>) -> Wrapped {
        let mut command = self.command;
        if self.held {
            // Within a namespace it has a session, and only what holds it is still in ours. Without one, it takes a session
            // itself before it begins, which the leader of a group cannot.
            if self.namespaces {
                command.process_group(0);
            }
            return Wrapped { command, ..self };
        }
        let Some(setsid) = setsid else {
            command.process_group(0);
            return Wrapped { command, ..self };
        };
        // Not a group leader yet, `setsid` becomes the program without a fork: its number stays the one we know.
        let mut outer = Command::new(setsid);
        outer.arg(command.get_program()).args(command.get_args()).env_clear();
        outer.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        outer.current_dir(command.get_current_dir().unwrap_or(Path::new(".")));
        Wrapped { command: outer, ..self }
    }

    pub(crate) fn reach(&self) -> Reach {
        if self.namespaces { Reach::Namespace } else { Reach::Group }
    }
}

/// What a command made where nothing may be.
pub(crate) struct Swept {
    pub(crate) path: PathBuf,
    /// It is not there any more.
    pub(crate) is_away: bool,
}

impl Kept {
    /// Takes away what the command made where nothing may be; answers what that was.
    pub(crate) fn sweep(&self) -> Vec<Swept> {
        let made = self.swept.iter().filter(|path| fs::symlink_metadata(path).is_ok());
        let made = made.map(|path| Swept { is_away: put_aside(path), path: path.clone() });
        let forged = self.links.iter().filter(|link| link.is_forged());
        let forged = forged.map(|link| Swept { is_away: link.restore(), path: link.place().to_owned() });
        made.chain(forged).collect()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.sweep();
    }
}

/// A command in the world of `policy`.
pub(super) fn wrap(
    tools: &Tools,
    policy: &Policy,
    job: &Job<'_>,
    egress: Option<Arc<Proxy>>,
) -> Result<Wrapped, String> {
    let (words, passed) = (job.words, job.environment);
    let mut orders = orders(tools, policy);
    if job.more.lasting {
        orders.limits.cpu_seconds = u64::MAX;
    }
    orders.relay = egress.is_some();
    #[cfg(target_os = "linux")]
    if tools.wrapping == Wrapping::Namespaces {
        orders.seen = seen(policy)?;
        orders.mounts = mounts(policy);
    }
    let socket = egress.as_ref().map(|proxy| proxy.socket());
    let (swept, links) = (policy.swept.clone(), Arc::clone(&policy.links));
    let mut kept = Kept { scratch: None, swept, links, group: None, _egress: egress };
    // What a command of a harness that was killed has left is in the way of this one.
    kept.sweep();
    let mut command = match (tools.wrapping, &tools.bubblewrap) {
        (Wrapping::Namespaces, Some(bubblewrap)) => {
            let mut command = Command::new(&bubblewrap.program);
            let copies = Copies::of(policy);
            let (abilities, socket) = (bubblewrap.abilities, socket.as_deref());
            command.args(bwrap::arguments(policy, &copies, abilities, &tools.helper, socket));
            command.arg(bwrap::HELPER);
            orders.files.extend(copies.files);
            command.env_clear().envs(private(policy, passed, Path::new("/tmp")));
            command
        }
        (Wrapping::Restrictions, _) => {
            let scratch = Scratch::new()?;
            orders.write.push(scratch.to_path_buf());
            let mut command = Command::new(&tools.helper);
            command.env_clear().envs(private(policy, passed, &scratch));
            kept.scratch = Some(scratch);
            command
        }
        (Wrapping::Profile, _) => return profile(policy, words, passed, kept),
        // Nothing is run that is not held as it was proved.
        (Wrapping::Namespaces | Wrapping::None, _) => {
            return Err("there is nothing to hold it with".to_owned());
        }
    };
    let processes = orders.limits.processes;
    let orders = serde_json::to_string(&orders).map_err(|error| format!("a path is not text: {error}"))?;
    command.arg(ENTER).arg(orders).arg("--").args(words).current_dir(&policy.cwd);
    if let Some(place) = &tools.pids {
        let unmade = |error| format!("the number of its processes cannot be bounded: {error}");
        let group = Group::new(place, processes).map_err(unmade)?;
        command = group.around(&command);
        kept.group = Some(group);
    }
    Ok(Wrapped { command, kept, namespaces: tools.wrapping == Wrapping::Namespaces, held: true })
}

/// Where there may be mounts: also for what is copied, which does no harm, because it would be what the policy shows.
#[cfg(target_os = "linux")]
fn mounts(policy: &Policy) -> BTreeMap<PathBuf, bool> {
    let binds = |mount: &Mount| matches!(mount, Mount::ReadOnly(_) | Mount::Writable(_));
    let mounts = policy.mounts.iter().map(|mount| (mount.at().to_owned(), binds(mount)));
    mounts.chain([(PathBuf::from(settings::PLACE), false)]).collect()
}

/// What is mounted of where commands may write. One in the background can exchange a directory for a link between our look and
/// bubblewrap's, which follows links: so it is compared again inside, before the command begins.
#[cfg(target_os = "linux")]
fn seen(policy: &Policy) -> Result<Vec<Seen>, String> {
    let writable: Vec<&Path> = policy
        .mounts
        .iter()
        .filter_map(|mount| if let Mount::Writable(at) = mount { Some(at.as_path()) } else { None })
        .collect();
    let open = policy.mounts.iter().filter_map(|mount| match mount {
        Mount::ReadOnly(at) | Mount::Writable(at) if writable.iter().any(|place| at.starts_with(place)) => {
            Some(at)
        }
        Mount::ReadOnly(_)
        | Mount::Writable(_)
        | Mount::Scratch(_)
        | Mount::Nothing(_)
        | Mount::Link { .. } => None,
    });
    open.map(|path| Seen::at(path).map_err(|error| format!("{} is not what it was: {error}", path.display())))
        .collect()
}

#[cfg(target_os = "linux")]
impl Seen {
    /// No link on the way to it is followed.
    fn at(path: &Path) -> std::io::Result<Seen> {
        // Without NOFOLLOW: with it, a link as the last part would be opened as itself instead of being refused.
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let file = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        let found = fstat(&file)?;
        Ok(Seen { path: path.to_owned(), device: found.st_dev, inode: found.st_ino })
    }
}

/// What the helper is to put on itself.
fn orders(tools: &Tools, policy: &Policy) -> Orders {
    let namespaces = tools.wrapping == Wrapping::Namespaces;
    let (mut read, mut write) = (policy.readable(), policy.writable());
    if namespaces {
        // What is there is what may be read; the mounts have seen to that.
        read = vec!["/".into()];
    } else {
        read.extend(["/proc".into(), "/dev".into(), tools.helper.clone()]);
        // Private places cannot be made without namespaces, and the machine's own are not given instead.
        let shared: Vec<PathBuf> = policy.scratch();
        write.retain(|path| !shared.contains(path));
    }
    write.extend(DEVICES.iter().map(|name| Path::new("/dev").join(name)));
    let files = if namespaces { tools.home_files.clone() } else { Default::default() };
    let files = files.into_iter().map(|(name, text)| (policy.home.join(name), text)).collect();
    let internet = namespaces || policy.network == Network::Full;
    Orders {
        namespaces,
        read,
        write,
        internet,
        relay: false,
        files,
        limits: tools.limits,
        seen: Vec::new(),
        mounts: BTreeMap::new(),
    }
}

/// Our environment with private places in place of ours.
fn private(policy: &Policy, passed: &[(OsString, OsString)], temporary: &Path) -> Vec<(OsString, OsString)> {
    let is_private = |name: &OsStr| PRIVATE.iter().any(|private| name == *private);
    let mut environment: Vec<_> = passed.iter().filter(|(name, _)| !is_private(name)).cloned().collect();
    environment.push(("HOME".into(), policy.home.clone().into()));
    environment.push(("TMPDIR".into(), temporary.into()));
    match &policy.network {
        // Cargo then says at once what it misses, instead of asking names of a network that is not there.
        Network::None => environment.push(("CARGO_NET_OFFLINE".into(), "true".into())),
        Network::Hosts(_) => environment.extend(relay::environment()),
        Network::Full => {}
    }
    environment
}

#[cfg(target_os = "macos")]
fn profile(
    policy: &Policy,
    words: &[OsString],
    passed: &[(OsString, OsString)],
    mut kept: Kept,
) -> Result<Wrapped, String> {
    let scratch = Scratch::new()?;
    let profile = super::seatbelt::profile(policy, &scratch)?;
    let mut command = Command::new("/usr/bin/sandbox-exec");
    command.arg("-p").arg(profile).args(words).current_dir(&policy.cwd).env_clear();
    command.envs(private(policy, passed, &scratch));
    kept.scratch = Some(scratch);
    Ok(Wrapped { command, kept, namespaces: false, held: false })
}

#[cfg(not(target_os = "macos"))]
fn profile(
    _policy: &Policy,
    _words: &[OsString],
    _passed: &[(OsString, OsString)],
    _kept: Kept,
) -> Result<Wrapped, String> {
    Err("profiles are for macOS".to_owned())
}
