//! Those who watch a run being driven: the live view, the event log, the catalogue. They see what is already durable
//! and have no say in the run.

use longhaul_core::event::Event;
use longhaul_core::run::Run;
use longhaul_core::time::Timestamp;

/// Told of each batch after it was appended and applied. Implemented by the terminal's live view, [`crate::log::EventLog`]
/// and [`crate::catalogue::RowKeeper`]; called by the driver.
pub trait Watcher: Send {
    /// One event; `run` is the run after it.
    fn event(&mut self, run: &Run, seq: u64, at: Timestamp, event: &Event);

    /// All events of a batch were shown.
    fn batch_ended(&mut self, run: &Run);

    /// Nothing more comes for now: what was held back while one batch followed another is to be shown.
    fn rested(&mut self, _run: &Run) {}

    /// What the watcher could not write since it was last asked, to be put on record. Asked when nothing more comes for now.
    fn trouble(&mut self) -> Option<Trouble> {
        None
    }

    /// The same when the run is put down: what is still being written is waited for.
    fn last_trouble(&mut self) -> Option<Trouble> {
        self.trouble()
    }
}

/// A derived file that could not be written, and why. It harms nobody but whoever reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    pub file: String,
    pub why: String,
}
