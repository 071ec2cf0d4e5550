//! Hooks: the user's commands that look at calls.

use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::desk::{Desk, Said};

const RUN: &[&str] = &["run", "x", "--model", "scripted/s.yaml", "--on-ask", "pause"];

fn desk(hooks: &str) -> Desk {
    let desk = Desk::new();
    desk.write("longhaul.yaml", &format!("hooks:\n{hooks}"));
    desk
}

fn calls(desk: &Desk) -> Vec<Value> {
    desk.json(&["tools", &last(desk)])["calls"].as_array().unwrap().clone()
}

fn last(desk: &Desk) -> String {
    desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned()
}

fn ran(desk: &Desk, code: i32) -> Said {
    let said = desk.say(RUN);
    assert_eq!(said.code, code, "{}", said.err);
    said
}

/// D7.1, D7.2, D7.4: a hook that has nothing against a call lets it be made, sees the call before and the result after it, and can
/// so keep a log of its own: a line for each call.
#[test]
fn an_audit_log_is_kept() {
    let desk = desk(
        "  before_tool: [ { command: 'cat >> before.jsonl; echo >> before.jsonl' } ]\n  after_tool: [ { command: 'cat >> after.jsonl; echo >> after.jsonl' } ]\n",
    );
    ran(&desk, 0);
    let lines = |name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(desk.path(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (before, after) = (lines("before.jsonl"), lines("after.jsonl"));
    assert_eq!((before.len(), after.len()), (2, 2));
    assert_eq!((&before[0]["event"], &before[0]["tool"]), (&"before_tool".into(), &"write".into()));
    assert_eq!(before[1]["args"]["command"], "cat a.txt");
    assert!(before[1].get("result").is_none());
    assert_eq!(
        (&after[1]["result"]["success"], &after[1]["result"]["text"]),
        (&true.into(), &"hello\n".into())
    );
    assert_eq!(after[1]["run"], last(&desk).as_str());
}

/// D7.1: a blocked call is not made; the agent reads why and goes on.
#[test]
fn a_blocked_call_is_not_made() {
    let desk =
        desk("  before_tool: [ { command: 'echo \"not here\"; exit 2', name: guard, tools: [write] } ]\n");
    ran(&desk, 0);
    let calls = calls(&desk);
    assert_eq!(calls[0]["result"]["message"], "the hook `guard` blocks this: not here");
    assert!(
        calls[1]["result"]["message"].as_str().unwrap().contains("exit code"),
        "there is no file: {}",
        calls[1]
    );
}

/// A call that fails before it is made is seen too: what it would answer may be what the hook guards.
#[test]
fn a_call_that_cannot_be_made_is_seen() {
    let desk = desk("  before_tool: [ { command: 'exit 2', name: guard, tools: [edit] } ]\n");
    desk.write(
        "s.yaml",
        "conversations: [ { turns: [ { calls: [ { tool: write, args: { path: a, content: \"a secret\\n\" } }, \
         { tool: edit, args: { path: a, old: a secre7, new: b } } ] }, { text: ok } ] } ]",
    );
    ran(&desk, 0);
    let told = calls(&desk)[1]["result"].to_string();
    assert!(told.contains("the hook `guard` blocks this") && !told.contains("a secret"), "{told}");
}

/// D7.1: an interrupted call waits for a person and is made once with leave, although the hook says the same again.
#[test]
fn an_interrupted_call_is_made_with_leave() {
    let hook = r#"  before_tool: [ { command: 'echo "{\"decision\":\"interrupt\",\"reason\":\"look\"}"', name: eye, tools: [bash] } ]
"#;
    let desk = desk(hook);
    ran(&desk, 3);
    let id = last(&desk);
    let gates = desk.json(&["approvals", "list"]);
    assert!(gates[0].to_string().contains("the hook `eye` wants a person to look: look"), "{gates}");
    desk.get(&["approve", gates[0]["id"].as_str().unwrap()]);
    desk.get(&["resume", &id]);
    let calls = calls(&desk);
    assert_eq!((calls.len(), &calls[1]["result"]["output"]["text"]), (2, &"hello\n".into()));
}

/// A decision may be written over several lines, and what is said on standard error is no part of it.
#[test]
fn a_decision_is_found_in_what_was_printed() {
    let hook = "  before_tool: [ { command: 'printf \"{\\n  \\\"decision\\\": \\\"block\\\"\\n}\\n\"; echo a warning >&2', tools: [write] } ]\n";
    let desk = desk(hook);
    ran(&desk, 0);
    assert!(calls(&desk)[0]["result"]["message"].as_str().unwrap().contains("blocks this: without a reason"));
}

/// Leave for what a rule asks about is not leave for what a hook has against the call: both are asked.
#[test]
fn leave_for_a_rule_does_not_silence_a_hook() {
    let hook = r#"  before_tool: [ { command: 'echo "{\"decision\":\"interrupt\",\"reason\":\"a password\"}"', tools: [bash] } ]
"#;
    let desk = desk(hook);
    let said = desk.say(&[RUN, &["--ask", "bash"]].concat());
    assert_eq!(said.code, 3, "{}", said.err);
    let id = last(&desk);
    for (gate, why) in [(1, "may bash be called?"), (2, "a password")] {
        let gates = desk.json(&["approvals", "list"]);
        assert!(gates[0].to_string().contains(why), "{gates}");
        desk.get(&["approve", &format!("{id}.g{gate}")]);
        let resumed = desk.say(&["resume", &id]);
        assert_eq!(resumed.code, if gate == 1 { 3 } else { 0 }, "{}", resumed.err);
    }
    assert_eq!(calls(&desk)[1]["result"]["output"]["text"], "hello\n");
}

/// D7.3: of several hooks the strictest wins, whatever their order.
#[test]
fn the_strictest_hook_wins() {
    let word = |decision: &str| format!("{{ command: 'echo \"{{\\\"decision\\\":\\\"{decision}\\\"}}\"' }}");
    let [go_on, block, interrupt] = ["continue", "block", "interrupt"].map(word);
    let blocked = desk(&format!("  before_tool: [ {block}, {go_on} ]\n"));
    ran(&blocked, 0);
    assert!(
        calls(&blocked)
            .iter()
            .all(|call| call["result"]["message"].as_str().unwrap().contains("blocks this"))
    );
    let interrupted = desk(&format!("  before_tool: [ {go_on}, {interrupt}, {block} ]\n"));
    ran(&interrupted, 3);
    assert_eq!(interrupted.json(&["approvals", "list"]).as_array().unwrap().len(), 1);
}

/// A hook that breaks, is late or is not there lets nothing through, says so in its own words, and does not lock the run: it
/// stops for a person after some calls.
#[test]
fn a_broken_hook_lets_nothing_through() {
    for (hook, why) in [
        ("{ command: 'exit 7' }", "failed with exit code 7"),
        ("{ command: './not-there' }", "failed with exit code 127"),
        ("{ command: 'sleep 60', timeout_ms: 50 }", "said nothing within 50 ms"),
        ("{ command: 'kill -9 $$' }", "killed"),
        ("{ command: 'echo {nonsense' }", "no decision"),
        ("{ command: 'yes | head -c 100000' }", "printed more than 65536 bytes"),
    ] {
        let desk = desk(&format!("  before_tool: [ {hook} ]\n"));
        let script = "conversations: [ { turns: [ { calls: [ { tool: write, args: { path: a.txt, content: x } } ] } ] } ]";
        desk.write("s.yaml", script);
        let said = ran(&desk, 3);
        assert!(
            said.err.contains("hooks broke at 3 calls in a row") && said.err.contains(why),
            "{}",
            said.err
        );
        let calls = calls(&desk);
        assert_eq!(calls.len(), 3);
        assert!(
            calls.iter().all(|call| call["result"]["message"].as_str().unwrap().contains(why)),
            "{calls:?}"
        );
    }
}

/// D7.2: a hook that blocks after a call tells the agent what is wrong with the result; one that interrupts stops the run
/// there, and the run goes on when it is resumed.
#[test]
fn a_result_is_judged() {
    let objecting =
        desk("  after_tool: [ { command: 'echo \"tests fail\"; exit 2', name: tests, tools: [write] } ]\n");
    ran(&objecting, 0);
    let calls_ = calls(&objecting);
    assert_eq!(
        calls_[0]["result"]["message"],
        "the call was made, but the hook `tests` blocks this: tests fail"
    );
    assert_eq!(calls_[1]["result"]["output"]["text"], "hello\n", "what was done stays done");
    let stopping = desk(
        "  after_tool: [ { command: 'test -e seen || { touch seen; echo \"{\\\"decision\\\":\\\"interrupt\\\"}\"; }' } ]\n",
    );
    let said = ran(&stopping, 3);
    assert!(said.err.contains("wants a person to look"), "{}", said.err);
    stopping.get(&["resume", &last(&stopping)]);
    assert_eq!(calls(&stopping).len(), 2);
}

/// The user's own hooks stay whatever the repository says, and the repository's do nothing without trust.
#[test]
fn hooks_are_added_never_replaced() {
    let desk = desk("  before_tool: [ { command: 'touch theirs' } ]\n");
    std::fs::create_dir_all(desk.path("home/longhaul")).unwrap();
    desk.write("home/longhaul/longhaul.yaml", "hooks: { before_tool: [ { command: 'touch mine' } ] }");
    let mine = desk.path("home/longhaul/mine");
    let mut command = desk.command(RUN);
    command.env("XDG_CONFIG_HOME", desk.path("home"));
    let untrusted = command.env_remove("LONGHAUL_TRUST").output().unwrap();
    assert!(String::from_utf8_lossy(&untrusted.stderr).contains("hooks.before_tool"), "{untrusted:?}");
    assert!(mine.exists() && !desk.path("theirs").exists());
    std::fs::remove_file(&mine).unwrap();
    assert!(command.env("LONGHAUL_TRUST", "1").status().unwrap().success());
    assert!(mine.exists() && desk.path("theirs").exists());
}

/// kill -9 while a hook looks at a command: the hook is ended too, and the agent is told that the call may have run.
#[test]
fn a_hook_does_not_outlive_the_harness() {
    let desk = desk(
        "  before_tool: [ { command: 'test -e slow && exit 0; touch slow; exec sleep 4711', tools: [bash], timeout_ms: 60000 } ]\n",
    );
    let mut child = desk.command(RUN).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !desk.path("slow").exists() {
        assert!(Instant::now() < deadline, "the hook never ran");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let id = last(&desk);
    desk.get(&["resume", &id]);
    assert!(calls(&desk)[1].to_string().contains("longhaul was stopped while this call ran"));
    let left = std::process::Command::new("pgrep").args(["-f", "sleep 4711"]).output();
    assert!(left.is_ok_and(|left| left.stdout.is_empty()), "the hook still runs");
}

/// Bad hooks are refused with the place they stand at.
#[test]
fn bad_hooks_are_refused() {
    for (hooks, why) in [
        ("  before_tool: [ { command: '' } ]\n", "hooks.before_tool[0]: `command` is empty"),
        ("  before_tool: [ { command: x, timeout_ms: 0 } ]\n", "`timeout_ms` must be from 1 to 300000"),
        ("  before_tool: [ { commande: x } ]\n", "commande"),
        ("  around_tool: []\n", "around_tool"),
        (
            "  before_tool: [ { command: x, tools: [bsah] } ]\n",
            "hooks.before_tool[0]: there is no tool `bsah`",
        ),
        ("  before_tool: [ { command: x, tools: [] } ]\n", "it would see nothing"),
    ] {
        let said = desk(hooks).say(RUN);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains(why), "{}", said.err);
    }
}
