//! What a model said, written down and played again without it.

use std::os::unix::fs::{FileTypeExt, PermissionsExt, symlink};
use std::process::Command;

use serde_json::Value;

use super::rig::{APIS, Rig, asked, files_below, serve, until};

const WORK: &str = r#"
conversations:
  - turns:
      - text: "I write: \"yes\" # not a comment\n\t- nor a list"
        calls:
          - { tool: write, args: { path: src/a.txt, content: "one: two\n  - three\n" } }
          - { tool: bash, args: { command: "wc -c < src/a.txt; exit 3" } }
        usage: { input: 1000, output: 100, cache_read: 500, cache_write: 20 }
      - text: ""
        calls: [ { tool: edit, args: { path: src/a.txt, old: "two", new: "zwei ☃" } }, { tool: read, args: { path: src/a.txt } } ]
        usage: { input: 2000, output: 10, cache_read: 1500 }
        FAIL
      - text: "All done."
        usage: { input: 10, output: 1 }
"#;

/// What was called with what, and how it ended.
fn calls(rig: &Rig, id: &str) -> Vec<(Value, Value, Value)> {
    let of = |call: &Value| (call["callName"].clone(), call["arguments"].clone(), call["result"].clone());
    rig.calls(id).iter().map(of).collect()
}

/// The agent's files, without ours.
fn work(rig: &Rig) -> Vec<(String, Vec<u8>)> {
    let below = files_below(&rig.path("src"));
    below
        .into_iter()
        .map(|(path, bytes)| (path.file_name().unwrap().to_str().unwrap().to_owned(), bytes))
        .collect()
}

/// Plays the recording in another place, without a network, a key or settings.
fn replays_the_same(rig: &Rig, id: &str) {
    let replay = Rig::new();
    std::fs::copy(rig.path("night.yaml"), replay.path("night.yaml")).unwrap();
    let said = replay.run("scripted/night.yaml", &[]);
    assert_eq!(said.code, 0, "{said:?}");
    assert_eq!(calls(&replay, &said.id()), calls(rig, id));
    assert_eq!(work(&replay), work(rig));
    assert!(!work(rig).is_empty());
    let (first, second) = (rig.show(id), replay.show(&said.id()));
    for field in ["usage", "totalCost", "turnCount", "toolCallCount", "status"] {
        assert_eq!(first[field], second[field], "{field}");
    }
    assert!(first["totalCost"].as_f64().unwrap() > 0.0);
    assert_eq!(replay.get(&["result", &said.id(), "--output"]), rig.get(&["result", id, "--output"]));
}

/// C13.1: a run of any protocol, recorded, is played again by a provider without a network: the same calls, files and cost.
#[test]
fn a_recording_replays_the_run() {
    for api in APIS {
        let fake = serve(&WORK.replace("FAIL", "fail: [ { status: 503 }, { disconnect_after_bytes: 900 } ]"));
        let rig = Rig::with_all(&fake);
        let said = rig.run(&format!("{api}/m"), &["--record", "night.yaml"]);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        assert!(said.err.contains("recorded in"), "{api}: {said:?}");
        let mode = rig.path("night.yaml").metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "what a model said is its owner's alone");
        replays_the_same(&rig, &said.id());
    }
}

/// A call that was refused because its arguments could not be read is refused again, in the same words: it is not made with
/// what was kept of them. Neither is it by who hears the recording over a network.
#[test]
fn a_call_that_could_not_be_read_is_refused_again() {
    let work = r#"
conversations:
  - turns:
      - calls: [ { tool: write, args: { path: src/a.txt, content: "a" } } ]
        usage: { input: 10, output: 1 }
      - calls: [ { tool: bash, args: { command: "touch src/made" } } ]
        fail: [ { fault: malformed_args } ]
        usage: { input: 10, output: 1 }
      - text: "All done."
        usage: { input: 10, output: 1 }
"#;
    for api in APIS {
        let fake = serve(work);
        let rig = Rig::with_all(&fake);
        let said = rig.run(&format!("{api}/m"), &["--record", "night.yaml"]);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        let refused = rig.calls(&said.id())[1]["result"].to_string();
        assert!(refused.contains("the arguments cannot be read: not JSON"), "{api}: {refused}");
        replays_the_same(&rig, &said.id());

        let again = serve(&rig.read("night.yaml"));
        let elsewhere = Rig::with_all(&again);
        let heard = elsewhere.run(&format!("{api}/m"), &[]);
        assert_eq!(heard.code, 0, "{api}: {heard:?}");
        assert_eq!(elsewhere.calls(&heard.id())[1]["result"].to_string(), refused, "{api}");
    }
}

/// A run that was killed is recorded whole by whoever resumes it.
#[test]
fn a_killed_run_is_recorded_whole() {
    for api in APIS {
        let fake = serve(&WORK.replace("FAIL", "fail: [ { stall_ms: 600000 } ]"));
        let rig = Rig::with_all(&fake);
        let model = format!("{api}/m");
        let mut driver = rig.start(&["run", "x", "--in-place", "--model", &model, "--record", "night.yaml"]);
        until("the second turn", || asked(&fake).get(1).cloned());
        driver.kill();
        assert!(!rig.path("night.yaml").exists(), "{api}");
        let id = rig.only_run();
        assert_eq!(rig.get(&["resume", &id, "--record", "night.yaml"]), "All done.\n", "{api}");
        replays_the_same(&rig, &id);
    }
}

/// A place that cannot be written is said before anything is asked.
#[test]
fn a_recording_without_a_place_is_refused() {
    let fake = serve(&WORK.replace("FAIL", ""));
    let rig = Rig::with_all(&fake);
    rig.write("source.rs", "fn main() {}\n");
    let made = Command::new("mkfifo").arg(rig.path("pipe")).status().unwrap();
    assert!(made.success());
    symlink("nowhere", rig.path("loose.yaml")).unwrap();
    symlink("pipe", rig.path("to-pipe.yaml")).unwrap();
    for (file, why) in [
        ("pipe", "no file but a device, a pipe or a socket"),
        ("to-pipe.yaml", "no file but a device, a pipe or a socket"),
        ("loose.yaml", "the link leads nowhere"),
        ("/proc/night.yaml", "nothing can be written there"),
        ("no/such/night.yaml", "no such directory"),
        ("source.rs", "another file already"),
        (".", "a directory"),
    ] {
        let said = rig.run("chat/m", &["--record", file]);
        assert!(said.code == 2 && said.err.contains(why), "{said:?}");
    }
    assert_eq!(rig.read("source.rs"), "fn main() {}\n");
    assert!(rig.path("pipe").symlink_metadata().unwrap().file_type().is_fifo());
    assert_eq!((asked(&fake).len(), rig.runs().len()), (0, 0));
}

/// A link to a recording stays one, and what it leads to is replaced.
#[test]
fn a_recording_goes_where_a_link_leads() {
    let fake = serve(&WORK.replace("FAIL", ""));
    let rig = Rig::with_all(&fake);
    rig.write("real/night.yaml", "");
    symlink("real/night.yaml", rig.path("night.yaml")).unwrap();
    let said = rig.run("chat/m", &["--record", "night.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(rig.path("night.yaml").is_symlink());
    assert!(rig.read("real/night.yaml").contains("All done."), "{said:?}");
}

/// A recording that cannot be written in the end is a warning with its place; the run has ended as it did.
#[test]
fn a_recording_that_fails_does_not_fail_the_run() {
    let fake = serve(&WORK.replace("FAIL", "").replace("wc -c < src/a.txt; exit 3", "mv kept gone"));
    let rig = Rig::with_all(&fake);
    std::fs::create_dir(rig.path("kept")).unwrap();
    let said = rig.run("chat/m", &["--record", "kept/night.yaml"]);
    assert_eq!(said.code, 0, "{said:?}");
    let warned = said.err.lines().find(|line| line.contains("not recorded in")).unwrap_or_default();
    assert!(warned.contains("kept/night.yaml: "), "{said:?}");
    assert_eq!(said.json()["status"], "completed");
}
