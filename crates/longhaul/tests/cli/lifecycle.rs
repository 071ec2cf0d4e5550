//! Creating, starting, pausing, stopping, removing.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use super::desk::{Desk, SCRIPT};

/// A1.1, AI2: two creates give two runs with their own ids; every option shows up in `show`.
#[test]
fn create_makes_a_run() {
    let desk = Desk::new();
    let args = [
        "create",
        "--agent",
        "MARS",
        "--task",
        "x",
        "--model",
        "scripted/s.yaml",
        "--autonomy",
        "5",
        "--max-tool-calls",
        "7",
        "--max-steps",
        "8",
        "--max-tokens",
        "9",
        "--max-cost",
        "1.5",
        "--max-sub-agent-depth",
        "2",
        "--checkpoint-interval-ms",
        "1000",
        "--task-id",
        "t-1",
        "--engine",
        "off",
    ];
    let first = desk.json(&args);
    let second = desk.json(&args);
    assert_ne!(first["id"], second["id"]);
    let shown = desk.json(&["show", first["id"].as_str().unwrap()]);
    assert_eq!(shown, first);
    assert_eq!(
        (&shown["agentName"], &shown["status"], &shown["taskId"]),
        (&json!("MARS"), &json!("created"), &json!("t-1"))
    );
    assert_eq!((&shown["autonomy"], &shown["checkpointIntervalMs"]), (&json!(5), &json!(1000)));
    assert_eq!(shown["engineEnabled"], false);
    let limits =
        json!({ "maxToolCalls": 7, "maxSteps": 8, "maxTokens": 9, "maxCost": 1.5, "maxSubAgentDepth": 2 });
    assert_eq!(shown["limits"], limits);
}

/// A1.2, AQ5, D1.4: start drives the run to its end; the answer is on stdout and nothing else is.
#[test]
fn start_completes_the_run() {
    let desk = Desk::new();
    let id = desk.create();
    let said = desk.say(&["start", &id]);
    assert_eq!((said.out.as_str(), said.code), ("All done.\n", 0));
    let shown = desk.json(&["show", &id]);
    assert_eq!(
        (&shown["status"], &shown["stepsCompleted"], &shown["toolCallCount"]),
        (&json!("completed"), &json!(1), &json!(2))
    );
    assert_eq!(shown["usage"]["inputTokens"], 3000);
    assert_eq!(shown["usage"]["costUsd"], 0.00945);
    let written = std::path::Path::new(shown["workspace"].as_str().unwrap()).join("a.txt");
    assert_eq!(std::fs::read_to_string(written).unwrap(), "hello\n");
}

/// A1.7, AS5, AE10, AE11: what a completed run does not allow is refused by name and changes not one byte.
#[test]
fn a_completed_run_refuses_everything() {
    let desk = Desk::new();
    let id = desk.completed();
    let before = std::fs::read(desk.journal(&id)).unwrap();
    for verb in ["start", "resume", "pause", "stop"] {
        let said = desk.say(&[verb, &id]);
        assert_eq!(said.code, 1, "{verb}");
        let refused = format!("cannot {verb} a run that is completed");
        assert!(said.err.contains(&refused), "{verb}: {}", said.err);
    }
    assert_eq!(std::fs::read(desk.journal(&id)).unwrap(), before);
}

/// AS7: a created run cannot be paused.
#[test]
fn a_created_run_must_start_first() {
    let desk = Desk::new();
    let id = desk.create();
    let said = desk.say(&["pause", &id]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (1, "error: cannot pause a run that is created: start first\n")
    );
}

/// A limit pauses with exit 4, names itself, and a raised one lets the run go on.
#[test]
fn a_limit_is_named_and_can_be_raised() {
    let desk = Desk::new();
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    assert_eq!(said.code, 4);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(
        (&shown["status"], &shown["reason"]),
        (&json!("paused"), &json!("max_steps reached: 1 of 1 used"))
    );
    assert!(said.err.contains("longhaul resume"), "{}", said.err);
    let id = shown["id"].as_str().unwrap();
    assert_eq!(desk.say(&["resume", id]).code, 4, "the limit still holds");
    assert_eq!(desk.get(&["resume", id, "--max-steps", "9"]), "All done.\n");
}

/// AI10: a gate makes the run wait with exit 3; its approval is durable with nobody driving; then the run goes on.
#[test]
fn a_gate_waits_for_a_person() {
    let desk = Desk::new();
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--autonomy", "1", "--json"]);
    assert_eq!(said.code, 3);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((&shown["status"], &shown["wait"]), (&json!("running"), &json!("human")));
    let id = shown["id"].as_str().unwrap();
    let waiting = desk.json(&["approvals", "list"]);
    let gate = waiting[0]["id"].as_str().unwrap();
    assert_eq!(waiting.as_array().unwrap().len(), 1);
    let asked = desk.json(&["approvals", "show", gate]);
    assert_eq!((&asked["status"], &asked["resolvedAt"]), (&json!("pending"), &json!(null)));
    desk.get(&["approve", gate]);
    assert_eq!(desk.get(&["resume", id]), "All done.\n");
    assert_eq!(desk.json(&["approvals", "show", gate])["status"], "approved");
    assert_eq!(desk.say(&["approve", gate]).code, 1, "answered before");
}

/// AI1, AI11: rm forgets a run that has ended and keeps one that has not, unless forced; then it is not found.
#[test]
fn rm_forgets() {
    let desk = Desk::new();
    let id = desk.completed();
    desk.get(&["rm", &id]);
    let said = desk.say(&["show", &id]);
    assert!(said.code == 2 && said.err.contains("not in the store"), "{}", said.err);
    assert!(!desk.path(&format!(".longhaul/runs/{id}")).exists());
    let paused = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    let id: serde_json::Value = serde_json::from_str(&paused.out).unwrap();
    let id = id["id"].as_str().unwrap();
    assert!(desk.say(&["rm", id]).err.contains("--force"));
    desk.get(&["rm", id, "--force"]);
    assert_eq!(desk.json(&["list"]), json!([]));
}

/// What a killed run left running ends with it, also if it was not held by anything.
#[test]
fn rm_ends_what_was_left_running() {
    let script = "conversations:\n  - turns:\n      - calls: [ { tool: bash, args: { command: 'echo $$ > pid; exec sleep 60' } } ]\n";
    let desk = Desk::with_script(script);
    let mut live = desk.command(&["run", "x", "--in-place", "--model", "scripted/s.yaml"]).spawn().unwrap();
    let pid = || std::fs::read_to_string(desk.path("pid")).ok().filter(|text| text.ends_with('\n'));
    let started = std::time::Instant::now();
    while pid().is_none() && started.elapsed().as_secs() < 60 {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    live.kill().unwrap();
    live.wait().unwrap();
    // One that has ended and that nobody has asked about has no words left.
    let command_line = format!("/proc/{}/cmdline", pid().unwrap().trim());
    let runs = || std::fs::read(&command_line).is_ok_and(|words| !words.is_empty());
    assert!(runs(), "it has outlived its run");
    let id = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    desk.get(&["rm", &id, "--force"]);
    assert!(!runs(), "it is over");
}

/// What is typed as an id and is none is shown, not obeyed by the terminal.
#[test]
fn a_bad_id_is_written_out() {
    let desk = Desk::new();
    desk.create();
    for verb in ["show", "stop", "resume", "rm"] {
        let said = desk.say(&[verb, "run_\u{1b}[2J"]);
        assert_eq!(said.code, 2, "{}", said.err);
        assert!(said.err.contains("`run_\\u{1b}[2J` is not an id"), "{:?}", said.err);
    }
}

/// Ids may be shortened here too; one that is not there, or may not go, keeps all the others from being removed.
#[test]
fn rm_looks_at_all_before_it_removes_any() {
    let desk = Desk::new();
    let (first, second) = (desk.create(), desk.create());
    let missing = desk.say(&["rm", &first, "nope"]);
    assert!(missing.code == 2 && missing.err.contains("not in the store"), "{}", missing.err);
    let paused = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    let paused: serde_json::Value = serde_json::from_str(&paused.out).unwrap();
    let paused = paused["id"].as_str().unwrap();
    assert!(desk.say(&["rm", &first, paused]).err.contains("--force"));
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 3, "none is gone");
    // Two ids differ long before their last letter.
    let short = |id: &str| id[..id.len() - 1].to_owned();
    desk.get(&["rm", &short(&first), &first]);
    desk.get(&["store", "delete", &short(&second)]);
    assert_eq!(desk.json(&["list"])[0]["id"], paused);
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 1);
}

/// A10.3, AD1: without the harness the same answer comes out and not one file is left but the agent's own.
#[test]
fn without_the_harness_nothing_is_kept() {
    let desk = Desk::new();
    let with = desk.get(&["run", "x", "--in-place", "--model", "scripted/s.yaml"]);
    std::fs::remove_dir_all(desk.path(".longhaul")).unwrap();
    std::fs::remove_file(desk.path("a.txt")).unwrap();
    desk.write("longhaul.yaml", "harness:\n  enabled: false\n");
    let without = desk.get(&["run", "x", "--model", "scripted/s.yaml"]);
    assert_eq!(with, without);
    let mut names: Vec<_> =
        std::fs::read_dir(desk.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["a.txt", "longhaul.yaml", "s.yaml"]);
    // What was not kept cannot be resumed, and nobody is told that it could.
    let limited = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--max-steps", "1"]);
    assert!(limited.code == 4 && !limited.err.contains("longhaul resume"), "{}", limited.err);
    assert!(limited.err.contains("nothing else was kept"), "{}", limited.err);
}

/// Inside a repository the run has a worktree and branch of its own, and the user's checkout is not touched.
#[test]
fn a_repository_gets_a_worktree() {
    let desk = Desk::new();
    let git = |args: &[&str]| {
        let done = std::process::Command::new("git").args(args).current_dir(desk.path("")).output().unwrap();
        assert!(done.status.success(), "{args:?}");
        String::from_utf8(done.stdout).unwrap()
    };
    git(&["init", "-q"]);
    git(&["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "first"]);
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml"]);
    assert!(!desk.path("a.txt").exists());
    let workspace = std::path::Path::new(shown["workspace"].as_str().unwrap());
    assert!(workspace.join("a.txt").exists() && workspace.join(".git").exists());
    assert_eq!(git(&["status", "--porcelain"]).trim(), "?? s.yaml");
    assert!(git(&["branch", "--list", "agent/x-coder-*"]).contains(shown["branch"].as_str().unwrap()));
}

/// Whoever follows a run hears its last word, which comes after its end: that the work is committed.
#[test]
fn following_ends_with_the_last_event() {
    let desk = Desk::new();
    for args in [
        &["init", "-q"][..],
        &["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "--allow-empty", "-m", "first"],
    ] {
        assert!(
            std::process::Command::new("git")
                .args(args)
                .current_dir(desk.path(""))
                .status()
                .unwrap()
                .success()
        );
    }
    let id = desk.get(&["run", "x", "--model", "scripted/s.yaml", "--detach"]).trim().to_owned();
    let heard = desk.get(&["events", &id, "--follow", "--json"]);
    assert_eq!(heard.lines().count(), desk.events(&id).len());
    assert!(heard.contains("\"work_"), "{heard}");
}

/// `--detach` returns at once with the id; the run completes by itself.
#[test]
fn a_detached_run_completes_by_itself() {
    let desk = Desk::with_script(SCRIPT);
    let id = desk.get(&["run", "x", "--model", "scripted/s.yaml", "--detach"]).trim().to_owned();
    desk.get(&["events", &id, "--follow"]);
    assert_eq!(desk.json(&["show", &id])["status"], "completed");
}

/// D2.7: init writes settings and a sample agent, and a second one overwrites nothing.
#[test]
fn init_never_overwrites() {
    let desk = Desk::new();
    desk.get(&["init"]);
    assert!(desk.path(".longhaul/workspace").is_dir() && desk.path("agents/coder.md").is_file());
    let defaults = desk.json(&["config", "show"]);
    std::fs::remove_file(desk.path("longhaul.yaml")).unwrap();
    assert_eq!(desk.json(&["config", "show"]), defaults, "the written file holds the defaults");
    desk.write("longhaul.yaml", "harness: { autonomy: 5 }\n");
    assert!(desk.get(&["init"]).contains("kept"));
    assert_eq!(std::fs::read_to_string(desk.path("longhaul.yaml")).unwrap(), "harness: { autonomy: 5 }\n");
}

/// AE11, A1.7: a refused start does nothing at all: it names the status, not a model that is gone, and makes no workspace.
#[test]
fn a_refused_start_does_nothing() {
    let desk = Desk::new();
    let id = desk.completed();
    let workspace = desk.json(&["show", &id])["workspace"].as_str().unwrap().to_owned();
    std::fs::remove_dir_all(&workspace).unwrap();
    std::fs::remove_file(desk.path("s.yaml")).unwrap();
    let said = desk.say(&["start", &id]);
    assert!(said.code == 1 && said.err.contains("completed"), "{}", said.err);
    assert!(!std::path::Path::new(&workspace).exists());
    let detached = desk.say(&["resume", &id, "--detach"]);
    assert!(detached.code == 1 && detached.err.contains("completed"), "{}", detached.err);
}

/// A run can be resumed from any directory: where its script is was settled when it was created.
#[test]
fn a_run_can_be_resumed_from_anywhere() {
    let desk = Desk::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let id = desk.create();
    let state = desk.path(".longhaul");
    let mut command = desk.command(&["--state-dir", state.to_str().unwrap(), "start", &id]);
    assert!(command.current_dir(elsewhere.path()).status().unwrap().success());
}

/// A background process gets the limits that were typed.
#[test]
fn a_detached_resume_keeps_its_limits() {
    let desk = Desk::new();
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let id = shown["id"].as_str().unwrap();
    desk.get(&["resume", id, "--max-steps", "9", "--detach"]);
    desk.get(&["events", id, "--follow"]);
    assert_eq!(desk.json(&["show", id])["status"], "completed");
}

/// An approval that is on record cannot be overridden by a later rejection.
#[test]
fn the_first_answer_counts() {
    let desk = Desk::new();
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--autonomy", "1", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let id = shown["id"].as_str().unwrap();
    let gate = format!("{id}.g1");
    desk.get(&["approve", &gate]);
    let rejected = desk.say(&["reject", &gate, "--reason", "no"]);
    assert!(rejected.code == 1 && rejected.err.contains("answer on record: approve"), "{}", rejected.err);
    assert_eq!(desk.json(&["approvals"]), json!([]), "what is answered waits for nobody");
    assert_eq!(desk.get(&["resume", id]), "All done.\n");
}

/// What lies in the inbox and cannot be read holds nobody up, and is on record.
#[test]
fn an_unreadable_command_is_dropped() {
    let desk = Desk::new();
    let id = desk.create();
    let inbox = desk.path(&format!(".longhaul/runs/{id}/inbox"));
    std::fs::write(inbox.join("00000000000000000001-cmd_garbage"), "{ not a command").unwrap();
    std::os::unix::fs::symlink(
        "/nowhere/at/all/\u{0}".trim_end_matches('\0'),
        inbox.join("00000000000000000002-cmd_link"),
    )
    .unwrap();
    std::fs::create_dir(inbox.join("00000000000000000003-cmd_dir")).unwrap();
    assert_eq!(desk.get(&["start", &id]), "All done.\n");
    let dropped = desk.events(&id).iter().filter(|event| event["type"] == "command_dropped").count();
    assert!(dropped >= 2, "{dropped}");
}

/// AQ6: Dream intervals: a run that works for a while checkpoints by the clock.
#[test]
fn checkpoints_are_made_by_the_clock() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'sleep 1' } } ] }, { text: ok } ] } ]",
    );
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml", "--checkpoint-interval-ms", "100"]);
    assert!(shown["checkpointCount"].as_u64().unwrap() >= 3, "{shown}");
}

/// A7.3: in Dream Mode checkpoints are made inside a step, as often as was asked for.
#[test]
fn a_dreaming_run_checkpoints_inside_a_step() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'while [ ! -e go ]; do sleep 0.05; done' } } ] }, { text: ok } ] } ]",
    );
    let dream = [
        "create",
        "--task",
        "x",
        "--in-place",
        "--dream",
        "--checkpoint-interval",
        "100ms",
        "--model",
        "scripted/s.yaml",
    ];
    let id = desk.get(&dream).trim().to_owned();
    let mut child = desk.command(&["start", &id]).stderr(std::process::Stdio::null()).spawn().unwrap();
    let kinds = || {
        desk.events(&id).iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let began = Instant::now();
    while kinds().iter().filter(|kind| *kind == "checkpoint").count() < 3 {
        assert!(began.elapsed() < Duration::from_secs(60), "no three checkpoints came");
        std::thread::sleep(Duration::from_millis(20));
    }
    desk.write("go", "");
    assert!(child.wait().unwrap().success());
    let kinds = kinds();
    let at = |kind: &str| kinds.iter().position(|own| own == kind).unwrap();
    let inside = &kinds[at("step_started")..at("step_completed")];
    assert!(inside.iter().filter(|kind| *kind == "checkpoint").count() >= 3, "{inside:?}");
}

/// A7.5: each level says what it asks and how often it checkpoints; the more is asked, the more often, unless somebody set it.
#[test]
fn autonomy_is_explained() {
    let desk = Desk::new();
    let explained = desk.json(&["config", "explain"]);
    let rows: Vec<(u64, &str, u64)> = explained
        .as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let interval_ms = row["checkpointIntervalMs"].as_u64().unwrap();
            (row["autonomy"].as_u64().unwrap(), row["gates"].as_str().unwrap(), interval_ms)
        })
        .collect();
    assert_eq!(
        rows,
        [
            (1, "before every step", 60_000),
            (2, "before every step", 150_000),
            (3, "before critical steps", 300_000),
            (4, "before no step", 300_000),
            (5, "before no step", 300_000),
        ]
    );
    let one = desk.get(&["config", "explain", "--autonomy", "3"]);
    assert!(
        one.contains("before critical steps") && one.contains("300000 ms") && !one.contains("autonomy 4"),
        "{one}"
    );
    assert_eq!(desk.say(&["config", "explain", "--autonomy", "6"]).code, 2);
    assert_eq!(desk.json(&["config", "show"])["harness.checkpoint_interval_ms"], 300_000);

    let interval = |more: &[&str]| {
        let create = ["create", "--task", "x", "--model", "scripted/s.yaml", "--autonomy"];
        desk.json(&[&create, more].concat())["checkpointIntervalMs"].as_u64().unwrap()
    };
    assert_eq!((interval(&["1"]), interval(&["5"])), (60_000, 300_000));
    assert_eq!(
        (interval(&["1", "--dream"]), interval(&["1", "--checkpoint-interval", "7s"])),
        (60_000, 7000)
    );
    desk.write("longhaul.yaml", "harness: { checkpoint_interval_ms: 240000 }\n");
    assert_eq!((interval(&["1"]), interval(&["5"])), (240_000, 240_000));
}

/// A run whose workspace was deleted is not set to work in an empty one.
#[test]
fn a_lost_workspace_is_named() {
    let desk = Desk::new();
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let (id, workspace) = (shown["id"].as_str().unwrap(), shown["workspace"].as_str().unwrap());
    std::fs::remove_dir_all(workspace).unwrap();
    let said = desk.say(&["resume", id, "--max-steps", "9"]);
    assert!(said.code == 2 && said.err.contains(workspace) && said.err.contains("is gone"), "{}", said.err);
    assert_eq!(desk.json(&["show", id])["status"], "paused");
}

/// F47: a workspace that is moved away while the run works parks it with the reason; put back, the run goes on.
#[test]
fn a_workspace_that_goes_away_parks_the_run() {
    let script = r#"conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: 'mv "$PWD" "$PWD-moved"' } }, { tool: write, args: { path: after.txt, content: x } } ] }, { text: All done. } ] } ]"#;
    let desk = Desk::with_script(script);
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!((said.code, &shown["status"]), (3, &json!("paused")), "{}", said.err);
    let (id, workspace) = (shown["id"].as_str().unwrap(), shown["workspace"].as_str().unwrap());
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.starts_with("workspace_gone") && reason.contains(workspace), "{reason}");
    let moved = format!("{workspace}-moved");
    assert!(!std::path::Path::new(&moved).join("after.txt").exists());
    std::fs::rename(moved, workspace).unwrap();
    assert_eq!(desk.json(&["resume", id])["status"], "completed");
    assert!(std::path::Path::new(workspace).join("after.txt").exists());
}

/// A run ends as it did, also when somebody broke the settings meanwhile: that is a warning at most.
#[test]
fn settings_broken_meanwhile_do_not_change_how_a_run_ended() {
    let script = r#"
conversations:
  - turns:
      - calls:
          - { tool: write, args: { path: break.sh, content: 'echo "nonsense: [" > "${PWD%%/.longhaul/*}/longhaul.yaml"' } }
          - { tool: bash, args: { command: sh break.sh } }
      - text: All done.
"#;
    for (place, warned) in [(vec!["--in-place"], false), (Vec::new(), true)] {
        let desk = Desk::with_script(script);
        let args = [vec!["run", "x", "--model", "scripted/s.yaml"], place].concat();
        let said = desk.say(&args);
        assert!(desk.path("longhaul.yaml").exists(), "{}", said.err);
        assert_eq!((said.code, said.out.trim()), (0, "All done."), "{}", said.err);
        assert_eq!(said.err.contains("the settings cannot be read any more"), warned, "{}", said.err);
    }
}

/// The hint at a limit names the limit that was reached, and works word for word.
#[test]
fn the_hint_at_a_limit_works() {
    for flag in ["--max-steps=1", "--max-tokens=1", "--max-cost=0.001"] {
        let desk = Desk::new();
        let mut said = desk.say(&["run", "x", "--model", "scripted/s.yaml", flag]);
        for _ in 0..5 {
            assert_eq!(said.code, 4, "{flag}: {}", said.err);
            let typed = said.err.split("`longhaul ").last().unwrap().split('`').next().unwrap().to_owned();
            said = desk.say(&typed.split(' ').collect::<Vec<_>>());
            if said.code == 0 {
                break;
            }
        }
        assert_eq!(said.out, "All done.\n", "{flag}: {}", said.err);
    }
}

/// A run that goes on only after a person's word is not called running by those who tell people about it.
#[test]
fn a_run_at_a_gate_waits_for_a_person() {
    let desk = Desk::new();
    let ran = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--autonomy", "1"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains(" waiting for a person after "), "{}", ran.err);
    let listed = desk.json(&["list"])[0].clone();
    assert_eq!((listed["status"].as_str(), listed["wait"].as_str()), (Some("running"), Some("human")));
    let id = listed["id"].as_str().unwrap();
    let lines = [desk.get(&["list"]), desk.get(&["show", id])];
    for text in lines {
        assert!(text.contains("waiting for a person"), "{text}");
        assert!(!text.contains("running (human)") && !text.contains("status       running"), "{text}");
    }
}

/// A106: two runs that work in one directory at the same time, or in one below the other, may be meant, and are said.
#[test]
fn a_second_run_in_place_is_warned_of() {
    let desk = Desk::with_script(
        r#"
conversations:
  - turns:
      - calls: [ { tool: bash, args: { command: "touch began; sleep 600" } } ]
      - text: "Done."
"#,
    );
    let create = || desk.say(&["create", "--task", "x", "--in-place", "--model", "scripted/s.yaml"]);
    let first = create();
    assert!(!first.err.contains("works in this directory"), "{}", first.err);
    let id = first.out.trim().to_owned();
    let mut child =
        desk.command(&["start", &id]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !desk.path("began").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it began");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let second = create();
    assert!(second.err.contains(&format!("{id} works in this directory as well")), "{}", second.err);
    std::fs::create_dir(desk.path("below")).unwrap();
    let script = format!("scripted/{}", desk.path("s.yaml").display());
    let mut below = desk.command(&["create", "--task", "x", "--in-place", "--model", &script]);
    below.current_dir(desk.path("below")).env("LONGHAUL_STATE_DIR", desk.path(".longhaul"));
    let below = String::from_utf8(below.output().unwrap().stderr).unwrap();
    assert!(below.contains(&format!("{id} works in this directory as well")), "{below}");
    desk.get(&["pause", &id]);
    child.wait().unwrap();
    assert!(!create().err.contains("works in this directory"));
}

/// What is said at the end about the worktree is what is there: commits, changes, another branch.
#[test]
fn the_end_says_what_is_in_the_worktree() {
    let commit = "git -c user.name=a -c user.email=a@localhost commit -qm work";
    for (command, said) in [
        ("true", "; nothing is changed there"),
        ("echo x > f", "; 1 commit was made\n"),
        (&*format!("echo x > f; git add f; {commit}"), "; 1 commit was made\n"),
        (
            &*format!("git switch -qc other; echo x > f; git add f; {commit}; echo y > g"),
            "on branch other, having begun on agent/x-coder-",
        ),
    ] {
        let desk = Desk::with_script(
            "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: sh work.sh } } ] }, { text: Done. } ] } ]",
        );
        // In a file, because rules ask about a commit.
        desk.write("work.sh", command);
        git(&desk, &["init", "-q"]);
        git(&desk, &["add", "s.yaml", "work.sh"]);
        git(&desk, &["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "first"]);
        let ran = desk.say(&["run", "x", "--model", "scripted/s.yaml"]);
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains(said), "{command}: {}", ran.err);
        if said.starts_with("on branch other") {
            let id = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
            assert!(desk.get(&["show", &id]).contains("branch       other, having begun on agent/x-coder-"));
            assert!(desk.get(&["result", &id]).contains(said));
        }
        if command.contains("other") {
            let rest = "; 2 commits were made\n";
            assert!(ran.err.contains(rest), "{}", ran.err);
        }
    }
}

/// D5.2: what an earlier run of the session committed, what was carried in, and what another run has signed is not counted.
#[test]
fn the_end_counts_the_commits_of_this_run() {
    let desk = Desk::with_script(
        "conversations: [ { turns: [ { calls: [ { tool: bash, args: { command: sh work.sh } } ] }, { text: Done. } ] } ]",
    );
    desk.write("work.sh", "echo x >> f");
    git(&desk, &["init", "-q"]);
    git(&desk, &["add", "s.yaml", "work.sh"]);
    git(&desk, &["-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "first"]);
    let ends_with_one = |more: &[&str]| {
        let ran = desk.say(&[&["run", "x", "--model", "scripted/s.yaml"], more].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains("; 1 commit was made\n"), "{more:?}: {}", ran.err);
    };
    ends_with_one(&["--session", "port"]);
    ends_with_one(&["--session", "port"]);
    let commit = "git -c user.name=a -c user.email=a@localhost commit --allow-empty -qm";
    desk.write("work.sh", &format!("echo y > g; {commit} 'x\n\nLonghaul-Run: run_other'"));
    ends_with_one(&["--with-changes"]);
}

/// A recording that was asked for once is made again whenever the run rests.
#[test]
fn a_recording_is_remembered_by_resume() {
    let desk = Desk::new();
    let run = ["run", "x", "--model", "scripted/s.yaml", "--record", "r.yaml", "--max-steps", "1"];
    assert_eq!(desk.say(&run).code, 4);
    let first = std::fs::read_to_string(desk.path("r.yaml")).unwrap();
    assert!(!first.contains("All done."), "{first}");
    let id = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    let resumed = desk.say(&["resume", &id, "--max-steps", "9"]);
    assert_eq!(resumed.code, 0, "{}", resumed.err);
    let whole = std::fs::read_to_string(desk.path("r.yaml")).unwrap();
    assert!(whole.contains("All done."), "{whole}");
}

fn git(desk: &Desk, words: &[&str]) {
    let output = Command::new("git").args(words).current_dir(desk.path("")).output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
}

/// A directory whose name is no text is refused before there is a run that nobody could drive.
#[test]
fn a_directory_whose_name_is_no_text_is_refused() {
    use std::os::unix::ffi::OsStrExt;
    let desk = Desk::new();
    let odd = desk.path("").join(std::ffi::OsStr::from_bytes(b"d\xff"));
    std::fs::create_dir(&odd).unwrap();
    let args = ["run", "x", "--in-place", "--model", "scripted/../s.yaml"];
    let output = desk.command(&args).current_dir(&odd).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(2) && said.contains("is no text (UTF-8)"), "{said}");
    assert_eq!(desk.command(&["list"]).current_dir(&odd).output().unwrap().stdout, b"");
}
