//! What a server says beside its answers: its standard error, its progress, its start and its end.
//!
//! Owns one file for each server, of bounded size, and its last words for an error message. Refuses to write a key: what
//! is known to be one is struck out first.

use std::collections::VecDeque;
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
    last_words: Mutex<LastWords>,
}

/// What the server printed since it was last asked for: the last lines, and the first one that says an error.
#[derive(Default)]
struct LastWords {
    error: Option<String>,
    last: VecDeque<String>,
}

impl Log {
    pub(super) fn new(path: Option<PathBuf>, strike: Strike) -> Log {
        Log(Arc::new(Inner { path, strike, last_words: Mutex::default() }))
    }

    /// The file, if anything was ever written to it.
    pub(super) fn path(&self) -> Option<&Path> {
        self.0.path.as_deref().filter(|path| path.is_file())
    }

    /// A text as it may be shown.
    pub(super) fn struck(&self, text: &str) -> String {
        (self.0.strike)(text)
    }

    /// A line of ours. A log that cannot be written is missed by nobody but the reader of the log.
    pub(super) fn note(&self, text: &str) {
        drop(self.write(&format!("-- {}", (self.0.strike)(text))));
    }

    /// A line of the server's own.
    pub(super) fn heard(&self, text: &str) {
        let clean = (self.0.strike)(text);
        self.0.last_words.lock().unwrap_or_else(PoisonError::into_inner).hear(&clean);
        drop(self.write(&clean));
    }

    /// What the server printed last, if anything since this was last asked.
    pub(super) fn take_last_words(&self) -> Option<String> {
        std::mem::take(&mut *self.0.last_words.lock().unwrap_or_else(PoisonError::into_inner)).quoted()
    }

    /// The same as the end of a sentence; nothing if it said nothing.
    pub(super) fn quoted(&self) -> String {
        self.take_last_words().map_or(String::new(), |words| format!("; it said: {words}"))
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

impl LastWords {
    /// Brackets and carets alone say nothing.
    fn hear(&mut self, text: &str) {
        if !text.chars().any(char::is_alphanumeric) {
            return;
        }
        let said = line(text);
        if self.error.is_none() && says_an_error(&said) {
            self.error = Some(said.clone());
        }
        self.last.push_back(said);
        self.keep(limits::LAST_LINES_MAX, limits::LAST_WORDS_BYTES_MAX);
    }

    /// All in one line, which fits into a sentence. The error comes first if it is too long ago to be among the last lines.
    fn quoted(mut self) -> Option<String> {
        let error = self.error.take().filter(|error| !self.last.contains(error));
        if let Some(error) = &error {
            let bytes = limits::LAST_WORDS_BYTES_MAX.saturating_sub(error.len());
            self.keep(limits::LAST_LINES_MAX - 1, bytes);
        }
        let gap = error.is_some().then(|| "…".to_owned());
        let lines: Vec<String> = error.into_iter().chain(gap).chain(self.last).collect();
        (!lines.is_empty()).then(|| lines.join(" ⏎ "))
    }

    fn keep(&mut self, lines_max: usize, bytes_max: usize) {
        let bytes = |lines: &VecDeque<String>| lines.iter().map(String::len).sum::<usize>();
        while self.last.len() > lines_max || bytes(&self.last) > bytes_max {
            self.last.pop_front();
        }
    }
}

/// Makes the directory of pins and logs if it is not there, for its owner alone.
pub(super) fn make_dir(path: &Path) -> std::io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Programs that break say what it was first, and then where, down to a closing bracket.
fn says_an_error(line: &str) -> bool {
    let line = line.to_ascii_lowercase();
    ["error:", "error[", "error [", "exception:", "fatal:", "panicked at"]
        .iter()
        .any(|word| line.contains(word))
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
        let long = "x".repeat(100_000);
        for _ in 0..30 {
            log.heard(&long);
        }
        let size = |path: &PathBuf| fs::metadata(path).unwrap().len();
        let all = size(&path) + size(&path.with_extension("log.1"));
        assert!(all <= 2 * (limits::LOG_BYTES_MAX + 100_001), "{all}");
    }

    /// What is quoted of a server shows why it ended, also where no file holds all of it: its last lines, and its error.
    #[test]
    fn last_words_say_what_went_wrong() {
        let said = |lines: &[&str]| {
            let log = Log::new(None, Arc::new(|text| text.replace("sk-canary", "[secret]")));
            lines.iter().for_each(|line| log.heard(line));
            log.take_last_words().unwrap_or_default()
        };
        assert_eq!(said(&["one", "", "  ^", "}"]), "one");
        assert_eq!(
            said(&["settings.json:3", "  no brace behind sk-canary", "  ^", "}"]),
            "settings.json:3 ⏎ no brace behind [secret]"
        );
        let node = [
            "loader:1228",
            "  throw err;",
            "",
            "Error [ERR_X]: no package 'x'",
            "  at 1",
            "  at 2",
            "  at 3 {",
        ];
        let end = ["  code: 'E'", "}", "", "Node.js v20"];
        assert_eq!(
            said(&[&node[..], &end].concat()),
            "loader:1228 ⏎ throw err; ⏎ Error [ERR_X]: no package 'x' ⏎ at 1 ⏎ at 2 ⏎ at 3 { ⏎ code: 'E' ⏎ Node.js v20"
        );
        let deep = ["  at 4", "  at 5", "  at 6", "  at 7"];
        assert_eq!(
            said(&[&node[..], &deep, &end].concat()),
            "Error [ERR_X]: no package 'x' ⏎ … ⏎ at 3 { ⏎ at 4 ⏎ at 5 ⏎ at 6 ⏎ at 7 ⏎ code: 'E' ⏎ Node.js v20"
        );
        let long = "x".repeat(limits::LINE_BYTES_MAX);
        let error = format!("fatal: {long}");
        let all = said(&[&[error.as_str()][..], &[long.as_str(); 9]].concat());
        assert!(
            all.starts_with("fatal: x") && all.len() <= limits::LAST_WORDS_BYTES_MAX + 64,
            "{}",
            all.len()
        );
    }
}
