//! What a script makes the scripted model say, and which scripts are refused.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops there")]

use std::path::Path;
use std::sync::{Arc, Mutex};

use expect_test::{Expect, expect};
use longhaul_core::conversation::{CallRequest, Message, ModelReply, ModelRequest, Pictures, Scene};
use longhaul_core::ids::{Attempt, CallId, RunId};
use longhaul_core::json::Json;
use longhaul_model::wire::ToolOffer;
use longhaul_model::{Deltas, Model, Models, ScriptError, Scripted, limits};
use tokio::runtime::{self, Runtime};

const TOOLS: &[&str] = &["bash", "edit", "read", "write"];

/// Plays requests and compares everything that can be noticed: the pieces heard, the time taken, the answers.
fn check(script: &str, requests: &[ModelRequest], expected: Expect) {
    let noticed: String = requests.iter().map(|request| play(script, request)).collect();
    expected.assert_eq(&noticed);
}

/// Compares the complaints about scripts, in their order.
fn refuse(scripts: &[&str], expected: Expect) {
    let refused = |script: &&str| complaint(&Scripted::parse("demo.yaml", script, TOOLS).unwrap_err());
    expected.assert_eq(&scripts.iter().map(refused).collect::<String>());
}

fn complaint(error: &ScriptError) -> String {
    let hint = error.hint().map(|hint| format!("hint: {hint}\n")).unwrap_or_default();
    format!("{error}\n{hint}")
}

fn play(script: &str, request: &ModelRequest) -> String {
    let model = Scripted::parse("demo.yaml", script, TOOLS).unwrap();
    let heard = Heard::default();
    let runtime = runtime();
    let (answer, took) = runtime.block_on(async {
        let start = tokio::time::Instant::now();
        let answer = model.call(request.clone(), &heard).await;
        (answer, start.elapsed())
    });
    let answer = match answer {
        Ok(reply) => show(&reply),
        Err(failure) => {
            let wish = failure.after_ms.map(|ms| format!(" for {ms} ms")).unwrap_or_default();
            format!("{:?}{wish}: {}\n", failure.kind, failure.message)
        }
    };
    format!("heard {:?} in {} ms\n{answer}", heard.0.lock().unwrap(), took.as_millis())
}

/// Time jumps ahead whenever everyone waits, so that no test does.
fn runtime() -> Runtime {
    runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap()
}

fn show(reply: &ModelReply) -> String {
    let mut shown = format!("says {:?}\n", reply.text);
    for call in &reply.calls {
        shown += &format!("calls {} {}\n", call.tool, call.args);
        shown += &call.malformed.iter().map(|why| format!("which is {why}\n")).collect::<String>();
    }
    let usage = &reply.usage;
    shown
        + &format!(
            "used {} in, {} out, {} read, {} written, {}\n",
            usage.input_tokens,
            usage.output_tokens,
            usage.cache_read_tokens,
            usage.cache_write_tokens,
            usage.cost
        )
}

#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Deltas for Heard {
    fn text(&self, piece: &str) {
        self.0.lock().unwrap().push(piece.to_owned());
    }
}

/// The first turn of a coder's first step; tests change what they are about.
fn request() -> ModelRequest {
    ModelRequest {
        model: "scripted/demo.yaml".into(),
        system: "You are careful.".into(),
        messages: Arc::new(vec![Message::User { text: "Fix the parser.".to_owned() }]),
        tools: Arc::from(["read".to_owned()]),
        answer_schema: None,
        scene: Scene {
            run: RunId::from_bits(1),
            agent: "coder".into(),
            step: "step-1".into(),
            iteration: 1,
            depth: 0,
            turn: 1,
            attempt: Attempt::FIRST,
        },
        pictures: Pictures::default(),
    }
}

fn at_turn(turn: u32) -> ModelRequest {
    at_attempt(turn, 1)
}

fn at_attempt(turn: u32, attempt: u32) -> ModelRequest {
    let mut request = request();
    request.scene.turn = turn;
    request.scene.attempt = Attempt(attempt);
    request
}

fn in_scene(change: impl FnOnce(&mut Scene)) -> ModelRequest {
    let mut request = request();
    change(&mut request.scene);
    request
}

fn after(messages: Vec<Message>) -> ModelRequest {
    let mut request = request();
    request.messages = Arc::new(messages);
    request
}

fn result(text: &str) -> Message {
    Message::Tool { call: CallId(1), failed: false, text: text.into(), images: Vec::new() }
}

fn assistant() -> Message {
    let call =
        CallRequest { id: CallId(1), tool: "bash".into(), args: Json::empty_object(), provider_id: None };
    Message::Assistant { text: "Trying.".to_owned(), calls: vec![call], raw: None }
}

const DEMO: &str = r#"
name: fix-the-parser
context_window: 100000
prices: { input: 3.00, output: 15.00, cache_read: 0.30, cache_write: 3.75 }
conversations:
  - match: { agent: coder }
    turns:
      - text: "I look first."
        calls: [ { tool: read, args: { path: src/lib.rs, deep: [1, no, true, null, 1.5] } } ]
        usage: { input: 1200, output: 60, cache_read: 1000, cache_write: 400 }
      - fail: [ { status: 529, retry_after_ms: 1500 }, { disconnect_after_bytes: 4 }, { stall_ms: 60000 } ]
        text: "Testing."
        calls: [ { tool: bash, args: { command: "cargo test" } }, { tool: read } ]
      - when_result_contains:
          "error[E": { text: "Fixing.", calls: [ { tool: edit } ], usage: { output: 7 } }
          "error": { text: "Thinking." }
        text: "All green.\nTASK_COMPLETE"
"#;

#[test]
fn a_turn_says_calls_and_costs_what_the_script_says() {
    check(
        DEMO,
        &[at_turn(1), at_turn(3)],
        expect![[r#"
        heard ["I look first."] in 0 ms
        says "I look first."
        calls read {"deep":[1,"no",true,null,1.5],"path":"src/lib.rs"}
        used 1200 in, 60 out, 1000 read, 400 written, $0.0063
        heard ["All green.\nTASK_COMPLETE"] in 0 ms
        says "All green.\nTASK_COMPLETE"
        used 0 in, 0 out, 0 read, 0 written, $0.0000
    "#]],
    );
    let model = Scripted::parse("demo.yaml", DEMO, TOOLS).unwrap();
    assert_eq!((model.name(), model.context_window()), ("fix-the-parser", 100_000));
}

#[test]
fn past_the_end_the_last_turn_plays_again() {
    assert_eq!(play(DEMO, &at_turn(4)), play(DEMO, &at_turn(3)));
    assert_eq!(play(DEMO, &at_turn(u32::MAX)), play(DEMO, &at_turn(3)));
}

#[test]
fn attempts_fail_in_their_order_and_then_succeed() {
    check(
        DEMO,
        &[at_attempt(2, 1), at_attempt(2, 2), at_attempt(2, 3), at_attempt(2, 4)],
        expect![[r#"
            heard [] in 0 ms
            Unavailable for 1500 ms: the model answered with status 529
            heard ["Test"] in 0 ms
            Broken: connection lost after 4 bytes
            heard [] in 60000 ms
            Broken: stalled for 60000 ms
            heard ["Testing."] in 0 ms
            says "Testing."
            calls bash {"command":"cargo test"}
            calls read {}
            used 0 in, 0 out, 0 read, 0 written, $0.0000
        "#]],
    );
}

/// A killed and resumed run asks again with the same request, of a model that was just loaded.
#[test]
fn the_same_request_gets_the_same_answer() {
    let model = Scripted::parse("demo.yaml", DEMO, TOOLS).unwrap();
    let runtime = runtime();
    for (turn, attempt) in [(3, 1), (2, 4), (2, 1), (1, 1), (2, 2)] {
        let ask = |model: &Scripted| {
            runtime.block_on(model.call(at_attempt(turn, attempt), &longhaul_model::Quiet))
        };
        let fresh = Scripted::parse("demo.yaml", DEMO, TOOLS).unwrap();
        assert_eq!(ask(&model), ask(&model), "turn {turn} attempt {attempt}");
        assert_eq!(ask(&model), ask(&fresh), "turn {turn} attempt {attempt}");
    }
}

#[test]
fn a_status_decides_whether_asking_again_could_help() {
    let kind = |status: u16| {
        let script = format!("conversations: [ {{ turns: [ {{ fail: [ {{ status: {status} }} ] }} ] }} ]");
        play(&script, &request()).lines().nth(1).unwrap().to_owned()
    };
    let kinds: Vec<String> = [400, 401, 403, 404, 408, 409, 413, 422, 429, 499, 500, 503, 529, 599]
        .into_iter()
        .map(kind)
        .collect();
    expect![[r#"
        Rejected: the model answered with status 400
        Credentials: the model answered with status 401
        Credentials: the model answered with status 403
        Rejected: the model answered with status 404
        Unavailable: the model answered with status 408
        Unavailable: the model answered with status 409
        Overflow: the model answered with status 413
        Rejected: the model answered with status 422
        RateLimited: the model answered with status 429
        Rejected: the model answered with status 499
        Unavailable: the model answered with status 500
        Unavailable: the model answered with status 503
        Unavailable: the model answered with status 529
        Unavailable: the model answered with status 599"#]]
    .assert_eq(&kinds.join("\n"));
}

/// F28: one entry may stand for a long outage.
#[test]
fn a_failure_may_last_for_several_attempts() {
    let script = "conversations: [ { turns: [ { text: up, fail: [ { status: 529, times: 96 }, { status: 500 } ] } ] } ]";
    let said = |attempt: u32| play(script, &at_attempt(1, attempt)).lines().nth(1).unwrap().to_owned();
    let down = |status: u32| format!("Unavailable: the model answered with status {status}");
    assert_eq!([said(1), said(96), said(97)], [down(529), down(529), down(500)]);
    assert_eq!([said(98), said(u32::MAX)], [r#"says "up""#, r#"says "up""#]);
}

/// F27: a raw wait is read within bounds; what cannot be read is no wait.
#[test]
fn a_raw_wait_is_bounded() {
    let wait = |text: &str| {
        let script = format!(
            "conversations: [ {{ turns: [ {{ fail: [ {{ status: 429, retry_after: '{text}' }} ] }} ] }} ]"
        );
        play(&script, &request()).lines().nth(1).unwrap().split(':').next().unwrap().to_owned()
    };
    for (text, ms) in [("0", 1000), ("-1", 1000), ("2.5", 2500), ("1e12", 86_400_000)] {
        assert_eq!(wait(text), format!("RateLimited for {ms} ms"), "{text}");
    }
    for text in ["garbage", "NaN", "Thu, 01 Jan 1970 00:00:00 GMT"] {
        assert_eq!(wait(text), "RateLimited", "{text}");
    }
}

const FAULTS: &[&str] = &[
    "credentials",
    "forbidden",
    "quota",
    "model_removed",
    "overflow",
    "overloaded",
    "rate_limited",
    "refused_content",
    "pings_only",
    "silence",
    "drip",
    "huge_event",
    "endless_events",
    "html",
    "empty",
    "gzip_bomb",
    "wrong_type",
    "truncated_json",
    "invalid_utf8",
    "garbage_tls",
];

/// A call that was refused for its arguments is refused for the same reason when it is played again.
#[test]
fn a_call_that_could_not_be_read_is_none_again() {
    check(
        r#"
            conversations:
              - turns:
                  - calls:
                      - { tool: bash, args: { unreadable: '{"command": ' }, malformed: "not JSON: EOF" }
                      - { tool: read, args: { path: x } }
        "#,
        &[request()],
        expect![[r#"
            heard [] in 0 ms
            says ""
            calls bash {"unreadable":"{\"command\": "}
            which is not JSON: EOF
            calls read {"path":"x"}
            used 0 in, 0 out, 0 read, 0 written, $0.0000
        "#]],
    );
}

fn with_fault(name: &str) -> String {
    format!("conversations: [ {{ turns: [ {{ text: hi, fail: [ {{ fault: {name} }} ] }} ] }} ]")
}

/// F30, F32, F33, F35, F36: without a server every fault is a failure of its kind.
#[test]
fn a_named_fault_is_a_failure_of_its_kind() {
    let said = |name: &&str| play(&with_fault(name), &request()).lines().nth(1).unwrap().to_owned();
    let said: Vec<String> = FAULTS.iter().map(said).collect();
    expect![[r#"
        Credentials: the model's provider failed with credentials
        Credentials: the model's provider failed with forbidden
        Quota: the model's provider failed with quota
        ModelUnknown: the model's provider failed with model_removed
        Overflow: the model's provider failed with overflow
        Unavailable: the model's provider failed with overloaded
        RateLimited for 2000 ms: the model's provider failed with rate_limited
        Refused: the model's provider failed with refused_content
        Unavailable: the model's provider failed with pings_only
        Unavailable: the model's provider failed with silence
        Broken: the model's provider failed with drip
        Broken: the model's provider failed with huge_event
        Broken: the model's provider failed with endless_events
        Unreachable: the model's provider failed with html
        Broken: the model's provider failed with empty
        Broken: the model's provider failed with gzip_bomb
        Unreachable: the model's provider failed with wrong_type
        Broken: the model's provider failed with truncated_json
        Broken: the model's provider failed with invalid_utf8
        Unreachable: the model's provider failed with garbage_tls"#]]
    .assert_eq(&said.join("\n"));
}

/// F34: nasty replies are replies; what cannot be JSON is a string.
#[test]
fn a_nasty_reply_is_played() {
    let said = |name: &str| play(&with_fault(name), &request());
    for name in ["duplicate_ids", "unknown_tool", "args_not_object", "null_content", "malformed_args"] {
        assert!(said(name).contains("says "), "{name}");
    }
    assert!(said("duplicate_ids").contains("calls read {}\ncalls read {}\n"));
    assert!(said("unknown_tool").contains("calls no_such_tool {}\n"));
    assert!(said("args_not_object").contains("calls read [1, 2]\n"));
    assert!(said("malformed_args").contains(r#"calls read "{\"path\": \"a""#));
    assert!(said("malformed_args").contains("which is "));
    assert!(said("null_content").contains("says \"\"\nused"));
    assert_eq!(said("many_calls").matches("calls read {}\n").count(), 500);
}

#[test]
fn a_fatal_failure_is_said_in_the_scripts_words() {
    let script = "conversations: [ { turns: [ { fail: [ { fatal: credit is exhausted } ], text: x } ] } ]";
    check(
        script,
        &[request()],
        expect![[r#"
        heard [] in 0 ms
        Fatal: credit is exhausted
    "#]],
    );
}

#[test]
fn a_lost_connection_never_cuts_a_letter_and_never_invents_bytes() {
    let lost_after = |bytes: usize| {
        format!(
            "conversations: [ {{ turns: [ {{ text: 'aüb', fail: [ {{ disconnect_after_bytes: {bytes} }} ] }} ] }} ]"
        )
    };
    check(
        &lost_after(0),
        &[request()],
        expect![[r#"
            heard [] in 0 ms
            Broken: connection lost after 0 bytes
        "#]],
    );
    check(
        &lost_after(2),
        &[request()],
        expect![[r#"
            heard ["a"] in 0 ms
            Broken: connection lost after 2 bytes
        "#]],
    );
    check(
        &lost_after(40),
        &[request()],
        expect![[r#"
            heard ["aüb"] in 0 ms
            Broken: connection lost after 40 bytes
        "#]],
    );
}

#[test]
fn a_delay_streams_the_text_over_that_time() {
    let delayed =
        |text: &str| format!("conversations: [ {{ turns: [ {{ text: '{text}', delay_ms: 1001 }} ] }} ]");
    check(
        &delayed("Once upon a time there was"),
        &[request()],
        expect![[r#"
        heard ["Onc", "e u", "pon", " a ", "tim", "e t", "here", " was"] in 1001 ms
        says "Once upon a time there was"
        used 0 in, 0 out, 0 read, 0 written, $0.0000
    "#]],
    );
    check(
        &delayed("äöü"),
        &[request()],
        expect![[r#"
        heard ["ä", "ö", "ü"] in 1001 ms
        says "äöü"
        used 0 in, 0 out, 0 read, 0 written, $0.0000
    "#]],
    );
    check(
        &delayed(""),
        &[request()],
        expect![[r#"
        heard [] in 1001 ms
        says ""
        used 0 in, 0 out, 0 read, 0 written, $0.0000
    "#]],
    );
}

#[test]
fn dropping_the_call_cancels_it() {
    let script = "conversations: [ { turns: [ { text: never heard to the end, delay_ms: 60000 } ] } ]";
    let model = Scripted::parse("demo.yaml", script, TOOLS).unwrap();
    let heard = Heard::default();
    let runtime = runtime();
    let waited = runtime.block_on(async {
        let patience = std::time::Duration::from_millis(10_000);
        tokio::time::timeout(patience, model.call(request(), &heard)).await
    });
    assert!(waited.is_err());
    assert_eq!(heard.0.into_inner().unwrap(), ["ne"]);
}

const CAST: &str = r#"
conversations:
  - match: { agent: coder, step: step-2, iteration: 2, depth: 1 }
    turns: [ { text: all four } ]
  - match: { depth: 3 }
    turns: [ { text: deep } ]
  - match: { iteration: 7 }
    turns: [ { text: seventh } ]
  - match: { step: step-9 }
    turns: [ { text: ninth step } ]
  - match: { agent: critic }
    turns: [ { text: critic } ]
  - match: { prompt_contains: parser }
    turns: [ { text: about the parser } ]
  - match: { prompt_contains: careful }
    turns: [ { text: careful } ]
"#;

#[test]
fn the_first_conversation_that_fits_is_played() {
    let said = |request: ModelRequest| play(CAST, &request).lines().nth(1).unwrap().to_owned();
    let all_four = in_scene(|scene| {
        (scene.step, scene.iteration, scene.depth) = ("step-2".into(), 2, 1);
    });
    assert_eq!(said(all_four), r#"says "all four""#);
    assert_eq!(said(in_scene(|scene| scene.depth = 3)), r#"says "deep""#);
    assert_eq!(said(in_scene(|scene| scene.iteration = 7)), r#"says "seventh""#);
    assert_eq!(said(in_scene(|scene| scene.step = "step-9".into())), r#"says "ninth step""#);
    assert_eq!(said(in_scene(|scene| scene.agent = "critic".into())), r#"says "critic""#);
    assert_eq!(said(request()), r#"says "about the parser""#);
}

#[test]
fn the_prompt_is_the_system_text_and_the_first_user_message() {
    let user = |text: &str| Message::User { text: text.to_owned() };
    check(
        CAST,
        &[after(vec![user("Hello."), assistant(), user("now the parser")])],
        expect![[r#"
        heard ["careful"] in 0 ms
        says "careful"
        used 0 in, 0 out, 0 read, 0 written, $0.0000
    "#]],
    );
    let mut unknown = after(vec![]);
    unknown.system = "".into();
    check(
        CAST,
        &[unknown],
        expect![[r#"
        heard [] in 0 ms
        Fatal: no conversation of script `demo.yaml` fits agent `coder`, step `step-1`, iteration 1, depth 0
    "#]],
    );
}

#[test]
fn the_last_results_choose_the_branch() {
    let tested = |results: &[&str]| {
        let mut messages = vec![Message::User { text: "Go.".to_owned() }, assistant()];
        messages.extend(results.iter().map(|text| result(text)));
        let mut request = after(messages);
        request.scene.turn = 3;
        request
    };
    check(
        DEMO,
        &[tested(&["an error: and error[E0308]"]), tested(&["ok", "an error"]), tested(&["ok"])],
        expect![[r#"
            heard ["Fixing."] in 0 ms
            says "Fixing."
            calls edit {}
            used 0 in, 7 out, 0 read, 0 written, $0.0001
            heard ["Thinking."] in 0 ms
            says "Thinking."
            used 0 in, 0 out, 0 read, 0 written, $0.0000
            heard ["All green.\nTASK_COMPLETE"] in 0 ms
            says "All green.\nTASK_COMPLETE"
            used 0 in, 0 out, 0 read, 0 written, $0.0000
        "#]],
    );
}

#[test]
fn older_results_and_other_messages_choose_no_branch() {
    let steered = Message::User { text: "no error please".to_owned() };
    let mut request = after(vec![assistant(), result("error[E1]"), assistant(), result("ok"), steered]);
    request.scene.turn = 3;
    assert_eq!(play(DEMO, &request), play(DEMO, &at_turn(3)));
}

#[test]
fn a_script_may_be_json() {
    let script = r#"{"prices": {"input": 1, "output": 2}, "conversations": [{"turns": [
        {"text": "hi\u00fc", "calls": [{"tool": "write", "args": {"path": "a", "content": "x\ny"}}], "usage": {"input": 500000}}]}]}"#;
    check(
        script,
        &[request()],
        expect![[r#"
        heard ["hiü"] in 0 ms
        says "hiü"
        calls write {"content":"x\ny","path":"a"}
        used 500000 in, 0 out, 0 read, 0 written, $0.5000
    "#]],
    );
}

#[test]
fn cached_tokens_without_a_price_cost_as_much_as_input() {
    let script = "{ prices: { input: 3, output: 15 }, conversations: [ { turns: [ { usage: { cache_read: 1000000 } } ] } ] }";
    check(
        script,
        &[request()],
        expect![[r#"
        heard [] in 0 ms
        says ""
        used 0 in, 0 out, 1000000 read, 0 written, $3.0000
    "#]],
    );
}

#[test]
fn unknown_keys_are_named_with_their_line_and_the_keys_there_are() {
    refuse(
        &[
            "nmae: x\nconversations: []\n",
            "conversations:\n  - turn:\n      - text: hi\n",
            "conversations:\n  - match: { agnet: a }\n    turns: [ {} ]\n",
            "conversations:\n  - turns:\n      - text: hi\n        delay: 4\n",
            "conversations:\n  - turns:\n      - usage: { tokens: 4 }\n",
            "conversations:\n  - turns:\n      - fail: [ { code: 500 } ]\n",
            "conversations:\n  - turns:\n      - calls: [ { tool: read, arg: {} } ]\n",
            "conversations:\n  - turns:\n      - when_result_contains: { x: { fail: [] } }\n",
            "prices: { in: 1 }\nconversations: []\n",
        ],
        expect![[r#"
            demo.yaml:1:1: unknown key `nmae`
            hint: did you mean `name`? known keys: `name`, `context_window`, `prices`, `conversations`
            demo.yaml:2:5: unknown key `turn`
            hint: did you mean `turns`? known keys: `match`, `turns`
            demo.yaml:2:14: unknown key `agnet`
            hint: did you mean `agent`? known keys: `agent`, `step`, `iteration`, `depth`, `prompt_contains`
            demo.yaml:4:9: unknown key `delay`
            hint: did you mean `delay_ms`? known keys: `text`, `calls`, `usage`, `stop`, `delay_ms`, `fail`, `when_result_contains`
            demo.yaml:3:18: unknown key `tokens`
            hint: known keys: `input`, `output`, `cache_read`, `cache_write`, `cost`, `estimated`
            demo.yaml:3:19: unknown key `code`
            hint: known keys: `status`, `retry_after_ms`, `retry_after`, `disconnect_after_bytes`, `stall_ms`, `fatal`, `fault`, `times`
            demo.yaml:3:32: unknown key `arg`
            hint: did you mean `args`? known keys: `tool`, `args`, `malformed`, `unknown`
            demo.yaml:3:38: unknown key `fail`
            hint: known keys: `text`, `calls`, `usage`, `stop`, `delay_ms`
            demo.yaml:1:11: unknown key `in`
            hint: did you mean `input`? known keys: `input`, `output`, `cache_read`, `cache_write`
        "#]],
    );
}

#[test]
fn unknown_tools_are_named_with_their_line_and_the_tools_there_are() {
    refuse(
        &[
            "conversations:\n  - turns:\n      - calls:\n        - tool: raed\n",
            "conversations:\n  - turns:\n      - when_result_contains:\n          x:\n            calls: [ { tool: teleport } ]\n",
        ],
        expect![[r#"
            demo.yaml:4:17: unknown tool `raed`
            hint: did you mean `read`? known tools: `bash`, `edit`, `read`, `write`
            demo.yaml:5:30: unknown tool `teleport`
            hint: known tools: `bash`, `edit`, `read`, `write`
        "#]],
    );
    let none =
        Scripted::parse("demo.yaml", "conversations: [ { turns: [ { calls: [ { tool: x } ] } ] } ]", &[]);
    expect![[r#"
        demo.yaml:1:48: unknown tool `x`
        hint: no tools are known here
    "#]]
    .assert_eq(&complaint(&none.unwrap_err()));
}

#[test]
fn a_script_that_says_nothing_is_refused() {
    refuse(
        &[
            "",
            "# only a comment\n---\n",
            "~",
            "name: x\n",
            "name: x\nconversations: []\n",
            "conversations:\n",
            "conversations:\n  - turns: []\n",
            "conversations:\n  - match: {}\n",
        ],
        expect![[r#"
            demo.yaml:1:1: the script is empty
            hint: a script needs `conversations: [ { turns: [ { text: … } ] } ]`
            demo.yaml:1:1: the script is empty
            hint: a script needs `conversations: [ { turns: [ { text: … } ] } ]`
            demo.yaml:1:1: the key `conversations` is missing
            demo.yaml:1:1: the key `conversations` is missing
            demo.yaml:2:16: the script has no conversations
            demo.yaml:1:14: the script has no conversations
            demo.yaml:2:12: the conversation has no turns
            demo.yaml:2:5: the key `turns` is missing
        "#]],
    );
}

#[test]
fn wrong_values_are_refused_where_they_stand() {
    let turn = |turn: &str| format!("conversations:\n  - turns:\n      - {turn}\n");
    refuse(
        &[
            &turn("calls: [ { tool: read, args: [ 1 ] } ]"),
            &turn("calls: [ { tool: read, args: text } ]"),
            &turn("calls: [ { args: {} } ]"),
            &turn("calls: read"),
            &turn("fail: [ { status: 200 } ]"),
            &turn("fail: [ { status: 500, stall_ms: 1 } ]"),
            &turn("fail: [ { stall_ms: 1, retry_after_ms: 1 } ]"),
            &turn("fail: [ {} ]"),
            &turn("fail: [ { fault: silence, retry_after: x } ]"),
            &turn("fail: [ { status: 429, retry_after_ms: 1, retry_after: x } ]"),
            &turn("fail: [ { status: 429, retry_after: \"a\\r\\nb\" } ]"),
            &turn("fail: [ { fault: silense } ]"),
            &turn("fail: [ { status: 500, times: 0 } ]"),
            &turn("fail: [ { status: 500, times: 100001 } ]"),
            &turn("fail: [ { times: 3 } ]"),
            &turn("fail: [ { stall_ms: -1 } ]"),
            &turn("delay_ms: 86400001"),
            &turn("when_result_contains: [ x ]"),
            &turn("text: a\n        text: b"),
            "context_window: 0\nconversations: [ { turns: [ {} ] } ]",
            "prices: { input: -1, output: 1 }\nconversations: [ { turns: [ {} ] } ]",
            "prices: { input: .nan, output: 1 }\nconversations: [ { turns: [ {} ] } ]",
            "prices: { input: 1 }\nconversations: [ { turns: [ {} ] } ]",
            "name: [ unclosed\n",
            "conversations: [ { turns: [ {} ] } ]\n---\nname: second\n",
        ],
        expect![[r#"
            demo.yaml:3:38: `args` is not a mapping
            hint: write `args: { name: value }`
            demo.yaml:3:38: `args` is not a mapping
            hint: write `args: { name: value }`
            demo.yaml:3:20: the key `tool` is missing
            demo.yaml:3:16: expected a list
            demo.yaml:3:27: status 200 is not a failure
            hint: error statuses are 400 to 599
            demo.yaml:3:17: a failure is exactly one thing
            hint: one of `status` (with `retry_after_ms` or `retry_after` if you like), `disconnect_after_bytes`, `stall_ms`, `fatal`, `fault`; and `times` with each of them
            demo.yaml:3:17: a failure is exactly one thing
            hint: one of `status` (with `retry_after_ms` or `retry_after` if you like), `disconnect_after_bytes`, `stall_ms`, `fatal`, `fault`; and `times` with each of them
            demo.yaml:3:17: a failure is exactly one thing
            hint: one of `status` (with `retry_after_ms` or `retry_after` if you like), `disconnect_after_bytes`, `stall_ms`, `fatal`, `fault`; and `times` with each of them
            demo.yaml:3:17: a failure is exactly one thing
            hint: one of `status` (with `retry_after_ms` or `retry_after` if you like), `disconnect_after_bytes`, `stall_ms`, `fatal`, `fault`; and `times` with each of them
            demo.yaml:3:17: a failure is exactly one thing
            hint: one of `status` (with `retry_after_ms` or `retry_after` if you like), `disconnect_after_bytes`, `stall_ms`, `fatal`, `fault`; and `times` with each of them
            demo.yaml:3:45: `retry_after` is not a short text without control characters
            demo.yaml:3:26: unknown fault `silense`
            hint: did you mean `silence`? known faults: `credentials`, `forbidden`, `quota`, `model_removed`, `overflow`, `overloaded`, `rate_limited`, `refused_content`, `pings_only`, `silence`, `drip`, `huge_event`, `endless_events`, `html`, `empty`, `gzip_bomb`, `wrong_type`, `truncated_json`, `invalid_utf8`, `garbage_tls`, `duplicate_ids`, `unknown_tool`, `args_not_object`, `many_calls`, `null_content`, `malformed_args`, `no_usage`
            demo.yaml:3:39: `times` is not within 1 and 100000
            demo.yaml:3:39: `times` is not within 1 and 100000
            demo.yaml:3:17: a failure is exactly one thing
            hint: one of `status` (with `retry_after_ms` or `retry_after` if you like), `disconnect_after_bytes`, `stall_ms`, `fatal`, `fault`; and `times` with each of them
            demo.yaml:3:29: expected a whole number, zero or more
            demo.yaml:3:19: `delay_ms` is longer than a day (86400000 ms)
            demo.yaml:3:31: expected a mapping
            demo.yaml:4:9: the key `text` is there twice
            demo.yaml:1:17: `context_window` is zero
            demo.yaml:1:18: a price is an amount of dollars, zero or more
            demo.yaml:1:18: a price is an amount of dollars, zero or more
            demo.yaml:1:11: the key `output` is missing
            demo.yaml:1:7: expected a text
            demo.yaml:3:1: a script is one document, and here begins another
        "#]],
    );
}

#[test]
fn bombs_are_refused() {
    let nested = |depth: usize| {
        let args = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        format!("conversations:\n  - turns:\n      - calls: [ {{ tool: read, args: {{ a: {args} }} }} ]\n")
    };
    assert!(Scripted::parse("demo.yaml", &nested(40), TOOLS).is_ok());
    refuse(
        &[&nested(100)],
        expect![[r#"
        demo.yaml:3:99: the script is too deep or too large: Depth { depth: 65 }
    "#]],
    );
    assert!(Scripted::parse("demo.yaml", &nested(100_000), TOOLS).is_err());

    let mut laughs = "a0: &a0 [ x, x, x, x, x, x, x, x, x, x ]\n".to_owned();
    for level in 1..9 {
        let before = vec![format!("*a{}", level - 1); 10].join(", ");
        laughs += &format!("          a{level}: &a{level} [ {before} ]\n");
    }
    let laughs = format!(
        "conversations:\n  - turns:\n      - calls:\n        - tool: read\n          args:\n          {laughs}"
    );
    let error = Scripted::parse("demo.yaml", &laughs, TOOLS).unwrap_err();
    assert!(error.to_string().starts_with("demo.yaml:"), "{error}");

    let large = " ".repeat(limits::SCRIPT_BYTES_MAX + 1);
    refuse(
        &[&large],
        expect![[r#"
        script `demo.yaml` is larger than 16777216 bytes
    "#]],
    );
}

/// Compares the complaints about files, whose directory changes from test to test.
fn refuse_files(dir: &Path, names: &[&str], expected: Expect) {
    let refused = |name: &&str| complaint(&Scripted::load(&dir.join(name), TOOLS).unwrap_err());
    let complaints: String = names.iter().map(refused).collect();
    expected.assert_eq(&complaints.replace(&dir.display().to_string(), "DIR"));
}

#[test]
fn files_that_cannot_be_scripts_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    std::fs::write(
        dir.join("latin1.yaml"),
        b"name: x\nconversations: [ { turns: [ { text: \"f\xfcr\" } ] } ]",
    )
    .unwrap();
    std::fs::write(dir.join("empty.yaml"), "").unwrap();
    let large = std::fs::File::create(dir.join("large.yaml")).unwrap();
    large.set_len(limits::SCRIPT_BYTES_MAX as u64 + 1).unwrap();
    refuse_files(
        dir,
        &["latin1.yaml", "empty.yaml", "large.yaml", "missing.yaml", "."],
        expect![[r#"
        DIR/latin1.yaml:2:39: the script is not UTF-8 text
        DIR/empty.yaml:1:1: the script is empty
        hint: a script needs `conversations: [ { turns: [ { text: … } ] } ]`
        script `DIR/large.yaml` is larger than 16777216 bytes
        cannot read script `DIR/missing.yaml`
        script `DIR/.` is not a regular file
    "#]],
    );
}

#[test]
fn names_resolve_to_models() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("demo.yaml");
    std::fs::write(&path, DEMO).unwrap();
    let offer = |tool: &&str| ToolOffer {
        name: (*tool).to_owned(),
        description: String::new(),
        schema: serde_json::json!({}),
    };
    let offers = TOOLS.iter().map(offer).collect();
    let models = Models { base_dir: dir.path().to_owned(), offers, ..Models::default() };
    let absolute = format!("scripted/{}", path.display());
    for name in ["scripted/demo.yaml", &absolute] {
        assert_eq!(models.resolve(name).map(|model| model.context_window()).unwrap(), 100_000, "{name}");
    }
    let mut complaints = String::new();
    for name in [
        "nobody/gpt",
        "openai/gpt",
        "demo",
        "scripted/",
        "/demo",
        "",
        "Scripted/demo.yaml",
        "scripted/none.yaml",
    ] {
        let error = models.resolve(name).err().unwrap();
        complaints += &format!("{name}: {error}; {:?}\n", error.hint());
    }
    expect![[r#"
        nobody/gpt: unknown provider `nobody`; Some("known providers: anthropic, llamacpp, lmstudio, ollama, openai, scripted, vllm; others are configured under `providers` in longhaul.yaml")
        openai/gpt: provider `openai` needs a key, and $OPENAI_API_KEY is not set; Some("export OPENAI_API_KEY=…, or name another variable (`api_key_env`) or a command (`api_key_command`) in longhaul.yaml")
        demo: model name `demo` is not of the form `provider/model`; Some("for example `anthropic/claude-…` or `scripted/demo.yaml`; see `longhaul models list`")
        scripted/: model name `scripted/` is not of the form `provider/model`; Some("for example `anthropic/claude-…` or `scripted/demo.yaml`; see `longhaul models list`")
        /demo: model name `/demo` is not of the form `provider/model`; Some("for example `anthropic/claude-…` or `scripted/demo.yaml`; see `longhaul models list`")
        : model name `` is not of the form `provider/model`; Some("for example `anthropic/claude-…` or `scripted/demo.yaml`; see `longhaul models list`")
        Scripted/demo.yaml: unknown provider `Scripted`; Some("known providers: anthropic, llamacpp, lmstudio, ollama, openai, scripted, vllm; others are configured under `providers` in longhaul.yaml")
        scripted/none.yaml: cannot read script `DIR/none.yaml`; None
    "#]].assert_eq(&complaints.replace(&dir.path().display().to_string(), "DIR"));
}
