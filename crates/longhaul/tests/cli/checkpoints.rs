//! Going back to a checkpoint: what is cut, what is kept, what is said, and what is refused.

use longhaul_core::ids::RunId;
use longhaul_core::time::Timestamp;
use longhaul_store::{Engine, Entry, Store, Writer};
use serde_json::json;

use super::desk::Desk;

const PLAN: &str = "steps:
- { id: a, description: first }
- { id: b, description: second, dependencies: [a] }
- { id: c, description: third, dependencies: [b] }
";

/// A completed run of three steps, each with a write and a command.
fn three_steps(more: &[&str]) -> (Desk, String) {
    let desk = Desk::new();
    desk.write("plan.yaml", PLAN);
    let args = [&["run", "x", "--plan", "plan.yaml", "--model", "scripted/s.yaml"], more].concat();
    let id = desk.json(&args)["id"].as_str().unwrap().to_owned();
    (desk, id)
}

pub fn open(desk: &Desk, id: &str) -> Box<dyn longhaul_store::Journal> {
    let writer = Writer { pid: std::process::id(), host: "test".to_owned(), at: Timestamp::from_millis(0) };
    let engine = Engine::new(&desk.path(".longhaul"));
    engine.open(&RunId::parse(id).unwrap(), &writer, &mut |_| Ok(())).unwrap()
}

/// AE8: checkpoints are listed with number, event, time and step.
#[test]
fn checkpoints_have_a_list_of_their_own() {
    let (desk, id) = three_steps(&[]);
    let points = desk.json(&["checkpoints", &id]);
    let listed: Vec<_> =
        points.as_array().unwrap().iter().map(|point| (&point["number"], &point["stepId"])).collect();
    assert_eq!(listed, [(&json!(1), &json!("a")), (&json!(2), &json!("b")), (&json!(3), &json!("c"))]);
    for (point, event) in points
        .as_array()
        .unwrap()
        .iter()
        .zip(desk.events(&id).iter().filter(|event| event["type"] == "checkpoint"))
    {
        assert_eq!((&point["seq"], &point["at"]), (&event["seq"], &event["at"]));
    }
    assert!(desk.get(&["checkpoints", &id]).starts_with("CHECKPOINT"));
}

/// AE8: a run, also one that has completed, goes back to an older checkpoint and on from there; what falls away is named,
/// the old journal is kept whole, and everything derived says the same as the new one.
#[test]
fn a_run_goes_back_and_on() {
    let (desk, id) = three_steps(&[]);
    let (old, old_events) = (std::fs::read(desk.journal(&id)).unwrap(), desk.events(&id));
    let said = desk.say(&["resume", &id, "--checkpoint", "1"]);
    assert_eq!((said.out.as_str(), said.code), ("All done.\n", 0), "{}", said.err);
    let seq = old_events.iter().find(|event| event["type"] == "checkpoint").unwrap()["seq"].as_u64().unwrap();
    assert!(said.err.contains(&format!("goes back to checkpoint 1 (event {seq})")), "{}", said.err);
    assert!(said.err.contains("4 calls since") && said.err.contains("NOT undone"), "{}", said.err);
    assert!(said.err.contains("write call_3, bash call_4, write call_5, bash call_6"), "{}", said.err);
    let events = desk.events(&id);
    assert_eq!(events[..seq as usize], old_events[..seq as usize], "nothing before it was touched");
    // What was spent since comes first, then the run goes on.
    let spent = events.iter().find(|event| event["type"] == "spent_before").unwrap();
    let kept = spent["seq"].as_u64().unwrap() as usize - 1;
    assert_eq!(events[kept + 1]["type"], "checkpoint_restored");
    assert!(said.err.contains(&format!("{} events fall away", old_events.len() - kept)), "{}", said.err);
    assert_eq!(events[..kept], old_events[..kept], "the decision that made the checkpoint is kept whole");
    let aside = desk.journal(&id).with_file_name("journal.taken-back-1");
    assert_eq!(std::fs::read(aside).unwrap(), old, "nothing is lost");
    let log = std::fs::read_to_string(desk.journal(&id).with_file_name("events.jsonl")).unwrap();
    let logged: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(logged == events, "the log tells the same story");
    let shown = desk.json(&["show", &id]);
    assert_eq!((&shown["status"], &shown["checkpointCount"]), (&json!("completed"), &json!(3)));
    assert_eq!((&shown["toolCallCount"], &desk.json(&["list"])[0]["toolCallCount"]), (&json!(6), &json!(6)));
    assert_eq!(desk.say(&["store", "verify", &id]).code, 0);
}

/// AE8: a journal damaged after a checkpoint: resume errs with file and offset and names the newest sound checkpoint,
/// which can be chosen; a later one cannot.
#[test]
fn an_older_checkpoint_is_chosen_when_the_newest_is_damaged() {
    let (desk, id) = three_steps(&[]);
    let path = desk.journal(&id);
    let mut bytes = std::fs::read(&path).unwrap();
    let place = bytes.len() - 30;
    bytes[place] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let said = desk.say(&["resume", &id]);
    let named = said.err.contains("/journal`") && said.err.contains("damaged at byte");
    assert!(said.code == 1 && named, "{}", said.err);
    assert!(said.err.contains(&format!("`longhaul resume {id} --checkpoint 2`")), "{}", said.err);
    assert!(said.err.contains("store repair"), "{}", said.err);
    let listed = desk.say(&["checkpoints", &id, "--json"]);
    let points: serde_json::Value = serde_json::from_str(&listed.out).unwrap();
    assert!(
        points.as_array().unwrap().len() == 2 && listed.err.contains("damaged at byte"),
        "{}",
        listed.err
    );
    let refused = desk.say(&["resume", &id, "--checkpoint", "3"]);
    assert!(refused.code == 2 && refused.err.contains("it has 1, 2"), "{}", refused.err);
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "nothing was changed so far");
    let said = desk.say(&["resume", &id, "--checkpoint", "2"]);
    assert_eq!((said.out.as_str(), said.code), ("All done.\n", 0), "{}", said.err);
    assert!(said.err.contains("all that could not be read fall away"), "{}", said.err);
    assert_eq!(std::fs::read(path.with_file_name("journal.taken-back-1")).unwrap(), bytes);
    assert_eq!(desk.say(&["store", "verify", &id]).code, 0);
}

/// AE8: what cannot be gone back to is refused by name, and not one byte is changed.
#[test]
fn a_way_back_that_is_none_changes_nothing() {
    let (desk, id) = three_steps(&[]);
    let before = std::fs::read(desk.journal(&id)).unwrap();
    for (number, named) in [("9", "no checkpoint 9"), ("9", "it has 1, 2, 3"), ("3", "had completed")] {
        let said = desk.say(&["resume", &id, "--checkpoint", number]);
        assert!(said.code == 2 && said.err.contains(named), "{}", said.err);
    }
    let held = open(&desk, &id);
    let said = desk.say(&["start", &id, "--checkpoint", "1"]);
    assert!(said.code == 7 && said.err.contains("is held by process"), "{}", said.err);
    drop(held);
    assert_eq!(std::fs::read(desk.journal(&id)).unwrap(), before);
    let (desk, id) = three_steps(&["--engine", "off"]);
    let said = desk.say(&["resume", &id, "--checkpoint", "1"]);
    assert!(said.code == 2 && said.err.contains("fallback database"), "{}", said.err);
    assert_eq!(desk.json(&["show", &id])["status"], "completed");
}

/// AE8: events of an unknown version bar the way on, not the way back.
#[test]
fn newer_events_can_be_gone_back_from() {
    let desk = Desk::new();
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let id = shown["id"].as_str().unwrap();
    let mut journal = open(&desk, id);
    let strange = Entry { at: Timestamp::from_millis(0), kind: 900, version: 7, payload: vec![1, 2, 3] };
    journal.append(&[strange]).unwrap();
    journal.close().unwrap();
    let refused = desk.say(&["resume", id]);
    assert!(refused.code == 1 && refused.err.contains("version 7"), "{}", refused.err);
    assert!(refused.err.contains("--checkpoint 1"), "{}", refused.err);
    let said = desk.say(&["resume", id, "--checkpoint", "1", "--max-steps", "9"]);
    assert_eq!((said.out.as_str(), said.code), ("All done.\n", 0), "{}", said.err);
}

/// AE8: a run that stands at the checkpoint simply goes on; nothing is put aside.
#[test]
fn the_newest_checkpoint_may_be_where_the_run_stands() {
    let desk = Desk::new();
    let said = desk.say(&["run", "x", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let id = shown["id"].as_str().unwrap();
    let said = desk.say(&["resume", id, "--checkpoint", "1", "--max-steps", "9"]);
    assert!(said.out == "All done.\n" && said.err.contains("stands at checkpoint 1 already"), "{}", said.err);
    assert!(!desk.journal(id).with_file_name("journal.taken-back-1").exists());
}

/// AE8: an import writes its whole history as one batch; it can be gone back in all the same.
#[test]
fn an_imported_run_goes_back_too() {
    let (desk, id) = three_steps(&[]);
    let export = desk.command(&["store", "export", &id, "--format", "bin"]).output().unwrap().stdout;
    std::fs::write(desk.path("run.bin"), export).unwrap();
    desk.get(&["store", "import", "run.bin", "--as", "run_copy"]);
    let said = desk.say(&["resume", "run_copy", "--checkpoint", "1"]);
    assert_eq!((said.out.as_str(), said.code), ("All done.\n", 0), "{}", said.err);
    // Decisions of the same millisecond are kept together, so where exactly it goes on depends on the disk.
    assert!(said.err.contains("NOT undone") && said.err.contains("bash call_6"), "{}", said.err);
    assert_eq!(desk.say(&["store", "verify", "run_copy"]).code, 0);
}
