//! sed and awk programs: whether one only edits text. Anything that is not plainly so may run commands or write files.

/// Whether a sed script has no `e`, `w`, `r`, `R`, `W` and no flag of `s` that runs or writes.
pub(super) fn sed_is_plain(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';', '}', '{']);
        if rest.is_empty() {
            return true;
        }
        rest = match sed_command(rest) {
            Some(after) => after,
            None => return false,
        };
    }
}

/// Passes one command with its addresses; `None` if it is not a plain one.
fn sed_command(text: &str) -> Option<&str> {
    let mut rest = sed_address(text)?;
    if let Some(second) = rest.strip_prefix(',') {
        let second = second.trim_start_matches([' ', '+', '~']);
        rest = sed_address(second)?;
    }
    let rest = rest.trim_start_matches([' ', '!']);
    let mut letters = rest.chars();
    let command = letters.next()?;
    let after = letters.as_str();
    match command {
        'p' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'x' | '=' | 'z' | 'P' => ended(after),
        'l' | 'q' | 'Q' => {
            ended(after.trim_start_matches(|letter: char| letter == ' ' || letter.is_ascii_digit()))
        }
        '{' | '}' | '#' if command != '#' => Some(after),
        '#' => Some(after.split_once('\n').map_or("", |(_, rest)| rest)),
        ':' | 'b' | 't' | 'T' => sed_label(after),
        'a' | 'i' | 'c' => {
            // The text goes on after a backslash at the end of a line; that is left to a person.
            let (line, rest) = after.split_once('\n').unwrap_or((after, ""));
            (!line.ends_with('\\')).then_some(rest)
        }
        's' => sed_substitute(after),
        'y' => {
            let mut letters = after.chars();
            let delimiter = letters.next()?;
            let rest = past(letters.as_str(), delimiter)?;
            ended(past(rest, delimiter)?)
        }
        _ => None,
    }
}

/// A command must be followed by an end, or its letters would belong to something else.
fn ended(after: &str) -> Option<&str> {
    let after = after.trim_start_matches([' ', '\t']);
    (after.is_empty() || after.starts_with([';', '\n', '}', '#'])).then_some(after)
}

/// Behind a label, which ends at a blank or a semicolon: what follows is a command. Whether it ends at a brace as well differs, so
/// nothing may follow that.
fn sed_label(text: &str) -> Option<&str> {
    let text = text.trim_start_matches([' ', '\t']);
    let end = text.find([' ', '\t', '\n', '\r', '\x0b', '\x0c', ';']).unwrap_or(text.len());
    let (label, rest) = text.split_at(end);
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    label.trim_end_matches('}').chars().all(is_plain).then_some(rest)
}

fn sed_substitute(text: &str) -> Option<&str> {
    let mut letters = text.chars();
    let delimiter = letters.next().filter(|letter| *letter != '\\' && *letter != '\n')?;
    let rest = past(letters.as_str(), delimiter)?;
    let rest = past(rest, delimiter)?;
    ended(rest.trim_start_matches(|letter: char| "gpiI".contains(letter) || letter.is_ascii_digit()))
}

fn sed_address(text: &str) -> Option<&str> {
    let rest =
        text.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '$' || letter == '~');
    if let Some(expression) = rest.strip_prefix('/') {
        return Some(past(expression, '/')?.trim_start_matches(['I', ' ']));
    }
    if rest.starts_with('\\') {
        return None;
    }
    Some(rest.trim_start_matches(' '))
}

/// Behind the next delimiter that is neither escaped nor in brackets.
fn past(text: &str, delimiter: char) -> Option<&str> {
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == '[' && delimiter != '[' {
            // Whether a delimiter in brackets ends the expression differs; such a script is left to a person.
            let close = text[at + 1..].find(']')?;
            if text[at + 1..at + 1 + close].contains(delimiter) {
                return None;
            }
        } else if letter == delimiter {
            return Some(&text[at + letter.len_utf8()..]);
        }
    }
    None
}

/// Whether an awk program has nothing that runs a command, reads or writes a file, or calls what it does not show.
pub(super) fn awk_is_plain(program: &str) -> bool {
    let calls = ["system", "getline", "close", "fflush", "@", "ENVIRON", "include", "load"];
    !program.contains(['|', '>', '`', '\\']) && !calls.iter().any(|call| program.contains(call))
}
