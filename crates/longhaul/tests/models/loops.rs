//! Loops over a real protocol: what goes over the wire in each iteration, and `kill -9` in the middle of everything a loop
//! does. Which iteration it is, the fake provider only knows from what it is sent.

use serde_json::{Value, json};

use super::rig::{APIS, Live, PRICES, Rig, asked, provider, serve, until};

/// An iteration that does not keep the promise, one that says it without evidence, and one that has both.
const SCRIPT: &str = r#"
conversations:
  - match: { prompt_contains: "The conversation so far" }
    turns: [ { text: "The red one was chosen.", usage: { input: 300, output: 20 }, delay_ms: 1 } ]
  - match: { prompt_contains: "iteration 2 of at most" }
    turns:
      - text: "TASK_COMPLETE"
        usage: { input: 1000, output: 10 }
  - match: { prompt_contains: "iteration 3 of at most" }
    turns:
      - calls: [ { tool: write, args: { path: ok.txt, content: "ok\n" } } ]
        usage: { input: 1000, output: 10 }
      - text: "Everything is there.\nTASK_COMPLETE"
        usage: { input: 1000, output: 10 }
  - turns:
      - text: "I look."
        calls: [ { tool: list, args: {} } ]
        usage: { input: 1000, output: 10 }
      - text: "I will print TASK_COMPLETE later."
        usage: { input: 1000, output: 10 }
"#;

fn words(request: &Value) -> String {
    request.to_string()
}

/// B1.1, B2.1, B2.7, B2.9, B7.4: over each protocol, an iteration's first request has the mission and nothing of the conversation before.
#[test]
fn every_iteration_begins_small() {
    for api in APIS {
        let fake = serve(SCRIPT);
        let rig = Rig::with_all(&fake);
        let model = format!("{api}/m");
        let args =
            ["loop", "Make ok.txt", "--in-place", "--json", "--model", &model, "--verify", "test -f ok.txt"];
        let said = rig.say(&args);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        assert_eq!(
            (said.json()["status"].clone(), said.json()["iterationCount"].clone()),
            (json!("completed"), json!(2))
        );
        let sent: Vec<String> = asked(&fake).iter().map(|request| words(&request.body)).collect();
        assert_eq!(sent.len(), 5, "{api}");
        assert!(sent[1].contains("I look."), "{api}: the first conversation goes on");
        for (place, number) in [(2, "iteration 2 of at most 10"), (3, "iteration 3 of at most 10")] {
            for part in [number, "Make ok.txt", "TASK_COMPLETE", "Do not start over"] {
                assert!(sent[place].contains(part), "{api}: {part} is missing in request {place}");
            }
            assert!(
                !sent[place].contains("I look.") && !sent[place].contains("later"),
                "{api}: old words in {place}"
            );
        }
        assert!(
            sent[3].contains("test -f ok.txt") && sent[3].contains("exit code 1"),
            "{api}: why it did not count"
        );
        rig.get(&["store", "verify", &said.id()]);
    }
}

/// The run in a process of its own, killed once `came` is seen among its events.
fn killed_at(rig: &Rig, args: &[&str], came: impl Fn(&Value) -> bool) -> String {
    let mut process: Live = rig.start(args);
    let id = rig.only_run();
    until("the moment to kill", || {
        let said = rig.say(&["events", &id, "--json"]);
        said.out
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .any(|event| came(&event))
            .then_some(())
    });
    process.kill();
    id
}

/// Every iteration once, every look at the work recorded once, and what was spent by each model kept.
fn check_whole(rig: &Rig, id: &str) {
    let shown = rig.show(id);
    assert_eq!((&shown["status"], &shown["iterationCount"]), (&json!("completed"), &json!(2)), "{shown}");
    let started: Vec<Value> =
        rig.events_of(id, "iteration_started").iter().map(|event| event["iteration"].clone()).collect();
    assert_eq!(started, [json!(2), json!(3)]);
    let rounds: Vec<u64> =
        rig.events_of(id, "examined").iter().map(|event| event["round"].as_u64().unwrap()).collect();
    let mut once = rounds.clone();
    once.dedup();
    assert_eq!(rounds, once, "each look is on record once");
    assert_eq!(rig.events_of(id, "agent_stop").len(), 3);
    assert_eq!(rig.read("ok.txt"), "ok\n");
    rig.get(&["store", "verify", id]);
}

/// B3.4: killed while it checks the work, while it sums up an iteration, and between two iterations: the same end, and the
/// counters kept.
#[test]
fn a_loop_is_killed_in_the_middle_of_everything() {
    let slow = SCRIPT.replace("delay_ms: 1", "delay_ms: 1500");
    // The first time it waits to be killed.
    let verify = "touch checking; if [ ! -e killed ]; then sleep 30; fi; test -f ok.txt";
    type Came = fn(&Value) -> bool;
    let moments: [(&str, Came); 4] = [
        ("checking", |event| event["type"] == "examination_started" && event["purpose"]["for"] == "claim"),
        ("summing up", |event| event["type"] == "aside_started"),
        ("between iterations", |event| event["type"] == "iteration_started"),
        ("at the beginning", |event| event["type"] == "examination_started"),
    ];
    for (moment, came) in moments {
        let fake = serve(&slow);
        let rig = Rig::with(&[provider("anthropic", "anthropic", &fake.url(), PRICES)]);
        if moment != "checking" {
            rig.write("killed", "");
        }
        let args = [
            "loop",
            "Make ok.txt",
            "--in-place",
            "--model",
            "anthropic/m",
            "--verify",
            verify,
            "--summarize-with",
            "anthropic/m",
        ];
        let id = killed_at(&rig, &args, came);
        rig.write("killed", "");
        let said = rig.say(&["loop", "--resume", "--run-id", &id]);
        assert_eq!(said.code, 0, "{moment}: {said:?}");
        check_whole(&rig, &id);
        let costs = rig.show(&id)["costByIteration"].as_array().unwrap().len();
        assert_eq!(costs, 3, "{moment}");
    }
}

/// D4.1, D4.4: killed while the conversation is summed up, a run goes on, and every request fits the window.
#[test]
fn a_run_is_killed_in_the_middle_of_a_compaction() {
    let mut script = String::from(
        "conversations:\n  - match: { prompt_contains: \"The conversation so far\" }\n    turns: [ { text: \"We counted.\", delay_ms: 1500, usage: { input: 300, output: 20 } } ]\n  - turns:\n",
    );
    // Results so short that leaving them out would free nothing: only a summary helps.
    for turn in 1..=40 {
        let usage = format!("usage: {{ input: {}, output: 20 }}", 2000 + turn * 120);
        let call = format!("{{ tool: bash, args: {{ command: \"seq {turn} 100\" }} }}");
        script.push_str(&format!("      - {{ calls: [ {call} ], {usage} }}\n"));
    }
    script.push_str("      - text: \"Done.\"\n");
    let fake = serve(&script);
    // The fake provider counts turns by what it is sent, so after a compaction it plays earlier ones again; the end comes all the same.
    let window = format!("{PRICES}\n    context_window: 6000");
    let rig = Rig::with(&[provider("anthropic", "anthropic", &fake.url(), &window)]);
    let args = ["run", "Count", "--in-place", "--model", "anthropic/m", "--max-steps", "40"];
    let id = killed_at(&rig, &args, |event| event["type"] == "aside_started");
    rig.say(&["resume", &id]);
    let events = rig.events(&id);
    let of = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert!(of("compaction_applied") > 0 && of("compaction_summary") > 0);
    assert_eq!(of("checkpoint_restored"), 1);
    assert!(
        ["completed", "paused"].contains(&rig.show(&id)["status"].as_str().unwrap()),
        "it came to rest by itself"
    );
    rig.get(&["store", "verify", &id]);
}
