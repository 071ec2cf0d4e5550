//! One command as rules see it: its words, known or not, and where it stands.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::paths::{Place, place};
use super::pattern::basename;
use super::shell::{Facts, Piece, Redirection, Simple, Word};
use crate::limits::WORD_SHAPES_MAX;

/// What a word is shown with at its end that will be known when it runs.
pub(super) const OPEN: char = '…';

/// A word of a command.
#[derive(Clone, Debug)]
pub(super) enum Term {
    Fixed(String),
    /// What it will be is known when it runs.
    Open {
        raw: String,
        /// What it begins with for sure.
        prefix: String,
        /// Texts that are written in it, or that its variables are given on the same line.
        fragments: Vec<String>,
        /// Whether it can become none or several words.
        splits: bool,
        /// Whether it cannot become an option, however it turns out.
        stays_operand: bool,
        /// Every path it can be, if that is known; `*` in it stands for file names.
        shapes: Option<Vec<String>>,
    },
}

impl Term {
    pub(super) fn of(word: &Word, facts: &Facts) -> Term {
        if let Some(value) = word.value() {
            return Term::Fixed(value);
        }
        let mut fragments = word.fragments();
        for piece in &word.pieces {
            if let Piece::Variable { name, .. } = piece {
                let values = facts.values.get(name).into_iter().flatten().flatten().take(WORD_SHAPES_MAX);
                for text in values.flat_map(Word::fragments) {
                    fragments.extend(text.split_whitespace().map(str::to_owned));
                }
            }
        }
        let prefix = if word.is_tilde() { "~".to_owned() } else { word.prefix() };
        let only_names = word.globs()
            && !word.braces()
            && word.pieces.iter().all(|piece| matches!(piece, Piece::Text { .. }));
        let splits = word.splits();
        let shapes = shapes(word, facts, 0);
        let known = shapes.as_ref().is_some_and(|shapes| {
            shapes.iter().all(|shape| {
                !shape.starts_with(['-', '*', '?', '['])
                    && !shape.is_empty()
                    && !shape.contains([' ', '\n', '\t'])
            })
        });
        let fixed_start = !prefix.is_empty() && !prefix.starts_with('-');
        let stays_operand = known || (fixed_start && (only_names || !splits));
        Term::Open { raw: word.raw.clone(), prefix, fragments, splits, stays_operand, shapes }
    }

    /// A word that comes from elsewhere, such as the input of `xargs`.
    pub(super) fn unknown(raw: &str) -> Term {
        Term::Open {
            raw: raw.to_owned(),
            prefix: String::new(),
            fragments: Vec::new(),
            splits: true,
            stays_operand: false,
            shapes: None,
        }
    }

    pub(super) fn fixed(&self) -> Option<&str> {
        match self {
            Term::Fixed(text) => Some(text),
            Term::Open { .. } => None,
        }
    }

    /// Everything that is written in it.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let (one, many) = match self {
            Term::Fixed(text) => (Some(text.as_str()), [].as_slice()),
            Term::Open { fragments, .. } => (None, fragments.as_slice()),
        };
        one.into_iter().chain(many.iter().map(String::as_str))
    }

    pub(super) fn shown(&self) -> String {
        match self {
            Term::Fixed(text) => text.clone(),
            Term::Open { raw, .. } => format!("{raw}{OPEN}"),
        }
    }
}

/// Every text the word can be, with stars for file names; `None` if it is not known.
fn shapes(word: &Word, facts: &Facts, depth: usize) -> Option<Vec<String>> {
    if depth > 2 || word.is_tilde() {
        return None;
    }
    let mut shapes = vec![String::new()];
    for piece in &word.pieces {
        let more = match piece {
            Piece::Text { text, quoted: true } => vec![text.clone()],
            Piece::Text { text, quoted: false } => braced(text)?,
            Piece::Variable { name, .. } if name == "PWD" && !facts.values.contains_key("PWD") => {
                vec![".".to_owned()]
            }
            Piece::Variable { name, .. } => {
                let mut texts = Vec::new();
                let values = facts.values.get(name)?;
                if values.len() > WORD_SHAPES_MAX {
                    return None;
                }
                for value in values {
                    texts.extend(self::shapes(value.as_ref()?, facts, depth + 1)?);
                }
                texts
            }
            Piece::Commands { .. } | Piece::Other { .. } => return None,
        };
        shapes =
            shapes.iter().flat_map(|shape| more.iter().map(move |more| format!("{shape}{more}"))).collect();
        if shapes.is_empty() || shapes.len() > WORD_SHAPES_MAX {
            return None;
        }
    }
    Some(shapes)
}

/// The texts that one pair of braces makes; `None` for anything more.
fn braced(text: &str) -> Option<Vec<String>> {
    let Some(open) = text.find('{') else {
        return Some(vec![text.to_owned()]);
    };
    let close = open + text[open..].find('}')?;
    let inside = &text[open + 1..close];
    let after = &text[close + 1..];
    if inside.contains('{') || after.contains(['{', '}']) || !inside.contains(',') {
        return None;
    }
    Some(inside.split(',').map(|part| format!("{}{part}{after}", &text[..open])).collect())
}

/// Where a command runs, relative to the workspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cwd {
    /// One of these.
    Known(BTreeSet<String>),
    Unknown,
}

impl Cwd {
    /// A directory inside the workspace; any other is not known.
    pub(super) fn at(path: &str) -> Cwd {
        match place("", "", path) {
            Place::Inside(path) => Cwd::Known(BTreeSet::from([path])),
            Place::Outside(_) => Cwd::Unknown,
        }
    }

    pub(super) fn or(&self, other: &Cwd) -> Cwd {
        match (self, other) {
            (Cwd::Known(one), Cwd::Known(two)) if one.len() + two.len() < WORD_SHAPES_MAX => {
                Cwd::Known(one.union(two).cloned().collect())
            }
            (Cwd::Known(_) | Cwd::Unknown, Cwd::Known(_) | Cwd::Unknown) => Cwd::Unknown,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) terms: Vec<Term>,
    /// Names of the variables that are set for it, or by it.
    pub(super) sets: Vec<String>,
    pub(super) redirections: Vec<Redirection>,
    pub(super) facts: Rc<Facts>,
    pub(super) cwd: Cwd,
    /// How many commands stand between it and the line.
    pub(super) depth: usize,
    /// Whether text could come in from a command before it.
    pub(super) piped: bool,
}

impl Call {
    pub(super) fn of(simple: &Simple, facts: &Rc<Facts>, cwd: &Cwd) -> Call {
        Call {
            terms: simple.words.iter().map(|word| Term::of(word, facts)).collect(),
            sets: simple.assignments.iter().map(|assignment| assignment.name.clone()).collect(),
            redirections: simple.redirections.clone(),
            facts: Rc::clone(facts),
            cwd: cwd.clone(),
            depth: 0,
            piped: false,
        }
    }

    /// The same place, with other words.
    pub(super) fn running(&self, terms: Vec<Term>) -> Call {
        Call { terms, sets: Vec::new(), redirections: Vec::new(), depth: self.depth + 1, ..self.clone() }
    }

    /// The program, without its directory.
    pub(super) fn name(&self) -> Option<&str> {
        self.terms.first().and_then(Term::fixed).map(basename)
    }

    pub(super) fn arguments(&self) -> &[Term] {
        self.terms.get(1..).unwrap_or(&[])
    }

    pub(super) fn shown(&self) -> Vec<String> {
        self.terms.iter().map(Term::shown).collect()
    }
}
