//! The real disk with a counter at each door. Every write and sync of the engine goes through `LogFile`, one system call
//! each, so what is counted here is what the kernel is asked.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use longhaul_store::engine::{Access, Disk, LogFile, RealDisk};

/// Counts the calls of `fdatasync` by all files of one disk.
#[derive(Clone, Default)]
pub struct CountingDisk {
    syncs: Arc<AtomicU64>,
}

struct CountingFile {
    file: Box<dyn LogFile>,
    syncs: Arc<AtomicU64>,
}

impl CountingDisk {
    pub fn syncs(&self) -> u64 {
        self.syncs.load(Ordering::Relaxed)
    }
}

impl Disk for CountingDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        let file = RealDisk.open(path, access)?;
        Ok(Box::new(CountingFile { file, syncs: Arc::clone(&self.syncs) }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        RealDisk.create_dir(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        RealDisk.sync_dir(path)
    }
}

impl LogFile for CountingFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        self.file.write_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.file.sync_data()
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
}
