//! The shape of an event that brought a piece of text and nothing else. A reply is mostly such events, alike but for the
//! text, and reading each as JSON takes many times as long as finding it. What an event was once read to mean, another of
//! the same shape means too: the bytes around the text are compared, and only the text is read.
//!
//! It knows no protocol and guesses nothing: whatever does not fit exactly is read the long way.

use std::ops::Range;

/// One event with its framing, in the order of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mould(Vec<Part>);

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Exactly(Vec<u8>),
    Hole(Hole),
}

/// What may differ from one event to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hole {
    /// The inside of the string that is the piece.
    Text,
    Number,
    /// The inside of a string that nobody reads.
    Word,
    Spaces,
}

/// Fields that differ with every event and that no reader of ours looks at: a number of the event, and padding against
/// those who measure the lengths of pieces. Such a string before a colon can only be a key.
const PASSED_OVER: [(&[u8], Hole); 2] =
    [(br#","sequence_number":"#, Hole::Number), (br#","obfuscation":""#, Hole::Word)];

impl Mould {
    /// The mould of an event, given the place of its text, which must be the whole inside of a string.
    pub fn of(event: &[u8], text: Range<usize>) -> Option<Mould> {
        let quoted = event[..text.start].ends_with(b"\"") && event[text.end..].starts_with(b"\"");
        // A lone CR at the end may be half of a line's end.
        if !quoted || !event.ends_with(b"\n") {
            return None;
        }
        let mut parts = Vec::new();
        around(&event[..text.start], &mut parts);
        parts.push(Part::Hole(Hole::Text));
        // Some services pad with spaces before the last brace.
        let brace = event.iter().rposition(|byte| *byte == b'}')?.max(text.end);
        around(event[text.end..brace].trim_ascii_end(), &mut parts);
        parts.push(Part::Hole(Hole::Spaces));
        parts.push(Part::Exactly(event[brace..].to_vec()));
        Some(Mould(parts))
    }

    /// If `bytes` begin with an event of this shape, adds its text to `said`.
    pub fn fill(&self, bytes: &[u8], said: &mut String) -> Fit {
        let mut rest = bytes;
        let mut text = &[][..];
        for part in &self.0 {
            rest = match part {
                Part::Exactly(known) => match rest.strip_prefix(known.as_slice()) {
                    Some(rest) => rest,
                    None if known.starts_with(rest) => return Fit::SoFar,
                    None => return Fit::No,
                },
                Part::Hole(hole) => {
                    let Some(length) = hole.bytes(rest) else {
                        return if hole.goes_on(rest) { Fit::SoFar } else { Fit::No };
                    };
                    let (inside, after) = rest.split_at(length);
                    if *hole == Hole::Text {
                        text = inside;
                    }
                    after
                }
            };
        }
        match add_text(text, said) {
            Some(()) => Fit::Whole(bytes.len() - rest.len()),
            None => Fit::No,
        }
    }
}

/// How bytes fit a mould.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// So many of them are an event of its shape.
    Whole(usize),
    /// They end before it can be told.
    SoFar,
    No,
}

impl Hole {
    /// How much of what begins here belongs to the hole; nothing if it cannot be told.
    fn bytes(self, rest: &[u8]) -> Option<usize> {
        let run = |fits: fn(&u8) -> bool| rest.iter().position(|byte| !fits(byte));
        match self {
            Hole::Text => text_bytes(rest).filter(|bytes| *bytes > 0),
            // JSON has no zeros before a number.
            Hole::Number => {
                let digits = run(u8::is_ascii_digit)?;
                (digits > 0 && (digits == 1 || rest[0] != b'0')).then_some(digits)
            }
            Hole::Word => run(u8::is_ascii_alphanumeric),
            Hole::Spaces => run(|byte| *byte == b' '),
        }
    }

    /// Could what begins here and has no end yet still belong to the hole?
    fn goes_on(self, rest: &[u8]) -> bool {
        match self {
            Hole::Text => !rest.starts_with(b"\"") && rest.iter().all(|byte| *byte >= b' '),
            Hole::Number => rest.iter().all(u8::is_ascii_digit),
            Hole::Word => rest.iter().all(u8::is_ascii_alphanumeric),
            Hole::Spaces => rest.iter().all(|byte| *byte == b' '),
        }
    }
}

/// Takes bytes apart into what must be the same and what need not be.
fn around(bytes: &[u8], parts: &mut Vec<Part>) {
    let (mut done, mut at) = (0, 0);
    while at < bytes.len() {
        let key = PASSED_OVER.iter().find(|(key, _)| bytes[at..].starts_with(key));
        let value = key.and_then(|(key, hole)| {
            let begin = at + key.len();
            hole.bytes(&bytes[begin..]).map(|length| (begin..begin + length, *hole))
        });
        match value {
            Some((value, hole)) => {
                parts.push(Part::Exactly(bytes[done..value.start].to_vec()));
                parts.push(Part::Hole(hole));
                (done, at) = (value.end, value.end);
            }
            None => at += 1,
        }
    }
    parts.push(Part::Exactly(bytes[done..].to_vec()));
}

/// How long a string is up to its closing quote; nothing if that is not there or the string is not JSON.
fn text_bytes(rest: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match rest.get(at)? {
            b'"' => return Some(at),
            b'\\' => at += 2,
            ..b' ' => return None,
            _ => at += 1,
        }
    }
}

/// Adds the inside of a string. Escapes by number, which may come in pairs, are left to the reader of JSON.
fn add_text(inside: &[u8], said: &mut String) -> Option<()> {
    let mut rest = std::str::from_utf8(inside).ok()?;
    let before = said.len();
    while let Some(at) = rest.bytes().position(|byte| byte == b'\\') {
        said.push_str(&rest[..at]);
        let Some(plain) = rest.as_bytes().get(at + 1).copied().and_then(unescaped) else {
            said.truncate(before);
            return None;
        };
        said.push(plain);
        rest = &rest[at + 2..];
    }
    said.push_str(rest);
    Some(())
}

fn unescaped(letter: u8) -> Option<char> {
    match letter {
        b'"' | b'\\' | b'/' => Some(char::from(letter)),
        b'n' => Some('\n'),
        b't' => Some('\t'),
        b'r' => Some('\r'),
        b'b' => Some('\u{8}'),
        b'f' => Some('\u{c}'),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mould(event: &str, text: &str) -> Mould {
        let start = event.rfind(text).unwrap();
        Mould::of(event.as_bytes(), start..start + text.len()).unwrap()
    }

    fn filled(mould: &Mould, bytes: &str) -> Option<(usize, String)> {
        let mut said = String::from("before ");
        match mould.fill(bytes.as_bytes(), &mut said) {
            Fit::Whole(used) => Some((used, said.split_off(7))),
            Fit::SoFar | Fit::No => {
                assert_eq!(said, "before ", "nothing is added by what does not fit");
                None
            }
        }
    }

    #[test]
    fn only_the_text_and_what_nobody_reads_may_differ() {
        let event =
            "data: {\"t\":\"x\",\"sequence_number\":7,\"d\":\"Hello\",\"obfuscation\":\"aB\",\"l\":[] }\n\n";
        let mould = mould(event, "Hello");
        let with = |from: &str, to: &str| filled(&mould, &event.replace(from, to)).map(|(_, said)| said);
        assert_eq!(filled(&mould, &format!("{event}more")), Some((event.len(), "Hello".to_owned())));
        assert_eq!(with("Hello", "größer").as_deref(), Some("größer"));
        assert_eq!(with("Hello", r#"a\n\"b\\"#).as_deref(), Some("a\n\"b\\"));
        assert_eq!(with(":7", ":1234").as_deref(), Some("Hello"));
        assert_eq!(with("aB", "").as_deref(), Some("Hello"));
        assert_eq!(with(" }", "    }").as_deref(), Some("Hello"));
        let others = [
            ("Hello", ""),
            ("Hello", r"\u0041"),
            ("Hello", r"\x"),
            ("Hello", "a\tb"),
            ("Hello", "a\",\"e\":\"b"),
            (":7", ":07"),
            (":7", ":-7"),
            (":7", ":"),
            ("aB", r"\n"),
            ("aB", "a\",\"t\":\"b"),
            ("\"x\"", "\"y\""),
            ("[]", "[1]"),
            ("\n\n", "\n"),
        ];
        for (from, to) in others {
            assert_eq!(with(from, to), None, "{from} to {to}");
        }
        for cut in 0..event.len() {
            assert_eq!(filled(&mould, &event[..cut]), None, "cut at {cut}");
            assert_eq!(mould.fill(&event.as_bytes()[..cut], &mut String::new()), Fit::SoFar, "cut at {cut}");
        }
    }

    #[test]
    fn text_that_is_no_utf8_does_not_fit() {
        let mould = mould("data: {\"d\":\"Hello\"}\n\n", "Hello");
        let mut said = String::new();
        assert_eq!(mould.fill(b"data: {\"d\":\"\xff\"}\n\n", &mut said), Fit::No);
        assert_eq!(said, "");
    }

    #[test]
    fn an_event_whose_end_may_go_on_has_no_mould() {
        let event = b"data: {\"d\":\"Hello\"}\r\r";
        assert_eq!(Mould::of(event, 12..17), None);
        assert_eq!(Mould::of(b"data: {\"d\":\"Hello\"}\n\n", 13..17), None, "not the whole string");
    }
}
