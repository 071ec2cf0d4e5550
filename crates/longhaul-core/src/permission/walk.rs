//! From the tree to the commands in it, each with where it runs and what it is joined to.

use std::rc::Rc;

use super::call::{Call, Cwd, Term};
use super::paths;
use super::shell::{
    Compound, Facts, Kind, Link, Node, Onto, Piece, Redirection, Script, Simple, Target, Word,
};

/// Everything a text would run.
pub(super) struct Walked {
    pub(super) calls: Vec<Call>,
    /// Whether a function starts itself again in the background or in a pipeline.
    pub(super) is_bomb: bool,
}

/// Where a text starts.
pub(super) struct Start<'a> {
    pub(super) workspace: &'a str,
    pub(super) cwd: Cwd,
    pub(super) depth: usize,
    pub(super) piped: bool,
}

pub(super) fn walk(script: &Script, start: Start<'_>) -> Walked {
    let facts = Rc::new(script.facts.clone());
    let cwd = if moves_in_loop(&script.nodes, Within::Line) { Cwd::Unknown } else { start.cwd };
    let mut walk = Walk {
        workspace: start.workspace,
        facts,
        depth: start.depth,
        walked: Walked { calls: Vec::new(), is_bomb: false },
    };
    let mut place = Place { cwd, piped: start.piped, functions: Vec::new(), detached: false };
    walk.list(&script.nodes, &mut place);
    walk.walked
}

struct Walk<'a> {
    workspace: &'a str,
    facts: Rc<Facts>,
    depth: usize,
    walked: Walked,
}

#[derive(Clone)]
struct Place {
    cwd: Cwd,
    piped: bool,
    /// The functions whose bodies are around.
    functions: Vec<String>,
    /// In a pipeline or in the background.
    detached: bool,
}

impl Walk<'_> {
    fn list(&mut self, list: &[(Node, Link)], place: &mut Place) {
        let mut chain = place.cwd.clone();
        for (node, link) in list {
            match link {
                Link::Background => {
                    let mut apart = Place { detached: true, ..place.clone() };
                    self.node(node, &mut apart);
                }
                Link::And | Link::Or | Link::Then => self.node(node, place),
            }
            // Only what follows `cd x &&` is sure to run there.
            if *link != Link::And {
                place.cwd = place.cwd.or(&chain);
            }
            if matches!(link, Link::Then | Link::Background) {
                chain = place.cwd.clone();
            }
        }
    }

    fn node(&mut self, node: &Node, place: &mut Place) {
        match node {
            Node::Simple(simple) => self.simple(simple, place),
            Node::Pipeline(stages) => {
                for (stage, node) in stages.iter().enumerate() {
                    let piped = place.piped || stage > 0;
                    let mut apart = Place { piped, detached: true, ..place.clone() };
                    self.node(node, &mut apart);
                }
            }
            Node::Compound(compound) => self.compound(compound, place),
        }
    }

    fn simple(&mut self, simple: &Simple, place: &mut Place) {
        let values = simple.assignments.iter().flat_map(|assignment| &assignment.values);
        self.words(values.chain(&simple.words), place);
        self.redirections(&simple.redirections, place);
        let call = self.call(simple, place);
        let name = call.name().unwrap_or("").to_owned();
        if place.detached && place.functions.contains(&name) {
            self.walked.is_bomb = true;
        }
        let next = moved(self.workspace, &call);
        self.walked.calls.push(call);
        if let Some(cwd) = next {
            place.cwd = cwd;
        }
    }

    fn call(&self, simple: &Simple, place: &Place) -> Call {
        let call = Call::of(simple, &self.facts, &place.cwd);
        // `sh < <(curl x)` is `curl x | sh`.
        let is_fed = |redirection: &Redirection| match &redirection.target {
            Target::File(word) => redirection.onto == Onto::Input && word.runs(),
            Target::Descriptor | Target::Duplicate(_) | Target::Text(_) | Target::Document(_) => false,
        };
        let piped = place.piped || simple.redirections.iter().any(is_fed);
        Call { piped, depth: self.depth, ..call }
    }

    fn compound(&mut self, compound: &Compound, place: &mut Place) {
        self.words(compound.words.iter(), place);
        self.redirections(&compound.redirections, place);
        if !compound.redirections.is_empty() {
            let only = Simple { redirections: compound.redirections.clone(), ..Simple::default() };
            let call = self.call(&only, place);
            self.walked.calls.push(call);
        }
        let reads =
            compound.redirections.iter().any(|redirection| !matches!(redirection.target, Target::Descriptor));
        let piped = place.piped || reads;
        match &compound.kind {
            Kind::Subshell => {
                let mut apart = Place { piped, ..place.clone() };
                compound.parts.iter().for_each(|part| self.list(part, &mut apart));
            }
            Kind::Function(name) => {
                let mut apart = Place { piped: true, ..place.clone() };
                apart.functions.push(name.clone());
                compound.parts.iter().for_each(|part| self.list(part, &mut apart));
            }
            Kind::Group | Kind::Choice | Kind::Loop | Kind::Test | Kind::Arithmetic => {
                let before = place.clone();
                place.piped = piped;
                for part in &compound.parts {
                    self.list(part, place);
                    if compound.kind != Kind::Group {
                        place.cwd = place.cwd.or(&before.cwd);
                    }
                }
                place.piped = before.piped;
            }
        }
    }

    fn redirections(&mut self, redirections: &[Redirection], place: &Place) {
        let facts = Rc::clone(&self.facts);
        for redirection in redirections {
            match &redirection.target {
                Target::File(word) | Target::Duplicate(word) | Target::Text(word) => {
                    self.words([word].into_iter(), place);
                }
                Target::Document(slot) => self.words(facts.documents.get(*slot).into_iter(), place),
                Target::Descriptor => {}
            }
        }
    }

    fn words<'w>(&mut self, words: impl Iterator<Item = &'w Word>, place: &Place) {
        for word in words {
            self.pieces(&word.pieces, place);
        }
    }

    fn pieces(&mut self, pieces: &[Piece], place: &Place) {
        for piece in pieces {
            match piece {
                Piece::Text { .. } | Piece::Variable { .. } => {}
                Piece::Commands { nodes, .. } => {
                    let mut apart = place.clone();
                    self.list(nodes, &mut apart);
                }
                Piece::Other { inner, .. } => self.pieces(inner, place),
            }
        }
    }
}

/// Where `cd` leads; `None` for any other command.
fn moved(workspace: &str, call: &Call) -> Option<Cwd> {
    let names = call.terms.iter().take(3).filter_map(Term::fixed);
    let moves = names.clone().any(|name| matches!(name, "cd" | "pushd" | "popd"));
    if !moves {
        return None;
    }
    let operands: Vec<&Term> = call
        .arguments()
        .iter()
        .filter(|term| !matches!(term.fixed(), Some("-P" | "-L" | "--" | "-e")))
        .collect();
    match (call.terms.first().and_then(Term::fixed), operands.as_slice()) {
        (Some("cd" | "pushd"), [Term::Fixed(path)]) if !path.starts_with(['-', '+']) => {
            Some(paths::changed(workspace, &call.cwd, path))
        }
        _ => Some(Cwd::Unknown),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Within {
    Line,
    Repeated,
}

/// Whether a command that may run several times changes the directory.
fn moves_in_loop(list: &[(Node, Link)], within: Within) -> bool {
    list.iter().any(|(node, _)| node_moves(node, within))
}

fn node_moves(node: &Node, within: Within) -> bool {
    match node {
        Node::Simple(simple) => {
            let mut names = simple.words.iter().take(3).filter_map(Word::value);
            within == Within::Repeated && names.any(|name| matches!(name.as_str(), "cd" | "pushd" | "popd"))
        }
        Node::Pipeline(stages) => stages.iter().any(|stage| node_moves(stage, within)),
        Node::Compound(compound) => {
            let within = match compound.kind {
                Kind::Loop | Kind::Function(_) => Within::Repeated,
                Kind::Subshell | Kind::Group | Kind::Choice | Kind::Test | Kind::Arithmetic => within,
            };
            compound.parts.iter().any(|part| moves_in_loop(part, within))
        }
    }
}
