//! `handoff`: what it writes, what it refuses, and what a crash leaves.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod fixture;

use std::fs;

use fixture::{Fixture, done, failure};
use longhaul_core::handoff::{Handoff, PATH};
use longhaul_core::tool::{EffectClass, Failure, Found};
use serde_json::{Value, json};

fn handoff(next_step: &str) -> Value {
    json!({ "phase": "two", "completed": ["one"], "next_step": next_step,
        "critical_files": ["notes.md", "gone.md"], "memory_notes": "be brief" })
}

/// B6.1: the file is what was said, valid, and a file that is named but missing is pointed out.
#[tokio::test]
async fn a_handoff_is_written_whole() {
    let fixture = Fixture::new();
    fs::write(fixture.path("notes.md"), "x").unwrap();
    let report = fixture.run("handoff", &handoff("go on")).await;
    assert_eq!(
        done(&report),
        "wrote state/handoff.json; of its critical_files these are not in the workspace: gone.md"
    );
    let written = fs::read_to_string(fixture.path(PATH)).unwrap();
    let expected: Handoff = serde_json::from_value(handoff("go on")).unwrap();
    assert_eq!(Handoff::parse(&written), Ok(expected));
    assert!(written.find("phase") < written.find("next_step"), "in the order of the schema: {written}");
    let least = json!({ "phase": "three", "next_step": "end" });
    assert_eq!(done(&fixture.run("handoff", &least).await), "wrote state/handoff.json");
    assert_eq!(Handoff::parse(&fs::read_to_string(fixture.path(PATH)).unwrap()).unwrap().phase, "three");
}

/// B6.2: what is not valid is refused with its field, and the file stays as it was.
#[tokio::test]
async fn a_bad_handoff_changes_nothing() {
    let fixture = Fixture::new();
    fixture.run("handoff", &handoff("go on")).await;
    let before = fs::read(fixture.path(PATH)).unwrap();
    let missing = fixture.run("handoff", &json!({ "next_step": "x" })).await;
    assert_eq!(failure(&missing), (Failure::InvalidArguments, "`phase` is missing", ""));
    let unread = fixture.prepare("handoff", &json!({ "phase": 1, "next_step": "x" })).await.unwrap_err();
    assert_eq!(failure(&unread).1, "`phase` must be a string, not a number");
    assert_eq!(fs::read(fixture.path(PATH)).unwrap(), before);
}

/// B6.1: a handoff cut short by a crash is looked for, as a written file is, and made once.
#[tokio::test]
async fn a_handoff_can_be_checked_after_a_crash() {
    let fixture = Fixture::new();
    assert_eq!(fixture.tool("handoff").spec().class, EffectClass::Checkable);
    let args = handoff("go on");
    let trace = fixture.prepare("handoff", &args).await.unwrap();
    assert_eq!(trace.target, PATH);
    assert_eq!(fixture.check("handoff", &args, &trace).await, Found::NotDone);
    done(&fixture.run_traced("handoff", &args, &trace).await);
    assert_eq!(fixture.check("handoff", &args, &trace).await, Found::Done);
    fs::write(fixture.path(PATH), "{}").unwrap();
    assert_eq!(fixture.check("handoff", &args, &trace).await, Found::Unknown);
}
