//! What a run's state is called, by everybody who tells people about it.

use serde_json::json;

use super::crew::{desk as crew, id, run, step};
use super::desk::Desk;

const WAITING: &str = "waiting for a person";

/// An agent that asks before it does anything.
const ASKING: &str = r#"
conversations:
  - turns:
      - calls: [ { tool: ask_human, args: { question: "Which?" } } ]
      - text: "Thank you."
"#;

/// A4.1, A5.4: a run whose sub-agent waits for a person is called so by all who tell people of it, and the sub-agent and its step
/// too; programs are told status and wait.
#[test]
fn one_word_for_one_state() {
    let desk = crew();
    desk.write("s.yaml", ASKING);
    let said = run(&desk, &[step("a", "PLUTO", &[], false)], &[]);
    assert_eq!(said.code, 3, "{}", said.err);
    let id = id(&said);
    let child = desk.json(&["show", &id])["subAgentIds"][0].as_str().unwrap().to_owned();
    assert!(said.err.contains(&format!("{id} {WAITING} after ")), "{}", said.err);
    assert!(said.err.contains(&format!("sub-agent PLUTO is {WAITING}")), "{}", said.err);

    let line = |text: &str, of: &str| text.lines().find(|line| line.contains(of)).unwrap().to_owned();
    for run in [&id, &child] {
        assert!(line(&desk.get(&["list"]), &format!("{run} ")).contains(WAITING));
        assert!(line(&desk.get(&["tree", &id]), &format!("{run} ")).contains(&format!("{run}  {WAITING}  ")));
        assert_eq!(
            line(&desk.get(&["show", run]), "status"),
            format!("status       {WAITING}"),
            "nothing else is said of it"
        );
        assert!(!desk.get(&["show", run]).contains("human"), "that is the word of programs");
        let result = desk.say(&["result", run]);
        assert!(result.out.starts_with(&format!("# {run}: {WAITING}\n")), "{}", result.out);
        let refused = desk.say(&["rm", run]);
        assert!(refused.err.starts_with(&format!("error: {run} is {WAITING}, not ended")), "{}", refused.err);
    }
    let result = desk.say(&["result", &id]).out;
    assert!(result.contains(&format!("- a (PLUTO): {WAITING}: do a")), "{result}");
    assert!(result.contains(&format!("- sub-agent PLUTO ({child}): {WAITING}")), "{result}");
    assert!(line(&desk.get(&["steps", &id]), "do a").contains(WAITING));
    assert!(desk.get(&["logs", &id]).contains(&format!("(sub-agent {child} is {WAITING})")));
    let tree = desk.json(&["tree", &id]);
    for run in [&tree, &tree["children"][0], &desk.json(&["show", &id]), &desk.json(&["list"])[0]] {
        assert_eq!((&run["status"], &run["wait"]), (&json!("running"), &json!("human")));
    }
}

/// A task and an experiment that a run works on are called what their run is; the task list itself keeps the word of its form.
#[test]
fn lists_call_their_runs_the_same() {
    let desk = Desk::with_script(ASKING);
    desk.write(
        "tasks.json",
        &json!({ "tasks": [{ "id": "a", "title": "A", "longRunning": true }] }).to_string(),
    );
    let said = desk.say(&["tasks", "run", "tasks.json", "--model", "scripted/s.yaml"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.out.lines().any(|line| line.starts_with(&format!("a     {WAITING}  "))), "{}", said.out);
    let run = desk.json(&["tasks", "list", "tasks.json"])[0]["runId"].as_str().unwrap().to_owned();
    assert!(said.err.contains(&format!("{run} is {WAITING}")), "{}", said.err);
    assert!(desk.get(&["tasks", "list", "tasks.json"]).contains(&format!("a     {WAITING}  ")));
    assert_eq!(desk.json(&["tasks", "list", "tasks.json"])[0]["status"], "running");
    // What ends is called by the list's own words again.
    let gate = desk.json(&["approvals", "list"])[0]["id"].as_str().unwrap().to_owned();
    desk.get(&["answer", &gate, "that"]);
    let said = desk.say(&["tasks", "run", "tasks.json", "--model", "scripted/s.yaml"]);
    assert!(said.code == 0 && said.out.contains("a     done"), "{}{}", said.out, said.err);
}
