//! `bash`: runs a shell command in the workspace.
//!
//! Owns the words a command's end is reported with. Refuses to run in a workspace that is gone, and to leave anything running.

use std::ffi::OsString;
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

use crate::arguments::{invalid, parse, schema};
use crate::child::{Child, End, Finished};
use crate::limits;
use crate::output;
use crate::process::{Killed, Reach};
use crate::sandbox::{Kept, Mode, More, Network, Sandbox};
use crate::shell::Shell;
use crate::tool::{BoxFuture, Context, Tool, ToolSpec, refused};

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
    shell: Shell,
}

impl Bash {
    /// A shell for the given environment, of which commands see the harmless part, held by `sandbox`.
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>, sandbox: Sandbox) -> Bash {
        let shell = Shell::new(environment, sandbox);
        let spec = ToolSpec {
            name: "bash".to_owned(),
            description: description(&shell.sandbox),
            class: EffectClass::Once,
            schema: schema::<Args>(),
        };
        Bash { spec, shell }
    }

    async fn execute(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args = self.arguments(args)?;
        let time = args.timeout_ms.map_or(context.timeout, Duration::from_millis);
        context.workspace.check_present().map_err(|error| refused(&error))?;
        if context.cancel.is_cancelled() {
            return Err(Outcome::failed(Failure::Cancelled, "not started because the run was paused"));
        }
        let wrapped = self.shell.wrapped(context, &args.command, &[], More::default());
        let wrapped =
            wrapped.map_err(|reason| Outcome::failed(Failure::NotPermitted, format!("not run: {reason}")))?;
        let reach = wrapped.reach();
        let child = Child::start(wrapped.command, &context.key, reach, None).map_err(not_started)?;
        let finished = child.finish(time, &context.cancel).await;
        Ok(report(context, finished, &wrapped.kept, reach, time).await)
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

/// What a model should know before it asks for a command.
fn description(sandbox: &Sandbox) -> String {
    let mut text = "Runs a shell command in the workspace and shows what it printed. There is no input and no terminal. \
                    Everything the command started is stopped when it ends: no servers in the background."
        .to_owned();
    if sandbox.mode() != Mode::Off {
        text.push_str(
            " Only the workspace is kept: /tmp and the home directory are empty at the start of each command and gone \
             after it, and other places can be read at most.",
        );
        if sandbox.network() == Network::None {
            text.push_str(" There is no network.");
        }
    }
    text
}

/// Too many processes, open files or too little memory may pass; anything else would fail the same way again.
fn not_started(error: io::Error) -> Outcome {
    let short = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    let busy = Errno::from_io_error(&error).is_some_and(|errno| short.contains(&errno));
    let failure = if busy { Failure::Busy } else { Failure::Tool };
    Outcome::failed(failure, format!("the command could not be started: {error}"))
}

async fn report(context: &Context, finished: Finished, kept: &Kept, reach: Reach, time: Duration) -> Outcome {
    let Finished { end, capture, rest } = finished;
    let note = rest_note(&end, rest) + &swept_note(kept);
    let output = output::bounded(context, capture, &note).await;
    let (failure, message) = match end {
        End::Exited(status) if status.success() => return done(output),
        End::Exited(status) => (Failure::Tool, ended(status, reach)),
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

fn ended(status: ExitStatus, reach: Reach) -> String {
    match (status.code(), status.signal()) {
        // A namespace's first process dies of nothing; it passes on what its command died of, as shells do.
        (Some(code), _) if reach == Reach::Namespace && (129..=192).contains(&code) => {
            format!("exit code {code}, as after signal {}", code - 128)
        }
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

fn swept_note(kept: &Kept) -> String {
    let note = |path: PathBuf| {
        let name: String = path.to_string_lossy().chars().take(80).collect();
        format!("\n[not permitted and taken away again: {name}]")
    };
    kept.sweep().into_iter().map(note).collect()
}
