//! A model that does not answer.

use longhaul_core::conversation::{
    Message, ModelFailure, ModelFailureKind, ModelReply, ProposedCall, Stop, Usage,
};
use longhaul_core::event::{Cause, Event};
use longhaul_core::ids::Attempt;
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::limits::{
    BROKEN_REPLIES_MAX, CUT_OFF_REPLIES_MAX, FIRST_CONTACT_TRIES_MAX, GARBLED_REPLIES_MAX,
};
use longhaul_core::run::Phase;
use longhaul_core::status::{Status, Wait};

use super::sim::{Sim, World, spec};

fn failure(kind: ModelFailureKind) -> ModelFailure {
    ModelFailure::new(kind, "said so")
}

/// Fails the turn in hand like this, and wakes the run from its rest if it takes one.
fn fail(sim: &mut Sim, failure: ModelFailure) {
    if let Phase::Resting { turn, attempt, .. } = sim.run.phase {
        sim.give(Input::Woke(longhaul_core::effect::Wake::Turn { turn, attempt })).unwrap();
    }
    let Phase::Thinking { turn, attempt } = sim.run.phase else { panic!("{:?}", sim.run.phase) };
    sim.give(Input::ModelFailed { turn, attempt, failure }).unwrap();
}

fn reply(sim: &mut Sim, reply: ModelReply) {
    let Phase::Thinking { turn, attempt } = sim.run.phase else { panic!("{:?}", sim.run.phase) };
    sim.give(Input::ModelReplied { turn, attempt, reply, duration_us: 1 }).unwrap();
}

fn started() -> Sim {
    let mut sim = Sim::create(spec());
    sim.start().unwrap();
    sim
}

fn with_models(models: &[&str]) -> Sim {
    let mut spec = spec();
    spec.model = models[0].to_owned();
    spec.models = Some(models.iter().map(|model| (*model).to_owned()).collect());
    let mut sim = Sim::create(spec);
    sim.start().unwrap();
    sim
}

fn rest_ms(sim: &Sim) -> u64 {
    let Phase::Resting { rest, .. } = sim.run.phase else { panic!("{:?}", sim.run.phase) };
    rest.delay_ms
}

/// F28: a model that is out of order is asked again for as long as it takes, at growing intervals of at most some five
/// minutes; nothing is spent meanwhile, and the run goes on by itself.
#[test]
fn an_outage_is_waited_out() {
    let mut world = World { model_failures: 200, ..World::with_turns(&[]) };
    let mut sim = started();
    sim.settle(&mut world);
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.slept_ms.len(), 200);
    assert!(sim.slept_ms.iter().sum::<u64>() > 8 * 3_600_000);
    for (index, slept_ms) in sim.slept_ms.iter().enumerate() {
        let least = 300_000.min(1000 << index.min(20));
        assert!((least..=least + least / 4).contains(slept_ms), "wait {index}: {slept_ms}");
    }
}

/// F26: two runs that fail together do not come back together.
#[test]
fn waits_are_scattered() {
    let rests: Vec<u64> = (0..8)
        .map(|bits| {
            let mut sim = Sim::create(longhaul_core::spec::RunSpec {
                id: longhaul_core::ids::RunId::from_bits(bits),
                ..spec()
            });
            sim.start().unwrap();
            fail(&mut sim, failure(ModelFailureKind::Unavailable));
            rest_ms(&sim)
        })
        .collect();
    assert!(rests.iter().any(|rest| *rest != rests[0]), "{rests:?}");
}

/// F27: the provider's wish is honoured, within a day; no wish of nothing makes a loop without a pause.
#[test]
fn wishes_are_honoured_and_clamped() {
    for (wished_ms, least_ms) in [(0, 1000), (7000, 7000), (86_400_000, 86_400_000), (u64::MAX, 86_400_000)] {
        let mut sim = started();
        let limited = failure(ModelFailureKind::RateLimited);
        fail(&mut sim, ModelFailure { after_ms: Some(wished_ms), ..limited });
        assert!((least_ms..least_ms + 300).contains(&rest_ms(&sim)), "{wished_ms}: {}", rest_ms(&sim));
        assert_eq!(sim.run.wait(), Wait::RateLimit);
    }
    let mut spec = spec();
    spec.retry.base_backoff_ms = 0;
    let mut sim = Sim::create(spec);
    sim.start().unwrap();
    for _ in 0..30 {
        fail(&mut sim, failure(ModelFailureKind::Unavailable));
    }
    assert!(rest_ms(&sim) >= 300_000);
}

/// A rate limit is waited for durably: after a restart the wait goes on to the same moment.
#[test]
fn a_rate_limit_survives_a_restart() {
    let mut sim = started();
    let limited = failure(ModelFailureKind::RateLimited);
    fail(&mut sim, ModelFailure { after_ms: Some(3_600_000), ..limited });
    let before = sim.run.phase.clone();
    sim.effects.clear();
    sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
    assert_eq!((sim.run.phase.clone(), sim.run.wait()), (before, Wait::RateLimit));
    assert!(format!("{:?}", sim.effects).contains("Sleep"), "{:?}", sim.effects);
}

/// A provider that was never reached is a wrong address before it is an outage; once it was reached, it is an outage.
#[test]
fn first_contact_is_bounded() {
    let mut sim = started();
    for _ in 0..FIRST_CONTACT_TRIES_MAX {
        fail(&mut sim, failure(ModelFailureKind::Unreachable));
    }
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Provider)));
    assert!(sim.run.reason.as_ref().unwrap().contains("never reached in 8 tries: said so"));
    sim.start().unwrap();
    for _ in 1..FIRST_CONTACT_TRIES_MAX {
        fail(&mut sim, failure(ModelFailureKind::Unreachable));
    }
    assert_eq!(sim.run.status, Status::Running, "a resumed run is patient again");
    let mut sim = started();
    fail(&mut sim, failure(ModelFailureKind::Unavailable));
    for _ in 0..100 {
        fail(&mut sim, failure(ModelFailureKind::Unreachable));
    }
    assert_eq!(sim.run.status, Status::Running);
}

/// Replies that break off may each have cost money: after a number of them a person is asked. Silence in between does not
/// count.
#[test]
fn broken_replies_are_bounded() {
    let mut sim = started();
    for _ in 0..BROKEN_REPLIES_MAX - 1 {
        fail(&mut sim, failure(ModelFailureKind::Broken));
        fail(&mut sim, failure(ModelFailureKind::Unavailable));
    }
    assert_eq!(sim.run.status, Status::Running);
    fail(&mut sim, failure(ModelFailureKind::Broken));
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Provider)));
}

/// F32, F33: replies that come whole and are none, one after the other, are the same the next time: a person is asked soon. A
/// line that breaks in between, or another model, begins the count anew.
#[test]
fn garbled_replies_are_bounded_sooner() {
    let garbled = || ModelFailure { garbled: true, ..failure(ModelFailureKind::Broken) };
    let mut sim = started();
    for _ in 0..2 {
        for _ in 0..GARBLED_REPLIES_MAX - 1 {
            fail(&mut sim, garbled());
        }
        fail(&mut sim, failure(ModelFailureKind::Unavailable));
    }
    assert_eq!(sim.run.status, Status::Running);
    for _ in 0..GARBLED_REPLIES_MAX - 1 {
        fail(&mut sim, garbled());
        assert_eq!(sim.run.status, Status::Running);
    }
    fail(&mut sim, garbled());
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Provider)));
}

/// F35, F36: what time cannot mend parks the run with its reason, without a retry, and a resume asks again.
#[test]
fn what_only_a_person_can_mend_parks_the_run() {
    for (kind, cause) in [
        (ModelFailureKind::Credentials, Cause::Parked),
        (ModelFailureKind::Quota, Cause::Parked),
        (ModelFailureKind::ModelUnknown, Cause::Parked),
        (ModelFailureKind::Overflow, Cause::Stuck),
        (ModelFailureKind::Refused, Cause::Stuck),
        (ModelFailureKind::Rejected, Cause::Stuck),
    ] {
        let mut sim = started();
        fail(&mut sim, failure(kind));
        assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(cause)), "{kind:?}");
        assert_eq!(sim.run.reason, Some(format!("{}: said so", kind.as_str())));
        sim.start().unwrap();
        sim.settle(&mut World::with_turns(&[]));
        assert_eq!(sim.run.status, Status::Completed);
    }
}

/// Fallback models are switched to when the one in use keeps failing, is limited for long, or cannot be used at all; each
/// is asked once before a rest, and the round begins anew after it.
#[test]
fn other_models_are_asked_in_turn() {
    let mut sim = with_models(&["a/1", "b/2"]);
    for _ in 0..2 {
        fail(&mut sim, failure(ModelFailureKind::Unavailable));
        assert_eq!(sim.run.spec.model, "a/1");
    }
    fail(&mut sim, failure(ModelFailureKind::Unavailable));
    assert_eq!(sim.run.spec.model, "b/2");
    assert!(matches!(sim.run.phase, Phase::Thinking { turn: 1, attempt: Attempt(4) }), "{:?}", sim.run.phase);
    fail(&mut sim, failure(ModelFailureKind::Credentials));
    assert_eq!((sim.run.spec.model.as_str(), sim.run.status), ("a/1", Status::Running), "it is only silent");
    for _ in 0..5 {
        fail(&mut sim, failure(ModelFailureKind::Unavailable));
        assert_eq!(sim.run.spec.model, "a/1", "the other is of no use until a person mends it");
    }
    fail(&mut sim, failure(ModelFailureKind::Quota));
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Parked)), "nobody is left");

    let mut sim = with_models(&["a/1", "b/2"]);
    let limited = ModelFailure { after_ms: Some(3_600_000), ..failure(ModelFailureKind::RateLimited) };
    fail(&mut sim, limited.clone());
    assert_eq!(sim.run.spec.model, "b/2");
    fail(&mut sim, limited.clone());
    assert_eq!((sim.run.spec.model.as_str(), sim.run.wait()), ("a/1", Wait::RateLimit), "it is free first");
    fail(&mut sim, limited);
    assert_eq!(sim.run.spec.model, "b/2", "after the rest the round begins anew");
}

/// A wait was for the old model: with another one the run goes on at once.
#[test]
fn another_model_does_not_wait() {
    let mut sim = started();
    fail(&mut sim, ModelFailure { after_ms: Some(3_600_000), ..failure(ModelFailureKind::RateLimited) });
    sim.effects.clear();
    sim.give(Input::Restarted {
        generation: 9,
        limits: None,
        model: Some("other/model".to_owned()),
        looping: None,
    })
    .unwrap();
    assert!(matches!(sim.run.phase, Phase::Thinking { .. }), "{:?}", sim.run.phase);
    assert_eq!(sim.run.spec.model, "other/model");
}

/// The beginning of a silence, a change of its kind, and its end are news; the failures in between are not.
#[test]
fn silence_is_news_once() {
    let mut sim = started();
    let mut news = Vec::new();
    let kinds = [ModelFailureKind::Unavailable, ModelFailureKind::Unavailable, ModelFailureKind::RateLimited];
    for kind in kinds {
        fail(&mut sim, failure(kind));
        news.push(sim.run.silence.as_ref().unwrap().is_news());
    }
    assert_eq!(news, [true, false, true]);
    sim.settle(&mut World::with_turns(&[]));
    assert!(sim.run.silence.as_ref().unwrap().ended.is_some());
}

/// A reply that ran into the limit of output tokens is not the answer: the model is told, and goes on; if it never gets
/// further, a person is asked.
#[test]
fn a_reply_that_was_cut_off_goes_on() {
    let cut = || ModelReply { text: "half a".to_owned(), stop: Stop::Length, ..ModelReply::default() };
    let mut sim = started();
    reply(&mut sim, cut());
    assert!(matches!(sim.run.phase, Phase::Thinking { turn: 2, .. }), "{:?}", sim.run.phase);
    assert!(matches!(sim.run.messages.last(), Some(Message::User { text }) if text.contains("cut off")));
    for _ in 1..CUT_OFF_REPLIES_MAX {
        reply(&mut sim, cut());
    }
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Parked)));
    sim.start().unwrap();
    sim.settle(&mut World::with_turns(&[]));
    assert_eq!(sim.run.status, Status::Completed);
}

/// A refused reply is paid for once, leaves nothing in the conversation, and parks the run.
#[test]
fn a_refusal_parks_the_run() {
    let mut sim = started();
    let usage = Usage { input_tokens: 5, ..Usage::default() };
    let refused =
        ModelReply { text: "I will not.".to_owned(), stop: Stop::Refused, usage, ..ModelReply::default() };
    reply(&mut sim, refused);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
    assert_eq!((sim.run.usage.input_tokens, sim.run.messages.len()), (5, 1));
    sim.start().unwrap();
    sim.settle(&mut World::with_turns(&[]));
    assert_eq!(sim.run.status, Status::Completed);
}

/// A model that refuses, or whose window is full, has not answered: the next of the list is asked, what was used is counted
/// once, and when all have refused a person is asked.
#[test]
fn a_refusal_is_passed_on_to_the_next_model() {
    for stop in [Stop::Refused, Stop::Overflow] {
        let usage = Usage { input_tokens: 5, ..Usage::default() };
        let refused = || ModelReply { text: "I will not.".to_owned(), stop, usage, ..ModelReply::default() };
        let mut sim = with_models(&["a/1", "b/2"]);
        reply(&mut sim, refused());
        assert_eq!((sim.run.spec.model.as_str(), sim.run.status), ("b/2", Status::Running));
        assert_eq!((sim.run.usage.input_tokens, sim.run.messages.len()), (5, 1));
        reply(&mut sim, refused());
        assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
        assert_eq!(sim.run.usage.input_tokens, 10);
    }
}

/// F34: a call whose arguments cannot be read is answered with why, and nothing runs.
#[test]
fn malformed_arguments_are_refused() {
    let mut sim = started();
    let call = ProposedCall {
        malformed: Some("EOF at 3".to_owned()),
        ..ProposedCall::new("bash", Json::empty_object())
    };
    reply(&mut sim, ModelReply { calls: vec![call], ..ModelReply::default() });
    assert!(matches!(
        sim.run.messages.last(),
        Some(Message::Tool { failed: true, text, .. }) if text.contains("EOF at 3")
    ));
    assert!(!sim.events().iter().any(|event| matches!(event, Event::CallStarted { .. })));
}

/// B8.4: what was used is kept by step, iteration and model, each reply once.
#[test]
fn spending_is_kept_by_model() {
    let mut sim = with_models(&["a/1", "b/2"]);
    let usage = Usage { input_tokens: 10, ..Usage::default() };
    let call = || ProposedCall::new("nonsense", Json::empty_object());
    reply(&mut sim, ModelReply { calls: vec![call()], usage, ..ModelReply::default() });
    fail(&mut sim, failure(ModelFailureKind::Quota));
    reply(&mut sim, ModelReply { calls: vec![call()], usage, ..ModelReply::default() });
    reply(&mut sim, ModelReply { usage, ..ModelReply::default() });
    let spent: Vec<(&str, u32, u64)> = sim
        .run
        .spending
        .iter()
        .map(|spent| (spent.model.as_str(), spent.replies, spent.usage.input_tokens))
        .collect();
    assert_eq!(spent, [("a/1", 1, 10), ("b/2", 2, 20)]);
    assert_eq!(sim.run.usage.input_tokens, 30);
}
