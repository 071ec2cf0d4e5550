//! Start, pause, resume, stop: what each status allows, and what it refuses by name.

use longhaul_core::decide::Refusal;
use longhaul_core::event::{Cause, Event};
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;

use super::sim::{Sim, World, chain, spec};

/// A1.1, A1.2, AS1, AS2, AQ3: created → running → paused → running → completed.
#[test]
fn a_run_goes_through_its_life() {
    let mut world = World::with_turns(&[&["read"], &["bash"]]);
    let mut sim = Sim::create(spec());
    assert_eq!(sim.run.status, Status::Created);
    sim.start().unwrap();
    sim.step(&mut world);
    assert_eq!(sim.run.status, Status::Running);
    sim.pause().unwrap();
    assert_eq!((sim.run.status, sim.run.reason.as_deref()), (Status::Paused, Some("asked")));
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.run.output(), Some("turn 3"));
    assert!(sim.run.completed_at.is_some());
}

/// A1.3: pausing checkpoints first, then sets paused, in one batch.
#[test]
fn pause_saves_before_it_pauses() {
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    let before = sim.run.checkpoints;
    sim.pause().unwrap();
    assert_eq!(sim.run.checkpoints, before + 1);
    let events = sim.events();
    let [.., saved, paused] = events.as_slice() else { panic!("too few events") };
    assert!(matches!(saved, Event::Checkpointed { .. }));
    assert!(matches!(paused, Event::StatusChanged { to: Status::Paused, .. }));
}

/// A1.5: stop ends in failed with its reason, writes a last checkpoint and leaves nothing under way.
#[test]
fn stop_ends_the_run() {
    let mut world = World::with_turns(&[&["read"]]);
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.step(&mut world);
    sim.stop().unwrap();
    assert_eq!((sim.run.status, sim.run.reason.as_deref()), (Status::Failed, Some("stopped")));
    assert!(sim.effects.is_empty());
    assert!(matches!(sim.events().last(), Some(Event::Checkpointed { .. })));
}

fn in_status(status: Status) -> Sim {
    let mut world = World::with_turns(&[]);
    let mut sim = Sim::create(spec());
    match status {
        Status::Created => {}
        Status::Running => sim.start().unwrap(),
        Status::Paused => {
            sim.start().unwrap();
            sim.pause().unwrap();
        }
        Status::Completed => {
            sim.start().unwrap();
            sim.settle(&mut world);
        }
        Status::Failed => {
            sim.start().unwrap();
            sim.stop().unwrap();
        }
    }
    assert_eq!(sim.run.status, status);
    sim
}

/// A1.7, AS4, AS5, AS6, AS7, AE10, AE11: each verb in each status: allowed, or refused naming both, changing nothing.
#[test]
fn every_verb_in_every_status() {
    use Status::{Completed, Created, Failed, Paused, Running};
    type Act = fn(&mut Sim) -> Result<(), Refusal>;
    let verbs: [(&str, Act); 3] = [("start", Sim::start), ("pause", Sim::pause), ("stop", Sim::stop)];
    let expected = [
        (Created, [Some(Running), None, None]),
        (Running, [None, Some(Paused), Some(Failed)]),
        (Paused, [Some(Running), None, Some(Failed)]),
        (Completed, [None, None, None]),
        (Failed, [None, None, None]),
    ];
    for (status, outcomes) in expected {
        for ((verb, act), outcome) in verbs.iter().zip(outcomes) {
            let mut sim = in_status(status);
            let before = (sim.run.clone(), sim.journal.len());
            match (act(&mut sim), outcome) {
                (Ok(()), Some(next)) => assert_eq!(sim.run.status, next, "{verb} from {status}"),
                (Err(refusal), None) => {
                    let text = refusal.to_string();
                    assert!(text.contains(status.as_str()) && text.contains(verb), "{text}");
                    assert_eq!((sim.run, sim.journal.len()), before);
                }
                (result, _) => panic!("{verb} from {status}: {result:?}"),
            }
        }
    }
    let refusal = in_status(Created).pause().unwrap_err().to_string();
    assert!(refusal.contains("start first"), "{refusal}");
}

/// AF2: one step's log is gate check, execution, tools, checkpoint, and only then the end.
#[test]
fn a_step_is_logged_in_order() {
    let mut world = World::with_turns(&[&["read"]]);
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.settle(&mut world);
    let kinds: Vec<u16> = sim.events().iter().map(|event| event.kind()).collect();
    // created; command, running; gate, step, turn; reply, call; done, turn; reply, step done, checkpoint, plan, completed
    assert_eq!(kinds, [0, 2, 1, 3, 6, 7, 8, 11, 12, 7, 8, 15, 18, 17, 1]);
}

/// AS3: an error that cannot be got over fails the run and keeps its text.
#[test]
fn a_fatal_model_error_fails_the_run() {
    use longhaul_core::conversation::{ModelFailure, ModelFailureKind};
    use longhaul_core::ids::Attempt;
    use longhaul_core::input::Input;
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    let failure = ModelFailure::new(ModelFailureKind::Fatal, "no such model");
    sim.give(Input::ModelFailed { turn: 1, attempt: Attempt::FIRST, failure }).unwrap();
    assert_eq!((sim.run.status, sim.run.error.as_deref()), (Status::Failed, Some("no such model")));
}

/// A limit on turns pauses the run, names itself, and a raised limit lets it go on.
#[test]
fn a_limit_pauses_and_can_be_raised() {
    let mut world = World::with_turns(&[&["read"], &["read"], &["read"]]);
    let mut limited = spec();
    limited.limits.max_steps = 2;
    let mut sim = Sim::create(limited.clone());
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)));
    assert_eq!(sim.run.reason.as_deref(), Some("max_steps reached: 2 of 2 used"));
    let mut limits = limited.limits;
    limits.max_steps = 10;
    sim.wish(longhaul_core::command::Wish::Start { limits: Some(limits), model: None, looping: None })
        .unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.run.turns, 4);
}

/// A command delivered twice is applied once.
#[test]
fn a_command_is_applied_once() {
    use longhaul_core::command::{Command, Wish};
    use longhaul_core::ids::CommandId;
    use longhaul_core::input::Input;
    let mut sim = Sim::create(spec());
    let command = Command {
        id: CommandId::from_bits(9),
        wish: Wish::Start { limits: None, model: None, looping: None },
    };
    sim.give(Input::Command(command.clone())).unwrap();
    let events = sim.journal.len();
    sim.give(Input::Command(command)).unwrap();
    assert_eq!(sim.journal.len(), events);
}

/// Steps run in the order of their dependencies, each in a conversation of its own that shows what came before.
#[test]
fn steps_follow_each_other() {
    let mut world = World::with_turns(&[&["read"]]);
    let mut sim = Sim::create(RunSpec { plan: chain(3), ..spec() });
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!((sim.run.checkpoints, sim.run.turns, sim.run.calls.len()), (3, 6, 3));
    let first = format!("{:?}", sim.run.messages[0]);
    let at = |text: &str| first.find(text).unwrap_or_else(|| panic!("`{text}` is not in {first}"));
    assert!(at("Result of step-2") < at("part 3"), "what to do comes last: {first}");
}
