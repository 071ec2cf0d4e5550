//! People being told, as they meet it: once for each wait, whatever happens to the process.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::desk::Desk;

const SETTINGS: &str = "notify: { command: [./tell.sh] }\n";

/// Writes down what it is told, one line each.
const TELL: &str = "#!/bin/sh\ncat >> told.jsonl\necho >> told.jsonl\n";

fn desk(settings: &str) -> Desk {
    let desk = Desk::new();
    desk.write("longhaul.yaml", settings);
    desk.write("tell.sh", TELL);
    let mut mode = std::fs::metadata(desk.path("tell.sh")).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(desk.path("tell.sh"), mode).unwrap();
    desk
}

/// Occasion and gate of each notice.
fn told(desk: &Desk) -> Vec<(String, Value)> {
    let text = std::fs::read_to_string(desk.path("told.jsonl")).unwrap_or_default();
    let notices = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    notices
        .map(|notice| (notice["occasion"].as_str().unwrap().to_owned(), notice["gateId"].clone()))
        .collect()
}

/// Somebody is told that a run waits, once, however often it is taken up again; and that it is done.
#[test]
fn a_wait_is_told_once() {
    let desk = desk(SETTINGS);
    let run = ["run", "x", "--in-place", "--autonomy", "1", "--model", "scripted/s.yaml", "--json"];
    let said = desk.say(&run);
    assert_eq!(said.code, 3, "{}", said.err);
    let id = serde_json::from_str::<Value>(&said.out).unwrap()["id"].as_str().unwrap().to_owned();
    let gate = format!("{id}.g1");
    let waits = ("waiting".to_owned(), json!(gate));
    assert_eq!(told(&desk), vec![waits.clone()]);
    assert_eq!(desk.say(&["resume", &id]).code, 3);
    assert_eq!(told(&desk), vec![waits.clone()], "the same wait");
    desk.get(&["approve", &gate]);
    desk.get(&["resume", &id]);
    assert_eq!(told(&desk), [waits, ("completed".to_owned(), Value::Null)]);
    let shown = desk.json(&["notify", "show", &id]);
    let outcomes: Vec<&str> =
        shown.as_array().unwrap().iter().map(|line| line["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["sending", "delivered", "sending", "delivered"]);
    assert!(desk.get(&["notify", "show", &id]).contains("delivered"));
}

/// Who is asked for leave is told for what, but for the end of a long command.
#[test]
fn leave_is_asked_for_a_command_that_is_shown() {
    let desk = desk(&format!("{SETTINGS}permissions: {{ bash: {{ 'echo *': ask }} }}\n"));
    let command = format!("echo one\\necho {}", "x".repeat(200));
    let turn = format!("{{ calls: [ {{ tool: bash, args: {{ command: \"{command}\" }} }} ] }}");
    desk.write("s.yaml", &format!("conversations:\n  - turns: [ {turn}, {{ text: done }} ]\n"));
    let run = ["run", "x", "--in-place", "--model", "scripted/s.yaml", "--json"];
    assert_eq!(desk.say(&run).code, 3);
    let text = std::fs::read_to_string(desk.path("told.jsonl")).unwrap();
    let notice: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    let shown = format!("\necho one echo {}…\nTask: ", "x".repeat(106));
    assert!(notice["text"].as_str().unwrap().contains(&shown), "{notice}");
}

/// Whoever takes up a run that has waited for long reminds those who have not answered.
#[test]
fn a_long_wait_is_told_again() {
    let desk = desk(SETTINGS);
    let run = ["run", "x", "--in-place", "--autonomy", "1", "--model", "scripted/s.yaml", "--json"];
    let said = desk.say(&run);
    let id = serde_json::from_str::<Value>(&said.out).unwrap()["id"].as_str().unwrap().to_owned();
    let record = desk.path(".longhaul/runs").join(&id).join("notices.jsonl");
    // As if the first notice had been of another year.
    let text = std::fs::read_to_string(&record).unwrap();
    let aged: Vec<String> = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .map(|mut line| {
            line["at"] = json!("2020-01-01T00:00:00.000Z");
            line.to_string()
        })
        .collect();
    std::fs::write(&record, aged.join("\n") + "\n").unwrap();
    assert_eq!(desk.say(&["resume", &id]).code, 3);
    let waits = ("waiting".to_owned(), json!(format!("{id}.g1")));
    assert_eq!(told(&desk), [waits.clone(), waits]);
    let text = std::fs::read_to_string(desk.path("told.jsonl")).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(last["reminder"], 1);
    assert!(last["title"].as_str().unwrap().starts_with("Still: "), "{last}");
}

/// Whoever takes up a run whose process died while it told somebody tells it once more, as if for the first time.
#[test]
fn what_died_on_its_way_is_told_again() {
    let desk = desk(SETTINGS);
    let run = ["run", "x", "--in-place", "--autonomy", "1", "--model", "scripted/s.yaml", "--json"];
    let said = desk.say(&run);
    let id = serde_json::from_str::<Value>(&said.out).unwrap()["id"].as_str().unwrap().to_owned();
    let record = desk.path(".longhaul/runs").join(&id).join("notices.jsonl");
    let text = std::fs::read_to_string(&record).unwrap();
    let sending = text.lines().find(|line| line.contains("sending")).unwrap();
    std::fs::write(&record, format!("{sending}\n")).unwrap();
    let waits = ("waiting".to_owned(), json!(format!("{id}.g1")));
    for _ in 0..2 {
        assert_eq!(desk.say(&["resume", &id]).code, 3);
        assert_eq!(told(&desk), [waits.clone(), waits.clone()]);
    }
    let told = std::fs::read_to_string(desk.path("told.jsonl")).unwrap();
    let told: Vec<&str> = told.lines().collect();
    assert_eq!(told[0], told[1]);
    let shown = desk.json(&["notify", "show", &id]);
    assert_eq!(shown.as_array().unwrap().last().unwrap()["outcome"], "delivered");
}

/// Each question of a sub-agent is told by its own name, also if the one before was refused.
#[test]
fn every_question_of_a_sub_agent_is_told() {
    let desk = desk(&format!("{SETTINGS}agents: {{ dirs: [agents] }}\n"));
    std::fs::create_dir(desk.path("agents")).unwrap();
    desk.write("agents/PLUTO.md", "---\ndescription: x\n---\nYou are PLUTO.\n");
    desk.write(
        "s.yaml",
        r#"conversations:
  - match: { agent: PLUTO }
    turns:
      - calls: [ { tool: bash, args: { command: "echo one" } }, { tool: bash, args: { command: "echo two" } } ]
      - text: done
  - turns: [ { text: ok } ]
"#,
    );
    desk.write("plan.yaml", "steps: [ { id: a, description: d, agent: PLUTO } ]\n");
    let run = [
        "run",
        "x",
        "--in-place",
        "--autonomy",
        "3",
        "--ask",
        "bash",
        "--plan",
        "plan.yaml",
        "--model",
        "scripted/s.yaml",
        "--json",
    ];
    let said = desk.say(&run);
    let id = serde_json::from_str::<Value>(&said.out).unwrap()["id"].as_str().unwrap().to_owned();
    let waits = |gate: u32| ("waiting".to_owned(), json!(format!("{id}.1.g{gate}")));
    assert_eq!(told(&desk), [waits(1)], "{}", said.err);
    desk.get(&["reject", &format!("{id}.1.g1"), "--reason", "no"]);
    assert_eq!(desk.say(&["resume", &id]).code, 3);
    assert_eq!(told(&desk), [waits(1), waits(2)]);
}

/// A run that could not begin is told of: in the background nobody is there to read why.
#[test]
fn a_workspace_that_cannot_be_set_up_is_told_of() {
    let desk =
        desk("notify: { command: [./tell.sh] }\nworkspace: { setup: \"echo no such thing; exit 3\" }\n");
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert_eq!(told(&desk), [("paused".to_owned(), Value::Null)]);
    let text = std::fs::read_to_string(desk.path("told.jsonl")).unwrap();
    assert!(text.contains("could not begin") && text.contains("no such thing"), "{text}");
}

/// The command is the user's: what it answers counts as a person's word, and is not taken for an agent's.
#[test]
fn a_told_command_may_answer() {
    let desk = desk(SETTINGS);
    let approve =
        format!("#!/bin/sh\nexec {} approve $LONGHAUL_NOTICE_GATE\n", env!("CARGO_BIN_EXE_longhaul"));
    desk.write("tell.sh", &approve);
    let run = ["run", "x", "--in-place", "--autonomy", "1", "--model", "scripted/s.yaml", "--json"];
    let id = serde_json::from_str::<Value>(&desk.say(&run).out).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(desk.json(&["notify", "show", &id])[1]["outcome"], "delivered");
    // The answer may come while the run is still driven, and then it is not waited for.
    if desk.json(&["show", &id])["status"] != "completed" {
        desk.get(&["resume", &id]);
    }
    assert_eq!(desk.json(&["show", &id])["status"], "completed");
}

/// A limit pauses a run and is told; a person who pauses or stops one knows it. Only what is wanted is told.
#[test]
fn a_pause_by_itself_is_told() {
    let limited = ["run", "x", "--in-place", "--max-steps", "1", "--model", "scripted/s.yaml"];
    let desk_of_all = desk(SETTINGS);
    assert_eq!(desk_of_all.say(&limited).code, 4);
    assert_eq!(told(&desk_of_all), [("paused".to_owned(), Value::Null)]);
    let id = desk_of_all.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    desk_of_all.get(&["stop", &id]);
    assert_eq!(told(&desk_of_all).len(), 1);
    let desk_of_ends = desk("notify: { command: [./tell.sh], on: [completed, failed] }\n");
    assert_eq!(desk_of_ends.say(&limited).code, 4);
    assert_eq!(told(&desk_of_ends), []);
}

/// Who cannot be told holds nothing up: the run ends as it would, and the tries are on record.
#[test]
fn nobody_to_tell_fails_no_run() {
    let desk = desk(
        "notify: { command: [/no/such/program], webhook: { url: 'http://127.0.0.1:9/x', format: slack } }\n",
    );
    // A short night: the tries of the webhook take a few seconds, and the answer of the run is there before.
    let mut child = desk
        .command(&["run", "x", "--in-place", "--model", "scripted/s.yaml"])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    while !desk.path(".longhaul").exists() || desk.json(&["list"])[0]["status"] != "completed" {
        assert!(began.elapsed() < Duration::from_secs(60), "the run never ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let id = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    let shown = desk.json(&["notify", "show", &id]);
    let failed = |way: &str| {
        let of_way = |line: &&Value| line["way"] == way && line["outcome"] == "failed";
        shown.as_array().unwrap().iter().filter(of_way).count()
    };
    assert_eq!((failed("command"), failed("webhook")), (1, 4), "{shown}");
}

/// A71: what a repository says is to be run or sent is not, until it is trusted.
#[test]
fn a_repositorys_command_waits_for_trust() {
    let desk = desk(SETTINGS);
    let run = ["run", "x", "--in-place", "--model", "scripted/s.yaml"];
    let output = desk.command(&run).env_remove("LONGHAUL_TRUST").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stderr).unwrap().contains("notify.command"));
    assert_eq!(told(&desk), []);
}

/// What is set can be tried, and what is wrong with it is said.
#[test]
fn telling_can_be_tried() {
    let desk = desk(SETTINGS);
    assert!(desk.get(&["notify", "test"]).contains("delivered"));
    assert_eq!(told(&desk).len(), 1);
    desk.write("longhaul.yaml", "notify: { command: ['false'] }\n");
    assert_eq!(desk.say(&["notify", "test"]).code, 1);
    desk.write("longhaul.yaml", "notify: { on: [sometimes] }\n");
    let wrong = desk.say(&["notify", "test"]);
    assert!(
        wrong.code == 2 && wrong.err.contains("notify.on") && wrong.err.contains("sometimes"),
        "{}",
        wrong.err
    );
    desk.write("longhaul.yaml", "notify: { webhook: { url: 'file:///x' } }\n");
    assert_eq!(desk.say(&["config", "show"]).code, 2);
    desk.write("longhaul.yaml", "");
    assert_eq!(desk.say(&["notify", "test"]).code, 2);
}
