//! Errands that a hook holds back until a person has said something, beside others that go on.

use longhaul_core::command::Wish;
use longhaul_core::event::Event;
use longhaul_core::input::Input;
use longhaul_core::spec::{OnAsk, RunSpec};
use longhaul_core::status::{Status, Wait};
use longhaul_core::tool::{EffectClass, Outcome, ToolGrant};

use crate::errands::{crew_spec, spawned, step};
use crate::sim::{Sim, World};

/// A turn of three errands, the first and the last of which are held back, and a call after them.
fn begun(on_ask: OnAsk) -> (Sim, World) {
    let grant = |name: &str, class| ToolGrant { name: name.to_owned(), class, ask: None };
    let tools = vec![grant("read", EffectClass::Repeatable), grant("spawn", EffectClass::Checkable)];
    let mut sim = Sim::create(RunSpec {
        tools,
        on_ask: Some(on_ask),
        parallel: Some(3),
        ..crew_spec(vec![step("a", "MARS", &[])])
    });
    let world = World {
        errands: vec![("PLUTO", "one"), ("VENUS", "two"), ("ERIS", "three")],
        held: vec!["PLUTO", "ERIS"],
        ..World::with_turns(&[&["spawn", "spawn", "spawn", "read"]])
    };
    sim.start().unwrap();
    (sim, world)
}

fn open_gates(sim: &Sim) -> Vec<u32> {
    sim.run.gates.iter().filter(|gate| gate.answer.is_none()).map(|gate| gate.number).collect()
}

/// Approves whatever is asked, one after another, until the run ends.
fn see_through(sim: &mut Sim, world: &mut World, pick: fn(&[u32]) -> Option<&u32>) {
    for _ in 0..20 {
        sim.settle(world);
        let open = open_gates(sim);
        let Some(gate) = pick(&open) else { break };
        sim.wish(Wish::Approve { gate: *gate, digest: None }).unwrap();
    }
    assert_eq!(sim.run.status, Status::Completed, "{:?}", sim.run.phase);
}

/// D7.1: what is held back waits for a person while the errand beside it is done; nobody is made for it before, the model hears of
/// all errands at once, and the call after them is made once.
#[test]
fn a_held_errand_waits_for_a_person() {
    for pick in [|open: &[u32]| open.first(), |open: &[u32]| open.last()] as [fn(&[u32]) -> Option<&u32>; 2] {
        let (mut sim, mut world) = begun(OnAsk::Wait);
        sim.settle(&mut world);
        assert_eq!((sim.run.wait(), open_gates(&sim)), (Wait::Human, vec![1, 2]));
        let sent: Vec<&str> = sim.run.sub_agents.iter().map(String::as_str).collect();
        assert_eq!(sent, [sim.run.children[1].errand.id.as_str()], "only VENUS is there");
        assert_eq!(sim.run.turns, 1, "the model has heard of nothing yet");
        see_through(&mut sim, &mut world, pick);
        assert!(world.started.iter().all(|(_, seen)| *seen == 1) && world.started.len() == 3);
        assert_eq!((spawned(&sim), sim.run.calls_started), (5, 4));
        assert_eq!(world.ran.len(), 1, "the call after them");
        assert!(sim.run.calls.iter().all(|call| matches!(call.outcome(), Some(Outcome::Done { .. }))));
    }
}

/// How the run and its calls ended. In which order errands come back is theirs.
fn ends(sim: &Sim) -> (Status, u32, Option<&str>, Vec<Option<&Outcome>>) {
    (
        sim.run.status,
        sim.run.turns,
        sim.run.output(),
        sim.run.calls.iter().map(|call| call.outcome()).collect(),
    )
}

/// Every prefix of its journal leads to the same end: each is asked about once more at most, and made once.
#[test]
fn a_held_errand_survives_every_crash() {
    let (mut whole, mut world) = begun(OnAsk::Wait);
    see_through(&mut whole, &mut world, |open| open.first());
    for events in 2..whole.journal.len() {
        let (mut sim, mut world) = (whole.reopened_at(events), begun(OnAsk::Wait).1);
        if sim.run.status == Status::Running {
            sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
        } else if sim.run.status == Status::Created {
            sim.start().unwrap();
        }
        see_through(&mut sim, &mut world, |open| open.first());
        assert_eq!(ends(&sim), ends(&whole), "cut after event {events}");
        assert_eq!(sim.run.sub_agents.len(), 3, "cut after event {events}");
    }
}

/// Without leave nobody is sent, the agent reads why, and those that are out are neither disturbed nor sent again.
#[test]
fn a_held_errand_is_refused() {
    let (mut sim, mut world) = begun(OnAsk::Wait);
    // VENUS is still out when the answer comes.
    while open_gates(&sim).is_empty() {
        assert!(sim.step(&mut world));
    }
    sim.wish(Wish::Reject { gate: 1, reason: "no".to_owned() }).unwrap();
    sim.settle(&mut world);
    sim.wish(Wish::Reject { gate: 2, reason: "no".to_owned() }).unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, world.started.len(), spawned(&sim)), (Status::Completed, 1, 3));
    let error = |call: usize| sim.run.calls[call].outcome().and_then(Outcome::error).unwrap_or_default();
    assert!(error(0).contains("a person refused: no") && error(2).contains("a person refused: no"));
    assert_eq!((error(1), world.ran.len()), ("", 1));

    let (mut sim, mut world) = begun(OnAsk::Deny);
    sim.settle(&mut world);
    assert_eq!((sim.run.status, world.started.len(), sim.run.gates.len()), (Status::Completed, 1, 0));
    let held = sim.events().into_iter().filter(|event| matches!(event, Event::ChildHeld { .. })).count();
    assert_eq!(held, 2);
}

/// A hook that asks while the run is being paused: nobody is asked, and it is sent, and held, when the run goes on.
#[test]
fn an_errand_held_during_a_pause_is_held_again() {
    let (mut sim, mut world) = begun(OnAsk::Wait);
    while sim.run.children.is_empty() {
        assert!(sim.step(&mut world));
    }
    sim.pause().unwrap();
    sim.settle(&mut world);
    assert!(sim.run.gates.is_empty() && sim.run.status == Status::Paused);
    sim.start().unwrap();
    see_through(&mut sim, &mut world, |open| open.first());
    assert_eq!(world.started.len(), 3);
}
