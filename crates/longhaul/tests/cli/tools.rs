//! Tool calls seen from outside: permission, budget, timeout, records, events.

use serde_json::{Value, json};

use super::desk::Desk;

/// A3.1, AE3: a tool that was not granted does not run, and the record says why.
#[test]
fn a_forbidden_tool_does_not_run() {
    let desk = Desk::new();
    let shown =
        desk.json(&["run", "x", "--agent", "SATURN", "--tools", "read,bash", "--model", "scripted/s.yaml"]);
    let tools = desk.json(&["tools", shown["id"].as_str().unwrap()]);
    let call = &tools["calls"][0];
    assert_eq!((&call["callName"], &call["retryCount"]), (&json!("write"), &json!(0)));
    let error = call["result"]["message"].as_str().unwrap();
    assert_eq!(error, "tool `write` is not permitted for agent SATURN; permitted: read, bash");
    assert!(!std::path::Path::new(shown["workspace"].as_str().unwrap()).join("a.txt").exists());
}

/// D6.9: an alias grants, and a model may call by it; what is on record is the tool's own name.
#[test]
fn an_alias_is_the_same_tool() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: write_file, unknown: true, args: { path: a, content: x } }, { tool: read_file, unknown: true, args: { path: a } } ] }, { text: ok } ] } ]";
    let desk = Desk::with_script(script);
    let shown = desk.json(&["run", "x", "--tools", "read_file,write_file", "--model", "scripted/s.yaml"]);
    let tools = desk.json(&["tools", shown["id"].as_str().unwrap()]);
    let call = |index: usize| {
        (tools["calls"][index]["callName"].clone(), tools["calls"][index]["result"]["state"].clone())
    };
    assert_eq!([call(0), call(1)], [(json!("write"), json!("done")), (json!("read"), json!("done"))]);
}

/// D6.1: without the program that shows a PDF, an agent and its user read which one that is.
#[test]
fn a_pdf_needs_a_program() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: read, args: { path: a.pdf } } ] }, { text: ok } ] } ]";
    let desk = Desk::with_script(script);
    desk.write("a.pdf", "%PDF-1.7\n");
    let run = ["run", "x", "--in-place", "--model", "scripted/s.yaml", "--json"];
    let output = desk.command(&run).env("LONGHAUL_AGENTS_PATH", "/nonexistent").output().unwrap();
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tools = desk.json(&["tools", shown["id"].as_str().unwrap()]);
    assert_eq!(
        tools["calls"][0]["result"]["message"],
        "`a.pdf` is a PDF, and pdftotext, which would show its text, is not installed (apt install poppler-utils)"
    );
}

/// A3.2, AI8, AP7: a record has name, arguments, result and a duration above zero; the budget left is shown.
#[test]
fn records_are_complete() {
    let desk = Desk::new();
    let id = desk.completed();
    let tools = desk.json(&["tools", &id]);
    assert_eq!(tools["remaining"], 98);
    let call = &tools["calls"][1];
    assert_eq!((&call["callName"], &call["arguments"]), (&json!("bash"), &json!({ "command": "cat a.txt" })));
    assert_eq!(call["result"]["output"]["text"], "hello\n");
    assert!(call["durationMs"].as_f64().unwrap() > 0.0 && call["timestamp"].is_string());
    assert!(desk.say(&["tools", &id]).err.contains("remaining 98"));
}

/// D4.1: what compaction left out of an old result is read again, without the call being made again.
#[test]
fn an_old_result_is_read_by_its_call() {
    let script = r#"conversations: [ { turns: [
        { calls: [ { tool: bash, args: { command: "echo once >> log; seq 2000 2300" } } ] },
        { calls: [ { tool: read, args: { path: "blob:call_1", offset: 300, limit: 2 } } ] },
        { calls: [ { tool: read, args: { path: "blob:call_9" } }, { tool: read, args: { path: "blob:nonsense" } } ] },
        { text: ok } ] } ]"#;
    let desk = Desk::with_script(script);
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml", "--in-place"]);
    let tools = desk.json(&["tools", shown["id"].as_str().unwrap()]);
    let said = |index: usize| tools["calls"][index]["result"].to_string();
    assert!(said(1).contains("2299") && said(1).contains("2300") && !said(1).contains("2298"), "{}", said(1));
    assert!(said(2).contains("call_9 has no result"), "{}", said(2));
    assert!(said(3).contains("blob:call_7"), "{}", said(3));
    assert_eq!(std::fs::read_to_string(desk.path("log")).unwrap(), "once\n");
}

/// D4.1: of a result that was cut, it is the whole that is read so.
#[test]
fn a_result_that_was_cut_is_read_whole_by_its_call() {
    let script = r#"conversations: [ { turns: [
        { calls: [ { tool: bash, args: { command: "seq 1 200000" } } ] },
        { calls: [ { tool: read, args: { path: "blob:call_1", offset: 100000, limit: 1 } } ] },
        { text: ok } ] } ]"#;
    let desk = Desk::with_script(script);
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml", "--in-place"]);
    let tools = desk.json(&["tools", shown["id"].as_str().unwrap()]);
    let page = tools["calls"][1]["result"].to_string();
    assert!(page.contains("100000\\t100000\\n"), "{page}");
}

/// A3.4, AE5: a call over its timeout is ended with its processes and recorded as a timeout.
#[test]
fn a_slow_call_times_out() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'sleep 987654 & sleep 987654' } } ] }, { text: ok } ] } ]";
    let desk = Desk::with_script(script);
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml", "--tool-timeout-ms", "300"]);
    let call = &desk.json(&["tools", shown["id"].as_str().unwrap()])["calls"][0];
    assert_eq!(call["result"]["failure"], "timeout");
    let survivors = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok).filter(|entry| {
        std::fs::read_to_string(entry.path().join("cmdline"))
            .is_ok_and(|line| line.contains("987654") && line.starts_with("sleep"))
    });
    assert_eq!(survivors.count(), 0);
}

/// A3.6, AE4: the call after the budget is refused with limit and count, and the agent goes on.
#[test]
fn the_budget_of_calls_is_kept() {
    let desk = Desk::new();
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml", "--max-tool-calls", "1"]);
    assert_eq!(shown["status"], "completed");
    let tools = desk.json(&["tools", shown["id"].as_str().unwrap()]);
    assert_eq!(tools["calls"][1]["result"]["message"], "tool call budget exceeded: 1 of 1 used");
    assert_eq!(tools["remaining"], 0);
}

/// A3.5, A8.1, A8.2, AI12: transitions, calls, failures and checkpoints are events with all their fields.
#[test]
fn events_carry_their_fields() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: read, args: { path: nothing-here } } ] }, { text: ok } ] } ]",
    );
    let id = desk.completed();
    let events = desk.events(&id);
    let of =
        |kind: &str| -> Vec<Value> { events.iter().filter(|event| event["type"] == kind).cloned().collect() };
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index + 1);
        assert!(event["harnessId"] == json!(id) && event["at"].is_string(), "{event}");
    }
    let moves: Vec<_> =
        of("state_transition").iter().map(|event| (event["from"].clone(), event["to"].clone())).collect();
    assert_eq!(moves, [(json!("created"), json!("running")), (json!("running"), json!("completed"))]);
    let call = &of("tool_call")[0];
    assert_eq!((&call["toolName"], &call["success"]), (&json!("read"), &json!(false)));
    assert!(call["durationMs"].as_f64().unwrap() > 0.0);
    let failed = &of("tool_failed")[0];
    assert!(failed["toolName"] == "read" && failed["error"].as_str().unwrap().contains("nothing-here"));
    assert_eq!(of("checkpoint")[0]["number"], 1);
    let log = std::fs::read_to_string(desk.path(&format!(".longhaul/runs/{id}/events.jsonl"))).unwrap();
    let logged: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(logged, events, "the log on disk is the same");
}

/// The directory a command ended in is where the next one begins, also in another process; what runs in the background
/// is there for the next calls, hooks or not, and gone when the run is put down.
#[test]
fn commands_follow_one_another() {
    let script = r#"
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "mkdir -p sub && cd sub" } } ]
      - calls: [ { tool: bash, args: { command: "echo served > page; sleep 4712.5", background: true } } ]
      - calls: [ { tool: bash, args: { command: "until test -s page; do sleep 0.01; done; cat page; pwd" } } ]
      - calls: [ { tool: bash_output, args: {} }, { tool: ask_human, args: { question: "go on?" } } ]
      - calls: [ { tool: bash, args: { command: "basename $PWD" } }, { tool: bash_output, args: { id: call_2 } } ]
      - text: done
"#;
    let desk = Desk::with_script(script);
    desk.write("longhaul.yaml", "hooks: { after_tool: [ { command: 'true' } ] }");
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--on-ask", "pause"]);
    assert_eq!(said.code, 3, "{}", said.err);
    let left = std::process::Command::new("pgrep").args(["-f", "sleep 4712.5"]).output();
    assert!(left.is_ok_and(|left| left.stdout.is_empty()), "it outlives its run");
    let id = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    desk.get(&["answer", &format!("{id}.g1"), "yes"]);
    desk.get(&["resume", &id]);
    let calls = desk.json(&["tools", &id])["calls"].clone();
    let told = |call: usize| calls[call]["result"]["output"]["text"].as_str().unwrap_or("").to_owned();
    assert!(told(2).starts_with("served\n/") && told(2).trim().ends_with("/sub"), "{}", told(2));
    assert_eq!(told(3), "call_2: echo served > page; sleep 4712.5 [still running]\n");
    assert_eq!(told(5), "sub\n");
    assert!(calls[6]["result"]["message"].as_str().unwrap().contains("has ended"), "{}", calls[6]);
}
