//! A store that forgets on exit, for `harness.enabled: false` and for tests. Owns the same promises as the others
//! except the disk; clones share what they hold, so that a writer that "crashed" can be opened again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longhaul_core::ids::{CommandId, RunId};

use crate::engine::{check_blob, check_blob_size, check_command_size, hash_of};
use crate::error::Error;
use crate::journal::{
    Ack, Backend, Entry, Footprint, Holder, Journal, Posted, Reader, Record, Space, Store, Visit, Writer,
};
use crate::limits;

#[derive(Clone, Default)]
pub struct Memory {
    runs: Arc<Mutex<BTreeMap<RunId, Kept>>>,
}

#[derive(Default)]
struct Kept {
    entries: Vec<Entry>,
    generation: u64,
    holder: Option<Holder>,
    inbox: Vec<Posted>,
    blobs: BTreeMap<String, Vec<u8>>,
}

impl Kept {
    fn take(&mut self, writer: &Writer) -> u64 {
        self.generation += 1;
        let Writer { pid, ref host, at } = *writer;
        self.holder = Some(Holder { pid, host: host.clone(), since: at, generation: self.generation });
        self.generation
    }

    fn payload_bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.payload.len() as u64).sum()
    }
}

impl Memory {
    pub fn new() -> Memory {
        Memory::default()
    }

    /// A panic in another thread leaves the map whole: every change under the lock is a single step.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<RunId, Kept>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, run: &RunId, act: impl FnOnce(&mut Kept) -> Result<T, Error>) -> Result<T, Error> {
        act(self.lock().get_mut(run).ok_or_else(|| Error::NotFound { run: run.clone() })?)
    }

    fn journal(&self, run: &RunId, generation: u64, last_seq: u64) -> Box<dyn Journal> {
        Box::new(MemoryJournal { store: self.clone(), run: run.clone(), generation, last_seq })
    }
}

impl Store for Memory {
    fn backend(&self) -> Backend {
        Backend::Memory
    }

    fn create(&self, run: &RunId, writer: &Writer, first: &[Entry]) -> Result<Box<dyn Journal>, Error> {
        if first.is_empty() {
            return Err(Error::NoFirstEvent { run: run.clone() });
        }
        check_batch_size(first)?;
        let mut runs = self.lock();
        if runs.contains_key(run) {
            return Err(Error::Exists { run: run.clone() });
        }
        let mut kept = Kept { entries: first.to_vec(), ..Kept::default() };
        let generation = kept.take(writer);
        runs.insert(run.clone(), kept);
        Ok(self.journal(run, generation, first.len() as u64))
    }

    fn open(&self, run: &RunId, writer: &Writer, visit: Visit<'_>) -> Result<Box<dyn Journal>, Error> {
        let (generation, entries) = self.with(run, |kept| match &kept.holder {
            Some(holder) => Err(Error::Held { run: run.clone(), holder: holder.clone() }),
            None => Ok((kept.take(writer), kept.entries.clone())),
        })?;
        let journal = self.journal(run, generation, entries.len() as u64);
        show(&entries, 0, visit)?;
        Ok(journal)
    }

    fn reader(&self, run: &RunId) -> Result<Box<dyn Reader>, Error> {
        self.with(run, |_| Ok(()))?;
        Ok(Box::new(MemoryReader { store: self.clone(), run: run.clone(), shown: 0 }))
    }

    fn runs(&self) -> Result<Vec<RunId>, Error> {
        Ok(self.lock().keys().cloned().collect())
    }

    fn remove(&self, run: &RunId) -> Result<(), Error> {
        let mut runs = self.lock();
        let kept = runs.get(run).ok_or_else(|| Error::NotFound { run: run.clone() })?;
        if let Some(holder) = kept.holder.clone() {
            return Err(Error::Held { run: run.clone(), holder });
        }
        runs.remove(run);
        Ok(())
    }

    fn holder(&self, run: &RunId) -> Result<Option<Holder>, Error> {
        self.with(run, |kept| Ok(kept.holder.clone()))
    }

    fn post(&self, run: &RunId, command: &CommandId, body: &[u8]) -> Result<(), Error> {
        check_command_size(body)?;
        self.with(run, |kept| {
            if kept.inbox.iter().any(|posted| posted.id == *command) {
                return Ok(());
            }
            if kept.inbox.len() >= limits::COMMANDS_PENDING_MAX {
                return Err(Error::InboxFull { run: run.clone(), max: limits::COMMANDS_PENDING_MAX });
            }
            kept.inbox.push(Posted { id: command.clone(), body: body.to_vec() });
            Ok(())
        })
    }

    fn pending(&self, run: &RunId) -> Result<Vec<Posted>, Error> {
        self.with(run, |kept| Ok(kept.inbox.clone()))
    }

    fn settle(&self, run: &RunId, command: &CommandId) -> Result<(), Error> {
        self.with(run, |kept| {
            kept.inbox.retain(|posted| posted.id != *command);
            Ok(())
        })
    }

    fn put_blob(&self, run: &RunId, bytes: &[u8]) -> Result<String, Error> {
        check_blob_size(bytes)?;
        let hash = hash_of(bytes);
        self.with(run, |kept| {
            kept.blobs.insert(hash.clone(), bytes.to_vec());
            Ok(())
        })?;
        Ok(hash)
    }

    fn blob(&self, run: &RunId, hash: &str) -> Result<Vec<u8>, Error> {
        let missing = || Error::BlobMissing { run: run.clone(), hash: hash.chars().take(64).collect() };
        let bytes = self.with(run, |kept| kept.blobs.get(hash).cloned().ok_or_else(missing))?;
        check_blob(run, hash, bytes)
    }

    fn footprint(&self, run: &RunId) -> Result<Footprint, Error> {
        self.with(run, |kept| {
            let payload_bytes = kept.payload_bytes();
            let blob_bytes = kept.blobs.values().map(|bytes| bytes.len() as u64).sum();
            let records = kept.entries.len() as u64;
            Ok(Footprint { journal_bytes: payload_bytes, payload_bytes, records, blob_bytes, disk_bytes: 0 })
        })
    }
}

struct MemoryJournal {
    store: Memory,
    run: RunId,
    generation: u64,
    last_seq: u64,
}

impl Journal for MemoryJournal {
    fn append(&mut self, batch: &[Entry]) -> Result<Ack, Error> {
        check_batch_size(batch)?;
        let fenced = || Error::Fenced { run: self.run.clone(), generation: self.generation };
        self.store.with(&self.run, |kept| {
            if kept.generation != self.generation {
                return Err(fenced());
            }
            kept.entries.extend_from_slice(batch);
            Ok(())
        })?;
        self.last_seq += batch.len() as u64;
        Ok(Ack { last_seq: self.last_seq, space: Space::Ample })
    }

    fn last_seq(&self) -> u64 {
        self.last_seq
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

impl Drop for MemoryJournal {
    fn drop(&mut self) {
        if let Some(kept) = self.store.lock().get_mut(&self.run)
            && kept.generation == self.generation
        {
            kept.holder = None;
        }
    }
}

struct MemoryReader {
    store: Memory,
    run: RunId,
    shown: usize,
}

impl Reader for MemoryReader {
    fn poll(&mut self, visit: Visit<'_>) -> Result<(), Error> {
        // Copied out, so that a visitor may use the store.
        let news = self.store.with(&self.run, |kept| Ok(kept.entries[self.shown..].to_vec()))?;
        show(&news, self.shown, visit)?;
        self.shown += news.len();
        Ok(())
    }
}

fn show(entries: &[Entry], before: usize, visit: Visit<'_>) -> Result<(), Error> {
    let mut seq = before as u64;
    entries.iter().try_for_each(|entry| {
        seq += 1;
        let Entry { at, kind, version, payload } = entry;
        visit(Record { seq, at: *at, kind: *kind, version: *version, payload })
    })
}

/// The engine's bound holds everywhere: a run that outgrew it in one store could not move to another.
pub(crate) fn check_batch_size(batch: &[Entry]) -> Result<(), Error> {
    let bytes = batch.iter().map(|entry| entry.payload.len() as u64 + 16).sum::<u64>() + 41;
    let max = limits::FRAME_BYTES_MAX as u64;
    if bytes > max { Err(Error::TooLarge { what: "a batch", bytes, max }) } else { Ok(()) }
}
