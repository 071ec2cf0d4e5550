//! Tables for people: aligned columns, no frames, so that they can be cut and grepped.

use std::io::{self, IsTerminal};

/// Each column as wide as its widest cell, two blanks between columns.
pub fn rows(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = vec![header.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
    table.extend(rows);
    let width = |column: usize| {
        table.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let lines = table.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Text without the control characters that move cursors, set titles or colour: what a model or a task says must not do
/// that to somebody's terminal.
pub fn clean(text: &str) -> String {
    let shown = |letter: char| {
        if letter.is_control() && !matches!(letter, '\n' | '\t') { '\u{fffd}' } else { letter }
    };
    text.chars().map(shown).collect()
}

/// One clean line of at most `width` characters.
pub fn short(text: &str, width: usize) -> String {
    let text = &clean(text);
    let line = text.lines().next().unwrap_or("").trim();
    if line.chars().count() <= width && line.len() == text.trim().len() {
        return line.to_owned();
    }
    line.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}

/// One clean line: whole for a file or a pipe, which have room, and at most `width` characters for a terminal.
pub fn fit(text: &str, width: usize) -> String {
    if io::stdout().is_terminal() { short(text, width) } else { one_line(text) }
}

/// The same for talk.
pub fn fit_talk(text: &str, width: usize) -> String {
    if io::stderr().is_terminal() { short(text, width) } else { one_line(text) }
}

fn one_line(text: &str) -> String {
    let lines: Vec<String> = clean(text).lines().map(|line| line.trim().to_owned()).collect();
    lines.join(" ").trim().to_owned()
}

pub fn duration(millis: u64) -> String {
    match millis {
        0..1000 => format!("{millis} ms"),
        1000..60_000 => format!("{:.1} s", millis as f64 / 1000.0),
        60_000..3_600_000 => format!("{} min {} s", millis / 60_000, millis / 1000 % 60),
        _ => format!("{} h {} min", millis / 3_600_000, millis / 60_000 % 60),
    }
}

pub fn bytes(count: u64) -> String {
    match count {
        0..10_240 => format!("{count} B"),
        10_240..10_485_760 => format!("{} KiB", count / 1024),
        _ => format!("{} MiB", count / 1_048_576),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_or_many_lined_text_is_shortened() {
        assert_eq!(short("abc", 5), "abc");
        assert_eq!(short("abcdef", 5), "abcd…");
        assert_eq!(short("abc\ndef", 5), "abc…");
        assert_eq!(one_line(" abc\n  def\u{7}\n"), "abc def\u{fffd}");
        assert_eq!(duration(61_500), "1 min 1 s");
    }
}
