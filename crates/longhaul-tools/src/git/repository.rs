//! The one way in which the tools run git.
//!
//! Owns what must be true before anything is asked of a repository that an agent can write. It has to be this workspace's
//! own: `.git` may be a file that names any repository of the user's, and then showing a commit would show what is outside.
//! And nothing it names may be run: what holds for all repositories is in `longhaul_workspace::git`, but filters are called
//! by names that only its configuration knows, so that is read first. Refuses to understand what git is asked.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use longhaul_core::tool::{Failure, Outcome};
use longhaul_workspace::git::{self, Listens};
use longhaul_workspace::gitdirs::{self, GitDirs};

use crate::capture::Capture;
use crate::child::{Child, End, Finished};
use crate::limits;
use crate::process::{CALL_MARKER, RUN_MARKER};
use crate::sandbox::{Job, More, Sandbox, Wrapped};
use crate::tool::{Context, refused};

/// A repository that was found to be the workspace's own.
pub(super) struct Repository<'a> {
    context: &'a Context,
    sandbox: &'a Sandbox,
    started: Instant,
    found: Found,
    settings: Vec<Setting>,
    /// What takes the place of the repository's filters.
    filters: Vec<Setting>,
}

/// What a filter that a repository names is replaced by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Filters {
    /// Nothing: files are compared as they are.
    Absent,
    /// One that fails: files are not stored as they should not be.
    Failing,
}

/// Key and value of git's configuration, in the order in which git reads them.
pub(super) use longhaul_workspace::git::Setting;

const WHERE: [&str; 6] = [
    "rev-parse",
    "--show-toplevel",
    "--absolute-git-dir",
    "--git-common-dir",
    "--show-object-format",
    "--show-prefix",
];

const LIST: [&str; 3] = ["config", "--list", "--null"];

/// Where things are, with links resolved.
struct Found {
    top: PathBuf,
    /// The workspace below `top`; empty, or with a slash at its end.
    prefix: String,
    directory: PathBuf,
    common: PathBuf,
    sha256: bool,
}

impl<'a> Repository<'a> {
    pub(super) async fn open(context: &'a Context, sandbox: &'a Sandbox) -> Result<Repository<'a>, Outcome> {
        context.workspace.check_present().map_err(|error| refused(&error))?;
        let started = Instant::now();
        let root = context.workspace.root();
        let plain = || git::command(root, Listens::ToNobody, &[]);
        let found = run(context, sandbox, plain(), &WHERE, context.timeout).await?;
        let found = Found::parsed(root, &text(found)?)?;
        let settings = run(context, sandbox, plain(), &LIST, context.timeout).await?;
        let settings = settings_in(&bytes(settings)?);
        let mut repository = Repository { context, sandbox, started, found, settings, filters: Vec::new() };
        repository.refuse_foreign()?;
        repository.replace_filters(Filters::Absent, &[]);
        Ok(repository)
    }

    /// Replaces the filters of this repository, and of `more` configuration.
    pub(super) fn replace_filters(&mut self, filters: Filters, more: &[Setting]) {
        let value = match filters {
            Filters::Absent => ["", "false"],
            Filters::Failing => ["false", "true"],
        };
        let mut names: Vec<&[u8]> =
            self.settings.iter().chain(more).filter_map(|(key, _)| filter_name(key)).collect();
        names.sort_unstable();
        names.dedup();
        let replaced = names.into_iter().flat_map(|name| {
            let key =
                |variable: &str| OsString::from_vec([b"filter.", name, b".", variable.as_bytes()].concat());
            // A process goes before a command, so that there must be none.
            let replaced =
                [("process", ""), ("smudge", value[0]), ("clean", value[0]), ("required", value[1])];
            replaced.map(|(variable, value)| (key(variable), value.to_owned()))
        });
        self.filters = replaced.collect();
    }

    pub(super) fn settings(&self) -> &[Setting] {
        &self.settings
    }

    pub(super) fn context(&self) -> &Context {
        self.context
    }

    /// The root of the checkout.
    pub(super) fn top(&self) -> &Path {
        &self.found.top
    }

    /// The repository's own directory for this checkout.
    pub(super) fn directory(&self) -> &Path {
        &self.found.directory
    }

    /// What all checkouts of the repository share: objects, settings.
    pub(super) fn common(&self) -> &Path {
        &self.found.common
    }

    /// The settings of the repository that this is a worktree of, and where that is checked out; if it is of none, its own. No
    /// agent can write the former, which have what the latter lack: keys.
    pub(super) async fn home(&self) -> Result<(Vec<Setting>, PathBuf), Outcome> {
        let Some(lender) = gitdirs::lender(&self.found.top) else {
            return Ok((self.settings.clone(), self.base(&self.found.common)));
        };
        let mut command = git::command(&lender.common, Listens::ToUser, &[]);
        command.env("GIT_DIR", &lender.common);
        let listed = run(self.context, &Sandbox::off(), command, &LIST, self.context.timeout).await?;
        Ok((settings_in(&bytes(listed)?), self.base(&lender.common)))
    }

    /// Where a repository itself is checked out, whichever of its worktrees this is.
    fn base(&self, common: &Path) -> PathBuf {
        let own = common.file_name().is_some_and(|name| name == ".git");
        common.parent().filter(|_| own).unwrap_or(&self.found.top).to_owned()
    }

    pub(super) fn is_sha256(&self) -> bool {
        self.found.sha256
    }

    /// A path as git knows it, as the other tools know it.
    pub(super) fn beneath<'p>(&self, path: &'p str) -> &'p str {
        path.strip_prefix(&self.found.prefix).unwrap_or(path)
    }

    /// All zeros: to git, a reference that is not there.
    pub(super) fn nothing(&self) -> String {
        "0".repeat(if self.found.sha256 { 64 } else { 40 })
    }

    /// Runs a command that changes nothing, and answers all it printed. Attributes in the tree are passed over, so a file
    /// that is stored with other line ends may be shown as changed.
    pub(super) async fn ask(&self, arguments: &[&str]) -> Result<String, Outcome> {
        text(self.show(arguments).await?)
    }

    /// The same for a long output.
    pub(super) async fn show(&self, arguments: &[&str]) -> Result<Capture, Outcome> {
        let mut command = self.command();
        command.env("GIT_ATTR_SOURCE", self.empty_tree());
        self.run(command, arguments).await
    }

    /// Runs a command that may write, as `who` where that matters.
    pub(super) async fn tell(&self, who: &[(&str, &str)], arguments: &[&str]) -> Result<String, Outcome> {
        let mut command = self.command();
        command.envs(who.iter().copied());
        text(self.run(command, arguments).await?)
    }

    /// The commit that a model's word for it means. What starts with a dash would be an option to somebody.
    pub(super) async fn commit(&self, name: &str) -> Result<String, Outcome> {
        let refusal = |message: String| Outcome::failed(Failure::InvalidArguments, message);
        if name.is_empty() || name.starts_with('-') || name.chars().any(char::is_control) {
            return Err(refusal(format!("{name:?} is not the name of a commit")));
        }
        let commit = format!("{name}^{{commit}}");
        match self.ask(&["rev-parse", "--quiet", "--verify", "--end-of-options", &commit]).await {
            Ok(id) => Ok(id.trim_end().to_owned()),
            Err(Outcome::Failed { failure: Failure::Tool, .. }) => {
                Err(Outcome::failed(Failure::Tool, format!("there is no commit `{name}` here")))
            }
            Err(outcome) => Err(outcome),
        }
    }

    /// What a reference points at, if it is there.
    pub(super) async fn reference(&self, name: &str) -> Result<Option<String>, Outcome> {
        match self.ask(&["rev-parse", "--quiet", "--verify", "--end-of-options", name]).await {
            Ok(id) => Ok(Some(id.trim_end().to_owned())),
            Err(Outcome::Failed { failure: Failure::Tool, .. }) => Ok(None),
            Err(outcome) => Err(outcome),
        }
    }

    /// The branch that is checked out, by its full name.
    pub(super) async fn branch(&self) -> Result<Option<String>, Outcome> {
        match self.ask(&["symbolic-ref", "--quiet", "HEAD"]).await {
            Ok(name) => Ok(Some(name.trim_end().to_owned())),
            Err(Outcome::Failed { failure: Failure::Tool, .. }) => Ok(None),
            Err(outcome) => Err(outcome),
        }
    }

    fn command(&self) -> Command {
        git::command(self.context.workspace.root(), Listens::ToNobody, &self.filters)
    }

    /// The tree without files, which git knows without having it.
    pub(super) fn empty_tree(&self) -> &'static str {
        if self.found.sha256 {
            "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321"
        } else {
            "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
        }
    }

    async fn run(&self, command: Command, arguments: &[&str]) -> Result<Capture, Outcome> {
        let left = self.context.timeout.saturating_sub(self.started.elapsed());
        run(self.context, self.sandbox, command, arguments, left).await
    }

    /// What git found must be what can be told without it: a true link, and nothing behind that.
    fn refuse_foreign(&self) -> Result<(), Outcome> {
        let Found { top, directory, common, .. } = &self.found;
        let known = match gitdirs::at(top) {
            Some(GitDirs::Own { directory: own, .. }) => own == *directory && common == directory,
            Some(GitDirs::Linked { own, common: shared, .. }) => own == *directory && shared == *common,
            None => false,
        };
        let root = self.context.workspace.root().canonicalize().unwrap_or_default();
        if known && root.starts_with(top) {
            return Ok(());
        }
        let message = "`.git` here leads to a repository that does not know this directory";
        Err(Outcome::failed(Failure::NotPermitted, message))
    }
}

impl Found {
    fn parsed(root: &Path, printed: &str) -> Result<Found, Outcome> {
        let lines: Vec<&str> = printed.split('\n').collect();
        let [top, directory, common, format, prefix, ""] = lines.as_slice() else {
            return Err(Outcome::failed(Failure::Tool, "where the repository is cannot be read"));
        };
        let whole = |path: &str| {
            root.join(path).canonicalize().map_err(|error| {
                let message = format!("the repository at `{path}` cannot be reached: {error}");
                Outcome::failed(Failure::Tool, message)
            })
        };
        Ok(Found {
            top: whole(top)?,
            prefix: (*prefix).to_owned(),
            directory: whole(directory)?,
            common: whole(common)?,
            sha256: *format == "sha256",
        })
    }
}

/// The user's own configuration, and nothing else's: names, and which filters there are. It is not of the agent's world, so
/// this git is not held; it looks for no repository and runs nothing.
pub(super) async fn user_settings(context: &Context) -> Result<Vec<Setting>, Outcome> {
    let mut command = git::command(Path::new("/"), Listens::ToUser, &[]);
    command.env_clear();
    let passed = ["PATH", "HOME", "XDG_CONFIG_HOME"];
    command.envs(passed.iter().filter_map(|name| Some((name, std::env::var_os(name)?))));
    command.env("GIT_DIR", "/nonexistent");
    let listed = run(context, &Sandbox::off(), command, &LIST, context.timeout).await?;
    Ok(settings_in(&bytes(listed)?))
}

/// Runs a git that is not of the agent's world, and so is not held.
pub(super) async fn run_free(
    context: &Context,
    command: Command,
    arguments: &[&str],
) -> Result<String, Outcome> {
    text(run(context, &Sandbox::off(), command, arguments, context.timeout).await?)
}

async fn run(
    context: &Context,
    sandbox: &Sandbox,
    mut command: Command,
    arguments: &[&str],
    time: Duration,
) -> Result<Capture, Outcome> {
    if context.cancel.is_cancelled() {
        return Err(Outcome::failed(Failure::Cancelled, "not started because the run was paused"));
    }
    command.args(arguments).env(RUN_MARKER, context.run.as_str()).env(CALL_MARKER, &context.key);
    let wrapped = held(context, sandbox, &command)?;
    let reach = wrapped.reach();
    let child = Child::start_apart(wrapped.command, &context.key, reach, None)
        .map_err(|error| Outcome::failed(Failure::Tool, format!("git could not be started: {error}")))?;
    let Finished { end, capture, errors, rest: _ } = child.finish(time, &context.cancel).await;
    drop(wrapped.kept);
    match end {
        End::Exited(status) if status.success() => Ok(capture),
        End::Exited(status) => Err(failed(&status.to_string(), &errors)),
        End::TimedOut => Err(Outcome::failed(Failure::Timeout, "git did not end in time and was stopped")),
        End::Cancelled => Err(Outcome::failed(Failure::Cancelled, "stopped because the run was paused")),
        End::Lost(error) => Err(Outcome::failed(Failure::Tool, format!("git's end is not known: {error}"))),
    }
}

fn held(context: &Context, sandbox: &Sandbox, command: &Command) -> Result<Wrapped, Outcome> {
    let words: Vec<OsString> =
        std::iter::once(command.get_program()).chain(command.get_args()).map(OsStr::to_owned).collect();
    let set = command.get_envs().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let environment: Vec<(OsString, OsString)> = set.collect();
    let workspace = context.workspace.root();
    let job = Job { workspace, words: &words, environment: &environment, more: More::default() };
    let wrapped = sandbox
        .wrap(&job)
        .map_err(|why| Outcome::failed(Failure::NotPermitted, format!("not run: {why}")))?;
    Ok(wrapped.in_session(None))
}

/// Git's own words. A lock of another git is let go of sooner or later.
fn failed(status: &str, errors: &Capture) -> Outcome {
    let said = String::from_utf8_lossy(&errors.kept()).trim().to_owned();
    let said: String = said.chars().take(limits::GIT_COMPLAINT_LETTERS_MAX).collect();
    let locked = said.contains(".lock': File exists");
    let failure = if locked { Failure::Busy } else { Failure::Tool };
    Outcome::failed(failure, if said.is_empty() { format!("git failed: {status}") } else { said })
}

fn text(printed: Capture) -> Result<String, Outcome> {
    Ok(String::from_utf8_lossy(&bytes(printed)?).into_owned())
}

fn bytes(printed: Capture) -> Result<Vec<u8>, Outcome> {
    if printed.lost() > 0 {
        let message = format!("git printed {} bytes, too many to read; name a path", printed.total());
        return Err(Outcome::failed(Failure::Tool, message));
    }
    Ok(printed.kept())
}

/// What `config --list --null` printed. A key without a value is one without a line break. Keys are as git has them: a filter's
/// name need be no text.
fn settings_in(printed: &[u8]) -> Vec<Setting> {
    let entries = printed.split(|byte| *byte == 0).filter(|entry| !entry.is_empty());
    let pair = |entry: &[u8]| {
        let mut parts = entry.splitn(2, |byte| *byte == b'\n');
        let key = OsString::from_vec(parts.next().unwrap_or_default().to_vec());
        (
            key,
            parts
                .next()
                .map_or_else(|| "true".to_owned(), |value| String::from_utf8_lossy(value).into_owned()),
        )
    };
    entries.map(pair).collect()
}

/// `name` of `filter.name.clean`; it may have dots itself.
fn filter_name(key: &OsStr) -> Option<&[u8]> {
    let rest = key.as_bytes().strip_prefix(b"filter.")?;
    Some(&rest[..rest.iter().rposition(|byte| *byte == b'.')?])
}
