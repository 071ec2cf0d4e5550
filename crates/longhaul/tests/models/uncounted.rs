//! A provider that says nothing of the tokens it used: they are estimated, so that every limit still holds.

use serde_json::Value;

use super::rig::{APIS, PRICES, Rig, asked, provider, serve};

/// It calls a tool for ever, and never says what that took.
fn endless() -> String {
    "conversations: [ { turns: [ { text: On., calls: [ { tool: bash, args: { command: 'date +%N' } } ], \
     fail: [ { fault: no_usage } ] } ] } ]"
        .to_owned()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

/// B8.4: a limit on tokens or money bites over every protocol, and it is said once that the numbers are estimates.
#[test]
fn limits_hold_where_nobody_counts() {
    for api in APIS {
        for limit in [&["--max-tokens", "9000"][..], &["--max-cost", "0.03"]] {
            let fake = serve(&endless());
            let rig = Rig::with_all(&fake);
            let said = rig.run(&format!("{api}/m"), limit);
            assert_eq!(said.code, 4, "{api} {limit:?}: {said:?}");
            let turns = asked(&fake).len();
            assert!((1..12).contains(&turns), "{api} {limit:?}: {turns} turns");
            let usage = &said.json()["usage"];
            let tokens = number(&usage["inputTokens"]) + number(&usage["outputTokens"]);
            assert!(tokens > 0 && usage["estimatedTokens"] == tokens, "{api}: {usage}");
            assert!(usage["costUsd"].as_f64().unwrap() > 0.0, "{api}: {usage}");
            let warned = format!("did not count {tokens} tokens; they are estimated");
            assert_eq!(said.err.matches("estimated").count(), 1, "{said:?}");
            assert!(said.err.contains(&warned), "{said:?}");
            let id = said.id();
            assert!(rig.say(&["cost", &id]).err.contains(&warned));
            assert!(rig.get(&["show", &id]).contains(&format!("({tokens} of them estimated)")));
        }
    }
}

/// Without a price the cost is unknown, which is not nothing.
#[test]
fn an_estimate_without_a_price_costs_an_unknown_amount() {
    let fake = serve("conversations: [ { turns: [ { text: Done., fail: [ { fault: no_usage } ] } ] } ]");
    let rig = Rig::with(&[provider("mine", "chat", &fake.url(), "context_window: 8000")]);
    let said = rig.run("mine/m", &[]);
    let usage = &said.json()["usage"];
    assert!(said.code == 0 && usage["costUsd"] == Value::Null, "{usage}");
    assert!(
        number(&usage["unpricedTokens"]) > 0 && usage["unpricedTokens"] == usage["estimatedTokens"],
        "{usage}"
    );
}

/// A turn that is asked again is booked once, for the reply that came.
#[test]
fn a_retried_turn_is_estimated_once() {
    let used = |fails: &str| {
        let fake = serve(&format!(
            "conversations: [ {{ turns: [ {{ text: Done., fail: [ {fails} {{ fault: no_usage }} ] }} ] }} ]"
        ));
        let rig = Rig::with(&[provider("mine", "chat", &fake.url(), PRICES)]);
        let said = rig.run("mine/m", &[]);
        assert_eq!(said.code, 0, "{said:?}");
        (asked(&fake).len(), number(&said.json()["usage"]["estimatedTokens"]))
    };
    let (once, tokens) = used("");
    let (again, retried) = used("{ status: 503, times: 2 }, { disconnect_after_bytes: 40 },");
    // The workspace's path is part of what is sent, and each test has its own.
    assert!(once == 1 && again == 4 && tokens.abs_diff(retried) < 50, "{once} {again} {tokens} {retried}");
}
