//! What is nowhere else stays: whatever is cleaned up, and whatever git, the notes or an earlier cleanup say.

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use super::checkout::{self, git_in};
use super::desk::Desk;

/// One that works as told, one that leaves its branch, and those who cannot agree.
const SCRIPT: &str = r#"
name: unsaved
conversations:
  - match: { agent: astray }
    turns:
      - calls: [ { tool: bash, args: { command: "git checkout -q --detach; echo astray > notes" } } ]
      - text: "Done."
  - match: { agent: left }
    turns:
      - calls: [ { tool: write, args: { path: a.txt, content: "left\n" } } ]
      - text: "Left."
  - match: { agent: right }
    turns:
      - calls: [ { tool: write, args: { path: a.txt, content: "right\n" } } ]
      - text: "Right."
  - match: { agent: leaker }
    turns:
      - calls: [ { tool: bash, args: { command: "echo both > a.txt; echo plain words > secret.bin" } } ]
      - text: "Both."
  - match: { agent: peacemaker }
    turns:
      - calls: [ { tool: write, args: { path: a.txt, content: "both\n" } } ]
      - text: "Both."
  - turns:
      - calls: [ { tool: bash, args: { command: "echo line >> notes" } } ]
      - text: "Done."
"#;

fn repository() -> Desk {
    checkout::repository(SCRIPT, &[("a.txt", "first\n")])
}

fn run(desk: &Desk, more: &[&str]) -> (String, PathBuf) {
    let shown = desk.json(&[&["run", "x", "--model", "scripted/s.yaml"], more].concat());
    let text = |key: &str| shown[key].as_str().unwrap().to_owned();
    (text("id"), text("workspace").into())
}

const PARALLEL: [&str; 2] = ["--session=port", "--collaboration=parallel"];

/// The notes of the session as if they had never heard of its runs, and of that repository.
fn forget(desk: &Desk, repository: Option<&str>) {
    let path = desk.path(".longhaul/sessions/port/session.json");
    let mut notes: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    match repository {
        Some(repository) => notes["repository"] = json!(repository),
        None => notes["runs"] = json!([]),
    }
    std::fs::write(&path, notes.to_string()).unwrap();
}

fn cleanup(desk: &Desk, what: &str) -> Value {
    desk.json(&[what, "cleanup", "--older-than", "1ms"])["removed"].clone()
}

/// D17.2, D17.3: where git cannot tell, because the repository has moved, what is in a session stays until it is forced away.
#[test]
fn a_session_whose_repository_is_gone_stays() {
    for more in [&PARALLEL[..], &["--session=port"], &["--workflow-run=port"]] {
        let desk = repository();
        let (_, workspace) = run(&desk, more);
        std::fs::write(workspace.join("unsaved"), "x").unwrap();
        std::fs::rename(desk.path(".git"), desk.path("moved.git")).unwrap();
        if more[0] == "--workflow-run=port" {
            assert_eq!(cleanup(&desk, "workspace"), json!([]));
            assert!(workspace.join("unsaved").exists());
            continue;
        }
        forget(&desk, Some("/nowhere/at/all"));
        assert_eq!(cleanup(&desk, "session"), json!([]), "{more:?}");
        let refused = desk.say(&["session", "delete", "port"]);
        assert!(refused.code == 1 && refused.err.contains("nowhere else"), "{more:?}: {}", refused.err);
        assert!(workspace.join("unsaved").exists());
        assert_eq!(desk.say(&["session", "delete", "port", "--force"]).code, 0);
        assert!(!desk.path(".longhaul/sessions/port").exists());
    }
}

/// D17.3: what stands in a session counts, not only what its notes say.
#[test]
fn what_the_notes_do_not_know_stays() {
    let desk = repository();
    let (_, workspace) = run(&desk, &PARALLEL);
    forget(&desk, None);
    std::fs::write(workspace.join("unsaved"), "x").unwrap();
    assert_eq!(cleanup(&desk, "session"), json!([]));
    let refused = desk.say(&["session", "delete", "port"]);
    let place = format!("nowhere else, in {}\n", workspace.display());
    assert!(refused.code == 1 && refused.err.contains(&place), "{}", refused.err);
    let aside = desk.path(".longhaul/sessions/port/workspace.set-aside-1");
    std::fs::create_dir(&aside).unwrap();
    std::fs::rename(workspace.join("unsaved"), aside.join("unsaved")).unwrap();
    assert_eq!(cleanup(&desk, "session"), json!([]), "what was set aside is work, too");
    std::fs::remove_file(aside.join("unsaved")).unwrap();
    assert_eq!(cleanup(&desk, "session"), json!(["port"]));
    assert_eq!(git_in(&desk.path(""), &["worktree", "list"]).lines().count(), 1, "it is forgotten too");
}

/// D17.3: outside of a repository a session is the only copy of what was made there: it goes when it is named, or is empty.
#[test]
fn a_session_outside_of_a_repository_goes_when_it_is_named() {
    let desk = Desk::with_script(SCRIPT);
    let (_, workspace) = run(&desk, &["--session=port"]);
    let cleaned = desk.say(&["session", "cleanup", "--older-than=1ms"]);
    assert!(cleaned.code == 0 && cleaned.out.is_empty(), "{}", cleaned.out);
    assert!(
        cleaned.err.contains("session port has changes that are nowhere else and stays"),
        "{}",
        cleaned.err
    );
    assert_eq!(std::fs::read_to_string(workspace.join("notes")).unwrap(), "line\n");
    std::fs::remove_file(workspace.join("notes")).unwrap();
    assert_eq!(cleanup(&desk, "session"), json!(["port"]), "it is empty");
    run(&desk, &["--session=port"]);
    assert_eq!(desk.say(&["session", "delete", "port"]).code, 0);
    assert!(!desk.path(".longhaul/sessions/port").exists());
}

/// D17.1, D17.2, D17.3: a session whose notes are damaged is named, keeps nobody from the others, and goes by force.
#[test]
fn a_damaged_session_keeps_nobody_from_the_others() {
    let desk = repository();
    run(&desk, &["--session=port"]);
    let (_, other) = run(&desk, &["--session=other"]);
    run(&desk, &["--workflow-run=flow"]);
    for damaged in ["sessions/port", "workspace/workflow/flow"] {
        std::fs::write(desk.path(&format!(".longhaul/{damaged}/session.json")), "").unwrap();
    }
    let listed = desk.json(&["session", "list"]);
    let column =
        |key: &str| [&listed[0][key], &listed[1][key]].map(|value| value.as_str().unwrap().to_owned());
    assert_eq!(
        (column("name"), column("status")[1].as_str()),
        (["other".into(), "port".into()], "cannot be read")
    );
    let said = desk.say(&["session", "list"]);
    assert!(said.code == 0 && said.out.contains("other "), "{}", said.out);
    assert!(
        said.err.contains("session port: cannot read") && said.err.contains("session.json"),
        "{}",
        said.err
    );
    assert_eq!(desk.say(&["workspace", "cleanup", "--older-than=1ms"]).code, 0);
    assert_eq!(cleanup(&desk, "session"), json!(["other"]));
    assert!(!other.exists() && desk.path(".longhaul/sessions/port/workspace/notes").exists());
    let refused = desk.say(&["session", "delete", "port"]);
    assert!(refused.code == 1 && refused.err.contains("--force"), "{}", refused.err);
    let forced = desk.say(&["session", "delete", "port", "--force"]);
    assert_eq!(forced.code, 0, "{}", forced.err);
    assert!(!desk.path(".longhaul/sessions/port").exists());
    let listed = git_in(&desk.path(""), &["worktree", "list"]);
    assert!(!listed.contains("sessions"), "{listed}");
}

/// D16.3: a run that was killed before its session knew of it is known when it is driven, once, and merged.
#[test]
fn a_run_is_noted_when_it_is_driven() {
    let desk = repository();
    let fixed = ["create", "--task=x", "--model=scripted/s.yaml", "--agent=left"];
    let id = desk.json(&[&fixed[..], &PARALLEL].concat())["id"].clone();
    forget(&desk, None);
    assert_eq!(desk.say(&["start", id.as_str().unwrap()]).code, 0);
    let runs = desk.json(&["session", "info", "port"])["runs"].clone();
    assert_eq!((runs.as_array().unwrap().len(), &runs[0]["run"]), (1, &id));
    assert_eq!(runs[0]["branch"], "agent/port/left");
    assert_eq!(desk.json(&["merge", "--session=port"])["merged"], json!([id]));
}

/// D14.8: a commit that no branch has is nowhere else, however clean the files are.
#[test]
fn a_commit_on_no_branch_stays() {
    let desk = repository();
    let (_, astray) = run(&desk, &["--agent=astray"]);
    assert_eq!(git_in(&astray, &["status", "--porcelain"]), "", "void: it is not committed");
    assert_ne!(git_in(&astray, &["rev-parse", "HEAD"]), git_in(&desk.path(""), &["rev-parse", "HEAD"]));
    assert_eq!(cleanup(&desk, "workspace"), json!([]));
    git_in(&astray, &["branch", "found"]);
    assert_eq!(cleanup(&desk, "workspace").as_array().unwrap().len(), 1);
    assert_eq!(git_in(&desk.path(""), &["show", "found:notes"]), "astray");
}

/// D14.8: the rest of a removal that was killed goes, and not what has come to stand in that place since.
#[test]
fn what_a_removal_left_does_not_take_a_workspace_with_it() {
    let desk = repository();
    let (id, workspace) = run(&desk, &[]);
    std::fs::write(workspace.join("unsaved"), "x").unwrap();
    let left = workspace.with_file_name(format!("{id}.removing"));
    std::fs::create_dir(&left).unwrap();
    assert_eq!(desk.json(&["workspace", "cleanup"])["removed"], json!([id]));
    assert!(!left.exists() && workspace.join("unsaved").exists());
    assert_eq!(git_in(&workspace, &["status", "--porcelain"]), "?? unsaved", "it is a worktree still");
}

/// D14.8: outside of a repository a workspace is the only copy of what was made there, and is not taken away by itself.
#[test]
fn the_only_copy_is_not_taken_away_unasked() {
    let desk = Desk::with_script(SCRIPT);
    desk.write("longhaul.yaml", "workspace: { cleanup_on_complete: true }\n");
    let (id, workspace) = run(&desk, &[]);
    assert_eq!(std::fs::read_to_string(workspace.join("notes")).unwrap(), "line\n");
    assert_eq!(cleanup(&desk, "workspace"), json!([id]), "asked for, it goes");
}

/// D16.3: what an agent makes of a conflict is taken as git stores it: a file that is stored through a filter stays as it is, or the
/// merge is refused.
#[test]
fn a_resolution_has_nothing_that_a_filter_should_have_seen() {
    let desk = repository();
    let top = desk.path("");
    git_in(&top, &["config", "filter.crypt.clean", "sed s/plain/cipher/"]);
    git_in(&top, &["config", "filter.crypt.smudge", "sed s/cipher/plain/"]);
    desk.write(".gitattributes", "*.bin filter=crypt\n");
    desk.write("secret.bin", "plain\n");
    git_in(&top, &["add", "."]);
    git_in(&top, &["commit", "-q", "-m", "secret"]);
    git_in(&top, &["branch", "next"]);
    for agent in ["left", "right"] {
        let (_, workspace) = run(&desk, &[&PARALLEL[..], &["--agent", agent]].concat());
        // As old as it would be after an hour's work, so that git need not look into it again.
        let mut touch = Command::new("touch");
        touch.args(["-d", "1 hour ago", "secret.bin"]).current_dir(&workspace);
        assert!(touch.status().unwrap().success());
        git_in(&workspace, &["status"]);
    }
    let merge = |agent: &str| {
        let fixed = ["merge", "--session=port", "--into=next", "--model=scripted/s.yaml", "--agent", agent];
        desk.say(&fixed)
    };
    let before = git_in(&top, &["rev-parse", "next"]);
    let leaked = merge("leaker");
    assert!(leaked.code == 1 && leaked.err.contains("no filter is run here: secret.bin"), "{}", leaked.err);
    assert_eq!(git_in(&top, &["rev-parse", "next"]), before);
    let merged = merge("peacemaker");
    assert_eq!(merged.code, 0, "{}", merged.err);
    assert_eq!(git_in(&top, &["show", "next:a.txt", "next:secret.bin"]), "both\ncipher");
}

/// D14.5: a session and a workflow of one name are merged in different places.
#[test]
fn a_session_and_a_workflow_of_one_name_do_not_meet() {
    let desk = repository();
    let place = |home: [&str; 2]| {
        let fixed = ["--collaboration=parallel", "--agent=left"];
        run(&desk, &[&home[..], &fixed].concat());
        let said = desk.say(&["merge", home[0], home[1], "--verify", "echo at $(pwd); exit 3"]);
        let at = said.err.lines().find_map(|line| line.split_once("at /")).map(|(_, at)| at.to_owned());
        at.unwrap_or_else(|| panic!("{}", said.err))
    };
    let (session, workflow) = (place(["--session", "port"]), place(["--workflow-run", "port"]));
    assert_ne!(session, workflow);
}
