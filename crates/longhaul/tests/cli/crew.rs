//! Plans, gates and sub-agents, as a person types them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::desk::{Desk, Said};

/// Every agent answers with its own words; `flaky` fails until its prompt tells of a failure, `hopeless` always.
pub const CREW: &str = r#"
name: crew
prices: { input: 3.00, output: 15.00 }
conversations:
  - match: { agent: planner, prompt_contains: "could not be used" }
    turns:
      - text: '{"steps": [{"id": "p1", "description": "look", "assignedAgent": "MARS"}, {"id": "p2", "description": "check", "assignedAgent": "PLUTO", "dependencies": ["p1"], "critical": true}]}'
        usage: { input: 100, output: 10 }
  - match: { agent: planner }
    turns:
      - text: '{"steps": [{"id": "p1", "description": "look", "assignedAgent": "NOBODY"}]}'
        usage: { input: 100, output: 10 }
  - match: { agent: VENUS, prompt_contains: "An earlier try" }
    turns: [ { text: "Mended.", usage: { input: 100, output: 10 } } ]
  - match: { agent: VENUS }
    turns: [ { text: "", fail: [ { status: 400 } ], usage: { input: 100, output: 10 } } ]
  - match: { agent: ERIS }
    turns: [ { text: "", fail: [ { status: 400 }, { status: 400 } ] } ]
  - match: { agent: PLUTO }
    turns:
      - text: "I write."
        calls: [ { tool: write, args: { path: pluto.txt, content: "from below\n" } } ]
        usage: { input: 100, output: 10 }
      - text: "PLUTO is done."
        usage: { input: 100, output: 10 }
  - match: { agent: MARS, prompt_contains: "spawn it" }
    turns:
      - calls: [ { tool: spawn, args: { agent: PLUTO, task: "write" } }, { tool: spawn, args: { agent: MARS, task: "spawn it again" } } ]
        usage: { input: 100, output: 10 }
      - text: "Both are back."
        usage: { input: 100, output: 10 }
  - match: { agent: MARS }
    turns: [ { text: "MARS is done.", usage: { input: 100, output: 10 } } ]
"#;

pub fn desk() -> Desk {
    let desk = Desk::with_script(CREW);
    std::fs::create_dir_all(desk.path("agents")).unwrap();
    for name in ["MARS", "PLUTO", "VENUS", "ERIS"] {
        let text = format!("---\ndescription: {name} of this test\n---\nYou are {name}.\n");
        desk.write(&format!("agents/{name}.md"), &text);
    }
    desk.write("longhaul.yaml", "agents:\n  dirs: [agents]\n");
    desk
}

pub fn step(id: &str, agent: &str, after: &[&str], critical: bool) -> Value {
    json!({ "id": id, "description": format!("do {id}"), "agent": agent, "dependencies": after, "critical": critical })
}

pub fn run(desk: &Desk, steps: &[Value], more: &[&str]) -> Said {
    desk.write("plan.json", &json!({ "steps": steps }).to_string());
    let base = ["run", "x", "--agent", "MARS", "--model", "scripted/s.yaml", "--plan", "plan.json", "--json"];
    desk.say(&[&base[..], more].concat())
}

pub fn shown(said: &Said) -> Value {
    serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err))
}

pub fn id(said: &Said) -> String {
    shown(said)["id"].as_str().unwrap().to_owned()
}

pub fn of_kind<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// A4.1, A4.2, A4.3, A4.4, A4.5, A8.3, AD3: gates stand where the level puts them, one after the other, survive their process, and
/// the approved step runs while the earlier ones do not run again.
#[test]
fn gates_stand_where_autonomy_puts_them() {
    let steps =
        [step("a", "MARS", &[], false), step("b", "MARS", &[], true), step("c", "MARS", &["b"], false)];
    for (level, expected) in [("1", 3), ("2", 3), ("3", 1), ("4", 0), ("5", 0)] {
        let desk = desk();
        let said = run(&desk, &steps, &["--autonomy", level]);
        let id = id(&said);
        let mut asked = 0;
        while desk.json(&["show", &id])["status"] == "running" {
            let waiting = desk.json(&["approvals", "list"]);
            assert_eq!(waiting.as_array().unwrap().len(), 1, "level {level}: one at a time");
            asked += 1;
            desk.get(&["approvals", "approve", waiting[0]["id"].as_str().unwrap()]);
            desk.say(&["resume", &id]);
        }
        assert_eq!(asked, expected, "level {level}");
        let events = desk.events(&id);
        assert_eq!(of_kind(&events, "step_started").len(), 3, "each step once");
        let gates = of_kind(&events, "human_gate");
        assert!(gates.iter().all(|gate| gate["action"] == "approved" && gate["waitMs"].as_u64() > Some(0)));
        assert_eq!(of_kind(&events, "plan_completed").len(), 1);
        let last: Vec<&str> =
            events.iter().rev().take(2).map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(last, ["state_transition", "plan_completed"]);
    }
}

/// A4.6: a rejection pauses with its reason; other steps are taken for what is left, and what is done stays.
#[test]
fn a_rejected_plan_is_replaced() {
    let desk = desk();
    let said =
        run(&desk, &[step("a", "MARS", &[], false), step("b", "MARS", &["a"], true)], &["--autonomy", "3"]);
    assert_eq!(said.code, 3);
    let id = id(&said);
    desk.get(&["approvals", "reject", &format!("{id}.g1"), "--reason", "no"]);
    let paused = desk.json(&["show", &id]);
    assert_eq!((&paused["status"], &paused["reason"]), (&json!("paused"), &json!("no")));
    for (plan, why) in [
        ("steps: [{id: a, description: again}]", "is the id of a step that is completed"),
        ("steps: [{id: c, description: x, dependencies: [b]}]", "no step has the id `b`"),
        ("steps: [{id: c, description: x, agent: PLUTTO}]", "did you mean `PLUTO`?"),
        ("steps: [{id: c}]", "`description` is missing"),
    ] {
        desk.write("rest.yaml", plan);
        let said = desk.say(&["replan", &id, "--plan", "rest.yaml"]);
        // As in `run --plan`: what is wrong is in the file, and named as it stands there.
        assert_eq!(said.code, 2, "{plan}: {}", said.err);
        assert!(said.err.contains(why) && said.err.contains("rest.yaml"), "{plan}: {}", said.err);
        assert!(!said.err.contains("steps[1]"), "{plan}: {}", said.err);
    }
    desk.write("rest.yaml", "steps: [{id: c, description: other, agent: PLUTO, dependencies: [a]}]");
    desk.get(&["replan", &id, "--plan", "rest.yaml"]);
    assert_eq!(desk.get(&["resume", &id]), "PLUTO is done.\n");
    let steps = desk.json(&["steps", &id]);
    let ids: Vec<&str> = steps.as_array().unwrap().iter().map(|step| step["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["a", "c"]);
    assert_eq!(desk.say(&["replan", &id, "--plan", "rest.yaml"]).code, 1, "it has ended");
    assert_eq!(desk.say(&["approve", &format!("{id}.g1")]).code, 1, "answered before");
    for words in [vec!["approve"], vec!["reject", "--reason", "no"], vec!["approvals", "show"]] {
        let unknown = format!("{id}.g9");
        let words: Vec<&str> = words.into_iter().chain([unknown.as_str()]).collect();
        assert_eq!(desk.say(&words).code, 2, "{words:?}: there is none");
    }
}

/// A5.1, A5.2: the planner makes the steps, is asked again about those it got wrong, and `create` already has them.
#[test]
fn a_plan_can_be_made() {
    let desk = desk();
    let args = ["create", "--task", "x", "--agent", "MARS", "--plan", "auto", "--model", "scripted/s.yaml"];
    let id = desk.get(&args).trim().to_owned();
    assert_eq!(desk.json(&["show", &id])["status"], "created");
    let steps = desk.json(&["steps", &id]);
    let field = |index: usize, name: &str| steps[index][name].clone();
    assert_eq!((field(0, "id"), field(1, "dependencies")), (json!("p1"), json!(["p1"])));
    assert_eq!((field(1, "assignedAgent"), field(1, "critical")), (json!("PLUTO"), json!(true)));
    assert!(of_kind(&desk.events(&id), "plan_refused")[0]["reason"].as_str().unwrap().contains("NOBODY"));
    assert_eq!(desk.get(&["start", &id]), "PLUTO is done.\n");
    // A planner that never gets it right leaves the run as it was.
    desk.write("s.yaml", "conversations: [ { turns: [ { text: 'I would rather not.' } ] } ]");
    let said = desk.say(&args);
    assert!(
        said.code == 1 && said.err.contains("no JSON object") && said.err.contains("replan"),
        "{}",
        said.err
    );
}

/// A6.1, A6.2, A6.3, A8.4, D5.4: a step of another agent is a run of that agent, in the same place; what it says is the step's
/// output, what it cost is counted with its parent, and events carry both ids.
#[test]
fn another_agents_step_is_a_run_of_its_own() {
    let desk = desk();
    let said = run(&desk, &[step("a", "MARS", &[], false), step("b", "PLUTO", &["a"], false)], &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let shown = shown(&said);
    let id = shown["id"].as_str().unwrap();
    let child = format!("{id}.1");
    assert_eq!(shown["subAgentIds"], json!([child]));
    assert_eq!(shown["subAgents"][0]["status"], "completed");
    assert_eq!(shown["usage"]["inputTokens"], 300, "the child's turns are counted");
    let tree = desk.json(&["tree", id]);
    assert_eq!(
        (&tree["children"][0]["agentName"], &tree["children"][0]["id"]),
        (&json!("PLUTO"), &json!(child))
    );
    assert_eq!(desk.json(&["list", "--parent", id])[0]["id"], json!(child));
    assert_eq!(desk.json(&["steps", id])[1]["output"], "PLUTO is done.");
    let below = desk.json(&["show", &child]);
    assert_eq!((&below["parentId"], &below["depth"]), (&json!(id), &json!(1)));
    assert_eq!(below["workspace"], shown["workspace"]);
    let events = desk.events(id);
    let of_children: Vec<&str> =
        of_kind(&events, "sub_agent").iter().map(|event| event["event"].as_str().unwrap()).collect();
    assert_eq!(of_children, ["spawned", "completed"]);
    assert!(
        of_kind(&events, "sub_agent")
            .iter()
            .all(|event| event["subAgentId"] == json!(child) && event["parentId"] == json!(id))
    );
}

/// A6.4, A5.4, AE6: a child that fails once is tried again with what went wrong, one that fails twice fails its step; what does
/// not need that step is done all the same.
#[test]
fn a_failing_child_is_tried_twice() {
    let desk = desk();
    let said = run(&desk, &[step("a", "VENUS", &[], false)], &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    let id = id(&said);
    assert_eq!(desk.json(&["steps", &id])[0]["output"], "Mended.");
    assert!(desk.get(&["prompt", &format!("{id}.2")]).contains("An earlier try at this failed"));

    let steps =
        [step("a", "ERIS", &[], false), step("b", "MARS", &["a"], false), step("c", "PLUTO", &[], false)];
    let said = run(&desk, &steps, &[]);
    assert_eq!(said.code, 1);
    let shown = shown(&said);
    let id = shown["id"].as_str().unwrap();
    let steps = desk.json(&["steps", id]);
    let status: Vec<&str> =
        steps.as_array().unwrap().iter().map(|step| step["status"].as_str().unwrap()).collect();
    assert_eq!(status, ["failed", "blocked", "completed"]);
    assert_eq!(shown["subAgentCount"], 3);
    let events = desk.events(id);
    assert_eq!(of_kind(&events, "step_failed").len(), 1);
    assert_eq!(of_kind(&events, "sub_agent").iter().filter(|event| event["event"] == "failed").count(), 2);
}

/// A6.5, AE7: agents that send each other are stopped at the limit, and told so; everybody else comes back.
#[test]
fn a_chain_of_agents_ends_at_the_limit() {
    for (args, deepest) in [(vec![], 3), (vec!["--max-sub-agent-depth", "1"], 1)] {
        let desk = desk();
        let base = ["run", "spawn it", "--agent", "MARS", "--model", "scripted/s.yaml", "--json"];
        let said = desk.say(&[&base[..], &args].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        let rows = desk.json(&["list"]);
        let depth = |row: &Value| row["depth"].as_u64().unwrap();
        assert_eq!(rows.as_array().unwrap().iter().map(depth).max(), Some(deepest));
        let last =
            rows.as_array().unwrap().iter().find(|row| depth(row) == deepest && row["agentName"] == "MARS");
        let logs = desk.get(&["logs", last.unwrap()["id"].as_str().unwrap()]);
        assert!(logs.contains("max_sub_agent_depth"), "{logs}");
    }
}

/// A6.3: what an agent's file allows it is its own, however often its parent is taken up again; a person may allow that run more.
#[test]
fn an_agents_own_limits_outlive_a_pause_of_its_parent() {
    let desk = desk();
    desk.write(
        "agents/PLUTO.md",
        "---\ndescription: PLUTO\nlimits: { max_tokens: 120, max_cost: 9.00 }\n---\nYou are PLUTO.\n",
    );
    let said = run(&desk, &[step("a", "PLUTO", &[], false)], &[]);
    let id = id(&said);
    let child = format!("{id}.1");
    for more in [&[][..], &["--max-tokens=5000"]] {
        let paused = desk.json(&["show", &child]);
        assert_eq!((&paused["status"], &paused["usage"]["inputTokens"]), (&json!("paused"), &json!(100)));
        assert_eq!(paused["limits"]["maxTokens"], 120, "{}", paused["limits"]);
        assert_eq!(paused["limits"]["maxCost"], 9.0, "{}", paused["limits"]);
        let again = desk.say(&[&["resume", &id, "--json"][..], more].concat());
        assert_eq!(shown(&again)["status"], "paused", "{}", again.err);
    }
    desk.say(&["resume", &child, "--max-tokens=1000"]);
    let done = desk.say(&["resume", &id, "--json"]);
    assert_eq!(shown(&done)["status"], "completed", "{}", done.err);
}

/// A child is killed with its parent, and taken up with it: nothing is sent twice, nothing is lost.
#[test]
fn a_killed_tree_goes_on() {
    let slow = CREW.replace("- text: \"I write.\"", "- delay_ms: 1500\n        text: \"I write.\"");
    let desk = desk();
    desk.write("s.yaml", &slow);
    let steps =
        [step("a", "PLUTO", &[], false), step("b", "MARS", &[], false), step("c", "PLUTO", &["b"], false)];
    desk.write("plan.json", &json!({ "steps": steps }).to_string());
    let args = ["run", "x", "--agent", "MARS", "--model", "scripted/s.yaml", "--plan", "plan.json"];
    let mut process = desk
        .command(&args)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let id = loop {
        assert!(began.elapsed() < Duration::from_secs(60), "no child came");
        std::thread::sleep(Duration::from_millis(50));
        let said = desk.say(&["list", "--json"]);
        let rows: Value = serde_json::from_str(&said.out).unwrap_or_default();
        let child = rows.as_array().into_iter().flatten().find(|row| !row["parentId"].is_null()).cloned();
        if let Some(child) = child.filter(|child| child["status"] == "running") {
            break child["parentId"].as_str().unwrap().to_owned();
        }
    };
    process.kill().unwrap();
    process.wait().unwrap();
    desk.get(&["resume", &id]);
    let shown = desk.json(&["show", &id]);
    assert_eq!((&shown["status"], &shown["subAgentCount"]), (&json!("completed"), &json!(2)));
    let workspace = shown["workspace"].as_str().unwrap();
    assert_eq!(std::fs::read_to_string(format!("{workspace}/pluto.txt")).unwrap(), "from below\n");
}

/// AI8: what those below a killed run have used is shown with it, before anybody goes on.
#[test]
fn a_killed_tree_shows_what_all_have_used() {
    let desk = desk();
    let slow = "- delay_ms: 60000\n        text: \"PLUTO is done.\"";
    desk.write("s.yaml", &CREW.replace("- text: \"PLUTO is done.\"", slow));
    desk.write("plan.json", &json!({ "steps": [step("a", "PLUTO", &[], false)] }).to_string());
    let args =
        ["run", "x", "--agent", "MARS", "--model", "scripted/s.yaml", "--plan", "plan.json", "--in-place"];
    let null = std::process::Stdio::null;
    let mut process = desk.command(&args).stdout(null()).stderr(null()).spawn().unwrap();
    let began = Instant::now();
    while !desk.path("pluto.txt").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "no child came");
        std::thread::sleep(Duration::from_millis(50));
    }
    process.kill().unwrap();
    process.wait().unwrap();
    let rows = desk.json(&["list"]);
    let child = rows.as_array().unwrap().iter().find(|row| !row["parentId"].is_null()).unwrap();
    let (root, child) = (child["parentId"].as_str().unwrap(), child["id"].as_str().unwrap());
    let used = &desk.json(&["show", child])["usage"];
    assert_eq!(used["inputTokens"], 100);
    assert_eq!(&desk.json(&["show", root])["usage"], used);
    let cost = desk.json(&["cost", root]);
    assert_eq!((&cost["total"], &cost["subAgents"][0]["usage"]), (used, used));
    let result: Value = serde_json::from_str(&desk.say(&["result", root, "--json"]).out).unwrap();
    assert_eq!(result["usage"]["inputTokens"], 100, "{result}");
}

/// F69: pausing the parent pauses those below, resuming takes them up, stopping stops them.
#[test]
fn pause_and_stop_reach_the_leaves() {
    let slow = CREW.replace("- text: \"I write.\"", "- delay_ms: 30000\n        text: \"I write.\"");
    let desk = desk();
    desk.write("s.yaml", &slow);
    desk.write("plan.json", &json!({ "steps": [step("a", "PLUTO", &[], false)] }).to_string());
    let args =
        ["run", "x", "--agent", "MARS", "--model", "scripted/s.yaml", "--plan", "plan.json", "--detach"];
    let id = desk.get(&args).trim().to_owned();
    let child = format!("{id}.1");
    let until = |status: &str| {
        let began = Instant::now();
        loop {
            let said = desk.say(&["show", &child, "--json"]);
            let shown: Value = serde_json::from_str(&said.out).unwrap_or_default();
            if shown["status"] == status {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(60), "never {status}: {shown}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until("running");
    desk.get(&["pause", &id]);
    assert_eq!(desk.json(&["show", &child])["status"], "paused", "who paused it has waited for all of it");
    desk.get(&["resume", &id, "--detach"]);
    until("running");
    desk.get(&["stop", &id]);
    until("failed");
    assert_eq!(desk.json(&["show", &id])["status"], "failed");
}

/// C1.3, C1.4: a need waits, is a file, and goes on when it is there; an assumption waits for nobody.
#[test]
fn needs_and_assumptions() {
    let script = r#"
conversations:
  - turns:
      - calls: [ { tool: ask_human, args: { kind: assumption, question: "The port is 80." } } ]
      - calls: [ { tool: ask_human, args: { kind: need, question: "a key for the map service" } } ]
      - when_result_contains: { "in the vault": { text: "I have it." } }
        text: "I have nothing."
"#;
    let desk = Desk::with_script(script);
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--json"]);
    assert_eq!(said.code, 3, "{}", said.err);
    let id = id(&said);
    let needs = desk.json(&["needs"]);
    assert_eq!((needs.as_array().unwrap().len(), &needs[0]["kind"]), (1, &json!("unblock")));
    let file = std::fs::read_to_string(desk.path(".longhaul/needs/0001.md")).unwrap();
    assert!(file.contains("a key for the map service") && file.contains("needs resolve"), "{file}");
    desk.get(&["needs", "resolve", needs[0]["id"].as_str().unwrap(), "it is in the vault"]);
    assert_eq!(desk.get(&["resume", &id]), "I have it.\n");
    assert!(!desk.path(".longhaul/needs/0001.md").exists(), "what is answered is needed no more");
    assert!(desk.get(&["logs", &id]).contains("The port is 80."));
    assert_eq!(desk.json(&["needs"]), json!([]));
}

/// C1.4: what is a person's to judge is not answered by saying that something is there.
#[test]
fn a_question_is_no_need() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: ask_human, args: { question: Keep it? } } ] }, { text: ok } ] } ]\n";
    let desk = Desk::with_script(script);
    let id = id(&desk.say(&["run", "x", "--model", "scripted/s.yaml", "--json"]));
    let refused = desk.say(&["needs", "resolve", &format!("{id}.g1")]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(refused.err.contains("is no need but a question"), "{}", refused.err);
    assert_eq!(desk.json(&["approvals"]).as_array().unwrap().len(), 1, "it still waits");
}

/// A64, A105: a sub-agent has no tool that its sender has not.
#[test]
fn a_child_has_no_more_rights_than_its_parent() {
    let desk = desk();
    let said = run(&desk, &[step("a", "PLUTO", &[], false)], &["--tools", "read,spawn"]);
    let id = id(&said);
    let logs = desk.get(&["logs", &format!("{id}.1")]);
    assert!(logs.contains("tool `write` is not permitted"), "{logs}");
    assert!(!desk.path("pluto.txt").exists());
}

/// What is wrong with a plan file is said with the file and the field, as they stand there.
#[test]
fn a_wrong_plan_is_named_by_its_file() {
    let desk = desk();
    let refused = run(&desk, &[step("a", "PLUTTO", &[], false)], &[]);
    assert_eq!(refused.code, 2);
    let said = "plan.json: steps[0].agent: there is no agent `PLUTTO`; did you mean `PLUTO`?";
    assert!(refused.err.contains(said), "{}", refused.err);
    for bad in ["a\nb", "a\u{1b}[2J"] {
        let refused = run(&desk, &[step(bad, "PLUTO", &[], false)], &[]);
        assert_eq!(refused.code, 2);
        let said = "plan.json: steps[0].id: may not hold line breaks or control characters";
        assert!(refused.err.contains(said), "{}", refused.err);
    }
    for parallel in ["0", "65"] {
        let refused = run(&desk, &[step("a", "PLUTO", &[], false)], &["--parallel", parallel]);
        assert_eq!(refused.code, 2);
        assert!(refused.err.contains("parallel must be 1 to 64"), "{}", refused.err);
    }
}

/// F51: of many who answer one approval at once, one wins; the others are told, and the step runs once.
#[test]
fn one_answer_counts() {
    let desk = desk();
    let said = run(&desk, &[step("a", "MARS", &[], false)], &["--autonomy", "1"]);
    let id = id(&said);
    let gate = format!("{id}.g1");
    let spawn = |number: usize| {
        let args = if number.is_multiple_of(2) {
            vec!["approve", &gate]
        } else {
            vec!["reject", &gate, "--reason", "no"]
        };
        desk.command(&args)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap()
    };
    let answers: Vec<_> = (0..200).map(spawn).collect();
    let outputs: Vec<_> = answers.into_iter().map(|answer| answer.wait_with_output().unwrap()).collect();
    let won = outputs.iter().filter(|output| output.status.success()).count();
    desk.say(&["resume", &id]);
    let answered = of_kind(&desk.events(&id), "human_gate").len();
    assert_eq!((won, answered), (1, 1));
    for lost in outputs.iter().filter(|output| !output.status.success()) {
        let told = String::from_utf8_lossy(&lost.stderr);
        assert!(told.contains("answer on record") && told.contains(", by "), "{told}");
    }
    // Whoever comes when the run has long heard it is told whose it was as well.
    let late = desk.say(&["approve", &gate]);
    assert!(late.err.contains("answer on record") && late.err.contains(", by "), "{}", late.err);
    assert!(
        desk.json(&["approvals", "show", &gate])["answeredBy"].as_str().is_some_and(|by| by.contains('@'))
    );
}

/// An answer that no process has heard yet is shown as what it is, wherever the run is shown; and so for the run above.
#[test]
fn an_answer_on_record_is_shown_until_it_is_heard() {
    let desk = desk();
    let id = id(&run(&desk, &[step("a", "MARS", &[], false)], &["--autonomy", "1"]));
    let gate = format!("{id}.g1");
    let statuses = || {
        [&["show", &id][..], &["list"], &["tree", &id]].map(|args| {
            let said = desk.get(args);
            (said.contains("waiting for a person"), said.contains("answered, waits for `resume`"))
        })
    };
    assert_eq!(statuses(), [(true, false); 3]);
    let approved = desk.json(&["approve", &gate]);
    assert_eq!(approved, desk.json(&["approvals", "show", &gate]));
    let shown = desk.get(&["approvals", "show", &gate]);
    assert!(shown.contains(&format!("status       approved, waits for `longhaul resume {id}`\n")), "{shown}");
    let whole = desk.json(&["approvals", "show", &gate]);
    assert_eq!((&whole["status"], &whole["onRecord"]["wish"]), (&json!("pending"), &json!("approve")));
    assert_eq!(statuses(), [(false, true); 3]);
    desk.get(&["resume", &id]);
    let shown = desk.get(&["approvals", "show", &gate]);
    assert!(shown.contains("status       approved\n"), "{shown}");
    assert_eq!(statuses(), [(false, false); 3]);
}

/// Sub-agents are known by their own steps, not by what all of them are told before.
#[test]
fn sub_agents_are_known_by_their_steps() {
    let desk = desk();
    let steps = json!([
        { "id": "a", "description": "look at the moon", "agent": "VENUS" },
        { "id": "b", "description": "draw the moon\nwith a pencil", "agent": "PLUTO", "dependencies": ["a"] },
    ]);
    let typed = "paint the sky\n\n## Your step\n\nnone";
    desk.write("plan.json", &json!({ "steps": steps }).to_string());
    let said =
        desk.say(&["run", typed, "--agent", "MARS", "--model", "scripted/s.yaml", "--plan", "plan.json"]);
    assert!(said.err.contains("): draw the moon") && !said.err.contains("a step of"), "{}", said.err);
    let id = desk.json(&["list"]).as_array().unwrap().last().unwrap()["id"].as_str().unwrap().to_owned();
    for args in [&["tree", &id][..], &["list"], &["cost"]] {
        let shown = desk.get(args);
        let known = ["paint the sky", "look at the moon", "draw the moon"].map(|part| shown.contains(part));
        assert!(known == [true; 3] && !shown.contains("that this is a step of"), "{args:?}: {shown}");
    }
    let tree = desk.json(&["tree", &id]);
    let children = tree["children"].as_array().unwrap();
    let tasks: Vec<&str> = children.iter().map(|child| child["task"].as_str().unwrap()).collect();
    assert_eq!(tasks, ["look at the moon", "look at the moon", "draw the moon\nwith a pencil"]);
    let child = &children[2];
    let told = desk.json(&["show", child["id"].as_str().unwrap()])["task"].as_str().unwrap().to_owned();
    assert!(told.starts_with("## The task that this is a step of"), "what it is told is as it was: {told}");
}

/// The same of a question that a sub-agent asks: what was answered is shown, and all runs above wait for the same.
#[test]
fn an_answer_to_a_sub_agent_is_shown_until_it_is_heard() {
    let desk = desk();
    desk.write(
        "s.yaml",
        r#"conversations:
  - match: { agent: PLUTO }
    turns:
      - calls: [ { tool: ask_human, args: { question: "which colour?" } } ]
      - text: done
  - turns: [ { text: ok } ]
"#,
    );
    let id = id(&run(&desk, &[step("a", "PLUTO", &[], false)], &["--autonomy", "3"]));
    let gate = desk.json(&["approvals"])[0]["id"].as_str().unwrap().to_owned();
    desk.get(&["answer", &gate, "blue"]);
    let shown = desk.get(&["approvals", "show", &gate]);
    assert!(shown.contains(&format!("status       answered, waits for `longhaul resume {id}`\n")), "{shown}");
    assert!(shown.contains("answer       blue\n"), "{shown}");
    let tree = desk.get(&["tree", &id]);
    assert_eq!(tree.matches("answered, waits for `resume`").count(), 2, "{tree}");
    assert!(desk.say(&["result", &id]).err.contains("has its answer: `longhaul resume"));
}

/// Bad input, AI10: what a stopped run had asked is not listed, takes no answer, and says that nobody waits for one.
#[test]
fn a_stopped_run_takes_no_answer() {
    let desk = desk();
    let id = id(&run(&desk, &[step("a", "MARS", &[], false)], &["--autonomy", "1"]));
    let gate = format!("{id}.g1");
    assert!(desk.get(&["approvals", "show", &gate]).contains("status       pending"));
    desk.get(&["stop", &id]);
    assert_eq!(desk.json(&["approvals"]), json!([]));
    for words in [vec!["approve", &gate], vec!["reject", &gate, "--reason", "no"]] {
        let said = desk.say(&words);
        let told = "a run that is failed: it has ended, and waits for no answer";
        assert!(said.code == 1 && said.err.contains(told), "{words:?}: {} {}", said.code, said.err);
    }
    let shown = desk.get(&["approvals", "show", &gate]);
    assert!(shown.contains("never answered; the run is failed, and waits for nothing any more"), "{shown}");
    assert_eq!(desk.json(&["approvals", "show", &gate])["status"], "pending");
}

/// A run that is taken back sends its errands anew: what the ones before did is put away, and not taken for theirs.
#[test]
fn a_run_that_is_taken_back_sends_anew() {
    let desk = desk();
    let said =
        run(&desk, &[step("a", "MARS", &[], false), step("b", "PLUTO", &["a"], true)], &["--autonomy", "3"]);
    let id = id(&said);
    let gate = format!("{id}.g1");
    desk.get(&["approve", &gate]);
    desk.get(&["resume", &id]);
    let checkpoints = desk.json(&["checkpoints", &id]);
    let first = checkpoints[0]["number"].as_u64().unwrap().to_string();
    let said = desk.say(&["resume", &id, "--checkpoint", &first]);
    assert_eq!(said.code, 3, "what was answered since is asked again: {}", said.err);
    assert_eq!(desk.say(&["show", &format!("{id}.1")]).code, 2, "the first errand is put away");
    desk.get(&["approve", &gate]);
    assert_eq!(desk.get(&["resume", &id]), "PLUTO is done.\n");
    let child = desk.json(&["show", &format!("{id}.1")]);
    assert_eq!((&child["status"], &child["turnCount"]), (&json!("completed"), &json!(2)));
}
