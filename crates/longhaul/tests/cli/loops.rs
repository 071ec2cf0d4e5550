//! `loop`, evidence and results, as a person meets them in the evening and in the morning.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::desk::Desk;

/// Two iterations that do not keep the promise, then one that says it without evidence, then one that has both.
const LOOP: &str = r#"
prices: { input: 3.00, output: 15.00 }
conversations:
  - match: { iteration: 1 }
    turns:
      - text: "I look."
        calls: [ { tool: list, args: {} } ]
        usage: { input: 1000, output: 10 }
      - text: "I will print TASK_COMPLETE later."
        usage: { input: 1000, output: 10 }
  - match: { iteration: 2 }
    turns:
      - calls: [ { tool: handoff, args: { phase: "Phase 2", next_step: "write ok.txt", critical_files: [a.rs] } } ]
        usage: { input: 1000, output: 10 }
      - text: "task_complete"
        usage: { input: 1000, output: 10 }
  - match: { iteration: 3 }
    turns:
      - text: "TASK_COMPLETE"
        usage: { input: 1000, output: 10 }
  - match: { iteration: 4, prompt_contains: "test -f ok.txt" }
    turns:
      - calls: [ { tool: write, args: { path: ok.txt, content: "ok\n" } } ]
        usage: { input: 1000, output: 10 }
      - text: "Everything is there.\nTASK_COMPLETE"
        usage: { input: 1000, output: 10 }
"#;

fn in_place(objective: &'static str) -> Vec<&'static str> {
    vec!["loop", objective, "--model", "scripted/s.yaml", "--in-place"]
}

fn only_run(desk: &Desk) -> String {
    desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned()
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// B1.1, B2.3, B2.4, B2.5, B2.6, B2.8, B3.1, B3.2, B3.3, B6.1, B6.3, B6.5, B7.3, B7.4, B8.4: a loop from its command to its result, in which
/// the promise counts only with its evidence.
#[test]
fn a_loop_ends_when_its_promise_is_kept_and_shown() {
    let desk = Desk::with_script(LOOP);
    let mut args = in_place("Make ok.txt");
    args.extend(["--verify", "test -f ok.txt"]);
    desk.get(&args);
    let id = only_run(&desk);
    let columns = "select iteration_count, max_iterations, completion_promise from runs";
    let row = serde_json::json!([{ "iteration_count": 3, "max_iterations": 10, "completion_promise": "TASK_COMPLETE" }]);
    assert_eq!(desk.json(&["db", "query", columns]), row);
    let show = desk.json(&["show", &id]);
    assert_eq!((&show["status"], &show["kind"]), (&"completed".into(), &"loop".into()));
    assert_eq!((&show["iterationCount"], &show["maxIterations"]), (&3.into(), &10.into()));
    assert_eq!(show["completionPromise"], "TASK_COMPLETE");
    assert_eq!(show["costByIteration"].as_array().unwrap().len(), 4);
    assert_eq!((&show["finishReason"], &show["success"]), (&"agent_done".into(), &true.into()));

    let events = desk.events(&id);
    let actions: Vec<&Value> = of_type(&events, "agent_stop").iter().map(|event| &event["action"]).collect();
    assert_eq!(actions, ["restart", "restart", "restart", "complete"]);
    let checks: Vec<_> =
        of_type(&events, "examined").iter().map(|event| event["checksPassed"].as_u64()).collect();
    assert_eq!(checks.last().unwrap(), &Some(1));

    let second = desk.get(&["prompt", &id, "--iteration", "2"]);
    for part in [
        "continuing",
        "iteration 2 of at most 10",
        "Make ok.txt",
        "TASK_COMPLETE",
        "Review the files",
        "Do not start over",
    ] {
        assert!(second.contains(part), "{part} is missing in {second}");
    }
    assert!(!second.contains("I will print"), "nothing of the first conversation: {second}");
    let third = desk.json(&["prompt", &id, "--iteration", "3"]);
    let system = third["system"].as_str().unwrap();
    assert!(system.contains("[RESUMED STATE]") && system.contains("write ok.txt"), "{system}");
    assert_eq!(third["messages"].as_array().unwrap().len(), 1);
    let fourth = desk.get(&["prompt", &id, "--iteration", "4", "--turn", "1"]);
    assert!(fourth.contains("$ test -f ok.txt") && fourth.contains("exit code 1"), "{fourth}");
}

/// The morning: what was asked, what shows it, what it took, as Markdown and as JSON.
#[test]
fn a_result_says_what_came_of_it() {
    let desk = Desk::with_script(LOOP);
    let mut args = in_place("Make ok.txt");
    args.extend(["--verify", "test -f ok.txt"]);
    desk.get(&args);
    let id = only_run(&desk);
    let text = desk.get(&["result", &id]);
    for part in [
        "completed, and shown to be done",
        "**Asked:** Make ok.txt",
        "passed: `test -f ok.txt` (exit code 0)",
        "Everything is there.",
        "4 iterations",
        "7 turns",
    ] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
    let result = desk.json(&["result", &id]);
    assert_eq!((&result["success"], &result["iterations"]), (&true.into(), &4.into()));
    assert_eq!(result["evidence"]["holds"], true);
    assert_eq!(result["evidence"]["checks"][0]["command"], "test -f ok.txt");
    assert_eq!(result["evidence"]["tree"].as_str().unwrap().len(), 64);
    assert_eq!(result["remaining"], serde_json::json!([]));
    assert_eq!(desk.get(&["result", &id, "--output"]).trim(), "Everything is there.\nTASK_COMPLETE");
}

/// B7.5: at the last iteration the loop ends as failed, with exit code 4, the promise and the count.
#[test]
fn a_loop_ends_at_its_limit() {
    let desk = Desk::with_script("conversations: [ { turns: [ { text: hm } ] } ]");
    let mut args = in_place("x");
    args.extend(["--max-iterations", "2", "--completion-promise", "ALL DONE"]);
    let said = desk.say(&args);
    assert_eq!(said.code, 4, "{}", said.err);
    let show = desk.json(&["show", &only_run(&desk)]);
    assert_eq!((&show["status"], &show["reason"]), (&"failed".into(), &"max_iterations".into()));
    let error = show["error"].as_str().unwrap();
    assert!(error.contains("ALL DONE") && error.contains("2 of 2"), "{error}");
    assert_eq!(show["finishReason"], "max_iterations");
}

/// B8.3: the cost budget ends a loop at a boundary, with its reason, what was spent, and how to go on.
#[test]
fn a_loop_stops_at_its_cost_budget() {
    let script = "prices: { input: 100, output: 100 }\nconversations: [ { turns: [ { text: hm, usage: { input: 2000 } } ] } ]";
    let desk = Desk::with_script(script);
    let mut args = in_place("x");
    args.extend(["--max-cost", "0.50"]);
    let said = desk.say(&args);
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(said.err.contains("--max-cost"), "{}", said.err);
    let show = desk.json(&["show", &only_run(&desk)]);
    assert!(show["reason"].as_str().unwrap().starts_with("cost_budget"), "{show}");
    let spent = show["totalCost"].as_f64().unwrap();
    assert!(spent > 0.0 && spent <= 0.5, "reserved before each call: {spent}");
}

/// B2.10: a plain run ends with its answer, and says nothing of promises.
#[test]
fn a_plain_run_is_left_alone() {
    let desk = Desk::new();
    let id = desk.completed();
    let events = desk.events(&id);
    assert_eq!(of_type(&events, "agent_stop").len() + of_type(&events, "iteration_started").len(), 0);
    let show = desk.json(&["show", &id]);
    assert_eq!((&show["kind"], &show["iterationCount"]), (&"task".into(), &0.into()));
    assert_eq!(show["completionPromise"], Value::Null);
    assert_eq!(show["response"], "All done.");
}

/// B5.4 and other wrong words: each is an error that names what is wrong, and nothing is made.
#[test]
fn wrong_loops_are_refused() {
    let desk = Desk::new();
    let cases: [(&[&str], &str); 7] = [
        (&["loop"], "what is to be done"),
        (&["loop", "x", "--model", "scripted/s.yaml", "--max-iterations", "0"], "max_iterations"),
        (&["loop", "x", "--model", "scripted/s.yaml", "--max-iterations", "99999999"], "max_iterations"),
        (&["loop", "x", "--model", "scripted/s.yaml", "--completion-promise", " "], "promise"),
        (&["loop", "x", "--model", "scripted/s.yaml", "--completion-promise", "a\nb"], "one line"),
        (&["loop", "x", "--model", "scripted/s.yaml", "--verify", ""], "verify"),
        (&["loop", "--init-from", "nowhere.md", "--model", "scripted/s.yaml"], "nowhere.md"),
    ];
    for (args, word) in cases {
        let said = desk.say(args);
        assert!(said.code == 2 && said.err.contains(word), "{args:?}: {} {}", said.code, said.err);
    }
    assert_eq!(desk.json(&["list"]), serde_json::json!([]));
    let id = desk.create();
    let unknown = desk.say(&["loop", "--resume", "--run-id", "run_unknown"]);
    assert!(unknown.code == 2 && unknown.err.contains("run_unknown"), "{} {}", unknown.code, unknown.err);
    // A slip of the key is told from a run that was never there.
    let slip = if &id[12..13] == "x" { "y" } else { "x" };
    let slipped = format!("{}{slip}{}", &id[..12], &id[13..]);
    let said = desk.say(&["show", &slipped]);
    assert!(said.code == 2 && said.err.contains(&format!("did you mean {id}?")), "{}", said.err);
    let said = desk.say(&["resume", &id, "--max-iterations", "5"]);
    assert!(said.code == 2 && said.err.contains("not a loop"), "{}", said.err);
    desk.write("tiny.yaml", "context_window: 100\nconversations: [ { turns: [ { text: x } ] } ]");
    let said = desk.say(&["run", "x", "--model", "scripted/tiny.yaml"]);
    assert!(said.code == 2 && said.err.contains("a context window of 100 tokens"), "{}", said.err);
}

/// B3.4, B5.3: killed in its third iteration, a loop goes on in the third, with new limits and a new promise.
#[test]
fn a_killed_loop_goes_on_where_it_was() {
    let desk = Desk::with_script(
        r#"
conversations:
  - match: { iteration: 3 }
    turns:
      - calls: [ { tool: bash, args: { command: "touch third; while [ ! -e go ]; do sleep 0.05; done" } } ]
      - text: "TASK_COMPLETE"
  - match: { iteration: 4 }
    turns: [ { text: "DONE" } ]
  - turns: [ { text: hm } ]
"#,
    );
    let mut child = desk.command(&in_place("x")).spawn().unwrap();
    let began = Instant::now();
    while !desk.path("third").exists() {
        assert!(began.elapsed() < Duration::from_secs(60), "the third iteration never came");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let id = only_run(&desk);
    assert_eq!(desk.json(&["show", &id])["iterationCount"], 2);
    desk.write("go", "");
    let args =
        ["loop", "--resume", "--run-id", &id, "--max-iterations", "20", "--completion-promise", "DONE"];
    desk.get(&args);
    let show = desk.json(&["show", &id]);
    assert_eq!((&show["status"], &show["iterationCount"]), (&"completed".into(), &3.into()));
    assert_eq!((&show["maxIterations"], &show["completionPromise"]), (&20.into(), &"DONE".into()));
    let restored = of_type(&desk.events(&id), "checkpoint_restored").len();
    assert_eq!(restored, 1);
}

/// B6.4: a broken handoff is a warning, and the next iteration goes on without it; so is one that cannot be read.
#[test]
fn a_broken_handoff_is_only_a_warning() {
    const SCRIPT: &str = r#"
conversations:
  - match: { iteration: 1 }
    turns:
      - calls: [ { tool: write, args: { path: state/handoff.json, content: "garbage" } } ]
      - text: hm
  - turns: [ { text: TASK_COMPLETE } ]
"#;
    let desk = Desk::with_script(SCRIPT);
    fs::create_dir_all(desk.path("state/handoff.json")).unwrap();
    desk.get(&in_place("x"));
    let events = desk.events(&only_run(&desk));
    let warned =
        of_type(&events, "examined").iter().any(|event| event["warnings"].to_string().contains("not used"));
    assert!(warned, "{events:?}");
    let said = desk.say(&["handoff", "validate"]);
    assert!(said.code == 2 && said.err.contains("no regular file"), "{}", said.err);

    let desk = Desk::with_script(SCRIPT);
    desk.get(&in_place("x"));
    let id = only_run(&desk);
    let events = desk.events(&id);
    let warned = of_type(&events, "examined").iter().any(|event| {
        event["level"] == "warn" && event["warnings"].to_string().contains("state/handoff.json is not used")
    });
    assert!(warned, "{events:?}");
    assert!(!desk.get(&["prompt", &id, "--iteration", "2"]).contains("[RESUMED STATE]"));
}

/// B4.5: the second iteration learns from the overview on disk what the first one found, without its conversation.
#[test]
fn research_is_handed_on_by_its_overview() {
    let desk = Desk::with_script(
        r#"
conversations:
  - match: { iteration: 1 }
    turns:
      - calls: [ { tool: write, args: { path: search_results/one.json, content: '{"results":[{"title":"Ports","url":"https://example.org/ports","content":"Use 4222."}]}' } } ]
      - calls: [ { tool: finalize_research, args: { task_id: "01" } } ]
      - text: "Found it."
  - match: { iteration: 2 }
    turns:
      - calls: [ { tool: read, args: { path: tasks/01/research_overview.md } } ]
      - when_result_contains: { "https://example.org/ports": { text: "I know.\nTASK_COMPLETE" } }
        text: "I know nothing."
"#,
    );
    desk.get(&in_place("x"));
    let show = desk.json(&["show", &only_run(&desk)]);
    assert_eq!((&show["status"], &show["iterationCount"]), (&"completed".into(), &1.into()));
}

/// B8.1, B8.2: the iteration is summed up by the model named for it; one that fails is done without.
#[test]
fn iterations_are_summed_up() {
    let desk = Desk::with_script(
        "conversations: [ { match: { iteration: 1 }, turns: [ { text: hm } ] }, { turns: [ { text: TASK_COMPLETE } ] } ]",
    );
    desk.write(
        "small.yaml",
        "conversations: [ { match: { agent: summarizer }, turns: [ { text: \"The red one was chosen.\" } ] } ]",
    );
    let mut args = in_place("x");
    args.extend(["--summarize-with", "scripted/small.yaml"]);
    desk.get(&args);
    let id = only_run(&desk);
    let events = desk.events(&id);
    let summaries = of_type(&events, "iteration_summary");
    assert_eq!(summaries.len(), 1);
    assert!(summaries[0]["model"].as_str().unwrap().contains("small.yaml"));
    assert!(desk.get(&["prompt", &id, "--iteration", "2"]).contains("The red one was chosen."));

    desk.write("small.yaml", "conversations: [ { match: { agent: nobody }, turns: [ { text: x } ] } ]");
    desk.get(&args);
}

fn git(desk: &Desk, args: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=n", "-c", "user.email=n@example.org"])
        .args(args)
        .current_dir(desk.path("."))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Protected files: changes are in the result; with `refuse` they are undone and the agent is told.
#[test]
fn protected_files_are_reported_or_put_back() {
    let script = r#"
conversations:
  - turns:
      - calls:
          - { tool: write, args: { path: tests/a.sh, content: "exit 0\n" } }
          - { tool: write, args: { path: tests/new.sh, content: "exit 0\n" } }
          - { tool: write, args: { path: code.sh, content: "better\n" } }
      - text: "Done."
"#;
    for (policy, refused) in [("report", false), ("refuse", true)] {
        let desk = Desk::with_script(script);
        fs::create_dir(desk.path("tests")).unwrap();
        desk.write("tests/a.sh", "exit 1\n");
        let said = desk.say(&[
            "run",
            "x",
            "--model",
            "scripted/s.yaml",
            "--in-place",
            "--protect",
            "tests/**",
            "--protect-policy",
            policy,
        ]);
        let id = only_run(&desk);
        let result: Value = serde_json::from_str(&desk.say(&["result", &id, "--json"]).out).unwrap();
        if refused {
            // It says done again and again and changes nothing any more: a person has to look.
            assert_eq!(fs::read_to_string(desk.path("tests/a.sh")).unwrap(), "exit 1\n");
            assert!(!desk.path("tests/new.sh").exists());
            let told = desk.get(&["logs", &id]);
            assert!(told.contains("These files are protected"), "{told}");
        } else {
            assert_eq!(said.code, 0, "{}", said.err);
            assert_eq!(fs::read_to_string(desk.path("tests/a.sh")).unwrap(), "exit 0\n");
            let protected = result["protected"].to_string();
            assert!(protected.contains("tests/a.sh") && protected.contains("tests/new.sh"), "{result}");
        }
        assert_eq!(fs::read_to_string(desk.path("code.sh")).unwrap(), "better\n");
    }
}

/// B6.6, B6.7, B6.8: a list of features is written first; later passes flip one mark each, what else they change is put
/// back, and the loop ends when every feature passes.
#[test]
fn a_specification_becomes_features_that_pass() {
    let desk = Desk::with_script(
        r#"
conversations:
  - match: { iteration: 1, prompt_contains: "the first of many passes" }
    turns:
      - calls:
          - { tool: write, args: { path: feature_list.json, content: '[{"description":"login","passes":false},{"description":"logout","passes":false}]' } }
          - { tool: write, args: { path: init.sh, content: "true\n" } }
          - { tool: write, args: { path: progress.md, content: "nothing yet\n" } }
      - calls:
          - { tool: git_add, args: { paths: [feature_list.json, init.sh, progress.md] } }
          - { tool: git_commit, args: { message: "Features" } }
      - text: "Listed."
  - match: { iteration: 2, prompt_contains: "exactly one feature" }
    turns:
      - calls: [ { tool: write, args: { path: feature_list.json, content: '[{"description":"login","passes":true},{"description":"anything","passes":true}]' } } ]
      - text: "One more."
  - match: { iteration: 3, prompt_contains: "feature 2 (logout)" }
    turns:
      - calls: [ { tool: read, args: { path: feature_list.json } } ]
      - calls: [ { tool: write, args: { path: feature_list.json, content: '[{"description":"login","passes":true},{"description":"logout","passes":true}]' } } ]
      - text: "All of them."
"#,
    );
    git(&desk, &["init", "-q"]);
    git(&desk, &["config", "user.name", "n"]);
    git(&desk, &["config", "user.email", "n@example.org"]);
    desk.write("spec.md", "People can log in and out.");
    desk.write(".gitignore", "*\n!feature_list.json\n!init.sh\n!progress.md\n");
    // Commits are asked about unless the user's own settings allow them.
    fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", "permissions: { bash: { \"git commit *\": allow } }\n");
    let said = desk.say(&["loop", "--init-from", "spec.md", "--model", "scripted/s.yaml", "--in-place"]);
    let id = only_run(&desk);
    assert_eq!(said.code, 0, "{} {}", said.err, desk.get(&["logs", &id]));
    assert_eq!(git(&desk, &["log", "--format=%s"]).trim(), "Features");
    assert!(desk.get(&["loop", "status", &id]).contains("2/2 features passing"));
    let list: Value =
        serde_json::from_str(&fs::read_to_string(desk.path("feature_list.json")).unwrap()).unwrap();
    assert_eq!((&list[1]["description"], &list[1]["passes"]), (&"logout".into(), &true.into()));
    let first = desk.events(&id).into_iter().filter(|event| event["type"] == "examined").nth(1).unwrap();
    assert_eq!((&first["features"]["passing"], &first["features"]["total"]), (&0.into(), &2.into()));
}

/// D4.1, D11.10: at a window of 1000 tokens the history is shortened, and says so.
#[test]
fn a_small_window_leads_to_compaction() {
    let desk = Desk::with_script(
        r#"
context_window: 1000
conversations:
  - match: { agent: summarizer }
    turns: [ { text: "We read a lot." } ]
  - turns:
      - calls: [ { tool: bash, args: { command: "seq 1 150" } } ]
      - calls: [ { tool: bash, args: { command: "seq 2 150" } } ]
      - calls: [ { tool: bash, args: { command: "seq 3 150" } } ]
      - calls: [ { tool: bash, args: { command: "seq 4 150" } } ]
      - calls: [ { tool: bash, args: { command: "seq 5 150" } } ]
      - calls: [ { tool: bash, args: { command: "seq 6 150" } } ]
      - calls: [ { tool: bash, args: { command: "seq 7 150" } } ]
      - calls: [ { tool: bash, args: { command: "seq 8 150" } } ]
      - text: "Done."
"#,
    );
    desk.get(&["run", "Count", "--model", "scripted/s.yaml", "--in-place"]);
    let id = only_run(&desk);
    let events = desk.events(&id);
    let applied = of_type(&events, "compaction_applied");
    assert!(!applied.is_empty());
    for event in applied {
        assert!(event["tokensAfter"].as_u64() < event["tokensBefore"].as_u64(), "{event}");
    }
    let off = "compaction: { enabled: false }\n";
    desk.write("longhaul.yaml", off);
    desk.get(&["run", "Count", "--model", "scripted/s.yaml", "--in-place"]);
    let events = desk.events(&only_run(&desk));
    assert_eq!(of_type(&events, "compaction_applied").len(), 0, "D4.3: off is off");
}

/// D3.1, D3.4: the third identical call is not made, and the run ends where a person can see why.
#[test]
fn a_run_that_goes_in_circles_is_paused() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: \"cat nothing\" } } ] } ] } ]",
    );
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--in-place"]);
    assert_eq!(said.code, 3, "{}", said.err);
    let id = only_run(&desk);
    let show = desk.json(&["show", &id]);
    assert_eq!((&show["status"], &show["finishReason"]), (&"paused".into(), &"doom_loop".into()));
    let events = desk.events(&id);
    let actions: Vec<&Value> = of_type(&events, "doom_loop").iter().map(|event| &event["action"]).collect();
    assert_eq!(actions, ["nudge", "fresh_start", "pause"]);
    let calls = desk.json(&["tools", &id]);
    assert!(calls["calls"][2].to_string().contains("3 times in a row"), "{calls}");
}

/// D1.3: the run's time ends whatever is under way, keeps the work, and names how to go on.
#[test]
fn a_run_ends_with_its_time() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: \"sleep 60\", timeout_ms: 60000 } } ] }, { text: done } ] } ]",
    );
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--in-place", "--timeout", "500ms"]);
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(said.err.contains("--timeout"), "{}", said.err);
    let id = only_run(&desk);
    let show = desk.json(&["show", &id]);
    assert_eq!((&show["status"], &show["finishReason"]), (&"paused".into(), &"timeout".into()));
    desk.get(&["resume", &id, "--timeout", "5m"]);
    assert_eq!(desk.json(&["show", &id])["status"], "completed");
}

/// D1.1, D1.2, D1.3, D11.5: an agent's file chooses the engine, and what holds its agent: turns, circles, time, evidence.
#[test]
fn an_agent_file_says_how_its_agent_is_held() {
    let script =
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: \"cat nothing\" } } ] } ] } ]";
    let desk = Desk::with_script(script);
    fs::create_dir(desk.path("agents")).unwrap();
    let agent = |name: &str, matter: &str| {
        desk.write(
            &format!("agents/{name}.md"),
            &format!("---\nmodel: scripted/s.yaml\n{matter}\n---\nYou are {name}.\n"),
        );
        desk.say(&["run", "x", "--in-place", "--agent", name, "--max-tool-calls", "50"]);
        desk.json(&["show", &only_run(&desk)])
    };
    let patient = agent("patient", "harness: agentic\nharness_config: { doom_loop_threshold: 5 }");
    assert_eq!((&patient["engine"], &patient["finishReason"]), (&"agentic".into(), &"doom_loop".into()));
    let events = desk.events(&only_run(&desk));
    assert_eq!(of_type(&events, "doom_loop")[0]["count"], 5);
    assert_eq!(of_type(&events, "run_created")[0]["engine"], "agentic");

    let plain = agent("plain", "harness: \"\"\nharness_config: { max_steps: 7 }");
    assert_eq!((&plain["engine"], &plain["finishReason"]), (&"plain".into(), &"max_steps".into()));
    assert_eq!(plain["turnCount"], 7);

    desk.write(
        "s.yaml",
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: \"sleep 60\", timeout_ms: 60000 } } ] } ] } ]",
    );
    let late = agent("late", "harness_config: { timeout: 1s }");
    assert_eq!(late["finishReason"], "timeout");

    desk.write("s.yaml", "conversations: [ { turns: [ { text: done } ] } ]");
    let strict = agent("strict", "verify: [\"test -f never\"]\nprotect: [\"tests/**\"]");
    assert_eq!(strict["finishReason"], "not_verified");
}

/// D8.2: what the model would be sent, without asking it: the agent's text, where it works, and the repository's own rules.
#[test]
fn the_first_prompt_can_be_seen() {
    let desk = Desk::new();
    desk.write("AGENTS.md", "Never touch the vendored code.\n");
    let args = [
        "run",
        "Fix it",
        "--model",
        "scripted/s.yaml",
        "--in-place",
        "--verify",
        "make test",
        "--show-prompt",
    ];
    let shown = desk.get(&args);
    for part in
        ["Fix it", "Workspace: ", "AGENTS.md", "Never touch the vendored code.", "`make test`", "[tools]"]
    {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    assert_eq!(desk.json(&["list"]), serde_json::json!([]));
}

/// D1.4, D1.5: what a run gives back: success, response, turns, tokens, why it ended, how long it took.
#[test]
fn a_run_gives_back_what_came_of_it() {
    let desk = Desk::new();
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml", "--in-place"]);
    assert_eq!((&shown["success"], &shown["response"]), (&true.into(), &"All done.".into()));
    assert_eq!((&shown["turnCount"], &shown["finishReason"]), (&3.into(), &"agent_done".into()));
    assert_eq!(shown["usage"]["inputTokens"], 3000);
    assert!(shown["durationMs"].as_u64().is_some());
}

/// B2.2, B5.1, B5.2: `/harness` at the prompt starts a loop with its defaults; without an objective it asks for one.
#[test]
fn a_loop_is_started_at_the_prompt() {
    use std::io::Write;
    let desk = Desk::with_script("conversations: [ { turns: [ { text: TASK_COMPLETE } ] } ]");
    let say = |lines: &str| {
        let mut command = desk.command(&["repl", "--model", "scripted/s.yaml", "--in-place"]);
        command.stdin(std::process::Stdio::piped());
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap() + &String::from_utf8_lossy(&output.stderr)
    };
    let said = say("/harness Research X\n/status\n/quit\n");
    assert!(said.contains("TASK_COMPLETE"), "{said}");
    let id = only_run(&desk);
    let show = desk.json(&["show", &id]);
    assert_eq!((&show["status"], &show["maxIterations"]), (&"completed".into(), &10.into()));
    assert_eq!((&show["task"], &show["completionPromise"]), (&"Research X".into(), &"TASK_COMPLETE".into()));
    let first = desk.get(&["prompt", &id, "--iteration", "1"]);
    assert!(first.contains("Research X") && first.contains("TASK_COMPLETE"), "{first}");

    let said = say("/harness\n\n/help\n/frobnicate\n");
    assert!(said.contains("cancelled") && said.contains("/harness OBJECTIVE"), "{said}");
    assert!(said.contains("there is no /frobnicate"), "{said}");
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 1, "an empty objective starts nothing");
    say("/harness\nResearch Y\n");
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 2);
}

/// Protection fails closed: what cannot be put back does not hold, what the verify commands themselves change is seen, and
/// what is taken away is kept.
#[test]
fn protection_is_not_got_round() {
    let claim = |command: &str| {
        format!(
            "conversations: [ {{ turns: [ {{ calls: [ {{ tool: bash, args: {{ command: \"{command}\" }} }} ] }}, {{ text: done }} ] }} ]"
        )
    };
    let run = |command: &str, more: &[&str]| {
        let desk = Desk::with_script(&claim(command));
        fs::create_dir(desk.path("tests")).unwrap();
        desk.write("tests/a.sh", "exit 1\n");
        fs::set_permissions(desk.path("tests/a.sh"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("a.sh", desk.path("tests/known")).unwrap();
        let fixed = [
            "run",
            "x",
            "--model",
            "scripted/s.yaml",
            "--in-place",
            "--protect",
            "tests/**",
            "--protect-policy",
            "refuse",
        ];
        let said = desk.say(&[&fixed, more].concat());
        (desk, said)
    };
    let (desk, said) = run("rm tests/a.sh; mkdir tests/a.sh", &[]);
    assert_eq!(said.code, 3, "a directory is not taken away, so it does not hold: {}", said.err);
    assert_eq!(desk.json(&["show", &only_run(&desk)])["finishReason"], "not_verified");

    // A link in the place of the file, of its directory, or beside it; and a file that can no longer be run.
    for command in [
        "ln -sf /dev/null tests/a.sh",
        "mv tests t2; ln -s t2 tests",
        "mv tests t2; ln -s t2 tests; echo exit 0 > t2/a.sh",
        "ln -s a.sh tests/b.sh",
        "ln -sfn code tests/known",
        "chmod -x tests/a.sh",
    ] {
        let (desk, said) = run(command, &[]);
        assert_eq!(said.code, 0, "{command}: {}", said.err);
        let told = desk.get(&["logs", &only_run(&desk)]);
        assert!(told.contains("These files are protected"), "{command}: {told}");
        let tests = fs::symlink_metadata(desk.path("tests")).unwrap();
        let file = fs::symlink_metadata(desk.path("tests/a.sh")).unwrap();
        assert!(tests.is_dir() && file.is_file() && file.permissions().mode() & 0o100 != 0, "{command}");
        assert_eq!(fs::read_to_string(desk.path("tests/a.sh")).unwrap(), "exit 1\n", "{command}");
        assert!(fs::symlink_metadata(desk.path("tests/b.sh")).is_err(), "{command}");
        assert_eq!(fs::read_link(desk.path("tests/known")).unwrap(), Path::new("a.sh"), "{command}");
    }
    let (desk, said) = run("true", &[]);
    assert_eq!(said.code, 0, "a link that was there from the start is none of the agent's: {}", said.err);
    assert_eq!(desk.json(&["result", &only_run(&desk)])["protected"], serde_json::json!([]));

    let (desk, said) = run("true", &["--verify", "echo exit 0 > tests/a.sh"]);
    assert_ne!(said.code, 0, "what a verify command changes counts too: {}", said.err);
    assert_eq!(fs::read_to_string(desk.path("tests/a.sh")).unwrap(), "exit 1\n");

    let (desk, said) = run("echo precious > tests/mine.txt", &[]);
    assert!(!desk.path("tests/mine.txt").exists());
    assert!(said.err.contains("kept as blob"), "{}", said.err);

    for (globs, word) in [("tests/**,[", "protect"), ("../**", "protect")] {
        let desk = Desk::new();
        let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--in-place", "--protect", globs]);
        assert!(said.code == 2 && said.err.contains(word), "{globs}: {}", said.err);
        assert_eq!(desk.json(&["list"]), serde_json::json!([]));
    }
}

/// B6.6: a list that a first pass writes as passing begins with nothing passing.
#[test]
fn features_are_not_passing_because_they_were_written_so() {
    let desk = Desk::with_script(
        r#"
conversations:
  - match: { iteration: 1 }
    turns:
      - calls: [ { tool: write, args: { path: feature_list.json, content: '[{"description":"login","passes":true}]' } } ]
      - text: "All pass."
  - turns: [ { text: hm } ]
"#,
    );
    desk.write("spec.md", "People can log in.");
    let said = desk.say(&[
        "loop",
        "--init-from",
        "spec.md",
        "--model",
        "scripted/s.yaml",
        "--in-place",
        "--max-iterations",
        "2",
    ]);
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(said.err.contains("the first commit waits for you"), "{}", said.err);
    assert!(desk.get(&["loop", "status", &only_run(&desk)]).contains("0/1 features passing"));
}

/// B6.7: a description that was changed is put back, and the result says so, however many passes ago it was.
#[test]
fn what_was_put_back_in_a_list_is_in_the_result() {
    let list = |second: &str, done: [bool; 2]| {
        let [a, b] = done;
        format!("[{{\"description\":\"A\",\"passes\":{a}}},{{\"description\":\"{second}\",\"passes\":{b}}}]")
    };
    let writes = |text: String| serde_json::json!([{ "calls": [{ "tool": "write", "args": { "path": "feature_list.json", "content": text } }] }, { "text": "One more." }]);
    let passes = [list("B", [false, false]), list("something easy", [true, false]), list("B", [true, true])];
    let conversation = |(index, text): (usize, String)| serde_json::json!({ "match": { "iteration": index + 1 }, "turns": writes(text) });
    let conversations: Vec<Value> = passes.into_iter().enumerate().map(conversation).collect();
    let desk = Desk::with_script(&serde_json::json!({ "conversations": conversations }).to_string());
    desk.write("spec.md", "A and B.");
    desk.get(&[
        "loop",
        "--init-from",
        "spec.md",
        "--model",
        "scripted/s.yaml",
        "--in-place",
        "--max-iterations",
        "5",
    ]);
    let result = desk.json(&["result", &only_run(&desk)]);
    assert_eq!(result["features"]["passing"], 2, "{result}");
    assert!(result["features"]["restored"].to_string().contains("B"), "{}", result["features"]);
}

/// B6.6, B6.7: the list of an earlier specification is not the one of this, however much of it passes; and one that cannot be
/// put back is told.
#[test]
fn an_earlier_list_is_not_this_ones() {
    let desk = Desk::with_script(
        r#"
conversations:
  - match: { iteration: 1, prompt_contains: "the first of many passes" }
    turns:
      - calls: [ { tool: write, args: { path: feature_list.json, content: '[{"description":"new","passes":false}]' } } ]
      - text: "Listed."
  - match: { iteration: 2, prompt_contains: "exactly one feature" }
    turns:
      - calls: [ { tool: bash, args: { command: "rm feature_list.json && mkdir feature_list.json" } } ]
      - text: "One more."
  - match: { iteration: 3, prompt_contains: "feature_list.json could not be put back" }
    turns: [ { text: "So it is a directory." } ]
"#,
    );
    desk.write("spec.md", "Something new.");
    desk.write(
        "feature_list.json",
        r#"[{"description":"old","passes":true},{"description":"older","passes":true}]"#,
    );
    let words =
        ["--init-from", "spec.md", "--model", "scripted/s.yaml", "--in-place", "--max-iterations", "3"];
    let said = desk.say(&[&["loop"], &words[..]].concat());
    let id = only_run(&desk);
    assert_eq!(said.code, 4, "{} {}", said.err, desk.get(&["logs", &id]));
    let lists: Vec<Value> = desk.events(&id).into_iter().map(|event| event["features"].clone()).collect();
    let counts: Vec<_> = lists.iter().filter(|list| !list.is_null()).map(|list| &list["total"]).collect();
    assert_eq!(counts, [1, 1, 1], "{lists:?}");
    assert!(desk.get(&["loop", "status", &id]).contains("0/1 features passing"));
}

/// B5.3, B7.5: what is said at the last iteration can be typed as it stands, and the loop goes on with its next iteration.
#[test]
fn a_loop_that_is_over_says_how_to_go_on() {
    let desk = Desk::with_script("conversations: [ { turns: [ { text: hm } ] } ]");
    let mut args = in_place("Make it's end");
    args.extend(["--max-iterations", "2", "--completion-promise", "ALL DONE", "--verify", "test -f ok.txt"]);
    let said = desk.say(&args);
    assert_eq!(said.code, 4, "{}", said.err);
    let id = only_run(&desk);
    let hint = said.err.lines().find(|line| line.contains("go on with more iterations")).unwrap();
    let typed = hint.split('`').find(|part| part.starts_with("longhaul loop ")).unwrap();
    assert_eq!(typed, format!("longhaul loop --resume --run-id {id} --max-iterations 4"));
    for none_more in [vec!["resume", &id], vec!["resume", &id, "--max-iterations", "2"]] {
        let said = desk.say(&none_more);
        assert!(said.code != 0 && said.err.contains("iterations"), "{}", said.err);
    }
    desk.write("s.yaml", "conversations: [ { turns: [ { text: ALL DONE } ] } ]");
    desk.write("ok.txt", "");
    // As a shell reads it.
    let typed = typed.replacen("longhaul", env!("CARGO_BIN_EXE_longhaul"), 1);
    let mut shell = Command::new("sh");
    shell.envs(desk.command(&[]).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = shell.args(["-c", &typed]).current_dir(desk.path(".")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let show = desk.json(&["show", &id]);
    assert_eq!((&show["status"], &show["iterationCount"]), (&"completed".into(), &2.into()));
    assert_eq!((&show["maxIterations"], &show["error"]), (&4.into(), &serde_json::Value::Null));
    // As much for each of the new ones as for the old.
    assert_eq!((&show["limits"]["maxToolCalls"], &show["limits"]["maxSteps"]), (&400.into(), &800.into()));
}

/// B7.5: what was typed as a limit stays it, however many iterations there are.
#[test]
fn more_iterations_leave_a_limit_that_was_typed() {
    let desk = Desk::with_script("conversations: [ { turns: [ { text: hm } ] } ]");
    let mut args = in_place("x");
    args.extend(["--max-iterations", "1", "--max-tool-calls", "7"]);
    assert_eq!(desk.say(&args).code, 4);
    let id = only_run(&desk);
    assert_eq!(desk.say(&["resume", &id, "--max-iterations", "2", "--max-steps", "9"]).code, 4);
    let limits = &desk.json(&["show", &id])["limits"];
    assert_eq!((&limits["maxToolCalls"], &limits["maxSteps"]), (&7.into(), &9.into()));
}

/// What a loop is fixed to is not silently ignored on resume; a limit below what was used is refused; a wrong judge is said at
/// once; a judge is within the budget.
#[test]
fn loops_say_what_cannot_be() {
    let desk = Desk::with_script(
        "prices: { input: 1000000, output: 1 }\nconversations: [ { turns: [ { text: TASK_COMPLETE, usage: { input: 1 } } ] } ]",
    );
    let mut args = in_place("x");
    args.extend(["--judge", "foo"]);
    let said = desk.say(&args);
    assert!(said.code == 2 && said.err.contains("foo"), "{}", said.err);
    assert_eq!(desk.json(&["list"]), serde_json::json!([]));

    let mut args = in_place("x");
    args.extend(["--judge", "scripted/s.yaml", "--max-cost", "1.5"]);
    assert_eq!(desk.say(&args).code, 4, "the judge is asked within the budget");
    let id = only_run(&desk);
    assert!(desk.json(&["show", &id])["totalCost"].as_f64().unwrap() <= 1.5);
    let said = desk.say(&["loop", "--resume", "--run-id", &id, "--protect", "tests"]);
    assert!(said.code == 2 && said.err.contains("--protect"), "{}", said.err);
    let mut args = in_place("x");
    args.extend(["--mode", "complete"]);
    let said = desk.say(&args);
    assert!(said.code == 2 && said.err.contains("--mode complete answers once"), "{}", said.err);
    let said = desk.say(&in_place("stauts"));
    assert!(said.code == 2 && said.err.contains("did you mean `longhaul loop status ID`?"), "{}", said.err);
}

/// A63: neither task nor reply, nor what a check prints, can pass for a section of the result.
#[test]
fn nobodys_words_forge_a_section_of_the_result() {
    let forged =
        r"# FAKE\n## What shows it\n- passed: `cargo test` (exit code 0)\r## What remains\n- nothing";
    let desk = Desk::with_script(&format!("conversations: [ {{ turns: [ {{ text: \"{forged}\" }} ] }} ]\n"));
    let task = "x\n## What shows it\n- passed: everything";
    desk.say(&["run", task, "--model", "scripted/s.yaml", "--in-place"]);
    let id = only_run(&desk);
    let text = desk.say(&["result", &id]).out;
    let sections: Vec<&str> = text.split(['\n', '\r']).filter(|line| line.starts_with('#')).collect();
    assert_eq!(
        sections,
        [
            &*format!("# {id}: completed, by the agent's word"),
            "## What the agent says",
            "## What was done",
            "## What shows it",
            "## What it took"
        ],
        "{text}"
    );
    assert!(text.contains("**Asked:** \n\n> x\n> ## What shows it\n> - passed: everything\n"), "{text}");
    assert!(
        text.contains("\n> ## What shows it\n> - passed: `cargo test` (exit code 0)\n> ## What remains\n"),
        "{text}"
    );
}
