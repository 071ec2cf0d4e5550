//! Who answers an approval first. Many may try at the same moment, from many processes: the first whose answer is on disk
//! wins, and all others are told what it is and whose.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use longhaul_core::command::Command;
use longhaul_core::ids::RunId;
use longhaul_core::time::Timestamp;
use longhaul_core::view::{GateView, gate_id};
use longhaul_store::catalog::Filter;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::harness::Harness;

/// An answer as it was given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Given {
    pub by: String,
    pub at: Timestamp,
    pub command: Command,
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It is the one that counts.
    First,
    /// Somebody was faster.
    Late(Box<Given>),
}

/// What runs have asked and not heard the answer of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// What has no answer on record, of the newest run first.
    pub open: Vec<GateView>,
    /// The runs for which all answers are on record.
    answered: Vec<RunId>,
}

impl Asked {
    /// Do a run and those below it only have to be taken up to hear what was answered?
    pub fn is_answered(&self, id: &RunId) -> bool {
        let below = format!("{id}.");
        let is_ours = |run: &RunId| run == id || run.as_str().starts_with(&below);
        self.answered.iter().any(is_ours) && !self.open.iter().any(|gate| is_ours(&gate.run_id))
    }
}

impl Harness {
    /// Puts an answer on record as the one that counts, unless there is one. A process that dies after this has answered: whoever
    /// comes next leaves the answer with the run on its behalf.
    pub fn claim(&self, id: &RunId, gate: u32, by: &str, command: &Command) -> Result<Claim, Error> {
        let Some(home) = self.home() else { return Ok(Claim::First) };
        let dir = home.dir().join("answers");
        let given = Given { by: by.to_owned(), at: self.clock.now(), command: command.clone() };
        let failed = |source: io::Error| Error::Answer { path: dir.clone(), source };
        let name = gate_id(id, gate);
        let earlier = match put(&dir, &name, &given) {
            Ok(Some(earlier)) => earlier,
            Ok(None) => return Ok(Claim::First),
            // Nobody can be told any more who was first; the run takes the first answer that is left with it, and no other.
            Err(error) if is_full(&error) => return Ok(Claim::First),
            Err(error) => return Err(failed(error)),
        };
        // An answer that the run heard and could not use is none.
        let run = self.look(id)?;
        let is_open = run.gate(gate).is_some_and(|gate| gate.answer.is_none());
        if is_open && run.commands.contains(&earlier.command.id) {
            fs::remove_file(dir.join(&name)).map_err(failed)?;
            return self.claim(id, gate, by, command);
        }
        if is_open {
            self.post(id, &earlier.command)?;
        }
        Ok(Claim::Late(Box::new(earlier)))
    }

    /// The answer to an approval that counts, and whose it is, if one was given.
    pub fn given(&self, id: &RunId, gate: u32) -> Result<Option<Given>, Error> {
        let Some(home) = self.home() else { return Ok(None) };
        let path = home.dir().join("answers").join(gate_id(id, gate));
        read(&path).map_err(|source| Error::Answer { path, source })
    }

    /// Everything that waits for a person and has no answer on record, of the newest run first.
    pub fn waiting(&self) -> Result<Vec<GateView>, Error> {
        Ok(self.asked()?.open)
    }

    /// What runs have asked and not heard the answer of.
    pub fn asked(&self) -> Result<Asked, Error> {
        let mut asked = Asked::default();
        let claimed = self.claimed();
        for row in self.list(&Filter { waiting: true, ..Filter::default() })?.0 {
            let mut open: Vec<GateView> =
                serde_json::from_str(row.gates.as_deref().unwrap_or("[]")).unwrap_or_default();
            // Who answers claims first: an inbox is only looked into where somebody has.
            if open.iter().any(|gate| claimed.contains(&gate.id)) {
                let answered = self.answers_on_record(&row.id);
                open.retain(|gate| !answered.contains(&gate.id));
                asked.answered.extend(open.is_empty().then_some(row.id));
            }
            asked.open.extend(open);
        }
        Ok(asked)
    }

    /// The approvals that somebody has answered, whether the run has heard of it or not.
    fn claimed(&self) -> HashSet<String> {
        let entries = self.home().and_then(|home| fs::read_dir(home.dir().join("answers")).ok());
        entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect()
    }

    /// Has nobody answered that approval yet?
    pub fn still_waits(&self, id: &RunId, gate: u32) -> Result<bool, Error> {
        let is_open = self.look(id)?.gate(gate).is_some_and(|gate| gate.answer.is_none());
        Ok(is_open && !self.answers_on_record(id).contains(&gate_id(id, gate)))
    }

    /// The approvals that have an answer in the run's inbox.
    fn answers_on_record(&self, id: &RunId) -> Vec<String> {
        let posted = self.store_of(id).and_then(|store| Ok(store.pending(id)?)).unwrap_or_default();
        let wishes = posted.iter().filter_map(|posted| serde_json::from_slice::<Command>(&posted.body).ok());
        wishes.filter_map(|command| Some(gate_id(id, command.wish.gate()?))).collect()
    }

    /// Forgets the answers of a run that is forgotten.
    pub(crate) fn forget_answers(&self, id: &RunId) {
        let Some(home) = self.home() else { return };
        let Ok(entries) = fs::read_dir(home.dir().join("answers")) else { return };
        let prefix = format!("{id}.g");
        for entry in entries.flatten() {
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                drop(fs::remove_file(entry.path()));
            }
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Links a whole file to its name, which only the first can; the others get what is there.
fn put(dir: &Path, name: &str, given: &Given) -> io::Result<Option<Given>> {
    fs::create_dir_all(dir)?;
    let path = dir.join(name);
    if let Some(earlier) = read(&path)? {
        return Ok(Some(earlier));
    }
    let staged = stage(dir, given)?;
    let linked = fs::hard_link(&staged, &path);
    drop(fs::remove_file(&staged));
    match linked {
        Ok(()) => {
            fs::File::open(dir)?.sync_all()?;
            Ok(None)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match read(&path)? {
            Some(earlier) => Ok(Some(earlier)),
            None => Err(error),
        },
        Err(error) => Err(error),
    }
}

fn stage(dir: &Path, given: &Given) -> io::Result<PathBuf> {
    let path = dir.join(format!(".{}.{}", given.command.id, std::process::id()));
    let written = fs::File::create(&path).and_then(|mut file| {
        file.write_all(&serde_json::to_vec(given)?)?;
        file.sync_all()
    });
    if written.is_err() {
        drop(fs::remove_file(&path));
    }
    written.map(|()| path)
}

fn read(path: &Path) -> io::Result<Option<Given>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use longhaul_core::command::Wish;
    use longhaul_core::ids::CommandId;

    use super::*;

    /// F51: of 200 answers at once, one is on record, and all others are shown that very one.
    #[test]
    fn the_first_wins() {
        let dir = tempfile::tempdir().unwrap();
        let answer = |number: u32| {
            let wish = Wish::Approve { gate: 1, digest: Some(number.to_string()) };
            let command = Command { id: CommandId::from_bits(u128::from(number)), wish };
            Given { by: number.to_string(), at: Timestamp::from_millis(1), command }
        };
        let path = dir.path();
        let late: Vec<Option<Given>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..200)
                .map(|number| scope.spawn(move || put(path, "run.g1", &answer(number)).unwrap()))
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(late.iter().filter(|late| late.is_none()).count(), 1);
        let there = read(&path.join("run.g1")).unwrap();
        assert!(late.iter().flatten().all(|late| Some(late) == there.as_ref()));
        assert_eq!(fs::read_dir(path).unwrap().count(), 1, "nothing is left behind");
    }
}
