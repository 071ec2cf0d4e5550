//! Limits, what reaching them leads to, and what all runs of a project may use together.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::desk::{Desk, Said};

const RUN: [&str; 4] = ["run", "x", "--model", "scripted/s.yaml"];

fn run(desk: &Desk, more: &[&str]) -> Said {
    desk.say(&[&RUN, more].concat())
}

fn spent(desk: &Desk) -> f64 {
    desk.json(&["cost"])["total"]["costUsd"].as_f64().unwrap()
}

/// A limit on cost, as each of its policies has it: exit code, status, and how it is told.
#[test]
fn a_limit_warns_pauses_or_stops() {
    for (policy, code, status, told) in [
        ("warn", 0, "completed", "of $0.0040; the work goes on"),
        ("pause", 4, "paused", "longhaul resume run_"),
        ("stop", 4, "failed", "the run was to stop at this limit; its work is kept in "),
    ] {
        let desk = Desk::new();
        let said = run(&desk, &["--max-cost", "0.004", "--limit-policy", &format!("max_cost={policy}")]);
        assert_eq!(said.code, code, "{policy}: {}", said.err);
        assert!(said.err.contains(told), "{policy}: {}", said.err);
        let row = &desk.json(&["list"])[0];
        assert_eq!(row["status"], status, "{policy}");
        let shown = desk.json(&["show", row["id"].as_str().unwrap()]);
        assert_eq!(shown["limits"]["policies"]["maxCost"], policy);
    }
}

/// B7.5: whatever limit a run was to stop at, what is said then can be typed, and it goes on in a fresh conversation that knows what
/// happened. With nothing higher it stays as it is.
#[test]
fn a_run_that_was_to_stop_goes_on_with_a_higher_limit() {
    let script = "prices: { input: 10, output: 10 }\nconversations:\n  - match: { prompt_contains: 'What happened so far' }\n    \
                  turns: [ { text: Went on., usage: { input: 10, output: 1 } } ]\n  - turns:\n      \
                  - { calls: [ { tool: bash, args: { command: echo one } } ], usage: { input: 100, output: 10 } }\n      \
                  - { calls: [ { tool: bash, args: { command: echo two } } ], usage: { input: 100, output: 10 } }\n      \
                  - { calls: [ { tool: bash, args: { command: echo three } } ], usage: { input: 100, output: 10 } }\n";
    for (flag, limit) in [("max-steps", "1"), ("max-tokens", "200"), ("max-cost", "0.0015")] {
        let desk = Desk::with_script(script);
        let (typed, policy) = (format!("--{flag}={limit}"), format!("{}=stop", flag.replace('-', "_")));
        let said = run(&desk, &[&typed, "--limit-policy", &policy]);
        assert_eq!(said.code, 4, "{flag}: {}", said.err);
        let hint = said.err.lines().find(|line| line.contains("go on with a higher one")).unwrap();
        let typed = hint.split('`').find(|part| part.starts_with("longhaul resume ")).unwrap();
        let id = typed.split(' ').nth(2).unwrap();
        let refused = desk.say(&["resume", id]);
        assert_eq!(
            (refused.code, refused.err.contains("goes on with a higher one")),
            (1, true),
            "{}",
            refused.err
        );
        let words: Vec<&str> = typed.split(' ').skip(1).collect();
        assert_eq!(desk.get(&words), "Went on.\n", "{flag}");
        assert_eq!(desk.json(&["show", id])["status"], "completed");
    }
}

/// The same, left to a background process: it is not refused before that has heard of the higher limit.
#[test]
fn a_run_that_was_to_stop_goes_on_in_the_background() {
    let desk = Desk::with_script(
        "conversations:\n  - match: { prompt_contains: 'What happened so far' }\n    turns: [ { text: Went on. } ]\n  \
         - turns: [ { calls: [ { tool: bash, args: { command: echo one } } ] } ]\n",
    );
    run(&desk, &["--max-steps=1", "--limit-policy", "max_steps=stop"]);
    let id = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    let refused = desk.say(&["resume", &id, "--max-tool-calls", "500", "--detach"]);
    assert_eq!(
        (refused.code, refused.err.contains("goes on with a higher one")),
        (1, true),
        "{}",
        refused.err
    );
    desk.get(&["resume", &id, "--max-steps", "9", "--detach"]);
    let deadline = Instant::now() + Duration::from_secs(120);
    while desk.json(&["show", &id])["status"] != "completed" {
        assert!(Instant::now() < deadline, "{}", desk.get(&["logs", &id]));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What is no number, or none with an end, is no limit that anybody meant.
#[test]
fn amounts_without_an_end_are_refused() {
    let desk = Desk::new();
    for key in ["limits: { max_cost: ", "limits: { max_iteration_cost: ", "budget: { day: { max_cost: "] {
        for amount in [".nan", ".inf", "-.inf"] {
            let end = "}".repeat(key.matches('{').count());
            desk.write("longhaul.yaml", &format!("harness: {{ {key}{amount} {end} }}\n"));
            let said = run(&desk, &[]);
            assert_eq!(
                (said.code, said.err.contains("a number is expected")),
                (2, true),
                "{key}{amount}: {}",
                said.err
            );
        }
    }
    desk.write("longhaul.yaml", "compaction: { threshold: .nan }\n");
    assert_eq!(run(&desk, &[]).code, 2);
}

/// D1.3: what an agent's file and the settings say of limits; nonsense is told with its place.
#[test]
fn policies_are_read_from_files() {
    let desk = Desk::new();
    fs::create_dir(desk.path("agents")).unwrap();
    desk.write(
        "agents/strict.md",
        "---\nlimits: { max_tokens: 2000, policies: { max_tokens: stop } }\n---\nWork.",
    );
    let said = run(&desk, &["--agent", "strict"]);
    assert_eq!((said.code, said.err.contains("failed: max_tokens reached")), (4, true), "{}", said.err);
    desk.write("longhaul.yaml", "harness: { limits: { max_steps: 1, policies: { max_steps: warn } } }\n");
    let said = run(&desk, &[]);
    assert_eq!((said.code, said.err.contains("max_steps reached: 1 of 1; the work goes on")), (0, true));

    desk.write("agents/odd.md", "---\nlimits:\n  policies: { max_cost: restart }\n---\nWork.");
    let said = run(&desk, &["--agent", "odd"]);
    assert_eq!(said.code, 2);
    assert!(
        said.err.contains("odd.md:3: `limits.policies` `restart` makes no sense for max_cost"),
        "{}",
        said.err
    );
    desk.write("longhaul.yaml", "harness: { limits: { policies: { max_setps: stop } } }\n");
    let said = run(&desk, &[]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("there is no limit `max_setps` (did you mean `max_steps`?)"), "{}", said.err);
    fs::remove_file(desk.path("longhaul.yaml")).unwrap();
    for (typed, why) in [
        ("max_cost", "give a limit and a policy, like `max_cost=stop`"),
        ("max_iterations=warn", "a loop that is only warned never ends"),
        ("max_cost=stpo", "did you mean `stop`?"),
    ] {
        let said = run(&desk, &["--limit-policy", typed]);
        assert_eq!((said.code, said.err.contains(why)), (2, true), "{}", said.err);
    }
    let said = run(&desk, &["--max-cost", "-1"]);
    assert_eq!(
        (said.code, said.err.contains("--max-cost -1 is not an amount of dollars")),
        (2, true),
        "{}",
        said.err
    );
}

/// A project cannot make the user's own limit on cost a warning, nor give itself a larger budget.
#[test]
fn a_project_loosens_no_limit_of_the_users() {
    let desk = Desk::new();
    fs::create_dir_all(desk.path(".config/longhaul")).unwrap();
    desk.write(
        ".config/longhaul/longhaul.yaml",
        "harness: { limits: { max_cost: 1 }, budget: { day: { max_cost: 2 } } }\n",
    );
    for (text, told) in [
        (
            "harness: { limits: { policies: { max_cost: warn } } }",
            "may not make your own limit on cost a mere warning",
        ),
        ("harness: { budget: { day: { max_cost: 3 } } }", "harness.budget.day.max_cost in"),
    ] {
        desk.write("longhaul.yaml", text);
        let said = run(&desk, &[]);
        assert_eq!((said.code, said.err.contains(told)), (2, true), "{}", said.err);
    }
    desk.write("longhaul.yaml", "harness: { budget: { day: { max_cost: 1 } } }");
    assert_eq!(run(&desk, &[]).code, 0);
    fs::remove_file(desk.path("longhaul.yaml")).unwrap();
    fs::create_dir(desk.path("agents")).unwrap();
    desk.write("agents/lax.md", "---\nlimits: { policies: { max_cost: warn } }\n---\nWork.");
    let said = run(&desk, &["--agent", "lax"]);
    assert_eq!((said.code, said.err.contains("may not raise a limit of $1")), (2, true), "{}", said.err);
}

/// Runs of one project that work at the same time, each in a process of its own, do not spend more in a day than they may
/// together; each pauses before the question that would, and goes on when there is more.
#[test]
fn a_day_has_a_budget_for_all_runs() {
    // Of the first runs of all nobody knows what a reply takes: one finds out while the others wait.
    let desk = Desk::new();
    desk.write("longhaul.yaml", "harness: { budget: { day: { max_cost: 0.007 } } }\n");
    let ids: Vec<String> = (0..6).map(|_| desk.create()).collect();
    let quiet = |id: &String| desk.command(&["start", id]).stderr(Stdio::null()).spawn().unwrap();
    let running: Vec<_> = ids.iter().map(quiet).collect();
    for mut child in running {
        assert_eq!(child.wait().unwrap().code(), Some(4));
    }
    let first = spent(&desk);
    assert!((0.003..=0.007).contains(&first), "{first}");

    let desk = Desk::new();
    // A run takes three replies of $0.00315 each: there is enough for one run and one reply more. Nobody knows yet what a reply
    // takes, so the first goes alone.
    desk.write("longhaul.yaml", "harness: { budget: { day: { max_cost: 0.015 } } }\n");
    assert_eq!(run(&desk, &[]).code, 0);
    let ids: Vec<String> = (0..4).map(|_| desk.create()).collect();
    let start = |id: &String| desk.command(&["start", id]).stderr(Stdio::piped()).spawn().unwrap();
    let running: Vec<_> = ids.iter().map(start).collect();
    for child in running {
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "{err}");
        assert!(err.contains("day_budget: day.max_cost reached: $0.0"), "{err}");
        assert!(err.contains("raise harness.budget.day.max_cost, or resume tomorrow"), "{err}");
    }
    let before = spent(&desk);
    let budget = &desk.json(&["cost"])["budgets"][0];
    assert_eq!((&budget["scope"], budget["usage"]["costUsd"].as_f64()), (&Value::from("day"), Some(before)));
    let table = desk.get(&["cost"]);
    assert!(table.contains("all runs, today (UTC): $0.0") && table.contains(" of $0.0150"), "{table}");
    assert!((0.009..=0.015).contains(&before), "{before}");
    let shown = desk.json(&["show", &ids[0]]);
    assert_eq!(
        (&shown["status"], &shown["reason"].as_str().unwrap()[..10]),
        (&Value::from("paused"), "day_budget")
    );
    // What is derived from journals needs no catalogue.
    fs::remove_file(desk.path(".longhaul/catalog.db")).unwrap();
    assert_eq!(desk.say(&["resume", &ids[0]]).code, 4);
    desk.write(
        "longhaul.yaml",
        "harness: { budget: { day: { max_cost: 1 }, repo: { max_tokens: 100000 } } }\n",
    );
    desk.get(&["resume", &ids[0]]);
    desk.write("longhaul.yaml", "harness: { budget: { repo: { max_tokens: 100 } } }\n");
    let said = desk.say(&["resume", &ids[1]]);
    assert_eq!(
        (said.code, said.err.contains("repo_budget: repo.max_tokens reached: ")),
        (4, true),
        "{}",
        said.err
    );
    desk.write("longhaul.yaml", "harness: { enabled: false, budget: { repo: { max_tokens: 100 } } }\n");
    let said = run(&desk, &[]);
    assert_eq!((said.code, said.err.contains("cannot be counted")), (2, true), "{}", said.err);
    desk.write("longhaul.yaml", "harness: { budget: { week: { max_tokens: 100 } } }\n");
    assert_eq!(desk.say(&["resume", &ids[1]]).code, 2);
}

/// B5.1, pain 5: summarizers and judges have prices of their own, and what the last answer took is set aside before they are asked.
#[test]
fn what_is_asked_beside_the_conversation_is_reserved() {
    let script = |text: &str, tokens: u32| {
        let turn = serde_json::json!({ "text": text, "usage": { "input": tokens, "output": 0 } });
        let prices = serde_json::json!({ "input": 1, "output": 1 });
        serde_json::json!({ "prices": prices, "conversations": [{ "turns": [turn] }] }).to_string()
    };
    let sides = [
        ("loop", ["--summarize-with", "scripted/side.yaml"], script("Summed up.", 300_000)),
        (
            "run",
            ["--judge", "scripted/side.yaml"],
            script("{\"accepted\": false, \"reasons\": [\"no\"]}", 300_000),
        ),
    ];
    for (verb, side, text) in sides {
        for by_day in [false, true] {
            let desk = Desk::with_script(&script("Not yet.", 100_000));
            desk.write("side.yaml", &text);
            let mut args = vec![verb, "x", "--model", "scripted/s.yaml", side[0], side[1]];
            if by_day {
                desk.write("longhaul.yaml", "harness: { budget: { day: { max_cost: 0.75 } } }\n");
            } else {
                args.extend(["--max-cost", "0.75"]);
            }
            let said = desk.say(&args);
            assert_eq!(said.code, 4, "{verb}, {by_day}: {}", said.err);
            let spent = desk.json(&["cost"])["total"]["costUsd"].as_f64().unwrap();
            assert!((0.4..=0.75).contains(&spent), "{verb}, {by_day}: {spent}");
        }
    }
}

/// B5.3: what must hold can be changed when a run is resumed, and holds from then on, also in a background process.
#[test]
fn a_resumed_run_may_be_checked_by_other_commands() {
    let desk = Desk::new();
    let said = run(&desk, &["--max-steps", "2", "--verify", "false"]);
    assert_eq!(said.code, 4, "{}", said.err);
    let id = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    let said = desk.say(&["resume", &id, "--max-steps", "20", "--verify", " "]);
    assert_eq!(
        (said.code, said.err.contains("a verify command may not be empty")),
        (2, true),
        "{}",
        said.err
    );
    let said = desk.say(&["resume", &id, "--max-steps", "20", "--judge", "scripted/none.yaml"]);
    assert_ne!(said.code, 0, "{}", said.err);
    desk.get(&["resume", &id, "--max-steps", "20", "--verify", "grep -q hello a.txt", "--verify", "true"]);
    let report = desk.json(&["result", &id]);
    let checks = report["evidence"]["checks"].as_array().unwrap();
    let commands: Vec<&str> = checks.iter().map(|check| check["command"].as_str().unwrap()).collect();
    assert_eq!(commands, ["grep -q hello a.txt", "true"]);
    assert!(desk.events(&id).iter().any(|event| event["type"] == "checks_changed"));
}

/// What a run has spent counts when its process was killed with -9: another run of the project finds it in the journal, and a
/// question that died with it is not held against the others.
#[test]
fn a_budget_survives_kill_9() {
    let desk = Desk::with_script(
        r#"
prices: { input: 3.00, output: 15.00 }
conversations:
  - match: { prompt_contains: first }
    turns:
      - calls: [ { tool: bash, args: { command: "touch began; while [ ! -e go ]; do sleep 0.05; done" } } ]
        usage: { input: 100000, output: 10 }
  - turns:
      - text: "Done."
        usage: { input: 10000, output: 10 }
"#,
    );
    desk.write("longhaul.yaml", "harness: { budget: { day: { max_cost: 0.34 } } }\n");
    let args = ["run", "first", "--model", "scripted/s.yaml", "--in-place"];
    let mut child = desk.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !desk.path("began").exists() {
        assert!(Instant::now() < deadline, "it never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    desk.write("go", "");
    // $0.30 are spent: a reply like the last one of all would be too much, and one of $0.03 cannot be expected yet.
    let said = run(&desk, &[]);
    assert_eq!((said.code, said.err.contains("day.max_cost reached: $0.30")), (4, true), "{}", said.err);
    desk.write("longhaul.yaml", "harness: { budget: { day: { max_cost: 0.61 } } }\n");
    let said = run(&desk, &[]);
    assert_eq!(said.code, 0, "{}", said.err);
    // Now there is less left than the dearest reply took.
    assert_eq!(run(&desk, &[]).code, 4);
}

/// Money that was spent stays spent: a run that is taken back to a checkpoint goes on with what is left of its budget, and so do all runs
/// together.
#[test]
fn going_back_to_a_checkpoint_brings_no_money_back() {
    let desk = Desk::new();
    let steps = "steps: [ { id: a, description: one }, { id: b, description: two, dependencies: [a] } ]";
    desk.write("plan.yaml", steps);
    let said = run(&desk, &["--plan", "plan.yaml", "--json"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let id = serde_json::from_str::<Value>(&said.out).unwrap()["id"].as_str().unwrap().to_owned();
    let once = spent(&desk);
    assert!(once > 0.0);
    let total = |desk: &Desk| desk.json(&["show", &id])["totalCost"].as_f64().unwrap();
    assert_eq!(total(&desk), once);
    // The second step is paid for twice.
    assert_eq!(desk.say(&["resume", &id, "--checkpoint", "1"]).code, 0);
    assert!((total(&desk) - once * 1.5).abs() < 1e-9, "{} after {once}", total(&desk));
    assert!((spent(&desk) - once * 1.5).abs() < 1e-9);
    let known = desk.events(&id).into_iter().filter(|event| event["type"] == "spent_before").count();
    assert_eq!(known, 1);
    // A limit that was reached is reached, however often the run goes back.
    let again = desk.say(&["resume", &id, "--checkpoint", "1", "--max-cost", &format!("{}", once * 1.5)]);
    assert_eq!(again.code, 4, "{}", again.err);
    assert!((total(&desk) - once * 1.5).abs() < 1e-9);
    assert_eq!(desk.events(&id).into_iter().filter(|event| event["type"] == "model_reply").count(), 3);
}

/// The same with the files: a rewind brings no money back, and neither do two in a row.
#[test]
fn a_rewind_brings_no_money_back() {
    let desk = Desk::new();
    let steps = "steps: [ { id: a, description: one }, { id: b, description: two, dependencies: [a] } ]";
    desk.write("plan.yaml", steps);
    let said = run(&desk, &["--plan", "plan.yaml", "--json"]);
    let id = serde_json::from_str::<Value>(&said.out).unwrap()["id"].as_str().unwrap().to_owned();
    let once = spent(&desk);
    let first = desk.json(&["checkpoints", &id, "--all"]).as_array().unwrap()[0]["seq"].clone();
    let same = |what: &str| {
        let shown = desk.json(&["show", &id])["totalCost"].as_f64().unwrap();
        assert!((shown - once).abs() < 1e-9 && (spent(&desk) - once).abs() < 1e-9, "{what}: {shown}, {once}");
    };
    for way in [&["--to", "1"][..], &["--undo"], &["--to", "1"], &["--to", &format!("@{first}")]] {
        assert_eq!(desk.say(&[&["rewind", &id], way].concat()).code, 0);
        same(&way.join(" "));
    }
    assert_eq!(desk.say(&["resume", &id]).code, 0);
    let known = desk.events(&id).into_iter().filter(|event| event["type"] == "spent_before").count();
    assert_eq!(known, 1);
    let total = desk.json(&["show", &id])["totalCost"].as_f64().unwrap();
    assert!(total > once * 1.5 + 1e-9, "{total} after {once}");
    assert!((spent(&desk) - total).abs() < 1e-9, "all of it counts towards the day");
}

/// What was spent before a rewind counts for the day at once, and not only when the run goes on.
#[test]
fn a_rewind_gives_nothing_back_to_the_day() {
    let desk = Desk::new();
    // Enough for one run of three replies, and not for a fourth; but what one takes is not on record any more.
    desk.write("longhaul.yaml", "harness: { budget: { day: { max_cost: 0.012 } } }\n");
    let said = run(&desk, &["--json"]);
    let id = serde_json::from_str::<Value>(&said.out).unwrap()["id"].as_str().unwrap().to_owned();
    assert_eq!(desk.say(&["rewind", &id, "--to", "@2"]).code, 0);
    let said = run(&desk, &[]);
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(said.err.contains("day.max_cost reached: $0.0126 of $0.0120"), "{}", said.err);
    let other = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(desk.say(&["rm", &other, "--force"]).code, 0);
    assert_eq!(desk.say(&["resume", &id]).code, 4, "the same run has no more of it than others");
}

/// A limit that leaves no room for anything, or none for a tree of runs, is a slip of the key: refused wherever it is given.
#[test]
fn limits_that_nobody_means_are_refused() {
    let desk = Desk::new();
    let id = desk.create();
    let of_depth = "max_sub_agent_depth";
    for (limit, value, why) in [
        ("max_steps", "0", "max_steps must be at least 1"),
        ("max_tokens", "0", "max_tokens must be at least 1"),
        ("max_iteration_steps", "0", "max_iteration_steps must be at least 1"),
        (of_depth, "1000000", of_depth),
        (of_depth, "17", "16"),
    ] {
        let flag = format!("--{}={value}", limit.replace('_', "-"));
        let args = ["create", "--task", "x", "--model", "scripted/s.yaml"];
        for args in [&[&args[..], &[flag.as_str()]].concat()[..], &["resume", &id, &flag]] {
            let said = desk.say(args);
            assert!(said.code == 2 && said.err.contains(why), "{args:?}: {} {}", said.code, said.err);
        }
        desk.write("longhaul.yaml", &format!("harness: {{ limits: {{ {limit}: {value} }} }}\n"));
        let said = desk.say(&args);
        assert!(said.code == 2 && said.err.contains(why), "{limit}: {} {}", said.code, said.err);
        desk.write("longhaul.yaml", "");
    }
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 1, "nothing was made");
}

/// AI5: the result in the morning says how to go on as it was said at night, and which limits only warned.
#[test]
fn a_result_says_how_to_go_on_and_what_was_passed() {
    let result = |policy: &str| {
        let desk = Desk::new();
        let said = run(&desk, &["--max-cost", "0.004", "--limit-policy", &format!("max_cost={policy}")]);
        let id = desk.json(&["list"])[0]["id"].as_str().unwrap().to_owned();
        let json: Value = serde_json::from_str(&desk.say(&["result", &id, "--json"]).out).unwrap();
        (said.err, desk.say(&["result", &id]).out, json)
    };
    let (said, shown, json) = result("pause");
    let hint = said.lines().find_map(|line| line.strip_prefix("hint: ")).unwrap();
    assert!(hint.contains("go on with a higher limit: `longhaul resume run_"), "{hint}");
    assert!(shown.contains(&format!("**How to go on:** {hint}\n")), "{shown}");
    assert_eq!((&json["howToGoOn"], &json["limitsPassed"]), (&hint.into(), &serde_json::json!([])));
    let (_, shown, json) = result("warn");
    assert!(
        shown.contains("**Limit passed:** max_cost reached: $") && !shown.contains("How to go on"),
        "{shown}"
    );
    let passed = &json["limitsPassed"][0];
    assert_eq!(
        (&passed["limit"], &passed["max"], &json["howToGoOn"]),
        (&"max_cost".into(), &"$0.0040".into(), &Value::Null)
    );
}
