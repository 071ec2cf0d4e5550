//! What a run had used before it was taken back to an earlier point: money that is gone stays counted.
//!
//! Noted beside the journal before it is cut or anybody below it is put away, and made an event of it by whoever opens it next.
//! So a crash in between loses nothing, and a cut that never came changes nothing. Both times those below are counted by their
//! own journals: whoever drove them may have died before they said it, and who goes on says it then.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::SystemTime;

use longhaul_core::child::{Child, ChildLedger};
use longhaul_core::conversation::Usage;
use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::run::Run;
use longhaul_store::Home;

use crate::error::Error;
use crate::fold::Fold;
use crate::harness::Harness;
use crate::ledger::Ledger;

impl Harness {
    /// What a run and all below it have used, by their own journals. Who was sent and is not there, or works for somebody else, has
    /// used nothing yet.
    pub(crate) fn spent_by(&self, run: &Run) -> ChildLedger {
        ChildLedger::by(run, |child| self.spent_below(child, &run.spec.id).unwrap_or_default())
    }

    /// The run with what those below it have used by now, and with what it had used before it was taken back, for somebody who only
    /// looks: both is on its own record when it goes on.
    #[must_use]
    pub fn counted(&self, mut run: Run) -> Run {
        let parent = run.spec.id.clone();
        run.children.count_live(|child| self.spent_below(child, &parent).unwrap_or(child.ledger));
        if let Some(noted) = self.home().and_then(|home| Noted::of(home, &parent)) {
            run.count_spent_before(&noted.usage.without(&self.spent_by(&run).usage));
        }
        run
    }

    /// Nothing if that child is not there, or works for somebody else.
    fn spent_below(&self, child: &Child, parent: &RunId) -> Option<ChildLedger> {
        match self.find_child(&child.errand.id, Some(parent)) {
            Ok(found) => found.map(|below| self.spent_by(&below)),
            Err(_) => Some(child.ledger),
        }
    }

    /// Notes what a run has used so far, as far as its journal can be read. A note that is there is of a longer journal: nobody has
    /// opened the run since.
    pub(crate) fn note_spent(&self, home: &Home, id: &RunId) -> Result<(), Error> {
        let path = note(home, id);
        if path.exists() {
            return Ok(());
        }
        let mut fold = Fold::default();
        home.engine().sound_part(id, &mut |batch| {
            // What cannot be read is not known to have cost anything.
            batch.iter().for_each(|record| drop(fold.take(*record)));
            Ok(())
        })?;
        let Some(usage) = fold.run().map(|run| self.spent_by(run).usage) else { return Ok(()) };
        let fresh = path.with_extension("new");
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(&serde_json::to_vec(&usage)?)?;
            file.sync_all()?;
            fs::rename(&fresh, &path)?;
            File::open(home.run_dir(id))?.sync_all()
        };
        write().map_err(|source: io::Error| Error::Note { path: path.clone(), source })
    }

    /// Makes it an event, if it is none yet.
    pub(crate) fn settle_spent(&self, ledger: &mut Ledger) -> Result<(), Error> {
        let id = ledger.run().spec.id.clone();
        let Some(path) = self.home().map(|home| note(home, &id)) else { return Ok(()) };
        let failed = |source| Error::Note { path: path.clone(), source };
        let usage: Usage = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|error| failed(error.into()))?,
            // Where the engine cannot be used, nothing was ever cut.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(());
            }
            Err(error) => return Err(failed(error)),
        };
        let usage = usage.without(&self.spent_by(ledger.run()).usage);
        ledger.commit(Input::SpentBefore { usage })?;
        fs::remove_file(&path).map_err(failed)
    }
}

/// What was noted of a run that nobody has opened since.
pub(crate) struct Noted {
    pub(crate) usage: Usage,
    pub(crate) at: SystemTime,
}

impl Noted {
    pub(crate) fn of(home: &Home, id: &RunId) -> Option<Noted> {
        let path = note(home, id);
        let at = path.metadata().and_then(|found| found.modified()).ok()?;
        let usage = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
        Some(Noted { usage, at })
    }
}

fn note(home: &Home, id: &RunId) -> PathBuf {
    home.run_dir(id).join("spent.json")
}
