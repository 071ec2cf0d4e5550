//! Going round in circles: what counts as that, what is done about it, and what is honest waiting.

use longhaul_core::conduct::Conduct;
use longhaul_core::conversation::{ModelReply, ProposedCall};
use longhaul_core::effect::Effect;
use longhaul_core::event::{Cause, Event};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::repetition::{Remedy, Repetition};
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::tool::{Failure, Outcome, Output, ToolGrant};

use super::sim::{Sim, World, spec};

/// A run whose model asks for what `next` says, turn by turn, with results from `result`.
fn play(
    conduct: Conduct,
    next: impl Fn(u32) -> (&'static str, &'static str),
    result: impl Fn(u32) -> Outcome,
) -> Sim {
    let grant = ToolGrant {
        name: "bash_output".to_owned(),
        class: longhaul_core::tool::EffectClass::Repeatable,
        ask: None,
    };
    let mut base = spec();
    base.tools.push(grant);
    let limits = Limits { max_tool_calls: 400, max_steps: 400, ..Limits::default() };
    let mut sim = Sim::create(RunSpec { conduct: Some(Box::new(conduct)), limits, ..base });
    sim.start().unwrap();
    let world = World::with_turns(&[]);
    let mut asked = 0;
    while let Some(effect) = sim.effects.pop_front() {
        let input = match effect {
            Effect::CallModel { turn, attempt } => {
                asked += 1;
                let (tool, args) = next(asked);
                let calls = vec![ProposedCall::new(tool, Json::parse(args).unwrap())];
                let reply = ModelReply { text: "hm".to_owned(), calls, ..ModelReply::default() };
                Input::ModelReplied { turn, attempt, reply, duration_us: 1 }
            }
            Effect::RunTool { call, attempt } => {
                let outcome = result(call.0);
                Input::ToolEnded { call, attempt, outcome, duration_us: 1, hold: None }
            }
            Effect::Examine { round, attempt, .. } => {
                let found = Box::default();
                Input::Examined { round, attempt, found }
            }
            other => unreachable!("{other:?} {world:?}"),
        };
        sim.give(input).unwrap();
    }
    sim
}

fn found(sim: &Sim) -> Vec<(Repetition, Remedy, u32)> {
    let loops = sim.journal.iter().filter_map(|(_, _, event)| match event {
        Event::DoomLoop { repetition, remedy, count, .. } => Some((*repetition, *remedy, *count)),
        _ => None,
    });
    loops.collect()
}

fn refused_at(sim: &Sim) -> Option<u32> {
    let is_loop = |outcome: &Outcome| matches!(outcome, Outcome::Failed { failure: Failure::DoomLoop, .. });
    sim.run.calls.iter().find(|call| call.outcome().is_some_and(is_loop)).map(|call| call.id.0)
}

fn same(_: u32) -> Outcome {
    Outcome::done("the same")
}

/// D3.1, D3.4, D11.6, F37: the third identical call is not made and explained; going on with it leads to fresh context, then
/// to a pause with its reason. Nothing goes on for ever.
#[test]
fn the_same_call_is_interrupted_then_begun_anew_then_paused() {
    let sim = play(Conduct::default(), |_| ("read", r#"{"path":"a"}"#), same);
    assert_eq!(refused_at(&sim), Some(3));
    let remedies: Vec<Remedy> = found(&sim).iter().map(|(_, remedy, _)| *remedy).collect();
    assert_eq!(remedies, [Remedy::Nudge, Remedy::FreshStart, Remedy::Pause]);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
    assert!(sim.run.reason.as_ref().unwrap().starts_with("doom_loop"));
    assert_eq!(sim.run.iteration, 2);
    assert!(sim.run.turns < 10);
}

/// D3.1: failures count like successes: what matters is that it was tried.
#[test]
fn failing_calls_count_too() {
    let sim = play(
        Conduct::default(),
        |_| ("bash", r#"{"command":"false"}"#),
        |_| Outcome::failed(Failure::Tool, "exit code 1"),
    );
    assert_eq!(refused_at(&sim), Some(3));
}

/// D3.2, D11.14: another tool or another input in between resets the count.
#[test]
fn a_different_call_resets_the_count() {
    let plan = ["a", "a", "b", "a", "a", "c"];
    let args = |asked: u32| match plan[asked as usize % plan.len()] {
        "a" => r#"{"path":"a"}"#,
        "b" => r#"{"path":"b"}"#,
        _ => r#"{"path":"c"}"#,
    };
    let conduct = Conduct { repeats_max: Some(3), ..Conduct::default() };
    let sim = play(conduct, |asked| ("read", args(asked)), |call| Outcome::done(format!("line {call}")));
    assert_eq!(found(&sim), []);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)));
}

/// D3.3: the threshold is the agent's.
#[test]
fn the_threshold_is_configurable() {
    let conduct = Conduct { repeats_max: Some(5), ..Conduct::default() };
    let sim = play(conduct, |_| ("read", r#"{"path":"a"}"#), same);
    assert_eq!(refused_at(&sim), Some(5));
}

/// D3.5: the order of keys does not matter.
#[test]
fn the_order_of_keys_does_not_matter() {
    let args = |asked: u32| if asked.is_multiple_of(2) { r#"{"a":1,"b":2}"# } else { r#"{"b":2,"a":1}"# };
    let sim = play(Conduct::default(), |asked| ("read", args(asked)), same);
    assert_eq!(refused_at(&sim), Some(3));
}

/// Two calls in turn, and different calls that all fail alike, are circles too.
#[test]
fn longer_circles_are_found() {
    let args = |asked: u32| if asked.is_multiple_of(2) { r#"{"path":"a"}"# } else { r#"{"path":"b"}"# };
    let sim = play(Conduct::default(), |asked| ("read", args(asked)), same);
    assert_eq!(found(&sim)[0], (Repetition::TwoCalls, Remedy::Nudge, 3));

    const PATHS: [&str; 7] = [
        r#"{"path":"1"}"#,
        r#"{"path":"2"}"#,
        r#"{"path":"3"}"#,
        r#"{"path":"4"}"#,
        r#"{"path":"5"}"#,
        r#"{"path":"6"}"#,
        r#"{"path":"7"}"#,
    ];
    let error = |_| Outcome::failed(Failure::Tool, "permission denied");
    let sim = play(Conduct::default(), |asked| ("read", PATHS[asked as usize % 7]), error);
    assert_eq!(found(&sim)[0], (Repetition::SameError, Remedy::Nudge, 6));
}

/// Calls that were all made before and came to the same lead nowhere, in whatever order: a small model writes and reads the same file
/// for ever, with a call in between that is cut off. Something new among them is work.
#[test]
fn rounds_that_bring_nothing_new_are_found() {
    let round = |asked: u32| match asked % 5 {
        0 | 2 => ("read", r#"{"path":"a"}"#),
        1 | 3 => ("bash", r#"{"command":"echo hello > a"}"#),
        // Cut off at another letter each time.
        _ if asked.is_multiple_of(2) => ("read", r#"{"unreadable":"{"}"#),
        _ => ("read", r#"{"unreadable":"{\"path\":"}"#),
    };
    let result = |call: u32| match call % 5 {
        0 | 2 => Outcome::done("hello"),
        1 | 3 => Outcome::done(""),
        _ => Outcome::failed(Failure::InvalidArguments, "cut off"),
    };
    let sim = play(Conduct::default(), round, result);
    let found_first = found(&sim)[0];
    assert_eq!(found_first, (Repetition::NothingNew, Remedy::Nudge, 15));
    let remedies: Vec<Remedy> = found(&sim).iter().map(|(_, remedy, _)| *remedy).collect();
    assert_eq!(remedies[..2], [Remedy::Nudge, Remedy::FreshStart]);
    assert!(sim.run.turns < 60, "{} turns", sim.run.turns);

    // The file is another one every ten calls.
    let changing = |call: u32| match result(call) {
        Outcome::Done { .. } if call % 5 == 2 => Outcome::done(format!("hello {}", call / 10)),
        other => other,
    };
    let sim = play(Conduct::default(), round, changing);
    assert_eq!((found(&sim), sim.run.cause), (Vec::new(), Some(Cause::Limit)));
}

/// Pain 15: looking at a command that still runs is waiting, and so is a call whose result changes.
#[test]
fn honest_waiting_is_not_a_circle() {
    let running = |_| Outcome::done("building\n[still running]");
    let sim = play(Conduct::default(), |_| ("bash_output", r#"{"id":"job_1"}"#), running);
    assert_eq!(found(&sim), []);
    assert_eq!(sim.run.cause, Some(Cause::Limit), "only a limit ends it");

    let progress = |call: u32| Outcome::done(format!("{call} % done"));
    let mut asked_until = 0;
    let sim = play(Conduct::default(), |_| ("bash", r#"{"command":"tail log"}"#), progress);
    asked_until += refused_at(&sim).unwrap();
    assert_eq!(asked_until, 30, "a result that always changes is waited for much longer, not for ever");
}

/// Six commands that all end with exit code 1 and say different things are honest work, and so is looking, between naps, at
/// a command that prints nothing.
#[test]
fn failing_work_and_naps_are_not_circles() {
    const PATHS: [&str; 3] =
        [r#"{"command":"pytest a"}"#, r#"{"command":"pytest b"}"#, r#"{"command":"pytest c"}"#];
    let different = |call: u32| Outcome::Failed {
        failure: Failure::Tool,
        message: "exit code 1".to_owned(),
        output: Output::text(format!("{call} failed")),
    };
    let sim = play(Conduct::default(), |asked| ("bash", PATHS[asked as usize % 3]), different);
    assert_eq!(found(&sim), []);

    let nap = |asked: u32| {
        if asked.is_multiple_of(2) {
            ("bash_output", r#"{"id":"call_1"}"#)
        } else {
            ("bash", r#"{"command":"sleep 60"}"#)
        }
    };
    let quiet = |call: u32| {
        Outcome::done(if call.is_multiple_of(2) { "(nothing new)\n[still running]" } else { "(no output)" })
    };
    assert_eq!(found(&play(Conduct::default(), nap, quiet)), []);

    let echo = |_| Outcome::done("[still running]");
    assert!(!found(&play(Conduct::default(), |_| ("bash", r#"{"command":"echo"}"#), echo)).is_empty());
}

/// D1.1: a plain run is only held by its limits.
#[test]
fn a_plain_run_is_not_watched() {
    let conduct = Conduct { plain: Some(true), ..Conduct::default() };
    let sim = play(conduct, |_| ("read", r#"{"path":"a"}"#), same);
    assert_eq!(found(&sim), []);
    assert_eq!(sim.run.cause, Some(Cause::Limit));
}

/// D3.4: a person who resumes a run that was paused for going in circles gives it all its chances again.
#[test]
fn a_resumed_run_has_its_chances_again() {
    let mut sim = play(Conduct::default(), |_| ("read", r#"{"path":"a"}"#), same);
    sim.start().unwrap();
    assert!(sim.run.repetitions.is_empty());
    sim.settle(&mut World::with_turns(&[]));
    assert_eq!(sim.run.status, Status::Completed);
}
