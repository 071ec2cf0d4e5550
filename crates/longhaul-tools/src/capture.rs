//! What is kept of an output of any length.
//!
//! Owns the bound: the first and the last MiB, however much comes. Refuses to understand the bytes; they become text
//! only when shown, with what is not UTF-8 (and NUL, which many programs choke on) shown as `\u{FFFD}`.

use crate::limits;

#[derive(Default)]
pub(crate) struct Capture {
    head: Vec<u8>,
    /// May hold twice what is kept, so that dropping the old half is rare.
    tail: Vec<u8>,
    total: u64,
    /// Only counts.
    keeps_nothing: bool,
}

impl Capture {
    pub(crate) fn of_nothing() -> Capture {
        Capture { keeps_nothing: true, ..Capture::default() }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.keeps_nothing {
            return;
        }
        let room = (limits::OUTPUT_HEAD_BYTES_MAX - self.head.len()).min(bytes.len());
        let (first, rest) = bytes.split_at(room);
        self.head.extend_from_slice(first);
        self.tail.extend_from_slice(rest);
        if self.tail.len() > 2 * limits::OUTPUT_TAIL_BYTES_MAX {
            // A mark may still be taken off the end.
            let surplus = self.tail.len() - limits::OUTPUT_TAIL_BYTES_MAX - limits::MARK_BYTES_MAX;
            self.tail.drain(..surplus);
        }
    }

    /// The same with other bytes before it.
    pub(crate) fn after(self, bytes: &[u8]) -> Capture {
        let mut capture = Capture::default();
        capture.push(bytes);
        let (tail, lost) = (self.kept_tail(), self.lost());
        capture.push(&self.head);
        // What was lost stands before the tail, and stays counted.
        capture.total += lost;
        capture.push(tail);
        capture
    }

    /// Is there a NUL among the first bytes, as in what is no text?
    pub(crate) fn starts_binary(&self, bytes: usize) -> bool {
        self.head.iter().take(bytes).any(|byte| *byte == 0)
    }

    /// Length of all that came.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes between head and tail that are lost.
    pub(crate) fn lost(&self) -> u64 {
        self.total - self.head.len() as u64 - self.kept_tail().len() as u64
    }

    /// All of it as text, if that is no longer than `room`.
    pub(crate) fn whole(&self, room: usize) -> Option<String> {
        if self.total > room as u64 {
            return None;
        }
        let text = readable(&self.first(room));
        (text.len() <= room).then_some(text)
    }

    /// All of it as text if that fits into `room` bytes, else its start and end with `note` between them.
    pub(crate) fn clipped(&self, room: usize, note: &str) -> String {
        if let Some(whole) = self.whole(room) {
            return whole;
        }
        let half = room.saturating_sub(note.len()) / 2;
        let (start, end) = (readable(&self.first(room)), readable(&self.last(room)));
        format!("{}{note}{}", prefix(&start, half), suffix(&end, half))
    }

    /// All that is kept, with a line in place of what is lost.
    pub(crate) fn kept(&self) -> Vec<u8> {
        let mut kept = self.head.clone();
        if self.lost() > 0 {
            kept.extend_from_slice(format!("\n[{} bytes are not kept]\n", self.lost()).as_bytes());
        }
        kept.extend_from_slice(self.kept_tail());
        kept
    }

    /// Takes off the end what begins with the last `mark` there, and answers what comes after it.
    pub(crate) fn take_mark(&mut self, mark: &[u8]) -> Option<Vec<u8>> {
        let end = self.last(limits::MARK_BYTES_MAX);
        let place = memchr::memmem::rfind(&end, mark)?;
        Some(self.take_end(end.len() - place).split_off(mark.len()))
    }

    /// Takes off the last bytes, of the few that a mark may have.
    pub(crate) fn take_end(&mut self, bytes: usize) -> Vec<u8> {
        let end = self.last(bytes.min(limits::MARK_BYTES_MAX));
        let of_tail = end.len().min(self.tail.len());
        self.tail.truncate(self.tail.len() - of_tail);
        self.head.truncate(self.head.len() - (end.len() - of_tail));
        self.total -= end.len() as u64;
        end
    }

    /// The last bytes, of the few that a mark may have.
    pub(crate) fn end(&self) -> Vec<u8> {
        self.last(limits::MARK_BYTES_MAX)
    }

    fn kept_tail(&self) -> &[u8] {
        &self.tail[self.tail.len().saturating_sub(limits::OUTPUT_TAIL_BYTES_MAX)..]
    }

    fn first(&self, count: usize) -> Vec<u8> {
        self.head.iter().chain(self.kept_tail()).take(count).copied().collect()
    }

    /// `count` is far below what the tail keeps, so head and tail meet here only when nothing is lost.
    fn last(&self, count: usize) -> Vec<u8> {
        let from_head = count.saturating_sub(self.kept_tail().len()).min(self.head.len());
        let from_tail = count.min(self.kept_tail().len());
        let head = &self.head[self.head.len() - from_head..];
        [head, &self.kept_tail()[self.kept_tail().len() - from_tail..]].concat()
    }
}

fn readable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{FFFD}")
}

fn prefix(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

fn suffix(text: &str, bytes: usize) -> &str {
    let start = (text.len().saturating_sub(bytes)..text.len()).find(|start| text.is_char_boundary(*start));
    &text[start.unwrap_or(text.len())..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(parts: &[&[u8]]) -> Capture {
        let mut capture = Capture::default();
        for part in parts {
            capture.push(part);
        }
        capture
    }

    #[test]
    fn a_short_output_is_kept_whole() {
        let capture = captured(&[b"one ", b"\xfftwo\0"]);
        assert_eq!(capture.whole(100).as_deref(), Some("one \u{FFFD}two\u{FFFD}"));
        assert_eq!(capture.clipped(100, "[…]"), "one \u{FFFD}two\u{FFFD}");
        assert_eq!(capture.kept(), b"one \xfftwo\0");
        assert_eq!((capture.total(), capture.lost()), (9, 0));
    }

    #[test]
    fn text_that_grows_when_shown_is_still_bounded_and_shown_once() {
        let capture = captured(&[b"ab", &[0xff; 60], b"yz"]);
        assert_eq!(capture.whole(100), None);
        let text = capture.clipped(100, "..");
        assert!(
            text.len() <= 100 && text.starts_with("ab\u{FFFD}") && text.ends_with("\u{FFFD}yz"),
            "{text}"
        );
    }

    #[test]
    fn start_and_end_of_a_long_output_are_kept_and_the_rest_is_counted() {
        let mut capture = captured(&[b"start"]);
        let block = vec![b'x'; 300_000];
        for _ in 0..100 {
            capture.push(&block);
        }
        capture.push(b"end");
        assert_eq!(capture.total(), 30_000_008);
        let kept = capture.kept();
        assert!(kept.starts_with(b"startxxx") && kept.ends_with(b"xxxend"));
        let lost = capture.total() - (limits::OUTPUT_HEAD_BYTES_MAX + limits::OUTPUT_TAIL_BYTES_MAX) as u64;
        assert_eq!(capture.lost(), lost);
        let text = capture.clipped(1000, "[…]");
        assert!(text.len() <= 1000 && text.starts_with("startx") && text.ends_with("xend"));
        assert!(capture.tail.capacity() <= 5 * limits::OUTPUT_TAIL_BYTES_MAX);
    }

    #[test]
    fn a_mark_at_the_end_is_taken_off() {
        let mut capture = captured(&[b"printed\n", b"<>/old<>/a/b"]);
        assert_eq!(capture.take_mark(b"<>").as_deref(), Some(&b"/a/b"[..]));
        assert_eq!(capture.whole(100).as_deref(), Some("printed\n<>/old"));
        assert_eq!(captured(&[b"printed"]).take_mark(b"<>"), None);
        let head = vec![b'h'; limits::OUTPUT_HEAD_BYTES_MAX - 1];
        let mut split = captured(&[&head, b"<>/a"]);
        assert_eq!(split.take_mark(b"<>").as_deref(), Some(&b"/a"[..]));
        assert_eq!((split.total(), split.lost()), (head.len() as u64, 0));
    }

    #[test]
    fn the_end_is_found_where_head_and_tail_meet() {
        let head = vec![b'h'; limits::OUTPUT_HEAD_BYTES_MAX];
        let capture = captured(&[&head, b"tail"]);
        assert_eq!(capture.last(6), b"hhtail");
        assert_eq!(capture.lost(), 0);
    }
}
