//! The shell: how the texts of commands are run, those of the agent and those of hooks.
//!
//! Owns a command's surroundings: an environment by allow-list, no terminal, nothing that prompts or pages, and the sandbox
//! around it all.

use std::ffi::{OsStr, OsString};
use std::path::{Component, Path, PathBuf};

use crate::process::{CALL_MARKER, RUN_MARKER};
use crate::sandbox::{Job, More, Sandbox, Wrapped, is_system};
use crate::tool::Context;

/// Where an agent's commands find programs, if that is not where we find ours.
pub const AGENTS_PATH: &str = "LONGHAUL_AGENTS_PATH";

/// The environment of this process as an agent's commands may know it.
pub fn agents_environment() -> impl Iterator<Item = (OsString, OsString)> {
    let path = std::env::var_os(AGENTS_PATH);
    std::env::vars_os().filter(|(name, _)| name != AGENTS_PATH).map(move |(name, value)| match &path {
        Some(path) if name == "PATH" => (name, path.clone()),
        Some(_) | None => (name, value),
    })
}

/// What a command may know of our environment: where things are, never who we are to others (keys, tokens, sockets).
const PASSED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOPATH",
    "GOROOT",
    "GOCACHE",
    "GOMODCACHE",
    "JAVA_HOME",
    "NVM_DIR",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// What keeps programs from waiting for a person. An editor that returns at once makes git use the message it proposes,
/// or refuse for want of one.
const FIXED: &[(&str, &str)] = &[
    ("TERM", "dumb"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("MANPAGER", "cat"),
    ("SYSTEMD_PAGER", "cat"),
    ("EDITOR", "true"),
    ("VISUAL", "true"),
    ("GIT_EDITOR", "true"),
    ("GIT_SEQUENCE_EDITOR", "true"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_SSH_COMMAND", "ssh -o BatchMode=yes"),
    ("GCM_INTERACTIVE", "never"),
    ("PIP_NO_INPUT", "1"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// A shell in an environment, held by a sandbox. Cheap enough to clone.
#[derive(Clone, Debug)]
pub(crate) struct Shell {
    environment: Vec<(OsString, OsString)>,
    program: PathBuf,
    /// The `setsid` program: it takes the terminal away, which would otherwise be asked for passwords.
    setsid: Option<PathBuf>,
    pub(crate) sandbox: Sandbox,
}

impl Shell {
    /// A shell for the given environment, of which commands see the harmless part.
    pub(crate) fn new(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        sandbox: Sandbox,
    ) -> Shell {
        let passed = |name: &OsStr| PASSED.iter().any(|passed| name == *passed);
        let environment: Vec<_> = environment.into_iter().filter(|(name, _)| passed(name)).collect();
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let shell = find("bash", &path).or_else(|| find("sh", &path)).unwrap_or_else(|| "/bin/sh".into());
        Shell { environment, program: shell, setsid: find("setsid", &path), sandbox }
    }

    /// A command of the call that `context` is of, ready to be started. The error says why it may not be.
    pub(crate) fn wrapped(
        &self,
        context: &Context,
        text: &str,
        named: &[(&str, &Path)],
        more: More,
    ) -> Result<Wrapped, String> {
        let mut environment = self.environment.clone();
        environment.extend(FIXED.iter().map(|(name, value)| (name.into(), value.into())));
        environment.extend(named.iter().map(|(name, path)| (name.into(), path.into())));
        environment.push((RUN_MARKER.into(), context.run.as_str().into()));
        environment.push((CALL_MARKER.into(), context.key.as_str().into()));
        let words = [self.program.clone().into(), "-c".into(), "--".into(), text.into()];
        let workspace = context.workspace.root();
        let job = Job { workspace, words: &words, environment: &environment, more };
        Ok(self.sandbox.wrap(&job)?.in_session(self.setsid.as_deref()))
    }
}

/// The file that commands are configured in.
const SETTINGS: &str = "longhaul.yaml";

/// The files beside the settings that a configured command names, each with the directory it is in. Never the settings
/// themselves or what is hidden: those may hold keys. In settings that are `own`, the user's, a file elsewhere is meant too.
pub(crate) fn named_beside(base_dir: &Path, command: &str, own: bool) -> Vec<PathBuf> {
    let is_end = |letter: char| letter.is_whitespace() || "'\"`;&|()<>=$".contains(letter);
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let mut shown = Vec::new();
    for word in command.split(is_end).filter(|word| !word.is_empty()) {
        let below_home = word.strip_prefix("~/").map(|rest| home.join(rest));
        let path = below_home.unwrap_or_else(|| base_dir.join(word));
        let path: PathBuf = path.components().collect();
        let Ok(inside) = path.strip_prefix(base_dir) else {
            shown.extend(Some(path).filter(|path| own && path.is_file() && !is_system(path)));
            continue;
        };
        let is_plain = |part: Component<'_>| {
            part.as_os_str().to_str().is_some_and(|name| !name.starts_with('.') && name != SETTINGS)
        };
        if inside.as_os_str().is_empty() || !inside.components().all(is_plain) || !path.exists() {
            continue;
        }
        shown.extend(path.parent().filter(|parent| *parent != base_dir).map(Path::to_owned));
        shown.push(path);
    }
    shown
}

fn find(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|directory| directory.join(name)).find(|file| file.is_file())
}
