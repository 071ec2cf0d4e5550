//! The demo, as somebody who has just built the binary meets it.

use serde_json::json;

use super::desk::Desk;

/// AI12: the demo's one run is killed three times, waits for a person once, and completes; state transitions, tool calls,
/// the gate and checkpoints 1, 2, 3 are among its events.
#[test]
fn the_demo_shows_what_it_says() {
    let desk = Desk::new();
    let report = desk.json(&["demo", "--dir", "demo"]);
    assert_eq!((&report["status"], &report["testPasses"]), (&json!("completed"), &json!(true)));
    assert_eq!(report["kills"].as_array().unwrap().len(), 3);
    let id = report["id"].as_str().unwrap();
    assert_eq!(report["approved"], json!([format!("{id}.g1")]));
    let state = desk.path("demo/.longhaul");
    let lines = desk.get(&["--state-dir", state.to_str().unwrap(), "events", id, "--json"]);
    let events: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for kind in ["state_transition", "tool_call", "waiting_for_human", "human_gate", "checkpoint"] {
        assert!(events.iter().any(|event| event["type"] == kind), "{kind}");
    }
    let gate = events.iter().find(|event| event["type"] == "human_gate").unwrap();
    assert_eq!(gate["action"], "approved");
    let numbers: Vec<_> = events.iter().filter_map(|event| event["number"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(desk.path("demo/NEWS.md").exists());
}
