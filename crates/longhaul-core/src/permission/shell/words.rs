//! The reader's place in the text, blanks, comments, here-documents, and words with their quotes.

use super::tree::{Facts, Piece, Unclear, Word};
use crate::limits::SHELL_DEPTH_MAX;

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) facts: &'a mut Facts,
    /// Here-documents whose bodies start after the next end of line.
    pub(super) pending: Vec<Pending>,
    /// Whether a text around this one waits for the bodies of its here-documents.
    pub(super) others_pending: bool,
    /// Whether this is inside `$(…)` or `<(…)`. bash 5.2 prints the commands it read there back into text and reads that
    /// again; what that changes is not read at all.
    pub(super) substituted: bool,
}

pub(super) struct Pending {
    pub(super) end: String,
    pub(super) strip_tabs: bool,
    pub(super) literal: bool,
    /// Its place in [`Facts::documents`].
    pub(super) slot: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, depth: usize, facts: &'a mut Facts) -> Result<Parser<'a>, Unclear> {
        if depth > SHELL_DEPTH_MAX {
            return Err(Unclear::new(0, "nested too deeply"));
        }
        Ok(Parser {
            text,
            at: 0,
            depth,
            facts,
            pending: Vec::new(),
            others_pending: false,
            substituted: false,
        })
    }

    pub(super) fn unclear<T>(&self, why: &'static str) -> Result<T, Unclear> {
        Err(Unclear::new(self.at, why))
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn starts(&self, text: &str) -> bool {
        self.rest().starts_with(text)
    }

    /// Takes one character.
    pub(super) fn take(&mut self) -> Option<char> {
        let letter = self.rest().chars().next()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    /// Takes exactly this text, if it is next.
    pub(super) fn took(&mut self, text: &str) -> bool {
        let is_next = self.starts(text);
        if is_next {
            self.at += text.len();
        }
        is_next
    }

    pub(super) fn must(&mut self, text: &str, why: &'static str) -> Result<(), Unclear> {
        if self.took(text) { Ok(()) } else { self.unclear(why) }
    }

    pub(super) fn deeper(&mut self) -> Result<(), Unclear> {
        self.depth += 1;
        if self.depth > SHELL_DEPTH_MAX { self.unclear("nested too deeply") } else { Ok(()) }
    }

    /// Passes blanks and continued lines.
    pub(super) fn blanks(&mut self) {
        while self.took(" ") || self.took("\t") || self.took("\\\n") {}
    }

    /// Passes blanks, comments and ends of lines; the latter bring the bodies of here-documents.
    pub(super) fn lines(&mut self) -> Result<(), Unclear> {
        loop {
            self.blanks();
            match self.peek() {
                Some(b'#') => self.comment(),
                Some(b'\n') => self.newline()?,
                Some(_) | None => return Ok(()),
            }
        }
    }

    pub(super) fn comment(&mut self) {
        self.at += self.rest().find('\n').unwrap_or(self.rest().len());
    }

    pub(super) fn newline(&mut self) -> Result<(), Unclear> {
        self.at += 1;
        if self.others_pending {
            return self.unclear("a line ends before a here-document around it began");
        }
        for document in std::mem::take(&mut self.pending) {
            self.document(&document)?;
        }
        Ok(())
    }

    fn document(&mut self, document: &Pending) -> Result<(), Unclear> {
        let mut body = String::new();
        loop {
            if self.peek().is_none() {
                return self.unclear("a here-document has no end");
            }
            let mut line = self.line();
            while !document.literal && is_continued(&line) && self.peek().is_some() {
                if document.strip_tabs {
                    return self.unclear("a continued line in a here-document without tabs");
                }
                line.pop();
                line.push_str(&self.line());
            }
            let line = if document.strip_tabs { line.trim_start_matches('\t') } else { &line };
            if line == document.end {
                break;
            }
            body.push_str(line);
            body.push('\n');
        }
        let pieces = if document.literal {
            vec![Piece::Text { text: body.clone(), quoted: true }]
        } else {
            Parser::new(&body, self.depth + 1, self.facts)?.expanded_text()?
        };
        self.facts.documents[document.slot] = Word { raw: body, pieces };
        Ok(())
    }

    fn line(&mut self) -> String {
        let rest = self.rest();
        let end = rest.find('\n').unwrap_or(rest.len());
        self.at += (end + 1).min(rest.len());
        rest[..end].to_owned()
    }

    /// A here-document's body: everything stands for itself but `$`, backticks and the backslashes before them.
    fn expanded_text(&mut self) -> Result<Vec<Piece>, Unclear> {
        let mut pieces = Vec::new();
        while let Some(next) = self.peek() {
            match next {
                b'\\' => self.escape_in_quotes(&mut pieces)?,
                b'$' => self.dollar(true, &mut pieces)?,
                b'`' => self.backtick(true, &mut pieces)?,
                _ => self.letter(true, &mut pieces),
            }
        }
        Ok(pieces)
    }

    /// The text up to the next character that ends a word, quotes not looked at.
    pub(super) fn peek_plain(&self) -> &'a str {
        let rest = self.rest();
        &rest[..rest.find([' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>']).unwrap_or(rest.len())]
    }

    /// Takes a reserved word.
    pub(super) fn took_word(&mut self, word: &str) -> bool {
        let is_next = self.peek_plain() == word;
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    pub(super) fn must_word(&mut self, word: &str, why: &'static str) -> Result<(), Unclear> {
        if self.took_word(word) { Ok(()) } else { self.unclear(why) }
    }

    /// Whether a word can start here.
    pub(super) fn at_word(&self) -> bool {
        match self.peek() {
            None | Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'|' | b'(' | b')') => false,
            Some(b'<' | b'>') => self.at_process(),
            Some(_) => true,
        }
    }

    pub(super) fn at_process(&self) -> bool {
        self.starts("<(") || self.starts(">(")
    }

    pub(super) fn word(&mut self) -> Result<Word, Unclear> {
        let start = self.at;
        let mut pieces = Vec::new();
        while self.at_word() {
            self.part(&mut pieces)?;
        }
        let word = Word { raw: self.text[start..self.at].to_owned(), pieces };
        if word.pieces.is_empty() {
            return self.unclear("a word is missing");
        }
        Ok(word)
    }

    /// One part of a word outside quotes.
    pub(super) fn part(&mut self, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        match self.peek() {
            Some(b'\\') => self.escape(pieces),
            Some(b'\'') => self.single(pieces),
            Some(b'"') => self.double(pieces),
            Some(b'$') => self.dollar(false, pieces),
            Some(b'`') => self.backtick(false, pieces),
            Some(b'<' | b'>') => {
                self.at += 2;
                self.commands_in_parentheses(false, pieces)
            }
            Some(_) | None => {
                self.letter(false, pieces);
                Ok(())
            }
        }
    }

    pub(super) fn letter(&mut self, quoted: bool, pieces: &mut Vec<Piece>) {
        if let Some(letter) = self.take() {
            add(pieces, letter, quoted);
        }
    }

    fn escape(&mut self, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        self.at += 1;
        match self.take() {
            None => self.unclear("a backslash at the end"),
            Some('\n') => {
                // A word of nothing but a continued line is no word, but this one is already under way.
                if pieces.is_empty() { self.unclear("a word begins on the line before") } else { Ok(()) }
            }
            Some(letter) => {
                add(pieces, letter, true);
                Ok(())
            }
        }
    }

    pub(super) fn escape_in_quotes(&mut self, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        self.at += 1;
        match self.peek() {
            None => add(pieces, '\\', true),
            Some(b'\n') => {
                self.in_quotes_line_end()?;
                self.at += 1;
            }
            Some(b'$' | b'`' | b'"' | b'\\') => self.letter(true, pieces),
            Some(_) => add(pieces, '\\', true),
        }
        Ok(())
    }

    pub(super) fn single(&mut self, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        self.at += 1;
        let rest = self.rest();
        let Some(end) = rest.find('\'') else { return self.unclear("a quote has no end") };
        if rest[..end].contains('\n') {
            self.in_quotes_line_end()?;
        }
        add_text(pieces, &rest[..end], true);
        self.at += end + 1;
        Ok(())
    }

    pub(super) fn double(&mut self, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        self.at += 1;
        add_text(pieces, "", true);
        loop {
            match self.peek() {
                None => return self.unclear("a quote has no end"),
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape_in_quotes(pieces)?,
                Some(b'$') => self.dollar(true, pieces)?,
                Some(b'`') => self.backtick(true, pieces)?,
                Some(b'\n') => {
                    self.in_quotes_line_end()?;
                    self.letter(true, pieces);
                }
                Some(_) => self.letter(true, pieces),
            }
        }
    }

    /// Where a here-document's body starts is only sure if no quote runs over the end of its line.
    pub(super) fn in_quotes_line_end(&self) -> Result<(), Unclear> {
        if self.pending.is_empty() && !self.others_pending {
            return Ok(());
        }
        self.unclear("a quote runs into a here-document")
    }
}

pub(super) fn add(pieces: &mut Vec<Piece>, letter: char, quoted: bool) {
    add_text(pieces, letter.encode_utf8(&mut [0; 4]), quoted);
}

pub(super) fn add_text(pieces: &mut Vec<Piece>, more: &str, quoted: bool) {
    if let Some(Piece::Text { text, quoted: last }) = pieces.last_mut()
        && *last == quoted
    {
        text.push_str(more);
        return;
    }
    pieces.push(Piece::Text { text: more.to_owned(), quoted });
}

/// Whether an odd number of backslashes ends the line.
fn is_continued(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && text.bytes().all(is_name_byte)
}

pub(super) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}
