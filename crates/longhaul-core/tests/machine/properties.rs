//! The correctness properties of the agent-harness specification that the machine alone decides, each over random cases.

use longhaul_core::document;
use longhaul_core::plan::{Plan, Step, StepStatus};
use longhaul_core::run::Run;
use longhaul_core::spec::RunSpec;
use longhaul_core::status::Status;
use longhaul_core::tool::{Failure, RetryPolicy};
use proptest::prelude::*;

use super::documents::import;
use super::sim::{Sim, World, chain, ended, spec};

#[derive(Clone, Copy, Debug)]
enum Act {
    Start,
    Pause,
    Stop,
    Work,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec(
        prop_oneof![
            3 => Just(Act::Start),
            2 => Just(Act::Pause),
            1 => Just(Act::Stop),
            8 => Just(Act::Work),
        ],
        0..40,
    )
}

fn tools() -> impl Strategy<Value = Vec<Vec<&'static str>>> {
    let tool = prop::sample::select(vec!["read", "write", "bash", "forbidden"]);
    prop::collection::vec(prop::collection::vec(tool, 0..4), 0..5)
}

fn world(turns: Vec<Vec<&'static str>>) -> World {
    World { turns, ..World::with_turns(&[]) }
}

/// A run after a random life.
fn lived(turns: Vec<Vec<&'static str>>, steps: usize, acts: &[Act]) -> Sim {
    let mut world = world(turns);
    let mut sim = Sim::create(RunSpec { plan: chain(steps), ..spec() });
    for act in acts {
        match act {
            Act::Start => drop(sim.start()),
            Act::Pause => drop(sim.pause()),
            Act::Stop => drop(sim.stop()),
            Act::Work => drop(sim.step(&mut world)),
        }
    }
    sim
}

/// What pausing and resuming may not change: everything but times, checkpoints, attempts, the commands themselves, and from where
/// repeated calls are counted.
fn without_traces_of_pausing(run: &Run) -> Run {
    let mut run = run.clone();
    run.seq = 0;
    run.updated_at = run.created_at;
    run.checkpoints = 0;
    run.last_checkpoint_at = None;
    run.commands.clear();
    run.calls_before_start = 0;
    // What led nowhere counts no longer, by the same word.
    (run.novelty.stale, run.novelty.told) = (0, 0);
    run.reason = None;
    run.cause = None;
    (run.worked_ms, run.working_since) = (0, None);
    if let longhaul_core::run::Phase::Thinking { attempt, .. } = &mut run.phase {
        *attempt = longhaul_core::ids::Attempt::FIRST;
    }
    run
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// AP1, AQ1, AQ2: Feature: agent-harnesses, Property 1: Harness state machine validity
    #[test]
    fn prop_01_state_machine_validity(turns in tools(), acts in acts()) {
        let mut world = world(turns);
        let mut sim = Sim::create(spec());
        let mut model = Status::Created;
        for act in acts {
            let before = (sim.run.clone(), sim.journal.len());
            let expected = match (act, model) {
                (Act::Start, Status::Created | Status::Paused) => Some(Status::Running),
                (Act::Pause, Status::Running) => Some(Status::Paused),
                (Act::Stop, Status::Running | Status::Paused) => Some(Status::Failed),
                _ => None,
            };
            let result = match act {
                Act::Start => sim.start(),
                Act::Pause => sim.pause(),
                Act::Stop => sim.stop(),
                Act::Work => {
                    sim.step(&mut world);
                    prop_assert!(sim.run.status == model || model.may_become(sim.run.status));
                    model = sim.run.status;
                    continue;
                }
            };
            prop_assert_eq!(result.is_ok(), expected.is_some());
            match expected {
                // A start may lead straight on, e.g. into a limit; the first transition is the one asked for.
                Some(status) => model = if sim.run.status == status { status } else { sim.run.status },
                None => prop_assert_eq!((sim.run.clone(), sim.journal.len()), before),
            }
        }
    }

    /// AP2: Feature: agent-harnesses, Property 2: Pause/resume round-trip preserves state
    #[test]
    fn prop_02_pause_resume_round_trip(turns in tools(), steps in 1usize..4, work in 0usize..20) {
        let mut world = world(turns);
        let mut sim = Sim::create(RunSpec { plan: chain(steps), ..spec() });
        sim.start().unwrap();
        // A call under way at the pause is repeated or reported by its class (see recovery); between calls none is.
        let mut moments = vec![sim.clone()];
        while sim.step(&mut world) {
            if matches!(sim.run.phase, longhaul_core::run::Phase::Thinking { .. }) {
                moments.push(sim.clone());
            }
        }
        let mut sim = moments.swap_remove(work % moments.len());
        let before = without_traces_of_pausing(&sim.run);
        sim.pause().unwrap();
        sim.start().unwrap();
        prop_assert_eq!(without_traces_of_pausing(&sim.run), before);
    }

    /// AP4, A9.3: Feature: agent-harnesses, Property 4: JSON serialization round-trip
    #[test]
    fn prop_04_json_round_trip(turns in tools(), steps in 1usize..4, acts in acts()) {
        let sim = lived(turns, steps, &acts);
        let exported = document::write(&sim.run);
        let text = exported.to_string();
        let run = import(&text).unwrap();
        let same = Run { seq: sim.run.seq, imported: None, imported_seq: 0, ..run.clone() };
        prop_assert_eq!(&same, &sim.run);
        prop_assert_eq!(document::write(&run), exported);
    }

    /// AP6: Feature: agent-harnesses, Property 6: Tool call permission enforcement
    #[test]
    fn prop_06_permission_enforcement(turns in tools(), permitted in prop::sample::subsequence(vec!["read", "write", "bash"], 0..=3)) {
        let mut world = world(turns);
        let mut careful = spec();
        careful.tools.retain(|grant| permitted.contains(&grant.name.as_str()));
        let mut sim = Sim::create(careful);
        sim.start().unwrap();
        sim.settle(&mut world);
        for call in &sim.run.calls {
            let ran = world.ran.iter().filter(|(id, _)| *id == call.id).count();
            prop_assert_eq!(ran, usize::from(permitted.contains(&call.tool.as_str())));
        }
    }

    /// AP7: Feature: agent-harnesses, Property 7: Tool call recording completeness
    #[test]
    fn prop_07_recording_completeness(turns in tools()) {
        let mut world = world(turns);
        let mut sim = Sim::create(spec());
        sim.start().unwrap();
        sim.settle(&mut world);
        let history = document::view(&sim.run).tool_call_history;
        prop_assert_eq!(history.len(), sim.run.calls.len());
        for (record, call) in history.iter().zip(&sim.run.calls) {
            prop_assert_eq!(&record.call_name, &call.tool.to_string());
            prop_assert_eq!(&record.arguments, &call.args.value());
            prop_assert!(!record.result.is_null() && record.duration > 0.0);
        }
    }

    /// AP8: Feature: agent-harnesses, Property 8: Tool call retry with exponential backoff
    #[test]
    fn prop_08_retry_backoff(max_retries in 0u32..=16, base in 1u64..=3_600_000, failures in 0u32..20) {
        let mut world = World::with_turns(&[&["read"]]);
        world.failures = vec![("read", failures, Failure::Network)];
        let retry = RetryPolicy { max_retries, base_backoff_ms: base, ..RetryPolicy::default() };
        let mut sim = Sim::create(RunSpec { retry, ..spec() });
        sim.start().unwrap();
        sim.settle(&mut world);
        prop_assert_eq!(sim.slept_ms.len() as u32, failures.min(max_retries));
        prop_assert!(sim.slept_ms.windows(2).all(|pair| pair[1] >= 2 * pair[0]));
        prop_assert_eq!(sim.run.calls[0].outcome().unwrap().is_done(), failures <= max_retries);
    }

    /// AP9: Feature: agent-harnesses, Property 9: Tool call budget enforcement
    #[test]
    fn prop_09_budget_enforcement(budget in 0u32..=50, asked in 1usize..80) {
        let calls = vec!["read"; asked];
        let mut world = world(vec![calls]);
        let mut limited = spec();
        limited.limits.max_tool_calls = budget;
        let mut sim = Sim::create(limited);
        sim.start().unwrap();
        sim.settle(&mut world);
        prop_assert_eq!(world.ran.len(), asked.min(budget as usize));
        for call in &sim.run.calls[world.ran.len()..] {
            prop_assert!(call.outcome().unwrap().error().unwrap().contains("budget exceeded"));
        }
    }

    /// A5.3: Feature: agent-harnesses, Property 13: Dependency resolution correctness
    #[test]
    fn prop_13_dependency_resolution(edges in prop::collection::vec(prop::collection::vec(any::<bool>(), 0..12), 1..12), fail_at in 0usize..12) {
        let steps = edges.iter().enumerate().map(|(index, row)| {
            let mut step = Step::new(&format!("s{index}"), "x", "MARS");
            step.dependencies = row.iter().take(index).enumerate().filter(|(_, edge)| **edge).map(|(to, _)| format!("s{to}")).collect();
            step
        });
        let mut plan = Plan { steps: steps.collect() }.checked().unwrap();
        loop {
            let next = plan.ready().next();
            let Some(index) = next else { break };
            let done = |plan: &Plan, id: &String| plan.steps.iter().any(|step| step.id == *id && step.status == StepStatus::Completed);
            for step in &plan.steps {
                let free = step.dependencies.iter().all(|id| done(&plan, id));
                match step.status {
                    StepStatus::Ready => prop_assert!(free),
                    StepStatus::Pending => prop_assert!(!free),
                    StepStatus::Running | StepStatus::Completed | StepStatus::Failed | StepStatus::Blocked => {}
                }
            }
            if index == fail_at {
                plan.fail(index, "no".to_owned());
            } else {
                plan.complete(index, "yes".to_owned());
            }
        }
        for step in &plan.steps {
            let waits_for_lost = step.dependencies.iter().any(|id| {
                plan.steps.iter().any(|other| other.id == *id && matches!(other.status, StepStatus::Failed | StepStatus::Blocked))
            });
            prop_assert_eq!(step.status == StepStatus::Blocked, waits_for_lost);
        }
    }

    /// Feature: agent-harnesses, Property 14: Plan completion triggers harness completion
    #[test]
    fn prop_14_plan_completion(turns in tools(), steps in 1usize..8) {
        let mut world = world(turns);
        let mut sim = Sim::create(RunSpec { plan: chain(steps), ..spec() });
        sim.start().unwrap();
        sim.settle(&mut world);
        prop_assert!(ended(&sim));
        let completed = sim.events().iter().filter(|event| matches!(event, longhaul_core::event::Event::PlanCompleted)).count();
        prop_assert_eq!((sim.run.status, completed), (Status::Completed, 1));
    }
}
