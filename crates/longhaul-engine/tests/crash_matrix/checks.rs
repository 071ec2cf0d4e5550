//! What must be true of every run, however often its process died.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;

use longhaul_core::conversation::Message;
use longhaul_core::event::Event;
use longhaul_core::ids::{Attempt, CallId};
use longhaul_core::run::Run;
use longhaul_core::status::Status;
use longhaul_core::tool::Outcome;
use longhaul_engine::fold::Fold;
use longhaul_engine::perform::effect_key;
use longhaul_store::{Error, Store};
use longhaul_testkit::crash::WITNESS;

use crate::world::World;

/// Checks the end of a run of which the `unknown` calls were cut short.
pub fn check(world: &World, run: &Run, unknown: &BTreeSet<CallId>) {
    assert_eq!(run.status, Status::Completed);
    let (folded, events) = world.read();
    assert_eq!(folded, *run, "I6: the journal and the live run agree");
    check_events(&events);
    check_calls(run, &events, unknown);
    check_workspace(world, run, unknown);
    check_event_log(world, run);
    for _ in 0..2 {
        let mut fold = Fold::default();
        let journal = world.engine().open(&world.id, &world.writer(), &mut |record| {
            fold.take(record).map(drop).map_err(Error::visit)
        });
        assert_eq!(fold.into_run(&world.id).unwrap(), *run, "I14: it opens again, and again the same");
        drop(journal.unwrap());
    }
}

/// I2 to I5: no gaps, one start and one end for each attempt, one answer for each gate, generations that grow.
fn check_events(events: &[(u64, Event)]) {
    let mut once = HashSet::new();
    let mut is_new = |what: String| assert!(once.insert(what.clone()), "{what} is there twice");
    let mut generation = 0;
    for (index, (seq, event)) in events.iter().enumerate() {
        assert_eq!(*seq, index as u64 + 1);
        match event {
            Event::CallStarted { call, attempt, .. } => is_new(format!("start of {call} attempt {attempt}")),
            Event::CallFinished { call, attempt, .. } | Event::CallRetryScheduled { call, attempt, .. } => {
                is_new(format!("end of {call} attempt {attempt}"));
            }
            Event::StepStarted { step } => is_new(format!("start of step {step}")),
            Event::StepCompleted { step, .. } => is_new(format!("end of step {step}")),
            Event::GateAnswered { gate, .. } => is_new(format!("answer of gate {gate}")),
            Event::CommandApplied { command, .. } => is_new(format!("{command}")),
            Event::Checkpointed { number } => is_new(format!("checkpoint {number}")),
            Event::PlanCompleted => is_new("end of the plan".to_owned()),
            Event::ExamineStarted { round, attempt, .. } => is_new(format!("look {round} attempt {attempt}")),
            Event::Examined { round, .. } => is_new(format!("end of look {round}")),
            Event::IterationStarted { number, .. } => is_new(format!("iteration {number}")),
            Event::ChildSpawned(errand) => is_new(format!("child {}", errand.number)),
            Event::ChildEnded { number, .. } => is_new(format!("end of child {number}")),
            Event::Recovered { generation: next } => {
                assert!(*next > generation, "generation {next} came after {generation}");
                generation = *next;
            }
            Event::RunCreated(_)
            | Event::StatusChanged { .. }
            | Event::GateChecked { .. }
            | Event::WaitingForHuman { .. }
            | Event::TurnStarted { .. }
            | Event::ModelReplied { .. }
            | Event::TurnFailed { .. }
            | Event::CallRefused { .. }
            | Event::ToolFailed { .. }
            | Event::StepFailed { .. }
            | Event::LimitReached { .. }
            | Event::LimitsChanged { .. }
            | Event::PersistenceFellBack { .. }
            | Event::TornTailCut { .. }
            | Event::DerivedFailed { .. }
            | Event::Imported { .. }
            | Event::ModelChanged { .. }
            | Event::SchemaUpgraded { .. }
            | Event::Contained { .. }
            | Event::AgentStopped { .. }
            | Event::AsideStarted { .. }
            | Event::AsideEnded { .. }
            | Event::Compacted { .. }
            | Event::DoomLoop { .. }
            | Event::LoopChanged { .. }
            | Event::Told { .. }
            | Event::ChildRested { .. }
            | Event::ChildResumed { .. }
            | Event::PlanMade { .. }
            | Event::PlanRefused { .. }
            | Event::LimitPassed { .. }
            | Event::ChecksChanged { .. }
            | Event::WorkKept { .. }
            | Event::BranchesBrought { .. }
            | Event::BranchNotBrought { .. }
            | Event::BranchesComplete
            | Event::WorkspaceMended { .. }
            | Event::FilesStored { .. }
            | Event::CheckpointNamed { .. }
            | Event::Reopened
            | Event::SetUpStarted { .. }
            | Event::SetUpEnded { .. }
            | Event::SpentBefore { .. }
            | Event::CheckpointGuarded { .. }
            | Event::ChildHeld { .. }
            | Event::CommandDropped { .. } => {}
        }
    }
}

/// Exactly the calls that were cut short are unknown; they were begun once, and the model was told.
fn check_calls(run: &Run, events: &[(u64, Event)], unknown: &BTreeSet<CallId>) {
    let is_unknown = |outcome: Option<&Outcome>| matches!(outcome, Some(Outcome::Unknown { .. }));
    let found: BTreeSet<CallId> =
        run.calls.iter().filter(|call| is_unknown(call.outcome())).map(|call| call.id).collect();
    assert_eq!(found, *unknown);
    for call in run.calls.iter().filter(|call| call.tool == "bash") {
        assert_eq!(call.attempt(), Attempt::FIRST, "{} was begun again", call.id);
    }
    let told = events.iter().filter(
        |(_, event)| matches!(event, Event::ModelReplied { text, .. } if text == "It was cut short."),
    );
    assert_eq!(told.count(), unknown.len(), "the agent answered to each unknown outcome");
}

fn check_workspace(world: &World, run: &Run, unknown: &BTreeSet<CallId>) {
    let text = |name: &str| fs::read_to_string(world.workspace().join(name)).unwrap_or_default();
    assert_eq!(text("src/a.txt"), "alpha\ngamma\n");
    assert_eq!(text("notes.txt"), "notes, edited");
    let expected = ["notes.txt", "src/a.txt", WITNESS].map(str::to_owned);
    let mut files = world.files();
    files.insert(WITNESS.to_owned());
    assert_eq!(files, BTreeSet::from(expected), "nothing is left lying about");
    let keys = |tools: [&str; 2]| {
        let ours = run.calls.iter().filter(move |call| tools.contains(&call.tool.as_str()));
        ours.map(|call| (call.id, effect_key(&world.id, call.id))).collect::<Vec<_>>()
    };
    let once: BTreeMap<String, u32> = keys(["write", "edit"]).into_iter().map(|(_, key)| (key, 1)).collect();
    assert_eq!(*world.replaced.lock().unwrap(), once, "each file was replaced once by each call");
    let witness = text(WITNESS);
    for (call, key) in keys(["bash", "bash"]) {
        for half in ["first", "second"] {
            let line = format!("{key} {half}");
            let times = witness.lines().filter(|known| **known == line).count();
            assert!(times <= 1, "{line} happened {times} times");
            assert!(times == 1 || unknown.contains(&call), "{line} never happened, yet its outcome is known");
        }
    }
}

/// The derived log has caught up: a line for each event.
fn check_event_log(world: &World, run: &Run) {
    let text = fs::read_to_string(world.event_log()).unwrap();
    let seqs: Vec<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["seq"].as_u64().unwrap())
        .collect();
    assert_eq!(seqs, (1..=run.seq).collect::<Vec<_>>());
}

/// What deaths must not change. Left out are times, attempts, generations and numbers of checkpoints; of the calls that
/// were cut short, their outcome and how the model put its answer.
pub fn essence(run: &Run, unknown: &BTreeSet<CallId>) -> Vec<String> {
    let mut lines = vec![
        format!("{:?} {:?} {:?} {:?}", run.status, run.cause, run.reason, run.error),
        format!("{:?} turns {} calls {}", run.usage, run.turns, run.calls_started),
        format!("phase {:?} step {}", run.phase, run.current_step),
    ];
    for step in &run.plan.steps {
        lines.push(format!("{} {:?} {:?} {:?}", step.id, step.status, step.output, step.error));
    }
    for gate in &run.gates {
        let approved = gate.answer.as_ref().map(|answer| answer.approved);
        lines.push(format!("gate {} step {} {approved:?}", gate.number, gate.step));
    }
    let is_checkable = |tool: &str| ["write", "edit"].contains(&tool);
    for call in &run.calls {
        let outcome = match call.outcome() {
            _ if unknown.contains(&call.id) => "cut short".to_owned(),
            // One that was found in place after a death says so; it is done all the same.
            Some(Outcome::Done { .. }) if is_checkable(&call.tool) => "done".to_owned(),
            outcome => format!("{outcome:?}"),
        };
        lines.push(format!(
            "{} step {} turn {} {} {} {outcome}",
            call.id,
            call.step,
            call.turn,
            call.tool,
            call.args.as_str()
        ));
    }
    for message in run.messages.iter() {
        lines.push(match message {
            Message::User { text } => format!("user {text:?}"),
            Message::Assistant { calls, .. } if !unknown.is_empty() => format!("assistant {calls:?}"),
            Message::Assistant { text, calls, .. } => format!("assistant {text:?} {calls:?}"),
            Message::Tool { call, .. } if unknown.contains(call) => format!("tool {call} cut short"),
            Message::Tool { call, failed: false, .. }
                if run.call(*call).is_some_and(|call| is_checkable(&call.tool)) =>
            {
                format!("tool {call} done")
            }
            Message::Tool { call, failed, text, .. } => format!("tool {call} {failed} {text:?}"),
        });
    }
    lines
}
