//! Whose programs we start: never those that an agent has put where the user's PATH leads.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use super::desk::Desk;

/// The agent makes a `git` where PATH will find it, and one that its own commands are to find.
const PLANTS: &str = r##"
name: plants
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "mkdir -p bin && printf '#!/bin/sh\\ntouch mark\\n' > bin/git && chmod +x bin/git && printf '#!/bin/sh\\necho own\\n' > bin/own && chmod +x bin/own" } } ]
      - calls: [ { tool: write, args: { path: a.txt, content: x } } ]
      - calls: [ { tool: bash, args: { command: own } } ]
      - text: "Done."
"##;

/// A39, A108: a directory of the project that is on PATH, and is made only later, gives us no program of ours.
#[test]
fn an_agents_git_is_not_ours() {
    let desk = Desk::with_script(PLANTS);
    for args in [
        &["init", "-q"][..],
        &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "first"],
    ] {
        assert!(Command::new("git").args(args).current_dir(desk.path("")).status().unwrap().success());
    }
    let home = tempfile::tempdir().unwrap();
    let path = format!("{}:{}", desk.path("bin").display(), std::env::var("PATH").unwrap());
    let run = |args: &[&str]| {
        let output = desk.command(args).env("PATH", &path).env("HOME", home.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let shown = run(&["run", "x", "--in-place", "--model", "scripted/s.yaml", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    for args in [&["result", shown["id"].as_str().unwrap()][..], &["workspace", "list"], &["doctor"]] {
        run(args);
    }
    let git = desk.path("bin/git");
    assert_eq!(git.metadata().unwrap().permissions().mode() & 0o111, 0o111, "it is there and can be run");
    assert!(!desk.path("mark").exists(), "it was run");
    let tools = run(&["tools", shown["id"].as_str().unwrap(), "--json"]);
    assert!(tools.contains(r#""text": "own\n"#), "the agent's own commands find theirs: {tools}");
}
