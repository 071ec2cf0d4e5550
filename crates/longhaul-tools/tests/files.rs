//! `read`, `write` and `edit`: what they show, what they refuse, and what a crash leaves.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod fixture;

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use fixture::{Fixture, done, failure};
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, ToolGrant};
use longhaul_workspace::{ABSENT, Guard, Workspace, digest_of};
use serde_json::{Value, json};

#[tokio::test]
async fn read_numbers_lines_and_says_how_to_go_on() {
    let fixture = Fixture::new();
    fs::write(fixture.path("file"), "one\ntwo\r\nthree\nfour").unwrap();
    fs::write(fixture.path("empty"), "").unwrap();
    let read = async |args: Value| fixture.run("read", &args).await;
    let tag = format!("[tag {}]\n", &digest_of(b"one\ntwo\r\nthree\nfour")[..10]);

    assert_eq!(
        done(&read(json!({ "path": "file" })).await),
        format!("     1\tone\n     2\ttwo\n     3\tthree\n     4\tfour\n{tag}")
    );
    assert_eq!(
        done(&read(json!({ "path": "file", "offset": 2, "limit": 2 })).await),
        format!(
            "     2\ttwo\n     3\tthree\n[lines 2 to 3 shown; the file has 19 bytes and goes on: read with offset 4]\n{tag}"
        )
    );
    assert_eq!(
        done(&read(json!({ "path": "file", "offset": 4, "limit": 1 })).await),
        format!("     4\tfour\n{tag}")
    );
    assert_eq!(done(&read(json!({ "path": "empty" })).await), "(the file is empty)");
    assert_eq!(
        failure(&read(json!({ "path": "file", "offset": 5 })).await),
        (Failure::InvalidArguments, "`offset` is 5, but `file` has 4 lines", "")
    );
    assert_eq!(
        failure(&read(json!({ "path": "file", "offset": 0 })).await).1,
        "`offset` counts lines from 1"
    );
}

/// A09: a path is the file of exactly that name, or refused; nothing of it is taken away, folded or read as something else.
#[tokio::test]
async fn odd_paths_are_literal_or_refused() {
    let fixture = Fixture::new();
    let before = names(&fixture);
    let write = async |path: &str| fixture.run("write", &json!({ "path": path, "content": path })).await;
    let long = format!("{}x", "x/".repeat(2500));
    for path in ["", ".", "./", "~", "nul\0byte", "slash/", long.as_str(), &"n".repeat(300)] {
        let outcome = write(path).await;
        assert!(matches!(outcome, Outcome::Failed { .. }), "{path:?}: {outcome:?}");
    }
    assert_eq!(names(&fixture), before, "nothing is half made");
    let odd = [
        "line\nbreak",
        "carriage\rreturn",
        "\u{1b}[2Jcleared",
        "space ",
        " space",
        "dot.",
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{202e}txt.exe",
        "-rf",
        "$HOME",
        "*",
        "file:x",
    ];
    for path in odd {
        done(&write(path).await);
    }
    for path in odd {
        assert_eq!(fs::read_to_string(fixture.path(path)).unwrap(), path, "{path:?}");
        assert!(done(&fixture.run("read", &json!({ "path": path })).await).contains("[tag "), "{path:?}");
    }
    assert_eq!(names(&fixture).len(), before.len() + odd.len(), "each is a file of its own");
}

fn names(fixture: &Fixture) -> Vec<std::ffi::OsString> {
    let found = fs::read_dir(fixture.path("")).unwrap();
    found.map(|entry| entry.unwrap().file_name()).collect()
}

#[tokio::test]
async fn read_refuses_what_is_no_text_file() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("directory")).unwrap();
    fs::write(fixture.path("binary"), b"ELF\0\x01").unwrap();
    let message =
        async |path: &str| failure(&fixture.run("read", &json!({ "path": path })).await).1.to_owned();
    assert_eq!(
        message("binary").await,
        "`binary` is binary (5 bytes); look at it with bash: file, xxd, strings"
    );
    assert_eq!(message("nothing").await, "`nothing` does not exist");
}

/// A PDF with these lines, one on each page.
fn pdf(lines: &[&str]) -> String {
    let kids: String = (0..lines.len()).map(|page| format!("{} 0 R ", 4 + 2 * page)).collect();
    let mut objects = vec![
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        format!("<< /Type /Pages /Kids [{kids}] /Count {} >>", lines.len()),
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>".to_owned(),
    ];
    for (page, line) in lines.iter().enumerate() {
        let drawn = format!("BT /F1 12 Tf 20 200 Td ({line}) Tj ET");
        objects.push(format!(
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 300 300] /Contents {} 0 R \
             /Resources << /Font << /F1 3 0 R >> >> >>",
            5 + 2 * page
        ));
        objects.push(format!("<< /Length {} >>\nstream\n{drawn}\nendstream", drawn.len()));
    }
    let objects = objects.iter().enumerate();
    let objects: String =
        objects.map(|(index, object)| format!("{} 0 obj\n{object}\nendobj\n", index + 1)).collect();
    format!("%PDF-1.4\n{objects}trailer << /Root 1 0 R >>\n")
}

/// D6.1: a PDF is shown as its text, in parts like any file; one that is broken, or has none, says so.
#[tokio::test]
async fn read_shows_the_text_of_a_pdf() {
    if std::process::Command::new("pdftotext").arg("-v").output().is_err() {
        return eprintln!("SKIP read_shows_the_text_of_a_pdf: needs pdftotext");
    }
    let fixture = Fixture::new();
    fs::write(fixture.path("paper.pdf"), pdf(&["First words", "Last words"])).unwrap();
    fs::write(fixture.path("scan.pdf"), pdf(&["", ""])).unwrap();
    fs::write(fixture.path("broken.pdf"), "%PDF-1.7\n").unwrap();
    let read = async |args| fixture.run("read", &args).await;
    let note = "[a PDF of 2 pages, shown as text]\n";
    let shown = read(json!({ "path": "paper.pdf" })).await;
    assert_eq!(
        done(&shown),
        format!("     1\t[page 1]\n     2\tFirst words\n     3\t[page 2]\n     4\tLast words\n{note}")
    );
    let part = read(json!({ "path": "paper.pdf", "offset": 4, "limit": 1 })).await;
    assert_eq!(done(&part), format!("     4\tLast words\n{note}"));
    let scan = read(json!({ "path": "scan.pdf" })).await;
    assert_eq!(failure(&scan).1, "`scan.pdf` is a PDF of 2 pages without text; look at it as an image");
    let broken = read(json!({ "path": "broken.pdf" })).await;
    assert!(
        failure(&broken).1.starts_with("`broken.pdf` is a PDF, and pdftotext failed (exit status: 1): "),
        "{broken:?}"
    );
}

/// D6.1: directories are listed, images shown, notebooks shown as their cells.
#[tokio::test]
async fn read_shows_what_is_no_plain_text() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.path("directory")).unwrap();
    fs::write(fixture.path("directory/file"), "x").unwrap();
    fs::write(fixture.path("picture"), b"GIF89a\x0a\0\x14\0\0\0\0;").unwrap();
    let notebook = json!({ "cells": [
        { "cell_type": "markdown", "source": ["# Title\n", "text"] },
        { "cell_type": "code", "source": "1 + 1", "outputs": [
            { "output_type": "stream", "text": ["printed\n"] },
            { "output_type": "execute_result", "data": { "text/plain": ["2"], "text/html": "<b>2</b>" } },
            { "output_type": "display_data", "data": { "image/png": "iVBORw0" } },
            { "output_type": "error", "ename": "NameError", "evalue": "x" },
        ] },
    ] });
    fs::write(fixture.path("work.ipynb"), notebook.to_string()).unwrap();
    fs::write(fixture.path("broken.ipynb"), "{").unwrap();
    let read = async |path: &str| done(&fixture.run("read", &json!({ "path": path })).await).to_owned();
    assert_eq!(read("directory").await, "`directory` is a directory:\nfile  1\n");
    assert_eq!(read("picture").await, "`picture` is an image: image/gif, 10×20, 14 bytes");
    assert!(read("broken.ipynb").await.starts_with("     1\t{\n[tag "));
    expect_test::expect![[r#"
             1	--- cell 1 (markdown)
             2	# Title
             3	text
             4	--- cell 2 (code)
             5	1 + 1
             6	--- output
             7	printed
             8	--- output
             9	2
            10	--- output
            11	(image/png)
            12	--- output
            13	NameError: x
        [a notebook, its cells shown as text; the file itself is JSON]
    "#]]
    .assert_eq(&read("work.ipynb").await);
}

/// D6.1, D6.4: what was too long for the conversation is paged through like a file.
#[tokio::test]
async fn read_pages_through_a_cut_output() {
    let fixture = Fixture::new();
    let outcome = fixture.run("bash", &json!({ "command": "seq 1 20000" })).await;
    let text = done(&outcome);
    let (_, rest) = text.split_once("read blob:").unwrap();
    let hash = rest.split_once(' ').unwrap().0;
    let args = json!({ "path": format!("blob:{hash}"), "offset": 9999, "limit": 2 });
    let outcome = fixture.run("read", &args).await;
    assert!(
        done(&outcome).starts_with("  9999\t9999\n 10000\t10000\n[lines 9999 to 10000 shown; "),
        "{outcome:?}"
    );
    let outcome = fixture.run("read", &json!({ "path": "blob:../../journal" })).await;
    assert_eq!(failure(&outcome).0, Failure::InvalidArguments);
    let outcome = fixture.run("read", &json!({ "path": format!("blob:{}", "0".repeat(64)) })).await;
    assert!(failure(&outcome).1.starts_with("cannot read the blob: "), "{outcome:?}");
}

/// F42: a file of a gigabyte, in one line or in many, is read in bounded memory and with a bounded result.
#[tokio::test]
async fn read_takes_bounded_memory_for_huge_files() {
    let fixture = Fixture::new();
    let line = "x".repeat(199) + "\n";
    fs::write(fixture.path("many"), line.repeat(500_000)).unwrap();
    let one = fs::File::create(fixture.path("one")).unwrap();
    fs::write(fixture.path("one"), "start ".repeat(2000)).unwrap();
    one.set_len(1 << 30).unwrap();
    let before = resident_bytes();

    let outcome = fixture.run("read", &json!({ "path": "many", "offset": 499_000 })).await;
    let text = done(&outcome);
    assert!(text.len() <= 16 * 1024 && text.starts_with("499000\txxx"), "{}", text.len());
    assert!(text.ends_with("goes on: read with offset 499076]\n"), "{}", &text[text.len() - 100..]);
    let outcome = fixture.run("read", &json!({ "path": "one" })).await;
    let text = done(&outcome);
    assert!(
        text.contains("[line clipped: more than 1048576 bytes]\n[lines 1 to 1 shown; ") && text.len() < 2200,
        "{}",
        text.len()
    );

    assert!(resident_bytes().saturating_sub(before) < 64 << 20);
}

#[tokio::test]
async fn read_stops_when_told_or_out_of_time() {
    let mut fixture = Fixture::new();
    fs::write(fixture.path("file"), "x").unwrap();
    fixture.context.timeout = Duration::ZERO;
    assert_eq!(failure(&fixture.run("read", &json!({ "path": "file" })).await).0, Failure::Timeout);
    fixture.switch.cancel();
    assert_eq!(failure(&fixture.run("read", &json!({ "path": "file" })).await).0, Failure::Cancelled);
}

#[tokio::test]
async fn bad_arguments_are_named() {
    let fixture = Fixture::new();
    let cases = [
        ("read", json!({}), "`path` is missing; expected "),
        ("read", json!({ "path": 3 }), "`path` must be string, not 3; expected "),
        (
            "read",
            json!({ "path": "a", "offset": "1" }),
            "`offset` must be integer or null, not \"1\"; expected ",
        ),
        ("read", json!({ "path": "a", "limit": -1 }), "`limit` must be integer or null, not -1; expected "),
        ("read", json!(["a"]), "the arguments are not a JSON object; expected "),
        ("write", json!({ "path": "a" }), "`content` is missing; expected "),
        (
            "write",
            json!({ "path": "a", "content": "", "mode": 1 }),
            "`mode` is not an argument of this tool; ",
        ),
        ("write", json!({ "path": "", "content": "" }), "the path is empty; "),
        ("edit", json!({ "path": "a", "old": "x", "new": "x" }), "`old` and `new` are the same; "),
        ("edit", json!({ "path": "a", "old": "", "new": "x" }), "`old` is empty; "),
        ("bash", json!({ "command": " " }), "`command` is empty; "),
        ("bash", json!({ "command": "a\0b" }), "`command` contains a NUL"),
        ("bash", json!({ "command": "x", "timeout_ms": 600_001 }), "`timeout_ms` must be from 1 to 600000"),
    ];
    for (tool, args, expected) in cases {
        let outcome = fixture.run(tool, &args).await;
        let (kind, message, _) = failure(&outcome);
        assert_eq!(kind, Failure::InvalidArguments, "{tool} {args}: {message}");
        assert!(message.starts_with(expected), "{tool} {args}: {message}");
    }
    let outcome = fixture.run("read", &json!({})).await;
    assert!(
        failure(&outcome)
            .1
            .ends_with("expected limit (integer, optional), offset (integer, optional), path (string)"),
        "{outcome:?}"
    );
}

/// Escapes are refused by every file tool, and nothing outside changes.
#[tokio::test]
async fn file_tools_stay_inside() {
    let fixture = Fixture::new();
    fs::write(fixture.outer.path().join("secret"), "secret").unwrap();
    symlink("../secret", fixture.path("link")).unwrap();
    symlink("..", fixture.path("up")).unwrap();
    let absolute = fixture.outer.path().join("secret").display().to_string();
    for path in ["../secret", &absolute, "link", "up/secret", "up/new", "/dev/zero", "../root2/x"] {
        for (tool, args) in [
            ("read", json!({ "path": path })),
            ("write", json!({ "path": path, "content": "x" })),
            ("edit", json!({ "path": path, "old": "secret", "new": "x" })),
        ] {
            let outcome = fixture.run(tool, &args).await;
            assert_eq!(failure(&outcome).0, Failure::NotPermitted, "{tool} {path}: {outcome:?}");
            if tool != "read" {
                assert!(fixture.prepare(tool, &args).await.is_err(), "{tool} {path}");
            }
        }
    }
    assert_eq!(fs::read_to_string(fixture.outer.path().join("secret")).unwrap(), "secret");
    assert_eq!(fs::read_dir(fixture.outer.path()).unwrap().count(), 2);
}

/// D6.2: directories on the way are made.
#[tokio::test]
async fn write_creates_and_replaces() {
    let fixture = Fixture::new();
    let args = json!({ "path": "a/b/file", "content": "hello" });
    let trace = fixture.prepare("write", &args).await.unwrap();
    assert_eq!((trace.target.as_str(), trace.before.as_str()), ("a/b/file", ABSENT));
    assert_eq!(trace.after, digest_of(b"hello"));
    assert!(fixture.names().is_empty());
    let tag = &digest_of(b"hello")[..10];
    let expected = format!("wrote 5 bytes to a/b/file (tag {tag})");
    assert_eq!(done(&fixture.run_traced("write", &args, &trace).await), expected);
    assert_eq!(fs::read(fixture.path("a/b/file")).unwrap(), b"hello");
    assert_eq!(fs::read_dir(fixture.path("a/b")).unwrap().count(), 1);
}

#[tokio::test]
async fn edit_says_why_it_found_nothing_or_too_much() {
    let fixture = Fixture::new();
    let code = "fn main() {\n    let count = 1;\n    print(count);\n}\nfn other() {\n    let count = 2;\n}\n";
    fs::write(fixture.path("code"), code).unwrap();
    fs::write(fixture.path("mixed"), "a\r\nb\r\nc\n").unwrap();
    fs::write(fixture.path("latin"), b"caf\xe9").unwrap();
    let message = async |path: &str, old: &str| {
        let args = json!({ "path": path, "old": old, "new": "NEW" });
        let outcome = fixture.run("edit", &args).await;
        assert_eq!(fixture.prepare("edit", &args).await, Err(outcome.clone()));
        failure(&outcome).1.to_owned()
    };
    assert_eq!(
        message("code", "let count").await,
        "`old` occurs 2 times, at lines 2, 6; add lines around it until it occurs once, or set replace_all"
    );
    assert_eq!(
        message("code", "let counts = 1;").await,
        "`old` does not occur in `code`; the closest to its first line:\n     2\t    let count = 1;\n     6\t    let count = 2;"
    );
    assert_eq!(
        message("code", "zebra").await,
        "`old` does not occur in `code`; nothing in it is similar. Read the file again"
    );
    assert!(message("mixed", "a\nb").await.contains("its lines end with \\r\\n, those in `old` with \\n"));
    assert_eq!(message("latin", "caf").await, "`latin` is not UTF-8 text; change it with bash");
    assert_eq!(message("missing", "x").await, "`missing` does not exist");
    fs::write(fixture.path("overlap"), "aaa").unwrap();
    assert!(message("overlap", "aa").await.starts_with("`old` occurs 2 times"));
    assert_eq!(fs::read_to_string(fixture.path("code")).unwrap(), code);
}

/// D6.2: where all lines end with `\r\n`, which `read` does not show, those of an edit do too.
#[tokio::test]
async fn an_edit_has_the_line_breaks_of_its_file() {
    let fixture = Fixture::new();
    fs::write(fixture.path("file"), "a\r\nb\r\nc\r\n").unwrap();
    let edit = json!({ "path": "file", "old": "a\nb\n", "new": "x\ny\nz\n" });
    done(&fixture.run("edit", &edit).await);
    let edit = json!({ "path": "file", "old": "z\r\nc", "new": "last\n" });
    done(&fixture.run("edit", &edit).await);
    assert_eq!(fs::read(fixture.path("file")).unwrap(), b"x\r\ny\r\nlast\n\r\n");
}

/// D6.2, A13: also a file that is read in pieces has a tag, and is not edited if it is no longer as it was.
#[tokio::test]
async fn a_large_file_that_has_changed_is_not_edited() {
    let fixture = Fixture::new();
    let text = |first: &str| format!("{first}\n{}", "0123456789\n".repeat(500_000));
    fs::write(fixture.path("large"), text("one")).unwrap();
    let page = json!({ "path": "large", "limit": 1 });
    let shown = done(&fixture.run("read", &page).await).to_owned();
    let tag = &digest_of(text("one").as_bytes())[..10];
    assert!(shown.starts_with("     1\tone\n") && shown.ends_with(&format!("[tag {tag}]\n")), "{shown}");
    fs::write(fixture.path("large"), text("two")).unwrap();
    let edit = |expect: &str| json!({ "path": "large", "old": "two", "new": "three", "expect": expect });
    assert!(failure(&fixture.run("edit", &edit(tag)).await).1.contains("has changed since it was read"));
    done(&fixture.run("edit", &edit(&digest_of(text("two").as_bytes())[..10])).await);
}

#[tokio::test]
async fn edit_replaces_one_or_all() {
    let fixture = Fixture::new();
    fs::write(fixture.path("file"), "a b\na\n").unwrap();
    let one = fixture.run("edit", &json!({ "path": "file", "old": "b", "new": "c" })).await;
    assert_eq!(
        done(&one),
        format!("edited file: replaced 1 piece, at line 1 (tag {})", &digest_of(b"a c\na\n")[..10])
    );
    let all = json!({ "path": "file", "old": "a", "new": "x\ny", "replace_all": true });
    assert_eq!(
        done(&fixture.run("edit", &all).await),
        format!(
            "edited file: replaced 2 pieces, at lines 1, 2 (tag {})",
            &digest_of(b"x\ny c\nx\ny\n")[..10]
        )
    );
    assert_eq!(fs::read_to_string(fixture.path("file")).unwrap(), "x\ny c\nx\ny\n");
}

/// D6.3: several edits of one call are made in order, all of them or none.
#[tokio::test]
async fn edit_makes_several_replacements_or_none() {
    let fixture = Fixture::new();
    fs::write(fixture.path("file"), "one\ntwo\nthree\ntwo\n").unwrap();
    let edit = async |edits: Value| fixture.run("edit", &json!({ "path": "file", "edits": edits })).await;
    let outcome = edit(json!([{ "old": "one", "new": "1" }, { "old": "two", "new": "2" }])).await;
    assert_eq!(
        failure(&outcome).1,
        "edit 2 of 2: `old` occurs 2 times, at lines 2, 4; add lines around it until it occurs once, or set replace_all"
    );
    assert_eq!(fs::read_to_string(fixture.path("file")).unwrap(), "one\ntwo\nthree\ntwo\n");
    let edits = json!([
        { "old": "one", "new": "1" },
        { "old": "1\ntwo", "new": "1\n2" },
        { "old": "e", "new": "E", "replace_all": true }
    ]);
    let args = json!({ "path": "file", "edits": edits });
    let trace = fixture.prepare("edit", &args).await.unwrap();
    assert_eq!(fixture.check("edit", &args, &trace).await, Found::NotDone);
    let outcome = fixture.run_traced("edit", &args, &trace).await;
    assert!(
        done(&outcome).starts_with("edited file: replaced 4 pieces, at lines 1, 1, 3, 3 (tag "),
        "{outcome:?}"
    );
    assert_eq!(fixture.check("edit", &args, &trace).await, Found::Done);
    assert_eq!(fs::read_to_string(fixture.path("file")).unwrap(), "1\n2\nthrEE\ntwo\n");
    let undone = edit(json!([{ "old": "two", "new": "x" }, { "old": "x", "new": "two" }])).await;
    assert_eq!(failure(&undone).1, "the edits undo each other; nothing would change");
    for (args, expected) in [
        (json!({ "edits": [] }), "`edits` must have from 1 to 100 entries"),
        (
            json!({ "edits": [], "old": "x" }),
            "give either `old`, `new` and `replace_all`, or `edits`, not both",
        ),
        (json!({ "old": "x" }), "`new` is missing; "),
        (json!({}), "`old` and `new` are missing, or else `edits`"),
        (json!({ "edits": [{ "old": "x" }] }), "missing field `new`"),
        (json!({ "edits": "x" }), "`edits` must be array or null, not \"x\""),
    ] {
        let mut args = args;
        args["path"] = json!("file");
        let outcome = fixture.run("edit", &args).await;
        assert!(failure(&outcome).1.starts_with(expected), "{outcome:?}");
    }
}

/// D6.3, A13: the tag that `read` shows tells whether the file is still what was read.
#[tokio::test]
async fn edit_refuses_a_file_that_changed_since_it_was_read() {
    let fixture = Fixture::new();
    fs::write(fixture.path("file"), "one\n").unwrap();
    let outcome = fixture.run("read", &json!({ "path": "file" })).await;
    let tag = done(&outcome).split_once("[tag ").unwrap().1.trim_end_matches("]\n").to_owned();
    let args = json!({ "path": "file", "old": "one", "new": "two", "expect": tag });
    fs::write(fixture.path("file"), "one, and more\n").unwrap();
    let refused = fixture.run("edit", &args).await;
    assert!(
        failure(&refused).1.starts_with("`file` has changed since it was read: its tag is "),
        "{refused:?}"
    );
    assert_eq!(fixture.prepare("edit", &args).await.unwrap_err(), refused);
    fs::write(fixture.path("file"), "one\n").unwrap();
    let outcome = fixture.run("edit", &args).await;
    let tag = done(&outcome).split_once("(tag ").unwrap().1.trim_end_matches(')').to_owned();
    done(&fixture.run("edit", &json!({ "path": "file", "old": "two", "new": "three", "expect": tag })).await);
}

/// D6.3: a near miss is shown with what differs, white space drawn.
#[tokio::test]
async fn edit_shows_what_was_probably_meant() {
    let fixture = Fixture::new();
    fs::write(fixture.path("code"), "fn main() {\n\tlet  a = 1;\n    call(a); \n}\nlast\n").unwrap();
    let message = async |old: &str| {
        let outcome = fixture.run("edit", &json!({ "path": "code", "old": old, "new": "NEW" })).await;
        failure(&outcome).1.to_owned()
    };
    expect_test::expect![[r#"
        `old` does not occur in `code`; lines 1 to 3 are the same but for white space (· is a space, → a tab):
             2 is	→let··a·=·1;
           not	····let·a·=·1;
             3 is	····call(a);·
           not	····call(a);"#]]
    .assert_eq(&message("fn main() {\n    let a = 1;\n    call(a);\n").await);
    expect_test::expect![[r#"
        `old` does not occur in `code`; lines 3 to 5 are the closest (· is a space, → a tab):
             3 is	····call(a);·
           not	····call(b);"#]]
    .assert_eq(&message("    call(b);\n}\nlast\n").await);
}

/// The two checkable tools with a call that turns "old" into "new".
fn changes() -> [(&'static str, Value); 2] {
    [
        ("write", json!({ "path": "file", "content": "new" })),
        ("edit", json!({ "path": "file", "old": "old", "new": "new" })),
    ]
}

/// Killed before anything, with the temporary file half or wholly written, after the rename, and with somebody else
/// having written in between.
#[tokio::test]
async fn a_change_is_recognised_after_a_crash_at_every_stage() {
    for (tool, args) in changes() {
        let fixture = Fixture::new();
        fs::write(fixture.path("file"), "old").unwrap();
        let trace = fixture.prepare(tool, &args).await.unwrap();
        let temporary = fixture.path(&format!(".longhaul-{}.tmp", fixture.context.key));
        let found = async || fixture.check(tool, &args, &trace).await;

        assert_eq!(found().await, Found::NotDone, "{tool} before anything");
        for half in ["", "ne", "new"] {
            fs::write(&temporary, half).unwrap();
            assert_eq!(found().await, Found::NotDone, "{tool} with {half:?} in the temporary file");
            assert_eq!(fixture.names(), ["file"]);
        }
        fs::write(&temporary, "new").unwrap();
        fs::rename(&temporary, fixture.path("file")).unwrap();
        assert_eq!(found().await, Found::Done, "{tool} after the rename");
        fs::write(fixture.path("file"), "other").unwrap();
        fs::write(&temporary, "ne").unwrap();
        assert_eq!(found().await, Found::Unknown, "{tool} after somebody else");
        assert_eq!(fixture.names(), ["file"]);
        fs::remove_file(fixture.path("file")).unwrap();
        assert_eq!(found().await, Found::Unknown, "{tool} after a removal");
        fs::remove_dir_all(fixture.path("")).unwrap();
        assert_eq!(found().await, Found::Unknown, "{tool} without a workspace");
    }
}

#[tokio::test]
async fn a_traced_change_overwrites_nobody_and_is_made_once() {
    for (tool, args) in changes() {
        let fixture = Fixture::new();
        fs::write(fixture.path("file"), "old").unwrap();
        let trace = fixture.prepare(tool, &args).await.unwrap();

        fs::write(fixture.path("file"), "old but changed").unwrap();
        let refused = fixture.run_traced(tool, &args, &trace).await;
        assert!(
            failure(&refused).1.starts_with("`file` was changed by somebody else"),
            "{tool}: {refused:?}"
        );
        assert_eq!(fs::read(fixture.path("file")).unwrap(), b"old but changed");

        fs::write(fixture.path("file"), "old").unwrap();
        done(&fixture.run_traced(tool, &args, &trace).await);
        assert_eq!(fs::read(fixture.path("file")).unwrap(), b"new");

        use std::os::unix::fs::MetadataExt;
        let inode = fs::metadata(fixture.path("file")).unwrap().ino();
        done(&fixture.run_traced(tool, &args, &trace).await);
        assert_eq!(fs::metadata(fixture.path("file")).unwrap().ino(), inode, "{tool} wrote again");
        assert_eq!(fixture.names(), ["file"]);
    }
}

/// D6.3: an edit that was computed when it was prepared asks the file again before it is made.
#[tokio::test]
async fn a_prepared_edit_overwrites_nobody() {
    use std::os::unix::fs::MetadataExt;
    let fixture = Fixture::new();
    let args = json!({ "path": "a/file", "old": "old", "new": "new" });
    fs::create_dir(fixture.path("a")).unwrap();
    let file = fixture.path("a/file");
    let prepared = async || {
        fs::write(&file, "an old text").unwrap();
        fixture.prepare("edit", &args).await.unwrap()
    };

    let trace = prepared().await;
    fs::write(&file, "an old text, changed").unwrap();
    let refused = fixture.run_traced("edit", &args, &trace).await;
    assert!(failure(&refused).1.starts_with("`a/file` was changed by somebody else"), "{refused:?}");
    assert_eq!(fs::read(&file).unwrap(), b"an old text, changed");

    let trace = prepared().await;
    fs::write(&file, "an new text").unwrap();
    let inode = fs::metadata(&file).unwrap().ino();
    done(&fixture.run_traced("edit", &args, &trace).await);
    assert_eq!(fs::metadata(&file).unwrap().ino(), inode, "what was there already was written again");

    let trace = prepared().await;
    fs::remove_dir_all(fixture.path("a")).unwrap();
    let refused = fixture.run_traced("edit", &args, &trace).await;
    assert!(failure(&refused).1.contains("a/file"), "{refused:?}");
    assert_eq!(fixture.names(), <[String; 0]>::default());

    fs::create_dir(fixture.path("a")).unwrap();
    let trace = prepared().await;
    // Another call is prepared in between, by the same tool.
    let other = json!({ "path": "a/file", "old": "text", "new": "word" });
    fixture.prepare("edit", &other).await.unwrap();
    done(&fixture.run_traced("edit", &args, &trace).await);
    assert_eq!(fs::read(&file).unwrap(), b"an new text");
}

#[tokio::test]
async fn a_new_file_is_recognised_after_a_crash() {
    let fixture = Fixture::new();
    let args = json!({ "path": "a/file", "content": "new" });
    let trace = fixture.prepare("write", &args).await.unwrap();
    assert_eq!(fixture.check("write", &args, &trace).await, Found::NotDone);
    fs::create_dir(fixture.path("a")).unwrap();
    assert_eq!(fixture.check("write", &args, &trace).await, Found::NotDone);
    fs::write(fixture.path("a/file"), "new").unwrap();
    assert_eq!(fixture.check("write", &args, &trace).await, Found::Done);
}

/// D11.7: all built-in tools are there without any tool server.
#[tokio::test]
async fn the_toolbox_grants_what_it_has() {
    let fixture = Fixture::new();
    let names = [
        "apply_patch",
        "ask_human",
        "bash",
        "bash_kill",
        "bash_output",
        "edit",
        "fetch",
        "finalize_research",
        "git_add",
        "git_blame",
        "git_branch",
        "git_commit",
        "git_diff",
        "git_log",
        "git_push",
        "git_show",
        "git_status",
        "glob",
        "grep",
        "handoff",
        "list",
        "read",
        "spawn",
        "todo",
        "write",
    ];
    assert_eq!(fixture.toolbox.names(), names);
    let grant = |name: &str, class| ToolGrant { name: name.to_owned(), class, ask: None };
    assert_eq!(
        fixture.toolbox.grants(&["write", "read", "bash"]).unwrap(),
        [
            grant("write", EffectClass::Checkable),
            grant("read", EffectClass::Repeatable),
            grant("bash", EffectClass::Once)
        ]
    );
    assert_eq!(
        fixture.toolbox.grants(&["teleport"]).unwrap_err().to_string(),
        format!("there is no tool `teleport`; there are: {}", names.join(", "))
    );
}

/// D6.9: other harnesses' names are understood, and the tool's own name is what is granted, once.
#[tokio::test]
async fn aliases_lead_to_the_same_tools() {
    let fixture = Fixture::new();
    let toolbox = &fixture.toolbox;
    let granted = |names: &[&str]| {
        let grants = toolbox.grants(names).unwrap();
        grants.into_iter().map(|grant| grant.name).collect::<Vec<_>>()
    };
    assert_eq!(granted(&["read_file", "write_file", "read"]), ["read", "write"]);
    assert_eq!(granted(&["Read", "Edit_File", "list_files", "search"]), ["read", "edit", "list", "grep"]);
    assert_eq!((toolbox.canonical("ls"), toolbox.canonical("teleport")), ("list", "teleport"));
    assert!(toolbox.get("shell").is_some() && toolbox.get("constructor").is_none());
    assert_eq!(longhaul_tools::Toolbox::default().canonical("read_file"), "read_file");
}

/// The list is what was sent, drawn; nothing is remembered.
#[tokio::test]
async fn todo_draws_the_list() {
    let fixture = Fixture::new();
    let items = json!([
        { "text": "look", "status": "done" },
        { "text": "change\n  it", "status": "active" },
        { "text": "test", "status": "pending" },
    ]);
    let todo = async |items: Value| fixture.run("todo", &json!({ "items": items })).await;
    assert_eq!(done(&todo(items).await), "[x] look\n[>] change it\n[ ] test\n[1 of 3 done]\n");
    assert_eq!(done(&todo(json!([])).await), "the list is empty\n");
    let bad = todo(json!([{ "text": "x", "status": "maybe" }])).await;
    assert!(failure(&bad).1.starts_with("unknown variant `maybe`"), "{bad:?}");
    let many = json!(vec![json!({ "text": "x".repeat(500), "status": "pending" }); 100]);
    assert!(done(&todo(many).await).len() < 16 * 1024);
    assert_eq!(fixture.tool("todo").spec().class, EffectClass::Repeatable);
}

/// What the model sees of the tools.
#[test]
fn schemas_are_plain() {
    let fixture = Fixture::new();
    let schema = fixture.tool("edit").spec().schema.clone();
    expect_test::expect![[r#"
        {
          "additionalProperties": false,
          "properties": {
            "edits": {
              "description": "Several replacements, made in this order, all or none; instead of old and new.",
              "items": {
                "additionalProperties": false,
                "properties": {
                  "new": {
                    "description": "The text to put in its place.",
                    "type": "string"
                  },
                  "old": {
                    "description": "The exact text to replace.",
                    "type": "string"
                  },
                  "replace_all": {
                    "default": false,
                    "description": "Replace every occurrence. Default: false.",
                    "type": "boolean"
                  }
                },
                "required": [
                  "old",
                  "new"
                ],
                "type": "object"
              },
              "type": [
                "array",
                "null"
              ]
            },
            "expect": {
              "description": "The tag that read showed: the edit is refused if the file has changed since. Default: the last that was shown.",
              "type": [
                "string",
                "null"
              ]
            },
            "new": {
              "description": "The text to put in its place.",
              "type": [
                "string",
                "null"
              ]
            },
            "old": {
              "description": "The exact text to replace, with its white space and line breaks.",
              "type": [
                "string",
                "null"
              ]
            },
            "path": {
              "description": "Path of the file, relative to the workspace.",
              "type": "string"
            },
            "replace_all": {
              "default": false,
              "description": "Replace every occurrence instead of exactly one. Default: false.",
              "type": "boolean"
            }
          },
          "required": [
            "path"
          ],
          "type": "object"
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&schema).unwrap());
}

fn resident_bytes() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    statm.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

/// A11, A12, A60, A71: what is the harness's or git's own is left alone, also when a link leads there; the control is the
/// same without a guard. A state directory is known by where it is, whatever its name.
#[tokio::test]
async fn guarded_places_are_left_alone() {
    let mut fixture = Fixture::new();
    for directory in ["kept/runs/x/inbox", ".git/hooks", "sub/.git"] {
        fs::create_dir_all(fixture.path(directory)).unwrap();
    }
    fs::write(fixture.path("kept/runs/x/journal"), "CANARY").unwrap();
    symlink("kept/runs", fixture.path("state")).unwrap();
    symlink(".git/hooks", fixture.path("hooks")).unwrap();
    symlink("../longhaul.yaml", fixture.path("sub/settings")).unwrap();
    let written = [
        "kept/runs/x/inbox/forged",
        "state/x/inbox/forged",
        "sub/../kept/new/forged",
        ".git/hooks/pre-commit",
        "hooks/pre-commit",
        ".git/new/file",
        "sub/.git/config",
        "longhaul.yaml",
        "sub/settings",
    ];
    let hidden = ["kept/runs/x/journal", "state/x/journal"];
    let unguarded = fixture.run("read", &json!({ "path": hidden[1] })).await;
    assert!(done(&unguarded).contains("CANARY"));
    let search = json!({ "pattern": "CANARY" });
    assert!(done(&fixture.run("grep", &search).await).contains("kept/runs/x/journal"));

    let root = fixture.path("");
    let root = root.canonicalize().unwrap();
    let guard = Guard { hidden: vec![root.join("kept")], read_only: vec![root.join("longhaul.yaml")] };
    fixture.context.workspace = Workspace::open(&root).unwrap().guarded(guard).into();
    for path in hidden {
        assert_eq!(
            failure(&fixture.run("read", &json!({ "path": path })).await).0,
            Failure::NotPermitted,
            "{path}"
        );
    }
    let found = fixture.run("grep", &search).await;
    assert!(!done(&found).contains("journal"), "{found:?}");
    for path in written {
        let outcome = fixture.run("write", &json!({ "path": path, "content": "x" })).await;
        assert_eq!(failure(&outcome).0, Failure::NotPermitted, "{path}");
    }
    assert!(!fixture.path(".git/new").exists() && !fixture.path("kept/new").exists());
    assert!(fixture.run("write", &json!({ "path": ".gitignore", "content": "x" })).await.is_done());
}

/// A60: a link in the workspace leads around no rule: what is denied or asked about is refused by its other name too, also where
/// nothing is yet.
#[tokio::test]
async fn a_link_leads_around_no_rule() {
    use longhaul_core::permission::{Action, Permissions, Rules};
    let mut fixture = Fixture::new();
    let secret =
        |action| Rules([(".env".to_owned(), action), ("hidden/**".to_owned(), action)].into_iter().collect());
    let rules = [("read", Action::Deny), ("write", Action::Ask), ("edit", Action::Ask)];
    let rules = rules.map(|(section, action)| (section.to_owned(), secret(action)));
    fs::create_dir(fixture.path("hidden")).unwrap();
    fs::write(fixture.path("hidden/a"), "SECRET\n").unwrap();
    fs::write(fixture.path(".env"), "SECRET\n").unwrap();
    fs::write(fixture.path("open"), "SECRET\n").unwrap();
    for (target, link) in [(".env", "link"), ("hidden", "in"), ("hidden/none/x", "new"), ("open", "fine")] {
        symlink(target, fixture.path(link)).unwrap();
    }
    let calls = [
        ("read", json!({ "path": "link" })),
        ("read", json!({ "path": "in/a" })),
        ("grep", json!({ "path": "link", "pattern": "SECRET" })),
        ("grep", json!({ "path": "in", "pattern": "SECRET" })),
        ("write", json!({ "path": "link", "content": "x" })),
        ("write", json!({ "path": "in/deep/b", "content": "x" })),
        ("write", json!({ "path": "new", "content": "x" })),
        ("edit", json!({ "path": "link", "old": "SECRET", "new": "x" })),
        (
            "apply_patch",
            json!({ "patch": "*** Begin Patch\n*** Update File: link\n@@\n-SECRET\n+x\n*** End Patch\n" }),
        ),
    ];
    let control = fixture.run("read", &json!({ "path": "link" })).await;
    assert!(done(&control).contains("SECRET"), "void: it cannot be read at all");
    fixture.context.rules = std::sync::Arc::from([Permissions(rules.into_iter().collect())]);
    for (tool, args) in calls {
        let outcome = fixture.run(tool, &args).await;
        let text = format!("{outcome:?}");
        assert!(!text.contains("SECRET\\n") && !text.contains("1\\tSECRET"), "{tool} {args}: {text}");
        assert!(text.contains("is a link to") || text.contains("nothing matches"), "{tool} {args}: {text}");
    }
    assert_eq!(fs::read_to_string(fixture.path(".env")).unwrap(), "SECRET\n");
    assert!(!fixture.path("hidden/deep").exists() && !fixture.path("hidden/none").exists());
    assert!(done(&fixture.run("read", &json!({ "path": "fine" })).await).contains("SECRET"));
}

/// An edit without a tag is of the file as it was last seen.
#[tokio::test]
async fn a_file_that_changed_since_it_was_seen_is_not_edited() {
    let mut fixture = Fixture::new();
    fs::write(fixture.path("a"), "one\n").unwrap();
    let args = json!({ "path": "a", "old": "one", "new": "two" });
    fixture.context.seen = Some(digest_of(b"one\n")[..10].to_owned());
    fs::write(fixture.path("a"), "one\nmore\n").unwrap();
    let outcome = fixture.prepare("edit", &args).await.unwrap_err();
    assert!(failure(&outcome).1.contains("has changed since it was read"), "{outcome:?}");
    fixture.context.seen = Some(digest_of(b"one\nmore\n")[..10].to_owned());
    assert!(fixture.prepare("edit", &args).await.is_ok());
}
