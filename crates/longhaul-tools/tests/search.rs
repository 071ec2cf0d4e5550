//! `glob`, `grep` and `list`: what they find, what they leave out and say so, and what they refuse.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod fixture;

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, SystemTime};

use expect_test::{Expect, expect};
use fixture::{Fixture, done, failure};
use longhaul_core::tool::{EffectClass, Failure};
use serde_json::{Value, json};

/// A small project, with an ignore file, hidden files, a binary one and links that lead in, out and in circles.
fn project() -> Fixture {
    let fixture = Fixture::new();
    let secret = fixture.outer.path().join("outside");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("secret.rs"), "fn needle() {}\n").unwrap();
    let files = [
        (".gitignore", "target/\n*.log\n!keep.log\n"),
        (".hidden/deep.rs", "fn needle() {}\n"),
        (".git/config.rs", "fn needle() {}\n"),
        (".longhaul/runs/journal.rs", "fn needle() {}\n"),
        ("target/made.rs", "fn needle() {}\n"),
        ("a.log", "needle\n"),
        ("keep.log", "needle\n"),
        ("src/lib.rs", "//! One.\nfn needle() {}\nfn other() {}\n\nfn Needle() {}\n"),
        ("src/deep/mod.rs", "fn main() {\n    needle();\n}\n"),
        ("src/deep/.gitignore", "skipped.rs\n"),
        ("src/deep/skipped.rs", "fn needle() {}\n"),
        ("notes.md", "a needle\r\nin hay\r\n"),
        ("binary.rs", "needle\n\0\n"),
    ];
    for (path, text) in files {
        fs::create_dir_all(fixture.path(path).parent().unwrap()).unwrap();
        fs::write(fixture.path(path), text).unwrap();
    }
    symlink("../outside", fixture.path("out")).unwrap();
    symlink("../outside/secret.rs", fixture.path("src/secret.rs")).unwrap();
    symlink(".", fixture.path("circle")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, fixture.path("src/pipe.rs"), 0o600.into()).unwrap();
    fixture
}

async fn check(fixture: &Fixture, tool: &str, args: Value, expected: Expect) {
    let outcome = fixture.run(tool, &args).await;
    expected.assert_eq(&outcome.for_model());
}

/// D6.5: paths by pattern, with hidden and ignored ones only when asked for, and nothing of `.git` or the state.
#[tokio::test]
async fn glob_finds_paths() {
    let fixture = project();
    let glob = async |args: Value, expected: Expect| check(&fixture, "glob", args, expected).await;
    glob(
        json!({ "pattern": "**/*.rs", "order": "path" }),
        expect![[r#"
        binary.rs
        src/deep/mod.rs
        src/lib.rs
        src/secret.rs
    "#]],
    )
    .await;
    glob(
        json!({ "pattern": "*.log", "order": "path" }),
        expect![[r#"
        keep.log
    "#]],
    )
    .await;
    glob(
        json!({ "pattern": "*.rs", "order": "path", "hidden": true, "ignored": true }),
        expect![[r#"
        .hidden/deep.rs
        binary.rs
        src/deep/mod.rs
        src/deep/skipped.rs
        src/lib.rs
        src/secret.rs
        target/made.rs
    "#]],
    )
    .await;
    glob(
        json!({ "pattern": ".hidden/*" }),
        expect![[r#"
        .hidden/deep.rs
    "#]],
    )
    .await;
    glob(
        json!({ "pattern": "target/*" }),
        expect![[r#"
        target/made.rs
    "#]],
    )
    .await;
    glob(
        json!({ "pattern": "**/*.rs", "order": "path", "limit": 1 }),
        expect![[r#"
        binary.rs
        [3 more; narrow the pattern or raise limit]
    "#]],
    )
    .await;
    glob(
        json!({ "pattern": "nothing/*.zig" }),
        expect![[r#"
        no file matches `nothing/*.zig` (what .gitignore names was left out)
    "#]],
    )
    .await;
    glob(
        json!({ "pattern": "circle/circle/src/*.rs", "order": "path" }),
        expect![[r#"
            circle/circle/src/lib.rs
            circle/circle/src/secret.rs
        "#]],
    )
    .await;
}

/// D6.5: the newest file comes first.
#[tokio::test]
async fn glob_shows_the_newest_first() {
    let fixture = Fixture::new();
    for (name, age) in [("old", 300), ("new", 1), ("older", 900)] {
        let file = fs::File::create(fixture.path(name)).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
    }
    check(
        &fixture,
        "glob",
        json!({ "pattern": "*", "limit": 2 }),
        expect![[r#"
        new
        old
        [1 more; narrow the pattern or raise limit]
    "#]],
    )
    .await;
}

/// D6.6: lines with numbers and context, paths, counts; by name, kind and case; across lines.
#[tokio::test]
async fn grep_finds_lines() {
    let fixture = project();
    let grep = async |args: Value, expected: Expect| check(&fixture, "grep", args, expected).await;
    grep(
        json!({ "pattern": "needle" }),
        expect![[r#"
        keep.log
        1:needle

        notes.md
        1:a needle

        src/deep/mod.rs
        2:    needle();

        src/lib.rs
        2:fn needle() {}
    "#]],
    )
    .await;
    grep(
        json!({ "pattern": "fn n", "ignore_case": true, "context": 1, "path": "src", "type": "rust" }),
        expect![[r#"
        src/lib.rs
        1-//! One.
        2:fn needle() {}
        3-fn other() {}
        4-
        5:fn Needle() {}
    "#]],
    )
    .await;
    grep(
        json!({ "pattern": "needle", "mode": "files", "glob": "!*.md" }),
        expect![[r#"
        keep.log
        src/deep/mod.rs
        src/lib.rs
    "#]],
    )
    .await;
    grep(
        json!({ "pattern": "(?i)needle", "mode": "count", "glob": "src/**" }),
        expect![[r#"
        src/deep/mod.rs:1
        src/lib.rs:2
        [3 matching lines in all]
    "#]],
    )
    .await;
    grep(
        json!({ "pattern": "main.*needle", "multiline": true }),
        expect![[r#"
        src/deep/mod.rs
        1:fn main() {
        2:    needle();
    "#]],
    )
    .await;
    grep(
        json!({ "pattern": "needle()", "literal": true, "path": "src/lib.rs" }),
        expect![[r#"
        src/lib.rs
        2:fn needle() {}
    "#]],
    )
    .await;
    grep(
        json!({ "pattern": "needle", "limit": 1 }),
        expect![[r#"
        keep.log
        1:needle
        [3 more; 4 matching lines in 4 files in all]
    "#]],
    )
    .await;
    grep(
        json!({ "pattern": "needle", "limit": 3, "mode": "files" }),
        expect![[r#"
        keep.log
        notes.md
        src/deep/mod.rs
        [1 more files]
    "#]],
    )
    .await;
    grep(
        json!({ "pattern": "needle", "path": "binary.rs" }),
        expect![[r#"
        nothing matches `needle` (1 files searched, 1 binary ones left out)
    "#]],
    )
    .await;
}

/// D6.6, A17: a pattern is never an option, takes linear time, and a bad one is explained.
#[tokio::test]
async fn grep_takes_hostile_patterns() {
    let fixture = Fixture::new();
    fs::write(
        fixture.path("long"),
        "a".repeat(200_000) + "b\n" + &"x".repeat(5000) + "needle" + &"y".repeat(5000),
    )
    .unwrap();
    let grep = async |args: Value, expected: Expect| check(&fixture, "grep", args, expected).await;
    for pattern in ["(a+)+$", "-f/etc/passwd", "--pre=sh", "--hostname-bin=sh"] {
        let outcome = fixture.run("grep", &json!({ "pattern": pattern })).await;
        assert!(done(&outcome).starts_with("nothing matches"), "{outcome:?}");
    }
    let outcome = fixture.run("grep", &json!({ "pattern": "needle" })).await;
    let text = done(&outcome);
    assert!(
        text.contains("… xxxx")
            && text.contains("needleyyy")
            && text.ends_with("y … [line cut: 10006 bytes]\n"),
        "{text}"
    );
    assert!(text.len() < 500);
    grep(
        json!({ "pattern": "a(" }),
        expect![[r#"
            error (invalid_arguments): `pattern` cannot be used: regex parse error:
                (?:a()
                ^
            error: unclosed group; to look for plain text, set literal"#]],
    )
    .await;
    grep(json!({ "pattern": "a\\nb" }), expect![[r#"error (invalid_arguments): `pattern` cannot be used: the literal "\n" is not allowed in a regex; to match across lines, set multiline"#]]).await;
    grep(
        json!({ "pattern": "x", "type": "zebra" }),
        expect!["error (invalid_arguments): `type` zebra is not known; use glob instead, like `*.zebra`"],
    )
    .await;
    grep(json!({ "pattern": "x", "mode": "lines" }), expect![[r#"
        error (invalid_arguments): `mode` must be "content" or "files" or "count", not "lines"; expected context (integer, optional), glob (string, optional), hidden (boolean, optional), ignore_case (boolean, optional), ignored (boolean, optional), limit (integer, optional), literal (boolean, optional), mode (string, optional), multiline (boolean, optional), path (string, optional), pattern (string), type (string, optional)"#]]).await;
    for pattern in [&"x".repeat(10 << 20), "((a{100}){100}){100}", ""] {
        let outcome = fixture.run("grep", &json!({ "pattern": pattern })).await;
        assert_eq!(failure(&outcome).0, Failure::InvalidArguments, "{pattern:.20}");
    }
}

/// D6.5, D6.6, D8.3, A03, A16: no pattern and no link leads out of the workspace.
#[tokio::test]
async fn searching_stays_inside() {
    let fixture = project();
    let outside = fixture.outer.path().join("outside").display().to_string();
    for path in ["..", "../outside", "out", "src/secret.rs", "/", &outside, "out/secret.rs"] {
        for (tool, args) in [
            ("grep", json!({ "pattern": "needle", "path": path })),
            ("list", json!({ "path": path })),
            ("glob", json!({ "pattern": format!("{path}/*") })),
        ] {
            let outcome = fixture.run(tool, &args).await;
            let shown = outcome.for_model();
            assert!(!outcome.is_done() || shown.starts_with("no file matches"), "{tool} {path}: {outcome:?}");
            assert!(!shown.contains("fn needle"), "{tool} {path}");
        }
    }
    for pattern in ["/**", "../**", "src/../../**"] {
        let outcome = fixture.run("glob", &json!({ "pattern": pattern })).await;
        assert_eq!(failure(&outcome).0, Failure::NotPermitted, "{pattern}");
    }
}

/// D8.3: the harness's own state is neither listed nor searched, read or written, by whatever name.
#[tokio::test]
async fn the_state_directory_is_not_there() {
    let fixture = project();
    symlink(".longhaul", fixture.path("state")).unwrap();
    let state = ".longhaul/runs/journal.rs";
    for path in [
        state,
        "./.longhaul/runs/../runs/journal.rs",
        "state/runs/journal.rs",
        "circle/state/runs/journal.rs",
    ] {
        for (tool, args) in [
            ("read", json!({ "path": path })),
            ("write", json!({ "path": path, "content": "x" })),
            ("edit", json!({ "path": path, "old": "needle", "new": "x" })),
            ("grep", json!({ "path": path, "pattern": "needle" })),
            ("write", json!({ "path": format!("{path}.new/file"), "content": "x" })),
        ] {
            let outcome = fixture.run(tool, &args).await;
            assert_eq!(failure(&outcome).0, Failure::NotPermitted, "{tool} {path}: {outcome:?}");
        }
    }
    for path in [".longhaul", "state", "state/runs"] {
        let outcome = fixture.run("list", &json!({ "path": path })).await;
        assert_eq!(failure(&outcome).0, Failure::NotPermitted, "{path}");
        let outcome = fixture.run("glob", &json!({ "pattern": format!("{path}/**") })).await;
        assert_eq!(failure(&outcome).0, Failure::NotPermitted, "{path}");
    }
    assert_eq!(fs::read_to_string(fixture.path(state)).unwrap(), "fn needle() {}\n");
    assert_eq!(fs::read_dir(fixture.path(".longhaul/runs")).unwrap().count(), 1);
}

/// A60: nor is the state of another project, which may have any name: whoever writes there answers for a person.
#[tokio::test]
async fn the_state_of_another_project_is_not_there() {
    let fixture = project();
    fs::create_dir_all(fixture.path("other/st/runs/run_x/inbox")).unwrap();
    fs::write(fixture.path("other/st/owner"), "").unwrap();
    fs::write(fixture.path("other/st/runs/run_x/journal.rs"), "fn needle() {}\n").unwrap();
    symlink("st", fixture.path("other/link")).unwrap();
    for place in ["other/st", "other/link"] {
        for (tool, args) in [
            ("read", json!({ "path": format!("{place}/runs/run_x/journal.rs") })),
            ("write", json!({ "path": format!("{place}/runs/run_x/inbox/forged"), "content": "x" })),
            ("write", json!({ "path": format!("{place}/runs/run_y/inbox/forged"), "content": "x" })),
            ("list", json!({ "path": format!("{place}/runs") })),
        ] {
            let outcome = fixture.run(tool, &args).await;
            assert_eq!(failure(&outcome).0, Failure::NotPermitted, "{tool} {place}: {outcome:?}");
        }
    }
    let found = fixture.run("grep", &json!({ "pattern": "needle", "path": "other" })).await;
    assert!(!done(&found).contains("journal"), "{found:?}");
    assert_eq!(fs::read_dir(fixture.path("other/st/runs")).unwrap().count(), 1);
    assert_eq!(fs::read_dir(fixture.path("other/st/runs/run_x/inbox")).unwrap().count(), 0);
    let outcome = fixture.run("write", &json!({ "path": "other/mine", "content": "x" })).await;
    assert!(outcome.is_done(), "{outcome:?}");
}

/// A directory as it is, and a tree of those that are worth entering.
#[tokio::test]
async fn list_draws_directories() {
    let fixture = project();
    let list = async |args: Value, expected: Expect| check(&fixture, "list", args, expected).await;
    list(
        json!({}),
        expect![[r#"
        .git/
        .gitignore  24
        .hidden/
        a.log  7  (ignored)
        binary.rs  9
        circle -> .
        keep.log  7
        notes.md  18
        out -> ../outside
        src/
        target/  (ignored)
    "#]],
    )
    .await;
    list(
        json!({ "path": "src", "depth": 3 }),
        expect![[r#"
        deep/
          .gitignore  11
          mod.rs  28
          skipped.rs  15  (ignored)
        lib.rs  54
        pipe.rs  (a FIFO, a socket or a device)
        secret.rs -> ../outside/secret.rs
    "#]],
    )
    .await;
    list(
        json!({ "depth": 2, "limit": 3 }),
        expect![[r#"
        .git/
        .gitignore  24
        .hidden/
        [12 more entries; raise limit or list a part]
    "#]],
    )
    .await;
    list(
        json!({ "path": "notes.md" }),
        expect!["error (tool): `notes.md` cannot be reached: a part of the path is a file, not a directory"],
    )
    .await;
    list(json!({ "depth": 0 }), expect!["error (invalid_arguments): `depth` must be from 1 to 20"]).await;
}

/// What cannot be read is counted and named, and a result too long for the conversation is kept whole.
#[tokio::test]
async fn nothing_is_left_out_in_silence() {
    let fixture = Fixture::new();
    fs::write(fixture.path("big"), "found it, this line of the file\n".repeat(2000)).unwrap();
    fs::write(fixture.path("evil\nname"), "found").unwrap();
    fs::write(fixture.path(".ignore"), "#\n".repeat(600_000)).unwrap();
    let outcome = fixture.run("grep", &json!({ "pattern": "found" })).await;
    assert!(
        done(&outcome).contains("[not read: 1; ``: an ignore file of more than a megabyte]"),
        "{outcome:?}"
    );
    fs::remove_file(fixture.path(".ignore")).unwrap();

    let outcome = fixture.run("grep", &json!({ "pattern": "found", "limit": 1500 })).await;
    let text = done(&outcome);
    assert!(text.len() <= 16 * 1024 && text.starts_with("big\n1:found it"), "{}", text.len());
    assert!(text.contains("[output cut: "), "{text}");
    assert!(
        text.ends_with("[501 more; 2001 matching lines in 2 files in all]\n"),
        "{}",
        &text[text.len() - 100..]
    );
    let glob = fixture.run("glob", &json!({ "pattern": "*name" })).await;
    assert_eq!(done(&glob), "evil\u{FFFD}name\n");
}

/// Repository rules: nested repositories, deeper files and stronger kinds win, as in ripgrep.
#[tokio::test]
async fn ignore_files_weigh_as_in_ripgrep() {
    let fixture = Fixture::new();
    let files = [
        (".git/info/exclude", "excluded\n"),
        (".gitignore", "inner_only\n/anchored\n*.tmp\n"),
        (".ignore", "!special.tmp\n"),
        ("excluded", ""),
        ("anchored", ""),
        ("sub/anchored", ""),
        ("special.tmp", ""),
        ("plain.tmp", ""),
        ("sub/.gitignore", "!plain.tmp\n"),
        ("sub/plain.tmp", ""),
        ("nested/.git/HEAD", ""),
        ("nested/inner_only", ""),
        ("inner_only", ""),
    ];
    for (path, text) in files {
        fs::create_dir_all(fixture.path(path).parent().unwrap()).unwrap();
        fs::write(fixture.path(path), text).unwrap();
    }
    check(
        &fixture,
        "glob",
        json!({ "pattern": "**", "order": "path" }),
        expect![[r#"
        nested/inner_only
        special.tmp
        sub/anchored
        sub/plain.tmp
    "#]],
    )
    .await;
    check(
        &fixture,
        "glob",
        json!({ "pattern": "sub/**", "order": "path" }),
        expect![[r#"
        sub/anchored
        sub/plain.tmp
    "#]],
    )
    .await;
}

#[tokio::test]
async fn searching_stops_when_told_or_out_of_time() {
    let mut fixture = project();
    assert_eq!(fixture.tool("grep").spec().class, EffectClass::Repeatable);
    fixture.context.timeout = Duration::ZERO;
    let calls =
        [("grep", json!({ "pattern": "x" })), ("glob", json!({ "pattern": "*" })), ("list", json!({}))];
    for (tool, args) in &calls {
        assert_eq!(failure(&fixture.run(tool, args).await).0, Failure::Timeout, "{tool}");
    }
    fixture.switch.cancel();
    for (tool, args) in &calls {
        assert_eq!(failure(&fixture.run(tool, args).await).0, Failure::Cancelled, "{tool}");
    }
}
