//! What becomes of sub-agents beside success and failure, and questions answered where they come up.

use std::io::{Read, Write};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::crew::{CREW, desk, id, of_kind, run, shown, step};
use super::desk::Desk;

/// Looks until a run has that status.
fn until(desk: &Desk, id: &str, status: &str) -> Value {
    let began = Instant::now();
    loop {
        let said = desk.say(&["show", id, "--json"]);
        let shown: Value = serde_json::from_str(&said.out).unwrap_or_default();
        if shown["status"] == status {
            return shown;
        }
        assert!(began.elapsed() < Duration::from_secs(60), "never {status}: {shown}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A sub-agent that a person stops is not begun again: its step fails and says so.
#[test]
fn a_stopped_child_stays_stopped() {
    let desk = desk();
    desk.write(
        "s.yaml",
        &CREW.replace("- text: \"I write.\"", "- delay_ms: 60000\n        text: \"I write.\""),
    );
    desk.write("plan.json", &json!({ "steps": [step("a", "PLUTO", &[], false)] }).to_string());
    let args =
        ["run", "x", "--agent", "MARS", "--model", "scripted/s.yaml", "--plan", "plan.json", "--detach"];
    let id = desk.get(&args).trim().to_owned();
    until(&desk, &format!("{id}.1"), "running");
    desk.get(&["stop", &format!("{id}.1"), "--reason", "wrong way"]);
    let ended = until(&desk, &id, "failed");
    assert_eq!(ended["subAgentCount"], 1, "nobody else was sent");
    let error = desk.json(&["steps", &id])[0]["error"].clone();
    let error = error.as_str().unwrap();
    assert!(error.starts_with("stopped by a person") && error.contains("wrong way"), "{error}");
}

/// Everybody sends somebody, down to a leaf that takes its time.
const DEEP: &str = r#"
conversations:
  - match: { depth: 2 }
    turns:
      - { delay_ms: 60000, text: "leaf" }
  - match: { depth: 1 }
    turns:
      - calls: [ { tool: spawn, args: { agent: MARS, task: "leaf" } } ]
      - text: "mid"
  - turns:
      - calls: [ { tool: spawn, args: { agent: MARS, task: "mid a" } }, { tool: spawn, args: { agent: MARS, task: "mid b" } } ]
      - text: "top"
"#;

fn deep(desk: &Desk) -> String {
    desk.write("s.yaml", DEEP);
    let args = ["run", "x", "--agent", "MARS", "--model", "scripted/s.yaml", "--detach"];
    let id = desk.get(&args).trim().to_owned();
    for leaf in ["1.1", "2.1"] {
        until(desk, &format!("{id}.{leaf}"), "running");
    }
    id
}

/// F69: stopping a run that is driven ends those below those below it as well, whichever of them rests first.
#[test]
fn a_stop_reaches_those_below_those_below() {
    for _ in 0..6 {
        let desk = desk();
        let id = deep(&desk);
        desk.get(&["stop", &id, "--reason", "enough"]);
        for below in ["", ".1", ".2", ".1.1", ".2.1"] {
            let shown = until(&desk, &format!("{id}{below}"), "failed");
            assert_eq!(shown["error"], "enough", "{below}: {shown}");
        }
    }
}

/// F69: a stop that died before those below were told is said again, and reaches them.
#[test]
fn a_stop_that_died_half_way_is_said_again() {
    let desk = desk();
    let id = deep(&desk);
    desk.get(&["pause", &id]);
    // As if it had died there: nobody can read the one in the middle while the root is stopped.
    let (there, away) = (desk.path(&format!(".longhaul/runs/{id}.1/journal")), desk.path("away"));
    std::fs::rename(&there, &away).unwrap();
    std::fs::write(&there, "not a journal").unwrap();
    desk.say(&["stop", &id]);
    assert_eq!(desk.json(&["show", &id])["status"], "failed");
    std::fs::rename(&away, &there).unwrap();
    assert_eq!(desk.json(&["show", &format!("{id}.1.1")])["status"], "paused");
    desk.get(&["stop", &id]);
    for below in [".1", ".1.1"] {
        assert_eq!(desk.json(&["show", &format!("{id}{below}")])["status"], "failed", "{below}");
    }
}

/// The model named when a run is taken up is also that of the sub-agents under way.
#[test]
fn another_model_reaches_the_children() {
    let desk = desk();
    desk.write(
        "locked.yaml",
        "conversations: [ { turns: [ { text: x, fail: [ { status: 401, times: 9 } ] } ] } ]",
    );
    desk.write("agents/PLUTO.md", "---\nmodel: scripted/locked.yaml\n---\nYou are PLUTO.\n");
    let said = run(&desk, &[step("a", "PLUTO", &[], false)], &[]);
    assert_eq!(said.code, 3, "{}", said.err);
    let id = id(&said);
    assert_eq!(desk.say(&["resume", &id]).code, 3, "it is as it was");
    assert_eq!(desk.get(&["resume", &id, "--model", "scripted/s.yaml"]), "PLUTO is done.\n");
    assert_eq!(desk.json(&["show", &id])["subAgentCount"], 1);
}

/// A4.6: a run that failed is given other steps for what is not done, and goes on.
#[test]
fn a_failed_run_is_replanned() {
    let desk = desk();
    let said = run(&desk, &[step("a", "MARS", &[], false), step("b", "ERIS", &["a"], false)], &[]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("longhaul replan"), "{}", said.err);
    let id = id(&said);
    desk.write("rest.yaml", "steps: [{id: c, description: other, agent: PLUTO, dependencies: [a]}]");
    desk.get(&["replan", &id, "--plan", "rest.yaml"]);
    let shown = desk.json(&["show", &id]);
    assert_eq!((&shown["status"], &shown["error"]), (&json!("paused"), &Value::Null));
    assert_eq!(desk.get(&["resume", &id]), "PLUTO is done.\n");
    let events = desk.events(&id);
    assert_eq!(of_kind(&events, "reopened").len(), 1);
    assert_eq!(of_kind(&events, "step_started").len(), 1, "what was done is not done again");
}

/// D7.1: hooks look at `spawn` before anybody is sent; what they block is not sent, and the agent reads why.
#[test]
fn hooks_are_asked_about_spawn() {
    let desk = hooked("echo \"not today\"; exit 2");
    let run = shown(&desk.say(&SPAWNING));
    let id = run["id"].as_str().unwrap();
    assert_eq!(run["status"], "completed");
    let calls = desk.json(&["tools", id])["calls"].clone();
    let message = calls[0]["result"]["message"].as_str().unwrap();
    assert!(message.contains("the hook `guard` blocks this: not today"), "{message}");
    assert_eq!(desk.json(&["list", "--parent", id]), json!([]), "nobody was sent");
}

const SPAWNING: [&str; 7] = ["run", "spawn it", "--agent", "MARS", "--model", "scripted/s.yaml", "--json"];

/// MARS spawns PLUTO, who takes some time, and a hook looks at it.
fn hooked(hook: &str) -> Desk {
    let desk = desk();
    let config = json!({
        "agents": { "dirs": ["agents"] },
        "hooks": { "before_tool": [ { "command": hook, "name": "guard", "tools": ["spawn"] } ] },
    });
    desk.write("longhaul.yaml", &config.to_string());
    let script = CREW.replace(", { tool: spawn, args: { agent: MARS, task: \"spawn it again\" } }", "");
    desk.write(
        "s.yaml",
        &script.replace("- text: \"I write.\"", "- delay_ms: 1500\n        text: \"I write.\""),
    );
    desk
}

const INTERRUPT: &str = "echo '{\"decision\": \"interrupt\", \"reason\": \"ask first\"}'";

/// D7.1: a hook that wants a person to look at `spawn` is a durable question like any other; with leave the sub-agent is made once,
/// also if the process dies while it works, and the hook, which says the same again, is not asked twice.
#[test]
fn a_hook_has_a_person_asked_about_spawn() {
    let desk = hooked(INTERRUPT);
    let said = desk.say(&SPAWNING);
    assert_eq!(said.code, 3, "{}", said.err);
    let id = id(&said);
    assert_eq!(shown(&said)["subAgentIds"], json!([]), "nobody was sent");
    let asked = desk.json(&["approvals", "list"]);
    let ask = &asked[0];
    assert_eq!((asked.as_array().unwrap().len(), &ask["toolName"]), (1, &json!("spawn")));
    assert!(ask["description"].as_str().unwrap().contains("ask first"), "{ask}");
    assert_eq!(desk.say(&["resume", &id]).code, 3, "it still waits");
    desk.get(&["approve", ask["id"].as_str().unwrap()]);

    let mut process =
        desk.command(&["resume", &id]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until(&desk, &format!("{id}.2"), "running");
    process.kill().unwrap();
    process.wait().unwrap();
    assert_eq!(desk.get(&["resume", &id]), "Both are back.\n");
    let children = desk.json(&["list", "--parent", &id]);
    assert_eq!((children.as_array().unwrap().len(), &children[0]["status"]), (1, &json!("completed")));
    assert_eq!(desk.json(&["approvals", "list"]), json!([]));
    let run = desk.json(&["show", &id]);
    assert_eq!((&run["subAgentCount"], &run["subAgents"][0]["attempt"]), (&json!(1), &json!(1)));
}

/// Without leave nobody is sent, and the agent reads why.
#[test]
fn a_person_refuses_what_a_hook_asks_about() {
    let desk = hooked(INTERRUPT);
    let id = id(&desk.say(&SPAWNING));
    desk.get(&["reject", &format!("{id}.g1"), "--reason", "not now"]);
    assert_eq!(desk.get(&["resume", &id]), "Both are back.\n");
    let calls = desk.json(&["tools", &id])["calls"].clone();
    assert!(calls[0]["result"]["message"].as_str().unwrap().contains("a person refused: not now"), "{calls}");
    assert_eq!(desk.json(&["list", "--parent", &id]), json!([]));
}

/// A second try is held to protected files as they were before the first, and the run's own commands go over the whole.
#[test]
fn a_second_try_cannot_keep_what_the_first_one_broke() {
    let desk = desk();
    let tampering = "- match: { agent: VENUS }\n    turns: [ { text: I cheat., calls: [ { tool: bash, args: { command: \"echo broken > guarded.txt\" } } ] }, { text: \"\", fail: [ { status: 400 } ] } ]\n";
    let script = CREW.replace("- match: { agent: VENUS }\n    turns: [ { text: \"\", fail: [ { status: 400 } ], usage: { input: 100, output: 10 } } ]\n", tampering);
    assert!(script.contains("I cheat"));
    desk.write("s.yaml", &script);
    desk.write("guarded.txt", "whole\n");
    let more = [
        "--in-place",
        "--protect",
        "guarded.txt",
        "--protect-policy",
        "refuse",
        "--verify",
        "grep whole guarded.txt",
    ];
    let said = run(&desk, &[step("a", "VENUS", &[], false)], &more);
    assert_eq!(said.code, 0, "{}", said.err);
    let id = id(&said);
    assert_eq!(desk.json(&["show", &id])["subAgentCount"], 2);
    assert_eq!(std::fs::read_to_string(desk.path("guarded.txt")).unwrap(), "whole\n");
    let events = desk.events(&id);
    let purposes: Vec<&Value> =
        of_kind(&events, "examination_started").iter().map(|event| &event["purpose"]["for"]).collect();
    assert_eq!(purposes, [&json!("baseline"), &json!("whole")]);
}

/// What others did counts only if the run's own commands hold for all of it.
#[test]
fn the_whole_must_hold() {
    let desk = desk();
    // Each of them sees it hold while it is at work; together they have used it up.
    desk.write("count", "");
    let verify = "echo x >> count; test $(wc -l < count) -lt 3";
    let steps = [step("a", "PLUTO", &[], false), step("b", "VENUS", &["a"], false)];
    desk.write(
        "s.yaml",
        &CREW
            .replace("fail: [ { status: 400 } ], usage", "usage")
            .replace("text: \"\", usage", "text: \"Fine.\", usage"),
    );
    let said = run(&desk, &steps, &["--in-place", "--verify", verify]);
    assert_eq!(said.code, 3, "{}", said.err);
    let shown = shown(&said);
    assert!(shown["reason"].as_str().unwrap().contains("as a whole does not hold"), "{}", shown["reason"]);
    desk.write("count", "");
    desk.get(&["resume", shown["id"].as_str().unwrap()]);
}

/// Who works for a run that has ended is not gone on with, and the hint is about that run.
#[test]
fn a_child_of_an_ended_run_is_refused() {
    let desk = desk();
    let said = run(&desk, &[step("a", "PLUTO", &[], true)], &["--autonomy", "3", "--ask", "write"]);
    let id = id(&said);
    desk.get(&["approve", &format!("{id}.g1")]);
    assert_eq!(desk.say(&["resume", &id]).code, 3, "the sub-agent asks");
    desk.get(&["stop", &id]);
    let said = desk.say(&["resume", &format!("{id}.1")]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("which has ended") && !said.err.contains("agents list"), "{}", said.err);
    assert!(said.err.contains(&format!("longhaul checkpoints {id}")), "{}", said.err);
}

/// `create` takes what `run` takes: how what it starts is held, and where the run is recorded.
#[test]
fn create_takes_what_run_takes() {
    let desk = desk();
    let said = desk.say(&[
        "create",
        "--task",
        "x",
        "--agent",
        "MARS",
        "--model",
        "scripted/s.yaml",
        "--sandbox",
        "off",
        "--record",
        "r.yaml",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    let id = said.out.trim();
    assert!(said.err.contains(&format!("longhaul start {id} --sandbox=off")), "{}", said.err);
    desk.get(&["start", id]);
    assert!(desk.path("r.yaml").exists(), "recorded as it was created");
}

/// A4.5: on a terminal a run that comes to wait asks right there, and goes on with the answer.
#[test]
fn a_person_at_the_terminal_is_asked() {
    let steps = [step("a", "MARS", &[], false), step("b", "PLUTO", &["a"], true)];
    for (typed, code, status) in [
        (&["what\n", "y\n"][..], 0, "completed"),
        (&["n\n", "too early\n"], 3, "paused"),
        (&["\n"], 3, "running"),
    ] {
        let desk = desk();
        desk.write("plan.json", &json!({ "steps": steps }).to_string());
        let line = "run x --agent MARS --model scripted/s.yaml --plan plan.json --autonomy 3";
        let (shown, ended) = at_a_terminal(&desk, line, typed);
        assert_eq!(ended, code, "{typed:?}: {shown}");
        assert!(shown.contains("PLUTO would begin with b") && shown.contains("approve?"), "{shown}");
        assert!(!shown.contains("taken up again"), "to whoever answers, it goes on: {shown}");
        let row = desk.json(&["list"])[0].clone();
        let root = row["parentId"].as_str().or(row["id"].as_str()).unwrap().to_owned();
        let run = desk.json(&["show", &root]);
        assert_eq!(run["status"], status, "{typed:?}: {shown}");
        if typed[0].starts_with('n') {
            assert_eq!(run["reason"], "too early");
            assert!(shown.contains(&format!("longhaul replan {root} --plan FILE")), "{shown}");
        }
    }
}

/// What was typed before a question was asked is no answer to it.
#[test]
fn lines_typed_ahead_approve_nothing() {
    let steps = [step("a", "MARS", &[], true), step("b", "PLUTO", &["a"], true)];
    let desk = desk();
    desk.write("plan.json", &json!({ "steps": steps }).to_string());
    let line = "run x --agent MARS --model scripted/s.yaml --plan plan.json --autonomy 3";
    let (shown, code) = at_a_terminal(&desk, line, &["y\ny\n", "\n"]);
    assert_eq!(code, 3, "{shown}");
    assert!(shown.contains("PLUTO would begin with b"), "{shown}");
    assert_eq!(desk.json(&["approvals", "list"]).as_array().unwrap().len(), 1);
}

/// The same for the first question of all, with what was typed while the run had nothing to ask yet.
#[test]
fn what_is_typed_before_the_first_question_approves_nothing() {
    let script = "conversations: [ { turns: [ { delay_ms: 700, calls: [ { tool: bash, args: { command: \"touch made\" } } ] }, \
                  { text: ok } ] } ]";
    let desk = Desk::with_script(script);
    let line = "run x --model scripted/s.yaml --ask bash --autonomy 3 --in-place";
    let (shown, code) = at_a_terminal_early(&desk, line, "y\nyes\n", &["\n"]);
    let (typed, asked) = (shown.find("yes\r\n").unwrap(), shown.find("approve?").unwrap());
    assert!(code == 3 && typed < asked, "{code} {shown}");
    assert!(!desk.path("made").exists());
    assert_eq!(desk.json(&["approvals", "list"]).as_array().unwrap().len(), 1);
}

/// A question of an agent is answered in words; somebody who answers elsewhere meanwhile is not waited for in vain.
#[test]
fn a_question_is_answered_at_the_terminal_or_elsewhere() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: ask_human, args: { question: \"Which port?\" } } ] }, \
                  { when_result_contains: { \"8080\": { text: \"8080 it is.\" } }, text: \"No answer.\" } ] } ]";
    let line = "run x --model scripted/s.yaml";
    let desk = Desk::with_script(script);
    let (shown, code) = at_a_terminal(&desk, line, &["8080\n"]);
    assert!(code == 0 && shown.contains("Which port?") && shown.contains("8080 it is."), "{shown}");

    // Nothing is typed, and the terminal stays open.
    let meanwhile = |act: &dyn Fn(&Desk, &str)| {
        let desk = Desk::with_script(script);
        let mut process = terminal(&desk, line);
        let gate = waiting(&desk);
        act(&desk, &gate);
        let stdin = process.stdin.take();
        let code = process.wait().unwrap().code();
        drop(stdin);
        let run = desk.json(&["show", gate.rsplit_once(".g").unwrap().0]);
        (code, run["status"].as_str().unwrap().to_owned())
    };
    let answered = meanwhile(&|desk, gate| drop(desk.get(&["answer", gate, "8080"])));
    assert_eq!(answered, (Some(0), "completed".to_owned()));
    let run_of = |gate: &str| gate.rsplit_once(".g").unwrap().0.to_owned();
    let stopped = meanwhile(&|desk, gate| drop(desk.say(&["stop", &run_of(gate)])));
    assert_eq!(stopped, (Some(1), "failed".to_owned()));
    let paused = meanwhile(&|desk, gate| drop(desk.say(&["pause", &run_of(gate)])));
    assert_eq!(paused, (Some(3), "paused".to_owned()));
}

/// The first approval that waits, once one does.
fn waiting(desk: &Desk) -> String {
    let began = Instant::now();
    loop {
        let said = desk.say(&["approvals", "list", "--json"]);
        let waiting: Value = serde_json::from_str(&said.out).unwrap_or_default();
        if let Some(gate) = waiting[0]["id"].as_str() {
            return gate.to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "nothing waits: {}", said.err);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The program in a terminal of its own.
fn terminal(desk: &Desk, line: &str) -> std::process::Child {
    let plain = desk.command(&[]);
    let program = format!("{} {line}", plain.get_program().to_str().unwrap());
    let mut script = std::process::Command::new("script");
    script.args(["-q", "-e", "-c", &program, "/dev/null"]).current_dir(plain.get_current_dir().unwrap());
    script.env_clear().envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    script.env("TERM", "xterm").env("SHELL", "/bin/sh");
    script.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

/// What it showed there and how it ended, if somebody types that, one after the other when asked.
fn at_a_terminal(desk: &Desk, line: &str, typed: &[&str]) -> (String, i32) {
    at_a_terminal_early(desk, line, "", typed)
}

/// The same with something that is typed at once.
fn at_a_terminal_early(desk: &Desk, line: &str, early: &str, typed: &[&str]) -> (String, i32) {
    let mut process = terminal(desk, line);
    let (mut stdin, mut stdout) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
    stdin.write_all(early.as_bytes()).unwrap();
    let (mut shown, mut part, mut answers) = (Vec::new(), [0; 1024], typed.iter());
    let mut answered = 0;
    loop {
        let read = stdout.read(&mut part).unwrap();
        if read == 0 {
            break;
        }
        shown.extend_from_slice(&part[..read]);
        let text = String::from_utf8_lossy(&shown);
        let asked = text.matches("leaves it waiting): ").count() + text.matches("why not? ").count();
        for answer in answers.by_ref().take(asked - answered) {
            stdin.write_all(answer.as_bytes()).unwrap();
        }
        answered = asked;
    }
    let code = process.wait().unwrap().code().unwrap_or(-1);
    drop(stdin);
    (String::from_utf8_lossy(&shown).into_owned(), code)
}

/// A run that was copied while a sub-agent was out sends its own; that of the other run is left to it.
#[test]
fn a_copied_run_leaves_the_children_of_the_other_alone() {
    let desk = desk();
    desk.write(
        "s.yaml",
        &CREW.replace("- text: \"I write.\"", "- delay_ms: 1500\n        text: \"I write.\""),
    );
    desk.write("plan.json", &json!({ "steps": [step("a", "PLUTO", &[], false)] }).to_string());
    let args = ["run", "x", "--agent", "MARS", "--model", "scripted/s.yaml", "--plan", "plan.json"];
    let mut process = desk.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    let child = loop {
        let rows: Value = serde_json::from_str(&desk.say(&["list", "--json"]).out).unwrap_or_default();
        let is_child = |row: &&Value| !row["parentId"].is_null() && row["status"] == "running";
        if let Some(child) = rows.as_array().into_iter().flatten().find(is_child) {
            break child.clone();
        }
        assert!(began.elapsed() < Duration::from_secs(60), "no child came");
        std::thread::sleep(Duration::from_millis(50));
    };
    process.kill().unwrap();
    process.wait().unwrap();
    let original = child["parentId"].as_str().unwrap();
    desk.write("copy.json", &desk.get(&["export", original]));
    desk.get(&["import", "copy.json", "--as", "run_copy"]);
    assert_eq!(desk.get(&["resume", "run_copy"]), "PLUTO is done.\n");
    let sent = desk.json(&["list", "--parent", "run_copy"]);
    assert_eq!((sent.as_array().unwrap().len(), &sent[0]["id"]), (1, &json!("run_copy.2")));
    let shown = desk.json(&["show", "run_copy"]);
    assert_eq!(shown["subAgents"][1]["attempt"], 1, "it is no second try");
    let others = desk.json(&["show", child["id"].as_str().unwrap()]);
    assert_eq!(others["status"], "running", "it was not ended");
    assert_eq!(desk.get(&["resume", original]), "PLUTO is done.\n");
}

/// AI8: calls and turns of a tree are one ledger, also while four sub-agents are at work at once; the pause speaks of what was
/// set, `show` counts what all of them did, and with more of it the run goes on to its end.
#[test]
fn calls_and_turns_of_a_tree_are_one_ledger() {
    let script = r#"
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "echo one" } } ]
      - calls: [ { tool: bash, args: { command: "echo two" } } ]
      - calls: [ { tool: bash, args: { command: "echo three" } } ]
      - text: "Done."
"#;
    let steps: Vec<Value> = ["a", "b", "c", "d"].iter().map(|name| step(name, "PLUTO", &[], false)).collect();
    for (limit, max, counted) in [("--max-tool-calls", 4, "toolCallCount"), ("--max-steps", 5, "turnCount")] {
        let desk = desk();
        desk.write("s.yaml", script);
        let said = run(&desk, &steps, &["--parallel", "4", limit, &max.to_string()]);
        let paused = shown(&said);
        assert_eq!((said.code, &paused["status"]), (4, &json!("paused")), "{limit}: {}", said.err);
        assert_eq!(paused[counted], max, "{limit}: {paused}");
        let name = limit.trim_start_matches("--").replace('-', "_");
        let reason = paused["reason"].as_str().unwrap();
        assert!(reason.contains(&format!("{name} reached: {max} of {max} used")), "{limit}: {reason}");
        let id = id(&said);
        let of_child = |child: u64| desk.json(&["show", &format!("{id}.{child}")])[counted].as_u64().unwrap();
        assert_eq!((1..=4).map(of_child).sum::<u64>(), max, "{limit}: what was really done");
        assert_eq!(desk.say(&["resume", &id, limit, "100"]).code, 0, "{limit}");
        let done = desk.json(&["show", &id]);
        assert_eq!((&done["toolCallCount"], &done["turnCount"]), (&json!(12), &json!(16)));
    }
}
