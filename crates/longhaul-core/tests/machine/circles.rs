//! Going round in circles: what counts as that, what is done about it, and what is honest waiting.

use longhaul_core::conduct::Conduct;
use longhaul_core::conversation::{ModelReply, ProposedCall};
use longhaul_core::effect::Effect;
use longhaul_core::event::{Cause, Event};
use longhaul_core::input::{Input, Tended};
use longhaul_core::json::Json;
use longhaul_core::repetition::{Remedy, Repetition};
use longhaul_core::run::Call;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::tool::{Failure, Outcome, Output, STILL_RUNNING, ToolGrant};

use super::sim::{Sim, World, spec};

/// A run whose model asks for what `next` says, turn by turn, with results from `result`.
fn play<A: Into<String>>(
    conduct: Conduct,
    next: impl Fn(u32) -> (&'static str, A),
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
    go_on(&mut sim, |asked| vec![next(asked)], result);
    sim
}

/// Starts it, or starts it again; turns are counted from there, and may ask for several things.
fn go_on<A: Into<String>>(
    sim: &mut Sim,
    next: impl Fn(u32) -> Vec<(&'static str, A)>,
    result: impl Fn(u32) -> Outcome,
) {
    sim.start().unwrap();
    let mut asked = 0;
    while let Some(effect) = sim.effects.pop_front() {
        let input = match effect {
            Effect::CallModel { turn, attempt } => {
                asked += 1;
                let call = |(tool, args): (_, A)| ProposedCall::new(tool, Json::parse(args.into()).unwrap());
                let calls = next(asked).into_iter().map(call).collect();
                let reply = ModelReply { text: "hm".to_owned(), calls, ..ModelReply::default() };
                Input::ModelReplied { turn, attempt, reply, duration_us: 1 }
            }
            Effect::RunTool { call, attempt } => {
                let outcome = result(call.0);
                Input::ToolEnded {
                    call,
                    attempt,
                    outcome,
                    duration_us: 1,
                    hold: None,
                    tended: Tended::default(),
                }
            }
            Effect::Examine { round, attempt, .. } => {
                let found = Box::default();
                Input::Examined { round, attempt, found }
            }
            other => unreachable!("{other:?}"),
        };
        sim.give(input).unwrap();
    }
}

fn found(sim: &Sim) -> Vec<(Repetition, Remedy, u32)> {
    let loops = sim.journal.iter().filter_map(|(_, _, event)| match event {
        Event::DoomLoop { repetition, remedy, count, .. } => Some((*repetition, *remedy, *count)),
        _ => None,
    });
    loops.collect()
}

fn was_refused(call: &Call) -> bool {
    call.outcome()
        .is_some_and(|outcome| matches!(outcome, Outcome::Failed { failure: Failure::DoomLoop, .. }))
}

fn refused_at(sim: &Sim) -> Option<u32> {
    sim.run.calls.iter().find(|call| was_refused(call)).map(|call| call.id.0)
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

/// A call that only ever died with longhaul is no circle: it may be tried until a limit is reached. Those that ended still count.
#[test]
fn calls_that_died_with_longhaul_do_not_count() {
    let cut = |is_cut: fn(u32) -> bool| {
        let limits = Limits { max_tool_calls: 30, max_steps: 400, ..Limits::default() };
        let mut sim = Sim::create(RunSpec { conduct: Some(Box::default()), limits, ..spec() });
        sim.start().unwrap();
        let mut generation = 1;
        while let Some(effect) = sim.effects.pop_front() {
            let input = match effect {
                Effect::CallModel { turn, attempt } => {
                    let args = Json::parse(r#"{"command":"make"}"#.to_owned()).unwrap();
                    let calls = vec![ProposedCall::new("bash", args)];
                    Input::ModelReplied {
                        turn,
                        attempt,
                        reply: ModelReply { calls, ..ModelReply::default() },
                        duration_us: 1,
                    }
                }
                Effect::RunTool { call, .. } if is_cut(call.0) => {
                    sim.effects.clear();
                    generation += 1;
                    Input::Restarted { generation, limits: None, model: None, looping: None }
                }
                Effect::RunTool { call, attempt } => Input::ToolEnded {
                    call,
                    attempt,
                    outcome: same(call.0),
                    duration_us: 1,
                    hold: None,
                    tended: Tended::default(),
                },
                Effect::Examine { round, attempt, .. } => {
                    Input::Examined { round, attempt, found: Box::default() }
                }
                other => unreachable!("{other:?}"),
            };
            sim.give(input).unwrap();
        }
        sim
    };
    let sim = cut(|_| true);
    assert_eq!(found(&sim), []);
    let died = sim.run.calls.iter().filter(|call| call.outcome().is_some_and(Outcome::was_cut_short));
    assert_eq!((died.count(), sim.run.cause), (30, Some(Cause::Limit)));
    assert_eq!(refused_at(&cut(|call| call % 2 == 0)), Some(4), "after two that ended");
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
    let running = |_| Outcome::done(format!("building\n{STILL_RUNNING}"));
    let sim = play(Conduct::default(), |_| ("bash_output", r#"{"id":"job_1"}"#), running);
    assert_eq!(found(&sim), []);
    assert_eq!(sim.run.cause, Some(Cause::Limit), "only a limit ends it");

    let progress = |call: u32| Outcome::done(format!("{call} % done"));
    let mut asked_until = 0;
    let sim = play(Conduct::default(), |_| ("bash", r#"{"command":"tail log"}"#), progress);
    asked_until += refused_at(&sim).unwrap();
    assert_eq!(asked_until, 30, "a result that always changes is waited for much longer, not for ever");
}

/// Starting the same command again and again is a circle, although each is left running under another name.
#[test]
fn a_circle_may_leave_commands_running() {
    const SAME: [&str; 3] = [
        r#"{"command":"make"}"#,
        r#"{"command":"make","timeout_ms":600000}"#,
        r#"{"command":"make","background":true}"#,
    ];
    let result = |call: u32| {
        Outcome::done(match call % 3 {
            0 => format!("running in the background as call_{call}; bash_output shows what it prints"),
            _ => "made".to_owned(),
        })
    };
    let sim = play(Conduct::default(), |asked| ("bash", SAME[(asked as usize - 1) % 3]), result);
    assert!(!found(&sim).is_empty(), "{:?}", sim.run.reason);
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

/// What three calls in turn ask for.
fn in_turn(asked: u32) -> (&'static str, &'static str) {
    match asked % 3 {
        1 => ("read", r#"{"path":"a"}"#),
        2 => ("read", r#"{"path":"b"}"#),
        _ => ("bash", r#"{"command":"test -e fixed"}"#),
    }
}

/// Who was told may look at what is there, also at what was looked at before, and go on from that. Another round is a circle again.
#[test]
fn who_was_told_may_look_once() {
    // The nineteenth call is refused: three were new, fifteen were not.
    let then_works = |asked: u32| match asked {
        ..=19 => (in_turn(asked).0, in_turn(asked).1.to_owned()),
        20 | 21 => ("read", format!(r#"{{"path":"{}"}}"#, if asked == 20 { "a" } else { "b" })),
        _ => ("bash", format!(r#"{{"command":"make part-{asked}"}}"#)),
    };
    let made =
        |call: u32| Outcome::done(if call > 21 { format!("made by {call}") } else { "same".to_owned() });
    let sim = play(Conduct::default(), then_works, made);
    assert_eq!(found(&sim), [(Repetition::NothingNew, Remedy::Nudge, 15)]);
    let refused: Vec<u32> =
        sim.run.calls.iter().filter(|call| was_refused(call)).map(|call| call.id.0).collect();
    assert_eq!((refused, sim.run.cause), (vec![19], Some(Cause::Limit)));

    let sim = play(Conduct::default(), in_turn, same);
    assert_eq!(
        found(&sim)[..2],
        [(Repetition::NothingNew, Remedy::Nudge, 15), (Repetition::NothingNew, Remedy::FreshStart, 3)]
    );
}

/// D3.4, F37: who fails at one thing after another, each in other words, is told, begun anew and paused. Who gets something done
/// now and then is left alone.
#[test]
fn whoever_only_fails_is_paused() {
    let other_each_time = |asked: u32| ("bash", format!(r#"{{"command":"rm /x{asked}"}}"#));
    let denied = |call: u32| Outcome::failed(Failure::NotPermitted, format!("rm /x{call} is denied"));
    let sim = play(Conduct::default(), other_each_time, denied);
    let remedies: Vec<Remedy> = found(&sim).iter().map(|(_, remedy, _)| *remedy).collect();
    assert_eq!(remedies, [Remedy::Nudge, Remedy::FreshStart, Remedy::Pause]);
    assert!(
        found(&sim).iter().all(|(repetition, _, count)| (*repetition, *count) == (Repetition::AllFail, 30))
    );
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
    assert!(sim.run.calls.len() <= 63, "{}", sim.run.calls.len());

    let now_and_then = |call: u32| {
        if call.is_multiple_of(25) { Outcome::done(format!("made by {call}")) } else { denied(call) }
    };
    let sim = play(Conduct::default(), other_each_time, now_and_then);
    assert_eq!((found(&sim).len(), sim.run.cause), (0, Some(Cause::Limit)));
    // A command that fails and says something brings news.
    let output = |call: u32| Output { text: format!("{call} tests fail").into(), ..Output::default() };
    let talking = |call: u32| Outcome::Failed {
        failure: Failure::Tool,
        message: "exit code 1".to_owned(),
        output: output(call),
    };
    let sim = play(Conduct::default(), other_each_time, talking);
    assert_eq!((found(&sim).len(), sim.run.cause), (0, Some(Cause::Limit)));
}

/// D3.4, F37: whatever a model repeats, in rounds of whatever length and in whatever order, it is told, begun anew and paused within
/// a number of calls that is known.
#[test]
fn whoever_only_repeats_is_paused() {
    for max in [2, 3, 5] {
        let conduct = || Conduct { repeats_max: Some(max), ..Conduct::default() };
        for length in 1..=5 * max {
            let round = |asked: u32| ("read", format!(r#"{{"path":"{}"}}"#, asked % length));
            let sim = play(conduct(), round, same);
            let remedies: Vec<Remedy> = found(&sim).iter().map(|(_, remedy, _)| *remedy).collect();
            assert_eq!(remedies, [Remedy::Nudge, Remedy::FreshStart, Remedy::Pause], "{length} of {max}");
            let (calls, most) = (sim.run.calls.len() as u32, 2 * length + 11 * max + 3);
            assert!(calls <= most, "{calls} calls of {length}, at most {max} alike");
            assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
        }
        for kinds in 2..=6 {
            let mixed = |asked: u32| {
                let kind = asked.wrapping_mul(2_654_435_761) >> 16;
                ("read", format!(r#"{{"path":"{}"}}"#, kind % kinds))
            };
            let sim = play(conduct(), mixed, same);
            assert_eq!(sim.run.cause, Some(Cause::Stuck), "{kinds} kinds, at most {max} alike");
        }
    }
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

/// D3.4: what was tried before a person looked counts no longer. The very call that led nowhere may succeed now, so it is made, also
/// if it was asked for before the pause.
#[test]
fn a_resumed_run_makes_the_calls_it_made_before() {
    let mut sim = play(Conduct::default(), in_turn, same);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
    let (calls, circles) = (sim.run.calls.len(), found(&sim).len());
    go_on(&mut sim, |asked| vec![in_turn(asked)], same);
    let again: Vec<bool> = sim.run.calls[calls..].iter().map(was_refused).collect();
    assert_eq!(again[..19], [[false; 18].as_slice(), &[true]].concat());
    assert_eq!(found(&sim)[circles], (Repetition::NothingNew, Remedy::Nudge, 15));

    // What comes after the call that led to the pause is not begun before it.
    let read = |path: &str| ("read", format!(r#"{{"path":"{path}"}}"#));
    let twice = |_| vec![read("a"), read("a")];
    let mut sim = play(Conduct::default(), |_| read("b"), same);
    go_on(&mut sim, twice, same);
    let is_left = |call: &&Call| call.outcome().is_none();
    let left: Vec<u32> = sim.run.calls.iter().filter(is_left).map(|call| call.id.0).collect();
    assert_eq!((sim.run.cause, left.len()), (Some(Cause::Stuck), 1));
    sim.start().unwrap();
    assert!(
        sim.effects.iter().any(|effect| matches!(effect, Effect::RunTool { call, .. } if call.0 == left[0]))
    );
}
