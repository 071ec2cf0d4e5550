//! Everything that is printed. stdout is data, stderr is talk; nobody else prints.

pub mod live;
pub mod table;
pub mod theme;

use std::io::{self, Write};

use serde::Serialize;

use crate::failure::Failure;

/// Prints a line of data. A reader that went away (`| head`) is not an error.
pub fn data(text: &str) {
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")));
}

/// Prints bytes of data as they are.
pub fn bytes(bytes: &[u8]) {
    drop(io::stdout().lock().write_all(bytes));
}

/// Prints one value as indented JSON.
pub fn json<T: Serialize>(value: &T) {
    data(&serde_json::to_string_pretty(value).unwrap_or_default());
}

/// Prints one value as a line of JSON.
pub fn json_line<T: Serialize>(value: &T) {
    data(&serde_json::to_string(value).unwrap_or_default());
}

/// Prints a line of talk.
pub fn talk(text: &str) {
    let mut out = io::stderr().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")));
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
