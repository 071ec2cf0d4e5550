//! One configured server: started when it is first needed, for each run on its own, and again after it ended.
//!
//! Owns the waits between two starts, and refusing a server that is no longer what was accepted. Refuses to start a
//! program whose bytes have changed: not even to look what else has.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_core::secret::is_secret;
use longhaul_core::tool::Failure;
use longhaul_workspace::digest_of;
use rmcp::model::JsonObject;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep_until, timeout};

use super::client::{Client, Heard, file_uri};
use super::config::{ConfigError, ServerConfig, Variables, Way, variables_in};
use super::http::NotTaken;
use super::link::{Called, Link, Place};
use super::listing::Listing;
use super::log::Log;
use super::pin::{Difference, Identity, Offered, Pin, PinError};
use super::stdio::{Mark, Program, find};
use super::{Shared, limits};
use crate::cancel::Cancel;
use crate::sandbox::Sandbox;

/// Why a server cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("MCP server `{server}`: there is no program `{program}`")]
    NoProgram { server: String, program: String },
    #[error("MCP server `{server}`: {why}")]
    Start { server: String, why: String },
    #[error("MCP server `{server}` cannot be reached: {why}")]
    Unreachable { server: String, why: String },
    #[error(
        "MCP server `{server}` did not take the call, and not when it was tried again either: {why}; nothing was carried \
         out, and the next call starts afresh"
    )]
    NotTaken { server: String, why: String },
    #[error("MCP server `{server}` did not start within {ms} ms{words}")]
    Slow { server: String, ms: u128, words: String },
    #[error(
        "MCP server `{server}` is not what was accepted: {} changed; nothing of it is used until a person accepts it with \
         `longhaul mcp accept {server}`, which shows what is different and asks",
        changed.join(", ")
    )]
    Changed { server: String, changed: Vec<String> },
    #[error("the settings of MCP server `{server}` do not name its tool `{tool}`; they name: {named}")]
    NotNamed { server: String, tool: String, named: String },
    #[error("MCP server `{server}` ended, and is started again in {ms} ms")]
    Resting { server: String, ms: u128 },
    #[error("MCP server `{server}`: {source}")]
    Pin { server: String, source: PinError },
    #[error("there is no MCP server `{name}`; there are: {known}")]
    Unknown { name: String, known: String },
    #[error("MCP server `{server}` is switched off in the settings")]
    Disabled { server: String },
}

impl Error {
    /// What a call fails with that could not be put to the server. Nothing has happened then, so trying again is safe.
    pub(super) fn failure(&self) -> Failure {
        match self {
            Error::Changed { .. } | Error::NotNamed { .. } => Failure::NotPermitted,
            Error::Unreachable { .. } | Error::NotTaken { .. } | Error::Resting { .. } => Failure::Network,
            Error::Config(_)
            | Error::NoProgram { .. }
            | Error::Start { .. }
            | Error::Slow { .. }
            | Error::Pin { .. }
            | Error::Unknown { .. }
            | Error::Disabled { .. } => Failure::Tool,
        }
    }
}

/// For whom a server is started.
#[derive(Clone, Copy)]
pub(super) struct Visit<'a> {
    pub(super) run: Option<&'a RunId>,
    /// Where the run works.
    pub(super) root: &'a Path,
}

/// What a look at a server showed.
#[derive(Clone, Debug)]
pub struct Look {
    pub listing: Listing,
    /// Against what was accepted; `None` if nothing was yet.
    pub difference: Option<Difference>,
    /// Which of its code the pin does not hold, in words.
    pub unpinned: Option<String>,
    pub(super) pin: Pin,
}

impl Look {
    /// Is it another program than what was accepted, or the same one started in another way?
    pub fn is_another(&self, accepted: &Pin) -> bool {
        !accepted.identity.changes(&self.pin.identity).is_empty()
    }
}

/// How a call went, also if it did not come to one.
pub(super) enum Put {
    Called(Called),
    NotReached(Error),
}

pub(super) struct Server {
    pub(super) name: String,
    pub(super) config: ServerConfig,
    shared: Arc<Shared>,
    log: Log,
    /// What was accepted, as it was read when this process started: what happens to the file since changes nothing.
    accepted: RwLock<Option<Pin>>,
    seats: Mutex<HashMap<String, Arc<tokio::sync::Mutex<Seat>>>>,
}

/// The place of one run at a server.
#[derive(Default)]
struct Seat {
    link: Option<Arc<Link>>,
    /// Ends and failed starts in a row.
    failures: u32,
    not_before: Option<Instant>,
    /// A call timed out, so the server may hang.
    is_suspect: bool,
}

impl Server {
    pub(super) fn new(name: &str, config: ServerConfig, shared: Arc<Shared>) -> Result<Server, Error> {
        config.check(name)?;
        let log_path = shared.dir.as_ref().map(|dir| dir.join(format!("{name}.log")));
        let log = Log::new(log_path, Arc::clone(&shared.strike));
        let (accepted, seats) = (RwLock::default(), Mutex::default());
        Ok(Server { name: name.to_owned(), config, shared, log, accepted, seats })
    }

    /// Where what it said can be read, if it is a program of ours that has said anything.
    pub(super) fn log_path(&self) -> Option<&Path> {
        self.config.url.is_none().then(|| self.log.path()).flatten()
    }

    /// What was accepted, unless what is configured now is something else.
    pub(super) fn read_pin(&self) -> Result<Option<Pin>, Error> {
        let pin = self.shared.pins.get(&self.name);
        let pin = pin.map_err(|source| Error::Pin { server: self.name.clone(), source })?;
        *self.accepted.write().unwrap_or_else(PoisonError::into_inner) = pin.clone();
        Ok(pin)
    }

    /// Does what was accepted still stand for what is configured? Nothing is read or started for this.
    pub(super) fn check_way(&self, pin: &Pin) -> Result<(), Error> {
        let programs = pin.identity.programs.clone();
        let now = Identity { way: self.way()?, programs, variables: self.pinned_variables() };
        self.unchanged(pin.identity.changes(&now))
    }

    /// Was it what was accepted when it was last looked at?
    pub(super) fn check_noted(&self) -> Result<(), Error> {
        self.unchanged(self.shared.pins.noted_changed(&self.name))
    }

    /// The same of what is seen right now, which is noted: what changed is not offered to a model any more.
    fn noted(&self, changed: Vec<String>) -> Result<(), Error> {
        self.shared.pins.note_changed(&self.name, &changed);
        self.unchanged(changed)
    }

    /// May this tool be called, going by the settings?
    pub(super) fn check_named(&self, tool: &str) -> Result<(), Error> {
        if self.config.allows(tool) {
            return Ok(());
        }
        let named = self.config.tools.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(", ");
        Err(Error::NotNamed { server: self.name.clone(), tool: tool.to_owned(), named })
    }

    pub(super) fn keep(&self, pin: &Pin) -> Result<(), Error> {
        let kept = self.shared.pins.put(&self.name, pin);
        kept.map_err(|source| Error::Pin { server: self.name.clone(), source })?;
        self.shared.pins.note_changed(&self.name, &[]);
        *self.accepted.write().unwrap_or_else(PoisonError::into_inner) = Some(pin.clone());
        Ok(())
    }

    /// Starts the server, looks at everything it has, and ends it.
    pub(super) async fn look(&self, visit: Visit<'_>, even_if_changed: bool) -> Result<Look, Error> {
        let accepted = self.accepted();
        let (place, identity) = self.place().await?;
        let changed = accepted.as_ref().map_or(Vec::new(), |pin| pin.identity.changes(&identity));
        if !even_if_changed && !changed.is_empty() {
            self.noted(changed.clone())?;
        }
        let unpinned = place.unpinned();
        let link = self.open(&place, visit).await?;
        let listing = self.waited_for(link.listing()).await;
        link.close().await;
        let listing = self.in_time(listing)?;
        let difference = accepted.map(|pin| {
            let mut difference = pin.difference(&listing.tools);
            difference.changed.splice(0..0, changed);
            self.shared.pins.note_changed(&self.name, &difference.changed);
            difference
        });
        let pin = Pin::new(identity, listing.tools.clone());
        Ok(Look { listing, difference, unpinned, pin })
    }

    /// Puts a call to the server, starting it first if need be. What was surely not carried out is put once more: a server
    /// elsewhere that was started again does not know our session, and says so.
    pub(super) async fn call(
        &self,
        visit: Visit<'_>,
        tool: &str,
        arguments: JsonObject,
        time: Duration,
        cancel: &Cancel,
    ) -> Put {
        let seat = self.seat(visit);
        let mut is_second = false;
        loop {
            let link = tokio::select! {
                link = self.link(&seat, visit, time) => link,
                () = cancel.cancelled() => return Put::Called(Called::Cancelled),
            };
            let link = match link {
                Ok(link) => link,
                Err(error) => return Put::NotReached(error),
            };
            let not_taken = match link.call(tool, arguments.clone(), time, cancel).await {
                Ok(called) => {
                    self.learn(&seat, &link, &called).await;
                    return Put::Called(called);
                }
                Err(not_taken) => not_taken,
            };
            self.leave(&seat, &link, not_taken).await;
            if is_second {
                let (server, why) = (self.name.clone(), not_taken.to_string());
                return Put::NotReached(Error::NotTaken { server, why });
            }
            is_second = true;
        }
    }

    /// Ends what was started for a run.
    pub(super) async fn rest(&self, run: Option<&RunId>) {
        let seat = self.seats.lock().unwrap_or_else(PoisonError::into_inner).remove(&key(&self.name, run));
        if let Some(seat) = seat
            && let Some(link) = seat.lock().await.link.take()
        {
            link.close().await;
        }
    }

    /// Values that the server was given, without the scheme before them: of its variables those that are secrets, of its headers all but
    /// plain words. If it repeats them, they are struck out. One that cannot be put together is not given either.
    pub(super) fn secrets(&self) -> Vec<String> {
        let variables = self.variables();
        let given = self.config.env.iter().filter_map(|(name, value)| {
            let whole = variables.expand(name, value).ok()?;
            let called = [&[name.as_str()], variables_in(value).as_slice()].concat().join(" ");
            is_secret(&called, &whole).then_some(whole)
        });
        // One that says which tools are wanted, or what is accepted, is a plain word.
        let headers = self.config.headers.iter().filter_map(|(name, value)| {
            let whole = variables.expand("", value).ok()?;
            let is_word = || !is_secret(name, credential(&whole).unwrap_or(&whole));
            let is_plain = is_plain_header(name) || (variables_in(value).is_empty() && is_word());
            (!is_plain).then_some(whole)
        });
        let whole = given.chain(headers).filter(|value| value.len() >= limits::SECRET_BYTES_MIN);
        whole.map(|value| credential(&value).unwrap_or(&value).to_owned()).collect()
    }

    fn accepted(&self) -> Option<Pin> {
        self.accepted.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn seat(&self, visit: Visit<'_>) -> Arc<tokio::sync::Mutex<Seat>> {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(seats.entry(key(&self.name, visit.run)).or_default())
    }

    /// The conversation to use. The seat is held meanwhile, so that a server is started once however many calls wait.
    async fn link(
        &self,
        seat: &tokio::sync::Mutex<Seat>,
        visit: Visit<'_>,
        patience: Duration,
    ) -> Result<Arc<Link>, Error> {
        let mut seat = seat.lock().await;
        if let Some(link) = seat.link.take() {
            let hangs = seat.is_suspect && !link.answers().await;
            seat.is_suspect = false;
            if !hangs && !link.is_closed() {
                let checked = if link.tools_changed() { self.check_tools(&link).await } else { Ok(()) };
                if let Err(error) = checked {
                    // Whoever calls next meets a new start, and the same check.
                    link.close().await;
                    return Err(error);
                }
                seat.link = Some(Arc::clone(&link));
                return Ok(link);
            }
            self.log.note("does not answer any more, and is started again");
            link.close().await;
        }
        self.wait_out(&seat, patience).await?;
        match self.start(visit).await {
            Ok(link) => {
                let link = Arc::new(link);
                seat.link = Some(Arc::clone(&link));
                Ok(link)
            }
            Err(error) => {
                self.log.note(&error.to_string());
                // Waiting does not make it what was accepted; the next call is told the same at once.
                if !matches!(error, Error::Changed { .. }) {
                    seat.failed();
                }
                Err(error)
            }
        }
    }

    async fn wait_out(&self, seat: &Seat, patience: Duration) -> Result<(), Error> {
        let Some(not_before) = seat.not_before else { return Ok(()) };
        let left = not_before.saturating_duration_since(Instant::now());
        if left > patience {
            return Err(Error::Resting { server: self.name.clone(), ms: left.as_millis() });
        }
        sleep_until(not_before).await;
        Ok(())
    }

    /// Starts the server and makes sure that it is what was accepted.
    async fn start(&self, visit: Visit<'_>) -> Result<Link, Error> {
        let (place, identity) = self.place().await?;
        let changed = self.accepted().map_or(Vec::new(), |pin| pin.identity.changes(&identity));
        if !changed.is_empty() {
            self.noted(changed)?;
        }
        let link = self.open(&place, visit).await?;
        match self.check_tools(&link).await {
            Ok(()) => Ok(link),
            Err(error) => {
                link.close().await;
                Err(error)
            }
        }
    }

    async fn check_tools(&self, link: &Link) -> Result<(), Error> {
        let Some(pin) = self.accepted() else { return Ok(()) };
        let (tools, _) = self.in_time(self.waited_for(link.tools()).await)?;
        self.noted(pin.difference(&tools).changed)
    }

    async fn open(&self, place: &Place, visit: Visit<'_>) -> Result<Link, Error> {
        let heard = Arc::new(Heard::new(&self.name, self.log.clone(), Arc::clone(&self.shared.listening)));
        let root = self.config.roots.unwrap_or(true).then(|| file_uri(visit.root));
        let key = key(&self.name, visit.run);
        let mark = Mark { run: visit.run.map(RunId::as_str), key: &key, root: visit.root };
        let opening = Link::open(place, &mark, &self.log, Client { heard, root });
        let opened = self.waited_for(opening).await;
        match (opened, place) {
            (Ok(Err(why)), Place::Address { .. }) => {
                Err(Error::Unreachable { server: self.name.clone(), why: self.struck(why) })
            }
            (opened, _) => self.in_time(opened),
        }
    }

    /// What a start takes, within its time. Whoever waits longer than a moment is told for what, and for how long at most.
    async fn waited_for<T>(&self, work: impl Future<Output = T>) -> Result<T, Elapsed> {
        let time = self.config.start_time();
        let mut work = pin!(timeout(time, work));
        if let Ok(came) = timeout(limits::START_QUIET_TIME, &mut work).await {
            return came;
        }
        let listener = self.shared.listening.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(listener) = listener {
            let name = &self.name;
            listener(&format!(
                "waiting for MCP server `{name}` to start, {time:?} at most (`start_timeout_ms`)"
            ));
        }
        work.await
    }

    fn in_time<T>(&self, came: Result<Result<T, String>, Elapsed>) -> Result<T, Error> {
        let server = self.name.clone();
        match came {
            Ok(Ok(came)) => Ok(came),
            Ok(Err(why)) => Err(Error::Start { server, why: self.struck(why) }),
            Err(_) => {
                let (ms, words) = (self.config.start_time().as_millis(), self.struck(self.log.quoted()));
                Err(Error::Slow { server, ms, words })
            }
        }
    }

    fn struck(&self, text: String) -> String {
        let text = self.secrets().iter().fold(text, |text, secret| text.replace(secret, "[secret]"));
        (self.shared.strike)(&text)
    }

    fn unchanged(&self, changed: Vec<String>) -> Result<(), Error> {
        if changed.is_empty() { Ok(()) } else { Err(Error::Changed { server: self.name.clone(), changed }) }
    }

    async fn learn(&self, seat: &tokio::sync::Mutex<Seat>, link: &Arc<Link>, called: &Called) {
        let mut seat = seat.lock().await;
        match called {
            Called::Answered(_) | Called::Refused(_) => (seat.failures, seat.not_before) = (0, None),
            Called::TimedOut => seat.is_suspect = true,
            Called::Cancelled => {}
            Called::Cut(why) => {
                self.log.note(&format!("broke off: {why}"));
                if seat.link.as_ref().is_some_and(|held| Arc::ptr_eq(held, link)) {
                    seat.link = None;
                }
                seat.failed();
                link.close().await;
            }
        }
    }

    /// Lets go of a conversation that takes no more calls. Those under way may still be answered, so it ends with the last.
    async fn leave(&self, seat: &tokio::sync::Mutex<Seat>, link: &Arc<Link>, not_taken: NotTaken) {
        self.log.note(&format!("did not take a call: {not_taken}; it is reached anew"));
        let mut seat = seat.lock().await;
        if seat.link.as_ref().is_none_or(|held| !Arc::ptr_eq(held, link)) {
            return;
        }
        seat.link = None;
        match not_taken {
            NotTaken::SessionUnknown => {}
            // Whatever is being started again has a moment for it.
            NotTaken::NobodyListens => seat.failed(),
        }
    }

    /// What would be started or reached now, with its hashes.
    async fn place(&self) -> Result<(Place, Identity), Error> {
        let way = self.way()?;
        let Way::Stdio { program, arguments } = self.config.way(&self.name)? else {
            let url = self.config.url.as_deref().unwrap_or("").trim().to_owned();
            let place = Place::Address { url, headers: self.headers()? };
            return Ok((
                place,
                Identity { way, programs: Default::default(), variables: Default::default() },
            ));
        };
        let program = self.program(program, arguments)?;
        // Hashing waits for the disk.
        let hashed = crate::tool::blocking(move || (program.hashes(), program)).await;
        let broken = |why: String| Error::Start { server: self.name.clone(), why };
        let (hashes, program) =
            hashed.map_err(|outcome| broken(outcome.error().unwrap_or_default().to_owned()))?;
        let programs =
            hashes.map_err(|error| broken(format!("{} cannot be read: {error}", program.file.display())))?;
        Ok((Place::Program(program), Identity { way, programs, variables: self.pinned_variables() }))
    }

    fn program(&self, program: &str, arguments: &[String]) -> Result<Program, Error> {
        let cwd = match &self.config.cwd {
            Some(cwd) => self.shared.base_dir.join(cwd),
            None => self.shared.base_dir.clone(),
        };
        let variables = self.variables();
        let mut configured = BTreeMap::new();
        for (name, value) in &self.config.env {
            configured.insert(name.clone(), variables.expand(&format!("env {name}"), value)?);
        }
        let environment = Program::environment(&self.shared.environment, configured);
        let missing = || Error::NoProgram { server: self.name.clone(), program: program.to_owned() };
        let file: PathBuf = find(program, &cwd, &environment).ok_or_else(missing)?;
        let setsid = find("setsid", Path::new("/"), &self.shared.environment);
        let sandbox = match self.config.sandbox {
            Some(false) => Sandbox::off(),
            Some(true) | None => self.shared.sandbox.clone(),
        };
        let (arguments, network) = (arguments.to_vec(), self.config.network.clone());
        Ok(Program { file, arguments, environment, cwd, setsid, sandbox, network })
    }

    fn headers(&self) -> Result<Vec<(String, String)>, ConfigError> {
        let variables = self.variables();
        let expand = |(name, value): (&String, &String)| {
            Ok((name.clone(), variables.expand(&format!("header {name}"), value)?))
        };
        self.config.headers.iter().map(expand).collect()
    }

    fn variables(&self) -> Variables<'_> {
        Variables {
            server: &self.name,
            environment: &self.shared.environment,
            withheld: &self.shared.withheld,
        }
    }

    /// What the settings say of its variables, as digests.
    fn pinned_variables(&self) -> BTreeMap<String, String> {
        let digest = |(name, value): (&String, &String)| (name.clone(), digest_of(value.as_bytes()));
        self.config.env.iter().map(digest).collect()
    }

    /// The command line or the address as it is configured, without what variables hold.
    fn way(&self) -> Result<String, ConfigError> {
        Ok(match self.config.way(&self.name)? {
            Way::Stdio { .. } => self.config.command.join(" "),
            Way::Http { url } => url.to_owned(),
        })
    }
}

impl Seat {
    fn failed(&mut self) {
        let doubled = limits::BACKOFF_BASE.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.not_before = Some(Instant::now() + doubled.min(limits::BACKOFF_MAX));
    }
}

/// Headers that no key is in.
fn is_plain_header(name: &str) -> bool {
    const PLAIN: [&str; 4] = ["accept", "accept-language", "content-type", "user-agent"];
    PLAIN.iter().any(|plain| name.eq_ignore_ascii_case(plain))
}

/// What is secret of `Bearer TOKEN`. Known with its scheme, the token would only be struck out as a part of that: with the blank
/// before it. A token that is hardly one is no secret without it.
fn credential(value: &str) -> Option<&str> {
    const SCHEMES: [&str; 6] = ["apikey", "basic", "bearer", "bot", "key", "token"];
    let (scheme, rest) = value.trim().split_once(' ')?;
    let is_scheme = SCHEMES.iter().any(|known| scheme.eq_ignore_ascii_case(known));
    Some(rest.trim_start()).filter(|rest| is_scheme && rest.len() >= limits::SECRET_BYTES_MIN)
}

/// What marks a server's processes: the run's, or this process's if there is no run.
fn key(server: &str, run: Option<&RunId>) -> String {
    match run {
        Some(run) => format!("{run}.mcp_{server}"),
        None => format!("mcp_{server}.{}", std::process::id()),
    }
}

/// The tools of a pin that the settings allow.
pub(super) fn allowed<'a>(config: &'a ServerConfig, pin: &'a Pin) -> impl Iterator<Item = &'a Offered> {
    pin.tools.iter().filter(|offered| config.allows(&offered.tool))
}
