//! Journals as earlier schemas wrote them, kept for ever: each opens, is understood, and goes on from where it stood.
//! They are copied as they are, so the runs work where they worked then, and play another script than theirs, which is gone.

use serde_json::{Value, json};

use super::desk::Desk;

const WORKSPACE: &str = "/tmp/longhaul-v1/work";

/// What the runs are resumed with: it says what it was told of its last call, and that it is done.
const SCRIPT: &str = r#"
conversations:
  - turns:
      - when_result_contains: { "interrupted, outcome unknown": { text: "I was told." } }
        text: "All done."
"#;

/// A desk with one of the journals in its store, and the run's id.
fn desk_with(stand: &str) -> (Desk, String) {
    std::fs::create_dir_all(WORKSPACE).unwrap();
    let desk = Desk::with_script(SCRIPT);
    let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/journals/v1");
    let prefix = format!("{stand}-");
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let kept = names.into_iter().find_map(|path| {
        let name = path.file_name()?.to_str()?;
        let id = name.strip_prefix(&prefix)?.strip_suffix(".journal")?.to_owned();
        Some((path, id))
    });
    let (path, id) = kept.unwrap();
    std::fs::create_dir_all(desk.path(&format!(".longhaul/runs/{id}/inbox"))).unwrap();
    std::fs::create_dir_all(desk.path(&format!(".longhaul/runs/{id}/blobs"))).unwrap();
    std::fs::copy(path, desk.journal(&id)).unwrap();
    (desk, id)
}

/// What `show` says of a run that was just copied in; it is sound and of schema version 1.
fn shown(desk: &Desk, id: &str) -> Value {
    desk.get(&["store", "verify", id]);
    let inspected = desk.json(&["store", "inspect", id]);
    assert_eq!((&inspected["eventVersion"], &inspected["readable"]), (&json!(1), &json!(true)));
    let shown = desk.json(&["show", id]);
    assert_eq!((&shown["id"], &shown["workspace"]), (&json!(id), &json!(WORKSPACE)));
    shown
}

/// Takes the run up with this build, which is on record once, and in the log for people to read.
fn resume(desk: &Desk, id: &str) -> String {
    let said = desk.get(&["resume", id, "--model", "scripted/s.yaml"]);
    let events = desk.events(id);
    let upgrades: Vec<_> = events.iter().filter(|event| event["type"] == "schema_upgraded").collect();
    assert_eq!(upgrades.len(), 1);
    assert_eq!((&upgrades[0]["from"], &upgrades[0]["to"]), (&json!(1), &json!(2)));
    assert!(
        desk.get(&["logs", id]).contains("the journal began in schema version 1; it goes on in version 2")
    );
    said
}

/// A2.5, F18: a run that ended is shown with its outcome, and stays ended.
#[test]
fn a_completed_run_is_read() {
    let (desk, id) = desk_with("completed");
    let shown = shown(&desk, &id);
    assert_eq!((&shown["status"], &shown["task"]), (&json!("completed"), &json!("Write at a go")));
    assert_eq!((&shown["stepsCompleted"], &shown["stepsTotal"]), (&json!(2), &json!(2)));
    assert_eq!((&shown["toolCallCount"], &shown["checkpointCount"]), (&json!(1), &json!(2)));
    assert_eq!(desk.json(&["result", &id])["output"], "Two is done.");
    assert_eq!(desk.events(&id).len(), 21);
    assert_eq!(desk.say(&["resume", &id]).code, 1);
    assert_eq!(desk.json(&["list"])[0]["status"], "completed");
}

/// A2.5, F18: a run that waits at a gate is approved and goes on behind it.
#[test]
fn a_gate_is_answered() {
    let (desk, id) = desk_with("mid-gate");
    let shown = shown(&desk, &id);
    assert_eq!((&shown["status"], &shown["wait"]), (&json!("running"), &json!("human")));
    assert_eq!((&shown["stepsCompleted"], &shown["stepsTotal"]), (&json!(1), &json!(2)));
    let gate = format!("{id}.g1");
    assert_eq!(desk.json(&["approvals"])[0]["id"], json!(gate));
    desk.get(&["approve", &gate]);
    assert_eq!(resume(&desk, &id), "All done.\n");
    let shown = desk.json(&["show", &id]);
    assert_eq!((&shown["status"], &shown["stepsCompleted"]), (&json!("completed"), &json!(2)));
    assert_eq!(desk.json(&["approvals", "show", &gate])["status"], "approved");
}

/// A2.5, F18: a command that was under way is not run again; the agent is told that nobody knows how it ended.
#[test]
fn a_call_under_way_is_reported_unknown() {
    let (desk, id) = desk_with("mid-call");
    let shown = shown(&desk, &id);
    assert_eq!((&shown["status"], &shown["toolCallCount"]), (&json!("running"), &json!(3)));
    assert_eq!((&shown["usage"]["inputTokens"], &shown["usage"]["outputTokens"]), (&json!(2500), &json!(80)));
    assert_eq!(resume(&desk, &id), "I was told.\n");
    let started: Vec<_> =
        desk.events(&id).into_iter().filter(|event| event["type"] == "tool_started").collect();
    let bash: Vec<_> = started.iter().filter(|event| event["toolName"] == "bash").collect();
    assert_eq!(
        (started.len(), bash.len(), &bash[0]["attempt"]),
        (3, 1, &json!(1)),
        "once, by its first process"
    );
    assert_eq!(desk.json(&["show", &id])["status"], "completed");
}

/// A2.5, F18: a wait for the model that has passed in the meantime is over, and the next attempt is made.
#[test]
fn a_wait_goes_on() {
    let (desk, id) = desk_with("mid-wait");
    let shown = shown(&desk, &id);
    assert_eq!((&shown["status"], &shown["wait"]), (&json!("running"), &json!("timer")));
    let before = desk.events(&id);
    assert_eq!(resume(&desk, &id), "All done.\n");
    let events = desk.events(&id);
    assert_eq!(events[..before.len()], before[..]);
    let asked: Vec<_> = events
        .iter()
        .filter(|event| event["type"] == "turn_started" && event["turn"] == 2)
        .map(|event| &event["attempt"])
        .collect();
    assert_eq!(asked, [&json!(1), &json!(2)]);
    assert_eq!(desk.json(&["show", &id])["status"], "completed");
}
