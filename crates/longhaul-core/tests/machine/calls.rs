//! Tool calls: permission, budget, retries, and what the record keeps.

use longhaul_core::event::Event;
use longhaul_core::run::CallState;
use longhaul_core::status::Status;
use longhaul_core::tool::{Failure, Outcome};

use super::sim::{Sim, World, spec};

/// A3.1, AE3: a tool outside the permitted set never runs, is refused at once, and the model reads why.
#[test]
fn a_forbidden_tool_is_refused() {
    let mut world = World::with_turns(&[&["write", "read"]]);
    let mut careful = spec();
    careful.tools.retain(|grant| grant.name != "write");
    let mut sim = Sim::create(careful);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(world.ran.iter().map(|(_, tool)| tool.as_str()).collect::<Vec<_>>(), ["read"]);
    let refused = &sim.run.calls[0];
    assert!(refused.outcome().unwrap().error().unwrap().contains("not permitted"));
    assert_eq!(refused.attempt().retries(), 0);
    assert_eq!(sim.run.status, Status::Completed);
}

/// A3.3, A3.5, AE2: two transient failures are retried; four give up after three retries and say so.
#[test]
fn transient_failures_are_retried() {
    for (times, expected_retries, done) in [(2, 2, true), (4, 3, false)] {
        let mut world = World::with_turns(&[&["read"]]);
        world.failures = vec![("read", times, Failure::RateLimit)];
        let mut sim = Sim::create(spec());
        sim.start().unwrap();
        sim.settle(&mut world);
        let call = &sim.run.calls[0];
        assert_eq!(call.attempt().retries(), expected_retries);
        assert_eq!(call.outcome().unwrap().is_done(), done);
        assert_eq!(sim.slept_ms, [1000, 2000, 4000][..expected_retries as usize]);
        let gave_up = sim.events().iter().any(|event| matches!(event, Event::ToolFailed { .. }));
        assert_eq!(gave_up, !done);
        assert_eq!(sim.run.calls_started, 1, "retries are not new calls");
    }
}

/// AE2: an error that would come again is not retried.
#[test]
fn permanent_failures_are_not_retried() {
    let mut world = World::with_turns(&[&["read"]]);
    world.failures = vec![("read", 9, Failure::InvalidArguments)];
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(world.ran.len(), 1);
    assert!(sim.slept_ms.is_empty());
}

/// A3.6, AE4: the call after the budget is refused, names limit and count, and the model goes on.
#[test]
fn the_call_budget_is_kept() {
    let mut world = World::with_turns(&[&["read", "bash", "read"]]);
    let mut poor = spec();
    poor.limits.max_tool_calls = 2;
    let mut sim = Sim::create(poor);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(world.ran.len(), 2);
    let error = sim.run.calls[2].outcome().unwrap().error().unwrap();
    assert_eq!(error, "tool call budget exceeded: 2 of 2 used");
    assert_eq!((sim.run.status, sim.run.remaining_calls()), (Status::Completed, 0));
}

/// A3.2, AP7: the record keeps name, arguments, result and a duration above zero, even for a call of 0 µs.
#[test]
fn the_record_is_complete() {
    let mut world = World::with_turns(&[&["read"]]);
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.settle(&mut world);
    let call = &sim.run.calls[0];
    assert_eq!((call.tool.as_str(), call.args.as_str()), ("read", r#"{"index":0,"turn":1}"#));
    assert_eq!(call.outcome(), Some(&Outcome::done("read call_1")));
    assert!(call.duration_ms().unwrap() > 0.0);
}

/// A result and the intent that follows from it are remembered in one batch: one sync for each durable step.
#[test]
fn a_result_and_the_next_intent_share_a_moment() {
    let mut world = World::with_turns(&[&["read", "bash"]]);
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.settle(&mut world);
    let at = |kind: u16, nth: usize| {
        sim.journal.iter().filter(|(_, _, event)| event.kind() == kind).nth(nth).unwrap().1
    };
    assert_eq!(at(12, 0), at(11, 1), "first result, second intent");
    assert_eq!(at(12, 1), at(7, 1), "last result, next turn");
}

/// A result of an older attempt is dropped.
#[test]
fn an_old_result_is_dropped() {
    use longhaul_core::ids::{Attempt, CallId};
    use longhaul_core::input::{Input, Tended};
    let mut world = World::with_turns(&[&["read"]]);
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut world);
    let late = Input::ToolEnded {
        call: CallId(1),
        attempt: Attempt(7),
        outcome: Outcome::done("late"),
        duration_us: 1,
        hold: None,
        tended: Tended::default(),
    };
    let before = sim.run.clone();
    sim.give(late).unwrap();
    assert_eq!(sim.run, before);
    assert!(matches!(sim.run.calls[0].state, CallState::Started { .. }));
}

/// A reply of any size is kept within what one batch may hold, and says what was cut.
#[test]
fn a_huge_reply_fits_a_batch() {
    use longhaul_core::conversation::{ModelReply, ProposedCall};
    use longhaul_core::ids::Attempt;
    use longhaul_core::input::Input;
    use longhaul_core::json::Json;
    let huge = || Json::parse(format!("{{\"x\":\"{}\"}}", "y".repeat(3_000_000))).unwrap();
    for count in [0, 40] {
        let calls = (0..count).map(|_| ProposedCall::new("z".repeat(5000), huge())).collect();
        let reply = ModelReply { text: "é".repeat(9_000_000), calls, ..ModelReply::default() };
        let mut sim = Sim::create(spec());
        sim.start().unwrap();
        let before = sim.journal.len();
        sim.give(Input::ModelReplied { turn: 1, attempt: Attempt::FIRST, reply, duration_us: 1 }).unwrap();
        let batch = &sim.journal[before..];
        let bytes: usize = batch.iter().map(|(_, _, event)| longhaul_core::codec::encode(event).len()).sum();
        assert!(bytes < 12 * 1024 * 1024, "{count} calls: {bytes} bytes");
        assert!(format!("{:?}", sim.run.messages[1]).contains("[cut here: the model said 18000000 bytes]"));
    }
}

/// F34: absurd replies: 500 calls at once, an unknown tool, huge arguments; each call gets exactly one answer.
#[test]
fn absurd_replies_are_bounded() {
    use longhaul_core::conversation::{Message, ModelReply, ProposedCall};
    use longhaul_core::ids::Attempt;
    use longhaul_core::input::Input;
    use longhaul_core::json::Json;
    use longhaul_core::limits::{ARGUMENT_BYTES_MAX, CALLS_PER_TURN_MAX};
    let huge = format!("{{\"x\":\"{}\"}}", "y".repeat(ARGUMENT_BYTES_MAX));
    let mut calls = vec![ProposedCall::new("nonsense", Json::empty_object())];
    calls.push(ProposedCall::new("read", Json::parse(huge).unwrap()));
    calls.resize_with(500, || ProposedCall::new("read", Json::empty_object()));
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.effects.clear();
    let reply = ModelReply { calls, ..ModelReply::default() };
    sim.give(Input::ModelReplied { turn: 1, attempt: Attempt::FIRST, reply, duration_us: 1 }).unwrap();
    let mut world = World::with_turns(&[&[]]);
    sim.settle(&mut world);
    assert!(world.ran.len() < CALLS_PER_TURN_MAX);
    let answered = sim.run.messages.iter().filter(|message| matches!(message, Message::Tool { .. })).count();
    assert_eq!(answered, 500);
    assert_eq!(sim.run.status, Status::Completed);
}

/// A model that goes on asking when its calls are used up is stopped, with the work kept and the limit named.
#[test]
fn asking_on_without_budget_pauses() {
    use longhaul_core::event::Cause;
    let mut world = World::with_turns(&[&["read"], &["read"], &["read"], &["read"]]);
    let mut poor = spec();
    poor.limits.max_tool_calls = 1;
    let mut sim = Sim::create(poor);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)));
    assert_eq!(sim.run.reason.as_deref(), Some("max_tool_calls reached: 1 of 1 used"));
    assert_eq!(sim.run.turns, 3, "one call, one refusal to learn from, one too many");
}

/// Where a command left the shell is part of the run: it outlives the process, and ends with the conversation.
#[test]
fn the_working_directory_is_on_record() {
    use longhaul_core::ids::CallId;
    use longhaul_core::input::{Input, Tended};
    use longhaul_core::tool::Output;
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut World::with_turns(&[&["bash"]]));
    let output = Output { cwd: Some("src".to_owned()), ..Output::text("x") };
    let attempt = sim.run.calls[0].attempt();
    let outcome = Outcome::Done { output };
    sim.give(Input::ToolEnded {
        call: CallId(1),
        attempt,
        outcome,
        duration_us: 1,
        hold: None,
        tended: Tended::default(),
    })
    .unwrap();
    assert_eq!(sim.run.cwd.as_deref(), Some("src"));
    sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
    assert_eq!(sim.run.cwd.as_deref(), Some("src"));
}

/// What a call shows is in the conversation, and its blob goes wherever the run goes: into exports and forks.
#[test]
fn an_image_belongs_to_the_run() {
    use longhaul_core::conversation::Message;
    use longhaul_core::ids::CallId;
    use longhaul_core::input::{Input, Tended};
    use longhaul_core::tool::{Image, Output};
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut World::with_turns(&[&["read"]]));
    let image = |blob: &str| Image {
        blob: blob.to_owned(),
        media_type: "image/png".to_owned(),
        width: 640,
        height: 480,
        bytes: 12_000,
    };
    let whole = Output { blob: Some("text".to_owned()), ..Output::text("x") };
    let outcome = Outcome::Done { output: whole.showing(vec![image("one"), image("two")]) };
    let attempt = sim.run.calls[0].attempt();
    sim.give(Input::ToolEnded {
        call: CallId(1),
        attempt,
        outcome,
        duration_us: 1,
        hold: None,
        tended: Tended::default(),
    })
    .unwrap();
    assert_eq!(sim.run.blobs().collect::<Vec<_>>(), ["text", "one", "two"]);
    let told = sim.run.messages.iter().find_map(|message| match message {
        Message::Tool { images, .. } => Some(images.clone()),
        Message::User { .. } | Message::Assistant { .. } => None,
    });
    assert_eq!(told, Some(vec![image("one"), image("two")]));
}
