//! A night of experiments, killed at everything it makes durable: each event of each of its runs, and each change of its own file and
//! of its report, which is where one phase becomes the next.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::rig::{Rig, has, skip, told};

/// The calls that a journal's events and a night's file become durable with. The program's first thread makes them all, one
/// after the other, so the same number is the same moment every time.
const SYSCALLS: [&str; 2] = ["fdatasync", "renameat"];

/// More than a night has of either.
const MOMENTS_MAX: usize = 80;

const SCRIPT: &str = r#"
prices: { input: 10, output: 10 }
conversations:
  - match: { agent: planner }
    turns:
      - text: '{"experiments":[{"title":"Much better","kind":"other","description":"Try it."},{"title":"Does nothing","kind":"other","description":"Try it."}]}'
        usage: { input: 1000, output: 0 }
  - match: { prompt_contains: "Much better" }
    turns:
      - { calls: [ { tool: write, args: { path: score, content: "15\n" } } ], usage: { input: 1000, output: 0 } }
      - { text: "Fifteen now.", usage: { input: 1000, output: 0 } }
  - match: { prompt_contains: "Does nothing" }
    turns: [ { text: "There is nothing to do.", usage: { input: 1000, output: 0 } } ]
"#;

const START: [&str; 10] = [
    "overnight",
    "start",
    "Raise the score",
    "--model",
    "scripted/script.yaml",
    "--verify",
    "test -e ok",
    "--metric",
    "cat score",
    "--experiments=2",
];

/// A7.4, AQ7, AX2: killed at every event of its runs and at every boundary of its phases, a night that is taken up again comes to the
/// same end and the same report; every run of it is begun once, and nothing that ended is done again.
#[test]
fn a_night_killed_at_each_boundary_ends_the_same() {
    if !has("strace") {
        return skip("strace is not installed");
    }
    let calm = repository();
    calm.says(&START);
    let expected = end_of(&calm);
    for syscall in SYSCALLS {
        let (next, kills) = (AtomicUsize::new(1), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            // Most of the time is waited for disks.
            for _ in 0..4 {
                scope.spawn(|| {
                    // Beyond the last moment nobody is killed any more.
                    while killed_at(syscall, next.fetch_add(1, Ordering::SeqCst), &expected) {
                        kills.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
        });
        let kills = kills.into_inner();
        println!("{syscall}: killed {kills} times");
        assert!((8..MOMENTS_MAX).contains(&kills), "{syscall}: killed {kills} times");
    }
}

/// Was the night killed at the n-th such call? It ends as expected all the same.
fn killed_at(syscall: &str, nth: usize, expected: &End) -> bool {
    let rig = repository();
    let inject = format!("inject={syscall}:signal=SIGKILL:when={nth}");
    let strace = ["strace", "-qq", "-o", "/dev/null", "-e", &format!("trace={syscall}"), "-e", &inject];
    let strace: Vec<String> = strace.iter().map(|word| (*word).to_owned()).collect();
    let output = rig.command_under(&strace, &START).output().unwrap();
    let is_killed = output.status.signal() == Some(9);
    assert!(is_killed || output.status.success(), "{syscall} {nth}: {}", told(&output));
    let nights = rig.json(&["overnight", "list", "--json"]);
    match nights.as_array().unwrap().first() {
        Some(night) => drop(rig.says(&["overnight", "resume", night["id"].as_str().unwrap()])),
        // It was killed before there was one.
        None => drop(rig.says(&START)),
    }
    assert_eq!(end_of(&rig), *expected, "after a kill at {syscall} {nth}");
    is_killed
}

/// What a kill must not change.
#[derive(Debug, PartialEq)]
struct End {
    night: Value,
    report: String,
    /// Every run: its name, status, turns and calls.
    runs: Vec<Value>,
    /// What stands in the files of the first experiment.
    score: String,
}

fn end_of(rig: &Rig) -> End {
    let night = rig.json(&["overnight", "status", "--json"]);
    let id = night["id"].as_str().unwrap().to_owned();
    let experiments: Vec<Value> = night["experiments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| json!([one["idea"]["title"], one["verdict"], one["outcome"]["spent"]["cost"]]))
        .collect();
    let told =
        json!([night["phase"], night["ranking"], night["misfits"], night["spent"]["cost"], experiments]);
    let runs = rig.json(&["list", "--json"]);
    let mut runs: Vec<Value> = runs.as_array().unwrap().iter().map(|run| of(rig, run, &id)).collect();
    runs.sort_by_key(Value::to_string);
    let score = fs::read_to_string(rig.state_dir.join(format!("workspace/run/{id}-1/score"))).unwrap();
    End { night: told, report: report(rig, &id), runs, score }
}

/// The report without names of the night and of places, and without how long it took.
fn report(rig: &Rig, night: &str) -> String {
    let short = &night[night.len() - 6..];
    let place = rig.path().display().to_string();
    let file = rig.state_dir.join("overnight").join(night).join("report.md");
    let text = fs::read_to_string(file).unwrap();
    let text = text.replace(night, "NIGHT").replace(short, "NIGHT").replace(&place, "");
    let is_timeless = |line: &&str| !line.contains(" worked for ") && !line.starts_with("- Cost: ");
    text.lines().filter(is_timeless).collect::<Vec<_>>().join("\n")
}

fn of(rig: &Rig, run: &Value, night: &str) -> Value {
    let id = run["id"].as_str().unwrap();
    rig.says(&["store", "verify", id]);
    let shown = rig.json(&["show", id, "--json"]);
    json!([
        id.replace(night, ""),
        run["status"],
        shown["turnCount"],
        shown["toolCallCount"],
        shown["usage"]["cost"]
    ])
}

/// A repository whose score is 10. The same commit every time, because the same report is expected.
fn repository() -> Rig {
    let rig = Rig::new().in_project();
    rig.script(SCRIPT);
    for (name, text) in [("score", "10\n"), ("ok", ""), (".gitignore", "script.yaml\n.longhaul\n")] {
        fs::write(rig.work().join(name), text).unwrap();
    }
    for args in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "first"]] {
        let who = ["-c", "user.name=x", "-c", "user.email=x@x"];
        let when = "2026-01-01T00:00:00Z";
        let mut git = Command::new("git");
        git.args(who)
            .args(args)
            .current_dir(rig.work())
            .env("GIT_AUTHOR_DATE", when)
            .env("GIT_COMMITTER_DATE", when);
        assert!(git.status().unwrap().success(), "{args:?}");
    }
    rig
}
