//! Sessions and workspaces, as a user meets them.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use super::checkout::{self, git, git_in};
use super::desk::{Desk, files_below};

/// One line more in a file, and the file as the agent sees it.
const ADDS: &str = r#"
name: adds
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "echo line >> notes; cat notes; git log --oneline 2>/dev/null | wc -l" } } ]
      - text: "Done."
"#;

/// Pain 11: a session that is used again after the repository went on says so, and how to catch up.
#[test]
fn a_session_tells_what_it_lacks() {
    let desk = repository();
    let lacks = |desk: &Desk| {
        let output = desk.command(&RUN).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        String::from_utf8_lossy(&output.stderr).lines().find(|line| line.contains("lacks")).map(str::to_owned)
    };
    assert_eq!((lacks(&desk), lacks(&desk)), (None, None));
    git(&desk, &["commit", "-q", "--allow-empty", "-m", "later"]);
    let told = lacks(&desk).unwrap();
    assert!(told.contains("session port") && told.contains("lacks 1 commit of "), "{told}");
    let workspace = desk.json(&["session", "info", "port"])["workspace"].as_str().unwrap().to_owned();
    let branch = told.rsplit(' ').next().unwrap();
    git_in(Path::new(&workspace), &["merge", "-q", "--no-edit", branch]);
    assert_eq!(lacks(&desk), None);
}

/// Time for what takes a moment, on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// Works until it is told to go on.
const WAITS: &str = r#"
name: waits
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "while [ ! -e go ]; do sleep 0.02; done" } } ]
      - text: "Done."
"#;

fn repository() -> Desk {
    checkout::repository(ADDS, &[])
}

fn said(desk: &Desk, id: &serde_json::Value) -> String {
    let tools = desk.json(&["tools", id.as_str().unwrap()]);
    tools["calls"][0]["result"]["output"]["text"]
        .as_str()
        .unwrap()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

const RUN: [&str; 5] = ["run", "x", "--model", "scripted/s.yaml", "--session=port"];

/// D14.2, D16.1, D17.1, D17.5, D20.1, D20.4, D11.8: the second run sees the files and commits of the first, and the session knows both.
#[test]
fn a_session_goes_on_where_it_was() {
    let desk = repository();
    let (first, second) = (desk.json(&RUN), desk.json(&RUN));
    assert_eq!(
        (said(&desk, &first["id"]), said(&desk, &second["id"])),
        ("line 1".into(), "line line 2".into())
    );
    assert_eq!((&first["sessionId"], &second["sessionId"]), (&json!("port"), &json!("port")));
    assert_eq!((&first["branch"], &first["branch"]), (&json!("agent/session-port"), &second["branch"]));
    let id = second["id"].as_str().unwrap();
    let diff = desk.get(&["diff", id]);
    assert!(diff.contains(" line\n+line\n"), "only what this run has done: {diff}");
    let listed = desk.json(&["session", "list"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);
    let info = desk.json(&["session", "info", "port"]);
    assert_eq!((&info["status"], &info["lease"]), (&json!("free"), &json!(null)));
    assert_eq!(info["runs"].as_array().unwrap().len(), 2);
    assert_eq!(info["branch"], "agent/session-port");
    assert!(desk.get(&["session", "list"]).contains("port"));
    assert!(desk.get(&["session", "info", "port"]).contains(id));
    assert_eq!(git(&desk, &["status", "--porcelain"]), "");
    // Outside of any repository as well.
    let desk = Desk::with_script(ADDS);
    let (first, second) = (desk.json(&RUN), desk.json(&RUN));
    assert_eq!(
        (said(&desk, &first["id"]), said(&desk, &second["id"])),
        ("line 0".into(), "line line 0".into())
    );
}

/// D13.3: a sub-agent works in the session of who sent it, on the same files.
#[test]
fn a_sub_agent_has_the_session_of_its_parent() {
    let desk = super::crew::desk();
    let said = desk.say(&[
        "run",
        "spawn it",
        "--agent",
        "MARS",
        "--model",
        "scripted/s.yaml",
        "--session",
        "port",
        "--max-sub-agent-depth",
        "1",
        "--json",
    ]);
    let parent = super::crew::shown(&said);
    let tree = desk.json(&["tree", parent["id"].as_str().unwrap()]);
    let children = tree["children"].as_array().unwrap();
    assert!(!children.is_empty(), "{tree}");
    for child in children {
        let child = desk.json(&["show", child["id"].as_str().unwrap()]);
        assert_eq!((&child["sessionId"], &parent["sessionId"]), (&json!("port"), &json!("port")));
        assert_eq!(child["workspace"], parent["workspace"]);
    }
}

/// D16.5, D16.8, D16.9, D17.2, D20.3, D20.8: locked while a run works there, with its name; free after it, and after its death.
#[test]
fn a_session_is_locked_by_who_works_there() {
    let desk = repository();
    desk.write("w.yaml", WAITS);
    let waits = ["run", "x", "--model", "scripted/w.yaml", "--session=port", "--sandbox=off"];
    let lease = desk.path(".longhaul/sessions/port/lease.json");
    let start = || {
        let mut child = desk.command(&waits).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        while !lease.exists() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !lease.exists() {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("nobody took the session");
        }
        child
    };
    let mut child = start();
    let run = desk.json(&["session", "info", "port"])["lease"]["run"].as_str().unwrap().to_owned();
    for args in
        [&RUN[..], &["session", "delete", "port", "--force"], &["session", "unlock", "port", "--force"]]
    {
        let refused = desk.say(args);
        assert_eq!(refused.code, 7, "{args:?}: {}", refused.err);
        assert!(
            refused.err.starts_with(&format!("error: Session locked by run {run} (process ")),
            "{}",
            refused.err
        );
    }
    assert_eq!(desk.json(&["session", "info", "port"])["status"], format!("locked by {run}"));
    // Another session is another's.
    assert_eq!(desk.say(&["run", "x", "--model", "scripted/s.yaml", "--session=other"]).code, 0);
    std::fs::write(desk.path(".longhaul/sessions/port/workspace/go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert!(!lease.exists());
    assert_eq!(
        git(&desk, &["log", "-1", "--format=%(trailers:only)", "agent/session-port"]),
        format!("Longhaul-Run: {run}")
    );

    std::fs::remove_file(desk.path(".longhaul/sessions/port/workspace/go")).unwrap();
    let mut child = start();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(lease.exists());
    let next = desk.say(&RUN);
    assert_eq!(next.code, 0, "{}", next.err);
    assert!(next.err.contains("warning: session port was left by run_"), "{}", next.err);
    assert!(!lease.exists());
}

/// D16.5: of several that begin at once in a session, one has it, and the others leave no trace.
#[test]
fn who_does_not_get_the_session_leaves_no_run() {
    let desk = repository();
    desk.write("w.yaml", WAITS);
    let waits = ["run", "x", "--model", "scripted/w.yaml", "--session=port", "--sandbox=off"];
    let start = |_| desk.command(&waits).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut children: Vec<_> = (0..4).map(start).collect();
    let began = Instant::now();
    while children.len() > 1 && began.elapsed() < PATIENCE {
        let is_over = |child: &mut std::process::Child| child.try_wait().unwrap().is_some();
        if let Some(over) = children.iter_mut().position(is_over) {
            let refused = children.remove(over).wait_with_output().unwrap();
            let said = String::from_utf8(refused.stderr).unwrap();
            assert_eq!(refused.status.code(), Some(7), "{said}");
            assert!(!said.contains("works in"), "{said}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    if children.len() > 1 {
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        panic!("{} of them have the session", children.len());
    }
    let works = desk.json(&["session", "info", "port"]);
    std::fs::write(desk.path(".longhaul/sessions/port/workspace/go"), "").unwrap();
    assert!(children.remove(0).wait().unwrap().success());
    let runs = works["runs"].as_array().unwrap();
    assert_eq!((runs.len(), &runs[0]["run"]), (1, &works["lease"]["run"]), "{works}");
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 1);
}

/// D17.2, D17.3, D20.7: only what is old, free and saved is cleaned up; a dry run removes nothing.
#[test]
fn sessions_are_removed_when_told() {
    let desk = repository();
    let id = desk.json(&RUN)["id"].as_str().unwrap().to_owned();
    let workspace = desk.path(".longhaul/sessions/port/workspace");
    let cleanup = |more: &[&str]| desk.json(&[&["session", "cleanup"], more].concat())["removed"].clone();
    assert_eq!(cleanup(&["--older-than", "7d"]), json!([]));
    std::fs::write(workspace.join("unsaved"), "x").unwrap();
    assert_eq!(cleanup(&["--older-than", "1ms"]), json!([]));
    let refused = desk.say(&["session", "delete", "port"]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("has changes that are nowhere else"), "{}", refused.err);
    std::fs::remove_file(workspace.join("unsaved")).unwrap();
    assert_eq!(cleanup(&["--older-than", "1ms", "--dry-run"]), json!(["port"]));
    assert!(workspace.exists());
    assert_eq!(cleanup(&["--older-than", "1ms"]), json!(["port"]));
    assert!(!desk.path(".longhaul/sessions/port").exists());
    assert_eq!(git(&desk, &["worktree", "list"]).lines().count(), 1);
    assert!(git(&desk, &["branch", "--list"]).contains("agent/session-port"), "the work stays");
    assert_eq!(desk.json(&["show", &id])["sessionId"], "port");
    // A new one of that name does not go on from the old branch.
    assert_ne!(desk.json(&RUN)["branch"], "agent/session-port");
    assert_eq!(desk.say(&["session", "info", "none"]).code, 2);
}

/// D17.4: a session stays until it is told to go; one that nobody has used for long is marked, and who works in sessions is told.
#[test]
fn an_unused_session_is_told_of() {
    let desk = repository();
    let first = desk.say(&RUN);
    assert!(!first.err.contains("unused for long"), "{}", first.err);
    let notes = desk.path(".longhaul/sessions/port/session.json");
    let mut old: serde_json::Value = serde_json::from_slice(&std::fs::read(&notes).unwrap()).unwrap();
    old["lastUsedAt"] = json!("2020-01-01T00:00:00.000Z");
    std::fs::write(&notes, old.to_string()).unwrap();
    assert!(desk.get(&["session", "list"]).contains("unused for long"));
    let other = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--session=other"]);
    assert!(other.err.contains("hint: unused for long: port; `longhaul session cleanup"), "{}", other.err);
    assert!(desk.path(".longhaul/sessions/port/workspace").exists());
}

/// Names that lead elsewhere are refused by every command, and make nothing.
#[test]
fn a_session_has_a_plain_name() {
    let desk = Desk::with_script(ADDS);
    desk.completed();
    let before: Vec<PathBuf> = files_below(&desk.path("")).into_iter().map(|(path, _)| path).collect();
    for name in ["../x", "/etc", "a/b", ".git", "..", "a\nb", ""] {
        let session = format!("--session={name}");
        assert_eq!(desk.say(&["run", "x", "--model", "scripted/s.yaml", &session]).code, 2, "{name:?}");
        for word in ["info", "delete", "unlock"] {
            assert_eq!(desk.say(&["session", word, "--", name]).code, 2, "{word} {name:?}");
        }
    }
    let after: Vec<PathBuf> = files_below(&desk.path("")).into_iter().map(|(path, _)| path).collect();
    assert_eq!(before, after);
    assert_eq!(desk.say(&["run", "x", "--session=a", "--in-place"]).code, 2);
}

/// D14.8: where ended runs worked is taken away, sessions and what is not committed never.
#[test]
fn workspaces_of_ended_runs_are_cleaned_up() {
    let desk = repository();
    let run = |more: &[&str]| {
        let args = [&["run", "x", "--model", "scripted/s.yaml"], more].concat();
        let shown = desk.json(&args);
        [shown["id"].clone(), shown["workspace"].clone()].map(|value| value.as_str().unwrap().to_owned())
    };
    let [id, workspace] = run(&[]);
    let [_, unsaved] = run(&[]);
    std::fs::write(PathBuf::from(&unsaved).join("unsaved"), "x").unwrap();
    let [_, session] = run(&["--session=kept"]);
    let cleanup = |more: &[&str]| desk.json(&[&["workspace", "cleanup"], more].concat())["removed"].clone();
    assert_eq!(cleanup(&[]), json!([]), "they have ended just now");
    assert_eq!(cleanup(&["--older-than=1ms", "--dry-run"]), json!([id]));
    assert!(PathBuf::from(&workspace).exists());
    assert_eq!(cleanup(&["--older-than=1ms"]), json!([id]));
    assert!(!PathBuf::from(&workspace).exists());
    assert!(PathBuf::from(&unsaved).exists() && PathBuf::from(&session).exists());
    assert_eq!(git(&desk, &["worktree", "list"]).lines().count(), 3);
    assert_eq!(desk.get(&["diff", &id, "--name-only"]), "notes\n", "its branch is there");
    assert!(desk.json(&["merge", &id])["commit"].is_string());
}
