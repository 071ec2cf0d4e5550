//! Names and words that come from a server, made fit for providers, terminals and people.
//!
//! Owns `server__tool`, and lines of bounded length. Refuses to let two tools have one name.

use std::collections::BTreeSet;

use longhaul_core::text::visible;
use longhaul_workspace::digest_of;

use super::limits;

/// Between the server's name and the tool's. No built-in tool has it in its name, so none can be shadowed.
pub const DIVIDER: &str = "__";

/// The name a model uses for a tool, among those that are `taken`. A name no provider would take (spaces, other scripts,
/// too long) is made plain; if it then is like another, it gets a part of its own digest, so it is the same every time.
pub(super) fn tool_name(server: &str, tool: &str, taken: &BTreeSet<String>) -> String {
    let plain: String = tool.chars().map(|letter| if is_plain(letter) { letter } else { '_' }).collect();
    let name = format!("{server}{DIVIDER}{plain}");
    let fits = name.len() <= limits::TOOL_NAME_BYTES_MAX && !plain.is_empty();
    if fits && !taken.contains(&name) {
        return name;
    }
    let digest = digest_of(tool.as_bytes());
    let tail = format!("_{}", &digest[..8]);
    let room = limits::TOOL_NAME_BYTES_MAX - tail.len();
    format!("{}{tail}", name.get(..room).unwrap_or(&name))
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_')
}

/// One line of at most [`limits::LINE_BYTES_MAX`] bytes, fit for a terminal.
pub(super) fn line(text: &str) -> String {
    let one: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    cut(visible(one.trim()), limits::LINE_BYTES_MAX)
}

/// What the protocol's library says of an error, in words: without the types it is made of.
pub(super) fn plainly(error: &str) -> String {
    if error.contains("error sending request for url") {
        return "nothing answers at its address".to_owned();
    }
    let (marks, rest) = ("Transport [", "] error: ");
    let typed = error.find(marks).and_then(|start| Some((start, start + error[start..].find(rest)?)));
    match typed {
        Some((start, end)) => line(&format!("{}{}", &error[..start], &error[end + rest.len()..])),
        None => line(error),
    }
}

/// The start of a text that is too long, with a sign that it goes on.
pub(super) fn cut(text: String, bytes: usize) -> String {
    if text.len() <= bytes {
        return text;
    }
    let end = (0..=bytes).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No reader needs to know what the protocol's library is made of.
    #[test]
    fn errors_are_said_without_types() {
        let typed =
            "Send message error Transport [rmcp::transport::worker::WorkerTransport<X<[u8]>>] error: ";
        for (said, meant) in [
            (
                "Client error: error sending request for url (http://127.0.0.1:9/), when send",
                "nothing answers at its address",
            ),
            (
                "Unexpected content type: None, when send",
                "Send message error Unexpected content type: None, when send",
            ),
        ] {
            assert_eq!(plainly(&format!("{typed}{said}")), meant);
        }
        assert_eq!(plainly("connection closed: initialize"), "connection closed: initialize");
    }

    /// D6.8, D11.17, A59: a server's tools have names of their own, whatever it calls them.
    #[test]
    fn every_tool_gets_a_name_that_providers_take_and_no_other_has() {
        let mut taken = BTreeSet::new();
        let long = "x".repeat(200);
        for tool in ["read", "read file", "read_file", "read:file", "дом", "", long.as_str(), "a/../b"] {
            let name = tool_name("srv", tool, &taken);
            assert!(name.starts_with("srv__"), "{name}");
            assert!(name.len() <= limits::TOOL_NAME_BYTES_MAX, "{name}");
            assert!(name.chars().all(is_plain), "{name}");
            assert!(taken.insert(name.clone()), "{name}");
        }
        assert!(taken.contains("srv__read") && taken.contains("srv__read_file"));
        assert_eq!(tool_name("srv", "read:file", &taken), tool_name("srv", "read:file", &taken));
    }

    /// A68: what a server says is one short line without anything hidden in it.
    #[test]
    fn a_line_is_short_and_hides_nothing() {
        assert_eq!(line("a\u{202E}b"), "a\\u{202e}b");
        assert_eq!(line(" one\n\u{7}two "), "one  two");
        assert_eq!(cut("дом".into(), 3), "д…");
    }
}
