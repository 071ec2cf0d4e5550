//! A run's branch on its way to a remote.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::desk::Desk;

const PUSHES: &str = r#"
name: pushes
conversations:
  - turns:
      - calls:
          - { tool: write, args: { path: a.txt, content: "new\n" } }
          - { tool: git_add, args: { paths: ["."] } }
          - { tool: git_commit, args: { message: "new" } }
          - { tool: git_push, args: {} }
      - when_result_contains: { "pushed": { text: "Pushed." } }
        text: "Not pushed."
"#;

fn git(directory: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=x", "-c", "user.email=x@x"];
    let done = Command::new("git").args(who).args(args).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}

/// A repository whose origin is beside it, of a user with these settings.
fn desk(settings: &str) -> Desk {
    let desk = Desk::with_script(PUSHES);
    let work = desk.path("");
    git(&work, &["init", "-q", "--bare", "origin.git"]);
    desk.write(".gitignore", "/origin.git\n/.config\n");
    std::fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", settings);
    git(&work, &["init", "-q", "--initial-branch=main"]);
    git(&work, &["remote", "add", "origin", "origin.git"]);
    git(&work, &["add", "."]);
    git(&work, &["commit", "-q", "-m", "first"]);
    desk
}

fn branches(desk: &Desk) -> String {
    git(&desk.path("origin.git"), &["for-each-ref", "--format=%(refname:short)"])
}

/// D5.3, D11.16: a push waits for a person; approved, it is pushed, and refused, it is not and the agent is told.
#[test]
fn a_push_waits_for_a_person() {
    let desk = desk("permissions: { bash: { \"git commit *\": allow } }\n");
    let run = || {
        let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--json"]);
        assert_eq!(said.code, 3, "{}", said.err);
        serde_json::from_str::<serde_json::Value>(&said.out).unwrap()
    };
    let waiting = || {
        let all = desk.json(&["approvals", "list"]);
        assert_eq!((all.as_array().unwrap().len(), &all[0]["toolName"]), (1, &json!("git_push")), "{all}");
        let asked = all[0]["description"].as_str().unwrap();
        assert!(
            asked.contains("; it sends the branch that is checked out in /")
                && asked.ends_with(" to `origin`"),
            "{asked}"
        );
        all[0]["id"].as_str().unwrap().to_owned()
    };
    let shown = run();
    assert_eq!(branches(&desk), "", "nothing is sent before");
    desk.get(&["approve", &waiting()]);
    assert_eq!(desk.get(&["resume", shown["id"].as_str().unwrap()]), "Pushed.\n");
    let branch = shown["branch"].as_str().unwrap();
    assert_eq!(branches(&desk), branch);
    let [here, there] = [desk.path(""), desk.path("origin.git")].map(|at| git(&at, &["rev-parse", branch]));
    assert_eq!(here, there);
    let refused = run();
    desk.get(&["reject", &waiting(), "--reason", "not today"]);
    assert_eq!(desk.get(&["resume", refused["id"].as_str().unwrap()]), "Not pushed.\n");
    assert_eq!(branches(&desk), branch);
}

/// D5.3: who wants no question has none.
#[test]
fn a_push_need_not_be_asked_about() {
    let desk = desk("git: { require_approval: false }\npermissions: { bash: { \"git commit *\": allow } }\n");
    assert_eq!(desk.get(&["run", "x", "--model", "scripted/s.yaml"]), "Pushed.\n");
    assert!(branches(&desk).starts_with("agent/"));
}
