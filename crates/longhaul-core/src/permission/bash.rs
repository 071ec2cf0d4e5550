//! The verdict on a shell command: every command in it by the rules, by what it runs, by the paths it touches.

use super::always;
use super::call::{Call, Cwd, Term};
use super::paths::{Place, is_harmless_device, place, places};
use super::pattern::{Match, basename, proves, reaches, stages, weight};
use super::programs::{Access, HARMLESS_VARIABLES, PATHS, RENAMING, Renames, STEERING, TEXTUAL, listed};
use super::rules::{EXTERNAL, Permissions, Rules, name};
use super::scan;
use super::shell::{self, Direction, Redirection, Script, Target};
use super::unwrap::{Hazard, Inner, doubts, inner, is_plain};
use super::walk::{Start, walk};
use super::wildcard::has_wildcard;
use super::{Action, Explanation, Here, RuleName, SeenCommand, Verdict};
use crate::limits::{JUDGED_COMMANDS_MAX, WRAPPED_DEPTH_MAX};

/// What is asked about though no rule asks: that is for the first rules to say, not for those that tighten them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Doubts {
    Asked,
    LeftOut,
}

pub(super) fn explain(permissions: &Permissions, here: Here<'_>, text: &str, doubts: Doubts) -> Explanation {
    let (section, rules) = permissions.of("bash");
    let none = Rules::default();
    let rules = rules.unwrap_or(&none);
    let mut bench = Bench {
        permissions,
        section,
        rules,
        workspace: here.workspace,
        text,
        doubts,
        findings: Vec::new(),
        seen: Vec::new(),
        order: Vec::new(),
        is_searched: false,
    };
    match shell::read(text) {
        Ok(script) => bench.script(&script, Cwd::at(here.cwd)),
        Err(unclear) => bench.unread(&format!("not read for sure ({} at byte {})", unclear.why, unclear.at)),
    }
    bench.end()
}

/// The end of a line that goes on.
const CONTINUED: &str = "\\\n";

/// One reason for a verdict.
struct Finding {
    action: Action,
    rule: Option<RuleName>,
    why: String,
}

impl Finding {
    fn ask(why: impl Into<String>) -> Finding {
        Finding { action: Action::Ask, rule: None, why: why.into() }
    }
}

/// A command in the order they run, for rules about pipes.
struct Ordered {
    terms: Vec<Term>,
    piped: bool,
}

struct Bench<'a> {
    permissions: &'a Permissions,
    section: &'a str,
    rules: &'a Rules,
    workspace: &'a str,
    text: &'a str,
    doubts: Doubts,
    findings: Vec<Finding>,
    seen: Vec<SeenCommand>,
    order: Vec<Ordered>,
    is_searched: bool,
}

/// The rule that would allow a command.
struct Basis<'a> {
    pattern: &'a str,
    is_named: bool,
}

impl<'a> Bench<'a> {
    fn script(&mut self, script: &Script, cwd: Cwd) {
        let start = Start { workspace: self.workspace, cwd, depth: 0, piped: false };
        let walked = walk(script, start);
        for hazard in doubts(&script.facts) {
            self.findings.push(Finding::ask(hazard.why));
        }
        self.bomb(walked.is_bomb);
        walked.calls.iter().for_each(|call| self.call(call));
        self.pipes();
        self.meanings();
    }

    /// What changes the meaning of names is allowed alone, by a rule that names it, and vouches for no other command.
    fn meanings(&mut self) {
        if self.order.len() > 1
            && let Some(change) = self.order.iter().find(|ordered| renames(&ordered.terms))
        {
            let name = change.terms.first().map(Term::shown).unwrap_or_default();
            self.findings
                .push(Finding::ask(format!("`{name}` changes what other commands of the line mean")));
        }
    }

    /// Text that was not read is never allowed, and searched for what is denied.
    fn unread(&mut self, why: &str) {
        // Once is enough: the whole text is searched.
        if std::mem::replace(&mut self.is_searched, true) {
            return;
        }
        let (action, rule) = self.default();
        let rule = rule.filter(|_| action > Action::Allow);
        self.findings.push(Finding { action: action.max(Action::Ask), rule, why: why.to_owned() });
        self.search(self.text, why);
        // What is denied may be spread over lines that bash reads as one.
        if self.text.contains(CONTINUED) {
            self.search(&self.text.replace(CONTINUED, ""), why);
        }
    }

    fn search(&mut self, text: &str, why: &str) {
        if let Some(pattern) = scan::denied(self.rules, text) {
            let rule = Some(name(self.section, pattern));
            self.findings.push(Finding {
                action: Action::Deny,
                rule,
                why: format!("{why}, and it has what is denied"),
            });
        }
    }

    fn bomb(&mut self, is_bomb: bool) {
        if is_bomb {
            let rule = Some(name("always", "fork bomb"));
            let why = "a function starts itself again and again".to_owned();
            self.findings.push(Finding { action: Action::Deny, rule, why });
        }
    }

    fn call(&mut self, call: &Call) {
        if self.seen.len() >= JUDGED_COMMANDS_MAX || call.depth > WRAPPED_DEPTH_MAX {
            return self.unread("more commands in commands than are looked at");
        }
        let mut within = inner(call, self.workspace);
        let mut findings = Vec::new();
        within.sets.extend(call.sets.iter().cloned());
        if !call.terms.is_empty() {
            findings.extend(self.by_rules(call, &within));
            findings.extend(self.by_code(&within));
            findings.extend(self.by_paths(call));
        } else if let Some(variable) = within.sets.iter().find(|variable| listed(STEERING, variable)) {
            findings.push(Finding::ask(format!("`{variable}` decides what later commands do")));
        }
        if let Some((pattern, why)) = always::refuses(call, &within.sets) {
            findings.push(Finding { action: Action::Deny, rule: Some(name("always", pattern)), why });
        }
        call.redirections
            .iter()
            .for_each(|redirection| findings.extend(self.by_redirection(call, redirection)));
        self.remember(call, findings);
        self.bomb(within.is_bomb);
        within.calls.iter().for_each(|call| self.call(call));
    }

    fn remember(&mut self, call: &Call, mut findings: Vec<Finding>) {
        findings.retain(|finding| self.counts(finding));
        if !call.terms.is_empty() {
            let worst = strictest(&findings);
            let (action, why) =
                worst.map_or((Action::Allow, String::new()), |finding| (finding.action, finding.why.clone()));
            self.seen.push(SeenCommand { words: call.shown(), action, why });
            self.order.push(Ordered { terms: call.terms.clone(), piped: call.piped });
        }
        self.findings.extend(findings);
    }

    fn counts(&self, finding: &Finding) -> bool {
        self.doubts == Doubts::Asked || finding.rule.is_some()
    }

    fn end(mut self) -> Explanation {
        let findings = std::mem::take(&mut self.findings);
        self.findings = findings.into_iter().filter(|finding| self.counts(finding)).collect();
        let verdict = match strictest(&self.findings) {
            Some(finding) => Verdict::new(finding.action, finding.rule.clone(), finding.why.clone()),
            None => {
                let (action, rule) = self.default();
                Verdict::new(action, rule, "nothing runs".to_owned())
            }
        };
        Explanation { verdict, commands: self.seen }
    }

    fn default(&self) -> (Action, Option<RuleName>) {
        match self.rules.default_action() {
            Some(action) => (action, Some(name(self.section, "*"))),
            None => (Action::Allow, None),
        }
    }

    /// What the rules say about the command's own words.
    fn by_rules(&self, call: &Call, within: &Inner) -> Vec<Finding> {
        let rule = |pattern: &str| Some(name(self.section, pattern));
        let mut best: Option<(bool, usize, Action, &str)> = None;
        let mut possible: Vec<(Action, &str)> = Vec::new();
        for (pattern, action) in self.rules.named() {
            let stages = stages(pattern);
            let [words] = stages.as_slice() else { continue };
            let found = match action {
                Action::Allow if proves(words, &call.terms) => Match::Yes,
                Action::Allow => Match::No,
                Action::Ask | Action::Deny => self.reached(action, words, call, within),
            };
            match (found, action) {
                (Match::No, _) => {}
                (Match::May, _) => possible.push((action, pattern)),
                (Match::Yes, _) => {
                    best = best.max(Some((action == Action::Deny, weight(pattern), action, pattern)))
                }
            }
        }
        let basis = match best {
            Some((_, _, Action::Allow, pattern)) => Basis { pattern, is_named: true },
            Some((_, _, action, pattern)) => {
                return vec![Finding {
                    action,
                    rule: rule(pattern),
                    why: format!("`{}` matches", shown(call)),
                }];
            }
            None => Basis { pattern: "*", is_named: false },
        };
        let (action, default_rule) = self.default();
        if !basis.is_named && action != Action::Allow {
            return vec![Finding {
                action,
                rule: default_rule,
                why: format!("no other rule speaks of `{}`", shown(call)),
            }];
        }
        let allowed = Finding {
            action: Action::Allow,
            rule: if basis.is_named { rule(basis.pattern) } else { default_rule },
            why: format!("`{}` matches", shown(call)),
        };
        let mut findings = vec![allowed];
        findings.extend(self.unproven(call, within, &basis, &possible));
        findings
    }

    /// A generous match, also of commands that follow in the words of another.
    fn reached(&self, action: Action, words: &[&str], call: &Call, within: &Inner) -> Match {
        let own = reaches(words, &call.terms);
        if own == Match::Yes {
            return own;
        }
        let is_unknown = !within.runs_words && call.name().is_some_and(|name| !is_plain(name));
        let is_searched = within.runs_words || (is_unknown && action == Action::Deny);
        if !is_searched {
            return own;
        }
        let fixed: Vec<&str> = call.arguments().iter().flat_map(Term::texts).collect();
        // A word that is a text of several may be given to a shell.
        let in_text = |text: &&str| text.contains(char::is_whitespace) && scan::found_in(words, text);
        match scan::found(words, &fixed) || (is_unknown && fixed.iter().any(in_text)) {
            true if within.runs_words => Match::Yes,
            true => own.max(Match::May),
            false => own,
        }
    }

    /// Why a command that a rule would allow is not proven to be what the rule means.
    fn unproven(
        &self,
        call: &Call,
        within: &Inner,
        basis: &Basis<'a>,
        possible: &[(Action, &str)],
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (action, pattern) in possible {
            if *action == Action::Deny || !basis.is_named || weight(pattern) > weight(basis.pattern) {
                let why = format!("`{}` could turn out to match", shown(call));
                findings.push(self.might(name(self.section, pattern), why));
            }
        }
        for hazard in &within.hazards {
            if !(basis.is_named && is_named_by(hazard, basis.pattern)) {
                findings.push(Finding::ask(hazard.why.clone()));
            }
        }
        for variable in &within.sets {
            if listed(STEERING, variable) && !listed(HARMLESS_VARIABLES, variable) {
                findings.push(Finding::ask(format!("`{variable}` changes what runs")));
            } else if basis.is_named && !listed(HARMLESS_VARIABLES, variable) {
                findings.push(Finding::ask(format!("`{variable}` may change what `{}` does", shown(call))));
            }
        }
        findings
    }

    /// Code that could not be read is searched for what is denied.
    fn by_code(&self, within: &Inner) -> Vec<Finding> {
        let code =
            within.hazards.iter().flat_map(|hazard| hazard.code.iter().map(move |code| (hazard, code)));
        let denied = code.filter_map(|(hazard, code)| Some((hazard, scan::denied(self.rules, code)?)));
        denied
            .map(|(hazard, pattern)| Finding {
                action: Action::Deny,
                rule: Some(name(self.section, pattern)),
                why: format!("{}, and it has what is denied", hazard.why),
            })
            .collect()
    }

    /// Rules about pipes: each of their commands in order, all but the first fed by another.
    fn pipes(&mut self) {
        let mut findings = Vec::new();
        for (pattern, action) in self.rules.named() {
            let stages = stages(pattern);
            if stages.len() < 2 || action == Action::Allow {
                continue;
            }
            let mut order = self.order.iter();
            let mut worst = Match::Yes;
            for (place, words) in stages.iter().enumerate() {
                let fits =
                    |ordered: &Ordered| (place == 0 || ordered.piped).then(|| reaches(words, &ordered.terms));
                let found =
                    order.by_ref().find_map(|ordered| fits(ordered).filter(|found| *found != Match::No));
                worst = worst.min(found.unwrap_or(Match::No));
            }
            let action = match worst {
                Match::Yes => action,
                Match::May => Action::Ask,
                Match::No => continue,
            };
            let why = "commands joined by pipes match".to_owned();
            findings.push(Finding { action, rule: Some(name(self.section, pattern)), why });
        }
        self.findings.extend(findings);
    }

    fn by_redirection(&self, call: &Call, redirection: &Redirection) -> Vec<Finding> {
        let word = match &redirection.target {
            Target::File(word) | Target::Duplicate(word) => word,
            Target::Descriptor | Target::Text(_) | Target::Document(_) => return Vec::new(),
        };
        let access = match redirection.direction {
            Direction::In => Access::Read,
            Direction::Out => Access::Write,
        };
        let term = Term::of(word, &call.facts);
        match known_paths(&term) {
            Some(paths) => paths.iter().flat_map(|path| self.on_paths(call, &term, path, access)).collect(),
            None => vec![Finding::ask(format!("where `{}` leads is not known before it runs", word.raw))],
        }
    }

    fn by_paths(&self, call: &Call) -> Vec<Finding> {
        let Some(name) = call.name() else { return Vec::new() };
        let known = PATHS.iter().find(|(names, _, _)| names.contains(&name));
        match known {
            Some((_, access, before)) => self.operands(call, name, *access, *before),
            None if TEXTUAL.contains(&name) => Vec::new(),
            None => self.looks_outside(call),
        }
    }

    /// The operands of a program that takes paths.
    fn operands(&self, call: &Call, name: &str, access: Access, before: usize) -> Vec<Finding> {
        let fixed = |word: &str| call.arguments().iter().any(|term| term.fixed() == Some(word));
        let in_place = name == "sed"
            && call
                .arguments()
                .iter()
                .any(|term| term.prefix().starts_with("-i") || term.prefix().starts_with("--in-place"));
        let access = if in_place { Access::Write } else { access };
        let before_counts = before > 0;
        let mut before = if fixed("-e") || fixed("-f") || fixed("--files") { 0 } else { before };
        let mut findings = Vec::new();
        if name == "cd" && call.arguments().is_empty() {
            findings.extend(self.on_path(call, "~", access));
        }
        let (mut options, mut count, mut is_value) = (true, 0, false);
        for term in call.arguments() {
            let text = term.prefix();
            if std::mem::take(&mut is_value) {
                continue;
            }
            // What follows `-e` is an expression of grep or a script of sed.
            is_value =
                options && before_counts && matches!(term.fixed(), Some("-e" | "--regexp" | "--expression"));
            if options && text == "--" && term.fixed().is_some() {
                options = false;
            } else if options && name == "find" && text.starts_with(['-', '(', '!']) && count > 0 {
                break;
            } else if options && text.starts_with('-') {
                let attached = term.fixed().and_then(attached_path);
                findings.extend(attached.into_iter().flat_map(|path| self.on_path(call, path, access)));
            } else if before > 0 {
                before -= 1;
            } else {
                count += 1;
                findings.extend(self.operand(call, name, term, access));
            }
        }
        findings
    }

    fn operand(&self, call: &Call, name: &str, term: &Term, access: Access) -> Vec<Finding> {
        match known_paths(term) {
            Some(paths) => {
                let paths = paths.iter().map(|path| {
                    if name == "dd" {
                        path.split_once('=').map_or(path.as_str(), |(_, path)| path)
                    } else {
                        path
                    }
                });
                paths.flat_map(|path| self.on_paths(call, term, path, access)).collect()
            }
            None if matches!(name, "test" | "[") => Vec::new(),
            None => {
                let why = format!("where `{}` leads is not known before it runs", term.shown());
                let rule = self.permissions.closes(sections(access));
                rule.map(|rule| self.might(rule, why)).into_iter().collect()
            }
        }
    }

    /// No rule speaks of it: it is only that one might.
    fn might(&self, rule: RuleName, why: String) -> Finding {
        match self.doubts {
            Doubts::Asked => Finding::ask(format!("{why}, and {rule} might speak of it")),
            Doubts::LeftOut => Finding { action: Action::Ask, rule: Some(rule), why },
        }
    }

    /// What is said of a word's path, and of the files that may take its place. Whoever only sees their names sees no secret.
    fn on_paths(&self, call: &Call, term: &Term, path: &str, access: Access) -> Vec<Finding> {
        let mut findings = self.on_path(call, path, access);
        if term.fixed().is_some() || !has_wildcard(path) {
            return findings;
        }
        let places = places(self.workspace, &call.cwd, path).unwrap_or_default();
        let rules = places.iter().flat_map(|place| match place {
            Place::Outside(path) => vec![self.permissions.may_meet(EXTERNAL, path)],
            Place::Inside(_) if access == Access::Look => Vec::new(),
            Place::Inside(path) => {
                sections(access).iter().map(|section| self.permissions.may_meet(section, path)).collect()
            }
        });
        let why = format!("which files `{path}` stands for is not known before it runs");
        findings.extend(rules.flatten().map(|rule| self.might(rule, why.clone())));
        findings
    }

    fn on_path(&self, call: &Call, path: &str, access: Access) -> Vec<Finding> {
        if path == "-" || is_harmless_device(path) {
            return Vec::new();
        }
        let mut findings = Vec::new();
        if let Some((pattern, why)) = always::secret(path) {
            findings.push(Finding { action: Action::Deny, rule: Some(name("always", pattern)), why });
        }
        if access == Access::Write && always::is_disk(path) {
            let why = format!("`{path}` is a device");
            findings.push(Finding { action: Action::Deny, rule: Some(name("always", "a device")), why });
        }
        let Some(places) = places(self.workspace, &call.cwd, path) else {
            findings
                .push(Finding::ask(format!("which directory `{path}` is in is not known before it runs")));
            return findings;
        };
        for place in places {
            match place {
                Place::Outside(path) => {
                    let (action, rule) = self.permissions.outside(&path);
                    let why = format!("`{path}` is outside the workspace");
                    findings.push(Finding { action, rule, why });
                }
                Place::Inside(path) => findings.extend(self.inside(&path, access)),
            }
        }
        findings.retain(|finding| finding.action != Action::Allow);
        findings
    }

    /// What the file tools' own rules say of a path that a command reads or writes.
    fn inside(&self, path: &str, access: Access) -> Vec<Finding> {
        let said = sections(access).iter().map(|section| self.permissions.by_path(section, path));
        said.map(|(action, rule)| Finding { action, rule, why: format!("it touches `{path}`") }).collect()
    }

    /// A program of which it is not known what its words are: one that looks like a path outside is asked about.
    fn looks_outside(&self, call: &Call) -> Vec<Finding> {
        let mut findings = Vec::new();
        let before = call.terms.iter().map(|term| term.fixed().unwrap_or(""));
        for (before, term) in before.zip(call.arguments()) {
            let texts: Vec<&str> = match term {
                Term::Fixed(text) => vec![text],
                Term::Open { prefix, fragments, .. } => {
                    fragments.iter().map(String::as_str).chain([prefix.as_str()]).collect()
                }
            };
            let candidates = texts.iter().flat_map(|text| [Some(*text), attached_path(text)]).flatten();
            let is_path = |path: &&str| looks_like_path(path) || is_root(before, texts[0], path);
            for path in candidates.filter(|path| is_path(path) && !is_harmless_device(path)) {
                let Place::Outside(path) = place(self.workspace, "", path) else { continue };
                let (action, rule) = self.permissions.outside(&path);
                if action != Action::Allow {
                    let why = format!("`{path}` looks like a path outside the workspace");
                    findings.push(Finding { action: Action::Ask, rule, why });
                }
            }
        }
        findings
    }
}

impl Term {
    /// What it begins with for sure.
    fn prefix(&self) -> &str {
        match self {
            Term::Fixed(text) => text,
            Term::Open { prefix, .. } => prefix,
        }
    }
}

/// The sections that speak of what a command does to files.
fn sections(access: Access) -> &'static [&'static str] {
    match access {
        Access::Look | Access::Read => &["read"],
        Access::Write => &["read", "write", "edit"],
    }
}

/// Every path a word can be; `None` if that is not known.
fn known_paths(term: &Term) -> Option<Vec<String>> {
    match term {
        Term::Fixed(path) => Some(vec![path.clone()]),
        Term::Open { prefix, raw, .. }
            if prefix.starts_with('~') || raw.trim_start_matches('"').starts_with("$HOME") =>
        {
            Some(vec![format!("~ ({raw})")])
        }
        // A pipe of the shell's own.
        Term::Open { raw, .. } if raw.starts_with("<(") && raw.ends_with(')') => Some(Vec::new()),
        Term::Open { shapes, .. } => shapes.clone(),
    }
}

/// The path in `--file=/x`, `of=/x` or `-I/x`.
fn attached_path(word: &str) -> Option<&str> {
    if let Some((_, value)) = word.split_once('=') {
        return Some(value);
    }
    let letters = word.strip_prefix('-')?;
    let at = letters.find(['/', '~', '.'])?;
    Some(&letters[at..])
}

fn looks_like_path(text: &str) -> bool {
    let climbs = text.split('/').any(|part| part == "..");
    !text.contains(char::is_whitespace)
        && ((text.starts_with('/') && text.len() > 1) || text.starts_with('~') || climbs)
}

/// A slash alone separates or divides as often as it is a directory: it is one for `-C` and long options.
fn is_root(before: &str, word: &str, path: &str) -> bool {
    let takes_directory = |option: &str| option == "-C" || option.starts_with("--");
    let option = word.strip_suffix('/').map_or(word, |option| option.trim_end_matches('='));
    path == "/" && (takes_directory(before) || takes_directory(option))
}

/// Whether a command changes what names mean. A word that is only known when it runs may be what makes it do so.
fn renames(terms: &[Term]) -> bool {
    let Some((program, arguments)) = terms.split_first() else { return false };
    let Some(program) = program.fixed().map(basename) else { return false };
    let with = |is_it: &dyn Fn(&str) -> bool| arguments.iter().any(|term| term.fixed().is_none_or(is_it));
    RENAMING.iter().filter(|(name, _)| *name == program).any(|(_, renames)| match renames {
        Renames::Always => true,
        Renames::Word(known) => with(&|word| word == *known),
        Renames::Letter(letter) => {
            with(&|word| word.starts_with('-') && !word.starts_with("--") && word.contains(*letter))
        }
    })
}

/// Whether a rule has the very word that makes a command more than itself.
fn is_named_by(hazard: &Hazard, pattern: &str) -> bool {
    hazard.trigger.as_ref().is_some_and(|trigger| pattern.split_whitespace().any(|word| word == trigger))
}

fn strictest(findings: &[Finding]) -> Option<&Finding> {
    // The first of the strictest: `max_by_key` would give the last.
    findings.iter().rev().max_by_key(|finding| finding.action)
}

fn shown(call: &Call) -> String {
    const WIDTH: usize = 80;
    let words: Vec<String> = call.terms.iter().take(WIDTH).map(Term::shown).collect();
    let words = words.join(" ");
    match words.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &words[..end]),
        None => words,
    }
}
