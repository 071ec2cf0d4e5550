//! The shape of an event that brought a piece of text and nothing else. A reply is mostly such events, alike but for the
//! text, and reading each as JSON takes many times as long as finding it. What an event was once read to mean, another of
//! the same shape means too: the bytes around the text are compared, and only the text is read.
//!
//! It knows no protocol and guesses nothing: whatever does not fit exactly is read the long way.

use std::ops::Range;

use super::lanes::{self, LANES};
use super::said::Said;

/// One event with its framing, in the order of its bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mould {
    before: Vec<Differing>,
    /// What stands before the inside of the string that is the piece.
    text: Vec<u8>,
    after: Vec<Differing>,
    end: Vec<u8>,
    /// Where the end has the brace before which some services pad with spaces.
    brace: usize,
}

/// A place in an event that may differ from one to the next, and what stands before it.
#[derive(Debug, PartialEq, Eq)]
struct Differing {
    known: Vec<u8>,
    unread: Unread,
}

/// What nobody reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unread {
    Number,
    /// The inside of a string, if that is ASCII without escapes.
    Word,
}

/// Fields that differ with every event and that no reader of ours looks at: a number of the event, and padding against
/// those who measure the lengths of pieces. Such a string before a colon can only be a key.
const PASSED_OVER: [(&[u8], Unread); 2] =
    [(br#","sequence_number":"#, Unread::Number), (br#","obfuscation":""#, Unread::Word)];

impl Mould {
    /// The mould of an event, given the place of its text, which must be the whole inside of a string.
    pub fn of(event: &[u8], text: Range<usize>) -> Option<Mould> {
        let quoted = event[..text.start].ends_with(b"\"") && event[text.end..].starts_with(b"\"");
        // A lone CR at the end may be half of a line's end.
        if !quoted || !event.ends_with(b"\n") {
            return None;
        }
        let brace = event.iter().rposition(|byte| *byte == b'}')?.max(text.end);
        // Only spaces: what stands before a line's end may be another line's.
        let padding = event[text.end..brace].iter().rev().take_while(|byte| **byte == b' ').count();
        let padded = brace - padding;
        let (before, begin) = around(event, 0..text.start);
        let (after, mut end) = around(event, text.end..padded);
        let brace_in_end = end.len();
        end.extend_from_slice(&event[brace..]);
        Some(Mould { before, text: begin, after, end, brace: brace_in_end })
    }

    /// How long most events of this shape are at most: the text of a piece is shorter than what is around it.
    pub fn bytes_mostly(&self) -> usize {
        let differing = self.before.iter().chain(&self.after).map(|differing| differing.known.len());
        2 * (differing.sum::<usize>() + self.text.len() + self.end.len())
    }

    /// If `bytes` begin with an event of this shape, tells where that ends and adds its text to `said`; whether the text
    /// is UTF-8 is not asked.
    pub fn fill(&self, bytes: &[u8], said: &mut Said) -> Result<usize, Misfit> {
        let before = said.end();
        self.end_of(bytes, said).inspect_err(|_| said.cut(before))
    }

    fn end_of(&self, bytes: &[u8], said: &mut Said) -> Result<usize, Misfit> {
        let at = pass(&self.before, bytes, 0)?;
        let at = after(&self.text, bytes, at)?;
        let Some(length) = add_text(&bytes[at..], said) else { return Err(text_misfit(&bytes[at..])) };
        let at = pass(&self.after, bytes, at + length)?;
        after(&self.end, bytes, at).or_else(|_| self.padded_end(bytes, at))
    }

    fn padded_end(&self, bytes: &[u8], at: usize) -> Result<usize, Misfit> {
        let (known, end) = self.end.split_at(self.brace);
        let at = after(known, bytes, at)?;
        let spaces = bytes[at..].iter().take_while(|byte| **byte == b' ').count();
        after(end, bytes, at + spaces)
    }
}

/// How bytes do not fit a mould.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// They end before it can be told.
    SoFar,
    No,
}

impl Misfit {
    fn so_far(fits: bool) -> Misfit {
        if fits { Misfit::SoFar } else { Misfit::No }
    }
}

impl Unread {
    /// How much of what begins here belongs to it; nothing if it cannot be told.
    #[inline(always)]
    fn bytes(self, rest: &[u8]) -> Option<usize> {
        let one_by_one = || rest.iter().position(|byte| !self.has(*byte));
        match self {
            Unread::Number => {
                let digits = lanes::run(rest, lanes::digits).or_else(one_by_one)?;
                // JSON has no zeros before a number.
                (digits > 0 && (digits == 1 || rest[0] != b'0')).then_some(digits)
            }
            Unread::Word => lanes::run(rest, lanes::word).or_else(one_by_one),
        }
    }

    #[cold]
    fn misfit(self, rest: &[u8]) -> Misfit {
        Misfit::so_far(rest.iter().all(|byte| self.has(*byte)))
    }

    fn has(self, byte: u8) -> bool {
        match self {
            Unread::Number => byte.is_ascii_digit(),
            Unread::Word => matches!(byte, b' '..0x80) && !matches!(byte, b'"' | b'\\'),
        }
    }
}

/// Where all of these end, if they begin at `at`.
#[inline(always)]
fn pass(all: &[Differing], bytes: &[u8], mut at: usize) -> Result<usize, Misfit> {
    for Differing { known, unread } in all {
        at = after(known, bytes, at)?;
        at += unread.bytes(&bytes[at..]).ok_or_else(|| unread.misfit(&bytes[at..]))?;
    }
    Ok(at)
}

/// Where what is known ends, if it begins at `at`.
#[inline(always)]
fn after(known: &[u8], bytes: &[u8], at: usize) -> Result<usize, Misfit> {
    let end = at + known.len();
    match bytes.get(at..end) {
        Some(here) if lanes::same(here, known) => Ok(end),
        Some(_) => Err(Misfit::No),
        None => Err(Misfit::so_far(known.starts_with(&bytes[at..]))),
    }
}

/// Takes a part of an event apart into what may differ and what follows the last of that.
fn around(event: &[u8], part: Range<usize>) -> (Vec<Differing>, Vec<u8>) {
    let mut all = Vec::new();
    let (mut done, mut at) = (part.start, part.start);
    while at < part.end {
        let key = PASSED_OVER.iter().find(|(key, _)| event[at..part.end].starts_with(key));
        let value = key.and_then(|(key, unread)| {
            let begin = at + key.len();
            unread.bytes(&event[begin..]).map(|length| (begin..begin + length, *unread))
        });
        match value.filter(|(value, _)| value.end <= part.end) {
            Some((value, unread)) => {
                all.push(Differing { known: event[done..value.start].to_vec(), unread });
                (done, at) = (value.end, value.end);
            }
            None => at += 1,
        }
    }
    (all, event[done..part.end].to_vec())
}

/// Adds the inside of a string up to its closing quote and tells how long it is; nothing if it is empty, has no end, is
/// not JSON, or has escapes by number: those may come in pairs and are left to the reader of JSON. Nor if it begins inside of a
/// character: then pieces that are text together are text one by one.
fn add_text(rest: &[u8], said: &mut Said) -> Option<usize> {
    if matches!(rest.first(), Some(0x80..0xC0)) {
        return None;
    }
    let mut at = 0;
    loop {
        while let Some(lanes) = rest[at..].first_chunk() {
            let plain = lanes::plain(*lanes);
            said.add_some(lanes, plain);
            at += plain;
            if plain < LANES {
                break;
            }
        }
        match *rest.get(at)? {
            b'"' => return Some(at).filter(|bytes| *bytes > 0),
            b'\\' => {
                said.add(unescaped(*rest.get(at + 1)?)?);
                at += 2;
            }
            ..b' ' => return None,
            byte => {
                said.add(byte);
                at += 1;
            }
        }
    }
}

/// Could what begins here and has no end yet still be the inside of a string?
#[cold]
fn text_misfit(rest: &[u8]) -> Misfit {
    Misfit::so_far(!rest.starts_with(b"\"") && rest.iter().all(|byte| *byte >= b' '))
}

fn unescaped(letter: u8) -> Option<u8> {
    match letter {
        b'"' | b'\\' | b'/' => Some(letter),
        b'n' => Some(b'\n'),
        b't' => Some(b'\t'),
        b'r' => Some(b'\r'),
        b'b' => Some(0x8),
        b'f' => Some(0xc),
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
        let mut said = Said::default();
        b"before ".iter().for_each(|byte| said.add(*byte));
        match mould.fill(bytes.as_bytes(), &mut said) {
            Ok(used) => Some((used, said.text().unwrap()[7..].to_owned())),
            Err(_) => {
                assert_eq!(said.text(), Some("before "), "nothing is added by what does not fit");
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
        assert_eq!(with("aB", "-_ /+=~.{}").as_deref(), Some("Hello"));
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
            ("aB", "é"),
            ("aB", "a\tb"),
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
            let cut_off = mould.fill(&event.as_bytes()[..cut], &mut Said::default());
            assert_eq!(cut_off, Err(Misfit::SoFar), "cut at {cut}");
        }
    }

    #[test]
    fn a_number_may_stand_last() {
        let event = "data: {\"d\":\"Hello\",\"sequence_number\":7}\n\n";
        let mould = mould(event, "Hello");
        let said = |bytes: &str| filled(&mould, bytes).map(|(_, said)| said);
        assert_eq!(said(&event.replace(":7", ":10")).as_deref(), Some("Hello"));
        assert_eq!(said(&event.replace(":7", ":10  ")).as_deref(), Some("Hello"));
        assert_eq!(said(&event.replace(":7", ":1.5")), None);
    }

    /// Texts and words are looked at in lanes where so many bytes follow, else one by one.
    #[test]
    fn pieces_of_every_length_fit() {
        let event = "data: {\"d\":\"Hello\",\"obfuscation\":\"aB\"}\n\n";
        let mould = mould(event, "Hello");
        for length in 1..40 {
            let (text, word) = ("é".repeat(length), "w".repeat(length));
            let bytes = event.replace("Hello", &text).replace("aB", &word);
            assert_eq!(filled(&mould, &bytes), Some((bytes.len(), text)));
            let bytes = event.replace("Hello", &format!("{word}\\/{word}"));
            assert_eq!(filled(&mould, &bytes), Some((bytes.len(), format!("{word}/{word}"))));
        }
    }

    /// The last brace may stand in a line that is no data, where it closes nothing.
    #[test]
    fn a_brace_of_another_line_stays_there() {
        let event = "data: {\"d\":\"Hello\"}\n}\n\n";
        let mould = mould(event, "Hello");
        let said = |bytes: &str| filled(&mould, bytes).map(|(_, said)| said);
        assert_eq!(said(&event.replace("Hello", "X")).as_deref(), Some("X"));
        assert_eq!(said("data: {\"d\":\"X\"}}\n\n"), None);
        assert_eq!(said("data: {\"d\":\"X\"} }\n\n"), None);
    }

    #[test]
    fn an_event_whose_end_may_go_on_has_no_mould() {
        let event = b"data: {\"d\":\"Hello\"}\r\r";
        assert_eq!(Mould::of(event, 12..17), None);
        assert_eq!(Mould::of(b"data: {\"d\":\"Hello\"}\n\n", 13..17), None, "not the whole string");
    }
}
