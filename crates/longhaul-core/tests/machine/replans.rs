//! Another plan: what is on record of a step stays that step's, whatever number it had and whoever has that number now.

use std::collections::BTreeMap;

use longhaul_core::command::Wish;
use longhaul_core::event::{Aside, Event};
use longhaul_core::input::Input;
use longhaul_core::limits::STEPS_MAX;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::report::Report;
use longhaul_core::run::{NO_STEP, Run};
use longhaul_core::spec::{Autonomy, Limits, Planner, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::view::GateView;
use proptest::prelude::*;

use crate::errands::{crew_spec, step};
use crate::sim::{Sim, World};

/// A rejected step, a done one, and another plan for the rest.
fn rejected(limits: Limits) -> (Sim, World) {
    let dangerous = Step { critical: true, ..step("a", "MARS", &[]) };
    let steps = vec![dangerous, step("b", "MARS", &[])];
    let autonomy = Autonomy::new(3).unwrap();
    let mut sim = Sim::create(RunSpec { autonomy, limits, ..crew_spec(steps) });
    let mut world = World::with_turns(&[&["read"]]);
    sim.start().unwrap();
    sim.settle(&mut world);
    sim.wish(Wish::Reject { gate: 1, reason: "never do that".to_owned() }).unwrap();
    sim.wish(Wish::Replan { plan: Plan { steps: vec![step("n", "MARS", &["b"])] } }).unwrap();
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed, "{:?}", sim.run.reason);
    (sim, world)
}

/// A4.6: after another plan the rejected step is still the one that was rejected, and what was done for a step is that step's.
#[test]
fn a_rejection_stays_with_its_step() {
    let (sim, _) = rejected(Limits::default());
    let run = &sim.run;
    assert_eq!(run.plan.steps.iter().map(|step| step.id.as_str()).collect::<Vec<_>>(), ["b", "n"]);
    let gate = GateView::of(run, &run.gates[0]);
    assert_eq!((gate.step_id.as_deref(), gate.description.as_deref()), (Some("a"), Some("do a")));
    let approvals = Report::of(run).approvals;
    assert_eq!(approvals[0].about, "before a");
    let named = |step: u32| run.step_at(step).map(|step| step.id.as_str());
    let calls: Vec<_> = run.calls.iter().map(|call| (call.step, named(call.step))).collect();
    assert_eq!(calls, [(0, Some("b")), (1, Some("n"))]);
    let spent: Vec<_> = run.spending.iter().map(|spent| (named(spent.step), spent.replies)).collect();
    assert_eq!(spent, [(Some("b"), 2), (Some("n"), 2)]);
}

/// A new step begins with nothing used, whatever the step had used that had its number.
#[test]
fn a_new_step_has_used_nothing() {
    let limits = Limits { max_iteration_tokens: Some(25), ..Limits::default() };
    let (sim, world) = rejected(limits);
    let reached = |event: &&Event| matches!(event, Event::LimitReached { .. });
    assert_eq!(sim.events().into_iter().filter(reached).count(), 0);
    assert_eq!(world.ran.len(), 2, "each step made its call once");
}

#[derive(Clone, Debug)]
enum Act {
    Work,
    Start,
    Pause,
    Approve,
    Reject,
    Die,
    Plan,
    Replan(Vec<Drawn>),
}

/// A step: its name among few, so that names come again; whose it is; whether it is critical; and whether it comes after the one
/// before it.
type Drawn = (usize, bool, bool, bool);

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    prop::collection::vec((0usize..6, any::<bool>(), any::<bool>(), any::<bool>()), 1..5)
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        30 => Just(Act::Work), 4 => Just(Act::Start), 2 => Just(Act::Pause), 4 => Just(Act::Approve), 2 => Just(Act::Reject),
        1 => Just(Act::Die), 1 => Just(Act::Plan), 3 => drawn().prop_map(Act::Replan),
    ];
    prop::collection::vec(act, 0..150)
}

/// Steps as they were drawn, each described in words of its own.
fn plan(drawn: &[Drawn], number: usize) -> Plan {
    let mut steps: Vec<Step> = Vec::new();
    for (index, (name, other, critical, after)) in drawn.iter().enumerate() {
        let dependencies = steps.last().filter(|_| *after).map(|step| step.id.clone());
        let id = format!("s{name}");
        if steps.iter().any(|step| step.id == id) {
            continue;
        }
        steps.push(Step {
            critical: *critical,
            dependencies: dependencies.into_iter().collect(),
            ..Step::new(&id, &format!("part {index} of {number}"), if *other { "PLUTO" } else { "MARS" })
        });
    }
    Plan { steps }
}

/// Whose everything is, as it was when it came to be.
#[derive(Debug, Default, PartialEq)]
struct Owners {
    calls: BTreeMap<u32, String>,
    gates: BTreeMap<u32, String>,
    tokens: BTreeMap<String, u64>,
}

impl Owners {
    fn of(sim: &Sim) -> Owners {
        let (seq, at, first) = &sim.journal[0];
        let mut run = Run::first(*seq, *at, first).unwrap();
        let mut owners = Owners::default();
        let planned = |run: &Run, step: u32| run.plan.steps[step as usize].description.clone();
        for (seq, at, event) in &sim.journal[1..] {
            let (calls, gates) = (run.calls.len(), run.gates.len());
            let here = run.plan.steps[run.current_step as usize].description.clone();
            run.apply(*seq, *at, event).unwrap();
            for call in &run.calls[calls..] {
                owners.calls.insert(call.id.0, planned(&run, call.step));
            }
            for gate in &run.gates[gates..] {
                owners.gates.insert(gate.number, planned(&run, gate.step));
            }
            let (whose, usage) = match event {
                Event::ModelReplied { usage, .. } => (here, *usage),
                Event::AsideEnded { aside: Aside::Planning { .. }, usage: Some(usage), .. } => {
                    ("the plan".to_owned(), *usage)
                }
                _ => continue,
            };
            *owners.tokens.entry(whose).or_default() += usage.tokens();
        }
        owners
    }

    /// The same as it is told in the end.
    fn told(run: &Run) -> Owners {
        let named = |step: u32| match step {
            NO_STEP => "the plan".to_owned(),
            step => run.step_at(step).unwrap().description.clone(),
        };
        let mut tokens = BTreeMap::new();
        for spent in &run.spending {
            *tokens.entry(named(spent.step)).or_default() += spent.usage.tokens();
        }
        Owners {
            calls: run.calls.iter().map(|call| (call.id.0, named(call.step))).collect(),
            gates: run.gates.iter().map(|gate| (gate.number, named(gate.step))).collect(),
            tokens,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// A4.6: over any plans and any other plans for the rest, every gate, every call and everything spent names the step that it
    /// belonged to; and what has the number of a step of the plan in force is that step's.
    #[test]
    fn everything_stays_with_its_step(first in drawn(), planner in any::<bool>(), autonomy in 1u8..=5, acts in acts()) {
        let planner = planner.then(|| Box::new(Planner { model: None, prompt: "You plan.".to_owned() }));
        let autonomy = Autonomy::new(autonomy).unwrap();
        let mut sim = Sim::create(RunSpec { planner, autonomy, ..crew_spec(plan(&first, 0).steps) });
        let made = r#"{"steps":[{"id":"p1","description":"made 1"},{"id":"s1","description":"made 2","dependencies":["p1"]}]}"#;
        let mut world = World { plans: vec![made.to_owned()], ..World::with_turns(&[&["read", "write"], &["bash"]]) };
        for (number, act) in acts.into_iter().enumerate() {
            let gate = sim.run.gates.len() as u32;
            match act {
                Act::Work => drop(sim.step(&mut world)),
                Act::Start => drop(sim.start()),
                Act::Pause => drop(sim.pause()),
                Act::Approve => drop(sim.wish(Wish::Approve { gate, digest: None })),
                Act::Reject => drop(sim.wish(Wish::Reject { gate, reason: "no".to_owned() })),
                Act::Die => {
                    sim = sim.reopened_at(sim.journal.len());
                    drop(sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }));
                }
                Act::Plan => drop(sim.wish(Wish::Plan)),
                Act::Replan(drawn) => drop(sim.wish(Wish::Replan { plan: plan(&drawn, number + 1) })),
            }
        }
        let run = &sim.run;
        prop_assert_eq!(Owners::told(run), Owners::of(&sim));
        let steps = run.plan.steps.len();
        let numbers = run.calls.iter().map(|call| call.step).chain(run.gates.iter().map(|gate| gate.step));
        for number in numbers {
            let number = number as usize;
            prop_assert!(number < steps || number >= STEPS_MAX, "{} of {}", number, steps);
        }
    }
}
