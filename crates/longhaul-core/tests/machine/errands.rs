//! Sub-agents: steps and calls that other runs see to, side by side, through crashes, pauses and failures.

use longhaul_core::child::{Child, ChildEnding, ChildLedger, ChildReport, ChildState, Origin};
use longhaul_core::command::Wish;
use longhaul_core::effect::Effect;
use longhaul_core::event::{Cause, Event};
use longhaul_core::input::Input;
use longhaul_core::money::Usd;
use longhaul_core::plan::{Plan, Step, StepStatus};
use longhaul_core::run::{Phase, Run};
use longhaul_core::spec::{Autonomy, Limits, Mate, Planner, RunSpec};
use longhaul_core::status::{Status, Wait};
use longhaul_core::tool::{EffectClass, ToolGrant};
use proptest::prelude::*;

use crate::sim::{Sim, World, spec};

pub fn mate(name: &str) -> Mate {
    Mate { name: name.to_owned(), role: "helps".to_owned() }
}

pub fn step(id: &str, agent: &str, dependencies: &[&str]) -> Step {
    let dependencies = dependencies.iter().map(|id| (*id).to_owned()).collect();
    Step { dependencies, ..Step::new(id, &format!("do {id}"), agent) }
}

pub fn crew_spec(steps: Vec<Step>) -> RunSpec {
    let crew = Some(vec![mate("PLUTO"), mate("VENUS"), mate("ERIS")]);
    RunSpec { plan: Plan { steps }.checked().unwrap(), crew, ..spec() }
}

/// Eight steps of three agents, two of them critical.
fn eight() -> RunSpec {
    let critical = |step: Step| Step { critical: true, ..step };
    crew_spec(vec![
        step("a", "MARS", &[]),
        step("b", "PLUTO", &["a"]),
        step("c", "VENUS", &["a"]),
        critical(step("d", "PLUTO", &["b"])),
        step("e", "MARS", &["c"]),
        step("f", "VENUS", &["a"]),
        critical(step("g", "MARS", &["d", "e"])),
        step("h", "PLUTO", &["f", "g"]),
    ])
}

fn world() -> World {
    World { failing: vec![("VENUS", 1)], ..World::with_turns(&[&["read"]]) }
}

/// Goes on until the run ends: whatever waits is approved, whatever is paused is started again.
pub fn see_through(sim: &mut Sim, world: &mut World) {
    for _ in 0..200 {
        match sim.run.status {
            Status::Created | Status::Paused => sim.start().unwrap(),
            Status::Running => {}
            Status::Completed | Status::Failed => return,
        }
        sim.settle(world);
        let open: Vec<u32> = sim.run.step_gates().map(|gate| gate.number).collect();
        for gate in open {
            sim.wish(Wish::Approve { gate, digest: None }).unwrap();
        }
    }
    panic!("the run never ended: {:?} {:?}", sim.run.phase, sim.run.plan);
}

fn kinds(sim: &Sim, of: fn(&Event) -> bool) -> usize {
    sim.events().into_iter().filter(|event| of(event)).count()
}

pub fn spawned(sim: &Sim) -> usize {
    kinds(sim, |event| matches!(event, Event::ChildSpawned(_)))
}

/// A6.1, A6.3: a step of another agent is a child's, and what that says is the step's output.
#[test]
fn a_step_of_another_agent_is_an_errand() {
    let mut sim = Sim::create(crew_spec(vec![step("a", "MARS", &[]), step("b", "PLUTO", &["a"])]));
    let mut world = World::with_turns(&[]);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
    let child = &sim.run.children[0];
    assert_eq!(child.errand.agent, "PLUTO");
    assert_eq!(child.state, ChildState::Completed);
    assert_eq!(child.errand.id.as_str(), format!("{}.1", sim.run.spec.id));
    let output = sim.run.plan.steps[1].output.clone().unwrap();
    assert!(output.contains("turn 1") && output.ends_with("do b by PLUTO"), "{output}");
    assert_eq!(sim.run.sub_agents, [child.errand.id.to_string()]);
}

/// A6.4, AE6: one failure is tried again with what went wrong; two fail the step and block what needs it, and a branch
/// that does not need it is finished all the same.
#[test]
fn a_failed_errand_is_tried_once_more() {
    let steps = || vec![step("a", "PLUTO", &[]), step("b", "MARS", &["a"]), step("c", "VENUS", &[])];
    for (times, status) in [(1, Status::Completed), (2, Status::Failed)] {
        let mut sim = Sim::create(crew_spec(steps()));
        let mut world = World { failing: vec![("PLUTO", times)], ..World::with_turns(&[]) };
        sim.start().unwrap();
        sim.settle(&mut world);
        assert_eq!(sim.run.status, status);
        let of_a: Vec<_> =
            sim.run.children.iter().filter(|child| child.errand.origin == Origin::Step { step: 0 }).collect();
        assert_eq!(of_a.len(), 2, "{times}");
        assert!(of_a[1].errand.task.contains("PLUTO broke"));
        let status = |index: usize| sim.run.plan.steps[index].status;
        assert_eq!(status(2), StepStatus::Completed, "the other branch is not lost");
        if times == 2 {
            assert_eq!((status(0), status(1)), (StepStatus::Failed, StepStatus::Blocked));
            assert_eq!(kinds(&sim, |event| matches!(event, Event::StepFailed { .. })), 1);
        }
    }
}

/// A6.5, AD5, AE7: nobody is sent deeper than the limit, and the error names it.
#[test]
fn nesting_is_limited() {
    for (depth, max, works) in
        [(0, 3, true), (2, 3, true), (3, 3, false), (1, 1, false), (0, 1, true), (0, 0, false)]
    {
        let limits = Limits { max_sub_agent_depth: max, ..Limits::default() };
        let mut sim = Sim::create(RunSpec { depth, limits, ..crew_spec(vec![step("a", "PLUTO", &[])]) });
        sim.start().unwrap();
        sim.settle(&mut World::with_turns(&[]));
        assert_eq!(sim.run.status == Status::Completed, works, "{depth} of {max}");
        assert_eq!(sim.run.children.len(), usize::from(works));
        if !works {
            assert!(sim.run.error.as_ref().unwrap().contains("max_sub_agent_depth"), "{:?}", sim.run.error);
        }
    }
}

/// A step at its gate does not keep other branches from going on, and neither does a child that asks a person.
#[test]
fn other_branches_go_on_while_a_person_is_waited_for() {
    let critical = Step { critical: true, ..step("a", "MARS", &[]) };
    let steps = vec![critical, step("b", "MARS", &[]), step("c", "PLUTO", &[]), step("d", "VENUS", &["c"])];
    let mut sim = Sim::create(RunSpec { autonomy: Autonomy::new(3).unwrap(), ..crew_spec(steps) });
    let mut world = World { asking: vec!["PLUTO"], ..World::with_turns(&[&["read"]]) };
    sim.start().unwrap();
    // The child's own wait is answered by nobody here.
    while let Some(effect) = sim.effects.pop_front() {
        if !matches!(effect, Effect::AwaitAnswer { .. }) {
            sim.effects.push_front(effect);
            sim.step(&mut world);
        }
    }
    let status = |sim: &Sim, index: usize| sim.run.plan.steps[index].status;
    assert_eq!(status(&sim, 0), StepStatus::Ready);
    assert_eq!(status(&sim, 1), StepStatus::Completed);
    assert_eq!(sim.run.wait(), Wait::Human);
    assert_eq!(sim.run.children[0].state, ChildState::Waiting);
    sim.give(Input::ChildAnswered { number: 1 }).unwrap();
    assert_eq!(sim.run.wait(), Wait::Child);
    sim.settle(&mut world);
    assert_eq!(status(&sim, 3), StepStatus::Completed);
    assert_eq!((sim.run.status, sim.run.wait()), (Status::Running, Wait::Human));
    see_through(&mut sim, &mut world);
    assert_eq!(sim.run.status, Status::Completed);
}

/// Steps of the run's own agent share its one conversation, unless it was told to do several at once.
#[test]
fn own_steps_run_side_by_side_only_when_told() {
    let steps = || vec![step("a", "MARS", &[]), step("b", "MARS", &[]), step("c", "MARS", &[])];
    for (parallel, children) in [(None, 0), (Some(1), 0), (Some(2), 1), (Some(3), 2)] {
        let mut sim = Sim::create(RunSpec { parallel, ..crew_spec(steps()) });
        sim.start().unwrap();
        let under_way = sim.run.plan.steps.iter().filter(|step| step.status == StepStatus::Running).count();
        assert_eq!(under_way, children + 1, "{parallel:?}");
        sim.settle(&mut World::with_turns(&[]));
        assert_eq!(sim.run.status, Status::Completed);
    }
}

/// Errands are given side by side, and never more than may be at work at once.
#[test]
fn errands_are_bounded() {
    let steps = (0..10).map(|index| step(&format!("s{index}"), "PLUTO", &[])).collect();
    let mut sim = Sim::create(RunSpec { parallel: Some(3), ..crew_spec(steps) });
    let mut world = World::with_turns(&[]);
    sim.start().unwrap();
    let mut most = 0;
    loop {
        most = most.max(sim.run.live_children().count());
        if !sim.step(&mut world) {
            break;
        }
    }
    assert_eq!((most, sim.run.status), (3, Status::Completed));
}

/// A5.3: a ready step for which there was no room begins when an errand that an agent sent by itself comes back, not only when
/// the step in hand is done.
#[test]
fn a_ready_step_takes_the_room_of_an_errand_that_came_back() {
    let grant = ToolGrant { name: "spawn".to_owned(), class: EffectClass::Checkable, ask: None };
    let steps = vec![step("a", "MARS", &[]), step("b", "PLUTO", &[]), step("c", "PLUTO", &["b"])];
    let mut sim = Sim::create(RunSpec { tools: vec![grant], parallel: Some(2), ..crew_spec(steps) });
    let mut world = World { errands: vec![("VENUS", "look")], ..World::with_turns(&[&["spawn"]]) };
    sim.start().unwrap();
    let place = sim.effects.iter().position(|effect| matches!(effect, Effect::CallModel { .. })).unwrap();
    sim.effects.rotate_left(place);
    sim.step(&mut world);
    let agents =
        |sim: &Sim| sim.run.live_children().map(|child| child.errand.agent.clone()).collect::<Vec<_>>();
    assert_eq!(agents(&sim), ["PLUTO", "VENUS"]);
    let rested = |number: u32| {
        let ending = ChildEnding::Completed { output: "done".to_owned() };
        Input::ChildRested { number, report: ChildReport { ending, ledger: ChildLedger::default() } }
    };
    sim.give(rested(1)).unwrap();
    assert_eq!(sim.run.plan.steps[2].status, StepStatus::Ready, "the one in hand and VENUS are two");
    sim.give(rested(2)).unwrap();
    assert_eq!((sim.run.plan.steps[2].status, agents(&sim)), (StepStatus::Running, vec!["PLUTO".to_owned()]));
    assert!(matches!(sim.run.phase, Phase::Thinking { turn: 2, .. }), "and the step in hand goes on");
    sim.effects.retain(|effect| !matches!(effect, Effect::Attend { child: 1 | 2 }));
    sim.settle(&mut world);
    assert_eq!((sim.run.status, spawned(&sim)), (Status::Completed, 3));
}

/// Crash matrix: a run with eight steps, three agents, two gates and a child that fails once, killed at every event, ends
/// as it would have; every child is started once, every approval counts once.
#[test]
fn every_prefix_of_a_run_with_errands_ends_the_same() {
    let gated = || RunSpec { autonomy: Autonomy::new(3).unwrap(), ..eight() };
    let mut whole_world = world();
    let mut whole = Sim::create(gated());
    see_through(&mut whole, &mut whole_world);
    assert_eq!(whole.run.status, Status::Completed);
    assert_eq!(spawned(&whole), 5 + 2, "five errands, two of them tried twice");
    let end = |run: &Run| {
        run.plan
            .steps
            .iter()
            .map(|step| (step.id.clone(), step.status, step.output.clone()))
            .collect::<Vec<_>>()
    };
    for length in 1..=whole.journal.len() {
        let mut sim = whole.reopened_at(length);
        // Children live on in their own journals: what was started before the crash is there.
        let mut world = world();
        world.started = sim.run.children.iter().map(|child| (child.errand.id.clone(), 1)).collect();
        if sim.run.status == Status::Running {
            sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
        }
        see_through(&mut sim, &mut world);
        assert_eq!(end(&sim.run), end(&whole.run), "prefix {length}");
        assert_eq!(spawned(&sim), spawned(&whole), "prefix {length}");
        let mut ids: Vec<_> = world.started.iter().map(|(id, _)| id.clone()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), world.started.len(), "prefix {length}: a child was started twice");
        let answered = kinds(&sim, |event| matches!(event, Event::GateAnswered { .. }));
        assert_eq!(answered, sim.run.gates.len(), "prefix {length}");
        assert_eq!(sim.run.gates.len(), 2, "prefix {length}");
    }
}

/// Pausing keeps children where they are and starting takes them up; stopping ends them.
#[test]
fn pause_and_stop_reach_the_children() {
    let steps = || vec![step("a", "PLUTO", &[]), step("b", "VENUS", &[])];
    let mut sim = Sim::create(crew_spec(steps()));
    sim.start().unwrap();
    sim.pause().unwrap();
    assert_eq!(sim.run.live_children().count(), 2);
    let mut world = World::with_turns(&[]);
    see_through(&mut sim, &mut world);
    assert_eq!((sim.run.status, spawned(&sim)), (Status::Completed, 2));

    let mut sim = Sim::create(crew_spec(steps()));
    let mut world = World::with_turns(&[]);
    sim.start().unwrap();
    sim.stop().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Failed);
    assert_eq!(world.ended.len(), 2);
    assert!(sim.run.plan.steps.iter().all(|step| step.status == StepStatus::Failed));
}

/// A child that stops by itself stops its parent when nothing else can go on, and is taken up with it.
#[test]
fn a_child_that_pauses_pauses_its_parent() {
    let mut sim = Sim::create(crew_spec(vec![step("a", "PLUTO", &[]), step("b", "MARS", &[])]));
    let mut world = World { pausing: vec![("PLUTO", Cause::Parked)], ..World::with_turns(&[&["read"]]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Parked)));
    assert!(sim.run.reason.as_ref().unwrap().contains("stuck"), "{:?}", sim.run.reason);
    assert_eq!(sim.run.plan.steps[1].status, StepStatus::Completed, "the other step went on");
    see_through(&mut sim, &mut world);
    assert_eq!((sim.run.status, spawned(&sim)), (Status::Completed, 1));
}

/// Money is set aside for every child before it begins: all of them together never have more than there is.
#[test]
fn what_children_may_spend_is_set_aside() {
    let steps = (0..4).map(|index| step(&format!("s{index}"), "PLUTO", &[])).collect();
    let limits = Limits { max_cost: Usd::from_dollars(1.0), max_tokens: Some(1000), ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, ..crew_spec(steps) });
    sim.start().unwrap();
    let granted: Vec<Limits> = sim.run.children.iter().map(|child| child.errand.limits).collect();
    assert_eq!(granted.len(), 4);
    let cost: Usd = granted.iter().filter_map(|limits| limits.max_cost).sum();
    let tokens: u64 = granted.iter().filter_map(|limits| limits.max_tokens).sum();
    assert!(cost <= limits.max_cost.unwrap() && tokens <= 1000, "{granted:?}");
    assert!(granted.iter().all(|limits| limits.max_cost.unwrap() >= Usd::from_dollars(0.2).unwrap()));
    sim.settle(&mut World::with_turns(&[]));
    // What is counted in the end is what was used, not what was set aside.
    assert_eq!(sim.run.ledger().usage.tokens(), 4 * 11);
    assert_eq!(sim.run.ledger().calls, 8);
}

/// AI8: calls and turns are set aside as well, so that those at work at once never have more than there is together; whoever
/// would be sent with none waits for those at work.
#[test]
fn calls_and_turns_are_set_aside() {
    for (calls, turns, sent) in [(4, 5, 4), (2, 100, 2), (100, 3, 3), (100, 200, 4), (0, 9, 1)] {
        let steps = (0..4).map(|index| step(&format!("s{index}"), "PLUTO", &[])).collect();
        let limits = Limits { max_tool_calls: calls, max_steps: turns, ..Limits::default() };
        let mut sim = Sim::create(RunSpec { limits, ..crew_spec(steps) });
        sim.start().unwrap();
        let granted: Vec<Limits> = sim.run.children.iter().map(|child| child.errand.limits).collect();
        assert_eq!(granted.len(), sent, "{calls} {turns}");
        assert!(granted.iter().map(|limits| limits.max_tool_calls).sum::<u32>() <= calls, "{granted:?}");
        assert!(granted.iter().map(|limits| limits.max_steps).sum::<u32>() <= turns, "{granted:?}");
        assert!(granted.iter().all(|limits| limits.max_tool_calls >= calls / 4), "{granted:?}");
    }
}

/// What was set aside stays so when a run is taken up again: its children may have used it without having said so.
#[test]
fn calls_stay_set_aside_when_a_run_is_taken_up() {
    let steps = (0..4).map(|index| step(&format!("s{index}"), "PLUTO", &[])).collect();
    let limits = Limits { max_tool_calls: 9, ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, ..crew_spec(steps) });
    sim.start().unwrap();
    let granted = |sim: &Sim| -> Vec<u32> {
        sim.run.children.iter().map(|child| child.errand.limits.max_tool_calls).collect()
    };
    let before = granted(&sim);
    assert_eq!(before.iter().sum::<u32>(), 9, "{before:?}");
    sim.wish(Wish::Pause { reason: "for a while".to_owned() }).unwrap();
    sim.start().unwrap();
    assert_eq!(granted(&sim), before);
}

/// Who comes to the end of its calls while others are at work gets of what those who ended did not use; in the end the run
/// pauses, and says so in the numbers that were set for it.
#[test]
fn calls_that_are_left_over_are_passed_on() {
    let steps = vec![step("a", "PLUTO", &[]), step("b", "VENUS", &[]), step("c", "ERIS", &[])];
    let limits = Limits { max_tool_calls: 12, ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, ..crew_spec(steps) });
    sim.start().unwrap();
    let granted = |sim: &Sim| -> Vec<u32> {
        sim.run.children.iter().map(|child| child.errand.limits.max_tool_calls).collect()
    };
    assert_eq!(granted(&sim), [4, 4, 4]);
    let rested = |number: u32, calls: u32, ending: ChildEnding| {
        let ledger = ChildLedger { calls, turns: 1, ..ChildLedger::default() };
        Input::ChildRested { number, report: ChildReport { ending, ledger } }
    };
    let out = || ChildEnding::Paused { cause: Cause::Limit, reason: "4 of 4 used".to_owned() };
    sim.give(rested(1, 4, out())).unwrap();
    assert_eq!(granted(&sim), [4, 4, 4], "the others may use theirs");
    sim.give(rested(2, 1, ChildEnding::Completed { output: "b".to_owned() })).unwrap();
    assert_eq!(granted(&sim), [6, 4, 4], "half of the three that came back");
    sim.give(rested(1, 6, out())).unwrap();
    sim.give(rested(3, 4, out())).unwrap();
    assert_eq!(granted(&sim), [7, 4, 4], "all that there is, but for the three that `b` left");
    sim.give(rested(1, 7, out())).unwrap();
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)));
    let reason = sim.run.reason.clone().unwrap();
    assert!(reason.contains("max_tool_calls reached: 12 of 12 used"), "{reason}");
}

/// A child at the end of its part gets what the others gave back; when nothing is left, the run pauses at its limit.
#[test]
fn what_is_given_back_goes_to_whoever_needs_it() {
    let steps = || vec![step("a", "PLUTO", &[]), step("b", "VENUS", &[])];
    let limits = Limits { max_tokens: Some(1000), ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, ..crew_spec(steps()) });
    let mut world = World { pausing: vec![("PLUTO", Cause::Limit)], ..World::with_turns(&[]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed, "{:?}", sim.run.reason);
    let raised = sim.run.children[0].errand.limits.max_tokens.unwrap();
    assert!(raised > 500 && raised <= 1000 - 11, "{raised}");

    let limits = Limits { max_tokens: Some(22), ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, ..crew_spec(steps()) });
    let mut world = World { pausing: vec![("PLUTO", Cause::Limit)], ..World::with_turns(&[]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)));
}

/// A4.6: a rejected step pauses the run; another plan for the rest keeps what is done and asks anew.
#[test]
fn a_rejection_leads_to_another_plan() {
    let critical = Step { critical: true, ..step("b", "MARS", &["a"]) };
    let steps = vec![step("a", "MARS", &[]), critical];
    let mut sim = Sim::create(RunSpec { autonomy: Autonomy::new(3).unwrap(), ..crew_spec(steps) });
    let mut world = World::with_turns(&[]);
    sim.start().unwrap();
    sim.settle(&mut world);
    sim.wish(Wish::Reject { gate: 1, reason: "too bold".to_owned() }).unwrap();
    assert_eq!((sim.run.status, sim.run.reason.as_deref()), (Status::Paused, Some("too bold")));
    for (steps, why) in [
        (vec![step("a", "MARS", &[])], "completed"),
        (vec![step("c", "MARS", &["b"])], "no step has the id"),
        (vec![step("c", "NOBODY", &[])], "no agent `NOBODY`"),
        (vec![], "at least one step"),
    ] {
        let refused = sim.wish(Wish::Replan { plan: Plan { steps } }).unwrap_err().to_string();
        assert!(refused.contains(why), "{refused}");
    }
    let critical = Step { critical: true, ..step("c", "MARS", &["a"]) };
    sim.wish(Wish::Replan { plan: Plan { steps: vec![critical, step("d", "PLUTO", &["c"])] } }).unwrap();
    let ids: Vec<&str> = sim.run.plan.steps.iter().map(|step| step.id.as_str()).collect();
    assert_eq!(ids, ["a", "c", "d"]);
    assert_eq!(sim.run.plan.steps[0].output.as_deref(), Some("turn 1"));
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.wait(), Wait::Human, "what was said of the old plan does not count for the new one");
    see_through(&mut sim, &mut world);
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.run.gates.len(), 2);
}

/// Money that a child did not use is there for the next one, for the second try, and for the run itself.
#[test]
fn a_budget_lasts_for_a_chain_of_errands() {
    for (limit, failing) in [(1000, 0), (1000, 1), (60, 0)] {
        let limits = Limits { max_tokens: Some(limit), ..Limits::default() };
        let steps = vec![
            step("a", "PLUTO", &[]),
            step("b", "VENUS", &["a"]),
            step("c", "MARS", &["b"]),
            step("d", "PLUTO", &["c"]),
        ];
        let mut sim = Sim::create(RunSpec { limits, ..crew_spec(steps) });
        let mut world = World { failing: vec![("VENUS", failing)], ..World::with_turns(&[]) };
        sim.start().unwrap();
        sim.settle(&mut world);
        assert_eq!(sim.run.status, Status::Completed, "{limit}: {:?}", sim.run.reason);
        for child in &sim.run.children {
            assert!(
                child.errand.limits.max_tokens.unwrap() > 0,
                "{limit}: nothing was left for {:?}",
                child.errand
            );
        }
    }
}

/// An errand that failed twice while its run was being paused is settled when the run goes on; its journal stays readable.
#[test]
fn a_failure_during_a_pause_is_settled_later() {
    let mut sim = Sim::create(crew_spec(vec![step("a", "PLUTO", &[]), step("b", "VENUS", &["a"])]));
    let mut world = World { failing: vec![("PLUTO", 2)], ..World::with_turns(&[]) };
    sim.start().unwrap();
    sim.step(&mut world);
    assert_eq!(sim.run.children.len(), 2);
    let second = sim.effects.pop_front().unwrap();
    sim.pause().unwrap();
    sim.effects.push_front(second);
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Paused);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Failed);
    assert_eq!(kinds(&sim, |event| matches!(event, Event::StepFailed { .. })), 1);
    assert_eq!(sim.reopened_at(sim.journal.len()).run.status, Status::Failed);
}

/// Another plan ends what was begun for the old one: no child of it hands anything in, no gate of it opens a new step, no call of
/// it is made, whoever makes the plan.
#[test]
fn another_plan_ends_what_the_old_one_began() {
    let planner = Some(Box::new(Planner { model: None, prompt: "You plan.".to_owned() }));
    for by_planner in [true, false] {
        let steps = vec![step("a", "PLUTO", &[]), Step { critical: true, ..step("b", "MARS", &[]) }];
        let autonomy = Autonomy::new(3).unwrap();
        let mut sim = Sim::create(RunSpec { autonomy, planner: planner.clone(), ..crew_spec(steps) });
        let first = r#"{"steps":[{"id":"a","description":"do a","assignedAgent":"PLUTO"},
            {"id":"b","description":"do b","assignedAgent":"MARS","critical":true}]}"#;
        let other = r#"{"steps":[{"id":"c","description":"do c","assignedAgent":"VENUS","critical":true},
            {"id":"d","description":"do d","assignedAgent":"MARS","critical":true}]}"#;
        let mut world = World { plans: vec![first.to_owned()], ..World::with_turns(&[]) };
        sim.start().unwrap();
        sim.step(&mut world);
        assert_eq!((sim.run.live_children().count(), sim.run.step_gates().count()), (1, 1));
        sim.wish(Wish::Reject { gate: 1, reason: "no".to_owned() }).unwrap();
        sim.effects.clear();
        world.plans = vec![other.to_owned()];
        if by_planner {
            sim.wish(Wish::Plan).unwrap();
            sim.settle(&mut world);
        } else {
            let critical = |step: Step| Step { critical: true, ..step };
            let steps = vec![critical(step("c", "VENUS", &[])), critical(step("d", "MARS", &[]))];
            sim.wish(Wish::Replan { plan: Plan { steps } }).unwrap();
            sim.settle(&mut world);
        }
        assert_eq!(sim.run.live_children().count(), 0, "{by_planner}");
        assert_eq!(world.ended.len(), 1, "{by_planner}");
        sim.start().unwrap();
        sim.settle(&mut world);
        assert!(sim.run.plan.steps.iter().all(|step| step.status == StepStatus::Ready), "{:?}", sim.run.plan);
        assert_eq!(sim.run.step_gates().count(), 2, "{by_planner}");
        see_through(&mut sim, &mut world);
        assert_eq!(sim.run.status, Status::Completed);
    }
}

/// A step that a person is asked about in its middle gives way to another plan: the question goes with it.
#[test]
fn a_question_of_the_old_plan_is_gone_with_it() {
    let grant = |name: &str, class| ToolGrant { name: name.to_owned(), class, ask: Some(true) };
    let tools = vec![grant("read", EffectClass::Repeatable)];
    let mut sim = Sim::create(RunSpec { tools, ..crew_spec(vec![step("a", "MARS", &[])]) });
    let mut world = World::with_turns(&[&["read", "read"]]);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.wait(), Wait::Human);
    sim.pause().unwrap();
    sim.wish(Wish::Replan { plan: Plan { steps: vec![step("b", "MARS", &[])] } }).unwrap();
    assert!(sim.run.calls.iter().all(|call| call.has_ended()), "{:?}", sim.run.calls);
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.wait(), Wait::Human, "the new step asks for itself");
    let open: Vec<u32> =
        sim.run.gates.iter().filter(|gate| gate.answer.is_none()).map(|gate| gate.number).collect();
    assert_eq!(open.len(), 1);
}

/// While one errand asks for leave, another that comes back does not begin the next turn; and a paused one pauses its sender.
#[test]
fn errands_of_one_turn_wait_for_each_other() {
    let grant = |ask| ToolGrant { name: "spawn".to_owned(), class: EffectClass::Checkable, ask };
    let spec = |ask| RunSpec { tools: vec![grant(ask)], ..crew_spec(vec![step("a", "MARS", &[])]) };
    let errands = vec![("PLUTO", "look"), ("VENUS", "think")];
    let mut sim = Sim::create(spec(Some(true)));
    let mut world = World { errands: errands.clone(), ..World::with_turns(&[&["spawn", "spawn"]]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    sim.wish(Wish::Approve { gate: 1, digest: None }).unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.turns, sim.run.wait()), (1, Wait::Human));
    sim.wish(Wish::Approve { gate: 2, digest: None }).unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.turns), (Status::Completed, 2));

    let mut sim = Sim::create(spec(None));
    let pausing = vec![("PLUTO", Cause::Provider)];
    let mut world = World { errands, pausing, ..World::with_turns(&[&["spawn", "spawn"]]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Provider)));
    see_through(&mut sim, &mut world);
    assert_eq!((sim.run.status, spawned(&sim)), (Status::Completed, 2));
}

/// What a planner wants run is held to the rules that its agents are held to.
#[test]
fn a_planner_cannot_order_what_is_denied() {
    let planner = Some(Box::new(Planner { model: None, prompt: "You plan.".to_owned() }));
    let rules: longhaul_core::permission::Permissions =
        serde_json::from_str(r#"{"bash":{"*":"allow","git push *":"deny"}}"#).unwrap();
    let spec = RunSpec { planner, permissions: Some(vec![rules]), ..crew_spec(vec![step("x", "MARS", &[])]) };
    let mut sim = Sim::create(spec);
    let plan = |command: &str| {
        format!(
            r#"{{"steps":[{{"id":"p","description":"do","assignedAgent":"MARS","verify":["{command}"]}}]}}"#
        )
    };
    let mut world =
        World { plans: vec![plan("git push origin main"), plan("true")], ..World::with_turns(&[]) };
    sim.wish(Wish::Plan).unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.plan.steps[0].verify.as_deref(), Some(&["true".to_owned()][..]));
    let refused = sim.events().iter().any(|event| {
        matches!(event, Event::PlanRefused { why } if why.contains("steps[0].verify[0]: not permitted"))
    });
    assert!(refused);
}

/// Errands that an agent gives itself: those of one turn side by side, the model asked again when all are back; killed at
/// every event, each is started once.
#[test]
fn every_prefix_of_a_run_that_sends_others_ends_the_same() {
    let grant = |name: &str, class| ToolGrant { name: name.to_owned(), class, ask: None };
    let tools = vec![grant("read", EffectClass::Repeatable), grant("spawn", EffectClass::Checkable)];
    let spec =
        || RunSpec { tools: tools.clone(), parallel: Some(2), ..crew_spec(vec![step("a", "MARS", &[])]) };
    let world = || World {
        failing: vec![("VENUS", 1)],
        errands: vec![("PLUTO", "look"), ("VENUS", "think"), ("ERIS", "count")],
        ..World::with_turns(&[&["spawn", "spawn", "spawn", "read"], &["read"]])
    };
    let mut whole = Sim::create(spec());
    whole.start().unwrap();
    let mut most = 0;
    let mut first = world();
    while whole.step(&mut first) {
        most = most.max(whole.run.live_children().count());
    }
    assert_eq!((whole.run.status, most), (Status::Completed, 2));
    assert_eq!(spawned(&whole), 4, "three, one of them twice");
    let end = |run: &Run| {
        let outcome = |call: &longhaul_core::run::Call| (call.tool.clone(), call.outcome().cloned());
        run.calls.iter().map(outcome).collect::<Vec<_>>()
    };
    for length in 1..=whole.journal.len() {
        let mut sim = whole.reopened_at(length);
        let mut world = world();
        world.started = sim.run.children.iter().map(|child| (child.errand.id.clone(), 1)).collect();
        if sim.run.status == Status::Running {
            sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
        }
        see_through(&mut sim, &mut world);
        assert_eq!(end(&sim.run), end(&whole.run), "prefix {length}");
        assert_eq!(spawned(&sim), spawned(&whole), "prefix {length}");
    }
}

/// A64, A105: what an agent may not ask of another is refused, and said why.
#[test]
fn errands_that_cannot_be_are_refused() {
    let grant = |name: &str, class| ToolGrant { name: name.to_owned(), class, ask: None };
    let tools = vec![grant("spawn", EffectClass::Checkable)];
    for (agent, task, depth, why) in [
        ("PLUTTO", "look", 0, "did you mean `PLUTO`?"),
        ("", "look", 0, "`agent` is empty"),
        ("PLUTO", " ", 0, "`task` is empty"),
        ("PLUTO", "look", 3, "max_sub_agent_depth"),
    ] {
        let spec = RunSpec { depth, tools: tools.clone(), ..crew_spec(vec![step("a", "MARS", &[])]) };
        let mut sim = Sim::create(spec);
        let mut world = World { errands: vec![(agent, task)], ..World::with_turns(&[&["spawn"]]) };
        sim.start().unwrap();
        sim.settle(&mut world);
        let error = sim.run.calls[0].outcome().unwrap().error().unwrap().to_owned();
        assert!(error.contains(why), "{error}");
        assert_eq!((sim.run.status, sim.run.children.len()), (Status::Completed, 0));
    }
}

/// A planner is asked for the steps, once more if its answer cannot be used, and a run without a plan does nothing else.
#[test]
fn a_plan_is_asked_for() {
    let planner = Some(Box::new(Planner { model: None, prompt: "You plan.".to_owned() }));
    let planned = |answers: &[&str]| {
        let mut sim =
            Sim::create(RunSpec { planner: planner.clone(), ..crew_spec(vec![step("x", "MARS", &[])]) });
        let plans = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let mut world = World { plans, ..World::with_turns(&[]) };
        sim.start().unwrap();
        sim.settle(&mut world);
        (sim, world)
    };
    let good = r#"Here: {"steps":[{"id":"p1","description":"look","assignedAgent":"MARS"},
        {"id":"p2","description":"check","assignedAgent":"PLUTO","dependencies":["p1"]}]} as asked."#;
    let (sim, _) = planned(&[good]);
    assert_eq!((sim.run.status, sim.run.plan.steps.len()), (Status::Completed, 2));
    assert_eq!(sim.run.usage.tokens(), 2 * 11, "the planner is paid for, and the first step");

    let bad = r#"{"steps":[{"id":"p1","description":"look","assignedAgent":"NOBODY"}]}"#;
    let (sim, _) = planned(&[bad, good]);
    assert_eq!(sim.run.status, Status::Completed);
    let asked = kinds(&sim, |event| matches!(event, Event::PlanRefused { why } if why.contains("NOBODY")));
    assert_eq!(asked, 1);

    let (sim, _) = planned(&[bad, "I would rather not."]);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Parked)));
    assert!(sim.run.reason.as_ref().unwrap().contains("no_plan"), "{:?}", sim.run.reason);
    assert_eq!(sim.run.turns, 0);
}

/// Killed at every event while it is planned and worked on, a run ends the same; what the planner is told of a bad answer is kept.
#[test]
fn every_prefix_of_a_planned_run_ends_the_same() {
    let planner = Some(Box::new(Planner { model: None, prompt: "You plan.".to_owned() }));
    let spec = || RunSpec { planner: planner.clone(), ..crew_spec(vec![step("x", "MARS", &[])]) };
    let good = r#"{"steps":[{"id":"p1","description":"look","assignedAgent":"PLUTO"}]}"#;
    let world = || World { plans: vec!["no".to_owned(), good.to_owned()], ..World::with_turns(&[]) };
    let mut whole = Sim::create(spec());
    whole.start().unwrap();
    whole.settle(&mut world());
    assert_eq!(whole.run.status, Status::Completed);
    for length in 1..=whole.journal.len() {
        let mut sim = whole.reopened_at(length);
        if sim.run.status == Status::Running {
            sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
        }
        see_through(&mut sim, &mut world());
        assert_eq!(sim.run.plan.steps[0].output, whole.run.plan.steps[0].output, "prefix {length}");
        assert_eq!(spawned(&sim), 1, "prefix {length}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Feature: agent-harnesses, Property 15: Sub-agent spawning and tracking
    ///
    /// AP15: every step of another agent that begins is an errand, and no other; what its run says of it is what became of it,
    /// in whichever order they come back.
    #[test]
    fn prop_15_spawning(plan in plans(), order in prop::collection::vec(any::<prop::sample::Index>(), 0..30), failing in 0u32..3) {
        let mut sim = Sim::create(crew_spec(plan));
        let mut world = World { failing: vec![("PLUTO", failing)], ..World::with_turns(&[]) };
        sim.start().unwrap();
        for index in order {
            for (number, step) in sim.run.plan.steps.iter().enumerate().filter(|(_, step)| step.status != StepStatus::Pending) {
                let of_step = |child: &&Child| child.errand.origin == Origin::Step { step: number as u32 };
                let tracked: Vec<&Child> = sim.run.children.iter().filter(of_step).collect();
                prop_assert!(tracked.iter().all(|child| child.errand.agent == step.agent && step.agent != "MARS"));
                prop_assert!(tracked.iter().all(|child| sim.run.sub_agents.contains(&child.errand.id.to_string())));
                let state = tracked.last().map(|child| &child.state);
                let is_right = match (step.agent.as_str(), step.status) {
                    ("MARS", _) | (_, StepStatus::Ready | StepStatus::Pending | StepStatus::Blocked) => state.is_none(),
                    (_, StepStatus::Running) => state == Some(&ChildState::Working),
                    (_, StepStatus::Completed) => state == Some(&ChildState::Completed),
                    (_, StepStatus::Failed) => matches!(state, Some(ChildState::Failed { .. })),
                };
                prop_assert!(is_right, "{step:?} has {state:?}");
            }
            if !sim.effects.is_empty() {
                let place = index.index(sim.effects.len());
                sim.effects.rotate_left(place);
                sim.step(&mut world);
            }
        }
    }

    /// Feature: agent-harnesses, Property 16: Sub-agent result incorporation
    ///
    /// AP16: however children come back, each step gets the output of its own child.
    #[test]
    fn prop_16_results(order in prop::collection::vec(any::<prop::sample::Index>(), 1..20), count in 1usize..8) {
        let agents = ["PLUTO", "VENUS", "ERIS"];
        let steps = (0..count).map(|index| step(&format!("s{index}"), agents[index % 3], &[])).collect();
        let mut sim = Sim::create(RunSpec { parallel: Some(8), ..crew_spec(steps) });
        let mut world = World::with_turns(&[]);
        sim.start().unwrap();
        for index in order {
            if !sim.effects.is_empty() {
                let place = index.index(sim.effects.len());
                sim.effects.rotate_left(place);
                sim.step(&mut world);
            }
        }
        sim.settle(&mut world);
        prop_assert_eq!(sim.run.children.len(), count);
        for step in &sim.run.plan.steps {
            let output = step.output.as_deref().unwrap();
            let ends = format!("do {} by {}", step.id, step.agent);
            prop_assert!(output.ends_with(&ends), "{}", output);
        }
    }

    /// Feature: agent-harnesses, Property 17: Sub-agent failure retry protocol
    ///
    /// AP17: a failing child is tried exactly twice.
    #[test]
    fn prop_17_retry(times in 0u32..5) {
        let mut sim = Sim::create(crew_spec(vec![step("a", "PLUTO", &[])]));
        let mut world = World { failing: vec![("PLUTO", times)], ..World::with_turns(&[]) };
        sim.start().unwrap();
        sim.settle(&mut world);
        prop_assert_eq!(sim.run.children.len(), if times == 0 { 1 } else { 2 });
        prop_assert_eq!(sim.run.status == Status::Completed, times < 2);
    }

    /// Feature: agent-harnesses, Property 18: Sub-agent depth enforcement
    ///
    /// AP18: beyond the limit every errand is refused.
    #[test]
    fn prop_18_depth(depth in 0u32..8, max in 0u32..8) {
        let limits = Limits { max_sub_agent_depth: max, ..Limits::default() };
        let mut sim = Sim::create(RunSpec { depth, limits, ..crew_spec(vec![step("a", "PLUTO", &[])]) });
        sim.start().unwrap();
        sim.settle(&mut World::with_turns(&[]));
        prop_assert_eq!(sim.run.children.is_empty(), depth >= max);
        prop_assert_eq!(sim.run.status == Status::Completed, depth < max);
    }

    /// Feature: agent-harnesses, Property 10: Autonomy-level gate placement
    ///
    /// AP10: over any plan and level, exactly the steps that the level names are asked about, each once.
    #[test]
    fn prop_10_gate_placement(plan in plans(), level in 1u8..=5) {
        let autonomy = Autonomy::new(level).unwrap();
        let mut sim = Sim::create(RunSpec { autonomy, ..crew_spec(plan.clone()) });
        see_through(&mut sim, &mut World::with_turns(&[]));
        prop_assert_eq!(sim.run.status, Status::Completed);
        let mut asked: Vec<u32> = sim.run.gates.iter().map(|gate| gate.step).collect();
        asked.sort_unstable();
        let named = |step: &Step| match level {
            1 | 2 => true,
            3 => step.critical,
            _ => false,
        };
        let expected: Vec<u32> =
            plan.iter().enumerate().filter(|(_, step)| named(step)).map(|(index, _)| index as u32).collect();
        prop_assert_eq!(asked, expected);
    }

    /// Feature: agent-harnesses, Property 11: Human-in-loop gate suspend behavior
    ///
    /// AP11: at a gate the state is saved before it is announced, and the run waits; approved it goes on, rejected it is
    /// paused with the reason.
    #[test]
    fn prop_11_gates_suspend(plan in plans(), approve in any::<bool>(), reason in "[a-z]{1,20}") {
        let mut sim = Sim::create(RunSpec { autonomy: Autonomy::new(1).unwrap(), ..crew_spec(plan) });
        sim.start().unwrap();
        sim.settle(&mut World::with_turns(&[]));
        prop_assert_eq!((sim.run.status, sim.run.wait()), (Status::Running, Wait::Human));
        let place = |is_it: fn(&Event) -> bool| sim.events().iter().position(|event| is_it(event)).unwrap();
        let saved = place(|event| matches!(event, Event::Checkpointed { .. }));
        let announced = place(|event| matches!(event, Event::WaitingForHuman { .. }));
        prop_assert!(saved < announced);
        let gate = sim.run.step_gates().next().unwrap().number;
        // Nothing is under way: a new process finds the same wait.
        let mut sim = sim.reopened_at(sim.journal.len());
        if approve {
            sim.wish(Wish::Approve { gate, digest: None }).unwrap();
            let begun = sim.run.plan.steps.iter().filter(|step| step.status == StepStatus::Running).count();
            prop_assert_eq!((sim.run.status, begun), (Status::Running, 1));
        } else {
            sim.wish(Wish::Reject { gate, reason: reason.clone() }).unwrap();
            prop_assert_eq!((sim.run.status, sim.run.reason.as_deref()), (Status::Paused, Some(reason.as_str())));
        }
    }

    /// Feature: agent-harnesses, Property 12: Execution plan step structure
    ///
    /// AP12: whatever a planner answers, a plan that is taken has unique ids, descriptions, known agents and dependencies inside
    /// of it; what has not is refused with the field's name.
    #[test]
    fn prop_12_plan_structure(drafts in prop::collection::vec(draft(), 0..6)) {
        let steps: Vec<serde_json::Value> = drafts
            .iter()
            .map(|(id, text, agent, after)| {
                serde_json::json!({ "id": id, "description": text, "assignedAgent": agent, "dependencies": after })
            })
            .collect();
        let answer = serde_json::json!({ "steps": steps }).to_string();
        let planner = Some(Box::new(Planner { model: None, prompt: "You plan.".to_owned() }));
        let mut sim = Sim::create(RunSpec { planner, ..crew_spec(vec![step("x", "MARS", &[])]) });
        let mut world = World { plans: vec![answer.clone(), answer], ..World::with_turns(&[]) };
        sim.wish(Wish::Plan).unwrap();
        sim.settle(&mut world);
        prop_assert_eq!(sim.run.status, Status::Created);
        let known = ["MARS", "PLUTO", "VENUS", "ERIS"];
        match &sim.run.bad_plan {
            None => {
                let ids: Vec<&String> = sim.run.plan.steps.iter().map(|step| &step.id).collect();
                for (index, step) in sim.run.plan.steps.iter().enumerate() {
                    prop_assert!(!ids[..index].contains(&&step.id) && !step.description.trim().is_empty());
                    prop_assert!(known.contains(&step.agent.as_str()));
                    prop_assert!(step.dependencies.iter().all(|id| ids.contains(&id)));
                }
                prop_assert_eq!(sim.run.plan.steps.len(), drafts.len());
            }
            Some(why) => prop_assert!(why.starts_with("steps"), "{}", why),
        }
    }
}

/// Plans of up to six steps in any order that is none of a circle.
fn plans() -> impl Strategy<Value = Vec<Step>> {
    let one = (prop::sample::select(vec!["MARS", "PLUTO", "VENUS"]), any::<bool>(), any::<u8>());
    prop::collection::vec(one, 1..6).prop_map(|steps| {
        let plan = steps.iter().enumerate().map(|(index, (agent, critical, edges))| {
            let after: Vec<String> =
                (0..index).filter(|to| edges >> to & 1 == 1).map(|to| format!("s{to}")).collect();
            Step {
                dependencies: after,
                critical: *critical,
                ..Step::new(&format!("s{index}"), "do it", agent)
            }
        });
        plan.collect()
    })
}

/// A step as a planner might write it, right or wrong.
fn draft() -> impl Strategy<Value = (String, String, String, Vec<String>)> {
    let id = || prop::sample::select(vec!["a", "b", "c", "d", ""]).prop_map(str::to_owned);
    let text = prop::sample::select(vec!["do it", "look", " "]).prop_map(str::to_owned);
    let agent = prop::sample::select(vec!["MARS", "PLUTO", "VENUS", "NOBODY"]).prop_map(str::to_owned);
    (id(), text, agent, prop::collection::vec(id(), 0..2))
}

/// What those below a run used that ended before them is known to it all the same: once, however often it is said, and nothing
/// follows from it.
#[test]
fn a_run_that_has_ended_counts_what_those_below_used() {
    let mut sim = Sim::create(crew_spec(vec![step("a", "PLUTO", &[]), step("b", "VENUS", &[])]));
    sim.start().unwrap();
    sim.wish(Wish::Stop { reason: "enough".to_owned() }).unwrap();
    sim.effects.clear();
    let rested = |number: u32, calls: u32, ending: ChildEnding| {
        let ledger = ChildLedger { calls, turns: 1, ..ChildLedger::default() };
        Input::ChildRested { number, report: ChildReport { ending, ledger } }
    };
    let paused = || ChildEnding::Paused { cause: Cause::Asked, reason: "the run rests".to_owned() };
    let stopped = || ChildEnding::Stopped { reason: "enough".to_owned() };
    let known = |sim: &Sim| (sim.run.ledger().calls, sim.run.live_children().count());
    for (input, after) in [
        (rested(1, 2, paused()), (2, 2)),
        (rested(1, 3, stopped()), (3, 1)),
        (rested(1, 3, stopped()), (3, 1)),
        (rested(2, 4, ChildEnding::Completed { output: "b".to_owned() }), (7, 0)),
    ] {
        sim.give(input).unwrap();
        assert_eq!(known(&sim), after);
    }
    assert!(sim.effects.is_empty() && sim.run.status == Status::Failed, "{:?}", sim.effects);
    assert!(sim.run.plan.steps.iter().all(|step| step.status == StepStatus::Failed));
}
