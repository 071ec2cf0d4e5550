//! Making room in the window: what is kept, what is left out, and that it comes to an end.

use longhaul_core::command::Wish;
use longhaul_core::conduct::{Compaction, Conduct, Surroundings};
use longhaul_core::context::{self, Shortening};
use longhaul_core::conversation::{
    Message, ModelFailure, ModelFailureKind, ModelReply, ModelRequest, ProposedCall, Usage,
};
use longhaul_core::effect::Effect;
use longhaul_core::event::{Cause, Event, FreshStart};
use longhaul_core::evidence::Examination;
use longhaul_core::ids::{Attempt, CallId};
use longhaul_core::input::{Input, Tended};
use longhaul_core::json::Json;
use longhaul_core::money::Usd;
use longhaul_core::prompt;
use longhaul_core::spec::{Limits, RunSpec};
use longhaul_core::status::Status;
use longhaul_core::tool::{Image, Outcome};

use super::sim::{Sim, spec};

/// A world with a window: the model counts what it is sent, and refuses what does not fit.
struct Room {
    window: u64,
    /// Bytes of each tool result.
    result: usize,
    /// Tokens that are used by instructions and tools.
    overhead: u64,
    /// Turns after which the model ends, in all.
    turns: u32,
    summary: Option<&'static str>,
    /// Requests that were sent.
    sent: Vec<ModelRequest>,
    summaries: u32,
    overflows: u32,
    /// The model refuses everything longer than this, whatever its window is said to be.
    really: u64,
    /// Is the tree another one at each look?
    progress: bool,
    /// What may be spent, where every answer costs the same.
    max_cost: Option<Usd>,
}

fn price() -> Usd {
    Usd::from_nanos(10)
}

impl Room {
    fn new(window: u64, result: usize, turns: u32) -> Room {
        Room {
            window,
            result,
            overhead: 50,
            turns,
            summary: Some("We chose the red one."),
            sent: Vec::new(),
            summaries: 0,
            overflows: 0,
            really: window,
            progress: false,
            max_cost: None,
        }
    }

    fn tokens(&self, request: &ModelRequest) -> u64 {
        let said: usize = request.messages.iter().map(|message| text(message).len()).sum();
        self.overhead + request.system.len() as u64 / 4 + said as u64 / 4
    }

    fn play(&mut self, conduct: Conduct) -> Sim {
        let max_cost = self.max_cost;
        let limits = Limits { max_tool_calls: u32::MAX, max_steps: u32::MAX, max_cost, ..Limits::default() };
        let mut sim = Sim::create(RunSpec { conduct: Some(Box::new(conduct)), limits, ..spec() });
        sim.start().unwrap();
        self.go_on(&mut sim);
        sim
    }

    fn go_on(&mut self, sim: &mut Sim) {
        while let Some(effect) = sim.effects.pop_front() {
            let input = self.answer(sim, effect);
            sim.give(input).unwrap();
        }
    }

    fn answer(&mut self, sim: &Sim, effect: Effect) -> Input {
        match effect {
            Effect::CallModel { turn, attempt } => self.reply(sim, turn, attempt),
            Effect::RunTool { call, attempt } => {
                let line = format!("line of {call}\n");
                let outcome = Outcome::done(line.repeat(self.result / line.len() + 1));
                Input::ToolEnded {
                    call,
                    attempt,
                    outcome,
                    duration_us: 1,
                    hold: None,
                    tended: Tended::default(),
                }
            }
            Effect::AskAside { aside, attempt } => {
                self.summaries += 1;
                let nobody = || ModelFailure::new(ModelFailureKind::Unavailable, "nobody is there");
                let answer = self.summary.ok_or_else(nobody);
                let usage = Usage { cost: price(), ..Usage::default() };
                let answer =
                    answer.map(|text| ModelReply { text: text.to_owned(), usage, ..ModelReply::default() });
                Input::AsideEnded { aside, attempt, answer }
            }
            Effect::Examine { round, attempt, .. } => {
                let tree = Some(if self.progress { round.to_string() } else { "same".to_owned() });
                Input::Examined {
                    round,
                    attempt,
                    found: Box::new(Examination { tree, ..Examination::default() }),
                }
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn reply(&mut self, sim: &Sim, turn: u32, attempt: Attempt) -> Input {
        let request = prompt::request(&sim.run, turn, attempt);
        let tokens = self.tokens(&request);
        self.sent.push(request);
        if tokens > self.really {
            self.overflows += 1;
            let failure = ModelFailure::new(ModelFailureKind::Overflow, "too long");
            return Input::ModelFailed { turn, attempt, failure };
        }
        let done = sim.run.turns > self.turns;
        let args = Json::of(&serde_json::json!({ "n": sim.run.calls.len() }));
        let calls = if done { Vec::new() } else { vec![ProposedCall::new("read", args)] };
        let usage = Usage { input_tokens: tokens, output_tokens: 5, cost: price(), ..Usage::default() };
        let reply = ModelReply {
            text: "Next.".to_owned(),
            calls,
            usage,
            window: Some(self.window),
            ..ModelReply::default()
        };
        Input::ModelReplied { turn, attempt, reply, duration_us: 1 }
    }

    fn most(&self) -> u64 {
        self.sent.iter().map(|request| self.tokens(request)).max().unwrap_or(0)
    }
}

fn text(message: &Message) -> String {
    match message {
        Message::User { text } => text.clone(),
        Message::Assistant { text, calls, .. } => {
            text.clone() + &calls.iter().map(|call| call.args.as_str()).collect::<String>()
        }
        Message::Tool { text, .. } => text.to_string(),
    }
}

fn compactions(sim: &Sim) -> Vec<(bool, u64, u64)> {
    let applied = sim.journal.iter().filter_map(|(_, _, event)| match event {
        Event::Compacted { shortening, tokens_before, tokens_after, .. } => {
            Some((matches!(shortening, Shortening::Summary { .. }), *tokens_before, *tokens_after))
        }
        _ => None,
    });
    applied.collect()
}

fn with_rules() -> Conduct {
    let rules = Some("Never touch the vendored code.".to_owned());
    let surroundings =
        Surroundings { environment: "linux".to_owned(), rules, rule_files: vec!["AGENTS.md".to_owned()] };
    Conduct { surroundings: Some(surroundings), ..Conduct::default() }
}

/// Calls and their results go together in every request, the first message is always there, and so are the rules.
fn check_requests(room: &Room) {
    for request in &room.sent {
        let mut open = Vec::new();
        for message in request.messages.iter() {
            match message {
                Message::Assistant { calls, .. } => open.extend(calls.iter().map(|call| call.id)),
                Message::Tool { call, .. } => {
                    assert!(open.contains(call), "the result of {call} has no call");
                    open.retain(|other| other != call);
                }
                Message::User { .. } => {}
            }
        }
        assert!(open.is_empty(), "calls without results: {open:?}");
        assert!(matches!(&request.messages[0], Message::User { text } if text.contains("do it")));
        assert!(request.system.contains("Never touch the vendored code."), "rules in every request");
    }
}

/// D4.1, D11.10: at a window of 1000 tokens the history is summed up, and the next request is smaller.
/// D4.5: calls and results are never split. D4.2: the first message stays. Rules are in every request.
#[test]
fn a_small_window_is_kept_to() {
    let mut room = Room::new(1000, 300, 60);
    let sim = room.play(with_rules());
    assert_eq!(sim.run.status, Status::Completed);
    assert!(room.most() <= 1000, "{} tokens were sent", room.most());
    assert_eq!(room.overflows, 0);
    let applied = compactions(&sim);
    assert!(applied.iter().any(|(summary, _, _)| *summary), "{applied:?}");
    assert!(applied.iter().all(|(_, before, after)| after < before), "{applied:?}");
    check_requests(&room);
    let last = room.sent.last().unwrap();
    assert!(last.messages.iter().any(|message| text(message).contains("red one")));
}

/// F36: two thousand turns in a window of 32,000 tokens: never over it, few compactions, all of them worth it.
#[test]
fn a_long_conversation_never_overflows_and_never_spirals() {
    let mut room = Room::new(32_000, 4000, 2000);
    let sim = room.play(with_rules());
    assert_eq!((sim.run.status, sim.run.iteration), (Status::Completed, 1));
    assert!(room.most() <= 32_000, "{} tokens were sent", room.most());
    let count = compactions(&sim).len();
    assert!(count < 400, "{count} compactions in 2000 turns");
    assert!(room.summaries < 200, "{} summaries", room.summaries);
    check_requests(&room);
}

/// D4.2, D11.15: what is protected stays word for word.
#[test]
fn the_end_of_the_conversation_stays_word_for_word() {
    let mut room = Room::new(32_000, 4000, 200);
    let compaction = Compaction { protect_tokens: 5000, ..Compaction::default() };
    room.play(Conduct { compaction: Some(compaction), ..with_rules() });
    for pair in room.sent.windows(2) {
        let (before, after) = (&pair[0].messages, &pair[1].messages);
        // The last exchange of every request is the one that was just made.
        let kept = after.iter().rev().nth(2).map(text);
        assert_eq!(kept, before.last().map(text));
    }
}

/// D4.3: off means off, and below the threshold nothing happens.
#[test]
fn compaction_can_be_switched_off() {
    let mut room = Room::new(1000, 300, 20);
    room.really = u64::MAX;
    let compaction = Compaction { enabled: false, ..Compaction::default() };
    let sim = room.play(Conduct { compaction: Some(compaction), ..with_rules() });
    assert_eq!((compactions(&sim).len(), room.summaries), (0, 0));
    assert!(room.most() > 1000);

    let mut room = Room::new(1_000_000, 300, 20);
    let sim = room.play(with_rules());
    assert_eq!(compactions(&sim).len(), 0);
}

/// D4.4: without anybody to sum up, a mechanical summary does, and the run goes on.
#[test]
fn a_summary_needs_no_model() {
    let mut room = Room { summary: None, ..Room::new(1000, 300, 60) };
    let sim = room.play(with_rules());
    assert_eq!(sim.run.status, Status::Completed);
    assert!(room.most() <= 1000);
    assert!(
        room.sent.iter().any(|request| request
            .messages
            .iter()
            .any(|message| text(message).contains("Tools called: read")))
    );
    check_requests(&room);
}

/// F36, pain 2: a conversation that no summary can shorten is begun anew, a few times, and then a person is asked.
#[test]
fn what_cannot_be_shortened_is_begun_anew_and_then_parked() {
    // Instructions fill almost all of the window.
    let mut room = Room { overhead: 840, ..Room::new(1000, 300, 100_000) };
    room.really = u64::MAX;
    let sim = room.play(with_rules());
    assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
    assert!(sim.run.reason.as_ref().unwrap().starts_with("context_overflow"), "{:?}", sim.run.reason);
    let fresh = sim
        .journal
        .iter()
        .filter(|(_, _, event)| matches!(event, Event::IterationStarted { why: FreshStart::Context, .. }));
    assert!((1..=10).contains(&fresh.count()));
    assert!(room.sent.len() < 200, "{} requests", room.sent.len());
}

/// D4.1: what is left out of an old result says where the whole of it is, and never to make the call again.
#[test]
fn what_is_left_out_can_be_read_again() {
    let old = |call| Message::Tool {
        call: CallId(call),
        failed: false,
        text: format!("deployed\n{}", "line\n".repeat(400)).into(),
        images: Vec::new(),
    };
    let messages = [Message::User { text: "Deploy.".to_owned() }, old(1), old(2)];
    let outputs = context::shortened(&messages, &Shortening::Outputs { before: 2 }, &[]);
    assert_eq!(
        text(&outputs[1]),
        "deployed\n[2009 bytes of this old result left out; read blob:call_1 if you need it]"
    );
    let fit = context::shortened(&messages, &Shortening::Fit { from: 2, bytes: 400 }, &[]);
    assert!(text(&fit[2]).contains("read blob:call_2 in smaller parts"), "{}", text(&fit[2]));
}

/// The last exchange alone may be too long: something of each result stays, and nothing is begun anew for it.
#[test]
fn a_result_larger_than_the_window_is_cut_to_fit() {
    let mut room = Room::new(4000, 12_000, 4);
    let sim = room.play(with_rules());
    assert_eq!((sim.run.status, sim.run.iteration), (Status::Completed, 1));
    assert!(room.most() <= 4000, "{} tokens were sent", room.most());
    let second = &room.sent[1].messages;
    let result = text(second.last().unwrap());
    assert!(result.contains("line of call_1") && result.contains("cut to fit the window"), "{result}");
    assert!(result.len() > 1000, "something of it stays: {}", result.len());
    check_requests(&room);
}

/// F36: a provider that finds the conversation too long although its window is said to be larger: shortened once, begun
/// anew once, and then a person is asked. No ping-pong.
#[test]
fn an_overflow_is_answered_by_shortening_once() {
    let mut room = Room { really: 800, ..Room::new(1_000_000, 300, 1000) };
    let sim = room.play(with_rules());
    assert!(room.overflows > 0 && !compactions(&sim).is_empty());
    for requests in room.sent.windows(3) {
        let over = requests.iter().filter(|request| room.tokens(request) > 800).count();
        assert!(over < 3, "three requests in a row that do not fit");
    }
}

/// F36: a conversation that overflows for good, also straight after compaction: shortened, begun anew once, and then a person
/// is asked. If each conversation leaves something new to the next, it is begun anew a second time.
#[test]
fn an_overflow_for_good_is_parked_and_not_begun_anew_again() {
    let play = |progress: bool| {
        let mut room = Room { really: 2000, progress, ..Room::new(1_000_000, 40_000, 1000) };
        let sim = room.play(with_rules());
        assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Stuck)));
        assert!(sim.run.reason.as_ref().unwrap().starts_with("context_overflow"), "{:?}", sim.run.reason);
        (room.sent.len(), sim.run.iteration, sim.run.calls.len(), compactions(&sim).len())
    };
    assert_eq!(play(false), (6, 2, 2, 2), "requests, conversations, calls, compactions");
    assert_eq!(play(true), (9, 3, 3, 3));
}

/// A crash at any event, in the middle of a compaction too, leads to the same end, and no request is ever too long.
#[test]
fn a_crash_in_the_middle_of_a_compaction_leads_to_the_same_end() {
    let mut room = Room::new(1000, 300, 25);
    let whole = room.play(with_rules());
    assert_eq!(whole.run.status, Status::Completed);
    for length in 2..whole.journal.len() {
        let mut sim = whole.reopened_at(length);
        let mut room = Room::new(1000, 300, 25);
        if sim.run.status == Status::Created {
            sim.start().unwrap();
        } else {
            sim.give(Input::Restarted { generation: 2, limits: None, model: None, looping: None }).unwrap();
        }
        while let Some(effect) = sim.effects.pop_front() {
            let input = room.answer(&sim, effect);
            sim.give(input).unwrap();
        }
        assert_eq!(sim.run.status, Status::Completed, "crash at {length}");
        assert_eq!(sim.run.turns, whole.run.turns, "crash at {length}");
        assert!(room.most() <= 1000, "crash at {length}");
    }
}

/// What a conversation is thought to have after it was made shorter is not much less than what the provider then counts,
/// whichever way it was shortened: else the next request would not fit. What stands around messages is counted here and not by
/// this provider, so that a twentieth of the window may be wrong.
#[test]
fn a_shortened_conversation_is_not_thought_shorter_than_it_is() {
    for (window, result) in [(1000, 300), (4000, 12_000), (32_000, 4000)] {
        let mut room = Room::new(window, result, 120);
        let mut sim = Sim::create(RunSpec { conduct: Some(Box::new(with_rules())), ..spec() });
        sim.run.spec.limits = Limits { max_tool_calls: u32::MAX, max_steps: u32::MAX, ..Limits::default() };
        sim.start().unwrap();
        let mut compared = 0;
        while let Some(effect) = sim.effects.pop_front() {
            if let (Effect::CallModel { turn, attempt }, Some(_)) = (&effect, sim.run.fill.counted) {
                let real = room.tokens(&prompt::request(&sim.run, *turn, *attempt));
                let thought = sim.run.fill.tokens_with(0);
                assert!(
                    thought + window / 20 >= real,
                    "turn {turn} of {window}: {thought} thought, {real} sent"
                );
                compared += 1;
            }
            let input = room.answer(&sim, effect);
            sim.give(input).unwrap();
        }
        assert!(compared > 100 && sim.run.fill.compactions > 0, "{window}: {compared}");
    }
}

/// Whoever sums up a conversation that begins with a summary is shown that one too: what was decided first is never lost.
#[test]
fn an_earlier_summary_goes_into_the_next() {
    let mut room = Room::new(1000, 300, 60);
    let mut sim = Sim::create(RunSpec { conduct: Some(Box::new(with_rules())), ..spec() });
    sim.start().unwrap();
    let mut shown = Vec::new();
    while let Some(effect) = sim.effects.pop_front() {
        if let Effect::AskAside { aside, attempt } = &effect {
            shown.push(text(&prompt::aside(&sim.run, *aside, *attempt).messages[0]));
        }
        let input = room.answer(&sim, effect);
        sim.give(input).unwrap();
    }
    assert!(shown.len() > 2, "{} summaries", shown.len());
    assert!(!shown[0].contains("We chose the red one."));
    for (index, later) in shown.iter().enumerate().skip(1) {
        assert!(later.contains("We chose the red one."), "summary {index}: {later}");
    }
}

/// D4.1: an image counts in the window by its size, and an old one is the first to go; its name stays, by which it can be read again.
#[test]
fn old_images_are_only_named() {
    let seen = |call, width, height| {
        let (blob, media_type) = (format!("blob{call}"), "image/png".to_owned());
        let image = Image { blob, media_type, width, height, bytes: 12_000 };
        Message::Tool { call: CallId(call), failed: false, text: "a plan".into(), images: vec![image] }
    };
    let named = |call| Message::Tool {
        call: CallId(call),
        failed: false,
        text: format!("a plan\n[image/png, 640×480, 12 kB; read blob:blob{call} shows it]").into(),
        images: Vec::new(),
    };
    let task = Message::User { text: "Look.".to_owned() };
    let weight = |message: &Message| context::tokens(context::bytes(message));
    assert_eq!([(1, 1), (640, 480), (8000, 8000)].map(|(w, h)| weight(&seen(1, w, h))), [112, 422, 5012]);
    let messages = [task.clone(), seen(1, 640, 480), seen(2, 640, 480)];
    let old = context::shortened(&messages, &Shortening::Outputs { before: 2 }, &[]);
    assert_eq!(old, [task.clone(), named(1), seen(2, 640, 480)]);
    let fit = |bytes| context::shortened(&messages, &Shortening::Fit { from: 2, bytes }, &[]);
    assert_eq!(fit(4000), messages);
    assert_eq!(fit(1000), [task, seen(1, 640, 480), named(2)]);
}

/// B8.3: a summary is paid for like anything else: it does not take what the turn after it needs, wherever the money ends. With more,
/// the run goes on from the shortened conversation and asks for no second summary.
#[test]
fn a_summary_never_leads_over_the_budget() {
    let all = Room::new(1000, 300, 60).play(with_rules()).run.usage.cost;
    for nanos in (10..all.as_nanos()).step_by(10) {
        let max_cost = Some(Usd::from_nanos(nanos + 5));
        let mut room = Room { max_cost, ..Room::new(1000, 300, 60) };
        let mut sim = room.play(with_rules());
        assert_eq!((sim.run.status, sim.run.cause), (Status::Paused, Some(Cause::Limit)), "{nanos}");
        assert_eq!(sim.run.usage.cost, Usd::from_nanos(nanos), "all that there is, and no more");
        let limits = Limits { max_cost: None, ..sim.run.spec.limits };
        sim.wish(Wish::Start { limits: Some(limits), model: None, looping: None }).unwrap();
        room.go_on(&mut sim);
        assert_eq!((sim.run.status, sim.run.usage.cost), (Status::Completed, all), "{nanos}");
    }
}
