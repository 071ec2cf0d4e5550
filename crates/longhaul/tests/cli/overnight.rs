//! Nights of experiments as a user meets them: what is tried, measured and reported, and what a kill leaves.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::desk::{Desk, Said};

/// An experiment's title decides what becomes of it.
const EXPERIMENTS: &str = r#"
  - match: { prompt_contains: "Waits first" }
    turns:
      - { calls: [ { tool: bash, args: { command: "echo x >> begun; while [ -e begun ] && [ ! -e go ]; do sleep 0.05; done; echo 12 > score" } } ], usage: { input: 1000, output: 0 } }
      - when_result_contains: { "outcome unknown": { calls: [ { tool: write, args: { path: score, content: "12\n" } } ] } }
        calls: [ { tool: read, args: { path: score } } ]
      - { text: "Twelve.", usage: { input: 1000, output: 0 } }
  - match: { prompt_contains: "Much better" }
    turns:
      - { calls: [ { tool: write, args: { path: score, content: "15\n" } } ], usage: { input: 1000, output: 0 } }
      - { text: "Fifteen now.", usage: { input: 1000, output: 0 } }
  - match: { prompt_contains: "Cheats" }
    turns:
      - { calls: [ { tool: write, args: { path: score, content: "99\n" } }, { tool: bash, args: { command: "rm ok" } } ], usage: { input: 1000, output: 0 } }
      - { text: "Ninety-nine.", usage: { input: 1000, output: 0 } }
  - match: { prompt_contains: "Does nothing" }
    turns: [ { text: "There is nothing to do.", usage: { input: 1000, output: 0 } } ]
  - match: { prompt_contains: "Breaks" }
    turns: [ { fail: [ { fatal: "the model is broken" } ], text: never } ]
  - match: { prompt_contains: "Never ends" }
    turns: [ { calls: [ { tool: bash, args: { command: "date +%N" } } ], usage: { input: 1000, output: 0 } } ]
  - match: { prompt_contains: "Waits for ever" }
    turns: [ { calls: [ { tool: bash, args: { command: "sleep 0.5; date +%N" } } ], usage: { input: 1000, output: 0 } } ]
"#;

/// A repository whose score is 10, and a planner who has these ideas.
fn desk(titles: &[&str]) -> Desk {
    let ideas: Vec<Value> = titles
        .iter()
        .map(|title| json!({ "title": title, "kind": "other", "description": "Try it." }))
        .collect();
    answering(&json!({ "experiments": ideas }).to_string())
}

fn answering(answer: &str) -> Desk {
    let desk = Desk::with_script("");
    let planner = format!(
        "  - match: {{ agent: planner }}\n    turns: [ {{ text: '{answer}', usage: {{ input: 1000, output: 0 }} }} ]"
    );
    let script = format!("prices: {{ input: 10, output: 10 }}\nconversations:\n{planner}{EXPERIMENTS}");
    desk.write("s.yaml", &script);
    desk.write("score", "10\n");
    desk.write("ok", "");
    desk.write(".gitignore", "s.yaml\nbegun\ngo\nlooked\n.longhaul\n.config\n");
    for args in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "first"]] {
        git(&desk.path(""), args);
    }
    desk
}

fn git(directory: &Path, args: &[&str]) -> String {
    let who = ["-c", "user.name=x", "-c", "user.email=x@x"];
    let done = Command::new("git").args(who).args(args).current_dir(directory).output().unwrap();
    assert!(done.status.success(), "{args:?}: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

const START: [&str; 5] = ["overnight", "start", "Raise the score", "--model", "scripted/s.yaml"];
const MEASURED: [&str; 4] = ["--verify", "test -e ok", "--metric", "cat score"];

fn start(desk: &Desk, more: &[&str]) -> Said {
    desk.say(&[&START[..], &MEASURED[..], more].concat())
}

fn spawned(desk: &Desk, args: &[&str]) -> Child {
    desk.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn killed(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what} never came");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The name of the night, as soon as there is one.
fn begun(desk: &Desk) -> String {
    until("the night", || desk.say(&["overnight", "status"]).code == 0);
    desk.json(&["overnight", "status"])["id"].as_str().unwrap().to_owned()
}

/// Does the n-th experiment stand in the middle of its command?
fn waits(desk: &Desk, night: &str, number: u32) -> bool {
    desk.path(&format!(".longhaul/workspace/run/{night}-{number}/begun")).exists()
}

fn verdicts(night: &Value) -> Vec<&str> {
    let experiments = night["experiments"].as_array().unwrap();
    experiments.iter().map(|experiment| experiment["verdict"]["verdict"].as_str().unwrap()).collect()
}

fn run_of(night: &Value, index: usize) -> String {
    night["experiments"][index]["runId"].as_str().unwrap().to_owned()
}

/// A7.4: what improves is told with evidence and with what to type; what does not pass is out; the checkout is not touched
/// until somebody wants it.
#[test]
fn a_night_ends_with_a_report() {
    let desk = desk(&["Does nothing", "Cheats", "Much better", "Breaks"]);
    let said = start(&desk, &["--experiments", "4"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let night = desk.json(&["overnight", "status"]);
    assert_eq!(verdicts(&night), ["unchanged", "unfinished", "better", "unfinished"], "{night:#}");
    assert_eq!((&night["phase"], &night["ranking"][0]), (&json!("over"), &json!(3)));
    assert_eq!(git(&desk.path(""), &["status", "--porcelain"]), "", "the checkout is as it was");
    let (id, run) = (night["id"].as_str().unwrap(), run_of(&night, 2));
    for words in [
        "# Raise the score",
        "**1 of 4 experiments improved something.**",
        "**Better**: the metric went from 10 to 15, and all checks pass.",
        "- `test -e ok`: exit code 0",
        &format!("`longhaul diff {run}` shows it, `longhaul apply {run}` brings"),
        "It changed no file.",
        "the model is broken",
        "> Fifteen now.",
    ] {
        assert!(said.out.contains(words), "{words}: {}", said.out);
    }
    let report = std::fs::read_to_string(desk.path(&format!(".longhaul/overnight/{id}/report.md"))).unwrap();
    assert_eq!(report.trim_end(), said.out.trim_end());
    assert_eq!(desk.get(&["overnight", "report", id]).trim_end(), report.trim_end());

    // An experiment is a run like any other.
    assert_eq!(desk.get(&["diff", &run, "--name-only"]), "score\n");
    desk.get(&["apply", &run]);
    assert_eq!(std::fs::read_to_string(desk.path("score")).unwrap(), "15\n");
    let again = desk.say(&["overnight", "resume", id]);
    assert_eq!((again.code, again.out.trim_end()), (0, report.trim_end()), "nothing is done twice");
    assert!(desk.get(&["overnight", "list"]).contains("1/4"));
}

/// A7.4: after kill -9 in the middle of an experiment nobody is asked for ideas again, the experiment goes on in the run it had,
/// and the report is written. Meanwhile no second process gets in.
#[test]
fn a_killed_night_goes_on_where_it_was() {
    let desk = desk(&["Waits first", "Much better"]);
    let child = spawned(&desk, &[&START[..], &MEASURED[..]].concat());
    let id = begun(&desk);
    until("the experiment", || waits(&desk, &id, 1));
    let night = desk.json(&["overnight", "status"]);
    assert_eq!((&night["phase"], &night["underWay"]), (&json!("experiments"), &json!(true)));
    for args in [&["overnight", "resume", &id][..], &START[..]] {
        let second = desk.say(args);
        assert!(second.code == 7 && second.err.contains(&id), "{}", second.err);
    }
    killed(child);
    let refused = start(&desk, &[]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains(&format!("`longhaul overnight resume {id}` goes on")), "{}", refused.err);

    let prepared = desk.events(&format!("{id}-p1"));
    let said = desk.say(&["overnight", "resume", &id]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(desk.events(&format!("{id}-p1")), prepared, "nobody thought of experiments again");
    let night = desk.json(&["overnight", "status", &id]);
    assert_eq!(
        (verdicts(&night), &night["ranking"]),
        (vec!["better", "better"], &json!([2, 1])),
        "{night:#}"
    );
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 3, "a run for the ideas, and one for each");
    assert!(said.out.contains("the metric went from 10 to 15"), "{}", said.out);
}

/// AQ7: a night over many restarts, killed in every phase, ends like one that was never killed; every run of it is begun once.
#[test]
fn a_night_outlives_restarts() {
    let titles = ["Much better", "Does nothing", "Waits first"];
    let calm = desk(&titles);
    calm.write("go", "");
    git(&calm.path(""), &["add", "--force", "go"]);
    git(&calm.path(""), &["commit", "-q", "-m", "nobody has to wait"]);
    assert_eq!(start(&calm, &[]).code, 0);
    let expected = calm.json(&["overnight", "status"]);

    let desk = desk(&titles);
    // The metric is slow, so that a kill finds the base and the experiments being measured.
    let metric = format!("echo x >> {}; sleep 0.3; cat score", desk.path("looked").display());
    let order = [&START[..], &["--verify", "test -e ok", "--metric", &metric]].concat();
    let looks = || std::fs::read_to_string(desk.path("looked")).unwrap_or_default().lines().count();
    let child = spawned(&desk, &order);
    let id = begun(&desk);
    killed(child);
    let resume = ["overnight", "resume", &id];
    let child = spawned(&desk, &resume);
    until("a look at the base", || looks() >= 1);
    killed(child);
    let child = spawned(&desk, &resume);
    until("the third experiment", || waits(&desk, &id, 3));
    killed(child);
    let before = looks();
    let child = spawned(&desk, &resume);
    until("a look at an experiment", || looks() > before);
    killed(child);
    let said = desk.say(&resume);
    assert_eq!(said.code, 0, "{}", said.err);

    let night = desk.json(&["overnight", "status", &id]);
    assert_eq!(verdicts(&night), ["better", "unchanged", "better"], "{night:#}");
    for same in ["phase", "ranking", "misfits"] {
        assert_eq!(night[same], expected[same]);
    }
    assert_eq!(verdicts(&night), verdicts(&expected));
    let runs = desk.json(&["list"]);
    assert_eq!(runs.as_array().unwrap().len(), 4, "{runs:#}");
    for run in runs.as_array().unwrap() {
        let events = desk.events(run["id"].as_str().unwrap());
        let created = events.iter().filter(|event| event["type"] == events[0]["type"]).count();
        assert_eq!((created, &run["status"]), (1, &json!("completed")));
    }
    assert!(desk.path(&format!(".longhaul/overnight/{id}/report.md")).exists());
}

/// A7.4: money is shared evenly over what is left; an experiment that reaches its share is over, and what others did not need
/// is given on.
#[test]
fn money_is_shared() {
    let desk = desk(&["Never ends", "Much better"]);
    // A turn costs one cent: 10 cents are 3.33 for the ideas, of which 1 is used, then 4.5, then what is left.
    let said = start(&desk, &["--experiments", "2", "--max-cost", "0.1"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let night = desk.json(&["overnight", "status"]);
    assert_eq!(verdicts(&night), ["unfinished", "better"], "{night:#}");
    let limit = |run: &str| desk.json(&["show", run])["limits"]["maxCost"].as_f64();
    let first = limit(&run_of(&night, 0)).unwrap();
    assert!((first - 0.045).abs() < 1e-6, "{first}");
    let spent = night["spent"]["cost"].as_f64().unwrap();
    assert!((0.04..=0.1).contains(&spent), "{spent}");
    let second = limit(&run_of(&night, 1)).unwrap();
    let of_first = night["experiments"][0]["outcome"]["spent"]["cost"].as_f64().unwrap();
    assert!((second - (0.1 - 0.01 - of_first)).abs() < 1e-6, "{second}");
    assert!(said.out.contains("It was not finished: it reached a limit"), "{}", said.out);
}

/// A7.4: a night in which money or time cut every experiment short says so with exit code 4.
#[test]
fn a_night_that_finishes_nothing_for_want_of_means_says_so() {
    // Of the time the planner gets a half before there is an experiment: ten seconds, also where much else is running.
    let cases = [
        (vec!["Never ends", "Never ends either"], "--max-cost", "0.1"),
        (vec!["Waits for ever"], "--timeout", "20s"),
    ];
    for (titles, means, given) in cases {
        let desk = desk(&titles);
        let said = start(&desk, &["--experiments", &titles.len().to_string(), means, given]);
        assert_eq!(said.code, 4, "{means}: {}", said.err);
        assert!(said.out.contains("It was not finished: it reached a limit"), "{means}: {}", said.out);
    }
}

/// A7.4, A7.5: with a gate before every run the night waits with exit code 3, asks about all experiments at once, and goes on.
#[test]
fn a_night_waits_for_a_person() {
    let desk = desk(&["Much better", "Does nothing"]);
    let approve_all = || {
        let gates = desk.json(&["approvals", "list"]);
        let gates: Vec<String> =
            gates.as_array().unwrap().iter().map(|gate| gate["id"].as_str().unwrap().to_owned()).collect();
        gates.iter().for_each(|gate| drop(desk.get(&["approve", gate])));
        gates.len()
    };
    let said = start(&desk, &["--autonomy", "2"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert_eq!(approve_all(), 1, "whether to look for ideas");
    let night = desk.json(&["overnight", "status"]);
    let id = night["id"].as_str().unwrap();
    let said = desk.say(&["overnight", "resume", id]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.err.contains("longhaul approvals"), "{}", said.err);
    assert_eq!(approve_all(), 2, "both experiments");
    let said = desk.say(&["overnight", "resume", id]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(verdicts(&desk.json(&["overnight", "status"])), ["better", "unchanged"]);
}

/// A list of ideas that is none is asked for once more, then the night is given up, and says so.
#[test]
fn ideas_are_asked_for_twice() {
    let desk = answering("I have no ideas.");
    let said = start(&desk, &[]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.out.contains("The night was given up: the planner gave no list of experiments"),
        "{}",
        said.out
    );
    assert!(said.out.contains("cost $0.0200"), "both answers were paid for: {}", said.out);
    let runs = desk.json(&["list"]);
    assert_eq!(runs.as_array().unwrap().len(), 2, "{runs:#}");
    assert!(desk.get(&["overnight", "list"]).contains("given up"));
    let second = runs.as_array().unwrap().iter().find(|run| run["id"].as_str().unwrap().ends_with("-p2"));
    let told = desk.get(&["prompt", second.unwrap()["id"].as_str().unwrap()]);
    assert!(told.contains("there is no JSON object in it"), "{told}");
}

/// A metric that says nothing of the repository as it is ends the night before an experiment is paid for.
#[test]
fn a_metric_that_is_none_ends_the_night() {
    let desk = desk(&["Much better"]);
    let said = desk.say(&[&START[..], &["--metric", "echo none"]].concat());
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.out.contains("printed is no number, without any experiment"), "{}", said.out);
    assert_eq!(desk.json(&["list"]).as_array().unwrap().len(), 1);
}

/// What somebody has put away before it was measured keeps the others from nothing; a night without time does nothing.
#[test]
fn a_night_gets_over_what_is_missing() {
    let desk = desk(&["Much better", "Does nothing", "Waits first"]);
    let child = spawned(&desk, &[&START[..], &MEASURED[..]].concat());
    let id = begun(&desk);
    until("the third experiment", || waits(&desk, &id, 3));
    killed(child);
    desk.get(&["rm", &format!("{id}-1")]);
    let said = desk.say(&["overnight", "resume", &id]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(verdicts(&desk.json(&["overnight", "status"])), ["unfinished", "unchanged", "better"]);
    assert!(said.out.contains("It was not finished: its files are gone"), "{}", said.out);

    let said = start(&desk, &["--timeout", "1ms"]);
    assert_eq!(said.code, 4, "{}", said.err);
    assert!(said.out.contains("the night's time is used up"), "{}", said.out);
}

/// Bad input: exit code 2, what is wrong, and nothing is made.
#[test]
fn a_wrong_night_is_refused() {
    let desk = desk(&["Much better"]);
    for (more, why) in [
        (&["--experiments", "0"][..], "--experiments is 1 to 50, not 0"),
        (&["--experiments", "51"], "--experiments is 1 to 50, not 51"),
        (&["--max-cost", "-1"], "--max-cost -1 is not an amount of dollars"),
        (&["--max-cost", "0"], "--max-cost 0 is not an amount of dollars"),
        (&["--agent", "codr"], "there is no agent `codr`; did you mean `coder`?"),
        (&["--autonomy", "9"], "--autonomy is 1 to 5, not 9"),
        (&["--verify", " "], "--verify and --metric need a command"),
        (&["--model", "nobody/x"], "nobody"),
        (&["--minimize"], "--metric"),
        (&["--timeout", "soon"], "is not a duration"),
    ] {
        let said = desk.say(&[&START[..], more].concat());
        assert!(said.code == 2 && said.err.contains(why), "{more:?}: {} {}", said.code, said.err);
    }
    assert!(!desk.path(".longhaul/overnight").exists(), "nothing was made");
    for args in [&["overnight", "report"][..], &["overnight", "status"], &["overnight", "resume", "night_x"]]
    {
        assert_eq!(desk.say(args).code, 2, "{args:?}");
    }
    let elsewhere = Desk::new();
    let said = elsewhere.say(&START);
    assert!(said.code == 2 && said.err.contains("there is no git repository"), "{}", said.err);
}
