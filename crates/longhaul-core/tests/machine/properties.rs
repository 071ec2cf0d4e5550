//! The correctness properties of the agent-harness specification that the machine alone decides, each over random cases.

use std::collections::BTreeSet;

use longhaul_core::child::Child;
use longhaul_core::document;
use longhaul_core::event::{Cause, Event};
use longhaul_core::plan::{Plan, Step, StepStatus};
use longhaul_core::run::{Pace, Patience, Phase, Run};
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::{Status, Wait};
use longhaul_core::tool::{Failure, RetryPolicy};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::documents::import_among;
use super::lives::{Act, lives};
use super::sim::{Sim, World, chain, ended, spec};

fn tools() -> impl Strategy<Value = Vec<Vec<&'static str>>> {
    let tool = prop::sample::select(vec!["read", "write", "bash", "forbidden"]);
    prop::collection::vec(prop::collection::vec(tool, 0..4), 0..5)
}

fn world(turns: Vec<Vec<&'static str>>) -> World {
    World { turns, ..World::with_turns(&[]) }
}

/// A change of status, and whether there may be such a one. Another plan is all that brings back a run that has failed.
fn changed(event: &Event) -> Option<(Status, Status, bool)> {
    match event {
        Event::StatusChanged { from, to, .. } => Some((*from, *to, from.may_become(*to))),
        Event::Reopened => Some((Status::Failed, Status::Paused, true)),
        _ => None,
    }
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
    // A person has looked: what led nowhere or went wrong before counts no longer.
    (run.novelty.stale, run.novelty.told, run.novelty.failing) = (0, 0, 0);
    run.pace = Pace { tree: run.pace.tree, ..Pace::default() };
    run.repetitions.clear();
    run.model_failures = 0;
    run.patience = Patience { reached: run.patience.reached, ..Patience::default() };
    run.reason = None;
    run.cause = None;
    (run.worked_ms, run.working_since) = (0, None);
    if let Phase::Thinking { attempt, .. } = &mut run.phase {
        *attempt = longhaul_core::ids::Attempt::FIRST;
    }
    run
}

/// Leave that a person gave for a call does not go along with a document.
fn without_leave(mut run: Run) -> Run {
    run.calls.iter_mut().filter(|call| !call.has_ended()).for_each(|call| call.granted = false);
    run
}

proptest! {
    // Not every life has a moment that a property is about; a thousand that have one are looked at.
    #![proptest_config(ProptestConfig { cases: 1000, max_global_rejects: 20_000, ..ProptestConfig::default() })]

    /// AP1, AQ1, AQ2: Feature: agent-harnesses, Property 1: Harness state machine validity
    #[test]
    fn prop_01_state_machine_validity(life in lives()) {
        let (mut sim, mut world) = life.begin();
        for act in life.acts {
            let before = (sim.run.clone(), sim.journal.len());
            let mut status = before.0.status;
            let (allowed, asked) = match act {
                Act::Start => (Some(matches!(status, Status::Created | Status::Paused)), Some(Status::Running)),
                // What is paused is the planning, not the run.
                Act::Pause if sim.run.is_planning() && status != Status::Running => (Some(true), None),
                Act::Pause => (Some(status == Status::Running), Some(Status::Paused)),
                Act::Stop => (Some(matches!(status, Status::Running | Status::Paused)), Some(Status::Failed)),
                _ => (None, None),
            };
            let result = sim.undergo(&mut world, act);
            prop_assert!(allowed.is_none_or(|allowed| allowed == result.is_ok()), "{act:?} of a {status} run: {result:?}");
            let changes: Vec<_> = sim.journal[before.1..].iter().filter_map(|(_, _, event)| changed(event)).collect();
            if let Err(refusal) = result {
                prop_assert!(refusal.to_string().contains(' '), "{refusal}");
                prop_assert_eq!((sim.run.clone(), sim.journal.len()), before);
            } else if asked.is_some() {
                // It may lead straight on, e.g. into a limit; the first change is the one asked for.
                prop_assert_eq!(changes.first().map(|(_, to, _)| *to), asked);
            }
            for (from, to, is_valid) in changes {
                prop_assert!(from == status && is_valid, "from {status}: {from} to {to}");
                status = to;
            }
            prop_assert_eq!(sim.run.status, status);
        }
    }

    /// AP2: Feature: agent-harnesses, Property 2: Pause/resume round-trip preserves state
    #[test]
    fn prop_02_pause_resume_round_trip(life in lives(), chosen in any::<prop::sample::Index>()) {
        let (mut sim, mut world) = life.begin();
        let mut moments = Vec::new();
        for act in life.acts {
            drop(sim.undergo(&mut world, act));
            // A call under way at the pause is repeated or reported by its class (see recovery); between calls none is. A
            // child that stands still is set to work again by the start, and what is left of the limits is dealt anew.
            let is_between = matches!(sim.run.phase, Phase::Thinking { .. } | Phase::Idle);
            let is_dealt = |child: &Child| !child.is_working() || sim.run.spec.limits != Limits::default();
            if is_between && sim.run.status == Status::Running && !sim.run.live_children().any(is_dealt) {
                moments.push(sim.clone());
            }
        }
        prop_assume!(!moments.is_empty());
        let mut sim = moments.swap_remove(chosen.index(moments.len()));
        let before = without_traces_of_pausing(&sim.run);
        sim.pause().unwrap();
        sim.start().unwrap();
        // Whatever children have used meanwhile is held against the limits before the next turn, and at every start.
        prop_assume!(sim.run.cause != Some(Cause::Limit));
        prop_assert_eq!(without_traces_of_pausing(&sim.run), before);
    }

    /// AP4, A9.3: Feature: agent-harnesses, Property 4: JSON serialization round-trip
    #[test]
    fn prop_04_json_round_trip(life in lives()) {
        let sim = life.lived();
        let exported = document::write(&sim.run);
        let text = exported.to_string();
        let run = import_among(&text, life.spec).unwrap();
        let same = Run { seq: sim.run.seq, imported: None, imported_seq: 0, ..run.clone() };
        prop_assert_eq!(same, without_leave(sim.run));
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

    /// A5.3, AP13: Feature: agent-harnesses, Property 13: Dependency resolution correctness
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

    /// AP14: Feature: agent-harnesses, Property 14: Plan completion triggers harness completion
    #[test]
    fn prop_14_plan_completion(turns in tools(), steps in 1usize..8) {
        let mut world = world(turns);
        let mut sim = Sim::create(RunSpec { plan: chain(steps), ..spec() });
        sim.start().unwrap();
        sim.settle(&mut world);
        prop_assert!(ended(&sim));
        let completed = sim.events().iter().filter(|event| matches!(event, Event::PlanCompleted)).count();
        prop_assert_eq!((sim.run.status, completed), (Status::Completed, 1));
    }
}

/// A wait that no run of today has: the word is known to catalogues and to exit codes, and nothing freezes a run.
fn is_met(wait: Wait) -> bool {
    match wait {
        Wait::None | Wait::Human | Wait::Timer | Wait::RateLimit | Wait::Child => true,
        Wait::Frozen => false,
    }
}

/// AP1, AX1: the lives that the properties are shown over meet every status, every wait of a running run, and every reason
/// why one stops. The same lives are drawn every time.
#[test]
fn random_lives_meet_every_status_and_every_wait() {
    let mut runner = TestRunner::deterministic();
    let (mut statuses, mut waits, mut causes) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for _ in 0..400 {
        let life = lives().new_tree(&mut runner).unwrap().current();
        let (mut sim, mut world) = life.begin();
        statuses.insert(sim.run.status.as_str());
        for act in life.acts {
            drop(sim.undergo(&mut world, act));
            statuses.insert(sim.run.status.as_str());
            if sim.run.status == Status::Running {
                waits.insert(sim.run.wait().as_str());
            }
            causes.extend(sim.run.cause.map(|cause| format!("{cause:?}")));
        }
    }
    assert_eq!(statuses, Status::ALL.map(Status::as_str).into());
    let all = [Wait::None, Wait::Human, Wait::Timer, Wait::RateLimit, Wait::Frozen, Wait::Child];
    assert_eq!(waits, all.into_iter().filter(|wait| is_met(*wait)).map(Wait::as_str).collect());
    let why = ["Asked", "DiskFull", "Error", "Finished", "Limit", "Parked", "Provider", "Rejected", "Stuck"];
    assert_eq!(causes, why.map(str::to_owned).into());
}
