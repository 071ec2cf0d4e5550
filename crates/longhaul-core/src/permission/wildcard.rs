//! Whether a word that the shell replaces by file names can turn out as one that a rule speaks of. Pure text: which files there are
//! is not looked at.

use crate::limits::WILDCARD_BYTES_MAX;

/// A part of what is typed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Typed {
    /// `*`: any letters but a slash.
    Many,
    /// `?` or `[…]`: one letter but a slash.
    One,
    Letter(char),
}

/// A part of a rule's pattern.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ruled {
    /// `*`: anything.
    Many,
    Letter(char),
}

/// What has been passed of both.
#[derive(Clone, Copy, Default)]
struct Passed {
    /// At the start of a name, where `*` and `?` do not stand for a dot.
    at_start: bool,
    inside: bool,
    /// The same after a letter that is written in both.
    touched_at_start: bool,
    touched_inside: bool,
}

pub(super) fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Whether some path fits both, as rules that ask or deny match paths: wherever it is, in whatever case, and as the directory that
/// `x/*` covers. A rule about a word within names (`*secrets*`) is met by a name that is all open (`*`) or shares a letter
/// with the word (`s*`); `*.rs` could be any name of that kind, and is not taken for that one.
pub(super) fn can_meet(glob: &str, pattern: &str) -> bool {
    let name = glob.rsplit('/').next().unwrap_or(glob);
    let is_all_open = !name.contains(char::is_alphanumeric);
    let within =
        pattern.len() > 2 && pattern.starts_with('*') && pattern.ends_with('*') && !pattern.contains('/');
    let must_touch = within && !is_all_open;
    any_path(glob, pattern, |letter| letter != '/', must_touch)
}

/// The same, if what is typed has a letter of the rule in its place: `s*` has one of `*secrets*`; `*` and `notes.*` have none
/// of `*.env`.
pub(super) fn hints_at(glob: &str, pattern: &str) -> bool {
    any_path(glob, pattern, char::is_alphanumeric, true)
}

fn any_path(glob: &str, pattern: &str, touches: fn(char) -> bool, must_touch: bool) -> bool {
    if glob.len() > WILDCARD_BYTES_MAX {
        return true;
    }
    let (glob, pattern) = (glob.to_lowercase(), pattern.to_lowercase());
    let typed = typed(&glob);
    let directory = pattern.strip_suffix("/*").map(str::to_owned);
    let meant = [Some(pattern.clone()), directory].into_iter().flatten();
    meant.flat_map(|meant| [format!("*/{meant}"), meant]).any(|meant| {
        let passed = meet(&typed, &ruled(&meant), touches);
        passed.touched_at_start
            || passed.touched_inside
            || (!must_touch && (passed.at_start || passed.inside))
    })
}

fn typed(glob: &str) -> Vec<Typed> {
    let (mut typed, mut rest) = (Vec::new(), glob);
    while let Some(letter) = rest.chars().next() {
        rest = &rest[letter.len_utf8()..];
        let class = Some(rest).filter(|_| letter == '[').and_then(class_length);
        typed.push(match letter {
            '*' => Typed::Many,
            '?' => Typed::One,
            '[' if class.is_some() => Typed::One,
            letter => Typed::Letter(letter),
        });
        rest = &rest[class.unwrap_or(0)..];
    }
    typed
}

/// How long a class is behind its `[`, with its `]`; `None` if it does not end within the name.
fn class_length(text: &str) -> Option<usize> {
    let negated = text.len() - text.trim_start_matches(['!', '^']).len();
    // A bracket in the first place is one of the class.
    let first = negated + usize::from(text[negated..].starts_with(']'));
    let length = first + text[first..].find(']')? + 1;
    (!text[..length].contains('/')).then_some(length)
}

fn ruled(pattern: &str) -> Vec<Ruled> {
    pattern.chars().map(|letter| if letter == '*' { Ruled::Many } else { Ruled::Letter(letter) }).collect()
}

/// Both are read at once, letter by letter: what is left at the end is how they can have met.
fn meet(typed: &[Typed], ruled: &[Ruled], touches: fn(char) -> bool) -> Passed {
    let mut row = vec![Passed::default(); ruled.len() + 1];
    row[0].at_start = true;
    for part in typed.iter().map(Some).chain([None]) {
        let mut next = vec![Passed::default(); ruled.len() + 1];
        for at in 0..row.len() {
            let rule = ruled.get(at);
            if rule == Some(&Ruled::Many) {
                if part == Some(&Typed::Many) {
                    row[at] = row[at].or(row[at].open());
                }
                row[at + 1] = row[at + 1].or(row[at]);
            }
            let here = row[at];
            match (part, rule) {
                (None, _) => {}
                (Some(Typed::Many), rule) => {
                    next[at] = next[at].or(here);
                    if let Some(Ruled::Letter(letter)) = rule {
                        row[at + 1] = row[at + 1].or(here.standing_for(*letter));
                    }
                }
                (Some(Typed::One), Some(Ruled::Many)) => next[at] = next[at].or(here.open()),
                (Some(Typed::One), Some(Ruled::Letter(letter))) => {
                    next[at + 1] = next[at + 1].or(here.standing_for(*letter));
                }
                (Some(Typed::Letter(letter)), Some(Ruled::Many)) => {
                    next[at] = next[at].or(here.after(*letter))
                }
                (Some(Typed::Letter(letter)), Some(Ruled::Letter(wanted))) if letter == wanted => {
                    let after = here.after(*letter);
                    next[at + 1] = next[at + 1].or(if touches(*letter) { after.touched() } else { after });
                }
                (Some(Typed::Letter(_) | Typed::One), Some(Ruled::Letter(_)) | None) => {}
            }
        }
        if part.is_none() {
            break;
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

impl Passed {
    fn or(self, other: Passed) -> Passed {
        Passed {
            at_start: self.at_start || other.at_start,
            inside: self.inside || other.inside,
            touched_at_start: self.touched_at_start || other.touched_at_start,
            touched_inside: self.touched_inside || other.touched_inside,
        }
    }

    /// After some letter that neither of both names.
    fn open(self) -> Passed {
        Passed {
            inside: self.at_start || self.inside,
            touched_inside: self.touched_at_start || self.touched_inside,
            ..Passed::default()
        }
    }

    /// After a wildcard that stands for this letter.
    fn standing_for(self, letter: char) -> Passed {
        match letter {
            '/' => Passed::default(),
            '.' => Passed { at_start: false, touched_at_start: false, ..self },
            _ => self.open(),
        }
    }

    /// After this letter.
    fn after(self, letter: char) -> Passed {
        let inside = self.open();
        match letter {
            '/' => Passed {
                at_start: inside.inside,
                touched_at_start: inside.touched_inside,
                ..Passed::default()
            },
            _ => inside,
        }
    }

    /// After a letter of both.
    fn touched(self) -> Passed {
        Passed { touched_inside: self.inside || self.touched_inside, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::{can_meet, hints_at};

    #[test]
    fn what_a_wildcard_can_become() {
        let meets = [
            ("src/g*/f", "src/gen/*"),
            ("src/ge?/f", "src/gen/*"),
            ("src/[g]en/f", "src/gen/*"),
            ("src/[!a]en/f", "src/gen/*"),
            ("a/src/g*/f", "src/gen/*"),
            ("*/*/f", "src/gen/*"),
            ("src/g*", "src/gen/*"),
            ("src/*", "src/gen/*"),
            ("SRC/G*/f", "src/gen/*"),
            ("s*/gen/a/b", "src/gen/*"),
            ("*", "*.pem"),
            ("conf/*", "*.pem"),
            ("my.*", "*.pem"),
            ("my.p?m", "*.pem"),
            ("my.[p]em", "*.pem"),
            ("*.*", "*.pem"),
            ("*.pe*", "*.pem"),
            ("conf/s*", "*secrets*"),
            ("conf/*ets.yml", "*secrets*"),
            ("conf/*", "*secrets*"),
            ("?ecrets.yml", "*secrets*"),
            ("*", "longhaul.yaml"),
            ("long*.yaml", "longhaul.yaml"),
            (".e*", ".env.*"),
            (".env.[a-z]*", ".env.*"),
            ("a/.g*/config", ".git/*"),
            ("é*", "*é"),
            ("[]]x", "*]x"),
        ];
        let misses = [
            ("*.rs", "*.env"),
            ("*.rs", "*secrets*"),
            ("src/*.rs", "*credentials*"),
            ("*.o", "node_modules/*"),
            ("src/*.rs", "src/gen/*"),
            ("src/h*/f", "src/gen/*"),
            ("src/g?/f", "src/gen/*"),
            ("g*/f", "src/gen/*"),
            ("*", ".env.*"),
            ("*", ".git/*"),
            ("?git/config", ".git/*"),
            ("[.]git/config", ".git/*"),
            ("a/*/config", ".git/*"),
            ("*/Makefile", "*secrets*"),
            ("*.p?", "*.pem"),
            ("test_*", "longhaul.yaml"),
            ("[a", "*.pem"),
        ];
        let wrong = meets.iter().filter(|(glob, pattern)| !can_meet(glob, pattern));
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
        let wrong = misses.iter().filter(|(glob, pattern)| can_meet(glob, pattern));
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
        assert!(can_meet(&"*/".repeat(1 << 20), "x"), "what is too long to look at");
    }

    #[test]
    fn what_a_wildcard_hints_at() {
        let hints = [
            ("conf/s*", "*secrets*"),
            ("conf/*ets.yml", "*secrets*"),
            ("*cred*", "*credentials*"),
            ("my.[p]em", "*.pem"),
            ("my.k*", "*.key"),
            ("*.e*", "*.env"),
            (".env.[a-z]*", ".env.*"),
        ];
        let others = [
            ("*", "*.env"),
            ("src/*", "*secrets*"),
            ("notes.*", "*.env"),
            ("*.*", "*.pem"),
            ("src/*.rs", "*secrets*"),
            ("test_*", "*secrets*"),
            ("src/g*", "*credentials*"),
        ];
        let wrong = hints.iter().filter(|(glob, pattern)| !hints_at(glob, pattern));
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
        let wrong = others.iter().filter(|(glob, pattern)| hints_at(glob, pattern));
        assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&(&str, &str)>::new());
    }
}
