//! The demo, as somebody who has just built the binary meets it.

use serde_json::json;

use super::desk::Desk;

/// AI12: the demo's one run is killed three times, sends a sub-agent, waits for a person once, and completes; state
/// transitions, tool calls, the gate, the sub-agent and checkpoints 1, 2, 3 are among its events.
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
    for kind in
        ["state_transition", "tool_call", "waiting_for_human", "human_gate", "sub_agent", "checkpoint"]
    {
        assert!(events.iter().any(|event| event["type"] == kind), "{kind}");
    }
    let gate = events.iter().find(|event| event["type"] == "human_gate").unwrap();
    assert_eq!(gate["action"], "approved");
    let told: Vec<_> =
        events.iter().filter(|event| event["type"] == "sub_agent").map(|event| &event["event"]).collect();
    assert_eq!(told, ["spawned", "completed"]);
    let sent = &report["subAgents"][0];
    assert_eq!((&sent["id"], &sent["agentName"]), (&json!(format!("{id}.1")), &json!("reviewer")));
    assert_eq!((report["subAgents"].as_array().unwrap().len(), &sent["status"]), (1, &json!("completed")));
    let below = desk.get(&["--state-dir", state.to_str().unwrap(), "tools", &format!("{id}.1")]);
    assert!(below.contains("read"), "the reviewer did read: {below}");
    let numbers: Vec<_> = events.iter().filter_map(|event| event["number"].as_u64()).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert!(desk.path("demo/NEWS.md").exists());
}
