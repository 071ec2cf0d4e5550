//! `bash`: runs a shell command in the workspace.
//!
//! Owns the words a command's end is reported with. Refuses to run in a workspace that is gone, and to leave anything running.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longhaul_core::ids::RunId;
use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Outcome, Output, Trace};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::arguments::{invalid, parse, schema};
use crate::capture::Capture;
use crate::child::{Child, End, Finished, Listener, signal_of};
use crate::jobs::Jobs;
use crate::limits;
use crate::named;
use crate::output;
use crate::process::{Killed, Reach};
use crate::sandbox::{Kept, Mode, More, Network, Sandbox, Swept};
use crate::shell::Shell;
use crate::tool::{BoxFuture, Context, Printed, Tool, ToolSpec, blocking, refused};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The command, run by bash in the workspace.
    command: String,
    /// Milliseconds after which the command is stopped, at most 600000.
    timeout_ms: Option<u64>,
    /// Leaves the command running, for servers and watchers; `bash_output` and `bash_kill` take the id that is answered.
    #[serde(default)]
    background: bool,
}

pub struct Bash {
    spec: ToolSpec,
    shell: Shell,
    jobs: Arc<Jobs>,
}

impl Bash {
    /// A shell for the given environment, of which commands see the harmless part, held by `sandbox`.
    pub fn new(environment: impl IntoIterator<Item = (OsString, OsString)>, sandbox: Sandbox) -> Bash {
        Bash::with_jobs(environment, sandbox, Arc::default())
    }

    pub(crate) fn with_jobs(
        environment: impl IntoIterator<Item = (OsString, OsString)>,
        sandbox: Sandbox,
        jobs: Arc<Jobs>,
    ) -> Bash {
        let shell = Shell::new(environment, sandbox);
        let spec = ToolSpec {
            name: "bash".to_owned(),
            description: description(&shell.sandbox),
            class: EffectClass::Once,
            schema: schema::<Args>(),
        };
        Bash { spec, shell, jobs }
    }

    async fn execute(&self, context: &Context, args: &Json) -> Result<Outcome, Outcome> {
        let args = self.arguments(args)?;
        let time = args.timeout_ms.map_or(context.timeout, Duration::from_millis);
        context.workspace.check_present().map_err(|error| refused(&error))?;
        if context.cancel.is_cancelled() {
            return Err(Outcome::failed(Failure::Cancelled, "not started because the run was paused"));
        }
        let place = Place::of(context);
        let more = More { lasting: args.background, ..More::default() };
        let wrapped = self.shell.wrapped(context, &place.script(&args), &[], more);
        let wrapped =
            wrapped.map_err(|reason| Outcome::failed(Failure::NotPermitted, format!("not run: {reason}")))?;
        if args.background {
            return self.jobs.start(context, &args.command, wrapped);
        }
        let reach = wrapped.reach();
        let child = Child::start(wrapped.command, &context.key, reach, None).map_err(not_started)?;
        let child = child.heard_by(line_by_line(Arc::clone(&context.printed)));
        let mut finished = child.finish(time, &context.cancel).await;
        let moved = place.moved(&mut finished.capture);
        let outcome = report(context, finished, &wrapped.kept, reach, time, &place.told(&moved)).await;
        Ok(settled(outcome, moved))
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

    /// Looks at the files that the command names. It is run all the same if they cannot be looked at.
    fn prepare<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
    ) -> BoxFuture<'a, Result<Vec<Trace>, Outcome>> {
        Box::pin(async move {
            let Args { command, .. } = parse(args, &self.spec.schema)?;
            let context = context.clone();
            blocking(move || named::files(&context, &command)).await
        })
    }

    fn run<'a>(
        &'a self,
        context: &'a Context,
        args: &'a Json,
        _traces: &'a [Trace],
    ) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.execute(context, args).await.unwrap_or_else(|outcome| outcome) })
    }

    fn rest<'a>(&'a self, run: &'a RunId) -> BoxFuture<'a, ()> {
        Box::pin(self.jobs.end_all(run))
    }
}

/// What a model should know before it asks for a command.
fn description(sandbox: &Sandbox) -> String {
    let mut text = "Runs a shell command in the workspace and shows what it printed. There is no input and no terminal. The \
                    next command begins in the directory where this one ends. Everything the command started is stopped \
                    when it ends; `background` keeps one running beside the others."
        .to_owned();
    if sandbox.mode() != Mode::Off {
        text.push_str(
            " Only the workspace is kept: /tmp and the home directory are empty at the start of each command and gone \
             after it, and other places can be read at most.",
        );
        match sandbox.network() {
            Network::None => text.push_str(" There is no network."),
            Network::Hosts(_) => {
                let network = sandbox.network();
                text.push_str(&format!(" Of the network, only these hosts are reached, by https through the proxy that the environment names: {network}."));
            }
            Network::Full => {}
        }
    }
    text
}

/// Too many processes, open files or too little memory may pass; anything else would fail the same way again.
pub(crate) fn not_started(error: io::Error) -> Outcome {
    let short = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    let busy = Errno::from_io_error(&error).is_some_and(|errno| short.contains(&errno));
    let failure = if busy { Failure::Busy } else { Failure::Tool };
    Outcome::failed(failure, format!("the command could not be started: {error}"))
}

/// Tells the last whole line of each piece that comes. One too long to be shown is not.
fn line_by_line(printed: Arc<dyn Printed>) -> Listener {
    let begun: Mutex<Vec<u8>> = Mutex::default();
    Box::new(move |bytes| {
        let mut begun = begun.lock().unwrap_or_else(PoisonError::into_inner);
        begun.extend_from_slice(bytes);
        if let Some(end) = memchr::memrchr(b'\n', &begun) {
            let start = memchr::memrchr(b'\n', &begun[..end]).map_or(0, |before| before + 1);
            if end - start <= limits::SHOWN_LINE_BYTES_MAX {
                printed.line(&String::from_utf8_lossy(&begun[start..end]));
            }
            begun.drain(..=end);
        }
        // Enough to see at its end that the line was too long.
        begun.truncate(limits::SHOWN_LINE_BYTES_MAX + 1);
    })
}

/// Where in the workspace a command begins and ends.
struct Place {
    root: PathBuf,
    /// From the root; empty at the root.
    cwd: String,
    /// The place of the last command, if it is gone since.
    gone: Option<String>,
    mark: String,
}

/// Where a command left the shell.
#[derive(PartialEq, Eq)]
enum Moved {
    No,
    To(String),
    Outside,
}

impl Place {
    fn of(context: &Context) -> Place {
        let root = context.workspace.root().to_owned();
        let mark = format!("[{} ended in ]", context.key);
        match context.cwd.clone().unwrap_or_default() {
            cwd if root.join(&cwd).is_dir() => Place { root, cwd, gone: None, mark },
            gone => Place { root, cwd: String::new(), gone: Some(gone), mark },
        }
    }

    /// The command, begun where the last one ended; in its last breath it says where it ended itself.
    fn script(&self, args: &Args) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', r"'\''"));
        let start = format!("cd -- {} || exit 1", quoted(&self.root.join(&self.cwd).to_string_lossy()));
        if args.background {
            return format!("{start}\n{}", args.command);
        }
        // In the trap's own quotes stand only a run's and a call's name.
        format!("{start}\ntrap 'printf \"%s%s\" \"{}\" \"$PWD\"' EXIT\n{}", self.mark, args.command)
    }

    fn moved(&self, capture: &mut Capture) -> Moved {
        let Some(said) = capture.take_mark(self.mark.as_bytes()) else { return Moved::No };
        let Ok(said) = String::from_utf8(said) else { return Moved::Outside };
        match Path::new(&said).strip_prefix(&self.root).ok().and_then(Path::to_str) {
            Some(cwd) if cwd == self.cwd && self.gone.is_none() => Moved::No,
            Some(cwd) => Moved::To(cwd.to_owned()),
            None => Moved::Outside,
        }
    }

    /// What the model should know about it.
    fn told(&self, moved: &Moved) -> String {
        let mut told = String::new();
        if let Some(gone) = &self.gone {
            told.push_str(&format!("\n[{gone} is gone; this ran in the workspace's root]"));
        }
        match moved {
            Moved::No => {}
            Moved::To(cwd) if cwd.is_empty() => told.push_str("\n[now in the workspace's root]"),
            Moved::To(cwd) => told.push_str(&format!("\n[now in {cwd}]")),
            Moved::Outside => told
                .push_str("\n[that ended outside of the workspace; the next command does not begin there]"),
        }
        told
    }
}

/// The outcome, with the place the next command begins at.
fn settled(outcome: Outcome, moved: Moved) -> Outcome {
    let Moved::To(cwd) = moved else { return outcome };
    match outcome {
        Outcome::Done { output } => Outcome::Done { output: Output { cwd: Some(cwd), ..output } },
        Outcome::Failed { failure, message, output } => {
            Outcome::Failed { failure, message, output: Output { cwd: Some(cwd), ..output } }
        }
        Outcome::Unknown { .. } => outcome,
    }
}

async fn report(
    context: &Context,
    finished: Finished,
    kept: &Kept,
    reach: Reach,
    time: Duration,
    place: &str,
) -> Outcome {
    let Finished { end, capture, errors: _, rest } = finished;
    let note = rest_note(&end, rest) + &swept_note(kept) + place;
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

pub(crate) fn ended(status: ExitStatus, reach: Reach) -> String {
    match (status.code(), signal_of(status, reach)) {
        (Some(code), Some(signal)) => format!("exit code {code}, as after signal {signal}"),
        (Some(code), None) => format!("exit code {code}"),
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

pub(crate) fn swept_note(kept: &Kept) -> String {
    let note = |Swept { path, is_away }: Swept| {
        let name: String = path.to_string_lossy().chars().take(80).collect();
        let what = if is_away { "and taken away again" } else { "and could not be taken away" };
        format!("\n[not permitted {what}: {name}]")
    };
    kept.sweep().into_iter().map(note).collect()
}
