//! Every prefix of a journal is a start. Killed anywhere, the run ends the same and tells the agent what it cannot know.

use longhaul_core::event::Event;
use longhaul_core::input::{Input, Tended};
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_core::tool::{EffectClass, Failure, Found, Outcome};

use super::sim::{Sim, World, chain, essence, spec};

fn all_classes() -> World {
    World::with_turns(&[&["read", "write", "bash"], &["write"]])
}

fn finish(sim: &mut Sim, world: &mut World) {
    match sim.run.status {
        Status::Created | Status::Paused => sim.start().unwrap(),
        Status::Running => {
            sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap()
        }
        Status::Completed | Status::Failed => {}
    }
    sim.settle(world);
}

/// AD4, A1.4: from every prefix of the journal a new process reaches the same end as the undisturbed run, whether or
/// not the effect that was under way took place; a `once` call that was under way is reported unknown, not repeated.
#[test]
fn every_prefix_leads_to_the_same_end() {
    for found in [Found::Done, Found::NotDone] {
        let mut world = all_classes();
        let mut whole = Sim::create(RunSpec { plan: chain(2), ..spec() });
        whole.start().unwrap();
        whole.settle(&mut world);
        assert_eq!(whole.run.status, Status::Completed);
        let mut cut_short = 0;
        for length in 1..=whole.journal.len() {
            let mut sim = whole.reopened_at(length);
            let open_class = sim.run.open_call().map(|call| call.state.clone());
            let mut world = World { found, ..all_classes() };
            finish(&mut sim, &mut world);
            assert_eq!(sim.run.status, Status::Completed, "prefix {length}");
            let unknown: Vec<_> = sim
                .run
                .calls
                .iter()
                .filter(|call| matches!(call.outcome(), Some(Outcome::Unknown { .. })))
                .collect();
            let was_once = matches!(
                open_class,
                Some(longhaul_core::run::CallState::Started { class: EffectClass::Once, .. })
            );
            assert_eq!(unknown.len(), usize::from(was_once), "prefix {length}");
            cut_short += unknown.len();
            if let Some(call) = unknown.first() {
                assert!(!world.ran.iter().any(|(ran, _)| *ran == call.id), "repeated without being asked");
            } else if found == Found::NotDone {
                assert_eq!(essence(&sim.run), essence(&whole.run), "prefix {length}");
            }
        }
        assert_eq!(cut_short, 2, "one for each step's bash");
    }
}

/// A2.2: taking a run up again is itself an event, written before anything is done.
#[test]
fn recovery_is_remembered() {
    let mut world = all_classes();
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut world);
    let mut sim = sim.reopened_at(sim.journal.len());
    sim.give(Input::Restarted { generation: 5, limits: None, model: None, looping: None }).unwrap();
    assert_eq!(sim.run.generation, 5);
    let position =
        sim.events().iter().position(|event| matches!(event, Event::Recovered { generation: 5 })).unwrap();
    assert!(matches!(sim.events()[position + 1], Event::CallStarted { .. }), "then the interrupted call");
}

/// A checkable call whose destination is neither before nor after is reported, never repeated.
#[test]
fn a_destination_in_doubt_is_reported() {
    let mut world = World { found: Found::Unknown, ..World::with_turns(&[&["write"]]) };
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut world);
    sim.step(&mut world);
    let mut sim = sim.reopened_at(sim.journal.len());
    finish(&mut sim, &mut world);
    assert!(matches!(sim.run.calls[0].outcome(), Some(Outcome::Unknown { .. })));
    assert!(world.ran.is_empty());
}

/// F22: wherever the wall clock jumps, a wait is never negative and never longer than was decided.
#[test]
fn waits_survive_clock_jumps() {
    let mut world = World::with_turns(&[&["read"]]);
    world.failures = vec![("read", 1, Failure::Network)];
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut world);
    sim.step(&mut world);
    let Some(longhaul_core::effect::Effect::Sleep { rest, .. }) = sim.effects.front().cloned() else {
        panic!("no timer was set")
    };
    let hour = 3_600_000;
    let now = sim.now.as_millis();
    for (jump, expected) in
        [(0, 1000), (hour, 0), (-hour, 1000), (-now, 1000), (300_000 * hour, 0), (400, 600)]
    {
        let there = longhaul_core::time::Timestamp::from_millis(now + jump);
        assert_eq!(rest.left_ms(there), expected, "after a jump of {jump} ms");
    }
    let mut sim = sim.reopened_at(sim.journal.len());
    finish(&mut sim, &mut world);
    assert_eq!(sim.run.status, Status::Completed);
}

/// A reply or a result that arrives while the run is being paused is kept and taken up on resume.
#[test]
fn late_results_are_kept_through_a_pause() {
    let mut world = World::with_turns(&[&["bash"]]);
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut world);
    let under_way = sim.effects.front().cloned();
    sim.pause().unwrap();
    assert!(matches!(under_way, Some(longhaul_core::effect::Effect::RunTool { .. })));
    let outcome = Outcome::failed(Failure::Cancelled, "paused");
    let attempt = longhaul_core::ids::Attempt::FIRST;
    let call = longhaul_core::ids::CallId(1);
    sim.give(Input::ToolEnded {
        call,
        attempt,
        outcome: outcome.clone(),
        duration_us: 3,
        hold: None,
        tended: Tended::default(),
    })
    .unwrap();
    assert_eq!(sim.run.status, Status::Paused);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.calls[0].outcome(), Some(&outcome));
    assert_eq!((sim.run.status, world.ran.len()), (Status::Completed, 0));
}

/// A3.3: what crashes cut short does not use up the retries: a call killed many times still gets all of them.
#[test]
fn crashes_do_not_use_up_retries() {
    let mut world = World::with_turns(&[&["read"]]);
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut world);
    for generation in 2..8 {
        sim = sim.reopened_at(sim.journal.len());
        sim.give(Input::Restarted { generation, limits: None, model: None, looping: None }).unwrap();
    }
    assert_eq!(sim.run.calls[0].attempt().retries(), 6);
    world.failures = vec![("read", 9, Failure::Network)];
    sim.settle(&mut world);
    assert_eq!(sim.slept_ms, [1000, 2000, 4000], "attempts 7, 8 and 9 fail, the tenth works");
    assert!(sim.run.calls[0].outcome().unwrap().is_done());
}

/// A stopped run has no open call: what was under way is on record as unknown.
#[test]
fn a_stopped_run_leaves_no_call_open() {
    let mut world = World::with_turns(&[&["bash"]]);
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut world);
    sim.stop().unwrap();
    assert!(matches!(sim.run.calls[0].outcome(), Some(Outcome::Unknown { .. })));
}
