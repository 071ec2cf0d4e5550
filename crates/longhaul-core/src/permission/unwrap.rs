//! What a command runs besides itself: commands in its words, code in its arguments, programs its options name.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::call::{Call, Term};
use super::editors::{awk_is_plain, sed_is_plain};
use super::paths::is_device;
use super::pattern::basename;
use super::programs::{
    CODE_MODULES, HARMLESS_VARIABLES, HAZARD_TEXTS, HAZARDS, INTEGERS, INTERPRETERS, MACHINES, OPAQUE,
    RUNNERS, SHELLS, STEERING, Style, WRAPPERS, Wrapper, is_option, listed,
};
use super::shell::{self, Facts, Onto, Target, Word};
use super::walk::{Start, walk};
use super::{git, programs};

/// Something a command may do that its words do not show.
#[derive(Clone, Debug)]
pub(super) struct Hazard {
    /// The word that does it. A rule that has this very word allows it knowingly.
    pub(super) trigger: Option<String>,
    pub(super) why: String,
    /// Code that could not be read: searched for what is denied.
    pub(super) code: Vec<String>,
}

#[derive(Default)]
pub(super) struct Inner {
    pub(super) calls: Vec<Call>,
    pub(super) hazards: Vec<Hazard>,
    /// Variables it sets.
    pub(super) sets: Vec<String>,
    /// Whether any of its words may be the start of a command.
    pub(super) runs_words: bool,
    pub(super) is_bomb: bool,
}

/// Everything the command runs besides itself, one level deep.
pub(super) fn inner(call: &Call, workspace: &str) -> Inner {
    let mut look = Look { call, workspace, found: Inner::default() };
    let Some(name) = call.name().map(str::to_owned) else {
        look.behind_nothing();
        return look.found;
    };
    look.by_name(&name);
    look.by_options(&name);
    look.names_in_words(&name);
    look.found
}

/// What makes a text doubtful as a whole: constructs that evaluate what variables hold.
pub(super) fn doubts(facts: &Facts) -> Vec<Hazard> {
    let constructs = facts.doubts.iter().map(|why| (*why).to_owned());
    let given = facts.values.keys().filter(|name| INTEGERS.contains(&name.as_str()));
    let evaluated: BTreeSet<&String> = facts.arithmetic.iter().chain(given).collect();
    let evaluated = evaluated.into_iter().filter(|name| !is_number(facts, name));
    let evaluated = evaluated.map(|name| format!("arithmetic evaluates `{name}`, which may hold commands"));
    let steering = facts.set_aside.iter().filter(|name| steers(name));
    let steering = steering.map(|name| format!("`{name}` decides what later commands do"));
    constructs
        .chain(evaluated)
        .chain(steering)
        .map(|why| Hazard { trigger: None, why, code: Vec::new() })
        .collect()
}

/// Whether a variable decides what runs.
fn steers(name: &str) -> bool {
    listed(STEERING, name) && !listed(HARMLESS_VARIABLES, name)
}

/// Whether a variable holds nothing but numbers, as far as this text sets it. Others come from our own environment.
fn is_number(facts: &Facts, name: &str) -> bool {
    if name.bytes().all(|byte| byte.is_ascii_digit()) || matches!(name, "@" | "*" | "_" | "!") {
        return false;
    }
    let plain = |word: &Word| {
        (word.raw.starts_with("$((") && word.pieces.len() == 1)
            || word.raw.bytes().all(|byte| byte.is_ascii_digit() || b"{}.,-\"'".contains(&byte))
    };
    facts.values.get(name).into_iter().flatten().all(|value| value.as_ref().is_some_and(plain))
}

/// Where a command's input comes from, as far as the command itself says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A text on the line.
    Text,
    File,
    /// Whatever was open before.
    Elsewhere,
}

impl Source {
    fn named(word: &Word, facts: &Facts) -> Source {
        match is_file(&Term::of(word, facts)) {
            true => Source::File,
            false => Source::Elsewhere,
        }
    }
}

/// Whether a word names plain files for sure: no device, and not what other commands print, as behind `<(`.
fn is_file(term: &Term) -> bool {
    match term {
        Term::Fixed(path) => !is_input(path),
        Term::Open { shapes, .. } => {
            shapes.as_ref().is_some_and(|shapes| !shapes.iter().any(|path| is_input(path)))
        }
    }
}

struct Look<'a> {
    call: &'a Call,
    workspace: &'a str,
    found: Inner,
}

impl Look<'_> {
    fn by_name(&mut self, name: &str) {
        if SHELLS.contains(&name) {
            return self.shell(name);
        }
        match name {
            "eval" => self.eval(),
            "trap" => self.trap(),
            "set" => self.set(),
            "declare" | "typeset" | "local" | "export" | "readonly" => self.declare(),
            "let" | "read" | "unset" | "mapfile" | "readarray" | "getopts" | "wait" | "printf" | "test"
            | "[" => {
                self.names_variables(name);
            }
            "find" | "gfind" => self.find(),
            "git" => {
                for (trigger, why) in git::hazards(self.call.arguments()) {
                    self.unreadable(trigger.as_deref(), why);
                }
            }
            "sed" | "gsed" => self.sed(),
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(),
            "make" | "gmake" => self.make(),
            _ if git::subcommand(name).is_some_and(git::is_known) => {
                let terms = git::spelled_out(&self.call.terms).unwrap_or_default();
                for (trigger, why) in git::hazards(terms.get(1..).unwrap_or(&[])) {
                    self.unreadable(trigger.as_deref(), why);
                }
            }
            _ => self.by_table(name),
        }
    }

    fn by_table(&mut self, name: &str) {
        if let Some(wrapper) = WRAPPERS.iter().find(|wrapper| wrapper.names.contains(&name)) {
            self.found.runs_words = true;
            return self.wrapped(wrapper);
        }
        if OPAQUE.contains(&name) {
            self.found.runs_words = true;
            // A rule that names `source` means files, not text from the line.
            let mut files = self.call.arguments().iter().filter_map(Term::fixed);
            if matches!(name, "source" | ".") && files.any(is_input) {
                self.input("bash");
            }
            return self
                .unreadable(Some(name), format!("`{name}` runs or changes what these rules cannot read"));
        }
        if let Some((_, words)) = RUNNERS.iter().find(|(runner, _)| *runner == name) {
            return self.runner(name, words);
        }
        if let Some((letters, valued)) = interpreter(name) {
            self.interpreter(name, letters, valued);
        }
    }

    /// A program that is not known may run its words: where a shell or an interpreter with an option stands among them, that is read too.
    fn names_in_words(&mut self, name: &str) {
        if self.call.terms[0].fixed().is_some_and(|program| program.contains("{}")) {
            self.unreadable(None, "the name of a file is run as a command".to_owned());
        }
        if self.found.runs_words || is_plain(name) || RUNNERS.iter().any(|(runner, _)| *runner == name) {
            return;
        }
        let arguments = self.call.arguments();
        let begins = |at: &usize| {
            let program = arguments[*at].fixed().map(basename);
            let option =
                arguments.get(at + 1).is_some_and(|next| next.texts().any(|text| text.starts_with('-')));
            option
                && program.is_some_and(|program| SHELLS.contains(&program) || interpreter(program).is_some())
        };
        if let Some(at) = (0..arguments.len()).find(begins) {
            self.found.calls.push(self.call.running(arguments[at..].to_vec()));
        }
    }

    fn by_options(&mut self, name: &str) {
        let fixed: Vec<&str> = self.call.arguments().iter().filter_map(Term::fixed).collect();
        let options = fixed.iter().take_while(|word| **word != "--");
        let mut hazards = Vec::new();
        for option in HAZARDS.iter().filter(|(program, _)| *program == name).flat_map(|(_, options)| *options)
        {
            let old_style =
                name.ends_with("tar") && fixed.first().is_some_and(|first| old_tar(first, option));
            let word = options.clone().find(|word| is_option(word, option)).copied();
            if let Some(word) = word.or(old_style.then_some(*option)) {
                hazards
                    .push((word.to_owned(), format!("`{name} {option}` runs a program or writes elsewhere")));
            }
        }
        for text in HAZARD_TEXTS.iter().filter(|(program, _)| *program == name).flat_map(|(_, texts)| *texts)
        {
            if fixed.iter().any(|word| if *text == "+" { word.starts_with('+') } else { word.contains(text) })
            {
                hazards.push((String::new(), format!("`{text}` makes `{name}` run a program")));
            }
        }
        for (trigger, why) in hazards {
            self.unreadable(Some(&trigger), why);
        }
    }

    fn hazard(&mut self, trigger: Option<String>, why: String) {
        self.found.hazards.push(Hazard { trigger, why, code: Vec::new() });
    }

    /// A hazard whose code may be in any of the words.
    fn unreadable(&mut self, trigger: Option<&str>, why: String) {
        let code = self.call.arguments().iter().flat_map(Term::texts).map(str::to_owned).collect();
        self.found.hazards.push(Hazard { trigger: trigger.map(str::to_owned), why, code });
    }

    /// A word that turns out to be nothing leaves the next one as the command.
    fn behind_nothing(&mut self) {
        if let [Term::Open { splits: true, .. }, rest @ ..] = self.call.terms.as_slice()
            && !rest.is_empty()
        {
            self.found.calls.push(self.call.running(rest.to_vec()));
        }
    }

    /// Reads a text as commands.
    fn code(&mut self, text: &str) {
        match shell::read(text) {
            Ok(script) => {
                let start = Start {
                    workspace: self.workspace,
                    cwd: self.call.cwd.clone(),
                    depth: self.call.depth + 1,
                    piped: self.call.piped,
                };
                let walked = walk(&script, start);
                self.found.calls.extend(walked.calls);
                self.found.is_bomb |= walked.is_bomb;
                let mut facts = script.facts;
                // A variable of the text around it may hold commands here too.
                for (name, values) in &self.call.facts.values {
                    facts.values.entry(name.clone()).or_default().extend(values.iter().cloned());
                }
                self.found.hazards.extend(doubts(&facts));
            }
            Err(unclear) => self.found.hazards.push(Hazard {
                trigger: None,
                why: format!("commands in quotes could not be read: {}", unclear.why),
                code: vec![text.to_owned()],
            }),
        }
    }

    fn shell(&mut self, name: &str) {
        let arguments = self.call.arguments();
        let (mut at, mut takes_code, mut takes_input) = (0, false, false);
        while let Some(word) = arguments.get(at).and_then(Term::fixed) {
            if !word.starts_with(['-', '+']) || word == "-" {
                break;
            }
            at += 1;
            if word == "--" {
                break;
            }
            if word.starts_with("--") && !matches!(word, "--norc" | "--noprofile" | "--version" | "--help") {
                self.unreadable(Some(word), format!("`{name} {word}` changes what runs"));
            }
            let letters = &word[1..];
            takes_code |= !word.starts_with("--") && letters.contains('c');
            takes_input |= !word.starts_with("--") && letters.contains('s');
            if !word.starts_with("--") && letters.contains(['i', 'O']) {
                self.unreadable(Some(word), format!("`{name} {word}` changes what runs"));
            }
            if letters.ends_with(['o', 'O']) && !word.starts_with("--") {
                at += 1;
            }
        }
        match (arguments.get(at), takes_code) {
            (Some(Term::Fixed(code)), true) => {
                self.foreign_syntax(name, code);
                self.code(code);
            }
            (Some(Term::Open { .. }), _) => {
                self.unreadable(None, format!("what `{name}` runs is not known before it runs"));
            }
            (Some(Term::Fixed(file)), false) if !takes_input && !is_input(file) => {}
            (Some(_) | None, _) => self.input(name),
        }
    }

    /// Other shells read some texts differently.
    fn foreign_syntax(&mut self, name: &str, code: &str) {
        const ONLY_BASH: &[&str] =
            &["$'", "$\"", "&>", "<(", ">(", "[[", "((", "<<<", "|&", ";&", "function", "time", "{"];
        let differs = !matches!(name, "bash" | "rbash")
            && (!matches!(name, "sh" | "dash" | "ash") || ONLY_BASH.iter().any(|text| code.contains(text)));
        if differs {
            self.hazard(None, format!("`{name}` may read its commands differently"));
        }
    }

    /// Commands that come in as text.
    fn input(&mut self, name: &str) {
        let facts = Rc::clone(&self.call.facts);
        let (mut texts, mut printed) = (Vec::new(), Vec::new());
        let mut source = Source::Elsewhere;
        for redirection in &self.call.redirections {
            let given = match &redirection.target {
                Target::Text(word) => {
                    texts.push(word.clone());
                    Source::Text
                }
                Target::Document(slot) => {
                    texts.extend(facts.documents.get(*slot).cloned());
                    Source::Text
                }
                Target::File(word) => {
                    printed.extend(word.runs().then(|| word.raw.clone()));
                    Source::named(word, &facts)
                }
                Target::Descriptor | Target::Duplicate(_) => Source::Elsewhere,
            };
            // The last one counts, as for bash.
            if redirection.onto == Onto::Input {
                source = given;
            }
        }
        let known: Option<Vec<String>> = texts.iter().map(Word::value).collect();
        let is_known = known.is_some() && source != Source::Elsewhere;
        // Those for other descriptors may come to the input by way of these.
        for text in known.into_iter().flatten() {
            self.foreign_syntax(name, &text);
            self.code(&text);
        }
        if !is_known {
            let code = texts.into_iter().map(|text| text.raw).chain(printed).collect();
            let why = format!("`{name}` runs what it reads from its input");
            self.found.hazards.push(Hazard { trigger: None, why, code });
        }
    }

    fn eval(&mut self) {
        let words: Option<Vec<&str>> = self.call.arguments().iter().map(Term::fixed).collect();
        match words {
            Some(words) => self.code(&words.join(" ")),
            None => self.unreadable(None, "what `eval` runs is not known before it runs".to_owned()),
        }
    }

    fn trap(&mut self) {
        let (plain, arguments) = match self.call.arguments() {
            [Term::Fixed(end), rest @ ..] if end == "--" => (["-", ""].as_slice(), rest),
            arguments => (["-", "", "-l", "-p"].as_slice(), arguments),
        };
        match arguments {
            [] | [_] => {}
            [Term::Fixed(code), ..] if plain.contains(&code.as_str()) => {}
            [Term::Fixed(code), ..] => self.code(&code.clone()),
            [Term::Open { .. }, ..] => {
                self.unreadable(None, "what `trap` runs is not known before it runs".to_owned());
            }
        }
    }

    fn set(&mut self) {
        const NAMES: &[&str] =
            &["errexit", "nounset", "xtrace", "verbose", "pipefail", "errtrace", "noclobber", "noglob"];
        let mut arguments = self.call.arguments().iter();
        while let Some(term) = arguments.next() {
            let Some(word) = term.fixed() else {
                return self.hazard(None, "an option of `set` is not known before it runs".to_owned());
            };
            if word == "--" || word == "-" || !word.starts_with(['-', '+']) {
                return;
            }
            let named = word.ends_with('o').then(|| arguments.next().and_then(Term::fixed));
            let known = word[1..].chars().all(|letter| "euxvECfo".contains(letter))
                && named.is_none_or(|name| name.is_none_or(|name| NAMES.contains(&name)));
            if !known {
                self.hazard(Some(word.to_owned()), format!("`set {word}` changes how commands are read"));
            }
        }
    }

    fn declare(&mut self) {
        for term in self.call.arguments() {
            match term {
                Term::Fixed(word) if word.starts_with(['-', '+']) => {
                    if !word[1..].chars().all(|letter| "aAgxrpf-".contains(letter)) {
                        self.hazard(Some(word.clone()), format!("a variable declared `{word}` is evaluated"));
                    }
                }
                Term::Fixed(word) => {
                    let name = word.split(['=', '+']).next().unwrap_or("");
                    if name.contains('[') {
                        self.hazard(None, "a subscript in a declaration is evaluated".to_owned());
                    }
                    let value = word.split_once('=').map_or("", |(_, value)| value);
                    if !value.bytes().all(|byte| byte.is_ascii_digit()) {
                        self.integer(name);
                    }
                    self.found.sets.push(name.to_owned());
                }
                Term::Open { prefix, .. } => match prefix.split_once('=') {
                    Some((name, _)) if !name.contains('[') => {
                        self.integer(name.trim_end_matches('+'));
                        self.found.sets.push(name.trim_end_matches('+').to_owned());
                    }
                    Some(_) | None => {
                        self.hazard(
                            None,
                            "which variable is declared is not known before it runs".to_owned(),
                        );
                    }
                },
            }
        }
    }

    /// Built-in commands that take names of variables, whose subscripts bash evaluates.
    fn names_variables(&mut self, name: &str) {
        let arguments = self.call.arguments();
        let looks = match name {
            "printf" => {
                let turns_out = |term: &Term| match term {
                    Term::Fixed(word) => word.starts_with("-v"),
                    Term::Open { prefix, stays_operand, splits, .. } => {
                        !stays_operand && (*splits || prefix.starts_with('-'))
                    }
                };
                arguments.first().is_some_and(turns_out)
            }
            "test" | "[" => arguments.iter().any(|term| matches!(term.fixed(), Some("-v" | "-R"))),
            _ => true,
        };
        if !looks {
            return;
        }
        let open = arguments.iter().any(|term| matches!(term, Term::Open { .. }));
        let values = matches!(name, "printf" | "read");
        let code = |text: &str| text.contains('[') && text.contains(['$', '`']);
        let evaluates = arguments.iter().filter_map(Term::fixed).any(code);
        let calculates =
            name == "let" && arguments.iter().filter_map(Term::fixed).any(|text| text.contains(['$', '`']));
        if evaluates || calculates || (open && !values) {
            self.unreadable(None, format!("`{name}` evaluates the subscript of a variable's name"));
        }
        for target in targets(name, arguments) {
            match target.map(|word| word.split('[').next().unwrap_or(word).to_owned()) {
                Some(variable) if steers(&variable) => self.found.sets.push(variable),
                Some(variable) => self.integer(&variable),
                None => {
                    self.unreadable(None, format!("which variable `{name}` sets is not known before it runs"))
                }
            }
        }
    }

    /// What bash keeps as a number is evaluated when it is set. Not asked where it is given plain digits.
    fn integer(&mut self, variable: &str) {
        if INTEGERS.contains(&variable) {
            self.unreadable(None, format!("what `{variable}` is given is evaluated"));
        }
    }

    fn find(&mut self) {
        let mut arguments = self.call.arguments().iter();
        while let Some(term) = arguments.next() {
            if !matches!(term.fixed(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
                continue;
            }
            let terms: Vec<Term> = arguments
                .by_ref()
                .take_while(|term| !matches!(term.fixed(), Some(";" | "+")))
                .cloned()
                .collect();
            let inside = |term: &Term| term.texts().any(|text| text != "{}" && text.contains("{}"));
            if terms.iter().any(inside) {
                self.hazard(None, "`find` puts file names into a command's text".to_owned());
            }
            self.found.calls.push(self.call.running(terms));
        }
    }

    fn wrapped(&mut self, wrapper: &Wrapper) {
        let arguments = self.call.arguments();
        let mut at = 0;
        let mut replaced: Option<String> = None;
        while let Some(term) = arguments.get(at) {
            let Some(word) = term.fixed() else { break };
            let name = self.call.name().unwrap_or("");
            if name == "command" && (word.starts_with("-v") || word.starts_with("-V")) {
                return;
            }
            if !word.starts_with('-') {
                break;
            }
            at += 1;
            if word == "--" {
                break;
            }
            let attached = |option: &&&str| match option.starts_with("--") {
                true => word.starts_with(&format!("{option}=")),
                false => word.starts_with(**option),
            };
            if wrapper.style == Style::Fed
                && (word.starts_with("-I") || word.starts_with("-i") || word.starts_with("--replace"))
            {
                let next = if word == "-I" { arguments.get(at).and_then(Term::fixed) } else { word.get(2..) };
                replaced = next.filter(|text| !text.is_empty() && !text.starts_with('-')).map(str::to_owned);
                replaced = replaced.or(Some("{}".to_owned()));
            }
            if wrapper.valued.contains(&word) {
                at += 1;
            } else if !(wrapper.flags.contains(&word)
                || wrapper.valued.iter().any(|option| attached(&option))
                || (name == "nice" && word[1..].bytes().all(|byte| byte.is_ascii_digit())))
            {
                let why = format!("`{name} {word}` is not known to take no word with it");
                self.unreadable(Some(word), why);
            }
        }
        at += self.skipped(wrapper, arguments.get(at));
        // Behind the file of `flock` or the machine of `setarch`: further options, or a text for a shell.
        while wrapper.skipped > 0
            && let Some(word) = arguments.get(at).and_then(Term::fixed).filter(|word| word.starts_with('-'))
        {
            at += 1;
            if matches!(word, "-c" | "--command") {
                return self.wrapped_command(Style::Joined, arguments.get(at..).unwrap_or(&[]), None);
            }
            if word == "--" {
                break;
            }
            if !wrapper.flags.contains(&word) {
                let name = self.call.name().unwrap_or("");
                self.unreadable(Some(word), format!("`{name} {word}` is not known to take no word with it"));
            }
        }
        if wrapper.style == Style::Assignments {
            at += self.assignments(arguments.get(at..).unwrap_or(&[]));
        }
        self.wrapped_command(wrapper.style, arguments.get(at..).unwrap_or(&[]), replaced.as_deref());
    }

    /// How many words stand between the options and the command; `setarch` takes its machine or leaves it out.
    fn skipped(&self, wrapper: &Wrapper, next: Option<&Term>) -> usize {
        let machine = next.and_then(Term::fixed).is_some_and(|word| MACHINES.contains(&word));
        match self.call.name() {
            Some("setarch") if !machine => 0,
            Some(name) if MACHINES.contains(&name) => 0,
            Some(_) | None => wrapper.skipped,
        }
    }

    fn assignments(&mut self, arguments: &[Term]) -> usize {
        let name = |term: &Term| match term {
            Term::Fixed(word) => word.split_once('=').map(|(name, _)| name.to_owned()),
            Term::Open { prefix, splits: false, .. } => {
                prefix.split_once('=').map(|(name, _)| name.to_owned())
            }
            Term::Open { .. } => None,
        };
        let names: Vec<String> = arguments.iter().map_while(name).collect();
        let count = names.len();
        self.found.sets.extend(names);
        count
    }

    fn wrapped_command(&mut self, style: Style, terms: &[Term], replaced: Option<&str>) {
        if terms.is_empty() {
            return;
        }
        match style {
            Style::Words | Style::Assignments => self.found.calls.push(self.call.running(terms.to_vec())),
            Style::Joined => {
                let words: Option<Vec<&str>> = terms.iter().map(Term::fixed).collect();
                match words {
                    Some(words) => self.code(&words.join(" ")),
                    None => {
                        self.unreadable(None, "what a shell is given is not known before it runs".to_owned())
                    }
                }
            }
            Style::Fed => {
                let has_mark =
                    |term: &Term| replaced.is_some_and(|mark| term.texts().any(|text| text.contains(mark)));
                let fed = terms
                    .iter()
                    .map(|term| if has_mark(term) { Term::unknown(&term.shown()) } else { term.clone() });
                let mut fed: Vec<Term> = fed.collect();
                if replaced.is_none() {
                    fed.push(Term::unknown("input"));
                }
                self.found.calls.push(self.call.running(fed));
            }
        }
    }

    fn runner(&mut self, name: &str, words: &[&str]) {
        let arguments = self.call.arguments();
        let Some(at) =
            arguments.iter().position(|term| term.fixed().is_some_and(|word| words.contains(&word)))
        else {
            return;
        };
        self.found.runs_words = true;
        let rest = &arguments[at + 1..];
        let begins = rest.iter().position(|term| term.fixed().is_none_or(|word| !word.starts_with('-')));
        let has_options = begins != Some(0);
        if has_options
            || matches!(name, "docker" | "podman" | "kubectl" | "tmux" | "nix" | "direnv" | "cargo")
        {
            let word = arguments[at].fixed().unwrap_or("");
            return self.unreadable(Some(word), format!("which command `{name} {word}` runs is not sure"));
        }
        self.found.calls.push(self.call.running(rest.to_vec()));
    }

    fn interpreter(&mut self, name: &str, letters: &str, valued: &[&str]) {
        let mut arguments = self.call.arguments().iter();
        let mut informs = false;
        while let Some(term) = arguments.next() {
            let Some(word) = term.fixed() else {
                return self.unreadable(None, format!("what `{name}` runs is not known before it runs"));
            };
            if is_input(word) && word != "-" {
                return self.interpreted_input(name, Some(word));
            }
            if !word.starts_with('-') {
                return;
            }
            if let Some(module) = module(name, word, arguments.clone().next()) {
                return self.module(name, word, module);
            }
            if word == "-" {
                return self.interpreted_input(name, Some("-"));
            }
            if valued.contains(&word) {
                arguments.next();
                continue;
            }
            informs |= matches!(word, "--version" | "-V" | "--help" | "-h" | "-v");
            let is_code = !word.starts_with("--") && word[1..].contains(|letter| letters.contains(letter));
            let long = ["--eval", "--print", "--execute", "--run"];
            if is_code || long.iter().any(|option| is_option(word, option)) {
                return self.unreadable(
                    Some(word),
                    format!("`{name} {word}` runs code that these rules cannot read"),
                );
            }
        }
        if !informs {
            self.interpreted_input(name, None);
        }
    }

    fn module(&mut self, name: &str, word: &str, module: Option<&str>) {
        let family = module.map(|module| module.split('.').next().unwrap_or(module));
        if family.is_none_or(|module| CODE_MODULES.contains(&module)) {
            let why = format!("`{name} {word}` runs code that these rules cannot read");
            let words = self.call.arguments().iter().flat_map(Term::texts).map(str::to_owned);
            let code = words.chain(self.input_texts()).collect();
            self.found.hazards.push(Hazard { trigger: module.map(str::to_owned), why, code });
        }
    }

    fn interpreted_input(&mut self, name: &str, trigger: Option<&str>) {
        let why = format!("`{name}` runs code from its input that these rules cannot read");
        let code = self.input_texts();
        self.found.hazards.push(Hazard { trigger: trigger.map(str::to_owned), why, code });
    }

    /// What is written on the line for its input.
    fn input_texts(&self) -> Vec<String> {
        let redirections = self.call.redirections.iter();
        let texts = redirections.filter_map(|redirection| match &redirection.target {
            Target::Text(word) => Some(word.raw.clone()),
            Target::Document(slot) => self.call.facts.documents.get(*slot).map(|word| word.raw.clone()),
            Target::File(word) => word.runs().then(|| word.raw.clone()),
            Target::Descriptor | Target::Duplicate(_) => None,
        });
        texts.collect()
    }

    fn sed(&mut self) {
        let mut scripts: Vec<Option<&str>> = Vec::new();
        let mut first_operand: Option<Option<&str>> = None;
        let mut arguments = self.call.arguments().iter();
        while let Some(term) = arguments.next() {
            match term.fixed() {
                Some("-e" | "--expression") => scripts.push(arguments.next().and_then(Term::fixed)),
                Some(word) if word.starts_with("--expression=") => {
                    scripts.push(word.split_once('=').map(|(_, script)| script))
                }
                Some(word) if word.starts_with("--") => {
                    let plain = [
                        "--quiet",
                        "--silent",
                        "--regexp-extended",
                        "--in-place",
                        "--separate",
                        "--null-data",
                        "--debug",
                        "--posix",
                        "--version",
                        "--help",
                    ];
                    if !plain.iter().any(|option| word == *option || word.starts_with("--in-place=")) {
                        scripts.push(None);
                    }
                }
                Some(word) if word.starts_with('-') && word.len() > 1 => {
                    let letters = &word[1..];
                    let plain = letters.trim_start_matches(['n', 'E', 'r', 's', 'z', 'u']);
                    match plain.strip_prefix('e') {
                        Some("") => scripts.push(arguments.next().and_then(Term::fixed)),
                        Some(script) => scripts.push(Some(script)),
                        None if plain.is_empty() || plain.starts_with('i') => {}
                        None => scripts.push(None),
                    }
                }
                operand => {
                    first_operand.get_or_insert(operand);
                }
            }
        }
        if scripts.is_empty() {
            scripts.extend(first_operand);
        }
        if !scripts.iter().all(|script| script.is_some_and(sed_is_plain)) {
            self.unreadable(None, "a sed script that may run commands or write files".to_owned());
        }
    }

    fn awk(&mut self) {
        let mut arguments = self.call.arguments().iter();
        while let Some(term) = arguments.next() {
            match term.fixed() {
                Some("-F" | "-v") => {
                    arguments.next();
                }
                Some("--") => {}
                Some(word) if word.starts_with("-F") || word.starts_with("-v") => {}
                Some(word) if word.starts_with('-') && word.len() > 1 => {
                    return self.unreadable(
                        Some(word),
                        format!("`awk {word}` brings code that these rules cannot read"),
                    );
                }
                Some(program) if awk_is_plain(program) => return,
                Some(_) | None => {
                    return self
                        .unreadable(None, "an awk program that may run commands or write files".to_owned());
                }
            }
        }
    }

    fn make(&mut self) {
        let arguments = self.call.arguments();
        let reads = |at: usize| match &arguments[at] {
            Term::Fixed(word) => is_read_by_make(word, arguments.get(at + 1)),
            Term::Open { shapes: Some(words), .. } => {
                words.iter().any(|word| is_read_by_make(word, arguments.get(at + 1)))
            }
            // Behind an option it is what the option takes.
            Term::Open { prefix, .. } => makefile(prefix).is_some(),
        };
        if (0..arguments.len()).any(reads) {
            let code = arguments.iter().map(Term::shown).chain(self.input_texts()).collect();
            let why = "`make` runs what it reads from its input".to_owned();
            self.found.hazards.push(Hazard { trigger: None, why, code });
        }
    }
}

/// Whether an argument makes `make` read what is no plain file; `next` is the argument after it.
fn is_read_by_make(word: &str, next: Option<&Term>) -> bool {
    match makefile(word) {
        Some("") => next.is_some_and(|next| !is_file(next)),
        Some(file) => is_input(file),
        None => false,
    }
}

/// The file that an option of `make` names, empty if that is the next word.
fn makefile(word: &str) -> Option<&str> {
    if let Some(long) = word.strip_prefix("--") {
        let (typed, file) = long.split_once('=').unwrap_or((long, ""));
        let is_it = !typed.is_empty() && ("file".starts_with(typed) || "makefile".starts_with(typed));
        return is_it.then_some(file);
    }
    word.strip_prefix('-')?.split_once('f').map(|(_, file)| file)
}

fn is_input(file: &str) -> bool {
    file == "-" || is_device(file)
}

/// The names of the variables that a built-in command sets; `None` for one that is not known.
fn targets<'a>(name: &str, arguments: &'a [Term]) -> Vec<Option<&'a str>> {
    // Letters of options that take a word with them, and those whose word is a variable's name.
    let (valued, naming) = match name {
        "read" => ("adinNptu", "a"),
        "mapfile" | "readarray" => ("dnOsuCc", ""),
        "wait" => ("p", "p"),
        "printf" => ("v", "v"),
        _ => ("", ""),
    };
    let mut targets = Vec::new();
    let mut at = 0;
    while let Some(word) = arguments.get(at).and_then(Term::fixed).filter(|word| word.len() > 1) {
        let Some(letters) = word.strip_prefix('-') else { break };
        at += 1;
        if letters == "-" {
            break;
        }
        let Some((place, letter)) = letters.char_indices().find(|(_, letter)| valued.contains(*letter))
        else {
            continue;
        };
        let attached = &letters[place + letter.len_utf8()..];
        let value =
            if attached.is_empty() { arguments.get(at).map(Term::fixed) } else { Some(Some(attached)) };
        at += usize::from(attached.is_empty());
        targets.extend(value.filter(|_| naming.contains(letter)));
    }
    let rest = arguments.get(at..).unwrap_or_default();
    // An option that is only known when it runs may bring a name with it.
    let is_option = |term: &&Term| matches!(term, Term::Open { prefix, .. } if prefix.starts_with('-'));
    targets.extend(rest.first().filter(is_option).filter(|_| !naming.is_empty()).map(|_| None));
    let operands = rest.iter().map(Term::fixed);
    match name {
        "read" | "mapfile" | "readarray" | "unset" => targets.extend(operands),
        "getopts" => targets.extend(operands.skip(1).take(1)),
        _ => {}
    }
    targets
}

/// The letters and options of an interpreter, of whatever version.
fn interpreter(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    let family = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    let known = INTERPRETERS.iter().find(|(known, _, _)| *known == family);
    known.map(|(_, letters, valued)| (*letters, *valued))
}

/// The module of `python -m`, also attached or behind other letters; the next word if it is not attached.
fn module<'a>(name: &str, word: &'a str, next: Option<&'a Term>) -> Option<Option<&'a str>> {
    let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    let at = letters.find(['c', 'm'])?;
    if !name.starts_with("py") || letters[at..].starts_with('c') || letters.starts_with(['W', 'X']) {
        return None;
    }
    match &letters[at + 1..] {
        "" => Some(next.and_then(Term::fixed)),
        attached => Some(Some(attached)),
    }
}

/// `tar xIf`: letters without a dash.
fn old_tar(first: &str, option: &str) -> bool {
    !first.starts_with('-')
        && option.len() == 2
        && first.bytes().all(|byte| byte.is_ascii_alphabetic())
        && first.contains(&option[1..])
}

/// Whether a command is known not to run its words.
pub(super) fn is_plain(name: &str) -> bool {
    const PLAIN: &[&str] = &[
        "git", "man", "which", "type", "whereis", "apropos", "info", "help", "cargo", "rustup", "go", "pip",
        "pip3", "apt", "apt-get", "brew", "make", "npm", "yarn", "pnpm", "export", "read", "set", "unset",
        "local", "declare", "readonly", "kill", "sleep", "ps", "date", "tr", "history", "tput", "uname",
        "id", "whoami", "hostname", "df", "free", "gh", "curl", "wget",
    ];
    PLAIN.contains(&name)
        || programs::TEXTUAL.contains(&name)
        || programs::PATHS.iter().any(|(names, _, _)| names.contains(&name))
}
