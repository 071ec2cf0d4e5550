//! What goes from one look, conversation or step to the next, and what does not.

use longhaul_core::conduct::{Conduct, Judge, Looping};
use longhaul_core::conversation::{ModelFailure, ModelFailureKind, ModelReply, ProposedCall, Stop, Usage};
use longhaul_core::effect::Effect;
use longhaul_core::event::{Brought, Cause, Event, Kept, Purpose};
use longhaul_core::evidence::{Examination, Features};
use longhaul_core::input::{Home, Input, Tended};
use longhaul_core::json::Json;
use longhaul_core::plan::{Plan, Step};
use longhaul_core::report::{Evidence, Now, Report, Sameness};
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;

use super::errands::{crew_spec, step};
use super::sim::{Sim, World, chain, spec};

const USED: Usage = Usage { input_tokens: 7, output_tokens: 1, ..EMPTY };
const EMPTY: Usage = Usage {
    input_tokens: 0,
    output_tokens: 0,
    cache_read_tokens: 0,
    cache_write_tokens: 0,
    cost: longhaul_core::money::Usd::ZERO,
    unpriced_tokens: 0,
    estimated_tokens: 0,
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

fn evidence(sim: &Sim, now: &Now) -> Evidence {
    let mut evidence = Report::of(&sim.run).evidence.unwrap();
    evidence.held_against(now);
    evidence
}

fn tree(tree: &str) -> Now {
    Now::Tree(tree.to_owned())
}

fn tip(commit: &str) -> Now {
    Now::Tip(commit.to_owned())
}

/// What was shown of the work is evidence of it as long as the files are the same. Whether they are is not for the run to say: it may
/// have looked at something only, or have been refused.
#[test]
fn evidence_is_of_the_files_it_was_made_on() {
    let conduct = Conduct { verify: vec!["make test".to_owned()], ..Conduct::default() };
    let mut sim = conducted(conduct.clone(), Limits { max_steps: 2, ..Limits::default() });
    sim.start().unwrap();
    // It says it is done, is shown that it is not, and works on until its turns are used up.
    let mut world = World { passes: vec![false], ..World::with_turns(&[&[], &["read"]]) };
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Paused, "{:?}", sim.run.reason);
    assert!(!evidence(&sim, &Now::Unseen).holds);
    let seen = sim.run.examined.as_ref().unwrap().found.tree.clone().unwrap();
    for (now, files) in [
        (tree(&seen), Sameness::Same),
        (tree("another"), Sameness::Other),
        (tip("abc"), Sameness::Unknown),
        (Now::Unseen, Sameness::Unknown),
    ] {
        assert_eq!(evidence(&sim, &now).files, files, "{now:?}");
    }

    let mut sim = conducted(conduct, Limits::default());
    sim.start().unwrap();
    sim.settle(&mut World { passes: vec![true], ..World::with_turns(&[&["write"]]) });
    assert_eq!(sim.run.status, Status::Completed);
    let seen = sim.run.examined.as_ref().unwrap().found.tree.clone().unwrap();
    for (now, headline, said) in [
        (tree(&seen), "completed, and shown to be done\n", ""),
        (tree("another"), "completed, by the agent's word\n", "no evidence of what there is now"),
        (Now::Unseen, "shown to be done on files that may be others by now\n", "cannot be told"),
    ] {
        let report = Report { evidence: Some(evidence(&sim, &now)), ..Report::of(&sim.run) };
        let text = report.markdown();
        assert!(text.contains(headline) && text.contains(said), "{now:?}: {text}");
    }
}

/// What was shown of one step is not said of the others.
#[test]
fn a_headline_says_how_much_was_shown() {
    let verified = |index: usize, step: Step| Step {
        verify: (index == 0).then(|| vec!["make test".to_owned()]),
        ..step
    };
    let steps = chain(3).steps.into_iter().enumerate().map(|(index, step)| verified(index, step));
    let spec = RunSpec { plan: Plan { steps: steps.collect() }, ..spec() };
    let mut sim = Sim::create(spec);
    sim.start().unwrap();
    sim.settle(&mut World { passes: vec![true], ..World::with_turns(&[&["write"]]) });
    assert_eq!(sim.run.status, Status::Completed, "{:?}", sim.run.reason);
    let seen = sim.run.examined.as_ref().unwrap().found.tree.clone().unwrap();
    let report = Report { evidence: Some(evidence(&sim, &tree(&seen))), ..Report::of(&sim.run) };
    let text = report.markdown();
    assert!(text.contains(": completed; 1 of 3 steps were shown to be done\n"), "{text}");
}

/// Works a run to its end; what each step leaves is kept as this says, in order, before anything else happens.
fn kept(spec: RunSpec, world: &mut World, kept: &[Kept]) -> Sim {
    let mut sim = Sim::create(RunSpec { auto_commit: Some(true), ..spec });
    let mut kept = kept.iter();
    sim.start().unwrap();
    while sim.step(world) {
        if sim.run.owes_commit() {
            let steps = sim.run.plan.completed_count() as u32;
            sim.give(Input::WorkKept {
                steps,
                kept: kept.next().unwrap().clone(),
                tended: Tended::default(),
            })
            .unwrap();
        }
    }
    assert_eq!(sim.run.status, Status::Completed);
    sim
}

/// F37: what the user's repository got, and what it did not get, is told when it happens; that it still lacks something once, and
/// again when the reason is another one.
#[test]
fn what_comes_home_is_on_record() {
    let mut sim = Sim::create(spec());
    let brought = |branch: &str| Brought { branch: format!("refs/heads/{branch}"), commit: "1".to_owned() };
    let came = |branch| Tended { brought: vec![brought(branch)], home: Home::Complete, ..Tended::default() };
    let lacks = |why: &str| Tended { home: Home::Lacking { why: why.to_owned() }, ..Tended::default() };
    let complete = || Tended { home: Home::Complete, ..Tended::default() };
    let mended = Tended { mended: vec!["HEAD".to_owned()], ..came("c") };
    let cases = [
        ("nothing to do", complete(), "", None),
        ("the first", came("a"), "a", None),
        ("told already", came("a"), "", None),
        ("it cannot", lacks("moved"), "!moved", Some("moved")),
        ("it still cannot", lacks("moved"), "", Some("moved")),
        ("nobody looked", Tended::default(), "", Some("moved")),
        ("for another reason", lacks("full"), "!full", Some("full")),
        ("others can", Tended { brought: vec![brought("b")], ..lacks("full") }, "b", Some("full")),
        ("somebody else did", complete(), "all", None),
        ("nothing to do again", complete(), "", None),
        ("mended and brought", mended, "+HEAD c", None),
    ];
    for (case, tended, told, lacking) in cases {
        let before = sim.journal.len();
        sim.give(Input::Tended(tended)).unwrap();
        let said: Vec<String> = sim.events()[before..]
            .iter()
            .map(|event| match event {
                Event::WorkspaceMended { parts } => format!("+{}", parts.join(",")),
                Event::BranchesComplete => "all".to_owned(),
                Event::BranchesBrought { branches } => branches[0].name().to_owned(),
                Event::BranchNotBrought { why } => format!("!{why}"),
                other => panic!("{case}: {other:?}"),
            })
            .collect();
        assert_eq!((said.join(" ").as_str(), sim.run.not_brought.as_deref()), (told, lacking), "{case}");
    }
}

/// Where only the branch is left, evidence is of the commit that was kept right after the look, whoever made it. What an older
/// journal does not say, or what could not be committed, is unknown and never taken for the same.
#[test]
fn evidence_is_of_the_commit_that_holds_it() {
    let verify = vec!["make test".to_owned()];
    let of_all = || RunSpec {
        plan: chain(2),
        conduct: Some(Box::new(Conduct { verify: verify.clone(), ..Conduct::default() })),
        ..spec()
    };
    let of_first = || {
        let mut plan = chain(2);
        plan.steps[0].verify = Some(verify.clone());
        RunSpec { plan, ..spec() }
    };
    let of_others = || {
        let mut spec = crew_spec(vec![step("a", "PLUTO", &[]), step("b", "VENUS", &["a"])]);
        spec.conduct = of_all().conduct;
        spec
    };
    let committed = |commit: &str| Kept::Committed { commit: commit.to_owned(), branch: None };
    let own = |head: &str| Kept::Unchanged { head: Some(head.to_owned()) };
    let uncommitted = || Kept::Uncommitted { why: "no".to_owned() };
    let cases = [
        ("by longhaul", of_all(), [committed("1"), committed("2")], Some("2")),
        ("by the agent", of_all(), [committed("1"), own("2")], Some("2")),
        ("all by the agent", of_all(), [own("1"), own("2")], Some("2")),
        ("nothing more", of_all(), [committed("1"), committed("1")], Some("1")),
        ("an older journal", of_all(), [committed("1"), Kept::Unchanged { head: None }], None),
        ("not committed", of_all(), [committed("1"), uncommitted()], None),
        ("only the first was looked at", of_first(), [committed("1"), committed("2")], Some("1")),
        ("by others", of_others(), [committed("1"), committed("2")], Some("2")),
    ];
    for (case, spec, all, head) in cases {
        let mut world = World { passes: vec![true], ..World::with_turns(&[&["write"]]) };
        let sim = kept(spec, &mut world, &all);
        for at in ["1", "2", "3"] {
            let files = match head {
                None => Sameness::Unknown,
                Some(head) if head == at => Sameness::Same,
                Some(_) => Sameness::Other,
            };
            assert_eq!(evidence(&sim, &tip(at)).files, files, "{case}, at {at}");
        }
    }
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
