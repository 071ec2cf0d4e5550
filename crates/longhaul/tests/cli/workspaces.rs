//! Where runs work: with whom that is shared, how it is prepared, and when it is taken away.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::desk::Desk;

/// One line more in a file, and that file as the agent sees it.
const ADDS: &str = r#"
name: adds
prices: { input: 3.00, output: 15.00 }
conversations:
  - match: { agent: asks }
    turns:
      - calls: [ { tool: ask_human, args: { question: "Which?" } } ]
      - text: "Done."
  - turns:
      - calls: [ { tool: bash, args: { command: "echo line >> notes; cat notes" } } ]
        usage: { input: 1000, output: 10 }
      - text: "Done."
        usage: { input: 1000, output: 10 }
"#;

fn git(desk: &Desk, args: &[&str]) -> String {
    let who = ["-c", "user.name=x", "-c", "user.email=x@x"];
    let done = Command::new("git").args(who).args(args).current_dir(desk.path("")).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().trim_end().to_owned()
}

/// A repository whose user has these settings of their own.
fn repository(settings: &str) -> Desk {
    let desk = Desk::with_script(ADDS);
    desk.write(".gitignore", ".config\ndeps\n");
    git(&desk, &["init", "-q", "--initial-branch=main"]);
    git(&desk, &["add", "."]);
    git(&desk, &["commit", "-q", "-m", "first"]);
    set(&desk, settings);
    desk
}

fn set(desk: &Desk, settings: &str) {
    std::fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", settings);
}

fn run(desk: &Desk, more: &[&str]) -> Value {
    desk.json(&[&["run", "x", "--model", "scripted/s.yaml"], more].concat())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Where a run works, below the state directory, with its name taken out.
fn place(shown: &Value) -> String {
    let (workspace, id) = (text(&shown["workspace"]), text(&shown["id"]));
    workspace.split_once("/.longhaul/").unwrap().1.replace(&id, "ID")
}

/// D12.2, D13.7, D14.1, D14.6, D14.7: a session goes before a workflow, a workflow before the run; the three modes have three places,
/// by what is typed and not by the agent's file.
#[test]
fn the_mode_says_with_whom_a_workspace_is_shared() {
    let desk = repository("");
    let table: [(&str, &[&str], &str); 7] = [
        ("per_workflow", &[], "workspace/run/ID"),
        ("per_workflow", &["--workflow-run=w1"], "workspace/workflow/w1/workspace"),
        ("per_workflow", &["--workflow-run=w1", "--session=s"], "sessions/s/workspace"),
        ("per_run", &["--workflow-run=w1"], "workspace/run/ID"),
        ("per_run", &["--workflow-run=w1", "--session=s"], "sessions/s/workspace"),
        ("shared", &["--workflow-run=w1"], "workspace/shared/workspace"),
        ("shared", &["--session=s"], "sessions/s/workspace"),
    ];
    for (mode, more, expected) in table {
        set(&desk, &format!("workspace: {{ isolation_mode: {mode} }}"));
        let shown = run(&desk, more);
        assert_eq!(place(&shown), expected, "{mode} {more:?}");
    }
    // Two steps of a workflow see the same files and commits; another workflow does not.
    set(&desk, "");
    let notes =
        |shown: &Value| std::fs::read_to_string(Path::new(&text(&shown["workspace"])).join("notes")).unwrap();
    let (second, other) = (run(&desk, &["--workflow-run=w1"]), run(&desk, &["--workflow-run=w2"]));
    assert_eq!((notes(&second).as_str(), notes(&other).as_str()), ("line\nline\n", "line\n"));
    assert_eq!(
        (text(&second["branch"]), text(&other["branch"])),
        ("agent/workflow-w1".into(), "agent/workflow-w2".into())
    );
    // They go when they have ended, the session stays.
    std::fs::write(Path::new(&text(&other["workspace"])).join("unsaved"), "x").unwrap();
    let cleaned = |more: &[&str]| {
        desk.json(&[&["workspace", "cleanup", "--older-than=1ms"], more].concat())["removed"].clone()
    };
    let names = cleaned(&["--dry-run"]);
    assert!(names.as_array().unwrap().contains(&json!("workflow/w1")), "{names}");
    assert_eq!(cleaned(&[]), names);
    assert!(
        !Path::new(&text(&second["workspace"])).exists() && Path::new(&text(&other["workspace"])).exists()
    );
    assert!(desk.path(".longhaul/sessions/s/workspace").exists());
    let left = git(&desk, &["worktree", "list"]);
    assert_eq!(left.lines().count(), 4, "here, w2, what all share, and the session: {left}");
    for settings in [
        "workspace: { isolation_mode: alone }",
        "git: { collaboration: both }",
        "git: { workflow_branch_strategy: x }",
    ] {
        set(&desk, settings);
        let refused = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
        assert!(
            refused.code == 2 && refused.err.contains("longhaul.yaml: it is "),
            "{settings}: {}",
            refused.err
        );
    }
    assert_eq!(git(&desk, &["status", "--porcelain"]), "");
}

/// D13.8: what a run was started with is shown with it.
#[test]
fn a_run_shows_what_it_was_started_with() {
    let desk = repository("");
    let shown = run(&desk, &["--session=s", "--workflow-run=w1", "--agent=someone"]);
    let context = &desk.json(&["show", &text(&shown["id"])])["executionContext"];
    let source = json!({
        "url": desk.path("").canonicalize().unwrap(), "branch": "agent/session-s", "ref": git(&desk, &["rev-parse", "HEAD"]), "depth": null,
    });
    assert_eq!(
        context,
        &json!({
            "sessionId": "s", "workflowRunId": "w1", "agentRunId": shown["id"], "agentName": "someone", "task": "x", "gitSource": source,
        })
    );
}

/// D2.3, D2.4, D2.5, D14.8: the defaults as they are printed.
#[test]
fn the_defaults_are_printed() {
    let desk = Desk::with_script(ADDS);
    let shown = desk.json(&["config", "show"]);
    for (key, value) in [
        ("compaction.enabled", json!(true)),
        ("compaction.threshold", json!(0.85)),
        ("compaction.protect_tokens", json!(40000)),
        ("git.auto_branch", json!(true)),
        ("git.auto_commit", json!(true)),
        ("git.branch_prefix", json!("agent/")),
        ("git.require_approval", json!(true)),
        ("git.workflow_branch_strategy", json!("shared")),
        ("git.collaboration", json!("sequential")),
        ("git.working_branch", json!(null)),
        ("workspace.isolation_mode", json!("per_workflow")),
        ("workspace.cleanup_on_complete", json!(false)),
        ("workspace.cleanup_after", json!("24h")),
        ("workspace.setup", json!([])),
        ("nats.kv_bucket", json!("harness-state")),
        ("nats.object_bucket", json!("harness-files")),
        ("nats.max_file_size", json!("100MB")),
        ("nats.ttl", json!("24h")),
        ("nats.enabled", json!(false)),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    // What does nothing yet does not pretend to.
    set(&desk, "nats: { enabled: true, kv_bucket: mine }");
    let shown = desk.say(&["config", "show", "--json"]);
    assert!(shown.err.contains("nothing here keeps runs in NATS yet"), "{}", shown.err);
    assert_eq!(serde_json::from_str::<Value>(&shown.out).unwrap()["nats.kv_bucket"], "mine");
}

/// D14.8: a completed run's own workspace is taken away if that is wanted, unless something there is nowhere else; sessions stay.
#[test]
fn a_workspace_goes_with_its_run_if_that_is_wanted() {
    let desk = repository("workspace: { cleanup_on_complete: true }");
    let (own, session) = (run(&desk, &[]), run(&desk, &["--session=s"]));
    assert!(!Path::new(&text(&own["workspace"])).exists());
    assert!(Path::new(&text(&session["workspace"])).exists());
    assert_eq!(git(&desk, &["worktree", "list"]).lines().count(), 2);
    let id = text(&own["id"]);
    assert_eq!(desk.get(&["diff", &id, "--name-only"]), "notes\n", "its branch is there");
    assert!(desk.get(&["result", &id]).contains("notes | 1 +"));
    set(&desk, "workspace: { cleanup_on_complete: true }\ngit: { auto_commit: false }");
    let unsaved = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--json"]);
    assert!(unsaved.err.contains("has changes that are nowhere else and stays"), "{}", unsaved.err);
    let shown: Value = serde_json::from_str(&unsaved.out).unwrap();
    assert!(Path::new(&text(&shown["workspace"])).join("notes").exists());
    set(&desk, "workspace: { cleanup_after: 1ms }");
    assert_eq!(run(&desk, &[])["status"], "completed");
    assert_eq!(desk.json(&["workspace", "cleanup"])["removed"].as_array().unwrap().len(), 1);
}

/// A fresh workspace is prepared once, before the agent is asked anything: what fails is said with what was printed, is on record, and
/// can be tried again; what is done is not done again, also by the next run of a session.
#[test]
fn a_fresh_workspace_is_set_up_once() {
    let desk = repository("workspace: { setup: [\"mkdir -p deps\", \"echo ready >> deps/log\"] }");
    let first = run(&desk, &["--session=s"]);
    let log = Path::new(&text(&first["workspace"])).join("deps/log");
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ready\n");
    run(&desk, &["--session=s"]);
    assert_eq!(std::fs::read_to_string(&log).unwrap(), "ready\n");
    let kinds = |id: &Value| -> Vec<String> {
        desk.events(&text(id)).iter().map(|event| text(&event["type"])).collect()
    };
    let first = kinds(&first["id"]);
    let at = |kind: &str| first.iter().position(|found| found == kind).unwrap();
    assert!(at("setup_started") < at("setup_ended") && at("setup_ended") < at("turn_started"), "{first:?}");

    set(&desk, "workspace: { setup: \"echo no such thing; exit 3\" }");
    let refused = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(refused.code, 1);
    for words in [
        "could not be set up: `echo no such thing; exit 3`: exit code 3",
        "no such thing",
        "the agent has not begun",
    ] {
        assert!(refused.err.contains(words), "{}", refused.err);
    }
    let id = text(&desk.json(&["list"])[0]["id"]);
    let failed = desk.events(&id).into_iter().find(|event| event["type"] == "setup_ended").unwrap();
    assert_eq!(failed["success"], false);
    assert!(text(&failed["error"]).contains("no such thing"));
    let shown = desk.json(&["show", &id]);
    assert_eq!(shown["status"], "created");
    assert!(text(&shown["reason"]).contains("could not be set up: `echo no such thing; exit 3`"), "{shown}");
    let result = desk.say(&["result", &id]).out;
    assert!(result.contains("**Why it has not begun:** \n\n> its workspace could not be set up"), "{result}");
    assert!(desk.get(&["list"]).contains("created (could not begin)"));
    set(&desk, "workspace: { setup: [\"mkdir -p deps\", \"echo ready >> deps/log\"] }");
    desk.get(&["resume", &id]);
    let shown = desk.json(&["show", &id]);
    assert_eq!((&shown["status"], &shown["reason"]), (&json!("completed"), &Value::Null));
    let place = text(&shown["workspace"]);
    assert_eq!(std::fs::read_to_string(Path::new(&place).join("deps/log")).unwrap(), "ready\n");
    // A repository's own file runs nothing before it is trusted.
    set(&desk, "");
    desk.write("longhaul.yaml", "workspace: { setup: \"touch set-up\" }");
    let doubted = desk
        .command(&["run", "x", "--model", "scripted/s.yaml", "--json"])
        .env_remove("LONGHAUL_TRUST")
        .output();
    let doubted = doubted.unwrap();
    let told = String::from_utf8(doubted.stderr).unwrap();
    assert!(told.contains("sets workspace.setup, which is ignored until you trust it"), "{told}");
    let shown: Value = serde_json::from_slice(&doubted.stdout).unwrap();
    assert!(!Path::new(&text(&shown["workspace"])).join("set-up").exists());
    // In the background nobody would see that it is left out.
    let mut hidden = desk.command(&["run", "x", "--model", "scripted/s.yaml", "--detach"]);
    let hidden = hidden.env_remove("LONGHAUL_TRUST").output().unwrap();
    let told = String::from_utf8(hidden.stderr).unwrap();
    assert_eq!(hidden.status.code(), Some(2), "{told}");
    assert!(told.contains("was not started") && told.contains("`longhaul trust`"), "{told}");
    // Here is the user's own to prepare.
    assert!(run(&desk, &["--in-place"])["status"] == "completed" && !desk.path("set-up").exists());
}

/// D14.8: what a run left that was removed is listed, and cleaned up by the same rules: work that no branch has stays.
#[test]
fn what_removed_runs_left_is_listed_and_cleaned_up() {
    let desk = repository("");
    let (saved, unsaved) = (run(&desk, &[]), run(&desk, &[]));
    let [place, kept] = [&saved, &unsaved].map(|run| std::path::PathBuf::from(text(&run["workspace"])));
    std::fs::write(kept.join("nowhere-else"), "work").unwrap();
    let (id, other) = (text(&saved["id"]), text(&unsaved["id"]));
    desk.get(&["rm", &id, &other]);
    let listed = desk.json(&["workspace", "list"])["workspaces"].clone();
    let states: Vec<&Value> = listed.as_array().unwrap().iter().map(|found| &found["status"]).collect();
    assert_eq!(states, [&json!("removed"), &json!("removed")], "{listed}");
    assert!(desk.get(&["workspace", "list"]).contains("removed"));
    assert_eq!(desk.json(&["workspace", "cleanup", "--older-than", "1h"])["removed"], json!([]));
    set(&desk, "workspace: { cleanup_after: 1ms }");
    assert_eq!(desk.json(&["workspace", "cleanup", "--dry-run"])["removed"], json!([id]));
    assert!(place.exists());
    let cleaned = desk.say(&["workspace", "cleanup", "--json"]);
    let said: Value = serde_json::from_str(&cleaned.out).unwrap();
    assert_eq!(said["removed"], json!([id]));
    assert!(cleaned.err.contains(&format!("{other} has changes that are nowhere else")), "{}", cleaned.err);
    assert!(!place.exists() && kept.join("nowhere-else").exists());
    let worktrees = git(&desk, &["worktree", "list"]);
    assert!(!worktrees.contains(&id) && worktrees.contains(&other), "{worktrees}");
}

/// D11.16: a checkpoint whose files are stored after its commit, which a rewind to it cuts off, has them the second time, too.
#[test]
fn a_step_that_was_verified_and_committed_is_gone_back_to_twice() {
    let desk = repository("");
    let steps = "steps:\n  - { id: one, description: One., verify: [\"true\"] }\n  - { id: two, description: Two., dependencies: [one] }\n";
    desk.write("plan.yaml", steps);
    let done = run(&desk, &["--plan=plan.yaml"]);
    let (id, notes) = (text(&done["id"]), Path::new(&text(&done["workspace"])).join("notes"));
    let read = || std::fs::read_to_string(&notes).unwrap();
    assert_eq!(read(), "line\nline\n");
    for round in 0..3 {
        let said = desk.say(&["rewind", &id, "--to", "1"]);
        assert_eq!(said.code, 0, "round {round}: {}", said.err);
        assert_eq!(read(), "line\n", "round {round}");
        if round > 0 {
            assert_eq!(desk.say(&["resume", &id]).code, 0);
            assert_eq!(read(), "line\nline\n");
        }
    }
}

/// D11.16: where a run worked in place may be gone: then it is not rewound, and the fork that is named instead works.
#[test]
fn a_run_whose_workspace_is_gone_is_forked() {
    let desk = repository("");
    let id = in_part(&desk);
    std::fs::remove_dir_all(desk.path("part")).unwrap();
    let said = desk.say(&["rewind", &id, "--to", "1"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(
        said.err.contains("is gone") && said.err.contains(&format!("longhaul fork {id} --at N")),
        "{}",
        said.err
    );
    assert!(desk.say(&["diff", &id]).err.contains(&format!("where {id} worked, is gone")));
    let fork = desk.json(&["fork", &id, "--at", "1"]);
    assert!(Path::new(&text(&fork["workspace"])).join("notes").exists());
    assert!(!desk.path("part").exists());
    // A worktree that was cleaned away is forked onto a branch as the settings name it.
    set(&desk, "workspace: { cleanup_after: 1ms }\ngit: { branch_prefix: mine/ }");
    let id = text(&run(&desk, &[])["id"]);
    assert_eq!(desk.json(&["workspace", "cleanup"])["removed"], json!([id]));
    let fork = desk.json(&["fork", &id, "--at", "1"]);
    assert!(Path::new(&text(&fork["workspace"])).join("notes").exists());
}

/// A run that worked in place in `part`, a directory of the repository.
fn in_part(desk: &Desk) -> String {
    std::fs::create_dir(desk.path("part")).unwrap();
    desk.write("part/kept", "of the user\n");
    let mut run = desk.command(&["run", "x", "--in-place", "--model", "scripted/../s.yaml", "--json"]);
    let done = run.current_dir(desk.path("part")).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    text(&serde_json::from_slice::<Value>(&done.stdout).unwrap()["id"])
}

/// D11.16: a fork of what worked in a part of a checkout has the files of that part, and no branch; what it makes comes back as a patch,
/// as is said. The checkout stays as it is.
#[test]
fn a_fork_of_what_worked_in_a_part_comes_back_as_a_patch() {
    let desk = repository("");
    let id = in_part(&desk);
    let before = git(&desk, &["status", "--porcelain", "-uall"]);
    let said = desk.say(&["fork", &id, "--at", "1", "--json"]);
    let fork: Value = serde_json::from_str(&said.out).unwrap();
    let (new, place) = (text(&fork["id"]), text(&fork["workspace"]));
    assert!(said.err.contains("so the fork has no branch there"), "{}", said.err);
    assert!(said.err.contains(&format!("`longhaul diff {new}`")), "{}", said.err);
    assert!(said.err.contains("`git apply --directory=part`"), "{}", said.err);
    assert_eq!(
        (&fork["branch"], git(&desk, &["branch", "--list", "agent/*"])),
        (&Value::Null, String::new())
    );
    assert_eq!(std::fs::read_to_string(Path::new(&place).join("kept")).unwrap(), "of the user\n");
    assert_eq!(desk.get(&["diff", &new]), "", "what the first run made is not the fork's");
    std::fs::write(Path::new(&place).join("notes"), "of the fork\n").unwrap();
    assert_eq!(git(&desk, &["status", "--porcelain", "-uall"]), before);
    std::fs::write(desk.elsewhere("patch"), desk.get(&["diff", &new])).unwrap();
    git(&desk, &["apply", "--directory=part", &desk.elsewhere("patch").display().to_string()]);
    assert_eq!(std::fs::read_to_string(desk.path("part/notes")).unwrap(), "of the fork\n");
}

/// D11.16: a fork of what worked in place in a checkout has a branch by which its work comes back.
#[test]
fn a_fork_of_what_worked_in_place_can_be_merged() {
    let desk = repository("");
    let id = text(&run(&desk, &["--in-place"])["id"]);
    let before = git(&desk, &["status", "--porcelain"]);
    let fork = desk.json(&["fork", &id, "--at", "1"]);
    let (new, place) = (text(&fork["id"]), text(&fork["workspace"]));
    assert!(git(&desk, &["worktree", "list"]).contains(&new), "{fork}");
    assert!(Path::new(&place).join("notes").exists());
    assert_eq!(git(&desk, &["status", "--porcelain"]), before);
    assert_eq!(desk.say(&["resume", &new]).code, 0);
    assert!(desk.get(&["diff", &new, "--name-only"]).contains("notes"));
}

/// D14.3: a path that is to be copied and is not there is named; changes cannot be carried in where nobody knows of any.
#[test]
fn what_cannot_be_carried_in_is_said() {
    let desk = repository("workspace: { copy: [deps, no-such-deps] }");
    desk.write("deps", "x");
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
    assert!(said.code == 0 && said.err.contains("workspace.copy names `no-such-deps`"), "{}", said.err);
    assert!(!said.err.contains("names `deps`"), "{}", said.err);
    let plain = Desk::with_script(ADDS);
    let said = plain.say(&["run", "x", "--model", "scripted/s.yaml", "--with-changes"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("is in no git repository") && said.err.contains("--in-place"), "{}", said.err);
}

/// A run whose workspace is being prepared is paused and stopped like any other, from wherever that is asked, and goes on later.
#[test]
fn a_run_that_is_being_set_up_can_be_paused_and_stopped() {
    let desk = repository("workspace: { setup: \"sleep 60\" }");
    let mut process = begun(&desk, &["run", "x", "--model", "scripted/s.yaml"]);
    eventually(|| (set_ups(&desk, "") == 1).then_some(()));
    let id = text(&desk.json(&["list"])[0]["id"]);
    assert_eq!(desk.json(&["pause", &id, "--reason=later"])["status"], "paused");
    assert_eq!(process.wait().unwrap().code(), Some(3));
    let mut process = begun(&desk, &["resume", &id]);
    eventually(|| (set_ups(&desk, "") == 2).then_some(()));
    assert_eq!(desk.json(&["pause", &id, "--reason=still later"])["reason"], "still later");
    assert_eq!(process.wait().unwrap().code(), Some(3));
    set(&desk, "workspace: { setup: \"echo ready > deps\" }");
    desk.get(&["resume", &id]);
    let shown = desk.json(&["show", &id]);
    assert_eq!(shown["status"], "completed");
    assert!(Path::new(&text(&shown["workspace"])).join("deps").exists());

    set(&desk, "workspace: { setup: \"sleep 60\" }");
    let mut process = begun(&desk, &["run", "x", "--model", "scripted/s.yaml"]);
    eventually(|| (set_ups(&desk, "") == 4).then_some(()));
    let rows = desk.json(&["list"]);
    let id = text(&rows.as_array().unwrap().iter().find(|row| row["id"] != json!(id)).unwrap()["id"]);
    assert_eq!(desk.json(&["stop", &id])["status"], "failed");
    assert_eq!(process.wait().unwrap().code(), Some(1));
    assert!(!kinds(&desk, &id).contains(&"turn_started".to_owned()));
}

/// A sub-agent whose workspace is being prepared rests with its parent, however often, and goes on with it. Of one that never began,
/// because that failed, nothing is left.
#[test]
fn a_sub_agent_that_is_being_set_up_rests_with_its_parent() {
    let desk = repository(&apart("*.1) sleep 60"));
    std::fs::create_dir_all(desk.path("agents")).unwrap();
    desk.write("agents/helper.md", "---\ndescription: helps\n---\nYou help.\n");
    let steps = json!({ "steps": [{ "id": "one", "description": "do one", "agent": "helper" }] });
    desk.write("plan.json", &steps.to_string());
    let args = ["run", "x", "--model", "scripted/s.yaml", "--plan=plan.json"];
    let mut process = begun(&desk, &args);
    eventually(|| (set_ups(&desk, ".1") == 1).then_some(()));
    let rows = desk.json(&["list"]);
    let parent = rows.as_array().unwrap().iter().find(|row| row["parentId"].is_null()).unwrap();
    let id = text(&parent["id"]);
    for times in 2..4 {
        desk.get(&["pause", &id]);
        process.wait().unwrap();
        process = begun(&desk, &["resume", &id]);
        eventually(|| (set_ups(&desk, ".1") == times).then_some(()));
    }
    desk.get(&["pause", &id]);
    process.wait().unwrap();
    set(&desk, &apart("x) true"));
    desk.get(&["resume", &id]);
    let shown = desk.json(&["show", &id]);
    assert_eq!((&shown["status"], &shown["subAgentCount"]), (&json!("completed"), &json!(1)));

    let before = (git(&desk, &["worktree", "list"]), git(&desk, &["branch", "--list", "agent/*"]));
    set(&desk, &apart("*.1|*.2) exit 3"));
    assert_eq!(desk.say(&args).code, 1);
    let after = (git(&desk, &["worktree", "list"]), git(&desk, &["branch", "--list", "agent/*"]));
    let more =
        |of: fn(&(String, String)) -> &String| of(&after).lines().count() - of(&before).lines().count();
    assert_eq!((more(|both| &both.0), more(|both| &both.1)), (1, 1), "the parent's: {after:?}");
}

/// Settings for sub-agents with a branch each, whose workspaces are prepared by how they are called.
fn apart(case: &str) -> String {
    let setup = format!("case $PWD in {case};; esac");
    format!("git: {{ workflow_branch_strategy: per_agent }}\nworkspace: {{ setup: \"{setup}\" }}")
}

fn begun(desk: &Desk, args: &[&str]) -> std::process::Child {
    desk.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "it did not come about");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn kinds(desk: &Desk, id: &str) -> Vec<String> {
    let said = desk.say(&["events", id, "--json"]);
    let events = said.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.map(|event| text(&event["type"])).collect()
}

/// How often the workspaces of runs whose names end so have begun to be prepared.
fn set_ups(desk: &Desk, end: &str) -> usize {
    let rows = desk.json(&["list"]);
    let ids = rows.as_array().unwrap().iter().map(|row| text(&row["id"])).filter(|id| id.ends_with(end));
    ids.map(|id| kinds(desk, &id).iter().filter(|kind| *kind == "setup_started").count()).sum()
}

/// What a run has changed is what it has changed, also after it was merged, and after others have worked in its session.
#[test]
fn the_result_is_the_same_after_a_merge() {
    let desk = repository("");
    let shown = run(&desk, &["--verify=echo more >> notes"]);
    let id = text(&shown["id"]);
    let result = desk.get(&["result", &id]);
    assert!(result.contains("notes | 2 ++"), "with what came after the last look: {result}");
    desk.get(&["merge", &id]);
    assert_eq!(desk.get(&["result", &id]), result);
    let (first, _) = (run(&desk, &["--session=s"]), run(&desk, &["--session=s"]));
    assert!(desk.get(&["result", &text(&first["id"])]).contains("notes | 1 +"));
}

/// A session belongs to a run that waits or is paused in it: another is told so, unless it insists or works beside it.
#[test]
fn a_session_is_kept_for_a_run_that_rests_in_it() {
    let desk = repository("");
    let waits = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--session=s", "--agent=asks"]);
    assert_eq!(waits.code, 3, "{}", waits.err);
    let id = text(&desk.json(&["list"])[0]["id"]);
    let refused = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--session=s"]);
    assert_eq!(refused.code, 7);
    assert!(
        refused
            .err
            .starts_with(&format!("error: Session locked by run {id}, which waits for a person in it\n")),
        "{}",
        refused.err
    );
    desk.get(&["pause", &id]);
    let refused = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--session=s"]);
    assert!(refused.err.contains("which is paused in it"), "{}", refused.err);
    let deleted = desk.say(&["session", "delete", "s"]);
    assert!(deleted.code == 7 && deleted.err.contains("which is paused in it"), "{}", deleted.err);
    std::thread::sleep(std::time::Duration::from_millis(2));
    assert_eq!(desk.json(&["session", "cleanup", "--older-than=1ms"])["removed"], json!([]));
    assert_eq!(run(&desk, &["--session=s", "--collaboration=parallel"])["status"], "completed");
    assert_eq!(run(&desk, &["--session=s", "--force"])["status"], "completed");
    desk.get(&["stop", &id]);
    assert_eq!(run(&desk, &["--session=s"])["status"], "completed");
}

/// D2.1, D2.2: a file with everything within `harness` is read as it is and shown again; what is held there is held, and no section
/// escapes its rules by standing elsewhere.
#[test]
fn sections_may_stand_within_harness() {
    let desk = repository(
        "harness:
  workspace: { path: ./workspace, mode: sandbox }
  compaction: { enabled: true, threshold: 0.8, protect_tokens: 30000 }
  git: { auto_branch: true, branch_prefix: bots/, auto_commit: false, require_approval: true, workflow_branch_strategy: shared }
  nats: { enabled: false, kv_bucket: harness-state, object_bucket: harness-files, max_file_size: 104857600, ttl: 24h }
  permissions: { external_directory: deny }
",
    );
    let shown = desk.command(&["config", "show", "--json"]).env_remove("LONGHAUL_SANDBOX").output().unwrap();
    let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
    for (key, value) in [
        ("workspace.path", json!("./workspace")),
        ("workspace.mode", json!("sandbox")),
        ("permissions.sandbox", json!("required")),
        ("compaction.threshold", json!(0.8)),
        ("compaction.protect_tokens", json!(30000)),
        ("git.branch_prefix", json!("bots/")),
        ("git.auto_commit", json!(false)),
        ("nats.max_file_size", json!(104_857_600)),
    ] {
        assert_eq!(shown[key], value, "{key}");
    }
    let run = run(&desk, &[]);
    assert!(text(&run["branch"]).starts_with("bots/x-coder-") && run["commit"].is_null());
    for (settings, words) in [
        (
            "harness: { git: { auto_commit: false } }\ngit: { auto_branch: false }",
            "git stands twice, once within harness",
        ),
        ("workspace: { mode: both }", "it is sandbox or host, not \"both\""),
        ("workspace: { path: /elsewhere }", "workspaces are in `workspace` of the state directory"),
    ] {
        set(&desk, settings);
        let refused = desk.say(&["config", "show"]);
        assert!(refused.code == 2 && refused.err.contains(words), "{settings}: {}", refused.err);
    }
    // A repository's own file loosens nothing and runs nothing, wherever it says so.
    set(&desk, "");
    desk.write("longhaul.yaml", "harness: { workspace: { mode: host } }");
    let refused = desk.command(&["config", "show"]).env_remove("LONGHAUL_SANDBOX").output().unwrap();
    assert!(
        String::from_utf8(refused.stderr)
            .unwrap()
            .contains("a project's settings may not loosen `required` to `off`")
    );
    desk.write("longhaul.yaml", "harness: { workspace: { setup: \"touch set-up\" } }");
    let doubted = desk.command(&["config", "show"]).env_remove("LONGHAUL_TRUST").output().unwrap();
    assert!(
        String::from_utf8(doubted.stderr)
            .unwrap()
            .contains("sets workspace.setup, which is ignored until you trust it")
    );
}
