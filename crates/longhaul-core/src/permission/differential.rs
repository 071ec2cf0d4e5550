//! Generated command lines, read by us and run by bash: what bash runs, we must have seen.
//!
//! bash runs every line in a subshell, in an empty directory and with an empty search path; the commands are functions
//! that note their arguments, and so does the handler for commands that are not found. Lines have no `/`, so nothing
//! outside can be named.

#![cfg(test)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::call::{Call, Cwd, Term};
use super::tests::{HERE, rules};
use super::unwrap::{doubts, inner};
use super::walk::{Start, walk};
use super::{Action, Permissions, judge, shell};

const LINES: usize = 100_000;
const SHARDS: usize = 4;

/// What bash is given: it notes the number of the line and the words of every command.
const HARNESS: &str = r#"
__note() {
    ((__n++ > 30)) && exit
    local IFS=$'\x1f' words; words="$__line$IFS$*"
    printf '%s\x1e' "${words//$'\n'/$'\x1d'}" >&9
}
command_not_found_handle() { __note "$@"; }
for name in s1 s3 s4 s5 bad; do eval "$name() { __note $name \"\$@\"; }"; done
s2() { __note s2 "$@"; return 1; }
bash() {
    __note bash "$@"
    if [[ $1 = -c ]]; then ( eval "$2" ); fi
    # What it is fed with; a file is not what the line says.
    if [[ ( $# = 0 || $1 = -s ) && -p /dev/stdin ]]; then
        local text; IFS= read -r -t 2 -d '' text; ( eval "$text" </dev/null )
    fi
}
: > f1; : > s5x; FUNCNEST=6; __line=0
exec 9>>"$LOG" 8<"$INPUT"; unset LOG INPUT; PATH=nowhere
while IFS= read -r -d '' text <&8; do
    ((__line++))
    ( ulimit -t 1; exec 8<&-; eval "$text"; wait ) </dev/null >/dev/null 2>&1
done
"#;

/// A25: a differential test against bash itself.
#[test]
fn bash_runs_nothing_that_was_not_seen() {
    if Command::new("bash").arg("--version").stdout(Stdio::null()).status().is_err() {
        println!("SKIP: bash is not here");
        return;
    }
    let shards: Vec<_> = (0..SHARDS).map(|shard| std::thread::spawn(move || run_shard(shard))).collect();
    let mut tally = Tally::default();
    for shard in shards {
        tally.add(&shard.join().unwrap());
    }
    println!("{tally:?}");
    assert!(
        tally.failures.is_empty(),
        "{} of {LINES}:\n{}",
        tally.failures.len(),
        tally.failures[..tally.failures.len().min(20)].join("\n")
    );
    assert!(tally.ran > LINES, "bash ran only {} commands", tally.ran);
    assert!(tally.sure * 3 > LINES, "only {} lines were read for sure", tally.sure);
    assert!(tally.allowed * 80 > LINES, "only {} lines were allowed", tally.allowed);
}

#[derive(Debug, Default)]
struct Tally {
    lines: usize,
    ran: usize,
    sure: usize,
    allowed: usize,
    failures: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: &Tally) {
        self.lines += other.lines;
        self.ran += other.ran;
        self.sure += other.sure;
        self.allowed += other.allowed;
        self.failures.extend(other.failures.iter().cloned());
    }
}

fn run_shard(shard: usize) -> Tally {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (shard as u64 + 1));
    let lines: Vec<String> = (0..LINES / SHARDS).map(|_| line(&mut random)).collect();
    let ran = run_in_bash(shard, &lines);
    let mut tally = Tally::default();
    for (line, ran) in lines.iter().zip(&ran) {
        tally.ran += ran.len();
        compare(line, ran, &mut tally);
    }
    tally
}

fn run_in_bash(shard: usize, lines: &[String]) -> Vec<Vec<Vec<String>>> {
    let place =
        Place(std::env::temp_dir().join(format!("longhaul-differential-{}-{shard}", std::process::id())));
    let room = place.0.join("room");
    fs::create_dir_all(&room).unwrap();
    let (input, log) = (place.0.join("input"), place.0.join("log"));
    fs::write(&input, lines.iter().map(|line| format!("{line}\0")).collect::<String>()).unwrap();
    fs::write(&log, "").unwrap();
    Command::new("bash")
        .args(["--norc", "--noprofile", "-c", HARNESS, "s0"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .envs([("HOME", "home"), ("LC_ALL", "C.UTF-8")])
        .env("INPUT", &input)
        .env("LOG", &log)
        .current_dir(&room)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap();
    noted(&log, lines.len())
}

/// Removes what was made, also when the test fails.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

fn noted(log: &Path, lines: usize) -> Vec<Vec<Vec<String>>> {
    let mut ran = vec![Vec::new(); lines];
    let text = String::from_utf8_lossy(&fs::read(log).unwrap()).into_owned();
    for entry in text.split('\u{1e}').filter(|entry| !entry.is_empty()) {
        // A line's end stands as another character, so that a note is written at once.
        let mut words: Vec<String> = entry.split('\u{1f}').map(|word| word.replace('\u{1d}', "\n")).collect();
        let number: usize = words.remove(0).parse().unwrap();
        ran[number - 1].push(words);
    }
    ran
}

fn compare(line: &str, ran: &[Vec<String>], tally: &mut Tally) {
    let names: Vec<&str> = ran.iter().map(|words| words[0].as_str()).collect();
    // Judging costs more than reading, so it is done where it could be wrong, and for a part of the rest to see how many
    // lines are allowed at all.
    let ran_bad = names.contains(&"bad");
    if ran_bad || tally.lines.is_multiple_of(8) {
        let denied = rules(&[
            ("bash", &[("*", Action::Allow), ("bad *", Action::Deny)]),
            ("external_directory", &[("*", Action::Allow)]),
        ]);
        let allowed = judged(&denied, line) == Action::Allow;
        tally.allowed += usize::from(allowed);
        if allowed && ran_bad {
            tally.failures.push(format!("allowed, but `bad` ran: {line:?}"));
        }
    }
    let listed = ["s1", "s2", "s3", "s5", "bash"];
    if !names.iter().all(|name| listed.contains(name)) && judged(&only(&listed), line) == Action::Allow {
        tally.failures.push(format!("only {listed:?} are allowed, but {names:?} ran: {line:?}"));
    }
    tally.lines += 1;
    let Some(calls) = seen(line) else { return };
    tally.sure += 1;
    for words in ran {
        if !calls.iter().any(|call| fits(&call.terms, words)) {
            tally.failures.push(format!("bash ran {words:?}: {line:?}"));
        }
    }
}

fn judged(permissions: &Permissions, line: &str) -> Action {
    judge(std::slice::from_ref(permissions), HERE, "bash", &serde_json::json!({ "command": line })).action
}

/// Only these commands, and what prints.
fn only(names: &[&str]) -> Permissions {
    let patterns: Vec<String> =
        names.iter().chain(&["echo", "true", ":"]).map(|name| format!("{name} *")).collect();
    let mut bash: Vec<(&str, Action)> =
        patterns.iter().map(|pattern| (pattern.as_str(), Action::Allow)).collect();
    bash.push(("*", Action::Ask));
    rules(&[("bash", &bash), ("external_directory", &[("*", Action::Allow)])])
}

/// Every command that was seen; `None` if there was any doubt.
fn seen(line: &str) -> Option<Vec<Call>> {
    let script = shell::read(line).ok()?;
    if !doubts(&script.facts).is_empty() {
        return None;
    }
    let start = Start { workspace: "/ws", cwd: Cwd::at(""), depth: 0, piped: false };
    let mut waiting = walk(&script, start).calls;
    let mut calls = Vec::new();
    while let Some(call) = waiting.pop() {
        // A pattern as a name may turn out to be `eval`, if a line before made a file of that name.
        if matches!(call.terms.first(), Some(Term::Open { raw, .. }) if raw.contains(['*', '?', '['])) {
            return None;
        }
        let within = inner(&call, "/ws");
        if !within.hazards.is_empty() {
            return None;
        }
        waiting.extend(within.calls);
        calls.push(call);
    }
    Some(calls)
}

/// Whether a command with these terms can have had these words.
fn fits(terms: &[Term], words: &[String]) -> bool {
    match terms.split_first() {
        None => words.is_empty(),
        Some((Term::Fixed(term), rest)) => words.first() == Some(term) && fits(rest, &words[1..]),
        Some((Term::Open { splits: false, prefix, .. }, rest)) => {
            let starts = |word: &String| prefix == "~" || word.starts_with(prefix.as_str());
            words.first().is_some_and(starts) && fits(rest, &words[1..])
        }
        Some((Term::Open { splits: true, .. }, rest)) => {
            (0..=words.len()).any(|taken| fits(rest, &words[taken..]))
        }
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % bound
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

fn line(random: &mut Random) -> String {
    let mut line = list(random, 2);
    if random.below(3) == 0 {
        for _ in 0..=random.below(3) {
            mutate(random, &mut line);
        }
    }
    line
}

/// Puts something in or takes a character out, wherever.
fn mutate(random: &mut Random, line: &mut String) {
    let places: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
    let at = places[random.below(places.len())];
    let odd = [
        "'", "\"", "\\", "$", "(", ")", "{", "}", "|", "&", ";", "<", ">", "#", "\n", " ", "`", "!", "*",
        "?", "[", "]", "=", "~", "-", "\\\n", "$(", "$((", "))", "${", "<<E", "\nE\n", "<(", "bad", " bad ",
        ";bad;", "$'", "\t", "<<<", "&>", "2>", "+", ",", "@", ":", "%", "^", "é", "[[", "]]", "((", " in ",
        " do ", "\\'", "=(",
    ];
    if random.below(4) == 0 && at < line.len() {
        line.remove(at);
    } else {
        line.insert_str(at, random.one(&odd));
    }
}

fn list(random: &mut Random, depth: usize) -> String {
    let mut text = pipeline(random, depth);
    for _ in 0..random.below(2) {
        let link = random.one(&[
            " && ",
            " || ",
            "; ",
            "\n",
            ";",
            "&&",
            " & ",
            " # it's \"x ; bad\n",
            "\n\n",
            " ;\\\n ",
        ]);
        text = format!("{text}{link}{}", pipeline(random, depth));
    }
    text
}

fn pipeline(random: &mut Random, depth: usize) -> String {
    let before = random.one(&["", "", "", "", "! ", "time "]);
    let mut text = format!("{before}{}", command(random, depth));
    if random.below(5) == 0 {
        text = format!("{text}{}{}", random.one(&[" | ", "|", " |& ", " |\n"]), command(random, depth));
    }
    text
}

fn command(random: &mut Random, depth: usize) -> String {
    if depth == 0 || random.below(3) > 0 {
        return simple(random, depth);
    }
    let compound = compound(random, depth - 1);
    format!("{compound}{}", redirection(random))
}

fn compound(random: &mut Random, depth: usize) -> String {
    match random.below(14) {
        0 => format!("({})", list(random, depth)),
        1 => format!("{{ {}; }}", simple(random, depth)),
        2 => format!("if {}; then {}; fi", simple(random, depth), simple(random, depth)),
        3 => format!(
            "if {}\nthen {}\nelse {}\nfi",
            simple(random, depth),
            simple(random, depth),
            simple(random, depth)
        ),
        4 => format!(
            "for V in {} {}; do {}; done",
            word(random, depth),
            word(random, depth),
            simple(random, depth)
        ),
        5 => format!("while s2; do {}; done", simple(random, depth)),
        6 => format!("while {}; do {}; break; done", simple(random, depth), simple(random, depth)),
        7 => format!(
            "case {} in {}) {};; (b|*) {} ;; esac",
            word(random, depth),
            word(random, depth),
            simple(random, depth),
            simple(random, depth)
        ),
        8 => format!("f1() {{ {}; }}; f1 {}", simple(random, depth), word(random, depth)),
        9 => format!("[[ {} == {} ]] && {}", word(random, depth), word(random, depth), simple(random, depth)),
        10 => format!("(( 1 + {} )) && {}", random.below(3), simple(random, depth)),
        11 => format!("function f1 {{ {}\n}}\nf1", simple(random, depth)),
        12 => {
            let end = random.one(&["E", "'E'", "\\E", "\"E\""]);
            let body = random.one(&[
                "text",
                "$(s3 in)",
                "it's `s4 x` \"",
                "a\\\nb",
                "$V ${X:-$(s5)}",
                "\\$(bad)",
                "E ",
                "(",
                "<<E",
            ]);
            format!("{} <<{end}\n{body}\nE\n{}", simple(random, 0), simple(random, depth))
        }
        _ => format!("for ((V=0; V<2; V++)); do {}; done", simple(random, depth)),
    }
}

fn simple(random: &mut Random, depth: usize) -> String {
    let mut text = String::new();
    if random.below(8) == 0 {
        text += random.one(&[
            "A=1 ",
            "A= ",
            "X=s3 ",
            "A='x y' ",
            "A+=x ",
            "A=(a b); ",
            "A=$(s4 v) ",
            "a[1]=x ",
            "V=s1; ",
            "A=\"$(s1 q)\" ",
            "X=~ ",
            "V='a[$(bad)]'; printf -v y[V] 1; ",
            "V='a[$(bad)]'; read y[1+V] <<< 1; ",
            "V='a[$(bad)]'; printf -v 'y[V]' 1; ",
            "printf -v V s3; ",
            "read V <<< s4; ",
        ]);
    }
    text += &name(random, depth);
    for _ in 0..random.below(3) {
        text += random.one(&[" ", " ", " ", "  ", "\t", " \\\n"]);
        text += &word(random, depth);
    }
    text += redirection(random);
    text
}

/// Mostly none. Behind a command, and behind what is made of several.
fn redirection(random: &mut Random) -> &'static str {
    if random.below(8) > 0 {
        return "";
    }
    random.one(&[
        " >f1",
        " 2>&1",
        " >>f1",
        " <f1",
        " &>f1",
        " 2>f1",
        " <<<x",
        " <<< \"$(s5 h)\"",
        " < <(echo bad)",
        " 0< <(echo s3 x)",
        " >|f1",
        " >&f1",
        " 3<f1",
        " <&$(bad)",
        " <&\"$(s4 d)\"",
        " 3<&`bad`",
        " 0<&$(s5)-",
        " <&${X:-$(bad)}",
        " <& $V$(s3)",
        " <&$((y[$(bad)]))",
        " >&$(bad)",
        " 2>&$(s3)1",
        " <>$(bad)f1",
        " &>>$(s4)f1",
        " >|\"$(bad)f1\"",
        " 3<&0",
        " 0<&-",
    ])
}

fn name(random: &mut Random, depth: usize) -> String {
    if random.below(6) > 0 {
        return random.one(&["s1", "s2", "s3", "s4", "s5", "s1", "s3", "s5", "bad"]).to_owned();
    }
    if depth > 0 && random.below(3) == 0 {
        let quoted = simple(random, 0).replace('\'', "");
        return format!(
            "{} '{quoted}'",
            random.one(&["eval", "bash -c", "command eval", "builtin eval", "trap - EXIT; eval"])
        );
    }
    let names = [
        "'s'1",
        "\"s1\"",
        "s\\1",
        "$'s\\x31'",
        "$'\\163\\061'",
        "s\"\"1",
        "''s3",
        "${X:-s3}",
        "$(echo s4)",
        "`echo s4`",
        "{s5,a}",
        "s5?",
        "s5*",
        "$V",
        "\"$V\"",
        "s1\\\n",
        "\\s1",
        "command s1",
        "builtin command s3",
        "b'a'd",
        "$'bad'",
        "\\bad",
        "b\\ad",
        "eval s1",
        "eval bad",
        "eval 's3;' s4",
        "exec s1",
        "bash",
        "bash -s",
        "echo bad | bash",
        "\"b\"ad",
        "echo",
        "true",
        ":",
        "<&$(bad);",
        "exec 3<&$(bad);",
        "[[ a ]] <&$(bad);",
    ];
    random.one(&names).to_owned()
}

fn word(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.below(4) == 0 {
        let depth = depth - 1;
        let inside = list(random, depth.min(1));
        return match random.below(8) {
            0 => format!("$({inside})"),
            1 => format!("\"$({inside})\""),
            2 => format!("\"a $( {inside} ) b\""),
            3 => format!("${{X:-$({inside})}}"),
            4 => format!("<({inside})"),
            5 => format!("`{}`", inside.replace(['`', '\\', '$'], "")),
            6 => format!("\"`{}`\"", inside.replace(['`', '\\', '$', '"'], "")),
            _ => format!("x$({inside}\n)y"),
        };
    }
    let words = [
        "a",
        "b2",
        "-x",
        "--y=z",
        "'q q'",
        "\"d d\"",
        "''",
        "\"\"",
        "e\\ e",
        "\\;",
        "\\&\\&",
        "';'",
        "\"|\"",
        "$'\\n'",
        "$'it\\'s'",
        "$'\\t\\\\'",
        "\"\\$(bad)\"",
        "'$(bad)'",
        "\\$\\(bad\\)",
        "\"\\`bad\\`\"",
        "$V",
        "\"$V\"",
        "${V}",
        "\"${V:-d}\"",
        "${V:+x}",
        "${#V}",
        "${V%x}",
        "${V//a/b}",
        "${V/a}",
        "${V^^}",
        "${V:0:1}",
        "$((1+2))",
        "$(( (2) ))",
        "{a,b}",
        "x{1..3}y",
        "{a}",
        "{a,'b c'}",
        "~",
        "~x",
        "*",
        "f?",
        "[a-z]*",
        "[x",
        "x#y",
        "!x",
        "!!",
        "é",
        "\u{65e5}\u{672c}",
        "a=b",
        "A=$V",
        "if",
        "done",
        "}",
        "{",
        "\"#\"",
        "$",
        "\"$\"",
        "$\"tr\"",
        "a\\\nb",
        "\"a\\\nb\"",
        "'a\nb'",
        "\"a\nb\"",
        "%",
        "^",
        "@",
        "\"$@\"",
        "$*",
        "$#",
        "$?",
        "1",
        "2",
        "\\\"",
        "\\'",
        "\"'\"",
        "'\"'",
        "\"it's\"",
        "in",
        "do",
        "\"${V:-it}\"",
        "\"a\\\\\"",
        "'\\'",
        "x\\\\",
        "\"!\"",
        "\"$'x'\"",
        "a\"b\"'c'$'d'\\e",
        "]]",
        "[[",
        "esac",
        "${V-'x y'}",
        "${V:-\"x y\"}",
        "a+=b",
        "x[1]",
        "x[1]=2",
    ];
    random.one(&words).to_owned()
}
