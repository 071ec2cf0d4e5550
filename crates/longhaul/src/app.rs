//! What every command starts from: where it runs, its settings, its state directory, and the harness over it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use longhaul_core::ids::RunId;
use longhaul_core::suggest::closest;
use longhaul_engine::clock::SystemClock;
use longhaul_engine::{Harness, Secrets};
use longhaul_model::{Limiter, Models};
use longhaul_store::Home;
use longhaul_tools::Toolbox;
use longhaul_tools::hooks::Hooks;
use longhaul_tools::mcp::Servers;
use longhaul_tools::research::{Provider, Search, SearchConfig};
use longhaul_tools::sandbox::{Host, Options, Sandbox};
use longhaul_workspace::place;

use crate::cli::Shared;
use crate::crew::Staff;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::owner::{self, Owner, Whose};
use crate::render;
use crate::servers;
use crate::settings::{self, Permissions, Settings};
use crate::trust::{self, Book, Trust};

pub struct App {
    pub shared: Shared,
    pub cwd: PathBuf,
    /// The nearest git root, or where the command was typed.
    pub project: PathBuf,
    pub state_dir: PathBuf,
    /// The MCP servers, made when they are first needed.
    servers: OnceLock<Servers>,
    /// Was the user told what is not trusted? Once is enough.
    told: OnceLock<()>,
    /// The same of what is set and does nothing.
    told_of_nats: OnceLock<()>,
    /// And of settings that are in the wrong place.
    told_of_place: OnceLock<()>,
    /// And of runs that cannot be shown.
    told_of_fallback: OnceLock<()>,
    /// Everything that is written and shown nowhere, whoever found it.
    pub secrets: Secrets,
}

impl App {
    pub fn new(shared: Shared) -> Result<App, Failure> {
        let cwd = std::env::current_dir()
            .map_err(|error| Failure::usage(format!("cannot tell the current directory: {error}")))?;
        let project = git_root(&cwd).unwrap_or_else(|| cwd.clone());
        let state_dir = match &shared.state_dir {
            Some(dir) => cwd.join(dir),
            None => project.join(".longhaul"),
        };
        Ok(App {
            shared,
            cwd,
            project,
            state_dir,
            servers: OnceLock::new(),
            told: OnceLock::new(),
            told_of_nats: OnceLock::new(),
            told_of_place: OnceLock::new(),
            told_of_fallback: OnceLock::new(),
            secrets: Secrets::default(),
        })
    }

    pub fn json(&self) -> bool {
        self.shared.json
    }

    /// The settings in force. What is left out of them for want of trust is said once.
    pub fn settings(&self) -> Result<Settings, Failure> {
        let settings = self.settings_quietly()?;
        if settings.untrusted && self.told.set(()).is_ok() {
            let names = trust::names(&settings.items);
            render::warn(&format!(
                "this repository's longhaul.yaml sets {names}, which is ignored until you trust it; \
                 `longhaul trust` shows what it would do, and asks"
            ));
        }
        if let Some(file) = self.misplaced_settings()
            && self.told_of_place.set(()).is_ok()
        {
            render::warn(&format!(
                "{} is not read: the settings of a repository are in its root, {}",
                file.display(),
                self.project.join("longhaul.yaml").display()
            ));
        }
        if settings.nats && self.told_of_nats.set(()).is_ok() {
            render::warn(
                "nats.enabled is set, and nothing here keeps runs in NATS yet: they are kept on this machine",
            );
        }
        Ok(settings)
    }

    /// A `longhaul.yaml` between here and the repository's root, where somebody may think that it counts.
    fn misplaced_settings(&self) -> Option<PathBuf> {
        let below =
            self.cwd.ancestors().take_while(|dir| dir.starts_with(&self.project) && *dir != self.project);
        below.map(|dir| dir.join("longhaul.yaml")).find(|file| file.is_file())
    }

    pub fn settings_quietly(&self) -> Result<Settings, Failure> {
        let trust = if self.shared.trust { Trust::All } else { self.book().trust(&self.project) };
        Settings::load(&self.project, &environment(), &trust)
    }

    /// Where it is written down which repositories the user trusts.
    pub fn book(&self) -> Book {
        Book::new(settings::user_dir(&environment()))
    }

    /// The MCP servers of these settings, held by `sandbox`.
    pub fn servers(&self, settings: &Settings, sandbox: &Sandbox) -> Result<&Servers, Failure> {
        if let Some(servers) = self.servers.get() {
            return Ok(servers);
        }
        let servers = servers::servers(self, settings, sandbox)?;
        Ok(self.servers.get_or_init(|| servers))
    }

    /// The MCP servers, if anybody needed them so far.
    pub fn servers_in_use(&self) -> Option<&Servers> {
        self.servers.get()
    }

    /// The state directory, made if it is not there, and marked as this user's before anything is in it.
    pub fn make_home(&self) -> Result<Home, Failure> {
        let open =
            || Home::open(&self.state_dir).map_err(unusable).inspect(|home| self.tell_of_fallback(home));
        match self.whose()? {
            Whose::Ours | Whose::Strangers => open(),
            Whose::Nobodys => {
                // One that came with the repository need not ignore anything.
                std::fs::remove_file(self.state_dir.join(".gitignore")).ok();
                let home = open()?;
                match self.owner().claim(&self.state_dir) {
                    Err(failure) if self.is_doubted() => Err(failure),
                    Err(_) | Ok(()) => Ok(home),
                }
            }
        }
    }

    /// Makes a stranger's state directory this user's.
    pub fn adopt_home(&self) -> Result<(), Failure> {
        self.owner().claim(&self.state_dir)
    }

    /// Whose the state directory is; refused if it is a stranger's.
    fn whose(&self) -> Result<Whose, Failure> {
        // What is no directory is refused by whoever opens it.
        if self.state_dir.exists() && !self.state_dir.is_dir() {
            return Ok(Whose::Ours);
        }
        match self.owner().whose(&self.state_dir)? {
            Whose::Strangers if self.is_doubted() => Err(owner::refused(&self.state_dir)),
            whose @ (Whose::Ours | Whose::Nobodys | Whose::Strangers) => Ok(whose),
        }
    }

    /// Could whoever wrote the project have written the state directory as well?
    fn is_doubted(&self) -> bool {
        let within = whole(&self.state_dir).starts_with(whole(&self.project));
        !self.shared.trust && (within || self.state_dir.starts_with(&self.project))
    }

    fn owner(&self) -> Owner {
        Owner::new(user_state_dir())
    }

    /// A harness that may write, but drives nothing: the state directory is made if it is not there.
    pub fn harness(&self) -> Result<Harness, Failure> {
        let settings = self.settings()?;
        let sandbox = self.sandbox(settings.permissions.clone())?;
        self.making(&settings, sandbox)
    }

    /// The same with what is started for a run before it is driven held by `sandbox`.
    pub fn making(&self, settings: &Settings, sandbox: Sandbox) -> Result<Harness, Failure> {
        self.over(self.make_home()?, settings, sandbox)
    }

    /// A harness to make runs and drive them, their commands held by `sandbox`.
    pub fn holding(&self, settings: &Settings, sandbox: Sandbox) -> Result<Harness, Failure> {
        let home = self.make_home()?;
        Ok(contained(self.over(home, settings, sandbox.clone())?, &sandbox))
    }

    /// A harness over runs that exist, to drive one of them.
    pub fn driving(&self, settings: &Settings, sandbox: Sandbox) -> Result<Harness, Failure> {
        match self.home()? {
            Some(home) => Ok(contained(self.over(home, settings, sandbox.clone())?, &sandbox)),
            None => Err(self.no_runs()),
        }
    }

    fn over(&self, home: Home, settings: &Settings, sandbox: Sandbox) -> Result<Harness, Failure> {
        let toolbox = self.toolbox(settings, sandbox)?;
        let harness = Harness::durable(Arc::new(home), toolbox, self.models(settings), Arc::new(SystemClock));
        let harness = self.staffed(harness, settings);
        let harness =
            harness.hiding(users_own()).copying(settings.copy.clone()).setting_up(settings.setup.clone());
        let harness = harness.storing_at_most(settings.retention.checkpoints_max);
        Ok(harness.with_secrets(self.secrets.clone()).with_budget(settings.budget))
    }

    /// The same harness with the agents there are here, for errands.
    fn staffed(&self, harness: Harness, settings: &Settings) -> Harness {
        let toolbox = Arc::clone(&harness.toolbox);
        let staff = Staff { settings: settings.clone(), project: self.project.clone(), toolbox };
        harness.with_crew(Arc::new(staff))
    }

    /// The built-in tools and those of the MCP servers that are accepted, with the hooks around them. Nothing is started for this.
    fn toolbox(&self, settings: &Settings, sandbox: Sandbox) -> Result<Toolbox, Failure> {
        let mut toolbox = Toolbox::builtin(sandbox.clone());
        if !settings.mcp_servers.is_empty() {
            let tools = servers::tools(self.servers(settings, &sandbox)?);
            toolbox = tools.into_iter().fold(toolbox, Toolbox::with);
        }
        if let Some(search) = &settings.search {
            toolbox = toolbox.with(Arc::new(self.search(settings, search, &sandbox)?));
        }
        settings.hooks.check_tools(&toolbox.names()).map_err(Failure::usage)?;
        Ok(toolbox.hooked(Hooks::new(settings.hooks.clone(), sandbox)))
    }

    fn search(
        &self,
        settings: &Settings,
        config: &SearchConfig,
        sandbox: &Sandbox,
    ) -> Result<Search, Failure> {
        let withheld = servers::withheld(settings);
        if let Some(name) = config.env.iter().find(|name| withheld.contains(*name)) {
            return Err(Failure::usage(format!(
                "search.env names {name}, which holds a model provider's key"
            )));
        }
        let environment = environment();
        let passed =
            config.env.iter().filter_map(|name| Some((name.clone(), environment.get(name)?.clone())));
        let passed: Vec<(String, String)> = passed.collect();
        // Whatever the command prints of it is not for the model, nor for the journal.
        self.secrets.learn(passed.iter().map(|(_, value)| value.clone().into()));
        let provider = match (&config.command, &config.url) {
            (_, Some(url)) => Provider::Url(url.clone()),
            (command, None) => Provider::Command {
                text: command.clone().unwrap_or_default(),
                base_dir: config.base_dir.clone(),
                environment: passed,
            },
        };
        Ok(Search::new(provider, sandbox.clone()))
    }

    /// What holds the commands of the runs driven here; nothing is tried yet.
    pub fn sandbox(&self, permissions: Permissions) -> Result<Sandbox, Failure> {
        let host = Host {
            environment: longhaul_tools::agents_environment().collect(),
            hidden: [vec![whole(&self.state_dir)], users_own()].concat(),
            guarded: vec![whole(&self.project).join("longhaul.yaml")],
        };
        let Permissions { sandbox: mode, network } = permissions;
        Ok(Sandbox::new(Options { mode, network, helper: std::env::current_exe()?, host }))
    }

    /// A harness over runs that exist. Nothing is made for those who only look.
    pub fn reading(&self) -> Result<Harness, Failure> {
        match self.home()? {
            // Who only looks asks no model, and is not kept from looking by settings that are wrong.
            Some(home) => {
                let toolbox = Toolbox::builtin(Sandbox::off());
                let clock = Arc::new(SystemClock);
                Ok(Harness::durable(Arc::new(home), toolbox, Models::default(), clock))
            }
            None => Err(self.no_runs()),
        }
    }

    /// The same for those who leave a word with a run: a key in it is struck out as far as the settings can be read.
    pub fn telling(&self) -> Result<Harness, Failure> {
        let harness = self.reading()?;
        if let Ok(settings) = self.settings_quietly() {
            self.secrets.learn(self.models(&settings).secrets());
        }
        Ok(harness.with_secrets(self.secrets.clone()))
    }

    /// What was read from a workspace, where an agent may have put keys into names, without those that the settings tell of.
    pub fn struck(&self, text: &str) -> String {
        if let Ok(settings) = self.settings_quietly() {
            self.secrets.learn(self.models(&settings).secrets());
            // Starts nothing, and learns what they are given.
            servers::servers(self, &settings, &Sandbox::off()).ok();
        }
        self.secrets.strike(text).into_owned()
    }

    fn no_runs(&self) -> Failure {
        let lacking = if self.state_dir.exists() { "is empty" } else { "does not exist" };
        Failure::usage(format!("there are no runs: {} {lacking}", self.state_dir.display()))
            .hint("start one with `longhaul run \"TASK\"`, or point to another place with `--state-dir DIR`")
    }

    /// A run that exists, by its id or by the beginning of it if only one run begins so.
    pub fn run(&self, text: &str) -> Result<RunId, Failure> {
        let id = run_id(text)?;
        let Some(home) = self.home()? else { return Ok(id) };
        if home.store_of(&id).is_ok() {
            return Ok(id);
        }
        let runs = home.readable_runs()?;
        // A whole id that is gone is not short for those that it had sent.
        let is_alike =
            |run: &&RunId| run.as_str().strip_prefix(text).is_some_and(|rest| !rest.starts_with('.'));
        let mut alike = runs.iter().filter(is_alike);
        match (alike.next(), alike.next()) {
            (Some(only), None) => Ok(only.clone()),
            (Some(one), Some(other)) => Err(Failure::usage(format!(
                "`{text}` could be {one}, {other} or others; give more of the id"
            ))),
            (None, _) => {
                let names: Vec<&str> = runs.iter().map(RunId::as_str).collect();
                let failure = Failure::from(longhaul_store::Error::NotFound { run: id });
                Err(match closest(text, &names) {
                    Some(name) => {
                        failure.hint(format!("did you mean {name}? `longhaul list` shows what there is"))
                    }
                    None => failure,
                })
            }
        }
    }

    /// The state directory, if there is one. One that is nobody's yet holds nothing, and whoever looks leaves it so: what
    /// they put there would make it a stranger's.
    pub fn home(&self) -> Result<Option<Home>, Failure> {
        if self.whose()? == Whose::Nobodys {
            return Ok(None);
        }
        let home = Home::existing(&self.state_dir).map_err(unusable)?;
        Ok(home.inspect(|home| self.tell_of_fallback(home)))
    }

    /// Says, once, that runs are left out of whatever is done.
    fn tell_of_fallback(&self, home: &Home) {
        if let Some(error) = home.fallback_trouble()
            && self.told_of_fallback.set(()).is_ok()
        {
            render::warn(&format!("{}; {FALLBACK_HINT}", fallback_unread(error)));
        }
    }

    /// A harness that leaves no trace.
    pub fn forgetful(&self, settings: &Settings, sandbox: Sandbox) -> Result<Harness, Failure> {
        if !settings.enabled && !settings.budget.is_unlimited() {
            return Err(Failure::usage(
                "harness.enabled is false and harness.budget is set: what leaves no trace cannot be counted",
            )
            .hint("enable the harness, or take the budget out"));
        }
        let models = Models { limiter: Arc::default(), ..self.models(settings) };
        let harness = Harness::forgetful(self.toolbox(settings, sandbox)?, models, Arc::new(SystemClock));
        let harness = self.staffed(harness, settings);
        Ok(harness.hiding(users_own()).with_secrets(self.secrets.clone()))
    }

    /// Where rate limits are shared by all runs of this user, whichever repository they are in.
    fn limits_dir(&self) -> PathBuf {
        user_state_dir().map_or_else(|| self.state_dir.join("limits"), |dir| dir.join("limits"))
    }

    /// What a model's name is resolved against here.
    pub fn models(&self, settings: &Settings) -> Models {
        Models {
            base_dir: self.project.clone(),
            providers: settings.providers.clone(),
            untrusted: if settings.untrusted {
                trust::providers(&settings.items)
            } else {
                Default::default()
            },
            environment: environment(),
            limiter: Arc::new(Limiter::new(Some(self.limits_dir()))),
            ..Models::default()
        }
    }
}

/// A harness that puts on record what was found to hold its commands. Where that is refused, none is run.
fn contained(harness: Harness, sandbox: &Sandbox) -> Harness {
    sandbox.prove().into_iter().fold(harness, |harness, found| harness.contained(found.to_string()))
}

/// Where it is kept what belongs to the user and to no project.
pub fn user_state_dir() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let user = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")));
    user.map(|dir| dir.join("longhaul"))
}

/// What of the user's own no agent may see or make, which it could if it works in place and they are there.
fn users_own() -> Vec<PathBuf> {
    let own = [settings::user_dir(&environment()), user_state_dir()];
    own.into_iter().flatten().map(|path| whole(&path)).collect()
}

/// A path with its links resolved, also of what is not there yet.
pub fn whole(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|dir| Some((dir, dir.canonicalize().ok()?)));
    match there.and_then(|(dir, real)| Some(real.join(path.strip_prefix(dir).ok()?))) {
        // A path joined with nothing ends in a slash.
        Some(whole) => whole.components().collect(),
        None => path.to_owned(),
    }
}

pub fn environment() -> BTreeMap<String, String> {
    longhaul_tools::agents_environment()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .collect()
}

/// What can be done about a fallback store that cannot be read.
pub const FALLBACK_HINT: &str = "the other runs are not touched by it; move that file away to be rid of this";

/// That the runs in the fallback are left out, and why.
pub fn fallback_unread(error: longhaul_store::Error) -> String {
    format!("runs in the fallback store are not shown: {:#}", anyhow::Error::from(error))
}

/// A state directory that cannot be used is a matter of where it was put.
fn unusable(error: longhaul_store::Error) -> Failure {
    let hint = "choose another place with `--state-dir DIR` or LONGHAUL_STATE_DIR";
    Failure { exit: Exit::Usage, ..Failure::from(error).hint(hint) }
}

pub fn run_id(text: &str) -> Result<RunId, Failure> {
    RunId::parse(text).map_err(|error| {
        Failure::usage(error.to_string()).hint("ids look like run_01h…; list them with `longhaul list`")
    })
}

/// The nearest directory with a `.git`, also of a repository without commits: the state belongs beside it.
fn git_root(cwd: &Path) -> Option<PathBuf> {
    cwd.ancestors().find(|dir| dir.join(".git").exists()).map(Path::to_owned)
}

/// The repository a new run could have a worktree of.
pub fn repository(cwd: &Path) -> Option<PathBuf> {
    place::discover_repo(cwd).map(|root| root.path().to_owned())
}
