//! A model that does not answer, as its user sees it: one line when it falls silent, one when it speaks again.

use std::time::{Duration, Instant};

use super::desk::Desk;

const SILENT: &str = r#"
name: silent
conversations:
  - turns:
      - text: "First."
        calls: [ { tool: read, args: { path: s.yaml } } ]
      - fail: [ { status: 529, times: 5 }, { status: 429, times: 2 } ]
        text: "Second."
"#;

fn lines<'a>(text: &'a str, needle: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains(needle)).collect()
}

/// F26, F28: a line for each change of state, in the live view and in the logs, however often the model was asked.
#[test]
fn silence_is_told_once() {
    let desk = Desk::with_script(SILENT);
    desk.write("longhaul.yaml", "harness: { retries: { base_backoff_ms: 1 } }\n");
    let said = desk.say(&["run", "x", "--in-place", "--model", "scripted/s.yaml", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(lines(&said.err, "asking again").len(), 2, "529, then 429:\n{}", said.err);
    assert_eq!(lines(&said.err, "answers again").len(), 1, "{}", said.err);
    let run: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let id = run["id"].as_str().unwrap();
    let logs = desk.get(&["logs", id]);
    assert_eq!(lines(&logs, "did not answer").len(), 2, "{logs}");
    assert_eq!(lines(&logs, "answers again").len(), 1, "{logs}");
    let failed = desk.events(id).into_iter().filter(|event| event["type"] == "turn_failed").count();
    assert_eq!(failed, 7, "every one of them is on record");
}

/// F28: killed with -9 in the middle of a wait, the run still waits, says so to everybody, and goes on by itself once it is
/// taken up again.
#[test]
fn a_wait_survives_kill_9() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { fail: [ { status: 429, retry_after_ms: 4000 } ], text: Done. } ] } ]",
    );
    let id = desk.create();
    let mut child = desk.command(&["start", &id]).spawn().unwrap();
    let waits = || desk.json(&["show", &id])["wait"] == "rate_limit";
    let deadline = Instant::now() + Duration::from_secs(60);
    while !waits() {
        assert!(Instant::now() < deadline, "it never waited");
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(waits(), "the wait is the run's, not the process's");
    let until = |desk: &Desk| {
        let failed: Vec<_> =
            desk.events(&id).into_iter().filter(|event| event["type"] == "turn_failed").collect();
        assert_eq!(failed.len(), 1);
        failed[0]["retry"]["until"].clone()
    };
    let before = until(&desk);
    let said = desk.say(&["resume", &id]);
    assert_eq!((said.code, said.out.trim()), (0, "Done."), "{}", said.err);
    assert_eq!(until(&desk), before, "one wait, to one moment");
    let told = format!("it waits until the model's rate limit is over, at {}", before.as_str().unwrap());
    assert_eq!(lines(&said.err, &told).len(), 1, "{}", said.err);
}
