//! Tools of MCP servers, which are programs beside us or services elsewhere.
//!
//! Owns the servers of one harness: their configuration, what was accepted of them, and their tools under names of their
//! own (`server__tool`). A tool is known from what was accepted, so no server runs before one of its tools is called, and
//! none outlives the run it was started for. Refuses to repeat a call that may have been carried out, to pass a provider's
//! key, and to use a server that is no longer what was accepted.

mod bounded;
mod client;
mod config;
mod http;
mod limits;
mod link;
mod listing;
mod log;
mod names;
mod pin;
mod result;
mod server;
mod stdio;
mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use longhaul_core::tool::Outcome;
use serde_json::{Map, Value};

pub use client::Listener;
pub use config::{ConfigError, ServerConfig, Way, check_name, variables_in};
pub use listing::{Listed, Listing};
pub use log::Strike;
pub use names::DIVIDER;
pub use pin::{Difference, Identity, Offered, Pin, PinError};
pub use server::{Error, Look};

use crate::cancel::Cancel;
use crate::sandbox::Sandbox;
use crate::tool::{Blobs, Tool};
use client::Listening;
use link::Called;
use pin::Pins;
use server::{Put, Server, Visit, allowed};
use tool::McpTool;

/// What all servers of a harness have in common.
pub struct Options {
    /// Where pins and logs are kept; nowhere if nothing may be written.
    pub dir: Option<PathBuf>,
    /// Relative programs and directories start here. Not where a run works: what an agent wrote is not started.
    pub base_dir: PathBuf,
    /// Of which servers get the harmless part, and what they are configured to get.
    pub environment: BTreeMap<String, String>,
    /// Variables no server is given: those that hold a model provider's key.
    pub withheld: BTreeSet<String>,
    /// Takes keys out of what is logged and shown.
    pub strike: Strike,
    /// Holds the servers that are programs.
    pub sandbox: Sandbox,
}

/// The options, and what belongs to all servers at run time.
struct Shared {
    dir: Option<PathBuf>,
    base_dir: PathBuf,
    environment: BTreeMap<String, String>,
    withheld: BTreeSet<String>,
    strike: Strike,
    sandbox: Sandbox,
    pins: Pins,
    listening: Listening,
}

/// The configured servers. Cheap to clone.
#[derive(Clone)]
pub struct Servers {
    servers: BTreeMap<String, Arc<Server>>,
    shared: Arc<Shared>,
}

/// A server whose tools cannot be offered, and why.
pub struct NotOffered {
    pub server: String,
    pub why: Why,
}

pub enum Why {
    /// Nothing was accepted of it yet.
    New,
    Error(Error),
}

impl Servers {
    /// Starts nothing.
    pub fn new(configs: BTreeMap<String, ServerConfig>, options: Options) -> Result<Servers, Error> {
        if configs.len() > limits::SERVERS_MAX {
            return Err(ConfigError::TooMany { count: configs.len() }.into());
        }
        let Options { dir, base_dir, environment, withheld, strike, sandbox } = options;
        let pins = Pins::new(dir.clone());
        let listening = Arc::new(RwLock::new(None));
        let shared =
            Arc::new(Shared { dir, base_dir, environment, withheld, strike, sandbox, pins, listening });
        let server = |(name, config): (String, ServerConfig)| {
            let server = Server::new(&name, config, Arc::clone(&shared))?;
            Ok((name, Arc::new(server)))
        };
        let servers = configs.into_iter().map(server).collect::<Result<_, Error>>()?;
        Ok(Servers { servers, shared })
    }

    pub fn is_empty(&self) -> bool {
        self.servers.is_empty()
    }

    /// Every server with its settings, by name.
    pub fn configs(&self) -> impl Iterator<Item = (&str, &ServerConfig)> {
        self.servers.iter().map(|(name, server)| (name.as_str(), &server.config))
    }

    /// Tells `listener` from now on what servers do while they work.
    pub fn listen(&self, listener: Listener) {
        *self.shared.listening.write().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// The tools of all servers that are accepted, and what stands in the way of the others.
    pub fn tools(&self) -> (Vec<Arc<dyn Tool>>, Vec<NotOffered>) {
        let (mut tools, mut not_offered) = (Vec::new(), Vec::new());
        for server in self.servers.values().filter(|server| server.config.is_enabled()) {
            match self.tools_of(server) {
                Ok(Some(of_server)) => tools.extend(of_server),
                Ok(None) => not_offered.push(NotOffered { server: server.name.clone(), why: Why::New }),
                Err(error) => {
                    not_offered.push(NotOffered { server: server.name.clone(), why: Why::Error(error) });
                }
            }
        }
        (tools, not_offered)
    }

    /// Looks at a server that is new and accepts it as it is, in this process only until [`Servers::keep_met`]; one that was
    /// accepted before is left alone. Says which of its code is not pinned so.
    pub async fn meet(&self, name: &str) -> Result<Option<String>, Error> {
        let server = self.enabled(name)?;
        if server.read_pin()?.is_some() {
            return Ok(None);
        }
        let look = server.look(self.nobody(), false).await?;
        self.shared.pins.hold(name, look.pin);
        Ok(look.unpinned)
    }

    /// Keeps what was met for later processes, now that there is something they were met for.
    pub fn keep_met(&self) -> Result<(), Error> {
        for (name, pin) in self.shared.pins.take_held() {
            self.enabled(&name)?.keep(&pin)?;
        }
        Ok(())
    }

    /// What was accepted of a server, for people to see also when it may not be started.
    pub fn accepted(&self, name: &str) -> Result<Option<Pin>, Error> {
        self.enabled(name)?.read_pin()
    }

    /// Everything secret that servers are given.
    pub fn secrets(&self) -> Vec<String> {
        self.servers.values().flat_map(|server| server.secrets()).collect()
    }

    /// Starts a server to see everything it has, unless its program changed since it was accepted.
    pub async fn look(&self, name: &str) -> Result<Look, Error> {
        let server = self.enabled(name)?;
        server.read_pin()?;
        server.look(self.nobody(), false).await
    }

    /// Looks at a server as it is now, also if its program has changed, for a person to accept. What was accepted before comes
    /// with it, to compare.
    pub async fn look_anew(&self, name: &str) -> Result<(Look, Option<Pin>), Error> {
        let server = self.enabled(name)?;
        // A pin that cannot be read is one reason to accept again.
        let before = server.read_pin().unwrap_or_default();
        let look = server.look(self.nobody(), true).await?;
        Ok((look, before))
    }

    /// Accepts a server as it was seen: what it has become since is not accepted.
    pub fn accept(&self, name: &str, seen: &Look) -> Result<(), Error> {
        self.enabled(name)?.keep(&seen.pin)
    }

    /// The file that holds what a server said, if there is one.
    pub fn log_path(&self, name: &str) -> Option<&Path> {
        self.servers.get(name)?.log_path()
    }

    /// Calls a tool by the server's own name for it, for a person to try. Ends the server afterwards.
    pub async fn call(
        &self,
        name: &str,
        tool: &str,
        arguments: Map<String, Value>,
        usual_time: Duration,
        cancel: &Cancel,
        blobs: Arc<dyn Blobs>,
    ) -> Result<Outcome, Error> {
        let server = self.enabled(name)?;
        server.check_named(tool)?;
        server.read_pin()?;
        let time = server.config.call_time(usual_time);
        let put = server.call(self.nobody(), tool, arguments, time, cancel).await;
        server.rest(None).await;
        Ok(match put {
            Put::NotReached(error) => return Err(error),
            Put::Called(Called::Answered(answer)) => result::outcome(*answer, &server.secrets(), blobs).await,
            Put::Called(Called::Refused(error)) => tool::refused(&error),
            Put::Called(Called::TimedOut) => tool::timed_out(time),
            Put::Called(Called::Cancelled) => {
                Outcome::failed(longhaul_core::tool::Failure::Cancelled, "interrupted")
            }
            Put::Called(Called::Cut(why)) => Outcome::Unknown { message: why },
        })
    }

    fn tools_of(&self, server: &Arc<Server>) -> Result<Option<Vec<Arc<dyn Tool>>>, Error> {
        let Some(pin) = server.read_pin()? else { return Ok(None) };
        server.check_way(&pin)?;
        server.check_noted()?;
        let tool = |offered| Arc::new(McpTool::new(offered, Arc::clone(server))) as Arc<dyn Tool>;
        Ok(Some(allowed(&server.config, &pin).map(tool).collect()))
    }

    fn enabled(&self, name: &str) -> Result<&Arc<Server>, Error> {
        let known = || self.servers.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let server = self.servers.get(name);
        let server = server.ok_or_else(|| Error::Unknown { name: name.to_owned(), known: known() })?;
        if !server.config.is_enabled() {
            return Err(Error::Disabled { server: name.to_owned() });
        }
        Ok(server)
    }

    fn nobody(&self) -> Visit<'_> {
        let root: &Path = &self.shared.base_dir;
        Visit { run: None, root }
    }
}
