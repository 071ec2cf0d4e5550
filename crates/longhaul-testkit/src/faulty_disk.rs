//! A disk that fails as told and remembers what was asked of it. Owns the faults, the record of operations, and the
//! images a crash could leave behind; keeps its files in a real directory and never really syncs, so it is fast.
//!
//! What a crash leaves is modelled as follows. File content: what was synced, and of each later write any subset of
//! its 512-byte sectors. Names: either only those made durable by syncing their directory, or all.

#![expect(clippy::unwrap_used, reason = "a test double that breaks must stop the test")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use longhaul_store::engine::{Access, Disk, LogFile, RealDisk};

pub const EINTR: i32 = 4;
pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;

/// One thing that was done, with the path it was done to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    CreateFile(PathBuf),
    CreateDir(PathBuf),
    Write { path: PathBuf, offset: u64, bytes: Vec<u8> },
    SetLen { path: PathBuf, len: u64 },
    SyncData(PathBuf),
    Rename { from: PathBuf, to: PathBuf },
    RemoveFile(PathBuf),
    RemoveDirAll(PathBuf),
    SyncDir(PathBuf),
}

/// What a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Open,
    Read,
    Write,
    SyncData,
    SetLen,
    CreateDir,
    Rename,
    Remove,
    SyncDir,
}

/// Strikes the `nth` such call from now on, counted from 1, and if `sticky` every one after it.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub call: Call,
    pub nth: usize,
    pub sticky: bool,
    pub how: How,
}

#[derive(Clone, Copy, Debug)]
pub enum How {
    /// Fails with this error number and does nothing.
    Error(i32),
    /// Reads or writes only half of what was asked.
    Short,
    /// Writes only half, up to the end of a sector, as a killed process does.
    ShortToSector,
}

#[derive(Clone, Default)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    ops: Vec<Op>,
    calls: Vec<Call>,
    faults: Vec<(Fault, usize)>,
    fired: usize,
    free: Option<u64>,
    after_len: Option<Box<dyn FnOnce() + Send>>,
}

impl FaultyDisk {
    pub fn new() -> FaultyDisk {
        FaultyDisk::default()
    }

    pub fn fail(&self, fault: Fault) {
        self.state.lock().unwrap().faults.push((fault, 0));
    }

    /// No more faults, and as much space as wanted.
    pub fn mend(&self) {
        let mut state = self.state.lock().unwrap();
        state.faults.clear();
        state.free = None;
    }

    /// From now on files may grow by this many bytes together. Writing over what is there needs none.
    pub fn fill_up(&self, free: u64) {
        self.state.lock().unwrap().free = Some(free);
    }

    /// Does this once, right after a file was next asked for its length and before that is answered.
    pub fn after_len(&self, then: impl FnOnce() + Send + 'static) {
        self.state.lock().unwrap().after_len = Some(Box::new(then));
    }

    /// How often a fault struck or space ran out. A test whose fault never fired has shown nothing.
    pub fn fired(&self) -> usize {
        self.state.lock().unwrap().fired
    }

    pub fn ops(&self) -> Vec<Op> {
        self.state.lock().unwrap().ops.clone()
    }

    /// How often this was called, failures included.
    pub fn calls(&self, call: Call) -> usize {
        self.state.lock().unwrap().calls.iter().filter(|made| **made == call).count()
    }

    /// Forgets the calls counted so far, not the operations.
    pub fn reset_calls(&self) {
        self.state.lock().unwrap().calls.clear();
    }

    /// Counts the call and says how it goes wrong, if it does.
    fn strike(&self, call: Call) -> Option<How> {
        let mut state = self.state.lock().unwrap();
        state.calls.push(call);
        let mut struck = None;
        for (fault, seen) in state.faults.iter_mut().filter(|(fault, _)| fault.call == call) {
            *seen += 1;
            if *seen == fault.nth || (fault.sticky && *seen > fault.nth) {
                struck = Some(fault.how);
            }
        }
        state.fired += usize::from(struck.is_some());
        struck
    }

    fn strike_whole(&self, call: Call) -> io::Result<()> {
        match self.strike(call) {
            Some(How::Error(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(How::Short | How::ShortToSector) | None => Ok(()),
        }
    }

    /// How much a strike leaves of a transfer of `len` bytes.
    fn strike_part(&self, call: Call, offset: u64, len: usize) -> io::Result<usize> {
        match self.strike(call) {
            Some(How::Error(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(How::Short) => Ok(len.div_ceil(2)),
            Some(How::ShortToSector) => {
                let end = (offset + len as u64 / 2).next_multiple_of(512);
                Ok(len.min((end - offset) as usize))
            }
            None => Ok(len),
        }
    }

    /// Takes the space a write needs, or as much as there is.
    fn take_space(&self, len: u64, end: u64, wanted: usize) -> io::Result<usize> {
        let mut state = self.state.lock().unwrap();
        let growth = end.saturating_sub(len);
        let Some(free) = state.free else { return Ok(wanted) };
        let lacking = growth.saturating_sub(free) as usize;
        state.free = Some(free.saturating_sub(growth));
        state.fired += usize::from(lacking > 0);
        if lacking >= wanted { Err(io::Error::from_raw_os_error(ENOSPC)) } else { Ok(wanted - lacking) }
    }

    fn record(&self, op: Op) {
        self.state.lock().unwrap().ops.push(op);
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        self.strike_whole(Call::Open)?;
        let file = RealDisk.open(path, access)?;
        if access == Access::CreateNew {
            self.record(Op::CreateFile(path.to_owned()));
        }
        Ok(Box::new(FaultyFile { disk: self.clone(), path: path.to_owned(), file }))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.strike_whole(Call::CreateDir)?;
        RealDisk.create_dir(path)?;
        self.record(Op::CreateDir(path.to_owned()));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.strike_whole(Call::Rename)?;
        RealDisk.rename(from, to)?;
        self.record(Op::Rename { from: from.to_owned(), to: to.to_owned() });
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        self.strike_whole(Call::Remove)?;
        RealDisk.remove_file(path)?;
        self.record(Op::RemoveFile(path.to_owned()));
        Ok(())
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        self.strike_whole(Call::Remove)?;
        RealDisk.remove_dir_all(path)?;
        self.record(Op::RemoveDirAll(path.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.strike_whole(Call::SyncDir)?;
        self.record(Op::SyncDir(path.to_owned()));
        Ok(())
    }
}

/// Knows the path it was opened by; a rename of its directory does not change that, as `Crash` knows.
struct FaultyFile {
    disk: FaultyDisk,
    path: PathBuf,
    file: Box<dyn LogFile>,
}

impl LogFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        let len = self.file.len();
        let then = self.disk.state.lock().unwrap().after_len.take();
        if let Some(then) = then {
            then();
        }
        len
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        let len = self.disk.strike_part(Call::Read, offset, bytes.len())?;
        self.file.read_at(&mut bytes[..len], offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        let len = self.disk.strike_part(Call::Write, offset, bytes.len())?;
        let len = self.disk.take_space(self.file.len()?, offset + len as u64, len)?;
        let written = self.file.write_at(&bytes[..len], offset)?;
        let bytes = bytes[..written].to_vec();
        self.disk.record(Op::Write { path: self.path.clone(), offset, bytes });
        Ok(written)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.strike_whole(Call::SyncData)?;
        self.disk.record(Op::SyncData(self.path.clone()));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.disk.strike_whole(Call::SetLen)?;
        self.file.set_len(len)?;
        self.disk.record(Op::SetLen { path: self.path.clone(), len });
        Ok(())
    }
}

/// What the disk could hold after a crash that followed some operations.
pub struct Crash {
    root: PathBuf,
    nodes: Vec<Node>,
    /// Which file a path was opened as: a file stays itself when a directory above it is renamed.
    opened: BTreeMap<PathBuf, usize>,
}

#[derive(Clone, Default)]
struct Node {
    is_dir: bool,
    names: BTreeMap<OsString, usize>,
    names_synced: BTreeMap<OsString, usize>,
    synced: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Clone)]
enum Pending {
    Write { offset: u64, bytes: Vec<u8> },
    SetLen(u64),
}

/// Which names a crash leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    OnlySynced,
    All,
}

/// One sector of an unsynced write, or one unsynced change of length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub index: usize,
    /// Part of a zero fill: whether it survives only changes the file's length.
    pub zeros: bool,
}

impl Crash {
    /// The state after `ops`, all of which happened under `root`.
    pub fn after(ops: &[Op], root: &Path) -> Crash {
        let top = Node { is_dir: true, ..Node::default() };
        let mut crash = Crash { root: root.to_owned(), nodes: vec![top], opened: BTreeMap::new() };
        ops.iter().for_each(|op| crash.apply(op));
        crash
    }

    /// How many unsynced pieces there are that are not zeros.
    pub fn pieces(&self) -> usize {
        let count = |node: &Node| node.pieces(&mut 0).iter().filter(|(piece, _)| !piece.zeros).count();
        self.nodes.iter().map(count).sum()
    }

    /// Writes into an empty directory what the crash left, keeping the unsynced pieces that `keep` says.
    pub fn write(&self, into: &Path, names: Names, keep: &mut dyn FnMut(Piece) -> bool) {
        self.write_dir(0, into, names, &mut 0, keep);
    }

    fn write_dir(
        &self,
        dir: usize,
        into: &Path,
        names: Names,
        next: &mut usize,
        keep: &mut dyn FnMut(Piece) -> bool,
    ) {
        let node = &self.nodes[dir];
        let entries = match names {
            Names::OnlySynced => &node.names_synced,
            Names::All => &node.names,
        };
        for (name, id) in entries {
            let path = into.join(name);
            if self.nodes[*id].is_dir {
                fs::create_dir(&path).unwrap();
                self.write_dir(*id, &path, names, next, keep);
            } else {
                fs::write(&path, self.nodes[*id].content(next, keep)).unwrap();
            }
        }
    }

    fn apply(&mut self, op: &Op) {
        match op {
            Op::CreateDir(path) => {
                self.add(path, Node { is_dir: true, ..Node::default() });
            }
            Op::CreateFile(path) => {
                let id = self.add(path, Node::default());
                self.opened.insert(path.clone(), id);
            }
            Op::Write { path, offset, bytes } => {
                let write = Pending::Write { offset: *offset, bytes: bytes.clone() };
                self.file(path).pending.push(write);
            }
            Op::SetLen { path, len } => self.file(path).pending.push(Pending::SetLen(*len)),
            Op::SyncData(path) => {
                let node = self.file(path);
                node.synced = node.content(&mut 0, &mut |_| true);
                node.pending.clear();
            }
            Op::Rename { from, to } => {
                let id = self.take(from);
                let (parent, name) = self.place(to);
                self.nodes[parent].names.insert(name, id);
            }
            Op::RemoveFile(path) | Op::RemoveDirAll(path) => {
                self.take(path);
            }
            Op::SyncDir(path) => {
                if let Some(id) = self.find(path) {
                    self.nodes[id].names_synced = self.nodes[id].names.clone();
                }
            }
        }
    }

    fn file(&mut self, path: &Path) -> &mut Node {
        let id = self.find(path).or_else(|| self.opened.get(path).copied()).unwrap();
        &mut self.nodes[id]
    }

    fn add(&mut self, path: &Path, node: Node) -> usize {
        let (parent, name) = self.place(path);
        self.nodes.push(node);
        let id = self.nodes.len() - 1;
        self.nodes[parent].names.insert(name, id);
        id
    }

    fn take(&mut self, path: &Path) -> usize {
        let (parent, name) = self.place(path);
        self.nodes[parent].names.remove(&name).unwrap()
    }

    fn place(&self, path: &Path) -> (usize, OsString) {
        (self.find(path.parent().unwrap()).unwrap(), path.file_name().unwrap().to_owned())
    }

    fn find(&self, path: &Path) -> Option<usize> {
        let relative = path.strip_prefix(&self.root).ok()?;
        relative.iter().try_fold(0, |dir, name| self.nodes[dir].names.get(name).copied())
    }
}

impl Node {
    fn pieces<'a>(&'a self, next: &mut usize) -> Vec<(Piece, Change<'a>)> {
        let mut pieces = Vec::new();
        let mut add = |zeros, change| {
            pieces.push((Piece { index: *next, zeros }, change));
            *next += usize::from(!zeros);
        };
        for pending in &self.pending {
            match pending {
                Pending::SetLen(len) => add(false, Change::SetLen(*len)),
                Pending::Write { offset, bytes } => {
                    let (mut offset, mut rest) = (*offset, &bytes[..]);
                    while !rest.is_empty() {
                        let in_sector = (512 - offset % 512) as usize;
                        let (piece, after) = rest.split_at(in_sector.min(rest.len()));
                        add(piece.iter().all(|byte| *byte == 0), Change::Write(offset, piece));
                        (offset, rest) = (offset + piece.len() as u64, after);
                    }
                }
            }
        }
        pieces
    }

    fn content(&self, next: &mut usize, keep: &mut dyn FnMut(Piece) -> bool) -> Vec<u8> {
        let mut content = self.synced.clone();
        for (piece, change) in self.pieces(next) {
            if !keep(piece) {
                continue;
            }
            match change {
                Change::SetLen(len) => content.resize(len as usize, 0),
                Change::Write(offset, bytes) => {
                    let (start, end) = (offset as usize, offset as usize + bytes.len());
                    content.resize(content.len().max(end), 0);
                    content[start..end].copy_from_slice(bytes);
                }
            }
        }
        content
    }
}

enum Change<'a> {
    Write(u64, &'a [u8]),
    SetLen(u64),
}
