//! The contract of durable memory: one append-only journal for each run, whatever it is kept in.

use longhaul_core::ids::{CommandId, RunId};
use longhaul_core::time::Timestamp;

use crate::error::Error;

/// Where journals are kept. Implemented by the Eternal Engine, the SQLite fallback and the in-memory store; called by
/// the engine's driver, the catalogue and every command that reads. All three pass `longhaul_testkit::store_contract`.
pub trait Store: Send + Sync {
    fn backend(&self) -> Backend;

    /// Starts the journal of a new run, with its first batch already durable: a run that exists has a first event.
    fn create(&self, run: &RunId, writer: &Writer, first: &[Entry]) -> Result<Box<dyn Journal>, Error>;

    /// Opens an existing journal as its one writer, shows every record to `visit` in order, and cuts a torn tail.
    fn open(&self, run: &RunId, writer: &Writer, visit: Visit<'_>) -> Result<Box<dyn Journal>, Error>;

    /// A reader that needs no lock and blocks nobody.
    fn reader(&self, run: &RunId) -> Result<Box<dyn Reader>, Error>;

    fn runs(&self) -> Result<Vec<RunId>, Error>;

    /// Forgets a run and everything kept of it. Refused while a writer holds it.
    fn remove(&self, run: &RunId) -> Result<(), Error>;

    /// Who holds the run now, if anybody does.
    fn holder(&self, run: &RunId) -> Result<Option<Holder>, Error>;

    /// Leaves a command for whoever drives the run, now or later. Posting the same id twice leaves one.
    fn post(&self, run: &RunId, command: &CommandId, body: &[u8]) -> Result<(), Error>;

    /// Commands not yet settled, oldest first. One that cannot be read is there with an empty body.
    fn pending(&self, run: &RunId) -> Result<Vec<Posted>, Error>;

    /// Takes a command out of the inbox once its event is durable.
    fn settle(&self, run: &RunId, command: &CommandId) -> Result<(), Error>;

    /// Keeps a large output and returns its name, the BLAKE3 hash in hex.
    fn put_blob(&self, run: &RunId, bytes: &[u8]) -> Result<String, Error>;

    fn blob(&self, run: &RunId, hash: &str) -> Result<Vec<u8>, Error>;

    /// What the run costs on disk.
    fn footprint(&self, run: &RunId) -> Result<Footprint, Error>;
}

/// The one writer of one run.
pub trait Journal: Send {
    /// Writes all entries as one unit and returns when they are on disk: after a crash all are there or none.
    /// After an error the journal is poisoned and refuses everything; open it again to go on. Only a batch that is
    /// too large or has no space leaves it as it was: nothing of it was written, and later appends may succeed.
    fn append(&mut self, batch: &[Entry]) -> Result<Ack, Error>;

    fn last_seq(&self) -> u64;

    /// Grows by one with every opening for writing; a writer of an older generation can no longer append.
    fn generation(&self) -> u64;

    /// Bytes of a write that was never finished, cut off when this was opened.
    fn torn_bytes(&self) -> u64 {
        0
    }

    /// Gives the run up in good order: unused space is returned, the lock is freed. Dropping only frees the lock.
    fn close(self: Box<Self>) -> Result<(), Error>;

    /// Puts a run down that has not ended: like `close`, but the reserve stays, so that the run can still be stopped or
    /// paused on a disk that has filled up meanwhile.
    fn rest(self: Box<Self>) -> Result<(), Error> {
        self.close()
    }
}

/// Reads a journal while others write it. What it shows is on disk first.
pub trait Reader: Send {
    /// Shows the records that were added since the last call.
    fn poll(&mut self, visit: Visit<'_>) -> Result<(), Error>;
}

/// Called with each record in order; an error stops the reading and is passed on.
pub type Visit<'a> = &'a mut dyn FnMut(Record<'_>) -> Result<(), Error>;

/// One event to be remembered, encoded by core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub at: Timestamp,
    pub kind: u16,
    pub version: u16,
    pub payload: Vec<u8>,
}

/// One event as it is remembered. Sequence numbers start at 1 and have no gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    pub seq: u64,
    pub at: Timestamp,
    pub kind: u16,
    pub version: u16,
    pub payload: &'a [u8],
}

impl From<&Record<'_>> for Entry {
    fn from(record: &Record<'_>) -> Entry {
        let Record { at, kind, version, payload, .. } = *record;
        Entry { at, kind, version, payload: payload.to_vec() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    pub last_seq: u64,
    pub space: Space,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Ample,
    /// The disk is full and this append used the reserve: pause now, while that can still be written.
    Reserve,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Engine,
    Sqlite,
    Memory,
}

impl Backend {
    pub fn as_str(self) -> &'static str {
        match self {
            Backend::Engine => "engine",
            Backend::Sqlite => "sqlite",
            Backend::Memory => "memory",
        }
    }
}

/// Who opens a journal for writing; what others are told when they find it held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Writer {
    pub pid: u32,
    pub host: String,
    pub at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    pub host: String,
    pub since: Timestamp,
    pub generation: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Posted {
    pub id: CommandId,
    pub body: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes of the journal that hold records, headers included.
    pub journal_bytes: u64,
    /// Bytes of the events themselves, as core encoded them.
    pub payload_bytes: u64,
    pub records: u64,
    pub blob_bytes: u64,
    /// Everything on disk, space kept in reserve included.
    pub disk_bytes: u64,
}
