//! What holds the commands an agent runs.
//!
//! A command's world is a [`Policy`]: a list of what it sees and may write; everything else is absent. On Linux,
//! bubblewrap makes that world out of namespaces, and our own program, started again inside (`inside`), puts limits,
//! Landlock and seccomp on itself before it becomes the command. On macOS `sandbox-exec` is given a profile of the same
//! policy. Owns the choice of what is used, and the proof that it holds: the first command waits for a self-probe that
//! tries to break out. Refuses to run anything when what was required is not there.

mod aside;
mod bwrap;
mod containment;
mod hosts;
#[cfg(target_os = "linux")]
mod inside;
#[cfg(target_os = "linux")]
mod landlock;
mod link;
mod network;
mod orders;
mod pids;
mod policy;
mod probe;
mod proxy;
mod relay;
mod report;
mod repository;
mod scratch;
#[cfg(any(test, target_os = "macos"))]
mod seatbelt;
#[cfg(target_os = "linux")]
mod seccomp;
mod settings;
mod states;
mod wrapped;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

pub use containment::{Containment, Mode, UnknownMode, Wrapping};
pub use hosts::{NotAHost, Rule};
pub(crate) use hosts::{admitted, is_public};
#[cfg(target_os = "linux")]
pub use inside::{EnterError, enter};
pub use network::{Network, UnknownNetwork};
pub use orders::ENTER;
pub(crate) use policy::is_system;
pub use policy::{Host, Mount, Policy, PolicyError};
pub use relay::{RELAY, relay};
pub use report::{REPORT, answer};
pub(crate) use scratch::Scratch;
pub(crate) use wrapped::{Kept, Swept, Wrapped};

use bwrap::Bubblewrap;
use link::Link;
use orders::Limits;
use policy::Known;
use proxy::{Proxy, World};

/// What is asked of a sandbox.
#[derive(Clone, Debug)]
pub struct Options {
    pub mode: Mode,
    pub network: Network,
    /// Our own program, or any other that answers to [`ENTER`] and [`REPORT`].
    pub helper: PathBuf,
    pub host: Host,
}

/// Why nothing is run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sandbox that is required cannot be had: {}", missing.join("; "))]
pub struct Refused {
    pub missing: Vec<String>,
}

impl Refused {
    /// Would it help to install bubblewrap?
    pub fn lacks_bubblewrap(&self) -> bool {
        self.missing.iter().any(|why| why == bwrap::NOT_INSTALLED)
    }
}

/// How all commands of one harness are run. Cheap to clone; proved once.
#[derive(Clone, Debug)]
pub struct Sandbox(Arc<Made>);

#[derive(Debug)]
struct Made {
    options: Options,
    proof: OnceLock<Result<Proof, Refused>>,
    /// The ways out that were asked for so far, each with who may take it.
    proxies: Mutex<Vec<(Network, Arc<Proxy>)>>,
    /// The state directories of others in each workspace that was worked in so far.
    states: Mutex<BTreeMap<PathBuf, Arc<[PathBuf]>>>,
    /// The settings that are links, as long as commands are held that could exchange them.
    links: Mutex<Weak<[Link]>>,
}

/// What the self-probe found, and what is needed to do the same again.
#[derive(Clone, Debug)]
struct Proof {
    containment: Containment,
    tools: Tools,
}

/// What commands are wrapped with.
#[derive(Clone, Debug)]
struct Tools {
    wrapping: Wrapping,
    bubblewrap: Option<Bubblewrap>,
    helper: PathBuf,
    network: Network,
    limits: Limits,
    /// Where groups of processes are made, if the kernel bounds their number in no other way.
    pids: Option<PathBuf>,
    /// Files every command finds in its home.
    home_files: BTreeMap<PathBuf, String>,
}

impl Sandbox {
    pub fn new(options: Options) -> Sandbox {
        let (proxies, states) = (Mutex::default(), Mutex::default());
        let nobody: Weak<[Link]> = Weak::<[Link; 0]>::new();
        let links = Mutex::new(nobody);
        Sandbox(Arc::new(Made { options, proof: OnceLock::new(), proxies, states, links }))
    }

    /// Is there something that bounds the number of root's processes? The kernel's own limit does not.
    pub(crate) fn bounds_processes_of_root() -> bool {
        pids::place().is_some()
    }

    /// None at all: for tests of other things, and for those who asked for it.
    pub fn off() -> Sandbox {
        let (network, host) = (Network::Full, Host::default());
        Sandbox::new(Options { mode: Mode::Off, network, helper: PathBuf::new(), host })
    }

    pub fn mode(&self) -> Mode {
        self.0.options.mode
    }

    /// Is this among what no agent's command sees?
    pub(crate) fn hides(&self, path: &Path) -> bool {
        self.0.options.host.hides(path)
    }

    pub fn network(&self) -> &Network {
        &self.0.options.network
    }

    /// What is in force, found out once. Takes some tens of milliseconds the first time.
    pub fn prove(&self) -> Result<&Containment, Refused> {
        Ok(&self.proof()?.containment)
    }

    fn proof(&self) -> Result<&Proof, Refused> {
        self.0.proof.get_or_init(|| probe::prove(&self.0.options)).as_ref().map_err(Clone::clone)
    }

    /// Can commands be held that work here?
    pub fn fits(&self, workspace: &Path) -> Result<(), PolicyError> {
        match self.proof() {
            Ok(proof) if proof.tools.wrapping != Wrapping::None => {
                let (host, more) = (&self.0.options.host, More::default());
                Policy::showing(host, workspace, Network::None, &more, self.known(workspace)).map(drop)
            }
            // Nothing is held, or nothing is run.
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// A program as it is to be started.
    pub(crate) fn wrap(&self, job: &Job<'_>) -> Result<Wrapped, String> {
        let proof = self.proof().map_err(|refused| refused.to_string())?;
        if proof.tools.wrapping == Wrapping::None {
            return Ok(Wrapped::bare(job));
        }
        let network = job.more.network.clone().unwrap_or_else(|| proof.tools.network.clone());
        let egress = self.egress(&network, proof.tools.wrapping)?;
        let known = self.known(job.workspace);
        let policy = Policy::showing(&self.0.options.host, job.workspace, network, &job.more, known);
        let policy = policy.map_err(|error| error.to_string())?;
        wrapped::wrap(&proof.tools, &policy, job, egress)
    }

    fn known(&self, workspace: &Path) -> Known {
        Known { states: self.states(workspace), links: self.links() }
    }

    /// What others keep in a workspace. One of our own is made of what is committed, where nobody's state is.
    fn states(&self, workspace: &Path) -> Arc<[PathBuf]> {
        if self.hides(workspace) {
            return Arc::default();
        }
        let mut states = self.0.states.lock().unwrap_or_else(PoisonError::into_inner);
        let found = states.entry(workspace.to_owned()).or_insert_with(|| states::below(workspace).into());
        Arc::clone(found)
    }

    /// Settings that are links, as they were before the first of the commands that are held now: another may have exchanged one.
    fn links(&self) -> Arc<[Link]> {
        let mut links = self.0.links.lock().unwrap_or_else(PoisonError::into_inner);
        links.upgrade().unwrap_or_else(|| {
            let found: Arc<[Link]> =
                self.0.options.host.guarded.iter().filter_map(|path| Link::at(path)).collect();
            *links = Arc::downgrade(&found);
            found
        })
    }

    /// The proxy for a list of hosts, started when it is first needed. Without namespaces there is no way to it, and so no
    /// network.
    fn egress(&self, network: &Network, wrapping: Wrapping) -> Result<Option<Arc<Proxy>>, String> {
        let Network::Hosts(rules) = network else { return Ok(None) };
        if wrapping != Wrapping::Namespaces {
            return Ok(None);
        }
        let mut proxies = self.0.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, proxy)) = proxies.iter().find(|(asked, _)| asked == network) {
            return Ok(Some(Arc::clone(proxy)));
        }
        let proxy = Arc::new(Proxy::start(rules.to_vec(), World::REAL)?);
        proxies.push((network.clone(), Arc::clone(&proxy)));
        Ok(Some(proxy))
    }
}

/// A program to be held.
pub(crate) struct Job<'a> {
    /// Where it may write.
    pub(crate) workspace: &'a Path,
    pub(crate) words: &'a [OsString],
    /// All it is given of ours.
    pub(crate) environment: &'a [(OsString, OsString)],
    pub(crate) more: More,
}

/// What programs have that the user configured; an agent's commands have none of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct More {
    /// Where it is started, if not in the workspace. It is there to be read.
    pub(crate) cwd: Option<PathBuf>,
    /// What else is there to be read.
    pub(crate) shown: Vec<PathBuf>,
    /// What it reaches, if not what commands do.
    pub(crate) network: Option<Network>,
    /// It lives as long as a run, so the time it computes is not bounded.
    pub(crate) lasting: bool,
}

impl More {
    /// Is it there with where the program is started? Then it is as it stands there: a link of a repository's, shown by itself,
    /// would show what it leads to.
    fn is_seen_with_cwd(&self, path: &Path, host: &Host, home: &Path) -> bool {
        let shows = |cwd: &Path| path.starts_with(cwd) && !host.hides(cwd) && !home.starts_with(cwd);
        self.cwd.as_deref().is_some_and(shows)
    }
}
