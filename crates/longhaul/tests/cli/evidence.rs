//! What the harness sees of the work beside what the agent says: commits, and what commands changed.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::desk::Desk;

fn git(desk: &Desk, args: &[&str]) {
    let output = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=n@example.org"])
        .args(args)
        .current_dir(desk.path("."))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A repository with a test in it, and a script that plays on it.
fn repository(script: &str) -> Desk {
    let desk = Desk::with_script(script);
    fs::create_dir(desk.path("tests")).unwrap();
    desk.write("tests/a.sh", "exit 1\n");
    desk.write(".gitignore", "s.yaml\n.longhaul\n.config\n");
    fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", "permissions: { bash: { \"git commit *\": allow } }\n");
    git(&desk, &["init", "-q", "-b", "main"]);
    git(&desk, &["config", "user.name", "a"]);
    git(&desk, &["config", "user.email", "a@example.org"]);
    git(&desk, &["add", "-A"]);
    git(&desk, &["commit", "-q", "-m", "first"]);
    desk
}

fn only_run(desk: &Desk) -> String {
    desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned()
}

const COMMIT: &str = "git commit -qam";

/// A protected file that was changed in a commit and put back only in the workspace is found: what is handed over is the
/// commit. With `refuse` the end does not count until the commit has it as it was.
#[test]
fn a_protected_file_changed_in_a_commit_is_found() {
    let script = format!(
        r#"
conversations:
  - turns:
      - calls: [ {{ tool: bash, args: {{ command: "echo exit 0 > tests/a.sh && {COMMIT} easier && echo exit 1 > tests/a.sh" }} }} ]
      - text: "Done."
      - calls: [ {{ tool: bash, args: {{ command: "{COMMIT} back" }} }} ]
      - text: "Done now."
"#
    );
    for (policy, turns) in [("report", 2), ("refuse", 4)] {
        let desk = repository(&script);
        let said = desk.say(&[
            "run",
            "x",
            "--model",
            "scripted/s.yaml",
            "--protect",
            "tests/**",
            "--protect-policy",
            policy,
        ]);
        assert_eq!(said.code, 0, "{policy}: {}", said.err);
        let id = only_run(&desk);
        let result = desk.json(&["result", &id]);
        assert_eq!(result["turns"], turns, "{policy}: {result}");
        let protected = &result["protected"];
        let found =
            serde_json::json!([{ "path": "tests/a.sh", "what": "changed in a commit", "undone": false }]);
        let told = desk.get(&["logs", &id]);
        if policy == "report" {
            assert_eq!(*protected, found);
        } else {
            assert_eq!(*protected, serde_json::json!([]), "the last commit has it as it was");
            assert!(told.contains("changed in a commit: tests/a.sh; commit them as they were"), "{told}");
        }
    }
}

/// A change of a protected file that was taken back is in the result all the same, also when the agent then went on without.
#[test]
fn what_was_taken_back_is_told_at_the_end() {
    let script = r#"
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "echo exit 0 > tests/a.sh && touch ok" } } ]
      - text: "Done."
      - text: "Done without."
"#;
    let desk = repository(script);
    let more = ["--verify", "test -e ok", "--protect", "tests/**", "--protect-policy", "refuse"];
    let said = desk.say(&[&["run", "x", "--model", "scripted/s.yaml"][..], &more].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let id = only_run(&desk);
    let protected = &desk.json(&["result", &id])["protected"][0];
    assert_eq!(
        (&protected["path"], &protected["undone"]),
        (&"tests/a.sh".into(), &true.into()),
        "{protected}"
    );
    let kept = protected["kept"].as_str().unwrap();
    assert_eq!(desk.get(&["store", "blob", &id, kept]), "exit 0\n");
    let told = desk.get(&["result", &id]);
    assert!(told.contains("protected file tests/a.sh was changed; undone, what was there is kept"), "{told}");
}

/// What commands changed is in the result of a run that nothing was to be shown of: committed, not committed, and new.
#[test]
fn a_result_lists_what_commands_changed() {
    let script = format!(
        r#"
conversations:
  - turns:
      - calls: [ {{ tool: bash, args: {{ command: "echo 2 > tests/a.sh && {COMMIT} two && echo 3 > .gitignore && echo n > new.txt" }} }} ]
      - text: "Done."
"#
    );
    let desk = repository(&script);
    // What longhaul commits by itself would hide what was not committed.
    let settings = "git: { auto_commit: false }\npermissions: { bash: { \"git commit *\": allow } }\n";
    desk.write(".config/longhaul/longhaul.yaml", settings);
    desk.get(&["run", "x", "--model", "scripted/s.yaml"]);
    let id = only_run(&desk);
    let changes = desk.json(&["result", &id])["changes"].as_str().unwrap().to_owned();
    for part in ["tests/a.sh", ".gitignore", " new: new.txt", "2 files changed"] {
        assert!(changes.contains(part), "{part}: {changes}");
    }
    assert!(desk.get(&["result", &id]).contains("new: new.txt"));
    // Where there is no repository it is compared with what was stored before the first change.
    let desk = Desk::new();
    let id = desk.completed();
    let result = desk.json(&["result", &id]);
    assert!(result["changes"].as_str().unwrap().contains("a.txt | 1 +"), "{}", result["changes"]);
    assert_eq!(result["changedFiles"], serde_json::json!(["a.txt"]));
}

/// A judge is shown the changes themselves, new files too, and no more of them than it can read.
#[test]
fn a_judge_sees_the_changes() {
    let script = r#"
conversations:
  - match: { agent: judge, prompt_contains: "+the new line" }
    turns:
      - text: '{"accepted": true, "reasons": []}'
  - match: { agent: judge }
    turns:
      - text: '{"accepted": false, "reasons": ["no diff"]}'
  - turns:
      - calls:
          - { tool: bash, args: { command: "echo the new line > b.txt; yes long | head -n 20000 > tests/a.sh" } }
      - text: "TASK_COMPLETE"
"#;
    let desk = repository(script);
    desk.get(&["loop", "Do x", "--model", "scripted/s.yaml", "--in-place", "--judge", "scripted/s.yaml"]);
    let seen = desk.json(&["loop", "status", &only_run(&desk)]);
    let diff = seen["examined"]["diff"].as_str().unwrap();
    assert!(diff.len() < 10_000 && diff.contains("+long") && diff.contains("+the new line"), "{diff}");
}

/// Evidence is of one tree: whoever changes a file of the workspace afterwards makes it stale, and whoever puts it back makes it
/// evidence again.
#[test]
fn evidence_goes_stale_with_the_files() {
    let desk = repository(
        "conversations: [ { turns: [ { calls: [ { tool: write, args: { path: b.txt, content: two } } ] }, { text: ok } ] } ]",
    );
    desk.get(&["run", "x", "--model", "scripted/s.yaml", "--verify", "test -e b.txt && date +%N > seen.txt"]);
    let id = only_run(&desk);
    let workspace = std::path::PathBuf::from(desk.json(&["show", &id])["workspace"].as_str().unwrap());
    let files = || {
        let (result, text) = (desk.json(&["result", &id]), desk.get(&["result", &id]));
        let files = result["evidence"]["files"].as_str().unwrap().to_owned();
        assert_eq!(text.contains("completed, and shown to be done\n"), files == "same", "{text}");
        files
    };
    assert_eq!(files(), "same", "also when the commands themselves wrote a file");
    fs::write(workspace.join("b.txt"), "three").unwrap();
    assert_eq!(files(), "other");
    assert!(desk.get(&["result", &id]).contains("no evidence of what there is now"));
    fs::write(workspace.join("b.txt"), "two").unwrap();
    assert_eq!(files(), "same");
    fs::write(workspace.join("c.txt"), "new").unwrap();
    assert_eq!(files(), "other");
}

const TWO_STEPS: &str =
    "steps: [ { id: a, description: set out }, { id: b, description: go further, dependencies: [a] } ]\n";
const ONE_STEP: &str = "steps: [ { id: b, description: go further } ]\n";

/// An agent that writes a file in its first step, and in the next one plays these turns.
fn going_further(turns: &str) -> String {
    format!(
        r#"
conversations:
  - match: {{ prompt_contains: "go further" }}
    turns:
{turns}
      - text: "ok"
  - turns:
      - calls: [ {{ tool: write, args: {{ path: b.txt, content: two }} }} ]
      - text: "ok"
"#
    )
}

/// Evidence is judged by the files, not by what was asked for since: who only looked and then asked a person has changed nothing.
#[test]
fn evidence_lasts_as_long_as_nothing_is_changed() {
    let desk = repository(&going_further(
        r#"
      - calls: [ { tool: read, args: { path: b.txt } } ]
      - calls: [ { tool: ask_human, args: { question: "and now?" } } ]"#,
    ));
    desk.write("p.yaml", TWO_STEPS);
    let run = ["run", "x", "--model", "scripted/s.yaml", "--plan", "p.yaml", "--on-ask", "pause"];
    let said = desk.say(&[run.as_slice(), &["--verify", "test -e b.txt"]].concat());
    let id = only_run(&desk);
    assert_eq!(desk.json(&["show", &id])["stepsCompleted"], 1, "{}", said.err);
    let said = desk.say(&["apply", &id, "--json"]);
    let landed: Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(landed["evidence"]["files"], "same", "{}", said.err);
    assert!(desk.path("b.txt").exists() && !said.err.contains("was verified"), "{}", said.err);
}

/// What the agent committed itself is what was verified, also when only the branch is left; what somebody commits afterwards is not,
/// whoever made the commits before. Where nothing was kept to compare with, that is said.
#[test]
fn evidence_is_of_what_the_agent_committed_itself() {
    let own = r#"
      - calls: [ { tool: bash, args: { command: "echo three > c.txt; git add c.txt; git commit -qm own" } } ]"#;
    for (case, plan, settings, files) in [
        ("its last step", TWO_STEPS, "", "same"),
        ("all of it", ONE_STEP, "", "same"),
        ("its last step, and somebody after it", TWO_STEPS, "", "other"),
        ("all of it, and somebody after it", ONE_STEP, "", "other"),
        ("nothing was kept", ONE_STEP, "git: { auto_commit: false }\n", "unknown"),
    ] {
        let desk = repository(&going_further(own));
        let allowed = r#"permissions: { bash: { "git commit *": allow, "git add *": allow } }"#;
        desk.write(".config/longhaul/longhaul.yaml", &format!("{settings}{allowed}\n"));
        desk.write("p.yaml", plan);
        desk.get(&["run", "x", "--model", "scripted/s.yaml", "--plan", "p.yaml", "--verify", "true"]);
        let id = only_run(&desk);
        let shown = desk.json(&["show", &id]);
        let (workspace, branch) = (shown["workspace"].as_str().unwrap(), shown["branch"].as_str().unwrap());
        assert_eq!(desk.json(&["result", &id])["evidence"]["files"], "same", "{case}");
        fs::remove_dir_all(desk.path(workspace)).unwrap();
        git(&desk, &["worktree", "prune"]);
        if case.contains("somebody") {
            git(&desk, &["checkout", "-q", branch]);
            git(&desk, &["commit", "-q", "--allow-empty", "-m", "more"]);
            git(&desk, &["checkout", "-q", "main"]);
        }
        let (result, text) = (desk.json(&["result", &id]), desk.get(&["result", &id]));
        assert_eq!(result["evidence"]["files"], files, "{case}: {result}");
        assert_eq!(text.contains("completed, and shown to be done\n"), files == "same", "{case}: {text}");
        assert_eq!(text.contains("cannot be told"), files == "unknown", "{case}: {text}");
        let said = desk.say(&["merge", &id]);
        assert!(desk.path("c.txt").exists(), "{case}: {}", said.err);
        let warned = ["was verified on other files than these", "whether on these very files cannot be told"];
        let expected = [files == "other", files == "unknown"];
        assert_eq!(warned.map(|words| said.err.contains(words)), expected, "{case}: {}", said.err);
    }
}

/// 7.1: whoever brings in other files than those that were verified is told, also when only the branch is left; otherwise nothing is said.
#[test]
fn merging_what_was_not_verified_is_said() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: write, args: { path: b.txt, content: two } } ] }, { text: ok } ] } ]";
    let cases = [("as it was", "same"), ("moved", "other"), ("left", "same"), ("left and moved", "other")];
    for (case, files) in cases {
        let desk = repository(script);
        desk.get(&["run", "x", "--model", "scripted/s.yaml", "--verify", "test -e b.txt"]);
        let id = only_run(&desk);
        let shown = desk.json(&["show", &id]);
        let (workspace, branch) = (shown["workspace"].as_str().unwrap(), shown["branch"].as_str().unwrap());
        if case.contains("moved") {
            fs::write(desk.path(workspace).join("c.txt"), "somebody's").unwrap();
            git(&desk, &["-C", workspace, "add", "c.txt"]);
            git(&desk, &["-C", workspace, "commit", "-q", "-m", "more"]);
        }
        if case.contains("left") {
            desk.get(&["workspace", "cleanup", "--older-than", "1ms"]);
            assert!(!desk.path(workspace).exists(), "{case}");
        }
        for word in ["apply", "merge"] {
            let said = desk.say(&[word, &id, "--json"]);
            let landed: Value = serde_json::from_str(&said.out).unwrap();
            assert_eq!(landed["evidence"]["files"], files, "{case}, {word} of {branch}: {}", said.err);
            assert_eq!(landed["evidence"]["holds"], true, "{case}");
            assert_eq!(
                said.err.contains("was verified on other files than these"),
                files == "other",
                "{case}: {}",
                said.err
            );
            git(&desk, &["clean", "-fdq", "b.txt", "c.txt"]);
        }
        assert!(desk.path("b.txt").exists() && desk.path("c.txt").exists() == (files == "other"), "{case}");
    }
    let desk = repository(script);
    desk.get(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(desk.json(&["merge", &only_run(&desk)])["evidence"], Value::Null);
}

/// What the user had changed and not committed before a run that works in place is not its work.
#[test]
fn what_was_there_before_is_not_the_runs_work() {
    let nothing = "conversations: [ { turns: [ { text: Nothing to do. } ] } ]";
    let something = "conversations: [ { turns: [ { calls: [ { tool: write, args: { path: own.txt, content: x } } ] }, { text: Done. } ] } ]";
    for (script, own) in [(nothing, false), (something, true)] {
        let desk = repository(script);
        desk.write("tests/a.sh", "mine\n");
        desk.write("mine.txt", "mine\n");
        desk.get(&["run", "x", "--model", "scripted/s.yaml", "--in-place", "--verify", "true"]);
        let changes = desk.json(&["result", &only_run(&desk)])["changes"].to_string();
        assert_eq!(changes.contains("own.txt"), own, "{changes}");
        assert!(!changes.contains("mine.txt") && !changes.contains("a.sh"), "{changes}");
    }
}

/// Whoever protects what is not there is told, before the agent begins.
#[test]
fn a_glob_that_protects_nothing_is_said() {
    let desk = Desk::new();
    desk.write("kept.txt", "x");
    let run = ["run", "x", "--model", "scripted/s.yaml", "--in-place", "--protect", "kept.txt,tset/**"];
    let said = desk.say(&run);
    assert!(said.err.contains("no file matches `tset/**`, so nothing is protected by it"), "{}", said.err);
    assert!(!said.err.contains("no file matches `kept.txt`"), "{}", said.err);
}
