//! What is kept, how large it is, and what goes when: workspaces, stored files, quotas, and kills in the middle.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use super::desk::Desk;

/// Something to store that does not compress, so that sizes can be told apart.
const SCRIPT: &str = r#"
name: stores
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "head -c 300000 /dev/urandom > noise" } } ]
      - calls: [ { tool: bash, args: { command: "head -c 300000 /dev/urandom > noise; echo two > b" } } ]
      - text: "All done."
"#;

fn done(desk: &Desk) -> (String, PathBuf) {
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
    (shown["id"].as_str().unwrap().to_owned(), shown["workspace"].as_str().unwrap().into())
}

/// The event of each turn's end at which files were stored.
fn stored(desk: &Desk, id: &str) -> Vec<String> {
    let listed = desk.json(&["checkpoints", id, "--all"]);
    let points = listed.as_array().unwrap().iter().filter(|point| point["number"].is_null()).skip(1);
    points.map(|point| format!("@{}", point["seq"])).collect()
}

fn store(desk: &Desk) -> PathBuf {
    desk.path(".longhaul/checkpoints/files.git")
}

/// Makes everything in the store look as if it was stored a month ago.
fn age(desk: &Desk) {
    let mut aged = Command::new("find");
    aged.arg(store(desk)).args(["-exec", "touch", "-h", "-d", "30 days ago", "{}", "+"]);
    assert!(aged.status().unwrap().success());
}

fn fsck(desk: &Desk) {
    let found = Command::new("git")
        .arg("--git-dir")
        .arg(store(desk))
        .args(["fsck", "--full", "--no-dangling"])
        .output();
    let found = found.unwrap();
    let said = String::from_utf8_lossy(&found.stderr).into_owned();
    assert!(found.status.success() && !said.contains("missing"), "{said}");
}

/// Makes a repository of all that is there.
fn commit_all(desk: &Desk) {
    for words in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "first"]] {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(words).current_dir(desk.path(""));
        assert!(git.status().unwrap().success(), "{words:?}");
    }
}

fn quota(desk: &Desk, text: &str) {
    desk.write("longhaul.yaml", text);
}

fn bytes(desk: &Desk, part: &str) -> u64 {
    desk.json(&["workspace", "list"])["bytes"][part].as_u64().unwrap()
}

/// D14.8: workspaces are listed with what they take; those of ended runs go by the rule, and with it what is left of the run's way
/// back; sessions never do.
#[test]
fn workspaces_are_listed_and_go_by_the_rule() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    desk.json(&["run", "x", "--model", "scripted/s.yaml", "--session", "kept"]);
    let listed = desk.json(&["workspace", "list"]);
    assert_eq!(listed["workspaces"][0]["id"], json!(id));
    assert_eq!(listed["workspaces"][0]["bytes"], json!(300_004));
    assert!(listed["bytes"]["sessions"].as_u64().unwrap() >= 300_000);
    assert!(listed["bytes"]["checkpoints"].as_u64().unwrap() >= 600_000);
    let text = desk.say(&["workspace", "list"]);
    assert!(text.out.contains(&id) && text.err.contains("stored files"), "{}{}", text.out, text.err);
    // A day is not over; a rule of the user's is.
    assert_eq!(desk.json(&["workspace", "cleanup"])["removed"], json!([]));
    quota(&desk, "workspace: { cleanup_after: 1ms }\n");
    let would = desk.json(&["workspace", "cleanup", "--dry-run"]);
    assert_eq!((&would["removed"], would["bytes"].as_u64()), (&json!([id]), Some(300_004)));
    assert!(workspace.exists());
    assert_eq!(desk.json(&["workspace", "cleanup"])["removed"], json!([id]));
    assert!(!workspace.exists() && desk.path(".longhaul/sessions/kept/workspace/noise").exists());
    // What it had stored is there as long as the run is.
    let fork = desk.json(&["fork", &id, "--at", &stored(&desk, &id)[0]]);
    assert!(Path::new(fork["workspace"].as_str().unwrap()).join("noise").exists());
    for (wrong, why) in [
        ("workspace: { cleanup_after: soon }\n", "cleanup_after"),
        ("checkpoints: { quota: 5 }\n", "not a size"),
    ] {
        quota(&desk, wrong);
        let said = desk.say(&["workspace", "cleanup"]);
        assert!(said.code == 2 && said.err.contains(why), "{}", said.err);
    }
}

/// D11.16, D14.8: what was cleaned away is made once more by whoever takes the run back, in a repository and outside of one; only a
/// place of the user's is not ours to make.
#[test]
fn a_workspace_that_was_cleaned_away_is_made_again() {
    for in_git in [false, true] {
        let desk = Desk::with_script(SCRIPT);
        if in_git {
            commit_all(&desk);
        }
        let (id, workspace) = done(&desk);
        assert_eq!(desk.json(&["workspace", "cleanup", "--older-than", "1ms"])["removed"], json!([id]));
        assert!(!workspace.exists());
        let said = desk.say(&["rewind", &id, "--to", &stored(&desk, &id)[0]]);
        assert_eq!(said.code, 0, "{}", said.err);
        assert!(workspace.join("noise").exists() && !workspace.join("b").exists());
        assert_eq!(workspace.join(".git").exists(), in_git);
        assert_eq!(desk.say(&["resume", &id]).code, 0);
        assert!(workspace.join("b").exists());
    }
}

/// D14.8: `cleanup_on_complete` leaves no directory of a run that completed.
#[test]
fn a_completed_run_can_leave_no_workspace() {
    let desk = Desk::with_script(SCRIPT);
    quota(&desk, "workspace: { cleanup_on_complete: true }\n");
    commit_all(&desk);
    let (id, workspace) = done(&desk);
    assert!(!workspace.exists());
    assert_eq!(desk.json(&["show", &id])["status"], json!("completed"));
}

/// D11.16: stored files stay as long as a run that needs them; those of a removed run go once they are old, and not before.
#[test]
fn stored_files_go_with_their_run() {
    let desk = Desk::with_script(SCRIPT);
    let (kept, gone) = (done(&desk), done(&desk));
    let before = bytes(&desk, "checkpoints");
    assert_eq!(desk.json(&["workspace", "cleanup"])["checkpoints"], json!(null), "too little to be worth it");
    desk.get(&["rm", &gone.0]);
    quota(&desk, "checkpoints: { quota: 1KB }\n");
    age(&desk);
    let old = desk.say(&["workspace", "cleanup", "--json"]);
    assert!(old.err.contains("more than checkpoints.quota"), "{}", old.err);
    let pruned = serde_json::from_str::<Value>(&old.out).unwrap()["checkpoints"].clone();
    let (first, last) = (pruned["bytesBefore"].as_u64().unwrap(), pruned["bytesAfter"].as_u64().unwrap());
    assert!(first >= before && last < before * 2 / 3 && last > 600_000, "{pruned} of {before}");
    // What was removed just now may have been removed by mistake.
    let (young, _) = done_over_quota(&desk);
    desk.get(&["rm", &young]);
    assert_eq!(desk.say(&["workspace", "cleanup"]).code, 0);
    assert!(bytes(&desk, "checkpoints") > last + 500_000);
    fsck(&desk);
    quota(&desk, "");
    for at in stored(&desk, &kept.0).iter().rev() {
        let said = desk.say(&["rewind", &kept.0, "--to", at]);
        assert_eq!(said.code, 0, "{}", said.err);
    }
    assert!(!kept.1.join("b").exists() && kept.1.join("noise").exists());
    assert_eq!(desk.say(&["resume", &kept.0]).code, 0);
}

/// D11.16: nothing is removed while a run is driven, nor if nobody knows what a run needs.
#[test]
fn stored_files_stay_while_anybody_may_need_them() {
    let desk = Desk::with_script(SCRIPT);
    let (id, _) = done(&desk);
    quota(&desk, "checkpoints: { quota: 1KB }\n");
    desk.write("slow.yaml", "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: \"sleep 60\" } } ] }, { text: done } ] } ]");
    let mut driven = desk.command(&["run", "x", "--model", "scripted/slow.yaml"]);
    let mut driven = driven.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let is_driven = |desk: &Desk| {
        let runs = desk.json(&["list"]);
        runs.as_array().unwrap().iter().any(|run| run["status"] == json!("running"))
    };
    while !is_driven(&desk) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let said = desk.say(&["workspace", "cleanup"]);
    assert!(said.code == 0 && said.err.contains("is at work"), "{}", said.err);
    driven.kill().unwrap();
    driven.wait().unwrap();
    let mut journal = std::fs::read(desk.journal(&id)).unwrap();
    let middle = journal.len() / 3;
    journal[middle] ^= 0xff;
    std::fs::write(desk.journal(&id), journal).unwrap();
    let before = bytes(&desk, "checkpoints");
    let said = desk.say(&["workspace", "cleanup"]);
    assert!(said.code == 0 && said.err.contains("nobody knows which stored files it needs"), "{}", said.err);
    assert_eq!(bytes(&desk, "checkpoints"), before);
}

/// D11.16: over its quota nothing more is stored, which is said, and the run goes on; over that of workspaces no run is made.
#[test]
fn quotas_are_kept_and_said() {
    let desk = Desk::with_script(SCRIPT);
    done(&desk);
    quota(&desk, "checkpoints: { quota: 10KB }\n");
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!((said.out.as_str(), said.code), ("All done.\n", 0), "{}", said.err);
    assert!(said.err.contains("files not stored: checkpoints.quota is 10000 bytes"), "{}", said.err);
    quota(&desk, "workspace: { quota: 10KB }\n");
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(said.err.contains("more than workspace.quota"), "{}", said.err);
    assert!(said.err.contains("longhaul workspace cleanup"), "{}", said.err);
    let here = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--in-place"]);
    assert_eq!(here.code, 0, "it makes no workspace: {}", here.err);
}

/// Kills a command after so long, if it is still there then.
fn killed(desk: &Desk, args: &[&str], after: Duration) {
    let mut child = desk.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// D11.16: killed anywhere in a cleanup, every run that is left can be taken back, and the next cleanup does the rest.
#[test]
fn a_cleanup_that_is_killed_loses_nothing() {
    let desk = Desk::with_script(SCRIPT);
    let (id, workspace) = done(&desk);
    quota(&desk, "checkpoints: { quota: 1KB }\nworkspace: { cleanup_after: 365d }\n");
    for round in 0..10 {
        let (gone, _) = done_over_quota(&desk);
        desk.get(&["rm", &gone]);
        age(&desk);
        killed(&desk, &["workspace", "cleanup"], Duration::from_millis(8 * round));
        let at = stored(&desk, &id)[0].clone();
        let said = desk.say(&["rewind", &id, "--to", &at]);
        assert_eq!(said.code, 0, "round {round}: {}", said.err);
        assert!(!workspace.join("b").exists() && workspace.join("noise").exists());
        let said = desk.say(&["resume", &id]);
        assert_eq!(said.code, 0, "round {round}: {}", said.err);
        fsck(&desk);
    }
    assert_eq!(desk.say(&["workspace", "cleanup"]).code, 0);
    fsck(&desk);
}

/// A run whose files are stored although there are too many already.
fn done_over_quota(desk: &Desk) -> (String, PathBuf) {
    let settings = std::fs::read_to_string(desk.path("longhaul.yaml")).unwrap();
    quota(desk, "");
    let made = done(desk);
    quota(desk, &settings);
    made
}

/// D11.16: killed anywhere while files are stored, a run goes on, and every point that it has then leads back to whole files.
#[test]
fn a_checkpoint_that_is_killed_was_made_or_not() {
    let desk = Desk::with_script(SCRIPT);
    for round in 0..12 {
        let id = desk.create();
        killed(&desk, &["start", &id], Duration::from_millis(60 + 15 * round));
        let said = desk.say(&["resume", &id]);
        assert!(said.code == 0 || said.err.contains("completed"), "round {round}: {}", said.err);
        let points = stored(&desk, &id);
        for at in points.iter().rev() {
            let said = desk.say(&["rewind", &id, "--to", at]);
            assert_eq!(said.code, 0, "round {round}, {at}: {}", said.err);
        }
        fsck(&desk);
    }
}

/// AX3, D11.16: before a command that may throw work away the files are kept under a name, also those of this very turn; going
/// back to it brings them back, and the command is not made again.
#[test]
fn files_are_kept_before_a_command_that_may_destroy_them() {
    let desk = Desk::with_script(
        r#"
name: risky
conversations:
  - turns:
      - calls:
          - { tool: bash, args: { command: "mkdir d; echo one > d/a; git init -q ." } }
          - { tool: bash, args: { command: "git status -s && git clean -fdxq d" } }
      - text: "All done."
"#,
    );
    let (id, workspace) = done(&desk);
    assert!(!workspace.join("d/a").exists());
    let listed = desk.json(&["checkpoints", &id]);
    let guard =
        listed.as_array().unwrap().iter().find(|point| point["name"] == json!("before-call_2")).unwrap();
    assert_eq!(guard["before"], json!("git clean -fdxq d"), "{guard}");
    assert!(guard["files"].is_string(), "{guard}");
    let text = desk.get(&["checkpoints", &id]);
    assert!(text.contains("before-call_2") && text.contains("git clean -fdxq d"), "{text}");
    let said = desk.say(&["rewind", &id, "--to", "before-call_2"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.contains("NOT undone: bash call_2 `git status -s && git clean -fdxq d`"),
        "{}",
        said.err
    );
    assert_eq!(std::fs::read_to_string(workspace.join("d/a")).unwrap(), "one\n");
    assert_eq!(desk.say(&["resume", &id]).code, 0);
    assert!(workspace.join("d/a").exists(), "it is for the agent to say whether it is made again");
    let events: Vec<Value> = desk.events(&id);
    assert!(
        events
            .iter()
            .any(|event| event["type"] == json!("checkpoint_guarded") && event["callId"] == json!("call_2"))
    );
    let unknown =
        |event: &&Value| event["type"] == json!("tool_failed") && event["callId"] == json!("call_2");
    assert!(events.iter().any(|event| unknown(&event)), "it was cut short, and says so");
}

/// A52: a workspace whose files would go over the quota is not begun, however small its repository is.
#[test]
fn a_checkout_that_is_too_large_is_not_begun() {
    let desk = Desk::with_script(SCRIPT);
    desk.write("large", &"0".repeat(3_000_000));
    quota(&desk, "workspace: { quota: 2MB }\n");
    commit_all(&desk);
    let refused = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(refused.code, 4, "{}", refused.err);
    assert!(refused.err.contains("of this one more than workspace.quota"), "{}", refused.err);
    assert!(!desk.path(".longhaul/workspace/run").exists());
    quota(&desk, "workspace: { quota: 20MB }\n");
    assert_eq!(desk.say(&["run", "x", "--model", "scripted/s.yaml"]).code, 0);
}
