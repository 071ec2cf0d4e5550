//! Everything that is printed. stdout is data, stderr is talk; nobody else prints.

pub mod graph;
pub mod live;
pub mod table;
pub mod theme;

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use longhaul_core::text::undisguised;
use serde::Serialize;

use crate::failure::Failure;

/// Set when data could not be printed. A flag for the whole process because stdout is one for the whole process, and
/// half a document that exits with 0 would be believed.
static DATA_LOST: AtomicBool = AtomicBool::new(false);

/// Did everything that was printed as data arrive?
pub fn all_data_printed() -> bool {
    print(b"");
    !DATA_LOST.load(Ordering::Relaxed)
}

/// Prints a line of data.
pub fn data(text: &str) {
    print(text.as_bytes());
    print(b"\n");
}

/// Prints what a model said. A file or a pipe gets what is there; a terminal would obey it.
pub fn words(text: &str) {
    if io::stdout().is_terminal() { data(&table::clean(text)) } else { data(text) }
}

/// Prints bytes of data as they are.
pub fn bytes(bytes: &[u8]) {
    print(bytes);
}

/// A reader that went away (`| head`) is not an error; a disk that is full is.
fn print(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => DATA_LOST.store(true, Ordering::Relaxed),
        Ok(()) | Err(_) => {}
    }
}

/// Prints one value as indented JSON.
pub fn json<T: Serialize>(value: &T) {
    data(&serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Prints one value as a line of JSON.
pub fn json_line<T: Serialize>(value: &T) {
    data(&serde_json::to_string(value).unwrap_or_default());
}

/// Prints a line of talk. Much of it quotes models, tools and files, so nothing in it reads as something else.
pub fn talk(text: &str) {
    let text = undisguised(text);
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// Prints what a person is to answer on the same line.
pub fn prompt(text: &str) {
    let text = undisguised(text);
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

pub fn warn(text: &str) {
    talk(&format!("{} {text}", theme::warning("warning:")));
}

pub fn hint(text: &str) {
    talk(&format!("{} {text}", theme::hint("hint:")));
}

/// The one place where errors are printed: what failed, why, and what to do about it.
pub fn failure(failure: &Failure) {
    talk(&format!("{} {}", theme::failure("error:"), failure.error));
    for cause in failure.error.chain().skip(1) {
        talk(&format!("  caused by: {cause}"));
    }
    if let Some(text) = &failure.hint {
        hint(text);
    }
}
