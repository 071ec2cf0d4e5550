//! What an agent needs from a person, as a file: `needs/NNNN.md` in the state directory, for people who look into directories
//! and for programs that watch them. Derived, like the event log: what counts is in the run.

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
            "# I need this to continue\n\n{}\n\n- run: {}\n- agent: {}\n- since: {at}\n\nWhen it is there: `longhaul needs resolve {id} \"WHAT I SHOULD \
             KNOW\"`, then `longhaul resume {}`\n",
            ask.text, run.spec.id, run.spec.agent, run.spec.id
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
}

impl Watcher for NeedsKeeper {
    fn event(&mut self, run: &Run, _seq: u64, at: Timestamp, event: &Event) {
        if let Event::WaitingForHuman { gate, ask: Some(ask), .. } = event
            && ask.kind == AskKind::Need
        {
            drop(self.keep(run, *gate, at, ask));
        }
    }

    fn batch_ended(&mut self, _run: &Run) {}
}
