//! What an agent needs from a person, as a file: `needs/NNNN.md` in the state directory, for people who look into directories
//! and for programs that watch them. Gone when it is answered. Derived, like the event log: what counts is in the run.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use longhaul_core::event::{Ask, AskKind, Event};
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;
use longhaul_core::view::gate_id;

use crate::limits::NEEDS_MAX;
use crate::watch::Watcher;

pub struct NeedsKeeper {
    dir: PathBuf,
}

impl NeedsKeeper {
    pub fn new(state_dir: &Path) -> NeedsKeeper {
        NeedsKeeper { dir: state_dir.join("needs") }
    }

    /// Writes the need under the next number that is free. Nobody is kept from working by a file that cannot be written.
    fn keep(&self, run: &Run, gate: u32, at: Timestamp, ask: &Ask) -> std::io::Result<()> {
        fs::create_dir_all(&self.dir)?;
        let id = gate_id(&run.spec.id, gate);
        let text = format!(
            "# I need this to continue\n\n{}\n\n- run: {}\n- agent: {}\n- since: {at}\n\n{}WHAT I SHOULD KNOW\"`, then `longhaul resume {}`\n",
            ask.text,
            run.spec.id,
            run.spec.agent,
            how_to_resolve(&id),
            run.spec.id
        );
        for number in 1..=NEEDS_MAX {
            let path = self.dir.join(format!("{number:04}.md"));
            match fs::OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(mut file) => return file.write_all(text.as_bytes()),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Removes the need that was answered. Its last line tells it: what stands above is the agent's to write.
    fn clear(&self, run: &Run, gate: u32) -> std::io::Result<()> {
        let asked = how_to_resolve(&gate_id(&run.spec.id, gate));
        for entry in fs::read_dir(&self.dir)?.flatten() {
            let text = fs::read_to_string(entry.path()).unwrap_or_default();
            if text.lines().next_back().is_some_and(|line| line.starts_with(&asked)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// How the last line of a need begins.
fn how_to_resolve(id: &str) -> String {
    format!("When it is there: `longhaul needs resolve {id} \"")
}

impl Watcher for NeedsKeeper {
    fn event(&mut self, run: &Run, _seq: u64, at: Timestamp, event: &Event) {
        if let Event::WaitingForHuman { gate, ask: Some(ask), .. } = event
            && ask.kind == AskKind::Need
        {
            drop(self.keep(run, *gate, at, ask));
        }
        if let Event::GateAnswered { gate, .. } = event {
            drop(self.clear(run, *gate));
        }
    }

    fn batch_ended(&mut self, _run: &Run) {}
}
