//! Task lists as a user meets them: what is wrapped, what is written back, and what a kill leaves.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::desk::Desk;

/// A task's words decide what becomes of it.
const SCRIPT: &str = r#"
conversations:
  - match: { prompt_contains: "BREAKS" }
    turns: [ { fail: [ { fatal: "it is broken" } ], text: never } ]
  - match: { prompt_contains: "STANDS STILL" }
    turns:
      - calls: [ { tool: bash, args: { command: "echo x >> begun; while [ -e begun ] && [ ! -e go ]; do sleep 0.05; done" } } ]
      - text: "It went on."
  - match: { prompt_contains: "ENDLESS" }
    turns: [ { calls: [ { tool: read, args: { path: s.yaml } } ] } ]
  - match: { prompt_contains: "The first is done." }
    turns: [ { text: "I read what the first left." } ]
  - match: { prompt_contains: "First" }
    turns: [ { text: "The first is done." } ]
  - turns: [ { text: "Done." } ]
"#;

const RUN: [&str; 5] = ["tasks", "run", "prd.json", "--model", "scripted/s.yaml"];

fn desk_with(list: &str) -> Desk {
    let desk = Desk::with_script(SCRIPT);
    desk.write("prd.json", list);
    desk
}

fn with_tasks(tasks: &Value) -> Desk {
    desk_with(&serde_json::to_string_pretty(&json!({ "tasks": tasks })).unwrap())
}

fn task(desk: &Desk, id: &str) -> Value {
    let list: Value = serde_json::from_str(&text(desk)).unwrap();
    list["tasks"].as_array().unwrap().iter().find(|task| task["id"] == id).unwrap().clone()
}

fn text(desk: &Desk) -> String {
    std::fs::read_to_string(desk.path("prd.json")).unwrap()
}

fn until_begun(desk: &Desk) {
    let began = Instant::now();
    while !desk.path("begun").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the task never began");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A7.1, A7.2, AF1, AQ4, AP20: exactly the marked and the long tasks become runs; results come back in the form of the list, and
/// nothing else in it changes.
#[test]
fn long_tasks_become_runs_and_others_do_not() {
    let desk = desk_with(
        r#"{
  "meta": { "name": "p", "version": "1", "ours": [1, 2.50] },
  "tasks": [
    { "id": "last", "title": "Last", "dependencies": ["first"], "phase": 2, "custom": {"z": 1, "a": 2} },
    { "id": "first", "title": "First", "phase": 1, "status": "pending", "attempts": 0 },
    { "id": "marked", "title": "Marked", "longRunning": true, "phase": 3 },
    { "id": "long", "title": "Long", "estimatedMinutes": 10.5, "phase": 3 },
    { "id": "short", "title": "Short", "estimatedMinutes": 10, "longRunning": false, "phase": 3 }
  ]
}
"#,
    );
    let before = text(&desk);
    let explained = desk.json(&["tasks", "run", "prd.json", "--explain"]);
    let wrapped: Vec<(&str, bool)> = explained
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["id"].as_str().unwrap(), row["wrapped"].as_bool().unwrap()))
        .collect();
    assert_eq!(
        wrapped,
        [("last", false), ("first", false), ("marked", true), ("long", true), ("short", false)]
    );
    assert!(
        explained[3]["why"].as_str().unwrap().contains("10.5 minutes is above the threshold of 10"),
        "{explained}"
    );
    assert_eq!((text(&desk), desk.path(".longhaul").exists()), (before, false), "nothing is done");

    let said = desk.say(&RUN);
    assert_eq!(said.code, 0, "{}", said.err);
    let runs = desk.json(&["list"]);
    let mut of: Vec<&str> =
        runs.as_array().unwrap().iter().map(|run| run["taskId"].as_str().unwrap()).collect();
    of.sort_unstable();
    assert_eq!(of, ["long", "marked"]);
    for id in ["last", "first", "marked", "long", "short"] {
        let task = task(&desk, id);
        let output = format!("prd.output/{id}.md");
        assert_eq!(
            (&task["status"], &task["output"], &task["attempts"]),
            (&json!("done"), &json!(output), &json!(1))
        );
        assert!(desk.path(&output).is_file());
    }
    assert_eq!(
        std::fs::read_to_string(desk.path("prd.output/last.md")).unwrap(),
        "I read what the first left."
    );
    assert!(
        text(&desk).contains(r#""custom": {"z": 1, "a": 2}"#) && text(&desk).contains("[1, 2.50]"),
        "{}",
        text(&desk)
    );
    assert_eq!(
        task(&desk, "marked")["runId"],
        runs.as_array().unwrap().iter().find(|run| run["taskId"] == "marked").unwrap()["id"]
    );

    // What is done is not done again.
    let (before, again) = (text(&desk), desk.say(&RUN));
    assert_eq!((again.code, text(&desk)), (0, before));
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 2);
}

/// What would have a list worked off elsewhere is refused; nothing but results is left beside it.
#[test]
fn a_list_is_worked_off_here_or_refused() {
    let desk = with_tasks(&json!([{ "id": "a", "title": "A" }]));
    let before = text(&desk);
    for more in [&["--repo", "x"][..], &["--session", "s"], &["--with-changes"], &["--engine", "off"]] {
        let refused = desk.say(&[&RUN[..], more].concat());
        assert_eq!(refused.code, 2, "{more:?}");
        assert!(refused.err.starts_with(&format!("error: {}", more[0])), "{}", refused.err);
        assert!(refused.err.contains("is for one run, and this is a list"), "{}", refused.err);
    }
    assert_eq!(text(&desk), before);
    assert_eq!(desk.say(&RUN).code, 0);
    assert!(!desk.path(".prd.json.lock").exists(), "nothing is left beside the list");
}

/// What counts towards a budget is a durable run, whatever the list says of it.
#[test]
fn with_a_budget_every_task_is_counted() {
    let desk = with_tasks(&json!([{ "id": "a", "title": "A" }]));
    desk.write("longhaul.yaml", "harness: { budget: { day: { max_cost: 1 } } }\n");
    let said = desk.say(&RUN);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        said.err.contains("harness.budget is set, and only a durable run can be counted"),
        "{}",
        said.err
    );
    assert_eq!(task(&desk, "a")["status"], "done");
    assert!(task(&desk, "a")["runId"].is_string());
}

/// A7.1: a list without long tasks leaves no state at all.
#[test]
fn direct_tasks_leave_no_state() {
    let desk = with_tasks(&json!([{ "id": "a", "title": "A" }, { "id": "b", "title": "B" }]));
    assert_eq!(desk.say(&RUN).code, 0);
    assert!(!desk.path(".longhaul").exists());
    let harness_off = with_tasks(&json!([{ "id": "a", "title": "A", "longRunning": true }]));
    harness_off.write("longhaul.yaml", "harness: { enabled: false }\n");
    assert_eq!(harness_off.say(&RUN).code, 0);
    assert!(!harness_off.path(".longhaul").exists());
    assert_eq!(task(&harness_off, "a")["status"], "done");
}

/// AF3: what fails is failed with its error, wrapped or not; all that depends on it is blocked and not worked on, the rest is
/// done; set back, it is done again.
#[test]
fn a_failure_blocks_its_dependents() {
    let desk = with_tasks(&json!([
        { "id": "wrapped", "title": "It BREAKS", "longRunning": true },
        { "id": "direct", "title": "It BREAKS" },
        { "id": "after", "title": "After", "dependencies": ["wrapped"] },
        { "id": "later", "title": "Later", "dependencies": ["after"] },
        { "id": "free", "title": "Free" },
    ]));
    let said = desk.say(&[&RUN[..], &["--json"]].concat());
    assert_eq!(said.code, 1, "{}", said.err);
    let shown: Value = serde_json::from_str(&said.out).unwrap();
    let statuses: Vec<&str> =
        shown["tasks"].as_array().unwrap().iter().map(|task| task["status"].as_str().unwrap()).collect();
    assert_eq!(statuses, ["failed", "failed", "blocked", "blocked", "done"]);
    assert!(task(&desk, "wrapped")["error"].as_str().unwrap().contains("it is broken"), "{}", text(&desk));
    assert!(!desk.path("prd.output/after.md").exists());
    assert_eq!(task(&desk, "later")["status"], "blocked");

    // The person mends it and sets it back.
    let mended = text(&desk).replace("It BREAKS", "Mended").replace("\"failed\"", "\"pending\"");
    desk.write("prd.json", &mended);
    assert_eq!(desk.say(&RUN).code, 0);
    let done = task(&desk, "wrapped");
    assert_eq!(
        (&done["attempts"], &done["error"], &task(&desk, "later")["status"]),
        (&json!(2), &Value::Null, &json!("done"))
    );
}

/// A task that fails may be tried again, and is told what went wrong.
#[test]
fn a_failed_task_is_tried_again() {
    let desk = with_tasks(&json!([{ "id": "a", "title": "ENDLESS" }]));
    let more = ["--max-attempts", "2", "--max-steps", "2"];
    let said = desk.say(&[&RUN[..], &more[..]].concat());
    assert_eq!(said.code, 1, "{}", said.err);
    let task = task(&desk, "a");
    assert_eq!((&task["attempts"], &task["status"]), (&json!(2), &json!("failed")));
    assert!(
        said.err.contains("The last attempt failed") && task["error"].as_str().unwrap().contains("max_steps"),
        "{}",
        said.err
    );
}

/// A7.1, F: after kill -9 a wrapped task goes on with the run it has, and its attempt is the same one; no second runner gets in
/// meanwhile.
#[test]
fn a_killed_wrapped_task_finds_its_run() {
    let desk = with_tasks(&json!([{ "id": "a", "title": "STANDS STILL", "longRunning": true }]));
    let mut child = desk.command(&RUN).stderr(std::process::Stdio::null()).spawn().unwrap();
    until_begun(&desk);
    let second = desk.say(&RUN);
    assert!(second.code == 7 && second.err.contains(&child.id().to_string()), "{}", second.err);
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = task(&desk, "a");
    assert_eq!((&killed["status"], &killed["attempts"]), (&json!("running"), &json!(1)));
    desk.write("go", "");
    let said = desk.say(&RUN);
    assert_eq!(said.code, 0, "{}", said.err);
    let done = task(&desk, "a");
    assert_eq!(
        (&done["status"], &done["attempts"], &done["runId"]),
        (&json!("done"), &json!(1), &killed["runId"])
    );
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 1);
    assert_eq!(std::fs::read_to_string(desk.path("prd.output/a.md")).unwrap(), "It went on.");
}

/// After kill -9 a task that was worked on directly is begun anew, and that is counted.
#[test]
fn a_killed_direct_task_is_begun_anew() {
    let desk = with_tasks(&json!([{ "id": "a", "title": "STANDS STILL" }]));
    let mut child = desk.command(&RUN).stderr(std::process::Stdio::null()).spawn().unwrap();
    until_begun(&desk);
    child.kill().unwrap();
    child.wait().unwrap();
    desk.write("go", "");
    let said = desk.say(&RUN);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!((&task(&desk, "a")["attempts"], &task(&desk, "a")["status"]), (&json!(2), &json!("done")));
    assert_eq!(std::fs::read_to_string(desk.path("begun")).unwrap(), "x\nx\n");
}

/// A4.1, AF3: a wrapped task that waits for a person stays where it is while the others are done; answered, it goes on.
#[test]
fn a_wrapped_task_waits_for_a_person() {
    let tasks = json!([
        { "id": "asks", "title": "Asks", "longRunning": true },
        { "id": "after", "title": "After", "status": "ready", "longRunning": true, "dependencies": ["asks"] },
    ]);
    let desk = with_tasks(&tasks);
    let careful = [&RUN[..], &["--autonomy", "2"]].concat();
    assert_eq!(desk.say(&careful).code, 3);
    assert_eq!(
        (&task(&desk, "asks")["status"], &task(&desk, "after")["status"]),
        (&json!("running"), &json!("pending"))
    );
    let gate = desk.json(&["approvals", "list"])[0]["id"].as_str().unwrap().to_owned();
    desk.get(&["approve", &gate]);
    assert_eq!(desk.say(&careful).code, 3, "now the second one asks");
    assert_eq!(
        (&task(&desk, "asks")["status"], &task(&desk, "after")["status"]),
        (&json!("done"), &json!("running"))
    );

    let direct = with_tasks(&json!([{ "id": "a", "title": "A" }]));
    let refused = direct.say(&careful);
    assert!(refused.code == 2 && refused.err.contains("cannot wait for a person"), "{}", refused.err);
    assert_eq!(task(&direct, "a").get("attempts"), None);
}

/// Bad input: the file, the field, exit code 2, and nothing is done.
#[test]
fn a_wrong_list_is_refused() {
    for (list, why) in [
        ("{", "not JSON"),
        (
            r#"{"tasks": [{"id": "a", "dependencies": ["b"]}]}"#,
            "tasks[0].dependencies[0]: there is no task `b`",
        ),
        (
            r#"{"tasks": [{"id": "a", "agent": "MRAS"}]}"#,
            "tasks[0].agent: there is no agent `MRAS`; did you mean `MARS`?",
        ),
        (
            r#"{"tasks": [{"id": "a", "dependencies": ["b"]}, {"id": "b", "dependencies": ["a"]}]}"#,
            "in a circle: a → b → a",
        ),
    ] {
        let desk = desk_with(list);
        let said = desk.say(&RUN);
        let told = said.err.contains(why) && said.err.contains("prd.json");
        assert!(said.code == 2 && told, "{list}: {}", said.err);
        assert_eq!(text(&desk), list);
    }
    let desk = desk_with(r#"{"tasks": []}"#);
    assert_eq!(desk.say(&RUN).code, 0, "nothing to do is done");
    assert_eq!(desk.say(&["tasks", "run", "none.json"]).code, 2);
    assert_eq!(desk.say(&[&RUN[..], &["--max-attempts", "0"]].concat()).code, 2);
}
