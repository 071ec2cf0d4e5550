//! Where a hunk belongs in a file, and the file after it.
//!
//! Owns the search: the lines as given, then without white space at their end, then without any around them, as those who
//! write patches slip there. Lines that stay are the file's own. Refuses to choose between several places unless the
//! patch says where: by a line number, or by a line that stands above.

use super::{Hunk, Line};
use crate::{limits, nearby};

/// The text with all hunks applied, or why one cannot be.
pub(crate) fn applied(path: &str, text: &str, hunks: &[Hunk]) -> Result<String, String> {
    let mut file = Text::new(text);
    let (mut cursor, mut shift) = (0, 0);
    for (index, hunk) in hunks.iter().enumerate() {
        let which = if hunks.len() == 1 {
            "the hunk".to_owned()
        } else {
            format!("hunk {} of {}", index + 1, hunks.len())
        };
        if hunk.from_top {
            (cursor, shift) = (0, 0);
        }
        let at = file.find(hunk, cursor, shift).map_err(|miss| miss.told(path, &which, text, hunk))?;
        let (next, grown) = file.replace(hunk, at);
        (cursor, shift) = (next, shift + grown);
    }
    Ok(file.into_text())
}

struct Text<'a> {
    lines: Vec<std::borrow::Cow<'a, str>>,
    /// Whether lines end with `\r\n`; new ones then do so too.
    returns: bool,
    final_break: bool,
}

enum Miss {
    NoAnchor(String),
    NoPlace,
    Places(Vec<usize>),
}

impl<'a> Text<'a> {
    fn new(text: &'a str) -> Text<'a> {
        let body = text.strip_suffix('\n').unwrap_or(text);
        let lines = if text.is_empty() { Vec::new() } else { body.split('\n').map(Into::into).collect() };
        Text { lines, returns: text.contains("\r\n"), final_break: text.is_empty() || text.ends_with('\n') }
    }

    /// Index of the line where the hunk's first one stands.
    fn find(&self, hunk: &Hunk, cursor: usize, shift: isize) -> Result<usize, Miss> {
        let mut from = cursor;
        for anchor in &hunk.anchors {
            let found = self.lines[from..].iter().position(|line| line.trim() == anchor.trim());
            from += found.ok_or_else(|| Miss::NoAnchor(anchor.clone()))? + 1;
        }
        let wanted = old_lines(hunk);
        let hinted = hunk.line.map(|line| line.saturating_sub(1).saturating_add_signed(shift));
        if wanted.is_empty() {
            return Ok(self.insertion(hunk, from, shift));
        }
        let places = self.places(&wanted, from);
        match (places.as_slice(), hinted) {
            ([], _) => Err(Miss::NoPlace),
            ([only], _) => Ok(*only),
            ([.., last], _) if hunk.at_end => Ok(*last),
            (places, Some(hinted)) => {
                Ok(places.iter().copied().min_by_key(|place| place.abs_diff(hinted)).unwrap_or(hinted))
            }
            ([first, ..], None) if !hunk.anchors.is_empty() => Ok(*first),
            (places, None) => Err(Miss::Places(places.to_vec())),
        }
    }

    /// Where lines go that have none beside them: below the anchor, at the line given, or at the end.
    fn insertion(&self, hunk: &Hunk, from: usize, shift: isize) -> usize {
        let end = self.lines.len();
        match hunk.line {
            // With nothing removed, the number is that of the line above.
            Some(line) => line.saturating_add_signed(shift).clamp(from.min(end), end),
            None if hunk.anchors.is_empty() || hunk.at_end => end,
            None => from,
        }
    }

    fn places(&self, wanted: &[&str], from: usize) -> Vec<usize> {
        let likes: [fn(&str) -> &str; 3] = [|line| line, str::trim_end, str::trim];
        for like in likes {
            let fits = |window: &[std::borrow::Cow<'_, str>]| {
                window.iter().zip(wanted).all(|(line, wanted)| like(line) == like(wanted))
            };
            let windows = self.lines[from..].windows(wanted.len()).enumerate();
            let places: Vec<usize> =
                windows.filter(|(_, window)| fits(window)).map(|(at, _)| from + at).collect();
            if !places.is_empty() {
                return places;
            }
        }
        Vec::new()
    }

    /// Answers the line after the hunk, and by how many lines the file grew.
    fn replace(&mut self, hunk: &Hunk, at: usize) -> (usize, isize) {
        let mut there = at;
        let mut new = Vec::new();
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => {
                    new.push(self.lines[there].clone());
                    there += 1;
                }
                Line::Remove(_) => there += 1,
                Line::Insert(text) if self.returns && !text.ends_with('\r') => {
                    new.push(format!("{text}\r").into())
                }
                Line::Insert(text) => new.push(text.clone().into()),
            }
        }
        let reaches_end = there == self.lines.len();
        if let Some(final_break) = hunk.final_break.filter(|_| reaches_end) {
            self.final_break = final_break;
        }
        let (old_count, new_count) = (there - at, new.len());
        self.lines.splice(at..there, new);
        (at + new_count, new_count.cast_signed() - old_count.cast_signed())
    }

    fn into_text(self) -> String {
        let mut text = self.lines.join("\n");
        if self.final_break && !self.lines.is_empty() {
            text.push('\n');
        }
        text
    }
}

impl Miss {
    fn told(&self, path: &str, which: &str, text: &str, hunk: &Hunk) -> String {
        match self {
            Miss::NoAnchor(anchor) => {
                let file = Text::new(text);
                let there = file.lines.iter().position(|line| line.trim() == anchor.trim());
                let where_else = there.map_or("is not there".to_owned(), |line| {
                    format!("stands only at {}, {PASSED}", numbered(&[line]))
                });
                format!("{which} of `{path}`: its line `@@ {anchor}` {where_else}")
            }
            Miss::NoPlace => {
                let above = Text::new(text).places(&old_lines(hunk), 0);
                if !above.is_empty() {
                    return format!("{which} fits `{path}` only at {}, {PASSED}", numbered(&above));
                }
                let old = old_lines(hunk).join("\n");
                let why = nearby::not_found(path, text, &old);
                format!(
                    "{which} does not fit `{path}`{}",
                    why.split_once("`; ").map_or(String::new(), |(_, why)| format!("; {why}"))
                )
            }
            Miss::Places(places) => {
                format!(
                    "{which} fits `{path}` at {} places, {}; add lines around it, or `@@` with a line above it",
                    places.len(),
                    numbered(places)
                )
            }
        }
    }
}

/// Why a place that is there in the file as it was cannot be taken.
const PASSED: &str = "which is not below what stands before it in the patch (a hunk, or an `@@` line); hunks must be in the \
    order of the file and share no lines";

/// Places as people count lines: `line 3`, `lines 3, 8`.
fn numbered(places: &[usize]) -> String {
    let lines: Vec<String> =
        places.iter().take(limits::PLACES_NAMED_MAX).map(|place| (place + 1).to_string()).collect();
    format!("{} {}", if places.len() == 1 { "line" } else { "lines" }, lines.join(", "))
}

fn old_lines(hunk: &Hunk) -> Vec<&str> {
    let old = hunk.lines.iter().filter_map(|line| match line {
        Line::Keep(text) | Line::Remove(text) => Some(text.as_str()),
        Line::Insert(_) => None,
    });
    old.collect()
}
