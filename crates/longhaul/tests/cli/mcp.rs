//! MCP servers from the settings to the journal.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use expect_test::expect;
use serde_json::{Value, json};

use super::desk::{Desk, SCRIPT, Said};

const PATIENCE: Duration = Duration::from_secs(60);

/// A desk with one server, which behaves as `mode` says, and a model that calls `tool` of it.
fn desk(mode: &str, tool: &str) -> Desk {
    let desk = Desk::with_script(&format!(
        r#"
name: mcp
conversations:
  - turns:
      - text: "I call."
        calls: [ {{ tool: srv__{tool}, args: {{ text: hello }} }} ]
      - text: "All done."
"#
    ));
    settings(&desk, mode, "");
    desk
}

fn settings(desk: &Desk, mode: &str, more: &str) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../longhaul-tools/tests/mcp/hostile.py");
    let memory = desk.path("memory").display().to_string();
    let command = json!(["python3", script, mode, memory]);
    desk.write("longhaul.yaml", &format!("mcp:\n  servers:\n    srv:\n      command: {command}\n{more}"));
}

fn starts(desk: &Desk) -> u32 {
    std::fs::read_to_string(desk.path("memory")).map_or(0, |text| text.trim().parse().unwrap())
}

/// Processes of the hostile server of this desk.
fn alive(desk: &Desk) -> usize {
    let memory = desk.path("memory").display().to_string();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let is_ours = |entry: &std::fs::DirEntry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == memory.as_bytes())
    };
    entries.filter(is_ours).count()
}

fn run(desk: &Desk, more: &[&str]) -> Value {
    let args = [&["run", "x", "--model", "scripted/s.yaml"], more].concat();
    desk.json(&args)
}

fn grants(desk: &Desk, more: &[&str]) -> Vec<String> {
    let id = desk.get(&[&["create", "--task", "x", "--model", "scripted/s.yaml"], more].concat());
    let document: Value = serde_json::from_str(&desk.get(&["export", id.trim()])).unwrap();
    let tools = document["longhaul"]["spec"]["tools"].as_array().unwrap();
    tools.iter().map(|tool| format!("{} {}", tool["name"], tool["class"]).replace('"', "")).collect()
}

/// D6.8: a run calls a server's tool like any other, and nothing of the server outlives it.
#[test]
fn a_run_calls_a_tool_of_a_server() {
    let desk = desk("honest", "say");
    let run = run(&desk, &[]);
    assert_eq!(run["status"], "completed", "{run}");
    let calls = desk.json(&["tools", run["id"].as_str().unwrap()]);
    let text = calls.to_string();
    assert!(text.contains("srv__say") && text.contains("hello"), "{text}");
    assert_eq!((starts(&desk), alive(&desk)), (2, 0), "met, and started for the run");
    assert!(desk.path(".longhaul/mcp/srv.json").exists() && desk.path(".longhaul/.gitignore").exists());
    assert!(std::fs::read_to_string(desk.path(".longhaul/mcp/srv.log")).unwrap().contains("started"));
}

/// A server is started for those runs only that may call it.
#[test]
fn tools_are_granted_by_name_by_server_and_by_mode() {
    let desk = Desk::new();
    settings(&desk, "honest", "");
    assert_eq!(grants(&desk, &["--tools", "read"]), ["read repeatable"]);
    assert_eq!(grants(&desk, &["--mode", "complete"]), Vec::<String>::new());
    assert_eq!(starts(&desk), 0);
    let all = grants(&desk, &[]);
    assert!(all.contains(&"srv__say once".to_owned()) && all.contains(&"bash once".to_owned()), "{all:?}");
    assert_eq!(starts(&desk), 1);
    assert_eq!(
        grants(&desk, &["--tools", "read,srv__*"]),
        [
            "read repeatable",
            "srv__count once",
            "srv__die once",
            "srv__hang once",
            "srv__look repeatable",
            "srv__say once"
        ]
    );
    let review = grants(&desk, &["--mode", "review"]);
    assert!(review.contains(&"srv__look repeatable".to_owned()), "{review:?}");
    assert!(review.iter().all(|tool| tool.ends_with(" repeatable")), "{review:?}");
    let said = desk.say(&["create", "--task", "x", "--model", "scripted/s.yaml", "--tools", "other__*"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert_eq!(starts(&desk), 1, "what is accepted is known without it");
}

/// A server that cannot be met keeps no run from working.
#[test]
fn a_server_that_does_not_start_is_left_out() {
    let desk = Desk::new();
    settings(&desk, "exits", "");
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let line = "MCP server `srv`: the server ended (exit status: 3); it said: cannot find my settings; \
                its tools are not offered\nhint: what it said is in `";
    assert!(said.err.contains(line), "{}", said.err);
}

/// D6.8: why a server does not start is seen where nothing is kept yet, and where all of it is kept that is named.
#[test]
fn why_a_server_does_not_start_is_said_without_a_log() {
    let desk = Desk::new();
    settings(&desk, "breaks", "");
    let why = "MCP server `srv`: the server ended (exit status: 1); it said: Error [E_SETTINGS]: key";
    let end = "⏎ code: 'E' ⏎ Node.js v20\n";
    for args in [&["mcp", "list"][..], &["mcp", "tools", "srv"], &["mcp", "call", "srv", "say"]] {
        let said = desk.say(args);
        assert!(said.err.contains(why) && said.err.contains(end), "{args:?}: {}", said.err);
        assert!(!said.err.contains("hint:") && !desk.path(".longhaul").exists(), "{args:?}: {}", said.err);
    }
    desk.get(&["create", "--task", "x", "--model", "scripted/s.yaml", "--tools", "read"]);
    let listed = desk.say(&["mcp", "list"]);
    let log = desk.path(".longhaul/mcp/srv.log").canonicalize().unwrap();
    let hint = format!("{end}hint: what it said is in `{}`\n", log.display());
    assert!(listed.err.contains(why) && listed.err.contains(&hint), "{}", listed.err);
}

/// C3, A59: what changed is refused within the run, with the way to accept it.
#[test]
fn a_changed_server_is_refused_until_it_is_accepted() {
    let desk = desk("changing", "say");
    let refused = run(&desk, &[]);
    let calls = desk.json(&["tools", refused["id"].as_str().unwrap()]).to_string();
    assert!(
        calls.contains("the description of `say` changed") && calls.contains("longhaul mcp accept srv"),
        "{calls}"
    );
    assert_eq!(desk.json(&["mcp", "list"])[0]["state"], "changed");
    // Whoever comes next is not even told of it, and the person is told why. Their script knows of no such tool either.
    desk.write("s.yaml", SCRIPT);
    let said = desk.say(&["create", "--task", "x", "--model", "scripted/s.yaml"]);
    assert!(said.err.contains("the description of `say` changed"), "{}", said.err);
    assert!(said.err.contains("its tools are not offered"), "{}", said.err);
    let granted = grants(&desk, &[]);
    assert!(granted.contains(&"bash once".to_owned()), "{granted:?}");
    assert!(granted.iter().all(|tool| !tool.starts_with("srv__")), "{granted:?}");
    let pin = std::fs::read(desk.path(".longhaul/mcp/srv.json")).unwrap();
    let unasked = desk.say(&["mcp", "accept", "srv"]);
    assert_eq!(unasked.code, 2, "nobody is there to say yes");
    assert!(unasked.out.contains("version 1") && unasked.out.contains("version 4"), "{}", unasked.out);
    assert!(
        unasked.err.contains(
            "error: nothing is accepted: srv is treated as before\n\
             hint: `longhaul mcp accept srv --yes` accepts it without asking"
        ),
        "{}",
        unasked.err
    );
    assert_eq!(std::fs::read(desk.path(".longhaul/mcp/srv.json")).unwrap(), pin);
    assert!(!grants(&desk, &[]).contains(&"srv__say once".to_owned()), "and it is still refused");
    let said = desk.say(&["mcp", "accept", "srv", "--yes"]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(grants(&desk, &[]).contains(&"srv__say once".to_owned()), "accepted, it is offered again");
    expect![[r#"
        srv__say
          was:
            version 1
          is:
            version 5
    "#]]
    .assert_eq(&said.out);
    assert!(said.err.contains("changed: the description of `say`"), "{}", said.err);
    let inside =
        desk.command(&["mcp", "accept", "srv", "--yes"]).env("LONGHAUL_RUN", "run_x").output().unwrap();
    assert_eq!(inside.status.code(), Some(2));
}

/// What people type to look at servers and to try them.
#[test]
fn servers_are_listed_and_tried() {
    let desk = desk("honest", "say");
    expect![[r#"
        SERVER  STATE  TOOLS  READ-ONLY  RESOURCES  PROMPTS  WHERE
        srv     new    5      1          0          0        python3 …
    "#]]
    .assert_eq(&without_place(&desk.get(&["mcp", "list"])));
    assert!(!desk.path(".longhaul").exists(), "looking leaves nothing behind");
    assert_eq!(desk.say(&["mcp", "accept", "srv"]).code, 2);
    assert!(!desk.path(".longhaul").exists(), "and neither does a question that nobody answers");
    desk.get(&["mcp", "accept", "srv", "--yes"]);
    assert_eq!(desk.json(&["mcp", "list"])[0]["state"], "accepted");
    assert!(desk.say(&["mcp", "accept", "srv"]).err.contains("srv is accepted already, as it is"));
    expect![[r#"
        srv__say  once
            says what it is told
        srv__look  repeatable (read-only)
            says what it is told
        srv__die  once
            says what it is told
        srv__hang  once
            says what it is told
        srv__count  once
            says what it is told
    "#]]
    .assert_eq(&desk.get(&["mcp", "tools", "srv"]));
    assert_eq!(desk.get(&["mcp", "call", "srv", "say", r#"{"text": "hello"}"#]), "hello\n");
    let died = desk.say(&["mcp", "call", "srv", "die"]);
    assert_eq!((died.code, died.out.contains("exit status: 7")), (1, true), "{}", died.out);
    assert_eq!(desk.say(&["mcp", "call", "srv", "say", "[]"]).code, 2);
    assert_eq!(desk.say(&["mcp", "tools", "other"]).code, 2);
    settings(&desk, "honest", "      enabled: false\n");
    assert_eq!(desk.json(&["mcp", "list"])[0]["state"], "off");
    assert_eq!(alive(&desk), 0);
}

fn without_place(table: &str) -> String {
    let cut = |line: &str| match line.split_once("python3 ") {
        Some((before, _)) => format!("{before}python3 …\n"),
        None => format!("{line}\n"),
    };
    table.lines().map(cut).collect()
}

/// Keys reach no server, and one that a server says is struck out.
#[test]
fn no_key_goes_in_or_out() {
    let desk = desk("honest", "say");
    let key = "sk-ant-canary-0123456789";
    let said = |args: &[&str]| {
        let output = desk.command(args).env("ANTHROPIC_API_KEY", key).output().unwrap();
        Said {
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
            code: output.status.code().unwrap_or(-1),
        }
    };
    let arguments = json!({ "text": format!("the key is {key}") }).to_string();
    assert_eq!(said(&["mcp", "call", "srv", "say", &arguments]).out, "the key is [secret]\n");
    settings(&desk, "environment", "");
    let environment = said(&["mcp", "call", "srv", "say"]);
    assert!(
        environment.out.contains("PATH=") && !environment.out.contains("ANTHROPIC"),
        "{}",
        environment.out
    );
    settings(&desk, "honest", "      env: { KEY: \"${ANTHROPIC_API_KEY}\" }\n");
    let asked = said(&["mcp", "call", "srv", "say"]);
    assert_eq!(asked.code, 2);
    assert!(asked.err.contains("holds a model provider's key"), "{}", asked.err);
}

/// A token that a server is given is struck out wherever it turns up: in what the server says, in the task, in the model's own
/// words and in what it calls.
#[test]
fn a_servers_token_is_struck_out_everywhere() {
    let token = "canary-token-0123456789";
    let desk = Desk::with_script(&format!(
        r#"
name: mcp
conversations:
  - turns:
      - text: "I found {token}."
        calls: [ {{ tool: srv__say, args: {{ text: "it is {token}" }} }}, {{ tool: write, args: {{ path: a.txt, content: "{token}" }} }} ]
      - text: "All of {token} is done."
"#
    ));
    settings(&desk, "honest", "      env: { SERVICE_TOKEN: \"${GIVEN}\" }\n");
    let mut command =
        desk.command(&["run", &format!("use {token}"), "--in-place", "--model", "scripted/s.yaml"]);
    let output = command.env("GIVEN", token).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("a key stands in the task"), "{said}");
    assert_eq!(std::fs::read_to_string(desk.path("a.txt")).unwrap(), "[secret]");
    let kept = super::desk::files_below(&desk.path(".longhaul"));
    assert!(kept.iter().any(|(path, _)| path.ends_with("journal")));
    for (path, bytes) in kept {
        assert!(!String::from_utf8_lossy(&bytes).contains(token), "{}", path.display());
    }
}

/// A59: advice that can be followed: what was accepted is shown of a server that may not be started, and accepting it helps.
#[test]
fn a_changed_program_is_shown_and_accepted() {
    let desk = desk("honest", "say");
    let script = desk.path("server.py");
    let original = concat!(env!("CARGO_MANIFEST_DIR"), "/../longhaul-tools/tests/mcp/hostile.py");
    std::fs::copy(original, &script).unwrap();
    let memory = desk.path("memory").display().to_string();
    let command = json!(["python3", script.display().to_string(), "honest", memory]);
    desk.write("longhaul.yaml", &format!("mcp:\n  servers:\n    srv:\n      command: {command}\n"));
    run(&desk, &[]);
    let started = starts(&desk);
    std::fs::write(&script, std::fs::read_to_string(original).unwrap() + "\n# more\n").unwrap();
    let shown = desk.say(&["mcp", "tools", "srv"]);
    assert_eq!((shown.code, starts(&desk)), (0, started), "{}", shown.err);
    assert!(
        shown.out.contains("srv__say") && shown.err.contains("`longhaul mcp accept srv`"),
        "{}",
        shown.err
    );
    assert_eq!(desk.json(&["mcp", "tools", "srv"])["state"], "changed");
    let asked = desk.say(&["mcp", "accept", "srv"]);
    assert!(asked.out.contains("srv__say  once") && asked.out.contains("srv__count  once"), "{}", asked.out);
    assert!(asked.err.contains(&format!("changed: the program {}", script.display())), "{}", asked.err);
    assert_eq!(desk.json(&["mcp", "tools", "srv"])["state"], "changed", "nobody said yes");
    desk.get(&["mcp", "accept", "srv", "--yes"]);
    assert_eq!(desk.get(&["mcp", "call", "srv", "say", r#"{"text": "hello"}"#]), "hello\n");
}

/// Whoever sits at a terminal is shown what is different, and asked.
#[test]
fn a_person_is_asked_before_a_server_is_accepted() {
    if Command::new("script").arg("--version").output().is_err() {
        return println!("SKIP: script is not installed");
    }
    let desk = desk("honest", "say");
    for (typed, code, exists) in [("n\n", 2, false), ("\n", 2, false), ("y\n", 0, true)] {
        let mut command = desk.on_terminal(&["mcp", "accept", "srv"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.as_mut().unwrap().write_all(typed.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(code), "{typed:?}: {shown}");
        let (before, _) = shown.split_once("Accept it as it is now?").unwrap();
        assert!(before.contains("srv__say  once") && before.contains("says what it is told"), "{shown}");
        assert_eq!(desk.path(".longhaul/mcp/srv.json").exists(), exists, "{typed:?}: {shown}");
    }
}

/// What a tool shows is described, as in a run, beside its words; and no blob is named where none is kept.
#[test]
fn an_answer_with_images_is_described() {
    let desk = desk("honest", "say");
    settings(&desk, "pictures", "");
    assert_eq!(
        desk.get(&["mcp", "call", "srv", "say", r#"{"text": "Here it is:"}"#]),
        "Here it is:\n[image/png, 20×20, 45 bytes]\n[sound, audio/wav, 3 bytes; it cannot be shown here]\nThat was it.\n"
    );
    let long = json!({ "text": "x".repeat(100_000) }).to_string();
    for text in [r#"{"text": "Here it is:"}"#, &long] {
        let outcome = desk.json(&["mcp", "call", "srv", "say", text]);
        assert!(!outcome.to_string().contains("blob"), "{outcome}");
        let image = json!({ "mediaType": "image/png", "width": 20, "height": 20, "bytes": 45 });
        assert_eq!(outcome["output"]["images"], json!([image]));
        let said = outcome["output"]["text"].as_str().unwrap();
        assert_eq!(outcome["output"]["bytes"], said.len(), "all of it");
    }
    let said = desk.get(&["mcp", "call", "srv", "say", &long]);
    assert!(said.starts_with(&"x".repeat(100_000)) && said.ends_with("\nThat was it.\n"), "{}", said.len());
}

/// A server that does not start is waited for aloud, and where it spoke is named only if that is a file.
#[test]
fn a_silent_server_is_waited_for_and_its_log_is_named() {
    let desk = Desk::new();
    settings(&desk, "silent", "      start_timeout_ms: 2100\n");
    let listed = desk.say(&["mcp", "list"]);
    let line = "waiting for MCP server `srv` to start, 2.1s at most (`start_timeout_ms`)";
    assert!(listed.err.contains(line), "{}", listed.err);
    let refused = desk.say(&["mcp", "tools", "srv"]);
    assert!(refused.err.contains("did not start within 2100 ms"), "{}", refused.err);
    assert!(!refused.err.contains("hint:"), "nothing is kept where no run is: {}", refused.err);
    desk.get(&["create", "--task", "x", "--model", "scripted/s.yaml", "--tools", "read"]);
    let refused = desk.say(&["mcp", "tools", "srv"]);
    let log = desk.path(".longhaul/mcp/srv.log").canonicalize().unwrap();
    assert!(
        refused.err.contains(&format!("hint: what it said is in `{}`", log.display())),
        "{}",
        refused.err
    );
    desk.write("longhaul.yaml", "mcp: { servers: { srv: { url: \"http://127.0.0.1:9/mcp\" } } }\n");
    let refused = desk.say(&["mcp", "tools", "srv"]);
    assert!(refused.code == 2 && !refused.err.contains("hint:"), "{}", refused.err);
}

/// The settings' list of tools holds for people too, and a run that is refused accepts no server.
#[test]
fn what_is_not_named_is_not_called_and_a_refused_run_accepts_nothing() {
    let desk = desk("honest", "say");
    settings(&desk, "honest", "      tools: [say]\n");
    let refused = desk.say(&["mcp", "call", "srv", "die"]);
    assert_eq!((refused.code, starts(&desk)), (2, 0), "{}", refused.err);
    assert!(refused.err.contains("do not name its tool `die`; they name: say"), "{}", refused.err);
    let refused = desk.say(&["create", "--task", "x", "--model", "nobody/m"]);
    assert_eq!(refused.code, 2, "{}", refused.err);
    let pin = desk.path(".longhaul/mcp/srv.json");
    assert!(!pin.exists());
    desk.create();
    assert!(pin.exists());
}

fn start(desk: &Desk, args: &[&str]) -> Child {
    desk.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// F04: a call that was cut short by kill -9 is not made again, and the server it left is ended.
#[test]
fn a_killed_run_does_not_repeat_a_call_and_leaves_no_server() {
    let desk = desk("deaf", "hang");
    let id = desk.create();
    let mut child = start(&desk, &["start", &id]);
    let began = Instant::now();
    while !desk.path("memory.hangs").exists() {
        assert!(began.elapsed() < PATIENCE, "the call is not made");
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(alive(&desk), 1, "a server that does not listen outlives us");
    let before = starts(&desk);
    let run = desk.json(&["resume", &id]);
    assert_eq!(run["status"], "completed", "{run}");
    assert_eq!((starts(&desk), alive(&desk)), (before, 0));
    let calls = desk.json(&["tools", &id]).to_string();
    assert!(calls.contains("unknown"), "{calls}");
}

/// A59: which of a server's code no pin holds is said wherever it is accepted or shown, and of others nothing is said.
#[test]
fn code_that_is_not_pinned_is_named() {
    let desk = desk("honest", "say");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../longhaul-tools/tests/mcp/hostile.py");
    let inline = format!("exec python3 {script} honest {}", desk.path("memory").display());
    let line = "its code is pinned only as its command line says it; what that code runs or loads is not";
    let says = |args: &[&str]| desk.say(args).err.contains(line);
    assert!(!says(&["mcp", "list"]) && !says(&["mcp", "accept", "srv", "--yes"]));
    std::fs::remove_file(desk.path(".longhaul/mcp/srv.json")).unwrap();
    let command = json!(["sh", "-c", inline]);
    desk.write("longhaul.yaml", &format!("mcp:\n  servers:\n    srv:\n      command: {command}\n"));
    assert!(says(&["run", "x", "--model", "scripted/s.yaml"]), "when it is met");
    for args in [&["mcp", "list"][..], &["mcp", "tools", "srv"], &["mcp", "accept", "srv"]] {
        assert!(says(args), "{args:?}");
    }
    assert_eq!(desk.json(&["mcp", "list"])[0]["remarks"], json!([line]));
    assert_eq!(desk.json(&["mcp", "accept", "srv"])["unpinned"], line);
}
