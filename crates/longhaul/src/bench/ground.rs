//! Where a benchmark works: a directory of its own on the disk that is tested, gone when it is over.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::gate::TOOL;
use crate::failure::Failure;

/// Bytes that a model says and a tool answers in each step.
pub const TEXT_BYTES: usize = 1024;

/// Scripts by what they call; the first for runs in this process, the others for runs of other processes.
pub const NOOP_SCRIPT: &str = "noop.yaml";
pub const READ_SCRIPT: &str = "read.yaml";
pub const SLOW_SCRIPT: &str = "slow.yaml";
pub const SHORT_SCRIPT: &str = "short.yaml";

/// An agent that nobody watches.
pub const PLAIN_AGENT: &str = "plain";

pub struct Ground {
    dir: PathBuf,
}

impl Ground {
    /// Makes a directory in `place`, with everything that runs and processes of the benchmark need.
    pub fn new(place: &Path) -> Result<Ground, Failure> {
        let dir = place.join(format!(".longhaul-bench-{}", std::process::id()));
        let failed = |error: io::Error| {
            Failure::usage(format!("cannot work in {}: {error}", place.display()))
                .hint("choose another place with `--dir DIR`")
        };
        fs::create_dir(&dir).map_err(failed)?;
        let ground = Ground { dir };
        ground.furnish().map_err(failed)?;
        Ok(ground)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A new directory with that name.
    pub fn place(&self, name: &str) -> Result<PathBuf, Failure> {
        let place = self.dir.join(name);
        fs::create_dir(&place)?;
        Ok(place)
    }

    /// This very program in a process of its own, untouched by the caller's settings.
    pub fn longhaul(&self, state_dir: &Path) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .env_clear()
            .env("HOME", &self.dir)
            // What a command costs more that is held is measured by itself.
            .env("LONGHAUL_SANDBOX", "off")
            // Settings and state are ours: we wrote them ourselves.
            .env("LONGHAUL_TRUST", "1")
            .current_dir(&self.dir)
            .arg("--state-dir")
            .arg(state_dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(command)
    }

    fn furnish(&self) -> io::Result<()> {
        // Looks like a project, so that no process of ours takes its settings from one further up.
        fs::create_dir(self.dir.join(".git"))?;
        let text = text();
        fs::write(self.dir.join("text"), &text)?;
        fs::create_dir(self.dir.join("agents"))?;
        // Every step is the same on purpose, which would be taken for going round in circles.
        fs::write(
            self.dir.join(format!("agents/{PLAIN_AGENT}.md")),
            "---\nharness: \"\"\n---\nYou are measured.\n",
        )?;
        let noop = format!("tool: {TOOL}, args: {{}}");
        let read = "tool: read, args: { path: text }";
        for (name, delay_ms, calls) in [
            (NOOP_SCRIPT, 0, format!("{{ {noop} }}")),
            (READ_SCRIPT, 0, format!("{{ {read} }}")),
            (SLOW_SCRIPT, 600_000, format!("{{ {read} }}")),
        ] {
            fs::write(self.dir.join(name), script(&text, delay_ms, &calls))?;
        }
        fs::write(self.dir.join(SHORT_SCRIPT), "conversations:\n  - turns:\n      - text: done\n")
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // What cannot be removed is the user's to remove; it has our name.
        drop(fs::remove_dir_all(&self.dir));
    }
}

/// What is said and answered: plain text of one line.
pub fn text() -> String {
    "all work and no play makes a dull run; ".chars().cycle().take(TEXT_BYTES).collect()
}

fn script(text: &str, delay_ms: u64, calls: &str) -> String {
    format!(
        "conversations:\n  - turns:\n      - text: \"{text}\"\n        delay_ms: {delay_ms}\n        calls: [ {calls} ]\n"
    )
}
