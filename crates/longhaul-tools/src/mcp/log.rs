//! What a server says beside its answers: its standard error, its progress, its start and its end.
//!
//! Owns one file for each server, of bounded size, and its last words for an error message. Refuses to write a key: what
//! is known to be one is struck out first.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::limits;
use super::names::line;

/// Takes out of a text what must not be written.
pub type Strike = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Log(Arc<Inner>);

struct Inner {
    path: Option<PathBuf>,
    strike: Strike,
    last_words: Mutex<String>,
}

impl Log {
    pub(super) fn new(path: Option<PathBuf>, strike: Strike) -> Log {
        Log(Arc::new(Inner { path, strike, last_words: Mutex::default() }))
    }

    /// The file, if anything was ever written to it.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.path.as_deref().filter(|path| path.is_file())
    }

    /// A line of ours. A log that cannot be written is missed by nobody but the reader of the log.
    pub(super) fn note(&self, text: &str) {
        drop(self.write(&format!("-- {}", (self.0.strike)(text))));
    }

    /// A line of the server's own.
    pub(super) fn heard(&self, text: &str) {
        let clean = (self.0.strike)(text);
        if !clean.trim().is_empty() {
            let mut words = self.0.last_words.lock().unwrap_or_else(PoisonError::into_inner);
            if !says_an_error(&words) {
                *words = line(&clean);
            }
        }
        drop(self.write(&clean));
    }

    /// What the server printed, if anything since it was last asked: the first line that says an error, else the last one.
    pub(super) fn take_last_words(&self) -> Option<String> {
        let words = std::mem::take(&mut *self.0.last_words.lock().unwrap_or_else(PoisonError::into_inner));
        (!words.is_empty()).then_some(words)
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let Some(path) = &self.0.path else { return Ok(()) };
        if fs::metadata(path).is_ok_and(|found| found.len() > limits::LOG_BYTES_MAX) {
            fs::rename(path, path.with_extension("log.1"))?;
        }
        let mut file = self.open(path)?;
        file.write_all(format!("{text}\n").as_bytes())
    }

    fn open(&self, path: &PathBuf) -> std::io::Result<File> {
        // For its owner alone: servers log what they are asked.
        let open = || OpenOptions::new().create(true).append(true).mode(0o600).open(path);
        open().or_else(|_| {
            make_dir(path.parent().unwrap_or(path))?;
            open()
        })
    }
}

/// Makes the directory of pins and logs if it is not there, for its owner alone.
pub(super) fn make_dir(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Programs that break say what it was first, and then where, down to a closing bracket.
fn says_an_error(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["error:", "error[", "exception:", "fatal:", "panicked at"].iter().any(|word| line.contains(word))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_log_is_bounded_and_holds_no_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mcp/s.log");
        let strike: Strike = Arc::new(|text| text.replace("sk-canary", "[secret]"));
        let log = Log::new(Some(path.clone()), strike);
        log.note("started with sk-canary");
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700), "for its owner alone");
        log.heard("my key is sk-canary\u{1b}[31m");
        assert_eq!(log.take_last_words().as_deref(), Some("my key is [secret] [31m"));
        assert_eq!(log.take_last_words(), None);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("[secret]") && !text.contains("canary"), "{text}");
        for line in [
            "loader:1228",
            "  throw err;",
            "Error: Cannot find module 'x'",
            "    at load",
            "  code: 'E'",
            "}",
        ] {
            log.heard(line);
        }
        assert_eq!(log.take_last_words().as_deref(), Some("Error: Cannot find module 'x'"));
        let long = "x".repeat(100_000);
        for _ in 0..30 {
            log.heard(&long);
        }
        let size = |path: &PathBuf| fs::metadata(path).unwrap().len();
        let all = size(&path) + size(&path.with_extension("log.1"));
        assert!(all <= 2 * (limits::LOG_BYTES_MAX + 100_001), "{all}");
    }
}
