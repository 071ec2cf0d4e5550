//! What a person at a terminal sees while a run is driven.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::desk::Desk;

const SLOW: &str = r#"
name: slow
prices: { input: 3.00, output: 15.00 }
conversations:
  - turns:
      - calls: [ { tool: write, args: { path: a, content: a } } ]
        usage: { input: 1000, output: 10 }
      - calls: [ { tool: bash, args: { command: "sleep 1.5; echo slept" } } ]
        usage: { input: 1000, output: 10 }
      - text: "All done."
"#;

fn has_script() -> bool {
    let there = Command::new("script").arg("--version").output().is_ok();
    if !there {
        println!("SKIP: script is not installed");
    }
    there
}

fn seen(desk: &Desk, args: &[&str]) -> String {
    let output = desk.on_terminal(args).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The last line says step, call, tokens, cost and time while the call lasts, of a fresh run and of one that goes on.
#[test]
fn the_last_line_tells_what_is_happening() {
    if !has_script() {
        return;
    }
    let desk = Desk::with_script(SLOW);
    let asked = ["run", "x", "--model", "scripted/s.yaml"];
    let paused = desk.say(&[&asked[..], &["--max-steps", "1", "--json"]].concat());
    let paused: serde_json::Value = serde_json::from_str(&paused.out).unwrap();
    assert_eq!(paused["status"], "paused");
    let resumed = ["resume", paused["id"].as_str().unwrap(), "--max-steps", "9"];
    for (what, args) in [("run", &asked[..]), ("resume", &resumed)] {
        let shown = seen(&desk, args);
        let lines: Vec<&str> = shown.split(['\r', '\n']).collect();
        let calling = "step 1/1 · bash sleep 1.5; echo slept · 2020 tokens · $0.0063 · 1s";
        assert!(lines.iter().any(|line| line.contains(calling)), "{what}: {shown}");
        assert!(lines.iter().any(|line| line.ends_with("All done.")), "{what}: {shown}");
    }
}

/// The agent's own list is drawn where it is watched, on a terminal and in plain lines; of a long one the beginning.
#[test]
fn the_agents_list_is_drawn() {
    let items: Vec<String> =
        (1..=30).map(|number| format!("{{ text: item {number}, status: pending }}")).collect();
    let desk = Desk::with_script(&format!(
        "conversations: [ {{ turns: [ {{ calls: [ {{ tool: todo, args: {{ items: [ \
         {{ text: look at it, status: done }}, {{ text: mend it, status: active }} ] }} }}, \
         {{ tool: todo, args: {{ items: [ {} ] }} }} ] }}, {{ text: Done. }} ] }} ]",
        items.join(", ")
    ));
    let asked = ["run", "x", "--model", "scripted/s.yaml"];
    let mut all = vec![desk.say(&asked).err];
    if has_script() {
        all.push(seen(&desk, &asked).replace('\r', ""));
    }
    for shown in all {
        let lines: Vec<&str> = shown.lines().map(str::trim).collect();
        let first = lines.iter().position(|line| line.ends_with("[x] look at it")).expect(&shown);
        assert_eq!(lines[first + 1..first + 3], ["[>] mend it", "[1 of 2 done]"], "{shown}");
        assert!(lines.contains(&"[ ] item 20") && !lines.contains(&"[ ] item 21"), "{shown}");
        assert!(lines.contains(&"… 11 more lines"), "{shown}");
    }
}

/// F68: what the terminal shows of a Ctrl-C is on the line that moves, so that it goes away with it.
#[test]
fn a_ctrl_c_leaves_no_last_line() {
    if !has_script() {
        return;
    }
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'echo x > began; sleep 60' } } ] } ] } ]",
    );
    let mut command = desk.on_terminal(&["run", "x", "--in-place", "--model", "scripted/s.yaml"]);
    let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    while !desk.path("began").exists() {
        assert!(since.elapsed() < Duration::from_secs(60), "the command did not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    process.stdin.as_mut().unwrap().write_all(b"\x03").unwrap();
    let shown = String::from_utf8_lossy(&process.wait_with_output().unwrap().stdout).into_owned();
    let (before, after) = shown.split_once("^C").unwrap();
    assert!(before.ends_with('\r'), "{before:?}");
    assert!(after.contains("paused: interrupted from the terminal"), "{after:?}");
}
