//! What is told of a run: every line of every event says all that its type promises, and a trace tells the same.

use std::collections::HashSet;

use longhaul_core::child::{Child, ChildLedger, ChildState};
use longhaul_core::event::{Aside, Event, FreshStart, Kept};
use longhaul_core::fields;
use longhaul_core::run::Run;
use longhaul_core::trace::Trace;
use longhaul_core::view::EventLine;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::errands::{crew_spec, step};
use super::golden::samples;
use super::lives::lives;
use super::sim::{Sim, World, spec};

/// The lines of a run, as `events` shows them.
fn lines(sim: &Sim) -> Vec<Value> {
    let (seq, at, first) = &sim.journal[0];
    let mut run = Run::first(*seq, *at, first).unwrap();
    let line = |run: &Run, (seq, at, event): &(u64, _, _)| {
        serde_json::to_value(EventLine { run, seq: *seq, at: *at, event }).unwrap()
    };
    let mut lines = vec![line(&run, &sim.journal[0])];
    for entry in &sim.journal[1..] {
        run.apply(entry.0, entry.1, &entry.2).unwrap();
        lines.push(line(&run, entry));
    }
    lines
}

/// AP19, A8.1 to A8.4: one of every event there is says all that its type promises, and every type is one there is.
#[test]
fn every_event_has_the_fields_of_its_type() {
    let mut sim = Sim::create(spec());
    // Lines about a child name it, so the run has two.
    for event in samples() {
        if let Event::ChildSpawned(errand) = event {
            let (state, ledger) = (ChildState::Working, ChildLedger::default());
            let spawned_at = sim.run.created_at;
            sim.run.children.push(Child { errand: *errand, spawned_at, state, ledger, model: None });
        }
    }
    let mut kinds = HashSet::new();
    for event in samples().into_iter().flat_map(every_kind) {
        let line = EventLine { run: &sim.run, seq: 7, at: sim.run.created_at, event: &event };
        let line = serde_json::to_value(line).unwrap();
        assert_eq!(fields::problems(&line), [] as [String; 0], "{line}");
        kinds.insert(line["type"].as_str().unwrap().to_owned());
    }
    let never: Vec<&str> = fields::types().filter(|kind| !kinds.contains(*kind)).collect();
    assert_eq!(never, [] as [&str; 0]);
}

/// The lines of these events have a type for each kind of what they tell.
fn every_kind(event: Event) -> Vec<Event> {
    match event {
        Event::AsideEnded { aside, attempt, model, text, error, usage, retry, kind } => {
            let why = FreshStart::Limit;
            // A kind that is new belongs into this list as well.
            let all = match aside {
                Aside::Judgement
                | Aside::Compaction { .. }
                | Aside::Iteration { .. }
                | Aside::Planning { .. } => [
                    Aside::Judgement,
                    Aside::Compaction { before: 3 },
                    Aside::Iteration { why },
                    Aside::Planning { round: 1 },
                ],
            };
            let of = |(aside, usage)| {
                let (model, text, error) = (model.clone(), text.clone(), error.clone());
                Event::AsideEnded { aside, attempt, model, text, error, usage, retry, kind }
            };
            // One that nobody answered took nothing.
            all.into_iter().flat_map(|aside| [(aside, usage), (aside, None)]).map(of).collect()
        }
        Event::WorkKept { steps, kept } => {
            let all = match kept {
                Kept::Committed { .. } | Kept::Unchanged { .. } | Kept::Uncommitted { .. } => [
                    Kept::Committed { commit: "c".to_owned(), branch: Some("b".to_owned()) },
                    Kept::Unchanged { head: None },
                    Kept::Uncommitted { why: "w".to_owned() },
                ],
            };
            all.into_iter().map(|kept| Event::WorkKept { steps, kept }).collect()
        }
        event => vec![event],
    }
}

/// AP19: a line that lacks something is found out.
#[test]
fn a_line_that_lacks_something_is_named() {
    let whole = json!({ "seq": 1, "at": "2026-01-01T00:00:00.000Z", "harnessId": "run_1", "type": "tool_call",
        "callId": "c1", "toolName": "read", "durationMs": 1.5, "success": true });
    assert_eq!(fields::problems(&whole), [] as [String; 0]);
    for name in whole.as_object().unwrap().keys().filter(|name| *name != "type") {
        for value in [None, Some(Value::Null)] {
            let mut line = whole.clone();
            match value {
                None => drop(line.as_object_mut().unwrap().remove(name)),
                Some(null) => line[name] = null,
            }
            assert_eq!(fields::problems(&line), [format!("a tool_call without {name}")]);
        }
    }
    assert_eq!(fields::problems(&json!({ "type": "nonsense" })).len(), 1);
    assert_eq!(fields::problems(&json!([])), ["it has no type"]);
}

/// A8.4, A8.5: a child's beginning and end are told with both ids, and what lies between is a span of its step.
#[test]
fn a_child_is_told_of() {
    let mut sim = Sim::create(crew_spec(vec![step("a", "MARS", &[]), step("b", "PLUTO", &["a"])]));
    sim.start().unwrap();
    sim.settle(&mut World { failing: vec![("PLUTO", 1)], ..World::with_turns(&[&["read"]]) });
    let lines = lines(&sim);
    let told: Vec<&str> = lines
        .iter()
        .filter(|line| line["type"] == "sub_agent" && line["parentId"] == line["harnessId"])
        .map(|line| line["event"].as_str().unwrap())
        .collect();
    assert_eq!(told, ["spawned", "failed", "spawned", "completed"], "one retry");
    let trace = Trace::of("run_1", &lines);
    let children: Vec<_> = trace.spans.iter().filter(|span| span.name.starts_with("sub-agent ")).collect();
    let ends: Vec<(bool, bool)> =
        children.iter().map(|span| (span.end.is_some(), span.error.is_some())).collect();
    assert_eq!(ends, [(true, true), (true, false)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// AP19: Feature: agent-harnesses, Property 19: Observability event completeness
    #[test]
    fn prop_19_event_completeness(life in lives()) {
        for line in lines(&life.lived()) {
            prop_assert_eq!(fields::problems(&line), [] as [String; 0], "{}", line);
        }
    }

    /// A8.5: a trace holds every event exactly once and in its order; spans stand in spans that began before them, have ids of
    /// their own, and never end before they begin. Made again, it is the same.
    #[test]
    fn a_trace_tells_the_same(life in lives()) {
        let lines = lines(&life.lived());
        let trace = Trace::of("run_1", &lines);
        let mut told: Vec<&Value> = trace.spans.iter().flat_map(|span| &span.events).collect();
        told.sort_by_key(|line| line["seq"].as_u64());
        prop_assert_eq!(told, lines.iter().collect::<Vec<_>>());
        let mut ids = HashSet::new();
        for (index, span) in trace.spans.iter().enumerate() {
            prop_assert!(ids.insert(&span.id) && span.id.len() == 16);
            prop_assert!(span.end.is_none_or(|end| end >= span.start));
            prop_assert_eq!(span.parent.is_none(), index == 0);
            if let Some(parent) = span.parent {
                prop_assert!(parent < index && trace.spans[parent].start <= span.start);
            }
        }
        let otlp = trace.otlp();
        let spans = otlp["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().unwrap();
        prop_assert_eq!(spans.len(), trace.spans.len());
        let events: usize = spans.iter().map(|span| span["events"].as_array().unwrap().len()).sum();
        prop_assert_eq!(events, lines.len());
        prop_assert_eq!(Trace::of("run_1", &lines), trace);
    }
}
