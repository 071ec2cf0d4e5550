//! A turn that is asked again counts once, and of a reply that broke off nothing is done.

use serde_json::json;

use super::rig::{APIS, Exchanged, Rig, asked, serve};

/// C3.8: the line breaks at every part of a reply, most of them inside the arguments of a call that could already be read; the call
/// is made once, its tokens are counted once, and the model hears of one call.
#[test]
fn half_a_call_is_no_call() {
    let filler = "x".repeat(4000);
    let cuts = [0, 1, 200, 700, 1200, 1700, 2200, 2700, 3200, 3700];
    let fails: Vec<String> =
        cuts.iter().map(|bytes| format!("{{ disconnect_after_bytes: {bytes} }}")).collect();
    let script = format!(
        r#"
conversations:
  - turns:
      - text: "I append."
        calls:
          - {{ tool: bash, args: {{ command: "echo once >> calls.txt" }} }}
          - {{ tool: bash, args: {{ command: "echo twice >> calls.txt # {filler}" }} }}
        fail: [ {} ]
        usage: {{ input: 1000, output: 100, cache_read: 10 }}
      - text: "Done."
        usage: {{ input: 2000, output: 5 }}
"#,
        fails.join(", ")
    );
    for api in APIS {
        let fake = serve(&script);
        let rig = Rig::with_all(&fake);
        let said = rig.run(&format!("{api}/m"), &[]);
        assert_eq!(said.code, 0, "{api}: {said:?}");
        assert_eq!(rig.read("calls.txt"), "once\ntwice\n", "{api}");
        let requests = asked(&fake);
        assert_eq!(requests.len(), cuts.len() + 2, "{api}");
        let told = Exchanged::of(&requests[cuts.len() + 1]);
        told.check();
        assert_eq!(told.calls.len(), 2, "{api}");
        let shown = rig.show(&said.id());
        let usage = json!({
            "inputTokens": 3000, "outputTokens": 105, "cacheReadTokens": 10, "cacheWriteTokens": 0,
            "costUsd": 0.010578, "unpricedTokens": 0,
        });
        assert_eq!(shown["usage"], usage, "{api}");
        assert_eq!((&shown["turnCount"], &shown["toolCallCount"]), (&json!(2), &json!(2)), "{api}");
        let cost = rig.json(&["cost", &said.id()]);
        assert_eq!((&cost["spending"][0]["replies"], &cost["total"]), (&json!(2), &usage), "{api}");
        assert_eq!(rig.events_of(&said.id(), "turn_failed").len(), cuts.len(), "{api}");
        assert_eq!(rig.events_of(&said.id(), "model_reply").len(), 2, "{api}");
    }
}

/// A process that dies while the model speaks asks again; the half that was heard is not counted and not done.
#[test]
fn a_turn_cut_short_by_a_kill_counts_once() {
    let script = r#"
conversations:
  - turns:
      - text: "I append."
        calls: [ { tool: bash, args: { command: "echo once >> calls.txt" } } ]
        fail: [ { stall_ms: 600000 } ]
        usage: { input: 1000, output: 100 }
      - text: "Done."
        usage: { input: 2000, output: 5 }
"#;
    for api in APIS {
        let fake = serve(script);
        let rig = Rig::with_all(&fake);
        let mut driver = rig.start(&["run", "x", "--in-place", "--model", &format!("{api}/m")]);
        super::rig::until("a question", || asked(&fake).first().cloned());
        driver.kill();
        let id = rig.only_run();
        assert_eq!(rig.get(&["resume", &id]), "Done.\n", "{api}");
        assert_eq!(rig.read("calls.txt"), "once\n", "{api}");
        let shown = rig.show(&id);
        assert_eq!((&shown["usage"]["inputTokens"], &shown["turnCount"]), (&json!(3000), &json!(2)), "{api}");
        assert_eq!(asked(&fake).len(), 3, "{api}");
    }
}
