//! Loops and evidence: an end counts when it is shown, and fresh context is given until then.

use longhaul_core::command::Wish;
use longhaul_core::conduct::{Conduct, Judge, Looping};
use longhaul_core::effect::{Effect, Wake};
use longhaul_core::event::{Aside, Cause, Event, FreshStart, StopAction};
use longhaul_core::input::Input;
use longhaul_core::limits::{EMPTY_REPLIES_MAX, IDLE_ITERATIONS_MAX, REFUTED_CLAIMS_MAX};
use longhaul_core::prompt;
use longhaul_core::report::Report;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::{Status, Wait};
use longhaul_core::view::RunView;

use super::sim::{Sim, World, spec};

fn conducted(conduct: Conduct) -> Sim {
    Sim::create(RunSpec { conduct: Some(Box::new(conduct)), ..spec() })
}

fn looping(max_iterations: u32) -> Conduct {
    Conduct { looping: Some(Looping { max_iterations, ..Looping::default() }), ..Conduct::default() }
}

fn verified() -> Conduct {
    Conduct { verify: vec!["make test".to_owned()], ..Conduct::default() }
}

fn saying(says: &[&'static str]) -> World {
    World { says: says.to_vec(), ..World::with_turns(&[]) }
}

fn actions(sim: &Sim) -> Vec<StopAction> {
    let stopped = |event: &Event| match event {
        Event::AgentStopped { action, .. } => Some(*action),
        _ => None,
    };
    sim.journal.iter().filter_map(|(_, _, event)| stopped(event)).collect()
}

/// B1.1, B2.4, B2.5, B2.6, B2.8: three stops without the promise, the fourth with it: one run, three restarts.
#[test]
fn a_loop_goes_on_until_its_promise_is_kept() {
    let mut sim = conducted(looping(10));
    sim.start().unwrap();
    sim.settle(&mut saying(&["a", "b", "c", "Done.\nTASK_COMPLETE"]));
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(RunView::of(&sim.run).iteration_count, 3);
    let restart = StopAction::Restart;
    assert_eq!(actions(&sim), [restart, restart, restart, StopAction::Complete]);
    assert_eq!(sim.run.output(), Some("Done.\nTASK_COMPLETE"));
}

/// B2.1, B2.7, B2.9: what an iteration is told: that it goes on, which it is, the objective, the promise, no old messages.
#[test]
fn an_iteration_begins_with_fresh_context_and_the_mission() {
    let mut sim = conducted(looping(7));
    let mut world = saying(&["a"]);
    sim.start().unwrap();
    while sim.run.iteration == 1 {
        sim.step(&mut world);
    }
    let request = prompt::request(&sim.run, 1, longhaul_core::ids::Attempt::FIRST);
    assert_eq!(request.messages.len(), 1);
    assert_eq!((request.scene.iteration, request.scene.turn), (2, 1));
    let text = format!("{:?}", request.messages);
    for part in
        ["continuing", "iteration 2 of at most 7", "do it", "TASK_COMPLETE", "Review", "Do not start over"]
    {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

/// B3.2, B7.5: hard stop at max_iterations, with the promise and the count in the message.
#[test]
fn a_loop_ends_at_its_last_iteration() {
    assert_eq!(Looping::default().max_iterations, 10);
    let mut sim = conducted(looping(2));
    sim.start().unwrap();
    sim.settle(&mut saying(&["a", "b", "TASK_COMPLETE"]));
    assert_eq!((sim.run.status, sim.run.cause), (Status::Failed, Some(Cause::Limit)));
    assert_eq!(sim.run.reason.as_deref(), Some("max_iterations"));
    let error = sim.run.error.as_deref().unwrap();
    assert!(error.contains("TASK_COMPLETE") && error.contains("2 of 2"), "{error}");
    assert_eq!(actions(&sim), [StopAction::Restart, StopAction::Limit]);
}

/// B5.3: a loop that used its iterations up goes on with its next one when it may take more, and knows why the last did not count.
#[test]
fn a_loop_out_of_iterations_goes_on_with_more() {
    let mut sim = conducted(Conduct { verify: verified().verify, ..looping(2) });
    let mut world = World { passes: vec![false, false, false, true], ..saying(&["TASK_COMPLETE"; 3]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.iteration), (Status::Failed, 2));
    let more = |max_iterations| Wish::Start {
        limits: None,
        model: None,
        looping: Some(Looping { max_iterations, ..Looping::default() }),
    };
    assert!(sim.start().is_err(), "nothing was added");
    assert!(sim.wish(more(2)).is_err(), "as many as were used are none more");
    sim.wish(more(3)).unwrap();
    assert_eq!((sim.run.status, sim.run.iteration), (Status::Running, 3));
    let text = format!("{:?}", sim.run.messages);
    assert!(text.contains("iteration 3 of at most 3") && text.contains("$ make test"), "{text}");
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.error.as_deref()), (Status::Completed, None));
    assert_eq!(sim.run.plan.steps[0].error, None);
}

/// Every agent that has tools is told how they are used, whatever its own text says; one without tools is not.
#[test]
fn an_agent_with_a_text_of_its_own_is_told_of_tools() {
    let told =
        |spec: RunSpec| prompt::system(&Sim::create(spec).run).contains("interrupted, outcome unknown");
    let own = RunSpec { prompt: "You write verse.".to_owned(), ..spec() };
    assert!(told(own.clone()));
    assert!(!told(RunSpec { tools: Vec::new(), ..own }));
}

/// B2.10: a run without a promise ends with its answer, whatever that is.
#[test]
fn a_plain_run_is_not_restarted() {
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.settle(&mut saying(&["no promise"]));
    assert_eq!((sim.run.status, sim.run.iteration), (Status::Completed, 1));
    assert_eq!(actions(&sim), []);
}

/// B7.1: an empty reply ends nothing and counts as no iteration; the conversation goes on.
/// B7.2: but not for ever.
#[test]
fn empty_replies_are_ignored_a_few_times() {
    for conduct in [looping(10), Conduct::default()] {
        let mut sim = conducted(conduct.clone());
        sim.start().unwrap();
        sim.settle(&mut saying(&["", " \n", "TASK_COMPLETE"]));
        assert_eq!((sim.run.status, sim.run.iteration), (Status::Completed, 1));
        assert_eq!(sim.run.turns, 3);

        let mut sim = conducted(conduct);
        sim.start().unwrap();
        sim.settle(&mut saying(&[""; 20]));
        assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
        assert!(sim.run.reason.as_ref().unwrap().starts_with("empty_output"));
        assert_eq!(sim.run.turns, EMPTY_REPLIES_MAX);
    }
}

/// Evidence: a promise counts only when the verify commands pass, and the next iteration begins with what failed.
#[test]
fn a_promise_without_evidence_does_not_count() {
    let mut sim = conducted(Conduct { verify: verified().verify, ..looping(10) });
    let mut world = World { passes: vec![false, false, true], ..saying(&["TASK_COMPLETE"; 3]) };
    // The first look is at what the work begins with.
    world.passes.insert(0, false);
    sim.start().unwrap();
    while sim.run.iteration == 1 {
        sim.step(&mut world);
    }
    let text = format!("{:?}", sim.run.messages);
    assert!(text.contains("$ make test") && text.contains("assertion failed"), "{text}");
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.iteration), (Status::Completed, 3));
    let seen = sim.run.examined.as_ref().unwrap();
    assert!(seen.found.holds() && seen.found.tree.is_some());
}

/// Evidence in a plain run: the failing output is the start of the next turn of the same conversation.
#[test]
fn a_final_answer_without_evidence_does_not_count() {
    let mut sim = conducted(verified());
    let mut world = World { passes: vec![false, false, true], ..saying(&["done", "done", "done"]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.iteration, sim.run.turns), (Status::Completed, 1, 2));
    assert_eq!(actions(&sim), [StopAction::Continue, StopAction::Complete]);
    let text = format!("{:?}", sim.run.messages);
    assert!(text.contains("$ make test"), "{text}");
}

/// Pain 7: an agent that says done again and again without changing anything is stopped, not believed.
#[test]
fn a_claim_that_is_refuted_again_and_again_pauses_the_run() {
    for conduct in [verified(), Conduct { verify: verified().verify, ..looping(50) }] {
        let mut sim = conducted(conduct);
        let mut world = World { passes: vec![false], changes: false, ..saying(&["TASK_COMPLETE"; 50]) };
        sim.start().unwrap();
        sim.settle(&mut world);
        assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
        assert!(sim.run.reason.as_ref().unwrap().starts_with("not_verified"), "{:?}", sim.run.reason);
        assert!(sim.run.turns <= REFUTED_CLAIMS_MAX + 1);
    }
}

/// Progress from state: a loop whose iterations change nothing is paused, however many it may take.
#[test]
fn idle_iterations_pause_the_loop() {
    let mut sim = conducted(looping(1000));
    let mut world = World { changes: false, ..saying(&["still at it"; 1000]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
    assert!(sim.run.reason.as_ref().unwrap().starts_with("no_progress"));
    assert!(sim.run.iteration <= IDLE_ITERATIONS_MAX + 1);
    // A person who has looked gives it another try.
    world.changes = true;
    world.says.truncate(sim.said());
    world.says.push("TASK_COMPLETE");
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
}

/// B6.3, B6.5: the handoff of the last iteration is in the next one's instructions. B6.4: a broken one is left out.
#[test]
fn the_handoff_is_in_the_instructions() {
    let handoff = r#"{"phase":"Phase 2","completed":["a"],"next_step":"Write b","critical_files":["src/b.rs"],"memory_notes":"x"}"#;
    for (handoff, expected) in [(handoff, true), ("garbage", false)] {
        let mut sim = conducted(looping(5));
        let mut world = World { handoff: Some(handoff), ..saying(&["a"]) };
        sim.start().unwrap();
        assert!(!prompt::system(&sim.run).contains("[RESUMED STATE]"));
        while sim.run.iteration == 1 {
            sim.step(&mut world);
        }
        let system = prompt::system(&sim.run);
        for part in ["[RESUMED STATE]", "Phase 2", "Write b", "src/b.rs"] {
            assert_eq!(system.contains(part), expected, "{part} in {system}");
        }
    }
}

/// B8.1: the iteration is summed up by the model named for it, and the next one has the summary in its instructions.
/// B8.2: without a summary the loop goes on all the same.
#[test]
fn an_iteration_is_summed_up_for_the_next() {
    for answer in [Some("We chose the red one.".to_owned()), None] {
        let mut conduct = looping(5);
        conduct.looping.as_mut().unwrap().summarizer = Some("cheap/small".to_owned());
        let mut sim = conducted(conduct);
        let mut world = World { asides: answer.clone(), ..saying(&["a", "TASK_COMPLETE"]) };
        sim.start().unwrap();
        while sim.run.iteration == 1 {
            sim.step(&mut world);
        }
        assert_eq!(prompt::system(&sim.run).contains("red one"), answer.is_some());
        let ended = |event: &Event| match event {
            Event::AsideEnded { aside: Aside::Iteration { why }, model, error, .. } => {
                Some((*why, model.clone(), error.is_some()))
            }
            _ => None,
        };
        let ended: Vec<_> = sim.journal.iter().filter_map(|(_, _, event)| ended(event)).collect();
        assert_eq!(ended, [(FreshStart::NoPromise, "cheap/small".to_owned(), answer.is_none())]);
        sim.settle(&mut world);
        assert_eq!(sim.run.status, Status::Completed);
        let cheap = sim.run.spending.iter().any(|spent| spent.model == "cheap/small");
        assert_eq!(cheap, answer.is_some(), "what a summary costs is counted, by its model");
    }
}

/// A judge's no is a refutation with its reasons; its yes ends the run; one that cannot be understood is asked again, and
/// then a person is.
#[test]
fn a_judge_has_the_last_word() {
    let judged = || Conduct {
        judge: Some(Judge { model: "other/model".to_owned(), acceptance: vec!["it is fast".to_owned()] }),
        ..Conduct::default()
    };
    let mut sim = conducted(judged());
    let mut world = saying(&["done", "done now"]);
    world.asides = Some(r#"Well: {"accepted": false, "reasons": ["it is slow"]}"#.to_owned());
    sim.start().unwrap();
    while sim.run.turns < 2 {
        sim.step(&mut world);
    }
    assert!(format!("{:?}", sim.run.messages).contains("it is slow"));
    world.asides = Some(r#"{"accepted": true}"#.to_owned());
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);

    let mut sim = conducted(judged());
    let mut world = World { asides: Some("fine by me".to_owned()), ..saying(&["done"]) };
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
    assert!(sim.run.reason.as_ref().unwrap().contains("judge"));
}

/// B3.4, B5.3: a loop that was taken up again goes on where it was, with new limits if given.
#[test]
fn a_loop_is_resumed_with_other_limits() {
    let mut sim = conducted(looping(10));
    let mut world = saying(&["a", "b", "c", "TASK_COMPLETE", "DONE"]);
    sim.start().unwrap();
    while sim.run.iteration < 3 {
        sim.step(&mut world);
    }
    sim.effects.clear();
    let other = Looping { max_iterations: 20, promise: "DONE".to_owned(), ..Looping::default() };
    let input = Input::Restarted { generation: 2, limits: None, model: None, looping: Some(other) };
    sim.give(input).unwrap();
    let view = RunView::of(&sim.run);
    assert_eq!((view.iteration_count, view.max_iterations), (2, Some(20)));
    assert_eq!(view.completion_promise.as_deref(), Some("DONE"));
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.run.iteration, 5, "the old promise no longer counts");
}

/// B3.4: a crash at any event of a loop with evidence, a summary and refuted claims leads to the same end.
#[test]
fn a_loop_survives_a_crash_at_every_event() {
    let create = || {
        let mut conduct = Conduct { verify: vec!["make test".to_owned()], ..looping(9) };
        conduct.looping.as_mut().unwrap().summarizer = Some("cheap/small".to_owned());
        conducted(conduct)
    };
    let world = || {
        let mut world = World::with_turns(&[&["read", "bash"], &["write"]]);
        world.says = vec!["a", "TASK_COMPLETE", "b", "TASK_COMPLETE"];
        world.passes = vec![false, false, false, false, true];
        world.asides = Some("summary".to_owned());
        world
    };
    let mut whole = create();
    whole.start().unwrap();
    whole.settle(&mut world());
    assert_eq!((whole.run.status, whole.run.iteration), (Status::Completed, 4));
    for crash_at in 1..whole.journal.len() {
        let mut sim = whole.reopened_at(crash_at);
        match sim.run.status {
            Status::Created => sim.start().unwrap(),
            _ => sim
                .give(Input::Restarted { generation: 2, limits: None, model: None, looping: None })
                .unwrap(),
        }
        sim.settle(&mut world());
        assert_eq!(sim.run.status, Status::Completed, "crash at {crash_at}");
        assert_eq!(sim.run.iteration, 4, "crash at {crash_at}");
        let numbers: Vec<u32> = sim
            .journal
            .iter()
            .filter_map(|(_, _, event)| match event {
                Event::IterationStarted { number, .. } => Some(*number),
                _ => None,
            })
            .collect();
        assert_eq!(numbers, [2, 3, 4], "crash at {crash_at}");
    }
}

/// D1.3: a run's time is what it worked: a crash does not give it more, and waiting for nobody's answer takes none.
#[test]
fn a_deadline_survives_a_crash() {
    let limits = Limits { timeout_ms: Some(10_000), ..Limits::default() };
    let mut sim = Sim::create(RunSpec { limits, ..spec() });
    sim.start().unwrap();
    let deadline = |sim: &Sim| {
        sim.effects.iter().find_map(|effect| match effect {
            Effect::Sleep { wake: Wake::Deadline, rest } => Some(rest.delay_ms),
            _ => None,
        })
    };
    assert_eq!(deadline(&sim), Some(10_000));
    // It works for seven seconds, as its last event shows, and dies.
    sim.now = sim.now.plus_millis(7_000);
    sim.give(Input::CheckpointDue).unwrap();
    sim.effects.clear();
    sim.now = sim.now.plus_millis(3_600_000);
    sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
    let left = deadline(&sim).unwrap();
    assert!((2_000..=3_000).contains(&left), "{left} ms are left");
    // Too early: the timer is set again. In time: the run pauses.
    sim.effects.clear();
    sim.give(Input::Woke(Wake::Deadline)).unwrap();
    assert_eq!(sim.run.status, Status::Running);
    assert!(deadline(&sim).is_some());
    sim.now = sim.now.plus_millis(4_000);
    sim.give(Input::Woke(Wake::Deadline)).unwrap();
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)));
    assert!(sim.run.reason.as_ref().unwrap().starts_with("timeout"));
}

/// The result says what the agent said last, also of a run that did not end well, and what the judge thought of the work.
#[test]
fn a_result_has_the_last_words_and_the_judgement() {
    let mut sim = conducted(looping(2));
    sim.start().unwrap();
    sim.settle(&mut saying(&["a", "I am blocked: the key is missing"]));
    assert_eq!(sim.run.status, Status::Failed);
    assert_eq!(Report::of(&sim.run).output, "I am blocked: the key is missing");
    assert!(Report::of(&sim.run).markdown().contains("the key is missing"));

    let judge = Judge { model: "other/model".to_owned(), acceptance: vec!["it is fast".to_owned()] };
    let mut sim = conducted(Conduct { judge: Some(judge), ..Conduct::default() });
    let mut world = saying(&["done"]);
    world.asides = Some(r#"{"accepted": true, "reasons": ["I measured it"]}"#.to_owned());
    sim.start().unwrap();
    sim.settle(&mut world);
    let report = Report::of(&sim.run);
    let judged = report.judgement.clone().unwrap();
    assert_eq!((judged.accepted, judged.model.as_str()), (true, "other/model"));
    let text = report.markdown();
    for part in ["completed, and accepted by a judge", "other/model", "it is fast", "I measured it"] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }
}

/// A judge that is busy is waited for; one that refuses the same tree again and again brings a person.
#[test]
fn a_judge_is_waited_for_and_its_refusals_are_counted() {
    let judged = || Conduct {
        judge: Some(Judge { model: "other/model".to_owned(), acceptance: Vec::new() }),
        ..Conduct::default()
    };
    let mut sim = conducted(judged());
    let mut world = saying(&["done"]);
    sim.start().unwrap();
    while sim.slept_ms.len() < 5 {
        sim.step(&mut world);
    }
    assert_eq!(sim.run.status, Status::Running);
    // That it waits, and until when, is seen from outside; a process that dies meanwhile leaves the rest of the wait to the next.
    while sim.run.wake_at().is_none() {
        sim.step(&mut world);
    }
    let waits = |sim: &Sim| (sim.run.wait(), RunView::of(&sim.run).wake_at);
    assert_eq!(waits(&sim), (Wait::Timer, sim.run.wake_at()));
    let mut next = sim.reopened_at(sim.journal.len());
    next.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
    assert_eq!(waits(&next), waits(&sim));
    assert!(matches!(next.effects.back(), Some(Effect::Sleep { wake: Wake::Aside { .. }, .. })));
    world.asides = Some(r#"{"accepted": true}"#.to_owned());
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);

    let mut sim = conducted(judged());
    let mut world = World { changes: false, ..saying(&["done"; 50]) };
    world.asides = Some(r#"{"accepted": false, "reasons": ["no"]}"#.to_owned());
    sim.start().unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.turns), (Status::Paused, REFUTED_CLAIMS_MAX));
}

/// B7.2: a run that was paused for empty replies goes on at the first resume.
#[test]
fn an_empty_run_goes_on_when_resumed() {
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim.settle(&mut saying(&["", "", "", "At last."]));
    assert_eq!(sim.run.status, Status::Paused);
    sim.start().unwrap();
    sim.settle(&mut saying(&["", "", "", "At last."]));
    assert_eq!((sim.run.status, sim.run.output()), (Status::Completed, Some("At last.")));
}
