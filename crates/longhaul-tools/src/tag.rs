//! A short name for a file's content.
//!
//! Owns the tag that the file tools show and that `edit` takes as `expect`: the first letters of the content's digest. Which
//! one an agent has seen last is found in the results that it was given, so nothing else has to be remembered between calls to
//! know whether a file is still what was read. Refuses to protect against somebody who makes two contents with one tag: it is
//! against accidents.

use std::path::Path;

use longhaul_core::json::Json;
use longhaul_core::tool::Outcome;

use crate::{limits, really};

/// A call that was made before, as far as it tells what an agent has seen.
#[derive(Clone, Copy, Debug)]
pub struct Earlier<'a> {
    pub tool: &'a str,
    pub args: &'a Json,
    pub outcome: &'a Outcome,
}

/// The tag of a file as these calls, the last of them first, have shown or left it. `None` if none of them has, or the last that
/// was about it told no tag.
pub fn seen<'a>(root: &Path, args: &Json, calls: impl Iterator<Item = Earlier<'a>>) -> Option<String> {
    let path_in = |args: &Json| args.value().get("path")?.as_str().map(|path| really::plain(root, path));
    let path = path_in(args)?;
    let told = |call: Earlier<'_>| {
        let text = call.outcome.output().filter(|_| call.outcome.is_done())?.text.as_str();
        match call.tool {
            "read" | "edit" | "write" if path_in(call.args).as_ref() == Some(&path) => Some(last_tag(text)),
            "apply_patch" => text.lines().find(|line| names(root, line, &path)).map(last_tag),
            _ => None,
        }
    };
    { calls }.find_map(told)?
}

/// Whether a line of a patch's report is about this file.
fn names(root: &Path, line: &str, path: &Path) -> bool {
    let line = line.rsplit_once(" (tag ").map_or(line, |(line, _)| line);
    let ends = ["added ", "updated ", "deleted "].iter().filter_map(|word| line.strip_prefix(word));
    let moved = line.strip_prefix("moved ").and_then(|line| line.split_once(" to "));
    let named = ends.chain(moved.into_iter().flat_map(|(from, to)| [from, to]));
    { named }.any(|named| really::plain(root, named) == path)
}

/// The tag that a result ends with: `[tag x]` or `(tag x)`.
fn last_tag(text: &str) -> Option<String> {
    let (before, rest) = text.trim_end().rsplit_once("tag ")?;
    let tag = rest.strip_suffix([']', ')'])?;
    let is_tag = tag.len() == limits::TAG_LETTERS && tag.bytes().all(|byte| byte.is_ascii_hexdigit());
    (before.ends_with(['[', '(']) && is_tag).then(|| tag.to_owned())
}

/// The tag of the content with this digest.
pub(crate) fn of(digest: &str) -> String {
    digest.chars().take(limits::TAG_LETTERS).collect()
}

/// Whether the content with this digest is the one that was tagged so.
pub(crate) fn fits(tag: &str, digest: &str) -> bool {
    tag.trim().to_ascii_lowercase() == of(digest)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use longhaul_core::json::Json;
    use longhaul_core::tool::{Failure, Outcome};
    use serde_json::{Value, json};

    use super::{Earlier, seen};

    /// What was seen of `a.txt` after these calls.
    fn check(calls: &[(&str, Value, &str)], expected: Option<&str>) {
        let args = Json::of(&json!({ "path": "./a.txt" }));
        let made: Vec<(&str, Json, Outcome)> = calls
            .iter()
            .map(|(tool, args, text)| {
                let outcome = match text.strip_prefix("failed: ") {
                    Some(text) => Outcome::failed(Failure::Tool, text),
                    None => Outcome::done((*text).to_owned()),
                };
                (*tool, Json::of(args), outcome)
            })
            .collect();
        let earlier = made.iter().rev().map(|(tool, args, outcome)| Earlier { tool, args, outcome });
        assert_eq!(seen(Path::new("/ws"), &args, earlier).as_deref(), expected, "{calls:?}");
    }

    /// What an agent has seen of a file, or made of it, is in what it was told.
    #[test]
    fn the_last_tag_of_a_file_counts() {
        let a = || json!({ "path": "a.txt" });
        let read = ("read", a(), "1\tx\n[tag 0123456789]\n");
        check(&[], None);
        check(std::slice::from_ref(&read), Some("0123456789"));
        check(&[("read", json!({ "path": "/ws/a.txt" }), read.2)], Some("0123456789"));
        check(&[("read", json!({ "path": "b.txt" }), read.2)], None);
        check(
            &[read.clone(), ("edit", a(), "edited a.txt: replaced 1 piece, at line 1 (tag aaaaaaaaaa)")],
            Some("aaaaaaaaaa"),
        );
        check(&[read.clone(), ("edit", a(), "failed: not found")], Some("0123456789"));
        check(&[read.clone(), ("write", a(), "wrote 1 bytes to a.txt (tag bbbbbbbbbb)")], Some("bbbbbbbbbb"));
        check(&[read.clone(), ("write", a(), "wrote 1 bytes to a.txt")], None);
        let patch = |text| ("apply_patch", json!({ "patch": "x" }), text);
        check(&[read.clone(), patch("added b\nupdated a.txt (tag cccccccccc)\n")], Some("cccccccccc"));
        check(&[read.clone(), patch("moved c.txt to a.txt (tag cccccccccc)\n")], Some("cccccccccc"));
        check(&[read.clone(), patch("updated ba.txt (tag cccccccccc)\n")], Some("0123456789"));
        check(&[read.clone(), patch("deleted a.txt\n")], None);
        check(&[read.clone(), ("read", a(), "an image")], None);
        check(&[read, ("bash", a(), "[tag dddddddddd]")], Some("0123456789"));
    }
}
