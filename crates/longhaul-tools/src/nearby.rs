//! Why a text was not found in a file.
//!
//! Owns the explanation of a near miss: the place that was probably meant, and how it differs. Spaces and tabs are drawn,
//! since they are what one does not see. Refuses to act on it: the place is named, not edited.

use crate::limits;

/// The message that `old` is not in the file, with what comes closest to it.
pub(crate) fn not_found(path: &str, text: &str, old: &str) -> String {
    let mut message = format!("`old` does not occur in `{path}`");
    if text.contains("\r\n") && !old.contains("\r\n") && old.contains('\n') {
        message.push_str("; its lines end with \\r\\n, those in `old` with \\n");
    }
    if let Some(place) = closest_place(text, old) {
        message.push_str(&place);
        return message;
    }
    let wanted = old.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let closest = closest_lines(text, wanted);
    if closest.is_empty() {
        message.push_str("; nothing in it is similar. Read the file again");
        return message;
    }
    message.push_str("; the closest to its first line:");
    for (number, line) in closest {
        message.push_str(&format!("\n{number:>6}\t{}", start_of(line)));
    }
    message
}

/// The lines that are the same but for white space, or else those of which most are the same; and how they differ.
fn closest_place(text: &str, old: &str) -> Option<String> {
    let wanted: Vec<&str> = old.trim_end_matches(['\n', '\r']).lines().collect();
    let there: Vec<&str> = text.lines().take(limits::CLOSEST_LINES_SEARCHED_MAX).collect();
    if wanted.is_empty() || wanted.len() > limits::CLOSEST_OLD_LINES_MAX || wanted.len() > there.len() {
        return None;
    }
    let wanted_bare: Vec<String> = wanted.iter().map(|line| bare(line)).collect();
    if wanted_bare.iter().all(String::is_empty) {
        return None;
    }
    let there_bare: Vec<String> = there.iter().map(|line| bare(line)).collect();
    let same =
        |window: &[String]| window.iter().zip(&wanted_bare).filter(|(left, right)| left == right).count();
    let scored = there_bare.windows(wanted.len()).map(same).enumerate();
    // The first of the best: `max_by_key` alone would answer the last.
    let (start, score) = scored.max_by_key(|(start, score)| (*score, std::cmp::Reverse(*start)))?;
    let but_for_white_space = score == wanted.len();
    if !but_for_white_space && score * 2 <= wanted.len() {
        return None;
    }
    let (first, last) = (start + 1, start + wanted.len());
    let lines =
        if first == last { format!("line {first} is") } else { format!("lines {first} to {last} are") };
    let how = if but_for_white_space { "the same but for white space" } else { "the closest" };
    let pairs = there[start..last].iter().zip(&wanted).enumerate();
    let differing = pairs.filter(|(_, (there, wanted))| there != wanted);
    let mut differing = differing.peekable();
    if differing.peek().is_none() {
        return Some(format!("; but for the line breaks, {lines} the same"));
    }
    let differences = differing.take(limits::PLACES_NAMED_MAX).map(|(index, (there, wanted))| {
        let (there, wanted) = drawn(there, wanted);
        format!("\n{:>6} is\t{there}\n   not\t{wanted}", start + index + 1)
    });
    Some(format!("; {lines} {how} (· is a space, → a tab):{}", differences.collect::<String>()))
}

fn bare(line: &str) -> String {
    line.chars().filter(|letter| !letter.is_whitespace()).collect()
}

/// Both lines, with the white space drawn around where they differ, that is in front and at the end.
fn drawn(left: &str, right: &str) -> (String, String) {
    let draw = |line: &str| {
        let body = line.trim();
        let before = line.len() - line.trim_start().len();
        let after = line.trim_end().len().max(before);
        let inner = if bare(left) == bare(right) && left.trim() != right.trim() {
            marked(body)
        } else {
            start_of(body)
        };
        format!("{}{inner}{}", marked(&line[..before]), marked(&line[after..]))
    };
    (draw(left), draw(right))
}

fn marked(text: &str) -> String {
    start_of(text).replace(' ', "·").replace('\t', "→").replace('\r', "\\r")
}

fn start_of(line: &str) -> String {
    line.chars().take(200).collect()
}

/// Up to three lines that share the longest start and end with `wanted`, at least half of it.
fn closest_lines<'a>(text: &'a str, wanted: &str) -> Vec<(usize, &'a str)> {
    let mut scored: Vec<(usize, usize, &str)> = text
        .lines()
        .take(limits::CLOSEST_LINES_SEARCHED_MAX)
        .enumerate()
        .map(|(index, line)| (likeness(line.trim(), wanted), index + 1, line))
        .filter(|(score, _, _)| *score > 0 && score * 2 >= wanted.chars().count())
        .collect();
    scored.sort_by_key(|(score, number, _)| (std::cmp::Reverse(*score), *number));
    scored.truncate(3);
    scored.into_iter().map(|(_, number, line)| (number, line)).collect()
}

/// Characters that two lines have in common at their start and, beyond that, at their end.
fn likeness(line: &str, wanted: &str) -> usize {
    let pairs = line.chars().zip(wanted.chars());
    let start = pairs.take_while(|(left, right)| left == right).count();
    let rest = line.chars().count().min(wanted.chars().count()) - start;
    let pairs = line.chars().rev().zip(wanted.chars().rev()).take(rest);
    start + pairs.take_while(|(left, right)| left == right).count()
}
