//! Tables for people: aligned columns, no frames, so that they can be cut and grepped.

use std::io::{self, IsTerminal};

use longhaul_core::text::visible;

use crate::limits::CELL_CHARS_MAX;

/// Each column as wide as its widest cell, two blanks between columns. A column wider than a screen would push those after it
/// away, so all but the last have their bound, whoever reads them.
pub fn rows(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = vec![header.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()];
    table.extend(rows);
    for row in &mut table {
        row.iter_mut().take(header.len().saturating_sub(1)).for_each(|cell| cut(cell, CELL_CHARS_MAX));
    }
    let width = |column: usize| {
        table.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let lines = table.iter().map(|row| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| padded(cell, *width));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// A width in a format string may be 65,535 at most, and more is a panic.
fn padded(cell: &str, width: usize) -> String {
    let blanks = width.saturating_sub(cell.chars().count());
    format!("{cell}{}", " ".repeat(blanks))
}

/// Leaves at most `width` characters, with a sign that there were more.
pub fn cut(text: &mut String, width: usize) {
    if text.chars().count() > width {
        *text = text.chars().take(width.saturating_sub(1)).chain(['…']).collect();
    }
}

/// Text with the control characters written out that move cursors, set titles or colour, and the letters that turn its direction
/// or have no width: what a model or a task says must not do that to somebody's terminal, nor read as something else.
pub fn clean(text: &str) -> String {
    visible(text)
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
        assert_eq!(one_line(" abc\n  def\u{7}\n"), "abc def\\u{7}");
        assert_eq!(duration(61_500), "1 min 1 s");
    }

    /// A54: text of any length is a cell; it neither breaks the table nor pushes the others off the screen.
    #[test]
    fn a_cell_of_any_length_is_cut() {
        let drawn = rows(&["A", "B"], [vec!["x".repeat(100_000), "y".into()], vec!["z".into(), "y".into()]]);
        let widths: Vec<usize> = drawn.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [CELL_CHARS_MAX + 3; 3]);
        let last = rows(&["A", "B"], [vec!["x".into(), "y".repeat(70_000)], vec!["x".into(), "y".into()]]);
        assert_eq!(last.lines().map(str::len).collect::<Vec<_>>(), [4, 70_003, 4]);
        assert!(drawn.contains("xxx…  y"), "{drawn}");
        assert_eq!(padded("é", 70_000).chars().count(), 70_000);
    }

    /// A54: nobody is shown a command that reads as another.
    #[test]
    fn what_nobody_would_see_is_written_out() {
        assert_eq!(
            clean("echo \u{202E}gnihton\u{202C} \u{200B}ok\u{7}"),
            "echo \\u{202e}gnihton\\u{202c} \\u{200b}ok\\u{7}"
        );
        assert_eq!(clean("a\u{1b}b\n\tc"), "a\\u{1b}b\n\tc");
        assert_eq!(clean("a\rb\r\n"), "a\\rb\\r\n");
    }
}
