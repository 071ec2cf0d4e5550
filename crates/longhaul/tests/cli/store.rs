//! The store seen from outside: checkpoints, fallback, damage, newer events.

use longhaul_core::ids::RunId;
use longhaul_core::time::Timestamp;
use longhaul_store::{Engine, Entry, Store, Writer};
use serde_json::{Value, json};

use super::desk::Desk;

fn writer() -> Writer {
    Writer { pid: std::process::id(), host: "test".to_owned(), at: Timestamp::from_millis(0) }
}

/// A2.1: a run of two steps has two checkpoints in the engine.
#[test]
fn checkpoints_are_listed() {
    let desk = Desk::new();
    desk.write(
        "plan.yaml",
        "steps:\n- { id: a, description: first }\n- { id: b, description: second, dependencies: [a] }\n",
    );
    let shown = desk.json(&["run", "x", "--plan", "plan.yaml", "--model", "scripted/s.yaml"]);
    let id = shown["id"].as_str().unwrap();
    let points = desk.json(&["store", "list", id]);
    assert_eq!(points.as_array().unwrap().len(), 2);
    assert_eq!((&points[1]["number"], &points[1]["backend"]), (&json!(2), &json!("engine")));
    assert_eq!(desk.json(&["store", "list"])[0]["backend"], "engine");
}

/// AE1: a fallback that cannot be read is said, by name and with what can be done; everything of the engine's goes on.
#[test]
fn a_damaged_fallback_is_said_and_in_nobodys_way() {
    let desk = Desk::new();
    let id = desk.completed();
    std::fs::write(desk.path(".longhaul/fallback.db"), [7; 5000]).unwrap();
    for args in
        [&["list"][..], &["show", &id], &["store", "status"], &["run", "x", "--model", "scripted/s.yaml"]]
    {
        let said = desk.say(args);
        assert_eq!(said.code, 0, "{args:?}: {}", said.err);
        let warning = "warning: runs in the fallback store are not shown: ";
        assert_eq!(said.err.matches(warning).count(), 1, "{args:?}: {}", said.err);
        assert!(said.err.contains("fallback.db") && said.err.contains("move that file away"), "{}", said.err);
    }
    let said = desk.say(&["store", "verify"]);
    assert_eq!(said.code, 1);
    assert!(said.out.contains(&format!("{id} is sound")), "{}", said.out);
    assert!(said.out.contains("fallback.db is damaged"), "{}", said.out);
    let said = desk.say(&["doctor", "--json"]);
    let found: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let found = found.as_array().unwrap().iter().find(|finding| finding["check"] == "fallback").unwrap();
    assert_eq!((said.code, &found["state"]), (1, &json!("bad")));
    std::fs::remove_file(desk.path(".longhaul/fallback.db")).unwrap();
    assert_eq!(desk.say(&["list"]).err, "");
}

/// A2.4, AD2, AE1, AQ3: with the engine's directory unusable the fallback keeps the run, with one warning; once it can
/// be used again the run moves back and nothing is lost.
#[test]
fn the_fallback_takes_over_and_gives_back() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path(".longhaul")).unwrap();
    desk.write(".longhaul/runs", "in the way");
    let said =
        desk.say(&["run", "x", "--in-place", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    assert_eq!(said.code, 4, "{}", said.err);
    assert_eq!(said.err.matches("warning: kept in the fallback store: ").count(), 1, "{}", said.err);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let id = shown["id"].as_str().unwrap();
    assert_eq!(desk.json(&["store", "list", id])[0]["backend"], "sqlite");
    let warnings =
        |desk: &Desk| desk.events(id).iter().filter(|event| event["type"] == "persistence_fallback").count();
    assert_eq!(warnings(&desk), 1);
    let doctor = desk.json(&["doctor"]);
    assert_eq!(
        (&doctor[0]["state"], doctor[0]["detail"].as_str().unwrap().contains("fallback")),
        (&json!("warning"), true)
    );
    assert_eq!(desk.say(&["resume", id]).code, 4);
    assert_eq!(warnings(&desk), 1, "said once");
    let events = desk.events(id);
    std::fs::remove_file(desk.path(".longhaul/runs")).unwrap();
    assert_eq!(desk.get(&["resume", id, "--max-steps", "9"]), "All done.\n");
    assert_eq!(desk.json(&["store", "list"])[0]["backend"], "engine");
    assert_eq!(desk.events(id)[..events.len()], events[..], "nothing was lost on the way");
}

/// AE8, F06: a flipped bit is named with file and offset, other runs are listed, and repair keeps what is sound.
#[test]
fn damage_is_named_and_can_be_repaired() {
    let desk = Desk::new();
    let (broken, whole) = (desk.completed(), desk.completed());
    let path = desk.journal(&broken);
    let mut bytes = std::fs::read(&path).unwrap();
    // Past the first batch, which holds the run itself and cannot be done without.
    let place = bytes.len() - 300;
    bytes[place] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    for args in [vec!["show", &broken], vec!["resume", &broken], vec!["events", &broken]] {
        let said = desk.say(&args);
        let named = said.err.contains("journal") && said.err.contains("offset") || said.err.contains("byte");
        assert!(
            said.code == 1 && named && said.err.contains(&format!("store repair {broken}")),
            "{}",
            said.err
        );
    }
    assert_eq!(std::fs::read(&path).unwrap(), bytes, "looking changes nothing");
    assert_eq!(desk.say(&["store", "verify", &whole]).code, 0);
    let verdict = desk.say(&["store", "verify"]);
    assert!(verdict.code == 1 && verdict.out.contains("damaged"), "{}", verdict.out);
    let repaired = desk.say(&["store", "repair", &broken]);
    assert!(repaired.code == 0 && repaired.err.contains("journal.damaged-1"), "{}", repaired.err);
    assert_eq!(desk.say(&["store", "verify", &broken]).code, 0);
    let shown = desk.json(&["show", &broken]);
    assert_ne!(shown["status"], "completed", "the end was in the cut part");
    let listed = desk.json(&["list", "--status", shown["status"].as_str().unwrap()]);
    assert_eq!(listed[0]["id"], json!(broken), "the list says the same");
    assert_eq!(desk.say(&["resume", &broken]).code, 0);
}

/// What is done once is not repeated in silence: who repairs is told how much is lost, and which calls that was, also if only the
/// journal is left to say it; what could not be read is not passed over.
#[test]
fn a_repair_tells_which_calls_are_forgotten() {
    for with_log in [true, false] {
        let desk = Desk::new();
        let id = desk.completed();
        let path = desk.journal(&id);
        let events = desk.events(&id);
        let started = |tool: &str| {
            let is_it = |event: &&Value| event["type"] == "tool_started" && event["toolName"] == tool;
            events.iter().find(is_it).unwrap()["seq"].as_u64().unwrap()
        };
        let mut bytes = std::fs::read(&path).unwrap();
        // Batches lie end to end but for the last byte of each sector.
        let content: Vec<u8> =
            bytes.chunks(512).flat_map(|sector| &sector[..sector.len().min(511)]).copied().collect();
        let first_seq = |at: usize| u64::from_le_bytes(content[at + 8..at + 16].try_into().unwrap());
        let mut batches = (0..content.len() - 16).filter(|at| content[*at..].starts_with(MARK));
        // The one after the write was begun has its result, and all that follows from it.
        let batch = batches.find(|at| first_seq(*at) > started("write")).unwrap();
        let (place, kept) = (batch + 45 + (batch + 45) / 511, first_seq(batch) - 1);
        bytes[place] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        if !with_log {
            std::fs::remove_file(path.with_file_name("events.jsonl")).unwrap();
        }
        let said = desk.say(&["store", "repair", &id, "--json"]);
        assert_eq!(said.code, 0, "{}", said.err);
        let lost = events.len() as u64 - kept;
        let repaired: Value = serde_json::from_str(&said.out).unwrap();
        let calls = if with_log { json!(["bash call_2"]) } else { json!(["call_2"]) };
        let found =
            (&repaired["records"], &repaired["lostRecords"], &repaired["lostCalls"], &repaired["lostMore"]);
        assert_eq!(found, (&json!(kept), &json!(lost), &calls, &json!(!with_log)), "{}", said.err);
        let more = if with_log { "" } else { " and all that could not be read" };
        let warning = format!("warning: {id} goes back to event {kept}: {lost} events{more} are lost\n");
        assert!(said.err.contains(&warning), "{}", said.err);
        let named = format!("NOT undone, and the agent does not know of it: {}", calls[0].as_str().unwrap());
        assert!(said.err.contains("warning: what 1 calls since did to files"), "{}", said.err);
        assert!(said.err.contains(&named), "{}", said.err);
        assert_eq!(said.err.contains("and perhaps others"), !with_log, "{}", said.err);
    }
}

/// The first bytes of every batch.
const MARK: &[u8] = &[0xF5, 0x4C, 0x48, 0x5F];

/// F04: a torn tail is cut by the next writer, with one warning; the prefix is kept.
#[test]
fn a_torn_tail_is_cut() {
    let desk = Desk::new();
    let said =
        desk.say(&["run", "x", "--in-place", "--model", "scripted/s.yaml", "--max-steps", "1", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let id = shown["id"].as_str().unwrap();
    let path = desk.journal(id);
    let bytes = std::fs::read(&path).unwrap();
    // After its last write a journal has zeros in reserve.
    let written = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    std::fs::write(&path, &bytes[..written - 3]).unwrap();
    let cut =
        |desk: &Desk| desk.events(id).into_iter().filter(|event| event["type"] == "torn_tail_cut").count();
    let resumed = desk.say(&["resume", id, "--max-steps", "1"]);
    assert_eq!(resumed.err.matches("bytes of a write that was never finished; they were cut off").count(), 1);
    assert_eq!(cut(&desk), 1);
    let resumed = desk.say(&["resume", id, "--max-steps", "9"]);
    assert_eq!((resumed.code, resumed.out.as_str()), (0, "All done.\n"));
    assert!(!resumed.err.contains("never finished"), "{}", resumed.err);
    assert_eq!(cut(&desk), 1, "said once");
    assert_eq!(desk.say(&["store", "verify", id]).code, 0);
}

/// F19: events of a newer longhaul can be looked past but not written after; the journal stays byte for byte.
#[test]
fn newer_events_are_read_past_but_not_written_after() {
    let desk = Desk::new();
    let id = desk.create();
    let run = RunId::parse(&id).unwrap();
    let engine = Engine::new(&desk.path(".longhaul"));
    let mut journal = engine.open(&run, &writer(), &mut |_| Ok(())).unwrap();
    let strange = Entry { at: Timestamp::from_millis(0), kind: 900, version: 7, payload: vec![1, 2, 3] };
    journal.append(&[strange]).unwrap();
    journal.close().unwrap();
    let before = std::fs::read(desk.journal(&id)).unwrap();
    let shown = desk.say(&["show", &id]);
    assert!(shown.code == 0 && shown.err.contains("newer longhaul"), "{}", shown.err);
    let refused = desk.say(&["start", &id]);
    assert!(refused.code == 1 && refused.err.contains("version 7"), "{}", refused.err);
    assert_eq!(desk.say(&["pause", &id]).code, 1);
    let after = std::fs::read(desk.journal(&id)).unwrap();
    assert_eq!(after, before);
}

/// A10.2: what an update costs does not grow with history.
#[test]
fn updates_cost_the_same_late_as_early() {
    let turn = |offset: u32| {
        format!("{{ calls: [ {{ tool: read, args: {{ path: many, offset: {offset}, limit: 1 }} }} ] }}, ")
    };
    let turns: String = (100..220).map(turn).collect();
    let desk = Desk::with_script(&format!("conversations: [ {{ turns: [ {turns} {{ text: ok }} ] }} ]"));
    desk.write("many", &"a line\n".repeat(300));
    let shown =
        desk.json(&["run", "x", "--in-place", "--model", "scripted/s.yaml", "--max-tool-calls", "500"]);
    let stats = desk.json(&["store", "stats", shown["id"].as_str().unwrap()]);
    let (first, last) =
        (stats["bytesPerUpdateFirst100"].as_u64().unwrap(), stats["bytesPerUpdateLast100"].as_u64().unwrap());
    assert!(last * 10 <= first * 11, "{stats}");
}

/// A2.5: the versions of document and events are printed, and what this build supports.
#[test]
fn inspect_names_the_versions() {
    let desk = Desk::new();
    let id = desk.completed();
    let inspected = desk.json(&["store", "inspect", &id]);
    assert_eq!(
        (&inspected["schemaVersion"], &inspected["eventVersion"], &inspected["readable"]),
        (&json!(1), &json!(2), &json!(true))
    );
    // A person reads names and units.
    let (inspected, stats) = (desk.get(&["store", "inspect", &id]), desk.get(&["store", "stats", &id]));
    assert!(inspected.contains("tool_started") && !inspected.contains("kind "), "{inspected}");
    assert!(stats.contains("on disk") && !stats.contains('{'), "{stats}");
}

/// F19: a journal of a newer format is not called damaged.
#[test]
fn a_newer_journal_is_not_damaged() {
    let desk = Desk::new();
    let id = desk.create();
    let path = desk.journal(&id);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8..12].copy_from_slice(&9u32.to_le_bytes());
    let checksum = crc32c(&bytes[..92]);
    bytes[92..96].copy_from_slice(&checksum.to_le_bytes());
    std::fs::write(&path, &bytes).unwrap();
    let said = desk.say(&["store", "verify", &id]);
    assert!(said.code == 1 && !said.out.contains("damaged"), "{}", said.out);
    assert!(
        said.out.contains("format version 9") && said.out.contains("use a newer longhaul"),
        "{}",
        said.out
    );
}

fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1));
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

/// AI2, AI11: a run that is not to be kept in the engine is kept in SQLite for good, without a warning, and completes there.
#[test]
fn a_run_can_be_kept_out_of_the_engine() {
    let desk = Desk::new();
    let shown = desk.json(&["run", "x", "--model", "scripted/s.yaml", "--engine", "off"]);
    let id = shown["id"].as_str().unwrap();
    assert_eq!((&shown["status"], &shown["engineEnabled"]), (&json!("completed"), &json!(false)));
    assert_eq!(desk.json(&["store", "list", id])[0]["backend"], "sqlite");
    assert!(!desk.events(id).iter().any(|event| event["type"] == "persistence_fallback"));
    desk.get(&["store", "delete", id]);
    assert!(desk.say(&["show", id]).err.contains("not in the store"));
}

/// AE9: what is derived (catalogue, event log) may fail to be written: that is said once for each, the run goes on and
/// completes, and nothing is lost.
#[test]
fn derived_files_may_fail() {
    let desk = Desk::new();
    let id = desk.create();
    std::fs::remove_file(desk.path(".longhaul/catalog.db")).unwrap();
    for name in ["catalog.db", "catalog.db/x", &format!("runs/{id}/events.jsonl")] {
        std::fs::create_dir(desk.path(".longhaul").join(name)).unwrap();
    }
    let said = desk.say(&["start", &id]);
    assert_eq!((said.code, said.out.as_str()), (0, "All done.\n"), "{}", said.err);
    for name in ["catalog.db", "events.jsonl"] {
        let warnings = said.err.lines().filter(|line| line.contains(&format!("{name} cannot be written: ")));
        assert_eq!(warnings.count(), 1, "{}", said.err);
    }
    let events = desk.events(&id);
    let failed = events.iter().filter(|event| event["type"] == "derived_write_failed");
    assert!(failed.clone().all(|event| event["level"] == "warn" && event["reason"].as_str().unwrap() != ""));
    assert_eq!(failed.count(), 2);
    let doctor = desk.json(&["doctor"]);
    let found = doctor.as_array().unwrap().iter().find(|finding| finding["check"] == "catalogue");
    assert_eq!(found.unwrap()["state"], "warning");
    assert_eq!(desk.json(&["show", &id])["status"], "completed");
    assert_eq!(desk.json(&["list"])[0]["status"], "completed", "the list is made from the journals");
}

/// A71: a state directory that came with the repository is not believed: not its runs, not its accepted servers. The user's
/// own word makes it theirs; one outside of the project is theirs because they named it.
#[test]
fn a_strangers_state_directory_is_refused() {
    let desk = Desk::new();
    let home = tempfile::tempdir().unwrap();
    let id = desk.create();
    let elsewhere = |args: &[&str]| {
        let mut command = desk.command(args);
        command.env_remove("LONGHAUL_TRUST").env("XDG_STATE_HOME", home.path());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for args in
        [&["list"][..], &["show", &id], &["resume", &id], &["create", "--task", "x"], &["mcp", "list"]]
    {
        let (code, said) = elsewhere(args);
        assert_eq!(code, Some(2), "{args:?}: {said}");
        assert!(said.contains("was not made by you on this machine"), "{args:?}: {said}");
        assert!(said.contains("`longhaul store adopt`"), "{args:?}: {said}");
    }
    assert_eq!(elsewhere(&["list", "--trust"]).0, Some(0));
    assert_eq!(elsewhere(&["list"]).0, Some(2), "trust for one command changes nothing");
    let outside = tempfile::tempdir().unwrap();
    std::fs::rename(desk.path(".longhaul"), outside.path().join("state")).unwrap();
    assert_eq!(
        elsewhere(&["--state-dir", outside.path().join("state").to_str().unwrap(), "show", &id]).0,
        Some(0)
    );
    std::os::unix::fs::symlink(outside.path().join("state"), desk.path(".longhaul")).unwrap();
    assert_eq!(elsewhere(&["list"]).0, Some(2), "a link can come with a repository too");
    assert_eq!(elsewhere(&["store", "adopt"]).0, Some(0));
    assert_eq!(elsewhere(&["show", &id]).0, Some(0));
}

/// A71: an empty state directory may have come with the repository, and then with rules that ignore nothing.
#[test]
fn what_is_kept_is_ignored_by_git_whatever_came_with_the_repository() {
    let desk = Desk::new();
    std::fs::create_dir(desk.path(".longhaul")).unwrap();
    desk.write(".longhaul/.gitignore", "!*\n");
    desk.create();
    assert_eq!(std::fs::read_to_string(desk.path(".longhaul/.gitignore")).unwrap(), "*\n");
}

/// F06: where nothing before the damage is sound, repair says so and what is left to do, and leaves no copies.
#[test]
fn a_repair_of_nothing_does_not_send_one_to_repair() {
    let desk = Desk::new();
    let id = desk.completed();
    std::fs::write(desk.journal(&id), "").unwrap();
    for _ in 0..2 {
        let said = desk.say(&["store", "repair", &id]);
        assert!(said.code == 1 && said.err.contains("is sound: "), "{}", said.err);
        assert!(!said.err.contains("store repair"), "{}", said.err);
        assert!(
            said.err.contains("events.jsonl may tell")
                && said.err.contains(&format!("`longhaul rm {id} --force`")),
            "{}",
            said.err
        );
    }
    let kept = std::fs::read_dir(desk.journal(&id).parent().unwrap()).unwrap();
    assert!(!kept.flatten().any(|entry| entry.file_name().to_string_lossy().contains("damaged")));
    assert_eq!(desk.say(&["rm", &id, "--force"]).code, 0);
}

/// F06: a run whose journal is gone is named by `store verify` and `doctor`, and is no success.
#[test]
fn a_lost_journal_is_named() {
    let desk = Desk::new();
    let (kept, lost) = (desk.completed(), desk.completed());
    std::fs::remove_file(desk.journal(&lost)).unwrap();
    let all = desk.say(&["store", "verify"]);
    assert!(all.code == 1 && all.out.contains(&format!("{lost} has lost its journal: ")), "{}", all.out);
    assert!(all.out.contains(&format!("{kept} is sound")), "{}", all.out);
    let one = desk.say(&["store", "verify", &lost]);
    assert!(
        one.code == 1 && one.out.contains("has lost its journal") && !one.out.contains(&kept),
        "{}",
        one.out
    );
    assert_eq!(desk.say(&["store", "verify", &kept]).code, 0);
    let doctor = desk.say(&["doctor", "--json"]);
    assert!(doctor.code == 1 && doctor.out.contains(&lost) && !doctor.out.contains(&kept), "{}", doctor.out);
}
