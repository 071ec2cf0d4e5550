//! What a landing is about to do, on disk before the first file is touched, so that one that was killed can be settled.

use std::fs::{self, File};
use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::{Error, Site};
use crate::checkout::io_error;

/// What is about to be written, on disk before the first file is touched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Landing {
    pub(super) run: String,
    /// The files as they are.
    pub(super) before: String,
    /// The files as they will be.
    pub(super) after: String,
    pub(super) moved: Option<Moved>,
    /// Are all files written?
    pub(super) written: bool,
    /// What was checked out, and on which branch. Older notes do not say.
    #[serde(default)]
    pub(super) head: Option<String>,
    #[serde(default)]
    pub(super) branch: Option<String>,
}

impl Landing {
    pub(super) fn new(run: &str, before: String, after: String, moved: Option<Moved>) -> Landing {
        Landing { run: run.to_owned(), before, after, moved, written: false, head: None, branch: None }
    }
}

/// Where the branch goes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Moved {
    pub(super) from: String,
    pub(super) to: String,
}

impl Site {
    pub(super) fn keep(&self, landing: &Landing) -> Result<(), Error> {
        let fresh = self.note.with_extension("new");
        let text = serde_json::to_vec(landing).unwrap_or_default();
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&fresh, &self.note)?;
            File::open(self.checkout.scratch())?.sync_all()
        };
        write().map_err(|source| io_error("write", &self.note)(source).into())
    }

    pub(super) fn kept(&self) -> Result<Option<Landing>, Error> {
        match fs::read(&self.note) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|error| io_error("read", &self.note)(io::Error::other(error)).into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(io_error("read", &self.note)(source).into()),
        }
    }

    pub(super) fn forget(&self) -> Result<(), Error> {
        fs::remove_file(&self.note).map_err(|source| io_error("remove", &self.note)(source).into())
    }
}
