//! Looks for denied commands in text that could not be read: any word may be a command's name.

use super::call::Term;
use super::pattern::{Match, names, reaches, stages};
use super::rules::Rules;
use super::{Action, git};
use crate::limits::SCAN_WORDS_MAX;

/// The first deny rule whose command is written anywhere in the text.
pub(super) fn denied<'a>(rules: &'a Rules, text: &str) -> Option<&'a str> {
    let patterns: Vec<(&str, Vec<Vec<&str>>)> = rules
        .named()
        .filter(|(_, action)| *action == Action::Deny)
        .map(|(pattern, _)| (pattern, stages(pattern)))
        .collect();
    let commands: Vec<Vec<String>> = text.split([';', '\n', '&', '|']).map(words).collect();
    let single = patterns.iter().filter(|(_, stages)| stages.len() == 1);
    let mut single = single.filter(|(_, stages)| commands.iter().any(|words| found(&stages[0], words)));
    if let Some((pattern, _)) = single.next() {
        return Some(pattern);
    }
    let piped = patterns.iter().filter(|(_, stages)| stages.len() > 1);
    let mut piped = piped.filter(|(_, stages)| {
        let mut rest = commands.iter();
        stages.iter().all(|stage| rest.any(|words| found(stage, words)))
    });
    piped.next().map(|(pattern, _)| *pattern)
}

/// Whether the command of a pattern starts at any of the words.
pub(super) fn found<T: AsRef<str>>(pattern: &[&str], words: &[T]) -> bool {
    let Some(name) = pattern.first() else { return false };
    let begins = |word: &str| names(name, word) || (git::subcommand(word).is_some() && names(name, "git"));
    (0..words.len()).filter(|at| begins(words[*at].as_ref())).any(|at| {
        let words = words[at..].iter().take(SCAN_WORDS_MAX);
        let terms: Vec<Term> = words.map(|word| Term::Fixed(word.as_ref().to_owned())).collect();
        reaches(pattern, &terms) == Match::Yes
    })
}

/// Whether the command of a pattern is written anywhere in a text.
pub(super) fn found_in(pattern: &[&str], text: &str) -> bool {
    text.split([';', '\n', '&', '|']).any(|command| found(pattern, &words(command)))
}

/// Words without quotes and without what code puts around them.
fn words(text: &str) -> Vec<String> {
    let plain: String = text.chars().filter(|letter| !matches!(letter, '\'' | '"' | '\\')).collect();
    let separators = |letter: char| letter.is_whitespace() || "(){}[]<>,=`$!@".contains(letter);
    plain.split(separators).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
