//! `notices.jsonl`: every try to tell somebody something, beside the run it is about. A try is written down before it is made.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use longhaul_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::Notice;
use crate::limits::{NOTICE_RECORD_BYTES_MAX, NOTICE_TRIES_IN_ALL_MAX};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub at: Timestamp,
    /// What was said.
    pub key: String,
    /// In which way.
    pub way: String,
    pub attempt: u32,
    pub outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is about to be made. If nothing follows, nobody knows how it ended.
    Sending,
    Delivered,
    Failed,
}

impl Outcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Outcome::Sending => "sending",
            Outcome::Delivered => "delivered",
            Outcome::Failed => "failed",
        }
    }
}

/// What was said so far, and where the next is written.
pub(super) struct Record {
    file: Option<File>,
    /// Said, or perhaps said: not to be said again.
    settled: HashSet<(String, String)>,
    tries: HashMap<(String, String), u32>,
}

/// The lines of a record; one that is torn is left out. Nothing, if there is none.
pub fn read(path: &Path) -> Vec<Line> {
    let mut text = Vec::new();
    let Ok(file) = File::open(path) else { return Vec::new() };
    file.take(NOTICE_RECORD_BYTES_MAX).read_to_end(&mut text).ok();
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
}

impl Record {
    pub(super) fn open(path: Option<&Path>) -> Record {
        let mut record = Record { file: None, settled: HashSet::new(), tries: HashMap::new() };
        let Some(path) = path else { return record };
        for line in read(path) {
            let key = (line.key, line.way);
            match line.outcome {
                Outcome::Sending => {
                    *record.tries.entry(key.clone()).or_default() += 1;
                    record.settled.insert(key);
                }
                Outcome::Delivered => {
                    record.settled.insert(key);
                }
                Outcome::Failed => {
                    record.settled.remove(&key);
                }
            }
        }
        let mut options = OpenOptions::new();
        record.file = options.create(true).append(true).mode(0o600).open(path).ok();
        if let Some(file) = &mut record.file {
            // A line that a crash tore ends here.
            file.write_all(b"\n").ok();
        }
        record
    }

    /// The number of the try that may now be made; nothing if none may.
    pub(super) fn begin(&mut self, notice: &Notice, way: &str, at: Timestamp) -> Option<u32> {
        let key = (notice.key.clone(), way.to_owned());
        let tries = self.tries.entry(key.clone()).or_default();
        if self.settled.contains(&key) || *tries >= NOTICE_TRIES_IN_ALL_MAX {
            return None;
        }
        *tries += 1;
        let attempt = *tries;
        self.settled.insert(key.clone());
        self.write(&Line { at, key: key.0, way: key.1, attempt, outcome: Outcome::Sending, error: None });
        Some(attempt)
    }

    pub(super) fn end(
        &mut self,
        notice: &Notice,
        way: &str,
        attempt: u32,
        outcome: Outcome,
        error: Option<String>,
        at: Timestamp,
    ) {
        let (key, way) = (notice.key.clone(), way.to_owned());
        if outcome == Outcome::Failed {
            self.settled.remove(&(key.clone(), way.clone()));
        }
        self.write(&Line { at, key, way, attempt, outcome, error });
    }

    fn write(&mut self, line: &Line) {
        let Some(file) = &mut self.file else { return };
        let mut bytes = serde_json::to_vec(line).unwrap_or_default();
        bytes.push(b'\n');
        // A record that cannot be written is no reason not to tell anybody; then only this process remembers.
        if file.write_all(&bytes).and_then(|()| file.sync_data()).is_err() {
            self.file = None;
        }
    }
}
