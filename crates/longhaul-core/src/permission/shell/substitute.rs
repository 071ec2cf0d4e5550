//! What `$`, backticks and process substitution start: variables, commands, parameters with operators, arithmetic.

use super::parse::program;
use super::tree::{Link, Node, Piece, Unclear};
use super::words::{Parser, add_text, is_name_byte};

/// What ends a piece of arithmetic.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// `))`
    Parentheses,
    /// `]`
    Bracket,
    /// `}`
    Brace,
}

const INDIRECT: &str = "`${!…}` uses what a variable names";
const PROMPT: &str = "`${…@P}` runs the commands in a variable";
const QUOTED_SUBSCRIPT: &str = "a quoted subscript is evaluated again";

impl Parser<'_> {
    pub(super) fn dollar(&mut self, quoted: bool, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        self.at += 1;
        if self.starts("\\\n") || self.starts("(\\\n") || self.starts("{\\\n") {
            return self.unclear("a continued line in the middle of an expansion");
        }
        if self.took("((") {
            let inner = self.arithmetic(End::Parentheses)?;
            pieces.push(Piece::Other { inner, quoted });
            return Ok(());
        }
        if self.took("(") {
            return self.commands_in_parentheses(quoted, pieces);
        }
        if self.took("{") {
            return self.parameter(quoted, pieces);
        }
        match self.peek() {
            Some(b'[') => self.unclear("`$[…]`"),
            Some(b'\'') if !quoted => self.ansi(pieces),
            Some(b'"') if !quoted => {
                let mut inner = Vec::new();
                self.double(&mut inner)?;
                // Translated, if there is a catalogue: not known before it runs.
                pieces.push(Piece::Other { inner, quoted: true });
                Ok(())
            }
            Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                let name = self.name();
                pieces.push(Piece::Variable { name, quoted });
                Ok(())
            }
            Some(b'0'..=b'9' | b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => {
                let name = self.take().map(String::from).unwrap_or_default();
                pieces.push(Piece::Variable { name, quoted });
                Ok(())
            }
            Some(_) | None => {
                add_text(pieces, "$", true);
                Ok(())
            }
        }
    }

    pub(super) fn name(&mut self) -> String {
        let length = self.rest().bytes().take_while(|byte| is_name_byte(*byte)).count();
        let name = self.rest()[..length].to_owned();
        self.at += length;
        name
    }

    /// Commands up to the closing parenthesis; the opening one is behind us.
    pub(super) fn commands_in_parentheses(
        &mut self,
        quoted: bool,
        pieces: &mut Vec<Piece>,
    ) -> Result<(), Unclear> {
        self.deeper()?;
        let outer = std::mem::take(&mut self.pending);
        let others = self.others_pending;
        self.others_pending |= !outer.is_empty();
        let substituted = std::mem::replace(&mut self.substituted, true);
        let documents = self.facts.documents.len();
        let nodes = self.list()?;
        let alone = matches!(nodes.as_slice(), [(Node::Simple(_), Link::Then)]);
        if self.facts.documents.len() > documents && !alone {
            return self.unclear("a here-document among other commands in a substitution");
        }
        self.substituted = substituted;
        self.must(")", "a substitution has no end")?;
        if !self.pending.is_empty() {
            return self.unclear("a here-document has no end");
        }
        self.pending = outer;
        self.others_pending = others;
        self.depth -= 1;
        pieces.push(Piece::Commands { nodes, quoted });
        Ok(())
    }

    pub(super) fn backtick(&mut self, quoted: bool, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        self.at += 1;
        let mut inner = String::new();
        loop {
            match self.take() {
                None => return self.unclear("a backtick has no end"),
                Some('`') => break,
                Some('\n') => {
                    self.in_quotes_line_end()?;
                    inner.push('\n');
                }
                Some('\\') => match self.take() {
                    Some(letter @ ('$' | '`' | '\\')) => inner.push(letter),
                    Some('"') if quoted => return self.unclear("an escaped quote in backticks in quotes"),
                    // Bash takes it away before it looks for quotes inside, where it would stay.
                    Some('\n') if quoted => return self.unclear("a continued line in backticks in quotes"),
                    Some(letter) => inner.extend(['\\', letter]),
                    None => return self.unclear("a backtick has no end"),
                },
                Some(letter) => inner.push(letter),
            }
        }
        let nodes = program(&inner, self.depth + 1, self.facts)?;
        pieces.push(Piece::Commands { nodes, quoted });
        Ok(())
    }

    /// `$'…'`
    fn ansi(&mut self, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.take() {
                None => return self.unclear("a quote has no end"),
                Some('\'') => break,
                Some('\n') => {
                    self.in_quotes_line_end()?;
                    text.push('\n');
                }
                Some('\\') => text.push_str(&self.ansi_escape()?),
                Some(letter) => text.push(letter),
            }
        }
        add_text(pieces, &text, true);
        Ok(())
    }

    fn ansi_escape(&mut self) -> Result<String, Unclear> {
        let Some(letter) = self.take() else { return self.unclear("a quote has no end") };
        let code = match letter {
            'a' => 7,
            'b' => 8,
            'e' | 'E' => 27,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            '\\' | '\'' | '"' | '?' => u32::from(letter),
            'x' => self.digits(16, 2)?,
            '0'..='7' => {
                self.at -= 1;
                self.digits(8, 3)?
            }
            'u' => self.digits(16, 4)?,
            'U' => self.digits(16, 8)?,
            'c' => return self.unclear("`\\c` in a quote"),
            other => return Ok(format!("\\{other}")),
        };
        // NUL ends the text, and what is above ASCII depends on the locale.
        match char::from_u32(code) {
            Some(letter) if letter != '\0' && letter.is_ascii() => Ok(letter.to_string()),
            Some(_) | None => self.unclear("an escape for something other than ASCII"),
        }
    }

    fn digits(&mut self, radix: u32, max: usize) -> Result<u32, Unclear> {
        let digits = self.rest().chars().take(max).take_while(|letter| letter.is_digit(radix)).count();
        if digits == 0 {
            return self.unclear("an escape without digits");
        }
        let code = u32::from_str_radix(&self.rest()[..digits], radix).unwrap_or(0);
        self.at += digits;
        Ok(code)
    }

    /// `${…}`; the opening brace is behind us.
    fn parameter(&mut self, quoted: bool, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        self.deeper()?;
        let mut simple = true;
        if self.starts("!") && !self.starts("!}") {
            self.at += 1;
            self.facts.doubts.insert(INDIRECT);
            simple = false;
        } else if self.starts("#") && !self.starts("#}") {
            self.at += 1;
            simple = false;
        }
        let name = self.parameter_name()?;
        let mut inner = Vec::new();
        if self.took("[") {
            simple = false;
            if !(self.took("@]") || self.took("*]")) {
                inner.extend(self.arithmetic(End::Bracket)?);
            }
        }
        self.depth -= 1;
        if self.took("}") {
            pieces.push(match simple {
                true => Piece::Variable { name, quoted },
                false => Piece::Other { inner, quoted },
            });
            return Ok(());
        }
        self.depth += 1;
        self.operator(&name, quoted, &mut inner)?;
        self.depth -= 1;
        pieces.push(Piece::Other { inner, quoted });
        Ok(())
    }

    fn parameter_name(&mut self) -> Result<String, Unclear> {
        match self.peek() {
            Some(byte) if is_name_byte(byte) => Ok(self.name()),
            Some(b'@' | b'*' | b'#' | b'?' | b'-' | b'$' | b'!') => {
                Ok(self.take().map(String::from).unwrap_or_default())
            }
            Some(_) | None => self.unclear("`${` with something other than a name"),
        }
    }

    fn operator(&mut self, name: &str, quoted: bool, inner: &mut Vec<Piece>) -> Result<(), Unclear> {
        if self.took("@") {
            let letter = self.take();
            if letter == Some('P') {
                self.facts.doubts.insert(PROMPT);
            }
            return self.must("}", "an unknown operator in `${…}`");
        }
        let gives_value = [":-", ":+", ":?", "-", "+", "?"].iter().any(|operator| self.took(operator));
        if !gives_value && (self.took(":=") || self.took("=")) {
            self.facts.values.entry(name.to_owned()).or_default().push(None);
            self.facts.set_aside.insert(name.to_owned());
            return self.parameter_word(quoted, inner);
        }
        if !gives_value && self.took(":") {
            inner.extend(self.arithmetic(End::Brace)?);
            return Ok(());
        }
        match self.peek() {
            _ if gives_value => {}
            Some(b'#' | b'%' | b'/' | b'^' | b',') => self.at += 1,
            Some(_) | None => return self.unclear("an unknown operator in `${…}`"),
        }
        self.parameter_word(quoted, inner)
    }

    /// The word behind an operator, up to the closing brace.
    fn parameter_word(&mut self, quoted: bool, inner: &mut Vec<Piece>) -> Result<(), Unclear> {
        loop {
            match self.peek() {
                None => return self.unclear("`${` has no end"),
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\'' | b'"') if quoted => return self.unclear("a quote in `${…}` in quotes"),
                Some(b'<' | b'>') if self.at_process() => {
                    return self.unclear("a process substitution in `${…}`");
                }
                Some(b'\n') => {
                    self.in_quotes_line_end()?;
                    self.letter(true, inner);
                }
                Some(b'\\') if quoted => self.escape_in_quotes(inner)?,
                Some(b'$') => self.dollar(quoted, inner)?,
                Some(b'`') => self.backtick(quoted, inner)?,
                Some(b'\\' | b'\'' | b'"') => {
                    add_text(inner, "", true);
                    self.part(inner)?;
                }
                Some(_) => self.letter(true, inner),
            }
        }
    }

    /// Arithmetic up to its end. Bash evaluates the variables in it once more, so they are remembered.
    pub(super) fn arithmetic(&mut self, end: End) -> Result<Vec<Piece>, Unclear> {
        self.deeper()?;
        let mut pieces = Vec::new();
        let (mut parentheses, mut brackets) = (0usize, 0usize);
        loop {
            match self.peek() {
                None => return self.unclear("arithmetic has no end"),
                Some(b'$') => self.dollar(true, &mut pieces)?,
                Some(b'`') => self.backtick(true, &mut pieces)?,
                Some(b'"' | b'\'') if end == End::Bracket => self.quoted_subscript(&mut pieces)?,
                Some(b'"' | b'\'' | b'\\') => return self.unclear("a quote in arithmetic"),
                Some(b'<' | b'>') if self.at_process() => {
                    return self.unclear("a parenthesis after `<` or `>`");
                }
                Some(b'(') => {
                    parentheses += 1;
                    self.at += 1;
                }
                Some(b')') if parentheses > 0 => {
                    parentheses -= 1;
                    self.at += 1;
                }
                Some(b')') if end == End::Parentheses => {
                    self.must("))", "a parenthesis that may belong to a subshell")?;
                    break;
                }
                Some(b'[') => {
                    brackets += 1;
                    self.at += 1;
                }
                Some(b']') if brackets > 0 => {
                    brackets -= 1;
                    self.at += 1;
                }
                Some(b']') if end == End::Bracket => {
                    self.at += 1;
                    break;
                }
                Some(b'}') if end == End::Brace => {
                    self.at += 1;
                    break;
                }
                Some(b';') if end != End::Parentheses => return self.unclear("`;` in arithmetic"),
                Some(b'\n') => {
                    self.in_quotes_line_end()?;
                    self.at += 1;
                }
                Some(byte) if byte.is_ascii_alphabetic() || byte == b'_' => {
                    let before = self.text[..self.at].trim_end();
                    let is_stepped = before.ends_with("++") || before.ends_with("--");
                    let name = self.name();
                    if is_stepped || sets(self.rest()) {
                        self.facts.set_aside.insert(name.clone());
                    }
                    self.facts.arithmetic.insert(name);
                }
                Some(byte) if byte.is_ascii_digit() => {
                    // `16#ff` and `0xff` are numbers, not names.
                    self.name();
                }
                Some(_) => {
                    self.take();
                }
            }
        }
        for piece in &pieces {
            if let Piece::Variable { name, .. } = piece {
                self.facts.arithmetic.insert(name.clone());
            }
        }
        self.depth -= 1;
        Ok(pieces)
    }

    fn quoted_subscript(&mut self, pieces: &mut Vec<Piece>) -> Result<(), Unclear> {
        let before = pieces.len();
        self.part(pieces)?;
        let code = |piece: &Piece| matches!(piece, Piece::Text { text, .. } if text.contains(['$', '`']));
        if pieces[before..].iter().any(code) {
            self.facts.doubts.insert(QUOTED_SUBSCRIPT);
        }
        Ok(())
    }
}

/// Whether what follows a name in arithmetic gives it a value.
fn sets(rest: &str) -> bool {
    let rest = rest.trim_start();
    if rest.starts_with("++") || rest.starts_with("--") {
        return true;
    }
    let compares = ["==", "<=", ">=", "!="].iter().any(|operator| rest.starts_with(operator));
    !compares && rest.trim_start_matches(['*', '/', '%', '+', '-', '<', '>', '&', '^', '|']).starts_with('=')
}
