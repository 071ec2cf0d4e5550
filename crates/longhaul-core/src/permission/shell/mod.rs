//! Reads bash as bash reads it: words with their quoting, commands, compounds, redirections, here-documents and every
//! kind of substitution, as a tree.
//!
//! Owns the grammar and nothing else: whether something may run is decided by who asked. Refuses whatever it is not sure
//! to read like bash (`extglob`, `coproc`, `$[…]`, control characters, a continuation in the middle of an operator):
//! the answer is then [`Unclear`], never a guess. It is written by hand because both ready-made grammars guess: one
//! recovers from errors by leaving tokens out, the other needs C or a large stack of dependencies in core.

mod parse;
mod substitute;
mod tree;
mod words;

pub(super) use tree::{
    Compound, Direction, Facts, Kind, Link, Node, Onto, Piece, Redirection, Script, Simple, Target, Unclear,
    Word,
};

use crate::limits::SHELL_BYTES_MAX;

/// The tree of a whole command line, or why it cannot be read for sure.
pub(super) fn read(text: &str) -> Result<Script, Unclear> {
    if text.len() > SHELL_BYTES_MAX {
        return Err(Unclear::new(SHELL_BYTES_MAX, "longer than what is read"));
    }
    let odd = |letter: char| {
        (letter.is_control() && !matches!(letter, '\n' | '\t'))
            || (letter.is_whitespace() && !matches!(letter, '\n' | '\t' | ' '))
    };
    if let Some((at, _)) = text.char_indices().find(|(_, letter)| odd(*letter)) {
        return Err(Unclear::new(at, "a control character or an unusual blank"));
    }
    let mut facts = Facts::default();
    let nodes = parse::program(text, 0, &mut facts)?;
    Ok(Script { nodes, facts })
}
