//! Large outputs by the hash of their content. Owns that a blob read is the blob that was put; knows nothing of what
//! refers to it.

use std::io;
use std::path::Path;

use longhaul_core::ids::RunId;

use super::disk::{self, Disk};
use super::inbox::{TEMPORARY, nanos_now};
use crate::error::Error;
use crate::limits;

pub(crate) fn put(disk: &dyn Disk, dir: &Path, bytes: &[u8]) -> Result<String, Error> {
    check_size(bytes)?;
    let hash = hash_of(bytes);
    let path = dir.join(&hash);
    let there = disk::read_whole(disk, &path, limits::BLOB_BYTES_MAX).is_ok_and(|found| found == bytes);
    let written = if there {
        // Another process may have named it and not yet made the name durable.
        disk.sync_dir(dir)
    } else {
        let temporary = dir.join(format!("{TEMPORARY}{}-{}-{hash}", nanos_now(), std::process::id()));
        disk::write_whole(disk, &temporary, &path, bytes)
    };
    written.map_err(|error| Error::io("write", path, error))?;
    Ok(hash)
}

pub(crate) fn get(disk: &dyn Disk, dir: &Path, run: &RunId, hash: &str) -> Result<Vec<u8>, Error> {
    let missing = || Error::BlobMissing { run: run.clone(), hash: hash.chars().take(64).collect() };
    if !is_hash(hash) {
        return Err(missing());
    }
    let path = dir.join(hash);
    let bytes = match disk::read_whole(disk, &path, limits::BLOB_BYTES_MAX) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
        Err(error) => return Err(Error::io("read", path, error)),
    };
    check(run, hash, bytes)
}

pub(crate) fn check_size(bytes: &[u8]) -> Result<(), Error> {
    let (bytes, max) = (bytes.len() as u64, limits::BLOB_BYTES_MAX as u64);
    if bytes > max { Err(Error::TooLarge { what: "a blob", bytes, max }) } else { Ok(()) }
}

pub(crate) fn hash_of(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Passes a blob on if it is what its name says.
pub(crate) fn check(run: &RunId, hash: &str, bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    if hash_of(&bytes) == hash {
        Ok(bytes)
    } else {
        Err(Error::BlobDamaged { run: run.clone(), hash: hash.to_owned() })
    }
}

/// A hash becomes a file name, so nothing else may pass.
fn is_hash(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}
