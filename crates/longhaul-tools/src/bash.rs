//! `bash`: runs a shell command in the workspace.
//!
//! Owns the command's surroundings (no input, no terminal, an environment by allow-list, nothing that prompts or pages)
//! and the words its end is reported with. Refuses to run in a workspace that is gone, and to leave anything running.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Output, Trace};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::process::Command;

use crate::arguments::{invalid, parse, schema};
use crate::child::{Child, End, Finished};
use crate::limits;
use crate::output;
use crate::process::{CALL_MARKER, Killed, RUN_MARKER};
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, refused};

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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The command, run by bash in the workspace.
    command: String,
    /// Milliseconds after which the command is stopped, at most 600000.
    timeout_ms: Option<u64>,
}

pub struct Bash {
    spec: ToolSpec,
    environment: Vec<(OsString, OsString)>,
    shell: PathBuf,
    /// The `setsid` program: it takes the terminal away, which would otherwise be asked for passwords.
    setsid: Option<PathBuf>,
}

impl Bash {
    /// A shell for the given environment, of which commands see the harmless part.
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>) -> Bash {
        let passed = |name: &OsStr| PASSED.iter().any(|passed| name == *passed);
        let environment: Vec<_> = environment.into_iter().filter(|(name, _)| passed(name)).collect();
        let path = environment.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone());
        let path = path.unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
        let spec = ToolSpec {
            name: "bash".to_owned(),
            description: "Runs a shell command in the workspace and shows what it printed. There is no input and no \
                          terminal. Everything the command started is stopped when it ends: no servers in the background."
                .to_owned(),
            class: EffectClass::Once,
            schema: schema::<Args>(),
        };
        let shell =
            program("bash", &path).or_else(|| program("sh", &path)).unwrap_or_else(|| "/bin/sh".into());
        Bash { spec, environment, shell, setsid: program("setsid", &path) }
    }

    async fn execute(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args = self.arguments(args)?;
        let time = args.timeout_ms.map_or(context.timeout, Duration::from_millis);
        context.workspace.check_present().map_err(|error| refused(&error))?;
        if context.cancel.is_cancelled() {
            return Err(Outcome::failed(Failure::Cancelled, "not started because the run was paused"));
        }
        let child = Child::start(self.command(context, &args.command), &context.key).map_err(not_started)?;
        Ok(report(context, child.finish(time, &context.cancel).await, time).await)
    }

    fn arguments(&self, args: &Json) -> Result<Args, Outcome> {
        let args: Args = parse(args, &self.spec.schema)?;
        if args.command.trim().is_empty() {
            return Err(invalid("`command` is empty; give a shell command"));
        }
        if args.command.contains('\0') {
            return Err(invalid("`command` contains a NUL character"));
        }
        if args.command.len() > limits::COMMAND_BYTES_MAX {
            let (bytes, max) = (args.command.len(), limits::COMMAND_BYTES_MAX);
            return Err(invalid(format!(
                "`command` has {bytes} bytes, at most {max}; write a script with write and run that"
            )));
        }
        let max = limits::COMMAND_TIME_MAX.as_millis() as u64;
        if args.timeout_ms.is_some_and(|time| time == 0 || time > max) {
            return Err(invalid(format!("`timeout_ms` must be from 1 to {max}")));
        }
        Ok(args)
    }

    fn command(&self, context: &Context, text: &str) -> Command {
        let mut command = match &self.setsid {
            // Not a group leader yet, `setsid` becomes the shell without a fork: its number stays the one we know.
            Some(setsid) => {
                let mut command = Command::new(setsid);
                command.arg(&self.shell);
                command
            }
            None => {
                let mut command = Command::new(&self.shell);
                command.process_group(0);
                command
            }
        };
        command
            .args(["-c", "--", text])
            .current_dir(context.workspace.root())
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .envs(FIXED.iter().copied())
            .env(RUN_MARKER, context.run.as_str())
            .env(CALL_MARKER, &context.key);
        command
    }
}

impl Tool for Bash {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.execute(context, args).await.unwrap_or_else(|outcome| outcome) })
    }
}

fn program(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|directory| directory.join(name)).find(|file| file.is_file())
}

/// Too many processes, open files or too little memory may pass; anything else would fail the same way again.
fn not_started(error: io::Error) -> Outcome {
    let short = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    let busy = Errno::from_io_error(&error).is_some_and(|errno| short.contains(&errno));
    let failure = if busy { Failure::Busy } else { Failure::Tool };
    Outcome::failed(failure, format!("the command could not be started: {error}"))
}

async fn report(context: &Context, finished: Finished, time: Duration) -> Outcome {
    let Finished { end, capture, errors: _, rest } = finished;
    let note = rest_note(&end, rest);
    let output = output::bounded(context, capture, &note).await;
    let (failure, message) = match end {
        End::Exited(status) if status.success() => return done(output),
        End::Exited(status) => (Failure::Tool, ended(status)),
        End::TimedOut => (Failure::Timeout, format!("timed out after {} ms", time.as_millis())),
        End::Cancelled => {
            (Failure::Cancelled, "stopped because the run was paused; it may have partly run".to_owned())
        }
        End::Lost(error) => (Failure::Tool, format!("the command's end is not known: {error}")),
    };
    Outcome::Failed { failure, message, output }
}

fn done(output: Output) -> Outcome {
    let text = if output.text.is_empty() { "(no output)".into() } else { output.text };
    Outcome::Done { output: Output { text, ..output } }
}

fn ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => status.to_string(),
    }
}

/// A command that was stopped is expected to leave processes; one that ended by itself is not.
fn rest_note(end: &End, rest: Killed) -> String {
    let mut note = String::new();
    let ended_itself = match end {
        End::Exited(_) | End::Lost(_) => true,
        End::TimedOut | End::Cancelled => false,
    };
    if ended_itself && rest.killed > 0 {
        note.push_str(&format!("\n[processes left running by the command and stopped: {}]", rest.killed));
    }
    if rest.survivors > 0 {
        note.push_str(&format!("\n[processes that could not be stopped: {}]", rest.survivors));
    }
    note
}
