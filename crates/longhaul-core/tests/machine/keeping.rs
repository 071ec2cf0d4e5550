//! What goes from one look, conversation or step to the next, and what does not.

use longhaul_core::conduct::{Conduct, Judge, Looping};
use longhaul_core::conversation::{ModelFailure, ModelFailureKind, ModelReply, ProposedCall, Stop, Usage};
use longhaul_core::effect::Effect;
use longhaul_core::event::{Cause, Event, Purpose};
use longhaul_core::evidence::{Examination, Features};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::report::Report;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;

use super::sim::{Sim, World, chain, spec};

const USED: Usage = Usage { input_tokens: 7, output_tokens: 1, ..EMPTY };
const EMPTY: Usage = Usage {
    input_tokens: 0,
    output_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    cost: longhaul_core::money::Usd::ZERO,
    unpriced_tokens: 0,
};

fn conducted(conduct: Conduct, limits: Limits) -> Sim {
    Sim::create(RunSpec { conduct: Some(Box::new(conduct)), limits, ..spec() })
}

fn summed_up() -> Conduct {
    let looping = Looping { summarizer: Some("p/small".to_owned()), ..Looping::default() };
    Conduct { looping: Some(looping), ..Conduct::default() }
}

/// Works on until something is asked beside the conversation.
fn until_aside(sim: &mut Sim, world: &mut World) -> Effect {
    loop {
        let next = sim.effects.front().cloned().unwrap();
        if matches!(next, Effect::AskAside { .. }) {
            return sim.effects.pop_front().unwrap();
        }
        sim.step(world);
    }
}

fn answer(sim: &mut Sim, asked: &Effect, answer: Result<ModelReply, ModelFailure>) {
    let Effect::AskAside { aside, attempt } = *asked else { unreachable!("{asked:?}") };
    sim.give(Input::AsideEnded { aside, attempt, answer }).unwrap();
}

/// B8.2: a summary that was refused, is empty or never came is none: the next iteration begins without it, and what it took
/// is paid once.
#[test]
fn an_iteration_begins_without_a_summary_that_is_none() {
    let reply =
        |stop, text: &str| ModelReply { text: text.to_owned(), stop, usage: USED, ..ModelReply::default() };
    let failure = ModelFailure { usage: Some(USED), ..ModelFailure::new(ModelFailureKind::Rejected, "no") };
    for heard in [Ok(reply(Stop::Refused, "I may not.")), Ok(reply(Stop::End, "  ")), Err(failure)] {
        let mut sim = conducted(summed_up(), Limits::default());
        let mut world = World { says: vec!["a"], ..World::with_turns(&[]) };
        sim.start().unwrap();
        let asked = until_aside(&mut sim, &mut world);
        let before = sim.run.usage.tokens();
        answer(&mut sim, &asked, heard.clone());
        assert_eq!((sim.run.iteration, sim.run.status), (2, Status::Running), "{heard:?}");
        assert_eq!((&sim.run.resumed.summary, sim.run.usage.tokens()), (&None, before + 8), "{heard:?}");
        // The same answer once more, as of a process that died: it changes nothing.
        let events = sim.journal.len();
        answer(&mut sim, &asked, heard);
        assert_eq!(sim.journal.len(), events);
    }
    let mut sim = conducted(summed_up(), Limits::default());
    let mut world = World { says: vec!["a"], ..World::with_turns(&[]) };
    sim.start().unwrap();
    let asked = until_aside(&mut sim, &mut world);
    answer(&mut sim, &asked, Ok(reply(Stop::End, "Red.")));
    assert_eq!(sim.run.resumed.summary.as_deref(), Some("Red."));
}

/// A judge that refuses to judge, or says what nobody can read, is asked three times in all; then a person is.
#[test]
fn a_judge_without_an_opinion_is_asked_again_and_then_a_person_is() {
    let judge = Judge { model: "other/model".to_owned(), acceptance: Vec::new() };
    let mut sim = conducted(Conduct { judge: Some(judge), ..Conduct::default() }, Limits::default());
    let mut world = World { says: vec!["done"], ..World::with_turns(&[]) };
    sim.start().unwrap();
    for (stop, text) in [(Stop::Refused, "no"), (Stop::End, "It is fine."), (Stop::End, "{}")] {
        assert_eq!(sim.run.status, Status::Running);
        let asked = until_aside(&mut sim, &mut world);
        let reply = ModelReply { text: text.to_owned(), stop, usage: USED, ..ModelReply::default() };
        answer(&mut sim, &asked, Ok(reply));
    }
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
    assert!(
        sim.run.reason.as_ref().unwrap().starts_with("the judge gave no opinion"),
        "{:?}",
        sim.run.reason
    );
}

/// What was shown of the work is no evidence of it once the agent has worked on.
#[test]
fn evidence_goes_stale_when_the_work_goes_on() {
    let conduct = Conduct { verify: vec!["make test".to_owned()], ..Conduct::default() };
    let mut sim = conducted(conduct.clone(), Limits { max_steps: 2, ..Limits::default() });
    sim.start().unwrap();
    // It says it is done, is shown that it is not, and works on until its turns are used up.
    let mut world = World { passes: vec![false], ..World::with_turns(&[&[], &["write"]]) };
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Paused, "{:?}", sim.run.reason);
    let evidence = Report::of(&sim.run).evidence.unwrap();
    assert_eq!((evidence.holds, evidence.stale), (false, true));
    assert!(Report::of(&sim.run).markdown().contains("no evidence of what there is now"));

    let mut sim = conducted(conduct, Limits::default());
    sim.start().unwrap();
    sim.settle(&mut World { passes: vec![true], ..World::with_turns(&[&["write"]]) });
    let evidence = Report::of(&sim.run).evidence.unwrap();
    assert_eq!((sim.run.status, evidence.holds, evidence.stale), (Status::Completed, true, false));
}

/// B6.7: the list of features is what it was when it was last seen whole. A conversation that was cut short may have left
/// half of one.
#[test]
fn a_list_of_features_is_not_pinned_in_the_middle_of_its_writing() {
    let looping = Looping { features: Some(true), ..Looping::default() };
    let conduct = Conduct { looping: Some(looping), ..Conduct::default() };
    let mut sim = conducted(conduct, Limits { max_iteration_steps: Some(1), ..Limits::default() });
    sim.start().unwrap();
    // Two conversations are cut short by their limit, the third ends by itself.
    let mut world = World::with_turns(&[&["read"]]);
    let mut lists = ["half", "more", "whole", "later"].iter();
    let mut pinned = Vec::new();
    while pinned.len() < 4 {
        match sim.effects.pop_front().unwrap() {
            Effect::Examine { round, attempt, purpose } => {
                let list = if purpose == Purpose::Baseline {
                    None
                } else {
                    lists.next().map(|list| (*list).to_owned())
                };
                let features = Some(Features { total: 2, list, ..Features::default() });
                let found = Box::new(Examination { features, ..Examination::default() });
                sim.give(Input::Examined { round, attempt, found }).unwrap();
                if purpose != Purpose::Baseline {
                    pinned.push(sim.run.feature_list.clone());
                }
                if pinned.len() == 2 {
                    world = World::with_turns(&[]);
                }
            }
            other => {
                sim.effects.push_front(other);
                sim.step(&mut world);
            }
        }
    }
    let whole = Some("whole".to_owned());
    assert_eq!(pinned, [None, None, whole, Some("later".to_owned())]);
}

/// Every step has its own patience with fresh conversations, and begins without what the step before was handed over.
#[test]
fn every_step_has_its_own_fresh_starts() {
    let limits = Limits { max_iteration_steps: Some(1), ..Limits::default() };
    let mut sim = Sim::create(RunSpec { plan: chain(2), limits, ..spec() });
    sim.start().unwrap();
    let mut replies = 0;
    while let Some(effect) = sim.effects.pop_front() {
        let input = match effect {
            // Each step is begun anew seven times, and done in the eighth conversation.
            Effect::CallModel { turn, attempt } => {
                replies += 1;
                let args = Json::of(&serde_json::json!({ "n": replies }));
                let calls = if replies % 8 == 0 { Vec::new() } else { vec![ProposedCall::new("read", args)] };
                let reply = ModelReply { text: "Yes.".to_owned(), calls, ..ModelReply::default() };
                Input::ModelReplied { turn, attempt, reply, duration_us: 1 }
            }
            other => {
                sim.effects.push_front(other);
                sim.step(&mut World::with_turns(&[]));
                continue;
            }
        };
        sim.give(input).unwrap();
    }
    assert_eq!(
        (sim.run.status, sim.run.iteration, replies),
        (Status::Completed, 15, 16),
        "{:?}",
        sim.run.reason
    );
    let steps = sim.journal.iter().filter(|(_, _, event)| matches!(event, Event::StepCompleted { .. }));
    assert_eq!(steps.count(), 2);
}
