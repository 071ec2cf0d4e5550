//! What becomes of errands beside success and failure: children that a person stops, that fall silent, or that belong to somebody
//! else; other models, other plans, and what is held against the whole.

use longhaul_core::child::ChildState;
use longhaul_core::command::Wish;
use longhaul_core::conduct::{Conduct, Judge};
use longhaul_core::event::{Cause, Event, Purpose};
use longhaul_core::input::Input;
use longhaul_core::plan::{Plan, Step, StepStatus};
use longhaul_core::spec::{Autonomy, Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::tool::{EffectClass, ToolGrant};
use longhaul_core::view::GateView;

use crate::errands::{crew_spec, see_through, spawned, step};
use crate::sim::{Sim, World};

/// A run whose agent may send others.
fn sending() -> RunSpec {
    let tools = vec![ToolGrant { name: "spawn".to_owned(), class: EffectClass::Checkable, ask: None }];
    RunSpec { tools, ..crew_spec(vec![step("a", "MARS", &[])]) }
}

/// What a person stopped is not begun again: the step fails and says so, and branches that do not need it go on.
#[test]
fn a_child_that_a_person_stopped_is_not_tried_again() {
    let steps = vec![step("a", "PLUTO", &[]), step("b", "MARS", &["a"]), step("c", "VENUS", &[])];
    let mut sim = Sim::create(crew_spec(steps));
    let mut world = World { stopped: vec!["PLUTO"], ..World::with_turns(&[]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, spawned(&sim)), (Status::Failed, 2));
    let status: Vec<_> = sim.run.plan.steps.iter().map(|step| step.status).collect();
    assert_eq!(status, [StepStatus::Failed, StepStatus::Blocked, StepStatus::Completed]);
    let error = sim.run.plan.steps[0].error.as_ref().unwrap();
    assert!(error.starts_with("stopped by a person") && error.contains("enough"), "{error}");
    assert!(world.ended.is_empty(), "nobody stops it a second time");
}

/// A call whose sub-agent a person stopped has failed, and its agent reads why.
#[test]
fn a_call_whose_child_was_stopped_fails_once() {
    let mut sim = Sim::create(sending());
    let mut world = World {
        stopped: vec!["PLUTO"],
        errands: vec![("PLUTO", "look")],
        ..World::with_turns(&[&["spawn"]])
    };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, spawned(&sim)), (Status::Completed, 1));
    let error = sim.run.calls[0].outcome().unwrap().error().unwrap();
    assert!(error.contains("stopped by a person"), "{error}");
}

/// A6.2: of whom nothing is heard for longer than is allowed is ended, and the errand tried once more with why; a shorter silence
/// is none.
#[test]
fn a_silent_child_is_ended_and_tried_again() {
    let limits = Limits { max_child_idle_ms: Some(60_000), ..Limits::default() };
    let spec = || RunSpec { limits, ..crew_spec(vec![step("a", "PLUTO", &[])]) };
    let mut sim = Sim::create(spec());
    let mut world = World { idle: vec![("PLUTO", 61_000)], ..World::with_turns(&[]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, spawned(&sim)), (Status::Completed, 2));
    assert_eq!(world.ended, [sim.run.children[0].errand.id.clone()]);
    let ChildState::Failed { error } = &sim.run.children[0].state else { panic!("it goes on") };
    assert!(error.starts_with("idle: ") && error.contains("61 s"), "{error}");
    assert!(sim.run.children[1].errand.task.contains("nothing came of it for 61 s"));

    let mut sim = Sim::create(spec());
    let mut world = World { idle: vec![("PLUTO", 59_000)], ..World::with_turns(&[]) };
    sim.start().unwrap();
    assert!(sim.step(&mut world), "it is looked after");
    assert!(sim.run.children[0].is_working() && spawned(&sim) == 1 && world.ended.is_empty());
    assert!(matches!(sim.effects.front(), Some(longhaul_core::effect::Effect::Attend { child: 1 })));
}

/// A run that was copied leaves the children of the other alone: what they were for is given out anew, not as a second try.
#[test]
fn a_copied_run_sends_its_own_children() {
    let mut original = Sim::create(crew_spec(vec![step("a", "PLUTO", &[]), step("b", "MARS", &["a"])]));
    original.start().unwrap();
    assert!(original.run.children[0].is_working());
    let mut copy = original.clone();
    let Event::RunCreated(spec) = &mut copy.journal[0].2 else { panic!("it was created") };
    spec.id = longhaul_core::ids::RunId::from_bits(8);
    let mut copy = copy.reopened_at(copy.journal.len());
    let mut world = World::with_turns(&[]);
    let (generation, limits, model, looping) = (2, None, None, None);
    copy.give(Input::Restarted { generation, limits, model, looping }).unwrap();
    copy.settle(&mut world);
    assert_eq!(copy.run.status, Status::Completed);
    assert!(world.ended.is_empty(), "the other run's child goes on");
    let sent: Vec<&str> = world.started.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(sent, [format!("{}.2", copy.run.spec.id)]);
    assert_eq!(copy.run.children[1].errand.attempt, copy.run.children[0].errand.attempt);
}

/// The model that a person names when a run is taken up is also that of those it has sent.
#[test]
fn another_model_reaches_those_under_way() {
    let mut sim = Sim::create(crew_spec(vec![step("a", "PLUTO", &[])]));
    let mut world = World { pausing: vec![("PLUTO", Cause::Provider)], ..World::with_turns(&[]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, &sim.run.children[0].model), (Status::Paused, &None));
    let model = Some("other/model".to_owned());
    sim.wish(Wish::Start { limits: None, model: model.clone(), looping: None }).unwrap();
    assert_eq!((&sim.run.children[0].model, &sim.run.spec.model), (&model, model.as_ref().unwrap()));
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
}

/// A4.5: a run that failed can be given another plan for what is not done; what is done stays, and it goes on to its end.
#[test]
fn a_failed_run_is_replanned() {
    let steps = vec![step("a", "MARS", &[]), step("b", "PLUTO", &["a"]), step("c", "VENUS", &["b"])];
    let mut sim = Sim::create(crew_spec(steps));
    let mut world = World { failing: vec![("PLUTO", 2)], ..World::with_turns(&[]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Failed);
    let plan = Plan { steps: vec![step("d", "VENUS", &["a"])] };
    sim.wish(Wish::Replan { plan: plan.clone() }).unwrap();
    assert_eq!((sim.run.status, &sim.run.error, sim.run.completed_at), (Status::Paused, &None, None));
    let ids: Vec<&str> = sim.run.plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["a", "d"]);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
    let refused = sim.wish(Wish::Replan { plan: plan.clone() }).unwrap_err();
    assert!(refused.to_string().contains("it has ended"), "{refused}");

    let parent = Some(longhaul_core::ids::RunId::from_bits(9));
    let mut child = Sim::create(RunSpec { parent, ..crew_spec(vec![step("a", "PLUTO", &[])]) });
    child.start().unwrap();
    child.settle(&mut World { failing: vec![("PLUTO", 2)], ..World::with_turns(&[]) });
    let refused = child.wish(Wish::Replan { plan }).unwrap_err();
    assert!(refused.to_string().contains("replan that one"), "{refused}");
}

/// Every prefix of a run that failed, was replanned and completed can be taken up and comes to an end.
#[test]
fn a_replanned_run_survives_a_crash_anywhere() {
    let mut sim = Sim::create(crew_spec(vec![step("a", "MARS", &[]), step("b", "PLUTO", &["a"])]));
    let failing = || World { failing: vec![("PLUTO", 2)], ..World::with_turns(&[]) };
    sim.start().unwrap();
    sim.settle(&mut failing());
    sim.wish(Wish::Replan { plan: Plan { steps: vec![step("d", "VENUS", &["a"])] } }).unwrap();
    let replanned = sim.journal.len();
    sim.start().unwrap();
    sim.settle(&mut failing());
    assert_eq!(sim.run.status, Status::Completed);
    for events in replanned..=sim.journal.len() {
        let mut again = sim.reopened_at(events);
        let mut world = failing();
        world.started = again.run.children.iter().map(|child| (child.errand.id.clone(), 1)).collect();
        if again.run.status == Status::Running {
            let (generation, limits, model, looping) = (2, None, None, None);
            again.give(Input::Restarted { generation, limits, model, looping }).unwrap();
        }
        see_through(&mut again, &mut world);
        assert_eq!((again.run.status, again.run.plan.completed_count()), (Status::Completed, 2), "{events}");
    }
}

/// What others did is looked at as a whole before the run is done, by its own commands and its own judge.
#[test]
fn the_whole_is_looked_at_before_the_end() {
    let judge = Judge { model: "p/m".to_owned(), acceptance: Vec::new() };
    let conducts = [
        Conduct { verify: vec!["make test".to_owned()], ..Conduct::default() },
        Conduct { judge: Some(judge), ..Conduct::default() },
    ];
    for (conduct, first) in conducts.into_iter().zip([vec![false], Vec::new()]) {
        let spec = || {
            let conduct = Some(Box::new(conduct.clone()));
            RunSpec { conduct, ..crew_spec(vec![step("a", "PLUTO", &[]), step("b", "VENUS", &["a"])]) }
        };
        let looks = |sim: &Sim| {
            let is_whole =
                |event: &Event| matches!(event, Event::ExamineStarted { purpose: Purpose::Whole, .. });
            sim.events().into_iter().filter(|event| is_whole(event)).count()
        };
        let accepts = |accepted: bool| Some(format!("{{\"accepted\": {accepted}, \"reasons\": [\"no\"]}}"));
        let mut world = World { passes: first, asides: accepts(false), ..World::with_turns(&[]) };
        let mut sim = Sim::create(spec());
        sim.start().unwrap();
        sim.settle(&mut world);
        assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
        assert!(sim.run.reason.as_ref().unwrap().contains("as a whole"), "{:?}", sim.run.reason);
        assert_eq!((looks(&sim), sim.run.plan.completed_count()), (1, 2));
        // Somebody has put it right.
        (world.passes, world.asides) = (vec![true], accepts(true));
        sim.start().unwrap();
        sim.settle(&mut world);
        assert_eq!((sim.run.status, looks(&sim), sim.run.children.len()), (Status::Completed, 2, 2));
        // A crash anywhere does not let it pass unseen.
        for events in 1..=sim.journal.len() {
            let mut again = sim.reopened_at(events);
            let mut world = World { passes: vec![true], asides: accepts(true), ..World::with_turns(&[]) };
            world.started = again.run.children.iter().map(|child| (child.errand.id.clone(), 1)).collect();
            if again.run.status == Status::Running {
                let (generation, limits, model, looping) = (2, None, None, None);
                again.give(Input::Restarted { generation, limits, model, looping }).unwrap();
            }
            see_through(&mut again, &mut world);
            assert_eq!((again.run.status, again.run.unseen), (Status::Completed, false), "{events}");
        }
    }
}

/// A second try is held to the protected files as they were before the first.
#[test]
fn a_second_try_has_the_baseline_of_the_first() {
    let mut sim = Sim::create(crew_spec(vec![step("a", "PLUTO", &[]), step("b", "VENUS", &["a"])]));
    sim.start().unwrap();
    sim.settle(&mut World { failing: vec![("PLUTO", 1)], ..World::with_turns(&[]) });
    let of = |number: u32| {
        longhaul_core::child::spec(&sim.run, &sim.run.child(number).unwrap().errand).baseline_of
    };
    assert_eq!(of(1), None);
    assert_eq!(of(2), Some(sim.run.children[0].errand.id.clone()));
    assert_eq!(of(3), None, "another step is another errand");
}

/// A5.3: whoever is asked about a step is shown whose it is, and approves exactly what was shown.
#[test]
fn a_step_is_approved_by_its_digest() {
    let steps = || vec![step("a", "MARS", &[]), Step { critical: true, ..step("b", "PLUTO", &["a"]) }];
    let asked = |description: &str| {
        let mut steps = steps();
        description.clone_into(&mut steps[1].description);
        let mut sim = Sim::create(RunSpec { autonomy: Autonomy::new(3).unwrap(), ..crew_spec(steps) });
        sim.start().unwrap();
        sim.settle(&mut World::with_turns(&[]));
        sim
    };
    let (mut sim, other) = (asked("do b"), asked("do b otherwise"));
    let digest = |sim: &Sim| sim.run.gate(1).unwrap().digest().unwrap().to_owned();
    assert_ne!(digest(&sim), digest(&other));
    let view = GateView::of(&sim.run, sim.run.gate(1).unwrap());
    assert_eq!((view.agent_name.as_str(), view.digest), ("PLUTO", Some(digest(&sim))));
    let refused = sim.wish(Wish::Approve { gate: 1, digest: Some(digest(&other)) }).unwrap_err();
    assert!(refused.to_string().contains(&digest(&sim)), "{refused}");
    sim.wish(Wish::Approve { gate: 1, digest: Some(digest(&sim)) }).unwrap();
    sim.settle(&mut World::with_turns(&[]));
    assert_eq!(sim.run.status, Status::Completed);
}
