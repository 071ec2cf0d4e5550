//! One child process from its start to the end of everything it started.
//!
//! Owns reading its output without ever waiting for a pipe that an escaped grandchild holds open. Refuses to let it
//! read from a terminal, or to leave anything of it running.

use std::io::{self, PipeWriter, Write};
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::AsyncReadExt;
use tokio::process::{ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::cancel::Cancel;
use crate::capture::Capture;
use crate::limits;
use crate::process::{Killed, Reach, Tree};

/// How the child itself ended.
#[derive(Debug)]
pub(crate) enum End {
    Exited(ExitStatus),
    TimedOut,
    Cancelled,
    /// The kernel would not tell.
    Lost(io::Error),
}

/// What is known when nothing is left running.
pub(crate) struct Finished {
    pub(crate) end: End,
    pub(crate) capture: Capture,
    /// What went to standard error, if that was to be kept apart.
    pub(crate) errors: Capture,
    pub(crate) rest: Killed,
}

/// A started child. Its tree comes first, so that an abandoned child is killed before it is let go.
pub(crate) struct Child {
    tree: Tree,
    process: tokio::process::Child,
    /// Standard output and error in one pipe, so that they come in the order they were written; `None` once closed.
    output: Option<ChildStdout>,
    capture: Capture,
    /// Who hears what is printed as it comes.
    listener: Option<Listener>,
    /// Reads standard error where it is kept apart; ends with the last process that holds it.
    errors: Option<JoinHandle<Capture>>,
    buffer: Vec<u8>,
}

/// Is given what a child prints.
pub(crate) type Listener = Box<dyn Fn(&[u8]) + Send + Sync>;

/// What can wake us while the child runs.
enum Wake {
    Printed(io::Result<usize>),
    Exited(io::Result<ExitStatus>),
    TimedOut,
    Cancelled,
}

impl Child {
    /// Starts `command`, which must mark its environment with `key`. A command in a namespace dies with the thread that
    /// calls this, so it must be one that lives as long as the harness does: no thread of a blocking pool.
    pub(crate) fn start(
        command: std::process::Command,
        key: &str,
        reach: Reach,
        input: Option<Vec<u8>>,
    ) -> io::Result<Child> {
        let (output, writer) = pipe()?;
        let errors = writer.try_clone()?;
        let input = input.map_or(Ok(Stdio::null()), fed)?;
        Child::spawn(command, (key, reach), input, output, [writer, errors])
    }

    /// The same with standard error kept apart, for a program whose output is parsed.
    pub(crate) fn start_apart(
        command: std::process::Command,
        key: &str,
        reach: Reach,
        input: Option<Vec<u8>>,
    ) -> io::Result<Child> {
        let ((output, writer), (errors, error_writer)) = (pipe()?, pipe()?);
        let input = input.map_or(Ok(Stdio::null()), fed)?;
        let mut child = Child::spawn(command, (key, reach), input, output, [writer, error_writer])?;
        child.errors = Some(tokio::spawn(read_all(errors)));
        Ok(child)
    }

    fn spawn(
        command: std::process::Command,
        (key, reach): (&str, Reach),
        input: Stdio,
        output: ChildStdout,
        [stdout, stderr]: [PipeWriter; 2],
    ) -> io::Result<Child> {
        let mut command = Command::from(command);
        let process = command.stdin(input).stdout(stdout).stderr(stderr).kill_on_drop(true).spawn()?;
        // The command holds our ends of the pipe; with them open it would never be at its end.
        drop(command);
        let pid = process.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let leader = pid.ok_or_else(|| io::Error::other("the child has no process number"))?;
        let buffer = vec![0; limits::BUFFER_BYTES];
        Ok(Child {
            tree: Tree::new(leader, key, reach),
            process,
            output: Some(output),
            capture: Capture::default(),
            listener: None,
            errors: None,
            buffer,
        })
    }

    /// Has everything it prints from now on given to `listener`.
    pub(crate) fn heard_by(self, listener: Listener) -> Child {
        Child { listener: Some(listener), ..self }
    }

    /// The same, for a listener that keeps what is to be kept.
    pub(crate) fn kept_by(self, listener: Listener) -> Child {
        Child { capture: Capture::of_nothing(), ..self.heard_by(listener) }
    }

    /// Waits for the child, at most `time`, and ends everything it started.
    pub(crate) async fn finish(mut self, time: Duration, cancel: &Cancel) -> Finished {
        let end = match self.watch(time, cancel).await {
            // Whatever killed it meant all of us, and came to it first.
            End::Exited(status) if cancel.is_cancelled() && self.is_killed(status) => End::Cancelled,
            end @ (End::Exited(_) | End::TimedOut | End::Cancelled | End::Lost(_)) => end,
        };
        match &end {
            End::TimedOut | End::Cancelled => {
                self.tree.terminate();
                timeout(limits::TERMINATE_GRACE, self.drain_until_exit()).await.ok();
            }
            End::Exited(_) | End::Lost(_) => {
                timeout(limits::OUTPUT_GRACE, self.drain()).await.ok();
            }
        }
        self.end_tree(end).await
    }

    fn is_killed(&self, status: ExitStatus) -> bool {
        signal_of(status, self.tree.reach()).is_some()
    }

    async fn watch(&mut self, time: Duration, cancel: &Cancel) -> End {
        let mut deadline = pin!(sleep(time));
        let mut cancelled = pin!(cancel.cancelled());
        loop {
            let wake = tokio::select! {
                count = read(&mut self.output, &mut self.buffer) => Wake::Printed(count),
                status = self.process.wait() => Wake::Exited(status),
                () = &mut deadline => Wake::TimedOut,
                () = &mut cancelled => Wake::Cancelled,
            };
            match wake {
                Wake::Printed(count) => self.take(count),
                Wake::Exited(Ok(status)) => return End::Exited(status),
                Wake::Exited(Err(error)) => return End::Lost(error),
                Wake::TimedOut => return End::TimedOut,
                Wake::Cancelled => return End::Cancelled,
            }
        }
    }

    async fn end_tree(self, end: End) -> Finished {
        let Child { tree, mut process, mut output, mut capture, listener, errors, mut buffer } = self;
        // Without the thread pool there is no runtime left to report to either; the tree's drop has killed by then.
        let killed = tokio::task::spawn_blocking(move || tree.kill()).await;
        let rest = killed.unwrap_or(Killed { killed: 0, survivors: 0 });
        // Everything that held the pipe is dead, so this ends at once; a process that cannot be killed gets the grace.
        let drained = async {
            while output.is_some() {
                let count = read(&mut output, &mut buffer).await;
                keep(&mut output, &mut capture, listener.as_ref(), &buffer, count);
            }
        };
        timeout(limits::OUTPUT_GRACE, drained).await.ok();
        timeout(limits::OUTPUT_GRACE, process.wait()).await.ok();
        Finished { end, capture, errors: ended(errors).await, rest }
    }

    async fn drain_until_exit(&mut self) {
        loop {
            tokio::select! {
                count = read(&mut self.output, &mut self.buffer) => self.take(count),
                _ = self.process.wait() => return,
            }
        }
    }

    async fn drain(&mut self) {
        while self.output.is_some() {
            let count = read(&mut self.output, &mut self.buffer).await;
            self.take(count);
        }
    }

    fn take(&mut self, count: io::Result<usize>) {
        keep(&mut self.output, &mut self.capture, self.listener.as_ref(), &self.buffer, count);
    }
}

/// The signal a child died of. A namespace's first process dies of nothing; it passes on what its command died of, as shells do.
pub(crate) fn signal_of(status: ExitStatus, reach: Reach) -> Option<i32> {
    match (status.signal(), status.code()) {
        (Some(signal), _) => Some(signal),
        (None, Some(code)) if reach == Reach::Namespace && (129..=192).contains(&code) => Some(code - 128),
        (None, _) => None,
    }
}

/// A pipe that `bytes` come out of. Whoever does not read them holds up nobody: with the last reader gone, writing ends.
fn fed(bytes: Vec<u8>) -> io::Result<Stdio> {
    let (reader, mut writer) = io::pipe()?;
    std::thread::Builder::new().name("input".to_owned()).spawn(move || writer.write_all(&bytes).ok())?;
    Ok(reader.into())
}

fn pipe() -> io::Result<(ChildStdout, PipeWriter)> {
    let (reader, writer) = io::pipe()?;
    let output = std::process::ChildStdout::from(std::os::fd::OwnedFd::from(reader));
    Ok((ChildStdout::from_std(output)?, writer))
}

async fn read_all(output: ChildStdout) -> Capture {
    let (mut output, mut capture, mut buffer) =
        (Some(output), Capture::default(), vec![0; limits::BUFFER_BYTES]);
    while output.is_some() {
        let count = read(&mut output, &mut buffer).await;
        keep(&mut output, &mut capture, None, &buffer, count);
    }
    capture
}

/// Like the output itself: a process that cannot be killed gets the grace, then nothing of it is kept.
async fn ended(errors: Option<JoinHandle<Capture>>) -> Capture {
    let Some(mut errors) = errors else { return Capture::default() };
    match timeout(limits::OUTPUT_GRACE, &mut errors).await {
        Ok(capture) => capture.unwrap_or_default(),
        Err(_) => {
            errors.abort();
            Capture::default()
        }
    }
}

/// Reads once; waits for ever when the output is closed, so that other things can wake us.
async fn read(output: &mut Option<ChildStdout>, buffer: &mut [u8]) -> io::Result<usize> {
    match output {
        Some(output) => output.read(buffer).await,
        None => std::future::pending().await,
    }
}

/// An output that cannot be read is treated like one that is closed: the exit code still tells the result.
fn keep(
    output: &mut Option<ChildStdout>,
    capture: &mut Capture,
    listener: Option<&Listener>,
    buffer: &[u8],
    count: io::Result<usize>,
) {
    match count {
        Ok(0) | Err(_) => *output = None,
        Ok(count) => {
            capture.push(&buffer[..count]);
            listener.iter().for_each(|listener| listener(&buffer[..count]));
        }
    }
}
