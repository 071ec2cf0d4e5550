//! Calls that need a person: leave for an action, the answer to a question. Nothing turns into a yes by itself.

use longhaul_core::command::Wish;
use longhaul_core::conversation::{Message, ModelReply, ProposedCall};
use longhaul_core::effect::Effect;
use longhaul_core::event::{AskKind, Cause, Event};
use longhaul_core::ids::{Attempt, CallId};
use longhaul_core::input::Input;
use longhaul_core::json::Json;
use longhaul_core::run::CallState;
use longhaul_core::spec::{Autonomy, OnAsk, RunSpec};
use longhaul_core::status::{Status, Wait};
use longhaul_core::tool::{ASK_HUMAN, EffectClass, ToolGrant, Trace};

use super::sim::{Sim, World, spec};

fn asking(on_ask: OnAsk) -> Sim {
    let mut spec = spec();
    for grant in spec.tools.iter_mut().filter(|grant| grant.name == "bash") {
        grant.ask = Some(true);
    }
    let question = ToolGrant { name: ASK_HUMAN.to_owned(), class: EffectClass::Repeatable, ask: None };
    spec.tools.push(question);
    let mut sim = Sim::create(RunSpec { on_ask: Some(on_ask), ..spec });
    sim.start().unwrap();
    sim
}

fn reply(sim: &mut Sim, calls: Vec<ProposedCall>) {
    let reply = ModelReply { calls, ..ModelReply::default() };
    sim.effects.clear();
    sim.give(Input::ModelReplied { turn: 1, attempt: Attempt::FIRST, reply, duration_us: 1 }).unwrap();
    look(sim, "as it was");
}

/// Looks at the file that a command names, if that is wanted.
fn look(sim: &mut Sim, script: &str) {
    let is_command = |effect: &Effect| match effect {
        Effect::PrepareTool { call, .. } => sim.run.call(*call).is_some_and(|call| call.tool == "bash"),
        _ => false,
    };
    if let Some(place) = sim.effects.iter().position(is_command)
        && let Some(Effect::PrepareTool { call, attempt }) = sim.effects.remove(place)
    {
        let trace = Trace { target: "x.sh".to_owned(), before: script.to_owned(), after: script.to_owned() };
        sim.give(Input::ToolPrepared { call, attempt, traces: Ok(vec![trace]), hold: None }).unwrap();
    }
}

fn bash() -> ProposedCall {
    ProposedCall::new("bash", Json::parse(r#"{"command":"git push"}"#).unwrap())
}

fn question() -> ProposedCall {
    ProposedCall::new(ASK_HUMAN, Json::parse(r#"{"question":"Which branch?"}"#).unwrap())
}

fn results(sim: &Sim) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::Tool { text, .. } => Some(text.to_string()),
        Message::User { .. } | Message::Assistant { .. } => None,
    };
    sim.run.messages.iter().filter_map(text).collect()
}

/// A call that needs leave waits, also through a restart; with leave it is made once, and what comes after it goes on.
#[test]
fn leave_is_waited_for_and_counts_once() {
    let mut sim = asking(OnAsk::Wait);
    reply(&mut sim, vec![bash(), bash()]);
    assert_eq!((sim.run.wait(), sim.run.gates.len()), (Wait::Human, 1));
    let ask = sim.run.gates[0].ask.clone().unwrap();
    assert_eq!((ask.kind, ask.digest.len()), (AskKind::Permission, 16));
    sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
    assert_eq!((sim.run.wait(), sim.run.gates.len()), (Wait::Human, 1), "it is not asked twice");
    let other = sim.wish(Wish::Approve { gate: 1, digest: Some("0000000000000000".to_owned()) });
    assert!(other.unwrap_err().to_string().contains("not for what was approved"));
    assert!(sim.wish(Wish::Answer { gate: 1, text: "yes".to_owned() }).is_err(), "leave is no answer");
    sim.wish(Wish::Approve { gate: 1, digest: Some(ask.digest) }).unwrap();
    look(&mut sim, "as it was");
    let mut world = World::with_turns(&[&[]]);
    sim.settle(&mut world);
    assert_eq!(world.ran.len(), 1);
    assert_eq!((sim.run.wait(), sim.run.gates.len()), (Wait::Human, 2), "leave was for the first call only");
    sim.wish(Wish::Reject { gate: 2, reason: "not today".to_owned() }).unwrap();
    sim.settle(&mut world);
    assert_eq!(world.ran.len(), 1);
    assert!(results(&sim)[1].contains("a person refused: not today"), "{:?}", results(&sim));
    assert_eq!(sim.run.status, Status::Completed);
}

/// A53: leave for a command is for the files that it names as they were; a change is asked about again, and nothing was run.
#[test]
fn leave_for_a_command_ends_when_a_file_of_it_changes() {
    let mut sim = asking(OnAsk::Wait);
    reply(&mut sim, vec![bash()]);
    sim.wish(Wish::Approve { gate: 1, digest: None }).unwrap();
    look(&mut sim, "changed");
    assert_eq!((sim.run.wait(), sim.run.gates.len(), sim.effects.len()), (Wait::Human, 2, 0));
    let [first, second] = [0, 1].map(|gate| sim.run.gates[gate].ask.clone().unwrap());
    assert_ne!(first.digest, second.digest);
    assert!(second.text.ends_with("(leave was given before a file of it changed)"), "{}", second.text);
    sim.wish(Wish::Approve { gate: 2, digest: Some(second.digest) }).unwrap();
    look(&mut sim, "changed");
    // A hook that asks as well does not speak of the file: leave for it is still for that.
    sim.effects.clear();
    sim.give(Input::ToolHeld { call: CallId(1), attempt: Attempt::FIRST, why: "look".to_owned() }).unwrap();
    sim.wish(Wish::Approve { gate: 3, digest: None }).unwrap();
    assert!(matches!(sim.effects.front(), Some(Effect::PrepareTool { .. })), "{:?}", sim.effects);
    let started = |event: &&Event| matches!(event, Event::CallStarted { class: EffectClass::Once, traces, .. } if traces.is_empty());
    assert_eq!(sim.events().into_iter().filter(started).count(), 1);
}

/// A question's answer is the call's result; a declined one is too.
#[test]
fn a_question_is_answered() {
    let mut sim = asking(OnAsk::Wait);
    reply(&mut sim, vec![question(), question()]);
    assert_eq!(sim.run.gates[0].ask.as_ref().unwrap().text, "Which branch?");
    assert!(sim.wish(Wish::Approve { gate: 1, digest: None }).is_err(), "a question is not approved");
    sim.wish(Wish::Answer { gate: 1, text: "main".to_owned() }).unwrap();
    sim.wish(Wish::Reject { gate: 2, reason: "ask the docs".to_owned() }).unwrap();
    let mut world = World::with_turns(&[&[]]);
    sim.settle(&mut world);
    let results = results(&sim);
    assert_eq!(results[0], "main");
    assert!(results[1].contains("a person refused: ask the docs"), "{results:?}");
    assert_eq!((sim.run.status, world.ran.len()), (Status::Completed, 0));
}

/// Where nobody is to be asked, a call is refused and the agent told; it is never allowed for want of an answer.
#[test]
fn without_a_person_the_answer_is_no() {
    let mut sim = asking(OnAsk::Deny);
    reply(&mut sim, vec![bash(), question()]);
    let mut world = World::with_turns(&[&[]]);
    sim.settle(&mut world);
    assert_eq!((sim.run.status, sim.run.gates.len(), world.ran.len()), (Status::Completed, 0, 0));
    let results = results(&sim);
    assert!(results[0].contains("needs a person's leave"), "{results:?}");
    assert!(results[1].contains("nobody is there to answer"), "{results:?}");
}

/// Whoever finds a run paused at its question answers first and resumes then; nothing happens in between.
#[test]
fn a_paused_run_takes_an_answer() {
    let answers = [
        (bash(), Wish::Approve { gate: 1, digest: None }, 1),
        (bash(), Wish::Reject { gate: 1, reason: "no".to_owned() }, 0),
        (question(), Wish::Answer { gate: 1, text: "main".to_owned() }, 0),
    ];
    for (call, answer, ran) in answers {
        let mut sim = asking(OnAsk::Pause);
        reply(&mut sim, vec![call]);
        sim.effects.clear();
        sim.wish(answer).unwrap();
        assert_eq!((sim.run.status, sim.effects.len()), (Status::Paused, 0));
        sim.start().unwrap();
        look(&mut sim, "as it was");
        let mut world = World::with_turns(&[&[]]);
        sim.settle(&mut world);
        assert_eq!((sim.run.status, world.ran.len(), sim.run.gates.len()), (Status::Completed, ran, 1));
    }
}

/// A run that pauses to ask still waits once it is resumed.
#[test]
fn a_pause_keeps_the_question() {
    let mut sim = asking(OnAsk::Pause);
    reply(&mut sim, vec![bash()]);
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Asked)));
    sim.start().unwrap();
    assert_eq!((sim.run.wait(), sim.run.gates.len()), (Wait::Human, 1));
    assert!(matches!(sim.run.calls[0].state, CallState::Asking { gate: 1 }));
}

fn ruled(on_ask: OnAsk, rules: &str) -> Sim {
    let rules = serde_json::from_str(rules).unwrap();
    let mut sim = Sim::create(RunSpec { on_ask: Some(on_ask), permissions: Some(vec![rules]), ..spec() });
    sim.start().unwrap();
    sim
}

/// D7.5, I13: the rules a run was created with decide: what they deny is an answer that names the rule, what they ask about
/// waits, what they allow goes on.
#[test]
fn rules_decide_before_the_intent() {
    let mut sim = ruled(OnAsk::Wait, r#"{"bash":{"*":"allow","rm *":"deny","git push *":"ask"}}"#);
    let call =
        |command: &str| ProposedCall::new("bash", Json::of(&serde_json::json!({ "command": command })));
    reply(&mut sim, vec![call("true; rm x"), call("ls"), call("git push")]);
    let mut world = World::with_turns(&[&[]]);
    sim.settle(&mut world);
    assert_eq!((sim.run.wait(), world.ran.len()), (Wait::Human, 1));
    assert!(results(&sim)[0].contains("by the rule bash \"rm *\""), "{:?}", results(&sim));
    let ask = sim.run.gates[0].ask.clone().unwrap();
    assert_eq!(ask.text, "may bash be called? `git push` matches, by the rule bash \"git push *\"");
    sim.wish(Wish::Approve { gate: 1, digest: Some(ask.digest) }).unwrap();
    sim.settle(&mut world);
    assert_eq!((sim.run.status, world.ran.len(), sim.run.gates.len()), (Status::Completed, 2, 1));
}

/// What cannot be judged is never allowed: a person is asked where one is expected, and the agent told to put it more plainly
/// where none is, so that no night is lost over `python3 -c`. What a rule asks about is asked all the same.
#[test]
fn doubts_are_for_those_who_are_there() {
    for (autonomy, gates) in [(1, 1), (3, 1), (4, 0), (5, 0)] {
        let autonomy = Autonomy::new(autonomy).unwrap();
        let rules = serde_json::from_str(r#"{"bash":{"*":"allow","git push *":"ask"}}"#).unwrap();
        let with = RunSpec { on_ask: Some(OnAsk::Wait), permissions: Some(vec![rules]), autonomy, ..spec() };
        let mut sim = Sim::create(with);
        sim.start().unwrap();
        if autonomy.gates(false) {
            sim.wish(Wish::Approve { gate: 1, digest: None }).unwrap();
        }
        let before = sim.run.gates.len();
        let call =
            |command: &str| ProposedCall::new("bash", Json::of(&serde_json::json!({ "command": command })));
        reply(&mut sim, vec![call("python3 -c 'print(1)'"), call("git push")]);
        assert_eq!(sim.run.wait(), Wait::Human);
        let asked = sim.run.gates[before].ask.as_ref().unwrap();
        assert_eq!(asked.text.contains("python3 -c"), gates == 1, "{}", asked.text);
        if gates == 0 {
            assert!(results(&sim)[0].contains("Put it more plainly"), "{:?}", results(&sim));
        }
    }
}

/// D7.5: the files a call changes are judged when they are known, whatever its arguments look like.
#[test]
fn targets_are_judged_when_they_are_known() {
    for (action, on_ask, ran) in [
        ("deny", OnAsk::Wait, 0),
        ("ask", OnAsk::Deny, 0),
        ("ask", OnAsk::Wait, 1),
        ("allow", OnAsk::Wait, 1),
    ] {
        let mut sim = ruled(on_ask, &format!(r#"{{"write":{{"*":"allow","f":"{action}"}}}}"#));
        reply(&mut sim, vec![ProposedCall::new("write", Json::empty_object())]);
        let mut world = World::with_turns(&[&[]]);
        sim.settle(&mut world);
        if let Some(ask) = sim.run.gates.first().and_then(|gate| gate.ask.clone()) {
            assert!(ask.text.contains("it touches `f`"), "{}", ask.text);
            sim.wish(Wish::Approve { gate: 1, digest: Some(ask.digest) }).unwrap();
            sim.settle(&mut world);
        }
        assert_eq!((sim.run.status, world.ran.len()), (Status::Completed, ran), "{action} {on_ask:?}");
    }
}
