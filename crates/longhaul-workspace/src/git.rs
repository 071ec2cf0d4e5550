//! Git as a child process.
//!
//! Owns how git is started: no prompts, no hooks, no environment of a surrounding git command, no keys, a bounded time and
//! a bounded output. Refuses to know what the commands are for.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::limits;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot run git")]
    Spawn(#[source] std::io::Error),
    #[error("git {action} failed: {message}")]
    Failed { action: String, message: String },
    #[error("git {action} was stopped after {} s", limits::GIT_TIME_MAX.as_secs())]
    TimedOut { action: String },
}

/// One git command in `directory`.
pub(crate) struct Git<'a> {
    directory: &'a Path,
    stdin: Stdio,
}

impl<'a> Git<'a> {
    pub(crate) fn at(directory: &'a Path) -> Git<'a> {
        Git { directory, stdin: Stdio::null() }
    }

    /// Gives the child something to hold open for as long as it lives; git reads nothing from it.
    pub(crate) fn holding(self, stdin: Stdio) -> Git<'a> {
        Git { stdin, ..self }
    }

    /// Runs git and answers what it printed, without the last line break.
    pub(crate) fn run<S: AsRef<OsStr>>(self, arguments: &[S]) -> Result<String, Error> {
        let action = arguments.first().map(|word| word.as_ref().to_string_lossy().into_owned());
        let action = action.unwrap_or_default();
        let mut child = self.command(arguments).spawn().map_err(Error::Spawn)?;
        let stdout = child.stdout.take().map(keep_start);
        let stderr = child.stderr.take().map(keep_start);
        let status = wait(&mut child, &action)?;
        let text = |reader: Option<thread::JoinHandle<String>>| {
            reader.and_then(|reader| reader.join().ok()).unwrap_or_default()
        };
        let (printed, complaint) = (text(stdout), text(stderr));
        if status.success() {
            return Ok(printed.trim_end_matches('\n').to_owned());
        }
        let complaint = complaint.trim();
        let message = if complaint.is_empty() { status.to_string() } else { complaint.to_owned() };
        Err(Error::Failed { action, message })
    }

    fn command<S: AsRef<OsStr>>(self, arguments: &[S]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os() {
            if is_kept_back(&name.to_string_lossy()) {
                command.env_remove(&name);
            }
        }
        command
            .arg("-C")
            .arg(self.directory)
            .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false"])
            .args(arguments)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
            .env("LC_ALL", "C")
            .stdin(self.stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }
}

/// Started from a git hook, we would inherit GIT_DIR and work on the wrong repository; the markers of a surrounding tool call
/// would get this child killed as that call's leftover; and filters and helpers of a repository need no key of ours.
fn is_kept_back(name: &str) -> bool {
    let secret =
        |word: &str| matches!(word, "KEY" | "KEYS" | "TOKEN" | "SECRET" | "PASSWORD" | "CREDENTIALS");
    name.starts_with("GIT_")
        || name.starts_with("LONGHAUL_")
        || name.to_ascii_uppercase().split('_').any(secret)
}

fn wait(child: &mut Child, action: &str) -> Result<ExitStatus, Error> {
    let start = Instant::now();
    while start.elapsed() < limits::GIT_TIME_MAX {
        if let Some(status) = child.try_wait().map_err(Error::Spawn)? {
            return Ok(status);
        }
        thread::sleep(limits::POLL_INTERVAL);
    }
    // The child was not waited for, so its number cannot belong to anybody else yet.
    kill_process_group(Pid::from_child(child), Signal::KILL).ok();
    child.wait().map_err(Error::Spawn)?;
    Err(Error::TimedOut { action: action.to_owned() })
}

/// Reads to the end so that git never blocks on a full pipe, but keeps only the start.
fn keep_start(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut kept = Vec::new();
        pipe.by_ref().take(limits::GIT_OUTPUT_BYTES_MAX).read_to_end(&mut kept).ok();
        std::io::copy(&mut pipe, &mut std::io::sink()).ok();
        String::from_utf8_lossy(&kept).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::is_kept_back;

    #[test]
    fn git_gets_what_it_needs_and_no_key() {
        for name in [
            "GIT_DIR",
            "LONGHAUL_RUN",
            "ANTHROPIC_API_KEY",
            "my_token",
            "SECRET_HEADER",
            "AWS_SECRET_ACCESS_KEY",
        ] {
            assert!(is_kept_back(name), "{name}");
        }
        for name in ["PATH", "HOME", "SSH_AUTH_SOCK", "KEYBOARD", "XDG_CONFIG_HOME", "https_proxy"] {
            assert!(!is_kept_back(name), "{name}");
        }
    }
}
