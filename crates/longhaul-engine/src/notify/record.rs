//! `notices.jsonl`: every try to tell somebody something, beside the run it is about. A try is written down before it is made;
//! one whose process died in it is made once more by the next.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use longhaul_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Notice, Occasion};
use crate::limits::{NOTICE_RECORD_BYTES_MAX, NOTICE_TRIES_IN_ALL_MAX, REMINDER_MS_FIRST, REMINDER_MS_MAX};

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
    said: HashMap<(String, String), Said>,
}

/// What became of one notice on one way.
#[derive(Clone, Copy, Default)]
struct Said {
    tries: u32,
    /// How often it was said, or perhaps was.
    times: u32,
    last: Timestamp,
    /// Of a try whose end is not known: when it was last said before that.
    under_way: Option<Timestamp>,
}

/// A try that may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Try {
    pub number: u32,
    /// How often the same was said before.
    pub reminder: u32,
}

impl Said {
    fn take(&mut self, at: Timestamp, outcome: Outcome) {
        match outcome {
            Outcome::Sending => {
                self.forget_unknown();
                self.tries += 1;
                self.times += 1;
                self.under_way = Some(self.last);
                self.last = at;
            }
            Outcome::Delivered => {
                self.last = at;
                self.under_way = None;
            }
            Outcome::Failed => {
                self.times = self.times.saturating_sub(1);
                self.under_way = None;
            }
        }
    }

    /// A try that died with its process may have reached nobody, so it is as if it had not been made; but it was one of those that
    /// may be made in all.
    fn forget_unknown(&mut self) {
        if let Some(before) = self.under_way.take() {
            self.times = self.times.saturating_sub(1);
            self.last = before;
        }
    }

    /// May it be said now? What a run waits for is said again if nobody has answered for long.
    fn is_due(&self, occasion: Occasion, now: Timestamp) -> bool {
        if self.tries >= NOTICE_TRIES_IN_ALL_MAX {
            return false;
        }
        let Some(before) = self.times.checked_sub(1) else { return true };
        let wait = REMINDER_MS_FIRST.saturating_mul(4_i64.saturating_pow(before)).min(REMINDER_MS_MAX);
        occasion == Occasion::Waiting && now.as_millis() - self.last.as_millis() >= wait
    }
}

/// Is no other process at it, which may be about to write down how its tries ended? Whoever has a record open holds a share of its
/// lock, which ends with the process however that ends.
fn is_alone(file: &File) -> bool {
    // A file system without locks leaves nobody to tell the dead from the living by; then nothing is said twice.
    file.try_lock().is_ok()
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
        let mut record = Record { file: None, said: HashMap::new() };
        let Some(path) = path else { return record };
        let mut options = OpenOptions::new();
        record.file = options.create(true).append(true).mode(0o600).open(path).ok();
        // Asked before it is read: whoever ends in between has written what became of its tries.
        let is_alone = record.file.as_ref().is_some_and(is_alone);
        for line in read(path) {
            record.said.entry((line.key, line.way)).or_default().take(line.at, line.outcome);
        }
        if is_alone {
            record.said.values_mut().for_each(Said::forget_unknown);
        }
        if let Some(file) = &mut record.file {
            // Nobody is alone for longer than it takes to read.
            file.lock_shared().ok();
            // A line that a crash tore ends here.
            file.write_all(b"\n").ok();
        }
        record
    }

    /// The try that may now be made; nothing if none may.
    pub(super) fn begin(&mut self, notice: &Notice, way: &str, at: Timestamp) -> Option<Try> {
        let said = self.said.entry((notice.key.clone(), way.to_owned())).or_default();
        if !said.is_due(notice.occasion, at) {
            return None;
        }
        let reminder = said.times;
        said.take(at, Outcome::Sending);
        let number = said.tries;
        self.write(&Line {
            at,
            key: notice.key.clone(),
            way: way.to_owned(),
            attempt: number,
            outcome: Outcome::Sending,
            error: None,
        });
        Some(Try { number, reminder })
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
        self.said.entry((key.clone(), way.clone())).or_default().take(at, outcome);
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
