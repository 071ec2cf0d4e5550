//! The texts of many pieces, one after another, in room that is kept from chunk to chunk.

use super::lanes::LANES;

#[derive(Debug, Default)]
pub(super) struct Said {
    /// What is behind the end is of no meaning.
    room: Vec<u8>,
    end: usize,
}

impl Said {
    pub fn end(&self) -> usize {
        self.end
    }

    /// Forgets what was added since the end was there.
    pub fn cut(&mut self, end: usize) {
        self.end = end;
    }

    pub fn add(&mut self, byte: u8) {
        self.make_room();
        self.room[self.end] = byte;
        self.end += 1;
    }

    /// Adds the first of these. All are copied: copying as many as there are would be a call for each piece.
    pub fn add_some(&mut self, bytes: &[u8; LANES], count: usize) {
        self.make_room();
        self.room[self.end..self.end + LANES].copy_from_slice(bytes);
        self.end += count;
    }

    /// What was added, if it is text.
    pub fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.room[..self.end]).ok()
    }

    fn make_room(&mut self) {
        if self.room.len() < self.end + LANES {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        self.room.resize(2 * self.end + 64 * LANES, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_text(said: &mut Said, text: &[u8]) {
        for bytes in text.chunks(LANES) {
            // What follows in the event is copied too, and may be anything.
            let mut lanes = [0xA9; LANES];
            lanes[..bytes.len()].copy_from_slice(bytes);
            said.add_some(&lanes, bytes.len());
        }
    }

    #[test]
    fn pieces_of_every_length_are_given_back() {
        let mut said = Said::default();
        let mut all = String::new();
        for length in 0..100 {
            let text = "aé🙂".repeat(length);
            add_text(&mut said, text.as_bytes());
            all.push_str(&text);
            assert_eq!(said.text(), Some(all.as_str()));
        }
        said.cut(1);
        assert_eq!(said.text(), Some("a"));
    }

    #[test]
    fn half_of_a_character_is_no_text_whatever_is_behind_it() {
        for before in 0..40 {
            let mut said = Said::default();
            let text = [&vec![b'x'; before], &[0xC3][..]].concat();
            add_text(&mut said, &text);
            assert_eq!(said.text(), None, "after {before}");
            said.add(0xA9);
            assert!(said.text().is_some());
        }
    }
}
