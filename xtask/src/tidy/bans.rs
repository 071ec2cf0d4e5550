//! Calls that are not made here, and what is done instead.

use crate::problem::Problem;
use crate::source::Source;

struct Ban {
    /// What is looked for, in code without comments and literals.
    pattern: &'static str,
    what_to_do: &'static str,
    scope: Scope,
}

/// Where a ban holds.
enum Scope {
    /// In tests too.
    Everywhere,
    /// Outside tests, except below these paths.
    ProductExcept(&'static [&'static str]),
}

/// Where the terminal is written to: the renderer, and the tasks of this crate.
const PRINTERS: &[&str] =
    &["crates/longhaul/src/render.rs", "crates/longhaul/src/render/", "xtask/src/main.rs"];

/// Test doubles panic as tests do.
const TESTKIT: &[&str] = &["crates/longhaul-testkit/"];

/// Where requests are made: to models, and by tools. Whoever wants a model's answer asks the first.
const CONNECTORS: &[&str] = &[
    "crates/longhaul-model/src/wire/",
    "crates/longhaul-tools/src/fetch.rs",
    "crates/longhaul-tools/src/http.rs",
    "crates/longhaul-tools/src/mcp/",
];

const PANIC: &str = "return an error, or prove it and use a form that cannot fail";
const PRINT: &str = "give the text to longhaul's renderer";

const BANS: &[Ban] = &[
    Ban { pattern: ".unwrap()", what_to_do: PANIC, scope: Scope::ProductExcept(TESTKIT) },
    Ban { pattern: ".expect(", what_to_do: PANIC, scope: Scope::ProductExcept(TESTKIT) },
    Ban { pattern: "todo!", what_to_do: "finish it or leave it out", scope: Scope::Everywhere },
    Ban { pattern: "unimplemented!", what_to_do: "finish it or leave it out", scope: Scope::Everywhere },
    Ban { pattern: "dbg!", what_to_do: "remove it", scope: Scope::Everywhere },
    Ban {
        pattern: "#[ignore",
        what_to_do: "assert today's behaviour and say why it is wrong",
        scope: Scope::Everywhere,
    },
    Ban {
        pattern: "#[allow(",
        what_to_do: "use #[expect(…, reason = \"…\")]",
        scope: Scope::ProductExcept(&[]),
    },
    Ban {
        pattern: "#![allow(",
        what_to_do: "use #![expect(…, reason = \"…\")]",
        scope: Scope::ProductExcept(&[]),
    },
    Ban {
        pattern: "process::exit",
        what_to_do: "return the exit code to main",
        scope: Scope::ProductExcept(&["crates/longhaul/src/main.rs"]),
    },
    Ban {
        pattern: "reqwest::",
        what_to_do: "ask a model through longhaul-model, a service through a tool",
        scope: Scope::ProductExcept(CONNECTORS),
    },
    Ban { pattern: "println!", what_to_do: PRINT, scope: Scope::ProductExcept(PRINTERS) },
    Ban { pattern: "eprintln!", what_to_do: PRINT, scope: Scope::ProductExcept(PRINTERS) },
    Ban { pattern: "print!", what_to_do: PRINT, scope: Scope::ProductExcept(PRINTERS) },
    Ban { pattern: "eprint!", what_to_do: PRINT, scope: Scope::ProductExcept(PRINTERS) },
];

/// Outside worlds that core must not name, and words of async code.
const CORE_PATHS: &[&str] = &[
    "std::fs",
    "std::net",
    "std::process",
    "std::thread",
    "std::env",
    "std::time::SystemTime",
    "std::time::Instant",
    "rand",
];
const CORE_WORDS: &[&str] = &["async fn", "async move", "async {", ".await"];

pub(crate) fn check(source: &Source) -> Vec<Problem> {
    let mut problems: Vec<Problem> = BANS.iter().flat_map(|ban| banned(source, ban)).collect();
    if source.path.starts_with("crates/longhaul-core/src/") {
        problems.extend(impure(source));
    }
    problems
}

fn banned(source: &Source, ban: &Ban) -> Vec<Problem> {
    let code = match ban.scope {
        Scope::Everywhere => &source.code,
        Scope::ProductExcept(paths) if paths.iter().any(|path| source.path.starts_with(path)) => {
            return Vec::new();
        }
        Scope::ProductExcept(_) => &source.product,
    };
    let lines = code.lines().enumerate().filter(|(_, line)| has(line, ban.pattern));
    lines
        .map(|(index, _)| {
            Problem::new(&source.path, index + 1, format!("`{}` is banned; {}", ban.pattern, ban.what_to_do))
        })
        .collect()
}

/// Whether a line has the pattern, and not as the end of a longer word: `println!` is not `eprintln!`.
fn has(line: &str, pattern: &str) -> bool {
    let starts_a_word = pattern.starts_with(char::is_alphabetic);
    line.match_indices(pattern).any(|(at, _)| {
        let before = line[..at].chars().next_back().unwrap_or(' ');
        !(starts_a_word && (before.is_alphanumeric() || before == '_'))
    })
}

fn impure(source: &Source) -> Vec<Problem> {
    let wrong = |line, what: &str| {
        let text =
            format!("core uses `{what}`; core has no IO, clock, randomness or async, take it as an input");
        Problem::new(&source.path, line, text)
    };
    let paths = ["std", "rand"].into_iter().flat_map(|root| paths_from(&source.product, root));
    let mut problems: Vec<Problem> = paths
        .filter(|(_, path)| CORE_PATHS.iter().any(|banned| is_under(path, banned)))
        .map(|(line, path)| wrong(line, &path))
        .collect();
    for (index, line) in source.product.lines().enumerate() {
        let words = CORE_WORDS.iter().filter(|word| has(line, word));
        problems.extend(words.map(|word| wrong(index + 1, word)));
    }
    problems
}

fn is_under(path: &str, banned: &str) -> bool {
    path.strip_prefix(banned).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Every path that begins with `root::`, with its line; groups such as `std::{fs, time::Instant}` are spelled out.
fn paths_from(code: &str, root: &str) -> Vec<(usize, String)> {
    let start = format!("{root}::");
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(&start) {
        let before = code[..at].chars().next_back().unwrap_or(' ');
        if before.is_alphanumeric() || before == '_' {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let mut found = Vec::new();
        spell_out(root, &code[at + start.len()..], &mut found);
        paths.extend(found.into_iter().map(|path| (line, path)));
    }
    paths
}

/// Adds the paths that follow `prefix::`, and gives back the code behind them.
fn spell_out<'a>(prefix: &str, code: &'a str, found: &mut Vec<String>) -> &'a str {
    let code = code.trim_start();
    if let Some(mut group) = code.strip_prefix('{') {
        while !group.is_empty() {
            let rest = spell_out(prefix, group, found).trim_start();
            match rest.strip_prefix(',') {
                Some(more) if !more.trim_start().starts_with('}') => group = more,
                Some(more) => return more.trim_start().strip_prefix('}').unwrap_or(""),
                None => return rest.strip_prefix('}').unwrap_or(""),
            }
        }
        return group;
    }
    let end = code.find(|letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == '*'));
    let (name, rest) = code.split_at(end.unwrap_or(code.len()));
    let path = if name == "self" { prefix.to_owned() } else { format!("{prefix}::{name}") };
    match rest.strip_prefix("::") {
        Some(deeper) => spell_out(&path, deeper, found),
        None => {
            found.push(path);
            rest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> Vec<String> {
        check(&Source::new(path, text)).iter().map(Problem::to_string).collect()
    }

    const STORE: &str = "crates/longhaul-store/src/a.rs";
    const CORE: &str = "crates/longhaul-core/src/a.rs";

    #[test]
    fn each_ban_is_found_where_it_stands() {
        for line in [
            "x.unwrap();",
            "x.expect(\"y\");",
            "todo!()",
            "unimplemented!()",
            "dbg!(x);",
            "#[allow(dead_code)]",
            "#![allow(dead_code)]",
            "#[ignore]",
            "std::process::exit(1);",
            "reqwest::Client::new();",
            "println!();",
            "eprintln!();",
            "print!();",
            "eprint!();",
        ] {
            let found = problems(STORE, &format!("//! Doc.\n{line}\n"));
            assert_eq!(found.len(), 1, "{line}: {found:?}");
            assert!(found[0].starts_with("crates/longhaul-store/src/a.rs:2: `"), "{found:?}");
        }
    }

    #[test]
    fn tests_strings_and_comments_are_free() {
        for text in [
            "// x.unwrap()",
            "f(\"todo!\")",
            "#[cfg(test)]\nmod tests { fn f() { x.unwrap(); } }",
            "x.unwrap_or(1)",
            "x.expect_err()",
            "#[expect(dead_code, reason = \"\")]",
        ] {
            assert_eq!(problems(STORE, text), [""; 0], "{text}");
        }
        assert_eq!(problems("crates/longhaul-store/tests/a.rs", "x.unwrap();"), [""; 0]);
        assert_eq!(problems("crates/longhaul-testkit/src/a.rs", "x.unwrap();"), [""; 0]);
        assert_eq!(problems("crates/longhaul-store/tests/a.rs", "#[ignore]\nfn f() {}").len(), 1);
    }

    #[test]
    fn only_the_terminal_prints_and_exits() {
        assert_eq!(problems("crates/longhaul/src/render.rs", "println!();"), [""; 0]);
        assert_eq!(problems("crates/longhaul/src/run.rs", "println!();").len(), 1);
        assert_eq!(problems("crates/longhaul/src/main.rs", "std::process::exit(3);"), [""; 0]);
        assert_eq!(problems("crates/longhaul/src/run.rs", "process::exit(3);").len(), 1);
    }

    /// C3.1: one place talks to models, whichever role asks.
    #[test]
    fn only_the_providers_room_opens_connections() {
        assert_eq!(problems("crates/longhaul-model/src/wire/http.rs", "reqwest::Client::new()"), [""; 0]);
        for path in
            ["longhaul-engine/src/judge.rs", "longhaul-agents/src/a.rs", "longhaul/src/commands/run.rs"]
        {
            assert_eq!(problems(&format!("crates/{path}"), "use reqwest::Client;").len(), 1, "{path}");
        }
    }

    #[test]
    fn core_names_no_outside_world() {
        for text in [
            "use std::fs;",
            "use std::{fmt, net::TcpStream};",
            "use std::{\n    fmt,\n    time::{Duration, Instant},\n};",
            "let now = std::time::SystemTime::now();",
            "use std::process::Command;",
            "std::thread::spawn(f);",
            "rand::random()",
            "async fn f() {}",
            "f().await;",
            "let f = async move {};",
        ] {
            assert_eq!(problems(CORE, text).len(), 1, "{text}");
            assert_eq!(problems(STORE, text), [""; 0], "{text}");
        }
        for text in [
            "use std::time::Duration;",
            "use std::{fmt, sync::Arc};",
            "operand::x()",
            "use std::fmt::{self};",
        ] {
            assert_eq!(problems(CORE, text), [""; 0], "{text}");
        }
    }
}
