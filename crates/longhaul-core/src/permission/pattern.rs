//! How patterns match: `*` stands for anything. A command's pattern is compared word by word, in two ways: generously for
//! ask and deny, strictly for allow.

use super::call::Term;

/// Whether a generous match holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Match {
    No,
    /// Only if a word that is not known yet turns out so.
    May,
    Yes,
}

/// `*` matches any text, also none; everything else itself. Linear but for the last star.
pub(super) fn glob(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&b'*') {
            star = Some((p, t));
            p += 1;
        } else if pattern.get(p) == Some(&text[t]) {
            p += 1;
            t += 1;
        } else if let Some((star_p, star_t)) = star {
            star = Some((star_p, star_t + 1));
            p = star_p + 1;
            t = star_t + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

/// How much a pattern says: the longer, the more it was meant.
pub(super) fn weight(pattern: &str) -> usize {
    pattern.chars().filter(|letter| *letter != '*').count()
}

/// The commands of a piped pattern, each as words.
pub(super) fn stages(pattern: &str) -> Vec<Vec<&str>> {
    pattern.split('|').map(|stage| stage.split_whitespace().collect()).collect()
}

/// For ask and deny: the name, by whatever path and in whatever case, and each further word anywhere among the arguments.
pub(super) fn reaches(pattern: &[&str], terms: &[Term]) -> Match {
    let own = reaches_words(pattern, terms);
    // The same program by the name that it has in git's own directory.
    let spelled = super::git::spelled_out(terms);
    spelled.map_or(own, |terms| own.max(reaches_words(pattern, &terms)))
}

fn reaches_words(pattern: &[&str], terms: &[Term]) -> Match {
    let (Some(name), Some(first)) = (pattern.first(), terms.first()) else { return Match::No };
    let rest = match name_matches(name, first) {
        Match::No => return Match::No,
        Match::May => return Match::May,
        Match::Yes => &pattern[1..],
    };
    let mut arguments: Vec<&Term> = terms[1..].iter().collect();
    if let Term::Open { .. } = first {
        arguments.push(first);
    }
    let mut arguments = arguments.as_slice();
    let is_git = first.fixed().map(basename) == Some("git");
    if is_git {
        arguments = &arguments[super::git::global_options(&terms[1..]).min(arguments.len())..];
    }
    let mut all = Match::Yes;
    for (place, wanted) in rest.iter().filter(|wanted| **wanted != "*").enumerate() {
        let is_subcommand = place == 0 && is_git && !wanted.starts_with('-');
        let among = if is_subcommand { arguments.get(..1).unwrap_or(&[]) } else { arguments };
        all = all.min(wanted_among(wanted, among));
    }
    all
}

fn name_matches(pattern: &str, term: &Term) -> Match {
    match term {
        Term::Fixed(name) if names(pattern, name) => Match::Yes,
        Term::Fixed(_) => Match::No,
        Term::Open { fragments, .. } if fragments.iter().any(|fragment| names(pattern, fragment)) => {
            Match::Yes
        }
        Term::Open { .. } => Match::May,
    }
}

/// Whether a word names the program of a pattern: by whatever path, and in whatever case, which some disks ignore.
pub(super) fn names(pattern: &str, word: &str) -> bool {
    let (pattern, word) = (basename(pattern), basename(word));
    match pattern.contains('*') {
        true => glob(&pattern.to_ascii_lowercase(), &word.to_ascii_lowercase()),
        false => pattern.eq_ignore_ascii_case(word),
    }
}

fn wanted_among(wanted: &str, arguments: &[&Term]) -> Match {
    let letters = short_letters(wanted);
    let found = match &letters {
        Some(letters) => letters.chars().all(|letter| arguments.iter().any(|term| has_letter(term, letter))),
        None => {
            arguments.iter().any(|term| term.texts().any(|text| glob(wanted, text) || shortens(text, wanted)))
        }
    };
    if found {
        return Match::Yes;
    }
    let may = arguments.iter().any(|term| match term {
        Term::Fixed(_) => false,
        Term::Open { prefix, splits, .. } => {
            *splits
                || wanted.starts_with(prefix.as_str())
                || glob(wanted, prefix)
                || letters.is_some() && prefix.starts_with('-')
        }
    });
    if may { Match::May } else { Match::No }
}

/// Whether `--har` stands for `--hard`, as git and others take it.
fn shortens(text: &str, wanted: &str) -> bool {
    let typed = text.split('=').next().unwrap_or(text);
    typed.len() > "--".len() && typed.starts_with("--") && wanted.starts_with(typed)
}

/// The letters of `-rf`; `None` for anything else.
fn short_letters(wanted: &str) -> Option<&str> {
    let letters = wanted.strip_prefix('-')?.trim_end_matches('*');
    (!letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic()) && letters.len() <= 3)
        .then_some(letters)
}

/// Whether an argument holds an option, alone, among others, or by its long name.
fn has_letter(term: &Term, letter: char) -> bool {
    term.texts().any(|text| match text.strip_prefix("--") {
        Some("") => false,
        Some(long) => match letter {
            'r' | 'R' => "recursive".starts_with(long),
            'f' | 'F' => long.starts_with("force") || "force".starts_with(long),
            // `git switch --force-create`
            'C' => long.starts_with("force-c"),
            // `git fetch --prune-tags`, which `--prune` is not short for
            'P' => long.starts_with("prune-"),
            'd' => "delete".starts_with(long),
            'm' => "move".starts_with(long),
            _ => false,
        },
        None => text
            .strip_prefix('-')
            .is_some_and(|letters| letters.contains(letter) || (letter == 'r' && letters.contains('R'))),
    })
}

/// For allow: every word in its place, as it is for sure. `*` at the end covers further words, of which none may turn into
/// an option when it runs.
pub(super) fn proves(pattern: &[&str], terms: &[Term]) -> bool {
    let Some((last, front)) = pattern.split_last() else { return false };
    let (stem, open) = match last.strip_suffix('*') {
        Some("") => (None, true),
        // `ls*` is the command `ls`, not every name that starts like it.
        Some(stem) if stem.ends_with(|letter: char| letter.is_alphanumeric()) => (Some(stem), true),
        Some(_) | None => (Some(*last), false),
    };
    let wanted: Vec<&str> = front.iter().copied().chain(stem).collect();
    if wanted.is_empty() || terms.len() < wanted.len() || (!open && terms.len() > wanted.len()) {
        return false;
    }
    let (named, further) = terms.split_at(wanted.len());
    let fits = |(wanted, term): (&&str, &Term)| match term {
        Term::Fixed(word) => glob(wanted, word) && !climbs(wanted, word),
        Term::Open { .. } => false,
    };
    if !wanted.iter().zip(named).all(fits) {
        return false;
    }
    // These print or ignore whatever they are given.
    let mut only_operands = matches!(named[0].fixed(), Some("echo" | "true" | "false" | ":"));
    for term in further {
        match term {
            Term::Fixed(word) => only_operands |= word == "--",
            Term::Open { stays_operand, .. } if !only_operands && !stays_operand => return false,
            Term::Open { .. } => {}
        }
    }
    true
}

/// Whether a word fits `src/*` only by going up again.
fn climbs(wanted: &str, word: &str) -> bool {
    wanted.contains('*') && wanted != "*" && word.split('/').any(|part| part == "..")
}

pub(super) fn basename(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
