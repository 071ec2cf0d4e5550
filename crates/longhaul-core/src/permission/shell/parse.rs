//! The grammar of commands: lists, pipelines, compounds, functions, simple commands, redirections.

use super::substitute::End;
use super::tree::{
    Assignment, Compound, Direction, Facts, Kind, Link, Node, Onto, Piece, Redirection, Simple, Target,
    Unclear, Word,
};
use super::words::{Parser, Pending, is_name};
use crate::limits::SHELL_COMMANDS_MAX;

type List = Vec<(Node, Link)>;

/// Words that end a list, because they belong to the compound around it.
const CLOSING: &[&str] = &["then", "else", "elif", "fi", "do", "done", "esac", "}"];

/// Commands whose arguments may be assignments, with arrays.
const DECLARING: &[&str] = &["declare", "typeset", "local", "export", "readonly"];

/// Commands that give variables values we do not see.
const READING: &[&str] =
    &["read", "mapfile", "readarray", "getopts", "printf", "wait", "select", "let", "unset"];

/// Operators of `[[` and `test` whose operands are evaluated as arithmetic.
const COMPARING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

const TEST_CODE: &str = "a test evaluates text that holds commands";
const QUOTED_SUBSCRIPT: &str = "a quoted subscript is evaluated again";

/// Reads a text that is a whole program.
pub(super) fn program(text: &str, depth: usize, facts: &mut Facts) -> Result<List, Unclear> {
    let mut parser = Parser::new(text, depth, facts)?;
    let list = parser.list()?;
    if parser.peek().is_some() {
        return parser.unclear("something that ends nothing");
    }
    if !parser.pending.is_empty() {
        return parser.unclear("a here-document has no body");
    }
    Ok(list)
}

impl Parser<'_> {
    /// Commands up to whatever ends them; the caller takes that.
    pub(super) fn list(&mut self) -> Result<List, Unclear> {
        let mut list = Vec::new();
        loop {
            self.lines()?;
            if self.at_list_end() {
                return Ok(list);
            }
            let node = self.pipeline()?;
            self.blanks();
            let link = self.link()?;
            list.push((node, link.unwrap_or(Link::Then)));
            if link.is_none() {
                return Ok(list);
            }
        }
    }

    fn at_list_end(&self) -> bool {
        matches!(self.peek(), None | Some(b')'))
            || self.starts(";;")
            || self.starts(";&")
            || CLOSING.contains(&self.peek_plain())
    }

    /// What joins the command before to the next; `None` if the list ends here.
    fn link(&mut self) -> Result<Option<Link>, Unclear> {
        let operator = |text: &str, more: &str| text.len() > 1 && text[1..].starts_with(more);
        if matches!(self.peek(), Some(b'&' | b'|' | b';')) && operator(self.rest(), "\\\n") {
            return self.unclear("a continued line in the middle of an operator");
        }
        if self.peek() == Some(b'#') {
            self.comment();
        }
        Ok(if self.took("&&") {
            Some(Link::And)
        } else if self.took("||") {
            Some(Link::Or)
        } else if self.starts(";;") || self.starts(";&") {
            None
        } else if self.took(";") {
            Some(Link::Then)
        } else if self.took("&") {
            Some(Link::Background)
        } else if self.peek() == Some(b'\n') {
            self.newline()?;
            Some(Link::Then)
        } else {
            None
        })
    }

    fn pipeline(&mut self) -> Result<Node, Unclear> {
        self.blanks();
        loop {
            if self.took_word("time") {
                if self.substituted {
                    return self.unclear("`time` in a substitution");
                }
                self.blanks();
                if self.took_word("-p") {
                    self.blanks();
                }
                if self.peek_plain().starts_with('-') {
                    return self.unclear("an option of `time`");
                }
            } else if !self.took_word("!") {
                break;
            }
            self.blanks();
        }
        let first = self.command()?;
        let mut stages = vec![first];
        loop {
            self.blanks();
            if self.starts("||") || !self.took("|") {
                break;
            }
            if self.starts("\\\n") {
                return self.unclear("a continued line in the middle of an operator");
            }
            self.took("&");
            self.lines()?;
            stages.push(self.command()?);
        }
        Ok(match stages.len() {
            1 => stages.remove(0),
            _ => Node::Pipeline(stages),
        })
    }

    fn command(&mut self) -> Result<Node, Unclear> {
        self.facts.commands += 1;
        if self.facts.commands > SHELL_COMMANDS_MAX {
            return self.unclear("more commands than are read");
        }
        self.deeper()?;
        let node = match self.compound()? {
            Some(mut compound) => {
                compound.redirections.extend(self.redirections()?);
                Node::Compound(compound)
            }
            None => self.simple()?,
        };
        self.depth -= 1;
        Ok(node)
    }

    fn compound(&mut self) -> Result<Option<Compound>, Unclear> {
        if self.took("((") {
            let pieces = self.arithmetic(End::Parentheses)?;
            let word = Word { raw: String::new(), pieces };
            return Ok(Some(made(Kind::Arithmetic, vec![word], Vec::new())));
        }
        if self.took("(") {
            let body = self.list()?;
            self.must(")", "a subshell has no end")?;
            return Ok(Some(made(Kind::Subshell, Vec::new(), vec![body])));
        }
        let word = self.peek_plain();
        let known = ["{", "if", "while", "until", "for", "select", "case", "function", "[["].contains(&word);
        if word == "coproc" {
            return self.unclear("`coproc`");
        }
        if CLOSING.contains(&word) {
            return self.unclear("a reserved word where a command should be");
        }
        if !known {
            return Ok(None);
        }
        self.at += word.len();
        Ok(Some(match word {
            "{" => {
                let body = self.list()?;
                self.must_word("}", "a group has no end")?;
                made(Kind::Group, Vec::new(), vec![body])
            }
            "if" => self.choice()?,
            "while" | "until" => {
                let condition = self.list()?;
                self.must_word("do", "a loop without `do`")?;
                let body = self.list()?;
                self.must_word("done", "a loop has no end")?;
                made(Kind::Loop, Vec::new(), vec![condition, body])
            }
            "for" | "select" => self.each()?,
            "case" => self.case()?,
            "function" => {
                self.blanks();
                let name = self.peek_plain().to_owned();
                self.at += name.len();
                self.blanks();
                if self.took("(") {
                    self.blanks();
                    self.must(")", "a function's name is followed by something else")?;
                }
                self.function(name)?
            }
            _ => self.test()?,
        }))
    }

    fn choice(&mut self) -> Result<Compound, Unclear> {
        let mut parts = vec![self.list()?];
        self.must_word("then", "`if` without `then`")?;
        parts.push(self.list()?);
        loop {
            if self.took_word("elif") {
                parts.push(self.list()?);
                self.must_word("then", "`elif` without `then`")?;
                parts.push(self.list()?);
            } else if self.took_word("else") {
                parts.push(self.list()?);
            } else {
                self.must_word("fi", "`if` has no end")?;
                return Ok(made(Kind::Choice, Vec::new(), parts));
            }
        }
    }

    fn each(&mut self) -> Result<Compound, Unclear> {
        self.blanks();
        let mut words = Vec::new();
        if self.took("((") {
            let pieces = self.arithmetic(End::Parentheses)?;
            words.push(Word { raw: String::new(), pieces });
        } else {
            let name = self.peek_plain().to_owned();
            if !is_name(&name) {
                return self.unclear("a loop over something other than a variable");
            }
            self.at += name.len();
            self.lines()?;
            self.facts.set_aside.insert(name.clone());
            if self.took_word("in") {
                words = self.words()?;
                let values = words.iter().cloned().map(Some);
                self.facts.values.entry(name).or_default().extend(values);
            } else {
                self.facts.values.entry(name).or_default().push(None);
            }
        }
        self.blanks();
        if !self.starts(";;") {
            self.took(";");
        }
        self.lines()?;
        self.must_word("do", "a loop without `do`")?;
        let body = self.list()?;
        self.must_word("done", "a loop has no end")?;
        Ok(made(Kind::Loop, words, vec![body]))
    }

    /// Words up to the end of the line or `;`.
    fn words(&mut self) -> Result<Vec<Word>, Unclear> {
        let mut words = Vec::new();
        loop {
            self.blanks();
            if self.peek() == Some(b'#') {
                self.comment();
            }
            if !self.at_word() {
                return Ok(words);
            }
            words.push(self.word()?);
        }
    }

    fn case(&mut self) -> Result<Compound, Unclear> {
        self.blanks();
        let mut words = vec![self.word()?];
        let mut parts = Vec::new();
        self.lines()?;
        self.must_word("in", "`case` without `in`")?;
        loop {
            self.lines()?;
            if self.took_word("esac") {
                return Ok(made(Kind::Choice, words, parts));
            }
            self.took("(");
            loop {
                self.blanks();
                words.push(self.word()?);
                self.blanks();
                if !self.took("|") {
                    break;
                }
            }
            self.must(")", "a pattern of `case` has no end")?;
            parts.push(self.list()?);
            let ended = self.took(";;&") || self.took(";;") || self.took(";&");
            if !ended && self.peek_plain() != "esac" {
                return self.unclear("`case` has no end");
            }
        }
    }

    /// A function's body; its name is behind us.
    fn function(&mut self, name: String) -> Result<Compound, Unclear> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.:+/@%^,![]".contains(&byte);
        if name.is_empty() || !name.bytes().all(plain) || name.contains(['[', ']']) {
            return self.unclear("an unusual name of a function");
        }
        self.lines()?;
        self.deeper()?;
        let Some(body) = self.compound()? else { return self.unclear("a function without a body") };
        self.depth -= 1;
        let redirections = self.redirections()?;
        let parts = vec![vec![(Node::Compound(body), Link::Then)]];
        Ok(Compound { kind: Kind::Function(name), words: Vec::new(), parts, redirections })
    }

    /// `[[ … ]]`
    fn test(&mut self) -> Result<Compound, Unclear> {
        let mut words: Vec<Word> = Vec::new();
        loop {
            self.lines()?;
            if self.took_word("]]") {
                break;
            }
            if self.took("&&") || self.took("||") || self.took("(") || self.took(")") {
                continue;
            }
            if !self.at_process() && (self.took("<") || self.took(">")) {
                continue;
            }
            let is_expression = words.last().and_then(Word::plain).as_deref() == Some("=~");
            let word = if is_expression { self.expression()? } else { self.word()? };
            if self.peek() == Some(b'(') {
                return self.unclear("a parenthesis in a word");
            }
            words.push(word);
        }
        self.note_test(&words);
        Ok(made(Kind::Test, words, Vec::new()))
    }

    fn note_test(&mut self, words: &[Word]) {
        let compares = words.iter().filter_map(Word::plain).any(|word| COMPARING.contains(&word.as_str()));
        if !compares {
            return;
        }
        for word in words {
            if word.pieces.iter().any(|piece| matches!(piece, Piece::Text { text, .. } if has_code(text))) {
                self.facts.doubts.insert(TEST_CODE);
            }
            for piece in &word.pieces {
                match piece {
                    Piece::Variable { name, .. } => {
                        self.facts.arithmetic.insert(name.clone());
                    }
                    Piece::Text { text, .. } => {
                        self.facts.arithmetic.extend(names_in(text));
                    }
                    Piece::Commands { .. } | Piece::Other { .. } => {
                        self.facts.doubts.insert(TEST_CODE);
                    }
                }
            }
        }
    }

    /// The right side of `=~`, where parentheses and bars belong to the word.
    fn expression(&mut self) -> Result<Word, Unclear> {
        let start = self.at;
        let mut pieces = Vec::new();
        let mut open = 0usize;
        loop {
            match self.peek() {
                None => return self.unclear("a test has no end"),
                Some(b' ' | b'\t' | b'\n') if open == 0 => break,
                Some(b' ' | b'\t' | b'\n' | b';' | b'&' | b'<' | b'>') => {
                    return self.unclear("an unusual expression after `=~`");
                }
                Some(b'(') => {
                    open += 1;
                    self.letter(true, &mut pieces);
                }
                Some(b')') => {
                    open = match open.checked_sub(1) {
                        Some(open) => open,
                        None => return self.unclear("an unusual expression after `=~`"),
                    };
                    self.letter(true, &mut pieces);
                }
                Some(b'|') => self.letter(true, &mut pieces),
                Some(_) => self.part(&mut pieces)?,
            }
        }
        Ok(Word { raw: self.text[start..self.at].to_owned(), pieces })
    }

    fn simple(&mut self) -> Result<Node, Unclear> {
        let mut simple = Simple::default();
        loop {
            self.blanks();
            if self.peek() == Some(b'#') {
                self.comment();
            }
            if self.starts("&>") || (matches!(self.peek(), Some(b'<' | b'>')) && !self.at_process()) {
                let redirection = self.redirection("")?;
                simple.redirections.push(redirection);
            } else if self.peek() == Some(b'(') {
                return self.function_by_parentheses(&simple);
            } else if self.at_word() {
                self.argument(&mut simple)?;
            } else {
                break;
            }
        }
        if simple.words.is_empty() && simple.assignments.is_empty() && simple.redirections.is_empty() {
            return self.unclear("a command is missing");
        }
        self.note_values(&simple);
        Ok(Node::Simple(simple))
    }

    fn argument(&mut self, simple: &mut Simple) -> Result<(), Unclear> {
        let word = self.word()?;
        let before_redirection = matches!(self.peek(), Some(b'<' | b'>'));
        if before_redirection && word.raw.bytes().all(|byte| byte.is_ascii_digit()) {
            simple.redirections.push(self.redirection(&word.raw)?);
            return Ok(());
        }
        if before_redirection && word.raw.replace("\\\n", "").bytes().all(|byte| byte.is_ascii_digit()) {
            return self.unclear("a number before a redirection on two lines");
        }
        if before_redirection && word.raw.starts_with('{') && word.raw.ends_with('}') {
            return self.unclear("a variable as descriptor");
        }
        if word.raw.contains("\\\n") && simple.words.is_empty() {
            return self.unclear("a command's name on two lines");
        }
        let first = simple.words.first().and_then(Word::plain);
        let declares = first.is_some_and(|name| DECLARING.contains(&name.as_str()));
        let Some(split) = split_assignment(&word).map_err(|why| Unclear::new(self.at, why))? else {
            simple.words.push(word);
            return Ok(());
        };
        if !simple.words.is_empty() && !declares {
            simple.words.push(word);
            return Ok(());
        }
        let is_empty = split.value.pieces.is_empty();
        let elements = if is_empty && self.peek() == Some(b'(') { Some(self.array()?) } else { None };
        self.note_assignment(&split, elements.as_deref());
        let is_array = elements.is_some();
        let values = elements.unwrap_or_else(|| vec![split.value]);
        if declares && !is_array {
            simple.words.push(word);
        } else {
            simple.assignments.push(Assignment { name: split.name, values });
        }
        Ok(())
    }

    fn note_assignment(&mut self, split: &Split, elements: Option<&[Word]>) {
        self.facts.arithmetic.extend(names_in(&split.subscript));
        if split.subscript.contains(['\'', '"', '\\']) {
            self.facts.doubts.insert(QUOTED_SUBSCRIPT);
        }
        let values = self.facts.values.entry(split.name.clone()).or_default();
        match elements {
            Some(elements) => {
                values.extend(elements.iter().cloned().map(Some));
                values.push(None);
                for element in elements.iter().filter(|element| element.raw.starts_with('[')) {
                    self.facts.arithmetic.extend(names_in(&element.raw));
                }
            }
            None if split.adds => values.push(None),
            None => values.push(Some(split.value.clone())),
        }
    }

    fn array(&mut self) -> Result<Vec<Word>, Unclear> {
        self.at += 1;
        let mut elements = Vec::new();
        loop {
            self.lines()?;
            if self.took(")") {
                return if self.at_word() {
                    self.unclear("a word right behind an array")
                } else {
                    Ok(elements)
                };
            }
            if !self.at_word() {
                return self.unclear("an array has no end");
            }
            let element = self.word()?;
            if element.raw.starts_with('[') && !element.raw.contains("]=") {
                return self.unclear("an unusual element of an array");
            }
            elements.push(element);
        }
    }

    fn function_by_parentheses(&mut self, simple: &Simple) -> Result<Node, Unclear> {
        let lonely = simple.assignments.is_empty() && simple.redirections.is_empty();
        let [name] = simple.words.as_slice() else { return self.unclear("a parenthesis in a command") };
        let (true, Some(name)) = (lonely, name.plain()) else {
            return self.unclear("a parenthesis in a command");
        };
        self.at += 1;
        self.blanks();
        self.must(")", "a parenthesis in a command")?;
        Ok(Node::Compound(self.function(name)?))
    }

    /// Remembers which variables a command gives values, as far as it can be seen.
    fn note_values(&mut self, simple: &Simple) {
        let words: Vec<Option<String>> = simple.words.iter().map(Word::value).collect();
        let Some(place) =
            words.iter().take(4).position(|word| word.as_deref().is_some_and(|word| READING.contains(&word)))
        else {
            return;
        };
        let command = words[place].as_deref();
        // Of the others, `printf` alone takes more than names; with `-v` the first of them is one.
        let takes_name = |at: usize| command != Some("printf") || at < 2;
        let typed = simple.words[place + 1..].iter().enumerate().filter(|(at, _)| takes_name(*at));
        for subscript in typed.filter_map(|(_, word)| subscript(&word.value().unwrap_or(word.raw.clone()))) {
            self.facts.arithmetic.extend(names_in(&subscript));
        }
        for word in words[place + 1..].iter().flatten() {
            let name: String = word.chars().take_while(|letter| is_name_byte_char(*letter)).collect();
            if is_name(&name) {
                self.facts.values.entry(name).or_default().push(None);
            }
        }
        if command == Some("let") {
            let names: Vec<String> =
                words[place + 1..].iter().flatten().flat_map(|word| names_in(word)).collect();
            self.facts.set_aside.extend(names.iter().cloned());
            self.facts.arithmetic.extend(names);
        }
        if matches!(command, Some("read" | "mapfile" | "readarray")) {
            for name in ["REPLY", "MAPFILE"] {
                self.facts.values.entry(name.to_owned()).or_default().push(None);
            }
        }
    }

    fn redirections(&mut self) -> Result<Vec<Redirection>, Unclear> {
        let mut redirections = Vec::new();
        loop {
            self.blanks();
            let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
            let after = self.rest().as_bytes().get(digits).copied();
            let direct = matches!(after, Some(b'<' | b'>')) && !(digits == 0 && self.at_process());
            if !direct && !self.starts("&>") {
                return Ok(redirections);
            }
            let number = if direct { &self.rest()[..digits] } else { "" };
            self.at += number.len();
            redirections.push(self.redirection(number)?);
        }
    }

    /// `number` stands before it, if anything does.
    fn redirection(&mut self, number: &str) -> Result<Redirection, Unclear> {
        const OPERATORS: &[&str] = &["<<<", "<<-", "<<", "<&", "<>", "<", "&>>", "&>", ">>", ">|", ">&", ">"];
        let operator = OPERATORS.iter().copied().find(|operator| self.starts(operator)).unwrap_or(">");
        self.at += operator.len();
        if self.starts("\\\n") {
            return self.unclear("a continued line in the middle of an operator");
        }
        self.blanks();
        let closes = operator.ends_with('&') && self.peek() == Some(b'-');
        let word = self.word()?;
        if closes && word.raw != "-" {
            return self.unclear("a word right behind a closed descriptor");
        }
        let direction =
            if operator.starts_with('<') && operator != "<>" { Direction::In } else { Direction::Out };
        let target = match operator {
            "<<<" => Target::Text(word),
            "<<" | "<<-" => self.document_named(&word, operator == "<<-")?,
            // Anything but a number is expanded first, and that can run commands.
            "<&" | ">&" if is_descriptor(&word) => Target::Descriptor,
            "<&" => Target::Duplicate(word),
            ">&" if word.value().is_none() => Target::Duplicate(word),
            _ => Target::File(word),
        };
        let is_input = match number {
            "" => operator.starts_with('<'),
            number => number.bytes().all(|digit| digit == b'0'),
        };
        let onto = if is_input { Onto::Input } else { Onto::Other };
        Ok(Redirection { direction, onto, target })
    }

    fn document_named(&mut self, word: &Word, strip_tabs: bool) -> Result<Target, Unclear> {
        let mut end = String::new();
        let mut literal = false;
        for piece in &word.pieces {
            let Piece::Text { text, quoted } = piece else {
                return self.unclear("an unusual end of a here-document");
            };
            end.push_str(text);
            literal |= quoted;
        }
        if end.contains('\n') || word.raw.contains("\\\n") {
            return self.unclear("an unusual end of a here-document");
        }
        let slot = self.facts.documents.len();
        self.facts.documents.push(Word::default());
        self.pending.push(Pending { end, strip_tabs, literal, slot });
        Ok(Target::Document(slot))
    }
}

fn made(kind: Kind, words: Vec<Word>, parts: Vec<List>) -> Compound {
    Compound { kind, words, parts, redirections: Vec::new() }
}

fn is_descriptor(word: &Word) -> bool {
    word.value().is_some_and(|value| {
        let digits = value.strip_suffix('-').unwrap_or(&value);
        value == "-" || (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

/// A word of the form `name=value`, `name+=value` or `name[subscript]=value`.
struct Split {
    name: String,
    subscript: String,
    adds: bool,
    value: Word,
}

fn split_assignment(word: &Word) -> Result<Option<Split>, &'static str> {
    let Some(Piece::Text { text, quoted: false }) = word.pieces.first() else { return Ok(None) };
    let length = text.bytes().take_while(|byte| super::words::is_name_byte(*byte)).count();
    let name = &text[..length];
    if !is_name(name) {
        return Ok(None);
    }
    let after = &text[length..];
    if after.starts_with('[') {
        return subscripted(word, name);
    }
    let adds = after.starts_with("+=");
    let Some(value) = after.strip_prefix("+=").or_else(|| after.strip_prefix('=')) else { return Ok(None) };
    let skipped = text.len() - value.len();
    let value =
        Word { raw: word.raw.get(skipped..).unwrap_or("").to_owned(), pieces: tail(word, skipped, 0) };
    Ok(Some(Split { name: name.to_owned(), subscript: String::new(), adds, value }))
}

/// `name[…]=…`: the subscript may hold anything, so it is looked for in the text as typed.
fn subscripted(word: &Word, name: &str) -> Result<Option<Split>, &'static str> {
    let end = ["]=", "]+="].iter().filter_map(|end| word.raw.find(end).map(|at| (at, end.len()))).min();
    let Some((end, length)) = end else {
        return if word.raw.contains(']') { Ok(None) } else { Err("a subscript with a blank") };
    };
    let subscript = word.raw[name.len() + 1..end].to_owned();
    if subscript.contains(['[', ']']) {
        return Err("a subscript in a subscript");
    }
    let raw = word.raw[end + length..].to_owned();
    // The value counts as unknown, and its pieces stay where they are: all of them are looked at.
    let pieces = vec![Piece::Other { inner: word.pieces.clone(), quoted: true }];
    Ok(Some(Split { name: name.to_owned(), subscript, adds: true, value: Word { raw, pieces } }))
}

/// The pieces of a word without the first `skipped` bytes of the piece at `first`.
fn tail(word: &Word, skipped: usize, first: usize) -> Vec<Piece> {
    let mut pieces = word.pieces[first..].to_vec();
    if let Some(Piece::Text { text, .. }) = pieces.first_mut() {
        text.drain(..skipped);
        if text.is_empty() {
            pieces.remove(0);
        }
    }
    pieces
}

fn has_code(text: &str) -> bool {
    text.contains("$(") || text.contains('`') || text.contains("${")
}

/// What is evaluated in the name of a variable: `x` of `y[x]`, also where an option stands before it.
fn subscript(word: &str) -> Option<String> {
    let (name, subscript) = word.split_once('[')?;
    let is_name = name.trim_start_matches(['-', '\'', '"']).chars().all(is_name_byte_char);
    is_name.then(|| subscript.to_owned())
}

/// Everything in a text that could be the name of a variable.
fn names_in(text: &str) -> Vec<String> {
    let names = text.split(|letter: char| !is_name_byte_char(letter));
    names.filter(|name| is_name(name)).map(str::to_owned).collect()
}

fn is_name_byte_char(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_'
}
