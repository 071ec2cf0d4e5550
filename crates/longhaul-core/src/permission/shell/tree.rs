//! What a command line is made of. Order and nesting are kept as far as a verdict depends on them.

use std::collections::{BTreeMap, BTreeSet};

/// Why a text cannot be read for sure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unclear {
    /// Bytes from the start of the innermost text that was being read.
    pub(crate) at: usize,
    pub(crate) why: &'static str,
}

impl Unclear {
    pub(crate) fn new(at: usize, why: &'static str) -> Unclear {
        Unclear { at, why }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Script {
    pub(crate) nodes: Vec<(Node, Link)>,
    pub(crate) facts: Facts,
}

/// What holds for the whole text, whatever the order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Every value a variable is given; `None` for one that is not known.
    pub(crate) values: BTreeMap<String, Vec<Option<Word>>>,
    /// Variables that are given a value by something that is neither an assignment nor a command: a loop, arithmetic, `${x:=…}`.
    pub(crate) set_aside: BTreeSet<String>,
    /// Variables whose value bash evaluates as arithmetic, which can run commands.
    pub(crate) arithmetic: BTreeSet<String>,
    /// Constructs that were read, but can run what is not written here.
    pub(crate) doubts: BTreeSet<&'static str>,
    /// Here-documents; their bodies come after the command that names them.
    pub(crate) documents: Vec<Word>,
    /// How many commands were read so far.
    pub(crate) commands: usize,
}

/// What joins a command to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    And,
    Or,
    Then,
    Background,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Simple(Simple),
    Pipeline(Vec<Node>),
    Compound(Compound),
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Simple {
    pub(crate) assignments: Vec<Assignment>,
    pub(crate) words: Vec<Word>,
    pub(crate) redirections: Vec<Redirection>,
}

#[derive(Clone, Debug)]
pub(crate) struct Assignment {
    pub(crate) name: String,
    /// The value, or the elements of an array.
    pub(crate) values: Vec<Word>,
}

#[derive(Clone, Debug)]
pub(crate) struct Compound {
    pub(crate) kind: Kind,
    /// Words that are expanded and not run: a loop's list, a case's subject and patterns, a test's operands.
    pub(crate) words: Vec<Word>,
    pub(crate) parts: Vec<Vec<(Node, Link)>>,
    pub(crate) redirections: Vec<Redirection>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Subshell,
    Group,
    Choice,
    Loop,
    Function(String),
    Test,
    Arithmetic,
}

#[derive(Clone, Debug)]
pub(crate) struct Redirection {
    pub(crate) direction: Direction,
    pub(crate) onto: Onto,
    pub(crate) target: Target,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    In,
    Out,
}

/// Which of a command's descriptors is redirected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Onto {
    /// What the command reads as its input.
    Input,
    Other,
}

#[derive(Clone, Debug)]
pub(crate) enum Target {
    File(Word),
    /// A number or `-`: an open file is used again or closed.
    Descriptor,
    /// The same with a word that is expanded first; behind `>&` it may turn out as the name of a file, too.
    Duplicate(Word),
    /// A here-string.
    Text(Word),
    /// A here-document, by its number in [`Facts::documents`].
    Document(usize),
}

/// One word before expansion.
#[derive(Clone, Debug, Default)]
pub(crate) struct Word {
    /// As it was typed.
    pub(crate) raw: String,
    pub(crate) pieces: Vec<Piece>,
}

#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text {
        text: String,
        quoted: bool,
    },
    Variable {
        name: String,
        quoted: bool,
    },
    /// `$(…)`, backticks, `<(…)`, `>(…)`.
    Commands {
        nodes: Vec<(Node, Link)>,
        quoted: bool,
    },
    /// Anything else whose value is only known when it runs; `inner` may hold commands.
    Other {
        inner: Vec<Piece>,
        quoted: bool,
    },
}

impl Piece {
    fn quoted(&self) -> bool {
        match self {
            Piece::Text { quoted, .. }
            | Piece::Variable { quoted, .. }
            | Piece::Commands { quoted, .. }
            | Piece::Other { quoted, .. } => *quoted,
        }
    }
}

impl Word {
    /// What the word is for sure, if it is one word whatever the surroundings.
    pub(crate) fn value(&self) -> Option<String> {
        if self.is_tilde() || self.globs() || self.braces() {
            return None;
        }
        let mut value = String::new();
        for piece in &self.pieces {
            let Piece::Text { text, .. } = piece else { return None };
            value.push_str(text);
        }
        Some(value)
    }

    /// The text before anything that only running tells.
    pub(crate) fn prefix(&self) -> String {
        let mut prefix = String::new();
        for piece in &self.pieces {
            let Piece::Text { text, quoted } = piece else { break };
            if *quoted {
                prefix.push_str(text);
                continue;
            }
            let end = text.find(['*', '?', '[', '{']).unwrap_or(text.len());
            prefix.push_str(&text[..end]);
            if end < text.len() {
                break;
            }
        }
        prefix
    }

    /// Whether the word can become none or several.
    pub(crate) fn splits(&self) -> bool {
        let unquoted = self.pieces.iter().any(|piece| match piece {
            Piece::Text { .. } => false,
            Piece::Variable { name, quoted } => !quoted || name == "@",
            Piece::Commands { quoted, .. } | Piece::Other { quoted, .. } => !quoted,
        });
        // `"${a[@]}"` is kept as something else; it may be several words although it is quoted.
        let list =
            self.pieces.iter().any(|piece| matches!(piece, Piece::Other { .. })) && self.raw.contains('@');
        unquoted || list || self.globs() || self.braces()
    }

    /// The texts that are written in it, cut where one word could end: what a deny rule looks at.
    pub(crate) fn fragments(&self) -> Vec<String> {
        let mut fragments = vec![String::new()];
        for piece in &self.pieces {
            match piece {
                Piece::Text { text, quoted: true } => push(&mut fragments, text),
                Piece::Text { text, quoted: false } => {
                    let mut parts = text.split(['{', ',', '}']);
                    push(&mut fragments, parts.next().unwrap_or(""));
                    fragments.extend(parts.map(str::to_owned));
                }
                Piece::Variable { .. } | Piece::Commands { .. } | Piece::Other { .. } => {
                    fragments.push(String::new());
                }
            }
        }
        fragments.retain(|fragment| !fragment.is_empty());
        fragments
    }

    /// The whole of it as unquoted plain text: only then it can be a reserved word.
    pub(crate) fn plain(&self) -> Option<String> {
        let unquoted = |piece: &Piece| matches!(piece, Piece::Text { .. }) && !piece.quoted();
        self.pieces.iter().all(unquoted).then(|| self.value()).flatten()
    }

    pub(crate) fn is_tilde(&self) -> bool {
        let text = |at: usize| match self.pieces.get(at) {
            Some(Piece::Text { text, quoted: false }) => Some(text.as_str()),
            Some(_) | None => None,
        };
        // `a=~` counts as well: whether the place of an assignment makes it one is not looked at.
        text(0).is_some_and(|text| text.starts_with('~') || text.contains("=~") || text.contains(":~"))
            || (1..self.pieces.len()).any(|at| {
                text(at).is_some_and(|text| {
                    text.contains("=~")
                        || text.contains(":~")
                        || (text.starts_with('~') && self.ends_open(at - 1))
                })
            })
    }

    fn ends_open(&self, at: usize) -> bool {
        matches!(&self.pieces[at], Piece::Text { text, quoted: false } if text.ends_with(['=', ':']))
    }

    /// Whether commands run for it.
    pub(crate) fn runs(&self) -> bool {
        self.pieces.iter().any(|piece| matches!(piece, Piece::Commands { .. }))
    }

    /// Whether file names can take its place.
    pub(crate) fn globs(&self) -> bool {
        let unquoted = self.unquoted();
        let bracket = unquoted.find('[').is_some_and(|open| unquoted[open..].contains(']'));
        unquoted.contains(['*', '?']) || bracket
    }

    /// Whether braces can make several words of it.
    pub(crate) fn braces(&self) -> bool {
        let unquoted = self.unquoted();
        let Some(open) = unquoted.find('{') else { return false };
        let inside = &unquoted[open..];
        inside.contains('}') && (inside.contains(',') || inside.contains(".."))
    }

    /// The unquoted text; what is quoted or expanded stands as a neutral letter.
    fn unquoted(&self) -> String {
        let mut unquoted = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text { text, quoted: false } => unquoted.push_str(text),
                Piece::Text { .. }
                | Piece::Variable { .. }
                | Piece::Commands { .. }
                | Piece::Other { .. } => unquoted.push('x'),
            }
        }
        unquoted
    }
}

fn push(fragments: &mut [String], text: &str) {
    if let Some(last) = fragments.last_mut() {
        last.push_str(text);
    }
}
