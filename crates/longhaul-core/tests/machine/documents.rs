//! State documents: what comes in goes out, and what cannot be understood is refused whole.

use longhaul_core::document::{self, Error};
use longhaul_core::event::Event;
use longhaul_core::ids::RunId;
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use serde_json::{Value, json};

use super::sim::{Sim, World, spec};

fn restarted() -> Input {
    Input::Restarted { generation: 1, limits: None, model: None, looping: None }
}

/// The example of schema version 1.
pub const EXAMPLE: &str = include_str!("../golden/harness-state-v1.json");

pub fn import(text: &str) -> Result<Run, Error> {
    import_among(text, spec())
}

/// Imported where new runs are made like this.
pub fn import_among(text: &str, own: RunSpec) -> Result<Run, Error> {
    let spec = document::spec(text, own)?;
    let event = Event::Imported { document: Json::parse(text).unwrap(), spec: Box::new(spec) };
    Ok(Run::first(1, super::sim::Sim::create(super::sim::spec()).now, &event).unwrap())
}

/// A9.1, A9.2, A9.4, AI6: the published example imports, keeps its name and status, and exports unchanged.
#[test]
fn the_example_survives() {
    let run = import(EXAMPLE).unwrap();
    assert_eq!(run.spec.id, RunId::parse("harness-abc123").unwrap());
    assert_eq!((run.status, run.current_step, run.checkpoints), (Status::Running, 1, 2));
    let exported = document::write(&run).value();
    assert_eq!(exported, serde_json::from_str::<Value>(EXAMPLE).unwrap());
    assert_eq!(exported["schemaVersion"], 1);
}

/// Unknown fields, at the top, in the plan and inside steps, outlive both the import and the work done afterwards.
#[test]
fn unknown_fields_survive_work() {
    let mut example: Value = serde_json::from_str(EXAMPLE).unwrap();
    example["owner"] = json!({ "name": "somebody" });
    example["plan"]["author"] = json!("somebody else");
    example["plan"]["steps"][1]["colour"] = json!("red");
    let mut sim = Sim { run: import(&example.to_string()).unwrap(), ..Sim::create(spec()) };
    let mut world = World::with_turns(&[&["read"]]);
    sim.give(longhaul_core::input::Input::Restarted {
        generation: 1,
        limits: None,
        model: None,
        looping: None,
    })
    .unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
    let exported = document::write(&sim.run).value();
    assert_eq!(exported["owner"]["name"], "somebody");
    assert_eq!(exported["plan"]["author"], "somebody else");
    assert_eq!(exported["plan"]["steps"][1]["colour"], "red");
    assert_eq!(exported["plan"]["steps"][1]["status"], "completed");
    assert_eq!(exported["subAgentIds"], json!(["harness-def456"]));
    let again = import(&exported.to_string()).unwrap();
    assert_eq!(document::write(&again).value(), exported);
}

/// A9.2: a document that leaves a free step pending can be resumed all the same; absurd counters do no harm.
#[test]
fn a_free_step_of_a_foreign_document_is_ready() {
    let text = EXAMPLE
        .replace("\"status\": \"running\"\n      }", "\"status\": \"pending\"\n      }")
        .replace("\"status\": \"running\",\n  \"created", "\"status\": \"paused\",\n  \"created")
        .replace("\"checkpointCount\": 2", "\"checkpointCount\": 4294967295");
    assert!(text.contains("pending") && text.contains("paused") && text.contains("4294967295"));
    let mut sim = Sim { run: import(&text).unwrap(), ..Sim::create(spec()) };
    let mut world = World::with_turns(&[]);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
}

/// A9.5, AE8: another version is refused by number; broken, truncated or nested text names the place.
#[test]
fn bad_documents_are_refused_whole() {
    let versioned = EXAMPLE.replace("\"schemaVersion\": 1", "\"schemaVersion\": 99");
    let error = document::read(&versioned).unwrap_err().to_string();
    assert!(error.contains("99") && error.contains("version 1"), "{error}");
    for length in (0..EXAMPLE.trim_end().len()).step_by(7) {
        let error = document::read(&EXAMPLE[..length]).unwrap_err().to_string();
        assert!(error.contains("line "), "{error}");
    }
    let nested = format!("{{\"schemaVersion\":1,\"x\":{}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(document::read(&nested).unwrap_err().to_string().contains("recursion limit"));
    for (from, to, word) in [
        ("\"harness-abc123\"", "\"../../etc\"", "not an id"),
        ("\"running\",\n  \"created", "\"walking\",\n  \"created", "walking"),
        ("\"currentStepIndex\": 1", "\"currentStepIndex\": 7", "currentStepIndex"),
        ("[\"step-1\"]", "[\"step-9\"]", "step-9"),
        ("\"2026-02-20T10:05:00Z\",\n  \"plan", "\"yesterday\",\n  \"plan", "yesterday"),
    ] {
        assert!(EXAMPLE.contains(from), "{from}");
        let error = document::read(&EXAMPLE.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    }
}

/// A document of ours that was edited so that its halves disagree is refused, naming the field.
#[test]
fn an_edited_document_is_refused() {
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    let mut exported = document::write(&sim.run).value();
    exported["status"] = json!("completed");
    let error = document::read(&exported.to_string()).unwrap_err();
    assert!(matches!(error, Error::Changed), "{error}");
    exported["longhaul"].as_object_mut().unwrap().remove("digest");
    let error = document::read(&exported.to_string()).unwrap_err().to_string();
    assert!(error.contains("`status`"), "{error}");
}

/// AE8: a document of ours in which one bit was turned is refused, or says the very same. Laying it out anew changes nothing.
#[test]
fn a_turned_bit_is_seen() {
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.settle(&mut World::with_turns(&[&["read"], &["bash"]]));
    let exported = document::write(&sim.run);
    let laid_out = serde_json::to_string_pretty(&exported.value()).unwrap();
    assert_eq!(Json::of(&exported.value()).pretty(), laid_out);
    let pretty = exported.pretty();
    let run = import(&pretty).unwrap();
    let mut refused = 0;
    let own_names = |text: &str| text.contains("\"longhaul\"") && text.contains("\"digest\"");
    for bit in (0..pretty.len() * 8).step_by(13) {
        let mut bytes = pretty.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let Ok(text) = String::from_utf8(bytes) else { continue };
        match document::read(&text) {
            Err(_) => refused += 1,
            // Without the names by which they are found there is no digest to hold it against.
            Ok(_) if !own_names(&text) => {}
            Ok(_) => assert_eq!(import(&text).unwrap().calls, run.calls, "{text}"),
        }
    }
    assert!(refused > pretty.len() / 4, "{refused}");
}

/// A9.4: numbers that nobody here understands keep every digit, also after work was done.
#[test]
fn foreign_numbers_keep_their_digits() {
    const DIGITS: &str = "123456789012345678901234567890";
    let number = |name: &str| format!("\"{name}\": {DIGITS},");
    let text = EXAMPLE
        .replacen('{', &format!("{{ {}", number("n")), 1)
        .replacen("\"plan\": {", &format!("\"plan\": {{ {}", number("m")), 1)
        .replacen("\"id\": \"step-2\"", &format!("{} \"id\": \"step-2\"", number("k")), 1);
    assert_eq!(text.matches(DIGITS).count(), 3);
    let mut sim = Sim { run: import(&text).unwrap(), ..Sim::create(spec()) };
    let same = document::write(&sim.run);
    assert_eq!(same.as_str().matches(DIGITS).count(), 3);
    assert_eq!(same.pretty().matches(DIGITS).count(), 3);
    sim.give(restarted()).unwrap();
    sim.settle(&mut World::with_turns(&[]));
    let worked = document::write(&sim.run);
    assert_eq!(worked.as_str().matches(DIGITS).count(), 3, "{worked}");
    let renamed = document::renamed(&worked, &RunId::parse("other").unwrap());
    assert_eq!(renamed.as_str().matches(DIGITS).count(), 3);
    assert_eq!(import(renamed.as_str()).unwrap().spec.id.as_str(), "other");
}

/// AI13: what the loop of another program had in mind is told to the agent that goes on, and stays in the document.
#[test]
fn a_foreign_snapshot_is_restored_and_kept() {
    let snapshot = json!({
        "scratchpad": "MILK", "extra": 1,
        "turns": [{ "role": "user", "content": "EARLIER" }, { "role": "assistant", "parts": ["ODD"] }],
    });
    let text = EXAMPLE.replace("\"agentLoopSnapshot\": null", &format!("\"agentLoopSnapshot\": {snapshot}"));
    let mut sim = Sim { run: import(&text).unwrap(), ..Sim::create(spec()) };
    let told = format!("{:?}", sim.run.messages);
    assert!(told.contains("MILK") && told.contains("user: EARLIER") && told.contains("ODD"), "{told}");
    sim.give(restarted()).unwrap();
    let exported = document::write(&sim.run).value();
    let kept = &exported["agentLoopSnapshot"];
    assert_eq!((&kept["scratchpad"], &kept["extra"]), (&json!("MILK"), &json!(1)));
    assert!(kept["turns"].to_string().contains("EARLIER"));
}

/// What a document says of where it works and what it may do counts for nothing: that is for whoever takes it in.
#[test]
fn a_document_grants_nothing() {
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    let mut exported = document::write(&sim.run).value();
    exported["longhaul"].as_object_mut().unwrap().remove("digest");
    let own = &mut exported["longhaul"]["spec"];
    for (field, value) in [
        ("workspace", json!("/home/somebody")),
        ("branch", json!("main")),
        ("repository", json!("/home/somebody")),
        ("session", json!("theirs")),
        ("parent", json!("run_other")),
        ("autonomy", json!(5)),
        ("permissions", json!(null)),
        ("engineEnabled", json!(false)),
    ] {
        own[field] = value;
    }
    own["limits"]["maxToolCalls"] = json!(u32::MAX);
    own["limits"]["policies"] = json!({ "maxToolCalls": "warn" });
    own["tools"][0]["class"] = json!("repeatable");
    own["tools"].as_array_mut().unwrap().push(json!({ "name": "strange", "class": "once" }));
    let taken = document::spec(&exported.to_string(), spec()).unwrap();
    assert_eq!(taken, sim.run.spec);
}

/// AI13: what was said so far is part of the document and is there again after import.
#[test]
fn the_conversation_is_carried_over() {
    let mut world = World::with_turns(&[&["read"], &["bash"]]);
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut world);
    sim.step(&mut world);
    let exported = document::write(&sim.run).value();
    assert_eq!(exported["agentLoopSnapshot"]["turns"].as_array().unwrap().len(), 3);
    let run = import(&exported.to_string()).unwrap();
    assert_eq!(run.messages, sim.run.messages);
    let mut resumed = Sim { run, ..Sim::create(spec()) };
    resumed
        .give(longhaul_core::input::Input::Restarted {
            generation: 1,
            limits: None,
            model: None,
            looping: None,
        })
        .unwrap();
    resumed.settle(&mut world);
    assert_eq!(resumed.run.status, Status::Completed);
}
