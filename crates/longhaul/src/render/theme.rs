//! Labels to colours, in one place: green done, red failed, yellow warning, cyan hint. Readable without any.

use std::io::IsTerminal;

pub fn done(text: &str) -> String {
    paint("32", text)
}

pub fn failure(text: &str) -> String {
    paint("31", text)
}

pub fn warning(text: &str) -> String {
    paint("33", text)
}

pub fn hint(text: &str) -> String {
    paint("36", text)
}

/// Colours go to a terminal that wants them and nowhere else.
fn paint(colour: &str, text: &str) -> String {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
        || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    if unwanted || !std::io::stderr().is_terminal() {
        return text.to_owned();
    }
    format!("\x1b[{colour}m{text}\x1b[0m")
}
