//! Calls that hooks look at: held for a person, stopped because a hook broke, finished but to be looked at.

use longhaul_core::command::Wish;
use longhaul_core::conversation::{ModelReply, ProposedCall};
use longhaul_core::effect::Effect;
use longhaul_core::event::{Cause, Event};
use longhaul_core::ids::{Attempt, CallId};
use longhaul_core::input::{Input, Tended};
use longhaul_core::json::Json;
use longhaul_core::limits::BROKEN_HOOKS_MAX;
use longhaul_core::run::CallState;
use longhaul_core::spec::{Limits, OnAsk, RunSpec};
use longhaul_core::status::{Status, Wait};
use longhaul_core::tool::{Failure, Outcome};

use super::sim::{Sim, World, spec};

fn calling(spec: RunSpec, calls: usize) -> Sim {
    let mut sim = Sim::create(spec);
    sim.start().unwrap();
    let calls = vec![ProposedCall::new("bash", Json::parse(r#"{"command":"make"}"#).unwrap()); calls];
    let reply = ModelReply { calls, ..ModelReply::default() };
    sim.effects.clear();
    sim.give(Input::ModelReplied { turn: 1, attempt: Attempt::FIRST, reply, duration_us: 1 }).unwrap();
    sim
}

fn held(sim: &mut Sim) {
    sim.effects.clear();
    let why = "the hook `guard` wants a person to look".to_owned();
    sim.give(Input::ToolHeld { call: CallId(1), attempt: Attempt::FIRST, why }).unwrap();
}

fn ended(sim: &mut Sim, call: u32, outcome: Outcome, hold: Option<&str>) {
    let hold = hold.map(str::to_owned);
    let attempt = sim.run.call(CallId(call)).unwrap().attempt();
    sim.give(Input::ToolEnded {
        call: CallId(call),
        attempt,
        outcome,
        duration_us: 1,
        hold,
        tended: Tended::default(),
    })
    .unwrap();
}

/// D7.1: a call that a hook interrupts waits for a person, also through a restart; with leave it is another attempt at the
/// same call, which counts once, also when it used the last of the budget.
#[test]
fn an_interrupted_call_waits_for_a_person() {
    let limits = Limits { max_tool_calls: 1, ..spec().limits };
    let mut sim = calling(RunSpec { limits, ..spec() }, 1);
    held(&mut sim);
    sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
    assert_eq!((sim.run.wait(), sim.run.gates.len()), (Wait::Human, 1));
    sim.effects.clear();
    sim.wish(Wish::Approve { gate: 1, digest: None }).unwrap();
    let again = Effect::RunTool { call: CallId(1), attempt: Attempt(2) };
    assert!(sim.effects.contains(&again), "{:?}", sim.effects);
    assert_eq!((sim.run.calls_started, sim.run.calls[0].granted), (1, true));
    sim.settle(&mut World::with_turns(&[&[]]));
    assert_eq!(sim.run.status, Status::Completed);
}

/// D7.1: without leave it is not made, and the agent reads why; where nobody is to be asked, at once.
#[test]
fn an_interrupted_call_is_refused() {
    for on_ask in [OnAsk::Wait, OnAsk::Deny] {
        let mut sim = calling(RunSpec { on_ask: Some(on_ask), ..spec() }, 1);
        held(&mut sim);
        if on_ask == OnAsk::Wait {
            sim.wish(Wish::Reject { gate: 1, reason: "no".to_owned() }).unwrap();
        }
        let error = sim.run.calls[0].outcome().and_then(Outcome::error).unwrap_or_default().to_owned();
        assert!(error.contains("a person"), "{error}");
        sim.settle(&mut World::with_turns(&[&[]]));
        assert_eq!(sim.run.status, Status::Completed);
    }
}

/// A hook that asks while the run is being paused leaves a call that was not begun.
#[test]
fn an_interruption_during_a_pause_is_no_question() {
    let mut sim = calling(spec(), 1);
    sim.wish(Wish::Pause { reason: String::new() }).unwrap();
    held(&mut sim);
    assert!(sim.run.gates.is_empty());
    assert!(matches!(sim.run.calls[0].outcome(), Some(Outcome::Failed { failure: Failure::Cancelled, .. })));
}

/// A hook that breaks never lets a call through, and never locks the run for ever: after a few calls a person is asked.
#[test]
fn broken_hooks_stop_the_run() {
    let mut sim = calling(spec(), BROKEN_HOOKS_MAX + 1);
    for call in 1..=BROKEN_HOOKS_MAX as u32 {
        assert_eq!(sim.run.status, Status::Running);
        ended(&mut sim, call, Outcome::failed(Failure::Hook, "the hook `guard` broke"), None);
    }
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Parked)));
    assert!(sim.run.reason.as_ref().unwrap().contains("`guard` broke"), "{:?}", sim.run.reason);
    sim.start().unwrap();
    assert!(matches!(sim.run.calls[BROKEN_HOOKS_MAX].state, CallState::Started { .. }));
}

/// A call that a hook wants looked at is not tried again first.
#[test]
fn a_held_failure_is_not_retried() {
    let mut sim = calling(spec(), 1);
    ended(&mut sim, 1, Outcome::failed(Failure::Network, "lost"), Some("look at this"));
    assert_eq!((sim.run.status, sim.run.reason.as_deref()), (Status::Paused, Some("look at this")));
}

/// F47: a call that could not be prepared for a reason that holds for all of them stops the run there.
#[test]
fn a_preparation_may_stop_the_run() {
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    let calls = vec![ProposedCall::new("write", Json::parse("{}").unwrap()); 2];
    let reply = ModelReply { calls, ..ModelReply::default() };
    sim.effects.clear();
    sim.give(Input::ModelReplied { turn: 1, attempt: Attempt::FIRST, reply, duration_us: 1 }).unwrap();
    let traces = Err(Outcome::failed(Failure::Tool, "no such directory"));
    let hold = Some("it was moved".to_owned());
    sim.give(Input::ToolPrepared { call: CallId(1), attempt: Attempt::FIRST, traces, hold }).unwrap();
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Parked)));
    assert_eq!(sim.run.reason.as_deref(), Some("it was moved"));
    assert!(sim.run.calls[0].has_ended() && !sim.run.calls[1].has_ended());
}

/// D7.2: a hook that wants a person to look after a call stops the run there, with the call's result on record.
#[test]
fn a_finished_call_may_stop_the_run() {
    let mut sim = calling(spec(), 2);
    ended(&mut sim, 1, Outcome::done("made"), Some("look at this"));
    assert_eq!((sim.run.status, sim.run.reason.as_deref()), (Status::Paused, Some("look at this")));
    assert!(sim.run.calls[0].has_ended() && !sim.run.calls[1].has_ended());
    assert!(sim.journal.iter().any(|(_, _, event)| matches!(event, Event::CallFinished { .. })));
    sim.start().unwrap();
    sim.settle(&mut World::with_turns(&[&[]]));
    assert_eq!(sim.run.status, Status::Completed);
}
