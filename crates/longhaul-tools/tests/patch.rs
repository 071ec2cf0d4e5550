//! `apply_patch`: both spellings, what is refused, and what a crash between two files leaves.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod fixture;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use expect_test::{Expect, expect};
use fixture::{Fixture, done, failure};
use longhaul_core::json::Json;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome, Trace};
use longhaul_workspace::ABSENT;
use serde_json::{Value, json};

const CODE: &str = "fn one() {\n    first();\n    same();\n}\n\nfn two() {\n    second();\n    same();\n}\n";

fn args(patch: &str) -> Value {
    json!({ "patch": patch })
}

fn with(files: &[(&str, &str)]) -> Fixture {
    let fixture = Fixture::new();
    for (path, text) in files {
        fs::create_dir_all(fixture.path(path).parent().unwrap()).unwrap();
        fs::write(fixture.path(path), text).unwrap();
    }
    fixture
}

/// Applies the patch to a file `code`; answers its text, or the error.
async fn patched(text: &str, patch: &str) -> String {
    let fixture = with(&[("code", text)]);
    let outcome = fixture.run("apply_patch", &args(patch)).await;
    let after = fs::read_to_string(fixture.path("code")).unwrap();
    match &outcome {
        Outcome::Done { .. } => after,
        Outcome::Failed { .. } | Outcome::Unknown { .. } => {
            assert_eq!(after, text);
            failure(&outcome).1.to_owned()
        }
    }
}

async fn check(text: &str, hunks: &str, expected: Expect) {
    let patch = format!("*** Begin Patch\n*** Update File: code\n{hunks}*** End Patch\n");
    expected.assert_eq(&patched(text, &patch).await);
}

/// D6.3: hunks are found by their lines and anchors, with some leniency about white space and none about guessing.
#[tokio::test]
async fn the_marked_form_is_placed() {
    check(
        CODE,
        "@@\n fn two() {\n-    second();\n+    2;\n",
        expect![[r#"
        fn one() {
            first();
            same();
        }

        fn two() {
            2;
            same();
        }
    "#]],
    )
    .await;
    check(
        CODE,
        "@@ fn two() {\n-    same();\n+    other();\n",
        expect![[r#"
        fn one() {
            first();
            same();
        }

        fn two() {
            second();
            other();
        }
    "#]],
    )
    .await;
    check(
        CODE,
        "-    same();\n",
        expect![
            "the hunk fits `code` at 2 places, lines 3, 8; add lines around it, or `@@` with a line above it"
        ],
    )
    .await;
    check(
        CODE,
        "@@ fn three() {\n-    same();\n",
        expect!["the hunk of `code`: its line `@@ fn three() {` is not there"],
    )
    .await;
    check(
        CODE,
        "@@\n fn one() {\n-    furst();\n+    1;\n     same();\n }\n",
        expect![[r#"
        the hunk does not fit `code`; lines 1 to 4 are the closest (· is a space, → a tab):
             2 is	····first();
           not	····furst();"#]],
    )
    .await;
    check(
        "a  \n\tb\nc\n",
        " a\n-b\n+B\n c\n",
        expect![[r#"
        a  
        B
        c
    "#]],
    )
    .await;
    check(
        "a\n",
        "+b\n*** End of File\n",
        expect![[r#"
        a
        b
    "#]],
    )
    .await;
    let update = "*** Begin Patch\n*** Update File: code\n a\n-b\n+B\n*** End Patch";
    assert_eq!(patched("a\r\nb\r\n", update).await, "a\r\nB\r\n");
    check(
        "a\nx\na\nx",
        "@@\n a\n-x\n+y\n*** End of File\n",
        expect![[r#"
        a
        x
        a
        y"#]],
    )
    .await;
    check(
        "a\n",
        " a\n?b\n",
        expect!["line 4 of the patch is `?b`; expected a line beginning with a space, `-` or `+`"],
    )
    .await;
    check("a\n", " a\n", expect!["the patch changes nothing in `code`"]).await;
}

/// D6.3: the line numbers of a unified diff are a hint; its lines decide.
#[tokio::test]
async fn the_unified_form_is_placed() {
    let apply =
        async |text: &str, patch: &str, expected: Expect| expected.assert_eq(&patched(text, patch).await);
    apply(
        CODE,
        "--- a/code\n+++ b/code\n@@ -70,3 +70,2 @@ fn two() {\n-    same();\n+    other();\n",
        expect![[r#"
            fn one() {
                first();
                same();
            }

            fn two() {
                second();
                other();
            }
        "#]],
    )
    .await;
    apply("a\nb\nc\n", "diff --git a/code b/code\nindex 1..2 100644\n--- a/code\n+++ b/code\n@@ -1,0 +2 @@\n+new\n@@ -3 +4 @@\n-c\n+C\n\\ No newline at end of file\n", expect![[r#"
        a
        new
        b
        C"#]]).await;
    apply(
        "-- old\nx\n",
        "--- code\n+++ code\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n x\n",
        expect![[r#"
        ++ new
        x
    "#]],
    )
    .await;
    apply(
        "a\n",
        "@@ -1 +1 @@\n-a\n+b\n",
        expect!["line 1 of the patch begins a hunk, but no `--- path` and `+++ path` is above it"],
    )
    .await;
    apply(
        "a\n",
        "hello\n",
        expect!["the patch changes nothing; give `*** Begin Patch` … `*** End Patch` or a unified diff"],
    )
    .await;
    apply(
        "a\n",
        "diff --git a/code b/code\nGIT binary patch\nliteral 3\n",
        expect!["the patch is binary; make the change with bash"],
    )
    .await;
}

/// D6.3: what fits only above the hunk before it is told so, by its line in the file as it was.
#[tokio::test]
async fn hunks_out_of_order_are_told_so() {
    let why = "which is not below what stands before it in the patch (a hunk, or an `@@` line); hunks must be in the order of the \
               file and share no lines";
    let unified = async |hunks: &str, place: &str| {
        let said = patched("1\n2\n3\n4\n5\n6\n7\n", &format!("--- code\n+++ code\n{hunks}")).await;
        assert_eq!(said, format!("{place}, {why}"));
    };
    let (third, seventh) = ("@@ -3 +3 @@\n-3\n+three\n", "@@ -7 +7 @@\n-7\n+seven\n");
    unified(&format!("{seventh}{third}"), "hunk 2 of 2 fits `code` only at line 3").await;
    let longer = "@@ -1 +1,2 @@\n-1\n+one\n+more\n";
    unified(&format!("{longer}{seventh}{third}"), "hunk 3 of 3 fits `code` only at line 3").await;
    let shared = "@@ -2,3 +2,4 @@\n 2\n+new\n 3\n 4\n@@ -4,2 +5,2 @@\n 4\n-5\n+five\n";
    unified(shared, "hunk 2 of 2 fits `code` only at line 4").await;
    let marked = async |hunks: &str, place: &str| {
        let patch = format!("*** Begin Patch\n*** Update File: code\n{hunks}*** End Patch\n");
        assert_eq!(patched(CODE, &patch).await, format!("{place}, {why}"));
    };
    let two = "@@ fn two() {\n-    second();\n+    2;\n";
    let anchored = format!("{two}@@ fn one() {{\n-    first();\n+    1;\n");
    marked(&anchored, "hunk 2 of 2 of `code`: its line `@@ fn one() {` stands only at line 1").await;
    marked("@@ fn two() {\n-    first();\n+    1;\n", "the hunk fits `code` only at line 2").await;
}

const MANY: &str = "*** Begin Patch
*** Add File: new/deep/file
+one
+two
*** Update File: change
@@
-old
+new
*** Delete File: gone
*** Update File: tool.sh
*** Move to: bin/tool.sh
@@
 #!/bin/sh
-echo old
+echo new
*** End Patch
";

fn many() -> Fixture {
    let fixture = with(&[("change", "old\n"), ("gone", "text\n"), ("tool.sh", "#!/bin/sh\necho old\n")]);
    fs::set_permissions(fixture.path("tool.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fixture
}

fn tree(fixture: &Fixture) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut pending = vec![fixture.path("")];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(fixture.path("")).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    found
}

fn as_patched() -> BTreeMap<String, String> {
    let files =
        [("bin/tool.sh", "#!/bin/sh\necho new\n"), ("change", "new\n"), ("new/deep/file", "one\ntwo\n")];
    files.map(|(path, text)| (path.to_owned(), text.to_owned())).into()
}

async fn prepared(fixture: &Fixture, patch: &str) -> Vec<Trace> {
    fixture.tool("apply_patch").prepare(&fixture.context, &Json::of(&args(patch))).await.unwrap()
}

async fn run(fixture: &Fixture, traces: &[Trace]) -> Outcome {
    run_of(fixture, MANY, traces).await
}

async fn run_of(fixture: &Fixture, patch: &str, traces: &[Trace]) -> Outcome {
    fixture.tool("apply_patch").run(&fixture.context, &Json::of(&args(patch)), traces).await
}

async fn found(fixture: &Fixture, traces: &[Trace]) -> Found {
    found_of(fixture, MANY, traces).await
}

async fn found_of(fixture: &Fixture, patch: &str, traces: &[Trace]) -> Found {
    fixture.tool("apply_patch").check(&fixture.context, &Json::of(&args(patch)), traces).await
}

/// A report without the tags that end its lines.
fn untagged(report: &str) -> String {
    report.lines().map(|line| format!("{}\n", line.split(" (tag ").next().unwrap())).collect()
}

/// A patch that makes a link is not taken for one that makes a file.
#[tokio::test]
async fn a_link_is_not_added_as_a_file() {
    let fixture = Fixture::new();
    let link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+target\n\\ No newline at end of file\n";
    let outcome = fixture.run("apply_patch", &args(link)).await;
    assert!(fixture::failure(&outcome).1.contains("make it with bash"), "{outcome:?}");
    assert!(!fixture.path("l").exists());
}

/// D6.3: files are added, changed, deleted and moved in one call, and a moved one keeps its rights.
#[tokio::test]
async fn several_files_are_changed_together() {
    let fixture = many();
    assert_eq!(fixture.tool("apply_patch").spec().class, EffectClass::Checkable);
    let traces = prepared(&fixture, MANY).await;
    let targets: Vec<&str> = traces.iter().map(|trace| trace.target.as_str()).collect();
    assert_eq!(targets, ["new/deep/file", "change", "bin/tool.sh", "gone", "tool.sh"]);
    assert_eq!((traces[0].before.as_str(), traces[3].after.as_str()), (ABSENT, ABSENT));
    assert_eq!(
        untagged(done(&run(&fixture, &traces).await)),
        "added new/deep/file\nupdated change\ndeleted gone\nmoved tool.sh to bin/tool.sh\n"
    );
    assert_eq!(tree(&fixture), as_patched());
    assert_eq!(fs::metadata(fixture.path("bin/tool.sh")).unwrap().permissions().mode() & 0o777, 0o755);

    let git = "diff --git a/change b/changed\nsimilarity index 100%\nrename from change\nrename to changed\n\
               diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\
               diff --git a/bin/tool.sh b/bin/tool.sh\ndeleted file mode 100755\n--- a/bin/tool.sh\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-#!/bin/sh\n-echo new\n";
    assert_eq!(
        untagged(done(&fixture.run("apply_patch", &args(git)).await)),
        "moved change to changed\nadded n\ndeleted bin/tool.sh\n"
    );
    let names: Vec<String> = tree(&fixture).into_keys().collect();
    assert_eq!(names, ["changed", "n", "new/deep/file"]);
}

/// D6.3: what cannot be done as a whole is not done: what was changed before is as it was, with its rights.
#[tokio::test]
async fn what_was_done_is_taken_back() {
    let fixture = with(&[("change", "old\n"), ("gone", "text\n"), ("tool.sh", "#!/bin/sh\n")]);
    fs::set_permissions(fixture.path("tool.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    let before = tree(&fixture);
    let patch = "*** Begin Patch\n*** Update File: change\n-old\n+new\n*** Add File: added\n+x\n\
                 *** Update File: tool.sh\n*** Move to: bin/tool.sh\n #!/bin/sh\n+echo\n*** Add File: added/below\n+x\n\
                 *** Delete File: gone\n*** End Patch\n";
    let outcome = fixture.run("apply_patch", &args(patch)).await;
    assert!(failure(&outcome).1.ends_with("; no file was changed"), "{outcome:?}");
    assert_eq!(tree(&fixture), before);
    assert_eq!(fs::metadata(fixture.path("tool.sh")).unwrap().permissions().mode() & 0o777, 0o755);
    // A file that may be run now may not be run then.
    let mode = "diff --git a/change b/change\nold mode 100644\nnew mode 100755\n\
                diff --git a/n b/n\nnew file mode 100755\n--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+x\n\
                diff --git a/n/x b/n/x\nnew file mode 100644\n--- /dev/null\n+++ b/n/x\n@@ -0,0 +1 @@\n+x\n";
    let outcome = fixture.run("apply_patch", &args(mode)).await;
    assert!(failure(&outcome).1.ends_with("; no file was changed"), "{outcome:?}");
    assert_eq!(fs::metadata(fixture.path("change")).unwrap().permissions().mode() & 0o111, 0);
    assert_eq!(tree(&fixture), before);
    // What somebody has made of a file since stays, and is named.
    let traces = prepared(&fixture, patch).await;
    fs::write(fixture.path("change"), "new\n").unwrap();
    let outcome = run_of(&fixture, patch, &traces).await;
    assert!(failure(&outcome).1.contains("`change` could not be put back as they were"), "{outcome:?}");
    assert_eq!(fs::read_to_string(fixture.path("change")).unwrap(), "new\n");
    assert!(!fixture.path("added").exists() && !fixture.path("bin/tool.sh").exists());
}

/// D6.3, F24: a patch says whether files may be run, also nothing else, and after a crash in between.
#[tokio::test]
async fn a_patch_may_let_files_be_run() {
    let may_run = |fixture: &Fixture, path: &str| {
        fs::metadata(fixture.path(path)).unwrap().permissions().mode() & 0o111 != 0
    };
    let patch = "diff --git a/new.sh b/new.sh\nnew file mode 100755\n--- /dev/null\n+++ b/new.sh\n@@ -0,0 +1 @@\n+x\n\
                 diff --git a/on.sh b/on.sh\nold mode 100644\nnew mode 100755\n--- a/on.sh\n+++ b/on.sh\n@@ -1 +1 @@\n-a\n+b\n\
                 diff --git a/only b.sh b/only b.sh\nold mode 100644\nnew mode 100755\n\
                 diff --git a/off.sh b/off.sh\nold mode 100755\nnew mode 100644\n";
    let fresh = || {
        let fixture = with(&[("on.sh", "a\n"), ("only b.sh", "a\n"), ("off.sh", "a\n")]);
        fs::set_permissions(fixture.path("off.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        fixture
    };
    let is_so = |fixture: &Fixture| {
        ["new.sh", "on.sh", "only b.sh"].iter().all(|path| may_run(fixture, path))
            && !may_run(fixture, "off.sh")
    };
    let fixture = fresh();
    let report = untagged(done(&fixture.run("apply_patch", &args(patch)).await));
    assert!(report.ends_with("only b.sh may be run now\noff.sh may not be run now\n"), "{report}");
    assert!(is_so(&fixture));
    // Killed when all is written and no mode is set.
    let fixture = fresh();
    let traces = prepared(&fixture, patch).await;
    fs::write(fixture.path("new.sh"), "x\n").unwrap();
    fs::write(fixture.path("on.sh"), "b\n").unwrap();
    assert_eq!(found_of(&fixture, patch, &traces).await, Found::Done);
    assert!(is_so(&fixture));
}

/// F24: wherever a crash stops the patch, between any two files or within one, it is recognised and finished.
#[tokio::test]
async fn a_patch_cut_short_after_any_file_is_finished() {
    let last = prepared(&many(), MANY).await.len();
    for stop in 0..=last {
        let fixture = many();
        let traces = prepared(&fixture, MANY).await;
        let whole = many();
        done(&run(&whole, &[]).await);
        for trace in &traces[..stop] {
            let (from, to) = (whole.path(&trace.target), fixture.path(&trace.target));
            if trace.after == ABSENT {
                fs::remove_file(to).unwrap();
            } else {
                fs::create_dir_all(to.parent().unwrap()).unwrap();
                fs::copy(from, to).unwrap();
            }
        }
        // The next file was being written.
        let temporary = format!(".longhaul-{}.tmp", fixture.context.key);
        fs::write(fixture.path(&temporary), "half").unwrap();
        let expected = if stop == last { Found::Done } else { Found::NotDone };
        assert_eq!(found(&fixture, &traces).await, expected, "after {stop} files");
        assert!(!fixture.path(&temporary).exists(), "after {stop} files");
        done(&run(&fixture, &traces).await);
        assert_eq!(tree(&fixture), as_patched(), "after {stop} files");
        assert_eq!(found(&fixture, &traces).await, Found::Done);
    }
}

/// F24: a file that somebody else changed makes the outcome unknown, and nothing is overwritten.
#[tokio::test]
async fn a_patch_overwrites_nobody() {
    for path in ["change", "gone", "tool.sh", "new/deep/file", "bin/tool.sh"] {
        let fixture = many();
        let traces = prepared(&fixture, MANY).await;
        fs::create_dir_all(fixture.path(path).parent().unwrap()).unwrap();
        fs::write(fixture.path(path), "somebody else\n").unwrap();
        let before = tree(&fixture);
        assert_eq!(found(&fixture, &traces).await, Found::Unknown, "{path}");
        let outcome = run(&fixture, &traces).await;
        assert!(failure(&outcome).1.contains("was changed by somebody else"), "{path}: {outcome:?}");
        assert_eq!(tree(&fixture), before, "{path}");
    }
    let fixture = many();
    let traces = prepared(&fixture, MANY).await;
    assert_eq!(found(&fixture, &traces[1..]).await, Found::Unknown);
    assert_eq!(failure(&run(&fixture, &traces[1..]).await).0, Failure::Tool);
}

/// D8.3, A03, A50: no path of a patch leads out, and a patch with one bad file changes none.
#[tokio::test]
async fn a_bad_patch_changes_nothing() {
    let fixture = with(&[("file", "a\n"), ("other", "b\n"), (".longhaul/runs/x", "state\n")]);
    fs::write(fixture.outer.path().join("secret"), "secret\n").unwrap();
    symlink("../secret", fixture.path("link")).unwrap();
    symlink("file", fixture.path("inside")).unwrap();
    symlink("..", fixture.path("up")).unwrap();
    let before = tree(&fixture);
    let update = "*** Update File: file\n@@\n-a\n+A\n";
    let cases = [
        ("*** Add File: ../new\n+x\n", "leads outside"),
        ("*** Add File: up/new\n+x\n", "leads outside"),
        ("*** Update File: link\n@@\n-secret\n+x\n", "leads outside"),
        ("*** Delete File: ../secret\n", "leads outside"),
        ("*** Delete File: inside\n", "`inside` is a symbolic link, not a regular file"),
        ("*** Delete File: .longhaul/runs/x\n", "harness's own state"),
        ("*** Update File: other\n*** Move to: ../moved\n", "leads outside"),
        ("*** Update File: other\n*** Move to: file\n", "`file` is touched twice"),
        ("*** Add File: other\n+x\n", "`other` is already there"),
        ("*** Delete File: missing\n", "`missing` does not exist"),
        ("*** Update File: missing\n@@\n-x\n+y\n", "`missing` does not exist"),
        ("*** Update File: other\n@@\n-c\n+d\n", "the hunk does not fit `other`"),
        ("*** Rename File: other\n", "line 6 of the patch is `*** Rename File: other`"),
    ];
    for (section, expected) in cases {
        let args = args(&format!("*** Begin Patch\n{update}{section}*** End Patch\n"));
        let outcome = fixture.run("apply_patch", &args).await;
        assert!(failure(&outcome).1.contains(expected), "{section}: {outcome:?}");
        let prepared = fixture.tool("apply_patch").prepare(&fixture.context, &Json::of(&args)).await;
        assert_eq!(prepared, Err(outcome), "{section}");
        assert_eq!(tree(&fixture), before, "{section}");
    }
    assert_eq!(fs::read_dir(fixture.outer.path()).unwrap().count(), 2);
    let twice = "*** Begin Patch\n*** Update File: file\n@@\n-a\n+A\n*** Update File: file\n@@\n A\n+B\n*** End Patch";
    done(&fixture.run("apply_patch", &json!({ "input": twice })).await);
    assert_eq!(fs::read_to_string(fixture.path("file")).unwrap(), "A\nB\n");
}
