//! The file system as the engine uses it. Owns how files and directories are made, private to their owner; decides
//! nothing about what is in them. Everything durable goes through here, so that a test can pass in a disk that fails.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::limits;

/// One open file. Implemented by `std::fs::File` and by the faulty disk of the testkit; called by the engine only.
/// Reads and writes may be short or interrupted, as the system's are: callers loop.
#[expect(
    clippy::len_without_is_empty,
    reason = "asking for the length may fail, and nobody asks for emptiness"
)]
pub trait LogFile: Send {
    fn len(&self) -> io::Result<u64>;
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize>;
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize>;
    fn sync_data(&self) -> io::Result<()>;
    fn set_len(&self, len: u64) -> io::Result<()>;
}

/// Where files are. Implemented by `RealDisk` and by the faulty disk of the testkit; called by the engine only.
pub trait Disk: Send + Sync {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>>;
    fn create_dir(&self, path: &Path) -> io::Result<()>;
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove_file(&self, path: &Path) -> io::Result<()>;
    fn remove_dir_all(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable: what was created, renamed or removed there.
    fn sync_dir(&self, path: &Path) -> io::Result<()>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
    CreateNew,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn LogFile>> {
        Ok(Box::new(open_file(path, access)?))
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn remove_dir_all(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}

/// Opens a file that only its owner may read. A symbolic link in its place is refused: somebody else put it there. So is a pipe,
/// which would be waited for without end.
pub(crate) fn open_file(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(flags.bits().cast_signed()).mode(0o600).read(true);
    match access {
        Access::Read => {}
        Access::Write => {
            options.write(true);
        }
        Access::CreateNew => {
            options.write(true).create_new(true);
        }
    }
    let file = options.open(path)?;
    let is_waited_for = file.metadata()?.file_type().is_fifo();
    if is_waited_for { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(file) }
}

impl LogFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(self)?)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }
}

/// How far a write came before it failed.
#[derive(Debug)]
pub(crate) struct WriteFailed {
    pub(crate) written: usize,
    pub(crate) source: io::Error,
}

pub(crate) fn write_all(file: &dyn LogFile, bytes: &[u8], offset: u64) -> Result<(), WriteFailed> {
    let (mut written, mut interrupts) = (0, 0);
    while written < bytes.len() {
        match file.write_at(&bytes[written..], offset + written as u64) {
            Ok(0) => return Err(WriteFailed { written, source: io::ErrorKind::WriteZero.into() }),
            Ok(count) => written += count,
            Err(error) if interrupted(&error, &mut interrupts) => {}
            Err(source) => return Err(WriteFailed { written, source }),
        }
    }
    Ok(())
}

/// Fills `bytes` from `offset` on, as far as the file reaches; returns how many there were.
pub(crate) fn read_full(file: &dyn LogFile, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
    let (mut count, mut interrupts) = (0, 0);
    while count < bytes.len() {
        match file.read_at(&mut bytes[count..], offset + count as u64) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if interrupted(&error, &mut interrupts) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// Copies the first `end` bytes of one file to the same place in another.
pub(crate) fn copy(from: &dyn LogFile, to: &dyn LogFile, end: u64) -> io::Result<()> {
    let (mut offset, mut bytes) = (0, vec![0; limits::READ_BYTES]);
    while offset < end {
        let wanted = bytes.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
        let count = read_full(from, &mut bytes[..wanted], offset)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        write_all(to, &bytes[..count], offset).map_err(|failed| failed.source)?;
        offset += count as u64;
    }
    Ok(())
}

/// True if a call should simply be made again. A storm of interruptions is an error in the end, not a busy loop.
fn interrupted(error: &io::Error, interrupts: &mut u32) -> bool {
    *interrupts += 1;
    error.kind() == io::ErrorKind::Interrupted && *interrupts <= limits::INTERRUPTS_MAX
}

/// Writes a whole small file under a temporary name, makes it durable and gives it its name: there or not, never half.
pub(crate) fn write_whole(disk: &dyn Disk, temporary: &Path, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let file = disk.open(temporary, Access::CreateNew)?;
    let written = write_all(&*file, bytes, 0).map_err(|failed| failed.source).and_then(|()| file.sync_data());
    if let Err(error) = written.and_then(|()| disk.rename(temporary, path)) {
        // The name was never given, so what is left is only space; a sweep gets it if this does not.
        let _ = disk.remove_file(temporary);
        return Err(error);
    }
    match path.parent() {
        Some(parent) => disk.sync_dir(parent),
        None => Ok(()),
    }
}

pub(crate) fn read_whole(disk: &dyn Disk, path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let file = disk.open(path, Access::Read)?;
    let len = usize::try_from(file.len()?).unwrap_or(usize::MAX);
    if len > bytes_max {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut bytes = vec![0; len];
    let count = read_full(&*file, &mut bytes, 0)?;
    bytes.truncate(count);
    Ok(bytes)
}
