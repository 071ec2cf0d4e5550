//! Rules as a user meets them: `permissions show` and `check`, and what becomes of an agent's calls.

use std::path::Path;
use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};

use crate::checkout::{git, repository};
use crate::desk::Desk;

/// D7.5, D2.6: the defaults are listed with their origin, and a rule of the user's takes the place of one of them.
#[test]
fn rules_are_shown_with_their_origin() {
    let desk = Desk::new();
    let shown = |pattern: &str| -> Vec<(String, String)> {
        let all = desk.json(&["permissions", "show"]);
        let found = all.as_array().unwrap().iter().filter(|rule| rule["pattern"] == pattern);
        found.map(|rule| (text(&rule["action"]), text(&rule["origin"]))).collect()
    };
    let rule = |action: &str, origin: &str| (action.to_owned(), origin.to_owned());
    assert_eq!(shown("git push *"), [rule("ask", "default")]);
    assert_eq!(shown("rm of everything"), [rule("deny", "built in")]);
    user(&desk, "permissions: { bash: { 'git push *': allow } }\n");
    assert_eq!(shown("git push *"), [rule("allow", "user")]);
    desk.write("longhaul.yaml", "permissions: { bash: { 'git push *': deny }, write: ask }\n");
    assert_eq!(shown("git push *"), [rule("allow", "user"), rule("deny", "project")], "both must be passed");
    assert_eq!(desk.say(&["permissions", "check", "git push"]).code, 1);
}

/// D7.5: a project's rule that only allows is listed with what it can do, which is little or nothing.
#[test]
fn what_a_project_cannot_loosen_is_said() {
    let desk = Desk::new();
    user(&desk, "permissions: { bash: { 'git push *': ask } }\n");
    let notes = |rules: &str| -> Vec<(String, String)> {
        desk.write("longhaul.yaml", &format!("permissions: {{ {rules} }}\n"));
        let all = desk.json(&["permissions", "show"]);
        let projects = all.as_array().unwrap().iter().filter(|rule| rule["origin"] == "project");
        projects.map(|rule| (text(&rule["pattern"]), text(&rule["note"]))).collect()
    };
    let (nothing, own) = ("no effect: a project can only tighten", "loosens only this project's own rules");
    for (rules, expected) in [
        ("bash: { 'rm -rf *': allow }", vec![("rm -rf *", nothing)]),
        ("bash: { 'git push *': allow, 'make *': deny }", vec![("git push *", nothing), ("make *", "")]),
        ("bash: { 'make *': ask, 'make test': allow }", vec![("make *", ""), ("make test", own)]),
        ("bash: { '*': deny, 'ls *': allow }", vec![("*", ""), ("ls *", own)]),
        ("'*': ask, read: allow", vec![("*", ""), ("*", own)]),
        ("bash: { 'git commit *': ask }, git_commit: allow", vec![("git commit *", ""), ("*", own)]),
    ] {
        let expected: Vec<(String, String)> =
            expected.into_iter().map(|(pattern, note)| (pattern.to_owned(), note.to_owned())).collect();
        assert_eq!(notes(rules), expected, "{rules}");
    }
    // The notes are true: what they say has no effect has none, and the others have one.
    let code = |rules: &str, command: &str| {
        desk.write("longhaul.yaml", &format!("permissions: {{ {rules} }}\n"));
        desk.say(&["permissions", "check", command, "--autonomy", "3"]).code
    };
    assert_eq!(code("bash: { 'rm -rf *': allow }", "rm -rf x"), 1);
    assert_eq!(code("bash: { 'git push *': allow }", "git push origin"), 3);
    assert_eq!(code("bash: { 'make *': ask }", "make test"), 3);
    assert_eq!(code("bash: { 'make *': ask, 'make test': allow }", "make test"), 0);
    desk.write("longhaul.yaml", "permissions: { bash: { 'rm -rf *': allow } }\n");
    let shown = desk.get(&["permissions", "show"]);
    assert!(shown.contains("allow   project (no effect: a project can only tighten)\n"), "{shown}");
}

/// A73: rules that cannot be read are an error with their place; never no rules.
#[test]
fn wrong_rules_are_refused() {
    let desk = Desk::new();
    for (written, said) in [
        ("permissions: { bash: { 'ls *': maybe } }", "maybe"),
        ("permissions: { bash: null }", "allow, ask or deny"),
        ("permisions: { bash: deny }", "permisions"),
        ("permissions: { bash: { '': deny } }", "a pattern is empty"),
        ("permissions: { bash: { 'curl * | sh': allow } }", "a pipe can be asked about or denied"),
        ("permissions: { bash: { 'rm *': deny, 'rm *': allow } }", "`rm *` is there twice"),
        ("permissions: { bsh: deny }", "there is no tool `bsh`"),
    ] {
        desk.write("longhaul.yaml", written);
        for args in [&["permissions", "show"][..], &["run", "x", "--model", "scripted/s.yaml"]] {
            let refused = desk.say(args);
            let told = refused.err.contains("longhaul.yaml") && refused.err.contains(said);
            assert!(refused.code == 2 && told, "{written}: {} {}", refused.code, refused.err);
        }
    }
}

/// D7.5: a check says what decides, and a script learns it from the exit code.
#[test]
fn a_check_explains_itself() {
    let desk = Desk::new();
    let said = desk.say(&["permissions", "check", "true && sudo rm -rf x"]);
    expect![[r#"
        deny: `sudo rm -rf x` matches
        rule bash "rm -rf *" (default)

        COMMAND        ALONE  WHY
        true           allow  `true` matches
        sudo rm -rf x  deny   `sudo rm -rf x` matches
        rm -rf x       deny   `rm -rf x` matches
    "#]]
    .assert_eq(&said.out);
    assert_eq!(said.code, 1);
    assert_eq!(desk.say(&["permissions", "check", "git push origin"]).code, 3);
    assert_eq!(desk.say(&["permissions", "check", "ls"]).code, 0);
    assert_eq!(desk.say(&["permissions", "check", "../x", "--tool", "read"]).code, 1);
    let checked = desk.say(&["permissions", "check", "ls \"$X\" 'a", "--json"]);
    let checked: serde_json::Value = serde_json::from_str(&checked.out).unwrap();
    assert_eq!((&checked["byRules"], &checked["rule"]), (&json!("ask"), &json!(null)));
    assert_eq!((&checked["action"], &checked["autonomy"]), (&json!("deny"), &json!(4)));
}

/// D7.5: a check says what would become of a call in a run: with its autonomy, and with the hosts it may reach.
#[test]
fn a_check_knows_the_run_around_the_rules() {
    let desk = Desk::new();
    let code = |args: &[&str]| desk.say(&[&["permissions", "check"], args].concat()).code;
    assert_eq!(["1", "3", "4", "5"].map(|level| code(&["git push", "--autonomy", level])), [3, 3, 3, 1]);
    let unclear = "ls \"$X\" 'a";
    assert_eq!(["1", "3", "4", "5"].map(|level| code(&[unclear, "--autonomy", level])), [3, 3, 1, 1]);
    // That it might turn out as what a rule speaks of is a doubt, too.
    assert_eq!(["1", "3", "4", "5"].map(|level| code(&["X=ls; $X", "--autonomy", level])), [3, 3, 1, 1]);
    assert_eq!((code(&["ls", "--autonomy", "5"]), code(&["ls", "--autonomy", "6"])), (0, 2));
    let told = desk.say(&["permissions", "check", unclear, "--autonomy", "4"]).out;
    assert!(told.starts_with("deny: with autonomy 4 nobody is asked in doubt"), "{told}");
    assert!(told.contains("by the rules ask: "), "{told}");
    let unknown = desk.say(&["permissions", "check", "x", "--tool", "banana"]);
    assert!(unknown.code == 2 && unknown.err.contains("there is no tool `banana`"), "{}", unknown.err);
    assert_eq!(code(&["{}", "--tool", "server__tool"]), 0);
    user(&desk, "permissions: { fetch: allow, network: [docs.example] }\n");
    assert_eq!(code(&["https://docs.example/x", "--tool", "fetch"]), 0);
    let other = desk.say(&["permissions", "check", "https://other.example/", "--tool", "fetch"]);
    assert!(other.code == 1 && other.out.contains("other.example:443 may not be reached"), "{}", other.out);
    let local = desk.say(&["permissions", "check", "http://127.0.0.1:8080/", "--tool", "fetch"]).out;
    assert!(local.contains("`permissions.network: full`") && !local.contains("can list it"), "{local}");
}

/// What the agent does: something that is asked about by the project's rules, and something else.
const RELEASING: &str = r#"
conversations:
  - turns:
      - text: "I release."
        calls:
          - { tool: bash, args: { command: "sh release.sh" } }
          - { tool: bash, args: { command: "echo after >> log" } }
      - text: "All done."
"#;

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Writes the user's own settings.
fn user(desk: &Desk, settings: &str) {
    std::fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(".config/longhaul/longhaul.yaml", settings);
}

fn desk_of(script: &str) -> Desk {
    let desk = Desk::with_script(script);
    desk.write("release.sh", "echo released >> released");
    desk.write("longhaul.yaml", "permissions: { bash: { 'sh release.sh *': ask } }\n");
    desk
}

/// Runs the script in the desk's own directory: its exit code, id, and what it said.
fn run(desk: &Desk, more: &[&str]) -> (i32, String) {
    let args = ["run", "x", "--in-place", "--model", "scripted/s.yaml", "--json"];
    let said = desk.say(&[&args[..], more].concat());
    let shown: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{}", said.err));
    (said.code, text(&shown["id"]))
}

/// What the agent was told of its calls.
fn told(desk: &Desk, id: &str) -> Vec<String> {
    let tools = desk.json(&["tools", id]);
    tools["calls"].as_array().unwrap().iter().map(|call| call["result"].to_string()).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

fn gate(desk: &Desk) -> Value {
    let waiting = desk.json(&["approvals"]);
    assert_eq!(waiting.as_array().unwrap().len(), 1, "{waiting}");
    waiting[0].clone()
}

/// D7.5, D2.6, I13: what is denied does not happen by whatever tool; the agent is told the rule, and the run goes on.
#[test]
fn a_denied_call_is_an_answer() {
    let desk = Desk::with_script(
        r#"
conversations:
  - turns:
      - calls:
          - { tool: bash, args: { command: "true && rm -rf kept" } }
          - { tool: bash, args: { command: "cat ../secret" } }
          - { tool: read, args: { path: server.key } }
          - { tool: write, args: { path: .git/config, content: "x" } }
          - { tool: apply_patch, args: { patch: "*** Begin Patch\n*** Add File: .git/hooks/pre-commit\n+x\n*** End Patch" } }
          - { tool: grep, args: { pattern: "SECR.T|plain" } }
          - { tool: bash, args: { command: "echo here" } }
      - text: "All done."
"#,
    );
    desk.write("plain.txt", "plain");
    std::fs::create_dir(desk.path("kept")).unwrap();
    std::fs::create_dir_all(desk.path(".git/hooks")).unwrap();
    desk.write("server.key", "SECRET");
    let (code, id) = run(&desk, &[]);
    let told = told(&desk, &id);
    let rules = [
        "bash \\\"rm -rf *",
        "external_directory \\\"*",
        "read \\\"*.key",
        "write \\\".git/*",
        "edit \\\".git/*",
    ];
    for (rule, told) in rules.iter().zip(&told) {
        assert!(told.contains("not_permitted") && told.contains(rule), "{rule}: {told}");
    }
    let found = &told[5];
    assert!(found.contains("plain.txt") && !found.contains("SECRET"), "A18: {found}");
    assert!(found.contains("server.key") && found.contains("*.key"), "what is left out is said: {found}");
    assert!(told[6].contains("here"), "{told:?}");
    assert_eq!(code, 0);
    assert!(desk.path("kept").exists() && !desk.path(".git/config").exists());
    assert!(!desk.path(".git/hooks/pre-commit").exists());
}

/// D7.5, A53, A56: an ask shows the exact action and its rule, and waits; approved, the call is made once.
#[test]
fn an_approved_call_is_made_once() {
    let desk = desk_of(RELEASING);
    let (code, id) = run(&desk, &[]);
    assert_eq!((code, read(&desk.path("released"))), (3, String::new()));
    let gate = gate(&desk);
    assert_eq!(
        gate["description"],
        "may bash be called? `sh release.sh` matches, by the rule bash \"sh release.sh *\""
    );
    assert_eq!(
        (&gate["arguments"], &gate["kind"]),
        (&json!({ "command": "sh release.sh" }), &json!("permission"))
    );
    assert_eq!(desk.say(&["resume", &id]).code, 3, "coming back is no answer");
    assert_eq!(read(&desk.path("released")), "");
    desk.get(&["approve", &text(&gate["id"])]);
    assert_eq!(desk.get(&["resume", &id]), "All done.\n");
    assert_eq!(desk.say(&["approve", &text(&gate["id"])]).code, 1, "an answer counts once");
    assert_eq!(
        (read(&desk.path("released")), read(&desk.path("log"))),
        ("released\n".into(), "after\n".into())
    );
}

/// A11: where `longhaul.yaml` is a link, a change of what it leads to is a change of the settings.
#[test]
fn the_file_behind_linked_settings_is_asked_about() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path("conf")).unwrap();
    desk.write("conf/l.yaml", "harness: { autonomy: 4 }\n");
    let check = |tool: &str| desk.say(&["permissions", "check", "conf/l.yaml", "--tool", tool]).code;
    assert_eq!(["write", "edit", "read"].map(check), [0, 0, 0]);
    std::os::unix::fs::symlink("conf/l.yaml", desk.path("longhaul.yaml")).unwrap();
    assert_eq!(["write", "edit", "read"].map(check), [3, 3, 0]);
    std::fs::remove_file(desk.path("conf/l.yaml")).unwrap();
    assert_eq!(check("write"), 3, "to make it is to change the settings too");
}

/// D7.5: whoever speaks of a tool by its name has it judged by that, and not by the default for the command it is like; what is
/// denied stays so.
#[test]
fn a_rule_about_a_git_tool_is_about_that_tool() {
    let desk = Desk::new();
    let check = || desk.say(&["permissions", "check", "x", "--tool", "git_commit"]).code;
    assert_eq!(check(), 3);
    user(&desk, "permissions: { git_commit: allow }\n");
    assert_eq!(check(), 0);
    user(&desk, "permissions: { git_commit: allow, bash: { 'git commit *': deny } }\n");
    assert_eq!(check(), 1);
}

/// Settings that are a FIFO are refused; nobody waits for them.
#[test]
fn settings_are_no_fifo() {
    let desk = Desk::new();
    let path = desk.path("longhaul.yaml");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let said = desk.say(&["config", "show"]);
    assert!(said.code == 2 && said.err.contains("longhaul.yaml is a FIFO, not a file"), "{}", said.err);
}

/// A53: leave is for the file as it was when leave was asked for. If somebody has changed it since, a person is asked again, and
/// until then it stays as they left it.
#[test]
fn leave_for_a_change_ends_when_the_file_changes() {
    for (call, mine, after) in [
        ("{ tool: write, args: { path: a.txt, content: \"agent\\n\" } }", "mine\n", "agent\n"),
        ("{ tool: edit, args: { path: a.txt, old: one, new: agent } }", "one\nmine\n", "agent\nmine\n"),
        (
            "{ tool: apply_patch, args: { patch: \"*** Begin Patch\\n*** Update File: a.txt\\n@@\\n-one\\n+agent\\n*** End Patch\" } }",
            "one\nmine\n",
            "agent\nmine\n",
        ),
    ] {
        let script =
            format!("conversations: [ {{ turns: [ {{ calls: [ {call} ] }}, {{ text: All done. }} ] }} ]");
        let desk = Desk::with_script(&script);
        desk.write("longhaul.yaml", "permissions: { write: ask, edit: ask }\n");
        desk.write("a.txt", "one\ntwo\n");
        let (code, id) = run(&desk, &[]);
        assert_eq!((code, read(&desk.path("a.txt"))), (3, "one\ntwo\n".into()), "{call}");
        let first = gate(&desk);
        desk.write("a.txt", mine);
        desk.get(&["approve", &text(&first["id"])]);
        assert_eq!(desk.say(&["resume", &id]).code, 3, "{call}");
        assert_eq!(read(&desk.path("a.txt")), mine, "{call}");
        let second = gate(&desk);
        assert_ne!(first["id"], second["id"]);
        let asked = text(&second["description"]);
        assert!(asked.ends_with("(leave was given before a file of it changed)"), "{call}: {asked}");
        desk.get(&["approve", &text(&second["id"])]);
        assert_eq!(desk.get(&["resume", &id]), "All done.\n", "{call}");
        assert_eq!(read(&desk.path("a.txt")), after, "{call}");
    }
}

/// A53: leave for a commit is for the commit that was shown. If something else is staged since, a person is asked again.
#[test]
fn leave_for_a_commit_is_for_what_was_staged() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: git_add, args: { paths: [a.txt] } } ] }, \
                  { calls: [ { tool: git_commit, args: { message: Work } } ] }, { text: All done. } ] } ]";
    let desk = repository(script, &[("b.txt", "")]);
    desk.write("a.txt", "agent\n");
    let (code, id) = run(&desk, &[]);
    assert_eq!(code, 3);
    let shown = |gate: &Value| {
        let asked = text(&gate["description"]);
        // As the person types it who is asked, wherever that is.
        let command = asked.split('`').find(|words| words.starts_with("git -C")).unwrap();
        let mut shell = std::process::Command::new("sh");
        let shown = shell.args(["-c", command]).current_dir("/").output().unwrap();
        String::from_utf8(shown.stdout).unwrap().trim_end().to_owned()
    };
    let first = gate(&desk);
    assert!(shown(&first).contains("\n    Work\n") && shown(&first).ends_with("+agent"), "{}", shown(&first));
    desk.write("a.txt", "exchanged\n");
    git(&desk, &["add", "a.txt"]);
    desk.get(&["approve", &text(&first["id"])]);
    assert_eq!(desk.say(&["resume", &id]).code, 3);
    assert_eq!(git(&desk, &["log", "--format=%s"]), "first");
    let second = gate(&desk);
    assert!(shown(&second).ends_with("+exchanged"), "{}", shown(&second));
    assert!(text(&second["description"]).ends_with("changed)"), "{second}");
    desk.get(&["approve", &text(&second["id"])]);
    assert_eq!(desk.get(&["resume", &id]), "All done.\n");
    assert_eq!(git(&desk, &["log", "--format=%s"]), "Work\nfirst");
    assert_eq!(git(&desk, &["show", "HEAD:a.txt"]), "exchanged");
}

/// A53: leave for a command is for the file that it names. If somebody changes that, or makes it, a person is asked again.
#[test]
fn leave_for_a_command_ends_when_a_file_of_it_changes() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: sh release.sh } } ] }, \
                  { text: All done. } ] } ]";
    for before in [Some("echo released >> released"), None] {
        let desk = desk_of(script);
        if before.is_none() {
            std::fs::remove_file(desk.path("release.sh")).unwrap();
        }
        let (code, id) = run(&desk, &[]);
        assert_eq!(code, 3);
        let first = gate(&desk);
        desk.write("release.sh", "echo changed >> released");
        desk.get(&["approve", &text(&first["id"])]);
        assert_eq!(desk.say(&["resume", &id]).code, 3, "{before:?}");
        assert!(!desk.path("released").exists(), "{before:?}");
        let second = gate(&desk);
        assert!(first["id"] != second["id"] && first["digest"] != second["digest"], "{second}");
        desk.get(&["approve", &text(&second["id"])]);
        assert_eq!(desk.get(&["resume", &id]), "All done.\n");
        assert_eq!(read(&desk.path("released")), "changed\n");
    }
}

/// A53: nor is leave for a change that could not be made yet leave for whatever the file becomes.
#[test]
fn leave_for_a_change_that_does_not_fit_is_not_for_one_that_does() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: edit, args: { path: a.txt, old: one, new: agent } } ] }, \
                  { text: All done. } ] } ]";
    let desk = Desk::with_script(script);
    desk.write("longhaul.yaml", "permissions: { edit: ask }\n");
    desk.write("a.txt", "two\n");
    let (code, id) = run(&desk, &[]);
    assert_eq!(code, 3);
    let first = gate(&desk);
    desk.write("a.txt", "mine: one\n");
    desk.get(&["approve", &text(&first["id"])]);
    assert_eq!(desk.say(&["resume", &id]).code, 3);
    assert_eq!(read(&desk.path("a.txt")), "mine: one\n");
    desk.get(&["approve", &text(&gate(&desk)["id"])]);
    assert_eq!(desk.get(&["resume", &id]), "All done.\n");
    assert_eq!(read(&desk.path("a.txt")), "mine: agent\n");
}

/// A53: and it lasts as long as the file does not change.
#[test]
fn leave_for_a_change_is_asked_for_once() {
    let script = "conversations: [ { turns: [ { calls: [ { tool: edit, args: { path: a.txt, old: one, new: agent } } ] }, \
                  { text: All done. } ] } ]";
    let desk = Desk::with_script(script);
    desk.write("longhaul.yaml", "permissions: { edit: ask }\n");
    desk.write("a.txt", "one\ntwo\n");
    let (_, id) = run(&desk, &[]);
    desk.get(&["approve", &text(&gate(&desk)["id"])]);
    assert_eq!(desk.get(&["resume", &id]), "All done.\n");
    assert_eq!(read(&desk.path("a.txt")), "agent\ntwo\n");
}

/// D7.5: a refusal is read by the agent, with its reason, and the run goes on.
#[test]
fn a_rejected_call_is_not_made() {
    let desk = desk_of(RELEASING);
    let (_, id) = run(&desk, &[]);
    desk.get(&["reject", &text(&gate(&desk)["id"]), "--reason", "not on a Friday"]);
    assert_eq!(desk.get(&["resume", &id]), "All done.\n");
    assert!(told(&desk, &id)[0].contains("a person refused: not on a Friday"));
    assert_eq!((read(&desk.path("released")), read(&desk.path("log"))), (String::new(), "after\n".into()));
}

/// A58: with nobody to ask the answer is no, and a pause keeps the question; nothing becomes a yes.
#[test]
fn without_a_person_nothing_becomes_a_yes() {
    let desk = desk_of(RELEASING);
    let (code, id) = run(&desk, &["--on-ask", "deny"]);
    assert!(code == 0 && told(&desk, &id)[0].contains("needs a person's leave"), "{:?}", told(&desk, &id));
    let (code, id) = run(&desk, &["--on-ask", "pause"]);
    assert_eq!((code, desk.json(&["show", &id])["status"].clone()), (3, json!("paused")));
    assert_eq!(desk.say(&["resume", &id]).code, 3);
    assert_eq!(read(&desk.path("released")), "");
}

/// A56: killed before it asks and killed again while the approved call runs, the call is asked about once and made once.
#[test]
fn a_killed_run_asks_once() {
    let desk = desk_of(&RELEASING.replace(
        "        calls:\n",
        "        calls:\n          - { tool: bash, args: { command: \"echo began >> began; sleep 600\", timeout_ms: 600000 } }\n",
    ));
    desk.write("release.sh", "echo released >> released; sleep 600");
    let id =
        desk.get(&["create", "--task", "x", "--in-place", "--model", "scripted/s.yaml"]).trim().to_owned();
    kill_when(&desk, &id, "began");
    assert_eq!(desk.say(&["resume", &id]).code, 3);
    assert_eq!(desk.say(&["resume", &id]).code, 3);
    desk.get(&["approve", &text(&gate(&desk)["id"])]);
    kill_when(&desk, &id, "released");
    assert_eq!(desk.get(&["resume", &id]), "All done.\n");
    assert!(told(&desk, &id)[1].contains("unknown"), "{:?}", told(&desk, &id));
    assert_eq!(
        (read(&desk.path("began")), read(&desk.path("released"))),
        ("began\n".into(), "released\n".into())
    );
    let asked = desk.events(&id).iter().filter(|event| event["type"] == "waiting_for_human").count();
    assert_eq!(asked, 1);
}

/// Drives the run, and kills it with SIGKILL once that file is there.
fn kill_when(desk: &Desk, id: &str, file: &str) {
    let mut driver = desk.command(&["resume", id]).spawn().unwrap();
    // Only so that a run that never gets there does not hang the suite.
    let patience = Instant::now() + Duration::from_secs(120);
    while !desk.path(file).exists() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(10));
    }
    driver.kill().unwrap();
    driver.wait().unwrap();
    assert!(desk.path(file).exists(), "{file}");
}

/// A71: a project's file cannot open what the user or the defaults close; the user's own file can, for runs created after it.
#[test]
fn a_project_loosens_nothing() {
    let script = r#"conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: "rm -rf old" } } ] }, { text: "All done." } ] } ]"#;
    let desk = Desk::with_script(script);
    std::fs::create_dir(desk.path("old")).unwrap();
    desk.write(
        "longhaul.yaml",
        "permissions: { bash: { '*': allow, 'rm -rf *': allow, 'rm -rf old': allow, 'rm -r *': allow } }\n",
    );
    let (_, id) = run(&desk, &[]);
    assert!(told(&desk, &id)[0].contains("not permitted") && desk.path("old").exists());
    let before = desk.get(&["create", "--task", "x", "--in-place", "--model", "scripted/s.yaml"]);
    user(&desk, "permissions: { bash: { 'rm -rf *': allow, 'rm -r *': allow } }\n");
    desk.get(&["start", before.trim()]);
    assert!(desk.path("old").exists(), "a run keeps the rules it was created with");
    run(&desk, &[]);
    assert!(!desk.path("old").exists());
}

/// A60, A66: an agent cannot answer for a person: not by the command, not by a script, not without its environment.
#[test]
fn an_agent_answers_no_gate() {
    let desk = desk_of(RELEASING);
    let (_, other) = run(&desk, &[]);
    desk.write(
        "s.yaml",
        r#"
conversations:
  - turns:
      - calls:
          - { tool: bash, args: { command: "longhaul approve RUN.g1" } }
          - { tool: bash, args: { command: "sh answer.sh" } }
          - { tool: bash, args: { command: "sh release.sh" } }
      - text: "All done."
"#,
    );
    let program = env!("CARGO_BIN_EXE_longhaul");
    let answer = format!("{program} approve {other}.g1; env -i HOME=. {program} approve {other}.g1");
    desk.write("answer.sh", &answer);
    let (code, id) = run(&desk, &[]);
    let told = told(&desk, &id);
    assert_eq!(code, 3);
    assert!(told[0].contains("always \\\"own gates"), "{told:?}");
    assert_eq!(told[1].matches("an agent does not answer for a person").count(), 2, "{told:?}");
    assert_eq!(desk.json(&["approvals"]).as_array().unwrap().len(), 2, "nothing was answered");
}

/// A54: a command that would read as another one, or is longer than any screen, is shown for what it is, wherever a person
/// meets it; all of it in `approvals show`, which is JSON only if that is asked for.
#[test]
fn what_waits_is_shown_for_what_it_is() {
    let long = format!(
        "echo \u{202E}gnihton\u{202C} \u{200B}ok;{}touch b; : {}",
        " ".repeat(500),
        "x".repeat(100_000)
    );
    let script = json!({ "conversations": [{ "turns": [
        { "calls": [{ "tool": "bash", "args": { "command": long } }] }, { "text": "ok" },
    ] }] });
    let desk = Desk::with_script(&script.to_string());
    let task = "y".repeat(70_000);
    let waits =
        desk.say(&["run", &task, "--model", "scripted/s.yaml", "--ask", "bash", "--autonomy", "3", "--json"]);
    assert_eq!(waits.code, 3, "{}", waits.err);
    let shown: Value = serde_json::from_str(&waits.out).unwrap();
    let (id, gate) = (text(&shown["id"]), text(&desk.json(&["approvals"])[0]["id"]));
    let mut all = waits.err;
    for args in [&["approvals"][..], &["approvals", "show", &gate], &["logs", &id], &["tools", &id]] {
        let said = desk.get(args);
        assert!(said.contains("echo \\u{202e}gnihton\\u{202c} \\u{200b}ok;"), "{args:?}");
        all += &said;
    }
    for args in [&["steps", &id][..], &["cost"], &["list"], &["show", &id], &["events", &id]] {
        all += &desk.get(args);
    }
    assert!(!all.contains(['\u{202E}', '\u{202C}', '\u{200B}']));
    let listed = desk.say(&["approvals"]);
    assert!(listed.out.contains("ok; touch b; : xxx") && listed.out.len() < 2000, "{}", listed.out);
    let hidden = listed.out.split_once("… (").and_then(|(_, rest)| rest.split_once(" bytes hidden)"));
    let hidden: usize = hidden.unwrap().0.parse().unwrap();
    assert!((99_000..100_000).contains(&hidden), "{hidden}");
    assert!(
        listed.err.contains(&format!("`longhaul approvals show {gate}` shows all of it")),
        "{}",
        listed.err
    );
    let whole = desk.get(&["approvals", "show", &gate]);
    assert!(whole.starts_with("approval ") && whole.contains(&"x".repeat(100_000)));
    assert_eq!(desk.json(&["approvals", "show", &gate])["arguments"]["command"], json!(long));
}

/// Whoever approves sees all that would be done: what is written, each text that is replaced, how a command is run.
#[test]
fn all_of_what_waits_is_shown() {
    for (tool, args, shown) in [
        (
            "write",
            json!({ "path": "new.txt", "content": "one\nstatus       approved\n" }),
            "write new.txt\n content:\n | one\n | status       approved\n |",
        ),
        (
            "edit",
            json!({ "path": "a.txt", "edits": [{ "old": "a", "new": "b\u{202E}\u{7}" }, { "old": "c\n", "new": "" }] }),
            "edit a.txt\n edits.1.new: b\\u{202e}\\u{7}\n edits.1.old: a\n edits.2.new:\n edits.2.old:\n | c\n |",
        ),
        (
            "bash",
            json!({ "command": "sleep 9", "background": true, "timeout_ms": 1000 }),
            "bash sleep 9\n background: true\n timeout_ms: 1000",
        ),
    ] {
        let script = json!({ "conversations": [{ "turns": [
            { "calls": [{ "tool": tool, "args": args }] }, { "text": "ok" },
        ] }] });
        let desk = Desk::with_script(&script.to_string());
        desk.write("a.txt", "a\nc\n");
        let waits = desk.say(&["run", "x", "--in-place", "--model", "scripted/s.yaml", "--ask", tool]);
        assert_eq!(waits.code, 3, "{}", waits.err);
        let gate = text(&desk.json(&["approvals"])[0]["id"]);
        let whole = desk.get(&["approvals", "show", &gate]);
        let expected = shown.replace("\n ", &format!("\n{:13}", ""));
        let lines: Vec<&str> = whole.lines().map(str::trim_end).collect();
        assert!(lines.join("\n").contains(&format!("\naction       {expected}\ndigest ")), "{whole}");
    }
}

/// A54: two actions that differ in a letter nobody sees do not look the same.
#[test]
fn control_characters_of_what_waits_are_told_apart() {
    for (command, shown) in
        [("echo a\u{1b}b", "bash echo a\\u{1b}b"), ("echo a\rb\necho c", "bash echo a\\rb ⏎ echo c")]
    {
        let script = json!({ "conversations": [{ "turns": [
            { "calls": [{ "tool": "bash", "args": { "command": command } }] }, { "text": "ok" },
        ] }] });
        let desk = Desk::with_script(&script.to_string());
        let waits = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--ask", "bash", "--autonomy", "3"]);
        assert_eq!(waits.code, 3, "{}", waits.err);
        let gate = text(&desk.json(&["approvals"])[0]["id"]);
        for args in [&["approvals"][..], &["approvals", "show", &gate]] {
            let said = desk.get(args);
            assert!(said.contains(shown) && !said.contains('\u{fffd}'), "{args:?}: {said}");
        }
    }
}

/// Where there are no runs, nothing waits.
#[test]
fn nothing_waits_where_nothing_runs() {
    let desk = Desk::new();
    assert_eq!(desk.json(&["approvals"]), json!([]));
    assert!(desk.say(&["approvals"]).err.contains("nothing waits for a person"));
}

/// What is not there is named as it was typed.
#[test]
fn an_approval_that_is_not_there_is_named() {
    let desk = Desk::new();
    let missing = format!("{}.g9", desk.create());
    for args in [
        &["approve", &missing][..],
        &["reject", &missing, "--reason", "no"],
        &["answer", &missing, "yes"],
        &["approvals", "show", &missing],
    ] {
        let said = desk.say(args);
        let told =
            format!("error: there is no approval {missing}\nhint: list them with `longhaul approvals`\n");
        assert_eq!((said.code, said.err), (2, told), "{args:?}");
    }
}

/// A54: what is too long to be read at a glance is approved only by whoever names what they have read.
#[test]
fn what_is_long_is_not_approved_at_a_glance() {
    let command = format!("true{}; echo done > long.txt", " ".repeat(5000));
    let script = json!({ "conversations": [{ "turns": [
        { "calls": [{ "tool": "bash", "args": { "command": command } }] }, { "text": "Done." },
    ] }] });
    let desk = Desk::with_script(&script.to_string());
    let run = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--in-place", "--ask", "bash"]);
    assert_eq!(run.code, 3, "{}", run.err);
    let gate = desk.json(&["approvals"])[0].clone();
    let (id, digest) = (gate["id"].as_str().unwrap(), gate["digest"].as_str().unwrap());
    let refused = desk.say(&["approve", id]);
    assert!(refused.code == 2 && refused.err.contains("more than one sees at a glance"), "{}", refused.err);
    assert!(refused.err.contains(&format!("approve {id} --digest {}", &digest[..16])), "{}", refused.err);
    assert!(desk.get(&["approvals", "show", id]).contains(digest));
    for wrong in ["", &digest[..7], "0123456789abcdef"] {
        let refused = desk.say(&["approve", id, "--digest", wrong]);
        assert!(refused.code == 2 && refused.err.contains("is not for"), "{wrong}: {}", refused.err);
    }
    desk.get(&["approve", id, "--digest", &digest[..16]]);
    desk.get(&["resume", gate["runId"].as_str().unwrap()]);
    assert!(desk.path("long.txt").exists());
}
